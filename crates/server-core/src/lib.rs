//! The core of one server worker.
//!
//! A worker owns its connections, its cachelets and their memory; nothing on the path of a get or a
//! set is shared with another worker. The core is told of bytes that arrived, of messages from other
//! workers and of the time; it answers with bytes to write and messages to pass on:
//!
//! ```text
//!             handle_input                    poll_message / handle_message
//!  client ──────────────────>  WorkerCore  <────────────────────────────────>  other workers
//!         <──────────────────       │
//!            session().out          │ poll_link_request, link_out / link_input
//!                                   v
//!                        shadow workers of other servers
//! ```
//!
//! A command is parsed in place, executed at the worker that holds its key, and its answer is composed straight into the
//! connection's output. From the bottom up:
//!
//! - `shard`: items, replicas, hot keys, versions, counts; all that a command touches.
//! - `session`: the connections, and the order of their answers.
//! - `placement`: which worker keeps a key.
//! - `links`: connections to the shadows of this worker's hot keys.
//! - `observe`: who looks on.
//! - `mesh`: what workers of a server tell each other.
//! - `commands`: what each does to its key, and what it answers.
//! - `ownership`: cachelets that change their worker or server, and the lease to serve them.
//! - `stats`: the answers to `stats`.
//! - `worker`: all of it together. `core` has the parts; what needs several of them is a function, in one file for each
//!   thing that is asked of a worker; what the driver calls stands in `connections`, `told` and `asked`.

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

mod admin;
pub mod balancer;
mod commands;
mod links;
mod mesh;
mod observe;
mod ownership;
mod placement;
mod session;
mod shard;
mod stats;
mod worker;

pub use admin::{AdminConfig, ProcessRequest};
pub use commands::get::CLUSTER_KEY;
pub use evenkeel_protocol::auth::{
    AuthMode, CREDENTIAL_LEN_MAX, CREDENTIALS_MAX, Credentials, CredentialsError, Dialect,
    Protocols, Sasl,
};
pub use links::{ACK_TIMEOUT, LINK_OUT_MAX, LinkId, LinkRequest};
pub use mesh::deferred::Deferred;
pub use mesh::forwarded::{Answers, Commands};
pub use mesh::handed_over::{FlushGiven, Follow, Handover, Hosted};
pub use mesh::message::{ClassesView, CountersView, LinesView, Message, Task};
pub use mesh::outbox::OUTBOX_MAX;
pub use observe::CloseReason;
pub use ownership::handovers::{FLUSH_REACH, ORDER_TIME};
pub use ownership::migration::{MigrationStep, TARGET_TIMEOUT};
pub use ownership::serving_lease::{LeaseKeeper, ServingLease, Step, Voter};
pub use placement::{LocalPlacement, STANDALONE_CACHELETS_PER_WORKER};
pub use session::address::{ReturnAddress, Ticket};
pub use session::connections::Progress;
pub use session::{AWAITED_MAX, ConnectionId, LARGE_ANSWER, OUT_PAUSE, Peer, Port, Session};
pub use shard::classes::{ClassStats, Pages};
pub use shard::counters::Counters;
pub use shard::engine::first_version;
pub use stats::{ProcessCounts, ProcessFacts, metrics};
pub use worker::core::{WorkerConfig, WorkerCore};
