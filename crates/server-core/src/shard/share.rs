//! What a worker contributes to the answer to a command about the whole server.

use crate::shard::classes::ClassStats;
use crate::shard::counters::Counters;
use crate::shard::prefixes::Prefixes;

/// One worker's share, or several workers' together.
#[derive(Debug, Default)]
pub enum Share {
    /// That it was done.
    #[default]
    Done,
    /// What was counted.
    Counters(Box<Counters>),
    /// What is held and was evicted, by size, and what was counted.
    Classes(Box<(ClassStats, Counters)>),
    /// What was counted by prefix.
    Prefixes(Prefixes),
    /// Lines, which stand one behind the other.
    Lines(Vec<u8>),
}

impl Share {
    /// Adds another worker's share of the same kind.
    pub fn add(&mut self, other: Share) {
        match (self, other) {
            (sum @ Share::Done, other) => *sum = other,
            (Share::Counters(sum), Share::Counters(other)) => sum.add(&other),
            (Share::Classes(sum), Share::Classes(mut other)) => {
                sum.0.add(&mut other.0);
                sum.1.add(&other.1);
            }
            (Share::Prefixes(sum), Share::Prefixes(other)) => sum.add(&other),
            (Share::Lines(sum), Share::Lines(other)) => sum.extend_from_slice(&other),
            (_, other) => debug_assert!(matches!(other, Share::Done), "shares of one kind"),
        }
    }

    /// The lines.
    pub fn lines(&self) -> &[u8] {
        match self {
            Share::Lines(lines) => lines,
            _ => b"",
        }
    }

    /// Bytes of memory that the lines take.
    pub fn capacity(&self) -> usize {
        match self {
            Share::Lines(lines) => lines.capacity(),
            _ => 0,
        }
    }

    /// The lines, taken out.
    pub fn into_lines(self) -> Vec<u8> {
        match self {
            Share::Lines(lines) => lines,
            _ => Vec::new(),
        }
    }
}
