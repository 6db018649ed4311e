//! Servers of rings that come, go, and are dead.

use super::rings::{ring_follower, wish};
use super::*;
use evenkeel_control::rings::ServerChange;
use evenkeel_placement::ring::Ring;

const DEAD_MS: u64 = limits::RING_DEAD_AFTER.as_millis() as u64;
const LOOK_MS: u64 = limits::RING_JOIN_LOOK.as_millis() as u64;
const CLOSING_MS: u64 = limits::CLOSING_MIN.as_millis() as u64;
const WARMING_MS: u64 = limits::RING_WARMING.as_millis() as u64;
const SPAN_MS: u64 = limits::RING_LOSSES_SPAN.as_millis() as u64;

/// Proxies that reach all servers but some.
pub(super) struct Proxies {
    pub(super) world: World,
    all: Vec<(Follower, Vec<u16>)>,
}

impl Proxies {
    pub(super) fn of(count: usize, servers: u16, mode: RingMode) -> Self {
        let follower = |n: usize| ring_follower(&format!("p{n}"), &wish(servers.into()));
        let mut all = Proxies {
            world: old_world(),
            all: (1..=count).map(|n| (follower(n), Vec::new())).collect(),
        };
        all.pass(0);
        let request = RingSettingsRequest {
            mode: Some(mode),
            proxies: Some(count),
            ..RingSettingsRequest::default()
        };
        let set = all.world.core.set_ring(all.world.now, "main", &request);
        set.expect("settings that may be");
        all
    }

    /// All report several times, as far as they are there.
    fn report(&mut self, is_there: impl Fn(usize) -> bool) {
        for _ in 0..6 {
            for (at, (follower, unreached)) in self.all.iter_mut().enumerate() {
                if is_there(at) {
                    let ring = follower.0.pools[0].ring.as_mut().expect("a ring");
                    ring.unreached = (ring.number > 0).then(|| unreached.clone());
                    follower.follow(&mut self.world);
                }
            }
        }
    }

    pub(super) fn pass(&mut self, ms: u64) {
        self.pass_without(ms, |_| true);
    }

    /// Time goes by, and those report that are there.
    fn pass_without(&mut self, ms: u64, is_there: impl Fn(usize) -> bool) {
        self.report(&is_there);
        for _ in 0..ms / 500 {
            self.world.pass(500);
            self.report(&is_there);
        }
    }

    /// Nobody reaches a server from now on, or one proxy alone does not.
    pub(super) fn lose(&mut self, server: u16, by: impl Fn(usize) -> bool) {
        for (_, (_, unreached)) in self.all.iter_mut().enumerate().filter(|(at, _)| by(*at)) {
            unreached.push(server);
        }
    }

    pub(super) fn view(&self) -> RingView {
        let mut rings = self.world.core.rings(self.world.now.monotonic).rings;
        rings.remove(0)
    }

    /// The parts of the ring that servers have.
    fn shares(&self) -> Vec<f64> {
        let servers = self.view().servers;
        servers.iter().map(|server| server.share).collect()
    }

    pub(super) fn plan(&self) -> Arc<RingPlan> {
        let saved = self.world.core.saved_state().changes;
        saved.pools["main"].ring.as_ref().unwrap().plan.clone()
    }

    pub(super) fn order(
        &mut self,
        what: ServerOrder,
        server: &str,
    ) -> Result<RingView, ChangeRefusal> {
        let request = RingServerRequest {
            what,
            server: server.into(),
            proxies: self.all.len(),
        };
        (self.world.core).begin_ring_server(self.world.now, "main", &request)
    }

    /// Whether the ring has come to rest without a server.
    fn has_lost(&self, server: usize) -> bool {
        self.shares()[server] == 0.0 && self.view().change.stage == Stage::Done
    }

    fn news(&self) -> Vec<ChangeNews> {
        self.world
            .core
            .change_events()
            .iter()
            .map(|it| it.what)
            .collect()
    }
}

