//! What went wrong while a change stood at each stage, counted: a run proves little of a stage in which nothing ever went wrong. Pools that
//! are led to other servers, rings whose parts change hands and copies that are switched are counted apart; and pools in racks, of which one holds
//! each item, by the step that a command between racks had taken last.

use core::fmt;
use evenkeel_proxy_core::ProxyCore;
use evenkeel_schemes::stage::Stage;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::json;
use std::collections::BTreeMap;

/// What of a pool changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LedKind {
    /// A pool passes from former servers to its own.
    Pool,
    /// Parts of a ring change hands, plan after plan: a *giver* is a former server, a *getter* one of its own.
    Ring,
    /// Copies of its items are switched on and off: what is said of *former* servers is of all of them.
    Copies,
    /// Nothing: one of its racks holds each item, and notes in the others say which. What is said of *former* servers is of all of them.
    Notes,
    /// The same by a directory, which is the server of the pool's *own*.
    Directory,
}

/// A step of a command between racks, as a server is asked it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RackStep {
    /// The item is asked for.
    #[default]
    Read,
    /// Somebody looks what is there.
    Look,
    /// A lock is put.
    Lock,
    /// A note is put.
    Note,
    /// What is there is deleted.
    Delete,
    /// An item is stored, or changed.
    Store,
}

/// When something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// A change stood at this stage.
    Stage(Stage),
    /// This was the last step that any command had taken.
    Step(RackStep),
}

impl RackStep {
    /// All of them.
    pub const ALL: [RackStep; 6] = [
        RackStep::Read,
        RackStep::Look,
        RackStep::Lock,
        RackStep::Note,
        RackStep::Delete,
        RackStep::Store,
    ];
}

impl Moment {
    /// How reports call it; stable.
    pub fn as_str(self) -> &'static str {
        match self {
            Moment::Stage(stage) => stage.as_str(),
            Moment::Step(RackStep::Read) => "read",
            Moment::Step(RackStep::Look) => "look",
            Moment::Step(RackStep::Lock) => "lock",
            Moment::Step(RackStep::Note) => "note",
            Moment::Step(RackStep::Delete) => "delete",
            Moment::Step(RackStep::Store) => "store",
        }
    }
}

impl LedKind {
    /// All of them.
    pub const ALL: [LedKind; 5] = [
        LedKind::Pool,
        LedKind::Ring,
        LedKind::Copies,
        LedKind::Notes,
        LedKind::Directory,
    ];

    /// Whether one of several racks holds each item.
    pub fn is_in_racks(self) -> bool {
        matches!(self, LedKind::Notes | LedKind::Directory)
    }

    /// When things go wrong that are counted apart.
    pub fn moments(self) -> Vec<Moment> {
        match self.is_in_racks() {
            true => RackStep::ALL.map(Moment::Step).to_vec(),
            false => Stage::ALL.map(Moment::Stage).to_vec(),
        }
    }

    fn title(self) -> &'static str {
        match self {
            LedKind::Pool => "led pools",
            LedKind::Ring => "led rings",
            LedKind::Copies => "led copies",
            LedKind::Notes => "racks with notes",
            LedKind::Directory => "racks with a directory",
        }
    }
}

