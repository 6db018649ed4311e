//! Servers of the cluster that come and go by what is measured: what is seen of members, saved, and asked of an actuator.

use evenkeel_balance::cachelet_load::{CacheletLoad, WorkerLoad};
use evenkeel_control::loads::LoadNews;

use super::scaled::Actuated;
use super::*;
use crate::scale::{
    Act, Band, Outcome, Phase, PhaseName, ScaleMode, ScaleSettings, limits as of_scale,
};

/// Servers that were started by hand, `s1` to `s3`.
const BY_HAND: u16 = 3;

/// The first that the actuator starts.
const NAME: &str = "test-1";

const BAND: Band = Band {
    lower: 100.0,
    upper: 200.0,
};

/// Requests a second of each server that are too many, enough, and too few.
const MANY: f64 = 1_000.0;
const ENOUGH: f64 = 150.0;
const FEW: f64 = 10.0;

fn settings() -> ScaleSettings {
    ScaleSettings {
        mode: ScaleMode::Automatic,
        requests_per_server: Some(BAND),
        min: usize::from(BY_HAND),
        max: usize::from(BY_HAND) + 1,
        sustain_ms: 2_000,
        cooldown_added_ms: 0,
        cooldown_removed_ms: 0,
        ..ScaleSettings::default()
    }
}

/// A cluster whose servers tell what they carry, and an actuator that runs what is told.
struct Scaled {
    world: World,
    members: Vec<Heartbeat>,
    runs: BTreeMap<String, String>,
}

impl Actuated for Scaled {
    const POOL: &str = "test";

    fn world(&mut self) -> &mut World {
        &mut self.world
    }

    fn runs(&self) -> BTreeMap<String, String> {
        self.runs.clone()
    }
}

impl Scaled {
    fn new() -> Scaled {
        let mut world = World::new(usize::from(BY_HAND));
        let mut members: Vec<_> = (1..=BY_HAND).map(|n| server(n, 1)).collect();
        members.push(proxy("p1"));
        world.send_current(&mut members);
        let mut scaled = Scaled {
            world,
            members,
            runs: BTreeMap::new(),
        };
        scaled.load(ENOUGH);
        // The coordinator has been there for long enough to know all proxies.
        scaled.pass(5);
        scaled.list();
        scaled
    }

    /// Each server carries this many requests a second from now on.
    fn load(&mut self, each: f64) {
        for member in &mut self.members {
            if member.kind == MemberKind::Server {
                member.load.requests_per_second = vec![each];
            }
        }
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..10 * seconds {
            self.world.pass(100);
            self.world.send_current(&mut self.members);
        }
    }

    /// The member of this name is not heard any more, unless it is sent by hand.
    fn take(&mut self, name: &str) -> Heartbeat {
        let at = self.members.iter().position(|it| it.name == name);
        self.members.remove(at.expect("it is there"))
    }

    /// The same while a member is there that goes on by the map that it had.
    fn pass_with(&mut self, late: &Heartbeat, seconds: u64) {
        for _ in 0..seconds {
            self.pass(1);
            self.world.send(late).expect("it is known");
        }
    }

    fn set(&mut self, settings: &ScaleSettings) -> ScaleView {
        let set = self.world.core.set_scale(self.world.now, "test", settings);
        set.expect("settings that may be")
    }

    /// The process of a newcomer is there, and registers under this name.
    fn register(&mut self, name: &str) {
        let mut newcomer = server(BY_HAND + 1, 1);
        newcomer.name = name.into();
        newcomer.load.requests_per_second = vec![0.0];
        self.world.send(&newcomer).expect("it is new");
        self.members.push(newcomer);
        self.pass(1);
    }

    fn address(&self) -> String {
        let newcomer = server(BY_HAND + 1, 1);
        format!("{}:{}", newcomer.host, newcomer.port)
    }

    /// The actuator says where it runs.
    fn started(&mut self) {
        let (name, address) = (NAME.to_owned(), self.address());
        self.runs.insert(name.clone(), address.clone());
        self.acted(Outcome::Started { name, address });
    }

