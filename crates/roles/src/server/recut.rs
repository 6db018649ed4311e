//! How a server splits cachelets and merges them, where the map has done so.
//!
//! A map that splits a cachelet or merges two of one worker changes which cachelet a piece of the hash space (a virtual
//! node) is in, and nothing else: owner and contents stay. Clients need not know. The server goes on with the cachelets
//! that it has, and makes them the map's when nothing else happens to them:
//!
//! 1. Whoever hosts one of the two sends it to its home worker, and no balancer may give it away again.
//! 2. When both are settled there, the home worker puts the pieces into the cachelet of the map, which it creates if
//!    need be, and tells the other workers ([`Recut`]). They only have to know for what they hear of the two later;
//!    commands find their key by the home worker's own placement.
//! 3. It brings the items over, a few in each turn, and at once those that are asked for (`Store::begin_join` of the
//!    storage).
//! 4. When all is brought and all workers have heard, the two can move again, on their own. One that has become empty is
//!    dropped.
//!
//! The workers of a server work by the same maps in the same order, each at its own time, so that they agree about what a
//! cachelet is made of.
//!
//! Should a map take some pieces of a cachelet from the server before they are in one of their own, the rest is
//! emptied: otherwise what is left of those pieces could be found if they ever came back.

use super::handover::FLUSH_REACH;
use super::message::Message;
use super::placement::LocalPlacement;
use super::time::TimeBase;
use super::worker::WorkerCore;
use core::time::Duration;
use evenkeel_policy::placement::map::ClusterMap;
use evenkeel_types::{CacheletId, Epoch, Instant, Now, VirtualNode};
use std::collections::{BTreeMap, BTreeSet};

/// How often it is tried whether a cachelet can be split or merged now.
const LOOK: Duration = Duration::from_millis(5);

/// Bytes of items that are brought in a turn of the worker, so that its clients wait for no more. An item larger than
/// that has a turn for itself.
const STEP_BYTES: usize = 32 << 10;

/// Which pieces are in another cachelet of their home worker from now on.
#[derive(Debug)]
pub struct Recut {
    from: CacheletId,
    into: CacheletId,
    pieces: Vec<u16>,
    /// Of the map that the home worker knows.
    epoch: Epoch,
}

impl Recut {
    /// The cachelet that they were in, and the one that they are in now.
    pub fn cachelets(&self) -> (CacheletId, CacheletId) {
        (self.from, self.into)
    }
}

/// A cachelet of this worker that gets pieces of another one.
#[derive(Debug)]
struct Joining {
    from: CacheletId,
    /// Whether all items have been brought.
    is_brought: bool,
    /// Whether it is a new cachelet.
    is_split: bool,
    /// Workers that have not heard.
    stragglers: BTreeSet<u16>,
}

/// How far a split or a merge has come at one worker, as exactly as that one knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecutStep {
    /// The map says so, and nothing has happened yet: one of the two is not at its home worker, or not settled there.
    Waiting,
    /// Home worker: keys are in the other cachelet, and items are brought over.
    Bringing,
    /// Home worker: all items are brought, and some workers have not heard.
    Telling,
}

/// What a worker knows of cachelets that are not those of the map.
#[derive(Debug, Default)]
pub(super) struct Recuts {
    /// By the cachelet that pieces are in, and the one that they are to be in.
    misplaced: BTreeMap<(CacheletId, CacheletId), Vec<u16>>,
    /// What this worker carries out, by the cachelet that gets something.
    joins: BTreeMap<CacheletId, Joining>,
    /// Of maps that this worker does not know yet.
    early: Vec<(u16, Recut)>,
    next_look: Instant,
    /// What was put from one cachelet into another lately, and when.
    lately: Vec<(Instant, CacheletId, CacheletId)>,
    /// Cachelets that lost pieces otherwise, and by which map.
    broken: BTreeMap<CacheletId, Epoch>,
}

impl Recuts {
    /// Whether a cachelet is not, or not all of, what the map says. It must stay at its home worker, or go there.
    pub fn concern(&self, cachelet: CacheletId) -> bool {
        let mut pairs = self.misplaced.keys();
        pairs.any(|(from, into)| *from == cachelet || *into == cachelet) || self.join(cachelet)
    }

    /// Whether items go from a cachelet to another one or come from there.
    pub fn join(&self, cachelet: CacheletId) -> bool {
        let mut joins = self.joins.iter();
        joins.any(|(into, joining)| *into == cachelet || joining.from == cachelet)
    }

    /// Whether a cachelet that another worker gave away by a map of that epoch holds what is not this server's any more.
    pub fn is_broken_since(&self, cachelet: CacheletId, epoch: Epoch) -> bool {
        self.broken.get(&cachelet).is_some_and(|at| *at > epoch)
    }

