//! Load at one rate after the other: curves of latency over throughput, and where they bend.

use crate::report::Table;
use evenkeel_bench::Latency;
use evenkeel_bench::{Objective, Range, Search};
use serde::Serialize;

/// What came of a load at one rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Trial {
    /// Requests a second that were meant to be sent.
    pub offered_per_second: f64,
    /// Requests a second that were answered.
    pub requests_per_second: f64,
    /// Latency from the moment that a request was meant to be sent.
    #[serde(flatten)]
    pub latency: Latency,
    /// The same of gets alone.
    pub reads: Latency,
    /// The same of sets alone.
    pub writes: Latency,
    /// Keys found of keys asked for.
    pub hit_ratio: f64,
    /// Keys a second that each server has served.
    pub keys_per_second_of_servers: Vec<f64>,
    /// The load of each worker towards the end, as the coordinator was told; empty where nobody was asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loads_of_workers: Vec<f64>,
    /// Requests that failed.
    pub errors: u64,
    /// Values that nobody wrote.
    pub wrong_values: u64,
}

impl Trial {
    /// The busiest server's load by the mean of all, or the busiest worker's where their loads are known; 1 is
    /// perfectly even. 0 where nothing was served.
    pub fn max_to_mean(&self) -> f64 {
        match self.loads_of_workers.is_empty() {
            true => max_to_mean(&self.keys_per_second_of_servers),
            false => max_to_mean(&self.loads_of_workers),
        }
    }
}

/// The largest load by the mean of all; 0 where all are 0.
pub(crate) fn max_to_mean(loads: &[f64]) -> f64 {
    let sum: f64 = loads.iter().sum();
    match sum > 0.0 {
        true => loads.iter().fold(0.0, |a: f64, &b| a.max(b)) * loads.len() as f64 / sum,
        false => 0.0,
    }
}

/// Something that load can be put on.
pub trait Subject {
    /// Puts this many requests a second on it, for as long as it takes to judge them.
    ///
    /// # Errors
    /// When it cannot be measured at all; a server that is overloaded is no error.
    fn trial(&mut self, requests_per_second: f64) -> anyhow::Result<Trial>;

    /// Whether a trial may fail for no reason of the subject's, as on a busy machine: one that fails is then made
    /// once more.
    fn has_hiccups(&self) -> bool {
        true
    }
}

/// Whether a trial kept to an objective, and the subject kept up.
fn holds(objective: Objective, trial: &Trial) -> bool {
    let latency_us = objective.percentile.of_us(&trial.latency);
    trial.requests_per_second >= KEEPS_UP * trial.offered_per_second
        && latency_us <= objective.within.as_secs_f64() * 1e6
}

/// Less than this part of what is offered answered: the subject does not keep up. What arrives by chance in a short trial varies by
/// more than what `evenkeel bench find` demands, which knows what was due.
const KEEPS_UP: f64 = 0.95;

/// A rate is changed by this factor until one that holds and one that does not are known.
const GROWTH: f64 = 1.25;

/// How far from the rates of a curve a knee is looked for, in either direction.
const FAR: f64 = 200.0;

/// The highest throughput that keeps to a limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Knee {
    /// The trial at the highest rate that kept to the limit; none did where it is empty.
    pub trial: Option<Trial>,
    /// Everything that was tried to find it, in order.
    pub tried: Vec<Trial>,
}

impl Knee {
    /// Requests a second; 0 where not even the lowest rate kept to the limit.
    pub fn requests_per_second(&self) -> f64 {
        self.trial
            .as_ref()
            .map_or(0.0, |trial| trial.requests_per_second)
    }

    /// A trial kept to the limit: the best one is kept.
    fn keep(&mut self, trial: &Trial) {
        if trial.requests_per_second > self.requests_per_second() {
            self.trial = Some(trial.clone());
        }
    }
}

