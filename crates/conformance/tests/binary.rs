//! The binary protocol and both authentications beside a real memcached, byte for byte.
//!
//! Each case is one connection: the same bytes go to memcached, to a server with one worker and to a
//! server with several, whole, byte by byte and in random pieces. CAS uniques are masked; nothing else
//! is. What differs on purpose is not here but in the table at the top of `protocol/src/binary/mod.rs`.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

use evenkeel_conformance::exchange::{Split, exchange, seed};
use evenkeel_testkit::{Client, Memcached, Process, evenkeel};

const HEADER_LEN: usize = 24;

/// Opaque of the request that ends a case, so that answers that are left out are noticed.
const LAST: u32 = 0x6c61_7374;

const SUCCESS: u16 = 0x00;
const NOT_FOUND: u16 = 0x01;
const AUTH_ERROR: u16 = 0x20;

/// A request, written here by hand so that the product's own writer is not what it is tested with.
#[derive(Clone, Debug)]
struct Packet<'a> {
    opcode: u8,
    extras: Vec<u8>,
    key: &'a [u8],
    value: &'a [u8],
    cas: u64,
}

impl Packet<'_> {
    fn write(&self, opaque: u32, out: &mut Vec<u8>) {
        let body_len = (self.extras.len() + self.key.len() + self.value.len()) as u32;
        out.extend_from_slice(&[0x80, self.opcode]);
        out.extend_from_slice(&(self.key.len() as u16).to_be_bytes());
        out.extend_from_slice(&[self.extras.len() as u8, 0, 0, 0]);
        out.extend_from_slice(&body_len.to_be_bytes());
        out.extend_from_slice(&opaque.to_be_bytes());
        out.extend_from_slice(&self.cas.to_be_bytes());
        out.extend_from_slice(&self.extras);
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.value);
    }
}

fn packet<'a>(opcode: u8, extras: &[u8], key: &'a [u8], value: &'a [u8]) -> Packet<'a> {
    Packet {
        opcode,
        extras: extras.to_vec(),
        key,
        value,
        cas: 0,
    }
}

/// The requests, and a noop behind them.
fn write(requests: &[Packet<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        request.write(0x100 + index as u32, &mut out);
    }
    packet(NOOP, b"", b"", b"").write(LAST, &mut out);
    out
}

/// A packet of any lengths, followed by a noop.
fn raw(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    write(&[packet(opcode, extras, key, value)])
}

const SET: u8 = 0x01;
const ADD: u8 = 0x02;
const REPLACE: u8 = 0x03;
const INCREMENT: u8 = 0x05;
const DECREMENT: u8 = 0x06;
const QUIT: u8 = 0x07;
const FLUSH: u8 = 0x08;
const NOOP: u8 = 0x0a;
const STAT: u8 = 0x10;
const TOUCH: u8 = 0x1c;
const SASL_LIST_MECHS: u8 = 0x20;
const SASL_AUTH: u8 = 0x21;
const SASL_STEP: u8 = 0x22;

/// Each command beside its quiet form.
const QUIET: [(u8, u8); 13] = [
    (0x00, 0x09),
    (0x0c, 0x0d),
    (SET, 0x11),
    (ADD, 0x12),
    (REPLACE, 0x13),
    (0x04, 0x14),
    (INCREMENT, 0x15),
    (DECREMENT, 0x16),
    (QUIT, 0x17),
    (0x0e, 0x19),
    (0x0f, 0x1a),
    (0x1d, 0x1e),
    (0x23, 0x24),
];

fn quiet(request: Packet<'_>) -> Packet<'_> {
    let quiet = QUIET.iter().find(|(loud, _)| *loud == request.opcode);
    Packet {
        opcode: quiet.expect("a command with a quiet form").1,
        ..request
    }
}

fn cas(request: Packet<'_>, cas: u64) -> Packet<'_> {
    Packet { cas, ..request }
}

fn store<'a>(opcode: u8, key: &'a [u8], value: &'a [u8]) -> Packet<'a> {
    // Client flags 5, no exptime.
    packet(opcode, &[0, 0, 0, 5, 0, 0, 0, 0], key, value)
}

fn set<'a>(key: &'a [u8], value: &'a [u8]) -> Packet<'a> {
    store(SET, key, value)
}

fn join<'a>(before: bool, key: &'a [u8], value: &'a [u8]) -> Packet<'a> {
    packet(if before { 0x0f } else { 0x0e }, b"", key, value)
}

fn get(key: &[u8], with_key: bool) -> Packet<'_> {
    packet(if with_key { 0x0c } else { 0x00 }, b"", key, b"")
}

fn gat(key: &[u8], with_key: bool, exptime: u32) -> Packet<'_> {
    let opcode = if with_key { 0x23 } else { 0x1d };
    packet(opcode, &exptime.to_be_bytes(), key, b"")
}

