//! Which requests are recorded, and what of them.

use super::recorded::{Expected, assert_recorded, expected, recorded, recording};
use super::twin::{SERVERS, Server, command, exchange, flushing, numbers, servers};
use super::world::{Connecting, World};
use evenkeel_profile::{Flags, Lifetime, Record, Sampling};
use evenkeel_schemes::locality::Outcome;
use evenkeel_types::KeyHash;

fn full(config: &mut crate::ProxyConfig) {
    flushing(config);
    recording(config, Sampling::FULL);
}

/// Whichever way a request goes, each of its keys is one record, in the order of the answers, and says what the application was told.
fn run(mut world: World, mut servers: Vec<Server>, seed: u64) {
    let mut below = numbers(seed);
    let mut witness = Server::new(1, false);
    let client = world.client();
    for _ in 0..60 {
        let commands: Vec<String> = (0..1 + below(30)).map(|_| command(&mut below)).collect();
        let of_all = commands.iter().flat_map(|it| expected(&mut witness, it));
        let of_all: Vec<Expected> = of_all.collect();
        let pipeline = commands.concat();
        let sent = pipeline.as_bytes();
        exchange(&mut world, &mut servers, client, sent, &mut below);
        assert_recorded(&recorded(&mut world), &of_all);
    }
}

#[test]
fn each_key_that_a_server_of_a_list_answers_is_recorded_once() {
    for seed in 0..40 {
        run(World::memcached_with(SERVERS, full), servers(false), seed);
    }
}

#[test]
fn each_key_that_a_server_of_a_cluster_answers_is_recorded_once() {
    for seed in 0..40 {
        run(World::evenkeel_with(SERVERS, full), servers(true), seed);
    }
}

/// A world in which this is recorded, and one connection.
fn world(sampling: Sampling) -> (World, crate::ClientId) {
    let mut world = World::memcached_with(2, |config| {
        recording(config, sampling);
        config.limit_keys = true;
        config.pools[0].settings.collapse = true;
        config.profile_key = Some((*b"page:").into());
    });
    let client = world.client();
    (world, client)
}

fn outcomes(records: &[Record]) -> Vec<Outcome> {
    records.iter().map(|record| record.outcome).collect()
}

#[test]
fn what_is_recorded_tells_when_how_long_and_how_many_bytes() {
    let mut world = World::memcached_with(1, full);
    world.core.set_clock_origin(1_700_000_000_000_000);
    world.configure(|config| {
        recording(
            config,
            Sampling {
                seed: 7,
                ..Sampling::FULL
            },
        )
    });
    let client = world.client();
    world.send(client, "get key\r\n");
    world.wait_ms(3);
    world.reply(101, "VALUE key 0 5\r\nvalue\r\nEND\r\n");
    let record = recorded(&mut world)[0];
    let now_us = world.now().0 / 1000;
    assert_eq!(record.unix_us, 1_700_000_000_000_000 + now_us);
    assert_eq!((record.request_bytes, record.answer_bytes), (9, 22));
    assert_eq!(record.latency(), Some(3000));
    let from = KeyHash::of(b"10.0.0.9").0;
    assert_eq!((record.session, record.client), (from, from as u32));
    // A line for several keys, and a write of several words.
    world.send(client, "get a bb c\r\nset d 1 1800003600 1\r\nx\r\n");
    world.reply(101, "VALUE bb 0 1\r\nx\r\nEND\r\nSTORED\r\n");
    let records = recorded(&mut world);
    let bytes = records.iter().map(|it| (it.request_bytes, it.answer_bytes));
    let bytes: Vec<_> = bytes.collect();
    assert_eq!(bytes, [(2, 0), (3, 17), (2, 0), (25, 8)]);
    assert_eq!(
        records[3].lifetime,
        Lifetime::of_seconds(3600),
        "until then"
    );
}

