//! Hot keys of plain servers: where reads go, what is stored, and what applications see.

use super::plain_servers::{PORTS, Plain};
use crate::*;
use core::time::Duration;
use evenkeel_hotkeys::plain::{NamePrefix, PlainConfig, PlainMode};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::VecDeque;

#[test]
fn reads_of_a_hot_key_are_spread_over_copies_and_all_get_its_value() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let client = plain.world.client();
    assert_eq!(
        plain.ask(client, "set hot 42 0 5\r\nvalue\r\n"),
        "STORED\r\n"
    );
    let home = plain.home("hot");
    let clients = plain.heat("hot");
    let replicas = plain.replicas("hot");
    assert_eq!(replicas.len(), 3, "{replicas:?}");
    assert!(
        replicas
            .iter()
            .all(|(port, value)| *port != home && value == "value")
    );
    plain.gets.clear();
    for &client in &clients {
        for _ in 0..50 {
            let answer = plain.ask(client, "get hot\r\n");
            assert_eq!(answer, "VALUE hot 42 5\r\nvalue\r\nEND\r\n");
        }
    }
    for port in PORTS {
        let share = plain.gets[&port];
        assert!((50..600).contains(&share), "{:?}", plain.gets);
    }
    let stats = *plain.world.core.stats();
    assert!(stats.replica_hits > 500);
    assert_eq!(stats.get_hits, stats.cmd_get);
    let report = plain.world.core.hot_keys(plain.world.now);
    assert_eq!((&report[0].key[..], report[0].gamma), (&b"hot"[..], 3));
}

#[test]
fn a_get_behind_others_in_one_read_is_watched_too() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let client = plain.world.client();
    plain.ask(client, "set hot 0 0 1\r\nv\r\n");
    let home = plain.home("hot");
    let clients: Vec<ClientId> = (0..20).map(|_| plain.world.client()).collect();
    let line = "get cold\r\n".to_owned() + &"get hot\r\n".repeat(5);
    let expected = "END\r\n".to_owned() + &"VALUE hot 0 1\r\nv\r\nEND\r\n".repeat(5);
    for _ in 0..8 {
        for &client in &clients {
            assert_eq!(plain.ask(client, &line), expected);
        }
        plain.world.wait_ms(250);
    }
    plain.gets.clear();
    for &client in &clients {
        assert_eq!(plain.ask(client, &line), expected);
    }
    let report = plain.world.core.hot_keys(plain.world.now);
    assert_eq!((&report[0].key[..], report[0].gamma), (&b"hot"[..], 3));
    let at_home = plain.gets[&home];
    assert!(at_home < 70, "{at_home} of 120 gets");
}

#[test]
fn every_connection_sees_its_own_writes_and_the_worker_those_of_others() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let client = plain.world.client();
    plain.ask(client, "set hot 0 0 1\r\n0\r\n");
    let clients = plain.heat("hot");
    for i in 1..9 {
        let writer = clients[i];
        let answer = plain.ask(writer, &format!("set hot 0 0 1\r\n{i}\r\nget hot\r\n"));
        assert_eq!(answer, format!("STORED\r\nVALUE hot 0 1\r\n{i}\r\nEND\r\n"));
        for &client in &clients {
            let answer = plain.ask(client, "get hot\r\n");
            assert_eq!(answer, format!("VALUE hot 0 1\r\n{i}\r\nEND\r\n"));
        }
    }
    assert_eq!(
        plain.ask(clients[3], "delete hot\r\nget hot\r\n"),
        "DELETED\r\nEND\r\n"
    );
    for &client in &clients {
        assert_eq!(plain.ask(client, "get hot\r\n"), "END\r\n");
    }
}

