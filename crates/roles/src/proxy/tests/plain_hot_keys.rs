//! Hot keys of plain servers: where reads go, what is stored, and what applications see.

use super::world::World;
use crate::proxy::*;
use evenkeel_policy::hot_keys::plain::{NAME_PREFIX_LEN, NamePrefix, PlainConfig, PlainMode};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, VecDeque};

const PORTS: [u16; 4] = [101, 102, 103, 104];

/// More than any test has servers.
const PORTS_MAX: u16 = 108;

/// Servers that carry out what they are asked, one command at a time.
struct Plain {
    world: World,
    items: BTreeMap<u16, BTreeMap<String, (u32, String)>>,
    asked: BTreeMap<u16, String>,
    /// Commands carried out, by port.
    gets: BTreeMap<u16, u32>,
    /// Answers `set` with an error.
    refuses: Option<u16>,
}

impl Plain {
    fn new(mode: PlainMode, change: impl FnOnce(&mut ProxyConfig)) -> Self {
        Self::of(4, mode, change)
    }

    fn of(servers: u16, mode: PlainMode, change: impl FnOnce(&mut ProxyConfig)) -> Self {
        let world = World::memcached_with(servers, |config| {
            config.pools[0].settings.hot_keys = PlainConfig {
                mode,
                sampling: 1.0,
                hot_rps_min: 10.0,
                ..PlainConfig::default()
            };
            change(config);
        });
        Plain {
            world,
            items: (101..=100 + servers)
                .map(|port| (port, BTreeMap::new()))
                .collect(),
            asked: BTreeMap::new(),
            gets: BTreeMap::new(),
            refuses: None,
        }
    }

    /// Carries out the next command that a server was asked. False if there is none.
    fn serve_one(&mut self, port: u16) -> bool {
        if !self.world.is_connected(port) {
            return false;
        }
        let new = self.world.asked(port);
        let asked = self.asked.entry(port).or_default();
        asked.push_str(&new);
        let Some((line, rest)) = asked.split_once("\r\n") else {
            return false;
        };
        let (line, mut rest) = (line.to_owned(), rest.to_owned());
        let words: Vec<&str> = line.split(' ').collect();
        let items = self.items.get_mut(&port).unwrap();
        let reply = match words[0] {
            "get" | "gets" => {
                *self.gets.entry(port).or_default() += words.len() as u32 - 1;
                let mut reply = String::new();
                for key in &words[1..] {
                    if let Some((flags, value)) = items.get(*key) {
                        let cas = if words[0] == "gets" { " 7" } else { "" };
                        let len = value.len();
                        reply += &format!("VALUE {key} {flags} {len}{cas}\r\n{value}\r\n");
                    }
                }
                reply + "END\r\n"
            }
            "set" => {
                let (value, behind) = rest.split_at(words[4].parse().unwrap());
                let (value, behind) = (value.to_owned(), behind[2..].to_owned());
                rest = behind;
                if self.refuses == Some(port) {
                    "SERVER_ERROR out of memory storing object\r\n".to_owned()
                } else {
                    let flags = words[2].parse().unwrap();
                    items.insert(words[1].to_owned(), (flags, value));
                    "STORED\r\n".to_owned()
                }
            }
            "delete" => match items.remove(words[1]) {
                Some(_) => "DELETED\r\n".to_owned(),
                None => "NOT_FOUND\r\n".to_owned(),
            },
            "mg" => match items.get(words[1]) {
                Some((flags, value)) => format!("VA {} f{flags}\r\n{value}\r\n", value.len()),
                None => "EN\r\n".to_owned(),
            },
            other => panic!("{other}"),
        };
        self.asked.insert(port, rest);
        self.world.reply(port, reply);
        true
    }

    fn serve(&mut self) {
        while (101..=PORTS_MAX).any(|port| self.serve_one(port)) {}
    }

    fn ask(&mut self, id: ClientId, line: &str) -> String {
        self.world.send(id, line);
        self.serve();
        self.world.received(id)
    }

    fn home(&mut self, key: &str) -> u16 {
        let holds = |port: &&u16| self.items[*port].contains_key(key);
        *PORTS.iter().find(holds).expect("some server has it")
    }

    /// Where replicas are, and what is in them.
    fn replicas(&self, key: &str) -> Vec<(u16, String)> {
        let mut found = Vec::new();
        for (&port, items) in &self.items {
            for (name, (_, value)) in items {
                if name.starts_with('\u{1}') && &name[NAME_PREFIX_LEN..] == key {
                    found.push((port, value.clone()));
                }
            }
        }
        found
    }

