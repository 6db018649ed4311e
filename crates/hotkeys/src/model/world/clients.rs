//! Clients: what a proxy does for its application connections, and the check of every answer.

use super::*;
use crate::client;
use std::sync::Arc;

impl World {
    pub(super) fn new_proxy(&mut self) -> Proxy {
        let mut leases = ClientLeases::new(self.random.next_u64());
        if let Some(Fault::Client(mutant)) = self.plan.fault {
            leases.mutants.push(mutant);
        }
        if self.plan.pace == Pace::Sequential {
            leases.mutants.push(client::Mutant::ShowAnything);
            leases.mutants.push(client::Mutant::OneCopy);
        }
        Proxy {
            clock: Clock::random(&mut self.random),
            map: self.map(),
            leases,
            connections: (0..SERVERS).map(|_| Connection::default()).collect(),
        }
    }

    /// The clock and the map of a client's proxy.
    fn proxy_now(&self, client: usize) -> (Instant, Epoch) {
        let proxy = &self.proxies[self.proxy_of(client)];
        (proxy.clock.read(self.time), proxy.map.epoch())
    }

    pub(super) fn act(&mut self, client: usize) {
        self.after(0, 12 * MS, Event::Act { client });
        let sequential = self.plan.pace == Pace::Sequential;
        let pipeline_max = if sequential { 1 } else { PIPELINE_MAX };
        if self.clients[client].ops.len() >= pipeline_max {
            return;
        }
        // The first key is the hottest.
        let key = [0, 0, 0, 1, 2][self.random.below(5) as usize];
        let hash = KeyHash::of(KEYS[key]);
        let write = self.chance(1, 12);
        let delete = write && self.chance(1, 3);
        let special = !sequential && self.chance(1, 20);
        let (now, epoch) = self.proxy_now(client);
        let proxy = self.proxy_of(client);
        let connection = client::Connection(client as u64);
        let overtakes = self.has(Fault::WritesOvertakeReads);
        let (c, p) = (&mut self.clients[client], &mut self.proxies[proxy]);
        if write && !overtakes && p.leases.knows(hash) && c.is_reading(key) {
            return self.report.count("writes that wait for reads");
        }
        let number = c.first + c.ops.len() as u64;
        if write {
            let kind = [WriteKind::Update, WriteKind::Delete][usize::from(delete)];
            // Clients that trust the servers alone keep nothing.
            let ticket = p.leases.write_begun(hash, connection, !sequential);
            if let Some(ticket) = ticket {
                p.leases.write_sent(ticket);
            }
            let answer = None;
            c.ops.push_back(Op::Write {
                key,
                ticket,
                answer,
            });
            self.ask(
                client,
                number,
                Route::Home,
                Request::Write { key, kind, epoch },
            );
        } else {
            let ticket = match special {
                true => p.leases.home_read(now, epoch, (hash, connection)),
                false => p
                    .leases
                    .route_read(now, epoch, (hash, connection), |_| Some(0)),
            };
            let route = ticket.route();
            let sent_at = self.time;
            c.ops.push_back(Op::Read {
                key,
                sent_at,
                ticket: Some(ticket),
                answer: None,
            });
            let replica = route != Route::Home;
            self.ask(
                client,
                number,
                route,
                Request::Read {
                    key,
                    replica,
                    epoch,
                },
            );
        }
    }

    pub(super) fn ask(&mut self, client: usize, number: u64, route: Route, request: Request) {
        let (Request::Read { key, .. } | Request::Write { key, .. }) = request;
        let p = &self.proxies[self.proxy_of(client)];
        let home = p.map.locate(KeyHash::of(KEYS[key])).worker;
        let target = home.and_then(|home| match route {
            Route::Home => Some(home),
            Route::Shadow { suffix } => renaming::shadows(&p.map, KEYS[key], home.server, suffix)
                .get(usize::from(suffix) - 1)
                .copied(),
        });
        let server = target.map(|worker| usize::from(worker.server.0));
        match server.filter(|&server| self.servers[server].alive) {
            Some(server) => {
                let delay = self.delay();
                let proxy = self.proxy_of(client);
                let connection = &mut self.proxies[proxy].connections[server];
                let generation = connection.generation;
                let at = queue_up(&mut connection.busy_until[0], self.time + delay);
                self.at(
                    at,
                    Event::Ask {
                        client,
                        server,
                        generation,
                        number,
                        request,
                    },
                );
            }
            None => {
                // Nobody listens; the client notices at once.
                let generation = self.proxies[self.proxy_of(client)].connections[0].generation;
                let event = Event::Answer {
                    client,
                    server: 0,
                    generation,
                    number,
                    reply: FAILED,
                };
                self.after(1, 2, event);
            }
        }
    }

