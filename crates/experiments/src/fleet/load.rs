//! Load on a fleet: an open loop through all of its proxies at once.

use super::Fleet;
use crate::trial::{Subject, Trial};
use anyhow::bail;
use evenkeel_bench::{
    Driver, Latency, LiveSample, LoadHandle, LoadPlan, LoadStats, Source, Stop, Target,
};
use evenkeel_workload::{
    Arrivals, KeySizes, Mix, Popularity, Rate, ReadOnly, ValueSizes, WorkloadSpec,
};
use std::path::Path;
use std::time::{Duration, Instant};

/// Requests in flight on a connection while a fleet is filled.
const FILL_PIPELINE: usize = 16;

/// Connections that fill a fleet.
const FILL_CONNECTIONS: usize = 16;

/// How often it is tried to set all keys.
const FILL_ATTEMPTS: usize = 3;

/// Requests that may be in flight on a connection unless there is a reason: an open loop that is held up by its own
/// pipelines is none.
pub const PIPELINE: usize = 256;

/// Distance of looks whether a load has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The loads of workers are asked for this long before a trial ends: they fade from then on.
const LOOK_BEFORE_END: Duration = Duration::from_millis(100);

/// What the requests are.
#[derive(Clone, Debug)]
pub struct LoadSpec {
    /// Keys in all.
    pub keys: u64,
    /// Before the number of each key: other names, other homes.
    pub prefix: String,
    /// Length of each key, in bytes.
    pub key_len: usize,
    /// Length of each value, in bytes.
    pub value_len: usize,
    /// How unevenly requests fall on keys.
    pub popularity: Popularity,
    /// Share of the gets; the rest are sets.
    pub get_share: f64,
    /// Whether a get that misses is followed by a set of its key.
    pub cache_aside: bool,
    /// Keys that are never written.
    pub read_only: Option<ReadOnly>,
    /// How often other keys become the hot ones, if they do.
    pub reshuffle: Option<Duration>,
    /// Connections to each proxy; each is a client of its own.
    pub connections: usize,
    /// Requests that may be in flight on each.
    pub pipeline: usize,
    /// Time before each trial that is not measured.
    pub warm_up: Duration,
    /// Length of a trial.
    pub duration: Duration,
    /// Fixes which keys are hot, and all that follows.
    pub seed: u64,
}

impl LoadSpec {
    fn workload(&self) -> anyhow::Result<WorkloadSpec> {
        Ok(WorkloadSpec {
            keys: Some(self.keys),
            popularity: self.popularity,
            mix: Mix::gets(self.get_share)?,
            read_only: self.read_only,
            prefix: self.prefix.clone(),
            key_sizes: KeySizes::fixed(self.key_len as u32)?,
            value_sizes: ValueSizes::fixed(self.value_len as u32)?,
            seed: self.seed,
            ..WorkloadSpec::default()
        })
    }

    fn plan(&self, target: Target, source: Source) -> LoadPlan {
        LoadPlan {
            connections_per_thread: self.connections,
            pipeline: self.pipeline,
            warm_up: self.warm_up,
            ..LoadPlan::new(target, source)
        }
    }

    /// Starts this many requests a second, of all targets together, for this long or until they are stopped.
    pub(crate) fn start(
        &self,
        targets: &[Target],
        requests_per_second: f64,
        duration: Option<Duration>,
    ) -> anyhow::Result<Vec<LoadHandle>> {
        self.start_by(targets, Some(requests_per_second), None, duration)
    }

    /// The same, as a closed loop where no rate is told; with the requests of a trace again and again where there is one.
    pub(crate) fn start_by(
        &self,
        targets: &[Target],
        requests_per_second: Option<f64>,
        trace: Option<&Path>,
        duration: Option<Duration>,
    ) -> anyhow::Result<Vec<LoadHandle>> {
        let pace = requests_per_second.map_or(Arrivals::Closed, |all| {
            Arrivals::Poisson(Rate::Constant(all / targets.len() as f64))
        });
        self.start_at(targets, pace, trace, duration)
    }

