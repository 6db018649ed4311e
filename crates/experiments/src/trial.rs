//! Load at one rate after the other: curves of latency over throughput, and where they bend.

use crate::report::Table;
use evenkeel_bench::Latency;
use serde::Serialize;

/// What came of a load at one rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Trial {
    /// Requests a second that were meant to be sent.
    pub offered_per_second: f64,
    /// Requests a second that were answered.
    pub requests_per_second: f64,
    /// Latency from the moment that a request was meant to be sent.
    #[serde(flatten)]
    pub latency: Latency,
    /// Keys found of keys asked for.
    pub hit_ratio: f64,
    /// Keys a second that each server has served.
    pub keys_per_second_of_servers: Vec<f64>,
    /// Requests that failed.
    pub errors: u64,
    /// Values that nobody wrote.
    pub wrong_values: u64,
}

impl Trial {
    /// The busiest server's load by the mean of all; 1 is perfectly even. 0 where nothing was served.
    pub fn max_to_mean(&self) -> f64 {
        let loads = &self.keys_per_second_of_servers;
        let sum: f64 = loads.iter().sum();
        match sum > 0.0 {
            true => loads.iter().fold(0.0, |a: f64, &b| a.max(b)) * loads.len() as f64 / sum,
            false => 0.0,
        }
    }
}

/// Something that load can be put on.
pub trait Subject {
    /// Puts so many requests a second on it, for as long as it takes to judge them.
    ///
    /// # Errors
    /// When it cannot be measured at all; a server that is overloaded is no error.
    fn trial(&mut self, requests_per_second: f64) -> anyhow::Result<Trial>;
}

/// Less than this part of what is offered answered: the subject does not keep up.
const KEEPS_UP: f64 = 0.95;

/// A rate is changed by this factor until one that holds and one that does not are known.
const STEP: f64 = 1.3;

/// Most steps away from the first guess, in either direction: a factor of 190.
const STEPS_MAX: usize = 20;

/// The highest throughput that keeps to a limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Knee {
    /// The trial at the highest rate that kept to the limit; none did where it is empty.
    pub trial: Option<Trial>,
    /// Everything that was tried, in order.
    pub tried: Vec<Trial>,
}

impl Knee {
    /// Requests a second; 0 where not even the lowest rate kept to the limit.
    pub fn requests_per_second(&self) -> f64 {
        self.trial
            .as_ref()
            .map_or(0.0, |trial| trial.requests_per_second)
    }
}

/// Whether a trial kept to a limit of its 99th percentile, in microseconds, and the subject kept up.
pub fn keeps(trial: &Trial, limit_us_p99: f64) -> bool {
    trial.requests_per_second >= KEEPS_UP * trial.offered_per_second
        && trial.latency.latency_us_p99 <= limit_us_p99
}

