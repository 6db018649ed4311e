//! Rings of pools whose hash space follows the load: what a coordinator tells proxies of them, and what these say.
//!
//! A ring changes by *plans*. A plan says what the ring is and which parts of it change hands; the pool then goes through the
//! [stages](evenkeel_schemes::stage::Stage) with these parts alone. In `done` the ring is the one behind the moves, and the next plan begins
//! with it.

use evenkeel_placement::config::{PlacementConfig, PlacementError};
use evenkeel_placement::pool::Placement;
use evenkeel_placement::ring::{BadChange, GIVES_ALL, Move, Part, Ring};
use evenkeel_schemes::generation::{GENERATION_MAX, INCARNATION_BITS, taken_apart};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most parts of a ring that move in one plan.
pub const RING_MOVES_MAX: usize = 64;

/// A pool's ring, and what of it is about to change hands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingPlan {
    /// From 1; each plan has a greater one than those before it.
    pub number: u64,
    /// Names the ring in the names of items: [`INCARNATION_BITS`] at random.
    pub incarnation: u64,
    /// The servers, the hash and the hash tag. The distribution says what the ring began as.
    pub placement: PlacementConfig,
    /// The ring before the moves.
    pub ring: Ring,
    /// What moves. At most [`RING_MOVES_MAX`]; nothing where a server comes or goes.
    pub moves: Vec<RingMove>,
    /// A server that comes or goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerChange>,
}

/// A server that comes or goes by a plan. Numbers are whole, so that everybody makes the same ring of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerChange {
    /// A newcomer has this place in the list, and gets from each server a part of each of its runs:
    /// [`Ring::with_server`].
    Joins {
        /// Its place.
        server: u16,
        /// What each gives, of [`GIVES_ALL`].
        gives: Vec<u16>,
    },
    /// A server gives all it has to its neighbours, inversely to these costs: [`Ring::without_server`]. It keeps its place.
    Leaves {
        /// Its place.
        server: u16,
        /// The cost of each.
        costs: Vec<u32>,
        /// It is not asked any more: nothing is brought from it.
        is_lost: bool,
    },
}

/// A part of a ring that changes hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingMove {
    /// Its first hash.
    pub first: u32,
    /// Its last; around 0 where that is the lower.
    pub last: u32,
    /// Who gets it: a position in the list of servers.
    pub to: u16,
}

/// What a proxy's file says of a ring, before there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingWish {
    /// It begins with equal shares, and not as the distribution that is named.
    #[serde(default)]
    pub even: bool,
    /// The servers, and what they are distributed by.
    pub placement: PlacementConfig,
}

/// How far a proxy is with a pool's ring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FollowedRing {
    /// Number of the plan that it works by; 0 for none.
    pub number: u64,
    /// The plan's [incarnation](RingPlan::incarnation); 0 without a plan. A coordinator that has lost its state gives numbers out again, and
    /// no incarnation.
    #[serde(default)]
    pub incarnation: u64,
    /// What its file says, as long as it has no plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wish: Option<RingWish>,
    /// What it has counted, when it was [asked for](RingStep::slot).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<RingCounts>,
    /// Servers, by their places in the plan's list, that no worker of it reaches; `None` while not all work by the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreached: Option<Vec<u16>>,
}

/// What all workers of a proxy have counted since they work by a ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingCounts {
    /// The slot for which they were asked for.
    pub slot: u64,
    /// Number of the plan.
    pub plan: u64,
    /// Of the ring behind its moves, and not of the one before.
    pub moved: bool,
    /// For how long they have counted, in microseconds.
    pub micros: u64,
    /// In ascending order; those of which nothing was counted are left out.
    pub grains: Vec<GrainCounted>,
    /// Servers, by their places in the list, that a worker does not ask at present, since they do not answer: they carry nothing, and must
    /// not be taken for idle.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<u16>,
    /// 99th percentile of how long servers took to answer requests of the pool, in microseconds, since it was told last. Absent where it was not
    /// told before, or nothing was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<u64>,
}

/// What was counted of a grain: its place among [`Ring::grains`], reads that its server answered, those of them that found something, writes
/// that it answered, and bytes of all of these and their answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrainCounted(pub u32, pub u64, pub u64, pub u64, pub u64);

