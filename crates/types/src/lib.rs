//! The words of the domain, shared by every other crate.
//!
//! These are the nouns (a key's hash, a server, a worker, a cachelet, the map that says who owns which,
//! an epoch, a point in time) and the limits that the protocol fixes. A word means the same thing
//! everywhere; the glossary in `ARCHITECTURE.md` explains each in a sentence.
//!
//! [`shown`] is how numbers that are shown to people are declared.
//!
//! This crate reads no clock, opens no socket, starts no thread and owns no global state.

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

pub mod copy;
mod ids;
mod key;
pub mod limits;
pub mod map;
pub mod promise;
pub mod random;
pub mod rooms;
pub mod serving;
pub mod shown;
mod time;
mod transitions;

pub use ids::{BootId, CacheletId, Epoch, ServerId, Version, VirtualNode, WorkerRef};
pub use key::{KeyHash, escape, is_key, printable, uri_encode};
pub use time::{Instant, Now, UnixSeconds};
pub use transitions::Transitions;

/// What this program says it is where memcached's version is expected: tools parse the number to
/// know what a server can do.
pub const VERSION: &str = concat!("1.6.45-evenkeel-", env!("CARGO_PKG_VERSION"));
