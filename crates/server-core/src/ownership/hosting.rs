//! Which cachelets a worker serves: by the map, by moves between workers and servers, and under the server's lease.

use crate::mesh::forwarded::Commands;
use crate::ownership::handovers::Handovers;
use crate::ownership::migration::Migrations;
use crate::ownership::serving_lease::{LeaseState, ServingLease};
use crate::placement::{Holder, LocalPlace, LocalPlacement, Located};
use crate::session::elsewhere::Elsewhere;
use crate::shard::counters::Counters;
use evenkeel_storage::Store;
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{BootId, CacheletId, Epoch, Instant, KeyHash, ServerId, WorkerRef};
use std::sync::Arc;

/// What a worker knows of the cachelets that it hosts, hosted, or is to host.
#[derive(Debug)]
pub(crate) struct Hosting {
    /// The worker itself; of the first server until a map names another.
    pub(crate) me: WorkerRef,
    /// How many workers the server has.
    pub(crate) workers: u16,
    pub(crate) map: Option<Arc<ClusterMap>>,
    pub(crate) placement: LocalPlacement,
    /// Whether it may serve what its server owns.
    lease_state: LeaseState,
    /// Cachelets that are not at their home workers, and how they get from one worker to another.
    pub(crate) handovers: Handovers,
    /// Cachelets on their way to or from another server.
    pub(crate) migrations: Migrations,
}

impl Hosting {
    /// A worker that needs no lease and has no map.
    pub fn new(worker: u16, workers: u16, placement: LocalPlacement) -> Self {
        Hosting {
            me: WorkerRef {
                server: ServerId::default(),
                worker,
            },
            workers,
            map: None,
            placement,
            lease_state: LeaseState::Unbound,
            handovers: Handovers::default(),
            migrations: Migrations::default(),
        }
    }

    /// Whether this worker hosts a key.
    #[inline]
    pub(crate) fn hosts(&self, place: &LocalPlace) -> bool {
        let me = self.me.worker;
        place.is_at(me) || self.handovers.host_of(place) == Holder::Worker(me)
    }

    /// Whether this worker hosts a cachelet.
    pub fn hosts_cachelet(&self, store: &Store, cachelet: CacheletId) -> bool {
        let seat = self.placement.seat(cachelet);
        seat.is_some() && store.has(cachelet)
    }

    /// The worker that an aware client should ask for a key. This one itself where nobody owns the key at
    /// the moment: then the client asks again after a pause.
    pub(crate) fn owner_of(&self, located: &Located, hash: KeyHash) -> WorkerRef {
        if located.place.is_owned() {
            let worker = match self.handovers.host_of(&located.place) {
                Holder::Worker(worker) => worker,
                // It is on its way to another server, or not served at present.
                Holder::Changing | Holder::NoLease | Holder::Elsewhere => self.me.worker,
            };
            return WorkerRef { worker, ..self.me };
        }
        let Some(place) = self.map.as_deref().map(|map| map.locate(hash)) else {
            return self.me;
        };
        let migrated = self.migrations.gone_to(place.cachelet);
        migrated.or(place.worker).unwrap_or(self.me)
    }

    /// Whose a key is that is not this server's.
    #[cold]
    pub(crate) fn whose(&mut self, key: &[u8]) -> Elsewhere {
        let map = self.map.as_deref();
        let cachelet = map.map(|map| map.locate(KeyHash::of(key)).cachelet);
        match cachelet.filter(|it| map.is_some_and(|map| map.is_quarantined(*it))) {
            Some(cachelet) => Elsewhere::Quarantined(cachelet),
            None => Elsewhere::OfAnother,
        }
    }

    /// Whether the server owns a key and may not serve it.
    pub(crate) fn has_no_lease(&self, store: &Store, key: &[u8]) -> bool {
        self.placement.locate(store, key).place.holder() == Holder::NoLease
    }

    /// Whether a cachelet of this server is ordered to another one, or has come from one that the map
    /// still names as the owner. It must not change its worker.
    pub(crate) fn is_between_servers(&self, cachelet: CacheletId) -> bool {
        let by_map = self.map.as_ref().and_then(|map| map.migration(cachelet));
        by_map.is_some() || self.migrations.incoming.contains_key(&cachelet)
    }

    /// Keeps a command of another worker's connection while its cachelet passes. False when it does not.
    pub(crate) fn hold_command(
        &mut self,
        counters: &mut Counters,
        from: u16,
        cachelet: CacheletId,
        command: impl FnOnce() -> Commands,
    ) -> bool {
        if self.handovers.passing != Some(cachelet) {
            return false;
        }
        if let Some(outgoing) = self.migrations.outgoing.get_mut(&cachelet) {
            outgoing.held.push((from, command()));
            counters.commands_waited += 1;
        }
        true
    }

    /// From now on it serves what its server owns under leases only, of which it has none yet.
    pub fn require_lease(&mut self) {
        self.lease_state = LeaseState::Over;
        self.placement.set_closed(true);
    }

    /// Its server has a lease.
    pub fn take_lease(&mut self, counters: &mut Counters, now: Instant, lease: ServingLease) {
        if self.placement.epoch() < lease.epoch || now >= lease.until {
            counters.leases_unusable += 1;
            return;
        }
        if lease.by_votes && self.me.worker == 0 {
            counters.leases_by_votes += 1;
        }
        let until = match self.lease_state {
            LeaseState::Unbound => return,
            LeaseState::Until(until) => until.max(lease.until),
            LeaseState::Over => lease.until,
        };
        // A leave without end ends with the first lease that has one.
        let is_endless = self.lease_state == LeaseState::Until(Instant(u64::MAX));
        self.lease_state = LeaseState::Until(if is_endless { lease.until } else { until });
        self.placement.set_closed(false);
    }

    /// Whether the lease has just ended; then nothing that the server owns is served any more.
    pub fn end_lease(&mut self, counters: &mut Counters, now: Instant) -> bool {
        let ends = matches!(self.lease_state, LeaseState::Until(until) if now >= until);
        if ends {
            self.lease_state = LeaseState::Over;
            self.placement.set_closed(true);
            counters.leases_lost += 1;
        }
        ends
    }

    /// When the lease ends, if it has one.
    #[inline]
    pub fn lease_end(&self) -> Option<Instant> {
        match self.lease_state {
            LeaseState::Until(until) => Some(until),
            LeaseState::Unbound | LeaseState::Over => None,
        }
    }

    /// Whether this worker lets another server serve by the map of that epoch. Without a map of its own it does not.
    pub(crate) fn vote(
        &self,
        counters: &mut Counters,
        (server, boot): (ServerId, BootId),
        epoch: Epoch,
    ) -> bool {
        let map = self.map.as_deref();
        let grants = map.is_some_and(|map| map.lets_serve(server, boot, epoch));
        counters.votes_given += u64::from(grants);
        counters.votes_refused += u64::from(!grants);
        grants
    }
}
