//! Who has written what, so that everybody sees his own writes.
//!
//! A write whose answer tells its version, and whose value can be kept, is known to the client like an answer that it has read: what
//! is older is not shown to whoever asks later. Until it is answered reads of whoever has written go home, on the connection on which
//! the write went; and behind writes that are not known then, until the home has granted a lease to a later read, whose answer is known.
//! Of a key of which nothing is remembered nothing needs to be known: a lease comes with an answer that is newer.
//!
//! A touch changes no version by which its reader could tell copies that have it. Behind it reads go home until a whole lease is granted.

use core::num::NonZeroU64;
use std::sync::Arc;

use evenkeel_types::{Epoch, KeyHash};

use super::entry::{Entry, Seen};
use super::{Answer, ClientLeases, Connection, Mutant, PAIR_CLASSES, WriteTicket, pair_class};

/// The writes of each class of connection and key. Classes are shared by chance, which costs reads at the home and nothing else.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// The number of the last write that is not known. Empty until there is one.
    marks: Vec<u64>,
    /// The number of the last touch. Empty until there is one.
    touches: Vec<u64>,
    /// How many are in flight that may become known. Empty until there is one.
    in_flight: Vec<u32>,
}

impl Writes {
    /// Whether a copy of the key may lack a write of the class, or a touch, without that being seen from its answer.
    #[inline]
    pub fn may_hide(&self, class: usize, entry: &Entry) -> bool {
        let is_past = |numbers: &[u64], granted| numbers.get(class).is_some_and(|&n| n > granted);
        self.in_flight.get(class).is_some_and(|&count| count > 0)
            || is_past(&self.marks, entry.granted)
            || is_past(&self.touches, entry.granted_whole)
    }

    fn begin(&mut self, class: usize) {
        if self.in_flight.is_empty() {
            self.in_flight = vec![0; PAIR_CLASSES];
        }
        self.in_flight[class] += 1;
    }

    fn end(&mut self, class: usize) {
        self.in_flight[class] -= 1;
    }

    #[cfg(test)]
    pub fn tables(&self) -> (&[u64], &[u32]) {
        (&self.marks, &self.in_flight)
    }

    #[cfg(test)]
    pub fn of_tables(marks: Vec<u64>, in_flight: Vec<u32>) -> Self {
        Writes {
            marks,
            touches: Vec::new(),
            in_flight,
        }
    }
}

impl ClientLeases {
    /// Tells that a command that changes the expiry of a key and nothing else is about to be sent, or sent again, for a connection.
    pub fn touch_sent(&mut self, hash: KeyHash, writer: Connection) {
        let number = self.next_number();
        note(&mut self.writes.touches, pair_class(hash, writer), number);
    }

    /// Tells that a write is about to be sent for a connection, which gives the key another value or none. `can_tell`: its answer can
    /// tell the version; see [`WriteTicket::tells`]. `None` for a client that is broken on purpose.
    pub fn write_begun(
        &mut self,
        hash: KeyHash,
        writer: Connection,
        can_tell: bool,
    ) -> Option<WriteTicket> {
        if self.is(Mutant::WriteKeepsLease) {
            return None;
        }
        let class = pair_class(hash, writer);
        self.writes.begin(class);
        Some(WriteTicket {
            number: NonZeroU64::new(self.next_number())?,
            class: class as u16,
            tells: can_tell && self.knows(hash),
        })
    }

    /// The home has carried a write out and told what is there since: a hit, or a miss with a version. `len` and `value` are as for
    /// [`ClientLeases::keep`].
    pub fn write_answered(
        &mut self,
        epoch: Epoch,
        (hash, ticket): (KeyHash, WriteTicket),
        answer: Answer,
        len: usize,
        value: impl FnOnce() -> Option<Arc<[u8]>>,
    ) {
        self.observe(epoch);
        let i = self.position(hash).ok();
        let known = i.zip(Seen::of(answer)).filter(|&(i, seen)| {
            let entry = &self.entries[i];
            // One that is older than what is known was overtaken, or its home has gone back.
            ticket.number.get() >= self.epoch_began.max(entry.fence) && seen >= entry.newest
        });
        let kept = known.filter(|&(i, seen)| self.keep_seen(i, seen, len, value));
        match kept {
            Some((i, seen)) => {
                let number = self.next_number();
                if !self.is(Mutant::WriteForgotten) {
                    self.entries[i].learn(seen, number);
                }
                self.writes.end(ticket.class.into());
            }
            None => self.write_ended(hash, ticket),
        }
    }

    /// A write has come to an end that tells nothing: it was not asked to, it failed, or nobody knows what became of it.
    pub fn write_ended(&mut self, hash: KeyHash, ticket: WriteTicket) {
        let class = ticket.class.into();
        self.writes.end(class);
        if !self.knows(hash) {
            self.void_class(hash);
        } else if !self.is(Mutant::WriteUnmarked) {
            let number = self.next_number();
            note(&mut self.writes.marks, class, number);
        }
    }
}

/// Notes the number of what was last done in a class.
fn note(numbers: &mut Vec<u64>, class: usize, number: u64) {
    if numbers.is_empty() {
        *numbers = vec![0; PAIR_CLASSES];
    }
    numbers[class] = number;
}
