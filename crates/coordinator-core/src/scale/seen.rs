//! What decisions are made of, besides the state: what is measured, what the pool has, what the actuator has done and says.

use std::collections::BTreeMap;

use super::measure::Measures;

/// What is known at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// What was measured.
    pub measures: Measures,
    /// Servers of the pool by address, as it knows them: those that own a slice, and those that come or go.
    pub pool: BTreeMap<String, PoolServer>,
    /// What the actuator runs, as it has said last: the address of each name. Absent while it says nothing of use.
    pub listed: Option<BTreeMap<String, String>>,
    /// What came of an act since the last decision.
    pub outcome: Option<Outcome>,
    /// An operator has approved since then.
    pub is_approved: bool,
}

/// A server of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolServer {
    /// What it has of it.
    pub part: Part,
    /// Some proxy does not reach it.
    pub is_unreached: bool,
}

/// What a server has of a pool. Who has nothing is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// It gets some by a plan that is under way or waits.
    Comes,
    /// It owns some.
    Owns,
    /// It owns some until a plan has ended that is under way or waits.
    Leaves,
}

/// What is to be done next. Each can be done again and is done once: the actuator's by the name, the pool's by the address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// The actuator is to start a server by this name, or to say where it runs.
    Start {
        /// The name.
        name: String,
    },
    /// The server is to answer `version` and the marks' trial.
    Try {
        /// Where it is.
        address: String,
    },
    /// The pool is to take the server.
    Join {
        /// Where it is.
        address: String,
    },
    /// The pool is to let go of it.
    Drain {
        /// Where it is.
        address: String,
    },
    /// The actuator is to stop the server of this name, or to say that there is none.
    Stop {
        /// The name.
        name: String,
    },
}

/// What came of an act.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The actuator runs a server of this name.
    Started {
        /// The name.
        name: String,
        /// Where it is.
        address: String,
    },
    /// Any other is done, or was ordered.
    Done(Act),
    /// It failed, or it is not known what came of it; why.
    Failed(Act, String),
}

impl Seen {
    /// Servers that own a slice and are to keep it. O(servers).
    pub(super) fn servers(&self) -> usize {
        let keep = |server: &&PoolServer| server.part == Part::Owns;
        self.pool.values().filter(keep).count()
    }

    /// What the server at an address has of the pool.
    pub(super) fn part(&self, address: &str) -> Option<Part> {
        self.pool.get(address).map(|server| server.part)
    }

    /// Whether a server comes or goes.
    pub(super) fn is_changing(&self) -> bool {
        let changes = |server: &PoolServer| server.part != Part::Owns;
        self.pool.values().any(changes)
    }

    /// A server besides this one that some proxy does not reach.
    pub(super) fn unreached_besides(&self, address: &str) -> Option<&str> {
        let is_other =
            |(at, server): &(&String, &PoolServer)| server.is_unreached && *at != address;
        let mut others = self.pool.iter().filter(is_other);
        others.next().map(|(at, _)| at.as_str())
    }

    /// Why this act has failed, if it has.
    pub(super) fn failure(&self, of: impl Fn(&Act) -> bool) -> Option<&str> {
        match &self.outcome {
            Some(Outcome::Failed(act, why)) if of(act) => Some(why),
            _ => None,
        }
    }

    pub(super) fn is_done(&self, of: impl Fn(&Act) -> bool) -> bool {
        matches!(&self.outcome, Some(Outcome::Done(act)) if of(act))
    }
}