/// What is counted by name, where rings, copies and racks may have another one.
macro_rules! counted {
    ($(#[$of:meta])* $of_name:ident {
        $($(#[$doc:meta])* $name:ident = $words:literal $(, in rings $of_rings:literal)? $(, of copies $of_copies:literal)? $(, in racks $in_racks:literal)?;)*
    }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $of_name {
            $($(#[$doc])* $name,)*
        }

        impl $of_name {
            /// All of them, in order.
            pub const ALL: &'static [$of_name] = &[$($of_name::$name),*];

            /// How reports call it; stable.
            pub fn name(self, kind: LedKind) -> &'static str {
                match (kind, self) {
                    $($((LedKind::Ring, $of_name::$name) => $of_rings,)?)*
                    $($((LedKind::Copies, $of_name::$name) => $of_copies,)?)*
                    $($((LedKind::Notes | LedKind::Directory, $of_name::$name) => $in_racks,)?)*
                    $((_, $of_name::$name) => $words,)*
                }
            }
        }
    };
}

counted! {
    /// What goes wrong around a pool that is led to other servers, or a ring.
    Mischance {
        /// Connections break; what was under way arrives late or never.
        ConnectionsLost = "connections lost";
        /// A former server executes a write that its proxy has given up, or whose proxy has died.
        WriteLate = "writes executed late";
        /// Hosts do not reach each other for a while.
        Partition = "partitions";
        /// A host loses packets for a while.
        PacketsLost = "packets lost";
        /// A host's packets take longer for a while.
        Slow = "slow hosts";
        /// What a host sends on its own comes twice for a while.
        Duplicates = "heartbeats twice";
        /// A heartbeat or its answer is lost.
        HeartbeatLost = "heartbeats lost";
        /// A heartbeat or its answer comes late, behind others.
        HeartbeatLate = "heartbeats late";
        /// A former server dies, and starts again empty.
        FormerKilled = "former server killed", in rings "giver killed", of copies "server killed", in racks "server killed";
        /// A former server stands still, and goes on.
        FormerStopped = "former server stopped", in rings "giver stopped", of copies "server stopped", in racks "server stopped";
        /// A former server evicts an item.
        FormerEvicted = "former server evicts", in rings "giver evicts", of copies "item evicted", in racks "item or mark evicted";
        /// A server of the pool's own dies, and starts again empty.
        OwnKilled = "own server killed", in rings "getter killed", in racks "directory killed";
        /// A server of the pool's own stands still, and goes on.
        OwnStopped = "own server stopped", in rings "getter stopped", in racks "directory stopped";
        /// A server of the pool's own evicts an item.
        OwnEvicted = "own server evicts", in rings "getter evicts", of copies "copy evicted", in racks "directory's note evicted";
        /// A proxy dies, and another life begins under its name.
        ProxyKilled = "proxy killed";
        /// A proxy stands still, and goes on.
        ProxyStopped = "proxy stopped";
        /// The coordinator stands still, and goes on.
        CoordinatorStopped = "coordinator stopped";
        /// The coordinator dies, and another goes on from what it had saved.
        CoordinatorKilled = "coordinator killed";
    }
}

impl Mischance {
    /// Whether it can happen at a moment. The pool's own servers are empty as long as they are not asked, and what former ones still have
    /// when nobody asks them any more is no matter, as is a copy that nobody reads. Nobody leads racks, and notes need no directory.
    pub fn can_happen(self, kind: LedKind, moment: Moment) -> bool {
        let stage = match moment {
            Moment::Stage(stage) if !kind.is_in_racks() => stage,
            Moment::Step(step) if kind.is_in_racks() => {
                return self.can_happen_in_racks(kind, step);
            }
            _ => return false,
        };
        match (self, kind) {
            (Mischance::OwnKilled | Mischance::OwnStopped, LedKind::Copies) => false,
            (Mischance::OwnEvicted, LedKind::Copies) => stage == Stage::Warming,
            (Mischance::FormerEvicted, LedKind::Copies) => true,
            (Mischance::OwnEvicted, _) => stage >= Stage::Warming,
            (Mischance::FormerEvicted, _) => stage <= Stage::Warming,
            _ => true,
        }
    }

    fn can_happen_in_racks(self, kind: LedKind, step: RackStep) -> bool {
        match self {
            Mischance::WriteLate => step > RackStep::Look,
            Mischance::Duplicates
            | Mischance::HeartbeatLost
            | Mischance::HeartbeatLate
            | Mischance::CoordinatorStopped
            | Mischance::CoordinatorKilled => false,
            Mischance::OwnKilled | Mischance::OwnStopped | Mischance::OwnEvicted => {
                kind == LedKind::Directory
            }
            _ => true,
        }
    }
}

counted! {
    /// What is counted of operations in pools that are led, and of their changes.
    Tally {
        /// Items brought from a former server.
        FillsStored = "fills stored";
        /// Items not brought because the key was written meanwhile, or the placeholder was gone.
        FillsLost = "fills lost";
        /// Keys that the former servers did not have.
        FillsAbsent = "fills absent";
        /// Items not brought because a server could not be asked.
        FillsGivenUp = "fills given up";
        /// Placeholders of others that were met.
        PlaceholdersMet = "placeholders met";
        /// Items deleted at a former server.
        FormerDeletes = "deletes at the former pool", in rings "deletes at givers";
        /// Reads answered with what a former server had.
        FormerHits = "reads answered by the former pool", in rings "reads answered by givers";
        /// Steps that were published.
        StepsPublished = "steps published";
        /// Changes taken back by an operator.
        StepsWithdrawn = "steps withdrawn by operators";
        /// Changes that the coordinator has taken back, because requests waited for too long.
        StepsOverdue = "steps withdrawn as overdue";
        /// Steps that were forgotten, as the coordinator died before they were saved.
        StepsUnsaved = "steps lost unsaved";
        /// Changes that came to their end.
        ChangesDone = "changes done";
        /// Plans of rings that came to their end.
        PlansDone = "plans done";
        /// Those of them by which parts move that were busy, by what the coordinator had measured.
        PlansMeasured = "plans by measured load";
        /// Servers that came into a ring.
        ServersCame = "servers that came";
        /// Plans taken back because their newcomer was not reached.
        NewcomersUnreached = "newcomers not reached";
        /// Servers that gave all they had, and went.
        ServersDrained = "servers drained";
        /// Servers that the coordinator held for dead.
        ServersLost = "dead servers lost";
        /// Servers that an operator held for dead.
        ServersGivenUp = "servers lost by order";
        /// Keys that came to a server which had them before, and still had what they were then.
        KeysBack = "keys back at a former owner";
        /// Uniques that applications were shown of items in parts that had moved.
        MasksShown = "uniques shown masked";
        /// Swaps that a mask made miss, because the key had moved since it was read.
        MasksMissed = "swaps refused by a mask";
        /// Copies that were switched on.
        SwitchedOn = "times switched on";
        /// Copies that were switched off, after they were on.
        SwitchedOff = "times switched off";
        /// Multi-gets of two keys or more.
        MultiGets = "multi-gets";
        /// Copies that were asked.
        CopiesAsked = "copies asked";
        /// Those of them that were shown.
        CopiesHit = "copies hit";
        /// Those of them that were asked at home after that.
        CopiesAbsent = "copies absent";
        /// Copies that were stored where none was.
        CopiesFilled = "copies filled";
        /// Copies that were stored again before their end.
        CopiesRefreshed = "copies refreshed";
        /// Copies that writes deleted.
        CopiesDeleted = "copies deleted";
        /// Those of them of which nobody knows.
        CopiesUnconfirmed = "deletes of copies unconfirmed";
        /// Commands that took steps between racks.
        Crossings = "commands between racks";
        /// Reads that another rack answered.
        CrossingHits = "reads answered by another rack";
        /// Notes that were stored.
        NotesStored = "notes stored";
        /// Notes that led to no item.
        NotesDangling = "notes that led nowhere";
        /// Locks of others that were met.
        LocksMet = "locks met";
        /// Commands that gave way to others too often.
        CrossingsBusy = "commands given up as busy";
    }
}

/// What is counted of copies as of other pools.
const OF_COPIES: [Tally; 2] = [Tally::StepsPublished, Tally::StepsUnsaved];

impl Tally {
    /// Whether it is counted of these.
    pub fn is_of(self, kind: LedKind) -> bool {
        match kind {
            LedKind::Pool => self <= Tally::ChangesDone,
            LedKind::Ring => self != Tally::ChangesDone && self < Tally::SwitchedOn,
            LedKind::Copies => {
                let range = Tally::SwitchedOn..=Tally::CopiesUnconfirmed;
                range.contains(&self) || OF_COPIES.contains(&self)
            }
            LedKind::Notes | LedKind::Directory => self >= Tally::Crossings,
        }
    }
}

/// What has happened to pools that were led, and to rings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedReport {
    struck: BTreeMap<(LedKind, Mischance, Moment), u64>,
    tallies: BTreeMap<(LedKind, Tally), u64>,
}

impl LedReport {
    /// How often something went wrong at a moment.
    pub fn struck(&self, kind: LedKind, mischance: Mischance, moment: Moment) -> u64 {
        let cell = (kind, mischance, moment);
        self.struck.get(&cell).copied().unwrap_or(0)
    }

    /// How often something was done.
    pub fn tally(&self, kind: LedKind, tally: Tally) -> u64 {
        self.tallies.get(&(kind, tally)).copied().unwrap_or(0)
    }

    /// What can go wrong and did not.
    pub fn never(&self) -> impl Iterator<Item = (LedKind, Mischance, Moment)> + '_ {
        let rows = LedKind::ALL.into_iter().flat_map(|kind| {
            let all = Mischance::ALL.iter();
            all.map(move |&mischance| (kind, mischance))
        });
        let all = rows.flat_map(|(kind, mischance)| {
            let moments = kind.moments().into_iter();
            moments.map(move |moment| (kind, mischance, moment))
        });
        let can = all.filter(|(kind, mischance, moment)| mischance.can_happen(*kind, *moment));
        can.filter(|(kind, mischance, moment)| self.struck(*kind, *mischance, *moment) == 0)
    }

    /// What is counted and was not done.
    pub fn idle(&self) -> impl Iterator<Item = (LedKind, Tally)> + '_ {
        let all = LedKind::ALL.into_iter().flat_map(|kind| {
            let of_kind = Tally::ALL.iter().filter(move |tally| tally.is_of(kind));
            of_kind.map(move |&tally| (kind, tally))
        });
        all.filter(|(kind, tally)| self.tally(*kind, *tally) == 0)
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &LedReport) {
        for (cell, times) in &other.struck {
            *self.struck.entry(*cell).or_default() += times;
        }
        for ((kind, tally), times) in &other.tallies {
            self.tell(*kind, *tally, *times);
        }
    }

    pub(in crate::world) fn inject(&mut self, kind: LedKind, mischance: Mischance, moment: Moment) {
        *self.struck.entry((kind, mischance, moment)).or_default() += 1;
    }

    pub(in crate::world) fn tell(&mut self, kind: LedKind, tally: Tally, times: u64) {
        *self.tallies.entry((kind, tally)).or_default() += times;
    }

    pub(in crate::world) fn take_proxy(&mut self, kind: LedKind, core: &ProxyCore) {
        let stats = core.stats();
        self.tell(kind, Tally::FillsStored, stats.fills_stored);
        self.tell(kind, Tally::FillsLost, stats.fills_lost);
        self.tell(kind, Tally::FillsAbsent, stats.fills_absent);
        self.tell(kind, Tally::FillsGivenUp, stats.fills_given_up);
        self.tell(kind, Tally::PlaceholdersMet, stats.placeholders_met);
        self.tell(kind, Tally::FormerDeletes, stats.former_deletes);
        self.tell(kind, Tally::FormerHits, stats.former_hits);
        self.tell(kind, Tally::Crossings, stats.crossings);
        self.tell(kind, Tally::CrossingHits, stats.crossing_hits);
        self.tell(kind, Tally::NotesStored, stats.crossing_notes_stored);
        self.tell(kind, Tally::NotesDangling, stats.crossing_notes_dangling);
        self.tell(kind, Tally::LocksMet, stats.crossing_locks_met);
        self.tell(kind, Tally::CrossingsBusy, stats.crossings_busy);
        let pools = core.pool_stats();
        for counts in pools.iter().filter_map(|pool| pool.bundles.as_ref()) {
            self.tell(kind, Tally::MultiGets, counts.requests);
            self.tell(kind, Tally::CopiesAsked, counts.copies_asked);
            self.tell(kind, Tally::CopiesHit, counts.copies_hit);
            self.tell(kind, Tally::CopiesAbsent, counts.copies_absent);
            self.tell(kind, Tally::CopiesFilled, counts.fills);
            self.tell(kind, Tally::CopiesRefreshed, counts.refreshes);
            self.tell(kind, Tally::CopiesDeleted, counts.deletes);
            self.tell(kind, Tally::CopiesUnconfirmed, counts.deletes_unconfirmed);
        }
    }

    /// Of which anything was counted.
    fn kinds(&self) -> impl Iterator<Item = LedKind> + '_ {
        let is_any = |kind: &LedKind| self.tallies.keys().any(|(of, _)| of == kind);
        LedKind::ALL.into_iter().filter(is_any)
    }
}

