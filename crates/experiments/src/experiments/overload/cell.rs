//! What is measured: one fleet, one load, one thing that happens.

use crate::fleet::{FleetPlan, LoadSpec, Pool, Smallness};
use core::fmt;
use core::time::Duration;
use evenkeel_coordinator_core::plans::PlanMode;
use evenkeel_hotkeys::config::Mode as HotKeys;
use evenkeel_workload::Popularity;
use serde_json::json;

/// Length of each key and value, in bytes.
const KEY_LEN: usize = 24;
const VALUE_LEN: usize = 100;

/// Memory of a server, in megabytes: nothing has to be evicted.
const MEMORY_MB: usize = 64;

/// Connections of a proxy besides those of loads: for filling.
const CONNECTIONS_MORE: usize = 16;

/// Requests of the hottest key of the IBM Docker registry, by all.
const ONE_KEY_SHARE: f64 = 0.46;

/// And of each of two hot keys.
const TWO_KEYS_SHARE: f64 = 0.2;

/// The servers, and the proxies before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deployment {
    pub servers: usize,
    /// Keys a second that each server can serve.
    pub capacity: u64,
    pub proxies: usize,
    pub hot_keys: HotKeys,
    /// Proxies deal keys to them as to plain memcacheds.
    pub plain: bool,
}

impl Deployment {
    /// Eight servers of 0.4 ms for each key.
    pub const EIGHT: Deployment = Deployment {
        servers: 8,
        capacity: 2_500,
        proxies: 1,
        hot_keys: HotKeys::On,
        plain: false,
    };

    /// The same with three proxies.
    pub const THREE_PROXIES: Deployment = Deployment {
        proxies: 3,
        ..Deployment::EIGHT
    };

    /// The same eight servers, spoken to as plain memcacheds.
    pub const PLAIN: Deployment = Deployment {
        plain: true,
        ..Deployment::EIGHT
    };

    /// Twelve of a millisecond.
    pub const TWELVE: Deployment = Deployment {
        servers: 12,
        capacity: 1_000,
        ..Deployment::EIGHT
    };

    /// Requests a second that all servers could answer if nothing were lost.
    pub fn nominal(&self) -> f64 {
        (self.servers as u64 * self.capacity) as f64
    }
}

impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.servers)?;
        if self.plain {
            f.write_str("plain ")?;
        }
        f.write_str("servers")?;
        match self.proxies {
            1 => f.write_str(", 1 proxy")?,
            proxies => write!(f, ", {proxies} proxies")?,
        }
        match self.hot_keys {
            HotKeys::On => Ok(()),
            HotKeys::Observe | HotKeys::Off => f.write_str(", hot keys off"),
        }
    }
}

/// How unevenly requests fall on keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Keys {
    Uniform,
    Zipf(f64),
    One,
    Two,
    /// As recorded at a Docker registry of IBM.
    Registry,
}

impl Keys {
    pub fn popularity(self, keys: u64) -> Popularity {
        let hotspot = |count: f64, share: f64| Popularity::Hotspot {
            operations: share,
            keys: count / keys as f64,
        };
        match self {
            Keys::Uniform => Popularity::Uniform,
            Keys::Zipf(exponent) => Popularity::Zipf { exponent },
            // What stands in for it where it is not there: its hottest key among others that are alike.
            Keys::One | Keys::Registry => hotspot(1.0, ONE_KEY_SHARE),
            Keys::Two => hotspot(2.0, 2.0 * TWO_KEYS_SHARE),
        }
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Keys::Uniform => f.write_str("uniform"),
            Keys::Zipf(exponent) => write!(f, "Zipf {exponent}"),
            Keys::One => write!(f, "one key {:.0} %", 100.0 * ONE_KEY_SHARE),
            Keys::Registry => f.write_str("Docker registry"),
            Keys::Two => write!(f, "two keys {:.0} % each", 100.0 * TWO_KEYS_SHARE),
        }
    }
}

/// The connections of all applications together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connections {
    pub count: usize,
    /// Requests that may be in flight on each.
    pub depth: usize,
}

pub(super) const DEEP: Connections = Connections {
    count: 66,
    depth: 256,
};

pub(super) const FLAT: Connections = Connections {
    count: 200,
    depth: 1,
};

pub(super) const FEW: Connections = Connections {
    count: 8,
    depth: 16,
};

/// Connections that come at once where all were lost.
pub(super) const CROWDED: Connections = Connections {
    count: 2_000,
    depth: 1,
};

/// How much is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    /// This many per cent of what uniform keys carry on the same servers, whether or not answers come.
    Percent(u32),
    /// A request follows an answer.
    Closed,
}

impl fmt::Display for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Offered::Percent(percent) => write!(f, "{percent} %"),
            Offered::Closed => f.write_str("closed loop"),
        }
    }
}

