//! The answer to a multi-get, line by line.

use crate::across::seen_mark;
use crate::answer::done::done;
use crate::answer::front::show_front;
use crate::client::{Answered, Client, State};
use crate::composed::{key_of_get, without_newline};
use crate::crossings::Met;
use crate::ids::BackendId;
use crate::pipe::in_flight::{GroupKey, Progress, SPACE};
use crate::pool::pools::Pools;
use crate::profile::Heard;
use crate::routes::Renames;
use crate::show;
use crate::show::Unfit;
use crate::show::kinds::Show;
use crate::stats::counters::Tally;
use crate::under_way::local_copies::{copy_found, shown_copy};
use crate::under_way::profile::{profile_key, profile_rest, rack_of};
use crate::worker::ProxyCore;
use evenkeel_protocol::{Reply, Value};
use evenkeel_schemes::locality::holder::Heard as Holds;
use evenkeel_types::Instant;

/// What is at a key's own place that is not answered.
const NOTHING: Holds = Holds::Nothing;

/// A line of the answer to a multi-get.
pub(crate) fn take_values(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<(), Unfit> {
    match reply {
        Reply::Value(value) => one_value(core, now, id, value, raw),
        Reply::End => {
            rest_of_values(core, id, raw, false);
            Ok(())
        }
        reply if show::is_error(reply) => {
            rest_of_values(core, id, raw, true);
            Ok(())
        }
        _ => Err(Unfit),
    }
}

/// A value: the keys asked for before it, and not answered, are misses.
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
    let tag = request.tag;
    let heard = Heard::of(&tag, rack);
    let mut client = core.clients.get_mut(tag.client);
    let racks = core.pools.racks(tag.pool).cloned();
    let asks_on = racks.as_ref().is_some_and(|racks| racks.asks_on());
    let met = |slot, key: &[u8], found, copy| Met {
        client: tag.client,
        slot,
        pool: tag.pool,
        key: key.into(),
        found,
        copy,
    };
    let carried = |pools: &mut Pools, key: GroupKey, outcome, bytes| {
        if let Some(grains) = pools.grains_of(tag.pool) {
            grains.count(key.hash.into(), tag.is_read, outcome, bytes);
        }
    };
    let (slot, key) = match &mut request.progress {
        Progress::Nothing => {
            // One key was asked for, behind one space.
            let before = line.strip_suffix(value.key).ok_or(Unfit)?;
            if !before.ends_with(b" ") {
                return Err(Unfit);
            }
            request.progress = Progress::Answered;
            (tag.slot, None)
        }
        Progress::Group(group) => loop {
            let (key, place) = group.next().ok_or(Unfit)?;
            group.advance();
            let len = SPACE + place.len();
            let name_len = place.len();
            profile_key(
                &mut core.counts,
                client.as_deref_mut(),
                key,
                name_len,
                &heard,
            );
            if line[place.clone()] == *value.key {
                break (key.slot, Some((key, len + raw.len())));
            }
            carried(&mut core.pools, key, Tally::GetMiss, len);
            group.missed += 1;
            if asks_on {
                core.crossings
                    .meet(met(key.slot, &line[place], NOTHING, None));
            } else if let Some(client) = &mut client {
                let answered = missed(client, &core.routing.renames, key.slot, b"");
                client.set_state(key.slot, State::Done(answered));
            }
        },
        Progress::Answered | Progress::Moved(_) | Progress::Shared(_) => return Err(Unfit),
    };
    let shown_as = match client.as_mut() {
        None => None,
        // An application that wanted what was there in time has been answered.
        Some(client) => client
            .slot(slot)
            .map(|slot| (slot.show, core.routing.renames.get(slot.rename))),
    };
    let mut is_hidden = shown_as.is_some_and(|(_, rename)| show::is_hidden(rename, value));
    let copy = shown_as.filter(|_| is_hidden && racks.is_some());
    let copy = copy.and_then(|(show, _)| {
        let counts = (&mut core.pools, &mut core.counts.stats);
        shown_copy(counts, now, tag.pool, show, value)
    });
    let (value, raw) = match &copy {
        Some((value, raw)) => (value, &raw[..]),
        None => (value, raw),
    };
    is_hidden &= copy.is_none();
    let outcome = match is_hidden {
        true => Tally::GetMiss,
        false => Tally::GetHit,
    };
    request.saw(raw.len(), outcome);
    if let Some((key, bytes)) = key {
        carried(&mut core.pools, key, outcome, bytes);
    }
    let (Some(client), Some(shown_as)) = (client, shown_as) else {
        return Ok(());
    };
    if is_hidden {
        core.counts.stats.placeholders_met += 1;
        if let Progress::Group(group) = &mut request.progress {
            group.missed += 1;
        }
        match racks {
            None => client.set_state(slot, State::Done(Answered::miss())),
            Some(racks) => {
                let found = seen_mark(0, value.data, |token| racks.noted(racks.own(), token));
                let copy = copy_found(value.data);
                core.crossings.meet(met(slot, value.key, found, copy));
            }
        }
        return Ok(());
    }
    client.saw_answer(raw.len());
    if client.is_front(slot) {
        show_front(
            client,
            &mut core.counts,
            shown_as,
            b"",
            &Reply::Value(*value),
            raw,
        )?;
        core.clients.write(&mut core.outbox, tag.client);
    } else {
        let mut bytes = core.spare.take();
        let (show, rename) = shown_as;
        match show {
            Show::Binary(_) => {
                let reply = Reply::Value(*value);
                show::compose(&mut bytes, show, rename, b"", &reply, raw)?;
            }
            _ => show::value_as_sent(&mut bytes, rename, value, raw),
        }
        let answered = Answered {
            bytes,
            is_error: false,
            tally: Tally::GetHit,
        };
        client.set_state(slot, State::Done(answered));
    }
    Ok(())
}

