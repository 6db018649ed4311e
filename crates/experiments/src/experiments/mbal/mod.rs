//! MBal (Cheng, Gupta and Butt, EuroSys 2015): servers of workers that share nothing, and load that is kept even in
//! three phases.
//!
//! - [`machine`]: Figures 5 to 9, one machine at full speed beside memcached.
//! - [`curves`](super::curves): Figures 2, 10 and 11, small servers of a cluster; [`phases`] are its settings.
//! - [`story`]: Figures 12 and 13, such a cluster over time.
//! - [`targets`]: what all of it is to reach.

mod figure_10;
mod figure_12;
mod figure_2;
mod figure_5;
mod figure_6;
mod figure_7;
mod figure_8;
mod figure_9;
mod machine;
mod over_workers;
mod phases;
mod planning;
mod story;
mod story_sim;
mod targets;
mod targets_sim;
mod workloads;

pub(super) use figure_2::FIGURE_2;
pub(super) use figure_5::FIGURE_5;
pub(super) use figure_6::FIGURE_6;
pub(super) use figure_7::FIGURE_7;
pub(super) use figure_8::FIGURE_8;
pub(super) use figure_9::FIGURE_9;
pub(super) use figure_10::{FIGURE_10, FIGURE_11};
pub(super) use figure_12::{FIGURE_12, FIGURE_13};
pub(super) use targets::TARGETS;

use crate::args::{Mode, Scale};
use crate::experiments::curves::setting::{Setting, Workers};
use crate::experiments::curves::size::{Size, is_small_and_real};
use crate::run::Run;
use crate::small;
use std::time::Duration;

/// Lengths of keys and values of the paper's cluster (section 4.2.1), in bytes.
const KEY_LEN: usize = 24;
const VALUE_LEN: usize = 64;

/// Processors of the paper's cache servers (c3.large), and so their workers.
const WORKERS: u16 = 2;

/// The share of gets that its clients ask for.
const GET_SHARE: f64 = 0.95;

/// Memcacheds of two threads, of which any serves any key.
fn memcacheds(servers: usize) -> Setting {
    Setting::plain(servers)
        .workers(Workers::Shared(WORKERS))
        .get_share(GET_SHARE)
}

/// How large a cluster is whose servers can do this many requests a second; `small` is how it is measured on real servers at
/// the small scale.
fn size(run: &Run, capacity_real: u64, small: impl FnOnce(Size) -> Size) -> Size {
    let size = Size {
        key_len: KEY_LEN,
        value_len: VALUE_LEN,
        ..Size::of(run)
    };
    if run.mode == Mode::Sim {
        return simulated(run, size);
    }
    let size = Size {
        capacity: capacity_real,
        ..size
    };
    match is_small_and_real(run) {
        true => small(size),
        false => size,
    }
}

/// Time for simulated servers to even out their load before anything is measured: a coordinator makes a plan in
/// fourteen seconds, none of which copies more than a hundredth of the data.
const WARM_UP_SIMULATED: Duration = Duration::from_secs(60);

/// Simulated servers at the scale beyond are many rather than fast.
fn simulated(run: &Run, size: Size) -> Size {
    match run.scale {
        Scale::Quick => size,
        Scale::Small | Scale::Paper => Size {
            warm_up: WARM_UP_SIMULATED,
            ..size
        },
        Scale::Beyond => Size {
            keys: 5_000_000,
            capacity: small::CAPACITY,
            names: 1,
            warm_up: WARM_UP_SIMULATED,
            duration: Duration::from_secs(10),
            rates: &[0.2, 0.4, 0.6, 0.8],
            precision: 0.05,
            ..size
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Mode, Scale};
    use crate::run::Run;

    /// Virtual time is the same on every machine: what holds here always does.
    #[test]
    fn skewed_keys_cost_a_plain_cluster_what_the_paper_says() {
        let run = Run::silent(Scale::Quick, Mode::Sim);
        let report = (FIGURE_2.run)(&FIGURE_2, &run).expect("it can be simulated");
        println!("{}", report.to_text());
        assert_eq!(report.claims.len(), 2);
        for claim in &report.claims {
            assert_eq!(claim.holds, Some(true), "{}: {}", claim.what, claim.ours);
        }
        for plot in &report.plots {
            evenkeel_bench::plot::to_svg(plot).expect("it can be drawn");
        }
    }

    fn told(experiment: &crate::experiments::Experiment) -> crate::report::Report {
        let run = Run::silent(Scale::Quick, Mode::Sim);
        let report = (experiment.run)(experiment, &run).expect("it can be simulated");
        println!("{}", report.to_text());
        report
    }

    /// Whether the claim that begins so holds.
    fn holds(report: &crate::report::Report, what: &str) -> Option<bool> {
        let claim = report
            .claims
            .iter()
            .find(|claim| claim.what.starts_with(what));
        claim.expect("it is claimed").holds
    }

    /// The busiest key is more than one worker of forty can serve, so that replicas of it help most.
    #[test]
    fn phases_1_and_2_alone_are_worth_what_the_paper_says_and_replicas_more() {
        let report = told(&FIGURE_10);
        for phase in ["phase 1", "phase 2"] {
            let throughput = holds(&report, &format!("throughput with {phase} alone"));
            let reads = holds(
                &report,
                &format!("99th percentile of reads with {phase} alone"),
            );
            assert_eq!((throughput, reads), (Some(true), Some(true)), "{phase}");
        }
    }

    #[test]
    fn all_phases_lower_the_90th_percentile_of_each_workload() {
        let report = told(&FIGURE_12);
        assert_eq!(report.claims.len(), 4);
        for claim in &report.claims {
            assert_eq!(claim.holds, Some(true), "{}: {}", claim.what, claim.ours);
        }
    }

    /// Many keys are warm in B: cachelets have to move. Where nobody moves them the load stays as it is.
    #[test]
    fn workload_b_is_even_within_ten_seconds_with_all_phases_and_never_without() {
        let run = Run::silent(Scale::Quick, Mode::Sim);
        let size = phases::size(&run);
        let all = phases::all(phases::servers(&run));
        let of = |label, setting: &Setting| {
            let told = story::tell(&run, &size, label, setting).expect("it can be simulated");
            told.parts[1].even_in(1.2)
        };
        let even_in = of(phases::ALL, &all);
        assert!(
            even_in.is_some_and(|seconds| seconds <= 10.0),
            "{even_in:?}"
        );
        assert_eq!(of(phases::OFF, &all.resting()), None);
    }
}
