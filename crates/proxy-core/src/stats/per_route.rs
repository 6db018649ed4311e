//! What became of requests, and how long they took, by the route that they went.
//!
//! Each route has a number in a core, which a request's slot and its tag carry. A reload gives a route that
//! it keeps the number that it had, and no number to another route while a request under way has it: what
//! was asked on a route is counted there however the configuration changes meanwhile.
//!
//! A slot is counted when it is shown: a key of a `get`, or another command. How long it took is measured
//! where its server answers, by the line that it was asked with; a line for several keys is taken for one
//! request of its first key's route.

use crate::ids::RouteId;
use crate::routes::{Commands, RouteConfig};
use crate::stats::counters::{ProxyStats, Tally};
use crate::stats::latency::{Latency, Run, Spots};
use evenkeel_control::times::Histogram;
use evenkeel_types::counters;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most routes that are told apart, the first of the configuration. The others are counted together, which
/// bounds what is kept in each worker (some 2 KiB for a route) and how much `/metrics` says.
pub const ROUTES_COUNTED_MAX: usize = 256;

counters! {
    /// What became of a route's requests: keys of gets, and other commands.
    pub struct RouteCounters {
        /// What stands in `stats routes`.
        ROUTES {
            requests => counter, "Keys of gets, and other commands, that were answered.";
            get_hits => counter, "Keys found.";
            get_misses => counter, "Keys not found, or answered so because their server could not be asked.";
            unavailable => counter, "Keys answered as not found because their server could not be asked.";
            errors => counter, "Requests answered with an error, of the proxy or of a server.";
            denied => counter, "Requests that the route refused.";
            request_bytes => counter, "Bytes of requests that servers answered, as they were sent to them.";
            answer_bytes => counter, "Bytes of answers to applications, without the `END` of gets.";
        }
    }
}

/// What makes a route the same one in two configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    prefix: Box<[u8]>,
    commands: Commands,
    /// The pool that it leads to; `None` if it denies.
    pool: Option<Arc<str>>,
}

/// What was counted of the routes of one core.
#[derive(Debug)]
pub(crate) struct PerRoute {
    /// By number.
    counters: Vec<RouteCounters>,
    /// By number.
    latencies: Vec<Latency>,
    /// Of all routes: from when requests were asked to when they were answered.
    times: Histogram,
    /// By number; `None` where a number is free. The first two are nobody's.
    identities: Vec<Option<Identity>>,
}

impl Default for PerRoute {
    fn default() -> Self {
        let fixed = RouteId::OTHERS.place() + 1;
        PerRoute {
            counters: vec![RouteCounters::default(); fixed],
            latencies: vec![Latency::default(); fixed],
            times: Histogram::default(),
            identities: vec![None; fixed],
        }
    }
}

impl PerRoute {
    /// A slot of a request on this route was shown, this many bytes of it.
    #[inline]
    pub fn count(&mut self, stats: &mut ProxyStats, route: RouteId, tally: Tally, bytes: usize) {
        tally.count(stats);
        let Some(counters) = self.counters.get_mut(route.place()) else {
            return;
        };
        counters.answer_bytes += bytes as u64;
        counters.requests += 1;
        match tally {
            Tally::GetHit => counters.get_hits += 1,
            Tally::GetMiss => counters.get_misses += 1,
            Tally::GetUnavailable => {
                counters.get_misses += 1;
                counters.unavailable += 1;
            }
            Tally::Failed | Tally::Refused => counters.errors += 1,
            _ => {}
        }
    }

    /// What was counted of a route.
    pub fn of(&self, route: RouteId) -> (&RouteCounters, &Latency) {
        (
            &self.counters[route.place()],
            &self.latencies[route.place()],
        )
    }

    /// The route refused a request.
    pub fn count_denied(&mut self, route: RouteId) {
        if let Some(counters) = self.counters.get_mut(route.place()) {
            counters.requests += 1;
            counters.denied += 1;
        }
    }

    /// A request on this route was answered with an error before it was asked.
    pub fn count_error(&mut self, route: RouteId) {
        if let Some(counters) = self.counters.get_mut(route.place()) {
            counters.requests += 1;
            counters.errors += 1;
        }
    }

    /// Servers answered requests of this many bytes whose times are not known.
    pub fn count_bytes(&mut self, route: RouteId, bytes: u64) {
        if let Some(counters) = self.counters.get_mut(route.place()) {
            counters.request_bytes += bytes;
        }
    }

