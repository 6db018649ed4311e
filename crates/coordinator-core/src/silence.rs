//! Who is silent: a member that reports nothing any more is down, unless it is only the way to the coordinator that is broken.
//!
//! To give a server's cachelets to others costs what it holds, and stops clients that reach it well. So once half of
//! the silence is over, the coordinator's driver says hello to the server where everybody else reaches it
//! ([`unheard`](CoordinatorCore::unheard)), again with each look. While the process that reported last answers there
//! ([`handle_reached`](CoordinatorCore::handle_reached)) the server stays up, and serves by the votes of the others. That ends
//! after [`UNHEARD_MAX`]: who is told nothing keeps everybody waiting who waits for all members.
//!
//! Rejected: to believe members who say that they reach it. Each would have to ask each silent server, and one with a
//! member's token could keep a dead server up.

use super::event::Cause;
use super::limits::{PROXY_FORGET_SILENCES, REACH_PER_SILENCE, UNHEARD_MAX};
use super::members::Server;
use super::{Change, CoordinatorCore};
use evenkeel_types::map::ServerEntry;
use evenkeel_types::{BootId, Instant, ServerId};

impl CoordinatorCore {
    /// The servers that are up and were not heard of for half of a silence: to be said hello to by all ports of their
    /// workers.
    pub fn unheard(&self, now: Instant) -> impl Iterator<Item = &ServerEntry> {
        let within = self.config.silent / REACH_PER_SILENCE;
        let unheard = self
            .servers
            .iter()
            .filter(move |server| server.entry.up && now.since(server.last_heard) >= within);
        unheard.map(|server| &server.entry)
    }

    /// All workers of that process of a server have answered a hello.
    pub fn handle_reached(&mut self, now: Instant, id: ServerId, boot: BootId) {
        let server = self.servers.get_mut(usize::from(id.0));
        if let Some(server) = server.filter(|server| server.entry.boot == boot) {
            server.last_reached = Some(now);
            self.counters.reached += 1;
        }
    }

    /// Takes those to be down who are silent.
    pub(super) fn mark_silent(&mut self, now: Instant, changes: &mut Vec<Change>) {
        let (silent, next) = (self.config.silent, self.next_epoch());
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
            server.entry.since = next;
            server.load.clear();
            changes.push(Change::of_server(Cause::ServerSilent, server.entry.id));
        }
        let forget = silent * PROXY_FORGET_SILENCES;
        self.proxies
            .retain(|_, proxy| now.since(proxy.last_heard) < forget);
    }
}
