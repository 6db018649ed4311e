//! What happened in a run.

use super::fault_coverage::FaultCoverage;
use super::led_report::LedReport;
use core::fmt;
use evenkeel_hotkeys::ages::Ages;
use evenkeel_proxy_core::ProxyStats;
use evenkeel_server_core::Counters;
use std::collections::BTreeMap;

/// How often each thing happened, by name. Names are for people; tests ask that each of some list
/// happened at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The counts.
    pub counts: BTreeMap<&'static str, u64>,
    /// What went wrong with cachelets in the middle of changes.
    pub fault_coverage: FaultCoverage,
    /// What has happened to pools that were led to other servers.
    pub led: LedReport,
    /// Stands for every byte that arrived anywhere, and when. Equal plans give equal hashes.
    pub event_hash: u64,
    /// How stale the values were that applications were shown after they had been replaced.
    pub staleness: Ages,
}

impl Report {
    /// How often something happened.
    pub fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Adds another run's counts.
    pub fn add(&mut self, other: &Report) {
        for (name, count) in &other.counts {
            *self.counts.entry(name).or_default() += count;
        }
        self.fault_coverage.add(&other.fault_coverage);
        self.led.add(&other.led);
        self.event_hash ^= other.event_hash.rotate_left(1);
        self.staleness.add(&other.staleness);
    }

    pub(super) fn tell(&mut self, name: &'static str, times: u64) {
        *self.counts.entry(name).or_default() += times;
    }

    pub(super) fn take_worker(&mut self, counters: &Counters) {
        self.tell("server: leases granted", counters.leases_granted);
        self.tell("server: leases shortened", counters.leases_shortened);
        self.tell("server: propagations", counters.propagations);
        self.tell("server: links lost", counters.links_lost);
        self.tell("server: replica hits", counters.replica_hits);
        self.tell("server: replica misses", counters.replica_misses);
        self.tell("server: replicas stored", counters.replica_stores);
        self.tell(
            "server: replicas refused as old",
            counters.replica_refused_old,
        );
        self.tell(
            "server: replica orders early",
            counters.replica_orders_early,
        );
        self.tell("server: replicas removed", counters.replica_deletes);
        self.tell("server: requests pointed elsewhere", counters.moved);
        self.tell("server: answers held", counters.answers_held);
        self.tell("server: held until confirmed", counters.holds_confirmed);
        self.tell("server: held by lease", counters.holds_by_lease);
        self.tell("server: serving leases lost", counters.leases_lost);
        self.tell("server: serving leases by votes", counters.leases_by_votes);
        self.tell("server: votes given", counters.votes_given);
        self.tell("server: votes refused", counters.votes_refused);
        self.tell("server: answers too late", counters.answers_too_late);
    }

    pub(super) fn take_proxy(&mut self, stats: &ProxyStats) {
        self.tell("proxy: leases taken", stats.leases);
        self.tell("proxy: replica reads", stats.replica_reads);
        self.tell("proxy: replica hits", stats.replica_hits);
        self.tell("proxy: reads asked again", stats.reads_asked_again);
        self.tell("proxy: requests moved", stats.requests_moved);
        self.tell("proxy: requests parked", stats.requests_parked);
        self.tell("proxy: requests sent again", stats.requests_resent);
        self.tell("proxy: reads unavailable", stats.reads_unavailable);
        self.tell("proxy: errors", stats.request_errors);
    }

    pub(super) fn hash(&mut self, bytes: &[u8]) {
        // FNV-1a: small, and the same everywhere.
        for byte in bytes {
            self.event_hash = (self.event_hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in &self.counts {
            writeln!(f, "{count:>10}  {name}")?;
        }
        write!(f, "{}{}", self.fault_coverage, self.led)?;
        if self.staleness.count() > 0 {
            writeln!(f, "{}", Staleness(&self.staleness))?;
        }
        write!(f, "events {:016x}", self.event_hash)
    }
}

/// Shows how stale values were, for people.
struct Staleness<'a>(&'a Ages);

impl fmt::Display for Staleness<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |us: u64| us as f64 / 1000.0;
        write!(f, "staleness at most {} ms", millis(self.0.max_us()))?;
        for (bound, count) in self.0.within() {
            write!(
                f,
                "\n{count:>10}  values stale by {} ms or less",
                millis(bound)
            )?;
        }
        Ok(())
    }
}
