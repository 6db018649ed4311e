//! A load that is looked at while something is done to its servers, part by part.

use crate::fleet::look;
use crate::report::Table;
use anyhow::ensure;
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_bench::{LiveSample, LoadHandle};
use std::ops::RangeBounds;
use std::thread;
use std::time::{Duration, Instant};

/// Distance of looks. Loads leave their figures ten times a second, and only where the last were taken: who looks less
/// often gets old ones.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Moments with fewer gets say nothing about the share that hits.
const GETS_MIN: u64 = 50;

/// What was answered in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::experiments) struct Moment {
    /// When it ended, in seconds from the beginning.
    pub seconds: f64,
    pub gets: u64,
    pub hits: u64,
    /// Requests answered a second.
    pub requests_per_second: f64,
    /// Microseconds that 99 % of the requests did not exceed.
    pub p99_us: f64,
}

/// All that was answered in some time, together.
#[derive(Clone, Debug)]
pub(in crate::experiments) struct Part {
    pub label: String,
    /// How long it lasted.
    pub seconds: f64,
    /// Nothing before the first look.
    pub sum: Option<LiveSample>,
    pub moments: Vec<Moment>,
}

impl Part {
    pub fn new(label: &str) -> Part {
        Part {
            label: label.to_owned(),
            seconds: 0.0,
            sum: None,
            moments: Vec::new(),
        }
    }

    /// Adds what was answered in a step that ended this many seconds after the beginning.
    fn add(&mut self, sample: &LiveSample, ended: f64) {
        self.seconds += sample.seconds;
        self.moments.push(Moment {
            seconds: ended,
            gets: sample.counters.gets,
            hits: sample.counters.hits,
            requests_per_second: answered(sample) / sample.seconds.max(f64::MIN_POSITIVE),
            p99_us: sample.latency_us(0.99),
        });
        self.add_sum(sample);
    }

    fn add_sum(&mut self, sample: &LiveSample) {
        match &mut self.sum {
            Some(sum) => sum.add(sample),
            sum => *sum = Some(sample.clone()),
        }
    }

    /// Adds what another part has seen.
    fn join(&mut self, other: Part) {
        self.seconds += other.seconds;
        self.moments.extend(other.moments);
        other.sum.iter().for_each(|sum| self.add_sum(sum));
    }

    /// Requests answered a second.
    pub fn requests_per_second(&self) -> f64 {
        let requests = self.sum.as_ref().map_or(0.0, answered);
        requests / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// The latency in microseconds that this share of the requests did not exceed; 0 before the first look.
    pub fn latency_us(&self, share: f64) -> f64 {
        self.sum.as_ref().map_or(0.0, |sum| sum.latency_us(share))
    }

    /// Keys found of keys asked for.
    pub fn hit_ratio(&self) -> f64 {
        self.sum
            .as_ref()
            .map_or(0.0, |sum| sum.counters.hit_ratio())
    }

    /// The lowest of its moments; of all of it where none says anything.
    pub fn hit_ratio_min(&self) -> f64 {
        let telling = self.moments.iter().filter(|moment| moment.gets >= GETS_MIN);
        let ratios = telling.map(|moment| moment.hits as f64 / moment.gets as f64);
        let least = ratios.fold(f64::INFINITY, f64::min);
        match least.is_finite() {
            true => least,
            false => self.hit_ratio(),
        }
    }

    /// Keys that were asked for.
    pub fn gets(&self) -> u64 {
        self.sum.as_ref().map_or(0, |sum| sum.counters.gets)
    }

    /// Keys that were not found.
    pub fn misses(&self) -> u64 {
        self.sum.as_ref().map_or(0, |sum| sum.counters.misses)
    }

    /// Requests that failed.
    pub fn errors(&self) -> u64 {
        self.sum.as_ref().map_or(0, |sum| sum.counters.errors)
    }
}

/// Requests that were answered as they should. Those that nobody answered are errors, but not among those that were
/// answered.
fn answered(sample: &LiveSample) -> f64 {
    let counters = sample.counters;
    let refused = counters.errors.saturating_sub(counters.unanswered);
    counters.requests.saturating_sub(refused) as f64
}

/// Loads that run, and what was seen of them.
#[derive(Debug)]
pub(in crate::experiments) struct Watch {
    running: Vec<LoadHandle>,
    /// Of loads that have left.
    failed: u64,
    first_error: Option<String>,
    wrong_values: u64,
    begun: Instant,
    /// How long moments are.
    step: Duration,
    /// When this moment ends, and what was seen of it.
    due: Instant,
    gathered: Option<LiveSample>,
    parts: Vec<Part>,
}

/// What was seen of loads that have ended.
#[derive(Clone, Debug)]
pub(in crate::experiments) struct Watched {
    pub parts: Vec<Part>,
    /// Requests that failed, in all parts and with the last answers.
    pub failed: u64,
    /// The first error of the first load that has seen any, in words.
    pub first_error: Option<String>,
    /// Values that nobody wrote.
    pub wrong_values: u64,
}

impl Watch {
    /// Begins to look at these loads, by moments of this length. The first part has this name.
    pub fn start(mut running: Vec<LoadHandle>, step: Duration, label: &str) -> Watch {
        let begun = Instant::now();
        // What was before belongs to no part.
        look(&mut running);
        Watch {
            running,
            failed: 0,
            first_error: None,
            wrong_values: 0,
            begun,
            step,
            due: begun + step,
            gathered: None,
            parts: vec![Part::new(label)],
        }
    }

