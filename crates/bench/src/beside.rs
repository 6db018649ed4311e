//! Servers beside each other: on given cores, filled alike, under the same loads in turns.
//!
//! Machines drift. So anyone who compares servers measures one after the other, round after round, and compares medians or
//! those of the same round. Throughput says how the whole machine does; the processor time that a server used for a
//! request says what the server does.

use crate::process::{Server, allowed_cores};
use crate::report::RoundReport;
use crate::{Cluster, Driver, LoadPlan, Source};
use anyhow::ensure;
use evenkeel_workload::WorkloadSpec;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Connections that fill a server, and requests in flight on each.
const FILL_CONNECTIONS: usize = 8;
const FILL_PIPELINE: usize = 64;

/// Nothing times out on a busy machine while a server is filled.
const FILL_TIMEOUT: Duration = Duration::from_secs(30);

/// memcached may refuse one set of this many while it is filled beyond its memory, as it moves pages between its classes; we may
/// refuse none.
pub const REFUSED_DIVISOR: u64 = 100;

/// Who is the first of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// Always the same (A B A B …).
    Same,
    /// Another one each round, so that none always follows the same one.
    Another,
}

/// Measures each of these in turns; what came of it, for each by round. Round 0 warms caches up and is left out.
///
/// # Errors
/// When a measurement fails.
pub fn in_turns<S, R>(
    measured: &[S],
    rounds: RangeInclusive<usize>,
    first: First,
    mut measure: impl FnMut(usize, &S) -> anyhow::Result<R>,
) -> anyhow::Result<Vec<Vec<R>>> {
    let mut all: Vec<Vec<R>> = measured.iter().map(|_| Vec::new()).collect();
    for round in rounds {
        for turn in 0..measured.len() {
            let who = match first {
                First::Same => turn,
                First::Another => (turn + round) % measured.len(),
            };
            let found = measure(round, &measured[who])?;
            if round > 0 {
                all[who].push(found);
            }
        }
    }
    Ok(all)
}

/// The core of the servers, and all others for the generator.
///
/// # Errors
/// When there is one core only.
pub fn two_sides() -> anyhow::Result<(Vec<usize>, Vec<usize>)> {
    let mut server = allowed_cores()?;
    ensure!(
        server.len() >= 2,
        "two cores are needed: one for the server, one for the generator"
    );
    let generator = server.split_off(1);
    Ok((server, generator))
}

/// Sets every key of a workload, from these cores. This many may be refused; see [`REFUSED_DIVISOR`].
///
/// # Errors
/// When more are not stored.
pub fn fill(
    server: &Server,
    workload: WorkloadSpec,
    refused_max: u64,
    cores: &[usize],
) -> anyhow::Result<()> {
    let keys = workload.keys();
    let load = Driver::start(LoadPlan {
        connections_per_thread: FILL_CONNECTIONS,
        pipeline: FILL_PIPELINE,
        answer_timeout: FILL_TIMEOUT,
        pin: cores.to_vec(),
        ..LoadPlan::new(server.address.into(), Source::Fill(workload))
    })?;
    let stored = load.wait()?.counters.sets;
    ensure!(
        stored + refused_max >= keys,
        "{stored} of {keys} keys were stored"
    );
    Ok(())
}

impl RoundReport {
    /// The same, if every answer was what the request was for: a value, or that it was stored.
    ///
    /// # Errors
    /// Says what else there was, and what the first error was.
    pub fn all_right(self) -> anyhow::Result<RoundReport> {
        let counters = self.counters;
        ensure!(
            counters.errors == 0 && counters.misses == 0 && counters.wrong_values == 0,
            "{} errors, {} misses, {} wrong values ({})",
            counters.errors,
            counters.misses,
            counters.wrong_values,
            self.first_error.as_deref().unwrap_or("no error was told")
        );
        ensure!(counters.requests > 0, "no request was answered");
        Ok(self)
    }
}

/// Does something, and says how much processor time these servers took meanwhile, in microseconds.
///
/// # Errors
/// When it fails, or the kernel does not tell.
pub fn with_cpu_us<'s, R>(
    servers: impl IntoIterator<Item = &'s Server> + Clone,
    act: impl FnOnce() -> anyhow::Result<R>,
) -> anyhow::Result<(R, f64)> {
    let cpu_time =
        || -> anyhow::Result<Duration> { servers.clone().into_iter().map(Server::cpu_time).sum() };
    let before = cpu_time()?;
    let done = act()?;
    let cpu = cpu_time()?.saturating_sub(before);
    Ok((done, cpu.as_secs_f64() * 1e6))
}

/// A server that is alone in its cluster.
#[derive(Debug)]
pub struct Clustered {
    // In the order in which they go.
    /// The server.
    pub server: Server,
    /// Its coordinator.
    pub coordinator: Server,
}

impl Clustered {
    /// Starts a coordinator on its own cores, has it `prepared` (settings changed, say), and starts a server of this many workers with
    /// it on cores.
    ///
    /// # Errors
    /// When one of them does not start.
    pub fn start(
        workers: usize,
        more: &[&str],
        cores: &[usize],
        coordinator_cores: &[usize],
        prepare: impl FnOnce(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<Clustered> {
        let flags = [
            "coordinator",
            "--listen",
            "127.0.0.1:0",
            "--initial-servers",
            "1",
        ];
        let coordinator = Server::evenkeel(&flags, coordinator_cores)?;
        let url = format!("http://{}", coordinator.address);
        prepare(&url)?;
        // Clients that have joined go by one map, so no worker lends cachelets to another.
        let own = ["--coordinator", &url, "--balance-workers", "off"];
        let flags = [&own[..], more].concat();
        let server = Server::evenkeel_server(workers, &flags, cores)?;
        Ok(Clustered {
            server,
            coordinator,
        })
    }

    /// What clients need to know to go to the worker that owns a key.
    ///
    /// # Errors
    /// When there is no map of it in time.
    pub fn join(&self) -> anyhow::Result<Arc<Cluster>> {
        let url = format!("http://{}", self.coordinator.address);
        Ok(Arc::new(Cluster::join(&url)?))
    }
}
