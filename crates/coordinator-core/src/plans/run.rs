//! Carrying a plan out, a few moves at a time, and giving it up.

use core::time::Duration;
use std::collections::BTreeMap;

use evenkeel_types::{CacheletId, Epoch, Instant, Now, ServerId};

use super::{MoveState, Plan, PlanMode, PlanMove, PlanRefusal, PlanState};
use crate::migrating::MigrationEnd;
use crate::placing::Purpose;
use crate::{Change, CoordinatorCore, limits};

impl CoordinatorCore {
    /// Looks at the loads, and goes on with the open plan.
    pub(crate) fn tend_plans(&mut self, now: Now, changes: &mut Vec<Change>) {
        self.look_at_loads(now);
        let Some(mut plan) = self.plans.saved.open.take() else {
            return;
        };
        let before = plan.clone();
        if plan.state == PlanState::Proposed {
            self.tend_proposal(now, &mut plan);
        }
        if plan.state == PlanState::Approved {
            self.start(now, &mut plan);
        }
        if plan.state == PlanState::Running {
            self.begin_moves(now.monotonic, &mut plan, changes);
        }
        self.finish_plan(now, &mut plan);
        self.revision += u64::from(plan != before);
        self.put_away(plan);
    }

    /// Approves a plan; it is checked and carried out at once.
    ///
    /// # Errors
    ///
    /// It is unknown, or not proposed.
    pub fn approve_plan(&mut self, now: Now, id: u64) -> Result<(), PlanRefusal> {
        self.notice_pause(now.monotonic);
        let approved = self.change_plan(id, |core, plan| match plan.state {
            PlanState::Proposed => {
                core.advance(now, plan, PlanState::Approved);
                true
            }
            _ => false,
        });
        self.finish(now, Vec::new());
        approved
    }

    /// Gives a plan up. Moves that are under way are cancelled, which their sources may find too late; what has
    /// moved stays where it is.
    ///
    /// # Errors
    ///
    /// It is unknown, or over.
    pub fn cancel_plan(&mut self, now: Now, id: u64) -> Result<(), PlanRefusal> {
        self.notice_pause(now.monotonic);
        let mut changes = Vec::new();
        let cancelled = self.change_plan(id, |core, plan| match plan.state {
            PlanState::Proposed | PlanState::Approved => {
                core.advance(now, plan, PlanState::Cancelled);
                skip_waiting(plan, "the plan was cancelled");
                true
            }
            PlanState::Running => {
                core.advance(now, plan, PlanState::Cancelling);
                skip_waiting(plan, "the plan was cancelled");
                for moving in plan.moves.iter().filter(|m| m.state == MoveState::Moving) {
                    core.cancel(moving.cachelet, &mut changes);
                }
                true
            }
            PlanState::Cancelling => true,
            _ => false,
        });
        self.finish(now, changes);
        cancelled
    }

    fn change_plan(
        &mut self,
        id: u64,
        change: impl FnOnce(&mut Self, &mut Plan) -> bool,
    ) -> Result<(), PlanRefusal> {
        let wrong = |plan: &Plan| PlanRefusal::WrongState {
            id,
            state: plan.state,
        };
        let Some(mut plan) = self.plans.saved.open.take_if(|open| open.id == id) else {
            return Err(self.plan(id).map_or_else(|unknown| unknown, wrong));
        };
        let is_changed = change(self, &mut plan);
        let refusal = wrong(&plan);
        self.revision += u64::from(is_changed);
        self.put_away(plan);
        match is_changed {
            true => Ok(()),
            false => Err(refusal),
        }
    }

    /// A migration has come to its end.
    pub(crate) fn plan_hears_end(
        &mut self,
        now: Instant,
        cachelet: CacheletId,
        began: Epoch,
        end: MigrationEnd,
    ) {
        if end == MigrationEnd::Moved {
            self.plans.moved_at.insert(cachelet, now);
        }
        let moves = self
            .plans
            .saved
            .open
            .iter_mut()
            .flat_map(|open| &mut open.moves);
        let is_it = |m: &&mut PlanMove| m.cachelet == cachelet && m.began == Some(began);
        for it in moves.filter(is_it) {
            it.state = match end {
                MigrationEnd::Moved => MoveState::Moved,
                MigrationEnd::Aborted => MoveState::Aborted,
                MigrationEnd::SourceLost => MoveState::SourceLost,
            };
        }
    }

    /// The only place where a plan gets into another state.
    fn advance(&mut self, now: Now, plan: &mut Plan, next: PlanState) {
        assert!(
            plan.state.may_become(next),
            "plan {} is {}, and would be {next}",
            plan.id,
            plan.state
        );
        plan.state = next;
        *self.plans.counts.states.entry(next).or_default() += 1;
        if next.is_over() {
            plan.ended_unix_s = Some(now.unix);
            let pause = Duration::from_millis(self.plans.saved.settings.pause_ms);
            self.plans.pause_until = Some(now.monotonic + pause);
        }
    }