/// The end of the answer to a multi-get: the keys that are left are misses, or have failed.
fn rest_of_values(core: &mut ProxyCore, id: BackendId, raw: &[u8], is_error: bool) {
    let error = is_error.then_some(raw);
    let Some(backend) = core.backends.get_mut(id) else {
        return;
    };
    let rack = rack_of(backend);
    let Some((question, request)) = backend.awaited() else {
        return;
    };
    let outcome = match (&request.progress, is_error) {
        (_, true) => Tally::Refused,
        (Progress::Answered, false) => request.outcome,
        (_, false) => Tally::GetMiss,
    };
    let tag = request.tag;
    if !is_error && core.pools.racks(tag.pool).is_some_and(|it| it.asks_on()) {
        let line = without_newline(question);
        let met = |slot, key: &[u8]| Met {
            client: tag.client,
            slot,
            pool: tag.pool,
            key: key.into(),
            found: NOTHING,
            copy: None,
        };
        match &request.progress {
            Progress::Nothing => {
                if let Some(key) = key_of_get(question) {
                    core.crossings.meet(met(tag.slot, key));
                }
            }
            Progress::Group(group) => {
                let left = group.left();
                left.for_each(|(key, place)| core.crossings.meet(met(key.slot, &line[place])));
            }
            Progress::Answered | Progress::Moved(_) | Progress::Shared(_) => {}
        }
        request.saw(raw.len(), outcome);
        return done(core, id);
    }
    if let (Progress::Group(group), Some(grains)) =
        (&request.progress, core.pools.grains_of(tag.pool))
    {
        for (key, place) in group.left() {
            grains.count(key.hash.into(), tag.is_read, outcome, SPACE + place.len());
        }
    }
    if let Some(client) = core.clients.get_mut(tag.client) {
        let heard = Heard::of(&tag, rack);
        if let Progress::Group(group) = &request.progress {
            profile_rest(&mut core.counts, client, group, &heard);
        }
        let mut finish = |slot| {
            client.saw_answer(0);
            let answered = match error {
                None => missed(client, &core.routing.renames, slot, question),
                Some(line) => {
                    let show = client.slot(slot).map_or(Show::Nothing, |slot| slot.show);
                    Answered::refused(show::refusal(show, line.to_vec()))
                }
            };
            client.set_state(slot, State::Done(answered));
        };
        match &request.progress {
            Progress::Nothing => finish(tag.slot),
            Progress::Group(group) => group.slots_left().for_each(finish),
            Progress::Answered | Progress::Moved(_) | Progress::Shared(_) => {}
        }
    }
    request.saw(raw.len(), outcome);
    done(core, id);
}

/// What a key is answered that a server does not have.
#[inline]
fn missed(client: &mut Client, renames: &Renames, slot: u64, question: &[u8]) -> Answered {
    let mut answered = Answered::miss();
    if let Some(slot) = client.slot(slot)
        && let Show::Binary(echo) = slot.show
    {
        show::binary::miss(
            &mut answered.bytes,
            echo,
            renames.get(slot.rename),
            question,
        );
    }
    answered
}
