//! Commands on one key in the binary protocol: what is asked is translated for the functions that the
//! text commands share, and what became of it is worded in binary.

use crate::commands::{arithmetic, delete, store, touch};
use crate::shard::engine::{At, Engine, saw_read, shown_version};
use crate::shard::time::NEVER;
use evenkeel_hotkeys::server::WriteKind;
use evenkeel_protocol::StoreMode;
use evenkeel_protocol::binary::{Command, Request, Status, answer};
use evenkeel_types::Version;

/// Answers a command on one key at the worker that holds it.
///
/// Commands on no key leave the output alone.
pub fn answer(engine: &mut Engine, at: &At, request: &Request<'_>, out: &mut Vec<u8>) {
    match request.command {
        Command::Get { key, with_key } => {
            engine.counters.cmd_get += 1;
            let found = show(engine, at, request, key, with_key, out);
            if found.is_some() {
                engine.counters.get_hits += 1;
            } else {
                engine.counters.get_misses += 1;
                miss(request, key, with_key, out);
            }
            // A binary client knows nothing of leases: whatever the advice, it is not told.
            let _ = saw_read(
                (&mut engine.hot, &mut engine.hottest),
                &mut engine.counters,
                at,
                key,
                found,
            );
        }
        Command::GetAndTouch {
            key,
            with_key,
            exptime,
        } => {
            engine.counters.cmd_touch += 1;
            if show(engine, at, request, key, with_key, out).is_none() {
                engine.counters.touch_misses += 1;
                return miss(request, key, with_key, out);
            }
            engine.counters.touch_hits += 1;
            let expiry = engine.time.expiry(at.now, exptime.into());
            if touch::set_expiry(engine, at, key, expiry) {
                engine.saw_write(at, key, WriteKind::Update);
            }
        }
        Command::Touch { key, exptime } => {
            let expiry = engine.time.expiry(at.now, exptime.into());
            match touch::execute(engine, at, key, expiry) {
                Some((flags, version)) => {
                    let cas = shown_version(engine.cas_shown, at, version).0;
                    answer::hit(out, request.echo(), flags, b"", b"", cas);
                }
                None => answer::error(out, request.echo(), Status::NotFound),
            }
        }
        Command::Store {
            mode,
            key,
            flags,
            exptime,
            value,
        } => {
            let compare = (request.cas != 0).then_some(request.cas);
            let order = store::Order {
                // With a CAS unique the three commands are one, `add` included.
                mode: compare.map_or(mode, |_| StoreMode::Set),
                key,
                value,
                flags,
                expiry: engine.time.expiry(at.now, exptime.into()),
                compare,
                take_stale: false,
                chosen: None,
                vivify: None,
            };
            let outcome = store::execute(engine, at, &order);
            let not_stored = match mode {
                StoreMode::Add => Status::Exists,
                _ => Status::NotFound,
            };
            stored(engine, at, request, outcome, not_stored, out);
        }
        Command::Join { before, key, value } => {
            let order = store::Order {
                mode: match before {
                    true => StoreMode::Prepend,
                    false => StoreMode::Append,
                },
                key,
                value,
                flags: 0,
                expiry: NEVER,
                compare: (request.cas != 0).then_some(request.cas),
                take_stale: false,
                chosen: None,
                vivify: None,
            };
            let outcome = store::execute(engine, at, &order);
            stored(engine, at, request, outcome, Status::NotStored, out);
        }
        Command::Delete { key } => {
            let status = delete_if(engine, at, key, request.cas);
            finish(request, status, Version(0), out);
        }
        Command::Arithmetic { .. } => arithmetic(engine, at, request, out),
        Command::Flush { .. }
        | Command::Noop
        | Command::Version
        | Command::Quit
        | Command::Verbosity { .. }
        | Command::Stat { .. }
        | Command::SaslMechanisms
        | Command::Sasl { .. }
        | Command::ConfigGet { .. }
        | Command::Hello(_) => {}
    }
}

