//! Every command, in both kinds of pool: what is asked, and how the answer is shown.

use super::world::{World, key_of};
use crate::proxy::ProcessStats;

/// One command, what the only Evenkeel worker is asked (K, C: key and cachelet), what it answers, and
/// what the application gets.
const AS_META: &[(&str, &str, &str, &str)] = &[
    (
        "get K",
        "mg K v f c A YU",
        "VA 3 f5 c9\r\nabc",
        "VALUE K 5 3\r\nabc\r\nEND\r\n",
    ),
    (
        "gets K",
        "mg K v f c A YU",
        "VA 3 f5 c9\r\nabc",
        "VALUE K 5 3 9\r\nabc\r\nEND\r\n",
    ),
    ("get K", "mg K v f c A YU", "EN", "END\r\n"),
    (
        "gat -1 K",
        "mg K v f c A T-1 YU",
        "VA 0 f0 c9\r\n",
        "VALUE K 0 0\r\n\r\nEND\r\n",
    ),
    ("gats 60 K", "mg K v f c A T60 YU", "EN V7", "END\r\n"),
    (
        "set K 1 2 3\r\nabc",
        "ms K 3 F1 T2 YU\r\nabc",
        "HD",
        "STORED\r\n",
    ),
    (
        "set K 1 2 3 noreply\r\nabc",
        "ms K 3 F1 T2 YU\r\nabc",
        "HD",
        "",
    ),
    (
        "set K 1 2 3 noreply\r\nabc",
        "ms K 3 F1 T2 YU\r\nabc",
        "SERVER_ERROR no",
        "",
    ),
    (
        "add K 0 0 1\r\nx",
        "ms K 1 F0 T0 ME YU\r\nx",
        "NS",
        "NOT_STORED\r\n",
    ),
    (
        "replace K 0 0 1\r\nx",
        "ms K 1 F0 T0 MR YU\r\nx",
        "NS",
        "NOT_STORED\r\n",
    ),
    (
        "append K 9 9 1\r\nx",
        "ms K 1 MA YU\r\nx",
        "HD",
        "STORED\r\n",
    ),
    (
        "prepend K 9 9 1\r\nx",
        "ms K 1 MP YU\r\nx",
        "NS",
        "NOT_STORED\r\n",
    ),
    (
        "cas K 0 0 1 77\r\nx",
        "ms K 1 F0 T0 C77 YU\r\nx",
        "EX",
        "EXISTS\r\n",
    ),
    (
        "cas K 0 0 1 77\r\nx",
        "ms K 1 F0 T0 C77 YU\r\nx",
        "NF",
        "NOT_FOUND\r\n",
    ),
    ("delete K", "md K YU", "HD", "DELETED\r\n"),
    ("delete K", "md K YU", "NF", "NOT_FOUND\r\n"),
    ("delete K noreply", "md K YU", "NF", ""),
    ("incr K 5", "ma K v D5 MI YU", "VA 2\r\n42", "42\r\n"),
    ("decr K 5", "ma K v D5 MD YU", "NF", "NOT_FOUND\r\n"),
    ("incr K 5 noreply", "ma K v D5 MI YU", "VA 2\r\n42", ""),
    (
        "incr K 5",
        "ma K v D5 MI YU",
        "CLIENT_ERROR cannot increment or decrement non-numeric value",
        "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
    ),
    ("touch K 9", "mg K A T9 YU", "HD", "TOUCHED\r\n"),
    ("touch K 9", "mg K A T9 YU", "EN", "NOT_FOUND\r\n"),
    ("touch K 9 noreply", "mg K A T9 YU", "HD", ""),
    (
        "mg K v k",
        "mg K v k c YU",
        "VA 1 kK c5 G3 V5\r\nx",
        "VA 1 kK\r\nx\r\n",
    ),
    ("mg K c t", "mg K c t YU", "HD c5 t-1", "HD c5 t-1\r\n"),
    ("mg K v q", "mg K v c YU", "EN", ""),
    (
        "mg K v q Oab",
        "mg K v Oab c YU",
        "VA 1 Oab c5\r\nx",
        "VA 1 Oab\r\nx\r\n",
    ),
    ("mg K v Oab", "mg K v Oab c YU", "EN Oab V4", "EN Oab\r\n"),
    (
        "mg K v N30",
        "mg K v N30 c YU",
        "VA 0 c5 W\r\n",
        "VA 0 W\r\n\r\n",
    ),
    (
        "ms K 1 T9 c\r\nx",
        "ms K 1 T9 c YU\r\nx",
        "HD c7",
        "HD c7\r\n",
    ),
    ("ms K 1 MR\r\nx", "ms K 1 MR YU\r\nx", "NS", "NS\r\n"),
    ("ms K 1 q\r\nx", "ms K 1 q YU\r\nx\r\nmn", "MN", ""),
    (
        "ms K 1 q\r\nx",
        "ms K 1 q YU\r\nx\r\nmn",
        "NS\r\nMN",
        "NS\r\n",
    ),
    ("md K q", "md K q YU\r\nmn", "MN", ""),
    ("md K q", "md K q YU\r\nmn", "NF\r\nMN", "NF\r\n"),
    ("md K I T30", "md K I T30 YU", "HD", "HD\r\n"),
    (
        "ma K N0 J13 v",
        "ma K N0 J13 v YU",
        "VA 2\r\n13",
        "VA 2\r\n13\r\n",
    ),
    (
        "me K",
        "me K",
        "ME K exp=-1 la=2 cas=3",
        "ME K exp=-1 la=2 cas=3\r\n",
    ),
    ("me K", "me K", "EN", "EN\r\n"),
    (
        "get K",
        "mg K v f c A YU",
        "SERVER_ERROR broken",
        "SERVER_ERROR broken\r\n",
    ),
    (
        "set K 0 0 1\r\nx",
        "ms K 1 F0 T0 YU\r\nx",
        "SERVER_ERROR no",
        "SERVER_ERROR no\r\n",
    ),
];

