//! Not looking twice: what a first look at the index found, for the read that follows.
//!
//! A hint that is outdated would lead into the middle of another item, so it carries the number of
//! changes that the store had seen, and counts for nothing after the next one: items that come, go or
//! move, and cachelets. Reading changes nothing, unless it finds an expired item.

use crate::cachelet::Context;
use crate::index::Guess;
use evenkeel_types::CacheletId;

/// Where a key's item lies, if it is there: what [`Store::prefetch_item`](crate::Store::prefetch_item) found out on the way. Good
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

    /// What was found of a hash in this cachelet.
    #[inline]
    pub(crate) fn new(id: CacheletId, context: &Context, guess: Guess) -> Self {
        Hint {
            changes: context.changes,
            cachelet: id,
            guess,
        }
    }

    /// What it says of a key of this cachelet, unless it is outdated.
    #[inline]
    pub(crate) fn guess(self, id: CacheletId, context: &Context) -> Option<Guess> {
        let is_current = self.changes == context.changes && self.cachelet == id;
        is_current.then_some(self.guess)
    }
}
