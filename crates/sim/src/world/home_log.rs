//! Watches homes carry out writes, from outside: each command is seen before it is executed and its
//! answer after, so the truth about a key is known without a hook in any core.

use super::World;
use super::servers::ITEM_SIZE_MAX;
use crate::history::{Applied, WriteId};
use evenkeel_policy::placement::map::ClusterMap;
use evenkeel_protocol::{
    KeyScratch, Limits, Meta, Request, RequestOutcome, StoreMode, StoreVerb, parse_request,
};
use evenkeel_types::{KeyHash, ServerId, WorkerRef};

/// What a command would do to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Set(Vec<u8>),
    Append(Vec<u8>),
    Remove,
    Flush,
    ReplicaStore,
    ReplicaRead,
    Nothing,
}

/// A complete command at the front of a worker's input.
#[derive(Clone, Debug)]
pub(super) struct Command {
    key: u16,
    change: Change,
    /// Whether it compares CAS uniques in classic words.
    swaps: bool,
    len: usize,
}

impl Command {
    /// The command, if it is complete and concerns a key of ours, or all.
    pub fn parse(input: &[u8], keys: &[Vec<u8>]) -> Option<Command> {
        let limits = Limits {
            item_size_max: ITEM_SIZE_MAX,
            ..Limits::default()
        };
        let RequestOutcome::Request {
            request,
            consumed: len,
        } = parse_request(input, &limits)
        else {
            return None;
        };
        let (meta, change) = match request {
            Request::FlushAll { delay: None, .. } => {
                return Some(Command {
                    key: 0,
                    change: Change::Flush,
                    swaps: false,
                    len,
                });
            }
            Request::Store(store) => {
                let change = match store.verb {
                    StoreVerb::Append => Change::Append(store.value.to_vec()),
                    _ => Change::Set(store.value.to_vec()),
                };
                let swaps = matches!(store.verb, StoreVerb::Cas(_));
                return Self::of(store.key, keys, change, swaps, len);
            }
            Request::Delete { key, .. } => {
                return Self::of(key, keys, Change::Remove, false, len);
            }
            Request::Touch { key, exptime, .. } if exptime < 0 => {
                return Self::of(key, keys, Change::Remove, false, len);
            }
            Request::MetaSet(meta) if meta.flags.has(b'G') => (meta, Change::ReplicaStore),
            Request::MetaDelete(meta) if meta.flags.has(b'G') => (meta, Change::Nothing),
            Request::MetaGet(meta) if meta.flags.has(b'G') => (meta, Change::ReplicaRead),
            Request::MetaSet(meta) if meta.flags.store_mode() == StoreMode::Append => {
                (meta, Change::Append(meta.value.to_vec()))
            }
            Request::MetaSet(meta) => (meta, Change::Set(meta.value.to_vec())),
            Request::MetaDelete(meta) => (meta, Change::Remove),
            Request::MetaGet(meta) if removes(&meta) => (meta, Change::Remove),
            Request::MetaGet(meta) => (meta, Change::Nothing),
            _ => return None,
        };
        let mut scratch = KeyScratch::default();
        Self::of(meta.key(&mut scratch), keys, change, false, len)
    }

    fn of(
        key: &[u8],
        keys: &[Vec<u8>],
        change: Change,
        swaps: bool,
        len: usize,
    ) -> Option<Command> {
        let key = keys.iter().position(|known| known == key)? as u16;
        Some(Command {
            key,
            change,
            swaps,
            len,
        })
    }

