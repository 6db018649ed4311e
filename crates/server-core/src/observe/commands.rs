//! Commands while somebody looks on.

use super::{Observers, PrefixCounts};
use crate::engine::{At, Engine, ttl};
use crate::lists::uri_encode;
use crate::session::ConnectionId;
use crate::stats::class_of;
use crate::worker::WorkerCore;
use evenkeel_protocol::admin::Streams;
use evenkeel_protocol::binary::{self, Command};
use evenkeel_protocol::{Meta, Request, StoreMode, StoreVerb};
use evenkeel_types::{Now, Version};
use std::io::Write;

/// What a key held at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Class, length of the value, version and seconds left of the item, if there is one.
    item: Option<(usize, usize, Version, u32)>,
}

impl Seen {
    /// Looks without leaving a trace.
    pub fn of(engine: &Engine, at: &At, key: &[u8]) -> Self {
        let item = engine.store.peek(at.cachelet, key, at.seconds);
        Seen {
            item: item.map(|item| {
                (
                    class_of(item.size()),
                    item.value().len(),
                    item.version(),
                    ttl(&item, at.seconds).unwrap_or(0),
                )
            }),
        }
    }

    fn found(&self) -> bool {
        self.item.is_some()
    }

    /// Class and length of the value; zeros without an item.
    fn size(&self) -> (usize, usize) {
        self.item.map_or((0, 0), |(class, len, ..)| (class, len))
    }

    fn version(&self) -> Option<Version> {
        self.item.map(|(_, _, version, _)| version)
    }

    /// Seconds left; 0 for ever.
    fn ttl(&self) -> u32 {
        self.item.map_or(0, |(.., ttl)| ttl)
    }
}

/// What a command does to its key, as the log names it.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    /// Reads it.
    Read,
    /// Stores a value of this length.
    Store(&'static str, usize),
    /// Deletes it.
    Delete(&'static str),
    /// Counts up or down; may begin a number.
    Count,
    /// Something else that looks it up.
    Other,
}

impl Deed {
    /// What a command of the text protocol does.
    pub fn of(request: &Request<'_>) -> Self {
        match request {
            Request::Store(store) => {
                let command = match store.verb {
                    StoreVerb::Set => "set",
                    StoreVerb::Add => "add",
                    StoreVerb::Replace => "replace",
                    StoreVerb::Append => "append",
                    StoreVerb::Prepend => "prepend",
                    StoreVerb::Cas(_) => "cas",
                };
                Deed::Store(command, store.value.len())
            }
            Request::MetaSet(Meta { flags, value, .. }) => {
                let command = if flags.has(b'C') {
                    "cas"
                } else {
                    mode_name(flags.store_mode())
                };
                Deed::Store(command, value.len())
            }
            Request::Delete { .. } => Deed::Delete("delete"),
            Request::MetaDelete(_) => Deed::Delete("md"),
            Request::MetaGet(_) => Deed::Read,
            Request::Arithmetic { .. } | Request::MetaArithmetic(_) => Deed::Count,
            _ => Deed::Other,
        }
    }

    /// What a command of the binary protocol does.
    pub fn of_binary(request: &binary::Request<'_>) -> Self {
        match request.command {
            Command::Get { .. } | Command::GetAndTouch { .. } => Deed::Read,
            Command::Store { value, .. } if request.cas != 0 => Deed::Store("cas", value.len()),
            Command::Store { mode, value, .. } => Deed::Store(mode_name(mode), value.len()),
            Command::Join {
                before: true,
                value,
                ..
            } => Deed::Store("prepend", value.len()),
            Command::Join { value, .. } => Deed::Store("append", value.len()),
            Command::Delete { .. } => Deed::Delete("delete"),
            Command::Arithmetic { .. } => Deed::Count,
            _ => Deed::Other,
        }
    }
}

fn mode_name(mode: StoreMode) -> &'static str {
    match mode {
        StoreMode::Set => "set",
        StoreMode::Add => "add",
        StoreMode::Replace => "replace",
        StoreMode::Append => "append",
        StoreMode::Prepend => "prepend",
    }
}

