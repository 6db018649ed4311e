//! An explanation says what happens: it is compared with where requests go, under which key, and with what
//! they are answered.

use super::routing::{pool, route, routes};
use super::world::{Connecting, SOURCE, World, key_of, map, memcached, placement};
use crate::*;
use evenkeel_control::rings::{RingMove, RingPlan};
use evenkeel_placement::ring::Ring;
use evenkeel_schemes::stage::{Stage, Step};
use evenkeel_types::map::{ClusterMap, MapDocument};
use evenkeel_types::promise::Consistency;
use evenkeel_types::promise::Promise;
use std::sync::Arc;

/// The server that was asked something, and what.
fn asked(world: &mut World) -> (u16, String) {
    let port = (101..110)
        .find(|&port| world.has_asked(port))
        .expect("some server was asked");
    let words = world.asked(port);
    assert!(
        (101..110).all(|port| !world.has_asked(port)),
        "only one was"
    );
    (port, words)
}

/// Two pools with failover, a renaming, a denied and a read-only prefix.
fn config(config: &mut ProxyConfig) {
    config.pools[0].settings.failover = Failover::Next;
    config.pools.push(pool("b", memcached([106, 107, 108])));
    config.pools[1].settings.failover = Failover::Gutter(DEFAULT_POOL.into());
    let renamed = RouteConfig {
        strip_prefix: true,
        add_prefix: b"x/".as_slice().into(),
        ttl: TtlBounds {
            min: 0,
            max: 60,
            jitter: TtlBounds::jitter_of(0.25),
        },
        ..route("b:", RouteTarget::Pool(1))
    };
    let read_only = RouteConfig {
        read_only: true,
        ..route("b:ro:", RouteTarget::Pool(1))
    };
    let gets = RouteConfig {
        commands: Commands::NONE.with(CommandClass::Get),
        ..route("b:get:", RouteTarget::Pool(0))
    };
    routes(
        config,
        vec![
            RouteConfig::to_pool(0),
            renamed,
            read_only,
            gets,
            route("no:", RouteTarget::Deny),
        ],
    );
}

fn explained(world: &World, key: &str) -> Explanation {
    world
        .core
        .explain(world.now(), key.as_bytes(), true)
        .unwrap()
}

fn way_of<'e>(explanation: &'e Explanation, command: &str) -> &'e KeyWay {
    let mut ways = explanation.ways.iter();
    ways.find(|way| way.commands.iter().any(|name| name == command))
        .unwrap()
}

/// Sends a command of each class about each key, and compares.
fn compare(world: &mut World, keys: &[String]) {
    let client = world.client();
    for key in keys {
        let explanation = explained(world, key);
        for (class, line, reply) in [
            ("get", format!("get {key}\r\n"), "END\r\n"),
            ("touch", format!("touch {key} -1\r\n"), "NOT_FOUND\r\n"),
            ("delete", format!("delete {key}\r\n"), "NOT_FOUND\r\n"),
            ("arithmetic", format!("incr {key} 1\r\n"), "NOT_FOUND\r\n"),
        ] {
            let way = way_of(&explanation, class);
            world.send(client, &line);
            if let Some(words) = &way.refused {
                assert_eq!(world.received(client), format!("{words}\r\n"), "{line}");
                continue;
            }
            let to = way.to.as_ref().unwrap();
            let Some(server) = &to.asked else {
                let received = world.received(client);
                let expected = if class == "get" {
                    "END"
                } else {
                    "SERVER_ERROR"
                };
                assert!(received.starts_with(expected), "{line}{received}{}", to.why);
                continue;
            };
            assert!((101..110).any(|port| world.has_asked(port)), "{line}{to:?}");
            let (port, words) = asked(world);
            assert!(server.ends_with(&format!("a:{port}")), "{server}: {words}");
            assert_eq!(
                words.split_whitespace().nth(1),
                Some(&*to.key_sent),
                "{words}"
            );
            world.reply(port, reply);
            assert_eq!(world.received(client), reply);
        }
    }
    world.close(client);
}

fn keys() -> Vec<String> {
    let prefixes = ["", "b:", "b:ro:", "b:get:", "no:"];
    let each = prefixes
        .iter()
        .flat_map(|prefix| (0..12).map(move |n| format!("{prefix}key{n}")));
    each.collect()
}

