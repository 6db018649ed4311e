//! Multi-gets of which the application wants a part: this many of the keys, or what is there in time (Replicate and Bundle, section III-F).
//!
//! The request has a slot before those of its keys, whose answer is the last to be known: what came of it, where a pseudo key asked for that. So nothing of the
//! request is shown before its end.

use crate::ids::{BackendId, ClientId, PoolId, RouteId};
use crate::limits::LIMIT_ROUNDS_MAX;
use core::mem;
use core::ops::Range;
use evenkeel_types::Instant;
use std::collections::BTreeSet;

/// A request with a limit that is under way.
#[derive(Debug)]
pub(crate) struct Limited {
    /// The slot of its pseudo key. Those of its keys follow.
    pub first: u64,
    pub keys: usize,
    /// What the pseudo key says; empty for a limit of the route.
    pub said: Box<[u8]>,
    pub with_cas: bool,
    /// This many found keys are enough.
    pub wanted: usize,
    /// Keys that somebody was asked for, those of them whose answers are awaited, and those that were found.
    pub asked: usize,
    pub awaited: usize,
    pub found: usize,
    /// How often servers were asked.
    pub rounds: u8,
    /// Keys that nobody was asked for yet, and their bytes.
    rest: Vec<UnaskedKey>,
    bytes: Vec<u8>,
}

/// How much of what is left a round asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// As much as is wanted.
    Some,
    /// All, since all is wanted.
    All,
    /// All, since there is no further one.
    Last,
}

/// A key that nobody was asked for yet: of a list of servers, where it is distributed by its hash.
#[derive(Clone, Debug)]
pub(crate) struct UnaskedKey {
    pub slot: u64,
    pub pool: PoolId,
    pub to: BackendId,
    pub hash: u64,
    pub route: RouteId,
    at: Range<usize>,
}

impl Limited {
    pub fn new(first: u64, said: &[u8], with_cas: bool) -> Self {
        Limited {
            first,
            keys: 0,
            said: said.into(),
            with_cas,
            wanted: 0,
            asked: 0,
            awaited: 0,
            found: 0,
            rounds: 0,
            rest: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Another key has the next slot, and nobody was asked for it.
    pub fn add_unasked(&mut self, mut key: UnaskedKey, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        key.at = start..self.bytes.len();
        self.rest.push(key);
    }

    /// Whether a slot is that of one of its keys.
    pub fn has(&self, slot: u64) -> bool {
        (1..=self.keys as u64).contains(&slot.wrapping_sub(self.first))
    }

    /// The answer about one of its keys has come.
    pub fn heard(&mut self, is_hit: bool) {
        self.awaited = self.awaited.saturating_sub(1);
        self.found += usize::from(is_hit);
    }

    /// Whether it goes on: to its end, or with another round.
    pub fn is_ripe(&self) -> bool {
        self.awaited == 0 || self.found >= self.wanted
    }

    /// How many keys are to be found yet, if others may be asked for.
    pub fn wants_more(&self) -> Option<usize> {
        let missing = self.wanted.checked_sub(self.found)?;
        (missing > 0 && !self.rest.is_empty()).then_some(missing)
    }

    /// A round begins. The keys from which it chooses.
    pub fn begin_round(&mut self, missing: usize) -> (Vec<UnaskedKey>, Vec<u8>, Round) {
        self.rounds += 1;
        let round = match missing >= self.rest.len() {
            _ if self.rounds >= LIMIT_ROUNDS_MAX => Round::Last,
            true => Round::All,
            false => Round::Some,
        };
        (mem::take(&mut self.rest), mem::take(&mut self.bytes), round)
    }

    /// This many keys are being asked for, and these are left, whose bytes [come back](Self::keep_bytes) behind that.
    pub fn asking(&mut self, count: usize, rest: Vec<UnaskedKey>) {
        self.asked += count;
        self.awaited += count;
        self.rest = rest;
    }

    /// The bytes of all keys of a round are back.
    pub fn keep_bytes(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
    }

    /// What its pseudo key is answered, if there is one, where this many keys that somebody was asked for are unanswered.
    pub fn told(&self, late: usize) -> Vec<u8> {
        if self.said.is_empty() {
            return Vec::new();
        }
        let (asked, found, left) = (self.asked, self.found, self.left());
        let value = format!("asked={asked} found={found} left={left} late={late}");
        let mut told = b"VALUE ".to_vec();
        told.extend_from_slice(&self.said);
        let unique = if self.with_cas { " 0" } else { "" };
        told.extend_from_slice(format!(" 0 {}{unique}\r\n{value}\r\n", value.len()).as_bytes());
        told
    }

    /// How many keys nobody was asked for.
    pub fn left(&self) -> usize {
        self.rest.len()
    }
}

impl UnaskedKey {
    pub fn new(slot: u64, (pool, to): (PoolId, BackendId), hash: u64, route: RouteId) -> Self {
        UnaskedKey {
            slot,
            pool,
            to,
            hash,
            route,
            at: 0..0,
        }
    }

    pub fn of<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.at.clone()]
    }
}

/// Requests with a limit that are to go on: when their time is over, and those that have heard enough, or all that they asked for.
#[derive(Debug, Default)]
pub(crate) struct LimitedDue {
    /// By client and first slot.
    due: BTreeSet<(Instant, ClientId, u64)>,
    ripe: Vec<ClientId>,
}

impl LimitedDue {
    /// The time of one is over then. What has ended before stays here until then: no longer than [`LIMIT_MS_MAX`](crate::limits::LIMIT_MS_MAX).
    pub fn add(&mut self, at: Instant, (client, first): (ClientId, u64)) {
        self.due.insert((at, client, first));
    }

    /// Something of this client goes on.
    pub fn ripen(&mut self, client: ClientId) {
        self.ripe.push(client);
    }

    /// The first time that is to come.
    pub fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// The next one whose time is over.
    pub fn pop_due(&mut self, now: Instant) -> Option<(ClientId, u64)> {
        let (at, client, first) = *self.due.first()?;
        if at > now {
            return None;
        }
        self.due.pop_first();
        Some((client, first))
    }

    pub fn pop_ripe(&mut self) -> Option<ClientId> {
        self.ripe.pop()
    }
}
