//! Stories of applications that speak the binary protocol.

use super::routing::{route, routes};
use super::world::{Connecting, World, key_of, memcached};
use crate::proxy::{ClientId, ProcessStats, RouteConfig, RouteTarget};
use evenkeel_protocol::binary::{
    Command, Opcode, ReplyOutcome, Request, RequestHeader, Status, parse_reply,
};
use evenkeel_protocol::{Direction, Limits, StoreMode};

/// A request with opaque 7.
fn bytes(command: Command<'_>, quiet: bool, cas: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut request = Request::new(command);
    (request.quiet, request.cas, request.opaque) = (quiet, cas, 7);
    request.write(&mut out);
    out
}

fn loud(command: Command<'_>) -> Vec<u8> {
    bytes(command, false, 0)
}

fn get(key: &str) -> Vec<u8> {
    loud(Command::Get {
        key: key.as_bytes(),
        with_key: false,
    })
}

/// What the application received: `status cas extras key=value` of each packet.
fn told(world: &mut World, client: ClientId) -> Vec<String> {
    let received = world.received_bytes(client);
    let mut rest = &received[..];
    let mut told = Vec::new();
    while let ReplyOutcome::Reply { reply, consumed } = parse_reply(rest, &Limits::default()) {
        assert_eq!(reply.opaque, 7);
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let extras: Vec<String> = reply.extras.iter().map(u8::to_string).collect();
        told.push(format!(
            "{:#x} {} [{}] {}={}",
            reply.status,
            reply.cas,
            extras.join(","),
            text(reply.key),
            text(reply.value)
        ));
        rest = &rest[consumed..];
    }
    assert!(rest.is_empty());
    told
}

const SET: StoreMode = StoreMode::Set;

fn store(mode: StoreMode, key: &str, exptime: u32) -> Command<'_> {
    Command::Store {
        mode,
        key: key.as_bytes(),
        flags: 5,
        exptime,
        value: b"abc",
    }
}

fn add_to(key: &str, exptime: u32) -> Command<'_> {
    Command::Arithmetic {
        key: key.as_bytes(),
        direction: Direction::Incr,
        delta: 2,
        initial: 40,
        exptime,
    }
}

