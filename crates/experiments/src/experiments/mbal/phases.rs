//! Settings of the paper's cluster (section 4.2), by which phases act, and how large it is.

use super::{GET_SHARE, WORKERS};
use crate::args::Mode;
use crate::experiments::curves::setting::{Setting, Workers};
use crate::experiments::curves::size::Size;
use crate::run::Run;
use std::time::Duration;

pub(super) const MEMCACHED: &str = "memcacheds";
pub(super) const OFF: &str = "no phase";
pub(super) const PHASE_1: &str = "phase 1 alone: hot keys replicated";
pub(super) const PHASE_2: &str = "phase 2 alone: cachelets lent between workers";
pub(super) const PHASE_3: &str = "phase 3 alone: cachelets moved between servers";
pub(super) const ALL: &str = "all phases";
pub(super) const UNIFORM: &str = "uniform keys";

/// Real servers: as many as two cores sustain. The paper's are simulated.
const SERVERS_REAL: usize = 8;
const SERVERS: usize = 20;

/// Keys a second of each worker of a real server.
const CAPACITY_REAL: u64 = 500;

/// Simulated servers beyond the paper.
const SERVERS_MANY: usize = 1_000;

/// Servers of a run.
pub(super) fn servers(run: &Run) -> usize {
    match run.mode {
        Mode::Real => SERVERS_REAL,
        Mode::Sim => run.by_scale([SERVERS, SERVERS, SERVERS, SERVERS_MANY]),
    }
}

/// Servers in which nothing is evened out.
fn off(servers: usize) -> Setting {
    Setting::unreplicated(servers)
        .workers(Workers::Own(WORKERS))
        .get_share(GET_SHARE)
}

/// Hot keys replicated, and nothing else.
fn phase_1(servers: usize) -> Setting {
    Setting {
        hot_keys: Setting::replicated(servers).hot_keys,
        ..off(servers)
    }
}

/// Everything that evens out load.
pub(super) fn all(servers: usize) -> Setting {
    phase_1(servers).lending().moving()
}

/// Each phase alone, between servers without any and equally popular keys.
pub(super) fn each_alone(run: &Run) -> Vec<(&'static str, Setting)> {
    let servers = servers(run);
    vec![
        (MEMCACHED, super::memcacheds(servers)),
        (OFF, off(servers)),
        (PHASE_1, phase_1(servers)),
        (PHASE_2, off(servers).lending()),
        (PHASE_3, off(servers).moving()),
        (UNIFORM, off(servers).uniform()),
    ]
}

/// How large a cluster is.
pub(super) fn size(run: &Run) -> Size {
    super::size(run, CAPACITY_REAL, |size| Size {
        keys: 8_000,
        warm_up: Duration::from_secs(3),
        duration: Duration::from_millis(1_500),
        rates: &[0.4, 0.6, 0.8],
        precision: 0.2,
        ..size
    })
}
