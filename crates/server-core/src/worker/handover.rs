//! Carries out [handovers](crate::ownership::handovers): gives cachelets to other workers, takes theirs, follows them.

use crate::mesh::handed_over::Errand;
use crate::mesh::handed_over::FlushGiven;
use crate::mesh::handed_over::Follow;
use crate::mesh::handed_over::Handover;
use crate::mesh::handed_over::Hosted;
use crate::mesh::held::Whom;
use crate::mesh::message::{Message, Task};
use crate::ownership::handovers::FLUSH_REACH;
use crate::ownership::handovers::Moved;
use crate::ownership::handovers::NotGiven;
use crate::ownership::handovers::ORDER_TIME;
use crate::placement::{Holder, LocalPlacement};
use crate::session::ConnectionId;
use crate::session::address::ReturnAddress;
use crate::shard::share::Share;
use crate::worker::core::WorkerCore;
use core::time::Duration;
use evenkeel_types::{CacheletId, Epoch, Instant, Now};
use std::collections::BTreeSet;

/// How often it is tried.
const ORDER_LOOK: Duration = Duration::from_millis(5);

/// What connections of this server should wait for a move at most: see
/// [`Counters::cachelet_waits_short`](crate::Counters::cachelet_waits_short).
const SHORT_WAIT: Duration = Duration::from_micros(100);

impl WorkerCore {
    /// Is to give a cachelet to another worker of this server, as soon as that is possible.
    pub fn order_move(&mut self, now: Now, cachelet: CacheletId, to: u16) {
        let until = now.monotonic + ORDER_TIME;
        self.handovers.orders.insert(cachelet, (to, until));
        self.carry_out_orders(now);
    }

    /// The cachelet in which a key is here.
    pub fn cachelet_of(&self, key: &[u8]) -> CacheletId {
        self.locate(key).place.cachelet
    }

    /// Whether this worker hosts a cachelet.
    pub fn hosts_cachelet(&self, cachelet: CacheletId) -> bool {
        let seat = self.placement.seat(cachelet);
        seat.is_some() && self.engine.store.has(cachelet)
    }

    /// Gives away what it was told to, where that is possible now.
    pub(crate) fn carry_out_orders(&mut self, now: Now) {
        if self.handovers.orders.is_empty() {
            return;
        }
        self.handovers.next_try = now.monotonic + ORDER_LOOK;
        for (cachelet, (to, until)) in core::mem::take(&mut self.handovers.orders) {
            match self.give(now, cachelet, to) {
                Ok(()) => {}
                Err(NotGiven::NotYet) if now.monotonic < until => {
                    self.handovers.orders.insert(cachelet, (to, until));
                }
                Err(_) => self.engine.counters.cachelets_kept += 1,
            }
        }
    }

    /// When an order should be looked at again.
    pub(crate) fn orders_deadline(&self) -> Option<Instant> {
        let waits = !self.handovers.orders.is_empty();
        waits.then_some(self.handovers.next_try)
    }

    /// Gives a cachelet to another worker of this server.
    fn give(&mut self, now: Now, cachelet: CacheletId, to: u16) -> Result<(), NotGiven> {
        let me = self.config.index;
        let seat = self.placement.seat(cachelet).ok_or(NotGiven::NotPossible)?;
        if self.is_between_servers(cachelet) {
            return Err(NotGiven::NotPossible);
        }
        if to >= self.config.workers || to == me {
            return Err(NotGiven::NotPossible);
        }
        let earlier = self.handovers.moved.get(&cachelet);
        if earlier.is_some_and(|moved| moved.host == me && !moved.stragglers.is_empty()) {
            return Err(NotGiven::NotYet);
        }
        if seat.holder != Holder::Worker(me) {
            return Err(NotGiven::NotPossible);
        }
        let moves = earlier.map_or(1, |moved| moved.moves + 1);
        if !(self.engine.hot).prepare_to_leave(now.monotonic, cachelet) {
            return Err(NotGiven::NotYet);
        }
        let taken = self.engine.store.detach(cachelet);
        let Some(contents) = taken else {
            return Err(NotGiven::NotPossible);
        };
        (self.engine.hot).handle_left(now.monotonic, cachelet, seat.home == me);
        self.placement.set_host(cachelet, Holder::Worker(to));
        let moved = Moved {
            stay: seat.stay,
            moves,
            host: to,
            no_orders_until: self.placement.epoch(),
            stragglers: BTreeSet::new(),
            changing: None,
            next: None,
        };
        self.handovers.moved.insert(cachelet, moved);
        let handover = Handover {
            cachelet: contents,
            stay: seat.stay,
            epoch: self.placement.epoch(),
            moves,
            newest: self.engine.newest_version(),
            meter: self.release_meter(cachelet),
        };
        self.outbox.push(to, Message::Handover(Box::new(handover)));
        let given = &mut self.handovers.given;
        given.retain(|(at, other)| *other != cachelet && now.monotonic.since(*at) < FLUSH_REACH);
        given.push((now.monotonic, cachelet));
        self.engine.counters.cachelets_given += 1;
        Ok(())
    }

