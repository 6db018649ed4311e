//! The binary protocol at a server: what each opcode does, in which order answers leave, and who may
//! name a cachelet. That the bytes are memcached's is compared in the conformance tests.

use crate::harness::{Client, Cluster, Server, at, config};
use crate::workers::runner;
use evenkeel_protocol::binary::{Command, Opcode, ReplyOutcome, Request, Status, parse_reply};
use evenkeel_protocol::{Direction, Limits, StoreMode};
use evenkeel_server_core::{Peer, Protocols, WorkerConfig};
use evenkeel_types::{Epoch, KeyHash};
use proptest::prelude::*;

/// A reply, with what tests look at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    opcode: Opcode,
    status: Status,
    opaque: u32,
    cas: u64,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// All replies in `bytes`, which must be whole.
fn replies(mut bytes: &[u8]) -> Vec<Said> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let ReplyOutcome::Reply { reply, consumed } = parse_reply(bytes, &Limits::default()) else {
            panic!("no whole reply: {bytes:?}");
        };
        all.push(Said {
            opcode: reply.opcode,
            status: Status::from_code(reply.status).expect("a known status"),
            opaque: reply.opaque,
            cas: reply.cas,
            extras: reply.extras.to_vec(),
            key: reply.key.to_vec(),
            value: reply.value.to_vec(),
        });
        bytes = &bytes[consumed..];
    }
    all
}

fn frame(request: &Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    request.write(&mut out);
    out
}

