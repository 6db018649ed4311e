//! Applications: what they ask, and whether they are answered what they must be.

use super::Cluster;
use super::client::{Awaited, Client};
use super::network::{INITIATOR, Way, Who};
use crate::history::Nanos;
use crate::load::report::Outcome;
use crate::load::{Arrivals, KEY_LEN};
use evenkeel_workload::Operation;
use evenkeel_workload::rng::below;
use std::collections::VecDeque;

/// Sets that an application sends at once before the load begins.
const FILL_PIPELINE: u32 = 16;

impl Cluster<'_> {
    pub(super) fn connect_clients(&mut self) {
        let clients = self.plan.clients;
        for client in 0..clients {
            let proxy = client % self.plan.proxies;
            let id = self.proxies[proxy].core.client_opened();
            let ends = (Who::Client(client), Who::ProxyClient(proxy, id));
            let connection = self.network.connect(ends.0, ends.1, Way::Local);
            self.proxies[proxy].accept(id, connection);
            let fill = self.workload.fill(client, clients);
            self.clients.push(Client {
                connection,
                awaited: VecDeque::new(),
                fill: fill.start as u32..fill.end as u32,
            });
        }
    }

    /// When the next request of an open loop is due.
    pub(super) fn next_due(&self) -> Nanos {
        match &self.schedule {
            Some(schedule) if self.filling == 0 => self.begun + schedule.next_ns(),
            _ => Nanos::MAX,
        }
    }

    /// A request of an open loop is due.
    pub(super) fn ask_when_due(&mut self) {
        if let Some(schedule) = &mut self.schedule {
            schedule.advance();
        }
        let client = below(&mut self.random, self.plan.clients as u64) as usize;
        self.ask(client, 1);
    }

    /// An application has all its answers, and goes on.
    pub(super) fn ask_again(&mut self, client: usize) {
        match self.plan.arrivals {
            _ if self.filling > 0 => self.fill(client),
            Arrivals::Closed { pipeline } => self.ask(client, pipeline),
            Arrivals::Open { .. } => {}
        }
    }

    /// The next requests of the workload.
    fn ask(&mut self, client: usize, count: usize) {
        let now = self.time - self.begun;
        let mut bytes = self.network.buffer();
        let mut keys = core::mem::take(&mut self.drawn);
        for _ in 0..count {
            keys.clear();
            let operation = self.requests.draw(now, &mut keys);
            self.compose(
                client,
                keys[0] as u32,
                operation == Operation::Get,
                &mut bytes,
            );
        }
        self.drawn = keys;
        self.send_request(client, bytes);
    }

    /// The next keys that an application has to set before the load begins.
    fn fill(&mut self, client: usize) {
        let keys = &mut self.clients[client].fill;
        let end = keys.end.min(keys.start + FILL_PIPELINE);
        let next = keys.start..end;
        keys.start = end;
        if next.is_empty() {
            self.filling -= 1;
            if self.filling == 0 {
                self.begin();
            }
            return;
        }
        let mut bytes = self.network.buffer();
        for key in next {
            self.compose(client, key, false, &mut bytes);
        }
        self.send_request(client, bytes);
    }

    fn send_request(&mut self, client: usize, bytes: Vec<u8>) {
        let connection = self.clients[client].connection;
        self.send(connection, INITIATOR, self.time, bytes);
    }

    fn compose(&mut self, client: usize, key: u32, is_get: bool, out: &mut Vec<u8>) {
        let name = self.names.of(key);
        if is_get {
            out.extend_from_slice(b"get ");
            out.extend_from_slice(&name);
        } else {
            out.extend_from_slice(b"set ");
            out.extend_from_slice(&name);
            out.extend_from_slice(&self.set_words);
            // Each value begins with its key, as far as there is room.
            let end = out.len() + self.plan.value_bytes;
            out.extend_from_slice(&name[..KEY_LEN.min(self.plan.value_bytes)]);
            out.resize(end, b'v');
        }
        out.extend_from_slice(b"\r\n");
        self.clients[client].awaited.push_back(Awaited {
            key,
            is_get,
            asked: self.time,
        });
    }

    /// An application reads what it was answered.
    pub(super) fn take_answers(&mut self, client: usize) {
        let connection = self.clients[client].connection;
        let mut input = core::mem::take(&mut self.network.connections[connection].input[INITIATOR]);
        let mut taken = 0;
        let mut missed = Vec::new();
        while let Some(&awaited) = self.clients[client].awaited.front() {
            let rest = &input.rest()[taken..];
            let name = self.names.of(awaited.key);
            match read_answer(rest, &name, awaited.is_get, self.plan.value_bytes) {
                Answer::Incomplete => break,
                Answer::Wrong => {
                    let shown = rest[..rest.len().min(100)].escape_ascii();
                    self.wrong = Some(format!("{awaited:?} was answered {shown}"));
                    return;
                }
                Answer::Whole { len, outcome } => {
                    taken += len;
                    self.clients[client].awaited.pop_front();
                    self.simulated += 1;
                    let took = self.time - awaited.asked;
                    self.tally.answered(self.time, took, outcome);
                    if outcome == Outcome::Miss && self.plan.fill {
                        missed.push(awaited.key);
                    }
                }
            }
        }
        input.consume(taken);
        self.network.connections[connection].input[INITIATOR] = input;
        if !missed.is_empty() {
            let mut bytes = self.network.buffer();
            for key in missed {
                self.compose(client, key, false, &mut bytes);
            }
            self.send_request(client, bytes);
        }
        if self.clients[client].awaited.is_empty() {
            self.ask_again(client);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Incomplete,
    Wrong,
    Whole { len: usize, outcome: Outcome },
}

/// Reads the answer to a get or a set of a key from the front of the input.
fn read_answer(input: &[u8], name: &[u8], is_get: bool, value_bytes: usize) -> Answer {
    match input.first() {
        None => Answer::Incomplete,
        Some(b'V') if is_get => read_value(input, name, value_bytes),
        Some(b'E') if is_get => read_line(input, b"END\r\n", Outcome::Miss),
        Some(b'S') if !is_get && !b"SERVER".starts_with(&input[..input.len().min(2)]) => {
            read_line(input, b"STORED\r\n", Outcome::Stored)
        }
        _ => read_error(input, is_get),
    }
}

fn read_line(input: &[u8], line: &[u8], outcome: Outcome) -> Answer {
    if input.starts_with(line) {
        let len = line.len();
        Answer::Whole { len, outcome }
    } else if line.starts_with(input) {
        Answer::Incomplete
    } else {
        Answer::Wrong
    }
}

/// What a server or a proxy could not do.
fn read_error(input: &[u8], is_get: bool) -> Answer {
    const ERROR: &[u8] = b"SERVER_ERROR ";
    if ERROR.starts_with(input) {
        return Answer::Incomplete;
    }
    if !input.starts_with(ERROR) {
        return Answer::Wrong;
    }
    let outcome = match is_get {
        true => Outcome::FailedGet,
        false => Outcome::FailedSet,
    };
    match input.iter().position(|&byte| byte == b'\n') {
        Some(end) => Answer::Whole {
            len: end + 1,
            outcome,
        },
        None => Answer::Incomplete,
    }
}

fn read_value(input: &[u8], name: &[u8], value_bytes: usize) -> Answer {
    const END: &[u8] = b"\r\nEND\r\n";
    let Some(line) = input.iter().position(|&byte| byte == b'\n') else {
        return Answer::Incomplete;
    };
    let len = line + 1 + value_bytes + END.len();
    if input.len() < len {
        return Answer::Incomplete;
    }
    let value = &input[line + 1..line + 1 + value_bytes];
    let is_right = input[b"VALUE ".len()..].starts_with(name)
        && value.starts_with(&name[..name.len().min(value_bytes)])
        && input[..len].ends_with(END);
    match is_right {
        true => Answer::Whole {
            len,
            outcome: Outcome::Hit,
        },
        false => Answer::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_whole_and_wrong_ones_are_noticed() {
        let name = b"0123456789abcdef";
        let cases: [(&str, bool, Option<Outcome>); 9] = [
            (
                "VALUE 0123456789abcdef 0 4\r\n0123\r\nEND\r\n",
                true,
                Some(Outcome::Hit),
            ),
            ("END\r\n", true, Some(Outcome::Miss)),
            ("STORED\r\n", false, Some(Outcome::Stored)),
            (
                "SERVER_ERROR out of memory\r\n",
                true,
                Some(Outcome::FailedGet),
            ),
            (
                "SERVER_ERROR out of memory\r\n",
                false,
                Some(Outcome::FailedSet),
            ),
            ("VALUE 0123456789abcdef 0 4\r\n0124\r\nEND\r\n", true, None),
            ("VALUE 0123456789abcdee 0 4\r\n0123\r\nEND\r\n", true, None),
            ("STORED\r\n", true, None),
            ("END\r\n", false, None),
        ];
        for (text, is_get, expected) in cases {
            let read = |len: usize| read_answer(&text.as_bytes()[..len], name, is_get, 4);
            match expected {
                Some(outcome) => {
                    let len = text.len();
                    assert_eq!(read(len), Answer::Whole { len, outcome }, "{text}");
                    for part in 0..len {
                        assert_eq!(read(part), Answer::Incomplete, "{part} of {text}");
                    }
                }
                None => assert_eq!(read(text.len()), Answer::Wrong, "{text}"),
            }
        }
    }
}
