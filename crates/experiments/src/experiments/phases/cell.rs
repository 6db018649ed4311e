//! What is measured: servers, and what becomes uneven.

use crate::fleet::{FleetPlan, Pool, Smallness};
use core::fmt;
use evenkeel_coordinator_core::plans::PlanMode;
use evenkeel_hotkeys::config::Mode as HotKeys;

/// Keys a second of each worker.
pub(super) const CAPACITY: u64 = 1_000;

/// Part of that which is asked for of all keys alike, and what the workers of a server are asked for besides.
const BASE: f64 = 0.3;
const WARM: f64 = 0.65;

/// Part of the capacity that is asked for where a server is slow.
const BESIDE_SLOW: f64 = 0.5;

/// Keys that are warm and not hot.
pub(super) const LUKEWARM: usize = 208;

/// A region is such a part of the hash space, and has this many keys that are asked for.
pub(super) const REGION_PART: usize = 16;
pub(super) const REGION_KEYS: usize = 2_000;

/// Servers that become warm, one after the other.
const TURNS: usize = 3;

/// What becomes uneven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// 208 keys of one server are warm.
    OneServer,
    /// A region of the hash space.
    Region,
    /// One cachelet of each worker, each more than the one before.
    Cachelets,
    /// 208 keys of one server, then of another.
    Drift,
    /// As one server, and memory is full.
    Full,
    /// Keys are alike, and a server is half as fast as the others.
    Slow,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shape::OneServer => "208 keys of a server",
            Shape::Region => "a region",
            Shape::Cachelets => "a cachelet of each worker",
            Shape::Drift => "208 keys that drift",
            Shape::Full => "208 keys, memory full",
            Shape::Slow => "a server half as fast",
        })
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub servers: usize,
    pub workers: u16,
    pub shape: Shape,
}

const fn cell(servers: usize, workers: u16, shape: Shape) -> Cell {
    Cell {
        servers,
        workers,
        shape,
    }
}

/// All of them.
pub(super) const CELLS: &[Cell] = &[
    cell(3, 2, Shape::OneServer),
    cell(3, 2, Shape::Region),
    cell(3, 2, Shape::Cachelets),
    cell(3, 2, Shape::Drift),
    cell(3, 2, Shape::Full),
    cell(3, 2, Shape::Slow),
    cell(8, 2, Shape::OneServer),
    cell(8, 2, Shape::Region),
    cell(8, 2, Shape::Drift),
    cell(8, 2, Shape::Slow),
    cell(4, 4, Shape::OneServer),
    cell(4, 4, Shape::Cachelets),
    cell(4, 4, Shape::Slow),
];

impl Cell {
    /// Requests a second for all keys alike.
    pub fn base_rate(&self) -> f64 {
        let all = (self.servers * usize::from(self.workers)) as f64 * CAPACITY as f64;
        match self.shape {
            // One has half of its capacity.
            Shape::Slow => BESIDE_SLOW * all * (self.servers as f64 - 0.5) / self.servers as f64,
            _ => BASE * all,
        }
    }

    /// Requests a second for those that are warm.
    pub fn warm_rate(&self) -> f64 {
        WARM * f64::from(self.workers) * CAPACITY as f64
    }

    /// This many servers are warm, one after the other.
    pub fn turns(&self) -> usize {
        match self.shape {
            Shape::Drift => TURNS,
            _ => 1,
        }
    }

    /// How many times the usual number of keys there is.
    pub fn data_factor(&self) -> u64 {
        match self.shape {
            Shape::Full => 5,
            _ => 1,
        }
    }

    /// The processes: what is not said here is as it is shipped.
    pub fn plan(&self, data_bytes: u64, connections: usize) -> FleetPlan {
        // Two thirds of what the data takes, or far more.
        let data_mb = (data_bytes / self.servers as u64) >> 20;
        let memory_mb = match self.shape {
            Shape::Full => (data_mb * 2 / 3).max(8),
            _ => 256,
        };
        FleetPlan {
            servers: self.servers,
            workers: self.workers,
            smallness: Smallness::of_capacity(CAPACITY),
            slow_servers: usize::from(self.shape == Shape::Slow),
            memory_mb: memory_mb as usize,
            pool: Pool::Cluster {
                hot_keys: HotKeys::On,
                plans: PlanMode::default(),
            },
            connections,
            ..FleetPlan::default()
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}, {}", self.servers, self.workers, self.shape)
    }
}
