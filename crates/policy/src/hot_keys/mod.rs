//! Hot keys: found by their home server, replicated to shadow servers, read there under leases
//! (SPORE, `S` in the requirements).
//!
//! [`server`] is one worker's side, [`client`] one application connection's. All that passes between
//! them is γ on answers to reads, and the epoch of the map on the reads themselves.

pub mod client;
pub mod config;
#[cfg(test)]
mod model;
mod popularity;
pub mod replication;
pub mod server;
mod ssm;
pub mod state;

pub use popularity::SLOT;