fn touch(key: &[u8], exptime: u32) -> Packet<'_> {
    packet(TOUCH, &exptime.to_be_bytes(), key, b"")
}

fn delete(key: &[u8]) -> Packet<'_> {
    packet(0x04, b"", key, b"")
}

fn stat(arguments: &[u8]) -> Packet<'_> {
    packet(STAT, b"", arguments, b"")
}

/// Arithmetic that begins with 10 where it may create.
fn number(key: &[u8], opcode: u8, delta: u64, exptime: u32) -> Packet<'_> {
    let mut extras = delta.to_be_bytes().to_vec();
    extras.extend_from_slice(&10_u64.to_be_bytes());
    extras.extend_from_slice(&exptime.to_be_bytes());
    packet(opcode, &extras, key, b"")
}

/// Exptime by which arithmetic creates nothing.
const NONE: u32 = u32::MAX;

/// A CAS unique that no item has.
const NOBODYS: u64 = 1 << 60;

/// Every case with its name. Cases share no keys, and each leaves nothing that another sees.
fn cases() -> Vec<(&'static str, Vec<u8>)> {
    let large = vec![b'x'; 1 << 20];
    let half = vec![b'x'; 600 << 10];
    let requests: Vec<(&str, Vec<Packet<'_>>)> = vec![
        (
            "reads of what is there",
            vec![
                set(b"r1", b"value"),
                get(b"r1", false),
                get(b"r1", true),
                quiet(get(b"r1", false)),
                quiet(get(b"r1", true)),
                gat(b"r1", false, 100),
                gat(b"r1", true, 100),
                quiet(gat(b"r1", false, 100)),
                quiet(gat(b"r1", true, 100)),
                touch(b"r1", 100),
            ],
        ),
        (
            "reads of what is not",
            vec![
                get(b"r2", false),
                get(b"r2", true),
                quiet(get(b"r2", false)),
                quiet(get(b"r2", true)),
                gat(b"r2", false, 0),
                gat(b"r2", true, 0),
                quiet(gat(b"r2", false, 0)),
                quiet(gat(b"r2", true, 0)),
                touch(b"r2", 0),
            ],
        ),
        (
            "keys and values of any bytes",
            vec![
                set(b"a b\r\n\0\xff", b"\r\n\0\xff"),
                get(b"a b\r\n\0\xff", true),
                set(b"empty value", b""),
                get(b"empty value", true),
                set(&[b'k'; 250], b"longest key"),
                get(&[b'k'; 250], true),
            ],
        ),
        (
            "conditions of the storage commands",
            vec![
                store(REPLACE, b"s1", b"v"),
                quiet(store(REPLACE, b"s1", b"v")),
                store(ADD, b"s1", b"v"),
                store(ADD, b"s1", b"v"),
                quiet(store(ADD, b"s1", b"v")),
                quiet(store(ADD, b"s2", b"v")),
                store(REPLACE, b"s1", b"w"),
                quiet(set(b"s1", b"x")),
                get(b"s1", false),
            ],
        ),
        (
            "wrong CAS uniques",
            vec![
                cas(set(b"c1", b"v"), NOBODYS),
                cas(store(ADD, b"c1", b"v"), NOBODYS),
                cas(store(REPLACE, b"c1", b"v"), NOBODYS),
                cas(join(false, b"c1", b"v"), NOBODYS),
                cas(delete(b"c1"), NOBODYS),
                cas(number(b"c1", INCREMENT, 1, NONE), NOBODYS),
                set(b"c1", b"7"),
                cas(set(b"c1", b"v"), NOBODYS),
                cas(store(ADD, b"c1", b"v"), NOBODYS),
                cas(store(REPLACE, b"c1", b"v"), NOBODYS),
                cas(join(true, b"c1", b"v"), NOBODYS),
                cas(delete(b"c1"), NOBODYS),
                cas(number(b"c1", DECREMENT, 1, 0), NOBODYS),
                cas(number(b"c2", INCREMENT, 1, 0), NOBODYS),
                get(b"c1", false),
            ],
        ),
        (
            "append and prepend",
            vec![
                join(false, b"j1", b"v"),
                join(true, b"j1", b"v"),
                quiet(join(false, b"j1", b"v")),
                set(b"j1", b"m"),
                join(false, b"j1", b">"),
                quiet(join(true, b"j1", b"<")),
                join(true, b"j1", b""),
                get(b"j1", false),
            ],
        ),
        (
            "delete",
            vec![
                delete(b"d1"),
                quiet(delete(b"d1")),
                set(b"d1", b"v"),
                delete(b"d1"),
                set(b"d1", b"v"),
                quiet(delete(b"d1")),
                get(b"d1", false),
            ],
        ),
        (
            "arithmetic",
            vec![
                number(b"n1", INCREMENT, 1, NONE),
                quiet(number(b"n1", DECREMENT, 1, NONE)),
                number(b"n1", INCREMENT, 1, 0),
                number(b"n1", INCREMENT, u64::MAX, 0),
                number(b"n1", DECREMENT, 100, 0),
                get(b"n1", false),
                quiet(number(b"n2", INCREMENT, 1, 0)),
                quiet(number(b"n2", DECREMENT, 1, NONE)),
                get(b"n2", false),
                set(b"n3", b"abc"),
                number(b"n3", INCREMENT, 1, 0),
                quiet(number(b"n3", INCREMENT, 1, 0)),
                set(b"n3", b"111111111111111111111"),
                number(b"n3", INCREMENT, 1, 0),
                set(b"n3", b"18446744073709551615"),
                number(b"n3", INCREMENT, 1, 0),
                get(b"n3", false),
                set(b"n3", b""),
                number(b"n3", INCREMENT, 1, 0),
            ],
        ),
        (
            "items that are too large",
            vec![
                set(b"l1", b"old"),
                store(ADD, b"l1", &large),
                join(false, b"l1", &large),
                get(b"l1", false),
                quiet(set(b"l1", &large)),
                get(b"l1", false),
                set(b"l2", &half),
                join(false, b"l2", &half),
            ],
        ),
        (
            "statistics that are no numbers, and unknown ones",
            vec![stat(b"nope"), stat(b"reset"), stat(b"sizes")],
        ),
        (
            "commands of features that are off",
            vec![
                packet(SASL_LIST_MECHS, b"", b"", b""),
                packet(SASL_AUTH, b"", b"PLAIN", b"\0me\0secret"),
                packet(SASL_STEP, b"", b"PLAIN", b""),
            ],
        ),
        ("quit", vec![packet(QUIT, b"", b"", b"")]),
        ("quiet quit", vec![quiet(packet(QUIT, b"", b"", b""))]),
    ];
    let mut cases: Vec<(&str, Vec<u8>)> = requests
        .into_iter()
        .map(|(name, requests)| (name, write(&requests)))
        .collect();
    let eight = &[0; 8][..];
    cases.extend([
        (
            "an unknown opcode without key",
            raw(0x55, b"", b"", b"body"),
        ),
        ("noop with a body", raw(0x0a, b"", b"", b"v")),
        ("noop with a key", raw(0x0a, b"", b"k", b"")),
        ("noop with extras", raw(0x0a, b"abcd", b"", b"")),
        ("version with a body", raw(0x0b, b"", b"", b"v")),
        ("quit with a body", raw(0x07, b"", b"", b"v")),
        ("get without a key", raw(0x00, b"", b"", b"")),
        ("get with extras", raw(0x00, b"abcd", b"k", b"")),
        ("get with a value", raw(0x00, b"", b"k", b"v")),
        (
            "get with 255 bytes of extras",
            raw(0x00, &[1; 255], b"k", b""),
        ),
        ("a key of 251 bytes", raw(0x00, b"", &[b'k'; 251], b"")),
        ("set without extras", raw(0x01, b"", b"k", b"v")),
        ("set without a key", raw(0x01, eight, b"", b"v")),
        ("append with extras", raw(0x0e, eight, b"k", b"v")),
        ("append without a key", raw(0x0e, b"", b"", b"v")),
        ("delete with a value", raw(0x04, b"", b"k", b"v")),
        ("increment with a value", raw(0x05, &[0; 20], b"k", b"v")),
        (
            "increment with short extras",
            raw(0x05, &[0; 19], b"k", b""),
        ),
        ("touch without extras", raw(0x1c, b"", b"k", b"")),
        ("gat without a key", raw(0x1d, b"abcd", b"", b"")),
        (
            "flush with five bytes of extras",
            raw(0x08, b"abcde", b"", b""),
        ),
        ("flush with a key", raw(0x08, b"", b"k", b"")),
        ("stat with extras", raw(0x10, b"abcd", b"", b"")),
        ("text in the midst of binary", {
            let mut input = write(&[]);
            input.extend_from_slice(b"version\r\nversion\r\nversion\r\n");
            input
        }),
        ("half a header", write(&[])[..10].to_vec()),
    ]);
    let mut short = raw(0x00, b"", b"abc", b"");
    short[11] = 1;
    cases.push(("a body shorter than its key", short));
    cases
}

