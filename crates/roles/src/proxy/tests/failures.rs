//! Servers that refuse, hang, break off, talk nonsense and come back.

use super::world::SOURCE;
use super::world::{Connecting, World, key_of, keys_of, map};
use crate::proxy::{OnDown, PoolKind, PoolSettings, ProxyConfig};

const UNAVAILABLE: &str = "SERVER_ERROR backend a:101 unavailable\r\n";

fn state(world: &World, port: u16) -> &'static str {
    world
        .core
        .backends()
        .iter()
        .find(|backend| backend.port == port)
        .unwrap()
        .state
}

#[test]
fn a_refused_connection_makes_gets_miss_and_writes_fail_at_once() {
    let mut world = World::memcached(1);
    world.connecting(101, Connecting::Refuses);
    let client = world.client();
    world.send(
        client,
        "get a b\r\nset a 0 0 1\r\nx\r\nmg a v\r\nmg a k q\r\nmn\r\n",
    );
    let expected = format!("END\r\n{UNAVAILABLE}EN\r\nMN\r\n");
    assert_eq!(world.received(client), expected);
    assert_eq!(state(&world, 101), "down");
    assert_eq!(
        world.attempts(101),
        1,
        "further requests wait for no connection"
    );
    let stats = world.core.stats();
    assert_eq!((stats.get_misses, stats.proxy_reads_unavailable), (4, 4));
    assert_eq!(stats.proxy_request_errors, 1);
}

#[test]
fn gets_can_be_told_of_it_too() {
    let mut world = World::memcached_with(1, |config| {
        config.pools[0].settings.on_down = OnDown::Error;
    });
    world.connecting(101, Connecting::Refuses);
    let client = world.client();
    world.send(client, "get a b\r\nmg a v\r\ngat 0 a\r\nmn\r\n");
    assert_eq!(
        world.received(client),
        format!("{UNAVAILABLE}{UNAVAILABLE}{UNAVAILABLE}MN\r\n")
    );
}

#[test]
fn an_error_for_one_key_takes_the_place_of_end_behind_the_values_that_are_there() {
    let mut world = World::evenkeel_with(2, |config| {
        config.pools[0].settings.on_down = OnDown::Error;
    });
    world.connecting(102, Connecting::Refuses);
    let (here, _) = key_of(1, 2);
    let (gone, _) = key_of(2, 2);
    let client = world.client();
    world.send(
        client,
        format!("get {gone} {here} {gone}\r\nget {here}\r\n"),
    );
    // It was asked once for both.
    world.reply(101, "VA 1 f0 c1\r\nx\r\n");
    let value = format!("VALUE {here} 0 1\r\nx\r\n");
    let expected = format!("{value}SERVER_ERROR backend s2 unavailable\r\n{value}END\r\n");
    assert_eq!(world.received(client), expected);
}

#[test]
fn a_connection_that_does_not_come_about_is_given_up() {
    let mut world = World::memcached(1);
    world.connecting(101, Connecting::Hangs);
    let client = world.client();
    world.send(client, "get a\r\nset a 0 0 1\r\nx\r\n");
    world.wait_ms(249);
    assert_eq!(world.received(client), "");
    world.wait_ms(1);
    assert_eq!(world.received(client), format!("END\r\n{UNAVAILABLE}"));
}

/// The kernel of a stopped process still accepts connections.
#[test]
fn a_server_that_accepts_and_says_nothing_is_no_server() {
    for mut world in [World::memcached(1), World::evenkeel(1)] {
        world.connecting(101, Connecting::Silent);
        let client = world.client();
        world.send(client, "get a\r\n");
        world.wait_ms(250);
        assert_eq!(world.received(client), "END\r\n");
        assert!(!world.is_connected(101));
        assert_eq!(
            world.asked(101),
            "",
            "nothing was asked before the greeting"
        );
    }
}

#[test]
fn another_server_at_the_address_is_not_taken_for_the_one_in_the_map() {
    let mut world = World::evenkeel(2);
    world.connecting(101, Connecting::Silent);
    let (key, _) = key_of(1, 2);
    let client = world.client();
    for greeting in [
        "EVENKEEL 1 server=2 worker=0 boot=1 epoch=1 lease_ms=1000\r\n",
        "EVENKEEL 1 server=1 worker=1 boot=1 epoch=1 lease_ms=1000\r\n",
        "EVENKEEL 2 server=1 worker=0 boot=1 epoch=1 lease_ms=1000\r\n",
        "ERROR\r\n",
    ] {
        world.send(client, format!("get {key}\r\n"));
        for _ in 0..200 {
            if !world.is_connected(101) {
                world.wait_ms(10);
            }
        }
        world.reply(101, greeting);
        assert!(!world.is_connected(101), "{greeting}");
        assert_eq!(world.received(client), "END\r\n");
    }
    assert_eq!(world.core.backends()[0].counters.connects, 0);
}

