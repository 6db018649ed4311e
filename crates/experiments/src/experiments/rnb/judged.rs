//! The highest rate of a load at which an objective holds on servers with service times, and filling these servers before.

use super::slowed::{Seen, SlowedFleet};
use anyhow::{bail, ensure};
use evenkeel_bench::{
    ANSWERED_SHARE_MIN, Driver, Latency, LoadPlan, LoadStats, Objective, Range, Search, Source,
    Stop, Target,
};
use evenkeel_workload::{Arrivals, Mix, Rate, WorkloadSpec};
use std::time::Duration;

/// Connections to each proxy. Answers of one connection are in order, so that there should be more of them than requests under way.
const CONNECTIONS: usize = 256;

/// Connections that fill caches, and requests under way on each: not so many that proxies leave out copies.
const FILL_CONNECTIONS: usize = 16;
const FILL_PIPELINE: usize = 4;

/// Copies are filled in rounds, in each of which every item is asked for so often, on average, until of this many keys at most such a part was not
/// found at a copy.
const WARM_TIMES: f64 = 5.0;
const ABSENT_MAX: f64 = 0.003;
const WARM_ROUNDS_MAX: u64 = 50;

/// Before a search, and after each trial that did not hold, such a part of the rate is put on for such a part of a trial, and not judged: connections
/// are opened, and queues are worked off.
const QUIET_RATE: f64 = 0.3;
const QUIET_TIME: f64 = 0.3;

/// A search goes up in steps of this much until a rate does not hold, and ends when it knows the highest to this much.
const GROWTH: f64 = 1.3;
const PRECISION: f64 = 0.07;

/// A rate that does not hold is tried so often before that counts: what else a machine does can only spoil a trial.
const TRIES: u32 = 3;

/// A search goes so far from where it begins, in either direction.
const FAR: f64 = 16.0;

/// What came of a load at one rate.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub requests_per_second: f64,
    pub latency: Latency,
    pub requests: u64,
    /// Those of them that were no sets.
    pub gets: u64,
    /// Requests without an answer, and those that were due and not even sent.
    pub failed: u64,
    pub seen: Seen,
}

/// How a load is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge {
    pub objective: Objective,
    pub duration: Duration,
}

impl Judge {
    fn holds(&self, held: &Held) -> bool {
        let latency_us = self.objective.percentile.of_us(&held.latency);
        latency_us <= self.objective.within.as_secs_f64() * 1e6
            && held.failed as f64 <= (1.0 - ANSWERED_SHARE_MIN) * held.requests as f64
    }

    /// Puts this many requests a second on a fleet.
    fn trial(&self, fleet: &SlowedFleet, load: &LoadPlan, rate: f64) -> anyhow::Result<Held> {
        let targets = fleet.targets();
        let each = Rate::Constant(rate / targets.len() as f64);
        let before = fleet.seen()?;
        let start = |(number, target): (u64, Target)| {
            let mut plan = LoadPlan {
                target,
                connections_per_thread: CONNECTIONS,
                pipeline: 1,
                pace: Arrivals::Poisson(each),
                stop: Stop::after(self.duration),
                seed: load.seed.wrapping_add(number),
                ..load.clone()
            };
            if let Source::Generated(spec) = &mut plan.source {
                spec.seed = plan.seed;
            }
            Driver::start(plan)
        };
        let running = (0..).zip(targets).map(start);
        let mut stats = LoadStats::default();
        for load in running.collect::<anyhow::Result<Vec<_>>>()? {
            stats.add(&load.wait()?);
        }
        let counters = stats.counters;
        // Nothing is deleted, and nothing has to make room.
        ensure!(
            counters.wrong_values == 0 && counters.misses == 0,
            "{} values that nobody wrote, and {} keys without a value",
            counters.wrong_values,
            counters.misses
        );
        let answered = counters.requests - (counters.errors - counters.unanswered);
        Ok(Held {
            requests_per_second: answered as f64 / self.duration.as_secs_f64(),
            latency: Latency::new(&stats.latency()),
            requests: counters.requests,
            gets: counters.requests - counters.sets,
            failed: counters.errors + counters.unsent,
            seen: fleet.seen()? - before,
        })
    }

    /// The highest rate that holds; it is looked for from `start` on.
    pub fn highest(
        &self,
        fleet: &SlowedFleet,
        load: &LoadPlan,
        start: f64,
    ) -> anyhow::Result<Option<Held>> {
        let mut search = Search::new(Range {
            start,
            min: start / FAR,
            max: start * FAR,
            growth: GROWTH,
            precision: PRECISION,
            tries: TRIES,
        });
        let quiet = Judge {
            duration: self.duration.mul_f64(QUIET_TIME),
            ..*self
        };
        quiet.trial(fleet, load, QUIET_RATE * start)?;
        let mut best = None;
        while let Some(rate) = search.next_rate() {
            let trial = self.trial(fleet, load, rate)?;
            let holds = self.holds(&trial);
            match holds {
                true => best = Some(trial),
                false => {
                    quiet.trial(fleet, load, QUIET_RATE * start)?;
                }
            }
            search.handle_step(holds);
        }
        Ok(best)
    }
}

/// Sets every key.
pub(super) fn fill(fleet: &SlowedFleet, spec: &WorkloadSpec) -> anyhow::Result<()> {
    let plan = filling(fleet, Source::Fill(spec.clone()));
    let stored = Driver::start(plan)?.wait()?.counters.sets;
    ensure!(Some(stored) == spec.keys, "{stored} keys were stored");
    Ok(())
}

/// Asks for what the load asks for, until nearly all copies that covers choose are there.
pub(super) fn warm(fleet: &SlowedFleet, spec: &WorkloadSpec, mean_keys: f64) -> anyhow::Result<()> {
    let keys = spec.keys.unwrap_or_default() as f64;
    let mut absent = fleet.copies_absent()?;
    for round in 1..=WARM_ROUNDS_MAX {
        let spec = WorkloadSpec {
            mix: Mix::gets(1.0)?,
            // Other requests in each.
            seed: spec.seed.wrapping_add(round),
            ..spec.clone()
        };
        let plan = LoadPlan {
            stop: Stop::at_request((WARM_TIMES * keys / mean_keys) as u64),
            ..filling(fleet, Source::Generated(spec))
        };
        Driver::start(plan)?.wait()?;
        let before = std::mem::replace(&mut absent, fleet.copies_absent()?);
        if ((absent - before) as f64) < ABSENT_MAX * WARM_TIMES * keys {
            return Ok(());
        }
    }
    bail!("copies were not there after {WARM_ROUNDS_MAX} rounds of filling")
}

fn filling(fleet: &SlowedFleet, source: Source) -> LoadPlan {
    LoadPlan {
        connections_per_thread: FILL_CONNECTIONS,
        pipeline: FILL_PIPELINE,
        ..LoadPlan::new(fleet.filler(), source)
    }
}
