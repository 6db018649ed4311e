//! What a coordinator must not forget: ids, epochs, owners, settings.
//!
//! Written before anything that depends on it is told to anyone, and checked when it is read: a
//! coordinator that starts from a state that contradicts itself would do more harm than none.

use std::collections::BTreeMap;

use evenkeel_hotkeys::settings::Settings;
use evenkeel_types::map::{MapDocument, MapError};
use evenkeel_types::{CacheletId, Epoch, WorkerRef};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::changes::SavedChanges;
use crate::config::ConfigError;
use crate::limits::{ELECTORATES_MAX, EPOCH_MAX, FORMER_LIVES_MAX};
use crate::map_draft::MapContents;
use crate::members::{Electorate, SavedServer};
use crate::placing::Slot;
use crate::plans::SavedPlans;
use crate::quarantine::SavedDeath;
use crate::scale::LedScale;

/// Everything that outlives the coordinator's process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedState {
    /// The cluster it belongs to.
    pub cluster: String,
    /// See [`HeartbeatAnswer::lineage`](crate::HeartbeatAnswer::lineage).
    pub lineage: u64,
    /// Epoch of the newest map; 0 before the first.
    pub epoch: Epoch,
    /// The operator's choices.
    pub settings: Settings,
    /// Every server that has registered and whose id no other has got since; its position is its id.
    pub servers: Vec<SavedServer>,
    /// Cachelet of each virtual node; empty before the first map.
    pub virtual_nodes: Vec<CacheletId>,
    /// Owner of each cachelet; empty before the first map.
    pub cachelets: Vec<Slot>,
    /// For each cachelet the epoch from which on its contents have gone on: see [`MapDocument::since`]. A state
    /// of a version that did not keep it has none: then nothing is taken to be older than its epoch.
    #[serde(default)]
    pub since: Vec<Epoch>,
    /// For each cachelet what names its stay with its owner: see [`MapDocument::stay`]. As long as `since`.
    #[serde(default)]
    pub stay: Vec<Epoch>,
    /// What former versions kept of cachelets that they had merged. A state with any is refused: what it says of how long
    /// contents have gone on is not all of it.
    #[serde(default, skip_serializing)]
    pub merged: Vec<IgnoredAny>,
    /// Cachelets that moved because of their load, and the workers in whose shares they still count.
    #[serde(default)]
    pub accounts: BTreeMap<CacheletId, WorkerRef>,
    /// What was chosen about plans, and the open one.
    #[serde(default)]
    pub plans: SavedPlans,
    /// Which servers were up by the maps that servers may still work by.
    #[serde(default)]
    pub electorates: Vec<Electorate>,
    /// First map that was made after the map was taken over from servers; 0 where it never was.
    #[serde(default)]
    pub taken_over: Epoch,
    /// Who has died lately, and with what.
    #[serde(default)]
    pub deaths: Vec<SavedDeath>,
    /// The changes of pools, and who follows them.
    #[serde(default)]
    pub changes: SavedChanges,
    /// How the number of servers follows what is measured, where an operator has set it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<LedScale>,
}

/// Why a state cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// It belongs to another cluster.
    #[error("use the state of cluster {found:?} for cluster {expected:?}")]
    WrongCluster {
        /// The state's cluster.
        found: String,
        /// The configured one.
        expected: String,
    },
    /// Its map is not sound.
    #[error(transparent)]
    BadMap(#[from] MapError),
    /// It contradicts itself.
    #[error("use the state: {what}")]
    Contradiction {
        /// What is wrong with it.
        what: &'static str,
    },
}

impl SavedState {
    /// The newest map, or `None` before the first.
    pub(crate) fn document(&self) -> Option<MapDocument> {
        (self.epoch > Epoch(0)).then(|| MapDocument {
            epoch: self.epoch,
            promise: self.settings.promise(),
            servers: self.servers.iter().map(SavedServer::in_map).collect(),
            virtual_nodes: self.virtual_nodes.clone(),
            cachelets: self.cachelets.iter().map(|slot| slot.owner()).collect(),
            since: self.since.clone(),
            stay: self.stay.clone(),
            migrations: (0u16..)
                .zip(&self.cachelets)
                .filter_map(|(cachelet, slot)| slot.migration(CacheletId(cachelet)))
                .collect(),
            quarantined: (0u16..)
                .zip(&self.cachelets)
                .filter(|(_, slot)| slot.is_quarantined())
                .map(|(cachelet, _)| CacheletId(cachelet))
                .collect(),
        })
    }

