//! Where the load of a hot key goes: which of its copies is read. What ships beside the paper's way, with the same
//! copies at the same places.

use super::Experiment;
use crate::args::Mode;
use crate::experiments::curves::measure::Found;
use crate::experiments::curves::report::{Latencies, Measured};
use crate::experiments::curves::setting::{SERVERS, Setting};
use crate::experiments::curves::size::Size;
use crate::report::{Claim, Report};
use crate::run::Run;
use crate::simulated::Fidelity;
use crate::trial::mean;
use evenkeel_sim::load::ReadChoice;

pub(in crate::experiments) const PLACEMENT: Experiment = Experiment {
    name: "hot-placement",
    title: "Which copy of a hot key is read: a sticky one, as in the paper, and what ships",
    source: "Evenkeel; SPORE, section 3.2",
    modes: &[Mode::Sim],
    run: placement,
};

const OFF: &str = "hot keys off";
const STICKY: &str = "a copy for each client and lease (the paper)";
const SHIPPED: &str = "guarded by versions, less burdened of two shadows (as shipped)";
const IDEAL: &str = "uniform keys";

/// Latencies are compared at this part of the capacity.
const COMPARED_AT: f64 = 0.7;

fn placement(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size {
        // The paper's way is not of what ships, which is what the whole mode simulates.
        fidelity: Fidelity::Fast,
        ..Size::of(run)
    };
    let by = |choice| Setting::replicated(SERVERS).reads(choice);
    let measured = Measured::new(
        run,
        &size,
        Latencies::Together,
        IDEAL,
        &[
            (OFF, Setting::unreplicated(SERVERS)),
            (STICKY, by(ReadChoice::Sticky)),
            (SHIPPED, by(ReadChoice::Guarded)),
            (IDEAL, Setting::ideal(SERVERS)),
        ],
    )?;
    let mut report = measured.report(experiment, run);
    let p99_ms = |found: &Found| {
        let trials = found.at(&size, COMPARED_AT);
        mean(&trials, |trial| trial.latency.latency_us_p99) / 1000.0
    };
    for label in [OFF, STICKY, SHIPPED] {
        let claim = measured.efficiency_claim(&format!("of {label}"), label, "", None);
        report.claims.push(claim);
    }
    let ratio = measured.ratio(SHIPPED, STICKY);
    report.claims.push(Claim::new(
        &format!("what ships by {STICKY}"),
        "ours: at least 1",
        format!("{ratio:.2} times as much"),
        Some(ratio >= 1.0),
    ));
    let (ours, theirs) = (p99_ms(measured.of(SHIPPED)), p99_ms(measured.of(STICKY)));
    report.claims.push(Claim::new(
        &format!(
            "99th percentile at {:.0} % of the capacity, what ships and {STICKY}",
            COMPARED_AT * 100.0
        ),
        "ours: not higher",
        format!("{ours:.1} ms and {theirs:.1} ms"),
        Some(ours <= theirs),
    ));
    report.note(
        "Both have the same copies at the same places. There is no near cache to compare with.",
    );
    Ok(report)
}
