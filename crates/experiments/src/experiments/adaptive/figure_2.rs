//! Adaptive hashing, Figure 2: how many pages each of 100 servers gets by consistent hashing.

use super::pages::Pages;
use super::{Experiment, config};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use anyhow::Context;
use evenkeel_balance::mean;
use evenkeel_balance::ring::{GrainCounts, Measured, RingPlanner, SlotReport};
use evenkeel_placement::config::Distribution;
use evenkeel_placement::ring::{Grain, Ring, grain_of};

pub(in crate::experiments) const FIGURE_2: Experiment = Experiment {
    name: "adaptive-2",
    title: "Pages and load of 100 servers by consistent hashing, and once the ring has followed the load",
    source: "Adaptive hashing, Figure 2",
    modes: &[Mode::Sim],
    run: figure_2,
};

const SERVERS: usize = 100;
const PAGES: usize = 20_000;

/// Popularity of pages where they are not alike.
const EXPONENT: f64 = 0.99;

/// Requests of a slot that the loads of grains are taken as parts of: large, so that rounding does not count.
const REQUESTS: f64 = 1e9;

fn figure_2(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let slots = run.by_scale([10, 200, 200, 1_000]);
    let mut report = run.report(experiment);
    report.settings = vec![
        ("servers", SERVERS.to_string()),
        ("pages", PAGES.to_string()),
        ("slots of the measured planner", slots.to_string()),
    ];
    let alike = Pages::new(run, PAGES, 0.0, &mut report.notes)?;
    let skewed = Pages {
        weights: Pages::new(run, PAGES, EXPONENT, &mut Vec::new())?.weights,
        ..alike.clone()
    };
    let mut table = Table::new(
        "Pages of a server",
        "placement|least|mean|most|most by least",
    );
    let rings = [
        (
            "ketama",
            Ring::adopt(&config(Distribution::Ketama, SERVERS))?,
        ),
        (
            "ketama_weighted",
            Ring::adopt(&config(Distribution::KetamaWeighted, SERVERS))?,
        ),
        ("even", Ring::even(SERVERS, Ring::VIRTUAL_NODES)?),
    ];
    for (name, ring) in &rings {
        let counts = loads(ring, &alike, |_| 1.0);
        let (least, most) = ends(&counts);
        table.row([
            (*name).to_owned(),
            format!("{least:.0}"),
            format!("{:.0}", mean(&counts)),
            format!("{most:.0}"),
            format!("{:.1}", most / least.max(1.0)),
        ]);
        if *name == "ketama" {
            report.claims.push(Claim::new(
                "pages of the fullest and the emptiest of 100 servers",
                "659 and 42",
                format!("{most:.0} and {least:.0}"),
                None,
            ));
        }
    }
    report.tables.push(table);
    let mut table = Table::new(
        "The measured planner, from ketama_weighted on: the busiest server by the mean",
        "pages|at first|in the end|slots until 1.1|grains moved|space moved %|the heaviest grain by the mean",
    );
    for (name, pages) in [("all alike", &alike), ("Zipf 0.99", &skewed)] {
        run.progress.say(name);
        let adopted = Ring::adopt(&config(Distribution::KetamaWeighted, SERVERS))?;
        let found = even_out(adopted, pages, slots)?;
        table.row([
            name.to_owned(),
            format!("{:.2}", found.before),
            format!("{:.2}", found.after),
            found
                .slots
                .map_or("not reached".to_owned(), |slots| slots.to_string()),
            found.grains.to_string(),
            format!("{:.1}", found.space * 100.0),
            format!("{:.2}", found.heaviest),
        ]);
        let goal = found.heaviest.max(1.1);
        report.claims.push(Claim::new(
            &format!("pages {name}: the busiest server by the mean, measured planner"),
            &format!("ours: within {goal:.2}"),
            format!("{:.2}", found.after),
            Some(found.after <= goal + 1e-9),
        ));
    }
    report.tables.push(table);
    report.note(
        "Moving cannot bring a server below its heaviest grain, which has a page or a few: where that alone is more than 1.1 times the mean, it is the goal.",
    );
    Ok(report)
}

/// What each server has of something of pages.
fn loads(ring: &Ring, pages: &Pages, of: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut loads = vec![0.0; ring.servers()];
    for (page, &hash) in pages.hashes.iter().enumerate() {
        loads[usize::from(ring.owner(hash))] += of(page);
    }
    loads
}

fn ends(loads: &[f64]) -> (f64, f64) {
    let least = loads.iter().copied().fold(f64::INFINITY, f64::min);
    (least, loads.iter().copied().fold(0.0, f64::max))
}

/// What the measured planner came to.
struct Evened {
    before: f64,
    after: f64,
    /// Until the busiest was within 1.1 of the mean.
    slots: Option<u32>,
    grains: usize,
    space: f64,
    /// The heaviest grain in the end, by the mean of the servers.
    heaviest: f64,
}

/// Slots in which every page is asked for by its popularity, exactly.
fn even_out(mut ring: Ring, pages: &Pages, slots: u32) -> anyhow::Result<Evened> {
    let mut planner = Measured::default();
    let max_to_mean = |ring: &Ring| {
        let loads = loads(ring, pages, |page| pages.weights[page]);
        ends(&loads).1 / mean(&loads)
    };
    let mut found = Evened {
        before: max_to_mean(&ring),
        after: 0.0,
        slots: None,
        grains: 0,
        space: 0.0,
        heaviest: 0.0,
    };
    for slot in 0..slots {
        if found.slots.is_none() && max_to_mean(&ring) <= 1.1 {
            found.slots = Some(slot);
        }
        let report = report(&ring.grains(), pages);
        let plan = planner.plan(&ring, &report).context("planning")?;
        found.grains += plan.moves.len();
        let space: u64 = plan.moves.iter().map(|of| of.part.width()).sum();
        found.space += space as f64 / evenkeel_placement::ring::HASHES as f64;
        ring = ring.moved(&plan.to_moves())?;
    }
    found.after = max_to_mean(&ring);
    let grains = report(&ring.grains(), pages).grains;
    let heaviest = grains.iter().map(|grain| grain.load).fold(0.0, f64::max);
    found.heaviest = heaviest / REQUESTS * ring.servers() as f64;
    Ok(found)
}

fn report(grains: &[Grain], pages: &Pages) -> SlotReport {
    let all: f64 = pages.weights.iter().sum();
    let mut counts = vec![GrainCounts::default(); grains.len()];
    for (&hash, weight) in pages.hashes.iter().zip(&pages.weights) {
        counts[grain_of(grains, hash)].load += weight / all * REQUESTS;
    }
    for counts in &mut counts {
        counts.gets = counts.load as u64;
        counts.hits = counts.gets;
    }
    SlotReport {
        grains: counts,
        utilization: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Scale;

    #[test]
    fn the_measured_planner_evens_out_what_ketama_leaves_uneven() {
        let run = Run::silent(Scale::Quick, Mode::Sim);
        let pages = Pages::new(&run, 5_000, 0.0, &mut Vec::new()).unwrap();
        let ring = Ring::adopt(&config(Distribution::Ketama, 10)).unwrap();
        let found = even_out(ring, &pages, 60).unwrap();
        assert!(
            found.before > 1.15 && found.after <= 1.13,
            "{} {}",
            found.before,
            found.after
        );
        assert!(found.grains > 0 && found.space > 0.0);
        assert_eq!(figure_2(&FIGURE_2, &run).unwrap().claims.len(), 3);
    }
}