    /// A cachelet comes from another worker.
    pub(crate) fn take_handover(&mut self, now: Now, from: u16, handover: Box<Handover>) {
        let cachelet = handover.cachelet.id();
        let (stay, moves) = (handover.stay, handover.moves);
        let seat = self.placement.seat(cachelet);
        let Some(seat) = seat.filter(|seat| seat.stay == stay) else {
            if handover.epoch > self.placement.epoch() {
                self.handovers.early_handovers.push((from, handover));
            } else {
                // The map has taken it from its former host, too, who has not heard so yet.
                self.engine.counters.cachelets_refused += 1;
            }
            return;
        };
        let me = self.config.index;
        let others = (0..self.config.workers).filter(|worker| *worker != from);
        let moved = Moved {
            stay,
            moves,
            host: me,
            no_orders_until: handover.epoch,
            stragglers: others.clone().collect(),
            changing: Some(now.monotonic),
            next: None,
        };
        self.handovers.moved.insert(cachelet, moved);
        self.engine.adopt_version(handover.newest);
        self.engine.store.attach(handover.cachelet);
        if let Some(meter) = handover.meter {
            self.admit_meter(cachelet, meter);
        }
        self.engine.hot.handle_came(cachelet, seat.home == me);
        self.engine.counters.cachelets_taken += 1;
        let (host, epoch) = (me, self.placement.epoch());
        for worker in others.filter(|worker| *worker != me) {
            let hosted = Hosted {
                cachelet,
                stay,
                epoch,
                moves,
                host,
            };
            self.outbox.push(worker, Message::Hosted(hosted));
        }
        self.follow(cachelet, stay, from);
        self.find_migrations(now);
    }

    /// The commands of this worker's connections wait until all before them have come to the new host.
    fn follow(&mut self, cachelet: CacheletId, stay: Epoch, former: u16) {
        self.placement.set_host(cachelet, Holder::Changing);
        let asker = self.config.index;
        let follow = Follow {
            cachelet,
            stay,
            asker,
        };
        self.outbox.push(former, Message::Follow(follow));
    }

    /// A cachelet is at another worker now.
    pub(crate) fn take_hosted(&mut self, now: Now, hosted: Hosted) {
        let Hosted { cachelet, stay, .. } = hosted;
        let seat = self.placement.seat(cachelet);
        let Some(seat) = seat.filter(|seat| seat.stay == stay) else {
            if hosted.epoch > self.placement.epoch() {
                self.handovers.early.push(hosted);
            }
            return;
        };
        let Holder::Worker(former) = seat.holder else {
            if let Some(moved) = self.handovers.moved.get_mut(&cachelet) {
                moved.next = Some(hosted);
            }
            return;
        };
        let moved = Moved {
            stay,
            moves: hosted.moves,
            host: hosted.host,
            no_orders_until: hosted.epoch,
            stragglers: BTreeSet::new(),
            changing: Some(now.monotonic),
            next: None,
        };
        self.handovers.moved.insert(cachelet, moved);
        self.follow(cachelet, stay, former);
    }

    /// Nothing of the asker's comes by the former host any more.
    pub(crate) fn take_follow(&mut self, now: Now, follow: Follow) {
        let Some(moved) = self.handovers.moved.get_mut(&follow.cachelet) else {
            return;
        };
        if moved.stay != follow.stay {
            return;
        }
        if moved.host != self.config.index {
            let host = moved.host;
            return self.outbox.push(host, Message::Follow(follow));
        }
        moved.stragglers.remove(&follow.asker);
        if follow.asker == self.config.index {
            self.take_followed(now, follow);
        } else {
            self.outbox.push(follow.asker, Message::Followed(follow));
        }
    }

    /// The commands of this worker's connections can go to the new host.
    pub(crate) fn take_followed(&mut self, now: Now, follow: Follow) {
        let Some(moved) = self.handovers.moved.get_mut(&follow.cachelet) else {
            return;
        };
        let Some(began) = moved.changing.filter(|_| moved.stay == follow.stay) else {
            return;
        };
        moved.changing = None;
        let (host, next) = (moved.host, moved.next.take());
        (self.placement).set_host(follow.cachelet, Holder::Worker(host));
        let waited = now.monotonic.since(began);
        let counters = &mut self.engine.counters;
        counters.cachelet_waits += 1;
        counters.cachelet_waits_short += u64::from(waited <= SHORT_WAIT);
        counters.cachelet_waits_us += u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        if let Some(next) = next {
            self.take_hosted(now, next);
        }
        self.wake_waiting();
    }

    /// A connection's command is about a cachelet that moves.
    #[cold]
    pub(crate) fn wait_for_host(&mut self, id: ConnectionId) {
        self.handovers.waiting.push(id);
        self.engine.counters.commands_waited += 1;
    }

    /// As [`wait_for_host`](Self::wait_for_host), if a key's cachelet moves.
    pub(crate) fn waits_for_host(&mut self, id: ConnectionId, key: &[u8]) -> bool {
        let waits = self.locate(key).place.holder() == Holder::Changing;
        if waits {
            self.wait_for_host(id);
        }
        waits
    }

