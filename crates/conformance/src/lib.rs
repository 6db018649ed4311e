//! What must be true of the whole project, checked from outside.
//!
//! * [`transcript`] sends the same bytes to a real memcached, to `evenkeel server` and to
//!   `evenkeel proxy`, and compares what comes back byte for byte. The texts lie in `transcripts/`.
//! * [`differential`] does the same with random sessions, and makes small what it finds.
//! * [`go`] builds the tests' programs in Go.
//! * [`users`] use a cache and know what they must find; [`migrations`] orders cachelets to other servers.
//! * [`coordinators`] on one [`etcd`], with servers and a proxy.
//! * `tests/` runs these, libmemcached's own test of servers, and real clients of several languages.
//!
//! Nothing here is part of the product.

#![forbid(unsafe_code)]

pub mod coordinators;
pub mod differential;
pub mod etcd;
pub mod exchange;
pub mod go;
pub mod migrations;
pub mod transcript;
pub mod users;
