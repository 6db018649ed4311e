//! The hash of a key inside the index.
//!
//! It has nothing to do with the placement hash. That one is public, so anyone who knows it could
//! choose keys that meet in one bucket; this one is keyed by a secret of the process. foldhash's
//! global seeds are constants of its source, and a multiplication by a known constant can be
//! steered to zero, so the table derives all its seeds from the secret.

use core::fmt;
use core::hash::Hasher;
use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

/// A key's hash in the index. Good for every store that was made with the same seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableHash(pub(crate) u64);

impl TableHash {
    /// Sixteen bits for anyone who spreads keys over cachelets by this hash. The index chooses its shard
    /// by other bits and its bucket hardly by these, so that it stays even inside each cachelet.
    #[inline]
    pub fn spread(self) -> u16 {
        (self.0 >> 8) as u16
    }
}

/// Hashes keys under a secret seed.
pub(crate) struct TableHasher {
    seed: u64,
    shared: SharedSeed,
}

impl TableHasher {
    pub fn new(seed: u64) -> Self {
        TableHasher {
            seed,
            shared: SharedSeed::from_u64(seed),
        }
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    #[inline]
    pub fn hash(&self, key: &[u8]) -> TableHash {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        hasher.write(key);
        TableHash(hasher.finish())
    }
}

impl fmt::Debug for TableHasher {
    /// Keeps the secret out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TableHasher")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_give_unrelated_hashes() {
        let (a, b) = (TableHasher::new(1), TableHasher::new(2));
        assert_eq!(a.hash(b"key"), TableHasher::new(1).hash(b"key"));
        assert_ne!(a.hash(b"key"), b.hash(b"key"));
        assert!(!format!("{a:?}").contains('1'));
    }
}
