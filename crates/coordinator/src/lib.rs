//! The coordinator as a process, and how everyone else talks to it.
//!
//! [`evenkeel_coordinator_core`] decides; this crate executes it. One thread serves HTTP, keeps
//! the time for the core and writes the embedded state file; nothing that depends on unsaved state
//! is ever told to anyone. The coordinator is not on the data path, so it is built to be simple and
//! hard to hurt rather than fast: every size, count and wait is bounded.
//!
//! - [`run`] and [`Args`]: `evenkeel coordinator`.
//!
//! ```text
//!  servers, proxies: member ──POST /api/v1/heartbeat──┐
//!                                                     ▼
//!  people, client ──GET /api/v1/…, /metrics──> http ──> SharedCore ──> CoordinatorCore
//!                                                     │  └─saved before told──> StateFile
//!                                  tick (serve) ──────┘
//! ```

#![forbid(unsafe_code)]

mod answer;
mod args;
mod audience;
mod bundles;
mod cachelets;
mod changes;
mod control_ports;
#[cfg(test)]
mod documented;
mod elector;
mod etcd;
mod explain;
mod guard;
mod http;
mod logged;
mod map_text;
mod metrics;
mod migrations;
mod pages;
mod plans;
mod proxies;
mod reach;
mod ring_copier;
mod rings;
mod run_error;
mod scaler;
mod scales;
mod serve;
mod servers;
mod shared_core;
mod state_file;
mod state_place;
mod store;
mod stream;
mod trial;
mod web;
mod write_timeout;

pub use etcd::EtcdArgs;

pub use args::{Args, DEFAULT_LISTEN};
pub use evenkeel_runtime::ExitCode;
pub use guard::GuardArgs;
pub use run_error::RunError;
pub use serve::{Coordinator, run};
