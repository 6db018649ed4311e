//! Autoscaling of rings, where it meets them: what is seen of a ring, and what comes of the acts that are asked of it.
//!
//! An operator's orders and those of autoscaling go the same way into a ring, so a server that comes or goes is saved together with the phase
//! that asked for it.
//!
//! Servers are known to an actuator, to trials and here by their places, `HOST:PORT`: a ring may know one by another name.

use std::collections::BTreeMap;

use evenkeel_control::rings::{RingPlan, ServerChange};
use evenkeel_placement::config::Server;
use evenkeel_placement::ring::Ring;
use evenkeel_schemes::stage::Stage;
use evenkeel_types::{Instant, Now};

use super::ring_slots::Slot;
use super::{ChangeRefusal, Changes, Led, LedRing, RingMode, RingServerRequest, ServerOrder};
use crate::scale::{
    Act, Measure, Measures, Outcome, Part, PoolServer, ScaleMode, ScaleSettings, ScaleTryView,
    ScaleView, Scaled, Scaling, Seen, limits, place,
};

impl LedRing {
    /// The place of a server, `HOST:PORT`.
    pub(super) fn place_of(&self, server: u16) -> Option<String> {
        let servers = &self.plan.placement.servers;
        servers.get(usize::from(server)).map(place_of)
    }

    /// What it is known by that is at a place; the place, where the ring has none there.
    fn name_at(&self, at: &str) -> String {
        let mut servers = self.plan.placement.servers.iter();
        let found = servers.find(|server| place_of(server) == at);
        found.map_or_else(|| at.to_owned(), Server::identity)
    }
}

/// Where a server is reached.
fn place_of(server: &Server) -> String {
    place(&server.host, server.port)
}

/// The server that comes or goes by a plan.
fn under_way(plan: &RingPlan) -> Option<(u16, Part)> {
    Some(match plan.server.as_ref()? {
        ServerChange::Joins { server, .. } => (*server, Part::Comes),
        ServerChange::Leaves { server, .. } => (*server, Part::Leaves),
    })
}

impl Led {
    /// What autoscaling sees of its ring. O(slices + servers).
    fn scale_seen(&self, now: Instant) -> Seen {
        Seen {
            measures: self.measures(now),
            pool: self.ring_seen(),
            ..Seen::default()
        }
    }

    /// Servers of the ring, by place, that have anything of it. O(slices + servers).
    fn ring_seen(&self) -> BTreeMap<String, PoolServer> {
        let (Some(ring), step) = (&self.ring, self.change.step()) else {
            return BTreeMap::new();
        };
        let Ok(present) = ring.present(step.stage) else {
            return BTreeMap::new();
        };
        let owning = (0..).zip(present.shares()).filter(|(_, share)| *share > 0);
        let mut parts: BTreeMap<u16, Part> =
            owning.map(|(server, _)| (server, Part::Owns)).collect();
        let is_under_way = self.change.is_under_way();
        // Who has not heard yet that it is done may still ask the one that has gone.
        let is_asked = || self.change.waits_for().next().is_some();
        let by_present = under_way(&ring.plan).filter(|(_, part)| {
            is_under_way || *part == Part::Leaves && step.stage == Stage::Done && is_asked()
        });
        parts.extend(by_present);
        let seen = |(server, part)| {
            let is_unreached = self.reach.is_unreached(server);
            Some((ring.place_of(server)?, PoolServer { part, is_unreached }))
        };
        let mut seen: BTreeMap<String, PoolServer> = parts.into_iter().filter_map(seen).collect();
        // A newcomer that waits stands in the list of its own plan alone.
        if let Some(next) = &ring.waiting
            && let Some((server, part)) = under_way(next)
            && let Some(at) = next.placement.servers.get(usize::from(server))
        {
            let is_unreached = false;
            seen.entry(place_of(at))
                .and_modify(|it| it.part = part)
                .or_insert(PoolServer { part, is_unreached });
        }
        seen
    }

    /// Whether settings are some by which it can be decided.
    fn check_scale(&self, pool: &str, settings: &ScaleSettings) -> Result<(), ChangeRefusal> {
        let Some(ring) = &self.ring else {
            return Err(ChangeRefusal::NoRing { pool: pool.into() });
        };
        let bad = |why| ChangeRefusal::BadSettings { why };
        settings.validate().map_err(|why| bad(why.to_string()))?;
        if settings.band(Measure::BusiestShare).is_some() {
            let why = "busiest_share: no threshold can be set in a ring, for memcacheds do not say what they could carry; \
                       set requests_per_server";
            return Err(bad(why.into()));
        }
        let acts = matches!(settings.mode, ScaleMode::Approve | ScaleMode::Automatic);
        if acts && ring.settings.proxies == 0 {
            return Err(bad(format!(
                "say first how many proxies have the pool: `evenkeel ring settings {pool} --proxies N`"
            )));
        }
        Ok(())
    }

    /// What was measured last, if that is not long ago: a slot in which a ring changes says nothing, and the next one does.
    fn measures(&self, now: Instant) -> Measures {
        let is_new = |(at, _): &(Instant, Measures)| {
            let settings = self.ring.as_ref().map(|ring| ring.settings);
            let measured = settings.filter(|it| it.mode != RingMode::Off);
            measured.is_some_and(|it| now.since(*at) < it.slot() * limits::MEASURED_SLOTS)
        };
        let measured = self.measured.filter(is_new);
        measured.map_or_else(Measures::default, |(_, measures)| measures)
    }
}

