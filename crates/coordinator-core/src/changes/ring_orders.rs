//! What operators order of rings.

use evenkeel_control::rings::{RING_MOVES_MAX, RingMove, RingPlan};
use evenkeel_placement::ring::{Part, Ring};
use evenkeel_schemes::stage::Stage;
use evenkeel_types::Now;
use serde::{Deserialize, Serialize};

use super::ring_slots::Slots;
use super::rings::Ordered;
use super::{BadMoves, ChangeNews, ChangeRefusal, Changes, Led, LedRing};

/// What is to move in one plan, and how many proxies there are. At most [`RING_MOVES_MAX`] parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingMoveRequest {
    /// Parts, each with the position of its new server in the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<RingMove>,
    /// Amounts, of which the coordinator chooses the parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grains: Vec<GrainsMove>,
    /// All that the last slot has planned, too.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub planned: bool,
    /// How many proxies have the pool, as the operator knows. At least 1.
    pub proxies: usize,
}

/// About this much of a ring goes from one server to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrainsMove {
    /// Who gives, by what it is known by.
    pub from: String,
    /// Who gets.
    pub to: String,
    /// How much: 4,096ths of the ring.
    pub grains: u32,
}

impl LedRing {
    pub(super) fn name_of(&self, server: u16) -> String {
        let servers = &self.plan.placement.servers;
        let named = servers.get(usize::from(server)).map(|it| it.identity());
        named.unwrap_or_else(|| server.to_string())
    }

    pub(super) fn server_named(&self, name: &str) -> Result<u16, BadMoves> {
        let mut servers = (0..).zip(&self.plan.placement.servers);
        let found = servers.find(|(_, it)| it.identity() == name);
        found
            .map(|(at, _)| at)
            .ok_or_else(|| BadMoves::UnknownServer {
                server: name.into(),
            })
    }

    /// All parts that are to move.
    fn chosen(
        &self,
        ring: &Ring,
        slots: &Slots,
        request: &RingMoveRequest,
    ) -> Result<Vec<RingMove>, BadMoves> {
        let mut moves = request.parts.clone();
        if request.planned {
            let planned = slots.planned();
            if planned.is_empty() {
                return Err(BadMoves::NothingPlanned);
            }
            moves.extend(planned);
        }
        let most = RING_MOVES_MAX.checked_div(request.grains.len());
        for GrainsMove { from, to, grains } in &request.grains {
            let (giver, to) = (self.server_named(from)?, self.server_named(to)?);
            let parts = ring.parts_of(giver, *grains, most.unwrap_or(0));
            if parts.is_empty() {
                let server = from.clone();
                return Err(BadMoves::NothingToGive { server });
            }
            moves.extend(
                parts
                    .iter()
                    .map(|&Part { first, last }| RingMove { first, last, to }),
            );
        }
        Ok(moves)
    }

    /// Checks what a plan may move, which can be executed.
    fn check_moves(&self, plan: &RingPlan) -> Result<(), BadMoves> {
        if plan.moves.is_empty() {
            return Err(BadMoves::Nothing);
        }
        for &RingMove { first, last, to } in &plan.moves {
            if plan.ring.owners_of(Part { first, last }).contains(&to) {
                return Err(BadMoves::AtTarget {
                    server: self.name_of(to),
                    first,
                    last,
                });
            }
        }
        Ok(())
    }
}

impl Changes {
    /// Parts of a pool's ring are to move; this many proxies follow it, as an operator says. It begins when all have acknowledged the last step of
    /// the plan before, and goes through by itself.
    pub(crate) fn order_moves(
        &mut self,
        now: Now,
        pool: &str,
        request: &RingMoveRequest,
    ) -> Result<(), ChangeRefusal> {
        let plan = self.next_plan(pool, request.proxies, |led, ring, stage| {
            let moves = ring.chosen(&ring.present(stage)?, &led.slots, request)?;
            let plan = ring.next(stage, Ordered::Moves(moves))?;
            ring.check_moves(&plan)?;
            Ok(plan)
        })?;
        if request.planned {
            self.led(pool)?.slots.apply(plan.number);
        }
        self.order(now, pool, plan, ChangeNews::PlanOrdered);
        Ok(())
    }

    /// The next plan of a ring that is made so, if an operator may order one who knows of this many proxies.
    pub(super) fn next_plan(
        &mut self,
        pool: &str,
        said: usize,
        make: impl FnOnce(&Led, &LedRing, Stage) -> Result<RingPlan, BadMoves>,
    ) -> Result<RingPlan, ChangeRefusal> {
        if self.led(pool)?.ring.is_none() {
            return Err(ChangeRefusal::NoRing { pool: pool.into() });
        }
        let led = self.led_for(pool, said)?;
        let Some(ring) = &led.ring else {
            return Err(ChangeRefusal::NoRing { pool: pool.into() });
        };
        if led.change.is_under_way() || ring.waits() {
            let pool = pool.to_owned();
            let number = ring.plan.number + u64::from(ring.waits());
            return Err(ChangeRefusal::PlanUnderWay { pool, number });
        }
        let plan = make(led, ring, led.change.step().stage);
        plan.map_err(|why| ChangeRefusal::BadMoves {
            pool: pool.to_owned(),
            why,
        })
    }
}
