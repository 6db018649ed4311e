//! Which names are new, which are forgotten, and who gets their ids.

use super::*;

const HOUR_MS: u64 = limits::FORGET_AFTER.as_millis() as u64;

fn cluster(servers: u16) -> (World, Vec<Heartbeat>) {
    leased_cluster(servers, 1)
}

/// Lets time pass while these report.
fn live(world: &mut World, ms: u64, members: &mut [Heartbeat]) {
    for _ in 0..ms / 500 {
        world.pass(500);
        world.send_current(members);
    }
}

fn ids(world: &World) -> Vec<(u16, String)> {
    let view = world.core.servers(world.now.monotonic);
    let id = |server: ServerView| (server.id.0, server.name);
    view.servers.into_iter().map(id).collect()
}

#[test]
fn the_name_of_who_is_gone_for_an_hour_is_forgotten_and_a_new_one_gets_its_id() {
    let (mut world, mut members) = cluster(3);
    live(&mut world, HOUR_MS - 1_000, &mut members[..2]);
    assert_eq!(ids(&world).len(), 3, "it is shown as down");
    live(&mut world, 2_000, &mut members[..2]);
    assert_eq!(ids(&world), [(0, "s1".into()), (1, "s2".into())]);
    assert_eq!(world.causes().last().unwrap().1, Cause::ServerForgotten);
    world.restart();
    assert_eq!(ids(&world).len(), 2, "a restart knows it, too");
    world.send(&server(4, 1)).unwrap();
    assert_eq!(ids(&world)[2], (2, "s4".into()));
    // The process that had the id wakes up.
    let woken = world.send(&members[2]);
    assert!(matches!(woken, Err(Refusal::Forgotten { .. })), "{woken:?}");
    let restarted = Heartbeat {
        epoch: Epoch(0),
        ..members[2].clone()
    };
    let id = world.send(&restarted).unwrap().server_id;
    assert_eq!(id, Some(ServerId(3)));
}

#[test]
fn who_comes_back_before_its_id_is_another_s_is_who_it_was() {
    let (mut world, mut members) = cluster(3);
    live(&mut world, HOUR_MS + 1_000, &mut members[..2]);
    assert_eq!(ids(&world).len(), 2);
    let id = world.send(&members[2]).unwrap().server_id;
    assert_eq!(id, Some(ServerId(2)));
    assert_eq!(ids(&world)[2], (2, "s3".into()));
}

/// Two of three are down: either they are dead, or the coordinator and the third are cut off. An operator knows.
#[test]
fn who_is_removed_gives_up_what_it_was_to_keep() {
    let (mut world, mut members) = cluster(3);
    live(&mut world, 60_000, &mut members[..1]);
    let owned = |world: &World| -> Vec<usize> {
        (world.core.servers(world.now.monotonic).servers.iter())
            .map(|server| server.cachelets)
            .collect()
    };
    assert_eq!(owned(&world), [16, 16, 16], "half of the others are down");
    let alive = world.core.remove_server(world.now, "s1").unwrap_err();
    assert!(matches!(alive, RemoveRefusal::StillUp { .. }));
    let unknown = world.core.remove_server(world.now, "s9").unwrap_err();
    assert!(matches!(unknown, RemoveRefusal::UnknownServer { .. }));
    let removed = world.core.remove_server(world.now, "s2").unwrap();
    assert_eq!(removed.cachelets, 16);
    assert_eq!(owned(&world), [32, 16]);
    world.restart();
    world.send_current(&mut members[..1]);
    world.core.remove_server(world.now, "s3").unwrap();
    assert_eq!(owned(&world), [48]);
    let again = world.core.remove_server(world.now, "s3").unwrap_err();
    assert!(matches!(again, RemoveRefusal::UnknownServer { .. }));
}

#[test]
fn nobody_is_removed_whose_cachelets_nobody_could_take() {
    let (mut world, _) = cluster(2);
    world.pass(60_000);
    let refused = world.core.remove_server(world.now, "s1").unwrap_err();
    let expected = RemoveRefusal::NobodyElse {
        name: "s1".into(),
        cachelets: 16,
    };
    assert_eq!(refused, expected);
}

/// An id is not given on while a vote of its former holder could be taken for one of the new: the first server is
/// cut off, works by the first map, and could still be let serve by the second, which was removed by mistake.
#[test]
fn an_id_waits_until_no_list_of_voters_has_it() {
    let (mut world, mut members) = cluster(5);
    live(&mut world, 10_000, &mut members[2..]);
    // Nobody of the three is alive who could take the cachelets of the first, as it may find votes.
    world.core.remove_server(world.now, "s2").unwrap();
    assert!(!world.core.members.is_in_an_electorate(ServerId(1)) || world.core.free_id().is_none());
    live(&mut world, 10_000, &mut members[2..]);
    assert!(!world.core.members.is_in_an_electorate(ServerId(1)));
    assert_eq!(world.core.free_id(), None, "its death is remembered");
    live(&mut world, 600_000, &mut members[2..]);
    assert_eq!(
        world.core.free_id(),
        Some(ServerId(1)),
        "all that count work by maps without it"
    );
}

#[test]
fn only_so_many_new_names_are_taken_in_a_minute() {
    let (mut world, _) = cluster(3);
    let newcomer = |n: usize| server(4 + n as u16, 1);
    for n in 0..limits::JOINS_PER_MINUTE {
        world.send(&newcomer(n)).unwrap();
    }
    let one_more = newcomer(limits::JOINS_PER_MINUTE);
    assert_eq!(world.send(&one_more), Err(Refusal::TooManyJoins));
    assert!(world.send(&newcomer(0)).is_ok(), "who is known is served");
    world.pass(60_000);
    assert!(world.send(&one_more).is_ok());
}
