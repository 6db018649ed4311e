//! Giving a dead server's cachelets to others: stories. That no two ever serve one is for the simulator
//! to find out, whose servers have leases and ask each other for votes.

use evenkeel_types::serving::{SERVING_LEASE, SERVING_LEASE_MARGIN};

use super::*;
use evenkeel_server_core::LeaseKeeper;

fn cluster(servers: u16) -> (World, Vec<Heartbeat>) {
    leased_cluster(servers, 2)
}

fn owns(world: &World, server: u16) -> bool {
    let owners = world.owners();
    let mut owners = owners.iter().flatten();
    owners.any(|owner| owner.server == ServerId(server))
}

/// Lets time pass while these members report every 100 ms.
pub(super) fn pass(world: &mut World, ms: u64, members: &mut [Heartbeat]) {
    for _ in 0..ms / 100 {
        world.pass(100);
        world.send_current(members);
    }
}

#[test]
fn a_dead_servers_cachelets_go_to_others_a_lease_after_these_know() {
    let (mut world, mut members) = cluster(3);
    pass(&mut world, 2_900, &mut members[1..]);
    assert_eq!(world.core.servers_up(), 3);
    let epoch = world.core.epoch();
    while world.core.servers_up() == 3 {
        world.pass(10);
    }
    let down_at = world.now.monotonic;
    assert!(owns(&world, 0), "silence is not enough");
    world.send_current(&mut members[1..]);
    while owns(&world, 0) {
        let lasted = world.now.monotonic.since(down_at);
        assert!(lasted < Duration::from_millis(1_500), "{lasted:?}");
        world.pass(10);
        world.send_current(&mut members[1..]);
    }
    let lasted = world.now.monotonic.since(down_at);
    assert!(lasted >= SERVING_LEASE + SERVING_LEASE_MARGIN, "{lasted:?}");
    assert_eq!(world.core.cachelets_in_transit(), 0);
    let shares = world.shares();
    assert!(shares.values().all(|&n| n == 24), "{shares:?}");
    let causes = world.causes();
    let next = epoch.0 + 1;
    assert!(causes.contains(&(next, Cause::ServerSilent)));
    assert!(causes.contains(&(next + 1, Cause::ServerFenced)));
    assert!(causes.contains(&(next + 1, Cause::CacheletsGranted)));

    // It comes back, takes part again, and gets a new share from those that have let go of it.
    pass(&mut world, 500, &mut members);
    assert!(owns(&world, 0));
    assert_eq!(world.core.cachelets_in_transit(), 0);
    let since = world.core.map().unwrap().servers()[0].since;
    assert!(since > Epoch(next + 1), "{since}");
}

#[test]
fn nothing_is_given_up_before_enough_others_confirm() {
    let (mut world, mut members) = cluster(5);
    while world.core.servers_up() == 5 {
        world.pass(100);
        for member in &members[1..] {
            world.send(member).unwrap();
        }
    }
    // Two of the others stay with the former map: with the votes of both the server could go on.
    let mut early = members.split_off(1);
    for _ in 0..60 {
        world.pass(100);
        world.send_current(&mut early[..2]);
        for late in &early[2..] {
            world.send(late).unwrap();
        }
        assert!(owns(&world, 0));
    }
    pass(&mut world, 1_200, &mut early[..3]);
    assert!(!owns(&world, 0), "one of them would not do");
}

#[test]
fn where_half_of_the_servers_are_left_to_confirm_the_others_may_be_dead() {
    for (servers, dead, given_up) in [(2, 1, true), (3, 1, true), (3, 2, false), (4, 2, true)] {
        let (mut world, mut members) = cluster(servers);
        pass(&mut world, 20_000, &mut members[dead..]);
        assert_eq!(!owns(&world, 0), given_up, "{dead} of {servers}");
        assert_eq!(world.core.servers_up(), members.len() - dead);
    }
}

#[test]
fn who_is_alone_keeps_what_it_has() {
    let (mut world, _) = cluster(1);
    world.pass(60_000);
    assert!(owns(&world, 0));
}

#[test]
fn a_server_of_an_older_version_keeps_its_cachelets() {
    let (mut world, mut members) = cluster(3);
    members[0].leased = false;
    world.send_current(&mut members);
    pass(&mut world, 20_000, &mut members[1..]);
    assert!(owns(&world, 0));
}

#[test]
fn a_coordinator_that_begins_anew_waits_anew_and_goes_on() {
    let (mut world, mut members) = cluster(3);
    pass(&mut world, 3_500, &mut members[1..]);
    assert_eq!(world.core.servers_up(), 2);
    // Dead while nobody looked: what is known of it comes from the state.
    for _ in 0..3 {
        world.restart();
        pass(&mut world, 1_000, &mut members[1..]);
        assert!(owns(&world, 0), "a whole lease, each time");
    }
    pass(&mut world, 1_900, &mut members[1..]);
    assert!(owns(&world, 0), "a whole silence, after a restart");
    pass(&mut world, 200, &mut members[1..]);
    assert!(!owns(&world, 0));
}

