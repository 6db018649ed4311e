//! The client's side of hot keys: leases to read replicas, kept in the CSM cache.
//!
//! A *client* is one proxy worker, with all its application connections. When the home server
//! answers a read with γ > 0, the client may, for one lease, read that key from any of its γ + 1
//! copies. SPORE lets a client draw one copy and stay with it (section 3.2), which balances only
//! where clients are many, and leaves a proxy with 66 connections far from even. Here each read
//! chooses: the home and its shadow servers take turns, and a shadow server that has much to do gives
//! its turn to another. So the home still sees its share, one read in γ + 1, from which it concludes
//! how popular the key is, and by which the lease is renewed.
//!
//! # Why no application sees time run backwards
//!
//! Copies are not equally fast: in the middle of a write one has it and another has not. So the
//! client remembers for each leased key the newest version that it has *shown* to any connection. Each
//! read is compared with the newest that was known when it was sent; if anything of the key was shown to its
//! connection since then, with the newest that is known. In the place of an answer below that the newest value is shown that
//! the client was answered, which it keeps (`newest_value.rs`); where it is not kept, the home is asked again
//! (a *second question*, whose answer is final). Nothing is built on which copy was asked. What
//! follows is why that suffices.
//!
//! What others were shown since the read was sent does not matter: they read at the same time. To compare
//! with that, too, would be more than anybody was promised, and fatal: an answer waits for its turn behind
//! those of slower servers, and would be asked again of the slowest one for having waited.
//!
//! Everything that the client does has a *number*, in the order in which it does it. It has one
//! connection to each home, which is answered in order: what the home says later is newer. Answers
//! are released to an application in the order of its requests: [`ClientLeases::release`] is called
//! for the read whose turn it is, not when its answer arrives. So a read can be overtaken only by one
//! that is asked before it, is shown before it, and was answered from something newer: by a copy, or
//! by the home to a second question.
//!
//! - **Versions.** Such an answer was shown, so the key has an entry that knows its version, and
//!   keeps it while the lease lasts or any read is in flight that was sent while the entry existed.
//!   Each of these is compared when its turn comes: with what was known when it was sent, which is not older
//!   than anything shown before that; and else with what is known then, for it is remembered when a
//!   connection was shown anything of a key. One sent before there was an entry came from the home, and so
//!   did all that was sent before it.
//! - **A kept value** is the newest of all that were received, so that no answer that is shown later but was received earlier is
//!   newer. Once it is shown, it stands for an answer of a copy.
//! - **A second question** is sent when the read is the next to be shown. All that its connection was
//!   shown came from the home before that, so that the home's answer is at least as new.
//! - **A miss** is newer than the value of the same version. What expired or was evicted at its home
//!   is not found in a copy afterwards, and what was deleted has an older version than its miss.
//! - **A miss without a version** comes from a home that has no replicas of the key any more. Nothing
//!   can be compared with it, so it ends the lease, and whatever was sent before it was shown is asked
//!   again; so is such a miss itself, if since it was sent something was shown that may be newer.
//! - **Forgotten versions.** An entry is dropped when nothing is in flight that it concerns. From then
//!   on a lease must come from a read that was sent later, and the answer that brings it is remembered: the home's, hence not older
//!   than anything that was shown before that read.
//! - **Versions that go back.** An application can choose a version (`ms` with `E`). If the home says
//!   an older one to a second question than was known when it was sent, versions of the key say
//!   nothing, and what holds of a miss without one holds of that answer.
//! - **Another map.** Suffixes name other servers under another map, so a new epoch ends all leases
//!   and voids all grants under way. Another home server counts versions in another way, so first
//!   answers to reads sent under an older map are asked again, and second ones are not remembered.
//!
//! # Why applications see their own writes, and nothing older than a lease
//!
//! A write is sent when the reads of its key that its connection has asked for before have been shown ([`ClientLeases::knows`] says
//! for which keys that matters), so that none of them is shown what was written behind it. Once the answer to a write
//! ([`ClientLeases::write_begun`]) has told the version and what was stored is kept, it is as good as shown: whatever copy
//! is asked, nothing older is shown to anybody who asks later, nor to the writer's reads behind it, whose turn comes after its own. A
//! write of which that is not known sends its connection's reads home
//! until the home has granted a lease to a read *behind* it, whose answer is as good; reads of copies that are under way when that
//! turns out ask the home again when their turn comes. Grants of reads sent before a write was
//! answered of whose key nothing was remembered are void; what later ones bring has it. A touch ([`ClientLeases::touch_sent`])
//! changes no version: behind it the lease has to be a whole one, by which all copies have it. Others go on reading what they
//! may: a hot key is written, too, and if each write sent all its reads home until every copy has the new
//! value, a home with a long queue would never get rid of them. A `flush_all` ends all leases and voids
//! all grants of reads sent before it, for all.
//!
//! A lease counts from when the granted read was *sent*. While writes are on their way to the copies the home says how much of it is left
//! (see [`server`](super::server)): a copy can be behind by no more than the lease, and what is kept has replaced what the copy has.