/// What a slot says of the number of servers of the ring that it was of.
pub(super) fn measures_of(slot: &Slot, ring: &Ring) -> Option<Measures> {
    let carried = slot.carried.as_ref()?;
    let owning = ring.shares().iter().filter(|share| **share > 0).count();
    let sum = |of: fn(&evenkeel_balance::ring::GrainCounts) -> u64| {
        carried.servers.iter().map(of).sum::<u64>() as f64
    };
    let (gets, hits, sets) = (sum(|it| it.gets), sum(|it| it.hits), sum(|it| it.sets));
    Some(Measures {
        requests_per_server: Some((gets + sets) / owning as f64),
        busiest_share: None,
        p99_us: slot.p99_us.map(|us| us as f64),
        hit_rate: (gets > 0.0).then(|| hits / gets),
        utilization: None,
    })
}

impl Changes {
    /// Changes how the number of servers of a pool's ring follows what is measured.
    pub(crate) fn set_scale(
        &mut self,
        now: Now,
        pool: &str,
        settings: &ScaleSettings,
        all: &mut Scaled,
    ) -> Result<(), ChangeRefusal> {
        let led = self.led(pool)?;
        led.check_scale(pool, settings)?;
        let scaling = led.scaling.get_or_insert_with(|| Scaling::new(pool));
        scaling.led.settings = *settings;
        self.journal.has_news = true;
        self.scale(now, (pool, None, false), all);
        Ok(())
    }

    /// What would be decided at this moment by settings that are not set.
    pub(crate) fn try_scale(
        &self,
        now: Instant,
        pool: &str,
        settings: &ScaleSettings,
    ) -> Result<ScaleTryView, ChangeRefusal> {
        let led = self.pools.get(pool);
        let led = led.ok_or_else(|| ChangeRefusal::UnknownPool { pool: pool.into() })?;
        led.check_scale(pool, &settings.tried())?;
        Ok(ScaleTryView::of(now, pool, settings, &led.scale_seen(now)))
    }

    /// What waits for an operator's approval is done.
    pub(crate) fn approve_scale(
        &mut self,
        now: Now,
        pool: &str,
        all: &mut Scaled,
    ) -> Result<(), ChangeRefusal> {
        let scaling = self.led(pool)?.scaling.as_ref();
        if !scaling.is_some_and(|it| it.waits_for_approval(now.monotonic)) {
            let pool = pool.to_owned();
            return Err(ChangeRefusal::NothingToApprove { pool });
        }
        self.scale(now, (pool, None, true), all);
        Ok(())
    }

    /// How the autoscaling of rings stands, by the pool's name. O(pools · (slices + servers)).
    pub(crate) fn scale_views(&self, now: Instant) -> impl Iterator<Item = ScaleView> {
        let scaled = self.pools.values();
        scaled.filter_map(move |led| Some(led.scaling.as_ref()?.view(now, &led.scale_seen(now))))
    }

    /// What rings that are scaled ask for, each with its pool. O(pools).
    pub(crate) fn scale_acts(&self) -> impl Iterator<Item = (&str, &Act)> {
        let scaled = self.pools.iter();
        scaled.filter_map(|(pool, led)| Some((pool.as_str(), led.scaling.as_ref()?.act.as_ref()?)))
    }

    /// The pools whose rings are scaled.
    pub(crate) fn scaled(&self) -> impl Iterator<Item = &String> {
        let scaled = self.pools.iter().filter(|(_, led)| led.scaling.is_some());
        scaled.map(|(pool, _)| pool)
    }

    /// Decides of a ring, where something may have come of an act, and an operator may have approved what waits; and orders of the ring what is
    /// asked of it. O(slices + servers · log servers).
    pub(crate) fn scale(
        &mut self,
        now: Now,
        (pool, outcome, is_approved): (&str, Option<Outcome>, bool),
        all: &mut Scaled,
    ) {
        let Some(led) = self.pools.get_mut(pool) else {
            return;
        };
        let seen = Seen {
            outcome,
            is_approved,
            ..led.scale_seen(now.monotonic)
        };
        let Some(scaling) = &mut led.scaling else {
            return;
        };
        self.journal.has_news |= scaling.decide(now, seen, all);
        self.order_act(now, pool);
    }

    /// What is asked of the ring is ordered, as an operator would.
    fn order_act(&mut self, now: Now, pool: &str) {
        let Some(led) = self.pools.get_mut(pool) else {
            return;
        };
        let (Some(ring), Some(scaling)) = (&led.ring, &mut led.scaling) else {
            return;
        };
        let (what, at) = match &scaling.act {
            Some(Act::Join { address }) => (ServerOrder::Add, address),
            Some(Act::Drain { address }) => (ServerOrder::Drain, address),
            _ => return,
        };
        let request = RingServerRequest {
            what,
            server: ring.name_at(at),
            proxies: ring.settings.proxies,
        };
        let Some(act) = scaling.act.take() else {
            return;
        };
        let outcome = match self.order_server(now, pool, &request) {
            Ok(()) => Outcome::Done(act),
            Err(refused) => Outcome::Failed(act, refused.to_string()),
        };
        let scaling = self
            .pools
            .get_mut(pool)
            .and_then(|led| led.scaling.as_mut());
        if let Some(scaling) = scaling {
            scaling.outcome = Some(outcome);
        }
    }
}
