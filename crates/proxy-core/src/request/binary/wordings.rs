//! Each command of the binary protocol in the words of servers.

use crate::composed::announced;
use crate::draft::{Draft, Intent, Tells};
use crate::failure::NO_META;
use crate::ids::ClientId;
use crate::pipe::capability::Capability;
use crate::profile::Class;
use crate::request::binary::auth::authenticate;
use crate::request::capability::capability_of;
use crate::request::flush::flush_all;
use crate::request::question::ask_new;
use crate::request::way::{bounded, on_way, refuse, refuses_cas};
use crate::request::whole::{cluster_asked, stats_asked};
use crate::request::words::{refuses_mark, unaware_of_recaching};
use crate::routes::CommandClass;
use crate::routes::way::{WayKey, WayTo};
use crate::show::kinds::Show;
use crate::under_way::say::{close_after_answers, say_bytes, say_in_binary};
use crate::worker::ProxyCore;
use core::mem;
use evenkeel_protocol::binary::{Command, Echo, Request, Status, answer};
use evenkeel_protocol::compose::{MetaLine, request as ask};
use evenkeel_protocol::{Direction, SentKey, Store, StoreMode, StoreVerb, text};
use evenkeel_types::Instant;

/// The latest exptime that servers are told, a time in the year 2038. In text an exptime has 31 bits
/// and a sign.
const EXPTIME_MAX: u32 = i32::MAX as u32;

/// A `set`, `add`, `replace`, `append` or `prepend`.
struct BinaryStore<'a> {
    mode: StoreMode,
    key: &'a [u8],
    flags: u32,
    exptime: u32,
    value: &'a [u8],
    cas: u64,
}

/// A read of one key, of a worker of ours or a server that knows meta commands.
pub(crate) fn read_in_meta(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    way: &WayTo,
    key: WayKey<'_>,
    echo: Echo,
    exptime: Option<i64>,
) {
    if !has_words(core, now, id, way, key, echo) {
        return;
    }
    let intent = match exptime {
        Some(_) => Intent::ReadAndWrite,
        None => Intent::Read,
    };
    let draft = Draft {
        exptime,
        ..draft(id, way, key, intent, echo)
    };
    ask_new(core, now, &draft, |out, route| {
        let line = announced(ask::meta_get(out, key.sent), key.sent);
        let line = line.flag(b'v').flag(b'f').flag(b'c');
        let line = unaware_of_recaching(line, way);
        let line = match exptime {
            Some(exptime) => line.number(b'T', exptime),
            None => line,
        };
        line.raw(route).end();
    });
}

/// Executes a request that reads no value.
pub(crate) fn execute_binary(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    request: &Request<'_>,
) {
    let echo = request.echo();
    let cas = request.cas;
    match request.command {
        Command::Store {
            mode,
            key,
            flags,
            exptime,
            value,
        } => {
            let store = BinaryStore {
                // With a CAS unique the three commands are one, `add` included.
                mode: if cas == 0 { mode } else { StoreMode::Set },
                key,
                flags,
                exptime,
                value,
                cas,
            };
            store_in_binary(core, now, id, &store, echo);
        }
        Command::Join { before, key, value } => {
            let mode = match before {
                true => StoreMode::Prepend,
                false => StoreMode::Append,
            };
            let store = BinaryStore {
                mode,
                key,
                flags: 0,
                exptime: 0,
                value,
                cas,
            };
            store_in_binary(core, now, id, &store, echo);
        }
        Command::Delete { key } => delete_in_binary(core, now, id, key, cas, echo),
        Command::Touch { key, exptime } => touch_in_binary(core, now, id, key, exptime, echo),
        Command::Arithmetic { .. } => arithmetic_in_binary(core, now, id, request),
        Command::Flush { delay } => {
            flush_all(core, now, id, delay.map(i64::from), Show::Binary(echo));
        }
        Command::Noop | Command::Verbosity { .. } => {
            say_in_binary(core, id, |out| answer::done(out, echo, 0));
        }
        Command::Version => {
            let mut bytes = core.spare.take();
            answer::text(&mut bytes, echo, core.config.version.as_bytes());
            say_bytes(core, id, bytes);
        }
        Command::Quit => {
            if !request.quiet {
                say_in_binary(core, id, |out| answer::done(out, echo, 0));
            }
            close_after_answers(core, id);
        }
        Command::Stat { arguments } => stats_asked(core, id, arguments, Some(echo)),
        Command::ConfigGet { name: b"cluster" } => cluster_asked(core, id, Some(echo)),
        Command::ConfigGet { .. } => {
            say_in_binary(core, id, |out| {
                answer::error(out, echo, Status::UnknownCommand)
            });
        }
        Command::SaslMechanisms | Command::Sasl { .. } => authenticate(core, id, request),
        // An application is offered no extension.
        Command::Hello(_) => {
            say_in_binary(core, id, |out| {
                answer::error(out, echo, Status::UnknownCommand)
            });
        }
        Command::Get { .. } | Command::GetAndTouch { .. } => {
            unreachable!("reads went another way")
        }
    }
}

