//! Hot keys: found by their home server, replicated to shadow servers, read there under leases
//! (SPORE, `S` in the requirements).
//!
//! [`server`] is one worker's side, [`client`] one application connection's. All that passes between
//! them is γ on answers to reads, and the epoch of the map on the reads themselves.
//!
//! Servers that know nothing of all this need somebody in front of them who does it for them: [`plain`]
//! is one proxy worker's side of that, and [`sketch`] how it finds the keys.

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

pub mod ages;
pub mod burden;
pub mod client;
pub mod config;
#[cfg(test)]
mod exhaustive;
pub mod gain;
pub mod hottest;
pub mod log;
#[cfg(test)]
mod model;
#[cfg(test)]
mod page;
pub mod plain;
mod popularity;
pub mod replication;
pub mod server;
pub mod settings;
pub mod shadow;
pub mod sketch;
mod ssm;
pub mod state;
