//! What has to hold at a rate, and whether it did.
//!
//! An objective is a bound on a percentile of latency. That alone would pass a server that refuses what it
//! cannot do, or a generator that never sends it. So a step holds when all of these are true:
//!
//! - the percentile of the latency, from the moment that a request was due, is within the bound;
//! - [`ANSWERED_SHARE_MIN`] of the requests that were due were sent and answered without an error. A request
//!   that became due less than the bound before the end of the step is not late yet, and is not missed;
//! - less than [`FAILED_SHARE_MAX`] of the requests that were sent failed.
//!
//! What is due is counted from the schedule itself, not taken as rate times time: Poisson arrivals vary by
//! their square root, 2 % of 3,000, which is more than the share that may be missed.

use crate::report::{GENERATOR_BUSY_SHARE, Latency};
use crate::units::{parse_duration, show_duration};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Less than this share of what was due answered: the rate was not reached. A server that is overloaded by
/// little falls short by little, and the bound on latency finds that out first; this is for those that
/// answer what they answer in time.
pub const ANSWERED_SHARE_MIN: f64 = 0.99;

/// This share of the requests failed: the rate did not hold. The rule of thumb of three nines.
pub const FAILED_SHARE_MAX: f64 = 0.001;

/// A bound on a percentile of latency, as text `p99=5ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objective {
    /// Which latency.
    pub percentile: Percentile,
    /// At most this. Above zero.
    pub within: Duration,
}

/// A percentile of the latency of all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Percentile {
    /// The median.
    P50,
    /// The 90th.
    P90,
    /// The 99th.
    P99,
    /// The 99.9th.
    P99_9,
}

/// What a step may break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The latency was above its bound.
    Latency,
    /// Too few of the requests that were due were sent and answered.
    Answers,
    /// Too many requests failed.
    Errors,
    /// Beside one of these: the generator was so busy that it may be the limit, not the server.
    Generator,
}

/// What came of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// Requests that were due, but for those that could not be late yet.
    pub(super) due: u64,
    /// Requests of the schedule that were sent.
    pub(super) sent: u64,
    /// Requests that were answered with an error, a wrong value or not at all.
    pub(super) failed: u64,
    /// Latency from the moment that a request was due.
    pub(super) latency: Latency,
    /// Processor time of the generator's threads by their elapsed time.
    pub(super) generator_cpu_share: f64,
}

impl Figures {
    /// Requests that were sent and answered without an error.
    pub(super) fn answered(&self) -> u64 {
        self.sent.saturating_sub(self.failed)
    }

    /// Those by what was due, 1 at most.
    pub(super) fn answered_share(&self) -> f64 {
        // What was due before the step and sent within it counts, too: so there may be more.
        (self.answered() as f64 / self.due.max(1) as f64).min(1.0)
    }

    /// Requests that failed by those that were sent, 1 at most.
    pub(super) fn failed_share(&self) -> f64 {
        // What was sent before the step and failed within it counts, too: so there may be more.
        (self.failed as f64 / self.sent.max(1) as f64).min(1.0)
    }
}

impl Objective {
    /// What a step broke; nothing where the rate held.
    pub(super) fn broken(&self, figures: &Figures) -> Vec<Limit> {
        let mut broken = Vec::new();
        if self.percentile.of_us(&figures.latency) > self.within.as_secs_f64() * 1e6 {
            broken.push(Limit::Latency);
        }
        if figures.answered() == 0 || figures.answered_share() < ANSWERED_SHARE_MIN {
            broken.push(Limit::Answers);
        }
        if figures.failed_share() >= FAILED_SHARE_MAX {
            broken.push(Limit::Errors);
        }
        if !broken.is_empty() && figures.generator_cpu_share > GENERATOR_BUSY_SHARE {
            broken.push(Limit::Generator);
        }
        broken
    }
}

impl Percentile {
    /// This percentile, in microseconds.
    pub fn of_us(self, latency: &Latency) -> f64 {
        match self {
            Percentile::P50 => latency.latency_us_p50,
            Percentile::P90 => latency.latency_us_p90,
            Percentile::P99 => latency.latency_us_p99,
            Percentile::P99_9 => latency.latency_us_p99_9,
        }
    }
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Objective, String> {
        let form = || format!("'{text}' is no objective such as p99=5ms (p50, p90, p99 or p99.9)");
        let (percentile, within) = text.split_once('=').ok_or_else(form)?;
        let percentile = match percentile {
            "p50" => Percentile::P50,
            "p90" => Percentile::P90,
            "p99" => Percentile::P99,
            "p99.9" => Percentile::P99_9,
            _ => return Err(form()),
        };
        let within = parse_duration(within)?;
        if within.is_zero() {
            return Err(format!("'{text}': nothing is answered in no time"));
        }
        Ok(Objective { percentile, within })
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Percentile::P50 => "p50",
            Percentile::P90 => "p90",
            Percentile::P99 => "p99",
            Percentile::P99_9 => "p99.9",
        })
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.percentile, show_duration(self.within))
    }
}

