//! How long requests take at a server, in two parts, the second of which has two of its own:
//!
//! ```text
//!   asked ───── queue ─────> written to the socket ───── answer ─────> answered, whole
//!          waits for the connection,              ├ network ┼ server ┤
//!          or for room in the socket
//! ```
//!
//! Times are those of the turns of the event loop in which things happen, so that measuring reads no clock. A
//! request that is written in the turn in which it was asked has a queue time of zero, and an answer is as old
//! as the turn that reads it. Each part is wrong by the length of a turn at most.
//!
//! A server does not say how long it took. But the kernel knows how long the way to it and back takes
//! (`evenkeel_runtime::shortest_round_trip`): *network* is the shortest that it has measured on the
//! connection, or the whole answer time if that is shorter, and *server* is what is left of the answer time.
//! So network is what no answer can be without, and server everything else: the server's own work, what
//! waits for it in sockets, and a network that is slower than at its best.
//!
//! Not measured are requests that were given up, and such as were asked before a change of the request
//! timeout: when a request was asked follows from its deadline.

use crate::ids::RouteId;
use crate::stats::line::stat;
use evenkeel_types::Instant;

/// Parts that each power of two is divided into: a value is known to a quarter.
const PARTS: usize = 4;

/// Longest time that is told apart, in microseconds: 134 s, more than the longest request timeout.
pub const TIME_MAX_US: u64 = (1 << 27) - 1;

/// 0, 1, 2 and 3 µs, and the parts of each power of two from 4 µs on.
const BUCKETS: usize = bucket(TIME_MAX_US) + 1;

/// Counts of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    sum_us: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: [0; BUCKETS],
            sum_us: 0,
        }
    }
}

/// A time as histograms count it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    bucket: usize,
    pub us: u64,
}

impl Spot {
    #[inline]
    pub(crate) fn of(us: u64) -> Self {
        Spot {
            bucket: bucket(us),
            us,
        }
    }

    /// The time from one instant to another.
    #[inline]
    pub(crate) fn between(from: Instant, to: Instant) -> Self {
        // Most requests are written in the turn in which they were asked.
        if from >= to {
            return Spot { bucket: 0, us: 0 };
        }
        Spot::of((to.0 - from.0) / 1000)
    }
}

impl Histogram {
    /// Counts a time this many times.
    #[inline]
    pub(crate) fn record(&mut self, spot: Spot, times: u64) {
        self.counts[spot.bucket] += times;
        self.sum_us += spot.us * times;
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum_us += other.sum_us;
    }

    /// What was counted since there was another one. Of what was taken back meanwhile there is none.
    pub fn since(&self, before: &Histogram) -> Histogram {
        let mut since = self.clone();
        for (count, before) in since.counts.iter_mut().zip(&before.counts) {
            *count = count.saturating_sub(*before);
        }
        since.sum_us = since.sum_us.saturating_sub(before.sum_us);
        since
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// How many are below 2^`exponent` microseconds; `exponent` is 2 to 26.
    pub fn below(&self, exponent: u32) -> u64 {
        self.counts[..bucket(1 << exponent)].iter().sum()
    }

    /// The time, in microseconds, that such a part of them does not exceed, to a quarter above; 0 without any.
    pub fn quantile_us(&self, part: f64) -> u64 {
        let rank = ((self.count() as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return last_of(index);
            }
        }
        0
    }
}

/// The bucket of a time in microseconds.
#[inline]
const fn bucket(us: u64) -> usize {
    let us = if us > TIME_MAX_US { TIME_MAX_US } else { us };
    if us < PARTS as u64 {
        return us as usize;
    }
    let exponent = us.ilog2() as usize;
    (exponent - 1) * PARTS + ((us >> (exponent - 2)) as usize & (PARTS - 1))
}

/// The longest time in a bucket, in microseconds.
fn last_of(index: usize) -> u64 {
    if index < PARTS {
        return index as u64;
    }
    let (exponent, part) = (index / PARTS + 1, index % PARTS);
    (((PARTS + part + 1) as u64) << (exponent - 2)) - 1
}

/// What was measured at one server, or on one route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// From asked to written.
    pub queue: Histogram,
    /// From written to answered.
    pub answer: Histogram,
    /// The part of the answer time that the way to the server and back takes at its best.
    pub network: Histogram,
    /// The rest of it.
    pub server: Histogram,
}

impl Latency {
    /// Adds what was measured by another worker.
    pub fn add(&mut self, other: &Latency) {
        self.queue.add(&other.queue);
        self.answer.add(&other.answer);
        self.network.add(&other.network);
        self.server.add(&other.server);
    }

    /// Counts requests.
    #[inline]
    pub(crate) fn record(&mut self, spots: &Spots) {
        self.queue.record(spots.queue, spots.count);
        self.answer.record(spots.answer, spots.count);
        self.network.record(spots.network, spots.count);
        self.server.record(spots.server, spots.count);
    }

