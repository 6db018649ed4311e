//! Keeping the log of what is done about hot keys, and [`Mode::Observe`](super::Mode::Observe), in
//! which the log is all that is done.

use evenkeel_types::{Instant, WorkerRef};

use super::HotKeys;
use crate::log::{HotKeyAction, LogEntry};
use crate::popularity::SLOT;
use crate::ssm::Slot;
use crate::state::{Event, State};

impl HotKeys {
    /// Logs a move that begins or ends the replication of a key. To be called before the move.
    pub(super) fn note_move(&mut self, now: Instant, slot: Slot, event: Event, to: State) {
        let entry = &self.table[slot];
        let gamma = entry.replication.as_ref().map_or(0, |r| r.gamma());
        let spreads = |state| matches!(state, State::Hot | State::HotPending);
        match (spreads(entry.state), spreads(to)) {
            (false, true) => {
                self.stats.promoted += 1;
                self.note(now, slot, (HotKeyAction::Promoted, event), (0, gamma));
            }
            (true, false) => {
                self.stats.retired += 1;
                self.note(now, slot, (HotKeyAction::Retired, event), (gamma, 0));
            }
            _ => {}
        }
    }

    /// Logs that a key gets this many replicas instead of those that it has.
    pub(super) fn note_widening(&mut self, now: Instant, slot: Slot, wanted: usize) {
        let gamma = self.table[slot]
            .replication
            .as_ref()
            .map_or(0, |r| r.gamma());
        // At most `gamma_max`, which is a byte.
        let wanted = u8::try_from(wanted).unwrap_or(u8::MAX);
        self.stats.widened += 1;
        self.note(
            now,
            slot,
            (HotKeyAction::Widened, Event::Widened),
            (gamma, wanted),
        );
    }

    /// Logs that a key would get replicas.
    pub(super) fn propose(&mut self, now: Instant, slot: Slot, targets: Vec<WorkerRef>) {
        let gamma = u8::try_from(targets.len()).unwrap_or(u8::MAX);
        self.stats.would_promote += 1;
        let what = (HotKeyAction::WouldPromote, Event::Promoted);
        self.note(now, slot, what, (0, gamma));
        self.proposed.insert(slot, targets);
        self.taken_away += self.taken_away_of(slot);
    }

    /// A key that would have had replicas would have them no more, if it is one.
    pub(super) fn withdraw(&mut self, now: Instant, slot: Slot, event: Event) {
        if let Some(targets) = self.proposed.remove(&slot) {
            let gamma = u8::try_from(targets.len()).unwrap_or(u8::MAX);
            self.note(now, slot, (HotKeyAction::WouldRetire, event), (gamma, 0));
        }
    }

    /// No key is observed any more.
    pub(super) fn withdraw_proposals(&mut self, now: Instant) {
        while let Some((&slot, _)) = self.proposed.first_key_value() {
            self.withdraw(now, slot, Event::SwitchedOff);
        }
    }

    /// Whether a key would still deserve its replicas: as [`HotKeys::review`] judges real ones.
    pub(super) fn review_proposal(&mut self, now: Instant, slot: Slot) {
        let per_slot = self.table[slot].popularity.per_slot();
        if per_slot < 0.0 {
            self.withdraw(now, slot, Event::WriteHeavy);
        } else if self.has_cooled(slot) {
            self.withdraw(now, slot, Event::Cooled);
        }
    }

    fn note(&mut self, now: Instant, slot: Slot, what: (HotKeyAction, Event), gammas: (u8, u8)) {
        let entry = &self.table[slot];
        self.log.push(LogEntry {
            number: 0,
            at: now,
            action: what.0,
            cause: what.1,
            key: entry.key.clone(),
            gamma_before: gammas.0,
            gamma: gammas.1,
            rate: entry.popularity.load_per_slot() / SLOT.as_secs_f64(),
            before: self.loads(),
            after: None,
        });
    }
}
