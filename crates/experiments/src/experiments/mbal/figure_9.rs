//! Figure 9: what each core carries as there are more of them.

use super::machine::{Kind, Load, Rounds};
use super::over_workers::{OverWorkers, settings};
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::report::Report;
use crate::run::Run;
use evenkeel_workload::Popularity;

pub(in crate::experiments) const FIGURE_9: Experiment = Experiment {
    name: "mbal-9",
    title: "What each worker carries as there are more of them",
    source: "MBal, Figure 9",
    modes: &[Mode::Real],
    run: figure_9,
};

const KINDS: [Kind; 2] = [Kind::Aware, Kind::Memcached];

const READS: &str = "90 % GET";
const WRITES: &str = "50 % GET";

/// What a core of 32 carried in the paper, by one alone: 18.6 and 17.2 times as much in all.
const PAPER_READS: f64 = 18.6 / 32.0;
const PAPER_WRITES: f64 = 17.2 / 32.0;

fn figure_9(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let rounds = Rounds::of(run);
    let load = |get_share| Load {
        keys: run.by_scale([2_000, 100_000, 8_000_000, 8_000_000]),
        key_len: 16,
        value_len: 32,
        popularity: Popularity::Uniform,
        get_share,
        multiget: 1,
        memory_mb: run.by_scale([64, 256, 2_048, 2_048]),
        misses: None,
    };
    let loads = [(READS, load(0.9)), (WRITES, load(0.5))];
    let measured = OverWorkers::measure(run, rounds, &KINDS, &loads)?;
    let mut report = measured.report(experiment, run);
    report.settings = settings(&loads[0].1, rounds);
    report.claims = vec![
        measured.scaling_claim(READS, Kind::Aware, "0.58 (32 cores)", PAPER_READS),
        measured.scaling_claim(WRITES, Kind::Aware, "0.54 (32 cores)", PAPER_WRITES),
        measured.more_claim(WRITES, [Kind::Aware, Kind::Memcached], "more", 1.0),
    ];
    report.note("As many workers as this machine has cores, unless --workers tells others. 64 requests are in flight on each \
         connection where the paper's clients ask for many keys at once: a client that knows the owners would split such \
         a request.");
    Ok(report)
}
