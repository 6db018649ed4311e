//! Hot keys of plain servers, at random: what each connection is shown is held against what their home
//! held.

use super::plain_servers::{Item, PORTS, Plain};
use crate::proxy::{OnDown, ProxyStats};
use evenkeel_policy::hot_keys::plain::{PlainConfig, PlainMode};
use evenkeel_types::Instant;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::VecDeque;

/// One application of the random test.
#[derive(Default)]
struct Application {
    /// What was asked and is not answered: when, and the place in history that a write made, once known.
    asked: VecDeque<Asked>,
    newest: usize,
    received: String,
}

enum Asked {
    Read { at: Instant },
    Write { value: Option<String> },
}

/// What an answer to a read tells of an item.
#[derive(Debug, Default)]
struct Seen {
    value: Option<String>,
    cas: Option<u64>,
    recached: Option<bool>,
}

impl Seen {
    fn is_of(&self, item: &Item) -> bool {
        self.value.as_ref().is_none_or(|value| *value == item.value)
            && self.cas.is_none_or(|cas| cas == item.cas)
            && self
                .recached
                .is_none_or(|recached| recached == item.recached)
    }
}

/// What the home held, from when on.
type History = Vec<(Instant, Option<Item>)>;

/// Reads of all kinds, most often those that copies can answer.
const READS: [&str; 10] = [
    "get hot",
    "get hot",
    "get hot",
    "gets hot",
    "gets hot",
    "mg hot v",
    "mg hot v f c k Oo",
    "mg hot s v",
    "mg hot v t",
    "mg hot c",
];

/// Applications pipeline, servers are slow in any order, another client writes and recaches past the proxy,
/// items are evicted and connections break: nobody reads anything older than what it read or wrote before,
/// or that was over for longer than a lease when it asked. That holds for values, CAS uniques, and what
/// meta commands tell of recaching, all together.
#[test]
fn random_pipelines_never_see_time_run_backwards() {
    let seed = match std::env::var("EVENKEEL_SEED") {
        Ok(seed) => seed.parse().expect("EVENKEEL_SEED must be a number"),
        Err(_) => 0x5eed,
    };
    println!("EVENKEEL_SEED={seed}");
    let (mut replica_hits, mut collapsed) = (0, 0);
    for seed in seed..seed + 40 {
        let stats = random_run(seed);
        replica_hits += stats.proxy_replica_hits;
        collapsed += stats.proxy_gets_collapsed;
    }
    assert!(replica_hits > 4000, "{replica_hits}");
    assert!(collapsed > 1000, "{collapsed}");
}

fn random_run(seed: u64) -> ProxyStats {
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
    let mut history: History = vec![(plain.world.now, plain.items[&home].get("hot").cloned())];
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
                // Every other request is not the last of its turn.
                let is_last = below(2) == 0;
                let id = clients[at];
                let mut send = |line: &str| match is_last {
                    true => plain.world.send(id, line),
                    false => {
                        let taken = plain.world.core.client_input(now, id, line.as_bytes());
                        assert_eq!(taken, line.len());
                    }
                };
                match below(30) {
                    0 => {
                        next += 1;
                        let value = format!("v{next}");
                        let len = value.len();
                        let line = format!("set hot 0 0 {len}\r\n{value}\r\n");
                        application
                            .asked
                            .push_back(Asked::Write { value: Some(value) });
                        send(&line);
                    }
                    1 if below(3) == 0 => {
                        application.asked.push_back(Asked::Write { value: None });
                        send("delete hot\r\n");
                    }
                    _ => {
                        application.asked.push_back(Asked::Read { at: now });
                        let line = READS[below(READS.len() as u64) as usize];
                        send(&format!("{line}\r\n"));
                    }
                }
            }
            40..92 => {
                let port = PORTS[below(4) as usize];
                plain.serve_one(port);
            }
            92 if below(4) == 0 => {
                let before = plain.items[&home].get("hot").cloned();
                match (before, below(3)) {
                    (Some(item), 0) => plain.put(home, "hot", 0, &item.value),
                    (Some(item), 1) => {
                        let recached = !item.recached;
                        let items = plain.items.get_mut(&home).unwrap();
                        items.insert("hot".to_owned(), Item { recached, ..item });
                    }
                    _ => {
                        next += 1;
                        plain.put(home, "hot", 0, &format!("v{next}"));
                    }
                }
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
                while PORTS.into_iter().any(|port| plain.serve_one(port)) {
                    note(&plain, home, &mut history);
                }
                plain.world.wait_ms(below(1200));
            }
            _ => plain.world.wait_ms(below(2)),
        }
        note(&plain, home, &mut history);
        for (at, application) in applications.iter_mut().enumerate() {
            application.received += &plain.world.received(clients[at]);
            take_answers(seed, application, &history);
        }
    }
    *plain.world.core.stats()
}

