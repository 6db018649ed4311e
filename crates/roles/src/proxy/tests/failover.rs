//! Keys of servers that are out of use: where they go, and what is forgotten when the server is back.

use super::routing::pool;
use super::world::{Connecting, World, memcached};
use crate::proxy::limits::{FAILOVER_TTL, MISSED_KEYS_MAX, REQUEST_TIMEOUT};
use crate::proxy::*;
use std::sync::Arc;

/// Long enough for a server to be found again and to pass its trial.
const BACK_MS: u64 = 1500;

/// After this long nothing is left elsewhere of a time when a server was out of use.
const SETTLED_MS: u64 = FAILOVER_TTL.as_millis() as u64 + REQUEST_TIMEOUT.as_millis() as u64;

fn next(servers: u16) -> World {
    World::memcached_with(servers, |config| {
        config.pools[0].settings.failover = Failover::Next;
    })
}

/// Keys of the server at a port, while all are in use.
fn keys_at(world: &mut World, port: u16, count: usize) -> Vec<String> {
    let client = world.client();
    let ports: Vec<u16> = (101..110).collect();
    let mut keys = Vec::new();
    for i in 0.. {
        let key = format!("k{i}");
        world.send(client, format!("touch {key} 1\r\n"));
        let at = ports
            .iter()
            .copied()
            .find(|&port| world.has_asked(port))
            .unwrap();
        world.asked(at);
        world.reply(at, "NOT_FOUND\r\n");
        if at == port {
            keys.push(key);
        }
        if keys.len() == count {
            world.close(client);
            return keys;
        }
    }
    unreachable!("the loop has no end")
}

/// The server of a key dies. That its connection broke off is known at once; that there is no other
/// takes an attempt.
fn break_down(world: &mut World, port: u16, key: &str) {
    world.connecting(port, Connecting::Refuses);
    if world.is_connected(port) {
        world.drop_connection(port);
    }
    let client = world.client();
    world.send(client, format!("touch {key} 1\r\n"));
    let unavailable = format!("SERVER_ERROR backend a:{port} unavailable\r\n");
    assert_eq!(world.received(client), unavailable);
    world.close(client);
}

pub fn come_back(world: &mut World, port: u16) {
    world.connecting(port, Connecting::Greets);
    for _ in 0..BACK_MS {
        world.wait_ms(1);
        let servers = world.core.backends();
        if servers.iter().any(|b| b.port == port && b.state == "up") {
            return;
        }
    }
    panic!("not back after {BACK_MS} ms");
}

/// The server that was asked something, and what.
pub fn asked(world: &mut World) -> (u16, String) {
    let port = (101..110)
        .find(|&port| world.has_asked(port))
        .expect("some server was asked");
    let words = world.asked(port);
    assert!(
        (101..110).all(|port| !world.has_asked(port)),
        "only one was"
    );
    (port, words)
}

#[test]
fn reads_and_writes_of_a_key_go_to_the_same_next_server_and_live_shortly_there() {
    let mut world = next(4);
    let keys = keys_at(&mut world, 102, 20);
    break_down(&mut world, 102, &keys[0]);
    let client = world.client();
    let mut places = std::collections::BTreeSet::new();
    for key in &keys {
        world.send(client, format!("set {key} 5 0 1\r\nx\r\n"));
        let (place, words) = asked(&mut world);
        assert_eq!(words, format!("set {key} 5 10 1\r\nx\r\n"));
        places.insert(place);
        for (line, sent) in [
            (format!("get {key}\r\n"), format!("get {key}\r\n")),
            (format!("gat 3600 {key}\r\n"), format!("gat 10 {key}\r\n")),
            (format!("touch {key} 0\r\n"), format!("touch {key} 10\r\n")),
            (
                format!("set {key} 0 7 1\r\nx\r\n"),
                format!("set {key} 0 7 1\r\nx\r\n"),
            ),
            (
                format!("ms {key} 1\r\nx\r\n"),
                format!("ms {key} 1 T10\r\nx\r\n"),
            ),
            (format!("mg {key} v N60\r\n"), format!("mg {key} v N10\r\n")),
            (format!("incr {key} 1\r\n"), format!("incr {key} 1\r\n")),
            (format!("delete {key}\r\n"), format!("delete {key}\r\n")),
        ] {
            world.send(client, line);
            assert_eq!(asked(&mut world), (place, sent));
        }
        world.reply(
            place,
            "STORED\r\nEND\r\nEND\r\nNOT_FOUND\r\nSTORED\r\nHD\r\nEN\r\nNOT_FOUND\r\nDELETED\r\n",
        );
        let answers = world.received(client);
        assert_eq!(answers.lines().count(), 9, "{answers}");
        assert!(!answers.contains("ERROR"), "{answers}");
    }
    assert!(places.len() > 1 && !places.contains(&102), "{places:?}");
    assert_eq!(world.core.stats().proxy_requests_failed_over, 20 * 9);
}

