//! Holds what docs/hot-keys.md says of settings against the code.

use evenkeel_balance::load::BYTES_PER_REQUEST;
use evenkeel_coordinator_core::limits::HOT_EVENTS_MAX;
use evenkeel_hotkeys::config::{
    HotKeysConfig, SAMPLES_PER_SLOT, SAMPLING_MIN, SSM_ENTRIES_PER_SERVER,
    SSM_ENTRIES_PER_WORKER_MIN,
};
use evenkeel_hotkeys::log::{EFFECT_AFTER, LOG_ENTRIES_MAX};
use evenkeel_hotkeys::replication::{RENEWAL_INTERVAL, REPLICA_LIFETIME};
use evenkeel_hotkeys::server::PROMOTION_HOLD_OFF;
use evenkeel_hotkeys::settings::{SETTINGS, Settings};
use evenkeel_types::promise::{Consistency, LEASE_MAX, LEASE_MIN};
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/hot-keys.md");

/// The cells of the row of a table whose first cell is this.
fn row(first: &str) -> Vec<&'static str> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| "));
    let mut rows = rows.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect());
    rows.find(|cells: &Vec<&str>| cells[0] == first)
        .unwrap_or_else(|| panic!("no row of {first}"))
}

#[test]
fn each_setting_stands_there_with_its_default() {
    let defaults = serde_json::to_value(Settings::default()).expect("it is written");
    for (name, _) in SETTINGS {
        let expected = match &defaults[name] {
            // What it is unless it is set depends on another one.
            Value::Null if name == "lease_ms" => {
                let modes = [Consistency::Lease, Consistency::Atomic];
                let [lease, atomic] = modes.map(|mode| mode.lease_default().as_millis());
                format!("`{lease}`; `{atomic}` with `atomic`")
            }
            Value::Null if name == "hot_write_weight" => {
                let modes = [Consistency::Lease, Consistency::Atomic];
                let [lease, atomic] = modes.map(evenkeel_hotkeys::config::write_weight);
                format!("`{lease}`; `{atomic}` with `atomic`")
            }
            Value::Null => "none".to_owned(),
            Value::String(word) => format!("`{word}`"),
            number => format!("`{}`", number.as_f64().expect("a number")),
        };
        assert_eq!(row(&format!("`{name}`"))[1], expected, "{name}");
    }
}

#[test]
fn each_limit_is_what_the_page_says() {
    let config = HotKeysConfig::default();
    let [lease_min, lease_max] = [LEASE_MIN, LEASE_MAX].map(|lease| lease.as_millis());
    assert_eq!((lease_min, lease_max), (50, 10_000), "see lease_ms");
    assert_eq!(row("`lease_ms`")[2], "milliseconds, 50 to 10,000");
    let lease = SETTINGS.iter().find(|(name, _)| *name == "lease_ms");
    let allowed = lease.map(|(_, allowed)| *allowed);
    assert_eq!(
        allowed,
        Some(&*format!("whole milliseconds, {lease_min} to {lease_max}"))
    );
    assert_eq!((4.0 * SAMPLES_PER_SLOT, SAMPLING_MIN), (4_000.0, 0.03));
    assert!(row("`hot_sampling`")[3].contains("4,000 samples a second, at least 3 %"));
    let trigger = &config.trigger;
    assert_eq!((trigger.ratio, trigger.busy_min), (1.05, 0.3));
    assert!(
        row("`hot_trigger_rps`")[3]
            .contains("1.05 times the mean of the cluster while it is busy for 30 %")
    );
    assert_eq!(
        config.cold_share,
        config.hot_share / 2.0,
        "below half of it"
    );
    let seconds = |duration: core::time::Duration| format!("{} s", duration.as_secs());
    let renewed = format!(
        "{}, renewed every {}",
        seconds(REPLICA_LIFETIME),
        seconds(RENEWAL_INTERVAL)
    );
    let tracked = format!(
        "{SSM_ENTRIES_PER_SERVER} by the number of workers, at least {SSM_ENTRIES_PER_WORKER_MIN}"
    );
    for (what, value) in [
        (
            "most of a worker's fair load that one copy should carry; decides γ",
            format!("{} %", 100.0 * config.copy_share),
        ),
        (
            "standard errors of its estimate by which a key must be above `hot_share` to be hot, and below half of it to have cooled",
            config.certainty.to_string(),
        ),
        (
            "bytes of a value that count as a request",
            BYTES_PER_REQUEST.to_string().replacen('4', "4,", 1),
        ),
        ("keys that a worker tracks", tracked),
        (
            "keys that a worker replicates at the same time",
            config.replicated_max.to_string(),
        ),
        ("life of a replica that its home does not renew", renewed),
        (
            "a key whose shadow failed it is left without replicas for",
            seconds(PROMOTION_HOLD_OFF),
        ),
        ("entries of a worker's log", LOG_ENTRIES_MAX.to_string()),
        (
            "after this long the effect of what was done is measured",
            seconds(EFFECT_AFTER),
        ),
        (
            "events that a coordinator keeps",
            HOT_EVENTS_MAX.to_string().replacen('1', "1,", 1),
        ),
    ] {
        assert_eq!(row(what)[1], value, "{what}");
    }
}
