//! Fixtures for tests over real processes.
//!
//! A test that starts a server must know three things: which binary it starts, when that binary is
//! ready, and that it is gone afterwards whatever happens. This crate answers them once.
//!
//! * [`binary`] finds (or builds) the `evenkeel` binary of the present source.
//! * [`Process`] starts a program as everybody does here (`evenkeel_launch`): waits for its ready line, keeps what it said
//!   for the failure message, sends it signals, and ends it when dropped.
//! * [`Memcached`] is the reference: Debian's memcached on a free port.
//! * [`Cluster`] is a coordinator with servers and proxies.
//! * [`worker_ports`] answer as a server whose heartbeats a test writes by hand.
//! * [`racks`] are memcacheds in several racks with a proxy in each; [`copies`] of items are switched on and off.
//! * [`page`] compares docs/ with what the code makes of them.
//! * [`seed`] is what random tests begin with.
//! * [`Client`] is a small blocking text client that never hides a byte.
//!
//! Nothing here sleeps for a time that should be enough. A process announces readiness by a line or a file, and what it can
//! only be asked about goes through [`poll_until`], which is bounded and says what it waited for.
//!
//! Everything panics with a clear message instead of returning errors: a test that cannot start its
//! fixtures has nothing left to decide.

#![forbid(unsafe_code)]

pub mod binary;
mod client;
mod cluster;
pub mod copies;
pub mod evenkeel;
pub mod http;
mod memcached;
pub mod page;
mod process;
pub mod racks;
mod seed;
mod wait;
mod worker_ports;

pub use binary::require_program;
pub use client::{Client, IO_TIMEOUT, MetaReply, Value};
pub use cluster::{Cluster, ClusterOptions};
pub use memcached::Memcached;
pub use process::{Builder, EXIT_DEADLINE, Process, READY_DEADLINE, Signal};
pub use seed::seed;
pub use wait::{poll_until, undisturbed};
pub use worker_ports::worker_ports;
