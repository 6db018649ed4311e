//! One connection of an application: its answers in the order asked, and how much more may be asked.
//!
//! Answers come from several backends in any order; the application gets them in its own. Each
//! request has a *slot* in a ring. An answer for the front slot is written straight into the output;
//! one for a later slot is composed aside and waits. A multi-get is nothing special: each key has a
//! slot, and the last one ends the list.
//!
//! ```text
//!            front                         back
//!   out <── [ waiting ][ bytes ][ waiting ][ text ]     sequence numbers never repeat
//! ```

use crate::bytes::{ByteQueue, Spare};
use crate::counts::Counts;
use crate::counts::Noted;
use crate::ids::{PoolId, RouteId};
use crate::limited::Limited;
use crate::limits::{ANSWER_RESERVE_START, PIPELINE_MAX};
use crate::pages::Visit;
use crate::pipe::in_flight::Question;
use crate::routes::RenameId;
use crate::show::kinds::Show;
use crate::stats::counters::Tally;
use core::mem;
use evenkeel_hotkeys::client::{Answer, ReadTicket};
use evenkeel_protocol::auth::{Dialect, Sasl};
use evenkeel_protocol::text;
use evenkeel_types::rooms::Rooms;
use evenkeel_types::{Instant, KeyHash, copy};
use std::collections::VecDeque;

/// Ring places that an idle connection keeps.
const RING_KEEP_MAX: usize = 64;

/// The place of an answer.
#[derive(Debug)]
pub(crate) struct Slot {
    pub show: Show,
    pub state: State,
    /// What the CSM cache of a pool knows of a read; see
    /// [`ClientLeases`](evenkeel_hotkeys::client::ClientLeases).
    pub ticket: Option<(PoolId, ReadTicket)>,
    /// What the server calls the key.
    pub rename: RenameId,
    /// The route that the request went.
    pub route: RouteId,
    /// What is recorded of it.
    pub note: Noted,
}

impl Slot {
    /// An answer about a key that goes by the same name everywhere, or about no key.
    pub fn new(show: Show, state: State) -> Self {
        Slot {
            show,
            state,
            ticket: None,
            rename: RenameId::NONE,
            route: RouteId::NONE,
            note: Noted::NONE,
        }
    }
}

impl Slot {
    /// Whether its answer is awaited.
    pub fn is_waiting(&self) -> bool {
        self.state.is_waiting()
    }
}

#[derive(Debug)]
pub(crate) enum State {
    /// Awaited from a backend.
    Waiting,
    /// Awaited from all servers; see `flushes.rs`.
    Flushing,
    /// Known from the beginning.
    Text(&'static [u8]),
    /// Arrived.
    Done(Answered),
    /// Arrived, but whether it may be shown is decided when its turn comes.
    Read(Box<HeldRead>),
    /// Everything before is the last that the application gets.
    Close,
}

/// An answer that waits for its turn.
#[derive(Debug)]
pub(crate) struct Answered {
    /// What the application gets; nothing for a miss of `get`.
    pub bytes: Vec<u8>,
    /// Whether it stands for the rest of a multi-get, too.
    pub is_error: bool,
    pub tally: Tally,
}

/// The answer to a read, and the question, which may have to be asked again.
#[derive(Debug)]
pub(crate) struct HeldRead {
    pub answered: Answered,
    pub answer: Answer,
    pub question: Question,
}

/// The rest of a multi-get of which some keys have been asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MultiGet {
    pub with_cas: bool,
    /// Of `gat` and `gats`.
    pub exptime: Option<i64>,
    /// Bytes of the line that are left, its newline included.
    pub left: usize,
}

/// Input that waits behind one request that is parked after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldBack {
    /// From when on.
    pub since: Instant,
    /// The request before the next one was parked, too, or would have been.
    pub goes_on: bool,
}

