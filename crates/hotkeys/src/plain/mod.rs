//! Hot keys in front of servers that know nothing of leases: one proxy worker's side.
//!
//! A plain memcached cannot propagate a write, refuse an outdated one, or say that a copy is current.
//! Other proxies, and clients that use none, write the same keys. So nothing is built on what a server
//! or anybody else might do. Two ideas carry everything:
//!
//! - **Replicas never change.** A replica is stored under the name of its content, a hash of value and
//!   flags in front of the key ([`NamePrefix`]). No matter who wrote it, when it arrived, however long it
//!   was forgotten on a server that was cut off: what is found under a name is that content. Nothing has
//!   to be invalidated, fenced or ordered. What is no longer asked for expires
//!   ([`REPLICA_EXPTIME_SECS`]). Proxies share replicas without knowing of each other.
//! - **Only the home says which content a key has.** Its last answer to this worker is the key's *truth*
//!   here for one lease, counted from when the read was *sent*; then it is asked again.
//!
//! ```text
//!   read of a hot key ──> truth known, younger than a lease? ──no──> home: its answer is the truth
//!                              │ yes, content c                       │ and fills copies that lack it
//!                              ▼                                      ▼
//!                  the copy whose turn it is: get <c>:<key>     set <c>:<key>
//!                              └── not there: ask the home
//! ```
//!
//! Reads that show more than value and flags are answered by replicas as well: what else there is to show
//! is part of the truth (`truth.rs`).
//!
//! Places are those of SPORE: shadow server *i* of a key is found by renaming it
//! ([`plain_shadows`]); the γ + 1 copies are read by turns, as the worker's [`ClientLeases`] say.
//!
//! # What is promised, and why
//!
//! Writes go to the home alone, on the one connection that this worker has to it; so do the reads by
//! which it learns the truth. That connection answers in order. Hence what the home answers to this
//! worker about a key, in the order of arrival, is never older than what it answered before. Each such
//! answer has a number, which grows when the content may have changed.
//!
//! - **Nothing is staler than a lease.** A replica is read only for a truth whose read was sent less than
//!   a lease before. This is by the worker's own clock and holds against every writer, also one that
//!   uses no proxy.
//! - **Own writes are seen.** When a write of a key is sent, its truth is void, and an answer to a read
//!   that was not sent *after* that becomes no truth. Until one is, all reads of the key go to the home,
//!   behind the write.
//! - **No connection sees time run backwards.** The answer of a replica counts only if its content is the
//!   truth when it arrives, and then has the truth's number. What a connection is shown is compared by
//!   these numbers, as [`ClientLeases`] does with versions: an answer below one that was shown before is
//!   asked again at the home. So is every answer of a replica that does not count. An answer that does
//!   not say what the home holds ends the truth.
//! - **Shared answers.** A read that goes home may be answered with the answer to one that was asked before it, if no write of the key
//!   was sent since and that is less than a lease ago ([`PlainHotKeys::joins_asked_after`]). It comes behind all that the home has answered so far, and
//!   counts from when the first was asked.
//! - **Another home.** When servers come or go, all truths end, and numbers of reads sent before do not
//!   count.
//!
//! What is not promised: that two connections agree at every moment (they may be a lease apart), and that
//! a read which is asked again does not see a write that the same connection sent behind it without
//! waiting. `gat` changes the item and so is never asked again: behind a read that was, in one pipeline,
//! it can show the older value.
//!
//! [`ClientLeases`]: super::client::ClientLeases

mod config;
mod content;
mod finding;
mod reads;
#[cfg(test)]
mod tests;
mod truth;

use core::mem;
use core::time::Duration;

use evenkeel_types::limits::KEY_LEN_MAX;
use evenkeel_types::{Instant, KeyHash, Version};

pub use self::config::{COUNTERS, PlainConfig, PlainMode};
pub use self::content::{NAME_PREFIX_LEN, NamePrefix, REPLICA_VALUE_LEN_MAX};
pub use self::reads::ReadRoute;
use self::truth::Truth;
pub use self::truth::{Found, Recaching, Wants};
use super::client::LEASE_MARGIN_DIVISOR;
use super::config::{ConfigError, sampling_for};
use super::popularity::{SLOT, Sampler};
use super::sketch::TopKeys;
use super::ssm::Filter;
use evenkeel_placement::pool::Placement;
use evenkeel_placement::renaming::plain_shadows;

