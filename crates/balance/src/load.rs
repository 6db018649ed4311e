//! How loaded a worker is, and whether that is reason enough to replicate its hot keys.
//!
//! Replication helps a server that carries more than its share and costs everybody else, so it runs
//! only while the load is past a threshold (SPORE, section 3.5, "hotspot triggering"). The load that
//! counts is the *undiverted* one, which the worker would have without its replicas: otherwise
//! success would switch replication off and the hotspot back on.
//!
//! A threshold in requests a second would have to be another one for each kind of server: 1,000 a
//! second is all that a small one can do, and nothing to a big one. So loads are compared with each
//! other, and whether they matter at all is told by how busy the worker is: by the part of time in
//! which it does not sleep.
//!
//! Large values are more work than small ones. So a load is that of small requests a second, of which one with a
//! large value counts for several ([`cost_of`]): a value of 100 KB that is read 1,000 times a second is hotter than one of
//! 100 B read 2,000 times.

use core::time::Duration;

use evenkeel_types::Instant;
use serde::{Deserialize, Serialize};

/// Bytes of values that are as much work as a small request. The middle of what was measured in processor time of
/// the server: 1.3 KB where small gets come sixteen at a time (0.42 µs each), 11 to 27 KB where they come one by
/// one (5.5 µs). A link of 10 Gb/s carries as many in the time of three small packets.
pub const BYTES_PER_REQUEST: u64 = 4096;

/// What a request with a value of this many bytes adds to the load, in small requests.
#[inline]
pub fn cost_of(bytes: usize) -> f64 {
    1.0 + bytes as f64 / BYTES_PER_REQUEST as f64
}

/// The trigger goes off below this part of the load at which it goes on, so that a load that
/// wavers around the threshold does not switch replication with it.
pub const TRIGGER_OFF_RATIO: f64 = 0.9;

/// Exponentially weighted moving average of a rate, of requests or of anything else.
#[derive(Clone, Debug)]
pub struct LoadAverage {
    /// Since the last interval.
    count: u64,
    average: f64,
    /// A sudden change shows by two thirds after about this many seconds.
    time_constant: f64,
    since: Instant,
    /// Whether an interval has been measured yet. The first one is taken as it is.
    warm: bool,
}

impl LoadAverage {
    /// An average that starts to measure now. A sudden change shows by two thirds after about `time_constant`.
    pub fn new(now: Instant, time_constant: Duration) -> Self {
        LoadAverage {
            count: 0,
            average: 0.0,
            time_constant: time_constant.as_secs_f64(),
            since: now,
            warm: false,
        }
    }

    /// Counts some.
    #[inline]
    pub fn add(&mut self, count: u64) {
        self.count += count;
    }

    /// Ends an interval of measurement. Intervals may differ in length: the weight of each is
    /// `t / (t + time_constant)`.
    pub fn roll(&mut self, now: Instant) {
        let elapsed = now.since(self.since).as_secs_f64();
        if elapsed == 0.0 {
            return;
        }
        let rate = self.count as f64 / elapsed;
        let weight = elapsed / (elapsed + self.time_constant);
        self.average = if self.warm {
            self.average + weight * (rate - self.average)
        } else {
            rate
        };
        self.count = 0;
        self.since = now;
        self.warm = true;
    }

    /// The average up to the last [`roll`](Self::roll); none before the first.
    pub fn measured(&self) -> Option<f64> {
        self.warm.then_some(self.average)
    }

    /// The average up to the last [`roll`](Self::roll), 0 before the first.
    pub fn per_second(&self) -> f64 {
        self.average
    }
}

/// When a worker counts as a hotspot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TriggerConfig {
    /// Load in requests per second from which on a worker is a hotspot, whatever the others carry.
    /// Replaces the two below.
    pub absolute_rps: Option<f64>,
    /// Load relative to the mean of all workers of the cluster.
    pub ratio: f64,
    /// Part of its time that a worker is busy below which it is no hotspot.
    pub busy_min: f64,
}

impl Default for TriggerConfig {
    fn default() -> Self {
        TriggerConfig {
            absolute_rps: None,
            ratio: 1.05,
            busy_min: 0.3,
        }
    }
}

/// The trigger: a threshold with hysteresis.
#[derive(Clone, Debug)]
pub struct Trigger {
    config: TriggerConfig,
    on: bool,
}

impl Trigger {
    /// A trigger that is off.
    pub fn new(config: TriggerConfig) -> Self {
        Trigger { config, on: false }
    }

    /// By what it judges now.
    pub fn config(&self) -> &TriggerConfig {
        &self.config
    }

