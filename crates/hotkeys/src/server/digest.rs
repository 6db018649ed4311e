//! What the exhaustive model takes for the state of a [`HotKeys`]: all that decides what it will do,
//! under settings by which popularity hardly decides anything.
//!
//! Left out are statistics, the log, and what only the settings could make matter: with thresholds of
//! zero and writes without weight it is of no account how much of anything was counted, only whether
//! anything was. Serials and rounds are compared for equality alone, so that it suffices whether a
//! message under way is the awaited one ([`HotKeys::awaits`]) and carries the newest round. What lies
//! beyond the model's last moment (`HORIZON`) never comes.

use core::hash::{Hash, Hasher};

use super::*;

/// How far ahead a model of this crate may look: no replica is renewed and no hold-off ends before.
pub(crate) const HORIZON: Duration = Duration::from_secs(3);

const _: () = assert!(HORIZON.as_secs() < PROMOTION_HOLD_OFF.as_secs());

impl HotKeys {
    /// Whether that message to that worker is the one whose confirmation is awaited.
    pub(crate) fn awaits(&self, target: WorkerRef, tag: PropagationTag) -> bool {
        let known = |slot: &Slot| *slot == tag.slot;
        let slot = self.replicated.iter().find(|slot| known(slot));
        let replication = slot.and_then(|&slot| self.table[slot].replication.as_ref());
        replication.is_some_and(|replication| replication.is_under_way(target, tag))
    }

    /// Counts moves from now on.
    pub(crate) fn reset_transitions(&mut self) {
        self.transitions = no_transitions();
    }

    /// State of a key; [`State::Invalid`] if it is not tracked.
    pub(crate) fn state_of(&self, hash: KeyHash, key: &[u8]) -> State {
        let slot = self.table.find(hash, key);
        slot.map_or(State::Invalid, |slot| self.table[slot].state)
    }

    /// Hashes the state at a time. Nothing may wait to be polled.
    pub(crate) fn digest(&self, now: Instant, state: &mut impl Hasher) {
        assert!(self.outbox.is_empty() && self.released.is_empty() && self.proposed.is_empty());
        assert!(self.config.write_weight == 0.0 && self.config.certainty == 0.0);
        assert!(self.config.trigger.absolute_rps == Some(0.0));
        assert!(self.config.hot_share == 0.0 && self.config.sampling == Some(1.0));
        let lease = self.lease_waited();
        let over = |at: Instant| at + lease <= now;
        self.map.as_ref().map(|map| map.epoch()).hash(state);
        (self.mode as u8, self.is_triggered(), self.undated).hash(state);
        let deadline = self.poll_deadline().max(now);
        deadline.min(now + HORIZON).hash(state);
        (self.next_slot, self.leases_left.filter(|&at| !over(at))).hash(state);
        for &worker in self.lost.keys() {
            worker.hash(state);
        }
        for quiet in &self.quiet {
            quiet.digest(state);
        }
        for slot in self.table.slots() {
            let entry = &self.table[slot];
            (entry.hash, entry.state as u8, entry.popularity.signs()).hash(state);
            (now < entry.promote_after).hash(state);
            if let Some(replication) = &entry.replication {
                replication.digest(over, state);
            }
        }
    }
}
