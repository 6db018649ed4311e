//! Whether a read shows something older than a write that was acknowledged before it was sent.
//!
//! That is less than [linearizable](super::check_linearizable): of a write that is under way, or of which nobody knows, one read may see the value, and
//! a later one still the former one. It is what a pool promises that has copies of its items: a write deletes them before it is answered.
//!
//! A write takes effect once: by its answer, or by that of the first read that saw it. What was sent after that and acknowledged, a write or a
//! removal, has replaced it. The commands of one client are executed in their order, so that for its own reads what it has sent before counts as
//! acknowledged.

use super::{Action, Effect, Found, Kind, NEVER, Nanos, Operation, Violation, WriteId};
use std::collections::BTreeMap;

/// Judges the operations on each key; gives how many reads were shown a value. O(n log n) for n operations.
///
/// # Errors
/// Each read of something older, and of what nobody wrote.
pub fn check_acknowledged(operations: &[Operation]) -> Result<u64, Vec<Violation>> {
    let mut keys: BTreeMap<u16, Vec<&Operation>> = BTreeMap::new();
    for operation in operations {
        keys.entry(operation.key).or_default().push(operation);
    }
    let mut values = 0;
    let mut violations = Vec::new();
    for operations in keys.values() {
        values += check_key(operations, &mut violations);
    }
    match violations.is_empty() {
        true => Ok(values),
        false => Err(violations),
    }
}

fn check_key(operations: &[&Operation], violations: &mut Vec<Violation>) -> u64 {
    let effective = effective(operations);
    let acknowledged = acknowledged(operations);
    let mut own: BTreeMap<u32, Nanos> = BTreeMap::new();
    let mut values = 0;
    for operation in operations {
        if is_done(operation) {
            own.insert(operation.client, operation.invoked);
        }
        let Action::Read(Found::Value { write, .. }) = operation.action else {
            continue;
        };
        values += 1;
        let before = acknowledged.partition_point(|(at, _)| *at < operation.invoked);
        let by_others = before.checked_sub(1).map_or(0, |last| acknowledged[last].1);
        let by_itself = own.get(&operation.client).copied().unwrap_or(0);
        let newest = by_others.max(by_itself);
        let (kind, because) = match effective.get(&write) {
            None => (Kind::Invented, "nobody wrote it".to_owned()),
            Some(by) if *by < newest => {
                let because = format!(
                    "it was there by {by} ns, and what was sent at {newest} ns was acknowledged"
                );
                (Kind::Stale, because)
            }
            Some(_) => continue,
        };
        violations.push(Violation {
            kind,
            key: operation.key,
            operation: Some((*operation).clone()),
            because,
        });
    }
    values
}

/// By when each write that can have taken effect had done so; [`NEVER`] where that is not known.
fn effective(operations: &[&Operation]) -> BTreeMap<WriteId, Nanos> {
    let writes = operations.iter().filter_map(|operation| {
        let Action::Write { id, effect, .. } = operation.action else {
            return None;
        };
        match effect {
            Effect::Done { .. } => Some((id, operation.completed)),
            Effect::Unknown => Some((id, NEVER)),
            Effect::None => None,
        }
    });
    let mut effective: BTreeMap<WriteId, Nanos> = writes.collect();
    for operation in operations {
        if let Action::Read(Found::Value { write, .. }) = operation.action
            && let Some(by) = effective.get_mut(&write)
        {
            *by = operation.completed.min(*by);
        }
    }
    effective
}

/// When writes and removals were acknowledged, ascending, each with the time at which the last one was sent of those that were by then.
fn acknowledged(operations: &[&Operation]) -> Vec<(Nanos, Nanos)> {
    let done = operations.iter().filter(|operation| is_done(operation));
    let mut done: Vec<_> = done.map(|done| (done.completed, done.invoked)).collect();
    done.sort_unstable();
    let mut last = 0;
    for (_, sent) in &mut done {
        last = last.max(*sent);
        *sent = last;
    }
    done
}

