//! Why an order about plans is refused.

use super::plan::PlanState;

/// Why something is not done with a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanRefusal {
    /// There is no such plan, or not any more.
    #[error("there is no plan {id}")]
    Unknown {
        /// The number.
        id: u64,
    },
    /// It is not in the state for that.
    #[error("plan {id} is {state}")]
    WrongState {
        /// The number.
        id: u64,
        /// Its state.
        state: PlanState,
    },
    /// A setting is out of range.
    #[error("{what} is out of range")]
    BadSettings {
        /// Which.
        what: &'static str,
    },
}