    /// `count` reads by each of so many connections.
    fn read_much(&mut self, clients: &[ClientId], count: u32, key: &str) {
        for _ in 0..count {
            for &client in clients {
                let answer = self.ask(client, &format!("get {key}\r\n"));
                assert!(answer.ends_with("END\r\n"), "{answer}");
            }
        }
    }

    /// Until the key is hot and its copies are filled.
    fn heat(&mut self, key: &str) -> Vec<ClientId> {
        let clients: Vec<ClientId> = (0..20).map(|_| self.world.client()).collect();
        for _ in 0..4 {
            self.read_much(&clients, 20, key);
            self.world.wait_ms(250);
        }
        self.read_much(&clients, 5, key);
        clients
    }
}

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
    assert!(stats.proxy_replica_hits > 500);
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
fn a_write_past_the_proxy_is_seen_after_a_lease_at_the_latest() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let client = plain.world.client();
    plain.ask(client, "set hot 0 0 3\r\nold\r\n");
    let clients = plain.heat("hot");
    let home = plain.home("hot");
    let items = plain.items.get_mut(&home).unwrap();
    items.insert("hot".to_owned(), (0, "new".to_owned()));
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
    assert!(plain.world.core.stats().proxy_reads_asked_again >= 3);
}

#[test]
fn hot_keys_in_multi_gets_and_meta_gets_come_in_their_place() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let client = plain.world.client();
    for key in ["hot", "a", "b"] {
        plain.ask(client, &format!("set {key} 0 0 3\r\n{key:3}\r\n"));
    }
    let clients = plain.heat("hot");
    for &client in &clients {
        let answer = plain.ask(client, "get a hot none b hot\r\nmg hot v f\r\ngets hot\r\n");
        let value = |key: &str| format!("VALUE {key} 0 3\r\n{key:3}\r\n");
        let expected = [
            value("a"),
            value("hot"),
            value("b"),
            value("hot"),
            "END\r\nVA 3 f0\r\nhot\r\nVALUE hot 0 3 7\r\nhot\r\nEND\r\n".to_owned(),
        ];
        assert_eq!(answer, expected.concat());
    }
    assert!(plain.world.core.stats().proxy_replica_hits > 100);
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
    assert!((1..9).contains(&stats.proxy_replica_fills_refused));
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
        config.pools[0].settings.hot_keys.hot_rps_min = PlainConfig::default().hot_rps_min;
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

/// One application of the random test.
#[derive(Default)]
struct Application {
    /// What was asked and is not answered: when, and the place in history that a write made, once known.
    asked: VecDeque<Asked>,
    newest: usize,
    received: String,
}

enum Asked {
    Read { at: evenkeel_types::Instant },
    Write { value: Option<String> },
}

/// Applications pipeline, servers are slow in any order, another client writes past the proxy, items are
/// evicted and connections break: nobody reads anything older than what it read or wrote before, or that
/// was over for longer than a lease when it asked.
#[test]
fn random_pipelines_never_see_time_run_backwards() {
    let seed = match std::env::var("EVENKEEL_TEST_SEED") {
        Ok(seed) => seed.parse().expect("EVENKEEL_TEST_SEED must be a number"),
        Err(_) => 0x5eed,
    };
    println!("EVENKEEL_TEST_SEED={seed}");
    let mut replica_hits = 0;
    for seed in seed..seed + 40 {
        replica_hits += random_run(seed);
    }
    assert!(replica_hits > 4000, "{replica_hits}");
}

