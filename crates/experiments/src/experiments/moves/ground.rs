//! A small cluster under a load, with users who check what they read, for whatever is done to it.

use super::{GET_SHARE, KEY_LEN};
use crate::experiments::watch::{Watch, Watched};
use crate::fleet::{Fleet, FleetPlan, LoadSpec, PIPELINE, Pool, Smallness};
use crate::report::{Claim, Table};
use crate::run::Run;
use evenkeel_bench::{Target, Users, UsersPlan, UsersTally};
use evenkeel_coordinator_core::MigrationEnd;
use evenkeel_coordinator_core::plans::PlanMode;
use evenkeel_hotkeys::config::Mode as Replicate;
use evenkeel_types::Epoch;
use evenkeel_types::map::ClusterMap;
use evenkeel_workload::Popularity;
use std::thread;
use std::time::{Duration, Instant};

/// The part before anything is done.
pub(super) const BEFORE: &str = "before";

/// Workers of each server, and keys a second that each serves.
pub(super) const WORKERS: u16 = 2;
const CAPACITY: u64 = 500;

/// Part of the capacity of the fewest servers that there are at a time which is asked for.
const RATE: f64 = 0.35;

/// Memory of a server, in megabytes: nothing has to be evicted.
const MEMORY_MB: usize = 1024;

/// Clients of the load.
const CONNECTIONS: usize = 32;

/// Users who check what they read, keys of each, and time between an answer and the next request.
const USERS: usize = 4;
const USERS_KEYS: usize = 150;
const USERS_PAUSE: Duration = Duration::from_millis(20);

/// Time of the load that is not looked at.
const WARM_UP: Duration = Duration::from_millis(500);

/// Distance of looks.
const STEP: Duration = Duration::from_millis(500);

/// Longest time until the users have stored all of their keys.
const FILL_LIMIT: Duration = Duration::from_secs(60);

/// How long anything may take that servers come and go for.
pub(super) const CHANGE_LIMIT: Duration = Duration::from_secs(300);

/// How much there is of everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub keys: u64,
    /// Bytes of each value.
    pub value_len: usize,
    /// How long it is looked at before anything is done, and after each change.
    pub rest: Duration,
}

impl Size {
    pub fn of(run: &Run) -> Size {
        Size {
            keys: run.by_scale([1_000, 8_000, 100_000, 1_000_000]),
            value_len: 1_000,
            rest: Duration::from_secs(run.by_scale([1, 3, 20, 60])),
        }
    }
}

/// Such a cluster, in use.
#[derive(Debug)]
pub(super) struct Ground {
    pub watch: Watch,
    pub users: Users,
    pub fleet: Fleet,
}

/// What was seen of one that is not in use any more.
#[derive(Debug)]
pub(super) struct Seen {
    pub watched: Watched,
    pub users: UsersTally,
}

impl Ground {
    /// Starts this many servers, fills them, and puts a load and users on them. What asks is told to the proxy.
    ///
    /// # Errors
    /// When something does not start, or a key cannot be stored.
    pub fn start(run: &Run, plan: &FleetPlan, popularity: Popularity) -> anyhow::Result<Ground> {
        run.progress.say("starting");
        let fleet = Fleet::start(plan)?;
        run.progress.say("filling");
        let load = load(run, popularity);
        load.fill(&fleet)?;
        let users = Users::start(&UsersPlan {
            addresses: fleet.proxy_addresses(),
            users: USERS,
            prefix: "user:".into(),
            keys: USERS_KEYS,
            value_len: Size::of(run).value_len,
            pause: USERS_PAUSE,
        })?;
        let end = Instant::now() + FILL_LIMIT;
        while !users.have_filled() {
            anyhow::ensure!(Instant::now() < end, "the users do not store their keys");
            thread::sleep(Duration::from_millis(20));
        }
        let targets: Vec<Target> = fleet.targets().collect();
        let running = load.start(&targets, rate(plan.servers), None)?;
        thread::sleep(WARM_UP);
        Ok(Ground {
            watch: Watch::start(running, STEP, BEFORE),
            users,
            fleet,
        })
    }

    /// Ends load and users; then nothing is to be done to the servers any more.
    ///
    /// # Errors
    /// When the load has ended before its time.
    pub fn end(self) -> anyhow::Result<(Seen, Fleet)> {
        let seen = Seen {
            watched: self.watch.end()?,
            users: self.users.stop(),
        };
        Ok((seen, self.fleet))
    }
}

/// What runs of such a cluster, of this many servers at first.
pub(super) fn fleet_plan(
    servers: usize,
    hot_keys: Replicate,
    plans: PlanMode,
    lends: bool,
) -> FleetPlan {
    let lends = if lends { "on" } else { "off" };
    FleetPlan {
        servers,
        workers: WORKERS,
        smallness: Smallness::of_capacity(CAPACITY),
        memory_mb: MEMORY_MB,
        pool: Pool::Cluster { hot_keys, plans },
        server_flags: vec!["--balance-workers".into(), lends.into()],
        connections: 2 * (CONNECTIONS + USERS),
        ..FleetPlan::default()
    }
}

fn load(run: &Run, popularity: Popularity) -> LoadSpec {
    let size = Size::of(run);
    LoadSpec {
        keys: size.keys,
        prefix: "k:".into(),
        key_len: KEY_LEN,
        value_len: size.value_len,
        popularity,
        get_share: GET_SHARE,
        cache_aside: true,
        read_only: None,
        reshuffle: None,
        connections: CONNECTIONS,
        pipeline: PIPELINE,
        warm_up: WARM_UP,
        duration: Duration::ZERO,
        seed: run.seed,
    }
}

