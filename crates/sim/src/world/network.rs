//! Connections: bytes that arrive in order, in other pieces than they were sent in, late, or not at
//! all when the connection ends. How late, [`super::fault_schedule`] says.
//!
//! Each direction of a connection is a *lane* of chunks with times of arrival. What happens to a
//! lane is what TCP allows: order is kept, nothing is repeated; a host that cannot be reached gets
//! everything later; a host whose process is stopped accepts connections and keeps what arrives. An
//! end that closes leaves behind what it has sent, which arrives before the close or is lost with
//! it. When the network breaks a connection, its initiator may hear of it long before the rest of
//! what it had sent arrives at the other end: so a new connection can overtake an old one.

use super::connection::{
    ACCEPTOR, Arrival, Chunk, Connection, ConnectionNumber, End, INITIATOR, Lane, Who,
};
use super::fault_schedule::Packet;
use super::units::MS;
use super::{Event, World};
use crate::history::Nanos;

/// What a broken connection still carries arrives up to this much later: longer than a home waits
/// before it makes a link anew.
const LAG_MAX: Nanos = 2000 * MS;

impl World {
    /// Begins to connect; the initiator will hear of it.
    pub(super) fn connect(&mut self, from: (usize, Who), to: (usize, Who)) -> ConnectionNumber {
        let end = |(host, who): (usize, Who), life| End {
            who,
            host,
            life,
            open: true,
            input: Vec::new(),
        };
        let lives = [self.life_of(from.0), self.life_of(to.0)];
        let number = self.connections.len();
        self.connections.push(Connection {
            ends: [end(from, lives[INITIATOR]), end(to, lives[ACCEPTOR])],
            lanes: [Lane::default(), Lane::default()],
        });
        let [from, to] = [0, 1].map(|end| self.connections[number].ends[end].host);
        let delay = self.delay(from, to, Packet::Connect);
        self.after(delay, Event::Reach { connection: number });
        number
    }

    /// The request to connect reaches the other host.
    pub(super) fn reached(&mut self, connection: ConnectionNumber) {
        let [from, to] = [0, 1].map(|i| self.connections[connection].ends[i].host);
        // Both sides have to hear of each other.
        let ways = [(from, to), (to, from)].map(|(a, b)| self.fault_schedule.cut_until(a, b));
        let cut = ways[0].max(ways[1]);
        if cut > self.time {
            return self.at(cut, Event::Reach { connection });
        }
        if self.is_alive(to) {
            let life = self.life_of(to);
            self.connections[connection].ends[ACCEPTOR].life = life;
            self.put(connection, INITIATOR, Chunk::Open);
            self.put(connection, ACCEPTOR, Chunk::Open);
        } else {
            // Nobody listens.
            self.connections[connection].ends[ACCEPTOR].open = false;
            self.put(connection, ACCEPTOR, Chunk::Closed);
        }
    }

    /// An end sends bytes, which arrive in pieces.
    pub(super) fn send(&mut self, connection: ConnectionNumber, end: usize, bytes: &[u8]) {
        if !self.connections[connection].ends[end].open {
            return;
        }
        if self.listener.is_some() {
            self.narrate_bytes(connection, end, bytes);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = match self.random.below(8) {
                0 => 1 + self.random.index(rest.len()),
                1 => 1 + self.random.index(rest.len().min(8)),
                _ => rest.len(),
            };
            self.put(connection, end, Chunk::Bytes(rest[..len].to_vec()));
            rest = &rest[len..];
        }
    }

    /// An end closes. What it sent before arrives before that, or is lost.
    pub(super) fn close(&mut self, connection: ConnectionNumber, end: usize) {
        let connected = &mut self.connections[connection];
        if !core::mem::replace(&mut connected.ends[end].open, false) {
            return;
        }
        if self.random.chance(1, 3) {
            self.lose_bytes(connection, end);
        }
        self.put(connection, end, Chunk::Closed);
    }

    /// The network breaks a connection.
    pub(super) fn reset(&mut self, connection: ConnectionNumber) {
        for end in [INITIATOR, ACCEPTOR] {
            if self.random.chance(1, 2) {
                self.lose_bytes(connection, end);
            } else if self.random.chance(1, 2) {
                let lag = self.random.below(LAG_MAX);
                self.delay_bytes(connection, end, lag);
            }
            self.put(connection, end, Chunk::Closed);
        }
        if self.random.chance(1, 2) {
            // The initiator hears of it at once, whatever is still on its way to it.
            self.lose_bytes(connection, ACCEPTOR);
            self.connections[connection].lanes[ACCEPTOR].busy_until = self.time;
            self.put(connection, ACCEPTOR, Chunk::Closed);
        }
    }

