//! How much each cachelet of a worker adds to the worker's load: what balancing goes by.
//!
//! A cachelet counts what is asked of it and never forgets. A worker looks at these counts once in an
//! *interval* and makes rates of their differences, smoothed as every load is (see
//! [`LoadAverage`](crate::load::LoadAverage)), so that the loads of a worker's cachelets add up to
//! what the worker served of them.
//!
//! A cachelet may change its worker in the middle of an interval. Its counts go with it, and what is known
//! of its rates should, too ([`CacheletMeter`]): then nothing jumps. Where that cannot be, the cachelet is
//! measured anew from the moment when it came, not from the beginning of its counts.
//!
//! What belongs to a worker but to none of its cachelets is told apart: reads of replicas that it holds for
//! others, and what others serve of its own hot keys. Moving a cachelet moves none of
//! these.
//!
//! The time of a processor is not measured for each cachelet: that would take two looks at the clock a
//! request, which cost more than some requests. A cachelet's share of its worker's time is taken to be its
//! share of the load, which counts large values for what they cost.

use core::time::Duration;
use std::collections::BTreeMap;

use evenkeel_types::{CacheletId, Instant};
use serde::Serialize;

use crate::load::BYTES_PER_REQUEST;

/// How often loads are measured: MBal's epoch. Half a second is the time of a heartbeat.
pub const INTERVAL: Duration = Duration::from_millis(500);

/// Time constant of the rates: a sudden change shows by two thirds after about this long. What moves for the load's sake is
/// not to move for a moment's.
const TIME_CONSTANT: Duration = Duration::from_millis(1500);

/// A cachelet is measured after this time at least. One that came a moment before the end of an interval
/// waits for the next: few requests in a short time make no rate.
const MEASURED_MIN: Duration = Duration::from_millis(INTERVAL.as_millis() as u64 / 2);

/// What a cachelet has counted since it was made. Only grows, and goes where the cachelet goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheletCounts {
    /// Reads.
    pub reads: u64,
    /// Reads that found an item.
    pub hits: u64,
    /// Writes of any kind.
    pub writes: u64,
    /// Bytes of the values written.
    pub bytes_in: u64,
    /// Bytes of the values read.
    pub bytes_out: u64,
}

/// Rates a second, in the order of [`CacheletCounts`].
type Rates = [f64; 5];

impl CacheletCounts {
    fn numbers(self) -> [u64; 5] {
        let CacheletCounts {
            reads,
            hits,
            writes,
            bytes_in,
            bytes_out,
        } = self;
        [reads, hits, writes, bytes_in, bytes_out]
    }

    /// What was counted since `former`. Counts that are smaller than before are those of another cachelet
    /// of the same id, which began at zero.
    fn since(self, former: CacheletCounts) -> [u64; 5] {
        let (new, old) = (self.numbers(), former.numbers());
        if new.iter().zip(old).any(|(new, old)| *new < old) {
            return new;
        }
        core::array::from_fn(|i| new[i] - old[i])
    }
}

/// What is known of the load of one cachelet. Give it to the worker that the cachelet goes to, if it is of
/// the same process: its times are those of this process's clock.
#[derive(Clone, Debug)]
pub struct CacheletMeter {
    counts: CacheletCounts,
    /// When that was counted.
    since: Instant,
    rates: Rates,
    /// Whether anything has been measured yet. The first time it is taken as it is.
    warm: bool,
}

impl CacheletMeter {
    /// Measures from now on, whatever was counted before.
    pub fn new(now: Instant, counts: CacheletCounts) -> Self {
        CacheletMeter {
            counts,
            since: now,
            rates: Rates::default(),
            warm: false,
        }
    }

    /// Ends an interval.
    fn roll(&mut self, now: Instant, counts: CacheletCounts) {
        let elapsed = now.since(self.since);
        if elapsed < MEASURED_MIN {
            return;
        }
        let seconds = elapsed.as_secs_f64();
        let weight = match self.warm {
            true => seconds / (seconds + TIME_CONSTANT.as_secs_f64()),
            false => 1.0,
        };
        for (rate, counted) in self.rates.iter_mut().zip(counts.since(self.counts)) {
            *rate += weight * (counted as f64 / seconds - *rate);
        }
        self.counts = counts;
        self.since = now;
        self.warm = true;
    }
}

