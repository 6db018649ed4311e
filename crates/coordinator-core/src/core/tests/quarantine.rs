//! Owners that die one after the other: stories. The random model has what must hold at all times.

use super::fence::pass;
use super::*;

const SERVERS: u16 = 8;

fn cluster(servers: u16) -> (World, Vec<Heartbeat>) {
    leased_cluster(servers, 2)
}

fn index_of(members: &[Heartbeat], server: ServerId) -> usize {
    let name = format!("s{}", server.0 + 1);
    let mut members = members.iter();
    members.position(|it| it.name == name).expect("a member")
}

/// The server falls silent, and what it owned goes to others or to nobody.
fn die(world: &mut World, members: &mut Vec<Heartbeat>, server: ServerId) -> Heartbeat {
    let dead = members.remove(index_of(members, server));
    pass(world, 5_000, members);
    assert_eq!(world.core.cachelets_in_transit(), 0);
    let owners = world.owners();
    let mut owners = owners.iter().flatten();
    assert!(owners.all(|owner| owner.server != server));
    dead
}

fn owned_by(world: &World, server: ServerId) -> BTreeSet<CacheletId> {
    let owners = (0u16..).zip(world.owners());
    let its = owners.filter(|(_, owner)| owner.is_some_and(|owner| owner.server == server));
    its.map(|(cachelet, _)| CacheletId(cachelet)).collect()
}

fn quarantined(world: &World) -> BTreeSet<CacheletId> {
    let map = world.core.map().expect("a map");
    let of_map: BTreeSet<_> = map.document().quarantined.iter().copied().collect();
    let shown = world.core.quarantined();
    assert!(
        shown
            .iter()
            .map(|it| it.cachelet)
            .eq(of_map.iter().copied())
    );
    of_map
}

/// The owner of a cachelet dies, and the next one. Gives the dead and what both have had.
fn two_deaths(
    world: &mut World,
    members: &mut Vec<Heartbeat>,
) -> ([Heartbeat; 2], BTreeSet<CacheletId>) {
    let first = ServerId(0);
    let had = owned_by(world, first);
    let killer = *had.first().expect("it owns something");
    let a = die(world, members, first);
    assert!(quarantined(world).is_empty(), "one death says nothing");
    let second = world.owners()[usize::from(killer.0)]
        .expect("an owner")
        .server;
    let both: BTreeSet<_> = &had & &owned_by(world, second);
    let b = die(world, members, second);
    assert!(both.contains(&killer));
    ([a, b], both)
}

fn release(world: &mut World, cachelet: CacheletId) {
    let released = world.core.release_cachelet(world.now, cachelet).unwrap();
    assert_eq!(released.epoch, world.core.epoch());
}

#[test]
fn what_two_owners_had_that_died_is_nobodys_until_an_operator_says_so() {
    let (mut world, mut members) = cluster(SERVERS);
    let (dead, both) = two_deaths(&mut world, &mut members);
    assert_eq!(quarantined(&world), both);
    let nobodys = world
        .owners()
        .iter()
        .filter(|owner| owner.is_none())
        .count();
    assert_eq!(nobodys, both.len(), "everything else is given on");
    let names = dead.map(|dead| dead.name);
    assert!(
        world
            .core
            .quarantined()
            .iter()
            .all(|it| it.servers == names)
    );
    let event = world
        .core
        .events()
        .iter()
        .find(|it| it.cause == Cause::CacheletsQuarantined);
    let event = event.expect("an event").clone();
    assert!(event.named.iter().eq(&both) && names.iter().all(|it| event.servers.contains(it)));

    // It stays so, and what is asked of it is refused.
    pass(&mut world, 700_000, &mut members);
    world.restart();
    pass(&mut world, 5_000, &mut members);
    assert_eq!(quarantined(&world), both);
    let killer = *both.first().unwrap();
    let (now, next) = (world.now, worker(members[0].port / 100 - 101, 0));
    let moves = world.core.begin_migration(now, killer, next, 0);
    assert!(matches!(moves, Err(MigrationRefusal::NobodyOwns { .. })));
    let free = owned_by(&world, next.server).first().copied().unwrap();
    let refused = world.core.release_cachelet(now, free).unwrap_err();
    assert_eq!(refused, ReleaseRefusal::NotQuarantined { cachelet: free });
    let unknown = CacheletId(4_000);
    let refused = world.core.release_cachelet(now, unknown).unwrap_err();
    assert_eq!(
        refused,
        ReleaseRefusal::UnknownCachelet { cachelet: unknown }
    );

    release(&mut world, killer);
    pass(&mut world, 2_000, &mut members);
    assert!(world.owners()[usize::from(killer.0)].is_some());
    assert_eq!(quarantined(&world).len(), both.len() - 1);
    assert!(
        world
            .causes()
            .iter()
            .any(|(_, cause)| *cause == Cause::QuarantineEnded)
    );
}

