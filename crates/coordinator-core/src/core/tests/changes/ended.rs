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
