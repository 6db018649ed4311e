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

use crate::stats::per_route::{PerRoute, RouteId};
use core::time::Duration;
use evenkeel_types::Instant;
use std::collections::VecDeque;

/// Parts that each power of two is divided into: a value is known to a quarter.
const PARTS: usize = 4;

/// Longest time that is told apart, in microseconds: 134 s, more than the longest request timeout.
pub const TIME_MAX_US: u64 = (1 << 27) - 1;

/// 0, 1, 2 and 3 µs, and the parts of each power of two from 4 µs on.
const BUCKETS: usize = bucket(TIME_MAX_US) + 1;

/// Writes before the last that are remembered. Each ends behind a request that is not answered; beyond so
/// many, some are taken for the last, and the queue time of what they wrote is too long.
const WRITES_MAX: usize = 4096;

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
struct Spot {
    bucket: usize,
    us: u64,
}

impl Spot {
    #[inline]
    fn of(us: u64) -> Self {
        Spot {
            bucket: bucket(us),
            us,
        }
    }

    /// The time from one instant to another.
    #[inline]
    fn between(from: Instant, to: Instant) -> Self {
        // Most requests are written in the turn in which they were asked.
        if from >= to {
            return Spot { bucket: 0, us: 0 };
        }
        Spot::of((to.0 - from.0) / 1000)
    }
}

impl Histogram {
    /// Counts a time so many times.
    #[inline]
    fn record(&mut self, spot: Spot, times: u64) {
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

    /// What statistics show of it.
    pub(crate) fn rows(&self) -> [(&'static str, u64); 9] {
        let Latency {
            queue,
            answer,
            network,
            server,
        } = self;
        [
            ("queue_us_p50", queue.quantile_us(0.5)),
            ("queue_us_p99", queue.quantile_us(0.99)),
            ("answer_us_p50", answer.quantile_us(0.5)),
            ("answer_us_p99", answer.quantile_us(0.99)),
            ("answer_us_p999", answer.quantile_us(0.999)),
            ("network_us_p50", network.quantile_us(0.5)),
            ("server_us_p50", server.quantile_us(0.5)),
            ("server_us_p99", server.quantile_us(0.99)),
            ("server_us_p999", server.quantile_us(0.999)),
        ]
    }
}

/// When things happened to a request, and the route that it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Timing {
    asked: Instant,
    written: Instant,
    answered: Instant,
    route: RouteId,
}

/// Requests behind each other to which the same happened at the same time. What came in a turn left in one
/// write, and mostly is answered in one read: so they are counted together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    timing: Timing,
    /// Shortest round trip known then, in microseconds.
    round_trip_us: u64,
    count: u64,
    bytes: u64,
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
    count: u64,
}

impl Spots {
    #[inline]
    fn of(run: &Run) -> Self {
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

/// A request whose answer has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    /// `None` if that is not known.
    pub asked: Option<Instant>,
    /// Where it ends in the stream of bytes.
    pub end: u64,
    /// How long it is.
    pub len: u64,
    pub route: RouteId,
}

/// Measures the requests of one connection, which are known by where they end in its stream of bytes.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    latency: Latency,
    /// Shortest round trip that was measured on this connection, in microseconds.
    round_trip_us: Option<u64>,
    /// The last requests, not counted in `latency` yet.
    run: Run,
    /// How far the stream is written, and when it was last.
    last: (u64, Instant),
    /// The same of the writes before, ascending; mostly there are none.
    earlier: VecDeque<(u64, Instant)>,
}

impl Stopwatch {
    /// All up to `end` is written. `awaited` is where the request ends whose answer comes next: what was
    /// written before all of that is of no interest.
    #[inline]
    pub fn wrote(&mut self, now: Instant, end: u64, awaited: u64) {
        let is_needed = self.last.0 >= awaited && self.last.1 != now;
        if is_needed && self.earlier.len() < WRITES_MAX {
            self.earlier.push_back(self.last);
        }
        self.last = (end, now);
    }

    /// A request was answered.
    #[inline]
    pub fn answered(&mut self, now: Instant, request: &Finished, routes: &mut PerRoute) {
        let written = self.write_of(request.end);
        let Some(asked) = request.asked.filter(|_| written.0 >= request.end) else {
            return routes.count_bytes(request.route, request.len);
        };
        let timing = Timing {
            asked,
            written: written.1,
            answered: now,
            route: request.route,
        };
        if timing != self.run.timing {
            self.settle(routes);
            self.run.timing = timing;
            self.run.round_trip_us = self.round_trip_us.unwrap_or(0);
        }
        self.run.count += 1;
        self.run.bytes += request.len;
    }

    /// Counts the last requests.
    pub fn settle(&mut self, routes: &mut PerRoute) {
        let spots = Spots::of(&self.run);
        self.latency.record(&spots);
        routes.record(&self.run, &spots);
        self.run.count = 0;
        self.run.bytes = 0;
    }

    /// The kernel has measured a round trip. A measurement may be longer by what the peer was doing: the
    /// shortest of a connection counts, from the next request on.
    pub fn round_trip(&mut self, measured: Duration, routes: &mut PerRoute) {
        let us = u64::try_from(measured.as_micros()).unwrap_or(u64::MAX);
        if self.round_trip_us.is_none_or(|known| us < known) {
            self.settle(routes);
            self.round_trip_us = Some(us);
            self.run.round_trip_us = us;
        }
    }

    /// The shortest round trip that was measured on this connection, in microseconds.
    pub fn round_trip_us(&self) -> Option<u64> {
        self.round_trip_us
    }

