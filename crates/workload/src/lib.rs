//! Workloads: which key is asked for next, what is done with it, how large its value is and when; and
//! traces of real ones.
//!
//! A workload is a stream of requests that one seed fixes entirely: the same seed gives the same
//! requests on every run, so that two servers can be compared under the same load and a failure can
//! be replayed. Popularity is a law over *ranks* (rank 0 is the hottest); a seeded permutation turns
//! ranks into key numbers. Another permutation of the same ranks is a *switch of the hot keys*: the
//! shape of the load stays, the keys that carry it change.
//!
//! ```text
//! WorkloadSpec (text, TOML, JSON) ──build──> Workload ──stream(i of n)──> WorkloadStream ──> Request
//!                                               └──schedule(i of n)──> Schedule (due times)
//!
//!   Mix ──> operation     RankSampler ──> rank ──> Permutation ──> key number ──> KeyFormat ──> key
//!                                                        hash of the key ──> ValueSizes, Ttls
//!
//! file ──> gzip? zstd? ──> TraceReader ──> TraceRequest (key, operation, size, time to live, time)
//! ```
//!
//! Everything here is generated on demand: nothing is stored per request or key. There is no clock and
//! no global state: the caller tells the time. `docs/workloads.md` is the users' page.

#![forbid(unsafe_code)]

mod alias;
mod arrivals;
mod distribution;
mod flash;
mod generator;
mod graph;
mod histogram;
mod input;
mod keys;
mod mix;
mod multiget;
mod permutation;
mod popularity;
mod published;
mod ranks;
pub mod rng;
mod spec;
#[cfg(test)]
mod statistics;
mod text;
pub mod trace;

pub use arrivals::{Arrivals, RATE_MAX, Rate, STREAMS_MAX, Schedule, Wave};
pub use distribution::{KeySizes, TTL_S_MAX, Ttls, VALUE_LEN_MAX, VALUE_LEN_TAIL_MAX, ValueSizes};
pub use flash::FlashCrowd;
pub use generator::{Request, Workload, WorkloadStream};
pub use graph::{EDGES_MAX, Graph, PowerLaw, USERS_MAX};
pub use histogram::HISTOGRAM_VALUES_MAX;
pub use keys::{KEY_PREFIX_LEN_MAX, KeyFormat, KeyList};
pub use mix::{Mix, Operation};
pub use multiget::{GraphSource, MULTIGET_MAX, MultiGet};
pub use permutation::Permutation;
pub use popularity::{EXPONENT_MAX, KEYS_MAX, Popularity, RankSampler};
pub use published::{MetaCache, TwitterCluster};
pub use spec::{FIELDS, KEYS_DEFAULT, ReadOnly, WorkloadSpec};

/// A workload that cannot be built. The message fits after "failed to build the workload: ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WorkloadError(pub(crate) String);

/// Refuses a workload with this reason.
pub(crate) fn refuse<T>(reason: impl Into<String>) -> Result<T, WorkloadError> {
    Err(WorkloadError(reason.into()))
}
