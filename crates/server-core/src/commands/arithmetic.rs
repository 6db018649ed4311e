//! `incr`, `decr` and `ma`.
//!
//! [`execute`] is what arithmetic does, whatever protocol it came in; the functions around it read
//! the command and word the answer.

use crate::commands::touch::set_expiry;
use crate::shard::engine::{At, Engine, PutError, shown_version, ttl};
use crate::shard::time::Seconds;
use evenkeel_hotkeys::server::WriteKind;
use evenkeel_protocol::compose::{answer, number};
use evenkeel_protocol::{Direction, Meta, MetaStatus, stored_number, text};
use evenkeel_storage::NewItem;
use evenkeel_types::Version;

/// Digits of the largest 64-bit number.
const DIGITS_MAX: usize = 20;

/// What became of the arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The item holds this number now.
    Number {
        /// The number.
        value: u64,
        /// Whether the item was created just now.
        created: bool,
        /// The item's version.
        version: Version,
    },
    /// There is no item, and none was to be created.
    NotFound,
    /// The item has another version than the one to compare with.
    Exists,
    /// The item holds something else than a number.
    NonNumeric,
    /// No memory could be had.
    NoMemory,
}

/// One increment or decrement of any protocol.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Up or down.
    pub direction: Direction,
    /// By how much.
    pub delta: u64,
    /// Only if the item still has this version.
    pub compare: Option<u64>,
    /// Version chosen by the client (`E`).
    pub chosen: Option<u64>,
    /// What to create where there is no item: the number, and when it expires.
    pub create: Option<(u64, Seconds)>,
}

/// Answers `incr` and `decr`.
pub fn arithmetic(
    engine: &mut Engine,
    at: &At,
    key: &[u8],
    delta: u64,
    direction: Direction,
    out: &mut Vec<u8>,
) {
    let order = Order {
        key,
        direction,
        delta,
        compare: None,
        chosen: None,
        create: None,
    };
    match execute(engine, at, &order) {
        Outcome::Number { value, .. } => answer::number_line(out, value),
        other => out.extend_from_slice(refusal(other)),
    }
}

/// Answers `ma`.
pub fn meta_arithmetic(
    engine: &mut Engine,
    at: &At,
    key: &[u8],
    meta: &Meta<'_>,
    out: &mut Vec<u8>,
) {
    engine.counters.cmd_meta += 1;
    let flags = &meta.flags;
    let expiry = |letter| {
        flags
            .exptime(letter)
            .map(|exptime| engine.time.expiry(at.now, exptime))
    };
    // What is created has the time of `T` at once, as if the item had been there.
    let (vivify, new_expiry) = (expiry(b'N'), expiry(b'T'));
    let order = Order {
        key,
        direction: flags.direction(),
        delta: flags.unsigned(b'D').unwrap_or(1),
        // Here memcached takes 0 for no version at all; ms and md compare with it.
        compare: flags.unsigned(b'C').filter(|version| *version != 0),
        chosen: flags.unsigned(b'E'),
        create: vivify.map(|expiry| {
            let initial = flags.unsigned(b'J').unwrap_or(0);
            (initial, new_expiry.unwrap_or(expiry))
        }),
    };
    let outcome = execute(engine, at, &order);
    let status = match outcome {
        Outcome::Number { created, .. } => {
            if let Some(expiry) = new_expiry.filter(|_| !created)
                && set_expiry(engine, at, key, expiry)
            {
                engine.saw_write(at, key, WriteKind::Update);
            }
            MetaStatus::Done
        }
        Outcome::NotFound => MetaStatus::NotFound,
        Outcome::Exists => MetaStatus::Exists,
        Outcome::NonNumeric | Outcome::NoMemory => return out.extend_from_slice(refusal(outcome)),
    };
    if flags.has(b'q') && status == MetaStatus::Done {
        return;
    }
    match outcome {
        Outcome::Number { value, version, .. } => {
            show(engine, at, key, meta, (value, version), out);
        }
        _ => answer::echo_flags(answer::meta(out, status), meta, key).end(),
    }
}