/// By which plan a step is meant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingStep {
    /// Number of the plan.
    pub number: u64,
    /// The slot for which its counts are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u64>,
    /// The plan, for who [works by](FollowedRing::number) another one.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "shared")]
    pub plan: Option<Arc<RingPlan>>,
}

/// Why a plan is none. Anyone who made it is at fault.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadPlan {
    /// There are plans from 1 on.
    #[error("a plan has a number from 1 on")]
    Number,
    /// Names have no room for it.
    #[error("a ring's incarnation has {INCARNATION_BITS} bits")]
    Incarnation,
    /// Names have no room for the generation.
    #[error("a ring has at most {GENERATION_MAX} generations: make another one")]
    Generation,
    /// Too many moves.
    #[error("a plan moves at most {RING_MOVES_MAX} parts, not {0}")]
    Moves(usize),
    /// Two things at once.
    #[error("a plan by which a server comes or goes moves nothing else")]
    MovesBesides,
    /// More than all.
    #[error("a server gives at most {GIVES_ALL} of {GIVES_ALL} parts")]
    Gives,
    /// Servers that make no placement.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The ring is one of another list.
    #[error("the ring is of {ring} servers, the list of {listed}")]
    Servers {
        /// Of the ring.
        ring: usize,
        /// Of the list.
        listed: usize,
    },
    /// Moves that cannot be made.
    #[error(transparent)]
    Change(#[from] BadChange),
}

impl RingPlan {
    /// The ring behind the moves.
    ///
    /// # Errors
    ///
    /// See [`BadPlan`].
    pub fn moved(&self) -> Result<Ring, BadPlan> {
        if self.number == 0 {
            return Err(BadPlan::Number);
        }
        if self.incarnation >> INCARNATION_BITS != 0 {
            return Err(BadPlan::Incarnation);
        }
        if self.moves.len() > RING_MOVES_MAX {
            return Err(BadPlan::Moves(self.moves.len()));
        }
        self.placement.check()?;
        let moved = self.changed()?;
        let (ring, listed) = (moved.servers(), self.placement.servers.len());
        if ring != listed {
            return Err(BadPlan::Servers { ring, listed });
        }
        match moved.generation() {
            0..=GENERATION_MAX => Ok(moved),
            _ => Err(BadPlan::Generation),
        }
    }

    /// Whether it takes its keys from a server that is not asked any more.
    pub fn is_loss(&self) -> bool {
        matches!(&self.server, Some(ServerChange::Leaves { is_lost, .. }) if *is_lost)
    }

    /// The place of the server that comes.
    pub fn newcomer(&self) -> Option<u16> {
        match &self.server {
            Some(ServerChange::Joins { server, .. }) => Some(*server),
            Some(ServerChange::Leaves { .. }) | None => None,
        }
    }

    /// Whether anything changes hands.
    pub fn moves_anything(&self) -> bool {
        !self.moves.is_empty() || self.server.is_some()
    }

    fn changed(&self) -> Result<Ring, BadPlan> {
        let Some(server) = &self.server else {
            let moves = self.moves.iter().map(|of| Move {
                part: Part {
                    first: of.first,
                    last: of.last,
                },
                to: of.to,
            });
            return Ok(self.ring.moved(&moves.collect::<Vec<_>>())?);
        };
        if !self.moves.is_empty() {
            return Err(BadPlan::MovesBesides);
        }
        Ok(match server {
            ServerChange::Joins { server, gives } => {
                if gives.iter().any(|given| *given > GIVES_ALL) {
                    return Err(BadPlan::Gives);
                }
                self.ring.with_server(*server, gives)?
            }
            ServerChange::Leaves { server, costs, .. } => {
                let costs: Vec<f64> = costs.iter().copied().map(f64::from).collect();
                self.ring.without_server(*server, &costs)?
            }
        })
    }
}

/// Which items change hands by a plan.
#[derive(Debug)]
pub struct Moving {
    list: Placement,
    before: Ring,
    after: Ring,
}

impl Moving {
    /// Those of this plan. O(slices).
    ///
    /// # Errors
    ///
    /// See [`BadPlan`].
    pub fn new(plan: &RingPlan) -> Result<Self, BadPlan> {
        let after = plan.moved()?;
        Ok(Moving {
            list: Placement::new(&plan.placement)?,
            before: plan.ring.clone(),
            after,
        })
    }

