//! How loads went: a column a second for an hour, and a column a minute for a day. Kept in memory and never saved; a coordinator
//! that was just started begins anew.
//!
//! A column has what was told of each cachelet and worker at its moment; where there are [too many](HISTORY_WORKERS_MAX) workers, of each
//! server instead. A minute's is the mean of its seconds. Both rings are bounded in columns and in cells, so that a large cluster has a shorter
//! history and never a larger one.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use evenkeel_balance::cachelet_load::WorkerLoad;
use evenkeel_types::{CacheletId, Instant, Now, ServerId, UnixSeconds};

use crate::cluster_loads::ServerLoad;
use crate::limits::{
    HISTORY_CELLS_MAX, HISTORY_MINUTE, HISTORY_MINUTES, HISTORY_SECOND, HISTORY_SECONDS,
    HISTORY_WORKERS_MAX,
};
use crate::measure::Measure;
use crate::members::ServedView;

/// Load, reads, writes and bytes a second: four bytes each are enough for what is drawn.
pub(crate) type Rates = [f32; 4];

/// A cachelet at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(crate) rates: Rates,
    /// That of its worker: an index of [`Column::rows`].
    pub(crate) row: u16,
}

/// A worker at a moment; a server where there are more than [`HISTORY_WORKERS_MAX`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The name of the server, which outlives the server's id.
    pub(crate) server: Arc<str>,
    /// `None` for a server: each rate is the highest of its workers.
    pub(crate) worker: Option<u16>,
    /// The sums of the worker's cachelets, but its load includes replicas of others' hot keys.
    pub(crate) rates: Rates,
}

/// What was told at a moment, or in a minute on average.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) at: Instant,
    pub(crate) unix_s: UnixSeconds,
    /// No two of the same worker or server.
    pub(crate) rows: Vec<Row>,
    /// By number; `None` where nothing was told.
    pub(crate) cachelets: Vec<Option<Cell>>,
    /// Of all workers.
    pub(crate) sums: [f64; 4],
    /// The sums by worker; 0 for no worker.
    pub(crate) means: [f64; 4],
    /// Reads of all cachelets that found an item.
    pub(crate) hits: f64,
    /// What applications got of proxies; of a minute its slowest second, and what was refused on average.
    pub(crate) served: ServedView,
}

impl Column {
    /// Places that it takes: a row takes no more bytes than two cells.
    pub(crate) fn cells(&self) -> usize {
        self.cachelets.len() + 2 * self.rows.len()
    }

    /// Notes the cachelets of a worker, whose place among the rows this is, and gives what the worker has.
    fn note(&mut self, load: &WorkerLoad, row: u16) -> Rates {
        let mut rates = Rates::default();
        for told in &load.cachelets {
            let bytes = told.bytes_in_per_s + told.bytes_out_per_s;
            let of_cachelet = [told.load, told.reads_per_s, told.writes_per_s, bytes];
            let of_cachelet = of_cachelet.map(|rate| rate as f32);
            let CacheletId(number) = told.cachelet;
            if let Some(cell) = self.cachelets.get_mut(usize::from(number)) {
                *cell = Some(Cell {
                    rates: of_cachelet,
                    row,
                });
                rates = zip(rates, of_cachelet, |sum, rate| sum + rate);
                self.hits += told.hits_per_s;
            }
        }
        rates[Measure::Load as usize] = (load.load + load.replica_load) as f32;
        self.sums = zip(self.sums, rates.map(f64::from), |sum, rate| sum + rate);
        rates
    }
}

fn zip<T: Copy>(a: [T; 4], b: [T; 4], with: fn(T, T) -> T) -> [T; 4] {
    core::array::from_fn(|measure| with(a[measure], b[measure]))
}

/// The last columns.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    columns: VecDeque<Column>,
    cells: usize,
}

impl Ring {
    /// The oldest first.
    pub(crate) fn columns(&self) -> &VecDeque<Column> {
        &self.columns
    }

    fn push(&mut self, column: Column, columns_max: usize) {
        self.cells += column.cells();
        self.columns.push_back(column);
        while self.columns.len() > columns_max
            || (self.cells > HISTORY_CELLS_MAX && self.columns.len() > 1)
        {
            let oldest = self.columns.pop_front();
            self.cells -= oldest.map_or(0, |column| column.cells());
        }
    }
}

/// An hour by seconds, and a day by minutes.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) seconds: Ring,
    pub(crate) minutes: Ring,
    /// When the minute began that is not over.
    minute_began: Option<Instant>,
    /// One text for each server, which all columns share.
    names: BTreeMap<ServerId, Arc<str>>,
}