mod answer;
#[cfg(test)]
mod canonical;
mod entry;
mod known;
mod marks;
mod newest_value;
#[cfg(test)]
mod tests;
mod ticket;
mod writes;

use core::time::Duration;

use evenkeel_types::{Epoch, Instant, KeyHash};

pub use answer::Answer;
#[cfg(test)]
pub(crate) use canonical::Canonical;
pub use known::Known;
pub use newest_value::{KEPT_BYTES_MAX, KEPT_VALUE_LEN_MAX};
pub use ticket::{Connection, Grant, ReadTicket, Route, Verdict, WriteTicket};

use answer::Seen;
use entry::{Entry, NEVER, UNKNOWN};

use crate::ages::Ages;
use evenkeel_types::random::SplitMix64;
use marks::{Writes, note, pair_class};

/// Most keys for which a client holds leases at once: those of sixteen workers that replicate as many
/// as they may. Losing an entry only sends its reads home, and is counted. Bounds the CSM cache of a
/// proxy worker to 128 KiB a pool, besides [`KEPT_BYTES_MAX`]; with what is remembered of writes and connections it is 232 KiB.
pub const CSM_ENTRIES_MAX: usize = 1024;

/// A lease ends early by this part of itself, for clocks that run at different speeds (at most
/// 200 ppm in practice) and for event loops that read the clock once a turn. The home server waits
/// longer by the same part.
pub const LEASE_MARGIN_DIVISOR: u32 = 20;

/// A home that is more burdened than a shadow server by this part gives turns away. By less two servers differ by chance.
const OVERBURDENED_DIVISOR: usize = 5;

/// Keys are written and forgotten in this many classes, by hash: a grant is refused because of any key
/// of its class. At 1,000 writes a second through one worker and a millisecond for an answer that is
/// one grant in a thousand.
const CLASSES: usize = 1024;

const _: () = assert!(CSM_ENTRIES_MAX * size_of::<Entry>() <= 128 << 10);

/// The CSM cache of one client for one pool.
#[derive(Debug)]
pub struct ClientLeases {
    /// In ascending order of hash.
    entries: Vec<Entry>,
    random: SplitMix64,
    /// Epoch of the map that the leases belong to.
    epoch: Epoch,
    /// Of the newest thing that the client did.
    number: u64,
    /// Reads with lower numbers were sent under an older map.
    epoch_began: u64,
    /// Grants for reads with lower numbers are void: the map changed, or everything was flushed.
    voided: u64,
    /// The same for keys of each class: one was written, or its entry dropped. Empty until one was.
    voided_in_class: Vec<u64>,
    /// Who may have written what copies do not have.
    writes: Writes,
    /// The number of what was last shown to each class of pairs, or written by it and known. Empty before the first lease.
    shown: Vec<u64>,
    /// Leases dropped or refused because too many were held, since this was last asked for.
    dropped: u64,
    /// Bytes of all kept values.
    kept_bytes: usize,
    /// How old leases were when replicas were asked under them.
    ages: Ages,
    #[cfg(test)]
    pub(crate) mutants: Vec<Mutant>,
}