#[test]
fn an_evenkeel_worker_is_asked_in_meta_commands() {
    let (key, cachelet) = key_of(1, 1);
    for (command, asked, answer, shown) in AS_META {
        let mut world = World::evenkeel(1);
        let client = world.client();
        world.send(client, command.replace('K', &key) + "\r\n");
        let route = format!("Y1 U{cachelet}");
        let expected = asked.replace('K', &key).replace("YU", &route) + "\r\n";
        assert_eq!(world.asked(101), expected, "{command}");
        world.reply(101, answer.replace('K', &key) + "\r\n");
        // A noop behind it shows that nothing is left open.
        world.send(client, "mn\r\n");
        assert_eq!(
            world.received(client),
            shown.replace('K', &key) + "MN\r\n",
            "{command}"
        );
        assert_eq!(world.unconsumed(client), 0);
    }
}

/// The same for the only server of a memcached pool.
const AS_CLASSIC: &[(&str, &str, &str, &str)] = &[
    (
        "get K",
        "get K",
        "VALUE K 5 3\r\nabc\r\nEND",
        "VALUE K 5 3\r\nabc\r\nEND\r\n",
    ),
    (
        "gets K",
        "gets K",
        "VALUE K 5 3 9\r\nabc\r\nEND",
        "VALUE K 5 3 9\r\nabc\r\nEND\r\n",
    ),
    ("get K", "get K", "END", "END\r\n"),
    (
        "get K K",
        "get K K",
        "VALUE K 0 1\r\na\r\nEND",
        "VALUE K 0 1\r\na\r\nEND\r\n",
    ),
    (
        "gat 9 K",
        "gat 9 K",
        "VALUE K 0 0\r\n\r\nEND",
        "VALUE K 0 0\r\n\r\nEND\r\n",
    ),
    ("gats -1 K", "gats -1 K", "END", "END\r\n"),
    (
        "set K 1 2 3\r\nabc",
        "set K 1 2 3\r\nabc",
        "STORED",
        "STORED\r\n",
    ),
    (
        "set K 1 2 3 noreply\r\nabc",
        "set K 1 2 3\r\nabc",
        "STORED",
        "",
    ),
    (
        "set K 1 2 3 noreply\r\nabc",
        "set K 1 2 3\r\nabc",
        "SERVER_ERROR no",
        "",
    ),
    (
        "append K 1 2 1\r\nx",
        "append K 1 2 1\r\nx",
        "NOT_STORED",
        "NOT_STORED\r\n",
    ),
    (
        "cas K 0 0 1 7\r\nx",
        "cas K 0 0 1 7\r\nx",
        "EXISTS",
        "EXISTS\r\n",
    ),
    ("delete K", "delete K", "DELETED", "DELETED\r\n"),
    ("delete K noreply", "delete K", "NOT_FOUND", ""),
    ("incr K 5", "incr K 5", "42", "42\r\n"),
    ("decr K 5 noreply", "decr K 5", "CLIENT_ERROR x", ""),
    ("touch K 9", "touch K 9", "TOUCHED", "TOUCHED\r\n"),
    ("mg K v k", "mg K v k", "VA 1 kK\r\nx", "VA 1 kK\r\nx\r\n"),
    ("mg K v q", "mg K v", "EN", ""),
    ("ms K 1 q\r\nx", "ms K 1 q\r\nx\r\nmn", "MN", ""),
    ("ma K q", "ma K q\r\nmn", "NF\r\nMN", "NF\r\n"),
    ("md K", "md K", "ERROR", "ERROR\r\n"),
    ("md K q", "md K q\r\nmn", "ERROR\r\nERROR", "ERROR\r\n"),
    (
        "get K",
        "get K",
        "SERVER_ERROR busy",
        "SERVER_ERROR busy\r\n",
    ),
];

