//! Both fidelities beside real servers under the same load: the same keys, equally popular, by the map that a
//! coordinator begins with.

use evenkeel_bench::{Driver, LoadPlan as BenchPlan, Source, Stop, Target};
use evenkeel_sim::load::{Arrivals, KEY_LEN, LoadPlan, fast, whole};
use evenkeel_testkit::{Cluster, ClusterOptions};
use evenkeel_workload::{KeySizes, Mix, Popularity, ValueSizes, WorkloadSpec};

/// Requests of a run, those that fill what was missed not counted.
const REQUESTS: u64 = 40_000;

/// Virtual time that they take.
const SECONDS: u64 = 4;

const SERVERS: usize = 3;

/// What a run came to.
struct Seen {
    what: &'static str,
    /// Of each server, the smallest first: which server has which number is a matter of who came first.
    shares: Vec<f64>,
    hit_ratio: f64,
}

impl Seen {
    fn new(what: &'static str, served: &[f64], hit_ratio: f64) -> Seen {
        let sum: f64 = served.iter().sum();
        let mut shares: Vec<f64> = served.iter().map(|count| count / sum).collect();
        shares.sort_by(f64::total_cmp);
        println!("{what}: {shares:.4?} {hit_ratio:.4}");
        Seen {
            what,
            shares,
            hit_ratio,
        }
    }
}

/// Empty servers of a size; what is missed is set.
fn plan(memory_mb: usize) -> LoadPlan {
    LoadPlan {
        seed: 5,
        servers: SERVERS,
        proxies: 1,
        clients: 16,
        keys: 60_000,
        popularity: Popularity::Zipf { exponent: 0.99 },
        get_share: 0.95,
        value_bytes: 400,
        memory_bytes: memory_mb << 20,
        arrivals: Arrivals::Open {
            rate: (REQUESTS / SECONDS) as f64,
        },
        warm_up: 0,
        length: SECONDS * 1_000_000_000,
        ..LoadPlan::default()
    }
}

fn simulated(plan: &LoadPlan) -> [Seen; 2] {
    let runs = [("whole", whole::run(plan)), ("fast", fast::run(plan))];
    runs.map(|(what, report)| {
        let report = report.expect("a sound plan");
        Seen::new(what, &report.worker_keys_per_second, report.hit_ratio)
    })
}

fn real(plan: &LoadPlan) -> Seen {
    let memory_mb = (plan.memory_bytes >> 20).to_string();
    let cluster = Cluster::start(ClusterOptions {
        servers: SERVERS,
        threads: 1,
        // Items of at most the simulated size; nothing is sampled, so that no key is hot.
        ..ClusterOptions::nobody_dies()
            .with_server_args(&["-m", &memory_mb, "-I", "64k"])
            .with_settings(r#"{"hot_sampling": 0}"#)
    });
    let served = || -> Vec<u64> {
        let of = |index| {
            let stats = cluster.server_client(index).stats("");
            let number = |name: &str| stats[name].parse::<u64>().expect("a number");
            number("cmd_get") + number("cmd_set")
        };
        (0..SERVERS).map(of).collect()
    };
    let before = served();
    let spec = WorkloadSpec {
        keys: Some(plan.keys),
        popularity: plan.popularity,
        mix: Mix::gets(plan.get_share).expect("a share"),
        prefix: plan.key_prefix(),
        key_sizes: KeySizes::fixed(KEY_LEN as u32).expect("a length"),
        value_sizes: ValueSizes::fixed(plan.value_bytes as u32).expect("a length"),
        seed: plan.seed,
        ..WorkloadSpec::default()
    };
    let target = Target::from(cluster.proxies[0].address());
    let load = Driver::start(BenchPlan {
        connections_per_thread: plan.clients,
        cache_aside: true,
        stop: Stop {
            after: None,
            requests: Some(REQUESTS),
        },
        ..BenchPlan::new(target, Source::Generated(spec))
    });
    let counters = load.and_then(|load| load.wait()).expect("a load").counters;
    assert_eq!((counters.errors, counters.wrong_values), (0, 0));
    let served: Vec<f64> = served()
        .iter()
        .zip(&before)
        .map(|(after, before)| (after - before) as f64)
        .collect();
    Seen::new("real", &served, counters.hit_ratio())
}

#[test]
fn real_servers_and_both_fidelities_agree_on_shares_and_hits() {
    // Roomy servers miss each key once; small ones hold a part of what they are given.
    for memory_mb in [64, 1] {
        let plan = plan(memory_mb);
        let real = real(&plan);
        for simulated in simulated(&plan) {
            let what = simulated.what;
            for (simulated, real) in simulated.shares.iter().zip(&real.shares) {
                assert!(
                    (simulated - real).abs() < 0.01,
                    "{what}: a share of {simulated}, not {real}"
                );
            }
            let off = (simulated.hit_ratio - real.hit_ratio).abs();
            assert!(
                off < 0.015,
                "{what}: hit ratio {}, not {}",
                simulated.hit_ratio,
                real.hit_ratio
            );
        }
    }
}
