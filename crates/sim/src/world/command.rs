//! Commands as homes are sent them: what each would do to a key.

use super::server::ITEM_SIZE_MAX;
use evenkeel_protocol::{
    Direction, KeyScratch, Limits, Meta, Request, RequestOutcome, Store, StoreMode, StoreVerb,
    parse_request,
};
use evenkeel_schemes::copies::is_copy;
use evenkeel_schemes::generation::taken_apart;
use evenkeel_schemes::name::{Kind, Name};

/// What a command would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// `ms` at the home.
    Store {
        mode: StoreMode,
        value: Vec<u8>,
        /// Expiry in seconds from now; 0 for never.
        exptime: i64,
        /// The version that must be there.
        expects: Option<u64>,
    },
    /// `ma`.
    Increase(u64),
    /// `md`, and a touch with an expiry in the past.
    Remove,
    /// A touch with this many seconds from now.
    Touch(i64),
    /// `mg` at the home.
    Read,
    /// `flush_all`.
    Flush,
    /// `ms` at a shadow worker.
    ReplicaStore,
    /// `md` at a shadow worker.
    ReplicaRemove,
    /// `md` with `I` at a shadow worker.
    ReplicaBlock,
    /// `mg` at a shadow worker.
    ReplicaRead,
}

/// A complete command at the front of a worker's input.
#[derive(Clone, Debug)]
pub(super) struct Command {
    /// The key, by number; 0 where it is all.
    pub key: u16,
    /// What stands before it, where it is called by a generation of a ring, or is that of a copy or of a note.
    pub prefix: Vec<u8>,
    pub change: Change,
    /// Bytes of it.
    pub len: usize,
}

impl Command {
    /// The command, if it is complete and concerns a key of ours, or all.
    pub fn parse(input: &[u8], keys: &[Vec<u8>]) -> Option<Command> {
        let limits = Limits {
            item_size_max: ITEM_SIZE_MAX,
            ..Limits::default()
        };
        let RequestOutcome::Request { request, consumed } = parse_request(input, &limits) else {
            return None;
        };
        let is_replica = |meta: &Meta<'_>| meta.flags.has(b'G');
        let (meta, change) = match request {
            Request::FlushAll { delay: None, .. } => {
                return Some(Command {
                    key: 0,
                    prefix: Vec::new(),
                    change: Change::Flush,
                    len: consumed,
                });
            }
            Request::Store(store) => {
                return Self::of(store.key, keys, classic_store(&store), consumed);
            }
            Request::Delete { key, .. } => {
                return Self::of(key, keys, Change::Remove, consumed);
            }
            Request::Touch { key, exptime, .. } => {
                return Self::of(key, keys, touch(exptime), consumed);
            }
            Request::Arithmetic {
                key,
                direction: Direction::Incr,
                delta,
                ..
            } => return Self::of(key, keys, Change::Increase(delta), consumed),
            Request::MetaSet(meta) if is_replica(&meta) => (meta, Change::ReplicaStore),
            Request::MetaDelete(meta) if is_replica(&meta) && meta.flags.has(b'I') => {
                (meta, Change::ReplicaBlock)
            }
            Request::MetaDelete(meta) if is_replica(&meta) => (meta, Change::ReplicaRemove),
            Request::MetaGet(meta) if is_replica(&meta) => (meta, Change::ReplicaRead),
            Request::MetaSet(meta) => (meta, store(&meta)),
            Request::MetaDelete(meta) => (meta, Change::Remove),
            Request::MetaArithmetic(meta) if meta.flags.direction() == Direction::Incr => (
                meta,
                Change::Increase(meta.flags.unsigned(b'D').unwrap_or(1)),
            ),
            Request::MetaGet(meta) => (meta, meta.flags.exptime(b'T').map_or(Change::Read, touch)),
            _ => return None,
        };
        let mut scratch = KeyScratch::default();
        Self::of(meta.key(&mut scratch), keys, change, consumed)
    }

    fn of(name: &[u8], keys: &[Vec<u8>], change: Change, len: usize) -> Option<Command> {
        let key = match Name::parse(name) {
            Some(Name {
                kind: Kind::Copy | Kind::Note,
                key,
                ..
            }) => key,
            _ => taken_apart(name).1,
        };
        let prefix = name[..name.len() - key.len()].to_vec();
        let key = keys.iter().position(|known| known == key)? as u16;
        Some(Command {
            key,
            prefix,
            change,
            len,
        })
    }

    pub fn is_of_copy(&self) -> bool {
        is_copy(&self.prefix)
    }

    pub fn is_replica_store(&self) -> bool {
        self.change == Change::ReplicaStore
    }

    pub fn is_replica_read(&self) -> bool {
        self.change == Change::ReplicaRead
    }

    /// A write that does harm when it is executed twice.
    pub fn is_write(&self) -> bool {
        match &self.change {
            Change::Store { mode, .. } => {
                matches!(
                    mode,
                    StoreMode::Set | StoreMode::Append | StoreMode::Prepend
                )
            }
            Change::Increase(_) => true,
            _ => false,
        }
    }

    pub fn is_set(&self) -> bool {
        let set = StoreMode::Set;
        matches!(&self.change, Change::Store { mode, expects: None, .. } if *mode == set)
    }
}

fn store(meta: &Meta<'_>) -> Change {
    Change::Store {
        mode: meta.flags.store_mode(),
        value: meta.value.to_vec(),
        exptime: meta.flags.exptime(b'T').unwrap_or(0),
        expects: meta.flags.unsigned(b'C'),
    }
}

fn classic_store(store: &Store<'_>) -> Change {
    let (mode, expects) = match store.verb {
        StoreVerb::Set => (StoreMode::Set, None),
        StoreVerb::Add => (StoreMode::Add, None),
        StoreVerb::Replace => (StoreMode::Replace, None),
        StoreVerb::Append => (StoreMode::Append, None),
        StoreVerb::Prepend => (StoreMode::Prepend, None),
        StoreVerb::Cas(version) => (StoreMode::Set, Some(version)),
    };
    Change::Store {
        mode,
        value: store.value.to_vec(),
        exptime: store.exptime,
        expects,
    }
}

fn touch(exptime: i64) -> Change {
    if exptime < 0 {
        Change::Remove
    } else {
        Change::Touch(exptime)
    }
}