impl ClientLeases {
    /// A client without leases. The seed decides among copies that have equally much to do.
    pub fn new(seed: u64) -> Self {
        ClientLeases {
            entries: Vec::new(),
            random: SplitMix64::new(seed),
            epoch: Epoch(0),
            number: 0,
            epoch_began: 0,
            voided: 0,
            voided_in_class: Vec::new(),
            writes: Writes::default(),
            shown: Vec::new(),
            dropped: 0,
            kept_bytes: 0,
            ages: Ages::default(),
            #[cfg(test)]
            mutants: Vec::new(),
        }
    }

    /// Registers a read that is about to be sent and says where to. O(log entries), and up to two
    /// calls of `load` under a lease.
    ///
    /// `epoch` is that of the map by which the caller finds servers. `load` tells how
    /// burdened the server of a copy is (see [`burden`](crate::burden)), in any measure, by the suffix of a shadow
    /// server or 0 for the home; `None` if it cannot be asked, or, of the home, is to keep its turns.
    #[inline]
    pub fn route_read(
        &mut self,
        now: Instant,
        epoch: Epoch,
        (hash, reader): (KeyHash, Connection),
        load: impl FnMut(u8) -> Option<usize>,
    ) -> ReadTicket {
        let (mut ticket, leased) = self.register(now, epoch, (hash, reader));
        if let Some(i) = leased {
            ticket.behind_write = self
                .writes
                .may_hide(pair_class(hash, reader), &self.entries[i]);
            if ticket.behind_write {
                return ticket;
            }
            ticket.suffix = self.choose(i, load);
            let as_of = self.entries[i].as_of;
            if ticket.suffix != 0 && as_of != UNKNOWN {
                self.ages.record(now.since(as_of));
            }
        }
        ticket
    }

    /// Registers a read that only the home server can answer: one with side effects, or one that
    /// asks for facts that replicas do not have. O(log entries).
    #[inline]
    pub fn home_read(
        &mut self,
        now: Instant,
        epoch: Epoch,
        (hash, reader): (KeyHash, Connection),
    ) -> ReadTicket {
        let (ticket, _) = self.register(now, epoch, (hash, reader));
        ReadTicket {
            only_home: true,
            ..ticket
        }
    }

    /// Tells of γ in a home server's answer, as soon as the answer arrives. Returns whether a lease began; one that there is goes on.
    pub fn grant(
        &mut self,
        now: Instant,
        epoch: Epoch,
        ticket: &ReadTicket,
        answer: Answer,
        grant: Grant,
    ) -> bool {
        self.observe(epoch);
        if grant.gamma == 0 || ticket.suffix != 0 || self.is_void(ticket) {
            return false;
        }
        let is_whole = grant.left >= grant.lease;
        if !is_whole && self.is(Mutant::OneCopy) {
            return false;
        }
        let from = if self.is(Mutant::LeaseFromArrival) {
            now
        } else {
            ticket.sent_at
        };
        let margin = match self.is(Mutant::WholeLease) {
            true => Duration::ZERO,
            false => grant.lease / LEASE_MARGIN_DIVISOR,
        };
        let left = grant.left.min(grant.lease);
        let lease_until = from + left.saturating_sub(margin);
        let granted = (ticket.number, is_whole);
        let lacks = grant.lease - left;
        let as_of = ticket.sent_at - lacks;
        let begun = self.begin(
            now,
            (ticket.hash, grant.gamma),
            lease_until,
            (granted, as_of),
        );
        let Some((i, began)) = begun else {
            return false;
        };
        let number = self.next_number();
        if let Some(seen) = Seen::of(answer) {
            self.entries[i].learn(seen, number);
        }
        began
    }

    /// Lends a key until a time to a client that need not ask the home server for it; see
    /// [`plain`](super::plain).
    pub fn lend(
        &mut self,
        now: Instant,
        epoch: Epoch,
        hash: KeyHash,
        gamma: u8,
        lease_until: Instant,
    ) {
        self.observe(epoch);
        let number = self.next_number();
        self.begin(now, (hash, gamma), lease_until, ((number, true), UNKNOWN));
    }

