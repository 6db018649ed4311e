//! One connection as a worker sees it: what it agreed to, and its answers in the order asked.
//!
//! Most answers are written straight into `out`. Only when a command had to travel to another worker do
//! later answers wait for earlier ones: see [`in_order`](crate::session::in_order).

pub(crate) mod address;
pub(crate) mod connections;
pub(crate) mod elsewhere;
pub(crate) mod in_order;
pub(crate) mod listing;
pub(crate) mod marks;

use crate::session::elsewhere::Elsewhere;
use address::{ReturnAddress, Ticket};
use in_order::InOrder;

use crate::session::listing::Listing;
use crate::session::marks::Marks;
use crate::shard::share::Share;
pub use address::ConnectionId;
use core::net::SocketAddr;
use evenkeel_protocol::auth::{AuthMode, Dialect, Protocols, Sasl, opening};
use evenkeel_protocol::binary::{Echo, wording};
use evenkeel_protocol::text;
use evenkeel_types::{Epoch, Instant};

/// Above this many bytes of unread answers a connection's commands wait (back-pressure).
pub const OUT_PAUSE: usize = 1 << 20;

/// An answer larger than this, in bytes, narrows how many a connection may await: those that follow
/// may be as large. While there is no memory for answers, values larger than this wait for some.
pub const LARGE_ANSWER: usize = 64 << 10;

/// An output buffer of which less than one part in this many is in use gives the rest back.
const SPARSE: usize = 4;

/// While there is memory, an output buffer that is not larger than this keeps it.
const OUT_KEEP_MAX: usize = 64 * 1024;

/// Most answers that a connection may await from other workers before its commands wait, however
/// small the items.
pub const AWAITED_MAX: usize = 1024;

/// Fewest answers that a connection may await, however large the items.
const AWAITED_MIN: usize = 8;

/// Most bytes that awaited answers may bring at once, in the worst case of the largest items.
const AWAITED_BYTES: usize = 32 << 20;

/// How many answers a connection may await when an item may have this many bytes (`-I`).
pub fn awaited_limit(item_size_max: usize) -> usize {
    (AWAITED_BYTES / item_size_max.max(1)).clamp(AWAITED_MIN, AWAITED_MAX)
}

/// What a port is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Port {
    /// One worker's own: clients that know the map, and other servers.
    #[default]
    Worker,
    /// For anybody: what only servers say is refused there.
    Ordinary,
}

/// What a listener knows of who connected, before anything was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its TCP address; `None` for a unix socket.
    pub address: Option<SocketAddr>,
    /// What the port is for that it came to.
    pub port: Port,
    /// Which listener of the process it came by, in the order in which they are shown.
    pub listener: usize,
    /// What its listener lets it speak.
    pub protocols: Protocols,
}

/// What is added to what a connection holds before it is compared with its limits; zeros but for a
/// server that is short of memory.
#[derive(Clone, Copy, Debug, Default)]
struct Tight {
    out: usize,
    awaited: usize,
}

