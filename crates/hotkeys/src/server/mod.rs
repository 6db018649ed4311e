//! The server's side of hot keys: finds the popular keys of one worker, keeps their replicas current
//! and decides who may read them. See [`state`](super::state) for the states.
//!
//! # Why no client reads what is more than a lease old
//!
//! γ is told only when every shadow worker has confirmed some value. Each has all changes, then, but those since a time that is
//! known: when the oldest write was executed that it has not confirmed. The lease ends within its length of the earliest of these
//! times; of that time, or of the grant where no copy lacks anything. Whatever a copy serves until then was replaced later than that,
//! whatever happens to it afterwards: a write that it never hears of, a connection that breaks, the death of this server.
//!
//! How much of the lease is left is told by this server's clock, and counted from when the read was sent, by the client's. So the clock
//! must have been read after the read arrived; see [`HotKeys::wants_clock`].
//!
//! Nobody but a client with a lease reads a replica. Hence, once the last lease is over, replicas may
//! be left behind anywhere; they are removed for tidiness, not for safety. A new promotion of the key
//! waits until each of its shadow workers has confirmed the present value over what they may still
//! hold. With [`Consistency::Atomic`](evenkeel_types::promise::Consistency) more is promised, and
//! `atomic.rs` says why that holds.
//!
//! # How the caller uses it
//!
//! It tells of every read, write, map and confirmation, and calls [`HotKeys::poll_output`] until
//! `None` before it answers anybody anew. For [`Output::Store`] it sends the item *as it is then*.
//! Confirmations may come in any order; a connection that breaks is reported before the next one to
//! the same worker carries anything.

mod atomic;
mod chosen;
#[cfg(test)]
mod digest;
mod former;
mod hosts;
mod moves;
mod observe;
mod quiet;
mod reads;
mod replicas;
mod shown;
#[cfg(test)]
mod tests;
mod time;
mod worth;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use evenkeel_types::{Epoch, Instant, KeyHash, WorkerRef};

use crate::ages::Ages;
use crate::client::Grant;
use crate::config::{ConfigError, HotKeysConfig, Mode, sampling_for};
use crate::log::Log;
use crate::popularity::{LOAD_TIME_CONSTANT, SLOT, Sampler};
pub use crate::replication::{HoldId, PropagationTag};
use crate::replication::{LINK_RETRY, ReplicaOp};
use crate::ssm::{Filter, Slot, Table};
use crate::state::{Event, State, Transitions, no_transitions};
use evenkeel_balance::load::{BYTES_PER_REQUEST, LoadAverage, Trigger};
use evenkeel_placement::renaming;
use evenkeel_types::map::ClusterMap;
use evenkeel_types::promise::Promise;
use former::Former;
use hosts::Hosts;
use quiet::Quiet;
pub use quiet::{Released, ReleasedBy};
pub use shown::HotKeyInfo;

/// How long a key is left without replicas after one of its shadow workers failed it.
pub const PROMOTION_HOLD_OFF: Duration = Duration::from_secs(5);

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A peer that understands leases and finds servers by the map of this epoch. Only plain reads
    /// count: one with side effects is that of an unaware reader.
    Aware {
        /// The epoch that the request carried.
        epoch: Epoch,
    },
    /// Anybody else.
    Unaware,
}

/// What the answer to a read should carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadAdvice {
    /// γ, and with it a lease; 0 for none.
    pub gamma: u8,
    /// How much is left of the lease, in whole milliseconds; `None` if it is whole.
    pub left: Option<Duration>,
    /// Whether the key may have replicas, so that even a miss must carry a version.
    pub replicated: bool,
}

impl ReadAdvice {
    /// What a client makes of it, of a home whose leases are this long; `None` without a lease.
    pub fn grant(&self, lease: Duration) -> Option<Grant> {
        (self.gamma > 0).then(|| Grant {
            gamma: self.gamma,
            lease,
            left: self.left.unwrap_or(lease),
        })
    }
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// The key has another value, other flags or another time to live.
    Update,
    /// The key is gone.
    Delete,
}

