//! Clients that know maps, in any order of all that happens, beside a server that has all keys to itself.

use super::world::{CACHELETS, WORKERS, World, hello, worker};
use crate::harness::{Client, Server, at};
use evenkeel_roles::server::Counters;
use evenkeel_types::{CacheletId, KeyHash, WorkerRef};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;

struct Chance(Xoshiro256PlusPlus);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }
}

/// A client that knows maps, with one request under way, and what it must be answered.
struct Asker {
    epoch: usize,
    /// Where cachelets are said to have gone, under this map.
    learnt: BTreeMap<CacheletId, WorkerRef>,
    /// Its connections, by worker.
    connections: BTreeMap<WorkerRef, Client>,
    /// The mark that a worker has given, by cachelet.
    marks: BTreeMap<(WorkerRef, CacheletId), u64>,
    /// The request, its key and the answer of a server that has all keys to itself.
    asks: Option<(String, String, String)>,
    /// Its newest version of each key.
    versions: BTreeMap<String, u64>,
    answered: usize,
}

/// Asks once. True when it was answered.
fn ask(world: &mut World, asker: &mut Asker, seed: u64) -> bool {
    let Some((request, key, expected)) = asker.asks.clone() else {
        return false;
    };
    let map = world.maps[asker.epoch].clone();
    let place = map.locate(KeyHash::of(key.as_bytes()));
    let home = asker.learnt.get(&place.cachelet).copied().or(place.worker);
    let Some(home) = home else { return false };
    let now = world.now();
    let server = &mut world.servers[usize::from(home.server.0)];
    let connection = asker.connections.entry(home).or_insert_with(|| {
        let mut client = Client::open(server, usize::from(home.worker));
        client.ask(server, now, hello(1));
        client
    });
    let epoch = map.epoch();
    let mark = asker.marks.get(&(home, place.cachelet));
    let mark = mark.map_or_else(String::new, |mark| format!(" W{mark}"));
    let request = request.replace(" Y0", &format!(" Y{epoch}{mark}"));
    let answer = connection.ask(server, now, &request);
    if let Some(moved) = answer.strip_prefix("MOVED ") {
        let mut numbers = moved
            .trim_end()
            .split(' ')
            .map(|n| n.parse::<u16>().expect("a number"));
        let (told, to) = (numbers.next(), numbers.next().zip(numbers.next()));
        let mark = numbers.next().expect("a mark");
        (asker.marks).insert((home, place.cachelet), u64::from(mark));
        let (told, (server, index)) = (u64::from(told.expect("3")), to.expect("3"));
        let to = worker(usize::from(server), index);
        if told > epoch.0 {
            asker.epoch = usize::try_from(told).expect("small") - 1;
            asker.learnt.clear();
        } else if to != home {
            asker.learnt.insert(place.cachelet, to);
        }
        return false;
    }
    // A version is whatever it is, but newer than all before after a write.
    let version = answer.split(" c").nth(1).map(|rest| {
        rest.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    });
    let shown = match &version {
        Some(version) => answer.replacen(&format!(" c{version}"), " c", 1),
        None => answer.clone(),
    };
    assert_eq!(shown, expected, "seed {seed}: {request}");
    // `c0` stands with what was not stored.
    let version = version.and_then(|version| version.parse().ok());
    if let Some(version) = version.filter(|version| *version > 0) {
        let before = asker.versions.insert(key, version).unwrap_or(0);
        let stored = answer.starts_with("HD") || answer.starts_with("VA");
        let grows = stored && !request.starts_with("mg");
        assert!(
            version >= before + u64::from(grows),
            "seed {seed}: {request}: {before}, {answer}"
        );
    }
    asker.asks = None;
    asker.answered += 1;
    true
}

/// A request on a key of that client, with the place of the map's epoch left open.
fn request(chance: &mut Chance, key: &str, number: u64) -> String {
    let len = chance.below(300) as usize;
    let value = format!("{number:0len$}");
    let len = value.len();
    match chance.below(9) {
        0..=2 => format!("ms {key} {len} c F{number} T0 Y0\r\n{value}\r\n"),
        3 => format!("md {key} Y0\r\n"),
        4 => format!("ma {key} N0 J{number} D3 v c Y0\r\n"),
        5 => format!("ms {key} 2 c MA Y0\r\nap\r\n"),
        6 => format!("ms {key} 1 c ME Y0\r\n9\r\n"),
        _ => format!("mg {key} v f s c Y0\r\n"),
    }
}

fn seeds() -> impl Iterator<Item = u64> {
    let first: u64 = std::env::var("EVENKEEL_SEED").map_or(20_261_123, |seed| {
        seed.parse().expect("EVENKEEL_SEED must be a number")
    });
    println!("EVENKEEL_SEED={first}, and those after it");
    first..first + 60
}