/// The state of one connection.
#[derive(Debug, Default)]
pub struct Session {
    /// Its name, given when it is opened.
    pub(crate) id: ConnectionId,
    /// Who connected.
    pub peer: Peer,
    /// Answers ready to be written, in order, behind those that are written already: see
    /// [`Session::output`].
    pub out: Vec<u8>,
    /// How many bytes of `out` are written. Invariant: at most half of it, so that none is moved more
    /// than once on average.
    out_written: usize,
    /// Bytes of earlier answers that the driver has taken out of `out` and not written yet.
    taken: usize,
    /// Bytes of memory that hold them.
    taken_capacity: usize,
    /// Answers that are awaited from other workers, and what waits behind them.
    order: InOrder,
    /// How many are awaited.
    awaited: usize,
    /// See [`awaited_limit`].
    awaited_limit: usize,
    /// By how much the limit is narrowed, because the last answers were large.
    awaited_narrowed: usize,
    /// Short of memory: see [`Session::set_room`].
    tight: Tight,
    /// Its next command is answered with a large value, for which there is no memory.
    pub lacks_room: bool,
    /// Its client has read a large answer to its end, so that it may have memory which is not for everybody.
    pub reads_well: bool,
    /// Bytes of a refused value that are still to be dropped as they arrive.
    pub swallow: usize,
    /// Do not parse again before this many bytes are there.
    pub need: usize,
    /// Keys of the multi-get at the front of the input that are already answered.
    pub keys_done: usize,
    /// One of the keys of the classic get that is being answered is not this server's.
    pub elsewhere: Option<Elsewhere>,
    /// What it speaks.
    pub dialect: Dialect,
    /// How far it has come with SASL.
    pub sasl: Sasl,
    /// The list of items at the front of the input, as far as it has come.
    pub list: Option<Box<Listing>>,
    /// It is told what happens, and not listened to.
    pub watching: bool,
    /// When its last bytes came.
    pub heard_at: Instant,
    /// See [`Session::hold`]: the limit of awaited answers meanwhile.
    held: Option<usize>,
    /// The client opened with the extension's hello.
    pub agreed: bool,
    /// Epoch of the map that an agreed client named in its latest hello.
    pub epoch: Epoch,
    /// The wording of answers that are awaited from now on; see [`Session::answer_in_binary`].
    wording: Option<Echo>,
    /// Cachelets for which requests were not executed, because they are another worker's.
    pub marks: Marks,
    /// No further command is read; closed once everything is written.
    pub closing: bool,
}

impl Session {
    /// A connection that may await this many answers from other workers at a time.
    pub fn new(peer: Peer, awaited_limit: usize) -> Self {
        Session {
            peer,
            awaited_limit,
            ..Session::default()
        }
    }

    /// Begins as the listener and the server's authentication demand.
    pub fn begin(&mut self, auth: AuthMode) {
        match opening(auth, self.peer.protocols) {
            Some((dialect, sasl)) => {
                self.dialect = dialect;
                self.sasl = sasl;
            }
            None => self.closing = true,
        }
    }

    /// Where the next answer goes: straight to the output, or behind an awaited one.
    #[inline]
    pub fn sink(&mut self) -> &mut Vec<u8> {
        if self.order.is_empty() {
            &mut self.out
        } else {
            self.order.behind()
        }
    }

    /// Answers with these bytes.
    #[inline]
    pub(crate) fn say(&mut self, answer: &[u8]) {
        self.sink().extend_from_slice(answer);
    }

    /// Reserves the place of an answer to which `workers` workers contribute.
    #[inline]
    pub fn await_answer(&mut self, workers: u16) -> Ticket {
        self.awaited += 1;
        self.order.reserve(workers, self.wording)
    }

    /// As [`await_answer`](Self::await_answer), of this connection: where the shares of the answer are to be sent.
    pub(crate) fn expect(&mut self, workers: u16) -> ReturnAddress {
        ReturnAddress {
            connection: self.id,
            ticket: self.await_answer(workers),
        }
    }

    /// Runs a command that answers in text, and words in binary what it answers, now or later.
    pub fn answer_in_binary(&mut self, echo: Echo, command: impl FnOnce(&mut Session)) {
        let written = self.sink().len();
        let tickets = self.order.next_ticket();
        self.wording = Some(echo);
        command(self);
        self.wording = None;
        // What is awaited from other workers is worded when it is complete.
        if self.order.next_ticket() == tickets {
            let said = self.sink().split_off(written);
            wording::in_binary(&said, echo, self.sink());
        }
    }

    /// The whole answer of one worker arrived. An unknown ticket is ignored.
    #[inline]
    pub fn answered(&mut self, ticket: Ticket, bytes: &[u8]) {
        let len = self.order.answered(ticket, bytes, &mut self.out);
        self.is_complete(len);
    }

    /// Keeps what was answered behind the first `before` bytes of the sink until [`Session::let_go`].
    pub fn hold_back(&mut self, before: usize) -> Ticket {
        let answer = self.sink().split_off(before);
        self.awaited += 1;
        self.order.keep(answer, self.wording)
    }

