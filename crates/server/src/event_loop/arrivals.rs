//! Connections that come: a bounded number in a turn, and their handshakes after those who are in.

use super::{Client, FIRST_CONNECTION, Worker};
use crate::budget::Held;
use crate::connection::{Connection, Demand};
use evenkeel_runtime::{ARRIVALS_PER_TURN, Accepted, Arrival, EXHAUSTED_PAUSE, accept, last_until};
use evenkeel_server_core::{Peer, Port};
use evenkeel_types::{Instant, Now};
use mio::Token;
use tracing::{debug, field};

impl Worker {
    /// Accepts on the worker's own port.
    pub(super) fn accept(&mut self, now: Now) {
        self.accept_again = None;
        let own = self.own_listener();
        for _ in 0..ARRIVALS_PER_TURN {
            let Some(listener) = &self.parts.listener else {
                return;
            };
            match accept(listener, &self.parts.connections) {
                Accepted::Stream(stream) => self.adopt(
                    now,
                    Arrival {
                        stream,
                        listener: own,
                    },
                ),
                Accepted::Nothing => {}
                Accepted::Nobody => return,
                Accepted::Exhausted => {
                    self.accept_again = Some(now.monotonic + EXHAUSTED_PAUSE);
                    return;
                }
            }
        }
        // They are not announced again.
        self.accept_again = Some(now.monotonic);
    }

    fn own_listener(&self) -> usize {
        self.parts.kinds.len() - 1
    }

    pub(super) fn take_incoming(&mut self, now: Now) {
        for _ in 0..ARRIVALS_PER_TURN {
            match self.parts.incoming.try_recv() {
                Ok(arrival) => self.adopt(now, arrival),
                Err(_) => {
                    self.arrivals_left = false;
                    return;
                }
            }
        }
    }

    /// Makes an accepted, counted stream a connection of this worker.
    fn adopt(&mut self, now: Now, arrival: Arrival) {
        let Arrival { stream, listener } = arrival;
        let address = stream.peer_address();
        let id = self.parts.core.open(Peer {
            address,
            port: match listener == self.own_listener() {
                true => Port::Worker,
                false => Port::Ordinary,
            },
            listener,
            protocols: self.parts.kinds[listener].protocols,
        });
        let slot = id.slot as usize;
        let token = Token(slot + FIRST_CONNECTION);
        let registry = self.parts.poll.registry();
        let kind = &self.parts.kinds[listener];
        let tls = kind.tls.map(|tls| {
            let certificates = self.parts.certificates.as_ref();
            certificates
                .expect("a server with a TLS listener has read its certificates")
                .context(tls)
        });
        let transport = &mut self.parts.transport;
        let Ok(socket) = transport.adopt(registry, token, id.slot, stream, tls.as_ref()) else {
            self.parts.core.close(id);
            self.parts.connections.closed();
            return;
        };
        if self.clients.len() <= slot {
            self.clients.resize_with(slot + 1, || None);
        }
        debug!(
            connection = slot,
            from = address.map(field::display),
            "client connected"
        );
        self.clients[slot] = Some(Client {
            connection: Connection::new(id, now),
            socket,
            queued: false,
            demand: Demand::Unknown,
            held_back: false,
            counted: Held::default(),
        });
        self.enqueue(id);
    }

    /// Goes on with handshakes, after those who are in. `begun` is when the turn was, by the machine's own clock.
    pub(super) fn serve_opening(&mut self, now: Now, begun: Instant) {
        if self.opening.is_empty() {
            return;
        }
        let clock = self.parts.clock;
        let until = last_until(begun, clock.monotonic());
        while let Some(id) = self.opening.pop_front() {
            self.serve_client(now, id);
            if clock.monotonic() >= until {
                return;
            }
        }
    }
}
