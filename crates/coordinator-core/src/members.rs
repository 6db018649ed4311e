//! Who is a member: registering, returning, restarting, and what is refused.

use std::collections::BTreeSet;

use evenkeel_types::map::{SERVERS_MAX, ServerEntry};
use evenkeel_types::{BootId, Epoch, Instant, ServerId};

use super::drain::Drain;
use super::event::Cause;
use super::fence::Fence;
use super::placing::Slot;
use super::{Change, CoordinatorCore, limits};
use evenkeel_control::Refusal;
use evenkeel_control::{Heartbeat, MemberKind};

/// A server that has registered.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) entry: ServerEntry,
    pub(super) former: Vec<BootId>,
    /// It is to be emptied.
    pub(super) drain: Option<Drain>,
    /// Newest map that the present life is known to work by.
    pub(super) applied: Epoch,
    /// See [`Heartbeat::migrates`].
    pub(super) migrates: bool,
    /// See [`Heartbeat::asks_for_moves`].
    pub(super) asks_for_moves: bool,
    pub(super) last_heard: Instant,
    /// When its process last answered where others reach it, while it was not heard of: see `silence`.
    pub(super) last_reached: Option<Instant>,
    /// Its name is not known any more, and its id is free once nothing means it: see `names`.
    pub(super) is_forgotten: bool,
    /// What is known of whether it serves when it is down.
    pub(super) fence: Fence,
    pub(super) load: Vec<f64>,
}

/// A proxy that is a member.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) boot: BootId,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) rack: Option<String>,
    pub(super) applied: Epoch,
    /// See [`Heartbeat::config_hash`].
    pub(super) config_hash: Option<String>,
    pub(super) last_heard: Instant,
    pub(super) load: Vec<f64>,
}

impl CoordinatorCore {
    /// Checks whether a heartbeat makes sense and is meant for this cluster.
    pub(super) fn check_sender(&self, heartbeat: &Heartbeat) -> Result<(), Refusal> {
        if heartbeat.cluster != self.config.cluster {
            return Err(Refusal::WrongCluster {
                ours: self.config.cluster.clone(),
                theirs: heartbeat.cluster.chars().take(SHOWN_CLUSTER_LEN).collect(),
            });
        }
        heartbeat.validate()
    }

    /// Checks whether the map that a member works by is of this coordinator.
    pub(super) fn check_map(&self, heartbeat: &Heartbeat) -> Result<(), Refusal> {
        if heartbeat.epoch == Epoch(0) {
            return Ok(());
        }
        if heartbeat
            .lineage
            .is_some_and(|lineage| lineage != self.lineage)
        {
            return Err(Refusal::ForeignMap);
        }
        if heartbeat.epoch > self.epoch {
            return Err(Refusal::FutureEpoch {
                claimed: heartbeat.epoch,
                newest: self.epoch,
            });
        }
        Ok(())
    }

    pub(super) fn handle_server(
        &mut self,
        now: Instant,
        heartbeat: &Heartbeat,
        changes: &mut Vec<Change>,
    ) -> Result<ServerId, Refusal> {
        let known = self
            .servers
            .iter()
            .position(|s| s.entry.name == heartbeat.name);
        let position = match known {
            None => self.join(now, heartbeat, changes)?,
            Some(position) if self.servers[position].entry.boot == heartbeat.boot => {
                self.hear_again(position, heartbeat, changes)?
            }
            Some(position) => self.restart(now, position, heartbeat, changes)?,
        };
        let id = self.servers[position].entry.id;
        self.hear_of_migrations(now, (id, heartbeat.epoch), &heartbeat.migrations, changes);
        let server = &mut self.servers[position];
        server.last_heard = now;
        server.is_forgotten = false;
        // Saved, so that a coordinator that takes over does not take away what could be moved.
        self.revision += u64::from(server.migrates != heartbeat.migrates);
        server.migrates = heartbeat.migrates;
        server.asks_for_moves = heartbeat.asks_for_moves;
        server.applied = server.applied.max(heartbeat.epoch);
        server.load.clone_from(&heartbeat.load.requests_per_second);
        self.hear_of_leases(position, heartbeat);
        self.counters.server_heartbeats += 1;
        let server = &self.servers[position];
        let entry = &server.entry;
        let size = (entry.id, entry.worker_ports.len(), self.slots.len());
        self.loads.hear(now, size, heartbeat.load.measured.as_ref());
        let who = (entry.id, entry.name.as_str(), entry.boot);
        let workers = entry.worker_ports.len();
        self.hot_keys
            .hear(who, workers, heartbeat.hot_keys.as_ref());
        if heartbeat.ending {
            self.hear_ending(now, position, changes);
        }
        if heartbeat.leaves {
            self.hear_goodbye(id, changes);
        }
        Ok(id)
    }

