//! Measurements of production caches that workloads are made from. The tables are part of the crate
//! (`data/`, with origin and licence), so that `twitter(4)` means the same wherever it is written.

use crate::mix::Operation;
use crate::{WorkloadError, refuse};
use core::fmt;
use core::str::FromStr;
use flate2::read::GzDecoder;
use serde::Deserialize;
use std::io::Read;

/// A cache at Meta whose popularity and value sizes are published (CacheLib's test configurations;
/// Berg et al., OSDI 2020).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaCache {
    /// A regional key-value cache: 10.5 M keys, values of 335 bytes on average.
    KvcacheReg,
    /// A second-level key-value cache of large values: 9 M keys, 92 KB on average.
    KvcacheL2Wc,
    /// Associations of the social graph: 27.9 M keys, 1.4 KB on average.
    GraphCacheLeaderAssocs,
    /// Objects of the social graph: 27.6 M keys, 341 bytes on average.
    GraphCacheLeaderFbobj,
}

/// What is known of the popularity of a cache at Meta.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MetaPopularity {
    /// Keys, and the accesses that they together draw; hottest keys first.
    pub(crate) classes: Vec<(u64, f64)>,
    /// Share of the accesses that go to keys seen once.
    pub(crate) one_hits: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PopularityFile {
    one_hits: f64,
    popularity_buckets: Vec<u64>,
    popularity_weights: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SizesFile {
    val_size_range: Vec<u32>,
    val_size_range_probability: Vec<f64>,
}

macro_rules! data {
    ($name:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/", $name))
    };
}

impl MetaCache {
    /// All of them.
    pub const ALL: [MetaCache; 4] = [
        MetaCache::KvcacheReg,
        MetaCache::KvcacheL2Wc,
        MetaCache::GraphCacheLeaderAssocs,
        MetaCache::GraphCacheLeaderFbobj,
    ];

    fn name(self) -> &'static str {
        match self {
            MetaCache::KvcacheReg => "kvcache_reg",
            MetaCache::KvcacheL2Wc => "kvcache_l2_wc",
            MetaCache::GraphCacheLeaderAssocs => "graph_cache_leader_assocs",
            MetaCache::GraphCacheLeaderFbobj => "graph_cache_leader_fbobj",
        }
    }

    /// How popular its keys are.
    pub(crate) fn popularity(self) -> Result<MetaPopularity, WorkloadError> {
        let file: PopularityFile = unpacked(match self {
            MetaCache::KvcacheReg => data!("kvcache_reg.pop.json.gz"),
            MetaCache::KvcacheL2Wc => data!("kvcache_l2_wc.pop.json.gz"),
            MetaCache::GraphCacheLeaderAssocs => data!("graph_cache_leader_assocs.pop.json.gz"),
            MetaCache::GraphCacheLeaderFbobj => data!("graph_cache_leader_fbobj.pop.json.gz"),
        })?;
        let mut classes: Vec<(u64, f64)> = file
            .popularity_buckets
            .into_iter()
            .zip(file.popularity_weights)
            .filter(|&(keys, _)| keys > 0)
            .collect();
        let heat = |&(keys, accesses): &(u64, f64)| accesses / keys as f64;
        classes.sort_by(|one, other| heat(other).total_cmp(&heat(one)));
        Ok(MetaPopularity {
            classes,
            one_hits: file.one_hits,
        })
    }

    /// Sizes of its values in bytes, with weights.
    pub(crate) fn value_sizes(self) -> Result<Vec<(u32, f64)>, WorkloadError> {
        let file: SizesFile = unpacked(match self {
            MetaCache::KvcacheReg => data!("kvcache_reg.sizes.json.gz"),
            MetaCache::KvcacheL2Wc => data!("kvcache_l2_wc.sizes.json.gz"),
            MetaCache::GraphCacheLeaderAssocs => data!("graph_cache_leader_assocs.sizes.json.gz"),
            MetaCache::GraphCacheLeaderFbobj => data!("graph_cache_leader_fbobj.sizes.json.gz"),
        })?;
        Ok(file
            .val_size_range
            .into_iter()
            .zip(file.val_size_range_probability)
            .collect())
    }

    /// Number of keys that the popularity was measured on.
    pub(crate) fn keys(self) -> Result<u64, WorkloadError> {
        Ok(self
            .popularity()?
            .classes
            .iter()
            .map(|(keys, _)| keys)
            .sum())
    }

    /// Lengths of its keys as text of a distribution, from the same configurations.
    pub(crate) fn key_sizes(self) -> &'static str {
        match self {
            MetaCache::KvcacheReg => "16..250",
            MetaCache::KvcacheL2Wc => "8..16",
            MetaCache::GraphCacheLeaderAssocs | MetaCache::GraphCacheLeaderFbobj => {
                "choice(1..8=0.3, 8..64=0.7)"
            }
        }
    }
}

