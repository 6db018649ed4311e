//! How unevenly requests fall on keys.

use crate::published::MetaCache;
use crate::ranks::Ranks;
use crate::rng::WorkloadRng;
use crate::text::{self, Term};
use crate::{WorkloadError, refuse};
use core::fmt;
use core::str::FromStr;

/// Largest exponent of Zipf's law. The steepest published one is 2.68 (cluster 1 of Yang, Yue and
/// Rashmi, OSDI 2020); at 5 the hottest key has 96 % of all requests, and steeper is one key.
pub const EXPONENT_MAX: f64 = 5.0;

/// Most keys of a workload. Tests of the laws go that far.
pub const KEYS_MAX: u64 = 1_000_000_000;

/// Ranks from which YCSB's scrambled Zipf draws, whatever the number of keys
/// (`ScrambledZipfianGenerator.ITEM_COUNT`).
const SCRAMBLED_RANKS: u64 = 10_000_000_000;

/// Exponent where a law of YCSB's names none (`ZipfianGenerator.ZIPFIAN_CONSTANT`).
const YCSB_EXPONENT: f64 = 0.99;

/// A law of popularity, as text `uniform`, `zipf(0.99)`, `scrambled-zipf(0.99)`, `latest(0.99)`,
/// `hotspot(0.95, 0.05)` or `meta(kvcache_reg)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// Every key is equally likely.
    Uniform,
    /// Rank k (from 1) is asked for with probability proportional to k to the power −`exponent`
    /// (Zipf 1949).
    Zipf {
        /// 0 (uniform) to [`EXPONENT_MAX`].
        exponent: f64,
    },
    /// Zipf's law over ten billion ranks, each thrown onto a key by a hash, as YCSB's
    /// `ScrambledZipfianGenerator` does: keys on which several ranks fall are hotter, and the many
    /// rare ranks make a nearly uniform ground. It is flatter than `zipf` of the same exponent.
    ScrambledZipf {
        /// 0 to [`EXPONENT_MAX`].
        exponent: f64,
    },
    /// The newest key is the hottest (`SkewedLatestGenerator` of YCSB): rank k is the key that was
    /// inserted k before the last.
    Latest {
        /// 0 to [`EXPONENT_MAX`].
        exponent: f64,
    },
    /// A share of the operations goes to a share of the keys; uniform inside each part.
    Hotspot {
        /// Share of the operations that go to the hot keys, 0 to 1.
        operations: f64,
        /// Share of the keys that are hot, above 0 and up to 1; at least one key is.
        keys: f64,
    },
    /// As measured on a cache at Meta: this many keys together draw this many of the accesses (CacheLib's
    /// test configurations; Berg et al., OSDI 2020). With another number of keys than it was measured
    /// on, every group of keys grows or shrinks in proportion.
    Meta(MetaCache),
}

/// Says what the text of a [`Popularity`] looks like.
const FORMS: &str = "uniform, zipf(EXPONENT), scrambled-zipf(EXPONENT), latest(EXPONENT), \
                     hotspot(OPERATIONS_SHARE, KEYS_SHARE) or meta(CACHE)";

impl FromStr for Popularity {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let mut term = Term::parse(text)?;
        let popularity = match term.name() {
            "uniform" => Popularity::Uniform,
            "zipf" => Popularity::Zipf {
                exponent: term.required(0, "exponent", text::number)?,
            },
            "scrambled-zipf" => Popularity::ScrambledZipf {
                exponent: term.or(0, "exponent", YCSB_EXPONENT, text::number)?,
            },
            "latest" => Popularity::Latest {
                exponent: term.or(0, "exponent", YCSB_EXPONENT, text::number)?,
            },
            "hotspot" => Popularity::Hotspot {
                operations: term.required(0, "operations", text::number)?,
                keys: term.required(1, "keys", text::number)?,
            },
            "meta" => Popularity::Meta(term.required(0, "cache", text::parsed)?),
            _ => return term.unknown("a law of popularity", FORMS),
        };
        term.finish()?;
        popularity.check()?;
        Ok(popularity)
    }
}

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Popularity::Uniform => f.write_str("uniform"),
            Popularity::Zipf { exponent } => write!(f, "zipf({exponent})"),
            Popularity::ScrambledZipf { exponent } => write!(f, "scrambled-zipf({exponent})"),
            Popularity::Latest { exponent } => write!(f, "latest({exponent})"),
            Popularity::Hotspot { operations, keys } => write!(f, "hotspot({operations}, {keys})"),
            Popularity::Meta(cache) => write!(f, "meta({cache})"),
        }
    }
}