    /// There are too few servers for long enough.
    fn wants_one() -> Scaled {
        let mut scaled = Scaled::new();
        scaled.set(&settings());
        scaled.pass(3);
        assert_eq!(scaled.phase(), PhaseName::Steady, "{:?}", scaled.view());
        scaled.load(MANY);
        scaled.pass(4);
        let name = NAME.into();
        assert_eq!(scaled.asked(), Some(Act::Start { name }));
        scaled
    }

    /// One more server is a member.
    fn grown() -> Scaled {
        let mut scaled = Scaled::wants_one();
        scaled.register(NAME);
        scaled.started();
        scaled.load(ENOUGH);
        scaled.pass(20);
        assert_eq!(scaled.view().servers, 4, "{:?}", scaled.view());
        scaled
    }

    /// Cachelets of the newcomer.
    fn share(&self) -> usize {
        let newcomer = self.world.core.members.named(NAME);
        newcomer.map_or(0, |id| self.world.core.draft.cachelets_of(id))
    }
}

#[test]
fn a_server_comes_and_owns_nothing_before_it_was_tried() {
    let mut scaled = Scaled::wants_one();
    // It registers before the actuator has said where it is.
    scaled.register(NAME);
    scaled.pass(5);
    assert_eq!(scaled.share(), 0);
    scaled.started();
    scaled.pass(u64::from(of_scale::TRIALS) - 2);
    assert_eq!(
        (scaled.phase(), scaled.share()),
        (PhaseName::Starting, 0),
        "{:?}",
        scaled.view()
    );
    assert_eq!(scaled.world.core.scale_trials(), []);
    scaled.load(ENOUGH);
    scaled.pass(10);
    let view = scaled.view();
    assert_eq!((view.servers, view.wanted), (4, 4), "{view:?}");
    assert!(scaled.share() > 0, "placing sees to its share");
    assert_eq!(scaled.world.core.scale_counts().added, 1);
    let events = scaled.world.core.scale_events().iter();
    let phases: Vec<PhaseName> = events.map(|event| event.phase.name()).collect();
    let expected = [PhaseName::Starting, PhaseName::Joining, PhaseName::Cooling];
    assert_eq!(phases, expected);
}

#[test]
fn another_coordinator_goes_on_with_the_same_newcomer() {
    let mut scaled = Scaled::wants_one();
    scaled.register(NAME);
    scaled.world.restart();
    scaled.pass(2);
    let name = NAME.into();
    assert_eq!(scaled.asked(), Some(Act::Start { name }));
    scaled.started();
    scaled.world.restart();
    scaled.pass(2);
    assert_eq!(scaled.share(), 0);
    let name = NAME.into();
    assert_eq!(scaled.asked(), Some(Act::Start { name }));
    scaled.started();
    scaled.load(ENOUGH);
    scaled.pass(20);
    assert_eq!(scaled.view().servers, 4, "{:?}", scaled.view());
    // It is no stray of another that knows nothing of how it came.
    scaled.world.restart();
    scaled.pass(10);
    scaled.list();
    scaled.pass(2);
    assert_eq!(scaled.asked(), None);
    assert!(scaled.share() > 0);
}

#[test]
fn a_server_is_stopped_when_nobody_can_ask_it_any_more() {
    let mut scaled = Scaled::grown();
    scaled.load(FEW);
    let stop = Act::Stop { name: NAME.into() };
    let late = scaled.take("p1");
    // The proxy is up and does not confirm that the server owns nothing.
    for _ in 0..20 {
        scaled.pass_with(&late, 1);
        assert_eq!(scaled.asked(), None, "{:?}", scaled.view());
    }
    assert_eq!(scaled.phase(), PhaseName::Draining);
    assert_eq!(scaled.share(), 0);
    scaled.members.push(late);
    scaled.pass(3);
    assert_eq!(scaled.asked(), Some(stop.clone()), "{:?}", scaled.view());
    let mut newcomer = scaled.take(NAME);
    (newcomer.leaves, newcomer.epoch) = (true, scaled.world.core.epoch());
    scaled.world.send(&newcomer).expect("it is known");
    scaled.runs.clear();
    scaled.acted(Outcome::Done(stop));
    scaled.pass(2);
    let view = scaled.view();
    assert_eq!((view.servers, view.wanted), (3, 3), "{view:?}");
    assert_eq!(scaled.world.core.scale_counts().removed, 1);
    assert!(view.saved_hours > 0.0 && view.server_hours > 0.0);
}

