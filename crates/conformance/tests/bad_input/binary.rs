//! Binary requests whose header is at odds with itself: every opcode with every kind of length.
//!
//! Each goes to memcached and to us on a connection of its own, with what follows it, so that not
//! only the answer counts but also where the next request is looked for. Where we differ on purpose
//! stands in [`excuse`], with the reason, and is counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use evenkeel_conformance::differential::binary::normalise;
use evenkeel_conformance::exchange::{Split, exchange, next_random, seed};
use evenkeel_conformance::transcript::escape;
use evenkeel_testkit::{Memcached, evenkeel};

use super::assert_serves;

/// The highest opcode that any version of the protocol has.
const OPCODE_MAX: u8 = 0x60;

/// `stat`: a good one tells about the process.
const STAT: u8 = 0x10;

/// Extras that some command has, and others.
const EXTRAS_LENS: [u8; 9] = [0, 1, 4, 7, 8, 9, 20, 21, 255];

/// Keys that are allowed, too long, and as long as can be said.
const KEY_LENS: [u16; 6] = [0, 1, 250, 251, 256, 65_535];

/// A value so long that memcached takes no more.
const VALUE_LEN: u32 = 3;

/// How a body's length is told.
#[derive(Clone, Copy, Debug)]
enum BodyLen {
    /// As it is.
    True,
    /// One less than extras and key need.
    TooShort,
    /// This many bytes.
    Told(u32),
}

const BODY_LENS: [BodyLen; 5] = [
    BodyLen::True,
    BodyLen::TooShort,
    BodyLen::Told(i32::MAX as u32),
    BodyLen::Told(1 << 31),
    BodyLen::Told(u32::MAX),
];

/// Length of a header.
const HEADER_LEN: usize = 24;

/// Status of a request whose lengths are wrong.
const INVALID_ARGUMENTS: u16 = 4;

/// Status of a command that there is not.
const UNKNOWN_COMMAND: u16 = 0x81;

/// Status of an answer about an item that is not there; beyond it, requests are refused.
const NOT_FOUND: u16 = 1;

/// Why answers may differ, or `None` when they may not.
fn excuse(request: &[u8], theirs: &[u16], ours: &[u16]) -> Option<&'static str> {
    let opcode = request[1];
    let [extras_len, key_len] = [
        usize::from(request[4]),
        usize::from(u16::from_be_bytes([request[2], request[3]])),
    ];
    let body_len = u32::from_be_bytes([request[8], request[9], request[10], request[11]]) as usize;
    let came_len = request.len() - HEADER_LEN;
    let one_refusal = matches!(ours, [status] if *status > NOT_FOUND);
    if theirs.is_empty() && one_refusal && came_len < body_len {
        return Some("memcached waits for a body that never comes whole before it refuses it");
    }
    if theirs.is_empty() && one_refusal && key_len == usize::from(u16::MAX) {
        return Some(
            "memcached's answer is lost in the reset of a connection closed with much unread",
        );
    }
    if ours == [UNKNOWN_COMMAND, 0] && matches!(theirs, [] | [UNKNOWN_COMMAND]) && body_len > 0 {
        return Some("memcached drops more than the body of a command that there is not");
    }
    let next = request.get(HEADER_LEN + body_len);
    if theirs.is_empty() && matches!(ours, [_]) && next.is_some_and(|byte| *byte != 0x80) {
        return Some(
            "memcached loses answers when what follows is no request; a pipeline must not",
        );
    }
    if matches!(opcode, 0x1c..=0x1e | 0x23 | 0x24)
        && (extras_len, ours) == (4, &[INVALID_ARGUMENTS])
        && body_len > extras_len + key_len
    {
        return Some(
            "memcached takes a value behind touch and gat for the next request, which lets anyone who \
             chooses the value write requests",
        );
    }
    if matches!(opcode, 0x1b | 0x60) && matches!(ours, [INVALID_ARGUMENTS]) {
        return Some(
            "verbosity and the cluster's configuration are known here, and want arguments",
        );
    }
    None
}