#[test]
fn who_joins_another_who_asks_again_and_who_fails_are_recorded_each() {
    let (mut world, first) = world(Sampling::FULL);
    let second = world.client();
    // The connection is there, so that it goes the quick way.
    world.send(first, "get k\r\n");
    let port = [101, 102].into_iter().find(|port| world.has_asked(*port));
    let port = port.expect("one of them is asked");
    world.asked(port);
    world.reply(port, "END\r\n");
    assert_eq!(outcomes(&recorded(&mut world)), [Outcome::GetMiss]);
    world.put(first, "get k\r\n");
    world.put(second, "get k\r\n");
    world.pump();
    assert_eq!(world.asked(port), "get k\r\n");
    world.reply(port, "VALUE k 0 1\r\nx\r\nEND\r\n");
    let records = recorded(&mut world);
    assert_eq!(outcomes(&records), [Outcome::GetHit; 2]);
    assert!(records.iter().all(|it| it.latency().is_some()));
    // A read of which nothing has come is asked again; a write is not.
    world.send(first, "get k\r\n");
    world.drop_connection(port);
    world.wait_ms(200);
    world.reply(port, "END\r\n");
    let again = recorded(&mut world);
    assert_eq!(outcomes(&again), [Outcome::GetMiss]);
    assert!(again[0].flags.has(Flags::RETRIED), "{again:?}");
    world.send(first, "set k 0 0 1\r\nx\r\n");
    world.connecting(port, Connecting::Refuses);
    world.drop_connection(port);
    assert!(world.received(first).contains("SERVER_ERROR"));
    world.send(first, "get k\r\nincr k 1\r\n");
    let failed = recorded(&mut world);
    assert_eq!(
        outcomes(&failed),
        [Outcome::Other, Outcome::GetMiss, Outcome::Other]
    );
    assert!(failed.iter().all(|it| it.latency().is_none()), "{failed:?}");
}

#[test]
fn what_no_server_is_asked_for_is_not_recorded() {
    let (mut world, client) = world(Sampling::FULL);
    world.send(
        client,
        "version\r\nget page:1:a\r\nmn\r\nbogus\r\nget limit:1,5ms a b c d e f\r\nflush_all\r\n",
    );
    for port in [101, 102] {
        if world.asked(port).contains("get") {
            world.reply(port, "END\r\n");
        }
    }
    world.wait_ms(10);
    let before = recorded(&mut world).len();
    // An answer that comes too late is nobody's.
    for port in [101, 102] {
        if world.asked(port).contains("get") {
            world.reply(port, "END\r\n");
        }
    }
    assert_eq!(recorded(&mut world).len(), 0);
    assert!(before < 6, "{before} of 6");
    // Anyone who goes is not recorded, and leaves nothing behind.
    world.send(client, "get a b c d\r\nset a 0 0 1\r\nx\r\n");
    world.close(client);
    let counts = &world.core.counts;
    let profiler = counts.profiler.as_ref().expect("it records");
    assert_eq!((profiler.noted(), counts.hottest.picked()), (0, 0));
}

/// What a sampled run records is exactly what a full run would of the picked pages and keys.
#[test]
fn a_sample_is_a_part_of_the_whole() {
    for seed in 0..20 {
        let run = |sampling| {
            let mut below = numbers(seed);
            let mut servers = servers(false);
            let mut world = World::memcached_with(SERVERS, |config| {
                flushing(config);
                recording(config, sampling);
                config.profile_key = Some((*b"page:").into());
            });
            let client = world.client();
            for _ in 0..100 {
                let page = match below(3) {
                    0 => format!("get page:{}:s{}\r\n", below(50), below(9)),
                    1 => format!("mg m1 Op{}.s{} v\r\n", below(50), below(9)),
                    _ => String::new(),
                };
                let commands = (0..1 + below(9)).map(|_| command(&mut below));
                let sent = page + &commands.collect::<String>();
                exchange(
                    &mut world,
                    &mut servers,
                    client,
                    sent.as_bytes(),
                    &mut below,
                );
                world.wait_ms(below(100) as u64);
            }
            recorded(&mut world)
        };
        let sampling = Sampling {
            seed: seed + 1,
            pages: 4,
            keys: 3,
        };
        let whole = run(Sampling {
            pages: 1,
            keys: 1,
            ..sampling
        });
        let mut expected = Vec::new();
        for record in whole {
            // Distributed by a hash of its own, keys are picked by no other.
            let of_page = sampling.picks_page(record.session, record.page);
            expected.push((record, of_page));
        }
        let part = run(sampling);
        let (mut keys, mut others) = (std::collections::BTreeMap::new(), part.iter().peekable());
        let without = |record: &Record| Record {
            flags: Flags::default(),
            ..*record
        };
        for (record, of_page) in expected {
            let found = others.next_if(|it| without(it) == without(&record));
            let of_keys = found.is_some_and(|it| it.flags.has(Flags::OF_KEYS));
            assert_eq!(found.is_some(), of_page || of_keys, "{record:?}");
            if let Some(found) = found {
                assert_eq!(found.flags.has(Flags::OF_PAGES), of_page);
            }
            let known = *keys.entry(record.key).or_insert(of_keys);
            assert_eq!(known, of_keys, "all of a key or nothing");
        }
        assert_eq!(others.next(), None);
        assert!(part.len() > 100, "{}", part.len());
        assert!(keys.values().any(|it| *it) && keys.values().any(|it| !*it));
    }
}