fn store_in_binary(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    store: &BinaryStore<'_>,
    echo: Echo,
) {
    core.counts.stats.cmd_set += 1;
    let joins = matches!(store.mode, StoreMode::Append | StoreMode::Prepend);
    let compares = store.cas != 0;
    let class = CommandClass::Set;
    on_binary_way(core, now, id, store.key, class, echo, |core, way, key| {
        if compares && refuses_cas(core, now, id, way, Show::Binary(echo)) {
            return;
        }
        if refuses_mark(core, now, id, way, Show::Binary(echo), store.flags) {
            return;
        }
        let capability = capability_of(core, way, key);
        let has_classic_words = !(key.sent.base64 || joins && compares);
        if capability != Capability::Meta && !has_classic_words {
            return has_no_words(core, now, id, way, echo);
        }
        let exptime = match joins {
            // Both keep the exptime of what is there.
            true => 0,
            false => exptime_in_text(core, way, store.exptime),
        };
        let draft = Draft {
            tells: Tells::of_store(store.mode),
            class: Class::of_mode(store.mode, compares),
            exptime: (!joins).then_some(exptime),
            behind_flags: store.value.len() + 2 * text::CRLF.len(),
            ..draft(id, way, key, Intent::Write, echo)
        };
        ask_new(core, now, &draft, |out, route| {
            if capability == Capability::Meta {
                store_in_meta(out, store, key, exptime, route);
            } else {
                ask::store(out, &in_classic(store, key, exptime));
            }
        });
    });
}

fn delete_in_binary(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    key: &[u8],
    cas: u64,
    echo: Echo,
) {
    let class = CommandClass::Delete;
    on_binary_way(core, now, id, key, class, echo, |core, way, key| {
        if cas != 0 && refuses_cas(core, now, id, way, Show::Binary(echo)) {
            return;
        }
        let as_meta = way.as_meta() || cas != 0 || key.sent.base64;
        if as_meta && !has_words(core, now, id, way, key, echo) {
            return;
        }
        let draft = Draft {
            tells: Tells::Removed,
            class: Class::Delete,
            ..draft(id, way, key, Intent::Write, echo)
        };
        ask_new(core, now, &draft, |out, route| {
            if as_meta {
                let line = announced(ask::meta_delete(out, key.sent), key.sent);
                compare(line, cas).raw(route).end();
            } else {
                ask::delete(out, key.stored, false);
            }
        });
    });
}

fn touch_in_binary(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    key: &[u8],
    exptime: u32,
    echo: Echo,
) {
    core.counts.stats.cmd_touch += 1;
    let class = CommandClass::Touch;
    on_binary_way(core, now, id, key, class, echo, |core, way, key| {
        let exptime = exptime_in_text(core, way, exptime);
        let as_classic = capability_of(core, way, key) == Capability::Classic && !key.sent.base64;
        if !as_classic && !has_words(core, now, id, way, key, echo) {
            return;
        }
        let draft = Draft {
            exptime: Some(exptime),
            ..draft(id, way, key, Intent::Touch, echo)
        };
        ask_new(core, now, &draft, |out, route| {
            if as_classic {
                return ask::touch(out, key.stored, exptime, false);
            }
            let line = announced(ask::meta_get(out, key.sent), key.sent);
            let line = unaware_of_recaching(line.flag(b'f').flag(b'c'), way);
            line.number(b'T', exptime).raw(route).end();
        });
    });
}

