//! Sessions in the classic and meta text protocols: true commands, commands with one thing wrong,
//! and bytes that were commands once.

use super::random::{Choices, OWN_LEN};

/// Keys that nearly all commands use, made the session's own: few, so that commands meet each other's
/// items.
const COMMON_KEYS: [&str; 4] = ["a", "b", "c", "k1"];

/// Numbers at the edges of what something somewhere can hold, and things that only look like numbers.
const EDGES: [&str; 36] = [
    "0",
    "1",
    "-1",
    "2",
    "9",
    "10",
    "99",
    "00",
    "007",
    "+5",
    "5x",
    "0x5",
    "1.5",
    "-",
    "",
    "x",
    "255",
    "256",
    "65535",
    "65536",
    "1048576",
    "2592000",
    "2147483645",
    "2147483646",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "1e3",
];

/// Lifetimes. Short positive ones are left out: they would end in the middle of a session, earlier on
/// one side than on the other.
const EXPTIMES: [&str; 9] = [
    "0",
    "0",
    "0",
    "0",
    "1000",
    "100",
    "-1",
    "2592000",
    "2147483647",
];

/// CAS uniques that a session gives itself begin here: above all that servers count themselves, since
/// memcached takes an item with a lower one than at the last flush for flushed.
const EXPLICIT_UNIQUE_MIN: u64 = 1 << 50;

/// Values that commands make something of.
const VALUES: [&str; 14] = [
    "x",
    "hello",
    "",
    "0",
    "1",
    "5",
    "99",
    "100",
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "12 ",
    "12abc",
    "\r\nEND\r\nget a\r\n",
];

/// Words of the protocol, to be put where they do not belong.
const WORDS: [&str; 26] = [
    "get", "set", "noreply", "mn", "ms", "mg", "a", "b", "0", "1", "-1", "v", "q", "k", "O1", "T0",
    "N0", "M", "\r\n", "\n", " ", "  ", "\0", "\r", "HTTP/1.1", "\t",
];

/// A connection's worth of text.
pub fn connection(choices: &mut Choices) -> Vec<u8> {
    let commands = 1 + choices.below_one_of(&[(6, 4), (3, 12), (1, 40)]);
    let mut bytes = Vec::new();
    // Half of the sessions have nothing wrong, or few would get far.
    let spoil_percent = choices.weighted(&[(5, 0), (3, 10), (2, 40)]);
    for _ in 0..commands {
        let start = bytes.len();
        command(choices, &mut bytes);
        if choices.chance(spoil_percent) {
            let spoilt = spoil(choices, bytes.split_off(start));
            bytes.extend(spoilt);
        }
    }
    if choices.chance(3) {
        bytes.truncate(choices.below(bytes.len() + 1));
    }
    bytes
}

fn command(choices: &mut Choices, out: &mut Vec<u8>) {
    type Make = fn(&mut Choices, &mut Vec<u8>);
    let make = choices.weighted::<Make>(&[
        (14, reads),
        (5, reads_and_touches),
        (22, stores),
        (6, compares),
        (9, counts),
        (5, deletes),
        (4, touches),
        (15, meta_gets),
        (13, meta_sets),
        (7, meta_deletes),
        (9, meta_counts),
        (3, meta_debugs),
        (2, |_, out| out.extend(b"mn\r\n")),
        (1, flushes),
        (2, others),
    ]);
    make(choices, out);
}

fn key(choices: &mut Choices) -> Vec<u8> {
    match choices.weighted(&[(90, 0), (3, 1), (2, 2), (2, 3), (2, 4), (1, 5)]) {
        0 => {
            let key = choices.pick(&COMMON_KEYS);
            choices.own(key)
        }
        1 => {
            let len = choices.weighted(&[(2, 250), (1, 249), (1, 251), (1, 300)]);
            choices.own(b"k".repeat(len - OWN_LEN))
        }
        2 => {
            let key = choices.pick::<[u8]>(&[b"\xc3\xa9", b"\xff\x80", b"a\tb", b"\x01", b"a\0b"]);
            choices.own(key)
        }
        3 => choices
            .pick(&["noreply", "0", "get", "VALUE", "-1", "c0", "b"])
            .into(),
        4 => choices
            .pick(&["Zm9v", "YQ==", "Yg==", "Zg", "!!!!", "AAEC"])
            .into(),
        _ => {
            let key = format!("k{}", choices.below(1000));
            choices.own(key)
        }
    }
}

fn number(choices: &mut Choices) -> String {
    match choices.chance(15) {
        true => choices.pick(&EDGES).to_owned(),
        false => choices.below(20).to_string(),
    }
}

fn exptime(choices: &mut Choices) -> &'static str {
    match choices.chance(4) {
        true => choices.pick(&EDGES),
        false => choices.pick(&EXPTIMES),
    }
}

