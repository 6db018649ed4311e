//! Which worker a key belongs to.

pub mod ketama;
pub mod map;
pub mod renaming;
