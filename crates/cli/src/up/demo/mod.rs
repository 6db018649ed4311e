//! `evenkeel up --demo`: what balancing does, before your eyes.
//!
//! One load goes on through three phases: balancing off, so that each request for a key goes to its one server, as with memcached; on; on
//! with other keys hot, because a balance that lasts only until the next surprise would be worth little. Each phase's figures leave
//! out its start, in which the servers find the hot keys and the clients their leases.

mod lines;
mod measure;
mod report;
mod workload;

use super::args::{Args, DemoArgs};
use super::cluster::Cluster;
use super::lines::Lines;
use super::page;
use super::processes::Outcome;
use anyhow::{Context, bail, ensure};
use evenkeel_bench::{Counters, Driver, LoadHandle, LoadPlan, OutputFormat};
use evenkeel_coordinator_core::Mode;
use evenkeel_runtime::{UsageError, print_line, raise_descriptor_limit};
use measure::{Probe, Sample};
use report::{DemoReport, Phase, PhaseReport};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Start of each phase that its figures leave out: members hear of a change with their next
/// heartbeat (half a second), popularity is an average over two seconds, and a lease outlives what
/// it was granted for by a second at most. Phases shorter than twice this leave out their first half.
const SETTLE: Duration = Duration::from_secs(5);

/// Distance of samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

/// Distance of looks at the load, which publishes its figures about as often.
const LOAD_LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// A line is written about this much.
const LINE_SECONDS: f64 = 0.9;

/// Columns of a terminal that does not say.
const WIDTH_DEFAULT: u16 = 80;

/// Distance of looks while the cluster is being filled.
const FILL_LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// How often it is tried to set all keys: a busy machine may let some time out.
const FILL_ATTEMPTS: usize = 3;

/// Shortest and longest phases, in seconds.
const PHASE_SECONDS: std::ops::RangeInclusive<f64> = 1.0..=86_400.0;

impl DemoArgs {
    fn check(&self, rate: f64) -> Result<(), UsageError> {
        for (flag, seconds) in [
            ("--off-seconds", self.off_seconds),
            ("--on-seconds", self.on_seconds / 2.0),
        ] {
            if !PHASE_SECONDS.contains(&seconds) {
                let (min, max) = (PHASE_SECONDS.start(), PHASE_SECONDS.end());
                return Err(UsageError(format!(
                    "{flag}: a phase of {seconds} s is not within {min} and {max}"
                )));
            }
        }
        workload::check(self, rate)
    }

    fn phases(&self) -> [PhasePlan; 3] {
        let plan = |phase, seconds| {
            let length = Duration::from_secs_f64(seconds);
            PhasePlan {
                phase,
                length,
                settle: SETTLE.min(length / 2),
            }
        };
        let on = self.on_seconds / 2.0;
        [
            plan(Phase::Off, self.off_seconds),
            plan(Phase::OnBeforeSwitch, on),
            plan(Phase::OnAfterSwitch, on),
        ]
    }
}

/// A phase and how long it takes.
#[derive(Clone, Copy, Debug)]
struct PhasePlan {
    phase: Phase,
    length: Duration,
    /// Left out of the figures.
    settle: Duration,
}

/// Runs the demo to its end, or until a signal.
///
/// # Errors
/// [`UsageError`] when a flag or an address cannot be used; others when the cluster does
/// not start or the load fails.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let demo = &args.of_demo;
    demo.check(args.demo_rate())?;
    raise_descriptor_limit(demo.connections)?;
    let phases = demo.phases();
    let settle = phases.iter().map(|plan| plan.settle.as_secs_f64());
    let mut report = DemoReport::new(args, settle.collect());
    let mut cluster = Cluster::prepare(args)?;
    let mut lines = Lines::beside(args.format);
    lines.say("starting the cluster")?;
    if cluster.start(args)? == Outcome::Done
        && fill(demo, &mut cluster, &mut lines)? == Outcome::Done
    {
        Stage::set(args, &mut cluster, &mut lines)?.play(&phases, &mut report)?;
    }
    report.restarts = cluster.processes.restarts();
    cluster.processes.stop();
    let text = match args.format {
        OutputFormat::Table => report.to_table(report_width()),
        OutputFormat::Json => report.to_json()?,
    };
    print_line(&text).context("failed to print the report")
}

