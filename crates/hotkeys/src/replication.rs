//! The replicas of one key as its home worker knows them: what each shadow worker has confirmed and
//! what it is still owed.
//!
//! Writes are counted in *rounds*. A message carries whatever the key's value is when it leaves, so it
//! covers all rounds up to then, and while one message is on its way to a shadow no other is: writes
//! meanwhile are covered by one more. This keeps the order, and a burst of writes costs each shadow
//! two messages.
//!
//! # Rests
//!
//! A store takes a shadow as long as a read. A key with 19 reads to a write and 16 copies would cost each of them
//! nearly as many stores as it serves reads; with twenty servers that is a fifth of all that they do. So after a
//! store the replicas of a key *rest* until each copy has served some reads (`rest_for` in `config.rs`), and
//! what was written meanwhile is sent in one more message. Meanwhile the key is not HOT, and a lease is the shorter
//! the longer ago the oldest write is that some copy may lack, so that the promise stays what it was. Deletions and flushes do not wait.
//!
//! # What a shadow worker does with a message
//!
//! It orders what it is told of a key by the epoch of the message first and the version second: the
//! counters of two home servers cannot be compared, but the map says which of them came later. A store
//! or a removal that is not older than what is held takes effect and is confirmed; equal is a renewal.
//! An older one is refused, and so is a store for which there is no room, which must then drop the
//! replica that it would have replaced. What comes by an older map than anything that was heard before is
//! refused even where nothing is held: bytes of a former home may be on their way for long, and a replica of
//! the present one that was evicted or removed left nothing to compare them with. A new connection from a home worker replaces the former one,
//! whose unread messages are dropped: otherwise one of them could bring back a value after a newer
//! replica was evicted.
//!
//! With [atomic](super::server) writes it can also be told to *block* its replica: to forget the value and
//! serve nothing, and yet to remember what it ordered last, so that an older store of a former home
//! cannot bring a value back in between.

use core::time::Duration;

use evenkeel_types::{Epoch, Instant, WorkerRef};

/// How long a replica lives at a shadow server unless it is stored again. So the replicas of a home
/// server that died vanish by themselves.
pub const REPLICA_LIFETIME: Duration = Duration::from_secs(60);

/// How often a replica is stored again although nothing changed: twice in its life, so that one
/// renewal may fail.
pub const RENEWAL_INTERVAL: Duration = Duration::from_secs(30);

/// How long to wait before a shadow server is tried again whose connection broke.
pub const LINK_RETRY: Duration = Duration::from_millis(250);

const _: () = assert!(RENEWAL_INTERVAL.as_secs() * 2 <= REPLICA_LIFETIME.as_secs());
const _: () = assert!(evenkeel_types::promise::LEASE_MAX.as_secs() < RENEWAL_INTERVAL.as_secs());

/// Names a message on its way to a shadow worker. Unique in the life of a
/// [`HotKeys`](super::server::HotKeys).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PropagationTag {
    pub(crate) serial: u64,
    /// Where the message came from: the slot of the key and the position of the shadow.
    pub(crate) slot: u16,
    pub(crate) shadow: u8,
}

/// Names one time of waiting in which answers are held back. Unique in the life of a
/// [`HotKeys`](super::server::HotKeys).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldId(pub(crate) u64);

/// Answers about a key are held back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) id: HoldId,
    pub(crate) since: Instant,
}

/// What a message asks of a shadow worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaOp {
    /// To serve this value.
    Store,
    /// To serve nothing until the next store.
    Block,
    /// To forget the key.
    Remove,
}

/// The replicas of one key.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Replication {
    /// Suffixes 1, 2, … γ.
    pub(crate) shadows: Vec<Shadow>,
    /// The map under which the shadow servers are the right ones.
    pub(crate) epoch: Epoch,
    /// Counts writes, from 1.
    pub(crate) round: u64,
    /// When the oldest write was executed that some shadow worker has not confirmed.
    pub(crate) behind_since: Option<Instant>,
    /// Whether the key was deleted in the newest round.
    pub(crate) gone: bool,
    /// When γ was last told to a client with a whole lease; or when it would have been, for the last lease to end when it does.
    pub(crate) last_grant: Option<Instant>,
    /// The clock was not read since that.
    pub(crate) undated: bool,
    /// When replicas that are current are stored again.
    pub(crate) renew_at: Instant,
    /// Since when the replicas are being removed for good, without waiting for confirmations.
    pub(crate) retiring: Option<Instant>,
    /// With atomic writes: answers wait until no replica can be read.
    pub(crate) hold: Option<Hold>,
    /// Shadow workers are told of no write before this time.
    rest: Option<Instant>,
}