    /// Whether something is remembered of a key: a lease, or reads under way.
    #[inline]
    pub fn knows(&self, hash: KeyHash) -> bool {
        !self.entries.is_empty() && self.position(hash).is_ok()
    }

    /// Whether a read was sent under the map of this epoch, which is the present one.
    pub fn is_of(&mut self, epoch: Epoch, ticket: &ReadTicket) -> bool {
        self.observe(epoch);
        ticket.number > self.epoch_began
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
        let number = self.next_number();
        let is_older_map = ticket.number < self.epoch_began;
        let Ok(i) = self.position(ticket.hash) else {
            // Every read of a shadow keeps its entry alive, so this one came from the home, and
            // there is nothing that it could contradict.
            debug_assert!(ticket.suffix == 0 && !ticket.counted);
            return Verdict::Show;
        };
        let check = !self.is(Mutant::ShowAnything);
        let forgets = self.is(Mutant::NewestForgotten);
        let uncompared = self.is(Mutant::KeptUncompared);
        let entry = &mut self.entries[i];
        let seen = Seen::of(answer);
        let class = usize::from(ticket.class);
        let shown = self.shown.get(class).copied();
        let floor = match shown.is_some_and(|shown| shown > ticket.number) {
            true => entry.newest,
            false => ticket.known.min(entry.newest),
        };
        let is_final = ticket.asked_again || !ticket.counted;
        let may_lack_write =
            check && ticket.suffix != 0 && self.writes.is_marked_since(class, ticket.number);
        let kept = match is_final || is_older_map || may_lack_write || !check {
            true => None,
            false => entry.kept_instead(&ticket, seen, floor, uncompared),
        };
        let is_older = kept.is_some();
        let is_refused =
            may_lack_write || entry.refuses(&ticket, answer, floor, is_older_map, check);
        if !is_final && !is_older && is_refused {
            // A copy that was behind when it answered has caught up if a lease was asked for since.
            let is_behind = matches!(answer, Answer::Hit(_));
            if !may_lack_write
                && ticket.suffix != 0
                && (!is_behind || ticket.number > entry.granted)
            {
                entry.lease_until = NEVER;
            }
            return Verdict::AskHome(ReadTicket {
                sent_at: now,
                number,
                suffix: 0,
                asked_again: true,
                ..ticket
            });
        }
        let seen = kept.as_ref().map(|kept| kept.seen).or(seen);
        match seen {
            // Another home's count.
            Some(_) if is_older_map => {}
            // Versions go back: what was known is worth nothing.
            Some(seen)
                if seen < entry.newest && ticket.asked_again && ticket.number > entry.learned =>
            {
                (entry.newest, entry.learned) = (seen, number);
                self.kept_bytes -= entry.cut(number);
            }
            Some(seen) => entry.learn(seen, number),
            None if answer == Answer::Miss(None) && check => self.kept_bytes -= entry.cut(number),
            None => {}
        }
        if ticket.asked_again || ticket.suffix != 0 || is_older {
            entry.overtaken = number;
        }
        if forgets {
            entry.newest = Seen::default();
        }
        note(&mut self.shown, class, number);
        self.end_read(now, i, &ticket);
        match kept {
            None => Verdict::Show,
            Some(kept) => Verdict::ShowKept(kept.seen.answer(), kept.value),
        }
    }

    /// Gives up a read that the application gets no answer of a server for. O(log entries).
    pub fn abandon(&mut self, now: Instant, ticket: ReadTicket) {
        if let Ok(i) = self.position(ticket.hash) {
            self.end_read(now, i, &ticket);
        }
    }

    /// Tells that a write to the key is about to be sent, where it does not matter for whom: nobody reads a copy until there is a new
    /// lease.
    pub fn write_sent_by_any(&mut self, hash: KeyHash) {
        self.void_class(hash);
        if let Ok(i) = self.position(hash) {
            self.entries[i].lease_until = NEVER;
            if self.entries[i].in_flight == 0 {
                self.drop_entry(i);
            }
        }
    }

