//! What a pool of memcached servers says about its hot keys.

use super::reader::{Reader, Section};
use evenkeel_hotkeys::plain::{PlainConfig, PlainMode};
use evenkeel_runtime::parse_duration;
use evenkeel_types::promise::{LEASE_MAX, LEASE_MIN};
use std::time::Duration;

/// The keys of a pool that are about it. The first one says whether there is anything to say.
pub const HOT_KEYS_KEYS: [&str; 3] = ["hot_keys", "hot_keys_lease", "hot_keys_replicas"];

/// Reads them.
pub fn hot_keys(reader: &mut Reader, section: &Section<'_>) -> PlainConfig {
    let default = PlainConfig::default();
    let mode = reader.parsed(section, HOT_KEYS_KEYS[0], |text| match text {
        "off" => Ok(PlainMode::Off),
        "observe" => Ok(PlainMode::Observe),
        "on" => Ok(PlainMode::On),
        _ => Err("use \"off\", \"observe\" or \"on\""),
    });
    let lease = reader.parsed(section, HOT_KEYS_KEYS[1], lease);
    let replicas = reader.number(section, HOT_KEYS_KEYS[2], 1..=u64::from(u8::MAX));
    let mode = mode.map_or(default.mode, |at| at.value);
    if mode == PlainMode::Off && !section.has(HOT_KEYS_KEYS[0]) {
        for key in HOT_KEYS_KEYS.into_iter().filter(|key| section.has(key)) {
            let what = format!("{key} goes with hot_keys = \"observe\" or \"on\"");
            reader.fail(section.place_of(key), what);
        }
    }
    PlainConfig {
        mode,
        lease: lease.map_or(default.lease, |at| at.value),
        gamma_max: replicas.map_or(default.gamma_max, |at| at.value as u8),
        ..default
    }
}

fn lease(text: &str) -> Result<Duration, String> {
    let lease = parse_duration(text)?;
    if (LEASE_MIN..=LEASE_MAX).contains(&lease) {
        Ok(lease)
    } else {
        Err("use 50ms to 10s".into())
    }
}

const _: () = assert!(LEASE_MIN.as_millis() == 50 && LEASE_MAX.as_secs() == 10);
