//! Fencing: when it is certain that a server that is down serves nothing any more, so that others may
//! have its cachelets.
//!
//! Silence says nothing: the server may be stopped, or only the coordinator may not hear it. What a server may
//! do without the coordinator is in [`serving`]: it serves while it holds a lease,
//! from the coordinator or by votes of more than half of the servers that are up by *its* map. So a server
//! *X* that went down with map *F* has ceased to serve when
//!
//! 1. whichever map X may work by, so many of the servers that are up by that map have confirmed *F* (in which
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
//! A life that was replaced under its name is taken to be over, as ever: whoever starts a server elsewhere under
//! the same name has to see to it that the former process is dead.

use core::time::Duration;
use std::collections::VecDeque;

use evenkeel_types::serving::{self, SERVING_LEASE, SERVING_LEASE_MARGIN};
use evenkeel_types::{CacheletId, Epoch, Instant, ServerId};
use serde::{Deserialize, Serialize};

use super::event::Cause;
use super::limits::{ELECTORATES_MAX, FENCE_HURRY};
use super::members::Server;
use super::migrating::MigrationEnd;
use super::placing::Slot;
use super::{Change, CoordinatorCore};
use evenkeel_control::Heartbeat;

/// From when everything is known that bears on a server's lease, until that lease is over.
const CEASED_AFTER: Duration = SERVING_LEASE.saturating_add(SERVING_LEASE_MARGIN);

/// What is known of whether a server serves when it is down.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    /// Its present life serves under leases only.
    pub(super) leased: bool,
    /// Oldest map that its present life may work by.
    pub(super) works_by_at_least: Epoch,
    /// Oldest map by which it may find votes: not older than that, and newer where it was refused before.
    pub(super) votes_from: Epoch,
    /// It is down, and since then it finds no votes.
    refused_since: Option<Instant>,
    /// It is down and owns nothing any more.
    is_given_up: bool,
    /// Its process serves nothing any more, as it has said itself or an operator has.
    is_over: bool,
}

impl Fence {
    /// A new life, whose first map is this one or a later one.
    pub(super) fn new(first: Epoch) -> Self {
        Fence::restore(first, first, false)
    }

    pub(super) fn restore(works_by_at_least: Epoch, votes_from: Epoch, leased: bool) -> Self {
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
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// Whether it is known to have ended as it should.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// It has become the owner of a cachelet, perhaps after it went down.
    pub(super) fn own_again(&mut self) {
        self.is_given_up = false;
    }

    /// The same life is heard of again; the map `next` will have it up. Those who refused it go on to, until
    /// it works by that map.
    pub(super) fn come_back(&mut self, next: Epoch) {
        if self.refused_since.take().is_some() {
            self.votes_from = next;
        }
        self.is_over = false;
        self.own_again();
    }
}

/// The servers that are up by a map, and by all that follow until there is another such list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Electorate {
    /// The first map.
    pub from: Epoch,
    /// Who is up, ascending.
    pub servers: Vec<ServerId>,
}

/// Who was up by which maps, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Electorates(VecDeque<Electorate>);

impl Electorates {
    pub(super) fn restore(saved: Vec<Electorate>) -> Self {
        Electorates(saved.into())
    }

    pub(super) fn saved(&self) -> Vec<Electorate> {
        self.0.iter().cloned().collect()
    }

    /// Those who are up by the map `from`, which is the newest.
    fn note(&mut self, from: Epoch, servers: Vec<ServerId>) {
        if self
            .0
            .back()
            .is_some_and(|newest| newest.servers == servers)
        {
            return;
        }
        if self.0.len() == ELECTORATES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Electorate { from, servers });
    }

    /// Nobody that counts works by an older map.
    fn forget_before(&mut self, oldest: Epoch) {
        while self.0.get(1).is_some_and(|second| second.from <= oldest) {
            self.0.pop_front();
        }
    }

    /// Whether a server is in any of them. O(changes · log servers).
    pub(super) fn name(&self, server: ServerId) -> bool {
        let mut lists = self.0.iter();
        lists.any(|list| list.servers.binary_search(&server).is_ok())
    }

    /// Those that a server may go by that works by `oldest` or a later map; `None` where that was forgotten.
    fn since(&self, oldest: Epoch) -> Option<impl Iterator<Item = &Electorate>> {
        let covering = self.0.iter().rposition(|it| it.from <= oldest)?;
        Some(self.0.range(covering..))
    }
}

impl Server {
    /// Whether the server is down, and its cachelets can go to others once it has ceased to serve.
    fn may_be_given_up(&self) -> bool {
        let can_cease = self.fence.leased || self.fence.is_over;
        !self.entry.up && can_cease && !self.fence.is_given_up
    }

    /// Whether the server is down and has ceased to serve for certain.
    pub(super) fn has_ceased(&self, now: Instant) -> bool {
        let over = |since: Instant| now.since(since) >= CEASED_AFTER;
        let finds_no_votes = || self.fence.refused_since.is_some_and(over) && over(self.last_heard);
        !self.entry.up && (self.fence.is_over || finds_no_votes())
    }
}

