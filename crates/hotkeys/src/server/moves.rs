//! Cachelets that pass from one worker of a server to another, with the keys in them.
//!
//! The new host knows nothing of the leases that the former one has granted. With leases alone it need not:
//! each of them was granted before the move, so that no client reads what is more than a lease old, whatever
//! the new host does; and it orders its versions behind those of the former host. With atomic writes
//! it would have to wait for them, so a cachelet stays where it is until its keys have no replicas.
//!
//! Replicas are left behind at their shadow workers. Nobody reads them when the last lease is over, and an
//! order to remove them could come after a store of the new host.

use evenkeel_types::{CacheletId, Instant};

use super::{HotKeys, PROMOTION_HOLD_OFF};
use crate::ssm::Slot;
use crate::state::Event;

impl HotKeys {
    /// Tells that a cachelet is to pass to another worker of the server. True when it may; otherwise its
    /// keys are on their way to have no replicas any more, and it is to be asked again.
    pub fn prepare_to_leave(&mut self, now: Instant, cachelet: CacheletId) -> bool {
        if !self.is_atomic() {
            return true;
        }
        if !self.quiet.is_empty() {
            return false;
        }
        let mut may = true;
        for slot in self.slots_of(cachelet) {
            self.table[slot].promote_after = now + PROMOTION_HOLD_OFF;
            may &= self.table[slot].replication.is_none();
            self.cool(now, slot, Event::Leaving);
        }
        may
    }

    /// Tells that a cachelet has passed to another worker of the server, whose `home` this worker is or not.
    pub fn handle_left(&mut self, now: Instant, cachelet: CacheletId, home: bool) {
        for slot in self.slots_of(cachelet) {
            if self.table[slot].replication.is_some() {
                self.end_replication(now, slot, Event::Left);
            }
            self.dismiss(now, slot, Event::Left);
        }
        self.hosts.note(cachelet, home, false);
    }

    /// Tells that a cachelet has come from another worker of the server, whose `home` this worker is or not.
    pub fn handle_came(&mut self, cachelet: CacheletId, home: bool) {
        self.hosts.note(cachelet, home, true);
    }

    /// Tells that the host of a cachelet is the worker that the map names, or that the map gives it to
    /// another server. To be told before the map is.
    pub fn handle_host_by_map(&mut self, cachelet: CacheletId) {
        self.hosts.forget(cachelet);
    }

    /// The tracked keys of a cachelet. O(tracked keys). None without a map, by which nothing is replicated.
    fn slots_of(&self, cachelet: CacheletId) -> Vec<Slot> {
        let Some(map) = &self.map else {
            return Vec::new();
        };
        let is_in = |slot: &Slot| map.locate(self.table[*slot].hash).cachelet == cachelet;
        self.table.slots().into_iter().filter(is_in).collect()
    }
}
