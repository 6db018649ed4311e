//! The core of a server's balancer: once in each interval it is told the loads of the workers and says which
//! cachelets pass from one to another, and whether the coordinator is to be asked for more.
//!
//! ```text
//!  workers ── loads ──> ServerBalancer ──┬── phases: is anything to be done, and by which phase?
//!                            │           └── planner: which cachelets pass to whom (phase 2)
//!                            └── moves ──> workers
//! ```
//!
//! It knows no threads and no clock; what decides is in [`migration`](evenkeel_balance). Moves are
//! orders that a worker may not be able to execute: whether one was, the next loads tell.

use evenkeel_balance::cachelet_load::WorkerLoad;
use evenkeel_balance::local::{
    Effort, HostedCachelet, LocalAnswer, LocalConfig, LocalInput, LocalMove, LocalPlanner,
};
use evenkeel_balance::phase::{
    Interval, LocalDuty, Measurement, PhaseAction, PhaseConfig, PhaseCounts, Phases, State,
};
use evenkeel_balance::share::ClusterLoad;
use evenkeel_balance::solver::SolverCounts;
use evenkeel_hotkeys::config::Mode;
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, Instant, ServerId};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Settings of a server's balancer.
#[derive(Clone, Copy, Debug, Default)]
pub struct BalancerConfig {
    /// Whether cachelets pass between workers, or it is only said which would.
    pub mode: Mode,
    /// When which phase acts.
    pub phases: PhaseConfig,
    /// Phase 2.
    pub local: LocalConfig,
}

/// What is to be done until the next interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Orders {
    /// Cachelets that are to pass from one worker to another now.
    pub moves: Vec<LocalMove>,
    /// What is sampled for hot keys, in parts of what is sampled normally.
    pub sampling_ratio: f64,
}

/// Who is the home worker of a cachelet.
#[derive(Clone, Debug)]
enum Homes {
    /// Without a map: by turns.
    ByTurns,
    ByMap(Arc<ClusterMap>, ServerId),
}

/// The balancer of one server.
#[derive(Clone, Debug)]
pub struct ServerBalancer {
    mode: Mode,
    workers: u16,
    phases: Phases,
    planner: LocalPlanner,
    homes: Homes,
    cluster: Option<ClusterLoad>,
    /// Where each cachelet was last seen, and since when if it was elsewhere before.
    hosts: BTreeMap<CacheletId, (u16, Option<Instant>)>,
    counts: BalancerCounts,
    /// As of the last interval.
    asks_coordinator: bool,
}

/// Counts of a balancer since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BalancerCounts {
    /// Intervals in which the loads made no sense together, as when a cachelet passes between two looks.
    pub intervals_skipped: u64,
    /// Moves ordered because a worker was overloaded.
    pub moves: u64,
    /// Moves ordered because a hot spot was over.
    pub moves_home: u64,
    /// Moves that were not ordered, because the balancer only observes.
    pub moves_observed: u64,
}

/// A balancer as it is shown.
#[derive(Clone, Debug, Serialize)]
pub struct BalancerView {
    /// `on`, `observe` or `off`.
    pub mode: Mode,
    /// What it is at.
    pub state: State,
    /// What was measured last.
    pub measured: Measurement,
    /// Intervals by the phase that had to act.
    pub intervals: PhaseCounts,
    /// The same in parts of all in which one had to, for phases 1 to 3.
    pub phase_shares: [f64; 3],
    /// What was done.
    pub counts: BalancerCounts,
    /// How integer programs fared.
    pub solver: SolverCounts,
    /// The last decisions, oldest first.
    pub decisions: Vec<DecisionView>,
    /// Older ones that the log no longer holds.
    pub decisions_overwritten: u64,
}

/// A decision as it is shown.
#[derive(Clone, Debug, Serialize)]
pub struct DecisionView {
    /// Counts from 1.
    pub number: u64,
    /// How long ago it was made, in milliseconds.
    pub age_ms: u64,
    /// What was decided.
    pub deed: PhaseAction,
    /// What was measured then.
    pub before: Measurement,
    /// What was measured some intervals later; `null` until then.
    pub after: Option<Measurement>,
}

