//! Orders about replicas by a map that this server has not been told yet: see [`Early`](crate::ownership::early::Early).

use crate::admin::ProcessRequest;
use crate::session::ConnectionId;
use crate::worker::core::WorkerCore;
use evenkeel_types::{Epoch, Now};

impl WorkerCore {
    /// Whether an order by this map has to wait for it.
    pub(crate) fn waits_for_map(&mut self, now: Now, id: ConnectionId, epoch: Epoch) -> bool {
        if epoch <= self.placement.epoch() {
            return false;
        }
        if self.early.add(id) {
            self.engine.counters.replica_orders_early += 1;
        }
        if self.early.may_ask(now.monotonic) {
            self.process_requests.push_back(ProcessRequest::AskForMap);
        }
        true
    }

    /// There is another map: what waited for one is shown again.
    pub(crate) fn wake_early(&mut self) {
        for id in self.early.wake() {
            self.connections.touch(id);
        }
    }
}