impl HeldBack {
    pub fn since(since: Instant) -> Self {
        HeldBack {
            since,
            goes_on: false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Client {
    out: ByteQueue,
    ring: VecDeque<Slot>,
    /// Sequence number of the front of the ring.
    first: u64,
    /// Slots that wait for a backend.
    waiting: usize,
    /// Bytes of composed answers that wait for their turn.
    held: usize,
    /// Size of the largest recent answer; see [`ANSWER_RESERVE_START`].
    reserve: usize,
    /// The core's era in which the requests under way were routed.
    pub era: u64,
    /// Requests that wait until their key's move is over, and flushes of which others may have to wait.
    pub parked: usize,
    /// Input that waits, or has waited, behind such requests.
    pub held_back: Option<HeldBack>,
    /// The slot of a write whose server is far behind: see `under_way/pace.rs`.
    pub paced_by: Option<u64>,
    /// The slots of the last write of a pool that keeps copies, and of the last key that was asked at a copy.
    pub copied_write: Option<u64>,
    pub copied_read: Option<u64>,
    /// What it speaks.
    pub dialect: Dialect,
    /// How far it has come with SASL.
    pub sasl: Sasl,
    /// Which page its application makes; `None` while no requests are recorded.
    pub visit: Option<Box<Visit>>,
    /// Whether servers have been found out about for it; see `request/capability.rs`.
    pub knows_servers: bool,
    /// The error that takes the place of `END` in the multi-get whose keys are being shown.
    pub get_failure: Option<Vec<u8>>,
    pub multi_get: Option<MultiGet>,
    /// Multi-gets with a limit whose end is awaited, and whether one of them goes on.
    pub limited: Vec<Limited>,
    pub limited_ripe: bool,
    /// Bytes of a refused value that are still to be dropped as they arrive.
    pub swallow: usize,
    /// Do not parse before this many bytes are there.
    pub need: usize,
    /// The peer will send no more.
    pub ended: bool,
    /// No further request is read.
    pub refuses_input: bool,
    /// Closed once everything is written.
    pub closing: bool,
    /// There is input that waits for answers or for room.
    pub stalled: bool,
    pub feed_queued: bool,
    pub write_queued: bool,
}

impl Client {
    pub fn new(dialect: Dialect, sasl: Sasl) -> Self {
        Client {
            out: ByteQueue::default(),
            ring: VecDeque::new(),
            first: 0,
            waiting: 0,
            held: 0,
            reserve: ANSWER_RESERVE_START,
            era: 0,
            parked: 0,
            held_back: None,
            paced_by: None,
            copied_write: None,
            copied_read: None,
            dialect,
            sasl,
            visit: None,
            knows_servers: false,
            get_failure: None,
            multi_get: None,
            limited: Vec::new(),
            limited_ripe: false,
            swallow: 0,
            need: 0,
            ended: false,
            refuses_input: false,
            closing: false,
            stalled: false,
            feed_queued: false,
            write_queued: false,
        }
    }

    /// Whether another request may be sent in this era.
    ///
    /// Requests under way by an older map or configuration, or to keys on the move, are waited for: a
    /// write to the former home of a key, or one that is turned away there and sent on to the new one,
    /// must not be overtaken by what the application asked after it. So is a write whose server is far behind (`under_way/pace.rs`).
    /// `pause` is how many bytes may be unread.
    #[inline(always)]
    pub fn may_ask(&self, era: u64, pause: usize) -> bool {
        if self.parked > 0
            || self.waiting > 0
                && (self.era != era || self.paced_by.is_some_and(|slot| self.is_paced_by(slot)))
        {
            return false;
        }
        let expected = match self.waiting {
            0 => 0,
            waiting => (waiting + 1) * self.reserve,
        };
        self.ring.len() < PIPELINE_MAX && self.unread() + expected <= pause
    }

    /// Whether nothing is asked because of that write, which is still to be answered.
    pub fn is_paced_by(&self, slot: u64) -> bool {
        let place = slot.checked_sub(self.first);
        let slot_there = place.and_then(|place| self.ring.get(place as usize));
        self.paced_by == Some(slot) && slot_there.is_some_and(|there| there.state.is_waiting())
    }

    /// Whether a write is under way behind which copies are deleted, or would be.
    pub fn awaits_copied_write(&self) -> bool {
        self.awaits_until(self.copied_write)
    }

    /// Whether a key is awaited that was asked at a copy, and may be asked at home yet.
    pub fn awaits_copied_read(&self) -> bool {
        self.awaits_until(self.copied_read)
    }

    /// Whether anything up to this slot is awaited. O(slots).
    fn awaits_until(&self, last: Option<u64>) -> bool {
        last.is_some_and(|slot| slot >= self.first && self.awaits_before(slot + 1))
    }

    /// Whether this many requests may be sent one after the other, the first of which may:
    /// [`Client::may_ask`] would say so before each.
    #[inline]
    pub fn may_ask_all(&self, count: usize, pause: usize) -> bool {
        let expected = (self.waiting + count).saturating_mul(self.reserve);
        self.ring.len() + count <= PIPELINE_MAX && self.unread() + expected <= pause
    }

    /// Bytes of answers that the application has not read, those that wait for their turn included.
    #[inline]
    pub fn unread(&self) -> usize {
        self.out.len() + self.held
    }

    /// Bytes of memory that hold them.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.out.held_bytes() + self.held
    }

    /// Bytes for the driver to write.
    pub fn output(&self) -> &[u8] {
        self.out.as_slice()
    }

    /// The driver wrote `count` bytes.
    pub fn wrote(&mut self, count: usize, rooms: &mut Rooms) {
        self.out.consume(count);
        self.out.give_back(rooms);
    }

    /// Where the front slot's answer goes.
    #[inline]
    pub fn out(&mut self) -> &mut Vec<u8> {
        self.out.tail()
    }

    /// Whether all answers that were asked for are in the output.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.ring.is_empty()
    }

    /// Makes room for an answer at the back.
    #[inline]
    pub fn push(&mut self, slot: Slot) -> u64 {
        if slot.state.is_waiting() {
            self.waiting += 1;
        }
        self.held += slot.state.held();
        self.ring.push_back(slot);
        self.first + self.ring.len() as u64 - 1
    }

    /// Makes room for the answer to a `get` of one key.
    #[inline]
    pub fn push_key(&mut self, rename: RenameId, route: RouteId, note: Noted) -> u64 {
        let show = Show::Value {
            with_cas: false,
            last: true,
        };
        self.waiting += 1;
        self.ring.push_back(Slot {
            rename,
            route,
            note,
            ..Slot::new(show, State::Waiting)
        });
        self.first + self.ring.len() as u64 - 1
    }

    /// Makes room for the answer to a `get` of several keys, which are called so, go these routes and have these notes. Returns the
    /// first one's place.
    #[inline]
    pub fn push_keys(
        &mut self,
        keys: impl ExactSizeIterator<Item = (RenameId, RouteId, Noted)>,
    ) -> u64 {
        let first = self.first + self.ring.len() as u64;
        let count = keys.len();
        self.waiting += count;
        self.ring
            .extend(keys.zip(1..).map(|((rename, route, note), nth)| {
                let show = Show::Value {
                    with_cas: false,
                    last: nth == count,
                };
                Slot {
                    rename,
                    route,
                    note,
                    ..Slot::new(show, State::Waiting)
                }
            }));
        first
    }

    #[inline]
    pub fn slot(&mut self, sequence: u64) -> Option<&mut Slot> {
        let index = sequence.checked_sub(self.first)?;
        self.ring.get_mut(usize::try_from(index).ok()?)
    }

    /// The reads that will never be shown to anybody, because the connection is gone.
    pub fn into_tickets(self) -> impl Iterator<Item = (PoolId, ReadTicket)> {
        self.ring.into_iter().filter_map(|slot| slot.ticket)
    }

    /// The slots, from the front.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.ring.iter()
    }

