//! Draining: a server is emptied before it is taken away.
//!
//! Its cachelets go to the other servers at a chosen rate, with their contents where that is possible; the others
//! have to be filled again there, which is not to come at once. It serves what it still owns meanwhile, and gets nothing new. A
//! drain outlives the coordinator, and the server: under its name a server stays drained until an operator says otherwise.
//!
//! That a server owns nothing is not enough to stop it: who works by an older map goes on asking it, and is told there
//! where to go. So a drain is over only when every member that is up has confirmed a map that gives the server nothing
//! ([`CoordinatorCore::drains`]). From the beginning of a drain on maps say that the server is
//! [leaving](evenkeel_types::map::ServerEntry::leaving), so that no replicas of hot keys are there, either. Who is
//! not heard of is not waited for, but named.

use std::collections::BTreeMap;

use evenkeel_types::{CacheletId, Epoch, Instant, Now, ServerId};
use serde::{Deserialize, Serialize};

use super::event::Cause;
use super::members::Server;
use super::placing::Slot;
use super::{Change, CoordinatorCore, limits};

/// An operator's wish to empty a server, or to stop that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// The server's name.
    pub server: String,
    /// Whether it is to be emptied; false lets it take part again.
    pub drain: bool,
    /// Cachelets that it gives up in a second, 1 to [`limits::DRAIN_RATE_MAX`].
    #[serde(default = "default_rate")]
    pub cachelets_per_second: u32,
}

fn default_rate() -> u32 {
    limits::DRAIN_RATE
}

/// How far a drain has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainView {
    /// The server's name.
    pub server: String,
    /// Whether it is drained.
    pub draining: bool,
    /// Cachelets that it still owns, has given up and nobody has yet, or that were on their way to it and may yet come.
    pub cachelets: usize,
    /// Members that are up and may still ask it, because they have not confirmed a map that gives it nothing. Of a server
    /// that owns something, none are told.
    #[serde(default)]
    pub awaited: Vec<String>,
    /// Proxies of which the same is true, and which have not been heard of for so long that they count as down.
    #[serde(default)]
    pub unheard: Vec<String>,
    /// Whether it can be stopped and nobody that is up will ask it for anything.
    #[serde(default)]
    pub may_stop: bool,
}

/// All drains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainsView {
    /// Epoch of the newest map.
    pub epoch: Epoch,
    /// Servers that are drained, by id.
    pub drains: Vec<DrainView>,
}

/// Why a server is not drained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrainRefusal {
    /// No server of that name is known.
    #[error("no server is named {name:?}")]
    UnknownServer {
        /// The name.
        name: String,
    },
    /// Nobody else could take its cachelets.
    #[error(
        "server {name:?} is the only one that is up and not drained: nobody could take its cachelets"
    )]
    NobodyElse {
        /// The name.
        name: String,
    },
    /// Not a rate.
    #[error(
        "{rate} cachelets per second is no rate: use 1 to {}",
        limits::DRAIN_RATE_MAX
    )]
    BadRate {
        /// What was asked for.
        rate: u32,
    },
}

/// A drain in this coordinator's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drain {
    /// From when on its rate counts.
    since: Instant,
    /// Cachelets a second.
    rate: u32,
    /// Cachelets taken from the server since then.
    taken: usize,
    /// First map that this coordinator knows to give the server nothing, and in which nothing is on its way to it.
    empty_from: Option<Epoch>,
    /// The server's process was told to end; the drain is over with it.
    is_of_its_end: bool,
    /// Everybody was seen to have confirmed such a map, so that nobody need hurry.
    is_followed: bool,
}

impl Drain {
    /// Begins, or goes on after the coordinator was started again: the state does not say how fast.
    pub(super) fn new(since: Instant, rate: u32) -> Self {
        Drain {
            since,
            rate,
            taken: 0,
            empty_from: None,
            is_of_its_end: false,
            is_followed: false,
        }
    }

    /// Begins, or goes on, because the server's process was told to end: as fast as others take its cachelets.
    pub(super) fn of_its_end(since: Instant) -> Self {
        Drain {
            is_of_its_end: true,
            ..Drain::new(since, limits::DRAIN_RATE_MAX)
        }
    }

