//! Atomic writes (SE-SPORE): all copies of a key look like one.
//!
//! # What happens
//!
//! The paper updates all copies by two-phase commit and lets every access to the key wait meanwhile
//! (section 3.4). Here, too:
//!
//! 1. A write is executed at the home at once, and its answer is *held*. So are the answers to whatever
//!    else the home is asked of the key, reads and failed writes included. No lease is granted, and every
//!    shadow worker is told to *block* its replica: to serve nothing.
//! 2. When all have confirmed that (`Prepared`), or when the last lease is over (`LeasesOver`), the held
//!    answers leave, and the value goes to the shadow workers as it always does. Leases are granted again
//!    when all have it.
//!
//! Nothing is held for a key that nobody can read elsewhere: it has no replicas, or its last lease is
//! over, or no shadow worker has been sent a value since it was last blocked. So a key that is written
//! without a pause waits for one lease at most, and then no more.
//!
//! # Why the history of a key is linearizable
//!
//! Take *T*, a moment at which a time of holding ends, or would have if everything had come at once: every
//! shadow worker has blocked its replica, or no client has a lease. Give each operation a point in time:
//!
//! - What the home did while it held its answers: at *T*, in the order in which it did them. *T* is before
//!   they are answered, and after they were asked.
//! - What the home did at any other time: when it did it.
//! - A read of a replica: when the replica was read if that was before *T*. If it was later, its replica was
//!   not blocked and the leases were over; a client reads only under a lease, so the read was asked before
//!   *T*, and its point is right before *T*.
//!
//! Between two such moments all copies that can be read hold what the home held at the first of them: a
//! value leaves for the shadow workers after *T*, and the next write begins the next time of holding before
//! it is answered. What was sent before cannot arrive after: the connection to a shadow worker is ordered,
//! there is one message on its way at a time, a new connection ends the older ones, and a blocked replica
//! remembers the version up to which it refuses.
//!
//! *Over* is a lease by the clocks of two machines: the client ends it a twentieth early, the home waits for
//! it a twentieth longer. A process that is stopped must not go by a time from before: a proxy reads its
//! clock again when a request is there that a copy may answer, and the home takes a lease for granted at
//! its *next* reading of the clock ([`HotKeys::handle_turn`]).
//!
//! What a cache may do besides, it does atomically too:
//!
//! - **Expiry and eviction.** Where a command finds nothing although replicas can be read, the key has just
//!   ended: that begins a time of holding like a write, so that nobody learns of it earlier.
//! - **`flush_all`** is a write to every key at once. Its answer waits for all of them.
//! - **A failed shadow server** is one that does not confirm: the wait ends with the lease.
//! - **A home that fails** takes its held answers with it; nobody was told of them, and no copy has them.
//! - **Another home**, or the same one started again, has none of the former one's data, and does not know its
//!   leases. It holds its answers about every key that a map gives it until a lease after it was told so: the
//!   former home granted its last one before it let go of the key, and a map that gives the key to
//!   another is made only after that. That a value is lost is an operation like a delete; its point is the
//!   end of that time.
//! - **A connection that closes** while an answer is held loses the answer. The write was executed.
//!
//! # What was rejected
//!
//! To hold the *command* instead of its answer, and to answer reads from the old value meanwhile. Reads at the
//! home would not wait, but every connection that shares an ordered stream with a writer would, which behind
//! proxies is all of them. It needs a queue of commands that are executed later, by another map
//! perhaps, with a bound of its own beyond which writes are refused. Held answers are in the order of their
//! connection and count as what its client has not read, so that the bounds which are there suffice.
//!
//! To carry the value in the first message and reveal it with the second. It would save nothing: either way
//! two round trips pass until a lease can be granted, and the writer, who waits for the first alone, waits
//! for less.

use evenkeel_types::{Epoch, Instant, KeyHash};

use super::HotKeys;
use super::quiet::{Quiet, Released, ReleasedBy};
use crate::replication::{Hold, HoldId};
use crate::ssm::Slot;
use crate::state::Event;

impl HotKeys {
    /// Whether answers may have to be held back; if not, [`HotKeys::hold_of`] need not be asked.
    #[inline]
    pub fn is_careful(&self) -> bool {
        self.careful
    }

    /// Whether the answer to a command on a key that this worker is home of must be held back until
    /// [`HotKeys::poll_released`] tells so. To be asked after each one, whatever came of it.
    ///
    /// `present`: the key is there now. `since`: the epoch from which on this worker is its home.
    pub fn hold_of(
        &mut self,
        now: Instant,
        hash: KeyHash,
        key: &[u8],
        present: bool,
        since: Epoch,
    ) -> Option<HoldId> {
        if !self.is_atomic() {
            return None;
        }
        if let Some(quiet) = self.quiet.iter().find(|quiet| quiet.epoch == since) {
            return Some(quiet.hold.id);
        }
        if !self.filter.may_hold(hash) {
            return None;
        }
        let slot = self.table.find(hash, key)?;
        if !present && self.wants_hold(now, slot) {
            // Expired or evicted, which nobody can have learned yet.
            self.propagate(now, slot, Event::Absent);
        }
        let hold = self.table[slot].replication.as_ref()?.hold?;
        Some(hold.id)
    }

