//! The proxy between real sockets: memcached, Evenkeel and scripted servers behind it, applications before it.

mod access;
mod configuration;
mod discovery;
mod evenkeel_pool;
mod failures;
mod in_process;
mod membership;
mod memcached_pool;
mod metrics;
mod name_service;
mod patience;
mod plain_hot_keys;
mod request_log;
mod scripted;
mod secure;
mod twemproxy;
mod two_pools;