/// Looks for the highest rate whose 99th percentile keeps to a limit, in microseconds, from a first guess on: by steps until it is between two
/// rates, then by halves until they are within `precision` (0.05 for 5 %). A rate that fails is tried
/// once more, since a busy machine fails at any.
///
/// # Errors
/// When a trial cannot be made.
pub fn find_knee(
    subject: &mut dyn Subject,
    limit_us_p99: f64,
    guess: f64,
    precision: f64,
) -> anyhow::Result<Knee> {
    let mut knee = Knee {
        trial: None,
        tried: Vec::new(),
    };
    let mut holds = |rate: f64| -> anyhow::Result<bool> {
        for _ in 0..2 {
            let trial = subject.trial(rate)?;
            let kept = keeps(&trial, limit_us_p99);
            knee.tried.push(trial.clone());
            if kept {
                if trial.requests_per_second > knee.requests_per_second() {
                    knee.trial = Some(trial);
                }
                return Ok(true);
            }
        }
        Ok(false)
    };
    let (mut low, mut high) = (guess, guess);
    let mut steps = 0;
    if holds(guess)? {
        loop {
            low = high;
            high *= STEP;
            steps += 1;
            if steps > STEPS_MAX || !holds(high)? {
                break;
            }
        }
    } else {
        loop {
            high = low;
            low /= STEP;
            steps += 1;
            if steps > STEPS_MAX {
                return Ok(knee);
            }
            if holds(low)? {
                break;
            }
        }
    }
    while high / low > 1.0 + precision {
        let middle = (low * high).sqrt();
        match holds(middle)? {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok(knee)
}

/// A table of trials: one row for each.
pub(crate) fn trials_table(title: &str, curves: &[(String, Vec<Trial>)]) -> Table {
    let mut table = Table::new(
        title,
        &[
            "",
            "offered/s",
            "requests/s",
            "p50 ms",
            "p90 ms",
            "p95 ms",
            "p99 ms",
            "max/mean load",
            "hits",
        ],
    );
    for (label, trials) in curves {
        for trial in trials {
            let ms = |us: f64| format!("{:.2}", us / 1000.0);
            table.row([
                label.clone(),
                format!("{:.0}", trial.offered_per_second),
                format!("{:.0}", trial.requests_per_second),
                ms(trial.latency.latency_us_p50),
                ms(trial.latency.latency_us_p90),
                ms(trial.latency.latency_us_p95),
                ms(trial.latency.latency_us_p99),
                format!("{:.2}", trial.max_to_mean()),
                format!("{:.1} %", trial.hit_ratio * 100.0),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue with exponential service: the 99th percentile of the time in it is ln(100) / (μ − λ).
    struct Queue {
        capacity: f64,
        /// Trials that go wrong for no reason of the queue's.
        hiccups: Vec<usize>,
        made: usize,
    }

    impl Subject for Queue {
        fn trial(&mut self, rate: f64) -> anyhow::Result<Trial> {
            self.made += 1;
            let spare = (self.capacity - rate).max(1e-6);
            let late = self.hiccups.contains(&self.made);
            Ok(Trial {
                offered_per_second: rate,
                requests_per_second: rate.min(self.capacity),
                latency: Latency {
                    latency_us_p99: if late { 1e9 } else { 100f64.ln() / spare * 1e6 },
                    ..Latency::default()
                },
                ..Trial::default()
            })
        }
    }

    /// In microseconds.
    const LIMIT: f64 = 10_000.0;

    #[test]
    fn the_knee_is_found_from_either_side_and_despite_hiccups() {
        // ln(100) / 0.01 s below the capacity.
        let exact = 10_000.0 - 100f64.ln() / 0.01;
        for guess in [100.0, 9_000.0, 90_000.0] {
            for hiccups in [vec![], vec![1], vec![3, 6]] {
                let mut queue = Queue {
                    capacity: 10_000.0,
                    hiccups,
                    made: 0,
                };
                let knee = find_knee(&mut queue, LIMIT, guess, 0.02).expect("it is measured");
                let found = knee.requests_per_second();
                assert!(found <= exact && found > 0.97 * exact, "{found} of {exact}");
                assert_eq!(knee.tried.len(), queue.made);
            }
        }
    }

    #[test]
    fn what_never_keeps_to_the_limit_has_no_knee() {
        let mut queue = Queue {
            capacity: 100.0,
            hiccups: Vec::new(),
            made: 0,
        };
        let knee = find_knee(&mut queue, LIMIT, 50.0, 0.05).expect("it is measured");
        assert_eq!(knee.requests_per_second(), 0.0);
    }

    #[test]
    fn balance_is_the_busiest_by_the_mean() {
        let trial = Trial {
            keys_per_second_of_servers: vec![10.0, 20.0, 30.0],
            ..Trial::default()
        };
        assert!((trial.max_to_mean() - 1.5).abs() < 1e-9);
        assert_eq!(Trial::default().max_to_mean(), 0.0);
    }
}
