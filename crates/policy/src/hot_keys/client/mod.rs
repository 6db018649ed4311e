//! The client's side of hot keys: leases to read replicas, kept in the CSM cache.
//!
//! A *client* is one application connection. When its home server answers a read with γ > 0, the
//! client may, for one lease, read that key from a copy of its choice: it draws a suffix from 0 (the
//! home) to γ once and stays with it, so that clients spread over the copies while each of them sees
//! one copy only (SPORE, section 3.2). Without a valid lease every read goes home.
//!
//! # Why a client never sees time run backwards
//!
//! The home grants only while every copy is current, so a copy read under a fresh lease is at least
//! as new as anything the client had seen when it *sent* the read that carried the grant. That leaves
//! what the client learned or did *after* sending it, which pipelining makes possible:
//!
//! - **Own writes.** A grant is refused if the client sent any write since the granted read was sent,
//!   and a write to a key ends its lease. After a write, the reads go home, where they queue up behind
//!   it on the same connection.
//! - **Newer answers from the home.** Reads already on their way home when the lease began can see a
//!   write that the copies have not got yet. Each entry remembers the newest version shown to the
//!   client; an answer below it is not shown but asked again at the home, whose second answer is
//!   newer than everything shown before. The entry lives while such reads are in flight.
//! - **Answers without a version.** A miss at the home of a key that is not replicated any more says
//!   nothing that could be compared. So everything in flight behind it is asked again at the home,
//!   and so is such a miss itself if the client was shown a replica's answer or a second one after
//!   it was sent, since those can have been given later than it.
//! - **Another map.** Suffixes name other servers under another map, so a new epoch ends all leases
//!   and voids all grants under way. Another home server counts versions in another way, so answers
//!   to reads sent under an older map cannot be compared either and are asked again.
//!
//! All of this relies on answers being *released* to the application in the order of its requests:
//! [`ClientLeases::release`] is called for the read whose turn it is, not when its answer arrives.

#[cfg(test)]
mod tests;

use core::time::Duration;

use evenkeel_types::{Epoch, Instant, KeyHash, Version};

use crate::random::SplitMix64;

/// Most keys for which a client holds leases at once. Replicated keys are few (SPORE, section 3.7);
/// losing an entry only sends its reads home. Bounds a connection's CSM cache to 5 KiB.
pub const CSM_ENTRIES_MAX: usize = 128;

/// A lease ends early by this part of itself, for clocks that run at different speeds (at most
/// 200 ppm in practice) and for event loops that read the clock once a turn. The home server waits
/// longer by the same part.
pub const LEASE_MARGIN_DIVISOR: u32 = 20;

const _: () = assert!(CSM_ENTRIES_MAX * size_of::<Entry>() <= 5 * 1024);

/// Where to send a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the home server.
    Home,
    /// To the shadow server of this suffix (1..=γ), asking for its replica.
    Shadow {
        /// Which one; see [`shadow`](crate::placement::renaming::shadow).
        suffix: u8,
    },
}

/// What a read was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A value of this version.
    Hit(Version),
    /// No value; with the newest version that the home server has issued, if it said so.
    Miss(Option<Version>),
    /// No answer, or an error.
    Failed,
}

/// What to do with an answer.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Give it to the application.
    Show,
    /// Throw it away, ask the home server, and release the read again with its answer.
    AskHome(ReadTicket),
}

/// A read in flight. Must come back through [`ClientLeases::release`] or [`ClientLeases::abandon`]
/// unless the whole client goes away.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct ReadTicket {
    hash: KeyHash,
    /// Not later than the read was sent.
    sent_at: Instant,
    /// The map by which it was sent.
    epoch: Epoch,
    /// The client's count of barriers when the read was sent.
    barriers: u32,
    /// 0 for the home.
    suffix: u8,
    /// Whether the key's entry counts this read as in flight.
    counted: bool,
    /// Whether this is the second question, whose answer is final.
    asked_again: bool,
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

    /// What the leases belonged to when it was sent.
    #[inline]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
}

/// The CSM cache of one client. Allocates nothing until the first lease.
#[derive(Debug)]
pub struct ClientLeases {
    /// In ascending order of hash.
    entries: Vec<Entry>,
    random: SplitMix64,
    /// Epoch of the map that the leases belong to.
    epoch: Epoch,
    /// Counts what voids the grants under way: writes sent, and changes of the map.
    barriers: u32,
    #[cfg(test)]
    pub(crate) mutants: Vec<Mutant>,
}

#[derive(Debug)]
struct Entry {
    hash: KeyHash,
    /// The lease is valid before this time.
    lease_until: Instant,
    /// Newest version shown to the application while the entry existed; [`UNCOMPARABLE`] after an
    /// answer without one.
    newest_seen: Version,
    /// When an answer of a replica, or one to a second question, was last shown. First answers of
    /// the home to reads sent before that may be older.
    overtaken_at: Instant,
    /// Reads of the key sent while the entry existed and not yet released.
    in_flight: u32,
    /// The copy that the lease is for.
    suffix: u8,
}

/// Above every version: whatever is compared with it is asked again.
const UNCOMPARABLE: Version = Version(u64::MAX);