    /// The same at a rate that goes up and down, of all targets together, until it is stopped.
    pub(crate) fn start_wave(
        &self,
        targets: &[Target],
        rate: Rate,
    ) -> anyhow::Result<Vec<LoadHandle>> {
        let each = |all: f64| all / targets.len() as f64;
        let rate = match rate {
            Rate::Constant(all) => Rate::Constant(each(all)),
            Rate::Wave {
                low,
                high,
                period_ns,
                shape,
            } => Rate::Wave {
                low: each(low),
                high: each(high),
                period_ns,
                shape,
            },
        };
        self.start_at(targets, Arrivals::Poisson(rate), None, None)
    }

    /// At this pace for each target.
    fn start_at(
        &self,
        targets: &[Target],
        pace: Arrivals,
        trace: Option<&Path>,
        duration: Option<Duration>,
    ) -> anyhow::Result<Vec<LoadHandle>> {
        let start = |(index, target): (u64, &Target)| {
            let source = match trace {
                Some(path) => Source::Trace {
                    path: path.to_owned(),
                    format: None,
                    repeat: true,
                },
                None => Source::Generated(self.workload()?),
            };
            Driver::start(LoadPlan {
                pace,
                value_sizes: ValueSizes::fixed(self.value_len as u32)?,
                cache_aside: self.cache_aside,
                stop: Stop {
                    after: duration,
                    requests: None,
                },
                seed: self.seed.wrapping_add(index),
                ..self.plan(target.clone(), source)
            })
        };
        (0..).zip(targets).map(start).collect()
    }

    /// Reads every key of a list in a file, one a line, and sets those that are not there.
    ///
    /// # Errors
    /// When one is there neither before nor afterwards.
    pub fn fill_list(&self, fleet: &Fleet, list: &Path) -> anyhow::Result<()> {
        let Some(target) = fleet.targets().next() else {
            return Ok(());
        };
        let source = Source::Trace {
            path: list.to_owned(),
            format: None,
            repeat: false,
        };
        let plan = LoadPlan {
            value_sizes: ValueSizes::fixed(self.value_len as u32)?,
            cache_aside: true,
            ..self.fill_plan(target, source)
        };
        for _ in 0..FILL_ATTEMPTS {
            let counters = Driver::start(plan.clone())?.wait()?.counters;
            if counters.errors == 0 && counters.sets == counters.misses {
                return Ok(());
            }
        }
        bail!("not all keys of {} were stored", list.display())
    }

    fn fill_plan(&self, target: Target, source: Source) -> LoadPlan {
        LoadPlan {
            connections_per_thread: FILL_CONNECTIONS,
            pipeline: FILL_PIPELINE,
            warm_up: Duration::ZERO,
            answer_timeout: Duration::from_secs(30),
            ..self.plan(target, source)
        }
    }

    /// Sets every key, all of them anew where a busy machine let some time out.
    ///
    /// # Errors
    /// When one is not stored in any of a few attempts.
    pub fn fill(&self, fleet: &Fleet) -> anyhow::Result<()> {
        let mut targets = fleet.targets();
        targets.next().map_or(Ok(()), |target| self.fill_by(target))
    }

    /// The same by this proxy.
    ///
    /// # Errors
    /// Likewise.
    pub(crate) fn fill_by(&self, target: Target) -> anyhow::Result<()> {
        let source = Source::Fill(self.workload()?);
        let plan = self.fill_plan(target, source);
        let mut stored = 0;
        for _ in 0..FILL_ATTEMPTS {
            stored = Driver::start(plan.clone())?.wait()?.counters.sets;
            if stored == self.keys {
                return Ok(());
            }
        }
        bail!("{stored} of {} keys were stored", self.keys)
    }
}

