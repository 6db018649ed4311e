//! The simulator beside real servers: the same load on eight of each, and where each of them bends.
//!
//! A real server is saturated by closed loops of different pipelines and values, and a model of what it takes is
//! fitted to their reports, as `evenkeel sim calibrate` does it. Eight such servers and eight that are simulated by
//! the model then get the same keys, equally popular, at the same rates; both have the map that a coordinator
//! begins with, so that a key of the one shares its server with the same keys as in the other.

use super::Experiment;
use crate::args::{Mode, Scale};
use crate::fleet::{Fleet, FleetPlan, LoadSpec, LoadedFleet, PIPELINE, Pool, Smallness};
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use crate::simulated::{Fidelity, SimulatedLoad};
use crate::small;
use crate::trial::{Subject, Sweep, sweep, trials_table};
use anyhow::Context;
use clap::Parser;
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_bench::{Objective, Percentile, RunArgs};
use evenkeel_coordinator_core::plans::PlanMode;
use evenkeel_hotkeys::config::{HotKeysConfig, Mode as Replicate, ssm_entries};
use evenkeel_sim::load::service::{Fit, Measured, fit};
use evenkeel_sim::load::{KEY_LEN, LoadPlan, ServiceModel};
use evenkeel_workload::Popularity;
use std::time::Duration;

pub(super) const AGREEMENT: Experiment = Experiment {
    name: "agreement",
    title: "The simulator beside real servers: load, latency, and where eight servers bend",
    source: "Evenkeel",
    modes: &[Mode::Real],
    run: agreement,
};

const SERVERS: usize = 8;

/// Applications, each with leases of its own, behind one proxy.
const CONNECTIONS: usize = 66;

const VALUE_LEN: usize = 200;
const GET_SHARE: f64 = 0.99;

/// Rates of the curves, by the capacity of all servers.
const RATES: [f64; 4] = [0.4, 0.6, 0.75, 0.9];

/// How far the simulator may be from real servers at the knee, in parts of theirs.
const TOLERANCE: f64 = 0.10;

/// Pipelines and values of the runs that the model is fitted to.
const CALIBRATED_BY: [(usize, usize); 4] =
    [(1, VALUE_LEN), (16, VALUE_LEN), (1, 4_000), (16, 4_000)];

/// Keys of these runs: each has to be set first, at the server's pace.
const CALIBRATION_KEYS: u64 = 300;

/// What is asked, and whether hot keys are replicated.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    popularity: Popularity,
    hot_keys: bool,
}

/// All of them; fewer where figures say little. `keys`: how many there are.
fn cases(run: &Run, keys: u64) -> Vec<Case> {
    let case = |name, popularity, hot_keys| Case {
        name,
        popularity,
        hot_keys,
    };
    let zipf = |exponent| Popularity::Zipf { exponent };
    let one = Popularity::Hotspot {
        operations: 0.46,
        keys: 1.0 / keys as f64,
    };
    let mut cases = vec![case("uniform keys", Popularity::Uniform, false)];
    if run.scale != Scale::Quick {
        cases.extend([
            case("Zipf 0.99", zipf(0.99), false),
            case("Zipf 1.2, hot keys replicated", zipf(1.2), true),
            case("one key 46 %, hot keys replicated", one, true),
        ]);
    }
    cases
}

/// A case on both kinds of servers.
struct Both {
    name: &'static str,
    real: Sweep,
    simulated: Sweep,
}

impl Both {
    /// The simulator's throughput at the knee by that of real servers.
    fn ratio(&self) -> f64 {
        self.simulated.knee.requests_per_second() / self.real.knee.requests_per_second()
    }

    fn labels(&self) -> [String; 2] {
        ["real", "simulated"].map(|kind| format!("{}, {kind}", self.name))
    }
}

fn agreement(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    run.progress.say("calibrating");
    let calibrated = calibrate(run)?;
    let cases = cases(run, keys(run)).into_iter().map(|case| {
        let Case { name, hot_keys, .. } = case;
        let plan = simulated_plan(run, case.popularity, hot_keys, calibrated.model);
        Ok(Both {
            name,
            real: real(run, name, &plan, hot_keys)?,
            simulated: simulated(run, name, plan)?,
        })
    });
    let cases = cases.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(report(experiment, run, &calibrated, &cases))
}

/// The command line of `evenkeel bench run`.
#[derive(Parser)]
struct BenchRun {
    #[command(flatten)]
    args: RunArgs,
}

