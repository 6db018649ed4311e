//! A request on its way: what is known of it, and how much of its answer has come.

use crate::ids::{ClientId, PoolId, RouteId};
use crate::route_flags::COUNT_FLAG;
use crate::stats::counters::Tally;
use core::ops::Range;
use core::{iter, mem};
use evenkeel_hotkeys::client::WriteTicket;
use evenkeel_protocol::Moved;
use evenkeel_types::{Instant, KeyHash};

/// What the answer to a request looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// One line or one value.
    Single,
    /// Any number of `VALUE`s and an `END`: `get`, `gets`, `gat`, `gats`.
    Values,
    /// The same where some of the keys are names of copies: of `get` and `gets` of an application that is to see the items.
    Copies,
    /// The same for one key of `get` or `gets` that is replicated in a pool of plain servers (`hot/`).
    Hot,
    /// Nothing or one answer, and then `MN`: a quiet command followed by `mn`, because what a quiet
    /// command hides depends on the command and on the server's version.
    Quiet,
    /// A flush. A worker of a cluster is greeted again behind it, so that it tells which map it knows.
    Flush,
}

/// Whose a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A connection of an application waits for the answer, or did when it was asked.
    Client,
    /// A step of the operation that the tag's slot names.
    Step,
    /// A step of the command between racks that the tag's slot names.
    Crossing,
    /// What a server has missed is deleted there.
    CatchUp,
    /// A copy of a hot key is stored.
    Copy,
    /// A copy is deleted behind a write; the tag's slot names which.
    Deletion,
}

/// What is known of a request besides its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    /// Whose it is.
    pub asker: Asker,
    /// The connection that waits; [`ClientId::NONE`] for requests of ours.
    pub client: ClientId,
    /// The pool it was put to.
    pub pool: PoolId,
    /// Which of the client's answers it is for; the first one if it is for several. Of a step its operation or command between racks, of a copy which.
    pub slot: u64,
    /// Placement hash of the key; of [`Ask::Values`] for one key that by which a list has distributed it.
    pub hash: KeyHash,
    pub ask: Ask,
    /// The route that it went; the first key's if it is for several.
    pub route: RouteId,
    /// Whether doing it twice is the same as doing it once, in effect and in answer.
    pub is_read: bool,
    /// Whether it asks for a replica.
    pub is_replica: bool,
    /// Whether it counts on a CAS unique that the proxy has learnt on this connection: it goes over no other.
    pub is_bound: bool,
    /// By which hash others find it who ask in the same words, while it waits to be sent; `None` if nobody may share its answer. Not
    /// an `mg` of an application: of those who ask one is told to replace a stale value.
    pub shared_by: Option<u64>,
    /// How often it was put to a place again.
    pub retries: u8,
    /// When not to try again.
    pub give_up: Instant,
    /// Of a write of a leased key whose answer tells the version.
    pub write: Option<WriteTicket>,
    /// Where in the request our own flags stand, so that they can be replaced. Empty where none do.
    pub flags: (usize, usize),
}

impl Tag {
    /// Of a request that is asked for the first time and has none of our own flags. It writes, until
    /// something else is said of it, and its key is not looked up by hash.
    #[inline]
    pub fn new(client: ClientId, pool: PoolId, slot: u64, ask: Ask, give_up: Instant) -> Self {
        Tag {
            asker: Asker::Client,
            client,
            pool,
            slot,
            hash: KeyHash(0),
            ask,
            route: RouteId::NONE,
            is_read: false,
            is_replica: false,
            is_bound: false,
            shared_by: None,
            retries: 0,
            give_up,
            write: None,
            flags: (0, 0),
        }
    }

    /// The same of a request that no application waits for.
    pub fn ours(asker: Asker, pool: PoolId, slot: u64, give_up: Instant) -> Self {
        Tag {
            asker,
            ..Tag::new(ClientId::NONE, pool, slot, Ask::Single, give_up)
        }
    }

    /// By which hash it joins an identical read, or is joined by later ones: not once it was put to a place again, unless it is of a hot
    /// key before plain servers, whose answer each of those who share it judges by his own ticket.
    #[inline]
    pub fn join_hash(&self) -> Option<u64> {
        self.shared_by
            .filter(|_| self.retries == 0 || self.ask == Ask::Hot)
    }

    /// Whether it is a read at a home, which it tells how many reads went elsewhere. One at a replica is counted already.
    #[inline]
    pub fn may_tell(&self) -> bool {
        self.is_read && !self.is_replica && self.retries == 0
    }

    /// Whether it is a read of a hot key's copy at a plain server, which goes by a name of its own.
    #[inline]
    pub fn is_of_copy(&self) -> bool {
        self.is_replica && self.ask == Ask::Hot
    }

    /// Whether the request is about keys; not so the one that a `flush_all` is to each server.
    pub fn has_key(&self) -> bool {
        self.ask != Ask::Flush
    }
}

/// A request outside of any queue.
#[derive(Debug)]
pub(crate) struct Question {
    pub tag: Tag,
    pub bytes: Vec<u8>,
    /// What the server has said before it has said all, for [`Ask::Quiet`], [`Ask::Values`] and [`Ask::Flush`].
    pub progress: Progress,
}