    /// What becomes of a plan that nobody has said anything to.
    fn tend_proposal(&mut self, now: Now, plan: &mut Plan) {
        let settings = &self.plans.saved.settings;
        // Under another coordinator its age is not known.
        let expires_at = *self
            .plans
            .expires_at
            .get_or_insert(now.monotonic + limits::PROPOSAL_AGE_MAX);
        if settings.mode == PlanMode::Automatic {
            self.advance(now, plan, PlanState::Approved);
        } else if now.monotonic >= expires_at {
            plan.note = Some("nobody approved it in time".to_owned());
            self.advance(now, plan, PlanState::Expired);
            skip_waiting(plan, "the plan expired");
        }
    }

    /// Checks a plan again, by what is known now.
    fn start(&mut self, now: Now, plan: &mut Plan) {
        let Some(made) = self.check_again(now.monotonic, plan) else {
            plan.note = Some("by the loads of now it does not help any more".to_owned());
            self.advance(now, plan, PlanState::Failed);
            skip_waiting(plan, "the plan does not help any more");
            return;
        };
        let stays = |cachelet: CacheletId| {
            let mut moves = made.moves.iter();
            moves.any(|it| it.cachelet == cachelet.into())
        };
        for wanted in &mut plan.moves {
            if !stays(wanted.cachelet) {
                wanted.state = MoveState::Skipped;
                wanted.note = Some("by the loads of now it does not fit any more".to_owned());
            }
        }
        self.note_predictions(plan, &made);
        self.advance(now, plan, PlanState::Running);
    }

    /// Begins as many moves as the settings allow at one time.
    fn begin_moves(&mut self, now: Instant, plan: &mut Plan, changes: &mut Vec<Change>) {
        let settings = self.plans.saved.settings;
        let mut ends: BTreeMap<ServerId, usize> = BTreeMap::new();
        for server in self.migration_ends() {
            *ends.entry(server).or_default() += 1;
        }
        let waiting = plan
            .moves
            .iter_mut()
            .filter(|m| m.state == MoveState::Waiting);
        for wanted in waiting {
            if self.migrations_under_way() >= settings.migrations_max {
                break;
            }
            let skip = |wanted: &mut PlanMove, why: String| {
                wanted.state = MoveState::Skipped;
                wanted.note = Some(why);
            };
            let (Some(from), Some(to)) = (
                self.worker_named(&wanted.from),
                self.worker_named(&wanted.to),
            ) else {
                skip(wanted, "one of the workers is gone".to_owned());
                continue;
            };
            let both = [from.server, to.server];
            let is_busy = |server: &ServerId| {
                ends.get(server).copied().unwrap_or(0) >= settings.migrations_per_server_max
            };
            if both.iter().any(is_busy) {
                continue;
            }
            if self.is_just_placed(wanted.cachelet) {
                // Its server has just restarted. With the next map it may go.
                continue;
            }
            if self.owner_of(wanted.cachelet) != Some(from) {
                skip(wanted, "it has another owner".to_owned());
                continue;
            }
            let rate = settings.bytes_per_second;
            match self.begin(now, wanted.cachelet, to, rate, Purpose::Load, changes) {
                Ok(migration) => {
                    wanted.state = MoveState::Moving;
                    wanted.began = Some(migration.began);
                    both.iter().for_each(|&s| *ends.entry(s).or_default() += 1);
                }
                Err(refusal) => skip(wanted, refusal.to_string()),
            }
        }
    }

    /// Ends a plan of which every move is over.
    fn finish_plan(&mut self, now: Now, plan: &mut Plan) {
        if !plan.moves.iter().all(|m| m.state.is_over()) {
            return;
        }
        let moved = plan.moves_in(MoveState::Moved);
        match plan.state {
            PlanState::Running if moved > 0 => self.advance(now, plan, PlanState::Done),
            PlanState::Running => {
                plan.note = Some("none of its moves succeeded".to_owned());
                self.advance(now, plan, PlanState::Failed);
            }
            PlanState::Cancelling => self.advance(now, plan, PlanState::Cancelled),
            _ => {}
        }
        if plan.state.is_over() && moved > 0 {
            let looks = limits::PLAN_SETTLE.as_millis() / limits::PLAN_LOOK.as_millis();
            self.plans.settling = Some((plan.id, looks as u32));
        }
    }

    /// Back to the open plan, or to those that are over.
    fn put_away(&mut self, plan: Plan) {
        if !plan.state.is_over() {
            self.plans.saved.open = Some(plan);
            return;
        }
        self.plans.expires_at = None;
        for it in &plan.moves {
            *self.plans.counts.moves.entry(it.state).or_default() += 1;
        }
        if self.plans.over.len() == limits::PLANS_MAX {
            self.plans.over.pop_front();
        }
        self.plans.over.push_back(plan);
    }
}

fn skip_waiting(plan: &mut Plan, why: &str) {
    for waiting in plan
        .moves
        .iter_mut()
        .filter(|m| m.state == MoveState::Waiting)
    {
        waiting.state = MoveState::Skipped;
        waiting.note = Some(why.to_owned());
    }
}