/// Something for the caller to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// Send the item of this key, as it is now, to a shadow worker; if there is none, say so with
    /// [`HotKeys::handle_absent`].
    Store(Message<'a>),
    /// Tell a shadow worker to serve nothing of this key until the next store, as of the item's present
    /// version, or of the newest one of this worker if there is no item.
    Block(Message<'a>),
    /// Tell a shadow worker to remove its replica, as of the newest version of this worker.
    Remove(Message<'a>),
}

/// A message to a shadow worker. If it cannot be sent, the connection counts as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The key, by its original name.
    pub key: &'a [u8],
    /// Hash of the key.
    pub hash: KeyHash,
    /// Where to.
    pub target: WorkerRef,
    /// Orders the messages of different home servers; see [`replication`](crate::replication).
    pub epoch: Epoch,
    /// Comes back with the confirmation.
    pub tag: PropagationTag,
}

/// Counters, all since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotKeysStats {
    /// Reads looked at by chance.
    pub reads_sampled: u64,
    /// Answers that carried γ.
    pub grants: u64,
    /// Messages that carried a value to a shadow worker.
    pub stores: u64,
    /// Messages that removed a replica.
    pub removes: u64,
    /// Messages that blocked a replica.
    pub blocks: u64,
    /// Sampled keys not tracked because every tracked one was replicated.
    pub untracked_full: u64,
    /// Promotions that did not happen because `replicated_max` keys were replicated.
    pub unpromoted_full: u64,
    /// Promotions that did not happen because no shadow server was known or reachable.
    pub unpromoted_alone: u64,
    /// Keys that got replicas.
    pub promoted: u64,
    /// Keys that got more of them.
    pub widened: u64,
    /// Keys that were to lose them.
    pub retired: u64,
    /// Keys that would have got replicas, had the mode not been [`Mode::Observe`].
    pub would_promote: u64,
    /// For each write to a replicated key (or several that followed each other closely): the time from
    /// when it was executed until every replica was known to have it.
    pub copies_behind: Ages,
    /// Such writes of which that was never known: the replicas were given up before.
    pub copies_unconfirmed: u64,
}

/// The hot keys of one worker.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct HotKeys {
    sampler: Sampler,
    filter: Filter,
    /// Reads and writes since the last slot.
    work: Work,
    /// Reads that replicas are estimated to have served since the last slot.
    diverted: Work,
    config: HotKeysConfig,
    /// What is promised by a map that says nothing of it.
    built_in: Promise,
    /// Leases were longer.
    former: Option<Former>,
    /// What is sampled, in parts of what the configuration says.
    sampling_ratio: f64,
    mode: Mode,
    table: Table,
    /// Slots of the replicated keys, ascending.
    replicated: Vec<Slot>,
    /// Shadows that may want a message. Invariant: holds each at most once.
    outbox: VecDeque<(Slot, u8)>,
    next_serial: u64,
    /// Keys that would have replicas, and where: [`Mode::Observe`] alone.
    proposed: BTreeMap<Slot, Vec<WorkerRef>>,
    log: Log,
    /// Workers whose connection broke, and when.
    lost: BTreeMap<WorkerRef, Instant>,
    map: Option<Arc<ClusterMap>>,
    me: WorkerRef,
    /// What is otherwise at this server than the map says.
    hosts: Hosts,
    load: LoadAverage,
    /// Requests for its own keys that this worker served.
    own: LoadAverage,
    /// Requests that this worker really served, reads of replicas of other homes' keys included.
    served: LoadAverage,
    /// Orders of other homes about their replicas.
    told: LoadAverage,
    /// Nanoseconds that this worker slept.
    slept: LoadAverage,
    /// Reads of other homes' replicas since the last slot.
    replica_reads: Work,
    /// Orders about replicas since the last slot.
    replica_orders: Work,
    trigger: Trigger,
    /// Reads that a write outweighs, where that was chosen.
    chosen_write_weight: Option<f64>,
    /// What replicas of its keys take away from this worker, or would if they were not only observed, in small requests
    /// per second: at the end of the last slot, and of what was promoted since.
    taken_away: f64,
    mean_worker_load: Option<f64>,
    next_slot: Instant,
    /// Not later than the first thing that some replicated key waits for.
    next_due: Instant,
    transitions: Transitions,
    stats: HotKeysStats,
    /// When the last lease was granted for a key whose replicas were removed before it was over.
    leases_left: Option<Instant>,
    /// Whether answers may have to be held back: with atomic writes, while keys have replicas or this
    /// worker waits for those of a former home.
    careful: bool,
    /// Whether anything happened since the clock was read whose latest time matters.
    undated: bool,
    /// Keys that were another home's until lately.
    quiet: Vec<Quiet>,
    next_hold: u64,
    /// Times of waiting that are over and were not told of yet.
    released: VecDeque<Released>,
    #[cfg(test)]
    pub(crate) mutant: Option<Mutant>,
}

