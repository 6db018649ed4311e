//! What a history can do wrong.

use super::{Nanos, Operation};
use core::fmt;

/// The promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A connection was shown something older than it had written or deleted itself.
    ReadYourWrites,
    /// A connection was shown something older than it had been shown before.
    MonotonicReads,
    /// A read found a value that had been replaced for longer than the staleness bound.
    Stale,
    /// A read found a value that had been deleted or lost for longer than the staleness bound.
    Resurrected,
    /// A read found what nobody wrote, or a write that was refused, or one not yet begun.
    Invented,
    /// A write was confirmed that no home had executed by then.
    NotApplied,
    /// A write was executed more than once.
    AppliedTwice,
    /// A `cas` replaced something other than the value it was for.
    CasBroken,
    /// One version was given to two values, or two versions to one.
    VersionReused,
    /// A later write got a smaller version.
    VersionWentBack,
}

/// A broken promise, with what shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub kind: Kind,
    /// The key, by number.
    pub key: u16,
    /// The operation at which it shows, if it shows at one.
    pub operation: Option<Operation>,
    /// What it contradicts.
    pub because: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of key {}: ", self.kind, self.key)?;
        if let Some(op) = &self.operation {
            let (sent, answered) = (Millis(op.invoked), Millis(op.completed));
            write!(
                f,
                "client {}, {:?}, sent at {sent}, answered at {answered}; ",
                op.client, op.action
            )?;
        }
        f.write_str(&self.because)
    }
}

/// A time to be read by people.
pub(super) struct Millis(pub(super) Nanos);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Nanos::MAX => f.write_str("never"),
            nanos => write!(f, "{}.{:06} ms", nanos / 1_000_000, nanos % 1_000_000),
        }
    }
}
