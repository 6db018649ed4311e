//! What is known of one key's past: when each of its states began, as exactly as can be told.

use super::violation::Millis;
use super::{Action, Applied, Effect, Found, Kind, NEVER, Nanos, Operation, Violation, WriteId};
use core::fmt;
use std::collections::BTreeMap;

/// When a state of a key began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The value; `None` when the key was removed.
    pub write: Option<WriteId>,
    /// The home's version of it, where versions can be compared and it is known.
    pub version: Option<u64>,
    /// It did not begin before.
    pub earliest: Nanos,
    /// It had begun by then; [`NEVER`] when it may not have begun at all.
    pub latest: Nanos,
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.write {
            Some(id) => write!(f, "{id:?}")?,
            None => f.write_str("a removal")?,
        }
        if let Some(version) = self.version {
            write!(f, " of version {version}")?;
        }
        write!(
            f,
            " (begun {} to {})",
            Millis(self.earliest),
            Millis(self.latest)
        )
    }
}

/// The states of one key.
pub(super) struct KeyHistory {
    writes: BTreeMap<WriteId, Stamp>,
    /// All states that are known to have begun, by the time at which they had.
    begun: Vec<Stamp>,
    /// Position in `begun` of the highest version up to and including each position.
    highest_version: Vec<usize>,
    /// The same for `earliest`.
    highest_earliest: Vec<usize>,
    /// What homes executed, in order, when that is known.
    log: Option<Vec<Applied>>,
    /// When its value may have expired: from, to.
    lapses: Vec<(Nanos, Nanos)>,
}

impl KeyHistory {
    /// Gathers what is known, and tells what contradicts itself.
    pub fn new(
        key: u16,
        operations: &[&Operation],
        (log, lapses): (Option<Vec<Applied>>, Vec<(Nanos, Nanos)>),
        violations: &mut Vec<Violation>,
    ) -> Self {
        let mut gathering = Gathering {
            key,
            writes: BTreeMap::new(),
            violations,
        };
        gathering.take_writes(operations, log.is_some());
        match &log {
            Some(log) => gathering.take_log(operations, log),
            None => gathering.take_versions(operations),
        }
        gathering.check_reads(operations);
        let writes = gathering.writes;

        let mut begun: Vec<Stamp> = writes
            .values()
            .copied()
            .filter(|stamp| stamp.latest < NEVER)
            .collect();
        begun.extend(operations.iter().filter_map(|operation| removal(operation)));
        for gone in log
            .iter()
            .flatten()
            .filter(|applied| applied.state.is_none())
        {
            let (write, version) = (None, None);
            begun.push(Stamp {
                write,
                version,
                earliest: gone.at,
                latest: gone.at,
            });
        }
        begun.sort_by_key(|stamp| stamp.latest);
        let highest_version = highest(&begun, |stamp| stamp.version);
        let highest_earliest = highest(&begun, |stamp| Some(stamp.earliest));
        let history = KeyHistory {
            writes,
            begun,
            highest_version,
            highest_earliest,
            log,
            lapses,
        };
        if history.log.is_none() {
            history.check_versions(key, violations);
        }
        history
    }

    /// When a value began; `None` if nobody wrote it.
    pub fn stamp(&self, id: WriteId) -> Option<Stamp> {
        self.writes.get(&id).copied()
    }

    /// The same for a value that was read with a version.
    pub fn found(&self, id: WriteId, version: Option<u64>) -> Option<Stamp> {
        let stamp = self.stamp(id)?;
        // Homes count versions independently of each other; with a log nobody needs them.
        let version = version.filter(|_| self.log.is_none());
        Some(Stamp {
            version: version.or(stamp.version),
            ..stamp
        })
    }

    /// A state that is certainly newer than `found` and had certainly begun before `limit`.
    pub fn replaced_before(&self, limit: Nanos, found: &Stamp) -> Option<Stamp> {
        let last = self
            .begun
            .partition_point(|stamp| stamp.latest < limit)
            .checked_sub(1)?;
        let by_time = self.begun[self.highest_earliest[last]];
        if by_time.earliest > found.latest {
            return Some(by_time);
        }
        let by_version = self.begun[self.highest_version[last]];
        (found.version.is_some() && by_version.version > found.version).then_some(by_version)
    }