/// Looks for the highest rate that keeps to an objective, as `evenkeel bench find` does: between what is known from the trials of a
/// curve, or beyond them, until two rates are within `precision` (0.05 for 5 %).
///
/// # Errors
/// When a trial cannot be made, or no curve is given.
pub fn find_knee(
    subject: &mut dyn Subject,
    objective: Objective,
    curve: &[Trial],
    precision: f64,
) -> anyhow::Result<Knee> {
    let mut curve: Vec<&Trial> = curve.iter().collect();
    curve.sort_by(|a, b| a.offered_per_second.total_cmp(&b.offered_per_second));
    let (Some(lowest), Some(highest)) = (curve.first(), curve.last()) else {
        anyhow::bail!("a knee is looked for from the trials of a curve on");
    };
    let range = Range {
        start: lowest.offered_per_second,
        min: lowest.offered_per_second / FAR,
        max: highest.offered_per_second * FAR,
        growth: GROWTH,
        precision,
        tries: if subject.has_hiccups() { 2 } else { 1 },
    };
    let hold = curve
        .iter()
        .take_while(|trial| holds(objective, trial))
        .count();
    let mut knee = Knee {
        trial: None,
        tried: Vec::new(),
    };
    curve[..hold].iter().for_each(|trial| knee.keep(trial));
    let rate = |trial: &&Trial| trial.offered_per_second;
    let held = hold
        .checked_sub(1)
        .and_then(|last| curve.get(last))
        .map(rate);
    let mut search = Search::with_known(range, held, curve.get(hold).map(rate));
    while let Some(rate) = search.next_rate() {
        let trial = subject.trial(rate)?;
        let held = holds(objective, &trial);
        if held {
            knee.keep(&trial);
        }
        search.handle_step(held);
        knee.tried.push(trial);
    }
    Ok(knee)
}

/// Trials at rising rates, and the highest rate that kept to a limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// One trial at each rate.
    pub curve: Vec<Trial>,
    /// Where it bends.
    pub knee: Knee,
}

/// Puts load at each of the rates on a subject, in requests a second, and looks for its knee. `say` is told
/// what is being done.
///
/// # Errors
/// When a trial cannot be made.
pub fn sweep(
    subject: &mut dyn Subject,
    rates: &[f64],
    objective: Objective,
    precision: f64,
    say: &dyn Fn(&str),
) -> anyhow::Result<Sweep> {
    let mut curve = Vec::with_capacity(rates.len());
    for &rate in rates {
        say(&format!("{rate:.0} requests/s"));
        curve.push(subject.trial(rate)?);
    }
    say("looking for the knee");
    let knee = find_knee(subject, objective, &curve, precision)?;
    Ok(Sweep { curve, knee })
}

/// The mean of a figure over trials; 0 of none.
pub(crate) fn mean(trials: &[&Trial], figure: impl Fn(&Trial) -> f64) -> f64 {
    let sum: f64 = trials.iter().map(|trial| figure(trial)).sum();
    sum / trials.len().max(1) as f64
}

/// Percentiles of a table.
const SHARES: [&str; 4] = ["p50 ms", "p90 ms", "p95 ms", "p99 ms"];

fn shares(trials: &[&Trial], of: fn(&Trial) -> &Latency) -> [String; 4] {
    let figures: [fn(&Latency) -> f64; 4] = [
        |latency| latency.latency_us_p50,
        |latency| latency.latency_us_p90,
        |latency| latency.latency_us_p95,
        |latency| latency.latency_us_p99,
    ];
    figures.map(|figure| format!("{:.2}", mean(trials, |trial| figure(of(trial))) / 1000.0))
}

/// A curve of a table: its name, and at each rate the trials whose means are shown.
pub(crate) type TableCurve<'t> = (&'t str, Vec<Vec<&'t Trial>>);

