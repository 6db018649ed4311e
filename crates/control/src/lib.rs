//! What members, the coordinator and operators tell each other.
//!
//! A server or proxy reports to the coordinator by [`Heartbeat`]s and hears from it in the answers. What is new of
//! [`loads`] and [`hot_keys`] travels in them, bounded in bytes. [`exposition`] is Prometheus's text format.

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

pub mod access;
pub mod bundles;
mod control_port;
pub mod exposition;
pub mod gone;
mod heartbeat;
pub mod hot_keys;
pub mod http;
pub mod limits;
pub mod loads;
pub mod page;
mod refusal;
pub mod rings;
mod served;
pub mod times;

pub use control_port::{CONTROL_LINE_LEN_MAX, boot_of, control_line};
// What an answer tells of the cluster's load.
pub use evenkeel_balance::share::{ClusterLoad, Utilization};
pub use heartbeat::{
    FollowedPool, Heartbeat, HeartbeatAnswer, LoadReport, MapOffer, MemberKind, MigrationReport,
    MigrationState, PoolStep, check_name,
};
pub use refusal::{Fault, Reason, Refusal};
pub use served::Served;
