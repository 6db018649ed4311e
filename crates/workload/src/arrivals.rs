//! When requests are meant to be sent.
//!
//! In a *closed loop* a request follows an answer, and a slow server slows its own load down. In an *open
//! loop* requests are due at times that depend on nothing the server does, as those of many users do. A
//! [`Schedule`] is those times. Anyone who measures latency from the due time, and not from the time of
//! sending, is free of coordinated omission: requests that a stall held back count with their wait.
//!
//! A rate that changes is a warp of time. Arrivals are made on a clock that runs evenly (its unit is one
//! expected request) and then put where the sum of the rate has reached that much:
//! Λ(t) = ∫ rate = τ, solved for t. So a Poisson process stays one, of that rate (Çinlar 1975), and equal
//! distances stay as equal as the rate lets them.

use crate::rng::{self, WorkloadRng};
use crate::text::{self, Term};
use crate::{WorkloadError, refuse};
use core::f64::consts::TAU;
use core::fmt;
use core::str::FromStr;

/// Streams of arrivals are numbered apart from those of keys.
const ARRIVAL_STREAM: u64 = 1 << 32;

/// Highest rate in requests a second; schedules count nanoseconds.
pub const RATE_MAX: f64 = 1e9;

/// Most streams of a workload.
pub const STREAMS_MAX: usize = 1 << 16;

/// Shape of the distances in ETC's arrivals: the k of a generalised Pareto distribution (Atikoglu et
/// al., SIGMETRICS 2012, table 5).
const ETC_SHAPE: f64 = 0.154_971;

/// Mean distance of ETC's arrivals in seconds, σ/(1 − k) with σ = 16.0292 µs: 52,718 a second.
const ETC_GAP_S: f64 = 16.0292e-6 / (1.0 - ETC_SHAPE);

const NS_PER_S: f64 = 1e9;

/// When requests are sent, as text `closed`, `poisson(10k)`, `fixed(10k)`, `etc`, or with a rate that
/// goes up and down: `poisson(2k..10k, period=24h)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Arrivals {
    /// A request follows an answer.
    #[default]
    Closed,
    /// At equal distances.
    Fixed(Rate),
    /// At exponential distances, as from many independent users.
    Poisson(Rate),
    /// At the distances of Facebook's ETC: a generalised Pareto distribution, which comes in thicker
    /// bursts than Poisson's.
    Etc(Rate),
}

/// Requests a second, of all streams together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Always the same.
    Constant(f64),
    /// From `low` at the start up to `high` after half a period, and down again.
    Wave {
        /// Requests a second at the start of each period.
        low: f64,
        /// Requests a second in the middle of each period.
        high: f64,
        /// In nanoseconds.
        period_ns: u64,
        /// How it goes up and down.
        shape: Wave,
    },
}

/// How a rate goes up and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wave {
    /// As a cosine: the day of an audience.
    Cosine,
    /// In straight lines: a ramp and back.
    Triangle,
}

impl Rate {
    fn check(&self) -> Result<(), WorkloadError> {
        let (low, high) = match *self {
            Rate::Constant(rate) => (rate, rate),
            Rate::Wave { low, high, .. } => (low, high),
        };
        // A wave may begin at nothing; a rate that never is above cannot be waited for.
        let least = if low == high { f64::MIN_POSITIVE } else { 0.0 };
        if !(low >= least && low <= high && high <= RATE_MAX) {
            return refuse(format!("rate {self} is not within 0 and {RATE_MAX}"));
        }
        match *self {
            Rate::Wave { period_ns: 0, .. } => refuse("the period of a rate is above 0"),
            _ => Ok(()),
        }
    }

    /// Mean over a period, in requests a second.
    pub fn mean(&self) -> f64 {
        match *self {
            Rate::Constant(rate) => rate,
            Rate::Wave { low, high, .. } => (low + high) / 2.0,
        }
    }

    /// Requests a second at a time.
    pub fn at(&self, ns: u64) -> f64 {
        match *self {
            Rate::Constant(rate) => rate,
            Rate::Wave {
                low,
                high,
                period_ns,
                shape,
            } => {
                let phase = (ns % period_ns) as f64 / period_ns as f64;
                low + (high - low) * shape.height(phase)
            }
        }
    }

