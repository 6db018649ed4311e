//! What workers and proxies tell each other of the keys that they see, as JSON.

use evenkeel_types::KeyHash;
use evenkeel_types::limits::KEY_LEN_MAX;
use serde::{Deserialize, Serialize};

use super::sketch::TopKeys;

/// Most keys that one tells of: as many as one worker replicates.
pub const SHARED_KEYS_MAX: usize = 64;

/// The head of a summary: what of [`TopKeys`] is told to others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedCounts {
    /// Reads of all keys in a slot.
    pub total: f64,
    /// By how much counts can be too small, also those of keys that are not told of.
    pub slack: f64,
    /// The most read keys.
    pub keys: Vec<SharedKey>,
}

/// A key and its counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedKey {
    /// The key in hexadecimal, because it can be any bytes.
    #[serde(with = "hexadecimal")]
    pub key: Vec<u8>,
    /// Reads in a slot, at least.
    pub reads: f64,
    /// Writes.
    pub writes: f64,
}

impl SharedCounts {
    /// The head of a summary of which everything is multiplied by `scale`.
    pub fn of(counts: &TopKeys, scale: f64) -> Self {
        let mut top = counts.top();
        let hidden = top.get(SHARED_KEYS_MAX).map_or(0.0, |key| key.reads);
        top.truncate(SHARED_KEYS_MAX);
        let keys = top.into_iter().map(|top| SharedKey {
            key: top.key,
            reads: top.reads * scale,
            writes: top.writes * scale,
        });
        SharedCounts {
            total: counts.total() * scale,
            slack: (counts.slack() + hidden) * scale,
            keys: keys.collect(),
        }
    }

    /// The summary that this tells of; `None` if it cannot be one.
    pub fn to_counts(&self, counters_max: usize) -> Option<TopKeys> {
        let is_amount = |value: f64| (0.0..1e15).contains(&value);
        let is_sound = |key: &SharedKey| {
            let len = key.key.len();
            is_amount(key.reads) && is_amount(key.writes) && (1..=KEY_LEN_MAX).contains(&len)
        };
        let is_bounded = self.keys.len() <= SHARED_KEYS_MAX && is_amount(self.slack);
        if !is_bounded || !is_amount(self.total) || !self.keys.iter().all(is_sound) {
            return None;
        }
        let mut counts = TopKeys::new(counters_max);
        let mut rest = self.total;
        for SharedKey { key, reads, writes } in &self.keys {
            if *reads > 0.0 {
                let hash = KeyHash::of(key);
                counts.read(hash, key, *reads);
                counts.write(hash, key, *writes);
                rest -= reads;
            }
        }
        counts.add_rest(rest.max(0.0), self.slack);
        Some(counts)
    }
}

mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(key: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or('0');
        let digits = key
            .iter()
            .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        serializer.serialize_str(&digits.collect::<String>())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = text.as_bytes().chunks(2).map(|pair| {
            let digit = |at: usize| char::from(*pair.get(at)?).to_digit(16);
            Some((digit(0)? * 16 + digit(1)?) as u8)
        });
        let bytes: Option<Vec<u8>> = bytes.collect();
        bytes.ok_or_else(|| D::Error::custom("a key is in pairs of hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(keys: u32) -> TopKeys {
        let mut counts = TopKeys::new(256);
        for i in 0..keys {
            let key = format!("k\u{1}{i}").into_bytes();
            counts.read(KeyHash::of(&key), &key, f64::from(i + 1));
        }
        counts
    }

    #[test]
    fn the_head_of_a_summary_survives_the_journey_and_the_rest_becomes_slack() {
        let all = counts(100);
        let shared = SharedCounts::of(&all, 0.5);
        assert_eq!(shared.keys.len(), SHARED_KEYS_MAX);
        let text = serde_json::to_string(&shared).unwrap();
        let read: SharedCounts = serde_json::from_str(&text).unwrap();
        assert_eq!(read, shared);
        let told = read.to_counts(256).unwrap();
        assert_eq!(told.total(), all.total() / 2.0);
        for top in all.top() {
            let (reads, _) = told.count(top.hash, &top.key);
            assert!(reads <= top.reads / 2.0 && top.reads / 2.0 <= reads + told.slack());
        }
    }

    #[test]
    fn what_is_no_summary_is_refused() {
        let good = SharedCounts::of(&counts(2), 1.0);
        assert!(good.to_counts(4).is_some());
        type Break = fn(&mut SharedCounts);
        let cases: [Break; 6] = [
            |s| s.total = f64::NAN,
            |s| s.slack = -1.0,
            |s| s.keys[0].reads = f64::INFINITY,
            |s| s.keys[0].key = vec![b'k'; KEY_LEN_MAX + 1],
            |s| s.keys[0].key.clear(),
            |s| s.keys = vec![s.keys[0].clone(); SHARED_KEYS_MAX + 1],
        ];
        for break_it in cases {
            let mut bad = good.clone();
            break_it(&mut bad);
            assert!(bad.to_counts(4).is_none(), "{bad:?}");
        }
        for key in ["\"0\"", "\"0g\"", "\"é\"", "7"] {
            let text = format!("{{\"key\":{key},\"reads\":1.0,\"writes\":0.0}}");
            assert!(serde_json::from_str::<SharedKey>(&text).is_err(), "{text}");
        }
    }
}