/// Every command with what a server is asked that knows meta commands, one that does not (`-` where it
/// is not asked), and what is answered to each of the server's answers.
#[test]
fn each_command_is_asked_in_words_that_the_server_knows() {
    let key = b"k";
    let join = |before| Command::Join {
        before,
        key,
        value: b"abc",
    };
    let delete = Command::Delete { key };
    let touch = Command::Touch { key, exptime: 9 };
    let nothing = Command::CREATE_NOTHING;
    let unsupported = "0x83 0 [] =the key's server knows no meta commands, which this needs";
    // Request, CAS, asked in meta, answer, told; asked in classic, answer, told.
    type Case<'a> = (Command<'a>, u64, [&'a str; 3], [&'a str; 3]);
    let cases: [Case<'_>; 20] = [
        (
            store(SET, "k", 60),
            0,
            ["ms k 3 c F5 T60\r\nabc", "HD c99", "0x0 99 [] ="],
            ["set k 5 60 3\r\nabc", "STORED", "0x0 0 [] ="],
        ),
        (
            store(SET, "k", u32::MAX),
            0,
            ["ms k 3 c F5 T2147483647\r\nabc", "HD c0", "0x0 0 [] ="],
            ["set k 5 2147483647 3\r\nabc", "STORED", "0x0 0 [] ="],
        ),
        (
            store(StoreMode::Add, "k", 0),
            0,
            [
                "ms k 3 c F5 T0 ME\r\nabc",
                "NS c0",
                "0x2 0 [] =Data exists for key.",
            ],
            [
                "add k 5 0 3\r\nabc",
                "NOT_STORED",
                "0x2 0 [] =Data exists for key.",
            ],
        ),
        (
            store(StoreMode::Replace, "k", 0),
            0,
            ["ms k 3 c F5 T0 MR\r\nabc", "NS c0", "0x1 0 [] =Not found"],
            [
                "replace k 5 0 3\r\nabc",
                "NOT_STORED",
                "0x1 0 [] =Not found",
            ],
        ),
        (
            store(StoreMode::Add, "k", 0),
            8,
            [
                "ms k 3 c F5 T0 C8\r\nabc",
                "EX c0",
                "0x2 0 [] =Data exists for key.",
            ],
            [
                "cas k 5 0 3 8\r\nabc",
                "EXISTS",
                "0x2 0 [] =Data exists for key.",
            ],
        ),
        (
            store(SET, "k", 0),
            8,
            ["ms k 3 c F5 T0 C8\r\nabc", "NF c0", "0x1 0 [] =Not found"],
            ["cas k 5 0 3 8\r\nabc", "NOT_FOUND", "0x1 0 [] =Not found"],
        ),
        (
            store(SET, "k", 0),
            0,
            [
                "ms k 3 c F5 T0\r\nabc",
                "SERVER_ERROR out of memory storing object",
                "0x82 0 [] =Out of memory",
            ],
            [
                "set k 5 0 3\r\nabc",
                "SERVER_ERROR object too large for cache",
                "0x3 0 [] =Too large.",
            ],
        ),
        (
            join(false),
            0,
            ["ms k 3 c MA\r\nabc", "HD c4", "0x0 4 [] ="],
            ["append k 0 0 3\r\nabc", "STORED", "0x0 0 [] ="],
        ),
        (
            join(true),
            0,
            ["ms k 3 c MP\r\nabc", "NS c0", "0x5 0 [] =Not stored."],
            [
                "prepend k 0 0 3\r\nabc",
                "NOT_STORED",
                "0x5 0 [] =Not stored.",
            ],
        ),
        (
            join(false),
            3,
            [
                "ms k 3 c MA C3\r\nabc",
                "EX c0",
                "0x2 0 [] =Data exists for key.",
            ],
            ["-", "", unsupported],
        ),
        (
            delete,
            0,
            ["delete k", "DELETED", "0x0 0 [] ="],
            ["delete k", "NOT_FOUND", "0x1 0 [] =Not found"],
        ),
        (
            delete,
            3,
            ["md k C3", "EX", "0x2 0 [] =Data exists for key."],
            ["-", "", unsupported],
        ),
        (
            touch,
            0,
            ["mg k f c T9", "HD f258 c6", "0x0 6 [0,0,1,2] ="],
            ["touch k 9", "TOUCHED", "0x0 0 [] ="],
        ),
        (
            touch,
            0,
            ["mg k f c T9", "EN", "0x1 0 [] =Not found"],
            ["touch k 9", "NOT_FOUND", "0x1 0 [] =Not found"],
        ),
        (
            add_to("k", nothing),
            0,
            [
                "ma k v c D2 MI",
                "VA 2 c6\r\n42",
                "0x0 6 [] =\0\0\0\0\0\0\0*",
            ],
            ["incr k 2", "42", "0x0 0 [] =\0\0\0\0\0\0\0*"],
        ),
        (
            add_to("k", nothing),
            0,
            ["ma k v c D2 MI", "NF", "0x1 0 [] =Not found"],
            ["incr k 2", "NOT_FOUND", "0x1 0 [] =Not found"],
        ),
        (
            add_to("k", 60),
            0,
            [
                "ma k v c D2 MI N60 J40",
                "VA 2 c6\r\n40",
                "0x0 6 [] =\0\0\0\0\0\0\0(",
            ],
            ["-", "", unsupported],
        ),
        (
            add_to("k", nothing),
            3,
            ["ma k v c D2 MI C3", "EX", "0x2 0 [] =Data exists for key."],
            ["-", "", unsupported],
        ),
        (
            add_to("k", nothing),
            0,
            [
                "ma k v c D2 MI",
                "CLIENT_ERROR cannot increment or decrement non-numeric value",
                "0x6 0 [] =Non-numeric server-side value for incr or decr",
            ],
            ["incr k 2", "SERVER_ERROR no idea", "0x84 0 [] =no idea"],
        ),
        (
            Command::Get {
                key: b"a b",
                with_key: true,
            },
            0,
            [
                "mg YSBi b v f c",
                "VA 1 f7 c9\r\nx",
                "0x0 9 [0,0,0,7] a b=x",
            ],
            ["-", "", unsupported],
        ),
    ];
    for (version, which) in [("1.6.18", 0), ("1.5.22", 1)] {
        let mut world = World::memcached(1);
        world.version(101, version);
        let client = world.client();
        for (command, cas, meta, classic) in cases {
            let [asked, answer, expected] = [meta, classic][which];
            world.send(client, bytes(command, false, cas));
            if asked != "-" {
                assert_eq!(world.asked(101), format!("{asked}\r\n"), "{command:?}");
                world.reply(101, format!("{answer}\r\n"));
            }
            assert_eq!(told(&mut world, client), [expected], "{command:?}");
        }
        let unsupported = cases.iter().filter(|case| case.3[0] == "-").count() as u64;
        let expected = if which == 0 { 0 } else { unsupported };
        assert_eq!(world.core.stats().proxy_requests_unsupported, expected);
        assert_eq!(world.core.stats().proxy_binary_clients, 1);
    }
}

