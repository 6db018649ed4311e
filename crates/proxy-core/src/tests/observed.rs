//! What copies would save is counted, and nobody is asked otherwise.

use super::world::{World, placement};
use crate::{BundleCounts, Bundles, PoolKind};
use evenkeel_placement::pool::Placement;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::sync::Arc;

const SERVERS: u16 = 16;

fn observed(copies: u8) -> World {
    World::memcached_with(SERVERS, |config| {
        let pool = &mut config.pools[0];
        let PoolKind::Memcached(list) = &pool.kind else {
            unreachable!("a list");
        };
        pool.bundles = Some(Arc::new(Bundles::new(list, copies, None, None)));
    })
}

fn counts(world: &World) -> BundleCounts {
    world.core.pool_stats()[0].bundles.expect("it is observed")
}

#[test]
fn what_is_counted_is_what_is_asked_and_what_copies_would_save() {
    const SEED: u64 = 0x0b5e;
    println!("seed {SEED}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let list = Placement::new(&placement(101..=100 + SERVERS)).expect("servers");
    let mut world = observed(4);
    let client = world.client();
    let (mut requests, mut keys_asked, mut asked) = (0, 0, 0);
    for _ in 0..300 {
        let count = 1 + random.next_u64() % 40;
        let keys: Vec<String> = (0..count)
            .map(|_| format!("k{}", random.next_u64() % 500))
            .collect();
        let distinct: BTreeSet<&String> = keys.iter().collect();
        let homes: BTreeSet<usize> = distinct
            .iter()
            .map(|key| list.server(key.as_bytes()))
            .collect();
        if distinct.len() > 1 {
            requests += 1;
            keys_asked += distinct.len() as u64;
            asked += homes.len() as u64;
        }
        let verb = ["get", "gets"][usize::from(random.next_u64() % 2 == 0)];
        world.send(client, format!("{verb} {}\r\n", keys.join(" ")));
        for server in 0..usize::from(SERVERS) {
            let port = 101 + server as u16;
            assert_eq!(world.has_asked(port), homes.contains(&server));
            let lines = world.asked(port).lines().count();
            if lines > 0 {
                world.reply(port, "END\r\n".repeat(lines));
            }
        }
        assert_eq!(world.received(client), "END\r\n");
    }
    let counts = counts(&world);
    assert_eq!(
        [counts.requests, counts.keys, counts.transactions],
        [requests, keys_asked, asked]
    );
    // A request of twenty keys asks 11.6 of 16 servers, and 4 to 5 where each key is at four.
    let ratio = counts.transactions_covered as f64 / asked as f64;
    assert!((0.3..0.6).contains(&ratio), "{counts:?}");
}

#[test]
fn writes_would_delete_copies_and_touches_would_not() {
    let mut world = observed(3);
    let client = world.client();
    world.send(
        client,
        "set k 0 0 1\r\nx\r\ndelete k\r\nincr k 1\r\ntouch k 9\r\nget k\r\n",
    );
    let counts = counts(&world);
    assert_eq!((counts.deletes, counts.requests), (6, 0));
}

/// The pseudo key is none, and a request that waits for room is seen once.
#[test]
fn a_multi_get_with_a_limit_is_counted_once_and_its_limit_is_no_key() {
    let mut world = observed(2);
    world.configure(|config| config.limit_keys = true);
    let client = world.client();
    let keys = |from: usize| -> String { (from..from + 700).map(|n| format!(" k{n}")).collect() };
    let lines = format!("get limit:1%{}\r\nget limit:1%{}\r\n", keys(0), keys(700));
    world.send(client, lines);
    assert_eq!((counts(&world).requests, counts(&world).keys), (1, 700));
    let answer_all = |world: &mut World| {
        for port in 101..=100 + SERVERS {
            let lines = world.asked(port).lines().count();
            if lines > 0 {
                world.reply(port, "END\r\n".repeat(lines));
            }
        }
    };
    let mut received = String::new();
    for _ in 0..10 {
        answer_all(&mut world);
        received += &world.received(client);
    }
    assert_eq!(received.matches("END\r\n").count(), 2, "{received}");
    assert_eq!((counts(&world).requests, counts(&world).keys), (2, 1400));
    assert!(world.core.stats().client_pauses > 0);
}

#[test]
fn counts_go_on_when_the_configuration_changes() {
    let mut world = observed(2);
    let client = world.client();
    world.send(client, "get a b c\r\n");
    let before = counts(&world);
    assert_eq!(before.requests, 1);
    world.configure(|config| config.limit_keys = true);
    assert_eq!(counts(&world), before);
    world.configure(|config| config.pools[0].bundles = None);
    assert_eq!(world.core.pool_stats()[0].bundles, None);
}