/// What was done in a time.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    requests: u64,
    /// Of the values read and written.
    bytes: u64,
}

impl Work {
    /// Adds this many requests with a value of this many bytes each, or the bytes alone of one that is counted already.
    #[inline]
    fn add(&mut self, requests: u64, bytes: usize) {
        self.requests += requests;
        self.bytes += requests.max(1) * bytes as u64;
    }

    /// In small requests.
    fn load(&self) -> u64 {
        self.requests + self.bytes / BYTES_PER_REQUEST
    }
}

/// Later than everything.
const NEVER: Instant = Instant(u64::MAX);

impl HotKeys {
    /// The hot keys of a worker that starts now and knows no map yet. The seed decides which reads
    /// are sampled.
    ///
    /// # Errors
    ///
    /// See [`HotKeysConfig::validate`].
    pub fn new(config: HotKeysConfig, seed: u64, now: Instant) -> Result<Self, ConfigError> {
        config.validate()?;
        let average = || LoadAverage::new(now, LOAD_TIME_CONSTANT);
        Ok(HotKeys {
            built_in: config.promise(),
            former: None,
            sampler: Sampler::new(sampling_for(config.sampling, 0.0), seed),
            filter: Filter::new(),
            work: Work::default(),
            diverted: Work::default(),
            sampling_ratio: 1.0,
            mode: config.mode,
            table: Table::new(config.entries_max),
            replicated: Vec::new(),
            outbox: VecDeque::new(),
            next_serial: 0,
            proposed: BTreeMap::new(),
            log: Log::default(),
            lost: BTreeMap::new(),
            map: None,
            me: WorkerRef::default(),
            hosts: Hosts::default(),
            load: average(),
            own: average(),
            served: average(),
            told: average(),
            slept: average(),
            replica_reads: Work::default(),
            replica_orders: Work::default(),
            trigger: Trigger::new(config.trigger.clone()),
            chosen_write_weight: None,
            taken_away: 0.0,
            mean_worker_load: None,
            next_slot: now + SLOT,
            next_due: NEVER,
            transitions: no_transitions(),
            stats: HotKeysStats::default(),
            leases_left: None,
            careful: false,
            undated: false,
            quiet: Vec::new(),
            next_hold: 0,
            released: VecDeque::new(),
            #[cfg(test)]
            mutant: None,
            config,
        })
    }

    /// Tells of a read of a key that this worker is home of, and how many bytes its value has if it was found. A few instructions for most reads.
    #[inline]
    pub fn handle_read(
        &mut self,
        now: Instant,
        hash: KeyHash,
        key: &[u8],
        reader: Reader,
        found: Option<usize>,
    ) -> ReadAdvice {
        self.work.add(1, found.unwrap_or(0));
        let sampled = self.sampler.take();
        if !sampled && !self.filter.may_hold(hash) {
            return ReadAdvice::default();
        }
        self.look_at_read(now, hash, key, reader, found, sampled)
    }

    /// Whether the time that is told with a read decides how long copies are read: then it must not be from before the read arrived.
    #[inline]
    pub fn wants_clock(&self) -> bool {
        !self.replicated.is_empty() && !self.is_atomic()
    }

    /// Whether a key may have replicas. Wrong in one case of some hundred, and never for one that has.
    #[inline]
    pub fn may_have_replicas(&self, hash: KeyHash) -> bool {
        !self.replicated.is_empty() && self.filter.may_hold(hash)
    }

