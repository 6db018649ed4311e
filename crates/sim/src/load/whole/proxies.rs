//! Proxies, driven as the proxy's event loop drives them.

use super::Cluster;
use super::network::{ACCEPTOR, INITIATOR, Who};
use crate::load::cluster::worker_at;
use evenkeel_proxy_core::{BackendId, ClientId, Output, ProcessStats};
use evenkeel_types::Instant;

impl Cluster<'_> {
    /// A proxy's connection to a server stands.
    pub(super) fn backend_stands(&mut self, proxy: usize, id: BackendId) {
        let p = &mut self.proxies[proxy];
        if let Some((_, stands)) = p.backends.get_mut(&id) {
            *stands = true;
            p.core.backend_connected(id, None);
        }
        self.pump_proxy(proxy);
    }

    /// An application's input is given to its proxy.
    pub(super) fn feed_proxy(&mut self, proxy: usize, id: ClientId, connection: usize) {
        let input = &mut self.network.connections[connection].input[ACCEPTOR];
        let core = &mut self.proxies[proxy].core;
        let consumed = core.client_input(Instant(self.time), id, input.rest());
        input.consume(consumed);
    }

    /// Does what a proxy says until it says nothing.
    pub(super) fn pump_proxy(&mut self, proxy: usize) {
        while let Some(output) = self.proxies[proxy].core.poll_output() {
            self.handle_output(proxy, output);
        }
    }

    fn handle_output(&mut self, proxy: usize, output: Output) {
        let p = &mut self.proxies[proxy];
        match output {
            Output::WriteClient(id) => {
                if let Some(&connection) = p.clients.get(&id) {
                    let mut bytes = self.network.buffer();
                    bytes.extend_from_slice(p.core.client_output(id));
                    p.core.client_wrote(id, bytes.len());
                    self.send(connection, ACCEPTOR, self.time, bytes);
                }
            }
            Output::FeedClient(id) => {
                if let Some(&connection) = p.clients.get(&id) {
                    self.feed_proxy(proxy, id, connection);
                }
            }
            Output::Connect { id, host, port, .. } => {
                let worker = worker_at(self.plan, &host, port);
                let connection = self.connect_to_worker(Who::Backend(proxy, id), worker);
                self.proxies[proxy].backends.insert(id, (connection, false));
            }
            Output::WriteBackend(id) => {
                if let Some(&(connection, true)) = p.backends.get(&id) {
                    p.core.begin_turn(Instant(self.time));
                    let mut bytes = self.network.buffer();
                    bytes.extend_from_slice(p.core.backend_output(id));
                    p.core.backend_wrote(id, bytes.len());
                    self.send(connection, INITIATOR, self.time, bytes);
                }
            }
            Output::CloseBackend(id) => {
                if let Some((connection, _)) = p.backends.remove(&id) {
                    self.hang_up(connection);
                }
            }
            Output::CloseClient(id) => {
                p.clients.remove(&id);
                self.wrong = Some("a proxy closed the connection of an application".into());
            }
            Output::Stats(ticket) => {
                let now = Instant(self.time);
                p.core.answer_stats(now, ticket, &ProcessStats::default());
            }
            // There is one map, and nobody asks for the rest.
            Output::WantMap { .. }
            | Output::Acknowledged { .. }
            | Output::Unreached { .. }
            | Output::ResetStats
            | Output::ServerState(_)
            | Output::Log(_)
            | Output::Profile(_)
            | Output::OwnAddress(_) => {}
        }
    }
}
