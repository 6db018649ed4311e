//! Answers that are held back, because copies of their key may still be read that look otherwise.
//!
//! [`HotKeys`](evenkeel_hotkeys::server::HotKeys) says for which keys and until when, and why. The
//! command is executed; its answer keeps its place in the order of its connection, and what is answered
//! behind it waits there. So held answers count as what a client has not read: a connection with many of
//! them is paused like one that awaits other workers, and no other bound is needed.

use crate::mesh::forwarded::Answers;
use crate::mesh::handed_over::FlushGiven;
use crate::mesh::outbox::Outbox;
use crate::session::address::Ticket;
use crate::session::connections::Connections;
use crate::session::{ConnectionId, Session};
use crate::shard::counters::Counters;
use crate::shard::engine::Engine;
use evenkeel_hotkeys::server::{HoldId, Released, ReleasedBy};
use std::collections::BTreeMap;
use std::time::Duration;

/// Upper ends of the classes by which times of holding are counted, but the last.
const CLASSES: [Duration; 3] = [
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
];

/// Who a held answer is for.
#[derive(Debug)]
pub(crate) enum Recipient {
    /// A connection of this worker. The answer is there already and waits only for its release.
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
    recipient: Recipient,
}

/// Every held answer of a worker, by what it waits for.
#[derive(Debug, Default)]
pub(crate) struct HeldAnswers {
    by_hold: BTreeMap<HoldId, Vec<Held>>,
}

impl HeldAnswers {
    /// Lists an answer.
    pub fn add(&mut self, hold: HoldId, recipient: Recipient) {
        self.add_behind(hold, Vec::new(), recipient);
    }

    /// Takes back what a command about all keys answered behind the first `before` bytes of the session's sink, if that
    /// must wait.
    pub fn hold_for_all(&mut self, engine: &mut Engine, session: &mut Session, before: usize) {
        if engine.hot.holds().next().is_some() {
            let ticket = session.hold_back(before);
            let _ = self.wait_for_all(engine, Recipient::Here(session.id, ticket));
        }
    }

    /// Keeps a `flush_all` while answers are held back, or gives it back.
    pub fn hold_flush(&mut self, engine: &mut Engine, flush: FlushGiven) -> Option<FlushGiven> {
        if flush.to.is_none() || !engine.hot.is_careful() {
            return Some(flush);
        }
        match self.wait_for_all(engine, Recipient::Flush(flush)) {
            Some(Recipient::Flush(flush)) => Some(flush),
            _ => None,
        }
    }

    /// Keeps an answer that concerns all keys until none is held back, or gives it back if there is none.
    fn wait_for_all(&mut self, engine: &mut Engine, recipient: Recipient) -> Option<Recipient> {
        let mut behind: Vec<HoldId> = engine.hot.holds().collect();
        let Some(first) = behind.pop() else {
            return Some(recipient);
        };
        engine.counters.answers_held += 1;
        self.add_behind(first, behind, recipient);
        None
    }

    /// Lists an answer that has to wait for others, too.
    fn add_behind(&mut self, first: HoldId, behind: Vec<HoldId>, recipient: Recipient) {
        let held = Held { behind, recipient };
        self.by_hold.entry(first).or_default().push(held);
    }

    /// Lets go what need not be held any longer.
    pub fn release(
        &mut self,
        engine: &mut Engine,
        outbox: &mut Outbox,
        connections: &mut Connections,
    ) {
        while let Some(released) = engine.hot.poll_released() {
            count(&mut engine.counters, &released);
            let still = |id: &HoldId| engine.hot.holds().any(|held| held == *id);
            for recipient in self.take(released.id, still) {
                match recipient {
                    Recipient::Here(id, ticket) => {
                        connections.deliver(id, |session| session.let_go(ticket));
                    }
                    Recipient::At {
                        worker,
                        connection,
                        ticket,
                        answer,
                    } => {
                        let answers = Answers::one(connection, ticket, &answer);
                        outbox.answer(connections, worker, answers);
                    }
                    Recipient::Flush(flush) => outbox.pass_flush_on(connections, flush),
                }
            }
        }
    }

    /// Those whose answers may go, now that this is over; `still` says of what else they waited for whether it is not.
    fn take(&mut self, over: HoldId, still: impl Fn(&HoldId) -> bool) -> Vec<Recipient> {
        let mut free = Vec::new();
        for mut held in self.by_hold.remove(&over).unwrap_or_default() {
            match core::iter::from_fn(|| held.behind.pop()).find(&still) {
                Some(next) => self.by_hold.entry(next).or_default().push(held),
                None => free.push(held.recipient),
            }
        }
        free
    }
}

fn count(counters: &mut Counters, released: &Released) {
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
