//! How the loads of workers and cachelets went in the last minutes, a column a second: what a heat map is drawn from. Kept in
//! memory and never saved; a coordinator that was just started begins anew.

use std::collections::VecDeque;

use evenkeel_types::{CacheletId, Instant, ServerId, WorkerRef};
use serde::{Deserialize, Serialize};

use crate::cluster_loads::ServerLoad;
use crate::duration::millis;
use crate::limits::{HEAT_CELLS_MAX, HEAT_COLUMNS_MAX, HEAT_INTERVAL};
use crate::members::Members;

/// The last minutes, column by column. Loads are whole small requests a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeatView {
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

/// A moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeatColumn {
    /// Milliseconds since then.
    pub age_ms: u64,
    /// What each of [`HeatView::workers`] served, replicas of others' hot keys included; absent where it was not told.
    pub workers: Vec<Option<u64>>,
    /// The load of each cachelet; absent where it was not told.
    pub cachelets: Vec<Option<u64>>,
    /// Where each cachelet was: an index of [`HeatView::workers`].
    pub owners: Vec<Option<u16>>,
}

/// What was told at a moment. Four bytes are enough for loads that are drawn.
#[derive(Debug)]
struct Column {
    at: Instant,
    workers: Vec<(WorkerRef, f32)>,
    /// By number: the load, and the index of its worker.
    cachelets: Vec<Option<(f32, u16)>>,
}

/// The columns.
#[derive(Debug, Default)]
pub(crate) struct Heat {
    columns: VecDeque<Column>,
}

impl Heat {
    /// Whether it is time for a column.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let last = self.columns.back();
        last.is_none_or(|last| now.since(last.at) >= HEAT_INTERVAL)
    }

    /// Notes the loads of a cluster of so many cachelets. O(cachelets).
    pub(crate) fn note(&mut self, now: Instant, cachelets: usize, loads: &[ServerLoad]) {
        let mut column = Column {
            at: now,
            workers: Vec::new(),
            cachelets: vec![None; cachelets],
        };
        for server in loads {
            for (load, _) in &server.workers {
                // `WORKERS_TOTAL_MAX` of them have numbers of sixteen bits.
                let index = column.workers.len() as u16;
                let place = WorkerRef {
                    server: server.server,
                    worker: load.worker,
                };
                let served = load.load + load.replica_load;
                column.workers.push((place, served as f32));
                for cachelet in &load.cachelets {
                    let CacheletId(number) = cachelet.cachelet;
                    if let Some(cell) = column.cachelets.get_mut(usize::from(number)) {
                        *cell = Some((cachelet.load as f32, index));
                    }
                }
            }
        }
        let cells = cachelets + column.workers.len();
        self.columns.push_back(column);
        let kept = (HEAT_CELLS_MAX / cells.max(1)).min(HEAT_COLUMNS_MAX);
        let surplus = self.columns.len().saturating_sub(kept);
        self.columns.drain(..surplus);
    }

    /// The newest columns, at most so many. O(columns × (workers × log workers + cachelets)).
    pub(crate) fn view(&self, now: Instant, most: usize, members: &Members) -> HeatView {
        let skipped = self.columns.len().saturating_sub(most);
        let columns = || self.columns.iter().skip(skipped);
        let name = |server: ServerId| members.server(server).entry.name.as_str();
        let mut workers: Vec<_> = columns()
            .flat_map(|column| &column.workers)
            .map(|(place, _)| (name(place.server), place.worker))
            .collect();
        workers.sort_unstable();
        workers.dedup();
        let row = |place: WorkerRef| workers.binary_search(&(name(place.server), place.worker));
        let view = columns().map(|column| {
            let rows: Vec<_> = (column.workers.iter())
                .map(|(place, _)| row(*place).expect("it is among those of all columns"))
                .collect();
            let mut served = vec![None; workers.len()];
            for (row, (_, load)) in rows.iter().zip(&column.workers) {
                served[*row] = Some(*load as u64);
            }
            let cells = column.cachelets.iter();
            HeatColumn {
                age_ms: millis(now.since(column.at)),
                workers: served,
                cachelets: cells
                    .clone()
                    .map(|c| c.map(|(load, _)| load as u64))
                    .collect(),
                owners: cells
                    .map(|c| c.map(|(_, index)| rows[usize::from(index)] as u16))
                    .collect(),
            }
        });
        let columns: Vec<_> = view.collect();
        let named = workers.iter().map(|&(server, worker)| HeatWorker {
            server: server.to_owned(),
            worker,
        });
        HeatView {
            interval_ms: millis(HEAT_INTERVAL),
            workers: named.collect(),
            cachelets: columns.iter().map(|c| c.cachelets.len()).max().unwrap_or(0),
            columns,
        }
    }
}