#[test]
fn what_is_explained_is_what_happens_with_all_servers_without_one_and_back() {
    let mut world = World::memcached_with(4, config);
    compare(&mut world, &keys());
    fail(&mut world, 102, "", "a:102");
    fail(&mut world, 107, "b:", "b/a:107");
    compare(&mut world, &keys());
    world.come_back(102);
    forget_missed(&mut world, 102);
    compare(&mut world, &keys());
    // Too soon for the keys to go elsewhere again.
    fail(&mut world, 102, "", "a:102");
    compare(&mut world, &keys());
    world.configure(|config| config.pools[0].settings.failover = Failover::None);
    compare(&mut world, &keys());
}

/// A server dies, and the worker notices.
fn fail(world: &mut World, port: u16, prefix: &str, server: &str) {
    let key = key_at(world, prefix, server);
    world.connecting(port, Connecting::Refuses);
    if world.is_connected(port) {
        world.drop_connection(port);
    }
    let client = world.client();
    world.send(client, format!("touch {key} 1\r\n"));
    let unavailable = format!("SERVER_ERROR backend {server} unavailable: connection refused\r\n");
    assert_eq!(world.received(client), unavailable);
    world.close(client);
}

/// A server that is back deletes what it missed.
fn forget_missed(world: &mut World, port: u16) {
    while world.has_asked(port) {
        let words = world.asked(port);
        world.reply(port, "NOT_FOUND\r\n".repeat(words.lines().count()));
    }
}

/// A key with that prefix whose home is that server.
fn key_at(world: &World, prefix: &str, server: &str) -> String {
    let mut keys = (0..).map(|n| format!("{prefix}probe{n}"));
    let is_there = |key: &String| {
        let explanation = explained(world, key);
        let to = explanation.ways[0].to.as_ref().unwrap();
        to.home.as_ref().unwrap().name == server
    };
    keys.find(is_there).unwrap()
}

#[test]
fn routes_say_why_they_were_taken() {
    let world = World::memcached_with(1, config);
    let why = |key: &str, command: &str| {
        let explanation = explained(&world, key);
        let way = way_of(&explanation, command);
        (way.route.number, way.route.why.clone())
    };
    assert_eq!(why("a", "get"), (1, "no prefix begins the key".into()));
    let longest = || "the longest prefix that begins the key".to_owned();
    assert_eq!(why("b:1", "set"), (2, longest()));
    assert_eq!(why("b:get:1", "get"), (4, longest()));
    let others = "the routes of longer prefixes are for other commands";
    assert_eq!(why("b:get:1", "set"), (2, others.into()));
    assert_eq!(explained(&world, "b:get:1").ways.len(), 2);
    assert_eq!(
        explained(&world, "b:ro:1").ways.len(),
        2,
        "reads and writes"
    );
    let explanation = explained(&world, "b:1");
    let to = explanation.ways[0].to.as_ref().unwrap();
    let exptimes = Exptimes {
        min_s: 0,
        max_s: 60,
        jitter_permille: 250,
    };
    assert_eq!(
        (to.key_sent.as_str(), to.exptimes.as_ref()),
        ("x/1", Some(&exptimes))
    );
    let world = World::memcached(1);
    assert_eq!(
        explained(&world, "a").ways[0].route.why,
        "no route has a prefix"
    );
}

#[test]
fn what_is_no_key_is_refused_as_everywhere() {
    let mut world = World::memcached(1);
    let long = "k".repeat(251);
    for key in ["", "a b", "a\u{1}b", "a\u{7f}", &long] {
        let refused = world.core.explain(world.now(), key.as_bytes(), true);
        assert_eq!(
            refused,
            Err(b"CLIENT_ERROR bad command line format\r\n".as_slice())
        );
    }
    let client = world.client();
    world.send(
        client,
        format!("stats explain {long}\r\nget {}\r\n", &long[..250]),
    );
    assert!(
        world.asked(101).starts_with("get k"),
        "what follows is not lost"
    );
    world.reply(101, "END\r\n");
    let expected = "CLIENT_ERROR bad command line format\r\nEND\r\n";
    assert_eq!(world.received(client), expected);
}

