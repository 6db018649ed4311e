//! What is done in a cell, and what is seen of it.

use super::cell::{CROWDED, Cell, Event, Keys};
use crate::args::Scale;
use crate::experiments::watch::{Part, Watch};
use crate::fleet::{Fleet, LoadSpec};
use crate::run::Run;
use crate::trial::max_to_mean;
use anyhow::Context;
use core::time::Duration;
use evenkeel_bench::{LoadHandle, Target};
use std::thread;
use std::time::Instant;

/// The first second of a load: nobody knows yet which keys are hot.
pub(super) const START: &str = "first second";
/// The load as it is before anything happens.
pub(super) const STEADY: &str = "steady";
/// What happens.
pub(super) const EVENT: &str = "event";
/// The time in which it should be over.
pub(super) const RECOVERY: &str = "recovery";
/// What is left of it.
pub(super) const AFTER: &str = "after";

const FIRST: Duration = Duration::from_secs(1);

/// Distance of moments.
const STEP: Duration = Duration::from_millis(100);

/// What is left over of a burst or comes with a crowd should be gone by then.
const SETTLED: Duration = Duration::from_millis(500);

/// What a lost server leaves should be gone so long after others serve its keys.
const REPLACED: Duration = Duration::from_secs(2);

/// How long a server is stopped: for longer than it takes to give one up.
const PAUSE: Duration = Duration::from_secs(3);

/// A server is ten times slower where it is stopped for nine parts of this time of ten.
const SLICE: Duration = Duration::from_millis(10);

/// Longest wait for a dead server to be taken for one.
const NOTICED_LIMIT: Duration = Duration::from_secs(30);

/// Share of the requests that a key of a crowd has.
const CROWD: f64 = 0.4;

/// How many times other keys become hot.
const CHANGES: usize = 3;

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub keys: u64,
    /// How long a load is looked at before something happens and afterwards.
    pub steady: Duration,
    /// How long a burst lasts, and keys stay hot.
    pub event: Duration,
    /// How long each rate is held while a capacity is looked for, and how exactly it is found.
    pub trial: Duration,
    pub precision: f64,
    /// Nobody is refused or taken for dead because the machine is busy.
    pub patient: bool,
}

impl Size {
    pub fn of(run: &Run) -> Size {
        let ms = |values| Duration::from_millis(run.by_scale(values));
        Size {
            keys: run.by_scale([500, 60_000, 60_000, 1_000_000]),
            steady: ms([1_000, 4_000, 12_000, 30_000]),
            event: ms([500, 5_000, 10_000, 10_000]),
            trial: ms([0, 2_000, 6_000, 15_000]),
            precision: run.by_scale([1.0, 0.06, 0.03, 0.03]),
            patient: run.scale == Scale::Quick,
        }
    }
}

/// What was seen of a cell.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub cell: Cell,
    /// Requests a second that were meant to be sent.
    pub offered_per_second: f64,
    pub parts: Vec<Part>,
    /// Values that nobody wrote.
    pub wrong_values: u64,
    /// The busiest server's keys by the mean of all, from the second second to the event.
    pub max_to_mean: f64,
}

impl Outcome {
    pub fn part(&self, label: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.label == label)
    }

    /// The part that the target is about where nothing happens.
    pub fn steady(&self) -> &Part {
        self.part(STEADY).expect("every cell has one")
    }
}

/// A cell under load.
struct Scene<'c> {
    cell: &'c Cell,
    size: &'c Size,
    fleet: Fleet,
    /// All of its load, and requests a second of it.
    load: LoadSpec,
    rate: f64,
    targets: Vec<Target>,
}

/// Puts a cell's load on a fleet of its own. `capacity` is what uniform keys carry on it, in requests a second.
///
/// # Errors
/// When something does not start, or a load ends by itself.
pub(super) fn measure(
    run: &Run,
    size: &Size,
    cell: &Cell,
    capacity: f64,
) -> anyhow::Result<Outcome> {
    run.progress.say(cell.to_string());
    let plan = cell
        .deployment
        .plan(run.small_by, cell.connections_max(), size.patient);
    let fleet = Fleet::start(&plan)?;
    let load = cell.load(size.keys, run.seed);
    load.fill(&fleet)?;
    let scene = Scene {
        cell,
        size,
        targets: fleet.targets().collect(),
        fleet,
        load,
        rate: f64::from(cell.offered) / 100.0 * capacity,
    };
    scene.play(capacity)
}

