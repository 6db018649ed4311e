//! What can be measured of a pool, and the thresholds of it.

use core::fmt;
use core::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Something that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Requests per second and server.
    RequestsPerServer,
    /// The busiest server's load as a part of its capacity.
    BusiestShare,
    /// 99th percentile at the proxies.
    P99Us,
    /// Part of gets that are hits.
    HitRate,
}

/// What was measured over the last seconds. What is absent is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// Requests per second and server.
    pub requests_per_server: Option<f64>,
    /// The busiest server's load as a part of its capacity.
    pub busiest_share: Option<f64>,
    /// 99th percentile at the proxies, in microseconds.
    pub p99_us: Option<f64>,
    /// Part of gets that are hits.
    pub hit_rate: Option<f64>,
    /// What all servers carry, as a part of what they can do together. It has no thresholds to be set: see [`ALL_HOT`](super::limits::ALL_HOT).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization: Option<f64>,
}

/// Two thresholds of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// Not negative. Where the measure is never below it, nothing is ever removed.
    pub lower: f64,
    /// Greater than `lower`.
    pub upper: f64,
}

impl Measure {
    /// All of them, in the order in which they are judged.
    pub const ALL: [Measure; 4] = [
        Measure::RequestsPerServer,
        Measure::BusiestShare,
        Measure::P99Us,
        Measure::HitRate,
    ];

    /// Its name everywhere; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Measure::RequestsPerServer => "requests_per_server",
            Measure::BusiestShare => "busiest_share",
            Measure::P99Us => "p99_us",
            Measure::HitRate => "hit_rate",
        }
    }

    pub(super) fn names() -> String {
        Measure::ALL.map(Measure::as_str).join(", ")
    }

    /// What was measured of it; none where that is no number that it can have.
    pub fn of(self, measures: &Measures) -> Option<f64> {
        let value = match self {
            Measure::RequestsPerServer => measures.requests_per_server,
            Measure::BusiestShare => measures.busiest_share,
            Measure::P99Us => measures.p99_us,
            Measure::HitRate => measures.hit_rate,
        };
        value.filter(|value| self.range().contains(value))
    }

    /// Numbers that it can have.
    pub(super) fn range(self) -> RangeInclusive<f64> {
        match self {
            Measure::HitRate => 0.0..=1.0,
            _ => 0.0..=f64::MAX,
        }
    }

    /// The same in words.
    pub(super) fn allowed(self) -> &'static str {
        match self {
            Measure::HitRate => "0 to 1",
            _ => "0 or more",
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