    /// When a state that is certainly newer than `found` had certainly begun for the first time, if that
    /// was before `limit`. O(log n).
    pub fn replaced_at(&self, limit: Nanos, found: &Stamp) -> Option<Nanos> {
        let before = self.begun.partition_point(|stamp| stamp.latest < limit);
        // What is highest so far only rises, so that the first one that is high enough can be searched for.
        let is_older = |&i: &usize| self.begun[i].earliest <= found.latest;
        let by_time = self.highest_earliest[..before].partition_point(is_older);
        let is_lower =
            |&i: &usize| found.version.is_none() || self.begun[i].version <= found.version;
        let by_version = self.highest_version[..before].partition_point(is_lower);
        let first = by_time.min(by_version);
        (first < before).then(|| self.begun[first].latest)
    }

    /// What the key was just before a value was written; the outer `None` when that is not known.
    pub fn before(&self, id: WriteId) -> Option<Option<WriteId>> {
        let log = self.log.as_ref()?;
        let position = log.iter().position(|applied| applied.state == Some(id))?;
        Some(position.checked_sub(1).and_then(|before| log[before].state))
    }

    /// The first state within a time in which there was nothing; a key begins as nothing. `None`
    /// when there was always something, or when it is not known.
    pub fn first_absence(&self, from: Nanos, to: Nanos) -> Option<Stamp> {
        let log = self.log.as_ref()?;
        if self
            .lapses
            .iter()
            .any(|lapse| lapse.0 <= to && from <= lapse.1)
        {
            return None;
        }
        let next = log.partition_point(|applied| applied.at <= from);
        let at_first = next.checked_sub(1).map(|i| log[i]);
        if at_first.is_none_or(|applied| applied.state.is_none()) {
            let mut at = 0;
            // Several removals in a row are one absence: it began with the first.
            for applied in log[..next].iter().rev() {
                match applied.state {
                    None => at = applied.at,
                    Some(_) => break,
                }
            }
            return Some(Stamp {
                write: None,
                version: None,
                earliest: at,
                latest: at,
            });
        }
        let gone = log[next..].iter().find(|applied| applied.state.is_none())?;
        let at = gone.at;
        (at <= to).then_some(Stamp {
            write: None,
            version: None,
            earliest: at,
            latest: at,
        })
    }

    /// Versions grow with time.
    fn check_versions(&self, key: u16, violations: &mut Vec<Violation>) {
        for stamp in self.writes.values() {
            let Some(version) = stamp.version else {
                continue;
            };
            let before = self
                .begun
                .partition_point(|other| other.latest < stamp.earliest);
            let Some(last) = before.checked_sub(1) else {
                continue;
            };
            let highest = self.begun[self.highest_version[last]];
            if highest.version > Some(version) {
                violations.push(Violation {
                    kind: Kind::VersionWentBack,
                    key,
                    operation: None,
                    because: format!("{highest} came before {stamp}"),
                });
            }
        }
    }
}

/// A confirmed removal.
fn removal(operation: &Operation) -> Option<Stamp> {
    let Action::Delete(Effect::Done { version }) = operation.action else {
        return None;
    };
    let (earliest, latest) = (operation.invoked, operation.completed);
    Some(Stamp {
        write: None,
        version,
        earliest,
        latest,
    })
}

/// For each position, that of the greatest value so far.
fn highest<T: Ord>(begun: &[Stamp], value: impl Fn(&Stamp) -> T) -> Vec<usize> {
    let mut best = 0;
    (0..begun.len())
        .map(|i| {
            if value(&begun[i]) > value(&begun[best]) {
                best = i;
            }
            best
        })
        .collect()
}

struct Gathering<'a> {
    key: u16,
    writes: BTreeMap<WriteId, Stamp>,
    violations: &'a mut Vec<Violation>,
}

