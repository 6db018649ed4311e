//! What was seen of a cell, in figures: kept in files, and told of several seeds together.

use super::cell::Cell;
use crate::experiments::watch;
use core::fmt;
use serde::{Deserialize, Serialize};

/// The first second of a load: nobody knows yet which keys are hot.
pub(super) const START: &str = "first second";
/// The load as it is before anything happens.
pub(super) const STEADY: &str = "steady";
/// What happens.
pub(super) const EVENT: &str = "event";
/// The time in which it should be over.
pub(super) const RECOVERY: &str = "recovery";
/// What is left of it.
pub(super) const AFTER: &str = "after";

/// A step of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Moment {
    /// When it ended, from the beginning of the load.
    pub seconds: f64,
    pub served_per_second: f64,
    pub p99_ms: f64,
}

/// A part of a cell: its first second, what happens in it, and so on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Part {
    pub label: String,
    pub seconds: f64,
    pub served_per_second: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Requests that were refused, or not answered.
    pub failed: u64,
    pub gets: u64,
    pub misses: u64,
    pub moments: Vec<Moment>,
}

impl From<&watch::Part> for Part {
    fn from(part: &watch::Part) -> Part {
        let moment = |moment: &watch::Moment| Moment {
            seconds: moment.seconds,
            served_per_second: moment.requests_per_second,
            p99_ms: moment.p99_us / 1000.0,
        };
        Part {
            label: part.label.clone(),
            seconds: part.seconds,
            served_per_second: part.requests_per_second(),
            p50_ms: part.latency_us(0.5) / 1000.0,
            p99_ms: part.latency_us(0.99) / 1000.0,
            failed: part.errors(),
            gets: part.gets(),
            misses: part.misses(),
            moments: part.moments.iter().map(moment).collect(),
        }
    }
}

/// What was seen of a cell with one seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// Requests a second that were meant to be sent; none of a closed loop.
    pub offered_per_second: Option<f64>,
    pub parts: Vec<Part>,
    /// Values that nobody wrote.
    pub wrong_values: u64,
    /// The busiest server's keys by the mean of all, from the second second to the event.
    pub max_to_mean: f64,
    /// Cachelets that were taken from servers which the coordinator took for dead.
    pub given_up: u64,
}

impl Seen {
    pub fn part(&self, label: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.label == label)
    }

    /// The part that the target is about where nothing happens.
    pub fn steady(&self) -> &Part {
        self.part(STEADY).expect("every cell has one")
    }

    /// What a part has served of what was offered; all of it in a closed loop.
    pub fn served(&self, part: &Part) -> f64 {
        self.offered_per_second
            .map_or(1.0, |offered| part.served_per_second / offered)
    }
}

/// A cell, and what was seen of it with one seed.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub cell: Cell,
    pub seed: u64,
    pub seen: Seen,
}

/// Outcomes of one cell together, with one seed after the other; cells in the order in which they came first.
pub(super) fn by_cell(outcomes: &[Outcome]) -> Vec<(Cell, Vec<&Outcome>)> {
    let mut cells: Vec<(Cell, Vec<&Outcome>)> = Vec::new();
    for outcome in outcomes {
        match cells.iter_mut().find(|(cell, _)| *cell == outcome.cell) {
            Some((_, all)) => all.push(outcome),
            None => cells.push((outcome.cell, vec![outcome])),
        }
    }
    cells
}

/// A figure of several seeds: the median, and between what they are. Shown as that, or as itself where there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub median: f64,
    min: f64,
    max: f64,
    count: usize,
}

impl Spread {
    /// Of no figures all are 0. The median of an even number is the lower of the two in the middle.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Spread {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let at = |place: usize| figures.get(place).copied().unwrap_or(0.0);
        let last = figures.len().saturating_sub(1);
        Spread {
            median: at(last / 2),
            min: at(0),
            max: at(last),
            count: figures.len(),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(0);
        write!(f, "{:.digits$}", self.median)?;
        match self.count {
            0 | 1 => Ok(()),
            _ => write!(f, " ({:.digits$}..{:.digits$})", self.min, self.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_median_between_the_least_and_the_most() {
        let text = |figures: &[f64]| format!("{:.1}", Spread::of(figures.iter().copied()));
        assert_eq!(text(&[3.0, 1.0, 2.25]), "2.2 (1.0..3.0)");
        assert_eq!(text(&[3.0, 1.0]), "1.0 (1.0..3.0)");
        assert_eq!(text(&[1.5]), "1.5");
        assert_eq!(text(&[]), "0.0");
    }

    #[test]
    fn seeds_of_a_cell_are_together() {
        let of = |writes, seed| Outcome {
            cell: Cell {
                writes,
                ..Cell::BASE
            },
            seed,
            seen: Seen::default(),
        };
        let outcomes = [of(5, 1), of(10, 1), of(5, 2)];
        let seeds = |(cell, all): &(Cell, Vec<&Outcome>)| {
            let seeds: Vec<u64> = all.iter().map(|outcome| outcome.seed).collect();
            (cell.writes, seeds)
        };
        let cells = by_cell(&outcomes);
        let cells: Vec<_> = cells.iter().map(seeds).collect();
        assert_eq!(cells, [(5, vec![1, 2]), (10, vec![1])]);
    }
}
