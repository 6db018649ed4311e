//! What applications asked and what they were told, and whether that can be.
//!
//! A history is a list of operations, each with the time at which it was sent and the time at which
//! its answer was complete, on one true clock. Where the truth is known besides (a simulator sees
//! every home server execute every write), the *log* of the homes goes with it, and the checks
//! become exact. Without a log (real processes) the order of two writes is known when their versions
//! are, or when one was answered before the other was sent; whatever may be concurrent is given the
//! benefit of the doubt, so that every violation told is one.
//!
//! What a cache may do is allowed: a miss at any time, an error whose write may or may not have
//! happened, now or much later. What is checked is said in [`Kind`], one variant for each promise.
//!
//! Where the copies of a key are to look like one, [`check_linearizable`] asks more. [`check_acknowledged`] asks less: it knows nothing of sessions, homes
//! and versions.
//!
//! The checker is pure and quick, O(n log n) for n operations, so that it can judge a second of a
//! real cluster's work as well as a simulated run.

mod acknowledged;
mod check;
mod key;
mod linear;
mod violation;

pub use acknowledged::check_acknowledged;
pub use check::{Checked, check};
pub use linear::{Linear, Unlinearizable, check_linearizable};
pub use violation::{Kind, Violation};

/// Names a value that some client tried to write. Unique in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

/// A point in time, in nanoseconds on the one clock that all operations were timed with.
pub type Nanos = u64;

/// The time of what never happened, such as an answer that did not come.
pub const NEVER: Nanos = Nanos::MAX;

/// One operation of a client on one key. What concerns several keys (a multi-get, `flush_all`) is
/// one operation for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The client: one application connection. A connection that is opened anew is another client.
    pub client: u32,
    /// The key, by number.
    pub key: u16,
    /// Not later than the first byte was sent.
    pub invoked: Nanos,
    /// Not earlier than the last byte of the answer was there; [`NEVER`] without one.
    pub completed: Nanos,
    /// What was asked, and what came of it.
    pub action: Action,
}

/// What a client asked for, and what it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A read.
    Read(Found),
    /// A new value.
    Write {
        /// Which.
        id: WriteId,
        /// The value that must be replaced for the write to happen (`cas`).
        expects: Option<WriteId>,
        /// What the client knows of it.
        effect: Effect,
    },
    /// A removal.
    Delete(Effect),
}

/// What a read was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A value.
    Value {
        /// Which.
        write: WriteId,
        /// Its version, if the client asked for it.
        version: Option<u64>,
    },
    /// Nothing.
    Miss,
    /// No answer, or an error.
    Unknown,
}

/// What is known of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It happened between sending and answer.
    Done {
        /// The version it was given, if the answer told.
        version: Option<u64>,
    },
    /// It did not happen and never will.
    None,
    /// It happened at any time since, or will happen, or never.
    Unknown,
}

/// A change that a home server executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The key, by number.
    pub key: u16,
    /// When.
    pub at: Nanos,
    /// What the key was from then on; `None` when there was nothing any more (deleted, flushed, or
    /// lost with its home).
    pub state: Option<WriteId>,
}

/// A time in which a key may have been nothing because its value may have expired: servers count
/// whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lapse {
    /// The key, by number.
    pub key: u16,
    /// Not before.
    pub from: Nanos,
    /// By then it was certainly something else.
    pub to: Nanos,
}

/// A history.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In the order in which each client sent them, which is the order of its answers. The order
    /// among clients is of no matter.
    pub operations: Vec<Operation>,
    /// Everything that homes executed, in the order of time; `None` where nobody watched.
    pub log: Option<Vec<Applied>>,
    /// When values may have expired. The log has them gone when they must be.
    pub lapses: Vec<Lapse>,
}

/// What has to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// How long after a value was replaced a read may be sent that still finds it, in nanoseconds.
    pub staleness: Nanos,
    /// Whether a miss says that there was nothing. Not so where an unreachable home is answered as
    /// a miss. Of use with a log alone.
    pub misses_are_true: bool,
}

#[cfg(test)]
mod tests;
