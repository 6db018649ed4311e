//! When a drained server can be stopped, and what its last heartbeat changes.

use super::*;

/// Three servers without contents to pass on, and a proxy, all of which work by the first map.
fn cluster() -> (World, Vec<Heartbeat>) {
    let mut world = World::new(3);
    let mut members: Vec<_> = (0..3).map(|n| server(n, 2)).collect();
    members.push(proxy("p1"));
    members.iter().for_each(|m| drop(world.send(m)));
    world.send_current(&mut members);
    // The coordinator has been there for a while.
    rounds(&mut world, &mut members, 40);
    (world, members)
}

/// Tenths of a second in which all these confirm the newest map.
fn rounds(world: &mut World, members: &mut [Heartbeat], count: usize) {
    for _ in 0..count {
        world.pass(100);
        world.send_current(members);
    }
}

fn order(world: &mut World, server: &str, drain: bool) -> DrainView {
    let request = DrainRequest {
        server: server.into(),
        drain,
        cachelets_per_second: 4_000,
    };
    world.core.handle_drain(world.now, &request).unwrap()
}

fn view(world: &World) -> DrainView {
    let drains = world.core.drains(world.now.monotonic).drains;
    assert_eq!(drains.len(), 1);
    drains.into_iter().next().unwrap()
}

#[test]
fn a_drain_is_over_when_everybody_that_is_up_works_by_a_map_without_the_server() {
    let (mut world, mut members) = cluster();
    assert_eq!(world.core.drains(world.now.monotonic).drains, []);
    let begun = order(&mut world, "s1", true);
    assert_eq!((begun.cachelets, begun.may_stop), (32, false));
    assert_eq!(begun.awaited, [""; 0]);

    // The servers let go of everything and take it over; the proxy is late.
    let late = members[3].clone();
    rounds(&mut world, &mut members[..3], 4);
    assert_eq!(view(&world).cachelets, 0);
    let answer = world.send(&late).unwrap();
    let eager = limits::INTERVAL_EAGER.as_millis();
    assert_eq!(
        u128::from(answer.interval_ms),
        eager,
        "it is to say so soon"
    );
    let waiting = view(&world);
    assert_eq!(
        (waiting.awaited, waiting.may_stop),
        (vec!["p1".into()], false)
    );

    // One server is late, too.
    members[2].epoch = Epoch(1);
    world.core.members.edit(ServerId(2)).applied = Epoch(1);
    world.send_current(&mut members[3..]);
    assert_eq!(view(&world).awaited, ["s2"]);
    world.send_current(&mut members[2..3]);
    let over = view(&world);
    assert_eq!((over.awaited.len(), over.may_stop), (0, true));
    world.pass(500);
    let calm = world.send(&members[3]).unwrap();
    assert!(u128::from(calm.interval_ms) > eager, "nobody need hurry");
}

#[test]
fn maps_say_who_is_leaving_from_the_beginning_of_a_drain_to_its_end() {
    let (mut world, mut members) = cluster();
    let leaving = |world: &World| -> Vec<u16> {
        let map = world.core.map().unwrap();
        let servers = map.servers().iter().filter(|server| server.leaving);
        servers.map(|server| server.id.0).collect()
    };
    order(&mut world, "s1", true);
    assert_eq!(leaving(&world), [1]);
    rounds(&mut world, &mut members, 4);
    world.restart();
    rounds(&mut world, &mut members, 4);
    assert_eq!(leaving(&world), [1]);
    order(&mut world, "s1", false);
    assert_eq!(leaving(&world), [0; 0]);
    let causes: Vec<_> = world.causes().into_iter().map(|(_, cause)| cause).collect();
    assert!(causes.contains(&Cause::DrainEnded), "{causes:?}");
}

