//! Who is silent, and who is only not heard.

use super::*;
use crate::limits::{SERVER_SILENT, UNHEARD_MAX};
use evenkeel_types::map::ServerEntry;

/// Three servers, of which the first reports no more from now on.
fn without_the_first() -> (World, ServerEntry, Vec<Heartbeat>) {
    let (world, mut members) = leased_cluster(3, 2);
    let first = world.core.map().unwrap().servers()[0].clone();
    members.remove(0);
    (world, first, members)
}

/// Lets 100 ms pass, after which all but the first report.
fn pass(world: &mut World, members: &mut [Heartbeat]) {
    world.pass(100);
    world.send_current(members);
}

fn owns(world: &World, server: ServerId) -> bool {
    let owners = world.owners();
    owners.iter().flatten().any(|owner| owner.server == server)
}

#[test]
fn who_answers_where_others_reach_it_stays_up_for_a_while() {
    let (mut world, first, mut members) = without_the_first();
    let (epoch, since) = (world.core.epoch(), world.now.monotonic);
    let lasted = |world: &World| world.now.monotonic.since(since);
    while world.core.servers_up() == 3 {
        pass(&mut world, &mut members);
        let now = world.now.monotonic;
        let unheard: Vec<ServerId> = world.core.unheard(now).map(|server| server.id).collect();
        let is_asked = lasted(&world) >= SERVER_SILENT / 2;
        let expected = if is_asked { vec![first.id] } else { Vec::new() };
        if world.core.servers_up() == 3 {
            assert_eq!((unheard, world.core.epoch()), (expected, epoch));
        }
        if is_asked {
            world.core.handle_reached(now, first.id, first.boot);
        }
    }
    assert_eq!(lasted(&world), SERVER_SILENT + UNHEARD_MAX);
    (0..20).for_each(|_| pass(&mut world, &mut members));
    assert!(!owns(&world, first.id), "then it is as any that is silent");
}

#[test]
fn an_answer_counts_for_half_a_silence_and_for_its_process_alone() {
    let (mut world, first, mut members) = without_the_first();
    let since = world.now.monotonic;
    while world.now.monotonic.since(since) < Duration::from_millis(2_500) {
        pass(&mut world, &mut members);
    }
    let now = world.now.monotonic;
    world.core.handle_reached(now, first.id, first.boot);
    while world.now.monotonic.since(since) < Duration::from_millis(3_900) {
        pass(&mut world, &mut members);
        assert_eq!(world.core.servers_up(), 3);
    }
    let now = world.now.monotonic;
    let another = BootId(first.boot.0 + 1);
    world.core.handle_reached(now, first.id, another);
    pass(&mut world, &mut members);
    assert_eq!(world.core.servers_up(), 2);
    assert_eq!(world.core.counters().reached, 1);
}

#[test]
fn who_is_heard_of_again_goes_on_as_before() {
    let (mut world, mut members) = leased_cluster(3, 2);
    let (epoch, owners) = (world.core.epoch(), world.owners());
    let first = world.core.map().unwrap().servers()[0].clone();
    for _ in 0..100 {
        pass(&mut world, &mut members[1..]);
        let now = world.now.monotonic;
        world.core.handle_reached(now, first.id, first.boot);
    }
    for _ in 0..100 {
        pass(&mut world, &mut members);
    }
    assert_eq!((world.core.epoch(), world.owners()), (epoch, owners));
}