fn random_run(seed: u64) -> u64 {
    let mut random = SplitMix64::seed_from_u64(seed);
    let mut below = move |bound: u64| random.next_u64() % bound;
    let mut plain = Plain::new(PlainMode::On, |config| {
        config.pools[0].settings.on_down = OnDown::Error;
        config.pools[0].settings.hot_keys.write_weight = 1.0;
    });
    let first = plain.world.client();
    plain.ask(first, "set hot 0 0 2\r\nv0\r\n");
    let home = plain.home("hot");
    let clients = plain.heat("hot");
    let mut applications: Vec<Application> = Vec::new();
    applications.resize_with(4, Application::default);
    let mut history = vec![(plain.world.now, Some("v0".to_owned()))];
    let mut next = 0;
    for _ in 0..3000 {
        match below(100) {
            0..40 => {
                let at = below(4) as usize;
                let application = &mut applications[at];
                if application.asked.len() >= 6 {
                    continue;
                }
                let now = plain.world.now;
                match below(30) {
                    0 => {
                        next += 1;
                        let value = format!("v{next}");
                        let len = value.len();
                        let line = format!("set hot 0 0 {len}\r\n{value}\r\n");
                        application
                            .asked
                            .push_back(Asked::Write { value: Some(value) });
                        plain.world.send(clients[at], line);
                    }
                    1 if below(3) == 0 => {
                        application.asked.push_back(Asked::Write { value: None });
                        plain.world.send(clients[at], "delete hot\r\n");
                    }
                    _ => {
                        application.asked.push_back(Asked::Read { at: now });
                        let line = ["get hot\r\n", "gets hot\r\n", "mg hot v f\r\n"];
                        let line = line[[0, 0, 0, 0, 0, 0, 1, 2][below(8) as usize]];
                        plain.world.send(clients[at], line);
                    }
                }
            }
            40..92 => {
                let port = PORTS[below(4) as usize];
                plain.serve_one(port);
            }
            92 if below(4) == 0 => {
                next += 1;
                let items = plain.items.get_mut(&home).unwrap();
                items.insert("hot".to_owned(), (0, format!("v{next}")));
            }
            93 if below(4) == 0 => {
                let port = PORTS[below(4) as usize];
                let items = plain.items.get_mut(&port).unwrap();
                items.pop_first();
            }
            94 if below(20) == 0 => {
                let port = PORTS[below(4) as usize];
                if plain.world.is_connected(port) && port != home {
                    plain.asked.remove(&port);
                    plain.world.asked(port);
                    plain.world.drop_connection(port);
                }
            }
            95 => plain.world.wait_ms(below(40)),
            96 if below(40) == 0 => {
                // Nothing may be late.
                plain.serve();
                plain.world.wait_ms(below(1200));
            }
            _ => plain.world.wait_ms(below(2)),
        }
        let is = plain.items[&home]
            .get("hot")
            .map(|(_, value)| value.clone());
        if history.last().unwrap().1 != is {
            history.push((plain.world.now, is));
        }
        for (at, application) in applications.iter_mut().enumerate() {
            application.received += &plain.world.received(clients[at]);
            take_answers(seed, application, &history);
        }
    }
    plain.world.core.stats().proxy_replica_hits
}

fn take_answers(
    seed: u64,
    application: &mut Application,
    history: &[(evenkeel_types::Instant, Option<String>)],
) {
    while let Some(front) = application.asked.front() {
        let text = application.received.clone();
        let Some((line, behind)) = text.split_once("\r\n") else {
            return;
        };
        let (value, rest) = if line.starts_with("VALUE ") {
            let Some((value, rest)) = behind.split_once("\r\nEND\r\n") else {
                return;
            };
            (Some(Some(value.to_owned())), rest)
        } else if line.starts_with("VA ") {
            let Some((value, rest)) = behind.split_once("\r\n") else {
                return;
            };
            (Some(Some(value.to_owned())), rest)
        } else if line == "END" || line == "EN" {
            (Some(None), behind)
        } else {
            (None, behind)
        };
        let newest = application.newest;
        match (front, value) {
            (Asked::Read { at }, Some(value)) => {
                let lease = PlainConfig::default().lease;
                let ends = |place: usize| history.get(place + 1).map(|next| next.0);
                let found = (newest..history.len()).find(|&place| {
                    history[place].1 == value && ends(place).is_none_or(|end| end + lease >= *at)
                });
                application.newest = found.unwrap_or_else(|| {
                    panic!("seed {seed}: read {value:?} at place {newest} of {history:?}, asked at {at:?}")
                });
            }
            (Asked::Write { value }, None) if line == "STORED" => {
                let made = history
                    .iter()
                    .position(|(_, is)| is == value)
                    .expect("is made");
                application.newest = newest.max(made);
            }
            (Asked::Write { .. }, None) if line == "DELETED" => {
                // Which of the times it was gone is not known: some time after what was seen.
                let gone = (newest..history.len()).find(|&place| history[place].1.is_none());
                application.newest = gone.unwrap_or(newest);
            }
            (_, None) => {}
            (Asked::Write { .. }, Some(_)) => panic!("seed {seed}: {line}"),
        }
        application.asked.pop_front();
        application.received = rest.to_owned();
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
