//! The proxies, driven as the proxy's event loop drives them.

use super::World;
use super::connection::{ACCEPTOR, Arrival, ConnectionNumber, INITIATOR, Who};
use super::fault::Fault;
use super::proxy::MAP_SOURCE;
use super::server::owner_of_port;
use crate::history::Nanos;
use evenkeel_proxy_core::{BackendId, Cause, ClientId, Output, ProcessStats};
use evenkeel_types::map::ClusterMap;
use std::sync::Arc;

impl World {
    pub(super) fn handle_application(
        &mut self,
        connection: ConnectionNumber,
        (proxy, id): (usize, Option<ClientId>),
        arrival: Arrival,
    ) {
        let p = &mut self.proxies[proxy];
        match (arrival, id) {
            (Arrival::Open, _) => {
                let id = p.core.client_opened();
                p.clients.insert(id, connection);
                let who = Who::ProxyClient(Some(id));
                self.connections[connection].ends[ACCEPTOR].who = who;
            }
            (Arrival::Bytes, Some(id)) => {
                if p.core.client_wants_input(id) {
                    self.feed_proxy(proxy, id);
                }
            }
            (Arrival::Closed, Some(id)) => {
                p.clients.remove(&id);
                if self.plan.fault != Some(Fault::ConnectionsLeaked) {
                    p.core.client_closed(id);
                }
            }
            (_, None) => {}
        }
        self.pump_proxy(proxy);
    }

    pub(super) fn handle_backend(
        &mut self,
        connection: ConnectionNumber,
        (proxy, id): (usize, BackendId),
        arrival: Arrival,
    ) {
        let p = &mut self.proxies[proxy];
        if p.backends.get(&id) != Some(&connection) {
            return;
        }
        let now = p.process.now(self.time).monotonic;
        match arrival {
            Arrival::Open => {
                p.connected.insert(id);
                p.core.backend_connected(id, None);
            }
            Arrival::Bytes => {
                let input = &mut self.connections[connection].ends[INITIATOR].input;
                let consumed = p.core.backend_input(now, id, input);
                input.drain(..consumed);
            }
            Arrival::Closed => {
                p.backends.remove(&id);
                p.connected.remove(&id);
                p.core.backend_lost(now, id, Cause::Closed);
            }
        }
        self.pump_proxy(proxy);
    }

    pub(super) fn tell_proxy(&mut self, proxy: usize, map: &Arc<ClusterMap>) {
        let host = self.servers.len() + proxy;
        self.narrate(&[host], || format!("is told of map {}", map.epoch()));
        let is_lost = self.has_fault(Fault::MapsLost) && proxy == 0;
        if is_lost && self.proxies[proxy].core.epoch(MAP_SOURCE).0 > 0 {
            return;
        }
        let map = &self.forged_map(host, map);
        self.check_same_map(map);
        let p = &mut self.proxies[proxy];
        let now = p.process.now(self.time).monotonic;
        p.core.set_map(now, MAP_SOURCE, map);
        self.pump_proxy(proxy);
    }

    pub(super) fn tick_proxy(&mut self, proxy: usize) {
        let p = &mut self.proxies[proxy];
        let now = p.process.now(self.time).monotonic;
        p.core.handle_timeout(now);
        self.pump_proxy(proxy);
    }

    pub(super) fn proxy_deadline(&self, proxy: usize) -> Option<Nanos> {
        let p = &self.proxies[proxy];
        Some(p.process.clock.time_of(p.core.poll_deadline()?))
    }

    fn feed_proxy(&mut self, proxy: usize, id: ClientId) {
        let p = &mut self.proxies[proxy];
        let Some(&connection) = p.clients.get(&id) else {
            return;
        };
        let now = p.process.now(self.time);
        p.core.set_unix_time(now.unix);
        let input = &mut self.connections[connection].ends[ACCEPTOR].input;
        let consumed = p.core.client_input(now.monotonic, id, input);
        input.drain(..consumed);
    }

    /// Does what a proxy says until it says nothing.
    pub(super) fn pump_proxy(&mut self, proxy: usize) {
        self.proxies[proxy].core.end_turn();
        while let Some(output) = self.proxies[proxy].core.poll_output() {
            self.handle_output(proxy, output);
        }
        self.arm(self.servers.len() + proxy);
    }

    fn handle_output(&mut self, proxy: usize, output: Output) {
        let host = self.servers.len() + proxy;
        let p = &mut self.proxies[proxy];
        match output {
            Output::WriteClient(id) => {
                let Some(&connection) = p.clients.get(&id) else {
                    return;
                };
                let bytes = p.core.client_output(id).to_vec();
                p.core.client_wrote(id, bytes.len());
                if self.has_fault(Fault::AnswersLost) && self.random.chance(1, 1000) {
                    return;
                }
                self.send(connection, ACCEPTOR, &bytes);
            }
            Output::FeedClient(id) => self.feed_proxy(proxy, id),
            Output::CloseClient(id) => {
                if let Some(connection) = p.clients.remove(&id) {
                    self.close(connection, ACCEPTOR);
                }
            }
            Output::Connect { id, port, .. } => {
                let (server, worker) = owner_of_port(port);
                let to = (server, Who::Session { worker, id: None });
                let connection = self.connect((host, Who::ProxyBackend(id)), to);
                self.proxies[proxy].backends.insert(id, connection);
            }
            Output::WriteBackend(id) => {
                let Some(&connection) = p.backends.get(&id) else {
                    return;
                };
                if p.connected.contains(&id) {
                    p.core.begin_turn(p.process.now(self.time).monotonic);
                    let bytes = p.core.backend_output(id).to_vec();
                    p.core.backend_wrote(id, bytes.len());
                    self.send(connection, INITIATOR, &bytes);
                }
            }
            Output::CloseBackend(id) => {
                p.connected.remove(&id);
                if let Some(connection) = p.backends.remove(&id) {
                    self.close(connection, INITIATOR);
                }
            }
            Output::WantMap { .. } => {
                self.report.tell("maps wanted", 1);
                self.send_heartbeat_soon(host);
            }
            Output::Stats(ticket) => {
                let now = p.process.now(self.time).monotonic;
                p.core.answer_stats(now, ticket, &ProcessStats::default());
            }
            Output::ResetStats => p.core.reset_stats(),
            Output::Acknowledged { version, .. } => self.acknowledged(proxy, version),
            Output::Unreached { plan, servers, .. } => self.unreached(proxy, plan, servers),
            // Nobody reads it here, or asks for it.
            Output::ServerState(_)
            | Output::Log(_)
            | Output::Profile(_)
            | Output::OwnAddress(_) => {}
        }
    }
}
