//! Servers of rings that come and go: by an operator's order, or because no proxy reaches them.
//!
//! A server is *dead* when at least half of the proxies have not reached it for [`dead_after`](super::RingSettings::dead_after_ms), and no
//! other that is heard says that it does. In mode `automatic` its keys then go to its neighbours. No proxy asks it any more before any looks
//! for them there, so that a server that was only out of reach does no harm: it has nothing that is read again. A server that
//! comes back has a place in the list and no part of the ring, until an operator adds it.

use std::collections::BTreeMap;

use evenkeel_balance::ring::{costs, gives};
use evenkeel_control::FollowedPool;
use evenkeel_control::rings::RingPlan;
use evenkeel_placement::config::Server;
use evenkeel_placement::ring::Ring;
use evenkeel_schemes::stage::Stage;
use evenkeel_types::{Instant, Now};
use serde::{Deserialize, Serialize};

use super::rings::Ordered;
use super::{BadMoves, ChangeNews, ChangeRefusal, Changes, Led, LedRing, RingMode};
use crate::duration::millis;

/// A server that an operator wants to come or go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingServerRequest {
    /// What is to be done with it.
    pub what: ServerOrder,
    /// Which: a newcomer by its address, HOST or HOST:PORT, any other, also one that comes back, by what it is known by.
    pub server: String,
    /// How many proxies have the pool, as the operator knows. At least 1.
    pub proxies: usize,
}

/// What is done with a server of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerOrder {
    /// It gets a fair part of what those have that carry more than the mean.
    Add,
    /// What it has goes to its neighbours, with the items that are asked for meanwhile.
    Drain,
    /// It is dead: what it has goes to its neighbours, and nothing is brought from it.
    Lose,
}

/// A server that some proxy does not reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingUnreachedView {
    /// Its name.
    pub server: String,
    /// How many proxies do not reach it.
    pub proxies: usize,
    /// For how long the first of them has not, in milliseconds.
    pub for_ms: u64,
}

impl Led {
    /// A proxy that works by the present plan says which of its servers it does not reach. Servers that own nothing may be away.
    pub(super) fn handle_reach(&mut self, now: Instant, proxy: &str, followed: &FollowedPool) {
        let (Some(ring), Some(theirs)) = (&self.ring, &followed.ring) else {
            return;
        };
        if let Some(unreached) = theirs
            .unreached
            .as_ref()
            .filter(|_| theirs.number == ring.plan.number)
        {
            let listed = ring.plan.placement.servers.len();
            let listed = unreached.iter().filter(|it| usize::from(**it) < listed);
            let unreached: Vec<u16> = listed.copied().collect();
            self.reach.handle(now, proxy, &unreached);
        }
    }

    /// A server that owns something, is dead and may be lost, where that is done without an order. O(servers · proxies + slices).
    pub(super) fn dead(&self, now: Instant, is_silent: impl Fn(&str) -> bool) -> Option<u16> {
        let ring = self.ring.as_ref()?;
        let followers = self.change.followers();
        let settings = ring.settings;
        let is_done = settings.mode == RingMode::Automatic && settings.proxies == followers.len();
        if !is_done || self.reach.unreached.is_empty() {
            return None;
        }
        let shares = ring.present(self.change.step().stage).ok()?.shares();
        let owning = shares.iter().filter(|share| **share > 0).count();
        let is_dead = |server: u16| {
            let said = &self.reach.unreached[&server];
            let since = |proxy: &String| said.get(proxy);
            let is_long = |at: &Instant| now.since(*at) >= settings.dead_after();
            let long = followers.keys().filter_map(since).filter(|at| is_long(at));
            let mut others = followers
                .keys()
                .filter(|proxy| !since(proxy).is_some_and(is_long));
            long.count() * 2 >= followers.len() && others.all(|proxy| is_silent(proxy))
        };
        let mut unreached = self.reach.unreached.keys().copied();
        let owns = |server: u16| shares.get(usize::from(server)).is_some_and(|it| *it > 0);
        unreached
            .find(|&server| owns(server) && is_dead(server) && self.reach.may_lose(now, owning))
    }

    /// When a server that is not reached may be dead at the earliest, after this time.
    pub(super) fn may_be_dead_at(&self, now: Instant) -> Option<Instant> {
        let ring = self.ring.as_ref()?;
        let is_done = ring.settings.mode == RingMode::Automatic;
        let said = self.reach.unreached.values().flat_map(BTreeMap::values);
        let dead = said.map(|since| *since + ring.settings.dead_after());
        dead.filter(|at| is_done && *at > now).min()
    }

    /// The place in the list of the server that comes by the plan that is under way, if some proxy does not reach it.
    pub(super) fn unreached_newcomer(&self) -> Option<u16> {
        let server = self.ring.as_ref()?.plan.newcomer()?;
        let waits = self.change.step().stage == Stage::Former && self.change.is_under_way();
        (waits && self.reach.is_unreached(server)).then_some(server)
    }

    /// Whether the next step may be published, as far as time and a newcomer are concerned.
    pub(super) fn may_go_on(&self, now: Instant) -> bool {
        self.rests_until() <= Some(now) && self.unreached_newcomer().is_none()
    }

    /// What servers carry, as far as that is known; otherwise what they have of the ring.
    fn loads(&self, ring: &Ring) -> Vec<f64> {
        let carried = self.slots.last.as_ref().and_then(|it| it.carried.as_ref());
        let carried = carried.map(|carried| &carried.servers);
        let loads = carried.map(|servers| servers.iter().map(|of| of.load).collect());
        let is_of_all =
            |loads: &Vec<f64>| loads.len() == ring.servers() && loads.iter().sum::<f64>() > 0.0;
        let shares = || ring.shares().iter().map(|share| *share as f64).collect();
        loads.filter(is_of_all).unwrap_or_else(shares)
    }

