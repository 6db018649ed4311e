//! Demand that rises nearly fivefold and falls again, and a cluster or a ring whose servers come and go with it.

mod fleets;

use super::adaptive::fleet::load;
use super::watch::{Watch, Watched, hits_plot};
use crate::args::{Mode, Scale};
use crate::fleet::LoadSpec;
use crate::report::{Claim, Report, Table};
use crate::run::{Experiment, Run};
use anyhow::{Context, ensure};
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_coordinator_core::scale::{Band, ScaleMode, ScaleSettings};
use evenkeel_coordinator_core::{ScaleView, ScalesView};
use evenkeel_workload::{Rate, Wave};
use fleets::{CAPACITY, ClusterFleet, ScaledFleet, ScaledRing};
use std::time::{Duration, Instant};

pub(in crate::experiments) const CLUSTER: Experiment = Experiment {
    name: "scale-cluster",
    title: "A cluster whose servers come and go with its load, beside one of as many as there were at most",
    source: "ours, after Adaptive hashing, Figures 11 and 12",
    modes: &[Mode::Real],
    run: |experiment, run| measure(experiment, run, Kind::Cluster),
};

pub(in crate::experiments) const RING: Experiment = Experiment {
    name: "adaptive-11",
    title: "A ring whose servers come and go with its load, beside one of as many as there were at most",
    source: "Adaptive hashing, Figures 11 and 12",
    modes: &[Mode::Real],
    run: |experiment, run| measure(experiment, run, Kind::Ring),
};

/// What is scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cluster,
    Ring,
}

/// Servers at first, and at most.
const FEWEST: usize = 3;
const MOST: usize = 8;

/// Servers of the paper's pool that does not follow its load.
const PAPERS: f64 = 15.0;

/// Requests a second at the foot of the ramp, and by how much more there are at its top: 30,000 and 140,000 a minute in the paper.
const LOW: f64 = 1_100.0;
const RISE: f64 = 140.0 / 30.0;

impl Kind {
    /// Requests a second and server, between which there are as many as there should be. What comes on top until another server has its part has
    /// to find room: a ring copies meanwhile what it moves.
    const fn band(self) -> Band {
        let (lower, upper) = match self {
            Kind::Cluster => (400.0, 600.0),
            Kind::Ring => (300.0, 500.0),
        };
        Band { lower, upper }
    }
}

/// How long a threshold is passed, and how long is rested: a tenth of the defaults or less, as the ramp is minutes instead of hours.
const SUSTAIN: Duration = Duration::from_secs(3);
const COOLDOWN_ADDED: Duration = Duration::from_secs(5);
const COOLDOWN_REMOVED: Duration = Duration::from_secs(10);

/// Distance of looks, and the length of moments.
const STEP: Duration = Duration::from_secs(1);

/// The 99th percentile of a second that keeps to the objective: fifteen times the time for one key.
const SLO_US: f64 = 15.0 * 1e6 / CAPACITY as f64;

/// Time that a server takes to be there, besides what passes before it is started: ten trials, a second each, and the start itself.
const START: f64 = 15.0;

/// Longest time until all have gone that came, once nothing is asked any more.
const LIMIT: Duration = Duration::from_secs(300);

/// A fleet under the ramp.
struct Ridden {
    watched: Watched,
    /// How many servers there were at each second.
    servers: Vec<(f64, f64)>,
    added: usize,
}

impl Ridden {
    fn hits(&self) -> f64 {
        self.watched
            .parts
            .first()
            .map_or(0.0, |part| part.hit_ratio())
    }

    /// Seconds in which the objective was missed.
    fn slow_seconds(&self) -> usize {
        let moments = self.watched.parts.iter().flat_map(|part| &part.moments);
        moments.filter(|moment| moment.p99_us > SLO_US).count()
    }

    /// Servers on average.
    fn mean(&self) -> f64 {
        let sum: f64 = self.servers.iter().map(|(_, servers)| servers).sum();
        sum / (self.servers.len() as f64).max(1.0)
    }

    fn most(&self) -> f64 {
        self.servers
            .iter()
            .map(|(_, servers)| *servers)
            .fold(0.0, f64::max)
    }
}

