//! CAS uniques of items that the own rack holds, as far as a worker has learnt them lately: a set of such an item is executed at once.
//!
//! One that is not the present one any more costs a step, and is never wrong: the item's server compares it. So entries are only as many as
//! have a place, and the newer one takes the place of the older.

use crate::ids::{BackendId, PoolId};
use evenkeel_types::KeyHash;

/// Items that are remembered at most, in a table of 2 MiB.
pub(crate) const OWN_UNIQUES_MAX: usize = 65_536;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct OwnUniques {
    /// By the lowest bits of the hash. Empty before the first is noted.
    entries: Vec<Entry>,
}

/// A unique, and on which connection it was learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnUnique {
    pub unique: u64,
    /// The server, and which of the connections to it.
    pub learnt_on: (BackendId, u64),
}

/// The hash of pool and key beside it.
type Entry = Option<(u64, OwnUnique)>;

impl OwnUniques {
    /// Notes the unique of an item.
    pub fn note(&mut self, pool: PoolId, key: &[u8], found: OwnUnique) {
        if self.entries.is_empty() {
            self.entries.resize(OWN_UNIQUES_MAX, None);
        }
        let hash = hash_of(pool, key);
        self.entries[place(hash)] = Some((hash, found));
    }

    /// Takes out the unique of an item: what becomes of it by the command that asks is noted anew.
    pub fn take(&mut self, pool: PoolId, key: &[u8]) -> Option<OwnUnique> {
        let hash = hash_of(pool, key);
        let entry = self.entries.get_mut(place(hash))?;
        let (_, found) = entry.take_if(|(of, _)| *of == hash)?;
        Some(found)
    }
}

fn hash_of(pool: PoolId, key: &[u8]) -> u64 {
    KeyHash::of(key).0 ^ pool.0.to_number()
}

fn place(hash: u64) -> usize {
    hash as usize % OWN_UNIQUES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Key;

    #[test]
    fn each_is_found_once_by_its_pool_and_key_as_long_as_no_other_has_its_place() {
        let pool = |slot| {
            PoolId(Key {
                slot,
                generation: 0,
            })
        };
        let found = |unique| OwnUnique {
            unique,
            learnt_on: (BackendId(Key::of_number(7)), unique),
        };
        let mut uniques = OwnUniques::default();
        assert_eq!(uniques.take(pool(1), b"k"), None);
        uniques.note(pool(1), b"k", found(7));
        assert_eq!(uniques.take(pool(2), b"k"), None);
        assert_eq!(uniques.take(pool(1), b"l"), None);
        assert_eq!(uniques.take(pool(1), b"k"), Some(found(7)));
        assert_eq!(uniques.take(pool(1), b"k"), None);
        let key = |number: u64| number.to_string().into_bytes();
        for number in 0..3 * OWN_UNIQUES_MAX as u64 {
            uniques.note(pool(1), &key(number), found(number));
        }
        let kept = (0..3 * OWN_UNIQUES_MAX as u64)
            .filter(|number| uniques.take(pool(1), &key(*number)) == Some(found(*number)));
        // 1 - 1/e^3 of the places have one.
        let kept = kept.count();
        assert!((60_000..=OWN_UNIQUES_MAX).contains(&kept), "{kept}");
    }
}
