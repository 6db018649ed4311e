//! The lines of a multi-get under construction, one for each server.

use crate::ids::{BackendId, ClientId, PoolId, RouteId};
use crate::limits::GROUP_LINE_MAX;
use crate::pipe::in_flight::{Ask, Group, GroupKey, Progress, Tag};
use core::mem;
use evenkeel_protocol::compose::number;
use evenkeel_protocol::text;
use evenkeel_schemes::generation::PREFIX_LEN;
use evenkeel_types::{Instant, KeyHash};

/// The line for one server while the keys of a multi-get are distributed.
#[derive(Debug)]
struct GroupDraft {
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
    /// Some of the keys are names of copies.
    has_copies: bool,
}

/// A key for such a line, whose answer goes into a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineKey<'k> {
    /// What stands before it, where servers know it by a name.
    pub prefix: Option<&'k [u8; PREFIX_LEN]>,
    pub key: &'k [u8],
    /// By which it was distributed, as far as a ring looks at it.
    pub hash: u32,
    pub slot: u64,
}

impl LineKey<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.prefix.map_or(0, |prefix| prefix.len()) + self.key.len()
    }
}

/// What a key is asked for with, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub client: ClientId,
    pub pool: PoolId,
    pub to: BackendId,
    pub route: RouteId,
    pub with_cas: bool,
    /// Of `gat` and `gats`.
    pub exptime: Option<i64>,
    /// Of a key that was asked for before: how often, and when it is given up.
    pub again: Option<(u8, Instant)>,
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
            has_copies: false,
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

/// Whether a key has a place in the line for its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Yes,
    /// The line has to be sent, and another begun.
    Full,
    /// There is no line yet.
    NotBegun,
}

/// The lines of a multi-get under construction.
#[derive(Debug, Default)]
pub(crate) struct Drafts {
    /// By position of the backend.
    lines: Vec<GroupDraft>,
    /// Which of them have been begun.
    begun: Vec<(PoolId, BackendId)>,
}

impl Drafts {
    /// Whether the key has a place in the line for its server.
    #[inline]
    pub fn room(&self, line: &Line, key: &LineKey<'_>) -> Room {
        match self.lines.get(line.to.0.slot as usize) {
            None => Room::NotBegun,
            Some(draft) if draft.keys.is_empty() => Room::NotBegun,
            Some(draft)
                if draft.line.len() + 1 + key.len() <= GROUP_LINE_MAX
                    && draft.exptime == line.exptime =>
            {
                Room::Yes
            }
            Some(_) => Room::Full,
        }
    }

    /// Begins the line for a server.
    pub fn begin(&mut self, line: &Line) {
        let place = line.to.0.slot as usize;
        if self.lines.len() <= place {
            self.lines.resize_with(place + 1, GroupDraft::default);
        }
        let draft = &mut self.lines[place];
        begin_line(&mut draft.line, line.with_cas, line.exptime);
        draft.command_end = draft.line.len();
        draft.exptime = line.exptime;
        draft.route = line.route;
        draft.again = line.again;
        draft.has_copies = false;
        self.begun.push((line.pool, line.to));
    }

    /// Adds a key, for which there is room, to the line for its server.
    #[inline(always)]
    pub fn add(&mut self, to: BackendId, key: &LineKey<'_>) {
        let draft = &mut self.lines[to.0.slot as usize];
        draft.line.push(b' ');
        if let Some(prefix) = key.prefix {
            draft.line.extend_from_slice(prefix);
        }
        draft.line.extend_from_slice(key.key);
        draft.keys.push(GroupKey {
            slot: key.slot,
            end: draft.line.len() as u32,
            hash: key.hash,
        });
    }

    /// The key that was added last to the line for a server is the name of a copy.
    pub fn note_copy(&mut self, to: BackendId) {
        self.lines[to.0.slot as usize].has_copies = true;
    }

    /// How many lines have been begun.
    pub fn begun(&self) -> usize {
        self.begun.len()
    }

    /// Where the lines go that have been begun; [`Drafts::keep_begun`] must follow.
    pub fn take_begun(&mut self) -> Vec<(PoolId, BackendId)> {
        mem::take(&mut self.begun)
    }

    /// Keeps the memory of an emptied list.
    pub fn keep_begun(&mut self, emptied: Vec<(PoolId, BackendId)>) {
        debug_assert!(emptied.is_empty() && self.begun.is_empty());
        self.begun = emptied;
    }

    /// Takes out the line for a server, which is asked now for this client; [`Drafts::keep_line`] must follow. `None` if there is none.
    pub fn take(
        &mut self,
        now: Instant,
        client: ClientId,
        pool: PoolId,
        to: BackendId,
    ) -> Option<(Tag, Vec<u8>, Progress)> {
        let draft = &mut self.lines[to.0.slot as usize];
        let &first = draft.keys.first()?;
        draft.line.extend_from_slice(text::CRLF);
        let count = draft.keys.len();
        let progress = if count > 1 || draft.has_copies {
            Progress::Group(Box::new(Group {
                // The next line has about as many.
                keys: mem::replace(&mut draft.keys, Vec::with_capacity(count)),
                done: 0,
                missed: 0,
                being_filled: Vec::new(),
                done_end: draft.command_end,
            }))
        } else {
            draft.keys.clear();
            Progress::Nothing
        };
        let (retries, give_up) = draft.again.unwrap_or((0, now));
        let ask = match draft.has_copies {
            true => Ask::Copies,
            false => Ask::Values,
        };
        let tag = Tag {
            hash: KeyHash(first.hash.into()),
            route: draft.route,
            is_read: draft.exptime.is_none(),
            retries,
            ..Tag::new(client, pool, first.slot, ask, give_up)
        };
        Some((tag, mem::take(&mut draft.line), progress))
    }

    /// Keeps the memory of a line that was sent.
    pub fn keep_line(&mut self, to: BackendId, mut line: Vec<u8>) {
        line.clear();
        self.lines[to.0.slot as usize].line = line;
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