#[test]
fn reads_behind_a_write_go_home_as_one() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let writer = plain.world.client();
    plain.ask(writer, "set hot 0 0 1\r\n0\r\n");
    let home = plain.home("hot");
    let clients = plain.heat("hot");
    let before = plain.world.core.stats().gets_collapsed;
    plain.gets.clear();
    let mut requests = vec![(writer, "set hot 0 0 1\r\n1\r\n")];
    requests.extend(clients.iter().map(|&client| (client, "get hot\r\n")));
    for (client, request) in requests {
        plain.world.put(client, request);
    }
    plain.world.pump();
    plain.serve();
    for &client in &clients {
        let answer = plain.world.received(client);
        assert_eq!(answer, "VALUE hot 0 1\r\n1\r\nEND\r\n");
    }
    assert_eq!(plain.gets.get(&home), Some(&1));
    let joined = plain.world.core.stats().gets_collapsed - before;
    assert_eq!(joined as usize, clients.len() - 1);
}

#[test]
fn reads_join_one_that_was_sent_home_behind_the_last_write_and_within_a_lease() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let writer = plain.world.client();
    plain.ask(writer, "set hot 0 0 1\r\n0\r\n");
    let home = plain.home("hot");
    let clients = plain.heat("hot");
    plain.world.wait_ms(950);
    let before = plain.world.core.stats().gets_collapsed;
    plain.gets.clear();
    // Each in a turn of its own, while the home is busy.
    let mut asked = clients.iter();
    let mut reads = |plain: &mut Plain, count| {
        for &client in asked.by_ref().take(count) {
            plain.world.send(client, "get hot\r\n");
            plain.world.wait_ms(1);
        }
    };
    reads(&mut plain, 5);
    plain.world.send(writer, "set hot 0 0 1\r\n1\r\n");
    plain.world.wait_ms(1);
    reads(&mut plain, 5);
    // Past the proxy, while the first reads are on their way.
    plain.put(home, "hot", 0, "2");
    plain.serve();
    let answers: Vec<String> = clients[..10]
        .iter()
        .map(|&client| plain.world.received(client))
        .collect();
    let value = |value: u8| format!("VALUE hot 0 1\r\n{value}\r\nEND\r\n");
    assert_eq!(answers[..5], [2; 5].map(value));
    assert_eq!(answers[5..], [1; 5].map(value));
    assert_eq!(plain.gets.get(&home), Some(&2));
    assert_eq!(plain.world.core.stats().gets_collapsed - before, 8);
    // What was asked longer ago than a lease answers nobody who asks now.
    plain.world.wait_ms(950);
    plain.gets.clear();
    reads(&mut plain, 1);
    plain.world.wait_ms(950);
    reads(&mut plain, 1);
    plain.serve();
    assert_eq!(plain.gets.get(&home), Some(&2));
}

#[test]
fn a_write_past_the_proxy_is_seen_after_a_lease_at_the_latest() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let client = plain.world.client();
    plain.ask(client, "set hot 0 0 3\r\nold\r\n");
    let clients = plain.heat("hot");
    let home = plain.home("hot");
    plain.put(home, "hot", 0, "new");
    plain.world.wait_ms(950);
    for &client in &clients {
        let answer = plain.ask(client, "get hot\r\n");
        assert_eq!(answer, "VALUE hot 0 3\r\nnew\r\nEND\r\n");
    }
}

#[test]
fn a_copy_that_is_gone_is_made_up_for_by_the_home_and_stored_again() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let client = plain.world.client();
    plain.ask(client, "set hot 0 0 1\r\nv\r\n");
    let clients = plain.heat("hot");
    for items in plain.items.values_mut() {
        items.retain(|name, _| !name.starts_with('\u{1}'));
    }
    for &client in &clients {
        assert_eq!(
            plain.ask(client, "get hot\r\n"),
            "VALUE hot 0 1\r\nv\r\nEND\r\n"
        );
    }
    assert_eq!(plain.replicas("hot").len(), 3);
    assert!(plain.world.core.stats().reads_asked_again >= 3);
}

