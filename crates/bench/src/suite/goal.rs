//! What a row of figures is measured in, and asked for.

use super::peer::Peer;
use serde::Serialize;

/// Unit of a row's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Requests a second.
    RequestsPerSecond,
    /// Keys a second.
    KeysPerSecond,
    /// Microseconds.
    Microseconds,
    /// Items.
    Items,
    /// Bytes.
    Bytes,
    /// A ratio.
    Ratio,
}

impl Unit {
    /// Whether a larger figure is the better one.
    pub(crate) fn more_is_better(self) -> bool {
        !matches!(self, Unit::Microseconds | Unit::Bytes)
    }

    pub(crate) fn short(self) -> &'static str {
        match self {
            Unit::RequestsPerSecond => "requests/s",
            Unit::KeysPerSecond => "keys/s",
            Unit::Microseconds => "µs",
            Unit::Items => "items",
            Unit::Bytes => "B",
            Unit::Ratio => "×",
        }
    }

    pub(crate) fn show(self, figure: f64) -> String {
        match self {
            Unit::Microseconds => format!("{figure:.2}"),
            Unit::Ratio => format!("{figure:.2}"),
            _ if figure >= 1e6 => format!("{:.2} M", figure / 1e6),
            _ if figure >= 1e4 => format!("{:.1} k", figure / 1e3),
            _ => format!("{figure:.0}"),
        }
    }
}

/// What a row is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// A peer has at least this much of another's figure, where more is better.
    Times(Peer, Peer, f64),
    /// The same, of the better of several.
    TimesBest(Peer, &'static [Peer], f64),
    /// A peer's own figure is within a bound.
    Bound(Peer, f64),
}