    /// Servers answered these requests.
    #[inline]
    pub fn record(&mut self, run: &Run, spots: &Spots) {
        let at = run.route().place();
        if let (Some(counters), Some(latency)) =
            (self.counters.get_mut(at), self.latencies.get_mut(at))
        {
            counters.request_bytes += run.bytes();
            latency.record(spots);
        }
        self.times.record(spots.whole, spots.count);
    }

    /// How long requests of all routes took, from when they were asked to when they were answered.
    pub fn times(&self) -> &Histogram {
        &self.times
    }

    /// The number of the route at this position of the configuration that leads to a pool, or denies: its
    /// own, or a free one.
    pub fn number(
        &mut self,
        position: usize,
        route: &RouteConfig,
        pool: Option<&Arc<str>>,
    ) -> RouteId {
        if position >= ROUTES_COUNTED_MAX {
            return RouteId::OTHERS;
        }
        let wanted = Some(Identity {
            prefix: route.prefix.clone(),
            commands: route.commands,
            pool: pool.cloned(),
        });
        let fixed = RouteId::OTHERS.place() + 1;
        let find = |what: &Option<Identity>| {
            let found = self.identities[fixed..]
                .iter()
                .position(|known| known == what);
            found.map(|at| at + fixed)
        };
        let at = find(&wanted).or_else(|| find(&None));
        let at = at.unwrap_or(self.identities.len());
        let number = u16::try_from(at).expect("of a few configurations under way");
        if at == self.identities.len() {
            self.identities.push(None);
            self.counters.push(RouteCounters::default());
            self.latencies.push(Latency::default());
        }
        self.identities[at] = wanted;
        RouteId(number)
    }

    /// Forgets every route whose number is not among these.
    pub fn keep(&mut self, used: &BTreeSet<RouteId>) {
        let fixed = RouteId::OTHERS.place() + 1;
        for (at, identity) in self.identities.iter_mut().enumerate().skip(fixed) {
            if !used.iter().any(|id| id.place() == at) {
                *identity = None;
                self.counters[at] = RouteCounters::default();
                self.latencies[at] = Latency::default();
            }
        }
    }

    /// Begins to count anew.
    pub fn reset(&mut self) {
        self.counters.fill(RouteCounters::default());
        self.latencies.fill(Latency::default());
        self.times = Histogram::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(prefix: &str) -> RouteConfig {
        RouteConfig {
            prefix: prefix.as_bytes().into(),
            ..RouteConfig::to_pool(0)
        }
    }

    #[test]
    fn a_route_keeps_its_number_and_its_counts_as_long_as_it_is_used() {
        let (mut routes, mut stats) = (PerRoute::default(), ProxyStats::default());
        let pool: Arc<str> = "main".into();
        let a = routes.number(0, &route("a"), Some(&pool));
        let b = routes.number(1, &route("b"), Some(&pool));
        assert!(a != b && a > RouteId::OTHERS);
        routes.count(&mut stats, b, Tally::GetHit, 10);
        // The same route at another position, and one of the same prefix that leads elsewhere.
        assert_eq!(routes.number(0, &route("b"), Some(&pool)), b);
        let elsewhere = routes.number(1, &route("b"), None);
        assert!(elsewhere != a && elsewhere != b);
        routes.keep(&BTreeSet::from([b]));
        assert_eq!(routes.counters[b.place()].get_hits, 1);
        assert_eq!(routes.number(3, &route("c"), None), a, "reused");
        assert_eq!(
            routes.number(ROUTES_COUNTED_MAX, &route("d"), None),
            RouteId::OTHERS
        );
    }

    #[test]
    fn each_request_is_counted_once() {
        let (mut routes, mut stats) = (PerRoute::default(), ProxyStats::default());
        let id = routes.number(0, &route(""), None);
        for tally in [
            Tally::GetHit,
            Tally::GetMiss,
            Tally::GetUnavailable,
            Tally::Failed,
            Tally::Refused,
            Tally::Stored,
            Tally::DeleteMiss,
        ] {
            routes.count(&mut stats, id, tally, 5);
        }
        routes.count_denied(id);
        routes.count_error(id);
        let counters = routes.counters[id.place()];
        assert_eq!((counters.requests, counters.answer_bytes), (9, 35));
        assert_eq!((counters.get_misses, counters.unavailable), (2, 1));
        assert_eq!((counters.errors, counters.denied), (3, 1));
        assert_eq!((stats.get_misses, stats.request_errors), (2, 1));
    }
}
