//! Real servers under load up to their capacity and past it, whatever the keys' popularity: what is served, how fast, and
//! what happens to it when something happens.
//!
//! Everything is measured by what uniform keys carry on the same servers ([`capacity`]). A [`cell`] is one load on a fleet of
//! its own ([`measure`]), and is judged by the [`targets`]; those that a target names are measured with several seeds.
//!
//! Seeds come one after the other, each with everything that it needs: a run that is cut off has all cells with the first.

mod bound;
mod capacity;
mod cell;
mod cells;
mod checkpoint;
mod measure;
mod seen;
mod tables;
mod targets;
mod vulnerable;

use self::bound::Bound;
use self::capacity::{Capacities, Capacity};
use self::cell::{Cell, Deployment, Keys};
use self::cells::Chosen;
use self::checkpoint::Checkpoint;
use self::measure::{Size, measure};
use self::seen::Outcome;
use self::vulnerable::{TRIGGERS, Trigger, Vulnerable};
use super::{Experiment, REGISTRY_TRACE};
use crate::args::{Mode, Scale};
use crate::report::Report;
use crate::run::Run;
use crate::small::LIMIT_SERVICES;
use core::time::Duration;

pub(super) const OVERLOAD: Experiment = Experiment {
    name: "overload",
    title: "Load to the capacity and past it: hot keys, bursts, crowds, lost servers",
    source: "Evenkeel",
    modes: &[Mode::Real],
    run: overload,
};

/// What is offered where counts have to come out the same on any machine, by the sum of all servers.
const PATIENT_AT: f64 = 0.02;

/// Seeds of what a target names.
const SEEDS: u64 = 3;

/// Time of a run of which nobody has said how large it is.
const UNLESS_TOLD: Duration = Duration::from_secs(3600);

/// What is measured, and what has been.
struct Session<'r> {
    run: &'r Run,
    size: Size,
    checkpoint: Checkpoint,
    bound: Bound,
    capacities: Capacities,
    outcomes: Vec<Outcome>,
    /// Cells of which the search for vulnerable loads consists; no target is about them.
    tried: Vec<Outcome>,
    vulnerable: Vec<Vulnerable>,
}

fn overload(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    // An hour of the paper's size, unless told otherwise.
    let bounded = (!run.is_scale_told).then(|| Run {
        scale: Scale::Paper,
        ..run.clone()
    });
    let time = bounded.as_ref().map(|_| UNLESS_TOLD);
    let run = bounded.as_ref().unwrap_or(run);
    let chosen = chosen(run)?;
    let mut session = Session {
        run,
        size: Size::of(run),
        checkpoint: Checkpoint::of(run),
        bound: Bound::new(time),
        capacities: Capacities::default(),
        outcomes: Vec::new(),
        tried: Vec::new(),
        vulnerable: Vec::new(),
    };
    for number in 0..run.by_scale([1, 1, SEEDS, SEEDS]) {
        let mut cells = chosen.cells.clone();
        cells.retain(|cell| number == 0 || targets::name(cell));
        let cells = match run.scale {
            Scale::Quick => cells,
            Scale::Small | Scale::Paper | Scale::Beyond => cells::with_references(cells),
        };
        session.measure_all(&cells, &chosen.triggers, run.seed.wrapping_add(number))?;
    }
    Ok(session.report(experiment))
}

/// What is to be measured, without what it is compared with.
fn chosen(run: &Run) -> anyhow::Result<Chosen> {
    if !run.cells.is_empty() {
        return Ok(Chosen::named(&run.cells)?);
    }
    let (cells, triggers) = match run.scale {
        Scale::Quick => (cells::fewest(), Vec::new()),
        Scale::Small => (cells::few(), Vec::new()),
        Scale::Paper | Scale::Beyond => (cells::all(), TRIGGERS.to_vec()),
    };
    Ok(Chosen { cells, triggers })
}