#[test]
fn ten_minutes_are_too_long_for_one_cause() {
    let (mut world, mut members) = cluster(SERVERS);
    let had = owned_by(&world, ServerId(0));
    die(&mut world, &mut members, ServerId(0));
    assert!(!world.core.saved_state().deaths.is_empty());
    let revision = world.core.revision();
    pass(&mut world, 600_000, &mut members);
    assert!(world.core.saved_state().deaths.is_empty());
    assert!(world.core.revision() > revision, "and that is saved");
    let heir = world.owners()[usize::from(had.first().unwrap().0)].unwrap();
    die(&mut world, &mut members, heir.server);
    assert!(quarantined(&world).is_empty());
}

#[test]
fn who_was_told_to_end_or_is_emptied_has_not_died() {
    for is_drained in [false, true] {
        let (mut world, mut members) = cluster(SERVERS);
        let had = owned_by(&world, ServerId(0));
        if is_drained {
            let request = DrainRequest {
                server: "s1".into(),
                drain: true,
                cachelets_per_second: 1,
            };
            world.core.handle_drain(world.now, &request).unwrap();
        } else {
            members[0].leaves = true;
            let goodbye = members[0].clone();
            world.send(&goodbye).unwrap();
        }
        die(&mut world, &mut members, ServerId(0));
        assert!(world.core.saved_state().deaths.is_empty(), "{is_drained}");
        let heir = world.owners()[usize::from(had.first().unwrap().0)].unwrap();
        die(&mut world, &mut members, heir.server);
        assert!(quarantined(&world).is_empty(), "{is_drained}");
    }
}

#[test]
fn two_lives_of_one_name_are_two_deaths() {
    let (mut world, mut members) = cluster(SERVERS);
    let had = owned_by(&world, ServerId(0));
    for life in 1..=2 {
        assert!(quarantined(&world).is_empty());
        world.pass(2_000);
        members[0].boot = BootId(life);
        members[0].epoch = Epoch(0);
        let again = members[0].clone();
        world.send(&again).expect("the former life is silent");
        world.send_current(&mut members);
    }
    assert_eq!(quarantined(&world), had);
    pass(&mut world, 5_000, &mut members);
    assert!(!owned_by(&world, ServerId(0)).is_empty(), "it gets others");
}

#[test]
fn a_large_part_of_a_cluster_is_no_key() {
    let (mut world, mut members) = cluster(1);
    for life in 1..=3 {
        world.pass(2_000);
        members[0].boot = BootId(life);
        members[0].epoch = Epoch(0);
        let again = members[0].clone();
        world.send(&again).unwrap();
        world.send_current(&mut members);
    }
    assert!(quarantined(&world).is_empty());
    assert_eq!(world.core.counters().quarantines_omitted, 2);
}

#[test]
fn who_kills_all_servers_in_turn_loses_little_to_quarantines() {
    let (mut world, mut members) = cluster(SERVERS);
    for server in 0..SERVERS {
        let dead = die(&mut world, &mut members, ServerId(server));
        members.push(Heartbeat {
            boot: BootId(dead.boot.0 + 1),
            epoch: Epoch(0),
            ..dead
        });
        pass(&mut world, 10_000, &mut members);
        assert_eq!(world.core.cachelets_in_transit(), 0);
    }
    let (lost, all) = (quarantined(&world).len(), world.owners().len());
    println!("{lost} of {all}");
    assert!(lost > 0 && lost * 10 < all, "{lost} of {all}");
}