#[test]
fn a_gutter_takes_the_keys_of_dead_servers_and_no_others() {
    let mut world = World::memcached_with(2, |config| {
        config.pools[0].settings.failover = Failover::Gutter(Arc::from("spare"));
        config.pools.push(pool("spare", memcached([105, 106])));
    });
    let keys = keys_at(&mut world, 101, 3);
    let others = keys_at(&mut world, 102, 3);
    break_down(&mut world, 101, &keys[0]);
    let client = world.client();
    for key in &keys {
        world.send(client, format!("set {key} 0 0 1\r\nx\r\n"));
        let (place, words) = asked(&mut world);
        assert!(place >= 105, "{place}");
        assert_eq!(words, format!("set {key} 0 10 1\r\nx\r\n"));
        world.reply(place, "STORED\r\n");
    }
    for key in &others {
        world.send(client, format!("get {key}\r\n"));
        assert_eq!(asked(&mut world), (102, format!("get {key}\r\n")));
        world.reply(102, "END\r\n");
    }
    come_back(&mut world, 101);
    let mut deletes: Vec<String> = keys.iter().map(|key| format!("delete {key}\r\n")).collect();
    deletes.sort();
    assert_eq!(asked(&mut world), (101, deletes.concat()));
}

#[test]
fn what_was_written_elsewhere_is_deleted_before_anything_else_is_asked() {
    let mut world = next(3);
    let keys = keys_at(&mut world, 103, 4);
    break_down(&mut world, 103, &keys[0]);
    let client = world.client();
    for line in [
        format!("set {} 0 0 1\r\nx\r\n", keys[0]),
        format!("delete {}\r\n", keys[1]),
        format!("get {}\r\n", keys[2]),
        format!("touch {} 1\r\n", keys[3]),
    ] {
        world.send(client, line);
        let (place, words) = asked(&mut world);
        let answer = match words.split(' ').next() {
            Some("set") => "STORED\r\n",
            Some("get") => "END\r\n",
            _ => "NOT_FOUND\r\n",
        };
        world.reply(place, answer);
    }
    come_back(&mut world, 103);
    world.send(client, format!("get {}\r\n", keys[0]));
    let mut deletes = [
        format!("delete {}\r\n", keys[0]),
        format!("delete {}\r\n", keys[1]),
    ];
    deletes.sort();
    let (at, words) = asked(&mut world);
    assert_eq!(at, 103);
    assert_eq!(words, format!("{}get {}\r\n", deletes.concat(), keys[0]));
    world.received(client);
    world.reply(103, "DELETED\r\nNOT_FOUND\r\nEND\r\n");
    assert_eq!(world.received(client), "END\r\n");
    let servers = world.core.backends();
    let counters = servers.iter().find(|b| b.port == 103).unwrap().counters;
    assert_eq!(
        (counters.outages, counters.missed, counters.caught_up),
        (1, 2, 2)
    );
}

