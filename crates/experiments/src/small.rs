//! Servers that are small enough for a dozen of them on two cores: what they carry, what latency is asked of them,
//! and how they find hot keys.

use evenkeel_policy::hot_keys::config::HotKeysConfig;
use evenkeel_policy::load::TriggerConfig;

/// Keys a second that one serves. Twelve of them leave two cores room for generator and proxies.
pub(crate) const CAPACITY: u64 = 1_000;

/// What a throughput must keep to where one number is asked for: so many times the time for one key.
pub(crate) const LIMIT_SERVICES: f64 = 15.0;

/// One is a hotspot from half of what it carries on; by default none is below a thousand requests a second.
const TRIGGER_RPS: f64 = CAPACITY as f64 / 2.0;

/// Part of the reads that it looks at. At so few requests 3 % of them would be too small a sample.
const SAMPLING: f64 = 1.0;

/// By which flags a real one finds hot keys.
pub(crate) fn hot_key_flags() -> [String; 4] {
    [
        "--hot-trigger-rps".into(),
        TRIGGER_RPS.to_string(),
        "--hot-sampling".into(),
        (SAMPLING * 100.0).to_string(),
    ]
}

/// The same of a simulated one, other settings as they are.
pub(crate) fn hot_keys(others: HotKeysConfig) -> HotKeysConfig {
    HotKeysConfig {
        sampling: SAMPLING,
        trigger: TriggerConfig {
            absolute_rps: Some(TRIGGER_RPS),
            ..others.trigger
        },
        ..others
    }
}

/// What a report says of it.
pub(crate) fn hot_keys_in_words() -> String {
    format!(
        "looked for from {TRIGGER_RPS} requests/s on, sampling {} %",
        SAMPLING * 100.0
    )
}
