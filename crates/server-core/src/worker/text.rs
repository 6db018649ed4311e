//! Executes what a connection sends in the text protocol.

use crate::admin::ProcessRequest;
use crate::commands::key_command::{GetForm, KeyCommand, NO_LEASE, key_of, meta_of};
use crate::commands::{replica, store};
use crate::mesh::forwarded::{Form, Whose};
use crate::mesh::message::Task;
use crate::placement::Holder;
use crate::session::connections::Progress;
use crate::session::{ConnectionId, Port, Session};
use crate::shard::time::Seconds;
use crate::worker::admin::admin;
use crate::worker::core::WorkerCore;
use crate::worker::fast_path::{plain_reads, plain_sets};
use crate::worker::route::one_key;
use crate::worker::stats::stats;
use crate::worker::whole::{flush_all, whole};
use core::ops::ControlFlow;
use evenkeel_hotkeys::replication::REPLICA_LIFETIME;
use evenkeel_hotkeys::server::Reader;
use evenkeel_protocol::compose::answer;
use evenkeel_protocol::{
    Hello, HelloReply, KeyScratch, Keys, Meta, Refusal, Request, RequestOutcome, binary,
    parse_request, text,
};
use evenkeel_types::{Epoch, Now};

/// Said where somebody who is no server says what only servers do.
const ONLY_SERVERS: &[u8] = b"SERVER_ERROR only servers say that, and on a worker's port\r\n";

/// What became of one command.
enum Step {
    /// It is done with, and is this long.
    Done(usize),
    /// It is to be shown again: at once after others had their turn, or when something has come.
    Waits { more: bool },
}

/// The input from the next command on, whatever the protocol; or how far the connection has come,
/// when it is to go no further for now. `consumed` moves past what is left of a refused value.
#[inline(always)]
pub(crate) fn next_command<'i>(
    core: &mut WorkerCore,
    session: &mut Session,
    input: &'i [u8],
    consumed: &mut usize,
    commands: u32,
) -> ControlFlow<Progress, &'i [u8]> {
    let dropped = session.swallow.min(input.len() - *consumed);
    session.swallow -= dropped;
    *consumed += dropped;
    let stop = |consumed, more| ControlFlow::Break(Progress { consumed, more });
    if session.closing {
        return stop(input.len(), false);
    }
    let rest = &input[*consumed..];
    if rest.is_empty() || rest.len() < session.need || session.is_paused() {
        return stop(*consumed, false);
    }
    if commands == core.config.requests_per_turn || core.outbox.is_full() {
        core.engine.counters.conn_yields += 1;
        return stop(*consumed, true);
    }
    session.need = 0;
    ControlFlow::Continue(rest)
}

/// Executes the commands at the front of the input, until the connection has to wait or had its share of the turn.
pub(crate) fn work_through(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    input: &[u8],
) -> Progress {
    let mut consumed = 0;
    let mut commands = 0;
    loop {
        let rest = match next_command(core, session, input, &mut consumed, commands) {
            ControlFlow::Continue(rest) => rest,
            ControlFlow::Break(progress) => return progress,
        };
        let left = core.config.requests_per_turn - commands;
        if rest[0] == b's' {
            if let Some((length, taken)) = plain_sets(core, now, session, rest, left) {
                consumed += length;
                commands += taken;
                continue;
            }
        } else if session.keys_done == 0
            && let Some((progress, taken)) = plain_reads(core, now, session, rest, left)
        {
            consumed += progress.consumed;
            commands += taken;
            if session.keys_done > 0
                || progress.more
                || core.hosting.handovers.has_waiting(session.id)
            {
                return Progress {
                    consumed,
                    more: progress.more,
                };
            }
            continue;
        }
        commands += 1;
        match one_request(core, now, session, rest) {
            Step::Done(length) => consumed += length,
            Step::Waits { more } => return Progress { consumed, more },
        }
    }
}