#[test]
fn who_is_heard_of_again_has_not_died() {
    // Before the second death, and after it.
    let (mut world, mut members) = cluster(SERVERS);
    let had = owned_by(&world, ServerId(0));
    let first = die(&mut world, &mut members, ServerId(0));
    members.push(first);
    pass(&mut world, 100, &mut members);
    assert!(world.core.saved_state().deaths.is_empty());
    let heir = world.owners()[usize::from(had.first().unwrap().0)].unwrap();
    die(&mut world, &mut members, heir.server);
    assert!(quarantined(&world).is_empty());

    let (mut world, mut members) = cluster(SERVERS);
    let ([_, second], both) = two_deaths(&mut world, &mut members);
    assert_eq!(quarantined(&world), both);
    members.push(second);
    pass(&mut world, 2_000, &mut members);
    assert!(quarantined(&world).is_empty());
    assert!(world.owners().iter().all(Option::is_some));
}

#[test]
fn deaths_are_remembered_over_restarts() {
    let (mut world, mut members) = cluster(SERVERS);
    let killer = *owned_by(&world, ServerId(0)).first().unwrap();
    die(&mut world, &mut members, ServerId(0));
    world.restart();
    world.send_current(&mut members);
    let second = world.owners()[usize::from(killer.0)].unwrap().server;
    die(&mut world, &mut members, second);
    assert!(quarantined(&world).contains(&killer));
}

#[test]
fn a_state_of_before_knows_of_no_deaths_and_an_unsound_one_is_refused() {
    let (mut world, mut members) = cluster(SERVERS);
    die(&mut world, &mut members, ServerId(0));
    let state = world.core.saved_state();
    let mut json = serde_json::to_value(&state).unwrap();
    assert!(json.as_object_mut().unwrap().remove("deaths").is_some());
    let old: SavedState = serde_json::from_value(json).unwrap();
    assert_eq!(old.validate("test"), Ok(()));
    let mut unsound = state.clone();
    unsound.deaths[0].life.server = ServerId(99);
    assert!(unsound.validate("test").is_err());
    let mut unsound = state;
    unsound.cachelets[0] = Slot::Quarantined {
        by: ServerId(99),
        epoch: Epoch(1),
        died: None,
    };
    assert!(unsound.validate("test").is_err());
}

#[test]
fn a_map_that_is_taken_over_has_its_quarantine_and_an_id_that_died_is_nobody_elses() {
    let (mut world, mut members) = cluster(SERVERS);
    let (dead, both) = two_deaths(&mut world, &mut members);
    world.core.remove_server(world.now, &dead[0].name).unwrap();
    pass(&mut world, 5_000, &mut members);
    assert_eq!(world.core.free_id(), None, "its death is remembered");

    let map = world.core.map().unwrap().clone();
    let config = world.core.config().clone();
    world.core = CoordinatorCore::new(config, LINEAGE + 1, world.now.monotonic).unwrap();
    for member in &mut members {
        member.lineage = Some(LINEAGE);
        member.told = member.epoch;
        let _ = world.send(member);
    }
    let offer = MapOffer {
        name: members[0].name.clone(),
        boot: members[0].boot,
        lineage: LINEAGE,
        map: map.document().clone(),
    };
    world.core.handle_map_offer(world.now, &offer);
    assert_eq!(quarantined(&world), both);
    pass(&mut world, 5_000, &mut members);
    for dead in dead {
        world.core.remove_server(world.now, &dead.name).unwrap();
    }
    assert_eq!(quarantined(&world), both);
    release(&mut world, *both.first().unwrap());
    pass(&mut world, 5_000, &mut members);
    assert!(world.owners()[usize::from(both.first().unwrap().0)].is_some());
}
