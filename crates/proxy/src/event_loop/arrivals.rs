//! Connections that come: a bounded number in a turn, and what they begin with after those who are in.

use super::{FIRST_SOCKET, Worker};
use crate::application::Application;
use evenkeel_runtime::{ARRIVALS_PER_TURN, Arrival, TlsContext, Wire as ClientWire, last_until};
use evenkeel_types::Instant;
use mio::{Interest, Token};
use std::sync::Arc;
use tracing::debug;

impl Worker {
    pub(super) fn take_incoming(&mut self) {
        for _ in 0..ARRIVALS_PER_TURN {
            let Ok(arrival) = self.parts.incoming.try_recv() else {
                self.arrivals_left = false;
                return;
            };
            let Arrival {
                mut stream,
                listener,
            } = arrival;
            let id = self.parts.core.client_opened();
            let slot = id.0.slot as usize;
            let token = Token(FIRST_SOCKET + 2 * slot);
            let both = Interest::READABLE | Interest::WRITABLE;
            let registry = self.parts.poll.registry();
            let wire = registry
                .register(&mut stream, token, both)
                .and_then(|()| ClientWire::new(stream, self.tls_context(listener).as_ref()));
            let Ok(wire) = wire else {
                self.parts.core.client_closed(id);
                self.parts.connections.closed();
                continue;
            };
            if self.applications.len() <= slot {
                self.applications.resize_with(slot + 1, || None);
            }
            let application = Application::new(id, wire);
            debug!(
                connection = slot,
                from = application.peer(),
                "client connected"
            );
            if self.parts.core.records() {
                let origin = application.origin();
                self.parts.core.client_comes_from(id, origin.as_bytes());
            }
            self.applications[slot] = Some(application);
            self.enqueue_application(id);
        }
    }

    /// What connections of a listener begin TLS with; `None` for plain bytes.
    fn tls_context(&self, listener: usize) -> Option<Arc<TlsContext>> {
        let kind = self.parts.tls.get(listener).copied().flatten()?;
        let certificates = self.parts.certificates.as_ref()?;
        Some(certificates.context(kind))
    }

    /// Serves those who come last. `begun` is when the turn was, by the machine's own clock.
    pub(super) fn serve_last(&mut self, now: Instant, begun: Instant) {
        if self.last.is_empty() {
            return;
        }
        let clock = self.parts.clock;
        let until = last_until(begun, clock.monotonic());
        while let Some(id) = self.last.pop_front() {
            self.serve_application(now, id);
            if clock.monotonic() >= until {
                return;
            }
        }
    }
}