fn unpacked<T: for<'a> Deserialize<'a>>(packed: &[u8]) -> Result<T, WorkloadError> {
    let mut text = Vec::new();
    let read = GzDecoder::new(packed).read_to_end(&mut text);
    let file = read
        .map_err(|error| error.to_string())
        .and_then(|_| serde_json::from_slice(&text).map_err(|error| error.to_string()));
    // A test reads them all.
    file.map_err(|error| WorkloadError(format!("a table of this program is damaged: {error}")))
}

impl FromStr for MetaCache {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        match MetaCache::ALL
            .into_iter()
            .find(|cache| cache.name() == text)
        {
            Some(cache) => Ok(cache),
            None => {
                let names: Vec<&str> = MetaCache::ALL.iter().map(|cache| cache.name()).collect();
                refuse(format!(
                    "'{text}' is not a published cache of Meta: {}",
                    names.join(", ")
                ))
            }
        }
    }
}

impl fmt::Display for MetaCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is published of a cache cluster at Twitter (Yang, Yue and Rashmi, OSDI 2020). Of the sizes only
/// the means are known, of the times to live only the common ones.
#[derive(Clone, Debug, PartialEq)]
pub struct TwitterCluster {
    /// 1 to 54.
    pub number: u32,
    /// Mean size of a key, in bytes.
    pub key_len_mean: u32,
    /// Mean size of a value, in bytes.
    pub value_len_mean: u32,
    /// Requests a second, in thousands.
    pub request_rate_kqps: f64,
    /// Common times to live in seconds, with shares.
    pub ttls: Vec<(u64, f64)>,
    /// Operations with shares. A `gets` is counted with the `cas` that it is for.
    pub operations: Vec<(Operation, f64)>,
    /// Exponent of Zipf's law, where one was fitted.
    pub zipf_alpha: Option<f64>,
}

/// The table of all clusters.
const TWITTER: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/data/twitter-2020Mar.csv"
));

impl TwitterCluster {
    /// The cluster of this number, 1 to 54.
    ///
    /// # Errors
    /// When there is none, or nothing is published of it (cluster 5).
    pub fn of_number(number: u64) -> Result<Self, WorkloadError> {
        let name = format!("cluster{number}");
        let row = TWITTER
            .lines()
            .skip(1)
            .map(fields)
            .find(|fields| fields[0] == name);
        let Some(row) = row else {
            return refuse(format!("Twitter's cluster {number} is not within 1 and 54"));
        };
        match TwitterCluster::of_row(number, &row) {
            Some(cluster) => Ok(cluster),
            None => refuse(format!(
                "of Twitter's cluster {number} nothing is published"
            )),
        }
    }

    fn of_row(number: u64, row: &[String]) -> Option<Self> {
        let shares = |text: &str| -> Option<Vec<(String, f64)>> {
            text.split([' ', ','])
                .filter(|part| !part.is_empty())
                .map(|part| {
                    let (name, share) = part.split_once(':')?;
                    Some((name.to_owned(), share.parse().ok()?))
                })
                .collect()
        };
        let mut operations = Vec::new();
        for (name, share) in shares(row.get(12)?)? {
            // A client that says `gets` means to say `cas`, which is one operation here.
            if name != "gets" {
                let operation = Operation::ALL.into_iter().find(|op| op.name() == name)?;
                operations.push((operation, share));
            }
        }
        let ttls = shares(row.get(9)?)?
            .into_iter()
            .map(|(ttl, share)| Some((crate::text::time_ns(&ttl).ok()? / NS_PER_S, share)))
            .collect::<Option<_>>()?;
        Some(TwitterCluster {
            number: u32::try_from(number).ok()?,
            key_len_mean: row.get(3)?.parse().ok()?,
            value_len_mean: row.get(4)?.parse().ok()?,
            request_rate_kqps: row.get(5)?.parse().ok()?,
            ttls,
            operations,
            zipf_alpha: row.get(13)?.parse().ok(),
        })
    }
}

