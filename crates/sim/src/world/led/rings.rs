//! What happens to a ring: an operator moves parts of it and has servers come and go, and each plan comes to something.

use super::super::World;
use super::super::event::Event;
use super::super::leading::Turn;
use super::super::led_report::{LedKind, Tally};
use super::super::led_ring::{KnownPlan, LedRing, RingOrder, listed};
use super::super::proxy::POOL;
use super::super::units::MS;
use evenkeel_control::rings::{RingMove, ServerChange};
use evenkeel_coordinator_core::{
    ChangeNews, GrainsMove, RingMode, RingMoveRequest, RingServerRequest, RingSettings,
    RingSettingsRequest, ServerOrder,
};
use evenkeel_schemes::stage::Stage;
use std::collections::BTreeSet;

/// For how long a plan warms once faults are over: the last ones have to be done before the end.
const WARMING_AT_LAST_MS: u64 = 200;

/// Most keys that one order moves.
const KEYS_MOVED_MAX: usize = 12;

/// Servers that a ring keeps whatever an operator orders.
const OWNERS_MIN: usize = 2;

impl World {
    fn ring(&self) -> Option<&LedRing> {
        self.led.as_ref()?.ring.as_ref()
    }

    fn ring_mut(&mut self) -> Option<&mut LedRing> {
        self.led.as_mut()?.ring.as_mut()
    }

    /// An operator looks how far the ring's plan is, and says what is to be next.
    pub(super) fn operate_ring(&mut self) {
        self.look_after_ring();
        let pause = self.random.between(50 * MS, 250 * MS);
        let begins = self.led.as_ref().map_or(0, |led| led.begins);
        let at = match self.time < begins {
            true => begins,
            false => self.time + pause,
        };
        self.at(at, Event::Led(Turn::Operate));
    }

    fn look_after_ring(&mut self) {
        let is_quiet = self.time >= self.plan.quiet_from();
        // His call has found nobody; he tries again.
        if self.coordinator_busy_until() > self.time {
            return;
        }
        let now = self.coordinator.process.now(self.time).monotonic;
        let Some(view) = self.coordinator.core.rings(now).rings.pop() else {
            return;
        };
        self.set_ring(view.settings, is_quiet);
        if view.change.goal != view.change.stage {
            return;
        }
        let begins = self.led.as_ref().map_or(0, |led| led.begins);
        let next = self.ring().and_then(|ring| ring.next.clone());
        match next {
            _ if is_quiet => self.lose_dead(),
            Some((order, _)) if begins <= self.time => self.order(&order),
            Some(_) => {}
            None => self.choose_order(),
        }
    }

    /// Has the ring follow its load as is wanted. Once faults are over nothing moves of itself any more.
    fn set_ring(&mut self, present: RingSettings, is_quiet: bool) {
        let Some(mut wanted) = self.ring().map(|ring| ring.settings) else {
            return;
        };
        if is_quiet {
            wanted.mode = RingMode::Observe;
            wanted.warming_ms = WARMING_AT_LAST_MS;
        }
        if present == wanted {
            return;
        }
        let request = RingSettingsRequest {
            mode: Some(wanted.mode),
            proxies: Some(wanted.proxies),
            slot_ms: Some(wanted.slot_ms),
            warming_ms: Some(wanted.warming_ms),
            dead_after_ms: Some(wanted.dead_after_ms),
            ..RingSettingsRequest::default()
        };
        let now = self.coordinator.process.now(self.time);
        let set = self.coordinator.core.set_ring(now, POOL, &request);
        set.expect("sound settings of a ring that there is");
        self.narrate(&[], || format!("an operator wants {wanted:?}"));
        self.save_before_telling();
        self.look_at_change();
    }

    /// Decides what is next, a while before it is ordered: something may go wrong with those that are to give.
    fn choose_order(&mut self) {
        let begins = self.time + self.random.between(100 * MS, 1_500 * MS);
        if begins >= self.plan.quiet_from() {
            return;
        }
        let Some(chosen) = self.some_order() else {
            return;
        };
        if let Some(led) = &mut self.led {
            led.begins = begins;
        }
        if let Some(ring) = self.ring_mut() {
            ring.next = Some(chosen);
        }
        self.trouble_the_beginning(begins);
    }

