//! Who is a member: registering, returning, restarting, and what is refused.

mod drain;
mod drains;
mod electorates;
mod fence;
mod fencing;
mod names;
mod saved;
mod served;
mod server;
mod silence;
mod worker_name;

use core::mem;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use evenkeel_control::{Heartbeat, MemberKind, Refusal};
use evenkeel_types::map::SERVERS_MAX;
use evenkeel_types::{Epoch, Instant, ServerId, WorkerRef};

use crate::event::Cause;
use crate::limits;
use crate::map_draft::MapDraft;
use electorates::Electorates;
use names::Joins;
use served::ServedSince;
use server::entry_of;

pub(crate) use drain::Drain;
pub use drain::{DrainRefusal, DrainRequest, DrainView, DrainsView};
pub use electorates::Electorate;
pub use names::{RemoveRefusal, RemovedView};
pub use saved::SavedServer;
pub use served::ServedView;
pub(crate) use server::{Proxy, Server};
pub use worker_name::WorkerName;

/// All members.
#[derive(Debug)]
pub(crate) struct Members {
    /// A member silent for this long is down.
    silent: Duration,
    /// When this coordinator began: before a silence has passed since then it knows of no proxy that it is not there.
    began: Instant,
    /// By id.
    servers: Vec<Server>,
    joins: Joins,
    /// By name.
    proxies: BTreeMap<String, Proxy>,
    /// Who was up, by which maps.
    electorates: Electorates,
    /// Since it was last found out which servers find no votes, one has confirmed a map or a map was made.
    has_refusal_news: bool,
}

impl Members {
    /// Nobody is known.
    pub(crate) fn new(silent: Duration, now: Instant) -> Self {
        Members {
            silent,
            began: now,
            servers: Vec::new(),
            joins: Joins::default(),
            proxies: BTreeMap::new(),
            electorates: Electorates::default(),
            has_refusal_news: true,
        }
    }

    /// Those that a former coordinator has saved.
    pub(crate) fn restore(
        silent: Duration,
        now: Instant,
        servers: Vec<SavedServer>,
        electorates: Vec<Electorate>,
    ) -> Self {
        let servers = servers.into_iter().map(|saved| saved.restore(now));
        Members {
            servers: servers.collect(),
            electorates: Electorates::restore(electorates),
            ..Members::new(silent, now)
        }
    }

    /// Those of this coordinator, from before it took a map over, are members on.
    pub(crate) fn inherit(&mut self, before: &mut Members) {
        self.began = before.began;
        self.proxies = mem::take(&mut before.proxies);
    }

    /// What is to be saved of servers.
    pub(crate) fn saved_servers(&self) -> Vec<SavedServer> {
        self.servers.iter().map(SavedServer::from).collect()
    }

    /// What is to be saved of who was up.
    pub(crate) fn saved_electorates(&self) -> Vec<Electorate> {
        self.electorates.saved()
    }

    /// All servers, by id, those included whose name is forgotten.
    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The servers that are up.
    pub(crate) fn up(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(|server| server.entry.up)
    }

    pub(crate) fn server(&self, id: ServerId) -> &Server {
        &self.servers[usize::from(id.0)]
    }

    /// What tests make a server to be.
    #[cfg(test)]
    pub(crate) fn edit(&mut self, id: ServerId) -> &mut Server {
        self.server_mut(id)
    }

    fn server_mut(&mut self, id: ServerId) -> &mut Server {
        &mut self.servers[usize::from(id.0)]
    }

    /// The proxies that were heard of lately, by name.
    pub(crate) fn proxies(&self) -> &BTreeMap<String, Proxy> {
        &self.proxies
    }

    /// Servers that take cachelets of others.
    pub(crate) fn takers(&self) -> impl Iterator<Item = ServerId> {
        let takers = self.servers.iter().filter(|server| server.takes());
        takers.map(|server| server.entry.id)
    }

