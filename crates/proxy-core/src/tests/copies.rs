//! What scripts have no words for: copies that end soon, and plans that have copies elsewhere.

use super::world::{SOURCE, World, placement};
use crate::{Bundles, Keeping, PoolKind, ServerList, Told};
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
        pool.bundles = Some(Arc::new(Bundles::new(list, 2, Some(Keeping::default()))));
    });
    let wish = world.bundles().expect("copies").wish();
    (world, wish)
}

/// Two keys with a copy at the same server, and the port of that.
fn keys() -> ([String; 2], u16) {
    let list = ServerList::new(placement(101..=100 + SERVERS)).unwrap();
    let bundles = Bundles::new(&list, 2, None);
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
    world.tell(Some(Told {
        step: Step { version, stage },
        ring: None,
        bundle: plan,
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
    let mut told = |world: &mut World, version, stage, plan| {
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
        let bundles = Bundles::new(&list, 2, Some(Keeping::default()));
        config.pools[0].kind = PoolKind::Memcached(Arc::new(list));
        config.pools[0].bundles = Some(Arc::new(bundles));
    });
    let client = world.client();
    world.send(client, "set k 0 0 1\r\nx\r\n");
    assert!((101..=103).all(|port| !world.has_asked(port)));
    tell(&mut world, 1, Stage::Former, plan);
    assert!((101..=102).any(|port| world.has_asked(port)));
}
