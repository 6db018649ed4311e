//! What one proxy worker may hold: nobody makes it hold more.

use super::world::{World, key_of};
use crate::ProxyConfig;
use crate::limits::{
    ANSWER_RESERVE_START, BACKEND_BYTES_MAX, BACKEND_REQUESTS_MAX, GROUP_LINE_MAX, OUT_PAUSE,
    PARKED_MAX, PIPELINE_MAX,
};

/// All at once, and each for itself, however alike they are.
fn one_turn(config: &mut ProxyConfig) {
    config.requests_per_turn = 1_000_000;
    config.pools[0].settings.collapse = false;
}

#[test]
fn a_turn_has_room_for_so_many_requests_and_the_rest_follows() {
    let mut world = World::memcached(1);
    let client = world.client();
    let core = &mut world.core;
    let input = "mn\r\n".repeat(50);
    assert_eq!(
        core.client_input(world.now, client, input.as_bytes()),
        20 * 4
    );
    assert!(
        !core.client_wants_input(client),
        "first what is there already"
    );
    assert_eq!(core.stats().conn_yields, 1);
    world.send(client, input);
    assert_eq!(world.received(client), "MN\r\n".repeat(70));
}

#[test]
fn a_pipeline_of_any_length_is_asked_for_a_window_at_a_time() {
    let mut world = World::memcached_with(1, one_turn);
    let client = world.client();
    let count = 10_000;
    world.send(client, "get a\r\n".repeat(count));
    let first = world.asked(101).len() / 7;
    assert!(first <= OUT_PAUSE / ANSWER_RESERVE_START, "{first}");
    assert!(!world.core.client_wants_input(client));
    let (mut answered, mut widest, mut open) = (0, 0, first);
    while answered < count {
        world.reply(101, "END\r\n");
        answered += 1;
        open = open + world.asked(101).len() / 7 - 1;
        widest = widest.max(open);
    }
    assert_eq!(
        widest, PIPELINE_MAX,
        "small answers widen the window up to its end"
    );
    assert_eq!(world.received(client), "END\r\n".repeat(count));
    assert!(world.core.client_wants_input(client));
    assert!(world.core.stats().client_pauses > 0);
}

#[test]
fn a_multi_get_of_any_length_is_asked_for_a_window_at_a_time() {
    for mut world in [
        World::memcached_with(3, one_turn),
        World::evenkeel_with(3, one_turn),
    ] {
        let client = world.client();
        let keys: Vec<String> = (0..10_000).map(|i| format!("k{i}")).collect();
        world.send(client, format!("gets {}\r\nmn\r\n", keys.join(" ")));
        let mut rounds = 0;
        while world.unconsumed(client) > 0 || rounds == 0 {
            rounds += 1;
            assert!(rounds < 1000, "it goes on");
            for port in 101..=103 {
                for line in world.asked(port).lines() {
                    assert!(line.len() <= GROUP_LINE_MAX);
                    let answer = if line.starts_with("mg") {
                        "EN\r\n"
                    } else {
                        "END\r\n"
                    };
                    world.reply(port, answer);
                }
            }
        }
        for port in 101..=103 {
            for line in world.asked(port).lines() {
                world.reply(
                    port,
                    if line.starts_with("mg") {
                        "EN\r\n"
                    } else {
                        "END\r\n"
                    },
                );
            }
        }
        assert_eq!(world.received(client), "END\r\nMN\r\n");
        assert_eq!(world.core.stats().get_misses, 10_000);
    }
}

#[test]
fn large_answers_are_asked_for_a_few_at_a_time() {
    let mut world = World::memcached_with(1, one_turn);
    let client = world.client();
    world.stop_reading(client, true);
    world.send(client, "get a\r\n".repeat(1000));
    let value = format!("VALUE a 0 1000000\r\n{}\r\nEND\r\n", "x".repeat(1_000_000));
    let mut open = world.asked(101).len() / 7;
    let mut answers = 0;
    while open > 0 {
        world.reply(101, &value);
        answers += 1;
        open = open + world.asked(101).len() / 7 - 1;
    }
    // The burst before the first answer was seen, and no more.
    assert_eq!(answers, OUT_PAUSE / ANSWER_RESERVE_START);
    assert!(!world.is_closed(client));
    world.stop_reading(client, false);
    let asked = world.asked(101).len() / 7;
    assert!((2..=OUT_PAUSE / 1_000_000).contains(&asked), "{asked}");
}

