//! The load of the demo.

use crate::up::args::DemoArgs;
use evenkeel_bench::{BadUsage, LoadPlan, Source};
use evenkeel_runtime::UsageError;
use evenkeel_workload::{Arrivals, Mix, Popularity, Rate, WorkloadError, WorkloadSpec};
use std::net::SocketAddr;

/// Depth of the pipelines that fill the cluster.
const FILL_PIPELINE: usize = 32;

/// Connections that fill the cluster.
const FILL_CONNECTIONS: usize = 8;

/// Refuses what cannot be a load, before any process is started.
///
/// # Errors
/// Says which flag is wrong.
pub fn check(args: &DemoArgs, rate: f64) -> Result<(), UsageError> {
    // The address plays no part in what is checked.
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    plan(args, rate, nowhere)?
        .validate()
        .map_err(|error| UsageError(error.to_string()))
}

/// The load that goes on through all phases, of this many requests a second.
///
/// # Errors
/// When the key space, the popularity or the mix is out of range.
pub fn plan(args: &DemoArgs, rate: f64, proxy: SocketAddr) -> Result<LoadPlan, UsageError> {
    let refused = |error: WorkloadError| UsageError(error.to_string());
    let workload = WorkloadSpec {
        keys: Some(args.keys),
        popularity: Popularity::Zipf {
            exponent: args.zipf,
        },
        mix: Mix::gets(args.get_share).map_err(refused)?,
        seed: args.seed,
        ..WorkloadSpec::default()
    };
    // Found out by building it once; the load builds its own.
    workload.build().map_err(refused)?;
    Ok(LoadPlan {
        connections_per_thread: args.connections,
        cache_aside: true,
        pace: Arrivals::Poisson(Rate::Constant(rate)),
        value_sizes: args.value_size.clone(),
        seed: args.seed,
        ..LoadPlan::new(proxy.into(), Source::Generated(workload))
    })
}

/// The load that sets every key once.
///
/// # Errors
/// As [`plan`].
pub fn fill(args: &DemoArgs, proxy: SocketAddr) -> Result<LoadPlan, UsageError> {
    let plan = plan(args, 1.0, proxy)?;
    let source = match plan.source {
        Source::Generated(workload) => Source::Fill(workload),
        other => other,
    };
    Ok(LoadPlan {
        connections_per_thread: FILL_CONNECTIONS,
        pipeline: FILL_PIPELINE,
        pace: Arrivals::Closed,
        source,
        ..plan
    })
}

/// Describes the load in a few words.
pub fn describe(args: &DemoArgs, rate: f64) -> String {
    format!(
        "Zipf {} over {} keys, {} % gets; {} connections, {rate} requests/s",
        args.zipf,
        args.keys,
        // Rounded to what a person would have typed.
        (args.get_share * 1e4).round() / 1e2,
        args.connections
    )
}

/// An error of a load, with the exit code that belongs to it.
pub fn load_error(error: anyhow::Error) -> anyhow::Error {
    if error.is::<BadUsage>() {
        UsageError(format!("{error:#}")).into()
    } else {
        error.context("the load ended before its time")
    }
}
