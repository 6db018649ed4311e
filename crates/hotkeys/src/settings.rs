//! What an operator chooses of hot keys, for all servers of a cluster.
//!
//! What readers are *promised* is part of the map, because homes and clients have to go by the same: a lease is granted to who
//! names the home's map, and is of the length that stands there. Everything else each home takes over for itself.

use serde::{Deserialize, Serialize};

use super::config::{GAMMA_MAX_DEFAULT, Mode};
use evenkeel_types::promise::{Consistency, Promise};

/// The settings of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// What is done about hot keys.
    pub hot_keys: Mode,
    /// What readers of replicated keys are promised.
    pub hot_keys_consistency: Consistency,
    /// How long a lease lasts, in milliseconds; `None` for what goes with the consistency.
    pub lease_ms: Option<u64>,
    /// Part of reads that are looked at, in per cent; `None` for what gives
    /// [`SAMPLES_PER_SLOT`](super::config::SAMPLES_PER_SLOT).
    pub hot_sampling: Option<f64>,
    /// Part of a worker's load from which on a key is hot, in per cent. Below half of it, it has cooled.
    pub hot_share: f64,
    /// How many reads a write outweighs; `None` for what goes with the consistency, see
    /// [`write_weight`](super::config::write_weight).
    pub hot_write_weight: Option<f64>,
    /// Load from which on a worker looks for hot keys, in small requests a second; `None` for what
    /// [`TriggerConfig`](evenkeel_balance::load::TriggerConfig) says.
    pub hot_trigger_rps: Option<f64>,
    /// Most replicas of a key besides the home's copy.
    pub gamma_max: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            hot_keys: Mode::On,
            hot_keys_consistency: Consistency::Lease,
            lease_ms: None,
            hot_sampling: None,
            hot_share: 1.0,
            hot_write_weight: None,
            hot_trigger_rps: None,
            gamma_max: GAMMA_MAX_DEFAULT,
        }
    }
}

/// Most reads that a write may outweigh. With more, nothing that is ever written would have replicas: `hot_keys=off` says that.
pub const WRITE_WEIGHT_MAX: f64 = 1000.0;

/// The name of each setting, and what it may be.
pub const SETTINGS: [(&str, &str); 8] = [
    ("hot_keys", "off, observe or on"),
    ("hot_keys_consistency", "lease or atomic"),
    ("lease_ms", "whole milliseconds, 50 to 10000"),
    ("hot_sampling", "per cent, 0 to 100"),
    ("hot_share", "per cent, 0 to 100"),
    ("hot_write_weight", "reads, 0 to 1000"),
    ("hot_trigger_rps", "requests a second, from 0"),
    ("gamma_max", "a whole number of replicas, 0 to 255"),
];

impl Settings {
    /// What readers are promised, if that was chosen: otherwise servers and clients go by what is built in.
    pub fn promise(&self) -> Option<Promise> {
        let consistency = self.hot_keys_consistency;
        let default = consistency.lease_default().as_millis() as u64;
        let is_chosen = self.lease_ms.is_some() || consistency != Consistency::default();
        is_chosen.then(|| Promise {
            consistency,
            lease_ms: self.lease_ms.unwrap_or(default),
        })
    }

    /// The first setting that is not within its bounds.
    pub fn unsound(&self) -> Option<&'static str> {
        // NaN is in no range.
        let is_part = |percent: f64| (0.0..=100.0).contains(&percent);
        let is_weight = |weight: f64| (0.0..=WRITE_WEIGHT_MAX).contains(&weight);
        let is_rate = |rate: f64| rate.is_finite() && rate >= 0.0;
        let checks = [
            (
                "lease_ms",
                self.promise().is_none_or(|promise| promise.is_sound()),
            ),
            ("hot_sampling", self.hot_sampling.is_none_or(is_part)),
            ("hot_share", is_part(self.hot_share)),
            (
                "hot_write_weight",
                self.hot_write_weight.is_none_or(is_weight),
            ),
            ("hot_trigger_rps", self.hot_trigger_rps.is_none_or(is_rate)),
        ];
        let wrong = checks.iter().find(|(_, is_sound)| !is_sound);
        wrong.map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_promised_otherwise_than_built_in_unless_it_was_chosen() {
        let mut settings = Settings::default();
        assert_eq!((settings.promise(), settings.unsound()), (None, None));
        settings.hot_keys_consistency = Consistency::Atomic;
        let promise = settings.promise().expect("it was chosen");
        assert_eq!(promise.lease(), Consistency::Atomic.lease_default());
        settings.lease_ms = Some(50);
        assert_eq!(settings.promise().map(|it| it.lease_ms), Some(50));
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        type Break = fn(&mut Settings);
        let cases: [(&str, Break); 10] = [
            ("lease_ms", |it| it.lease_ms = Some(49)),
            ("lease_ms", |it| it.lease_ms = Some(10_001)),
            ("lease_ms", |it| it.lease_ms = Some(u64::MAX)),
            ("hot_sampling", |it| it.hot_sampling = Some(100.1)),
            ("hot_share", |it| it.hot_share = -1.0),
            ("hot_share", |it| it.hot_share = f64::NAN),
            ("hot_write_weight", |it| it.hot_write_weight = Some(-0.1)),
            ("hot_write_weight", |it| it.hot_write_weight = Some(1000.1)),
            ("hot_trigger_rps", |it| it.hot_trigger_rps = Some(-0.1)),
            ("hot_trigger_rps", |it| {
                it.hot_trigger_rps = Some(f64::INFINITY);
            }),
        ];
        for (name, break_it) in cases {
            let mut settings = Settings::default();
            break_it(&mut settings);
            assert_eq!(settings.unsound(), Some(name), "{settings:?}");
            assert!(SETTINGS.iter().any(|(known, _)| *known == name));
        }
    }
}
