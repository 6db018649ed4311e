//! Sizes and times to live.
//!
//! They are not drawn from a stream of random numbers but from the key's hash, so that a key keeps what
//! it has: anyone who writes it, in whatever order and on however many threads. Length of the key, size
//! of the value and time to live use hashes of their own and so do not depend on each other.

use crate::alias::AliasTable;
use crate::histogram;
use crate::published::{MetaCache, TwitterCluster};
use crate::rng::{mix64, unit_of};
use crate::text::{self, Term};
use crate::{WorkloadError, refuse};
use core::fmt;
use evenkeel_types::limits::{ITEM_SIZE_DEFAULT, KEY_LEN_MAX};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Largest value in bytes: what a memcached takes under its default limits, overhead and key aside.
pub const VALUE_LEN_MAX: u32 = ITEM_SIZE_DEFAULT as u32;

/// Values of laws without an end are cut here, in bytes, so that they can be stored: Atikoglu et al. see
/// none above 1 MB. Of ETC's values 3·10⁻¹⁰ are cut.
pub const VALUE_LEN_TAIL_MAX: u32 = 1_000_000;

/// Longest time to live in seconds: memcached takes larger numbers for points in time
/// (`protocol.txt`, "Expiration times"), and a workload knows no clock. Longer ones, such as the 92.6
/// days of Twitter's cluster 27, are cut here.
pub const TTL_S_MAX: u32 = 30 * 24 * 3600;

/// What a distribution is of. Tells how its numbers are written and how far they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    KeyLen,
    ValueLen,
    Ttl,
}

impl Quantity {
    fn read(self, text: &str) -> Result<u32, WorkloadError> {
        let number = match self {
            Quantity::Ttl if text == "none" => 0,
            Quantity::Ttl => {
                let ns = text::time_ns(text)?;
                if !ns.is_multiple_of(NS_PER_S) {
                    return refuse(format!("'{text}' is not a whole number of seconds"));
                }
                (ns / NS_PER_S).min(u64::from(TTL_S_MAX))
            }
            Quantity::KeyLen | Quantity::ValueLen => text::count(text)?,
        };
        match u32::try_from(number) {
            Ok(number) if number <= self.max() => Ok(number),
            _ => refuse(format!("'{text}' is above {}", self.show(self.max()))),
        }
    }

    fn max(self) -> u32 {
        match self {
            Quantity::KeyLen => KEY_LEN_MAX as u32,
            Quantity::ValueLen => VALUE_LEN_MAX,
            Quantity::Ttl => TTL_S_MAX,
        }
    }

    fn show(self, number: u32) -> String {
        match self {
            Quantity::Ttl if number == 0 => "none".to_owned(),
            Quantity::Ttl => text::show_ns(u64::from(number) * NS_PER_S),
            _ => number.to_string(),
        }
    }

    fn forms(self) -> &'static str {
        match self {
            Quantity::KeyLen => {
                "BYTES, MIN..MAX, choice(BYTES=SHARE, …), etc, twitter(CLUSTER), meta(CACHE) or \
                 file(PATH, SECTION)"
            }
            Quantity::ValueLen => {
                "BYTES, MIN..MAX, choice(BYTES=SHARE, …), geometric(MEAN), etc, twitter(CLUSTER), \
                 meta(CACHE) or file(PATH, SECTION)"
            }
            Quantity::Ttl => "none, TIME, MIN..MAX, choice(TIME=SHARE, …) or twitter(CLUSTER)",
        }
    }

    /// Sets the hashes of the three quantities apart.
    fn salt(self) -> u64 {
        match self {
            Quantity::ValueLen => 0,
            Quantity::KeyLen => 0x6b65_796c_656e,
            Quantity::Ttl => 0x0074_746c,
        }
    }
}

const NS_PER_S: u64 = 1_000_000_000;

/// How a number follows from a hash.
#[derive(Clone, Debug)]
enum Law {
    /// Both ends included, each number equally likely.
    Range(u32, u32),
    /// From 1: the next number is the less likely by the same factor, whose logarithm this is.
    Geometric { log_factor: f64 },
    /// Lengths of the keys of Facebook's ETC.
    EtcKeys,
    /// Sizes of the values of Facebook's ETC.
    EtcValues,
    /// Ranges with weights.
    Table(Arc<Table>),
}

#[derive(Debug)]
struct Table {
    alias: AliasTable,
    ranges: Box<[(u32, u32)]>,
}

/// A law over numbers, together with its text.
#[derive(Clone, Debug)]
struct Distribution {
    text: Arc<str>,
    quantity: Quantity,
    law: Law,
}