#[test]
fn a_late_answer_closes_the_connection_and_fails_everything_behind_it() {
    let mut world = World::memcached(1);
    let client = world.client();
    let other = world.client();
    world.send(client, "get a\r\nset a 0 0 1\r\nx\r\n");
    world.wait_ms(600);
    world.send(other, "set b 0 0 1\r\nx\r\nget b\r\n");
    world.wait_ms(399);
    assert_eq!(world.received(client), "");
    world.wait_ms(1);
    let late = "SERVER_ERROR backend a:101 timed out, outcome unknown\r\n";
    assert_eq!(world.received(client), format!("END\r\n{late}"));
    assert_eq!(world.received(other), format!("{late}END\r\n"));
    assert!(!world.is_connected(101));
    world.send(client, "set a 0 0 1\r\nx\r\n");
    assert_eq!(world.received(client), UNAVAILABLE);
    assert_eq!(world.core.backends()[0].counters.timeouts, 1);
}

#[test]
fn reads_on_a_lost_connection_are_asked_again_and_writes_are_not() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.send(client, "get a\r\n");
    world.reply(101, "END\r\n");
    world.send(
        client,
        "get b\r\nincr c 1\r\nmg d v\r\n gat 1 e\r\ntouch f 1\r\n",
    );
    world.asked(101);
    world.drop_connection(101);
    assert_eq!(
        world.asked(101),
        "delete c\r\nget b\r\nmg d v\r\n",
        "what may have been written is forgotten first"
    );
    world.reply(101, "NOT_FOUND\r\nVALUE b 0 1\r\nx\r\nEND\r\nEN\r\n");
    let lost = "SERVER_ERROR backend a:101 lost, outcome unknown\r\n";
    let expected = format!("END\r\nVALUE b 0 1\r\nx\r\nEND\r\n{lost}EN\r\nEND\r\n{lost}");
    assert_eq!(world.received(client), expected);
    assert_eq!(world.core.stats().proxy_requests_resent, 2);
}

#[test]
fn a_server_that_never_answers_before_it_breaks_off_is_down() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.send(client, "get a\r\n");
    world.drop_connection(101);
    assert_eq!(world.received(client), "END\r\n");
    assert_eq!(state(&world, 101), "down");
    assert_eq!(world.attempts(101), 1);
}

#[test]
fn a_read_is_not_asked_again_for_ever() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.send(client, "get a\r\n");
    world.reply(101, "END\r\n");
    world.send(client, "get b\r\n");
    world.drop_connection(101);
    world.drop_connection(101);
    assert_eq!(world.received(client), "END\r\nEND\r\n");
    assert_eq!(world.attempts(101), 2);
}

#[test]
fn part_of_a_multi_get_that_was_answered_stays_answered() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.send(client, "get a b c\r\n");
    world.reply(101, "VALUE b 0 1\r\nx\r\nVAL");
    world.drop_connection(101);
    assert_eq!(world.received(client), "VALUE b 0 1\r\nx\r\nEND\r\n");
    assert_eq!(world.core.stats().proxy_requests_resent, 0);
}

#[test]
fn nonsense_closes_the_connection_because_the_next_answer_cannot_be_found() {
    for nonsense in [
        "STORED\r\n",
        "VALUE z 0 1\r\nx\r\n",
        "VA\r\n",
        "\r\n",
        "VALUE a 0 99999999999\r\n",
        "MOVED 5 1 0\r\n",
    ] {
        let mut world = World::memcached(1);
        let client = world.client();
        world.send(client, "get a\r\nset a 0 0 1\r\nx\r\n");
        world.reply(101, nonsense);
        let expected = "END\r\nSERVER_ERROR backend a:101 answered nonsense\r\n";
        assert_eq!(world.received(client), expected, "{nonsense}");
        assert!(!world.is_connected(101));
        assert_eq!(state(&world, 101), "down");
    }
}

#[test]
fn an_answer_that_nobody_asked_for_is_nonsense_too() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.send(client, "get a\r\n");
    world.reply(101, "END\r\nEND\r\n");
    assert_eq!(world.received(client), "END\r\n");
    assert!(!world.is_connected(101));
}

