//! Taking the map over from the servers: what a coordinator does that has lost its state, or never had one, when it hears
//! of servers that work by a map of its predecessor.
//!
//! Whatever a predecessor told anyone it had saved before, and nothing of a map counts before it is told. So the newest map that any server has is
//! as good as its predecessor's last state, and the coordinator goes on from there: with the same lineage, and after a jump of
//! epochs, so that none is used twice, whatever a server has heard that is not there. What no map
//! tells is lost: settings go back to their defaults, but for what readers of replicas are promised, and accounts of what moved because of
//! its load are closed.
//!
//! It *collects* for a while: each server whose heartbeat names a map is a witness, and whoever was told the newest
//! map is asked for it. The map is taken over when all servers that are up by it have come, or, after a silence, more than half of them: fewer
//! could be a part that is cut off from the others and their coordinator. A server that has begun a new life has come, too, for its old one is over.
//!
//! A server that has *not* come may work by a newer map, by which something is its own that is nobody's or another's here, or an older
//! one. So what such servers have by the map that is taken over, and what nobody has, is given to nobody before every server works by
//! the maps made from here on, has ceased to serve, or was removed; it begins anew then.
//!
//! That a predecessor is gone, a coordinator cannot know. Its members do: they offer their map only where they
//! heard from a coordinator before, and two processes do not listen at one address.

use std::collections::BTreeMap;

use evenkeel_types::map::{ClusterMap, Migration, SERVERS_MAX, ServerEntry};
use evenkeel_types::{BootId, CacheletId, Epoch, Instant, Now, ServerId, WorkerRef};

use super::event::Cause;
use super::fence::Electorate;
use super::limits::{EPOCH_MAX, TAKEOVER_EPOCHS};
use super::placing::{Moving, Purpose, Slot};
use super::plans::SavedPlans;
use super::state::{SavedServer, SavedState};
use super::{Change, CoordinatorCore, Settings};
use evenkeel_control::Refusal;
use evenkeel_control::{Heartbeat, MapOffer, MemberKind};

/// What was heard of a predecessor's map.
#[derive(Debug)]
pub(super) struct Takeover {
    lineage: u64,
    began: Instant,
    /// The newest that was offered.
    map: Option<ClusterMap>,
    /// By name, at most [`SERVERS_MAX`].
    witnesses: BTreeMap<String, Witness>,
}

/// A server that has come.
#[derive(Debug)]
struct Witness {
    boot: BootId,
    /// The map that it works by; 0 for a new life.
    works_by: Epoch,
    /// The newest that it was told.
    told: Epoch,
    heard: Instant,
}

impl Takeover {
    /// Whether a server of the map has come.
    fn has_come(&self, server: &ServerEntry) -> bool {
        self.witnesses.contains_key(&server.name)
    }

    /// Oldest map that a server's present life may work by.
    fn works_by_at_least(&self, server: &ServerEntry) -> Epoch {
        let witness = self.witnesses.get(&server.name);
        let its = witness.filter(|witness| witness.boot == server.boot);
        its.map_or(server.since, |witness| witness.works_by.max(server.since))
    }

    /// The map to go on from, if it is time.
    fn is_due(&self, now: Instant, silent: core::time::Duration) -> Option<&ClusterMap> {
        let map = self.map.as_ref()?;
        let newest = self.witnesses.values().map(|witness| witness.told).max()?;
        let come = map
            .servers_up()
            .filter(|server| self.has_come(server))
            .count();
        let are_all = come == map.servers_up_count();
        let are_most = 2 * come > map.servers_up_count() && now.since(self.began) >= silent;
        (map.epoch() >= newest && (are_all || are_most)).then_some(map)
    }
}

