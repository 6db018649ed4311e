//! Answers that are held back, because copies of their key may still be read that look otherwise.
//!
//! [`HotKeys`](evenkeel_hotkeys::server::HotKeys) says for which keys and until when, and why. The
//! command is carried out; its answer keeps its place in the order of its connection, and what is answered
//! behind it waits there. So held answers count as what a client has not read: a connection with many of
//! them is paused like one that awaits other workers, and no other bound is needed.

use super::engine::At;
use super::handover::FlushGiven;
use super::in_order::Ticket;
use super::session::{ConnectionId, Session};
use super::worker::WorkerCore;
use evenkeel_hotkeys::server::{HoldId, Released, ReleasedBy};
use evenkeel_types::Now;
use std::collections::BTreeMap;
use std::time::Duration;

/// Whom a held answer is for.
#[derive(Debug)]
pub(super) enum Whom {
    /// A connection of this worker. The answer is there already and lacks only the permission.
    Here(ConnectionId, Ticket),
    /// A connection of another worker.
    At {
        worker: u16,
        connection: ConnectionId,
        ticket: Ticket,
        answer: Vec<u8>,
    },
    /// A `flush_all`, of which this worker has done its share.
    Flush(FlushGiven),
}

/// A held answer.
#[derive(Debug)]
struct Held {
    /// What else it waits for, besides what it is listed under.
    behind: Vec<HoldId>,
    whom: Whom,
}

/// Every held answer of a worker, by what it waits for.
#[derive(Debug, Default)]
pub(super) struct HeldAnswers {
    by_hold: BTreeMap<HoldId, Vec<Held>>,
}

impl HeldAnswers {
    /// Lists an answer.
    pub fn add(&mut self, hold: HoldId, whom: Whom) {
        let behind = Vec::new();
        let held = Held { behind, whom };
        self.by_hold.entry(hold).or_default().push(held);
    }
}

/// Upper ends of the classes by which times of holding are counted, but the last.
const CLASSES: [Duration; 3] = [
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
];

impl WorkerCore {
    /// What the answer to a command on this key that was just carried out must wait for, if it must.
    #[cold]
    pub(super) fn find_hold(&mut self, at: &At, key: &[u8]) -> Option<HoldId> {
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
    pub(super) fn hold_for_all(&mut self, id: ConnectionId, session: &mut Session, before: usize) {
        if self.engine.hot.holds().next().is_some() {
            let ticket = session.hold_back(before);
            let _ = self.wait_for_all(Whom::Here(id, ticket));
        }
    }

    /// Keeps an answer that concerns all keys until none is held back, or gives it back if there is none.
    pub(super) fn wait_for_all(&mut self, whom: Whom) -> Option<Whom> {
        let mut behind: Vec<HoldId> = self.engine.hot.holds().collect();
        let Some(first) = behind.pop() else {
            return Some(whom);
        };
        self.engine.counters.answers_held += 1;
        let held = Held { behind, whom };
        self.held.by_hold.entry(first).or_default().push(held);
        None
    }

    /// Lets go what need not be held any longer.
    pub(super) fn release_held(&mut self, now: Now) {
        while let Some(released) = self.engine.hot.poll_released() {
            self.count_hold(&released);
            let mut list = self.held.by_hold.remove(&released.id).unwrap_or_default();
            for mut held in list.drain(..) {
                let still = |id: &HoldId| self.engine.hot.holds().any(|held| held == *id);
                let next = core::iter::from_fn(|| held.behind.pop()).find(still);
                match next {
                    Some(next) => self.held.by_hold.entry(next).or_default().push(held),
                    None => self.let_go(now, held.whom),
                }
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