    /// From here on it is another part.
    pub fn begin(&mut self, label: &str) {
        self.end_moment();
        self.parts.push(Part::new(label));
    }

    /// Gives the present part another name.
    pub fn name(&mut self, label: &str) {
        self.part().label = label.to_owned();
    }

    /// Makes other keys hot.
    pub fn switch_hot_keys(&self) {
        self.running.iter().for_each(LoadHandle::switch_hot_keys);
    }

    /// These loads come to the others.
    pub fn join(&mut self, more: Vec<LoadHandle>) {
        self.running.extend(more);
    }

    /// These loads end, counted in the order in which they came.
    ///
    /// # Errors
    /// When one has ended before its time.
    pub fn leave(&mut self, who: impl RangeBounds<usize>) -> anyhow::Result<()> {
        self.look();
        for load in self.running.drain(who) {
            let stats = load.stop()?;
            self.failed += stats.counters.errors;
            self.wrong_values += stats.counters.wrong_values;
            self.first_error = self.first_error.take().or(stats.first_error);
        }
        Ok(())
    }

    /// Goes on for this long.
    ///
    /// # Errors
    /// When a load ends by itself.
    pub fn go_on(&mut self, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.wait(LOOK_INTERVAL.min(end.saturating_duration_since(Instant::now())))?;
        }
        Ok(())
    }

    /// Goes on until something is so, and tells how long that took.
    ///
    /// # Errors
    /// When it is not so in time, or a load ends by itself.
    pub fn until(
        &mut self,
        what: &str,
        limit: Duration,
        mut is_so: impl FnMut() -> bool,
    ) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        while !is_so() {
            ensure!(
                begun.elapsed() < limit,
                "waited {limit:?} for {what} in vain"
            );
            self.wait(LOOK_INTERVAL)?;
        }
        Ok(begun.elapsed())
    }

    /// Ends the loads.
    ///
    /// # Errors
    /// When one has ended before its time.
    pub fn end(mut self) -> anyhow::Result<Watched> {
        self.end_moment();
        self.leave(..)?;
        Ok(Watched {
            parts: self.parts,
            failed: self.failed,
            first_error: self.first_error,
            wrong_values: self.wrong_values,
        })
    }

    fn wait(&mut self, time: Duration) -> anyhow::Result<()> {
        thread::sleep(time);
        if Instant::now() >= self.due {
            self.end_moment();
        } else {
            self.look();
        }
        ensure!(
            !self.running.iter().any(LoadHandle::is_finished),
            "the load ended by itself"
        );
        Ok(())
    }

    fn look(&mut self) {
        let Some(sample) = look(&mut self.running) else {
            return;
        };
        match &mut self.gathered {
            Some(gathered) => {
                gathered.seconds += sample.seconds;
                gathered.add(&sample);
            }
            gathered => *gathered = Some(sample),
        }
    }

    fn end_moment(&mut self) {
        self.look();
        let now = Instant::now();
        let ended = now.duration_since(self.begun).as_secs_f64();
        self.due = now + self.step;
        if let Some(gathered) = self.gathered.take() {
            self.part().add(&gathered, ended);
        }
    }

    fn part(&mut self) -> &mut Part {
        self.parts.last_mut().expect("there is a first part")
    }
}

impl Watched {
    /// Parts of one name together, in the order in which each name came first.
    pub fn joined(self) -> Vec<Part> {
        let mut joined: Vec<Part> = Vec::new();
        for part in self.parts {
            match joined.iter_mut().find(|other| other.label == part.label) {
                Some(other) => other.join(part),
                None => joined.push(part),
            }
        }
        joined
    }

    /// By how many points the share that hits fell below what it was in the first part, at worst: the lowest moment of
    /// all others. Never negative.
    pub fn hit_points_lost(&self) -> f64 {
        let (first, others) = self.parts.split_first().expect("there is a first part");
        let lowest = others.iter().map(Part::hit_ratio_min).fold(1.0, f64::min);
        (100.0 * (first.hit_ratio() - lowest)).max(0.0)
    }

