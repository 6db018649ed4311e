//! The load of the demo: generated keys or a trace.

use super::DemoArgs;
use evenkeel_bench::{BadUsage, LoadPlan, Source};
use evenkeel_runtime::UsageError;
use evenkeel_workload::trace::{TraceError, TraceReader, TraceRequest};
use evenkeel_workload::{Arrivals, Mix, Popularity, Rate, WorkloadError, WorkloadSpec};
use std::net::SocketAddr;

/// Depth of the pipelines that fill the cluster.
const FILL_PIPELINE: usize = 32;

/// Connections that fill the cluster.
const FILL_CONNECTIONS: usize = 8;

/// Requests of a trace that are read before anything is started, so that a file that is no trace is
/// refused at once. Damage further on ends the demo when the load gets there.
const TRACE_CHECK_REQUESTS: u64 = 1_000_000;

/// Refuses what cannot be a load, before any process is started.
///
/// # Errors
/// Says which flag or which place of the trace is wrong.
pub fn check(args: &DemoArgs, rate: f64) -> Result<(), UsageError> {
    // The address plays no part in what is checked.
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    plan(args, rate, nowhere)?
        .validate()
        .map_err(|error| UsageError(error.to_string()))?;
    let Some(path) = &args.trace else {
        return Ok(());
    };
    let usage = |error: TraceError| UsageError(error.to_string());
    let mut trace = TraceReader::open(path, args.trace_format).map_err(usage)?;
    let mut request = TraceRequest::default();
    while trace.requests() < TRACE_CHECK_REQUESTS {
        if !trace.next_request(&mut request).map_err(usage)? {
            break;
        }
    }
    Ok(())
}

/// The load that goes on through all phases, of so many requests a second.
///
/// # Errors
/// When the key space, the popularity or the mix is out of range.
pub fn plan(args: &DemoArgs, rate: f64, proxy: SocketAddr) -> Result<LoadPlan, UsageError> {
    let source = match &args.trace {
        Some(path) => Source::Trace {
            path: path.clone(),
            format: args.trace_format,
            repeat: true,
        },
        None => {
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
            Source::Generated(workload)
        }
    };
    Ok(LoadPlan {
        connections_per_thread: args.connections,
        cache_aside: true,
        pace: Arrivals::Poisson(Rate::Constant(rate)),
        value_sizes: args.value_size.clone(),
        seed: args.seed,
        ..LoadPlan::new(proxy.into(), source)
    })
}

/// The load that sets every generated key once; nothing for a trace, which fills the cluster as
/// it goes.
///
/// # Errors
/// As [`plan`].
pub fn fill(args: &DemoArgs, proxy: SocketAddr) -> Result<Option<LoadPlan>, UsageError> {
    let plan = plan(args, 1.0, proxy)?;
    let Source::Generated(workload) = plan.source else {
        return Ok(None);
    };
    Ok(Some(LoadPlan {
        connections_per_thread: FILL_CONNECTIONS,
        pipeline: FILL_PIPELINE,
        pace: Arrivals::Closed,
        source: Source::Fill(workload),
        ..plan
    }))
}

/// Describes the load in a few words.
pub fn describe(args: &DemoArgs, rate: f64) -> String {
    let keys = match &args.trace {
        Some(path) => {
            let name = path.file_name().unwrap_or(path.as_os_str());
            format!("trace {}", name.to_string_lossy())
        }
        None => format!(
            "Zipf {} over {} keys, {} % gets",
            args.zipf,
            args.keys,
            // Rounded to what a person would have typed.
            (args.get_share * 1e4).round() / 1e2
        ),
    };
    format!(
        "{keys}; {} connections, {rate} requests/s",
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
