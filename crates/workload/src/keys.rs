//! What keys look like.

use crate::distribution::KeySizes;
use crate::{WorkloadError, refuse};
use evenkeel_types::limits::KEY_LEN_MAX;

/// Most digits of a key's number.
const DIGITS_MAX: usize = 20;

/// What stands behind a key to name its counter.
const COUNTER_SUFFIX: &[u8] = b"~n";

/// Longest prefix of keys: the longest number and the mark of a counter still fit.
pub const KEY_PREFIX_LEN_MAX: usize = KEY_LEN_MAX - DIGITS_MAX - COUNTER_SUFFIX.len();

/// Names keys: a prefix, then the key's number in decimal, padded with zeros to the key's length. Where
/// the prefix and the largest number need more than the length, they get it, so that different numbers
/// are different keys.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyFormat {
    prefix: Box<[u8]>,
    sizes: KeySizes,
    /// What prefix and largest number need.
    len_min: usize,
}

impl KeyFormat {
    /// Names of `len` bytes for keys `0..keys`.
    ///
    /// # Errors
    /// When the prefix has bytes that a key must not have, or `len` is too short for prefix and
    /// number or longer than memcached allows.
    pub fn new(prefix: &str, len: usize, keys: u64) -> Result<Self, WorkloadError> {
        match u32::try_from(len).ok().map(KeySizes::fixed) {
            Some(Ok(sizes)) => KeyFormat::of_sizes(prefix, sizes, keys),
            _ => refuse(format!("keys of {len} bytes are above {KEY_LEN_MAX}")),
        }
    }

    /// Names of these sizes for keys `0..keys`. Of sizes that vary or were measured, those too short
    /// for prefix and number get what they need.
    ///
    /// # Errors
    /// When the prefix has bytes that a key must not have, or is longer than [`KEY_PREFIX_LEN_MAX`], or
    /// the one size asked for is too short for prefix and number.
    pub fn of_sizes(prefix: &str, sizes: KeySizes, keys: u64) -> Result<Self, WorkloadError> {
        if prefix.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return refuse(format!(
                "key prefix '{prefix}' has a space or a control character"
            ));
        }
        if prefix.len() > KEY_PREFIX_LEN_MAX {
            return refuse(format!(
                "key prefix '{prefix}' is longer than {KEY_PREFIX_LEN_MAX} bytes"
            ));
        }
        let digits = (keys.max(1) - 1).checked_ilog10().unwrap_or(0) as usize + 1;
        let len_min = prefix.len() + digits;
        if let Some(len) = sizes.as_number().filter(|&len| (len as usize) < len_min) {
            return refuse(format!(
                "keys of {len} bytes: {keys} keys with prefix '{prefix}' need {len_min} to \
                 {KEY_LEN_MAX}"
            ));
        }
        Ok(KeyFormat {
            prefix: prefix.as_bytes().into(),
            sizes,
            len_min,
        })
    }

    /// Appends the name of key `id`. A key beyond those that the format was made for is named by its
    /// number too, as long as that needs.
    #[inline]
    pub fn write(&self, id: u64, out: &mut Vec<u8>) {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(id).as_bytes();
        let len = (self.sizes.of(id) as usize).max(self.len_min);
        out.extend_from_slice(&self.prefix);
        let zeros = len.saturating_sub(self.prefix.len() + digits.len());
        out.resize(out.len() + zeros, b'0');
        out.extend_from_slice(digits);
    }

    /// Appends the name of the counter of key `id`: an item of its own, since a value that is checked
    /// cannot be counted up.
    pub(crate) fn write_counter(&self, id: u64, out: &mut Vec<u8>) {
        let start = out.len();
        self.write(id, out);
        // Of a key without room, the zeros in its middle make it; numbers stay apart.
        let excess = (out.len() - start + COUNTER_SUFFIX.len()).saturating_sub(KEY_LEN_MAX);
        out.drain(start + self.prefix.len()..start + self.prefix.len() + excess);
        out.extend_from_slice(COUNTER_SUFFIX);
    }
}

/// Keys in one buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyList {
    /// Forgets the keys and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The key at this position.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    /// The keys in their order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Adds a key.
    pub fn push(&mut self, key: &[u8]) {
        self.push_with(|bytes| bytes.extend_from_slice(key));
    }

    /// Adds the key that `write` appends.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(format: &KeyFormat, id: u64) -> String {
        let mut out = Vec::new();
        format.write(id, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_have_the_asked_length() {
        let format = KeyFormat::new("key:", 12, 1_000_000).unwrap();
        assert_eq!(name(&format, 0), "key:00000000");
        assert_eq!(name(&format, 999_999), "key:00999999");
        assert_eq!(name(&KeyFormat::new("", 1, 10).unwrap(), 9), "9");
        assert!(KeyFormat::new("", 250, 10).is_ok());
    }

    #[test]
    fn keys_that_do_not_fit_are_refused() {
        assert!(KeyFormat::new("", 1, 11).is_err(), "key 10 has two digits");
        assert!(KeyFormat::new("key:", 7, 1001).is_err());
        assert!(KeyFormat::new("", 251, 10).is_err());
        assert!(KeyFormat::new("a b", 20, 10).is_err());
        assert!(KeyFormat::new("a\n", 20, 10).is_err());
        assert!(KeyFormat::new(&"p".repeat(229), 250, 10).is_err());
    }

    #[test]
    fn keys_of_all_lengths_are_different_keys() {
        let format = KeyFormat::of_sizes("k", "1..30".parse().unwrap(), 10_000).unwrap();
        let mut seen = std::collections::HashSet::new();
        let mut lens = std::collections::BTreeSet::new();
        for id in 0..20_000 {
            let key = name(&format, id);
            assert_eq!(key, name(&format, id), "a key keeps its name");
            lens.insert(key.len());
            assert!(seen.insert(key), "{id}");
        }
        assert!(
            lens.into_iter().eq(5..=30),
            "4 digits and a prefix, up to 30"
        );
    }

    #[test]
    fn counters_are_keys_of_their_own_that_memcached_takes() {
        let format = KeyFormat::new("k", 250, 100).unwrap();
        let (mut one, mut two) = (Vec::new(), Vec::new());
        format.write_counter(1, &mut one);
        format.write_counter(10, &mut two);
        assert_eq!((one.len(), two.len()), (250, 250));
        assert!(one.starts_with(b"k0") && one.ends_with(b"01~n") && two.ends_with(b"10~n"));
        let short = KeyFormat::new("k", 3, 100).unwrap();
        let mut out = b"before ".to_vec();
        short.write_counter(7, &mut out);
        assert_eq!(out, b"before k07~n");
        // The longest prefix and number leave room.
        let format = KeyFormat::of_sizes(
            &"p".repeat(KEY_PREFIX_LEN_MAX),
            KeySizes::fixed(250).unwrap(),
            10,
        );
        let mut out = Vec::new();
        format.unwrap().write_counter(u64::MAX, &mut out);
        assert_eq!(out.len(), 250);
        assert!(out.ends_with(b"18446744073709551615~n"));
    }

    #[test]
    fn a_list_keeps_keys_apart() {
        let mut list = KeyList::default();
        assert!(list.is_empty());
        list.push(b"a");
        list.push(b"");
        list.push_with(|bytes| bytes.extend_from_slice(b"bc"));
        assert!(list.iter().eq([&b"a"[..], b"", b"bc"]));
        assert_eq!((list.len(), list.get(2)), (3, &b"bc"[..]));
        list.clear();
        assert_eq!(list.len(), 0);
    }
}
