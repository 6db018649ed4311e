//! What a pool of memcached servers says about its hot keys.

use super::reader::{Reader, Section};
use evenkeel_coordinator::client::check_address;
use evenkeel_policy::hot_keys::config::{LEASE_MAX, LEASE_MIN};
use evenkeel_policy::hot_keys::plain::{PlainConfig, PlainMode};
use evenkeel_runtime::parse_duration;
use std::time::Duration;

/// The keys of a pool that are about it. The first one says whether there is anything to say.
pub const HOT_KEYS_KEYS: [&str; 5] = [
    "hot_keys",
    "hot_keys_lease",
    "hot_keys_replicas",
    "hot_keys_min_rps",
    "hot_keys_coordinator",
];

/// Most reads per second that can be asked for: more than any worker carries out.
const MIN_RPS_MAX: u64 = 1_000_000_000;

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
    let min_rps = reader.number(section, HOT_KEYS_KEYS[3], 1..=MIN_RPS_MAX);
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
        hot_rps_min: min_rps.map_or(default.hot_rps_min, |at| at.value as f64),
        ..default
    }
}

/// Reads who adds up what proxies count.
pub fn hot_keys_coordinators(reader: &mut Reader, section: &Section<'_>) -> Vec<String> {
    let texts = reader.texts(section, HOT_KEYS_KEYS[4]).unwrap_or_default();
    for text in &texts {
        if let Err(error) = check_address(&text.value) {
            reader.fail(text.span.clone(), error.to_string());
        }
    }
    texts.into_iter().map(|text| text.value).collect()
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
