//! Which worker or server a key belongs to.
//!
//! In a pool of Evenkeel servers the [`map`] says it, and [`renaming`] where the replicas of a hot key
//! are. In a pool of plain memcached servers nobody says it: every client works it out for itself, and
//! [`pool::Placement`] does so as the clients and proxies did that were there before.

pub mod config;
pub mod hash;
mod jump;
mod ketama;
pub mod map;
mod modula;
pub mod pool;
pub mod renaming;
mod rendezvous;
mod ring;
pub mod serving;
