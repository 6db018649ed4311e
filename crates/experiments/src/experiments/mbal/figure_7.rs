//! Figure 7: a whole server under different shares of writes.

use super::machine::{Kind, Load, Rounds};
use super::over_workers::{OverWorkers, settings};
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::report::Report;
use crate::run::Run;
use evenkeel_workload::Popularity;

pub(in crate::experiments) const FIGURE_7: Experiment = Experiment {
    name: "mbal-7",
    title: "Gets of 100 keys and sets in different shares, over the workers of a server",
    source: "MBal, Figure 7",
    modes: &[Mode::Real],
    run: figure_7,
};

const KINDS: [Kind; 3] = [Kind::Unaware, Kind::Memcached, Kind::Memcacheds];

const MOSTLY_READS: &str = "95 % GET";
const SOME_WRITES: &str = "75 % GET";
const HALF_WRITES: &str = "50 % GET";

fn figure_7(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let rounds = Rounds::of(run);
    let load = |get_share| Load {
        keys: run.by_scale([2_000, 100_000, 8_000_000, 8_000_000]),
        key_len: 10,
        value_len: 20,
        popularity: Popularity::Zipf { exponent: 0.99 },
        get_share: of_requests(get_share),
        multiget: KEYS_OF_GET,
        memory_mb: run.by_scale([64, 256, 2_048, 2_048]),
        misses: None,
    };
    let loads = [
        (MOSTLY_READS, load(0.95)),
        (SOME_WRITES, load(0.75)),
        (HALF_WRITES, load(0.5)),
    ];
    let measured = OverWorkers::measure(run, rounds, &KINDS, &loads)?;
    let mut report = measured.report(experiment, run);
    report.settings = settings(&loads[0].1, rounds);
    let beside = [Kind::Unaware, Kind::Memcached];
    report.claims = vec![
        measured.more_claim(MOSTLY_READS, beside, "more", 1.0),
        measured.more_claim(SOME_WRITES, beside, "4.7 (8 workers)", 1.0),
        measured.more_claim(HALF_WRITES, beside, "more", 1.0),
        measured.scaling_claim(HALF_WRITES, Kind::Unaware, "about 1", SCALES),
    ];
    report.note("A get of 100 keys needs all workers of a server, and the clients here do not know whose key is whose: the worker \
         that hears it asks the others. The paper's clients split it, as Evenkeel's proxy does.");
    report.note("Mercury is not measured.");
    Ok(report)
}

/// Keys of a get, as in the paper.
const KEYS_OF_GET: u64 = 100;

const SCALES: f64 = 0.9;

/// The share of requests that are gets where this share of the keys is to be read: a get has a hundred of them.
fn of_requests(of_keys: f64) -> f64 {
    let gets = of_keys / KEYS_OF_GET as f64;
    gets / (gets + (1.0 - of_keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_keys() {
        assert_eq!(of_requests(1.0), 1.0);
        assert_eq!(of_requests(0.0), 0.0);
        // One get of a hundred keys for a hundred sets.
        assert!((of_requests(0.5) - 1.0 / 101.0).abs() < 1e-12);
    }
}