#[test]
fn hot_keys_in_multi_gets_and_meta_gets_come_in_their_place() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let client = plain.world.client();
    for key in ["hot", "a", "b"] {
        plain.ask(client, &format!("set {key} 0 0 3\r\n{key:3}\r\n"));
    }
    let home = plain.home("hot");
    let cas = plain.items[&home]["hot"].cas;
    let clients = plain.heat("hot");
    for &client in &clients {
        let answer = plain.ask(client, "get a hot none b hot\r\nmg hot v f\r\ngets hot\r\n");
        let value = |key: &str| format!("VALUE {key} 0 3\r\n{key:3}\r\n");
        let expected = [
            value("a"),
            value("hot"),
            value("b"),
            value("hot"),
            format!("END\r\nVA 3 f0\r\nhot\r\nVALUE hot 0 3 {cas}\r\nhot\r\nEND\r\n"),
        ];
        assert_eq!(answer, expected.concat());
    }
    assert!(plain.world.core.stats().replica_hits > 100);
}

#[test]
fn keys_keep_the_names_that_applications_know() {
    let mut plain = Plain::new(PlainMode::On, |config| {
        let route = RouteConfig {
            prefix: b"app:".to_vec().into(),
            strip_prefix: true,
            add_prefix: b"in:".to_vec().into(),
            ..RouteConfig::to_pool(0)
        };
        let routes = vec![route, RouteConfig::to_pool(0)];
        config.routes = std::sync::Arc::new(RouteTable::new(routes, 1).unwrap());
    });
    let client = plain.world.client();
    plain.ask(client, "set app:hot 0 0 1\r\nv\r\n");
    let clients = plain.heat("app:hot");
    assert_eq!(plain.replicas("in:hot").len(), 3);
    for &client in &clients {
        let answer = plain.ask(client, "get app:hot\r\n");
        assert_eq!(answer, "VALUE app:hot 0 1\r\nv\r\nEND\r\n");
    }
}

#[test]
fn servers_that_refuse_replicas_or_are_gone_cost_nothing_but_the_spreading() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let client = plain.world.client();
    plain.ask(client, "set hot 0 0 1\r\nv\r\n");
    let home = plain.home("hot");
    let others: Vec<u16> = PORTS.into_iter().filter(|&port| port != home).collect();
    plain.refuses = Some(others[0]);
    let clients = plain.heat("hot");
    let stats = *plain.world.core.stats();
    assert_eq!(plain.replicas("hot").len(), 2);
    assert!((1..9).contains(&stats.replica_fills_refused));
    plain
        .world
        .connecting(others[1], super::world::Connecting::Refuses);
    plain.world.drop_connection(others[1]);
    for _ in 0..10 {
        for &client in &clients {
            let answer = plain.ask(client, "get hot\r\n");
            assert_eq!(answer, "VALUE hot 0 1\r\nv\r\nEND\r\n");
        }
        plain.world.wait_ms(30);
    }
}

#[test]
fn observing_and_off_change_no_byte() {
    for mode in [PlainMode::Off, PlainMode::Observe] {
        let mut plain = Plain::new(mode, |_| {});
        let client = plain.world.client();
        plain.ask(client, "set hot 0 0 1\r\nv\r\n");
        let home = plain.home("hot");
        plain.heat("hot");
        assert_eq!(plain.gets.keys().copied().collect::<Vec<u16>>(), [home]);
        assert!(plain.replicas("hot").is_empty());
        let report = plain.world.core.hot_keys(plain.world.now);
        assert_eq!(report.is_empty(), mode == PlainMode::Off);
    }
}

#[test]
fn a_reload_may_begin_and_end_it_while_reads_are_under_way() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let client = plain.world.client();
    plain.ask(client, "set hot 0 0 1\r\nv\r\n");
    let clients = plain.heat("hot");
    for mode in [
        PlainMode::Off,
        PlainMode::On,
        PlainMode::Observe,
        PlainMode::On,
    ] {
        for &client in &clients {
            plain.world.send(client, "get hot\r\nget hot\r\n");
        }
        plain
            .world
            .configure(|config| config.pools[0].settings.hot_keys.mode = mode);
        plain.serve();
        for &client in &clients {
            let answers = plain.world.received(client);
            assert_eq!(answers, "VALUE hot 0 1\r\nv\r\nEND\r\n".repeat(2));
        }
        if mode == PlainMode::On {
            plain.heat("hot");
        }
    }
}

