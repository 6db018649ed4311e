//! The proxy as a process: `evenkeel proxy`.
//!
//! [`evenkeel_proxy_core::ProxyCore`] is one proxy worker without its thread and sockets; this
//! crate gives each of them a thread and an event loop, deals the applications' connections out to
//! them, and keeps them informed of the cluster's map:
//!
//! ```text
//!  acceptor ── connections ──> worker 0 ─┬─ sockets ─> servers
//!                         └──> worker 1 ─┘ each worker has its own connection to each server
//!  coordinator thread ── map ──> workers          (worker)
//!     names thread <── name, address ──> workers
//!  watchdog thread <── turn and step ── workers
//!  discovery thread ── lists of servers ──> workers
//!  workers ── requests ──> request-log thread ──> file
//!  file, looked at by the discovery thread; SIGHUP ── configuration ──> workers
//! ```

#![forbid(unsafe_code)]
// Event loops must not wait. Tests may.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod active_config;
mod application;
mod args;
mod check;
mod clusters;
mod config;
mod control;
mod control_port;
mod dashboard;
mod discovery;
mod event_loop;
mod explain;
mod facts;
mod fence;
mod key_check;
mod limits;
mod load;
mod looks;
mod news;
mod outages;
mod pages;
mod recorder;
mod reload;
mod server_link;
mod start;
mod tls;

pub use args::Args;
pub use check::check_new;
/// What is found of keys that one of several racks holds.
pub use evenkeel_proxy_core::{Fault, KeyReport, PlaceSeen, Stands};
pub use event_loop::STALL_LIMIT;
pub use explain::{ExplainArgs, explain};
pub use key_check::{KeyCheckArgs, look_at_keys};
pub use reload::Reloaded;
pub use start::{Proxy, run};
