//! What is shown of rings.

use evenkeel_control::rings::{RingMove, RingPlan, ServerChange};
use evenkeel_placement::ring::{HASHES, Part, Ring};
use evenkeel_types::Instant;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ring_slots::{Slot, why_kept};
use super::{
    ChangeView, Changes, Led, LedRing, PlanServerView, RingCopy, RingOutcome, RingSettings,
    RingUnreachedView, ServerOrder,
};

/// All rings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingsView {
    /// By the pool's name.
    pub rings: Vec<RingView>,
}

/// The ring of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingView {
    /// How far its plan is, and who follows.
    pub change: ChangeView,
    /// The highest generation that it has given out.
    pub generation: u64,
    /// Its servers, in the order of their list: as requests go at the present stage.
    pub servers: Vec<RingServerView>,
    /// What is changing hands. Empty where no plan is under way.
    pub moves: Vec<RingMoveView>,
    /// What was ordered and has yet to begin.
    pub waiting: Vec<RingMoveView>,
    /// How it follows its load.
    pub settings: RingSettings,
    /// How far the items of the newest plan were copied; absent where that was not begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<RingCopy>,
    /// Servers that some proxy does not reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreached: Vec<RingUnreachedView>,
    /// What came of the last slot; absent before the first, and where nothing is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<RingSlotView>,
    /// What came of the last plans that were made of what was measured, oldest first; of those that this coordinator process has seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<RingOutcome>,
}

/// A slot in which a ring was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingSlotView {
    /// Its number since the coordinator began.
    pub number: u64,
    /// Proxies whose counts are in it.
    pub told: usize,
    /// Proxies that followed.
    pub followers: usize,
    /// Servers that some proxy does not ask, since they do not answer. Nothing is planned then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<String>,
    /// The most loaded server by the mean of all; absent where too few proxies have told, or nothing was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_by_mean: Option<f64>,
    /// What each server carried, in the order of the list. Empty where too few have told.
    pub servers: Vec<RingLoadView>,
    /// What is to move because of it, and nobody has ordered yet.
    pub planned: Vec<RingMoveView>,
    /// The most loaded server by the mean once that has moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_max_by_mean: Option<f64>,
    /// Servers that keep more than they should, and why.
    pub kept: Vec<OverloadedServerView>,
}

/// What a server carried, in a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingLoadView {
    /// Keys that were read.
    pub gets: u64,
    /// Those of them that were there.
    pub hits: u64,
    /// Writes.
    pub writes: u64,
    /// Both, in small requests: one of 4 KiB counts as two.
    pub load: f64,
}

/// A server that keeps more than it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverloadedServerView {
    /// Its name.
    pub server: String,
    /// Why.
    pub why: String,
}

/// What a server has of a ring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingServerView {
    /// What it is known by.
    pub name: String,
    /// Its part of the hash space, from 0 to 1.
    pub share: f64,
    /// How many slices it has, with such as have no hash.
    pub slices: usize,
}

/// A part that changes hands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingMoveView {
    /// Its first hash.
    pub first: u32,
    /// Its last; around 0 where that is the lower.
    pub last: u32,
    /// Who gives it.
    pub from: String,
    /// Who gets it.
    pub to: String,
}

impl Changes {
    /// All rings, to be shown. O(pools · (proxies + slices · log slices)).
    pub(crate) fn rings(&self, now: Instant) -> RingsView {
        let rings = self.pools.keys().filter_map(|pool| self.ring(now, pool));
        RingsView {
            rings: rings.collect(),
        }
    }

    /// The plan of one that was begun last.
    pub(crate) fn ring_plan(&self, pool: &str) -> Option<Arc<RingPlan>> {
        let ring = self.pools.get(pool)?.ring.as_ref()?;
        Some(Arc::clone(&ring.plan))
    }