    /// The server that has a name and was not forgotten.
    pub(crate) fn named(&self, name: &str) -> Option<ServerId> {
        let mut servers = self.servers.iter();
        let is_it = |server: &&Server| !server.is_forgotten && server.entry.name == name;
        servers.find(is_it).map(|server| server.entry.id)
    }

    /// The server that has a name, or had it and may come back.
    pub(crate) fn known_as(&self, name: &str) -> Option<&Server> {
        self.servers.iter().find(|server| server.entry.name == name)
    }

    /// The worker of that name, if there is one.
    pub(crate) fn worker_named(&self, name: &WorkerName) -> Option<WorkerRef> {
        let server = self.known_as(&name.server)?;
        let is_there = usize::from(name.worker) < server.entry.worker_ports.len();
        is_there.then_some(WorkerRef {
            server: server.entry.id,
            worker: name.worker,
        })
    }

    pub(crate) fn name_of(&self, worker: WorkerRef) -> WorkerName {
        WorkerName {
            server: self.server(worker.server).entry.name.clone(),
            worker: worker.worker,
        }
    }

    /// Whether a heartbeat speaks for a process that is not known, and that may have the name.
    pub(crate) fn is_new_process(&self, now: Instant, heartbeat: &Heartbeat) -> bool {
        let is_new = |known: &Server| {
            known.entry.boot != heartbeat.boot && self.check_holder(now, known, heartbeat).is_ok()
        };
        heartbeat.kind == MemberKind::Server && self.known_as(&heartbeat.name).is_none_or(is_new)
    }

    /// Registers a new name, under an id that is free if there is one.
    pub(crate) fn join(
        &mut self,
        now: Instant,
        heartbeat: &Heartbeat,
        (free, initial_servers): (Option<ServerId>, usize),
        draft: &mut MapDraft,
    ) -> Result<ServerId, Refusal> {
        if heartbeat.epoch > Epoch(0) {
            let name = heartbeat.name.clone();
            return Err(Refusal::Forgotten { name });
        }
        let position = free.map_or(self.servers.len(), |id| usize::from(id.0));
        if position == SERVERS_MAX {
            return Err(Refusal::TooManyServers);
        }
        self.check_room_for_workers(heartbeat, None)?;
        self.check_address(heartbeat, None)?;
        if self.servers.len() >= initial_servers && !self.joins.take(now) {
            return Err(Refusal::TooManyJoins);
        }
        // SERVERS_MAX positions fit u16.
        let id = ServerId(position as u16);
        let server = Server::new(now, id, heartbeat, draft.next_epoch());
        match self.servers.get_mut(position) {
            Some(free) => *free = server,
            None => self.servers.push(server),
        }
        draft.note_server(Cause::ServerJoined, id);
        Ok(id)
    }

    /// A sign of life of the process that is known under that name. Gives whether it was taken to be down.
    pub(crate) fn handle_again(
        &mut self,
        id: ServerId,
        heartbeat: &Heartbeat,
        draft: &mut MapDraft,
    ) -> Result<bool, Refusal> {
        let server = self.server(id);
        let was_up = server.entry.up;
        let mut entry = entry_of(id, heartbeat, server.entry.since);
        entry.up = was_up;
        if entry != server.entry {
            let name = heartbeat.name.clone();
            return Err(Refusal::ChangedInOneLife { name });
        }
        if !was_up {
            self.check_address(heartbeat, Some(id))?;
            let server = self.server_mut(id);
            server.entry.up = true;
            server.entry.since = draft.next_epoch();
            server.fence.come_back(draft.next_epoch());
            draft.note_server(Cause::ServerReturned, id);
        }
        Ok(!was_up)
    }

    /// Another process under a known name: a restart, or two servers that were given one name. The name has one holder: it
    /// passes on once the present life has said that it ends, or was not heard
    /// for a [part](limits::NAME_HELD_PER_SILENCE) of the silence after which it is down.
    pub(crate) fn check_restart(
        &self,
        now: Instant,
        id: ServerId,
        heartbeat: &Heartbeat,
    ) -> Result<(), Refusal> {
        self.check_holder(now, self.server(id), heartbeat)?;
        self.check_room_for_workers(heartbeat, Some(id))?;
        self.check_address(heartbeat, Some(id))
    }

