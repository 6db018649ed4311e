//! Applications: connections to proxies that ask without waiting, and remember all they were told.

use super::home_log::last_write;
use super::network::{Arrival, ConnectionNumber, INITIATOR, Who};
use super::plan::MS;
use super::proxies::REQUEST_TIMEOUT;
use super::{Event, World};
use crate::history::{Action, Effect, Found, NEVER, Nanos, Operation, WriteId};
use evenkeel_protocol::{Limits, MetaStatus, Reply, ReplyOutcome, parse_reply};
use std::collections::VecDeque;
use std::io::Write;

/// How long the answer to a command may take when nothing goes wrong any more: the time-out of the
/// proxy for a first and a second place, and what may have been queued before it.
const PATIENCE: Nanos = 3 * REQUEST_TIMEOUT;

/// What an application awaits an answer to.
#[derive(Debug)]
struct Pending {
    kind: Kind,
    /// Its operations in the history, one for each key, in the order asked.
    operations: Vec<usize>,
}

/// How its answer looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Get,
    MetaGet,
    Store,
    Delete,
    Flush,
}

/// One connection of an application, and the connections before it.
#[derive(Debug)]
pub(super) struct Application {
    proxy: usize,
    connection: Option<ConnectionNumber>,
    connected: bool,
    /// Its name in the history; each connection has another.
    client: u32,
    pending: VecDeque<Pending>,
    pipeline_max: usize,
    /// Mean pause between commands.
    pause: Nanos,
    /// The newest version that it was shown of each key, to be swapped.
    versions: Vec<Option<(WriteId, u64)>>,
}

impl Application {
    pub fn new(proxy: usize, keys: usize, pipeline_max: usize, pause: Nanos) -> Self {
        Application {
            proxy,
            connection: None,
            connected: false,
            client: 0,
            pending: VecDeque::new(),
            pipeline_max,
            pause,
            versions: vec![None; keys],
        }
    }
}

impl World {
    /// An application connects, as a new client.
    pub(super) fn open_application(&mut self, application: usize) {
        let proxy = self.servers.len() + self.applications[application].proxy;
        let from = (self.coordinator_host() + 1, Who::Application(application));
        let connection = self.connect(from, (proxy, Who::ProxyClient(None)));
        self.clients += 1;
        let client = self.clients;
        let a = &mut self.applications[application];
        (a.connection, a.connected, a.client) = (Some(connection), false, client);
        a.versions.fill(None);
    }

    /// An application closes its connection, and soon opens another.
    pub(super) fn hang_up(&mut self, application: usize) {
        if let Some(connection) = self.applications[application].connection {
            self.close(connection, INITIATOR);
            self.disconnected(application);
            self.report.tell("applications gone", 1);
        }
    }

    /// Every command is answered in time, with an error if need be.
    pub(super) fn check_patience(&mut self) {
        for application in 0..self.applications.len() {
            let oldest = self.applications[application].pending.front();
            let Some(&operation) = oldest.and_then(|pending| pending.operations.first()) else {
                continue;
            };
            let operation = self.operations[operation].clone();
            if self.time - operation.invoked > PATIENCE {
                self.fail(format!("no answer yet to {operation:?}"));
            }
        }
    }

    fn disconnected(&mut self, application: usize) {
        let a = &mut self.applications[application];
        a.connection = None;
        a.pending.clear();
        let delay = self.random.below(20 * MS);
        self.after(delay, Event::Open { application });
    }

    pub(super) fn hear_proxy(
        &mut self,
        connection: ConnectionNumber,
        application: usize,
        arrival: Arrival,
    ) {
        if self.applications[application].connection != Some(connection) {
            return;
        }
        match arrival {
            Arrival::Open => self.applications[application].connected = true,
            Arrival::Bytes => self.take_answers(connection, application),
            Arrival::Closed => self.disconnected(application),
        }
    }

    /// An application sends a few commands, or waits for answers.
    pub(super) fn act(&mut self, application: usize) {
        let a = &self.applications[application];
        let pause = 1 + self.random.below(2 * a.pause);
        self.after(pause, Event::Act { application });
        let a = &self.applications[application];
        let Some(connection) = a.connection.filter(|_| a.connected) else {
            return;
        };
        let room = a.pipeline_max.saturating_sub(a.pending.len());
        if room == 0 {
            return;
        }
        let commands = 1 + self.random.index(room.min(4));
        let mut bytes = Vec::new();
        for _ in 0..commands {
            self.compose(application, &mut bytes);
        }
        self.send(connection, INITIATOR, &bytes);
    }

    /// A key: the first one is the hottest.
    fn some_key(&mut self) -> usize {
        match self.random.below(10) {
            0..6 => 0,
            6..8 => 1,
            _ => self.random.index(self.keys.len()),
        }
    }