impl PartialEq for Distribution {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.quantity == other.quantity
    }
}

impl Distribution {
    fn parse(text: &str, quantity: Quantity) -> Result<Self, WorkloadError> {
        let mut term = Term::parse(text)?;
        // What is shown: the text as given, unless there is a plainer one.
        let mut shown = text.trim().to_owned();
        let law = match (term.name(), quantity) {
            ("choice", _) => {
                let mut weighted = Vec::new();
                for (range, share) in term.pairs()? {
                    weighted.push((read_range(range, quantity)?, text::number(share)?));
                }
                Law::table(&weighted)?
            }
            ("geometric", Quantity::ValueLen) => {
                Law::geometric(term.required(0, "mean", text::number)?)?
            }
            ("etc", Quantity::KeyLen) => Law::EtcKeys,
            ("etc", Quantity::ValueLen) => Law::EtcValues,
            ("twitter", _) => {
                let number = term.required(0, "cluster", text::count)?;
                Law::of_twitter(&TwitterCluster::of_number(number)?, quantity)?
            }
            ("meta", Quantity::ValueLen) => {
                let cache: MetaCache = term.required(0, "cache", text::parsed)?;
                Law::table(&singles(cache.value_sizes()?, quantity))?
            }
            ("meta", Quantity::KeyLen) => {
                let cache: MetaCache = term.required(0, "cache", text::parsed)?;
                Distribution::parse(cache.key_sizes(), quantity)?.law
            }
            ("file", Quantity::KeyLen | Quantity::ValueLen) => {
                let path = term.required(0, "path", |path| Ok(path.to_owned()))?;
                let section = term.required(1, "section", |section| Ok(section.to_owned()))?;
                let read = histogram::read(Path::new(&path), &section)?;
                Law::table(&singles(read, quantity))?
            }
            _ if !term.has_arguments() => {
                let (min, max) = read_range(text.trim(), quantity).or_else(|error| {
                    // A word is a wrong name; anything else is a wrong number.
                    match term.name().chars().next() {
                        Some(c) if c.is_ascii_digit() => Err(error),
                        _ => term.unknown("known here", quantity.forms()),
                    }
                })?;
                shown = show_range(min, max, quantity);
                Law::Range(min, max)
            }
            _ => return term.unknown("known here", quantity.forms()),
        };
        term.finish()?;
        Ok(Distribution {
            text: shown.into(),
            quantity,
            law,
        })
    }

    /// The number of the key with this hash.
    #[inline]
    fn of(&self, key_hash: u64) -> u32 {
        if let Law::Range(min, max) = self.law
            && min == max
        {
            return min;
        }
        self.drawn(mix64(key_hash ^ self.quantity.salt()))
    }

    fn drawn(&self, random: u64) -> u32 {
        match &self.law {
            Law::Range(min, max) => in_range(*min, *max, random),
            Law::Geometric { log_factor } => {
                let steps = (1.0 - unit_of(random)).ln() / log_factor;
                1 + (steps as u32).min(VALUE_LEN_TAIL_MAX - 1)
            }
            Law::EtcKeys => etc_key_len(unit_of(random)),
            Law::EtcValues => etc_value_len(unit_of(random)),
            Law::Table(table) => {
                let (min, max) = table.ranges[table.alias.pick(random)];
                // A second number, since the first one's place decided about the alias.
                in_range(min, max, mix64(random))
            }
        }
    }

    /// The largest number that comes up.
    fn max(&self) -> u32 {
        match &self.law {
            Law::Range(_, max) => *max,
            Law::EtcKeys => KEY_LEN_MAX as u32,
            Law::Geometric { .. } | Law::EtcValues => VALUE_LEN_TAIL_MAX,
            Law::Table(table) => table.ranges.iter().map(|&(_, max)| max).max().unwrap_or(0),
        }
    }
}

impl Law {
    fn table(weighted: &[((u32, u32), f64)]) -> Result<Self, WorkloadError> {
        let usable = |weight: &f64| weight.is_finite() && *weight >= 0.0;
        let (ranges, weights): (Vec<_>, Vec<f64>) = weighted.iter().copied().unzip();
        if !weights.iter().all(usable) || weights.iter().sum::<f64>() <= 0.0 {
            return refuse("shares are at least 0, and one of them above");
        }
        Ok(Law::Table(Arc::new(Table {
            alias: AliasTable::new(&weights),
            ranges: ranges.into(),
        })))
    }

