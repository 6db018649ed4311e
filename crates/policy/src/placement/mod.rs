//! Which worker a key belongs to.

pub mod map;