impl Popularity {
    /// Refuses parameters outside their range.
    pub(crate) fn check(&self) -> Result<(), WorkloadError> {
        match *self {
            Popularity::Zipf { exponent }
            | Popularity::ScrambledZipf { exponent }
            | Popularity::Latest { exponent }
                if !(0.0..=EXPONENT_MAX).contains(&exponent) =>
            {
                refuse(format!(
                    "exponent {exponent} is not within 0 and {EXPONENT_MAX}"
                ))
            }
            Popularity::Hotspot { operations, keys }
                if !((0.0..=1.0).contains(&operations) && keys > 0.0 && keys <= 1.0) =>
            {
                refuse(format!("shares of '{self}' are not within 0 and 1"))
            }
            _ => Ok(()),
        }
    }
}

/// Draws ranks by a law of popularity: rank 0 is the hottest.
#[derive(Clone, Debug)]
pub struct RankSampler {
    ranks: Ranks,
}

impl RankSampler {
    /// A sampler for `n` keys. Its ranks are `0..n`; of `scrambled-zipf` they are `0..10^10`, and
    /// several fall on a key. Takes at most about a millisecond and 100 KiB, whatever `n`.
    ///
    /// # Errors
    /// When `n` is 0 or above [`KEYS_MAX`], or the law's parameters are outside their range.
    pub fn new(n: u64, popularity: Popularity) -> Result<Self, WorkloadError> {
        if !(1..=KEYS_MAX).contains(&n) {
            return refuse(format!(
                "the number of keys is {n}, not within 1 and {KEYS_MAX}"
            ));
        }
        popularity.check()?;
        let ranks = match popularity {
            Popularity::Uniform => Ranks::of_classes(&[(n, 1.0)]),
            Popularity::Zipf { exponent } | Popularity::Latest { exponent } => {
                Ranks::zipf(n, exponent)
            }
            Popularity::ScrambledZipf { exponent } => Ranks::zipf(SCRAMBLED_RANKS, exponent),
            Popularity::Hotspot { operations, keys } => {
                let hot = ((n as f64 * keys).round() as u64).clamp(1, n);
                if hot == n {
                    Ranks::of_classes(&[(n, 1.0)])
                } else {
                    Ranks::of_classes(&[(hot, operations), (n - hot, 1.0 - operations)])
                }
            }
            Popularity::Meta(cache) => Ranks::of_classes(&scaled(&cache.popularity()?.classes, n)),
        };
        Ok(RankSampler { ranks })
    }

    /// The next rank.
    #[inline]
    pub fn sample(&self, rng: &mut WorkloadRng) -> u64 {
        self.ranks.sample(rng)
    }

