//! What a heat map can show.

use serde::{Deserialize, Serialize};

/// What a heat map shows.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Small requests a second.
    #[default]
    Load,
    /// Reads a second.
    Reads,
    /// Writes a second.
    Writes,
    /// Bytes of values read and written a second.
    Bytes,
}

impl Measure {
    /// All of them, in the order in which they are kept.
    pub const ALL: [Measure; 4] = [
        Measure::Load,
        Measure::Reads,
        Measure::Writes,
        Measure::Bytes,
    ];

    /// Its part of four.
    pub(crate) fn of<T: Copy>(self, rates: &[T; 4]) -> T {
        rates[self as usize]
    }
}
