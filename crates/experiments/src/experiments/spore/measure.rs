//! Measures settings: the curve and the knee of each, on real servers one after the other, or on simulated ones on
//! all cores at once.

use super::setting::{HotKeys, Placement, Setting};
use super::size::{KEY_LEN, Size, VALUE_LEN};
use crate::args::Mode;
use crate::fleet::{Fleet, FleetPlan, LoadSpec, LoadedFleet, Pool, Smallness};
use crate::run::Run;
use crate::simulated::SimulatedLoad;
use crate::trial::{Knee, Subject, Sweep, Trial, mean, sweep};
use evenkeel_policy::hot_keys::config::{
    Consistency, HotKeysConfig, Mode as Replicate, ssm_entries,
};
use evenkeel_policy::placement::config::Distribution;
use evenkeel_sim::load::{KeyPlacement, LoadPlan, ServiceModel};
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Time before each trial on real servers that is not measured.
const WARM_UP: Duration = Duration::from_millis(500);

/// Part of the capacity that is asked of real servers while hot keys are found.
const SETTLE_AT: f64 = 0.5;

/// Memory of a real server, in megabytes; of a simulated one at least, and by what it has to hold.
const MEMORY_MB: usize = 64;
const MEMORY_SIMULATED: usize = 16 << 20;
const MEMORY_BY_CONTENT: usize = 8;

/// What was found in one setting.
#[derive(Debug)]
pub(super) struct Found {
    pub label: &'static str,
    pub setting: Setting,
    pub servers: usize,
    /// One for each set of names.
    sweeps: Vec<Sweep>,
    /// Whether another experiment of the same run has measured it.
    pub again: bool,
}

impl Found {
    /// The curve, at each rate a trial for each set of names.
    pub fn curve(&self) -> Vec<Vec<&Trial>> {
        let rates = self.sweeps.first().map_or(0, |sweep| sweep.curve.len());
        (0..rates)
            .map(|rate| self.sweeps.iter().map(|sweep| &sweep.curve[rate]).collect())
            .collect()
    }

    /// The trials of the curve at the rate next to this part of the capacity.
    pub fn at(&self, size: &Size, share: f64) -> Vec<&Trial> {
        let rate = share * size.capacity(&self.setting);
        let off = |trials: &Vec<&Trial>| (mean(trials, |t| t.offered_per_second) - rate).abs();
        let curve = self.curve().into_iter();
        curve
            .min_by(|a, b| off(a).total_cmp(&off(b)))
            .unwrap_or_default()
    }

    /// The highest throughput that keeps to the limit, in requests a second: the mean over the sets of names.
    pub fn rate(&self) -> f64 {
        let rates = self.rates();
        rates.iter().sum::<f64>() / rates.len().max(1) as f64
    }

    /// The same for each set of names.
    pub fn rates(&self) -> Vec<f64> {
        self.knees().map(Knee::requests_per_second).collect()
    }

    /// The same for each server.
    pub fn rate_of_server(&self) -> f64 {
        self.rate() / self.servers as f64
    }

    pub fn knees(&self) -> impl Iterator<Item = &Knee> {
        self.sweeps.iter().map(|sweep| &sweep.knee)
    }
}

