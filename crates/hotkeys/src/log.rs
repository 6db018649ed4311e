//! What a worker did about its hot keys, why, and what came of it.
//!
//! Each promotion and retirement leaves an entry: what the worker saw at that moment, what load it
//! expected of it, and, once [`EFFECT_AFTER`] has passed, what its load then was. In `observe` mode
//! the same entries tell what would have been done, and there is an expectation only.
//!
//! The log is a ring of [`LOG_ENTRIES_MAX`] entries; what it no longer holds is counted.

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;

use evenkeel_types::Instant;

use super::state::Event;
use crate::popularity::LOAD_TIME_CONSTANT;

/// Entries that a worker keeps, 50 KB with the longest keys: some minutes of a worker whose hot keys
/// change all the time.
pub const LOG_ENTRIES_MAX: usize = 128;

/// How long after something was done its effect is measured: loads are averages, and after this long
/// one has gone more than nine tenths of the way to what it is.
pub const EFFECT_AFTER: Duration = Duration::from_secs(5);

const _: () = assert!(EFFECT_AFTER.as_millis() > 3 * LOAD_TIME_CONSTANT.as_millis());

/// What was done, or would have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HotKeyAction {
    /// A key gets replicas.
    Promoted,
    /// A key gets more of them.
    Widened,
    /// No more leases for a key; its replicas go once the last one has ended.
    Retired,
    /// `observe`: it would get replicas.
    WouldPromote,
    /// `observe`: it would lose them again.
    WouldRetire,
}

impl fmt::Display for HotKeyAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            HotKeyAction::Promoted => "promoted",
            HotKeyAction::Widened => "widened",
            HotKeyAction::Retired => "retired",
            HotKeyAction::WouldPromote => "would_promote",
            HotKeyAction::WouldRetire => "would_retire",
        })
    }
}

/// What a worker sees at one moment. Loads are in small requests per second; see
/// [`cost_of`](evenkeel_balance::load::cost_of).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loads {
    /// What it would serve without replicas.
    pub undiverted: f64,
    /// What it really serves, reads of other homes' replicas included.
    pub served: f64,
    /// The mean of all workers of the cluster, if it is known.
    pub mean: Option<f64>,
    /// Part of its time that it has something to do.
    pub busy: f64,
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// Counts a worker's entries, from 1. What is missing was overwritten.
    pub number: u64,
    /// When.
    pub at: Instant,
    /// What was done.
    pub action: HotKeyAction,
    /// Why.
    pub cause: Event,
    /// The key.
    pub key: Vec<u8>,
    /// Its replicas before.
    pub gamma_before: u8,
    /// Its replicas from then on.
    pub gamma: u8,
    /// What reads of all its copies, less the weight of its writes, add to the load: an average over one second,
    /// so that a key which has just become popular is more so than this says.
    pub rate: f64,
    /// What the worker saw.
    pub before: Loads,
    /// What the worker saw after [`EFFECT_AFTER`]. Nothing where nothing was done, or that time is
    /// not over.
    pub after: Option<Loads>,
}

impl LogEntry {
    /// What the worker should serve with this many replicas of the key, if all else stays as it was:
    /// each of the γ + 1 copies gets an equal part of the key's reads.
    pub fn expected(&self) -> f64 {
        let home_part = |gamma: u8| 1.0 / (f64::from(gamma) + 1.0);
        let change = home_part(self.gamma) - home_part(self.gamma_before);
        (self.before.served + self.rate.max(0.0) * change).max(0.0)
    }

    /// Whether anything was really done.
    fn is_done(&self) -> bool {
        !matches!(
            self.action,
            HotKeyAction::WouldPromote | HotKeyAction::WouldRetire
        )
    }
}

/// The log of one worker.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub struct Log {
    /// Oldest first, by ascending number.
    entries: VecDeque<LogEntry>,
    /// Entries ever made.
    made: u64,
    /// Entries overwritten.
    overwritten: u64,
    /// Entries up to this number want no effect any more.
    measured: u64,
}

impl Log {
    /// Adds an entry, which gets its number here.
    pub(crate) fn push(&mut self, entry: LogEntry) {
        if self.entries.len() == LOG_ENTRIES_MAX {
            self.entries.pop_front();
            self.overwritten += 1;
        }
        self.made += 1;
        let number = self.made;
        self.entries.push_back(LogEntry { number, ..entry });
    }

    /// Notes what the worker sees in all entries whose time has come.
    pub(crate) fn measure(&mut self, now: Instant, loads: Loads) {
        let first = self.made - self.entries.len() as u64 + 1;
        let from = (self.measured + 1).max(first) - first;
        for entry in self.entries.iter_mut().skip(from as usize) {
            if now < entry.at + EFFECT_AFTER {
                return;
            }
            if entry.is_done() {
                entry.after = Some(loads);
            }
            self.measured = entry.number;
        }
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &LogEntry> {
        self.entries.iter()
    }

    /// Entries ever made, and how many of them were overwritten.
    pub fn counts(&self) -> (u64, u64) {
        (self.made, self.overwritten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(ms: u64, action: HotKeyAction, gammas: (u8, u8)) -> LogEntry {
        LogEntry {
            number: 0,
            at: Instant::from_millis(ms),
            action,
            cause: Event::Promoted,
            key: b"k".to_vec(),
            gamma_before: gammas.0,
            gamma: gammas.1,
            rate: 1200.0,
            before: Loads {
                undiverted: 2000.0,
                served: 2000.0,
                mean: Some(1000.0),
                busy: 0.9,
            },
            after: None,
        }
    }

    #[test]
    fn what_is_expected_follows_from_the_parts_of_the_copies() {
        let expected = |gammas| entry(0, HotKeyAction::Promoted, gammas).expected();
        assert_eq!(expected((0, 3)), 2000.0 - 900.0);
        assert_eq!(expected((1, 3)), 2000.0 - 300.0);
        assert_eq!(expected((3, 0)), 2000.0 + 900.0);
        let outweighed = LogEntry {
            rate: -50.0,
            ..entry(0, HotKeyAction::Retired, (3, 0))
        };
        assert_eq!(outweighed.expected(), 2000.0);
    }

    #[test]
    fn effects_are_measured_once_and_of_what_was_done_alone() {
        let mut log = Log::default();
        log.push(entry(0, HotKeyAction::Promoted, (0, 1)));
        log.push(entry(1000, HotKeyAction::WouldPromote, (0, 1)));
        log.push(entry(2000, HotKeyAction::Retired, (1, 0)));
        let seen = |served| Loads {
            served,
            ..Loads::default()
        };
        let effects = |log: &Log| log.entries().map(|e| e.after).collect::<Vec<_>>();
        log.measure(Instant::from_millis(4999), seen(1.0));
        assert_eq!(effects(&log), [None; 3]);
        log.measure(Instant::from_millis(5000), seen(2.0));
        log.measure(Instant::from_millis(7000), seen(3.0));
        log.measure(Instant::from_millis(9000), seen(4.0));
        assert_eq!(effects(&log), [Some(seen(2.0)), None, Some(seen(3.0))]);
    }

    #[test]
    fn a_full_log_forgets_the_oldest_and_counts_it() {
        let mut log = Log::default();
        let all = LOG_ENTRIES_MAX as u64 + 10;
        for i in 0..all {
            log.push(entry(i, HotKeyAction::Promoted, (0, 1)));
        }
        assert_eq!(log.counts(), (all, 10));
        assert_eq!(log.entries().next().map(|e| e.number), Some(11));
        log.measure(Instant::from_millis(60_000), Loads::default());
        assert!(log.entries().all(|entry| entry.after.is_some()));
    }
}