#[test]
fn any_other_memcached_is_asked_what_the_application_asks() {
    for (command, asked, answer, shown) in AS_CLASSIC {
        let mut world = World::memcached(1);
        let client = world.client();
        world.send(client, command.replace('K', "foo") + "\r\n");
        assert_eq!(
            world.asked(101),
            asked.replace('K', "foo") + "\r\n",
            "{command}"
        );
        world.reply(101, answer.replace('K', "foo") + "\r\n");
        world.send(client, "mn\r\n");
        assert_eq!(
            world.received(client),
            shown.replace('K', "foo") + "MN\r\n",
            "{command}"
        );
    }
}

#[test]
fn what_needs_no_server_is_answered_here() {
    let mut world = World::memcached_with(1, |config| config.version = "9.9".into());
    let client = world.client();
    for (command, answer) in [
        ("version", "VERSION 9.9\r\n"),
        ("verbosity 1", "OK\r\n"),
        ("verbosity 1 noreply", ""),
        ("mn", "MN\r\n"),
        ("flush_all", "CLIENT_ERROR flush_all not allowed\r\n"),
        ("flush_all noreply", ""),
        ("gat 0", "END\r\n"),
        ("nonsense", "ERROR\r\n"),
        ("evenkeel 1 epoch=3", "ERROR\r\n"),
        ("mg foo Y3", "CLIENT_ERROR invalid flag\r\n"),
        ("md foo U3", "CLIENT_ERROR invalid or duplicate flag\r\n"),
        ("shutdown", "ERROR: shutdown not enabled\r\n"),
        ("stats items", "END\r\n"),
        ("stats items 4", "END\r\n"),
        ("stats nothing", "ERROR\r\n"),
        ("stats reset", "RESET\r\n"),
    ] {
        world.send(client, format!("{command}\r\n"));
        assert_eq!(world.received(client), answer, "{command}");
    }
    assert_eq!(world.attempts(101), 0, "no server was needed");
}

#[test]
fn a_debug_request_has_no_room_for_our_flags() {
    let mut world = World::evenkeel(1);
    let client = world.client();
    world.send(client, "me a\r\nme YQ== b\r\n");
    assert_eq!(world.asked(101), "me a\r\nme YQ== b\r\n");
}

#[test]
fn answers_that_need_no_server_wait_for_those_before_them() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.send(
        client,
        "get a\r\nmn\r\nversion\r\nbad\r\nget b\r\nquit\r\nget c\r\n",
    );
    assert_eq!(world.received(client), "");
    world.reply(101, "END\r\n");
    let version = crate::server::VERSION;
    assert_eq!(
        world.received(client),
        format!("END\r\nMN\r\nVERSION {version}\r\nERROR\r\n")
    );
    assert!(!world.is_closed(client));
    world.reply(101, "VALUE b 0 1\r\nx\r\nEND\r\n");
    assert_eq!(world.received(client), "VALUE b 0 1\r\nx\r\nEND\r\n");
    assert!(world.is_closed(client));
    assert_eq!(
        world.asked(101),
        "get a\r\nget b\r\n",
        "what follows quit is not asked"
    );
}

