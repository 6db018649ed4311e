//! Bounded load: no server holds more than (1 + ε) times its share (Mirrokni, Thorup and
//! Zadimoghaddam, "Consistent hashing with bounded loads", SODA 2018).
//!
//! A key goes to the first of its candidates that is below its bound, so that what a server has too
//! much runs over to those that follow it. The loads are the caller's: requests under way, say.
//! Whoever reads a key must look where it may have run over to; for a cache that means a miss or a
//! second question, so this is for reads that any of several copies can answer.

/// Smallest ε: closer to an even load keys move so often that nothing stays cached (the length of a
/// walk grows with 1/ε²).
pub const EPSILON_MIN: f64 = 0.01;

/// Largest ε: the bound is then out of reach for all but the smallest loads.
pub const EPSILON_MAX: f64 = 100.0;

/// How far above its share a server may be loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadBound {
    epsilon: f64,
}

/// An ε that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "a load bound of {0}: give how far above its share a server may be, {EPSILON_MIN} to {EPSILON_MAX}"
)]
pub struct BadLoadBound(f64);

impl LoadBound {
    /// Bounds loads to (1 + `epsilon`) times the share.
    ///
    /// # Errors
    ///
    /// Below [`EPSILON_MIN`] or above [`EPSILON_MAX`].
    pub fn new(epsilon: f64) -> Result<Self, BadLoadBound> {
        match epsilon {
            EPSILON_MIN..=EPSILON_MAX => Ok(LoadBound { epsilon }),
            _ => Err(BadLoadBound(epsilon)),
        }
    }

    /// Most load that a server with a share of `weight` in `weights` may have when all servers
    /// together have `total`: the next whole number from (1 + ε) times its share.
    pub fn capacity(self, total: u64, weight: u32, weights: u64) -> u64 {
        let share = total as f64 * f64::from(weight) / weights as f64;
        ((1.0 + self.epsilon) * share).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_rounded_up() {
        let bound = LoadBound::new(0.25).unwrap();
        assert_eq!(bound.capacity(1, 1, 10), 1);
        assert_eq!(bound.capacity(8, 1, 2), 5);
        assert_eq!(bound.capacity(8, 3, 4), 8);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 101.0] {
            assert!(LoadBound::new(bad).is_err());
        }
    }
}
