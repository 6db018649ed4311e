//! A workload in words: plain data that the load generator, the simulator and the experiments share.
//!
//! The text is a list of words separated by spaces: first, perhaps, the name of a known workload, then
//! `field=value` for what differs from it.
//!
//! ```
//! use evenkeel_workload::WorkloadSpec;
//! let spec: WorkloadSpec = "ycsb-b keys=1M popularity=zipf(1.2) ttl=1h..2h".parse()?;
//! assert_eq!(spec.keys(), 1_000_000);
//! # Ok::<(), evenkeel_workload::WorkloadError>(())
//! ```
//!
//! In TOML and JSON it is that text, or a table with the same fields and `preset`:
//! `workload = { preset = "ycsb-b", keys = 1000000, popularity = "zipf(1.2)" }`.

use crate::arrivals::Arrivals;
use crate::distribution::{KeySizes, Ttls, ValueSizes};
use crate::flash::FlashCrowd;
use crate::graph::PowerLaw;
use crate::mix::{Mix, Operation};
use crate::multiget::{GraphSource, MultiGet};
use crate::popularity::Popularity;
use crate::published::{MetaCache, TwitterCluster};
use crate::text::{self, Term};
use crate::{WorkloadError, refuse};
use core::fmt;
use core::str::FromStr;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Keys where nothing says how many.
pub const KEYS_DEFAULT: u64 = 200_000;

/// Keys that are never written among those that are, as text `read-only(every=5, among=500)`: every
/// so-many-th of the hottest keys. A request that would write one reads it instead, so that the shares of
/// the mix hold for the other keys (Hong and Thottethodi, "SPORE", SoCC 2013, section 5.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOnly {
    /// One key in this many.
    pub every: u64,
    /// Among this many of the hottest.
    pub among: u64,
}

impl ReadOnly {
    /// Whether the key of this rank is never written.
    #[inline]
    pub(crate) fn holds(&self, rank: u64) -> bool {
        rank < self.among && rank.is_multiple_of(self.every)
    }
}

impl FromStr for ReadOnly {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let mut term = Term::parse(text)?;
        if term.name() != "read-only" {
            return term.unknown("a choice of keys", "read-only(every=5, among=500)");
        }
        let read_only = ReadOnly {
            every: term.required(0, "every", text::count)?,
            among: term.or(1, "among", u64::MAX, text::count)?,
        };
        term.finish()?;
        match read_only.every {
            0 => refuse("one key in 0 is none"),
            _ => Ok(read_only),
        }
    }
}

impl fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.among {
            u64::MAX => write!(f, "read-only(every={})", self.every),
            among => write!(f, "read-only(every={}, among={among})", self.every),
        }
    }
}

/// A workload in words.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadSpec {
    /// Number of keys, 1 to [`crate::KEYS_MAX`]; `None` goes by the measurement or graph that the
    /// workload is made from, else it is [`KEYS_DEFAULT`].
    pub keys: Option<u64>,
    /// How unevenly requests fall on keys.
    pub popularity: Popularity,
    /// Other keys become the hot ones each time this many nanoseconds have passed; `None` never.
    pub reshuffle_ns: Option<u64>,
    /// A crowd that comes to a few keys.
    pub flash: Option<FlashCrowd>,
    /// What requests do.
    pub mix: Mix,
    /// Keys of a get.
    pub multiget: MultiGet,
    /// Keys that are never written.
    pub read_only: Option<ReadOnly>,
    /// Share of the keys of gets that were never asked for before and never will be again: certain
    /// misses, and in caches that remember them a waste.
    pub lone_gets: f64,
    /// First bytes of every key.
    pub prefix: String,
    /// Lengths of keys.
    pub key_sizes: KeySizes,
    /// Sizes of values.
    pub value_sizes: ValueSizes,
    /// Times to live.
    pub ttls: Ttls,
    /// When requests are sent.
    pub arrivals: Arrivals,
    /// Fixes the whole workload.
    pub seed: u64,
}

impl Default for WorkloadSpec {
    /// Zipf 0.99 over [`KEYS_DEFAULT`] keys of 24 bytes and values of 100, 95 % gets, a closed loop.
    fn default() -> Self {
        WorkloadSpec {
            keys: None,
            popularity: Popularity::Zipf { exponent: 0.99 },
            reshuffle_ns: None,
            flash: None,
            mix: Mix::gets(0.95).expect("a share"),
            multiget: MultiGet::Keys(1),
            read_only: None,
            lone_gets: 0.0,
            prefix: "key:".to_owned(),
            key_sizes: KeySizes::fixed(24).expect("short enough"),
            value_sizes: ValueSizes::fixed(100).expect("small enough"),
            ttls: Ttls::fixed(0).expect("short enough"),
            arrivals: Arrivals::Closed,
            seed: 1,
        }
    }
}

