//! Faults at steps: what cachelets go through is watched, and something goes wrong just when one has come to a chosen step.
//!
//! Whenever the coordinator has made a new map, what begins with it is looked for: cachelets that set out to other
//! servers, for whatever reason. For some of them a *trap* is laid: a step, and what happens when one of the servers has
//! come there. What really happened is counted ([`FaultCoverage`]).

use super::fault_coverage::{FaultCase, MIGRATION_STEPS, Occasion, StepFault, Trap};
use super::units::MS;
use super::{Event, World};
use crate::history::Nanos;
use evenkeel_coordinator_core::plans::Plan;
use evenkeel_coordinator_core::{Moving, Purpose, SavedState, Slot};
use evenkeel_server_core::MigrationStep;
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, KeyHash};

/// Traps at one time. The oldest gives way: its step may never come.
const TRAPS_MAX: usize = 16;

/// What begins with a new map.
struct Begun {
    occasion: Occasion,
    cachelet: CacheletId,
    source: usize,
    target: usize,
}

impl World {
    /// The coordinator has made maps since that one.
    pub(super) fn lay_traps(&mut self, before: &ClusterMap) {
        if !self.plan.swarm.step_faults || self.time >= self.plan.quiet_from() {
            return;
        }
        for begun in self.begun_since(before) {
            // Few have anything in them, and of the others much the same is to be seen.
            if self.holds_keys(begun.cachelet) || self.random.chance(1, 8) {
                self.lay_trap(&begun);
            }
        }
    }

    fn holds_keys(&self, cachelet: CacheletId) -> bool {
        let mut keys = self.keys.iter();
        let map = self.coordinator.core.map();
        map.is_some_and(|map| keys.any(|key| map.locate(KeyHash::of(key)).cachelet == cachelet))
    }

    fn lay_trap(&mut self, begun: &Begun) {
        // The few keys of a run are copied at once: that step is met least often.
        let step = match self.random.chance(1, 4) {
            true => MigrationStep::Copying,
            false => MIGRATION_STEPS[self.random.index(MIGRATION_STEPS.len())],
        };
        let fault = StepFault::ALL[self.random.index(StepFault::ALL.len())];
        if self.traps.len() == TRAPS_MAX {
            self.traps.remove(0);
        }
        self.traps.push(Trap {
            cachelet: begun.cachelet,
            case: FaultCase {
                occasion: begun.occasion,
                fault,
                step,
            },
            source: begun.source,
            target: begun.target,
        });
    }

    /// What has begun with maps later than that.
    fn begun_since(&self, before: &ClusterMap) -> Vec<Begun> {
        let state = self.coordinator.core.saved_state();
        let slots = (0u16..).map(CacheletId).zip(&state.cachelets);
        let moving = slots.filter_map(|(cachelet, slot)| match slot {
            Slot::Moving(moving) if moving.began > before.epoch() => Some((cachelet, moving)),
            _ => None,
        });
        moving
            .filter_map(|(cachelet, moving)| {
                Some(Begun {
                    occasion: occasion_of(&state, cachelet, moving),
                    cachelet,
                    source: self.server_of(moving.from.server)?,
                    target: self.server_of(moving.to.server)?,
                })
            })
            .collect()
    }

    /// Looks whether a fault's time has come.
    pub(super) fn spring_traps(&mut self, server: usize) {
        if self.traps.is_empty() || self.time >= self.plan.quiet_from() {
            return;
        }
        let workers = &self.servers[server].workers;
        let is_there = |trap: &Trap| {
            let is_end = server == trap.source || server == trap.target;
            is_end
                && (workers.iter())
                    .flat_map(|worker| worker.migration_steps())
                    .any(|its| its == (trap.cachelet, trap.case.step))
        };
        let (sprung, waiting) = self.traps.iter().partition(|trap| is_there(trap));
        self.traps = waiting;
        let sprung: Vec<Trap> = sprung;
        for trap in sprung {
            self.at(self.time + 1, Event::StepFault(trap));
        }
    }

