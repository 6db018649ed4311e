//! Sending the lines of a multi-get.

use crate::drafts::{Line, LineKey, Room};
use crate::ids::{BackendId, ClientId, PoolId};
use crate::pipe::in_flight::{Question, Tag};
use crate::under_way::fail::fail;
use crate::under_way::put::put;
use crate::under_way::release::release;
use crate::worker::ProxyCore;
use evenkeel_protocol::KEY_LEN_MAX;
use evenkeel_schemes::copies::PREFIX_LEN;
use evenkeel_types::Instant;

/// Adds a key that was asked for before, and has a slot, to the line for another server.
pub(crate) fn draft_again(
    core: &mut ProxyCore,
    now: Instant,
    to: BackendId,
    tag: &Tag,
    with_cas: bool,
    key: &[u8],
    slot: u64,
) {
    let line = Line {
        with_cas,
        again: Some((tag.retries.saturating_add(1), tag.give_up)),
        ..Line::get(tag.client, tag.pool, to, tag.route)
    };
    let key = LineKey {
        prefix: None,
        key,
        hash: 0,
        slot,
    };
    add_to_draft(core, now, &line, &key);
}

/// Adds a key to the line for its server; a line that is full is sent before.
#[inline(always)]
pub(crate) fn add_to_draft(core: &mut ProxyCore, now: Instant, line: &Line, key: &LineKey<'_>) {
    let room = core.drafts.room(line, key);
    if room != Room::Yes {
        begin_draft(core, now, line, room);
    }
    core.drafts.add(line.to, key);
}

/// A copy that is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyAt {
    pub to: BackendId,
    /// What stands before the key in its name.
    pub prefix: [u8; PREFIX_LEN],
}

/// Adds a copy of the key, by the name that it has, to the line for its server.
pub(crate) fn add_copy_to_draft(
    core: &mut ProxyCore,
    now: Instant,
    line: &Line,
    key: &LineKey<'_>,
    at: &CopyAt,
) {
    let mut name = [0; KEY_LEN_MAX];
    let len = PREFIX_LEN + key.key.len();
    name[..PREFIX_LEN].copy_from_slice(&at.prefix);
    name[PREFIX_LEN..len].copy_from_slice(key.key);
    let line = Line { to: at.to, ..*line };
    let of_copy = LineKey {
        key: &name[..len],
        ..*key
    };
    add_to_draft(core, now, &line, &of_copy);
    core.drafts.note_copy(at.to);
    if let Some(client) = core.clients.get_mut(line.client) {
        client.copied_read = client.copied_read.max(Some(key.slot));
    }
    if let Some((bundled, _)) = core.pools.bundled(line.pool) {
        bundled.counts.copies_asked += 1;
    }
}

#[inline(never)]
fn begin_draft(core: &mut ProxyCore, now: Instant, line: &Line, room: Room) {
    if room == Room::Full {
        send_draft(core, now, line.client, line.pool, line.to);
    }
    core.drafts.begin(line);
}

/// Sends all lines that have been begun.
pub(crate) fn send_drafts(core: &mut ProxyCore, now: Instant, id: ClientId) {
    let mut begun = core.drafts.take_begun();
    for (pool, to) in begun.drain(..) {
        send_draft(core, now, id, pool, to);
    }
    core.drafts.keep_begun(begun);
}

fn send_draft(core: &mut ProxyCore, now: Instant, id: ClientId, pool: PoolId, to: BackendId) {
    let Some((tag, line, progress)) = core.drafts.take(now, id, pool, to) else {
        return;
    };
    match core.admit(to, line.len()) {
        Ok(to) => put(core, now, to, tag, progress, |out| {
            out.extend_from_slice(&line);
            (0, 0)
        }),
        Err(failure) => {
            let question = Question {
                tag,
                bytes: line.clone(),
                progress,
            };
            fail(core, question, &failure);
            release(core, now, id);
        }
    }
    core.drafts.keep_line(to, line);
}
