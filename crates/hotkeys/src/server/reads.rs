//! Reads: counting, tracking, promoting, granting.

use core::time::Duration;

use evenkeel_types::{Instant, KeyHash, WorkerRef};

use super::{HotKeys, Mutant, PROMOTION_HOLD_OFF, ReadAdvice, Reader};
use crate::config::{Mode, gamma_for};
use crate::popularity::SLOT;
use crate::replication::Replication;
use crate::ssm::Slot;
use crate::state::{Event, State};
use evenkeel_placement::renaming;

/// No lease is granted of which less than this part is left: it ends before it is of use.
const LEFT_MIN_DIVISOR: u32 = 8;

impl HotKeys {
    #[inline(never)]
    pub(super) fn look_at_read(
        &mut self,
        now: Instant,
        hash: KeyHash,
        key: &[u8],
        reader: Reader,
        found: Option<usize>,
        sampled: bool,
    ) -> ReadAdvice {
        let slot = self.table.find(hash, key);
        if let Some(slot) = slot
            && self.table[slot].replication.is_some()
        {
            return self.read_replicated(now, slot, reader, found);
        }
        if sampled {
            self.stats.reads_sampled += 1;
            if let Some(bytes) = found {
                self.read_sampled(now, slot, (hash, key), reader, bytes);
            }
        }
        ReadAdvice::default()
    }

    fn read_replicated(
        &mut self,
        now: Instant,
        slot: Slot,
        reader: Reader,
        found: Option<usize>,
    ) -> ReadAdvice {
        let any_epoch = self.is(Mutant::GrantAnyEpoch);
        let map_epoch = self.map.as_ref().map(|map| map.epoch());
        let atomic = self.is_atomic();
        if found.is_none()
            && let Some(replication) = &mut self.table[slot].replication
        {
            // Expired or evicted, perhaps: what is there next is new since now.
            replication.differs_from(now);
        }
        let left = self.lease_left(now, slot);
        let entry = &mut self.table[slot];
        let advice = ReadAdvice {
            replicated: true,
            ..ReadAdvice::default()
        };
        let Some(replication) = &mut entry.replication else {
            return advice;
        };
        if let Some(bytes) = found {
            entry.popularity.see_value(bytes);
        }
        // Clients tell how many they have read at other copies: `handle_elsewhere`.
        entry.popularity.add(1.0);
        let Reader::Aware { epoch } = reader else {
            return advice;
        };
        let gamma = replication.gamma();
        let same_map = epoch == replication.epoch && Some(epoch) == map_epoch;
        let Some(left) = left.filter(|_| found.is_some() && (same_map || any_epoch)) else {
            return advice;
        };
        // One that is shortened ends when a whole one would have that was granted then.
        let as_of = now - (self.config.lease - left);
        replication.last_grant = replication.last_grant.max(Some(as_of));
        if atomic {
            replication.undated = true;
            self.undated = true;
        }
        self.stats.grants += 1;
        let is_whole = left == self.config.lease;
        ReadAdvice {
            gamma,
            left: (!is_whole).then_some(left),
            replicated: true,
        }
    }

    /// How long the copies of a key may be read from now on, if at all: a lease, or until a lease after the oldest change that one of
    /// them may lack. Then it is less than a lease even if that was just now, because it does not say that they have all.
    fn lease_left(&self, now: Instant, slot: Slot) -> Option<Duration> {
        let (entry, lease) = (&self.table[slot], self.config.lease);
        let may_grant = match entry.state {
            State::Hot => true,
            State::HotPending => !self.is_atomic(),
            _ => false,
        };
        let replication = entry.replication.as_ref().filter(|_| may_grant)?;
        if !replication.is_complete() && !self.is(Mutant::GrantUnconfirmed) {
            return None;
        }
        let is_whole = self.is(Mutant::WholeWhileBehind);
        let Some(since) = replication.differs_since().filter(|_| !is_whole) else {
            return Some(lease);
        };
        let over_ms = now.since(since).as_millis() as u64 + 1;
        let left = lease.checked_sub(Duration::from_millis(over_ms))?;
        (left >= lease / LEFT_MIN_DIVISOR).then_some(left)
    }

