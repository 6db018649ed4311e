//! Adaptive hashing, Figure 10: how much hash space moves in a slot for different β, and what happens when a small part of
//! it that is very popular changes hands.

use super::pages::Pages;
use super::slots::{Slot, Slots};
use super::{DIVIDED, Experiment, SKEW, deviation, one_circuit, paper};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use anyhow::Context;
use evenkeel_balance::mean;
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_placement::ring::{Part, Ring};

pub(in crate::experiments) const FIGURE_10: Experiment = Experiment {
    name: "adaptive-10",
    title: "The hash space that moves in a slot",
    source: "Adaptive hashing, Figure 10",
    modes: &[Mode::Sim],
    run: figure_10,
};

const BETAS: [f64; 4] = [0.01, 0.05, 0.2, 1.0];
const PAGES: usize = 20_000;
const EXPONENT: f64 = 0.6;

/// The popular region: this many pages side by side, so far into the run of the busy server behind the next one, this part of all
/// requests.
const CROWD_PAGES: u32 = 16;
const CROWD_AT: f64 = 0.5;
const CROWD_SHARE: f64 = 0.2;

/// Slots over which what moves is averaged before the region does.
const BEFORE: usize = 10;

fn figure_10(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let slots = run.by_scale([80, 800, 800, 2_000]);
    let requests = run.by_scale([2_000, 20_000, 50_000, 200_000]);
    let mut report = run.report(experiment);
    report.settings = vec![
        ("servers", "3, adjacent once in each order".into()),
        ("slots", format!("{slots} of {requests} requests")),
        ("pages", format!("{PAGES} of Zipf {EXPONENT}")),
        (
            "popular region",
            format!(
                "{CROWD_PAGES} pages side by side with {:.0} % of the requests",
                CROWD_SHARE * 100.0
            ),
        ),
        ("α", "0".into()),
    ];
    let mut pages = Pages::new(run, PAGES, EXPONENT, &mut report.notes)?;
    let ring = one_circuit(3)?;
    pages.skew(&ring, &[SKEW, 1.0, 1.0]);
    let crowd = region(&ring)?;
    pages.crowd(crowd, CROWD_PAGES, CROWD_SHARE);
    let mut table = Table::new(
        "Space that moves in a slot, in % of the ring",
        "β|first slot|mean|most|slots until the deviation is the 8.5th|deviation in the end|the region moves after slot|mean of ten slots before|the slot after|jump",
    );
    let mut curves = Vec::new();
    for beta in BETAS {
        run.progress.say(format!("β = {beta}"));
        let cache = u64::MAX;
        let mut model = Slots::new(ring.clone(), pages.clone(), &[cache; 3], requests, run.seed);
        let mut planner = paper(0.0, beta)?;
        let (mut seen, mut crossed): (Vec<Slot>, Option<usize>) = (Vec::new(), None);
        // Full caches, so that what is counted is asked for and not filled.
        model.serve();
        for slot in 0..slots {
            let owner = model.ring.owner(crowd.first);
            seen.push(model.step(&mut planner)?);
            if crossed.is_none() && model.ring.owner(crowd.first) != owner {
                crossed = Some(slot);
            }
        }
        let moved: Vec<f64> = seen.iter().map(|slot| slot.moved * 100.0).collect();
        let off: Vec<f64> = seen.iter().map(|slot| deviation(&slot.rates())).collect();
        let reached = off.iter().position(|&now| now * DIVIDED <= off[0]);
        let jump = crossed.map(|slot| jump(&moved, slot));
        let number = |found: Option<String>| found.unwrap_or("–".to_owned());
        table.row([
            beta.to_string(),
            format!("{:.4}", moved[0]),
            format!("{:.4}", mean(&moved)),
            format!("{:.4}", moved.iter().copied().fold(0.0, f64::max)),
            number(reached.map(|slot| slot.to_string())),
            format!("{:.3}", mean(&off[off.len().saturating_sub(20)..])),
            number(crossed.map(|slot| slot.to_string())),
            number(jump.map(|(before, _)| format!("{before:.4}"))),
            number(jump.map(|(_, after)| format!("{after:.4}"))),
            number(jump.map(|(before, after)| format!("{:.1}", after / before))),
        ]);
        if beta == BETAS[0] {
            report.claims.push(Claim::new(
                "β = 0.01: what moves in the slot after a popular region did, by what moved before",
                "a larger amount",
                number(jump.map(|(before, after)| format!("{:.1} times", after / before))),
                Some(jump.is_some_and(|(before, after)| after > before)),
            ));
        }
        let points = moved
            .iter()
            .enumerate()
            .map(|(slot, &part)| (slot as f64, part));
        curves.push(Curve::new(format!("β = {beta}"), points.collect()));
    }
    report.tables.push(table);
    report.plots.push(Plot {
        name: run.plot_name(experiment),
        title: experiment.title.into(),
        x: Axis::linear("slot"),
        y: Axis::linear("% of the ring"),
        curves,
    });
    report.note("Caches hold everything. The region is put where the border comes by; in the paper it was there by chance.");
    Ok(report)
}

/// Where the popular pages are: in a run of the busy server, some way in.
fn region(ring: &Ring) -> anyhow::Result<Part> {
    let runs = ring.runs();
    let run = runs.iter().find(|run| (run.owner, run.behind) == (0, 1));
    let run = run.context("no place where the first server can give to the second")?;
    let first = run.first.wrapping_add((run.width as f64 * CROWD_AT) as u32);
    Ok(Part {
        first,
        last: first.wrapping_add(CROWD_PAGES - 1),
    })
}

/// What moved on average before a slot behind which the region did, and behind the next.
fn jump(moved: &[f64], slot: usize) -> (f64, f64) {
    let before = &moved[slot.saturating_sub(BEFORE)..=slot];
    (mean(before), moved.get(slot + 1).copied().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_lies_with_the_busy_server() {
        let ring = one_circuit(3).unwrap();
        let part = region(&ring).unwrap();
        assert_eq!((ring.owner(part.first), ring.owner(part.last)), (0, 0));
    }

    #[test]
    fn a_jump_is_told_beside_what_moved_before() {
        let mut moved = vec![0.5; 20];
        moved[13] = 2.0;
        assert_eq!(jump(&moved, 12), (0.5, 2.0));
        assert_eq!(jump(&moved, 19).1, 0.0);
    }
}
