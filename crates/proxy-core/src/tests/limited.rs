//! Multi-gets with limits against what servers have: whatever order their answers come in, and however few of them.

use super::world::World;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const SERVERS: u16 = 5;

const KEYS: usize = 40;

/// Milliseconds of limits that have any.
const WITHIN: u64 = 10;

/// What was asked: with a limit, the number of keys that are wanted, and whether its time may be over first.
struct Asked {
    keys: Vec<String>,
    limit: Option<(String, usize, bool)>,
}

/// Every third key is nowhere.
fn value_of(key: &str) -> Option<String> {
    let number: usize = key[1..].parse().expect("a number");
    let line = format!("VALUE {key} 0 {}\r\n{key}\r\n", key.len());
    (!number.is_multiple_of(3)).then_some(line)
}

/// What a server answers to one line.
fn answer(line: &str) -> String {
    let keys = line.split(' ').skip(1);
    keys.filter_map(value_of).collect::<String>() + "END\r\n"
}

/// Takes the answer to a request off what was received, and checks it.
fn check(asked: &Asked, received: &mut &str) {
    let (answer, rest) = received.split_once("END\r\n").expect("a whole answer");
    *received = rest;
    let values: Vec<String> = asked.keys.iter().filter_map(|key| value_of(key)).collect();
    let Some((said, wanted, is_timed)) = &asked.limit else {
        return assert_eq!(answer, values.concat());
    };
    let mut lines = answer.split_inclusive("\r\n");
    let head = lines.next().expect("the pseudo key");
    assert!(head.starts_with(&format!("VALUE {said} 0 ")), "{answer}");
    let counts = lines.next().expect("what came of it").trim_end();
    let counts: BTreeMap<&str, usize> = counts
        .split(' ')
        .map(|count| count.split_once('=').expect("a count"))
        .map(|(name, count)| (name, count.parse().expect("a number")))
        .collect();
    let shown = lines.collect::<String>();
    // What is shown is there, in the order asked.
    let mut left = shown.as_str();
    let mut found = 0;
    for value in &values {
        if let Some(rest) = left.strip_prefix(value.as_str()) {
            (left, found) = (rest, found + 1);
        }
    }
    assert_eq!((left, found), ("", counts["found"]), "{answer}");
    assert_eq!(counts["asked"] + counts["left"], asked.keys.len());
    if !is_timed {
        assert!(found >= *wanted.min(&values.len()), "{answer}");
        assert!(found >= *wanted || counts["late"] + counts["left"] == 0);
    }
}

fn run(seed: u64) {
    println!("seed {seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut below = move |bound: usize| (random.next_u64() % bound as u64) as usize;
    let mut world = World::memcached_with(SERVERS, |config| config.limit_keys = true);
    let client = world.client();
    let mut asked = VecDeque::new();
    let mut owed: BTreeMap<u16, VecDeque<String>> = BTreeMap::new();
    let mut received = String::new();
    let mut checked = 0;
    while checked < 200 {
        if asked.len() < 4 {
            let count = 1 + below(12);
            // Without the same key twice what is shown is known.
            let keys: BTreeSet<usize> = (0..count).map(|_| below(KEYS)).collect();
            let mut keys: Vec<String> = keys.iter().map(|key| format!("k{key}")).collect();
            let turned = below(keys.len());
            keys.rotate_left(turned);
            let (part, all) = (1 + below(keys.len()), keys.len());
            let limit = match below(5) {
                0 => None,
                1 => Some((format!("limit:{part}"), part, false)),
                2 => Some(("limit:50%".to_owned(), all.div_ceil(2), false)),
                3 => Some((format!("limit:{WITHIN}ms"), all, true)),
                _ => Some((format!("limit:{part},{WITHIN}ms"), part, true)),
            };
            let said = limit.as_ref().map_or("", |(said, ..)| said);
            world.send(client, format!("get {said} {}\r\n", keys.join(" ")));
            asked.push_back(Asked { keys, limit });
        }
        for port in 101..=100 + SERVERS {
            let lines = world.asked(port);
            let owed = owed.entry(port).or_default();
            owed.extend(lines.lines().map(answer));
        }
        let port = 101 + below(SERVERS.into()) as u16;
        match below(3) {
            // In two pieces, as far as it has two.
            0 | 1 => {
                if let Some(answer) = owed.entry(port).or_default().pop_front() {
                    let at = below(answer.len());
                    world.reply(port, &answer[..at]);
                    world.reply(port, &answer[at..]);
                }
            }
            _ => world.wait_ms(below(4) as u64),
        }
        received += &world.received(client);
        let mut rest = received.as_str();
        while let Some(first) = asked.front()
            && rest.contains("END\r\n")
        {
            check(first, &mut rest);
            asked.pop_front();
            checked += 1;
        }
        received = rest.to_owned();
    }
    let stats = world.core.stats();
    let counts = [
        stats.limits_reached,
        stats.limits_late,
        stats.limited_keys_left,
        stats.limited_keys_late,
    ];
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    // The keys of those that have ended; others may be under way.
    let ended = stats.get_hits + stats.get_misses + counts[2] + counts[3];
    assert!(ended <= stats.cmd_get, "{ended} of {}", stats.cmd_get);
}

#[test]
fn what_is_shown_of_a_multi_get_with_a_limit_is_there_and_enough() {
    for seed in 0..60 {
        run(seed);
    }
}
