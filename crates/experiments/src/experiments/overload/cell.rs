//! What is measured: one fleet, one load, one thing that happens.

use crate::args::SmallBy;
use crate::fleet::{FleetPlan, LoadSpec, Pool, Smallness};
use core::fmt;
use core::time::Duration;
use evenkeel_bench::BadUsage;
use evenkeel_coordinator::api::plans::PlanMode;
use evenkeel_policy::hot_keys::config::Mode as HotKeys;
use evenkeel_workload::Popularity;

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
}

impl Deployment {
    /// Eight servers of 0.4 ms for each key.
    pub const EIGHT: Deployment = Deployment {
        servers: 8,
        capacity: 2_500,
        proxies: 1,
        hot_keys: HotKeys::On,
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

    /// The processes for a load, as they are shipped. `patient`: they are more patient, and
    /// take keys for hot that are read a few times a second.
    pub fn plan(&self, small_by: SmallBy, connections: usize, patient: bool) -> FleetPlan {
        let flags = |flags: &[&str]| match patient {
            true => flags.iter().map(|&flag| flag.to_owned()).collect(),
            false => Vec::new(),
        };
        FleetPlan {
            servers: self.servers,
            workers: 1,
            smallness: Smallness::of_capacity(small_by, self.capacity),
            memory_mb: MEMORY_MB,
            proxies: self.proxies,
            pool: Pool::Cluster {
                hot_keys: self.hot_keys,
                plans: PlanMode::Observe,
            },
            server_flags: flags(&["--hot-trigger-rps", "20", "--hot-sampling", "100"]),
            coordinator_flags: flags(&["--silent-ms", "10000"]),
            proxy_flags: flags(&["--connect-timeout", "30s", "--request-timeout", "50s"]),
            connections: connections + CONNECTIONS_MORE,
        }
    }
}

impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} servers", self.servers)?;
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
            Keys::One => hotspot(1.0, ONE_KEY_SHARE),
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

/// What happens while the load goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Nothing,
    /// So many per cent of the capacity are offered for a while.
    Burst(u32),
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
    /// The coordinator is away for a while.
    CoordinatorAway,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Nothing => Ok(()),
            Event::Burst(percent) => write!(f, ", burst of {percent} %"),
            Event::Crowd => f.write_str(", flash crowd"),
            Event::Changes => f.write_str(", hot keys change"),
            Event::HomeKilled => f.write_str(", home killed"),
            Event::OtherKilled => f.write_str(", other server killed"),
            Event::HomePaused => f.write_str(", home stopped 3 s"),
            Event::OtherSlow => f.write_str(", other server slow 3 s"),
            Event::Reconnect => f.write_str(", all reconnect"),
            Event::CoordinatorAway => f.write_str(", coordinator away"),
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
    /// Per cent of what uniform keys carry on the same servers.
    pub offered: u32,
    pub event: Event,
}

impl Cell {
    /// From which the others differ in one respect or two.
    pub const BASE: Cell = Cell {
        deployment: Deployment::EIGHT,
        keys: Keys::One,
        connections: DEEP,
        writes: 5,
        offered: 80,
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

    /// Connections that there are at once, of its load and of another one that may come to it.
    pub fn connections_max(&self) -> usize {
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
            cache_aside: false,
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
            "{}, {count}x{depth}, {} % writes, {} %{}",
            self.keys, self.writes, self.offered, self.event
        )
    }
}

/// For counts without clocks.
pub(super) fn fewest() -> Vec<Cell> {
    let events = [Event::Nothing, Event::Burst(150), Event::Crowd];
    events
        .map(|event| Cell {
            event,
            ..Cell::BASE
        })
        .to_vec()
}

/// What a run of two minutes has time for.
pub(super) fn few() -> Vec<Cell> {
    let base = Cell::BASE;
    vec![
        base,
        Cell { writes: 10, ..base },
        Cell {
            connections: FLAT,
            ..base
        },
        Cell {
            keys: Keys::Zipf(1.2),
            ..base
        },
        Cell {
            offered: 60,
            event: Event::Burst(150),
            ..base
        },
        Cell {
            event: Event::Crowd,
            ..base
        },
        Cell {
            event: Event::HomeKilled,
            ..base
        },
    ]
}