/// A replica.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Shadow {
    pub(crate) target: WorkerRef,
    /// Newest round that the shadow worker is known to have; 0 for none.
    acked: u64,
    /// Newest round that the message under way covers.
    sent: u64,
    /// When the oldest change was executed that the message under way covers.
    unconfirmed_since: Option<Instant>,
    /// When the oldest change was executed that no message covers.
    unsent_since: Option<Instant>,
    /// The message under way.
    tag: Option<PropagationTag>,
    /// What that asks for.
    op: ReplicaOp,
    /// Whether the shadow worker may hold a value that it serves: it was sent one and has not confirmed
    /// since that it has none.
    is_readable: bool,
    /// Since when the shadow worker has confirmed nothing although it is not current.
    /// Invariant: `None` if and only if `acked` is the newest round.
    owed_since: Option<Instant>,
    /// When to send again after the connection broke.
    retry_at: Option<Instant>,
    /// Whether the shadow worker does not want it. No more is sent to it but the final removal.
    refused: bool,
    /// Whether it is to be stored again although it is current.
    renew: bool,
    /// Whether it waits in the outbox.
    pub(crate) queued: bool,
}

impl Replication {
    pub(crate) fn new(now: Instant, epoch: Epoch, targets: &[WorkerRef]) -> Self {
        let mut replication = Replication {
            shadows: Vec::with_capacity(targets.len()),
            epoch,
            round: 1,
            behind_since: None,
            gone: false,
            last_grant: None,
            undated: false,
            renew_at: now + RENEWAL_INTERVAL,
            retiring: None,
            hold: None,
            rest: None,
        };
        replication.widen(now, targets);
        replication
    }

    /// Adds replicas that hold nothing yet.
    pub(crate) fn widen(&mut self, now: Instant, targets: &[WorkerRef]) {
        self.shadows.extend(targets.iter().map(|&target| Shadow {
            target,
            acked: 0,
            sent: 0,
            unconfirmed_since: None,
            unsent_since: None,
            tag: None,
            op: ReplicaOp::Store,
            // What a former home may have left there nobody has a lease for.
            is_readable: false,
            owed_since: Some(now),
            retry_at: None,
            refused: false,
            renew: false,
            queued: false,
        }));
    }

    pub(crate) fn gamma(&self) -> u8 {
        // Never more than `gamma_max`, which is a byte.
        self.shadows.len() as u8
    }

    /// Every shadow worker is owed what the key is now.
    pub(crate) fn advance(&mut self, now: Instant, gone: bool) {
        self.round += 1;
        self.gone = gone;
        for shadow in &mut self.shadows {
            shadow.owed_since.get_or_insert(now);
        }
        self.differs_from(now);
    }

    /// The key may differ from what its copies are from now on, until the next message.
    pub(crate) fn differs_from(&mut self, now: Instant) {
        for shadow in &mut self.shadows {
            shadow.unsent_since.get_or_insert(now);
        }
    }

    /// Whether some client may read copies: its lease is not over, for all that is known here. `waited`: how long a lease is waited for.
    pub(crate) fn is_leased(&self, now: Instant, waited: Duration) -> bool {
        self.last_grant.is_some_and(|at| now < at + waited)
    }

    /// Whether every shadow worker has confirmed some value.
    pub(crate) fn is_complete(&self) -> bool {
        self.shadows.iter().all(|shadow| shadow.acked > 0)
    }

    /// When the oldest change was executed that some copy may lack, if there is one.
    pub(crate) fn differs_since(&self) -> Option<Instant> {
        let differing = self.shadows.iter().filter_map(Shadow::differs_since);
        differing.min()
    }

    /// Whether every shadow worker has confirmed the newest round.
    pub(crate) fn is_current(&self) -> bool {
        self.shadows
            .iter()
            .all(|shadow| shadow.owed_since.is_none())
    }

    /// Whether any shadow worker may hold a value that it serves.
    pub(crate) fn is_readable(&self) -> bool {
        self.shadows.iter().any(|shadow| shadow.is_readable)
    }

    /// Since when the most silent shadow worker owes a confirmation.
    pub(crate) fn owed_since(&self) -> Option<Instant> {
        self.shadows
            .iter()
            .filter_map(|shadow| shadow.owed_since)
            .min()
    }

