//! Clients and their proxies, and the check of every answer that is shown.

use super::state::*;
use super::*;
use crate::client::{Answer, Connection, Route, Verdict};
use evenkeel_placement::renaming;
use std::sync::Arc;

impl Cluster {
    pub(super) fn client_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let hash = KeyHash::of(KEY);
        for (client, c) in state.clients.iter().enumerate() {
            if c.ops.len() >= self.scope.pipeline {
                continue;
            }
            let proxy = &state.proxies[c.proxy];
            if c.left.reads > 0 {
                let gamma = match proxy.epoch == proxy.leases.epoch() {
                    true => proxy.leases.leased_gamma(state.proxy_now(), hash),
                    false => 0,
                };
                let copies = (0..=gamma).filter(|copy| proxy.sticks.is_none_or(|s| s == *copy));
                actions.extend(copies.map(|copy| Action::Read { client, copy }));
            }
            if c.left.home_reads > 0 {
                actions.push(Action::ReadHome { client });
            }
            let overtakes = self.has(Fault::WritesOvertakeReads);
            if !overtakes && proxy.leases.knows(hash) && c.ops.iter().any(|op| op.is_read) {
                continue;
            }
            if c.left.sets > 0 {
                actions.push(Action::Set { client });
            }
            if c.left.deletes > 0 {
                actions.push(Action::Delete { client });
            }
            if c.left.swaps > 0 && c.shown.is_some() {
                actions.push(Action::Swap { client });
            }
        }
    }
}

