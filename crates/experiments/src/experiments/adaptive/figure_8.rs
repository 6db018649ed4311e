//! Adaptive hashing, Figure 8: three servers of which one is asked for 2.5 times as often as the others, planned by
//! misses, by use, and by both; the measured planner beside it. And how many slots the paper's planner takes.

use super::pages::Pages;
use super::slots::{Slot, Slots};
use super::{DIVIDED, Experiment, SKEW, convergence, deviation, one_circuit, paper};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use evenkeel_balance::mean;
use evenkeel_balance::ring::{CostSettings, Costs, Measured, RingPlanner};
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_placement::ring::Ring;

pub(in crate::experiments) const FIGURE_8: Experiment = Experiment {
    name: "adaptive-8",
    title: "What three unequal servers are asked for, slot by slot",
    source: "Adaptive hashing, Figure 8",
    modes: &[Mode::Sim],
    run: figure_8,
};

const PAGES: usize = 20_000;
const EXPONENT: f64 = 0.8;
const BETA: f64 = 0.01;

/// The caches by what a third of all pages takes. The third is half as large, and misses more.
const CACHES: [f64; 3] = [0.5, 0.5, 0.25];

/// Slots in which the caches fill, before anything is planned.
const WARM_UP: usize = 20;

/// Slots over which the end is averaged.
const JUDGED: usize = 10;

/// Slots that the measured planner has to divide the deviation by ten.
const MEASURED_SLOTS: usize = 20;

fn figure_8(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let slots = run.by_scale([60, 400, 600, 2_000]);
    let requests = run.by_scale([2_000, 20_000, 50_000, 200_000]);
    let mut report = run.report(experiment);
    report.settings = vec![
        ("servers", "3, adjacent once in each order".into()),
        ("slots", format!("{slots} of {requests} requests")),
        ("pages", format!("{PAGES} of Zipf {EXPONENT}")),
        ("caches by a third of all pages", format!("{CACHES:?}")),
    ];
    let mut pages = Pages::new(run, PAGES, EXPONENT, &mut report.notes)?;
    pages.skew(&one_circuit(3)?, &[SKEW, 1.0, 1.0]);
    let mut table = Table::new(
        &format!(
            "The first slot, and means over the last {JUDGED}; deviations are standard deviations by means"
        ),
        "planner|rates: at first|in the end|divided by|hit rates: at first|in the end|their deviation: at first|in the end|costs: at first|in the end|space moved %",
    );
    let mut curves = Vec::new();
    let mut planners: Vec<(String, f64, Box<dyn RingPlanner>)> = Vec::new();
    for alpha in [0.0, 0.5, 1.0] {
        planners.push((
            format!("paper, α = {alpha}"),
            alpha,
            Box::new(paper(alpha, BETA)?),
        ));
    }
    planners.push(("measured".to_owned(), 0.0, Box::new(Measured::default())));
    for (name, alpha, mut planner) in planners {
        run.progress.say(name.clone());
        let seen = Seen::new(run, pages.clone(), planner.as_mut(), alpha, slots, requests)?;
        let [rates, hits, costs] = [&seen.rates, &seen.hits, &seen.costs].map(|of| Ends::of(of));
        let moved: f64 = seen.slots.iter().map(|slot| slot.moved).sum();
        table.row([
            name.clone(),
            format!("{:.3}", rates.first),
            format!("{:.3}", rates.last),
            format!("{:.1}", rates.divided()),
            shown(&seen.slots[0]),
            shown(&seen.slots[slots - 1]),
            format!("{:.3}", hits.first),
            format!("{:.3}", hits.last),
            format!("{:.3}", costs.first),
            format!("{:.3}", costs.last),
            format!("{:.1}", moved * 100.0),
        ]);
        report
            .claims
            .extend(seen.claim(&name, [&rates, &hits, &costs]));
        let points = seen.rates.iter().enumerate();
        let points = points.map(|(slot, &off)| (slot as f64, off));
        curves.push(Curve::new(name, points.collect()));
    }
    report.tables.push(table);
    report.plots.push(Plot {
        name: run.plot_name(experiment),
        title: "Deviation of the servers' request rates".into(),
        x: Axis::linear("slot"),
        y: Axis::linear("standard deviation by mean"),
        curves,
    });
    converging(run, &mut report)?;
    report.note(
        "A move is one of hash space alone (the paper's cheap way): what moves is cold. Rates are gets and sets. The paper does \
         not say what its 0.77 is a deviation of; ours is by the mean.",
    );
    Ok(report)
}

/// A run of slots, and the deviations of the servers in each.
struct Seen {
    slots: Vec<Slot>,
    rates: Vec<f64>,
    hits: Vec<f64>,
    costs: Vec<f64>,
}

impl Seen {
    fn new(
        run: &Run,
        pages: Pages,
        planner: &mut dyn RingPlanner,
        alpha: f64,
        slots: usize,
        requests: usize,
    ) -> anyhow::Result<Seen> {
        let third = pages.sizes.iter().map(|&size| f64::from(size)).sum::<f64>() / 3.0;
        let caches = CACHES.map(|part| (third * part) as u64);
        let mut model = Slots::new(one_circuit(3)?, pages, &caches, requests, run.seed);
        for _ in 0..WARM_UP {
            model.serve();
        }
        let mut costs = Costs::new(CostSettings {
            alpha,
            ..CostSettings::default()
        })?;
        let mut seen = Seen {
            slots: Vec::with_capacity(slots),
            rates: Vec::new(),
            hits: Vec::new(),
            costs: Vec::new(),
        };
        for _ in 0..slots {
            let slot = model.step(planner)?;
            seen.rates.push(deviation(&slot.rates()));
            seen.hits.push(deviation(&slot.hit_rates()));
            seen.costs.push(deviation(&costs.after(&slot.servers)));
            seen.slots.push(slot);
        }
        Ok(seen)
    }

