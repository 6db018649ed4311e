//! Proxies that have ended without a goodbye.

use super::*;
use ControlAnswer::{Refuses, SaysBoot, SaysNothing};

/// Two proxies, of which the second has said its boot at its control port.
fn fleet() -> (World, [Follower; 2]) {
    let mut world = old_world();
    let mut all = ["p1", "p2"].map(|name| Follower::new(name, &["main"]));
    all[1].0.control_port = 7_002;
    follow(&mut world, &mut all, 2);
    let asked = asks(&world);
    assert_eq!(asked.len(), 1, "one without a port is not asked");
    let Heartbeat { boot, host, .. } = all[1].0.clone();
    let (proxy, port) = ("p2".to_owned(), 7_002);
    let expected = ControlAsk {
        proxy,
        boot,
        host,
        port,
    };
    assert_eq!(asked[0], expected);
    answer(&mut world, &[SaysBoot]);
    assert_eq!(asks(&world), [], "it is known, and heard");
    (world, all)
}

fn asks(world: &World) -> Vec<ControlAsk> {
    world.core.control_asks(world.now.monotonic)
}

/// The only port that is to be asked answers so, one time after the other.
fn answer(world: &mut World, answers: &[ControlAnswer]) {
    for answer in answers {
        let asked = asks(world);
        assert_eq!(asked.len(), 1, "before {answer:?}");
        world.core.handle_control(world.now, &asked[0], *answer);
    }
}

fn names(world: &World) -> Vec<String> {
    let proxies = view(world).proxies.into_iter();
    proxies.map(|proxy| proxy.name).collect()
}

#[test]
fn a_silent_one_whose_port_refuses_has_ended_and_nothing_waits_for_it() {
    let (mut world, mut all) = fleet();
    begin(&mut world, Stage::Warming, 2).unwrap();
    world.pass(SILENT_MS);
    follow(&mut world, &mut all[..1], 2);
    assert_eq!(view(&world).stage, Stage::Former);
    let revision = world.core.revision();
    answer(&mut world, &[Refuses, Refuses]);
    assert_eq!(names(&world), ["p1", "p2"]);
    answer(&mut world, &[Refuses]);
    assert_eq!(names(&world), ["p1"]);
    assert!(world.core.revision() > revision, "it is saved");
    assert!(news(&world).contains(&ChangeNews::ProxyEnded));
    let proxies = world.core.proxies(world.now.monotonic).proxies;
    assert!(proxies.iter().all(|proxy| proxy.name != "p2"));
    follow(&mut world, &mut all[..1], 4);
    assert_eq!(view(&world).stage, Stage::Warming);
    assert_eq!(asks(&world), []);
}

#[test]
fn only_refusals_one_after_the_other_count() {
    let (mut world, mut all) = fleet();
    world.pass(SILENT_MS);
    answer(&mut world, &[Refuses, Refuses, SaysNothing]);
    answer(&mut world, &[Refuses, Refuses, SaysBoot]);
    answer(&mut world, &[Refuses, Refuses]);
    follow(&mut world, &mut all, 1);
    assert_eq!(asks(&world), [], "it is heard");
    world.pass(SILENT_MS);
    answer(&mut world, &[Refuses, Refuses]);
    assert_eq!(names(&world), ["p1", "p2"]);
    answer(&mut world, &[Refuses]);
    assert_eq!(names(&world), ["p1"]);
}

/// One that is behind a firewall, or had ended before this coordinator led, is an operator's affair.
#[test]
fn a_port_that_has_never_said_its_boot_proves_nothing() {
    for answers in [[Refuses; 20], [SaysNothing; 20]] {
        let mut world = old_world();
        let mut all = [Follower::new("p1", &["main"])];
        all[0].0.control_port = 7_001;
        follow(&mut world, &mut all, 1);
        answer(&mut world, &answers);
        assert_eq!(asks(&world), [], "asked in vain twenty times");
        world.pass(SILENT_MS);
        assert_eq!(asks(&world), []);
        assert_eq!(names(&world), ["p1"]);
        // Its next life is asked again, as is one that has opened another port.
        all[0] = all[0].reborn();
        follow(&mut world, &mut all, 1);
        assert_eq!(asks(&world).len(), 1);
    }
    let (mut world, _) = fleet();
    world.restart();
    world.pass(SILENT_MS);
    assert_eq!(asks(&world), [], "it was not heard since");
}

#[test]
fn what_a_former_process_or_port_has_answered_does_not_count() {
    let (mut world, mut all) = fleet();
    world.pass(SILENT_MS);
    let late = asks(&world).remove(0);
    answer(&mut world, &[Refuses, Refuses]);
    all[1] = all[1].reborn();
    follow(&mut world, &mut all, 2);
    answer(&mut world, &[SaysBoot]);
    world.pass(SILENT_MS);
    for _ in 0..3 {
        world.core.handle_control(world.now, &late, Refuses);
    }
    assert_eq!(names(&world), ["p1", "p2"]);
    all[1].0.control_port = 7_003;
    follow(&mut world, &mut all, 1);
    assert_eq!(asks(&world)[0].port, 7_003, "the new one is not known yet");
    // An answer on its way when it was heard.
    let asked = asks(&world).remove(0);
    world.core.handle_control(world.now, &asked, SaysBoot);
    for _ in 0..3 {
        world.core.handle_control(world.now, &asked, Refuses);
    }
    assert_eq!(names(&world), ["p1", "p2"], "it is not silent");
}

