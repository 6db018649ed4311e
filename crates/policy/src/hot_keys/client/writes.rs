//! Who has written what, so that everybody sees his own writes.
//!
//! A write whose answer tells its version, and whose value can be kept, is known to the client like an answer that it has read: what
//! is older is not shown to whoever asks later. Until then, and behind all other writes until the home has granted a lease to a
//! later read, reads of whoever has written go home, on the connection on which the write went.

use core::num::NonZeroU64;
use std::sync::Arc;

use evenkeel_types::{Epoch, KeyHash, Version};

use super::entry::Seen;
use super::{ClientLeases, Connection, Mutant, PAIR_CLASSES, WriteTicket, pair_class};

/// The writes of each class of connection and key. Classes are shared by chance, which costs reads at the home and nothing else.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// The number of the last write that is not known. Empty until there is one.
    marks: Vec<u64>,
    /// How many are in flight that may become known. Empty until there is one.
    in_flight: Vec<u32>,
}

impl Writes {
    /// Whether copies that are as new as the answer to the read of this number may lack a write of the class.
    #[inline]
    pub fn may_hide(&self, class: usize, granted: u64) -> bool {
        self.in_flight.get(class).is_some_and(|&count| count > 0)
            || self.marks.get(class).is_some_and(|&mark| mark > granted)
    }

    fn mark(&mut self, class: usize, number: u64) {
        if self.marks.is_empty() {
            self.marks = vec![0; PAIR_CLASSES];
        }
        self.marks[class] = number;
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
        Writes { marks, in_flight }
    }
}

impl ClientLeases {
    /// Tells that a write to the key (anything but a plain read) is about to be sent, or sent again, for a
    /// connection, whose answer will say nothing.
    pub fn write_sent(&mut self, hash: KeyHash, writer: Connection) {
        if self.is(Mutant::WriteKeepsLease) {
            return;
        }
        let number = self.next_number();
        self.writes.mark(pair_class(hash, writer), number);
    }

    /// The same where the answer may tell the version of what was written. `None` if nothing is remembered of the key: then the
    /// answer need not tell, and [`ClientLeases::write_sent`] has been done.
    pub fn write_begun(&mut self, hash: KeyHash, writer: Connection) -> Option<WriteTicket> {
        if !self.knows(hash) || self.is(Mutant::WriteKeepsLease) {
            self.write_sent(hash, writer);
            return None;
        }
        let class = pair_class(hash, writer);
        self.writes.begin(class);
        Some(WriteTicket {
            number: NonZeroU64::new(self.next_number())?,
            class: class as u16,
        })
    }

    /// The home has carried a write out and said its version. `len` and `value` are as for [`ClientLeases::keep`].
    pub fn write_answered(
        &mut self,
        epoch: Epoch,
        (hash, ticket): (KeyHash, WriteTicket),
        version: Version,
        len: usize,
        value: impl FnOnce() -> Option<Arc<[u8]>>,
    ) {
        self.observe(epoch);
        let seen = Seen {
            version,
            is_miss: false,
        };
        let i = self.position(hash).ok();
        let known = i.filter(|&i| {
            let entry = &self.entries[i];
            // One that is older than what is known was overtaken, or its home has gone back.
            ticket.number.get() >= self.epoch_began.max(entry.fence) && seen >= entry.newest
        });
        let kept = known.filter(|&i| self.keep_seen(i, seen, len, value));
        match kept {
            Some(i) => {
                let number = self.next_number();
                if !self.is(Mutant::WriteForgotten) {
                    self.entries[i].learn(seen, number);
                }
                self.writes.end(ticket.class.into());
            }
            None => self.write_ended(ticket),
        }
    }

    /// A write has come to an end that tells nothing: it failed, or nobody knows what became of it.
    pub fn write_ended(&mut self, ticket: WriteTicket) {
        let (class, number) = (ticket.class.into(), self.next_number());
        self.writes.end(class);
        self.writes.mark(class, number);
    }
}
