//! How a cachelet changes its worker while everybody goes on (MBal, section 3.3).
//!
//! The map names a *home worker* for each cachelet of a server. When that one has too much to do, another
//! worker *hosts* the cachelet for a while. Nothing is copied: index and items change hands by pointer, in a
//! message. What takes care is the order of the commands that are on their way meanwhile. Those of
//! aware clients are no trouble, because a worker that does not host their key only points to the one that
//! does. Other clients ask any worker, and theirs travel over the queues between workers:
//!
//! ```text
//!   asker        former host       new host
//!     │ command ────>│                │
//!     │              │── Handover ───>│  hosts it from here on
//!     │ command ────>│── passed on ──>│  behind the cachelet, in the same queue
//!     │<─────────────┼──── Hosted ────│
//!     │ Follow ─────>│── passed on ──>│  the last that comes by the old way
//!     ┊ waits        │                │
//!     │<─────────────┼─── Followed ───│
//!     │ command ──────────────────────>  straight
//! ```
//!
//! An asker keeps back the commands of its own connections for this one cachelet from when it says `Follow`
//! until it hears `Followed`, so that none overtakes one before it. Commands that [wait for memory](crate::mesh::deferred) at a
//! worker keep their place: a `Follow` waits behind those it is the last of. The new host is an asker, too: its own
//! connections' commands may be on their way to the former host. A cachelet moves again only when every worker has
//! followed (it is *settled*), so that a command is passed on once at most.
//!
//! Maps reach workers one after the other. What is said of a cachelet carries which of its stays at the server it is about, and by
//! which map; a worker that knows another stay ignores what it hears, or waits for that map. When a map takes a cachelet from the server, or gives it to another home worker, anyone who hosts it
//! lets it go.
//!
//! A `flush_all` reaches each worker at another time, so a cachelet could pass it by. Therefore a worker that
//! flushes tells the hosts of what it gave away lately ([`FLUSH_REACH`]), and its share of the answer comes from
//! them.

use crate::mesh::handed_over::{FlushHop, Handover, Hosted};
use crate::placement::{Holder, LocalPlace};
use crate::session::ConnectionId;
use crate::session::connections::Connections;
use crate::shard::counters::Counters;
use core::time::Duration;
use evenkeel_types::{CacheletId, Epoch, Instant};
use std::collections::{BTreeMap, BTreeSet};

/// For how long after a cachelet was given away a `flush_all` reaches it at its new host, too: longer than
/// any two workers are apart in what they were asked by one client.
pub const FLUSH_REACH: Duration = Duration::from_secs(10);

/// How long an order to give a cachelet away waits until that is possible: leases of atomic writes end, and
/// workers follow an earlier move.
pub const ORDER_TIME: Duration = Duration::from_secs(5);

/// Why a cachelet was not given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotGiven {
    /// This worker does not host it, or it is to go where it is, or there is no such worker.
    NotPossible,
    /// Leases of its keys are not over, or workers have not followed its last move.
    NotYet,
}

/// A cachelet that has moved since the server holds it.
#[derive(Debug)]
pub(crate) struct Moved {
    pub(crate) stay: Epoch,
    /// No migration that began by this map or an older one is to come of it: anyone who had it before knew of them.
    pub(crate) no_orders_until: Epoch,
    pub(crate) moves: u32,
    pub(crate) host: u16,
    /// At the host: whose commands may still come by the former one.
    pub(crate) stragglers: BTreeSet<u16>,
    /// From when on this worker's connections wait for it.
    pub(crate) changing: Option<Instant>,
    /// It has moved on before this worker heard `Followed`.
    pub(crate) next: Option<Hosted>,
}

/// What a worker knows of cachelets that are not, or were not, at their home workers.
#[derive(Debug, Default)]
pub(crate) struct Handovers {
    pub(crate) moved: BTreeMap<CacheletId, Moved>,
    /// Of maps that this worker does not know yet.
    pub(crate) early: Vec<Hosted>,
    pub(crate) early_handovers: Vec<(u16, Box<Handover>)>,
    /// What is to be given away, to whom, and until when that is tried.
    pub(crate) orders: BTreeMap<CacheletId, (u16, Instant)>,
    pub(crate) next_try: Instant,
    /// What was given away lately, and when; each once.
    pub(crate) given: Vec<(Instant, CacheletId)>,
    /// The cachelet of this worker that nobody serves, because it passes to another server.
    pub passing: Option<CacheletId>,
    /// Connections of which a command waits.
    waiting: Vec<ConnectionId>,
}

impl Handovers {
    /// Who hosts a key, where its place may say [`Holder::Changing`].
    #[inline]
    pub fn host_of(&self, place: &LocalPlace) -> Holder {
        match place.holder() {
            Holder::Changing if self.passing != Some(place.cachelet) => {
                let moved = self.moved.get(&place.cachelet);
                moved.map_or(Holder::Changing, |moved| Holder::Worker(moved.host))
            }
            holder => holder,
        }
    }

    /// Whether no command is on its way by a cachelet's former host, as far as worker `me`, its host, knows.
    pub fn is_handed_over(&self, cachelet: CacheletId, me: u16) -> bool {
        let moved = self.moved.get(&cachelet);
        moved.is_none_or(|moved| moved.host == me && moved.stragglers.is_empty())
    }

    /// Whether a migration that began with that map may still be to be executed by this worker. Otherwise
    /// the worker that gave the cachelet to it knew already that nothing came of it.
    pub fn is_open(&self, cachelet: CacheletId, began: Epoch) -> bool {
        let moved = self.moved.get(&cachelet);
        moved.is_none_or(|moved| moved.no_orders_until < began)
    }

    /// A connection's command is about a cachelet that moves.
    #[cold]
    pub(crate) fn wait(&mut self, counters: &mut Counters, id: ConnectionId) {
        self.waiting.push(id);
        counters.commands_waited += 1;
    }

    /// Commands that waited are shown again.
    pub(crate) fn wake(&mut self, connections: &mut Connections) {
        for id in self.waiting.drain(..) {
            connections.touch(id);
        }
    }

    /// When an order should be looked at again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (!self.orders.is_empty()).then_some(self.next_try)
    }

    /// Whether a connection waits for a cachelet that moves.
    pub fn has_waiting(&self, id: ConnectionId) -> bool {
        self.waiting.last() == Some(&id)
    }

    /// The host of a cachelet that has moved to another worker than this one.
    pub(crate) fn host_elsewhere(&self, cachelet: CacheletId, me: u16) -> Option<u16> {
        let host = self.moved.get(&cachelet).map(|moved| moved.host);
        host.filter(|host| *host != me)
    }

    /// Who is to be told of a `flush_all`: the hosts, as far as known, of what was given away within [`FLUSH_REACH`].
    pub(crate) fn flush_hops(&self, now: Instant, me: u16) -> Vec<FlushHop> {
        let mut by_host: BTreeMap<u16, Vec<CacheletId>> = BTreeMap::new();
        let lately = self.given.iter();
        for &(_, cachelet) in lately.filter(|(at, _)| now.since(*at) < FLUSH_REACH) {
            if let Some(host) = self.host_elsewhere(cachelet, me) {
                by_host.entry(host).or_default().push(cachelet);
            }
        }
        let hop = |(host, cachelets)| FlushHop {
            by: me,
            host,
            cachelets,
        };
        by_host.into_iter().map(hop).collect()
    }
}
