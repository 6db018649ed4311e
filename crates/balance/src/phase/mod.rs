//! Which of the three phases has to act at a server (MBal, section 3.1 and figure 4).
//!
//! The remedies differ in what they cost. Replicas of a few keys are cheap and quick; moving cachelets between
//! workers costs a redirect; moving them between servers copies them. So the cheapest comes first, and the next one
//! when the first was not enough, or cannot be: replicas are no help against writes, nor is passing cachelets
//! around where nearly all workers have too much.
//!
//! Once in each interval the machine is told what was measured and answers with what is to be done in it. An
//! imbalance has to last [`PhaseConfig::intervals_min`] intervals before anything is done, and to be gone for as
//! long before it is stopped. Phases act side by side: hot keys are replicated whatever else is done, only with
//! less sampling once there are as many of them as [`PhaseConfig::replicated_keys_high`].
//!
//! What counts as overloaded is relative to the mean of the cluster's workers, and a worker that mostly sleeps is
//! not overloaded, as for the trigger of replication ([`load`](crate::load)). So "most workers of this server are
//! overloaded" says that the server has more than its share.
//!
//! A test prints the table of all moves as `docs/balancing-phases.md`.

mod log;
#[cfg(test)]
mod page;
mod state;
#[cfg(test)]
mod tests;

use evenkeel_types::Instant;
use serde::{Deserialize, Serialize};

pub use log::{EFFECT_AFTER_INTERVALS, LOG_ENTRIES_MAX, Log, LogEntry, Measurement, PhaseAction};
pub use state::{Event, MOVES, STATES, State, Transitions};

use super::local::{LocalAnswer, LocalCause, LocalLimits};
use super::share::{self, BUSY_MIN, ClusterLoad, Measured, Share, Utilization};
use super::{deviation, mean};

/// This many plans of phase 2 that promise to relieve everybody are each given [`PhaseConfig::intervals_patience`] to
/// show it, before phase 3 is called. More would be a server whose loads do not follow its cachelets.
pub const PLANS_TRUSTED_MAX: u32 = 3;

/// This many times phase 1 is given [`PhaseConfig::intervals_patience`] anew because it has replicated more keys than before. More would
/// be one that replicates for ever and helps nobody.
pub const GAINS_TRUSTED_MAX: u32 = 4;

/// Settings of the phase machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PhaseConfig {
    /// Intervals that an imbalance has to last, and that it has to be gone for (the paper's four).
    pub intervals_min: u32,
    /// Intervals that a phase has to show what it can do before the next one is called besides.
    pub intervals_patience: u32,
    /// With this many replicated keys for each of its workers, phase 1 is not enough (the paper's `REPL_high`, which is for a server). Little
    /// less than the 64 that a worker replicates at most: then hardly any key finds a place any more.
    pub replicated_keys_high: usize,
    /// Below this part of [`replicated_keys_high`](Self::replicated_keys_high) sampling is what it was again.
    pub replicated_keys_low_ratio: f64,
    /// With a larger part of writes a hot spot is one that replicas are no help against. A write takes nine times
    /// of popularity what a read adds, so that keys with more writes than one in ten are not replicated.
    pub write_share_high: f64,
    /// With more than this part of its workers overloaded a server cannot help itself.
    pub server_overloaded_ratio: f64,
    /// What is sampled when too many keys are replicated, in parts of what is sampled otherwise.
    pub sampling_ratio_lowered: f64,
    /// Whether phase 1 may act.
    pub replication: bool,
    /// Whether phase 2 may act.
    pub local: bool,
    /// Whether phase 3 may act.
    pub coordinated: bool,
}

impl Default for PhaseConfig {
    fn default() -> Self {
        PhaseConfig {
            intervals_min: 4,
            intervals_patience: 4,
            replicated_keys_high: 60,
            replicated_keys_low_ratio: 0.8,
            write_share_high: 0.1,
            server_overloaded_ratio: 0.75,
            sampling_ratio_lowered: 0.25,
            replication: true,
            local: true,
            coordinated: true,
        }
    }
}

/// What was measured in one interval.
#[derive(Clone, Copy, Debug)]
pub struct Interval<'a> {
    /// Its end.
    pub at: Instant,
    /// Load of each worker.
    pub loads: &'a [f64],
    /// Part of its time that each worker has something to do. As many as loads.
    pub busy: &'a [f64],
    /// The cluster's, where the coordinator has told it.
    pub cluster: Option<ClusterLoad>,
    /// Keys that have replicas elsewhere.
    pub replicated_keys: usize,
    /// Part of the requests for the overloaded workers' hottest keys that write. 0 where nobody is overloaded.
    pub write_share: f64,
}