    /// A read of a key without replicas was chosen by chance.
    fn read_sampled(
        &mut self,
        now: Instant,
        slot: Option<Slot>,
        (hash, key): (KeyHash, &[u8]),
        reader: Reader,
        bytes: usize,
    ) {
        let slot = match slot {
            Some(slot) => {
                self.table.touch(slot);
                slot
            }
            None => match self.track(now, hash, key) {
                Some(slot) => slot,
                None => return,
            },
        };
        let weight = self.sampler.weight();
        let entry = &mut self.table[slot];
        entry.popularity.add(weight);
        entry.popularity.see_value(bytes);
        // Only aware clients can use replicas.
        let may = now >= entry.promote_after && reader != Reader::Unaware;
        if may && self.is_hot(slot) {
            self.promote(now, slot);
        }
    }

    /// Starts to track a key, in the place of the one not used for longest if need be.
    fn track(&mut self, now: Instant, hash: KeyHash, key: &[u8]) -> Option<Slot> {
        if self.table.is_full() {
            let Some(victim) = self.table.victim() else {
                self.stats.untracked_full += 1;
                return None;
            };
            self.dismiss(now, victim, Event::Evicted);
        }
        let slot = self.table.insert(now, hash, key);
        self.move_to(now, slot, Event::Tracked, State::Cold);
        Some(slot)
    }

    /// Creates replicas of a popular key that is present here, if this worker may.
    fn promote(&mut self, now: Instant, slot: Slot) {
        if !self.is_triggered() || self.proposed.contains_key(&slot) || !self.needs_relief() {
            return;
        }
        if self.replicated.len() + self.proposed.len() >= self.config.replicated_max {
            self.stats.unpromoted_full += 1;
            return;
        }
        let gamma = self.gamma_for(slot, 0.0);
        let targets = self.reachable_shadows(now, slot, gamma);
        let Some(map) = self.map.as_ref().filter(|_| !targets.is_empty()) else {
            self.stats.unpromoted_alone += 1;
            return;
        };
        if self.mode == Mode::Observe {
            return self.propose(now, slot, targets);
        }
        let mut replication = Replication::new(now, map.epoch(), &targets);
        replication.last_grant = self.leases_left.filter(|_| self.is_atomic());
        let entry = &mut self.table[slot];
        self.filter.insert(entry.hash);
        entry.replication = Some(Box::new(replication));
        self.table.set_evictable(slot, false);
        let at = self.replicated.partition_point(|&other| other < slot);
        self.replicated.insert(at, slot);
        self.taken_away += self.taken_away_of(slot);
        self.update_care();
        self.move_to(now, slot, Event::Promoted, State::HotPending);
        self.enqueue(slot);
        self.arm(slot);
    }

    /// γ by the heat of the key, relative to what a worker should carry, less `doubt` requests per slot.
    pub(super) fn gamma_for(&self, slot: Slot, doubt: f64) -> u8 {
        let Some(map) = &self.map else { return 0 };
        let popularity = &self.table[slot].popularity;
        let rate = (popularity.per_slot() - doubt) * popularity.cost() / SLOT.as_secs_f64();
        let fair = self
            .mean_worker_load
            .unwrap_or_else(|| self.load())
            .max(1.0);
        let (share, max) = (self.config.copy_share, self.config.gamma_max);
        let workers = map.replica_workers_besides(self.me.server);
        gamma_for(rate / fair, share, workers, max)
    }

    /// Shadow workers of a key, up to the first whose connection broke a moment ago: clients know
    /// them by number alone, so that none can be left out in between.
    pub(super) fn reachable_shadows(&self, now: Instant, slot: Slot, gamma: u8) -> Vec<WorkerRef> {
        let Some(map) = &self.map else {
            return Vec::new();
        };
        let entry = &self.table[slot];
        // What has come from another server before a map says so gets no copies: its clients would look for them at the
        // shadows of the server that the map names, where former ones may be left.
        let home = map.locate(entry.hash).worker;
        let is_of_server = home.is_some_and(|home| home.server == self.me.server);
        if !is_of_server || !self.hosts.is_host(map, self.me, entry.hash) {
            return Vec::new();
        }
        let mut shadows = renaming::shadows(map, &entry.key, self.me.server, gamma);
        let lost = |target| {
            self.lost
                .get(target)
                .is_some_and(|&at| now < at + PROMOTION_HOLD_OFF)
        };
        if let Some(first) = shadows.iter().position(lost) {
            shadows.truncate(first);
        }
        shadows
    }
}
