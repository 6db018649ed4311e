//! How applications use a cache: what a proxy records of each command, and what the records say.
//!
//! The paper's tool is MemcacheTach ("Exploring Non-Typical Memcache Architectures", section 3); its quantities are those of Figure 2.
//! A profile is a file: a [`Head`], then [`Record`]s of 48 bytes each, one for each key of each command that the
//! [`Sampling`] picks.

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

mod curve;
mod followed;
mod head;
mod join;
mod lifetime;
mod reader;
mod record;
mod report;
mod sampling;

pub use curve::{CURVE_KEYS_MAX, Curve, Curves, Hits, Point};
pub use head::{Head, HeadError, RackOfHead};
pub use join::{JoinError, Joined};
pub use lifetime::Lifetime;
pub use reader::{ReadError, Reader};
pub use record::{Flags, NO_LATENCY, NO_RACK, RECORD_LEN, Record, RecordError};
pub use report::{
    Distance, Figure, KEYS_MAX, Measured, PAGES_MAX, RackLatency, Report, Section, Share, Summary,
};
pub use sampling::Sampling;
