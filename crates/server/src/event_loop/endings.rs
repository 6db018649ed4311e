//! Connections that end: by themselves, by an answer that comes too late, for want of progress, and when the worker stops.

use super::Worker;
use evenkeel_server_core::{CloseReason, ConnectionId};
use evenkeel_types::{Instant, Now};
use tracing::debug;

impl Worker {
    pub(super) fn close(&mut self, id: ConnectionId) {
        self.close_for(id, CloseReason::Normal);
    }

    pub(super) fn close_for(&mut self, id: ConnectionId, reason: CloseReason) {
        if self.client(id).is_some()
            && let Some(client) = self.clients[id.slot as usize].take()
        {
            debug!(connection = id.slot, ?reason, "client closed");
            self.parts.transport.close(client.socket);
            self.release(&client.connection, client.counted);
            self.parts.core.close_for(id, reason);
            self.parts.connections.closed();
        }
    }

    pub(super) fn look_at_lease(&mut self, read: Instant) {
        let late = self.parts.core.look_at_lease(read);
        self.close_late(late);
    }

    /// Closes the connections whose answers may have been composed too late.
    pub(super) fn close_late(&mut self, late: Vec<ConnectionId>) {
        for id in late {
            self.parts.core.counters().answers_too_late += 1;
            self.close(id);
        }
    }

    pub(super) fn close_stalled(&mut self, now: Now) {
        let (idle_limit, stall_limit) = (self.parts.idle_timeout, self.parts.progress_timeout);
        let over: Vec<(ConnectionId, bool)> = self
            .clients
            .iter()
            .flatten()
            .filter_map(|client| {
                let connection = &client.connection;
                let stalled = !stall_limit.is_zero()
                    && connection
                        .stalled_since()
                        .is_some_and(|since| now.monotonic.since(since) >= stall_limit);
                let idle = !idle_limit.is_zero()
                    && now.monotonic.since(connection.active_at()) >= idle_limit;
                (stalled || idle).then_some((connection.id(), stalled))
            })
            .collect();
        for (id, stalled) in over {
            let counters = self.parts.core.counters();
            counters.stalled_closed += u64::from(stalled);
            counters.idle_kicks += u64::from(!stalled);
            let reason = match stalled {
                true => CloseReason::Error,
                false => CloseReason::IdleTimeout,
            };
            self.close_for(id, reason);
        }
    }

    /// Whether a stopping worker has nothing left to do for its clients: nothing to answer, or, while
    /// draining, no client that has begun anything. Those that are idle are let go.
    pub(super) fn is_drained(&mut self) -> bool {
        if self.has_work() {
            return false;
        }
        if !self.draining {
            let core = &mut self.parts.core;
            let mut clients = self.clients.iter().flatten();
            return clients.all(|client| !client.connection.owes_answers(core));
        }
        let core = &mut self.parts.core;
        let idle: Vec<ConnectionId> = (self.clients.iter().flatten())
            .filter(|client| client.connection.is_idle(core))
            .map(|client| client.connection.id())
            .collect();
        for id in idle {
            self.close(id);
        }
        self.clients.iter().flatten().next().is_none()
    }
}
