//! From a command about one key to a question.
//!
//! Classic commands go to an Evenkeel server as meta commands, because only those can carry the map's
//! epoch out and leases and moves back; the answers say the same in other words (`show`). Other
//! memcached servers get classic commands as they are. `noreply` and the quiet flag of `mg` are taken
//! off: an answer that is not asked for cannot be told from one that is lost.

use crate::composed::announced;
use crate::draft::{Draft, Intent, Tells};
use crate::ids::ClientId;
use crate::pipe::in_flight::Ask;
use crate::profile::Class;
use crate::request::question::ask_new;
use crate::request::way::{bounded, on_way, refuse, refuses_cas};
use crate::request::words::{refuses_mark, unaware_of_recaching};
use crate::routes::way::{WayKey, WayTo};
use crate::routes::{CommandClass, RenameId};
use crate::show::kinds::{Show, Unasked, Verb};
use crate::worker::ProxyCore;
use core::mem;
use evenkeel_protocol::compose::{MetaLine, number, request as ask};
use evenkeel_protocol::{
    Direction, FLAG_COUNT_MAX, FLAG_COUNT_MAX_MS, LINE_LEN_MAX, Meta, MetaFlags, SentKey, Store,
    StoreMode, StoreVerb, text,
};
use evenkeel_types::Instant;

/// What follows a quiet command, so that its answer has an end.
const QUIET_END: &[u8] = b"mn\r\n";

#[inline]
pub(crate) fn store(core: &mut ProxyCore, now: Instant, id: ClientId, store: &Store<'_>) {
    core.counts.stats.cmd_set += 1;
    let is_cas = matches!(store.verb, StoreVerb::Cas(_));
    let joins = matches!(store.verb, StoreVerb::Append | StoreVerb::Prepend);
    let show = if store.noreply {
        Show::Nothing
    } else {
        Show::Store { is_cas }
    };
    let key = SentKey::plain(store.key);
    on_way(
        core,
        now,
        id,
        key,
        CommandClass::Set,
        show,
        |core, way, key| {
            if is_cas && refuses_cas(core, now, id, way, show) {
                return;
            }
            if refuses_mark(core, now, id, way, show, store.flags) {
                return;
            }
            let exptime = match joins {
                // Both keep the exptime of what is there.
                true => store.exptime,
                false => bounded(core, way, store.exptime),
            };
            let draft = Draft {
                show,
                tells: match joins {
                    true => Tells::Nothing,
                    false => Tells::Stored,
                },
                class: Class::of_store(store.verb),
                exptime: (!joins).then_some(exptime),
                behind_flags: store.value.len() + 2 * text::CRLF.len(),
                ..Draft::line(id, way, key, Intent::Write)
            };
            let store = Store {
                key: key.stored,
                exptime,
                noreply: false,
                ..*store
            };
            ask_new(core, now, &draft, |out, route| {
                if way.as_meta() {
                    store_as_meta(out, &store, route)
                } else {
                    ask::store(out, &store)
                }
            });
        },
    );
}

pub(crate) fn delete(core: &mut ProxyCore, now: Instant, id: ClientId, key: &[u8], noreply: bool) {
    let show = if noreply { Show::Nothing } else { Show::Delete };
    let key = SentKey::plain(key);
    on_way(
        core,
        now,
        id,
        key,
        CommandClass::Delete,
        show,
        |core, way, key| {
            delete_on(core, now, id, way, key, (show, Class::Delete));
        },
    );
}

fn delete_on(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    way: &WayTo,
    key: WayKey<'_>,
    (show, class): (Show, Class),
) {
    let draft = Draft {
        show,
        tells: Tells::Removed,
        class,
        ..Draft::line(id, way, key, Intent::Write)
    };
    ask_new(core, now, &draft, |out, route| {
        if way.as_meta() || key.sent.base64 {
            let line = announced(ask::meta_delete(out, key.sent), key.sent);
            line.raw(route).end();
        } else {
            ask::delete(out, key.stored, false);
        }
    });
}

/// The old value of a key must go because the new one was too large: memcached's way of saying
/// that it is no longer true.
pub(crate) fn invalidate(core: &mut ProxyCore, now: Instant, id: ClientId, key: SentKey<'_>) {
    // It is the value that a store would have replaced.
    let (class, show) = (CommandClass::Set, Show::Nothing);
    on_way(core, now, id, key, class, show, |core, way, key| {
        delete_on(core, now, id, way, key, (show, Class::TooLarge));
    });
}