    /// The process of a server has ended, which serves nothing any more: it is down from now on, and what it still owns goes to others at
    /// once. Nothing is given to it before another process has taken its name.
    fn hear_goodbye(&mut self, id: ServerId, changes: &mut Vec<Change>) {
        let next = self.next_epoch();
        let server = &mut self.servers[usize::from(id.0)];
        server.entry.up = false;
        server.entry.since = next;
        server.fence.end();
        server.load.clear();
        changes.push(Change::of_server(Cause::ServerLeft, id));
    }

    /// Whether this heartbeat would be believed and speaks for a process that is not known: whoever passes it on should
    /// find out first that it is there.
    pub fn is_doubted(&self, now: Instant, heartbeat: &Heartbeat) -> bool {
        let mut servers = self.servers.iter();
        let known = servers.find(|server| server.entry.name == heartbeat.name);
        let is_new = |known: &Server| {
            known.entry.boot != heartbeat.boot && self.check_holder(now, known, heartbeat).is_ok()
        };
        heartbeat.kind == MemberKind::Server
            && self.check_sender(heartbeat).is_ok()
            && known.is_none_or(is_new)
    }

    /// Registers a new name.
    fn join(
        &mut self,
        now: Instant,
        heartbeat: &Heartbeat,
        changes: &mut Vec<Change>,
    ) -> Result<usize, Refusal> {
        if heartbeat.epoch > Epoch(0) {
            let name = heartbeat.name.clone();
            return Err(Refusal::Forgotten { name });
        }
        let position = self.free_id().unwrap_or(self.servers.len());
        if position == SERVERS_MAX {
            return Err(Refusal::TooManyServers);
        }
        self.check_room_for_workers(heartbeat, None)?;
        self.check_address(heartbeat, None)?;
        if self.servers.len() >= self.config.initial_servers && !self.joins.take(now) {
            return Err(Refusal::TooManyJoins);
        }
        // SERVERS_MAX positions fit u16.
        let id = ServerId(position as u16);
        let next = self.next_epoch();
        let server = Server {
            entry: entry_of(id, heartbeat, next),
            fence: Fence::new(next),
            former: Vec::new(),
            drain: None,
            applied: Epoch(0),
            migrates: heartbeat.migrates,
            asks_for_moves: heartbeat.asks_for_moves,
            last_heard: now,
            last_reached: None,
            is_forgotten: false,
            load: Vec::new(),
        };
        match self.servers.get_mut(position) {
            Some(free) => *free = server,
            None => self.servers.push(server),
        }
        changes.push(Change::of_server(Cause::ServerJoined, id));
        Ok(position)
    }

    /// A sign of life of the process that is known under that name.
    fn hear_again(
        &mut self,
        position: usize,
        heartbeat: &Heartbeat,
        changes: &mut Vec<Change>,
    ) -> Result<usize, Refusal> {
        let next = self.next_epoch();
        let server = &self.servers[position];
        let was_up = server.entry.up;
        let mut entry = entry_of(server.entry.id, heartbeat, server.entry.since);
        entry.up = was_up;
        if entry != server.entry {
            let name = heartbeat.name.clone();
            return Err(Refusal::ChangedInOneLife { name });
        }
        if !was_up {
            self.check_address(heartbeat, Some(position))?;
            let server = &mut self.servers[position];
            server.entry.up = true;
            server.entry.since = next;
            let boot = server.entry.boot;
            server.fence.come_back(next);
            changes.push(Change::of_server(Cause::ServerReturned, server.entry.id));
            self.note_alive(boot, changes);
        }
        Ok(position)
    }

