//! Executing a plan, a few moves at a time, and giving it up.

use core::time::Duration;
use std::collections::BTreeMap;

use evenkeel_types::{CacheletId, Instant, Now, ServerId};

use super::look::note_predictions;
use super::{Cluster, MoveState, Plan, PlanMode, PlanMove, PlanRefusal, PlanState, Plans};
use crate::limits;
use crate::map_draft::MapDraft;
use crate::migrating::{End, MigrationEnd, Order, cancel};
use crate::placing::Purpose;

impl Plans {
    /// Looks at the loads, and goes on with the open plan. Gives whether anything is to be saved.
    pub(crate) fn tend(&mut self, now: Now, cluster: &mut Cluster<'_>) -> bool {
        let is_new = self.look_at_loads(now, cluster);
        let Some(mut plan) = self.saved.open.take() else {
            return is_new;
        };
        let before = plan.clone();
        if plan.state == PlanState::Proposed {
            self.tend_proposal(now, &mut plan);
        }
        if plan.state == PlanState::Approved {
            self.start(now, &mut plan, cluster);
        }
        if plan.state == PlanState::Running {
            self.begin_moves(now.monotonic, &mut plan, cluster);
        }
        self.finish(now, &mut plan);
        let is_changed = plan != before;
        self.put_away(plan);
        is_new || is_changed
    }

    /// Approves a plan, for an operator.
    pub(crate) fn approve(&mut self, now: Now, id: u64) -> Result<(), PlanRefusal> {
        let mut plan = self.take_open(id)?;
        let state = plan.state;
        if state == PlanState::Proposed {
            self.advance(now, &mut plan, PlanState::Approved);
        }
        self.put_away(plan);
        match state {
            PlanState::Proposed => Ok(()),
            _ => Err(PlanRefusal::WrongState { id, state }),
        }
    }

    /// Gives a plan up, for an operator, and the moves that are under way.
    pub(crate) fn cancel(
        &mut self,
        now: Now,
        id: u64,
        draft: &mut MapDraft,
    ) -> Result<(), PlanRefusal> {
        let mut plan = self.take_open(id)?;
        let state = plan.state;
        let cancelled = match state {
            PlanState::Proposed | PlanState::Approved => {
                self.advance(now, &mut plan, PlanState::Cancelled);
                skip_waiting(&mut plan, "the plan was cancelled");
                Ok(())
            }
            PlanState::Running => {
                self.advance(now, &mut plan, PlanState::Cancelling);
                skip_waiting(&mut plan, "the plan was cancelled");
                for moving in plan.moves.iter().filter(|m| m.state == MoveState::Moving) {
                    cancel(moving.cachelet, draft);
                }
                Ok(())
            }
            PlanState::Cancelling => Ok(()),
            _ => Err(PlanRefusal::WrongState { id, state }),
        };
        self.put_away(plan);
        cancelled
    }

    /// The open plan, to be changed and [put away](Self::put_away) again.
    fn take_open(&mut self, id: u64) -> Result<Plan, PlanRefusal> {
        if let Some(plan) = self.saved.open.take_if(|open| open.id == id) {
            return Ok(plan);
        }
        let state = self.find(id)?.state;
        Err(PlanRefusal::WrongState { id, state })
    }

    /// Migrations have come to their ends.
    pub(crate) fn handle_ends(&mut self, now: Instant, ends: Vec<End>) {
        for end in ends {
            if end.end == MigrationEnd::Moved {
                self.moved_at.insert(end.cachelet, now);
            }
            let open = self.saved.open.iter_mut();
            let moves = open.flat_map(|open| &mut open.moves);
            let is_it =
                |m: &&mut PlanMove| m.cachelet == end.cachelet && m.began == Some(end.began);
            for it in moves.filter(is_it) {
                it.state = match end.end {
                    MigrationEnd::Moved => MoveState::Moved,
                    MigrationEnd::Aborted => MoveState::Aborted,
                    MigrationEnd::SourceLost => MoveState::SourceLost,
                };
            }
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
        *self.counts.states.entry(next).or_default() += 1;
        if next.is_over() {
            plan.ended_unix_s = Some(now.unix);
            let pause = Duration::from_millis(self.saved.settings.pause_ms);
            self.pause_until = Some(now.monotonic + pause);
        }
    }

    /// What becomes of a plan that nobody has said anything to.
    fn tend_proposal(&mut self, now: Now, plan: &mut Plan) {
        let settings = &self.saved.settings;
        // Under another coordinator its age is not known.
        let expires_at = *self
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
    fn start(&mut self, now: Now, plan: &mut Plan, cluster: &Cluster<'_>) {
        let Some(made) = self.check_again(now.monotonic, plan, cluster) else {
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
        note_predictions(plan, &made, cluster.members);
        self.advance(now, plan, PlanState::Running);
    }

    /// Begins as many moves as the settings allow at one time.
    fn begin_moves(&self, now: Instant, plan: &mut Plan, cluster: &mut Cluster<'_>) {
        let members = cluster.members;
        let settings = self.saved.settings;
        let mut ends: BTreeMap<ServerId, usize> = BTreeMap::new();
        for server in cluster.migrations.servers(cluster.draft) {
            *ends.entry(server).or_default() += 1;
        }
        let waiting = plan
            .moves
            .iter_mut()
            .filter(|m| m.state == MoveState::Waiting);
        for wanted in waiting {
            if cluster.migrations.count() >= settings.migrations_max {
                break;
            }
            let skip = |wanted: &mut PlanMove, why: String| {
                wanted.state = MoveState::Skipped;
                wanted.note = Some(why);
            };
            let (Some(from), Some(to)) = (
                members.worker_named(&wanted.from),
                members.worker_named(&wanted.to),
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
            if cluster.draft.is_just_placed(wanted.cachelet) {
                // Its server has just restarted. With the next map it may go.
                continue;
            }
            if cluster.draft.owner_of(wanted.cachelet) != Some(from) {
                skip(wanted, "it has another owner".to_owned());
                continue;
            }
            let order = Order {
                cachelet: wanted.cachelet,
                to,
                bytes_per_second: settings.bytes_per_second,
                purpose: Purpose::Load,
            };
            match (cluster.migrations).begin(now, &order, members, cluster.draft) {
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
    fn finish(&mut self, now: Now, plan: &mut Plan) {
        if !plan.moves.iter().all(|m| m.state.is_over()) {
            return;
        }
        let moved = plan.moves_in(MoveState::Moved);
        match plan.state {
            PlanState::Running if moved > 0 => {
                if !self.is_follow_up {
                    self.follow_ups = limits::PLAN_FOLLOW_UPS;
                }
                self.advance(now, plan, PlanState::Done);
            }
            PlanState::Running => {
                plan.note = Some("none of its moves succeeded".to_owned());
                self.advance(now, plan, PlanState::Failed);
            }
            PlanState::Cancelling => self.advance(now, plan, PlanState::Cancelled),
            _ => {}
        }
        if plan.state.is_over() && moved > 0 {
            let looks = limits::PLAN_SETTLE.as_millis() / limits::PLAN_LOOK.as_millis();
            self.settling = Some((plan.id, looks as u32));
        }
    }

    /// Back to the open plan, or to those that are over.
    fn put_away(&mut self, plan: Plan) {
        if !plan.state.is_over() {
            self.saved.open = Some(plan);
            return;
        }
        self.expires_at = None;
        for it in &plan.moves {
            *self.counts.moves.entry(it.state).or_default() += 1;
        }
        if self.over.len() == limits::PLANS_MAX {
            self.over.pop_front();
        }
        self.over.push_back(plan);
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