impl Step<'_> {
    fn leases(&mut self, proxy: usize) -> &mut ClientLeases {
        let (state, mutants) = (&self.state, &self.cluster.client_mutants);
        let revive = || state.proxies[proxy].leases.revive(mutants);
        self.leases[proxy].get_or_insert_with(revive)
    }

    /// A read of a copy, or of what only the home has.
    pub(super) fn read(&mut self, client: usize, copy: Option<u8>) -> Option<()> {
        let hash = KeyHash::of(KEY);
        let now = self.state.proxy_now();
        let proxy = self.state.clients[client].proxy;
        let epoch = self.state.proxies[proxy].epoch;
        let reader = (hash, Connection(client as u64));
        let leases = self.leases(proxy);
        let is_leased = leases.leased_gamma(now, hash) > 0;
        let ticket = match copy {
            None => leases.home_read(now, epoch, reader),
            Some(copy) => {
                leases.set_turn(hash, copy);
                let load = |suffix| Some(usize::from(suffix != copy));
                leases.route_read(now, epoch, reader, load)
            }
        };
        let route = ticket.route();
        if copy.is_some_and(|copy| copy > 0) && route == Route::Home {
            // The client reads at home whatever the turn: that is the same as copy 0.
            return None;
        }
        let c = &mut self.state.clients[client];
        match copy {
            Some(_) => c.left.reads -= 1,
            None => c.left.home_reads -= 1,
        }
        let number = c.next;
        c.next += 1;
        let op = Op {
            number,
            sent_at: self.state.time,
            ticket: Some(ticket),
            write: None,
            is_read: true,
            asked: None,
            answer: None,
        };
        c.ops.push_back(op);
        let is_sequential = self.cluster.scope.pace == Pace::Sequential;
        let p = &mut self.state.proxies[proxy];
        if is_sequential && is_leased {
            p.sticks = p.sticks.or(copy);
        }
        let is_replica = route != Route::Home;
        if is_replica && self.state.time > p.leased_until {
            let late = self.state.time - p.leased_until;
            self.violate(Violation::ReplicaAfterLease, |_| format!("by {late} ms"));
        }
        self.tell(|_| format!("client {client} sends read {number} to {}", name(route)));
        self.ask(client, number, route, Request::Read { is_replica, epoch });
        Some(())
    }

    pub(super) fn write(&mut self, action: Action) {
        let (Action::Set { client } | Action::Delete { client } | Action::Swap { client }) = action
        else {
            unreachable!("it is no write")
        };
        let proxy = self.state.clients[client].proxy;
        let epoch = self.state.proxies[proxy].epoch;
        let writer = Connection(client as u64);
        // Clients that trust the servers alone keep nothing.
        let can_tell = self.cluster.scope.pace != Pace::Sequential;
        let leases = self.leases(proxy);
        let write = leases.write_begun(KeyHash::of(KEY), writer, can_tell);
        if let Some(write) = write {
            leases.write_sent(write);
        }
        let c = &mut self.state.clients[client];
        let change = match action {
            Action::Set { .. } => {
                c.left.sets -= 1;
                Change::Set
            }
            Action::Delete { .. } => {
                c.left.deletes -= 1;
                Change::Delete
            }
            _ => {
                c.left.swaps -= 1;
                Change::Swap(c.shown.expect("only what was shown is swapped"))
            }
        };
        let number = c.next;
        c.next += 1;
        c.ops.push_back(Op {
            number,
            sent_at: self.state.time,
            ticket: None,
            write,
            is_read: false,
            asked: None,
            answer: None,
        });
        self.tell(|_| format!("client {client} sends write {number}"));
        self.ask(
            client,
            number,
            Route::Home,
            Request::Write { change, epoch },
        );
    }

    fn ask(&mut self, client: usize, number: usize, route: Route, request: Request) {
        let proxy = self.state.clients[client].proxy;
        let epoch = self.state.proxies[proxy].epoch;
        let map = self
            .cluster
            .map(epoch, self.state.owners[epoch.0 as usize - 1]);
        let home = map.locate(KeyHash::of(KEY)).worker;
        let target = home.and_then(|home| match route {
            Route::Home => Some(home),
            Route::Shadow { suffix } => renaming::shadows(map, KEY, home.server, suffix)
                .get(usize::from(suffix) - 1)
                .copied(),
        });
        let Some(target) = target else {
            self.tell(|_| "nobody is its home".into());
            return self.arrive(client, number, FAILED);
        };
        let server = usize::from(target.server.0);
        if let Some(op) = self.op(client, number) {
            op.asked = Some(server);
        }
        if self.cluster.scope.wires_are_slow {
            let ask = Ask {
                client,
                number,
                request,
            };
            let streams = &mut self.state.wire_mut(proxy, server).streams;
            let present = streams.last_mut().expect("there is always one");
            present.push_back(ask);
        } else {
            let reply = self.serve(server, request);
            self.arrive(client, number, reply);
        }
    }

    fn op(&mut self, client: usize, number: usize) -> Option<&mut Op> {
        let ops = &mut self.state.clients[client].ops;
        ops.iter_mut().find(|op| op.number == number)
    }

    pub(super) fn deliver_ask(&mut self, proxy: usize, server: usize, stream: usize) {
        let wire = self.state.wire_mut(proxy, server);
        let Some(ask) = wire.streams[stream].pop_front() else {
            return;
        };
        let is_present = stream + 1 == wire.streams.len();
        if !is_present && wire.streams[stream].is_empty() {
            wire.streams.remove(stream);
        }
        let reply = self.serve(server, ask.request);
        if is_present {
            let answers = &mut self.state.wire_mut(proxy, server).answers;
            answers.push_back((ask.client, ask.number, reply));
        } else {
            self.reach(Reached::LateRequest);
        }
    }

    pub(super) fn deliver_answer(&mut self, proxy: usize, server: usize) {
        let answers = &mut self.state.wire_mut(proxy, server).answers;
        if let Some((client, number, reply)) = answers.pop_front() {
            self.arrive(client, number, reply);
        }
    }

    pub(super) fn arrive(&mut self, client: usize, number: usize, reply: Reply) {
        let now = self.state.proxy_now();
        let proxy = self.state.clients[client].proxy;
        let epoch = self.state.proxies[proxy].epoch;
        self.leases(proxy);
        let Some(op) = self.state.clients[client]
            .ops
            .iter_mut()
            .find(|op| op.number == number)
        else {
            return;
        };
        op.asked = None;
        op.answer = Some(reply);
        if let (Some(ticket), Some(grant)) = (&op.ticket, reply.grant) {
            let leases = self.leases[proxy].as_mut().expect("it was just taken out");
            let began = leases.grant(now, epoch, ticket, reply.answer, grant);
            let is_leased = leases.leased_gamma(now, ticket.hash()) > 0;
            let until = op.sent_at + grant.left.as_millis() as u64;
            let home = self.state.owners[epoch.0 as usize - 1];
            let p = &mut self.state.proxies[proxy];
            if is_leased {
                let home = home.expect("a home has answered");
                p.leased_until = p.leased_until.max(until);
                p.leased_by = (home, self.state.servers[home].life);
                self.reach(Reached::Leased);
            }
            if began {
                self.state.proxies[proxy].sticks = None;
                self.tell(|_| format!("proxy {proxy} has a lease from now on"));
            }
        }
        let op = self
            .op(client, number)
            .expect("it is there until it is shown");
        let write = op.write.take();
        let ticket = op.ticket.as_ref().cloned();
        let leases = self.leases[proxy].as_mut().expect("it was just taken out");
        let value = || Some(Arc::from(reply.position?.to_le_bytes()));
        if let Some(ticket) = ticket {
            leases.keep(epoch, &ticket, reply.answer, 8, value);
        }
        let hash = KeyHash::of(KEY);
        match write {
            Some(ticket) if ticket.tells() && reply.answer != Answer::Failed => {
                leases.write_answered(epoch, (hash, ticket), reply.answer, 8, value);
            }
            Some(ticket) => leases.write_ended(hash, ticket),
            None => {}
        }
        match self.cluster.has(Fault::ReleasedOnArrival) {
            true => self.release_on_arrival(client, number),
            false => self.release(client),
        }
    }

    /// Shows what can be shown, in the order of the requests.
    fn release(&mut self, client: usize) {
        loop {
            let proxy = self.state.clients[client].proxy;
            let Some(op) = self.state.clients[client].ops.front_mut() else {
                return;
            };
            let Some(reply) = op.answer else { return };
            if !op.is_read {
                self.state.clients[client].ops.pop_front();
                self.show_written(client, reply);
                continue;
            }
            let (number, sent_at) = (op.number, op.sent_at);
            if self.judge(client, number) {
                let ops = &mut self.state.clients[client].ops;
                // What is kept may stand in its place.
                let reply = ops.pop_front().and_then(|op| op.answer).unwrap_or(reply);
                self.show(client, proxy, (number, sent_at), reply);
            } else {
                return;
            }
        }
    }

    /// What the documentation of `ClientLeases` forbids: judges an answer when it arrives.
    fn release_on_arrival(&mut self, client: usize, number: usize) {
        if let Some(op) = self.op(client, number)
            && op.is_read
            && !self.judge(client, number)
        {
            return;
        }
        let proxy = self.state.clients[client].proxy;
        while let Some(op) = self.state.clients[client].ops.front() {
            let Some(reply) = op.answer else { return };
            let (is_read, sent) = (op.is_read, (op.number, op.sent_at));
            self.state.clients[client].ops.pop_front();
            match is_read {
                true => self.show(client, proxy, sent, reply),
                false => self.show_written(client, reply),
            }
        }
    }

    /// Whether the answer to a read may be shown. If not, it was asked again.
    fn judge(&mut self, client: usize, number: usize) -> bool {
        let now = self.state.proxy_now();
        let proxy = self.state.clients[client].proxy;
        let epoch = self.state.proxies[proxy].epoch;
        self.leases(proxy);
        let op = self
            .op(client, number)
            .expect("it is there until it is shown");
        let reply = op.answer.expect("it has arrived");
        let Some(ticket) = op.ticket.take() else {
            return true;
        };
        let was_replica = ticket.route() != Route::Home;
        let leases = self.leases[proxy].as_mut().expect("it was just taken out");
        match leases.release(now, epoch, ticket, reply.answer) {
            Verdict::Show => {
                if was_replica {
                    self.reach(Reached::ReplicaShown);
                }
                true
            }
            Verdict::ShowKept(answer, value) => {
                let value = value.expect("each is kept with its position");
                let position = usize::from_le_bytes(value[..].try_into().expect("it is one"));
                let op = self
                    .op(client, number)
                    .expect("it is there until it is shown");
                op.answer = Some(Reply {
                    answer,
                    position: Some(position),
                    grant: None,
                });
                self.reach(Reached::KeptShown);
                true
            }
            Verdict::AskHome(again) => {
                let op = self
                    .op(client, number)
                    .expect("it is there until it is shown");
                (op.ticket, op.answer) = (Some(again), None);
                self.reach(match reply.answer {
                    Answer::Hit(_) => Reached::AskedAgainOld,
                    Answer::Miss(_) => Reached::AskedAgainMissed,
                    Answer::Failed => Reached::AskedAgainFailed,
                });
                self.tell(|_| {
                    let what = answer_in_words(reply);
                    format!("the answer to read {number} ({what}) is not shown; it goes home again")
                });
                let request = Request::Read {
                    is_replica: false,
                    epoch,
                };
                self.ask(client, number, Route::Home, request);
                false
            }
        }
    }

    fn show_written(&mut self, client: usize, reply: Reply) {
        let what = answer_in_words(reply);
        self.tell(|_| format!("client {client} is told of its write: {what}"));
        let Some(position) = reply.position else {
            return;
        };
        let seen = self.state.clients[client].seen;
        // A delete of nothing changes nothing.
        let is_new = matches!(reply.answer, Answer::Hit(_));
        if seen > position || is_new && seen == position {
            self.violate(Violation::OwnFuture, |_| {
                format!("it had seen state {seen}")
            });
        }
        let c = &mut self.state.clients[client];
        c.seen = c.seen.max(position);
        c.wrote = Some(position);
    }

    /// The promises.
    fn show(&mut self, client: usize, _: usize, (number, sent_at): (usize, u64), reply: Reply) {
        let what = answer_in_words(reply);
        self.tell(|_| format!("client {client} is shown for read {number}: {what}"));
        let Some(shown) = reply.position else {
            return self.reach(Reached::ErrorShown);
        };
        let c = &self.state.clients[client];
        let (seen, wrote) = (c.seen, c.wrote);
        if matches!(reply.answer, Answer::Miss(_)) {
            self.reach(Reached::MissShown);
        }
        if shown < seen {
            let gone = self.state.history[shown + 1..=seen]
                .iter()
                .any(|was| was.is_gone);
            let violation = match gone && matches!(reply.answer, Answer::Hit(_)) {
                true => Violation::DeleteUndone,
                false if wrote.is_some_and(|wrote| shown < wrote) => Violation::OwnWriteUnseen,
                false => Violation::BackInTime,
            };
            self.violate(violation, |_| {
                format!("client {client} knew of state {seen}")
            });
        }
        let over_at = self.state.history.get(shown + 1).map(|next| next.since);
        if let Some(over_at) = over_at.filter(|&at| at < sent_at) {
            self.reach(Reached::StaleWithinLease);
            if over_at + LEASE_MS < sent_at {
                let age = sent_at - over_at;
                self.violate(Violation::TooStale, |_| {
                    format!("client {client} read what had been over for {age} ms")
                });
            }
        }
        let c = &mut self.state.clients[client];
        c.seen = c.seen.max(shown);
        c.shown = match reply.answer {
            Answer::Hit(version) => Some(Item {
                version,
                position: shown,
            }),
            _ => None,
        };
    }
}

fn name(route: Route) -> String {
    match route {
        Route::Home => "the home".into(),
        Route::Shadow { suffix } => format!("shadow {suffix} of the key"),
    }
}

/// For a story.
pub(super) fn answer_in_words(reply: Reply) -> String {
    let lease = reply.grant.map(|grant| match grant.left == grant.lease {
        true => ", with a lease".into(),
        false => format!(", with a lease of {:?}", grant.left),
    });
    let lease = lease.unwrap_or_default();
    match (reply.answer, reply.position) {
        (Answer::Hit(version), Some(position)) => {
            format!("state {position} (version {}){lease}", version.0)
        }
        (Answer::Miss(version), Some(position)) => {
            let version = version.map_or("none".into(), |version| version.0.to_string());
            format!("nothing is there in state {position} (version {version}){lease}")
        }
        (_, None) => "refused, or no answer".into(),
        (Answer::Failed, Some(_)) => "no answer".into(),
    }
}
