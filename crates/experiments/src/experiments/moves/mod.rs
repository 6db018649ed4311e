//! What it costs to move cachelets: a worker's to another of its server, a large one to another server, those of servers
//! that come and go, and none while the coordinator is away.
//!
//! - [`workers`], [`cachelet`]: servers at full speed, one kind of move again and again.
//! - [`servers`], [`restart`], [`coordinator`]: small servers under a load and with users who check what they read
//!   ([`ground`]), part by part ([`watch`](super::watch)).

mod cachelet;
mod coordinator;
mod ground;
mod restart;
mod servers;
mod workers;

pub(super) use cachelet::CACHELET;
pub(super) use coordinator::COORDINATOR;
pub(super) use restart::RESTART;
pub(super) use servers::SERVERS;
pub(super) use workers::WORKERS;

/// Where these targets come from.
const SOURCE: &str = "Targets of balancing";

/// Length of keys of the load, in bytes.
const KEY_LEN: usize = 16;

/// Share of the gets; the rest are sets.
const GET_SHARE: f64 = 0.95;