/// A table of trials: one row for each rate, with the latency of all requests.
pub(crate) fn trials_table(title: &str, curves: &[TableCurve<'_>]) -> Table {
    let columns = format!(
        "|offered/s|requests/s|{}|max/mean load|hits",
        SHARES.join("|")
    );
    let mut table = Table::new(title, &columns);
    for (label, trials) in curves.iter().flat_map(rows) {
        let mut row = rates(label, trials);
        row.extend(shares(trials, |trial| &trial.latency));
        row.push(format!("{:.2}", mean(trials, Trial::max_to_mean)));
        let hits = mean(trials, |trial| trial.hit_ratio);
        row.push(format!("{:.1} %", hits * 100.0));
        table.row(row);
    }
    table
}

/// The same with the latencies of reads and of writes.
pub(crate) fn reads_and_writes_table(title: &str, curves: &[TableCurve<'_>]) -> Table {
    let named = |what: &str| SHARES.map(|share| format!("{what} {share}"));
    let (reads, writes) = (named("reads").join("|"), named("writes").join("|"));
    let columns = format!("|offered/s|requests/s|{reads}|{writes}|max/mean load");
    let mut table = Table::new(title, &columns);
    for (label, trials) in curves.iter().flat_map(rows) {
        let mut row = rates(label, trials);
        row.extend(shares(trials, |trial| &trial.reads));
        row.extend(shares(trials, |trial| &trial.writes));
        row.push(format!("{:.2}", mean(trials, Trial::max_to_mean)));
        table.row(row);
    }
    table
}

fn rows<'c>(
    (label, curve): &'c TableCurve<'_>,
) -> impl Iterator<Item = (&'c str, &'c [&'c Trial])> {
    curve.iter().map(move |trials| (*label, &trials[..]))
}

fn rates(label: &str, trials: &[&Trial]) -> Vec<String> {
    vec![
        label.to_owned(),
        format!("{:.0}", mean(trials, |trial| trial.offered_per_second)),
        format!("{:.0}", mean(trials, |trial| trial.requests_per_second)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use evenkeel_bench::Percentile;

    /// A queue with exponential service: the 99th percentile of the time in it is ln(100) / (μ − λ).
    struct Queue {
        capacity: f64,
        /// Trials that go wrong for no reason of the queue's.
        hiccups: Vec<usize>,
        made: usize,
    }

    impl Subject for Queue {
        fn trial(&mut self, rate: f64) -> anyhow::Result<Trial> {
            self.made += 1;
            let spare = (self.capacity - rate).max(1e-6);
            let late = self.hiccups.contains(&self.made);
            Ok(Trial {
                offered_per_second: rate,
                requests_per_second: rate.min(self.capacity),
                latency: Latency {
                    latency_us_p99: if late { 1e9 } else { 100f64.ln() / spare * 1e6 },
                    ..Latency::default()
                },
                ..Trial::default()
            })
        }
    }

    const OBJECTIVE: Objective = Objective {
        percentile: Percentile::P99,
        within: Duration::from_millis(10),
    };

    #[test]
    fn the_knee_is_found_from_either_side_and_despite_hiccups() {
        // ln(100) / 0.01 s below the capacity.
        let exact = 10_000.0 - 100f64.ln() / 0.01;
        for rates in [
            &[100.0][..],
            &[9_000.0],
            &[90_000.0],
            &[3_000.0, 9_000.0, 12_000.0],
        ] {
            for hiccups in [vec![], vec![1], vec![3, 6]] {
                let mut queue = Queue {
                    capacity: 10_000.0,
                    hiccups,
                    made: 0,
                };
                let curve: Vec<_> = rates
                    .iter()
                    .map(|&rate| queue.trial(rate).expect("it is measured"))
                    .collect();
                let knee = find_knee(&mut queue, OBJECTIVE, &curve, 0.02).expect("it is measured");
                let found = knee.requests_per_second();
                assert!(found <= exact && found > 0.97 * exact, "{found} of {exact}");
                assert_eq!(knee.tried.len() + curve.len(), queue.made);
            }
        }
    }

    #[test]
    fn what_the_curve_tells_is_not_tried_again() {
        let mut queue = Queue {
            capacity: 10_000.0,
            hiccups: Vec::new(),
            made: 0,
        };
        let curve: Vec<_> = [9_400.0, 9_500.0, 9_600.0, 20_000.0]
            .iter()
            .map(|&rate| queue.trial(rate).expect("it is measured"))
            .collect();
        let knee = find_knee(&mut queue, OBJECTIVE, &curve, 0.02).expect("it is measured");
        assert_eq!(knee.requests_per_second(), 9_500.0);
        let tried: Vec<_> = knee.tried.iter().map(|t| t.offered_per_second).collect();
        assert_eq!(tried, [9_600.0; 2], "only whether it really fails");
    }

    #[test]
    fn what_never_keeps_to_the_limit_has_no_knee() {
        let mut queue = Queue {
            capacity: 100.0,
            hiccups: Vec::new(),
            made: 0,
        };
        let curve = [queue.trial(50.0).expect("it is measured")];
        let knee = find_knee(&mut queue, OBJECTIVE, &curve, 0.05).expect("it is measured");
        assert_eq!(knee.requests_per_second(), 0.0);
        assert!(find_knee(&mut queue, OBJECTIVE, &[], 0.05).is_err());
    }

    #[test]
    fn balance_is_the_busiest_by_the_mean() {
        let trial = Trial {
            keys_per_second_of_servers: vec![10.0, 20.0, 30.0],
            ..Trial::default()
        };
        assert!((trial.max_to_mean() - 1.5).abs() < 1e-9);
        assert_eq!(Trial::default().max_to_mean(), 0.0);
    }
}
