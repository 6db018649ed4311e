//! Whether the operations on each key can be put into one order in which each takes effect at one point
//! between its call and its answer, and a cache that does one thing after another gives those answers.
//!
//! The cache is a register that may lose its value at any time, as caches do, and then does not have it
//! back. So a removal that was confirmed says what a miss says: that there was nothing at some point. A
//! write whose outcome is unknown may take effect at any time after it was sent, or never.
//!
//! The search is that of Wing and Gong (Testing and verifying concurrent objects, 1993) as Lowe improved
//! it (Testing for linearizability, 2017): it goes through calls and answers in the order of time and keeps every
//! *configuration* that is possible so far: what the key is, and which operations in flight have taken
//! effect. Operations take effect as late as possible, when one of them is answered; equal configurations
//! are kept once. Four observations keep the configurations few:
//!
//! - A read changes nothing, so it may take effect as soon as the key is what it was answered.
//! - A write of unknown outcome whose value nobody ever saw need not have happened.
//! - Another one may take effect as late as right before the first operation that needs its value: what comes in between
//!   does not change the key.
//! - A write of which all reads are in flight, or which nobody ever saw, may take effect with them right before the next write
//!   or loss: nobody else notices it there.

use super::{Action, Effect, Found, NEVER, Nanos, Operation, WriteId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Configurations at once beyond which a history is not judged. None of ours comes near; a history that
/// does is a failure of its test, not one of the cache.
const CONFIGURATIONS_MAX: usize = 1 << 18;

/// What a history that is linearizable came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Linear {
    /// Operations that have their place in the order.
    pub operations: u64,
    /// Most configurations that were possible at a time.
    pub configurations_max: usize,
}

/// Why a history is not linearizable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unlinearizable {
    /// This operation finds no place, whatever the order of those before.
    NoPlace {
        /// The operation.
        operation: Operation,
        /// What the key could be when it was answered.
        states: Vec<Option<WriteId>>,
    },
    /// There are too many possibilities to tell.
    Undecided {
        /// The key, by number.
        key: u16,
        /// How far the search has come, in time.
        at: Nanos,
    },
}

impl fmt::Display for Unlinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unlinearizable::NoPlace { operation, states } => write!(
                f,
                "not linearizable: {operation:?} finds no place; the key could be {states:?}"
            ),
            Unlinearizable::Undecided { key, at } => write!(
                f,
                "too many orders to judge key {key} at {at} ns: more than {CONFIGURATIONS_MAX}"
            ),
        }
    }
}

/// What an operation needs, and does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transition {
    /// The key is this.
    See(Option<WriteId>),
    /// The key becomes this, if it is what is expected.
    Become(WriteId, Option<WriteId>),
}

/// One possibility.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Configuration {
    state: Option<WriteId>,
    /// Operations in flight that have taken effect, ascending.
    done: Vec<usize>,
}

/// Whether the operations on each key are linearizable.
///
/// # Errors
/// For each key whose are not, the first operation that finds no place.
pub fn check_linearizable(operations: &[Operation]) -> Result<Linear, Vec<Unlinearizable>> {
    let mut keys: BTreeMap<u16, Vec<&Operation>> = BTreeMap::new();
    for operation in operations {
        keys.entry(operation.key).or_default().push(operation);
    }
    let mut linear = Linear::default();
    let mut violations = Vec::new();
    for operations in keys.values() {
        match check_key(operations) {
            Ok(of_key) => {
                linear.operations += of_key.operations;
                linear.configurations_max =
                    linear.configurations_max.max(of_key.configurations_max);
            }
            Err(violation) => violations.push(violation),
        }
    }
    if violations.is_empty() {
        Ok(linear)
    } else {
        Err(violations)
    }
}

