//! Which worker serves a cachelet, by the map, by handovers between workers, by migrations between servers, and under
//! which lease.

pub(crate) mod early;
pub(crate) mod handovers;
pub(crate) mod migration;
pub(crate) mod serving_lease;