/// What has happened since the last look at all of these loads; nothing where there are none.
pub(crate) fn look(running: &mut [LoadHandle]) -> Option<LiveSample> {
    let samples = running.iter_mut().map(LoadHandle::poll);
    samples.reduce(|mut sum, sample| {
        sum.add(&sample);
        sum
    })
}

/// A fleet under a load of one kind.
#[derive(Debug)]
pub struct LoadedFleet<'f> {
    /// The fleet, filled.
    pub fleet: &'f Fleet,
    /// What the requests are.
    pub load: LoadSpec,
}

impl LoadedFleet<'_> {
    /// Starts this many requests a second through all proxies, for this long or until they are stopped.
    pub(crate) fn start(
        &self,
        requests_per_second: f64,
        duration: Option<Duration>,
    ) -> anyhow::Result<Vec<LoadHandle>> {
        let targets: Vec<_> = self.fleet.targets().collect();
        self.load.start(&targets, requests_per_second, duration)
    }
}

impl Subject for LoadedFleet<'_> {
    fn trial(&mut self, requests_per_second: f64) -> anyhow::Result<Trial> {
        let load = &self.load;
        let running = self.start(requests_per_second, Some(load.duration))?;
        // What the servers do is counted from the end of the warm-up, too.
        std::thread::sleep(load.warm_up);
        let (before, begun) = (self.fleet.keys_served()?, Instant::now());
        if let Some(interval) = load.reshuffle {
            reshuffle(&running, interval);
        }
        let loads_of_workers = match self.fleet.has_several_workers() {
            true => {
                let end = begun + load.duration.saturating_sub(LOOK_BEFORE_END);
                std::thread::sleep(end.saturating_duration_since(Instant::now()));
                self.fleet.loads_of_workers()?
            }
            false => Vec::new(),
        };
        let mut sum = LoadStats::default();
        for load in running {
            sum.add(&load.wait()?);
        }
        let seconds = begun.elapsed().as_secs_f64();
        let after = self.fleet.keys_served()?;
        let served = after.iter().zip(&before);
        let trial = trial(
            requests_per_second,
            seconds,
            &sum,
            served
                .map(|(after, before)| after.saturating_sub(*before) as f64 / seconds)
                .collect(),
        );
        Ok(Trial {
            loads_of_workers,
            ..trial
        })
    }
}

/// Makes other keys hot again and again until the loads end. Each load is told at the same time.
fn reshuffle(running: &[LoadHandle], interval: Duration) {
    let mut due = Instant::now() + interval;
    while !running.iter().all(LoadHandle::is_finished) {
        std::thread::sleep(LOOK_INTERVAL.min(interval));
        if Instant::now() >= due {
            running.iter().for_each(LoadHandle::switch_hot_keys);
            due += interval;
        }
    }
}

fn trial(
    offered_per_second: f64,
    seconds: f64,
    stats: &LoadStats,
    keys_per_second_of_servers: Vec<f64>,
) -> Trial {
    let counters = stats.counters;
    // Requests that nobody answered are errors, but not among those that were answered.
    let answered = counters.requests - (counters.errors - counters.unanswered);
    Trial {
        offered_per_second,
        requests_per_second: answered as f64 / seconds,
        latency: Latency::new(&stats.latency()),
        reads: Latency::new(&stats.get_latency),
        writes: Latency::new(&stats.set_latency),
        hit_ratio: counters.hit_ratio(),
        keys_per_second_of_servers,
        loads_of_workers: Vec::new(),
        errors: counters.errors,
        wrong_values: counters.wrong_values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As when a pool falls silent: more connections broke off their requests than had answers.
    #[test]
    fn requests_that_nobody_answered_take_nothing_from_those_that_were() {
        let mut stats = LoadStats::default();
        stats.counters.requests = 100;
        stats.counters.errors = 210;
        stats.counters.unanswered = 200;
        let trial = trial(1_000.0, 2.0, &stats, Vec::new());
        assert_eq!(trial.requests_per_second, 45.0);
        assert_eq!(trial.errors, 210);
    }
}
