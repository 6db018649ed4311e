//! What a coordinator must not forget: ids, epochs, owners, settings.
//!
//! Written before anything that depends on it is told to anyone, and checked when it is read: a
//! coordinator that starts from a state that contradicts itself would do more harm than none.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_types::map::{ClusterMap, MapDocument, MapError, ServerEntry};
use evenkeel_types::{BootId, CacheletId, Epoch, Instant, WorkerRef};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::config::{ConfigError, CoordinatorConfig};
use super::drain::Drain;
use super::fence::{Electorate, Electorates, Fence};
use super::limits::{DRAIN_RATE, ELECTORATES_MAX, EPOCH_MAX, FORMER_LIVES_MAX};
use super::members::Server;
use super::migrating::Migrations;
use super::placing::Slot;
use super::plans::{Plans, SavedPlans};
use super::quarantine::{Deaths, SavedDeath};
use super::{CoordinatorCore, Settings};

/// Everything that outlives the coordinator's process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedState {
    /// The cluster it belongs to.
    pub cluster: String,
    /// See [`HeartbeatAnswer::lineage`](super::HeartbeatAnswer::lineage).
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
}

/// A server that has registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedServer {
    /// As in the map, but for whether it is [leaving](ServerEntry::leaving).
    pub entry: ServerEntry,
    /// Its former lives, oldest first, at most [`FORMER_LIVES_MAX`].
    pub former: Vec<BootId>,
    /// Whether it is to be emptied.
    #[serde(default)]
    pub draining: bool,
    /// Whether it is so because its process was told to end.
    #[serde(default)]
    pub ending: bool,
    /// Oldest map that its present life may work by.
    #[serde(default)]
    pub works_by_at_least: Epoch,
    /// Oldest map by which other servers may let it serve.
    #[serde(default)]
    pub votes_from: Epoch,
    /// See [`Heartbeat::leased`](super::Heartbeat::leased).
    #[serde(default)]
    pub leased: bool,
    /// Whether its process is known to have ended as it should.
    #[serde(default)]
    pub over: bool,
    /// Whether its name is forgotten, and its id waits for another.
    #[serde(default)]
    pub forgotten: bool,
    /// Whether it can pass cachelets on with their contents.
    #[serde(default)]
    pub migrates: bool,
}

impl SavedServer {
    fn fence(&self) -> Fence {
        let mut fence = Fence::restore(self.works_by_at_least, self.votes_from, self.leased);
        if self.forgotten || self.over {
            // It or an operator has said so, or there is nothing that it could serve.
            fence.end();
        }
        fence
    }

    fn in_map(&self) -> ServerEntry {
        ServerEntry {
            leaving: self.draining,
            ..self.entry.clone()
        }
    }
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
    pub(super) fn document(&self) -> Option<MapDocument> {
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

impl CoordinatorCore {
    /// A coordinator that goes on where a former one has stopped. Servers that were up then get a
    /// whole silence to report again, so that a restart moves nothing.
    ///
    /// # Errors
    ///
    /// The configuration is unusable, or the state is not sound or belongs to another cluster.
    pub fn restore(
        config: CoordinatorConfig,
        state: SavedState,
        now: Instant,
    ) -> Result<Self, RestoreError> {
        state.validate(&config.cluster)?;
        let mut state = state;
        state.since.resize(state.cachelets.len(), state.epoch);
        state.stay.resize(state.cachelets.len(), state.epoch);
        let mut core = CoordinatorCore::new(config, state.lineage, now)?;
        core.map = match state.document() {
            Some(document) => Some(Arc::new(
                ClusterMap::new(document).map_err(StateError::from)?,
            )),
            None => None,
        };
        core.epoch = state.epoch;
        // What a former coordinator had begun to even out goes on.
        core.has_wishes = true;
        core.settings = state.settings;
        core.virtual_nodes = state.virtual_nodes;
        core.migrations = Migrations::restore(now, &state.cachelets);
        core.slots = state.cachelets;
        core.since = state.since;
        core.stay = state.stay;
        core.accounts = state.accounts;
        core.plans = Plans::new(state.plans);
        core.electorates = Electorates::restore(state.electorates);
        core.taken_over = state.taken_over;
        core.deaths = Deaths::restore(now, state.deaths);
        core.servers = state
            .servers
            .into_iter()
            .map(|saved| Server {
                fence: saved.fence(),
                entry: saved.entry,
                former: saved.former,
                drain: saved.draining.then(|| match saved.ending {
                    true => Drain::of_its_end(now),
                    false => Drain::new(now, DRAIN_RATE),
                }),
                applied: Epoch(0),
                migrates: saved.migrates,
                asks_for_moves: false,
                last_heard: now,
                last_reached: None,
                is_forgotten: saved.forgotten,
                load: Vec::new(),
            })
            .collect();
        core.note_empty_servers();
        Ok(core)
    }

    /// What must be saved. O(servers + virtual nodes).
    pub fn saved_state(&self) -> SavedState {
        SavedState {
            cluster: self.config.cluster.clone(),
            lineage: self.lineage,
            epoch: self.epoch,
            settings: self.settings,
            servers: self
                .servers
                .iter()
                .map(|server| SavedServer {
                    entry: server.entry.clone(),
                    former: server.former.clone(),
                    draining: server.drain.is_some(),
                    ending: server.drain.is_some_and(|drain| drain.is_of_its_end()),
                    works_by_at_least: server.fence.works_by_at_least,
                    votes_from: server.fence.votes_from,
                    leased: server.fence.leased,
                    over: server.fence.is_over(),
                    forgotten: server.is_forgotten,
                    migrates: server.migrates,
                })
                .collect(),
            virtual_nodes: self.virtual_nodes.clone(),
            cachelets: self.slots.clone(),
            since: self.since.clone(),
            stay: self.stay.clone(),
            merged: Vec::new(),
            accounts: self.accounts.clone(),
            plans: self.plans.saved.clone(),
            electorates: self.electorates.saved(),
            taken_over: self.taken_over,
            deaths: self.deaths.saved(),
        }
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