impl Session<'_> {
    /// Everything with one seed: first what others are told by, last the capacities that only other deployments have.
    fn measure_all(
        &mut self,
        cells: &[Cell],
        triggers: &[Trigger],
        seed: u64,
    ) -> anyhow::Result<()> {
        let deployments = cells.iter().map(|cell| cell.deployment);
        let of_triggers = triggers.iter().map(|_| Cell::BASE.deployment);
        let wanted = wanted(self.run, deployments.chain(of_triggers));
        let is_early = |(deployment, keys): &(Deployment, Keys)| {
            *keys == Keys::Uniform || *deployment == Cell::BASE.deployment
        };
        let (early, late): (Vec<_>, Vec<_>) = wanted.into_iter().partition(is_early);
        for (deployment, keys) in early {
            self.find_capacity(deployment, keys, seed)?;
        }
        for cell in cells {
            if let Some(outcome) = self.measure_cell(&cell.to_string(), *cell, seed)? {
                self.outcomes.push(outcome);
            }
        }
        for &trigger in triggers {
            self.find_vulnerable(trigger, seed)?;
        }
        for (deployment, keys) in late {
            self.find_capacity(deployment, keys, seed)?;
        }
        Ok(())
    }

    fn find_capacity(
        &mut self,
        deployment: Deployment,
        keys: Keys,
        seed: u64,
    ) -> anyhow::Result<()> {
        let what = format!("capacity of {deployment}: {keys}");
        let found = self.bound.within(format!("{what}, seed {seed}"), || {
            self.checkpoint.or_measure(&what, seed, || {
                capacity::find(self.run, &self.size, deployment, keys, seed)
            })
        })?;
        if let Some(found) = found {
            self.capacities.push(Capacity {
                deployment,
                keys,
                seed,
                found,
            });
        }
        Ok(())
    }

    /// Nothing where there is no time for it. `what` is the name under which it is kept.
    fn measure_cell(
        &mut self,
        what: &str,
        cell: Cell,
        seed: u64,
    ) -> anyhow::Result<Option<Outcome>> {
        let carried = match self.size.long_timeouts {
            true => PATIENT_AT * cell.deployment.nominal(),
            false => self.capacities.uniform(cell.deployment, seed),
        };
        let seen = self.bound.within(format!("{what}, seed {seed}"), || {
            self.checkpoint.or_measure(what, seed, || {
                measure(self.run, &self.size, &cell, seed, carried)
            })
        })?;
        Ok(seen.map(|seen| Outcome { cell, seed, seen }))
    }

    fn find_vulnerable(&mut self, trigger: Trigger, seed: u64) -> anyhow::Result<()> {
        let mut is_whole = true;
        let percent = trigger.vulnerable_load(|cell| {
            if !is_whole {
                return Ok(false);
            }
            // A busy machine fails at any load: anyone who does not come back is tried once more.
            for what in [cell.to_string(), format!("{cell}, once more")] {
                let Some(tried) = self.measure_cell(&what, cell, seed)? else {
                    is_whole = false;
                    return Ok(false);
                };
                let is_back = targets::comes_back(&tried.seen);
                self.tried.push(tried);
                if is_back {
                    return Ok(true);
                }
            }
            Ok(false)
        })?;
        if is_whole {
            self.vulnerable.push(Vulnerable {
                trigger,
                seed,
                percent,
            });
        }
        Ok(())
    }

    fn report(self, experiment: &Experiment) -> Report {
        let mut report = self.run.report(experiment);
        report.settings = vec![
            (
                "servers",
                "8 of 2,500 keys/s or 12 of 1,000 keys/s, one worker each".into(),
            ),
            ("data", format!("{} keys with 100 bytes", self.size.keys)),
            ("load", "open loop, Poisson arrivals".into()),
        ];
        if !self.capacities.is_empty() {
            report.tables.push(tables::capacities(&self.capacities));
            report.claims = targets::efficiencies(&self.capacities);
            let of_cells = targets::of_cells(&self.outcomes, &self.capacities);
            report.claims.extend(of_cells);
        }
        if !self.outcomes.is_empty() {
            report.tables.push(tables::parts("Cells", &self.outcomes));
        }
        if !self.vulnerable.is_empty() {
            let table = tables::vulnerable(&self.vulnerable, &self.capacities);
            report.tables.push(table);
            let tried = tables::parts("Loads that were tried", &self.tried);
            report.tables.push(tried);
        }
        report.plots = tables::plots(&self.run.plot_name(experiment), &self.outcomes);
        report.notes = self.notes();
        report
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            format!(
                "A capacity is the highest rate at a 99th percentile of at most {LIMIT_SERVICES} times the time for one key. What is \
                 offered is told by the one of uniform keys on the same servers with the same seed."
            ),
            "Latency counts from when a request was meant to be sent. Each load begins at its full rate, on servers and proxies that \
             have just been started and filled, and is steady from its second second on."
                .into(),
            "Failed are requests that were refused, or not answered. Figures of several seeds are the median, and in brackets the \
             least and the most; a target holds if it does with each seed."
                .into(),
        ];
        let replayed = |outcome: &Outcome| outcome.cell.keys == Keys::Registry;
        if self.outcomes.iter().any(replayed) && measure::registry(self.run).is_none() {
            notes.push(format!(
                "There is no {REGISTRY_TRACE} in the folder of --data: one key with 46 % stood in for it."
            ));
        }
        if self.checkpoint.taken() > 0 {
            notes.push(format!(
                "{} figures are those of the run that this one went on with.",
                self.checkpoint.taken()
            ));
        }
        if !self.bound.left_out().is_empty() {
            notes.push(format!(
                "There was no time for: {}.",
                self.bound.left_out().join("; ")
            ));
        }
        notes
    }
}

/// The capacities that are needed: of uniform keys on all deployments, and, unless cells are named, of others where targets are.
fn wanted(run: &Run, deployments: impl Iterator<Item = Deployment>) -> Vec<(Deployment, Keys)> {
    let uneven: &[Keys] = match run.scale {
        Scale::Quick => return Vec::new(),
        _ if !run.cells.is_empty() => &[],
        Scale::Small => &[Keys::One],
        Scale::Paper | Scale::Beyond => &[Keys::Zipf(0.99), Keys::Zipf(1.2), Keys::One, Keys::Two],
    };
    let mut wanted: Vec<(Deployment, Keys)> = Vec::new();
    for deployment in deployments {
        if wanted.iter().any(|(other, _)| *other == deployment) {
            continue;
        }
        wanted.push((deployment, Keys::Uniform));
        if deployment.hot_keys == Cell::BASE.deployment.hot_keys {
            wanted.extend(uneven.iter().map(|&keys| (deployment, keys)));
        }
    }
    wanted
}
