//! What the phases of balancing are to reach, beside what they do.

use super::phases::{ALL, MEMCACHED, UNIFORM, all, each_alone, servers, size};
use super::planning::{self, plan_once};
use super::story::tell;
use super::targets_sim::{self, COPIED};
use super::workloads::{Part, WORKLOADS};
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::experiments::curves::report::{Latencies, Measured};
use crate::experiments::curves::setting::Setting;
use crate::experiments::curves::size::Size;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use crate::trial::mean;
use evenkeel_bench::median;
use std::time::Duration;

pub(in crate::experiments) const TARGETS: Experiment = Experiment {
    name: "balance-targets",
    title: "What balancing is to reach: even load, throughput and latency beside memcached, quick plans",
    source: "ours, after MBal",
    modes: &[Mode::Real, Mode::Sim],
    run: targets,
};

/// Balance efficiency of all phases.
const EFFICIENCY: f64 = 0.95;

/// Throughput of all phases by memcached's, and the 99th percentile by its, at most.
const THROUGHPUT: f64 = 1.2;
const P99: f64 = 0.65;

/// Latencies are compared at the rate next to this part of the capacity.
const COMPARED_AT: f64 = 0.4;

/// The busiest worker's load by the mean, and how soon after another workload has begun.
const EVEN: f64 = 1.2;
const EVEN_WITHIN: Duration = Duration::from_secs(10);

/// Time for a plan of moves.
const PLANNED_WITHIN: Duration = Duration::from_secs(1);

fn targets(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = size(run);
    let together = all(servers(run));
    let mut report = beside_memcached(experiment, run, &size, &together)?;
    let story = tell(run, &size, ALL, &together)?;
    let parts = WORKLOADS.iter().zip(&story.parts).skip(1);
    report
        .claims
        .extend(parts.map(|(workload, part)| even_claim(workload.label, part)));
    match run.mode {
        Mode::Real => add_plans(run, &mut report)?,
        Mode::Sim => targets_sim::add(run, &size, &together, &mut report)?,
    }
    report.note("A memcached of two threads is a server of one worker that is twice as fast: no locks, and either thread serves \
         any key. Beside it a gain is harder to reach than beside a real one.");
    Ok(report)
}

/// All phases beside memcacheds and beside perfect balance.
fn beside_memcached(
    experiment: &Experiment,
    run: &Run,
    size: &Size,
    together: &Setting,
) -> anyhow::Result<Report> {
    let mut settings = each_alone(run);
    settings.retain(|(label, _)| [MEMCACHED, UNIFORM].contains(label));
    settings.push((ALL, together.clone()));
    let measured = Measured::new(run, size, Latencies::ReadsAndWrites, UNIFORM, &settings)?;
    let mut report = measured.report(experiment, run);
    let efficiency = measured.efficiency(ALL);
    let throughput = measured.ratio(ALL, MEMCACHED);
    let [ours, theirs] = [ALL, MEMCACHED].map(|label| {
        let trials = measured.of(label).at(size, COMPARED_AT);
        mean(&trials, |trial| trial.latency.latency_us_p99)
    });
    report.claims = vec![
        Claim::new(
            "balance efficiency with all phases",
            &format!("target: at least {EFFICIENCY}"),
            format!("{efficiency:.2}"),
            Some(efficiency >= EFFICIENCY),
        ),
        Claim::new(
            "throughput with all phases, by memcacheds",
            &format!("target: at least {THROUGHPUT}"),
            format!("{throughput:.2}"),
            Some(throughput >= THROUGHPUT),
        ),
        Claim::new(
            &format!(
                "99th percentile with all phases, by memcacheds, at {COMPARED_AT} of the capacity"
            ),
            &format!("target: at most {P99}"),
            format!("{:.2}", ours / theirs),
            Some(ours <= P99 * theirs),
        ),
    ];
    Ok(report)
}

/// Plans for a cluster far beyond the paper's, which no run has.
fn add_plans(run: &Run, report: &mut Report) -> anyhow::Result<()> {
    run.progress.say("planning");
    let plans = (0..run.by_scale([1, 3, 9, 9]))
        .map(|plan| plan_once(run.seed.wrapping_add(plan)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let slowest = plans.iter().map(|plan| plan.took).max().unwrap_or_default();
    let most = plans
        .iter()
        .map(|plan| plan.part_of_bytes)
        .fold(0.0, f64::max);
    report.claims.extend([
        Claim::new(
            &format!(
                "a plan for {} servers of {} workers of {} cachelets, by the fast path",
                planning::SERVERS,
                planning::WORKERS,
                planning::CACHELETS
            ),
            &format!("target: within {PLANNED_WITHIN:?}"),
            format!("{:.0} ms at most", slowest.as_secs_f64() * 1000.0),
            Some(slowest <= PLANNED_WITHIN),
        ),
        Claim::new(
            "what such a plan copies, of all data",
            "target: at most 1 %",
            format!("{:.2} %", most * 100.0),
            Some(most <= COPIED),
        ),
    ]);
    report.tables.push(plans_table(&plans));
    report.note("What moves cost is measured by moves-workers, moves-cachelet, moves-servers, moves-restart and moves-coordinator.");
    Ok(())
}

fn even_claim(workload: &str, part: &Part) -> Claim {
    let even_in = part.even_in(EVEN);
    let watched = part.moments.last().map_or(0.0, |moment| moment.seconds);
    Claim::new(
        &format!("max/mean load of workers at most {EVEN} after workload {workload} has begun"),
        &format!("target: within {EVEN_WITHIN:?}"),
        match even_in {
            Some(seconds) => format!("{seconds:.1} s"),
            None => format!("not within {watched:.0} s"),
        },
        Some(even_in.is_some_and(|seconds| seconds <= EVEN_WITHIN.as_secs_f64())),
    )
}

fn plans_table(plans: &[planning::Planned]) -> Table {
    let mut table = Table::new(
        "Plans of phase 3",
        "|ms, median|least to most|moves|of all data",
    );
    let ms = || plans.iter().map(|plan| plan.took.as_secs_f64() * 1000.0);
    let moves = plans.iter().map(|plan| plan.moves as f64).collect();
    let parts = plans.iter().map(|plan| plan.part_of_bytes).collect();
    table.row([
        format!("{} plans", plans.len()),
        format!("{:.0}", median(ms().collect())),
        format!(
            "{:.0} to {:.0}",
            ms().fold(f64::INFINITY, f64::min),
            ms().fold(0.0, f64::max)
        ),
        format!("{:.0}", median(moves)),
        format!("{:.2} %", median(parts) * 100.0),
    ]);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_for_a_thousand_servers_keeps_to_its_bytes() {
        let planned = plan_once(1).expect("there is something to plan");
        assert!(planned.moves > 0);
        assert!(planned.part_of_bytes <= COPIED, "{planned:?}");
    }
}
