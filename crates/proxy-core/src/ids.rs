//! Names of what a core has several of: connections, pools, routes.

use crate::slab::Key;
use evenkeel_hotkeys::client::Connection;

/// Names a connection of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub Key);

impl ClientId {
    /// No connection has this name.
    pub(crate) const NONE: ClientId = ClientId(Key {
        slot: u32::MAX,
        generation: u32::MAX,
    });

    /// As leases call it.
    #[inline]
    pub(crate) fn connection(self) -> Connection {
        Connection(u64::from(self.0.slot) << 32 | u64::from(self.0.generation))
    }
}

/// Names a connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendId(pub Key);

/// Names a pool of one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PoolId(pub Key);

/// The number of a route in one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RouteId(pub(crate) u16);

impl RouteId {
    /// Of what went no route: `flush_all`, `stats`, our own requests. Counted for nobody.
    pub const NONE: RouteId = RouteId(0);
    /// The routes behind the first [`ROUTES_COUNTED_MAX`].
    pub const OTHERS: RouteId = RouteId(1);

    #[inline]
    pub(crate) fn place(self) -> usize {
        self.0.into()
    }
}
