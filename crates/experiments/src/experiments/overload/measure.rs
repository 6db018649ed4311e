//! What is done in a cell, and what is seen of it.

use super::cell::{CROWDED, Cell, Event, Keys, Offered};
use super::seen::{AFTER, EVENT, Part, RECOVERY, START, STEADY, Seen};
use crate::args::Scale;
use crate::experiments::REGISTRY_TRACE;
use crate::experiments::watch::Watch;
use crate::fleet::{Fleet, LoadSpec};
use crate::run::Run;
use crate::trial::max_to_mean;
use anyhow::Context;
use core::time::Duration;
use evenkeel_bench::{LoadHandle, Target};
use evenkeel_hotkeys::config::Mode as HotKeys;
use evenkeel_workload::trace::{TraceReader, TraceRequest};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;
use tempfile::TempDir;

const FIRST: Duration = Duration::from_secs(1);

/// Distance of moments.
const STEP: Duration = Duration::from_millis(100);

/// What is left over of a burst or comes with a crowd should be gone by then.
const SETTLED: Duration = Duration::from_millis(500);

/// What a lost server leaves should be gone this long after others serve its keys.
const REPLACED: Duration = Duration::from_secs(2);

/// How long a server is stopped or slow, for longer than it takes to give one up, and how long leases are refused.
const PAUSE: Duration = Duration::from_secs(3);

/// How long the links between servers and the coordinator are down, one after another: for less than it takes to take a
/// silent server for dead, and for longer.
const LINKS_DOWN: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// A quarter of the servers is concerned.
const LINKS_SHARE: usize = 4;

/// A server is ten times slower where it is stopped for nine parts of this time of ten.
const SLICE: Duration = Duration::from_millis(10);

/// Longest wait for a dead server to be taken for one.
const NOTICED_LIMIT: Duration = Duration::from_secs(30);

/// Share of the requests that a key of a crowd has.
const CROWD: f64 = 0.4;

/// How many times other keys become hot, and for how long they stay so.
const CHANGES: usize = 3;
const CHANGE: Duration = Duration::from_secs(5);

/// How much more there is in a surge, by what is offered, and for how long.
const SURGE: f64 = 0.5;
const SURGE_TIME: Duration = Duration::from_secs(5);

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub keys: u64,
    /// How long a load is looked at before something happens and afterwards.
    pub steady: Duration,
    /// How long a burst lasts, and the coordinator is away.
    pub event: Duration,
    /// How many links drop, one after the other.
    pub drops: usize,
    /// How long each rate is held while a capacity is looked for, and how exactly it is found.
    pub trial: Duration,
    pub precision: f64,
    /// Nobody is refused or taken for dead because the machine is busy.
    pub long_timeouts: bool,
}

impl Size {
    pub fn of(run: &Run) -> Size {
        let ms = |values| Duration::from_millis(run.by_scale(values));
        Size {
            keys: run.by_scale([500, 60_000, 60_000, 1_000_000]),
            steady: ms([1_000, 4_000, 12_000, 30_000]),
            event: ms([500, 5_000, 10_000, 10_000]),
            drops: run.by_scale([1, 4, 4, 4]),
            trial: ms([0, 2_000, 6_000, 15_000]),
            precision: run.by_scale([1.0, 0.06, 0.03, 0.03]),
            long_timeouts: run.scale == Scale::Quick,
        }
    }
}

/// A cell under load.
struct Scene<'c> {
    cell: &'c Cell,
    size: &'c Size,
    fleet: Fleet,
    /// All of its load.
    load: LoadSpec,
    /// What is replayed instead of it.
    trace: Option<PathBuf>,
    /// Requests a second of an open loop.
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
    seed: u64,
    capacity: f64,
) -> anyhow::Result<Seen> {
    run.progress.say(format!("{cell}, seed {seed}"));
    let fleet = Fleet::start(&cell.plan(size.long_timeouts))?;
    let load = cell.load(size.keys, seed);
    let trace = registry(run).filter(|_| cell.keys == Keys::Registry);
    match &trace {
        Some(path) => {
            let folder = TempDir::new().context("making a folder for a list of keys")?;
            let list = folder.path().join("keys.txt");
            list_keys(path, &list)?;
            load.fill_list(&fleet, &list)?;
        }
        None => load.fill(&fleet)?,
    }
    let percent = match cell.offered {
        Offered::Percent(percent) => percent,
        Offered::Closed => 0,
    };
    let scene = Scene {
        cell,
        size,
        targets: fleet.targets().collect(),
        fleet,
        load,
        trace,
        rate: f64::from(percent) / 100.0 * capacity,
    };
    scene.play(capacity)
}

