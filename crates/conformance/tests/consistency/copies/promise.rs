//! What a pool that keeps copies promises, judged on what applications were told: a read that begins after a write was acknowledged never
//! shows an older value, through whichever proxies.
//!
//! A value is older than a write if it was there before the write began: its own write was acknowledged by then, or somebody had read it. The
//! second holds also where the outcome of its own write is unknown, since that takes effect once at most. Of writes that overlap neither is
//! older, and misses say nothing. That is weaker than what is promised of registers: while a write is not acknowledged, its value and the
//! former one may be shown by turns.

use std::collections::HashMap;

/// One that may have taken effect, or has.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// Through which proxy it went.
    pub proxy: usize,
    pub key: usize,
    pub begun: u64,
    /// `None`: nobody knows whether and when it takes effect.
    pub acknowledged: Option<u64>,
    /// What it has stored, which no other write of the key has; `None` where nothing is there behind it.
    pub value: Option<u64>,
}

/// One that has found a value.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// Through which proxy it went.
    pub proxy: usize,
    pub key: usize,
    pub begun: u64,
    pub ended: u64,
    pub value: u64,
}

/// What is known of all of them, with times of one clock.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub writes: Vec<Write>,
    pub reads: Vec<Read>,
}

impl History {
    /// What breaks the promise, in words: reads of values that are older than a write, or that nobody had written yet. O(n log n).
    pub fn violations(&self) -> Vec<String> {
        let (begun, known) = (self.begun(), self.known());
        let acknowledged = self.writes.iter().filter_map(|it| {
            let at = it.acknowledged?;
            Some((at, it))
        });
        let mut acknowledged: Vec<_> = acknowledged.collect();
        acknowledged.sort_unstable_by_key(|(at, _)| *at);
        let mut acknowledged = acknowledged.into_iter().peekable();
        let mut reads: Vec<&Read> = self.reads.iter().collect();
        reads.sort_unstable_by_key(|read| read.begun);
        // Of each key the write that began last, of those that were acknowledged before the read.
        let mut newest: HashMap<usize, &Write> = HashMap::new();
        let mut violations = Vec::new();
        for read in reads {
            while let Some((_, write)) = acknowledged.next_if(|(at, _)| *at < read.begun) {
                let newest = newest.entry(write.key).or_insert(write);
                if write.begun > newest.begun {
                    *newest = write;
                }
            }
            let place = (read.key, read.value);
            if begun.get(&place).is_none_or(|begun| *begun > read.ended) {
                violations.push(format!("{}, which was not written", told(read)));
            } else if let Some(write) = newest.get(&read.key)
                && known[&place] < write.begun
            {
                violations.push(format!(
                    "{}, which is older than {:?}, written by proxy {} from {} to {:?}",
                    told(read),
                    write.value,
                    write.proxy,
                    write.begun,
                    write.acknowledged
                ));
            }
        }
        violations
    }

    /// When the write of each value of a key began.
    pub fn begun(&self) -> HashMap<(usize, u64), u64> {
        let begun = |write: &Write| Some(((write.key, write.value?), write.begun));
        self.writes.iter().filter_map(begun).collect()
    }

    /// When each value of a key was known to be, or to have been, there.
    fn known(&self) -> HashMap<(usize, u64), u64> {
        let written = self.writes.iter().filter_map(|write| {
            let place = (write.key, write.value?);
            Some((place, write.acknowledged?))
        });
        let read = self.reads.iter();
        let read = read.map(|read| ((read.key, read.value), read.ended));
        let mut known = HashMap::new();
        for (place, at) in written.chain(read) {
            let first = known.entry(place).or_insert(at);
            *first = at.min(*first);
        }
        known
    }
}

