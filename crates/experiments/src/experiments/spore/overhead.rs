//! What it costs to look for hot keys where there are none (section 5.2, "Performance overhead").
//!
//! Servers of full speed, one worker each, alike but for their sampling; the trigger is off, so that each looks all
//! the time. They share a core, get the same load of equally popular keys in turns, and each is compared with the
//! one that has hot keys switched off *in the same round*: machines drift more than the effect is large.

use super::{Experiment, space};
use crate::args::Mode;
use crate::experiments::curves::size::{KEY_LEN, VALUE_LEN};
use crate::fleet::{api_of, wait_for_map};
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use evenkeel_bench::beside::{Clustered, First, fill, in_turns, two_sides, with_cpu_us};
use evenkeel_bench::process::Server;
use evenkeel_bench::{Latency, LoadPlan, Source, Stop, Target, median};
use evenkeel_workload::{Arrivals, KeySizes, Mix, Popularity, Rate, ValueSizes, WorkloadSpec};
use std::time::Duration;

pub(in crate::experiments) const OVERHEAD: Experiment = Experiment {
    name: "spore-overhead",
    title: "What looking for hot keys costs where there are none: time (real) and space (sim)",
    source: "SPORE, section 5.2",
    modes: &[Mode::Real, Mode::Sim],
    run: overhead,
};

