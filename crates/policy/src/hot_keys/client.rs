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
//!   nothing that could be compared, so everything in flight behind it is asked again at the home.
//! - **Another map.** Suffixes name other servers under another map, so a new epoch ends all leases
//!   and voids all grants under way.
//!
//! All of this relies on answers being *released* to the application in the order of its requests:
//! [`ClientLeases::release`] is called for the read whose turn it is, not when its answer arrives.

use core::time::Duration;

use evenkeel_types::{Epoch, Instant, KeyHash, Version};

use crate::random::SplitMix64;

/// Most keys for which a client holds leases at once. Replicated keys are few (SPORE, section 3.7);
/// losing an entry only sends its reads home. Bounds a connection's CSM cache to 4 KiB.
pub const CSM_ENTRIES_MAX: usize = 128;

/// A lease ends early by this part of itself, for clocks that run at different speeds (at most
/// 200 ppm in practice) and for event loops that read the clock once a turn. The home server waits
/// longer by the same part.
pub const LEASE_MARGIN_DIVISOR: u32 = 20;

const _: () = assert!(CSM_ENTRIES_MAX * size_of::<Entry>() <= 4096);

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
    /// The client's write counter when the read was sent.
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
    pub(crate) mutant: Option<Mutant>,
}

#[derive(Debug)]
struct Entry {
    hash: KeyHash,
    /// The lease is valid before this time.
    lease_until: Instant,
    /// Newest version shown to the application while the entry existed; [`UNCOMPARABLE`] after an
    /// answer without one.
    newest_seen: Version,
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
            mutant: None,
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
        if lease_until <= now {
            return false;
        }
        let i = match self.position(ticket.hash) {
            Ok(i) => i,
            Err(i) => match self.make_room(i) {
                Some(i) => {
                    self.entries.insert(i, Entry::new(ticket.hash));
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
        match answer {
            _ if unusable => {
                entry.lease_until = NEVER;
                return self.ask_home(now, ticket);
            }
            Answer::Hit(version) | Answer::Miss(Some(version)) if ticket.asked_again => {
                // Final even if it is lower, which only another home server's counter can make it.
                entry.newest_seen = version;
            }
            Answer::Hit(version) | Answer::Miss(Some(version)) => {
                if version < entry.newest_seen && check {
                    entry.lease_until = NEVER;
                    return self.ask_home(now, ticket);
                }
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
        if epoch != self.epoch && !self.is(Mutant::LeaseOutlivesMap) {
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
        self.mutant == Some(mutant)
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

/// Ways to break the client on purpose, to see that the model's checks notice. Tests choose one;
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
    /// Keeps leases when the map changes.
    LeaseOutlivesMap,
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch(3);
    const LEASE: Duration = Duration::from_millis(1000);
    const KEY: KeyHash = KeyHash(42);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// A client that holds a lease for a shadow from 0 ms to 950 ms, nothing in flight.
    fn leased() -> ClientLeases {
        // The seed makes the first draw from 0..=255 a shadow.
        let mut client = ClientLeases::new(1);
        let read = client.route_read(at(0), EPOCH, KEY);
        assert_eq!(read.route(), Route::Home);
        assert!(client.grant(at(2), EPOCH, &read, 255, LEASE));
        assert_eq!(
            show(&mut client, at(2), read, Answer::Hit(Version(5))),
            Verdict::Show
        );
        client
    }

    fn show(client: &mut ClientLeases, now: Instant, read: ReadTicket, answer: Answer) -> Verdict {
        client.release(now, EPOCH, read, answer)
    }

    fn is_home(client: &mut ClientLeases, now: Instant) -> bool {
        let read = client.route_read(now, EPOCH, KEY);
        let home = read.route() == Route::Home;
        client.abandon(now, read);
        home
    }

    fn second(verdict: Verdict) -> ReadTicket {
        match verdict {
            Verdict::AskHome(ticket) => ticket,
            Verdict::Show => panic!("the answer was shown"),
        }
    }

    #[test]
    fn an_idle_client_is_small_and_allocates_nothing() {
        assert!(size_of::<ClientLeases>() < 100);
        assert!(size_of::<ReadTicket>() <= 24);
        let mut client = ClientLeases::new(1);
        let read = client.route_read(at(0), EPOCH, KEY);
        client.write_sent(KEY);
        assert_eq!(
            show(&mut client, at(1), read, Answer::Hit(Version(5))),
            Verdict::Show
        );
        assert_eq!(client.entries.capacity(), 0);
    }

    #[test]
    fn a_lease_sends_all_reads_to_one_shadow_until_it_ends() {
        let mut client = leased();
        let first = client.route_read(at(3), EPOCH, KEY);
        assert_ne!(first.route(), Route::Home);
        for ms in [4, 500, 949] {
            let read = client.route_read(at(ms), EPOCH, KEY);
            assert_eq!(read.route(), first.route());
            client.abandon(at(ms), read);
        }
        client.abandon(at(949), first);
        assert!(
            is_home(&mut client, at(950)),
            "the lease is counted from the read's sending"
        );
        assert!(client.is_empty());
    }

    #[test]
    fn suffixes_are_uniform_over_home_and_shadows() {
        let mut counts = [0u32; 4];
        for seed in 0..8000 {
            let mut client = ClientLeases::new(seed);
            let read = client.route_read(at(0), EPOCH, KEY);
            assert!(client.grant(at(0), EPOCH, &read, 3, LEASE));
            counts[usize::from(client.entries[0].suffix)] += 1;
            client.abandon(at(0), read);
        }
        assert!(
            counts.iter().all(|&n| (1800..2200).contains(&n)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_lease_for_the_home_copy_is_kept_so_that_the_choice_is_made_once() {
        let mut client = ClientLeases::new(1);
        let read = client.route_read(at(0), EPOCH, KEY);
        assert!(client.grant(at(0), EPOCH, &read, 1, LEASE));
        client.entries[0].suffix = 0;
        assert!(!client.grant(at(1), EPOCH, &read, 1, LEASE));
        assert_eq!(client.entries[0].suffix, 0);
        client.abandon(at(1), read);
    }

    #[test]
    fn gamma_zero_no_lease_and_leases_already_over_grant_nothing() {
        let mut client = ClientLeases::new(1);
        let read = client.route_read(at(0), EPOCH, KEY);
        assert!(!client.grant(at(1), EPOCH, &read, 0, LEASE));
        assert!(!client.grant(at(1), EPOCH, &read, 3, Duration::ZERO));
        assert!(
            !client.grant(at(950), EPOCH, &read, 3, LEASE),
            "the answer took a lease to come"
        );
        assert!(client.is_empty());
        client.abandon(at(950), read);
    }

    #[test]
    fn a_write_sent_after_the_read_voids_its_grant() {
        for flush in [false, true] {
            let mut client = ClientLeases::new(1);
            let read = client.route_read(at(0), EPOCH, KEY);
            if flush {
                client.flush_sent()
            } else {
                client.write_sent(KeyHash(7))
            }
            assert!(!client.grant(at(1), EPOCH, &read, 3, LEASE));
            client.abandon(at(1), read);
        }
    }

    #[test]
    fn an_own_write_ends_the_lease_of_its_key_only() {
        let mut client = leased();
        client.write_sent(KeyHash(7));
        assert!(!is_home(&mut client, at(10)));
        client.write_sent(KEY);
        assert!(is_home(&mut client, at(10)));
        assert!(client.is_empty());
    }

    #[test]
    fn a_flush_ends_every_lease() {
        let mut client = leased();
        client.flush_sent();
        assert!(is_home(&mut client, at(10)));
    }

    #[test]
    fn another_epoch_ends_every_lease_and_voids_grants_under_way() {
        let mut client = leased();
        let other = KeyHash(7);
        let read = client.route_read(at(10), EPOCH, other);
        let newer = Epoch(4);
        assert!(!client.grant(at(11), newer, &read, 3, LEASE));
        let again = client.route_read(at(12), newer, KEY);
        assert_eq!(again.route(), Route::Home);
        client.abandon(at(12), again);
        client.abandon(at(12), read);
    }

    #[test]
    fn a_miss_or_failure_at_a_shadow_ends_the_lease_and_asks_the_home() {
        for answer in [Answer::Miss(None), Answer::Failed] {
            let mut client = leased();
            let read = client.route_read(at(10), EPOCH, KEY);
            let again = second(show(&mut client, at(11), read, answer));
            assert_eq!(again.route(), Route::Home);
            assert!(is_home(&mut client, at(11)));
            assert_eq!(
                show(&mut client, at(12), again, Answer::Hit(Version(5))),
                Verdict::Show
            );
            assert!(client.is_empty());
        }
    }

    #[test]
    fn an_answer_older_than_one_shown_before_is_asked_again_once() {
        let mut client = leased();
        let home = client.home_read(at(10), EPOCH, KEY);
        assert_eq!(home.route(), Route::Home);
        let shadow = client.route_read(at(11), EPOCH, KEY);
        let behind = client.route_read(at(12), EPOCH, KEY);
        assert_eq!(
            show(&mut client, at(20), home, Answer::Hit(Version(6))),
            Verdict::Show
        );
        let again = second(show(&mut client, at(20), shadow, Answer::Hit(Version(5))));
        assert_eq!(
            show(&mut client, at(22), again, Answer::Hit(Version(8))),
            Verdict::Show
        );
        // The copy had caught up with 6 when it answered, but 8 has been shown since.
        let again = second(show(&mut client, at(22), behind, Answer::Hit(Version(6))));
        assert_eq!(
            show(&mut client, at(24), again, Answer::Hit(Version(8))),
            Verdict::Show
        );
        assert!(client.is_empty());
    }

    #[test]
    fn a_read_sent_before_the_lease_still_counts_as_seen() {
        let mut client = ClientLeases::new(1);
        let first = client.route_read(at(0), EPOCH, KEY);
        let second_home = client.route_read(at(0), EPOCH, KEY);
        assert!(client.grant(at(2), EPOCH, &first, 255, LEASE));
        let shadow = client.route_read(at(2), EPOCH, KEY);
        assert_ne!(shadow.route(), Route::Home);
        assert_eq!(
            show(&mut client, at(3), first, Answer::Hit(Version(5))),
            Verdict::Show
        );
        assert_eq!(
            show(&mut client, at(3), second_home, Answer::Hit(Version(6))),
            Verdict::Show
        );
        let again = second(show(&mut client, at(3), shadow, Answer::Hit(Version(5))));
        client.abandon(at(4), again);
    }

    #[test]
    fn a_miss_with_a_newer_version_outdates_the_replica() {
        let mut client = leased();
        let home = client.home_read(at(10), EPOCH, KEY);
        let shadow = client.route_read(at(10), EPOCH, KEY);
        assert_eq!(
            show(&mut client, at(11), home, Answer::Miss(Some(Version(9)))),
            Verdict::Show
        );
        let again = second(show(&mut client, at(11), shadow, Answer::Hit(Version(5))));
        assert_eq!(
            show(&mut client, at(12), again, Answer::Miss(Some(Version(9)))),
            Verdict::Show
        );
    }

    #[test]
    fn after_a_miss_without_a_version_everything_in_flight_is_asked_again() {
        let mut client = leased();
        let home = client.home_read(at(10), EPOCH, KEY);
        let shadow = client.route_read(at(10), EPOCH, KEY);
        assert_eq!(
            show(&mut client, at(11), home, Answer::Miss(None)),
            Verdict::Show
        );
        assert!(!client.grant(
            at(11),
            EPOCH,
            &ReadTicket {
                suffix: 0,
                ..ticket()
            },
            3,
            LEASE
        ));
        let again = second(show(&mut client, at(11), shadow, Answer::Hit(Version(5))));
        assert_eq!(
            show(&mut client, at(12), again, Answer::Miss(None)),
            Verdict::Show
        );
        assert!(client.is_empty());
    }

    fn ticket() -> ReadTicket {
        ReadTicket {
            hash: KEY,
            sent_at: at(10),
            barriers: 1,
            suffix: 0,
            counted: false,
            asked_again: false,
        }
    }

    #[test]
    fn versions_of_another_home_that_count_lower_are_accepted_from_the_second_answer_on() {
        let mut client = leased();
        let newer = Epoch(4);
        let held = client.route_read(at(10), EPOCH, KEY);
        let first = client.route_read(at(10), newer, KEY);
        let next = client.route_read(at(10), newer, KEY);
        assert_eq!(
            client.release(at(11), newer, held, Answer::Hit(Version(5))),
            Verdict::Show
        );
        let again = second(client.release(at(11), newer, first, Answer::Hit(Version(2))));
        let shown = client.release(at(12), newer, again, Answer::Hit(Version(3)));
        assert_eq!(shown, Verdict::Show);
        assert_eq!(
            client.release(at(12), newer, next, Answer::Hit(Version(3))),
            Verdict::Show
        );
        assert!(client.is_empty());
    }

    #[test]
    fn a_full_cache_drops_the_idle_lease_that_ends_first_and_never_one_in_use() {
        let mut client = ClientLeases::new(1);
        let lease = |client: &mut ClientLeases, hash: u64, ms: u64| {
            let read = client.route_read(at(ms), EPOCH, KeyHash(hash));
            let granted = client.grant(at(ms), EPOCH, &read, 3, LEASE);
            client.abandon(at(ms), read);
            granted
        };
        for i in 0..CSM_ENTRIES_MAX as u64 {
            assert!(lease(&mut client, 1000 - i, 500 - i));
        }
        assert!(lease(&mut client, 5000, 600));
        assert_eq!(client.len(), CSM_ENTRIES_MAX);
        let last = KeyHash(1000 - (CSM_ENTRIES_MAX as u64 - 1));
        assert!(client.position(last).is_err(), "it ended first");
        assert!(client.entries.is_sorted_by_key(|entry| entry.hash));
        let hashes: Vec<KeyHash> = client.entries.iter().map(|entry| entry.hash).collect();
        let held: Vec<ReadTicket> = hashes
            .iter()
            .map(|&hash| client.route_read(at(600), EPOCH, hash))
            .collect();
        assert!(held.iter().all(|read| read.counted));
        assert!(!lease(&mut client, 6000, 601), "all are in use");
        held.into_iter()
            .for_each(|read| client.abandon(at(601), read));
    }
}
