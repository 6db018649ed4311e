//! Random clusters: every planner keeps every rule, and is not far from the best that can be done.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::{deviation, mean};
use evenkeel_testkit::seed;

#[test]
fn plans_of_all_planners_keep_every_rule() {
    let mut random = SplitMix64::new(seed(0x5eed));
    let mut plans = BTreeMap::new();
    for round in 0..200 {
        let report = random_cluster(&mut random);
        let config = ClusterConfig {
            bytes_ratio_max: [0.01, 0.1, 1.0][round % 3],
            bytes_free: [0, 3 << 20][round % 2],
            moves_max: 1 + random.below(40) as usize,
            ..ClusterConfig::default()
        };
        for (i, planner) in planners().iter_mut().enumerate() {
            if i == 1 && round % 8 != 0 {
                continue; // Programs take their time.
            }
            let answer = plan(planner, &report, &config).unwrap();
            assert_eq!(answer, plan(planner, &report, &config).unwrap());
            if let ClusterAnswer::Plan(plan) = answer {
                *plans.entry(i).or_insert(0) += 1;
                check_rules(&report, &config, &plan);
            }
        }
    }
    println!("{plans:?}");
    assert_eq!(plans.len(), 2);
    assert!(plans.values().all(|&count| count > 8), "{plans:?}");
}

/// The rules once more, on a cluster that the plan was really executed on. Reports of these clusters are believed
/// as they are, unless one is more than four times the median.
fn check_rules(report: &ClusterReport, config: &ClusterConfig, plan: &ClusterPlan) {
    let mut after = report.clone();
    apply(&mut after, plan);
    let (was, is) = (loads(report), loads(&after));
    assert!((was.iter().sum::<f64>() - is.iter().sum::<f64>()).abs() < 1e-3);
    assert!(plan.moves.len() <= config.moves_max);
    let all: u64 = report.servers.iter().map(ServerReport::memory_bytes).sum();
    let first = plan.moves[0].bytes as f64;
    assert!(
        plan.bytes as f64
            <= first
                .max(config.bytes_ratio_max * all as f64)
                .max(config.bytes_free as f64)
    );
    let is_full = |server: &&ServerReport| {
        server.memory_bytes() as f64
            >= config.memory_ratio_max * server.memory_max_bytes as f64 - 1.0
    };
    let full: BTreeSet<ServerId> = report
        .servers
        .iter()
        .filter(is_full)
        .map(|s| s.server)
        .collect();
    for (before, after) in report.servers.iter().zip(&after.servers) {
        let most = (config.memory_ratio_max * before.memory_max_bytes as f64) as u64;
        let evicted = plan
            .moves
            .iter()
            .filter(|it| full.contains(&it.from.server));
        let evicted: u64 = evicted.map(|it| it.bytes).sum();
        assert!(after.memory_bytes() <= most.max(before.memory_bytes()) + evicted);
    }
    let moved: BTreeSet<u32> = moves(plan).iter().map(|m| m.0).collect();
    assert_eq!(moved.len(), plan.moves.len());
    assert!(plan.after.deviation <= plan.before.deviation + 1e-6);
    let sum: f64 = plan.changes.iter().map(|c| c.after - c.before).sum();
    assert!(sum.abs() < 1e-3);
    let json = serde_json::to_string(plan).unwrap();
    let read: ClusterPlan = serde_json::from_str(&json).unwrap();
    assert_eq!(read.moves.len(), plan.moves.len());
}

/// The simple twin: every assignment of the cachelets to three servers of one worker. On average the deviation that
/// the planner leaves is within a quarter of the mean load of the least there can be.
#[test]
fn plans_are_near_the_best_that_could_be_done() {
    let mut random = SplitMix64::new(seed(0x5eed));
    let config = generous();
    let (mut best_sum, mut sums, mut cases) = (0.0, [0.0; 2], 0);
    for _ in 0..200 {
        let mut draw = |count: u64, most: u64| -> Vec<f64> {
            let load = |_| 1000.0 * (5.0 + random.below(most) as f64);
            (0..count).map(load).collect()
        };
        let (a, b, c) = (draw(4, 45), draw(3, 25), draw(2, 25));
        let report = cluster(&[&[&a], &[&b], &[&c]]);
        let before = loads(&report);
        let mean = mean(&before);
        let share = Utilization(UTILIZATION).share(mean / UTILIZATION);
        let over = before.iter().filter(|&&l| l > share.overloaded);
        let mut sorted = before.clone();
        sorted.sort_by(f64::total_cmp);
        let is_believed = sorted[2] <= LOAD_CLAMP * sorted[1];
        if over.count() != 1 || !is_believed {
            continue;
        }
        let all: Vec<f64> = [a, b, c].concat();
        let mut best = f64::MAX;
        for code in 0..3usize.pow(9) {
            let (mut rest, mut loads) = (code, [0.0; 3]);
            for load in &all {
                loads[rest % 3] += load;
                rest /= 3;
            }
            let most = |w: usize| share.overloaded.max(before[w]);
            if (0..3).all(|w| loads[w] <= most(w)) {
                best = deviation(&loads).min(best);
            }
        }
        cases += 1;
        best_sum += best / mean;
        for (sum, mut planner) in sums.iter_mut().zip(planners()) {
            let after = match plan(&mut planner, &report, &config).unwrap() {
                ClusterAnswer::Plan(plan) => plan.after.deviation,
                _ => deviation(&before),
            };
            assert!(after >= best - 1e-6);
            *sum += after / mean;
        }
    }
    println!("{cases}: {best_sum} {sums:?}");
    assert!(cases > 100);
    let over = sums.map(|sum| (sum - best_sum) / f64::from(cases));
    assert!(over[0] < 0.25 && over[1] < 0.25, "{over:?}");
}
