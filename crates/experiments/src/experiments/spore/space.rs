//! What hot keys take of memory (section 5.2, "Space overhead"): the SSM cache of a worker, and replicas as a part of
//! all items.
//!
//! The cache is the one that ships, full. Replicas are counted at the end of a simulated load that has them, and
//! beside that stands what the law of popularity and the settings allow: a key of rank k with the share p of all
//! requests is hot from p · workers = `hot_share` on and gets γ copies by its heat.

use super::Experiment;
use crate::experiments::curves::setting::{SERVERS, Setting};
use crate::experiments::curves::size::{KEY_LEN, Size};
use crate::experiments::curves::subject::load_plan;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use crate::simulated::Fidelity;
use anyhow::anyhow;
use evenkeel_balance::load::TriggerConfig;
use evenkeel_hotkeys::config::{HotKeysConfig, gamma_for, ssm_entries};
use evenkeel_hotkeys::server::{HotKeys, Reader};
use evenkeel_sim::load::{Arrivals, fast, whole};
use evenkeel_types::{Instant, KeyHash};

/// The target: a worker's SSM cache is smaller than this.
const SSM_BYTES_MAX: usize = 64 << 10;

/// The target, and the paper's figure: replicas are a smaller part of all items than this.
const REPLICAS_MAX: f64 = 0.0001;

/// Keys from which on the workload is at least the paper's: replicas are as many whatever the number of keys.
const KEYS_OF_PAPER: u64 = 1_000_000;

/// Part of the capacity that is asked.
const SHARE: f64 = 0.8;

/// Lengths of keys for which the cache is measured: ours, the longest title of many sites, and the longest there is.
const KEY_LENS: [usize; 4] = [KEY_LEN, 24, 64, 250];

/// Keys that are shown to a cache, which tracks far fewer.
const SHOWN: u64 = 20_000;

pub(super) fn space(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size {
        keys: run.by_scale([20_000, 200_000, 10_000_000, 40_000_000]),
        ..Size::of(run)
    };
    let setting = Setting::replicated(SERVERS);
    let plan = evenkeel_sim::load::LoadPlan {
        arrivals: Arrivals::Open {
            rate: SHARE * size.capacity(&setting),
        },
        ..load_plan(run.seed, &size, &setting)
    };
    run.progress.say("replicas are being made");
    let load = match size.fidelity {
        Fidelity::Fast => fast::run(&plan),
        Fidelity::Whole => whole::run(&plan),
    };
    let load = load.map_err(|words| anyhow!(words))?;
    let allowed = replicas_allowed(size.keys, SERVERS, &plan.hot_keys);
    let part = |replicas: u64| replicas as f64 / size.keys as f64;
    let mut report = run.report(experiment);
    report.settings = vec![
        (
            "servers",
            format!("{SERVERS} simulated ({})", size.fidelity),
        ),
        ("keys", format!("{}, Zipf 0.99, 99 % gets", size.keys)),
        ("load", format!("{:.0} % of the capacity", SHARE * 100.0)),
    ];
    let mut ssm = Table::new(
        "A worker's SSM cache, full",
        "length of keys, B|keys tracked|bytes|bytes a key",
    );
    let mut of_paper = 0;
    for len in KEY_LENS {
        let (tracked, bytes) = full_ssm(len)?;
        if len == KEY_LEN {
            of_paper = bytes;
        }
        ssm.row([
            len.to_string(),
            tracked.to_string(),
            bytes.to_string(),
            format!("{:.0}", bytes as f64 / tracked as f64),
        ]);
    }
    let mut replicas = Table::new("Replicas", "|replicas|of all items");
    let percent = |part: f64| format!("{:.5} %", part * 100.0);
    for (what, count) in [
        ("in the end of the load", load.replicas),
        ("by the law of popularity, at most", allowed),
    ] {
        replicas.row([what.to_owned(), count.to_string(), percent(part(count))]);
    }
    report.tables = vec![ssm, replicas];
    report.claims = vec![
        Claim::new(
            &format!("SSM cache of a worker, keys of {KEY_LEN} B"),
            "about 60 KB; ours: below 64 KiB",
            format!("{:.1} KiB", of_paper as f64 / 1024.0),
            Some(of_paper < SSM_BYTES_MAX),
        ),
        Claim::new(
            "replicas, as a part of all items",
            "below 0.01 %",
            percent(part(load.replicas)),
            (size.keys >= KEYS_OF_PAPER).then_some(part(load.replicas) < REPLICAS_MAX),
        ),
    ];
    if size.keys < KEYS_OF_PAPER {
        report.note(format!(
            "Replicas are hardly more among more keys; as a part of {} keys they are not judged.",
            size.keys
        ));
    }
    Ok(report)
}

/// The keys that a worker's SSM cache tracks when it is full, and the bytes that it takes.
fn full_ssm(key_len: usize) -> anyhow::Result<(usize, usize)> {
    let config = HotKeysConfig {
        sampling: Some(1.0),
        entries_max: ssm_entries(1),
        // It looks whatever its load.
        trigger: TriggerConfig {
            absolute_rps: Some(0.0),
            ..TriggerConfig::default()
        },
        ..HotKeysConfig::default()
    };
    let mut hot = HotKeys::new(config, 1, Instant(0))?;
    hot.handle_timeout(hot.poll_deadline());
    let now = hot.poll_deadline();
    for number in 0..SHOWN {
        let key = format!("{number:0key_len$}");
        let hash = KeyHash::of(key.as_bytes());
        hot.handle_read(now, hash, key.as_bytes(), Reader::Unaware, Some(0));
    }
    Ok((hot.tracked_count(), hot.ssm_bytes()))
}

/// Replicas that Zipf's law of the paper's exponent and the settings allow, if every worker looks for hot keys and all
/// carry the same. O(hot keys).
fn replicas_allowed(keys: u64, workers: usize, config: &HotKeysConfig) -> u64 {
    const EXPONENT: f64 = 0.99;
    let weight = |rank: u64| (rank as f64).powf(-EXPONENT);
    // Smallest first, so that nothing is lost.
    let sum: f64 = (1..=keys).rev().map(weight).sum();
    let heats = (1..=keys).map(|rank| weight(rank) / sum * workers as f64);
    // Between the two shares a key keeps the replicas that it has.
    let hot = heats.take_while(|heat| *heat >= config.cold_share);
    hot.map(|heat| {
        u64::from(gamma_for(
            heat,
            config.copy_share,
            workers - 1,
            config.gamma_max,
        ))
    })
    .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_tracks_as_many_keys_as_it_may() {
        let (tracked, bytes) = full_ssm(KEY_LEN).expect("sound settings");
        assert_eq!(tracked, ssm_entries(1));
        assert!(bytes > tracked * KEY_LEN, "{bytes}");
    }

    #[test]
    fn replicas_follow_the_heat_of_the_hottest_keys() {
        let config = HotKeysConfig::default();
        // One key alone: with all load of four workers it has a copy on each.
        assert_eq!(replicas_allowed(1, 4, &config), 3);
        // Nobody else is there.
        assert_eq!(replicas_allowed(1_000, 1, &config), 0);
        let [few, many] = [1_000, 1_000_000].map(|keys| replicas_allowed(keys, 12, &config));
        assert!(
            few > many && many > 0,
            "{few} and {many}: the law is flatter"
        );
    }
}
