//! `stats detail`: how often keys of each prefix were read, written and deleted.

use std::collections::BTreeMap;
use std::io::Write;

/// Most prefixes that a worker keeps count of; keys of further ones are not counted. memcached's
/// limit since 1.6.42: whoever may choose keys could otherwise take all memory.
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
#[derive(Debug, Default)]
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

    /// Writes the counts as bytes for [`dump`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        for (prefix, counts) in &self.counts {
            // A prefix is shorter than a key, which has at most 250 bytes.
            out.push(prefix.len() as u8);
            out.extend_from_slice(prefix);
            for number in [counts.get, counts.hit, counts.set, counts.del] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
}

/// Composes `stats detail dump`, without the closing `END`, from what workers encoded.
pub fn dump(mut encoded: &[u8]) -> Vec<u8> {
    let mut sums: BTreeMap<&[u8], PrefixCounts> = BTreeMap::new();
    while let Some((prefix, counts, rest)) = decode(encoded) {
        sums.entry(prefix).or_default().add(&counts);
        encoded = rest;
    }
    let mut out = Vec::new();
    for (prefix, counts) in sums {
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

fn decode(encoded: &[u8]) -> Option<(&[u8], PrefixCounts, &[u8])> {
    let (&len, rest) = encoded.split_first()?;
    let (prefix, rest) = rest.split_at_checked(usize::from(len))?;
    let (numbers, rest) = rest.split_at_checked(4 * 8)?;
    let mut numbers = numbers
        .chunks_exact(8)
        .map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes));
    let mut next = || numbers.next().unwrap_or(0);
    let counts = PrefixCounts {
        get: next(),
        hit: next(),
        set: next(),
        del: next(),
    };
    Some((prefix, counts, rest))
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
        let mut encoded = Vec::new();
        one.encode(&mut encoded);
        other.encode(&mut encoded);
        assert_eq!(
            String::from_utf8_lossy(&dump(&encoded)),
            "PREFIX  get 1 hit 1 set 0 del 0\r\nPREFIX a get 2 hit 2 set 0 del 0\r\n"
        );
        one.clear();
        encoded.clear();
        one.encode(&mut encoded);
        assert!(dump(&encoded).is_empty());
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
