//! Cachelets that pass to another server with their contents, under clients, lost links, flushes and cancels.

mod random;
mod world;

use self::world::{World, hello, key_in, worker};
use crate::harness::Client;
use evenkeel_protocol::SentKey;
use evenkeel_roles::coordinator::MigrationState;
use evenkeel_roles::server::MigrationStep;
use evenkeel_types::{CacheletId, KeyHash};

#[test]
fn a_cachelet_passes_with_all_that_is_known_of_its_items() {
    let mut world = World::new();
    let key = |number| key_in(&world.maps[0], 0, number);
    let (plain, timed, stale, won, gone) = (key(0), key(1), key(2), key(3), key(4));
    let spaced = (0..).map(|i| format!("a key {i}").into_bytes());
    let mut spaced =
        spaced.filter(|key| world.maps[0].locate(KeyHash::of(key)).cachelet == CacheletId(0));
    let (spaced, mut encoded) = (spaced.next().expect("endless"), Vec::new());
    let sent = SentKey::of(&spaced, &mut encoded).expect("short");
    let binary = String::from_utf8(sent.text.to_vec()).expect("base64") + " b";
    let mut client = Client::open(&mut world.servers[0], 0);
    let now = world.now();
    let mut say = |line: String| client.ask(&mut world.servers[0], now, line);
    say(hello(1));
    say(format!("ms {plain} 3 F77 E4001 Y1\r\nabc\r\n"));
    say(format!("ms {timed} 2 T1804000000 F1 Y1\r\nxy\r\n"));
    say(format!("ms {stale} 2 E50 Y1\r\nst\r\n"));
    say(format!("md {stale} I C50 T600 Y1\r\n"));
    say(format!("mg {won} v N30 Y1\r\n"));
    say(format!("ms {gone} 1 Y1\r\n1\r\n"));
    say(format!(
        "ms {} 0 b Y1\r\n\r\n",
        binary.trim_end_matches(" b")
    ));
    let facts = |say: &mut dyn FnMut(String) -> String| {
        let of = |key: &String| {
            let (text, flag) = key.split_once(' ').unwrap_or((key, ""));
            format!("mg {text} {flag} v f c t s Y1 A\r\nme {text} {flag}\r\n")
        };
        let all = [&plain, &timed, &stale, &won, &gone, &binary]
            .map(of)
            .concat();
        say(all)
    };
    let before = facts(&mut say);
    assert!(before.contains("f77 c4001 t-1 s3"), "{before}");
    assert!(before.contains(" X"), "{before}");
    // While it is copied, one key goes.
    world.order(0, worker(1, 1));
    world.apply_all();
    let now = world.now();
    client.ask(&mut world.servers[0], now, format!("md {gone} Y1\r\n"));
    world.run();
    assert_eq!(world.flips, 1);
    let counts = world.counts();
    assert_eq!((counts.migrations_passed, counts.migrations_came), (1, 1));
    assert_eq!(counts.curr_items, 5);
    let mut client = Client::open(&mut world.servers[1], 1);
    let now = world.now();
    let mut say = |line: String| client.ask(&mut world.servers[1], now, line);
    say(hello(1));
    let after = facts(&mut say);
    // Times to live may be up to two seconds shorter.
    let without_ttl = |line: &str| {
        let words = line.split(' ').filter(|word| !word.starts_with('t'));
        words.collect::<Vec<_>>().join(" ")
    };
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with("ME "));
        lines.map(without_ttl).collect()
    };
    let ttl = |text: &str| -> u64 {
        let of_timed = text.lines().find(|line| line.contains(" f1 ")).expect("it");
        let word = of_timed.split(' ').find_map(|word| word.strip_prefix('t'));
        word.and_then(|word| word.parse().ok())
            .expect("a time to live")
    };
    assert!(
        (ttl(&before) - 2..=ttl(&before)).contains(&ttl(&after)),
        "{after}"
    );
    for line in lines(&after).iter().filter(|line| *line != "EN") {
        assert!(
            lines(&before).contains(line),
            "{line} of {after} not in {before}"
        );
    }
    let missing = lines(&after).iter().filter(|line| *line == "EN").count();
    assert_eq!(missing, 2, "mg and me: {after}");
    // What is stored next is newer than all before.
    let version = say(format!("ms {plain} 1 c Y1\r\nn\r\n"));
    let version: u64 = version
        .trim_end()
        .trim_start_matches("HD c")
        .parse()
        .expect(&version);
    assert!(version > 4001, "{version}");
    // Who asks the former owner by the old map is told the new one, by the new map refused as ever.
    let mut old = Client::open(&mut world.servers[0], 0);
    let asked = format!("{}mg {plain} v Y1\r\n", hello(1));
    let answer = old.ask(&mut world.servers[0], now, asked);
    assert!(answer.ends_with("MOVED 3 1 1 1\r\n"), "{answer}");
}

