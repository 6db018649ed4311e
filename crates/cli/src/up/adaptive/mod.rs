//! `evenkeel up --adaptive`: a ring that follows its load, before your eyes.
//!
//! A skewed load goes on at half of what all servers can do together. The ring begins as a ketama, which gives some of them much more
//! than others, and passes parts on until all carry about the same. What operators order meanwhile is seen as well.

mod fleet;
mod look;

use super::args::Args;
use super::lines::Lines;
use super::processes::Outcome;
use anyhow::{Context, ensure};
use evenkeel_bench::{Counters, Driver, LoadHandle, LoadPlan, OutputFormat, Source};
use evenkeel_runtime::print_line;
use evenkeel_workload::{Arrivals, Mix, Popularity, Rate, WorkloadSpec};
use fleet::{CAPACITY, Fleet, POOL, PROXIES};
use look::Look;
use serde::Serialize;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The load, as a part of what the servers can do together.
const LOAD: f64 = 0.5;

/// So few that what was forgotten by a move is soon back.
const KEYS: u64 = 10_000;
const ZIPF: f64 = 0.99;
const GET_SHARE: f64 = 0.95;

/// Connections to each proxy, with a request at a time: several times what is under way at this load.
const CONNECTIONS: usize = 64;

/// Distance of looks at the loads and at the ring: several in a slot.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Rows between two lines of heads: fewer than a screen has.
const ROWS: usize = 20;

/// Result. The names are a contract with scripts.
#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    settings: Settings,
    /// The first slot that was measured, and the last.
    first: Option<Look>,
    last: Option<Look>,
    /// Requests that were answered with an error, or not at all.
    errors: u64,
    /// Values that nobody wrote for the key they came with.
    wrong_values: u64,
    /// Processes that had to be started again.
    restarts: u64,
}

#[derive(Debug, Serialize)]
struct Settings {
    memcacheds: u16,
    keys_per_second_of_each: u32,
    proxies: usize,
    rate_per_second: f64,
    keys: u64,
    zipf_exponent: f64,
    get_share: f64,
}

impl Settings {
    fn new(args: &Args) -> Settings {
        let memcacheds = args.of_adaptive.memcached;
        Settings {
            memcacheds,
            keys_per_second_of_each: CAPACITY,
            proxies: PROXIES,
            rate_per_second: f64::from(u32::from(memcacheds) * CAPACITY) * LOAD,
            keys: KEYS,
            zipf_exponent: ZIPF,
            get_share: GET_SHARE,
        }
    }
}

/// Runs it until a signal, or for as long as was said.
///
/// # Errors
/// [`UsageError`](evenkeel_runtime::UsageError) when an address cannot be used; others when memcached is missing, something does not
/// start, or the load ends by itself.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut fleet = Fleet::prepare(args)?;
    let mut lines = Lines::beside(args.format);
    lines.say("starting memcacheds, proxies and a coordinator")?;
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        settings: Settings::new(args),
        first: None,
        last: None,
        errors: 0,
        wrong_values: 0,
        restarts: 0,
    };
    if fleet.start(args)? == Outcome::Done {
        announce(&fleet, &report.settings, &mut lines)?;
        let length = args.of_adaptive.seconds.map(Duration::from_secs);
        show(&mut fleet, length, &mut lines, &mut report)?;
    }
    report.restarts = fleet.processes.restarts();
    fleet.processes.stop();
    let text = match args.format {
        OutputFormat::Table => report.in_a_line(),
        OutputFormat::Json => serde_json::to_string_pretty(&report)?,
    };
    print_line(&text).context("failed to print the result")
}

