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
//! A command is parsed in place, carried out at the worker that holds its key (`commands`), and its
//! answer is composed straight into the connection's output. See `placement` for who holds what,
//! `links` and `replicas` for the two sides of replication.

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
mod connections;
mod counters;
mod deferred;
mod dialect;
mod dispatch;
mod early;
mod elsewhere;
mod engine;
mod forward;
mod handover;
mod held;
mod in_order;
mod key_command;
mod links;
mod listing;
mod lists;
mod loads;
mod message;
pub mod metrics;
mod migration;
mod observe;
mod outbox;
mod placement;
mod plain;
mod replicas;
mod route;
mod serving_lease;
mod session;
mod stats;
mod time;
mod whole;
mod worker;

pub use admin::{AdminConfig, CLUSTER_KEY, ProcessRequest};
pub use connections::Progress;
pub use counters::Counters;
pub use deferred::Deferred;
pub use engine::first_version;
pub use evenkeel_protocol::auth::{
    AuthMode, CREDENTIAL_LEN_MAX, CREDENTIALS_MAX, Credentials, CredentialsError, Dialect,
    Protocols, Sasl,
};
pub use forward::{Answers, Commands};
pub use handover::{FLUSH_REACH, FlushGiven, Follow, Handover, Hosted, ORDER_TIME};
pub use in_order::Ticket;
pub use links::{ACK_TIMEOUT, LINK_OUT_MAX, LinkId, LinkRequest};
pub use message::{ClassesView, CountersView, LinesView, Message, ReturnAddress, Task};
pub use migration::{MigrationStep, TARGET_TIMEOUT};
pub use observe::CloseReason;
pub use outbox::OUTBOX_MAX;
pub use placement::{LocalPlacement, STANDALONE_CACHELETS_PER_WORKER};
pub use serving_lease::{LeaseKeeper, ServingLease, Step, Voter};
pub use session::{AWAITED_MAX, ConnectionId, LARGE_ANSWER, OUT_PAUSE, Peer, Port, Session};
pub use stats::{ClassStats, Pages, ProcessFacts};
pub use worker::{WorkerConfig, WorkerCore};