/// Requests a second of the load where there are at least this many servers.
fn rate(servers: usize) -> f64 {
    let workers = servers * usize::from(WORKERS);
    RATE * (workers as u64 * CAPACITY) as f64
}

/// What was set, in words.
pub(super) fn settings(run: &Run, plan: &FleetPlan) -> Vec<(&'static str, String)> {
    let size = Size::of(run);
    vec![
        (
            "servers",
            format!("{} of {WORKERS} workers {}", plan.servers, plan.smallness),
        ),
        (
            "data",
            format!(
                "{} keys of {KEY_LEN} bytes with {} bytes",
                size.keys, size.value_len
            ),
        ),
        (
            "load",
            format!(
                "{:.0} requests/s, {:.0} % gets, misses are set",
                rate(plan.servers),
                100.0 * GET_SHARE
            ),
        ),
        (
            "users who check what they read",
            format!("{USERS} with {USERS_KEYS} keys each, {USERS_PAUSE:?} between two requests"),
        ),
    ]
}

/// What moved from one server to another in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// Cachelets that passed with their contents; one may have passed several times. The coordinator remembers
    /// the last thousand.
    pub passed: usize,
    /// Migrations that came to nothing.
    pub failed: usize,
    /// Bytes of those that passed.
    pub bytes: u64,
    /// Cachelets that have begun anew, empty.
    pub emptied: usize,
}

impl Moves {
    /// Since a map, which the coordinator that runs now has made or read.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn since(fleet: &Fleet, before: &ClusterMap) -> anyhow::Result<Moves> {
        let (ended, now) = (fleet.migrations()?.ended, fleet.map()?);
        let (passed, failed): (Vec<_>, Vec<_>) = ended
            .iter()
            .filter(|migration| migration.began > before.epoch())
            .partition(|migration| migration.end == MigrationEnd::Moved);
        Ok(Moves {
            passed: passed.len(),
            failed: failed.len(),
            bytes: passed.iter().map(|migration| migration.bytes).sum(),
            emptied: emptied(&now.document().since, before.epoch()),
        })
    }
}

/// Cachelets whose contents go on since a map that is newer than this one.
fn emptied(since: &[Epoch], before: Epoch) -> usize {
    since.iter().filter(|since| **since > before).count()
}

/// What is asked of every change: nothing fails, nothing stored is lost, nothing old comes back.
pub(super) fn claims(watched: &Watched, users: &UsersTally) -> Vec<Claim> {
    let (failed, wrong) = (
        watched.failed + users.failures,
        watched.wrong_values + users.wrong,
    );
    let none = |what: &str, count: u64, of: String| {
        Claim::new(
            what,
            "target: none",
            format!("{count}{of}"),
            Some(count == 0),
        )
    };
    vec![
        none(
            "requests that failed",
            failed,
            of_first(users.first_failure.as_ref()),
        ),
        none(
            "keys that a user had stored and did not find",
            users.misses,
            format!(" in {} requests", users.requests),
        ),
        none(
            "values older than what was acknowledged, or that nobody wrote",
            wrong,
            of_first(users.first_wrong.as_ref()),
        ),
    ]
}

fn of_first(first: Option<&String>) -> String {
    first.map_or(String::new(), |first| format!(": {first}"))
}

/// The share that hits may fall by this many points.
pub(super) const HIT_POINTS: f64 = 2.0;

pub(super) fn hits_claim(what: &str, watched: &Watched) -> Claim {
    let lost = watched.hit_points_lost();
    Claim::new(
        what,
        &format!("target: at most {HIT_POINTS} points"),
        format!("{lost:.2} points"),
        Some(lost <= HIT_POINTS),
    )
}

/// A row for each change: what moved, and how long it took.
pub(super) fn moves_table(rows: &[(&str, Duration, Moves)]) -> Table {
    let columns =
        "|seconds|cachelets moved|MB moved|migrations that failed|cachelets that began empty";
    let mut table = Table::new("What moved", columns);
    for (label, took, moves) in rows {
        table.row([
            (*label).to_owned(),
            format!("{:.1}", took.as_secs_f64()),
            moves.passed.to_string(),
            format!("{:.1}", moves.bytes as f64 / 1e6),
            moves.failed.to_string(),
            moves.emptied.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_anew_is_counted_since_a_map() {
        let since = [1, 4, 5, 9].map(Epoch);
        assert_eq!(emptied(&since, Epoch(4)), 2);
        assert_eq!(emptied(&since, Epoch(9)), 0);
    }

    #[test]
    fn failures_of_load_and_users_are_judged_together() {
        let watched = |failed| Watched {
            parts: Vec::new(),
            failed,
            first_error: None,
            wrong_values: 0,
        };
        let tally = |failures, misses, wrong| UsersTally {
            requests: 10,
            misses,
            failures,
            wrong,
            ..UsersTally::default()
        };
        let judged = |watched: &Watched, tally: &UsersTally| -> Vec<Option<bool>> {
            let claims = claims(watched, tally);
            claims.iter().map(|claim| claim.holds).collect()
        };
        assert_eq!(judged(&watched(0), &tally(0, 0, 0)), [Some(true); 3]);
        assert_eq!(judged(&watched(1), &tally(0, 0, 0))[0], Some(false));
        assert_eq!(judged(&watched(0), &tally(1, 0, 0))[0], Some(false));
        assert_eq!(judged(&watched(0), &tally(0, 1, 0))[1], Some(false));
        assert_eq!(judged(&watched(0), &tally(0, 0, 1))[2], Some(false));
    }
}
