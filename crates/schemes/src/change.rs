//! A change in steps, as its leader keeps it: what everybody is to work by, and who has yet to follow.
//!
//! After F1's online schema change (Rae et al., VLDB 2013). The leader publishes the next step when every *follower* has acknowledged the
//! present one; a follower acknowledges a step when nothing that it began by an earlier one is under way. So no two followers are more
//! than one step apart, however long one of them sleeps. No clock decides: who is silent holds the change up, and nobody's serving.
//! Reads at a former server count, too: one that is still on its way would see a store that arrives there late, and that others do not.
//!
//! A follower is entered before it is told a step, and is waited for from then on, until it has left, or another process has its name, or
//! an operator says that it has ended. What is told must be saved first: a leader that has forgotten a step, but not who follows, would
//! publish others under its number.
//!
//! A leader that knows less than a follower takes the step over from it, and goes on only when an operator says how many followers
//! there are.
//!
//! The search in `tests/change/` goes through all interleavings of leader and followers, with crashes of both; the one in `tests/ring/`
//! through changes that follow each other.

use crate::stage::{Stage, Step};
use core::fmt;
use evenkeel_types::BootId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Greatest version that is believed. A million steps a second would take three centuries to get there.
pub const VERSION_MAX: u64 = 1 << 53;

/// The change of one pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Change {
    step: Step,
    /// Where it is to end.
    goal: Stage,
    followers: BTreeMap<String, Follower>,
}

/// A process that works by the steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Follower {
    /// Its life.
    pub boot: BootId,
    /// The newest version that it has acknowledged, as far as this leader has heard. 0 for none.
    #[serde(skip)]
    pub acknowledged: u64,
    /// It was asked to call often since the goal was set, so that nobody waits long for it.
    #[serde(skip)]
    pub hurries: bool,
}

/// What a follower says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Followed {
    /// Its life.
    pub boot: BootId,
    /// The newest step that it was told; none before the first.
    pub told: Option<Step>,
    /// The newest version before which nothing of its is under way. 0 for none.
    pub acknowledged: u64,
}

/// Why what a follower says is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nonsense {
    /// It acknowledges what it was not told.
    Untold,
    /// It was told another stage under this version, or a version beyond all.
    Foreign,
}

/// Why a change is not begun or taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoChange {
    /// The change is as far already.
    Reached(Stage),
    /// This many follow, and not as many as were said to.
    OtherCount(usize),
    /// It is too late.
    PastReturn(Stage),
}

impl fmt::Display for NoChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoChange::Reached(stage) => write!(f, "the pool is at stage {stage} already"),
            NoChange::OtherCount(count) => write!(f, "{count} proxies follow the pool"),
            NoChange::PastReturn(stage) => write!(
                f,
                "the pool is at stage {stage}: a change can be withdrawn until the pool is warming"
            ),
        }
    }
}

impl Default for Change {
    fn default() -> Self {
        Change {
            step: Step::FIRST,
            goal: Stage::Former,
            followers: BTreeMap::new(),
        }
    }
}

impl Change {
    /// What everybody is to work by.
    pub fn step(&self) -> Step {
        self.step
    }

    /// Where it is to end.
    pub fn goal(&self) -> Stage {
        self.goal
    }

    /// Whether it is under way.
    pub fn is_under_way(&self) -> bool {
        self.step.stage != self.goal
    }

    /// Who follows, by name.
    pub fn followers(&self) -> &BTreeMap<String, Follower> {
        &self.followers
    }

    /// Those that have not acknowledged the present step.
    pub fn waits_for(&self) -> impl Iterator<Item = &str> {
        let behind = |follower: &Follower| follower.acknowledged < self.step.version;
        let waits = self.followers.iter().filter(move |(_, f)| behind(f));
        waits.map(|(name, _)| name.as_str())
    }