/// The lengths of the replies in `bytes`, headers included, as far as they are whole.
fn replies(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some([0x81, _, _, _, _, _, _, _, a, b, c, d]) = bytes.get(at..at + 12) {
        let end = at + HEADER_LEN + u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        if end > bytes.len() {
            break;
        }
        found.push(at..end);
        at = end;
    }
    found
}

/// The bytes with every CAS unique but 0 made the same.
fn masked(mut bytes: Vec<u8>) -> Vec<u8> {
    for reply in replies(&bytes) {
        let cas = &mut bytes[reply.start + 16..reply.start + HEADER_LEN];
        if cas != [0; 8] {
            cas.fill(0xff);
        }
    }
    bytes
}

fn ask(address: SocketAddr, name: &str, input: &[u8], split: Split) -> Vec<u8> {
    // Whatever an earlier case left is gone.
    let flush = write(&[packet(FLUSH, b"", b"", b"")]);
    let flushed = exchange(address, &flush, Split::Whole).expect("flushed");
    assert_eq!(flushed.len(), 2 * HEADER_LEN);
    let answer = exchange(address, input, split);
    masked(answer.unwrap_or_else(|error| panic!("{name}: {error}")))
}

#[test]
fn binary_answers_are_memcacheds_byte_for_byte() {
    let memcached = Memcached::spawn(&["-t", "1"]);
    let servers = [
        evenkeel::server(&["-t", "1"]),
        evenkeel::server(&["-t", "3"]),
    ];
    let random = Split::Random(seed());
    let mut failed = Vec::new();
    for (name, input) in cases() {
        let expected = ask(memcached.address(), name, &input, Split::Whole);
        assert!(
            name.starts_with("half") || !expected.is_empty() || name == "quiet quit",
            "{name}: memcached says nothing"
        );
        for server in &servers {
            for split in [Split::Whole, Split::SingleBytes, random] {
                let answer = ask(server.address(), name, &input, split);
                if answer != expected {
                    failed.push(format!(
                        "{name}, {split:?}:\n  memcached {}\n  evenkeel  {}",
                        expected.escape_ascii(),
                        answer.escape_ascii()
                    ));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Starts a server that lets in whom a file names.
fn with_users(arguments: &[&str]) -> (tempfile::TempDir, Process) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = users(&folder);
    let arguments: Vec<&str> = arguments.iter().copied().chain([file.as_str()]).collect();
    let server = evenkeel::server(&arguments);
    (folder, server)
}

fn users(folder: &tempfile::TempDir) -> String {
    let path = folder.path().join("users");
    std::fs::write(&path, "me:secret\nyou:other\n").expect("written");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&path, private).expect("set");
    path.to_str().expect("a plain path").to_owned()
}

#[test]
fn text_authentication_answers_as_memcached_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let memcached = Memcached::spawn(&["-Y", &users(&folder)]);
    let (_folder, server) = with_users(&["-Y"]);
    // What is sent, in steps that are each answered by this many lines.
    let sessions: &[&[(&[u8], usize)]] = &[
        &[
            (b"get a\r\n", 1),
            (b"version\r\n", 1),
            (b"mn\r\n", 1),
            (b"quit\r\n", 1),
            (b"stats\r\n", 1),
        ],
        &[
            (b"set a 0 0 9\r\nme secret\r\n", 1),
            (b"set a 0 0 1\r\nx\r\n", 1),
            (b"get a\r\n", 3),
            (b"quit\r\n", 0),
        ],
        &[(b"set a 0 0 9\r\nyou other\r\n", 1), (b"get b\r\n", 1)],
        &[
            (b"set a 0 0 8\r\nme wrong\r\n", 1),
            (b"set a 0 0 9\r\nme secret\r\n", 1),
            (b"get b\r\n", 1),
        ],
        &[(b"set a 0 0 6\r\nsecret\r\n", 1), (b"get a\r\n", 1)],
        &[(b"set a 0 0 9\r\nme secretxx", 1), (b"get a\r\n", 1)],
        &[
            (b"set a 0 0\r\n", 1),
            (b"set a 0 0 x\r\n", 1),
            (b"add a 0 0 9\r\n", 1),
            (b"me secret\r\n", 1),
        ],
        &[
            (b"set a 0 0 9 noreply\r\nme secret\r\n", 1),
            (b"get b\r\n", 1),
        ],
        &[(b"set a 0 0 9\nme secret\r\n", 1), (b"get b\r\n", 1)],
        &[
            (b"  set   a  0 0   12  \r\n me  secret \r\n", 1),
            (b"get b\r\n", 1),
        ],
        // The header of a binary noop, whose opcode is a line feed.
        &[(b"\x80\n", 1), (b"\0\0\0\0\0\0\r\n", 1), (b"get a\r\n", 1)],
    ];
    for steps in sessions {
        // Of several refusals in one read memcached sends the last one alone, and a success in the same
        // read takes their place. We answer each, as it does when it is asked one by one.
        let mut asked = Client::connect(memcached.address());
        let mut expected = String::new();
        for (bytes, lines) in *steps {
            asked.send(bytes);
            for _ in 0..*lines {
                expected += &asked.line();
                expected += "\r\n";
            }
        }
        let input: Vec<u8> = steps
            .iter()
            .flat_map(|(bytes, _)| *bytes)
            .copied()
            .collect();
        for split in [Split::Whole, Split::SingleBytes] {
            let answer = exchange(server.address(), &input, split).expect("answered");
            assert_eq!(
                String::from_utf8_lossy(&answer),
                expected,
                "{}",
                input.escape_ascii()
            );
        }
    }
}

#[test]
fn sasl_lets_in_whom_the_file_names_and_nobody_speaks_text() {
    let (_folder, server) = with_users(&["-S", "--sasl-pwdb"]);
    let sasl = |token| packet(SASL_AUTH, b"", b"PLAIN", token);
    let statuses = |requests: &[Packet<'_>]| -> Vec<u16> {
        let answer = exchange(server.address(), &write(requests), Split::Whole).expect("one");
        let status = |at: usize| u16::from_be_bytes([answer[at + 6], answer[at + 7]]);
        replies(&answer)
            .iter()
            .map(|reply| status(reply.start))
            .collect()
    };
    let get = get(b"k", false);
    assert_eq!(statuses(std::slice::from_ref(&get)), [AUTH_ERROR]);
    assert_eq!(
        statuses(&[sasl(b"\0me\0wrong"), get.clone()]),
        [AUTH_ERROR, AUTH_ERROR]
    );
    let mechanisms = packet(SASL_LIST_MECHS, b"", b"", b"");
    assert_eq!(
        statuses(&[mechanisms, sasl(b"\0me\0secret"), get]),
        [SUCCESS, SUCCESS, NOT_FOUND, SUCCESS]
    );
    let text = exchange(server.address(), b"get a\r\nversion\r\n", Split::Whole);
    assert_eq!(text.expect("closed"), b"");
}
