//! A client's connection: its socket, what it has left over, and since when it has not moved.

use evenkeel_roles::server::{ConnectionId, WorkerCore};
use evenkeel_runtime::{InputBuffer, Stream};
use evenkeel_types::{Instant, Now};
use std::io::{self, ErrorKind, Read, Write};

/// Output is written before the end of a turn once it has grown to this many bytes.
const FLUSH_AT: usize = 32 * 1024;

/// Most reads of one connection in a turn, so that a fast sender does not starve the others.
const READS_PER_TURN: usize = 4;

/// A connection of a worker.
#[derive(Debug)]
pub struct Connection {
    /// Its name in the core.
    pub id: ConnectionId,
    stream: Stream,
    input: InputBuffer,
    /// The socket may have bytes to read: it said so and no read has come up short since.
    readable: bool,
    /// The client has shut its sending side; the end of its bytes may not have been read yet.
    hung_up: bool,
    /// The end of the client's bytes has been read.
    ended: bool,
    /// It is in the list of connections to serve.
    pub queued: bool,
    /// Since when it owes progress: half a command has come, or answers are not read.
    pub stalled_since: Option<Instant>,
    /// When it last did anything.
    pub active_at: Instant,
}

/// What a turn with a connection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// Nothing more to do until something happens.
    Idle,
    /// It has more to do; others first.
    More,
    /// It is over.
    Closed,
}

impl Connection {
    /// A connection that was just accepted. The socket is registered already.
    pub fn new(id: ConnectionId, stream: Stream, now: Now) -> Self {
        Connection {
            id,
            stream,
            input: InputBuffer::default(),
            readable: true,
            hung_up: false,
            ended: false,
            queued: false,
            stalled_since: None,
            active_at: now.monotonic,
        }
    }

    /// The socket said that there is something to read, or that the client sends no more.
    pub fn mark_readable(&mut self, hung_up: bool) {
        self.readable = true;
        self.hung_up |= hung_up;
    }

    /// Reads, carries out and writes, within the bounds of a turn.
    pub fn serve(&mut self, core: &mut WorkerCore, now: Now, scratch: &mut [u8]) -> Served {
        match self.work(core, now, scratch) {
            Ok(served) => served,
            // Whatever went wrong with the socket, there is nobody left to tell.
            Err(_) => Served::Closed,
        }
    }

    fn work(&mut self, core: &mut WorkerCore, now: Now, scratch: &mut [u8]) -> io::Result<Served> {
        let mut moved = false;
        let mut more = false;
        if !self.input.is_empty() {
            let progress = core.handle_input(now, self.id, self.input.as_slice());
            moved |= progress.consumed > 0;
            self.input.consume(progress.consumed);
            more = progress.more;
        }
        let mut reads = 0;
        while !more && self.readable && !self.ended && !self.is_paused(core) {
            if reads == READS_PER_TURN {
                more = true;
                break;
            }
            reads += 1;
            let count = match self.stream.read(scratch) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.readable = false;
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if count == 0 {
                self.ended = true;
                break;
            }
            // A short read has emptied the socket, and more bytes will be announced anew; but an end
            // that was announced together with these bytes will not.
            self.readable = self.hung_up || count == scratch.len();
            core.counters().bytes_read += count as u64;
            moved = true;
            more = self.take(core, now, &scratch[..count]);
            if core
                .session(self.id)
                .is_some_and(|session| session.out.len() >= FLUSH_AT)
            {
                self.flush(core)?;
            }
        }
        if !more {
            moved |= self.flush(core)?;
            // A socket that took everything will not announce room: what waited for room goes on.
            more = self.may_have_command(core);
        }
        Ok(self.judge(core, now, moved, more))
    }

    /// Carries out what was just read, behind what was left over. True when commands are left.
    fn take(&mut self, core: &mut WorkerCore, now: Now, bytes: &[u8]) -> bool {
        if self.input.is_empty() {
            let progress = core.handle_input(now, self.id, bytes);
            if progress.consumed < bytes.len() {
                self.input.push(&bytes[progress.consumed..]);
            }
            return progress.more;
        }
        self.input.push(bytes);
        let progress = core.handle_input(now, self.id, self.input.as_slice());
        self.input.consume(progress.consumed);
        progress.more
    }

    /// Writes what the socket takes. True when anything was written.
    fn flush(&mut self, core: &mut WorkerCore) -> io::Result<bool> {
        let mut total = 0;
        let Some(session) = core.session(self.id) else {
            return Ok(false);
        };
        while !session.out.is_empty() {
            match self.stream.write(&session.out) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    total += count;
                    session.written(count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        core.counters().bytes_written += total as u64;
        Ok(total > 0)
    }

    /// Whether what is left over can be carried out: it is not known to be half a command, and nothing
    /// holds it back.
    fn may_have_command(&self, core: &mut WorkerCore) -> bool {
        let need = core.session(self.id).map_or(0, |session| session.need);
        !self.input.is_empty() && self.input.len() >= need && !self.is_paused(core)
    }

    fn is_paused(&self, core: &mut WorkerCore) -> bool {
        core.session(self.id)
            .is_none_or(|session| session.is_paused() || session.closing)
    }

    /// Decides how the turn ends.
    fn judge(&mut self, core: &mut WorkerCore, now: Now, moved: bool, more: bool) -> Served {
        let Some(session) = core.session(self.id) else {
            return Served::Closed;
        };
        let drained = session.out.is_empty() && !session.awaits();
        if drained && (session.closing || (self.ended && !more)) {
            return Served::Closed;
        }
        let owes = !session.out.is_empty() || (!self.input.is_empty() && !session.awaits());
        if moved {
            self.active_at = now.monotonic;
        }
        if !owes || moved {
            self.stalled_since = owes.then_some(now.monotonic);
        } else if self.stalled_since.is_none() {
            self.stalled_since = Some(now.monotonic);
        }
        let unpaused = !session.is_paused() && !session.closing;
        let can_go_on = more || (unpaused && self.readable && !self.ended);
        if can_go_on {
            Served::More
        } else {
            Served::Idle
        }
    }
}