impl ServerBalancer {
    /// The balancer of a server with this many workers and no map.
    pub fn new(config: BalancerConfig, workers: u16) -> Self {
        ServerBalancer {
            mode: config.mode,
            workers,
            phases: Phases::new(config.phases),
            planner: LocalPlanner::new(config.local),
            homes: Homes::ByTurns,
            cluster: None,
            hosts: BTreeMap::new(),
            counts: BalancerCounts::default(),
            asks_coordinator: false,
        }
    }

    /// Whether the coordinator moves cachelets between servers by itself, so that phase 3 may act.
    pub fn handle_coordinator(&mut self, balances: bool) {
        self.phases.set_coordinated(balances);
    }

    /// Whether hot keys are replicated, so that phase 1 may act.
    pub fn handle_replication(&mut self, replicates: bool) {
        self.phases.set_replication(replicates);
    }

    /// Whether the coordinator is asked to move cachelets to other servers, because this one cannot help itself.
    pub fn asks_coordinator(&self) -> bool {
        self.asks_coordinator
    }

    /// The coordinator's map, and which server this is in it.
    pub fn handle_map(&mut self, map: Arc<ClusterMap>, me: ServerId) {
        self.homes = Homes::ByMap(map, me);
    }

    /// What the cluster's workers carry.
    pub fn handle_cluster_load(&mut self, load: ClusterLoad) {
        self.cluster = Some(load);
    }

    /// Ends an interval, of which every worker tells its loads. O(cachelets), and what planning takes when
    /// something is to be planned.
    pub fn handle_interval(&mut self, now: Instant, workers: &[WorkerLoad]) -> Orders {
        let mut loads = vec![0.0; usize::from(self.workers)];
        let mut busy = loads.clone();
        for worker in workers {
            if let Some(load) = loads.get_mut(usize::from(worker.worker)) {
                *load = worker.served_load();
                busy[usize::from(worker.worker)] = worker.busy;
            }
        }
        let replicated: u64 = workers.iter().map(|worker| worker.replicated_keys).sum();
        let duties = self.phases.handle_interval(&Interval {
            at: now,
            loads: &loads,
            busy: &busy,
            cluster: self.cluster,
            replicated_keys: usize::try_from(replicated).unwrap_or(usize::MAX),
            write_share: write_share(workers),
        });
        let mut orders = Orders {
            moves: Vec::new(),
            sampling_ratio: duties.sampling_ratio,
        };
        self.asks_coordinator = duties.ask_coordinator;
        if self.mode == Mode::Off || duties.local == LocalDuty::Nothing {
            return orders;
        }
        let input = self.input(now, loads, workers);
        let answer = match duties.local {
            LocalDuty::Balance => self.planner.plan(&input, duties.limits, Effort::Thorough),
            _ => self.planner.go_home(&input, duties.limits),
        };
        let Ok(answer) = answer else {
            self.counts.intervals_skipped += 1;
            return orders;
        };
        self.phases.handle_local_answer(now, &answer);
        if let LocalAnswer::Plan(plan) = answer {
            let moves = plan.moves.len() as u64;
            match (self.mode, duties.local) {
                (Mode::Observe, _) => self.counts.moves_observed += moves,
                (_, LocalDuty::Balance) => self.counts.moves += moves,
                _ => self.counts.moves_home += moves,
            }
            if self.mode == Mode::On {
                orders.moves = plan.moves;
            }
        }
        orders
    }