    /// Cachelets that hold what others must still give: they are needed though no key leads to them.
    pub fn sources(&self) -> impl Iterator<Item = (CacheletId, CacheletId)> + '_ {
        let open = self.joins.iter().filter(|(_, joining)| !joining.is_brought);
        open.map(|(into, joining)| (*into, joining.from))
    }

    /// Those cachelets, and those that have got something of them lately.
    pub fn with_heirs(&self, now: Instant, mut cachelets: Vec<CacheletId>) -> Vec<CacheletId> {
        // In the order in which it happened, so that heirs of heirs are found.
        for (at, from, into) in &self.lately {
            let is_recent = now.since(*at) < FLUSH_REACH;
            if is_recent && cachelets.contains(from) && !cachelets.contains(into) {
                cachelets.push(*into);
            }
        }
        cachelets
    }

    /// When something should be done next.
    pub fn deadline(&self) -> Option<Instant> {
        let is_busy = self.joins.values().any(|joining| !joining.is_brought);
        (is_busy || !self.misplaced.is_empty()).then_some(self.next_look)
    }
}

impl WorkerCore {
    /// The splits and merges that are not over, as far as this worker knows: the cachelet that loses something, the one that
    /// gets it, and how far that has come.
    pub fn recut_steps(&self) -> impl Iterator<Item = ([CacheletId; 2], RecutStep)> + '_ {
        let waiting = self.recuts.misplaced.keys();
        let waiting = waiting.map(|(from, into)| ([*from, *into], RecutStep::Waiting));
        let begun = self.recuts.joins.iter().map(|(into, joining)| {
            let step = match joining.is_brought {
                false => RecutStep::Bringing,
                true => RecutStep::Telling,
            };
            ([joining.from, *into], step)
        });
        waiting.chain(begun)
    }

    /// Whether a cachelet here is what the map says, whole and alone.
    pub(super) fn is_as_mapped(&self, cachelet: CacheletId) -> bool {
        !self.recuts.concern(cachelet)
    }

    /// The cachelet in which a key is here.
    pub fn cachelet_of(&self, key: &[u8]) -> CacheletId {
        self.locate(key).place.cachelet
    }

    /// Whether an item of that key is here, by the clock of the store.
    pub fn has_item(&self, now: Now, key: &[u8]) -> bool {
        let place = self.locate(key);
        let seconds = TimeBase::seconds(now);
        let store = &self.engine.store;
        store
            .peek_hashed(place.place.cachelet, key, place.table, seconds)
            .is_some()
    }

    /// Those cachelets, and those that have got something of them so lately that a `flush_all` which passed them by reaches
    /// these, too.
    pub fn with_heirs(&self, now: Now, cachelets: &[CacheletId]) -> Vec<CacheletId> {
        self.recuts.with_heirs(now.monotonic, cachelets.to_vec())
    }

    /// There is a new placement, or another map, which are in `self` already.
    pub(super) fn look_for_misplaced(&mut self, map: &ClusterMap) {
        self.recuts.misplaced = self.placement.misplaced(map);
        let of_pair = |((from, _), pieces): (&(CacheletId, CacheletId), &Vec<u16>)| {
            let from = *from;
            let pieces = pieces.clone().into_iter();
            pieces.map(move |piece| (VirtualNode(piece), from))
        };
        let misplaced = self.recuts.misplaced.iter().flat_map(of_pair).collect();
        self.engine.hot.handle_misplaced(misplaced);
        let store = &self.engine.store;
        for (into, joining) in &mut self.recuts.joins {
            joining.is_brought |= !store.is_joining(*into);
        }
    }

    /// A new map has a cachelet begin anew: counts it if a part of it goes on, with contents that are gone.
    pub(super) fn count_begun_anew(&mut self, cachelet: CacheletId, after: &LocalPlacement) {
        let goes_on = self.placement.holds_any_in(after, cachelet);
        self.engine.counters.cachelets_broken += u64::from(goes_on);
    }

    /// Empties what a new map has taken a part of.
    pub(super) fn empty_broken(&mut self, broken: BTreeSet<CacheletId>, epoch: Epoch) {
        for cachelet in broken {
            let is_here = self.engine.store.flush_cachelet(cachelet);
            self.engine.counters.cachelets_broken += u64::from(is_here);
            self.recuts.broken.insert(cachelet, epoch);
        }
    }

    /// Takes what was heard before its map came.
    pub(super) fn take_early_recuts(&mut self) {
        for (worker, recut) in core::mem::take(&mut self.recuts.early) {
            self.take_recut(worker, recut);
        }
    }

    /// Brings some items, and begins what can be begun.
    pub(super) fn recut(&mut self, now: Now) {
        if self.recuts.deadline().is_none_or(|at| now.monotonic < at) {
            return;
        }
        self.bring_some(now);
        let misplaced: Vec<_> = self.recuts.misplaced.keys().copied().collect();
        for (from, into) in misplaced {
            for cachelet in [from, into] {
                self.send_home(now, cachelet);
            }
            if self.can_recut(from, into) {
                self.begin_recut(now, from, into);
            }
        }
        let is_busy = self.recuts.sources().next().is_some();
        let pause = if is_busy { Duration::ZERO } else { LOOK };
        self.recuts.next_look = now.monotonic + pause;
    }

    /// Orders a cachelet that this worker hosts to its home worker.
    fn send_home(&mut self, now: Now, cachelet: CacheletId) {
        let me = self.config.index;
        let home = self.placement.seat(cachelet).map(|seat| seat.home);
        let Some(home) = home.filter(|home| *home != me) else {
            return;
        };
        if self.hosts_cachelet(cachelet) && !self.handovers.is_ordered(cachelet) {
            self.order_move(now, cachelet, home);
        }
    }

    fn can_recut(&self, from: CacheletId, into: CacheletId) -> bool {
        let is_ready = |cachelet| {
            let seat = self.placement.seat(cachelet);
            let me = self.config.index;
            seat.is_some_and(|seat| (seat.home, seat.worker) == (me, me))
                && self.engine.store.has(cachelet)
                && self.handovers.is_settled(cachelet, me)
                && !self.recuts.join(cachelet)
                && !self.migrations.is_under_way(cachelet)
        };
        let is_new = !self.placement.has_any_in(into)
            && !self.engine.store.has(into)
            && !self.migrations.is_under_way(into);
        is_ready(from) && (is_new || is_ready(into))
    }

    fn begin_recut(&mut self, now: Now, from: CacheletId, into: CacheletId) {
        let Some(pieces) = self.recuts.misplaced.get(&(from, into)).cloned() else {
            return;
        };
        let is_split = self.engine.store.create_cachelet(into);
        if !self.engine.store.begin_join(into, from) {
            return;
        }
        let me = self.config.index;
        let others = (0..self.config.workers).filter(|worker| *worker != me);
        let joining = Joining {
            from,
            is_brought: false,
            is_split,
            stragglers: others.clone().collect(),
        };
        self.recuts.joins.insert(into, joining);
        let lately = &mut self.recuts.lately;
        lately.retain(|(at, ..)| now.monotonic.since(*at) < FLUSH_REACH);
        lately.push((now.monotonic, from, into));
        for worker in others {
            let recut = Recut {
                from,
                into,
                pieces: pieces.clone(),
                epoch: self.placement.epoch(),
            };
            self.outbox.push(worker, Message::Recut(Box::new(recut)));
        }
        self.change_cachelet(from, into, &pieces);
        self.settle_meters(now.monotonic);
    }

    /// The pieces are in the other cachelet from here on.
    fn change_cachelet(&mut self, from: CacheletId, into: CacheletId, pieces: &[u16]) {
        if !self.placement.has_any_in(into) {
            // Where another cachelet of that number was once, is of no interest.
            self.handovers.forget(into);
        }
        self.placement.recut(from, into, pieces);
        self.handovers.note_heir(from, into);
        for cachelet in [from, into] {
            match self.placement.seat(cachelet) {
                Some(seat) => self.handovers.set_stay(cachelet, seat.stay),
                None => self.handovers.forget(cachelet),
            }
        }
        if let Some(map) = self.map.clone() {
            self.look_for_misplaced(&map);
        }
    }

    /// The home worker of two cachelets has put pieces of one into the other.
    pub(super) fn take_recut(&mut self, home: u16, recut: Recut) {
        if recut.epoch > self.placement.epoch() {
            self.recuts.early.push((home, recut));
            return;
        }
        self.change_cachelet(recut.from, recut.into, &recut.pieces);
        self.outbox.push(home, Message::RecutHeard(recut.into));
    }

    /// Another worker has heard of what was put into a cachelet.
    pub(super) fn take_recut_heard(&mut self, now: Now, worker: u16, into: CacheletId) {
        if let Some(joining) = self.recuts.joins.get_mut(&into) {
            joining.stragglers.remove(&worker);
            self.end_joins(now);
        }
    }

    fn bring_some(&mut self, now: Now) {
        let Some((into, _)) = self.recuts.sources().next() else {
            return;
        };
        let seconds = TimeBase::seconds(now);
        let (store, placement) = (&mut self.engine.store, &self.placement);
        let is_part = |key: &[u8]| placement.cachelet_of(key) == into;
        if !store.step_join(into, seconds, STEP_BYTES, is_part)
            && let Some(joining) = self.recuts.joins.get_mut(&into)
        {
            joining.is_brought = true;
        }
        self.end_joins(now);
    }

    /// Lets go those to which nothing is left to do.
    fn end_joins(&mut self, now: Now) {
        let is_over = |joining: &Joining| joining.is_brought && joining.stragglers.is_empty();
        let joins = self.recuts.joins.iter();
        let over: Vec<_> = joins
            .filter_map(|(into, joining)| is_over(joining).then_some(*into))
            .collect();
        for into in &over {
            let Some(joining) = self.recuts.joins.remove(into) else {
                continue;
            };
            let counters = &mut self.engine.counters;
            match joining.is_split {
                true => counters.cachelets_split += 1,
                false => counters.cachelets_merged += 1,
            }
            if !self.placement.has_any_in(joining.from) {
                self.engine.store.drop_cachelet(joining.from);
            }
        }
        if !over.is_empty() {
            self.settle_meters(now.monotonic);
            self.find_migrations(now);
        }
    }
}