/// Measures all of the settings, each by its label.
pub(super) fn measure(
    run: &Run,
    size: &Size,
    settings: &[(&'static str, Setting)],
) -> anyhow::Result<Vec<Found>> {
    let known: Vec<_> = settings
        .iter()
        .map(|(_, setting)| run.measured.get(&memo_key(run, size, setting)))
        .collect();
    let wanted: Vec<_> = settings
        .iter()
        .zip(&known)
        .filter(|(_, known)| known.is_none())
        .map(|(setting, _)| setting)
        .collect();
    let mut fresh = match run.mode {
        Mode::Real => on_real_servers(run, size, &wanted)?,
        Mode::Sim => on_simulated_servers(run, size, &wanted)?,
    }
    .into_iter();
    let mut found = Vec::new();
    for ((label, setting), known) in settings.iter().zip(known) {
        let again = known.is_some();
        let sweeps = match known {
            Some(sweeps) => sweeps,
            None => {
                let sweeps = fresh.next().expect("what was not known was measured");
                run.measured.put(memo_key(run, size, setting), &sweeps);
                sweeps
            }
        };
        found.push(Found {
            label,
            setting: setting.clone(),
            servers: size.servers(setting),
            sweeps,
            again,
        });
    }
    Ok(found)
}

/// All that a measurement depends on besides the seed and the flags of the command.
fn memo_key(run: &Run, size: &Size, setting: &Setting) -> String {
    format!("{} {size:?} {setting:?}", run.mode)
}

fn rates(size: &Size, setting: &Setting) -> Vec<f64> {
    let capacity = size.capacity(setting);
    size.rates.iter().map(|share| share * capacity).collect()
}

fn on_real_servers(
    run: &Run,
    size: &Size,
    settings: &[&(&'static str, Setting)],
) -> anyhow::Result<Vec<Vec<Sweep>>> {
    let mut all = Vec::new();
    for (label, setting) in settings {
        let say = |what: &str| run.progress.say(format!("{label}: {what}"));
        say("starting");
        let fleet = Fleet::start(&fleet_plan(run, size, setting))?;
        let mut sweeps = Vec::new();
        for names in 0..size.names {
            let load = load(run, size, setting, names);
            say("filling");
            load.fill(&fleet)?;
            let mut subject = LoadedFleet {
                fleet: &fleet,
                load,
            };
            if setting.hot_keys != HotKeys::Off {
                say("hot keys are being found");
                settle(&mut subject, size, setting)?;
            }
            let rates = rates(size, setting);
            sweeps.push(sweep(
                &mut subject,
                &rates,
                size.limit(),
                size.precision,
                &say,
            )?);
        }
        all.push(sweeps);
    }
    Ok(all)
}

fn fleet_plan(run: &Run, size: &Size, setting: &Setting) -> FleetPlan {
    let hot_keys = match setting.hot_keys {
        HotKeys::Off => Replicate::Off,
        HotKeys::Replicated { .. } => Replicate::On,
    };
    let server_flags = match setting.hot_keys {
        HotKeys::Off => Vec::new(),
        HotKeys::Replicated {
            gamma_max,
            lease,
            consistency,
        } => vec![
            "--gamma-max".into(),
            gamma_max.to_string(),
            "--lease-ms".into(),
            lease.as_millis().to_string(),
            "--hot-keys-consistency".into(),
            match consistency {
                Consistency::Lease => "lease".into(),
                Consistency::Atomic => "atomic".into(),
            },
        ],
    };
    FleetPlan {
        servers: size.servers(setting),
        smallness: smallness(run, size),
        memory_mb: MEMORY_MB,
        proxies: 1,
        pool: match setting.placement {
            Placement::Ketama => Pool::Plain {
                distribution: "ketama_weighted",
            },
            Placement::Map => Pool::Cluster { hot_keys },
        },
        server_flags,
        connections: 2 * size.connections,
    }
}

pub(super) fn smallness(run: &Run, size: &Size) -> Smallness {
    Smallness::of_capacity(run.small_by, size.capacity)
}

fn load(run: &Run, size: &Size, setting: &Setting, names: u64) -> LoadSpec {
    LoadSpec {
        keys: size.keys,
        prefix: format!("{names}:"),
        key_len: KEY_LEN,
        value_len: VALUE_LEN,
        popularity: setting.popularity,
        get_share: setting.get_share,
        read_only: setting.read_only,
        reshuffle: setting.reshuffled.then_some(size.reshuffle),
        connections: size.connections,
        warm_up: WARM_UP,
        duration: size.trial(setting),
        seed: run.seed.wrapping_add(names),
    }
}

/// Lets hot keys be found.
fn settle(subject: &mut LoadedFleet<'_>, size: &Size, setting: &Setting) -> anyhow::Result<()> {
    let duration = std::mem::replace(&mut subject.load.duration, size.settle);
    subject.trial(SETTLE_AT * size.capacity(setting))?;
    subject.load.duration = duration;
    Ok(())
}

/// Settings and names share nothing, so that each is simulated by whichever thread is free.
fn on_simulated_servers(
    run: &Run,
    size: &Size,
    settings: &[&(&'static str, Setting)],
) -> anyhow::Result<Vec<Vec<Sweep>>> {
    let jobs: Vec<_> = settings
        .iter()
        .flat_map(|setting| (0..size.names).map(move |names| (*setting, names)))
        .collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let (progress, seed) = (&run.progress, run.seed);
    let work = || {
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            let Some(((label, setting), names)) = jobs.get(job) else {
                return;
            };
            let say = |what: &str| progress.say(format!("{label}, names {names}: {what}"));
            let mut subject = SimulatedLoad {
                plan: load_plan(seed.wrapping_add(*names), size, setting),
                fidelity: size.fidelity,
            };
            let rates = rates(size, setting);
            let sweep = sweep(&mut subject, &rates, size.limit(), size.precision, &say);
            let mut done = done.lock().expect("no thread panics while it holds it");
            done.push((job, sweep));
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().expect("all threads have ended well");
    done.sort_by_key(|(job, _)| *job);
    let mut sweeps = done.into_iter().map(|(_, sweep)| sweep);
    settings
        .iter()
        .map(|_| sweeps.by_ref().take(size.names as usize).collect())
        .collect()
}

pub(super) fn load_plan(seed: u64, size: &Size, setting: &Setting) -> LoadPlan {
    let servers = size.servers(setting);
    let content = size.keys as usize * VALUE_LEN / servers;
    let nanos = |duration: Duration| duration.as_nanos() as u64;
    LoadPlan {
        seed,
        servers,
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
        value_bytes: VALUE_LEN,
        prefill: true,
        memory_bytes: (MEMORY_BY_CONTENT * content).max(MEMORY_SIMULATED),
        hot_keys: hot_keys(setting),
        service: ServiceModel {
            operation_ns: 1e9 / size.capacity as f64,
            ..ServiceModel::default()
        },
        warm_up: nanos(size.settle),
        length: nanos(size.trial(setting)),
        ..LoadPlan::default()
    }
}

fn hot_keys(setting: &Setting) -> HotKeysConfig {
    let HotKeys::Replicated {
        gamma_max,
        lease,
        consistency,
    } = setting.hot_keys
    else {
        return HotKeysConfig {
            mode: Replicate::Off,
            ..HotKeysConfig::default()
        };
    };
    HotKeysConfig {
        mode: Replicate::On,
        gamma_max,
        lease,
        consistency,
        entries_max: ssm_entries(1),
        ..HotKeysConfig::default()
    }
}
