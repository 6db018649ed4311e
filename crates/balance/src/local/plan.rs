//! A plan of phase 2 as a value.

use core::fmt;

use evenkeel_types::CacheletId;
use serde::{Deserialize, Serialize};

use crate::{deviation, mean};

/// One cachelet changes hands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocalMove {
    /// The cachelet.
    pub cachelet: CacheletId,
    /// Its host until then.
    pub from: u16,
    /// Its host from then on.
    pub to: u16,
    /// The load that goes with it.
    pub load: f64,
}

/// Why cachelets change hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalCause {
    /// A worker is overloaded.
    Overload,
    /// The hot spot is over.
    GoingHome,
}

/// Who found a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Greedy search with moves and swaps.
    Greedy,
    /// The integer program with fewest moves.
    FewestMoves,
    /// The integer programs with least deviation.
    LeastDeviation,
    /// The rule by which cachelets go home.
    Home,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Method::Greedy => "greedy",
            Method::FewestMoves => "fewest_moves",
            Method::LeastDeviation => "least_deviation",
            Method::Home => "home",
        })
    }
}

/// Moves within a server, with what they should lead to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocalPlan {
    /// Why.
    pub cause: LocalCause,
    /// Who found it.
    pub method: Method,
    /// At most one for each cachelet, in ascending order of cachelet.
    pub moves: Vec<LocalMove>,
    /// Load of each worker, by its index.
    pub before: Vec<f64>,
    /// Predicted load of each worker.
    pub after: Vec<f64>,
    /// Workers that stay overloaded although the plan does what can be done here. Some mean that phase 3 is wanted
    /// besides.
    pub still_overloaded: usize,
}

impl LocalPlan {
    /// By how much the deviation falls, in parts of the mean load. Negative for a plan that makes things less even,
    /// as going home may.
    pub fn gain_ratio(&self) -> f64 {
        let mean = mean(&self.before);
        if mean == 0.0 {
            return 0.0;
        }
        (deviation(&self.before) - deviation(&self.after)) / mean
    }
}