    /// A kept answer may leave, as soon as those before it have. An unknown ticket is ignored.
    pub fn let_go(&mut self, ticket: Ticket) {
        self.answer_arrived(ticket, Share::Done, Share::into_lines);
    }

    /// The latest answer that is kept or awaited, as far as it is there.
    pub fn last_kept(&self) -> Option<&[u8]> {
        self.order.kept().next()
    }

    /// A worker's share of an awaited answer arrived, which is added to what came before. When it is the last one, `finish`
    /// turns them into the answer. An unknown ticket is ignored.
    pub fn answer_arrived(
        &mut self,
        ticket: Ticket,
        share: Share,
        finish: impl FnOnce(Share) -> Vec<u8>,
    ) {
        let len = (self.order).contribute(ticket, share, finish, &mut self.out);
        self.is_complete(len);
    }

    /// An awaited answer of this many bytes is complete, if one is.
    #[inline]
    fn is_complete(&mut self, len: Option<usize>) {
        let Some(len) = len else { return };
        self.awaited -= 1;
        self.awaited_narrowed = if len <= LARGE_ANSWER {
            self.awaited_narrowed / 2
        } else {
            self.limit().saturating_sub((OUT_PAUSE / len).max(1))
        };
    }

    /// Whether this connection's commands must wait until answers were written or have arrived.
    #[inline]
    pub fn is_paused(&self) -> bool {
        self.out.len() >= self.room()
    }

    /// Length of `out` from which on commands must wait; 0 when they must wait for other reasons.
    #[inline(always)]
    pub fn room(&self) -> usize {
        let awaits_too_much = self.awaited + self.awaited_narrowed + self.tight.awaited
            >= self.awaited_limit
            && (self.awaited > 0 || self.held.is_some());
        if awaits_too_much {
            0
        } else {
            (OUT_PAUSE + self.out_written)
                .saturating_sub(self.taken + self.order.waiting_bytes() + self.tight.out)
        }
    }

    /// Whether the next answer goes straight to `out`.
    #[inline]
    pub fn is_direct(&self) -> bool {
        self.order.is_empty()
    }

    /// Pauses the connection at this many bytes of unread answers, at most [`OUT_PAUSE`]. While a server is
    /// short of memory for answers they are fewer; then each command waits for what other workers say to
    /// those before. A command that lacked room may try again.
    pub fn set_room(&mut self, bytes: usize) {
        self.lacks_room = false;
        self.tight = match OUT_PAUSE.saturating_sub(bytes) {
            0 => Tight::default(),
            out => Tight {
                out,
                awaited: self.limit(),
            },
        };
    }

    /// The next command waits for memory, and with it the connection, until [`Session::set_room`].
    pub(crate) fn lack_room(&mut self) {
        self.set_room(0);
        self.lacks_room = true;
    }

    /// Gives memory back that its few unread answers do not need: that of somebody's larger ones before.
    pub fn trim_output(&mut self) {
        if self.out.len() < self.out.capacity() / SPARSE {
            self.out.shrink_to_fit();
        }
    }

    /// How many answers may be awaited in the best of times.
    fn limit(&self) -> usize {
        self.held.unwrap_or(self.awaited_limit)
    }

    /// Ends the answer to a classic get: with an error where one of its keys is another server's, as that is no miss.
    #[inline]
    pub(crate) fn end_get(&mut self) {
        self.keys_done = 0;
        match self.elsewhere.take() {
            None => self.sink().extend_from_slice(text::END),
            Some(elsewhere) => self.sink().extend_from_slice(&elsewhere.line()),
        }
    }

    /// Bytes of memory that this connection's answers hold.
    pub fn held_bytes(&self) -> usize {
        self.out.capacity() + self.taken_capacity + self.order.waiting_bytes()
    }