    /// Whether it is over when the server's process is.
    pub(super) fn is_of_its_end(&self) -> bool {
        self.is_of_its_end
    }

    /// From now on as fast as others take its cachelets.
    fn hurry(&mut self, now: Instant) {
        if self.rate < limits::DRAIN_RATE_MAX {
            (self.since, self.rate, self.taken) = (now, limits::DRAIN_RATE_MAX, 0);
        }
    }

    /// How many cachelets may be taken now.
    pub(super) fn allowed(&self, now: Instant) -> usize {
        let seconds = now.since(self.since).as_secs_f64();
        let due = (seconds * f64::from(self.rate)) as usize + 1;
        due.saturating_sub(self.taken)
    }

    fn awaits_members(&self) -> bool {
        self.empty_from.is_some() && !self.is_followed
    }

    /// So many were taken.
    pub(super) fn take(&mut self, cachelets: usize) {
        self.taken += cachelets;
    }
}

impl CoordinatorCore {
    /// Begins or ends the drain of a server. Saying it again changes the rate.
    ///
    /// # Errors
    ///
    /// See [`DrainRefusal`]; then nothing has changed.
    pub fn handle_drain(
        &mut self,
        now: Now,
        request: &DrainRequest,
    ) -> Result<DrainView, DrainRefusal> {
        let rate = request.cachelets_per_second;
        if !(1..=limits::DRAIN_RATE_MAX).contains(&rate) {
            return Err(DrainRefusal::BadRate { rate });
        }
        let name = request.server.clone();
        let Some(position) = self.position_of(&name) else {
            return Err(DrainRefusal::UnknownServer { name });
        };
        let has_other = self.takers().any(|other| other != position);
        if request.drain && !has_other {
            return Err(DrainRefusal::NobodyElse { name });
        }
        self.notice_pause(now.monotonic);
        let server = &mut self.servers[position];
        let was_drained = server.drain.is_some();
        server.drain = request.drain.then(|| Drain::new(now.monotonic, rate));
        let mut changes = Vec::new();
        if was_drained != request.drain {
            let cause = match request.drain {
                true => Cause::DrainBegun,
                false => Cause::DrainEnded,
            };
            changes.push(Change::of_server(cause, server.entry.id));
        }
        self.finish(now, changes);
        self.note_empty_servers();
        Ok(self.drain_view(now.monotonic, position))
    }

    /// A server's process was told to end, and serves until others have what it has.
    pub(super) fn hear_ending(&mut self, now: Instant, position: usize, changes: &mut Vec<Change>) {
        let has_other = self.takers().any(|other| other != position);
        let server = &mut self.servers[position];
        match &mut server.drain {
            Some(drain) => drain.hurry(now),
            None if has_other => {
                server.drain = Some(Drain::of_its_end(now));
                changes.push(Change::of_server(Cause::DrainBegun, server.entry.id));
            }
            None => {}
        }
    }

    /// Whether the process of a server that was told to end need not wait: others have what it had and are asked for it, or
    /// nobody could take it.
    pub(super) fn may_end(&self, now: Instant, id: ServerId) -> bool {
        let position = usize::from(id.0);
        let is_drained = self.servers[position].drain.is_some();
        !is_drained || self.takers().next().is_none() || self.drain_view(now, position).may_stop
    }

    /// Positions of the servers that take cachelets of others.
    pub(super) fn takers(&self) -> impl Iterator<Item = usize> {
        let takes = |server: &Server| server.entry.up && server.drain.is_none();
        let servers = self.servers.iter().enumerate();
        servers
            .filter(move |(_, server)| takes(server))
            .map(|(position, _)| position)
    }

    /// How far all drains have come.
    pub fn drains(&self, now: Instant) -> DrainsView {
        let positions = 0..self.servers.len();
        let drained = positions.filter(|&position| self.servers[position].drain.is_some());
        DrainsView {
            epoch: self.epoch,
            drains: drained
                .map(|position| self.drain_view(now, position))
                .collect(),
        }
    }

