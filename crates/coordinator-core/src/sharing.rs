//! Carries out what [`placing`] plans: the first placement, cachelets that are released and granted, and moves for
//! the sake of even shares.

use std::collections::BTreeSet;

use evenkeel_types::map::cachelets_per_worker;
use evenkeel_types::{CacheletId, Instant, WorkerRef};

use super::event::Cause;
use super::members::Server;
use super::migrating::MigrationRefusal;
use super::placing::{self, Parties, Purpose, Slot};
use super::{Change, CoordinatorCore};

impl CoordinatorCore {
    /// Makes the first placement when it is time, or the next moves of a later one.
    pub(super) fn place(&mut self, now: Instant, changes: &mut Vec<Change>) {
        if self.slots.is_empty() {
            if self.servers_up() >= self.config.initial_servers {
                let takers = self.parties(now).takers;
                let wanted = self.config.cachelets_per_worker;
                let per_worker =
                    wanted.unwrap_or_else(|| self.cachelets_carried(now, takers.len()));
                (self.virtual_nodes, self.slots) = placing::first_placement(&takers, per_worker);
                self.since = vec![self.next_epoch(); self.slots.len()];
                self.stay = self.since.clone();
                changes.clear();
                changes.push(Change {
                    cause: Cause::MapCreated,
                    servers: takers.iter().map(|worker| worker.server).collect(),
                    cachelets: self.slots.len(),
                    named: Vec::new(),
                });
            }
            return;
        }
        self.give_up_ceased(now, changes);
        // Without a change, only cachelets in transit and servers that are drained can have something to do.
        let parties = self.parties(now);
        let wishes = core::mem::take(&mut self.has_wishes) || !parties.leavers.is_empty();
        if changes.is_empty() && self.cachelets_in_transit() == 0 && !wishes {
            return;
        }
        let (servers, all_follow) = (&self.servers, self.all_follow_takeover(now));
        let plan = placing::plan(&self.slots, &self.accounts, &parties, |server, epoch| {
            let server = &servers[usize::from(server.0)];
            let is_sure = epoch >= self.taken_over || all_follow;
            is_sure && (server.applied >= epoch || server.has_ceased(now))
        });
        self.carry_out(now, &plan, changes);
    }

    /// Cachelets for each of so many workers, by the memory of which their servers have told.
    fn cachelets_carried(&self, now: Instant, workers: usize) -> usize {
        let loads = self.server_loads(now);
        let memory_bytes = loads.iter().map(|load| load.memory_limit_bytes).sum();
        cachelets_per_worker(memory_bytes, workers)
    }

    fn carry_out(&mut self, now: Instant, plan: &placing::Plan, changes: &mut Vec<Change>) {
        self.begin_share_moves(now, &plan.moves, changes);
        if !plan.releases.is_empty() {
            let next = self.next_epoch();
            let mut former = BTreeSet::new();
            for &cachelet in &plan.releases {
                if let Slot::Owned(owner) = self.slots[cachelet] {
                    let by = owner.server;
                    self.slots[cachelet] = Slot::Released { by, epoch: next };
                    former.insert(by);
                    if let Some(drain) = &mut self.servers[usize::from(by.0)].drain {
                        drain.take(1);
                    }
                }
            }
            changes.push(Change {
                cause: Cause::CacheletsReleased,
                servers: former,
                cachelets: plan.releases.len(),
                named: Vec::new(),
            });
        }
        if !plan.grants.is_empty() {
            for &(cachelet, worker) in &plan.grants {
                self.slots[cachelet] = Slot::Owned(worker);
                self.begin_anew(cachelet);
                // CACHELETS_MAX positions fit u16.
                let id = CacheletId(cachelet as u16);
                self.accounts.remove(&id);
                self.migrations.forget_failure(id);
            }
            changes.push(Change {
                cause: Cause::CacheletsGranted,
                servers: plan
                    .grants
                    .iter()
                    .map(|(_, worker)| worker.server)
                    .collect(),
                cachelets: plan.grants.len(),
                named: Vec::new(),
            });
        }
    }

    /// Who may get cachelets at this time, and who has to give them up.
    pub(super) fn parties(&self, now: Instant) -> Parties {
        let workers_of = |server: &Server| {
            let id = server.entry.id;
            // WORKERS_MAX fits u16.
            (0..server.entry.worker_ports.len() as u16)
                .map(move |worker| WorkerRef { server: id, worker })
        };
        let up = || self.servers.iter().filter(|server| server.entry.up);
        let takers = up().filter(|server| server.drain.is_none());
        let leavers = up().filter_map(|server| Some((server.entry.id, server.drain?.allowed(now))));
        Parties {
            takers: takers.flat_map(workers_of).collect(),
            leavers: leavers.collect(),
            migrating: self.room_for_migrations(),
            migrations_max: self.migrations_left(),
            immovable: self.migrations.immovable(),
            loads: self.loads_of_drained(now),
        }
    }

    /// Begins to move cachelets for the sake of even shares.
    fn begin_share_moves(
        &mut self,
        now: Instant,
        moves: &[(usize, WorkerRef)],
        changes: &mut Vec<Change>,
    ) {
        let rate = self.plan_settings().bytes_per_second;
        for &(cachelet, to) in moves {
            // CACHELETS_MAX positions fit u16.
            let cachelet = CacheletId(cachelet as u16);
            let from = self.owner_of(cachelet);
            match self.begin(now, cachelet, to, rate, Purpose::Share, changes) {
                Ok(_) => {
                    let source = from.map(|from| &mut self.servers[usize::from(from.server.0)]);
                    if let Some(drain) = source.and_then(|source| source.drain.as_mut()) {
                        drain.take(1);
                    }
                }
                // With a later map it may go.
                Err(MigrationRefusal::JustPlaced { .. }) => self.has_wishes = true,
                Err(_) => self.migrations.note_failure(cachelet),
            }
        }
    }
}
