//! What was seen of a cell, and what that is to be.

use super::cell::{Cell, Shape};
use crate::experiments::watch::{Part, Watched};
use crate::report::{Claim, Table};
use crate::trial::max_to_mean;
use std::time::Duration;

/// The load on all keys alone; from the moment on from which some are warm; what is left of that.
pub(super) const BEFORE: &str = "before";
pub(super) const SHIFT: &str = "shift";
pub(super) const AFTER: &str = "after";

/// The busiest worker's load by the mean: soon, and in the end.
const EVEN: f64 = 1.2;
const EVEN_WITHIN: f64 = 10.0;
const EVEN_AT_LAST: f64 = 1.1;

/// The last seconds of a load are its end.
const END: f64 = 5.0;

/// The 99th percentile of what is not warm meanwhile, by what it was.
const SLOWER: f64 = 2.0;

/// What a slow server carries by what others do, and how soon.
const SLOW_SHARE: core::ops::RangeInclusive<f64> = 0.4..=0.6;
const SLOW_WITHIN: f64 = 20.0;

/// Bytes moved for the sake of a region, by all.
const MOVED: f64 = 0.01;

/// One look at the loads of all workers.
#[derive(Clone, Debug)]
pub(super) struct Look {
    /// Since some keys became warm, and since others did.
    pub seconds: f64,
    pub since_turn: f64,
    pub loads: Vec<f64>,
}

/// What was seen of a cell.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub cell: Cell,
    pub looks: Vec<Look>,
    /// How long each load stayed.
    pub stays: Duration,
    pub watched: Watched,
    /// Bytes that were moved, by all.
    pub moved: f64,
}

impl Seen {
    /// What is to come down: the busiest worker by the mean, or the slow server's share.
    fn figure(&self, look: &Look) -> f64 {
        match self.cell.shape {
            Shape::Slow => {
                let (slow, others) = look.loads.split_at(self.cell.workers.into());
                let mean = |loads: &[f64]| loads.iter().sum::<f64>() / loads.len().max(1) as f64;
                mean(slow) / mean(others).max(f64::MIN_POSITIVE)
            }
            _ => max_to_mean(&look.loads),
        }
    }

    fn is_even(&self, look: &Look) -> bool {
        match self.cell.shape {
            Shape::Slow => SLOW_SHARE.contains(&self.figure(look)),
            _ => self.figure(look) <= EVEN,
        }
    }

    pub fn curve(&self) -> Vec<(f64, f64)> {
        let looks = self.looks.iter();
        looks
            .map(|look| (look.seconds, self.figure(look)))
            .collect()
    }

    /// How soon it was even for good, in the slowest turn.
    fn even_after(&self) -> Option<f64> {
        let mut slowest: f64 = 0.0;
        let mut turns = self.looks.chunk_by(|a, b| a.since_turn <= b.since_turn);
        turns.try_for_each(|turn| {
            let uneven = turn.iter().rposition(|look| !self.is_even(look));
            let even = uneven.map_or(turn.first(), |last| turn.get(last + 1))?;
            slowest = slowest.max(even.since_turn);
            Some(())
        })?;
        Some(slowest)
    }

    /// The mean of the last seconds of each turn, the worst of them.
    fn at_last(&self) -> f64 {
        let end = self.stays.as_secs_f64() - END;
        let turns = self.looks.chunk_by(|a, b| a.since_turn <= b.since_turn);
        let ends = turns.map(|turn| {
            let last = turn.iter().filter(|look| look.since_turn >= end);
            let figures: Vec<f64> = last.map(|look| self.figure(look)).collect();
            figures.iter().sum::<f64>() / figures.len().max(1) as f64
        });
        ends.fold(0.0, f64::max)
    }

    fn p99_ms(&self, label: &str) -> f64 {
        let part = self.watched.parts.iter().find(|part| part.label == label);
        part.map_or(0.0, |part| part.latency_us(0.99) / 1000.0)
    }
}