    /// Another process under a known name: a restart, or two servers that were given one name. The name has one holder: it
    /// passes on once the present life has said that it ends, or was not heard
    /// for a [part](limits::NAME_HELD_PER_SILENCE) of the silence after which it is down.
    fn restart(
        &mut self,
        now: Instant,
        position: usize,
        heartbeat: &Heartbeat,
        changes: &mut Vec<Change>,
    ) -> Result<usize, Refusal> {
        self.check_holder(now, &self.servers[position], heartbeat)?;
        self.check_room_for_workers(heartbeat, Some(position))?;
        self.check_address(heartbeat, Some(position))?;
        let next = self.next_epoch();
        let id = self.servers[position].entry.id;
        let suspects = self.note_death(now, id);
        let server = &mut self.servers[position];
        if server.former.len() == limits::FORMER_LIVES_MAX {
            server.former.remove(0);
        }
        server.former.push(server.entry.boot);
        let workers_before = server.entry.worker_ports.len();
        server.entry = entry_of(id, heartbeat, next);
        server.fence = Fence::new(next);
        server.applied = Epoch(0);
        let workers = server.entry.worker_ports.len();
        changes.push(Change::of_server(Cause::ServerRestarted, id));
        let server = &mut self.servers[position];
        if server
            .drain
            .take_if(|drain| drain.is_of_its_end())
            .is_some()
        {
            changes.push(Change::of_server(Cause::DrainEnded, id));
        }
        self.begin_new_life(id, (workers != workers_before).then_some(workers));
        self.migrations_meet_new_life(now, id, workers, changes);
        self.withhold(&suspects, changes);
        Ok(position)
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
        let held = self.config.silent / limits::NAME_HELD_PER_SILENCE;
        if holder.entry.up && now.since(holder.last_heard) < held {
            return Err(Refusal::NameTaken {
                name: heartbeat.name.clone(),
                host: holder.entry.host.clone(),
                port: holder.entry.port,
            });
        }
        Ok(())
    }

    /// What a restarted server owned begins anew, spread over its workers where their number is another. The
    /// new life holds nothing yet, so there is nothing to let go of.
    fn begin_new_life(&mut self, id: ServerId, new_workers: Option<usize>) {
        // WORKERS_MAX fits u16.
        let mut next = (0..new_workers.unwrap_or(0) as u16).cycle();
        for cachelet in 0..self.slots.len() {
            if let Slot::Owned(owner) = &mut self.slots[cachelet]
                && owner.server == id
            {
                owner.worker = next.next().unwrap_or(owner.worker);
                self.begin_anew(cachelet);
            }
        }
        if new_workers.is_some() {
            self.accounts.retain(|_, account| account.server != id);
        }
    }

    fn check_room_for_workers(
        &self,
        heartbeat: &Heartbeat,
        myself: Option<usize>,
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
    fn check_address(&self, heartbeat: &Heartbeat, myself: Option<usize>) -> Result<(), Refusal> {
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

    fn others(&self, myself: Option<usize>) -> impl Iterator<Item = &Server> {
        self.servers
            .iter()
            .enumerate()
            .filter(move |(position, _)| Some(*position) != myself)
            .map(|(_, server)| server)
    }

    pub(super) fn handle_proxy(
        &mut self,
        now: Instant,
        heartbeat: &Heartbeat,
    ) -> Result<(), Refusal> {
        if !self.proxies.contains_key(&heartbeat.name) && self.proxies.len() == limits::PROXIES_MAX
        {
            return Err(Refusal::TooManyProxies);
        }
        let proxy = Proxy {
            boot: heartbeat.boot,
            host: heartbeat.host.clone(),
            port: heartbeat.port,
            rack: heartbeat.rack.clone(),
            applied: heartbeat.epoch,
            config_hash: heartbeat.config_hash.clone(),
            last_heard: now,
            load: heartbeat.load.requests_per_second.clone(),
        };
        self.counters.proxy_heartbeats += 1;
        if !heartbeat.leaves {
            self.proxies.insert(heartbeat.name.clone(), proxy);
        } else if self
            .proxies
            .get(&heartbeat.name)
            .is_some_and(|known| known.boot == heartbeat.boot)
        {
            // Another process may have taken its name already.
            self.proxies.remove(&heartbeat.name);
        }
        Ok(())
    }
}

/// Characters of a foreign cluster's name that a refusal repeats.
const SHOWN_CLUSTER_LEN: usize = 64;

fn entry_of(id: ServerId, heartbeat: &Heartbeat, since: Epoch) -> ServerEntry {
    ServerEntry {
        id,
        name: heartbeat.name.clone(),
        host: heartbeat.host.clone(),
        port: heartbeat.port,
        worker_ports: heartbeat.worker_ports.clone(),
        rack: heartbeat.rack.clone(),
        boot: heartbeat.boot,
        up: true,
        since,
        leaving: false,
    }
}

fn ports(port: u16, worker_ports: &[u16]) -> impl Iterator<Item = u16> {
    core::iter::once(port).chain(worker_ports.iter().copied())
}
