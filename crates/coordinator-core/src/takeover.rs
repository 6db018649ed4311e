//! Taking the map over from the servers: what a coordinator does that has lost its state, or never had one, when it hears
//! of servers that work by a map of its predecessor.
//!
//! Whatever a predecessor told anyone it had saved before, and nothing of a map counts before it is told. So the newest map that any server has is
//! as good as its predecessor's last state, and the coordinator goes on from there: with the same lineage, and after a jump of
//! epochs, so that none is used twice, whatever a server has heard that is not there. What no map
//! tells is lost: settings go back to their defaults, but for what readers of replicas are promised, and accounts of what moved because of
//! its load are closed.
//!
//! It *collects* for a while: each server whose heartbeat names a map is a witness, and anyone who was told the newest
//! map is asked for it. The map is taken over when all servers that are up by it have come, or, after a silence, more than half of them: fewer
//! could be a part that is cut off from the others and their coordinator. A server that has begun a new life has come, too, for its old one is over.
//!
//! A server that has *not* come may work by a newer map, by which something is its own that is nobody's or another's here, or an older
//! one. So what such servers have by the map that is taken over, and what nobody has, is given to nobody before every server works by
//! the maps made from here on, has ceased to serve, or was removed; it begins anew then.
//!
//! That a predecessor is gone, a coordinator cannot know. Its members do: they offer their map only where they
//! heard from a coordinator before, and two processes do not listen at one address.

use core::time::Duration;
use std::collections::BTreeMap;

use evenkeel_control::{Heartbeat, MapOffer, MemberKind, Refusal};
use evenkeel_hotkeys::settings::Settings;
use evenkeel_types::map::{ClusterMap, Migration, SERVERS_MAX, ServerEntry};
use evenkeel_types::{BootId, CacheletId, Epoch, Instant, ServerId, WorkerRef};

use crate::changes::SavedChanges;
use crate::config::CoordinatorConfig;
use crate::event::{Cause, Change};
use crate::limits::{EPOCH_MAX, TAKEOVER_EPOCHS};
use crate::members::{Electorate, SavedServer};
use crate::placing::{Moving, Purpose, Slot};
use crate::plans::SavedPlans;
use crate::state::SavedState;

/// The map of a predecessor, while there is none here and servers work by it.
#[derive(Debug, Default)]
pub(crate) struct Takeover(Option<Collecting>);

/// What was heard of a predecessor's map.
#[derive(Debug)]
struct Collecting {
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

impl Collecting {
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
    fn is_due(&self, now: Instant, silent: Duration) -> Option<&ClusterMap> {
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

    /// The map as the state of a coordinator.
    fn state_of(
        &self,
        map: &ClusterMap,
        config: &CoordinatorConfig,
        settings: &Settings,
    ) -> SavedState {
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
            works_by_at_least: self.works_by_at_least(entry),
            votes_from: self.works_by_at_least(entry),
            // Its next heartbeat says so.
            leased: false,
            over: false,
            forgotten: false,
            migrates: false,
        };
        let is_missing = |worker: &WorkerRef| {
            let server = map.server(worker.server);
            server.is_none_or(|server| server.up && !self.has_come(server))
        };
        let released = |by| Slot::Released { by, epoch };
        let slot = |(cachelet, owner): (u16, &Option<WorkerRef>)| match owner {
            None if map.is_quarantined(CacheletId(cachelet)) => Slot::Quarantined {
                by: ServerId(0),
                epoch,
                died: None,
            },
            // No matter who let go of it, all others are waited for.
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
        SavedState {
            cluster: config.cluster.clone(),
            lineage: self.lineage,
            epoch,
            settings: Settings {
                hot_keys_consistency: map
                    .promise()
                    .map_or_else(Default::default, |it| it.consistency),
                lease_ms: map.promise().map(|it| it.lease_ms),
                ..*settings
            },
            servers: document.servers.iter().map(server).collect(),
            virtual_nodes: document.virtual_nodes.clone(),
            cachelets: (0u16..).zip(&document.cachelets).map(slot).collect(),
            since: document.since.clone(),
            stay: document.stay.clone(),
            merged: Vec::new(),
            accounts: BTreeMap::new(),
            plans: SavedPlans::of_mode(config.plan_mode),
            electorates: vec![Electorate {
                from: map.epoch(),
                servers: map.servers_up().map(|server| server.id).collect(),
            }],
            taken_over: Epoch(0),
            deaths: Vec::new(),
            changes: SavedChanges::default(),
            scale: None,
        }
    }
}

impl Takeover {
    /// Whether a map is to be taken over, and not enough witnesses of it have come.
    pub(crate) fn is_collecting(&self) -> bool {
        self.0.is_some()
    }

