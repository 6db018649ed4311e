//! `evenkeel bench suite-generator`: the load generator beside a loop that does next to nothing.
//!
//! Whoever measures a server wants to know that the server is what is measured. So both put the same load on
//! an echo server ([`crate::EchoArgs`]), on one core each: the minimal loop ([`Exchange`]) with requests made
//! beforehand, the generator ([`crate::Driver`]) with keys drawn, requests encoded, answers parsed and latencies
//! booked one by one. Values are not checked, because an echo server has none.

use super::exchange::Exchange;
use super::ground::{Ground, GroundArgs, VALUE_LEN, WARM_UP};
use super::loads::echo;
use super::report::{Compared, Goal, PeerReport, PeerResult, RowReport, SuiteReport, Unit};
use super::rows::{GENERATOR_LOADS, GENERATOR_SHARE, GeneratorLoad, Peer};
use super::{finish_row, show};
use crate::LoadPlan;
use anyhow::{Context, ensure};
use evenkeel_workload::{Popularity, WorkloadSpec};
use std::slice;

/// Measures the load generator beside a loop that does next to nothing, and prints what was asked of it beside
/// what it reaches.
#[derive(Clone, Debug, clap::Args)]
pub struct GeneratorSuiteArgs {
    /// Where and how. The generator has one core, the first of its own.
    #[command(flatten)]
    pub ground: GroundArgs,
}

/// Runs the suite, prints the table, writes the JSON; returns the exit code: 0 measured (whether or not the
/// goals were met), 1 failed, 2 bad usage.
pub fn execute_generator_suite(args: &GeneratorSuiteArgs) -> u8 {
    show(&args.ground, "suite-generator", || {
        run_generator_suite(args)
    })
}

/// Measures everything that was asked for.
///
/// # Errors
/// [`BadUsage`](crate::BadUsage) when the arguments make no sense; others when the echo server cannot be
/// started, or a load fails.
pub fn run_generator_suite(args: &GeneratorSuiteArgs) -> anyhow::Result<SuiteReport> {
    let mut ground = Ground::new(&args.ground)?;
    ground.generator_cores.truncate(1);
    let mut rows = Vec::new();
    for load in &GENERATOR_LOADS {
        if ground.wants(load.id) {
            finish_row(&mut rows, row(&ground, load)?);
        }
    }
    let peers = [
        (
            Peer::MinimalLoop,
            "requests made beforehand, answers compared",
        ),
        (
            Peer::Generator,
            "evenkeel bench run: keys drawn, requests encoded, answers parsed, latencies booked",
        ),
    ];
    let peers = peers.map(|(id, name)| PeerReport {
        id,
        name: name.to_owned(),
    });
    let settings = ground.settings()?;
    Ok(SuiteReport::new(
        peers.into(),
        settings,
        rows,
        Vec::new(),
        Compared::GENERATOR,
    ))
}

fn row(ground: &Ground, load: &GeneratorLoad) -> anyhow::Result<RowReport> {
    let traffic = &load.traffic;
    let keys = WorkloadSpec {
        popularity: Popularity::Zipf { exponent: 0.99 },
        ..ground.workload(traffic.operation)?
    };
    let exchange = Exchange::new(traffic, &keys, VALUE_LEN)?;
    let server = echo(ground, traffic)?;
    let core = slice::from_ref(&ground.generator_cores[0]);
    let plan = LoadPlan {
        pipeline: traffic.pipeline,
        warm_up: WARM_UP,
        source: crate::Source::Generated(keys),
        ..ground.plan(&server, traffic.operation, traffic.connections)?
    };
    let (mut minimal, mut generator) = (Vec::new(), Vec::new());
    let mut generator_cpu_share_max: f64 = 0.0;
    exchange.run(server.address, traffic, core, WARM_UP)?;
    for _ in 0..ground.rounds {
        let done = exchange
            .run(server.address, traffic, core, ground.duration)
            .with_context(|| format!("{}, minimal loop", load.id))?;
        minimal.push(done.in_time as f64 / done.elapsed.as_secs_f64());
        let round =
            crate::measure(plan.clone()).with_context(|| format!("{}, generator", load.id))?;
        ensure!(
            round.counters.errors == 0 && round.counters.misses == 0,
            "{}: the generator was answered otherwise than the minimal loop",
            load.id
        );
        generator.push(round.requests_per_second);
        generator_cpu_share_max = generator_cpu_share_max.max(round.generator_cpu_share);
    }
    let results = vec![
        PeerResult::of(Peer::MinimalLoop, minimal),
        PeerResult {
            generator_cpu_share_max: Some(generator_cpu_share_max),
            ..PeerResult::of(Peer::Generator, generator)
        },
    ];
    let goal = Goal::Times(Peer::Generator, Peer::MinimalLoop, GENERATOR_SHARE);
    let goals = if load.has_goal {
        slice::from_ref(&goal)
    } else {
        &[]
    };
    Ok(RowReport::new(
        load.id,
        traffic.what_and_how(),
        Unit::RequestsPerSecond,
        results,
        goals,
    ))
}
