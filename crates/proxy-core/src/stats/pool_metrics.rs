//! What a proxy tells of each pool as a whole: its servers and its map, the search for its servers, and its
//! hot keys; the latter two are told by `stats proxy` and `stats hotkeys` in words.

use crate::stats::hot_keys::{HotKeySum, sums};
use crate::stats::process::{DiscoveryStats, PoolStats, ProcessStats};
use evenkeel_control::exposition::Text;
use evenkeel_placement::membership::{Counts, Standing};
use std::collections::BTreeMap;

/// Writes it for Prometheus.
pub(crate) fn render(text: &mut Text, process: &ProcessStats) {
    of_pools(text, &process.pools);
    of_lists(text, &process.discoveries);
    of_hot_keys(text, process);
}

fn of_pools(text: &mut Text, pools: &[PoolStats]) {
    let name = "evenkeel_proxy_pool_servers";
    text.kind(
        name,
        "gauge",
        "Servers of the pool; workers, of Evenkeel servers.",
    );
    for pool in pools {
        text.sample(name, &[("pool", &pool.name)], pool.servers);
    }
    let name = "evenkeel_proxy_pool_map_epoch";
    text.kind(name, "gauge", "Epoch of the map that all workers have.");
    for pool in pools {
        if let Some(epoch) = pool.map_epoch {
            text.sample(name, &[("pool", &pool.name)], epoch);
        }
    }
}

/// A count of the search for servers.
type ListRow = (&'static str, &'static str, fn(&Counts) -> u64);

const LIST_COUNTERS: [ListRow; 6] = [
    ("answers", "Answers about the servers.", |counts| {
        counts.answers
    }),
    ("taken", "Lists taken, the first one included.", |counts| {
        counts.changes
    }),
    ("empty", "Answers without a server.", |counts| counts.empty),
    (
        "failed",
        "Questions without an answer that could be understood.",
        |counts| counts.failures,
    ),
    (
        "unusable",
        "Lists of which no placement can be made.",
        |counts| counts.unusable,
    ),
    (
        "suspect",
        "Lists with less than half of the servers, not taken at once.",
        |counts| counts.suspect,
    ),
];

/// A time that statistics tell of a list, in seconds, if it has come.
type ListAge = (
    &'static str,
    &'static str,
    fn(&DiscoveryStats) -> Option<u64>,
);

const LIST_AGES: [ListAge; 2] = [
    (
        "confirmed_age_seconds",
        "Seconds since an answer was the list in force.",
        |found| found.confirmed_age_s,
    ),
    (
        "age_seconds",
        "Seconds since the list in force was taken.",
        |found| found.age_s,
    ),
];

fn of_lists(text: &mut Text, lists: &[DiscoveryStats]) {
    let name = "evenkeel_proxy_pool_list_standing";
    text.kind(
        name,
        "gauge",
        "1 for where the pool stands with its list of servers, and 0 for where it does not.",
    );
    for found in lists {
        for standing in [
            Standing::Unknown,
            Standing::Current,
            Standing::Unsettled(0),
            Standing::Kept,
        ] {
            let labels = [("pool", &*found.pool), ("standing", standing.name())];
            let is_it = standing.name() == found.standing.name();
            text.sample(name, &labels, u8::from(is_it));
        }
    }
    for (row, help, age) in LIST_AGES {
        let name = format!("evenkeel_proxy_pool_list_{row}");
        text.kind(&name, "gauge", help);
        for found in lists {
            if let Some(seconds) = age(found) {
                text.sample(&name, &[("pool", &found.pool)], seconds);
            }
        }
    }
    for (row, help, count) in LIST_COUNTERS {
        let name = format!("evenkeel_proxy_pool_lists_{row}_total");
        text.kind(&name, "counter", help);
        for found in lists {
            text.sample(&name, &[("pool", &found.pool)], count(&found.counts));
        }
    }
}

/// What is told of the hot keys of a pool. The keys are not: there is no end of them, and some are secret.
#[derive(Clone, Copy, Debug, Default)]
struct HotKeysOfPool {
    counted: u64,
    replicated: u64,
    replicas: u64,
    hottest_rps: f64,
}

/// A figure of them.
type HotRow = (&'static str, &'static str, fn(&HotKeysOfPool) -> f64);