    /// What was measured.
    pub fn latency(&self) -> Latency {
        let mut latency = self.latency.clone();
        latency.record(&Spots::of(&self.run));
        latency
    }

    /// The last requests, which routes have not been told of.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// When all up to a place was written, if it was.
    pub fn written(&mut self, end: u64) -> Option<Instant> {
        let write = self.write_of(end);
        (write.0 >= end).then_some(write.1)
    }

    /// The write that ends at or behind a place, or else the last; those before it are forgotten.
    #[inline]
    fn write_of(&mut self, end: u64) -> (u64, Instant) {
        while let Some(&write) = self.earlier.front() {
            if write.0 >= end {
                return write;
            }
            self.earlier.pop_front();
        }
        self.last
    }

    /// Another connection begins.
    pub fn restart(&mut self) {
        self.last = (0, Instant::default());
        self.earlier.clear();
        self.round_trip_us = None;
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
    }

    /// A request of 5 bytes.
    fn request(asked: Option<Instant>, end: u64) -> Finished {
        Finished {
            asked,
            end,
            len: 5,
            route: RouteId::OTHERS,
        }
    }

    #[test]
    fn a_request_waits_until_the_write_that_ends_it_and_then_for_its_answer() {
        let at = |us: u64| Instant(us * 1000);
        let mut routes = PerRoute::default();
        let mut watch = Stopwatch::default();
        // Two requests, to 10 and to 30: the first is written at once, the second in two pieces.
        watch.wrote(at(100), 15, 10);
        watch.wrote(at(300), 25, 10);
        watch.wrote(at(700), 30, 10);
        watch.answered(at(1100), &request(Some(at(100)), 10), &mut routes);
        watch.answered(at(1100), &request(Some(at(100)), 30), &mut routes);
        let Latency { queue, answer, .. } = watch.latency();
        assert_eq!((queue.sum_us(), answer.sum_us()), (600, 1000 + 400));
        // Not known when it was asked.
        watch.wrote(at(1200), 40, 40);
        watch.answered(at(1300), &request(None, 40), &mut routes);
        assert_eq!(watch.latency().queue.count(), 2);
        // Answered before it was written: not measured.
        watch.restart();
        watch.answered(at(1300), &request(Some(at(1200)), 50), &mut routes);
        assert_eq!(watch.latency().answer.count(), 2);
    }

    /// What is counted together is counted as one by one.
    #[test]
    fn requests_are_counted_in_runs() {
        let seed =
            std::env::var("EVENKEEL_SEED").map_or(1u64, |seed| seed.parse().expect("a number"));
        println!("EVENKEEL_SEED={seed}");
        let mut random = seed;
        let mut below = |bound: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        let mut routes = PerRoute::default();
        let mut watch = Stopwatch::default();
        watch.round_trip(Duration::from_millis(4), &mut routes);
        let (mut now, mut end) = (Instant(0), 0);
        let mut twin = Latency::default();
        for _ in 0..10_000 {
            if below(3) == 0 {
                now = Instant(now.0 + below(5_000_000));
            }
            let asked = Instant(now.0.saturating_sub(below(2) * 7_000_000));
            end += 5;
            watch.wrote(now, end, end);
            let answered = Instant(now.0 + below(2) * 9_000_000);
            watch.answered(answered, &request(Some(asked), end), &mut routes);
            twin.queue.record(Spot::between(asked, now), 1);
            let answer = Spot::between(now, answered);
            twin.answer.record(answer, 1);
            twin.network.record(Spot::of(answer.us.min(4_000)), 1);
            twin.server
                .record(Spot::of(answer.us.saturating_sub(4_000)), 1);
        }
        assert_eq!(watch.latency(), twin);
        watch.settle(&mut routes);
        assert_eq!(watch.latency(), twin, "once");
    }

    #[test]
    fn the_shortest_round_trip_of_a_connection_is_the_networks_part() {
        let at = |ms: u64| Instant::from_millis(ms);
        let mut routes = PerRoute::default();
        let mut watch = Stopwatch::default();
        let mut sums = Vec::new();
        let mut ask = |watch: &mut Stopwatch, routes: &mut PerRoute| {
            watch.wrote(at(10), 5, 5);
            watch.answered(at(20), &request(Some(at(10)), 5), routes);
            let Latency {
                network, server, ..
            } = watch.latency();
            sums.push((network.sum_us() / 1000, server.sum_us() / 1000));
        };
        ask(&mut watch, &mut routes);
        // The same turn: what is measured counts from the next request on.
        for ms in [3, 2, 4, 30] {
            watch.round_trip(Duration::from_millis(ms), &mut routes);
            ask(&mut watch, &mut routes);
        }
        watch.restart();
        watch.round_trip(Duration::from_millis(30), &mut routes);
        ask(&mut watch, &mut routes);
        assert_eq!(
            sums,
            [(0, 10), (3, 17), (5, 25), (7, 33), (9, 41), (19, 41)]
        );
    }

    #[test]
    fn the_pieces_of_one_large_request_are_one_write() {
        let mut routes = PerRoute::default();
        let mut watch = Stopwatch::default();
        for n in 1..=100u64 {
            watch.wrote(Instant(n * 1000), n, 100);
        }
        assert!(watch.earlier.is_empty());
        watch.answered(
            Instant(200_000),
            &request(Some(Instant(0)), 100),
            &mut routes,
        );
        assert_eq!(watch.latency().queue.sum_us(), 100);
        for n in 0..2 * WRITES_MAX as u64 {
            watch.wrote(Instant(n), 101 + n, 101);
        }
        assert_eq!(watch.earlier.len(), WRITES_MAX, "bounded");
    }
}