#[test]
fn a_server_stays_when_another_is_gone() {
    let mut scaled = Scaled::grown();
    scaled.load(FEW);
    let late = scaled.take("p1");
    scaled.pass_with(&late, 6);
    assert_eq!(scaled.phase(), PhaseName::Draining, "{:?}", scaled.view());
    let dead = scaled.members.remove(0);
    scaled.pass_with(&late, 8);
    let view = scaled.view();
    assert_eq!(scaled.world.core.scale_counts().kept, 1, "{view:?}");
    let now = scaled.world.now.monotonic;
    assert_eq!(scaled.world.core.drains(now).drains, []);
    assert!(scaled.share() > 0, "{view:?}");
    // And it goes when that one is back.
    scaled.members.push(dead);
    scaled.load(FEW);
    scaled.pass_with(&late, 6);
    assert_eq!(scaled.phase(), PhaseName::Draining, "{:?}", scaled.view());
}

#[test]
fn what_registers_as_another_or_not_at_all_was_started_in_vain() {
    let within = of_scale::TRIAL_WITHIN.as_secs();
    let mut scaled = Scaled::wants_one();
    scaled.started();
    scaled.pass(2);
    assert!(
        scaled
            .view()
            .why
            .contains("has to be started with --name test-1"),
        "{:?}",
        scaled.view()
    );
    scaled.pass(within);
    let stop = Act::Stop { name: NAME.into() };
    assert_eq!(scaled.asked(), Some(stop.clone()), "{:?}", scaled.view());
    // It registers at last, is to be stopped, and owns nothing.
    scaled.register(NAME);
    scaled.pass(5);
    assert_eq!(scaled.share(), 0);
    assert_eq!(scaled.asked(), Some(stop), "{:?}", scaled.view());

    // What has registered by another name is in use.
    let mut scaled = Scaled::wants_one();
    scaled.register("other");
    scaled.started();
    let view = scaled.view();
    assert!(view.why.contains("which the pool has already"), "{view:?}");
    assert_eq!(scaled.world.core.scale_counts().failed, 1);
    assert_eq!(scaled.asked(), None);
}

/// News of a server of one worker that is busy for this part of its time.
fn news(server: &Heartbeat, world: &World, (load, busy): (f64, f64)) -> LoadNews {
    let id = world.core.members.named(&server.name).expect("a member");
    let owners = world.owners().into_iter().zip(0..);
    let mut its = owners.filter(|(owner, _)| owner.is_some_and(|it| it.server == id));
    let (_, first) = its.next().expect("it owns some");
    let cachelets = vec![CacheletLoad {
        cachelet: CacheletId(first),
        load,
        reads_per_s: 100.0,
        hits_per_s: 75.0,
        ..CacheletLoad::default()
    }];
    let worker = WorkerLoad {
        load,
        busy,
        cachelets,
        ..WorkerLoad::default()
    };
    LoadNews::of(vec![worker], 1 << 20)
}