/// Fields, in the order in which they are written.
pub const FIELDS: [&str; 14] = [
    "keys",
    "popularity",
    "reshuffle",
    "flash",
    "mix",
    "multiget",
    "read-only",
    "lone-gets",
    "prefix",
    "key-size",
    "value-size",
    "ttl",
    "arrivals",
    "seed",
];

/// Known workloads, as they are written.
const PRESETS: &str = "default, ycsb-a, ycsb-b, ycsb-c, ycsb-d, ycsb-f, etc, linkbench, \
                       twitter(CLUSTER) or meta(CACHE)";

impl WorkloadSpec {
    /// A known workload: `default`, `ycsb-a` to `ycsb-d` and `ycsb-f`, `etc`, `linkbench`, `twitter(4)`
    /// or `meta(kvcache_reg)`.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn preset(text: &str) -> Result<Self, WorkloadError> {
        let mut term = Term::parse(text)?;
        let spec = match term.name() {
            "default" => WorkloadSpec::default(),
            "ycsb-a" => ycsb("mix(get=0.5, set=0.5)", "scrambled-zipf")?,
            "ycsb-b" => ycsb("mix(get=0.95, set=0.05)", "scrambled-zipf")?,
            "ycsb-c" => ycsb("mix(get=1)", "scrambled-zipf")?,
            "ycsb-d" => ycsb("mix(get=0.95, insert=0.05)", "latest")?,
            "ycsb-f" => ycsb("mix(get=0.5, rmw=0.5)", "scrambled-zipf")?,
            "ycsb-e" => return refuse("YCSB's workload E scans, which no memcached can do"),
            "etc" => WorkloadSpec {
                mix: "mix(get=30, set=1)".parse()?,
                key_sizes: "etc".parse()?,
                value_sizes: "etc".parse()?,
                ..WorkloadSpec::default()
            },
            "linkbench" => WorkloadSpec {
                popularity: Popularity::Zipf { exponent: 0.625 },
                mix: Mix::of(&[
                    (Operation::Get, 12.932_668_3),
                    (Operation::Set, 2.573_278_9 + 7.366_437),
                    (Operation::Delete, 1.011_591_4),
                ])?,
                multiget: "geometric(0.382, 128)".parse()?,
                value_sizes: ValueSizes::fixed(128)?,
                ..WorkloadSpec::default()
            },
            "twitter" => twitter(term.required(0, "cluster", text::count)?)?,
            "meta" => meta(term.required(0, "cache", text::parsed)?)?,
            _ => return term.unknown("a known workload", PRESETS),
        };
        term.finish()?;
        Ok(spec)
    }

    /// Sets a field from its text.
    ///
    /// # Errors
    /// When there is no such field, or the text is not one for it.
    pub fn set(&mut self, field: &str, text: &str) -> Result<(), WorkloadError> {
        self.read(field, text)
            .map_err(|error| WorkloadError(format!("{field}: {error}")))
    }

    fn read(&mut self, field: &str, text: &str) -> Result<(), WorkloadError> {
        let none = text == "none";
        match field {
            "keys" => self.keys = Some(text::count(text)?),
            "popularity" => self.popularity = text.parse()?,
            "reshuffle" if none => self.reshuffle_ns = None,
            "reshuffle" => self.reshuffle_ns = Some(text::time_ns(text)?),
            "flash" if none => self.flash = None,
            "flash" => self.flash = Some(text.parse()?),
            "mix" => self.mix = text.parse()?,
            "multiget" => self.multiget = text.parse()?,
            "read-only" if none => self.read_only = None,
            "read-only" => self.read_only = Some(text.parse()?),
            "lone-gets" => self.lone_gets = text::share(text)?,
            "prefix" => text.clone_into(&mut self.prefix),
            "key-size" => self.key_sizes = text.parse()?,
            "value-size" => self.value_sizes = text.parse()?,
            "ttl" => self.ttls = text.parse()?,
            "arrivals" => self.arrivals = text.parse()?,
            "seed" => match text.parse() {
                Ok(seed) => self.seed = seed,
                Err(_) => return refuse(format!("'{text}' is not a number of 64 bits")),
            },
            _ => return refuse(format!("not a field of a workload: {}", FIELDS.join(", "))),
        }
        Ok(())
    }

    /// The text of a field; `None` where it has no value.
    fn shown(&self, field: &str) -> Option<String> {
        match field {
            "keys" => self.keys.map(|keys| keys.to_string()),
            "popularity" => Some(self.popularity.to_string()),
            "reshuffle" => self.reshuffle_ns.map(text::show_ns),
            "flash" => self.flash.map(|flash| flash.to_string()),
            "mix" => Some(self.mix.to_string()),
            "multiget" => Some(self.multiget.to_string()),
            "read-only" => self.read_only.map(|read_only| read_only.to_string()),
            "lone-gets" => Some(self.lone_gets.to_string()),
            "prefix" => Some(self.prefix.clone()),
            "key-size" => Some(self.key_sizes.to_string()),
            "value-size" => Some(self.value_sizes.to_string()),
            "ttl" => Some(self.ttls.to_string()),
            "arrivals" => Some(self.arrivals.to_string()),
            "seed" => Some(self.seed.to_string()),
            _ => None,
        }
    }

    /// Number of keys that can be told without reading a file: as set, as measured, as generated, or
    /// [`KEYS_DEFAULT`].
    pub fn keys(&self) -> u64 {
        if let MultiGet::Friends(GraphSource::PowerLaw(PowerLaw { users, .. })) = self.multiget {
            return users;
        }
        match (self.keys, self.popularity) {
            (Some(keys), _) => keys,
            // Its table is part of the program.
            (None, Popularity::Meta(cache)) => cache.keys().unwrap_or(KEYS_DEFAULT),
            (None, _) => KEYS_DEFAULT,
        }
    }
}

