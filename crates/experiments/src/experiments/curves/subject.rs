//! Makes what load can be put on of a setting: a fleet of real servers, or a plan for the simulator.

use super::setting::{HotKeys, Placement, Setting, Workers};
use super::size::Size;
use crate::fleet::{Fleet, FleetPlan, LoadSpec, LoadedFleet, PIPELINE, Pool, Smallness};
use crate::run::Run;
use crate::trial::Subject;
use evenkeel_balance::load::TriggerConfig;
use evenkeel_coordinator_core::plans::{PlanMode, PlanSettings};
use evenkeel_hotkeys::config::{HotKeysConfig, Mode as Replicate, ssm_entries};
use evenkeel_placement::config::Distribution;
use evenkeel_sim::load::{Balancing, KeyPlacement, LoadPlan, ServiceModel};
use serde_json::json;
use std::time::Duration;

/// Time before each trial on real servers that is not measured.
const WARM_UP: Duration = Duration::from_millis(500);

/// Part of the capacity that is asked of real servers while their load is evened out.
pub(crate) const SETTLE_AT: f64 = 0.5;

/// Memory of a real server, in megabytes; of a simulated one at least, and by what it has to hold.
const MEMORY_MB: usize = 64;
const MEMORY_SIMULATED: usize = 16 << 20;
const MEMORY_BY_CONTENT: usize = 8;

/// A fleet that stays for the next setting if that has the same servers: to start them and to set every key takes
/// longer than a trial.
#[derive(Debug, Default)]
pub(crate) struct Ground {
    running: Option<(FleetPlan, Fleet)>,
    /// The names of the keys that were set last.
    filled: Option<u64>,
}

impl Ground {
    /// The servers of a setting under its load: filled, and with their hot keys found.
    pub fn ready(
        &mut self,
        run: &Run,
        size: &Size,
        setting: &Setting,
        names: u64,
        say: &dyn Fn(&str),
    ) -> anyhow::Result<LoadedFleet<'_>> {
        let plan = fleet_plan(size, setting);
        if self
            .running
            .as_ref()
            .is_none_or(|(running, _)| *running != plan)
        {
            say("starting");
            // The old one has to go first: both would not fit on the machine.
            (self.running, self.filled) = (None, None);
            let fleet = Fleet::start(&plan)?;
            self.running = Some((plan, fleet));
        }
        let (_, fleet) = self.running.as_ref().expect("it was just started");
        let load = load(run, size, setting, names);
        if self.filled != Some(names) {
            say("filling");
            load.fill(fleet)?;
            self.filled = Some(names);
        }
        let mut subject = LoadedFleet { fleet, load };
        let warm_up = size.warm_up(setting);
        if !warm_up.is_zero() {
            say("load is being evened out");
            let duration = std::mem::replace(&mut subject.load.duration, warm_up);
            subject.trial(SETTLE_AT * size.capacity(setting))?;
            subject.load.duration = duration;
        }
        Ok(subject)
    }
}

pub(crate) fn fleet_plan(size: &Size, setting: &Setting) -> FleetPlan {
    let hot_keys = match setting.hot_keys {
        HotKeys::Off => Replicate::Off,
        HotKeys::Replicated { .. } => Replicate::On,
    };
    let settings = match setting.hot_keys {
        HotKeys::Off => json!({}),
        HotKeys::Replicated {
            gamma_max,
            lease,
            consistency,
            finding,
        } => {
            let percent = |part: Option<f64>| part.map(|part| 100.0 * part);
            json!({
                "gamma_max": gamma_max,
                "lease_ms": lease.as_millis() as u64,
                "hot_keys_consistency": consistency,
                "hot_share": percent(finding.share),
                "hot_trigger_rps": finding.trigger_rps,
                "hot_sampling": percent(finding.sampling),
            })
        }
    };
    let lends = if setting.lends { "on" } else { "off" };
    FleetPlan {
        servers: size.servers(setting),
        workers: match setting.workers {
            Workers::Own(count) => count,
            Workers::Shared(_) => 1,
        },
        smallness: smallness(size, setting.workers),
        memory_mb: MEMORY_MB,
        pool: match setting.placement {
            Placement::Ketama => Pool::Plain {
                distribution: "ketama_weighted",
            },
            Placement::Map => Pool::Cluster {
                hot_keys,
                plans: match setting.moves {
                    true => PlanMode::Automatic,
                    false => PlanMode::Observe,
                },
            },
        },
        settings,
        server_flags: vec!["--balance-workers".into(), lends.into()],
        connections: 2 * size.connections,
        ..FleetPlan::default()
    }
}