#[test]
fn what_servers_can_do_is_measured_and_a_cluster_that_is_hot_as_a_whole_gets_one_more() {
    let mut scaled = Scaled::new();
    scaled.set(&ScaleSettings {
        requests_per_server: None,
        busiest_share: Some(Band {
            lower: 0.1,
            upper: 0.99,
        }),
        ..settings()
    });
    scaled.pass(3);
    assert!(
        scaled.view().why.contains("busiest_share is not known"),
        "{:?}",
        scaled.view()
    );
    let tell = |scaled: &mut Scaled, loads: [(f64, f64); 3]| {
        for (at, load) in loads.into_iter().enumerate() {
            let told = news(&scaled.members[at], &scaled.world, load);
            scaled.members[at].load.measured = Some(told);
        }
        scaled.pass(1);
    };
    tell(
        &mut scaled,
        [(8_000.0, 0.8), (4_000.0, 0.4), (6_000.0, 0.6)],
    );
    let measures = scaled.view().measures;
    let near = |told: Option<f64>, wanted: f64| (told.expect("all tell") - wanted).abs() < 1e-6;
    assert!(near(measures.busiest_share, 0.8), "{measures:?}");
    assert!(near(measures.utilization, 0.6), "{measures:?}");
    assert!(near(measures.hit_rate, 0.75), "{measures:?}");
    assert!(near(measures.requests_per_server, ENOUGH), "{measures:?}");
    assert_eq!(scaled.phase(), PhaseName::Steady);
    tell(
        &mut scaled,
        [(9_500.0, 0.95), (9_000.0, 0.9), (9_300.0, 0.93)],
    );
    scaled.pass(1);
    let view = scaled.view();
    assert_eq!(view.phase.name(), PhaseName::PastUpper, "{view:?}");
    assert!(view.why.contains("all servers are hot"), "{view:?}");
    scaled.pass(3);
    assert_eq!(scaled.phase(), PhaseName::Starting);
    // Who tells nothing makes it unknown.
    scaled.members[0].load.measured = None;
    scaled.pass(1);
    assert_eq!(scaled.view().measures.utilization, None);
}

#[test]
fn settings_are_checked_saved_and_may_be_tried() {
    let mut scaled = Scaled::new();
    let bad = ScaleSettings {
        requests_per_server: None,
        ..settings()
    };
    let now = scaled.world.now;
    let why = scaled.world.core.set_scale(now, "test", &bad).unwrap_err();
    assert!(
        why.to_string()
            .contains("set thresholds for at least one of")
    );
    assert_eq!(scaled.world.core.scales(now.monotonic).pools, []);
    scaled.load(MANY);
    scaled.pass(1);
    let before = scaled.world.core.revision();
    let tried = scaled.world.core.try_scale(now, "test", &settings());
    let why = tried.expect("settings that may be").why;
    assert!(why.contains("would add servers, by 1"), "{why}");
    assert_eq!(scaled.world.core.revision(), before);
    scaled.set(&ScaleSettings {
        mode: ScaleMode::Approve,
        ..settings()
    });
    scaled.pass(1);
    assert_eq!(scaled.view().phase.name(), PhaseName::PastUpper);
    assert!(!scaled.view().waits_for_approval);
    let early = scaled.world.core.approve_scale(scaled.world.now, "test");
    assert!(matches!(early, Err(ChangeRefusal::NothingToApprove { .. })));
    scaled.pass(4);
    assert!(scaled.view().waits_for_approval);
    assert!(scaled.view().why.contains("waits for approval to add"));
    let approved = scaled.world.core.approve_scale(scaled.world.now, "test");
    assert_eq!(approved.expect("it waits").phase.server(), Some(NAME));
    let again = scaled.world.core.approve_scale(scaled.world.now, "test");
    assert!(matches!(again, Err(ChangeRefusal::NothingToApprove { .. })));

    let state = serde_json::to_value(scaled.world.core.saved_state()).unwrap();
    let refused = |edit: &dyn Fn(&mut serde_json::Value)| {
        let mut state = state.clone();
        edit(&mut state);
        let state: SavedState = serde_json::from_value(state).unwrap();
        state.validate("test").is_err()
    };
    assert!(!refused(&|_| {}));
    assert!(refused(&|it| it["scale"]["scale"]["pool"] = "other".into()));
    assert!(refused(&|it| it["scale"]["settings"]["max"] = 0.into()));
    // One that was saved before there was any is read.
    assert!(!refused(&|it| {
        it.as_object_mut().expect("an object").remove("scale");
    }));
    assert!(matches!(scaled.view().phase, Phase::Starting { .. }));
}
