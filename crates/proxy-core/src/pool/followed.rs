//! How far a change is that a coordinator leads.

use evenkeel_schemes::stage::Step;
use evenkeel_types::Instant;

/// How far a change has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Followed {
    /// `None` until a coordinator has said so.
    pub step: Option<Step>,
    /// The newest version of a coordinator's before which nothing is under way here. 0 for none.
    pub acknowledged: u64,
    /// Since when the step is worked by.
    pub since: Instant,
}

impl Followed {
    /// The number of the step; 0 for none.
    pub fn version(&self) -> u64 {
        self.step.map_or(0, |step| step.version)
    }
}