fn told(read: &Read) -> String {
    let Read {
        proxy,
        key,
        begun,
        ended,
        value,
    } = read;
    format!("key {key}: proxy {proxy} has shown from {begun} to {ended} {value}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_conformance::exchange::seed;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    /// Writes and reads of one key, each with its beginning and end.
    #[derive(Default)]
    struct Told(History);

    impl Told {
        fn write(mut self, (begun, ended): (u64, u64), value: impl Into<Option<u64>>) -> Self {
            self.0.writes.push(Write {
                proxy: 0,
                key: 0,
                begun,
                acknowledged: (ended > 0).then_some(ended),
                value: value.into(),
            });
            self
        }

        fn unknown(self, begun: u64, value: u64) -> Self {
            self.write((begun, 0), value)
        }

        fn read(mut self, (begun, ended): (u64, u64), value: u64, proxy: usize) -> Self {
            let key = 0;
            self.0.reads.push(Read {
                proxy,
                key,
                begun,
                ended,
                value,
            });
            self
        }

        fn is_right(&self) -> bool {
            self.0.violations().is_empty()
        }
    }

    #[test]
    fn an_older_value_is_found_at_whichever_proxy() {
        let told = || Told::default().write((1, 2), 1).write((3, 5), 2);
        assert!(told().read((6, 7), 2, 0).is_right());
        for proxy in [0, 1] {
            assert!(!told().read((6, 7), 1, proxy).is_right());
            // As long as the write is not acknowledged, both may be shown, by turns.
            let both = told().read((3, 4), 2, 0).read((4, 9), 1, proxy);
            assert!(both.is_right());
        }
    }

    #[test]
    fn what_was_deleted_is_not_shown_and_what_was_never_written_neither() {
        let told = || Told::default().write((1, 2), 1).write((3, 5), None);
        assert!(told().read((4, 7), 1, 0).is_right());
        assert!(!told().read((6, 7), 1, 0).is_right());
        assert!(!told().read((6, 7), 9, 0).is_right());
        assert!(!told().write((8, 9), 2).read((6, 7), 2, 0).is_right());
    }

    #[test]
    fn writes_that_overlap_are_none_older_than_the_other() {
        let told = || Told::default().write((1, 4), 1).write((3, 5), 2);
        assert!(told().read((6, 7), 1, 0).is_right());
        assert!(told().read((6, 7), 2, 0).is_right());
        assert!(told().read((6, 7), 2, 0).read((8, 9), 1, 1).is_right());
    }

    #[test]
    fn a_write_of_unknown_outcome_takes_effect_at_any_time_and_once() {
        let told = || {
            let told = Told::default().unknown(1, 1);
            told.write((2, 3), 2).read((20, 21), 1, 0)
        };
        assert!(told().is_right());
        assert!(told().write((22, 23), 3).read((24, 25), 3, 0).is_right());
        assert!(!told().write((22, 23), 3).read((24, 25), 1, 0).is_right());
        // It says nothing of what was there before.
        let before = Told::default().write((1, 2), 1).unknown(3, 2);
        assert!(before.read((5, 6), 2, 0).read((7, 8), 1, 0).is_right());
    }

    /// Each read against each write, by the words at the top.
    fn is_right_by_twin(history: &History) -> bool {
        let is_there_before = |key: usize, value: u64, time: u64| {
            let is_value = |write: &&Write| write.key == key && write.value == Some(value);
            let acknowledged = history.writes.iter().filter(is_value);
            let mut acknowledged = acknowledged.filter_map(|write| write.acknowledged);
            let mut read = history.reads.iter();
            acknowledged.any(|at| at < time)
                || read.any(|read| (read.key, read.value) == (key, value) && read.ended < time)
        };
        history.reads.iter().all(|read| {
            let of_key = || history.writes.iter().filter(|write| write.key == read.key);
            let is_written =
                of_key().any(|write| write.value == Some(read.value) && write.begun <= read.ended);
            let is_older = of_key().any(|write| {
                write.acknowledged.is_some_and(|at| at < read.begun)
                    && is_there_before(read.key, read.value, write.begun)
            });
            is_written && !is_older
        })
    }

    #[test]
    fn it_judges_as_its_twin_does() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed());
        let mut right = 0;
        for _ in 0..20_000 {
            let mut below = |bound: u64| random.next_u64() % bound;
            let mut history = History::default();
            for value in 0..4 {
                let begun = below(20);
                history.writes.push(Write {
                    proxy: 0,
                    key: below(2) as usize,
                    begun,
                    acknowledged: (below(4) > 0).then_some(begun + below(8)),
                    value: (below(4) > 0).then_some(value),
                });
            }
            for _ in 0..3 {
                let (begun, of) = (below(30), history.writes[below(4) as usize]);
                history.reads.push(Read {
                    proxy: 0,
                    key: of.key,
                    begun,
                    ended: begun + below(8),
                    value: of.value.unwrap_or(below(4)),
                });
            }
            let is_right = is_right_by_twin(&history);
            assert_eq!(history.violations().is_empty(), is_right, "{history:?}");
            right += u32::from(is_right);
        }
        assert!((1000..19_000).contains(&right), "{right} are right");
    }
}
