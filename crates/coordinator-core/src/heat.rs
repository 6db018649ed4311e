//! What a heat map is drawn from: the [history](crate::history) of one measure, as it is told.

use evenkeel_types::{Instant, UnixSeconds};
use serde::{Deserialize, Serialize};

use crate::duration::millis;
use crate::history::{Column, History, Rates};
use crate::limits::{HEAT_CELLS_TOLD_MAX, HISTORY_MINUTE, HISTORY_SECOND};
use crate::members::ServedView;

/// What a heat map shows.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Small requests a second.
    #[default]
    Load,
    /// Reads a second.
    Reads,
    /// Writes a second.
    Writes,
    /// Bytes of values read and written a second.
    Bytes,
}

impl Measure {
    /// All of them, in the order in which they are kept.
    pub const ALL: [Measure; 4] = [
        Measure::Load,
        Measure::Reads,
        Measure::Writes,
        Measure::Bytes,
    ];

    fn of(self, rates: &Rates) -> f32 {
        rates[self as usize]
    }
}

/// How far apart columns are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// A second, for an hour.
    #[default]
    Second,
    /// A minute, for a day.
    Minute,
}

/// The last columns. All numbers are whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeatView {
    /// What the numbers are.
    #[serde(default)]
    pub of: Measure,
    /// Milliseconds between two columns.
    pub interval_ms: u64,
    /// The workers that had a load in any of the columns, by server and number.
    pub workers: Vec<HeatWorker>,
    /// How many cachelets there are.
    pub cachelets: usize,
    /// The oldest first.
    pub columns: Vec<HeatColumn>,
}

/// A row of the workers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HeatWorker {
    /// The name of its server.
    pub server: String,
    /// Which of the server's workers.
    pub worker: u16,
}

/// A moment, or the mean of a minute that ended then.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeatColumn {
    /// Milliseconds since then.
    pub age_ms: u64,
    /// When that was, in seconds since 1970.
    #[serde(default)]
    pub unix_s: UnixSeconds,
    /// Reads a second of all cachelets.
    #[serde(default)]
    pub reads: u64,
    /// Those of them that found an item.
    #[serde(default)]
    pub hits: u64,
    /// What applications got of proxies in the second before; of a minute its slowest second, and what was refused on average.
    #[serde(default, flatten)]
    pub served: ServedView,
    /// Each of [`HeatView::workers`]; absent where it was not told. Its load includes replicas of others' hot keys; of other measures it is
    /// the sum of its cachelets.
    pub workers: Vec<Option<u64>>,
    /// Each cachelet; absent where it was not told.
    pub cachelets: Vec<Option<u64>>,
    /// Where each cachelet was: an index of [`HeatView::workers`].
    pub owners: Vec<Option<u16>>,
}

/// Which part of the history is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedHeat {
    /// Of what.
    pub of: Measure,
    /// How far apart.
    pub step: Step,
    /// The newest columns, at most this many; fewer where more would be too long an answer.
    pub columns: usize,
}

impl HeatView {
    /// O(columns × (workers × log workers + cachelets)).
    pub(crate) fn of(history: &History, now: Instant, wanted: WantedHeat) -> HeatView {
        let (ring, interval) = match wanted.step {
            Step::Second => (&history.seconds, HISTORY_SECOND),
            Step::Minute => (&history.minutes, HISTORY_MINUTE),
        };
        let kept = ring.columns();
        let mut cells = 0;
        let told = kept.iter().rev().take(wanted.columns).take_while(|column| {
            cells += column.cachelets.len() + column.workers.len();
            cells <= HEAT_CELLS_TOLD_MAX
        });
        let skipped = kept.len() - told.count();
        let columns = || kept.iter().skip(skipped);
        let mut rows: Vec<(&str, u16)> = columns()
            .flat_map(|column| &column.workers)
            .map(|row| (&*row.server, row.worker))
            .collect();
        rows.sort_unstable();
        rows.dedup();
        let view = |column| column_view(column, &rows, now, wanted.of);
        let named = rows.iter().map(|&(server, worker)| HeatWorker {
            server: server.to_owned(),
            worker,
        });
        HeatView {
            of: wanted.of,
            interval_ms: millis(interval),
            workers: named.collect(),
            cachelets: columns().map(|c| c.cachelets.len()).max().unwrap_or(0),
            columns: columns().map(view).collect(),
        }
    }
}

/// A column with its workers in these rows, sorted.
fn column_view(column: &Column, rows: &[(&str, u16)], now: Instant, of: Measure) -> HeatColumn {
    let row = |server: &str, worker| rows.binary_search(&(server, worker));
    let places: Vec<usize> = (column.workers.iter())
        .map(|it| row(&it.server, it.worker).expect("it is among those of all columns"))
        .collect();
    let mut workers: Vec<Option<f32>> = vec![None; rows.len()];
    for (place, row) in places.iter().zip(&column.workers) {
        let known = match of {
            Measure::Load => row.served,
            Measure::Reads | Measure::Writes | Measure::Bytes => 0.0,
        };
        workers[*place] = Some(known);
    }
    let told = column.cachelets.iter().flatten();
    if of != Measure::Load {
        for cell in told.clone() {
            let sum = &mut workers[places[usize::from(cell.worker)]];
            *sum = sum.map(|sum| sum + of.of(&cell.rates));
        }
    }
    let whole = |rate: f32| rate as u64;
    let reads = told.map(|cell| Measure::Reads.of(&cell.rates));
    let cells = || column.cachelets.iter();
    HeatColumn {
        age_ms: millis(now.since(column.at)),
        unix_s: column.unix_s,
        reads: whole(reads.sum()),
        hits: whole(column.hits),
        served: column.served,
        workers: workers.into_iter().map(|told| told.map(whole)).collect(),
        cachelets: cells()
            .map(|cell| cell.map(|cell| whole(of.of(&cell.rates))))
            .collect(),
        owners: cells()
            .map(|cell| cell.map(|cell| places[usize::from(cell.worker)] as u16))
            .collect(),
    }
}