#[test]
fn writes_that_were_refused_or_may_have_happened_are_forgotten_too() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.send(client, "set unknown 0 0 1\r\nx\r\nms bWF5YmU= 1 b\r\nx\r\n");
    world.wait_ms(1000);
    world.connecting(101, Connecting::Refuses);
    world.wait_ms(60);
    world.send(client, "set refused 0 0 1\r\nx\r\nincr n 1\r\nget read\r\n");
    world.asked(101);
    come_back(&mut world, 101);
    let deletes = ["maybe", "n", "refused", "unknown"].map(|key| format!("delete {key}\r\n"));
    assert_eq!(world.asked(101), deletes.concat());
    // Lost again before they are carried out: then they are asked again.
    world.drop_connection(101);
    come_back(&mut world, 101);
    assert_eq!(world.asked(101), deletes.concat());
}

#[test]
fn a_server_that_missed_too_much_is_emptied_only_where_that_is_allowed() {
    for allowed in [false, true] {
        let mut world = World::memcached_with(1, |config| {
            config.pools[0].settings.flush_on_return = allowed;
        });
        world.connecting(101, Connecting::Refuses);
        let client = world.client();
        for i in 0..=MISSED_KEYS_MAX {
            world.send(client, format!("delete {i} noreply\r\n"));
        }
        come_back(&mut world, 101);
        let mut asked = world.asked(101);
        let counters = world.core.backends()[0].counters;
        assert_eq!(counters.missed_unnoted, 1);
        if allowed {
            assert_eq!(asked, "flush_all\r\n");
            assert_eq!((counters.flushed, counters.unfenced), (1, 0));
        } else {
            let deletes = |asked: &str| asked.matches("delete ").count();
            let mut more = deletes(&asked);
            while more > 0 {
                world.reply(101, "NOT_FOUND\r\n".repeat(more));
                let next = world.asked(101);
                more = deletes(&next);
                asked += &next;
            }
            assert_eq!(deletes(&asked), MISSED_KEYS_MAX);
            assert_eq!((counters.flushed, counters.unfenced), (0, 1));
        }
    }
}

#[test]
fn a_flush_that_a_server_missed_is_made_up_for() {
    let mut world = World::memcached_with(1, |config| {
        config.pools[0].settings.allow_flush = true;
    });
    world.connecting(101, Connecting::Refuses);
    let client = world.client();
    world.send(client, "get a\r\nflush_all\r\n");
    assert!(world.received(client).starts_with("END\r\nSERVER_ERROR"));
    come_back(&mut world, 101);
    assert_eq!(world.asked(101), "flush_all\r\n");
    world.reply(101, "OK\r\n");
    assert!(world.is_connected(101));
}

/// What was stored elsewhere is not brought up to date, and so must not be read again.
#[test]
fn keys_go_nowhere_while_something_older_may_be_there() {
    let mut world = next(2);
    let key = keys_at(&mut world, 101, 1).remove(0);
    break_down(&mut world, 101, &key);
    let client = world.client();
    world.send(client, format!("set {key} 0 0 3\r\nold\r\n"));
    assert_eq!(asked(&mut world).0, 102);
    world.reply(102, "STORED\r\n");
    come_back(&mut world, 101);
    world.asked(101);
    world.reply(101, "NOT_FOUND\r\n");
    world.send(client, format!("set {key} 0 0 3\r\nnew\r\n"));
    assert_eq!(asked(&mut world).0, 101);
    world.reply(101, "STORED\r\n");
    world.received(client);
    break_down(&mut world, 101, &key);
    world.send(client, format!("get {key}\r\n"));
    assert!(!world.has_asked(102), "the old value is there");
    assert_eq!(world.received(client), "END\r\n");
    assert!(world.core.stats().proxy_failovers_unsettled > 0);
    world.wait_ms(SETTLED_MS);
    world.send(client, format!("get {key}\r\n"));
    assert_eq!(asked(&mut world).0, 102);
}