/// The file of the trace, where it is.
pub(super) fn registry(run: &Run) -> Option<PathBuf> {
    let path = run.data.as_ref()?.join(REGISTRY_TRACE);
    path.exists().then_some(path)
}

/// Writes each key of a trace once, one a line.
fn list_keys(trace: &Path, list: &Path) -> anyhow::Result<()> {
    let mut reader = TraceReader::open(trace, None)?;
    let mut request = TraceRequest::default();
    let (mut known, mut text) = (HashSet::new(), Vec::new());
    while reader.next_request(&mut request)? {
        if known.insert(request.key.clone()) {
            text.extend_from_slice(&request.key);
            text.push(b'\n');
        }
    }
    fs::write(list, text).with_context(|| format!("writing {}", list.display()))
}

impl Scene<'_> {
    fn play(mut self, capacity: f64) -> anyhow::Result<Seen> {
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
        Ok(Seen {
            offered_per_second: self.is_open().then_some(self.rate),
            parts: watched.parts.iter().map(Part::from).collect(),
            wrong_values: watched.wrong_values,
            max_to_mean,
            given_up: self.fleet.given_up()?,
        })
    }

    fn is_open(&self) -> bool {
        self.cell.offered != Offered::Closed
    }

    fn start(&self, load: &LoadSpec, rate: f64) -> anyhow::Result<Vec<LoadHandle>> {
        let rate = self.is_open().then_some(rate);
        load.start_by(&self.targets, rate, self.trace.as_deref(), None)
    }

    fn happen(&mut self, watch: &mut Watch, own_loads: usize, capacity: f64) -> anyhow::Result<()> {
        let size = self.size;
        match self.cell.event {
            Event::Nothing => return Ok(()),
            Event::Burst(_) | Event::Surge => {
                let (more, time) = match self.cell.event {
                    Event::Burst(percent) => {
                        let all = f64::from(percent) / 100.0 * capacity;
                        (all - self.rate, size.event)
                    }
                    _ => (SURGE * self.rate, SURGE_TIME),
                };
                watch.begin(EVENT);
                watch.join(self.start(&self.load, more)?);
                watch.go_on(time)?;
                watch.begin(RECOVERY);
                watch.leave(own_loads..)?;
                watch.go_on(SETTLED)?;
            }
            Event::LeasesRefused => {
                watch.begin(EVENT);
                self.fleet.set_hot_keys(HotKeys::Off)?;
                watch.go_on(PAUSE)?;
                watch.begin(RECOVERY);
                self.fleet.set_hot_keys(self.cell.deployment.hot_keys)?;
                watch.go_on(REPLACED)?;
            }
            Event::ProxyKilled => {
                watch.begin(RECOVERY);
                self.fleet.restart_proxy()?;
                watch.go_on(REPLACED)?;
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
                    watch.go_on(CHANGE)?;
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
            Event::LinksDown => {
                let mut names = self.fleet.server_names();
                let home = self.fleet.hottest_home()?;
                names.sort_by_key(|name| *name != home);
                names.truncate(names.len().div_ceil(LINKS_SHARE));
                let downs = LINKS_DOWN.into_iter().take(size.drops);
                for (down, name) in downs.zip(names.iter().cycle()) {
                    watch.begin(EVENT);
                    self.fleet.hold_link(name, true)?;
                    watch.go_on(down)?;
                    self.fleet.hold_link(name, false)?;
                }
                watch.begin(RECOVERY);
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