    /// Tells that a write to all keys (`flush_all`) is about to be sent.
    pub fn flush_sent(&mut self) {
        self.voided = self.next_number();
        self.end_all_leases();
    }

    /// For each read of a replica: how long before it was sent all copies are known to have been current, so that no value shown is
    /// staler than that.
    pub fn lease_ages(&self) -> &Ages {
        &self.ages
    }

    /// How many keys have an entry; for statistics.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no key has an entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Leases dropped or refused because [`CSM_ENTRIES_MAX`] were held, since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        core::mem::take(&mut self.dropped)
    }

    /// A ticket for a read, and the position of the entry if it has a lease.
    #[inline]
    fn register(
        &mut self,
        now: Instant,
        epoch: Epoch,
        (hash, reader): (KeyHash, Connection),
    ) -> (ReadTicket, Option<usize>) {
        self.observe(epoch);
        let mut ticket = ReadTicket {
            hash,
            sent_at: now,
            number: self.next_number(),
            known: Seen::default(),
            class: pair_class(hash, reader) as u16,
            suffix: 0,
            counted: false,
            asked_again: false,
            only_home: false,
            behind_write: false,
        };
        if self.entries.is_empty() {
            return (ticket, None);
        }
        let Ok(i) = self.position(hash) else {
            return (ticket, None);
        };
        if self.entries[i].is_over(now) {
            self.drop_entry(i);
            return (ticket, None);
        }
        let entry = &mut self.entries[i];
        entry.in_flight += 1;
        ticket.counted = true;
        ticket.known = entry.newest;
        (ticket, entry.is_leased(now).then_some(i))
    }

    /// The copy to read under a lease. The home and its shadow servers take turns, but of the shadow
    /// server whose turn it is and another one drawn by chance the one with less to do is read. A home that
    /// has clearly more to do than a shadow drawn by chance gives every other turn away: no more of them,
    /// because its answers bring leases and its reads tell it how popular the key is.
    fn choose(&mut self, i: usize, mut load: impl FnMut(u8) -> Option<usize>) -> u8 {
        let stays = self.is(Mutant::OneCopy);
        let entry = &mut self.entries[i];
        let gamma = entry.gamma;
        let turn = entry.turn.min(gamma);
        if stays {
            return turn;
        }
        entry.turn = if turn == gamma { 0 } else { turn + 1 };
        if turn == 0 {
            let may_give = !core::mem::replace(&mut entry.gave, false) && gamma > 0;
            let drawn = match may_give {
                true => 1 + self.random.below(u64::from(gamma)) as u8,
                false => return 0,
            };
            entry.gave = is_overburdened(load(0), load(drawn));
            return if entry.gave { drawn } else { 0 };
        }
        let first = load(turn);
        if gamma == 1 {
            return first.map_or(0, |_| turn);
        }
        let drawn = 1 + self.random.below(u64::from(gamma) - 1) as u8;
        let other = drawn + u8::from(drawn >= turn);
        match (first, load(other)) {
            (None, None) => 0,
            (Some(first), Some(second)) if second < first => other,
            (None, Some(_)) => other,
            (Some(_), _) => turn,
        }
    }

    /// Whether the grant for a read counts for nothing.
    fn is_void(&self, ticket: &ReadTicket) -> bool {
        let class = self.voided_in_class.get(class(ticket.hash));
        let voided = class.map_or(self.voided, |&number| number.max(self.voided));
        ticket.number < voided
    }

    /// Grants under way for keys of this class count for nothing.
    #[inline]
    fn void_class(&mut self, hash: KeyHash) {
        let number = self.next_number();
        if self.voided_in_class.is_empty() {
            self.voided_in_class = vec![0; CLASSES];
        }
        self.voided_in_class[class(hash)] = number;
    }

    /// Begins or prolongs a lease that the read of that number has brought, whole or not, by which the copies have all of before
    /// that time. The key's position, and whether it had no lease.
    fn begin(
        &mut self,
        now: Instant,
        (hash, gamma): (KeyHash, u8),
        lease_until: Instant,
        ((granted, is_whole), as_of): ((u64, bool), Instant),
    ) -> Option<(usize, bool)> {
        if lease_until <= now {
            return None;
        }
        let i = match self.position(hash) {
            Ok(i) => i,
            Err(i) => {
                let i = self.make_room(i)?;
                self.entries.insert(i, Entry::new(hash));
                i
            }
        };
        let began = !self.entries[i].is_leased(now);
        if began {
            // Clients and keys are not in step.
            self.entries[i].turn = self.random.below(u64::from(gamma) + 1) as u8;
        }
        let entry = &mut self.entries[i];
        if lease_until > entry.lease_until {
            (entry.lease_until, entry.gamma, entry.as_of) = (lease_until, gamma, as_of);
        }
        entry.granted = entry.granted.max(granted);
        if is_whole {
            entry.granted_whole = entry.granted_whole.max(granted);
        }
        Some((i, began))
    }

    /// A read is no longer in flight.
    fn end_read(&mut self, now: Instant, i: usize, ticket: &ReadTicket) {
        let entry = &mut self.entries[i];
        entry.in_flight -= u32::from(ticket.counted);
        if entry.is_over(now) {
            self.drop_entry(i);
        }
    }

    /// Forgets what was shown of a key.
    fn drop_entry(&mut self, i: usize) {
        let entry = self.entries.remove(i);
        self.kept_bytes -= entry.kept_len();
        self.void_class(entry.hash);
    }

    /// Suffixes mean other servers under another map.
    #[inline]
    fn observe(&mut self, epoch: Epoch) {
        if epoch != self.epoch {
            self.begin_epoch(epoch);
        }
    }

    #[inline(never)]
    fn begin_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.epoch_began = self.next_number();
        self.voided = self.epoch_began;
        self.end_all_leases();
        for entry in &mut self.entries {
            entry.newest = Seen::default();
        }
    }

    fn end_all_leases(&mut self) {
        self.entries.retain_mut(|entry| {
            entry.lease_until = NEVER;
            entry.kept = None;
            entry.in_flight > 0
        });
        self.kept_bytes = 0;
    }

    #[inline]
    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
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
        self.dropped += 1;
        let idle = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.in_flight == 0);
        let (victim, _) = idle.min_by_key(|(_, entry)| entry.lease_until)?;
        self.drop_entry(victim);
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

