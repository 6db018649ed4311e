//! Servers of a ring that come and go by what is measured: what is seen of the ring, saved, and asked of an actuator.

use super::ring_slots::{Counting, counting, keys, pass, set};
use super::*;
use crate::core::tests::scaled::Actuated;
use crate::scale::{
    Act, Band, Outcome, Phase, PhaseName, ScaleMode, ScaleSettings, limits as of_scale,
};

/// The ring begins with eight servers, named `m1` to `m8`.
const SERVERS: usize = 8;

/// Where the actuator says that the first server runs.
const NEW: &str = "10.0.0.9:11211";

/// Slots in which a threshold is passed for long enough.
const SUSTAIN_SLOTS: u64 = of_scale::SUSTAIN.as_secs() + 5;

const LOW: Band = Band {
    lower: 1.0,
    upper: 2.0,
};

const HIGH: Band = Band {
    lower: 1e9,
    upper: 2e9,
};

fn settings(band: Band) -> ScaleSettings {
    ScaleSettings {
        mode: ScaleMode::Automatic,
        requests_per_server: Some(band),
        min: SERVERS,
        max: SERVERS + 1,
        ..ScaleSettings::default()
    }
}

/// A ring whose proxies tell what they carry, and an actuator that runs what is told.
struct Scaled {
    world: World,
    all: Vec<Counting>,
    keys: Vec<u32>,
    runs: BTreeMap<String, String>,
}

impl Actuated for Scaled {
    const POOL: &str = "main";

    fn world(&mut self) -> &mut World {
        &mut self.world
    }

    fn runs(&self) -> BTreeMap<String, String> {
        self.runs.clone()
    }
}

impl Scaled {
    fn new() -> Scaled {
        let (mut world, all) = counting(2);
        set(&mut world, RingMode::Observe, 2).expect("settings that may be");
        let keys = keys(&all[0].ring(), 0);
        Scaled {
            world,
            all,
            keys,
            runs: BTreeMap::new(),
        }
    }

    fn set(&mut self, settings: &ScaleSettings) -> Result<ScaleView, ChangeRefusal> {
        self.world.core.set_scale(self.world.now, "main", settings)
    }

    fn pass(&mut self, slots: u64) {
        pass(&mut self.world, &mut self.all, &self.keys, slots);
    }

    /// A server is started, as is asked for.
    fn start(&mut self) {
        let Some(Act::Start { name }) = self.asked() else {
            panic!("{:?}", self.view());
        };
        self.runs.insert(name.clone(), NEW.into());
        let address = NEW.into();
        self.acted(Outcome::Started { name, address });
    }

    /// It answers as often as it has to.
    fn try_it(&mut self) {
        for _ in 0..of_scale::TRIALS {
            let trials = self.world.core.scale_trials();
            assert_eq!(trials, [("main".to_owned(), NEW.to_owned())]);
            let address = NEW.into();
            self.acted(Outcome::Done(Act::Try { address }));
        }
        assert_eq!(self.world.core.scale_trials(), []);
    }

    /// One more server owns a part of the ring.
    fn grown() -> Scaled {
        let mut scaled = Scaled::new();
        scaled.list();
        scaled.set(&settings(LOW)).expect("settings that may be");
        scaled.pass(SUSTAIN_SLOTS);
        scaled.start();
        scaled.try_it();
        scaled.pass(20);
        assert_eq!(scaled.view().servers, SERVERS + 1, "{:?}", scaled.view());
        scaled
    }
}

#[test]
fn a_server_comes_when_a_threshold_was_passed_for_long_enough() {
    let mut scaled = Scaled::new();
    scaled.set(&settings(LOW)).expect("settings that may be");
    scaled.pass(4);
    assert_eq!(scaled.phase(), PhaseName::PastUpper);
    assert_eq!(scaled.asked(), None);
    scaled.pass(SUSTAIN_SLOTS - 4);
    let view = scaled.view();
    assert_eq!((view.servers, view.wanted), (SERVERS, SERVERS + 1));
    assert!(view.why.contains("main-1 is"), "{view:?}");
    // Each of two proxies counts a thousand reads a second of each key.
    let asked = 2.0 * 1000.0 * scaled.keys.len() as f64 / SERVERS as f64;
    let measured = view.measures.requests_per_server.expect("slots are over");
    assert!((measured / asked - 1.0).abs() < 0.05, "{measured} {asked}");
    assert_eq!(view.measures.hit_rate, Some(1.0));
    scaled.start();
    scaled.try_it();
    let view = scaled.view();
    assert_eq!(view.phase.name(), PhaseName::Joining);
    let ring = scaled
        .world
        .core
        .rings(scaled.world.now.monotonic)
        .rings
        .remove(0);
    let server = ring
        .change
        .ring
        .expect("a plan")
        .server
        .expect("a newcomer");
    assert_eq!(
        (server.name.as_str(), server.what),
        ("10.0.0.9", ServerOrder::Add)
    );
    scaled.pass(20);
    let view = scaled.view();
    assert_eq!((view.servers, view.wanted), (SERVERS + 1, SERVERS + 1));
    assert_eq!(view.phase.name(), PhaseName::Cooling);
    assert_eq!(scaled.world.core.scale_counts().added, 1);
    let events = scaled.world.core.scale_events().iter();
    let phases: Vec<PhaseName> = events.map(|event| event.phase.name()).collect();
    let expected = [PhaseName::Starting, PhaseName::Joining, PhaseName::Cooling];
    assert_eq!(phases, expected);
}

