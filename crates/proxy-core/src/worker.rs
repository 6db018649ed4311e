//! One proxy worker: what it consists of.

use crate::bytes::Spare;
use crate::clients::Clients;
use crate::config::ProxyConfig;
use crate::counts::Counts;
use crate::crossings::Crossings;
use crate::deletions::Deletions;
use crate::drafts::Drafts;
use crate::failure::Failure;
use crate::flushes::Flushes;
use crate::ids::{BackendId, PoolId};
use crate::limited::LimitedDue;
use crate::limits;
use crate::operations::Operations;
use crate::output::Outbox;
use crate::own_uniques::OwnUniques;
use crate::parked::Parking;
use crate::pipe::backends::Backends;
use crate::pool::Pool;
use crate::pool::elsewhere::Elsewhere;
use crate::pool::pools::Pools;
use crate::random::Random;
use crate::request_log::RequestLog;
use crate::routes::routing::Routing;
use crate::scratch::Scratch;
use evenkeel_types::rooms::Rooms;
use evenkeel_types::{Epoch, Instant, UnixSeconds};
use std::sync::Arc;

/// One proxy worker. See the [crate] for how to drive it.
#[derive(Debug)]
pub struct ProxyCore {
    pub(crate) config: Arc<ProxyConfig>,
    pub(crate) routing: Routing,
    pub(crate) pools: Pools,
    /// Maps and configurations so far, and servers that came into use or went out of it.
    pub(crate) era: u64,
    /// When the present turn of the event loop began.
    pub(crate) now: Instant,
    /// The wall clock.
    pub(crate) unix: UnixSeconds,
    pub(crate) clients: Clients,
    pub(crate) backends: Backends,
    pub(crate) parking: Parking,
    pub(crate) flushes: Flushes,
    pub(crate) limited_due: LimitedDue,
    pub(crate) operations: Operations,
    pub(crate) crossings: Crossings,
    pub(crate) own_uniques: OwnUniques,
    pub(crate) deletions: Deletions,
    pub(crate) outbox: Outbox,
    pub(crate) counts: Counts,
    /// How many bytes of answers an application may have unread before its requests wait.
    pub(crate) out_pause: usize,
    /// See [`ProxyCore::set_room`].
    pub(crate) room: usize,
    /// Wall-clock time of `Instant(0)`, in microseconds since 1970.
    pub(crate) origin_unix_us: u64,
    /// `None` while no requests are logged.
    pub(crate) log: Option<RequestLog>,
    pub(crate) random: Random,
    /// When to look whether a pool can be forgotten; `None` while none is to be.
    pub(crate) leaving_look: Option<Instant>,
    /// When to look whether servers of rings are still there of which nothing is asked; `None` where there are no rings.
    pub(crate) idle_look: Option<Instant>,
    pub(crate) spare: Spare,
    /// Emptied memory of large values.
    pub(crate) rooms: Rooms,
    pub(crate) scratch: Scratch,
    pub(crate) drafts: Drafts,
}

impl ProxyCore {
    /// A worker without pools and routes.
    pub(crate) fn unconfigured(config: &Arc<ProxyConfig>, seed: u64) -> Self {
        ProxyCore {
            config: Arc::clone(config),
            routing: Routing::new(&config.routes),
            pools: Pools::default(),
            era: 0,
            now: Instant::default(),
            unix: 0,
            clients: Clients::default(),
            backends: Backends::default(),
            parking: Parking::default(),
            flushes: Flushes::default(),
            limited_due: LimitedDue::default(),
            operations: Operations::default(),
            crossings: Crossings::default(),
            own_uniques: OwnUniques::default(),
            deletions: Deletions::default(),
            outbox: Outbox::default(),
            counts: Counts::new(seed),
            out_pause: limits::OUT_PAUSE,
            room: usize::MAX,
            origin_unix_us: 0,
            log: None,
            random: Random::new(seed),
            leaving_look: None,
            idle_look: None,
            spare: Spare::default(),
            rooms: Rooms::default(),
            scratch: Scratch::default(),
            drafts: Drafts::default(),
        }
    }

    /// Whether commands may take several steps, or are on their way by some.
    #[inline]
    pub(crate) fn takes_steps(&self) -> bool {
        self.pools.warms() || self.pools.crosses() || !self.operations.is_empty()
    }

    /// What leases of plain pools belong to: everything that can give a key another home begins an era.
    #[inline]
    pub(crate) fn plain_era(&self) -> Epoch {
        Epoch(self.era)
    }

    /// Whether a server takes a request of at most that many bytes now.
    #[inline]
    pub(crate) fn admit(&mut self, to: BackendId, len_max: usize) -> Result<BackendId, Failure> {
        self.backends.admit(&mut self.counts.stats, to, len_max)
    }

    /// Closes the connection to a server that its pool no longer has, once nothing is awaited from it.
    #[inline]
    pub(crate) fn close_if_retired(&mut self, id: BackendId) {
        self.backends
            .close_if_retired(&mut self.outbox, &mut self.counts.routes, id);
    }

    /// Finds out who answers on a connection that stands.
    pub(crate) fn greet(&mut self, id: BackendId, until: Instant) {
        let pool = self.backends.get(id).map(|backend| backend.pool);
        let pool = pool.and_then(|pool| self.pools.get(pool));
        let epoch = pool.map_or(Epoch(0), Pool::epoch);
        self.backends.greet(&mut self.outbox, id, until, epoch);
    }

    /// [`Pools::elsewhere`] for a request, which is counted.
    pub(crate) fn find_elsewhere(
        &mut self,
        now: Instant,
        pool: PoolId,
        key: &[u8],
    ) -> Option<Elsewhere> {
        let elsewhere = self.pools.elsewhere(&self.backends, now, pool, key)?;
        self.counts.stats.failovers_unsettled += u64::from(!elsewhere.is_expired);
        Some(elsewhere)
    }
}