/// A lease that has ended.
const NEVER: Instant = Instant(0);

impl ClientLeases {
    /// A client without leases. The seed decides which copies it will choose.
    pub fn new(seed: u64) -> Self {
        ClientLeases {
            entries: Vec::new(),
            random: SplitMix64::new(seed),
            epoch: Epoch(0),
            barriers: 0,
            #[cfg(test)]
            mutants: Vec::new(),
        }
    }

    /// Registers a read that is about to be sent and says where to. O(log entries).
    ///
    /// `epoch` is that of the map by which the caller finds servers.
    #[inline]
    pub fn route_read(&mut self, now: Instant, epoch: Epoch, hash: KeyHash) -> ReadTicket {
        self.register(now, epoch, hash, false)
    }

    /// Registers a read that only the home server can answer: one with side effects, or one that
    /// asks for facts that replicas do not have. O(log entries).
    #[inline]
    pub fn home_read(&mut self, now: Instant, epoch: Epoch, hash: KeyHash) -> ReadTicket {
        self.register(now, epoch, hash, true)
    }

    /// Tells of γ > 0 in a home server's answer, as soon as the answer arrives. `lease` is the
    /// duration that the home server announced. Returns whether a lease began.
    pub fn grant(
        &mut self,
        now: Instant,
        epoch: Epoch,
        ticket: &ReadTicket,
        gamma: u8,
        lease: Duration,
    ) -> bool {
        self.observe(epoch);
        let voided = ticket.barriers != self.barriers && !self.is(Mutant::GrantPastWrites);
        if gamma == 0 || ticket.suffix != 0 || voided {
            return false;
        }
        let from = if self.is(Mutant::LeaseFromArrival) {
            now
        } else {
            ticket.sent_at
        };
        let lease_until = from + (lease - lease / LEASE_MARGIN_DIVISOR);
        self.begin(now, ticket.hash, gamma, lease_until)
    }

    /// Lends a key until a time to a client that has not asked the home server for it itself; see
    /// [`plain`](super::plain). A lease that the client has already stays as it is. Returns the copy
    /// that the client's lease is for, 0 for the home and without a lease.
    pub fn lend(
        &mut self,
        now: Instant,
        epoch: Epoch,
        hash: KeyHash,
        gamma: u8,
        lease_until: Instant,
    ) -> u8 {
        self.observe(epoch);
        self.begin(now, hash, gamma, lease_until);
        let entry = self.position(hash).ok().map(|i| &self.entries[i]);
        let leased = entry.filter(|entry| entry.is_leased(now));
        leased.map_or(0, |entry| entry.suffix)
    }

    /// Whether something is remembered of a key: a lease, or reads under way.
    pub fn knows(&self, hash: KeyHash) -> bool {
        self.position(hash).is_ok()
    }

    /// Begins a lease if the key has none. Returns whether one began.
    fn begin(&mut self, now: Instant, hash: KeyHash, gamma: u8, lease_until: Instant) -> bool {
        if lease_until <= now {
            return false;
        }
        let i = match self.position(hash) {
            Ok(i) => i,
            Err(i) => match self.make_room(i) {
                Some(i) => {
                    self.entries.insert(i, Entry::new(hash));
                    i
                }
                None => return false,
            },
        };
        let suffix = self.random.below(u64::from(gamma) + 1) as u8;
        let entry = &mut self.entries[i];
        if entry.is_leased(now) || entry.newest_seen == UNCOMPARABLE {
            return false;
        }
        entry.lease_until = lease_until;
        entry.suffix = suffix;
        true
    }

    /// Decides what to do with the answer to the read whose turn it is. O(log entries).
    pub fn release(
        &mut self,
        now: Instant,
        epoch: Epoch,
        ticket: ReadTicket,
        answer: Answer,
    ) -> Verdict {
        self.observe(epoch);
        let unusable = ticket.suffix != 0 && !matches!(answer, Answer::Hit(_));
        let Ok(i) = self.position(ticket.hash) else {
            // Every read of a shadow keeps its entry alive, so this one came from the home, and
            // there is nothing that it could contradict.
            debug_assert!(ticket.suffix == 0 && !ticket.counted);
            return Verdict::Show;
        };
        let check = !self.is(Mutant::ShowAnything);
        let entry = &mut self.entries[i];
        let outdated = match answer {
            // The second answer is final. A read that is not counted was sent when all that could
            // have overtaken it had been shown.
            _ if ticket.asked_again || !ticket.counted => false,
            _ if unusable => true,
            Answer::Failed => false,
            _ if ticket.epoch != epoch && check => true,
            Answer::Hit(version) | Answer::Miss(Some(version)) => {
                version < entry.newest_seen && check
            }
            Answer::Miss(None) => ticket.sent_at <= entry.overtaken_at && check,
        };
        if outdated {
            entry.lease_until = NEVER;
            return self.ask_home(now, ticket);
        }
        match answer {
            Answer::Hit(version) | Answer::Miss(Some(version)) if ticket.asked_again => {
                // Lower than before only if another home server counted it.
                entry.newest_seen = version;
            }
            Answer::Hit(version) | Answer::Miss(Some(version)) => {
                entry.newest_seen = entry.newest_seen.max(version);
            }
            Answer::Miss(None) => {
                entry.lease_until = NEVER;
                if check {
                    entry.newest_seen = UNCOMPARABLE;
                }
            }
            Answer::Failed => {}
        }
        if ticket.asked_again || ticket.suffix != 0 {
            entry.overtaken_at = now;
        }
        self.settle(now, i, &ticket);
        Verdict::Show
    }

