//! Figure 5: reads alone and writes alone over the number of workers.

use super::machine::{Kind, Load, Rounds};
use super::over_workers::{OverWorkers, settings};
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::report::Report;
use crate::run::Run;
use evenkeel_workload::Popularity;

pub(in crate::experiments) const FIGURE_5: Experiment = Experiment {
    name: "mbal-5",
    title: "Reads and writes of one server over its workers, beside memcached",
    source: "MBal, Figure 5",
    modes: &[Mode::Real],
    run: figure_5,
};

const KINDS: [Kind; 3] = [Kind::Aware, Kind::Unaware, Kind::Memcached];

const READS: &str = "GET alone";
const WRITES: &str = "SET alone";

/// Workers that share nothing should scale as cores do; a tenth is for caches and memory that they do share.
const SCALES: f64 = 0.9;

fn figure_5(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let rounds = Rounds::of(run);
    let load = |get_share| Load {
        keys: run.by_scale([2_000, 200_000, 40_000_000, 40_000_000]),
        key_len: 10,
        value_len: 20,
        popularity: Popularity::Uniform,
        get_share,
        multiget: 1,
        memory_mb: run.by_scale([64, 256, 5_120, 5_120]),
        misses: None,
    };
    let loads = [(READS, load(1.0)), (WRITES, load(0.0))];
    let measured = OverWorkers::measure(run, rounds, &KINDS, &loads)?;
    let mut report = measured.report(experiment, run);
    report.settings = settings(&loads[0].1, rounds);
    let beside = [Kind::Aware, Kind::Memcached];
    report.claims = vec![
        measured.more_claim(READS, beside, "above 2.3 (by Mercury, 6 workers)", 1.0),
        measured.more_claim(WRITES, beside, "about 12 (8 workers)", 1.0),
        measured.scaling_claim(READS, Kind::Aware, "about 1", SCALES),
        measured.scaling_claim(WRITES, Kind::Aware, "about 1", SCALES),
    ];
    report.note("The paper's workers make their own load without a network. Here requests come by loopback, 64 in flight on each \
         connection, and the system's part is in every figure: ratios are nearer to one than the paper's.");
    report.note(
        "Of the paper's variants there is neither Mercury nor a switch for memory of NUMA nodes.",
    );
    Ok(report)
}
