//! What Evenkeel's hot keys are to reach, in one run: each target is a claim that holds or falls short.
//!
//! The targets of overhead and memory are those of `spore-overhead`.

use super::Experiment;
use super::recovery::{Recovery, recoveries};
use crate::args::Mode;
use crate::experiments::curves::measure::{Found, measure, trials_at};
use crate::experiments::curves::report::settings;
use crate::experiments::curves::setting::{SERVERS, Setting};
use crate::experiments::curves::size::{Size, is_small_and_real};
use crate::experiments::curves::subject::SETTLE_AT;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use crate::trial::{Trial, mean};
use anyhow::Context;
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_workload::Popularity;
use std::time::Duration;

pub(in crate::experiments) const TARGETS: Experiment = Experiment {
    name: "hot-targets",
    title: "The targets of hot keys: balance, servers saved, recovery, many writes",
    source: "Evenkeel",
    modes: &[Mode::Real, Mode::Sim],
    run: targets,
};

const IDEAL: &str = "12 by the map, uniform keys";
const USUAL: &str = "12 with hot keys replicated, Zipf 0.99";
const STEEP: &str = "12 with hot keys replicated, Zipf 1.2";
const ONE_KEY: &str = "12 with hot keys replicated, one key at 46 %";
const ONE_KEY_READ: &str = "12 with hot keys replicated, one key at 46 %, read-only";
const MORE: &str = "18 plain, Zipf 0.99";

/// Plain servers that twelve with hot keys are to be worth.
const SERVERS_SAVED_FROM: usize = 18;

/// Share of the requests that the hottest key of the IBM Docker registry has.
const ONE_KEY_SHARE: f64 = 0.46;

/// Least balance efficiency.
const EFFICIENCY: f64 = 1.0;

/// The busiest server's load by the mean counts as even below this, and is to be so again so soon after other keys
/// have become hot.
const EVEN: f64 = 1.15;
const EVEN_AGAIN: Duration = Duration::from_secs(3);

/// Shares of the gets where writes are many, and the least part of what servers carry without replication.
const MANY_WRITES: [f64; 2] = [0.5, 0.7];
const NOT_WORSE: f64 = 0.98;

/// Part of the capacity that is asked where writes are many: the busiest server keeps up without replication.
const WRITES_AT: f64 = 0.45;

/// Throughputs of small real servers are known to this part.
const COARSELY: f64 = 0.15;

fn targets(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size::of(run);
    let replicated = || Setting::replicated(SERVERS);
    // As Figure 6a has them.
    let usual = [(USUAL, replicated()), (IDEAL, Setting::ideal(SERVERS))];
    let mut found = measure(run, &size, &usual)?;
    let one_key = Popularity::Hotspot {
        operations: ONE_KEY_SHARE,
        keys: 1.0 / size.keys as f64,
    };
    let steep = Popularity::Zipf { exponent: 1.2 };
    let mut uneven = vec![
        (STEEP, replicated().popularity(steep)),
        (ONE_KEY, replicated().popularity(one_key)),
    ];
    if !is_small_and_real(run) {
        // As in the registry's trace.
        let read = replicated().popularity(one_key).get_share(1.0);
        uneven.push((ONE_KEY_READ, read));
    }
    // Each from where its knee is thought to be.
    found.extend(measure(run, &size.coarse(run, &[0.75], COARSELY), &uneven)?);
    let more = [(MORE, Setting::plain(SERVERS_SAVED_FROM))];
    found.extend(measure(run, &size.coarse(run, &[0.3], COARSELY), &more)?);
    let recoveries = recoveries(run, &size.brief(run), &replicated())?;
    let writes = many_writes(run, &size.brief(run))?;

    let mut report = run.report(experiment);
    report.settings = settings(run, &size, 1);
    report.claims = knee_claims(&found)?;
    report.claims.push(recovery_claim(&recoveries));
    report.claims.extend(writes.iter().map(Writes::claim));
    report.tables = vec![knees(&found)?, writes_table(&writes)];
    report
        .plots
        .push(recovery_plot(experiment, run, &recoveries));
    report.note(format!(
        "Throughput is the highest at {}; balance efficiency is that for each server, by the one of \"{IDEAL}\".",
        size.objective()
    ));
    report.note(format!(
        "After a change of the hot keys the busiest server's load by the mean is that of a second, looked at four times a \
         second; where there are several sets of names the slowest counts. {:.0} % of the capacity are asked.",
        SETTLE_AT * 100.0
    ));
    report.note(format!(
        "Where writes are many, {:.0} % of the capacity are asked of the same servers with hot keys on and off, and what is \
         compared is the throughput at which the busiest server has no time left: requests for each key that it served.",
        WRITES_AT * 100.0
    ));
    Ok(report)
}