    /// A fault is injected. It counts if it had an effect.
    pub(super) fn inject_at_step(&mut self, trap: Trap) {
        let case = trap.case;
        let (source, target) = (trap.source, trap.target);
        self.narrate(&[source, target], || {
            format!(
                "have come with cachelet {} to a fault: {case}",
                trap.cachelet
            )
        });
        let struck = match case.fault {
            StepFault::KillSource => self.kill_for_a_while(source),
            StepFault::KillTarget => self.kill_for_a_while(target),
            StepFault::StopSource => self.stop_for_a_while(source),
            StepFault::StopTarget => self.stop_for_a_while(target),
            StepFault::CutLink => self.cut_migration(source, trap.cachelet),
            StepFault::Partition => self.cut_for_a_while(source, target),
            StepFault::CutFromCoordinator => self.cut_for_a_while(source, self.coordinator_host()),
            StepFault::Loss => {
                let (loss, until) = (self.random.between(100, 600), self.soon());
                self.fault_schedule.lose(source, loss, until);
                true
            }
            StepFault::Duplicates => {
                let until = self.soon();
                let coordinator = self.coordinator_host();
                self.fault_schedule.duplicate(source, until);
                self.fault_schedule.duplicate(coordinator, until);
                true
            }
            StepFault::RestartCoordinator => {
                self.restart_coordinator();
                true
            }
            StepFault::Cancel => {
                let now = self.coordinator.process.now(self.time);
                let core = &mut self.coordinator.core;
                core.cancel_migration(now, trap.cachelet).is_ok()
            }
        };
        if struck {
            self.report.fault_coverage.tell(case);
        }
        self.note_new_maps();
    }

    /// A time within some hundred milliseconds, at times two seconds, and before the end of all faults.
    fn soon(&mut self) -> Nanos {
        let most = if self.random.chance(1, 2) { 300 } else { 2_000 };
        (self.time + self.random.between(1, most) * MS).min(self.plan.quiet_from())
    }

    fn kill_for_a_while(&mut self, server: usize) -> bool {
        let is_alive = self.servers[server].process.alive;
        if is_alive {
            self.kill_server(server);
            let back: Nanos = self.time + self.random.between(1, 900) * MS;
            self.at(back, Event::Restart { server });
        }
        is_alive
    }

    fn stop_for_a_while(&mut self, server: usize) -> bool {
        let until = self.soon();
        self.stand_still(server, until)
    }

    fn cut_for_a_while(&mut self, one: usize, other: usize) -> bool {
        let until = self.soon();
        self.narrate(&[one, other], || "are cut off".into());
        self.fault_schedule.cut(one, other, until);
        self.fault_schedule.cut(other, one, until);
        true
    }

    fn cut_migration(&mut self, source: usize, cachelet: CacheletId) -> bool {
        let links: Vec<_> = self.servers[source].links().collect();
        let of_cachelet = links
            .into_iter()
            .filter(|(_, link)| link.migrates() == Some(cachelet));
        let mut any = false;
        for (worker, link) in of_cachelet.collect::<Vec<_>>() {
            if let Some(connection) = self.servers[source].link(worker, link) {
                self.reset(connection);
                any = true;
            }
        }
        any
    }
}

/// Why a cachelet set out.
fn occasion_of(state: &SavedState, cachelet: CacheletId, moving: &Moving) -> Occasion {
    let is_move_of = |plan: &Plan| {
        let mut moves = plan.moves.iter();
        moves.any(|m| m.cachelet == cachelet && m.began == Some(moving.began))
    };
    let source = &state.servers[usize::from(moving.from.server.0)];
    match moving.purpose {
        Purpose::Share if source.draining => Occasion::Drain,
        Purpose::Share => Occasion::Join,
        Purpose::Load if state.plans.open.as_ref().is_some_and(is_move_of) => Occasion::Plan,
        Purpose::Load => Occasion::Wish,
    }
}
