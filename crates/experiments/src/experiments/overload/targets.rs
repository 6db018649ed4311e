//! What the cells are to reach.

use super::capacity::{Capacities, Capacity};
use super::cell::{Cell, Deployment, Event, Keys, Offered};
use super::seen::{AFTER, EVENT, Outcome, Part, START, Seen, Spread, by_cell};
use crate::report::Claim;
use evenkeel_hotkeys::config::Mode as HotKeys;

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

/// Least share of the gets that hit while the coordinator and servers do not hear each other.
const HITS: f64 = 0.98;

/// What one seed says of a target: its figures, and whether they meet it.
struct Verdict {
    target: String,
    figures: Vec<Figure>,
    holds: bool,
}

/// A figure with its digits behind the point, and what follows it.
struct Figure(f64, usize, &'static str);

/// All seeds together: medians and spreads, and whether each of them meets the target.
fn claim(what: &str, verdicts: &[Verdict]) -> Option<Claim> {
    let first = verdicts.first()?;
    let of = |(at, figure): (usize, &Figure)| {
        let Figure(_, digits, unit) = *figure;
        let all = verdicts.iter().map(|verdict| verdict.figures[at].0);
        format!("{:.digits$}{unit}", Spread::of(all))
    };
    let figures: Vec<String> = first.figures.iter().enumerate().map(of).collect();
    let holds = verdicts.iter().all(|verdict| verdict.holds);
    Some(Claim::new(
        what,
        &first.target,
        figures.join(", "),
        Some(holds),
    ))
}

/// One claim for the capacity of each kind of uneven keys.
pub(super) fn efficiencies(capacities: &Capacities) -> Vec<Claim> {
    let uneven = capacities.by_kind().into_iter();
    let uneven = uneven.filter(|(_, keys, _)| *keys != Keys::Uniform);
    let claims = uneven.filter_map(|(deployment, keys, found)| {
        let verdict = |capacity: &&Capacity| {
            let uniform = capacities.uniform(deployment, capacity.seed);
            let efficiency = capacity.found.requests_per_second / uniform;
            Verdict {
                target: format!(">= {EFFICIENCY:.2}"),
                figures: vec![Figure(efficiency, 2, "")],
                holds: efficiency >= EFFICIENCY,
            }
        };
        let verdicts: Vec<Verdict> = found.iter().map(verdict).collect();
        let what = format!("{deployment}: capacity of {keys} by uniform keys");
        claim(&what, &verdicts)
    });
    claims.collect()
}

/// Whether a target is about a cell: it is measured with several seeds.
pub(super) fn name(cell: &Cell) -> bool {
    let open = match cell.offered {
        Offered::Percent(percent) => percent,
        Offered::Closed => return false,
    };
    match cell.event {
        _ if cell.keys == Keys::Uniform => false,
        Event::Nothing if cell.writes > WRITES_MAX => true,
        Event::Nothing => open <= OFFERED_MAX,
        _ => true,
    }
}

/// One claim for each cell that a target is about.
pub(super) fn of_cells(outcomes: &[Outcome], capacities: &Capacities) -> Vec<Claim> {
    let named = by_cell(outcomes).into_iter().filter(|(cell, _)| name(cell));
    let claims = named.filter_map(|(cell, seeds)| {
        let verdicts = seeds.into_iter().filter_map(|outcome| {
            let capacity = capacities.uniform(cell.deployment, outcome.seed);
            judge(outcome, outcomes, capacity)
        });
        claim(&cell.to_string(), &verdicts.collect::<Vec<_>>())
    });
    claims.collect()
}

/// Whether what happened is over in the end, and the fleet was well before.
pub(super) fn comes_back(seen: &Seen) -> bool {
    let steady = seen.steady();
    seen.served(steady) >= ALL && recovered(seen, (steady, "before")).holds
}

/// Nothing where what it is compared with was not measured.
fn judge(outcome: &Outcome, outcomes: &[Outcome], capacity: f64) -> Option<Verdict> {
    let seen = &outcome.seen;
    let find = |cell: Cell| {
        let same = |other: &&Outcome| other.cell == cell && other.seed == outcome.seed;
        outcomes.iter().find(same).map(|found| &found.seen)
    };
    let reference = outcome.cell.reference();
    match outcome.cell.event {
        Event::Nothing if outcome.cell.writes > WRITES_MAX => {
            let off = Cell {
                deployment: Deployment {
                    hot_keys: HotKeys::Off,
                    ..outcome.cell.deployment
                },
                ..outcome.cell
            };
            match off == outcome.cell {
                true => None,
                false => Some(many_writes(seen, find(off)?)),
            }
        }
        Event::Nothing => Some(all_served(seen, find(reference)?)),
        Event::Burst(_) => Some(burst(seen, capacity)),
        Event::Crowd => Some(recovered(seen, (find(reference)?.steady(), "uniform"))),
        Event::LinksDown => Some(links_down(seen)),
        Event::Surge
        | Event::LeasesRefused
        | Event::ProxyKilled
        | Event::Changes
        | Event::HomeKilled
        | Event::OtherKilled
        | Event::HomePaused
        | Event::OtherSlow
        | Event::Reconnect
        | Event::CoordinatorAway => Some(recovered(seen, (seen.steady(), "before"))),
    }
}

/// The 99th percentile of what is left after the event by that of another part.
fn slower_after(seen: &Seen, other: &Part) -> f64 {
    let after = seen.part(AFTER);
    after.map_or(f64::INFINITY, |part| part.p99_ms / other.p99_ms)
}

fn all_served(seen: &Seen, reference: &Seen) -> Verdict {
    let part = seen.steady();
    let served = seen.served(part);
    let slower = part.p99_ms / reference.steady().p99_ms;
    let lost = part.failed + part.misses + seen.wrong_values;
    Verdict {
        target: format!("all served, nothing lost, p99 <= {SLOWER} x uniform"),
        figures: vec![
            Figure(100.0 * served, 0, " %"),
            Figure(lost as f64, 0, " lost"),
            Figure(slower, 1, " x"),
        ],
        holds: served >= ALL && lost == 0 && slower <= SLOWER,
    }
}

fn many_writes(seen: &Seen, off: &Seen) -> Verdict {
    let gain = seen.steady().served_per_second / off.steady().served_per_second;
    Verdict {
        target: format!(">= {NOT_WORSE} of what is served without hot keys"),
        figures: vec![Figure(gain, 2, "")],
        holds: gain >= NOT_WORSE,
    }
}

fn burst(seen: &Seen, capacity: f64) -> Verdict {
    let (goodput, p99) = seen.part(EVENT).map_or((0.0, f64::INFINITY), |part| {
        (part.served_per_second / capacity, part.p99_ms)
    });
    let after = slower_after(seen, seen.steady());
    Verdict {
        target: format!(
            ">= {GOODPUT} of the capacity, p99 < {BURST_P99_MS} ms; 0.5 s later <= {SLOWER} x before"
        ),
        figures: vec![
            Figure(goodput, 2, ""),
            Figure(p99, 0, " ms"),
            Figure(after, 1, " x"),
        ],
        holds: goodput >= GOODPUT && p99 < BURST_P99_MS && after <= SLOWER,
    }
}

/// What is left after the event, or while it goes on, by what it is compared with.
fn recovered(seen: &Seen, (other, named): (&Part, &str)) -> Verdict {
    let slower = slower_after(seen, other);
    let served = seen.part(AFTER).map_or(0.0, |part| seen.served(part));
    let failed: u64 = from_steady(seen).map(|part| part.failed).sum();
    Verdict {
        target: format!("in the end all served, p99 <= {SLOWER} x {named}"),
        figures: vec![
            Figure(100.0 * served, 0, " %"),
            Figure(slower, 1, " x"),
            Figure(failed as f64, 0, " failed"),
        ],
        holds: served >= ALL && slower <= SLOWER && seen.wrong_values == 0,
    }
}

/// Who only the coordinator does not hear keeps what it has.
fn links_down(seen: &Seen) -> Verdict {
    let misses: u64 = from_steady(seen).map(|part| part.misses).sum();
    let gets: u64 = from_steady(seen).map(|part| part.gets).sum();
    let failed: u64 = from_steady(seen).map(|part| part.failed).sum();
    let hits = 1.0 - misses as f64 / gets.max(1) as f64;
    Verdict {
        target: format!("hits >= {HITS}, nothing taken from servers that are reached"),
        figures: vec![
            Figure(hits, 3, " hits"),
            Figure(seen.given_up as f64, 0, " cachelets taken"),
            Figure(failed as f64, 0, " failed"),
        ],
        holds: gets > 0 && hits >= HITS && seen.given_up == 0,
    }
}

/// All but the first second.
fn from_steady(seen: &Seen) -> impl Iterator<Item = &Part> {
    seen.parts.iter().filter(|part| part.label != START)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::overload::seen::STEADY;

    fn part(label: &str, served_per_second: f64, p99_ms: f64) -> Part {
        Part {
            label: label.into(),
            served_per_second,
            p99_ms,
            gets: 100,
            ..Part::default()
        }
    }

    fn outcome(cell: Cell, seed: u64, parts: Vec<Part>) -> Outcome {
        Outcome {
            cell,
            seed,
            seen: Seen {
                offered_per_second: Some(1_000.0),
                parts,
                ..Seen::default()
            },
        }
    }

    fn happening(event: Event) -> Cell {
        Cell {
            event,
            ..Cell::BASE
        }
    }

    #[test]
    fn a_cell_that_serves_nothing_misses_its_target() {
        let base = Cell::BASE;
        let steady = |cell| outcome(cell, 1, vec![part(STEADY, 0.0, 1.0)]);
        let claims = of_cells(
            &[steady(base.reference()), steady(base)],
            &Capacities::default(),
        );
        assert_eq!(claims.len(), 1);
        assert_eq!(claims[0].holds, Some(false), "{claims:?}");
        let burst = steady(happening(Event::Burst(150)));
        let claims = of_cells(&[burst], &Capacities::default());
        assert_eq!(claims[0].holds, Some(false), "{claims:?}");
    }

    #[test]
    fn each_seed_has_to_meet_the_target_by_its_own_reference() {
        let cell = Cell::BASE;
        let seed = |seed, slower| {
            [
                outcome(cell.reference(), seed, vec![part(STEADY, 1_000.0, 2.0)]),
                outcome(cell, seed, vec![part(STEADY, 1_000.0, 2.0 * slower)]),
            ]
        };
        let claimed = |slower: [f64; 3]| {
            let outcomes = [seed(1, slower[0]), seed(2, slower[1]), seed(3, slower[2])].concat();
            let mut claims = of_cells(&outcomes, &Capacities::default());
            assert_eq!(claims.len(), 1, "{claims:?}");
            claims.remove(0)
        };
        assert_eq!(claimed([1.0, 1.5, 1.2]).holds, Some(true));
        let missed = claimed([1.0, 3.0, 1.2]);
        assert_eq!(missed.holds, Some(false));
        assert_eq!(
            missed.ours,
            "100 (100..100) %, 0 (0..0) lost, 1.2 (1.0..3.0) x"
        );
    }

    #[test]
    fn a_server_that_is_reached_keeps_what_it_has() {
        let links = |misses, given_up| {
            let mut outcome = outcome(
                happening(Event::LinksDown),
                1,
                vec![part(STEADY, 1_000.0, 1.0), part(EVENT, 1_000.0, 1.0)],
            );
            outcome.seen.parts[1].misses = misses;
            outcome.seen.given_up = given_up;
            let claims = of_cells(&[outcome], &Capacities::default());
            claims[0].holds
        };
        assert_eq!(links(4, 0), Some(true));
        assert_eq!(links(5, 0), Some(false), "0.975 of the gets hit");
        assert_eq!(links(0, 1), Some(false), "something was taken");
    }

    #[test]
    fn a_fleet_that_was_not_well_before_does_not_come_back() {
        let seen = |before, after| {
            let parts = vec![part(STEADY, before, 2.0), part(AFTER, after, 2.0)];
            outcome(happening(Event::Surge), 1, parts).seen
        };
        assert!(comes_back(&seen(990.0, 1_000.0)));
        assert!(!comes_back(&seen(900.0, 1_000.0)));
        assert!(!comes_back(&seen(1_000.0, 900.0)));
    }
}
