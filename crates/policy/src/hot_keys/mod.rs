//! Hot keys: found by their home server, replicated to shadow servers, read there under leases
//! (SPORE, `S` in the requirements).

pub mod client;
