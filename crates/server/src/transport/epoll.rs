//! A socket that says when it is ready, edge-triggered: each announcement is remembered until a read
//! or write comes up short.

use crate::connection::{Connection, Next};
use crate::egress::EgressGate;
use crate::transport::Served;
use evenkeel_runtime::TlsFailure;
use evenkeel_server_core::WorkerCore;
use evenkeel_types::Now;
use std::io::{self, ErrorKind, Read, Write};

/// Most reads of one connection in a turn, so that a fast sender does not starve the others.
const READS_PER_TURN: usize = 4;

/// Plain bytes of a connection, whatever carries them.
pub trait Bytes: Read + Write {
    /// After a read that gave `count` of `wanted` bytes: whether the next one may give more although
    /// the socket says nothing. A short read of a socket has emptied it.
    fn may_have_more(&self, count: usize, wanted: usize) -> bool {
        count == wanted
    }

    /// Whether something has to be agreed on before the first byte.
    fn is_opening(&self) -> bool {
        false
    }

    /// Nothing follows; says so to the client where the carrier has words for it.
    fn finish(&mut self) {}

    /// What went wrong with the carrier.
    fn failure(&self) -> Option<TlsFailure> {
        None
    }
}

/// The socket of a connection; `S` is the stream, or what stands before it.
#[derive(Debug)]
pub struct Socket<S> {
    stream: S,
    /// The socket may have bytes to read: it said so and no read has come up short since.
    readable: bool,
    /// The client has shut its sending side; the end of its bytes may not have been read yet.
    hung_up: bool,
}

impl<S: Bytes> Socket<S> {
    /// The socket of a connection that was just accepted. It is registered already.
    pub fn new(stream: S) -> Self {
        Socket {
            stream,
            readable: true,
            hung_up: false,
        }
    }

    /// Whether something has to be agreed on before the first byte.
    #[inline]
    pub fn is_opening(&self) -> bool {
        self.stream.is_opening()
    }

    /// The socket said that there is something to read, or that the client sends no more.
    pub fn mark_readable(&mut self, hung_up: bool) {
        self.readable = true;
        self.hung_up |= hung_up;
    }

    /// Reads, executes and writes, within the bounds of a turn.
    pub fn serve(
        &mut self,
        connection: &mut Connection,
        core: &mut WorkerCore,
        now: Now,
        scratch: &mut [u8],
        egress: &mut EgressGate,
    ) -> Served {
        // Whatever went wrong with the socket, there is nobody left to tell.
        if self.work(connection, core, now, scratch, egress).is_err() {
            self.count_failure(core);
            return Served::Closed;
        }
        connection.set_opening(self.stream.is_opening());
        match connection.judge(core, now) {
            Next::Commands => Served::More,
            Next::Input if self.readable => Served::More,
            Next::Input | Next::Wait => Served::Idle,
            Next::Close => {
                self.stream.finish();
                self.count_failure(core);
                Served::Closed
            }
        }
    }

    fn count_failure(&self, core: &mut WorkerCore) {
        let counters = core.counters();
        match self.stream.failure() {
            None => {}
            Some(TlsFailure::Handshake) => counters.ssl_handshake_errors += 1,
            Some(TlsFailure::Protocol) => counters.ssl_proto_errors += 1,
        }
    }

    fn work(
        &mut self,
        connection: &mut Connection,
        core: &mut WorkerCore,
        now: Now,
        scratch: &mut [u8],
        egress: &mut EgressGate,
    ) -> io::Result<()> {
        // What is left over may have been received since the turn began.
        let now = egress.now(core, now);
        connection.resume(core, now);
        let mut reads = 0;
        while self.readable && reads < READS_PER_TURN && connection.wants_input(core) {
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
                connection.received_end();
                break;
            }
            // A short read has emptied the socket, and more bytes will be announced anew; but an end
            // that was announced together with these bytes will not.
            self.readable = self.hung_up || self.stream.may_have_more(count, scratch.len());
            let now = egress.now(core, now);
            connection.received(core, now, &scratch[..count]);
            if connection.has_large_output(core) {
                egress.pay(core);
                egress.check_lease(core)?;
                self.flush(connection, core)?;
            }
        }
        egress.pay(core);
        if connection.has_output_to_write(core) {
            egress.check_lease(core)?;
            self.flush(connection, core)?;
        }
        Ok(())
    }

    /// Writes what the socket takes.
    fn flush(&mut self, connection: &mut Connection, core: &mut WorkerCore) -> io::Result<()> {
        let mut total = 0;
        let output = connection.output(core);
        while total < output.len() {
            match self.stream.write(&output[total..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => total += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if total > 0 {
            connection.wrote(core, total);
        }
        self.stream.flush()
    }
}