/// Writes the answer to a hit. False when there is none.
fn show(
    engine: &mut Engine,
    at: &At,
    request: &Request<'_>,
    key: &[u8],
    with_key: bool,
    out: &mut Vec<u8>,
) -> Option<usize> {
    let mut item = engine
        .store
        .get_hashed(at.cachelet, key, at.table, at.seconds)?;
    item.touch_access(at.seconds);
    let item = item.into_item();
    let cas = shown_version(engine.cas_shown, at, item.version()).0;
    let key = if with_key { key } else { b"" };
    let value = item.value();
    answer::hit(out, request.echo(), item.flags(), key, value, cas);
    Some(value.len())
}

fn miss(request: &Request<'_>, key: &[u8], with_key: bool, out: &mut Vec<u8>) {
    if request.quiet {
        return;
    }
    if with_key {
        answer::miss_with_key(out, request.echo(), key);
    } else {
        answer::error(out, request.echo(), Status::NotFound);
    }
}

/// Answers a storage command. `not_stored` is what its mode says when its condition did not hold.
fn stored(
    engine: &Engine,
    at: &At,
    request: &Request<'_>,
    outcome: store::Outcome,
    not_stored: Status,
    out: &mut Vec<u8>,
) {
    let (status, version) = match outcome {
        store::Outcome::Stored(version) => (
            Status::Success,
            shown_version(engine.cas_shown, at, version),
        ),
        store::Outcome::NotStored => (not_stored, Version(0)),
        store::Outcome::Exists => (Status::Exists, Version(0)),
        store::Outcome::NotFound => (Status::NotFound, Version(0)),
        store::Outcome::TooLarge => (Status::TooLarge, Version(0)),
        store::Outcome::NoMemory => (Status::OutOfMemory, Version(0)),
    };
    finish(request, status, version, out);
}

/// Deletes an item, with a CAS unique other than 0 only if it still has that.
fn delete_if(engine: &mut Engine, at: &At, key: &[u8], cas: u64) -> Status {
    if cas != 0 {
        let item = engine
            .store
            .peek_hashed(at.cachelet, key, at.table, at.seconds);
        if item.is_some_and(|item| item.version().0 != cas) {
            return Status::Exists;
        }
    }
    match delete::remove(engine, at, key) {
        true => Status::Success,
        false => Status::NotFound,
    }
}

fn arithmetic(engine: &mut Engine, at: &At, request: &Request<'_>, out: &mut Vec<u8>) {
    let Command::Arithmetic {
        key,
        direction,
        delta,
        initial,
        exptime,
    } = request.command
    else {
        return;
    };
    let expiry = engine.time.expiry(at.now, exptime.into());
    let order = arithmetic::Order {
        key,
        direction,
        delta,
        compare: (request.cas != 0).then_some(request.cas),
        chosen: None,
        create: (exptime != Command::CREATE_NOTHING).then_some((initial, expiry)),
    };
    let status = match arithmetic::execute(engine, at, &order) {
        arithmetic::Outcome::Number { value, version, .. } => {
            if !request.quiet {
                let cas = shown_version(engine.cas_shown, at, version).0;
                answer::number(out, request.echo(), value, cas);
            }
            return;
        }
        arithmetic::Outcome::NotFound => Status::NotFound,
        arithmetic::Outcome::Exists => Status::Exists,
        arithmetic::Outcome::NonNumeric => Status::NonNumeric,
        arithmetic::Outcome::NoMemory => Status::OutOfMemory,
    };
    answer::error(out, request.echo(), status);
}

/// Answers a command that changes something: success is not told to those who asked quietly.
fn finish(request: &Request<'_>, status: Status, version: Version, out: &mut Vec<u8>) {
    match status {
        Status::Success if request.quiet => {}
        Status::Success => answer::done(out, request.echo(), version.0),
        status => answer::error(out, request.echo(), status),
    }
}