    /// A row for each part.
    pub fn table(&self, title: &str) -> Table {
        let mut table = Table::new(title, PART_COLUMNS);
        for part in &self.parts {
            table.row(part_row(part));
        }
        table
    }

    /// Keys found of keys asked for over time.
    pub fn hits_curve(&self, label: &str) -> Curve {
        let moments = self.parts.iter().flat_map(|part| &part.moments);
        let telling = moments.filter(|moment| moment.gets >= GETS_MIN);
        Curve::new(
            label,
            telling
                .map(|moment| {
                    let hits = moment.hits as f64 / moment.gets as f64;
                    (moment.seconds, 100.0 * hits)
                })
                .collect(),
        )
    }
}

/// A plot of [`Watched::hits_curve`]s.
pub(in crate::experiments) fn hits_plot(name: String, title: &str, curves: Vec<Curve>) -> Plot {
    Plot {
        name,
        title: title.to_owned(),
        x: Axis::linear("seconds"),
        y: Axis::linear("keys found of keys asked for, %"),
        curves,
    }
}

pub(in crate::experiments) const PART_COLUMNS: &str =
    "|seconds|requests/s|p50 ms|p99 ms|max ms|hits|lowest hits|failed";

pub(in crate::experiments) fn part_row(part: &Part) -> Vec<String> {
    let ms = |share| format!("{:.2}", part.latency_us(share) / 1000.0);
    let percent = |ratio: f64| format!("{:.2} %", 100.0 * ratio);
    vec![
        part.label.clone(),
        format!("{:.1}", part.seconds),
        format!("{:.0}", part.requests_per_second()),
        ms(0.5),
        ms(0.99),
        ms(1.0),
        percent(part.hit_ratio()),
        percent(part.hit_ratio_min()),
        part.errors().to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_bench::{Counters, LoadStats};

    fn sample(seconds: f64, gets: u64, hits: u64, errors: u64) -> LiveSample {
        let mut stats = LoadStats::default();
        stats.get_latency.record(1_000_000).expect("in bounds");
        LiveSample {
            seconds,
            counters: Counters {
                requests: gets,
                gets,
                hits,
                errors,
                ..Counters::default()
            },
            latency: stats.latency(),
        }
    }

    fn part(label: &str, samples: &[(u64, u64)]) -> Part {
        let mut part = Part::new(label);
        for (number, &(gets, hits)) in samples.iter().enumerate() {
            part.add(&sample(0.5, gets, hits, 0), number as f64);
        }
        part
    }

    fn watched(parts: Vec<Part>) -> Watched {
        Watched {
            parts,
            failed: 0,
            first_error: None,
            wrong_values: 0,
        }
    }

    #[test]
    fn the_lowest_moment_counts_unless_it_says_nothing() {
        let part = part("p", &[(100, 100), (100, 90), (10, 0)]);
        assert_eq!(part.hit_ratio_min(), 0.9);
        assert!((part.hit_ratio() - 190.0 / 210.0).abs() < 1e-9);
        assert_eq!(part.seconds, 1.5);
        assert_eq!(part.requests_per_second(), 140.0);
        assert!((part.latency_us(0.99) - 1_000.0).abs() < 1.0);
        let silent = Part::new("silent");
        assert_eq!((silent.hit_ratio_min(), silent.latency_us(0.5)), (0.0, 0.0));
    }

    #[test]
    fn points_are_lost_beside_the_first_part() {
        let before = part("before", &[(100, 98), (100, 98)]);
        let worse = part("worse", &[(100, 98), (100, 95)]);
        let better = part("better", &[(100, 100)]);
        let lost = |parts| watched(parts).hit_points_lost();
        assert!((lost(vec![before.clone(), better.clone(), worse]) - 3.0).abs() < 1e-9);
        assert_eq!(lost(vec![before, better]), 0.0);
    }

    #[test]
    fn parts_of_one_name_are_joined_and_keep_their_order() {
        let one = part("one", &[(100, 100)]);
        let two = part("two", &[(100, 50)]);
        let joined = watched(vec![one.clone(), two.clone(), one, two]).joined();
        let names: Vec<_> = joined.iter().map(|part| part.label.as_str()).collect();
        assert_eq!(names, ["one", "two"]);
        assert_eq!(joined[1].seconds, 1.0);
        assert_eq!(joined[1].moments.len(), 2);
        assert_eq!(joined[1].hit_ratio(), 0.5);
    }

    #[test]
    fn requests_that_nobody_answered_take_nothing_from_those_that_were() {
        let mut part = Part::new("p");
        let mut silent = sample(1.0, 100, 100, 60);
        silent.counters.unanswered = 50;
        part.add(&silent, 1.0);
        assert_eq!(part.requests_per_second(), 90.0);
        assert_eq!(part.errors(), 60);
    }
}