/// How long a replica lives that nobody stores again. Long enough that it is seldom stored again for
/// being old, short enough that ten contents of a key that is written every second are all there are.
pub const REPLICA_EXPTIME_SECS: u32 = 10;

/// A copy is stored again by anyone who stored it once half of its life is over, so that nobody misses it.
const REFILL_AFTER: Duration = Duration::from_secs(REPLICA_EXPTIME_SECS as u64 / 2);

/// How long a copy is left alone after its server failed it, and how long one question after an unknown
/// copy keeps others from asking the same.
const COPY_HOLD_OFF: Duration = Duration::from_secs(1);

/// Reads in a lease through one worker below which copies are of no use to it: it asks the home about twice in any case. A share
/// is the same in what each of many proxies sees, so that a key that is hot only in the sum of them is hot in each.
const READS_PER_LEASE_MIN: f64 = 10.0;

/// Longest key that is replicated: its replicas' names are keys, too.
pub const HOT_KEY_LEN_MAX: usize = KEY_LEN_MAX - NAME_PREFIX_LEN;

/// Where a read of a key should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The key is not replicated.
    Untracked,
    /// To the home, whose answer matters.
    Home,
    /// To any copy.
    Lease {
        /// Replicas besides what the home holds.
        gamma: u8,
        /// When the truth ends.
        until: Instant,
    },
}

/// A replica to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Position of the server.
    pub server: usize,
    /// Which of the key's copies it is.
    pub suffix: u8,
    /// What its name begins with.
    pub name: NamePrefix,
}

/// A key that stands out, for statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainHotKey {
    /// The key as it is stored.
    pub key: Vec<u8>,
    /// Reads per second, at least.
    pub reads_per_second: f64,
    /// Writes per second.
    pub writes_per_second: f64,
    /// Part of all reads of the pool that this worker sees.
    pub share: f64,
    /// Replicas besides what the home holds; 0 when it is not replicated.
    pub gamma: u8,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainStats {
    /// Reads counted by chance.
    pub reads_sampled: u64,
    /// Keys that became hot.
    pub promoted: u64,
    /// Keys that cooled.
    pub cooled: u64,
    /// Keys that were hot and not replicated because as many others were as may be, per slot.
    pub unpromoted_full: u64,
    /// The same because of [`HOT_KEY_LEN_MAX`].
    pub unpromoted_long: u64,
    /// Answers of the home that were longer than [`REPLICA_VALUE_LEN_MAX`].
    pub values_too_long: u64,
    /// Replicas stored.
    pub fills: u64,
}

/// The hot keys of one pool of plain servers in one worker.
#[derive(Debug)]
pub struct PlainHotKeys {
    /// For reads, and for writes.
    samplers: [Sampler; 2],
    filter: Filter,
    /// In ascending order of hash, each hash once.
    entries: Vec<Entry>,
    config: PlainConfig,
    sketch: TopKeys,
    /// Numbers given to answers of homes.
    numbers: u64,
    next_slot: Instant,
    stats: PlainStats,
}

/// A replicated key.
#[derive(Debug)]
struct Entry {
    hash: KeyHash,
    key: Vec<u8>,
    truth: Option<Truth>,
    /// Of the home's last answer, and so of the truth.
    number: Version,
    /// When the last write was sent, or the key became hot: writes before that are not known of. Only
    /// reads sent later can tell the truth.
    wrote_at: Instant,
    /// Whether this worker has written it since the home last said what it holds.
    is_own: bool,
    /// While the truth lasts, the home is not asked before this only to renew it: in classic commands,
    /// and in meta commands.
    renew_at: [Instant; 2],
    /// What the copies hold or lack.
    content: Option<NamePrefix>,
    /// By suffix less one.
    copies: Vec<Copy>,
}

