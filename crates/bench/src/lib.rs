//! A load generator for servers that speak memcached's protocol.
//!
//! It answers one question well: how does *this* server do under *this* load, beside *that* server
//! in the same minute? So it
//!
//! - measures several targets in turn (A B A B …) and compares medians, because machines drift;
//! - can send at a rate of its own (open loop) and counts a request's latency from the moment it was
//!   *meant* to be sent, so that a stall of the server is felt by every request that it would have
//!   met (no coordinated omission);
//! - checks what it reads: every value carries a checksum of its key and version, and one wrong
//!   value fails the run;
//! - tells what it cost itself: its share of the processor and how late it sent.
//!
//! ```text
//!  plan ──> engine: a thread each with its own event loop, connections and random stream
//!             feed (generated | trace) ─> encode ─> socket ─> reply parser ─> checks, histograms
//!             or: ring of prepared requests ─────> socket ─> comparison, else the same
//!           <── published ten times a second: LoadHandle::poll (live), stop (whole run)
//!  run: preload, then rounds × targets ──> report (table, JSON)
//!  find: preload, then steps at rates ──> the highest that holds an objective
//! ```
//!
//! [`run`] is `evenkeel bench run`, [`find`] is `evenkeel bench find`; [`Driver`] is the same engine for a program that wants load in
//! the background and watches it.

#![forbid(unsafe_code)]

mod args;
pub mod beside;
mod cluster;
mod compare;
mod driver;
mod echo;
mod engine;
mod find;
mod peers;
mod plan;
pub mod plot;
pub mod process;
mod relay;
mod report;
mod run;
mod series;
mod suite;
pub mod table;
mod target;
mod timer;
mod units;
mod users;
mod value;

pub use args::{LoadArgs, OutputFormat, RunArgs, TrafficArgs};
pub use cluster::Cluster;
pub use compare::{CompareArgs, execute_compare};
pub use driver::{Driver, LiveSample, LoadHandle};
pub use echo::{EchoArgs, EchoRequest, execute_echo, run_echo};
pub use engine::stats::{Counters, LoadStats};
pub use find::{
    ANSWERED_SHARE_MIN, FAILED_SHARE_MAX, FindArgs, FindOptions, FindReport, FindSettings, Limit,
    Objective, Percentile, Range, Search, Step, StoppedBy, execute_find, find,
};
pub use plan::{CONNECTIONS_MAX, LoadPlan, PIPELINE_MAX, Protocol, Source, Stop, THREADS_MAX};
pub use relay::{Asked, Carried, Path, Relay, RelayArgs, Route, execute_relay};
pub use report::{
    Latency, Medians, Ratios, RoundReport, RunReport, Settings, TargetReport, median,
};
pub use run::{execute, measure, run};
pub use series::{Moment, Series};
pub use suite::{
    GeneratorSuiteArgs, GroundArgs, Peer, PeerReport, PeerResult, ProxySuiteArgs, RowReport,
    SuiteArgs, SuiteReport, SuiteSettings, Unit, Verdict, execute_generator_suite,
    execute_proxy_suite, execute_suite, run_generator_suite, run_proxy_suite, run_suite,
};
pub use target::Target;
pub use users::{Users, UsersPlan, UsersTally};

/// The user asked for something that cannot be: exit code 2. Anything else that fails is exit code 1.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadUsage(pub String);

/// The seed of a random test, which it prints: `EVENKEEL_SEED`, or always the same.
#[cfg(test)]
fn seed() -> u64 {
    let seed = match std::env::var("EVENKEEL_SEED") {
        Ok(seed) => seed.parse().expect("EVENKEEL_SEED must be a number"),
        Err(_) => 0x5eed,
    };
    println!("EVENKEEL_SEED={seed}");
    seed
}
