//! The copies of a pool's items (Replicate and Bundle): those that are kept, and what is counted of them. Where they are only supposed, multi-gets are
//! covered and counted all the same, and everybody is asked as ever.

use crate::bundles::Bundles;
use crate::pipe::room::FillBound;
use crate::pool::followed::Followed;
use crate::ring::BundleUpdate;
use crate::stats::counters::BundleCounts;
use core::time::Duration;
use evenkeel_placement::cover::Cover;
use evenkeel_schemes::copies::{PREFIX_LEN, Switch, name_prefix};
use evenkeel_schemes::stage::Step;
use evenkeel_types::Instant;
use std::sync::Arc;

/// The copies of a pool's items.
#[derive(Debug)]
pub(crate) struct Bundled {
    pub by: Arc<Bundles>,
    pub counts: BundleCounts,
    /// How far they are switched on, where they are kept.
    pub kept: Option<CopiesConfig>,
}

/// How far copies are switched on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CopiesConfig {
    pub at: Followed,
    /// The plan that the step is of; `None` as long as they were never on.
    pub told: Option<BundleUpdate>,
}

impl CopiesConfig {
    /// `None` until a coordinator has said so: then writes wait, and reads are asked at home.
    #[inline]
    pub fn switch(&self) -> Option<Switch> {
        self.at.step.map(|step| Switch::at(step.stage))
    }
}

impl Bundled {
    /// Those of a new configuration, that had these before.
    pub fn new(by: &Arc<Bundles>, before: Option<Bundled>) -> Self {
        let is_same = |before: &Bundled| before.by.wish() == by.wish();
        // What was told of other places says nothing of these.
        let told = (before.as_ref()).and_then(|before| before.kept.filter(|_| is_same(before)));
        Bundled {
            by: Arc::clone(by),
            counts: before.map_or_else(BundleCounts::default, |before| before.counts),
            kept: by.keeping().map(|_| told.unwrap_or_default()),
        }
    }

    /// A coordinator has told a step that is newer. One of a plan that has copies elsewhere is not worked by, unless it has none. True if it is.
    pub fn handle(&mut self, now: Instant, step: Option<Step>, told: Option<BundleUpdate>) -> bool {
        let wish = self.by.wish();
        let Some(kept) = &mut self.kept else {
            return false;
        };
        let is_off = step.is_none_or(|step| Switch::at(step.stage) == Switch::Off);
        if !is_off && told.is_none_or(|told| told.plan.of != wish) {
            return false;
        }
        (kept.at.step, kept.at.since) = (step, now);
        kept.told = told;
        true
    }

    /// The step that is worked by is told again: others follow since, or do not any more.
    pub fn handle_again(&mut self, step: Step, told: Option<BundleUpdate>) {
        if let Some(kept) = &mut self.kept
            && kept.at.step == Some(step)
        {
            kept.told = told;
        }
    }

    /// Whether writes delete copies.
    #[inline]
    pub fn is_cleared(&self) -> bool {
        let switch = self.kept.and_then(|kept| kept.switch());
        switch.is_some_and(Switch::is_cleared)
    }

    /// What stands before the key in the name of a copy, where copies are on.
    pub fn read_prefix(&self) -> Option<[u8; PREFIX_LEN]> {
        let kept = self.kept.filter(|kept| kept.switch() == Some(Switch::On))?;
        kept.told.map(|told| name_prefix(told.plan.token))
    }

    /// The same where writes delete them.
    pub fn write_prefix(&self) -> Option<[u8; PREFIX_LEN]> {
        let told = self.kept.filter(|_| self.is_cleared())?.told?;
        Some(name_prefix(told.plan.token))
    }

    /// How much this worker may fill, where copies are kept and others have been told of.
    pub fn fill_bound(&self) -> Option<FillBound> {
        let (keeping, told) = (self.by.keeping()?, self.kept?.told?);
        Some(FillBound {
            share: keeping.fill_share / f64::from(told.fillers),
            within: Duration::from_secs(keeping.ttl.into()),
        })
    }

    /// Counts a multi-get that is [covered](Bundles::cover), or asked at home all the same.
    pub fn count(&mut self, cover: &Cover, (homes, at_home): (&[u32], bool), asked: &mut Vec<u32>) {
        let keys = cover.distinct();
        // A single key never goes to a copy.
        if keys < 2 {
            return;
        }
        asked.clear();
        asked.extend_from_slice(homes);
        asked.sort_unstable();
        asked.dedup();
        let counts = &mut self.counts;
        counts.requests += 1;
        counts.keys += keys as u64;
        counts.transactions += asked.len() as u64;
        counts.transactions_covered += match at_home {
            true => asked.len() as u64,
            false => cover.transactions() as u64,
        };
    }

    /// Something is written where copies are supposed: all but one would be deleted.
    pub fn see_write(&mut self) {
        if self.kept.is_none() {
            self.counts.deletes += self.by.copies() as u64 - 1;
        }
    }
}