/// What an operation says about its key, and when it was answered; `None` if it says nothing.
fn transition_of(operation: &Operation, seen: &BTreeSet<WriteId>) -> Option<(Transition, Nanos)> {
    match &operation.action {
        Action::Read(Found::Unknown) | Action::Delete(Effect::None | Effect::Unknown) => None,
        Action::Write {
            effect: Effect::None,
            ..
        } => None,
        Action::Read(Found::Value { write, .. }) => {
            Some((Transition::See(Some(*write)), operation.completed))
        }
        Action::Read(Found::Miss) | Action::Delete(Effect::Done { .. }) => {
            Some((Transition::See(None), operation.completed))
        }
        Action::Write {
            id,
            expects,
            effect,
        } => match effect {
            Effect::Done { .. } => Some((Transition::Become(*id, *expects), operation.completed)),
            _ if seen.contains(id) => Some((Transition::Become(*id, *expects), NEVER)),
            _ => None,
        },
    }
}

fn check_key(operations: &[&Operation]) -> Result<Linear, Unlinearizable> {
    let seen: BTreeSet<WriteId> = operations
        .iter()
        .filter_map(|operation| match &operation.action {
            Action::Read(Found::Value { write, .. }) => Some(*write),
            Action::Write { expects, .. } => *expects,
            _ => None,
        })
        .collect();
    let transitions: Vec<Option<(Transition, Nanos)>> = operations
        .iter()
        .map(|operation| transition_of(operation, &seen))
        .collect();
    // Calls come before answers of the same time: what may be concurrent is.
    let mut events: Vec<(Nanos, bool, usize)> = Vec::new();
    for (i, transition) in transitions.iter().enumerate() {
        if let Some((_, completed)) = transition {
            events.push((operations[i].invoked, false, i));
            if *completed != NEVER {
                events.push((*completed, true, i));
            }
        }
    }
    events.sort_unstable();
    let mut to_come: BTreeMap<WriteId, usize> = BTreeMap::new();
    for transition in transitions.iter().flatten() {
        if let Transition::See(Some(id)) | Transition::Become(_, Some(id)) = transition.0 {
            *to_come.entry(id).or_default() += 1;
        }
    }
    let mut search = Search {
        transitions: &transitions,
        to_come,
        pending: Vec::new(),
        possible: BTreeSet::from([Configuration {
            state: None,
            done: Vec::new(),
        }]),
    };
    let mut linear = Linear {
        operations: transitions.iter().flatten().count() as u64,
        configurations_max: 1,
    };
    for (at, is_answer, i) in events {
        let states = || {
            let states: BTreeSet<_> = search.possible.iter().map(|c| c.state).collect();
            states.into_iter().collect()
        };
        let is_possible = if is_answer {
            let states = states();
            search.answer(i).map_err(|()| states)
        } else {
            search.call(i);
            Ok(true)
        };
        match is_possible {
            Ok(true) => {}
            Ok(false) => {
                let key = operations[i].key;
                return Err(Unlinearizable::Undecided { key, at });
            }
            Err(states) => {
                let operation = operations[i].clone();
                return Err(Unlinearizable::NoPlace { operation, states });
            }
        }
        linear.configurations_max = linear.configurations_max.max(search.possible.len());
    }
    Ok(linear)
}

struct Search<'a> {
    /// With the time at which each was answered.
    transitions: &'a [Option<(Transition, Nanos)>],
    /// How many reads of a value were not called yet, and how many swaps expect it.
    to_come: BTreeMap<WriteId, usize>,
    /// Operations that were called and not answered, ascending.
    pending: Vec<usize>,
    possible: BTreeSet<Configuration>,
}