#[test]
fn an_application_says_its_pages_or_pauses_between_them() {
    let (mut world, client) = world(Sampling::FULL);
    let page = |world: &mut World, before: &str| {
        world.send(client, format!("{before}mg k v\r\n"));
        for port in [101, 102] {
            if world.asked(port).contains("mg k v") {
                world.reply(port, "EN\r\n");
            }
        }
        let records = recorded(world);
        let last = records.last().expect("a record");
        (last.session, last.page)
    };
    let from = KeyHash::of(b"10.0.0.9").0;
    let first = page(&mut world, "");
    assert_eq!(first.0, from);
    world.wait_ms(49);
    assert_eq!(page(&mut world, ""), first);
    world.wait_ms(50);
    assert_eq!(page(&mut world, ""), (from, first.1.wrapping_add(1)));
    let hash = |text: &str| KeyHash::of(text.as_bytes()).0;
    let said = (hash("bob"), hash("7") as u32);
    assert_eq!(page(&mut world, "get page:7:bob\r\n"), said);
    assert!(world.received(client).contains("END\r\n"), "a miss");
    assert!(!world.has_asked(101) && !world.has_asked(102));
    world.wait_ms(90);
    assert_eq!(page(&mut world, ""), said, "until it says something else");
    assert_eq!(page(&mut world, "get page:senseless\r\n"), said);
    let other = world.client();
    world.send(other, "mg k Op8.seve v\r\n");
    for port in [101, 102] {
        if world.has_asked(port) {
            world.reply(port, "EN Op8.seve\r\n");
        }
    }
    let record = recorded(&mut world)[0];
    assert_eq!(
        (record.session, record.page),
        (hash("eve"), hash("8") as u32)
    );
}

#[test]
fn a_chunk_goes_when_it_is_full_or_a_second_old() {
    let (mut world, client) = world(Sampling::FULL);
    let get = |world: &mut World, count: usize| {
        let line = format!("get {}\r\n", vec!["k"; count].join(" "));
        world.send(client, line);
        for port in [101, 102] {
            let lines = world.asked(port).lines().count();
            if lines > 0 {
                world.reply(port, "END\r\n".repeat(lines));
            }
        }
        world.recorded.len()
    };
    assert_eq!(get(&mut world, 1000), 0);
    assert_eq!(get(&mut world, 23), 0);
    assert_eq!(get(&mut world, 1), 1024);
    world.recorded.clear();
    assert_eq!(get(&mut world, 1), 0);
    world.wait_ms(999);
    assert_eq!(get(&mut world, 1), 0);
    world.wait_ms(1);
    assert_eq!(get(&mut world, 1), 2);
    world.recorded.clear();
    // It is the same by another configuration that changes nothing of it, and another one begins anew.
    get(&mut world, 1);
    world.configure(|config| config.version = "9".into());
    assert_eq!(world.recorded.len(), 0);
    world.configure(|config| {
        recording(
            config,
            Sampling {
                seed: 9,
                ..Sampling::FULL
            },
        )
    });
    assert_eq!(world.recorded.len(), 2);
    assert_eq!(get(&mut world, 1), 2, "nobody has said where it comes from");
    world.core.client_comes_from(client, b"10.0.0.9");
    world.configure(|config| config.profile = None);
    get(&mut world, 1);
    assert!(!world.core.records());
}
