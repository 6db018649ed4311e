//! Figure 6: a cache that is smaller than what is asked for, so that misses and writes never end.

use super::machine::{Kind, Load, Rounds};
use super::over_workers::{OverWorkers, settings};
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::report::Report;
use crate::run::Run;
use evenkeel_workload::Popularity;

pub(in crate::experiments) const FIGURE_6: Experiment = Experiment {
    name: "mbal-6",
    title: "A cache that is too small, over its workers: memory of each worker beside one list for all",
    source: "MBal, Figure 6",
    modes: &[Mode::Real],
    run: figure_6,
};

/// Memory of each worker (Evenkeel), one for all threads (memcached), and one for each of several processes.
const KINDS: [Kind; 3] = [Kind::Aware, Kind::Memcached, Kind::Memcacheds];

const LABEL: &str = "GET, and a SET for each miss";

/// Keys that fill each megabyte of memory for certain: key and value are 30 bytes.
const KEYS_PER_MB: u64 = 35_000;

/// The paper's share of gets that miss.
const MISSES: f64 = 0.15;

const SCALES: f64 = 0.9;

fn figure_6(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let rounds = Rounds::of(run);
    let memory_mb = run.by_scale([16, 16, 1_024, 1_024]);
    let load = Load {
        keys: KEYS_PER_MB * memory_mb as u64,
        key_len: 10,
        value_len: 20,
        popularity: Popularity::Uniform,
        get_share: 1.0,
        multiget: 1,
        memory_mb,
        misses: Some(MISSES),
    };
    let loads = [(LABEL, load)];
    let measured = OverWorkers::measure(run, rounds, &KINDS, &loads)?;
    let mut report = measured.report(experiment, run);
    report.settings = settings(&loads[0].1, rounds);
    report.claims = vec![
        measured.more_claim(LABEL, [Kind::Aware, Kind::Memcached], "about 10", 1.0),
        measured.scaling_claim(LABEL, Kind::Aware, "about 1", SCALES),
    ];
    report.note("The paper's fourth variant, MBal with one list of all items, does not exist here: a worker's items are its own. \
         memcached's threads share their lists, and single-threaded memcacheds share nothing, which are the two ends of \
         the same comparison.");
    report.note("All have the same memory, and each is asked for so many keys that it misses about 15 %: who keeps items in less \
         memory, for more.");
    Ok(report)
}
