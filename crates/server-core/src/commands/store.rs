//! `set`, `add`, `replace`, `append`, `prepend`, `cas` and `ms`.
//!
//! [`execute`] is what a storage command does, whatever protocol it came in; the functions around
//! it read the command and word the answer.

use crate::shard::engine::{At, Engine, PutError, shown_version};
use crate::shard::time::{NEVER, Seconds};
use evenkeel_hotkeys::server::WriteKind;
use evenkeel_protocol::compose::answer;
use evenkeel_protocol::{Meta, MetaStatus, Store, StoreMode, StoreVerb, text};
use evenkeel_storage::{Hint, NewItem};
use evenkeel_types::Version;

/// What became of a storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The item has this version now.
    Stored(Version),
    /// The mode's condition did not hold.
    NotStored,
    /// The item has another version than the one to compare with.
    Exists,
    /// There is no item whose version could be compared.
    NotFound,
    /// Larger than `-I` allows.
    TooLarge,
    /// No memory could be had.
    NoMemory,
}

/// A storage command of any protocol.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// What must be there already, and where the value goes.
    pub mode: StoreMode,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Client flags.
    pub flags: u32,
    /// When the item expires.
    pub expiry: Seconds,
    /// Store only if the item still has this version.
    pub compare: Option<u64>,
    /// A value that is older than the item's is taken, but marked stale (`I`).
    pub take_stale: bool,
    /// Version chosen by the client (`E`).
    pub chosen: Option<u64>,
    /// Append and prepend create the item with this expiry if it is not there (`N`).
    pub vivify: Option<Seconds>,
}