    /// The slots, from the front.
    pub fn slots_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.ring.iter_mut()
    }

    /// Whether a read of the key that the CSM cache of a pool knows of has not been shown. O(slots).
    pub fn reads(&self, hash: KeyHash) -> bool {
        let mut tickets = self.ring.iter().filter_map(|slot| slot.ticket.as_ref());
        tickets.any(|(_, ticket)| ticket.hash() == hash)
    }

    #[inline]
    pub fn is_front(&self, sequence: u64) -> bool {
        sequence == self.first && !self.ring.is_empty()
    }

    /// Moves a slot that waits to another state and keeps count. A slot that has its answer keeps it: the application did not wait for this one.
    pub fn set_state(&mut self, sequence: u64, state: State) {
        let (waits, holds, tally) = (state.is_waiting(), state.held(), state.tally());
        let Some(slot) = self.slot(sequence).filter(|it| it.state.is_waiting()) else {
            return;
        };
        slot.state = state;
        self.held += holds;
        if !waits {
            self.waiting -= 1;
            self.heard(sequence, tally);
        }
    }

    /// An error that befell a key is not told.
    pub fn forgive(&mut self, sequence: u64) {
        let answered = match self.slot(sequence).map(|slot| &mut slot.state) {
            Some(State::Done(answered)) => answered,
            Some(State::Read(read)) => &mut read.answered,
            _ => return,
        };
        if mem::take(&mut answered.is_error) {
            let told = mem::take(&mut answered.bytes);
            self.held -= told.len();
        }
    }

    /// The answer to what has this slot has come.
    #[inline]
    fn heard(&mut self, sequence: u64, tally: Option<Tally>) {
        if !self.limited.is_empty() {
            self.heard_of_limited(sequence, tally == Some(Tally::GetHit));
        }
    }

    /// Keeps an answer that was awaited from one server for its turn.
    #[inline]
    pub fn hold(&mut self, sequence: u64, answered: Answered) {
        let (held, tally) = (answered.bytes.len(), answered.tally);
        if let Some(slot) = self.slot(sequence)
            && let State::Waiting = slot.state
        {
            slot.state = State::Done(answered);
            self.waiting -= 1;
            self.held += held;
            self.heard(sequence, Some(tally));
        }
    }

    /// Whether anything that was asked before this is still awaited.
    pub fn awaits_before(&self, sequence: u64) -> bool {
        let before = sequence.saturating_sub(self.first);
        let before = usize::try_from(before).unwrap_or(usize::MAX);
        let mut earlier = self.ring.iter().take(before);
        earlier.any(|slot| slot.state.is_waiting())
    }

    /// Gives up the front slot, whose answer was awaited from one server and is shown.
    #[inline]
    pub fn pop_shown(&mut self) {
        if let Some(Slot { state, .. }) = self.ring.pop_front() {
            debug_assert!(matches!(state, State::Waiting));
            self.first += 1;
            self.waiting -= 1;
            self.shrink();
        }
    }

    #[inline]
    fn shrink(&mut self) {
        if self.ring.is_empty() && self.ring.capacity() > RING_KEEP_MAX {
            self.ring = VecDeque::new();
        }
    }

    /// Takes the front slot out.
    #[inline]
    pub fn pop(&mut self) -> Option<Slot> {
        let slot = self.ring.pop_front()?;
        self.first += 1;
        self.waiting -= usize::from(slot.state.is_waiting());
        self.held -= slot.state.held();
        self.shrink();
        Some(slot)
    }

    /// Takes the front slot out if its answer is there.
    pub fn pop_answered(&mut self) -> Option<Slot> {
        if self.ring.front()?.state.is_waiting() {
            return None;
        }
        self.pop()
    }

    /// Puts a slot back to the front.
    pub fn unpop(&mut self, slot: Slot) {
        self.first -= 1;
        self.waiting += usize::from(slot.state.is_waiting());
        self.held += slot.state.held();
        self.ring.push_front(slot);
    }

    /// Shows an answer whose turn has come and whose slot is given up. Returns the buffer.
    pub fn show(&mut self, shown_as: Show, answered: Answered) -> Vec<u8> {
        if !matches!(shown_as, Show::Value { .. }) {
            copy::append(self.out.tail(), &answered.bytes);
            return answered.bytes;
        }
        let bytes = if answered.is_error {
            self.get_failure.get_or_insert(answered.bytes);
            Vec::new()
        } else {
            copy::append(self.out.tail(), &answered.bytes);
            answered.bytes
        };
        self.end_key(shown_as);
        bytes
    }

    /// Shows the values and misses that are at the front, and keeps their buffers.
    #[inline]
    pub fn show_values(&mut self, counts: &mut Counts, spare: &mut Spare) {
        while let Some(Slot {
            show: show @ Show::Value { .. },
            state: State::Done(answered),
            route,
            note,
            ..
        }) = self.ring.front_mut()
            && !answered.is_error
        {
            let (show, bytes) = (*show, mem::take(&mut answered.bytes));
            counts.shown(*route, *note, answered.tally, bytes.len());
            self.held -= bytes.len();
            copy::append(self.out.tail(), &bytes);
            spare.keep(bytes);
            self.ring.pop_front();
            self.first += 1;
            self.end_key(show);
        }
        self.shrink();
    }

    /// Whether there is anything to do for it but writing its output: answers whose turn has come,
    /// requests that may go on, an end.
    #[inline]
    pub fn has_more_to_do(&self) -> bool {
        let front = self.ring.front();
        front.is_some_and(|slot| !slot.state.is_waiting())
            || self.stalled
            || self.closing
            || self.parked > 0
            || self.limited_ripe
    }

    /// A key of a multi-get was shown: the last one is followed by `END`, or by the error that befell
    /// one of them, as memcached itself does when it cannot go on.
    #[inline]
    pub fn end_key(&mut self, shown_as: Show) {
        if let Show::Value { last: true, .. } = shown_as {
            match self.get_failure.take() {
                Some(line) => self.out.tail().extend_from_slice(&line),
                None => self.out.tail().extend_from_slice(text::END),
            }
        }
    }

    /// An answer of that many bytes has arrived.
    #[inline]
    pub fn saw_answer(&mut self, len: usize) {
        self.reserve = len.max(self.reserve - self.reserve / 8);
    }
}

