//! What distance costs: latencies by the rack that answered, and `switch` and `base`.
//!
//! The paper's model (its section 2.2): a round trip through n switches takes `l_n = n·switch + base`; n is 1 within a rack, 2 between a
//! rack and the backbone, and 3 from one rack to another. Both are found by least squares over the medians of what each rack took at each
//! distance, weighed by commands.
//!
//! Medians, since one request in a thousand that waits for a retransmission takes two hundred times as long as the others and moves a
//! mean by a fifth; a least-squares line over all requests would be bent by the few. A median of commands, and not of medians, so that a
//! session of few commands has no more weight than it has.
//!
//! For each rack, distance and group of sessions some latencies are kept, drawn by chance (Vitter's algorithm R, from a fixed seed): a
//! median over 64 groups is one of 8,192 latencies then.

use super::groups::{GROUPS, group_of};
use crate::head::RackOfHead;
use crate::record::Record;
use evenkeel_types::random::SplitMix64;
use std::collections::BTreeMap;

/// Latencies that are kept for each rack, distance and group.
const KEPT: usize = 128;

/// How many switches a command passed on its way to the server: 1 to 3. `None` if a rack is not known.
pub(super) fn distance(record: &Record, racks: &[RackOfHead]) -> Option<u8> {
    let rack = |number: u8| racks.get(usize::from(number));
    let (own, answering) = (rack(record.own_rack)?, rack(record.answering_rack)?);
    Some(if record.own_rack == record.answering_rack {
        1
    } else if own.is_central || answering.is_central {
        2
    } else {
        3
    })
}

/// Latencies by answering rack, `NO_RACK` among them, and distance.
#[derive(Debug)]
pub(super) struct Latencies {
    by_rack: BTreeMap<(u8, Option<u8>), Vec<Sample>>,
    random: SplitMix64,
}

/// Some latencies of a group.
#[derive(Clone, Debug, Default)]
struct Sample {
    seen: u64,
    micros: Vec<u32>,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies {
            by_rack: BTreeMap::new(),
            random: SplitMix64::new(0),
        }
    }
}

impl Latencies {
    /// Counts a command that a server has answered.
    pub fn add(&mut self, record: &Record, distance: Option<u8>) {
        let Some(micros) = record.latency() else {
            return;
        };
        let groups = self
            .by_rack
            .entry((record.answering_rack, distance))
            .or_insert_with(|| vec![Sample::default(); GROUPS]);
        let kept = &mut groups[group_of(record.session)];
        kept.seen += 1;
        if kept.micros.len() < KEPT {
            kept.micros.push(micros);
        } else if let at @ 0..KEPT = self.random.below(kept.seen) as usize {
            kept.micros[at] = micros;
        }
    }

    /// What was kept for each rack at each distance, sorted.
    pub fn sorted(&self) -> Vec<Sorted> {
        let sorted = self.by_rack.iter();
        let sorted = sorted.map(|(&(rack, distance), groups)| Sorted::of(rack, distance, groups));
        sorted.collect()
    }
}

/// The latencies of a rack at a distance, from the shortest to the longest.
#[derive(Debug)]
pub(super) struct Sorted {
    /// `NO_RACK` if it is not known.
    pub rack: u8,
    pub distance: Option<u8>,
    /// Microseconds, group, and how many commands it stands for.
    latencies: Vec<(u32, usize, f64)>,
    seen: [u64; GROUPS],
}

impl Sorted {
    fn of(rack: u8, distance: Option<u8>, groups: &[Sample]) -> Self {
        let mut seen = [0; GROUPS];
        let mut latencies = Vec::new();
        for (group, kept) in groups.iter().enumerate() {
            seen[group] = kept.seen;
            let weight = kept.seen as f64 / kept.micros.len() as f64;
            latencies.extend(kept.micros.iter().map(|micros| (*micros, group, weight)));
        }
        latencies.sort_unstable_by_key(|(micros, group, _)| (*micros, *group));
        Sorted {
            rack,
            distance,
            latencies,
            seen,
        }
    }

    /// Commands, if each group counts this many times.
    pub fn commands(&self, times: &[u32; GROUPS]) -> u64 {
        let counted = self.seen.iter().zip(times);
        counted.map(|(seen, times)| seen * u64::from(*times)).sum()
    }

    /// The latency that a share of `part` of the commands does not exceed, in milliseconds; `None` without commands. O(latencies kept).
    pub fn quantile_ms(&self, part: f64, times: &[u32; GROUPS]) -> Option<f64> {
        let wanted = self.commands(times) as f64 * part;
        let mut passed = 0.0;
        let mut last = None;
        for &(micros, group, weight) in &self.latencies {
            let weight = weight * f64::from(times[group]);
            if weight == 0.0 {
                continue;
            }
            passed += weight;
            last = Some(f64::from(micros) / 1000.0);
            if passed >= wanted {
                break;
            }
        }
        last
    }
}

/// `switch` and `base` in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub switch_ms: f64,
    pub base_ms: f64,
}

/// The line through latencies at distances by weighed least squares; `None` if they are all at one distance. O(points).
pub(super) fn line(sorted: &[Sorted], times: &[u32; GROUPS]) -> Option<Line> {
    let points = sorted.iter().filter_map(|of_rack| {
        let median = of_rack.quantile_ms(0.5, times)?;
        let weight = of_rack.commands(times) as f64;
        Some((f64::from(of_rack.distance?), median, weight))
    });
    let points: Vec<(f64, f64, f64)> = points.collect();
    let weight: f64 = points.iter().map(|(_, _, w)| w).sum();
    let mean = |of: fn(&(f64, f64, f64)) -> f64| {
        points.iter().map(|point| of(point) * point.2).sum::<f64>() / weight
    };
    let (n_mean, l_mean) = (mean(|point| point.0), mean(|point| point.1));
    let (mut square, mut product) = (0.0, 0.0);
    for (n, l, w) in &points {
        square += w * (n - n_mean) * (n - n_mean);
        product += w * (n - n_mean) * (l - l_mean);
    }
    // Two distances differ by 1 at least.
    let (first, ..) = points.first()?;
    if points.iter().all(|(n, ..)| n == first) {
        return None;
    }
    let switch_ms = product / square;
    Some(Line {
        switch_ms,
        base_ms: l_mean - switch_ms * n_mean,
    })
}
