//! Workloads: which key is asked for next, how large its value is, and traces of real ones.
//!
//! A workload is a stream of requests that one seed fixes entirely: the same seed gives the same
//! requests on every run, so that two servers can be compared under the same load and a failure can
//! be replayed. Popularity is a law over *ranks* (rank 0 is the hottest); a seeded permutation turns
//! ranks into key numbers. Another permutation of the same ranks is a *switch of the hot keys*: the
//! shape of the load stays, the keys that carry it change.
//!
//! ```text
//! generator ──> Popularity (rank) ──> Permutation (key number) ──> KeyFormat (bytes)
//!                                                             └──> ValueSizes (bytes of the value)
//! file ──> gzip? ──> TraceReader (bytes of the key, operation, size)
//! ```
//!
//! Everything here is generated on demand: nothing is stored per request, and only small key spaces
//! get a table.

#![forbid(unsafe_code)]

mod keys;
mod permutation;
mod popularity;
pub mod rng;
mod synthetic;
pub mod trace;
mod zipf;

pub use keys::{KeyFormat, ValueSizes};
pub use permutation::Permutation;
pub use popularity::{Popularity, RankSampler};
pub use synthetic::{Synthetic, SyntheticSpec, SyntheticStream};
pub use zipf::{ALIAS_TABLE_KEYS_MAX, EXPONENT_MAX, KEYS_MAX};

/// What a request does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reads the value of a key.
    #[default]
    Get,
    /// Writes the value of a key.
    Set,
}

/// A workload that cannot be built. The message fits after "failed to build the workload: ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WorkloadError(pub(crate) String);

/// Refuses a workload with this reason.
pub(crate) fn refuse<T>(reason: impl Into<String>) -> Result<T, WorkloadError> {
    Err(WorkloadError(reason.into()))
}
