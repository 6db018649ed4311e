//! Which worker or server a key belongs to.
//!
//! In a pool of Evenkeel servers the [`map`](evenkeel_types::map) says it, and [`renaming`] where the replicas of a hot key
//! are. In a pool of plain memcached servers nobody says it: every client works it out for itself, and
//! [`pool::Placement`] does so as the clients and proxies did that were there before. The [`ring`] of such a pool may
//! instead follow the load.
//!
//! So that a request for many items asks few servers, items may have [`copies`] on several, and a [`cover`] chooses for
//! each request which of them are read; [`cost`] is the model of what that saves.

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

pub mod config;
pub mod copies;
pub mod cost;
pub mod cover;
pub mod hash;
mod jump;
mod ketama;
pub mod membership;
mod modula;
mod name;
mod points;
pub mod pool;
pub mod renaming;
mod rendezvous;
pub mod ring;
