//! `stats detail`: how often keys of each prefix were read, written and deleted.

use std::collections::BTreeMap;
use std::io::Write;

/// Most prefixes that a worker keeps count of; keys of further ones are not counted. memcached's
/// limit since 1.6.42: anyone who may choose keys could otherwise take all memory.
pub const PREFIXES_MAX: usize = 65_536;

/// What was done to the keys of a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixCounts {
    /// Keys read.
    pub get: u64,
    /// Of them, found.
    pub hit: u64,
    /// Storage commands.
    pub set: u64,
    /// Deletes.
    pub del: u64,
}

impl PrefixCounts {
    fn add(&mut self, other: &PrefixCounts) {
        self.get += other.get;
        self.hit += other.hit;
        self.set += other.set;
        self.del += other.del;
    }
}

/// The prefixes of one worker's keys.
#[derive(Clone, Debug, Default)]
pub struct Prefixes {
    counts: BTreeMap<Box<[u8]>, PrefixCounts>,
    /// Commands on keys of prefixes that had no room.
    pub overflowed: u64,
}

impl Prefixes {
    /// Counts for a key's prefix, if the key has one: what stands before the first `delimiter`.
    pub fn count(&mut self, key: &[u8], delimiter: u8, counts: &PrefixCounts) {
        let Some(len) = key.iter().position(|&byte| byte == delimiter) else {
            return;
        };
        let prefix = &key[..len];
        if let Some(sum) = self.counts.get_mut(prefix) {
            sum.add(counts);
        } else if self.counts.len() < PREFIXES_MAX {
            self.counts.insert(prefix.into(), *counts);
        } else {
            self.overflowed += 1;
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Prefixes::default();
    }

    /// Adds another worker's.
    pub fn add(&mut self, other: &Prefixes) {
        for (prefix, counts) in &other.counts {
            self.counts.entry(prefix.clone()).or_default().add(counts);
        }
        self.overflowed += other.overflowed;
    }

    /// Composes `stats detail dump`, without the closing `END`.
    pub fn dump(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (prefix, counts) in &self.counts {
            out.extend_from_slice(b"PREFIX ");
            out.extend_from_slice(prefix);
            // Writing into memory cannot fail.
            let _ = write!(
                out,
                " get {} hit {} set {} del {}\r\n",
                counts.get, counts.hit, counts.set, counts.del
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: PrefixCounts = PrefixCounts {
        get: 1,
        hit: 1,
        set: 0,
        del: 0,
    };

    #[test]
    fn workers_counts_are_added_up_by_prefix() {
        let (mut one, mut other) = (Prefixes::default(), Prefixes::default());
        one.count(b"a:1", b':', &READ);
        one.count(b"none", b':', &READ);
        one.count(b":x", b':', &READ);
        other.count(b"a:2:3", b':', &READ);
        one.add(&other);
        assert_eq!(
            String::from_utf8_lossy(&one.dump()),
            "PREFIX  get 1 hit 1 set 0 del 0\r\nPREFIX a get 2 hit 2 set 0 del 0\r\n"
        );
        one.clear();
        assert!(one.dump().is_empty());
    }

    #[test]
    fn prefixes_are_bounded_and_what_is_left_out_is_counted() {
        let mut prefixes = Prefixes::default();
        for number in 0..PREFIXES_MAX + 10 {
            prefixes.count(format!("{number}:").as_bytes(), b':', &READ);
        }
        assert_eq!(
            (prefixes.counts.len(), prefixes.overflowed),
            (PREFIXES_MAX, 10)
        );
        prefixes.count(b"0:", b':', &READ);
        assert_eq!(prefixes.overflowed, 10);
    }
}
