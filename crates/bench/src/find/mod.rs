//! `evenkeel bench find`: the highest rate at which an objective holds.
//!
//! One number says what a server can do for its users: how many requests a second it takes while its latency
//! is still what was promised. A closed loop finds more, with every queue full, which nobody may promise.
//!
//! ```text
//!  search: next rate ──> a step: open loop, settle, judge ──> objective: held, or what was broken
//!    ^                                                                     │
//!    └────────────── held or not <── wait until answers are in <───────────┘
//! ```
//!
//! Each step is a load of its own with fresh connections. At first it is let settle, for a third of the time
//! that it is then judged: connections, caches and the balancing behind them need a moment. After a step that
//! did not hold, one request is sent on each of as many fresh connections, again until all are answered: what
//! the step has left in queues is worked off then, and the next step does not pay for it.
//!
//! A queue that grows for three seconds shows three seconds of latency at most: steps have to be many times
//! as long as the objective, or nothing breaks it.
//!
//! Rejected: a ramp without steps, which finds the limit in one pass, but judges no rate for long enough to
//! tell a percentile; and the same connections for all steps, whose full buffers would outlive a step that failed.

mod command;
mod objective;
mod report;
mod search;

pub use command::{FindArgs, execute_find};
pub use objective::{ANSWERED_SHARE_MIN, FAILED_SHARE_MAX, Limit, Objective, Percentile};
pub use report::{FindReport, FindSettings, Step, StoppedBy};
pub use search::{Range, Search};

use crate::driver::Load;
use crate::report::RoundReport;
use crate::run::measure_shown;
use crate::{BadUsage, LoadPlan, Stop};
use anyhow::Context;
use evenkeel_workload::{Arrivals, Rate, Schedule};
use objective::Figures;
use std::time::{Duration, Instant};

/// Where a search begins: any server can do it, and a fast one is reached by ten doublings.
pub(crate) const START_PER_SECOND: f64 = 1000.0;

/// Factor between two rates while all hold.
const GROWTH: f64 = 2.0;

/// How many times a rate has to fail: see [`Search`].
const TRIES: u32 = 2;

/// Where a search ends: more than one machine can send in an open loop.
pub(crate) const MAX_PER_SECOND: f64 = 10e6;

/// The rates of a result's bracket differ by this part at most. Runs of one server differ by as much.
pub(crate) const PRECISION: f64 = 0.03;

/// Finest precision: machines are less even than that, and each step costs seconds.
const PRECISION_MIN: f64 = 0.001;

/// How long a step is judged: a percentile of 3,000 requests at the first rate, and a minute or two in all.
pub(crate) const STEP: Duration = Duration::from_secs(3);

/// Shortest step. Figures come ten times a second, and an open loop takes some milliseconds to start.
const STEP_MIN: Duration = Duration::from_millis(100);

/// The part of the judged time that a step is let settle before: a second of three.
const SETTLE_SHARE: f64 = 1.0 / 3.0;

/// How often it is tried to get all answers after a step that did not hold. A server that answers nothing for
/// this long fails the next step, too.
const DRAINS_MAX: usize = 5;

/// How long each of these waits for an answer: as long as the end of every load.
const DRAIN_WAIT: Duration = Duration::from_secs(2);

/// What is looked for, and where.
#[derive(Clone, Debug)]
pub struct FindOptions {
    /// The load. Its pace says how requests arrive (Poisson where it is a closed loop), the search their
    /// rate; its end and its warm-up are the search's, too. The server has to be filled already.
    pub plan: LoadPlan,
    /// What has to hold.
    pub objective: Objective,
    /// The first rate, in requests a second.
    pub start_per_second: f64,
    /// The highest rate that is tried.
    pub max_per_second: f64,
    /// The search ends when the lowest rate that failed is above the highest that held by this part of it
    /// at most: 0.03 for 3 %.
    pub precision: f64,
    /// How long a step is judged; a third of that passes before. Should be many times the objective.
    pub step: Duration,
}

