//! Choices of a generator: all from one seed.

use crate::exchange::next_random;

/// How many characters [`Choices::own`] appends.
pub const OWN_LEN: usize = 3;

/// A stream of random choices, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Choices {
    state: u64,
    session: u64,
}

impl Choices {
    /// The stream of a session: sessions of one run must not share theirs.
    pub fn of_session(seed: u64, session: u64) -> Choices {
        let mut state = seed ^ session.wrapping_mul(0x2545_f491_4f6c_dd1d);
        next_random(&mut state);
        Choices { state, session }
    }

    /// `key` made the session's own, so that sessions can follow each other without meeting: three
    /// characters that only sessions far away have too go behind it.
    pub fn own(&self, key: impl Into<Vec<u8>>) -> Vec<u8> {
        const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let digit = |weight: u64| DIGITS[(self.session / weight % 36) as usize];
        let mut key = key.into();
        key.extend([digit(36 * 36), digit(36), digit(1)]);
        key
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        next_random(&mut self.state)
    }

    /// A number below `end`, which is not nought.
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end as u64) as usize
    }

    /// A number below one of `ends`, each of which is taken as often as its weight says.
    pub fn below_one_of(&mut self, ends: &[(usize, usize)]) -> usize {
        let end = self.weighted(ends);
        self.below(end)
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `options`, which are not none.
    pub fn pick<'a, T: ?Sized>(&mut self, options: &[&'a T]) -> &'a T {
        options[self.below(options.len())]
    }

    /// One of `options`, each as often as its weight says.
    pub fn weighted<T: Copy>(&mut self, options: &[(usize, T)]) -> T {
        let total: usize = options.iter().map(|(weight, _)| weight).sum();
        let mut left = self.below(total);
        for (weight, option) in options {
            if left < *weight {
                return *option;
            }
            left -= weight;
        }
        unreachable!("the weights add up to the total")
    }
}
