//! The moves of a state machine, counted.

use core::fmt::Display;

/// Counts moves of a state machine and refuses those that are not in its table.
#[derive(Clone, Debug)]
pub struct Transitions<E: 'static, S: 'static, const N: usize> {
    /// What has the states, with its article.
    of: &'static str,
    moves: &'static [(E, S, S); N],
    counts: [u64; N],
}

impl<E: Copy + PartialEq + Display, S: Copy + PartialEq + Display, const N: usize>
    Transitions<E, S, N>
{
    /// None was made yet of these moves.
    pub const fn new(of: &'static str, moves: &'static [(E, S, S); N]) -> Self {
        let counts = [0; N];
        Transitions { of, moves, counts }
    }

    /// Counts a move.
    ///
    /// # Panics
    ///
    /// If the table does not have it: the state machine is broken, and going on could serve stale values.
    pub fn record(&mut self, event: E, from: S, to: S) {
        let Some(i) = self.moves.iter().position(|&m| m == (event, from, to)) else {
            panic!("{event} may not take {} from {from} to {to}", self.of);
        };
        self.counts[i] += 1;
    }

    /// How often each move was made, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (E, S, S, u64)> {
        let counted = self.moves.iter().zip(self.counts);
        counted.map(|(&(event, from, to), count)| (event, from, to, count))
    }
}
