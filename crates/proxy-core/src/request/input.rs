//! From an application's bytes to requests, one after the other and this many in a turn.

use crate::client::{HeldBack, MultiGet};
use crate::explain::{explain_asked, together_asked};
use crate::ids::ClientId;
use crate::pages::PageSaid;
use crate::request::binary::input::step_in_other_dialect;
use crate::request::commands;
use crate::request::flush::flush_all;
use crate::request::limited::{limited_get, wish_of};
use crate::request::multi_get::go_on_with_keys;
use crate::request::quick::quick_gets;
use crate::request::step::{Step, drop_all, stall};
use crate::request::whole::{cluster_asked, say_version, stats_asked};
use crate::show::kinds::{Show, Verb};
use crate::under_way::profile::{go_on_with_page, say_page};
use crate::under_way::say::{close_after_answers, say};
use crate::worker::ProxyCore;
use core::mem;
use evenkeel_protocol::auth::Dialect;
use evenkeel_protocol::compose::{answer, request as ask};
use evenkeel_protocol::{
    Admin, Direction, Keys, Meta, Request, RequestOutcome, parse_request, text,
};
use evenkeel_types::Instant;

/// The application sent something: `input` is everything of it that was not consumed before.
/// Returns how many bytes of it are done with. A closed client consumes everything.
pub(crate) fn take_input(core: &mut ProxyCore, now: Instant, id: ClientId, input: &[u8]) -> usize {
    let mut consumed = 0;
    let mut turn = core.config.requests_per_turn;
    go_on_with_page(core, id);
    while let Step::Consumed(count) = step(core, now, id, &input[consumed..], &mut turn) {
        consumed += count;
    }
    core.counts.stats.bytes_read += consumed as u64;
    consumed
}

fn step(core: &mut ProxyCore, now: Instant, id: ClientId, input: &[u8], turn: &mut u32) -> Step {
    let era = core.era;
    let Some(client) = core.clients.get_mut(id) else {
        return drop_all(input);
    };
    if client.refuses_input {
        return drop_all(input);
    }
    if client.swallow > 0 && !input.is_empty() {
        let count = client.swallow.min(input.len());
        client.swallow -= count;
        return Step::Consumed(count);
    }
    if client.multi_get.is_none() && input.len() < client.need.max(1) {
        if client.ended {
            close_after_answers(core, id);
        }
        return Step::Wait;
    }
    if !client.may_ask(era, core.out_pause) {
        if client.parked > 0 {
            client.held_back.get_or_insert(HeldBack::since(now)).goes_on = true;
        }
        return stall(core, id);
    }
    if *turn == 0 {
        core.counts.stats.conn_yields += 1;
        core.clients.feed(&mut core.outbox, id);
        return Step::Wait;
    }
    *turn -= 1;
    client.era = era;
    if let Some(held_back) = &mut client.held_back
        && !mem::take(&mut held_back.goes_on)
    {
        client.held_back = None;
    }
    if let Some(rest) = client.multi_get {
        return Step::Consumed(go_on_with_keys(core, now, id, rest, input));
    }
    client.need = 0;
    if client.dialect != Dialect::Text {
        return step_in_other_dialect(core, now, id, input, turn);
    }
    let quick = quick_gets(core, now, id, input, turn);
    if quick > 0 {
        return Step::Consumed(quick);
    }
    match parse_request(input, &core.config.limits) {
        RequestOutcome::Request { request, consumed } => {
            if let Request::Get { keys, .. } = request
                && handle_page(core, id, &keys)
            {
                return Step::Consumed(consumed);
            }
            if let Request::Get { keys, with_cas } = request
                && let Some(wish) = wish_of(core, &keys)
            {
                return limited_get(core, now, id, (keys, with_cas, wish), consumed);
            }
            Step::Consumed(execute(core, now, id, &request, &input[..consumed]))
        }
        RequestOutcome::Incomplete { total } => {
            if let Some(client) = core.clients.get_mut(id) {
                client.need = total;
                if client.ended {
                    close_after_answers(core, id);
                }
            }
            Step::Wait
        }
        RequestOutcome::Refused {
            refusal,
            consumed,
            swallow,
        } => {
            if let Some(client) = core.clients.get_mut(id) {
                client.swallow = swallow;
            }
            if let Some(key) = refusal.invalidates {
                commands::invalidate(core, now, id, key);
            }
            say(core, id, refusal.reply);
            Step::Consumed(consumed)
        }
        RequestOutcome::Close { reply } => {
            say(core, id, reply);
            close_after_answers(core, id);
            drop_all(input)
        }
    }
}

