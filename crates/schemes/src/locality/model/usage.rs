//! What an application asks: the mix of its commands, whose keys they are, and how large what it sends is.

use serde::{Deserialize, Serialize};

use crate::locality::Outcome;

/// What an application asks (the paper's Figures 2 and 7).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The share of each outcome among all, by its number; together 1.
    pub shares: [f64; Outcome::ALL.len()],
    /// The share of a page's commands whose key only its own session uses, 0 to 1.
    pub ps: f64,
    /// The share of reads in the bytes on the network, 0 to 1.
    pub rw_net: f64,
    /// Bytes of a request and its answer, on average: the paper's size_object, "avg. net size".
    pub object_bytes: f64,
    /// Bytes of a note or a question to a directory, TCP/IP included: size_message.
    pub message_bytes: f64,
}

impl Usage {
    /// [`Usage::shares`] of which only these are not 0.
    pub fn mix(of: &[(Outcome, f64)]) -> [f64; Outcome::ALL.len()] {
        let mut shares = [0.0; Outcome::ALL.len()];
        for &(outcome, share) in of {
            shares[usize::from(outcome.number())] = share;
        }
        shares
    }

    /// The share of an outcome.
    pub fn share(&self, outcome: Outcome) -> f64 {
        self.shares[usize::from(outcome.number())]
    }

    /// What a command has on average: of each outcome its share of what that has. `None` if one has nothing.
    pub fn mean(&self, of: impl Fn(Outcome) -> Option<f64>) -> Option<f64> {
        let outcomes = Outcome::ALL.into_iter();
        let parts = outcomes.map(|outcome| Some(self.share(outcome) * of(outcome)?));
        parts.sum()
    }

    /// The share of reads among commands: rw_cmd.
    pub fn reads(&self) -> f64 {
        self.share(Outcome::GetHit) + self.share(Outcome::GetMiss)
    }

    /// The same application with this many reads among its commands, 0 to 1.
    ///
    /// Reads keep their hits and misses, and everything else keeps its mix. A read brings as many bytes as before, and so does everything
    /// else; the mean size stays. Where nothing was read, a get finds what it asks for; where everything was, the rest are sets.
    #[must_use]
    pub fn with_reads(&self, reads: f64) -> Usage {
        let before = self.reads();
        let mut usage = *self;
        for outcome in Outcome::ALL {
            let share = &mut usage.shares[usize::from(outcome.number())];
            *share = match (outcome.is_read(), before) {
                (true, 0.0) => f64::from(outcome == Outcome::GetHit) * reads,
                (true, _) => *share / before * reads,
                (false, 1.0) => f64::from(outcome == Outcome::SetHit) * (1.0 - reads),
                (false, _) => *share / (1.0 - before) * (1.0 - reads),
            };
        }
        if 0.0 < before && before < 1.0 {
            let read_bytes = self.rw_net / before * reads;
            let other_bytes = (1.0 - self.rw_net) / (1.0 - before) * (1.0 - reads);
            usage.rw_net = read_bytes / (read_bytes + other_bytes);
        } else {
            usage.rw_net = reads;
        }
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_testkit::seed;
    use evenkeel_types::random::SplitMix64;

    #[test]
    fn other_shares_of_reads_keep_the_rest() {
        let seed = seed(0x39);
        let mut random = SplitMix64::new(seed);
        let mut unit = || random.next_u64() as f64 / u64::MAX as f64;
        for _ in 0..100 {
            let weights: [f64; Outcome::ALL.len()] = core::array::from_fn(|_| unit());
            let sum: f64 = weights.iter().sum();
            let usage = Usage {
                shares: weights.map(|weight| weight / sum),
                ps: 0.5,
                rw_net: unit(),
                object_bytes: 870.0,
                message_bytes: 100.0,
            };
            let (there, back) = (unit(), usage.reads());
            let moved = usage.with_reads(there);
            assert!((moved.reads() - there).abs() < 1e-9);
            assert!((moved.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let again = moved.with_reads(back);
            assert!((again.rw_net - usage.rw_net).abs() < 1e-9);
            for (again, before) in again.shares.iter().zip(&usage.shares) {
                assert!((again - before).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn reads_are_hits_and_the_rest_is_sets_where_there_was_none() {
        let all = |outcome| Usage {
            shares: Usage::mix(&[(outcome, 1.0)]),
            ps: 1.0,
            rw_net: f64::from(outcome == Outcome::GetHit),
            object_bytes: 870.0,
            message_bytes: 100.0,
        };
        let half = Usage {
            shares: Usage::mix(&[(Outcome::GetHit, 0.5), (Outcome::SetHit, 0.5)]),
            rw_net: 0.5,
            ..all(Outcome::SetHit)
        };
        assert_eq!(all(Outcome::SetHit).with_reads(0.5), half);
        assert_eq!(all(Outcome::GetHit).with_reads(0.5), half);
        assert_eq!(half.with_reads(0.0), all(Outcome::SetHit));
        assert_eq!(half.with_reads(1.0), all(Outcome::GetHit));
    }
}
