//! What a client knows of one key: its lease, and what was shown of it.

use super::answer::{Answer, Seen};
use super::ticket::ReadTicket;
use evenkeel_types::{Instant, KeyHash};
use std::sync::Arc;

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Entry {
    pub hash: KeyHash,
    /// The lease is valid before this time.
    pub lease_until: Instant,
    /// Copies that may be read have all of before that time; [`UNKNOWN`] for a lease that was lent.
    pub as_of: Instant,
    /// Number of the last read that a lease was granted to.
    pub granted: u64,
    /// The same of a whole lease: copies have all of before.
    pub granted_whole: u64,
    /// The newest that was shown, or granted, while the entry existed.
    pub newest: Seen,
    /// When that was learned.
    pub learned: u64,
    /// When an answer of a replica, or one to a second question, was last shown. First answers of
    /// the home to reads sent before that may be older.
    pub overtaken: u64,
    /// Answers to reads sent before this cannot be compared with what was shown.
    pub fence: u64,
    /// The newest answer whose value could be kept.
    pub kept: Option<CachedAnswer>,
    /// Reads of the key sent while the entry existed and not yet released.
    pub in_flight: u32,
    /// Replicas besides the home's copy.
    pub gamma: u8,
    /// Whose turn is next: a suffix.
    pub turn: u8,
    /// Whether the home has given its last turn away.
    pub gave: bool,
}

/// An answer that is kept.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct CachedAnswer {
    pub seen: Seen,
    /// `Some` of a hit.
    pub value: Option<Arc<[u8]>>,
}

impl CachedAnswer {
    pub fn len(&self) -> usize {
        self.value.as_ref().map_or(0, |value| value.len())
    }
}

/// A lease that has ended.
pub(super) const NEVER: Instant = Instant(0);

/// Of a lease that was not granted by the home itself, nobody here knows how old it is.
pub(super) const UNKNOWN: Instant = Instant(u64::MAX);

impl Entry {
    pub fn new(hash: KeyHash) -> Self {
        Entry {
            hash,
            lease_until: NEVER,
            as_of: UNKNOWN,
            granted: 0,
            granted_whole: 0,
            newest: Seen::default(),
            learned: 0,
            overtaken: 0,
            fence: 0,
            kept: None,
            in_flight: 0,
            gamma: 0,
            turn: 0,
            gave: false,
        }
    }

    #[inline]
    pub fn is_leased(&self, now: Instant) -> bool {
        now < self.lease_until
    }

    /// Nothing would be lost with it.
    #[inline]
    pub fn is_over(&self, now: Instant) -> bool {
        self.in_flight == 0 && !self.is_leased(now)
    }

    /// Whether the first answer to a read may be older than what was shown, or is none.
    pub fn refuses(
        &self,
        ticket: &ReadTicket,
        answer: Answer,
        floor: Seen,
        is_older_map: bool,
        check: bool,
    ) -> bool {
        let is_uncomparable = is_older_map || ticket.number < self.fence;
        match answer {
            Answer::Miss(_) | Answer::Failed if ticket.suffix != 0 => true,
            Answer::Failed => false,
            _ if !check => false,
            _ if is_uncomparable => true,
            Answer::Hit(_) | Answer::Miss(Some(_)) => {
                Seen::of(answer).is_some_and(|seen| seen < floor)
            }
            Answer::Miss(None) => ticket.number < self.overtaken,
        }
    }

    pub fn learn(&mut self, seen: Seen, number: u64) {
        if seen > self.newest {
            (self.newest, self.learned) = (seen, number);
        }
    }

    /// Something was shown with which no answer to an earlier read can be compared. How many bytes were kept.
    pub fn cut(&mut self, number: u64) -> usize {
        let kept_len = self.kept_len();
        self.lease_until = NEVER;
        self.fence = number;
        self.kept = None;
        kept_len
    }

    /// Bytes of what is kept.
    pub fn kept_len(&self) -> usize {
        self.kept.as_ref().map_or(0, CachedAnswer::len)
    }

    /// What to show in the place of an answer that is older than the floor, if it is kept.
    pub fn kept_instead(
        &self,
        ticket: &ReadTicket,
        answer: Option<Seen>,
        floor: Seen,
        uncompared: bool,
    ) -> Option<CachedAnswer> {
        let kept = self.kept.as_ref()?;
        let is_older = answer.is_some_and(|seen| seen < floor);
        let is_enough = kept.seen >= floor || uncompared;
        let may_be_older = ticket.suffix != 0 || ticket.number < self.learned;
        let counts = !ticket.only_home
            && is_older
            && is_enough
            && may_be_older
            && ticket.number >= self.fence;
        // A copy has no misses of its own: that it has nothing says nothing of the key.
        let is_found = ticket.suffix == 0 || answer.is_some_and(|seen| !seen.is_miss);
        (counts && is_found).then(|| CachedAnswer {
            seen: kept.seen,
            value: kept.value.clone(),
        })
    }
}