#[test]
fn a_server_that_no_proxy_reaches_goes_to_its_neighbours() {
    let mut proxies = Proxies::of(2, 4, RingMode::Automatic);
    let before = proxies.shares();
    proxies.lose(1, |_| true);
    proxies.pass(DEAD_MS - 500);
    assert_eq!(proxies.shares(), before);
    let unreached = &proxies.view().unreached[0];
    assert_eq!((unreached.server.as_str(), unreached.proxies), ("m2", 2));
    // Nothing rests: nobody brings anything, and no placeholder is left.
    proxies.pass(1000);
    assert!(proxies.has_lost(1), "{:?}", proxies.view());
    assert!(proxies.news().contains(&ChangeNews::ServerLost));
    assert_eq!(proxies.world.core.change_counts().servers_lost, 1);
    let after = proxies.shares();
    for server in [0, 2, 3] {
        assert!(after[server] > before[server]);
    }
    assert_eq!(proxies.view().unreached, [], "it owns nothing");
    // It comes back, and has nothing before it is added.
    for (_, unreached) in &mut proxies.all {
        unreached.clear();
    }
    proxies.pass(60_000);
    assert!(proxies.has_lost(1));
    proxies.order(ServerOrder::Add, "m2").unwrap();
    proxies.pass(LOOK_MS + WARMING_MS + CLOSING_MS + 1000);
    assert_eq!(proxies.view().change.stage, Stage::Done);
    let share = proxies.shares()[1];
    assert!(share > 0.1 && proxies.shares().len() == 4, "{share}");
}

#[test]
fn a_server_that_some_proxy_reaches_is_not_dead() {
    let mut proxies = Proxies::of(3, 4, RingMode::Automatic);
    proxies.lose(1, |proxy| proxy < 2);
    proxies.pass(3 * DEAD_MS);
    assert_eq!(proxies.plan().number, 1);
    // It is silent: it does not say that it reaches anything, and half of all know better. But the step waits for it.
    proxies.pass_without(SILENT_MS + 1000, |proxy| proxy < 2);
    let view = proxies.view();
    assert_eq!(
        (proxies.plan().number, view.change.stage),
        (2, Stage::Former)
    );
    proxies
        .world
        .core
        .remove_proxy(proxies.world.now, "p3")
        .unwrap();
    proxies.pass_without(1000, |proxy| proxy < 2);
    assert!(proxies.has_lost(1), "{:?}", proxies.view());
}

/// Who has not run itself does not know what others have reached meanwhile.
#[test]
fn time_in_which_the_coordinator_did_not_run_does_not_count() {
    let mut proxies = Proxies::of(2, 4, RingMode::Automatic);
    proxies.lose(1, |_| true);
    proxies.pass(500);
    proxies.world.now.monotonic = proxies.world.now.monotonic + limits::RING_DEAD_AFTER * 2;
    proxies.pass(DEAD_MS - 500);
    assert_eq!(proxies.plan().number, 1);
    proxies.pass(1000);
    assert!(proxies.has_lost(1));
}

#[test]
fn in_other_modes_and_with_other_proxies_nobody_is_lost_without_an_order() {
    for mode in [RingMode::Off, RingMode::Observe] {
        let mut proxies = Proxies::of(2, 3, mode);
        proxies.lose(0, |_| true);
        proxies.pass(2 * DEAD_MS);
        assert_eq!(proxies.plan().number, 1);
        assert_eq!(proxies.view().unreached[0].proxies, 2);
        proxies.order(ServerOrder::Lose, "m1").unwrap();
        proxies.pass(1000);
        assert!(proxies.has_lost(0));
        assert!(!proxies.news().contains(&ChangeNews::ServerLost));
    }
    let mut proxies = Proxies::of(2, 3, RingMode::Automatic);
    let third = (ring_follower("p3", &wish(3)), Vec::new());
    proxies.all.push(third);
    proxies.lose(0, |_| true);
    proxies.pass(2 * DEAD_MS);
    assert_eq!(proxies.plan().number, 1, "three follow, and not two");
}

