//! What workers want: messages passed on, links opened, bytes written.

use super::super::World;
use super::super::connection::{ACCEPTOR, ConnectionNumber, INITIATOR, Who};
use super::super::mutants::spoil_held;
use super::super::register::ON_THE_WAY;
use super::super::server::owner_of_port;
use super::super::units::MS;
use evenkeel_server_core::{ConnectionId, LinkRequest, Message, ProcessRequest};

impl World {
    /// Executes what a worker wants after anything that it was told, and what its connections were
    /// waiting to ask it.
    pub(in crate::world) fn pump_worker(&mut self, server: usize, worker: u16) {
        loop {
            self.execute_wishes(server, worker);
            let core = &mut self.servers[server].workers[usize::from(worker)];
            let touched: Vec<_> = core::iter::from_fn(|| core.poll_touched()).collect();
            if touched.is_empty() {
                break;
            }
            for id in touched {
                let sessions = &self.servers[server].sessions[usize::from(worker)];
                if let Some(&connection) = sessions.get(&(id.slot, id.generation)) {
                    self.show_output(server, worker, connection, id);
                    // What waited for this answer goes on.
                    self.feed(connection, server, worker, id);
                }
            }
        }
        self.spring_traps(server);
        self.arm(server);
    }

    fn execute_wishes(&mut self, server: usize, worker: u16) {
        let w = usize::from(worker);
        let s = &mut self.servers[server];
        let now = s.process.now(self.time);
        s.workers[w].handle_released(now);
        let mut messages = Vec::new();
        self.servers[server].workers[w].flush_outbox(|to, message| {
            messages.push((to, message));
            Ok(())
        });
        for (to, message) in messages {
            if let Message::Handover(handover) = &message {
                self.carry(server, handover.cachelet(), ON_THE_WAY);
            }
            let at = self.in_queue(server, (worker, to), MS / 5);
            self.at(at, self.message_event(server, (worker, to), message));
        }
        while let Some(request) = self.servers[server].workers[w].poll_process_request() {
            if request == ProcessRequest::AskForMap {
                self.report.tell("maps wanted by servers", 1);
                self.send_heartbeat_soon(server);
            }
        }
        while let Some(request) = self.servers[server].workers[w].poll_link_request() {
            match request {
                LinkRequest::Connect { link, port, .. } => {
                    let (target, index) = owner_of_port(port);
                    let from = (server, Who::Link { worker, link });
                    let to = (
                        target,
                        Who::Session {
                            worker: index,
                            id: None,
                        },
                    );
                    let connection = self.connect(from, to);
                    self.servers[server].links[w].insert(link, connection);
                    self.report.tell("links made", 1);
                }
                LinkRequest::Close(link) => {
                    if let Some(connection) = self.servers[server].links[w].remove(&link) {
                        self.close(connection, INITIATOR);
                    }
                }
            }
        }
        let links: Vec<_> = self.servers[server].links[w]
            .iter()
            .map(|(to, connection)| (*to, *connection))
            .collect();
        for (link, connection) in links {
            if !self.linked.contains(&connection) {
                continue;
            }
            let out = self.servers[server].workers[w].link_out(link);
            let bytes = out.map(core::mem::take).unwrap_or_default();
            self.send(connection, INITIATOR, &bytes);
        }
    }

    fn show_output(
        &mut self,
        server: usize,
        worker: u16,
        connection: ConnectionNumber,
        id: ConnectionId,
    ) {
        let w = usize::from(worker);
        let s = &mut self.servers[server];
        let Some(session) = s.workers[w].session(id) else {
            return;
        };
        let mut out = core::mem::take(&mut session.out);
        if !out.is_empty() && self.is_too_late(server, worker) {
            return self.close_late(server, worker, id);
        }
        let s = &mut self.servers[server];
        let Some(session) = s.workers[w].session(id) else {
            return;
        };
        let is_over = session.closing && !session.awaits();
        if let Some(early) = s.early[w].remove(&(id.slot, id.generation)) {
            out.drain(..early);
        }
        spoil_held(self.plan.fault, &mut out);
        self.send(connection, ACCEPTOR, &out);
        if is_over {
            let s = &mut self.servers[server];
            s.workers[w].close(id);
            s.sessions[w].remove(&(id.slot, id.generation));
            self.close(connection, ACCEPTOR);
            self.report.tell("older links ended", 1);
        }
    }
}
