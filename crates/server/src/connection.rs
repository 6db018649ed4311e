//! A client's connection without its socket: what came and is left over, what is ready to be
//! written, and what should follow.
//!
//! A *transport* (see [`transport`](crate::transport)) moves the bytes. It shows what it received
//! with [`Connection::received`], writes [`Connection::output`] and says with [`Connection::wrote`]
//! how much of it is gone; [`Connection::judge`] then says how to go on. So the same code serves a
//! socket that announces readiness, one whose reads and writes complete by themselves, and one with
//! TLS in between.

use crate::budget::{Held, SMALL_INPUT, TIGHT_UNREAD};
use evenkeel_runtime::InputBuffer;
use evenkeel_runtime::budget::{Holding, Level};
use evenkeel_server_core::{ConnectionId, LARGE_ANSWER, OUT_PAUSE, Session, WorkerCore};
use evenkeel_types::{Instant, Now};

/// A command that needs more room than it has, and at least this many bytes, asks for it. Less comes with
/// the connection.
const ASK_MIN: usize = 4 << 10;

/// Bytes of room that a command gets first. Then it gets twice what has come, as often as necessary: who
/// announces much and sends little holds little, and each byte is moved once on average.
const ROOM_MIN: usize = 8 << 10;

/// A command asks for its next room when it has less than one read (of an ordinary size) left.
const ROOM_LEFT: usize = 64 << 10;

/// Output of this many bytes is written although more of it will follow at once.
const FLUSH_AT: usize = 32 << 10;

/// A connection of a worker.
#[derive(Debug)]
pub struct Connection {
    id: ConnectionId,
    input: InputBuffer,
    /// Commands are left over that had to let others go first.
    more: bool,
    /// The end of the client's bytes has been received.
    ended: bool,
    /// The carrier of its bytes (TLS) is still being agreed on.
    opening: bool,
    /// Something was consumed or written since the last judgement.
    moved: bool,
    /// Since when it owes progress: half a command has come, or answers are not read.
    stalled_since: Option<Instant>,
    /// When it last did anything.
    active_at: Instant,
    /// Bytes of room that the command at the front of the input needs and has not; zero when it has.
    asks: usize,
    /// It was told that there is no room for the time being.
    waits_for_room: bool,
    /// See [`Connection::held`].
    held: Held,
    /// Bytes that the command at the front of the input has in all, as far as is known.
    command_bytes: usize,
    /// Since when the command at the front of the input has been there, or has had room to go on.
    input_since: Instant,
    /// Bytes of it that were there then.
    input_before: usize,
    /// Since when the oldest unread answers are unread, within a factor of two.
    unread_since: Instant,
    /// How many bytes were unread then.
    unread_at_first: usize,
    /// How many of them still are.
    unread_before: usize,
    /// See [`Connection::set_answer_level`].
    answer_level: Level,
    /// See [`Connection::reads_well`].
    reads_well: bool,
}

/// What is known of how much a connection asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Nothing: no answer was written to it yet.
    Unknown,
    /// It was given at most [`LARGE_ANSWER`] bytes when it was given something last.
    Small,
    /// It was given more.
    Large,
}

impl Demand {
    /// The same after this many bytes were written to it in a turn.
    #[inline]
    pub fn after(self, written: u64) -> Self {
        match written {
            0 => self,
            _ if written > LARGE_ANSWER as u64 => Demand::Large,
            _ => Demand::Small,
        }
    }
}

/// How to go on with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Commands are left over: others first, then [`Connection::resume`].
    Commands,
    /// Everything is executed; whatever the client sends is welcome.
    Input,
    /// No input is wanted until output was written, an answer of another worker has come, or the
    /// connection is over.
    Wait,
    /// It is over.
    Close,
}

impl Connection {
    /// A connection that was just accepted, under its name in the core.
    pub fn new(id: ConnectionId, now: Now) -> Self {
        Connection {
            id,
            input: InputBuffer::default(),
            more: false,
            ended: false,
            opening: false,
            moved: false,
            stalled_since: None,
            active_at: now.monotonic,
            asks: 0,
            waits_for_room: false,
            held: Held::default(),
            command_bytes: 0,
            input_since: now.monotonic,
            input_before: 0,
            unread_since: now.monotonic,
            unread_at_first: 0,
            unread_before: 0,
            answer_level: Level::Easy,
            reads_well: false,
        }
    }