#[test]
fn reads_in_a_row_are_one_line_for_each_server() {
    let mut world = World::memcached(1);
    let client = world.client();
    let quiet = |key: &'static str, with_key| {
        let key = key.as_bytes();
        bytes(Command::Get { key, with_key }, true, 0)
    };
    let requests = [
        quiet("a", true),
        quiet("b", false),
        get("c"),
        loud(Command::Noop),
    ];
    world.send(client, requests.concat());
    assert_eq!(world.asked(101), "gets a b c\r\n");
    world.reply(101, "VALUE b 1 1 5\r\nx\r\nEND\r\n");
    let expected = ["0x0 5 [0,0,0,1] =x", "0x1 0 [] =Not found", "0x0 0 [] ="];
    assert_eq!(told(&mut world, client), expected);
    // A loud miss repeats its key.
    let with_key = true;
    let requests = ["a", "b"].map(|key| {
        let key = key.as_bytes();
        loud(Command::Get { key, with_key })
    });
    world.send(client, requests.concat());
    assert_eq!(world.asked(101), "gets a\r\ngets b\r\n");
    world.reply(101, "END\r\nEND\r\n");
    let expected = ["0x1 0 [] a=", "0x1 0 [] b="];
    assert_eq!(told(&mut world, client), expected);
    assert_eq!(world.core.stats().cmd_get, 5);
    assert_eq!(world.core.stats().get_hits, 1);
    assert_eq!(world.core.stats().get_misses, 4);
}

#[test]
fn an_error_about_several_reads_is_told_to_each() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.send(client, [get("a"), get("b")].concat());
    world.reply(101, "SERVER_ERROR out of memory writing get response\r\n");
    let expected = "0x84 0 [] =out of memory writing get response";
    assert_eq!(told(&mut world, client), [expected, expected]);
}

#[test]
fn servers_of_a_cluster_are_asked_for_leases_in_binary_too() {
    let mut world = World::evenkeel(2);
    let (key, cachelet) = key_of(1, 2);
    let client = world.client();
    world.send(client, get(&key));
    let ours = format!("Y1 U{cachelet}");
    assert_eq!(world.asked(101), format!("mg {key} v f c A {ours}\r\n"));
    world.reply(101, "VA 1 f0 c5 G1\r\nx\r\n");
    assert_eq!(told(&mut world, client), ["0x0 5 [0,0,0,0] =x"]);
    world.send(client, loud(store(SET, &key, 0)));
    let set = format!("ms {key} 3 c F5 T0 {ours}\r\nabc\r\n");
    assert_eq!(world.asked(101), set);
    world.reply(101, "HD c6\r\n");
    assert_eq!(told(&mut world, client), ["0x0 6 [] ="]);
    assert_eq!(world.core.stats().proxy_leases, 1);
    // What was written is known: a copy that does not have it yet may be read.
    for _ in 0..2 {
        world.send(client, get(&key));
        match world.asked(101).is_empty() {
            false => world.reply(101, "VA 3 f5 c6\r\nabc\r\n"),
            true => world.reply(102, "VA 1 f0 c5\r\nx\r\n"),
        }
        assert_eq!(told(&mut world, client), ["0x0 6 [0,0,0,5] =abc"]);
    }
    assert!(world.core.stats().proxy_reads_kept > 0);
}

