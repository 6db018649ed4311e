//! What a server has missed: the keys that were written while it could not be reached, and those whose
//! writes may or may not have reached it.
//!
//! A server that was only cut off comes back with everything it held before. What it holds under these
//! keys is not true any more, so they are deleted there before anything else is asked of it, on the
//! connection that everything else will be asked on. The list is bounded; a server that has missed more
//! is emptied instead if its pool allows it, and otherwise comes back with what it has, which is counted.

use crate::limits::{INVALIDATION_BYTES_MAX, INVALIDATION_KEYS_MAX};
use evenkeel_protocol::SentKey;
use evenkeel_protocol::compose::request as ask;
use std::collections::BTreeSet;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct InvalidationLog {
    /// As they are stored.
    keys: BTreeSet<Box<[u8]>>,
    /// Bytes of them.
    bytes: usize,
    /// A `flush_all` was missed.
    flush: bool,
    /// More keys were written than are in the list.
    is_incomplete: bool,
}

/// What has to be asked of a server that comes back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CatchUp {
    /// Nothing at all.
    Nothing,
    /// To forget everything.
    Flush,
    /// To forget these keys.
    Keys {
        /// As they are stored.
        keys: BTreeSet<Box<[u8]>>,
        /// Whether there were others.
        is_incomplete: bool,
    },
}

impl InvalidationLog {
    /// A key was written elsewhere, or perhaps here. False if there is no room to remember it.
    pub fn note(&mut self, key: &[u8]) -> bool {
        if self.flush || self.keys.contains(key) {
            return true;
        }
        if self.keys.len() >= INVALIDATION_KEYS_MAX
            || self.bytes + key.len() > INVALIDATION_BYTES_MAX
        {
            self.is_incomplete = true;
            return false;
        }
        self.bytes += key.len();
        self.keys.insert(key.into())
    }

    /// All keys were to be forgotten.
    pub fn note_flush(&mut self) {
        *self = InvalidationLog {
            flush: true,
            ..InvalidationLog::default()
        };
    }

    /// Nobody knows what was written elsewhere.
    pub fn note_unknown(&mut self) {
        self.is_incomplete = true;
    }

    /// How many keys are in the list.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// What is to be done about it; the list is empty afterwards.
    pub fn catch_up(&mut self, may_flush: bool) -> CatchUp {
        let log = core::mem::take(self);
        if log.flush || log.is_incomplete && may_flush {
            CatchUp::Flush
        } else if log.keys.is_empty() && !log.is_incomplete {
            CatchUp::Nothing
        } else {
            CatchUp::Keys {
                keys: log.keys,
                is_incomplete: log.is_incomplete,
            }
        }
    }
}

/// Appends the command that deletes a key.
pub(crate) fn delete(out: &mut Vec<u8>, key: &[u8]) {
    let mut encoded = Vec::new();
    // Keys that need base64 were sent in it, and so it is short enough.
    match SentKey::of(key, &mut encoded) {
        Some(key) if key.base64 => ask::meta_delete(out, key).flag(b'b').end(),
        _ => ask::delete(out, key, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(log: &mut InvalidationLog) -> (Vec<String>, bool) {
        match log.catch_up(false) {
            CatchUp::Keys {
                keys,
                is_incomplete,
            } => {
                let keys = keys.iter().map(|key| String::from_utf8_lossy(key).into());
                (keys.collect(), is_incomplete)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_key_is_remembered_once() {
        let mut log = InvalidationLog::default();
        for key in ["b", "a", "b"] {
            assert!(log.note(key.as_bytes()));
        }
        assert_eq!(keys(&mut log), (vec!["a".into(), "b".into()], false));
        assert_eq!(log.catch_up(true), CatchUp::Nothing);
    }

    #[test]
    fn the_list_has_an_end_and_knows_that_it_was_reached() {
        for may_flush in [false, true] {
            let mut log = InvalidationLog::default();
            for i in 0..INVALIDATION_KEYS_MAX {
                assert!(log.note(i.to_string().as_bytes()));
            }
            assert!(!log.note(b"one more"));
            assert!(log.note(b"0"), "that one is there");
            assert_eq!(log.len(), INVALIDATION_KEYS_MAX);
            if may_flush {
                assert_eq!(log.catch_up(true), CatchUp::Flush);
            } else {
                let (keys, is_incomplete) = keys(&mut log);
                assert_eq!((keys.len(), is_incomplete), (INVALIDATION_KEYS_MAX, true));
            }
            assert_eq!(log.catch_up(may_flush), CatchUp::Nothing);
        }
        let mut log = InvalidationLog::default();
        let long = |i: usize| format!("{i:0>250}");
        for i in 0..INVALIDATION_BYTES_MAX / 250 {
            assert!(log.note(long(i).as_bytes()));
        }
        assert!(!log.note(long(INVALIDATION_BYTES_MAX).as_bytes()));
    }

    #[test]
    fn a_missed_flush_stands_for_all_keys() {
        let mut log = InvalidationLog::default();
        assert!(log.note(b"a"));
        log.note_flush();
        assert!(log.note(b"b"));
        assert_eq!(log.len(), 0);
        assert_eq!(log.catch_up(false), CatchUp::Flush);
    }

    #[test]
    fn keys_that_are_no_words_are_deleted_in_base64() {
        for (key, line) in [
            ("a\u{1}é", "delete a\u{1}é\r\n"),
            ("a b", "md YSBi b\r\n"),
            ("a\n", "md YQo= b\r\n"),
        ] {
            let mut out = Vec::new();
            delete(&mut out, key.as_bytes());
            assert_eq!(String::from_utf8(out).unwrap(), line);
        }
    }
}