fn measure(experiment: &Experiment, run: &Run, kind: Kind) -> anyhow::Result<Report> {
    let period = Duration::from_secs(run.by_scale([5, 300, 1_200, 14_400]));
    run.progress.say("as many servers as there were at most");
    let constant = ride(run, kind, period, false)?;
    run.progress.say("servers that come and go");
    let scaled = ride(run, kind, period, true)?;

    let mut report = run.report(experiment);
    let band = kind.band();
    let seconds = |time: Duration| format!("{} s", time.as_secs());
    report.settings = vec![
        ("servers", format!("of {CAPACITY} keys/s, behind 2 proxies")),
        (
            "load",
            format!(
                "{LOW:.0} to {:.0} requests/s and back within {}, Zipf 0.99, 5 % sets",
                LOW * RISE,
                seconds(period)
            ),
        ),
        (
            "band",
            format!("{} to {} requests/s and server", band.lower, band.upper),
        ),
        (
            "waits",
            format!(
                "{} past a threshold, {} after adding, {} after removing",
                seconds(SUSTAIN),
                seconds(COOLDOWN_ADDED),
                seconds(COOLDOWN_REMOVED)
            ),
        ),
    ];
    report.tables = vec![table(&constant, &scaled)];
    if run.scale != Scale::Quick {
        report.claims = claims(&constant, &scaled);
    }
    report.plots = vec![
        Plot {
            name: format!("{}-servers", run.plot_name(experiment)),
            title: "servers".to_owned(),
            x: Axis::linear("seconds"),
            y: Axis::linear("servers"),
            curves: vec![
                Curve::new("that come and go", scaled.servers.clone()),
                Curve::new("in the middle of the band", wanted(kind, period)),
            ],
        },
        hits_plot(
            format!("{}-hits", run.plot_name(experiment)),
            "keys found of keys asked for",
            vec![
                constant.watched.hits_curve("as many as at most"),
                scaled.watched.hits_curve("that come and go"),
            ],
        ),
    ];
    report.note(format!(
        "Seconds over the objective are those whose 99th percentile was above {:.0} ms.",
        SLO_US / 1_000.0
    ));
    Ok(report)
}

/// What the ramp asks for.
fn rate(period: Duration) -> Rate {
    Rate::Wave {
        low: LOW,
        high: LOW * RISE,
        period_ns: period.as_nanos() as u64,
        shape: Wave::Triangle,
    }
}

/// Servers that would carry it in the middle of their band.
fn wanted(kind: Kind, period: Duration) -> Vec<(f64, f64)> {
    let Band { lower, upper } = kind.band();
    let each = (lower + upper) / 2.0;
    let seconds = 0..=period.as_secs();
    let at = |second: u64| rate(period).at(second * 1_000_000_000) / each;
    seconds.map(|second| (second as f64, at(second))).collect()
}

/// A fleet under the ramp.
fn ride(run: &Run, kind: Kind, period: Duration, is_scaled: bool) -> anyhow::Result<Ridden> {
    let servers = if is_scaled { FEWEST } else { MOST };
    let fleet: Box<dyn ScaledFleet> = match kind {
        Kind::Cluster => Box::new(ClusterFleet::start(servers)?),
        Kind::Ring => Box::new(ScaledRing::start(servers)?),
    };
    let load = LoadSpec {
        keys: run.by_scale(match kind {
            Kind::Cluster => [500, 20_000, 100_000, 100_000],
            // What is copied takes its time.
            Kind::Ring => [500, 5_000, 20_000, 100_000],
        }),
        connections: 32,
        ..load(run)
    };
    let targets = fleet.targets();
    load.fill_by(targets[0].clone())?;
    if is_scaled {
        fleet.set_scale(&settings(kind))?;
    }
    let running = load.start_wave(&targets, rate(period))?;
    let mut watch = Watch::start(running, STEP, "the ramp");
    let (began, mut seen) = (Instant::now(), Vec::new());
    while began.elapsed() < period {
        watch.go_on(STEP.min(period.saturating_sub(began.elapsed())))?;
        let present = match is_scaled {
            true => first(fleet.scales()?)?.servers,
            false => MOST,
        };
        seen.push((began.elapsed().as_secs_f64(), present as f64));
    }
    let watched = watch.end()?;
    if is_scaled && run.scale != Scale::Quick {
        wait_for_the_fewest(fleet.as_ref())?;
    }
    let steps = seen.windows(2).filter(|pair| pair[1].1 > pair[0].1);
    Ok(Ridden {
        added: steps.count(),
        watched,
        servers: seen,
    })
}

fn first(view: ScalesView) -> anyhow::Result<ScaleView> {
    view.pools.into_iter().next().context("nothing is scaled")
}

