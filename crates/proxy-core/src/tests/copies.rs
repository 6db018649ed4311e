//! What scripts have no words for: copies that end soon, and plans that have copies elsewhere.

use super::world::{SOURCE, World, placement};
use crate::{BundleUpdate, Bundles, Keeping, PoolKind, PoolUpdate, ServerList};
use evenkeel_control::bundles::{BundlePlan, BundleWish, COPIES_MAX};
use evenkeel_schemes::copies::{Header, name_prefix};
use evenkeel_schemes::stage::{Stage, Step};
use std::sync::Arc;

const SERVERS: u16 = 3;

/// What the wall clock of the world shows.
const UNIX: u32 = 1_800_000_000;

fn world() -> (World, BundleWish) {
    let world = World::memcached_with(SERVERS, |config| {
        let pool = &mut config.pools[0];
        pool.settings.follows = Some(SOURCE);
        let PoolKind::Memcached(list) = &pool.kind else {
            unreachable!("a list");
        };
        pool.bundles = Some(Arc::new(Bundles::new(
            list,
            2,
            Some(Keeping::default()),
            None,
        )));
    });
    let wish = world.bundles().expect("copies").wish();
    (world, wish)
}

/// Two keys with a copy at the same server, and the port of that.
fn keys() -> ([String; 2], u16) {
    let list = ServerList::new(placement(101..=100 + SERVERS)).unwrap();
    let bundles = Bundles::new(&list, 2, None, None);
    let places = |key: &String| {
        let mut places = [0; COPIES_MAX as usize];
        let places = bundles.places(&list, key.as_bytes(), &mut places);
        [places[0], places[1]]
    };
    let mut keys = (0..).map(|n| format!("key{n}"));
    let first = keys.find(|key| places(key) == [0, 1]).unwrap();
    let second = keys.find(|key| places(key) == [2, 1]).unwrap();
    ([first, second], 102)
}

fn tell(world: &mut World, version: u64, stage: Stage, plan: Option<BundlePlan>) {
    world.tell(Some(PoolUpdate {
        step: Step { version, stage },
        ring: None,
        bundle: plan.map(|plan| BundleUpdate { plan, fillers: 1 }),
    }));
}

#[test]
fn one_read_in_four_of_a_copy_that_ends_soon_refreshes_it() {
    let ([first, second], port) = keys();
    let (mut world, of) = world();
    let plan = BundlePlan {
        number: 1,
        token: 9,
        of,
    };
    for (version, stage) in (1..).zip([Stage::Former, Stage::Quiesced, Stage::Warming]) {
        tell(&mut world, version, stage, Some(plan));
    }
    let client = world.client();
    let name = |key: &str| [&name_prefix(9)[..], key.as_bytes()].concat();
    let value = |key: &str, ends: u32| {
        let header = Header { unique: 65, ends };
        let line = [b"VALUE ", &name(key)[..], b" 0 13\r\n"].concat();
        [&line[..], &header.to_bytes(), b"x\r\n"].concat()
    };
    let mut refreshed = 0;
    for _ in 0..400 {
        world.send(client, format!("get {first} {second}\r\n"));
        world.asked(port);
        // The second has a quarter of its life left.
        let answer = [value(&first, UNIX + 14), value(&second, UNIX + 15)];
        world.reply(port, [&answer.concat()[..], b"END\r\n"].concat());
        let expected = format!("VALUE {first} 0 1\r\nx\r\nVALUE {second} 0 1\r\nx\r\nEND\r\n");
        assert_eq!(world.received(client), expected);
        let asked = world.asked_bytes(port);
        if asked.is_empty() {
            continue;
        }
        refreshed += 1;
        assert_eq!(asked, [b"mg ", &name(&first)[..], b" c f\r\n"].concat());
        world.reply(port, "HD c7 f0\r\n");
        assert_eq!(world.asked(101), format!("mg {first} v f t c\r\n"));
        world.reply(101, "VA 1 f0 t-1 c66\r\ny\r\n");
        let stored = world.asked_bytes(port);
        let line = [b"ms ", &name(&first)[..], b" 13 c C7 F0 T"].concat();
        assert!(stored.starts_with(&line) && stored.ends_with(b"y\r\n"));
        world.reply(port, "HD c8\r\n");
    }
    assert!((60..140).contains(&refreshed), "{refreshed}");
    let counts = world.core.pool_stats()[0].bundles.expect("counts");
    assert_eq!((counts.refreshes, counts.copies_hit), (refreshed, 800));
}

