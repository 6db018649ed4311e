//! The checks, key by key.

use super::key::{KeyHistory, Stamp};
use super::violation::Millis;
use super::{Action, Effect, Found, History, Kind, NEVER, Operation, Promises, Violation, WriteId};
use core::time::Duration;
use evenkeel_hotkeys::ages::Ages;
use std::collections::BTreeMap;

/// How much was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Reads that were answered with a value.
    pub values: u64,
    /// Reads that were answered with a miss.
    pub misses: u64,
    /// Confirmed writes and deletes.
    pub writes: u64,
    /// Operations of unknown outcome.
    pub unknown: u64,
    /// Of each value that had been replaced for certain before its read was sent: how long before, at
    /// least. Without a log of the homes it may have been longer, by the time that the write took.
    pub staleness: Ages,
}

/// Judges a history. O(n log n) for n operations.
///
/// # Errors
///
/// Every violation, in the order of keys and then of what is checked.
pub fn check(history: &History, promises: &Promises) -> Result<Checked, Vec<Violation>> {
    let mut by_key: BTreeMap<u16, Vec<&Operation>> = BTreeMap::new();
    for operation in &history.operations {
        by_key.entry(operation.key).or_default().push(operation);
    }
    let mut checked = Checked::default();
    let mut violations = Vec::new();
    for (key, operations) in by_key {
        let applied = history
            .log
            .as_ref()
            .map(|log| log.iter().filter(|a| a.key == key).copied().collect());
        let lapses = history.lapses.iter().filter(|lapse| lapse.key == key);
        let lapses = lapses.map(|lapse| (lapse.from, lapse.to)).collect();
        let history = KeyHistory::new(key, &operations, (applied, lapses), &mut violations);
        check_swaps(key, &operations, &history, &mut violations);
        check_freshness(
            &operations,
            &history,
            promises,
            &mut checked,
            &mut violations,
        );
        check_sessions(&operations, &history, promises, &mut violations);
    }
    for operation in &history.operations {
        match &operation.action {
            Action::Read(Found::Value { .. }) => checked.values += 1,
            Action::Read(Found::Miss) => checked.misses += 1,
            Action::Write {
                effect: Effect::Done { .. },
                ..
            }
            | Action::Delete(Effect::Done { .. }) => checked.writes += 1,
            Action::Write {
                effect: Effect::None,
                ..
            }
            | Action::Delete(Effect::None) => {}
            _ => checked.unknown += 1,
        }
    }
    if violations.is_empty() {
        Ok(checked)
    } else {
        Err(violations)
    }
}

/// A `cas` replaces the value it is for, and so at most one of several for the same value succeeds.
fn check_swaps(
    key: u16,
    operations: &[&Operation],
    history: &KeyHistory,
    violations: &mut Vec<Violation>,
) {
    let mut replaced: BTreeMap<WriteId, WriteId> = BTreeMap::new();
    for operation in operations {
        let Action::Write {
            id,
            expects: Some(expected),
            effect: Effect::Done { .. },
        } = operation.action
        else {
            continue;
        };
        let because = match (replaced.insert(expected, id), history.before(id)) {
            (Some(other), _) => format!("{other:?} had replaced {expected:?} already"),
            (None, Some(before)) if before != Some(expected) => {
                format!("it replaced {before:?} instead")
            }
            _ => continue,
        };
        violations.push(Violation {
            kind: Kind::CasBroken,
            key,
            operation: Some((*operation).clone()),
            because,
        });
    }
}

/// No read finds what had been replaced or removed for longer than the bound.
fn check_freshness(
    operations: &[&Operation],
    history: &KeyHistory,
    promises: &Promises,
    checked: &mut Checked,
    violations: &mut Vec<Violation>,
) {
    for operation in operations {
        let Action::Read(Found::Value { write, version }) = operation.action else {
            continue;
        };
        let Some(found) = history.found(write, version) else {
            continue;
        };
        if let Some(at) = history.replaced_at(operation.invoked, &found) {
            let age = Duration::from_nanos(operation.invoked - at);
            checked.staleness.record(age);
        }
        let limit = operation.invoked.saturating_sub(promises.staleness);
        if let Some(newer) = history.replaced_before(limit, &found) {
            let kind = if newer.write.is_some() {
                Kind::Stale
            } else {
                Kind::Resurrected
            };
            let late = operation.invoked - newer.latest;
            violations.push(Violation {
                kind,
                key: operation.key,
                operation: Some((*operation).clone()),
                because: format!("{newer} was there {} before it was sent", Millis(late)),
            });
        }
    }
}

/// What a connection knows of a key: nothing older may be shown to it any more.
#[derive(Clone, Copy, Debug, Default)]
struct Floor {
    version: Option<u64>,
    /// Not before this time began what is known.
    earliest: u64,
}

impl Floor {
    fn raise(&mut self, stamp: &Stamp) {
        self.version = self.version.max(stamp.version);
        self.earliest = self.earliest.max(stamp.earliest);
    }

    fn is_above(&self, stamp: &Stamp) -> bool {
        let by_version = matches!((self.version, stamp.version), (Some(a), Some(b)) if b < a);
        by_version || stamp.latest < self.earliest
    }
}

#[derive(Debug, Default)]
struct Session {
    own: Floor,
    seen: Floor,
}

/// Each connection reads its own writes and never goes back, in the order of its answers.
fn check_sessions(
    operations: &[&Operation],
    history: &KeyHistory,
    promises: &Promises,
    violations: &mut Vec<Violation>,
) {
    let mut sessions: BTreeMap<u32, Session> = BTreeMap::new();
    for operation in operations {
        let session = sessions.entry(operation.client).or_default();
        match operation.action {
            Action::Read(Found::Value { write, version }) => {
                let Some(found) = history.found(write, version) else {
                    continue;
                };
                for (kind, floor) in [
                    (Kind::ReadYourWrites, session.own),
                    (Kind::MonotonicReads, session.seen),
                ] {
                    if floor.is_above(&found) {
                        violations.push(Violation {
                            kind,
                            key: operation.key,
                            operation: Some((*operation).clone()),
                            because: format!(
                                "{found} is older than version {:?} from {} on",
                                floor.version,
                                Millis(floor.earliest)
                            ),
                        });
                        break;
                    }
                }
                session.seen.raise(&found);
            }
            Action::Read(Found::Miss) if promises.misses_are_true => {
                if let Some(gone) = history.first_absence(operation.invoked, operation.completed) {
                    session.seen.raise(&gone);
                }
            }
            Action::Write {
                id,
                effect: Effect::Done { .. },
                ..
            } => {
                if let Some(own) = history.stamp(id) {
                    session.own.raise(&own);
                }
            }
            Action::Delete(Effect::Done { version }) => {
                let (earliest, latest) = (operation.invoked, operation.completed);
                debug_assert!(latest < NEVER, "what is done is answered");
                session.own.raise(&Stamp {
                    write: None,
                    version,
                    earliest,
                    latest,
                });
            }
            _ => {}
        }
    }
}