/// Answers a classic storage command.
pub fn store(engine: &mut Engine, at: &At, store: &Store<'_>) -> &'static [u8] {
    let (mode, compare) = match store.verb {
        StoreVerb::Set => (StoreMode::Set, None),
        StoreVerb::Add => (StoreMode::Add, None),
        StoreVerb::Replace => (StoreMode::Replace, None),
        StoreVerb::Append => (StoreMode::Append, None),
        StoreVerb::Prepend => (StoreMode::Prepend, None),
        StoreVerb::Cas(version) => (StoreMode::Set, Some(version)),
    };
    let order = Order {
        mode,
        key: store.key,
        value: store.value,
        flags: store.flags,
        expiry: engine.time.expiry(at.now, store.exptime),
        compare,
        take_stale: false,
        chosen: None,
        vivify: None,
    };
    in_text(execute(engine, at, &order))
}

/// As [`store()`] for a `set`, which needs no look at what is there.
#[inline]
pub fn plain(engine: &mut Engine, at: &At, set: &Store<'_>, hint: Hint) -> &'static [u8] {
    debug_assert_eq!(set.verb, StoreVerb::Set);
    engine.counters.cmd_set += 1;
    let item = NewItem {
        key: set.key,
        value: [set.value, b""],
        flags: set.flags,
        expires_at: engine.time.expiry(at.now, set.exptime),
        version: engine.next_version(),
    };
    let put = engine.put_hinted(at, item, hint);
    in_text(outcome(engine, put))
}

/// What a classic client is told.
#[inline]
fn in_text(outcome: Outcome) -> &'static [u8] {
    match outcome {
        Outcome::Stored(_) => text::STORED,
        Outcome::NotStored => text::NOT_STORED,
        Outcome::Exists => text::EXISTS,
        Outcome::NotFound => text::NOT_FOUND,
        Outcome::TooLarge => text::TOO_LARGE,
        Outcome::NoMemory => text::OUT_OF_MEMORY,
    }
}

/// Answers `ms`.
pub fn meta_set(engine: &mut Engine, at: &At, key: &[u8], meta: &Meta<'_>, out: &mut Vec<u8>) {
    engine.counters.cmd_meta += 1;
    let flags = &meta.flags;
    let expiry = |letter| {
        flags
            .exptime(letter)
            .map(|exptime| engine.time.expiry(at.now, exptime))
    };
    let order = Order {
        mode: flags.store_mode(),
        key,
        value: meta.value,
        flags: flags.client_flags().unwrap_or(0),
        expiry: expiry(b'T').unwrap_or(NEVER),
        compare: flags.unsigned(b'C'),
        // 0 is older than no version, as in memcached.
        take_stale: flags.has(b'I') && flags.unsigned(b'C') != Some(0),
        chosen: flags.unsigned(b'E'),
        vivify: expiry(b'N'),
    };
    let (status, version) = match execute(engine, at, &order) {
        Outcome::Stored(version) => (MetaStatus::Done, version),
        Outcome::NotStored => (MetaStatus::NotStored, Version(0)),
        Outcome::Exists => (MetaStatus::Exists, Version(0)),
        Outcome::NotFound => (MetaStatus::NotFound, Version(0)),
        Outcome::TooLarge => return out.extend_from_slice(text::TOO_LARGE),
        Outcome::NoMemory => return out.extend_from_slice(text::OUT_OF_MEMORY),
    };
    if flags.has(b'q') && status == MetaStatus::Done {
        return;
    }
    // What append and prepend stored is longer than what came.
    let joined = matches!(order.mode, StoreMode::Append | StoreMode::Prepend);
    let size = match joined && status == MetaStatus::Done && flags.has(b's') {
        true => engine
            .store
            .peek_hashed(at.cachelet, key, at.table, at.seconds)
            .map_or(0, |item| item.value().len()),
        false => meta.value.len(),
    };
    let mut line = answer::meta(out, status);
    for (letter, token) in flags.iter() {
        line = match letter {
            b'O' => line.token(b'O', token),
            b'k' => line.key(key, meta.key.base64),
            b'c' => line.number(b'c', shown_version(engine.cas_shown, at, version).0),
            b's' => line.number(b's', size),
            _ => line,
        };
    }
    line.end();
}

/// What is there of a key before it is stored.
struct Present {
    version: Version,
    flags: u32,
    expires_at: Seconds,
    win_sent: bool,
    value_len: usize,
}

/// Stores, if the mode and the version to compare with allow it.
pub fn execute(engine: &mut Engine, at: &At, order: &Order<'_>) -> Outcome {
    engine.counters.cmd_set += 1;
    // A plain set needs no look at what is there.
    if order.mode == StoreMode::Set && order.compare.is_none() {
        return put(engine, at, order, order.value, order.flags, order.expiry);
    }
    let present = engine
        .store
        .get(at.cachelet, order.key, at.seconds)
        .map(|item| Present {
            version: item.version(),
            flags: item.flags(),
            expires_at: item.expires_at(),
            win_sent: item.win_sent(),
            value_len: item.value().len(),
        });
    match present {
        Some(present) => onto(engine, at, order, &present),
        None => into_nothing(engine, at, order),
    }
}

/// Stores over an existing item, by memcached's table of modes.
fn onto(engine: &mut Engine, at: &At, order: &Order<'_>, present: &Present) -> Outcome {
    let matches = order.compare.map(|version| version == present.version.0);
    match order.mode {
        StoreMode::Add => Outcome::NotStored,
        StoreMode::Append | StoreMode::Prepend => {
            if order.compare.is_some_and(|version| version != 0) && matches == Some(false) {
                engine.counters.cas_badval += 1;
                return Outcome::Exists;
            }
            join(engine, at, order, present)
        }
        StoreMode::Set | StoreMode::Replace => match matches {
            None => put(engine, at, order, order.value, order.flags, order.expiry),
            Some(true) => {
                engine.counters.cas_hits += 1;
                put(engine, at, order, order.value, order.flags, order.expiry)
            }
            Some(false) if order.take_stale && order.compare < Some(present.version.0) => {
                let outcome = put(
                    engine,
                    at,
                    order,
                    order.value,
                    order.flags,
                    present.expires_at,
                );
                if let Some(mut item) =
                    engine
                        .store
                        .find_hashed(at.cachelet, order.key, at.table, at.seconds)
                {
                    item.set_stale(true);
                    item.set_win_sent(present.win_sent);
                }
                outcome
            }
            Some(false) => {
                engine.counters.cas_badval += 1;
                Outcome::Exists
            }
        },
    }
}

/// Stores where there is no item.
fn into_nothing(engine: &mut Engine, at: &At, order: &Order<'_>) -> Outcome {
    match (order.mode, order.compare, order.vivify) {
        (StoreMode::Add, ..) => put(engine, at, order, order.value, order.flags, order.expiry),
        (StoreMode::Set | StoreMode::Replace, Some(_), _) => {
            engine.counters.cas_misses += 1;
            Outcome::NotFound
        }
        (StoreMode::Append | StoreMode::Prepend, _, Some(expiry)) => {
            put(engine, at, order, order.value, order.flags, expiry)
        }
        _ => Outcome::NotStored,
    }
}

/// Append and prepend: flags and expiry stay those of the existing item.
fn join(engine: &mut Engine, at: &At, order: &Order<'_>, present: &Present) -> Outcome {
    let len = present.value_len + order.value.len();
    if engine
        .limits
        .is_too_large(order.key.len(), len, present.flags)
    {
        engine.counters.store_too_large += 1;
        return Outcome::NotStored;
    }
    let mut old = core::mem::take(&mut engine.scratch);
    old.clear();
    if let Some(item) = engine
        .store
        .peek_hashed(at.cachelet, order.key, at.table, at.seconds)
    {
        old.extend_from_slice(item.value());
    }
    let value: [&[u8]; 2] = if order.mode == StoreMode::Append {
        [&old, order.value]
    } else {
        [order.value, &old]
    };
    let version = engine.version_for(order.chosen);
    let item = NewItem {
        key: order.key,
        value,
        flags: present.flags,
        expires_at: present.expires_at,
        version,
    };
    let outcome = stored(engine, at, item);
    engine.keep_scratch(old);
    outcome
}

fn put(
    engine: &mut Engine,
    at: &At,
    order: &Order<'_>,
    value: &[u8],
    flags: u32,
    expires_at: Seconds,
) -> Outcome {
    let version = engine.version_for(order.chosen);
    let item = NewItem {
        key: order.key,
        value: [value, b""],
        flags,
        expires_at,
        version,
    };
    stored(engine, at, item)
}

fn stored(engine: &mut Engine, at: &At, item: NewItem<'_>) -> Outcome {
    let put = engine.put(at, item);
    outcome(engine, put)
}

#[inline]
fn outcome(engine: &mut Engine, put: Result<Version, PutError>) -> Outcome {
    match put {
        Ok(version) => {
            engine.counters.total_items += 1;
            Outcome::Stored(version)
        }
        Err(PutError::TooLarge) => Outcome::TooLarge,
        Err(PutError::NoMemory) => Outcome::NoMemory,
    }
}

/// The old value must go when the parser refused the new one for its size.
pub fn invalidate(engine: &mut Engine, at: &At, key: &[u8]) {
    engine
        .store
        .delete_hashed(at.cachelet, key, at.table, at.seconds);
    engine.saw_write(at, key, WriteKind::Delete);
}