/// Columns of a report on standard output; nothing where no terminal cuts it.
fn report_width() -> Option<u16> {
    let width = || crossterm::terminal::size().map_or(WIDTH_DEFAULT, |(width, _)| width);
    std::io::stdout().is_terminal().then(width)
}

/// Sets every generated key, so that the phases differ in nothing but what they are about.
fn fill(demo: &DemoArgs, cluster: &mut Cluster, lines: &mut Lines) -> anyhow::Result<Outcome> {
    lines.say(&format!("storing {} keys", demo.keys))?;
    let mut counters = Counters::default();
    for _ in 0..FILL_ATTEMPTS {
        let mut load = start_load(workload::fill(demo, cluster.proxy_address()?)?)?;
        while !load.is_finished() {
            if cluster.processes.tend(Instant::now() + FILL_LOOK_INTERVAL) == Outcome::Stopped {
                return Ok(Outcome::Stopped);
            }
            load.poll();
        }
        counters = load.wait().map_err(workload::load_error)?.counters;
        if counters.sets == demo.keys {
            return Ok(Outcome::Done);
        }
    }
    bail!(
        "failed to fill the cluster: {} of {} keys were stored, with {} errors",
        counters.sets,
        demo.keys,
        counters.errors
    )
}

fn start_load(plan: LoadPlan) -> anyhow::Result<LoadHandle> {
    Driver::start(plan).map_err(workload::load_error)
}

/// Everything that plays a part while the load runs.
struct Stage<'a> {
    cluster: &'a mut Cluster,
    lines: &'a mut Lines,
    load: LoadHandle,
    probe: Probe,
    names: Vec<String>,
    lease_ms: u32,
    started: Instant,
    /// What no line has told of yet.
    untold: Option<Sample>,
    /// Wanted of the cluster and not confirmed yet: the coordinator may be down just now.
    wanted: Option<Mode>,
}

impl<'a> Stage<'a> {
    fn set(args: &Args, cluster: &'a mut Cluster, lines: &'a mut Lines) -> anyhow::Result<Self> {
        let demo = &args.of_demo;
        let proxy = cluster.proxy_address()?;
        lines.say(&format!(
            "{} servers, {} workers each; proxy {proxy}, coordinator http://{}",
            args.servers,
            args.threads,
            cluster.processes.coordinator_address()?
        ))?;
        let page = page::url(&cluster.processes)?;
        lines.say(&format!("see it at {page}"))?;
        if args.open {
            page::open(&page);
        }
        lines.say(&workload::describe(demo, args.demo_rate()))?;
        let load = start_load(workload::plan(demo, args.demo_rate(), proxy)?)?;
        let names = cluster.servers().map(|server| server.name().to_owned());
        Ok(Stage {
            load,
            probe: Probe::new(cluster),
            names: names.collect(),
            lease_ms: args.lease_ms,
            started: Instant::now(),
            untold: None,
            wanted: None,
            cluster,
            lines,
        })
    }

    /// Plays all phases, adds each to the report, and ends the load.
    fn play(mut self, phases: &[PhasePlan], report: &mut DemoReport) -> anyhow::Result<()> {
        // Counts from before the first phase are of no phase.
        self.probe.sample(&mut self.load);
        let mut outcome = Outcome::Done;
        for plan in phases {
            match plan.phase {
                Phase::Off => {}
                Phase::OnBeforeSwitch => self.wanted = Some(Mode::On),
                Phase::OnAfterSwitch => self.load.switch_hot_keys(),
            }
            let measured;
            (outcome, measured) = self.play_phase(plan)?;
            if let Some(sample) = measured {
                let figures = PhaseReport::new(plan.phase, &sample, &self.names, self.lease_ms);
                report.phases.push(figures);
            }
            if outcome == Outcome::Stopped || self.load.is_finished() {
                break;
            }
        }
        // A load that has ended by itself has ended before its time; it says why.
        let cut_short = self.load.is_finished();
        let counters = self.load.stop().map_err(workload::load_error)?.counters;
        ensure!(!cut_short, "the load ended before its time");
        report.completed = outcome == Outcome::Done;
        report.errors = counters.errors;
        report.wrong_values = counters.wrong_values;
        Ok(())
    }