pub(crate) fn arithmetic(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    key: &[u8],
    delta: u64,
    direction: Direction,
    noreply: bool,
) {
    let up = direction == Direction::Incr;
    let show = if noreply {
        Show::Nothing
    } else {
        Show::Number { up }
    };
    let (key, class) = (SentKey::plain(key), CommandClass::Arithmetic);
    on_way(core, now, id, key, class, show, |core, way, key| {
        let draft = Draft {
            show,
            class: Class::of_direction(direction),
            ..Draft::line(id, way, key, Intent::Write)
        };
        ask_new(core, now, &draft, |out, route| {
            if way.as_meta() {
                let mode: &[u8] = if up { b"I" } else { b"D" };
                let line = ask::meta_arithmetic(out, key.sent).flag(b'v');
                line.number(b'D', delta).token(b'M', mode).raw(route).end();
            } else {
                ask::arithmetic(out, key.stored, delta, direction, false);
            }
        });
    });
}

pub(crate) fn touch(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    key: &[u8],
    exptime: i64,
    noreply: bool,
) {
    core.counts.stats.cmd_touch += 1;
    let show = if noreply { Show::Nothing } else { Show::Touch };
    let key = SentKey::plain(key);
    on_way(
        core,
        now,
        id,
        key,
        CommandClass::Touch,
        show,
        |core, way, key| {
            let exptime = bounded(core, way, exptime);
            let draft = Draft {
                show,
                exptime: Some(exptime),
                ..Draft::line(id, way, key, Intent::Touch)
            };
            ask_new(core, now, &draft, |out, route| {
                if way.as_meta() {
                    let line = unaware_of_recaching(ask::meta_get(out, key.sent), way);
                    let line = match way.has_marks() {
                        // They tell a mark.
                        true => line.flag(b'f').flag(b'c'),
                        false => line,
                    };
                    line.number(b'T', exptime).raw(route).end();
                } else {
                    ask::touch(out, key.stored, exptime, false);
                }
            });
        },
    );
}

pub(crate) fn meta_get(core: &mut ProxyCore, now: Instant, id: ClientId, meta: &Meta<'_>) {
    core.counts.stats.cmd_meta += 1;
    core.counts.stats.cmd_get += 1;
    let quiet = meta.flags.has(b'q');
    let class = if meta.flags.has(b'T') || meta.flags.has(b'N') {
        CommandClass::Touch
    } else {
        CommandClass::Get
    };
    let show = |unasked| Show::Meta {
        verb: Verb::Get,
        quiet,
        unasked,
    };
    let refused = show(Unasked::default());
    on_way(core, now, id, meta.key, class, refused, |core, way, key| {
        let intent = get_intent(&meta.flags);
        let (copies, unasked) = if way.as_meta() {
            // The version says whether an answer is older than one already shown. A line with as
            // many flags as there can be has no room for it; such a read then gets no lease.
            // A mark is told by its flags, and where it leads by its value.
            let reads_marks = core.pools.reads_notes(way.pool);
            let more = usize::from(way.has_marks()) + usize::from(reads_marks);
            let has_room = meta.flags.iter().count() + more < FLAG_COUNT_MAX;
            if way.has_marks() && !has_room {
                return refuse(core, now, id, refused, text::FLAGS_TOO_LONG);
            }
            let unasked = Unasked {
                cas: has_room && !meta.flags.has(b'c'),
                flags: way.has_marks() && !meta.flags.has(b'f'),
                value: reads_marks && !meta.flags.has(b'v'),
            };
            (false, unasked)
        } else {
            core.pools.watch_mg(way, key, &meta.flags)
        };
        let draft = Draft {
            show: show(unasked),
            copies,
            ..Draft::line(id, way, key, intent)
        };
        ask_meta(core, now, way, key, meta, draft, |out, flags, route| {
            let line = ask::meta_get(out, key.sent).raw(flags);
            let line = if unasked.cas { line.flag(b'c') } else { line };
            let line = if unasked.flags { line.flag(b'f') } else { line };
            let line = if unasked.value { line.flag(b'v') } else { line };
            line.raw(route).end();
        });
    });
}