    /// Its name in the core.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// Goes on with what was left over: a turn of its own has come, output was written, or an answer
    /// of another worker has arrived. Does nothing when nothing is left over.
    pub fn resume(&mut self, core: &mut WorkerCore, now: Now) {
        self.more = false;
        if !self.input.is_empty() {
            let progress = core.handle_input(now, self.id, self.input.as_slice());
            self.moved |= progress.consumed > 0;
            core.rooms().keep(self.input.consume(progress.consumed));
            self.more = progress.more;
            self.left_over(core, now, progress.consumed > 0);
        }
    }

    /// Executes what was just received, behind what was left over, and keeps what is left over
    /// now.
    pub fn received(&mut self, core: &mut WorkerCore, now: Now, bytes: &[u8]) {
        core.counters().bytes_read += bytes.len() as u64;
        self.moved = true;
        if self.input.is_empty() {
            // Parsed where it lies: an idle connection holds no buffer.
            let progress = core.handle_input(now, self.id, bytes);
            if progress.consumed < bytes.len() {
                self.input.push(&bytes[progress.consumed..]);
                self.left_over(core, now, true);
            }
            self.more = progress.more;
        } else {
            self.input.push(bytes);
            let progress = core.handle_input(now, self.id, self.input.as_slice());
            core.rooms().keep(self.input.consume(progress.consumed));
            self.more = progress.more;
            self.left_over(core, now, progress.consumed > 0);
        }
    }

    /// Something is left over: sees whether it needs more room than it has. `fresh` when it is another
    /// command than before.
    fn left_over(&mut self, core: &mut WorkerCore, now: Now, fresh: bool) {
        if fresh {
            self.input_since = now.monotonic;
            self.input_before = 0;
        }
        let (len, has) = (self.input.len(), self.input.capacity());
        if len == 0 {
            self.asks = 0;
            return;
        }
        let needed = core.session(self.id).map_or(0, |session| session.need);
        // A line tells no length, and grows by parts of itself.
        let is_line = needed == len + 1;
        let need = if is_line { len + len / 2 } else { needed };
        self.command_bytes = need;
        let rest = need.saturating_sub(len);
        let room = need.min((2 * len).max(ROOM_MIN));
        self.asks = match has - len < rest.min(ROOM_LEFT) && room > has && room >= ASK_MIN {
            true => room,
            false => 0,
        };
    }

    /// Keeps what was received although no more input was welcome: a transport whose receives are
    /// under way cannot refuse what they bring.
    pub fn keep(&mut self, core: &mut WorkerCore, bytes: &[u8]) {
        core.counters().bytes_read += bytes.len() as u64;
        self.input.push(bytes);
    }

    /// Bytes received and not executed yet.
    pub fn input_len(&self) -> usize {
        self.input.len()
    }

    /// The client sends no more.
    pub fn received_end(&mut self) {
        self.ended = true;
    }

    /// Whether the carrier of its bytes is still being agreed on: a client that has to do its part of
    /// that owes progress.
    pub fn set_opening(&mut self, opening: bool) {
        self.opening = opening;
    }

    /// Whether more input is welcome now. While it is not, the client's bytes stay in its socket:
    /// that is how a client that does not read its answers is held back.
    pub fn wants_input(&self, core: &mut WorkerCore) -> bool {
        !self.more && !self.ended && self.asks == 0 && !self.is_paused(core)
    }

    /// Bytes of room that the command at the front of the input needs next, with those that it has; zero
    /// when it has them. Until it is told, no more input is welcome.
    pub fn asks(&self) -> usize {
        self.asks
    }

    /// Bytes of all of that command, as far as is known.
    pub fn command_bytes(&self) -> usize {
        self.command_bytes
    }

    /// Whether all of that command is small.
    pub fn asks_little(&self) -> bool {
        self.command_bytes <= SMALL_INPUT
    }

    /// There is the room that it asked for.
    pub fn grant(&mut self, now: Now) {
        self.input.reserve(core::mem::take(&mut self.asks));
        self.held.input = self.input.capacity();
        if core::mem::take(&mut self.waits_for_room) {
            self.input_since = now.monotonic;
            self.input_before = self.input.len();
        }
        self.moved = true;
    }