    /// One of them, to be shown.
    pub(crate) fn ring(&self, now: Instant, pool: &str) -> Option<RingView> {
        let Led {
            ring,
            change,
            slots,
            ..
        } = self.pools.get(pool)?;
        let ring = ring.as_ref()?;
        let present = ring.present(change.step().stage).ok()?;
        let moves = match change.is_under_way() {
            true => ring.moves_of(&ring.plan.ring, &ring.plan.moves),
            false => Vec::new(),
        };
        Some(RingView {
            change: self.view(now, pool)?,
            generation: present.generation(),
            servers: ring.servers_of(&present),
            moves,
            waiting: match &ring.waiting {
                Some(next) => ring.moves_of(&present, &next.moves),
                None => Vec::new(),
            },
            settings: ring.settings,
            copy: self.pools[pool].copy_of(ring).cloned(),
            unreached: self.pools[pool].unreached(ring, &present, now),
            slot: slots.last.as_ref().map(|slot| ring.slot_of(slot)),
            outcomes: slots.outcomes.iter().copied().collect(),
        })
    }
}

impl LedRing {
    fn slot_of(&self, slot: &Slot) -> RingSlotView {
        let carried = slot.carried.as_ref();
        let servers = carried.map_or(&[][..], |carried| &carried.servers);
        let plan = carried.map(|carried| &carried.plan);
        let moves = plan.map_or(&[][..], |plan| &plan.moves);
        let kept = plan.map_or(&[][..], |plan| &plan.kept);
        RingSlotView {
            number: slot.number,
            told: slot.told,
            followers: slot.followers,
            down: slot
                .down
                .iter()
                .map(|&server| self.name_of(server))
                .collect(),
            max_by_mean: carried.and_then(|it| it.max_by_mean),
            servers: servers
                .iter()
                .map(|of| RingLoadView {
                    gets: of.gets,
                    hits: of.hits,
                    writes: of.sets,
                    load: of.load,
                })
                .collect(),
            planned: moves
                .iter()
                .map(|of| RingMoveView {
                    first: of.part.first,
                    last: of.part.last,
                    from: self.name_of(of.from),
                    to: self.name_of(of.to),
                })
                .collect(),
            predicted_max_by_mean: carried.and_then(|it| it.predicted_max_by_mean),
            kept: kept
                .iter()
                .map(|of| OverloadedServerView {
                    server: self.name_of(of.server),
                    why: why_kept(of.why).to_owned(),
                })
                .collect(),
        }
    }

    /// The server that comes or goes by the plan that is under way, if it is, or by the one that waits.
    pub(super) fn server_under_way(&self, is_under_way: bool) -> Option<PlanServerView> {
        let present = Some(&*self.plan).filter(|_| is_under_way);
        let waiting = self.waiting.as_deref();
        let view = |plan: &RingPlan| {
            let (server, what) = match plan.server.as_ref()? {
                ServerChange::Joins { server, .. } => (server, ServerOrder::Add),
                ServerChange::Leaves {
                    server,
                    is_lost: true,
                    ..
                } => (server, ServerOrder::Lose),
                ServerChange::Leaves { server, .. } => (server, ServerOrder::Drain),
            };
            let name = plan.placement.servers.get(usize::from(*server))?.identity();
            Some(PlanServerView { name, what })
        };
        present.and_then(view).or_else(|| waiting.and_then(view))
    }

    fn servers_of(&self, present: &Ring) -> Vec<RingServerView> {
        let mut slices = vec![0; present.servers()];
        for slice in present.slices() {
            slices[usize::from(slice.owner)] += 1;
        }
        let shares = present.shares().into_iter().zip(slices);
        let servers = self.plan.placement.servers.iter().zip(shares);
        let server = servers.map(|(server, (share, slices))| RingServerView {
            name: server.identity(),
            share: share as f64 / HASHES as f64,
            slices,
        });
        server.collect()
    }

    fn moves_of(&self, before: &Ring, moves: &[RingMove]) -> Vec<RingMoveView> {
        let view = |&RingMove { first, last, to }| {
            // All of a part has one owner before it moves.
            let from = before.owner(Part { first, last }.first);
            RingMoveView {
                first,
                last,
                from: self.name_of(from),
                to: self.name_of(to),
            }
        };
        moves.iter().map(view).collect()
    }
}