fn loud(command: Command<'_>) -> Request<'_> {
    Request::new(command)
}

fn quiet(command: Command<'_>) -> Request<'_> {
    Request {
        quiet: true,
        ..Request::new(command)
    }
}

fn set<'a>(key: &'a [u8], value: &'a [u8]) -> Command<'a> {
    store(StoreMode::Set, key, value)
}

fn store<'a>(mode: StoreMode, key: &'a [u8], value: &'a [u8]) -> Command<'a> {
    Command::Store {
        mode,
        key,
        flags: 5,
        exptime: 0,
        value,
    }
}

fn get(key: &[u8]) -> Command<'_> {
    Command::Get {
        key,
        with_key: false,
    }
}

fn ask(client: &mut Client, server: &mut Server, requests: &[Request<'_>]) -> Vec<Said> {
    let input: Vec<u8> = requests.iter().flat_map(frame).collect();
    replies(&client.ask_bytes(server, at(0), &input))
}

/// Asks one thing and gives status and value.
fn one(client: &mut Client, server: &mut Server, request: Request<'_>) -> (Status, Vec<u8>) {
    let said = ask(client, server, &[request]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(
        (said[0].opcode, said[0].opaque),
        (request.echo().opcode, request.opaque)
    );
    (said[0].status, said[0].value.clone())
}

fn stat(client: &mut Client, server: &mut Server, arguments: &[u8]) -> Vec<(String, String)> {
    let mut said = ask(client, server, &[loud(Command::Stat { arguments })]);
    let last = said.pop().expect("a last packet");
    assert_eq!((last.key.len(), last.value.len()), (0, 0));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    said.into_iter()
        .map(|said| (text(said.key), text(said.value)))
        .collect()
}

#[test]
fn commands_about_the_server_answer_for_all_workers() {
    for workers in [1, 3] {
        let mut server = Server::standalone(workers);
        let client = &mut Client::open(&mut server, 0);
        let server = &mut server;
        for key in 0..30u8 {
            let key = [b'k', key];
            ask(client, server, &[quiet(set(&key, b"v"))]);
        }
        let of = |stats: Vec<(String, String)>, name: &str| {
            stats.into_iter().find(|(n, _)| n == name).map(|(_, v)| v)
        };
        let stats = stat(client, server, b"");
        assert_eq!(of(stats, "curr_items").as_deref(), Some("30"));
        assert_eq!(stat(client, server, b"reset"), []);
        assert_eq!(
            one(client, server, loud(Command::Stat { arguments: b"no" })).0,
            Status::NotFound
        );
        let flush = |delay| loud(Command::Flush { delay });
        assert_eq!(one(client, server, flush(Some(60))).0, Status::Success);
        let stats = stat(client, server, b"");
        assert_eq!(of(stats, "curr_items").as_deref(), Some("30"));
        let said = ask(
            client,
            server,
            &[
                quiet(Command::Flush { delay: None }),
                loud(Command::Noop),
                loud(get(&[b'k', 1])),
                loud(Command::Verbosity { level: 1 }),
                loud(Command::Version),
            ],
        );
        let statuses: Vec<Status> = said.iter().map(|said| said.status).collect();
        assert_eq!(
            statuses,
            [
                Status::Success,
                Status::NotFound,
                Status::Success,
                Status::Success
            ]
        );
        assert!(said[3].value.starts_with(b"1.6."));
    }
}

#[test]
fn a_flush_that_is_not_allowed_is_told_so_even_quietly() {
    let mut server = Server::new(WorkerConfig {
        allow_flush: false,
        ..config(1, false)
    });
    let client = &mut Client::open(&mut server, 0);
    for request in [
        loud(Command::Flush { delay: None }),
        quiet(Command::Flush { delay: None }),
    ] {
        assert_eq!(one(client, &mut server, request).0, Status::AuthError);
    }
}

#[test]
fn the_first_byte_decides_for_the_life_of_a_connection() {
    let mut server = Server::standalone(1);
    let mut binary = Client::open(&mut server, 0);
    assert!(binary.ask_bytes(&mut server, at(0), b"").is_empty());
    let noop = frame(&loud(Command::Noop));
    assert_eq!(binary.ask_bytes(&mut server, at(0), &noop[..1]), b"");
    assert_eq!(
        replies(&binary.ask_bytes(&mut server, at(0), &noop[1..])).len(),
        1
    );
    assert_eq!(binary.ask_bytes(&mut server, at(0), b"get a\r\n"), b"");
    assert!(binary.is_closing(&mut server));

    let mut text = Client::open(&mut server, 0);
    assert_eq!(text.ask(&mut server, at(0), "get a\r\n"), "END\r\n");
    // The opcode of a no-op is a line feed.
    assert_eq!(text.ask_bytes(&mut server, at(0), &noop), b"ERROR\r\n");
    assert!(!text.is_closing(&mut server));
}

#[test]
fn a_listener_may_fix_the_protocol() {
    let mut server = Server::standalone(1);
    let noop = frame(&loud(Command::Noop));
    let mut open = |protocols| {
        let peer = Peer {
            protocols,
            ..Peer::default()
        };
        Client::open_as(&mut server, 0, peer)
    };
    let (mut text, mut binary) = (open(Protocols::Text), open(Protocols::Binary));
    // The opcode of a no-op is a line feed.
    assert_eq!(text.ask_bytes(&mut server, at(0), &noop), b"ERROR\r\n");
    assert!(!text.is_closing(&mut server));
    assert_eq!(binary.ask_bytes(&mut server, at(0), b"mn\r\n"), b"");
    assert!(binary.is_closing(&mut server));
}

#[test]
fn large_items_are_refused_before_they_are_there_and_swallowed() {
    let mut server = Server::standalone(3);
    let client = &mut Client::open(&mut server, 0);
    let server = &mut server;
    for key in 0..9u8 {
        let key = &[b' ', key][..];
        let value = vec![b'x'; 1 << 20];
        assert_eq!(
            one(client, server, loud(set(key, b"old"))).0,
            Status::Success
        );
        let large = frame(&quiet(set(key, &value)));
        let answer = client.ask_bytes(server, at(0), &large[..100]);
        assert_eq!(replies(&answer)[0].status, Status::TooLarge);
        assert_eq!(client.ask_bytes(server, at(0), &large[100..]), b"");
        // The old value is gone, at whichever worker it was.
        assert_eq!(one(client, server, loud(get(key))).0, Status::NotFound);
    }
}

#[test]
fn one_binary_connection_gets_its_share_of_a_turn() {
    let mut server = Server::standalone(1);
    let id = server.workers[0].open(Peer::default());
    let noop = frame(&loud(Command::Noop));
    let progress = server.workers[0].handle_input(at(0), id, &noop.repeat(50));
    assert_eq!((progress.consumed, progress.more), (20 * noop.len(), true));
}

#[test]
fn an_agreed_client_names_the_cachelet_and_others_are_not_asked() {
    let mut cluster = Cluster::new(2);
    let key = b"user:42";
    let home = cluster.home(key);
    let cachelet = cluster.map.locate(KeyHash::of(key)).cachelet.0;
    let hello = |epoch| {
        loud(Command::Hello(evenkeel_protocol::Hello {
            version: 1,
            epoch: Epoch(epoch),
            from: None,
            vote: None,
        }))
    };
    let at_cachelet = |vbucket| Request {
        vbucket,
        ..loud(set(key, b"v"))
    };
    for server in 0..2 {
        // Who has not said hello is served at the home, whatever the field says, and refused elsewhere.
        let stranger = &mut Client::open(&mut cluster.servers[server], 0);
        let said = one(
            stranger,
            &mut cluster.servers[server],
            at_cachelet(cachelet + 1),
        );
        let expected = match server == home {
            true => Status::Success,
            false => Status::NotMyVbucket,
        };
        assert_eq!(said.0, expected);
        assert!(
            server == home || said.1.ends_with(b"use a proxy"),
            "{said:?}"
        );

        let client = &mut Client::open(&mut cluster.servers[server], 0);
        let (status, words) = one(client, &mut cluster.servers[server], hello(1));
        assert_eq!(status, Status::Success);
        assert!(words.starts_with(b"EVENKEEL 1 server="), "{words:?}");
        let said = one(client, &mut cluster.servers[server], at_cachelet(cachelet));
        let moved = format!("MOVED 1 {} 0 1", home + 1).into_bytes();
        if server == home {
            assert_eq!(said.0, Status::Success);
            let wrong = one(
                client,
                &mut cluster.servers[server],
                at_cachelet(cachelet + 1),
            );
            assert_eq!(wrong, (Status::NotMyVbucket, moved));
            // A map from before the cachelet came here does not count.
            one(client, &mut cluster.servers[server], hello(0));
            let old = one(client, &mut cluster.servers[server], at_cachelet(cachelet));
            assert_eq!(old.0, Status::NotMyVbucket);
        } else {
            assert_eq!(said, (Status::NotMyVbucket, moved));
        }
    }
}

/// A random command on few keys, loud or quiet.
fn command() -> impl Strategy<Value = Vec<u8>> {
    let parts = (
        0..15u8,
        0..8u8,
        any::<bool>(),
        "[0-9]{0,3}",
        0..4u64,
        any::<u32>(),
    );
    parts.prop_map(|(verb, key, is_quiet, value, cas, opaque)| {
        let key = [b"key ", &[b'a' + key][..]].concat();
        let (key, value) = (&key[..], value.as_bytes());
        let with_key = verb % 2 == 0;
        let command = match verb {
            0..=1 => Command::Get { key, with_key },
            2..=3 => Command::GetAndTouch {
                key,
                with_key,
                exptime: 100,
            },
            4 => Command::Touch { key, exptime: 100 },
            5..=6 => set(key, value),
            7 => store(StoreMode::Add, key, value),
            8 => store(StoreMode::Replace, key, value),
            9..=10 => Command::Join {
                before: with_key,
                key,
                value,
            },
            11 => Command::Delete { key },
            12 => Command::Arithmetic {
                key,
                direction: Direction::Incr,
                delta: 3,
                initial: 7,
                exptime: if cas == 0 { Command::CREATE_NOTHING } else { 0 },
            },
            13 => Command::Noop,
            _ => Command::Flush { delay: None },
        };
        let has_quiet = !matches!(command, Command::Touch { .. } | Command::Noop);
        frame(&Request {
            command,
            quiet: is_quiet && has_quiet,
            vbucket: 0,
            opaque,
            // Mostly none: versions depend on the worker, so that no other one is ever right.
            cas: if cas == 3 { 1 } else { 0 },
        })
    })
}

#[test]
fn four_workers_answer_as_one_does_in_binary_however_the_input_is_split() {
    let cases = (proptest::collection::vec(command(), 1..60), any::<u64>());
    runner(64)
        .run(&cases, |(commands, split)| {
            let mut one = Server::standalone(1);
            let mut four = Server::standalone(4);
            let mut alone = Client::open(&mut one, 0);
            let mut shared = Client::open(&mut four, (split % 4) as usize);
            let input = commands.concat();
            let without_cas = |bytes: Vec<u8>| -> Vec<Said> {
                let said = replies(&bytes).into_iter();
                said.map(|said| Said { cas: 0, ..said }).collect()
            };
            let expected = without_cas(alone.ask_bytes(&mut one, at(0), &input));
            let mut rest = input.as_slice();
            let mut step = split;
            let mut answered = Vec::new();
            while !rest.is_empty() {
                step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (part, next) = rest.split_at(((step >> 33) as usize % 90 + 1).min(rest.len()));
                answered.extend(shared.ask_bytes(&mut four, at(0), part));
                rest = next;
            }
            prop_assert_eq!(without_cas(answered), expected);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}