/// The load of one cachelet. Rates are smoothed; memory and items are those of the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CacheletLoad {
    /// Which cachelet.
    pub cachelet: CacheletId,
    /// In small requests a second; see [`cost_of`](crate::load::cost_of).
    pub load: f64,
    /// Reads a second.
    pub reads_per_s: f64,
    /// Reads that found an item, a second.
    pub hits_per_s: f64,
    /// Writes a second.
    pub writes_per_s: f64,
    /// Bytes of values written, a second.
    pub bytes_in_per_s: f64,
    /// Bytes of values read, a second.
    pub bytes_out_per_s: f64,
    /// Part of its worker's time that it takes, from 0 to 1.
    pub busy: f64,
    /// Bytes that it takes of the memory limit.
    pub memory_bytes: u64,
    /// Items that it holds.
    pub items: u64,
}

/// The load of one worker and of its cachelets. All loads are in small requests a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkerLoad {
    /// Which of its server's workers.
    pub worker: u16,
    /// Intervals that it has measured since it started. Rates change only with it.
    pub intervals: u64,
    /// What it serves of its own cachelets: the sum of theirs.
    pub load: f64,
    /// What it serves of replicas that it holds for others.
    pub replica_load: f64,
    /// What others serve of its hot keys.
    pub diverted_load: f64,
    /// Part of its time that it does not sleep, from 0 to 1.
    pub busy: f64,
    /// Its keys that have replicas elsewhere.
    pub replicated_keys: u64,
    /// Bytes that it holds of the memory limit, replicas included.
    pub memory_bytes: u64,
    /// Its own cachelets, by id.
    pub cachelets: Vec<CacheletLoad>,
}

impl WorkerLoad {
    /// All that it serves.
    pub fn served_load(&self) -> f64 {
        self.load + self.replica_load
    }

    /// What it would serve of its own if nothing were replicated.
    pub fn undiverted_load(&self) -> f64 {
        self.load + self.diverted_load
    }

    /// Divides the worker's time among its cachelets by their loads. To be called last.
    pub fn divide_busy(&mut self) {
        let served = self.served_load();
        for cachelet in &mut self.cachelets {
            cachelet.busy = match served > 0.0 {
                true => self.busy * cachelet.load / served,
                false => 0.0,
            };
        }
    }
}

/// Measures the cachelets of one worker.
#[derive(Clone, Debug)]
pub struct LoadMeter {
    cachelets: BTreeMap<CacheletId, CacheletMeter>,
    next: Instant,
    intervals: u64,
}

impl LoadMeter {
    /// Measures from now on, as yet no cachelet.
    pub fn new(now: Instant) -> Self {
        LoadMeter {
            cachelets: BTreeMap::new(),
            next: now + INTERVAL,
            intervals: 0,
        }
    }

    /// A cachelet comes with what its former worker knew of it.
    pub fn admit(&mut self, id: CacheletId, meter: CacheletMeter) {
        self.cachelets.insert(id, meter);
    }

    /// A cachelet goes: what is known of it, for the next worker.
    pub fn release(&mut self, id: CacheletId) -> Option<CacheletMeter> {
        self.cachelets.remove(&id)
    }

    /// These cachelets are here, and no others. Those that are new are measured from now on, those that
    /// are gone forgotten.
    pub fn set_cachelets(
        &mut self,
        now: Instant,
        present: impl IntoIterator<Item = (CacheletId, CacheletCounts)>,
    ) {
        let mut former = core::mem::take(&mut self.cachelets);
        for (id, counts) in present {
            let known = former.remove(&id);
            let meter = known.unwrap_or_else(|| CacheletMeter::new(now, counts));
            self.cachelets.insert(id, meter);
        }
    }

    /// Whether an interval is over, which [`roll`](Self::roll) ends.
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// When it will be.
    pub fn poll_deadline(&self) -> Instant {
        self.next
    }