/// One axis at a time from the base, and what the targets name.
pub(super) fn all() -> Vec<Cell> {
    let base = Cell::BASE;
    let mut cells = vec![base];
    for keys in [Keys::Zipf(0.99), Keys::Zipf(1.2), Keys::Two] {
        cells.push(Cell { keys, ..base });
    }
    for connections in [FLAT, FEW] {
        for keys in [Keys::One, Keys::Zipf(1.2)] {
            cells.push(Cell {
                keys,
                connections,
                ..base
            });
        }
    }
    for writes in [0, 1, 10] {
        cells.push(Cell { writes, ..base });
    }
    for connections in [FLAT, FEW] {
        cells.push(Cell {
            connections,
            writes: 10,
            ..base
        });
    }
    cells.push(Cell {
        keys: Keys::Zipf(1.2),
        writes: 10,
        ..base
    });
    for keys in [Keys::One, Keys::Zipf(1.2)] {
        for offered in [60, 95] {
            cells.push(Cell {
                keys,
                offered,
                ..base
            });
        }
    }
    // More than the servers have room for, with hot keys and without.
    for hot_keys in [HotKeys::On, HotKeys::Off] {
        cells.push(Cell {
            deployment: Deployment {
                hot_keys,
                ..base.deployment
            },
            writes: 30,
            ..base
        });
    }
    for event in [Event::Crowd, Event::Changes] {
        for offered in [60, 80] {
            cells.push(Cell {
                offered,
                event,
                ..base
            });
        }
    }
    cells.push(Cell {
        offered: 60,
        event: Event::Burst(150),
        ..base
    });
    // What comes back by itself with little to spare comes back with more.
    for event in [
        Event::Burst(150),
        Event::Crowd,
        Event::HomePaused,
        Event::OtherSlow,
        Event::Reconnect,
    ] {
        cells.push(Cell {
            offered: 95,
            event,
            ..base
        });
    }
    for event in [
        Event::HomeKilled,
        Event::OtherKilled,
        Event::HomePaused,
        Event::OtherSlow,
        Event::Reconnect,
        Event::CoordinatorAway,
    ] {
        cells.push(Cell { event, ..base });
    }
    let three = Deployment {
        proxies: 3,
        ..Deployment::EIGHT
    };
    for deployment in [three, Deployment::TWELVE] {
        for keys in [Keys::One, Keys::Zipf(1.2)] {
            cells.push(Cell {
                deployment,
                keys,
                ..base
            });
        }
    }
    cells
}

/// The cells whose names contain one of some words; all where there are none.
///
/// # Errors
/// When a word is in no name; the names are told.
pub(super) fn named(cells: Vec<Cell>, words: &[String]) -> Result<Vec<Cell>, BadUsage> {
    let has = |cell: &Cell, word: &String| cell.to_string().contains(word.as_str());
    if let Some(word) = words
        .iter()
        .find(|word| !cells.iter().any(|cell| has(cell, word)))
    {
        let names: Vec<String> = cells.iter().map(Cell::to_string).collect();
        return Err(BadUsage(format!(
            "no cell's name contains '{word}':\n  {}",
            names.join("\n  ")
        )));
    }
    let is_named = |cell: &Cell| words.is_empty() || words.iter().any(|word| has(cell, word));
    Ok(cells.into_iter().filter(is_named).collect())
}

/// Each cell's reference comes before it, once.
pub(super) fn with_references(cells: Vec<Cell>) -> Vec<Cell> {
    let mut all: Vec<Cell> = Vec::with_capacity(2 * cells.len());
    for cell in cells {
        for cell in [cell.reference(), cell] {
            if !all.contains(&cell) {
                all.push(cell);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_names_of_their_own_and_references_before_them() {
        let cells = with_references(all());
        let names: Vec<_> = cells.iter().map(Cell::to_string).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name} twice");
        }
        for (at, cell) in cells.iter().enumerate() {
            assert!(cells[..=at].contains(&cell.reference()), "{cell}");
        }
        let few = with_references(few());
        assert!(few.iter().all(|cell| cells.contains(cell)));
    }

    #[test]
    fn cells_can_be_named() {
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let cells = named(all(), &words)?;
            Ok::<_, BadUsage>(cells.iter().map(Cell::to_string).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap().len(), all().len());
        let killed = names(&["home killed", "other server killed"]).unwrap();
        assert_eq!(killed.len(), 2, "{killed:?}");
        let unknown = names(&["killed", "nothing"]).unwrap_err().to_string();
        assert!(unknown.contains("'nothing'") && unknown.contains("coordinator away"));
    }

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