/// Proxies share what copies may take of a server's memory, and with them their workers.
#[test]
fn what_is_filled_is_a_part_of_the_servers_memory_that_is_shared() {
    let ([first, second], port) = keys();
    let name = |key: &str| [&name_prefix(9)[..], key.as_bytes()].concat();
    // Head, unique, flags and ends of an item, its name, and the copy's header; and a byte.
    let size = |key: &str| (63 + name(key).len() + 12 + 1) as u64;
    let (mut world, of) = world();
    // A quarter is room for both, or for the second alone where there is another worker.
    let quarter = size(&first) + size(&second);
    world.statistics(
        port,
        format!("STAT limit_maxbytes {}\r\nEND\r\n", 4 * quarter),
    );
    let plan = BundlePlan {
        number: 1,
        token: 9,
        of,
    };
    let told = |world: &mut World, fillers: u32| {
        let (version, stage) = (3, Stage::Warming);
        world.tell(Some(PoolUpdate {
            step: Step { version, stage },
            ring: None,
            bundle: Some(BundleUpdate { plan, fillers }),
        }));
    };
    tell(&mut world, 1, Stage::Former, None);
    tell(&mut world, 2, Stage::Quiesced, Some(plan));
    told(&mut world, 2);
    let client = world.client();
    let mut unique = 0;
    // What is stored of the two, which are not there, when home has values of this many bytes.
    let mut stored = |world: &mut World, len: usize| {
        world.send(client, format!("get {first} {second}\r\n"));
        world.asked(port);
        world.reply(port, "END\r\n");
        for home in [101, 103] {
            world.asked(home);
            world.reply(home, "END\r\n");
        }
        world.received(client);
        let mut stored = Vec::new();
        for (home, key) in [(101, &first), (103, &second)] {
            let placed = String::from_utf8_lossy(&world.asked_bytes(port)).into_owned();
            for _ in placed.matches("\r\n1p") {
                unique += 1;
                world.reply(port, format!("HD c{unique}\r\n"));
            }
            if !world.has_asked(home) {
                continue;
            }
            world.asked(home);
            let value = "x".repeat(len);
            world.reply(home, format!("VA {len} f0 t-1 c1\r\n{value}\r\n"));
            let last = world.asked_bytes(port);
            let is_store = last.starts_with(&[b"ms ", &name(key)[..]].concat());
            world.reply(port, if is_store { "HD c99\r\n" } else { "HD\r\n" });
            if is_store {
                stored.push(key.clone());
            }
        }
        stored
    };
    let left_out = |world: &World| {
        let counts = world.core.pool_stats()[0].bundles.expect("counts");
        (counts.fills, counts.fills_left_out)
    };
    assert_eq!(stored(&mut world, 1), std::slice::from_ref(&first));
    assert_eq!(left_out(&world), (1, 1));
    // The other one has ended.
    told(&mut world, 1);
    assert_eq!(stored(&mut world, 2), [""; 0], "too long by a byte");
    assert_eq!(left_out(&world), (1, 3));
    world.wait_ms(30_000);
    assert_eq!(stored(&mut world, 1), std::slice::from_ref(&first));
    assert_eq!(left_out(&world), (2, 4));
    world.wait_ms(64_000);
    assert_eq!(stored(&mut world, 1), [first, second]);
    assert_eq!(left_out(&world), (4, 4));
}

