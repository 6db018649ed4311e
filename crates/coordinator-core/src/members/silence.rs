//! Who is silent: a member that reports nothing any more is down, unless it is only the way to the coordinator that is broken.
//!
//! To give a server's cachelets to others costs what it holds, and stops clients that reach it well. So once half of
//! the silence is over, the coordinator's driver says hello to the server where everybody else reaches it
//! ([`unheard`](crate::CoordinatorCore::unheard)), again with each look. While the process that reported last answers there
//! ([`handle_reached`](crate::CoordinatorCore::handle_reached)) the server stays up, and serves by the votes of the others. That ends
//! after [`UNHEARD_MAX`]: who is told nothing keeps everybody waiting who waits for all members.
//!
//! Rejected: to believe members who say that they reach it. Each would have to ask each silent server, and one with a
//! member's token could keep a dead server up.

use evenkeel_types::map::ServerEntry;
use evenkeel_types::{BootId, Instant, ServerId};

use super::Members;
use super::server::Server;
use crate::event::Cause;
use crate::limits::{PROXY_FORGET_SILENCES, REACH_PER_SILENCE, UNHEARD_MAX};
use crate::map_draft::MapDraft;

impl Members {
    /// The servers that are up and were not heard of for half of a silence.
    pub(crate) fn unheard(&self, now: Instant) -> impl Iterator<Item = &ServerEntry> {
        let within = self.silent / REACH_PER_SILENCE;
        let unheard = self
            .up()
            .filter(move |server| now.since(server.last_heard) >= within);
        unheard.map(|server| &server.entry)
    }

    /// All workers of that process of a server have answered a hello. False where it is not known.
    pub(crate) fn handle_reached(&mut self, now: Instant, id: ServerId, boot: BootId) -> bool {
        let server = self.servers.get_mut(usize::from(id.0));
        let Some(server) = server.filter(|server| server.entry.boot == boot) else {
            return false;
        };
        server.last_reached = Some(now);
        true
    }

    /// Takes those to be down who are silent.
    pub(crate) fn mark_silent(&mut self, now: Instant, draft: &mut MapDraft) {
        let silent = self.silent;
        let is_reached = |server: &Server| {
            let within = silent / REACH_PER_SILENCE;
            let is_fresh = |at: Instant| now.since(at) < within;
            server.last_reached.is_some_and(is_fresh)
                && now.since(server.last_heard) < silent + UNHEARD_MAX
        };
        let lost = |server: &&mut Server| {
            server.entry.up && now.since(server.last_heard) >= silent && !is_reached(server)
        };
        for server in self.servers.iter_mut().filter(lost) {
            server.entry.up = false;
            server.entry.since = draft.next_epoch();
            server.load.clear();
            draft.note_server(Cause::ServerSilent, server.entry.id);
        }
        let forget = silent * PROXY_FORGET_SILENCES;
        self.proxies
            .retain(|_, proxy| now.since(proxy.last_heard) < forget);
    }

    /// The coordinator itself has not run for a while: everyone gets a fresh start, since it cannot tell who was silent
    /// in the meantime.
    pub(crate) fn notice_pause(&mut self, now: Instant) {
        self.forget_refusals();
        for server in self.servers.iter_mut().filter(|server| server.entry.up) {
            server.last_heard = now;
        }
        for proxy in self.proxies.values_mut() {
            proxy.last_heard = now;
        }
    }
}
