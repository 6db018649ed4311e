//! The worker: what it owns ([`core`]), and how it carries out what connections, other workers, the coordinator and time
//! ask of it, a file each.

mod admin;
mod binary;
mod connections;
pub(crate) mod core;
mod early;
mod elsewhere;
mod fast_path;
mod forward;
mod handover;
mod held;
mod listing;
mod lists;
mod loads;
mod migration;
mod migration_source;
mod migration_target;
mod observed;
mod route;
mod serving_lease;
mod stats;
mod text;
mod watch;
mod whole;