/// Share of the server that is asked most, of reads by Zipf's law.
fn hottest_share(mode: PlainMode, exponent: f64) -> f64 {
    const KEYS: usize = 10_000;
    const CLIENTS: usize = 64;
    // As 64,000 reads a second; the first second is for finding the keys.
    const ROUNDS: u32 = 1000;
    let mut plain = Plain::of(8, mode, |config| {
        config.pools[0].settings.hot_keys.sampling = PlainConfig::default().sampling;
    });
    let clients: Vec<ClientId> = (0..CLIENTS).map(|_| plain.world.client()).collect();
    let mut sum = 0.0;
    let until = |rank: usize| {
        sum += (rank as f64).powf(-exponent);
        sum
    };
    let cumulative: Vec<f64> = (1..=KEYS).map(until).collect();
    for rank in 0..KEYS.min(2000) {
        plain.ask(clients[0], &format!("set key:{rank} 0 0 1\r\nv\r\n"));
    }
    let mut random = SplitMix64::seed_from_u64(8);
    for round in 0..2 * ROUNDS {
        for &client in &clients {
            let draw = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            let drawn = draw * cumulative[KEYS - 1];
            let rank = cumulative.partition_point(|&until| until <= drawn);
            plain.world.send(client, format!("get key:{rank}\r\n"));
        }
        plain.serve();
        for &client in &clients {
            plain.world.received(client);
        }
        plain.world.wait_ms(1);
        if round == ROUNDS {
            plain.gets.clear();
        }
    }
    let total: u32 = plain.gets.values().sum();
    let most = *plain.gets.values().max().expect("servers were asked");
    f64::from(most) / f64::from(total)
}

#[test]
fn the_hottest_server_comes_near_its_fair_share() {
    for (exponent, without_min, with_max) in [(0.99, 0.19, 0.16), (1.2, 0.28, 0.16)] {
        let without = hottest_share(PlainMode::Off, exponent);
        let with = hottest_share(PlainMode::On, exponent);
        println!(
            "zipf {exponent}, 8 servers, fair 12.5 %: hottest {:.1} % without, {:.1} % with replicas",
            100.0 * without,
            100.0 * with
        );
        assert!(without > without_min, "{without}");
        assert!(with < with_max, "{with}");
    }
}

#[test]
fn names_of_replicas_are_keys_that_servers_take() {
    let name = NamePrefix::of(1, b"value");
    assert!(
        name.as_bytes()
            .iter()
            .all(|byte| !b" \r\n\0".contains(byte))
    );
}

/// In every dialect, alone and among others; elsewhere such a key is as good as any.
#[test]
fn an_application_has_no_keys_that_look_like_replicas() {
    const REFUSED: &str = "CLIENT_ERROR keys that begin with byte 0x01 are the proxy's\r\n";
    for mode in [PlainMode::On, PlainMode::Observe, PlainMode::Off] {
        let mut plain = Plain::new(mode, |_| {});
        let id = plain.world.client();
        plain.ask(id, "set usual 0 0 1\r\nx\r\n");
        for (line, passed_on) in [
            ("get \u{1}r\r\n", "END\r\n"),
            ("gets \u{1}r\r\n", "END\r\n"),
            ("set \u{1}r 0 0 1\r\ny\r\n", "STORED\r\n"),
            ("get usual\r\n", "VALUE usual 0 1\r\nx\r\nEND\r\n"),
            ("mg \u{1}r s\r\n", "HD s1\r\n"),
            ("mg AXI= b s\r\n", "EN\r\n"),
            ("delete \u{1}r\r\n", "DELETED\r\n"),
        ] {
            let answer = plain.ask(id, line);
            let expected = match mode {
                PlainMode::On if !line.contains("usual") => REFUSED,
                _ => passed_on,
            };
            assert_eq!(answer, expected, "{mode:?} {line:?}");
        }
        let some = plain.ask(id, "get usual \u{1}r\r\n");
        let (value, end) = match mode {
            PlainMode::On => ("VALUE usual 0 1\r\nx\r\n", REFUSED),
            _ => ("VALUE usual 0 1\r\nx\r\n", "END\r\n"),
        };
        assert_eq!(some, format!("{value}{end}"), "{mode:?}");
        let refused = plain.world.core.stats().keys_reserved;
        assert_eq!(refused, if mode == PlainMode::On { 7 } else { 0 });
    }
}

