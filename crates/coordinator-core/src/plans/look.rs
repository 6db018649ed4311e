//! Looking at loads, and making a plan of what is seen.

use evenkeel_balance::cluster::{
    self, CacheletNumber, CacheletReport, ClusterAnswer, ClusterConfig, ClusterPlan, ClusterReport,
    Draft, Mbal, Planner, ServerReport, Spread, WorkerReport,
};
use evenkeel_balance::local::Effort;
use evenkeel_balance::solver::WorkLimit;
use evenkeel_types::{CacheletId, Instant, Now, WorkerRef};

use super::{
    Cluster, Known, MoveState, Plan, PlanMode, PlanMove, PlanState, Plans, Verdict, WorkerChange,
};
use crate::cluster_loads::ServerLoad;
use crate::limits;
use crate::members::Members;
use crate::placing::Slot;

/// What was seen at one look.
struct Seen {
    verdict: Verdict,
    servers_wanted: Option<usize>,
    plan: Option<(ClusterPlan, usize)>,
}

impl Seen {
    fn only(verdict: Verdict) -> Self {
        Seen {
            verdict,
            servers_wanted: None,
            plan: None,
        }
    }
}

impl Plans {
    /// Looks at the loads if it is time to. Gives whether there is a new plan.
    pub(super) fn look_at_loads(&mut self, now: Now, cluster: &Cluster<'_>) -> bool {
        let at = now.monotonic;
        let due = |last: Instant| at.since(last) >= limits::PLAN_LOOK;
        if !self.looked_at.is_none_or(due) {
            return false;
        }
        self.looked_at = Some(at);
        let cooled = |moved: &Instant| at.since(*moved) >= limits::MOVED_REST;
        self.moved_at.retain(|_, moved| !cooled(moved));
        let report = self.report(at, &cluster.known());
        let spread = report.as_ref().and_then(|report| {
            // Reports that contradict themselves are as good as none.
            cluster::spread(report, &self.cluster_config()).ok()
        });
        self.spread = spread;
        self.measure_effect(spread);
        let seen = match (report, spread) {
            (Some(report), Some(spread)) => self.judge(at, (&report, &spread), cluster),
            _ => {
                self.lasting = 0;
                Seen::only(Verdict::Unknown)
            }
        };
        self.verdict = seen.verdict;
        self.servers_wanted = seen.servers_wanted;
        *self.counts.verdicts.entry(seen.verdict).or_default() += 1;
        let is_new = seen.plan.is_some();
        if let Some((plan, left_out)) = seen.plan {
            self.propose(now, (&plan, left_out), cluster.members);
        }
        is_new
    }

    /// Whether there should be a plan now, and which.
    fn judge(
        &mut self,
        now: Instant,
        (report, spread): (&ClusterReport, &Spread),
        cluster: &Cluster<'_>,
    ) -> Seen {
        self.lasting = match spread.overloaded {
            0 => 0,
            _ => self.lasting.saturating_add(1),
        };
        if spread.overloaded == 0 && self.follow_ups == 0 {
            return Seen::only(Verdict::Even);
        }
        if let Some(open) = &self.saved.open
            && !open.state.is_over()
        {
            return Seen::only(Verdict::Planned);
        }
        if !self.waits_for(now, &cluster.known()).is_empty() {
            return Seen::only(Verdict::Waiting);
        }
        // Without a plan it is looked again when that has lasted as long once more.
        self.lasting = 0;
        let answer = plan_for(report, &self.cluster_config());
        self.is_follow_up = self.follow_ups > 0;
        self.follow_ups = match answer {
            Answer::Plan(..) => self.follow_ups.saturating_sub(1),
            _ => 0,
        };
        match answer {
            Answer::Plan(plan, left_out) => Seen {
                verdict: Verdict::Planned,
                servers_wanted: None,
                plan: Some((plan, left_out)),
            },
            Answer::Nothing(verdict) => Seen::only(verdict),
            Answer::AddServers(servers) => Seen {
                verdict: Verdict::AddServers,
                servers_wanted: Some(servers),
                plan: None,
            },
        }
    }

    /// What the next plan waits for.
    pub(super) fn waits_for(&self, now: Instant, cluster: &Known<'_>) -> Vec<String> {
        let mut waits = Vec::new();
        let (lasting, intervals) = (self.lasting, self.saved.settings.intervals);
        if self.follow_ups == 0 && lasting < intervals {
            waits.push(format!(
                "workers have to be overloaded for {intervals} looks in a row, a second each, and were for {lasting}"
            ));
        }
        // The cheaper remedies first; a plan would take hot keys away from their copies.
        let asks = cluster.members.up().any(|server| server.asks_for_moves);
        if self.saved.settings.mode == PlanMode::Automatic && self.follow_ups == 0 && !asks {
            waits.push("no server asks for it: they replicate hot keys and lend between their workers first".to_owned());
        }
        if let Some(until) = self.pause_until.filter(|&until| now < until) {
            let left = until.since(now).as_secs_f64();
            waits.push(format!(
                "the pause behind the last plan ends in {left:.1} s"
            ));
        }
        // While cachelets change hands for other reasons loads say little.
        let moving = cluster.draft.cachelets_in_transit() + cluster.migrations.count();
        if moving > 0 {
            waits.push(format!("{moving} cachelets are on their way"));
        }
        waits
    }

