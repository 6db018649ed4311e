//! Cachelets that pass to another server with their contents, under clients, lost links, flushes and cancels.

mod world;

use self::world::{World, hello, key_in, worker};
use crate::harness::{Client, at};
use evenkeel_control::MigrationState;
use evenkeel_protocol::SentKey;
use evenkeel_server_core::{LARGE_ANSWER, MigrationStep};
use evenkeel_types::{CacheletId, KeyHash, ServerId};

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

impl World {
    /// Lets a migration of cachelet 0 to worker 0 of server 1 come to where nobody serves it.
    fn until_it_passes(&mut self) {
        self.order(0, worker(1, 0));
        self.apply_all();
        let passing = (CacheletId(0), MigrationStep::Passing);
        let came_there = (0..50).any(|_| {
            self.tick(1);
            let is_there = self.servers[0].workers[0]
                .migration_steps()
                .any(|step| step == passing);
            if !is_there && !self.wires.is_empty() {
                self.carry(0, usize::MAX);
            }
            is_there
        });
        assert!(came_there);
    }
}

#[test]
fn a_map_without_the_migration_gives_back_a_cachelet_that_is_passing() {
    let mut world = World::new();
    let key = key_in(&world.maps[0], 0, 0);
    let mut client = Client::open(&mut world.servers[0], 0);
    let now = world.now();
    let set = format!("set {key} 0 0 1\r\na\r\n");
    assert_eq!(client.ask(&mut world.servers[0], now, set), "STORED\r\n");
    world.until_it_passes();
    let get = format!("get {key}\r\n");
    let now = world.now();
    assert_eq!(client.ask(&mut world.servers[0], now, &get), "", "it waits");
    world.change(|document| document.migrations.clear());
    world.apply_all();
    let answer = client.answers(&mut world.servers[0], now);
    assert_eq!(answer, format!("VALUE {key} 0 1\r\na\r\nEND\r\n"));
}

