//! Several workers: a client sees one server, whatever worker holds a key.

use crate::harness::{Client, Server, at};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// A runner whose cases come from a seed that is printed; `EVENKEEL_SEED` sets another one.
pub fn runner(cases: u32) -> TestRunner {
    let seed: u64 = std::env::var("EVENKEEL_SEED").map_or(20_261_120, |seed| {
        seed.parse().expect("EVENKEEL_SEED must be a number")
    });
    println!("EVENKEEL_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    TestRunner::new_with_rng(
        Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        },
        rng,
    )
}

/// A random command on few keys, so that commands meet.
fn command() -> impl Strategy<Value = String> {
    let key = || (0..12u8).prop_map(|key| format!("key{key}"));
    let value = || "[0-9]{0,3}";
    prop_oneof![
        3 => (key(), value()).prop_map(|(k, v)| format!("set {k} 1 0 {}\r\n{v}\r\n", v.len())),
        1 => (key(), value())
            .prop_map(|(k, v)| format!("append {k} 0 0 {} noreply\r\n{v}\r\n", v.len())),
        1 => (key(), value()).prop_map(|(k, v)| format!("add {k} 2 0 {}\r\n{v}\r\n", v.len())),
        3 => proptest::collection::vec(key(), 1..6)
            .prop_map(|keys| format!("get {}\r\n", keys.join(" "))),
        1 => (key(), 0..9u64).prop_map(|(k, d)| format!("incr {k} {d}\r\n")),
        1 => key().prop_map(|k| format!("delete {k}\r\n")),
        1 => key().prop_map(|k| format!("mg {k} v f k\r\n")),
        1 => key().prop_map(|k| format!("md {k} q\r\n")),
        1 => (key(), value()).prop_map(|(k, v)| format!("ms {k} {} F7\r\n{v}\r\n", v.len())),
        1 => Just("mn\r\n".to_owned()),
        1 => Just("bogus\r\n".to_owned()),
    ]
}

#[test]
fn four_workers_answer_as_one_does_however_the_input_is_split() {
    let cases = (proptest::collection::vec(command(), 1..60), any::<u64>());
    runner(64)
        .run(&cases, |(commands, split)| {
            let mut one = Server::standalone(1);
            let mut four = Server::standalone(4);
            let mut alone = Client::open(&mut one, 0);
            let mut shared = Client::open(&mut four, (split % 4) as usize);
            let input = commands.concat();
            let expected = alone.ask(&mut one, at(0), &input);
            let mut rest = input.as_bytes();
            let mut step = split;
            let mut answered = String::new();
            while !rest.is_empty() {
                step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let take = ((step >> 33) as usize % 40 + 1).min(rest.len());
                answered += &shared.ask(&mut four, at(0), &rest[..take]);
                rest = &rest[take..];
            }
            prop_assert_eq!(answered, expected);
            Ok(())
        })
        .expect("the same answers");
}

#[test]
fn answers_stay_in_order_while_other_workers_are_slow() {
    let mut server = Server::standalone(4);
    let mut client = Client::open(&mut server, 0);
    let mut setup = String::new();
    for key in 0..40 {
        setup.push_str(&format!("set k{key} 0 0 2\r\n{key:02}\r\n"));
    }
    client.ask(&mut server, at(0), &setup);
    // The worker is shown everything before any other worker is given a turn.
    let requests: String = (0..40).map(|key| format!("mg k{key} v\r\n")).collect();
    let mut shown = requests.as_bytes();
    while !shown.is_empty() {
        let progress = server.workers[0].handle_input(at(0), client.id, shown);
        shown = &shown[progress.consumed..];
    }
    server.pump(at(0));
    let expected: String = (0..40).map(|key| format!("VA 2\r\n{key:02}\r\n")).collect();
    assert_eq!(client.answers(&mut server, at(0)), expected);
}

#[test]
fn flush_and_statistics_concern_every_worker() {
    let mut server = Server::standalone(4);
    let mut client = Client::open(&mut server, 2);
    for key in 0..100 {
        client.ask(&mut server, at(0), format!("set k{key} 0 0 1\r\nx\r\n"));
    }
    let stats = client.ask(&mut server, at(0), "stats\r\n");
    assert!(stats.contains("STAT curr_items 100\r\n"), "{stats}");
    assert!(stats.contains("STAT cmd_set 100\r\n"), "{stats}");
    let cachelets = client.ask(&mut server, at(0), "stats cachelets\r\n");
    assert_eq!(cachelets.matches("items=").count(), 4 * 16);
    let sum = |name: &str| -> u64 {
        let fields = cachelets.split_ascii_whitespace();
        let values = fields.filter_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        values.map(|value| value.parse::<u64>().unwrap()).sum()
    };
    assert_eq!(
        (sum("writes"), sum("bytes_in"), sum("reads")),
        (100, 100, 0)
    );
    assert_eq!(client.ask(&mut server, at(0), "flush_all\r\n"), "OK\r\n");
    assert!(
        client
            .ask(&mut server, at(0), "stats\r\n")
            .contains("STAT curr_items 0\r\n")
    );
    assert_eq!(
        client.ask(&mut server, at(0), "flush_all noreply\r\nmn\r\n"),
        "MN\r\n"
    );
}

#[test]
fn an_answer_for_a_closed_connection_reaches_nobody_else() {
    let mut server = Server::standalone(2);
    let mut client = Client::open(&mut server, 0);
    let keys: String = (0..20).map(|key| format!("mg k{key}\r\n")).collect();
    // Not settled: answers are on their way when the connection closes and its place is reused.
    server.workers[0].handle_input(at(0), client.id, keys.as_bytes());
    server.workers[0].close(client.id);
    client = Client::open(&mut server, 0);
    server.pump(at(0));
    assert_eq!(client.ask(&mut server, at(0), "mn\r\n"), "MN\r\n");
}

#[test]
fn what_many_large_answers_take_at_once_is_bounded() {
    const LARGE: usize = 400_000;
    // What is composed at once, and the answer that went beyond.
    const AT_ONCE: usize = (1 << 20) + (64 << 10) + 2 * LARGE;
    let mut server = Server::standalone(2);
    let mut client = Client::open(&mut server, 0);
    let value = "v".repeat(LARGE);
    let mut keys = Vec::new();
    let mut expected = String::new();
    for key in (0..40).map(|number| format!("large{number}")) {
        let before = server.workers[0].counters().forwarded_out;
        let set = format!("set {key} 0 0 {LARGE}\r\n{value}\r\n");
        assert_eq!(client.ask(&mut server, at(0), set), "STORED\r\n");
        if server.workers[0].counters().forwarded_out > before {
            expected += &format!("VALUE {key} 0 {LARGE}\r\n{value}\r\n");
            keys.push(key);
        }
    }
    let get = format!("get {}\r\n", keys.join(" "));
    server.workers[0].handle_input(at(0), client.id, get.as_bytes());
    let mut sent = Vec::new();
    server.workers[0].flush_outbox(|_, message| {
        sent.push(message);
        Ok(())
    });
    let mut parts = 0;
    for message in sent {
        let mut next = Some(message);
        while let Some(message) = next {
            let before = server.workers[1].outbox_bytes();
            next = server.workers[1].handle_message(at(0), 0, message);
            let more = server.workers[1].outbox_bytes() - before;
            assert!(more <= AT_ONCE, "{more}");
            parts += 1;
        }
    }
    assert!(parts >= 5, "{} keys in {parts} parts", keys.len());
    server.pump(at(0));
    assert_eq!(
        client.answers(&mut server, at(0)),
        format!("{expected}END\r\n")
    );
}