impl Gathering<'_> {
    fn accuse(&mut self, kind: Kind, operation: &Operation, because: String) {
        let operation = Some(operation.clone());
        self.violations.push(Violation {
            kind,
            key: self.key,
            operation,
            because,
        });
    }

    /// Every write that can have happened.
    fn take_writes(&mut self, operations: &[&Operation], has_log: bool) {
        for operation in operations {
            let Action::Write { id, effect, .. } = operation.action else {
                continue;
            };
            let (version, latest) = match effect {
                Effect::Done { version } => (version, operation.completed),
                Effect::Unknown => (None, NEVER),
                Effect::None => continue,
            };
            let version = version.filter(|_| !has_log);
            let stamp = Stamp {
                write: Some(id),
                version,
                earliest: operation.invoked,
                latest,
            };
            self.writes.insert(id, stamp);
        }
    }

    /// Makes the stamps exact, and finds writes that were not executed as their clients know.
    fn take_log(&mut self, operations: &[&Operation], log: &[Applied]) {
        let mut when: BTreeMap<WriteId, Nanos> = BTreeMap::new();
        for applied in log {
            let Some(id) = applied.state else { continue };
            if let Some(first) = when.insert(id, applied.at) {
                self.violations.push(Violation {
                    kind: Kind::AppliedTwice,
                    key: self.key,
                    operation: None,
                    because: format!("{id:?} at {} and {}", Millis(first), Millis(applied.at)),
                });
            }
        }
        for operation in operations {
            let Action::Write { id, effect, .. } = operation.action else {
                continue;
            };
            let applied = when.get(&id).copied();
            let is_done = matches!(effect, Effect::Done { .. });
            let in_time =
                applied.is_some_and(|at| (operation.invoked..=operation.completed).contains(&at));
            if is_done && !in_time {
                let because = match applied {
                    None => "it was never executed".to_owned(),
                    Some(at) => format!("it was executed at {}", Millis(at)),
                };
                self.accuse(Kind::NotApplied, operation, because);
            } else if effect == Effect::None && applied.is_some() {
                self.accuse(
                    Kind::NotApplied,
                    operation,
                    "it was executed all the same".into(),
                );
            }
            match (self.writes.get_mut(&id), applied) {
                (Some(stamp), Some(at)) => (stamp.earliest, stamp.latest) = (at, at),
                (Some(_), None) if !is_done => {
                    self.writes.remove(&id);
                }
                _ => {}
            }
        }
    }

    /// Learns from reads: what was read had begun by then, and its version.
    fn take_versions(&mut self, operations: &[&Operation]) {
        let mut values: BTreeMap<u64, WriteId> = BTreeMap::new();
        for stamp in self.writes.values() {
            if let (Some(version), Some(id)) = (stamp.version, stamp.write) {
                values.insert(version, id);
            }
        }
        for operation in operations {
            let Action::Read(Found::Value { write, version }) = operation.action else {
                continue;
            };
            let Some(stamp) = self.writes.get_mut(&write) else {
                continue;
            };
            stamp.latest = stamp.latest.min(operation.completed);
            let Some(version) = version else { continue };
            let known = *stamp.version.get_or_insert(version);
            let other = *values.entry(version).or_insert(write);
            if known != version {
                self.accuse(
                    Kind::VersionReused,
                    operation,
                    format!("it had version {known}"),
                );
            } else if other != write {
                self.accuse(
                    Kind::VersionReused,
                    operation,
                    format!("{other:?} has it, too"),
                );
            }
        }
    }

    /// Whatever is read was written before.
    fn check_reads(&mut self, operations: &[&Operation]) {
        for operation in operations {
            let Action::Read(Found::Value { write, .. }) = operation.action else {
                continue;
            };
            match self.writes.get(&write) {
                None => self.accuse(Kind::Invented, operation, "nobody wrote it".into()),
                Some(stamp) if stamp.earliest > operation.completed => {
                    let because = format!("{stamp} came later");
                    self.accuse(Kind::Invented, operation, because);
                }
                Some(_) => {}
            }
        }
    }
}