fn is_done(operation: &Operation) -> bool {
    let (Action::Write { effect, .. } | Action::Delete(effect)) = &operation.action else {
        return false;
    };
    matches!(effect, Effect::Done { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn operation(client: u32, (invoked, completed): (Nanos, Nanos), action: Action) -> Operation {
        Operation {
            client,
            key: 0,
            invoked,
            completed,
            action,
        }
    }

    fn read(client: u32, times: (Nanos, Nanos), id: u64) -> Operation {
        let (write, version) = (WriteId(id), None);
        let action = Action::Read(Found::Value { write, version });
        operation(client, times, action)
    }

    fn write(client: u32, times: (Nanos, Nanos), id: u64, is_known: bool) -> Operation {
        let effect = match is_known {
            true => Effect::Done { version: None },
            false => Effect::Unknown,
        };
        let action = Action::Write {
            id: WriteId(id),
            expects: None,
            effect,
        };
        operation(client, times, action)
    }

    fn delete(client: u32, times: (Nanos, Nanos)) -> Operation {
        let effect = Effect::Done { version: None };
        operation(client, times, Action::Delete(effect))
    }

    fn is_right(operations: &[Operation]) -> bool {
        check_acknowledged(operations).is_ok()
    }

    #[test]
    fn a_copy_may_be_behind_a_write_until_that_is_acknowledged() {
        let writes = [write(1, (0, 10), 1, true), write(1, (20, 40), 2, true)];
        let with = |reads: &[Operation]| [&writes[..], reads].concat();
        assert!(is_right(&with(&[
            read(2, (21, 22), 2),
            read(3, (23, 50), 1)
        ])));
        assert!(is_right(&with(&[read(2, (40, 41), 1)])), "at that moment");
        assert!(!is_right(&with(&[read(2, (41, 42), 1)])));
        let is_own_order = !is_right(&with(&[read(1, (21, 42), 1)]));
        assert!(is_own_order, "the writer's connection is answered in order");
        assert!(!is_right(&[
            writes[0].clone(),
            delete(2, (11, 12)),
            read(3, (13, 14), 1)
        ]));
    }

    #[test]
    fn a_write_of_unknown_outcome_takes_effect_once_at_any_time() {
        let lost = write(1, (0, 5), 1, false);
        let newer = write(2, (20, 30), 2, true);
        let with = |reads: &[Operation]| [&[lost.clone(), newer.clone()], reads].concat();
        assert!(is_right(&with(&[read(3, (40, 41), 1)])));
        let early = read(3, (10, 11), 1);
        assert!(!is_right(&with(&[early, read(3, (40, 41), 1)])));
        let unseen = write(1, (32, 35), 3, false);
        let both = [newer.clone(), unseen];
        let reads = [read(3, (40, 41), 3), read(3, (42, 43), 2)];
        assert!(
            is_right(&[&both[..], &reads].concat()),
            "never acknowledged"
        );
    }

    #[test]
    fn what_nobody_wrote_and_what_was_refused_is_found() {
        assert!(!is_right(&[read(1, (0, 1), 7)]));
        let mut refused = write(1, (0, 1), 7, true);
        if let Action::Write { effect, .. } = &mut refused.action {
            *effect = Effect::None;
        }
        assert!(!is_right(&[refused, read(1, (2, 3), 7)]));
    }

    /// The promise as it is said, for each read and each pair of a write and what has replaced it.
    fn by_its_words(operations: &[Operation]) -> bool {
        let saw = |read: &Operation, id: WriteId| matches!(read.action, Action::Read(Found::Value { write, .. }) if write == id);
        let replaces = |(nth, newer): (usize, &Operation), (at, read): (usize, &Operation)| {
            is_done(newer)
                && (newer.completed < read.invoked || newer.client == read.client && nth < at)
        };
        let is_old = |at: usize, read: &Operation| {
            operations.iter().any(|written| {
                let Action::Write { id, .. } = written.action else {
                    return false;
                };
                let shows = operations.iter().filter(|other| saw(other, id));
                let done = core::iter::once(written).filter(|written| is_done(written));
                let by = shows.chain(done).map(|it| it.completed).min();
                let mut newer = operations.iter().enumerate();
                let has_gone = |(nth, it): (usize, &Operation)| {
                    by.is_some_and(|by| it.invoked > by) && replaces((nth, it), (at, read))
                };
                saw(read, id) && newer.any(has_gone)
            })
        };
        let mut all = operations.iter().enumerate();
        !all.any(|(at, operation)| is_old(at, operation))
    }

    #[test]
    fn it_judges_as_the_promise_is_said() {
        let seed = std::env::var("EVENKEEL_SEED").map_or(1, |seed| seed.parse().unwrap());
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut right = 0;
        const HISTORIES: usize = 20_000;
        for _ in 0..HISTORIES {
            let mut from = 0;
            let count = 5 + random.below(6);
            let operations: Vec<Operation> = (1..=count)
                .map(|id| {
                    from += random.below(8);
                    let (client, times) = (random.below(3) as u32, (from, from + random.below(12)));
                    match random.below(8) {
                        _ if id == 1 => write(client, times, id, true),
                        0..4 => read(client, times, 1 + random.below(id - 1)),
                        4 => delete(client, times),
                        _ => write(client, times, id, random.chance(2, 3)),
                    }
                })
                .collect();
            let is_write = |id: WriteId| {
                let writes = |it: &Operation| matches!(it.action, Action::Write { id: its, .. } if its == id);
                operations.iter().any(writes)
            };
            let known = operations
                .iter()
                .filter(|operation| match operation.action {
                    Action::Read(Found::Value { write, .. }) => is_write(write),
                    _ => true,
                });
            let known: Vec<Operation> = known.cloned().collect();
            let expected = by_its_words(&known);
            assert_eq!(is_right(&known), expected, "{known:#?}");
            right += usize::from(expected);
        }
        let share = right as f64 / HISTORIES as f64;
        println!("{share:.2} of them keep it");
        assert!((0.2..0.9).contains(&share));
    }
}