/// Servers by the settings of their clusters. The first is what the others are compared with.
const SERVERS: [(&str, &str); 4] = [
    (OFF, r#"{"hot_keys": "off"}"#),
    (
        "0 % sampled",
        r#"{"hot_sampling": 0, "hot_trigger_rps": 0}"#,
    ),
    (DEFAULT, r#"{"hot_sampling": 3, "hot_trigger_rps": 0}"#),
    (ALL, r#"{"hot_sampling": 100, "hot_trigger_rps": 0}"#),
];

const OFF: &str = "hot keys off";
const DEFAULT: &str = "3 % sampled";
const ALL: &str = "100 % sampled";

const KEYS: u64 = 100_000;
const GET_SHARE: f64 = 0.99;
const CONNECTIONS: usize = 8;

/// Requests in flight on each connection where throughput is measured: the server is what limits it.
const PIPELINE: usize = 16;

/// Requests a second where latency is measured: a lightly loaded server, on which nothing queues.
const LIGHT_RATE: f64 = 5_000.0;

/// At most this much worse than with hot keys off, at 3 %.
const TARGET: f64 = 0.01;

/// The paper's bounds of latency: at 3 %, and at 100 % (the mean; the 90th percentile is the other).
const PAPER_LIGHT: f64 = 0.03;

/// A load that all servers get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// As much as goes.
    Full,
    /// A little, of which latency is told.
    Light,
}

/// What was measured of a server in a round.
#[derive(Clone, Debug, Default)]
struct Round {
    requests_per_second: f64,
    latency: Latency,
    /// The server's processor time for a request, in microseconds.
    cpu_us: f64,
}

/// All rounds of one load, for each server.
type Rounds = Vec<Vec<Round>>;

fn overhead(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    match run.mode {
        Mode::Real => time(experiment, run),
        Mode::Sim => space::space(experiment, run),
    }
}

fn time(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let (server_core, generator_cores) = two_sides()?;
    let rounds = run.by_scale([1, 9, 25, 51]);
    let duration = Duration::from_millis(run.by_scale([100, 500, 2_000, 5_000]));
    run.progress.say("starting");
    let clusters = SERVERS
        .iter()
        .map(|(_, settings)| start(settings, &server_core, &generator_cores))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let servers: Vec<&Server> = clusters.iter().map(|cluster| &cluster.server).collect();
    for server in &servers {
        fill(server, workload(run.seed)?, 0, &generator_cores)?;
    }
    let named: Vec<_> = SERVERS.iter().zip(&servers).collect();
    let measure = |load: Load| {
        in_turns(
            &named,
            1..=rounds,
            First::Another,
            |round, ((label, _), server)| {
                run.progress.say(format!("{label}, round {round}/{rounds}"));
                let plan = plan(server, load, duration, &generator_cores, run.seed)?;
                measure(server, plan)
            },
        )
    };
    let (full, light) = (measure(Load::Full)?, measure(Load::Light)?);
    let sampled = servers
        .iter()
        .map(|server| sampled_share(server))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut report = run.report(experiment);
    report.settings = vec![
        (
            "servers",
            "real processes of one worker at their own speed, all on one core, each the only one of a cluster".into(),
        ),
        ("keys", format!("{KEYS} of {KEY_LEN} B, uniform")),
        ("values", format!("{VALUE_LEN} B")),
        ("gets", format!("{:.0} %", GET_SHARE * 100.0)),
        (
            "rounds",
            format!("{rounds} of {duration:?} for each server and load, in turns"),
        ),
    ];
    report.tables = vec![full_table(&full, &sampled), light_table(&light)];
    report.claims = claims(&full, &light);
    report.note(format!(
        "Throughput is of a closed loop of {CONNECTIONS} connections with {PIPELINE} requests in flight each; latency of \
         an open loop of {LIGHT_RATE:.0} requests/s. Ratios are medians over the rounds, each by \"{OFF}\" in the same \
         round, with the least and the most.",
    ));
    report.note("A ratio is worth no more than its spread is narrow: on a busy machine run it again, or longer.");
    Ok(report)
}

/// A server that is alone in its cluster, so that it has settings of its own.
fn start(settings: &str, cores: &[usize], others: &[usize]) -> anyhow::Result<Clustered> {
    let change = serde_json::from_str(settings)?;
    let more = ["-m", "256", "--drain-timeout", "0"];
    let clustered = Clustered::start(1, &more, cores, others, |coordinator| {
        api_of(coordinator)?.change_settings(&change)?;
        Ok(())
    })?;
    let api = api_of(&clustered.coordinator.address.to_string())?;
    wait_for_map(&api, 1)?;
    Ok(clustered)
}

fn workload(seed: u64) -> anyhow::Result<WorkloadSpec> {
    Ok(WorkloadSpec {
        keys: Some(KEYS),
        popularity: Popularity::Uniform,
        mix: Mix::gets(GET_SHARE)?,
        key_sizes: KeySizes::fixed(KEY_LEN as u32)?,
        value_sizes: ValueSizes::fixed(VALUE_LEN as u32)?,
        seed,
        ..WorkloadSpec::default()
    })
}

fn plan(
    server: &Server,
    load: Load,
    duration: Duration,
    cores: &[usize],
    seed: u64,
) -> anyhow::Result<LoadPlan> {
    let source = Source::Generated(workload(seed)?);
    let plan = LoadPlan {
        connections_per_thread: CONNECTIONS,
        pin: cores.to_vec(),
        stop: Stop::after(duration),
        seed,
        ..LoadPlan::new(Target::from(server.address), source)
    };
    Ok(match load {
        Load::Full => LoadPlan {
            pipeline: PIPELINE,
            ..plan
        },
        Load::Light => LoadPlan {
            pipeline: PIPELINE,
            pace: Arrivals::Poisson(Rate::Constant(LIGHT_RATE)),
            ..plan
        },
    })
}

fn measure(server: &Server, plan: LoadPlan) -> anyhow::Result<Round> {
    let (report, cpu_us) = with_cpu_us([server], || evenkeel_bench::measure(plan)?.all_right())?;
    Ok(Round {
        requests_per_second: report.requests_per_second,
        cpu_us: cpu_us / report.counters.requests as f64,
        latency: report.latency,
    })
}

/// Share of the reads that a server looked at since its start.
fn sampled_share(server: &Server) -> anyhow::Result<f64> {
    let reads = server.stats("")?.number("cmd_get")?;
    let sampled = server.stats("evenkeel")?.number("hot_reads_sampled")?;
    Ok(sampled as f64 / reads.max(1) as f64)
}

/// Ratios of a figure to that of hot keys off, round by round.
struct Ratio {
    median: f64,
    least: f64,
    most: f64,
}

impl Ratio {
    fn of(rounds: &Rounds, server: usize, figure: fn(&Round) -> f64) -> Ratio {
        let ratios: Vec<f64> = rounds[server]
            .iter()
            .zip(&rounds[0])
            .map(|(round, off)| figure(round) / figure(off))
            .collect();
        Ratio {
            median: median(ratios.clone()),
            least: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            most: ratios.iter().copied().fold(0.0, f64::max),
        }
    }

    fn text(&self) -> String {
        format!("{:.3} ({:.3} to {:.3})", self.median, self.least, self.most)
    }
}

fn middle(rounds: &[Round], figure: fn(&Round) -> f64) -> f64 {
    median(rounds.iter().map(figure).collect())
}

const RATE: fn(&Round) -> f64 = |round| round.requests_per_second;
const CPU: fn(&Round) -> f64 = |round| round.cpu_us;
const MEAN: fn(&Round) -> f64 = |round| round.latency.latency_us_mean;
const P50: fn(&Round) -> f64 = |round| round.latency.latency_us_p50;
const P90: fn(&Round) -> f64 = |round| round.latency.latency_us_p90;
const P99: fn(&Round) -> f64 = |round| round.latency.latency_us_p99;

fn full_table(rounds: &Rounds, sampled: &[f64]) -> Table {
    let mut table = Table::new(
        "As much as goes",
        "|reads looked at|requests/s|by off (least to most)|server µs a request|by off (least to most)",
    );
    for (server, (label, _)) in SERVERS.iter().enumerate() {
        table.row([
            (*label).to_owned(),
            format!("{:.1} %", sampled[server] * 100.0),
            format!("{:.0}", middle(&rounds[server], RATE)),
            Ratio::of(rounds, server, RATE).text(),
            format!("{:.2}", middle(&rounds[server], CPU)),
            Ratio::of(rounds, server, CPU).text(),
        ]);
    }
    table
}

fn light_table(rounds: &Rounds) -> Table {
    let figures = [("mean", MEAN), ("p50", P50), ("p90", P90), ("p99", P99)];
    let columns = figures.map(|(name, _)| format!("|{name} µs|by off (least to most)"));
    let mut table = Table::new("Latency of a lightly loaded server", &columns.concat());
    for (server, (label, _)) in SERVERS.iter().enumerate() {
        let mut row = vec![(*label).to_owned()];
        for (_, figure) in figures {
            row.push(format!("{:.1}", middle(&rounds[server], figure)));
            row.push(Ratio::of(rounds, server, figure).text());
        }
        table.row(row);
    }
    table
}

fn claims(full: &Rounds, light: &Rounds) -> Vec<Claim> {
    let place = |label: &str| {
        let places = SERVERS.iter().position(|(other, _)| *other == label);
        places.expect("a server of the list")
    };
    let [default, all] = [DEFAULT, ALL].map(place);
    let (rate, p99) = (
        Ratio::of(full, default, RATE),
        Ratio::of(light, default, P99),
    );
    let (mean, p90) = (
        Ratio::of(light, default, MEAN),
        Ratio::of(light, default, P90),
    );
    vec![
        Claim::new(
            "throughput at 3 %, by hot keys off",
            "ours: at least 0.99",
            rate.text(),
            Some(rate.median >= 1.0 - TARGET),
        ),
        Claim::new(
            "99th percentile at 3 %, by hot keys off",
            "ours: at most 1.01",
            p99.text(),
            Some(p99.median <= 1.0 + TARGET),
        ),
        Claim::new(
            "mean latency at 3 %, by hot keys off",
            "at most 1.03",
            mean.text(),
            Some(mean.median <= 1.0 + PAPER_LIGHT),
        ),
        Claim::new(
            "90th percentile at 3 %, by hot keys off",
            "at most 1.03",
            p90.text(),
            Some(p90.median <= 1.0 + PAPER_LIGHT),
        ),
        Claim::new(
            "mean latency at 100 %, by hot keys off",
            "1.07",
            Ratio::of(light, all, MEAN).text(),
            None,
        ),
        Claim::new(
            "90th percentile at 100 %, by hot keys off",
            "1.10",
            Ratio::of(light, all, P90).text(),
            None,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_is_compared_with_off_in_the_same_round() {
        // A machine that drifts to a third: the ratio stays what it is.
        let rounds = |rate: f64| -> Vec<Round> {
            let drift = [1.0, 0.5, 0.3];
            let round = |drift: f64| Round {
                requests_per_second: rate * drift,
                ..Round::default()
            };
            drift.map(round).into()
        };
        let measured = vec![rounds(1_000.0), rounds(990.0)];
        let ratio = Ratio::of(&measured, 1, RATE);
        for found in [ratio.median, ratio.least, ratio.most] {
            assert!((found - 0.99).abs() < 1e-9, "{found}");
        }
    }
}
