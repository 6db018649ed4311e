//! Cachelets that pass between the workers of a server at full speed, again and again because other keys become hot: how
//! long commands for one of them wait, and what clients notice.

use super::{GET_SHARE, KEY_LEN, SOURCE};
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::experiments::watch::{PART_COLUMNS, Part, Watch, part_row};
use crate::fleet::{Fleet, FleetPlan, LoadSpec, PIPELINE, Smallness};
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use evenkeel_bench::{Target, Users, UsersPlan, UsersTally};
use evenkeel_workload::Popularity;
use std::ops::Sub;
use std::thread;
use std::time::{Duration, Instant};

pub(in crate::experiments) const WORKERS: Experiment = Experiment {
    name: "moves-workers",
    title: "Cachelets move between the workers of a server: how long their commands wait",
    source: SOURCE,
    modes: &[Mode::Real],
    run: workers,
};

const KEYS: u64 = 20_000;

/// Nine of ten requests are for eight keys: two workers seldom have equal parts of so few.
const POPULARITY: Popularity = Popularity::Hotspot {
    operations: 0.9,
    keys: 0.0004,
};
const VALUE_LEN: usize = 100;
const MEMORY_MB: usize = 256;
const CONNECTIONS: usize = 32;

/// Workers, unless told otherwise.
const WORKERS_DEFAULT: u16 = 2;

/// Users who check what they read, at the server and at the proxy, keys of each, and time between two requests.
const USERS: usize = 4;
const USERS_KEYS: usize = 200;
const USERS_PAUSE: Duration = Duration::from_millis(2);

/// Distance of looks: in each, cachelets moved or none did.
const STEP: Duration = Duration::from_millis(500);

/// Other keys become hot so often, in looks: loads are believed after two seconds.
const STEPS_EACH: usize = 10;

const WARM_UP: Duration = Duration::from_millis(500);

/// The target.
const PAUSE_US: f64 = 100.0;

/// What the server has counted of moves between its workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Cachelets that were given to another worker, and those that had to stay.
    given: u64,
    kept: u64,
    /// Times that a worker kept back the commands of its connections for a cachelet, how many of these were at most
    /// 100 µs long, and all together in microseconds.
    waits: u64,
    waits_short: u64,
    waits_us: u64,
    /// Commands that were kept back, and those that the former host passed on.
    commands_waited: u64,
    passed_on: u64,
}

impl Counts {
    fn of(fleet: &Fleet) -> anyhow::Result<Counts> {
        Ok(Counts {
            given: fleet.count("cachelets_given")?,
            kept: fleet.count("cachelets_kept")?,
            waits: fleet.count("cachelet_waits")?,
            waits_short: fleet.count("cachelet_waits_short")?,
            waits_us: fleet.count("cachelet_waits_us")?,
            commands_waited: fleet.count("commands_waited")?,
            passed_on: fleet.count("passed_on")?,
        })
    }

    /// Microseconds of a wait, on average; 0 where there was none.
    fn wait_us(&self) -> f64 {
        self.waits_us as f64 / self.waits.max(1) as f64
    }

    /// The part of the waits that were at most 100 µs long.
    fn short(&self) -> f64 {
        self.waits_short as f64 / self.waits.max(1) as f64
    }
}

/// What was counted since.
impl Sub for Counts {
    type Output = Counts;

    fn sub(self, before: Counts) -> Counts {
        Counts {
            given: self.given - before.given,
            kept: self.kept - before.kept,
            waits: self.waits - before.waits,
            waits_short: self.waits_short - before.waits_short,
            waits_us: self.waits_us - before.waits_us,
            commands_waited: self.commands_waited - before.commands_waited,
            passed_on: self.passed_on - before.passed_on,
        }
    }
}

/// Parts: steps in which no cachelet moved, and in which one did.
const STILL: &str = "none moved";
const MOVING: &str = "cachelets moved";

fn workers(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let workers = run.workers.as_ref().and_then(|list| list.last().copied());
    let workers = workers.unwrap_or(WORKERS_DEFAULT).max(2);
    let requests_per_second = run.by_scale([2_000.0, 50_000.0, 100_000.0, 100_000.0]);
    let length = Duration::from_secs(run.by_scale([5, 15, 120, 600]));
    run.progress.say("starting");
    let fleet = Fleet::start(&fleet_plan(workers))?;
    let load = load(run);
    load.fill(&fleet)?;
    let server = fleet.server_addresses()[0];
    let users = Users::start(&UsersPlan {
        addresses: [vec![server], fleet.proxy_addresses()].concat(),
        users: USERS,
        prefix: "user:".into(),
        keys: USERS_KEYS,
        value_len: VALUE_LEN,
        pause: USERS_PAUSE,
    })?;
    // At the server itself: anyone who knows the owners is only pointed elsewhere, and nobody waits.
    let running = load.start(&[Target::from(server)], requests_per_second, None)?;
    thread::sleep(WARM_UP);
    run.progress.say("cachelets move");
    let mut watch = Watch::start(running, STEP, STILL);
    let counts = count_moves(&fleet, &mut watch, length)?;
    let watched = watch.end()?;
    let (failed, wrong) = (watched.failed, watched.wrong_values);
    let users = users.stop();
    let mut report = run.report(experiment);
    report.settings = settings(workers, requests_per_second, length);
    report.tables = tables(&counts, &watched.joined());
    report.claims = claims(&counts, failed, wrong, &users);
    report.note("A wait is the time for which a worker keeps back the commands of its own connections for one cachelet, as the \
         server counts it: each move makes one wait at each worker but the former host. Commands that are not for this \
         cachelet go on.");
    report.note(format!(
        "Other keys become hot every {:.0} s. In half a second with moves there is also the overload that they are for, \
         and clients see both.",
        STEP.as_secs_f64() * STEPS_EACH as f64
    ));
    Ok(report)
}

