//! Which worker a key belongs to.

pub mod map;
pub mod renaming;