    /// When this many requests are expected to have come, in nanoseconds.
    fn reached_ns(&self, requests: f64) -> f64 {
        match *self {
            Rate::Constant(rate) => requests * (NS_PER_S / rate),
            Rate::Wave {
                low,
                high,
                period_ns,
                shape,
            } => {
                let period_s = period_ns as f64 / NS_PER_S;
                let of_period = self.mean() * period_s;
                let periods = (requests / of_period).floor();
                let left = (requests - periods * of_period) / period_s;
                (periods + shape.phase_of(left, low, high)) * period_ns as f64
            }
        }
    }
}

impl Wave {
    /// 0 at the start and the end of a period, 1 in the middle.
    fn height(self, phase: f64) -> f64 {
        match self {
            Wave::Cosine => (1.0 - (TAU * phase).cos()) / 2.0,
            Wave::Triangle => 1.0 - (2.0 * phase - 1.0).abs(),
        }
    }

    /// ∫ of the height from 0 to the phase.
    fn area(self, phase: f64) -> f64 {
        match self {
            Wave::Cosine => phase / 2.0 - (TAU * phase).sin() / (2.0 * TAU),
            Wave::Triangle if phase <= 0.5 => phase * phase,
            Wave::Triangle => 0.5 - (1.0 - phase) * (1.0 - phase),
        }
    }

    /// The phase at which `low·phase + (high − low)·area(phase)` has come to `sum`.
    fn phase_of(self, sum: f64, low: f64, high: f64) -> f64 {
        // Bisection that Newton's steps speed up: the sum rises, and slowest near a low of 0.
        let (mut from, mut to) = (0.0f64, 1.0f64);
        let mut phase = (sum / ((low + high) / 2.0)).clamp(0.0, 1.0);
        for _ in 0..STEPS_MAX {
            let excess = low * phase + (high - low) * self.area(phase) - sum;
            if excess > 0.0 {
                to = phase;
            } else {
                from = phase;
            }
            let slope = low + (high - low) * self.height(phase);
            let mut next = phase - excess / slope;
            if !(next > from && next < to) {
                next = (from + to) / 2.0;
            }
            if (next - phase).abs() < PHASE_PRECISION {
                return next;
            }
            phase = next;
        }
        phase
    }
}

/// Most steps of the search for a phase. Bisection alone needs 50; Newton's takes five.
const STEPS_MAX: u32 = 60;

/// Precision of a phase: a tenth of a microsecond of a day.
const PHASE_PRECISION: f64 = 1e-12;

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Rate::Constant(rate) => write!(f, "{rate}"),
            Rate::Wave {
                low,
                high,
                period_ns,
                shape,
            } => {
                let period = text::show_ns(period_ns);
                write!(f, "{low}..{high}, period={period}")?;
                match shape {
                    Wave::Cosine => Ok(()),
                    Wave::Triangle => f.write_str(", shape=triangle"),
                }
            }
        }
    }
}

/// Says what the text of [`Arrivals`] looks like.
const FORMS: &str = "closed, poisson(RATE), fixed(RATE) or etc(RATE); a RATE may be \
                     LOW..HIGH, period=TIME, shape=cosine or triangle";

impl FromStr for Arrivals {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let mut term = Term::parse(text)?;
        let arrivals = match term.name() {
            "closed" => Arrivals::Closed,
            "fixed" => Arrivals::Fixed(rate(&mut term)?),
            "poisson" => Arrivals::Poisson(rate(&mut term)?),
            "etc" if !term.has_arguments() => Arrivals::Etc(Rate::Constant(1.0 / ETC_GAP_S)),
            "etc" => Arrivals::Etc(rate(&mut term)?),
            _ => return term.unknown("a way of arriving", FORMS),
        };
        term.finish()?;
        arrivals.check()?;
        Ok(arrivals)
    }
}

