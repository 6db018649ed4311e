//! What an operator chooses of plans.

use core::fmt;
use core::time::Duration;

use evenkeel_types::map::MIGRATIONS_MAX;
use serde::{Deserialize, Serialize};

use super::refusal::PlanRefusal;
use crate::limits;

/// What becomes of plans that the coordinator makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanMode {
    /// They are shown.
    Observe,
    /// They wait until an operator approves them.
    Approve,
    /// They are executed.
    #[default]
    Automatic,
}

impl PlanMode {
    /// All of them, in order.
    pub const ALL: [PlanMode; 3] = [PlanMode::Observe, PlanMode::Approve, PlanMode::Automatic];

    /// Its name everywhere; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            PlanMode::Observe => "observe",
            PlanMode::Approve => "approve",
            PlanMode::Automatic => "automatic",
        }
    }
}

impl fmt::Display for PlanMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl core::str::FromStr for PlanMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = PlanMode::ALL.into_iter().find(|mode| mode.as_str() == text);
        known.ok_or_else(|| format!("{text:?} is not one of observe, approve, automatic"))
    }
}

/// What an operator can choose about plans.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlanSettings {
    /// What becomes of plans.
    pub mode: PlanMode,
    /// Looks in a row, one a second, for which workers have to be overloaded. 1 to [`limits::PLAN_INTERVALS_MAX`].
    pub intervals: u32,
    /// Milliseconds between the end of a plan and the next. At most a day.
    pub pause_ms: u64,
    /// Bytes that one plan may copy, in parts of all the data: 0 to 1. It may copy as much as [`bytes_free`](Self::bytes_free)
    /// says, whatever part that is.
    pub bytes_ratio_max: f64,
    /// Migrations at one time, 1 to [`MIGRATIONS_MAX`].
    pub migrations_max: usize,
    /// Migrations of which one server is the source or the target, at one time; at least 1.
    pub migrations_per_server_max: usize,
    /// What each copies in a second; 0 for no limit.
    pub bytes_per_second: u64,
}

impl Default for PlanSettings {
    fn default() -> Self {
        PlanSettings {
            mode: PlanMode::default(),
            intervals: limits::PLAN_INTERVALS,
            pause_ms: limits::PLAN_PAUSE.as_millis() as u64,
            bytes_ratio_max: limits::PLAN_BYTES_RATIO_MAX,
            migrations_max: limits::PLAN_MIGRATIONS,
            migrations_per_server_max: limits::PLAN_MIGRATIONS_PER_SERVER,
            bytes_per_second: limits::MIGRATION_BYTES_PER_SECOND,
        }
    }
}

impl PlanSettings {
    /// Bytes that a plan may copy whatever part of the data they are: what one migration copies in
    /// [`limits::PLAN_COPIES_FOR`]. Where there is little data, a hundredth of it is a single cachelet, and one cachelet
    /// for each pause would leave a small cluster uneven for minutes.
    pub fn bytes_free(&self) -> u64 {
        let rate = match self.bytes_per_second {
            0 => limits::MIGRATION_BYTES_PER_SECOND,
            rate => rate,
        };
        rate.saturating_mul(limits::PLAN_COPIES_FOR.as_secs())
    }

    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Says which value is out of range.
    pub fn validate(&self) -> Result<(), PlanRefusal> {
        let bad = |what| Err(PlanRefusal::BadSettings { what });
        if !(1..=limits::PLAN_INTERVALS_MAX).contains(&self.intervals) {
            return bad("intervals");
        }
        if Duration::from_millis(self.pause_ms) > limits::PLAN_PAUSE_MAX {
            return bad("pause_ms");
        }
        // NaN is in no range.
        if !(0.0..=1.0).contains(&self.bytes_ratio_max) {
            return bad("bytes_ratio_max");
        }
        if !(1..=MIGRATIONS_MAX).contains(&self.migrations_max) {
            return bad("migrations_max");
        }
        if !(1..=MIGRATIONS_MAX).contains(&self.migrations_per_server_max) {
            return bad("migrations_per_server_max");
        }
        Ok(())
    }
}
