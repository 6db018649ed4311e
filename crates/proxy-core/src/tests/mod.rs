//! Stories: what applications say, what servers are asked and answer, and what applications get.

mod binary_twin;
mod bounds;
mod copies;
mod copies_twin;
mod explain;
mod failover;
mod failures;
mod grain_counts;
mod hot_keys;
mod latency;
mod limited;
mod merging;
mod moves;
mod observed;
mod per_route;
mod plain_hot_keys;
mod plain_hot_reads;
mod plain_servers;
mod reload;
mod request_log;
mod ring_twin;
mod routing;
mod script;
mod streaming;
mod twin;
mod world;