fn client_flags(choices: &mut Choices) -> String {
    match choices.chance(70) {
        true => "0".to_owned(),
        false => number(choices),
    }
}

fn value(choices: &mut Choices) -> Vec<u8> {
    match choices.weighted(&[(80, 0), (12, 1), (6, 2), (2, 3)]) {
        0 => choices.pick(&VALUES).into(),
        1 => choices.below(1000).to_string().into_bytes(),
        2 => (0..choices.below(100))
            .map(|_| choices.number() as u8)
            .collect(),
        _ => b"v".repeat(choices.below(9000)),
    }
}

/// Appends a length and, after `rest` of the line, a data block that mostly has that length.
fn block(choices: &mut Choices, out: &mut Vec<u8>, rest: &str) {
    let value = value(choices);
    let len = match choices.weighted(&[(94, 0), (2, 1), (2, 2), (2, 3)]) {
        0 => value.len().to_string(),
        1 => (value.len() + 1).to_string(),
        2 => value.len().saturating_sub(1).to_string(),
        _ => number(choices),
    };
    out.extend(len.bytes());
    out.extend(rest.bytes());
    out.extend(b"\r\n");
    out.extend(value);
    out.extend(b"\r\n");
}

fn line(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend(words.join(&b' '));
    out.extend(b"\r\n");
}

/// ` noreply`, or mostly nothing.
fn noreply(choices: &mut Choices) -> &'static str {
    if choices.chance(12) { " noreply" } else { "" }
}