fn fleet_plan(workers: u16) -> FleetPlan {
    FleetPlan {
        servers: 1,
        workers,
        memory_mb: MEMORY_MB,
        server_flags: vec!["--balance-workers".into(), "on".into()],
        connections: 2 * (CONNECTIONS + USERS),
        // Without replicas: they would even out the load before cachelets are lent.
        ..FleetPlan::default()
    }
}

fn load(run: &Run) -> LoadSpec {
    LoadSpec {
        keys: KEYS,
        prefix: "w:".into(),
        key_len: KEY_LEN,
        value_len: VALUE_LEN,
        popularity: POPULARITY,
        get_share: GET_SHARE,
        cache_aside: false,
        read_only: None,
        reshuffle: None,
        connections: CONNECTIONS,
        pipeline: PIPELINE,
        warm_up: WARM_UP,
        duration: Duration::ZERO,
        seed: run.seed,
    }
}

/// Makes other keys hot again and again, and tells steps in which cachelets moved from those in which none did.
fn count_moves(fleet: &Fleet, watch: &mut Watch, length: Duration) -> anyhow::Result<Counts> {
    let (begun, before) = (Instant::now(), Counts::of(fleet)?);
    let mut counts = before;
    for step in 1.. {
        watch.begin(STILL);
        watch.go_on(STEP)?;
        let now = Counts::of(fleet)?;
        if now.given > counts.given {
            watch.name(MOVING);
        }
        counts = now;
        if begun.elapsed() >= length {
            break;
        }
        if step % STEPS_EACH == 0 {
            watch.switch_hot_keys();
        }
    }
    Ok(counts - before)
}

fn settings(
    workers: u16,
    requests_per_second: f64,
    length: Duration,
) -> Vec<(&'static str, String)> {
    vec![
        (
            "server",
            format!("one of {workers} workers {}", Smallness::Not),
        ),
        (
            "data",
            format!("{KEYS} keys of {KEY_LEN} bytes with {VALUE_LEN} bytes"),
        ),
        (
            "load",
            format!(
                "{requests_per_second:.0} requests/s at the server's ordinary port, {:.0} % gets, 90 % for 8 keys, for {length:?}",
                100.0 * GET_SHARE
            ),
        ),
        (
            "users who check what they read",
            format!("{USERS}, half of them through a proxy"),
        ),
    ]
}

fn tables(counts: &Counts, parts: &[Part]) -> Vec<Table> {
    let mut server = Table::new("What the server counted", "|here");
    let mut row = |what: &str, value: String| server.row([what.to_owned(), value]);
    row(
        "cachelets given to another worker",
        counts.given.to_string(),
    );
    row("that could not be given in time", counts.kept.to_string());
    row("waits for a cachelet", counts.waits.to_string());
    row(
        "µs of a wait, on average",
        format!("{:.0}", counts.wait_us()),
    );
    row(
        &format!("waits of at most {PAUSE_US} µs"),
        format!("{:.1} %", 100.0 * counts.short()),
    );
    row("commands that waited", counts.commands_waited.to_string());
    row("commands passed on", counts.passed_on.to_string());
    let mut clients = Table::new("What clients saw, by half seconds", PART_COLUMNS);
    parts.iter().for_each(|part| clients.row(part_row(part)));
    vec![server, clients]
}

fn claims(counts: &Counts, failed: u64, wrong: u64, users: &UsersTally) -> Vec<Claim> {
    let has_moved = counts.waits > 0;
    let (failed, wrong) = (failed + users.failures, wrong + users.wrong + users.misses);
    vec![
        Claim::new(
            "µs for which commands for a cachelet that moves wait, on average",
            &format!("target: below {PAUSE_US}"),
            format!("{:.0} in {} moves", counts.wait_us(), counts.given),
            has_moved.then(|| counts.wait_us() < PAUSE_US),
        ),
        Claim::new(
            "requests that failed",
            "target: none",
            failed.to_string(),
            has_moved.then_some(failed == 0),
        ),
        Claim::new(
            "keys lost, and values that are old or that nobody wrote",
            "target: none",
            wrong.to_string(),
            has_moved.then_some(wrong == 0),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> Counts {
        Counts {
            given: 3,
            waits: 4,
            waits_short: 3,
            waits_us: 300,
            ..Counts::default()
        }
    }

    #[test]
    fn waits_are_told_on_average_and_by_those_that_are_short() {
        let twice = Counts {
            given: 6,
            waits: 8,
            waits_short: 6,
            waits_us: 600,
            ..Counts::default()
        };
        assert_eq!(twice - counts(), counts());
        assert_eq!((counts().wait_us(), counts().short()), (75.0, 0.75));
        assert_eq!(Counts::default().wait_us(), 0.0);
    }

    #[test]
    fn where_nothing_moved_nothing_holds() {
        let users = UsersTally::default();
        let judged = |counts: &Counts, failed| -> Vec<Option<bool>> {
            let claims = claims(counts, failed, 0, &users);
            claims.iter().map(|claim| claim.holds).collect()
        };
        assert_eq!(judged(&Counts::default(), 0), [None; 3]);
        assert_eq!(judged(&counts(), 0), [Some(true); 3]);
        assert_eq!(judged(&counts(), 1)[1], Some(false));
    }
}
