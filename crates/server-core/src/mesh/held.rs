//! Answers that are held back, because copies of their key may still be read that look otherwise.
//!
//! [`HotKeys`](evenkeel_hotkeys::server::HotKeys) says for which keys and until when, and why. The
//! command is carried out; its answer keeps its place in the order of its connection, and what is answered
//! behind it waits there. So held answers count as what a client has not read: a connection with many of
//! them is paused like one that awaits other workers, and no other bound is needed.

use crate::mesh::handed_over::FlushGiven;
use crate::session::ConnectionId;
use crate::session::address::Ticket;
use evenkeel_hotkeys::server::HoldId;
use std::collections::BTreeMap;

/// Whom a held answer is for.
#[derive(Debug)]
pub(crate) enum Whom {
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
pub(crate) struct HeldAnswers {
    by_hold: BTreeMap<HoldId, Vec<Held>>,
}

impl HeldAnswers {
    /// Lists an answer.
    pub fn add(&mut self, hold: HoldId, whom: Whom) {
        self.add_behind(hold, Vec::new(), whom);
    }

    /// Lists an answer that has to wait for others, too.
    pub fn add_behind(&mut self, first: HoldId, behind: Vec<HoldId>, whom: Whom) {
        let held = Held { behind, whom };
        self.by_hold.entry(first).or_default().push(held);
    }

    /// Those whose answers may go, now that this is over; `still` says of what else they waited for whether it is not.
    pub fn release(&mut self, over: HoldId, still: impl Fn(&HoldId) -> bool) -> Vec<Whom> {
        let mut free = Vec::new();
        for mut held in self.by_hold.remove(&over).unwrap_or_default() {
            match core::iter::from_fn(|| held.behind.pop()).find(&still) {
                Some(next) => self.by_hold.entry(next).or_default().push(held),
                None => free.push(held.whom),
            }
        }
        free
    }
}