    /// The network breaks a connection, and its initiator hears of it at once. What it has sent arrives much later.
    pub(super) fn reset_late(&mut self, connection: ConnectionNumber, lag: Nanos) {
        self.delay_bytes(connection, INITIATOR, lag);
        self.put(connection, INITIATOR, Chunk::Closed);
        self.lose_bytes(connection, ACCEPTOR);
        self.connections[connection].lanes[ACCEPTOR].busy_until = self.time;
        self.put(connection, ACCEPTOR, Chunk::Closed);
    }

    fn lose_bytes(&mut self, connection: ConnectionNumber, end: usize) {
        let chunks = &mut self.connections[connection].lanes[end].chunks;
        chunks.retain(|(_, chunk)| matches!(chunk, Chunk::Open));
    }

    fn delay_bytes(&mut self, connection: ConnectionNumber, end: usize, lag: Nanos) {
        let now = self.time;
        let lane = &mut self.connections[connection].lanes[end];
        lane.busy_until = lane.busy_until.max(now) + lag;
        let mut times = Vec::new();
        for (arrives, _) in &mut lane.chunks {
            *arrives += lag;
            times.push(*arrives);
        }
        for at in times {
            self.at(
                at,
                Event::Arrive {
                    connection,
                    from: end,
                },
            );
        }
    }

    fn put(&mut self, connection: ConnectionNumber, end: usize, chunk: Chunk) {
        let [from, to] = [end, 1 - end].map(|end| self.connections[connection].ends[end].host);
        let packet = match &chunk {
            Chunk::Bytes(bytes) => Packet::Bytes(bytes.len()),
            Chunk::Open | Chunk::Closed => Packet::Bytes(0),
        };
        let at = self.time + self.delay(from, to, packet);
        let lane = &mut self.connections[connection].lanes[end];
        let at = at.max(lane.busy_until + 1);
        lane.busy_until = at;
        if self.fault_schedule.note_arrival(from, to, at) {
            self.report.tell("deliveries overtaken", 1);
        }
        lane.chunks.push_back((at, chunk));
        self.at(
            at,
            Event::Arrive {
                connection,
                from: end,
            },
        );
    }

    /// Something that end `from` sent may have arrived at the other one.
    pub(super) fn arrived(&mut self, connection: ConnectionNumber, from: usize) {
        let connected = &self.connections[connection];
        let Some((at, _)) = connected.lanes[from].chunks.front() else {
            return;
        };
        if *at > self.time {
            return;
        }
        let [from_host, to_host] = [from, 1 - from].map(|end| connected.ends[end].host);
        let blocked = self
            .fault_schedule
            .cut_until(from_host, to_host)
            .max(self.stopped_until(to_host));
        if blocked > self.time {
            // What waited on several connections comes in any order among them.
            let at = blocked + self.random.below(2 * MS);
            return self.at(at, Event::Arrive { connection, from });
        }
        let (alive, life) = (self.is_alive(to_host), self.life_of(to_host));
        let connected = &mut self.connections[connection];
        let Some((_, chunk)) = connected.lanes[from].chunks.pop_front() else {
            return;
        };
        let end = &mut connected.ends[1 - from];
        if !end.open || !alive || end.life != life {
            return;
        }
        let arrival = match chunk {
            Chunk::Open => Arrival::Open,
            Chunk::Bytes(bytes) => {
                end.input.extend_from_slice(&bytes);
                self.report.hash(&self.time.to_le_bytes());
                self.report.hash(&bytes);
                Arrival::Bytes
            }
            Chunk::Closed => {
                end.open = false;
                self.narrate(&[from_host, to_host], || format!("#{connection} closed"));
                Arrival::Closed
            }
        };
        self.handle(connection, 1 - from, arrival);
    }

    /// The process of a host is gone, and its connections with it.
    pub(super) fn abandon_connections(&mut self, host: usize) {
        for number in 0..self.connections.len() {
            for end in [INITIATOR, ACCEPTOR] {
                if self.connections[number].ends[end].host == host {
                    self.close(number, end);
                }
            }
        }
    }

    /// Open connections for which a choice holds.
    pub(super) fn open_connections(
        &self,
        chosen: impl Fn(&[End; 2]) -> bool,
    ) -> Vec<ConnectionNumber> {
        let is_open = |ends: &[End; 2]| ends.iter().all(|end| end.open);
        let numbered = self.connections.iter().enumerate();
        numbered
            .filter(|(_, connection)| is_open(&connection.ends) && chosen(&connection.ends))
            .map(|(number, _)| number)
            .collect()
    }

    fn delay(&mut self, from: usize, to: usize, packet: Packet) -> Nanos {
        let more = self.undetermined();
        let World {
            fault_schedule,
            random,
            report,
            ..
        } = self;
        more + fault_schedule.delay(random, report, self.time, (from, to), packet)
    }
}
