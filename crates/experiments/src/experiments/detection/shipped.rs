//! What ships, as detectors: the SSM cache of the server, sampled, and the summary of the proxy.

use super::{Counted, Detector, Key, Told};
use evenkeel_policy::hot_keys::config::HotKeysConfig;
use evenkeel_policy::hot_keys::server::{HotKeys, Reader};
use evenkeel_policy::hot_keys::sketch::TopKeys;
use evenkeel_policy::load::TriggerConfig;
use evenkeel_types::{Instant, KeyHash};

/// The server's SSM cache (SPORE, section 3.3): an LRU list of the keys that were sampled, with the popularity of each
/// over the last two seconds. It counts small requests: a large value is worth several.
#[derive(Debug)]
pub(super) struct Ssm {
    hot: HotKeys,
    entries: usize,
}

impl Ssm {
    /// A cache of so many entries, which samples as it does by default or a fixed share of the reads.
    pub fn new(entries: usize, sampling: Option<f64>, seed: u64) -> anyhow::Result<Ssm> {
        let config = HotKeysConfig {
            sampling,
            entries_max: entries,
            replicated_max: HotKeysConfig::default().replicated_max.min(entries),
            // It looks whatever its load.
            trigger: TriggerConfig {
                absolute_rps: Some(0.0),
                ..TriggerConfig::default()
            },
            ..HotKeysConfig::default()
        };
        let mut hot = HotKeys::new(config, seed, Instant(0))?;
        hot.handle_timeout(hot.poll_deadline());
        Ok(Ssm { hot, entries })
    }

    /// Bytes of a full cache of so many entries, with keys of this length.
    pub fn bytes(entries: usize, key_len: usize) -> anyhow::Result<usize> {
        let mut ssm = Ssm::new(entries, Some(1.0), 1)?;
        let now = ssm.hot.poll_deadline();
        for number in 0..2 * entries {
            let key = Key::new(format!("{number:0key_len$}").as_bytes());
            ssm.hot
                .handle_read(now, key.hash, &key.name, Reader::Unaware, Some(0));
        }
        Ok(ssm.hot.ssm_bytes())
    }
}

impl Detector for Ssm {
    fn entries(&self) -> usize {
        self.entries
    }

    fn read(&mut self, now: Instant, key: &Key, told: Told) {
        if now >= self.hot.poll_deadline() {
            self.hot.handle_timeout(now);
        }
        if !self.hot.pass_read(told.bytes) {
            let found = Some(told.bytes);
            self.hot
                .handle_read(now, key.hash, &key.name, Reader::Unaware, found);
        }
    }

    /// It forgets by itself.
    fn forget_half(&mut self) {}

    fn counted(&self) -> Vec<Counted> {
        let load = self.hot.load().max(f64::MIN_POSITIVE);
        let keys = self.hot.list().into_iter();
        keys.map(|info| Counted {
            hash: KeyHash::of(&info.key),
            share: info.load / load,
        })
        .collect()
    }
}

/// The proxy's Misra–Gries summary, which ships for pools of plain servers.
#[derive(Debug)]
pub(super) struct Summary {
    keys: TopKeys,
    counters: usize,
}

impl Summary {
    /// As many counters as fit into so many bytes, with keys of this length.
    pub fn of_bytes(bytes: usize, key_len: usize) -> Summary {
        let counter = size_of::<KeyHash>() + 2 * size_of::<f64>() + size_of::<Vec<u8>>() + key_len;
        let counters = (bytes / counter).max(1);
        Summary {
            keys: TopKeys::new(counters),
            counters,
        }
    }
}

impl Detector for Summary {
    fn entries(&self) -> usize {
        self.counters
    }

    fn read(&mut self, _now: Instant, key: &Key, told: Told) {
        self.keys.read(key.hash, &key.name, told.weight);
    }

    fn forget_half(&mut self) {
        self.keys.decay();
    }

    fn counted(&self) -> Vec<Counted> {
        let total = self.keys.total();
        let keys = self.keys.top().into_iter();
        keys.map(|key| Counted {
            hash: key.hash,
            share: key.reads / total,
        })
        .collect()
    }
}
