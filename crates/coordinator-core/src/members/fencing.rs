//! Finds out which servers have ceased to serve; the rules are in `fence`.

use evenkeel_types::serving;
use evenkeel_types::{Epoch, Instant, ServerId};

use super::Members;
use super::server::Server;
use crate::limits::FENCE_HURRY;
use crate::map_draft::MapDraft;
use crate::placing::Slot;

impl Members {
    /// Remembers who is up by the map that is being made. O(servers + cachelets).
    pub(crate) fn note_electorate(&mut self, draft: &MapDraft) {
        let up = self.up().map(|server| server.entry.id).collect();
        self.electorates.note(draft.epoch(), up);
        self.has_refusal_news = true;
        let mut has_cachelets = vec![false; self.servers.len()];
        for slot in draft.slots() {
            // Whom a cachelet waits for that is to get another owner counts like an owner.
            let concerned = match slot {
                Slot::Owned(owner) => [Some(owner.server), None],
                Slot::Moving(moving) => [moving.from, moving.to].map(|end| Some(end.server)),
                Slot::Released { by, .. } | Slot::Quarantined { by, .. } => [Some(*by), None],
            };
            for server in concerned.into_iter().flatten() {
                has_cachelets[usize::from(server.0)] = true;
            }
        }
        // Who is down and concerned with nothing is asked about by nobody.
        let counts = (self.servers.iter().zip(has_cachelets))
            .filter(|(server, has)| server.entry.up || (*has && server.fence.leased));
        if let Some(oldest) = counts.map(|(server, _)| server.fence.votes_from).min() {
            self.electorates.forget_before(oldest);
        }
    }

    /// Whether a server is among those who were up by a map that somebody may still work by.
    pub(crate) fn is_in_an_electorate(&self, server: ServerId) -> bool {
        self.electorates.name(server)
    }

    /// Everything about silence begins anew.
    pub(super) fn forget_refusals(&mut self) {
        for server in &mut self.servers {
            server.fence.forget_refusal();
        }
        self.has_refusal_news = true;
    }

    /// Whether members should report soon, because a server went down lately that may be given up.
    pub(crate) fn is_fencing(&self, now: Instant) -> bool {
        let within = self.silent + FENCE_HURRY;
        let servers = self.servers.iter();
        let mut late = servers.filter(|server| server.may_be_given_up());
        late.any(|server| now.since(server.last_heard) < within)
    }

    /// Gives up the servers that have ceased to serve, if there is anybody who could take what they own; gives who they
    /// are.
    pub(crate) fn give_up_ceased(&mut self, now: Instant) -> Vec<ServerId> {
        let servers = self.servers.iter();
        let down = servers.filter(|server| server.may_be_given_up());
        let down: Vec<ServerId> = down.map(|server| server.entry.id).collect();
        if down.is_empty() || self.takers().next().is_none() {
            return Vec::new();
        }
        let has_news = core::mem::take(&mut self.has_refusal_news);
        let refused = down.iter().map(|&id| has_news && self.is_refused(id));
        let refused: Vec<bool> = refused.collect();
        let mut ceased = Vec::new();
        for (id, is_refused) in down.into_iter().zip(refused) {
            let server = &mut self.servers[usize::from(id.0)];
            if is_refused {
                server.fence.note_refused(now);
            }
            let is_silent = now.since(server.last_heard) >= self.silent;
            if server.has_ceased(now) && (server.fence.is_over() || is_silent) {
                server.fence.give_up();
                ceased.push(id);
            }
        }
        ceased
    }

    /// Whether a server that is down finds too few voters, whichever map it may work by. Once true it stays
    /// so, until the server is heard of. O(servers) for each change of who is up that it may have missed.
    fn is_refused(&self, id: ServerId) -> bool {
        let server = self.server(id);
        let refuses = |other: &ServerId| {
            let fence = &self.server(*other).fence;
            fence.works_by_at_least >= server.entry.since
        };
        let Some(may_go_by) = self.electorates.since(server.fence.votes_from) else {
            return false;
        };
        may_go_by
            .filter(|electorate| electorate.servers.binary_search(&id).is_ok())
            .all(|electorate| {
                let others = electorate.servers.iter().filter(|other| **other != id);
                let refusing = others.clone().filter(|other| refuses(other)).count();
                serving::would_refuse(others.count(), refusing)
            })
    }

    /// Whether every server works by that map or a newer one, or serves nothing. O(servers).
    pub(crate) fn all_follow(&self, now: Instant, epoch: Epoch) -> bool {
        let follows =
            |server: &Server| server.fence.works_by_at_least >= epoch || server.has_ceased(now);
        self.servers.iter().all(follows)
    }
}
