//! What a move costs: one 64th of the ring, with its items and without them.

use super::fleet::{CAPACITY, POOL, PROXIES, RingFleet, SLOT, load, served, start_load};
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::experiments::watch::{Watch, Watched};
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use anyhow::Context;
use evenkeel_coordinator_core::{GrainsMove, RingMode, RingMoveRequest};
use std::time::{Duration, Instant};

pub(in crate::experiments) const MOVES: Experiment = Experiment {
    name: "adaptive-moves",
    title: "What a move of a 64th of a ring costs: hits, latency, time",
    source: "Targets of adaptive hashing",
    modes: &[Mode::Real],
    run,
};

const SERVERS: usize = 5;

/// A 64th, in 4,096ths.
const GRAINS: u32 = 64;

/// Parts of the capacity that are asked for.
const RATES: [f64; 3] = [0.5, 0.8, 1.2];

/// How items come along, and for how long a plan warms where they are not copied.
const WAYS: [(Way, Duration); 3] = [
    (Way::Nothing, Duration::ZERO),
    (Way::Asked, Duration::from_secs(10)),
    (Way::All, Duration::ZERO),
];

/// Keys that are copied in a second, which is as many as a server serves.
const COPIED: u32 = 2_000;

/// Which items come along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Hash space alone moves: the paper's cheap way.
    Nothing,
    /// Those that are asked for in ten seconds.
    Asked,
    /// All: the coordinator copies them.
    All,
}

impl Way {
    fn label(self) -> &'static str {
        match self {
            Way::Nothing => "none",
            Way::Asked => "what is asked for in 10 s",
            Way::All => "all, copied",
        }
    }
}

/// After a plan has begun hits are looked at for this long: longer than any plan takes.
const LOOK: Duration = Duration::from_secs(16);

const LIMIT: Duration = Duration::from_secs(60);

/// The most by which hits may fall.
const POINTS_MAX: f64 = 0.3;

/// What one move cost.
struct Cost {
    rate: f64,
    way: Way,
    /// Hits in percent without a move and with one.
    hits: [f64; 2],
    p99_us: [f64; 2],
    failed: [u64; 2],
    took: Duration,
    fills: u64,
    former_hits: u64,
}

fn run(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let mut costs = Vec::new();
    for rate in RATES {
        for (way, warming) in WAYS {
            let label = way.label();
            let is_meant = |word: &String| format!("{:.0} %, {label}", 100.0 * rate).contains(word);
            if !run.cells.is_empty() && !run.cells.iter().any(is_meant) {
                continue;
            }
            run.progress.say(format!("{:.0} %, {label}", 100.0 * rate));
            costs.push(cost(run, rate, way, warming)?);
        }
    }
    let mut report = run.report(experiment);
    report.settings = vec![
        (
            "memcacheds",
            format!("{SERVERS}, each of {CAPACITY} keys/s"),
        ),
        ("proxies", PROXIES.to_string()),
        ("popularity", "Zipf 0.99, cache-aside".to_owned()),
        (
            "moved",
            "a 64th of the ring, from the busiest server to the idlest".to_owned(),
        ),
    ];
    let mut table = Table::new(
        "16 seconds without a move, and 16 from a move on",
        "load, items that come along|hits %|with a move|p99 ms|with a move|failed|with a move|plan s|brought|found at the former server",
    );
    for cost in &costs {
        let ms = |us: f64| format!("{:.2}", us / 1000.0);
        table.row([
            format!("{:.0} %, {}", 100.0 * cost.rate, cost.way.label()),
            format!("{:.3}", cost.hits[0]),
            format!("{:.3}", cost.hits[1]),
            ms(cost.p99_us[0]),
            ms(cost.p99_us[1]),
            cost.failed[0].to_string(),
            cost.failed[1].to_string(),
            format!("{:.1}", cost.took.as_secs_f64()),
            cost.fills.to_string(),
            cost.former_hits.to_string(),
        ]);
    }
    report.tables = vec![table];
    let brings = |cost: &&Cost| cost.way != Way::Nothing;
    for cost in costs.iter().filter(brings) {
        let lost = cost.hits[0] - cost.hits[1];
        report.claims.push(Claim::new(
            &format!(
                "hits lost while it moves, load {:.0} %, {}",
                100.0 * cost.rate,
                cost.way.label()
            ),
            &format!("{POINTS_MAX} points"),
            format!("{lost:.3} points"),
            Some(lost <= POINTS_MAX),
        ));
    }
    report.note("Once all is copied, the plan goes on at once.");
    Ok(report)
}

/// Looks at a load without a move, and at the same with one.
fn cost(run: &Run, rate: f64, way: Way, warming: Duration) -> anyhow::Result<Cost> {
    let fleet = RingFleet::start(SERVERS)?;
    fleet.set(RingMode::Observe, warming)?;
    if way == Way::All {
        fleet.copy(COPIED)?;
    }
    let running = start_load(&fleet, &load(run), rate * RingFleet::capacity(SERVERS))?;
    let mut watch = Watch::start(running, Duration::from_millis(500), "at first");
    watch.go_on(3 * SLOT)?;
    let before = fleet.keys_served()?;
    watch.begin("without a move");
    watch.go_on(LOOK)?;
    let mut servers = served(&before, &fleet.keys_served()?);
    servers.sort_by(|a, b| a.1.total_cmp(&b.1));
    let [(to, _), .., (from, _)] = &servers[..] else {
        anyhow::bail!("there are several servers");
    };
    let order = RingMoveRequest {
        grains: vec![GrainsMove {
            from: from.clone(),
            to: to.clone(),
            grains: GRAINS,
        }],
        proxies: PROXIES,
        ..RingMoveRequest::default()
    };
    watch.begin("with a move");
    let begun = Instant::now();
    fleet.api().begin_ring_move(POOL, &order)?;
    watch.until("the plan to be done", LIMIT, || fleet.rests())?;
    let took = begun.elapsed();
    watch.go_on(LOOK.saturating_sub(begun.elapsed()))?;
    let (fills, former_hits) = (fleet.count("fills_stored")?, fleet.count("former_hits")?);
    let watched = watch.end()?;
    let [still, moving] = parts(&watched)?;
    Ok(Cost {
        rate,
        way,
        hits: [still.0, moving.0],
        p99_us: [still.1, moving.1],
        failed: [still.2, moving.2],
        took,
        fills,
        former_hits,
    })
}

/// Hits in percent, p99 in microseconds and failures, without a move and with one.
fn parts(watched: &Watched) -> anyhow::Result<[(f64, f64, u64); 2]> {
    let seen = |label: &str| {
        let mut parts = watched.parts.iter();
        let part = parts.find(|part| part.label == label);
        let part = part.with_context(|| format!("nothing was seen {label}"))?;
        anyhow::Ok((
            100.0 * part.hit_ratio(),
            part.latency_us(0.99),
            part.errors(),
        ))
    };
    Ok([seen("without a move")?, seen("with a move")?])
}