/// Until there are as many servers as at first, and all others that came have ended.
fn wait_for_the_fewest(fleet: &dyn ScaledFleet) -> anyhow::Result<()> {
    let end = Instant::now() + LIMIT;
    loop {
        let view = fleet.scales()?;
        let runs = view
            .listed
            .as_ref()
            .is_some_and(|listed| !listed.is_empty());
        if !runs && first(view)?.servers == FEWEST {
            return Ok(());
        }
        ensure!(
            Instant::now() < end,
            "{FEWEST} servers were waited for in vain for {LIMIT:?}"
        );
        std::thread::sleep(STEP);
    }
}

fn settings(kind: Kind) -> ScaleSettings {
    ScaleSettings {
        mode: ScaleMode::Automatic,
        requests_per_server: Some(kind.band()),
        min: FEWEST,
        max: MOST,
        sustain_ms: SUSTAIN.as_millis() as u64,
        cooldown_added_ms: COOLDOWN_ADDED.as_millis() as u64,
        cooldown_removed_ms: COOLDOWN_REMOVED.as_millis() as u64,
        ..ScaleSettings::default()
    }
}

fn table(constant: &Ridden, scaled: &Ridden) -> Table {
    let columns = "servers|on average|at most|requests/s|p50 ms|p99 ms|seconds over the objective|hits|lowest hits|failed";
    let mut table = Table::new("Under the ramp", columns);
    for (name, ridden) in [
        ("as many as at most", constant),
        ("that come and go", scaled),
    ] {
        let Some(part) = ridden.watched.parts.first() else {
            continue;
        };
        let ms = |share| format!("{:.1}", part.latency_us(share) / 1_000.0);
        let percent = |ratio: f64| format!("{:.2} %", 100.0 * ratio);
        table.row([
            name.to_owned(),
            format!("{:.1}", ridden.mean()),
            format!("{:.0}", ridden.most()),
            format!("{:.0}", part.requests_per_second()),
            ms(0.5),
            ms(0.99),
            ridden.slow_seconds().to_string(),
            percent(part.hit_ratio()),
            percent(part.hit_ratio_min()),
            ridden.watched.failed.to_string(),
        ]);
    }
    table
}

fn claims(constant: &Ridden, scaled: &Ridden) -> Vec<Claim> {
    let by_papers = scaled.mean() / PAPERS;
    let lost = 100.0 * (constant.hits() - scaled.hits());
    let slow = scaled.slow_seconds();
    let allowed = scaled.added as f64 * (SUSTAIN.as_secs_f64() + START);
    let failed = scaled.watched.failed;
    let error = scaled.watched.first_error.as_deref();
    vec![
        Claim::new(
            "server hours by those of 15 servers",
            "at most 0.6",
            format!("{by_papers:.2}"),
            Some(by_papers <= 0.6),
        ),
        Claim::new(
            "server hours by those of as many servers as there were at most",
            "",
            format!("{:.2}", scaled.mean() / scaled.most().max(1.0)),
            None,
        ),
        Claim::new(
            "points of the hit ratio that are lost",
            "at most 1",
            format!("{lost:.2}"),
            Some(lost <= 1.0),
        ),
        Claim::new(
            "requests that failed",
            "0",
            error.map_or(failed.to_string(), |error| format!("{failed} ({error})")),
            Some(failed == 0),
        ),
        Claim::new(
            "seconds over the objective",
            &format!(
                "at most those in which {} servers were waited for: {allowed:.0}",
                scaled.added
            ),
            slow.to_string(),
            Some(slow as f64 <= allowed),
        ),
        Claim::new(
            "servers at the top of the ramp, and again at its foot",
            "8, 3",
            format!("{:.0}, {FEWEST}", scaled.most()),
            Some(scaled.most() as usize == MOST),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ramp_asks_for_as_many_servers_as_there_may_be() {
        let (foot, top) = (LOW, LOW * RISE);
        for kind in [Kind::Cluster, Kind::Ring] {
            let wanted = wanted(kind, Duration::from_secs(100));
            let (most, fewest) = (wanted[50].1, wanted[0].1);
            assert!((most - fewest * RISE).abs() < 1e-6, "{most}");
            // The fewest are enough at the foot, and one more would go.
            let Band { lower, upper } = kind.band();
            assert!(foot / FEWEST as f64 <= 0.8 * upper);
            assert!(foot / (FEWEST + 1) as f64 <= lower);
            assert!(top / MOST as f64 > upper);
        }
        assert!(top < (MOST as u64 * CAPACITY) as f64);
    }
}
