//! Reading a batch of keys: asking for memory ahead, and not looking twice.
//!
//! A lookup waits for memory twice, for a line of the index and for the item. A batch asks for all lines,
//! then for all items, and then reads. The second pass has looked at the index already; what it found
//! there is a [`Hint`], with which the read begins at the item.
//!
//! A hint that is outdated would lead into the middle of another item, so it carries the number of
//! changes that the store had seen, and counts for nothing after the next one: items that come, go or
//! move, and cachelets. Reading changes nothing, unless it finds an expired item.

use crate::cachelet::{Context, Inner};
use crate::hash::TableHash;
use crate::index::Guess;
use crate::item::{self, Item, Layout};
use crate::{Seconds, Store};
use evenkeel_types::CacheletId;

/// Where a key's item lies, if it is there: what [`Store::prefetch_item`] found out on the way. Good
/// until the store is changed; later it is only of no use.
#[derive(Clone, Copy, Debug)]
pub struct Hint {
    /// [`Context::changes`] when it was taken.
    changes: u64,
    cachelet: CacheletId,
    guess: Guess,
}

impl Hint {
    /// Says nothing: a read with it looks for the item as any other.
    pub const NONE: Hint = Hint {
        changes: u64::MAX,
        cachelet: CacheletId(0),
        guess: Guess::Unknown,
    };

    /// What it says of a key of this cachelet, unless it is outdated.
    #[inline]
    pub(crate) fn guess(self, id: CacheletId, context: &Context) -> Option<Guess> {
        let is_current = self.changes == context.changes && self.cachelet == id;
        is_current.then_some(self.guess)
    }
}

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
        Hint {
            changes: self.context.changes,
            cachelet: id,
            guess: inner.map_or(Guess::Unknown, |inner| inner.prefetch_item(hash)),
        }
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

impl Inner {
    /// Looks a key up and reads its item, or counts a miss.
    // Not inlined: it is long.
    #[inline(never)]
    pub fn look_up<'a>(
        &'a mut self,
        key: &[u8],
        hash: TableHash,
        now: Seconds,
        context: &mut Context,
    ) -> Option<Item<'a>> {
        let found = self.location_guessed(self.index.guess(hash), key, hash);
        self.read(found, hash, now, context)
    }

    /// Reads the item at a location, or counts a miss.
    #[inline(always)]
    fn read<'a>(
        &'a mut self,
        found: Option<u32>,
        hash: TableHash,
        now: Seconds,
        context: &mut Context,
    ) -> Option<Item<'a>> {
        // Nobody counts 2^64 of anything.
        self.reads = self.reads.wrapping_add(1);
        let Some(location) = found else {
            self.misses = self.misses.wrapping_add(1);
            return None;
        };
        let place = self.place(location);
        let data = self.data(place);
        let layout = Layout::read(data);
        if layout.expires() && item::is_expired(layout.expires_at(data), now) {
            self.expire_read(hash, place, context);
            return None;
        }
        let segment = &mut self.segments[place.segment as usize];
        let data = &mut segment.data[place.offset as usize..];
        let layout = item::note_read(data, layout, now);
        // Here it takes two instructions, before the item is noted as read ten.
        self.bytes_out = self.bytes_out.wrapping_add(layout.value_len() as u64);
        Some(Item {
            data,
            layout,
            segment_version_high: segment.version_high,
            now,
            align: self.geometry.align,
        })
    }
}
