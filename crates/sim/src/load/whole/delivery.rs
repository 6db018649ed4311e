//! Sends bytes, and tells those whom they are for.

use super::network::{INITIATOR, Way, Who};
use super::now::now_at;
use super::{Cluster, Event};
use crate::history::Nanos;

impl Cluster<'_> {
    /// An end sends bytes at a time.
    pub(super) fn send(&mut self, connection: usize, from: usize, at: Nanos, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return self.network.give_back(bytes);
        }
        let way = self.network.connections[connection].way;
        let delay = match way {
            Way::Local => self.plan.local,
            Way::Network => self.plan.network,
        };
        let event = Event::Bytes(connection, 1 - from, bytes);
        self.queue.push_in_line(way as usize, at + delay, event);
    }

    /// A connection stands, at its initiator.
    pub(super) fn opened(&mut self, connection: usize) {
        let now = now_at(self.time);
        match self.network.connections[connection].ends[INITIATOR] {
            Who::Backend(proxy, id) => self.backend_stands(proxy, id),
            Who::Link(worker, link) => {
                let w = &mut self.workers[worker];
                if let Some((_, stands)) = w.links.get_mut(&link) {
                    *stands = true;
                    w.core.link_up(now, link);
                }
                self.pump_worker(worker, self.time);
            }
            _ => {}
        }
    }

    /// Bytes arrive at an end.
    pub(super) fn arrived(&mut self, connection: usize, end: usize, bytes: Vec<u8>) {
        let input = &mut self.network.connections[connection].input[end];
        let bytes = input.receive(bytes);
        self.network.give_back(bytes);
        let now = now_at(self.time);
        match self.network.connections[connection].ends[end] {
            Who::Client(client) => self.take_answers(client),
            Who::ProxyClient(proxy, id) => {
                if self.proxies[proxy].core.client_wants_input(id) {
                    self.feed_proxy(proxy, id, connection);
                }
                self.pump_proxy(proxy);
            }
            Who::Backend(proxy, id) => {
                let input = &mut self.network.connections[connection].input[INITIATOR];
                let core = &mut self.proxies[proxy].core;
                let consumed = core.backend_input(now.monotonic, id, input.rest());
                input.consume(consumed);
                self.pump_proxy(proxy);
            }
            Who::Link(worker, link) => {
                let input = &mut self.network.connections[connection].input[INITIATOR];
                let core = &mut self.workers[worker].core;
                let consumed = core.link_input(now, link, input.rest());
                input.consume(consumed);
                self.pump_worker(worker, self.time);
            }
            Who::Session(worker, _) => self.input_waits(worker, connection),
            Who::Gone => {}
        }
    }

    /// A connection ends at both ends.
    pub(super) fn hang_up(&mut self, connection: usize) {
        let ends = &mut self.network.connections[connection].ends;
        for end in core::mem::replace(ends, [Who::Gone; 2]) {
            if let Who::Session(worker, id) = end {
                self.workers[worker].close(id);
            }
        }
    }
}
