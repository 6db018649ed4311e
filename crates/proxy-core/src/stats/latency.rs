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
use evenkeel_control::times::{Histogram, Spot};
use evenkeel_types::Instant;

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
    /// From asked to answered.
    pub whole: Spot,
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
            whole: Spot::between(timing.asked, timing.answered),
            count: run.count,
        }
    }
}