/// What phase 2 is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalDuty {
    /// Nothing: it is switched off.
    Nothing,
    /// Take lent cachelets home whose lease is over.
    GoHome,
    /// Relieve the overloaded workers.
    Balance,
}

/// What is to be done in the next interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Duties {
    /// Whether phase 1 replicates hot keys.
    pub replicate: bool,
    /// What is sampled for it, in parts of what is sampled normally.
    pub sampling_ratio: f64,
    /// Phase 2.
    pub local: LocalDuty,
    /// Whether the coordinator is asked for phase 3.
    pub ask_coordinator: bool,
    /// The limits for phase 2.
    pub limits: LocalLimits,
}

/// Intervals in which each phase had to act, and those with nothing to do: the paper's figure 13.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseCounts {
    /// Intervals without any.
    pub idle: u64,
    /// Intervals of phase 1 alone.
    pub replicating: u64,
    /// Intervals of phase 2.
    pub local: u64,
    /// Intervals of phase 3.
    pub coordinated: u64,
}

impl PhaseCounts {
    /// Parts of the three phases in all intervals in which there was something to do. All 0 without any.
    pub fn shares(&self) -> [f64; 3] {
        let phases = [self.replicating, self.local, self.coordinated];
        let all = phases.iter().sum::<u64>().max(1) as f64;
        phases.map(|count| count as f64 / all)
    }
}

/// The phase machine of one server.
#[derive(Clone, Debug)]
pub struct Phases {
    config: PhaseConfig,
    state: State,
    /// Intervals measured.
    interval: u64,
    /// Intervals in a row with somebody overloaded.
    hot: u32,
    /// Intervals in a row with nobody.
    calm: u32,
    /// Intervals since the state changed, since a plan was made that is trusted, or since phase 1 replicated more keys than before.
    in_state: u32,
    /// Plans that were trusted since the state changed.
    plans_trusted: u32,
    /// How often phase 1 replicated more keys than before since the state changed, and the most.
    gains_trusted: u32,
    keys_most: usize,
    /// Whether phase 2 has said, since it was last called, that it can do nothing.
    local_cannot_help: bool,
    /// Whether sampling is lowered.
    sampling_lowered: bool,
    last: Measurement,
    transitions: Transitions,
    counts: PhaseCounts,
    log: Log,
}

impl Phases {
    /// A machine of a server that is even.
    pub fn new(config: PhaseConfig) -> Self {
        Phases {
            config,
            state: State::Even,
            interval: 0,
            hot: 0,
            calm: 0,
            in_state: 0,
            plans_trusted: 0,
            gains_trusted: 0,
            keys_most: 0,
            local_cannot_help: false,
            sampling_lowered: false,
            last: Measurement::default(),
            transitions: state::no_transitions(),
            counts: PhaseCounts::default(),
            log: Log::default(),
        }
    }

    /// What the balancer is at.
    pub fn state(&self) -> State {
        self.state
    }

    /// What the last interval measured.
    pub fn measured(&self) -> Measurement {
        self.last
    }

    /// How often it went from where to where.
    pub fn transitions(&self) -> &Transitions {
        &self.transitions
    }

    /// Switches phase 1. If it is at that, it goes on until it is even or that was not enough.
    pub fn set_replication(&mut self, may_act: bool) {
        self.config.replication = may_act;
    }

    /// Switches phase 3. What it is at goes on until it is even or the server has room again.
    pub fn set_coordinated(&mut self, may_act: bool) {
        self.config.coordinated = may_act;
    }

    /// How often each phase had to act.
    pub fn counts(&self) -> PhaseCounts {
        self.counts
    }

    /// What was decided, and what came of it.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Tells what was measured in an interval, and says what is to be done in the next one. O(workers).
    ///
    /// # Panics
    ///
    /// If there are not as many loads as parts of time.
    pub fn handle_interval(&mut self, interval: &Interval<'_>) -> Duties {
        assert_eq!(interval.loads.len(), interval.busy.len());
        let share = share_of(interval);
        let now = Phases::measure(interval, share);
        self.last = now;
        self.interval += 1;
        self.log.measure(self.interval, now);
        if now.overloaded > 0 {
            (self.hot, self.calm) = (self.hot.saturating_add(1), 0);
        } else {
            (self.hot, self.calm) = (0, self.calm.saturating_add(1));
        }
        self.in_state = self.in_state.saturating_add(1);
        self.trust_gain(&now);
        if let Some((event, to)) = self.next(&now, share) {
            self.go(interval.at, event, to);
        }
        self.lower_sampling(&now);
        self.count();
        self.duties(&now, Phases::limits(interval, share))
    }