#[test]
fn another_coordinator_goes_on_and_asks_for_the_same_name() {
    let mut scaled = Scaled::new();
    scaled.list();
    scaled.set(&settings(LOW)).expect("settings that may be");
    let before = scaled.world.core.revision();
    scaled.pass(SUSTAIN_SLOTS);
    assert!(scaled.world.core.revision() > before, "it is to be saved");
    let name = || Act::Start {
        name: "main-1".into(),
    };
    assert_eq!(scaled.asked(), Some(name()));
    scaled.world.restart();
    scaled.pass(2);
    // It has to hear first what the actuator runs.
    let work = scaled.world.core.scale_work(scaled.world.now.monotonic);
    assert_eq!(work, Some(ScaleWork::List));
    assert_eq!(scaled.asked(), Some(name()));
    scaled.start();
    scaled.try_it();
    scaled.world.restart();
    scaled.pass(20);
    assert_eq!(scaled.view().servers, SERVERS + 1);
    // It was told what it runs, and strays of it are none.
    scaled.list();
    scaled.pass(2);
    assert_eq!(scaled.asked(), None);
}

#[test]
fn a_server_is_stopped_when_nobody_can_ask_it_any_more() {
    let mut scaled = Scaled::grown();
    let settings = ScaleSettings {
        cooldown_added_ms: 0,
        sustain_ms: 0,
        ..settings(HIGH)
    };
    scaled.set(&settings).expect("settings that may be");
    scaled.pass(2);
    assert_eq!(scaled.phase(), PhaseName::Draining, "{:?}", scaled.view());
    let silent = scaled.all.pop().expect("two proxies");
    let stop = Act::Stop {
        name: "main-1".into(),
    };
    let steps = |scaled: &Scaled| {
        let changes = scaled.world.core.changes(scaled.world.now.monotonic);
        (changes.changes[0].stage, changes.changes[0].goal)
    };
    // One does not follow, so nothing goes on.
    scaled.pass(2);
    assert_eq!(scaled.asked(), None);
    scaled.all.push(silent);
    for _ in 0..100 {
        let is_done = steps(&scaled) == (Stage::Done, Stage::Done);
        let changes = scaled.world.core.changes(scaled.world.now.monotonic);
        if is_done && changes.changes[0].waits_for.is_empty() {
            break;
        }
        assert_eq!(scaled.asked(), None, "{:?}", scaled.view());
        scaled.pass(1);
    }
    scaled.pass(2);
    assert_eq!(scaled.asked(), Some(stop.clone()), "{:?}", scaled.view());
    scaled.runs.clear();
    scaled.acted(Outcome::Done(stop));
    assert_eq!(scaled.phase(), PhaseName::Cooling);
    let view = scaled.view();
    assert_eq!((view.servers, view.wanted), (SERVERS, SERVERS));
    assert!(
        view.saved_hours > 0.0 && view.server_hours > 0.0,
        "{view:?}"
    );
    assert_eq!(scaled.world.core.scale_counts().removed, 1);
}

#[test]
fn what_nobody_tells_is_no_reason_for_anything() {
    let mut scaled = Scaled::new();
    scaled.list();
    set(&mut scaled.world, RingMode::Off, 2).expect("settings that may be");
    scaled.set(&settings(LOW)).expect("settings that may be");
    scaled.pass(SUSTAIN_SLOTS);
    let view = scaled.view();
    assert_eq!(view.phase, Phase::Steady);
    assert!(
        view.why.contains("requests_per_server is not known"),
        "{view:?}"
    );
    // And what was known is forgotten when it is old.
    set(&mut scaled.world, RingMode::Observe, 2).expect("settings that may be");
    scaled.pass(4);
    assert_eq!(scaled.phase(), PhaseName::PastUpper);
    for proxy in &mut scaled.all {
        proxy.is_mute = true;
    }
    scaled.pass(u64::from(of_scale::MEASURED_SLOTS) + 2);
    assert_eq!(scaled.phase(), PhaseName::Steady);
}

