//! What is shown of rings.

use evenkeel_control::rings::RingMove;
use evenkeel_placement::ring::{HASHES, Part, Ring};
use evenkeel_types::Instant;
use serde::{Deserialize, Serialize};

use super::{ChangeView, Changes, Led, LedRing};

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

    /// One of them, to be shown.
    pub(crate) fn ring(&self, now: Instant, pool: &str) -> Option<RingView> {
        let Led { ring, change, .. } = self.pools.get(pool)?;
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
            waiting: ring.moves_of(&present, &ring.waiting),
        })
    }
}

impl LedRing {
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
