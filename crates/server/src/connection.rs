//! A client's connection without its socket: what came and is left over, what is ready to be
//! written, and what should follow.
//!
//! A *transport* (see [`transport`](crate::transport)) moves the bytes. It shows what it received
//! with [`Connection::received`], writes [`Connection::output`] and says with [`Connection::wrote`]
//! how much of it is gone; [`Connection::judge`] then says how to go on. So the same code serves a
//! socket that announces readiness, one whose reads and writes complete by themselves, and one with
//! TLS in between.

use evenkeel_roles::server::{ConnectionId, WorkerCore};
use evenkeel_runtime::InputBuffer;
use evenkeel_types::{Instant, Now};

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
}

/// How to go on with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Commands are left over: others first, then [`Connection::resume`].
    Commands,
    /// Everything is carried out; whatever the client sends is welcome.
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
            self.input.consume(progress.consumed);
            self.more = progress.more;
        }
    }

    /// Carries out what was just received, behind what was left over, and keeps what is left over
    /// now.
    pub fn received(&mut self, core: &mut WorkerCore, now: Now, bytes: &[u8]) {
        core.counters().bytes_read += bytes.len() as u64;
        self.moved = true;
        if self.input.is_empty() {
            // Parsed where it lies: an idle connection holds no buffer.
            let progress = core.handle_input(now, self.id, bytes);
            if progress.consumed < bytes.len() {
                self.input.push(&bytes[progress.consumed..]);
            }
            self.more = progress.more;
        } else {
            self.input.push(bytes);
            let progress = core.handle_input(now, self.id, self.input.as_slice());
            self.input.consume(progress.consumed);
            self.more = progress.more;
        }
    }

    /// Keeps what was received although no more input was welcome: a transport whose receives are
    /// under way cannot refuse what they bring.
    pub fn keep(&mut self, core: &mut WorkerCore, bytes: &[u8]) {
        core.counters().bytes_read += bytes.len() as u64;
        self.input.push(bytes);
    }

    /// Bytes received and not carried out yet.
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
        !self.more && !self.ended && !self.is_paused(core)
    }

    /// Whether commands are left over that had to let others go first, or wait for nothing any more.
    pub fn has_commands(&self) -> bool {
        self.more
    }

    /// Bytes to be written, in order.
    pub fn output<'c>(&self, core: &'c mut WorkerCore) -> &'c [u8] {
        core.session(self.id)
            .map_or(b"", |session| session.out.as_slice())
    }

    /// Lets a transport take over the buffer of [`Connection::output`], or put another empty one in its
    /// place. What it has taken counts as unwritten until [`Connection::wrote`] was told of it.
    pub fn hand_over(&self, core: &mut WorkerCore, take: impl FnOnce(&mut Vec<u8>)) {
        if let Some(session) = core.session(self.id) {
            session.hand_over(take);
        }
    }

    /// Whether answers are ready and not written yet.
    pub fn owes_output(&self, core: &mut WorkerCore) -> bool {
        core.session(self.id)
            .is_some_and(|session| session.owes_output())
    }

    /// The transport has written `count` bytes: of what it had taken over, else the first of
    /// [`Connection::output`].
    pub fn wrote(&mut self, core: &mut WorkerCore, count: usize) {
        core.wrote(self.id, count);
        self.moved |= count > 0;
        // What waited for room goes on.
        self.more |= self.may_have_command(core);
    }

    /// Says how to go on, after a transport has done what it could. Also keeps account of whether
    /// the connection makes progress.
    pub fn judge(&mut self, core: &mut WorkerCore, now: Now) -> Next {
        let moved = core::mem::take(&mut self.moved);
        let Some(session) = core.session(self.id) else {
            return Next::Close;
        };
        let drained = !session.owes_output() && !session.awaits();
        if drained && (session.closing || (self.ended && !self.more)) {
            return Next::Close;
        }
        let owes =
            session.owes_output() || (!self.input.is_empty() && !session.awaits()) || self.opening;
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
        } else if self.ended || session.closing || session.is_paused() {
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
        let done = core
            .session(self.id)
            .is_none_or(|session| !session.owes_output() && !session.awaits());
        done && self.input.is_empty() && !self.more
    }

    /// Whether what is left over can be carried out: it is not known to be half a command, and nothing
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
