//! Measures settings: the curve and the knee of each, on real servers one after the other, or on simulated ones on
//! all cores at once.

use super::setting::Setting;
use super::size::Size;
use super::subject::{Ground, load_plan};
use crate::args::Mode;
use crate::run::Run;
use crate::simulated::SimulatedLoad;
use crate::trial::{Knee, Subject, Sweep, Trial, mean, sweep};
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What was found in one setting.
#[derive(Debug)]
pub(crate) struct Found {
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
pub(crate) fn measure(
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
    let judge = |subject: &mut dyn Subject, setting: &Setting, say: &dyn Fn(&str)| {
        let rates = rates(size, setting);
        sweep(subject, &rates, size.objective(), size.precision, say)
    };
    let mut fresh = each(run, size, &wanted, &judge)?.into_iter();
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

/// Puts one rate, a part of the capacity, on each of the settings: a trial for each set of names.
pub(crate) fn trials_at(
    run: &Run,
    size: &Size,
    settings: &[Setting],
    share: f64,
) -> anyhow::Result<Vec<Vec<Trial>>> {
    let labelled: Vec<_> = settings
        .iter()
        .map(|setting| ("", setting.clone()))
        .collect();
    let wanted: Vec<_> = labelled.iter().collect();
    let judge = |subject: &mut dyn Subject, setting: &Setting, say: &dyn Fn(&str)| {
        let rate = share * size.capacity(setting);
        say(&format!("{rate:.0} requests/s"));
        subject.trial(rate)
    };
    each(run, size, &wanted, &judge)
}

/// What is found out about a subject in a setting; the last argument is told what is being done.
type Judge<'j, T> =
    &'j (dyn Fn(&mut dyn Subject, &Setting, &dyn Fn(&str)) -> anyhow::Result<T> + Sync);

/// Judges each setting with each set of names.
fn each<T: Send>(
    run: &Run,
    size: &Size,
    settings: &[&(&'static str, Setting)],
    judge: Judge<'_, T>,
) -> anyhow::Result<Vec<Vec<T>>> {
    match run.mode {
        Mode::Real => on_real_servers(run, size, settings, judge),
        Mode::Sim => on_simulated_servers(run, size, settings, judge),
    }
}

fn on_real_servers<T>(
    run: &Run,
    size: &Size,
    settings: &[&(&'static str, Setting)],
    judge: Judge<'_, T>,
) -> anyhow::Result<Vec<Vec<T>>> {
    let mut ground = Ground::default();
    let mut all = Vec::new();
    for (label, setting) in settings {
        let say = |what: &str| run.progress.say(format!("{label}: {what}"));
        let judged = (0..size.names).map(|names| {
            let mut subject = ground.ready(run, size, setting, names, &say)?;
            judge(&mut subject, setting, &say)
        });
        all.push(judged.collect::<anyhow::Result<Vec<_>>>()?);
    }
    Ok(all)
}

/// Settings and names share nothing, so that each is simulated by whichever thread is free.
fn on_simulated_servers<T: Send>(
    run: &Run,
    size: &Size,
    settings: &[&(&'static str, Setting)],
    judge: Judge<'_, T>,
) -> anyhow::Result<Vec<Vec<T>>> {
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
            let judged = judge(&mut subject, setting, &say);
            let mut done = done.lock().expect("no thread panics while it holds it");
            done.push((job, judged));
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
    let mut judged = done.into_iter().map(|(_, judged)| judged);
    settings
        .iter()
        .map(|_| judged.by_ref().take(size.names as usize).collect())
        .collect()
}