    /// The servers that have parts of the ring at present.
    fn owners(&self) -> BTreeSet<usize> {
        let Some(led) = &self.led else {
            return BTreeSet::new();
        };
        let known = led.ring.as_ref().and_then(|ring| ring.known.as_ref());
        known.map_or_else(BTreeSet::new, |known| known.owners(known.ring(led.stage())))
    }

    /// One of them whose process has died.
    pub(super) fn dead_owner(&self) -> Option<usize> {
        let mut owners = self.owners().into_iter();
        owners.find(|&server| !self.servers[server].process.alive)
    }

    fn some_order(&mut self) -> Option<(RingOrder, Vec<usize>)> {
        let owners: Vec<usize> = self.owners().into_iter().collect();
        let is_automatic = self.ring()?.settings.mode == RingMode::Automatic;
        // Where the coordinator would do it, he mostly waits.
        let share = if is_automatic { 4 } else { 2 };
        if let Some(dead) = self.dead_owner()
            && self.random.chance(1, share)
        {
            return self.loss_of(dead, owners.len());
        }
        let some = owners[self.random.index(owners.len())];
        let may_go = owners.len() > OWNERS_MIN;
        match self.random.below(20) {
            0..5 => {
                let server = self.some_newcomer(&owners)?;
                Some(self.server_order(ServerOrder::Add, server, owners))
            }
            5..8 if may_go => Some(self.server_order(ServerOrder::Drain, some, vec![some])),
            // He is wrong: it lives.
            8 if may_go => Some(self.server_order(ServerOrder::Lose, some, vec![some])),
            _ => self.some_moves(&owners),
        }
    }

    /// What is done about one of so many owners that has died: it is lost, or begins anew where it is the last.
    fn loss_of(&mut self, dead: usize, owners: usize) -> Option<(RingOrder, Vec<usize>)> {
        if owners == 1 {
            self.start_again_soon(dead);
            return None;
        }
        Some(self.server_order(ServerOrder::Lose, dead, vec![dead]))
    }

    fn start_again_soon(&mut self, server: usize) {
        let delay = self.random.below(100 * MS);
        self.after(delay, Event::Restart { server });
    }

    fn server_order(
        &self,
        what: ServerOrder,
        server: usize,
        givers: Vec<usize>,
    ) -> (RingOrder, Vec<usize>) {
        let request = RingServerRequest {
            what,
            server: listed(server).identity(),
            proxies: self.proxies.len(),
        };
        (RingOrder::Server(request), givers)
    }

    /// A server without a part of the ring. One that has died begins anew, empty.
    fn some_newcomer(&mut self, owners: &[usize]) -> Option<usize> {
        let others = (0..self.servers.len()).filter(|server| !owners.contains(server));
        let others: Vec<usize> = others.collect();
        if others.is_empty() {
            return None;
        }
        let server = others[self.random.index(others.len())];
        if !self.servers[server].process.alive {
            self.start_again_soon(server);
        }
        Some(server)
    }

    /// Parts change hands: back to where they were, those of some keys, or some amount.
    fn some_moves(&mut self, owners: &[usize]) -> Option<(RingOrder, Vec<usize>)> {
        let proxies = self.proxies.len();
        let (kind, to) = (self.random.below(4), self.random.index(self.servers.len()));
        let from = owners[self.random.index(owners.len())];
        let grains = self.random.between(50, 1_500) as u32;
        let count = 1 + self.random.index(KEYS_MOVED_MAX);
        let keys: Vec<usize> = (0..count).map(|_| self.some_text()).collect();
        let led = self.led.as_ref()?;
        let known = led.ring.as_ref()?.known.as_ref()?;
        let ring = known.ring(led.stage());
        let mut request = RingMoveRequest {
            proxies,
            ..RingMoveRequest::default()
        };
        let mut givers = Vec::new();
        let may_go_back = led.stage() == Stage::Done && !known.plan.moves.is_empty();
        match kind {
            0 | 1 if may_go_back => {
                let back = |of: &RingMove| RingMove {
                    to: known.plan.ring.owner(of.first),
                    ..*of
                };
                request.parts = known.plan.moves.iter().map(back).collect();
                givers = (0..self.servers.len())
                    .filter(|it| led.is_own(*it))
                    .collect();
            }
            2 => {
                let to = known.place(to).filter(|_| to != from)?;
                request.grains = vec![GrainsMove {
                    from: listed(from).identity(),
                    to: listed(known.host(to)).identity(),
                    grains,
                }];
                givers.push(from);
            }
            _ => {
                let to = known.place(to)?;
                let hashes = keys.iter().map(|&key| known.hash(&self.keys[key]));
                let hashes: BTreeSet<u32> = hashes.filter(|hash| ring.owner(*hash) != to).collect();
                for hash in hashes {
                    let (first, last) = (hash, hash);
                    request.parts.push(RingMove { first, last, to });
                    givers.push(known.host(ring.owner(hash)));
                }
            }
        }
        (!givers.is_empty()).then_some((RingOrder::Moves(request), givers))
    }