#[test]
fn a_process_short_of_memory_asks_for_one_large_answer_after_the_other() {
    let mut world = World::memcached_with(1, one_turn);
    let (reader, honest) = (world.client(), world.client());
    world.core.set_short_of_memory(true);
    world.stop_reading(reader, true);
    world.send(reader, "get a\r\n".repeat(50));
    assert_eq!(world.asked(101), "get a\r\n");
    let value = format!("VALUE a 0 100000\r\n{}\r\nEND\r\n", "x".repeat(100_000));
    world.reply(101, &value);
    assert_eq!(world.asked(101), "", "it has not read the first");
    // Who has nothing unread is not concerned.
    world.send(honest, "get b\r\n");
    assert_eq!(world.asked(101), "get b\r\n");
    world.reply(101, "END\r\n");
    assert_eq!(world.received(honest), "END\r\n");
    world.stop_reading(reader, false);
    assert_eq!(world.asked(101), "get a\r\n");
    assert!(world.core.client_held(honest) == 0);
}

#[test]
fn a_client_that_never_reads_is_paused_and_then_costs_nothing_more() {
    let mut world = World::memcached_with(1, one_turn);
    let client = world.client();
    world.stop_reading(client, true);
    let commands = "version\r\n".repeat(2_000_000);
    world.send(client, &commands);
    assert!(world.unconsumed(client) > 0);
    assert!(world.core.client_output(client).len() < OUT_PAUSE + 100);
    world.stop_reading(client, false);
    assert_eq!(world.unconsumed(client), 0);
}

#[test]
fn answers_far_beyond_what_was_expected_close_the_connection() {
    let mut world = World::memcached_with(1, one_turn);
    let client = world.client();
    world.stop_reading(client, true);
    // Small answers first, so that many large ones are asked for at once.
    for _ in 0..200 {
        world.send(client, "get a\r\n");
        world.reply(101, "END\r\n");
    }
    world.send(client, "get a\r\n".repeat(1000));
    let value = format!("VALUE a 0 1000000\r\n{}\r\nEND\r\n", "x".repeat(1_000_000));
    let mut answers = 0;
    while !world.is_closed(client) {
        world.reply(101, &value);
        answers += 1;
        assert!(answers < 100, "closed in time");
    }
    assert_eq!(world.core.stats().clients_closed_unread, 1);
    // Those asked for before are answered to nobody, and the server connection lives on.
    world.reply(101, &value);
    assert!(world.is_connected(101));
    assert_eq!(world.core.clients(), 0);
}

#[test]
fn a_backend_s_queue_has_an_end_in_bytes() {
    let mut world = World::memcached(1);
    let client = world.client();
    let value = "x".repeat(1_000_000);
    let full = BACKEND_BYTES_MAX / 1_000_100;
    for _ in 0..full + 10 {
        let client = world.client();
        world.send(client, format!("set a 0 0 1000000 noreply\r\n{value}\r\n"));
    }
    world.send(client, "get a\r\nset a 0 0 1\r\nx\r\n");
    world.send(client, format!("set a 0 0 1000000\r\n{value}\r\n"));
    let stats = world.core.stats();
    assert!((9..=12).contains(&stats.backend_queue_full), "{stats:?}");
    let queued = world.core.backends()[0].counters.queued_bytes;
    assert!(queued <= BACKEND_BYTES_MAX as u64, "{queued}");
}

#[test]
fn a_backend_s_queue_has_an_end_in_requests() {
    let mut world = World::memcached_with(1, one_turn);
    let clients = BACKEND_REQUESTS_MAX / 64 + 1;
    for _ in 0..clients {
        let client = world.client();
        world.send(client, "get a\r\n".repeat(64));
    }
    assert_eq!(
        world.core.backends()[0].counters.queued_requests,
        BACKEND_REQUESTS_MAX as u64
    );
    let client = world.client();
    world.send(client, "get a\r\nset a 0 0 1\r\nx\r\n");
    let busy = "SERVER_ERROR backend a:101 has too many requests queued\r\n";
    assert_eq!(
        world.received(client),
        busy.repeat(2),
        "not a miss: the server is there"
    );
}

#[test]
fn only_so_many_requests_wait_for_moves() {
    let mut world = World::evenkeel_with(1, one_turn);
    let (key, _) = key_of(1, 1);
    let clients: Vec<_> = (0..PARKED_MAX / 16 + 1).map(|_| world.client()).collect();
    for &client in &clients {
        world.send(client, format!("delete {key}\r\n").repeat(16));
        world.reply(101, "MOVED 1 9 0\r\n".repeat(16));
    }
    let last = *clients.last().unwrap();
    let full = "SERVER_ERROR too many requests wait for moves and reads\r\n";
    assert_eq!(world.received(last), full.repeat(16));
    assert_eq!(world.received(clients[0]), "");
}