#[test]
fn a_server_that_owns_nothing_at_all_may_be_stopped_when_its_drain_is_known() {
    let (mut world, mut members) = cluster();
    order(&mut world, "s1", true);
    rounds(&mut world, &mut members, 4);
    order(&mut world, "s1", false);
    // Before anything is given to it again.
    let again = order(&mut world, "s1", true);
    assert!(!again.may_stop);
    rounds(&mut world, &mut members, 4);
    assert!(view(&world).may_stop);
}

#[test]
fn the_server_itself_is_not_waited_for_and_who_is_silent_is_named() {
    let (mut world, mut members) = cluster();
    order(&mut world, "s1", true);
    rounds(&mut world, &mut members[..3], 4);
    members.remove(1);
    // For longer than a silence nothing is heard of the drained server and of the proxy.
    rounds(&mut world, &mut members[..2], 35);
    let over = view(&world);
    assert!(over.may_stop);
    assert_eq!((over.awaited.len(), over.unheard), (0, vec!["p1".into()]));
    // Nor is a proxy that says that it ends.
    let goodbye = Heartbeat {
        leaves: true,
        ..members[2].clone()
    };
    world.send(&goodbye).unwrap();
    assert_eq!(view(&world).unheard, [""; 0]);
    assert!(world.core.proxies(world.now.monotonic).proxies.is_empty());
}

#[test]
fn a_coordinator_that_has_just_begun_waits_for_proxies_to_report() {
    let (mut world, mut members) = cluster();
    order(&mut world, "s1", true);
    rounds(&mut world, &mut members, 4);
    assert!(view(&world).may_stop);
    world.restart();
    world.send_current(&mut members[..3]);
    assert_eq!(view(&world).awaited, [""; 0]);
    assert!(!view(&world).may_stop, "there may be a proxy");
    rounds(&mut world, &mut members, 31);
    assert!(view(&world).may_stop);
}

#[test]
fn what_is_on_its_way_to_a_server_is_waited_for() {
    let (mut world, mut members) = cluster();
    order(&mut world, "s1", true);
    rounds(&mut world, &mut members, 4);
    assert!(view(&world).may_stop);
    // Nothing is left, but for a migration that was ordered before and is being given up.
    let moving = Moving {
        from: worker(0, 0),
        to: worker(1, 0),
        began: world.core.epoch(),
        cancelled: true,
        bytes_per_second: 0,
        purpose: Purpose::Load,
        target_restarted: false,
        doubted_from: None,
    };
    let at = world.owners().iter().position(|o| *o == Some(worker(0, 0)));
    let cachelet = CacheletId(at.expect("s0 owns something") as u16);
    world.core.draft.set_slot(cachelet, Slot::Moving(moving));
    let waiting = view(&world);
    assert_eq!((waiting.cachelets, waiting.may_stop), (1, false));
}

#[test]
fn a_server_that_owned_nothing_is_down_with_its_last_heartbeat() {
    let (mut world, mut members) = cluster();
    order(&mut world, "s1", true);
    rounds(&mut world, &mut members, 4);
    let goodbye = Heartbeat {
        leaves: true,
        epoch: world.core.epoch(),
        ..members[1].clone()
    };
    world.send(&goodbye).unwrap();
    assert!(!world.core.map().unwrap().is_up(ServerId(1)));
    assert_eq!(world.causes().last().unwrap().1, Cause::ServerLeft);

    // Nothing is given to the life that has ended, though the drain is over and its name is known.
    order(&mut world, "s1", false);
    let (mut first, mut second) = (members.clone(), members.split_off(2));
    first.truncate(1);
    for _ in 0..10 {
        rounds(&mut world, &mut first, 1);
        rounds(&mut world, &mut second, 1);
    }
    assert_eq!(owned(&world, 1), 0);
    let mut next_life = [Heartbeat {
        boot: BootId(9_999),
        ..server(1, 2)
    }];
    for _ in 0..10 {
        rounds(&mut world, &mut first, 1);
        rounds(&mut world, &mut next_life, 1);
        rounds(&mut world, &mut second, 1);
    }
    assert_eq!(owned(&world, 1), 32);
}