#[test]
fn at_most_a_third_is_lost_in_ten_minutes_and_never_the_last() {
    for (servers, expected) in [(2, 1), (3, 1), (5, 1), (6, 2), (9, 3)] {
        let mut proxies = Proxies::of(1, servers, RingMode::Automatic);
        for server in 0..servers {
            proxies.lose(server, |_| true);
        }
        proxies.pass(DEAD_MS + 20_000);
        let lost = |proxies: &Proxies| {
            let shares = proxies.shares();
            shares.iter().filter(|share| **share == 0.0).count()
        };
        assert_eq!(lost(&proxies), expected, "of {servers}");
        proxies.pass(SPAN_MS);
        assert!(lost(&proxies) < servers.into());
        assert_eq!(lost(&proxies) > expected, servers > 2, "of {servers}");
    }
}

#[test]
fn a_plan_under_way_does_not_warm_for_longer_when_a_server_is_dead() {
    let mut proxies = Proxies::of(2, 3, RingMode::Automatic);
    proxies.order(ServerOrder::Drain, "m1").unwrap();
    proxies.pass(500);
    assert_eq!(proxies.view().change.stage, Stage::Warming);
    let request = RingSettingsRequest {
        warming_ms: Some(500_000),
        ..RingSettingsRequest::default()
    };
    let now = proxies.world.now;
    proxies.world.core.set_ring(now, "main", &request).unwrap();
    proxies.lose(1, |_| true);
    proxies.pass(DEAD_MS + CLOSING_MS + 2000);
    assert_eq!(proxies.shares()[..2], [0.0, 0.0]);
    assert_eq!(proxies.plan().number, 3);
}

#[test]
fn a_server_that_comes_gets_a_fair_part_and_one_that_is_drained_keeps_nothing() {
    let mut proxies = Proxies::of(2, 3, RingMode::Off);
    let ordered = proxies.order(ServerOrder::Add, "10.0.0.9:11212").unwrap();
    let server = ordered.change.ring.unwrap().server.unwrap();
    assert_eq!(
        (server.name.as_str(), server.what),
        ("10.0.0.9:11212", ServerOrder::Add)
    );
    proxies.pass(LOOK_MS - 500);
    assert_eq!(
        proxies.view().change.stage,
        Stage::Former,
        "it is met first"
    );
    proxies.pass(WARMING_MS + CLOSING_MS + 2000);
    assert_eq!(proxies.view().change.stage, Stage::Done);
    let shares = proxies.shares();
    assert!(shares.len() == 4 && shares[3] > 0.15, "{shares:?}");
    proxies.order(ServerOrder::Drain, "m2").unwrap();
    proxies.pass(WARMING_MS + CLOSING_MS + 2000);
    assert!(proxies.has_lost(1));
    // One that was there before has the place that it had.
    proxies.order(ServerOrder::Drain, "m3").unwrap();
    proxies.pass(WARMING_MS + CLOSING_MS + 2000);
    proxies.order(ServerOrder::Add, "m3").unwrap();
    let names: Vec<String> = proxies
        .view()
        .servers
        .into_iter()
        .map(|it| it.name)
        .collect();
    assert_eq!(names, ["m1", "m2", "m3", "10.0.0.9:11212"]);
    proxies.pass(LOOK_MS + WARMING_MS + CLOSING_MS + 2000);
    // Another one takes its place, when a proxy is back that did not reach the former one.
    proxies.lose(1, |_| true);
    proxies.pass(500);
    for (_, unreached) in &mut proxies.all {
        unreached.clear();
    }
    proxies.order(ServerOrder::Add, "10.0.0.8").unwrap();
    assert_eq!(proxies.plan().placement.servers[1].identity(), "10.0.0.8");
    proxies.pass(LOOK_MS + WARMING_MS + CLOSING_MS + 2000);
    let servers = proxies.view().servers;
    assert!(servers.len() == 4 && servers[1].name == "10.0.0.8" && servers[1].share > 0.1);
}

