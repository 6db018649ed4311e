//! How loads went: a column a second for an hour, and a column a minute for a day. Kept in memory and never saved; a coordinator
//! that was just started begins anew.
//!
//! A column has what was told of each cachelet and worker at its moment. A minute's is the mean of its seconds. Both rings are bounded in
//! columns and in cells, so that a large cluster has a shorter history and never a larger one.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use evenkeel_types::{CacheletId, Instant, Now, ServerId, UnixSeconds};

use crate::cluster_loads::ServerLoad;
use crate::limits::{
    HISTORY_CELLS_MAX, HISTORY_MINUTE, HISTORY_MINUTES, HISTORY_SECOND, HISTORY_SECONDS,
};
use crate::members::ServedView;

/// Load, reads, writes and bytes a second: four bytes each are enough for what is drawn.
pub(crate) type Rates = [f32; 4];

/// A cachelet at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(crate) rates: Rates,
    /// Its worker: an index of [`Column::workers`].
    pub(crate) worker: u16,
}

/// A worker at a moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The name of its server, which outlives the server's id.
    pub(crate) server: Arc<str>,
    pub(crate) worker: u16,
    /// Its load, replicas of others' hot keys included.
    pub(crate) served: f32,
}

/// What was told at a moment, or in a minute on average.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) at: Instant,
    pub(crate) unix_s: UnixSeconds,
    /// No two of the same worker.
    pub(crate) workers: Vec<Row>,
    /// By number; `None` where nothing was told.
    pub(crate) cachelets: Vec<Option<Cell>>,
    /// Reads of all cachelets that found an item.
    pub(crate) hits: f32,
    /// What applications got of proxies; of a minute its slowest second, and what was refused on average.
    pub(crate) served: ServedView,
}

impl Column {
    /// Places that it takes: a row takes as many bytes as a cell.
    fn cells(&self) -> usize {
        self.cachelets.len() + self.workers.len()
    }
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
            workers: Vec::new(),
            cachelets: vec![None; cachelets],
            hits: 0.0,
            served,
        };
        for server in loads {
            let text = self.name(server.server, name(server.server));
            for (load, _) in &server.workers {
                // `WORKERS_TOTAL_MAX` of them have numbers of sixteen bits.
                let worker = column.workers.len() as u16;
                column.workers.push(Row {
                    server: Arc::clone(&text),
                    worker: load.worker,
                    served: (load.load + load.replica_load) as f32,
                });
                for told in &load.cachelets {
                    let CacheletId(number) = told.cachelet;
                    if let Some(cell) = column.cachelets.get_mut(usize::from(number)) {
                        let bytes = told.bytes_in_per_s + told.bytes_out_per_s;
                        let rates = [told.load, told.reads_per_s, told.writes_per_s, bytes];
                        let rates = rates.map(|rate| rate as f32);
                        *cell = Some(Cell { rates, worker });
                        column.hits += told.hits_per_s as f32;
                    }
                }
            }
        }
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

/// The mean of some columns, at the last one's moment: of each cachelet and worker over the columns that tell of it, with the cachelet's last
/// worker. `None` for no columns.
fn mean(columns: &[&Column]) -> Option<Column> {
    let last = columns.last()?;
    let mut rows: BTreeMap<(&Arc<str>, u16), (f64, u32)> = BTreeMap::new();
    for row in columns.iter().flat_map(|column| &column.workers) {
        let sum = rows.entry((&row.server, row.worker)).or_default();
        *sum = (sum.0 + f64::from(row.served), sum.1 + 1);
    }
    let places: BTreeMap<_, u16> = rows.keys().copied().zip(0..=u16::MAX).collect();
    let longest = columns.iter().map(|column| column.cachelets.len()).max();
    let cachelet = |number: usize| {
        let (mut sums, mut told, mut place) = ([0.0; 4], 0, 0);
        for column in columns {
            let Some(Some(cell)) = column.cachelets.get(number) else {
                continue;
            };
            let row = &column.workers[usize::from(cell.worker)];
            let Some(row) = places.get(&(&row.server, row.worker)) else {
                continue;
            };
            place = *row;
            told += 1;
            for (sum, rate) in sums.iter_mut().zip(cell.rates) {
                *sum += f64::from(rate);
            }
        }
        (told > 0).then(|| Cell {
            rates: sums.map(|sum| (sum / f64::from(told)) as f32),
            worker: place,
        })
    };
    let hits: f64 = columns.iter().map(|column| f64::from(column.hits)).sum();
    let served = || columns.iter().map(|column| column.served);
    let shed: f64 = served().map(|served| served.shed_per_s).sum();
    Some(Column {
        at: last.at,
        unix_s: last.unix_s,
        cachelets: (0..longest.unwrap_or(0)).map(cachelet).collect(),
        workers: (rows.into_iter())
            .map(|((server, worker), (sum, told))| Row {
                server: Arc::clone(server),
                worker,
                served: (sum / f64::from(told)) as f32,
            })
            .collect(),
        hits: (hits / columns.len() as f64) as f32,
        served: ServedView {
            p50_us: served().filter_map(|served| served.p50_us).max(),
            p99_us: served().filter_map(|served| served.p99_us).max(),
            shed_per_s: shed / columns.len() as f64,
        },
    })
}