    /// Tells of it in statistics; names begin with `prefix`.
    pub(crate) fn tell(&self, out: &mut Vec<u8>, prefix: &str) {
        for part in TIMES {
            for (row, quantile) in part.quantiles {
                let row = format_args!("{prefix}{}_us_{row}", part.name);
                stat(out, row, (part.of)(self).quantile_us(*quantile));
            }
        }
    }
}

/// A part of the time that requests take, as it is shown.
pub(crate) struct Part {
    /// Its name.
    pub name: &'static str,
    /// What it is, for people.
    pub help: &'static str,
    /// Reads it.
    pub of: fn(&Latency) -> &Histogram,
    /// What statistics tell of it: names, and parts of all times.
    pub quantiles: &'static [(&'static str, f64)],
}

/// All of them.
pub(crate) const TIMES: &[Part] = &[
    Part {
        name: "queue",
        help: "From when a request was asked to when it was written to the server.",
        of: |latency| &latency.queue,
        quantiles: &[("p50", 0.5), ("p99", 0.99)],
    },
    Part {
        name: "answer",
        help: "From when a request was written to the server to when it was answered.",
        of: |latency| &latency.answer,
        quantiles: &[("p50", 0.5), ("p99", 0.99), ("p999", 0.999)],
    },
    Part {
        name: "network",
        help: "The part of this that the way to the server and back takes at its best.",
        of: |latency| &latency.network,
        quantiles: &[("p50", 0.5)],
    },
    Part {
        name: "server",
        help: "The rest of it.",
        of: |latency| &latency.server,
        quantiles: &[("p50", 0.5), ("p99", 0.99), ("p999", 0.999)],
    },
];

/// When things happened to a request, and the route that it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    pub asked: Instant,
    pub written: Instant,
    pub answered: Instant,
    pub route: RouteId,
}

/// Requests behind each other to which the same happened at the same time. What came in a turn left in one
/// write, and mostly is answered in one read: so they are counted together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub timing: Timing,
    /// Shortest round trip known then, in microseconds.
    pub round_trip_us: u64,
    pub count: u64,
    pub bytes: u64,
}

impl Default for Run {
    fn default() -> Self {
        let never = Instant::default();
        Run {
            timing: Timing {
                asked: never,
                written: never,
                answered: never,
                route: RouteId::NONE,
            },
            round_trip_us: 0,
            count: 0,
            bytes: 0,
        }
    }
}

impl Run {
    /// The route of all of them.
    #[inline]
    pub fn route(&self) -> RouteId {
        self.timing.route
    }

    /// How long they are together.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where their times are counted.
    pub fn spots(&self) -> Spots {
        Spots::of(self)
    }
}

/// Where all times of a run are counted: the same at its server and on its route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spots {
    queue: Spot,
    answer: Spot,
    network: Spot,
    server: Spot,
    pub count: u64,
}

impl Spots {
    #[inline]
    pub(crate) fn of(run: &Run) -> Self {
        let timing = &run.timing;
        let answer = Spot::between(timing.written, timing.answered);
        let network = run.round_trip_us.min(answer.us);
        Spots {
            queue: Spot::between(timing.asked, timing.written),
            answer,
            network: Spot::of(network),
            server: Spot::of(answer.us - network),
            count: run.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each bucket begins where the one before it ends, and none is wider than a quarter of its times.
    #[test]
    fn buckets_follow_each_other() {
        let mut first = 0;
        for index in 0..BUCKETS {
            let last = last_of(index);
            assert_eq!(
                (bucket(first), bucket(last)),
                (index, index),
                "{first}..={last}"
            );
            assert!((last - first) * PARTS as u64 <= first, "{first}..={last}");
            first = last + 1;
        }
        assert_eq!(first, TIME_MAX_US + 1);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_a_sorted_list_to_a_quarter() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_us(0.5), 0);
        let mut random = 1u64;
        let mut times = Vec::new();
        for _ in 0..10_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let us = (random >> 33) >> (random % 29);
            times.push(us.min(TIME_MAX_US));
            histogram.record(Spot::between(Instant(5), Instant(5 + us * 1000)), 1);
        }
        times.sort_unstable();
        for part in [0.001, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = times[(times.len() as f64 * part).ceil() as usize - 1];
            let told = histogram.quantile_us(part);
            assert!(
                told >= exact && told <= exact + exact / 4,
                "{part}: {told} for {exact}"
            );
        }
        for exponent in 2..=26 {
            let exact = times.iter().filter(|us| **us < 1 << exponent).count() as u64;
            assert_eq!(histogram.below(exponent), exact);
        }
        let mut twice = histogram.clone();
        twice.add(&histogram);
        assert_eq!(
            (twice.count(), twice.sum_us()),
            (20_000, 2 * histogram.sum_us())
        );
        assert_eq!(twice.since(&histogram), histogram);
        assert_eq!(histogram.since(&twice), Histogram::default());
    }
}