/// Fits a model to one server, alone.
fn calibrate(run: &Run) -> anyhow::Result<Fit> {
    let fleet = Fleet::start(&FleetPlan {
        servers: 1,
        pool: Pool::Plain {
            distribution: "modula",
        },
        ..fleet_plan(false)
    })?;
    let server = fleet.server_addresses()[0];
    let measured = CALIBRATED_BY.iter().map(|(pipeline, value_len)| {
        let line = format!(
            "bench --target {server} --timeout 30s --connections 4 --pipeline {pipeline} --keys {CALIBRATION_KEYS} \
             --value-size {value_len} --get-share {GET_SHARE} --duration {}ms",
            run.by_scale([300, 2_000, 10_000, 10_000]),
        );
        let bench = BenchRun::try_parse_from(line.split(' ')).context("measuring one server")?;
        let report = evenkeel_bench::run(&bench.args)?.to_json()?;
        Measured::of_report(&serde_json::from_str(&report)?, 0, 1)
    });
    fit(&measured.collect::<anyhow::Result<Vec<_>>>()?)
}

fn fleet_plan(hot_keys: bool) -> FleetPlan {
    FleetPlan {
        servers: SERVERS,
        smallness: smallness(),
        pool: Pool::Cluster {
            hot_keys: replicate(hot_keys),
            plans: PlanMode::Observe,
        },
        connections: 2 * CONNECTIONS,
        ..FleetPlan::default()
    }
}

fn replicate(hot_keys: bool) -> Replicate {
    match hot_keys {
        true => Replicate::On,
        false => Replicate::Off,
    }
}

fn smallness() -> Smallness {
    Smallness::of_capacity(small::CAPACITY)
}

fn objective() -> Objective {
    Objective {
        percentile: Percentile::P99,
        within: Duration::from_secs_f64(small::LIMIT_SERVICES / small::CAPACITY as f64),
    }
}

fn rates() -> Vec<f64> {
    let capacity = (SERVERS as u64 * small::CAPACITY) as f64;
    RATES.iter().map(|share| share * capacity).collect()
}

fn precision(run: &Run) -> f64 {
    run.by_scale([1.0, 0.06, 0.02, 0.02])
}

fn keys(run: &Run) -> u64 {
    run.by_scale([2_000, 12_000, 100_000, 100_000])
}

fn simulated_plan(
    run: &Run,
    popularity: Popularity,
    hot_keys: bool,
    service: ServiceModel,
) -> LoadPlan {
    LoadPlan {
        seed: run.seed,
        servers: SERVERS,
        proxies: 1,
        clients: CONNECTIONS,
        keys: keys(run),
        popularity,
        get_share: GET_SHARE,
        value_bytes: VALUE_LEN,
        prefill: true,
        hot_keys: HotKeysConfig {
            mode: replicate(hot_keys),
            entries_max: ssm_entries(1),
            ..HotKeysConfig::default()
        },
        service,
        // Hot keys have to be found, and what piled up before has to be gone.
        warm_up: 20_000_000_000,
        length: run.by_scale([5, 30, 60, 60]) * 1_000_000_000,
        ..LoadPlan::default()
    }
}

fn simulated(run: &Run, name: &str, plan: LoadPlan) -> anyhow::Result<Sweep> {
    let mut subject = SimulatedLoad {
        plan,
        fidelity: Fidelity::Whole,
    };
    let say = |what: &str| run.progress.say(format!("{name}, simulated: {what}"));
    sweep(&mut subject, &rates(), objective(), precision(run), &say)
}

/// The same on real servers.
fn real(run: &Run, name: &str, plan: &LoadPlan, hot_keys: bool) -> anyhow::Result<Sweep> {
    let say = |what: &str| run.progress.say(format!("{name}, real: {what}"));
    say("starting");
    let fleet = Fleet::start(&fleet_plan(hot_keys))?;
    let load = LoadSpec {
        keys: plan.keys,
        prefix: plan.key_prefix(),
        key_len: KEY_LEN,
        value_len: plan.value_bytes,
        popularity: plan.popularity,
        get_share: plan.get_share,
        cache_aside: false,
        read_only: None,
        reshuffle: None,
        connections: plan.clients,
        pipeline: PIPELINE,
        warm_up: Duration::from_millis(500),
        duration: Duration::from_millis(run.by_scale([300, 2_000, 20_000, 20_000])),
        seed: plan.seed,
    };
    say("filling");
    load.fill(&fleet)?;
    let mut subject = LoadedFleet {
        fleet: &fleet,
        load,
    };
    if hot_keys {
        say("hot keys are being found");
        subject.trial(0.5 * (SERVERS as u64 * small::CAPACITY) as f64)?;
    }
    sweep(&mut subject, &rates(), objective(), precision(run), &say)
}