/// Whether the home has clearly more to do than that shadow server, if both are known.
#[inline]
fn is_overburdened(home: Option<usize>, shadow: Option<usize>) -> bool {
    let limit = |shadow: usize| shadow.saturating_add(shadow / OVERBURDENED_DIVISOR);
    home.zip(shadow)
        .is_some_and(|(home, shadow)| home > limit(shadow))
}

#[inline]
fn class(hash: KeyHash) -> usize {
    hash.0 as usize % CLASSES
}

/// Ways to break the client on purpose, to see that the model's checks notice. Tests choose some;
/// elsewhere none is ever active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Counts a lease from the arrival of the grant.
    LeaseFromArrival,
    /// Reads copies for the whole of a lease, as if all clocks ran alike.
    WholeLease,
    /// Shows every answer, whatever was shown before.
    ShowAnything,
    /// Forgets what was shown as soon as it was.
    NewestForgotten,
    /// Keeps reading replicas after an own write.
    WriteKeepsLease,
    /// Does not remember the version of an own write that is answered.
    WriteForgotten,
    /// Lets reads that were sent before an own write was answered be shown what is older.
    WriteNotShown,
    /// Does not remember an own write whose answer tells no version.
    WriteUnmarked,
    /// Shows what is kept although it is older than what was shown.
    KeptUncompared,
    /// Not wrong: reads the same copy of a key for a whole lease, and takes no other, as SPORE's clients do.
    OneCopy,
}