/// Executes a request that takes up all of `input`. Returns how many bytes of it are done
/// with: a long multi-get is done key by key.
fn execute(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    request: &Request<'_>,
    input: &[u8],
) -> usize {
    match *request {
        Request::Get { keys, with_cas } => {
            let first = keys.iter().next();
            return begin_keys(core, now, id, with_cas, None, first, input);
        }
        Request::GetAndTouch {
            exptime,
            keys,
            with_cas,
        } => {
            let first = keys.iter().next();
            return begin_keys(core, now, id, with_cas, Some(exptime), first, input);
        }
        Request::Store(store) => commands::store(core, now, id, &store),
        Request::Delete { key, noreply } => commands::delete(core, now, id, key, noreply),
        Request::Arithmetic {
            key,
            delta,
            direction,
            noreply,
        } => {
            commands::arithmetic(core, now, id, key, delta, direction, noreply);
        }
        Request::Touch {
            key,
            exptime,
            noreply,
        } => commands::touch(core, now, id, key, exptime, noreply),
        Request::FlushAll { delay, noreply } => {
            let show = if noreply { Show::Nothing } else { Show::Flush };
            flush_all(core, now, id, delay, show);
        }
        Request::Version => say_version(core, id),
        Request::Verbosity { noreply, .. } => {
            say(core, id, if noreply { b"" } else { text::OK });
        }
        Request::Stats { arguments } => {
            if let Some(key) = arguments.strip_prefix(b"explain ") {
                explain_asked(core, now, id, key);
            } else if let Some(keys) = arguments.strip_prefix(b"together ") {
                together_asked(core, id, keys);
            } else {
                stats_asked(core, id, arguments, None);
            }
        }
        Request::Quit => close_after_answers(core, id),
        Request::Admin(Admin::ConfigGet(b"cluster")) => cluster_asked(core, id, None),
        Request::Admin(admin) => say(core, id, admin.answer_without_feature()),
        Request::MetaNoop => say(core, id, text::META_NOOP),
        // An application is offered no extension: whom it speaks to is the proxy's business.
        Request::Hello(_) | Request::Migrate(_) => say(core, id, text::ERROR),
        Request::MetaGet(ref meta)
        | Request::MetaSet(ref meta)
        | Request::MetaDelete(ref meta)
        | Request::MetaArithmetic(ref meta)
            if meta.flags.uses_extension() =>
        {
            say(core, id, answer::unknown_flag(request));
        }
        Request::MetaGet(ref meta) => {
            handle_opaque(core, id, meta);
            commands::meta_get(core, now, id, meta);
        }
        Request::MetaSet(ref meta) => {
            handle_opaque(core, id, meta);
            commands::meta_set(core, now, id, meta);
        }
        Request::MetaDelete(ref meta) => {
            handle_opaque(core, id, meta);
            commands::meta_write(core, now, id, meta, Verb::Delete, ask::meta_delete);
        }
        Request::MetaArithmetic(ref meta) => {
            handle_opaque(core, id, meta);
            let up = meta.flags.direction() == Direction::Incr;
            commands::meta_write(
                core,
                now,
                id,
                meta,
                Verb::Arithmetic { up },
                ask::meta_arithmetic,
            );
        }
        Request::MetaDebug { key } => commands::meta_debug(core, now, id, key),
    }
    input.len()
}

/// The opaque of a meta command may say which page its application makes.
#[inline]
fn handle_opaque(core: &mut ProxyCore, id: ClientId, meta: &Meta<'_>) {
    if core.records()
        && let Some(said) = meta.flags.token(b'O').and_then(PageSaid::in_opaque)
    {
        say_page(core, id, &said);
    }
}

/// Whether a `get` is of the one key by which an application says which page it makes. If so, it is heard, and answered as a miss.
fn handle_page(core: &mut ProxyCore, id: ClientId, keys: &Keys<'_>) -> bool {
    let Some(own) = &core.config.profile_key else {
        return false;
    };
    let mut keys = keys.iter();
    let (Some(key), None) = (keys.next(), keys.next()) else {
        return false;
    };
    let Some(rest) = key.strip_prefix(&**own) else {
        return false;
    };
    if let Some(said) = PageSaid::in_key(rest) {
        say_page(core, id, &said);
    }
    say(core, id, text::END);
    true
}

fn begin_keys(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    with_cas: bool,
    exptime: Option<i64>,
    first: Option<&[u8]>,
    input: &[u8],
) -> usize {
    let Some(first) = first else {
        say(core, id, text::END);
        return input.len();
    };
    // The key stands in the input; what is before it is the command.
    let start = first.as_ptr() as usize - input.as_ptr() as usize;
    let rest = MultiGet {
        with_cas,
        exptime,
        left: input.len() - start,
    };
    start + go_on_with_keys(core, now, id, rest, &input[start..])
}