/// What makes a server with such workers small.
pub(crate) fn smallness(size: &Size, workers: Workers) -> Smallness {
    Smallness::of_capacity(capacity_of_thread(size, workers))
}

/// Keys a second that each thread that there really is serves.
fn capacity_of_thread(size: &Size, workers: Workers) -> u64 {
    match workers {
        Workers::Own(_) => size.capacity,
        Workers::Shared(count) => size.capacity * u64::from(count),
    }
}

pub(crate) fn load(run: &Run, size: &Size, setting: &Setting, names: u64) -> LoadSpec {
    LoadSpec {
        keys: size.keys,
        prefix: format!("{names}:"),
        key_len: size.key_len,
        value_len: size.value_len,
        popularity: setting.popularity,
        get_share: setting.get_share,
        cache_aside: false,
        read_only: setting.read_only,
        reshuffle: setting.reshuffled.then_some(size.reshuffle),
        connections: size.connections,
        pipeline: PIPELINE,
        warm_up: WARM_UP,
        duration: size.trial(setting),
        seed: run.seed.wrapping_add(names),
    }
}

pub(crate) fn load_plan(seed: u64, size: &Size, setting: &Setting) -> LoadPlan {
    let servers = size.servers(setting);
    let content = size.keys as usize * size.value_len / servers;
    let nanos = |duration: Duration| duration.as_nanos() as u64;
    LoadPlan {
        seed,
        servers,
        workers_per_server: match setting.workers {
            Workers::Own(count) => count,
            Workers::Shared(_) => 1,
        },
        placement: match setting.placement {
            Placement::Ketama => KeyPlacement::Plain(Distribution::KetamaWeighted),
            Placement::Map => KeyPlacement::Map,
        },
        proxies: 1,
        clients: size.connections,
        keys: size.keys,
        popularity: setting.popularity,
        reshuffle: setting.reshuffled.then(|| nanos(size.reshuffle)),
        get_share: setting.get_share,
        read_only: setting.read_only,
        value_bytes: size.value_len,
        prefill: true,
        memory_bytes: (MEMORY_BY_CONTENT * content).max(MEMORY_SIMULATED),
        hot_keys: hot_keys(setting),
        reads: setting.reads,
        balancing: balancing(setting),
        service: ServiceModel {
            operation_ns: 1e9 / capacity_of_thread(size, setting.workers) as f64,
            ..ServiceModel::default()
        },
        warm_up: nanos(size.warm_up),
        length: nanos(size.trial(setting)),
        ..LoadPlan::default()
    }
}

/// Nobody tells loads where nothing could come of it: that takes time to simulate.
fn balancing(setting: &Setting) -> Option<Balancing> {
    let moves = setting.lends || setting.moves;
    moves.then(|| Balancing {
        lends: setting.lends,
        plans: PlanSettings {
            mode: match setting.moves {
                true => PlanMode::Automatic,
                false => PlanMode::Observe,
            },
            ..PlanSettings::default()
        },
    })
}

fn hot_keys(setting: &Setting) -> HotKeysConfig {
    let HotKeys::Replicated {
        gamma_max,
        lease,
        consistency,
        finding,
    } = setting.hot_keys
    else {
        return HotKeysConfig {
            mode: Replicate::Off,
            ..HotKeysConfig::default()
        };
    };
    let default = HotKeysConfig::default();
    let hot_share = finding.share.unwrap_or(default.hot_share);
    HotKeysConfig {
        mode: Replicate::On,
        gamma_max,
        lease,
        consistency,
        write_weight: evenkeel_hotkeys::config::write_weight(consistency),
        entries_max: ssm_entries(1),
        sampling: finding.sampling,
        hot_share,
        cold_share: hot_share / 2.0,
        trigger: TriggerConfig {
            absolute_rps: finding.trigger_rps,
            ..default.trigger
        },
        ..default
    }
}