/// Executes the command at the front of the input, whatever it is.
// Not inlined: plain requests should not pay for what it needs of the stack.
#[inline(never)]
fn one_request(core: &mut WorkerCore, now: Now, session: &mut Session, input: &[u8]) -> Step {
    match parse_request(input, &core.config.limits) {
        RequestOutcome::Request { request, consumed } => {
            if dispatch(core, now, session, &request, &input[..consumed]) {
                Step::Done(consumed)
            } else {
                // A multi-get or a list that waits for room, or has had its share of the turn, goes on
                // where it stopped; what waits for a key that moves is shown again when it has, and what waits
                // for a map when that has come.
                let waits = core.hosting.handovers.has_waiting(session.id)
                    || core.homes.has_waiting(session.id);
                Step::Waits {
                    more: !session.is_paused() && !waits,
                }
            }
        }
        RequestOutcome::Incomplete { total } => {
            session.need = total;
            Step::Waits { more: false }
        }
        RequestOutcome::Refused {
            refusal,
            consumed,
            swallow,
        } => {
            if !refuse(core, now, session, &refusal) {
                return Step::Waits { more: false };
            }
            session.swallow = swallow;
            Step::Done(consumed)
        }
        RequestOutcome::Close { reply } => {
            core.engine.counters.protocol_errors += 1;
            session.say(reply);
            session.closing = true;
            Step::Done(0)
        }
    }
}

/// Executes a command, or sends it on its way. False when it must be shown again later.
pub(crate) fn dispatch(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    request: &Request<'_>,
    frame: &[u8],
) -> bool {
    if let Some((keys, form)) = GetForm::of(request) {
        return multi_get(core, now, session, keys, form);
    }
    match request {
        Request::MetaNoop => session.say(text::META_NOOP),
        Request::Version => answer::version(session.sink(), evenkeel_types::VERSION),
        Request::Verbosity { level, noreply } => {
            whole(core, now, session, Task::Verbosity(*level), *noreply);
        }
        Request::Quit => session.closing = true,
        Request::Hello(hello) => agree(core, session, hello),
        Request::Migrate(migrate) => {
            if !refuses_stranger(core, session) {
                (core.hosting).handle_source(&mut core.engine, now, session, *migrate);
            }
        }
        Request::FlushAll { delay, noreply } => {
            flush_all(core, now, session, *delay, *noreply);
        }
        Request::Stats { arguments } => return stats(core, now, session, arguments),
        Request::Admin(word) => return admin(core, now, session, word),
        Request::Get { .. } | Request::GetAndTouch { .. } => unreachable!("a form of get"),
        Request::Store(_)
        | Request::Delete { .. }
        | Request::Arithmetic { .. }
        | Request::Touch { .. }
        | Request::MetaGet(_)
        | Request::MetaSet(_)
        | Request::MetaDelete(_)
        | Request::MetaArithmetic(_)
        | Request::MetaDebug { .. } => {
            return key_request(core, now, session, request, frame);
        }
    }
    true
}

/// A refused request is answered, and the item that it meant to replace goes. False when it must wait
/// for that item to come to another worker.
fn refuse(core: &mut WorkerCore, now: Now, session: &mut Session, refusal: &Refusal<'_>) -> bool {
    let mut scratch = KeyScratch::default();
    let key = refusal.invalidates.map(|sent| sent.decode(&mut scratch));
    if key.is_some_and(|key| waits_for_host(core, session.id, key)) {
        return false;
    }
    if key.is_some_and(|key| core.hosting.has_no_lease(&core.engine.store, key)) {
        // What it meant to replace stays, and may be read again.
        core.engine.counters.requests_without_lease += 1;
        session.say(NO_LEASE);
        return true;
    }
    core.engine.counters.protocol_errors += 1;
    core.engine.counters.store_too_large += u64::from(refusal.too_large);
    session.say(refusal.reply);
    if let Some(key) = key {
        core.observers.saw_refusal(now, key);
        invalidate(core, now, key);
    }
    true
}

/// Removes the item that a refused value was to replace, at whichever worker holds it.
pub(crate) fn invalidate(core: &mut WorkerCore, now: Now, key: &[u8]) {
    let located = core.locate(key);
    match located.place.holder() {
        Holder::Worker(host) if host == core.config.index => {
            let at = located.at(now, Reader::Unaware);
            store::invalidate(&mut core.engine, &at, key);
        }
        Holder::Worker(host) => {
            // In binary, because no line of text can hold every key that base64 can.
            let mut delete = binary::Request::new(binary::Command::Delete { key });
            delete.quiet = true;
            core.engine.counters.forwarded_out += 1;
            let (whose, form) = (Whose::default(), Form::Frame);
            (core.outbox).send_command(host, whose, None, located, form, |out| delete.write(out));
        }
        Holder::Changing | Holder::NoLease | Holder::Elsewhere => {}
    }
}