#[test]
fn a_value_that_is_too_large_is_swallowed_and_its_old_value_goes() {
    let mut world = World::evenkeel(1);
    let (key, cachelet) = key_of(1, 1);
    let client = world.client();
    world.send(client, format!("set {key} 0 0 2000000\r\n"));
    world.send(client, vec![b'x'; 1_000_000]);
    world.send(client, vec![b'x'; 1_000_000]);
    world.send(client, "\r\nmn\r\n");
    assert_eq!(world.asked(101), format!("md {key} Y1 U{cachelet}\r\n"));
    world.reply(101, "NF\r\n");
    assert_eq!(
        world.received(client),
        "SERVER_ERROR object too large for cache\r\nMN\r\n"
    );
}

#[test]
fn a_client_that_shuts_its_side_down_gets_its_answers_first() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.send(client, "get a\r\nget b\r\nget incompl");
    world.end(client);
    assert!(!world.is_closed(client));
    world.reply(101, "END\r\nEND\r\n");
    assert_eq!(world.received(client), "END\r\nEND\r\n");
    assert!(world.is_closed(client));
}

#[test]
fn a_base64_key_lives_where_its_plain_form_lives() {
    let mut world = World::evenkeel(3);
    let client = world.client();
    let (key, cachelet) = key_of(2, 3);
    let mut encoded = Vec::new();
    evenkeel_protocol::base64::encode(key.as_bytes(), &mut encoded);
    let encoded = String::from_utf8(encoded).unwrap();
    world.send(client, format!("mg {encoded} b v\r\n"));
    assert_eq!(
        world.asked(102),
        format!("mg {encoded} b v c Y1 U{cachelet}\r\n")
    );
}

#[test]
fn flush_all_goes_to_every_server_when_it_is_allowed() {
    let mut world = World::memcached_with(3, |config| {
        config.pools[0].settings.allow_flush = true;
    });
    let client = world.client();
    world.send(client, "flush_all 10\r\nflush_all noreply\r\nmn\r\n");
    for port in 101..=103 {
        assert_eq!(world.asked(port), "flush_all 10\r\nflush_all\r\n");
    }
    world.reply(101, "OK\r\nOK\r\n");
    world.reply(103, "OK\r\nOK\r\n");
    assert_eq!(world.received(client), "");
    world.reply(102, "OK\r\nSERVER_ERROR x\r\n");
    assert_eq!(world.received(client), "OK\r\nMN\r\n");
    world.send(client, "flush_all\r\n");
    world.reply(101, "OK\r\n");
    world.reply(102, "CLIENT_ERROR flush_all not allowed\r\n");
    world.reply(103, "OK\r\n");
    assert_eq!(
        world.received(client),
        "CLIENT_ERROR flush_all not allowed\r\n"
    );
}

#[test]
fn statistics_are_answered_in_their_turn() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.send(client, "get a\r\nstats\r\nstats servers\r\nmn\r\n");
    world.reply(101, "END\r\n");
    assert_eq!(world.received(client), "END\r\n");
    let asked = std::mem::take(&mut world.stats_asked);
    assert_eq!(asked.len(), 2);
    let process = ProcessStats {
        totals: *world.core.stats(),
        backends: world.core.backends(),
        ..ProcessStats::default()
    };
    for ticket in asked.into_iter().rev() {
        world.core.answer_stats(world.now, ticket, &process);
    }
    world.send(client, "");
    let text = world.received(client);
    assert!(
        text.contains("STAT cmd_get 1\r\n") && text.contains("STAT get_misses 1\r\n"),
        "{text}"
    );
    assert!(
        text.contains("END\r\nSTAT a:101:address a:101\r\nSTAT a:101:state up\r\n"),
        "{text}"
    );
    assert!(text.ends_with("END\r\nMN\r\n"), "{text}");
}
