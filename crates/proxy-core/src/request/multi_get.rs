//! `get`, `gets`, `gat` and `gats`, with one key or ten thousand.
//!
//! Each key has a slot of its own among the client's answers, so that values come back in the order
//! asked wherever they came from; the last slot ends the list. A line with more keys than may be
//! under way is done in parts: what is done is consumed from the input, and the rest of the line
//! waits there for its turn.
//!
//! An Evenkeel worker is asked key by key, since each answer may carry a lease. Other servers are
//! asked with one line for all their keys, in the order of the request; servers answer in that order
//! and leave out what they do not have, so the gaps in an answer are the misses.

use crate::client::{MultiGet, Show, Slot, State};
use crate::limits::GROUP_LINE_MAX;
use crate::pipe::in_flight::{Ask, Group, GroupKey, Progress, Question, Tag};
use crate::pool::{PoolId, Servers};
use crate::request::question::{Draft, Intent};
use crate::request::way::{WayKey, WayTo};
use crate::routes::CommandClass;
use crate::stats::per_route::RouteId;
use crate::{BackendId, ClientId, ProxyCore};
use core::mem;
use evenkeel_protocol::SentKey;
use evenkeel_protocol::compose::number;
use evenkeel_protocol::compose::request as ask;
use evenkeel_protocol::next_word;
use evenkeel_protocol::text;
use evenkeel_types::Instant;

/// The line for one server while the keys of a multi-get are dealt out.
#[derive(Debug)]
pub(crate) struct GroupDraft {
    line: Vec<u8>,
    keys: Vec<GroupKey>,
    /// Where the command before the keys ends.
    command_end: usize,
    /// Of `gat` and `gats`, which have one for all keys of a line.
    exptime: Option<i64>,
    /// The first key's.
    route: RouteId,
    /// How often the keys were put to a server before, and when they are given up.
    again: Option<(u8, Instant)>,
}

/// What a key is asked for with, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    client: ClientId,
    pool: PoolId,
    to: BackendId,
    route: RouteId,
    with_cas: bool,
    exptime: Option<i64>,
    again: Option<(u8, Instant)>,
}

impl Default for GroupDraft {
    fn default() -> Self {
        GroupDraft {
            line: Vec::new(),
            keys: Vec::new(),
            command_end: 0,
            exptime: None,
            route: RouteId::NONE,
            again: None,
        }
    }
}

impl Line {
    /// Of a `get`, for the first time.
    #[inline]
    pub fn get(client: ClientId, pool: PoolId, to: BackendId, route: RouteId) -> Self {
        Line {
            client,
            pool,
            to,
            route,
            with_cas: false,
            exptime: None,
            again: None,
        }
    }
}