fn rate(term: &mut Term<'_>) -> Result<Rate, WorkloadError> {
    let rate = term.required(0, "rate", |rate| Ok(rate.to_owned()))?;
    let Some((low, high)) = rate.split_once("..") else {
        return Ok(Rate::Constant(text::amount(&rate)?));
    };
    Ok(Rate::Wave {
        low: text::amount(low.trim())?,
        high: text::amount(high.trim())?,
        period_ns: term.required(1, "period", text::time_ns)?,
        shape: term.or(2, "shape", Wave::Cosine, |shape| match shape {
            "cosine" => Ok(Wave::Cosine),
            "triangle" => Ok(Wave::Triangle),
            other => refuse(format!("'{other}' is neither cosine nor triangle")),
        })?,
    })
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arrivals::Closed => f.write_str("closed"),
            Arrivals::Fixed(rate) => write!(f, "fixed({rate})"),
            Arrivals::Poisson(rate) => write!(f, "poisson({rate})"),
            Arrivals::Etc(rate) => write!(f, "etc({rate})"),
        }
    }
}

impl Arrivals {
    /// The rate of an open loop.
    pub fn rate(&self) -> Option<Rate> {
        match *self {
            Arrivals::Closed => None,
            Arrivals::Fixed(rate) | Arrivals::Poisson(rate) | Arrivals::Etc(rate) => Some(rate),
        }
    }

    /// Refuses rates outside their range.
    ///
    /// # Errors
    /// With the reason.
    pub fn check(&self) -> Result<(), WorkloadError> {
        self.rate().map_or(Ok(()), |rate| rate.check())
    }
}

/// The due times of one stream, in nanoseconds from the start of the load.
#[derive(Clone, Debug)]
pub struct Schedule {
    rate: Rate,
    distances: Distances,
    /// Expected requests of all streams up to the next due time.
    reached: f64,
    next_ns: u64,
}

#[derive(Clone, Debug)]
enum Distances {
    /// Every this many requests, counted so that nothing adds up.
    Equal {
        streams: f64,
        first: f64,
        index: u64,
    },
    /// The mean of one stream's distances, in requests of all.
    Exponential { mean: f64, rng: WorkloadRng },
    /// Every stream makes the distances of all streams, and keeps its own.
    Pareto { streams: u32, rng: WorkloadRng },
}

impl Schedule {
    /// The schedule of stream `stream` of `streams`; `None` in a closed loop. Together they are the
    /// arrivals asked for: equal distances are staggered, Poisson processes add up to one, and of ETC's
    /// arrivals every stream takes its turn.
    ///
    /// # Panics
    /// When `stream` is not below `streams`, or there are more than [`STREAMS_MAX`].
    pub fn new(arrivals: Arrivals, stream: usize, streams: usize, seed: u64) -> Option<Self> {
        assert!(
            stream < streams && streams <= STREAMS_MAX,
            "stream {stream} of {streams}"
        );
        let rate = arrivals.rate()?;
        let distances = match arrivals {
            Arrivals::Closed => return None,
            Arrivals::Fixed(_) => Distances::Equal {
                streams: streams as f64,
                first: stream as f64,
                index: 0,
            },
            Arrivals::Poisson(_) => Distances::Exponential {
                mean: streams as f64,
                rng: rng::stream(seed, ARRIVAL_STREAM + stream as u64),
            },
            Arrivals::Etc(_) => Distances::Pareto {
                streams: streams as u32,
                rng: rng::stream(seed, ARRIVAL_STREAM),
            },
        };
        let mut schedule = Schedule {
            rate,
            distances,
            reached: 0.0,
            next_ns: 0,
        };
        match &mut schedule.distances {
            Distances::Equal { first, .. } => schedule.reached = *first,
            Distances::Exponential { mean, rng } => schedule.reached = exponential(rng) * *mean,
            Distances::Pareto { rng, .. } => {
                schedule.reached = (0..=stream).map(|_| pareto(rng)).sum();
            }
        }
        schedule.next_ns = rate.reached_ns(schedule.reached) as u64;
        Some(schedule)
    }