fn report(experiment: &Experiment, run: &Run, calibrated: &Fit, cases: &[Both]) -> Report {
    let mut report = run.report(experiment);
    let plan = simulated_plan(run, Popularity::Uniform, false, calibrated.model);
    report.settings = vec![
        (
            "real servers",
            format!(
                "{SERVERS} processes of one worker {} (a test option)",
                smallness()
            ),
        ),
        (
            "simulated servers",
            format!("{SERVERS} of one worker by the model; {}", Fidelity::Whole),
        ),
        (
            "keys",
            format!("{} of {KEY_LEN} B, the same names in both", plan.keys),
        ),
        ("values", format!("{VALUE_LEN} B")),
        ("gets", format!("{:.0} %", GET_SHARE * 100.0)),
        (
            "clients",
            format!("{CONNECTIONS} connections of an open loop (Poisson) through one proxy"),
        ),
    ];
    let model = calibrated.model;
    let mut fitted = Table::new(
        "What a server takes, fitted to closed loops on one of them",
        "runs|a key|a byte|a batch|worst error",
    );
    fitted.row([
        calibrated.runs.to_string(),
        format!("{:.1} us", model.operation_ns / 1e3),
        format!("{:.3} us", model.byte_ns / 1e3),
        format!("{:.1} us", model.batch_ns / 1e3),
        format!("{:.1} %", calibrated.worst_error * 100.0),
    ]);
    let mut knees = Table::new(
        &format!("Highest throughput at {}", objective()),
        "|real requests/s|simulated|by real|real max/mean load|simulated",
    );
    for case in cases {
        let balance = |sweep: &Sweep| {
            let trial = sweep.knee.trial.as_ref();
            trial.map_or("-".into(), |trial| format!("{:.2}", trial.max_to_mean()))
        };
        let rate = |sweep: &Sweep| format!("{:.0}", sweep.knee.requests_per_second());
        knees.row([
            case.name.into(),
            rate(&case.real),
            rate(&case.simulated),
            format!("{:.2}", case.ratio()),
            balance(&case.real),
            balance(&case.simulated),
        ]);
    }
    let labels: Vec<_> = cases.iter().map(Both::labels).collect();
    let sweeps: Vec<_> = cases
        .iter()
        .zip(&labels)
        .flat_map(|(case, [real, simulated])| [(real, &case.real), (simulated, &case.simulated)])
        .collect();
    let curves: Vec<_> = sweeps
        .iter()
        .map(|(label, sweep)| {
            let trials = sweep.curve.iter().map(|trial| vec![trial]).collect();
            (label.as_str(), trials)
        })
        .collect();
    report.claims = cases
        .iter()
        .map(|case| {
            Claim::new(
                &format!(
                    "{}: simulated throughput at the knee by the real one",
                    case.name
                ),
                &format!("{:.2} to {:.2}", 1.0 - TOLERANCE, 1.0 + TOLERANCE),
                format!("{:.2}", case.ratio()),
                Some((case.ratio() - 1.0).abs() <= TOLERANCE),
            )
        })
        .collect();
    report.tables = vec![
        fitted,
        knees,
        trials_table("Latency over throughput", &curves),
    ];
    // Beyond saturation latency is a matter of how long one waits.
    let shown_us = 1e7 * objective().within.as_secs_f64();
    report.plots.push(Plot {
        name: run.plot_name(experiment),
        title: experiment.title.into(),
        x: Axis::linear("requests/s"),
        y: Axis::log("99th percentile, ms"),
        curves: sweeps
            .iter()
            .map(|(label, sweep)| {
                let trials = sweep.curve.iter().chain(&sweep.knee.trial);
                let mut points: Vec<_> = trials
                    .filter(|trial| trial.latency.latency_us_p99 < shown_us)
                    .map(|trial| {
                        (
                            trial.requests_per_second,
                            trial.latency.latency_us_p99 / 1e3,
                        )
                    })
                    .collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                Curve::new((*label).clone(), points)
            })
            .collect(),
    });
    report.note("Eight real servers at their own speed would need more processors than load and proxy leave of a small \
         machine; the service time makes them small, and it is what the model finds.");
    report
}
