//! The loads of a server's workers and cachelets, as its coordinator is told of them.
//!
//! A heartbeat carries some hundred cachelets of a server twice a second, so they travel as columns of
//! whole numbers: names are not repeated, a column that is not known is left aside, and one that is missing
//! makes the news unusable instead of wrong. There is a bound on bytes. What does not fit are the cachelets
//! with the least load, of which each worker's number and sums are told.

use evenkeel_balance::cachelet_load::{CacheletLoad, WorkerLoad};
use evenkeel_balance::cluster::CACHELET_BYTES_MAX;
use evenkeel_types::CacheletId;
use evenkeel_types::map::WORKERS_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Bytes that cachelets take in a server's news: about a thousand of them, 16 for each of 64 workers.
pub const NEWS_CACHELET_BYTES_MAX: usize = 64 << 10;

/// Bytes of a worker in a server's news, at most: eleven numbers within their limits.
const WORKER_NEWS_BYTES: usize = 128;

/// Bytes of the names of all columns, and of the numbers that are told once.
const NAMES_BYTES: usize = 512;

/// Bytes of a server's news in JSON, at most.
pub const NEWS_LOAD_BYTES_MAX: usize =
    NEWS_CACHELET_BYTES_MAX + WORKERS_MAX * WORKER_NEWS_BYTES + NAMES_BYTES;

/// Largest rate that is believed and told, of requests a second: what a worker may report at all.
pub const RATE_MAX: u64 = 100_000_000;

/// Largest number of bytes a second, likewise: no network of a worker carries 8 Tb/s.
pub const BYTES_PER_S_MAX: u64 = 1_000_000_000_000;

/// Largest number of bytes or items, likewise: a pebibyte.
pub const BYTES_MAX: u64 = 1 << 50;

/// Most replicated keys of a worker, likewise: more than any has room to track.
pub const KEYS_MAX: u64 = 1 << 16;

/// A part of time is told in millionths.
const WHOLE: u64 = 1_000_000;

/// What a server tells of its loads with a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadNews {
    /// The memory limit of the server.
    pub memory_limit_bytes: u64,
    /// Its workers.
    pub workers: WorkerColumns,
    /// Their cachelets, or the most loaded of them.
    pub cachelets: CacheletColumns,
}

/// Numbers of workers; see [`WorkerLoad`] for their meaning. The columns are of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerColumns {
    /// Which worker.
    pub worker: Vec<u16>,
    /// In small requests a second, as the other three.
    pub load: Vec<u64>,
    /// What it serves of replicas for others.
    pub replica_load: Vec<u64>,
    /// What others serve of its hot keys.
    pub diverted_load: Vec<u64>,
    /// Its keys that have replicas elsewhere.
    pub replicated_keys: Vec<u64>,
    /// Part of its time that it does not sleep, in millionths.
    pub busy_ppm: Vec<u64>,
    /// Bytes of the memory limit that it holds.
    pub memory_bytes: Vec<u64>,
    /// Its cachelets that found no room.
    pub left_out: Vec<u64>,
    /// The sum of their loads.
    pub left_out_load: Vec<u64>,
    /// The sum of their memory.
    pub left_out_bytes: Vec<u64>,
}

/// Numbers of cachelets; see [`CacheletLoad`] for their meaning. The columns are of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheletColumns {
    /// Which cachelet.
    pub id: Vec<u16>,
    /// The worker that has it.
    pub worker: Vec<u16>,
    /// In small requests a second.
    pub load: Vec<u64>,
    /// A second.
    pub reads: Vec<u64>,
    /// A second.
    pub hits: Vec<u64>,
    /// A second.
    pub writes: Vec<u64>,
    /// Bytes a second.
    pub bytes_in: Vec<u64>,
    /// Bytes a second.
    pub bytes_out: Vec<u64>,
    /// Bytes of the memory limit.
    pub memory_bytes: Vec<u64>,
    /// Now.
    pub items: Vec<u64>,
}