    /// When the next request is due.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Goes on to the request after.
    #[inline]
    pub fn advance(&mut self) {
        self.reached = match &mut self.distances {
            Distances::Equal {
                streams,
                first,
                index,
            } => {
                *index += 1;
                *first + *streams * *index as f64
            }
            Distances::Exponential { mean, rng } => self.reached + exponential(rng) * *mean,
            Distances::Pareto { streams, rng } => {
                self.reached + (0..*streams).map(|_| pareto(rng)).sum::<f64>()
            }
        };
        self.next_ns = self.rate.reached_ns(self.reached) as u64;
    }

    /// How many requests are due up to `end_ns`, forgetting them.
    pub fn drain_until(&mut self, end_ns: u64) -> u64 {
        let mut due = 0;
        while self.next_ns() <= end_ns {
            self.advance();
            due += 1;
        }
        due
    }
}

/// A number of mean 1. 1 − u is never 0.
fn exponential(rng: &mut WorkloadRng) -> f64 {
    -(1.0 - rng::unit(rng)).ln()
}

/// A number of mean 1 with the shape of ETC's distances.
fn pareto(rng: &mut WorkloadRng) -> f64 {
    ((1.0 - rng::unit(rng)).powf(-ETC_SHAPE) - 1.0) / ETC_SHAPE * (1.0 - ETC_SHAPE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{assert_fits_cdf, assert_fits_counts, seed};

    const SECOND: u64 = 1_000_000_000;

    fn due(text: &str, streams: usize, seed: u64, until_ns: u64) -> Vec<u64> {
        let arrivals: Arrivals = text.parse().unwrap();
        let mut due = Vec::new();
        for stream in 0..streams {
            let mut schedule = Schedule::new(arrivals, stream, streams, seed).unwrap();
            while schedule.next_ns() < until_ns {
                due.push(schedule.next_ns());
                schedule.advance();
            }
        }
        due.sort_unstable();
        due
    }

    fn distances(due: &[u64]) -> Vec<f64> {
        due.windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64 / NS_PER_S)
            .collect()
    }

    #[test]
    fn equal_distances_interleave_over_streams() {
        let due = due("fixed(1000)", 4, 0, SECOND);
        assert_eq!(due.len(), 1000);
        assert!(due.windows(2).all(|pair| pair[1] - pair[0] == 1_000_000));
    }

    /// The streams together are a Poisson process: exponential distances, and counts whose variance is
    /// their mean.
    #[test]
    fn poisson_arrivals_are_a_poisson_process() {
        let seed = seed();
        for streams in [1, 3] {
            let due = due("poisson(50k)", streams, seed, 2 * SECOND);
            assert_fits_cdf("poisson", distances(&due), |gap| 1.0 - (-gap * 50e3).exp());
            let mut counts = [0f64; 400];
            due.iter()
                .for_each(|ns| counts[(ns / 5_000_000) as usize] += 1.0);
            let mean = counts.iter().sum::<f64>() / 400.0;
            let variance = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 399.0;
            // Six standard deviations: of a mean of 400 counts of 250, and of their variance.
            assert!(
                (mean - 250.0).abs() < 6.0 * (250.0f64 / 400.0).sqrt(),
                "{mean}"
            );
            assert!(
                (variance / mean - 1.0).abs() < 6.0 * (2.0f64 / 399.0).sqrt(),
                "{variance}"
            );
        }
    }

    #[test]
    fn arrivals_of_etc_have_the_distances_of_the_paper_over_any_number_of_streams() {
        let seed = seed();
        let one = due("etc", 1, seed, SECOND);
        assert_fits_cdf("etc", distances(&one), |gap| {
            1.0 - (1.0 + 0.154_971 * gap / 16.0292e-6).powf(-1.0 / 0.154_971)
        });
        let three = due("etc", 3, seed, SECOND);
        assert_eq!(one.len(), three.len());
        // Sums in another order differ in their last digits.
        assert!(
            one.iter()
                .zip(&three)
                .all(|(one, three)| one.abs_diff(*three) <= 1)
        );
    }

    /// Counts in hundredths of a period against the integral of the rate.
    #[test]
    fn a_rate_that_changes_is_followed() {
        let seed = seed();
        for (text, shape) in [
            ("poisson(2k..20k, period=10s)", Wave::Cosine),
            ("poisson(0..20k, period=10s)", Wave::Cosine),
            (
                "poisson(2k..20k, period=10s, shape=triangle)",
                Wave::Triangle,
            ),
        ] {
            let Some(Rate::Wave { low, high, .. }) = text.parse::<Arrivals>().unwrap().rate()
            else {
                panic!("a wave")
            };
            let due = due(text, 2, seed, 30 * SECOND);
            let mut counts = [0u64; 100];
            due.iter()
                .for_each(|ns| counts[(ns / (SECOND / 10) % 100) as usize] += 1);
            let weights: Vec<f64> = (0..100)
                .map(|bin| {
                    let (from, to) = (f64::from(bin) / 100.0, f64::from(bin + 1) / 100.0);
                    low / 100.0 + (high - low) * (shape.area(to) - shape.area(from))
                })
                .collect();
            assert_fits_counts(text, &weights, &counts);
            let expected = (low + high) / 2.0 * 30.0;
            assert!((due.len() as f64 - expected).abs() < 6.0 * expected.sqrt());
        }
        // Equal distances follow it exactly.
        let due = due("fixed(2k..20k, period=10s)", 2, 0, 10 * SECOND);
        assert_eq!(due.len(), 110_000);
        let first = due.partition_point(|&ns| ns < SECOND / 100);
        assert_eq!(first, 21, "nearly 2000 a second in the first 10 ms");
    }

    /// Twin of the search: the integral of the rate.
    #[test]
    fn the_search_for_a_phase_ends_where_the_sum_is() {
        for shape in [Wave::Cosine, Wave::Triangle] {
            for (low, high) in [(0.0, 1.0), (1.0, 1.0), (1.0, 1e9), (30e3, 140e3)] {
                for step in 0..=1000 {
                    let phase = f64::from(step) / 1000.0;
                    let sum = low * phase + (high - low) * shape.area(phase);
                    let found = shape.phase_of(sum, low, high);
                    let back = low * found + (high - low) * shape.area(found);
                    let scale = low + high;
                    assert!((back - sum).abs() <= 1e-9 * scale, "{low} {high} {phase}");
                }
            }
        }
        let rate = Rate::Wave {
            low: 10.0,
            high: 20.0,
            period_ns: 100,
            shape: Wave::Triangle,
        };
        assert_eq!(
            (rate.at(0), rate.at(50), rate.at(75), rate.at(125)),
            (10.0, 20.0, 15.0, 15.0)
        );
    }

    #[test]
    fn draining_counts_what_was_due() {
        let arrivals = "fixed(1000)".parse().unwrap();
        let mut schedule = Schedule::new(arrivals, 0, 1, 0).unwrap();
        assert_eq!(schedule.drain_until(9_999_999), 10);
        assert_eq!(schedule.next_ns(), 10_000_000);
        assert!(Schedule::new(Arrivals::Closed, 0, 1, 0).is_none());
    }

    #[test]
    fn arrivals_are_read_and_written() {
        for text in [
            "closed",
            "poisson(1000)",
            "fixed(0.5)",
            "etc(1000)",
            "poisson(2000..20000, period=1d)",
            "fixed(0..20000, period=90s, shape=triangle)",
        ] {
            assert_eq!(text.parse::<Arrivals>().unwrap().to_string(), text);
        }
        let Some(Rate::Constant(rate)) = "etc".parse::<Arrivals>().unwrap().rate() else {
            panic!("constant")
        };
        assert_eq!(rate as u64, 52_718);
        for text in [
            "",
            "poisson",
            "poisson(0)",
            "poisson(-1)",
            "poisson(2G)",
            "poisson(1..2)",
            "poisson(2..1, period=1s)",
            "poisson(0..0, period=1s)",
            "poisson(1..2, period=0s)",
            "poisson(1..2, period=1s, shape=square)",
            "closed(1)",
            "open",
        ] {
            assert!(text.parse::<Arrivals>().is_err(), "{text}");
        }
    }
}