impl CoordinatorCore {
    /// Hears a heartbeat as a witness, as long as there is no map here. A refusal says that the member has to wait, or is asked for its map.
    pub(super) fn hear_witness(&mut self, now: Now, heartbeat: &Heartbeat) -> Result<(), Refusal> {
        if self.epoch > Epoch(0) {
            return Ok(());
        }
        self.forget_witnesses(now.monotonic);
        let newest = heartbeat.told.max(heartbeat.epoch);
        let names_a_map = (1..=EPOCH_MAX).contains(&newest.0) && heartbeat.lineage.is_some();
        let is_server = heartbeat.kind == MemberKind::Server;
        if let (None, true, Some(lineage)) =
            (&self.takeover, names_a_map && is_server, heartbeat.lineage)
        {
            self.takeover = Some(Takeover {
                lineage,
                began: now.monotonic,
                map: None,
                witnesses: BTreeMap::new(),
            });
        }
        let Some(takeover) = &mut self.takeover else {
            return match names_a_map {
                false => Ok(()),
                // A proxy's, which was faster than servers.
                true => Err(Refusal::TakingOver),
            };
        };
        if newest > Epoch(0) && heartbeat.lineage != Some(takeover.lineage) {
            return Err(Refusal::ForeignMap);
        }
        let witnesses = &mut takeover.witnesses;
        let has_room = witnesses.len() < SERVERS_MAX || witnesses.contains_key(&heartbeat.name);
        if is_server && newest.0 <= EPOCH_MAX && has_room {
            let witness = Witness {
                boot: heartbeat.boot,
                works_by: heartbeat.epoch,
                told: newest,
                heard: now.monotonic,
            };
            witnesses.insert(heartbeat.name.clone(), witness);
        }
        let known = takeover.map.as_ref().map_or(Epoch(0), |map| map.epoch());
        let is_wanted = is_server && newest > known;
        self.try_to_take_over(now);
        match () {
            () if self.takeover.is_none() => Ok(()),
            () if is_wanted => Err(Refusal::MapWanted),
            () => Err(Refusal::TakingOver),
        }
    }

    /// Takes a map that a witness has; whatever else is offered is ignored.
    pub fn handle_map_offer(&mut self, now: Now, offer: &MapOffer) {
        let Some(takeover) = &mut self.takeover else {
            return;
        };
        let witness = takeover.witnesses.get(&offer.name);
        let is_witness = witness.is_some_and(|witness| witness.boot == offer.boot);
        let known = takeover.map.as_ref().map_or(Epoch(0), |map| map.epoch());
        let is_news = is_witness && offer.lineage == takeover.lineage && offer.map.epoch > known;
        if is_news && let Ok(map) = ClusterMap::new(offer.map.clone()) {
            takeover.map = Some(map);
            self.try_to_take_over(now);
        }
    }

    /// Goes on from the witnesses' map, if it is time.
    pub(super) fn try_to_take_over(&mut self, now: Now) {
        self.forget_witnesses(now.monotonic);
        let Some(takeover) = &self.takeover else {
            return;
        };
        let Some(map) = takeover.is_due(now.monotonic, self.config.silent) else {
            return;
        };
        let state = self.state_of(takeover, map);
        let servers = map
            .servers()
            .iter()
            .filter(|server| takeover.has_come(server));
        let change = Change {
            cause: Cause::MapTakenOver,
            servers: servers.map(|server| server.id).collect(),
            cachelets: map.document().cachelets.len(),
            named: Vec::new(),
        };
        self.takeover = None;
        // A map that this coordinator could not have made is not taken over.
        let restored = CoordinatorCore::restore(self.config.clone(), state, now.monotonic);
        if let Ok(mut core) = restored {
            core.leader = self.leader;
            core.revision = self.revision + 1;
            core.began = self.began;
            core.counters = self.counters.clone();
            core.proxies = core::mem::take(&mut self.proxies);
            core.taken_over = core.next_epoch();
            *self = core;
            self.publish(now, vec![change]);
        }
    }

