//! Pure decisions: where a key lives, which keys are hot, who may read a copy.
//!
//! Everything here is told the time and what happened, and answers with what to do. Nothing opens a
//! socket, reads a clock, starts a thread or owns global state; random numbers come from seeds that
//! the caller hands in, and nothing iterates in an order that two runs could disagree about. The
//! simulator and the real processes therefore take the same decisions from the same inputs.
//!
//! - [`placement`]: key → virtual node → cachelet → worker, the shadow servers of a hot key, and the
//!   rings and tables of pools that consist of plain memcached servers.
//! - [`hot_keys`]: popularity-based replication under leases, both sides of it.
//! - [`burden`]: which of several copies to read.
//! - [`cachelet_load`]: how much each cachelet adds to the load of its worker.
//! - [`load`]: when a worker is loaded enough for that.
//! - [`migration`]: which cachelets move, within a server and between servers.
//! - [`membership`]: which servers a pool has whose list comes from a file or the name service.

#![forbid(unsafe_code)]
// See clippy.toml.
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

pub mod burden;
pub mod cachelet_load;
pub mod hot_keys;
pub mod load;
pub mod membership;
pub mod migration;
pub mod placement;
mod random;
