//! Load and latency in both fidelities: they agree where they must, and with what theory says.

use evenkeel_balance::load::TriggerConfig;
use evenkeel_hotkeys::config::{HotKeysConfig, Mode};
use evenkeel_placement::config::Distribution;
use evenkeel_sim::load::{Arrivals, KeyPlacement, LoadPlan, LoadReport, ServiceModel, fast, whole};
use evenkeel_workload::{Popularity, ReadOnly};

const SECOND: u64 = 1_000_000_000;

fn both(plan: &LoadPlan) -> [LoadReport; 2] {
    [whole::run(plan), fast::run(plan)].map(|report| report.expect("a sound plan"))
}

fn plan(rate: f64) -> LoadPlan {
    LoadPlan {
        keys: 20_000,
        arrivals: Arrivals::Open { rate },
        warm_up: 2 * SECOND,
        length: 4 * SECOND,
        ..LoadPlan::default()
    }
}

fn assert_close(what: &str, one: f64, other: f64, by: f64) {
    assert!(
        (one - other).abs() <= by,
        "{what}: whole {one}, fast {other}"
    );
}

fn assert_shares(whole: &LoadReport, fast: &LoadReport, by: f64) {
    let shares = [whole, fast].map(|report| {
        let sum: f64 = report.worker_keys_per_second.iter().sum();
        let share = |rate: &f64| rate / sum;
        let rates = report.worker_keys_per_second.iter();
        rates.map(share).collect::<Vec<_>>()
    });
    assert_eq!(shares[0].len(), shares[1].len());
    for (one, other) in shares[0].iter().zip(&shares[1]) {
        assert_close("share of a worker", *one, *other, by);
    }
}

#[test]
fn both_agree_on_shares_and_hits_of_an_uneven_load() {
    let plan = LoadPlan {
        popularity: Popularity::Zipf { exponent: 1.2 },
        ..plan(20_000.0)
    };
    let [whole, fast] = both(&plan);
    println!("whole\n{whole}\nfast\n{fast}");
    assert!(whole.load_max_over_mean > 1.1, "a hot key makes it uneven");
    assert_shares(&whole, &fast, 0.01);
    assert_close("hit ratio", whole.hit_ratio, fast.hit_ratio, 0.01);
    let rate = whole.requests_per_second / fast.requests_per_second;
    assert!((0.98..1.02).contains(&rate), "{rate}");
}

#[test]
fn both_agree_on_hits_of_servers_that_are_too_small() {
    let plan = LoadPlan {
        keys: 200_000,
        memory_bytes: 4 << 20,
        warm_up: 6 * SECOND,
        ..plan(30_000.0)
    };
    let [whole, fast] = both(&plan);
    println!("whole\n{whole}\nfast\n{fast}");
    assert!(whole.hit_ratio < 0.9, "some do not fit");
    assert_close("hit ratio", whole.hit_ratio, fast.hit_ratio, 0.03);
}

#[test]
fn both_agree_on_what_hot_keys_do() {
    let plan = LoadPlan {
        keys: 2_000,
        popularity: Popularity::Zipf { exponent: 1.2 },
        get_share: 0.99,
        hot_keys: HotKeysConfig {
            mode: Mode::On,
            // All workers look: none wavers about a threshold in one and not in the other.
            trigger: TriggerConfig {
                absolute_rps: Some(1.0),
                ..TriggerConfig::default()
            },
            ..HotKeysConfig::default()
        },
        warm_up: 10 * SECOND,
        ..plan(20_000.0)
    };
    let [whole, fast] = both(&plan);
    let off = LoadPlan {
        hot_keys: LoadPlan::default().hot_keys,
        ..plan
    };
    let [without, _] = both(&off);
    println!("whole\n{whole}\nfast\n{fast}\nwithout\n{without}");
    assert!(whole.replica_read_share > 0.1, "copies are read");
    assert!(
        whole.load_max_over_mean < without.load_max_over_mean - 0.1,
        "{} with, {} without",
        whole.load_max_over_mean,
        without.load_max_over_mean
    );
    assert!(
        whole.load_max_over_mean < 1.15,
        "{}",
        whole.load_max_over_mean
    );
    assert_close(
        "reads of copies",
        whole.replica_read_share,
        fast.replica_read_share,
        0.05,
    );
    assert_shares(&whole, &fast, 0.03);
}

