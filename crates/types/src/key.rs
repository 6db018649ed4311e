//! The hash of a key that decides where the key lives.

use xxhash_rust::xxh3::xxh3_64;

/// XXH3-64 (seed 0) of a key's bytes: the *placement* hash.
///
/// It must be the same in every process, version and language, because clients and servers find a
/// key's worker with it independently of each other. Hash tables use another hash with a secret
/// seed, so that nobody who knows this one can aim at a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub u64);

impl KeyHash {
    /// Hashes a key as it stands in the protocol (decoded, if it was sent in base64).
    #[inline]
    pub fn of(key: &[u8]) -> Self {
        KeyHash(xxh3_64(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden values: placement must never change between versions.
    #[test]
    fn the_placement_hash_is_xxh3_with_seed_0() {
        assert_eq!(KeyHash::of(b""), KeyHash(0x2d06_8005_38d3_94c2));
        assert_eq!(KeyHash::of(b"foo"), KeyHash(0xab6e_5f64_077e_7d8a));
    }
}
