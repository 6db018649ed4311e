//! Which rate is tried next.
//!
//! A rate that holds is raised by a factor until one does not hold. The limit lies between the two, and is looked for by
//! geometric halves until they are close together. A rate that does not hold may be tried again before it
//! counts: a busy machine spoils a step now and then, and one spoiled step would end the search far too low. What
//! spoils may last for several steps. So where rates are tried again, the lowest that failed is tried once more at the
//! end, when it has passed; if it holds then, the search goes on upwards from there.
//! A rate that holds is believed at once, since nothing makes a server look faster than it is.
//!
//! Pure: it is told whether a step held, and says the next rate. Every second step at least moves a bound,
//! so it ends after `2 * (log(max / min) / log(growth) + log2(1 / precision))` steps or so, and after as many again for each
//! rate that holds at the end and did not before.
//!
//! Rejected: steps of equal size, which either take long for a fast server or say little of a slow one.

/// Where a search goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The first rate, in requests a second.
    pub start: f64,
    /// The lowest rate that is tried where none holds. Above 0, at most `start`.
    pub min: f64,
    /// The last one that is tried. At least `start`.
    pub max: f64,
    /// Factor between two rates while all hold, or none does. Above 1.
    pub growth: f64,
    /// The search ends when the rate that failed is above the one that held by this part of it at most.
    /// Above 0.
    pub precision: f64,
    /// How many times a rate has to fail before it counts as failed. At least 1.
    pub tries: u32,
}

/// A search for the highest rate that holds.
#[derive(Clone, Debug)]
pub struct Search {
    range: Range,
    /// The rate to try, unless the search has ended.
    rate: f64,
    /// How many times it has failed.
    failures: u32,
    /// The highest rate that held.
    held: Option<f64>,
    /// The lowest rate that failed. Invariant: above `held`.
    failed: Option<f64>,
    /// It has failed when it was tried once more at the end, too.
    is_confirmed: bool,
}

impl Search {
    /// A search that begins where its range does.
    ///
    /// # Panics
    /// When the range is none.
    pub fn new(range: Range) -> Search {
        Search::with_known(range, None, None)
    }

    /// A search that begins with what is known: a rate that holds, and one above it that has failed once.
    ///
    /// # Panics
    /// When the range is none.
    pub fn with_known(range: Range, held: Option<f64>, failed_once: Option<f64>) -> Search {
        assert!(
            range.min > 0.0
                && range.min <= range.start
                && range.start <= range.max
                && range.growth > 1.0
                && range.precision > 0.0,
            "no range to search: {range:?}"
        );
        let mut search = Search {
            range,
            rate: range.start,
            failures: 0,
            held,
            failed: None,
            is_confirmed: range.tries == 1,
        };
        if let Some(rate) = failed_once {
            search.rate = rate;
            search.handle_step(false);
        } else if held.is_some() {
            search.go_on();
        }
        search
    }

    /// The rate of the next step, in requests a second; nothing when the search has ended.
    pub fn next_rate(&self) -> Option<f64> {
        let has_ended = match (self.held, self.failed) {
            (None, None) => false,
            (None, Some(failed)) => failed <= self.range.min,
            (Some(held), None) => held >= self.range.max,
            (Some(_), Some(_)) => self.is_close() && self.is_confirmed,
        };
        (!has_ended).then_some(self.rate)
    }

    /// Whether the rate that failed is close enough to the one that held.
    fn is_close(&self) -> bool {
        let known = self.held.zip(self.failed);
        known.is_some_and(|(held, failed)| failed <= held * (1.0 + self.range.precision))
    }

    /// A step at the rate that was asked for has held, or has not.
    pub fn handle_step(&mut self, held: bool) {
        if !held {
            self.failures += 1;
            if self.failures < self.range.tries {
                return;
            }
        }
        let is_known = self.failed == Some(self.rate);
        match held {
            true => {
                self.held = Some(self.rate);
                self.failed = self.failed.filter(|_| !is_known);
            }
            false => {
                self.failed = Some(self.rate);
                self.is_confirmed |= is_known;
            }
        }
        self.go_on();
    }

    /// To the rate that follows from what held and what failed.
    fn go_on(&mut self) {
        let Range {
            min, max, growth, ..
        } = self.range;
        self.failures = 0;
        self.rate = match (self.held, self.failed) {
            (Some(_), Some(failed)) if self.is_close() => {
                self.failures = self.range.tries - 1;
                failed
            }
            (Some(held), Some(failed)) => (held * failed).sqrt(),
            (Some(held), None) => (held * growth).min(max),
            (None, Some(failed)) => (failed / growth).max(min),
            (None, None) => self.rate,
        };
    }

