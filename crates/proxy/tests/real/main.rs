//! The proxy between real sockets: memcached and Evenkeel servers behind it, applications before it.

mod access;
mod alike;
mod configuration;
mod copies;
mod discovery;
mod evenkeel_pool;
mod failures;
mod held;
mod in_process;
mod limited;
mod membership;
mod memcached_pool;
mod metrics;
mod name_service;
mod observed;
mod outcomes;
mod patience;
mod plain_hot_keys;
mod profile;
mod racks;
mod request_log;
mod sdr;
mod secure;
mod twemproxy;
mod two_pools;
mod warm;