    /// Everything that answers are held back for at present. What concerns all keys waits for all.
    pub fn holds(&self) -> impl Iterator<Item = HoldId> {
        let of_keys = self.replicated.iter().filter_map(|&slot| {
            let replication = self.table[slot].replication.as_ref()?;
            Some(replication.hold?.id)
        });
        let of_maps = self.quiet.iter().map(|quiet| quiet.hold.id);
        of_keys.chain(of_maps)
    }

    /// The next time of waiting that is over. Call until `None` after a confirmation, a map, and the
    /// passing of a deadline.
    pub fn poll_released(&mut self) -> Option<Released> {
        self.released.pop_front()
    }

    /// Tells that everything before happened by now at the latest. To be called before anything else
    /// happens at that time, by anyone who reads the clock less often than before each call: then a call came
    /// later than it was told, perhaps by as long as the process was stopped.
    #[inline]
    pub fn handle_turn(&mut self, now: Instant) {
        if self.undated {
            self.date(now);
        }
    }

    /// Leases granted and maps heard of since the clock was last read, as late as they can have been.
    #[cold]
    fn date(&mut self, now: Instant) {
        self.undated = false;
        self.date_former(now);
        let lease = self.lease_waited();
        for &slot in &self.replicated {
            if let Some(replication) = &mut self.table[slot].replication
                && core::mem::take(&mut replication.undated)
            {
                replication.last_grant = Some(now);
            }
        }
        for quiet in &mut self.quiet {
            if core::mem::take(&mut quiet.undated) {
                quiet.until = now + lease;
            }
        }
    }

    /// Whether somebody may read a replica and answers are not held back yet.
    fn wants_hold(&self, now: Instant, slot: Slot) -> bool {
        let Some(replication) = &self.table[slot].replication else {
            return false;
        };
        let is_leased = replication.is_leased(now, self.lease_waited());
        is_leased && replication.is_readable() && replication.hold.is_none()
    }

    /// The key changed: holds answers back if somebody may read a replica of what it was.
    pub(super) fn begin_hold(&mut self, now: Instant, slot: Slot) {
        if !self.is_atomic() || !self.wants_hold(now, slot) {
            return;
        }
        let hold = self.new_hold(now);
        if let Some(replication) = &mut self.table[slot].replication {
            replication.hold = Some(hold);
        }
    }

    fn new_hold(&mut self, since: Instant) -> Hold {
        let id = HoldId(self.next_hold);
        self.next_hold += 1;
        Hold { id, since }
    }

    /// Nobody can read any more what the key was.
    pub(super) fn end_hold(&mut self, now: Instant, slot: Slot, event: Event) {
        let entry = &mut self.table[slot];
        let state = entry.state;
        let replication = entry.replication.as_mut();
        let Some(hold) = replication.and_then(|replication| replication.hold.take()) else {
            return;
        };
        self.move_to(now, slot, event, state);
        self.released.push_back(Released {
            id: hold.id,
            lasted: now.since(hold.since),
            by: match event {
                Event::Prepared => ReleasedBy::Confirmation,
                _ => ReleasedBy::Lease,
            },
        });
    }

    /// When the last lease of a key is over whose answers are held back.
    pub(super) fn held_until(&self, slot: Slot) -> Option<Instant> {
        let replication = self.table[slot].replication.as_ref()?;
        let since = replication.hold?.since;
        Some(replication.last_grant.unwrap_or(since) + self.lease_waited())
    }

    /// A map may make this worker the home of more keys.
    pub(super) fn wait_for_former_homes(&mut self, now: Instant, epoch: Epoch) {
        let known = self.map.as_ref().map(|map| map.epoch());
        if !self.is_atomic() || known == Some(epoch) {
            return;
        }
        let hold = self.new_hold(now);
        let until = now + self.lease_waited();
        self.undated = true;
        self.quiet.push(Quiet {
            epoch,
            hold,
            until,
            undated: true,
        });
        self.next_due = self.next_due.min(until);
        self.update_care();
    }

    /// Former homes have no leases left.
    pub(super) fn end_quiet(&mut self, now: Instant) {
        let released = &mut self.released;
        self.quiet.retain(|quiet| {
            if now < quiet.until {
                return true;
            }
            released.push_back(Released {
                id: quiet.hold.id,
                lasted: now.since(quiet.hold.since),
                by: ReleasedBy::FormerHome,
            });
            false
        });
        let due = self.quiet.iter().map(|quiet| quiet.until);
        self.next_due = due.fold(self.next_due, Instant::min);
        self.update_care();
    }

    /// To be called when the replicated keys or the former homes changed.
    pub(super) fn update_care(&mut self) {
        self.careful = self.is_atomic() && !(self.replicated.is_empty() && self.quiet.is_empty());
    }
}
