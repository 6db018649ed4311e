//! Requests under way: where a read goes and whether its answer may be shown, and what is to come of a write.

use super::answer::{Answer, Seen};
use core::num::NonZeroU64;
use core::time::Duration;
use evenkeel_types::{Instant, KeyHash};
use std::sync::Arc;

/// An application connection of a client, by any number that no other has at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection(pub u64);

/// Where to send a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the home server.
    Home,
    /// To the shadow worker of this suffix (1..=γ), asking for its replica.
    Shadow {
        /// Which one; see [`shadows`](evenkeel_placement::renaming::shadows).
        suffix: u8,
    },
}

/// A lease, as the answer of a home told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Replicas besides the home's copy; 0 for no lease.
    pub gamma: u8,
    /// A whole lease of that home.
    pub lease: Duration,
    /// What is left of it, counted from when the read was sent.
    pub left: Duration,
}

impl Grant {
    /// A lease of which nothing is over.
    pub fn whole(gamma: u8, lease: Duration) -> Self {
        Grant {
            gamma,
            lease,
            left: lease,
        }
    }
}

/// What to do with an answer.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Give it to the application.
    Show,
    /// Give the application this instead, which is newer, with its value as it was
    /// [kept](super::ClientLeases::keep).
    ShowKept(Answer, Option<Arc<[u8]>>),
    /// Throw it away, ask the home server, and release the read again with its answer.
    AskHome(ReadTicket),
}

/// A read in flight. Must come back through [`ClientLeases::release`](super::ClientLeases::release) or [`ClientLeases::abandon`](super::ClientLeases::abandon),
/// also when its application has gone.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Clone, Hash))]
#[must_use]
pub struct ReadTicket {
    pub(super) hash: KeyHash,
    /// Not later than the read was sent.
    pub(super) sent_at: Instant,
    /// Its place in the order of what the client did.
    pub(super) number: u64,
    /// The newest that was known of the key when it was sent.
    pub(super) known: Seen,
    /// Of its connection and key.
    pub(super) class: u16,
    /// 0 for the home.
    pub(super) suffix: u8,
    /// Whether the key's entry counts this read as in flight.
    pub(super) counted: bool,
    /// Whether this is the second question, whose answer is final.
    pub(super) asked_again: bool,
    /// Whether the application asks for what is not kept.
    pub(super) only_home: bool,
    /// Whether it goes home because of a write of its connection.
    pub(super) behind_write: bool,
}

impl ReadTicket {
    /// Where the read goes.
    #[inline]
    pub fn route(&self) -> Route {
        match self.suffix {
            0 => Route::Home,
            suffix => Route::Shadow { suffix },
        }
    }

    /// The same read, sent home instead, because its copy cannot be asked.
    pub fn sent_home(self) -> ReadTicket {
        ReadTicket { suffix: 0, ..self }
    }

    /// The same read, not written to its connection before this time: it may have waited for that. What
    /// it brings counts from then.
    pub fn written(&mut self, at: Instant) {
        self.sent_at = self.sent_at.max(at);
    }

    /// The same read, answered by one that was asked then, which is what its answer counts from.
    pub fn shares(&mut self, asked: Instant) {
        self.sent_at = self.sent_at.min(asked);
    }

    /// Whether it goes home, although its key is leased, because its connection has written the key and copies may lack that.
    #[inline]
    pub fn is_behind_write(&self) -> bool {
        self.behind_write
    }

    /// The key's hash.
    #[inline]
    pub fn hash(&self) -> KeyHash {
        self.hash
    }

    /// Not later than the read was sent.
    #[inline]
    pub fn sent_at(&self) -> Instant {
        self.sent_at
    }
}

/// A write in flight. Must come back through
/// [`ClientLeases::write_answered`](super::ClientLeases::write_answered) or
/// [`ClientLeases::write_ended`](super::ClientLeases::write_ended).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
#[must_use]
pub struct WriteTicket {
    /// Its place in the order of what the client did. Not zero, so that an `Option` of this is no larger.
    pub(super) number: NonZeroU64,
    /// Of its connection and key.
    pub(super) class: u16,
    pub(super) tells: bool,
}

impl WriteTicket {
    /// Whether its answer should tell the version of the key, because something is remembered of that.
    #[inline]
    pub fn tells(&self) -> bool {
        self.tells
    }
}