    /// As [`Connection::grant`], in emptied memory that has room for all of the command.
    pub fn grant_in(&mut self, now: Now, room: Vec<u8>) {
        self.input.reserve_in(room);
        self.grant(now);
    }

    /// As [`Connection::grant`], with room for all of the command.
    pub fn grant_all(&mut self, now: Now) {
        self.asks = self.asks.max(self.command_bytes);
        self.grant(now);
    }

    /// There is no room for the time being: the client's bytes stay in its socket until
    /// [`Connection::grant`].
    pub fn defer(&mut self) {
        self.waits_for_room = true;
    }

    /// Whether it was told to wait for room.
    pub fn waits_for_room(&self) -> bool {
        self.waits_for_room
    }

    /// Gives up the command at the front of the input, and with it the connection, which is over once the
    /// client was told.
    pub fn give_up_input(&mut self, core: &mut WorkerCore) {
        self.input.clear();
        self.asks = 0;
        self.more = false;
        self.waits_for_room = false;
        if let Some(session) = core.session(self.id) {
            session.give_up_input();
        }
    }

    /// Room that is there for the command at the front of the input, in bytes.
    pub fn room(&self) -> usize {
        self.input.capacity() - self.input.len()
    }

    /// Looks at what it holds.
    pub fn weigh(&mut self, core: &mut WorkerCore, now: Now) {
        if let Some(session) = core.session(self.id) {
            self.note_held(session, now);
        }
    }

    #[inline]
    fn note_held(&mut self, session: &Session, now: Now) {
        self.held = Held {
            input: self.input.capacity(),
            answers: session.held_bytes(),
        };
        if self.unread_before == 0 && self.held.answers > 0 {
            // All that was unread at the last mark has been read.
            self.unread_before = session.waiting_bytes();
            self.unread_at_first = self.unread_before;
            self.unread_since = now.monotonic;
        }
    }

    /// What it holds, as of the last look, judgement or grant.
    pub fn held(&self) -> Held {
        self.held
    }

    /// What it holds of the memory for input, and what came of it. Nothing while it waits for room: that is
    /// not the client's fault.
    pub fn input_holding(&self) -> Holding {
        Holding {
            bytes: if self.waits_for_room {
                0
            } else {
                self.held.input
            },
            since: self.input_since,
            moved: self.input.len().saturating_sub(self.input_before),
            moves_well: false,
        }
    }

    /// What it holds of the memory for answers, and what the client has read since.
    pub fn answers_holding(&self) -> Holding {
        Holding {
            bytes: match self.unread_before {
                0 => 0,
                _ => self.held.answers,
            },
            since: self.unread_since,
            moved: self.unread_at_first - self.unread_before,
            moves_well: self.reads_well,
        }
    }

    /// How much of the memory for answers was taken when it was last told.
    pub fn answer_level(&self) -> Level {
        self.answer_level
    }

    /// Tells how much of the memory for answers is taken; with it goes how many may be unread. A command
    /// that lacked room for its answer may try again.
    pub fn set_answer_level(&mut self, core: &mut WorkerCore, level: Level) {
        self.answer_level = level;
        if let Some(session) = core.session(self.id) {
            session.set_room(match level {
                Level::Easy => OUT_PAUSE,
                Level::Tight | Level::Full | Level::Over => TIGHT_UNREAD,
            });
        }
    }

    /// Whether its next command waits for memory for a large answer.
    pub fn lacks_room(&self, core: &mut WorkerCore) -> bool {
        core.session(self.id)
            .is_some_and(|session| session.lacks_room)
    }

    /// Whether output should be written now: there is some, and no more of it will follow at once that
    /// could leave together with it.
    pub fn has_output_to_write(&self, core: &mut WorkerCore) -> bool {
        let Some(session) = core.session(self.id) else {
            return false;
        };
        let follows = self.more || session.awaits();
        session.output().len() >= if follows { FLUSH_AT } else { 1 }
    }

    /// Whether enough output is ready not to wait for the end of what is being read.
    pub fn has_large_output(&self, core: &mut WorkerCore) -> bool {
        self.output(core).len() >= FLUSH_AT
    }

