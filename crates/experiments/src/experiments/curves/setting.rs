//! What a curve is of: servers, how keys get to them, and what is asked.

use evenkeel_hotkeys::config::HotKeysConfig;
use evenkeel_sim::load::ReadChoice;
use evenkeel_types::promise::Consistency;
use evenkeel_workload::{Popularity, ReadOnly};
use std::time::Duration;

/// The paper's popularity.
pub(crate) const ZIPF: Popularity = Popularity::Zipf { exponent: 0.99 };

/// Servers of the paper's testbed, and those that replication is to be worth.
pub(crate) const SERVERS: usize = 12;
pub(crate) const MORE_SERVERS: usize = 16;

/// How keys get to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// As spymemcached's Ketama, the paper's client, places them.
    Ketama,
    /// By a coordinator's map, which gives each server the same share.
    Map,
}

/// What is done about hot keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum HotKeys {
    /// Nothing.
    Off,
    /// They are replicated.
    Replicated {
        /// Most replicas of a key besides its home copy.
        gamma_max: u8,
        /// How long a client may read a replica.
        lease: Duration,
        /// What its readers are promised.
        consistency: Consistency,
        /// How they are found.
        finding: Finding,
    },
}

/// How hot keys are found, where that differs from the default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Finding {
    /// Part of a worker's load from which on a key is hot.
    pub share: Option<f64>,
    /// Load from which on a worker looks for them, in requests a second.
    pub trigger_rps: Option<f64>,
    /// Part of reads that are looked at.
    pub sampling: Option<f64>,
}

/// Who serves the keys of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workers {
    /// This many workers, each with keys of its own.
    Own(u16),
    /// As many that all serve any key, as memcached's threads do: one worker that is as many times as fast. That costs
    /// them nothing here, no lock and no wait.
    Shared(u16),
}

impl Workers {
    /// How many there are.
    pub fn count(self) -> u16 {
        match self {
            Workers::Own(count) | Workers::Shared(count) => count,
        }
    }
}

/// One of the curves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setting {
    pub servers: usize,
    pub workers: Workers,
    pub placement: Placement,
    pub hot_keys: HotKeys,
    /// Whether workers that are overloaded lend cachelets to others of their server.
    pub lends: bool,
    /// Whether the coordinator moves cachelets from servers that are overloaded to others.
    pub moves: bool,
    pub popularity: Popularity,
    /// Share of the gets; the rest are sets.
    pub get_share: f64,
    /// Keys that are never written.
    pub read_only: Option<ReadOnly>,
    /// Whether other keys become hot all the time.
    pub reshuffled: bool,
    /// Which copy of a hot key simulated clients read; real ones read as what ships does.
    pub reads: ReadChoice,
}

impl Setting {
    /// The paper's baseline: plain servers, keys hashed, Zipf 0.99, 99 % gets.
    pub fn plain(servers: usize) -> Setting {
        Setting {
            servers,
            workers: Workers::Own(1),
            placement: Placement::Ketama,
            hot_keys: HotKeys::Off,
            lends: false,
            moves: false,
            popularity: ZIPF,
            get_share: 0.99,
            read_only: None,
            reshuffled: false,
            reads: ReadChoice::Guarded,
        }
    }

    /// Hot keys replicated as they are by default.
    pub fn replicated(servers: usize) -> Setting {
        let default = HotKeysConfig::default();
        Setting {
            placement: Placement::Map,
            hot_keys: HotKeys::Replicated {
                gamma_max: default.gamma_max,
                lease: default.lease,
                consistency: default.consistency,
                finding: Finding::default(),
            },
            ..Setting::plain(servers)
        }
    }

    /// The same with atomic writes (SE-SPORE), and the leases that these have by default.
    pub fn atomic(servers: usize) -> Setting {
        let atomic = Consistency::Atomic;
        let mut setting = Setting::replicated(servers).lease(atomic.lease_default());
        if let HotKeys::Replicated { consistency, .. } = &mut setting.hot_keys {
            *consistency = atomic;
        }
        setting
    }

    /// The same servers and placement, with hot keys left alone.
    pub fn unreplicated(servers: usize) -> Setting {
        Setting {
            hot_keys: HotKeys::Off,
            ..Setting::replicated(servers)
        }
    }

    /// Anyone who serves the keys of each server.
    pub fn workers(self, workers: Workers) -> Setting {
        Setting { workers, ..self }
    }

    /// With cachelets lent between the workers of a server.
    pub fn lending(self) -> Setting {
        Setting {
            lends: true,
            ..self
        }
    }

    /// With cachelets moved between servers.
    pub fn moving(self) -> Setting {
        Setting {
            moves: true,
            ..self
        }
    }

    /// With nothing that evens out load.
    pub fn resting(self) -> Setting {
        Setting {
            hot_keys: HotKeys::Off,
            lends: false,
            moves: false,
            ..self
        }
    }

    /// Perfect balance: uniform keys, the same number for each server.
    pub fn ideal(servers: usize) -> Setting {
        Setting {
            placement: Placement::Map,
            ..Setting::plain(servers).uniform()
        }
    }

    pub fn uniform(self) -> Setting {
        self.popularity(Popularity::Uniform)
    }

    pub fn popularity(self, popularity: Popularity) -> Setting {
        Setting { popularity, ..self }
    }

    pub fn get_share(self, get_share: f64) -> Setting {
        Setting { get_share, ..self }
    }

    pub fn read_only(self, read_only: ReadOnly) -> Setting {
        Setting {
            read_only: Some(read_only),
            ..self
        }
    }

    pub fn reshuffled(self) -> Setting {
        Setting {
            reshuffled: true,
            ..self
        }
    }

    pub fn reads(self, reads: ReadChoice) -> Setting {
        Setting { reads, ..self }
    }

    /// Replicated, with at most this many replicas.
    pub fn gamma_max(mut self, most: u8) -> Setting {
        if let HotKeys::Replicated { gamma_max, .. } = &mut self.hot_keys {
            *gamma_max = most;
        }
        self
    }

    /// Replicated, with leases of this length.
    pub fn lease(mut self, length: Duration) -> Setting {
        if let HotKeys::Replicated { lease, .. } = &mut self.hot_keys {
            *lease = length;
        }
        self
    }

    /// Replicated, with hot keys found in this way.
    pub fn finding(mut self, wanted: Finding) -> Setting {
        if let HotKeys::Replicated { finding, .. } = &mut self.hot_keys {
            *finding = wanted;
        }
        self
    }
}
