//! Where a command on one key goes, and how it is executed.
//!
//! ```text
//!   text ──┐                      ┌─ here: execute ── answer, now or later
//!   get ───┼─ KeyCommand ─ route ─┼─ another worker: forward
//!   binary ┘                      └─ nobody here: what its protocol says to that
//! ```

use crate::WorkerCore;
use crate::commands::execute::execute;
use crate::commands::key_command::{KeyCommand, Named};
use crate::mesh::forwarded::Whose;
use crate::mesh::held::Recipient;
use crate::ownership::hosting::Hosting;
use crate::placement::{Holder, Located};
use crate::session::{LARGE_ANSWER, Session};
use crate::shard::engine::At;
use evenkeel_hotkeys::server::{HoldId, Reader};
use evenkeel_protocol::Moved;
use evenkeel_types::{KeyHash, Now};

/// Where a command on one key goes.
enum Route {
    Here(At),
    Worker(u16, Located),
    /// To the worker that an aware client should have asked, which is told so for its request with this mark.
    Moved(Located, KeyHash, Option<u64>),
    /// Nowhere yet: its key changes its worker.
    Changing,
    /// Nowhere: the server may not serve what it owns at present.
    NoLease,
    /// Nowhere: another server owns the key, and the client cannot be sent there.
    Elsewhere,
}

/// There is no memory for the answer of a command, which was not executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoRoom;

/// Executes a command on one key, or sends it on its way. False when it must be shown again later: its key has to
/// come to another worker, or there is no memory for its value.
#[inline]
pub(crate) fn one_key(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    key: &[u8],
    command: KeyCommand<'_, '_>,
) -> bool {
    match route(core, now, session, key, command) {
        Route::Here(at) if command.is_read() && is_too_large_now(core, &at, key) => {
            session.lack_room();
            return false;
        }
        Route::Here(at) => {
            let before = session.sink().len();
            let hold = execute(
                &mut core.engine,
                &mut core.observers,
                &at,
                key,
                command,
                session.sink(),
            );
            if let Some(hold) = hold {
                let ticket = session.hold_back(before);
                core.held.add(hold, Recipient::Here(session.id, ticket));
            }
        }
        Route::Worker(host, located) => {
            let ticket = command.is_answered().then(|| session.await_answer(1));
            let whose = Whose::of(session);
            let form = command.form();
            core.engine.counters.forwarded_out += 1;
            (core.outbox).send_command(host, whose, ticket, located, form, |out| {
                command.write(key, out);
            });
        }
        Route::Moved(located, hash, mark) => {
            let moved = moved(core, &located, hash, session, mark);
            command.say_moved(session, &moved);
        }
        Route::Changing => {
            (core.hosting.handovers).wait(&mut core.engine.counters, session.id);
            return false;
        }
        Route::NoLease => {
            core.engine.counters.requests_without_lease += 1;
            command.say_no_lease(session);
        }
        Route::Elsewhere => {
            core.engine.counters.keys_of_others += 1;
            let why = core.hosting.whose(key);
            command.say_elsewhere(session, why);
        }
    }
    true
}

/// Finds where a command on one key goes.
#[inline]
fn route(
    core: &mut WorkerCore,
    now: Now,
    session: &Session,
    key: &[u8],
    command: KeyCommand<'_, '_>,
) -> Route {
    let located = core.locate(key);
    if let Some(named) = command.named(session) {
        let is_held_back = !session.marks.is_empty() && is_held_back(core, session, key, &named);
        return match here_by_map(&core.hosting, now, &located, command, &named) {
            Some(at) if !is_held_back => Route::Here(command.confine(at, key)),
            _ => elsewhere_by_map(core, now, key, command, &named, is_held_back),
        };
    }
    match located.place.holder() {
        Holder::Worker(host) if host == core.config.index => {
            let at = located.at(now, Reader::Unaware);
            Route::Here(command.confine(at, key))
        }
        Holder::Worker(host) => Route::Worker(host, located),
        Holder::Changing => Route::Changing,
        Holder::NoLease => Route::NoLease,
        Holder::Elsewhere => Route::Elsewhere,
    }
}

