//! How large everything is, by the scale and by what the servers are.

use super::setting::{HotKeys, Setting};
use crate::args::{Mode, Scale};
use crate::run::Run;
use crate::simulated::Fidelity;
use crate::small;
use evenkeel_bench::{Objective, Percentile};
use std::time::Duration;

/// SPORE's lengths of keys (of real servers; simulated ones have 16 bytes) and of values.
pub(crate) const KEY_LEN: usize = 10;
pub(crate) const VALUE_LEN: usize = 200;

/// The paper's own: 45,000 requests/s of twelve servers.
const CAPACITY_PAPER: u64 = 4_000;

/// As much as can be simulated in minutes with many servers.
const CAPACITY_BEYOND: u64 = 20_000;

/// The paper's largest number of clients.
const CONNECTIONS: usize = 66;

/// Rates of a curve, by the capacity of all servers. Virtual time has room for more of them.
const RATES: [f64; 4] = [0.3, 0.6, 0.75, 0.9];
const RATES_QUICK: [f64; 2] = [0.4, 0.8];
const RATES_SIMULATED: [f64; 8] = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];

/// How long workers take until they have lent what is to be lent: loads are believed after two seconds, and what one
/// plan does is looked at for as long before the next.
const LENDS_IN: Duration = Duration::from_secs(5);

/// How long a coordinator takes until it has moved what a first plan moves: loads are believed after four seconds, and
/// what is copied is small.
const MOVES_IN: Duration = Duration::from_secs(10);

/// How large everything is.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    /// Servers are scaled by this.
    pub servers_by: f64,
    pub keys: u64,
    /// Length of each key of real servers, in bytes.
    pub key_len: usize,
    /// Length of each value, in bytes.
    pub value_len: usize,
    /// Keys a second that a worker can serve.
    pub capacity: u64,
    /// Sets of names of the keys, each of other homes; figures are means over them.
    pub names: u64,
    /// Clients, each with leases of its own.
    pub connections: usize,
    /// Time for hot keys to be found before anything is measured.
    pub warm_up: Duration,
    /// Length of a trial.
    pub duration: Duration,
    /// How often other keys become hot where they do.
    pub reshuffle: Duration,
    /// Rates of a curve, by the capacity of all servers.
    pub rates: &'static [f64],
    /// Throughputs are found this exactly.
    pub precision: f64,
    /// What throughputs are judged by.
    pub limit_of: Percentile,
    /// Of simulated servers.
    pub fidelity: Fidelity,
}

impl Size {
    pub fn of(run: &Run) -> Size {
        match run.mode {
            Mode::Real => Size::real(run),
            Mode::Sim => Size::simulated(run),
        }
    }

    fn real(run: &Run) -> Size {
        Size {
            // Each process takes its time to start.
            servers_by: run.by_scale([0.25, 1.0, 1.0, 1.0]),
            keys: run.by_scale([2_000, 60_000, 1_000_000, 10_000_000]),
            capacity: small::CAPACITY,
            names: run.by_scale([1, 1, 6, 6]),
            warm_up: Duration::from_secs(5),
            duration: Duration::from_millis(run.by_scale([300, 2_000, 10_000, 10_000])),
            // The paper's minute is longer than a small experiment's trials.
            reshuffle: Duration::from_millis(run.by_scale([100, 2_500, 60_000, 60_000])),
            rates: run.by_scale([&RATES_QUICK, &RATES, &RATES, &RATES]),
            precision: run.by_scale([1.0, 0.06, 0.04, 0.04]),
            ..Size::simulated(run)
        }
    }

    fn simulated(run: &Run) -> Size {
        Size {
            servers_by: 1.0,
            keys: run.by_scale([20_000, 60_000, 1_000_000, 10_000_000]),
            key_len: KEY_LEN,
            value_len: VALUE_LEN,
            capacity: run.by_scale([
                small::CAPACITY,
                small::CAPACITY,
                CAPACITY_PAPER,
                CAPACITY_BEYOND,
            ]),
            names: run.by_scale([1, 3, 6, 6]),
            connections: CONNECTIONS,
            // What piled up at a hot server before its keys were found has to be gone.
            warm_up: Duration::from_secs(run.by_scale([10, 30, 30, 30])),
            duration: Duration::from_secs(run.by_scale([5, 15, 30, 30])),
            reshuffle: Duration::from_secs(run.by_scale([5, 60, 60, 60])),
            rates: run.by_scale([
                &RATES_QUICK,
                &RATES_SIMULATED,
                &RATES_SIMULATED,
                &RATES_SIMULATED,
            ]),
            precision: run.by_scale([0.1, 0.03, 0.02, 0.02]),
            limit_of: Percentile::P99,
            fidelity: run.fidelity,
        }
    }

    /// The same with fewer and shorter trials of small real servers, at these rates, where several settings must fit in
    /// a minute or two.
    pub fn coarse(&self, run: &Run, rates: &'static [f64], precision: f64) -> Size {
        if !is_small_and_real(run) {
            return self.clone();
        }
        Size {
            warm_up: Duration::from_secs(3),
            duration: Duration::from_millis(1_500),
            reshuffle: Duration::from_secs(2),
            rates,
            precision,
            ..self.clone()
        }
    }

    /// The same with fewer keys in small real servers, which take a millisecond to set each: for what is no throughput
    /// to be compared with others.
    pub fn brief(&self, run: &Run) -> Size {
        if !is_small_and_real(run) {
            return self.clone();
        }
        Size {
            keys: 12_000,
            warm_up: Duration::from_secs(3),
            duration: Duration::from_millis(2_500),
            ..self.clone()
        }
    }

    /// What a throughput must keep to.
    pub fn objective(&self) -> Objective {
        Objective {
            percentile: self.limit_of,
            within: Duration::from_secs_f64(small::LIMIT_SERVICES / self.capacity as f64),
        }
    }

    /// Servers of a setting.
    pub fn servers(&self, setting: &Setting) -> usize {
        ((setting.servers as f64 * self.servers_by) as usize).max(1)
    }

    /// Requests a second that the servers of a setting can serve, if each has as much to do.
    pub fn capacity(&self, setting: &Setting) -> f64 {
        let workers = self.servers(setting) * usize::from(setting.workers.count());
        workers as f64 * self.capacity as f64
    }

    /// Time for real servers to even out their load before anything is measured.
    pub fn warm_up(&self, setting: &Setting) -> Duration {
        let replicated = match setting.hot_keys {
            HotKeys::Off => Duration::ZERO,
            HotKeys::Replicated { .. } => self.warm_up,
        };
        let takes = |does: bool, time| if does { time } else { Duration::ZERO };
        replicated + takes(setting.lends, LENDS_IN) + takes(setting.moves, MOVES_IN)
    }

    /// How long a trial is: two changes of the hot keys where they change.
    pub fn trial(&self, setting: &Setting) -> Duration {
        match setting.reshuffled {
            true => 2 * self.reshuffle,
            false => self.duration,
        }
    }
}

/// Whether minutes on two cores have to do for real servers.
pub(crate) fn is_small_and_real(run: &Run) -> bool {
    run.mode == Mode::Real && run.scale == Scale::Small
}