    /// Faults are over: who has died goes.
    fn lose_dead(&mut self) {
        if let Some(dead) = self.dead_owner()
            && let Some((order, _)) = self.loss_of(dead, self.owners().len())
        {
            self.order(&order);
        }
    }

    fn order(&mut self, order: &RingOrder) {
        let now = self.coordinator.process.now(self.time);
        let core = &mut self.coordinator.core;
        let ordered = match order {
            RingOrder::Moves(request) => core.begin_ring_move(now, POOL, request),
            RingOrder::Server(request) => core.begin_ring_server(now, POOL, request),
        };
        if let Some(ring) = self.ring_mut() {
            ring.next = None;
            if ordered.is_ok() {
                let present = ring.known.as_ref().map_or(0, |known| known.plan.number);
                ring.ordered = present + 1;
            }
        }
        self.narrate(&[], || match ordered {
            Ok(_) => format!("an operator orders {order:?}"),
            Err(refused) => format!("an operator is refused {order:?}: {refused}"),
        });
        self.save_before_telling();
        self.look_at_change();
    }

    /// The coordinator may have begun a plan, or taken one back that was not saved.
    pub(super) fn look_at_plan(&mut self) {
        let Some(plan) = self.coordinator.core.ring_plan(POOL) else {
            return;
        };
        let Some(ring) = self.ring_mut() else {
            return;
        };
        let known = ring.known.as_ref();
        if known.is_some_and(|known| known.plan == plan) {
            return;
        }
        let known = ring.known.insert(KnownPlan::new(plan));
        let words = format!("begins plan {}: {}", known.plan.number, known.words());
        let host = self.coordinator_host();
        self.narrate(&[host], || words);
    }

    /// The present plan has come to its end.
    pub(super) fn note_plan_done(&mut self) {
        let World {
            led: Some(led),
            report,
            keys,
            ..
        } = self
        else {
            return;
        };
        let Some(ring) = &mut led.ring else {
            return;
        };
        let Some(known) = ring.known.as_ref().filter(|it| it.plan.number > ring.done) else {
            return;
        };
        let number = known.plan.number;
        ring.done = number;
        let mut tell = |tally| report.led.tell(LedKind::Ring, tally, 1);
        tell(Tally::PlansDone);
        match known.server() {
            Some(ServerChange::Joins { .. }) => tell(Tally::ServersCame),
            Some(ServerChange::Leaves { is_lost: false, .. }) => tell(Tally::ServersDrained),
            Some(_) if ring.ordered == number => tell(Tally::ServersGivenUp),
            None if ring.ordered != number => tell(Tally::PlansMeasured),
            Some(_) | None => {}
        }
        ring.former_owners.resize_with(keys.len(), BTreeSet::new);
        for (key, had) in keys.iter().zip(&mut ring.former_owners) {
            let [from, to] = known.places(key).map(|place| place.server);
            if from != to {
                had.insert(from);
                if had.contains(&to) {
                    tell(Tally::KeysBack);
                }
            }
        }
    }

    /// What this life of the coordinator has done of itself.
    pub(super) fn count_ring(&mut self) {
        let core = &self.coordinator.core;
        let lost = core.change_counts().servers_lost;
        let unreached = core.change_events().iter();
        let unreached = unreached.filter(|event| event.what == ChangeNews::NewcomerUnreached);
        let unreached = unreached.count() as u64;
        let led = &mut self.report.led;
        led.tell(LedKind::Ring, Tally::ServersLost, lost);
        led.tell(LedKind::Ring, Tally::NewcomersUnreached, unreached);
    }

    /// Who has died and has a part of the ring at the end of a run, if anybody.
    pub(super) fn unrest_of_ring(&self) -> Option<String> {
        let dead = self.dead_owner()?;
        Some(format!("server {dead} has died and has a part of the ring"))
    }
}