impl Search<'_> {
    fn call(&mut self, i: usize) {
        let at = self.pending.partition_point(|&other| other < i);
        self.pending.insert(at, i);
        if let Some((Transition::See(Some(id)), _)) = self.transitions[i]
            && let Some(to_come) = self.to_come.get_mut(&id)
        {
            *to_come -= 1;
        }
        let possible = core::mem::take(&mut self.possible);
        self.possible = possible.into_iter().map(|c| self.with_reads(c)).collect();
    }

    /// An operation is answered: only configurations in which it has taken effect are possible. Whether
    /// they are few enough; an error when there are none.
    fn answer(&mut self, i: usize) -> Result<bool, ()> {
        let mut reached = BTreeSet::new();
        let mut looked_at = BTreeSet::new();
        let mut open: Vec<Configuration> =
            core::mem::take(&mut self.possible).into_iter().collect();
        while let Some(configuration) = open.pop() {
            if let Ok(at) = configuration.done.binary_search(&i) {
                let mut configuration = configuration;
                configuration.done.remove(at);
                reached.insert(configuration);
                continue;
            }
            self.step(&configuration, |next| {
                if looked_at.insert(next.clone()) {
                    open.push(next);
                }
            });
            if looked_at.len() > CONFIGURATIONS_MAX {
                return Ok(false);
            }
        }
        self.pending.retain(|&other| other != i);
        self.possible = reached;
        if self.possible.is_empty() {
            Err(())
        } else {
            Ok(true)
        }
    }

    /// Everything that one more change can make of a configuration.
    fn step(&self, from: &Configuration, mut next: impl FnMut(Configuration)) {
        let (mut misses, mut unnoticed) = (false, None);
        for &i in &self.pending {
            if from.done.binary_search(&i).is_ok() {
                continue;
            }
            match self.transitions[i] {
                Some((Transition::Become(id, None), _)) if self.is_unnoticed(from, i, id) => {
                    unnoticed = Some(id);
                }
                Some((Transition::Become(id, expects), answered))
                    if (expects.is_none() || expects == from.state)
                        && (answered != NEVER || self.is_needed(from, id)) =>
                {
                    let mut to = match expects {
                        Some(_) => from.clone(),
                        None => self.with_unnoticed(from),
                    };
                    to.state = Some(id);
                    to.insert(i);
                    next(self.with_reads(to));
                }
                Some((Transition::See(None), _)) => misses = true,
                _ => {}
            }
        }
        // Which of them is the last makes no difference.
        if unnoticed.is_some() {
            let mut to = self.with_unnoticed(from);
            to.state = unnoticed;
            next(to);
        }
        // A loss that nobody notices is of no use.
        if misses && from.state.is_some() {
            let mut to = self.with_unnoticed(from);
            to.state = None;
            next(self.with_reads(to));
        }
    }

    /// Whether an operation in flight that has not taken effect needs the key to be this.
    fn is_needed(&self, from: &Configuration, id: WriteId) -> bool {
        let mut open = (self.pending.iter()).filter(|i| from.done.binary_search(i).is_err());
        open.any(|&i| match self.transitions[i] {
            Some((Transition::See(needed) | Transition::Become(_, needed), _)) => {
                needed == Some(id)
            }
            None => false,
        })
    }

    /// Whether a write in flight is to take effect that nobody notices but reads in flight.
    fn is_unnoticed(&self, from: &Configuration, i: usize, id: WriteId) -> bool {
        let is_last = self.to_come.get(&id).is_none_or(|&to_come| to_come == 0);
        let is_certain = self.transitions[i].is_some_and(|(_, answered)| answered != NEVER);
        is_last && (is_certain || self.is_needed(from, id))
    }

    /// Lets all these take effect with their reads, before the key becomes something else.
    fn with_unnoticed(&self, from: &Configuration) -> Configuration {
        let mut to = from.clone();
        for &i in &self.pending {
            if let Some((Transition::Become(id, None), _)) = self.transitions[i]
                && from.done.binary_search(&i).is_err()
                && self.is_unnoticed(from, i, id)
            {
                to.insert(i);
                to.state = Some(id);
                to = self.with_reads(to);
            }
        }
        to
    }

    /// Lets all reads in flight take effect that were answered what the key is.
    fn with_reads(&self, mut configuration: Configuration) -> Configuration {
        for &i in &self.pending {
            if matches!(self.transitions[i], Some((Transition::See(seen), _)) if seen == configuration.state)
            {
                configuration.insert(i);
            }
        }
        configuration
    }
}