#[test]
fn a_coordinator_that_was_away_for_ten_minutes_moves_nothing() {
    let (mut world, mut members) = cluster(5);
    let (epoch, owners) = (world.core.epoch(), world.owners());
    world.now.monotonic = world.now.monotonic + Duration::from_secs(600);
    world.restart();
    pass(&mut world, 10_000, &mut members);
    world.sleep(600_000);
    pass(&mut world, 10_000, &mut members);
    assert_eq!((world.core.epoch(), world.owners()), (epoch, owners));
}

#[test]
fn one_that_is_back_in_time_goes_on_with_what_it_has() {
    let (mut world, mut members) = cluster(3);
    let owners = world.owners();
    pass(&mut world, 3_800, &mut members[1..]);
    assert_eq!(world.core.servers_up(), 2);
    pass(&mut world, 5_000, &mut members);
    assert_eq!(world.owners(), owners);
    assert_eq!(world.core.servers_up(), 3);
}

#[test]
fn what_a_server_was_giving_up_when_it_died_goes_to_others_too() {
    let (mut world, mut members) = cluster(3);
    let mut newcomer = Heartbeat {
        leased: true,
        ..server(4, 2)
    };
    world.send(&newcomer).unwrap();
    assert!(world.core.cachelets_in_transit() > 0);
    members.push(newcomer.clone());
    newcomer.epoch = Epoch(0);
    pass(&mut world, 6_000, &mut members[1..]);
    assert_eq!(world.core.cachelets_in_transit(), 0);
    assert!(!owns(&world, 0));
    assert!(world.shares().values().all(|&n| n == 16));
}

#[test]
fn what_a_server_may_have_missed_is_bounded() {
    let (mut world, mut members) = cluster(3);
    // It stays with its map while others go and come; what they were by that map is forgotten in the end.
    let stays = members[0].clone();
    for _ in 0..limits::ELECTORATES_MAX {
        for _ in 0..7 {
            world.pass(500);
            world.send(&stays).unwrap();
            world.send_current(&mut members[1..2]);
        }
        world.send_current(&mut members[1..]);
    }
    let state = world.core.saved_state();
    assert_eq!(state.electorates.len(), limits::ELECTORATES_MAX);
    assert_eq!(state.validate("test"), Ok(()));
    pass(&mut world, 20_000, &mut members[1..]);
    assert!(
        owns(&world, 0),
        "nobody knows any more who would vote for it"
    );
    // Once it has confirmed a map that is remembered, the others are forgotten.
    pass(&mut world, 1_000, &mut members);
    pass(&mut world, 6_000, &mut members[1..]);
    assert!(!owns(&world, 0));
    assert!(world.core.saved_state().electorates.len() < 4);
}

/// A life that ends after its first heartbeat: it was given a lease with the answer, and nobody hears more of it.
#[test]
fn a_server_that_dies_at_once_after_a_restart_is_given_up_like_any_other() {
    let (mut world, mut members) = cluster(3);
    let keeper = LeaseKeeper::new(BootId(77));
    let again = Heartbeat {
        boot: BootId(77),
        epoch: Epoch(0),
        leased: keeper.needs_leases(),
        ..members[0].clone()
    };
    world.send_new_life(&again).unwrap();
    assert!(owns(&world, 0));
    pass(&mut world, 6_000, &mut members[1..]);
    assert!(!owns(&world, 0));
}

/// A newcomer that owns nothing yet is dead, and cachelets wait for it to let go of them.
#[test]
fn a_coordinator_that_begins_anew_knows_of_the_dead_for_whom_cachelets_wait() {
    let (mut world, mut members) = cluster(3);
    members.iter_mut().for_each(|member| member.migrates = true);
    world.send_current(&mut members);
    let mut newcomer = Heartbeat {
        leased: true,
        migrates: true,
        ..server(4, 2)
    };
    world.send(&newcomer).unwrap();
    newcomer.epoch = world.core.epoch();
    world.send(&newcomer).unwrap();
    let under_way = world.core.migrations(world.now.monotonic).migrations;
    let source = under_way[0].from.server.clone();
    let source = members.iter_mut().find(|m| m.name == source).expect("it");
    (source.boot, source.epoch) = (BootId(78), Epoch(0));
    world.send_new_life(source).unwrap();
    assert!(world.core.cachelets_in_transit() > 0);
    while world.core.servers_up() == 4 {
        pass(&mut world, 100, &mut members);
    }
    // All confirm that it is down, and another map is made, before a lease is over.
    pass(&mut world, 100, &mut members);
    members.push(Heartbeat {
        leased: true,
        ..server(5, 2)
    });
    world.send(&members[members.len() - 1]).unwrap();
    pass(&mut world, 200, &mut members);
    assert!(world.core.cachelets_in_transit() > 0);
    world.restart();
    pass(&mut world, 10_000, &mut members);
    assert_eq!(world.core.cachelets_in_transit(), 0);
}