/// Where a key is for a client that names a map, if it is here by that map, too. Nothing that such clients ask is on
/// its way between workers.
#[inline]
fn here_by_map(
    hosting: &Hosting,
    now: Now,
    located: &Located,
    command: KeyCommand<'_, '_>,
    named: &Named,
) -> Option<At> {
    let at = located.at(now, command.reader(named));
    let is_named = named
        .cachelet
        .is_none_or(|cachelet| cachelet == at.cachelet);
    let is_here = at.owned && is_named && named.epoch >= at.since;
    (is_here && hosting.hosts(&located.place)).then_some(at)
}

/// Where a command goes that names a map by which its key is not here, or that was sent before its client had read
/// what became of those before it.
#[cold]
fn elsewhere_by_map(
    core: &mut WorkerCore,
    now: Now,
    key: &[u8],
    command: KeyCommand<'_, '_>,
    named: &Named,
    is_held_back: bool,
) -> Route {
    let hash = KeyHash::of(key);
    if !is_held_back && core.hosting.admit(&mut core.engine, now, named.epoch, hash) {
        let located = core.locate(key);
        if let Some(at) = here_by_map(&core.hosting, now, &located, command, named) {
            return Route::Here(command.confine(at, key));
        }
    }
    Route::Moved(core.locate(key), hash, named.mark)
}

/// Whether a command was sent before its client had read what became of those before it: see
/// [`Marks`](crate::session::marks::Marks).
#[cold]
fn is_held_back(core: &WorkerCore, session: &Session, key: &[u8], named: &Named) -> bool {
    let by_map = || Some(core.hosting.map.as_ref()?.locate(KeyHash::of(key)).cachelet);
    let cachelet = named.cachelet.or_else(by_map);
    cachelet.is_some_and(|cachelet| session.marks.hold_back(cachelet, named.mark))
}

/// What a client is told whose request with this mark is not executed here.
fn moved(
    core: &mut WorkerCore,
    located: &Located,
    hash: KeyHash,
    session: &mut Session,
    mark: Option<u64>,
) -> Moved {
    core.engine.counters.moved += 1;
    let mark = core.hosting.map.as_ref().map_or(0, |map| {
        let cachelet = map.locate(hash).cachelet;
        session.marks.add(cachelet, mark)
    });
    Moved {
        epoch: core.hosting.placement.epoch(),
        owner: core.hosting.owner_of(located, hash),
        mark,
    }
}

/// Executes a command that another worker sent, if its key is here. An answer that nobody awaits is written, too.
pub(crate) fn execute_forwarded(
    core: &mut WorkerCore,
    now: Now,
    located: &Located,
    key: &[u8],
    command: KeyCommand<'_, '_>,
    out: &mut Vec<u8>,
) -> Result<Option<HoldId>, NoRoom> {
    if !core.hosting.hosts(&located.place) {
        command.say_key_moved(out);
        return Ok(None);
    }
    let at = located.at(now, Reader::Unaware);
    if command.is_read() && is_too_large_now(core, &at, key) {
        return Err(NoRoom);
    }
    Ok(execute(
        &mut core.engine,
        &mut core.observers,
        &command.confine(at, key),
        key,
        command,
        out,
    ))
}

/// Whether a read of a key that is here must wait for memory. Leaves no trace.
#[inline]
fn is_too_large_now(core: &WorkerCore, at: &At, key: &[u8]) -> bool {
    core.connections.scarce && is_large(core, at, key)
}

#[cold]
fn is_large(core: &WorkerCore, at: &At, key: &[u8]) -> bool {
    let item = (core.engine.store).peek_hashed(at.cachelet, key, at.table, at.seconds);
    item.is_some_and(|item| item.value().len() > LARGE_ANSWER)
}