/// The statuses of the answers, in order.
fn statuses(answer: &[u8]) -> Vec<u16> {
    let mut rest = answer;
    let mut statuses = Vec::new();
    while let Some(header) = rest.get(..24) {
        statuses.push(u16::from_be_bytes([header[6], header[7]]));
        let body = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        rest = rest.get(24 + body as usize..).unwrap_or_default();
    }
    statuses
}

/// Differences shown in a report; the rest is only counted.
const SHOWN_MAX: usize = 20;

fn header(magic: u8, opcode: u8, key_len: u16, extras_len: u8, body_len: u32) -> Vec<u8> {
    let mut bytes = vec![magic, opcode];
    bytes.extend(key_len.to_be_bytes());
    bytes.extend([extras_len, 0, 0, 0]);
    bytes.extend(body_len.to_be_bytes());
    bytes.extend(*b"opaq");
    bytes.extend([0; 8]);
    bytes
}

fn request(opcode: u8, key_len: u16, extras_len: u8, body_len: BodyLen) -> Vec<u8> {
    let needed = u32::from(extras_len) + u32::from(key_len);
    let told = match body_len {
        BodyLen::True => needed + VALUE_LEN,
        BodyLen::TooShort => needed.saturating_sub(1),
        BodyLen::Told(len) => len,
    };
    let mut bytes = header(0x80, opcode, key_len, extras_len, told);
    // Extras of nought: no flags, no time, no delta.
    bytes.resize(bytes.len() + usize::from(extras_len), 0);
    bytes.resize(bytes.len() + usize::from(key_len), b'k');
    bytes.resize(bytes.len() + VALUE_LEN as usize, b'v');
    bytes
}

fn noop() -> Vec<u8> {
    header(0x80, 0x0a, 0, 0, 0)
}

/// Compares answers to all `requests`, each followed by a no-op; the pieces that ours come in change.
fn compare(requests: impl Iterator<Item = (String, Vec<u8>)>) {
    let memcached = Memcached::spawn(&["-t", "1"]);
    let server = evenkeel::server(&["-t", "1"]);
    let mut random = seed();
    let (mut report, mut differ, mut count) = (String::new(), 0, 0);
    let mut excused: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, mut bytes) in requests {
        bytes.extend(noop());
        let split = match count % 3 {
            0 => Split::Whole,
            1 => Split::SingleBytes,
            _ => Split::Random(next_random(&mut random)),
        };
        count += 1;
        let theirs = exchange(memcached.address(), &bytes, Split::Whole)
            .unwrap_or_else(|error| panic!("memcached, {name}: {error}"));
        let ours = exchange(server.address(), &bytes, split)
            .unwrap_or_else(|error| panic!("{name}, {split:?}: {error}"));
        let normal = |answer: &[u8]| normalise(answer, &mut Vec::new());
        if normal(&theirs) == normal(&ours) {
            continue;
        }
        if let Some(reason) = excuse(&bytes, &statuses(&theirs), &statuses(&ours)) {
            *excused.entry(reason).or_insert(0) += 1;
        } else {
            differ += 1;
            if differ <= SHOWN_MAX {
                let _ = writeln!(
                    report,
                    "{name}, {split:?}\n  memcached {}\n  ours      {}",
                    escape(&theirs),
                    escape(&ours)
                );
            }
        }
    }
    println!("{count} requests compared; on purpose differ: {excused:?}");
    assert!(differ == 0, "{differ} of {count} differ:\n{report}");
}

