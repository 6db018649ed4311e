//! Pools as they are told, before their clusters are joined and their servers looked for.

use crate::clusters::ClusterSpec;
use crate::discovery::DiscoverySpec;
use crate::tls::TlsWay;
use evenkeel_control::rings::RingWish;
use evenkeel_proxy_core::{PoolSettings, ServerList};
use std::sync::Arc;

/// A pool before its cluster is joined.
#[derive(Clone, Debug)]
pub struct PoolPlan {
    pub name: Arc<str>,
    pub servers: PoolServers,
    /// Whose coordinator leads its change from the pool that it is warmed from, or its ring; `None` where the file says how it is.
    pub follows: Option<ClusterSpec>,
    /// How its ring begins, if its hash space follows the load.
    pub ring: Option<RingWish>,
    /// How many copies of each item are supposed when its multi-gets are looked at, if they are.
    pub copies_observed: Option<u8>,
    /// How TLS is spoken with them; `None` for plain connections.
    pub tls: Option<TlsWay>,
    /// All but the number of the way in which TLS is spoken.
    pub settings: PoolSettings,
}

/// The servers of a pool.
#[derive(Clone, Debug)]
pub enum PoolServers {
    Evenkeel(ClusterSpec),
    Memcached(Arc<ServerList>),
    /// Any memcached servers, whose list changes while the process lives.
    Discovered(DiscoverySpec),
}