const GONE_MS: u64 = 10_000;

/// Two proxies, of which the second ends when it is not heard.
fn fenced() -> (World, [Follower; 2]) {
    let mut world = old_world();
    let mut all = ["p1", "p2"].map(|name| Follower::new(name, &["main"]));
    all[1].0.gone_after_ms = Some(GONE_MS);
    follow(&mut world, &mut all, 2);
    (world, all)
}

/// The first one goes on reporting for this many milliseconds.
fn pass_with_the_first(world: &mut World, all: &mut [Follower; 2], ms: u64) {
    let until = world.now.monotonic + Duration::from_millis(ms);
    while world.now.monotonic < until {
        all[0].follow(world);
        let left = until.since(world.now.monotonic).as_millis() as u64;
        world.pass(left.min(SILENT_MS / 6));
    }
}

#[test]
fn one_that_ends_when_it_is_not_heard_is_gone_in_time_and_no_earlier() {
    let (mut world, mut all) = fenced();
    all[1].follow(&mut world);
    begin(&mut world, Stage::Warming, 2).unwrap();
    let heard = world.now.monotonic;
    pass_with_the_first(&mut world, &mut all, GONE_MS - 1);
    let held = view(&world);
    assert_eq!(held.stage, Stage::Former);
    assert_eq!(held.proxies[1].gone_after_ms, Some(GONE_MS));
    assert!(
        held.hint.contains("silent for 9 s and is gone in 0 s;"),
        "{}",
        held.hint
    );
    let revision = world.core.revision();
    assert!(world.core.poll_deadline() <= heard + Duration::from_millis(GONE_MS));
    world.pass(1);
    assert_eq!(names(&world), ["p1"]);
    assert!(world.core.revision() > revision, "it is saved");
    assert_eq!(news(&world).last(), Some(&ChangeNews::ProxyGone));
    let proxies = world.core.proxies(world.now.monotonic).proxies;
    assert!(proxies.iter().all(|proxy| proxy.name != "p2"));
    follow(&mut world, &mut all[..1], 4);
    assert_eq!(view(&world).stage, Stage::Warming);
    // Its next life begins with what holds.
    all[1] = all[1].reborn();
    follow(&mut world, &mut all[1..], 1);
    assert_eq!(all[1].stage(), Stage::Warming);
    assert_eq!(names(&world), ["p1", "p2"]);
}

#[test]
fn each_heartbeat_that_is_answered_lets_it_serve_on_and_a_refused_one_does_not() {
    let (mut world, mut all) = fenced();
    for _ in 0..4 {
        pass_with_the_first(&mut world, &mut all, GONE_MS - 1_000);
        all[1].follow(&mut world);
    }
    assert_eq!(names(&world), ["p1", "p2"]);
    let refused = Heartbeat {
        config_hash: Some("a b".into()),
        ..all[1].0.clone()
    };
    pass_with_the_first(&mut world, &mut all, GONE_MS - 1_000);
    world.send(&refused).unwrap_err();
    pass_with_the_first(&mut world, &mut all, 1_000);
    assert_eq!(names(&world), ["p1"]);
}

/// Who leads next cannot know what the one before has answered, and counts anew.
#[test]
fn a_restarted_coordinator_knows_who_ends_and_counts_from_its_start() {
    let (mut world, mut all) = fenced();
    pass_with_the_first(&mut world, &mut all, GONE_MS / 2);
    world.restart();
    pass_with_the_first(&mut world, &mut all, GONE_MS - 1);
    assert_eq!(names(&world), ["p1", "p2"]);
    pass_with_the_first(&mut world, &mut all, 1);
    assert_eq!(names(&world), ["p1"]);
}

#[test]
fn a_coordinator_that_has_slept_counts_from_when_it_wakes() {
    let (mut world, mut all) = fenced();
    world.sleep(2 * GONE_MS);
    assert_eq!(names(&world), ["p1", "p2"]);
    pass_with_the_first(&mut world, &mut all, GONE_MS);
    assert_eq!(names(&world), ["p1"]);
}

#[test]
fn a_time_that_is_too_short_or_too_long_is_refused() {
    let mut world = old_world();
    let mut follower = Follower::new("p1", &["main"]);
    for ms in [0, 4_999, 3_600_001, u64::MAX] {
        follower.0.gone_after_ms = Some(ms);
        let refused = world.send(&follower.0).unwrap_err();
        assert_eq!(refused.reason(), Reason::BadGoneAfter);
    }
}
