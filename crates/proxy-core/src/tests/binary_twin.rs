//! Random requests in the binary protocol through a proxy and several server cores, which are asked in
//! text, against one server core that is asked the same directly.

use super::recorded::{recorded, recording};
use super::twin::{SERVERS, Server, exchange, flushing, numbers, servers};
use super::world::World;
use crate::ProxyConfig;
use evenkeel_profile::Sampling;
use evenkeel_protocol::binary::{
    Command, Outcome as RequestOutcome, ReplyOutcome, Request, parse_reply, parse_request,
};
use evenkeel_protocol::{Direction, Limits, StoreMode};
use evenkeel_schemes::locality::Outcome as RecordedAs;
use evenkeel_types::KeyHash;

/// A random request. Only CAS uniques that nothing has are compared with, because each server counts
/// its own.
fn request(below: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
    let name = match below(16) {
        0..10 => format!("k{}", below(10)),
        10..13 => format!("n{}", below(4)),
        13 => format!("a key{}", below(2)),
        14 => format!("line\r\n{}", below(2)),
        _ => format!("nul\0{}", below(2)),
    };
    let number = format!("n{}", below(4));
    let value = "v".repeat(below(50));
    let exptime = [0, 0, 100, 3_000_000, u32::MAX][below(5)];
    let (key, number) = (name.as_bytes(), number.as_bytes());
    let cas = [0, 0, 0, 1][below(4)];
    let with_key = below(2) == 0;
    let command = match below(20) {
        0..4 => Command::Get { key, with_key },
        4..6 => Command::GetAndTouch {
            key,
            with_key,
            exptime,
        },
        6 => Command::Touch { key, exptime },
        7..12 => Command::Store {
            mode: [
                StoreMode::Set,
                StoreMode::Set,
                StoreMode::Add,
                StoreMode::Replace,
            ][below(4)],
            key,
            flags: below(1 << 32) as u32,
            exptime,
            value: value.as_bytes(),
        },
        12 => Command::Join {
            before: with_key,
            key,
            value: value.as_bytes(),
        },
        13 => Command::Delete { key },
        14..17 => Command::Arithmetic {
            key: if below(4) == 0 { key } else { number },
            direction: [Direction::Incr, Direction::Decr][below(2)],
            delta: below(1000) as u64,
            initial: below(100) as u64,
            exptime,
        },
        17 => Command::Noop,
        18 if below(4) == 0 => Command::Flush {
            delay: [None, Some(0)][below(2)],
        },
        18 => Command::Verbosity { level: 1 },
        _ => {
            return match below(3) {
                // An opcode that nobody knows, with a body.
                0 => {
                    let mut bytes = vec![0; 24 + 3];
                    (bytes[0], bytes[1], bytes[11]) = (0x80, 0x50, 3);
                    bytes
                }
                // Authentication that nobody asked for.
                1 => written(Command::SaslMechanisms, false, 0),
                // A value that is too large.
                _ => {
                    let mode = [StoreMode::Set, StoreMode::Add][below(2)];
                    let value = vec![b'x'; if below(20) == 0 { 1 << 20 } else { 10 }];
                    let (flags, exptime) = (0, 0);
                    let value = &value[..];
                    written(
                        Command::Store {
                            mode,
                            key,
                            flags,
                            exptime,
                            value,
                        },
                        false,
                        0,
                    )
                }
            };
        }
    };
    let has_quiet = !matches!(
        command,
        Command::Noop | Command::Touch { .. } | Command::Verbosity { .. }
    );
    let has_cas = !matches!(command, Command::Flush { .. });
    let cas = if has_cas { cas } else { 0 };
    written(command, has_quiet && below(2) == 0, cas)
}

fn written(command: Command<'_>, quiet: bool, cas: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut request = Request::new(command);
    (request.quiet, request.cas) = (quiet, cas);
    request.opaque = 0xdead_beef;
    request.write(&mut out);
    out
}

/// The packets of an answer, without the CAS uniques but for whether there are any.
fn packets(mut bytes: &[u8]) -> Vec<String> {
    let mut packets = Vec::new();
    while let ReplyOutcome::Reply { reply, consumed } = parse_reply(bytes, &Limits::default()) {
        let cas = reply.cas.min(1);
        packets.push(format!(
            "{:?}",
            evenkeel_protocol::binary::Reply { cas, ..reply }
        ));
        bytes = &bytes[consumed..];
    }
    assert!(bytes.is_empty(), "whole packets");
    packets
}