    /// Hears a heartbeat as a witness, where there is no map. Gives what the member is told as long as the map is not taken
    /// over: it has to wait, or is asked for its map; nothing where there is nothing to take over.
    pub(crate) fn handle(
        &mut self,
        now: Instant,
        silent: Duration,
        heartbeat: &Heartbeat,
    ) -> Result<Option<Refusal>, Refusal> {
        self.forget_witnesses(now, silent);
        let newest = heartbeat.told.max(heartbeat.epoch);
        let names_a_map = (1..=EPOCH_MAX).contains(&newest.0) && heartbeat.lineage.is_some();
        let is_server = heartbeat.kind == MemberKind::Server;
        if let (None, true, Some(lineage)) = (&self.0, names_a_map && is_server, heartbeat.lineage)
        {
            self.0 = Some(Collecting {
                lineage,
                began: now,
                map: None,
                witnesses: BTreeMap::new(),
            });
        }
        let Some(takeover) = &mut self.0 else {
            return match names_a_map {
                false => Ok(None),
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
                heard: now,
            };
            witnesses.insert(heartbeat.name.clone(), witness);
        }
        let known = takeover.map.as_ref().map_or(Epoch(0), |map| map.epoch());
        let is_wanted = is_server && newest > known;
        Ok(Some(match is_wanted {
            true => Refusal::MapWanted,
            false => Refusal::TakingOver,
        }))
    }

    /// Takes a map that a witness has; whatever else is offered is ignored. Gives whether it is the newest so far.
    pub(crate) fn handle_offer(&mut self, offer: &MapOffer) -> bool {
        let Some(takeover) = &mut self.0 else {
            return false;
        };
        let witness = takeover.witnesses.get(&offer.name);
        let is_witness = witness.is_some_and(|witness| witness.boot == offer.boot);
        let known = takeover.map.as_ref().map_or(Epoch(0), |map| map.epoch());
        let is_news = is_witness && offer.lineage == takeover.lineage && offer.map.epoch > known;
        let Some(map) = is_news
            .then(|| ClusterMap::new(offer.map.clone()).ok())
            .flatten()
        else {
            return false;
        };
        takeover.map = Some(map);
        true
    }

    /// What to go on from, if it is time; nothing is collected any more then.
    pub(crate) fn finish(
        &mut self,
        now: Instant,
        config: &CoordinatorConfig,
        settings: &Settings,
    ) -> Option<(SavedState, Change)> {
        self.forget_witnesses(now, config.silent);
        let takeover = self.0.as_ref()?;
        let map = takeover.is_due(now, config.silent)?;
        let state = takeover.state_of(map, config, settings);
        let servers = map.servers().iter();
        let come = servers.filter(|server| takeover.has_come(server));
        let change = Change::of_cachelets(
            Cause::MapTakenOver,
            come.map(|server| server.id).collect(),
            map.document().cachelets.len(),
        );
        self.0 = None;
        Some((state, change))
    }

    /// Who has fallen silent is no witness any more; without one that names a map there is nothing to take over.
    fn forget_witnesses(&mut self, now: Instant, silent: Duration) {
        if let Some(takeover) = &mut self.0 {
            let witnesses = &mut takeover.witnesses;
            witnesses.retain(|_, witness| now.since(witness.heard) < silent);
            if witnesses.values().all(|witness| witness.told == Epoch(0)) {
                self.0 = None;
            }
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