/// A plan that has copies elsewhere is not worked by while anybody may read them: writes would delete the wrong ones.
#[test]
fn a_plan_of_other_places_is_worked_by_as_long_as_copies_are_off_alone() {
    let (mut world, of) = world();
    let plan = |fingerprint: u64| {
        let of = BundleWish { fingerprint, ..of };
        Some(BundlePlan {
            number: 1,
            token: 9,
            of,
        })
    };
    let client = world.client();
    let told = |world: &mut World, version, stage, plan| {
        world.acknowledged.clear();
        tell(world, version, stage, plan);
        world.wait_ms(1);
        world.acknowledged.clone()
    };
    let other = plan(!of.fingerprint);
    assert!(told(&mut world, 3, Stage::Warming, other).is_empty());
    world.send(client, "set k 0 0 1\r\nx\r\n");
    let asked = |world: &World| (101..=103).find(|port| world.has_asked(*port));
    assert_eq!(asked(&world), None, "it knows nothing yet");
    told(&mut world, 5, Stage::Done, other);
    let port = asked(&world).expect("there are none");
    world.reply(port, "STORED\r\n");
    assert_eq!(world.received(client), "STORED\r\n");
    assert_eq!(world.acknowledged, [5]);
    assert!(told(&mut world, 7, Stage::Quiesced, other).is_empty());
    assert_eq!(
        told(&mut world, 7, Stage::Quiesced, plan(of.fingerprint)),
        [7]
    );
}

/// What was told of other places says nothing of these.
#[test]
fn with_another_list_everything_waits_to_be_told_anew() {
    let (mut world, of) = world();
    let plan = Some(BundlePlan {
        number: 1,
        token: 9,
        of,
    });
    tell(&mut world, 1, Stage::Former, plan);
    world.configure(|config| {
        let list = ServerList::new(placement(101..=102)).unwrap();
        let bundles = Bundles::new(&list, 2, Some(Keeping::default()), None);
        config.pools[0].kind = PoolKind::Memcached(Arc::new(list));
        config.pools[0].bundles = Some(Arc::new(bundles));
    });
    let client = world.client();
    world.send(client, "set k 0 0 1\r\nx\r\n");
    assert!((101..=103).all(|port| !world.has_asked(port)));
    tell(&mut world, 1, Stage::Former, plan);
    assert!((101..=102).any(|port| world.has_asked(port)));
}

#[test]
fn it_is_explained_where_copies_are_and_which_servers_keys_ask_together() {
    let ([first, second], _) = keys();
    let (mut world, of) = world();
    let explained = |world: &World| {
        let explained = world.core.explain(world.now, first.as_bytes(), true);
        let to = explained.unwrap().ways[0].to.clone().unwrap();
        let copies = to.copies.expect("it has some");
        assert_eq!(copies.servers[0].name, "a:102");
        (to.scheme, copies.switch, copies.name)
    };
    let scheme = "list, k copies; read cover; write home, then delete copies".to_owned();
    assert_eq!(explained(&world), (scheme.clone(), "unknown".into(), None));
    let (number, token) = (1, 9);
    let plan = BundlePlan { number, token, of };
    tell(&mut world, 1, Stage::Former, None);
    assert_eq!(explained(&world).1, "off");
    tell(&mut world, 2, Stage::Quiesced, Some(plan));
    let name = format!("\\x01cJAAAAAAA:{first}");
    assert_eq!(explained(&world), (scheme, "clearing".into(), Some(name)));
    tell(&mut world, 3, Stage::Warming, Some(plan));
    let asked: Vec<&[u8]> = [&first, &second].map(|key| key.as_bytes()).into();
    let together = world.core.together(&asked).expect("they are of one pool");
    assert_eq!((together.transactions, together.transactions_plain), (1, 2));
    let at_copies = together
        .keys
        .iter()
        .all(|key| key.copy && key.server == "a:102");
    assert!(at_copies && together.copies == "on", "{together:?}");
    let client = world.client();
    world.send(client, format!("stats together {first} {second}\r\n"));
    let json = serde_json::to_string(&together).unwrap();
    assert_eq!(
        world.received(client),
        format!("STAT together {json}\r\nEND\r\n")
    );
    for none in [&[][..], &[&b"a b"[..]], &[&[b'k'; 251]]] {
        assert!(world.core.together(none).is_err());
    }
    let plain = World::memcached(3);
    assert!(plain.core.together(&asked).is_err(), "it has no copies");
}