    /// Plays one phase. Its measure is made of the samples that begin after it has settled.
    fn play_phase(&mut self, plan: &PhasePlan) -> anyhow::Result<(Outcome, Option<Sample>)> {
        let begun = Instant::now();
        let mut measured: Option<Sample> = None;
        let mut next = begun;
        while next < begun + plan.length && !self.load.is_finished() {
            let from = next;
            next += SAMPLE_INTERVAL;
            self.switch_balancing();
            let outcome = self.wait_until(next);
            for notice in self.cluster.processes.take_notices() {
                self.lines.say(&format!("note: {notice}"))?;
            }
            if outcome == Outcome::Stopped {
                return Ok((Outcome::Stopped, measured));
            }
            let sample = self.probe.sample(&mut self.load);
            if from >= begun + plan.settle {
                match &mut measured {
                    Some(sum) => sum.add(&sample),
                    none => *none = Some(sample.clone()),
                }
            }
            self.show(plan.phase, sample)?;
        }
        Ok((Outcome::Done, measured))
    }

    /// Looks after the cluster and listens to the load until `end` or a signal.
    fn wait_until(&mut self, end: Instant) -> Outcome {
        loop {
            let until = end.min(Instant::now() + LOAD_LOOK_INTERVAL);
            if self.cluster.processes.tend(until) == Outcome::Stopped {
                return Outcome::Stopped;
            }
            if until == end {
                return Outcome::Done;
            }
            self.probe.listen(&mut self.load);
        }
    }

    fn switch_balancing(&mut self) {
        if let Some(mode) = self.wanted
            && self.cluster.set_balancing(mode).is_ok()
        {
            self.wanted = None;
        }
    }

    /// Tells of the last second once it is one.
    fn show(&mut self, phase: Phase, sample: Sample) -> std::io::Result<()> {
        let untold = match self.untold.take() {
            Some(mut sum) => {
                sum.add(&sample);
                sum
            }
            None => sample,
        };
        if untold.load.seconds < LINE_SECONDS {
            self.untold = Some(untold);
            return Ok(());
        }
        let line = lines::of_second(self.started.elapsed(), phase, &untold);
        self.lines.say(&line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    fn up(line: &str) -> Args {
        let words = ["up", "--demo"].into_iter().chain(line.split_whitespace());
        Program::parse_from(words).args
    }

    #[test]
    fn the_load_is_a_part_of_what_the_servers_can_do() {
        assert_eq!(up("").demo_rate().round(), 4200.0);
        assert_eq!(up("--servers 2 -t 5").demo_rate().round(), 7000.0);
        assert_eq!(up("--rate 99").demo_rate(), 99.0);
    }

    #[test]
    fn phases_settle_and_leave_something_to_measure() {
        let seconds = |line| {
            up(line)
                .of_demo
                .phases()
                .map(|plan| (plan.length.as_secs_f64(), plan.settle.as_secs_f64()))
        };
        assert_eq!(seconds(""), [(15.0, 5.0); 3]);
        let short = "--off-seconds 3 --on-seconds 40";
        assert_eq!(seconds(short), [(3.0, 1.5), (20.0, 5.0), (20.0, 5.0)]);
    }

    #[test]
    fn impossible_demos_are_refused_with_the_reason() {
        let check = |line| {
            let args = up(line);
            args.of_demo.check(args.demo_rate())
        };
        for (line, reason) in [
            ("--off-seconds 0", "--off-seconds"),
            ("--on-seconds 1", "--on-seconds"),
            ("--on-seconds NaN", "--on-seconds"),
            ("--connections 0", "connections"),
            ("--rate 0", "rate"),
            ("--zipf 9", "9"),
            ("--get-share 1.5", "1.5"),
            ("--keys 0", "0"),
        ] {
            let error = check(line).expect_err(line).to_string();
            assert!(error.contains(reason), "{line}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
        check("").expect("the defaults are sound");
    }
}
