//! The worker: its parts together ([`core`]), and what is done with several of them at once, a file for each thing that
//! connections, other workers, the coordinator and time ask for. What the driver calls: `connections`, `told`, `asked`.

mod admin;
mod asked;
mod binary;
mod connections;
pub(crate) mod core;
mod fast_path;
mod forward;
mod handover;
mod inputs;
mod listing;
mod migration;
mod route;
mod stats;
mod text;
mod watch;
mod whole;
