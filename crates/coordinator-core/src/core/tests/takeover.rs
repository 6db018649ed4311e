//! A coordinator without state meets servers that work by a map of its predecessor.

use super::*;

/// A world of `n` servers of one worker at rest, whose coordinator is then started again without its state.
fn forgetful(n: u16) -> (World, Vec<Heartbeat>, Arc<ClusterMap>) {
    let (mut world, mut members) = leased_cluster(n, 1);
    let map = world.core.map().unwrap().clone();
    for member in &mut members {
        (member.told, member.lineage) = (member.epoch, Some(LINEAGE));
    }
    let config = world.core.config().clone();
    world.core = CoordinatorCore::new(config, LINEAGE + 1, world.now.monotonic).unwrap();
    (world, members, map)
}

fn offer(world: &mut World, member: &Heartbeat, map: &ClusterMap) {
    let offer = MapOffer {
        name: member.name.clone(),
        boot: member.boot,
        lineage: LINEAGE,
        map: map.document().clone(),
    };
    world.core.handle_map_offer(world.now, &offer);
}

#[test]
fn the_map_is_taken_over_when_all_have_come() {
    let (mut world, members, map) = forgetful(3);
    let asked = world.send(&members[0]);
    assert_eq!(asked, Err(Refusal::MapWanted));
    offer(&mut world, &members[0], &map);
    assert_eq!(world.send(&members[0]), Err(Refusal::TakingOver));
    // A proxy and a newcomer wait, too; who asks for another cluster's map is told so.
    let follower = Heartbeat {
        epoch: map.epoch(),
        lineage: Some(LINEAGE),
        ..proxy("p")
    };
    assert_eq!(world.send(&follower), Err(Refusal::TakingOver));
    assert_eq!(world.send(&server(9, 1)), Err(Refusal::TakingOver));
    let foreign = Heartbeat {
        lineage: Some(7),
        ..members[1].clone()
    };
    assert_eq!(world.send(&foreign), Err(Refusal::ForeignMap));
    assert_eq!(world.send(&members[1]), Err(Refusal::TakingOver));
    // It has begun a new life meanwhile.
    let restarted = Heartbeat {
        boot: BootId(77),
        ..server(3, 1)
    };
    let answer = world.send(&restarted);
    assert!(
        matches!(answer, Err(Refusal::NameTaken { .. })),
        "the map says that its former life is up: {answer:?}"
    );
    let answer = world.send(&members[0]).unwrap();
    assert_eq!(answer.lineage, LINEAGE);
    assert_eq!(
        answer.epoch,
        Epoch(map.epoch().0 + limits::TAKEOVER_EPOCHS + 1)
    );
    let taken = answer.map.unwrap();
    assert_eq!(taken.document().cachelets, map.document().cachelets);
    assert_eq!(taken.document().since, map.document().since);
    assert_eq!(world.causes(), [(taken.epoch().0, Cause::MapTakenOver)]);
    assert!(world.send(&follower).is_ok());
}

/// What a server has that does not come is nobody's until all follow or it is removed.
#[test]
fn more_than_half_are_enough_after_a_silence() {
    let (mut world, mut members, map) = forgetful(3);
    let _ = world.send(&members[0]);
    offer(&mut world, &members[0], &map);
    for _ in 0..40 {
        world.pass(100);
        if world.core.map().is_none() {
            let _ = world.send(&members[0]);
        }
    }
    assert_eq!(world.core.epoch(), Epoch(0), "one of three is too few");
    for _ in 0..40 {
        world.pass(100);
        if world.core.map().is_none() {
            let _ = world.send(&members[0]);
            let _ = world.send(&members[1]);
        }
    }
    assert!(world.core.epoch() > Epoch(limits::TAKEOVER_EPOCHS));
    let unowned = |world: &World| {
        world
            .owners()
            .iter()
            .filter(|owner| owner.is_none())
            .count()
    };
    for _ in 0..100 {
        world.pass(100);
        world.send_current(&mut members[..2]);
    }
    assert_eq!(unowned(&world), 16);
    assert_eq!(world.core.servers_up(), 2);
    world.core.remove_server(world.now, "s3").unwrap();
    world.send_current(&mut members[..2]);
    assert_eq!(unowned(&world), 0);
}

/// It has the map, though it lets go of nothing by it yet.
#[test]
fn who_was_told_a_map_is_a_witness_before_it_works_by_it() {
    let (mut world, members, map) = forgetful(1);
    let told = Heartbeat {
        epoch: Epoch(0),
        ..members[0].clone()
    };
    assert_eq!(world.send(&told), Err(Refusal::MapWanted));
    offer(&mut world, &told, &map);
    assert!(world.core.epoch() > Epoch(limits::TAKEOVER_EPOCHS));
}

/// Without a server that names a map there is nothing to take over.
#[test]
fn who_is_silent_is_no_witness() {
    let (mut world, members, _) = forgetful(3);
    let _ = world.send(&members[0]);
    assert_eq!(world.send(&server(9, 1)), Err(Refusal::TakingOver));
    world.pass(3_000);
    assert!(world.send(&server(9, 1)).is_ok());
}

#[test]
fn absurd_epochs_and_maps_are_refused() {
    let (mut world, members, map) = forgetful(1);
    let absurd = Heartbeat {
        epoch: Epoch(u64::MAX),
        ..members[0].clone()
    };
    let refused = world.send(&absurd);
    assert!(
        matches!(
            refused,
            Err(Refusal::FutureEpoch { .. } | Refusal::ForeignMap)
        ),
        "{refused:?}"
    );
    let _ = world.send(&members[0]);
    let absurd = MapDocument {
        epoch: Epoch(u64::MAX),
        ..map.document().clone()
    };
    let stranger = Heartbeat {
        boot: BootId(5),
        ..members[0].clone()
    };
    offer(&mut world, &stranger, &map);
    assert_eq!(world.core.epoch(), Epoch(0), "only a witness is believed");
    offer(&mut world, &members[0], &ClusterMap::new(absurd).unwrap());
    assert_eq!(world.core.epoch(), Epoch(0));
    let _ = world.send(&members[0]);
    offer(&mut world, &members[0], &map);
    assert!(world.core.epoch() > Epoch(0));
}

#[test]
fn what_readers_are_promised_is_taken_over_with_the_map() {
    let (mut world, members, map) = forgetful(1);
    let promise = Promise {
        consistency: Consistency::Atomic,
        lease_ms: 400,
    };
    let promising = MapDocument {
        promise: Some(promise),
        ..map.document().clone()
    };
    let map = Arc::new(ClusterMap::new(promising).unwrap());
    assert_eq!(world.send(&members[0]), Err(Refusal::MapWanted));
    offer(&mut world, &members[0], &map);
    let answer = world.send(&members[0]).unwrap();
    let settings = answer.settings;
    assert_eq!(settings.hot_keys_consistency, Consistency::Atomic);
    assert_eq!(settings.lease_ms, Some(400));
    assert_eq!(answer.map.expect("a map").promise(), Some(promise));
}