    /// The name passes to another process, which owns what the former one did. Gives how many workers it has.
    pub(crate) fn restart(
        &mut self,
        id: ServerId,
        heartbeat: &Heartbeat,
        draft: &mut MapDraft,
    ) -> usize {
        let next = draft.next_epoch();
        let server = self.server_mut(id);
        if server.former.len() == limits::FORMER_LIVES_MAX {
            server.former.remove(0);
        }
        server.former.push(server.entry.boot);
        let workers_before = server.entry.worker_ports.len();
        server.entry = entry_of(id, heartbeat, next);
        server.fence = fence::Fence::new(next);
        server.applied = Epoch(0);
        let workers = server.entry.worker_ports.len();
        draft.note_server(Cause::ServerRestarted, id);
        if server.drain.is_some_and(|drain| drain.is_of_its_end()) {
            self.set_drain(id, None, draft);
        }
        draft.begin_new_life(id, (workers != workers_before).then_some(workers));
        workers
    }

    /// Takes in what a heartbeat says of a server that is up. Gives whether something of it is to be saved.
    pub(crate) fn handle(&mut self, now: Instant, id: ServerId, heartbeat: &Heartbeat) -> bool {
        let server = self.server_mut(id);
        server.last_heard = now;
        server.is_forgotten = false;
        // Saved, so that a coordinator that takes over does not take away what could be moved.
        let is_news = server.migrates != heartbeat.migrates;
        server.migrates = heartbeat.migrates;
        server.asks_for_moves = heartbeat.asks_for_moves;
        server.applied = server.applied.max(heartbeat.epoch);
        server.load.clone_from(&heartbeat.load.requests_per_second);
        let confirms = server.fence.handle(heartbeat.leased, heartbeat.epoch);
        self.has_refusal_news |= confirms;
        is_news
    }

    /// The process of a server has ended, which serves nothing any more: it is down from now on, and what it still owns goes to others at
    /// once. Nothing is given to it before another process has taken its name.
    pub(crate) fn handle_goodbye(&mut self, id: ServerId, draft: &mut MapDraft) {
        let server = self.server_mut(id);
        server.entry.up = false;
        server.entry.since = draft.next_epoch();
        server.fence.end();
        server.load.clear();
        draft.note_server(Cause::ServerLeft, id);
    }

    /// A server has become the owner of a cachelet, perhaps after it went down.
    pub(crate) fn own_again(&mut self, id: ServerId) {
        self.server_mut(id).fence.own_again();
    }

    /// Whether another process may have the name.
    fn check_holder(
        &self,
        now: Instant,
        holder: &Server,
        heartbeat: &Heartbeat,
    ) -> Result<(), Refusal> {
        if holder.former.contains(&heartbeat.boot) {
            return Err(Refusal::DuplicateName {
                name: heartbeat.name.clone(),
                boot: heartbeat.boot,
            });
        }
        let held = self.silent / limits::NAME_HELD_PER_SILENCE;
        if holder.entry.up && now.since(holder.last_heard) < held {
            return Err(Refusal::NameTaken {
                name: heartbeat.name.clone(),
                host: holder.entry.host.clone(),
                port: holder.entry.port,
            });
        }
        Ok(())
    }

    fn check_room_for_workers(
        &self,
        heartbeat: &Heartbeat,
        myself: Option<ServerId>,
    ) -> Result<(), Refusal> {
        let others: usize = self
            .others(myself)
            .map(|server| server.entry.worker_ports.len())
            .sum();
        if others + heartbeat.worker_ports.len() > limits::WORKERS_TOTAL_MAX {
            return Err(Refusal::TooManyWorkers);
        }
        Ok(())
    }