    /// Bytes to be written, in order.
    pub fn output<'c>(&self, core: &'c mut WorkerCore) -> &'c [u8] {
        core.session(self.id)
            .map_or(b"", |session| session.output())
    }

    /// Lets a transport take over the buffer of [`Connection::output`], or put another empty one in its
    /// place. What it has taken counts as unwritten until [`Connection::wrote`] was told of it.
    pub fn hand_over(&self, core: &mut WorkerCore, take: impl FnOnce(&mut Vec<u8>)) {
        if let Some(session) = core.session(self.id) {
            session.hand_over(take);
        }
    }

    /// Whether answers are to be written, or to come from other workers.
    pub fn owes_answers(&self, core: &mut WorkerCore) -> bool {
        core.session(self.id)
            .is_some_and(|session| session.owes_output() || session.awaits())
    }

    /// The transport has written `count` bytes: of what it had taken over, else the first of
    /// [`Connection::output`].
    pub fn wrote(&mut self, core: &mut WorkerCore, count: usize) {
        core.wrote(self.id, count);
        if count > LARGE_ANSWER {
            self.wrote_much(core);
        }
        self.unread_before = self.unread_before.saturating_sub(count);
        self.moved |= count > 0;
        // What waited for room goes on.
        self.more |= self.may_have_command(core);
    }

    /// The client has taken much. When that is all that it is owed, it reads what it asks for.
    #[cold]
    fn wrote_much(&mut self, core: &mut WorkerCore) {
        if let Some(session) = core.session(self.id) {
            session.reads_well |= !session.owes_output();
            self.reads_well = session.reads_well;
        }
    }

    /// Whether the client has read a large answer to its end.
    pub fn reads_well(&self) -> bool {
        self.reads_well
    }

    /// Says how to go on, after a transport has done what it could. Also keeps account of whether
    /// the connection makes progress.
    pub fn judge(&mut self, core: &mut WorkerCore, now: Now) -> Next {
        let moved = core::mem::take(&mut self.moved);
        let Some(session) = core.session(self.id) else {
            return Next::Close;
        };
        if self.answer_level > Level::Easy {
            session.trim_output();
        }
        self.note_held(session, now);
        let drained = !session.owes_output() && !session.awaits();
        // Commands that wait for memory are still to be executed.
        let withheld = self.asks > 0 || session.lacks_room;
        if drained && (session.closing || (self.ended && !self.more && !withheld)) {
            return Next::Close;
        }
        // While another worker has not answered, it is not the client who is late.
        let may_go_on = !self.input.is_empty() && !session.lacks_room;
        let has_begun = session.owes_output() || may_go_on;
        let owes = (has_begun && !session.awaits()) || self.opening;
        let owes = owes && !self.waits_for_room;
        if moved {
            self.active_at = now.monotonic;
        }
        if !owes || moved {
            self.stalled_since = owes.then_some(now.monotonic);
        } else if self.stalled_since.is_none() {
            self.stalled_since = Some(now.monotonic);
        }
        if self.more {
            Next::Commands
        } else if self.ended || session.closing || session.is_paused() || self.waits_for_room {
            Next::Wait
        } else {
            Next::Input
        }
    }

    /// Since when the client owes progress, if it does: half a command has come, or answers wait to
    /// be read.
    pub fn stalled_since(&self) -> Option<Instant> {
        self.stalled_since
    }

    /// When the client last sent or took anything.
    pub fn active_at(&self) -> Instant {
        self.active_at
    }

    /// Whether the client has begun nothing that is not answered and written.
    pub fn is_idle(&self, core: &mut WorkerCore) -> bool {
        !self.owes_answers(core) && self.input.is_empty() && !self.more
    }

    /// Whether what is left over can be executed: it is not known to be half a command, and nothing
    /// holds it back.
    fn may_have_command(&self, core: &mut WorkerCore) -> bool {
        if self.input.is_empty() {
            return false;
        }
        let need = core.session(self.id).map_or(0, |session| session.need);
        self.input.len() >= need && !self.is_paused(core)
    }

    fn is_paused(&self, core: &mut WorkerCore) -> bool {
        core.session(self.id)
            .is_none_or(|session| session.is_paused() || session.closing)
    }
}
