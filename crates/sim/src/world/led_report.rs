//! What went wrong while a change stood at each stage, counted: a run proves little of a stage in which nothing ever went wrong.

use core::fmt;
use evenkeel_proxy_core::ProxyStats;
use evenkeel_schemes::stage::Stage;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

macro_rules! mischances {
    ($($(#[$doc:meta])* $name:ident = $words:literal,)*) => {
        /// What goes wrong around a pool that is led to other servers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mischance {
            $($(#[$doc])* $name,)*
        }

        impl Mischance {
            /// All of them, in order.
            pub const ALL: &'static [Mischance] = &[$(Mischance::$name),*];

            /// How reports call it; stable.
            pub fn name(self) -> &'static str {
                match self {
                    $(Mischance::$name => $words,)*
                }
            }
        }
    };
}

mischances! {
    /// Connections break; what was under way arrives late or never.
    ConnectionsLost = "connections lost",
    /// A former server carries out a write that its proxy has given up, or whose proxy has died.
    WriteLate = "writes carried out late",
    /// Hosts do not reach each other for a while.
    Partition = "partitions",
    /// A host loses packets for a while.
    PacketsLost = "packets lost",
    /// A host's packets take longer for a while.
    Slow = "slow hosts",
    /// What a host sends on its own comes twice for a while.
    Duplicates = "heartbeats twice",
    /// A heartbeat or its answer is lost.
    HeartbeatLost = "heartbeats lost",
    /// A heartbeat or its answer comes late, behind others.
    HeartbeatLate = "heartbeats late",
    /// A former server dies, and starts again empty.
    FormerKilled = "former server killed",
    /// A former server stands still, and goes on.
    FormerStopped = "former server stopped",
    /// A former server evicts an item.
    FormerEvicted = "former server evicts",
    /// A server of the pool's own dies, and starts again empty.
    OwnKilled = "own server killed",
    /// A server of the pool's own stands still, and goes on.
    OwnStopped = "own server stopped",
    /// A server of the pool's own evicts an item.
    OwnEvicted = "own server evicts",
    /// A proxy dies, and another life begins under its name.
    ProxyKilled = "proxy killed",
    /// A proxy stands still, and goes on.
    ProxyStopped = "proxy stopped",
    /// The coordinator stands still, and goes on.
    CoordinatorStopped = "coordinator stopped",
    /// The coordinator dies, and another goes on from what it had saved.
    CoordinatorKilled = "coordinator killed",
}

impl Mischance {
    /// Whether it can happen at a stage. The pool's own servers are empty as long as they are not asked, and what former ones still have
    /// when nobody asks them any more is no matter.
    pub fn can_happen(self, stage: Stage) -> bool {
        match self {
            Mischance::OwnEvicted => stage >= Stage::Warming,
            Mischance::FormerEvicted => stage <= Stage::Warming,
            _ => true,
        }
    }
}

macro_rules! tallies {
    ($($(#[$doc:meta])* $name:ident = $words:literal,)*) => {
        /// What is counted of operations in pools that are led.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Tally {
            $($(#[$doc])* $name,)*
        }

        impl Tally {
            /// All of them, in order.
            pub const ALL: &'static [Tally] = &[$(Tally::$name),*];

            /// How reports call it; stable.
            pub fn name(self) -> &'static str {
                match self {
                    $(Tally::$name => $words,)*
                }
            }
        }
    };
}

tallies! {
    /// Items brought from a former server.
    FillsStored = "fills stored",
    /// Items not brought because the key was written meanwhile, or the placeholder was gone.
    FillsLost = "fills lost",
    /// Keys that the former servers did not have.
    FillsAbsent = "fills absent",
    /// Items not brought because a server could not be asked.
    FillsGivenUp = "fills given up",
    /// Placeholders of others that were met.
    PlaceholdersMet = "placeholders met",
    /// Items deleted at a former server.
    FormerDeletes = "deletes at the former pool",
    /// Reads answered with what a former server had.
    FormerHits = "reads answered by the former pool",
    /// Steps that were published.
    StepsPublished = "steps published",
    /// Changes taken back by an operator.
    StepsWithdrawn = "steps withdrawn by operators",
    /// Changes that the coordinator has taken back, because requests waited for too long.
    StepsOverdue = "steps withdrawn as overdue",
    /// Steps that were forgotten, as the coordinator died before they were saved.
    StepsUnsaved = "steps lost unsaved",
    /// Changes that came to their end.
    ChangesDone = "changes done",
}

/// What has happened to pools that were led.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedReport {
    struck: BTreeMap<(Mischance, Stage), u64>,
    tallies: BTreeMap<Tally, u64>,
}

impl LedReport {
    /// How often something went wrong at a stage.
    pub fn struck(&self, mischance: Mischance, stage: Stage) -> u64 {
        self.struck.get(&(mischance, stage)).copied().unwrap_or(0)
    }

    /// How often something was done.
    pub fn tally(&self, tally: Tally) -> u64 {
        self.tallies.get(&tally).copied().unwrap_or(0)
    }

    /// What can go wrong and did not.
    pub fn never(&self) -> impl Iterator<Item = (Mischance, Stage)> + '_ {
        let all = Mischance::ALL.iter().flat_map(|&mischance| {
            let stages = Stage::ALL.into_iter();
            stages.map(move |stage| (mischance, stage))
        });
        let can = all.filter(|(mischance, stage)| mischance.can_happen(*stage));
        can.filter(|(mischance, stage)| self.struck(*mischance, *stage) == 0)
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &LedReport) {
        for (cell, times) in &other.struck {
            *self.struck.entry(*cell).or_default() += times;
        }
        for (tally, times) in &other.tallies {
            self.tell(*tally, *times);
        }
    }

    pub(in crate::world) fn strike(&mut self, mischance: Mischance, stage: Stage) {
        *self.struck.entry((mischance, stage)).or_default() += 1;
    }

    pub(in crate::world) fn tell(&mut self, tally: Tally, times: u64) {
        *self.tallies.entry(tally).or_default() += times;
    }

    pub(in crate::world) fn take_proxy(&mut self, stats: &ProxyStats) {
        self.tell(Tally::FillsStored, stats.fills_stored);
        self.tell(Tally::FillsLost, stats.fills_lost);
        self.tell(Tally::FillsAbsent, stats.fills_absent);
        self.tell(Tally::FillsGivenUp, stats.fills_given_up);
        self.tell(Tally::PlaceholdersMet, stats.placeholders_met);
        self.tell(Tally::FormerDeletes, stats.former_deletes);
        self.tell(Tally::FormerHits, stats.former_hits);
    }
}

/// What went wrong at which stage, and what was done. Nothing where no pool was led.
impl fmt::Display for LedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tallies.is_empty() {
            return Ok(());
        }
        write!(f, "{:<26}", "led pools")?;
        for stage in Stage::ALL {
            write!(f, "{:>10}", stage.as_str())?;
        }
        writeln!(f)?;
        for &mischance in Mischance::ALL {
            write!(f, "  {:<24}", mischance.name())?;
            for stage in Stage::ALL {
                let times = self.struck(mischance, stage);
                match mischance.can_happen(stage) {
                    false => write!(f, "{:>10}", "-")?,
                    true => write!(f, "{times:>10}")?,
                }
            }
            writeln!(f)?;
        }
        for &tally in Tally::ALL {
            writeln!(f, "{:>10}  {}", self.tally(tally), tally.name())?;
        }
        Ok(())
    }
}

