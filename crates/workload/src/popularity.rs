//! How unevenly requests fall on keys.

use crate::rng::{WorkloadRng, below, unit};
use crate::zipf::{KEYS_MAX, Zipf};
use crate::{WorkloadError, refuse};
use core::fmt;
use core::str::FromStr;

/// A law of popularity, as text `uniform`, `zipf:0.99` or `hotspot:0.95:0.05`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// Every key is equally likely.
    Uniform,
    /// Rank k (from 1) is asked for with probability proportional to k to the power −`exponent`.
    Zipf {
        /// 0 (uniform) to 2.
        exponent: f64,
    },
    /// A share of the operations goes to a share of the keys; uniform inside each part.
    Hotspot {
        /// Share of the operations that go to the hot keys, 0 to 1.
        operations: f64,
        /// Share of the keys that are hot, above 0 and up to 1; at least one key is.
        keys: f64,
    },
}

/// Says what the text of a [`Popularity`] looks like.
const FORMS: &str = "uniform, zipf:EXPONENT or hotspot:OPERATIONS_SHARE:KEYS_SHARE";

impl FromStr for Popularity {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let number = |part: &str| match part.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => refuse(format!("'{part}' in '{text}' is not a number")),
        };
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["uniform"] => Ok(Popularity::Uniform),
            ["zipf", exponent] => Ok(Popularity::Zipf {
                exponent: number(exponent)?,
            }),
            ["hotspot", operations, keys] => Ok(Popularity::Hotspot {
                operations: number(operations)?,
                keys: number(keys)?,
            }),
            _ => refuse(format!("'{text}' is not one of {FORMS}")),
        }
    }
}

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Popularity::Uniform => f.write_str("uniform"),
            Popularity::Zipf { exponent } => write!(f, "zipf:{exponent}"),
            Popularity::Hotspot { operations, keys } => write!(f, "hotspot:{operations}:{keys}"),
        }
    }
}

/// Draws ranks by a law of popularity: rank 0 is the hottest.
#[derive(Clone, Debug)]
pub struct RankSampler {
    n: u64,
    law: Law,
}

#[derive(Clone, Debug)]
enum Law {
    Uniform,
    Zipf(Zipf),
    Hotspot { operations: f64, hot: u64 },
}

impl RankSampler {
    /// A sampler over ranks `0..n`.
    ///
    /// # Errors
    /// When `n` is 0 or above [`KEYS_MAX`], or the law's parameters are outside their range.
    pub fn new(n: u64, popularity: Popularity) -> Result<Self, WorkloadError> {
        if !(1..=KEYS_MAX).contains(&n) {
            return refuse(format!(
                "the number of keys is {n}, not within 1 and {KEYS_MAX}"
            ));
        }
        let law = match popularity {
            Popularity::Uniform => Law::Uniform,
            Popularity::Zipf { exponent } => Law::Zipf(Zipf::new(n, exponent)?),
            Popularity::Hotspot { operations, keys } => {
                if !((0.0..=1.0).contains(&operations) && keys > 0.0 && keys <= 1.0) {
                    return refuse(format!("shares of '{popularity}' are not within 0 and 1"));
                }
                let hot = ((n as f64 * keys).round() as u64).clamp(1, n);
                Law::Hotspot { operations, hot }
            }
        };
        Ok(RankSampler { n, law })
    }

    /// The next rank.
    #[inline]
    pub fn sample(&self, rng: &mut WorkloadRng) -> u64 {
        match &self.law {
            Law::Uniform => below(rng, self.n),
            Law::Zipf(zipf) => zipf.sample(rng),
            Law::Hotspot { operations, hot } => {
                if *hot == self.n || unit(rng) < *operations {
                    below(rng, *hot)
                } else {
                    hot + below(rng, self.n - hot)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    #[test]
    fn a_hotspot_puts_its_share_on_its_keys() {
        let sampler = RankSampler::new(
            1000,
            Popularity::Hotspot {
                operations: 0.9,
                keys: 0.05,
            },
        )
        .unwrap();
        let seed = 5;
        println!("seed {seed}");
        let mut rng = stream(seed, 0);
        let mut drawn = vec![0u32; 1000];
        (0..1_000_000).for_each(|_| drawn[sampler.sample(&mut rng) as usize] += 1);
        // Hot: 900,000 over 50 keys. Cold: 100,000 over 950. Six standard deviations each.
        assert!(
            drawn[..50].iter().all(|&n| (17_200..18_800).contains(&n)),
            "{:?}",
            &drawn[..50]
        );
        assert!(
            drawn[50..].iter().all(|&n| (40..175).contains(&n)),
            "{:?}",
            &drawn[50..]
        );
    }

    #[test]
    fn a_hotspot_of_all_keys_is_uniform_and_one_of_few_has_a_key() {
        let mut rng = stream(6, 0);
        let all = RankSampler::new(
            4,
            Popularity::Hotspot {
                operations: 0.1,
                keys: 1.0,
            },
        )
        .unwrap();
        let mut drawn = [0u32; 4];
        (0..4000).for_each(|_| drawn[all.sample(&mut rng) as usize] += 1);
        assert!(drawn.iter().all(|&n| (800..1200).contains(&n)), "{drawn:?}");
        let one = RankSampler::new(
            4,
            Popularity::Hotspot {
                operations: 1.0,
                keys: 0.01,
            },
        )
        .unwrap();
        assert!((0..100).all(|_| one.sample(&mut rng) == 0));
    }

    #[test]
    fn laws_are_read_and_written() {
        for text in ["uniform", "zipf:0.99", "zipf:0", "hotspot:0.95:0.05"] {
            assert_eq!(text.parse::<Popularity>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "zipf",
            "zipf:",
            "zipf:x",
            "zipf:NaN",
            "zipf:1:2",
            "hotspot:0.5",
            "Uniform",
        ] {
            assert!(text.parse::<Popularity>().is_err(), "{text}");
        }
        for text in [
            "zipf:2.5",
            "zipf:-1",
            "hotspot:1.1:0.1",
            "hotspot:0.5:0",
            "hotspot:-1:0.5",
        ] {
            assert!(
                RankSampler::new(10, text.parse().unwrap()).is_err(),
                "{text}"
            );
        }
        assert!(RankSampler::new(0, Popularity::Uniform).is_err());
        assert!(RankSampler::new(KEYS_MAX + 1, Popularity::Uniform).is_err());
    }
}