    /// A `cas` as a `set` that compares nothing.
    pub fn as_blind_set(&self, keys: &[Vec<u8>]) -> Option<Vec<u8>> {
        let Change::Set(value) = &self.change else {
            return None;
        };
        if !self.swaps {
            return None;
        }
        let line = format!(" 0 0 {}\r\n", value.len());
        let key = &keys[usize::from(self.key)];
        Some([b"set ", &key[..], line.as_bytes(), value, b"\r\n"].concat())
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_replica_store(&self) -> bool {
        self.change == Change::ReplicaStore
    }

    pub fn is_replica_read(&self) -> bool {
        self.change == Change::ReplicaRead
    }

    pub fn is_write(&self) -> bool {
        matches!(self.change, Change::Set(_) | Change::Append(_))
    }

    pub fn is_set(&self) -> bool {
        matches!(self.change, Change::Set(_))
    }
}

/// A touch with an expiry in the past.
fn removes(meta: &Meta<'_>) -> bool {
    meta.flags.exptime(b'T').is_some_and(|exptime| exptime < 0)
}

/// Where a key's value is.
#[derive(Clone, Debug)]
pub(super) struct Held {
    server: usize,
    worker: u16,
    content: Vec<u8>,
}

impl Held {
    /// The server that it is on.
    pub fn server(&self) -> usize {
        self.server
    }
}

/// The last write that a value tells of. Every value is a list of `id;` or `id.padding;`.
pub(super) fn last_write(content: &[u8]) -> Option<WriteId> {
    let content = content.strip_suffix(b";")?;
    let last = content.rsplit(|&byte| byte == b';').next()?;
    let digits = last.split(|&byte| byte == b'.').next()?;
    Some(WriteId(core::str::from_utf8(digits).ok()?.parse().ok()?))
}

impl World {
    /// A worker has carried out a command, or refused to.
    pub(super) fn observe(&mut self, server: usize, worker: u16, command: &Command, answer: &[u8]) {
        let key = usize::from(command.key);
        let done: [&[u8]; 5] = [b"HD", b"VA ", b"STORED", b"DELETED", b"TOUCHED"];
        let is_done = done.iter().any(|words| answer.starts_with(words));
        match &command.change {
            Change::Flush => self.lose_worker(server, worker),
            Change::Remove if is_done => self.log_state(key, None),
            Change::Set(value) if is_done => {
                let held = Held {
                    server,
                    worker,
                    content: value.clone(),
                };
                self.hold(key, held);
            }
            Change::Append(value) if is_done => {
                let before = self.held[key].as_ref().map(|held| held.content.clone());
                let content = [&before.unwrap_or_default(), &value[..]].concat();
                self.hold(
                    key,
                    Held {
                        server,
                        worker,
                        content,
                    },
                );
            }
            _ => {}
        }
    }

    fn hold(&mut self, key: usize, held: Held) {
        if let Some(other) = &self.held[key]
            && (other.server, other.worker) != (held.server, held.worker)
        {
            let places = [(other.server, other.worker), (held.server, held.worker)];
            self.fail(format!("key {key} has two homes, {places:?}"));
        }
        let id = last_write(&held.content).expect("applications write nothing else");
        self.contents.insert(id, held.content.clone());
        self.held[key] = Some(held);
        self.log_state(key, Some(id));
    }

    fn log_state(&mut self, key: usize, state: Option<WriteId>) {
        if state.is_none() && self.held[key].take().is_none() {
            return;
        }
        let applied = Applied {
            key: key as u16,
            at: self.time,
            state,
        };
        if self.plan.aloud {
            self.say(&format!("home: {applied:?}"));
        }
        self.log.push(applied);
    }

    /// Everything that one worker is home of is gone.
    pub(super) fn lose_worker(&mut self, server: usize, worker: u16) {
        self.lose(|held, _| (held.server, held.worker) == (server, worker));
    }

    /// Everything that a server is home of is gone.
    pub(super) fn lose_everything(&mut self, server: usize) {
        self.lose(|held, _| held.server == server);
    }

    /// A worker has forgotten what a map gives to others.
    pub(super) fn let_go(&mut self, server: usize, worker: u16, map: &ClusterMap, id: ServerId) {
        let me = Some(WorkerRef { server: id, worker });
        self.lose(|held, key| {
            (held.server, held.worker) == (server, worker)
                && map.locate(KeyHash::of(key)).worker != me
        });
    }

    fn lose(&mut self, is_lost: impl Fn(&Held, &[u8]) -> bool) {
        for key in 0..self.keys.len() {
            if self.held[key]
                .as_ref()
                .is_some_and(|held| is_lost(held, &self.keys[key]))
            {
                self.log_state(key, None);
            }
        }
    }
}