/// By what went wrong and the stage, and by what was done.
impl Serialize for LedReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut struck: BTreeMap<_, BTreeMap<_, u64>> = BTreeMap::new();
        for ((mischance, stage), times) in &self.struck {
            let row = struck.entry(mischance.name()).or_default();
            row.insert(stage.as_str(), *times);
        }
        let tallies = self.tallies.iter();
        let operations: BTreeMap<_, _> = tallies.map(|(t, times)| (t.name(), *times)).collect();
        let mut both = serializer.serialize_map(Some(2))?;
        both.serialize_entry("struck", &struck)?;
        both.serialize_entry("operations", &operations)?;
        both.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_happened_is_found_and_the_table_shows_what_did() {
        let mut report = LedReport::default();
        assert_eq!(report.to_string(), "");
        let all = report.never().count();
        report.strike(Mischance::ProxyKilled, Stage::Quiesced);
        report.tell(Tally::FillsStored, 3);
        let mut both = report.clone();
        both.add(&report);
        assert_eq!(both.never().count(), all - 1);
        assert_eq!(both.struck(Mischance::ProxyKilled, Stage::Quiesced), 2);
        let table = both.to_string();
        println!("{table}");
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 1 + Mischance::ALL.len() + Tally::ALL.len());
        assert!(lines[0].starts_with("led pools") && lines[0].ends_with("done"));
        assert_eq!(
            serde_json::to_value(&both).unwrap(),
            serde_json::json!({
                "struck": {"proxy killed": {"quiesced": 2}},
                "operations": {"fills stored": 6},
            })
        );
    }
}