    /// What it says of cachelets, taken out of it.
    pub(crate) fn take_contents(&mut self) -> MapContents {
        let cachelets = self.cachelets.len();
        self.since.resize(cachelets, self.epoch);
        self.stay.resize(cachelets, self.epoch);
        MapContents {
            epoch: self.epoch,
            taken_over: self.taken_over,
            virtual_nodes: core::mem::take(&mut self.virtual_nodes),
            slots: core::mem::take(&mut self.cachelets),
            since: core::mem::take(&mut self.since),
            stay: core::mem::take(&mut self.stay),
            accounts: core::mem::take(&mut self.accounts),
        }
    }

    /// Checks that the state belongs to `cluster` and agrees with itself.
    ///
    /// # Errors
    ///
    /// The first rule that it breaks.
    pub fn validate(&self, cluster: &str) -> Result<(), StateError> {
        if self.cluster != cluster {
            return Err(StateError::WrongCluster {
                found: self.cluster.clone(),
                expected: cluster.to_owned(),
            });
        }
        let contradiction = |what| Err(StateError::Contradiction { what });
        let ids_dense = (0u32..)
            .zip(&self.servers)
            .all(|(i, server)| u32::from(server.entry.id.0) == i);
        if !ids_dense {
            return contradiction("a server's id is not its position");
        }
        let too_many_lives = |s: &SavedServer| s.former.len() > FORMER_LIVES_MAX;
        if self.servers.iter().any(too_many_lives) {
            return contradiction("a server has too many former lives");
        }
        if !self.merged.is_empty() {
            return contradiction("cachelets were merged, which this version does not do");
        }
        if self.epoch.0 > EPOCH_MAX {
            return contradiction("the epoch is absurdly large");
        }
        if self.settings.unsound().is_some() {
            return contradiction("a setting is out of range");
        }
        if self.plans.settings.validate().is_err() {
            return contradiction("a setting of plans is out of range");
        }
        let mapless = self.virtual_nodes.is_empty() && self.cachelets.is_empty();
        if mapless != (self.epoch == Epoch(0)) {
            return contradiction("there is an epoch without a map or a map without an epoch");
        }
        let servers = self.servers.len();
        let release_sound = |slot: &Slot| match *slot {
            // As sound as the map says below.
            Slot::Owned(_) | Slot::Moving(_) => true,
            Slot::Released { by, epoch } => usize::from(by.0) < servers && epoch <= self.epoch,
            Slot::Quarantined { by, epoch, died } => {
                let mut lives = died.iter().flatten();
                let is_known = lives.all(|life| usize::from(life.server.0) < servers);
                is_known && usize::from(by.0) < servers && epoch <= self.epoch
            }
        };
        if !self.cachelets.iter().all(release_sound) {
            return contradiction("a released cachelet has an unknown owner or a future epoch");
        }
        let cachelets = self.cachelets.len();
        let mut nodes = vec![0_usize; self.cachelets.len()];
        for cachelet in &self.virtual_nodes {
            match nodes.get_mut(usize::from(cachelet.0)) {
                Some(count) => *count += 1,
                None => {
                    return contradiction("a virtual node is in a cachelet that does not exist");
                }
            }
        }
        if nodes.contains(&0) {
            return contradiction("a cachelet has no virtual node");
        }
        let has_account = |cachelet: &CacheletId| usize::from(cachelet.0) < cachelets;
        if !self.accounts.keys().all(has_account) {
            return contradiction("a cachelet that does not exist counts in a share");
        }
        if self.electorates.len() > ELECTORATES_MAX
            || self.electorates.iter().any(|it| it.from > self.epoch)
            || !self.electorates.is_sorted_by(|a, b| a.from < b.from)
        {
            return contradiction("what it says of who was up is in no order");
        }
        let is_sound = |death: &SavedDeath| {
            let mut nodes = death.virtual_nodes.iter();
            usize::from(death.life.server.0) < servers
                && nodes.all(|node| usize::from(node.0) < self.virtual_nodes.len())
        };
        if !self.deaths.iter().all(is_sound) {
            return contradiction("an unknown server has died, or with what does not exist");
        }
        if let Some(what) = self.changes.contradiction() {
            return contradiction(what);
        }
        let scale = self.scale.as_ref();
        if let Some(what) = scale.and_then(|scale| scale.contradiction(cluster)) {
            return contradiction(what);
        }
        // Before the first map, a map of one virtual node that nobody owns checks the servers.
        let document = self.document().unwrap_or_else(|| MapDocument {
            epoch: Epoch(1),
            promise: None,
            servers: self.servers.iter().map(|s| s.entry.clone()).collect(),
            virtual_nodes: vec![CacheletId(0)],
            cachelets: vec![None],
            since: Vec::new(),
            stay: Vec::new(),
            migrations: Vec::new(),
            quarantined: Vec::new(),
        });
        Ok(document.validate()?)
    }
}

/// Why a coordinator cannot go on from a saved state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The configuration is unusable.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The state is unusable.
    #[error(transparent)]
    State(#[from] StateError),
}