fn arithmetic_in_binary(core: &mut ProxyCore, now: Instant, id: ClientId, request: &Request<'_>) {
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
    let (echo, cas) = (request.echo(), request.cas);
    let creates = exptime != Command::CREATE_NOTHING;
    let class = CommandClass::Arithmetic;
    on_binary_way(core, now, id, key, class, echo, |core, way, key| {
        if cas != 0 && refuses_cas(core, now, id, way, Show::Binary(echo)) {
            return;
        }
        let has_classic_words = !creates && cas == 0 && !key.sent.base64;
        let as_classic = capability_of(core, way, key) == Capability::Classic && has_classic_words;
        if !as_classic && !has_words(core, now, id, way, key, echo) {
            return;
        }
        let exptime = creates.then(|| exptime_in_text(core, way, exptime));
        let draft = Draft {
            class: Class::of_direction(direction),
            exptime,
            ..draft(id, way, key, Intent::Write, echo)
        };
        ask_new(core, now, &draft, |out, route| {
            if as_classic {
                return ask::arithmetic(out, key.stored, delta, direction, false);
            }
            let line = announced(ask::meta_arithmetic(out, key.sent), key.sent);
            let mode: &[u8] = match direction {
                Direction::Incr => b"I",
                Direction::Decr => b"D",
            };
            let line = line.flag(b'v').flag(b'c');
            let line = line.number(b'D', delta).token(b'M', mode);
            let line = match exptime {
                Some(exptime) => line.number(b'N', exptime).number(b'J', initial),
                None => line,
            };
            compare(line, cas).raw(route).end();
        });
    });
}

/// As [`on_way`](Self::on_way) for a key of any bytes.
pub(crate) fn on_binary_way(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    key: &[u8],
    class: CommandClass,
    echo: Echo,
    ask: impl FnOnce(&mut ProxyCore, &WayTo, WayKey<'_>),
) {
    let mut encoded = mem::take(&mut core.scratch.encoded_key);
    match SentKey::of(key, &mut encoded) {
        Some(key) => on_way(core, now, id, key, class, Show::Binary(echo), ask),
        None => {
            core.counts.stats.keys_refused += 1;
            refuse(core, now, id, Show::Binary(echo), text::BAD_FORMAT);
        }
    }
    core.scratch.encoded_key = encoded;
}

/// The exptime to send for one of the application's.
pub(crate) fn exptime_in_text(core: &mut ProxyCore, way: &WayTo, exptime: u32) -> i64 {
    bounded(core, way, exptime.min(EXPTIME_MAX).into())
}

/// Whether the key's server may know meta commands; if not, says so.
fn has_words(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    way: &WayTo,
    key: WayKey<'_>,
    echo: Echo,
) -> bool {
    let may_know = capability_of(core, way, key) != Capability::Classic;
    if !may_know {
        has_no_words(core, now, id, way, echo);
    }
    may_know
}

fn has_no_words(core: &mut ProxyCore, now: Instant, id: ClientId, way: &WayTo, echo: Echo) {
    core.counts.stats.requests_unsupported += 1;
    core.counts.routes.count_error(way.route);
    refuse(core, now, id, Show::Binary(echo), NO_META);
}

/// A request of one line about one key.
fn draft<'k>(id: ClientId, way: &WayTo, key: WayKey<'k>, intent: Intent, echo: Echo) -> Draft<'k> {
    Draft {
        show: Show::Binary(echo),
        ..Draft::line(id, way, key, intent)
    }
}

fn compare(line: MetaLine<'_>, cas: u64) -> MetaLine<'_> {
    match cas {
        0 => line,
        cas => line.number(b'C', cas),
    }
}

fn store_in_meta(
    out: &mut Vec<u8>,
    store: &BinaryStore<'_>,
    key: WayKey<'_>,
    exptime: i64,
    route: &[u8],
) {
    let line = announced(ask::meta_set(out, key.sent, store.value.len()), key.sent).flag(b'c');
    let line = match store.mode {
        StoreMode::Append => line.token(b'M', b"A"),
        StoreMode::Prepend => line.token(b'M', b"P"),
        mode => {
            let line = line.number(b'F', store.flags).number(b'T', exptime);
            match mode {
                StoreMode::Add => line.token(b'M', b"E"),
                StoreMode::Replace => line.token(b'M', b"R"),
                StoreMode::Set | StoreMode::Append | StoreMode::Prepend => line,
            }
        }
    };
    compare(line, store.cas).raw(route).end_with(store.value);
}

fn in_classic<'a>(store: &BinaryStore<'a>, key: WayKey<'a>, exptime: i64) -> Store<'a> {
    Store {
        verb: match (store.cas, store.mode) {
            (0, StoreMode::Set) => StoreVerb::Set,
            (0, StoreMode::Add) => StoreVerb::Add,
            (0, StoreMode::Replace) => StoreVerb::Replace,
            (0, StoreMode::Append) => StoreVerb::Append,
            (0, StoreMode::Prepend) => StoreVerb::Prepend,
            (cas, _) => StoreVerb::Cas(cas),
        },
        key: key.stored,
        flags: store.flags,
        exptime,
        value: store.value,
        noreply: false,
    }
}