#[test]
fn before_the_map_says_so_the_source_points_to_the_target_and_the_target_serves() {
    let mut world = World::new();
    let key = key_in(&world.maps[0], 0, 0);
    let mut client = Client::open(&mut world.servers[0], 0);
    let now = world.now();
    let set = format!("{}ms {key} 1 Y1\r\na\r\n", hello(1));
    assert!(
        client
            .ask(&mut world.servers[0], now, set)
            .ends_with("HD\r\n")
    );
    world.order(0, worker(2, 0));
    world.apply_all();
    for _ in 0..50 {
        world.tick(1);
        // The source's word that it has decided does not come through.
        if world
            .reports()
            .iter()
            .any(|report| report.state == MigrationState::Moved)
        {
            break;
        }
        for wire in 0..world.wires.len() {
            world.carry(wire, usize::MAX);
        }
    }
    let now = world.now();
    let asked = client.ask(&mut world.servers[0], now, format!("mg {key} v Y2\r\n"));
    assert_eq!(asked, "MOVED 2 2 0 1\r\n");
    world.cut(0);
    let states: Vec<_> = world.reports().iter().map(|report| report.state).collect();
    assert_eq!(states, [MigrationState::Moved, MigrationState::Staged]);
    let mut there = Client::open(&mut world.servers[2], 0);
    let asked = format!("{}mg {key} v Y2\r\n", hello(2));
    let answer = there.ask(&mut world.servers[2], now, asked);
    assert!(answer.ends_with("VA 1\r\na\r\n"), "{answer}");
    let states: Vec<_> = world.reports().iter().map(|report| report.state).collect();
    assert_eq!(states, [MigrationState::Moved, MigrationState::Live]);
    world.run();
    assert_eq!(world.reports(), []);
    assert_eq!(world.counts().curr_items, 1);
}

#[test]
fn a_map_without_the_migration_gives_back_a_cachelet_that_is_passing() {
    let mut world = World::new();
    let key = key_in(&world.maps[0], 0, 0);
    let mut client = Client::open(&mut world.servers[0], 0);
    let now = world.now();
    let set = format!("set {key} 0 0 1\r\na\r\n");
    assert_eq!(client.ask(&mut world.servers[0], now, set), "STORED\r\n");
    world.order(0, worker(1, 0));
    world.apply_all();
    let passing = (CacheletId(0), MigrationStep::Passing);
    let came_there = (0..50).any(|_| {
        world.tick(1);
        let is_there = world.servers[0].workers[0]
            .migration_steps()
            .any(|step| step == passing);
        if !is_there && !world.wires.is_empty() {
            world.carry(0, usize::MAX);
        }
        is_there
    });
    assert!(came_there);
    let get = format!("get {key}\r\n");
    let now = world.now();
    assert_eq!(client.ask(&mut world.servers[0], now, &get), "", "it waits");
    world.change(|document| document.migrations.clear());
    world.apply_all();
    let answer = client.answers(&mut world.servers[0], now);
    assert_eq!(answer, format!("VALUE {key} 0 1\r\na\r\nEND\r\n"));
}

#[test]
fn a_flush_at_either_end_ends_a_migration_and_leaves_nothing() {
    for end in [0, 1] {
        let mut world = World::new();
        let mut client = Client::open(&mut world.servers[0], 0);
        let now = world.now();
        for number in 0..20 {
            let key = key_in(&world.maps[0], 0, number);
            let set = format!("set {key} 0 0 1\r\nv\r\n");
            client.ask(&mut world.servers[0], now, set);
        }
        world.order(0, worker(1, 0));
        world.apply_all();
        world.tick(1);
        for _ in 0..3 {
            world.carry(0, 64);
        }
        let now = world.now();
        let mut other = Client::open(&mut world.servers[end], 0);
        let answer = other.ask(&mut world.servers[end], now, "flush_all\r\n");
        assert_eq!(answer, "OK\r\n");
        world.run();
        assert_eq!((world.flips, world.aborts), (0, 1), "end {end}");
        let items = world.counts().curr_items;
        assert_eq!(items, if end == 0 { 0 } else { 20 }, "end {end}");
    }
}
