//! Which servers of a ring proxies do not reach, and since when.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_types::Instant;

use crate::limits::{RING_LOSSES_OF, RING_LOSSES_SPAN};

/// Which servers are not reached, and which were lost lately.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// By place in the list and by proxy: since when that says so.
    pub(super) unreached: BTreeMap<u16, BTreeMap<String, Instant>>,
    /// When servers were lost, the latest last.
    losses: VecDeque<Instant>,
}

impl Reach {
    /// A proxy says which servers it does not reach.
    pub(super) fn handle(&mut self, now: Instant, proxy: &str, servers: &[u16]) {
        for (server, said) in &mut self.unreached {
            if !servers.contains(server) {
                said.remove(proxy);
            }
        }
        for &server in servers {
            let said = self.unreached.entry(server).or_default();
            said.entry(proxy.to_owned()).or_insert(now);
        }
        self.unreached.retain(|_, said| !said.is_empty());
    }

    /// Whether a proxy says that it does not reach a server.
    pub(super) fn is_unreached(&self, server: u16) -> bool {
        self.unreached.contains_key(&server)
    }

    /// A proxy has ended, or another process has its name.
    pub(super) fn forget_proxy(&mut self, proxy: &str) {
        for said in self.unreached.values_mut() {
            said.remove(proxy);
        }
        self.unreached.retain(|_, said| !said.is_empty());
    }

    /// This process has not run for a while, in which somebody may have reached them.
    pub(super) fn notice_pause(&mut self, now: Instant) {
        for since in self.unreached.values_mut().flat_map(BTreeMap::values_mut) {
            *since = now;
        }
    }

    /// Another server has this place.
    pub(super) fn forget(&mut self, server: u16) {
        self.unreached.remove(&server);
    }

    /// Whether one more may be lost of so many that own something.
    pub(super) fn may_lose(&self, now: Instant, owning: usize) -> bool {
        let lately = |at: &&Instant| now.since(**at) < RING_LOSSES_SPAN;
        let lost = self.losses.iter().filter(lately).count();
        // One may always go, but never the last.
        let is_few = lost == 0 || (lost + 1) * RING_LOSSES_OF <= owning + lost;
        owning > 1 && is_few
    }

    /// A server is lost.
    pub(super) fn note_loss(&mut self, now: Instant) {
        self.losses.push_back(now);
        (self.losses).retain(|at| now.since(*at) < RING_LOSSES_SPAN);
    }
}