    /// Tells what phase 2 made of its duty.
    pub fn handle_local_answer(&mut self, at: Instant, answer: &LocalAnswer) {
        self.local_cannot_help = matches!(
            answer,
            LocalAnswer::NoRoom
                | LocalAnswer::TooSmall { .. }
                | LocalAnswer::ServerOverloaded { .. }
        );
        if let LocalAnswer::Plan(plan) = answer {
            let moves = plan.moves.len();
            let deed = match plan.cause {
                LocalCause::GoingHome => PhaseAction::WentHome { moves },
                LocalCause::Overload => PhaseAction::Moved {
                    moves,
                    method: plan.method,
                    load_max_expected: plan.after.iter().copied().fold(0.0, f64::max),
                },
            };
            self.log.push(at, self.interval, deed, self.last);
            let promises = plan.cause == LocalCause::Overload && plan.still_overloaded == 0;
            if promises && self.plans_trusted < PLANS_TRUSTED_MAX {
                self.plans_trusted += 1;
                self.in_state = 0;
            }
        }
    }

    /// Gives phase 1 more time while it goes on finding keys to replicate.
    fn trust_gain(&mut self, now: &Measurement) {
        let has_more = now.replicated_keys > self.keys_most;
        if self.state == State::Replicating && has_more && self.gains_trusted < GAINS_TRUSTED_MAX {
            self.gains_trusted += 1;
            self.keys_most = now.replicated_keys;
            self.in_state = 0;
        }
    }

    fn measure(interval: &Interval<'_>, share: Share) -> Measurement {
        let load_mean = mean(interval.loads);
        let is_overloaded =
            |&(&load, &busy): &(&f64, &f64)| load > share.overloaded && busy >= BUSY_MIN;
        let workers = interval.loads.iter().zip(interval.busy);
        Measurement {
            load_max: interval.loads.iter().copied().fold(0.0, f64::max),
            load_mean,
            deviation: deviation(interval.loads),
            cluster_mean: interval.cluster.map_or(load_mean, |cluster| cluster.mean),
            fair_load: share.fair,
            overloaded: workers.filter(is_overloaded).count(),
            workers: interval.loads.len(),
            replicated_keys: interval.replicated_keys,
            write_share: interval.write_share,
        }
    }

    /// Where to go, and why: every decision about the state.
    fn next(&self, now: &Measurement, share: Share) -> Option<(Event, State)> {
        let has_lasted = self.hot >= self.config.intervals_min;
        let is_over = self.calm >= self.config.intervals_min;
        let had_its_time = now.overloaded > 0 && self.in_state >= self.config.intervals_patience;
        match self.state {
            State::Even => (now.overloaded > 0).then_some((Event::Noticed, State::Watching)),
            State::Watching if now.overloaded == 0 => Some((Event::Passed, State::Even)),
            State::Watching if has_lasted => {
                let event = self.reason_to_migrate(now);
                match (event, self.config.replication) {
                    (None, true) => Some((Event::Persisted, State::Replicating)),
                    (event, _) => self.migrate(event.unwrap_or(Event::Persisted), now),
                }
            }
            State::Watching => None,
            _ if is_over => Some((Event::Evened, State::Even)),
            _ if now.overloaded == 0 => None,
            State::Replicating => {
                let late = had_its_time.then_some(Event::NotEnough);
                let event = self.reason_to_migrate(now).or(late)?;
                self.migrate(event, now)
            }
            State::Local => {
                let event = match () {
                    () if self.is_server_overloaded(now) => Event::ServerOverloaded,
                    () if self.local_cannot_help => Event::CannotHelp,
                    () if had_its_time => Event::NotEnough,
                    () => return None,
                };
                let to = State::Coordinated;
                self.config.coordinated.then_some((event, to))
            }
            State::Coordinated => {
                let has_room =
                    !self.is_server_overloaded(now) && now.load_mean <= share.permissible;
                (had_its_time && has_room && self.config.local)
                    .then_some((Event::ServerRelieved, State::Local))
            }
        }
    }