pub(crate) fn meta_set(core: &mut ProxyCore, now: Instant, id: ClientId, meta: &Meta<'_>) {
    core.counts.stats.cmd_meta += 1;
    core.counts.stats.cmd_set += 1;
    let ask = quiet_ask(&meta.flags);
    let has_version = meta.flags.has(b'c');
    let has_room = meta.flags.iter().count() < FLAG_COUNT_MAX_MS;
    let show = Show::Meta {
        verb: Verb::Set,
        quiet: false,
        unasked: Unasked {
            cas: !has_version,
            ..Unasked::default()
        },
    };
    on_way(
        core,
        now,
        id,
        meta.key,
        CommandClass::Set,
        show,
        |core, way, key| {
            let client_flags = meta.flags.client_flags().unwrap_or(0);
            if refuses_mark(core, now, id, way, show, client_flags) {
                return;
            }
            let draft = Draft {
                show,
                ask,
                tells: match ask == Ask::Single && (has_version || has_room) {
                    true => Tells::of_store(meta.flags.store_mode()),
                    false => Tells::Nothing,
                },
                class: Class::of_mode(meta.flags.store_mode(), meta.flags.has(b'C')),
                behind_flags: behind_meta(ask) + meta.value.len() + text::CRLF.len(),
                ..Draft::line(id, way, key, Intent::Write)
            };
            ask_meta(core, now, way, key, meta, draft, |out, flags, route| {
                let line = ask::meta_set(out, key.sent, meta.value.len());
                line.raw(flags).raw(route).end_with(meta.value);
                end_quiet(out, ask);
            });
        },
    );
}

/// `md` or `ma`.
pub(crate) fn meta_write(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    meta: &Meta<'_>,
    verb: Verb,
    begin: for<'o, 'k> fn(&'o mut Vec<u8>, SentKey<'k>) -> MetaLine<'o>,
) {
    core.counts.stats.cmd_meta += 1;
    let class = match verb {
        Verb::Arithmetic { .. } => CommandClass::Arithmetic,
        _ => CommandClass::Delete,
    };
    let show = Show::Meta {
        verb,
        quiet: false,
        unasked: Unasked::default(),
    };
    on_way(core, now, id, meta.key, class, show, |core, way, key| {
        let ask = quiet_ask(&meta.flags);
        let draft = Draft {
            show,
            ask,
            tells: match verb == Verb::Delete && ask == Ask::Single {
                true => Tells::Removed,
                false => Tells::Nothing,
            },
            class: match verb {
                Verb::Arithmetic { .. } => Class::of_direction(meta.flags.direction()),
                _ => Class::Delete,
            },
            behind_flags: behind_meta(ask),
            ..Draft::line(id, way, key, Intent::Write)
        };
        ask_meta(core, now, way, key, meta, draft, |out, flags, route| {
            begin(out, key.sent).raw(flags).raw(route).end();
            end_quiet(out, ask);
        });
    });
}

pub(crate) fn meta_debug(core: &mut ProxyCore, now: Instant, id: ClientId, key: SentKey<'_>) {
    core.counts.stats.cmd_meta += 1;
    let show = Show::Meta {
        verb: Verb::Debug,
        quiet: false,
        unasked: Unasked::default(),
    };
    on_way(
        core,
        now,
        id,
        key,
        CommandClass::Get,
        show,
        |core, way, key| {
            let draft = Draft {
                show,
                ..Draft::line(id, way, key, Intent::Look)
            };
            ask_new(core, now, &draft, |out, _| {
                announced(ask::meta_debug(out, key.sent), key.sent).end();
            });
        },
    );
}

/// Asks a meta command, whose line `write` appends, given the flags to send and our own.
fn ask_meta(
    core: &mut ProxyCore,
    now: Instant,
    way: &WayTo,
    key: WayKey<'_>,
    meta: &Meta<'_>,
    draft: Draft<'_>,
    write: impl Fn(&mut Vec<u8>, &[u8], &[u8]),
) {
    let Show::Meta { verb, .. } = draft.show else {
        return;
    };
    let compares = verb != Verb::Get && meta.flags.has(b'C');
    if compares && refuses_cas(core, now, draft.client, way, draft.show) {
        return;
    }
    let as_sent = way.keeps_exptimes() && !(verb == Verb::Get && meta.flags.has(b'q'));
    if as_sent && way.rename == RenameId::NONE {
        let flags = meta.flags.raw();
        let exptime = meta.flags.exptime(b'T');
        let draft = Draft { exptime, ..draft };
        return ask_new(core, now, &draft, |out, route| write(out, flags, route));
    }
    let mut flags = mem::take(&mut core.scratch.flags);
    flags.clear();
    let is_sound = flags_to_send(core, way, verb, meta, &mut flags);
    let refusal = if !is_sound {
        Some(text::FLAGS_TOO_LONG)
    } else if META_WORDS_LEN_MAX + key.sent.text.len() + flags.len() > LINE_LEN_MAX {
        Some(text::BAD_FORMAT)
    } else {
        None
    };
    match refusal {
        None => {
            let exptime = MetaFlags::of_reply(&flags).exptime(b'T');
            let draft = Draft { exptime, ..draft };
            ask_new(core, now, &draft, |out, route| write(out, &flags, route));
        }
        Some(words) => {
            core.counts.stats.keys_refused += 1;
            core.counts.routes.count_error(way.route);
            refuse(core, now, draft.client, draft.show, words);
        }
    }
    core.scratch.flags = flags;
}

