//! What of Redis' protocol (RESP 2, redis.io/docs/latest/develop/reference/protocol-spec) a comparison needs:
//! `GET`, `MGET`, `SET` and what comes nearest to memcached's other operations, and their answers.

use super::parsed::{Answer, Parsed};
use evenkeel_protocol::{Limits, StoreVerb};
use evenkeel_workload::Operation;

/// Longest line: a type, a number or an error's text.
const LINE_LEN_MAX: usize = 1024;

/// Appends `GET` of one key, or `MGET` of several.
pub(crate) fn get<'k>(out: &mut Vec<u8>, keys: impl Iterator<Item = &'k [u8]> + Clone) {
    let count = keys.clone().count();
    header(out, b'*', count + 1);
    bulk(out, if count == 1 { b"GET" } else { b"MGET" });
    for key in keys {
        bulk(out, key);
    }
}

/// Appends a write of a value that lives this many seconds, 0 for ever: `SET`, with `NX` for an add and `XX` for a
/// replace, or `APPEND`, which a prepend of no bytes is too. What is appended to and not there comes into being.
pub(crate) fn store(out: &mut Vec<u8>, verb: StoreVerb, key: &[u8], value: &[u8], ttl_s: u32) {
    if matches!(verb, StoreVerb::Append | StoreVerb::Prepend) {
        return command(out, &[b"APPEND", key, value]);
    }
    let mut buffer = itoa::Buffer::new();
    let mut words: Vec<&[u8]> = Vec::new();
    let condition: Option<&[u8]> = match verb {
        StoreVerb::Add => Some(b"NX"),
        StoreVerb::Replace => Some(b"XX"),
        _ => None,
    };
    if ttl_s == 0 && condition.is_none() {
        return command(out, &[b"SET", key, value]);
    }
    words.extend([b"SET", key, value]);
    words.extend(condition);
    if ttl_s > 0 {
        words.extend([&b"EX"[..], buffer.format(ttl_s).as_bytes()]);
    }
    command(out, &words);
}

/// Appends `DEL`, `EXPIRE` (`PERSIST` for ever), `INCR` or `DECR`.
pub(crate) fn short(out: &mut Vec<u8>, operation: Operation, key: &[u8], ttl_s: u32) {
    match operation {
        Operation::Delete => command(out, &[b"DEL", key]),
        Operation::Touch if ttl_s == 0 => command(out, &[b"PERSIST", key]),
        Operation::Touch => {
            let mut buffer = itoa::Buffer::new();
            command(out, &[b"EXPIRE", key, buffer.format(ttl_s).as_bytes()]);
        }
        Operation::Decr => command(out, &[b"DECR", key]),
        _ => command(out, &[b"INCR", key]),
    }
}

fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    header(out, b'*', words.len());
    words.iter().for_each(|word| bulk(out, word));
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    header(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn header(out: &mut Vec<u8>, kind: u8, number: usize) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Reads the first answer of `bytes`: each element of an array is one, the array's header goes with its first.
pub(crate) fn next_answer<'a>(bytes: &'a [u8], limits: &Limits) -> Parsed<'a> {
    let (mut kind, mut rest, mut consumed) = match line(bytes) {
        Line::Whole {
            kind,
            rest,
            consumed,
        } => (kind, rest, consumed),
        Line::Part => return incomplete(bytes.len()),
        Line::Malformed => return Parsed::Malformed,
    };
    if kind == b'*' {
        match line(&bytes[consumed..]) {
            Line::Whole {
                kind: of_first,
                rest: of_element,
                consumed: length,
            } => (kind, rest, consumed) = (of_first, of_element, consumed + length),
            Line::Part => return incomplete(bytes.len()),
            Line::Malformed => return Parsed::Malformed,
        }
    }
    let answer = match kind {
        b'+' => Answer::Done,
        // How many keys there were, or the number that was counted to.
        b':' if rest == b"0" => Answer::NotDone,
        b':' => Answer::Done,
        b'-' => Answer::Error(rest),
        b'$' if rest == b"-1" => Answer::Miss,
        b'$' => {
            let length = std::str::from_utf8(rest)
                .ok()
                .and_then(|text| text.parse::<usize>().ok());
            let Some(length) = length.filter(|&length| length <= limits.item_size_max) else {
                return Parsed::Malformed;
            };
            let total = consumed + length + 2;
            if bytes.len() < total {
                return Parsed::Incomplete { total };
            }
            if &bytes[total - 2..total] != b"\r\n" {
                return Parsed::Malformed;
            }
            let value = &bytes[consumed..consumed + length];
            consumed = total;
            Answer::Value { key: None, value }
        }
        _ => return Parsed::Malformed,
    };
    Parsed::Answer { answer, consumed }
}

fn incomplete<'a>(length: usize) -> Parsed<'a> {
    Parsed::Incomplete { total: length + 1 }
}

enum Line<'a> {
    Whole {
        kind: u8,
        rest: &'a [u8],
        consumed: usize,
    },
    Part,
    Malformed,
}

fn line(bytes: &[u8]) -> Line<'_> {
    let window = &bytes[..bytes.len().min(LINE_LEN_MAX)];
    match window.windows(2).position(|pair| pair == b"\r\n") {
        Some(0) => Line::Malformed,
        Some(end) => Line::Whole {
            kind: bytes[0],
            rest: &bytes[1..end],
            consumed: end + 2,
        },
        None if window.len() == LINE_LEN_MAX => Line::Malformed,
        None => Line::Part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(bytes: &[u8]) -> Vec<String> {
        let limits = Limits::default();
        let (mut told, mut taken) = (Vec::new(), 0);
        while taken < bytes.len() {
            match next_answer(&bytes[taken..], &limits) {
                Parsed::Answer { answer, consumed } => {
                    told.push(format!("{answer:?}"));
                    taken += consumed;
                }
                Parsed::Incomplete { .. } => {
                    told.push("part".into());
                    break;
                }
                Parsed::Malformed => {
                    told.push("none".into());
                    break;
                }
            }
        }
        told
    }

    #[test]
    fn requests_are_arrays_of_bulk_strings() {
        let mut out = Vec::new();
        get(&mut out, [&b"ab"[..]].into_iter());
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$2\r\nab\r\n");
        out.clear();
        get(&mut out, [&b"a"[..], b"b"].into_iter());
        assert_eq!(out, b"*3\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nb\r\n");
        out.clear();
        store(&mut out, StoreVerb::Set, b"a", b"xyz", 0);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$3\r\nxyz\r\n");
    }

    #[test]
    fn answers_are_told_apart() {
        let bytes = b"+OK\r\n$-1\r\n*2\r\n$2\r\nxy\r\n$-1\r\n-ERR no\r\n";
        let told = answers(bytes);
        assert_eq!(told.len(), 5, "{told:?}");
        for (answer, part) in told.iter().zip(["Done", "Miss", "Value", "Miss", "Error"]) {
            assert!(answer.contains(part), "{answer} is no {part}");
        }
    }

    #[test]
    fn an_answer_that_comes_in_parts_waits_for_its_end() {
        let bytes = b"*1\r\n$2\r\nxy\r\n";
        for cut in 1..bytes.len() {
            assert_eq!(answers(&bytes[..cut]), ["part"], "{cut}");
        }
        for bad in [
            &b"$x\r\n"[..],
            b"\r\n",
            b"$2\r\nabcd",
            b"$99999999999\r\n",
            b"?\r\n",
            &[b'+'; 2000],
        ] {
            assert_eq!(answers(bad), ["none"], "{bad:?}");
        }
    }
}
