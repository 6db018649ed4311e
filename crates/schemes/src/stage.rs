//! How far a pool has come on its way from its former servers to its own.
//!
//! What a key's commands do changes in [stages](Stage), of which each two neighbours are safe side by side, for as long as it takes, and
//! no two that stand further apart. So a stage begins when everybody has left the one before the present: see
//! [`Change`](crate::change::Change). The search in `tests/warm/` goes through all of them.

use core::fmt;
use serde::{Deserialize, Serialize};

/// Where commands of a pool go.
///
/// | stage | reads | writes |
/// |---|---|---|
/// | `former` | the former servers alone | the former servers alone |
/// | `quiesced` | wait | wait |
/// | `warming` | here, and what is not here is brought | delete at the former servers, then here |
/// | `closing` | here | delete at the former servers, then here |
/// | `done` | here | here |
///
/// Reads wait in `quiesced`, too: a store that its proxy has given up may still arrive at a former server, so what a read found there could
/// be gone for others already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The former servers alone are asked.
    Former,
    /// Nobody is asked.
    Quiesced,
    /// What is not here is brought.
    Warming,
    /// Nothing is brought any more.
    Closing,
    /// The former servers are not asked any more.
    Done,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Stage; 5] = [
        Stage::Former,
        Stage::Quiesced,
        Stage::Warming,
        Stage::Closing,
        Stage::Done,
    ];

    /// The one behind it.
    pub fn next(self) -> Option<Stage> {
        let at = Stage::ALL.iter().position(|stage| *stage == self)?;
        Stage::ALL.get(at + 1).copied()
    }

    /// The one to which it can be taken back. Behind `quiesced` items are here that the former servers do not have.
    pub fn withdrawn(self) -> Option<Stage> {
        (self == Stage::Quiesced).then_some(Stage::Former)
    }

    /// Whether what is not here is looked for at the former servers, and brought.
    #[inline]
    pub fn fills(self) -> bool {
        self == Stage::Warming
    }

    /// Whether a command that may change something takes several steps.
    #[inline]
    pub fn takes_steps(self) -> bool {
        matches!(self, Stage::Warming | Stage::Closing)
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Former => "former",
            Stage::Quiesced => "quiesced",
            Stage::Warming => "warming",
            Stage::Closing => "closing",
            Stage::Done => "done",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What uniques of former servers are shown with, as long as these alone are asked: no server's count comes so far. So one that was read
/// there fits nothing at the pool's own servers, which count by themselves.
pub const FORMER_UNIQUES: u64 = 1 << 62;

/// A stage as it is published: versions of one pool's change only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Step {
    /// Its number, from 1.
    pub version: u64,
    /// What everybody is to work by.
    pub stage: Stage,
}

impl Step {
    /// The first of every change.
    pub const FIRST: Step = Step {
        version: 1,
        stage: Stage::Former,
    };
}
