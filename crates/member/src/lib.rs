//! How everybody else talks to the coordinator: blocking HTTP, one call at a time.
//!
//! - [`MemberHandle`]: the background thread by which a server or a proxy is a member of the cluster.
//! - [`access`]: what is shown to be let in.
//! - [`client`]: the API for programs that look on.

#![forbid(unsafe_code)]

pub mod access;
pub mod client;
mod endpoint;
mod event;
mod line;
mod member;
mod pace;
mod view;

pub use endpoint::{BadEndpoint, Endpoint};
pub use event::MemberEvent;
pub use member::{Hurrier, MemberConfig, MemberError, MemberHandle, Report};

/// The cluster that members and coordinators belong to that are told of none.
pub const DEFAULT_CLUSTER: &str = "evenkeel";
