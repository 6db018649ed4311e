//! Two workers against one: clients that go to the owner of a key, and clients that do not know it.
//!
//! A client learns the owners from a coordinator's map, so the servers here have one. Where there are
//! not enough cores for two workers and a generator beside them, what a request costs the workers is
//! measured instead: twice one worker's work is done by two that pay the same for each request, if
//! each has a core of its own.

use super::goal::{Goal, Unit};
use super::ground::{MEMORY_MB, WARM_UP};
use super::peer::Peer;
use super::report::{PeerResult, RowReport};
use super::rows::{TWO_WORKERS_FACTOR, UNAWARE_SHARE};
use super::{Suite, finish_row};
use crate::beside::{Clustered, First, in_turns, with_cpu_us};
use crate::process::{Server, allowed_cores};
use crate::report::median;
use crate::{Cluster, LoadPlan, Protocol};
use anyhow::Context;
use evenkeel_workload::Operation;
use std::sync::Arc;

/// Connections to each worker.
const CONNECTIONS_PER_WORKER: usize = 16;

/// Requests in flight on a connection.
const PIPELINE: usize = 16;

/// Cores that let two workers and two threads of the generator run beside each other.
const CORES_WANTED: usize = 4;

const ID_AWARE: &str = "two_workers_aware";
const ID_UNAWARE: &str = "two_workers_unaware";

/// How a figure of this module was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// Requests a second.
    Throughput,
    /// The workers' processor time for a request.
    CpuTime,
}

pub(super) fn measure(suite: &mut Suite, rows: &mut Vec<RowReport>) -> anyhow::Result<()> {
    if !suite.ground.wants(ID_AWARE) && !suite.ground.wants(ID_UNAWARE) {
        return Ok(());
    }
    // Their keepers of house would share the cores.
    suite.stop();
    let allowed = allowed_cores()?;
    let by = if allowed.len() >= CORES_WANTED {
        By::Throughput
    } else {
        suite.notes.push(format!(
            "two workers and a generator need {CORES_WANTED} cores; with {} the ratios are those of \
             the workers' processor time for a request",
            allowed.len()
        ));
        By::CpuTime
    };
    // Two cores for the workers; the generator has two others, or must share.
    let workers_cores = &allowed[..2];
    let generator_cores = match by {
        By::Throughput => &allowed[2..CORES_WANTED.max(allowed.len().min(6))],
        By::CpuTime => workers_cores,
    };
    let one = start(suite, 1, &workers_cores[..1])?;
    let two = start(suite, 2, workers_cores)?;
    let loads = [(&one, true), (&two, true), (&two, false)];
    let figures = in_turns(
        &loads,
        0..=suite.ground.rounds,
        First::Same,
        |round, load| {
            let ((clustered, cluster), aware) = load;
            let mut plan = plan(suite, &clustered.server, cluster, *aware, generator_cores)?;
            if round == 0 {
                plan.stop.after = Some(WARM_UP);
            }
            let (report, cpu_us) = with_cpu_us([&clustered.server], || {
                let report = crate::measure(plan)?.all_right();
                report.context("two workers")
            })?;
            Ok(match by {
                By::Throughput => report.requests_per_second,
                // Requests that a core executes in a second, times the cores.
                By::CpuTime => {
                    report.counters.requests as f64 * 1e6 / cpu_us * cluster.workers() as f64
                }
            })
        },
    )?;
    let [one, aware, unaware] = [0, 1, 2].map(|index: usize| median(figures[index].clone()));
    let peer = Peer::EvenkeelEpoll;
    for (id, what, ratio, goal) in [
        (
            ID_AWARE,
            "two workers ÷ one, clients that know the owners",
            aware / one,
            TWO_WORKERS_FACTOR,
        ),
        (
            ID_UNAWARE,
            "two workers, clients that do not know the owners ÷ those that do",
            unaware / aware,
            UNAWARE_SHARE,
        ),
    ] {
        let how = match by {
            By::Throughput => "",
            By::CpuTime => ", by CPU time",
        };
        let what = format!("{what}{how}, GET, pipeline {PIPELINE}");
        let results = vec![PeerResult::of(peer, vec![ratio])];
        let row = RowReport::new(id, what, Unit::Ratio, results, &[Goal::Bound(peer, goal)]);
        finish_row(rows, row);
    }
    Ok(())
}

fn plan(
    suite: &Suite,
    server: &Server,
    cluster: &Arc<Cluster>,
    aware: bool,
    generator_cores: &[usize],
) -> anyhow::Result<LoadPlan> {
    let connections = CONNECTIONS_PER_WORKER * cluster.workers();
    let threads = generator_cores.len();
    Ok(LoadPlan {
        threads,
        connections_per_thread: connections / threads,
        pin: generator_cores.to_vec(),
        pipeline: PIPELINE,
        // The same bytes from both kinds of clients, but for what the aware ones say of the owner.
        protocol: Protocol::Meta,
        cluster: aware.then(|| cluster.clone()),
        ..suite.ground.plan(server, Operation::Get, connections)?
    })
}

/// Starts a server of this many workers with its coordinator, and fills it.
fn start(
    suite: &Suite,
    workers: usize,
    cores: &[usize],
) -> anyhow::Result<(Clustered, Arc<Cluster>)> {
    let first = cores[0].to_string();
    let mut more = vec!["-m", MEMORY_MB];
    // Worker I goes to core FIRST + I, where the cores are neighbours.
    if cores.windows(2).all(|pair| pair[1] == pair[0] + 1) {
        more.extend(["--pin", &first]);
    }
    let clustered = Clustered::start(workers, &more, cores, &allowed_cores()?, |_| Ok(()))?;
    let cluster = clustered.join()?;
    suite.ground.fill_all(&clustered.server)?;
    Ok((clustered, cluster))
}