const NS_PER_S: u64 = 1_000_000_000;

/// The fields of a CSV line, some of them in quotes.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().expect("one field at least").push(c),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the counts that the description of the data states.
    #[test]
    fn the_caches_of_meta_are_as_described() {
        // Keys, accesses, share of the hottest 1 %, median and mean of sizes.
        let described = [
            (
                MetaCache::KvcacheReg,
                10_483_642,
                417_229_820.0,
                0.724,
                159,
                335.0,
            ),
            (
                MetaCache::KvcacheL2Wc,
                9_008_202,
                313_531_566.0,
                0.439,
                44_991,
                92_422.0,
            ),
            (
                MetaCache::GraphCacheLeaderAssocs,
                27_855_311,
                223_821_984.0,
                0.327,
                63,
                1_423.0,
            ),
            (
                MetaCache::GraphCacheLeaderFbobj,
                27_564_687,
                116_462_716.0,
                0.107,
                223,
                341.0,
            ),
        ];
        for (cache, keys, accesses, hottest, median, mean) in described {
            let popularity = cache.popularity().unwrap();
            assert_eq!(cache.keys().unwrap(), keys, "{cache}");
            let total: f64 = popularity.classes.iter().map(|(_, weight)| weight).sum();
            assert_eq!(total, accesses, "{cache}");
            let mut left = (keys as f64 / 100.0).round();
            let mut share = 0.0;
            for &(keys, accesses) in &popularity.classes {
                let taken = left.min(keys as f64);
                share += accesses / total * taken / keys as f64;
                left -= taken;
            }
            assert!((share - hottest).abs() < 0.0006, "{cache}: {share}");
            assert!((0.0..0.3).contains(&popularity.one_hits));

            let sizes = cache.value_sizes().unwrap();
            assert!(sizes.is_sorted_by_key(|&(size, _)| size));
            let weights: f64 = sizes.iter().map(|(_, weight)| weight).sum();
            let sum: f64 = sizes.iter().map(|&(size, w)| f64::from(size) * w).sum();
            assert!(
                (sum / weights - mean).abs() <= 0.51,
                "{cache}: {}",
                sum / weights
            );
            let mut below = 0.0;
            let middle = sizes.iter().find(|(_, weight)| {
                below += weight;
                below >= weights / 2.0
            });
            assert_eq!(middle.unwrap().0, median, "{cache}");
            assert_eq!(cache.to_string().parse::<MetaCache>().unwrap(), cache);
        }
    }

    #[test]
    fn the_clusters_of_twitter_are_as_described() {
        let clusters: Vec<TwitterCluster> = (1..=54)
            .filter_map(|number| TwitterCluster::of_number(number).ok())
            .collect();
        assert_eq!(clusters.len(), 53);
        assert!(TwitterCluster::of_number(5).is_err());
        assert!(TwitterCluster::of_number(0).is_err());
        assert!(TwitterCluster::of_number(55).is_err());
        let fitted = clusters.iter().filter(|c| c.zipf_alpha.is_some()).count();
        assert_eq!(fitted, 51);
        let four = TwitterCluster::of_number(4).unwrap();
        assert_eq!((four.key_len_mean, four.value_len_mean), (67, 2439));
        assert_eq!(four.request_rate_kqps, 5.26);
        assert_eq!(four.ttls[..2], [(60, 0.39), (300, 0.24)]);
        assert_eq!(four.ttls.len(), 6);
        assert_eq!(
            four.operations,
            [(Operation::Get, 0.93), (Operation::Set, 0.07)]
        );
        assert_eq!(four.zipf_alpha, Some(1.1004));
        // 92.6 days, and gets with cas.
        let ttls = TwitterCluster::of_number(27).unwrap().ttls;
        assert_eq!(ttls[0].0, 8_000_640);
        let cas = TwitterCluster::of_number(11).unwrap().operations;
        assert_eq!(cas.last(), Some(&(Operation::Cas, 0.01)));
    }
}