impl FindOptions {
    /// From 1,000 to 10 million requests a second in steps of three seconds, to within 3 %.
    pub fn new(plan: LoadPlan, objective: Objective) -> FindOptions {
        FindOptions {
            plan,
            objective,
            start_per_second: START_PER_SECOND,
            max_per_second: MAX_PER_SECOND,
            precision: PRECISION,
            step: STEP,
        }
    }

    fn validate(&self) -> Result<(), BadUsage> {
        let (start, max) = (self.start_per_second, self.max_per_second);
        let refused = if !(start >= 1.0 && start <= max && max.is_finite()) {
            format!("rates: not 1 <= {start} (start) <= {max} (highest)")
        } else if !(PRECISION_MIN..1.0).contains(&self.precision) {
            let precision = self.precision;
            format!("precision: {precision} is not within {PRECISION_MIN} and 1")
        } else if self.step < STEP_MIN {
            format!("steps of {:?} are too short to judge", self.step)
        } else if matches!(self.plan.pace.rate(), Some(Rate::Wave { .. })) {
            "a search sets the rate: it cannot go up and down".into()
        } else {
            return self.plan_at(start).validate();
        };
        Err(BadUsage(refused))
    }

    /// The load of a step at this rate.
    fn plan_at(&self, per_second: f64) -> LoadPlan {
        let rate = Rate::Constant(per_second);
        LoadPlan {
            pace: match self.plan.pace {
                Arrivals::Fixed(_) => Arrivals::Fixed(rate),
                Arrivals::Etc(_) => Arrivals::Etc(rate),
                Arrivals::Closed | Arrivals::Poisson(_) => Arrivals::Poisson(rate),
            },
            warm_up: self.step.mul_f64(SETTLE_SHARE),
            stop: Stop::after(self.step),
            ..self.plan.clone()
        }
    }
}

/// Looks for the highest rate at which an objective holds. `say` is told each step when it is judged.
///
/// # Errors
/// [`BadUsage`] (found by downcasting) when the options make no sense; others when the load could not be
/// made, or its target went away. A rate that does not hold is no error, and neither is it when none does.
pub fn find(options: &FindOptions, say: &mut dyn FnMut(&Step)) -> anyhow::Result<FindReport> {
    options.validate()?;
    let begun = Instant::now();
    let mut steps = Vec::new();
    let mut search = Search::new(Range {
        start: options.start_per_second,
        // Going down takes as long for a server that is broken as for one that is slow, and tells no difference.
        min: options.start_per_second,
        max: options.max_per_second,
        growth: GROWTH,
        precision: options.precision,
        tries: TRIES,
    });
    while let Some(rate) = search.next_rate() {
        let step = hold(options, rate, steps.len() + 1, begun)
            .with_context(|| format!("a step of {rate:.0} requests/s"))?;
        say(&step);
        search.handle_step(step.held());
        if !step.held() && search.next_rate().is_some() {
            drain(options).context("waiting until answers are in")?;
        }
        steps.push(step);
    }
    Ok(FindReport::new(
        options,
        search.held(),
        search.failed(),
        steps,
    ))
}

/// Holds a rate for a step, and judges it.
fn hold(options: &FindOptions, rate: f64, number: usize, begun: Instant) -> anyhow::Result<Step> {
    let plan = options.plan_at(rate);
    let load = Load::prepare(plan.clone())?;
    let judged_from = begun.elapsed() + plan.warm_up;
    let label = format!("{} {rate:.0}/s", plan.target);
    let (finished, series) = measure_shown(&load, &plan, &label)?;
    let measured = RoundReport {
        series,
        ..RoundReport::new(number, plan.threads, &finished)
    };
    let figures = Figures {
        due: requests_due(&plan, options.step, options.objective.within),
        sent: finished.stats.send_lag.len(),
        failed: measured.counters.errors + measured.counters.wrong_values,
        latency: measured.latency,
        generator_cpu_share: measured.generator_cpu_share,
    };
    Ok(Step {
        asked_per_second: rate,
        answered_per_second: figures.answered() as f64 / options.step.as_secs_f64(),
        answered_share: figures.answered_share(),
        failed_share: figures.failed_share(),
        broken: options.objective.broken(&figures),
        judged_from_seconds: judged_from.as_secs_f64(),
        measured,
    })
}