impl Scene<'_> {
    fn play(mut self, capacity: f64) -> anyhow::Result<Outcome> {
        // What becomes a crowd is uniform before.
        let (own, rest) = match self.cell.event {
            Event::Crowd => {
                self.load.popularity = Keys::Uniform.popularity(self.size.keys);
                (1.0 - CROWD, CROWD)
            }
            _ => (1.0, 0.0),
        };
        let mut watch = Watch::start(self.start(&self.load, own * self.rate)?, STEP, START);
        let own_loads = self.targets.len();
        if rest > 0.0 {
            watch.join(self.start(&self.load, rest * self.rate)?);
        }
        watch.go_on(FIRST)?;
        watch.begin(STEADY);
        let (before, begun) = (self.fleet.keys_served()?, Instant::now());
        watch.go_on(self.size.steady)?;
        let seconds = begun.elapsed().as_secs_f64();
        let served = self.fleet.keys_served()?.into_iter().zip(before);
        let max_to_mean = max_to_mean(
            &served
                .map(|(after, before)| after.saturating_sub(before) as f64 / seconds)
                .collect::<Vec<_>>(),
        );
        self.happen(&mut watch, own_loads, capacity)?;
        let watched = watch.end()?;
        Ok(Outcome {
            cell: *self.cell,
            offered_per_second: self.rate,
            parts: watched.parts,
            wrong_values: watched.wrong_values,
            max_to_mean,
        })
    }

    fn start(&self, load: &LoadSpec, rate: f64) -> anyhow::Result<Vec<LoadHandle>> {
        load.start(&self.targets, rate, None)
    }

    fn happen(&mut self, watch: &mut Watch, own_loads: usize, capacity: f64) -> anyhow::Result<()> {
        let size = self.size;
        match self.cell.event {
            Event::Nothing => return Ok(()),
            Event::Burst(percent) => {
                let more = f64::from(percent) / 100.0 * capacity - self.rate;
                watch.begin(EVENT);
                watch.join(self.start(&self.load, more)?);
                watch.go_on(size.event)?;
                watch.begin(RECOVERY);
                watch.leave(own_loads..)?;
                watch.go_on(SETTLED)?;
            }
            Event::Crowd => {
                let crowd = LoadSpec {
                    keys: 1,
                    prefix: "crowd:".into(),
                    ..self.load.clone()
                };
                crowd.fill(&self.fleet)?;
                watch.begin(RECOVERY);
                watch.leave(own_loads..)?;
                watch.join(self.start(&crowd, CROWD * self.rate)?);
                watch.go_on(SETTLED)?;
            }
            Event::Changes => {
                for _ in 0..CHANGES {
                    watch.begin(EVENT);
                    watch.switch_hot_keys();
                    watch.go_on(size.event)?;
                }
            }
            Event::HomeKilled | Event::OtherKilled => {
                let victim = self.victim()?;
                watch.begin(EVENT);
                self.fleet.kill_server(&victim)?;
                let fleet = &self.fleet;
                watch.until("others to serve the keys", NOTICED_LIMIT, || {
                    fleet.is_replaced(&victim)
                })?;
                watch.begin(RECOVERY);
                watch.go_on(REPLACED)?;
            }
            Event::HomePaused => {
                let victim = self.victim()?;
                watch.begin(EVENT);
                self.fleet.pause_server(&victim, true)?;
                watch.go_on(PAUSE)?;
                watch.begin(RECOVERY);
                self.fleet.pause_server(&victim, false)?;
                watch.go_on(REPLACED)?;
            }
            Event::OtherSlow => {
                let victim = self.victim()?;
                watch.begin(EVENT);
                let fleet = &self.fleet;
                thread::scope(|scope| {
                    let slow = scope.spawn(|| slow_down(fleet, &victim));
                    watch.go_on(PAUSE)?;
                    slow.join().expect("it does not panic")
                })?;
                watch.begin(RECOVERY);
                watch.go_on(REPLACED)?;
            }
            Event::Reconnect => {
                let crowded = LoadSpec {
                    connections: CROWDED.count.div_ceil(self.targets.len()),
                    pipeline: CROWDED.depth,
                    ..self.load.clone()
                };
                watch.begin(RECOVERY);
                watch.leave(..)?;
                watch.join(self.start(&crowded, self.rate)?);
                watch.go_on(REPLACED)?;
            }
            Event::CoordinatorAway => {
                watch.begin(EVENT);
                self.fleet.stop_coordinator()?;
                watch.go_on(size.event)?;
                watch.begin(RECOVERY);
                self.fleet.start_coordinator()?;
                watch.go_on(REPLACED)?;
            }
        }
        watch.begin(AFTER);
        watch.go_on(size.steady)
    }

    /// The server that something is done to.
    fn victim(&self) -> anyhow::Result<String> {
        let home = self.fleet.hottest_home()?;
        if !matches!(self.cell.event, Event::OtherKilled | Event::OtherSlow) {
            return Ok(home);
        }
        let mut names = self.fleet.server_names().into_iter();
        names
            .find(|name| *name != home)
            .context("there is one server only")
    }
}

/// Lets a server work for a tenth of each slice of time, for as long as others are stopped.
fn slow_down(fleet: &Fleet, name: &str) -> anyhow::Result<()> {
    let end = Instant::now() + PAUSE;
    while Instant::now() < end {
        fleet.pause_server(name, true)?;
        thread::sleep(SLICE.mul_f64(0.9));
        fleet.pause_server(name, false)?;
        thread::sleep(SLICE.mul_f64(0.1));
    }
    Ok(())
}