#[test]
fn what_waited_for_a_cachelet_waits_for_memory_then_in_its_order() {
    let mut world = World::new();
    let key = key_in(&world.maps[0], 0, 0);
    let value = "a".repeat(LARGE_ANSWER + 1);
    let now = world.now();
    let mut client = Client::open(&mut world.servers[0], 1);
    let set = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
    assert_eq!(client.ask(&mut world.servers[0], now, set), "STORED\r\n");
    world.until_it_passes();
    let now = world.now();
    for asked in [format!("get {key}\r\n"), format!("delete {key}\r\n")] {
        let answer = client.ask(&mut world.servers[0], now, asked);
        assert_eq!(answer, "", "it waits");
    }
    world.change(|document| document.migrations.clear());
    let map = world.maps.last().expect("the first one").clone();
    let server = &mut world.servers[0];
    let home = &mut server.workers[0];
    home.set_scarce(true);
    assert!(home.handle_map(now, &map, ServerId(0)));
    let (from, get) = home.poll_released().expect("the get");
    let left = home.handle_message(now, from, get).expect("all of it");
    let (_, delete) = home.poll_released().expect("the delete");
    assert!(delete.goes_behind(from, &left, from));
    assert!(home.poll_released().is_none());
    home.set_scarce(false);
    for message in [left, delete] {
        assert!(home.handle_message(now, from, message).is_none());
    }
    server.pump(now);
    let answer = client.answers(server, now);
    let len = value.len();
    let expected = format!("VALUE {key} 0 {len}\r\n{value}\r\nEND\r\nDELETED\r\n");
    assert!(answer == expected, "{} bytes", answer.len());
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

impl World {
    /// Lets a migration of cachelet 0 to worker 0 of server 2 come to where the target has all of it and its answer is lost.
    fn until_the_target_has_all(&mut self) {
        self.order(0, worker(2, 0));
        self.apply_all();
        let passing = (CacheletId(0), MigrationStep::Passing);
        let is_passing = |world: &World| {
            let mut steps = world.servers[0].workers[0].migration_steps();
            steps.any(|step| step == passing)
        };
        for _ in 0..50 {
            self.tick(1);
            if is_passing(self) {
                break;
            }
            for wire in 0..self.wires.len() {
                self.carry(wire, usize::MAX);
            }
        }
        assert!(is_passing(self));
        let (now, wire) = (self.now(), &mut self.wires[0]);
        let last: Vec<u8> = wire.there.drain(..).collect();
        wire.to.ask_bytes(&mut self.servers[2], now, &last);
        self.cut(0);
        let states: Vec<_> = self.reports().iter().map(|report| report.state).collect();
        assert_eq!(states, [MigrationState::Aborted, MigrationState::Staged]);
    }
}

/// The source has taken the cachelet back, was written to, and gave it up later. The target gets it anew by a map that it
/// does not know yet, and a client that does asks it for what it holds of the first try.
#[test]
fn a_target_lets_nobody_in_by_a_map_that_it_does_not_know() {
    let mut world = World::new();
    let key = key_in(&world.maps[0], 0, 0);
    let mut client = Client::open(&mut world.servers[0], 0);
    let now = world.now();
    let set = format!("{}ms {key} 1 Y1\r\na\r\n", hello(1));
    client.ask(&mut world.servers[0], now, set);
    world.until_the_target_has_all();
    let now = world.now();
    let set = format!("ms {key} 1 Y2\r\nb\r\n");
    assert_eq!(client.ask(&mut world.servers[0], now, set), "HD\r\n");
    world.change(|document| {
        document.migrations.clear();
        document.cachelets[0] = None;
    });
    world.change(|document| {
        document.cachelets[0] = Some(worker(2, 0));
        (document.since[0], document.stay[0]) = (document.epoch, document.epoch);
    });
    let mut there = Client::open(&mut world.servers[2], 0);
    let asked = format!("{}mg {key} v Y4\r\n", hello(4));
    let answer = there.ask(&mut world.servers[2], now, asked);
    assert!(answer.contains("MOVED 2 "), "{answer}");
    world.apply_all();
    let now = world.now();
    let asked = format!("{}mg {key} v Y4\r\n", hello(4));
    let answer = there.ask(&mut world.servers[2], now, asked);
    assert!(answer.ends_with("EN\r\n"), "{answer}");
}

/// Of two workers of a server one has taken a map, by which the cachelet begins anew, and the other has yet to hear of it.
#[test]
fn a_cachelet_that_another_worker_hands_over_by_a_newer_map_waits_for_that_map() {
    let mut world = World::new();
    let key = key_in(&world.maps[0], 0, 0);
    let now = world.now();
    world.change(|document| {
        document.since[0] = document.epoch;
        document.stay[0] = document.epoch;
    });
    let map = world.maps[1].clone();
    let server = &mut world.servers[0];
    assert!(server.workers[0].handle_map(now, &map, ServerId(0)));
    let mut client = Client::open(server, 0);
    let set = format!("set {key} 0 0 1\r\na\r\n");
    assert_eq!(client.ask(server, now, set), "STORED\r\n");
    for worker in &mut server.workers {
        worker.order_move(now, CacheletId(0), 1);
    }
    server.pump(now);
    assert_eq!(server.workers[1].counts().cachelets_taken, 0);
    assert!(server.workers[1].handle_map(now, &map, ServerId(0)));
    server.pump(now);
    assert_eq!(server.workers[1].counts().cachelets_taken, 1);
    let get = format!("get {key}\r\n");
    let answer = client.ask(server, now, get);
    assert_eq!(answer, format!("VALUE {key} 0 1\r\na\r\nEND\r\n"));
}

#[test]
fn a_source_that_names_a_version_near_the_end_of_numbers_is_not_believed() {
    let mut world = World::new();
    world.order(0, worker(1, 1));
    world.apply_all();
    let (now, key) = (world.now(), key_in(&world.maps[0], 4, 0));
    let server = &mut world.servers[1];
    let mut source = Client::open(server, 1);
    let begin = format!("{}migrate begin 0 2 1\r\n", hello(2));
    let answer = source.ask(server, now, begin);
    assert!(answer.ends_with("\r\n2\r\n"), "{answer}");
    let last = format!("migrate activate {}\r\n", u64::MAX);
    assert_eq!(source.ask(server, now, last), "NO\r\n");
    let mut client = Client::open(server, 1);
    let set = format!("set {key} 0 0 1\r\na\r\n");
    assert_eq!(client.ask(server, now, set), "STORED\r\n");
    let likely = format!("migrate activate {}\r\n", 1_u64 << 63);
    assert_eq!(source.ask(server, now, likely), "OK\r\n");
    let set = format!("set {key} 0 0 1\r\nb\r\n");
    assert_eq!(client.ask(server, now, set), "STORED\r\n");
}

#[test]
fn a_target_that_shows_an_impossible_clock_is_given_up() {
    for seconds in [u64::MAX, i64::MAX as u64, 1 << 32] {
        let mut world = World::new();
        let key = key_in(&world.maps[0], 0, 0);
        let mut client = Client::open(&mut world.servers[0], 0);
        let now = world.now();
        let set = format!("set {key} 0 1000 1\r\na\r\n");
        client.ask(&mut world.servers[0], now, set);
        world.order(0, worker(1, 0));
        world.apply_all();
        world.tick(1);
        let id = world.wires[0].id;
        let hello = "EVENKEEL 1 server=1 worker=0 boot=1 epoch=2 lease_ms=1000\r\n";
        let said = format!("{hello}{seconds}\r\n");
        let now = world.now();
        world.servers[0].workers[0].link_input(now, id, said.as_bytes());
        for _ in 0..3 {
            world.tick(1);
        }
        let states: Vec<_> = world.reports().iter().map(|report| report.state).collect();
        assert_eq!(states, [MigrationState::Aborted], "{seconds}");
    }
}

/// The target has some items that the source has evicted since. Their deletion finds nothing at the source, and is one all the
/// same.
#[test]
fn what_was_evicted_here_and_then_deleted_is_deleted_there() {
    let mut world = World::new();
    let keys: Vec<String> = (0..24).map(|n| key_in(&world.maps[0], 0, n)).collect();
    let value = "v".repeat(128 << 10);
    let mut client = Client::open(&mut world.servers[0], 0);
    client.ask(&mut world.servers[0], at(0), hello(1));
    let set = |key: &str| format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
    for key in &keys {
        let now = world.now();
        let stored = client.ask(&mut world.servers[0], now, set(key));
        assert_eq!(stored, "STORED\r\n");
    }
    world.order(0, worker(2, 0));
    world.apply_all();
    let copying = (CacheletId(0), MigrationStep::Copying);
    while !world.servers[0].workers[0]
        .migration_steps()
        .any(|step| step == copying)
    {
        world.tick(1);
        (0..world.wires.len()).for_each(|wire| world.carry(wire, 100));
    }
    // As much is copied as may be on its way unanswered.
    for _ in 0..60 {
        world.tick(1);
        let now = world.now();
        let wire = &mut world.wires[0];
        let there: Vec<u8> = wire.there.drain(..).collect();
        let answers = wire.to.ask_bytes(&mut world.servers[2], now, &there);
        wire.back.extend(answers);
    }
    let taken = world.servers[2].workers[0].counts().migration_items_taken;
    assert!((4..20).contains(&taken), "{taken}");
    // Younger keys fill the memory.
    let mut stranger = Client::open(&mut world.servers[0], 0);
    for number in 24..424 {
        let (now, key) = (world.now(), key_in(&world.maps[0], 0, number));
        stranger.ask(&mut world.servers[0], now, set(&key));
    }
    let now = world.now();
    let mut gone = Vec::new();
    for key in &keys {
        let get = format!("mg {key} Y2\r\n");
        if client.ask(&mut world.servers[0], now, get) == "EN\r\n" {
            let (ask, answer) = match gone.len() % 2 {
                0 => (format!("md {key} Y2\r\n"), "NF\r\n"),
                _ => (format!("delete {key}\r\n"), "NOT_FOUND\r\n"),
            };
            assert_eq!(client.ask(&mut world.servers[0], now, ask), answer);
            gone.push(key);
        }
    }
    assert!(gone.len() > 20, "{} of {}", gone.len(), keys.len());
    world.run();
    assert_eq!(world.flips, 1);
    let mut there = Client::open(&mut world.servers[2], 0);
    let now = world.now();
    there.ask(&mut world.servers[2], now, hello(3));
    for key in gone {
        let get = format!("mg {key} Y3\r\n");
        let answer = there.ask(&mut world.servers[2], now, get);
        assert_eq!(answer, "EN\r\n", "{key} is back");
    }
}