/// What happens while the load goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Nothing,
    /// This many per cent of the capacity are offered for a while.
    Burst(u32),
    /// Half as much again is offered for five seconds.
    Surge,
    /// A key that nobody has read gets two fifths of all requests.
    Crowd,
    /// Other keys become the hot ones, again and again.
    Changes,
    /// The home of the hottest key is killed.
    HomeKilled,
    /// A server that is not its home is killed.
    OtherKilled,
    /// The home is stopped for three seconds.
    HomePaused,
    /// A server that is not its home is ten times slower for three seconds.
    OtherSlow,
    /// All applications lose their connections, and come back with 2,000 at once.
    Reconnect,
    /// No lease is granted for three seconds: the operator has turned hot keys off, and on again.
    LeasesRefused,
    /// A proxy is killed, and started again at once.
    ProxyKilled,
    /// The coordinator is away for a while.
    CoordinatorAway,
    /// A quarter of the servers and the coordinator do not hear each other, one server after another; all others hear both.
    LinksDown,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Nothing => Ok(()),
            Event::Burst(percent) => write!(f, ", burst of {percent} %"),
            Event::Surge => f.write_str(", half as much again 5 s"),
            Event::LeasesRefused => f.write_str(", leases refused 3 s"),
            Event::ProxyKilled => f.write_str(", proxy killed"),
            Event::Crowd => f.write_str(", flash crowd"),
            Event::Changes => f.write_str(", hot keys change"),
            Event::HomeKilled => f.write_str(", home killed"),
            Event::OtherKilled => f.write_str(", other server killed"),
            Event::HomePaused => f.write_str(", home stopped 3 s"),
            Event::OtherSlow => f.write_str(", other server slow 3 s"),
            Event::Reconnect => f.write_str(", all reconnect"),
            Event::CoordinatorAway => f.write_str(", coordinator away"),
            Event::LinksDown => f.write_str(", links to the coordinator drop"),
        }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub deployment: Deployment,
    pub keys: Keys,
    pub connections: Connections,
    /// Per cent of the requests that are sets, of each key alike.
    pub writes: u32,
    pub offered: Offered,
    pub event: Event,
}

impl Cell {
    /// From which the others differ in one respect or two.
    pub const BASE: Cell = Cell {
        deployment: Deployment::EIGHT,
        keys: Keys::One,
        connections: DEEP,
        writes: 5,
        offered: Offered::Percent(80),
        event: Event::Nothing,
    };

    /// The cell with uniform keys that this one is compared with.
    pub fn reference(&self) -> Cell {
        Cell {
            keys: Keys::Uniform,
            writes: Cell::BASE.writes,
            event: Event::Nothing,
            ..*self
        }
    }

    /// The processes, as they are shipped. `long_timeouts`: they are more long_timeouts, and take keys for hot that are read a few
    /// times a second.
    pub fn plan(&self, long_timeouts: bool) -> FleetPlan {
        let flags = |flags: &[&str]| match long_timeouts {
            true => flags.iter().map(|&flag| flag.to_owned()).collect(),
            false => Vec::new(),
        };
        let deployment = self.deployment;
        FleetPlan {
            servers: deployment.servers,
            smallness: Smallness::of_capacity(deployment.capacity),
            memory_mb: MEMORY_MB,
            proxies: deployment.proxies,
            pool: match deployment.plain {
                true => Pool::PlainHotKeys,
                false => Pool::Cluster {
                    hot_keys: deployment.hot_keys,
                    plans: PlanMode::Observe,
                },
            },
            settings: match long_timeouts {
                true => json!({"hot_trigger_rps": 20, "hot_sampling": 100}),
                false => json!({}),
            },
            coordinator_flags: flags(&["--silent-ms", "10000"]),
            proxy_flags: flags(&["--connect-timeout", "30s", "--request-timeout", "50s"]),
            connections: self.connections_max() + CONNECTIONS_MORE,
            relays: self.event == Event::LinksDown,
            ..FleetPlan::default()
        }
    }

    /// Connections that there are at once, of its load and of another one that may come to it.
    fn connections_max(&self) -> usize {
        let more = match self.event {
            Event::Reconnect => CROWDED,
            _ => self.connections,
        };
        self.connections.count + more.count
    }

    /// What its requests are.
    pub fn load(&self, keys: u64, seed: u64) -> LoadSpec {
        LoadSpec {
            keys,
            prefix: "k:".into(),
            key_len: KEY_LEN,
            value_len: VALUE_LEN,
            popularity: self.keys.popularity(keys),
            get_share: 1.0 - f64::from(self.writes) / 100.0,
            // A trace has no sets of its own: what it finds missing is set.
            cache_aside: self.keys == Keys::Registry,
            read_only: None,
            reshuffle: None,
            connections: self.connections.count.div_ceil(self.deployment.proxies),
            pipeline: self.connections.depth,
            warm_up: Duration::ZERO,
            duration: Duration::ZERO,
            seed,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Connections { count, depth } = self.connections;
        if self.deployment != Cell::BASE.deployment {
            write!(f, "{}: ", self.deployment)?;
        }
        write!(
            f,
            "{}, {count}x{depth}, {} % writes, {}{}",
            self.keys, self.writes, self.offered, self.event
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_says_what_it_is() {
        let cell = Cell {
            event: Event::Burst(150),
            ..Cell::BASE
        };
        assert_eq!(
            cell.to_string(),
            "one key 46 %, 66x256, 5 % writes, 80 %, burst of 150 %"
        );
    }
}