#[test]
fn both_agree_on_latency_and_queues_grow_as_theory_says() {
    let service = ServiceModel {
        operation_ns: 100_000.0,
        ..ServiceModel::default()
    };
    let at = |utilization: f64| LoadPlan {
        popularity: Popularity::Uniform,
        get_share: 1.0,
        service,
        ..plan(utilization * 4.0 * 10_000.0)
    };
    // M/D/1: the mean wait is ρ / (2 (1 − ρ)) of a service time; its median at ρ = 0.5 is below one.
    let [whole, fast] = both(&at(0.5));
    println!("whole\n{whole}\nfast\n{fast}");
    let rest = 100.0 + 2.0 * (50.0 + 10.0);
    assert!(
        (rest..rest + 100.0).contains(&whole.latency_us.p50),
        "{}",
        whole.latency_us.p50
    );
    assert_close("p50", whole.latency_us.p50, fast.latency_us.p50, 15.0);
    assert_close("p99", whole.latency_us.p99, fast.latency_us.p99, 60.0);
    // Past what servers can do, the queue grows as long as it lasts; proxies refuse what would wait in it.
    let [whole, fast] = both(&at(1.3));
    let p99 = [whole.latency_us.p99, fast.latency_us.p99];
    assert!(p99[1] > 500_000.0, "{p99:?}");
    assert!(p99[0] < 150_000.0 && whole.errors > 0, "{p99:?}");
}

#[test]
fn a_closed_loop_is_as_fast_as_its_round_trip() {
    let plan = LoadPlan {
        arrivals: Arrivals::Closed { pipeline: 8 },
        clients: 4,
        ..plan(1.0)
    };
    let report = whole::run(&plan).expect("a sound plan");
    // Four applications with eight requests each per 2 · (50 + 10) µs, and a fill's round trip at times.
    let most = 4.0 * 8.0 / 120e-6;
    let rate = report.requests_per_second;
    assert!(
        (0.7 * most..1.01 * most).contains(&rate),
        "{rate} of {most}"
    );
    assert!(fast::run(&plan).is_err(), "it knows no closed loops");
}

#[test]
fn ten_thousand_workers_fit_and_the_same_seed_gives_the_same_load() {
    let plan = LoadPlan {
        servers: 2_500,
        workers_per_server: 4,
        cachelets_per_worker: 6,
        keys: 100_000,
        warm_up: SECOND / 10,
        length: SECOND / 10,
        ..plan(5_000_000.0)
    };
    let [a, b] = [0, 1].map(|_| fast::run(&plan).expect("a sound plan"));
    assert_eq!(a.worker_keys_per_second, b.worker_keys_per_second);
    assert_eq!(a.worker_keys_per_second.len(), 10_000);
    assert!((450_000..550_000).contains(&a.requests), "{}", a.requests);
    let small = LoadPlan {
        length: SECOND,
        ..LoadPlan::default()
    };
    let [a, b] = [0, 1].map(|_| whole::run(&small).expect("a sound plan"));
    assert_eq!(a.requests, b.requests);
    assert_eq!(a.worker_keys_per_second, b.worker_keys_per_second);
    assert_eq!(a.latency_us, b.latency_us);
}

