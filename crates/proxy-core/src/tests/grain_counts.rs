//! What grains of a ring carry, as a worker counts it.

use super::world::{SOURCE, World, placement};
use crate::*;
use evenkeel_control::rings::{GrainCounted, RingMove, RingPlan};
use evenkeel_placement::ring::{Ring, grain_of};
use evenkeel_schemes::generation::name_prefix;
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
        ("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ("mg a v\r\n", "EN\r\n"),
        ("set a 0 0 1\r\nx\r\n", "HD\r\n"),
        ("ms a 1 q\r\nx\r\nmn\r\n", "MN\r\n"),
        ("delete b\r\n", "NF\r\n"),
        // These are taken at a glance, but for misses within a line, errors, uniques and placeholders.
        ("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ("get a\r\n", "END\r\n"),
        (
            "get a b\r\n",
            "VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\nx\r\nEND\r\n",
        ),
        (
            "get b a b\r\n",
            "VALUE b 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nEND\r\n",
        ),
        ("get b a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ("get b a\r\n", "SERVER_ERROR busy\r\n"),
        ("gets a\r\n", "VALUE a 0 1 7\r\nx\r\nEND\r\n"),
        ("get a b\r\n", "VALUE a 1163283276 1\r\nx\r\nEND\r\n"),
        ("get a\r\n", "VALUE a 1163283276 1\r\nx\r\nEND\r\n"),
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
    let mut expected = vec![(of("a"), 11, 6, 2), (of("b"), 6, 2, 1)];
    expected.sort_unstable();
    let seen = |of: &GrainCounted| (of.0, of.1, of.2, of.3);
    assert_eq!(first.grains.iter().map(seen).collect::<Vec<_>>(), expected);
    let bytes = |counted: RingCounted| -> u64 { counted.grains.iter().map(|of| of.4).sum() };
    let (question, value) = ("get a\r\n", "VALUE a 0 1\r\nx\r\n");
    let mut carried = bytes(first);
    // In a line of several each has its own; what ends the answer to a line is nobody's.
    let end = question.len() + "END\r\n".len();
    for (line, reply, more) in [
        ("get a\r\n", format!("{value}END\r\n"), end + value.len()),
        ("get a\r\n", "END\r\n".into(), end),
        (
            "get a b\r\n",
            format!("{value}END\r\n"),
            2 * " a".len() + value.len(),
        ),
        (
            "get b a\r\n",
            format!("{value}END\r\n"),
            2 * " a".len() + value.len(),
        ),
        (
            "gets a\r\n",
            format!("{value}END\r\n"),
            1 + end + value.len(),
        ),
    ] {
        world.send(client, line);
        world.asked(101);
        world.reply(101, reply);
        world.received(client);
        carried += more as u64;
        assert_eq!(bytes(counted(&world)), carried, "{line}");
    }
    // What is passed on as it comes.
    let large = format!("VALUE a 0 100000\r\n{}\r\n", "x".repeat(100_000));
    for (line, more) in [("get a\r\n", end), ("get a b\r\n", 2 * " a".len())] {
        world.send(client, line);
        world.asked(101);
        world.reply(101, &large[..1000]);
        assert!(!world.received(client).is_empty(), "it goes on at once");
        world.reply(101, &large[1000..]);
        world.reply(101, "END\r\n");
        world.received(client);
        carried += (more + large.len()) as u64;
        assert_eq!(bytes(counted(&world)), carried, "{line}");
    }
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
    world.set_step(step(6, Stage::Done));
    let name = name_prefix(7, 1).unwrap();
    let name = String::from_utf8([&name, &b"a"[..]].concat()).unwrap();
    for _ in 0..2 {
        world.send(client, "get a\r\n");
        assert_eq!(world.asked(101), format!("get {name}\r\n"));
        world.reply(101, format!("VALUE {name} 0 1\r\nx\r\nEND\r\n"));
        assert_eq!(world.received(client), "VALUE a 0 1\r\nx\r\nEND\r\n");
    }
    let grain = grain_of(&plan_of(&world).moved().unwrap().grains(), hash("a")) as u32;
    let seen: Vec<_> = counted(&world).grains.iter().map(seen).collect();
    assert_eq!(seen, [(grain, 2, 2, 0)]);
}

fn plan_of(world: &World) -> &RingPlan {
    world.plan.as_ref().expect("it has one")
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
        let grain = ring.grains(false).find(ring.hash(key.as_bytes()) as u32);
        let hash = list.hashed(key.as_bytes()).1 as u32;
        assert_eq!(grain, grain_of(&grains, hash), "{key}");
        found.insert(grain);
    }
    assert!(found.len() > grains.len() / 2);
}