    /// There is no memory for the rest of what the client is sending: it gets an error where its protocol
    /// has one outside requests, and the connection reads no further input.
    pub fn give_up_input(&mut self) {
        if self.dialect == Dialect::Text {
            self.sink().extend_from_slice(text::OUT_OF_MEMORY_READING);
        }
        self.closing = true;
    }

    /// Pauses the connection until [`Session::release`]: its command goes on when an answer comes.
    pub fn hold(&mut self) {
        if self.held.is_none() {
            self.held = Some(core::mem::take(&mut self.awaited_limit));
        }
    }

    /// Ends a [`Session::hold`].
    pub fn release(&mut self) {
        if let Some(limit) = self.held.take() {
            self.awaited_limit = limit;
        }
    }

    /// Bytes of answers that were not written yet.
    pub fn waiting_bytes(&self) -> usize {
        self.output().len() + self.taken + self.order.waiting_bytes()
    }

    /// Answers ready to be written, in order.
    #[inline]
    pub fn output(&self) -> &[u8] {
        &self.out[self.out_written..]
    }

    /// Whether any answer is still awaited from another worker.
    pub fn awaits(&self) -> bool {
        self.awaited > 0
    }

    /// Whether answers are ready and not written yet.
    pub fn owes_output(&self) -> bool {
        !self.out.is_empty() || self.taken > 0
    }

    /// Lets the driver take over the bytes of `out`, all of them or none. They count as unwritten until
    /// [`Session::written`] was told of them.
    pub fn hand_over(&mut self, take: impl FnOnce(&mut Vec<u8>)) {
        self.out.drain(..self.out_written);
        self.out_written = 0;
        let (before, capacity) = (self.out.len(), self.out.capacity());
        take(&mut self.out);
        debug_assert!(self.out.is_empty() || self.out.len() == before);
        if self.out.len() < before {
            self.taken += before;
            self.taken_capacity += capacity;
        }
    }

