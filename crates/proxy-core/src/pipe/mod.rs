//! The connections to servers: what was asked on each, and how it is.

pub(crate) mod backend;
pub(crate) mod backends;
pub(crate) mod backlog;
pub(crate) mod capability;
pub(crate) mod handshake;
pub(crate) mod health;
pub(crate) mod in_flight;
pub(crate) mod invalidation_log;
pub(crate) mod login;
pub(crate) mod paced;
pub(crate) mod queue;
pub(crate) mod room;
pub(crate) mod streaming;
pub(crate) mod window;