/// A request that is queued or awaits its answer.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub tag: Tag,
    /// Absolute position of its first byte in the queue.
    pub start: u64,
    /// Length in bytes.
    pub len: usize,
    /// When its answer is late.
    pub deadline: Instant,
    pub progress: Progress,
    /// Bytes of the answer so far, and what it says. For the log.
    pub answer_bytes: u32,
    pub outcome: Tally,
    /// How many others have joined it.
    pub joined: u32,
}

impl InFlight {
    /// Makes the answer somebody else's, too. False if a part of it is there.
    pub fn join(&mut self, client: ClientId, slot: u64) -> bool {
        match &mut self.progress {
            progress @ Progress::Nothing => {
                *progress = Progress::Shared(Box::new(vec![(client, slot)]));
            }
            Progress::Shared(others) => others.push((client, slot)),
            Progress::Answered | Progress::Moved(_) | Progress::Group(_) => return false,
        }
        self.joined += 1;
        true
    }

    /// This many more bytes of the answer have arrived, which say this.
    #[inline]
    pub fn saw(&mut self, bytes: usize, outcome: Tally) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.answer_bytes = self.answer_bytes.saturating_add(bytes);
        self.outcome = outcome;
    }
}

/// Bytes before a key of a line for several.
pub(crate) const SPACE: usize = 1;

/// The part of an answer that has arrived.
#[derive(Debug, Default)]
pub(crate) enum Progress {
    /// None of it, and there is nothing to keep in mind.
    #[default]
    Nothing,
    /// All but the `MN`.
    Answered,
    /// The request was not executed; all but the `MN` has arrived.
    Moved(Moved),
    /// A line of a multi-get.
    Group(Box<Group>),
    /// None of it, and others wait for the same: of [`Ask::Values`], [`Ask::Single`] and [`Ask::Hot`].
    Shared(Box<Others>),
}

/// The keys of one line of a multi-get.
#[derive(Debug)]
pub(crate) struct Group {
    /// In the order of the line.
    pub keys: Vec<GroupKey>,
    /// How many of them are answered already, or passed over as misses.
    pub done: usize,
    /// Where the line's last key that is done ends, or what is before the first.
    pub done_end: usize,
    /// How many were passed over.
    pub missed: usize,
    /// Slots of copies that somebody is filling.
    pub being_filled: Vec<u64>,
}

/// A key of such a line, behind one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupKey {
    /// The client's answer slot for it; ascending along the line.
    pub slot: u64,
    /// Where it ends in the line.
    pub end: u32,
    /// By which it was distributed, as far as a ring looks at it.
    pub hash: u32,
}

impl Group {
    /// The next key that is not done, and its place in the line.
    #[inline]
    pub fn next(&self) -> Option<(GroupKey, Range<usize>)> {
        let key = *self.keys.get(self.done)?;
        Some((key, self.done_end + 1..key.end as usize))
    }

    /// That key is done.
    #[inline]
    pub fn advance(&mut self) {
        if let Some(key) = self.keys.get(self.done) {
            self.done_end = key.end as usize;
            self.done += 1;
        }
    }

    /// How many keys were found, as far as is known.
    pub fn hits(&self) -> usize {
        self.done - self.missed
    }

    /// All keys of the line, done or not, each with what it is called there.
    pub fn names<'l>(&self, line: &'l [u8]) -> impl Iterator<Item = (GroupKey, &'l [u8])> {
        // Before the first key stands the command, and one space.
        let mut start = line.iter().position(|byte| *byte == b' ').unwrap_or(0);
        self.keys.iter().map(move |key| {
            let name = &line[start + 1..key.end as usize];
            start = key.end as usize;
            (*key, name)
        })
    }

    /// All keys that are not done, and their places in the line.
    pub fn left(&self) -> impl Iterator<Item = (GroupKey, Range<usize>)> {
        let mut start = self.done_end;
        self.keys[self.done..].iter().map(move |key| {
            let place = start + 1..key.end as usize;
            start = place.end;
            (*key, place)
        })
    }

    /// Their slots.
    pub fn slots_left(&self) -> impl Iterator<Item = u64> {
        self.left().map(|(key, _)| key.slot)
    }
}

/// Whose the answer to a shared get is besides the one who asked first: connections, and the places among
/// their answers.
pub(crate) type Others = Vec<(ClientId, u64)>;

impl Question {
    /// The same, asked by each for himself.
    pub fn split(mut self) -> impl Iterator<Item = Question> {
        let others = match &mut self.progress {
            Progress::Shared(others) => mem::take(&mut **others),
            _ => Others::new(),
        };
        if let Progress::Shared(_) = self.progress {
            self.progress = Progress::Nothing;
        }
        let (tag, bytes) = (self.tag, self.bytes.clone());
        let others = others.into_iter().map(move |(client, slot)| Question {
            tag: Tag {
                client,
                slot,
                ..tag
            },
            bytes: bytes.clone(),
            progress: Progress::Nothing,
        });
        iter::once(self).chain(others)
    }
}

/// A request without what tells of others that were answered: what is before that, and behind.
#[inline]
pub(crate) fn words<'r>(request: &'r [u8], tag: &Tag) -> (&'r [u8], &'r [u8]) {
    let (start, end) = tag.flags;
    let mut places = request[start..end].windows(COUNT_FLAG.len());
    let count = places.position(|place| place == COUNT_FLAG);
    let before = count.map_or(end, |count| start + count);
    (&request[..before], &request[end..])
}