    /// The application's key of the item that a server has under this name, if it is about to change hands. What is left of former moves has
    /// another generation, and does not. O(log slices).
    pub fn key_of<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
        let (generation, key) = taken_apart(name);
        let hash = self.list.hashed(key).1 as u32;
        let slice = |ring: &Ring| ring.slices()[ring.slice_of(hash)];
        let (before, after) = (slice(&self.before), slice(&self.after));
        (before.generation == generation && after.generation != generation).then_some(key)
    }

    /// The servers, by their places in the list, that give something away: [`Ring::givers`].
    pub fn givers(&self) -> BTreeSet<u16> {
        self.before.givers(&self.after)
    }
}

/// A plan inside an `Arc`, written and read as the plan itself.
mod shared {
    use super::{Arc, RingPlan};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        plan: &Option<Arc<RingPlan>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        plan.as_deref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<RingPlan>>, D::Error> {
        Ok(Option::<RingPlan>::deserialize(deserializer)?.map(Arc::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_placement::config::Server;

    fn plan(servers: usize, listed: usize, server: ServerChange) -> RingPlan {
        let listed = (0..listed).map(|n| Server::new(format!("m{n}"), 11211));
        RingPlan {
            number: 1,
            incarnation: 7,
            placement: PlacementConfig {
                servers: listed.collect(),
                ..PlacementConfig::default()
            },
            ring: Ring::even(servers, 10).unwrap(),
            moves: Vec::new(),
            server: Some(server),
        }
    }

    fn leaves(server: u16, costs: usize) -> ServerChange {
        ServerChange::Leaves {
            server,
            costs: vec![1; costs],
            is_lost: true,
        }
    }

    fn joins(server: u16, gives: Vec<u16>) -> ServerChange {
        ServerChange::Joins { server, gives }
    }

    #[test]
    fn a_server_comes_or_goes_as_everybody_reads_it() {
        for (listed, server) in [(3, leaves(1, 3)), (4, joins(3, vec![2_500; 3]))] {
            let sent = plan(3, listed, server);
            let read: RingPlan =
                serde_json::from_str(&serde_json::to_string(&sent).unwrap()).unwrap();
            assert_eq!(read.moved(), sent.moved());
            assert_eq!(sent.moved().unwrap().servers(), listed);
        }
    }

    #[test]
    fn items_of_a_server_that_leaves_are_those_that_move() {
        let plan = plan(3, 3, leaves(1, 3));
        let moving = Moving::new(&plan).unwrap();
        assert_eq!(Vec::from_iter(moving.givers()), [1]);
        let list = Placement::new(&plan.placement).unwrap();
        let mut moved = 0;
        for key in (0..1_000).map(|n| format!("key{n}")) {
            let is_of = plan.ring.owner(list.hashed(key.as_bytes()).1 as u32) == 1;
            let found = moving.key_of(key.as_bytes());
            assert_eq!(found, is_of.then_some(key.as_bytes()), "{key}");
            moved += usize::from(is_of);
            // It has been there before, and what is left of that is nobody's.
            let prefix = evenkeel_schemes::generation::name_prefix(7, 1).unwrap();
            assert_eq!(moving.key_of(&[&prefix[..], key.as_bytes()].concat()), None);
        }
        assert!((200..500).contains(&moved), "{moved}");
    }

    #[test]
    fn plans_by_which_no_server_can_come_or_go_are_none() {
        let bad = [
            plan(3, 3, leaves(3, 3)),
            plan(3, 3, leaves(0, 2)),
            plan(1, 1, leaves(0, 1)),
            plan(3, 4, leaves(0, 3)),
            plan(3, 3, joins(3, vec![1_000; 3])),
            plan(3, 5, joins(3, vec![1_000; 3])),
            plan(3, 4, joins(4, vec![1_000; 3])),
            plan(3, 4, joins(3, vec![1_000; 2])),
            plan(3, 4, joins(3, vec![0; 3])),
            plan(3, 3, joins(1, vec![1_000; 3])),
            plan(3, 4, joins(3, vec![GIVES_ALL + 1; 3])),
            plan(3, 4, joins(u16::MAX, vec![1_000; 3])),
            RingPlan {
                moves: vec![RingMove {
                    first: 0,
                    last: 0,
                    to: 1,
                }],
                ..plan(3, 3, leaves(0, 3))
            },
        ];
        for (case, plan) in bad.into_iter().enumerate() {
            assert!(plan.moved().is_err(), "{case}");
        }
    }
}