#[test]
fn every_opcode_with_every_kind_of_length() {
    let opcodes = (0..=OPCODE_MAX).chain([0x7f, 0x80, 0xfe, 0xff]);
    compare(opcodes.filter(|opcode| *opcode != STAT).flat_map(|opcode| {
        EXTRAS_LENS.into_iter().flat_map(move |extras_len| {
            KEY_LENS.into_iter().flat_map(move |key_len| {
                BODY_LENS.into_iter().map(move |body_len| {
                    let name = format!(
                        "opcode {opcode:#x}, extras {extras_len}, key {key_len}, body {body_len:?}"
                    );
                    (name, request(opcode, key_len, extras_len, body_len))
                })
            })
        })
    }));
}

#[test]
fn a_header_that_is_none() {
    let good = request(0x01, 1, 8, BodyLen::True);
    let mut cases = Vec::new();
    for magic in 0..=255 {
        if magic == 0x80 {
            continue;
        }
        // Behind a good request: what the first byte of a connection says is another matter.
        let bytes = [&good[..], &header(magic, 0, 1, 0, 1), b"k"].concat();
        cases.push((format!("magic {magic:#x}"), bytes));
    }
    for data_type in 1..=255 {
        let mut bytes = good.clone();
        bytes[5] = data_type;
        cases.push((format!("data type {data_type}"), bytes));
    }
    for vbucket in [1, 255, 65_535_u16] {
        let mut bytes = good.clone();
        bytes[6..8].copy_from_slice(&vbucket.to_be_bytes());
        cases.push((format!("vbucket {vbucket}"), bytes));
    }
    for len in 0..good.len() {
        cases.push((format!("{len} bytes of a request"), good[..len].to_vec()));
    }
    compare(cases.into_iter());
}

#[test]
fn quiet_commands_and_the_end() {
    let quiet_set = request(0x11, 1, 8, BodyLen::True);
    let quiet_miss = header(0x80, 0x09, 1, 0, 1);
    let quiet_quit = header(0x80, 0x17, 0, 0, 0);
    let quit = header(0x80, 0x07, 0, 0, 0);
    let many = [&quiet_set.repeat(1000)[..], &quit].concat();
    let misses = [&quiet_miss[..], b"x"].concat().repeat(1000);
    compare(
        [
            ("quiet sets, then quit", many),
            ("quiet misses, then quit", [&misses[..], &quit].concat()),
            (
                "quiet misses, then a quiet quit",
                [&misses[..], &quiet_quit].concat(),
            ),
            (
                "a text command after binary ones",
                [&noop()[..], b"version\r\n"].concat(),
            ),
        ]
        .into_iter()
        .map(|(name, bytes)| (name.to_owned(), bytes)),
    );
}

#[test]
fn sasl_where_nobody_asked_for_it() {
    let mut cases = Vec::new();
    for (name, opcode) in [("mechanisms", 0x20), ("start", 0x21), ("step", 0x22)] {
        for mechanism in ["", "PLAIN", "CRAM-MD5", "NO SUCH MECHANISM"] {
            for secret in [&b""[..], b"\0user\0secret", &[b'x'; 10_000]] {
                let body = [mechanism.as_bytes(), secret].concat();
                let mut bytes = header(0x80, opcode, mechanism.len() as u16, 0, body.len() as u32);
                bytes.extend(body);
                cases.push((
                    format!("{name}, {mechanism}, {} bytes", secret.len()),
                    bytes,
                ));
            }
        }
    }
    compare(cases.into_iter());
}

#[test]
fn a_token_of_a_megabyte_is_refused_and_harms_nobody() {
    let mut server = evenkeel::server(&["-t", "2"]);
    for opcode in [0x21, 0x22] {
        let mut bytes = header(0x80, opcode, 5, 0, 5 + (1 << 20));
        bytes.extend(b"PLAIN");
        bytes.resize(bytes.len() + (1 << 20), b'x');
        let answer = exchange(server.address(), &bytes, Split::Whole).expect("it closes");
        assert!(
            statuses(&answer)
                .first()
                .is_some_and(|status| *status > NOT_FOUND)
        );
        assert_serves(&mut server);
    }
}