    /// Two servers that are up cannot have one address.
    fn check_address(
        &self,
        heartbeat: &Heartbeat,
        myself: Option<ServerId>,
    ) -> Result<(), Refusal> {
        let mine: BTreeSet<u16> = ports(heartbeat.port, &heartbeat.worker_ports).collect();
        let same_host = |s: &&Server| s.entry.up && s.entry.host == heartbeat.host;
        for server in self.others(myself).filter(same_host) {
            let theirs = ports(server.entry.port, &server.entry.worker_ports);
            if let Some(port) = theirs.into_iter().find(|port| mine.contains(port)) {
                return Err(Refusal::AddressTaken {
                    host: heartbeat.host.clone(),
                    port,
                    owner: server.entry.name.clone(),
                });
            }
        }
        Ok(())
    }

    fn others(&self, myself: Option<ServerId>) -> impl Iterator<Item = &Server> {
        let servers = self.servers.iter();
        servers.filter(move |server| Some(server.entry.id) != myself)
    }

    /// Takes in the heartbeat of a proxy.
    pub(crate) fn handle_proxy(
        &mut self,
        now: Instant,
        heartbeat: &Heartbeat,
    ) -> Result<(), Refusal> {
        let known = self.proxies.get(&heartbeat.name).map(|known| known.boot);
        if known.is_none() && self.proxies.len() == limits::PROXIES_MAX {
            return Err(Refusal::TooManyProxies);
        }
        if !heartbeat.leaves {
            let before = self.proxies.remove(&heartbeat.name);
            let before = before.filter(|before| before.boot == heartbeat.boot);
            let proxy = Proxy::new(now, heartbeat, before);
            self.proxies.insert(heartbeat.name.clone(), proxy);
        } else if known == Some(heartbeat.boot) {
            // Another process may have taken its name already.
            self.proxies.remove(&heartbeat.name);
        }
        Ok(())
    }

    /// What all proxies have told since this was last asked, which is this long ago. O(proxies).
    pub(crate) fn take_served(&mut self, time: Duration) -> ServedView {
        let mut all = ServedSince::default();
        for proxy in self.proxies.values_mut() {
            let since = mem::take(&mut proxy.served_since);
            proxy.served = since.view(time);
            all.add(&since);
        }
        all.view(time)
    }

    /// An operator says that the process of a proxy has ended: it is forgotten.
    pub(crate) fn remove_proxy(&mut self, name: &str) {
        self.proxies.remove(name);
    }

    /// An operator says that the process of a server that is down has ended: it is forgotten.
    pub(crate) fn remove(&mut self, id: ServerId, draft: &mut MapDraft) {
        self.server_mut(id).fence.end();
        self.forget(id, draft);
    }

    /// Forgets those who have been gone for long and own nothing. O(servers), and O(cachelets) for each of those.
    pub(crate) fn forget_gone(&mut self, now: Instant, draft: &mut MapDraft) {
        for position in 0..self.servers.len() {
            let server = &self.servers[position];
            let id = server.entry.id;
            let is_gone = !server.entry.up
                && !server.is_forgotten
                && now.since(server.last_heard) >= limits::FORGET_AFTER;
            if is_gone && draft.cachelets_of(id) == 0 {
                self.forget(id, draft);
            }
        }
    }

    fn forget(&mut self, id: ServerId, draft: &mut MapDraft) {
        let server = self.server_mut(id);
        server.is_forgotten = true;
        server.drain = None;
        draft.note_server(Cause::ServerForgotten, id);
    }

    /// Ids of forgotten names whose holders may come back and have them.
    pub(crate) fn forgotten(&self) -> impl Iterator<Item = ServerId> {
        let forgotten = self.servers.iter().filter(|server| server.is_forgotten);
        forgotten.map(|server| server.entry.id)
    }
}

fn ports(port: u16, worker_ports: &[u16]) -> impl Iterator<Item = u16> {
    core::iter::once(port).chain(worker_ports.iter().copied())
}
