//! Gets of one key and of many against a dumb twin: a table looked up key by key.

use super::world::World;
use evenkeel_types::KeyHash;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;

struct Table {
    items: BTreeMap<String, String>,
}

impl Table {
    fn value_line(&self, key: &str, with_cas: bool) -> String {
        let Some(value) = self.items.get(key) else {
            return String::new();
        };
        let cas = if with_cas {
            format!(" {}", KeyHash::of(key.as_bytes()).0)
        } else {
            String::new()
        };
        format!("VALUE {key} 3 {}{cas}\r\n{value}\r\n", value.len())
    }

    /// What a server says to a line it was asked.
    fn answer(&self, line: &str) -> String {
        let mut words = line.split(' ');
        match words.next().unwrap() {
            "mg" => {
                let key = words.next().unwrap();
                let cas = KeyHash::of(key.as_bytes()).0;
                match self.items.get(key) {
                    Some(value) => format!("VA {} f3 c{cas}\r\n{value}\r\n", value.len()),
                    None => "EN\r\n".into(),
                }
            }
            "get" => {
                words
                    .map(|key| self.value_line(key, false))
                    .collect::<String>()
                    + "END\r\n"
            }
            "gets" => {
                words
                    .map(|key| self.value_line(key, true))
                    .collect::<String>()
                    + "END\r\n"
            }
            other => panic!("nobody asked for {other}"),
        }
    }
}

fn run(mut world: World, servers: u16, seed: u64) {
    println!("seed {seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut below = move |bound: usize| (random.next_u64() % bound as u64) as usize;
    let mut table = Table {
        items: BTreeMap::new(),
    };
    for i in (0..60).filter(|i| i % 3 != 0) {
        // A value that looks like protocol.
        table
            .items
            .insert(format!("k{i}"), "END\r\nVALUE k1 0 1\r\n".repeat(i % 4));
    }
    let clients: Vec<_> = (0..3).map(|_| world.client()).collect();
    let mut expected = vec![String::new(); clients.len()];
    let (mut gets, mut hits) = (0, 0);
    for _ in 0..40 {
        for (&client, expected) in clients.iter().zip(&mut expected) {
            let mut requests = String::new();
            for _ in 0..1 + below(4) {
                let with_cas = below(4) == 0;
                let keys: Vec<String> = (0..1 + below(2) * below(30))
                    .map(|_| format!("k{}", below(60)))
                    .collect();
                let verb = if with_cas { "gets" } else { "get" };
                // The quick way is for those that are written with one space between their words.
                let line = match below(3) {
                    0 => format!("{verb}  {} \r\n", keys.join("  ")),
                    _ => format!("{verb} {}\r\n", keys.join(" ")),
                };
                requests.push_str(&line);
                for key in &keys {
                    expected.push_str(&table.value_line(key, with_cas));
                    gets += 1;
                    hits += u64::from(table.items.contains_key(key));
                }
                expected.push_str("END\r\n");
            }
            let cut = below(requests.len());
            world.send(client, &requests[..cut]);
            world.send(client, &requests[cut..]);
        }
        // Servers answer in any order, in pieces of any size.
        let mut pending: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
        loop {
            for port in 101..101 + servers {
                for line in world.asked(port).lines() {
                    pending
                        .entry(port)
                        .or_default()
                        .extend(table.answer(line).into_bytes());
                }
            }
            pending.retain(|_, bytes| !bytes.is_empty());
            let ports: Vec<u16> = pending.keys().copied().collect();
            let Some(&port) = ports.get(below(ports.len().max(1))) else {
                break;
            };
            let bytes = pending.get_mut(&port).unwrap();
            let piece: Vec<u8> = bytes.drain(..1 + below(bytes.len())).collect();
            world.reply(port, piece);
        }
        for (&client, expected) in clients.iter().zip(&mut expected) {
            assert_eq!(world.received(client), std::mem::take(expected));
        }
    }
    let stats = world.core.stats();
    let counted = (stats.cmd_get, stats.get_hits, stats.get_misses);
    assert_eq!(counted, (gets, hits, gets - hits));
}

#[test]
fn values_come_back_as_from_one_server() {
    for seed in 0..20 {
        run(World::memcached(4), 4, seed);
        run(World::evenkeel(4), 4, seed);
        run(World::memcached(1), 1, seed);
    }
}
