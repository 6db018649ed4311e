//! What a command touches: a worker's items, replicas, hot keys, versions and counts.

pub(crate) mod classes;
pub(crate) mod counters;
pub(crate) mod engine;
pub(crate) mod prefixes;
pub(crate) mod replicas;
pub(crate) mod rewritten;
pub(crate) mod share;
pub(crate) mod time;