impl Configuration {
    fn insert(&mut self, i: usize) {
        if let Err(at) = self.done.binary_search(&i) {
            self.done.insert(at, i);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn operation(client: u32, invoked: Nanos, completed: Nanos, action: Action) -> Operation {
        Operation {
            client,
            key: 0,
            invoked,
            completed,
            action,
        }
    }

    fn read(times: (Nanos, Nanos), id: u64) -> Operation {
        let found = match id {
            0 => Found::Miss,
            id => Found::Value {
                write: WriteId(id),
                version: None,
            },
        };
        operation(0, times.0, times.1, Action::Read(found))
    }

    fn write(times: (Nanos, Nanos), id: u64, expects: Option<u64>, is_known: bool) -> Operation {
        let effect = if is_known {
            Effect::Done { version: None }
        } else {
            Effect::Unknown
        };
        let expects = expects.map(WriteId);
        let id = WriteId(id);
        let action = Action::Write {
            id,
            expects,
            effect,
        };
        operation(1, times.0, times.1, action)
    }

    fn delete(times: (Nanos, Nanos)) -> Operation {
        let effect = Effect::Done { version: None };
        operation(1, times.0, times.1, Action::Delete(effect))
    }

    #[track_caller]
    fn assert_judged(operations: &[Operation], is_linearizable: bool) {
        let judged = check_linearizable(operations);
        assert_eq!(judged.is_ok(), is_linearizable, "{judged:?}");
        assert_eq!(by_brute_force(operations), is_linearizable);
    }

    #[test]
    fn what_is_concurrent_may_be_in_any_order_and_what_is_not_may_not() {
        let w1 = write((0, 10), 1, None, true);
        let w2 = write((20, 40), 2, None, true);
        let with = |reads: &[Operation]| [&[w1.clone(), w2.clone()], reads].concat();
        // While the second write is under way both values may be seen, the new one first by nobody else.
        assert_judged(&with(&[read((21, 22), 2), read((23, 24), 2)]), true);
        assert_judged(&with(&[read((21, 22), 1), read((23, 24), 2)]), true);
        assert_judged(&with(&[read((21, 22), 2), read((23, 24), 1)]), false);
        assert_judged(&with(&[read((21, 30), 2), read((23, 24), 1)]), true);
        // After it only the new one.
        assert_judged(&with(&[read((41, 42), 1)]), false);
        assert_judged(&with(&[read((40, 42), 1)]), true);
        assert_judged(&with(&[read((41, 42), 2)]), true);
    }

    #[test]
    fn a_value_may_be_lost_and_does_not_come_back() {
        let w1 = write((0, 1), 1, None, true);
        let with = |more: &[Operation]| [core::slice::from_ref(&w1), more].concat();
        assert_judged(&with(&[read((2, 3), 1), read((4, 5), 0)]), true);
        assert_judged(&with(&[read((2, 3), 0), read((4, 5), 1)]), false);
        assert_judged(&with(&[delete((2, 3)), read((4, 5), 1)]), false);
        assert_judged(&with(&[delete((2, 10)), read((4, 5), 1)]), true);
    }

    #[test]
    fn what_was_not_confirmed_may_have_happened_at_any_time_or_not() {
        let w1 = write((0, 1), 1, None, true);
        let lost = write((2, 5), 2, None, false);
        let with = |more: &[Operation]| [&[w1.clone(), lost.clone()], more].concat();
        assert_judged(&with(&[read((9, 10), 1)]), true);
        assert_judged(&with(&[read((9, 10), 1), read((11, 12), 2)]), true);
        assert_judged(&with(&[read((9, 10), 2), read((11, 12), 1)]), false);
        assert_judged(&[read((0, 1), 7)], false);
    }

    #[test]
    fn many_that_were_not_confirmed_are_judged_one_by_one() {
        let lost = (1..=40).map(|id| write((0, 1), id, None, false));
        let reads = (1..=40).map(|id| read((10 * id, 10 * id + 1), id));
        let judged = check_linearizable(&lost.chain(reads).collect::<Vec<_>>());
        assert!(judged.is_ok(), "{judged:?}");
    }

    #[test]
    fn many_that_nobody_saw_are_no_possibilities_each() {
        let unseen = (1..=30).map(|id| write((0, 100), id, None, true));
        let seen = [write((0, 1), 50, None, true), read((2, 3), 50)];
        let all: Vec<_> = unseen.chain(seen).collect();
        let judged = check_linearizable(&all);
        assert!(judged.is_ok(), "{judged:?}");
        let late = [&all[..], &[read((101, 102), 50)]].concat();
        assert!(check_linearizable(&late).is_ok(), "the others came before");
        let after = [
            &late[..],
            &[write((103, 104), 51, None, true), read((105, 106), 50)],
        ]
        .concat();
        assert!(check_linearizable(&after).is_err());
    }

    #[test]
    fn a_swap_needs_what_it_expects() {
        let w1 = write((0, 1), 1, None, true);
        let with = |more: &[Operation]| [core::slice::from_ref(&w1), more].concat();
        assert_judged(
            &with(&[write((2, 3), 2, Some(1), true), read((4, 5), 2)]),
            true,
        );
        let twice = [
            write((2, 9), 2, Some(1), true),
            write((3, 9), 3, Some(1), true),
        ];
        assert_judged(&with(&twice), false);
    }

    /// All orders, tried one after the other.
    fn by_brute_force(operations: &[Operation]) -> bool {
        let everything: BTreeSet<WriteId> = (0..100).map(WriteId).collect();
        let transitions: Vec<(Transition, Nanos, Nanos)> = operations
            .iter()
            .filter_map(|o| {
                transition_of(o, &everything)
                    .map(|(transition, until)| (transition, o.invoked, until))
            })
            .collect();
        go_on(&transitions, &mut vec![false; transitions.len()], None)
    }

    fn go_on(
        transitions: &[(Transition, Nanos, Nanos)],
        done: &mut Vec<bool>,
        state: Option<WriteId>,
    ) -> bool {
        let left = |done: &[bool]| {
            (0..transitions.len())
                .filter(|&i| !done[i])
                .collect::<Vec<_>>()
        };
        let left = left(done);
        if left.iter().all(|&i| transitions[i].2 == NEVER) {
            return true;
        }
        // Something must come next that was called before everything that is left was answered.
        let end = left
            .iter()
            .map(|&i| transitions[i].2)
            .min()
            .unwrap_or(NEVER);
        for &i in left.iter().filter(|&&i| transitions[i].1 <= end) {
            for state in BTreeSet::from([state, None]) {
                let next = match transitions[i].0 {
                    Transition::See(seen) if seen == state => state,
                    Transition::Become(id, expects) if expects.is_none() || expects == state => {
                        Some(id)
                    }
                    _ => continue,
                };
                done[i] = true;
                if go_on(transitions, done, next) {
                    return true;
                }
                done[i] = false;
            }
        }
        false
    }

    /// Histories of a few operations, of which about half are linearizable.
    #[test]
    fn it_judges_as_trying_all_orders_does() {
        let seed = std::env::var("EVENKEEL_SEED").map_or(1, |seed| seed.parse().unwrap());
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut sound = 0;
        const HISTORIES: usize = 20_000;
        for _ in 0..HISTORIES {
            let count = 2 + random.index(5);
            let operations: Vec<Operation> = (0..count as u64)
                .map(|i| {
                    let from = random.below(20);
                    let times = (from, from + random.below(12));
                    let some = 1 + random.below(count as u64);
                    match random.below(8) {
                        0..3 => read(times, random.below(count as u64 + 1)),
                        3 => delete(times),
                        4 => write(times, i + 1, Some(some), random.chance(2, 3)),
                        _ => write(times, i + 1, None, random.chance(3, 4)),
                    }
                })
                .collect();
            let expected = by_brute_force(&operations);
            let judged = check_linearizable(&operations);
            assert_eq!(judged.is_ok(), expected, "{judged:?} of {operations:#?}");
            sound += usize::from(expected);
        }
        let share = sound as f64 / HISTORIES as f64;
        println!("{share:.2} of them are linearizable");
        assert!((0.2..0.8).contains(&share));
    }
}
