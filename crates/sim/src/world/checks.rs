//! What must hold at any time, and what must hold once faults are over.

use super::application::PATIENCE;
use super::plan::Cluster;
use super::proxy::MAP_SOURCE;
use super::server::MEMORY;
use super::units::SECOND;
use super::{Event, World};
use crate::history::Nanos;
use evenkeel_proxy_core::limits::{BACKEND_BYTES_MAX, BACKEND_REQUESTS_MAX, OUT_CLOSE};
use evenkeel_server_core::{LINK_OUT_MAX, OUT_PAUSE};
use evenkeel_types::Epoch;
use evenkeel_types::map::ClusterMap;
use std::sync::Arc;

/// How often resources are looked at.
const LOOK: Nanos = SECOND / 4;

impl World {
    /// A look at everything that is bounded.
    pub(super) fn look(&mut self) {
        self.after(LOOK, Event::Look);
        self.check_servers();
        self.check_proxies();
        self.check_patience();
    }

    fn check_servers(&mut self) {
        for server in 0..self.servers.len() {
            let s = &mut self.servers[server];
            if !s.process.alive {
                continue;
            }
            let used = s.pool.as_ref().map_or(0, |pool| pool.used_bytes());
            let links: Vec<_> = s.links().collect();
            let mut waiting = 0;
            for (worker, link) in links {
                let out = s.workers[worker].link_out(link).map_or(0, |out| out.len());
                waiting = waiting.max(out);
            }
            let unread = s.unread_max();
            if used > MEMORY {
                self.fail(format!("server {server} uses {used} of {MEMORY} bytes"));
            }
            if waiting > LINK_OUT_MAX {
                self.fail(format!(
                    "{waiting} bytes wait for a link of server {server}"
                ));
            }
            if unread > OUT_PAUSE + super::server::ITEM_SIZE_MAX {
                self.fail(format!(
                    "{unread} bytes wait for a client of server {server}"
                ));
            }
        }
    }

    fn check_proxies(&mut self) {
        for proxy in 0..self.proxies.len() {
            let p = &self.proxies[proxy];
            let (has, open) = (p.core.clients(), p.clients_open());
            if has != open {
                self.fail(format!(
                    "proxy {proxy} has {has} clients, of which {open} are open"
                ));
            }
            let p = &self.proxies[proxy];
            let unread = p.unread_max();
            let backends = p.core.backends();
            let worst = |of: fn(&evenkeel_proxy_core::BackendStats) -> u64| {
                backends.iter().map(of).max().unwrap_or(0) as usize
            };
            let bytes = worst(|backend| backend.counters.queued_bytes);
            let requests = worst(|backend| backend.counters.queued_requests);
            if bytes > BACKEND_BYTES_MAX || requests > BACKEND_REQUESTS_MAX || unread > OUT_CLOSE {
                self.fail(format!(
                    "proxy {proxy} holds {bytes} bytes of {requests} requests for a server, and \
                     {unread} for a client"
                ));
            }
        }
    }

    /// Every command is answered in time, with an error if need be: once everything has come to rest.
    /// Before that an application may be cut off from its own proxy.
    pub(super) fn check_patience(&mut self) {
        if self.time < self.plan.quiescent_from() {
            return;
        }
        for application in 0..self.applications.len() {
            let Some(operation) = self.applications[application].oldest_pending() else {
                continue;
            };
            let operation = &self.operations[operation];
            if self.time - operation.invoked > PATIENCE {
                let operation = operation.clone();
                self.fail(format!("no answer yet to {operation:?}"));
            }
        }
    }

    /// Every member is told of the same map by the same epoch.
    pub(super) fn check_same_map(&mut self, map: &Arc<ClusterMap>) {
        let epoch = map.epoch();
        let known = self.maps.entry(epoch).or_insert_with(|| map.clone());
        if !Arc::ptr_eq(known, map) && known.document() != map.document() {
            self.fail(format!("members were told of two maps of epoch {epoch}"));
        }
    }

    /// Every member that is alive works by a map at least as new as this.
    pub(super) fn check_maps(&mut self, epoch: Epoch) {
        if self.plan.cluster == Cluster::Plain {
            return;
        }
        for host in 0..self.coordinator_host() {
            let theirs = match self.servers.get(host) {
                Some(server) if !server.process.alive => continue,
                Some(server) => server.applied(),
                None => self.proxies[host - self.servers.len()]
                    .core
                    .epoch(MAP_SOURCE),
            };
            if theirs < epoch {
                self.fail(format!(
                    "host {host} still works by map {theirs}, not {epoch}"
                ));
            }
        }
    }
}
