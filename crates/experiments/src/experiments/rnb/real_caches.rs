//! Requests of a social graph to Evenkeel servers whose memory does not hold all copies, through a proxy that keeps them (section III-D).
//!
//! The servers keep copies apart, so that no item is ever evicted for one: each key that is asked for has to be found.

use super::super::copies::switch_on;
use super::caches::{COUNTED, WARMING};
use super::slowed::{POOL, count, proxy_file};
use crate::run::Run;
use anyhow::{Context, ensure};
use evenkeel_bench::process::{Server, allowed_cores};
use evenkeel_bench::{Counters, Driver, LoadPlan, Source, Stop, Target};
use evenkeel_workload::{
    Graph, GraphSource, KeySizes, Mix, MultiGet, Popularity, ValueSizes, WorkloadSpec,
};
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use tempfile::TempDir;

/// Lengths of keys and of values, in bytes: large enough for a server's memory to be told by the mebibyte.
const KEY_LEN: u32 = 16;
const VALUE_LEN: u32 = 4_000;

/// What a server takes for an item besides, in bytes: a header of 12, an entry of the index of 6.4, and padding.
const BESIDES: u32 = 22;

/// Connections of the load, and requests under way on each: not so many that the proxy leaves out copies.
const CONNECTIONS: usize = 16;
const PIPELINE: usize = 4;

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub servers: usize,
    /// Of an item, the home's included.
    pub copies: usize,
    /// Memory of all servers, by what all items take once.
    pub memory: f64,
}

/// What was found, after the caches had been warmed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    /// Servers that were asked, in both rounds, by those that would have been without copies.
    pub by_plain: f64,
    /// Copies that were stored, for a request.
    pub fills: f64,
    /// Keys without a value.
    pub misses: u64,
    /// Items and copies that servers removed for want of memory.
    pub items_evicted: u64,
    pub copies_evicted: u64,
}

/// What the settings of a report say of the items.
pub(super) fn items(graph: &Graph) -> String {
    format!("{} of {KEY_LEN} + {VALUE_LEN} B", graph.users())
}

/// Starts servers, a proxy and a coordinator, and measures.
pub(super) fn measure(run: &Run, graph: &Arc<Graph>, cell: Cell) -> anyhow::Result<Seen> {
    run.progress.say(format!("{cell:?}"));
    let cores = allowed_cores()?;
    let folder = TempDir::new().context("making a folder")?;
    let state = folder.path().join("state").display().to_string();
    let coordinator = ["coordinator", "--listen", "127.0.0.1:0", "--state", &state];
    let coordinator = Server::evenkeel(&coordinator, &cores)?;
    let items = graph.users() as f64 * f64::from(KEY_LEN + VALUE_LEN + BESIDES);
    let each = cell.memory * items / cell.servers as f64 / f64::from(1 << 20);
    let memory = (each.ceil() as u64).to_string();
    let servers = (0..cell.servers).map(|_| Server::evenkeel_server(1, &["-m", &memory], &cores));
    let servers = servers.collect::<anyhow::Result<Vec<_>>>()?;
    let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    let path = folder.path().join("proxy.toml");
    let text = proxy_file("p0", &addresses, cell.copies, coordinator.address);
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    let path = path.to_str().context("an odd folder")?;
    let proxy = Server::evenkeel(&["proxy", "--config", path], &cores)?;
    switch_on(&coordinator.address.to_string(), POOL, 1)?;

    let spec = WorkloadSpec {
        keys: Some(graph.users()),
        popularity: Popularity::Uniform,
        mix: Mix::gets(1.0)?,
        multiget: MultiGet::Friends(GraphSource::Loaded(Arc::clone(graph))),
        prefix: "user:".into(),
        key_sizes: KeySizes::fixed(KEY_LEN)?,
        value_sizes: ValueSizes::fixed(VALUE_LEN)?,
        seed: run.seed,
        ..WorkloadSpec::default()
    };
    let load = |source, stop| -> anyhow::Result<Counters> {
        let plan = LoadPlan {
            connections_per_thread: CONNECTIONS,
            pipeline: PIPELINE,
            stop,
            ..LoadPlan::new(Target::from(proxy.address), source)
        };
        let counters = Driver::start(plan)?.wait()?.counters;
        ensure!(
            counters.wrong_values == 0 && counters.errors == 0,
            "{} wrong values, {} errors",
            counters.wrong_values,
            counters.errors
        );
        Ok(counters)
    };
    let stored = load(Source::Fill(spec.clone()), Stop::default())?.sets;
    ensure!(Some(stored) == spec.keys, "{stored} keys were stored");
    let asked = |seed, requests| {
        let spec = WorkloadSpec {
            seed,
            ..spec.clone()
        };
        load(Source::Generated(spec), Stop::at_request(requests))
    };
    let warming = asked(run.seed, graph.users() * run.by_scale(WARMING))?;
    let counts = || -> anyhow::Result<[f64; 4]> {
        let of = |name| count(&proxy, name).map(|count| count as f64);
        let second = of("second_round_transactions")?;
        let both = of("transactions_covered")? + second;
        Ok([of("requests")?, of("transactions")?, both, of("fills")?])
    };
    let before = counts()?;
    let counted = asked(
        run.seed.wrapping_add(1),
        graph.users() / run.by_scale(COUNTED),
    )?;
    let after = counts()?;
    let [requests, plain, both, fills] = std::array::from_fn(|at| after[at] - before[at]);
    let sum = |page: &str, name: &str| -> anyhow::Result<u64> {
        let numbers = servers
            .iter()
            .map(|server| server.stats(page)?.number(name));
        numbers.sum()
    };
    Ok(Seen {
        by_plain: both / plain,
        fills: fills / requests,
        misses: warming.misses + counted.misses,
        items_evicted: sum("", "evictions")?,
        copies_evicted: sum("evenkeel", "bundle_copies_evicted")?,
    })
}