    pub(super) fn answer(
        &mut self,
        client: usize,
        server: usize,
        generation: u64,
        number: u64,
        reply: Reply,
    ) {
        let delay = self.delay();
        let proxy = self.proxy_of(client);
        let connection = &mut self.proxies[proxy].connections[server];
        if connection.generation == generation {
            let at = queue_up(&mut connection.busy_until[1], self.time + delay);
            self.at(
                at,
                Event::Answer {
                    client,
                    server,
                    generation,
                    number,
                    reply,
                },
            );
        }
    }

    pub(super) fn arrive(
        &mut self,
        client: usize,
        number: u64,
        reply: Reply,
    ) -> Result<(), String> {
        let (now, epoch) = self.proxy_now(client);
        let proxy = self.proxy_of(client);
        let (c, p) = (&mut self.clients[client], &mut self.proxies[proxy]);
        let Some(i) = number
            .checked_sub(c.first)
            .filter(|&i| (i as usize) < c.ops.len())
        else {
            return Ok(());
        };
        match &mut c.ops[i as usize] {
            Op::Read {
                ticket: Some(ticket),
                answer,
                ..
            } if answer.is_none() => {
                if let Some(grant) = reply.grant {
                    let is_whole = grant.left == grant.lease;
                    self.report.count(match is_whole {
                        true => "whole leases granted",
                        false => "shortened leases granted",
                    });
                    let leased = p.leases.grant(now, epoch, ticket, reply.answer, grant);
                    let known = p.leases.knows(ticket.hash());
                    self.report.count(match (leased, known) {
                        (true, _) => "leases",
                        (false, true) => "grants of what is lent",
                        (false, false) => "grants not taken",
                    });
                }
                let value = || Some(Arc::from(reply.position.to_le_bytes()));
                p.leases
                    .keep(epoch, ticket, reply.answer, len_kept(reply), value);
                *answer = Some(reply);
            }
            Op::Write {
                key,
                answer,
                ticket,
            } if answer.is_none() => {
                let hash = KeyHash::of(KEYS[*key]);
                match ticket.take() {
                    Some(ticket) if ticket.tells() && reply.answer != Answer::Failed => {
                        let value = || Some(Arc::from(reply.position.to_le_bytes()));
                        let (len, key) = (len_kept(reply), (hash, ticket));
                        p.leases
                            .write_answered(epoch, key, reply.answer, len, value);
                        self.report.count("writes known");
                    }
                    Some(ticket) => p.leases.write_ended(hash, ticket),
                    None => {}
                }
                *answer = Some(reply);
            }
            _ => return Ok(()),
        }
        if self.has(Fault::ReleasedOnArrival) {
            return self.release_out_of_order(client, i as usize);
        }
        self.release(client)
    }

