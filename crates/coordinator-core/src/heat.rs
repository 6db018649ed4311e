//! What a heat map is drawn from: the [history](crate::history) of one measure, as it is told.

use evenkeel_types::{Instant, UnixSeconds};
use serde::{Deserialize, Serialize};

use crate::duration::millis;
use crate::history::{Column, History};
use crate::limits::{HEAT_CELLS_TOLD_MAX, HISTORY_MINUTE, HISTORY_SECOND};
use crate::measure::Measure;
use crate::members::ServedView;

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

/// The last columns. All numbers but means are whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeatView {
    /// What the numbers are.
    #[serde(default)]
    pub of: Measure,
    /// Milliseconds between two columns.
    pub interval_ms: u64,
    /// The workers that had a load in any of the columns, by server and number; their servers where there are more than
    /// [`HISTORY_WORKERS_MAX`](crate::limits::HISTORY_WORKERS_MAX).
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
    /// Which of the server's workers; absent for a server, of which the highest of all workers is told.
    pub worker: Option<u16>,
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
    /// All workers together.
    #[serde(default)]
    pub sum: u64,
    /// That by worker.
    #[serde(default)]
    pub mean: f64,
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
            cells += column.cells();
            cells <= HEAT_CELLS_TOLD_MAX
        });
        let skipped = kept.len() - told.count();
        let columns = || kept.iter().skip(skipped);
        let mut rows: Vec<(&str, Option<u16>)> = columns()
            .flat_map(|column| &column.rows)
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
fn column_view(
    column: &Column,
    rows: &[(&str, Option<u16>)],
    now: Instant,
    of: Measure,
) -> HeatColumn {
    let row = |server: &str, worker| rows.binary_search(&(server, worker));
    let places: Vec<usize> = (column.rows.iter())
        .map(|it| row(&it.server, it.worker).expect("it is among those of all columns"))
        .collect();
    let whole = |rate: f32| rate as u64;
    let mut workers = vec![None; rows.len()];
    for (place, row) in places.iter().zip(&column.rows) {
        workers[*place] = Some(whole(of.of(&row.rates)));
    }
    let cells = || column.cachelets.iter();
    HeatColumn {
        age_ms: millis(now.since(column.at)),
        unix_s: column.unix_s,
        reads: Measure::Reads.of(&column.sums) as u64,
        hits: column.hits as u64,
        served: column.served,
        sum: of.of(&column.sums) as u64,
        mean: of.of(&column.means),
        workers,
        cachelets: cells()
            .map(|cell| cell.map(|cell| whole(of.of(&cell.rates))))
            .collect(),
        owners: cells()
            .map(|cell| cell.map(|cell| places[usize::from(cell.row)] as u16))
            .collect(),
    }
}