#[test]
fn a_compare_and_swap_is_not_taken_elsewhere() {
    let mut world = next(2);
    let key = keys_at(&mut world, 101, 1).remove(0);
    break_down(&mut world, 101, &key);
    let client = world.client();
    let lines = format!("cas {key} 0 0 1 7\r\nx\r\nms {key} 1 C7\r\nx\r\nmd {key} C7\r\nmn\r\n");
    world.send(client, lines);
    let received = world.received(client);
    assert_eq!(
        received.matches("SERVER_ERROR the key's server").count(),
        3,
        "{received}"
    );
    assert!(
        received.ends_with("MN\r\n") && !world.has_asked(102),
        "{received}"
    );
    assert_eq!(world.core.stats().proxy_cas_refused, 3);
}

#[test]
fn reads_under_way_are_asked_elsewhere_and_writes_are_not() {
    let mut world = next(3);
    let keys = keys_at(&mut world, 102, 12);
    let client = world.client();
    let all = keys.join(" ");
    world.send(
        client,
        format!("get {all}\r\nincr {} 1\r\nmg {} v\r\n", keys[0], keys[1]),
    );
    world.asked(102);
    world.connecting(102, Connecting::Refuses);
    world.drop_connection(102);
    let mut seen = Vec::new();
    for port in [101, 103] {
        let words = world.asked(port);
        let mut reply = String::new();
        for line in words.lines() {
            let mut words = line.split(' ');
            match words.next() {
                Some("get") => {
                    for key in words {
                        reply += &format!("VALUE {key} 0 1\r\ny\r\n");
                        seen.push(key.to_owned());
                    }
                    reply += "END\r\n";
                }
                Some("mg") => reply += "VA 1\r\nz\r\n",
                other => panic!("{other:?}"),
            }
        }
        if !reply.is_empty() {
            world.reply(port, reply);
        }
    }
    seen.sort();
    let mut expected = keys.clone();
    expected.sort();
    assert_eq!(seen, expected, "each key once");
    let values: String = keys
        .iter()
        .map(|key| format!("VALUE {key} 0 1\r\ny\r\n"))
        .collect();
    let lost = "SERVER_ERROR backend a:102 lost, outcome unknown\r\n";
    assert_eq!(
        world.received(client),
        format!("{values}END\r\n{lost}VA 1\r\nz\r\n")
    );
}

/// A connection does not ask the server that is back before it has its answer from the one that stood
/// in.
#[test]
fn order_is_kept_when_a_server_comes_back() {
    let mut world = next(2);
    let key = keys_at(&mut world, 101, 1).remove(0);
    break_down(&mut world, 101, &key);
    let (client, other) = (world.client(), world.client());
    world.send(client, format!("set {key} 0 0 1\r\nx\r\n"));
    assert!(world.has_asked(102));
    come_back(&mut world, 101);
    assert_eq!(world.asked(101), format!("delete {key}\r\n"));
    world.send(client, format!("get {key}\r\n"));
    assert!(
        !world.has_asked(101),
        "the answer from the other place is awaited"
    );
    world.send(other, format!("get {key}\r\n"));
    assert_eq!(
        world.asked(101),
        format!("get {key}\r\n"),
        "others are not held up"
    );
    world.asked(102);
    world.reply(102, "STORED\r\n");
    assert_eq!(world.asked(101), format!("get {key}\r\n"));
}

#[test]
fn a_server_that_is_back_must_answer_several_greetings() {
    let mut world = next(2);
    let key = keys_at(&mut world, 101, 1).remove(0);
    break_down(&mut world, 101, &key);
    world.connecting(101, Connecting::Greets);
    let client = world.client();
    let mut asked_elsewhere = 0;
    while !world.has_asked(101) {
        world.send(client, format!("get {key}\r\n"));
        if world.has_asked(102) {
            world.asked(102);
            world.reply(102, "END\r\n");
            asked_elsewhere += 1;
        }
        world.wait_ms(10);
    }
    // Three greetings with two pauses of 50 ms between them, and the pause before the first.
    assert!((10..30).contains(&asked_elsewhere), "{asked_elsewhere}");
}