const HOT_GAUGES: [HotRow; 4] = [
    (
        "counted_keys",
        "Keys that are counted because they are read much, 128 of a worker at most.",
        |hot| hot.counted as f64,
    ),
    ("hot_keys", "Keys that are replicated.", |hot| {
        hot.replicated as f64
    }),
    (
        "hot_key_replicas",
        "Replicas of them, besides the items themselves.",
        |hot| hot.replicas as f64,
    ),
    (
        "hottest_key_reads_per_second",
        "Reads per second of the key that is read most.",
        |hot| hot.hottest_rps,
    ),
];

fn of_hot_keys(text: &mut Text, process: &ProcessStats) {
    let watching = process.pools.iter().filter(|pool| pool.watches);
    let mut pools: BTreeMap<&str, HotKeysOfPool> = watching
        .map(|pool| (&*pool.name, HotKeysOfPool::default()))
        .collect();
    for ((pool, _), HotKeySum { reads, gamma, .. }) in sums(&process.hot_keys) {
        let pool = pools.entry(pool).or_default();
        pool.counted += 1;
        pool.replicated += u64::from(gamma > 0);
        pool.replicas += u64::from(gamma);
        pool.hottest_rps = pool.hottest_rps.max(reads);
    }
    for (row, help, figure) in HOT_GAUGES {
        let name = format!("evenkeel_proxy_pool_{row}");
        text.kind(&name, "gauge", help);
        for (pool, hot) in &pools {
            let value = format!("{:.0}", figure(hot));
            text.sample(&name, &[("pool", *pool)], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HotKeyReport;
    use crate::stats::process::add_pool;

    #[test]
    fn pools_lists_and_hot_keys_are_told_by_pool() {
        let pool = |name: &str, map_epoch, watches| PoolStats {
            name: name.into(),
            map_epoch,
            servers: 3,
            watches,
        };
        let hot = |key: &str, reads_per_second, gamma| HotKeyReport {
            pool: "busy".into(),
            key: key.into(),
            reads_per_second,
            writes_per_second: 0.0,
            gamma,
        };
        let mut process = ProcessStats {
            discoveries: vec![DiscoveryStats {
                pool: "found".into(),
                source: "dns".into(),
                standing: Standing::Kept,
                counts: Counts {
                    answers: 9,
                    failures: 2,
                    ..Counts::default()
                },
                trouble: "no answer".into(),
                confirmed_age_s: Some(70),
                age_s: None,
            }],
            hot_keys: vec![hot("a", 10.0, 3), hot("a", 30.0, 2), hot("b", 5.0, 0)],
            ..ProcessStats::default()
        };
        for worker in [
            pool("map", Some(7), false),
            pool("busy", None, true),
            pool("map", Some(6), false),
            pool("calm", None, true),
        ] {
            add_pool(&mut process.pools, worker);
        }
        let mut text = Text::default();
        render(&mut text, &process);
        for line in [
            "evenkeel_proxy_pool_servers{pool=\"map\"} 3",
            "evenkeel_proxy_pool_map_epoch{pool=\"map\"} 6",
            "evenkeel_proxy_pool_list_standing{pool=\"found\",standing=\"kept\"} 1",
            "evenkeel_proxy_pool_list_standing{pool=\"found\",standing=\"current\"} 0",
            "evenkeel_proxy_pool_list_confirmed_age_seconds{pool=\"found\"} 70",
            "evenkeel_proxy_pool_lists_answers_total{pool=\"found\"} 9",
            "evenkeel_proxy_pool_lists_failed_total{pool=\"found\"} 2",
            "evenkeel_proxy_pool_counted_keys{pool=\"busy\"} 2",
            "evenkeel_proxy_pool_hot_keys{pool=\"busy\"} 1",
            "evenkeel_proxy_pool_hot_key_replicas{pool=\"busy\"} 3",
            "evenkeel_proxy_pool_hottest_key_reads_per_second{pool=\"busy\"} 40",
            "evenkeel_proxy_pool_hot_keys{pool=\"calm\"} 0",
        ] {
            assert!(
                text.0.lines().any(|have| have == line),
                "{line} in\n{}",
                text.0
            );
        }
        assert!(!text.0.contains("_epoch{pool=\"busy\"}"), "{}", text.0);
        assert!(!text.0.contains("_list_age_seconds{"), "{}", text.0);
    }
}