impl Serialize for Objective {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_is_a_percentile_and_a_time() {
        for (text, percentile, within) in [
            ("p99=5ms", Percentile::P99, Duration::from_millis(5)),
            ("p50=250us", Percentile::P50, Duration::from_micros(250)),
            ("p90=2s", Percentile::P90, Duration::from_secs(2)),
            (
                "p99.9=1500us",
                Percentile::P99_9,
                Duration::from_micros(1500),
            ),
            ("p99=0.001us", Percentile::P99, Duration::from_nanos(1)),
        ] {
            let objective: Objective = text.parse().unwrap();
            assert_eq!(objective, Objective { percentile, within }, "{text}");
            assert_eq!(objective.to_string(), text);
        }
    }

    #[test]
    fn other_words_are_refused() {
        for text in [
            "",
            "p99",
            "5ms",
            "p98=5ms",
            "P99=5ms",
            "p99=5",
            "p99=0ms",
            "p99=-1ms",
            "p99 = 5ms",
        ] {
            assert!(text.parse::<Objective>().is_err(), "{text}");
        }
    }

    const FINE: Figures = Figures {
        due: 10_000,
        sent: 10_000,
        failed: 0,
        latency: Latency {
            latency_us_mean: 900.0,
            latency_us_p50: 800.0,
            latency_us_p90: 2000.0,
            latency_us_p95: 3000.0,
            latency_us_p99: 5000.0,
            latency_us_p99_9: 20_000.0,
            latency_us_p99_99: 30_000.0,
            latency_us_max: 40_000.0,
        },
        generator_cpu_share: 0.5,
    };

    fn broken(objective: &str, figures: Figures) -> Vec<Limit> {
        objective.parse::<Objective>().unwrap().broken(&figures)
    }

    #[test]
    fn each_percentile_is_its_own() {
        for (holds, breaks) in [
            ("p50=800us", "p50=799us"),
            ("p90=2ms", "p90=1.9ms"),
            ("p99=5ms", "p99=4999us"),
            ("p99.9=20ms", "p99.9=19ms"),
        ] {
            assert_eq!(broken(holds, FINE), [], "{holds}");
            assert_eq!(broken(breaks, FINE), [Limit::Latency], "{breaks}");
        }
    }

    #[test]
    fn what_is_not_answered_does_not_hold() {
        let sent = |sent| Figures { sent, ..FINE };
        assert_eq!(broken("p99=5ms", sent(9900)), []);
        assert_eq!(broken("p99=5ms", sent(9899)), [Limit::Answers]);
        assert_eq!(broken("p99=5ms", sent(10_100)), [], "from before the step");
        let nothing = Figures {
            due: 0,
            sent: 0,
            latency: Latency::default(),
            ..FINE
        };
        assert_eq!(broken("p99=5ms", nothing), [Limit::Answers]);
    }

    #[test]
    fn what_fails_does_not_hold() {
        let failed = |failed| Figures { failed, ..FINE };
        assert_eq!(broken("p99=5ms", failed(9)), []);
        assert_eq!(broken("p99=5ms", failed(10)), [Limit::Errors]);
        let both = [Limit::Answers, Limit::Errors];
        assert_eq!(broken("p99=5ms", failed(101)), both);
        assert_eq!(broken("p99=5ms", failed(u64::MAX)), both);
        // All of the step's, and one from before it.
        assert_eq!(failed(10_000).failed_share(), 1.0);
        assert_eq!(failed(10_001).failed_share(), 1.0);
    }

    #[test]
    fn a_busy_generator_is_named_where_something_failed() {
        let busy = Figures {
            generator_cpu_share: 0.95,
            ..FINE
        };
        assert_eq!(broken("p99=5ms", busy), []);
        assert_eq!(broken("p99=4ms", busy), [Limit::Latency, Limit::Generator]);
    }
}
