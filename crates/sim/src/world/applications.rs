//! Applications: connections to proxies that ask without waiting. What they are told is noted in
//! [`super::answers`].
//!
//! Every value is new, so that it tells which write made it: texts are lists of `id;` or
//! `id.padding;`, which `append` and `prepend` make longer, and counters are sums of numbers that no
//! two writes share.

use super::application::{Kind, Pending};
use super::connection::{Arrival, ConnectionNumber, INITIATOR, Who};
use super::register::{number_of, scattered_number_of};
use super::swarm::Habit;
use super::units::MS;
use super::{Event, World};
use crate::history::{Action, Effect, Found, NEVER, Operation, WriteId};
use crate::random::Random;
use std::io::Write;

/// Keys that hold texts, and counters. A led pool has more: most of what its former servers have is asked for once.
const TEXT_NAMES: [&str; 4] = ["alpha", "beta", "gamma", "delta"];
const COUNTER_NAMES: [&str; 2] = ["count", "total"];
const LED_TEXTS: usize = 32;

/// Most keys that one get asks for.
const KEYS_PER_GET_MAX: usize = 6;

/// Longest expiry, in seconds.
const EXPTIME_MAX: u64 = 5;

/// The keys of a run, and how many of them hold texts.
pub(super) fn names(random: &mut Random, is_led: bool) -> (Vec<Vec<u8>>, usize) {
    let mut named = |name: &&str| format!("{name}{}", random.below(1000)).into_bytes();
    let mut keys: Vec<_> = TEXT_NAMES.iter().map(&mut named).collect();
    if is_led {
        keys.extend((TEXT_NAMES.len()..LED_TEXTS).map(|i| format!("text{i}").into_bytes()));
    }
    let texts = keys.len();
    keys.extend(COUNTER_NAMES.iter().map(&mut named));
    (keys, texts)
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

    /// An application closes its connection, and soon opens another. False if it has none.
    pub(super) fn hang_up(&mut self, application: usize) -> bool {
        let Some(connection) = self.applications[application].connection else {
            return false;
        };
        self.narrate_application(application, |_| "hangs up".into());
        self.close(connection, INITIATOR);
        self.disconnected(application);
        true
    }

    fn disconnected(&mut self, application: usize) {
        let a = &mut self.applications[application];
        a.connection = None;
        a.pending.clear();
        let delay = self.random.below(20 * MS);
        self.after(delay, Event::Open { application });
    }

    pub(super) fn handle_proxy(
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

    /// A key that holds a text: the first one is the hottest.
    pub(super) fn some_text(&mut self) -> usize {
        let (first, second) = match self.led {
            Some(_) => (3, 4),
            None => (6, 8),
        };
        match self.random.below(10) {
            choice if choice < first => 0,
            choice if choice < second => 1,
            _ => self.random.index(self.texts),
        }
    }

    fn does(&self, habit: Habit) -> bool {
        self.plan.swarm.habits.has(habit)
    }

    fn tell(&mut self, habit: Habit) {
        self.report.tell(habit.name(), 1);
    }

    fn compose(&mut self, application: usize, out: &mut Vec<u8>) {
        if self.random.below(1000) >= self.plan.swarm.write_share {
            return self.compose_read(application, out);
        }
        match self.random.below(100) {
            0..40 if self.does(Habit::Swap) && self.keeps_uniques(application) => {
                self.compose_swap(application, out);
            }
            40..55 if self.does(Habit::Meta) => self.compose_meta_set(application, out),
            55..63 if self.does(Habit::Concatenate) => {
                self.tell(Habit::Concatenate);
                let verb = ["append", "prepend"][self.random.index(2)];
                self.compose_store(application, verb, out);
            }
            63..67 if self.does(Habit::Conditional) => {
                self.tell(Habit::Conditional);
                let verb = ["add", "replace"][self.random.index(2)];
                self.compose_store(application, verb, out);
            }
            67..77 if self.does(Habit::Swap) => self.compose_swap(application, out),
            77..90 if self.does(Habit::Count) => self.compose_count(application, out),
            90..96 if self.does(Habit::Delete) => self.compose_delete(application, out),
            96..99 => self.compose_touch(application, out),
            99 if self.does(Habit::Flush) => {
                self.tell(Habit::Flush);
                out.extend_from_slice(b"flush_all\r\n");
                let keys = 0..self.keys.len();
                let deletes = |key| self.begin(application, key, Action::Delete(Effect::Unknown));
                let operations = keys.map(deletes).collect();
                self.expect(application, Kind::Flush, operations);
            }
            _ => self.compose_store(application, "set", out),
        }
    }

    /// Mostly never; otherwise soon.
    fn some_exptime(&mut self) -> u64 {
        if self.does(Habit::Expire) && self.random.chance(1, 4) {
            self.tell(Habit::Expire);
            1 + self.random.below(EXPTIME_MAX)
        } else {
            0
        }
    }

    fn compose_store(&mut self, application: usize, verb: &str, out: &mut Vec<u8>) {
        let key = self.some_text();
        let exptime = self.some_exptime();
        let (id, value) = self.new_value();
        let (name, len) = (self.name(key), value.len());
        let is_quiet = verb == "set" && self.does(Habit::Quiet) && self.random.chance(1, 20);
        let end = if is_quiet {
            self.tell(Habit::Quiet);
            " noreply"
        } else {
            ""
        };
        write!(out, "{verb} {name} 0 {exptime} {len}{end}\r\n{value}\r\n").expect(IN_MEMORY);
        let operation = self.begin(application, key, write_of(id, None));
        if !is_quiet {
            self.expect(application, Kind::Store, vec![operation]);
        }
    }

    fn compose_meta_set(&mut self, application: usize, out: &mut Vec<u8>) {
        self.tell(Habit::Meta);
        let key = self.some_text();
        let exptime = self.some_exptime();
        let (id, value) = self.new_value();
        let (name, len) = (self.name(key), value.len());
        write!(out, "ms {name} {len} c T{exptime}\r\n{value}\r\n").expect(IN_MEMORY);
        let operation = self.begin(application, key, write_of(id, None));
        self.expect(application, Kind::Store, vec![operation]);
    }

    /// Whether an application keeps a unique that it was shown of a key for long, and swaps by it however often that is refused. In front of
    /// a ring some do, so that what they swap by was often read before the key has moved.
    pub(super) fn keeps_uniques(&self, application: usize) -> bool {
        application % 2 == 1 && self.has_ring()
    }

    fn compose_swap(&mut self, application: usize, out: &mut Vec<u8>) {
        let key = self.some_text();
        let Some((old, version)) = self.applications[application].versions[key] else {
            return self.compose_read(application, out);
        };
        let version = self.unmasked(key, version);
        self.tell(Habit::Swap);
        let exptime = self.some_exptime();
        let (id, value) = self.new_value();
        let (name, len) = (self.name(key), value.len());
        write!(out, "cas {name} 0 {exptime} {len} {version}\r\n{value}\r\n").expect(IN_MEMORY);
        let operation = self.begin(application, key, write_of(id, Some(old)));
        self.expect(application, Kind::Store, vec![operation]);
    }

    /// Sets a counter, or adds to one.
    fn compose_count(&mut self, application: usize, out: &mut Vec<u8>) {
        self.tell(Habit::Count);
        let key = self.texts + self.random.index(self.keys.len() - self.texts);
        let exptime = self.some_exptime();
        self.writes += 1;
        let id = WriteId(self.writes);
        let number = match self.led {
            Some(_) => scattered_number_of(id),
            None => number_of(id),
        };
        let number = self.register.announce(id, number);
        let name = self.name(key);
        let kind = if self.random.chance(1, 4) {
            let len = number.to_string().len();
            write!(out, "set {name} 0 {exptime} {len}\r\n{number}\r\n").expect(IN_MEMORY);
            Kind::Store
        } else {
            write!(out, "incr {name} {number}\r\n").expect(IN_MEMORY);
            Kind::Increase
        };
        let operation = self.begin(application, key, write_of(id, None));
        self.expect(application, kind, vec![operation]);
    }

    fn compose_delete(&mut self, application: usize, out: &mut Vec<u8>) {
        self.tell(Habit::Delete);
        let key = self.some_text();
        let name = self.name(key);
        // An expiry in the past is another way to delete.
        if self.random.chance(2, 3) {
            write!(out, "delete {name}\r\n").expect(IN_MEMORY);
        } else {
            write!(out, "touch {name} -1\r\n").expect(IN_MEMORY);
        }
        let operation = self.begin(application, key, Action::Delete(Effect::Unknown));
        self.expect(application, Kind::Delete, vec![operation]);
    }

    fn compose_touch(&mut self, application: usize, out: &mut Vec<u8>) {
        let key = self.some_text();
        let name = self.name(key);
        // Mostly far away: nothing to be seen but that nothing is lost.
        let exptime = match self.some_exptime() {
            0 => 100_000,
            soon => soon,
        };
        write!(out, "touch {name} {exptime}\r\n").expect(IN_MEMORY);
        let operation = self.begin(application, key, Action::Read(Found::Unknown));
        self.expect(application, Kind::Delete, vec![operation]);
    }

    fn compose_read(&mut self, application: usize, out: &mut Vec<u8>) {
        // Of one key alone no copy is asked.
        if self.keeps_copies() && self.random.chance(1, 2) {
            let first = self.some_text();
            return self.compose_multi_get(application, first, out);
        }
        let key = if self.does(Habit::Count) && self.random.chance(1, 12) {
            self.random.index(self.keys.len())
        } else {
            self.some_text()
        };
        let name = self.name(key);
        let read = Action::Read(Found::Unknown);
        match self.random.below(10) {
            5..8 if self.does(Habit::Meta) => {
                // With a flag that sends it to the home, at times.
                let more = if self.random.chance(1, 6) { " t" } else { "" };
                write!(out, "mg {name} v c{more}\r\n").expect(IN_MEMORY);
                let operation = self.begin(application, key, read);
                self.expect(application, Kind::MetaGet, vec![operation]);
            }
            8.. if self.does(Habit::MultiGet) => {
                let first = self.random.index(self.keys.len());
                self.compose_multi_get(application, first, out);
            }
            _ => {
                let word = ["get", "get", "gets"][self.random.index(3)];
                write!(out, "{word} {name}\r\n").expect(IN_MEMORY);
                let operation = self.begin(application, key, read);
                self.expect(application, Kind::Get, vec![operation]);
            }
        }
    }

    /// Asks for some keys, from this one on.
    fn compose_multi_get(&mut self, application: usize, first: usize, out: &mut Vec<u8>) {
        self.tell(Habit::MultiGet);
        let count = 2 + self.random.index(KEYS_PER_GET_MAX - 1);
        out.extend_from_slice(b"gets");
        let mut operations = Vec::new();
        for i in 0..count {
            let key = (first + i) % self.keys.len();
            out.push(b' ');
            out.extend_from_slice(&self.keys[key]);
            operations.push(self.begin(application, key, Action::Read(Found::Unknown)));
        }
        out.extend_from_slice(b"\r\n");
        self.expect(application, Kind::Get, operations);
    }

    fn name(&self, key: usize) -> String {
        String::from_utf8_lossy(&self.keys[key]).into_owned()
    }

    /// A value that nobody has written before.
    fn new_value(&mut self) -> (WriteId, String) {
        self.writes += 1;
        let id = self.writes;
        let padding = match self.random.below(20) {
            0 if self.does(Habit::Large) => {
                self.tell(Habit::Large);
                self.random.index(3000)
            }
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
}

const IN_MEMORY: &str = "writing to memory cannot fail";

fn write_of(id: WriteId, expects: Option<WriteId>) -> Action {
    Action::Write {
        id,
        expects,
        effect: Effect::Unknown,
    }
}
