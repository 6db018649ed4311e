//! `evenkeel bench suite-generator`: the load generator beside a loop that does next to nothing.
//!
//! Anyone who measures a server wants to know that the server is what is measured. So all put the same load on an
//! echo server ([`crate::EchoArgs`]), on one core each: the minimal loop ([`MinimalLoop`]), the generator with
//! prepared requests, and the generator that draws and encodes each of them. The generator compares answers with
//! requests and books latencies; values are not checked, because an echo server has none.

use super::goal::{Goal, Unit};
use super::ground::{Ground, GroundArgs, KEY_LEN, Measured, VALUE_LEN, all_hits};
use super::loads::echo;
use super::minimal::MinimalLoop;
use super::peer::Peer;
use super::report::{Compared, PeerReport, RowReport, SuiteReport};
use super::rows::{GENERATOR_LOADS, GENERATOR_SHARE, GeneratorLoad};
use super::{finish_row, show};
use crate::LoadPlan;
use crate::driver::Load;
use crate::echo::Shape;
use anyhow::Context;
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
            "writes bytes made beforehand, reads and counts bytes",
        ),
        (
            Peer::Generator,
            "evenkeel bench run --prepared: answers compared, latencies booked",
        ),
        (
            Peer::GeneratorDrawing,
            "evenkeel bench run: also draws keys and encodes requests, parses answers",
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
    let shape = Shape::new(traffic.echo_request(), traffic.multiget, KEY_LEN, VALUE_LEN)?;
    let server = echo(ground, traffic)?;
    let core = ground.generator_cores[0];
    let cores = slice::from_ref(&core);
    let plan = |prepared| LoadPlan {
        pipeline: traffic.pipeline,
        prepared,
        ..ground.plan_on(server.address, keys.clone(), traffic.connections, cores)
    };
    let (prepared, drawing) = (Load::prepare(plan(true))?, Load::prepare(plan(false))?);
    let requests = prepared
        .ring()
        .context("requests were not prepared")?
        .bytes();
    let peers = [
        (Peer::MinimalLoop, None),
        (Peer::Generator, Some(prepared.clone())),
        (Peer::GeneratorDrawing, Some(drawing)),
    ];
    let [results] = ground.in_turns(load.id, &peers, |generator, time| {
        let round = match generator {
            Some(generator) => Some(all_hits(&generator.lasting(time))?),
            None => None,
        };
        Ok(Measured {
            figures: [match &round {
                Some(round) => round.requests_per_second,
                None => {
                    MinimalLoop::new(server.address, traffic, &shape, requests)?.run(core, time)?
                }
            }],
            cpu_us: None,
            generator_share: round.map(|round| round.generator_cpu_share),
        })
    })?;
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