#[test]
fn the_first_request_waits_until_servers_have_said_who_they_are() {
    let mut world = World::memcached(2);
    world.connecting(101, Connecting::Silent);
    world.version(102, "1.5.22");
    let client = world.client();
    let text = world.client();
    world.send(client, loud(Command::Noop));
    assert!(told(&mut world, client).is_empty());
    assert!(!world.core.client_wants_input(client));
    // Applications that speak text are not concerned.
    world.send(text, "mn\r\n");
    assert_eq!(world.received(text), "MN\r\n");
    world.reply(101, "VERSION 1.6.18\r\n");
    assert_eq!(told(&mut world, client), ["0x0 0 [] ="]);
    assert!(world.core.client_wants_input(client));
    assert!(world.is_connected(102));
}

#[test]
fn a_server_that_says_nothing_is_waited_for_no_longer_than_it_takes_to_connect() {
    for policy in [Connecting::Silent, Connecting::Hangs, Connecting::Refuses] {
        let mut world = World::memcached(2);
        world.connecting(101, policy);
        let client = world.client();
        world.send(client, loud(Command::Noop));
        world.wait_ms(250);
        assert_eq!(told(&mut world, client), ["0x0 0 [] ="]);
    }
}

#[test]
fn servers_that_join_later_are_greeted_when_they_join() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.send(client, loud(Command::Noop));
    world.configure(|config| config.pools[0].kind = memcached([101, 102]));
    assert!(world.is_connected(102));
}

#[test]
fn a_server_that_forgot_meta_commands_is_not_asked_what_was_meant_for_its_predecessor() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.send(client, loud(store(SET, "a", 0)));
    assert_eq!(world.asked(101), "ms a 3 c F5 T0\r\nabc\r\n");
    world.reply(101, "HD c1\r\n");
    world.version(101, "1.5.22");
    world.connecting(101, Connecting::Silent);
    world.drop_connection(101);
    world.send(client, loud(store(SET, "b", 0)));
    world.reply(101, "VERSION 1.5.22\r\n");
    assert_eq!(
        world.asked(101),
        "",
        "the value would be taken for a command"
    );
    let told = told(&mut world, client);
    assert!(told[1].starts_with("0x84 0 [] =backend a:101"), "{told:?}");
}

#[test]
fn failures_are_told_in_binary() {
    let mut world = World::memcached(1);
    world.connecting(101, Connecting::Refuses);
    let client = world.client();
    let key = b"k";
    let requests = [
        get("k"),
        bytes(
            Command::Get {
                key,
                with_key: true,
            },
            true,
            0,
        ),
        loud(Command::Get {
            key,
            with_key: true,
        }),
        bytes(store(SET, "k", 0), true, 0),
        loud(Command::Flush { delay: None }),
    ];
    world.send(client, requests.concat());
    let down = "0x84 0 [] =backend a:101 unavailable";
    let expected = [
        "0x1 0 [] =Not found",
        "0x1 0 [] k=",
        down,
        "0x20 0 [] =Auth failure.",
    ];
    assert_eq!(told(&mut world, client), expected);
    world.configure(|config| config.pools[0].settings.allow_flush = true);
    world.send(client, bytes(Command::Flush { delay: None }, true, 0));
    assert_eq!(told(&mut world, client), [down]);
}

#[test]
fn an_unknown_outcome_is_an_error() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.send(client, bytes(add_to("k", 0), true, 0));
    world.wait_ms(1001);
    let expected = "0x84 0 [] =backend a:101 timed out, outcome unknown";
    assert_eq!(told(&mut world, client), [expected]);
}

#[test]
fn keys_that_are_too_long_in_base64_are_refused() {
    let mut world = World::memcached(1);
    let client = world.client();
    let key = |len| format!("{:>len$}", "x");
    world.send(client, get(&key(187)));
    assert_eq!(told(&mut world, client), ["0x4 0 [] =Invalid arguments"]);
    assert_eq!(world.core.stats().proxy_keys_refused, 1);
    world.send(client, get(&key(186)));
    let asked = world.asked(101);
    assert_eq!(asked.len(), "mg  b v f c\r\n".len() + 248, "{asked}");
}