    /// Shows what can be shown in the order of the requests.
    pub(super) fn release(&mut self, client: usize) -> Result<(), String> {
        loop {
            let (now, epoch) = self.proxy_now(client);
            let proxy = self.proxy_of(client);
            let (c, p) = (&mut self.clients[client], &mut self.proxies[proxy]);
            let number = c.first;
            match c.ops.front_mut() {
                Some(Op::Write {
                    key,
                    answer: Some(reply),
                    ..
                }) => {
                    // An error says nothing about what happened.
                    let (key, reply) = (*key, *reply);
                    c.ops.pop_front();
                    c.first += 1;
                    if reply.answer != Answer::Failed {
                        let seen = &mut self.clients[client].seen[key];
                        if *seen >= reply.position {
                            return Err(format!(
                                "client {client} saw {seen} before it wrote {}",
                                reply.position
                            ));
                        }
                        *seen = reply.position;
                    }
                }
                Some(Op::Read {
                    key,
                    sent_at,
                    ticket,
                    answer: answer @ Some(_),
                }) => {
                    let (key, sent_at) = (*key, *sent_at);
                    let reply = answer.take().expect("it was just seen to be there");
                    let held = ticket
                        .take()
                        .expect("a read keeps its ticket until it is shown");
                    let from_shadow = held.route() != Route::Home;
                    match p.leases.release(now, epoch, held, reply.answer) {
                        Verdict::Show => {
                            c.ops.pop_front();
                            c.first += 1;
                            if from_shadow {
                                self.report.count("replica reads shown");
                            }
                            self.show(client, key, sent_at, reply)?;
                        }
                        Verdict::ShowKept(answer, value) => {
                            c.ops.pop_front();
                            c.first += 1;
                            self.report.count("kept values shown");
                            self.show(client, key, sent_at, kept(answer, value))?;
                        }
                        Verdict::AskHome(again) => {
                            *ticket = Some(again);
                            self.report.count(match reply.answer {
                                Answer::Hit(_) => "reads asked again: old",
                                Answer::Miss(_) => "reads asked again: missed",
                                Answer::Failed => "reads asked again: failed",
                            });
                            let request = Request::Read {
                                key,
                                replica: false,
                                epoch,
                            };
                            self.ask(client, number, Route::Home, request);
                            return Ok(());
                        }
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// What the documentation of `ClientLeases` forbids: judges an answer when it arrives.
    pub(super) fn release_out_of_order(&mut self, client: usize, i: usize) -> Result<(), String> {
        let (now, epoch) = self.proxy_now(client);
        let proxy = self.proxy_of(client);
        let (c, p) = (&mut self.clients[client], &mut self.proxies[proxy]);
        if let Op::Read {
            key,
            ticket,
            answer: slot,
            ..
        } = &mut c.ops[i]
            && let (Some(held), Some(reply)) = (ticket.take(), *slot)
        {
            let key = *key;
            let verdict = p.leases.release(now, epoch, held, reply.answer);
            if let Verdict::ShowKept(answer, value) = verdict {
                *slot = Some(kept(answer, value));
            } else if let Verdict::AskHome(again) = verdict {
                *ticket = Some(again);
                *slot = None;
                let request = Request::Read {
                    key,
                    replica: false,
                    epoch,
                };
                let number = c.first + i as u64;
                self.ask(client, number, Route::Home, request);
            }
        }
        loop {
            let c = &mut self.clients[client];
            let (key, sent_at, reply) = match c.ops.front() {
                Some(Op::Write {
                    key,
                    answer: Some(reply),
                    ..
                }) => (*key, None, *reply),
                Some(Op::Read {
                    key,
                    sent_at,
                    answer: Some(reply),
                    ..
                }) => (*key, Some(*sent_at), *reply),
                _ => return Ok(()),
            };
            c.ops.pop_front();
            c.first += 1;
            match sent_at {
                Some(sent_at) => self.show(client, key, sent_at, reply)?,
                None if reply.answer == Answer::Failed => {}
                None => c.seen[key] = c.seen[key].max(reply.position),
            }
        }
    }

    /// The promise.
    pub(super) fn show(
        &mut self,
        client: usize,
        key: usize,
        sent_at: u64,
        reply: Reply,
    ) -> Result<(), String> {
        if reply.answer == Answer::Failed {
            self.report.count("errors shown");
            return Ok(());
        }
        let (seen, shown) = (self.clients[client].seen[key], reply.position);
        let name = String::from_utf8_lossy(KEYS[key]);
        if shown < seen {
            return Err(format!(
                "client {client} saw {name} at {seen}, then at {shown}"
            ));
        }
        let superseded_at = self.histories[key].superseded_at(shown);
        if superseded_at.saturating_add(LEASE) < sent_at {
            return Err(format!(
                "client {client} read {name} at {} us and saw {shown}, which was over at {} us",
                sent_at / 1000,
                superseded_at / 1000
            ));
        }
        if superseded_at < sent_at {
            self.report.count("stale reads within a lease");
        }
        self.clients[client].seen[key] = shown;
        Ok(())
    }
}

/// Each third value is longer than what is kept.
fn len_kept(reply: Reply) -> usize {
    match reply.position % 3 {
        0 => client::KEPT_VALUE_LEN_MAX + 1,
        _ => size_of::<usize>(),
    }
}

/// A kept value, which is a position.
fn kept(answer: Answer, value: Option<Arc<[u8]>>) -> Reply {
    let value = value.expect("each is kept with its position");
    let position = value[..].try_into().expect("it is a position");
    Reply {
        answer,
        position: usize::from_le_bytes(position),
        grant: None,
    }
}