/// A copy of an entry's content.
#[derive(Clone, Copy, Debug)]
struct Copy {
    /// Position of the server.
    server: usize,
    state: CopyState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyState {
    /// Somebody may have stored it. One read finds out.
    Unknown,
    /// That read is under way.
    Asked { until: Instant },
    /// A read found it.
    Found,
    /// To be stored with the home's next answer.
    Missing,
    /// Stored by this worker.
    Stored { at: Instant },
    /// The server is not to be trusted with it for now.
    Failed { until: Instant },
}

impl PlainHotKeys {
    /// The hot keys of a worker that starts now. The seed decides which reads are counted.
    ///
    /// # Errors
    ///
    /// See [`PlainConfig::validate`].
    pub fn new(config: PlainConfig, seed: u64, now: Instant) -> Result<Self, ConfigError> {
        config.validate()?;
        let samplers = [seed, !seed].map(|seed| {
            let mut sampler = Sampler::new(sampling_for(config.sampling, 0.0), seed);
            sampler.set_active(config.mode != PlainMode::Off);
            sampler
        });
        Ok(PlainHotKeys {
            samplers,
            filter: Filter::new(),
            entries: Vec::new(),
            sketch: TopKeys::new(COUNTERS),
            numbers: 0,
            next_slot: now + SLOT,
            stats: PlainStats::default(),
            config,
        })
    }

    /// The settings.
    pub fn config(&self) -> &PlainConfig {
        &self.config
    }

    /// Whether a key is certainly not replicated. A few instructions while none is.
    #[inline]
    pub fn passes(&self, key: &[u8]) -> bool {
        self.entries.is_empty() || !self.filter.may_hold(KeyHash::of(key))
    }

    /// Tells of a read of a key that copies could answer. A few instructions for most.
    #[inline]
    pub fn handle_read(&mut self, key: &[u8]) {
        if self.samplers[0].take() {
            self.count_read(key);
        }
    }

    #[inline(never)]
    fn count_read(&mut self, key: &[u8]) {
        self.stats.reads_sampled += 1;
        let weight = f64::from(self.samplers[0].weight());
        self.sketch.read(KeyHash::of(key), key, weight);
    }

    /// Tells that a write of a key, or anything else that changes its item, is about to be sent home. A
    /// few instructions for most while no key is replicated.
    #[inline]
    pub fn handle_write(&mut self, now: Instant, key: &[u8]) {
        if self.samplers[1].take() {
            let weight = f64::from(self.samplers[1].weight());
            self.sketch.write(KeyHash::of(key), key, weight);
        }
        if !self.passes(key)
            && let Some(entry) = self.entry(KeyHash::of(key), key)
        {
            entry.wrote_at = now;
            entry.is_own = true;
            entry.truth = None;
        }
    }

    /// Tells that a write to all keys is about to be sent.
    pub fn handle_flush(&mut self, now: Instant) {
        for entry in &mut self.entries {
            entry.wrote_at = now;
            entry.truth = None;
        }
    }

    /// Tells that keys may have another home from now on.
    pub fn forget_truths(&mut self) {
        for entry in &mut self.entries {
            entry.truth = None;
        }
    }

    /// Tells of other servers.
    pub fn handle_servers(&mut self, placement: &Placement) {
        for entry in &mut self.entries {
            let gamma = entry.copies.len() as u8;
            entry.truth = None;
            entry.copies = copies_at(plain_shadows(placement, &entry.key, gamma));
        }
        self.entries.retain(|entry| !entry.copies.is_empty());
        self.rebuild_filter();
    }

    /// Whether the key is replicated.
    #[inline]
    pub fn is_tracked(&self, hash: KeyHash, key: &[u8]) -> bool {
        self.filter.may_hold(hash) && self.position(hash, key).is_some()
    }

    /// Says where a read should go that copies can answer, and that shows what it `wants`.
    #[inline]
    pub fn plan(&mut self, now: Instant, hash: KeyHash, key: &[u8], wants: Wants) -> Plan {
        if !self.filter.may_hold(hash) {
            return Plan::Untracked;
        }
        let lease = self.lease();
        let Some(entry) = self.entry(hash, key) else {
            return Plan::Untracked;
        };
        let Some(since) = entry.truth.and_then(|truth| truth.since(wants)) else {
            return Plan::Home;
        };
        let until = since + lease;
        if now >= until {
            return Plan::Home;
        }
        let renew_at = &mut entry.renew_at[usize::from(wants.recaching)];
        if now >= since + lease / 2 && now >= *renew_at {
            *renew_at = now + lease / 4;
            return Plan::Home;
        }
        Plan::Lease {
            gamma: entry.copies.len() as u8,
            until,
        }
    }