    /// Puts a plan into the books.
    fn propose(&mut self, now: Now, (made, left_out): (&ClusterPlan, usize), members: &Members) {
        self.saved.count += 1;
        let mut plan = Plan {
            id: self.saved.count,
            state: PlanState::Proposed,
            proposed_unix_s: now.unix,
            ended_unix_s: None,
            moves: Vec::new(),
            changes: Vec::new(),
            bytes: 0,
            before: made.before,
            predicted: made.after,
            measured: None,
            left_out,
            note: None,
        };
        note_predictions(&mut plan, made, members);
        plan.moves = moves_of(made, members);
        let states = &mut self.counts.states;
        *states.entry(PlanState::Proposed).or_default() += 1;
        self.expires_at = Some(now.monotonic + limits::PROPOSAL_AGE_MAX);
        self.saved.open = Some(plan);
    }

    /// The moves of a plan that still can be made and keep the limits, by the loads of now; `None` if they
    /// do not help any more.
    pub(super) fn check_again(
        &self,
        now: Instant,
        plan: &Plan,
        cluster: &Cluster<'_>,
    ) -> Option<ClusterPlan> {
        let report = self.report(now, &cluster.known())?;
        let wanted = plan.moves.iter().filter_map(|wanted| {
            let to = cluster.members.worker_named(&wanted.to)?;
            Some((CacheletNumber::from(wanted.cachelet), to))
        });
        let mut again = Again {
            wanted: wanted.collect(),
        };
        match cluster::plan(&mut again, &report, &self.cluster_config()) {
            Ok(ClusterAnswer::Plan(plan)) => Some(plan),
            _ => None,
        }
    }

    pub(super) fn cluster_config(&self) -> ClusterConfig {
        let settings = &self.saved.settings;
        ClusterConfig {
            bytes_ratio_max: settings.bytes_ratio_max,
            bytes_free: settings.bytes_free(),
            finish: self.follow_ups > 0 || self.is_follow_up,
            ..ClusterConfig::default()
        }
    }

    /// What servers that are up have told just now; `None` if that is too little to say what is even. O(cachelets).
    pub(super) fn report(&self, now: Instant, cluster: &Known<'_>) -> Option<ClusterReport> {
        let loads = (cluster.loads).of_servers(now, cluster.members, cluster.draft);
        let fresh = loads.iter().filter(|load| load.age < limits::LOADS_AGE_MAX);
        let servers = fresh.filter_map(|load| self.server_report(load, cluster));
        let mut servers: Vec<_> = servers.collect();
        servers.sort_unstable_by_key(|server| server.server);
        (servers.len() > 1).then_some(ClusterReport { servers })
    }

    /// `None` if it does not tell of each of its workers.
    fn server_report(&self, load: &ServerLoad, cluster: &Known<'_>) -> Option<ServerReport> {
        let server = cluster.members.server(load.server);
        let mut workers = vec![None; server.entry.worker_ports.len()];
        let mut left_out_bytes = 0;
        for (worker, left_out) in &load.workers {
            left_out_bytes += left_out.memory_bytes;
            let at = WorkerRef {
                server: load.server,
                worker: worker.worker,
            };
            let cachelets = worker.cachelets.iter().map(|cachelet| CacheletReport {
                cachelet: cachelet.cachelet.into(),
                load: cachelet.load,
                memory_bytes: cachelet.memory_bytes,
                // Neither lent within its server nor on its way elsewhere, and rested.
                may_move: cluster.draft.slot(cachelet.cachelet) == Some(&Slot::Owned(at))
                    && !self.moved_at.contains_key(&cachelet.cachelet),
            });
            *workers.get_mut(usize::from(worker.worker))? = Some(WorkerReport {
                load: worker.served_load(),
                busy: worker.busy,
                replicates: worker.replicated_keys > 0,
                cachelets: cachelets.collect(),
            });
        }
        Some(ServerReport {
            server: load.server,
            accepts: server.drain.is_none(),
            // What it had no room to tell of takes memory, too.
            memory_max_bytes: load.memory_limit_bytes.saturating_sub(left_out_bytes),
            workers: workers.into_iter().collect::<Option<_>>()?,
        })
    }

