//! What grains of a ring carry, as a worker counts it.

use super::world::{SOURCE, World, placement};
use crate::*;
use evenkeel_control::rings::{GrainCounted, RingMove, RingPlan};
use evenkeel_placement::ring::{Ring, grain_of};
use evenkeel_schemes::stage::{Stage, Step};
use std::collections::BTreeSet;

#[test]
fn reads_hits_and_writes_are_counted_by_the_grain_of_their_key() {
    let adaptive = |config: &mut ProxyConfig| {
        config.pools[0].settings.adaptive = true;
        config.pools[0].settings.follows = Some(SOURCE);
        config.pools[0].settings.collapse = false;
    };
    let mut world = World::memcached_with(1, adaptive);
    let client = world.client();
    let list = ServerList::new(placement(101..=101)).unwrap();
    let ring = Ring::even(1, 1).unwrap();
    let hash = |key: &str| list.hashed(key.as_bytes()).1 as u32;
    world.plan = Some(RingPlan {
        number: 1,
        incarnation: 7,
        placement: placement(101..=101),
        ring: ring.clone(),
        moves: Vec::new(),
        server: None,
    });
    let step = |version, stage| Some(Step { version, stage });
    world.set_step(step(1, Stage::Former));
    for (line, reply) in [
        ("get a\r\n", "VA 1 f0 c1\r\nx\r\n"),
        ("mg a v\r\n", "EN\r\n"),
        ("set a 0 0 1\r\nx\r\n", "HD\r\n"),
        ("ms a 1 q\r\nx\r\nmn\r\n", "MN\r\n"),
        ("delete b\r\n", "NF\r\n"),
    ] {
        world.send(client, line);
        world.asked(101);
        world.reply(101, reply);
        world.received(client);
    }
    let grains = ring.grains();
    let of = |key: &str| grain_of(&grains, hash(key)) as u32;
    let counted = |world: &World| {
        let counted = world.core.ring_counted(world.now(), SOURCE, "default");
        counted.expect("a ring")
    };
    let first = counted(&world);
    assert_eq!((first.plan, first.moved), (1, false));
    let mut expected = vec![(of("a"), 2, 1, 2), (of("b"), 0, 0, 1)];
    expected.sort_unstable();
    let seen = |of: &GrainCounted| (of.0, of.1, of.2, of.3);
    assert_eq!(first.grains.iter().map(seen).collect::<Vec<_>>(), expected);
    let bytes: u64 = first.grains.iter().map(|of| of.4).sum();
    assert!(bytes > 60, "{bytes}");
    // Of another ring nothing has been counted yet, which is one from `warming` on.
    let plan = world.plan.as_mut().unwrap();
    plan.number = 2;
    plan.moves = vec![RingMove {
        first: hash("a"),
        last: hash("a"),
        to: 0,
    }];
    for (version, stage, moved) in [
        (2, Stage::Former, false),
        (3, Stage::Quiesced, false),
        (4, Stage::Warming, true),
        (5, Stage::Closing, true),
    ] {
        world.set_step(step(version, stage));
        let now = counted(&world);
        assert_eq!((now.plan, now.moved), (2, moved), "{stage}");
        assert_eq!(now.grains, [], "{stage}");
    }
}

#[test]
fn a_grain_is_found_where_a_search_finds_it() {
    let placement = placement(101..=112);
    let plan = RingPlan {
        number: 1,
        incarnation: 0,
        ring: Ring::adopt(&placement).unwrap(),
        placement,
        moves: Vec::new(),
        server: None,
    };
    let (ring, list) = (
        PlannedRing::new(&plan).unwrap(),
        ServerList::new(plan.placement).unwrap(),
    );
    let grains = plan.ring.grains();
    let mut found = BTreeSet::new();
    for key in (0..50_000).map(|i| format!("key:{i}")) {
        let grain = ring.grain(key.as_bytes(), false);
        let hash = list.hashed(key.as_bytes()).1 as u32;
        assert_eq!(grain, grain_of(&grains, hash), "{key}");
        found.insert(grain);
    }
    assert!(found.len() > grains.len() / 2);
}