impl CoordinatorCore {
    /// Notes what a server's heartbeat says of its leases.
    pub(super) fn hear_of_leases(&mut self, position: usize, heartbeat: &Heartbeat) {
        let fence = &mut self.servers[position].fence;
        fence.leased = heartbeat.leased;
        if heartbeat.epoch > fence.works_by_at_least {
            fence.works_by_at_least = heartbeat.epoch;
            fence.votes_from = fence.votes_from.max(heartbeat.epoch);
            self.has_refusal_news = true;
        }
    }

    /// Remembers who is up by the map that is being made. O(servers + cachelets).
    pub(super) fn note_electorate(&mut self) {
        let up = self.servers.iter().filter(|server| server.entry.up);
        let up = up.map(|server| server.entry.id).collect();
        self.electorates.note(self.epoch, up);
        self.has_refusal_news = true;
        let mut has_cachelets = vec![false; self.servers.len()];
        for slot in &self.slots {
            // Whom a cachelet waits for that is to get another owner counts like an owner.
            let concerned = match slot {
                Slot::Owned(owner) => [Some(owner.server), None],
                Slot::Moving(moving) => [moving.from, moving.to].map(|end| Some(end.server)),
                Slot::Released { by, .. } | Slot::Quarantined { by, .. } => [Some(*by), None],
            };
            for server in concerned.into_iter().flatten() {
                has_cachelets[usize::from(server.0)] = true;
            }
        }
        // Who is down and concerned with nothing is asked about by nobody.
        let counts = (self.servers.iter().zip(has_cachelets))
            .filter(|(server, has)| server.entry.up || (*has && server.fence.leased));
        if let Some(oldest) = counts.map(|(server, _)| server.fence.votes_from).min() {
            self.electorates.forget_before(oldest);
        }
    }

    /// Everything about silence begins anew.
    pub(super) fn forget_fences(&mut self) {
        for server in &mut self.servers {
            server.fence.refused_since = None;
        }
        self.has_refusal_news = true;
    }

    /// Whether members should report soon, because a server went down lately that may be given up.
    pub(super) fn is_fencing(&self, now: Instant) -> bool {
        let within = self.config.silent + FENCE_HURRY;
        let mut late = self
            .servers
            .iter()
            .filter(|server| server.may_be_given_up());
        late.any(|server| now.since(server.last_heard) < within)
    }

    /// Takes the cachelets from servers that have ceased to serve, if there is anybody to give them to.
    pub(super) fn give_up_ceased(&mut self, now: Instant, changes: &mut Vec<Change>) {
        let down = self
            .servers
            .iter()
            .filter(|server| server.may_be_given_up());
        let down: Vec<ServerId> = down.map(|server| server.entry.id).collect();
        let takes = |server: &Server| server.entry.up && server.drain.is_none();
        if down.is_empty() || !self.servers.iter().any(takes) {
            return;
        }
        let has_news = core::mem::take(&mut self.has_refusal_news);
        let (next, silent) = (self.next_epoch(), self.config.silent);
        for id in down {
            let is_refused = has_news && self.is_refused(id);
            let server = &mut self.servers[usize::from(id.0)];
            if is_refused && server.fence.refused_since.is_none() {
                server.fence.refused_since = Some(now);
            }
            let is_silent = now.since(server.last_heard) >= silent;
            if !server.has_ceased(now) || !(server.fence.is_over || is_silent) {
                continue;
            }
            server.fence.is_given_up = true;
            let suspects = self.note_death(now, id);
            let mut given_up = 0;
            for position in 0..self.slots.len() {
                if self.slots[position]
                    .owner()
                    .is_none_or(|owner| owner.server != id)
                {
                    continue;
                }
                given_up += 1;
                match self.slots[position] {
                    // The target may have been told that the cachelet is its own.
                    // CACHELETS_MAX positions fit u16.
                    Slot::Moving(_) => {
                        let cachelet = CacheletId(position as u16);
                        self.end(now, cachelet, MigrationEnd::SourceLost, changes);
                    }
                    _ => {
                        self.slots[position] = Slot::Released {
                            by: id,
                            epoch: next,
                        }
                    }
                }
            }
            if given_up > 0 {
                changes.push(Change {
                    cachelets: given_up,
                    ..Change::of_server(Cause::ServerFenced, id)
                });
            }
            self.withhold(&suspects, changes);
        }
    }

    /// Whether a server that is down finds too few voters, whichever map it may work by. Once true it stays
    /// so, until the server is heard of. O(servers) for each change of who is up that it may have missed.
    fn is_refused(&self, id: ServerId) -> bool {
        let server = &self.servers[usize::from(id.0)];
        let refuses = |other: &ServerId| {
            let fence = &self.servers[usize::from(other.0)].fence;
            fence.works_by_at_least >= server.entry.since
        };
        let Some(may_go_by) = self.electorates.since(server.fence.votes_from) else {
            return false;
        };
        may_go_by
            .filter(|electorate| electorate.servers.binary_search(&id).is_ok())
            .all(|electorate| {
                let others = electorate.servers.iter().filter(|other| **other != id);
                let refusing = others.clone().filter(|other| refuses(other)).count();
                serving::would_refuse(others.count(), refusing)
            })
    }
}