fn note(plain: &Plain, home: u16, history: &mut History) {
    let is = plain.items[&home].get("hot").cloned();
    if history.last().is_some_and(|(_, before)| *before != is) {
        history.push((plain.world.now, is));
    }
}

/// The answer to a read that the text begins with, and what is behind it. The inner `None` is a miss.
fn take_read(text: &str) -> Option<(Option<Seen>, &str)> {
    let (line, behind) = text.split_once("\r\n")?;
    let words: Vec<&str> = line.split(' ').collect();
    let mut seen = Seen::default();
    match words[0] {
        "END" | "EN" => return Some((None, behind)),
        "VALUE" => {
            let (value, rest) = behind.split_once("\r\nEND\r\n")?;
            seen.value = Some(value.to_owned());
            seen.cas = words.get(4).map(|cas| cas.parse().unwrap());
            return Some((Some(seen), rest));
        }
        "VA" | "HD" => {}
        other => panic!("{other}"),
    }
    let cas = words[1..].iter().find_map(|word| word.strip_prefix('c'));
    seen.cas = cas.map(|cas| cas.parse().unwrap());
    seen.recached = Some(words.contains(&"Z"));
    if words[0] == "HD" {
        return Some((Some(seen), behind));
    }
    let (value, rest) = behind.split_once("\r\n")?;
    seen.value = Some(value.to_owned());
    Some((Some(seen), rest))
}

fn take_answers(seed: u64, application: &mut Application, history: &History) {
    while let Some(front) = application.asked.front() {
        let text = application.received.clone();
        let newest = application.newest;
        let Some((line, behind)) = text.split_once("\r\n") else {
            return;
        };
        let mut rest = behind;
        match front {
            Asked::Read { .. } if line.starts_with("SERVER_ERROR") => {}
            Asked::Read { at } => {
                let Some((seen, behind)) = take_read(&text) else {
                    return;
                };
                rest = behind;
                let lease = PlainConfig::default().lease;
                let ends = |place: usize| history.get(place + 1).map(|next| next.0);
                let is_it = |place: &usize| match (&history[*place].1, &seen) {
                    (Some(item), Some(seen)) => seen.is_of(item),
                    (item, seen) => item.is_none() && seen.is_none(),
                };
                let found = (newest..history.len()).find(|place| {
                    is_it(place) && ends(*place).is_none_or(|end| end + lease >= *at)
                });
                application.newest = found.unwrap_or_else(|| {
                    panic!(
                        "seed {seed}: read {seen:?} at place {newest} of {history:?}, asked at {at:?}"
                    )
                });
            }
            Asked::Write { value: Some(value) } if line == "STORED" => {
                let is_it = |item: &Item| item.value == *value;
                let made = history
                    .iter()
                    .position(|(_, item)| item.as_ref().is_some_and(is_it));
                application.newest = newest.max(made.expect("is made"));
            }
            Asked::Write { value: None } if line == "DELETED" => {
                // Which of the times it was gone is not known: some time after what was seen.
                let gone = (newest..history.len()).find(|&place| history[place].1.is_none());
                application.newest = gone.unwrap_or(newest);
            }
            Asked::Write { .. } => {
                let is_known = line == "NOT_FOUND" || line.starts_with("SERVER_ERROR");
                assert!(is_known, "seed {seed}: {line}");
            }
        }
        application.asked.pop_front();
        application.received = rest.to_owned();
    }
}