#[test]
fn what_a_server_still_owns_when_it_has_ended_is_given_away_at_once() {
    let (mut world, mut members) = cluster();
    members
        .iter_mut()
        .take(3)
        .for_each(|member| member.leased = true);
    world.send_current(&mut members);
    let mut goodbye = members.remove(1);
    goodbye.leaves = true;
    goodbye.epoch = world.core.epoch();
    world.send(&goodbye).unwrap();
    assert!(!world.core.map().unwrap().is_up(ServerId(1)));
    rounds(&mut world, &mut members, 1);
    assert_eq!(owned(&world, 1), 0);
    assert_eq!(world.core.cachelets_in_transit(), 0);
}

fn owned(world: &World, server: u16) -> usize {
    let shares = world.shares();
    let its = shares
        .iter()
        .filter(|(of, _)| of.server == ServerId(server));
    its.map(|(_, count)| count).sum()
}

#[test]
fn a_server_that_was_told_to_end_is_emptied_and_its_next_life_takes_part_again() {
    let (mut world, mut members) = cluster();
    members[1].ending = true;
    members[1].epoch = world.core.epoch();
    let answer = world.send(&members[1]).unwrap();
    assert!(!answer.may_end, "it has everything yet");
    rounds(&mut world, &mut members, 10);
    assert_eq!(owned(&world, 1), 0);
    let answer = world.send(&members[1]).unwrap();
    assert!(answer.may_end);
    // A coordinator that takes over knows why it is drained.
    world.restart();
    world.send_current(&mut members);
    let mut next_life = Heartbeat {
        boot: BootId(9_999),
        ..server(1, 2)
    };
    members[1].leaves = true;
    world.send(&members[1]).unwrap();
    world.send(&next_life).unwrap();
    assert_eq!(world.core.drains(world.now.monotonic).drains, []);
    next_life.epoch = world.core.epoch();
    members[1] = next_life;
    rounds(&mut world, &mut members, 10);
    assert_eq!(owned(&world, 1), 32);
}

#[test]
fn an_operators_drain_outlives_the_end_of_the_server() {
    let (mut world, mut members) = cluster();
    order(&mut world, "s1", true);
    members[1].ending = true;
    rounds(&mut world, &mut members, 10);
    members[1].leaves = true;
    world.send(&members[1]).unwrap();
    members[1] = Heartbeat {
        boot: BootId(9_999),
        ..server(1, 2)
    };
    world.send(&members[1]).unwrap();
    rounds(&mut world, &mut members, 10);
    assert_eq!(owned(&world, 1), 0);
    assert!(view(&world).draining);
}

#[test]
fn servers_that_all_end_wait_for_nobody() {
    let (mut world, mut members) = cluster();
    let end = |world: &mut World, member: &mut Heartbeat| {
        member.ending = true;
        member.epoch = world.core.epoch();
        world.send(member).unwrap().may_end
    };
    assert!(!end(&mut world, &mut members[0]));
    assert!(!end(&mut world, &mut members[1]));
    assert!(
        end(&mut world, &mut members[2]),
        "nobody else takes anything"
    );
    members[2].leaves = true;
    world.send(&members[2]).unwrap();
    assert!(end(&mut world, &mut members[0]) && end(&mut world, &mut members[1]));
}

#[test]
fn the_last_word_of_a_former_life_of_a_proxy_says_nothing_of_the_present_one() {
    let (mut world, members) = cluster();
    let former = members[3].clone();
    let present = Heartbeat {
        boot: BootId(8_888),
        ..former.clone()
    };
    world.send(&present).unwrap();
    let goodbye = Heartbeat {
        leaves: true,
        ..former
    };
    world.send(&goodbye).unwrap();
    let proxies = world.core.proxies(world.now.monotonic).proxies;
    assert_eq!(proxies.len(), 1);
    assert_eq!(proxies[0].boot, BootId(8_888));
}
