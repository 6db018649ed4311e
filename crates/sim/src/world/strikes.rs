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
    Blow {
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

/// One blow at one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Strike {
    /// Why the cachelet moved.
    pub occasion: Occasion,
    /// What happened.
    pub blow: Blow,
    /// How far it had come.
    pub step: MigrationStep,
}

impl Strike {
    /// Whatever can happen.
    pub fn all() -> impl Iterator<Item = Strike> {
        Occasion::ALL.iter().flat_map(|&occasion| {
            let of_blow = move |&blow: &Blow| {
                MIGRATION_STEPS.iter().map(move |&step| Strike {
                    occasion,
                    blow,
                    step,
                })
            };
            Blow::ALL.iter().flat_map(of_blow)
        })
    }
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Strike {
            occasion,
            blow,
            step,
        } = self;
        let step = name_of(*step);
        write!(f, "{}: {}, {step}", occasion.name(), blow.name())
    }
}

/// A blow that waits for a cachelet to come to a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trap {
    /// What migrates.
    pub cachelet: CacheletId,
    pub strike: Strike,
    pub source: usize,
    pub target: usize,
}

/// How often each blow struck at each step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strikes(BTreeMap<Strike, u64>);

impl Strikes {
    /// How often that happened.
    pub fn count(&self, strike: Strike) -> u64 {
        self.0.get(&strike).copied().unwrap_or(0)
    }

    /// What can happen and did not.
    pub fn never(&self) -> impl Iterator<Item = Strike> + '_ {
        Strike::all().filter(|strike| self.count(*strike) == 0)
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Strikes) {
        for (strike, times) in &other.0 {
            *self.0.entry(*strike).or_default() += times;
        }
    }

    pub(super) fn tell(&mut self, strike: Strike) {
        *self.0.entry(strike).or_default() += 1;
    }

    /// Occasions on which anything was struck.
    fn occasions(&self) -> Vec<Occasion> {
        let has_any = |occasion: &&Occasion| self.0.keys().any(|s| s.occasion == **occasion);
        Occasion::ALL.iter().filter(has_any).copied().collect()
    }
}

/// A table for each occasion: what happened, and at which step.
impl fmt::Display for Strikes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for occasion in self.occasions() {
            write!(f, "{:<20}", occasion.name())?;
            for step in MIGRATION_STEPS {
                write!(f, "{:>11}", name_of(step))?;
            }
            writeln!(f)?;
            for &blow in Blow::ALL {
                write!(f, "  {:<18}", blow.name())?;
                for step in MIGRATION_STEPS {
                    let strike = Strike {
                        occasion,
                        blow,
                        step,
                    };
                    write!(f, "{:>11}", self.count(strike))?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

/// By occasion, blow and step.
impl Serialize for Strikes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tables: BTreeMap<_, BTreeMap<_, BTreeMap<_, u64>>> = BTreeMap::new();
        for (strike, times) in &self.0 {
            let table = tables.entry(strike.occasion.name()).or_default();
            let row = table.entry(strike.blow.name()).or_default();
            row.insert(name_of(strike.step), *times);
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
        let mut strikes = Strikes::default();
        assert!(strikes.never().eq(Strike::all()));
        let strike = Strike {
            occasion: Occasion::Drain,
            blow: Blow::KillSource,
            step: MigrationStep::Live,
        };
        strikes.tell(strike);
        strikes.tell(strike);
        let mut both = strikes.clone();
        both.add(&strikes);
        assert_eq!(both.count(strike), 4);
        assert!(both.never().all(|never| never != strike));
        assert_eq!(both.never().count(), Strike::all().count() - 1);
        let table = both.to_string();
        println!("{table}");
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 1 + Blow::ALL.len());
        assert!(lines[0].starts_with("drain") && lines[0].ends_with("live"));
        assert!(lines[1].trim_start().starts_with("source killed") && lines[1].ends_with(" 4"));
        assert_eq!(
            serde_json::to_value(&both).unwrap(),
            serde_json::json!({"drain": {"source killed": {"live": 4}}})
        );
    }
}
