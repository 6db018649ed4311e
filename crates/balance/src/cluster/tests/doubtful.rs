//! Reports that exaggerate or waver: little moves for them.

use super::*;
use evenkeel_testkit::seed;

#[test]
fn a_server_that_reports_a_thousandfold_load_does_not_draw_everything_to_one_place() {
    for mut planner in planners() {
        let mut truth = even_cluster();
        for _ in 0..100 {
            let mut report = truth.clone();
            for worker in &mut report.servers[3].workers {
                heat(worker, 1000.0);
            }
            let answer = plan(&mut planner, &report, &ClusterConfig::default()).unwrap();
            let ClusterAnswer::Plan(plan) = answer else {
                break;
            };
            apply(&mut truth, &plan);
        }
        for load in loads(&truth) {
            assert!(load <= 1.5 * 32e3, "{load}");
        }
    }
}

#[test]
fn a_server_that_claims_to_be_idle_gets_no_more_than_its_share() {
    for mut planner in planners() {
        let mut truth = even_cluster();
        truth.servers[0].workers[0].load += 20e3;
        truth.servers[0].workers[0].cachelets[0].load += 20e3;
        let mut report = truth.clone();
        for worker in &mut report.servers[5].workers {
            worker.load = 0.0;
            for c in &mut worker.cachelets {
                c.load = 0.0;
            }
        }
        for _ in 0..20 {
            let answer = plan(&mut planner, &report, &ClusterConfig::default()).unwrap();
            let ClusterAnswer::Plan(plan) = answer else {
                break;
            };
            apply(&mut report, &plan);
            apply(&mut truth, &plan);
        }
        for worker in &truth.servers[5].workers {
            assert!(worker.load <= 32e3 + 1.05 * 33e3, "{}", worker.load);
        }
    }
}

#[test]
fn absurd_numbers_are_borne() {
    let mut random = SplitMix64::new(seed(0x5eed));
    for round in 0..200 {
        let mut report = random_cluster(&mut random);
        for server in &mut report.servers {
            let absurd = |random: &mut SplitMix64| random.below(3) == 0;
            if absurd(&mut random) {
                server.memory_max_bytes = [0, u64::MAX][random.below(2) as usize];
            }
            for c in server.workers.iter_mut().flat_map(|w| &mut w.cachelets) {
                if absurd(&mut random) {
                    c.load = [0.0, f64::MIN_POSITIVE, 1e12][random.below(3) as usize];
                    c.memory_bytes = [0, 1, 1 << 40][random.below(3) as usize];
                }
            }
        }
        let config = [ClusterConfig::default(), generous()][round % 2];
        for (i, planner) in planners().iter_mut().enumerate() {
            if i == 1 && round % 8 != 0 {
                continue; // Programs take their time.
            }
            if let ClusterAnswer::Plan(plan) = plan(planner, &report, &config).unwrap() {
                let after = plan.after;
                assert!(after.load_max.is_finite() && after.deviation.is_finite());
            }
        }
    }
}

/// The cluster with loads that waver by this much.
fn waver(random: &mut SplitMix64, truth: &ClusterReport, part: f64) -> ClusterReport {
    let mut report = truth.clone();
    for worker in report.servers.iter_mut().flat_map(|s| &mut s.workers) {
        for c in &mut worker.cachelets {
            c.load *= 1.0 - part + 2.0 * part * random.unit();
        }
        worker.load = worker.cachelets.iter().map(|c| c.load).sum();
    }
    report
}

#[test]
fn noise_moves_nothing() {
    let mut random = SplitMix64::new(seed(0x5eed));
    let truth = even_cluster();
    for _ in 0..100 {
        let report = waver(&mut random, &truth, 0.2);
        for mut planner in planners() {
            let answer = plan(&mut planner, &report, &ClusterConfig::default()).unwrap();
            assert_eq!(answer, ClusterAnswer::Even);
        }
    }
}

/// One server is twice as hot as the others. A hundredth of the data in each plan is five cachelets of 512. Once it is
/// relieved hardly anything moves, though loads waver by a tenth.
#[test]
fn a_hot_server_is_relieved_step_by_step_and_then_nothing_moves() {
    let mut random = SplitMix64::new(seed(0x5eed));
    for mut planner in planners() {
        let mut truth = even_cluster();
        for worker in &mut truth.servers[2].workers {
            heat(worker, 2.0);
        }
        let (mut moved, mut late) = (0, 0);
        for interval in 1..=100 {
            let report = waver(&mut random, &truth, 0.1);
            let answer = plan(&mut planner, &report, &ClusterConfig::default()).unwrap();
            if let ClusterAnswer::Plan(plan) = answer {
                assert!(plan.bytes <= 512 * MIB / 100);
                moved += plan.moves.len();
                late += if interval > 20 { plan.moves.len() } else { 0 };
                apply(&mut truth, &plan);
            }
        }
        let loads = loads(&truth);
        let most = loads.iter().copied().fold(0.0, f64::max);
        println!("{moved} moves, {late} of them late");
        assert!(most <= 1.15 * mean(&loads), "{loads:?}");
        // 28 cachelets of the hot server's 64 are what it has too much.
        assert!((24..=48).contains(&moved), "{moved}");
        assert!(late <= 8, "{late}");
    }
}
