//! Who has written what, so that everybody sees his own writes.
//!
//! A write whose answer tells its version, and whose value can be kept, is known to the client once it is answered, like an answer
//! that it has read: what is older is not shown to anyone who asks later, nor to who has written, who may have asked before the answer
//! came: his reads are judged when their turn comes, which is after the write's. So they need not go home. Of any other
//! write nobody knows what the copies lack. Behind it reads of its connection go home, on the connection on which the write went,
//! until the home has granted a lease to one of them, whose answer is known; and if it turns out only from its answer that a write is
//! such a one, what copies have answered meanwhile is asked again.
//! Of a key of which nothing is remembered nothing needs to be known: a lease comes with an answer that is newer.
//!
//! That is only right if no read is shown what its connection has written behind it. So a write of a key of which something is
//! remembered is sent when the reads that its connection has asked for before have been shown.
//!
//! A touch changes no version by which its reader could tell copies that have it. Behind it reads go home until a whole lease is granted.

use core::num::NonZeroU64;
use std::sync::Arc;

use evenkeel_types::{Epoch, KeyHash};

use super::answer::{Answer, Seen};
use super::marks::{note, pair_class};
use super::ticket::{Connection, WriteTicket};
use super::{ClientLeases, Mutant};

impl ClientLeases {
    /// Tells that a command that changes the expiry of a key and nothing else is about to be sent, or sent again, for a connection.
    pub fn touch_sent(&mut self, hash: KeyHash, writer: Connection) {
        let number = self.next_number();
        self.writes.touch(pair_class(hash, writer), number);
    }

    /// Tells that a connection writes, which gives the key another value or none. `can_tell`: the answer can
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
        Some(WriteTicket {
            number: NonZeroU64::new(self.next_number())?,
            class: class as u16,
            tells: can_tell && self.knows(hash),
        })
    }

    /// Tells that a write is about to be sent, or sent again: the reads before it have been shown. Those behind one that will not tell
    /// may as well go home at once.
    pub fn write_sent(&mut self, ticket: WriteTicket) {
        if !ticket.tells {
            let number = self.next_number();
            self.mark(ticket.class.into(), number);
        }
    }

    /// The home has executed a write and told what is there since: a hit, or a miss with a version. `len` and `value` are as for
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
                if !self.is(Mutant::WriteNotShown) {
                    note(&mut self.shown, ticket.class.into(), number);
                }
            }
            None => self.write_ended(hash, ticket),
        }
    }

    /// A write has come to an end that tells nothing: it was not asked to, it failed, or nobody knows what became of it.
    pub fn write_ended(&mut self, hash: KeyHash, ticket: WriteTicket) {
        if self.knows(hash) {
            let number = self.next_number();
            self.mark(ticket.class.into(), number);
        } else {
            self.void_class(hash);
        }
    }

    fn mark(&mut self, class: usize, number: u64) {
        if !self.is(Mutant::WriteUnmarked) {
            self.writes.mark(class, number);
        }
    }
}
