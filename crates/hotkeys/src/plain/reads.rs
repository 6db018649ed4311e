//! A read of one application connection, from where it goes to what its answer counts.

use evenkeel_types::{Epoch, Instant, KeyHash, Version};

use super::{Found, NamePrefix, PlainHotKeys, Plan, Wants};
use crate::client::{Answer, ClientLeases, Connection, ReadTicket, Route};

/// Where a read goes.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadRoute {
    /// To the home, and nobody needs to be told of the answer.
    Ordinary,
    /// To the home; its answer is to be told to [`PlainHotKeys::answer_of_home`].
    Home(ReadTicket),
    /// To a replica; its answer is to be told to [`PlainHotKeys::answer_of_copy`].
    Copy {
        /// For the connection's leases.
        ticket: ReadTicket,
        /// Position of the server.
        server: usize,
        /// What the replica's name begins with; the key follows.
        name: NamePrefix,
    },
}

impl PlainHotKeys {
    /// Registers a read that is about to be sent and shows what it `wants`, and says where to. `epoch`
    /// changes with everything that can give a key another home. `load` tells how much the server at a
    /// position has to do; `None` if it cannot be asked. O(log keys).
    pub fn route_read(
        &mut self,
        (leases, load): (&mut ClientLeases, impl Fn(usize) -> Option<usize>),
        now: Instant,
        epoch: Epoch,
        (hash, key, reader): (KeyHash, &[u8], Connection),
        wants: Wants,
    ) -> ReadRoute {
        let (gamma, until) = match self.plan(now, hash, key, wants) {
            Plan::Untracked if !leases.knows(hash) => return ReadRoute::Ordinary,
            Plan::Untracked | Plan::Home => {
                return ReadRoute::Home(leases.home_read(now, epoch, (hash, reader)));
            }
            Plan::Lease { gamma, until } => (gamma, until),
        };
        leases.lend(now, epoch, hash, gamma, until);
        let ticket = leases.route_read(now, epoch, (hash, reader), |suffix| {
            load(self.server_of_copy(hash, suffix)?)
        });
        let Route::Shadow { suffix } = ticket.route() else {
            return ReadRoute::Home(ticket);
        };
        match self.copy(now, hash, suffix) {
            Some((server, name)) => ReadRoute::Copy {
                ticket,
                server,
                name,
            },
            None => ReadRoute::Home(ticket.sent_home()),
        }
    }

    /// The same for a read that only the home can answer.
    pub fn route_home_read(
        &mut self,
        leases: &mut ClientLeases,
        now: Instant,
        epoch: Epoch,
        (hash, key, reader): (KeyHash, &[u8], Connection),
    ) -> ReadRoute {
        if self.is_tracked(hash, key) || leases.knows(hash) {
            return ReadRoute::Home(leases.home_read(now, epoch, (hash, reader)));
        }
        ReadRoute::Ordinary
    }

    /// What an answer of the home counts, for [`ClientLeases::release`]. To be called as soon as it
    /// arrives; `is_current` says whether the key has had the same home since the read was sent.
    pub fn answer_of_home(
        &mut self,
        is_current: bool,
        ticket: &ReadTicket,
        key: &[u8],
        found: Found<'_>,
    ) -> Answer {
        let number = self.handle_home(ticket.hash(), key, ticket.sent_at(), is_current, found);
        match found {
            Found::Absent => Answer::Miss(Some(number)),
            Found::Value { .. } | Found::Unique { .. } | Found::Unknown => Answer::Hit(number),
        }
    }

    /// Tells that a replica cannot be asked for after all. The ticket is to be sent home.
    pub fn give_up_copy(&mut self, now: Instant, ticket: &ReadTicket) {
        if let Route::Shadow { suffix } = ticket.route() {
            self.handle_copy_failed(now, ticket.hash(), suffix);
        }
    }

    /// What an answer of a replica counts to a read that shows what it `wants`, and the CAS unique to
    /// show. The replica was found under that name or was not. To be called as soon as it arrives.
    pub fn answer_of_copy(
        &mut self,
        ticket: &ReadTicket,
        name: &[u8],
        is_found: bool,
        wants: Wants,
    ) -> (Answer, Option<Version>) {
        let Route::Shadow { suffix } = ticket.route() else {
            return (Answer::Failed, None);
        };
        if !is_found {
            self.handle_copy_missing(ticket.hash(), suffix, name, ticket.sent_at());
            return (Answer::Failed, None);
        }
        match self.handle_copy_found(ticket.hash(), suffix, name, wants) {
            Some((number, cas)) => (Answer::Hit(number), cas),
            None => (Answer::Failed, None),
        }
    }
}