/// What connections are promised, whenever servers answer: every request is, own writes are seen, no connection is shown a value behind a
/// newer one, and none that the home had not held within a lease before the read was sent.
#[test]
fn reads_and_writes_in_deep_pipelines_keep_the_promises() {
    for seed in 0..40 {
        let mut random = SplitMix64::seed_from_u64(seed);
        let mut draw = |below: u64| random.next_u64() % below;
        let mut plain = Plain::new(PlainMode::On, |_| {});
        let writer = plain.world.client();
        plain.ask(writer, "set hot 0 0 1\r\n0\r\n");
        let home = plain.home("hot");
        let clients = plain.heat("hot");
        let clients = &clients[..6];
        let mut written = 0;
        // What the home has held, and since when.
        let mut held = vec![(0u32, plain.world.now)];
        // Of each connection what it waits for: a value that may be shown, as all later ones, or nothing for a write.
        let mut awaited: Vec<VecDeque<Option<u32>>> = vec![VecDeque::new(); clients.len()];
        let mut last = vec![0; clients.len()];
        let mut answers = vec![String::new(); clients.len()];
        for step in 0..1500 {
            let at = draw(clients.len() as u64) as usize;
            let mut ports = Vec::new();
            match draw(10) {
                _ if step > 1300 || step % 300 == 299 => ports = PORTS.repeat(200),
                _ if step % 300 == 0 => plain.world.wait_ms(400),
                0 if awaited[at].len() < 30 => {
                    written += 1;
                    let value = written.to_string();
                    let line = format!("set hot 0 0 {}\r\n{value}\r\n", value.len());
                    plain.world.send(clients[at], line);
                    last[at] = written;
                    awaited[at].push_back(None);
                }
                1..5 if awaited[at].len() < 30 => {
                    plain.world.send(clients[at], "get hot\r\n");
                    awaited[at].push_back(Some(last[at]));
                }
                // Less than it takes until what waits is refused.
                5 => plain.world.wait_ms(draw(2)),
                _ => ports.push(PORTS[draw(4) as usize]),
            }
            for port in ports {
                plain.serve_one(port);
                let value = plain.items[&home]["hot"].value.parse().unwrap();
                if held.last().is_some_and(|(before, _)| *before != value) {
                    held.push((value, plain.world.now));
                }
            }
            let place = |value| held.iter().position(|(other, _)| *other == value);
            let then = plain.world.now - Duration::from_secs(2);
            let stalest = held.iter().rposition(|(_, since)| *since <= then);
            for (at, &client) in clients.iter().enumerate() {
                answers[at] += &plain.world.received(client);
                while let Some(wanted) = awaited[at].front().copied() {
                    let shown = match wanted {
                        None => answers[at].split_once("STORED\r\n"),
                        Some(_) => answers[at].split_once("END\r\n"),
                    };
                    let Some((shown, rest)) = shown else { break };
                    let (shown, rest) = (shown.to_owned(), rest.to_owned());
                    answers[at] = rest;
                    awaited[at].pop_front();
                    let Some(wanted) = wanted else { continue };
                    let shown: u32 = shown.lines().nth(1).unwrap().parse().unwrap();
                    let what = || format!("seed {seed}, step {step}: {shown} for {wanted}");
                    assert!(place(shown) >= place(wanted), "{}", what());
                    assert!(place(shown) >= stalest, "{}", what());
                    // Behind an own write nothing else is known to be as new.
                    let next = awaited[at].iter().position(Option::is_none);
                    for later in awaited[at].iter_mut().take(next.unwrap_or(30)) {
                        *later = Some(shown);
                    }
                    if next.is_none() {
                        last[at] = shown;
                    }
                }
            }
        }
        let is_over = awaited.iter().all(VecDeque::is_empty);
        assert!(is_over, "seed {seed}: {awaited:?}, {answers:?}");
        let stats = plain.world.core.stats();
        assert!(
            stats.replica_hits > 0 && stats.gets_collapsed > 0,
            "seed {seed}"
        );
    }
}