#[test]
fn a_server_that_is_down_is_tried_with_growing_pauses_and_found_again() {
    let mut world = World::memcached(1);
    world.connecting(101, Connecting::Refuses);
    let client = world.client();
    world.send(client, "get a\r\n");
    world.wait_ms(1000);
    let in_the_first_second = world.attempts(101);
    assert!(
        (4..=10).contains(&in_the_first_second),
        "{in_the_first_second}"
    );
    world.wait_ms(10_000);
    let later = world.attempts(101) - in_the_first_second;
    assert!((9..=21).contains(&later), "{later}");
    world.connecting(101, Connecting::Greets);
    world.wait_ms(1001);
    assert_eq!(state(&world, 101), "up");
    world.send(client, "get a\r\n");
    world.reply(101, "END\r\n");
    assert_eq!(world.received(client), "END\r\nEND\r\n");
}

#[test]
fn one_dead_server_does_not_hold_up_the_others() {
    let mut world = World::evenkeel(3);
    world.connecting(102, Connecting::Hangs);
    let keys: Vec<String> = (1..=3).map(|server| key_of(server, 3).0).collect();
    let (slow, quick) = (world.client(), world.client());
    world.send(slow, format!("get {}\r\n", keys[1]));
    world.send(quick, format!("get {}\r\nget {}\r\n", keys[0], keys[2]));
    world.reply(101, "EN\r\n");
    world.reply(103, "EN\r\n");
    assert_eq!(world.received(quick), "END\r\nEND\r\n");
    assert_eq!(world.received(slow), "");
}

#[test]
fn what_a_vanished_client_asked_for_is_carried_out_and_its_answers_go_nowhere() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.send(
        client,
        "set a 0 0 1 noreply\r\nx\r\nget a b\r\nmd a q\r\nget a\r\n",
    );
    world.close(client);
    let next = world.client();
    assert_eq!(next.0.slot, client.0.slot, "the place is used again");
    world.send(next, "get z\r\n");
    assert_eq!(
        world.asked(101),
        "set a 0 0 1\r\nx\r\nget a b\r\nmd a q\r\nmn\r\nget a\r\nget z\r\n"
    );
    world.reply(
        101,
        "STORED\r\nVALUE b 0 1\r\nx\r\nEND\r\nMN\r\nEND\r\nEND\r\n",
    );
    assert_eq!(world.received(next), "END\r\n");
    assert!(world.is_connected(101));
}

#[test]
fn without_a_map_nothing_is_known() {
    let mut world = World::new(ProxyConfig::of_pool(
        PoolKind::Evenkeel(SOURCE),
        PoolSettings::default(),
    ));
    let client = world.client();
    world.send(client, "get a\r\nset a 0 0 1\r\nx\r\nmn\r\n");
    assert_eq!(
        world.received(client),
        "END\r\nSERVER_ERROR no map of the cluster yet\r\nMN\r\n"
    );
}

#[test]
fn a_write_that_was_never_written_is_not_lost_with_its_connection() {
    let mut world = World::evenkeel(1);
    let (key, cachelet) = key_of(1, 1);
    let client = world.client();
    world.send(client, format!("get {key}\r\n"));
    world.reply(101, "EN\r\n");
    world.asked(101);
    world.stop_writing(101);
    world.send(client, format!("delete {key}\r\n"));
    world.drop_connection(101);
    assert_eq!(world.asked(101), format!("md {key} Y1 U{cachelet}\r\n"));
    world.reply(101, "HD\r\n");
    assert_eq!(world.received(client), "END\r\nDELETED\r\n");
}

/// What waits for a move goes to the home of its key then, and a flush has none.
#[test]
fn a_flush_that_was_never_written_goes_to_its_own_server_or_fails() {
    let mut world = World::evenkeel_with(2, |config| {
        config.pools[0].settings.allow_flush = true;
    });
    let (key, other) = (key_of(1, 2).0, key_of(2, 2).0);
    let client = world.client();
    world.send(client, format!("get {key}\r\nget {other}\r\n"));
    world.reply(101, "EN\r\n");
    world.reply(102, "EN\r\n");
    assert_eq!(world.received(client), "END\r\nEND\r\n");
    world.asked(101);
    world.asked(102);
    world.stop_writing(102);
    world.send(client, format!("get {key}\r\nflush_all\r\n"));
    // Under another map, and while the get is under way, the connection of the flush is lost.
    world.set_map(&map(2, 2, |cachelet| cachelet % 2 + 1));
    world.drop_connection(102);
    let hello = world.hello_at(101, 1);
    world.reply(101, format!("EN\r\nOK\r\n{hello}"));
    world.wait_ms(500);
    let flushes = |asked: String| asked.matches("flush_all").count();
    assert_eq!(flushes(world.asked(101)), 1, "it was flushed once already");
    let is_flushed = flushes(world.asked(102)) == 1;
    if is_flushed {
        let hello = world.hello_at(102, 1);
        world.reply(102, format!("OK\r\n{hello}"));
    }
    let expected = match is_flushed {
        true => "END\r\nOK\r\n",
        false => "END\r\nSERVER_ERROR backend s2 unavailable\r\n",
    };
    assert_eq!(world.received(client), expected);
}