    /// Whether every server works by the maps that this coordinator makes, or serves nothing: before that it is not certain that
    /// nobody has what nobody owned when the map was taken over. O(servers).
    pub(super) fn all_follow_takeover(&self, now: Instant) -> bool {
        let follows = |server: &super::Server| {
            server.fence.works_by_at_least >= self.taken_over || server.has_ceased(now)
        };
        self.servers.iter().all(follows)
    }

    /// Who has fallen silent is no witness any more; without one that names a map there is nothing to take over.
    fn forget_witnesses(&mut self, now: Instant) {
        let silent = self.config.silent;
        if let Some(takeover) = &mut self.takeover {
            let witnesses = &mut takeover.witnesses;
            witnesses.retain(|_, witness| now.since(witness.heard) < silent);
            if witnesses.values().all(|witness| witness.told == Epoch(0)) {
                self.takeover = None;
            }
        }
    }

    fn state_of(&self, takeover: &Takeover, map: &ClusterMap) -> SavedState {
        let document = map.document();
        // One that is beyond what is believed is not restored.
        let epoch = Epoch(map.epoch().0.saturating_add(TAKEOVER_EPOCHS));
        let server = |entry: &ServerEntry| SavedServer {
            entry: ServerEntry {
                leaving: false,
                ..entry.clone()
            },
            former: Vec::new(),
            draining: entry.leaving,
            // An operator may have wished it; then it is said again.
            ending: entry.leaving,
            works_by_at_least: takeover.works_by_at_least(entry),
            votes_from: takeover.works_by_at_least(entry),
            // Its next heartbeat says so.
            leased: false,
            over: false,
            forgotten: false,
            migrates: false,
        };
        let is_missing = |worker: &WorkerRef| {
            let server = map.server(worker.server);
            server.is_none_or(|server| server.up && !takeover.has_come(server))
        };
        let released = |by| Slot::Released { by, epoch };
        let slot = |(cachelet, owner): (u16, &Option<WorkerRef>)| match owner {
            None if map.is_quarantined(CacheletId(cachelet)) => Slot::Quarantined {
                by: ServerId(0),
                epoch,
                died: None,
            },
            // Whoever let go of it, all others are waited for.
            None => released(ServerId(0)),
            Some(owner) => match map.migration(CacheletId(cachelet)) {
                Some(migration) if is_missing(owner) || is_missing(&migration.to) => {
                    released(owner.server)
                }
                Some(migration) => Slot::Moving(moving(map, *owner, migration)),
                None if is_missing(owner) => released(owner.server),
                None => Slot::Owned(*owner),
            },
        };
        let mut plans = SavedPlans::default();
        plans.settings.mode = self.config.plan_mode;
        SavedState {
            cluster: self.config.cluster.clone(),
            lineage: takeover.lineage,
            epoch,
            settings: Settings {
                hot_keys_consistency: map
                    .promise()
                    .map_or_else(Default::default, |it| it.consistency),
                lease_ms: map.promise().map(|it| it.lease_ms),
                ..self.settings
            },
            servers: document.servers.iter().map(server).collect(),
            virtual_nodes: document.virtual_nodes.clone(),
            cachelets: (0u16..).zip(&document.cachelets).map(slot).collect(),
            since: document.since.clone(),
            stay: document.stay.clone(),
            merged: Vec::new(),
            accounts: BTreeMap::new(),
            plans,
            electorates: vec![Electorate {
                from: map.epoch(),
                servers: map.servers_up().map(|server| server.id).collect(),
            }],
            taken_over: Epoch(0),
            deaths: Vec::new(),
        }
    }
}

fn moving(map: &ClusterMap, from: WorkerRef, migration: &Migration) -> Moving {
    let target = map.server(migration.to.server);
    Moving {
        from,
        to: migration.to,
        began: migration.began,
        cancelled: migration.cancelled,
        bytes_per_second: migration.bytes_per_second,
        purpose: Purpose::Share,
        // Since then it has begun a new life, or was taken to be down.
        target_restarted: target.is_none_or(|target| target.since > migration.began),
        doubted_from: None,
    }
}