pub(super) fn table(seen: &[Seen]) -> Table {
    let mut table = Table::new(
        "Loads and what became of them",
        "|worst|even after|in the end|p99 ms before|first 10 s|after|hits|failed|moved",
    );
    for it in seen {
        let worst = it
            .looks
            .iter()
            .map(|look| it.figure(look))
            .fold(0.0, f64::max);
        let even = it
            .even_after()
            .map_or("never".to_owned(), |s| format!("{s:.1} s"));
        let hits = it.watched.parts.last().map_or(0.0, Part::hit_ratio);
        table.row([
            it.cell.to_string(),
            format!("{worst:.2}"),
            even,
            format!("{:.2}", it.at_last()),
            format!("{:.1}", it.p99_ms(BEFORE)),
            format!("{:.1}", it.p99_ms(SHIFT)),
            format!("{:.1}", it.p99_ms(AFTER)),
            format!("{:.1} %", 100.0 * hits),
            it.watched.failed.to_string(),
            format!("{:.1} %", 100.0 * it.moved),
        ]);
    }
    table
}

pub(super) fn claims(seen: &[Seen]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for it in seen {
        let mut claim = |what: &str, target: String, ours: String, holds: bool| {
            let what = format!("{}: {what}", it.cell);
            claims.push(Claim::new(
                &what,
                &format!("target: {target}"),
                ours,
                Some(holds),
            ));
        };
        let even = it.even_after();
        let shown = even.map_or("never".to_owned(), |s| format!("{s:.1} s"));
        let is_within = |most: f64| even.is_some_and(|seconds| seconds <= most);
        if it.cell.shape == Shape::Slow {
            let target = format!("within {SLOW_WITHIN} s");
            claim(
                "half of the others' load",
                target,
                shown,
                is_within(SLOW_WITHIN),
            );
            continue;
        }
        let target = format!("within {EVEN_WITHIN} s");
        claim(
            &format!("max/mean at most {EVEN}"),
            target,
            shown,
            is_within(EVEN_WITHIN),
        );
        let last = it.at_last();
        let target = format!("at most {EVEN_AT_LAST}");
        claim(
            "max/mean in the end",
            target,
            format!("{last:.2}"),
            last <= EVEN_AT_LAST,
        );
        let [before, during] = [BEFORE, SHIFT].map(|label| it.p99_ms(label));
        claim(
            "p99 of other keys in the first 10 s, by before",
            format!("at most {SLOWER}"),
            format!("{:.1}", during / before),
            during <= SLOWER * before,
        );
        if it.cell.shape == Shape::Region {
            let target = format!("at most {} % of all bytes", 100.0 * MOVED);
            let ours = format!("{:.1} %", 100.0 * it.moved);
            claim("moved", target, ours, it.moved <= MOVED);
        }
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(looks: &[(f64, f64)]) -> Seen {
        let cell = Cell {
            servers: 2,
            workers: 1,
            shape: Shape::OneServer,
        };
        let look = |&(since_turn, busiest): &(f64, f64)| Look {
            seconds: since_turn,
            since_turn,
            loads: vec![busiest, 2.0 - busiest],
        };
        Seen {
            cell,
            looks: looks.iter().map(look).collect(),
            stays: Duration::from_secs(8),
            watched: Watched {
                parts: Vec::new(),
                failed: 0,
                first_error: None,
                wrong_values: 0,
            },
            moved: 0.0,
        }
    }

    #[test]
    fn the_slowest_turn_counts_and_what_is_uneven_again_is_not_even() {
        let first = [(1.0, 1.8), (2.0, 1.1), (3.0, 1.3), (4.0, 1.2), (8.0, 1.0)];
        assert_eq!(seen(&first).even_after(), Some(4.0));
        let second = [(1.0, 1.1), (5.0, 1.1), (8.0, 1.1)];
        let both = [&first[..], &second].concat();
        assert_eq!(seen(&both).even_after(), Some(4.0));
        assert!((seen(&both).at_last() - 3.5 / 3.0).abs() < 1e-9);
        assert_eq!(seen(&[(1.0, 1.8), (8.0, 1.8)]).even_after(), None);
    }
}
