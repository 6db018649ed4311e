//! A cachelet gets items of another one of its store: what was split off it, or all of it where two are merged.
//!
//! From the beginning of a [join](Store::begin_join) on, commands name the new cachelet for all keys that are to be in
//! it. An item that is still in the other one is brought when its key is asked for; all others are brought a few at a
//! time ([`Store::step_join`]), so that nobody waits for more than a step. What is brought stays as it was, with its
//! version, marks and times.
//!
//! A key that is to be in the new cachelet is in one of the two, never in both. Should the new one leave the store
//! before the end, the other is emptied: nobody could tell what of it had been written elsewhere since.

use crate::Seconds;
use crate::cachelet::{Entry, Inner, Place};
use crate::hash::TableHash;
use crate::item::{self, Item};
use crate::segment::QueueName;
use crate::store::Store;
use crate::walk::WalkCursor;
use evenkeel_types::CacheletId;

/// What the scratch space may keep of an item that was large, in bytes.
const SCRATCH_KEPT_MAX: usize = 64 << 10;

/// A cachelet that gets items of another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Join {
    pub into: CacheletId,
    from: CacheletId,
    /// How far the walk over the other one has come.
    cursor: WalkCursor,
}

impl Join {
    /// The other one.
    pub fn from(&self) -> CacheletId {
        self.from
    }
}

impl Store {
    /// From now on commands about some keys that were in `from` name `into`. False when one of the two is not here, when
    /// they are the same, or when one of them is in another join.
    pub fn begin_join(&mut self, into: CacheletId, from: CacheletId) -> bool {
        let is_possible = into != from
            && self.has(into)
            && self.has(from)
            && !self.is_joining(into)
            && !self.is_joining(from);
        if is_possible {
            self.context.changes += 1;
            self.joins.push(Join {
                into,
                from,
                cursor: WalkCursor::START,
            });
        }
        is_possible
    }

    /// Whether a cachelet gets or gives items.
    pub fn is_joining(&self, id: CacheletId) -> bool {
        let mut joins = self.joins.iter();
        joins.any(|join| join.into == id || join.from == id)
    }

    /// Brings some hundred items of those that `is_part` says are to be in `into`, but no more once they have `bytes_max`
    /// bytes. True when there may be more. The join is over when it is not, and so it is where there is none.
    ///
    /// An item for which there is no memory is lost, as if it had been evicted.
    pub fn step_join(
        &mut self,
        into: CacheletId,
        now: Seconds,
        bytes_max: usize,
        is_part: impl Fn(&[u8]) -> bool,
    ) -> bool {
        let Some(at) = self.joins.iter().position(|join| join.into == into) else {
            return false;
        };
        let Join { from, cursor, .. } = self.joins[at];
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        let next = self.walk(from, cursor, now, |item| {
            if is_part(item.key()) {
                keys.push(item.key().into());
            }
        });
        let mut bytes = 0;
        for key in keys {
            if bytes >= bytes_max {
                // What was brought is not met again.
                return true;
            }
            let hash = self.hash(&key);
            bytes += self.bring_if_behind(into, &key, hash, now);
        }
        match next {
            Some(next) => {
                // Bringing ends no join.
                self.joins[at].cursor = next;
                true
            }
            None => {
                self.joins.swap_remove(at);
                false
            }
        }
    }

    /// If the key's cachelet gets items of another one, and this is still there, brings it.
    #[inline(always)]
    pub(crate) fn bring(&mut self, into: CacheletId, key: &[u8], hash: TableHash, now: Seconds) {
        if !self.joins.is_empty() {
            self.bring_if_behind(into, key, hash, now);
        }
    }

    /// Gives the bytes of the item that was brought.
    #[cold]
    fn bring_if_behind(
        &mut self,
        into: CacheletId,
        key: &[u8],
        hash: TableHash,
        now: Seconds,
    ) -> usize {
        let Some(join) = self.joins.iter().find(|join| join.into == into) else {
            return 0;
        };
        let from = usize::from(join.from.0);
        let other = self.cachelets.get_mut(from).and_then(Option::as_mut);
        let Some(other) = other.map(|cachelet| &mut *cachelet.inner) else {
            return 0;
        };
        let Some(place) = other.find(key, hash) else {
            return 0;
        };
        let item = other.item(place, now);
        if item::is_expired(item.expires_at(), now) {
            other.expire(hash, place, &mut self.context);
            return 0;
        }
        let (meta, queue) = (item.meta(), other.queue_of(place));
        let mut scratch = core::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.extend_from_slice(item.value());
        other.remove(hash, place, &mut self.context);
        let entry = Entry {
            hash,
            meta,
            key,
            value: [&scratch, &[]],
            queue,
        };
        // What finds no room is gone, and counted as refused.
        let _ = self.append(usize::from(into.0), &entry, now);
        let bytes = key.len() + scratch.len();
        if scratch.capacity() <= SCRATCH_KEPT_MAX {
            self.scratch = scratch;
        }
        bytes
    }

    /// An item that is to be in a cachelet and was not brought yet.
    #[cold]
    pub(crate) fn left_behind(
        &self,
        into: CacheletId,
        key: &[u8],
        hash: TableHash,
        now: Seconds,
    ) -> Option<Item<'_>> {
        let join = self.joins.iter().find(|join| join.into == into)?;
        let other = self.inner(usize::from(join.from.0))?;
        Some(other.item(other.find(key, hash)?, now))
    }

    /// A cachelet is no longer here.
    pub(crate) fn give_joins_up(&mut self, id: CacheletId) {
        while let Some(at) = (self.joins.iter()).position(|join| join.into == id || join.from == id)
        {
            let join = self.joins.swap_remove(at);
            if join.into == id {
                self.flush_cachelet(join.from);
            }
        }
    }
}

impl Inner {
    fn queue_of(&self, place: Place) -> QueueName {
        self.segments[place.segment as usize].queue
    }
}
