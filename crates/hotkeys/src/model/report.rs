//! What happened in a run.

use core::fmt;
use std::collections::BTreeMap;

use crate::server::HotKeys;
use crate::state::MOVES;

/// What happened, and how often.
pub(super) struct Report {
    pub(super) counts: BTreeMap<&'static str, u64>,
    /// In the order of `MOVES`.
    pub(super) moves: [u64; MOVES.len()],
}

impl Default for Report {
    fn default() -> Self {
        Report {
            counts: BTreeMap::new(),
            moves: [0; MOVES.len()],
        }
    }
}

impl Report {
    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(super) fn take_moves(&mut self, hot: &HotKeys) {
        for (sum, (.., count)) in self.moves.iter_mut().zip(hot.transitions().iter()) {
            *sum += count;
        }
    }

    pub(super) fn add(&mut self, other: &Report) {
        for (what, count) in &other.counts {
            *self.counts.entry(what).or_default() += count;
        }
        for (sum, count) in self.moves.iter_mut().zip(other.moves) {
            *sum += count;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.counts {
            writeln!(f, "{count:>10}  {what}")?;
        }
        for ((event, from, to), count) in MOVES.iter().zip(self.moves) {
            writeln!(f, "{count:>10}  {event}: {from} -> {to}")?;
        }
        Ok(())
    }
}