    /// Why replicas will not do, if so.
    fn reason_to_migrate(&self, now: &Measurement) -> Option<Event> {
        if now.write_share > self.config.write_share_high {
            Some(Event::WriteHeavy)
        } else if self.has_many_keys(now, 1.0) {
            Some(Event::ManyKeys)
        } else {
            None
        }
    }

    /// The phase that moves cachelets: the second, unless it is off or the server has too much as a whole.
    fn migrate(&self, event: Event, now: &Measurement) -> Option<(Event, State)> {
        let config = &self.config;
        match self.is_server_overloaded(now) {
            true if config.coordinated => Some((Event::ServerOverloaded, State::Coordinated)),
            _ if config.local => Some((event, State::Local)),
            _ if config.coordinated => Some((event, State::Coordinated)),
            _ => None,
        }
    }

    fn is_server_overloaded(&self, now: &Measurement) -> bool {
        now.overloaded as f64 > self.config.server_overloaded_ratio * now.workers as f64
    }

    fn go(&mut self, at: Instant, event: Event, to: State) {
        let from = self.state;
        self.transitions.record(event, from, to);
        self.state = to;
        self.in_state = 0;
        self.plans_trusted = 0;
        self.gains_trusted = 0;
        self.keys_most = self.last.replicated_keys;
        self.local_cannot_help = false;
        let deed = PhaseAction::Changed { event, from, to };
        self.log.push(at, self.interval, deed, self.last);
    }

    fn lower_sampling(&mut self, now: &Measurement) {
        let part = match self.sampling_lowered {
            true => self.config.replicated_keys_low_ratio,
            false => 1.0,
        };
        self.sampling_lowered = self.has_many_keys(now, part);
    }

    /// Whether more keys have replicas than phase 1 can do with, or more than this part of them.
    fn has_many_keys(&self, now: &Measurement, part: f64) -> bool {
        let high = self.config.replicated_keys_high * now.workers;
        now.replicated_keys as f64 >= part * high as f64
    }

    fn count(&mut self) {
        match self.state {
            State::Even | State::Watching => self.counts.idle += 1,
            State::Replicating => self.counts.replicating += 1,
            State::Local => self.counts.local += 1,
            State::Coordinated => self.counts.coordinated += 1,
        }
    }

    /// The limits of phase 2. Anyone who is not busy enough to be overloaded has room whatever his share is, as far as the
    /// loads of this interval tell what a worker can do: when a hot spot is over, what is left of it is still uneven.
    fn limits(interval: &Interval<'_>, share: Share) -> LocalLimits {
        let busy: f64 = interval.busy.iter().sum();
        let idle_load = match busy > 0.0 {
            true => BUSY_MIN * interval.loads.iter().sum::<f64>() / busy,
            false => 0.0,
        };
        LocalLimits {
            overloaded: share.overloaded.max(idle_load),
            permissible: share.permissible.max(idle_load),
        }
    }

    fn duties(&self, now: &Measurement, limits: LocalLimits) -> Duties {
        let config = &self.config;
        Duties {
            replicate: config.replication,
            sampling_ratio: match self.sampling_lowered {
                true => config.sampling_ratio_lowered,
                false => 1.0,
            },
            local: match self.state {
                _ if !config.local => LocalDuty::Nothing,
                State::Local if now.overloaded > 0 => LocalDuty::Balance,
                _ => LocalDuty::GoHome,
            },
            ask_coordinator: self.state == State::Coordinated && now.overloaded > 0,
            limits,
        }
    }
}

/// What each worker of the server should carry.
fn share_of(interval: &Interval<'_>) -> Share {
    let workers = interval.loads.iter().zip(interval.busy);
    let measured: Vec<Measured> = workers
        .map(|(&load, &busy)| Measured { load, busy })
        .collect();
    let own = share::usual_capacity(&measured);
    match interval.cluster {
        Some(ClusterLoad {
            mean,
            utilization: Some(utilization),
        }) if mean > 0.0 && utilization.0 > 0.0 => {
            let usual = mean / utilization.0;
            let own = share::known_capacity(&measured).unwrap_or(usual);
            utilization.share(share::capacity_beside(own, usual))
        }
        // A coordinator of before tells the mean alone.
        Some(cluster) => Utilization(cluster.mean / own).share(own),
        None => Utilization(mean(interval.loads) / own).share(own),
    }
}
