//! Each server's serving leases, from the coordinator's answers and by the votes that it asks other
//! servers for, over connections of its own. As in the server, but for the threads.
//!
//! A process can be stopped at any moment, also between its look at the clock and what it does then. Such a turn is
//! one that goes on after the stop by the reading from before ([`Hazard::StopInTurn`](super::Hazard::StopInTurn)).

use super::connection::{ACCEPTOR, Arrival, ConnectionNumber, INITIATOR, Who};
use super::fault::Fault;
use super::server::owner_of_port;
use super::units::MS;
use super::voting::Peer;
use super::{Event, World};
use crate::history::Nanos;
use core::time::Duration;
use evenkeel_coordinator_core::HeartbeatAnswer;
use evenkeel_protocol::compose::request;
use evenkeel_protocol::{Limits, Reply, ReplyOutcome, parse_reply};
use evenkeel_server_core::{ConnectionId, ServingLease, Step, Voter};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{Epoch, KeyHash, ServerId};
use std::collections::VecDeque;
use std::sync::Arc;

/// Rounds that a server may leave unanswered before another connection is tried.
const UNANSWERED_MAX: usize = 4;

impl World {
    /// The coordinator has answered what a server sent at that time.
    pub(super) fn handle_answered(&mut self, server: usize, sent: Nanos, answer: &HeartbeatAnswer) {
        let s = &mut self.servers[server];
        let sent = s.process.clock.read(sent);
        let lease = answer.lease_ms.map(Duration::from_millis);
        let lease = s.leases.keeper.handle_answer(sent, answer.epoch, lease);
        self.tell_lease(server, lease);
    }

    /// A server has a map, by which it asks others from now on.
    pub(super) fn handle_map_of_voters(&mut self, server: usize, map: &Arc<ClusterMap>) {
        let s = &mut self.servers[server];
        if let Some(id) = s.id {
            s.leases.keeper.handle_map(map.clone(), id);
        }
    }

    /// Tells each worker of a lease, behind all that it was told before.
    fn tell_lease(&mut self, server: usize, lease: ServingLease) {
        for worker in 0..self.workers_per_server {
            let at = self.in_turn(server, MS);
            let life = self.servers[server].process.life;
            let event = Event::Lease {
                server,
                life,
                worker,
                lease,
            };
            self.at(at, event);
        }
    }

    pub(super) fn handle_lease(&mut self, server: usize, worker: u16, lease: ServingLease) {
        let s = &mut self.servers[server];
        let now = s.process.now(self.time).monotonic;
        let late = s.workers[usize::from(worker)].handle_lease(now, lease);
        self.close_all_late(server, worker, late);
        self.look_at_lease(server, worker);
        self.pump_worker(server, worker);
    }

    /// Asks others for their votes, if it is time to.
    pub(super) fn ask_for_votes(&mut self, server: usize) {
        let s = &mut self.servers[server];
        let (now, applied) = (s.process.now(self.time).monotonic, s.applied());
        let keeper = &mut s.leases.keeper;
        if now < keeper.poll_deadline() {
            return;
        }
        match keeper.handle_timeout(now, applied) {
            Step::Wait => {}
            Step::Lease(lease) => self.tell_lease(server, lease),
            Step::Ask {
                round,
                epoch,
                voters,
            } => self.ask(server, round, epoch, &voters),
        }
    }

    fn ask(&mut self, server: usize, round: u64, epoch: Epoch, voters: &[Voter]) {
        let Some(me) = self.servers[server].id else {
            return;
        };
        let mut line = Vec::new();
        request::ask_for_vote(&mut line, epoch, me, self.servers[server].boot);
        for voter in voters {
            let known = self.servers[server].leases.peers.get(&voter.server);
            let is_known = known.is_some();
            let is_silent = known.is_some_and(|peer| peer.asked.len() >= UNANSWERED_MAX);
            if is_silent {
                self.forget_peer(server, voter.server);
            }
            if is_silent || !is_known {
                let (host, worker) = owner_of_port(voter.port);
                let to = (host, Who::Session { worker, id: None });
                let connection = self.connect((server, Who::Peer(voter.server)), to);
                let peer = Peer {
                    connection,
                    stands: false,
                    out: Vec::new(),
                    asked: VecDeque::new(),
                };
                let peers = &mut self.servers[server].leases.peers;
                peers.insert(voter.server, peer);
            }
            if let Some(peer) = self.servers[server].leases.peers.get_mut(&voter.server) {
                peer.asked.push_back(round);
                peer.out.extend_from_slice(&line);
            }
            self.send_to_peer(server, voter.server);
        }
    }

    fn forget_peer(&mut self, server: usize, voter: ServerId) {
        if let Some(peer) = self.servers[server].leases.peers.remove(&voter) {
            self.close(peer.connection, INITIATOR);
        }
    }

    fn send_to_peer(&mut self, server: usize, voter: ServerId) {
        let peers = &mut self.servers[server].leases.peers;
        if let Some(peer) = peers.get_mut(&voter).filter(|peer| peer.stands) {
            let (connection, out) = (peer.connection, core::mem::take(&mut peer.out));
            self.send(connection, INITIATOR, &out);
        }
    }