fn of<'f>(found: &'f [Found], label: &str) -> anyhow::Result<&'f Found> {
    let labelled = found.iter().find(|found| found.label == label);
    labelled.with_context(|| format!("{label} was not measured"))
}

fn efficiency(found: &[Found], label: &str) -> anyhow::Result<f64> {
    Ok(of(found, label)?.rate_of_server() / of(found, IDEAL)?.rate_of_server())
}

fn knee_claims(found: &[Found]) -> anyhow::Result<Vec<Claim>> {
    let mut claims = Vec::new();
    for (what, label) in [
        ("Zipf 0.99", USUAL),
        ("Zipf 1.2", STEEP),
        ("one key at 46 %", ONE_KEY),
        ("one key at 46 %, read-only", ONE_KEY_READ),
    ] {
        if !found.iter().any(|found| found.label == label) {
            continue;
        }
        let efficiency = efficiency(found, label)?;
        claims.push(Claim::new(
            &format!("balance efficiency, {what}"),
            &format!("target: at least {EFFICIENCY:.2}"),
            format!("{efficiency:.2}"),
            Some(efficiency >= EFFICIENCY),
        ));
    }
    let saved = of(found, USUAL)?.rate() / of(found, MORE)?.rate();
    claims.push(Claim::new(
        "12 with hot keys by 18 plain ones",
        "target: at least 1",
        format!("{saved:.2}"),
        Some(saved >= 1.0),
    ));
    Ok(claims)
}

fn knees(found: &[Found]) -> anyhow::Result<Table> {
    let mut table = Table::new(
        "Highest throughput",
        "|requests/s|by server|balance efficiency|max/mean load",
    );
    for found_here in found {
        let knees = found_here.knees().filter_map(|knee| knee.trial.as_ref());
        let trials: Vec<&Trial> = knees.collect();
        table.row([
            found_here.label.to_owned(),
            format!("{:.0}", found_here.rate()),
            format!("{:.0}", found_here.rate_of_server()),
            format!("{:.2}", efficiency(found, found_here.label)?),
            format!("{:.2}", mean(&trials, Trial::max_to_mean)),
        ]);
    }
    Ok(table)
}

/// Seconds until the load is even again; nothing where it was not within the time that was watched.
fn even_again(recovery: &Recovery) -> Option<f64> {
    let even = recovery.iter().find(|(_, max_to_mean)| *max_to_mean < EVEN);
    even.map(|(seconds, _)| *seconds)
}

fn recovery_claim(recoveries: &[Recovery]) -> Claim {
    let seconds: Option<Vec<f64>> = recoveries.iter().map(even_again).collect();
    let slowest = seconds.map(|seconds| seconds.into_iter().fold(0.0, f64::max));
    let watched = recoveries.iter().flatten().map(|(seconds, _)| *seconds);
    Claim::new(
        &format!("max/mean load below {EVEN} again after the hot keys change"),
        &format!("target: within {:.0} s", EVEN_AGAIN.as_secs_f64()),
        match slowest {
            Some(seconds) => format!("{seconds:.2} s"),
            None => format!("not within {:.0} s", watched.fold(0.0, f64::max)),
        },
        Some(slowest.is_some_and(|seconds| seconds <= EVEN_AGAIN.as_secs_f64())),
    )
}

fn recovery_plot(experiment: &Experiment, run: &Run, recoveries: &[Recovery]) -> Plot {
    Plot {
        name: run.plot_name(experiment),
        title: "Load after other keys have become hot".into(),
        x: Axis::linear("seconds since"),
        y: Axis::linear("busiest server's load by the mean, of a second"),
        curves: recoveries
            .iter()
            .enumerate()
            .map(|(names, recovery)| Curve::new(format!("names {names}"), recovery.clone()))
            .collect(),
    }
}

/// The same load of many writes, without and with replication.
struct Writes {
    get_share: f64,
    off: Vec<Trial>,
    on: Vec<Trial>,
}