    /// What the paper says of a planner, and what came of it; `ends` are those of rates, hit rates and costs.
    fn claim(&self, name: &str, ends: [&Ends; 3]) -> Vec<Claim> {
        let [rates, hits, costs] = ends;
        let told = |ends: &Ends| format!("{:.3} to {:.3}", ends.first, ends.last);
        let falls = |ends: &Ends| Some(ends.last < ends.first);
        match name {
            "paper, α = 0" => vec![Claim::new(
                "α = 0: deviation of request rates",
                "0.77 to 0.09: divided by 8.5",
                format!("{}: by {:.1}", told(rates), rates.divided()),
                Some(rates.divided() >= DIVIDED),
            )],
            "paper, α = 1" => vec![Claim::new(
                "α = 1: deviation of hit rates",
                "falls",
                told(hits),
                falls(hits),
            )],
            "paper, α = 0.5" => vec![Claim::new(
                "α = 0.5: deviation of costs",
                "falls",
                told(costs),
                falls(costs),
            )],
            _ => {
                let until = &self.rates[..MEASURED_SLOTS.min(self.rates.len())];
                let last = mean(&until[until.len().saturating_sub(JUDGED)..]);
                vec![Claim::new(
                    &format!(
                        "measured: deviation of request rates within {MEASURED_SLOTS} slots, mean of the last {JUDGED} of them"
                    ),
                    "ours: divided by 10",
                    format!(
                        "{:.3} to {last:.3}: by {:.1}",
                        rates.first,
                        rates.first / last
                    ),
                    Some(last * 10.0 <= rates.first),
                )]
            }
        }
    }
}

/// The first, and the mean of the last.
struct Ends {
    first: f64,
    last: f64,
}

impl Ends {
    fn of(numbers: &[f64]) -> Ends {
        let judged = JUDGED.min(numbers.len());
        Ends {
            // Of the first alone: the measured planner has done much of its work within ten slots.
            first: numbers[0],
            last: mean(&numbers[numbers.len() - judged..]),
        }
    }

    fn divided(&self) -> f64 {
        self.first / self.last
    }
}

fn shown(slot: &Slot) -> String {
    let rates: Vec<String> = slot
        .hit_rates()
        .iter()
        .map(|rate| format!("{rate:.2}"))
        .collect();
    rates.join(" ")
}

/// Slots that the paper's planner takes where nothing is random: with 3, 5 and 20 servers that are adjacent once in each order,
/// and with the paper's virtual nodes.
fn converging(run: &Run, report: &mut Report) -> anyhow::Result<()> {
    let mut table = Table::new(
        "Slots of the paper's planner (α = 0, β = 0.01) where each hash of the first server is asked for 2.5 times as often, and nothing is random",
        "servers|slices of each|busiest within 1.05 of the mean|deviation divided by 8.5",
    );
    let slots_max = run.by_scale([500, 60_000, 60_000, 200_000]);
    let shown = |slots: Option<u32>| match slots {
        Some(slots) => slots.to_string(),
        None => format!("more than {slots_max}"),
    };
    for (servers, expected) in [(3, 340), (5, 930), (20, 5_900)] {
        for virtual_nodes in [1, Ring::VIRTUAL_NODES] {
            let each = Ring::even(servers, virtual_nodes)?.slices().len() / servers;
            run.progress
                .say(format!("{servers} servers of {each} slices"));
            let found = convergence::converged(servers, virtual_nodes, slots_max)?;
            table.row([
                servers.to_string(),
                each.to_string(),
                shown(found.even),
                shown(found.divided),
            ]);
            if virtual_nodes == 1 {
                let near = |slots: u32| slots.abs_diff(expected) * 20 <= expected;
                report.claims.push(Claim::new(
                    &format!(
                        "{servers} servers, adjacent once: slots until within 1.05 of the mean"
                    ),
                    &format!("not told; by its rules about {expected}"),
                    shown(found.even),
                    Some(found.even.is_some_and(near)),
                ));
            }
        }
    }
    report.tables.push(table);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Scale;

    #[test]
    fn the_measured_planner_is_quicker_than_the_papers() {
        let run = Run::silent(Scale::Quick, Mode::Sim);
        let mut pages = Pages::new(&run, 3_000, EXPONENT, &mut Vec::new()).unwrap();
        pages.skew(&one_circuit(3).unwrap(), &[SKEW, 1.0, 1.0]);
        let last = |planner: &mut dyn RingPlanner| {
            let seen = Seen::new(&run, pages.clone(), planner, 0.0, 30, 5_000).unwrap();
            Ends::of(&seen.rates).last
        };
        let (by_paper, measured) = (
            last(&mut paper(0.0, BETA).unwrap()),
            last(&mut Measured::default()),
        );
        assert!(measured < 0.5 * by_paper, "{measured} {by_paper}");
    }
}