impl WorkerCore {
    /// Carries a command out while somebody looks on, and tells what became of it.
    pub(crate) fn observed(
        &mut self,
        at: &At,
        key: &[u8],
        deed: Deed,
        carry_out: impl FnOnce(&mut WorkerCore),
    ) {
        self.observers.die_of(key);
        let before = Seen::of(&self.engine, at, key);
        let newest = self.engine.newest_version();
        let (too_large, no_memory) = self.refusals();
        carry_out(self);
        let after = Seen::of(&self.engine, at, key);
        let (too_large_after, no_memory_after) = self.refusals();
        let observers = &mut self.observers;
        observers.saw_lookup(at.now, key, &before);
        let mut counts = PrefixCounts::default();
        match deed {
            Deed::Read => {
                counts.get = 1;
                counts.hit = u64::from(before.found());
            }
            Deed::Store(command, len) => {
                counts.set = 1;
                let changed =
                    before.version() != after.version() || newest != self.engine.newest_version();
                let status = match (command, before.found()) {
                    _ if too_large != too_large_after => "too_large",
                    _ if no_memory != no_memory_after => "no_memory",
                    _ if changed => "stored",
                    ("cas", true) => "exists",
                    ("cas", false) => "not_found",
                    _ => "not_stored",
                };
                let (size, ttl) = match (status, after.item) {
                    ("stored", Some(_)) => (after.size(), after.ttl()),
                    _ => ((0, len), 0),
                };
                observers.saw_store(at.now, key, (command, status), size, ttl);
            }
            Deed::Delete(command) => {
                counts.del = 1;
                if before.found() && !after.found() {
                    observers.saw_delete(at.now, key, command, &before);
                }
            }
            Deed::Count => {
                if !before.found() && after.found() {
                    let words = ("add", "stored");
                    observers.saw_store(at.now, key, words, after.size(), after.ttl());
                }
            }
            Deed::Other => {}
        }
        observers.count_prefix(key, &counts);
    }

    /// A value was refused while its command was read.
    pub(crate) fn observe_refusal(&mut self, now: Now, key: &[u8]) {
        let words = ("set", "too_large");
        self.observers.saw_store(now, key, words, (0, 0), 0);
    }

    /// Whose commands follow: a connection of that worker, or nobody's.
    #[inline]
    pub(crate) fn note_asking(&mut self, worker: u16, connection: Option<ConnectionId>) {
        if self.observers.is_on() {
            let number = connection.map(|id| self.number_at(worker, id));
            self.observers.set_asking(number.unwrap_or(0));
        }
    }

    fn refusals(&self) -> (u64, u64) {
        let counters = &self.engine.counters;
        (counters.store_too_large, counters.store_no_memory)
    }
}

impl Observers {
    /// memcached logs each look-up of a key, also those that a write begins with.
    fn saw_lookup(&mut self, now: Now, key: &[u8], seen: &Seen) {
        let asking = self.asking;
        self.tell(now, Streams::FETCHERS, |line| {
            line.extend_from_slice(b"type=item_get key=");
            uri_encode(key, line);
            let status = if seen.found() { "found" } else { "not_found" };
            let (class, size) = seen.size();
            let _ = write!(
                line,
                " status={status} clsid={class} cfd={asking} size={size}"
            );
        });
    }

    /// `(command, status)` and `(class, size)` as the log names them.
    fn saw_store(
        &mut self,
        now: Now,
        key: &[u8],
        (command, status): (&str, &str),
        (class, size): (usize, usize),
        ttl: u32,
    ) {
        let asking = self.asking;
        self.tell(now, Streams::MUTATIONS, |line| {
            line.extend_from_slice(b"type=item_store key=");
            uri_encode(key, line);
            let _ = write!(
                line,
                " status={status} cmd={command} ttl={ttl} clsid={class} cfd={asking} size={size}"
            );
        });
    }

    fn saw_delete(&mut self, now: Now, key: &[u8], command: &str, before: &Seen) {
        let (class, size) = before.size();
        self.tell(now, Streams::DELETIONS, |line| {
            line.extend_from_slice(b"type=deleted key=");
            uri_encode(key, line);
            let _ = write!(line, " cmd={command} clsid={class} size={size}");
        });
    }
}