#[test]
fn plain_servers_are_placed_as_by_their_clients_and_bytes_cost_the_same() {
    let plain = LoadPlan {
        servers: 8,
        placement: KeyPlacement::Plain(Distribution::KetamaWeighted),
        popularity: Popularity::Uniform,
        prefill: true,
        service: ServiceModel {
            byte_ns: 200.0,
            ..ServiceModel::default()
        },
        ..plan(40_000.0)
    };
    let ideal = LoadPlan {
        placement: KeyPlacement::Map,
        ..plain.clone()
    };
    for plan in [&plain, &ideal] {
        let [whole, fast] = both(plan);
        println!("whole\n{whole}\nfast\n{fast}");
        assert_shares(&whole, &fast, 0.01);
        assert_eq!(
            [whole.hit_ratio, fast.hit_ratio],
            [1.0, 1.0],
            "all keys are there"
        );
        assert_eq!([whole.errors, fast.errors], [0, 0]);
        let (one, other) = (whole.read_latency_us, fast.read_latency_us);
        assert_close("p50 of reads", one.p50, other.p50, 0.05 * one.p50);
        assert_close("p95 of reads", one.p95, other.p95, 0.1 * one.p95);
        let (one, other) = (whole.write_latency_us, fast.write_latency_us);
        assert_close("p50 of writes", one.p50, other.p50, 0.05 * one.p50);
        let is_even = whole.load_max_over_mean < 1.05;
        assert_eq!(is_even, plan.placement == KeyPlacement::Map, "{whole}");
    }
    // A ring of other names is another ring.
    let of_seed = |seed| {
        fast::run(&LoadPlan {
            seed,
            ..plain.clone()
        })
        .expect("a sound plan")
    };
    let unevenness = [1, 2].map(|seed| of_seed(seed).load_max_over_mean);
    assert!(
        (unevenness[0] - unevenness[1]).abs() > 0.005,
        "{unevenness:?}"
    );
    for wrong in [
        LoadPlan {
            workers_per_server: 2,
            ..plain.clone()
        },
        LoadPlan {
            hot_keys: HotKeysConfig::default(),
            ..plain.clone()
        },
    ] {
        assert!(fast::run(&wrong).is_err() && whole::run(&wrong).is_err());
    }
}

#[test]
fn hot_keys_move_when_popularity_is_reshuffled() {
    // The hottest key makes its home the busiest worker, until another is the hottest.
    let still = LoadPlan {
        popularity: Popularity::Zipf { exponent: 1.5 },
        prefill: true,
        warm_up: 0,
        ..plan(20_000.0)
    };
    let moving = LoadPlan {
        reshuffle: Some(SECOND / 20),
        ..still.clone()
    };
    let [whole_still, fast_still] = both(&still);
    let [whole, fast] = both(&moving);
    for report in [&whole_still, &fast_still] {
        assert!(report.load_max_over_mean > 1.5, "{report}");
    }
    for report in [&whole, &fast] {
        assert!(report.load_max_over_mean < 1.3, "{report}");
    }
    assert_shares(&whole, &fast, 0.01);
}

#[test]
fn read_only_keys_are_not_written() {
    // A fifth of 50 keys that are asked for alike: writes to them become reads.
    let plan = LoadPlan {
        keys: 50,
        popularity: Popularity::Uniform,
        get_share: 0.5,
        read_only: Some(ReadOnly {
            every: 5,
            among: 500,
        }),
        prefill: true,
        ..plan(20_000.0)
    };
    for report in both(&plan) {
        let reads = report.reads as f64 / report.requests as f64;
        assert!((0.59..0.61).contains(&reads), "{reads}");
        assert_eq!(report.reads + report.writes, report.requests);
    }
}

#[test]
fn what_servers_cannot_carry_is_not_counted_as_answered() {
    let plan = LoadPlan {
        popularity: Popularity::Uniform,
        prefill: true,
        // Of several, each gets another part of each server, and answers of one wait for those of another.
        proxies: 1,
        service: ServiceModel {
            operation_ns: 100_000.0,
            ..ServiceModel::default()
        },
        ..plan(50_000.0)
    };
    for report in both(&plan) {
        let rate = report.requests_per_second;
        assert!(
            (38_500.0..41_500.0).contains(&rate),
            "four of 10,000: {rate}"
        );
        let served: f64 = report.worker_keys_per_second.iter().sum();
        assert!((38_500.0..41_500.0).contains(&served), "{served}");
    }
}