    /// A follower speaks, and is entered if it is new. True if there is something to save.
    ///
    /// # Errors
    /// It makes no sense; nothing of it is used.
    pub fn handle(&mut self, name: &str, said: Followed) -> Result<bool, Nonsense> {
        self.check(&said)?;
        let adopted = said.told.filter(|told| told.version > self.step.version);
        if let Some(step) = adopted {
            self.step = step;
            self.goal = step.stage;
        }
        let known = self.followers.get(name).map(|known| known.boot);
        let hurries = known == Some(said.boot) && self.followers[name].hurries;
        let follower = Follower {
            boot: said.boot,
            acknowledged: said.acknowledged,
            hurries,
        };
        self.followers.insert(name.to_owned(), follower);
        Ok(adopted.is_some() || known != Some(said.boot))
    }

    /// Whether what a follower says makes sense.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, said: &Followed) -> Result<(), Nonsense> {
        let told = said.told.map_or(0, |step| step.version);
        if said.acknowledged > told {
            return Err(Nonsense::Untold);
        }
        if told > VERSION_MAX || said.told.is_some_and(|told| self.contradicts(told)) {
            return Err(Nonsense::Foreign);
        }
        Ok(())
    }

    fn contradicts(&self, told: Step) -> bool {
        told.version == self.step.version && told.stage != self.step.stage
    }

    /// A follower was asked to call often.
    pub fn note_hurried(&mut self, name: &str) {
        if let Some(follower) = self.followers.get_mut(name) {
            follower.hurries = true;
        }
    }

    /// A follower has ended, or follows no more. True if it did.
    pub fn forget(&mut self, name: &str) -> bool {
        self.followers.remove(name).is_some()
    }

    /// The change is to go on to this stage. `followers` are all that there are, as an operator says.
    ///
    /// # Errors
    /// It is there already, or others follow.
    pub fn set_goal(&mut self, goal: Stage, followers: usize) -> Result<(), NoChange> {
        if goal <= self.step.stage {
            return Err(NoChange::Reached(self.step.stage));
        }
        if self.followers.len() != followers {
            return Err(NoChange::OtherCount(self.followers.len()));
        }
        self.goal = goal;
        for follower in self.followers.values_mut() {
            follower.hurries = false;
        }
        Ok(())
    }

    /// Takes the change back.
    ///
    /// # Errors
    /// It is past the point from which there is a way back.
    pub fn withdraw(&mut self) -> Result<(), NoChange> {
        match self.step.stage.withdrawn() {
            Some(stage) => self.publish(stage),
            None if self.step.stage == Stage::Former => {}
            None => return Err(NoChange::PastReturn(self.step.stage)),
        }
        self.goal = self.step.stage;
        Ok(())
    }

    /// Publishes the next step, if the change is to go on and nobody is behind. True if it did: that is to be saved before anybody is
    /// told.
    pub fn advance(&mut self) -> bool {
        let is_ready = |f: &Follower| f.hurries && f.acknowledged == self.step.version;
        let next = self.step.stage.next().filter(|_| self.is_under_way());
        let Some(next) = next.filter(|_| self.followers.values().all(is_ready)) else {
            return false;
        };
        self.publish(next);
        true
    }

    /// Begins another change behind the one that has come to an end, of which nothing is to be left: everybody works by its last step. True
    /// if it did: that is to be saved before anybody is told.
    ///
    /// Where commands go at the end of one and at the beginning of the next is the same, so the two are safe side by side.
    pub fn begin_next(&mut self) -> bool {
        let rests = matches!(self.step.stage, Stage::Former | Stage::Done);
        let can_begin = rests && !self.is_under_way() && self.waits_for().next().is_none();
        if can_begin {
            self.publish(Stage::Former);
            self.goal = Stage::Former;
        }
        can_begin
    }

    /// Whether nothing is left of it: it has come to an end, and nobody follows any more.
    pub fn is_over(&self) -> bool {
        let rests = matches!(self.step.stage, Stage::Former | Stage::Done);
        rests && !self.is_under_way() && self.followers.is_empty()
    }

    fn publish(&mut self, stage: Stage) {
        self.step = Step {
            version: self.step.version + 1,
            stage,
        };
    }
}
