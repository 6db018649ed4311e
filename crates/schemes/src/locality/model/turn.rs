//! Where an answer changes as one number does.

use serde::{Deserialize, Serialize};

/// Steps into which a range is cut. An answer that holds for less than a step, 0.5 % of the range, may be overlooked.
const STEPS: u32 = 200;

/// Halvings of a step: they end far below any number that is printed.
const HALVINGS: u32 = 40;

/// A place where an answer changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn<T> {
    /// The number from which on the answer is another.
    pub at: f64,
    /// The answer below.
    pub from: T,
    /// The answer above.
    pub to: T,
}

/// Where the answer changes between two numbers, from the lower one up: looked for step by step, and by halves in the step. `answer` is
/// asked 201 times and 40 times for each turn. Nothing turns in an empty range.
pub fn turns<T: Copy + PartialEq>(low: f64, high: f64, answer: impl Fn(f64) -> T) -> Vec<Turn<T>> {
    let at_step = |step| low + (high - low) * f64::from(step) / f64::from(STEPS);
    let mut turns = Vec::new();
    let mut from = answer(low);
    for step in 1..=STEPS {
        let to = answer(at_step(step));
        if to == from {
            continue;
        }
        let (mut below, mut above) = (at_step(step - 1), at_step(step));
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(below, above);
            if answer(middle) == from {
                below = middle;
            } else {
                above = middle;
            }
        }
        turns.push(Turn {
            at: above,
            from,
            to,
        });
        from = to;
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_testkit::seed;
    use evenkeel_types::random::SplitMix64;

    /// The twin: looks at this many places, one after the other.
    fn scanned(low: f64, high: f64, answer: impl Fn(f64) -> usize) -> Vec<Turn<usize>> {
        const PLACES: u32 = 20_000;
        let mut turns = Vec::new();
        let mut from = answer(low);
        for place in 1..=PLACES {
            let at = low + (high - low) * f64::from(place) / f64::from(PLACES);
            let to = answer(at);
            if to != from {
                turns.push(Turn { at, from, to });
                from = to;
            }
        }
        turns
    }

    #[test]
    fn it_finds_what_a_dense_scan_finds() {
        let seed = seed(0x7);
        let mut random = SplitMix64::new(seed);
        let mut unit = || random.next_u64() as f64 / u64::MAX as f64;
        let mut compared = 0;
        for _ in 0..200 {
            let lines: Vec<(f64, f64)> = (0..5).map(|_| (unit(), 4.0 * unit() - 2.0)).collect();
            let (low, high) = (-unit(), unit());
            let lowest = |x: f64| {
                let at = |line: usize| lines[line].0 + lines[line].1 * x;
                (0..5).min_by(|&a, &b| at(a).total_cmp(&at(b))).unwrap()
            };
            let dense = scanned(low, high, lowest);
            let step = (high - low) / f64::from(STEPS);
            if dense.windows(2).any(|pair| pair[1].at - pair[0].at < step) {
                continue;
            }
            compared += dense.len();
            let found = turns(low, high, lowest);
            assert_eq!(found.len(), dense.len(), "{found:?} {dense:?}");
            for (found, dense) in found.iter().zip(&dense) {
                assert_eq!((found.from, found.to), (dense.from, dense.to));
                assert!(found.at <= dense.at && dense.at - found.at <= step / 100.0 + 1e-9);
                assert_eq!(lowest(found.at), found.to);
            }
        }
        assert!(compared > 100, "{compared}");
    }

    #[test]
    fn nothing_turns_where_nothing_changes_or_there_is_no_range() {
        assert_eq!(turns(0.0, 1.0, |_| 1), []);
        assert_eq!(turns(1.0, 1.0, |x| x > 0.5), []);
        assert_eq!(turns(f64::NAN, 1.0, |x| x > 0.5), []);
    }
}