#[test]
fn explanations_come_in_their_turn_as_one_line_and_count_nothing() {
    let mut world = World::memcached(2);
    let client = world.client();
    world.send(client, "get a\r\n");
    let (port, _) = asked(&mut world);
    world.reply(port, "END\r\n");
    world.received(client);
    world.send(client, "get a\r\nstats explain a\r\n");
    assert_eq!(world.received(client), "");
    let (port, _) = asked(&mut world);
    let before = *world.core.stats();
    let expected = explained(&world, "a");
    assert_eq!(*world.core.stats(), before);
    world.reply(port, "END\r\n");
    let received = world.received(client);
    let json = received
        .strip_prefix("END\r\nSTAT explain ")
        .and_then(|rest| rest.strip_suffix("\r\nEND\r\n"))
        .unwrap_or_else(|| panic!("{received}"));
    let told: Explanation = serde_json::from_str(json).unwrap();
    assert_eq!(told, expected);
}

#[test]
fn with_evenkeel_servers_the_replicas_are_where_leases_lead() {
    let mut world = World::evenkeel(4);
    let (key, cachelet) = key_of(1, 4);
    let explanation = explained(&world, &key);
    let to = explanation.ways[0].to.as_ref().unwrap();
    let Placing::Map {
        epoch,
        cachelet: found,
        ..
    } = to.placing
    else {
        panic!("{:?}", to.placing);
    };
    assert_eq!((epoch, found), (1, cachelet));
    assert_eq!(to.asked.as_deref(), Some("s1/0"));
    assert_eq!(
        to.home.as_ref().unwrap().health.as_ref().unwrap().standing,
        "up"
    );
    assert_eq!(to.others.len(), 3);
    let first = to.others[0].address.clone();
    // A lease on one replica: those who draw it read there.
    let mut drawn = 0;
    for _ in 0..64 {
        let client = world.client();
        world.send(client, format!("get {key}\r\n"));
        assert_eq!(asked(&mut world).0, 101);
        world.reply(101, "VA 1 f0 c10 G1\r\na\r\n");
        world.send(client, format!("get {key}\r\n"));
        let (port, _) = asked(&mut world);
        if port != 101 {
            assert_eq!(first, format!("h:{port}"));
            drawn += 1;
        }
        world.reply(port, "VA 1 f0 c10\r\na\r\n");
    }
    assert!(drawn > 0);
    let to = explained(&world, &key).ways.remove(0).to.unwrap();
    let hot = to.hot.expect("it was read under a lease");
    assert_eq!(
        (hot.replicas, &hot.servers),
        (1, &vec![to.others[0].name.clone()])
    );
    assert!(hot.kept_bytes.is_some_and(|bytes| bytes >= "a".len()));
    assert!(hot.leased_us > 0);
    world.wait_ms(hot.leased_us.div_ceil(1000));
    let to = explained(&world, &key).ways.remove(0).to.unwrap();
    assert_eq!(to.hot.map_or(0, |hot| hot.leased_us), 0);
}

#[test]
fn a_lease_is_as_long_as_the_map_says_whatever_the_server_said_of_it_before() {
    let mut world = World::evenkeel(4);
    let (key, _) = key_of(1, 4);
    let document = MapDocument {
        promise: Some(Promise {
            consistency: Consistency::Lease,
            lease_ms: 300,
        }),
        ..map(2, 4, |cachelet| cachelet % 4 + 1).document().clone()
    };
    let map = Arc::new(ClusterMap::new(document).unwrap());
    world.core.set_map(world.now, SOURCE, &map);
    let client = world.client();
    world.send(client, format!("get {key}\r\n"));
    world.reply(101, "VA 1 f0 c10 G1\r\na\r\n");
    let to = explained(&world, &key).ways.remove(0).to.unwrap();
    let leased_us = to.hot.expect("it was read under a lease").leased_us;
    assert_eq!(leased_us, 285_000, "a twentieth less, for slow clocks");
}

