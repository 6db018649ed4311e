//! Planners on small clusters, and what all of these tests share.

mod checked;
mod doubtful;
mod quality;
mod random;
mod stories;

use super::*;
use crate::local::Effort;
use crate::mean;
use crate::share::{BUSY_MIN, TOLERANCE_MAX};
use crate::solver::WorkLimit;
use evenkeel_types::ServerId;
use evenkeel_types::random::SplitMix64;

const MIB: u64 = 1 << 20;

/// Everything may be copied: for stories about load alone.
fn generous() -> ClusterConfig {
    ClusterConfig {
        bytes_ratio_max: 1.0,
        ..ClusterConfig::default()
    }
}

/// What a cluster uses of its capacity.
const UTILIZATION: f64 = 0.6;

/// Servers with workers with cachelets of these loads, 1 MiB each. Loads are in hundreds, so
/// that none is too small to be believed whatever it is. All workers can do the same.
fn cluster(servers: &[&[&[f64]]]) -> ClusterReport {
    let mut number = 0;
    let mut cachelet = |load: &f64| {
        number += 1;
        CacheletReport {
            cachelet: CacheletNumber(number - 1),
            load: *load,
            memory_bytes: MIB,
            may_move: true,
        }
    };
    let mut worker = |loads: &&[f64]| WorkerReport {
        load: loads.iter().sum(),
        busy: 0.0,
        replicates: false,
        cachelets: loads.iter().map(&mut cachelet).collect(),
    };
    let servers = servers.iter().enumerate();
    let mut report = ClusterReport {
        servers: servers
            .map(|(id, workers)| ServerReport {
                server: ServerId(id as u16),
                accepts: true,
                memory_max_bytes: 1000 * MIB,
                workers: workers.iter().map(&mut worker).collect(),
            })
            .collect(),
    };
    let capacity = mean(&loads(&report)) / UTILIZATION;
    for worker in report
        .servers
        .iter_mut()
        .flat_map(|server| &mut server.workers)
    {
        worker.busy = (worker.load / capacity).min(1.0);
    }
    report
}

/// A worker has this many times the load.
fn heat(worker: &mut WorkerReport, times: f64) {
    worker.load *= times;
    worker.busy = (worker.busy * times).min(1.0);
    worker.cachelets.iter_mut().for_each(|c| c.load *= times);
}

fn planners() -> [Mbal; 2] {
    let work = WorkLimit::default();
    [
        Mbal::new(Effort::Fast, work),
        Mbal::new(Effort::Thorough, work),
    ]
}

fn mbal() -> Mbal {
    Mbal::new(Effort::Fast, WorkLimit::default())
}

fn answer(report: &ClusterReport, config: &ClusterConfig) -> ClusterAnswer {
    plan(&mut mbal(), report, config).unwrap()
}

fn expect_plan(answer: ClusterAnswer) -> ClusterPlan {
    match answer {
        ClusterAnswer::Plan(plan) => plan,
        other => panic!("{other:?}"),
    }
}

fn worker(server: u16, worker: u16) -> WorkerRef {
    WorkerRef {
        server: ServerId(server),
        worker,
    }
}

fn moves(plan: &ClusterPlan) -> Vec<(u32, WorkerRef, WorkerRef)> {
    let triple = |it: &Move| (it.cachelet.0, it.from, it.to);
    plan.moves.iter().map(triple).collect()
}

/// Executes a plan.
fn apply(report: &mut ClusterReport, plan: &ClusterPlan) {
    for it in &plan.moves {
        let c = take(report, it.cachelet, it.from);
        add_load(owner(report, it.from), -c.load);
        add_load(owner(report, it.to), c.load);
        owner(report, it.to).cachelets.push(c);
    }
}

/// It goes on to do as much in its time. One that was idle does not say how much that is.
fn add_load(worker: &mut WorkerReport, load: f64) {
    let after = (worker.load + load).max(0.0);
    if worker.load > 0.0 {
        worker.busy = (worker.busy * after / worker.load).min(1.0);
    }
    worker.load = after;
}

fn owner(report: &mut ClusterReport, at: WorkerRef) -> &mut WorkerReport {
    let mut servers = report.servers.iter_mut();
    let server = servers.find(|s| s.server == at.server).unwrap();
    &mut server.workers[usize::from(at.worker)]
}

fn take(report: &mut ClusterReport, cachelet: CacheletNumber, at: WorkerRef) -> CacheletReport {
    let cachelets = &mut owner(report, at).cachelets;
    let place = cachelets.iter().position(|c| c.cachelet == cachelet);
    cachelets.remove(place.expect("a move is of what is there"))
}

fn loads(report: &ClusterReport) -> Vec<f64> {
    let workers = report.servers.iter().flat_map(|server| &server.workers);
    workers.map(|worker| worker.load).collect()
}

/// A cluster of 8 servers with 4 workers and 16 cachelets each.
fn even_cluster() -> ClusterReport {
    let loads: &[f64] = &[2e3; 16];
    let workers: &[&[f64]] = &[loads; 4];
    cluster(&[workers; 8])
}

/// A cluster with skewed loads and sizes.
fn random_cluster(random: &mut SplitMix64) -> ClusterReport {
    let workers = 1 + random.below(4);
    let cachelets = 1 + random.below(20);
    let mut number = 0;
    let mut worker = |random: &mut SplitMix64| {
        let cachelets = (0..cachelets).map(|_| {
            number += 1;
            CacheletReport {
                cachelet: CacheletNumber(number),
                load: 500.0 / random.unit().powf(0.8).max(0.005),
                memory_bytes: random.below(4 * MIB),
                may_move: random.below(10) > 0,
            }
        });
        let cachelets: Vec<_> = cachelets.collect();
        let load = cachelets.iter().map(|c| c.load).sum::<f64>() + random.unit() * 500.0;
        let capacity = 80e3 * (0.5 + random.unit());
        WorkerReport {
            load,
            busy: (load / capacity).min(1.0),
            replicates: false,
            cachelets,
        }
    };
    ClusterReport {
        servers: (0..2 + random.below(12))
            .map(|id| {
                let mut server = ServerReport {
                    server: ServerId(3 * id as u16),
                    accepts: random.below(10) > 0,
                    memory_max_bytes: 0,
                    workers: (0..workers).map(|_| worker(random)).collect(),
                };
                let spare = 80 + random.below(100);
                server.memory_max_bytes = server.memory_bytes() / 100 * spare;
                server
            })
            .collect(),
    }
}
