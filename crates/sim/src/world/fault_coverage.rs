//! What migrating cachelets were in the middle of when something went wrong with them, counted: why they moved, how far they
//! had come, and what happened then. A run proves little of a step that nothing ever struck.

use core::fmt;
use evenkeel_server_core::MigrationStep;
use evenkeel_types::CacheletId;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Makes an enumeration whose members have names.
macro_rules! named {
    ($(#[$meta:meta])* $set:ident { $($(#[$doc:meta])* $item:ident = $words:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $set {
            $($(#[$doc])* $item,)*
        }

        impl $set {
            /// All of them, in order.
            pub const ALL: &'static [$set] = &[$($set::$item),*];

            /// How reports call it; stable.
            pub fn name(self) -> &'static str {
                match self {
                    $($set::$item => $words,)*
                }
            }
        }
    };
}

named! {
    /// Why a cachelet moves.
    Occasion {
        /// Somebody wants it at another server.
        Wish = "wish",
        /// Shares are made even, because a server came, or came back.
        Join = "join",
        /// Its server is emptied.
        Drain = "drain",
        /// The coordinator evens out load.
        Plan = "plan",
    }
}

named! {
    /// What goes wrong.
    StepFault {
        /// Its process dies.
        KillSource = "source killed",
        /// Its process dies.
        KillTarget = "target killed",
        /// Its process stands still, and goes on.
        StopSource = "source stopped",
        /// Its process stands still, and goes on.
        StopTarget = "target stopped",
        /// The connection over which a cachelet is copied breaks.
        CutLink = "link cut",
        /// Source and target do not reach each other for a while.
        Partition = "partition",
        /// The source and the coordinator do not reach each other for a while.
        CutFromCoordinator = "source cut off",
        /// The source loses packets for a while: heartbeats and their answers, and time of connections.
        Loss = "source losing",
        /// What source and coordinator say to each other comes twice and in any order.
        Duplicates = "duplicates",
        /// The coordinator dies, and another goes on from what it had saved.
        RestartCoordinator = "coordinator killed",
        /// It is to be given up.
        Cancel = "cancelled",
    }
}

/// The steps at which a migration can be struck.
pub(super) const MIGRATION_STEPS: [MigrationStep; 7] = [
    MigrationStep::Beginning,
    MigrationStep::Copying,
    MigrationStep::Passing,
    MigrationStep::Moved,
    MigrationStep::Partly,
    MigrationStep::Active,
    MigrationStep::Live,
];

/// How reports call a step; stable.
fn name_of(step: MigrationStep) -> &'static str {
    match step {
        MigrationStep::Waiting => "waiting",
        MigrationStep::Beginning => "beginning",
        MigrationStep::Copying => "copying",
        MigrationStep::Passing => "passing",
        MigrationStep::Moved => "moved",
        MigrationStep::Aborted => "aborted",
        MigrationStep::Partly => "partly",
        MigrationStep::Active => "active",
        MigrationStep::Live => "live",
    }
}

/// One fault at one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultCase {
    /// Why the cachelet moved.
    pub occasion: Occasion,
    /// What happened.
    pub fault: StepFault,
    /// How far it had come.
    pub step: MigrationStep,
}

impl FaultCase {
    /// Whatever can happen.
    pub fn all() -> impl Iterator<Item = FaultCase> {
        Occasion::ALL.iter().flat_map(|&occasion| {
            let of_fault = move |&fault: &StepFault| {
                MIGRATION_STEPS.iter().map(move |&step| FaultCase {
                    occasion,
                    fault,
                    step,
                })
            };
            StepFault::ALL.iter().flat_map(of_fault)
        })
    }
}

impl fmt::Display for FaultCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FaultCase {
            occasion,
            fault,
            step,
        } = self;
        let step = name_of(*step);
        write!(f, "{}: {}, {step}", occasion.name(), fault.name())
    }
}

/// A fault that waits for a cachelet to come to a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trap {
    /// What migrates.
    pub cachelet: CacheletId,
    pub case: FaultCase,
    pub source: usize,
    pub target: usize,
}

/// How often each fault was injected at each step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultCoverage(BTreeMap<FaultCase, u64>);

impl FaultCoverage {
    /// How often that happened.
    pub fn count(&self, case: FaultCase) -> u64 {
        self.0.get(&case).copied().unwrap_or(0)
    }

    /// What can happen and did not.
    pub fn never(&self) -> impl Iterator<Item = FaultCase> + '_ {
        FaultCase::all().filter(|case| self.count(*case) == 0)
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &FaultCoverage) {
        for (case, times) in &other.0 {
            *self.0.entry(*case).or_default() += times;
        }
    }

    pub(super) fn tell(&mut self, case: FaultCase) {
        *self.0.entry(case).or_default() += 1;
    }

    /// Occasions on which anything was struck.
    fn occasions(&self) -> Vec<Occasion> {
        let has_any = |occasion: &&Occasion| self.0.keys().any(|s| s.occasion == **occasion);
        Occasion::ALL.iter().filter(has_any).copied().collect()
    }
}

/// A table for each occasion: what happened, and at which step.
impl fmt::Display for FaultCoverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for occasion in self.occasions() {
            write!(f, "{:<20}", occasion.name())?;
            for step in MIGRATION_STEPS {
                write!(f, "{:>11}", name_of(step))?;
            }
            writeln!(f)?;
            for &fault in StepFault::ALL {
                write!(f, "  {:<18}", fault.name())?;
                for step in MIGRATION_STEPS {
                    let case = FaultCase {
                        occasion,
                        fault,
                        step,
                    };
                    write!(f, "{:>11}", self.count(case))?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

/// By occasion, fault and step.
impl Serialize for FaultCoverage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tables: BTreeMap<_, BTreeMap<_, BTreeMap<_, u64>>> = BTreeMap::new();
        for (case, times) in &self.0 {
            let table = tables.entry(case.occasion.name()).or_default();
            let row = table.entry(case.fault.name()).or_default();
            row.insert(name_of(case.step), *times);
        }
        let mut all = serializer.serialize_map(Some(tables.len()))?;
        for (occasion, table) in &tables {
            all.serialize_entry(occasion, table)?;
        }
        all.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_happened_is_found_and_tables_show_what_did() {
        let mut fault_coverage = FaultCoverage::default();
        assert!(fault_coverage.never().eq(FaultCase::all()));
        let case = FaultCase {
            occasion: Occasion::Drain,
            fault: StepFault::KillSource,
            step: MigrationStep::Live,
        };
        fault_coverage.tell(case);
        fault_coverage.tell(case);
        let mut both = fault_coverage.clone();
        both.add(&fault_coverage);
        assert_eq!(both.count(case), 4);
        assert!(both.never().all(|never| never != case));
        assert_eq!(both.never().count(), FaultCase::all().count() - 1);
        let table = both.to_string();
        println!("{table}");
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 1 + StepFault::ALL.len());
        assert!(lines[0].starts_with("drain") && lines[0].ends_with("live"));
        assert!(lines[1].trim_start().starts_with("source killed") && lines[1].ends_with(" 4"));
        assert_eq!(
            serde_json::to_value(&both).unwrap(),
            serde_json::json!({"drain": {"source killed": {"live": 4}}})
        );
    }
}
