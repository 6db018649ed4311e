//! Figure 7: what replication does to reads (a) and to writes (b), each with latencies of its own.

use super::Experiment;
use crate::args::Mode;
use crate::experiments::curves::measure::Found;
use crate::experiments::curves::report::{Latencies, Measured};
use crate::experiments::curves::setting::{SERVERS, Setting};
use crate::experiments::curves::size::Size;
use crate::report::{Claim, Report};
use crate::run::Run;
use crate::simulated::Fidelity;
use crate::trial::{Trial, mean};

pub(in crate::experiments) const FIGURE_7: Experiment = Experiment {
    name: "spore-7",
    title: "Latency of reads and of writes, 99 % reads",
    source: "SPORE, Figure 7",
    modes: &[Mode::Real, Mode::Sim],
    run: figure_7,
};

const PLAIN: &str = "12 plain";
const REPLICATED: &str = "12 with hot keys replicated";
const IDEAL: &str = "12 by the map, uniform keys";

const ATOMIC: &str = "12 with hot keys replicated, atomic writes";

/// The fast simulation confirms a write to all copies at once: nothing is held, and the curve would be that of
/// writes that are not atomic.
const ATOMIC_LEFT_OUT: &str = "The paper's third curve, SE-SPORE, is measured on real servers and with --fidelity whole: \
     the fast simulation can hold no answers back.";

/// Atomic writes are said to be up to this many times slower than others.
const ATOMIC_SLOWER_MAX: f64 = 2.0;

/// Latencies are compared at this part of the capacity, where a plain pool has a hotspot.
const COMPARED_AT: f64 = 0.6;

fn figure_7(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size::of(run);
    let mut settings = vec![
        (PLAIN, Setting::plain(SERVERS)),
        (REPLICATED, Setting::replicated(SERVERS)),
        (IDEAL, Setting::ideal(SERVERS)),
    ];
    let has_atomic = holds_answers(run);
    if has_atomic {
        settings.insert(2, (ATOMIC, Setting::atomic(SERVERS)));
    }
    let measured = Measured::new(run, &size, Latencies::ReadsAndWrites, IDEAL, &settings)?;
    let mut report = measured.report(experiment, run);
    let gain = measured.ratio(REPLICATED, PLAIN);
    let compared = |what: &str, p90_us: P90Us| {
        let [plain, replicated] =
            [PLAIN, REPLICATED].map(|label| ms(measured.of(label), &size, p90_us));
        Claim::new(
            &format!(
                "90th percentile of {what} at {:.0} % of the capacity, plain and with replication",
                COMPARED_AT * 100.0
            ),
            "lower with replication",
            format!("{plain:.1} ms and {replicated:.1} ms"),
            Some(replicated < plain),
        )
    };
    report.claims = vec![
        Claim::new(
            "replication carries more than plain servers",
            "more",
            format!("{gain:.2} times as much"),
            Some(gain > 1.0),
        ),
        compared("reads", |trial| trial.reads.latency_us_p90),
        compared("writes", |trial| trial.writes.latency_us_p90),
        measured.efficiency_claim("with replication", REPLICATED, "", None),
    ];
    if has_atomic {
        report.claims.extend(atomic_claims(&measured, &size));
    } else {
        report.note(ATOMIC_LEFT_OUT);
    }
    Ok(report)
}

/// Whether servers of this run can hold answers back, as atomic writes need it.
fn holds_answers(run: &Run) -> bool {
    run.mode == Mode::Real || run.fidelity == Fidelity::Whole
}

/// A 90th percentile of a trial, in microseconds.
type P90Us = fn(&Trial) -> f64;

/// A latency of a setting where latencies are compared, in milliseconds.
fn ms(found: &Found, size: &Size, p90_us: P90Us) -> f64 {
    mean(&found.at(size, COMPARED_AT), p90_us) / 1000.0
}

/// What the paper says of SE-SPORE (section 5.1.2).
fn atomic_claims(measured: &Measured<'_>, size: &Size) -> [Claim; 4] {
    let gain = measured.ratio(ATOMIC, PLAIN);
    let beside = measured.ratio(ATOMIC, REPLICATED);
    let p90: P90Us = |trial| trial.writes.latency_us_p90;
    let [lease, atomic] = [REPLICATED, ATOMIC].map(|label| ms(measured.of(label), size, p90));
    [
        Claim::new(
            "atomic writes: replication carries more than plain servers",
            "more",
            format!("{gain:.2} times as much"),
            Some(gain > 1.0),
        ),
        Claim::new(
            "atomic writes beside writes that are not",
            "less",
            format!("{beside:.2} times as much"),
            None,
        ),
        Claim::new(
            &format!(
                "90th percentile of writes at {:.0} % of the capacity, not atomic and atomic",
                COMPARED_AT * 100.0
            ),
            "at most two times slower, not clearly visible",
            format!("{lease:.1} ms and {atomic:.1} ms"),
            Some(atomic <= ATOMIC_SLOWER_MAX * lease),
        ),
        measured.efficiency_claim("with atomic writes", ATOMIC, "", None),
    ]
}