/// Who is where, and what to try.
fn announce(fleet: &Fleet, settings: &Settings, lines: &mut Lines) -> anyhow::Result<()> {
    let proxies: Vec<_> = fleet.proxies().iter().map(SocketAddr::to_string).collect();
    let coordinator = format!("http://{}", fleet.processes.coordinator_address()?);
    let Settings {
        memcacheds,
        rate_per_second,
        keys,
        ..
    } = settings;
    let order = format!("--proxies {PROXIES} --coordinator {coordinator}");
    for line in [
        format!("evenkeel up listening on {}", proxies.join(" and ")),
        format!("coordinator {coordinator}"),
        format!("{memcacheds} memcacheds (m1 to m{memcacheds}), each of {CAPACITY} keys/s"),
        format!("load: {rate_per_second} keys/s, Zipf {ZIPF} over {keys} keys, cache-aside"),
        "To try in another terminal:".to_owned(),
        format!("  evenkeel ring show {POOL} --coordinator {coordinator}"),
        format!("  evenkeel ring drain {POOL} m1 {order}"),
        format!("  evenkeel ring add {POOL} m1 {order}"),
        format!("  evenkeel explain KEY --proxy {}", proxies[0]),
        "Each second, of each server: its share of the hash space, and requests/s.".to_owned(),
        "busiest: of the mean of all. Ctrl-C stops everything.".to_owned(),
    ] {
        lines.say(&line)?;
    }
    Ok(())
}

/// Puts the load on, and tells of each slot until it is over.
fn show(
    fleet: &mut Fleet,
    length: Option<Duration>,
    lines: &mut Lines,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut loads = start_loads(fleet, report.settings.rate_per_second)?;
    let begun = Instant::now();
    let mut told = None;
    let mut rows = 0;
    while length.is_none_or(|length| begun.elapsed() < length) {
        let outcome = fleet.processes.tend(Instant::now() + LOOK_INTERVAL);
        for notice in fleet.processes.take_notices() {
            lines.say(&format!("note: {notice}"))?;
        }
        if outcome == Outcome::Stopped {
            break;
        }
        for load in &mut loads {
            load.poll();
            ensure!(!load.is_finished(), "the load ended before its time");
        }
        // The coordinator may be down just now.
        let Ok(ring) = fleet.ring() else { continue };
        let number = ring.slot.as_ref().map(|slot| slot.number);
        let Some(look) = Look::of(&ring, begun.elapsed()).filter(|_| number != told) else {
            continue;
        };
        told = number;
        if rows % ROWS == 0 {
            lines.say(&look.heads())?;
        }
        rows += 1;
        lines.say(&look.row())?;
        report.first.get_or_insert_with(|| look.clone());
        report.last = Some(look);
    }
    for load in loads {
        let Counters {
            errors,
            wrong_values,
            ..
        } = load.stop()?.counters;
        report.errors += errors;
        report.wrong_values += wrong_values;
    }
    Ok(())
}

/// A load for each proxy, on a thread of its own.
fn start_loads(fleet: &Fleet, rate: f64) -> anyhow::Result<Vec<LoadHandle>> {
    let start = |(seed, proxy): (u64, SocketAddr)| {
        let workload = WorkloadSpec {
            keys: Some(KEYS),
            popularity: Popularity::Zipf { exponent: ZIPF },
            mix: Mix::gets(GET_SHARE)?,
            ..WorkloadSpec::default()
        };
        Driver::start(LoadPlan {
            connections_per_thread: CONNECTIONS,
            cache_aside: true,
            pace: Arrivals::Poisson(Rate::Constant(rate / PROXIES as f64)),
            seed,
            ..LoadPlan::new(proxy.into(), Source::Generated(workload))
        })
    };
    (1..).zip(fleet.proxies()).map(start).collect()
}

impl Report {
    fn in_a_line(&self) -> String {
        let evened = match (&self.first, &self.last) {
            (Some(first), Some(last)) => format!(
                "The busiest server carried {:.2} of the mean in the first slot, and {:.2} in the last.",
                first.max_by_mean, last.max_by_mean
            ),
            _ => "No slot was measured.".to_owned(),
        };
        let Report {
            errors,
            wrong_values,
            restarts,
            ..
        } = self;
        format!("{evened} {errors} errors, {wrong_values} wrong values, {restarts} restarts")
    }
}
