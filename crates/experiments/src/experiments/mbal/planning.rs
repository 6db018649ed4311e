//! How long a plan of phase 3 takes for a cluster far beyond the paper's.

use anyhow::bail;
use evenkeel_balance::cluster::{
    CacheletNumber, CacheletReport, ClusterAnswer, ClusterConfig, ClusterReport, Mbal,
    ServerReport, WorkerReport, plan,
};
use evenkeel_balance::local::Effort;
use evenkeel_balance::solver::WorkLimit;
use evenkeel_types::{KeyHash, ServerId};
use std::time::{Duration, Instant};

/// A cluster.
pub(super) const SERVERS: usize = 1_000;
pub(super) const WORKERS: usize = 16;
pub(super) const CACHELETS: usize = 16;

/// Zipf constant of the loads of cachelets; a twentieth of them are this many times as hot.
const EXPONENT: f64 = 0.5;
const HOT: usize = 20;
const HOTTER: f64 = 4.0;

const CACHELET_BYTES: u64 = 64 << 20;

/// A plan and what it took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub took: Duration,
    pub moves: usize,
    /// What it copies, as a part of all data.
    pub part_of_bytes: f64,
}

/// Makes one plan by the fast path.
pub(super) fn plan_once(seed: u64) -> anyhow::Result<Planned> {
    let report = report(seed);
    let mut planner = Mbal::new(Effort::Fast, WorkLimit::default());
    let begun = Instant::now();
    let answer = plan(&mut planner, &report, &ClusterConfig::default())?;
    let took = begun.elapsed();
    let ClusterAnswer::Plan(plan) = answer else {
        bail!("nothing to plan in a cluster with hot spots: {answer:?}");
    };
    let bytes: u64 = report.servers.iter().map(ServerReport::memory_bytes).sum();
    Ok(Planned {
        took,
        moves: plan.moves.len(),
        part_of_bytes: plan.bytes as f64 / bytes as f64,
    })
}

/// Loads by Zipf's law in an order of the seed's.
fn report(seed: u64) -> ClusterReport {
    let count = SERVERS * WORKERS * CACHELETS;
    let cachelet = |index: usize| {
        let hash = KeyHash::of(format!("{seed} {index}").as_bytes()).0;
        let rank = hash as usize % count + 1;
        let hot = if index.is_multiple_of(HOT) {
            HOTTER
        } else {
            1.0
        };
        CacheletReport {
            cachelet: CacheletNumber(index as u32),
            load: 1e6 * hot * (rank as f64).powf(-EXPONENT),
            memory_bytes: CACHELET_BYTES,
            may_move: true,
        }
    };
    let worker = |first: usize| {
        let cachelets: Vec<_> = (first..first + CACHELETS).map(cachelet).collect();
        WorkerReport {
            load: cachelets.iter().map(|cachelet| cachelet.load).sum(),
            busy: 0.6,
            replicates: false,
            cachelets,
        }
    };
    let server = |server: usize| {
        let first = |index| (server * WORKERS + index) * CACHELETS;
        ServerReport {
            server: ServerId(server as u16),
            accepts: true,
            memory_max_bytes: 2 * (WORKERS * CACHELETS) as u64 * CACHELET_BYTES,
            workers: (0..WORKERS).map(|index| worker(first(index))).collect(),
        }
    };
    ClusterReport {
        servers: (0..SERVERS).map(server).collect(),
    }
}