#[test]
fn many_keys_of_a_dead_server_are_many_misses() {
    let mut world = World::evenkeel(2);
    world.connecting(102, Connecting::Refuses);
    let keys: Vec<String> = keys_of(2, 2).take(5000).map(|(key, _)| key).collect();
    let client = world.client();
    world.send(client, format!("get {}\r\n", keys.join(" ")));
    assert_eq!(world.received(client), "END\r\n");
    assert_eq!(world.core.stats().get_misses, 5000);
}

#[test]
fn what_a_server_cannot_keep_up_with_is_refused_in_time_and_the_server_stays_in_use() {
    let mut world = World::evenkeel(1);
    let [writer, reader] = [(); 2].map(|()| world.client());
    let overloaded = "SERVER_ERROR overloaded\r\n";
    // One answer in 30 ms.
    let answer = |world: &mut World| {
        world.wait_ms(30);
        world.reply(101, "HD\r\n");
    };
    // So few are sent at once.
    for n in 0..3 {
        world.send(writer, format!("set a{n} 0 0 1\r\nx\r\n"));
        answer(&mut world);
    }
    assert_eq!(world.received(writer), "STORED\r\n".repeat(3));
    world.asked(101);
    const SETS: usize = 40;
    let writers: Vec<_> = (0..SETS).map(|_| world.client()).collect();
    for (n, &writer) in writers.iter().enumerate() {
        world.send(writer, format!("set b{n} 0 0 1\r\nx\r\n"));
    }
    world.send(reader, "get a0\r\n");
    let sent = world.asked(101).matches("ms ").count();
    assert!((1..5).contains(&sent), "{sent} at once");
    (0..3).for_each(|_| answer(&mut world));
    assert_eq!(
        world.core.stats().proxy_requests_shed,
        0,
        "a burst is waited out"
    );
    (0..2).for_each(|_| answer(&mut world));
    assert_eq!(world.received(reader), overloaded, "it is no miss");
    assert_eq!(world.core.stats().proxy_requests_shed, 1);
    // Stores wait for longer, but not until they are late.
    let mut told = String::new();
    while told.matches("\r\n").count() < SETS {
        answer(&mut world);
        for &writer in &writers {
            told += &world.received(writer);
        }
    }
    let stored = told.matches("STORED\r\n").count();
    assert_eq!(told.matches(overloaded).count(), SETS - stored);
    assert!((20..30).contains(&stored), "{stored} at 30 ms each");
    // What is asked now is answered.
    world.send(reader, "get a0\r\n");
    world.reply(101, "EN\r\n");
    assert_eq!(world.received(reader), "END\r\n");
    assert_eq!(world.core.stats().proxy_reads_unavailable, 0);
    assert_eq!(world.core.backends()[0].counters.failures, 0);
}

#[test]
fn who_stores_more_than_a_server_can_do_in_time_is_slowed_down_to_that() {
    let mut world = World::evenkeel(2);
    let [writer, other] = [(); 2].map(|()| world.client());
    let key = |server, number: usize| keys_of(server, 2).nth(number).expect("there are many").0;
    let set = |key: String| format!("set {key} 0 0 1\r\nx\r\n");
    const SETS: usize = 200;
    let sets: String = (0..SETS).map(|number| set(key(1, number))).collect();
    world.send(writer, sets + &set(key(2, 0)));
    // 10 ms for each: two seconds, twice the request timeout.
    let mut told = String::new();
    while told.matches("\r\n").count() < SETS {
        world.wait_ms(10);
        world.reply(101, "HD\r\n");
        told += &world.received(writer);
    }
    assert_eq!(told, "STORED\r\n".repeat(SETS));
    assert!(world.core.stats().proxy_client_pauses > 0);
    assert_eq!(world.core.stats().proxy_requests_shed, 0);
    // What it asked of another server comes in its turn; nobody else has waited.
    world.reply(102, "HD\r\n");
    assert_eq!(world.received(writer), "STORED\r\n");
    world.send(other, set(key(1, 0)));
    world.reply(101, "HD\r\n");
    assert_eq!(world.received(other), "STORED\r\n");
}
