//! A worker takes [serving leases](crate::ownership::serving_lease), and stops serving when they end.

use crate::ownership::serving_lease::Leave;
use crate::ownership::serving_lease::ServingLease;
use crate::session::ConnectionId;
use crate::worker::core::WorkerCore;
use evenkeel_types::{BootId, Epoch, Instant, ServerId};

impl WorkerCore {
    /// From now on it serves what its server owns under leases only, of which it has none yet.
    pub fn require_lease(&mut self) {
        self.leave = Leave::Over;
        self.placement.set_closed(true);
    }

    /// Its server has a lease. Without effect on a worker that works by an older map. `now` is a reading of the clock in this
    /// turn. If the former lease ended before this one was taken in, connections are given as by
    /// [`look_at_lease`](Self::look_at_lease): their answers are not covered by this one.
    #[must_use = "the driver closes these connections"]
    pub fn handle_lease(&mut self, now: Instant, lease: ServingLease) -> Vec<ConnectionId> {
        let late = self.look_at_lease(now);
        self.take_lease(now, lease);
        late
    }

    fn take_lease(&mut self, now: Instant, lease: ServingLease) {
        if self.placement.epoch() < lease.epoch || now >= lease.until {
            self.engine.counters.leases_unusable += 1;
            return;
        }
        if lease.by_votes && self.config.index == 0 {
            self.engine.counters.leases_by_votes += 1;
        }
        let until = match self.leave {
            Leave::Unbound => return,
            Leave::Until(until) => until.max(lease.until),
            Leave::Over => lease.until,
        };
        // A leave without end ends with the first lease that has one.
        let is_endless = self.leave == Leave::Until(Instant(u64::MAX));
        self.leave = Leave::Until(if is_endless { lease.until } else { until });
        self.placement.set_closed(false);
    }

    /// Whether the lease is over: to be asked in each turn, before anything is carried out and after the words of
    /// [`handle_lease`](Self::handle_lease) were passed on. `now` is a reading of the clock in this turn. When it has just ended,
    /// the connections are given whose answers were not all written: the driver closes them, because nobody can
    /// say whether those were composed in time.
    #[must_use = "the driver closes these connections"]
    pub fn look_at_lease(&mut self, now: Instant) -> Vec<ConnectionId> {
        match self.leave {
            Leave::Until(until) if now >= until => {}
            _ => return Vec::new(),
        }
        self.leave = Leave::Over;
        self.placement.set_closed(true);
        self.engine.counters.leases_lost += 1;
        let owing = self
            .connections
            .iter()
            .filter(|(_, session)| session.owes_output() || session.awaits());
        owing.map(|(id, _)| id).collect()
    }

    /// What was carried out in this turn must be answered before this time, as a later reading of the clock shows it.
    #[inline]
    pub fn lease_end(&self) -> Option<Instant> {
        match self.leave {
            Leave::Until(until) => Some(until),
            Leave::Unbound | Leave::Over => None,
        }
    }

    /// Whether this worker lets another server serve by the map of that epoch. Without a map of its own it does not.
    pub(crate) fn vote(&mut self, server: ServerId, boot: BootId, epoch: Epoch) -> bool {
        let map = self.map.as_deref();
        let grants = map.is_some_and(|map| map.lets_serve(server, boot, epoch));
        self.engine.counters.votes_given += u64::from(grants);
        self.engine.counters.votes_refused += u64::from(!grants);
        grants
    }
}