impl Answered {
    /// A key that is not there, or anything else that is not shown.
    pub fn miss() -> Self {
        Answered {
            bytes: Vec::new(),
            is_error: false,
            tally: Tally::GetMiss,
        }
    }

    /// An error line of a server.
    pub fn refused(line: Vec<u8>) -> Self {
        Answered {
            tally: Tally::Refused,
            ..Answered::error(line)
        }
    }

    /// An error line of the proxy.
    pub fn error(line: Vec<u8>) -> Self {
        Answered {
            bytes: line,
            is_error: true,
            tally: Tally::Failed,
        }
    }
}

impl State {
    /// What an answer that is there counts as.
    #[inline]
    pub fn tally(&self) -> Option<Tally> {
        match self {
            State::Done(answered) => Some(answered.tally),
            State::Read(read) => Some(read.answered.tally),
            State::Waiting | State::Flushing | State::Text(_) | State::Close => None,
        }
    }

    #[inline]
    pub fn is_waiting(&self) -> bool {
        matches!(self, State::Waiting | State::Flushing)
    }

    #[inline]
    fn held(&self) -> usize {
        match self {
            State::Done(answered) => answered.bytes.len(),
            State::Read(read) => read.answered.bytes.len() + read.question.bytes.len(),
            State::Waiting | State::Flushing | State::Text(_) | State::Close => 0,
        }
    }
}