/// Executes a request on one key, or of servers about their copies of one. False when it must be shown again later.
fn key_request(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    request: &Request<'_>,
    frame: &[u8],
) -> bool {
    let meta = meta_of(request);
    if !session.agreed && meta.is_some_and(|meta| meta.flags.uses_extension()) {
        core.engine.counters.protocol_errors += 1;
        let reply = answer::unknown_flag(request);
        session.say(reply);
        return true;
    }
    let mut scratch = KeyScratch::default();
    let key = key_of(request, &mut scratch);
    if let Some(meta) = meta.filter(|meta| meta.flags.has(b'G')) {
        let is_read = matches!(request, Request::MetaGet(_));
        if !is_read && refuses_stranger(core, session) {
            return true;
        }
        if core
            .hosting
            .migrations
            .stage(&mut core.engine, now, session, key, request, meta)
        {
            return true;
        }
        let epoch = meta.flags.unsigned(b'Y').map_or(Epoch(0), Epoch);
        if !is_read && waits_for_map(core, now, session.id, epoch) {
            return false;
        }
        replica_command(core, now, key, request, meta, session.sink());
        return true;
    }
    one_key(core, now, session, key, KeyCommand::Text(request, frame))
}

/// Whether an order by this map has to wait for it: see [`homes`](crate::ownership::homes).
fn waits_for_map(core: &mut WorkerCore, now: Now, id: ConnectionId, epoch: Epoch) -> bool {
    if epoch <= core.hosting.placement.epoch() {
        return false;
    }
    if core.homes.wait(id) {
        core.engine.counters.replica_orders_early += 1;
    }
    if core.homes.may_ask(now.monotonic) {
        core.process_requests.push_back(ProcessRequest::AskForMap);
    }
    true
}

/// Whether a connection's command has to wait because the key's cachelet moves.
pub(crate) fn waits_for_host(core: &mut WorkerCore, id: ConnectionId, key: &[u8]) -> bool {
    let waits = core.locate(key).place.holder() == Holder::Changing;
    if waits {
        core.hosting.handovers.wait(&mut core.engine.counters, id);
    }
    waits
}

/// A command with `G`: it concerns the replica index, wherever the key's home is.
fn replica_command(
    core: &mut WorkerCore,
    now: Now,
    key: &[u8],
    request: &Request<'_>,
    meta: &Meta<'_>,
    out: &mut Vec<u8>,
) {
    let at = core.locate(key).at(now, Reader::Unaware);
    let lifetime = Seconds::try_from(REPLICA_LIFETIME.as_secs()).unwrap_or(Seconds::MAX);
    match request {
        Request::MetaSet(_) => {
            replica::replica_set(&mut core.engine, &at, key, meta, lifetime, out);
        }
        Request::MetaDelete(_) => {
            replica::replica_delete(&mut core.engine, &at, key, meta, lifetime, out);
        }
        Request::MetaGet(_) => replica::replica_get(&mut core.engine, &at, key, meta, out),
        _ => out.extend_from_slice(answer::unknown_flag(request)),
    }
}

/// A get of any number of keys: those held here are answered in place, others are asked for one
/// by one. Stops when the connection has to wait, and goes on from there when shown again.
fn multi_get(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    keys: Keys<'_>,
    form: GetForm,
) -> bool {
    for key in keys.iter().skip(session.keys_done) {
        if session.is_paused() || core.outbox.is_full() {
            return false;
        }
        if !one_key(core, now, session, key, KeyCommand::Get(form)) {
            return false;
        }
        session.keys_done += 1;
    }
    session.end_get();
    true
}

/// Whether what only servers say came to a port where they do not speak; then that is told.
fn refuses_stranger(core: &mut WorkerCore, session: &mut Session) -> bool {
    if session.peer.port == Port::Worker {
        return false;
    }
    core.engine.counters.strangers_refused += 1;
    session.say(ONLY_SERVERS);
    true
}

/// The extension's hello.
fn agree(core: &mut WorkerCore, session: &mut Session, hello: &Hello) {
    let is_server = hello.from.is_some() || hello.vote.is_some();
    if is_server && refuses_stranger(core, session) {
        return;
    }
    session.agreed = true;
    session.epoch = hello.epoch;
    session.marks.clear();
    (core.homes).hello(&mut core.connections, session.id, hello.from);
    let vote = hello
        .vote
        .map(|who| (core.hosting).vote(&mut core.engine.counters, who, hello.epoch));
    answer::hello(
        session.sink(),
        &HelloReply {
            version: Hello::VERSION,
            worker: core.hosting.me,
            boot: core.config.boot,
            epoch: core.hosting.placement.epoch(),
            lease_ms: core.engine.hot.promise().lease_ms,
            vote,
        },
    );
}
