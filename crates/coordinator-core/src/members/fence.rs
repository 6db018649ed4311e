//! Fencing: when it is certain that a server that is down serves nothing any more, so that others may
//! have its cachelets.
//!
//! Silence says nothing: the server may be stopped, or only the coordinator may not hear it. What a server may
//! do without the coordinator is in [`serving`]: it serves while it holds a lease,
//! from the coordinator or by votes of more than half of the servers that are up by *its* map. So a server
//! *X* that went down with map *F* has ceased to serve when
//!
//! 1. whichever map X may work by, this many of the servers that are up by that map have confirmed *F* (in which
//!    X is down), or a later map, that the others are too few to vote for X, and
//! 2. a lease and its margin have passed since then, and since the coordinator last answered X.
//!
//! For the first the coordinator remembers who was up by which maps: [`Electorates`], back to the oldest map
//! that a server that counts may work by. A server works by no map older than the last that it
//! has confirmed, nor by one older than its present life. Both outlive the coordinator, in its state. Where
//! that was forgotten, because X has missed more than [`ELECTORATES_MAX`] changes, X keeps its
//! cachelets until it is back.
//!
//! That also bounds how many are given up at a time: where half of the servers or more fall silent
//! together, not enough are left to confirm, and nothing moves. Then it is the coordinator that is cut
//! off, more likely than not, and the others vote for each other. Of two servers one may die.
//!
//! A server that ends by itself says so when its workers have stopped: that is certain at once.
//!
//! A coordinator that begins anew, or was asleep, begins to wait anew; and when it comes back after ten minutes,
//! those who went on by votes have a whole silence to report before they count as down.
//!
//! A life that was replaced under its name is taken to be over, as ever: anyone who starts a server elsewhere under
//! the same name has to see to it that the former process is dead.

use core::time::Duration;

use evenkeel_types::serving::{SERVING_LEASE, SERVING_LEASE_MARGIN};
use evenkeel_types::{Epoch, Instant};

/// From when everything is known that concerns a server's lease, until that lease is over.
const CEASED_AFTER: Duration = SERVING_LEASE.saturating_add(SERVING_LEASE_MARGIN);

/// What is known of whether a server serves when it is down.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    /// Its present life serves under leases only.
    pub(crate) leased: bool,
    /// Oldest map that its present life may work by.
    pub(crate) works_by_at_least: Epoch,
    /// Oldest map by which it may find votes: not older than that, and newer where it was refused before.
    pub(crate) votes_from: Epoch,
    /// It is down, and since then it finds no votes.
    refused_since: Option<Instant>,
    /// It is down and owns nothing any more.
    is_given_up: bool,
    /// Its process serves nothing any more, as it has said itself or an operator has.
    is_over: bool,
}

impl Fence {
    /// A new life, whose first map is this one or a later one.
    pub(crate) fn new(first: Epoch) -> Self {
        Fence::restore(first, first, false)
    }

    pub(crate) fn restore(works_by_at_least: Epoch, votes_from: Epoch, leased: bool) -> Self {
        Fence {
            leased,
            works_by_at_least,
            votes_from,
            refused_since: None,
            is_given_up: false,
            is_over: false,
        }
    }

    /// Its process has ended: it said so after its last answer to a client, or an operator says so.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }

    /// Notes what a heartbeat says of leases, and by which map its process works. Gives whether that map is newer than what was known.
    pub(crate) fn handle(&mut self, leased: bool, works_by: Epoch) -> bool {
        self.leased = leased;
        let is_news = works_by > self.works_by_at_least;
        if is_news {
            self.works_by_at_least = works_by;
            self.votes_from = self.votes_from.max(works_by);
        }
        is_news
    }

    /// Whether the cachelets of a server that is down can go to others once it has ceased to serve.
    pub(crate) fn may_be_given_up(&self) -> bool {
        (self.leased || self.is_over) && !self.is_given_up
    }

    /// Whether a server that is down, and was last heard of then, has ceased to serve for certain.
    pub(crate) fn has_ceased(&self, now: Instant, last_heard: Instant) -> bool {
        let over = |since: Instant| now.since(since) >= CEASED_AFTER;
        self.is_over || self.refused_since.is_some_and(over) && over(last_heard)
    }

    /// It finds no votes, now or already before.
    pub(crate) fn note_refused(&mut self, now: Instant) {
        self.refused_since.get_or_insert(now);
    }

    /// Whether it finds votes begins to be asked anew.
    pub(crate) fn forget_refusal(&mut self) {
        self.refused_since = None;
    }

    /// It owns nothing any more.
    pub(crate) fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// Whether it is known to have ended as it should.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// It has become the owner of a cachelet, perhaps after it went down.
    pub(crate) fn own_again(&mut self) {
        self.is_given_up = false;
    }

    /// The same life is heard of again; the map `next` will have it up. Those who refused it go on to, until
    /// it works by that map.
    pub(crate) fn come_back(&mut self, next: Epoch) {
        if self.refused_since.take().is_some() {
            self.votes_from = next;
        }
        self.is_over = false;
        self.own_again();
    }
}