    /// What a plan is to do by which a server gives all it has to its neighbours.
    fn leaves(&self, ring: &Ring, server: u16, is_lost: bool) -> Ordered {
        Ordered::Leaves {
            server,
            costs: costs(&self.loads(ring)),
            is_lost,
        }
    }

    /// The plan by which a dead server goes, if no other is under way or waits.
    fn plan_without(&self, server: u16) -> Option<RingPlan> {
        let of = self.ring.as_ref()?;
        let stage = self.change.step().stage;
        let rests = !self.change.is_under_way() && !of.waits();
        let ring = of.present(stage).ok().filter(|_| rests)?;
        of.next(stage, self.leaves(&ring, server, true)).ok()
    }

    /// What a plan is to do that an operator has ordered.
    fn ordered(
        &self,
        of: &LedRing,
        ring: &Ring,
        request: &RingServerRequest,
    ) -> Result<Ordered, BadMoves> {
        let name = &request.server;
        if request.what == ServerOrder::Add {
            let newcomer = of.newcomer_named(ring, name)?;
            return Ok(Ordered::Joins(newcomer, gives(ring, &self.loads(ring))));
        }
        let server = of.server_named(name)?;
        if !ring.owns(server) {
            let server = name.clone();
            return Err(BadMoves::NothingToGive { server });
        }
        Ok(self.leaves(ring, server, request.what == ServerOrder::Lose))
    }

    /// What is shown of servers that are not reached. Those that own nothing may be away, but for one that comes.
    pub(super) fn unreached(
        &self,
        ring: &LedRing,
        present: &Ring,
        now: Instant,
    ) -> Vec<RingUnreachedView> {
        let comes = ring.plan.newcomer().filter(|_| self.change.is_under_way());
        let unreached = self.reach.unreached.iter();
        let unreached =
            unreached.filter(|(server, _)| present.owns(**server) || comes == Some(**server));
        let view = unreached.map(|(server, said)| RingUnreachedView {
            server: ring.name_of(*server),
            proxies: said.len(),
            for_ms: said
                .values()
                .map(|at| millis(now.since(*at)))
                .max()
                .unwrap_or(0),
        });
        view.collect()
    }
}

impl LedRing {
    /// The server that is to come: one that was in the ring before, by what it is known by, or another one.
    fn newcomer_named(&self, ring: &Ring, name: &str) -> Result<Server, BadMoves> {
        let bad = |_| BadMoves::BadAddress {
            address: name.to_owned(),
        };
        let newcomer = match self.server_named(name) {
            Ok(known) => self.plan.placement.servers[usize::from(known)].clone(),
            Err(_) => name.parse().map_err(bad)?,
        };
        let server = newcomer.identity();
        match self.server_named(&server) {
            Ok(known) if ring.owns(known) => Err(BadMoves::OwnsAlready { server }),
            _ => Ok(newcomer),
        }
    }
}

impl Changes {
    /// A server of a ring comes or goes; this many proxies follow it, as an operator says.
    pub(crate) fn order_server(
        &mut self,
        now: Now,
        pool: &str,
        request: &RingServerRequest,
    ) -> Result<(), ChangeRefusal> {
        let plan = self.next_plan(pool, request.proxies, |led, of, stage| {
            let ring = of.present(stage)?;
            let ordered = led.ordered(of, &ring, request)?;
            Ok(of.next(stage, ordered)?)
        })?;
        self.order(now, pool, plan, ChangeNews::PlanOrdered);
        Ok(())
    }

    /// Takes back plans whose newcomer is not reached, and lets go of servers that are dead. O(pools · servers · proxies).
    pub(super) fn look_at_servers(&mut self, now: Now) {
        let concerns = |(_, led): &(&String, &Led)| led.has_dead || !led.reach.unreached.is_empty();
        let pools = self.pools.iter().filter(concerns);
        let pools: Vec<String> = pools.map(|(pool, _)| pool.clone()).collect();
        for pool in pools {
            self.withdraw_newcomer(now, &pool);
            self.lose_dead(now, &pool);
        }
    }

    fn withdraw_newcomer(&mut self, now: Now, pool: &str) {
        let Some(led) = self.pools.get_mut(pool) else {
            return;
        };
        // Anyone who did not reach it before it was there tries again within the look.
        let is_looked_at = led.rests_until() <= Some(now.monotonic);
        let is_unreached = is_looked_at && led.unreached_newcomer().is_some();
        if is_unreached && led.change.withdraw().is_ok() {
            let (number, step) = (
                led.ring.as_ref().map_or(0, |ring| ring.plan.number),
                led.change.step(),
            );
            (self.journal).note_plan(now, pool, ChangeNews::NewcomerUnreached, number, step);
        }
    }

    fn lose_dead(&mut self, now: Now, pool: &str) {
        let Some(led) = self.pools.get(pool) else {
            return;
        };
        let dead = led.dead(now.monotonic, |proxy| self.is_silent(now.monotonic, proxy));
        let plan = dead.and_then(|server| led.plan_without(server));
        let is_strange = self.strangers.of(pool).is_some();
        let Some(led) = self.pools.get_mut(pool) else {
            return;
        };
        led.has_dead = dead.is_some();
        if let Some(plan) = plan.filter(|_| !is_strange) {
            led.reach.note_loss(now.monotonic);
            self.order(now, pool, plan, ChangeNews::ServerLost);
        }
    }
}
