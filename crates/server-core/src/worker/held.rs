//! Holds answers back while copies of their keys may be read, and lets them go. See [`held`](crate::mesh::held).

use crate::mesh::held::Whom;
use crate::session::{ConnectionId, Session};
use crate::shard::engine::At;
use crate::worker::core::WorkerCore;
use evenkeel_hotkeys::server::{HoldId, Released, ReleasedBy};
use evenkeel_types::Now;
use std::time::Duration;

/// Upper ends of the classes by which times of holding are counted, but the last.
const CLASSES: [Duration; 3] = [
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
];

impl WorkerCore {
    /// What the answer to a command on this key that was just carried out must wait for, if it must.
    #[cold]
    pub(crate) fn find_hold(&mut self, at: &At, key: &[u8]) -> Option<HoldId> {
        if !at.owned {
            return None;
        }
        let engine = &mut self.engine;
        let item = engine
            .store
            .peek_hashed(at.cachelet, key, at.table, at.seconds);
        let (present, hash) = (item.is_some(), at.key_hash(key));
        let now = at.now.monotonic;
        let hold = (engine.hot).hold_of(now, hash, key, present, at.since);
        engine.counters.answers_held += u64::from(hold.is_some());
        hold
    }

    /// Takes back what a command about all keys answered behind the first `before` bytes of the session's sink, if that
    /// must wait.
    pub(crate) fn hold_for_all(&mut self, id: ConnectionId, session: &mut Session, before: usize) {
        if self.engine.hot.holds().next().is_some() {
            let ticket = session.hold_back(before);
            let _ = self.wait_for_all(Whom::Here(id, ticket));
        }
    }

    /// Keeps an answer that concerns all keys until none is held back, or gives it back if there is none.
    pub(crate) fn wait_for_all(&mut self, whom: Whom) -> Option<Whom> {
        let mut behind: Vec<HoldId> = self.engine.hot.holds().collect();
        let Some(first) = behind.pop() else {
            return Some(whom);
        };
        self.engine.counters.answers_held += 1;
        self.held.add_behind(first, behind, whom);
        None
    }

    /// Lets go what need not be held any longer.
    pub(crate) fn release_held(&mut self, now: Now) {
        while let Some(released) = self.engine.hot.poll_released() {
            self.count_hold(&released);
            let hot = &self.engine.hot;
            let still = |id: &HoldId| hot.holds().any(|held| held == *id);
            for whom in self.held.release(released.id, still) {
                self.let_go(now, whom);
            }
        }
    }

    fn let_go(&mut self, now: Now, whom: Whom) {
        match whom {
            Whom::Here(id, ticket) => self.deliver(id, |session| session.let_go(ticket)),
            Whom::At {
                worker,
                connection,
                ticket,
                answer,
            } => self.answer_worker(worker, connection, ticket, &answer),
            Whom::Flush(flush) => self.pass_flush_on(now, flush),
        }
    }

    fn count_hold(&mut self, released: &Released) {
        let counters = &mut self.engine.counters;
        match released.by {
            ReleasedBy::FormerHome => return,
            ReleasedBy::Confirmation => counters.holds_confirmed += 1,
            ReleasedBy::Lease => counters.holds_by_lease += 1,
        }
        let micros = u64::try_from(released.lasted.as_micros()).unwrap_or(u64::MAX);
        counters.holds_us = counters.holds_us.saturating_add(micros);
        let class = CLASSES.partition_point(|end| *end <= released.lasted);
        *[
            &mut counters.holds_under_1ms,
            &mut counters.holds_under_10ms,
            &mut counters.holds_under_100ms,
            &mut counters.holds_longer,
        ][class] += 1;
    }
}