/// A core workload of YCSB (Cooper et al., SoCC 2010): records of ten fields of 100 bytes.
fn ycsb(mix: &str, popularity: &str) -> Result<WorkloadSpec, WorkloadError> {
    Ok(WorkloadSpec {
        popularity: popularity.parse()?,
        mix: mix.parse()?,
        prefix: "user".to_owned(),
        key_sizes: KeySizes::fixed(23)?,
        value_sizes: ValueSizes::fixed(1000)?,
        ..WorkloadSpec::default()
    })
}

fn twitter(number: u64) -> Result<WorkloadSpec, WorkloadError> {
    let cluster = TwitterCluster::of_number(number)?;
    let text = format!("twitter({number})");
    Ok(WorkloadSpec {
        popularity: match cluster.zipf_alpha {
            Some(exponent) => Popularity::Zipf { exponent },
            None => Popularity::Uniform,
        },
        mix: Mix::of(&cluster.operations)?,
        key_sizes: text.parse()?,
        value_sizes: text.parse()?,
        ttls: text.parse()?,
        ..WorkloadSpec::default()
    })
}

/// CacheLib's configurations tell gets and lone gets; what little else there is, writes, goes to their
/// cache by itself after a miss.
fn meta(cache: MetaCache) -> Result<WorkloadSpec, WorkloadError> {
    let mix = match cache {
        // The file's get, set and lone set shares, 0.6 and 0.21, do not add up to 1; their proportion
        // is kept.
        MetaCache::KvcacheL2Wc => Mix::of(&[(Operation::Get, 0.6), (Operation::Set, 0.21)])?,
        _ => Mix::gets(1.0)?,
    };
    Ok(WorkloadSpec {
        popularity: Popularity::Meta(cache),
        mix,
        lone_gets: cache.popularity()?.one_hits,
        key_sizes: format!("meta({cache})").parse()?,
        value_sizes: format!("meta({cache})").parse()?,
        ..WorkloadSpec::default()
    })
}

impl FromStr for WorkloadSpec {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let words: Vec<&str> = text::split(text, char::is_whitespace)?
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect();
        let is_field = |word: &str| {
            let name = word.split(['=', '(']).next().unwrap_or_default();
            word.get(name.len()..=name.len()) == Some("=")
        };
        let (mut spec, fields) = match words.split_first() {
            Some((first, rest)) if !is_field(first) => (WorkloadSpec::preset(first)?, rest),
            _ => (WorkloadSpec::default(), &words[..]),
        };
        let mut seen: Vec<&str> = Vec::new();
        for word in fields {
            let Some((field, value)) = word.split_once('=').filter(|_| is_field(word)) else {
                return refuse(format!("'{word}' is not FIELD=VALUE"));
            };
            if seen.contains(&field) {
                return refuse(format!("{field} is said twice"));
            }
            seen.push(field);
            spec.set(field, value)?;
        }
        Ok(spec)
    }
}

impl fmt::Display for WorkloadSpec {
    /// The fields that differ from the default, or `default`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = WorkloadSpec::default();
        let mut first = true;
        for field in FIELDS {
            let shown = self.shown(field);
            if let Some(shown) = shown.filter(|shown| Some(shown) != default.shown(field).as_ref())
            {
                write!(f, "{}{field}={shown}", if first { "" } else { " " })?;
                first = false;
            }
        }
        if first {
            f.write_str("default")
        } else {
            Ok(())
        }
    }
}

impl Serialize for WorkloadSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WorkloadSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpecVisitor)
    }
}

struct SpecVisitor;