    /// When the first lost connection is to be tried again.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.shadows
            .iter()
            .filter_map(|shadow| shadow.retry_at)
            .min()
    }

    /// Lets lost connections be tried again whose time has come.
    pub(crate) fn retry(&mut self, now: Instant) {
        for shadow in &mut self.shadows {
            shadow.retry_at = shadow.retry_at.filter(|&at| now < at);
        }
    }

    /// Shadow workers are told of no write before this time.
    pub(crate) fn begin_rest(&mut self, until: Instant) {
        self.rest = Some(until);
    }

    /// Shadow workers are told of whatever they are owed.
    pub(crate) fn end_rest(&mut self) {
        self.rest = None;
    }

    /// Whether shadow workers are to be told of no write now.
    pub(crate) fn rests(&self, now: Instant) -> bool {
        self.rest.is_some_and(|until| now < until)
    }

    /// When shadow workers are told of what they are owed, if they rest until then.
    pub(crate) fn rests_until(&self) -> Option<Instant> {
        self.rest.filter(|_| !self.is_current())
    }

    /// Every replica that is current is to be stored again.
    pub(crate) fn renew(&mut self, now: Instant) {
        self.renew_at = now + RENEWAL_INTERVAL;
        self.shadows
            .iter_mut()
            .for_each(|shadow| shadow.renew = true);
    }

    pub(crate) fn targets(&self) -> impl Iterator<Item = WorkerRef> {
        self.shadows.iter().map(|shadow| shadow.target)
    }

    /// Whether that message is the one on its way to its shadow worker.
    pub(crate) fn is_under_way(&self, target: WorkerRef, tag: PropagationTag) -> bool {
        let shadow = self.shadows.get(usize::from(tag.shadow));
        shadow.is_some_and(|shadow| shadow.target == target && shadow.tag == Some(tag))
    }

    /// The shadow worker has what the message under way carried, or `all` that it is owed.
    pub(crate) fn confirm(&mut self, now: Instant, shadow: u8, all: bool) {
        let (round, gone) = (self.round, self.gone);
        let shadow = &mut self.shadows[usize::from(shadow)];
        shadow.tag = None;
        if shadow.op != ReplicaOp::Store {
            shadow.is_readable = false;
        }
        if all {
            shadow.acked = round;
            (shadow.unconfirmed_since, shadow.unsent_since) = (None, None);
        } else if shadow.op != ReplicaOp::Block || gone {
            // Of a deleted key a blocked replica is all that there is to have.
            shadow.acked = shadow.sent;
            shadow.unconfirmed_since = None;
        } else {
            shadow.take_back();
        }
        shadow.owed_since = (shadow.acked < round).then_some(now);
    }

    /// The message under way had no effect. `retry_at` keeps the next one back.
    pub(crate) fn forget(&mut self, now: Instant, shadow: u8, retry_at: Option<Instant>) {
        let shadow = &mut self.shadows[usize::from(shadow)];
        shadow.tag = None;
        shadow.acked = 0;
        shadow.take_back();
        shadow.owed_since.get_or_insert(now);
        shadow.retry_at = retry_at;
        shadow.renew = false;
    }

    /// The shadow worker does not want what the message under way carried.
    pub(crate) fn refuse(&mut self, now: Instant, shadow: u8) {
        self.forget(now, shadow, None);
        self.shadows[usize::from(shadow)].refused = true;
    }

    /// The connection works again.
    pub(crate) fn unblock(&mut self, target: WorkerRef) {
        for shadow in self
            .shadows
            .iter_mut()
            .filter(|shadow| shadow.target == target)
        {
            shadow.retry_at = None;
        }
    }
}

#[cfg(test)]
impl Replication {
    /// Hashes all that decides what happens to the replicas within `over`, before which no renewal comes.
    ///
    /// Of rounds it matters whether one is the newest: a confirmation compares with nothing else.
    pub(crate) fn digest(
        &self,
        over: impl Fn(Instant) -> bool,
        state: &mut impl core::hash::Hasher,
    ) {
        use core::hash::Hash;
        let grant = self
            .last_grant
            .map(|at| if over(at) { Instant(0) } else { at });
        (self.epoch, self.gone, grant, self.undated).hash(state);
        (self.retiring, self.hold.map(|hold| hold.since), self.rest).hash(state);
        let leased_from = |at: Option<Instant>| at.map(|at| if over(at) { Instant(0) } else { at });
        for shadow in &self.shadows {
            (shadow.target, shadow.is_readable, shadow.owed_since).hash(state);
            (shadow.acked > 0, leased_from(shadow.unconfirmed_since)).hash(state);
            leased_from(shadow.unsent_since).hash(state);
            (shadow.retry_at, shadow.refused, shadow.renew, shadow.queued).hash(state);
            let under_way = shadow
                .tag
                .map(|_| (shadow.sent == self.round, shadow.op as u8));
            under_way.hash(state);
        }
    }
}

impl Shadow {
    /// Whether a message should leave now. `held`: answers wait for it to serve nothing.
    pub(crate) fn wants_message(&self, held: bool) -> bool {
        let able = self.tag.is_none() && self.retry_at.is_none() && !self.refused;
        able && if held {
            self.is_readable
        } else {
            self.owed_since.is_some() || self.renew
        }
    }

    /// When the oldest change was executed that the copy may lack.
    fn differs_since(&self) -> Option<Instant> {
        self.unconfirmed_since.or(self.unsent_since)
    }

    /// What the message under way covers is not covered by any.
    fn take_back(&mut self) {
        self.unsent_since = self.differs_since();
        self.unconfirmed_since = None;
    }

    /// Whether the connection to it is believed to work.
    pub(crate) fn is_reachable(&self) -> bool {
        self.retry_at.is_none()
    }

    /// A message leaves that carries what the key is now, in `round`.
    pub(crate) fn depart(&mut self, tag: PropagationTag, round: u64, op: ReplicaOp) {
        self.tag = Some(tag);
        self.op = op;
        self.is_readable |= op == ReplicaOp::Store;
        self.sent = round;
        self.unconfirmed_since = self.differs_since();
        self.unsent_since = None;
        self.renew &= op == ReplicaOp::Block;
    }
}
