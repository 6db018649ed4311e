//! Which worker serves a cachelet, by the map, by handovers between workers, by migrations between servers, and under
//! which lease.

pub(crate) mod handovers;
pub(crate) mod homes;
pub(crate) mod hosting;
mod local_move;
pub(crate) mod migration;
mod migration_source;
mod migration_target;
pub(crate) mod serving_lease;