    pub(crate) fn wake_waiting(&mut self) {
        for id in self.handovers.waiting.drain(..) {
            self.connections.touch(id);
        }
    }

    /// The server has another placement: forgets what was known of cachelets that it does not hold any more, or
    /// holds anew. Gives those that are hosted here otherwise than the placement itself says.
    pub(crate) fn revise_handovers(&mut self, placement: &LocalPlacement) -> BTreeSet<CacheletId> {
        let me = self.config.index;
        let seats = placement.seats();
        let hot = &mut self.engine.hot;
        self.handovers.moved.retain(|cachelet, moved| {
            let seat = seats.get(cachelet);
            let is_held = seat.is_some_and(|seat| seat.stay == moved.stay);
            if !is_held {
                hot.handle_host_by_map(*cachelet);
            }
            is_held
        });
        let moved = &self.handovers.moved;
        let passing = self.handovers.passing;
        self.handovers.orders.retain(|id, _| seats.contains_key(id));
        self.handovers
            .given
            .retain(|(_, id)| moved.contains_key(id));
        let hosted = seats.iter().filter_map(|(id, seat)| {
            let is_here = match seat.holder {
                Holder::Changing if passing == Some(*id) => true,
                Holder::Changing => moved.get(id)?.host == me,
                holder => holder == Holder::Worker(me),
            };
            is_here.then_some(*id)
        });
        hosted.collect()
    }

    /// Takes what came too early for the former placement.
    pub(crate) fn take_early(&mut self, now: Now) {
        for (from, handover) in core::mem::take(&mut self.handovers.early_handovers) {
            self.take_handover(now, from, handover);
        }
        for hosted in core::mem::take(&mut self.handovers.early) {
            self.take_hosted(now, hosted);
        }
        self.wake_waiting();
    }

    /// Whether a `flush_all` that this worker carries out must reach cachelets elsewhere.
    pub(crate) fn has_given_lately(&self, now: Now) -> bool {
        !self
            .handovers
            .given_lately(now.monotonic, self.config.index)
            .is_empty()
    }

    /// This worker has done its share in a `flush_all`. Gives the address back if that can be answered at once;
    /// otherwise it is answered later, by whoever is the last to be done. `asker` is the worker at which
    /// somebody waits.
    pub(crate) fn finish_flush(
        &mut self,
        now: Now,
        asker: u16,
        to: Option<ReturnAddress>,
    ) -> Option<ReturnAddress> {
        let me = self.config.index;
        let given = self.handovers.given_lately(now.monotonic, me);
        let errands = given.into_iter().map(|(host, cachelets)| Errand {
            by: me,
            host,
            cachelets,
        });
        let flush = FlushGiven {
            cachelets: Vec::new(),
            errands: errands.collect(),
            asker,
            to,
        };
        let flush = self.hold_flush(flush)?;
        if flush.errands.is_empty() {
            return flush.to;
        }
        self.pass_flush_on(now, flush);
        None
    }

    /// Another worker has flushed what it holds, and gave these away before.
    pub(crate) fn take_flush_given(&mut self, now: Now, mut flush: FlushGiven) {
        let me = self.config.index;
        for cachelet in core::mem::take(&mut flush.cachelets) {
            match self.handovers.moved.get(&cachelet).map(|moved| moved.host) {
                Some(host) if host != me => flush.errands.push(Errand {
                    by: me,
                    host,
                    cachelets: vec![cachelet],
                }),
                _ => {
                    self.engine.store.flush_cachelet(cachelet);
                }
            }
        }
        // Newer than everything that is gone, as after a delete.
        self.engine.next_version();
        self.engine.hot.handle_flush(now.monotonic);
        self.flush_ends_migrations(now);
        if let Some(flush) = self.hold_flush(flush) {
            self.pass_flush_on(now, flush);
        }
    }

    /// Keeps a `flush_all` while answers are held back, or gives it back.
    fn hold_flush(&mut self, flush: FlushGiven) -> Option<FlushGiven> {
        if flush.to.is_none() || !self.engine.hot.is_careful() {
            return Some(flush);
        }
        match self.wait_for_all(Whom::Flush(flush)) {
            Some(Whom::Flush(flush)) => Some(flush),
            _ => None,
        }
    }

    /// Sends a `flush_all` to the next host that it must reach, or the answer to who waits for it.
    pub(crate) fn pass_flush_on(&mut self, now: Now, mut flush: FlushGiven) {
        if let Some(errand) = flush.errands.pop() {
            let to = if errand.by == self.config.index {
                flush.cachelets = errand.cachelets;
                errand.host
            } else {
                let by = errand.by;
                flush.errands.push(errand);
                by
            };
            return self.outbox.push(to, Message::FlushGiven(flush));
        }
        let Some(to) = flush.to else { return };
        let task = Task::Flush { at_s: None };
        if flush.asker == self.config.index {
            return self.take_share(now, to, task, Share::Done);
        }
        let share = Share::Done;
        self.outbox
            .push(flush.asker, Message::Share { to, task, share });
    }
}
