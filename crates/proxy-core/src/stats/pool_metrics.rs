//! What a proxy tells of each pool as a whole: its servers and its map, the search for its servers, and its
//! hot keys; the latter two are told by `stats proxy` and `stats hotkeys` in words.

use crate::stats::counters::BundleCounts;
use crate::stats::hot_keys::{HotKeySum, sums};
use crate::stats::process::{DiscoveryStats, PoolStats, ProcessStats};
use evenkeel_control::exposition::Text;
use evenkeel_control::families;
use evenkeel_placement::membership::{Counts, ListState};
use std::collections::BTreeMap;

/// What the names of metrics begin with: of pools, of lists of servers.
pub(crate) const OF_POOL: &str = "evenkeel_proxy_pool_";
pub(crate) const OF_LISTS: &str = "evenkeel_proxy_pool_lists_";
pub(crate) const OF_BUNDLES: &str = "evenkeel_proxy_pool_bundle_";

/// What is told of the hot keys of a pool. The keys are not: there is no end of them, and some are secret.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HotKeysOfPool {
    counted: u64,
    replicated: u64,
    replicas: u64,
    hottest_rps: f64,
}

families! {
    pub(crate) POOLS of Vec<PoolStats> {
        servers[pool] => gauge, "Servers of the pool; workers, of Evenkeel servers.",
            |pools, to| to.by(pools.iter().map(|it| (&*it.name, it.servers)));
        map_epoch[pool] => gauge, "Epoch of the map that all workers have.",
            |pools, to| to.by(pools.iter().filter_map(|it| Some((&*it.name, it.map_epoch?))));
        step[pool] => gauge, "Step of a coordinator by which all workers work, where one leads the pool.",
            |pools, to| to.by(pools.iter().filter_map(|it| Some((&*it.name, it.step?))));
        plan[pool] => gauge, "Plan of its ring by which all workers work.",
            |pools, to| to.by(pools.iter().filter_map(|it| Some((&*it.name, it.plan?))));
    }
    pub(crate) LISTS of Vec<DiscoveryStats> {
        list_standing[pool, standing] => gauge, "1 for where the pool stands with its list of servers, and 0 for where it does not.",
            |lists, to| for found in lists {
                let is_at = found.state.name();
                for state in [ListState::Unknown, ListState::Current, ListState::Unsettled(0), ListState::Kept] {
                    to.of(&[&found.pool, state.name()], u8::from(state.name() == is_at));
                }
            };
        list_confirmed_age_seconds[pool] => gauge, "Seconds since an answer was the list in force.",
            |lists, to| to.by(lists.iter().filter_map(|it| Some((&*it.pool, it.confirmed_age_s?))));
        list_age_seconds[pool] => gauge, "Seconds since the list in force was taken.",
            |lists, to| to.by(lists.iter().filter_map(|it| Some((&*it.pool, it.age_s?))));
    }
    pub(crate) HOT_KEYS of BTreeMap<String, HotKeysOfPool> {
        counted_keys[pool] => gauge, "Keys that are counted because they are read much, 128 of a worker at most.",
            |pools, to| to.by(pools.iter().map(|(pool, hot)| (&**pool, hot.counted)));
        hot_keys[pool] => gauge, "Keys that are replicated.",
            |pools, to| to.by(pools.iter().map(|(pool, hot)| (&**pool, hot.replicated)));
        hot_key_replicas[pool] => gauge, "Replicas of hot keys, besides the items themselves.",
            |pools, to| to.by(pools.iter().map(|(pool, hot)| (&**pool, hot.replicas)));
        hottest_key_reads_per_second[pool] => gauge, "Reads per second of the key that is read most.",
            |pools, to| to.by(pools.iter().map(|(pool, hot)| (&**pool, format!("{:.0}", hot.hottest_rps))));
    }
}

/// Writes it for Prometheus.
pub(crate) fn render(text: &mut Text, process: &ProcessStats) {
    text.families(OF_POOL, POOLS, &process.pools);
    let lists = &process.discoveries;
    text.families(OF_POOL, LISTS, lists);
    let counts = lists
        .iter()
        .map(|it| (vec![("pool", &*it.pool)], &it.counts));
    text.shown(OF_LISTS, Counts::SHOWN, counts);
    let bundles = process.pools.iter().filter_map(|pool| {
        let counts = pool.bundles.as_ref()?;
        Some((vec![("pool", &*pool.name)], counts))
    });
    text.shown(OF_BUNDLES, BundleCounts::SHOWN, bundles);
    text.families(OF_POOL, HOT_KEYS, &hot_keys(process));
}

fn hot_keys(process: &ProcessStats) -> BTreeMap<String, HotKeysOfPool> {
    let watching = process.pools.iter().filter(|pool| pool.watches);
    let mut pools: BTreeMap<_, _> = watching
        .map(|pool| (pool.name.to_string(), HotKeysOfPool::default()))
        .collect();
    for ((pool, _), HotKeySum { reads, gamma, .. }) in sums(&process.hot_keys) {
        let pool = pools.entry(pool.to_owned()).or_default();
        pool.counted += 1;
        pool.replicated += u64::from(gamma > 0);
        pool.replicas += u64::from(gamma);
        pool.hottest_rps = pool.hottest_rps.max(reads);
    }
    pools
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
            step: map_epoch.map(|epoch| epoch + 10),
            plan: map_epoch.map(|epoch| epoch + 20),
            servers: 3,
            watches,
            bundles: None,
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
                state: ListState::Kept,
                counts: Counts {
                    answers: 9,
                    failed: 2,
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
            "evenkeel_proxy_pool_step{pool=\"map\"} 16",
            "evenkeel_proxy_pool_plan{pool=\"map\"} 26",
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
