//! From what was heard to the next map: who is silent or has ceased to serve, what is placed and moved, and the map that
//! says so.

use std::sync::Arc;

use evenkeel_types::map::{ClusterMap, cachelets_per_worker};
use evenkeel_types::{CacheletId, Instant, Now, ServerId, WorkerRef};

use super::CoordinatorCore;
use crate::event::{Cause, Change, MapEvent};
use crate::map_draft::Suspects;
use crate::members::Server;
use crate::migrating::{MigrationEnd, MigrationRefusal, Order};
use crate::placing::{self, Parties, Purpose};
use crate::plans::Cluster;

impl CoordinatorCore {
    /// Everything that follows from a call: who is silent now, which cachelets can move, and one
    /// new map for all of it.
    pub(super) fn finish(&mut self, now: Now) {
        let at = now.monotonic;
        self.members.mark_silent(at, &mut self.draft);
        self.migrations.tend(at, &mut self.members, &mut self.draft);
        self.tend_plans(now);
        for gone in self.changes.tend(now) {
            self.members.remove_proxy(&gone);
        }
        self.scale(now);
        self.revision += u64::from(self.changes.take_news());
        if self.history.is_due(at) {
            let loads = self.server_loads(at);
            let served = self.members.take_served(self.history.since_last(at));
            let name = |server| self.members.server(server).entry.name.as_str();
            self.history
                .note(now, self.draft.slots().len(), (&loads, served), name);
        }
        self.place(at);
        self.plans.handle_ends(at, self.migrations.take_ends());
        self.members.forget_gone(at, &mut self.draft);
        self.revision += u64::from(self.deaths.forget_old(at));
        if !self.draft.has_changes() {
            return;
        }
        self.revision += 1;
        match self.draft.is_empty() {
            true => drop(self.draft.take_changes()),
            false => self.publish(now),
        }
    }

    /// Makes the next map, with all changes so far.
    pub(super) fn publish(&mut self, now: Now) {
        self.draft.advance();
        self.members.note_electorate(&self.draft);
        self.members.note_empty(&self.draft);
        let document = self.saved_state().document();
        let document = document.expect("the epoch is above 0, so there is a map");
        let map = ClusterMap::new(document)
            .expect("members are checked against the limits of a map, slots name known workers");
        self.map = Some(Arc::new(map));
        for change in self.draft.take_changes() {
            self.note_event(now, change);
        }
    }

    fn note_event(&mut self, now: Now, change: Change) {
        *self.counters.map_changes.entry(change.cause).or_default() += 1;
        let name = |id: &ServerId| self.members.server(*id).entry.name.clone();
        self.events.push(MapEvent {
            epoch: self.draft.epoch(),
            unix_s: now.unix,
            cause: change.cause,
            servers: change.servers.iter().map(name).collect(),
            cachelets: change.cachelets,
            named: change.named,
        });
    }

    /// Looks at the loads, and goes on with the open plan.
    fn tend_plans(&mut self, now: Now) {
        self.plans
            .handle_ends(now.monotonic, self.migrations.take_ends());
        let mut cluster = Cluster {
            members: &self.members,
            loads: &self.loads,
            draft: &mut self.draft,
            migrations: &mut self.migrations,
        };
        self.revision += u64::from(self.plans.tend(now, &mut cluster));
    }

    /// Makes the first placement when it is time, or the next moves of a later one.
    fn place(&mut self, now: Instant) {
        if self.draft.is_empty() {
            if self.servers_up() >= self.config.initial_servers {
                let takers = self.takers();
                let wanted = self.config.cachelets_per_worker;
                let per_worker =
                    wanted.unwrap_or_else(|| self.cachelets_carried(now, takers.len()));
                self.draft.place_first(&takers, per_worker);
            }
            return;
        }
        self.give_up_ceased(now);
        // Without a change, only cachelets in transit and servers that are drained can have something to do.
        let has_leavers = self.leavers(now).next().is_some();
        let wishes = core::mem::take(&mut self.has_wishes) || has_leavers;
        if !self.draft.has_changes() && self.cachelets_in_transit() == 0 && !wishes {
            return;
        }
        let parties = self.parties(now);
        let contents = self.draft.contents();
        let taken_over = contents.taken_over;
        // Before every server follows it is not certain that nobody has what nobody owned when the map was taken over.
        let all_follow = self.members.all_follow(now, taken_over);
        let plan = placing::plan(
            &contents.slots,
            &contents.accounts,
            &parties,
            |server, epoch| {
                let server = self.members.server(server);
                let is_sure = epoch >= taken_over || all_follow;
                is_sure && (server.applied >= epoch || server.has_ceased(now))
            },
        );
        self.apply(now, &plan);
    }

