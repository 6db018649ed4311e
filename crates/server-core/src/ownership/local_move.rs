//! Cachelets pass between the workers of a server: see [`handovers`](crate::ownership::handovers).

use crate::mesh::handed_over::{Follow, Handover, Hosted};
use crate::mesh::message::Message;
use crate::mesh::outbox::Outbox;
use crate::ownership::handovers::{FLUSH_REACH, Moved, NotGiven};
use crate::ownership::hosting::Hosting;
use crate::placement::{Holder, LocalPlacement};
use crate::shard::engine::Engine;
use core::time::Duration;
use evenkeel_hotkeys::server::HotKeys;
use evenkeel_types::{CacheletId, Epoch, Now};
use std::collections::BTreeSet;

/// How often it is tried to give a cachelet away.
const ORDER_LOOK: Duration = Duration::from_millis(5);

impl Hosting {
    /// Gives away what it was told to, where that is possible now.
    pub(crate) fn execute_orders(&mut self, engine: &mut Engine, outbox: &mut Outbox, now: Now) {
        if self.handovers.orders.is_empty() {
            return;
        }
        self.handovers.next_try = now.monotonic + ORDER_LOOK;
        for (cachelet, (to, until)) in core::mem::take(&mut self.handovers.orders) {
            match self.give(engine, outbox, now, cachelet, to) {
                Ok(()) => {}
                Err(NotGiven::NotYet) if now.monotonic < until => {
                    self.handovers.orders.insert(cachelet, (to, until));
                }
                Err(_) => engine.counters.cachelets_kept += 1,
            }
        }
    }

    /// Gives a cachelet to another worker of this server.
    fn give(
        &mut self,
        engine: &mut Engine,
        outbox: &mut Outbox,
        now: Now,
        cachelet: CacheletId,
        to: u16,
    ) -> Result<(), NotGiven> {
        let me = self.me.worker;
        let seat = self.placement.seat(cachelet).ok_or(NotGiven::NotPossible)?;
        if self.is_between_servers(cachelet) {
            return Err(NotGiven::NotPossible);
        }
        if to >= self.workers || to == me {
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
        if !(engine.hot).prepare_to_leave(now.monotonic, cachelet) {
            return Err(NotGiven::NotYet);
        }
        let taken = engine.store.detach(cachelet);
        let Some(contents) = taken else {
            return Err(NotGiven::NotPossible);
        };
        (engine.hot).handle_left(now.monotonic, cachelet, seat.home == me);
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
            newest: engine.newest_version(),
            meter: engine.meter.release(cachelet),
        };
        outbox.push(to, Message::Handover(Box::new(handover)));
        let given = &mut self.handovers.given;
        given.retain(|(at, other)| *other != cachelet && now.monotonic.since(*at) < FLUSH_REACH);
        given.push((now.monotonic, cachelet));
        engine.counters.cachelets_given += 1;
        Ok(())
    }

    /// A cachelet comes from another worker. Whether this one hosts it from now on.
    pub(crate) fn take_handover(
        &mut self,
        engine: &mut Engine,
        outbox: &mut Outbox,
        now: Now,
        from: u16,
        handover: Box<Handover>,
    ) -> bool {
        let cachelet = handover.cachelet.id();
        let (stay, moves) = (handover.stay, handover.moves);
        let seat = self.placement.seat(cachelet);
        let Some(seat) = seat.filter(|seat| seat.stay == stay) else {
            if handover.epoch > self.placement.epoch() {
                self.handovers.early_handovers.push((from, handover));
            } else {
                // The map has taken it from its former host, too, who has not heard so yet.
                engine.counters.cachelets_refused += 1;
            }
            return false;
        };
        let me = self.me.worker;
        let others = (0..self.workers).filter(|worker| *worker != from);
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
        engine.adopt_version(handover.newest);
        engine.store.attach(handover.cachelet);
        if let Some(meter) = handover.meter {
            engine.meter.admit(cachelet, meter);
        }
        engine.hot.handle_came(cachelet, seat.home == me);
        engine.counters.cachelets_taken += 1;
        let (host, epoch) = (me, self.placement.epoch());
        for worker in others.filter(|worker| *worker != me) {
            let hosted = Hosted {
                cachelet,
                stay,
                epoch,
                moves,
                host,
            };
            outbox.push(worker, Message::Hosted(hosted));
        }
        self.follow(outbox, cachelet, stay, from);
        true
    }

    /// The commands of this worker's connections wait until all before them have come to the new host.
    fn follow(&mut self, outbox: &mut Outbox, cachelet: CacheletId, stay: Epoch, former: u16) {
        self.placement.set_host(cachelet, Holder::Changing);
        let asker = self.me.worker;
        let follow = Follow {
            cachelet,
            stay,
            asker,
        };
        outbox.push(former, Message::Follow(follow));
    }

    /// A cachelet is at another worker now.
    pub(crate) fn take_hosted(&mut self, outbox: &mut Outbox, now: Now, hosted: Hosted) {
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
        self.follow(outbox, cachelet, stay, former);
    }

    /// Nothing of the asker's comes by the former host any more. Whether that is to be told to this worker.
    pub(crate) fn take_follow(&mut self, outbox: &mut Outbox, follow: Follow) -> bool {
        let moved = self.handovers.moved.get_mut(&follow.cachelet);
        let Some(moved) = moved.filter(|moved| moved.stay == follow.stay) else {
            return false;
        };
        if moved.host != self.me.worker {
            outbox.push(moved.host, Message::Follow(follow));
            return false;
        }
        moved.stragglers.remove(&follow.asker);
        if follow.asker == self.me.worker {
            return true;
        }
        outbox.push(follow.asker, Message::Followed(follow));
        false
    }

    /// The commands of this worker's connections can go to the new host. Gives for how long they waited, if they did.
    pub(crate) fn take_followed(
        &mut self,
        outbox: &mut Outbox,
        now: Now,
        follow: Follow,
    ) -> Option<Duration> {
        let moved = self.handovers.moved.get_mut(&follow.cachelet)?;
        let began = moved.changing.filter(|_| moved.stay == follow.stay)?;
        moved.changing = None;
        let (host, next) = (moved.host, moved.next.take());
        (self.placement).set_host(follow.cachelet, Holder::Worker(host));
        if let Some(next) = next {
            self.take_hosted(outbox, now, next);
        }
        Some(now.monotonic.since(began))
    }

    /// The server has another placement: forgets what was known of cachelets that it does not hold any more, or
    /// holds anew. Gives those that are hosted here otherwise than the placement itself says.
    pub(crate) fn revise_handovers(
        &mut self,
        hot: &mut HotKeys,
        placement: &LocalPlacement,
    ) -> BTreeSet<CacheletId> {
        let me = self.me.worker;
        let seats = placement.seats();
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
        (self.handovers.given).retain(|(_, id)| moved.contains_key(id));
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
}