    /// Something came from a server that was asked for its vote.
    pub(super) fn handle_peer(
        &mut self,
        connection: ConnectionNumber,
        (server, voter): (usize, ServerId),
        arrival: Arrival,
    ) {
        let leases = &mut self.servers[server].leases;
        let Some(peer) = leases.peers.get_mut(&voter) else {
            return;
        };
        if peer.connection != connection {
            return;
        }
        match arrival {
            Arrival::Open => {
                peer.stands = true;
                self.send_to_peer(server, voter);
            }
            Arrival::Bytes => {
                let input = &mut self.connections[connection].ends[INITIATOR].input;
                let mut lease = None;
                while let ReplyOutcome::Reply { reply, consumed } =
                    parse_reply(input, &Limits::default())
                {
                    let round = peer.asked.pop_front().expect("answers follow questions");
                    let is_for = matches!(reply, Reply::Hello(hello)
                        if hello.vote == Some(true) && hello.worker.server == voter);
                    input.drain(..consumed);
                    if is_for {
                        lease = leases.keeper.handle_vote(round, voter).or(lease);
                    }
                }
                if let Some(lease) = lease {
                    self.tell_lease(server, lease);
                }
            }
            Arrival::Closed => drop(leases.peers.remove(&voter)),
        }
        self.arm(server);
    }

    /// To be called before a worker executes anything: what it owes when its lease has ended may be told no more.
    pub(super) fn look_at_lease(&mut self, server: usize, worker: u16) {
        if self.has_fault(Fault::LeasesOutlived) {
            return;
        }
        let s = &mut self.servers[server];
        let now = s.process.now(self.time).monotonic;
        let late = s.workers[usize::from(worker)].look_at_lease(now);
        self.close_all_late(server, worker, late);
    }

    fn close_all_late(&mut self, server: usize, worker: u16, late: Vec<ConnectionId>) {
        if self.has_fault(Fault::LeasesOutlived) {
            return;
        }
        for id in late {
            self.close_late(server, worker, id);
        }
    }

    /// Whether what a worker has composed must not leave any more.
    pub(super) fn is_too_late(&self, server: usize, worker: u16) -> bool {
        let s = &self.servers[server];
        let now = s.process.now(self.time).monotonic;
        let end = s.workers[usize::from(worker)].lease_end();
        end.is_some_and(|end| now >= end) && !self.has_fault(Fault::LeasesOutlived)
    }

    /// Closes a connection whose answers may have been composed too late.
    pub(super) fn close_late(&mut self, server: usize, worker: u16, id: ConnectionId) {
        let s = &mut self.servers[server];
        let core = &mut s.workers[usize::from(worker)];
        core.counters().answers_too_late += 1;
        core.close(id);
        if let Some(connection) = s.take_session(worker, id) {
            self.close(connection, ACCEPTOR);
        }
    }

    /// Stops a server that has looked at the clock and executed nothing yet, if that is to happen to it. True if it
    /// goes on later.
    pub(super) fn stop_in_turn(
        &mut self,
        connection: ConnectionNumber,
        (server, worker, id): (usize, u16, ConnectionId),
    ) -> bool {
        let Some(length) = self.servers[server].leases.stop_in_turn.take() else {
            return false;
        };
        let until = (self.time + length).min(self.plan.quiet_from());
        if until <= self.time + 1 {
            return false;
        }
        self.stand_still(server, until);
        self.report.tell("turns stopped", 1);
        let (life, read) = (self.servers[server].process.life, self.time);
        // Before anything else that it finds then.
        let event = Event::GoOn {
            connection,
            server,
            life,
            worker,
            id,
            read,
        };
        self.at(until - 1, event);
        true
    }

    /// A turn goes on that had been stopped, by the clock as it was read at its beginning.
    pub(super) fn go_on(
        &mut self,
        connection: ConnectionNumber,
        (server, worker, id): (usize, u16, ConnectionId),
        life: u32,
        read: Nanos,
    ) {
        let process = &mut self.servers[server].process;
        if !process.alive || process.life != life {
            return;
        }
        if process.stopped_until > self.time + 1 {
            // It was stopped again meanwhile.
            let event = Event::GoOn {
                connection,
                server,
                life,
                worker,
                id,
                read,
            };
            let at = process.stopped_until - 1;
            return self.at(at, event);
        }
        process.stopped_until = self.time;
        self.servers[server].leases.read = Some(read);
        self.feed(connection, server, worker, id);
        self.servers[server].leases.read = None;
        self.look_at_lease(server, worker);
        self.pump_worker(server, worker);
    }

    /// A command reaches a worker: noted is whether it may execute it.
    pub(super) fn note_leave(&mut self, server: usize, worker: u16) {
        let core = &self.servers[server].workers[usize::from(worker)];
        if core.lease_end().is_none() && self.servers[server].leases.keeper.is_leased() {
            self.report.tell("commands to servers without a lease", 1);
        }
    }

    /// Whether a worker will have forgotten a key before it serves it again, because others may have it meanwhile.
    pub(super) fn is_given_away(&self, server: usize, worker: u16, key: u16) -> bool {
        let hash = KeyHash::of(&self.keys[usize::from(key)]);
        let s = &self.servers[server];
        let (Some(map), Some(id)) = (self.coordinator.core.map(), s.id) else {
            return true;
        };
        let place = map.locate(hash);
        let since = map.document().since[usize::from(place.cachelet.0)];
        match place.worker {
            Some(owner) if owner.server == id => since > s.workers[usize::from(worker)].epoch(),
            // It has come here, with its contents, and the coordinator has not been told.
            Some(_) => {
                let migration = map.migration(place.cachelet);
                migration.is_none_or(|migration| migration.to.server != id)
            }
            None => map.server(id).is_none_or(|entry| !entry.up),
        }
    }
}