    /// The driver wrote `count` bytes: of those that it had taken over, else the first of `out`. Gives the room of `out` once it is
    /// empty, for somebody else's answers.
    pub fn written(&mut self, count: usize) -> Vec<u8> {
        if self.taken > 0 {
            assert!(count <= self.taken, "wrote more than was taken over");
            self.taken -= count;
            if self.taken == 0 {
                self.taken_capacity = 0;
            }
        } else {
            self.out_written += count;
            if self.out_written == self.out.len() {
                self.out.clear();
                self.out_written = 0;
            } else if self.out_written > self.out.len() / 2 {
                self.out.drain(..self.out_written);
                self.out_written = 0;
                if self.out.capacity() > OUT_KEEP_MAX
                    && self.out.len() < self.out.capacity() / SPARSE
                {
                    self.out.shrink_to_fit();
                }
            }
        }
        match self.out.is_empty() {
            true => core::mem::take(&mut self.out),
            false => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrive(session: &mut Session, ticket: Ticket, bytes: &[u8]) {
        let share = Share::Lines(bytes.to_vec());
        session.answer_arrived(ticket, share, Share::into_lines);
    }

    #[test]
    fn answers_leave_in_the_order_asked_whatever_the_order_of_arrival() {
        let mut session = Session::default();
        session.sink().extend_from_slice(b"1");
        let second = session.await_answer(1);
        session.sink().extend_from_slice(b"3");
        let fourth = session.await_answer(2);
        session.sink().extend_from_slice(b"5");
        assert_eq!(session.out, b"1");
        arrive(&mut session, fourth, b"4");
        arrive(&mut session, fourth, b"4");
        assert_eq!(session.out, b"1");
        arrive(&mut session, second, b"2");
        assert_eq!(session.out, b"123445");
        assert!(!session.awaits());
        session.sink().extend_from_slice(b"6");
        assert_eq!(session.out, b"1234456");
    }

    #[test]
    fn answers_behind_an_awaited_one_count() {
        let mut session = Session::new(Peer::default(), 32);
        let ticket = session.await_answer(1);
        session.sink().extend_from_slice(&[1; 1000]);
        assert_eq!(session.waiting_bytes(), 1000);
        let other = session.await_answer(1);
        session.sink().extend_from_slice(&[2; 10]);
        session.sink().extend_from_slice(&[2; 10]);
        assert_eq!(session.held_bytes(), 1020);
        arrive(&mut session, other, &[3; 100]);
        assert_eq!(session.held_bytes(), 1120);
        session.sink().resize(1020 + OUT_PAUSE - 20, 2);
        assert!(session.is_paused());
        arrive(&mut session, ticket, b"");
        assert_eq!(session.waiting_bytes(), 1000 + 100 + OUT_PAUSE);
        session.written(1100 + OUT_PAUSE);
        assert_eq!((session.waiting_bytes(), session.held_bytes()), (0, 0));
        // Once more, so that nothing of the count stays behind.
        let ticket = session.await_answer(1);
        arrive(&mut session, ticket, &[1; 5]);
        assert_eq!(session.waiting_bytes(), 5);
    }

    #[test]
    fn an_answer_to_nobody_is_ignored() {
        let mut session = Session::default();
        arrive(&mut session, 7, b"x");
        assert!(session.out.is_empty());
    }

    /// Written in pieces of any size, with answers that come in between, everything leaves once and in
    /// order, and what is written does not stay for long.
    #[test]
    fn output_leaves_in_pieces() {
        let mut session = Session::default();
        let (mut seen, mut expected) = (Vec::new(), Vec::new());
        for round in 0..2000_usize {
            let answer = vec![round as u8; round * 7919 % 3000];
            session.sink().extend_from_slice(&answer);
            expected.extend_from_slice(&answer);
            let piece = (round * 104_729 % 3100).min(session.output().len());
            seen.extend_from_slice(&session.output()[..piece]);
            session.written(piece);
            assert!(session.out.len() <= 2 * session.output().len());
        }
        seen.extend_from_slice(session.output());
        assert!(seen == expected);
        session.written(session.output().len());
        assert_eq!(session.held_bytes(), session.out.capacity());
        assert!(session.held_bytes() <= OUT_KEEP_MAX);
    }

    #[test]
    fn a_connection_does_one_thing_at_a_time_when_memory_is_tight() {
        let mut session = Session::new(Peer::default(), 8);
        session.set_room(1000);
        assert!(!session.is_paused());
        let ticket = session.await_answer(1);
        assert!(session.is_paused());
        arrive(&mut session, ticket, b"1");
        assert!(!session.is_paused());
        session.out.resize(1000, 0);
        assert!(session.is_paused());
        session.set_room(OUT_PAUSE);
        assert!(!session.is_paused());
        session.written(1000);
        session.set_room(0);
        assert!(session.is_paused());
    }

    #[test]
    fn large_answers_narrow_how_many_are_awaited() {
        let mut session = Session::new(Peer::default(), 32);
        let ticket = session.await_answer(1);
        arrive(&mut session, ticket, &vec![0; OUT_PAUSE / 2]);
        session.written(OUT_PAUSE / 2);
        let room = |session: &mut Session| {
            let tickets: Vec<_> = (0..)
                .map_while(|_| (!session.is_paused()).then(|| session.await_answer(1)))
                .collect();
            for ticket in &tickets {
                arrive(session, *ticket, b"");
            }
            tickets.len()
        };
        assert_eq!(room(&mut session), 2, "as many as make one pause");
        for _ in 0..8 {
            room(&mut session);
        }
        assert_eq!(room(&mut session), 32, "small answers widen it again");
    }

    #[test]
    fn unread_answers_pause_the_connection() {
        let mut session = Session::new(Peer::default(), awaited_limit(1 << 20));
        session.out.resize(OUT_PAUSE, 0);
        assert!(session.is_paused());
        session.written(1);
        assert!(!session.is_paused());
        for _ in 0..32 {
            assert!(!session.is_paused());
            session.await_answer(1);
        }
        assert!(session.is_paused());
        assert_eq!(
            (awaited_limit(1024), awaited_limit(1 << 30)),
            (AWAITED_MAX, AWAITED_MIN)
        );
    }
}