    /// Gives up a read that the application gets no answer of a server for. O(log entries).
    pub fn abandon(&mut self, now: Instant, ticket: ReadTicket) {
        if let Ok(i) = self.position(ticket.hash) {
            self.settle(now, i, &ticket);
        }
    }

    /// Tells that a write to the key (anything but a plain read) is about to be sent.
    pub fn write_sent(&mut self, hash: KeyHash) {
        self.barriers = self.barriers.wrapping_add(1);
        if self.is(Mutant::WriteKeepsLease) {
            return;
        }
        if let Ok(i) = self.position(hash) {
            self.entries[i].lease_until = NEVER;
            if self.entries[i].in_flight == 0 {
                self.entries.remove(i);
            }
        }
    }

    /// Tells that a write to all keys (`flush_all`) is about to be sent.
    pub fn flush_sent(&mut self) {
        self.end_all_leases();
    }

    /// How many keys have an entry; for statistics.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no key has an entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn register(
        &mut self,
        now: Instant,
        epoch: Epoch,
        hash: KeyHash,
        home_only: bool,
    ) -> ReadTicket {
        self.observe(epoch);
        let mut ticket = ReadTicket {
            hash,
            sent_at: now,
            epoch,
            barriers: self.barriers,
            suffix: 0,
            counted: false,
            asked_again: false,
        };
        if self.entries.is_empty() {
            return ticket;
        }
        let Ok(i) = self.position(hash) else {
            return ticket;
        };
        let entry = &mut self.entries[i];
        if entry.is_over(now) {
            self.entries.remove(i);
            return ticket;
        }
        entry.in_flight += 1;
        ticket.counted = true;
        if entry.is_leased(now) && !home_only {
            ticket.suffix = entry.suffix;
        }
        ticket
    }

    fn ask_home(&self, now: Instant, ticket: ReadTicket) -> Verdict {
        Verdict::AskHome(ReadTicket {
            sent_at: now,
            epoch: self.epoch,
            barriers: self.barriers,
            suffix: 0,
            asked_again: true,
            ..ticket
        })
    }

    /// A read is no longer in flight.
    fn settle(&mut self, now: Instant, i: usize, ticket: &ReadTicket) {
        let entry = &mut self.entries[i];
        entry.in_flight -= u32::from(ticket.counted);
        if entry.is_over(now) {
            self.entries.remove(i);
        }
    }

    /// Suffixes mean other servers under another map.
    #[inline]
    fn observe(&mut self, epoch: Epoch) {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.end_all_leases();
        }
    }

    fn end_all_leases(&mut self) {
        self.barriers = self.barriers.wrapping_add(1);
        self.entries.retain_mut(|entry| {
            entry.lease_until = NEVER;
            entry.in_flight > 0
        });
    }

    #[inline]
    fn position(&self, hash: KeyHash) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&hash, |entry| entry.hash)
    }

    /// Where an entry can be inserted that belongs at `at`, after another was dropped if need be: of
    /// those without reads in flight the one whose lease ends first.
    fn make_room(&mut self, at: usize) -> Option<usize> {
        if self.entries.len() < CSM_ENTRIES_MAX {
            return Some(at);
        }
        let idle = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.in_flight == 0);
        let (victim, _) = idle.min_by_key(|(_, entry)| entry.lease_until)?;
        self.entries.remove(victim);
        Some(if victim < at { at - 1 } else { at })
    }

    #[cfg(test)]
    fn is(&self, mutant: Mutant) -> bool {
        self.mutants.contains(&mutant)
    }

    #[cfg(not(test))]
    #[inline(always)]
    fn is(&self, _: Mutant) -> bool {
        false
    }
}

impl Entry {
    fn new(hash: KeyHash) -> Self {
        Entry {
            hash,
            lease_until: NEVER,
            newest_seen: Version(0),
            overtaken_at: NEVER,
            in_flight: 0,
            suffix: 0,
        }
    }

    #[inline]
    fn is_leased(&self, now: Instant) -> bool {
        now < self.lease_until
    }

    /// Nothing would be lost with it.
    #[inline]
    fn is_over(&self, now: Instant) -> bool {
        self.in_flight == 0 && !self.is_leased(now)
    }
}

/// Ways to break the client on purpose, to see that the model's checks notice. Tests choose some;
/// elsewhere none is ever active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Accepts grants of reads sent before a write.
    GrantPastWrites,
    /// Counts a lease from the arrival of the grant.
    LeaseFromArrival,
    /// Shows every answer, whatever was shown before.
    ShowAnything,
    /// Keeps reading a replica after an own write.
    WriteKeepsLease,
}
