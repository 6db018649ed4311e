//! The newest value of each leased key, kept to be shown in the place of an older one.
//!
//! In the middle of a write one copy has it and another has not. Was the newer value shown to anybody, the older one is
//! not good enough any more for anyone who asks later. To ask the home for it instead would give the load back to the
//! home just when it has most to do; so the client shows the newer value, which it has been answered already, in
//! the place of the older one, and asks nobody.
//!
//! It is never shown without a copy, or the home, having been asked under a lease. So the bound of staleness holds: what the copy
//! answered had been the truth less than a lease ago, and what is kept has replaced it later. For the same reason it does not matter
//! that an item which is kept may have expired.
//!
//! A home that is asked after the kept value was learned and says something older has gone back: then nothing is shown in the place of
//! its answer.

use std::sync::Arc;

use evenkeel_types::Epoch;

use super::answer::{Answer, Seen};
use super::entry::CachedAnswer;
use super::{ClientLeases, ReadTicket};

/// Longest value that is kept. A longer one costs a second question at the home where it would have been shown.
pub const KEPT_VALUE_LEN_MAX: usize = 64 << 10;

/// Most bytes that a client keeps for one pool; beyond them it is as with values that are too long.
pub const KEPT_BYTES_MAX: usize = 4 << 20;

impl ClientLeases {
    /// Keeps what a read was answered, if the key has an entry and it is newer than what is kept; to be called as soon as the
    /// answer arrives, after [`ClientLeases::grant`]. `len` is that of the value, which is asked for only where it is
    /// kept, in any form from which it can be shown; without one a hit is not kept. O(log entries), and a copy of a
    /// value that is kept.
    #[inline]
    pub fn keep(
        &mut self,
        epoch: Epoch,
        ticket: &ReadTicket,
        answer: Answer,
        len: usize,
        value: impl FnOnce() -> Option<Arc<[u8]>>,
    ) {
        self.observe(epoch);
        if self.entries.is_empty() || ticket.number < self.epoch_began {
            return;
        }
        if let (Some(seen), Ok(i)) = (Seen::of(answer), self.position(ticket.hash))
            && ticket.number >= self.entries[i].fence
            // That a copy has nothing says nothing of the key.
            && !(seen.is_miss && ticket.suffix != 0)
        {
            self.keep_seen(i, seen, len, value);
        }
    }

    /// Whether what is kept of the key is now at least as new.
    pub(super) fn keep_seen(
        &mut self,
        i: usize,
        seen: Seen,
        len: usize,
        value: impl FnOnce() -> Option<Arc<[u8]>>,
    ) -> bool {
        let entry = &mut self.entries[i];
        if entry.kept.as_ref().is_some_and(|kept| kept.seen >= seen) {
            return true;
        }
        let before = entry.kept_len();
        if len > KEPT_VALUE_LEN_MAX || self.kept_bytes - before + len > KEPT_BYTES_MAX {
            return false;
        }
        let value = value();
        if value.is_none() && !seen.is_miss {
            return false;
        }
        let kept = CachedAnswer { seen, value };
        self.kept_bytes = self.kept_bytes - before + kept.len();
        entry.kept = Some(kept);
        true
    }
}