    /// Ends an interval: the cachelets that are here have counted this.
    pub fn roll(
        &mut self,
        now: Instant,
        present: impl IntoIterator<Item = (CacheletId, CacheletCounts)>,
    ) {
        let present: Vec<_> = present.into_iter().collect();
        self.set_cachelets(now, present.iter().copied());
        for (id, counts) in present {
            if let Some(meter) = self.cachelets.get_mut(&id) {
                meter.roll(now, counts);
            }
        }
        // Whole intervals, so that workers that started together stay in step.
        let late = now.since(self.next).as_nanos() / INTERVAL.as_nanos() + 1;
        let late = u32::try_from(late).unwrap_or(u32::MAX);
        self.next = self.next + INTERVAL.saturating_mul(late);
        self.intervals += 1;
    }

    /// Intervals that have ended.
    pub fn intervals(&self) -> u64 {
        self.intervals
    }

    /// The rates of a cachelet up to the last interval; all zero if nothing is known of it. What is not
    /// measured here (memory, items, the share of time) is zero.
    pub fn load_of(&self, id: CacheletId) -> CacheletLoad {
        let rates = self.cachelets.get(&id).map(|meter| meter.rates);
        let [
            reads_per_s,
            hits_per_s,
            writes_per_s,
            bytes_in_per_s,
            bytes_out_per_s,
        ] = rates.unwrap_or_default();
        let bytes = bytes_in_per_s + bytes_out_per_s;
        CacheletLoad {
            cachelet: id,
            load: reads_per_s + writes_per_s + bytes / BYTES_PER_REQUEST as f64,
            reads_per_s,
            hits_per_s,
            writes_per_s,
            bytes_in_per_s,
            bytes_out_per_s,
            ..CacheletLoad::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_testkit::seed;
    use evenkeel_types::random::SplitMix64;

    const A: CacheletId = CacheletId(1);
    const B: CacheletId = CacheletId(2);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn reads(reads: u64) -> CacheletCounts {
        CacheletCounts {
            reads,
            ..CacheletCounts::default()
        }
    }

    #[test]
    fn the_first_interval_counts_fully_and_later_ones_by_a_quarter() {
        let mut meter = LoadMeter::new(at(0));
        meter.set_cachelets(at(0), [(A, reads(0))]);
        assert!(!meter.is_due(at(499)) && meter.is_due(at(500)));
        let counts = CacheletCounts {
            reads: 400,
            hits: 300,
            writes: 100,
            bytes_in: 4096 * 10,
            bytes_out: 4096 * 40,
        };
        meter.roll(at(500), [(A, counts)]);
        let load = meter.load_of(A);
        assert_eq!((load.reads_per_s, load.hits_per_s), (800.0, 600.0));
        assert_eq!((load.writes_per_s, load.load), (200.0, 1100.0));
        assert_eq!(load.bytes_in_per_s + load.bytes_out_per_s, 409_600.0);
        assert_eq!(
            meter.load_of(B),
            CacheletLoad {
                cachelet: B,
                ..Default::default()
            }
        );
        meter.roll(at(1000), [(A, counts)]);
        assert_eq!(meter.load_of(A).load, 825.0);
        assert_eq!((meter.intervals(), meter.poll_deadline()), (2, at(1500)));
        // A worker that was held up goes on in step.
        meter.roll(at(2700), [(A, counts)]);
        assert_eq!(meter.poll_deadline(), at(3000));
    }

    #[test]
    fn a_cachelet_that_comes_with_its_counts_does_not_jump() {
        let (mut here, mut there) = (LoadMeter::new(at(0)), LoadMeter::new(at(0)));
        here.set_cachelets(at(0), [(A, reads(0))]);
        here.roll(at(500), [(A, reads(500))]);
        there.roll(at(500), []);
        // It moves at 700 ms, with its meter, and goes on as before.
        there.admit(A, here.release(A).expect("it is known"));
        here.roll(at(1000), []);
        there.roll(at(1000), [(A, reads(1000))]);
        assert_eq!(here.load_of(A).load, 0.0);
        assert_eq!(there.load_of(A).load, 1000.0);
        // Without its meter it is measured from when it came, and not at once.
        there.release(A);
        there.set_cachelets(at(1400), [(A, reads(1400))]);
        there.roll(at(1500), [(A, reads(1500))]);
        assert_eq!(there.load_of(A).load, 0.0);
        there.roll(at(2000), [(A, reads(2000))]);
        assert_eq!(there.load_of(A).load, 1000.0);
        // One that is made anew counts from zero.
        there.roll(at(2500), [(A, reads(500))]);
        assert_eq!(there.load_of(A).load, 1000.0);
    }

    #[test]
    fn time_is_divided_by_load_and_only_what_cachelets_take() {
        let of = |id, load| CacheletLoad {
            cachelet: id,
            load,
            ..CacheletLoad::default()
        };
        let mut worker = WorkerLoad {
            load: 300.0,
            replica_load: 100.0,
            diverted_load: 50.0,
            busy: 0.8,
            cachelets: vec![of(A, 100.0), of(B, 200.0)],
            ..WorkerLoad::default()
        };
        worker.divide_busy();
        assert_eq!(worker.cachelets[0].busy, 0.2);
        assert_eq!(worker.cachelets[1].busy, 0.4);
        assert_eq!(worker.undiverted_load(), 350.0);
        (worker.load, worker.replica_load) = (0.0, 0.0);
        worker.divide_busy();
        assert_eq!(worker.cachelets[1].busy, 0.0);
    }

    /// Whatever happens, the loads of cachelets add up to an average that a worker which is all of them
    /// would measure, and a rate never leaves the range of the rates that were.
    #[test]
    fn loads_keep_totals_and_stay_within_what_was() {
        let mut random = SplitMix64::new(seed(0x5eed));
        for _ in 0..200 {
            let workers = 1 + random.below(4) as usize;
            let mut meters = vec![LoadMeter::new(at(0)); workers];
            let mut counts = vec![CacheletCounts::default(); 12];
            let mut homes: Vec<usize> = (0..counts.len()).map(|i| i % workers).collect();
            let id = |i: usize| CacheletId(i as u16);
            let present = |homes: &[usize], counts: &[CacheletCounts], worker: usize| {
                let here = (0..counts.len()).filter(|i| homes[*i] == worker);
                here.map(|i| (id(i), counts[i])).collect::<Vec<_>>()
            };
            for (worker, meter) in meters.iter_mut().enumerate() {
                meter.set_cachelets(at(0), present(&homes, &counts, worker));
            }
            let mut all = crate::load::LoadAverage::new(at(0), TIME_CONSTANT);
            let mut now = at(0);
            let mut greatest = vec![0.0_f64; counts.len()];
            for interval in 1..=20 {
                let end = meters[0].poll_deadline() + Duration::from_millis(random.below(200));
                let seconds = end.since(now).as_secs_f64();
                for (count, greatest) in counts.iter_mut().zip(&mut greatest) {
                    let more = random.below(2000);
                    count.reads += more;
                    all.add(more);
                    *greatest = greatest.max(more as f64 / seconds);
                }
                // Some move in the middle.
                for _ in 0..random.below(4) {
                    let (i, to) = (random.below(12) as usize, random.below(workers as u64));
                    let meter = meters[homes[i]].release(id(i)).expect("it is there");
                    homes[i] = to as usize;
                    meters[homes[i]].admit(id(i), meter);
                }
                for (worker, meter) in meters.iter_mut().enumerate() {
                    meter.roll(end, present(&homes, &counts, worker));
                }
                now = end;
                all.roll(now);
                let load = |i: usize| meters[homes[i]].load_of(id(i)).load;
                let sum: f64 = (0..counts.len()).map(load).sum();
                assert!(
                    (sum - all.per_second()).abs() < 1e-6 * (1.0 + sum),
                    "{interval}"
                );
                for (i, greatest) in greatest.iter().enumerate() {
                    assert!((0.0..=*greatest * (1.0 + 1e-9)).contains(&load(i)));
                }
            }
        }
    }
}
