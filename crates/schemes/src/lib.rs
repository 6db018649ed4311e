//! What a pool does with a key, as plain values, and the names of ours on servers that are not ours.
//!
//! A [`Scheme`] is a choice on each of four axes: where a key lives, whether it is replicated, which copy a read goes to, and what a
//! write does. [`Scheme::support`] says of every combination whether it works, is not built, or makes no sense, and why.

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

pub mod change;
pub mod copies;
pub mod generation;
pub mod locality;
pub mod mark;
pub mod name;
#[cfg(test)]
mod page;
mod scheme;
pub mod stage;
pub mod warm;
pub mod warmth;

pub use scheme::{Placement, Read, Replication, Scheme, Support, Write};