    fn compose(&mut self, application: usize, out: &mut Vec<u8>) {
        let key = self.some_key();
        let choice = self.random.below(1000);
        let writes = self.write_share;
        if choice >= writes {
            return self.compose_read(application, key, out);
        }
        let name = String::from_utf8_lossy(&self.keys[key]).into_owned();
        let read = Action::Read(Found::Unknown);
        match self.random.below(100) {
            0..40 => {
                let (id, value) = self.new_value();
                let len = value.len();
                let noreply = self.random.chance(1, 20);
                let end = if noreply { " noreply" } else { "" };
                write!(out, "set {name} 0 0 {len}{end}\r\n{value}\r\n").expect(IN_MEMORY);
                let operation = self.begin(application, key, write_of(id, None));
                if !noreply {
                    self.expect(application, Kind::Store, vec![operation]);
                }
            }
            40..55 => {
                let (id, value) = self.new_value();
                write!(out, "ms {name} {} c\r\n{value}\r\n", value.len()).expect(IN_MEMORY);
                let operation = self.begin(application, key, write_of(id, None));
                self.expect(application, Kind::Store, vec![operation]);
            }
            55..65 => {
                let (id, value) = self.new_value();
                write!(out, "append {name} 0 0 {}\r\n{value}\r\n", value.len()).expect(IN_MEMORY);
                let operation = self.begin(application, key, write_of(id, None));
                self.expect(application, Kind::Store, vec![operation]);
            }
            65..80 => {
                let Some((old, version)) = self.applications[application].versions[key] else {
                    return self.compose_read(application, key, out);
                };
                let (id, value) = self.new_value();
                let len = value.len();
                write!(out, "cas {name} 0 0 {len} {version}\r\n{value}\r\n").expect(IN_MEMORY);
                let operation = self.begin(application, key, write_of(id, Some(old)));
                self.expect(application, Kind::Store, vec![operation]);
            }
            80..90 => {
                write!(out, "delete {name}\r\n").expect(IN_MEMORY);
                let operation = self.begin(application, key, Action::Delete(Effect::Unknown));
                self.expect(application, Kind::Delete, vec![operation]);
            }
            90..93 => {
                // An expiry in the past is another way to delete.
                write!(out, "touch {name} -1\r\n").expect(IN_MEMORY);
                let operation = self.begin(application, key, Action::Delete(Effect::Unknown));
                self.expect(application, Kind::Delete, vec![operation]);
            }
            93..99 => {
                // Far away: nothing to be seen but that nothing is lost.
                write!(out, "touch {name} 100000\r\n").expect(IN_MEMORY);
                let operation = self.begin(application, key, read);
                self.expect(application, Kind::Delete, vec![operation]);
            }
            _ => {
                out.extend_from_slice(b"flush_all\r\n");
                let keys = 0..self.keys.len();
                let deletes = |key| self.begin(application, key, Action::Delete(Effect::Unknown));
                let operations = keys.map(deletes).collect();
                self.expect(application, Kind::Flush, operations);
            }
        }
    }

    fn compose_read(&mut self, application: usize, key: usize, out: &mut Vec<u8>) {
        let name = String::from_utf8_lossy(&self.keys[key]).into_owned();
        let read = Action::Read(Found::Unknown);
        match self.random.below(10) {
            0..5 => {
                let word = if self.random.chance(1, 3) {
                    "gets"
                } else {
                    "get"
                };
                write!(out, "{word} {name}\r\n").expect(IN_MEMORY);
                let operation = self.begin(application, key, read);
                self.expect(application, Kind::Get, vec![operation]);
            }
            5..8 => {
                // With a flag that sends it to the home, at times.
                let more = if self.random.chance(1, 6) { " t" } else { "" };
                write!(out, "mg {name} v c{more}\r\n").expect(IN_MEMORY);
                let operation = self.begin(application, key, read);
                self.expect(application, Kind::MetaGet, vec![operation]);
            }
            _ => {
                let first = self.random.index(self.keys.len());
                let count = 2 + self.random.index(self.keys.len() - 1);
                out.extend_from_slice(b"gets");
                let mut operations = Vec::new();
                for i in 0..count {
                    let key = (first + i) % self.keys.len();
                    out.push(b' ');
                    out.extend_from_slice(&self.keys[key]);
                    operations.push(self.begin(application, key, read.clone()));
                }
                out.extend_from_slice(b"\r\n");
                self.expect(application, Kind::Get, operations);
            }
        }
    }

    /// A value that nobody has written before.
    fn new_value(&mut self) -> (WriteId, String) {
        self.writes += 1;
        let id = self.writes;
        let padding = match self.random.below(20) {
            0 => self.random.index(3000),
            1..4 => self.random.index(40),
            _ => 0,
        };
        (WriteId(id), format!("{id}.{:x<padding$};", ""))
    }

    /// Notes an operation whose outcome is not known yet.
    fn begin(&mut self, application: usize, key: usize, action: Action) -> usize {
        self.operations.push(Operation {
            client: self.applications[application].client,
            key: key as u16,
            invoked: self.time,
            completed: NEVER,
            action,
        });
        self.operations.len() - 1
    }

    fn expect(&mut self, application: usize, kind: Kind, operations: Vec<usize>) {
        self.applications[application]
            .pending
            .push_back(Pending { kind, operations });
    }

