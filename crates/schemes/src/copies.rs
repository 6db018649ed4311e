//! Copies of items on other servers of their pool, so that wide multi-gets ask few servers (Replicate and Bundle, Raindel and Birk, IPDPS 2013).
//!
//! The item at its *home* is the only authority. Copies are read, filled and refreshed while they are switched on, and every write deletes them
//! between what it does at home and its answer. So a read that begins after a write was acknowledged never shows an older value.

use crate::stage::Stage;
use core::fmt;

/// How far copies of a pool are switched on.
///
/// They are switched by plans, each of which goes through the [stages](Stage) of a change, so that of each two neighbours both are safe side by side:
///
/// | stage | copies are | reads | writes |
/// |---|---|---|---|
/// | `former` | off | at home | at home |
/// | `quiesced` | clearing | at home | at home, then delete copies |
/// | `warming` | on | anywhere; what is not at a copy is filled there | at home, then delete copies |
/// | `closing` | clearing | at home | at home, then delete copies |
/// | `done` | off | at home | at home |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Switch {
    /// There are none, as far as anybody looks.
    Off,
    /// Nobody reads or fills them, and writes delete them.
    Clearing,
    /// They are read and filled.
    On,
}

impl Switch {
    /// At a stage of a plan.
    #[inline]
    pub fn at(stage: Stage) -> Self {
        match stage {
            Stage::Former | Stage::Done => Switch::Off,
            Stage::Quiesced | Stage::Closing => Switch::Clearing,
            Stage::Warming => Switch::On,
        }
    }

    /// Whether writes delete copies.
    #[inline]
    pub fn is_cleared(self) -> bool {
        self != Switch::Off
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Switch::Off => "off",
            Switch::Clearing => "clearing",
            Switch::On => "on",
        }
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
