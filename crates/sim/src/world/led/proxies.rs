//! Proxies that follow a pool's change: what they are told, what they say, and their lives.

use super::super::World;
use super::super::event::Event;
use super::super::fault::Fault;
use super::super::leading::{Followed, Led, Turn};
use super::super::led_report::Mischance;
use super::super::proxy::POOL;
use super::super::proxy::{MAP_SOURCE, Proxy};
use super::super::units::MS;
use crate::history::Nanos;
use evenkeel_control::rings::{FollowedRing, RingCounts};
use evenkeel_control::{FollowedPool, PoolStep};
use evenkeel_proxy_core::{BundleUpdate, PlannedRing, PoolUpdate};
use evenkeel_schemes::stage::{Stage, Step};
use std::sync::Arc;

/// How long a process goes on that is told that its name is another's.
const NAME_PATIENCE: Nanos = 1_000 * MS;

impl World {
    /// What a proxy says of the pool that it follows.
    pub(in crate::world) fn followed_by(&self, proxy: usize) -> Vec<FollowedPool> {
        let Some(led) = &self.led else {
            return Vec::new();
        };
        let Followed {
            told,
            acknowledged,
            copies,
            ..
        } = led.followed[proxy];
        let ring = self.ring_followed_by(proxy);
        let newest = told.map_or(0, |step| step.version);
        // With a fault: whatever is under way.
        let forged = self.has_fault(Fault::AcknowledgedEarly) || self.is_deaf_to_steps(proxy);
        vec![FollowedPool {
            pool: POOL.into(),
            told,
            acknowledged: if forged {
                newest
            } else {
                acknowledged.min(newest)
            },
            ring,
            bundle: self.copies_followed(copies),
            found: None,
        }]
    }

    /// By which plan of its ring it works, and what it has to say of that.
    fn ring_followed_by(&self, proxy: usize) -> Option<FollowedRing> {
        let led = self.led.as_ref()?;
        let wish = &led.ring.as_ref()?.wish;
        let followed = &led.followed[proxy];
        let plan = followed.ring.as_ref();
        let number = plan.map_or(0, |plan| plan.number());
        let unreached = followed.unreached.as_ref();
        let unreached = unreached.filter(|(of, _)| *of == number);
        Some(FollowedRing {
            number,
            incarnation: plan.map_or(0, |plan| plan.incarnation()),
            wish: plan.is_none().then(|| wish.clone()),
            counts: followed.counts.clone(),
            unreached: unreached.map(|(_, servers)| servers.clone()),
        })
    }

    /// The same of one that works by the newest plan.
    pub(super) fn ring_known(&self) -> Option<FollowedRing> {
        let known = self.led.as_ref()?.ring.as_ref()?.known.as_ref()?;
        Some(FollowedRing {
            number: known.plan.number,
            incarnation: known.plan.incarnation,
            wish: None,
            counts: None,
            unreached: None,
        })
    }

    /// A heartbeat of a proxy has left, and with it what it had counted.
    pub(in crate::world) fn forget_counts(&mut self, host: usize) {
        if let Some(led) = &mut self.led {
            led.followed[host - self.servers.len()].counts = None;
        }
    }

    /// A proxy does not reach these servers of the plan with this number.
    pub(in crate::world) fn unreached(&mut self, proxy: usize, plan: u64, servers: Vec<u16>) {
        if let Some(led) = &mut self.led {
            led.followed[proxy].unreached = Some((plan, servers));
        }
    }

    /// With a fault: whether a proxy works by the former stage for ever.
    fn is_deaf_to_steps(&self, proxy: usize) -> bool {
        self.has_fault(Fault::StageKept) && proxy == 0
    }

    /// A proxy learns how far its pool is to be.
    pub(in crate::world) fn handle_steps(&mut self, proxy: usize, steps: &[PoolStep]) {
        let Some(news) = steps.iter().find(|news| news.pool == POOL) else {
            return;
        };
        self.handle_step(proxy, news);
        // Even if the step is an old one.
        let slot = news.ring.as_ref().and_then(|ring| ring.slot);
        if let Some(slot) = slot {
            self.count_ring_of(proxy, slot);
        }
    }

    fn handle_step(&mut self, proxy: usize, news: &PoolStep) {
        let Step { version, stage } = news.step;
        let is_deaf = self.is_deaf_to_steps(proxy) && stage != Stage::Former;
        let returns = self.has_fault(Fault::OldRingKept) && self.proxies[proxy].process.life > 0;
        let Some(led) = &mut self.led else {
            return;
        };
        let followed = &mut led.followed[proxy];
        if followed.told.is_some_and(|told| told.version >= version) {
            return;
        }
        let ring = match (&led.ring, &news.ring) {
            (None, _) => None,
            (Some(_), Some(ring)) => match (&ring.plan, &followed.ring) {
                (Some(plan), _) => Some(Arc::new(PlannedRing::new(plan).expect("a plan"))),
                (None, Some(known)) if known.number() == ring.number => Some(Arc::clone(known)),
                // Without its plan it is of no use, and is told again.
                (None, _) => return,
            },
            (Some(_), None) => return,
        };
        let is_old = returns && ring.is_some() && followed.told.is_none();
        followed.told = Some(news.step);
        followed.ring.clone_from(&ring);
        followed.copies = news.bundle.map(|told| told.plan);
        let host = self.servers.len() + proxy;
        let plan = ring.as_ref().map(|ring| ring.number());
        self.narrate(&[host], || {
            let of_plan = plan.map_or_else(String::new, |plan| format!(" of plan {plan}"));
            format!("is told of step {version}, {stage}{of_plan}")
        });
        // One that works by the former stage has to be told that.
        let forged = (is_deaf || is_old).then_some(Step {
            version,
            stage: Stage::Former,
        });
        // Each proxy has one worker.
        let bundle = news.bundle.map(|told| BundleUpdate {
            plan: self.forged_plan(told.plan),
            fillers: told.proxies,
        });
        let p = &mut self.proxies[proxy];
        let now = p.process.now(self.time).monotonic;
        let step = forged.unwrap_or(news.step);
        p.core.set_step(
            now,
            MAP_SOURCE,
            POOL,
            Some(PoolUpdate { step, ring, bundle }),
        );
        self.pump_proxy(proxy);
    }

