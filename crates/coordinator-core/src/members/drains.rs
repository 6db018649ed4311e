//! Begins and ends drains, and finds out how far they have come.

use evenkeel_types::{Epoch, Instant, ServerId};

use super::Members;
use super::drain::{Drain, DrainRefusal, DrainRequest, DrainView, DrainsView};
use crate::event::Cause;
use crate::limits;
use crate::map_draft::MapDraft;

impl Members {
    /// The server that an operator's order is for, if it can be followed.
    pub(crate) fn check_drain(&self, request: &DrainRequest) -> Result<ServerId, DrainRefusal> {
        let rate = request.cachelets_per_second;
        if !(1..=limits::DRAIN_RATE_MAX).contains(&rate) {
            return Err(DrainRefusal::BadRate { rate });
        }
        let name = request.server.clone();
        let Some(id) = self.named(&name) else {
            return Err(DrainRefusal::UnknownServer { name });
        };
        // A drain under way may be told another rate even while nobody is up to take anything.
        let begins = request.drain && self.server(id).drain.is_none();
        if begins && self.takers().all(|other| other == id) {
            return Err(DrainRefusal::NobodyElse { name });
        }
        Ok(id)
    }

    /// Begins the drain of a server, changes it, or ends it.
    pub(crate) fn set_drain(&mut self, id: ServerId, drain: Option<Drain>, draft: &mut MapDraft) {
        let server = self.server_mut(id);
        match (server.drain.is_some(), drain.is_some()) {
            (false, true) => draft.note_server(Cause::DrainBegun, id),
            (true, false) => draft.note_server(Cause::DrainEnded, id),
            _ => {}
        }
        server.drain = drain;
    }

    /// A server's process was told to end, and serves until others have what it has.
    pub(crate) fn handle_ending(&mut self, now: Instant, id: ServerId, draft: &mut MapDraft) {
        let has_other = self.takers().any(|other| other != id);
        match &mut self.server_mut(id).drain {
            Some(drain) => drain.hurry(now),
            None if has_other => self.set_drain(id, Some(Drain::of_its_end(now)), draft),
            None => {}
        }
    }

    /// A cachelet was taken from a server, for its drain if it has one.
    pub(crate) fn note_taken(&mut self, from: ServerId) {
        if let Some(drain) = &mut self.server_mut(from).drain {
            drain.take(1);
        }
    }

    /// Whether the process of a server that was told to end need not wait: others have what it had and are asked for it, or
    /// nobody could take it.
    pub(crate) fn may_end(&self, now: Instant, id: ServerId, draft: &MapDraft) -> bool {
        let is_drained = self.server(id).drain.is_some();
        let may_stop = || self.drain_view(now, id, draft).may_stop;
        !is_drained || self.takers().next().is_none() || may_stop()
    }

    /// How far all drains have come.
    pub(crate) fn drains(&self, now: Instant, draft: &MapDraft) -> DrainsView {
        let drained = self.drained();
        DrainsView {
            epoch: draft.epoch(),
            drains: drained.map(|id| self.drain_view(now, id, draft)).collect(),
        }
    }

    /// The servers that are drained.
    fn drained(&self) -> impl Iterator<Item = ServerId> {
        let drained = self.servers.iter().filter(|server| server.drain.is_some());
        drained.map(|server| server.entry.id)
    }

    pub(crate) fn drain_view(&self, now: Instant, id: ServerId, draft: &MapDraft) -> DrainView {
        let server = self.server(id);
        let cachelets = draft.cachelets_of(id);
        let empty_from = server.drain.and_then(|drain| drain.empty_from());
        let (awaited, unheard) = match empty_from {
            Some(epoch) => self.who_works_by_older(now, id, epoch),
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
        for server in self.up() {
            if server.entry.id != except && server.applied < epoch {
                awaited.push(server.entry.name.clone());
            }
        }
        for (name, proxy) in &self.proxies {
            if proxy.applied >= epoch {
                continue;
            }
            match now.since(proxy.last_heard) < self.silent {
                true => awaited.push(name.clone()),
                false => unheard.push(name.clone()),
            }
        }
        (awaited, unheard)
    }

    /// Whether every proxy that is up was heard of by this coordinator: none is known after a restart.
    fn knows_proxies(&self, now: Instant) -> bool {
        now.since(self.began) >= self.silent
    }

    /// Finds out which drained servers the newest map gives nothing. To be called whenever there is a new one, or a drain
    /// begins. O(drains · cachelets).
    pub(crate) fn note_empty(&mut self, draft: &MapDraft) {
        for server in &mut self.servers {
            if let Some(drain) = &mut server.drain {
                let is_empty = draft.cachelets_of(server.entry.id) == 0;
                drain.note_newest(draft.epoch(), is_empty);
            }
        }
    }

    /// Finds out whether members have followed those that gave up their last cachelets. O(drains · members) while one
    /// has not.
    pub(crate) fn tend_drains(&mut self, now: Instant, draft: &MapDraft) {
        for position in 0..self.servers.len() {
            let server = &self.servers[position];
            if server.drain.is_some_and(|drain| drain.awaits_members()) {
                let may_stop = self.drain_view(now, server.entry.id, draft).may_stop;
                if let Some(drain) = &mut self.servers[position].drain {
                    drain.note_followed(may_stop);
                }
            }
        }
    }

    /// Whether a drain waits for nothing but members to confirm a map.
    pub(crate) fn awaits_followers(&self) -> bool {
        let mut drains = self.servers.iter().filter_map(|server| server.drain);
        drains.any(|drain| drain.awaits_members())
    }
}