fn many_writes(run: &Run, size: &Size) -> anyhow::Result<Vec<Writes>> {
    let shares = match is_small_and_real(run) {
        true => &MANY_WRITES[..1],
        false => &MANY_WRITES,
    };
    let settings = |setting: &Setting| -> Vec<Setting> {
        let of = |&share| setting.clone().get_share(share);
        shares.iter().map(of).collect()
    };
    let [off, on] = [Setting::unreplicated(SERVERS), Setting::replicated(SERVERS)]
        .map(|setting| trials_at(run, size, &settings(&setting), WRITES_AT));
    let pairs = off?.into_iter().zip(on?);
    Ok(shares
        .iter()
        .zip(pairs)
        .map(|(&get_share, (off, on))| Writes { get_share, off, on })
        .collect())
}

/// Requests for each key that the busiest server served: what all could carry by what it can.
fn requests_by_busiest(trial: &Trial) -> f64 {
    let busiest = trial.keys_per_second_of_servers.iter();
    trial.requests_per_second / busiest.copied().fold(f64::MIN_POSITIVE, f64::max)
}

impl Writes {
    /// What servers carry with hot keys on by off. Who does not even keep up with what is asked carries no more than
    /// that, however even it is.
    fn gain(&self) -> f64 {
        let by = |figure: fn(&Trial) -> f64| {
            let of = |trials: &[Trial]| mean(&trials.iter().collect::<Vec<_>>(), figure);
            of(&self.on) / of(&self.off)
        };
        let answered = by(|trial| trial.requests_per_second);
        match answered < NOT_WORSE {
            true => answered,
            false => by(requests_by_busiest),
        }
    }

    fn claim(&self) -> Claim {
        let gain = self.gain();
        Claim::new(
            &format!(
                "{:.0} % writes: what servers carry with hot keys on by off",
                (1.0 - self.get_share) * 100.0
            ),
            &format!("target: at least {NOT_WORSE}"),
            format!("{gain:.3}"),
            Some(gain >= NOT_WORSE),
        )
    }
}

fn writes_table(writes: &[Writes]) -> Table {
    let mut table = Table::new(
        "Many writes",
        "|hot keys|requests/s|p99 ms|max/mean load|requests by keys of the busiest",
    );
    for writes in writes {
        for (hot_keys, trials) in [("off", &writes.off), ("on", &writes.on)] {
            let trials: Vec<&Trial> = trials.iter().collect();
            let p99 = mean(&trials, |trial| trial.latency.latency_us_p99) / 1000.0;
            table.row([
                format!("{:.0} % writes", (1.0 - writes.get_share) * 100.0),
                hot_keys.to_owned(),
                format!("{:.0}", mean(&trials, |trial| trial.requests_per_second)),
                format!("{p99:.2}"),
                format!("{:.2}", mean(&trials, Trial::max_to_mean)),
                format!("{:.2}", mean(&trials, requests_by_busiest)),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_set_of_names_counts() {
        let recovery = |even_from: usize| -> Recovery {
            let load = |look: usize| if look < even_from { 1.6 } else { 1.1 };
            (0..8)
                .map(|look| (1.0 + 0.5 * look as f64, load(look)))
                .collect()
        };
        assert_eq!(even_again(&recovery(3)), Some(2.5));
        let claim = recovery_claim(&[recovery(0), recovery(3)]);
        assert_eq!((&*claim.ours, claim.holds), ("2.50 s", Some(true)));
        let claim = recovery_claim(&[recovery(5), recovery(0)]);
        assert_eq!((&*claim.ours, claim.holds), ("3.50 s", Some(false)));
        let claim = recovery_claim(&[recovery(0), recovery(9)]);
        assert_eq!((&*claim.ours, claim.holds), ("not within 4 s", Some(false)));
    }

    #[test]
    fn what_servers_carry_is_bound_by_the_busiest() {
        let trial = |busiest: f64| Trial {
            requests_per_second: 100.0,
            keys_per_second_of_servers: vec![20.0, busiest],
            ..Trial::default()
        };
        let writes = Writes {
            get_share: 0.5,
            off: vec![trial(50.0)],
            on: vec![trial(52.0)],
        };
        assert!((writes.gain() - 50.0 / 52.0).abs() < 1e-9);
        assert_eq!(writes.claim().holds, Some(false));
        let behind = Trial {
            requests_per_second: 30.0,
            ..trial(10.0)
        };
        let writes = Writes {
            on: vec![behind],
            ..writes
        };
        assert!((writes.gain() - 0.3).abs() < 1e-9, "even, and far behind");
    }
}
