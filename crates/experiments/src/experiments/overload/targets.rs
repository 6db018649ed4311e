//! What the cells are to reach.

use super::cell::{Cell, Deployment, Event, Keys};
use super::measure::{AFTER, EVENT, Outcome, START};
use super::{Capacity, uniform};
use crate::experiments::watch::Part;
use crate::report::Claim;
use evenkeel_policy::hot_keys::config::Mode as HotKeys;

/// Least part of what uniform keys carry.
const EFFICIENCY: f64 = 1.0;

/// Most that a 99th percentile may be, by that of uniform keys.
const SLOWER: f64 = 2.0;

/// Part of what is offered that counts as all: an open loop is uneven.
const ALL: f64 = 0.98;

/// Per cent of the capacity, and of writes, up to which everything is to be served.
const OFFERED_MAX: u32 = 80;
const WRITES_MAX: u32 = 10;

/// Least part of the capacity that is served while more is offered, and most that what is served may take.
const GOODPUT: f64 = 0.95;
const BURST_P99_MS: f64 = 200.0;

/// What is served of many writes by what is without hot keys.
const NOT_WORSE: f64 = 0.98;

pub(super) fn efficiencies(capacities: &[Capacity]) -> Vec<Claim> {
    let uneven = capacities
        .iter()
        .filter(|found| found.keys != Keys::Uniform);
    uneven
        .map(|found| {
            let efficiency =
                found.knee.requests_per_second() / uniform(capacities, found.deployment);
            Claim::new(
                &format!(
                    "{}: capacity of {} by uniform keys",
                    found.deployment, found.keys
                ),
                &format!(">= {EFFICIENCY:.2}"),
                format!("{efficiency:.2}"),
                Some(efficiency >= EFFICIENCY),
            )
        })
        .collect()
}

/// One claim for each cell that a target is about. `capacity` tells what uniform keys carry.
pub(super) fn of_cells(outcomes: &[Outcome], capacity: impl Fn(Deployment) -> f64) -> Vec<Claim> {
    let find = |cell: &Cell| outcomes.iter().find(|outcome| outcome.cell == *cell);
    let claims = outcomes.iter().filter_map(|outcome| {
        let cell = &outcome.cell;
        match cell.event {
            _ if cell.keys == Keys::Uniform => None,
            Event::Nothing if cell.writes > WRITES_MAX => many_writes(outcome, outcomes),
            Event::Nothing if cell.offered > OFFERED_MAX => None,
            Event::Nothing => Some(all_served(outcome, find(&cell.reference())?)),
            Event::Burst(_) => Some(burst(outcome, capacity(cell.deployment))),
            Event::Crowd => {
                let uniform = find(&cell.reference())?.steady();
                Some(recovered(outcome, (uniform, "uniform")))
            }
            Event::Changes
            | Event::HomeKilled
            | Event::OtherKilled
            | Event::HomePaused
            | Event::OtherSlow
            | Event::Reconnect
            | Event::CoordinatorAway => Some(recovered(outcome, (outcome.steady(), "before"))),
        }
    });
    claims.collect()
}

/// The 99th percentile by that of another part.
fn slower(part: &Part, other: &Part) -> f64 {
    part.latency_us(0.99) / other.latency_us(0.99)
}

/// The same of what is left after the event.
fn slower_after(outcome: &Outcome, other: &Part) -> f64 {
    let after = outcome.part(AFTER);
    after.map_or(f64::INFINITY, |part| slower(part, other))
}

fn all_served(outcome: &Outcome, reference: &Outcome) -> Claim {
    let part = outcome.steady();
    let served = part.requests_per_second() / outcome.offered_per_second;
    let slower = slower(part, reference.steady());
    let lost = part.errors() + part.misses() + outcome.wrong_values;
    Claim::new(
        &outcome.cell.to_string(),
        &format!("all served, nothing lost, p99 <= {SLOWER} x uniform"),
        format!("{:.0} %, {lost} lost, {slower:.1} x", 100.0 * served),
        Some(served >= ALL && lost == 0 && slower <= SLOWER),
    )
}

fn many_writes(outcome: &Outcome, outcomes: &[Outcome]) -> Option<Claim> {
    let off = Cell {
        deployment: Deployment {
            hot_keys: HotKeys::Off,
            ..outcome.cell.deployment
        },
        ..outcome.cell
    };
    let off = outcomes.iter().find(|other| other.cell == off)?;
    if outcome.cell == off.cell {
        return None;
    }
    let gain = outcome.steady().requests_per_second() / off.steady().requests_per_second();
    Some(Claim::new(
        &outcome.cell.to_string(),
        &format!(">= {NOT_WORSE} of what is served without hot keys"),
        format!("{gain:.2}"),
        Some(gain >= NOT_WORSE),
    ))
}

fn burst(outcome: &Outcome, capacity: f64) -> Claim {
    let (goodput, p99) = outcome.part(EVENT).map_or((0.0, f64::INFINITY), |part| {
        (
            part.requests_per_second() / capacity,
            part.latency_us(0.99) / 1000.0,
        )
    });
    let after = slower_after(outcome, outcome.steady());
    Claim::new(
        &outcome.cell.to_string(),
        &format!(
            ">= {GOODPUT} of the capacity, p99 < {BURST_P99_MS} ms; 0.5 s later <= {SLOWER} x before"
        ),
        format!("{goodput:.2}, {p99:.0} ms; {after:.1} x"),
        Some(goodput >= GOODPUT && p99 < BURST_P99_MS && after <= SLOWER),
    )
}

/// What is left after the event, or while it goes on, by what it is compared with.
fn recovered(outcome: &Outcome, (other, named): (&Part, &str)) -> Claim {
    let slower = slower_after(outcome, other);
    let served = outcome.part(AFTER).map_or(0.0, |part| {
        part.requests_per_second() / outcome.offered_per_second
    });
    let failed: Vec<String> = outcome
        .parts
        .iter()
        .filter(|part| part.label != START)
        .map(|part| part.errors().to_string())
        .collect();
    Claim::new(
        &outcome.cell.to_string(),
        &format!("in the end all served, p99 <= {SLOWER} x {named}"),
        format!(
            "{:.0} %, {slower:.1} x; failed {}",
            100.0 * served,
            failed.join(", ")
        ),
        Some(served >= ALL && slower <= SLOWER && outcome.wrong_values == 0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::overload::measure::STEADY;

    fn outcome(cell: Cell, parts: Vec<Part>) -> Outcome {
        Outcome {
            cell,
            offered_per_second: 1_000.0,
            parts,
            wrong_values: 0,
            max_to_mean: 1.0,
        }
    }

    #[test]
    fn a_cell_that_serves_nothing_misses_its_target() {
        let base = Cell::BASE;
        let steady = || vec![Part::new(STEADY)];
        let outcomes = [outcome(base.reference(), steady()), outcome(base, steady())];
        let claims = of_cells(&outcomes, |_| 1_000.0);
        assert_eq!(claims.len(), 1);
        assert_eq!(claims[0].holds, Some(false), "{claims:?}");
        let burst = Cell {
            event: Event::Burst(150),
            ..base
        };
        let claims = of_cells(&[outcome(burst, steady())], |_| 1_000.0);
        assert_eq!(claims[0].holds, Some(false), "{claims:?}");
    }
}