    /// Notes what the last plan has brought, once averages show it.
    fn measure_effect(&mut self, spread: Option<Spread>) {
        let Some((id, looks)) = self.settling else {
            return;
        };
        if looks > 0 {
            self.settling = Some((id, looks - 1));
            return;
        }
        self.settling = None;
        if let Some(plan) = self.over.iter_mut().find(|plan| plan.id == id) {
            plan.measured = spread;
        }
    }
}

/// What a plan leads to, as reckoned last.
pub(super) fn note_predictions(plan: &mut Plan, made: &ClusterPlan, members: &Members) {
    plan.before = made.before;
    plan.predicted = made.after;
    plan.bytes = made.bytes;
    plan.changes = (made.changes.iter())
        .map(|change| WorkerChange {
            worker: members.name_of(change.worker),
            before: change.before,
            after: change.after,
        })
        .collect();
}

fn moves_of(made: &ClusterPlan, members: &Members) -> Vec<PlanMove> {
    let moves = made.moves.iter().filter_map(|it| {
        Some(PlanMove {
            cachelet: CacheletId(u16::try_from(it.cachelet.0).ok()?),
            from: members.name_of(it.from),
            to: members.name_of(it.to),
            load: it.load,
            bytes: it.bytes,
            state: MoveState::Waiting,
            began: None,
            note: None,
        })
    });
    moves.collect()
}

/// What a planner says, of which this coordinator can make something.
enum Answer {
    /// Moves between servers, and how many others are left out.
    Plan(ClusterPlan, usize),
    Nothing(Verdict),
    AddServers(usize),
}

/// Who makes plans.
pub(super) fn planner() -> Mbal {
    Mbal::new(Effort::Fast, WorkLimit::default())
}

fn plan_for(report: &ClusterReport, config: &ClusterConfig) -> Answer {
    let mut planner = planner();
    let made = match cluster::plan(&mut planner, report, config) {
        Ok(ClusterAnswer::Plan(made)) => made,
        answer => return without_plan(answer),
    };
    let between = (made.moves.iter()).filter(|it| it.from.server != it.to.server);
    let wanted: Vec<_> = between.map(|it| (it.cachelet, it.to)).collect();
    // Reckoned anew for what is left, so that predictions are those of what will be done.
    let mut again = Again { wanted };
    match cluster::plan(&mut again, report, config) {
        Ok(ClusterAnswer::Plan(plan)) => {
            let left_out = made.moves.len().saturating_sub(plan.moves.len());
            Answer::Plan(plan, left_out)
        }
        answer => without_plan(answer),
    }
}

fn without_plan<E>(answer: Result<ClusterAnswer, E>) -> Answer {
    match answer {
        Ok(ClusterAnswer::Even) => Answer::Nothing(Verdict::Even),
        Ok(ClusterAnswer::NoRoom { .. } | ClusterAnswer::Plan(_)) => {
            Answer::Nothing(Verdict::NoRoom)
        }
        Ok(ClusterAnswer::TooSmall { .. }) => Answer::Nothing(Verdict::TooSmall),
        Ok(ClusterAnswer::AddServers { servers }) => Answer::AddServers(servers),
        Err(_) => Answer::Nothing(Verdict::Unknown),
    }
}

/// Proposes moves that somebody has thought of before, those that keep the limits.
struct Again {
    wanted: Vec<(CacheletNumber, WorkerRef)>,
}

impl Planner for Again {
    fn relieve(&mut self, draft: &mut Draft<'_>) {
        let mut left: Vec<(usize, usize)> = (self.wanted.iter())
            .filter_map(|&(number, to)| {
                let cachelet = draft.cachelets().iter().position(|c| c.number == number)?;
                let to = draft.workers().iter().position(|w| w.at == to)?;
                Some((cachelet, to))
            })
            .collect();
        // One move may make room for another, and two cachelets may have to change places: again until nothing
        // fits any more.
        loop {
            let before = left.len();
            left.retain(|&(cachelet, to)| {
                let fits = draft.may_move(cachelet, to);
                if fits {
                    draft.give(cachelet, to);
                }
                !fits
            });
            if let Some((a, b)) = a_swap(draft, &left) {
                draft.swap(a, b);
                left.retain(|&(cachelet, _)| cachelet != a && cachelet != b);
            }
            if left.len() == before {
                return;
            }
        }
    }
}

/// Two cachelets that each want to go where the other one is, and may.
fn a_swap(draft: &Draft<'_>, wanted: &[(usize, usize)]) -> Option<(usize, usize)> {
    let owner = |cachelet: usize| draft.cachelet(cachelet).worker;
    wanted.iter().enumerate().find_map(|(i, &(a, to_a))| {
        let partner = wanted[i + 1..]
            .iter()
            .find(|&&(b, to_b)| owner(b) == to_a && owner(a) == to_b && draft.may_swap(a, b));
        partner.map(|&(b, _)| (a, b))
    })
}

const _: () = assert!(limits::LOADS_AGE_MAX.as_millis() > limits::PLAN_LOOK.as_millis());
