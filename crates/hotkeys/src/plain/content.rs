//! What replicas in plain servers are called: after what they hold.

use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Stands at the beginning of the name of every replica. The protocol allows no control characters in
/// keys ("Keys" in memcached's `doc/protocol.txt`), although memcached itself stores them, so no key of
/// an application that keeps to it begins so.
pub const NAME_MARK: u8 = 1;

/// Characters that 128 bits take, six to each.
const DIGITS: usize = 22;

/// Bytes that the name of a replica has before the key: mark, digits, and a colon.
pub const NAME_PREFIX_LEN: usize = 1 + DIGITS + 1;

/// Longest value that is replicated. A longer one would take more of the proxy's time to compare and to
/// store than its server takes to serve it.
pub const REPLICA_VALUE_LEN_MAX: usize = 256 << 10;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What the name of a replica begins with; the key follows. Different for different contents: it is a
/// hash of value and client flags of 128 bits (XXH3). Accidents do not happen at that length. Whoever
/// makes two values of equal hash on purpose can read one for the other, of keys that he may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamePrefix([u8; NAME_PREFIX_LEN]);

impl NamePrefix {
    /// That of a value with these client flags.
    pub fn of(flags: u32, value: &[u8]) -> Self {
        let mut rest = xxh3_128_with_seed(value, u64::from(flags));
        let mut name = [NAME_MARK; NAME_PREFIX_LEN];
        name[NAME_PREFIX_LEN - 1] = b':';
        for digit in &mut name[1..=DIGITS] {
            *digit = ALPHABET[(rest % 64) as usize];
            rest /= 64;
        }
        NamePrefix(name)
    }

    /// Its bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_differ_by_value_and_flags_and_are_words_of_fixed_length() {
        let mut names = BTreeSet::new();
        for flags in [0, 1, 2, u32::MAX] {
            for value in [&b""[..], b"a", b"b", b"ab", &[0; 1000]] {
                let name = NamePrefix::of(flags, value);
                assert_eq!(name, NamePrefix::of(flags, value));
                let bytes = name.as_bytes();
                assert_eq!((bytes[0], bytes[NAME_PREFIX_LEN - 1]), (1, b':'));
                assert!(bytes[1..].iter().all(u8::is_ascii_graphic));
                names.insert(bytes.to_vec());
            }
        }
        assert_eq!(names.len(), 20);
    }

    #[test]
    fn all_128_bits_are_in_the_name() {
        // Two bits in the last digit.
        assert_eq!(DIGITS * 6 - 128, 4);
        let last: BTreeSet<u8> = (0..200u32)
            .map(|i| NamePrefix::of(0, &i.to_le_bytes()).as_bytes()[DIGITS])
            .collect();
        assert_eq!(last.into_iter().collect::<Vec<u8>>(), b"ABCD");
    }
}