    /// Counts a read that needs no further look, because it is not sampled and no key has replicas:
    /// most of them, and without a look at the key. False, and not counted, when it is one for
    /// [`HotKeys::handle_read`]. `bytes`: of its value, 0 if there is none.
    #[inline]
    pub fn pass_read(&mut self, bytes: usize) -> bool {
        let passes = self.replicated.is_empty() && self.sampler.skip();
        if passes {
            self.work.add(1, bytes);
        }
        passes
    }

    /// Tells how many reads of a key that this worker is home of were answered by its replicas, or with what others had read: they are
    /// part of what the key would load without that. At most a million count at once.
    pub fn handle_elsewhere(&mut self, hash: KeyHash, key: &[u8], reads: u64) {
        let reads = reads.min(1_000_000);
        let mut bytes = 0;
        if let Some(slot) = self.table.find(hash, key) {
            let popularity = &mut self.table[slot].popularity;
            popularity.add(reads as f32);
            bytes = ((popularity.cost() - 1.0) * BYTES_PER_REQUEST as f64) as usize;
        }
        self.diverted.add(reads, bytes);
    }

    /// Counts a write that needs no further look, because no key is tracked. False, and not counted,
    /// when it is one for [`HotKeys::handle_write`].
    #[inline]
    pub fn pass_write(&mut self) -> bool {
        let passes = self.table.len() == 0;
        self.work.requests += u64::from(passes);
        passes
    }

    /// Tells how many bytes the value of a write had, besides telling of the write itself.
    #[inline]
    pub fn handle_stored(&mut self, bytes: usize) {
        self.work.add(0, bytes);
    }

