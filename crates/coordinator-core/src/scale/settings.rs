//! What an operator chooses of autoscaling.

use core::fmt;
use core::time::Duration;

use evenkeel_placement::ring::SERVERS_MAX;
use serde::{Deserialize, Serialize};

use super::limits;
use super::measure::{Band, Measure};

/// What becomes of decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScaleMode {
    /// None is made. A change that is under way is ended.
    #[default]
    Off,
    /// They are said, with what they would cost.
    Observe,
    /// They wait until an operator approves them.
    Approve,
    /// They are executed.
    Automatic,
}

/// What an operator can choose about the autoscaling of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScaleSettings {
    /// What becomes of decisions.
    pub mode: ScaleMode,
    /// Requests per second and server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_server: Option<Band>,
    /// What the busiest server carries, as a part of what it can: 1 is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest_share: Option<Band>,
    /// The 99th percentile of what requests take at the proxies, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<Band>,
    /// Part of gets that are hits, 0 to 1. Below `lower` there are too few servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hit_rate: Option<Band>,
    /// Servers that are added by one decision, 1 to `max`. One is removed.
    pub step: usize,
    /// Servers of the pool at least, from 1. Where there are fewer, some are added.
    pub min: usize,
    /// Servers of the pool at most, up to [`SERVERS_MAX`].
    pub max: usize,
    /// Milliseconds for which thresholds are passed before anything is done. At most [`limits::WAIT_MAX`], as all times here.
    pub sustain_ms: u64,
    /// Milliseconds without a decision after servers were added.
    pub cooldown_added_ms: u64,
    /// Milliseconds without a decision after one was removed.
    pub cooldown_removed_ms: u64,
}

/// Why settings of autoscaling are refused. The operator's fault.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScaleRefusal {
    /// Nothing says when to do anything.
    #[error("set thresholds for at least one of {}", Measure::names())]
    NoThreshold,
    /// A threshold is no number that the measure can have.
    #[error("{measure}: a threshold cannot be {value}; it may be {allowed}")]
    BadThreshold {
        /// Of which measure.
        measure: Measure,
        /// The threshold.
        value: f64,
        /// What it may be.
        allowed: &'static str,
    },
    /// A measure could be past both thresholds at once.
    #[error("{measure}: the lower threshold ({lower}) has to be less than the upper one ({upper})")]
    Crossed {
        /// Of which measure.
        measure: Measure,
        /// The lower one.
        lower: f64,
        /// The upper one.
        upper: f64,
    },
    /// A number of servers is out of range.
    #[error("{what} is {least} to {most}, not {value}")]
    BadCount {
        /// Which.
        what: &'static str,
        /// What was said.
        value: usize,
        /// The least that it may be.
        least: usize,
        /// The most.
        most: usize,
    },
    /// A time is too long.
    #[error("{what} is at most {most}, not {value}", most = limits::WAIT_MAX.as_millis())]
    TooLong {
        /// Which.
        what: &'static str,
        /// What was said, in milliseconds.
        value: u64,
    },
}

impl Default for ScaleSettings {
    fn default() -> Self {
        ScaleSettings {
            mode: ScaleMode::Off,
            requests_per_server: None,
            busiest_share: None,
            p99_us: None,
            hit_rate: None,
            step: 1,
            min: 1,
            max: SERVERS_MAX,
            sustain_ms: limits::SUSTAIN.as_millis() as u64,
            cooldown_added_ms: limits::COOLDOWN_ADDED.as_millis() as u64,
            cooldown_removed_ms: limits::COOLDOWN_REMOVED.as_millis() as u64,
        }
    }
}

impl ScaleSettings {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), ScaleRefusal> {
        let mut set = 0;
        for measure in Measure::ALL {
            let Some(band) = self.band(measure) else {
                continue;
            };
            set += 1;
            check(measure, band)?;
        }
        if set == 0 && self.mode != ScaleMode::Off {
            return Err(ScaleRefusal::NoThreshold);
        }
        in_range("max", self.max, 1, SERVERS_MAX)?;
        in_range("min", self.min, 1, self.max)?;
        in_range("step", self.step, 1, self.max)?;
        for (what, value) in [
            ("sustain_ms", self.sustain_ms),
            ("cooldown_added_ms", self.cooldown_added_ms),
            ("cooldown_removed_ms", self.cooldown_removed_ms),
        ] {
            if Duration::from_millis(value) > limits::WAIT_MAX {
                return Err(ScaleRefusal::TooLong { what, value });
            }
        }
        Ok(())
    }

    /// The thresholds of a measure, where they are set.
    pub fn band(&self, measure: Measure) -> Option<Band> {
        match measure {
            Measure::RequestsPerServer => self.requests_per_server,
            Measure::BusiestShare => self.busiest_share,
            Measure::P99Us => self.p99_us,
            Measure::HitRate => self.hit_rate,
        }
    }

    /// The same, to find out what would be done at this moment.
    pub(crate) fn tried(&self) -> Self {
        ScaleSettings {
            mode: ScaleMode::Observe,
            sustain_ms: 0,
            ..*self
        }
    }

    pub(super) fn sustain(&self) -> Duration {
        Duration::from_millis(self.sustain_ms)
    }
}

/// Whether thresholds are some that a measure can have.
fn check(measure: Measure, band: Band) -> Result<(), ScaleRefusal> {
    for value in [band.lower, band.upper] {
        // NaN is in no range.
        if !measure.range().contains(&value) {
            return Err(ScaleRefusal::BadThreshold {
                measure,
                value,
                allowed: measure.allowed(),
            });
        }
    }
    match band.lower < band.upper {
        true => Ok(()),
        false => Err(ScaleRefusal::Crossed {
            measure,
            lower: band.lower,
            upper: band.upper,
        }),
    }
}

fn in_range(
    what: &'static str,
    value: usize,
    least: usize,
    most: usize,
) -> Result<(), ScaleRefusal> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(ScaleRefusal::BadCount {
            what,
            value,
            least,
            most,
        }),
    }
}

impl ScaleMode {
    /// All of them, in order.
    pub const ALL: [ScaleMode; 4] = [
        ScaleMode::Off,
        ScaleMode::Observe,
        ScaleMode::Approve,
        ScaleMode::Automatic,
    ];

    /// Its name everywhere; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            ScaleMode::Off => "off",
            ScaleMode::Observe => "observe",
            ScaleMode::Approve => "approve",
            ScaleMode::Automatic => "automatic",
        }
    }
}

impl fmt::Display for ScaleMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl core::str::FromStr for ScaleMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = ScaleMode::ALL.into_iter().find(|it| it.as_str() == text);
        known.ok_or_else(|| format!("{text:?} is not one of off, observe, approve, automatic"))
    }
}
