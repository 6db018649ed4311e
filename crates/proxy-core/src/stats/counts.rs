//! What one worker counts: of all requests, and of each route.

use crate::ids::RouteId;
use crate::stats::counters::{ProxyStats, Tally};
use crate::stats::per_route::PerRoute;

/// What one worker counts.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Of all requests.
    pub stats: ProxyStats,
    /// Of each route.
    pub routes: PerRoute,
}

impl Counts {
    /// A slot of a request on this route was shown, so many bytes of it.
    #[inline]
    pub fn shown(&mut self, route: RouteId, tally: Tally, bytes: usize) {
        self.routes.count(&mut self.stats, route, tally, bytes);
    }
}