    /// Numbers from 1 with this mean.
    fn geometric(mean: f64) -> Result<Self, WorkloadError> {
        if !(1.0..=f64::from(VALUE_LEN_TAIL_MAX)).contains(&mean) {
            return refuse(format!(
                "mean {mean} is not within 1 and {VALUE_LEN_TAIL_MAX}"
            ));
        }
        Ok(Law::Geometric {
            // At mean 1 the logarithm is -∞, and every number 1.
            log_factor: (1.0 - 1.0 / mean).ln(),
        })
    }

    /// Of sizes only means are published. Keys of a cluster look alike and get that length; the sizes of
    /// values get the geometric law, which of all laws with this mean supposes least (it has the
    /// largest entropy).
    fn of_twitter(cluster: &TwitterCluster, quantity: Quantity) -> Result<Self, WorkloadError> {
        match quantity {
            Quantity::KeyLen => Ok(Law::Range(cluster.key_len_mean, cluster.key_len_mean)),
            Quantity::ValueLen => Law::geometric(f64::from(cluster.value_len_mean.max(1))),
            Quantity::Ttl => {
                let ttls: Vec<_> = cluster
                    .ttls
                    .iter()
                    .map(|&(seconds, share)| {
                        let seconds = seconds.clamp(1, u64::from(TTL_S_MAX)) as u32;
                        ((seconds, seconds), share)
                    })
                    .collect();
                Law::table(&ttls)
            }
        }
    }
}

/// Weighted numbers as ranges of one, those above the largest at the largest.
fn singles(weighted: Vec<(u32, f64)>, quantity: Quantity) -> Vec<((u32, u32), f64)> {
    weighted
        .into_iter()
        .map(|(number, weight)| {
            let number = number.min(match quantity {
                Quantity::ValueLen => VALUE_LEN_TAIL_MAX,
                other => other.max(),
            });
            ((number, number), weight)
        })
        .collect()
}

fn read_range(text: &str, quantity: Quantity) -> Result<(u32, u32), WorkloadError> {
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    let (min, max) = (quantity.read(min.trim())?, quantity.read(max.trim())?);
    if min > max {
        return refuse(format!("'{text}' ends before it begins"));
    }
    Ok((min, max))
}

fn show_range(min: u32, max: u32, quantity: Quantity) -> String {
    if min == max {
        quantity.show(min)
    } else {
        format!("{}..{}", quantity.show(min), quantity.show(max))
    }
}

/// A number from `min` to `max`, both included.
#[inline]
fn in_range(min: u32, max: u32, random: u64) -> u32 {
    let span = u64::from(max - min) + 1;
    min + ((u128::from(random) * u128::from(span)) >> 64) as u32
}

/// Length of a key of ETC: a generalised extreme value distribution, rounded (Atikoglu et al., "Workload
/// analysis of a large-scale key-value store", SIGMETRICS 2012, section 5.1).
fn etc_key_len(unit: f64) -> u32 {
    const MU: f64 = 30.7984;
    const SIGMA: f64 = 8.20449;
    const K: f64 = 0.078_688;
    let exponential = -(1.0 - unit).ln();
    let len = MU + SIGMA * (exponential.powf(-K) - 1.0) / K;
    len.round().clamp(1.0, KEY_LEN_MAX as f64) as u32
}

/// Shares of ETC's values of 0 to 14 bytes (the same paper, table 5 and section 5.2).
const ETC_SMALL: [f64; 15] = [
    0.00536, 0.00047, 0.1782, 0.09239, 0.00018, 0.0274, 0.00065, 0.00606, 0.00023, 0.00837,
    0.00837, 0.08989, 0.00092, 0.00326, 0.0198,
];

/// Size of a value of ETC: the small ones by their shares, and from 15 bytes a generalised Pareto
/// distribution that starts there, as in the load generator mutilate.
fn etc_value_len(unit: f64) -> u32 {
    const SIGMA: f64 = 214.476;
    const K: f64 = 0.348_238;
    let mut left = unit;
    for (len, share) in ETC_SMALL.iter().enumerate() {
        if left < *share {
            return len as u32;
        }
        left -= share;
    }
    // What is left of the unit is uniform over the share of the tail.
    let tail = 1.0 - ETC_SMALL.iter().sum::<f64>();
    let above = (1.0 - left / tail).max(f64::MIN_POSITIVE);
    let len = ETC_SMALL.len() as f64 + SIGMA * (above.powf(-K) - 1.0) / K;
    (len as u32).min(VALUE_LEN_TAIL_MAX)
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $quantity:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name(Distribution);

        impl FromStr for $name {
            type Err = WorkloadError;

            fn from_str(text: &str) -> Result<Self, WorkloadError> {
                Distribution::parse(text, $quantity).map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0.text)
            }
        }

        impl $name {
            /// The same for all keys.
            ///
            /// # Errors
            /// When it is above what memcached takes.
            pub fn fixed(number: u32) -> Result<Self, WorkloadError> {
                let quantity = $quantity;
                if number > quantity.max() {
                    return refuse(format!("{number} is above {}", quantity.max()));
                }
                Ok($name(Distribution {
                    text: quantity.show(number).into(),
                    quantity,
                    law: Law::Range(number, number),
                }))
            }

            /// What the key with this hash has.
            #[inline]
            pub fn of(&self, key_hash: u64) -> u32 {
                self.0.of(key_hash)
            }

            /// The largest that comes up.
            pub fn max(&self) -> u32 {
                self.0.max()
            }
        }
    };
}