#[test]
fn a_pool_without_a_map_says_so() {
    let settings = PoolSettings::default();
    let world = World::new(ProxyConfig::of_pool(PoolKind::Evenkeel(SOURCE), settings));
    let explanation = explained(&world, "a");
    let to = explanation.ways[0].to.as_ref().unwrap();
    assert_eq!(
        (&to.placing, &to.home, &to.asked),
        (&Placing::NoMap, &None, &None)
    );
    let words = "there is no map yet; gets are misses, the rest SERVER_ERROR";
    assert_eq!(to.why, words);
}

#[test]
fn a_pool_that_changes_its_servers_says_who_is_asked_at_each_stage() {
    let follows = |config: &mut ProxyConfig| {
        config.pools.push(pool("old", memcached([105])));
        config.pools[0].settings.warm_from = Some("old".into());
        config.pools[0].settings.follows = Some(SOURCE);
    };
    let mut world = World::memcached_with(1, follows);
    let client = world.client();
    for (version, stage) in (1..).zip(Stage::ALL) {
        world.set_step(Some(Step { version, stage }));
        let to = explained(&world, "key").ways.remove(0).to.unwrap();
        world.send(client, "get key\r\n");
        assert_eq!(to.former.map(|former| former.stage), Some(stage));
        let Some(server) = to.asked else {
            assert_eq!(stage, Stage::Quiesced);
            assert!((101..110).all(|port| !world.has_asked(port)));
            world.wait_ms(2000);
            assert_eq!(world.received(client), "END\r\n", "{}", to.why);
            continue;
        };
        let (port, _) = asked(&mut world);
        assert!(server.ends_with(&format!("a:{port}")), "{stage}: {server}");
        world.reply(port, "VA 1 f0 c1\r\nx\r\n");
        world.received(client);
    }
}

#[test]
fn a_key_whose_slice_changes_hands_says_who_is_asked_at_each_stage() {
    let adaptive = |config: &mut ProxyConfig| {
        config.pools[0].settings.adaptive = true;
        config.pools[0].settings.follows = Some(SOURCE);
    };
    let mut world = World::memcached_with(2, adaptive);
    let client = world.client();
    let to = explained(&world, "key").ways.remove(0).to.unwrap();
    assert_eq!((to.placing, to.asked), (Placing::NoMap, None));
    let placement = placement(101..=102);
    let list = ServerList::new(placement.clone()).unwrap();
    let hash = list.hashed(b"key").1 as u32;
    let ring = Ring::adopt(&placement).unwrap();
    let to = 1 - ring.owner(hash);
    world.plan = Some(RingPlan {
        number: 1,
        incarnation: 7,
        placement,
        ring,
        moves: vec![RingMove {
            first: hash,
            last: hash,
            to,
        }],
        server: None,
    });
    for (version, stage) in (1..).zip(Stage::ALL) {
        world.set_step(Some(Step { version, stage }));
        let to = explained(&world, "key").ways.remove(0).to.unwrap();
        let expected = u64::from(stage >= Stage::Warming);
        let Placing::Ring {
            plan, generation, ..
        } = to.placing
        else {
            panic!("{:?}", to.placing);
        };
        assert_eq!((plan, generation), (1, expected), "{stage}");
        let is_between = !matches!(stage, Stage::Former | Stage::Done);
        let shown = to.former.map(|former| former.stage);
        assert_eq!(shown, is_between.then_some(stage));
        world.send(client, "get key\r\n");
        let Some(server) = to.asked else {
            assert_eq!(stage, Stage::Quiesced);
            world.wait_ms(2000);
            assert_eq!(world.received(client), "END\r\n", "{}", to.why);
            continue;
        };
        let (port, words) = asked(&mut world);
        assert!(server.ends_with(&format!("a:{port}")), "{stage}: {server}");
        let sent = to.key_sent.replace("\\x01", "\x01");
        let (question, answer) = match is_between {
            true => (format!("mg {sent} v f c\r\n"), "VA 1 f0 c1\r\nx\r\n".into()),
            false => (
                format!("get {sent}\r\n"),
                format!("VALUE {sent} 0 1\r\nx\r\nEND\r\n"),
            ),
        };
        assert_eq!(words, question, "{stage}");
        world.reply(port, answer);
        assert_eq!(world.received(client), "VALUE key 0 1\r\nx\r\nEND\r\n");
    }
}
