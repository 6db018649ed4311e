//! Transports: what moves bytes between a client's socket and its
//! [`Connection`](crate::connection::Connection).
//!
//! A transport does four things, in this order, each time it has a turn:
//!
//! 1. [`resume`](crate::connection::Connection::resume), which executes commands left over;
//! 2. as long as [`wants_input`](crate::connection::Connection::wants_input): hand over what the
//!    client sent with [`received`](crate::connection::Connection::received), its end with
//!    [`received_end`](crate::connection::Connection::received_end);
//! 3. write [`output`](crate::connection::Connection::output) and report with
//!    [`wrote`](crate::connection::Connection::wrote) what is gone;
//! 4. ask [`judge`](crate::connection::Connection::judge) how to go on.
//!
//! | transport | the bytes come and go by |
//! |---|---|
//! | [`epoll`] | reads and writes when the socket says that it is ready |
//! | [`uring`] | receives and sends that complete by themselves |
//!
//! TLS stands between the socket and steps 2 and 3: [`epoll::Socket`] reads and writes through
//! [`epoll::Bytes`], and [`Wire`] is the socket or TLS on it. `Ok(0)` from `read` is the end of
//! the client's bytes; what `write` has reported as written has left, so that a connection without
//! output is done; `flush` sends what the carrier itself has to say. A worker with a ring serves its
//! TLS clients by readiness too: the ring watches the poll.

pub mod epoll;
pub mod uring;
mod wire;

use crate::connection::Connection;
use crate::egress::EgressGate;
use evenkeel_runtime::uring::{Event as Completion, Ring};
use evenkeel_runtime::{Stream, TlsContext, Wire};
use evenkeel_server_core::WorkerCore;
use evenkeel_types::Now;
use mio::event::Event as Readiness;
use mio::{Events, Interest, Poll, Registry, Token};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

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

/// What moves the bytes of a worker's clients. Everything else that a worker waits for (wake-ups, its
/// listener, links to other servers) is announced by its poll in either case; a ring watches the poll.
#[derive(Debug)]
pub enum Transport {
    /// The poll announces the clients' sockets too.
    Epoll,
    /// The clients' sockets belong to the ring.
    Uring(Box<Ring>),
}

/// The socket of one client.
#[derive(Debug)]
pub enum Socket {
    /// Announced by the poll.
    Epoll(epoll::Socket<Wire>),
    /// Belongs to the ring.
    Uring(uring::Socket),
}

impl Transport {
    /// Called once, on the worker's thread.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn start(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Transport::Epoll => Ok(()),
            Transport::Uring(ring) => {
                ring.enable()?;
                ring.watch(registry.as_fd())
            }
        }
    }

    /// Waits until something happens, at most for `timeout`; `events` holds what the poll announces.
    ///
    /// # Errors
    /// Those of the kernel; also when a signal came in between.
    pub fn wait(
        &mut self,
        poll: &mut Poll,
        events: &mut Events,
        timeout: Duration,
    ) -> io::Result<()> {
        match self {
            Transport::Epoll => poll.poll(events, Some(timeout)),
            Transport::Uring(ring) => {
                events.clear();
                ring.wait(timeout)?;
                if ring.take_watched() {
                    poll.poll(events, Some(Duration::ZERO))?;
                }
                Ok(())
            }
        }
    }

    /// What has completed, one by one. Nothing, where sockets announce readiness.
    #[inline]
    pub fn next_completion(&mut self) -> Option<Completion> {
        match self {
            Transport::Epoll => None,
            Transport::Uring(ring) => ring.next_event(),
        }
    }

    /// How many receives found no free buffer since the last call.
    #[inline]
    pub fn take_starved(&mut self) -> u64 {
        match self {
            Transport::Epoll => 0,
            Transport::Uring(ring) => ring.take_starved(),
        }
    }

    /// Takes over the socket of a client that was just accepted, and begins TLS on it where its
    /// listener wants that. What happens to it is announced by the
    /// poll under `token`, or completes under `tag`.
    ///
    /// # Errors
    /// When the poll or TLS cannot take it.
    pub fn adopt(
        &mut self,
        registry: &Registry,
        token: Token,
        tag: u32,
        mut stream: Stream,
        tls: Option<&Arc<TlsContext>>,
    ) -> io::Result<Socket> {
        if let (Transport::Uring(ring), None) = (self, tls) {
            return Ok(Socket::Uring(uring::Socket::new(ring, stream, tag)));
        }
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Socket::Epoll(epoll::Socket::new(Wire::new(stream, tls)?)))
    }

    /// Serves a client within the bounds of a turn.
    ///
    /// # Panics
    /// When the socket belongs to a ring that this is not.
    #[inline]
    pub fn serve(
        &mut self,
        socket: &mut Socket,
        connection: &mut Connection,
        core: &mut WorkerCore,
        now: Now,
        scratch: &mut [u8],
        egress: &mut EgressGate,
    ) -> Served {
        match (self, socket) {
            (_, Socket::Epoll(socket)) => socket.serve(connection, core, now, scratch, egress),
            (Transport::Uring(ring), Socket::Uring(socket)) => {
                socket.serve(ring, connection, core, now, egress)
            }
            (Transport::Epoll, Socket::Uring(_)) => {
                unreachable!("a worker's transport never changes")
            }
        }
    }

    /// Closes a client's socket.
    pub fn close(&mut self, socket: Socket) {
        if let (Transport::Uring(ring), Socket::Uring(socket)) = (self, socket) {
            socket.close(ring);
        }
    }
}

impl Socket {
    /// Whether something has to be agreed on before the first byte.
    #[inline]
    pub fn is_opening(&self) -> bool {
        match self {
            Socket::Epoll(socket) => socket.is_opening(),
            Socket::Uring(_) => false,
        }
    }

    /// The poll has announced something.
    pub fn note_readiness(&mut self, event: &Readiness) {
        let over = event.is_read_closed() || event.is_error();
        if let Socket::Epoll(socket) = self
            && (event.is_readable() || over)
        {
            socket.mark_readable(over);
        }
    }

    /// Something has completed.
    #[inline]
    pub fn note(&mut self, completion: Completion) {
        if let Socket::Uring(socket) = self {
            socket.note(completion);
        }
    }
}