/// The flags with exptimes within the route's bounds, and without the `q` of a get. False if there
/// is no room for one that has to be added.
fn flags_to_send(
    core: &mut ProxyCore,
    way: &WayTo,
    verb: Verb,
    meta: &Meta<'_>,
    out: &mut Vec<u8>,
) -> bool {
    let mut count = 0;
    for (letter, token) in meta.flags.iter() {
        if letter == b'q' && verb == Verb::Get {
            continue;
        }
        count += 1;
        if !out.is_empty() {
            out.push(b' ');
        }
        out.push(letter);
        match meta
            .flags
            .exptime(letter)
            .filter(|_| matches!(letter, b'T' | b'N'))
        {
            Some(exptime) => number(out, bounded(core, way, exptime)),
            None => out.extend_from_slice(token),
        }
    }
    let mode = meta.flags.store_mode();
    let sets = verb == Verb::Set && !matches!(mode, StoreMode::Append | StoreMode::Prepend);
    if !sets || meta.flags.has(b'T') {
        return true;
    }
    // Without `T` the item never expires.
    let exptime = bounded(core, way, 0);
    if exptime == 0 {
        return true;
    }
    if !out.is_empty() {
        out.push(b' ');
    }
    out.push(b'T');
    number(out, exptime);
    count < FLAG_COUNT_MAX_MS
}

/// A command, a data length and the spaces between them: what a meta line has besides key and flags.
const META_WORDS_LEN_MAX: usize = 32;

fn store_as_meta(out: &mut Vec<u8>, store: &Store<'_>, route: &[u8]) {
    let line = ask::meta_set(out, SentKey::plain(store.key), store.value.len());
    let line = match store.verb {
        // Both keep the flags and the exptime of what is there.
        StoreVerb::Append => line.token(b'M', b"A"),
        StoreVerb::Prepend => line.token(b'M', b"P"),
        verb => {
            let line = line.number(b'F', store.flags).number(b'T', store.exptime);
            match verb {
                StoreVerb::Add => line.token(b'M', b"E"),
                StoreVerb::Replace => line.token(b'M', b"R"),
                StoreVerb::Cas(cas) => line.number(b'C', cas),
                StoreVerb::Set | StoreVerb::Append | StoreVerb::Prepend => line,
            }
        }
    };
    line.raw(route).end_with(store.value);
}

/// What an `mg` does, by its flags. Replicas hold values, versions, client flags and nothing else.
fn get_intent(flags: &MetaFlags<'_>) -> Intent {
    let has_any = |letters: &[u8]| letters.iter().any(|&letter| flags.has(letter));
    // `R` writes nothing, but who wins the right to recache is told so once only: asking twice is not
    // the same as asking once.
    if has_any(b"N") {
        Intent::Write
    } else if has_any(b"TER") {
        Intent::ReadAndWrite
    } else if flags
        .iter()
        .all(|(letter, _)| b"bcfkOqsuv".contains(&letter))
    {
        Intent::Read
    } else {
        Intent::ReadAtHome
    }
}

/// What follows the line of a meta command besides its value.
fn behind_meta(ask: Ask) -> usize {
    match ask {
        Ask::Quiet => text::CRLF.len() + QUIET_END.len(),
        Ask::Single | Ask::Values | Ask::Copies | Ask::Hot | Ask::Flush => text::CRLF.len(),
    }
}

fn quiet_ask(flags: &MetaFlags<'_>) -> Ask {
    if flags.has(b'q') {
        Ask::Quiet
    } else {
        Ask::Single
    }
}

fn end_quiet(out: &mut Vec<u8>, ask: Ask) {
    if ask == Ask::Quiet {
        out.extend_from_slice(QUIET_END);
    }
}
