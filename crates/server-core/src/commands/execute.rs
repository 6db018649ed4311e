//! Executes commands on keys: here alone who looks on sees them, and answers are found that have to wait.

use crate::commands::key_command::KeyCommand;
use crate::commands::{arithmetic, binary, delete, get, meta_debug, meta_get, store, touch};
use crate::observe::Observers;
use crate::shard::engine::{At, Engine};
use evenkeel_hotkeys::server::HoldId;
use evenkeel_protocol::Request;

/// Whether commands on keys may take a shorter way than [`execute`]: nobody looks on, and no answer
/// may have to wait.
#[inline]
pub(crate) fn has_short_way(engine: &Engine, observers: &Observers) -> bool {
    !(observers.is_on() || engine.hot.is_careful())
}

/// Executes a command at this worker, which holds the key. The one place where commands on keys are seen by who
/// looks on. Gives what the answer, written to `out`, must wait for, if it must.
#[inline]
pub(crate) fn execute(
    engine: &mut Engine,
    observers: &mut Observers,
    at: &At,
    key: &[u8],
    command: KeyCommand<'_, '_>,
    out: &mut Vec<u8>,
) -> Option<HoldId> {
    if observers.is_on() {
        observers.observe(engine, at, key, command.operation(), |engine| {
            apply(engine, at, key, command, out);
        });
    } else {
        apply(engine, at, key, command, out);
    }
    match engine.hot.is_careful() {
        true => find_hold(engine, at, key),
        false => None,
    }
}

fn apply(engine: &mut Engine, at: &At, key: &[u8], command: KeyCommand<'_, '_>, out: &mut Vec<u8>) {
    match command {
        KeyCommand::Get(form) => match form.touch {
            None => get::get_key(engine, at, key, form.with_cas, out),
            Some(exptime) => {
                let expiry = engine.time.expiry(at.now, exptime);
                get::get_and_touch_key(engine, at, key, expiry, form.with_cas, out);
            }
        },
        KeyCommand::Text(request, _) => apply_text(engine, at, key, request, out),
        KeyCommand::Binary(request, _) => binary::answer(engine, at, request, out),
    }
}

fn apply_text(engine: &mut Engine, at: &At, key: &[u8], request: &Request<'_>, out: &mut Vec<u8>) {
    let mut say = |bytes: &[u8], noreply: bool| {
        if !noreply {
            out.extend_from_slice(bytes);
        }
    };
    match request {
        Request::Store(store) => say(store::store(engine, at, store), store.noreply),
        Request::Delete { noreply, .. } => say(delete::delete(engine, at, key), *noreply),
        Request::Touch {
            exptime, noreply, ..
        } => {
            let expiry = engine.time.expiry(at.now, *exptime);
            say(touch::touch(engine, at, key, expiry), *noreply);
        }
        Request::Arithmetic {
            delta,
            direction,
            noreply,
            ..
        } => {
            let before = out.len();
            arithmetic::arithmetic(engine, at, key, *delta, *direction, out);
            if *noreply {
                out.truncate(before);
            }
        }
        Request::MetaGet(meta) => meta_get::meta_get(engine, at, key, meta, out),
        Request::MetaSet(meta) => store::meta_set(engine, at, key, meta, out),
        Request::MetaDelete(meta) => delete::meta_delete(engine, at, key, meta, out),
        Request::MetaArithmetic(meta) => {
            arithmetic::meta_arithmetic(engine, at, key, meta, out);
        }
        Request::MetaDebug { key: sent } => {
            meta_debug::meta_debug(engine, at, *sent, key, out);
        }
        Request::Get { .. }
        | Request::GetAndTouch { .. }
        | Request::FlushAll { .. }
        | Request::Version
        | Request::Verbosity { .. }
        | Request::Stats { .. }
        | Request::Quit
        | Request::Admin(_)
        | Request::MetaNoop
        | Request::Hello(_)
        | Request::Migrate(_) => unreachable!("only commands on one key are executed here"),
    }
}

/// What the answer to a command on this key that was just executed must wait for, if it must.
#[cold]
fn find_hold(engine: &mut Engine, at: &At, key: &[u8]) -> Option<HoldId> {
    if !at.owned {
        return None;
    }
    let item = engine
        .store
        .peek_hashed(at.cachelet, key, at.table, at.seconds);
    let (present, hash) = (item.is_some(), at.key_hash(key));
    let now = at.now.monotonic;
    let hold = (engine.hot).hold_of(now, hash, key, present, at.since);
    engine.counters.answers_held += u64::from(hold.is_some());
    hold
}