/// Why news of loads cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLoadNews {
    /// Columns differ in length.
    #[error("the columns of loads differ in length")]
    Ragged,
    /// More cachelets than a server has room to tell of.
    #[error("loads of {count} cachelets, more than a server has room to tell of")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// A worker that the server does not have, or one twice.
    #[error("worker {worker} is told of twice, or is not one of the server's")]
    Worker {
        /// Which.
        worker: u16,
    },
    /// A cachelet that no map has, or one twice.
    #[error("cachelet {cachelet} is told of twice, or is in no map")]
    Cachelet {
        /// Which.
        cachelet: CacheletId,
    },
    /// A number that cannot be.
    #[error("{column} {value} is more than can be")]
    Absurd {
        /// Its column.
        column: &'static str,
        /// The number.
        value: u64,
    },
}

/// A worker, and what of its cachelets was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LeftOut {
    /// Cachelets.
    pub count: u64,
    /// The sum of their loads.
    pub load: f64,
    /// The sum of their memory.
    pub memory_bytes: u64,
}

/// A rate, or another number from zero up, as a whole one.
fn whole(number: f64, most: u64) -> u64 {
    // Saturates, and what is no number becomes zero.
    (number.round() as u64).min(most)
}

impl LoadNews {
    /// The loads of a server's workers, as far as there is room for them. Takes time in proportion to its
    /// cachelets and the logarithm of their number.
    pub fn of(mut loads: Vec<WorkerLoad>, memory_limit_bytes: u64) -> Self {
        loads.sort_by_key(|load| load.worker);
        loads.dedup_by_key(|load| load.worker);
        let mut all: Vec<(usize, &CacheletLoad)> = Vec::new();
        for (row, worker) in loads.iter().enumerate() {
            all.extend(worker.cachelets.iter().map(|cachelet| (row, cachelet)));
        }
        all.sort_by(|a, b| b.1.load.total_cmp(&a.1.load));
        let mut cachelets = CacheletColumns::default();
        let mut left_out = vec![LeftOut::default(); loads.len()];
        let mut bytes = 0;
        for (row, cachelet) in all {
            let numbers = CacheletColumns::numbers(cachelet);
            let worker = loads[row].worker;
            let ids = [u64::from(cachelet.cachelet.0), u64::from(worker)];
            bytes += ids.iter().chain(&numbers).map(json_bytes).sum::<usize>();
            if bytes <= NEWS_CACHELET_BYTES_MAX {
                cachelets.push(cachelet.cachelet, worker, numbers);
            } else {
                let left_out = &mut left_out[row];
                left_out.count += 1;
                left_out.load += cachelet.load;
                left_out.memory_bytes = left_out.memory_bytes.saturating_add(cachelet.memory_bytes);
            }
        }
        let mut workers = WorkerColumns::default();
        for (worker, left_out) in loads.iter().zip(left_out) {
            workers.push(worker, left_out);
        }
        LoadNews {
            memory_limit_bytes: memory_limit_bytes.min(BYTES_MAX),
            workers,
            cachelets,
        }
    }

    /// Checks news of a server with this many workers in a cluster with this many cachelets.
    ///
    /// # Errors
    /// The first thing that makes no sense.
    pub fn validate(&self, workers: usize, cachelets: usize) -> Result<(), BadLoadNews> {
        // A comma and a digit for each number at least.
        let count = self.cachelets.id.len();
        if count > NEWS_CACHELET_BYTES_MAX / (2 * CacheletColumns::COUNT) {
            return Err(BadLoadNews::TooMany { count });
        }
        self.workers.check_numbers()?;
        self.cachelets.check_numbers()?;
        if self.memory_limit_bytes > BYTES_MAX {
            return Err(BadLoadNews::Absurd {
                column: "memory_limit_bytes",
                value: self.memory_limit_bytes,
            });
        }
        let mut told = BTreeSet::new();
        for &worker in &self.workers.worker {
            if usize::from(worker) >= workers || !told.insert(worker) {
                return Err(BadLoadNews::Worker { worker });
            }
        }
        let mut seen = BTreeSet::new();
        for (&id, worker) in self.cachelets.id.iter().zip(&self.cachelets.worker) {
            if !told.contains(worker) {
                return Err(BadLoadNews::Worker { worker: *worker });
            }
            if usize::from(id) >= cachelets || !seen.insert(id) {
                let cachelet = CacheletId(id);
                return Err(BadLoadNews::Cachelet { cachelet });
            }
        }
        Ok(())
    }

