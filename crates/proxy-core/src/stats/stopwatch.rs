//! Measures how long the requests of one connection take.

use crate::ids::RouteId;
use crate::stats::distance::Distance;
use crate::stats::latency::{Latency, Run, Spots, Timing};
use crate::stats::per_route::PerRoute;
use core::time::Duration;
use evenkeel_types::Instant;
use std::collections::VecDeque;

/// Writes before the last that are remembered. Each ends behind a request that is not answered; beyond this
/// many, some are taken for the last, and the queue time of what they wrote is too long.
const WRITES_MAX: usize = 4096;

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
    distance: Distance,
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
            self.flush(routes);
            self.run.timing = timing;
            self.run.round_trip_us = self.round_trip_us.unwrap_or(0);
        }
        self.run.count += 1;
        self.run.bytes += request.len;
    }

    /// Counts the last requests.
    pub fn flush(&mut self, routes: &mut PerRoute) {
        let spots = Spots::of(&self.run);
        self.latency.record(&spots);
        if self.run.count > 0 {
            let timing = &self.run.timing;
            self.distance.see(timing.written, timing.answered);
        }
        routes.record(&self.run, &spots);
        self.run.count = 0;
        self.run.bytes = 0;
    }

    /// The kernel has measured a round trip. A measurement may be longer by what the peer was doing: the
    /// shortest of a connection counts, from the next request on.
    pub fn round_trip(&mut self, measured: Duration, routes: &mut PerRoute) {
        let us = u64::try_from(measured.as_micros()).unwrap_or(u64::MAX);
        if self.round_trip_us.is_none_or(|known| us < known) {
            self.flush(routes);
            self.round_trip_us = Some(us);
            self.run.round_trip_us = us;
        }
    }

    /// The shortest round trip that was measured on this connection, in microseconds.
    pub fn round_trip_us(&self) -> Option<u64> {
        self.round_trip_us
    }

    /// The shortest time that it took to answer lately, in microseconds.
    pub fn distance_us(&self, now: Instant) -> Option<u64> {
        self.distance.us(now)
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
    use core::time::Duration;
    use evenkeel_control::times::Spot;

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
        watch.flush(&mut routes);
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
