//! Cachelets that move under load: what the balancing that ships makes of it, in the fast mode.

use evenkeel_coordinator_core::plans::{PlanMode, PlanSettings};
use evenkeel_hotkeys::config::{HotKeysConfig, Mode};
use evenkeel_sim::load::{Arrivals, Balancing, LoadPlan, LoadReport, Part, ServiceModel, fast};
use evenkeel_workload::Popularity;

const SECOND: u64 = 1_000_000_000;

/// Keys a second of a worker.
const CAPACITY: f64 = 1_000.0;

fn nobody() -> Balancing {
    Balancing::default()
}

fn plans(mode: PlanMode) -> PlanSettings {
    PlanSettings {
        mode,
        ..PlanSettings::default()
    }
}

/// Six servers of four workers, most of whose requests are for a twentieth of the keys, asked for half of what they
/// can do.
fn plan(balancing: Balancing) -> LoadPlan {
    let (servers, workers) = (6, 4);
    LoadPlan {
        seed: 3,
        servers,
        workers_per_server: workers,
        proxies: 2,
        clients: 32,
        keys: 20_000,
        popularity: Popularity::Hotspot {
            operations: 0.8,
            keys: 0.01,
        },
        get_share: 0.95,
        prefill: true,
        balancing: Some(balancing),
        arrivals: Arrivals::Open {
            rate: 0.5 * CAPACITY * servers as f64 * f64::from(workers),
        },
        service: ServiceModel {
            operation_ns: 1e9 / CAPACITY,
            ..ServiceModel::default()
        },
        warm_up: 40 * SECOND,
        length: 10 * SECOND,
        ..LoadPlan::default()
    }
}

fn run(balancing: Balancing) -> LoadReport {
    let report = fast::run(&plan(balancing)).expect("a sound plan");
    println!("{balancing:?}\n{report}\n{:?}", report.balancing);
    assert_eq!(report.hit_ratio, 1.0, "what moves keeps its contents");
    report
}

/// How uneven the workers of each server are among themselves: the busiest by the mean, averaged over the servers.
fn max_over_mean_within(report: &LoadReport) -> f64 {
    let within = (report.worker_keys_per_second.chunks(4)).map(|workers| {
        let mean = workers.iter().sum::<f64>() / workers.len() as f64;
        workers.iter().copied().fold(0.0, f64::max) / mean
    });
    within.sum::<f64>() / 6.0
}

/// The busiest server by the mean of all.
fn max_over_mean_of_servers(report: &LoadReport) -> f64 {
    let loads: Vec<f64> = (report.worker_keys_per_second.chunks(4))
        .map(|workers| workers.iter().sum())
        .collect();
    let mean = loads.iter().sum::<f64>() / loads.len() as f64;
    loads.iter().copied().fold(0.0, f64::max) / mean
}

#[test]
fn without_anybody_to_move_them_cachelets_stay_and_load_stays_uneven() {
    let report = run(nobody());
    let counts = report.balancing.expect("the fast mode tells");
    assert_eq!((counts.lent, counts.moved, counts.redirects), (0, 0, 0));
    assert!(report.load_max_over_mean > 1.3, "{report}");
}

#[test]
fn lending_evens_out_the_workers_of_each_server_alone() {
    let without = run(nobody());
    let report = run(Balancing {
        lends: true,
        ..nobody()
    });
    let counts = report.balancing.expect("the fast mode tells");
    assert!(counts.lent > 0 && counts.moved == 0, "{counts:?}");
    assert!(counts.redirects > 0, "proxies learn where cachelets went");
    let within = [&without, &report].map(max_over_mean_within);
    assert!(within[1] < within[0] - 0.1, "{within:?}");
    assert!(report.load_max_over_mean < without.load_max_over_mean);
    let servers = [&without, &report].map(max_over_mean_of_servers);
    assert!((servers[0] - servers[1]).abs() < 0.02, "{servers:?}");
}

#[test]
fn plans_even_out_the_servers_and_copy_a_hundredth_at_a_time() {
    let without = run(nobody());
    let report = run(Balancing {
        lends: false,
        plans: plans(PlanMode::Automatic),
    });
    let counts = report.balancing.expect("the fast mode tells");
    assert!(counts.moved > 0 && counts.lent == 0, "{counts:?}");
    assert!(counts.plans > 0);
    assert!(report.load_max_over_mean < without.load_max_over_mean - 0.1);
    assert!(report.load_max_over_mean < 1.25, "{report}");
}

#[test]
fn a_story_goes_on_with_the_servers_of_the_part_before() {
    let plan = LoadPlan {
        hot_keys: HotKeysConfig {
            mode: Mode::On,
            ..HotKeysConfig::default()
        },
        ..plan(Balancing {
            lends: true,
            plans: plans(PlanMode::Automatic),
        })
    };
    let uneven = Part {
        popularity: plan.popularity,
        get_share: 0.95,
    };
    let even = Part {
        popularity: Popularity::Uniform,
        get_share: 0.5,
    };
    let told = fast::tell(&plan, &[uneven, even], 20 * SECOND, SECOND).expect("a sound plan");
    let [first, second] = &told[..] else {
        panic!("there are two parts");
    };
    for part in [first, second] {
        assert_eq!(part.moments.len(), 20);
        let rate = part.report.requests_per_second;
        assert!((11_000.0..13_000.0).contains(&rate), "{rate}");
        assert!(
            part.moments
                .iter()
                .all(|moment| moment.latency_us_p90 > 0.0)
        );
    }
    let [begun, over] = [&first.moments[0], &first.moments[19]];
    assert!(over.load_max_over_mean < begun.load_max_over_mean - 0.1);
    assert!(over.load_max_over_mean < 1.3, "{over:?}");
    let writes = |part: &evenkeel_sim::load::PartReport| {
        part.report.writes as f64 / part.report.requests as f64
    };
    assert!((0.04..0.06).contains(&writes(first)), "{}", writes(first));
    assert!((0.49..0.51).contains(&writes(second)), "{}", writes(second));
    // Hot keys are replicated before anybody lends a cachelet; what is left moves. Even keys are none.
    let [first, second] = [first, second].map(|part| part.report.balancing.expect("told"));
    assert!(first.promoted > 0 && first.moved > 0, "{first:?}");
    assert_eq!((second.promoted, second.moved), (0, 0), "{second:?}");
}

#[test]
fn the_same_seed_moves_the_same_cachelets() {
    let all = Balancing {
        lends: true,
        plans: plans(PlanMode::Automatic),
    };
    let [one, other] = [run(all), run(all)];
    assert_eq!(one.balancing, other.balancing);
    assert_eq!(one.latency_us, other.latency_us);
}