#[test]
fn what_asks_nobody_is_answered_in_order() {
    let mut world = World::evenkeel(1);
    let (key, _) = key_of(1, 1);
    let client = world.client();
    let requests = [
        get(&key),
        loud(Command::Noop),
        loud(Command::Version),
        loud(Command::Stat { arguments: b"" }),
        loud(Command::Stat {
            arguments: b"nothing",
        }),
        loud(Command::Stat {
            arguments: b"reset",
        }),
        loud(Command::ConfigGet { name: b"other" }),
        loud(Command::SaslMechanisms),
        loud(Command::Quit),
    ];
    world.send(client, requests.concat());
    assert!(told(&mut world, client).is_empty());
    let ticket = world.stats_asked.pop().expect("stats were asked for");
    let now = world.now;
    world
        .core
        .answer_stats(now, ticket, &ProcessStats::default());
    world.reply(101, "EN\r\n");
    let told = told(&mut world, client);
    let version = format!("0x0 0 [] ={}", crate::server::VERSION);
    let first = ["0x1 0 [] =Not found", "0x0 0 [] =", &version];
    assert_eq!(told[..3], first);
    assert!(told.contains(&"0x0 0 [] cmd_get=0".to_owned()), "{told:?}");
    let last = [
        "0x0 0 [] =",
        "0x1 0 [] =Not found",
        "0x0 0 [] =",
        "0x81 0 [] =Unknown command",
        "0x81 0 [] =Unknown command",
        "0x0 0 [] =",
    ];
    assert_eq!(told[told.len() - 6..], last);
    assert!(world.is_closed(client));
}

#[test]
fn elasticaches_clients_are_told_this_proxy_in_binary_too() {
    let mut world = World::memcached(2);
    let client = world.client();
    world.send(client, loud(Command::ConfigGet { name: b"cluster" }));
    let told = told(&mut world, client);
    assert_eq!(told, ["0x0 0 [0,0,0,0] =1\n10.0.0.9|10.0.0.9|11311\n"]);
}

#[test]
fn renamed_keys_have_their_own_names_in_answers() {
    let mut world = World::memcached_with(1, |config| {
        let renamed = RouteConfig {
            strip_prefix: true,
            add_prefix: b"v2:".as_slice().into(),
            ..route("user:", RouteTarget::Pool(0))
        };
        routes(config, vec![renamed, RouteConfig::to_pool(0)]);
    });
    let client = world.client();
    let ask = |key: &'static [u8]| {
        loud(Command::Get {
            key,
            with_key: true,
        })
    };
    let keys: [&[u8]; 3] = [b"user:1", b"user:2", b"user: 3"];
    world.send(client, keys.map(ask).concat());
    assert_eq!(
        world.asked(101),
        "gets v2:1\r\ngets v2:2\r\nmg djI6IDM= b v f c\r\n"
    );
    world.reply(101, "VALUE v2:1 0 1 5\r\nx\r\nEND\r\nEND\r\nEN\r\n");
    let expected = [
        "0x0 5 [0,0,0,0] user:1=x",
        "0x1 0 [] user:2=",
        "0x1 0 [] user: 3=",
    ];
    assert_eq!(told(&mut world, client), expected);
}

#[test]
fn a_connection_speaks_what_it_began_with() {
    let mut world = World::memcached(1);
    let text = world.client();
    world.send(text, "mn\r\n");
    world.send(text, loud(Command::Noop));
    // The opcode of a no-op is a line feed.
    assert_eq!(world.received(text), "MN\r\nERROR\r\n");
    assert!(!world.is_closed(text));
    let binary = world.client();
    world.send(binary, loud(Command::Noop));
    world.send(binary, "mn\r\n");
    assert_eq!(told(&mut world, binary), ["0x0 0 [] ="]);
    assert!(world.is_closed(binary));
}

#[test]
fn a_header_whose_lengths_cannot_be_ends_the_connection() {
    let mut world = World::memcached(1);
    let client = world.client();
    let mut request = Vec::new();
    RequestHeader {
        opcode: Opcode::SET,
        key_len: 300,
        body_len: 300,
        opaque: 7,
        ..RequestHeader::default()
    }
    .write(&mut request);
    world.send(client, request);
    let words = String::from_utf8_lossy(Status::InvalidArguments.message()).into_owned();
    assert_eq!(told(&mut world, client), [format!("0x4 0 [] ={words}")]);
    assert!(world.is_closed(client));
}