    /// Whether [`HotKeys::poll_output`] may have something to say.
    #[inline]
    pub fn has_output(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Tells of a read of a replica that this worker holds for another home. Such reads are load that
    /// it cannot divert, but a reason to divert others. `bytes`: of its value, 0 if there is none.
    #[inline]
    pub fn handle_replica_read(&mut self, bytes: usize) {
        self.replica_reads.add(1, bytes);
    }

    /// Tells of an order of another home about its replica: a store of this many bytes, or anything else with 0. Such work
    /// is load like any other, but no reason to divert some: more replicas would be more of it.
    pub fn handle_replica_order(&mut self, bytes: usize) {
        self.replica_orders.add(1, bytes);
    }

    /// Tells that this worker had nothing to do for this long. A worker that tells of nothing is taken for
    /// busy.
    #[inline]
    pub fn handle_slept(&mut self, time: Duration) {
        self.slept.add(time.as_nanos() as u64);
    }

    /// Tells of a write that was just applied. Must come before its answer leaves.
    pub fn handle_write(&mut self, now: Instant, hash: KeyHash, key: &[u8], kind: WriteKind) {
        self.work.requests += 1;
        if self.table.len() == 0 {
            return;
        }
        let Some(slot) = self.table.find(hash, key) else {
            return;
        };
        self.table[slot]
            .popularity
            .add(-self.config.write_weight as f32);
        let event = match kind {
            WriteKind::Update => Event::Written,
            WriteKind::Delete => Event::Deleted,
        };
        self.propagate(now, slot, event);
    }

    /// Tells that every item of this worker was just deleted.
    pub fn handle_flush(&mut self, now: Instant) {
        for slot in self.replicated.clone() {
            self.propagate(now, slot, Event::Flushed);
        }
    }

    /// Tells that a shadow worker has done what a message asked for.
    pub fn handle_acked(&mut self, now: Instant, target: WorkerRef, tag: PropagationTag) {
        self.lost.remove(&target);
        let all = self.is(Mutant::AckCoversAll);
        let Some(replication) = self.replication_under_way(target, tag) else {
            return;
        };
        replication.confirm(now, tag.shadow, all);
        if replication.hold.is_some() && !replication.is_readable() {
            self.end_hold(now, tag.slot, Event::Prepared);
        }
        let replication = self.table[tag.slot].replication.as_ref();
        if !replication.is_some_and(|replication| replication.rests(now)) {
            self.enqueue(tag.slot);
        }
        self.advance(now, tag.slot);
    }

    /// Tells that a shadow worker has refused what a message asked for: it has no room, or it holds
    /// something newer of another home server.
    pub fn handle_refused(&mut self, now: Instant, target: WorkerRef, tag: PropagationTag) {
        let Some(replication) = self.replication_under_way(target, tag) else {
            return;
        };
        replication.refuse(now, tag.shadow);
        self.table[tag.slot].promote_after = now + PROMOTION_HOLD_OFF;
        self.cool(now, tag.slot, Event::ShadowRefused);
    }

    /// Tells that the item of an [`Output::Store`] for `target` is not there any more (expired or
    /// evicted), so that nothing was sent.
    pub fn handle_absent(&mut self, now: Instant, target: WorkerRef, tag: PropagationTag) {
        let Some(replication) = self.replication_under_way(target, tag) else {
            return;
        };
        replication.forget(now, tag.shadow, None);
        self.propagate(now, tag.slot, Event::Absent);
    }

    /// Tells that the connection to a worker broke or could not be made, with all that was under way.
    /// It is tried again as long as something is owed to that worker.
    pub fn handle_link_lost(&mut self, now: Instant, target: WorkerRef) {
        self.lost.insert(target, now);
        let trusting = self.is(Mutant::LostCountsAsAcked);
        for slot in self.replicated.clone() {
            let Some(replication) = &mut self.table[slot].replication else {
                continue;
            };
            let mut concerned = false;
            for i in 0..replication.gamma() {
                if replication.shadows[usize::from(i)].target != target {
                    continue;
                }
                if trusting {
                    replication.confirm(now, i, true);
                    continue;
                }
                replication.forget(now, i, Some(now + LINK_RETRY));
                concerned = true;
            }
            if concerned {
                let to = self.table[slot].state.pending();
                self.move_to(now, slot, Event::LinkLost, to);
                self.arm(slot);
            }
        }
    }

    /// Tells that a connection to a worker was made, so that nothing needs to wait for its next try.
    pub fn handle_link_up(&mut self, target: WorkerRef) {
        self.lost.remove(&target);
        for slot in self.replicated.clone() {
            if let Some(replication) = &mut self.table[slot].replication {
                replication.unblock(target);
            }
            self.enqueue(slot);
        }
    }

    /// Tells of a new map, and which worker this one is in it.
    ///
    /// A replicated key stays so if it has the same home and the same shadow workers as before.
    pub fn handle_map(&mut self, now: Instant, map: Arc<ClusterMap>, me: WorkerRef) {
        self.me = me;
        self.take_promise(now, map.promise());
        for slot in self.table.slots() {
            let entry = &mut self.table[slot];
            let at_home = self.hosts.is_host(&map, me, entry.hash);
            let Some(replication) = &mut entry.replication else {
                let proposed = self.proposed.get(&slot);
                let is_outdated = |targets: &Vec<WorkerRef>| {
                    let gamma = u8::try_from(targets.len()).unwrap_or(u8::MAX);
                    renaming::shadows(&map, &entry.key, me.server, gamma) != *targets
                };
                if !at_home {
                    self.dismiss(now, slot, Event::MapChanged);
                } else if proposed.is_some_and(is_outdated) {
                    self.withdraw(now, slot, Event::MapChanged);
                }
                continue;
            };
            let gamma = replication.gamma();
            let shadows = renaming::shadows(&map, &entry.key, me.server, gamma);
            if at_home && replication.targets().eq(shadows) {
                replication.epoch = map.epoch();
            } else {
                self.cool(now, slot, Event::MapChanged);
            }
        }
        self.wait_for_former_homes(now, map.epoch());
        self.map = Some(map);
    }

    /// Switches replication on or off, or to observing. What has replicas and may not have them any
    /// more loses them as if it had cooled.
    pub(crate) fn set_mode(&mut self, now: Instant, mode: Mode) {
        self.mode = mode;
        if mode != Mode::Observe {
            self.withdraw_proposals(now);
        }
        for slot in self.table.slots() {
            match (mode, self.table[slot].state) {
                (Mode::On, _) | (Mode::Observe, State::Cold) => {}
                (Mode::Off, State::Cold) => self.dismiss(now, slot, Event::SwitchedOff),
                _ => self.cool(now, slot, Event::SwitchedOff),
            }
        }
        self.update_sampler();
    }

    /// Samples less from the next slot on: `ratio` is the part of the normal sampling.
    /// Values outside 0 to 1 are ignored.
    pub fn set_sampling_ratio(&mut self, ratio: f64) {
        if (0.0..=1.0).contains(&ratio) {
            self.sampling_ratio = ratio;
        }
    }

    /// Tells what the workers of the cluster carry on average, in requests per second. What is not a
    /// sensible number is ignored.
    pub fn handle_cluster_load(&mut self, mean_worker_load: f64) {
        if mean_worker_load.is_finite() && mean_worker_load >= 0.0 {
            self.mean_worker_load = Some(mean_worker_load);
        }
    }

    /// Tells that the deadline has passed. Harmless at any other time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if now >= self.next_slot {
            self.roll(now);
        }
        if now >= self.next_due {
            self.next_due = NEVER;
            self.end_former(now);
            for slot in self.replicated.clone() {
                self.handle_due(now, slot);
            }
            self.end_quiet(now);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) should next be called.
    #[inline]
    pub fn poll_deadline(&self) -> Instant {
        self.next_slot.min(self.next_due)
    }

