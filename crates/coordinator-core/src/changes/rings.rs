//! Rings of pools whose hash space follows the load: how they begin, and how their plans follow each other.
//!
//! The plan of a ring is executed by a [`Change`](evenkeel_schemes::change::Change) like that of any pool: `former` is the ring before the
//! moves, `done` the one behind them. Here is what is beside it.
//!
//! - A ring is made of what the first proxy wishes that asks for one, and once: the next wishes are not looked at.
//! - A plan follows when everybody has acknowledged the last step of the one before. It begins with a `former` of its own, so that
//!   everybody has it before requests wait.
//! - The generation of a plan that was withdrawn is never given out again: somebody may have stored under its names.
//! - A *stranger* works by a plan that was not made here, because this coordinator has lost its state or has an old one. It is refused. As long as
//!   it is known, no ring is made for its pool, nobody begins with the pool, and no plan is ordered.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_control::Heartbeat;
use evenkeel_control::rings::{
    BadPlan, FollowedRing, RingMove, RingPlan, RingStep, RingWish, ServerChange,
};
use evenkeel_placement::config::Server;
use evenkeel_placement::ring::Ring;
use evenkeel_schemes::stage::{Stage, Step};
use evenkeel_types::{BootId, Instant};
use serde::{Deserialize, Serialize};

use super::RingSettings;
use crate::limits::PROXIES_MAX;

/// A pool's ring: the plan that its change executes, and what is to move next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedRing {
    /// The newest plan.
    pub plan: Arc<RingPlan>,
    /// The plan behind it, which was ordered and has yet to begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Arc<RingPlan>>,
    /// How it follows its load.
    #[serde(default)]
    pub settings: RingSettings,
}

/// What the next plan of a ring is to do.
#[derive(Debug)]
pub(super) enum Ordered {
    /// Parts change hands.
    Moves(Vec<RingMove>),
    /// This server comes, to which each other gives this much. It has the place of one that owns nothing, or the next.
    Joins(Server, Vec<u16>),
    /// A server goes: see [`ServerChange::Leaves`].
    Leaves {
        server: u16,
        costs: Vec<u32>,
        is_lost: bool,
    },
}

/// Proxies that work by plans, of rings or of copies, that were not made here, by pool and name. At most [`PROXIES_MAX`].
#[derive(Debug, Default)]
pub(super) struct Strangers(BTreeMap<(String, String), (BootId, Instant)>);

impl LedRing {
    /// The first plan, which moves nothing.
    fn first(wish: &RingWish, incarnation: u64) -> Result<Self, String> {
        let plan = RingPlan {
            number: 1,
            incarnation,
            placement: wish.placement.clone(),
            ring: ring_of(wish)?,
            moves: Vec::new(),
            server: None,
        };
        plan.moved().map_err(|error| error.to_string())?;
        Ok(LedRing {
            plan: Arc::new(plan),
            waiting: None,
            settings: RingSettings::default(),
        })
    }

    /// Whether a plan that moves something has yet to begin.
    pub(super) fn waits(&self) -> bool {
        self.waiting.is_some()
    }

    /// The ring by which requests go at this stage, or when it is over. No generation that a plan had may follow in it again.
    ///
    /// # Errors
    /// The plan is none.
    pub(super) fn present(&self, stage: Stage) -> Result<Ring, BadPlan> {
        let moved = self.plan.moved()?;
        Ok(match stage {
            Stage::Former | Stage::Quiesced => {
                self.plan.ring.clone().with_spent(moved.generation())
            }
            Stage::Warming | Stage::Closing | Stage::Done => moved,
        })
    }

    /// The plan behind this one, which has come to rest at this stage.
    ///
    /// # Errors
    /// What is ordered cannot be done with this ring.
    pub(super) fn next(&self, stage: Stage, ordered: Ordered) -> Result<RingPlan, BadPlan> {
        let ring = self.present(stage)?;
        let mut placement = self.plan.placement.clone();
        // A newcomer whose plan was withdrawn is not in it.
        placement.servers.truncate(ring.servers());
        let (moves, server) = match ordered {
            Ordered::Moves(moves) => (moves, None),
            Ordered::Joins(newcomer, gives) => {
                let (known, shares) = (&mut placement.servers, ring.shares());
                let is_it = |at: &usize| known[*at].identity() == newcomer.identity();
                let is_free = |at: &usize| shares[*at] == 0;
                let free = || (0..known.len()).find(is_free);
                let place = (0..known.len()).find(is_it).or_else(free);
                let place = place.unwrap_or(known.len());
                known.splice(place..known.len().min(place + 1), [newcomer]);
                let server = place as u16;
                (Vec::new(), Some(ServerChange::Joins { server, gives }))
            }
            Ordered::Leaves {
                server,
                costs,
                is_lost,
            } => {
                let leaves = ServerChange::Leaves {
                    server,
                    costs,
                    is_lost,
                };
                (Vec::new(), Some(leaves))
            }
        };
        let next = RingPlan {
            number: self.plan.number + 1,
            incarnation: self.plan.incarnation,
            placement,
            ring,
            moves,
            server,
        };
        next.moved()?;
        Ok(next)
    }