    /// What phase 2 goes by.
    fn input(&mut self, now: Instant, loads: Vec<f64>, workers: &[WorkerLoad]) -> LocalInput {
        let mut cachelets = Vec::new();
        let former = core::mem::take(&mut self.hosts);
        for worker in workers {
            for load in &worker.cachelets {
                let id = load.cachelet;
                let Some(home) = self.home_of(id) else {
                    continue;
                };
                let host = worker.worker;
                let moved_at = match former.get(&id) {
                    Some(&(before, at)) if before == host => at,
                    Some(_) => Some(now),
                    // Elsewhere than at home from the beginning: nobody knows since when.
                    None => (home != host).then_some(now),
                };
                self.hosts.insert(id, (host, moved_at));
                cachelets.push(HostedCachelet {
                    cachelet: id,
                    home,
                    host,
                    load: load.load,
                    memory_bytes: load.memory_bytes,
                    moved_at,
                });
            }
        }
        LocalInput {
            now,
            loads,
            cachelets,
        }
    }

    /// The home worker of a cachelet of this server.
    fn home_of(&self, cachelet: CacheletId) -> Option<u16> {
        match &self.homes {
            Homes::ByTurns => Some(cachelet.0 % self.workers),
            Homes::ByMap(map, me) => {
                let owner = map.owner(cachelet).filter(|owner| owner.server == *me);
                owner.map(|owner| owner.worker)
            }
        }
    }

    /// What there is to show.
    pub fn view(&self, now: Instant) -> BalancerView {
        let intervals = self.phases.counts();
        let log = self.phases.log();
        let decisions = log.entries().map(|entry| DecisionView {
            number: entry.number,
            age_ms: u64::try_from(now.since(entry.at).as_millis()).unwrap_or(u64::MAX),
            deed: entry.deed,
            before: entry.before,
            after: entry.after,
        });
        BalancerView {
            mode: self.mode,
            state: self.phases.state(),
            measured: self.phases.measured(),
            intervals,
            phase_shares: intervals.shares(),
            counts: self.counts,
            solver: self.planner.counts(),
            decisions: decisions.collect(),
            decisions_overwritten: log.counts().1,
        }
    }
}

/// Part of the requests for the hottest cachelet of the most loaded worker that write: as near as a server that
/// does not look at every key can tell whether its hot spot is one of writes.
fn write_share(workers: &[WorkerLoad]) -> f64 {
    let by_load = |a: &&WorkerLoad, b: &&WorkerLoad| a.served_load().total_cmp(&b.served_load());
    let hottest = workers.iter().max_by(by_load).and_then(|worker| {
        let cachelets = worker.cachelets.iter();
        cachelets.max_by(|a, b| a.load.total_cmp(&b.load))
    });
    hottest.map_or(0.0, |cachelet| {
        let all = cachelet.reads_per_s + cachelet.writes_per_s;
        if all > 0.0 {
            cachelet.writes_per_s / all
        } else {
            0.0
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use evenkeel_balance::share::Utilization;

    /// Intervals until a server asks whose workers all have twice the mean load; `None` if it does not within a minute.
    fn asks_after(balances: bool) -> Option<u32> {
        let config = BalancerConfig {
            mode: Mode::On,
            phases: PhaseConfig {
                coordinated: false,
                ..PhaseConfig::default()
            },
            local: LocalConfig::default(),
        };
        let mut balancer = ServerBalancer::new(config, 2);
        balancer.handle_cluster_load(ClusterLoad {
            mean: 1_000.0,
            utilization: Some(Utilization(0.45)),
        });
        balancer.handle_coordinator(balances);
        let worker = |worker| WorkerLoad {
            worker,
            load: 2_000.0,
            busy: 0.9,
            ..WorkerLoad::default()
        };
        (1..=120).find(|interval| {
            let now = Instant(0) + Duration::from_millis(500) * *interval;
            balancer.handle_interval(now, &[worker(0), worker(1)]);
            balancer.asks_coordinator()
        })
    }

    #[test]
    fn a_server_that_has_too_much_as_a_whole_asks_who_moves_cachelets_between_servers() {
        let asks = asks_after(true).expect("it asks");
        assert!((4..=12).contains(&asks), "{asks} intervals");
        assert_eq!(asks_after(false), None, "nobody would help");
    }
}