/// A value of a field as TOML and JSON write it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Whole(u64),
    Number(f64),
    Text(String),
}

impl<'de> Visitor<'de> for SpecVisitor {
    type Value = WorkloadSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a workload: text or a table of its fields")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<WorkloadSpec, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WorkloadSpec, A::Error> {
        let (mut spec, mut fields) = (WorkloadSpec::default(), Vec::new());
        // The preset counts first wherever it stands.
        while let Some((field, value)) = map.next_entry::<String, Scalar>()? {
            let text = match value {
                Scalar::Whole(number) => number.to_string(),
                Scalar::Number(number) => number.to_string(),
                Scalar::Text(text) => text,
            };
            if field == "preset" {
                spec = WorkloadSpec::preset(&text).map_err(de::Error::custom)?;
            } else {
                fields.push((field, text));
            }
        }
        for (field, text) in fields {
            spec.set(&field, &text).map_err(de::Error::custom)?;
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_a_workload_and_a_workload_its_text() {
        for text in [
            "default",
            "keys=1000000 popularity=zipf(1.2) mix=mix(get=0.5, set=0.5) seed=7",
            "popularity=uniform reshuffle=1min flash=flash(at=30s, for=10s, share=0.5, keys=1) \
             multiget=10 read-only=read-only(every=5, among=500) lone-gets=0.1 prefix=p \
             key-size=16..64 value-size=etc ttl=1h..2h arrivals=poisson(1000)",
        ] {
            let spec: WorkloadSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
        }
        let spec: WorkloadSpec = " ycsb-b  keys=2k ".parse().unwrap();
        assert_eq!(spec.keys(), 2000);
        assert_eq!(spec.to_string().parse::<WorkloadSpec>().unwrap(), spec);
        let spec: WorkloadSpec = "meta(kvcache_reg)".parse().unwrap();
        assert_eq!(spec.keys(), 10_483_642);
        let spec: WorkloadSpec = "multiget=friends(power-law(1000))".parse().unwrap();
        assert_eq!(spec.keys(), 1000);
    }

    #[test]
    fn every_preset_can_be_built() {
        let presets = [
            "default", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-f", "etc",
        ];
        for preset in presets.into_iter().chain(["linkbench"]) {
            let spec = WorkloadSpec::preset(preset).unwrap();
            spec.build().unwrap();
            assert_eq!(
                spec.to_string().parse::<WorkloadSpec>().unwrap(),
                spec,
                "{preset}"
            );
        }
        for number in (1..=54).filter(|&number| number != 5) {
            WorkloadSpec::preset(&format!("twitter({number})"))
                .unwrap()
                .build()
                .unwrap();
        }
        for cache in MetaCache::ALL {
            WorkloadSpec::preset(&format!("meta({cache})"))
                .unwrap()
                .build()
                .unwrap();
        }
    }

    #[test]
    fn what_is_wrong_with_a_text_is_told() {
        for (text, expected) in [
            (
                "zipf(0.99)",
                "'zipf(0.99)' is not a known workload: default, ycsb-a",
            ),
            (
                "popularity=zopf(1)",
                "popularity: 'zopf(1)' is not a law of popularity: uniform",
            ),
            ("keys=many", "keys: 'many' is not an amount"),
            ("key=1", "key: not a field of a workload: keys, popularity"),
            ("ycsb-b ycsb-c", "'ycsb-c' is not FIELD=VALUE"),
            ("keys=1 keys=2", "keys is said twice"),
            ("ycsb-e", "YCSB's workload E scans"),
            ("ycsb-b(1)", "'ycsb-b(1)' takes no '1'"),
            ("mix=mix(get=1", "'mix=mix(get=1' lacks a ')'"),
            ("seed=-1", "seed: '-1' is not a number of 64 bits"),
            ("read-only=read-only(0)", "read-only: one key in 0 is none"),
        ] {
            let message = text.parse::<WorkloadSpec>().unwrap_err().to_string();
            assert!(message.starts_with(expected), "{text}: {message}");
        }
    }

    #[test]
    fn json_takes_the_text_or_a_table() {
        let from = |json: &str| serde_json::from_str::<WorkloadSpec>(json);
        let text = from(r#""ycsb-b keys=1000 lone-gets=0.5""#).unwrap();
        let table = from(r#"{"keys": 1000, "lone-gets": 0.5, "preset": "ycsb-b"}"#).unwrap();
        assert_eq!(text, table);
        let written = serde_json::to_string(&table).unwrap();
        assert_eq!(from(&written).unwrap(), table);
        let message = from(r#"{"kees": 1}"#).unwrap_err().to_string();
        assert!(message.contains("not a field of a workload"), "{message}");
        assert!(
            from("3")
                .unwrap_err()
                .to_string()
                .contains("a workload: text or a table")
        );
    }
}