    /// The next thing to do. Call until `None`, before anybody is answered anew.
    pub fn poll_output(&mut self) -> Option<Output<'_>> {
        while let Some((slot, i)) = self.outbox.pop_front() {
            let Some(replication) = &mut self.table[slot].replication else {
                continue;
            };
            let (round, epoch) = (replication.round, replication.epoch);
            let (gone, retired_at) = (replication.gone, replication.retiring);
            let held = replication.hold.is_some();
            let shadow = &mut replication.shadows[usize::from(i)];
            shadow.queued = false;
            if retired_at.is_none() && !shadow.wants_message(held) {
                continue;
            }
            let tag = PropagationTag {
                serial: self.next_serial,
                slot,
                shadow: i,
            };
            self.next_serial += 1;
            let op = match (retired_at, held, gone) {
                (Some(_), ..) => ReplicaOp::Remove,
                (None, true, _) => ReplicaOp::Block,
                (None, false, true) => ReplicaOp::Remove,
                (None, false, false) => ReplicaOp::Store,
            };
            shadow.depart(tag, round, op);
            let target = shadow.target;
            if let Some(at) = retired_at
                && !self.outbox.iter().any(|&(other, _)| other == slot)
            {
                self.end_replication(at, slot, Event::Retired);
            }
            let entry = &self.table[slot];
            let message = Message {
                key: &entry.key,
                hash: entry.hash,
                target,
                epoch,
                tag,
            };
            return Some(match op {
                ReplicaOp::Store => {
                    self.stats.stores += 1;
                    Output::Store(message)
                }
                ReplicaOp::Block => {
                    self.stats.blocks += 1;
                    Output::Block(message)
                }
                ReplicaOp::Remove => {
                    self.stats.removes += 1;
                    Output::Remove(message)
                }
            });
        }
        None
    }

    /// Whether the worker is loaded enough that it looks for hot keys, to replicate them or to observe.
    pub fn is_triggered(&self) -> bool {
        self.mode != Mode::Off && self.trigger.is_on()
    }

    /// Whether keys are replicated, observed, or left alone.
    pub fn mode(&self) -> Mode {
        self.mode
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

/// Ways to break the server on purpose, to see that the model's checks notice. Tests choose one;
/// elsewhere none is ever active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Grants whole leases while replicas are out of date.
    WholeWhileBehind,
    /// Grants leases before every replica was stored.
    GrantUnconfirmed,
    /// Grants leases to clients that know another map.
    GrantAnyEpoch,
    /// Takes the confirmation of an old value for one of the newest.
    AckCoversAll,
    /// Takes messages lost with their connection for confirmed.
    LostCountsAsAcked,
    /// Removes replicas although leases are not over.
    RetireAtOnce,
}