    /// A proxy is asked what its ring has carried.
    fn count_ring_of(&mut self, proxy: usize, slot: u64) {
        let p = &mut self.proxies[proxy];
        let now = p.process.now(self.time).monotonic;
        let counted = p.core.ring_counted(now, MAP_SOURCE, POOL);
        if let Some(led) = &mut self.led {
            led.followed[proxy].counts = counted.map(|counted| RingCounts {
                slot,
                plan: counted.plan,
                moved: counted.moved,
                micros: counted.micros,
                grains: counted.grains,
                down: counted.down,
                // No ring here is scaled by it.
                p99_us: None,
            });
        }
    }

    /// A proxy has nothing under way any more that was begun before a step: the coordinator hears of it at once.
    pub(in crate::world) fn acknowledged(&mut self, proxy: usize, version: u64) {
        let Some(led) = &mut self.led else {
            return;
        };
        let followed = &mut led.followed[proxy];
        followed.acknowledged = followed.acknowledged.max(version);
        let host = self.servers.len() + proxy;
        self.narrate(&[host], || format!("acknowledges step {version}"));
        self.send_heartbeat_soon(host);
    }

    /// A proxy's process dies, and another begins later.
    pub(super) fn kill_proxy(&mut self, proxy: usize, back: Nanos) -> bool {
        let host = self.servers.len() + proxy;
        let p = &mut self.proxies[proxy];
        if !p.process.alive {
            return false;
        }
        p.process.alive = false;
        p.process.stopped_until = 0;
        self.report.take_proxy(p.core.stats());
        if let Some(led) = &self.led {
            self.report.led.take_proxy(led.kind(), &p.core);
        }
        self.narrate(&[host], || "is killed".into());
        self.abandon_connections(host);
        self.at(back, Event::Led(Turn::StartProxy { proxy }));
        self.note_mischance(Mischance::ProxyKilled);
        true
    }

    /// A proxy is told that another process has its name. A heartbeat of a former life can be why, which came late: it takes the name of one
    /// that was silent for a while. From then on nothing is asked, and after a while the process ends, as real ones do.
    pub(super) fn lose_name(&mut self, proxy: usize, life: u32) {
        let host = self.servers.len() + proxy;
        let again = |()| Event::Led(Turn::NameLost { proxy, life });
        if self.admit(host, life, (), again).is_none() {
            return;
        }
        let Some(led) = &mut self.led else {
            return;
        };
        let followed = &mut led.followed[proxy];
        (followed.told, followed.ring, followed.copies) = (None, None, None);
        (followed.counts, followed.unreached) = (None, None);
        let is_known = core::mem::replace(&mut followed.has_lost_name, true);
        let p = &mut self.proxies[proxy];
        let now = p.process.now(self.time).monotonic;
        p.core.set_step(now, MAP_SOURCE, POOL, None);
        self.pump_proxy(proxy);
        if !is_known {
            self.narrate(&[host], || "has lost its name".into());
            self.report.tell("proxies that lost their name", 1);
            self.after(NAME_PATIENCE, Event::Led(Turn::GiveUp { proxy, life }));
        }
    }

    pub(super) fn give_up_name(&mut self, proxy: usize, life: u32) {
        let has_lost_name = |led: &Led| led.followed[proxy].has_lost_name;
        let is_it = self.proxies[proxy].process.life == life;
        if is_it && self.led.as_ref().is_some_and(has_lost_name) {
            let back = self.time + self.random.between(MS, 100 * MS);
            self.kill_proxy(proxy, back);
        }
    }

    /// Another life of a proxy begins: it asks nobody before it was told how far its pool is.
    pub(super) fn start_proxy_again(&mut self, proxy: usize) {
        let host = self.servers.len() + proxy;
        let seed = self.random.seed();
        let Some(led) = &mut self.led else {
            return;
        };
        led.followed[proxy] = Followed::default();
        let p = &mut self.proxies[proxy];
        p.process.restart(&mut self.random);
        *p = Proxy::new(p.process, seed, &led.configs[proxy]);
        self.narrate(&[host], || "starts again".into());
        self.pump_proxy(proxy);
        self.send_heartbeat_soon(host);
    }

    /// After how long a message between a proxy and the coordinator arrives, when what goes wrong between the two is taken in.
    pub(in crate::world) fn follow_deliveries(
        &mut self,
        proxy: usize,
        deliveries: Vec<Nanos>,
    ) -> Vec<Nanos> {
        let now = self.time;
        let Some(led) = &self.led else {
            return deliveries;
        };
        let Followed {
            deaf_until,
            late_until,
            ..
        } = led.followed[proxy];
        if deliveries.is_empty() || deaf_until > now {
            self.note_mischance(Mischance::HeartbeatLost);
            return Vec::new();
        }
        if late_until <= now {
            return deliveries;
        }
        self.note_mischance(Mischance::HeartbeatLate);
        let later = self.random.below(300 * MS);
        deliveries.into_iter().map(|delay| delay + later).collect()
    }
}