/// How many requests are due in the judged part of a step, but for those at its end that may still be sent
/// and answered within the objective.
fn requests_due(plan: &LoadPlan, step: Duration, within: Duration) -> u64 {
    let from_ns = plan.warm_up.as_nanos() as u64;
    let until_ns = from_ns + step.saturating_sub(within).as_nanos() as u64;
    let schedules = (0..plan.threads)
        .filter_map(|thread| Schedule::new(plan.pace, thread, plan.threads, plan.seed));
    let due = schedules.map(|mut schedule| {
        schedule.drain_until(from_ns);
        schedule.drain_until(until_ns)
    });
    due.sum()
}

/// Waits until the server has worked off what it was sent: a request on each of as many connections as a step
/// has, again until all are answered. It is told nothing else meanwhile.
fn drain(options: &FindOptions) -> anyhow::Result<()> {
    let plan = &options.plan;
    let load = Load::prepare(LoadPlan {
        pace: Arrivals::Closed,
        pipeline: 1,
        answer_timeout: plan.answer_timeout.min(DRAIN_WAIT),
        warm_up: Duration::ZERO,
        stop: Stop::at_request((plan.threads * plan.connections_per_thread) as u64),
        ..plan.clone()
    })?;
    for _ in 0..DRAINS_MAX {
        if load.start()?.wait()?.counters.unanswered == 0 {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, Target};
    use evenkeel_workload::WorkloadSpec;

    fn options(pace: &str) -> FindOptions {
        let target: Target = "127.0.0.1:1".parse().unwrap();
        let source = Source::Generated(WorkloadSpec::default());
        let plan = LoadPlan {
            pace: pace.parse().unwrap(),
            ..LoadPlan::new(target, source)
        };
        FindOptions::new(plan, "p99=5ms".parse().unwrap())
    }

    #[test]
    fn requests_arrive_as_they_did_at_the_rate_of_the_step() {
        for (pace, at) in [
            ("closed", "poisson(500)"),
            ("poisson(7)", "poisson(500)"),
            ("fixed(7)", "fixed(500)"),
            ("etc", "etc(500)"),
        ] {
            let plan = options(pace).plan_at(500.0);
            assert_eq!(plan.pace, at.parse().unwrap(), "{pace}");
            assert_eq!(plan.stop.after, Some(Duration::from_secs(3)));
            assert_eq!(plan.warm_up.as_millis(), 1000);
            plan.validate().unwrap();
        }
    }

    #[test]
    fn what_is_due_is_the_schedule_s_but_for_its_last_moment() {
        for threads in [1, 3] {
            let mut options = options("fixed(1)");
            options.plan.threads = threads;
            let plan = options.plan_at(1000.0);
            let due = |within| requests_due(&plan, options.step, Duration::from_millis(within));
            let around = |due: u64, expected| due.abs_diff(expected) <= threads as u64;
            assert!(around(due(0), 3000), "{}", due(0));
            assert!(around(due(100), 2900), "{}", due(100));
            assert_eq!(due(60_000), 0, "nothing can be late in so short a step");
        }
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        let refused = |change: fn(&mut FindOptions), word: &str| {
            let mut options = options("closed");
            change(&mut options);
            let error = find(&options, &mut |_| {}).unwrap_err();
            assert!(error.is::<BadUsage>(), "{error:#}");
            assert!(error.to_string().contains(word), "{error:#}");
        };
        refused(|options| options.start_per_second = 0.0, "rates");
        refused(|options| options.start_per_second = f64::NAN, "rates");
        refused(|options| options.max_per_second = 999.0, "rates");
        refused(|options| options.max_per_second = f64::INFINITY, "rates");
        refused(|options| options.precision = 0.0, "precision");
        refused(|options| options.step = Duration::ZERO, "too short");
        let wave = |options: &mut FindOptions| {
            options.plan.pace = "poisson(1..2, period=1s)".parse().unwrap();
        };
        refused(wave, "up and down");
        refused(|options| options.plan.pipeline = 0, "pipeline");
    }
}
