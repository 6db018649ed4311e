//! Reading a batch of keys: asking for memory ahead, and not looking twice.
//!
//! A lookup waits for memory twice, for a line of the index and for the item. A batch asks for all lines,
//! then for all items, and then reads. The second pass has looked at the index already; what it found
//! there is a [`Hint`], with which the read begins at the item.

use crate::Seconds;
use crate::hash::TableHash;
use crate::hint::Hint;
use crate::index::Guess;
use crate::item::Item;
use crate::store::Store;
use evenkeel_types::CacheletId;

impl Store {
    /// Starts loading the index line of a hash. First stage for a batch of keys.
    #[inline]
    pub fn prefetch(&self, id: CacheletId, hash: TableHash) {
        if let Some(inner) = self.inner(usize::from(id.0)) {
            inner.index.prefetch(hash);
        }
    }

    /// Starts loading the item of a hash. Second stage, once the index line has arrived. What it has
    /// found spares [`Store::read_hinted`] the way there.
    #[inline]
    pub fn prefetch_item(&self, id: CacheletId, hash: TableHash) -> Hint {
        let inner = self.inner(usize::from(id.0));
        let guess = inner.map_or(Guess::Unknown, |inner| inner.prefetch_item(hash));
        Hint::new(id, &self.context, guess)
    }

    /// As [`Store::read_hashed`], with what [`Store::prefetch_item`] said of the same key. An outdated
    /// hint changes nothing but the time it takes.
    #[inline(always)]
    pub fn read_hinted(
        &mut self,
        id: CacheletId,
        key: &[u8],
        hash: TableHash,
        hint: Hint,
        now: Seconds,
    ) -> Option<Item<'_>> {
        let Store {
            cachelets, context, ..
        } = self;
        let guess = hint.guess(id, context);
        let inner = &mut *cachelets.get_mut(usize::from(id.0))?.as_mut()?.inner;
        match guess {
            Some(guess) => {
                let found = inner.location_guessed(guess, key, hash);
                inner.read(found, hash, now, context)
            }
            None => inner.look_up(key, hash, now, context),
        }
    }
}