    /// After which time a read of the home has to have been asked that may answer one that is asked now: its answer would be a truth that
    /// lasts. O(log keys).
    pub fn joins_asked_after(&self, now: Instant, hash: KeyHash) -> Instant {
        let wrote_at = self.at(hash).map(|at| self.entries[at].wrote_at);
        (now - self.lease()).max(wrote_at.unwrap_or(Instant(0)))
    }

    /// How long an answer of the home stands for it.
    #[inline]
    fn lease(&self) -> Duration {
        self.config.lease - self.config.lease / LEASE_MARGIN_DIVISOR
    }

    /// The replica to ask for, and the position of its server, when a read is to go to the copy of
    /// `suffix`; `None` when the home must be asked. Only while [`PlainHotKeys::plan`] says `Lease`.
    pub fn copy(&mut self, now: Instant, hash: KeyHash, suffix: u8) -> Option<(usize, NamePrefix)> {
        let at = self.at(hash)?;
        let entry = &mut self.entries[at];
        let content = entry.truth?.content;
        let copy = entry.copies.get_mut(usize::from(suffix).checked_sub(1)?)?;
        match copy.state {
            CopyState::Found | CopyState::Stored { .. } => {}
            CopyState::Asked { until } | CopyState::Failed { until } if now < until => return None,
            CopyState::Missing => return None,
            CopyState::Unknown | CopyState::Asked { .. } | CopyState::Failed { .. } => {
                copy.state = CopyState::Asked {
                    until: now + COPY_HOLD_OFF,
                };
            }
        }
        Some((copy.server, content))
    }

    /// Position of the server of a copy.
    pub fn server_of_copy(&self, hash: KeyHash, suffix: u8) -> Option<usize> {
        let copies = &self.entries[self.at(hash)?].copies;
        Some(copies.get(usize::from(suffix).checked_sub(1)?)?.server)
    }

    /// Tells that a replica was found under that name. Its number, and the CAS unique that the home gave
    /// to its content, if it counts for a read that shows what it `wants`.
    pub fn handle_copy_found(
        &mut self,
        hash: KeyHash,
        suffix: u8,
        name: &[u8],
        wants: Wants,
    ) -> Option<(Version, Option<Version>)> {
        let at = self.at(hash)?;
        let entry = &mut self.entries[at];
        let is_truth = |content: NamePrefix| content.as_bytes() == name;
        if entry.content.is_some_and(is_truth)
            && let Some(copy) = entry.copies.get_mut(usize::from(suffix).wrapping_sub(1))
            && matches!(copy.state, CopyState::Unknown | CopyState::Asked { .. })
        {
            copy.state = CopyState::Found;
        }
        let truth = entry.truth.filter(|truth| is_truth(truth.content))?;
        truth.since(wants)?;
        Some((entry.number, truth.cas))
    }

    /// Tells that a replica was not found that was asked for at that time.
    pub fn handle_copy_missing(
        &mut self,
        hash: KeyHash,
        suffix: u8,
        name: &[u8],
        sent_at: Instant,
    ) {
        let Some(at) = self.at(hash) else { return };
        let entry = &mut self.entries[at];
        let is_current = entry
            .content
            .is_some_and(|content| content.as_bytes() == name);
        if is_current
            && let Some(copy) = entry.copies.get_mut(usize::from(suffix).wrapping_sub(1))
            && !matches!(copy.state, CopyState::Stored { at } if sent_at <= at)
        {
            copy.state = CopyState::Missing;
        }
    }

    /// Tells that the server of a copy cannot be asked, or would not store it.
    pub fn handle_copy_failed(&mut self, now: Instant, hash: KeyHash, suffix: u8) {
        let Some(at) = self.at(hash) else { return };
        let copies = &mut self.entries[at].copies;
        if let Some(copy) = copies.get_mut(usize::from(suffix).wrapping_sub(1)) {
            copy.state = CopyState::Failed {
                until: now + COPY_HOLD_OFF,
            };
        }
    }