    /// Takes as many answers as have arrived in full.
    fn take_answers(&mut self, connection: ConnectionNumber, application: usize) {
        let limits = Limits::default();
        loop {
            let input = core::mem::take(&mut self.connections[connection].ends[INITIATOR].input);
            let mut taken = 0;
            let mut replies = Vec::new();
            let Some(pending) = self.applications[application].pending.front() else {
                if !input.is_empty() {
                    let text = input.escape_ascii().to_string();
                    self.fail(format!("client was sent what it did not ask for: {text}"));
                }
                return;
            };
            // A get has values before its end; everything else has one reply.
            let is_whole = loop {
                match parse_reply(&input[taken..], &limits) {
                    ReplyOutcome::Reply { reply, consumed } => {
                        taken += consumed;
                        let goes_on = matches!(reply, Reply::Value(_)) && pending.kind == Kind::Get;
                        replies.push(reply);
                        if !goes_on {
                            break true;
                        }
                    }
                    ReplyOutcome::Incomplete { .. } => break false,
                    ReplyOutcome::Malformed => {
                        let text = input.escape_ascii().to_string();
                        return self.fail(format!("client was sent what is no reply: {text}"));
                    }
                }
            };
            if !is_whole {
                drop(replies);
                self.connections[connection].ends[INITIATOR].input = input;
                return;
            }
            if let Some(pending) = self.applications[application].pending.pop_front() {
                self.finish(application, &pending, &replies);
            }
            drop(replies);
            self.connections[connection].ends[INITIATOR].input = input[taken..].to_vec();
        }
    }

    /// Notes what came of a command.
    fn finish(&mut self, application: usize, pending: &Pending, replies: &[Reply<'_>]) {
        for &operation in &pending.operations {
            self.operations[operation].completed = self.time;
        }
        let Some(last) = replies.last() else { return };
        match pending.kind {
            Kind::Get => {
                for &operation in &pending.operations {
                    let key = usize::from(self.operations[operation].key);
                    let value = replies.iter().find_map(|reply| match reply {
                        Reply::Value(value) if value.key == self.keys[key] => Some(value),
                        _ => None,
                    });
                    let found = match value {
                        Some(value) => {
                            self.found(application, key, value.data, value.cas.map(|v| v.0))
                        }
                        None if matches!(last, Reply::End) => Found::Miss,
                        None => Found::Unknown,
                    };
                    self.operations[operation].action = Action::Read(found);
                }
            }
            Kind::MetaGet => {
                let operation = pending.operations[0];
                let key = usize::from(self.operations[operation].key);
                let found = match last {
                    Reply::Meta(meta) if meta.status == MetaStatus::Value => {
                        let data = meta.value.unwrap_or_default();
                        self.found(application, key, data, meta.flags.unsigned(b'c'))
                    }
                    Reply::Meta(meta) if meta.status == MetaStatus::Miss => Found::Miss,
                    _ => Found::Unknown,
                };
                self.operations[operation].action = Action::Read(found);
            }
            Kind::Store | Kind::Delete | Kind::Flush => {
                for &operation in &pending.operations {
                    self.wrote(operation, last);
                }
            }
        }
    }

    /// Notes what came of a write.
    fn wrote(&mut self, operation: usize, reply: &Reply<'_>) {
        let (effect, was_there) = match reply {
            Reply::Stored | Reply::Deleted | Reply::Touched | Reply::Ok => {
                (Effect::Done { version: None }, true)
            }
            Reply::Meta(meta) if meta.status == MetaStatus::Done => (
                Effect::Done {
                    version: meta.flags.unsigned(b'c'),
                },
                true,
            ),
            Reply::NotFound => (Effect::None, false),
            Reply::Meta(meta) => (Effect::None, meta.status != MetaStatus::NotFound),
            Reply::NotStored | Reply::Exists => (Effect::None, true),
            // An error: it may have happened, or may happen yet.
            _ => return,
        };
        let action = &mut self.operations[operation].action;
        match action {
            Action::Write { effect: of, .. } => *of = effect,
            // A delete of what is not there has read that it is not there.
            Action::Delete(_) if !was_there => *action = Action::Read(Found::Miss),
            Action::Delete(of) => *of = effect,
            Action::Read(found) if !was_there => *found = Found::Miss,
            Action::Read(_) => {}
        }
    }

    /// What a value is, which must be one that a home has held.
    fn found(
        &mut self,
        application: usize,
        key: usize,
        data: &[u8],
        version: Option<u64>,
    ) -> Found {
        let Some(write) = last_write(data)
            .filter(|id| self.contents.get(id).is_some_and(|content| content == data))
        else {
            let text = data.escape_ascii().to_string();
            self.fail(format!(
                "a client was shown a value that no home ever held: {text}"
            ));
            return Found::Unknown;
        };
        if let Some(version) = version {
            self.applications[application].versions[key] = Some((write, version));
        }
        Found::Value { write, version }
    }
}

const IN_MEMORY: &str = "writing to memory cannot fail";

fn write_of(id: WriteId, expects: Option<WriteId>) -> Action {
    Action::Write {
        id,
        expects,
        effect: Effect::Unknown,
    }
}
