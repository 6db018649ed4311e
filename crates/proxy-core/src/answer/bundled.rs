//! The answer to a line of a multi-get that asks for copies (Replicate and Bundle).
//!
//! A copy's value begins with a header, which no application sees. What is not at a copy is asked once more, at its home, as soon as the line
//! is answered; and copied behind that. What is not at home is not there.

use crate::answer::done::done;
use crate::client::{Answered, State};
use crate::composed::without_newline;
use crate::ids::BackendId;
use crate::pipe::in_flight::{Progress, Tag};
use crate::profile::Heard;
use crate::show;
use crate::show::Unfit;
use crate::show::kinds::Show;
use crate::stats::counters::Tally;
use crate::under_way::copies::{begin_fill, begin_refresh};
use crate::under_way::profile::{profile_key, rack_of};
use crate::under_way::second_round::{KeyLeft, ask_homes};
use crate::worker::ProxyCore;
use evenkeel_protocol::{Reply, Value};
use evenkeel_schemes::copies::{Found, Header, PREFIX_LEN, Read, is_copy, read};
use evenkeel_schemes::mark::is_mark;
use evenkeel_types::{Instant, Version};

/// A part of it.
pub(crate) fn take_copies(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<(), Unfit> {
    match reply {
        Reply::Value(value) => one_value(core, now, id, value, raw),
        Reply::End => rest_of_line(core, now, id, raw, None),
        reply if show::is_error(reply) => rest_of_line(core, now, id, raw, Some(raw)),
        _ => Err(Unfit),
    }
}

/// A value: the keys asked for before it, and not answered, are not there.
fn one_value(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    value: &Value<'_>,
    raw: &[u8],
) -> Result<(), Unfit> {
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    let rack = rack_of(backend);
    let (question, request) = backend.awaited().ok_or(Unfit)?;
    let line = without_newline(question);
    let Progress::Group(group) = &mut request.progress else {
        return Err(Unfit);
    };
    let key = loop {
        let (key, place) = group.next().ok_or(Unfit)?;
        group.advance();
        if line[place] == *value.key {
            break key;
        }
        group.missed += 1;
    };
    let tag = request.tag;
    request.saw(raw.len(), Tally::GetHit);
    let (slot, name_len) = (key.slot, value.key.len());
    let heard = Heard::of(&tag, rack).of_copy(is_copy(value.key));
    let client = core.clients.get_mut(tag.client);
    profile_key(&mut core.counts, client, key, name_len, &heard);
    if !is_copy(value.key) {
        show_value(core, &tag, slot, value, Some(raw));
        return Ok(());
    }
    let copied = Header::parse(value.data).filter(|_| !is_mark(value.flags));
    let found = match copied {
        Some((Header { ends, .. }, _)) => Found::Value { ends },
        None if is_mark(value.flags) => Found::Mark,
        None => Found::Nothing,
    };
    let most = core.pools.keeping(tag.pool).map_or(0, |it| it.ttl);
    match (read(found, core.unix, most, core.random.u32()), copied) {
        (Read::Show { refresh }, Some((header, data))) => {
            let item = Value {
                key: &value.key[PREFIX_LEN..],
                flags: value.flags,
                data,
                cas: Some(Version(header.unique)),
            };
            show_value(core, &tag, slot, &item, None);
            if refresh {
                begin_refresh(core, now, tag.pool, value.key, id);
            }
        }
        (Read::AskHome { fill: false }, _) => {
            let backend = core.backends.get_mut(id).ok_or(Unfit)?;
            if let Some((_, request)) = backend.awaited()
                && let Progress::Group(group) = &mut request.progress
            {
                group.being_filled.push(slot);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Keeps a value for its turn: as the server has sent it, or what a copy says of it.
fn show_value(
    core: &mut ProxyCore,
    tag: &Tag,
    slot: u64,
    value: &Value<'_>,
    as_sent: Option<&[u8]>,
) {
    let Some(client) = core.clients.get_mut(tag.client) else {
        return;
    };
    // An application that wanted what was there in time has been answered.
    let Some(place) = client.slot(slot) else {
        return;
    };
    let (shown_as, rename) = (place.show, core.routing.renames.get(place.rename));
    let mut bytes = core.spare.take();
    match as_sent {
        Some(raw) => show::value_as_sent(&mut bytes, rename, value, raw),
        None => {
            let mask = rename.map_or(0, |rename| rename.unique_mask(value.key));
            let cas = value.cas.map(|Version(unique)| Version(unique ^ mask));
            let cas = cas.filter(|_| shows_unique(shown_as));
            show::named_value(&mut bytes, rename, &Value { cas, ..*value });
            if let Some((bundled, _)) = core.pools.bundled(tag.pool) {
                bundled.counts.copies_hit += 1;
            }
        }
    }
    client.saw_answer(bytes.len());
    let answered = Answered {
        bytes,
        is_error: false,
        tally: Tally::GetHit,
    };
    client.set_state(slot, State::Done(answered));
}

fn shows_unique(shown_as: Show) -> bool {
    matches!(shown_as, Show::Value { with_cas: true, .. })
}

/// The end of the answer: copies that are left are asked at home, other keys are misses, or have failed.
fn rest_of_line(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    raw: &[u8],
    error: Option<&[u8]>,
) -> Result<(), Unfit> {
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    let rack = rack_of(backend);
    let (question, request) = backend.awaited().ok_or(Unfit)?;
    let Progress::Group(group) = &request.progress else {
        return Err(Unfit);
    };
    let tag = request.tag;
    let heard = Heard::of(&tag, rack);
    let mut left = Vec::new();
    if let Some(client) = core.clients.get_mut(tag.client) {
        for (key, name) in group.names(question) {
            let slot = key.slot;
            let place = client.slot(slot);
            let Some(shown_as) = place.filter(|it| it.is_waiting()).map(|it| it.show) else {
                continue;
            };
            if is_copy(name) {
                left.push(KeyLeft {
                    slot,
                    key: name[PREFIX_LEN..].into(),
                    with_cas: shows_unique(shown_as),
                    fill: error.is_none() && !group.being_filled.contains(&slot),
                });
                continue;
            }
            profile_key(&mut core.counts, Some(client), key, name.len(), &heard);
            client.saw_answer(0);
            let answered = match error {
                None => Answered::miss(),
                Some(line) => Answered::refused(show::refusal(shown_as, line.to_vec())),
            };
            client.set_state(slot, State::Done(answered));
        }
    }
    request.saw(raw.len(), error.map_or(Tally::GetMiss, |_| Tally::Refused));
    done(core, id);
    ask_homes(core, now, &tag, &left);
    for key in left.iter().filter(|key| key.fill) {
        begin_fill(core, now, tag.pool, &key.key, id);
    }
    Ok(())
}