/// What is to be recorded of a request, by what the server says that is asked it, loudly: the key, and what came of it.
fn expected(witness: &mut Server, bytes: &[u8]) -> Option<(u64, RecordedAs)> {
    use RecordedAs as As;
    let limits = Limits::default();
    let request = match parse_request(bytes, &limits) {
        RequestOutcome::Request { request, .. } => request,
        // Its value is too large, and what was there is deleted.
        RequestOutcome::Refused { refusal, .. } => {
            witness.ask(bytes);
            witness.output.clear();
            let key = refusal.invalidates?;
            return Some((KeyHash::of(key).0, As::SetMiss));
        }
        _ => return None,
    };
    let cas = request.cas;
    witness.ask(&written(request.command, false, cas));
    let said = std::mem::take(&mut witness.output);
    let ReplyOutcome::Reply { reply, .. } = parse_reply(&said, &limits) else {
        return None;
    };
    let of = |hit, miss| match reply.status {
        0 => hit,
        // Not found, there already, not stored.
        1 | 2 | 5 => miss,
        _ => As::Other,
    };
    let store = |hit, miss| match (cas, reply.status) {
        (0, _) => of(hit, miss),
        (_, 0) => As::CasStored,
        (_, 1) => As::CasNotFound,
        (_, 2) => As::CasExists,
        _ => As::Other,
    };
    let (key, outcome) = match request.command {
        Command::Get { key, .. } | Command::GetAndTouch { key, .. } => {
            (key, of(As::GetHit, As::GetMiss))
        }
        Command::Touch { key, .. } => (key, of(As::GetHit, As::GetMiss)),
        Command::Store { key, mode, .. } => {
            let outcome = match mode {
                StoreMode::Add => store(As::AddHit, As::AddMiss),
                StoreMode::Replace => store(As::ReplaceHit, As::ReplaceMiss),
                _ => store(As::SetHit, As::SetMiss),
            };
            (key, outcome)
        }
        Command::Join { key, .. } => (key, store(As::AppendHit, As::AppendMiss)),
        Command::Delete { key } if reply.status == 2 => (key, As::Other),
        Command::Delete { key } => (key, of(As::DeleteHit, As::DeleteMiss)),
        Command::Arithmetic { key, .. } if reply.status == 2 => (key, As::Other),
        Command::Arithmetic { key, direction, .. } => {
            let outcome = match direction {
                Direction::Incr => of(As::IncrHit, As::IncrMiss),
                Direction::Decr => of(As::DecrHit, As::DecrMiss),
            };
            (key, outcome)
        }
        Command::Flush { .. } => (&b""[..], As::Flush),
        _ => return None,
    };
    Some((KeyHash::of(key).0, outcome))
}

fn run(mut world: World, mut servers: Vec<Server>, seed: u64) {
    let mut below = numbers(seed);
    let (mut twin, mut witness) = (Server::new(1, false), Server::new(1, false));
    let client = world.client();
    for _ in 0..60 {
        let requests: Vec<Vec<u8>> = (0..1 + below(30)).map(|_| request(&mut below)).collect();
        let records = requests.iter().map(|it| expected(&mut witness, it));
        let records: Vec<_> = records.collect();
        let pipeline = requests.concat();
        twin.ask(&pipeline);
        exchange(&mut world, &mut servers, client, &pipeline, &mut below);
        let expected = packets(&std::mem::take(&mut twin.output));
        let received = packets(&world.received_bytes(client));
        assert_eq!(received, expected, "seed {seed}: {requests:?}");
        let found = recorded(&mut world);
        let found: Vec<_> = found.iter().map(|it| (it.key, it.outcome)).collect();
        let records: Vec<_> = records.into_iter().flatten().collect();
        assert_eq!(found, records, "seed {seed}: {requests:?}");
    }
    assert!(!world.is_closed(client));
}

/// All is recorded, too.
fn full(config: &mut ProxyConfig) {
    flushing(config);
    recording(config, Sampling::FULL);
}

#[test]
fn a_proxy_before_evenkeel_servers_is_one_memcached_in_binary() {
    for seed in 0..40 {
        let servers = servers(true);
        run(World::evenkeel_with(SERVERS, full), servers, seed);
    }
}

#[test]
fn a_proxy_before_other_servers_is_one_memcached_in_binary() {
    for seed in 0..40 {
        let servers = servers(false);
        run(World::memcached_with(SERVERS, full), servers, seed);
    }
}

/// Requests that are right, spoiled in a few bytes, and bytes that are none: nothing of it panics, and
/// how it was cut into pieces changes nothing.
#[test]
fn what_is_no_request_is_refused_the_same_way_in_any_pieces() {
    for seed in 0..100 {
        let mut below = numbers(seed);
        let mut bytes: Vec<u8> = (0..1 + below(8))
            .flat_map(|_| request(&mut below))
            .collect();
        for _ in 0..below(6) {
            let at = below(bytes.len());
            match below(3) {
                // The headers are what matters.
                0 => bytes[at] = below(256) as u8,
                1 => {
                    bytes.remove(at);
                }
                _ => bytes.insert(at, [0x80, 0, 0xff][below(3)]),
            }
            if bytes.is_empty() {
                bytes.push(0x80);
            }
        }
        let answers = [true, false].map(|whole| {
            let mut world = World::memcached_with(SERVERS, flushing);
            let mut servers: Vec<Server> = (1..=SERVERS)
                .map(|number| Server::new(number, false))
                .collect();
            let client = world.client();
            if whole {
                world.send(client, &bytes);
            } else {
                for piece in bytes.chunks(1 + below(40)) {
                    world.send(client, piece);
                }
            }
            exchange(&mut world, &mut servers, client, b"", &mut below);
            world.end(client);
            exchange(&mut world, &mut servers, client, b"", &mut below);
            (world.received_bytes(client), world.is_closed(client))
        });
        let [(whole, is_closed), (in_pieces, is_closed_too)] = &answers;
        assert!(
            is_closed & is_closed_too,
            "seed {seed}: its end is answered"
        );
        // Each server counts CAS uniques by itself, but in the same order.
        assert_eq!(whole, in_pieces, "seed {seed}: {bytes:?}");
    }
}
