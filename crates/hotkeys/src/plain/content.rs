//! What replicas in plain servers are called: after what they hold.

use evenkeel_schemes::name::{self, Kind};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Bytes that the name of a replica has before the key.
pub const NAME_PREFIX_LEN: usize = Kind::Replica.prefix_len();

/// Longest value that is replicated. A longer one would take more of the proxy's time to compare and to
/// store than its server takes to serve it.
pub const REPLICA_VALUE_LEN_MAX: usize = 256 << 10;

/// What the name of a replica begins with; the key follows. Different for different contents: it is a
/// hash of value and client flags of 128 bits (XXH3). Accidents do not happen at that length. Anyone who
/// makes two values of equal hash on purpose can read one for the other, of keys that he may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamePrefix([u8; NAME_PREFIX_LEN]);

impl NamePrefix {
    /// That of a value with these client flags.
    pub fn of(flags: u32, value: &[u8]) -> Self {
        let content = xxh3_128_with_seed(value, u64::from(flags));
        NamePrefix(name::prefix(Kind::Replica, content))
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
    fn names_differ_by_value_and_flags() {
        let mut names = BTreeSet::new();
        for flags in [0, 1, 2, u32::MAX] {
            for value in [&b""[..], b"a", b"b", b"ab", &[0; 1000]] {
                let name = NamePrefix::of(flags, value);
                assert_eq!(name, NamePrefix::of(flags, value));
                let bytes = name.as_bytes();
                names.insert(bytes.to_vec());
            }
        }
        assert_eq!(names.len(), 20);
    }
}