fn reads(choices: &mut Choices, out: &mut Vec<u8>) {
    let verb = choices.pick(&["get", "gets"]);
    let mut words = vec![verb.as_bytes().to_vec()];
    for _ in 0..=choices.below_one_of(&[(6, 1), (3, 4), (1, 40)]) {
        words.push(key(choices));
    }
    line(out, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

fn reads_and_touches(choices: &mut Choices, out: &mut Vec<u8>) {
    let (verb, exptime) = (choices.pick(&["gat", "gats"]), exptime(choices));
    let (one, other) = (key(choices), key(choices));
    match choices.chance(70) {
        true => line(out, &[verb.as_bytes(), exptime.as_bytes(), &one]),
        false => line(out, &[verb.as_bytes(), exptime.as_bytes(), &one, &other]),
    }
}

fn stores(choices: &mut Choices, out: &mut Vec<u8>) {
    let verb = choices.weighted(&[
        (10, "set"),
        (2, "add"),
        (2, "replace"),
        (2, "append"),
        (2, "prepend"),
    ]);
    out.extend(verb.bytes());
    out.push(b' ');
    out.extend(key(choices));
    let (flags, exptime) = (client_flags(choices), exptime(choices));
    out.extend(format!(" {flags} {exptime} ").bytes());
    let noreply = noreply(choices);
    block(choices, out, noreply);
}

/// A CAS unique: one that was answered on an earlier connection, or a number.
fn unique(choices: &mut Choices) -> String {
    match choices.chance(60) {
        true => format!("{{c{}}}", choices.below(super::CONNECTIONS_MAX - 1)),
        false => number(choices),
    }
}

fn compares(choices: &mut Choices, out: &mut Vec<u8>) {
    out.extend(b"cas ");
    out.extend(key(choices));
    let (flags, exptime) = (client_flags(choices), exptime(choices));
    out.extend(format!(" {flags} {exptime} ").bytes());
    let rest = format!(" {}{}", unique(choices), noreply(choices));
    block(choices, out, &rest);
}

fn counts(choices: &mut Choices, out: &mut Vec<u8>) {
    let (verb, key) = (choices.pick(&["incr", "decr"]), key(choices));
    let rest = format!("{}{}", number(choices), noreply(choices));
    line(out, &[verb.as_bytes(), &key, rest.as_bytes()]);
}

fn deletes(choices: &mut Choices, out: &mut Vec<u8>) {
    let key = key(choices);
    let rest = choices.weighted(&[(8, ""), (1, " 0"), (1, " 0 noreply"), (1, " 1")]);
    let rest = format!("{rest}{}", noreply(choices));
    out.extend(b"delete ");
    out.extend(key);
    out.extend(rest.bytes());
    out.extend(b"\r\n");
}

fn touches(choices: &mut Choices, out: &mut Vec<u8>) {
    let key = key(choices);
    let rest = format!("{}{}", exptime(choices), noreply(choices));
    line(out, &[b"touch", &key, rest.as_bytes()]);
}

fn flushes(choices: &mut Choices, out: &mut Vec<u8>) {
    let delay = choices.weighted(&[(6, ""), (1, " 0"), (1, " x"), (1, " 0 0"), (1, " noreply")]);
    let rest = format!("flush_all{delay}{}", noreply(choices));
    line(out, &[rest.as_bytes()]);
}

fn others(choices: &mut Choices, out: &mut Vec<u8>) {
    let text = choices.pick(&[
        "version",
        "verbosity 0",
        "verbosity",
        "verbosity 0 noreply",
        "nonsense",
        "",
        " ",
        "quit",
        "me",
        "mg",
        "GET a",
        "get",
        "gat",
        "set",
        "incr a",
        "touch a",
        "delete",
        "stats noreply x y",
        "shutdown",
    ]);
    line(out, &[text.as_bytes()]);
}

/// Appends up to six flags out of `letters`, each mostly with the token it wants.
fn meta_flags(choices: &mut Choices, letters: &str, out: &mut Vec<u8>) {
    let letters: Vec<char> = letters.chars().collect();
    for _ in 0..choices.below(7) {
        let letter = match choices.chance(3) {
            true => char::from(b'!' + choices.below(90) as u8),
            false => letters[choices.below(letters.len())],
        };
        // Older versions do not know these: few sessions should be about nothing else.
        if matches!(letter, 'E' | 'x') && !choices.chance(10) {
            continue;
        }
        let token = match letter {
            'T' | 'N' | 'R' => exptime(choices).to_owned(),
            'D' | 'J' | 'F' => number(choices),
            'C' => unique(choices),
            'E' => format!("{}", EXPLICIT_UNIQUE_MIN + choices.below(1000) as u64),
            'O' => "o".repeat(choices.weighted(&[(9, 3), (1, 30), (1, 31), (1, 32), (1, 33)])),
            'M' => choices
                .pick(&[
                    "S", "E", "A", "P", "R", "I", "D", "+", "-", "s", "", "X", "SET",
                ])
                .to_owned(),
            _ => String::new(),
        };
        let token = match choices.chance(2) {
            true => choices.pick(&EDGES).to_owned(),
            false => token,
        };
        out.extend(format!(" {letter}{token}").bytes());
    }
}

fn meta_line(choices: &mut Choices, verb: &str, letters: &str, out: &mut Vec<u8>) {
    out.extend(verb.bytes());
    out.push(b' ');
    out.extend(key(choices));
    meta_flags(choices, letters, out);
    out.extend(b"\r\n");
}

fn meta_gets(choices: &mut Choices, out: &mut Vec<u8>) {
    meta_line(choices, "mg", "vvvvkkqqcfhlstOTNRbuE", out);
}

fn meta_deletes(choices: &mut Choices, out: &mut Vec<u8>) {
    meta_line(choices, "md", "qqkOTICCbxE", out);
}

fn meta_counts(choices: &mut Choices, out: &mut Vec<u8>) {
    meta_line(choices, "ma", "vvvqkOTNJDDMMCbtcE", out);
}

fn meta_debugs(choices: &mut Choices, out: &mut Vec<u8>) {
    meta_line(choices, "me", "b", out);
}

fn meta_sets(choices: &mut Choices, out: &mut Vec<u8>) {
    out.extend(b"ms ");
    out.extend(key(choices));
    out.push(b' ');
    let mut flags = Vec::new();
    meta_flags(choices, "qqkOTFFMMMICCcbsE", &mut flags);
    let flags = String::from_utf8(flags).expect("flags are ASCII");
    block(choices, out, &flags);
}

/// Changes a command so that something about it is wrong, perhaps.
fn spoil(choices: &mut Choices, mut bytes: Vec<u8>) -> Vec<u8> {
    let at = choices.below(bytes.len());
    match choices.below(8) {
        0 => {
            bytes.remove(at);
        }
        1 => bytes.insert(at, choices.number() as u8),
        2 => bytes[at] ^= 1 << choices.below(8),
        3 => {
            let word = choices.pick(&WORDS);
            bytes.splice(at..at, word.bytes());
        }
        4 => return exchange_word(choices, &bytes, &EDGES),
        5 => return exchange_word(choices, &bytes, &WORDS),
        6 => {
            let end = at + choices.below(bytes.len() - at + 1);
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        }
        _ => {
            // A lone line feed ends a line too.
            if let Some(at) = bytes.windows(2).position(|pair| pair == b"\r\n") {
                bytes.remove(at);
            }
        }
    }
    bytes
}

/// Puts one of `words` in the place of one that is there.
fn exchange_word(choices: &mut Choices, bytes: &[u8], words: &[&str]) -> Vec<u8> {
    let mut old: Vec<&[u8]> = bytes.split(|byte| *byte == b' ').collect();
    let at = choices.below(old.len());
    // The last word holds the end of the line and what follows; only its first line's word goes.
    let rest = old[at]
        .iter()
        .position(|byte| matches!(byte, b'\r' | b'\n'))
        .map_or(&b""[..], |end| &old[at][end..]);
    let new = [choices.pick(words).as_bytes(), rest].concat();
    old[at] = &new;
    old.join(&b' ')
}
