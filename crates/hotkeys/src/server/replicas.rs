//! Replicas: keeping them current, removing them, and every change of state.

use evenkeel_types::{Instant, WorkerRef};

use super::{HotKeys, PropagationTag};
use crate::config::rest_for;
use crate::popularity::SLOT;
use crate::replication::Replication;
use crate::ssm::{Filter, Slot};
use crate::state::{Event, State};

impl HotKeys {
    /// The replicas of a key have to hear of something.
    pub(super) fn propagate(&mut self, now: Instant, slot: Slot, event: Event) {
        let entry = &mut self.table[slot];
        let to = entry.state.pending();
        let Some(replication) = &mut entry.replication else {
            return;
        };
        replication.advance(now, event != Event::Written);
        replication.behind_since.get_or_insert(now);
        self.move_to(now, slot, event, to);
        self.begin_hold(now, slot);
        if event == Event::Written && !self.is_atomic() {
            self.enqueue_written(now, slot);
        } else {
            if let Some(replication) = &mut self.table[slot].replication {
                replication.end_rest();
            }
            self.enqueue(slot);
        }
        self.arm(slot);
    }

    /// Tells the shadows of a written key what they are owed, unless they rest. If any is told, all of them rest.
    pub(super) fn enqueue_written(&mut self, now: Instant, slot: Slot) {
        let entry = &self.table[slot];
        let Some(replication) = &entry.replication else {
            return;
        };
        if replication.rests(now) {
            return;
        }
        let copies = f64::from(replication.gamma()) + 1.0;
        let rate = entry.popularity.per_slot() / SLOT.as_secs_f64();
        let rest = rest_for(self.config.reads_per_store, copies, rate, self.config.lease);
        if self.enqueue(slot)
            && let Some(rest) = rest
            && let Some(replication) = &mut self.table[slot].replication
        {
            replication.begin_rest(now + rest);
        }
    }

    /// Moves on if every shadow worker has the newest round.
    pub(super) fn advance(&mut self, now: Instant, slot: Slot) {
        let entry = &mut self.table[slot];
        let Some(replication) = entry.replication.as_mut().filter(|r| r.is_current()) else {
            return;
        };
        if let Some(since) = replication.behind_since.take() {
            self.stats.copies_behind.record(now.since(since));
        }
        if replication.gone {
            self.end_replication(now, slot, Event::Removed);
        } else if entry.state == State::HotPending {
            self.move_to(now, slot, Event::Current, State::Hot);
            self.arm(slot);
        }
    }

    /// No more leases for a replicated key.
    pub(super) fn cool(&mut self, now: Instant, slot: Slot, event: Event) {
        if matches!(self.table[slot].state, State::Hot | State::HotPending) {
            self.move_to(now, slot, event, State::ColdPending);
            self.arm(slot);
        }
    }

    /// The last lease is over: removes the replicas that can be reached.
    pub(super) fn retire(&mut self, now: Instant, slot: Slot) {
        let Some(replication) = &mut self.table[slot].replication else {
            return;
        };
        replication.retiring = Some(now);
        let mut reachable = false;
        for (i, shadow) in (0u8..).zip(&mut replication.shadows) {
            if shadow.is_reachable() {
                reachable = true;
                if !core::mem::replace(&mut shadow.queued, true) {
                    self.outbox.push_back((slot, i));
                }
            }
        }
        if !reachable {
            self.end_replication(now, slot, Event::Retired);
        }
    }

    /// The key has no replicas any more that matter.
    pub(super) fn end_replication(&mut self, now: Instant, slot: Slot, event: Event) {
        self.move_to(now, slot, event, State::Cold);
        let ended = self.table[slot].replication.take();
        debug_assert!(ended.as_ref().is_none_or(|ended| ended.hold.is_none()));
        let is_behind = ended.as_ref().is_some_and(|r| r.behind_since.is_some());
        self.stats.copies_unconfirmed += u64::from(is_behind);
        self.leases_left = self.leases_left.max(ended.and_then(|r| r.last_grant));
        self.table.set_evictable(slot, true);
        self.outbox.retain(|&(other, _)| other != slot);
        self.replicated.retain(|&other| other != slot);
        self.filter = Filter::new();
        for &other in &self.replicated {
            self.filter.insert(self.table[other].hash);
        }
        self.update_care();
    }

    /// Stops tracking a COLD key.
    pub(super) fn dismiss(&mut self, now: Instant, slot: Slot, event: Event) {
        self.withdraw(now, slot, event);
        self.move_to(now, slot, event, State::Invalid);
        self.table.remove(slot);
    }

    /// Puts every shadow of a key that wants a message into the outbox. Whether there was any.
    pub(super) fn enqueue(&mut self, slot: Slot) -> bool {
        let Some(replication) = &mut self.table[slot].replication else {
            return false;
        };
        let held = replication.hold.is_some();
        let before = self.outbox.len();
        for (i, shadow) in (0u8..).zip(&mut replication.shadows) {
            if !shadow.queued && shadow.wants_message(held) {
                shadow.queued = true;
                self.outbox.push_back((slot, i));
            }
        }
        self.outbox.len() > before
    }

    /// The replicas that this message is on its way to, unless it is outdated.
    pub(super) fn replication_under_way(
        &mut self,
        target: WorkerRef,
        tag: PropagationTag,
    ) -> Option<&mut Replication> {
        let replication = self.table.get_mut(tag.slot)?.replication.as_deref_mut()?;
        replication.is_under_way(target, tag).then_some(replication)
    }

    /// The only place where a key changes its state.
    pub(super) fn move_to(&mut self, now: Instant, slot: Slot, event: Event, to: State) {
        self.note_move(now, slot, event, to);
        let entry = &mut self.table[slot];
        self.transitions.record(event, entry.state, to);
        if entry.state != to {
            entry.state = to;
            entry.since = now;
        }
    }
}
