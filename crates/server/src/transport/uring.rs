//! A socket of a ring: bytes come without being asked for each time, and go while others are served.
//!
//! The completions of a turn are noted first and acted on when the connection has its turn, like the
//! announcements of the other transport. Receive buffers are shared by all connections, so none is held
//! beyond a turn: what cannot be executed is copied to the connection, and if that grows, the ring
//! is asked for no more of this client's bytes.

use crate::connection::{Connection, Next};
use crate::egress::EgressGate;
use crate::transport::Served;
use evenkeel_runtime::Stream;
use evenkeel_runtime::uring::{Event, Piece, Ring, Socket as Name, Urgency};
use evenkeel_server_core::WorkerCore;
use evenkeel_types::Now;
use std::collections::VecDeque;
use std::io;

/// Bytes left over from commands that had to let others go first; with more of them, nothing more is
/// received until they are executed. To stop and start a receive costs about as much as a request,
/// so it does not pay for a few commands.
const KEEP_MAX: usize = 64 * 1024;

/// The socket of a connection.
#[derive(Debug)]
pub struct Socket {
    name: Name,
    /// What has been received and not shown to the connection.
    pieces: VecDeque<Piece>,
    /// The ring is asked for what the client sends.
    receiving: bool,
    /// The client sends no more.
    ended: bool,
    failed: bool,
    /// Output is under way.
    sending: bool,
    /// What of it has been taken by the kernel since the last turn, in bytes.
    sent: usize,
}

impl Socket {
    /// Gives a stream that was just accepted to the ring, which names it by the tag.
    pub fn new(ring: &mut Ring, stream: Stream, tag: u32) -> Self {
        let name = ring.add(stream.into(), tag);
        ring.receive(name);
        Socket {
            name,
            pieces: VecDeque::new(),
            receiving: true,
            ended: false,
            failed: false,
            sending: false,
            sent: 0,
        }
    }

    /// Something has completed; it is acted on in the connection's turn, which must follow.
    pub fn note(&mut self, completion: Event) {
        match completion {
            Event::Received { piece, .. } => self.pieces.push_back(piece),
            Event::Ended { .. } => self.ended = true,
            Event::Failed { .. } => self.failed = true,
            Event::Sent { bytes, done, .. } => {
                self.sent += bytes;
                self.sending = !done;
            }
        }
    }

    /// Executes what has come and hands over what is to be sent.
    pub fn serve(
        &mut self,
        ring: &mut Ring,
        connection: &mut Connection,
        core: &mut WorkerCore,
        now: Now,
        egress: &mut EgressGate,
    ) -> Served {
        // An idle connection holds no buffer for its output.
        connection.hand_over(core, |out| {
            if out.capacity() == 0 {
                *out = ring.spare();
            }
        });
        let sent = core::mem::take(&mut self.sent);
        if sent > 0 {
            connection.wrote(core, sent);
        }
        let now = egress.now(core, now);
        connection.resume(core, now);
        while let Some(piece) = self.pieces.pop_front() {
            if connection.wants_input(core) {
                connection.received(core, now, ring.bytes(piece));
            } else {
                connection.keep(core, ring.bytes(piece));
            }
            ring.recycle(piece);
        }
        if self.failed {
            return Served::Closed;
        }
        if self.ended {
            connection.received_end();
        }
        egress.pay(core);
        if self.send(ring, connection, core, egress).is_err() {
            return Served::Closed;
        }
        connection.hand_over(core, |out| {
            if out.is_empty() {
                ring.keep_spare(core::mem::take(out));
            }
        });
        match connection.judge(core, now) {
            Next::Commands => {
                if connection.input_len() > KEEP_MAX {
                    self.stop_receiving(ring);
                }
                Served::More
            }
            Next::Input => {
                if !self.receiving {
                    self.receiving = true;
                    ring.receive(self.name);
                }
                Served::Idle
            }
            Next::Wait => {
                self.stop_receiving(ring);
                Served::Idle
            }
            Next::Close => Served::Closed,
        }
    }

    /// Closes the socket. What it has under way is lost.
    pub fn close(mut self, ring: &mut Ring) {
        while let Some(piece) = self.pieces.pop_front() {
            ring.recycle(piece);
        }
        ring.close(self.name);
    }

    /// Hands the output over, unless earlier output is still under way.
    fn send(
        &mut self,
        ring: &mut Ring,
        connection: &Connection,
        core: &mut WorkerCore,
        egress: &EgressGate,
    ) -> io::Result<()> {
        if self.sending || !connection.has_output_to_write(core) {
            return Ok(());
        }
        egress.check_lease(core)?;
        // While a client is welcome to go on, nothing follows from its answers being on their way.
        let urgency = match connection.wants_input(core) {
            true => Urgency::Whenever,
            false => Urgency::AtOnce,
        };
        self.sending = true;
        connection.hand_over(core, |out| {
            ring.send(self.name, core::mem::take(out), urgency);
        });
        Ok(())
    }

    fn stop_receiving(&mut self, ring: &mut Ring) {
        if self.receiving {
            self.receiving = false;
            ring.pause(self.name);
        }
    }
}