    fn drain_view(&self, now: Instant, position: usize) -> DrainView {
        let server = &self.servers[position];
        let cachelets = self.cachelets_of(server.entry.id);
        let empty_from = server.drain.and_then(|drain| drain.empty_from);
        let (awaited, unheard) = match empty_from {
            Some(epoch) => self.who_works_by_older(now, server.entry.id, epoch),
            None => Default::default(),
        };
        let is_empty = cachelets == 0 && empty_from.is_some();
        DrainView {
            server: server.entry.name.clone(),
            draining: server.drain.is_some(),
            cachelets,
            may_stop: is_empty && awaited.is_empty() && self.knows_proxies(now),
            awaited,
            unheard,
        }
    }

    /// Members other than this server that have not confirmed that map or a newer one: those that are up, and proxies
    /// that were up lately. O(members).
    fn who_works_by_older(
        &self,
        now: Instant,
        except: ServerId,
        epoch: Epoch,
    ) -> (Vec<String>, Vec<String>) {
        let (mut awaited, mut unheard) = (Vec::new(), Vec::new());
        for server in self.servers.iter().filter(|server| server.entry.up) {
            if server.entry.id != except && server.applied < epoch {
                awaited.push(server.entry.name.clone());
            }
        }
        for (name, proxy) in &self.proxies {
            if proxy.applied >= epoch {
                continue;
            }
            match now.since(proxy.last_heard) < self.config.silent {
                true => awaited.push(name.clone()),
                false => unheard.push(name.clone()),
            }
        }
        (awaited, unheard)
    }

    /// Whether every proxy that is up was heard of by this coordinator: none is known after a restart.
    fn knows_proxies(&self, now: Instant) -> bool {
        now.since(self.began) >= self.config.silent
    }

    /// Finds out which drained servers the newest map gives nothing. To be called whenever there is a new one, or a drain
    /// begins. O(drains · cachelets).
    pub(super) fn note_empty_servers(&mut self) {
        for position in 0..self.servers.len() {
            if self.servers[position].drain.is_none() {
                continue;
            }
            let is_empty = self.cachelets_of(self.servers[position].entry.id) == 0;
            let epoch = self.epoch;
            if let Some(drain) = &mut self.servers[position].drain {
                drain.empty_from = is_empty.then(|| drain.empty_from.unwrap_or(epoch));
                drain.is_followed &= is_empty;
            }
        }
    }

    /// Finds out whether members have followed those that gave up their last cachelets. O(drains · members) while one
    /// has not.
    pub(super) fn tend_drains(&mut self, now: Instant) {
        for position in 0..self.servers.len() {
            let is_waiting = self.servers[position]
                .drain
                .is_some_and(|drain| drain.awaits_members());
            if is_waiting {
                let may_stop = self.drain_view(now, position).may_stop;
                if let Some(drain) = &mut self.servers[position].drain {
                    drain.is_followed = may_stop;
                }
            }
        }
    }

    /// Whether a drain waits for nothing but members to confirm a map.
    pub(super) fn awaits_followers(&self) -> bool {
        let mut drains = self.servers.iter().filter_map(|server| server.drain);
        drains.any(|drain| drain.awaits_members())
    }

    /// Loads of the cachelets of drained servers that are up, as far as told. Empty at once where there are none.
    pub(super) fn loads_of_drained(&self, now: Instant) -> BTreeMap<CacheletId, f64> {
        let drained = |id: ServerId| self.servers[usize::from(id.0)].drain.is_some();
        if !self.servers.iter().any(|server| server.drain.is_some()) {
            return BTreeMap::new();
        }
        let loads = self.server_loads(now).into_iter();
        let workers = loads
            .filter(|load| drained(load.server))
            .flat_map(|load| load.workers);
        let cachelets = workers.flat_map(|(worker, _)| worker.cachelets);
        cachelets.map(|load| (load.cachelet, load.load)).collect()
    }

    /// Cachelets that a server owns, has given up and nobody has yet, or that are on their way to it.
    pub(super) fn cachelets_of(&self, server: ServerId) -> usize {
        let are_its = |slot: &&Slot| match slot {
            Slot::Owned(owner) => owner.server == server,
            Slot::Moving(moving) => [moving.from.server, moving.to.server].contains(&server),
            Slot::Released { by, .. } => *by == server,
            Slot::Quarantined { .. } => false,
        };
        self.slots.iter().filter(are_its).count()
    }
}
