//! The pure cores of the three roles.
//!
//! A core is told the time and what happened (bytes from a connection, a lost link, a new map) and
//! answers with what to do (bytes to write, messages to pass on). It opens no socket, reads no
//! clock and starts no thread, so that the real processes and the simulator drive the same code.
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

pub mod auth;
pub mod balancer;
pub mod coordinator;
mod exposition;
pub mod hot_keys_view;
pub mod loads_view;
pub mod proxy;
mod quarantined;
pub mod server;
mod wording;