/// The answer of a successful `ma`.
fn show(
    engine: &Engine,
    at: &At,
    key: &[u8],
    meta: &Meta<'_>,
    (value, version): (u64, Version),
    out: &mut Vec<u8>,
) {
    let item = engine.store.peek(at.cachelet, key, at.seconds);
    let left = item.and_then(|item| ttl(&item, at.seconds));
    let mut digits = Vec::with_capacity(DIGITS_MAX);
    number(&mut digits, value);
    let with_value = meta.flags.has(b'v');
    let mut line = if with_value {
        answer::meta_value(out, digits.len())
    } else {
        answer::meta(out, MetaStatus::Done)
    };
    for (letter, token) in meta.flags.iter() {
        line = match letter {
            b'O' => line.token(b'O', token),
            b'k' => line.key(key, meta.key.base64),
            b'c' => line.number(b'c', shown_version(engine.cas_shown, at, version).0),
            b't' => match left {
                Some(left) => line.number(b't', left),
                None => line.token(b't', b"-1"),
            },
            _ => line,
        };
    }
    if with_value {
        line.end_with(&digits)
    } else {
        line.end()
    }
}

fn refusal(outcome: Outcome) -> &'static [u8] {
    match outcome {
        Outcome::NotFound => text::NOT_FOUND,
        Outcome::Exists => text::EXISTS,
        Outcome::NonNumeric => text::NON_NUMERIC,
        Outcome::NoMemory | Outcome::Number { .. } => text::OUT_OF_MEMORY,
    }
}

/// Adds to or takes from a number, or creates it.
pub fn execute(engine: &mut Engine, at: &At, order: &Order<'_>) -> Outcome {
    let (hits, misses) = match order.direction {
        Direction::Incr => (
            &mut engine.counters.incr_hits,
            &mut engine.counters.incr_misses,
        ),
        Direction::Decr => (
            &mut engine.counters.decr_hits,
            &mut engine.counters.decr_misses,
        ),
    };
    let Some(item) = engine
        .store
        .find_hashed(at.cachelet, order.key, at.table, at.seconds)
    else {
        // memcached counts only misses that stay misses.
        return match order.create {
            Some((initial, expires_at)) => create(engine, at, order, initial, expires_at),
            None => {
                *misses += 1;
                Outcome::NotFound
            }
        };
    };
    // memcached looks at an empty value before the version, at any other after it.
    if item.value().is_empty() {
        return Outcome::NonNumeric;
    }
    if order
        .compare
        .is_some_and(|version| version != item.version().0)
    {
        engine.counters.cas_badval += 1;
        return Outcome::Exists;
    }
    let Some(old) = stored_number(item.value()) else {
        return Outcome::NonNumeric;
    };
    *hits += 1;
    let value = match order.direction {
        Direction::Incr => old.wrapping_add(order.delta),
        Direction::Decr => old.saturating_sub(order.delta),
    };
    let (flags, expires_at, len) = (item.flags(), item.expires_at(), item.value().len());
    let marks = (item.stale(), item.win_sent());
    let fetched_at = item.fetched().then_some(item.last_access());
    let version = engine.version_for(order.chosen);
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(value).as_bytes();
    // A number that fits where the old one stood is padded with spaces, as memcached pads it.
    let mut padding = core::mem::take(&mut engine.scratch);
    padding.clear();
    padding.resize(len.saturating_sub(digits.len()), b' ');
    let item = NewItem {
        key: order.key,
        value: [digits, &padding],
        flags,
        expires_at,
        version,
    };
    let grown = digits.len() > len;
    let outcome = match engine.put(at, item) {
        Ok(version) => Outcome::Number {
            value,
            created: false,
            version,
        },
        Err(PutError::TooLarge | PutError::NoMemory) => Outcome::NoMemory,
    };
    engine.keep_scratch(padding);
    if grown {
        engine.counters.total_items += 1;
    } else if let Some(mut item) =
        engine
            .store
            .find_hashed(at.cachelet, order.key, at.table, at.seconds)
    {
        // The number changed where it stood: the item is the same, and keeps its marks.
        item.set_stale(marks.0);
        item.set_win_sent(marks.1);
        if let Some(last_access) = fetched_at {
            item.touch_access(last_access);
        }
    }
    outcome
}

/// Creates the number where there is no item.
fn create(
    engine: &mut Engine,
    at: &At,
    order: &Order<'_>,
    initial: u64,
    expires_at: Seconds,
) -> Outcome {
    let version = engine.version_for(order.chosen);
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(initial).as_bytes();
    let item = NewItem {
        key: order.key,
        value: [digits, b""],
        flags: 0,
        expires_at,
        version,
    };
    engine.counters.total_items += 1;
    match engine.put(at, item) {
        Ok(version) => Outcome::Number {
            value: initial,
            created: true,
            version,
        },
        Err(_) => Outcome::NoMemory,
    }
}
