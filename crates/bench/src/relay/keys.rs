//! What requests in memcached's text protocol ask for, as their bytes come.

use evenkeel_protocol::{Limits, Request, RequestOutcome, parse_request};
use std::ops::{AddAssign, Sub};

/// What some requests ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Request lines that are for keys.
    pub lines: u64,
    /// Keys in them.
    pub keys: u64,
}

impl AddAssign for Asked {
    fn add_assign(&mut self, other: Self) {
        self.lines += other.lines;
        self.keys += other.keys;
    }
}

impl Sub for Asked {
    type Output = Asked;

    /// What came since an earlier look.
    fn sub(self, earlier: Self) -> Asked {
        Asked {
            lines: self.lines - earlier.lines,
            keys: self.keys - earlier.keys,
        }
    }
}

/// Counts the request lines and keys of a stream of requests. What is no request of the text protocol, and all behind it, has none.
#[derive(Debug, Default)]
pub(crate) struct KeyCounter {
    /// What is not a whole request yet: at most the longest one.
    begun: Vec<u8>,
    /// Bytes behind it that belong to one that was refused.
    swallow: usize,
    is_lost: bool,
}

impl KeyCounter {
    /// What all requests ask for that end in these bytes.
    pub fn count(&mut self, bytes: &[u8]) -> Asked {
        let mut asked = Asked::default();
        if self.is_lost {
            return asked;
        }
        let skipped = self.swallow.min(bytes.len());
        self.swallow -= skipped;
        self.begun.extend_from_slice(&bytes[skipped..]);
        let mut at = 0;
        while at < self.begun.len() {
            match parse_request(&self.begun[at..], &Limits::default()) {
                RequestOutcome::Request { request, consumed } => {
                    let keys = keys_of(&request);
                    asked.keys += keys;
                    asked.lines += u64::from(keys > 0);
                    at += consumed;
                }
                RequestOutcome::Refused {
                    consumed, swallow, ..
                } => {
                    at += consumed;
                    let there = swallow.min(self.begun.len() - at);
                    at += there;
                    self.swallow = swallow - there;
                }
                RequestOutcome::Incomplete { .. } => break,
                RequestOutcome::Close { .. } => {
                    self.is_lost = true;
                    self.begun = Vec::new();
                    return asked;
                }
            }
        }
        self.begun.drain(..at);
        asked
    }
}

fn keys_of(request: &Request<'_>) -> u64 {
    match request {
        Request::Get { keys, .. } | Request::GetAndTouch { keys, .. } => keys.len() as u64,
        Request::Store(_)
        | Request::Delete { .. }
        | Request::Arithmetic { .. }
        | Request::Touch { .. }
        | Request::MetaGet(_)
        | Request::MetaSet(_)
        | Request::MetaDelete(_)
        | Request::MetaArithmetic(_) => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"get a b c\r\nset k 0 0 5\r\nget x\r\nmg a v\r\nmn\r\nversion\r\n\
        ms k 3\r\nabc\r\nset k 0 0 nonsense\r\ndelete k\r\nmd k q\r\nincr k 1\r\ntouch k 0\r\ngat 0 a b\r\n";

    #[test]
    fn lines_and_keys_are_counted_wherever_bytes_are_cut() {
        for len in 1..STREAM.len() {
            let mut counter = KeyCounter::default();
            let mut counted = Asked::default();
            for bytes in STREAM.chunks(len) {
                counted += counter.count(bytes);
            }
            assert_eq!(counted.keys, 3 + 1 + 1 + 1 + 4 + 2, "{len}");
            assert_eq!(counted.lines, 1 + 1 + 1 + 1 + 4 + 1, "{len}");
            assert!(counter.begun.is_empty());
        }
    }

    #[test]
    fn what_is_no_text_has_no_keys() {
        let mut counter = KeyCounter::default();
        assert_eq!(counter.count(&[0x80; 100_000]), Asked::default());
        assert_eq!(counter.count(STREAM), Asked::default());
        assert!(counter.is_lost && counter.begun.is_empty());
    }
}
