//! Time: slots of measurement, leases that end, shadow workers that stay silent.

use evenkeel_types::Instant;

use super::{HotKeys, Mutant, PROMOTION_HOLD_OFF};
use crate::config::sampling_for;
use crate::popularity::SLOT;
use crate::ssm::Slot;
use crate::state::{Event, State};

impl HotKeys {
    /// What happens at the end of a slot.
    pub(super) fn roll(&mut self, now: Instant) {
        let slot_ns = SLOT.as_nanos() as u64;
        let slots = now.since(self.next_slot).as_nanos() as u64 / slot_ns + 1;
        self.next_slot = Instant(self.next_slot.0.saturating_add(slots * slot_ns));
        let own = self.work.load();
        self.load.add(own + self.diverted.load());
        self.load.roll(now);
        self.own.add(own);
        self.own.roll(now);
        self.served.add(own + self.replica_reads.load());
        self.served.roll(now);
        self.told.add(self.replica_orders.load());
        self.told.roll(now);
        self.slept.roll(now);
        let sampling = sampling_for(
            self.config.sampling,
            self.work.requests as f64 / slots as f64,
        );
        self.sampler.set_probability(sampling * self.sampling_ratio);
        (self.work, self.diverted) = Default::default();
        (self.replica_reads, self.replica_orders) = Default::default();
        // Loaded is a worker that would be without its replicas, or that is with those of others.
        let load = self.load().max(self.served.per_second());
        let busy = self.busy();
        self.trigger.update(load, self.mean_worker_load, busy);
        self.log.measure(now, self.loads());
        self.update_sampler();
        self.lost.retain(|_, at| now < *at + PROMOTION_HOLD_OFF);
        for slot in self.table.slots() {
            let entry = &mut self.table[slot];
            entry.popularity.roll(slots);
            match entry.state {
                State::Cold if entry.popularity.is_zero() => self.dismiss(now, slot, Event::Faded),
                State::Cold if self.proposed.contains_key(&slot) => self.review_proposal(now, slot),
                State::Hot | State::HotPending => self.review(now, slot),
                _ => {}
            }
        }
        self.sum_taken_away();
    }

    /// Whether a key still deserves its replicas, or more of them.
    fn review(&mut self, now: Instant, slot: Slot) {
        let per_slot = self.table[slot].popularity.per_slot();
        if per_slot < 0.0 {
            self.cool(now, slot, Event::WriteHeavy);
        } else if self.has_cooled(slot) {
            self.cool(now, slot, Event::Cooled);
        } else if self.is_triggered() {
            self.widen(now, slot);
        }
    }

    /// Adds replicas to a key that needs more, and not by chance. The present
    /// ones stay what they are, since those of γ are the first of those of a greater γ. Writes may be on their way to them.
    fn widen(&mut self, now: Instant, slot: Slot) {
        let wanted = self.gamma_for(slot, self.doubt(slot));
        let targets = self.reachable_shadows(now, slot, wanted);
        let Some(replication) = &mut self.table[slot].replication else {
            return;
        };
        // Until the last ones that were added are there nobody can tell what they take away; and of a deleted key all go.
        if !replication.is_complete() || replication.gone {
            return;
        }
        let (present, wanted) = (replication.shadows.len(), targets.len());
        if wanted <= present {
            return;
        }
        self.note_widening(now, slot, targets.len());
        let Some(replication) = &mut self.table[slot].replication else {
            return;
        };
        replication.widen(now, &targets[present..]);
        self.move_to(now, slot, Event::Widened, State::HotPending);
        self.enqueue(slot);
        self.arm(slot);
    }

    pub(super) fn handle_due(&mut self, now: Instant, slot: Slot) {
        if self.held_until(slot).is_some_and(|at| at <= now) {
            self.end_hold(now, slot, Event::LeasesOver);
        }
        let lease = self.lease_waited();
        let Some(replication) = &mut self.table[slot].replication else {
            return;
        };
        replication.retry(now);
        if replication.renew_at <= now {
            replication.renew(now);
        }
        let silent = replication
            .owed_since()
            .is_some_and(|since| since + lease <= now);
        if silent && self.table[slot].state == State::HotPending {
            self.table[slot].promote_after = now + PROMOTION_HOLD_OFF;
            self.cool(now, slot, Event::ShadowSilent);
        }
        if self.retire_at(slot).is_some_and(|at| at <= now) {
            self.retire(now, slot);
        } else {
            self.end_rest(now, slot);
            self.arm(slot);
        }
    }

    /// Tells the shadows of a key what is due: written values after a rest, and whatever else in any case.
    fn end_rest(&mut self, now: Instant, slot: Slot) {
        let Some(replication) = &mut self.table[slot].replication else {
            return;
        };
        match replication.rests_until() {
            Some(until) if until <= now => {
                replication.end_rest();
                self.enqueue_written(now, slot);
            }
            Some(_) => {}
            None => {
                self.enqueue(slot);
            }
        }
    }

    /// Makes sure that [`poll_deadline`](Self::poll_deadline) is not later than the next thing that
    /// this key waits for.
    pub(super) fn arm(&mut self, slot: Slot) {
        let Some(replication) = &self.table[slot].replication else {
            return;
        };
        let owed = replication
            .owed_since()
            .filter(|_| self.table[slot].state == State::HotPending);
        let silent = owed.map(|since| since + self.lease_waited());
        let due = [
            Some(replication.renew_at),
            replication.retry_at(),
            replication.rests_until(),
            silent,
            self.retire_at(slot),
            self.held_until(slot),
        ];
        self.next_due = due.into_iter().flatten().fold(self.next_due, Instant::min);
    }

    /// When the last lease for a key in COLD PENDING is over; `None` in other states.
    fn retire_at(&self, slot: Slot) -> Option<Instant> {
        let entry = &self.table[slot];
        let replication = entry.replication.as_ref()?;
        let cold = entry.state == State::ColdPending && replication.retiring.is_none();
        let waits = !self.is(Mutant::RetireAtOnce);
        cold.then(|| {
            replication
                .last_grant
                .filter(|_| waits)
                .map_or(Instant(0), |at| at + self.lease_waited())
        })
    }

    pub(super) fn update_sampler(&mut self) {
        let active = self.is_triggered();
        self.sampler.set_active(active);
    }
}