    /// Takes the cachelets from servers that have ceased to serve, if there is anybody to give them to.
    fn give_up_ceased(&mut self, now: Instant) {
        for id in self.members.give_up_ceased(now) {
            let suspects = self.note_death(now, id);
            let moving = self.draft.moving_from(id);
            for &cachelet in &moving {
                // The target may have been told that the cachelet is its own.
                let end = (cachelet, MigrationEnd::SourceLost);
                self.migrations
                    .end(now, end, &mut self.members, &mut self.draft);
            }
            let given_up = moving.len() + self.draft.release_all_of(id);
            if given_up > 0 {
                self.draft.note(Change {
                    cachelets: given_up,
                    ..Change::of_server(Cause::ServerFenced, id)
                });
            }
            self.draft.withhold(&suspects);
        }
    }

    /// A server is about to lose what it owns, without having said so before. Gives what is to be withheld.
    pub(super) fn note_death(&mut self, now: Instant, id: ServerId) -> Suspects {
        let server = self.members.server(id);
        let conclusion = self.deaths.note(now, server, &self.draft);
        self.counters.quarantines_omitted += u64::from(conclusion.is_omitted);
        conclusion.suspects
    }

    /// Cachelets for each of this many workers, by the memory of which their servers have told.
    fn cachelets_carried(&self, now: Instant, workers: usize) -> usize {
        let loads = self.server_loads(now);
        let memory_bytes = loads.iter().map(|load| load.memory_limit_bytes).sum();
        cachelets_per_worker(memory_bytes, workers)
    }

    /// The workers that may get or lose cachelets, in ascending order.
    pub(super) fn takers(&self) -> Vec<WorkerRef> {
        let workers_of = |server: &Server| {
            let id = server.entry.id;
            // WORKERS_MAX fits u16.
            (0..server.entry.worker_ports.len() as u16)
                .map(move |worker| WorkerRef { server: id, worker })
        };
        let takers = self.members.servers().iter();
        let takers = takers.filter(|server| server.takes());
        takers.flat_map(workers_of).collect()
    }

    /// The servers that have to give their cachelets up, and how many they may give at this time.
    fn leavers(&self, now: Instant) -> impl Iterator<Item = (ServerId, usize)> {
        let allowed = move |server: &Server| Some((server.entry.id, server.drain?.allowed(now)));
        self.members.up().filter_map(allowed)
    }

    /// Who may get cachelets at this time, and who has to give them up. O(workers).
    fn parties(&self, now: Instant) -> Parties {
        let (members, draft, settings) = (&self.members, &self.draft, self.plan_settings());
        // Anyone who was told to end has little time.
        let mut drains = members.servers().iter().filter_map(|server| server.drain);
        let most = match drains.any(|drain| drain.is_of_its_end()) {
            true => settings.migrations_max,
            false => settings.migrations_per_server_max,
        };
        let under_way = self.migrations.count();
        Parties {
            takers: self.takers(),
            leavers: self.leavers(now).collect(),
            migrating: self.migrations.room(most, members, draft),
            migrations_max: settings.migrations_max.saturating_sub(under_way),
            immovable: self.migrations.immovable(),
            loads: self.loads.of_drained(now, members, draft),
        }
    }

    fn apply(&mut self, now: Instant, plan: &placing::Plan) {
        self.begin_share_moves(now, &plan.moves);
        for by in self.draft.release(&plan.releases) {
            self.members.note_taken(by);
        }
        self.draft.grant(&plan.grants);
        for &(cachelet, _) in &plan.grants {
            // CACHELETS_MAX positions fit u16.
            self.migrations.forget_failure(CacheletId(cachelet as u16));
        }
    }

    /// Begins to move cachelets for the sake of even shares.
    fn begin_share_moves(&mut self, now: Instant, moves: &[(usize, WorkerRef)]) {
        for &(cachelet, to) in moves {
            // CACHELETS_MAX positions fit u16.
            let cachelet = CacheletId(cachelet as u16);
            let order = Order {
                cachelet,
                to,
                bytes_per_second: self.plan_settings().bytes_per_second,
                purpose: Purpose::Share,
            };
            let from = self.draft.owner_of(cachelet);
            let begun = (self.migrations).begin(now, &order, &self.members, &mut self.draft);
            match (begun, from) {
                (Ok(_), Some(from)) => self.members.note_taken(from.server),
                (Ok(_), None) => {}
                // With a later map it may go.
                (Err(MigrationRefusal::JustPlaced { .. }), _) => self.has_wishes = true,
                (Err(_), _) => self.migrations.note_failure(cachelet),
            }
        }
    }
}