    /// Tells what the home has answered to a read of a key that is, or was, replicated, as soon as the
    /// answer arrives. `sent_at` is not later than when the read was sent; `is_current` is whether the
    /// key has had the same home ever since. The number of the answer.
    pub fn handle_home(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        sent_at: Instant,
        is_current: bool,
        found: Found<'_>,
    ) -> Version {
        self.numbers += 1;
        let next = Version(self.numbers);
        if matches!(found, Found::Value { value, .. } if value.len() > REPLICA_VALUE_LEN_MAX) {
            self.stats.values_too_long += 1;
        }
        let Some(entry) = self.entry(hash, key) else {
            return next;
        };
        let told = Truth::learned(found, sent_at, entry.truth.as_ref());
        let is_behind_writes = sent_at > entry.wrote_at;
        let Some(told) = told.filter(|_| is_current && is_behind_writes) else {
            entry.truth = None;
            entry.number = next;
            return next;
        };
        let content = told.content;
        // Nobody but a worker that has read it since can have stored what this one has just written.
        let unlooked = match mem::take(&mut entry.is_own) {
            true => CopyState::Missing,
            false => CopyState::Unknown,
        };
        match &mut entry.truth {
            Some(truth) if truth.agrees_with(&told) => truth.renew(&told),
            truth => {
                *truth = Some(told);
                entry.number = next;
            }
        }
        if entry.content != Some(content) {
            entry.content = Some(content);
            for copy in &mut entry.copies {
                if !matches!(copy.state, CopyState::Failed { .. }) {
                    copy.state = unlooked;
                }
            }
        }
        entry.number
    }

    /// Whether [`PlainHotKeys::poll_fill`] has something to say, right after the home has told a value.
    pub fn has_fill(&self, now: Instant, hash: KeyHash) -> bool {
        let at = self.at(hash).filter(|&at| self.entries[at].truth.is_some());
        at.is_some_and(|at| self.entries[at].copies.iter().any(|copy| copy.is_due(now)))
    }

    /// The next replica to store of the value that the home has just told. Call until `None`, right after
    /// [`PlainHotKeys::handle_home`] was given that value. It counts as stored at once: what is asked of its server from now
    /// on comes behind it.
    pub fn poll_fill(&mut self, now: Instant, hash: KeyHash) -> Option<Fill> {
        let at = self.at(hash)?;
        let entry = &mut self.entries[at];
        let name = entry.truth?.content;
        let i = entry.copies.iter().position(|copy| copy.is_due(now))?;
        entry.copies[i].state = CopyState::Stored { at: now };
        self.stats.fills += 1;
        Some(Fill {
            server: entry.copies[i].server,
            suffix: i as u8 + 1,
            name,
        })
    }

    /// When [`PlainHotKeys::handle_timeout`] should next be called.
    #[inline]
    pub fn poll_deadline(&self) -> Instant {
        self.next_slot
    }

    /// How many keys are replicated.
    pub fn replicated_count(&self) -> usize {
        self.entries.len()
    }

    /// What was counted since the last call.
    pub fn take_stats(&mut self) -> PlainStats {
        mem::take(&mut self.stats)
    }

    fn rebuild_filter(&mut self) {
        self.filter = Filter::new();
        for entry in &self.entries {
            self.filter.insert(entry.hash);
        }
    }

    #[inline]
    fn at(&self, hash: KeyHash) -> Option<usize> {
        let found = self.entries.binary_search_by_key(&hash, |entry| entry.hash);
        found.ok()
    }

    #[inline]
    fn position(&self, hash: KeyHash, key: &[u8]) -> Option<usize> {
        self.at(hash).filter(|&at| self.entries[at].key == key)
    }

    fn entry(&mut self, hash: KeyHash, key: &[u8]) -> Option<&mut Entry> {
        let at = self.position(hash, key)?;
        Some(&mut self.entries[at])
    }
}

impl Entry {
    fn new(now: Instant, hash: KeyHash, key: Vec<u8>, copies: Vec<Copy>) -> Self {
        Entry {
            hash,
            key,
            truth: None,
            number: Version(0),
            wrote_at: now,
            is_own: false,
            renew_at: [now; 2],
            content: None,
            copies,
        }
    }
}

impl Copy {
    /// Whether it is to be stored.
    fn is_due(&self, now: Instant) -> bool {
        match self.state {
            CopyState::Missing => true,
            CopyState::Stored { at } => now >= at + REFILL_AFTER,
            _ => false,
        }
    }
}

fn copies_at(servers: Vec<usize>) -> Vec<Copy> {
    let copies = servers.into_iter().map(|server| Copy {
        server,
        state: CopyState::Unknown,
    });
    copies.collect()
}
