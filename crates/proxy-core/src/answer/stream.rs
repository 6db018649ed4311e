//! Large values pass through: what has arrived of one goes on to the application at once, and is not kept
//! until the rest is there.
//!
//! That is for a value whose turn has come, from a server of a plain pool. Others wait in the input of their
//! connection until they are whole. A value that has begun cannot be taken back: if its server is lost in
//! the middle of it, so is the connection of the application. Storage commands do not pass through; a slow
//! sender would hold up everybody else's requests on the connection to the server.

use crate::composed::key_of_get;
use crate::ids::BackendId;
use crate::limits::STREAM_MIN;
use crate::pipe::in_flight::{Ask, Progress, SPACE};
use crate::pipe::streaming::Streaming;
use crate::profile::Heard;
use crate::show::kinds::Show;
use crate::show::{Unfit, put_value};
use crate::stats::counters::Tally;
use crate::under_way::profile::rack_of;
use crate::under_way::release::release;
use crate::worker::ProxyCore;
use evenkeel_protocol::{LINE_LEN_MAX, Limits, scan_value_head, text};
use evenkeel_types::Instant;
use evenkeel_types::copy;

/// Passes a value on that `input` begins with and that is not whole, if it can be. Returns how many
/// bytes are done with.
pub(crate) fn begin_stream(
    core: &mut ProxyCore,
    id: BackendId,
    input: &[u8],
    limits: &Limits,
) -> Option<usize> {
    let backend = core.backends.get_mut(id)?;
    let rack = rack_of(backend);
    let (question, request) = backend.awaited()?;
    let tag = request.tag;
    // What is said of a hot key is held against its home first, and a copy goes by another name.
    if tag.ask != Ask::Values {
        return None;
    }
    let (slot, hash, key, asked) = match &request.progress {
        Progress::Nothing => (tag.slot, None, key_of_get(question)?, question.len()),
        Progress::Group(group) => {
            let (key, place) = group.next()?;
            let asked = SPACE + place.len();
            (key.slot, Some(key.hash), &question[place], asked)
        }
        _ => return None,
    };
    let (head, data) = scan_value_head(input, key, limits)?;
    let client = core.clients.get_mut(tag.client)?;
    let is_front = client.is_front(slot);
    let place = client
        .slot(slot)
        .filter(|_| is_front && data >= STREAM_MIN)?;
    let (before_key, note) = (place.rename.before_key(key)?, place.note);
    if !matches!(place.show, Show::Value { .. }) {
        return None;
    }
    let len = head + data + text::CRLF.len();
    if let (Some(hash), Some(grains)) = (hash, core.pools.grains_of(tag.pool)) {
        let bytes = SPACE + key.len() + len;
        grains.count(hash.into(), tag.is_read, Tally::GetHit, bytes);
    }
    core.counts.heard(note, asked, &Heard::of(&tag, rack));
    match &mut request.progress {
        Progress::Group(group) => group.advance(),
        progress => *progress = Progress::Answered,
    }
    request.saw(len, Tally::GetHit);
    core.rooms.lend(client.out(), len + LINE_LEN_MAX);
    put_value(client.out(), before_key, &input[..head]);
    let shown = head - before_key;
    backend.streaming = Some(Streaming::new(tag.client, slot, shown, data));
    Some(head)
}

/// Passes more of a value on. Returns how many bytes are done with.
pub(crate) fn go_on_with_stream(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    input: &[u8],
) -> Result<usize, Unfit> {
    let Some(backend) = core.backends.get_mut(id) else {
        return Err(Unfit);
    };
    let Some(stream) = &mut backend.streaming else {
        return Ok(0);
    };
    let count = stream.advance(input).ok_or(Unfit)?;
    let stream = *stream;
    if stream.is_whole() {
        backend.streaming = None;
    }
    let Some(client) = core.clients.get_mut(stream.client) else {
        return Ok(count);
    };
    copy::append(client.out(), &input[..count]);
    if !stream.is_whole() {
        core.clients.write(&mut core.outbox, stream.client);
        return Ok(count);
    }
    client.saw_answer(stream.len);
    if let Some(slot) = client.slot(stream.slot) {
        let shown_as = slot.show;
        core.counts
            .shown(slot.route, slot.note, Tally::GetHit, stream.len);
        client.pop_shown();
        client.end_key(shown_as);
    }
    release(core, now, stream.client);
    Ok(count)
}
