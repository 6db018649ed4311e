//! Three workloads one after the other on the same servers (section 4.2.2): what becomes of latency and balance, moment
//! by moment, and what the servers do about it.

use super::{GET_SHARE, WORKERS};
use crate::args::Mode;
use crate::experiments::curves::setting::{Setting, Workers, ZIPF};
use crate::fleet::BalancingCounts;
use crate::run::Run;
use evenkeel_bench::Latency;
use evenkeel_workload::Popularity;
use std::time::Duration;

/// Part of the capacity that is asked for.
pub(super) const RATE: f64 = 0.35;

/// A workload of the paper's Table 4.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workload {
    pub label: &'static str,
    popularity: Popularity,
    pub get_share: f64,
}

pub(super) const WORKLOADS: [Workload; 3] = [
    Workload {
        label: "A: reads alone, Zipf 0.99",
        popularity: ZIPF,
        get_share: 1.0,
    },
    Workload {
        label: "B: 95 % reads, 95 % of the requests for 5 % of the keys",
        popularity: Popularity::Hotspot {
            operations: 0.95,
            keys: 0.05,
        },
        get_share: GET_SHARE,
    },
    Workload {
        label: "C: 50 % reads, Zipf 0.99",
        popularity: ZIPF,
        get_share: 0.5,
    },
];

impl Workload {
    /// How requests fall on the keys of a setting: where they are uniform they stay so.
    pub fn popularity_in(&self, setting: &Setting) -> Popularity {
        match setting.popularity {
            Popularity::Uniform => Popularity::Uniform,
            _ => self.popularity,
        }
    }
}

/// How long each workload lasts, and the distance of two looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub each: Duration,
    pub step: Duration,
}

impl Pace {
    pub fn of(run: &Run) -> Pace {
        let (each, step) = match run.mode {
            Mode::Real => ([2, 12, 200, 600], [500, 1_000, 2_000, 2_000]),
            // Virtual time is cheap, but for a thousand servers.
            Mode::Sim => ([20, 200, 200, 60], [1_000, 1_000, 1_000, 1_000]),
        };
        Pace {
            each: Duration::from_secs(run.by_scale(each)),
            step: Duration::from_millis(run.by_scale(step)),
        }
    }
}

/// What was seen at a look: of the time since the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Since this workload began.
    pub seconds: f64,
    pub latency_us_p90: f64,
    /// The busiest worker's load by the mean of all; 0 where nobody tells.
    pub max_to_mean: f64,
}

/// A workload as it went.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub moments: Vec<Moment>,
    pub requests_per_second: f64,
    pub latency: Latency,
    pub errors: u64,
    pub wrong_values: u64,
    /// What the servers did meanwhile.
    pub balancing: BalancingCounts,
}

impl Part {
    /// Seconds until the busiest worker's load is at most this by the mean; nothing where it never was.
    pub fn even_in(&self, limit: f64) -> Option<f64> {
        let even = |moment: &&Moment| moment.max_to_mean > 0.0 && moment.max_to_mean <= limit;
        self.moments.iter().find(even).map(|moment| moment.seconds)
    }
}

/// Memcacheds and servers of one worker tell no coordinator the loads of their workers.
pub(super) fn tells_loads(setting: &Setting) -> bool {
    setting.workers == Workers::Own(WORKERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_even_moment_counts_and_silence_does_not() {
        let moment = |seconds, max_to_mean| Moment {
            seconds,
            latency_us_p90: 1.0,
            max_to_mean,
        };
        let mut part = Part {
            moments: vec![moment(1.0, 0.0), moment(2.0, 1.6), moment(3.0, 1.15)],
            requests_per_second: 0.0,
            latency: Latency::default(),
            errors: 0,
            wrong_values: 0,
            balancing: BalancingCounts::default(),
        };
        assert_eq!(part.even_in(1.2), Some(3.0));
        part.moments.truncate(2);
        assert_eq!(part.even_in(1.2), None);
    }
}