quantity! {
    /// Lengths of keys in bytes, as text `24`, `16..64`, `choice(10=0.3, 20..30=0.7)`, `etc`,
    /// `twitter(4)`, `meta(kvcache_reg)` or `file(PATH, SECTION)`. The hash is of the key's number.
    KeySizes, Quantity::KeyLen
}

quantity! {
    /// Sizes of values in bytes, as text `100`, `64..1024`, `choice(100=0.9, 8000=0.1)`,
    /// `geometric(300)`, `etc`, `twitter(4)`, `meta(kvcache_reg)` or `file(PATH, SECTION)`. The hash
    /// is of the key's bytes, so that the keys of a trace have sizes too.
    ValueSizes, Quantity::ValueLen
}

quantity! {
    /// Times to live in seconds, 0 for ever, as text `none`, `60s`, `1h..2h`,
    /// `choice(60s=0.9, 1d=0.1)` or `twitter(4)`. The hash is of the key's bytes.
    Ttls, Quantity::Ttl
}

impl KeySizes {
    /// The length, where one was written down as a number.
    pub(crate) fn as_number(&self) -> Option<u32> {
        self.0.text.parse().ok()
    }
}

impl ValueSizes {
    /// Sizes from `min` to `max` bytes, both included, each equally likely.
    ///
    /// # Errors
    /// When `min` is above `max`, or `max` above what a memcached takes by default.
    pub fn new(min: u32, max: u32) -> Result<Self, WorkloadError> {
        format!("{min}..{max}").parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{assert_fits, assert_fits_cdf, seed};

    fn drawn(text: &str, count: u64) -> Vec<f64> {
        let sizes: ValueSizes = text.parse().unwrap();
        let seed = seed();
        (0..count)
            .map(|n| f64::from(sizes.of(mix64(seed ^ n))))
            .collect()
    }

    #[test]
    fn ranges_and_choices_are_drawn_as_written() {
        let seed = seed();
        let mut n = seed;
        let mut next = move || {
            n += 1;
            n
        };
        let range: ValueSizes = "64..67".parse().unwrap();
        assert_fits(
            "64..67",
            4,
            |_| 0.25,
            40_000,
            || u64::from(range.of(next())) - 64,
        );
        let choice: Ttls = "choice(1s=0.2, 2s..4s=0.6, 5s=0.2)".parse().unwrap();
        assert_fits(
            "choice",
            5,
            |_| 0.2,
            40_000,
            || u64::from(choice.of(next())) - 1,
        );
    }

    /// The shares of the small sizes one by one, and Kolmogorov–Smirnov for the whole with the
    /// formula of the paper.
    #[test]
    fn values_of_etc_are_those_of_the_paper() {
        let sizes = drawn("etc", 400_000);
        let small = 0.44155;
        let exact = |len: u64| ETC_SMALL.get(len as usize).copied().unwrap_or(1.0 - small);
        let mut next = sizes.iter().map(|&len| (len as u64).min(15));
        assert_fits("etc, small", 16, exact, 400_000, || next.next().unwrap());
        assert_fits_cdf("etc", sizes.clone(), |len| {
            if len < 15.0 {
                return ETC_SMALL[..=len as usize].iter().sum();
            }
            // Whole bytes: a size stands for all up to the next.
            let over = 1.0 + 0.348_238 * (len + 1.0 - 15.0) / 214.476;
            small + (1.0 - small) * (1.0 - over.powf(-1.0 / 0.348_238))
        });
        // Mean of the generalised Pareto law: σ/(1−k).
        let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
        assert!((185.0..205.0).contains(&mean), "{mean}");
    }

    #[test]
    fn keys_of_etc_are_those_of_the_paper() {
        let sizes: KeySizes = "etc".parse().unwrap();
        let seed = seed();
        let drawn = (0..200_000u64)
            .map(|n| f64::from(sizes.of(seed ^ n)))
            .collect();
        assert_fits_cdf("etc, keys", drawn, |len| {
            let z = (len + 0.5 - 30.7984) / 8.20449;
            (-(1.0 + 0.078_688 * z).max(0.0).powf(-1.0 / 0.078_688)).exp()
        });
    }

    #[test]
    fn geometric_sizes_have_their_mean_and_shape() {
        let sizes = drawn("geometric(300)", 200_000);
        assert_fits_cdf("geometric", sizes.clone(), |len| {
            1.0 - (1.0f64 - 1.0 / 300.0).powf(len)
        });
        assert!(drawn("geometric(1)", 1000).iter().all(|&len| len == 1.0));
        let twitter = drawn("twitter(4)", 200_000);
        let mean = twitter.iter().sum::<f64>() / 200_000.0;
        // Six standard deviations of the mean: the law's deviation is about its mean.
        assert!(
            (mean - 2439.0).abs() < 6.0 * 2439.0 / 200_000f64.sqrt(),
            "{mean}"
        );
    }

    #[test]
    fn measured_sizes_are_drawn_by_their_weights() {
        let cache = MetaCache::KvcacheReg;
        let table = cache.value_sizes().unwrap();
        let total: f64 = table.iter().map(|(_, weight)| weight).sum();
        let mut cumulative = Vec::new();
        let mut sum = 0.0;
        for (size, weight) in table {
            sum += weight / total;
            cumulative.push((f64::from(size), sum));
        }
        assert_fits_cdf("meta", drawn("meta(kvcache_reg)", 200_000), |size| {
            let at = cumulative.partition_point(|&(other, _)| other <= size);
            cumulative[at - 1].1
        });
    }

    #[test]
    fn a_key_keeps_what_it_has_and_the_three_do_not_depend_on_each_other() {
        let values: ValueSizes = "0..999".parse().unwrap();
        let ttls: Ttls = "0s..999s".parse().unwrap();
        assert!((0..1000).all(|hash| values.of(hash) == values.clone().of(hash)));
        let same = (0..10_000).filter(|&hash| values.of(hash) == ttls.of(hash));
        // One in a thousand by chance.
        assert!(same.count() < 40);
    }

    #[test]
    fn times_to_live_of_a_cluster_are_those_published_and_not_points_in_time() {
        let ttls: Ttls = "twitter(27)".parse().unwrap();
        let seen: std::collections::BTreeSet<u32> = (0..10_000).map(|n| ttls.of(n)).collect();
        let expected = [3600, 4 * 3600, 6 * 3600, 12 * 3600, 86_400, TTL_S_MAX];
        assert!(seen.into_iter().eq(expected));
        assert_eq!("100d".parse::<Ttls>().unwrap().to_string(), "30d");
    }

    #[test]
    fn distributions_are_read_and_written() {
        for text in [
            "100",
            "64..1024",
            "etc",
            "twitter(4)",
            "meta(kvcache_l2_wc)",
            "geometric(30)",
        ] {
            assert_eq!(text.parse::<ValueSizes>().unwrap().to_string(), text);
        }
        assert_eq!("4k".parse::<ValueSizes>().unwrap().to_string(), "4000");
        assert_eq!("0s".parse::<Ttls>().unwrap().to_string(), "none");
        assert_eq!("60s..1h".parse::<Ttls>().unwrap().to_string(), "1min..1h");
        assert_eq!("none".parse::<Ttls>().unwrap().of(9), 0);
        assert_eq!("meta(kvcache_reg)".parse::<KeySizes>().unwrap().max(), 250);
        for text in [
            "",
            "x",
            "5..4",
            "..",
            "1048577",
            "-1",
            "geometric(0)",
            "choice()",
            "choice(1)",
            "choice(1=-1)",
            "choice(1=0)",
            "etc(1)",
            "twitter(5)",
            "twitter(x)",
            "meta(x)",
            "file(/no/such/file, a)",
            "none",
        ] {
            assert!(text.parse::<ValueSizes>().is_err(), "{text}");
        }
        for text in ["5", "1500ms", "etc", "5x", "geometric(5)"] {
            assert!(text.parse::<Ttls>().is_err(), "{text}");
        }
        for text in ["251", "geometric(5)", "0..300"] {
            assert!(text.parse::<KeySizes>().is_err(), "{text}");
        }
        let message = "etx".parse::<ValueSizes>().unwrap_err().to_string();
        assert!(message.contains("geometric(MEAN)"), "{message}");
        assert!(ValueSizes::fixed(VALUE_LEN_MAX + 1).is_err());
    }
}