/// What went wrong at which stage, and what was done. Nothing where no pool was led.
impl fmt::Display for LedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kind in self.kinds() {
            write!(f, "{:<26}", kind.title())?;
            let moments = kind.moments();
            for moment in &moments {
                write!(f, "{:>10}", moment.as_str())?;
            }
            writeln!(f)?;
            let can = |of: &&Mischance| moments.iter().any(|it| of.can_happen(kind, *it));
            for &mischance in Mischance::ALL.iter().filter(can) {
                write!(f, "  {:<24}", mischance.name(kind))?;
                for &moment in &moments {
                    let times = self.struck(kind, mischance, moment);
                    match mischance.can_happen(kind, moment) {
                        false => write!(f, "{:>10}", "-")?,
                        true => write!(f, "{times:>10}")?,
                    }
                }
                writeln!(f)?;
            }
            for &tally in Tally::ALL.iter().filter(|tally| tally.is_of(kind)) {
                writeln!(f, "{:>10}  {}", self.tally(kind, tally), tally.name(kind))?;
            }
        }
        Ok(())
    }
}

/// By what went wrong and the moment, and by what was done; of rings, copies and racks apart.
impl Serialize for LedReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let table = |kind| {
            let mut struck: BTreeMap<_, BTreeMap<_, u64>> = BTreeMap::new();
            let of_kind = self.struck.iter().filter(|((of, ..), _)| *of == kind);
            for ((_, mischance, moment), times) in of_kind {
                let row = struck.entry(mischance.name(kind)).or_default();
                row.insert(moment.as_str(), *times);
            }
            let of_kind = self.tallies.iter().filter(|((of, _), _)| *of == kind);
            let operations = of_kind.map(|((_, tally), times)| (tally.name(kind), *times));
            (struck, operations.collect::<BTreeMap<_, _>>())
        };
        let mut all = serializer.serialize_map(Some(6))?;
        let (struck, operations) = table(LedKind::Pool);
        all.serialize_entry("struck", &struck)?;
        all.serialize_entry("operations", &operations)?;
        for (name, kind) in [
            ("rings", LedKind::Ring),
            ("copies", LedKind::Copies),
            ("notes", LedKind::Notes),
            ("directory", LedKind::Directory),
        ] {
            let (struck, operations) = table(kind);
            let apart = json!({"struck": struck, "operations": operations});
            all.serialize_entry(name, &apart)?;
        }
        all.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_happened_is_found_and_the_tables_show_what_did() {
        let mut report = LedReport::default();
        assert_eq!(report.to_string(), "");
        let (all, idle) = (report.never().count(), report.idle().count());
        let at = Moment::Stage;
        report.inject(LedKind::Pool, Mischance::ProxyKilled, at(Stage::Quiesced));
        report.tell(LedKind::Pool, Tally::FillsStored, 3);
        report.inject(LedKind::Ring, Mischance::FormerKilled, at(Stage::Done));
        report.tell(LedKind::Ring, Tally::PlansDone, 1);
        let mut both = report.clone();
        both.add(&report);
        assert_eq!(both.never().count(), all - 2);
        assert_eq!(both.idle().count(), idle - 2);
        let killed = |kind| both.struck(kind, Mischance::ProxyKilled, at(Stage::Quiesced));
        assert_eq!(LedKind::ALL.map(killed), [2, 0, 0, 0, 0]);
        let table = both.to_string();
        println!("{table}");
        let count = |kind| Tally::ALL.iter().filter(|tally| tally.is_of(kind)).count();
        let tallies: usize = [LedKind::Pool, LedKind::Ring].into_iter().map(count).sum();
        assert_eq!(
            table.lines().count(),
            2 * (1 + Mischance::ALL.len()) + tallies
        );
        assert!(table.starts_with("led pools") && table.contains("\nled rings"));
        assert_eq!(
            serde_json::to_value(&both).unwrap(),
            json!({
                "struck": {"proxy killed": {"quiesced": 2}},
                "operations": {"fills stored": 6},
                "rings": {
                    "struck": {"giver killed": {"done": 2}},
                    "operations": {"plans done": 2},
                },
                "copies": {"struck": {}, "operations": {}},
                "notes": {"struck": {}, "operations": {}},
                "directory": {"struck": {}, "operations": {}},
            })
        );
    }
}