    /// The highest rate that held, in requests a second; nothing where none did.
    pub fn held(&self) -> Option<f64> {
        self.held
    }

    /// The lowest rate that did not hold, nor when it was tried again; nothing where all held.
    pub fn failed(&self) -> Option<f64> {
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::objective::{Figures, Objective};
    use crate::report::Latency;
    use crate::seed;
    use evenkeel_workload::{Arrivals, Rate, Schedule, rng};
    use hdrhistogram::Histogram;

    const RANGE: Range = Range {
        start: 1000.0,
        min: 1000.0,
        max: 1e6,
        growth: 2.0,
        precision: 0.03,
        tries: 2,
    };

    /// More steps than any search over [`RANGE`] may take: ten doublings, five halves, all of them twice, and the last rate once
    /// more. As many again for each rate that failed, and holds at the end.
    const STEPS_MAX: usize = 2 * (10 + 1 + 5) + 1;

    /// Runs a search to its end; the rates in order, each with whether it held.
    fn run(range: Range, mut holds: impl FnMut(f64) -> bool) -> (Search, Vec<(f64, bool)>) {
        let mut search = Search::new(range);
        let mut steps = Vec::new();
        let mut rounds = 1;
        while let Some(rate) = search.next_rate() {
            let held = holds(rate);
            rounds += usize::from(held && search.failed() == Some(rate));
            search.handle_step(held);
            steps.push((rate, held));
            assert!(steps.len() <= rounds * STEPS_MAX, "no end: {steps:?}");
        }
        (search, steps)
    }

    #[test]
    fn a_limit_is_bracketed() {
        for limit in [1000.0, 1001.0, 1999.0, 2000.0, 54_321.0, 999_999.0] {
            let (search, steps) = run(RANGE, |rate| rate <= limit);
            let (held, failed) = (search.held().unwrap(), search.failed().unwrap());
            assert!(held <= limit && limit < failed, "{limit}: {steps:?}");
            assert!(failed <= held * 1.03, "{limit}: {steps:?}");
        }
    }

    #[test]
    fn it_ends_where_nothing_fails() {
        let (search, steps) = run(RANGE, |_| true);
        assert_eq!((search.held(), search.failed()), (Some(1e6), None));
        assert_eq!(steps.len(), 11, "{steps:?}");
        let one = Range {
            max: 1000.0,
            ..RANGE
        };
        let (search, steps) = run(one, |_| true);
        assert_eq!((search.held(), steps.len()), (Some(1000.0), 1));
    }

    #[test]
    fn it_ends_where_nothing_holds() {
        let (search, steps) = run(RANGE, |_| false);
        assert_eq!((search.held(), search.failed()), (None, Some(1000.0)));
        assert_eq!(steps, [(1000.0, false); 2], "once more, and no more");
    }

    #[test]
    fn it_goes_down_from_a_start_that_fails() {
        let deep = Range { min: 10.0, ..RANGE };
        for limit in [10.0, 11.0, 400.0, 999.0] {
            let (search, steps) = run(deep, |rate| rate <= limit);
            let (held, failed) = (search.held().unwrap(), search.failed().unwrap());
            assert!(held <= limit && limit < failed, "{limit}: {steps:?}");
        }
        let (search, steps) = run(deep, |_| false);
        assert_eq!(
            (search.held(), search.failed()),
            (None, Some(10.0)),
            "{steps:?}"
        );
    }

    #[test]
    fn it_goes_on_from_what_is_known() {
        let first = |held, failed| Search::with_known(RANGE, held, failed).next_rate();
        assert_eq!(first(None, None), Some(1000.0));
        assert_eq!(first(Some(3000.0), None), Some(6000.0));
        assert_eq!(first(Some(3000.0), Some(3050.0)), Some(3050.0), "once more");
        let mut search = Search::with_known(RANGE, Some(3000.0), Some(3050.0));
        search.handle_step(false);
        assert_eq!(search.next_rate(), Some(3050.0), "a last time");
        search.handle_step(false);
        assert_eq!((search.next_rate(), search.held()), (None, Some(3000.0)));
        let once = Range { tries: 1, ..RANGE };
        let search = Search::with_known(once, Some(3000.0), Some(3050.0));
        assert_eq!((search.next_rate(), search.failed()), (None, Some(3050.0)));
    }

    #[test]
    fn a_step_that_is_spoiled_once_changes_nothing() {
        let limit = 20_000.0;
        let (clean, _) = run(RANGE, |rate| rate <= limit);
        for spoiled in 0..10 {
            let mut step = 0;
            let (search, steps) = run(RANGE, |rate| {
                step += 1;
                rate <= limit && step != spoiled + 1
            });
            assert_eq!(search.held(), clean.held(), "step {spoiled}: {steps:?}");
        }
    }

    #[test]
    fn a_rate_that_is_spoiled_each_time_but_the_last_ends_nothing() {
        let limit = 20_000.0;
        let (_, clean) = run(RANGE, |rate| rate <= limit);
        for spoiled in 1..clean.len() {
            let mut step = 0;
            let (search, steps) = run(RANGE, |rate| {
                step += 1;
                rate <= limit && !(spoiled..spoiled + 2).contains(&(step - 1))
            });
            let (held, failed) = (search.held().unwrap(), search.failed().unwrap());
            assert!(held <= limit && limit < failed, "{spoiled}: {steps:?}");
            assert!(failed <= held * 1.03, "{spoiled}: {steps:?}");
        }
    }

    #[test]
    fn it_ends_whatever_it_is_told() {
        let mut rng = rng::stream(seed(), 0);
        for _ in 0..1000 {
            let share = rng::unit(&mut rng);
            let (search, steps) = run(RANGE, |_| rng::unit(&mut rng) < share);
            let rates_that = |held| {
                let of = steps.iter().filter(move |step| step.1 == held);
                of.map(|step| step.0)
            };
            let highest = rates_that(true).reduce(f64::max);
            assert_eq!(search.held(), highest, "{steps:?}");
            if let (Some(held), Some(failed)) = (search.held(), search.failed()) {
                assert!(held < failed, "{steps:?}");
                assert!(rates_that(false).any(|rate| rate == failed), "{steps:?}");
            }
        }
    }

    /// A server that takes the same time for each request, one after the other.
    struct Queue {
        per_second: f64,
        seed: u64,
    }

    impl Queue {
        /// Three seconds of Poisson arrivals at this rate.
        fn figures(&self, rate: f64) -> Figures {
            let pace = Arrivals::Poisson(Rate::Constant(rate));
            let mut schedule = Schedule::new(pace, 0, 1, self.seed).expect("an open loop");
            let service_ns = 1e9 / self.per_second;
            let mut free_ns = 0.0_f64;
            let mut sent = 0;
            let mut latency = Histogram::<u64>::new(3).expect("three digits are few");
            while schedule.next_ns() < 3_000_000_000 {
                let due_ns = schedule.next_ns() as f64;
                free_ns = free_ns.max(due_ns) + service_ns;
                latency += (free_ns - due_ns) as u64;
                sent += 1;
                schedule.advance();
            }
            Figures {
                due: sent,
                sent,
                failed: 0,
                latency: Latency::new(&latency),
                generator_cpu_share: 0.1,
            }
        }
    }

    /// The search beside its dumb twin, which tries every rate from below in steps of a per cent.
    #[test]
    fn the_limit_of_a_queue_is_where_trying_all_rates_finds_it() {
        let seed = seed();
        let range = Range {
            start: 200.0,
            min: 200.0,
            max: 20_000.0,
            ..RANGE
        };
        for (index, objective) in (0..).zip(["p50=5ms", "p99=5ms", "p99=20ms", "p99.9=10ms"]) {
            let objective: Objective = objective.parse().unwrap();
            let queue = Queue {
                per_second: [900.0, 2500.0, 7000.0, 12_000.0][index as usize],
                seed: seed.wrapping_add(index),
            };
            let holds = |rate: f64| objective.broken(&queue.figures(rate)).is_empty();
            let (search, steps) = run(range, holds);
            let found = search.held().unwrap_or_else(|| panic!("{steps:?}"));
            let mut highest = range.start;
            while holds(highest * 1.01) {
                highest *= 1.01;
            }
            let ratio = found / highest;
            assert!(
                (0.95..1.05).contains(&ratio),
                "{objective}: {found} is not {highest}: {steps:?}"
            );
            assert!(found <= queue.per_second * 1.05, "{objective}: {found}");
        }
    }
}
