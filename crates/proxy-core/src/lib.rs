//! The proxy's core: what one proxy worker does, without sockets, clocks or threads.
//!
//! To an application it is one memcached. To an Evenkeel server it is an aware client: it knows the
//! map, goes straight to the worker that owns a key, and holds leases on replicas of hot keys for all
//! of the applications' connections. To any other memcached it is an ordinary client that
//! places keys on a ring.
//!
//! ```text
//!  application ─ bytes ─> request/ ──> routes/ ───> pool/ ────> pipe/ ─ bytes ─> server
//!                 parse, one slot     which pool   which      one queue, answers
//!                 for each answer                  server     in the order asked
//!                     │
//!                     ▼
//!  application <─ bytes ─ client.rs <─ under_way/ <── answer/ <─────────── bytes ── server
//!                      answers in the   shown in turn,  judge, compose
//!                      order asked      or asked again  (show/)
//! ```
//!
//! A connection whose first byte is that of the binary protocol goes by `request/binary/`;
//! servers are asked in text all the same, and `show/binary.rs` words their answers.
//!
//! # Where things stand
//!
//! From the bottom to the top; each imports only what stands before it.
//!
//! - Words: `limits`, `ids`, `config`, `routes/`, `racks`, `failure` (why the proxy answers with an error),
//!   `show/` (answers in the application's words), `stats/` (what is counted, and how it is told).
//! - Parts of a worker, each with its data: `client` and `clients`, `pipe/` (connections to servers), `pool/`
//!   (which server, also of hot keys and while servers are out of use), `parked`, `flushes`, `operations`, `drafts`,
//!   `limited`, `request_log`, `pages`, `profile` and `counts`, `output`.
//! - `worker`: the parts together.
//! - What is done with several parts at once: `under_way/`, then `request/` and `answer/`, `configure`, `map`
//!   and `explain`.
//! - `driver` and `told`: what the driver calls.
//!
//! # How the driver works with it
//!
//! Tell it what happened (`client_*`, `backend_*`, `set_map`, `handle_timeout`), then do what
//! [`ProxyCore::poll_output`] says until it says nothing. Input that is not consumed is given again,
//! from its first unconsumed byte, when more of it has arrived or when the core asks for it.
//!
//! # What is promised
//!
//! - Every request that wants an answer gets exactly one, in order, at the latest after the request
//!   timeout plus the time to try a second place.
//! - A request whose outcome is unknown is answered with an error, and is put to a server again only
//!   if it is a read or was certainly not executed.
//! - Each application connection reads its own writes and never an older value after a newer one of
//!   the same key. See [`ClientLeases`](evenkeel_hotkeys::client::ClientLeases) for the argument
//!   in an Evenkeel pool, and [`plain`](evenkeel_hotkeys::plain) for that in a pool of any
//!   memcached servers whose hot keys are replicated (`pool/hot.rs`).
//!
//! # When the map or the configuration changes
//!
//! Each begins a new *era*, and so does a memcached that goes out of use or comes back. Requests that are under way keep the place they were given. A connection
//! with requests under way from an older era sends no further ones until those are answered, so that
//! what it asks of a key's new home cannot overtake what it asked of the former one, be it because
//! that turns a request away and it is sent on, or because the two are simply not equally fast.
//! Leases end too: those of a pool with each of its maps, all of them with each configuration.

#![forbid(unsafe_code)]
// See clippy.toml.
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

mod across;
mod answer;
mod bundles;
mod bytes;
mod client;
mod clients;
mod composed;
mod config;
mod configure;
mod copied;
mod counts;
mod crossings;
mod dashboard;
mod deletions;
mod draft;
mod drafts;
mod driver;
mod explain;
mod failure;
mod flushes;
mod hottest;
mod ids;
mod limited;
pub mod limits;
mod logged;
mod made;
mod map;
mod operations;
mod outage;
mod output;
mod own_uniques;
mod pages;
mod parked;
mod pipe;
mod places;
mod pool;
mod profile;
mod racks;
mod random;
mod reports;
mod request;
mod request_log;
mod ring;
mod route_flags;
mod routes;
mod scratch;
mod server_list;
mod show;
mod slab;
mod stats;
mod steps;
#[cfg(test)]
mod tests;
mod under_way;
mod value_bytes;
mod warm;
mod worker;

pub use bundles::{Bundles, Keeping};
pub use config::{
    Access, DEFAULT_POOL, Failover, Holding, HoldingBy, LocalCopying, Login, MapSource, OnDown,
    PoolConfig, PoolKind, PoolSettings, ProfileConfig, ProxyConfig, RequestLogConfig, Revision,
    TlsId,
};
pub use dashboard::{Dashboard, DashboardView, HeatMeasure, HeatView};
pub use explain::{
    CopiesSeen, Destination, Explanation, Exptimes, Fault, FormerSeen, HealthSeen, HeldKey,
    HeldPlace, HotSeen, KeyReport, KeyTogether, KeyWay, PLACES_LISTED_MAX, PlaceSeen, Placing,
    RacksSeen, RouteFound, ServerSeen, Stands, Together,
};
pub use ids::{BackendId, ClientId};
pub use logged::LoggedRequest;
pub use outage::{Cause, ServerState, StateChange};
pub use output::{AddressTicket, Output, StatsTicket};
pub use pool::grain_counts::RingCounted;
pub use profile::ProfileChunk;
pub use racks::{NO_RACK, Racks};
pub use request_log::SLOW_LOGGED_PER_SECOND_MAX;
pub use ring::{BundleUpdate, PlannedRing, PoolUpdate};
pub use routes::{
    ADD_PREFIX_LEN_MAX, CommandClass, Commands, Enough, Limit, ROUTES_MAX, RouteConfig, RouteError,
    RouteTable, RouteTarget, TTL_BOUND_MAX, TtlBounds,
};
pub use server_list::ServerList;
pub use slab::Key;
pub use stats::counters::{BackendCounters, BundleCounts, ProxyStats};
pub use stats::hot_keys::{HotKeyReport, HottestReport, HottestReports};
pub use stats::latency::Latency;
pub use stats::metrics::render as render_metrics;
pub use stats::per_route::{ROUTES_COUNTED_MAX, RouteCounters};
pub use stats::process::{
    BackendStats, DiscoveryStats, PoolStats, ProcessFacts, ProcessStats, WorkerCounts,
};
pub use stats::route_stats::{RouteName, RouteStats};
pub use worker::ProxyCore;