impl History {
    /// Whether it is time for a column.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.seconds.columns.is_empty() || self.since_last(now) >= HISTORY_SECOND
    }

    /// How long ago the last column was; none where there is none.
    pub(crate) fn since_last(&self, now: Instant) -> Duration {
        let last = self.seconds.columns.back();
        last.map_or(Duration::ZERO, |last| now.since(last.at))
    }

    /// Notes the loads of a cluster of this many cachelets; `name` is that of a server, and `served` what proxies have told since the column before. O(cachelets), and once a minute that for each of its
    /// seconds.
    pub(crate) fn note<'a>(
        &mut self,
        now: Now,
        cachelets: usize,
        (loads, served): (&[ServerLoad], ServedView),
        name: impl Fn(ServerId) -> &'a str,
    ) {
        let column = self.column(now, cachelets, (loads, served), name);
        self.seconds.push(column, HISTORY_SECONDS);
        let began = *self.minute_began.get_or_insert(now.monotonic);
        if now.monotonic.since(began) < HISTORY_MINUTE {
            return;
        }
        let seconds = self.seconds.columns.iter();
        let minute: Vec<&Column> = seconds.skip_while(|column| column.at <= began).collect();
        if let Some(mean) = mean(&minute) {
            self.minutes.push(mean, HISTORY_MINUTES);
        }
        self.minute_began = Some(now.monotonic);
    }

    fn column<'a>(
        &mut self,
        now: Now,
        cachelets: usize,
        (loads, served): (&[ServerLoad], ServedView),
        name: impl Fn(ServerId) -> &'a str,
    ) -> Column {
        let mut column = Column {
            at: now.monotonic,
            unix_s: now.unix,
            rows: Vec::new(),
            cachelets: vec![None; cachelets],
            sums: [0.0; 4],
            means: [0.0; 4],
            hits: 0.0,
            served,
        };
        let workers: usize = loads.iter().map(|server| server.workers.len()).sum();
        let is_by_server = workers > HISTORY_WORKERS_MAX;
        for server in loads {
            let text = self.name(server.server, name(server.server));
            let first = column.rows.len();
            for (load, _) in &server.workers {
                let place = if is_by_server {
                    first
                } else {
                    column.rows.len()
                };
                // `HISTORY_WORKERS_MAX` and `SERVERS_MAX` are numbers of sixteen bits.
                let rates = column.note(load, place as u16);
                match column.rows.get_mut(place) {
                    Some(row) => row.rates = zip(row.rates, rates, f32::max),
                    None => column.rows.push(Row {
                        server: Arc::clone(&text),
                        worker: (!is_by_server).then_some(load.worker),
                        rates,
                    }),
                }
            }
        }
        column.means = column.sums.map(|sum| sum / workers.max(1) as f64);
        column
    }

    fn name(&mut self, server: ServerId, name: &str) -> Arc<str> {
        let known = self.names.entry(server).or_insert_with(|| name.into());
        // An id may get another name when its server is forgotten.
        if &**known != name {
            *known = name.into();
        }
        Arc::clone(known)
    }
}

/// The mean of some columns, at the last one's moment: of each cachelet and row over the columns that tell of it, with the cachelet's last
/// row. `None` for no columns.
fn mean(columns: &[&Column]) -> Option<Column> {
    let last = columns.last()?;
    let mut rows: BTreeMap<(&Arc<str>, Option<u16>), Mean> = BTreeMap::new();
    for row in columns.iter().flat_map(|column| &column.rows) {
        let mean = rows.entry((&row.server, row.worker)).or_default();
        mean.add(row.rates.map(f64::from));
    }
    let places: BTreeMap<_, u16> = rows.keys().copied().zip(0..=u16::MAX).collect();
    let longest = columns.iter().map(|column| column.cachelets.len()).max();
    let cachelet = |number: usize| {
        let (mut mean, mut row) = (Mean::default(), None);
        for column in columns {
            if let Some(Some(cell)) = column.cachelets.get(number) {
                mean.add(cell.rates.map(f64::from));
                row = Some(&column.rows[usize::from(cell.row)]);
            }
        }
        let row = places.get(&row.map(|row| (&row.server, row.worker))?)?;
        Some(Cell {
            rates: mean.rates(),
            row: *row,
        })
    };
    let of_all = |of: fn(&Column) -> [f64; 4]| {
        let mut mean = Mean::default();
        columns.iter().for_each(|column| mean.add(of(column)));
        mean.exact()
    };
    let served = || columns.iter().map(|column| column.served);
    let shed: f64 = served().map(|served| served.shed_per_s).sum();
    let hits: f64 = columns.iter().map(|column| column.hits).sum();
    Some(Column {
        at: last.at,
        unix_s: last.unix_s,
        cachelets: (0..longest.unwrap_or(0)).map(cachelet).collect(),
        rows: (rows.into_iter())
            .map(|((server, worker), mean)| Row {
                server: Arc::clone(server),
                worker,
                rates: mean.rates(),
            })
            .collect(),
        sums: of_all(|column| column.sums),
        means: of_all(|column| column.means),
        hits: hits / columns.len() as f64,
        served: ServedView {
            p50_us: served().filter_map(|served| served.p50_us).max(),
            p99_us: served().filter_map(|served| served.p99_us).max(),
            shed_per_s: shed / columns.len() as f64,
        },
    })
}

/// The mean of what was told of something.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sums: [f64; 4],
    told: u32,
}

impl Mean {
    fn add(&mut self, rates: [f64; 4]) {
        self.sums = zip(self.sums, rates, |sum, rate| sum + rate);
        self.told += 1;
    }

    fn exact(&self) -> [f64; 4] {
        self.sums.map(|sum| sum / f64::from(self.told.max(1)))
    }

    fn rates(&self) -> Rates {
        self.exact().map(|rate| rate as f32)
    }
}