/// A line without its newline.
pub(crate) fn without_newline(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The key of a `get` or `gets` of one, as such a line is composed here.
#[inline]
pub(crate) fn key_of_get(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(text::CRLF)?;
    line.strip_prefix(b"get ")
        .or_else(|| line.strip_prefix(b"gets "))
}

impl ProxyCore {
    /// Asks for as many keys of the line as may be under way; `input` begins with what is left of
    /// it. At least one may be. Returns how many bytes are done with.
    pub(crate) fn go_on_with_keys(
        &mut self,
        now: Instant,
        id: ClientId,
        rest: MultiGet,
        input: &[u8],
    ) -> usize {
        let line = without_newline(&input[..rest.left]);
        let era = self.era;
        let mut done = 0;
        let mut next = next_word(line, 0);
        while let Some(key) = next {
            let Some(client) = self.clients.get_mut(id.0) else {
                break;
            };
            if done > 0 && !client.may_ask(era, self.out_pause) {
                client.multi_get = Some(MultiGet {
                    left: rest.left - done,
                    ..rest
                });
                self.send_drafts(now, id);
                return done;
            }
            next = next_word(line, key.end);
            done = key.end;
            self.ask_key(now, id, rest, &line[key], next.is_none());
        }
        if let Some(client) = self.clients.get_mut(id.0) {
            client.multi_get = None;
        }
        self.send_drafts(now, id);
        rest.left
    }

    fn ask_key(&mut self, now: Instant, id: ClientId, rest: MultiGet, key: &[u8], last: bool) {
        self.stats.cmd_get += 1;
        self.stats.cmd_touch += u64::from(rest.exptime.is_some());
        let show = Show::Value {
            with_cas: rest.with_cas,
            last,
        };
        let class = match rest.exptime {
            Some(_) => CommandClass::Touch,
            None => CommandClass::Get,
        };
        let key = SentKey::plain(key);
        self.on_way(now, id, key, class, show, |core, way, key| {
            let exptime = rest.exptime.map(|exptime| core.bounded(way, exptime));
            let rest = MultiGet { exptime, ..rest };
            if way.as_meta {
                core.ask_for_key(now, id, rest, way, key, show);
            } else {
                core.draft_key(now, id, rest, way, key, show);
            }
        });
    }

    /// Asks an Evenkeel worker for a key.
    fn ask_for_key(
        &mut self,
        now: Instant,
        id: ClientId,
        rest: MultiGet,
        way: &WayTo,
        key: WayKey<'_>,
        show: Show,
    ) {
        let intent = match rest.exptime {
            Some(_) => Intent::ReadAndWrite,
            None => Intent::Read,
        };
        let draft = Draft {
            show,
            ..Draft::line(id, way, key, intent)
        };
        self.ask_new(now, &draft, |out, route| {
            // `A`: a classic command takes no part in recaching.
            let line = ask::meta_get(out, key.sent)
                .flag(b'v')
                .flag(b'f')
                .flag(b'c')
                .flag(b'A');
            let line = match rest.exptime {
                Some(exptime) => line.number(b'T', exptime),
                None => line,
            };
            line.raw(route).end();
        });
    }

    /// Adds a key to the line for its server.
    pub(crate) fn draft_key(
        &mut self,
        now: Instant,
        id: ClientId,
        rest: MultiGet,
        way: &WayTo,
        key: WayKey<'_>,
        show: Show,
    ) {
        if self.watches && self.ask_hot_key(now, id, rest, way, key, show) {
            return;
        }
        let servers = self.pools.get(way.pool.0).map(|pool| &pool.servers);
        let Some(Servers::Memcached(pool)) = servers else {
            return;
        };
        let to = way.place.unwrap_or_else(|| pool.home(key.stored));
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        let slot = client.push(Slot {
            rename: way.rename,
            route: way.route,
            ..Slot::new(show, State::Waiting)
        });
        let line = Line {
            with_cas: rest.with_cas,
            exptime: rest.exptime,
            ..Line::get(id, way.pool, to, way.route)
        };
        self.add_to_draft(now, &line, key.stored, slot);
    }

    /// Adds a key that was asked for before, and has a slot, to the line for another server.
    pub(crate) fn draft_again(
        &mut self,
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
        self.add_to_draft(now, &line, key, slot);
    }

    #[inline]
    pub(crate) fn add_to_draft(&mut self, now: Instant, line: &Line, key: &[u8], slot: u64) {
        let Line { pool, to, .. } = *line;
        let place = to.0.slot as usize;
        let fits = |draft: &GroupDraft| {
            draft.line.len() + 1 + key.len() <= GROUP_LINE_MAX && draft.exptime == line.exptime
        };
        match self.drafts.get(place) {
            Some(draft) if !draft.keys.is_empty() && fits(draft) => {}
            draft => {
                if draft.is_some_and(|draft| !draft.keys.is_empty()) {
                    self.send_draft(now, line.client, pool, to);
                }
                self.begin_draft(line);
            }
        }
        let draft = &mut self.drafts[place];
        draft.line.push(b' ');
        draft.line.extend_from_slice(key);
        draft.keys.push(GroupKey {
            slot,
            end: draft.line.len() as u32,
        });
    }

    fn begin_draft(&mut self, line: &Line) {
        let place = line.to.0.slot as usize;
        if self.drafts.len() <= place {
            self.drafts.resize_with(place + 1, GroupDraft::default);
        }
        let draft = &mut self.drafts[place];
        begin_line(&mut draft.line, line.with_cas, line.exptime);
        draft.command_end = draft.line.len();
        draft.exptime = line.exptime;
        draft.route = line.route;
        draft.again = line.again;
        self.drafted.push((line.pool, line.to));
    }

    pub(crate) fn send_drafts(&mut self, now: Instant, id: ClientId) {
        let mut drafted = mem::take(&mut self.drafted);
        for (pool, to) in drafted.drain(..) {
            self.send_draft(now, id, pool, to);
        }
        self.drafted = drafted;
    }

    fn send_draft(&mut self, now: Instant, id: ClientId, pool: PoolId, to: BackendId) {
        let place = to.0.slot as usize;
        let draft = &mut self.drafts[place];
        let Some(&first) = draft.keys.first() else {
            return;
        };
        draft.line.extend_from_slice(text::CRLF);
        let mut line = mem::take(&mut draft.line);
        let count = draft.keys.len();
        let progress = if count > 1 {
            Progress::Group(Box::new(Group {
                // The next line has about as many.
                keys: mem::replace(&mut draft.keys, Vec::with_capacity(count)),
                done: 0,
                missed: 0,
                done_end: draft.command_end,
            }))
        } else {
            draft.keys.clear();
            Progress::Nothing
        };
        let tag = Tag {
            route: draft.route,
            is_read: draft.exptime.is_none(),
            retries: draft.again.map_or(0, |(retries, _)| retries),
            ..Tag::new(
                id,
                pool,
                first.slot,
                Ask::Values,
                draft.again.map_or(now, |(_, give_up)| give_up),
            )
        };
        match self.admit(to, line.len()) {
            Ok(to) => self.put(now, to, tag, progress, |out| {
                out.extend_from_slice(&line);
                (0, 0)
            }),
            Err(failure) => {
                self.fail(
                    Question {
                        tag,
                        bytes: line.clone(),
                        progress,
                    },
                    &failure,
                );
                self.release(now, id);
            }
        }
        line.clear();
        self.drafts[place].line = line;
    }
}

fn begin_line(line: &mut Vec<u8>, with_cas: bool, exptime: Option<i64>) {
    line.extend_from_slice(match (exptime.is_some(), with_cas) {
        (false, false) => b"get",
        (false, true) => b"gets",
        (true, false) => b"gat ",
        (true, true) => b"gats ",
    });
    if let Some(exptime) = exptime {
        number(line, exptime);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_stands_between_spaces() {
        let line = b"  a\tb  c ";
        let mut keys = Vec::new();
        let mut at = 0;
        while let Some(key) = next_word(line, at) {
            at = key.end;
            keys.push(&line[key]);
        }
        assert_eq!(keys, [b"a\tb".as_slice(), b"c"]);
        assert_eq!(next_word(b"", 0), None);
        assert_eq!(next_word(b"ab", 2), None);
        assert_eq!(without_newline(b"a\r\n"), b"a");
        assert_eq!(without_newline(b"a\n"), b"a");
    }

    #[test]
    fn lines_begin_as_they_were_asked() {
        let begin = |with_cas, exptime| {
            let mut line = Vec::new();
            begin_line(&mut line, with_cas, exptime);
            String::from_utf8(line).unwrap()
        };
        assert_eq!(begin(false, None), "get");
        assert_eq!(begin(true, None), "gets");
        assert_eq!(begin(false, Some(-1)), "gat -1");
        assert_eq!(begin(true, Some(60)), "gats 60");
    }
}
