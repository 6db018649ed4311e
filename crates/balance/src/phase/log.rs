//! What a server's balancer decided, why, and what came of it.
//!
//! Each change of state and each plan leaves an entry: what was measured then, what was expected of it, and,
//! [`EFFECT_AFTER_INTERVALS`] later, what was measured instead. The log is a ring of [`LOG_ENTRIES_MAX`] entries;
//! what it no longer holds is counted.

use std::collections::VecDeque;

use evenkeel_types::Instant;
use serde::{Deserialize, Serialize};

use super::state::{Event, State};
use crate::local::Method;

/// Entries that a server keeps, about 200 KB: some hours of a server that is never even.
pub const LOG_ENTRIES_MAX: usize = 1000;

/// After this many intervals the effect of a decision is measured: as long as an imbalance has to last before
/// anything is done about it.
pub const EFFECT_AFTER_INTERVALS: u64 = 4;

/// A server's loads in one interval. Loads are in small requests per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Load of the most loaded worker.
    pub load_max: f64,
    /// Mean load of the server's workers.
    pub load_mean: f64,
    /// Sum of how far each worker is from that mean.
    pub deviation: f64,
    /// Mean load of the cluster's workers, or of the server's where nobody knows it.
    pub cluster_mean: f64,
    /// What each of the server's workers should carry, by what it can do.
    #[serde(default)]
    pub fair_load: f64,
    /// Workers that are overloaded.
    pub overloaded: usize,
    /// Workers of the server.
    pub workers: usize,
    /// Keys that have replicas elsewhere.
    pub replicated_keys: usize,
    /// Part of the requests for the overloaded workers' hottest keys that write.
    pub write_share: f64,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseAction {
    /// The balancer is at something else now.
    Changed {
        /// Why.
        event: Event,
        /// What it was at.
        from: State,
        /// What it is at.
        to: State,
    },
    /// Cachelets pass between workers.
    Moved {
        /// How many.
        moves: usize,
        /// Who found the plan.
        method: Method,
        /// Load of the most loaded worker that the plan predicts.
        load_max_expected: f64,
    },
    /// Cachelets go back to their home workers.
    WentHome {
        /// How many.
        moves: usize,
    },
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// Counts a server's entries, from 1. What is missing was overwritten.
    pub number: u64,
    /// When.
    pub at: Instant,
    /// In which interval, from 1.
    pub interval: u64,
    /// What was decided.
    pub deed: PhaseAction,
    /// What was measured.
    pub before: Measurement,
    /// What was measured [`EFFECT_AFTER_INTERVALS`] later, once that time is over.
    pub after: Option<Measurement>,
}

/// The log of one server.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Oldest first.
    entries: VecDeque<LogEntry>,
    /// Entries ever made.
    made: u64,
    /// Entries at the end of the list whose effect is not measured yet.
    unmeasured: usize,
}

impl Log {
    pub(super) fn push(
        &mut self,
        at: Instant,
        interval: u64,
        deed: PhaseAction,
        before: Measurement,
    ) {
        if self.entries.len() == LOG_ENTRIES_MAX {
            self.entries.pop_front();
            self.unmeasured = self.unmeasured.min(self.entries.len());
        }
        self.made += 1;
        self.unmeasured += 1;
        self.entries.push_back(LogEntry {
            number: self.made,
            at,
            interval,
            deed,
            before,
            after: None,
        });
    }

    /// Notes a measurement in all entries whose time has come.
    pub(super) fn measure(&mut self, interval: u64, measurement: Measurement) {
        let first = self.entries.len() - self.unmeasured;
        for entry in self.entries.iter_mut().skip(first) {
            if interval < entry.interval + EFFECT_AFTER_INTERVALS {
                return;
            }
            entry.after = Some(measurement);
            self.unmeasured -= 1;
        }
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &LogEntry> {
        self.entries.iter()
    }

    /// Entries ever made, and how many of them were overwritten.
    pub fn counts(&self) -> (u64, u64) {
        (self.made, self.made - self.entries.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEED: PhaseAction = PhaseAction::WentHome { moves: 1 };

    fn seen(load_max: f64) -> Measurement {
        Measurement {
            load_max,
            ..Measurement::default()
        }
    }

    #[test]
    fn effects_are_measured_once_when_their_time_has_come() {
        let mut log = Log::default();
        log.push(Instant(1), 1, DEED, seen(1.0));
        log.push(Instant(2), 2, DEED, seen(2.0));
        let effects = |log: &Log| log.entries().map(|e| e.after).collect::<Vec<_>>();
        log.measure(4, seen(4.0));
        assert_eq!(effects(&log), [None, None]);
        log.measure(5, seen(5.0));
        log.measure(6, seen(6.0));
        log.measure(7, seen(7.0));
        assert_eq!(effects(&log), [Some(seen(5.0)), Some(seen(6.0))]);
    }

    #[test]
    fn a_full_log_forgets_the_oldest_and_counts_it() {
        let mut log = Log::default();
        let all = LOG_ENTRIES_MAX as u64 + 10;
        for i in 0..all {
            log.push(Instant(i), 1, DEED, seen(0.0));
        }
        assert_eq!(log.counts(), (all, 10));
        assert_eq!(log.entries().next().map(|e| e.number), Some(11));
        log.measure(5, seen(1.0));
        assert!(log.entries().all(|entry| entry.after.is_some()));
        log.push(Instant(9), 5, DEED, seen(0.0));
        log.measure(9, seen(2.0));
        assert_eq!(log.entries().last().unwrap().after, Some(seen(2.0)));
    }
}