/// Anything that can happen to a migration.
fn disturb(world: &mut World, chance: &mut Chance) {
    let wires = world.wires.len() as u64;
    match chance.below(8) {
        0 if world.document.migrations.len() < 3 => {
            let to = worker(chance.below(3) as usize, chance.below(2) as u16);
            let from = worker(chance.below(3) as usize, chance.below(2) as u16);
            let cachelets = world.of_worker(from);
            if from.server != to.server && !cachelets.is_empty() {
                let which = chance.below(cachelets.len() as u64) as usize;
                world.order(cachelets[which].0, to);
            }
        }
        1 if chance.below(6) == 0 && wires > 0 => world.cut(chance.below(wires) as usize),
        2 if chance.below(8) == 0 && !world.document.migrations.is_empty() => {
            world.change(|document| document.migrations[0].cancelled = true);
        }
        3 => {
            // Between workers of one server.
            let server = chance.below(3) as usize;
            let cachelet = CacheletId(chance.below(u64::from(CACHELETS)) as u16);
            let (to, now) = (chance.below(2) as u16, world.now());
            for worker in 0..usize::from(WORKERS) {
                world.servers[server].workers[worker].order_move(now, cachelet, to);
                world.servers[server].settle(now);
            }
        }
        4 => world.coordinate(),
        _ => {
            let server = chance.below(3) as usize;
            let index = chance.below(2) as usize;
            if chance.below(2) == 0 {
                let newest = world.maps.len() - 1;
                world.hear(server, newest);
            }
            world.apply(server, index);
        }
    }
}

#[test]
fn no_client_that_knows_maps_can_tell_that_cachelets_pass_between_servers() {
    let (mut flips, mut aborts, mut answered, mut sum) = (0, 0, 0, Counters::default());
    for seed in seeds() {
        let mut chance = Chance(Xoshiro256PlusPlus::seed_from_u64(seed));
        let mut world = World::new();
        let mut twin = Server::standalone(1);
        let mut alone = Client::open(&mut twin, 0);
        let mut askers: Vec<Asker> = (0..4)
            .map(|_| Asker {
                epoch: 0,
                learnt: BTreeMap::new(),
                connections: BTreeMap::new(),
                marks: BTreeMap::new(),
                asks: None,
                versions: BTreeMap::new(),
                answered: 0,
            })
            .collect();
        let mut number = 0;
        for step in 0..6_000 {
            if chance.below(4) == 0 && step < 5_000 {
                disturb(&mut world, &mut chance);
            }
            let which = chance.below(4) as usize;
            if askers[which].asks.is_none() {
                number += 1;
                let key = format!("t{which}-{}", chance.below(60));
                let request = request(&mut chance, &key, number);
                let answer = alone.ask(&mut twin, at(0), request.replace(" Y0", ""));
                let version = answer.split(" c").nth(1).map(|rest| {
                    rest.chars()
                        .take_while(char::is_ascii_digit)
                        .collect::<String>()
                });
                let shown = version.map(|v| answer.replacen(&format!(" c{v}"), " c", 1));
                askers[which].asks = Some((request, key, shown.unwrap_or(answer)));
            }
            ask(&mut world, &mut askers[which], seed);
            if chance.below(3) == 0 {
                world.tick(chance.below(2));
            }
            if !world.wires.is_empty() {
                let wire = chance.below(world.wires.len() as u64) as usize;
                let most = 1 + chance.below(2_000) as usize;
                world.carry(wire, most);
                world.collect();
            }
        }
        let ends = (0..20).any(|_| {
            world.run();
            world.document.migrations.is_empty()
        });
        assert!(ends, "seed {seed}: {:?}", world.document.migrations);
        for asker in &mut askers {
            let tries = (0..2_000).any(|_| {
                world.run_a_little();
                asker.asks.is_none() || ask(&mut world, asker, seed)
            });
            assert!(tries, "seed {seed}: {:?} is never answered", asker.asks);
            answered += asker.answered;
        }
        let counts = world.counts();
        let held = counts.curr_items;
        let expected = twin.workers[0].counts().curr_items;
        assert_eq!(held, expected, "seed {seed}: items");
        flips += world.flips;
        aborts += world.aborts;
        sum.migrations_passed += counts.migrations_passed;
        sum.migration_items_sent += counts.migration_items_sent;
        sum.migrations_dropped += counts.migrations_dropped;
    }
    println!(
        "{flips} flips, {aborts} given up, {answered} answers, {} items sent, {} dropped",
        sum.migration_items_sent, sum.migrations_dropped
    );
    assert!(flips > 500 && aborts > 50 && answered > 50_000);
    assert_eq!(flips as u64, sum.migrations_passed);
}