    /// The loads of the workers again, each with what was left out. News that are not valid may lose some.
    pub fn workers(&self) -> Vec<(WorkerLoad, LeftOut)> {
        let mut loads: Vec<_> = (0..self.workers.worker.len())
            .filter_map(|row| self.workers.row(row))
            .collect();
        for row in 0..self.cachelets.id.len() {
            if let Some((worker, cachelet)) = self.cachelets.row(row)
                && let Some((load, _)) = loads.iter_mut().find(|(l, _)| l.worker == worker)
            {
                load.cachelets.push(cachelet);
            }
        }
        for (load, _) in &mut loads {
            load.cachelets.sort_by_key(|load| load.cachelet);
            load.divide_busy();
        }
        loads
    }
}

/// A number and a comma in JSON.
fn json_bytes(number: &u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 2
}

/// A column's name, its numbers, and the largest of them that can be.
type Column<'a> = (&'static str, &'a [u64], u64);

fn check_columns(len: usize, columns: &[Column<'_>]) -> Result<(), BadLoadNews> {
    for &(column, values, most) in columns {
        if values.len() != len {
            return Err(BadLoadNews::Ragged);
        }
        if let Some(&value) = values.iter().find(|value| **value > most) {
            return Err(BadLoadNews::Absurd { column, value });
        }
    }
    Ok(())
}

impl WorkerColumns {
    fn push(&mut self, load: &WorkerLoad, left_out: LeftOut) {
        self.worker.push(load.worker);
        self.load.push(whole(load.load, RATE_MAX));
        self.replica_load.push(whole(load.replica_load, RATE_MAX));
        self.diverted_load.push(whole(load.diverted_load, RATE_MAX));
        self.replicated_keys
            .push(load.replicated_keys.min(KEYS_MAX));
        self.busy_ppm.push(whole(load.busy * WHOLE as f64, WHOLE));
        self.memory_bytes.push(load.memory_bytes.min(BYTES_MAX));
        self.left_out.push(left_out.count);
        self.left_out_load.push(whole(left_out.load, RATE_MAX));
        self.left_out_bytes
            .push(left_out.memory_bytes.min(BYTES_MAX));
    }

    fn check_numbers(&self) -> Result<(), BadLoadNews> {
        check_columns(
            self.worker.len(),
            &[
                ("load", &self.load, RATE_MAX),
                ("replica_load", &self.replica_load, RATE_MAX),
                ("diverted_load", &self.diverted_load, RATE_MAX),
                ("replicated_keys", &self.replicated_keys, KEYS_MAX),
                ("busy_ppm", &self.busy_ppm, WHOLE),
                ("memory_bytes", &self.memory_bytes, BYTES_MAX),
                ("left_out", &self.left_out, u64::from(u16::MAX)),
                ("left_out_load", &self.left_out_load, RATE_MAX),
                ("left_out_bytes", &self.left_out_bytes, BYTES_MAX),
            ],
        )
    }

    fn row(&self, row: usize) -> Option<(WorkerLoad, LeftOut)> {
        let number = |column: &[u64]| column.get(row).copied();
        let rate = |column: &[u64]| number(column).map(|number| number as f64);
        let load = WorkerLoad {
            worker: *self.worker.get(row)?,
            intervals: 0,
            load: rate(&self.load)?,
            replica_load: rate(&self.replica_load)?,
            diverted_load: rate(&self.diverted_load)?,
            replicated_keys: number(&self.replicated_keys)?,
            busy: rate(&self.busy_ppm)? / WHOLE as f64,
            memory_bytes: number(&self.memory_bytes)?,
            cachelets: Vec::new(),
        };
        let left_out = LeftOut {
            count: number(&self.left_out)?,
            load: rate(&self.left_out_load)?,
            memory_bytes: number(&self.left_out_bytes)?,
        };
        Some((load, left_out))
    }
}

impl CacheletColumns {
    /// Columns.
    const COUNT: usize = 10;

    /// All numbers of a cachelet but the first two.
    fn numbers(load: &CacheletLoad) -> [u64; Self::COUNT - 2] {
        [
            whole(load.load, RATE_MAX),
            whole(load.reads_per_s, RATE_MAX),
            whole(load.hits_per_s, RATE_MAX),
            whole(load.writes_per_s, RATE_MAX),
            whole(load.bytes_in_per_s, BYTES_PER_S_MAX),
            whole(load.bytes_out_per_s, BYTES_PER_S_MAX),
            // What a planner does not believe would make the whole report unusable.
            load.memory_bytes.min(CACHELET_BYTES_MAX),
            load.items.min(BYTES_MAX),
        ]
    }

    fn push(&mut self, id: CacheletId, worker: u16, numbers: [u64; Self::COUNT - 2]) {
        self.id.push(id.0);
        self.worker.push(worker);
        let columns = [
            &mut self.load,
            &mut self.reads,
            &mut self.hits,
            &mut self.writes,
            &mut self.bytes_in,
            &mut self.bytes_out,
            &mut self.memory_bytes,
            &mut self.items,
        ];
        for (column, number) in columns.into_iter().zip(numbers) {
            column.push(number);
        }
    }

    fn check_numbers(&self) -> Result<(), BadLoadNews> {
        if self.worker.len() != self.id.len() {
            return Err(BadLoadNews::Ragged);
        }
        check_columns(
            self.id.len(),
            &[
                ("load", &self.load, RATE_MAX),
                ("reads", &self.reads, RATE_MAX),
                ("hits", &self.hits, RATE_MAX),
                ("writes", &self.writes, RATE_MAX),
                ("bytes_in", &self.bytes_in, BYTES_PER_S_MAX),
                ("bytes_out", &self.bytes_out, BYTES_PER_S_MAX),
                ("memory_bytes", &self.memory_bytes, CACHELET_BYTES_MAX),
                ("items", &self.items, BYTES_MAX),
            ],
        )
    }

    fn row(&self, row: usize) -> Option<(u16, CacheletLoad)> {
        let number = |column: &[u64]| column.get(row).copied();
        let rate = |column: &[u64]| number(column).map(|number| number as f64);
        let load = CacheletLoad {
            cachelet: CacheletId(*self.id.get(row)?),
            load: rate(&self.load)?,
            reads_per_s: rate(&self.reads)?,
            hits_per_s: rate(&self.hits)?,
            writes_per_s: rate(&self.writes)?,
            bytes_in_per_s: rate(&self.bytes_in)?,
            bytes_out_per_s: rate(&self.bytes_out)?,
            busy: 0.0,
            memory_bytes: number(&self.memory_bytes)?,
            items: number(&self.items)?,
        };
        Some((*self.worker.get(row)?, load))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cachelet(id: u16, load: f64) -> CacheletLoad {
        CacheletLoad {
            cachelet: CacheletId(id),
            load,
            reads_per_s: load / 2.0,
            hits_per_s: load / 4.0,
            writes_per_s: load / 2.0,
            bytes_in_per_s: load * 10.0,
            bytes_out_per_s: load * 20.0,
            busy: 0.0,
            memory_bytes: 1000,
            items: 7,
        }
    }

    fn worker(worker: u16, cachelets: Vec<CacheletLoad>) -> WorkerLoad {
        let mut load = WorkerLoad {
            worker,
            intervals: 0,
            replicated_keys: 3,
            load: cachelets.iter().map(|load| load.load).sum(),
            replica_load: 100.0,
            diverted_load: 50.0,
            busy: 0.25,
            memory_bytes: 123_456,
            cachelets,
        };
        load.divide_busy();
        load
    }

    /// All numbers as large as they can be.
    fn greatest(workers: u16, cachelets: u16) -> Vec<WorkerLoad> {
        let of = |number: u16, worker_number: u16| WorkerLoad {
            worker: u16::MAX - worker_number,
            load: f64::INFINITY,
            replica_load: f64::MAX,
            diverted_load: 1e300,
            busy: 1.0,
            memory_bytes: u64::MAX,
            cachelets: (0..cachelets)
                .map(|i| CacheletLoad {
                    items: u64::MAX,
                    memory_bytes: u64::MAX,
                    ..cachelet(u16::MAX - number * cachelets - i, 1e300)
                })
                .collect(),
            ..WorkerLoad::default()
        };
        (0..workers).map(|number| of(number, number)).collect()
    }

    #[test]
    fn what_is_told_is_read_again() {
        let loads = vec![
            worker(1, vec![cachelet(3, 800.0), cachelet(5, 400.0)]),
            worker(0, vec![cachelet(4, 0.0)]),
        ];
        let news = LoadNews::of(loads.clone(), 64 << 20);
        assert_eq!(news.validate(2, 6), Ok(()));
        let json = serde_json::to_string(&news).expect("JSON");
        let read: LoadNews = serde_json::from_str(&json).expect("news");
        assert_eq!(read, news);
        let again: Vec<_> = read.workers().into_iter().map(|(load, _)| load).collect();
        assert_eq!(again, [loads[1].clone(), loads[0].clone()]);
        // The hottest come first.
        assert_eq!(news.cachelets.id, [3, 5, 4]);
    }

    #[test]
    fn the_least_loaded_are_left_out_and_their_sums_told() {
        let cachelets = |first: u16, load: f64| {
            (first..first + 2000)
                .map(move |id| cachelet(id, load))
                .collect()
        };
        let loads = vec![
            worker(0, cachelets(0, 5000.0)),
            worker(1, cachelets(2000, 3000.0)),
        ];
        let news = LoadNews::of(loads, 1);
        let told = news.workers();
        assert!(news.validate(2, 4000).is_ok());
        for ((load, left_out), of_each) in told.iter().zip([5000.0, 3000.0]) {
            let here = load.cachelets.len();
            assert_eq!(here as u64 + left_out.count, 2000);
            assert_eq!(left_out.load, left_out.count as f64 * of_each);
            assert_eq!(left_out.memory_bytes, left_out.count * 1000);
            let told: f64 = load.cachelets.iter().map(|load| load.load).sum();
            assert_eq!(told + left_out.load, load.load);
        }
        let (few, none) = (told[0].0.cachelets.len(), told[1].0.cachelets.len());
        assert!((500..2000).contains(&few) && none == 0, "{few} {none}");
    }

    #[test]
    fn news_never_take_more_than_their_bytes() {
        for (workers, cachelets) in [(0, 0), (1, 0), (1, 65_535), (64, 16), (1024, 1), (1024, 60)] {
            let news = LoadNews::of(greatest(workers, cachelets), u64::MAX);
            let bytes = serde_json::to_string(&news).expect("JSON").len();
            assert!(
                bytes <= NEWS_LOAD_BYTES_MAX,
                "{workers} {cachelets}: {bytes}"
            );
            assert_eq!(
                news.validate(1 << 16, 1 << 16),
                Ok(()),
                "its own news are fine"
            );
            assert_eq!(news.workers().len(), usize::from(workers));
        }
    }

    #[test]
    fn news_that_make_no_sense_are_refused() {
        let news = || LoadNews::of(vec![worker(0, vec![cachelet(3, 8.0), cachelet(5, 4.0)])], 1);
        let refused = |spoil: fn(&mut LoadNews)| {
            let mut spoilt = news();
            spoil(&mut spoilt);
            spoilt.validate(1, 6).expect_err("it makes no sense")
        };
        assert_eq!(news().validate(1, 6), Ok(()));
        assert_eq!(refused(|n| n.cachelets.load.clear()), BadLoadNews::Ragged);
        assert_eq!(refused(|n| n.cachelets.worker.push(0)), BadLoadNews::Ragged);
        assert_eq!(refused(|n| n.workers.busy_ppm.clear()), BadLoadNews::Ragged);
        let cachelet = |id| BadLoadNews::Cachelet {
            cachelet: CacheletId(id),
        };
        assert_eq!(refused(|n| n.cachelets.id[0] = 6), cachelet(6));
        assert_eq!(refused(|n| n.cachelets.id[0] = 5), cachelet(5));
        let worker = |worker| BadLoadNews::Worker { worker };
        assert_eq!(refused(|n| n.workers.worker[0] = 1), worker(1));
        assert_eq!(refused(|n| n.cachelets.worker[1] = 1), worker(1));
        let twice = refused(|n| {
            *n = LoadNews {
                workers: doubled(&n.workers),
                ..n.clone()
            }
        });
        assert_eq!(twice, worker(0));
        for (spoil, column) in [
            (
                (|n| n.cachelets.load[1] = RATE_MAX + 1) as fn(&mut LoadNews),
                "load",
            ),
            (|n| n.cachelets.bytes_out[1] = u64::MAX, "bytes_out"),
            (|n| n.cachelets.items[0] = u64::MAX, "items"),
            (
                |n| n.cachelets.memory_bytes[0] = CACHELET_BYTES_MAX + 1,
                "memory_bytes",
            ),
            (|n| n.workers.busy_ppm[0] = WHOLE + 1, "busy_ppm"),
            (|n| n.workers.left_out[0] = 1 << 16, "left_out"),
            (|n| n.memory_limit_bytes = u64::MAX, "memory_limit_bytes"),
        ] {
            let bad = refused(spoil);
            assert!(
                matches!(bad, BadLoadNews::Absurd { column: c, .. } if c == column),
                "{bad}"
            );
        }
        let many = refused(|n| n.cachelets.id = vec![0; 5000]);
        assert_eq!(many, BadLoadNews::TooMany { count: 5000 });
        // Anyone who reads them unchecked reads less, and does not fall over.
        let mut ragged = news();
        ragged.cachelets.items.clear();
        assert!(ragged.workers()[0].0.cachelets.is_empty());
    }

    fn doubled(columns: &WorkerColumns) -> WorkerColumns {
        let twice = |column: &Vec<u64>| [column.clone(), column.clone()].concat();
        WorkerColumns {
            worker: [columns.worker.clone(), columns.worker.clone()].concat(),
            load: twice(&columns.load),
            replica_load: twice(&columns.replica_load),
            diverted_load: twice(&columns.diverted_load),
            replicated_keys: twice(&columns.replicated_keys),
            busy_ppm: twice(&columns.busy_ppm),
            memory_bytes: twice(&columns.memory_bytes),
            left_out: twice(&columns.left_out),
            left_out_load: twice(&columns.left_out_load),
            left_out_bytes: twice(&columns.left_out_bytes),
        }
    }

    /// A coordinator that knows another version's columns goes on without them.
    #[test]
    fn columns_of_other_versions_do_no_harm() {
        let news = LoadNews::of(vec![worker(0, vec![cachelet(3, 8.0)])], 1);
        let mut json = serde_json::to_value(&news).expect("JSON");
        json["cachelets"]["colour"] = serde_json::json!([1, 2, 3]);
        let read: LoadNews = serde_json::from_value(json.clone()).expect("news");
        assert_eq!(read, news);
        json["cachelets"]
            .as_object_mut()
            .expect("columns")
            .remove("hits");
        let read: LoadNews = serde_json::from_value(json).expect("news");
        assert_eq!(read.validate(1, 6), Err(BadLoadNews::Ragged));
    }
}