    /// Probability of a rank, 0 beyond the last: what a simulator or a test compares with.
    pub fn probability(&self, rank: u64) -> f64 {
        self.ranks.probability(rank)
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u64 {
        self.ranks.len()
    }
}

/// Classes of keys stretched or shrunk to `n` keys in all. Class borders are scaled, so that rounding
/// does not add up; a class that shrinks to nothing gives its accesses to the next.
fn scaled(classes: &[(u64, f64)], n: u64) -> Vec<(u64, f64)> {
    let measured: u64 = classes.iter().map(|(keys, _)| keys).sum();
    let (mut scaled, mut border, mut end, mut carried) = (Vec::new(), 0, 0u64, 0.0);
    for &(keys, accesses) in classes {
        end += keys;
        let to = (u128::from(end) * u128::from(n) / u128::from(measured)) as u64;
        carried += accesses;
        if to > border {
            scaled.push((to - border, carried));
            (border, carried) = (to, 0.0);
        }
    }
    scaled
}

/// FNV-1a over the eight bytes of a number, lowest first, and without its sign: how YCSB turns
/// numbers into keys (`Utils.hash`, `Math.abs`).
#[inline]
pub(crate) fn ycsb_hash(number: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in number.to_le_bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (hash as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;
    use crate::statistics::{assert_fits, seed};

    /// Every law against the definition in its documentation, worked out rank by rank.
    #[test]
    fn laws_are_drawn_as_they_are_defined() {
        let seed = seed();
        let n = 1000u64;
        let uniform = |_: u64| 1e-3;
        let hotspot = |rank: u64| if rank < 50 { 0.9 / 50.0 } else { 0.1 / 950.0 };
        let total: f64 = (1..=n).map(|k| (k as f64).powf(-0.8)).sum();
        let latest = |rank: u64| ((rank + 1) as f64).powf(-0.8) / total;
        let cases: [(&str, &dyn Fn(u64) -> f64); 5] = [
            ("uniform", &uniform),
            ("hotspot(0.9, 0.05)", &hotspot),
            ("hotspot(0.9, keys=0.05)", &hotspot),
            ("hotspot(0.3, 1)", &uniform),
            ("latest(0.8)", &latest),
        ];
        for (case, (text, exact)) in cases.into_iter().enumerate() {
            let sampler = RankSampler::new(n, text.parse().unwrap()).unwrap();
            let mut rng = stream(seed, case as u64);
            assert_fits(text, n, exact, 500_000, || sampler.sample(&mut rng));
            for rank in [0, 1, 49, 50, 999] {
                assert!((sampler.probability(rank) - exact(rank)).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn a_hotspot_of_few_keys_has_one() {
        let mut rng = stream(6, 0);
        let one = RankSampler::new(4, "hotspot(1, 0.01)".parse().unwrap()).unwrap();
        assert!((0..100).all(|_| one.sample(&mut rng) == 0));
    }

    /// The hash as YCSB's own class computes it.
    #[test]
    fn the_scrambling_hash_is_that_of_ycsb() {
        for (number, hash) in [
            (0, 6_284_781_860_667_377_211),
            (1, 8_517_097_267_634_966_620),
            (2, 1_820_151_046_732_198_393),
        ] {
            assert_eq!(ycsb_hash(number), hash, "user{number}");
        }
    }

    #[test]
    fn scaling_keeps_all_keys_and_accesses() {
        let classes = [(1, 50.0), (1, 30.0), (8, 15.0), (90, 5.0)];
        assert_eq!(scaled(&classes, 100), classes);
        assert_eq!(
            scaled(&classes, 200),
            [(2, 50.0), (2, 30.0), (16, 15.0), (180, 5.0)]
        );
        for n in [1, 3, 10, 33] {
            let small = scaled(&classes, n);
            assert_eq!(small.iter().map(|(keys, _)| keys).sum::<u64>(), n);
            assert_eq!(small.iter().map(|(_, weight)| weight).sum::<f64>(), 100.0);
        }
        assert_eq!(scaled(&classes, 10), [(1, 95.0), (9, 5.0)]);
    }

    #[test]
    fn laws_are_read_and_written() {
        for text in [
            "uniform",
            "zipf(0.99)",
            "zipf(0)",
            "scrambled-zipf(0.5)",
            "latest(1)",
            "hotspot(0.95, 0.05)",
            "meta(kvcache_reg)",
        ] {
            assert_eq!(text.parse::<Popularity>().unwrap().to_string(), text);
        }
        assert_eq!(
            "latest".parse::<Popularity>().unwrap().to_string(),
            "latest(0.99)"
        );
        for text in [
            "",
            "zipf",
            "zipf()",
            "zipf(x)",
            "zipf(NaN)",
            "zipf(1, 2)",
            "zipf:0.99",
            "zipf(5.1)",
            "zipf(-1)",
            "hotspot(0.5)",
            "hotspot(1.1, 0.1)",
            "hotspot(0.5, 0)",
            "Uniform",
            "uniform(1)",
            "meta(other)",
        ] {
            assert!(text.parse::<Popularity>().is_err(), "{text}");
        }
        assert!(RankSampler::new(0, Popularity::Uniform).is_err());
        assert!(RankSampler::new(KEYS_MAX + 1, Popularity::Uniform).is_err());
        assert!(RankSampler::new(9, Popularity::Zipf { exponent: f64::NAN }).is_err());
    }
}