    /// What about it contradicts itself or the change that executes it, if anything.
    pub(super) fn contradiction(&self, step: Step, goal: Stage) -> Option<&'static str> {
        let (plan, rests) = (&self.plan, step.stage == goal);
        if plan.moved().is_err() || plan.number > step.version {
            return Some("the plan of a ring is none");
        }
        if !plan.moves_anything() && goal != Stage::Former {
            return Some("a plan that moves nothing has gone on");
        }
        if !matches!(goal, Stage::Former | Stage::Done) {
            return Some("a plan of a ring ends in the middle");
        }
        if self.settings.unsound().is_some() {
            return Some("a setting of a ring is out of its range");
        }
        let follows = |next: &Arc<RingPlan>| {
            let ring = self.present(step.stage).ok();
            let is_next = (next.number, next.incarnation) == (plan.number + 1, plan.incarnation);
            rests && is_next && ring.as_ref() == Some(&next.ring) && next.moved().is_ok()
        };
        let waiting = self.waiting.as_ref();
        waiting
            .is_some_and(|next| !follows(next) || !next.moves_anything())
            .then_some("what waits cannot follow a plan")
    }

    /// How a step is told to a proxy that works by this plan.
    pub(super) fn step_for(&self, theirs: &FollowedRing, slot: Option<u64>) -> RingStep {
        let number = self.plan.number;
        RingStep {
            number,
            slot,
            plan: (theirs.number != number).then(|| Arc::clone(&self.plan)),
        }
    }
}

/// The ring that a proxy's file asks for, or why there is none.
fn ring_of(wish: &RingWish) -> Result<Ring, String> {
    let placement = &wish.placement;
    if !wish.even {
        return Ring::adopt(placement).map_err(|error| error.to_string());
    }
    if let Some(server) = placement.servers.iter().find(|it| it.weight != 1) {
        let (name, weight) = (server.identity(), server.weight);
        return Err(format!(
            "server {name} has weight {weight}, but an even ring treats all servers alike"
        ));
    }
    let ring = Ring::even(placement.servers.len(), Ring::VIRTUAL_NODES);
    ring.map_err(|error| error.to_string())
}

/// The ring with which a proxy's pool begins, or why there is none.
pub(super) fn first_ring(theirs: &FollowedRing, incarnation: u64) -> Result<LedRing, String> {
    let wish = theirs.wish.as_ref();
    let wish = wish.ok_or("the proxy has no plan, and does not say what the ring begins as")?;
    LedRing::first(wish, incarnation)
}

impl Strangers {
    /// Whether a proxy is known that works by another plan of a pool, and which.
    pub(super) fn of(&self, pool: &str) -> Option<&str> {
        let mut known = self.0.keys();
        let of_pool = known.find(|(of, _)| of == pool);
        // Anyone who had no room may be of any pool.
        let any = || self.0.keys().next().filter(|_| self.0.len() >= PROXIES_MAX);
        of_pool.or_else(any).map(|(_, proxy)| proxy.as_str())
    }

    pub(super) fn note(&mut self, now: Instant, pool: &str, heartbeat: &Heartbeat) {
        let key = (pool.to_owned(), heartbeat.name.clone());
        if self.0.len() < PROXIES_MAX || self.0.contains_key(&key) {
            self.0.insert(key, (heartbeat.boot, now));
        }
    }

    /// A process of this name has ended, or works by what is known here. True if it was one.
    pub(super) fn forget(&mut self, proxy: &str, is_life: impl Fn(BootId) -> bool) -> bool {
        let before = self.0.len();
        self.0
            .retain(|(_, name), (boot, _)| name != proxy || !is_life(*boot));
        self.0.len() < before
    }

    pub(super) fn last_heard(&self, proxy: &str) -> Option<Instant> {
        let of_proxy = self.0.iter().filter(|((_, name), _)| name == proxy);
        of_proxy.map(|(_, &(_, heard))| heard).max()
    }

    pub(super) fn notice_pause(&mut self, now: Instant) {
        for (_, heard) in self.0.values_mut() {
            *heard = now;
        }
    }
}