#[test]
fn a_server_that_a_proxy_does_not_reach_does_not_come() {
    let mut proxies = Proxies::of(2, 3, RingMode::Automatic);
    let before = proxies.shares();
    proxies.order(ServerOrder::Add, "10.0.0.9").unwrap();
    proxies.pass(500);
    proxies.lose(3, |proxy| proxy == 1);
    proxies.pass(LOOK_MS);
    let view = proxies.view();
    assert_eq!(
        (view.change.stage, view.change.goal),
        (Stage::Former, Stage::Former)
    );
    assert!(proxies.news().contains(&ChangeNews::NewcomerUnreached));
    assert_eq!(proxies.shares(), before);
    // It is not in the list of the next plan.
    for (_, unreached) in &mut proxies.all {
        unreached.clear();
    }
    proxies.order(ServerOrder::Drain, "m1").unwrap();
    assert_eq!(proxies.plan().placement.servers.len(), 3);
    assert!(proxies.plan().ring.generation() > Ring::even(3, 1).unwrap().generation());
}

#[test]
fn a_server_comes_back_by_what_it_is_known_by() {
    let mut proxies = Proxies::of(2, 3, RingMode::Off);
    proxies
        .order(ServerOrder::Add, "10.0.0.9:11212 named")
        .unwrap();
    proxies.pass(LOOK_MS + WARMING_MS + CLOSING_MS + 2000);
    proxies.order(ServerOrder::Drain, "named").unwrap();
    proxies.pass(WARMING_MS + CLOSING_MS + 2000);
    proxies.order(ServerOrder::Add, "named").unwrap();
    let plan = proxies.plan();
    let comes = &plan.placement.servers[3];
    assert_eq!((comes.host.as_str(), comes.port), ("10.0.0.9", 11_212));
}

/// A proxy waits before it tries a server again that was dead a moment ago.
#[test]
fn a_server_that_a_proxy_reaches_within_the_look_comes() {
    let mut proxies = Proxies::of(2, 3, RingMode::Automatic);
    proxies.order(ServerOrder::Add, "10.0.0.9").unwrap();
    proxies.lose(3, |proxy| proxy == 1);
    proxies.pass(LOOK_MS - 500);
    assert_eq!(proxies.view().unreached[0].server, "10.0.0.9");
    for (_, unreached) in &mut proxies.all {
        unreached.clear();
    }
    proxies.pass(500 + WARMING_MS + CLOSING_MS + 2000);
    let view = proxies.view();
    assert_eq!(view.change.stage, Stage::Done);
    assert!(view.servers[3].share > 0.1);
}

#[test]
fn orders_that_cannot_be_are_refused_and_say_why() {
    let mut proxies = Proxies::of(1, 2, RingMode::Off);
    let why = |refused: Result<RingView, ChangeRefusal>| refused.unwrap_err().to_string();
    let gone = why(proxies.order(ServerOrder::Drain, "m9"));
    assert!(
        gone.contains("no server of it is known as \"m9\""),
        "{gone}"
    );
    let known = why(proxies.order(ServerOrder::Add, "m1"));
    assert!(
        known.contains("server m1 has a part of it already"),
        "{known}"
    );
    let bad = why(proxies.order(ServerOrder::Add, "a:b:c"));
    assert!(bad.contains("\"a:b:c\" is no address"), "{bad}");
    proxies.order(ServerOrder::Lose, "m1").unwrap();
    proxies.pass(1000);
    let nothing = why(proxies.order(ServerOrder::Drain, "m1"));
    assert!(nothing.contains("m1 has nothing to give"), "{nothing}");
    let last = why(proxies.order(ServerOrder::Lose, "m2"));
    assert!(last.contains("is the last one with a share"), "{last}");
}

#[test]
fn what_is_ordered_of_a_server_outlives_the_coordinator() {
    let mut proxies = Proxies::of(2, 3, RingMode::Off);
    // One proxy is away, so that the plan waits.
    proxies.order(ServerOrder::Drain, "m1").unwrap();
    proxies.pass_without(2000, |proxy| proxy == 0);
    proxies.world.restart();
    proxies.pass(WARMING_MS + CLOSING_MS + 2000);
    assert!(proxies.has_lost(0));
    let Some(ServerChange::Leaves { is_lost: false, .. }) = proxies.plan().server else {
        panic!("{:?}", proxies.plan());
    };
}
