//! Figures 12 and 13: changing workloads over time, and which phase acts how often.

use super::phases::{ALL, OFF, size};
use super::story::{Story, settings, tell};
use super::workloads::{Moment, Pace, RATE, WORKLOADS, tells_loads};
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::experiments::curves::report;
use crate::fleet::BalancingCounts;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use evenkeel_bench::plot::{Axis, Curve, Plot};

pub(in crate::experiments) const FIGURE_12: Experiment = Experiment {
    name: "mbal-12",
    title: "Three workloads one after the other: 90th percentile over time",
    source: "MBal, Figure 12",
    modes: &[Mode::Real, Mode::Sim],
    run: figure_12,
};

pub(in crate::experiments) const FIGURE_13: Experiment = Experiment {
    name: "mbal-13",
    title: "Three workloads one after the other: which phase acts how often",
    source: "MBal, Figure 13",
    modes: &[Mode::Real, Mode::Sim],
    run: figure_13,
};

fn figure_12(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = size(run);
    let settings = settings(run);
    let told = settings
        .iter()
        .map(|(label, setting)| Ok((tell(run, &size, label, setting)?, tells_loads(setting))))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut report = begin(experiment, run);
    for (number, workload) in WORKLOADS.iter().enumerate() {
        report.tables.push(table(workload.label, &told, number));
    }
    let of = |label: &str| told.iter().find(|(story, _)| story.label == label);
    if let (Some((all, _)), Some((off, _))) = (of(ALL), of(OFF)) {
        report.claims = claims(all, off);
    }
    let stories = || told.iter().map(|(story, _)| story);
    report.plots = vec![
        Plot {
            name: run.plot_name(experiment),
            title: experiment.title.into(),
            x: Axis::linear("seconds"),
            y: Axis::log("90th percentile, ms"),
            curves: stories()
                .map(|story| curve(run, story, |moment| moment.latency_us_p90 / 1000.0))
                .collect(),
        },
        Plot {
            name: format!("{}-balance", run.plot_name(experiment)),
            title: "Three workloads one after the other: balance over time".into(),
            x: Axis::linear("seconds"),
            y: Axis::linear("busiest worker's load by the mean"),
            curves: stories()
                .map(|story| curve(run, story, |moment| moment.max_to_mean))
                .filter(|curve| !curve.points.is_empty())
                .collect(),
        },
    ];
    report.note("Percentiles are of reads and writes together; the paper shows reads, and says that writes look alike.");
    report.note("Loads of workers are smoothed over 1.5 s and told twice a second, so that what is even shows a second or two \
         later.");
    Ok(report)
}

fn figure_13(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = size(run);
    let settings = settings(run);
    let all = settings.iter().find(|(label, _)| *label == ALL);
    let (label, setting) = all.expect("all phases are among the settings");
    let story = tell(run, &size, label, setting)?;
    let mut report = begin(experiment, run);
    let columns = "|intervals of phase 1|of phase 2|of phase 3|without any|share of phase 1|of phase 2|of phase 3|keys promoted|cachelets lent|sent home|moved to other servers";
    let mut table = Table::new("What the servers did", columns);
    for (workload, part) in WORKLOADS.iter().zip(&story.parts) {
        let (balancing, intervals) = (part.balancing, part.balancing.intervals);
        let counts = [
            intervals.replicating,
            intervals.local,
            intervals.coordinated,
            intervals.idle,
        ];
        let shares = intervals.shares();
        let row = [workload.label.to_owned()]
            .into_iter()
            .chain(counts.map(|count| count.to_string()))
            .chain(shares.map(|share| format!("{:.0} %", share * 100.0)))
            .chain(
                [
                    balancing.promoted,
                    balancing.lent,
                    balancing.sent_home,
                    balancing.moved,
                ]
                .map(|count| count.to_string()),
            );
        table.row(row);
    }
    report.tables = vec![table];
    let did: BalancingCounts = story.parts.iter().map(|part| part.balancing).sum();
    let [_, _, coordinated] = did.intervals.shares();
    report.claims = vec![Claim::new(
        "phase 3, as a part of the intervals in which a phase has to act",
        "0.13",
        format!("{coordinated:.2}"),
        // Servers pass phase 3 over, which the coordinator begins by itself: nothing could come of it but 0.
        None,
    )];
    report.note("An event is an interval of half a second in which a server has something to even out, by the phase that its \
         balancer is at. What comes of it are the keys and cachelets.");
    Ok(report)
}

fn begin(experiment: &Experiment, run: &Run) -> Report {
    let mut report = run.report(experiment);
    report.settings = report::settings(run, &size(run), super::WORKERS);
    let Pace { each, step } = Pace::of(run);
    report.settings.extend([
        ("load", format!("{RATE} of the capacity")),
        (
            "each workload",
            format!("{each:?}, looked at every {step:?}"),
        ),
    ]);
    report.note("Intervals of phase 3 are those in which a server could not help itself. The coordinator decides by the loads of all \
         (`--plans automatic`): what it does are the cachelets that moved to other servers.");
    report
}

/// A curve of all workloads, one after the other.
fn curve(run: &Run, story: &Story, figure: fn(&Moment) -> f64) -> Curve {
    let each = Pace::of(run).each.as_secs_f64();
    let points = story.parts.iter().enumerate().flat_map(|(number, part)| {
        let begun = number as f64 * each;
        let point = move |moment: &Moment| (begun + moment.seconds, figure(moment));
        part.moments.iter().map(point)
    });
    Curve {
        label: story.label.into(),
        // Nothing was answered, or nobody tells.
        points: points.filter(|(_, value)| *value > 0.0).collect(),
    }
}

fn table(title: &str, told: &[(Story, bool)], number: usize) -> Table {
    let columns = "|requests/s|p50 ms|p90 ms|p99 ms|max/mean load in the end|errors";
    let mut table = Table::new(title, columns);
    for (story, tells) in told {
        let part = &story.parts[number];
        let ms = |us: f64| format!("{:.2}", us / 1000.0);
        let last = part.moments.last().map_or(0.0, |moment| moment.max_to_mean);
        table.row([
            story.label.to_owned(),
            format!("{:.0}", part.requests_per_second),
            ms(part.latency.latency_us_p50),
            ms(part.latency.latency_us_p90),
            ms(part.latency.latency_us_p99),
            match tells {
                true => format!("{last:.2}"),
                false => "-".into(),
            },
            part.errors.to_string(),
        ]);
    }
    table
}

fn claims(all: &Story, off: &Story) -> Vec<Claim> {
    let pairs = WORKLOADS.iter().zip(all.parts.iter().zip(&off.parts));
    let mut claims: Vec<_> = pairs
        .map(|(workload, (all, off))| {
            let by = all.latency.latency_us_p90 / off.latency.latency_us_p90;
            let name = workload.label.split(':').next().unwrap_or_default();
            Claim::new(
                &format!("workload {name}: 90th percentile with all phases, by none"),
                "below 1",
                format!("{by:.2}"),
                Some(by < 1.0),
            )
        })
        .collect();
    let failed: u64 = all.parts.iter().map(|part| part.errors).sum();
    let wrong: u64 = all.parts.iter().map(|part| part.wrong_values).sum();
    claims.push(Claim::new(
        "requests that failed, and values that nobody wrote, with all phases",
        "ours: none",
        format!("{failed}, {wrong}"),
        Some(failed + wrong == 0),
    ));
    claims
}