#[test]
fn answer_times_are_those_of_the_slowest_proxy() {
    let mut scaled = Scaled::new();
    (scaled.all[0].p99_us, scaled.all[1].p99_us) = (Some(300), Some(700));
    let slow = ScaleSettings {
        requests_per_server: None,
        p99_us: Some(Band {
            lower: 100.0,
            upper: 500.0,
        }),
        ..settings(LOW)
    };
    scaled.set(&slow).expect("settings that may be");
    scaled.pass(4);
    let view = scaled.view();
    assert_eq!(view.measures.p99_us, Some(700.0));
    assert!(view.why.contains("p99_us is 700, above 500"), "{view:?}");
}

#[test]
fn settings_that_cannot_be_are_refused_and_change_nothing() {
    let (mut world, all) = counting(1);
    let keys = keys(&all[0].ring(), 0);
    let mut scaled = Scaled {
        world,
        all,
        keys,
        runs: BTreeMap::new(),
    };
    let why = scaled.set(&settings(LOW)).unwrap_err().to_string();
    assert!(why.contains("how many proxies have the pool"), "{why}");
    set(&mut scaled.world, RingMode::Observe, 1).expect("settings that may be");
    for (settings, what) in [
        (
            ScaleSettings {
                busiest_share: Some(LOW),
                ..settings(LOW)
            },
            "do not say what they could carry",
        ),
        (
            ScaleSettings {
                requests_per_server: None,
                ..settings(LOW)
            },
            "set thresholds for at least one of",
        ),
        (
            settings(Band {
                lower: 2.0,
                upper: 1.0,
            }),
            "has to be less than",
        ),
    ] {
        let why = scaled.set(&settings).unwrap_err().to_string();
        assert!(why.contains(what), "{why}");
    }
    assert_eq!(
        scaled.world.core.scales(scaled.world.now.monotonic).pools,
        []
    );
    let unknown = (scaled.world.core).set_scale(scaled.world.now, "other", &settings(LOW));
    assert!(matches!(unknown, Err(ChangeRefusal::UnknownPool { .. })));
    // What is only tried is neither set nor saved.
    let before = scaled.world.core.revision();
    scaled.pass(3);
    let tried = (scaled.world.core).try_scale(scaled.world.now, "main", &settings(LOW));
    let why = tried.expect("settings that may be").why;
    assert!(why.contains("would add servers, by 1"), "{why}");
    assert_eq!(scaled.world.core.revision(), before);
    (world, _) = followers::<1>();
    let none = world.core.set_scale(world.now, "main", &settings(LOW));
    assert!(matches!(none, Err(ChangeRefusal::NoRing { .. })));
}

#[test]
fn what_waits_for_approval_is_done_once_it_is_approved() {
    let mut scaled = Scaled::new();
    scaled.list();
    let asks = ScaleSettings {
        mode: ScaleMode::Approve,
        ..settings(LOW)
    };
    scaled.set(&asks).expect("settings that may be");
    let early = scaled.world.core.approve_scale(scaled.world.now, "main");
    assert!(matches!(early, Err(ChangeRefusal::NothingToApprove { .. })));
    scaled.pass(2 * SUSTAIN_SLOTS);
    assert!(scaled.view().waits_for_approval);
    assert!(scaled.view().why.contains("waits for approval to add"));
    assert_eq!(scaled.asked(), None);
    let approved = scaled.world.core.approve_scale(scaled.world.now, "main");
    let phase = approved.expect("it waits").phase;
    assert_eq!(phase.server(), Some("main-1"));
    assert!(matches!(scaled.asked(), Some(Act::Start { .. })));
}

#[test]
fn saved_states_that_contradict_themselves_are_refused() {
    let mut scaled = Scaled::new();
    scaled.set(&settings(LOW)).expect("settings that may be");
    let state = serde_json::to_value(scaled.world.core.saved_state()).unwrap();
    let pool = "/changes/pools/main";
    let refused = |edit: &dyn Fn(&mut serde_json::Value)| {
        let mut state = state.clone();
        edit(state.pointer_mut(pool).expect("it is there"));
        let state: SavedState = serde_json::from_value(state).unwrap();
        state.validate("test").is_err()
    };
    assert!(!refused(&|_| {}));
    assert!(refused(&|it| it["scale"]["scale"]["pool"] = "other".into()));
    assert!(refused(&|it| it["scale"]["settings"]["max"] = 0.into()));
    assert!(refused(&|it| {
        it["scale"]["scale"]["phase"] =
            serde_json::json!({"is": "starting", "name": "main-1", "more": 0});
    }));
    assert!(refused(&|it| {
        it.as_object_mut().expect("an object").remove("ring");
    }));
    // One that was saved before there was any is read.
    assert!(!refused(&|it| {
        it.as_object_mut().expect("an object").remove("scale");
    }));
}