    /// Replaces [`TriggerConfig::absolute_rps`].
    pub fn set_threshold(&mut self, absolute_rps: Option<f64>) {
        self.config.absolute_rps = absolute_rps;
    }

    /// Whether the worker is a hotspot.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Load in requests per second at which a hotspot is relieved and need not give away more: what all workers of the
    /// cluster carry on average, or the absolute threshold.
    pub fn relieved_at(&self, mean: Option<f64>) -> f64 {
        self.config.absolute_rps.or(mean).unwrap_or(0.0)
    }

    /// Judges a load in requests per second of a worker that is busy for that part of its time. `mean`
    /// is the load of all workers of the cluster; while it is unknown, only an absolute threshold can be
    /// passed.
    pub fn update(&mut self, load: f64, mean: Option<f64>, busy: f64) -> bool {
        let part = if self.on { TRIGGER_OFF_RATIO } else { 1.0 };
        let TriggerConfig {
            absolute_rps,
            ratio,
            busy_min,
        } = self.config;
        self.on = match (absolute_rps, mean) {
            (Some(threshold), _) => load >= part * threshold,
            (None, Some(mean)) => load >= part * ratio * mean && busy >= part * busy_min,
            (None, None) => false,
        };
        self.on
    }
}

/// A worker's load counts as at most this many times the median. A node that reports a thousand times its load
/// then moves the cluster's mean by a small factor, while the mean of a balanced cluster is exact. A truly
/// hot worker is hot against a lower mean, which is the side to err on: its load is compared with the others'.
pub const LOAD_CLAMP: f64 = 4.0;

/// Loads up to this many requests per second are never clamped: with so little to do, the median
/// says nothing.
pub const LOAD_CLAMP_FLOOR_RPS: f64 = 1000.0;

/// The largest load that is believed among these: [`LOAD_CLAMP`] times their (lower) median or
/// [`LOAD_CLAMP_FLOOR_RPS`], whichever is more. Reorders `loads`; all must be finite. O(n).
pub fn most_believed(loads: &mut [f64]) -> f64 {
    if loads.is_empty() {
        return LOAD_CLAMP_FLOOR_RPS;
    }
    let middle = (loads.len() - 1) / 2;
    let (_, median, _) = loads.select_nth_unstable_by(middle, f64::total_cmp);
    (*median * LOAD_CLAMP).max(LOAD_CLAMP_FLOOR_RPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn the_first_interval_counts_fully_and_later_ones_by_their_length() {
        let mut load = LoadAverage::new(at(0), Duration::from_millis(1500));
        load.add(500);
        load.roll(at(500));
        assert_eq!(load.per_second(), 1000.0);
        load.add(1000);
        load.roll(at(1000));
        assert_eq!(
            load.per_second(),
            1250.0,
            "0.5 / (0.5 + 1.5) of the way to 2000"
        );
        load.roll(at(1000));
        assert_eq!(load.per_second(), 1250.0, "no time has passed");
        load.roll(at(1_000_000));
        assert!(load.per_second() < 2.0);
    }

    #[test]
    fn the_trigger_follows_the_mean_with_hysteresis() {
        let mut trigger = Trigger::new(TriggerConfig::default());
        assert!(
            !trigger.update(1e9, None, 1.0),
            "nobody said what the others carry"
        );
        assert!(!trigger.update(2099.0, Some(2000.0), 1.0));
        assert!(trigger.update(2100.0, Some(2000.0), 1.0));
        assert!(
            trigger.update(1891.0, Some(2000.0), 1.0),
            "not yet below nine tenths"
        );
        assert!(!trigger.update(1889.0, Some(2000.0), 1.0));
        assert!(!trigger.update(1891.0, Some(2000.0), 1.0));
    }

    #[test]
    fn a_worker_that_mostly_sleeps_is_no_hotspot_whatever_it_serves() {
        let mut trigger = Trigger::new(TriggerConfig::default());
        assert!(!trigger.update(100_000.0, Some(10_000.0), 0.29));
        assert!(trigger.update(100.0, Some(10.0), 0.3));
        assert!(
            trigger.update(100.0, Some(10.0), 0.28),
            "not yet below nine tenths"
        );
        assert!(!trigger.update(100.0, Some(10.0), 0.26));
    }

    #[test]
    fn an_absolute_threshold_needs_no_mean_and_no_time() {
        let config = TriggerConfig {
            absolute_rps: Some(500.0),
            ..TriggerConfig::default()
        };
        let mut trigger = Trigger::new(config);
        assert!(trigger.update(500.0, None, 0.0));
        assert!(trigger.update(450.0, Some(1e6), 0.0));
        assert!(!trigger.update(449.0, Some(1.0), 1.0));
    }
}
