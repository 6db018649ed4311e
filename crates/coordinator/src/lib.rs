//! The coordinator as a process, and how everyone else talks to it.
//!
//! [`evenkeel_coordinator_core`] decides; this crate carries it out. One thread serves HTTP, keeps
//! the time for the core and writes the embedded state file; nothing that depends on unsaved state
//! is ever told to anyone. The coordinator is not on the data path, so it is built to be simple and
//! hard to hurt rather than fast: every size, count and wait is bounded.
//!
//! - [`run`] and [`Args`]: `evenkeel coordinator`.
//! - [`member`]: the background thread by which a server or a proxy is a member of the cluster.
//! - [`access`]: what all of them show to be let in.
//! - [`client`]: the HTTP API for programs that look on.
//!
//! ```text
//!  servers, proxies: member ──POST /api/v1/heartbeat──┐
//!                                                     ▼
//!  people, client ──GET /api/v1/…, /metrics──> http ──> Desk ──> CoordinatorCore
//!                                                     │  └─saved before told──> StateFile
//!                                  tick (serve) ──────┘
//! ```

#![forbid(unsafe_code)]

pub mod access;
mod args;
mod cachelets;
pub mod client;
mod desk;
#[cfg(test)]
mod documented;
mod elector;
mod endpoint;
mod etcd;
mod exit;
mod guard;
mod http;
pub mod member;
mod metrics;
mod migrations;
mod pages;
mod patient;
mod plans;
mod reach;
mod serve;
mod servers;
mod state_file;
mod state_place;
mod store;

/// The words of the API: heartbeats, settings, views.
pub use evenkeel_coordinator_core as api;

pub use etcd::EtcdArgs;

pub use args::{Args, DEFAULT_CLUSTER, DEFAULT_LISTEN};
pub use evenkeel_runtime::ExitCode;
pub use exit::RunError;
pub use guard::GuardArgs;
pub use serve::{Coordinator, run};
