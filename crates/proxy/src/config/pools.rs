//! Pools as they are told, before their clusters are joined and their servers looked for.

use crate::clusters::{ClusterSpec, Wish};
use crate::discovery::DiscoverySpec;
use crate::tls::TlsWay;
use evenkeel_control::rings::RingWish;
use evenkeel_proxy_core::{Bundles, Keeping, LocalCopying, PoolSettings, Racks, ServerList};
use evenkeel_schemes::locality::topology::RackId;
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
    /// The copies of its items, if there are any, or are supposed when its multi-gets are looked at.
    pub copies: Option<CopiesPlan>,
    /// The racks of which one holds each item, if its architecture is such.
    pub holding: Option<HoldingPlan>,
    /// How TLS is spoken with them; `None` for plain connections.
    pub tls: Option<TlsWay>,
    /// All but the number of the way in which TLS is spoken.
    pub settings: PoolSettings,
}

/// Racks of which one holds each item.
#[derive(Clone, Debug)]
pub struct HoldingPlan {
    /// The pool that has notes of them; `None` where all racks have.
    pub directory: Option<Arc<str>>,
    /// How the own rack copies what other racks hold, if it does.
    pub copying: Option<LocalCopying>,
    /// The proxy's own; `None` before it is known.
    pub own: Option<RackId>,
    /// The other racks; none before the own one is known, whose servers the pool has from then on.
    pub others: Vec<OtherRack>,
}

/// Another rack of a pool.
#[derive(Clone, Debug)]
pub struct OtherRack {
    pub rack: RackId,
    /// What its servers are called as a pool.
    pub pool: Arc<str>,
    pub servers: Arc<ServerList>,
}

/// Copies of a pool's items.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopiesPlan {
    /// How many there are of each, its own place included.
    pub copies: u8,
    /// How they are kept; `None` where they are only supposed.
    pub keeping: Option<Keeping>,
    /// Copies of an item are in different racks, and the nearest is read.
    pub is_by_rack: bool,
}

impl CopiesPlan {
    /// The racks, where they say where copies are.
    pub fn racks(self, racks: &Racks) -> Option<&Racks> {
        self.is_by_rack.then_some(racks)
    }
}

impl PoolPlan {
    /// What its coordinator is told of it.
    pub fn wish(&self, racks: &Racks) -> Wish {
        match (&self.ring, &self.copies, &self.servers) {
            (Some(ring), ..) => Wish::Ring(ring.clone()),
            (None, Some(plan), PoolServers::Memcached(list)) if plan.keeping.is_some() => {
                Wish::Bundle(Bundles::wish_of(list, plan.copies, plan.racks(racks)))
            }
            _ => Wish::Change,
        }
    }
}

/// The servers of a pool.
#[derive(Clone, Debug)]
pub enum PoolServers {
    Evenkeel(ClusterSpec),
    Memcached(Arc<ServerList>),
    /// Any memcached servers, whose list changes while the process lives.
    Discovered(DiscoverySpec),
}
