//! How many keys requests in memcached's text protocol are for, as their bytes come.

use evenkeel_protocol::{Limits, Request, RequestOutcome, parse_request};

/// Counts the keys of a stream of requests. What is no request of the text protocol, and all behind it, has none.
#[derive(Debug, Default)]
pub(crate) struct KeyCounter {
    /// What is not a whole request yet: at most the longest one.
    begun: Vec<u8>,
    /// Bytes behind it that belong to one that was refused.
    swallow: usize,
    is_lost: bool,
}

impl KeyCounter {
    /// The keys of all requests that end in these bytes.
    pub fn count(&mut self, bytes: &[u8]) -> u64 {
        if self.is_lost {
            return 0;
        }
        let skipped = self.swallow.min(bytes.len());
        self.swallow -= skipped;
        self.begun.extend_from_slice(&bytes[skipped..]);
        let (mut keys, mut at) = (0, 0);
        while at < self.begun.len() {
            match parse_request(&self.begun[at..], &Limits::default()) {
                RequestOutcome::Request { request, consumed } => {
                    keys += keys_of(&request);
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
                    return keys;
                }
            }
        }
        self.begun.drain(..at);
        keys
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
    fn keys_are_counted_wherever_bytes_are_cut() {
        for len in 1..STREAM.len() {
            let mut counter = KeyCounter::default();
            let counted: u64 = STREAM.chunks(len).map(|bytes| counter.count(bytes)).sum();
            assert_eq!(counted, 3 + 1 + 1 + 1 + 4 + 2, "{len}");
            assert!(counter.begun.is_empty());
        }
    }

    #[test]
    fn what_is_no_text_has_no_keys() {
        let mut counter = KeyCounter::default();
        assert_eq!(counter.count(&[0x80; 100_000]), 0);
        assert_eq!(counter.count(STREAM), 0);
        assert!(counter.is_lost && counter.begun.is_empty());
    }
}
