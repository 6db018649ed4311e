//! Carries out commands while somebody looks on.

use crate::observe::deed::Deed;
use crate::observe::deed::Seen;
use crate::session::ConnectionId;
use crate::shard::engine::At;
use crate::shard::prefixes::PrefixCounts;
use crate::worker::core::WorkerCore;
use evenkeel_types::Now;

impl WorkerCore {
    /// Carries a command out while somebody looks on, and tells what became of it.
    pub(crate) fn observed(
        &mut self,
        at: &At,
        key: &[u8],
        deed: Deed,
        carry_out: impl FnOnce(&mut WorkerCore),
    ) {
        self.observers.die_of(key);
        let before = Seen::of(&self.engine, at, key);
        let newest = self.engine.newest_version();
        let (too_large, no_memory) = self.refusals();
        carry_out(self);
        let after = Seen::of(&self.engine, at, key);
        let (too_large_after, no_memory_after) = self.refusals();
        let observers = &mut self.observers;
        observers.saw_lookup(at.now, key, &before);
        let mut counts = PrefixCounts::default();
        match deed {
            Deed::Read => {
                counts.get = 1;
                counts.hit = u64::from(before.found());
            }
            Deed::Store(command, len) => {
                counts.set = 1;
                let changed =
                    before.version() != after.version() || newest != self.engine.newest_version();
                let status = match (command, before.found()) {
                    _ if too_large != too_large_after => "too_large",
                    _ if no_memory != no_memory_after => "no_memory",
                    _ if changed => "stored",
                    ("cas", true) => "exists",
                    ("cas", false) => "not_found",
                    _ => "not_stored",
                };
                let (size, ttl) = match (status, after.item) {
                    ("stored", Some(_)) => (after.size(), after.ttl()),
                    _ => ((0, len), 0),
                };
                observers.saw_store(at.now, key, (command, status), size, ttl);
            }
            Deed::Delete(command) => {
                counts.del = 1;
                if before.found() && !after.found() {
                    observers.saw_delete(at.now, key, command, &before);
                }
            }
            Deed::Count => {
                if !before.found() && after.found() {
                    let words = ("add", "stored");
                    observers.saw_store(at.now, key, words, after.size(), after.ttl());
                }
            }
            Deed::Other => {}
        }
        observers.count_prefix(key, &counts);
    }

    /// A value was refused while its command was read.
    pub(crate) fn observe_refusal(&mut self, now: Now, key: &[u8]) {
        let words = ("set", "too_large");
        self.observers.saw_store(now, key, words, (0, 0), 0);
    }

    /// Whose commands follow: a connection of that worker, or nobody's.
    #[inline]
    pub(crate) fn note_asking(&mut self, worker: u16, connection: Option<ConnectionId>) {
        if self.observers.is_on() {
            let number = connection.map(|id| self.number_at(worker, id));
            self.observers.set_asking(number.unwrap_or(0));
        }
    }

    fn refusals(&self) -> (u64, u64) {
        let counters = &self.engine.counters;
        (counters.store_too_large, counters.store_no_memory)
    }
}
