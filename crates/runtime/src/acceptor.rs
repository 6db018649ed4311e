//! Accepts connections on the ordinary addresses and deals them out to the workers in turn, as
//! memcached's dispatcher thread does.

use crate::{ConnectionCount, Listener, Notifier, Stream};
use evenkeel_types::Instant;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;
use tracing::warn;

/// A connection that was accepted and counted in.
#[derive(Debug)]
pub struct Arrival {
    /// The connection.
    pub stream: Stream,
    /// Which of [`AcceptorConfig::listeners`] it came by.
    pub listener: usize,
}

/// What the acceptor works with.
#[derive(Debug)]
pub struct AcceptorConfig {
    /// The sockets to accept on.
    pub listeners: Vec<Listener>,
    /// Where each worker takes its connections, and how to wake it.
    pub workers: Vec<(Sender<Arrival>, Notifier)>,
    /// The limit that all connections count against.
    pub connections: Arc<ConnectionCount>,
}

/// What a client is told when the limit is reached (memcached's words).
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// Pause after [`Accepted::Exhausted`], so as not to spin on the same error.
pub const EXHAUSTED_PAUSE: Duration = Duration::from_millis(10);

/// New connections that an event loop takes in a turn: taking one costs as much as a few requests, and those that stand are
/// served in between.
pub const ARRIVALS_PER_TURN: usize = 32;

/// What takes the processor for as long as some hundred requests, such as a TLS handshake, goes on after those who are in were served, for this
/// part of the time which that took, and one in any case. So those who are in wait for one of these at most, or for a quarter longer, and a busy
/// worker still has a fifth of its time for them.
const LAST_PART: u32 = 4;

/// Until when those who come last are served in a turn that began at `begun`, where the others have been served by `served`.
pub fn last_until(begun: Instant, served: Instant) -> Instant {
    served + served.since(begun) / LAST_PART
}

/// How often the acceptor looks at its stop flag while nobody connects.
const STOP_LOOK: Duration = Duration::from_millis(100);

/// Accepts until `stop` is set or every worker is gone.
pub fn accept_forever(mut config: AcceptorConfig, stop: &AtomicBool) -> io::Result<()> {
    let mut poll = Poll::new()?;
    for (i, listener) in config.listeners.iter_mut().enumerate() {
        poll.registry()
            .register(listener, Token(i), Interest::READABLE)?;
    }
    let mut events = Events::with_capacity(64);
    let mut turn = 0usize;
    while !stop.load(Ordering::Acquire) {
        match poll.poll(&mut events, Some(STOP_LOOK)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => other?,
        }
        for event in &events {
            let listener = event.token().0;
            loop {
                match accept(&config.listeners[listener], &config.connections) {
                    Accepted::Stream(stream) => {
                        if !deal(&config, &mut turn, Arrival { stream, listener })? {
                            return Ok(());
                        }
                    }
                    Accepted::Nothing => {}
                    Accepted::Nobody => break,
                    Accepted::Exhausted if stop.load(Ordering::Acquire) => return Ok(()),
                    Accepted::Exhausted => std::thread::park_timeout(EXHAUSTED_PAUSE),
                }
            }
        }
    }
    Ok(())
}

/// What an attempt to accept came to.
#[derive(Debug)]
pub enum Accepted {
    /// A connection, counted in.
    Stream(Stream),
    /// One that is gone again, or was over the limit and has been told so. More may wait.
    Nothing,
    /// Nobody waits.
    Nobody,
    /// Descriptors or memory ran out, or the limit is reached and those over it shall wait. They
    /// stay in the backlog and are not announced again: the caller has to come back by itself, after
    /// [`EXHAUSTED_PAUSE`].
    Exhausted,
}

/// Accepts one connection, if one waits and the limit allows it. What happens to one over the limit
/// is [`ConnectionCount`]'s rule: it is told and closed, or left waiting.
pub fn accept(listener: &Listener, connections: &ConnectionCount) -> Accepted {
    if !connections.may_accept() {
        connections.stopped_accepting();
        return Accepted::Exhausted;
    }
    let accepted = match listener.accept() {
        Ok(stream) if connections.try_open() => Accepted::Stream(stream),
        Ok(mut stream) => {
            let limit = connections.limit();
            warn!(limit, "connection limit reached: clients are refused");
            // The client may be gone already; it is closed either way.
            let _ = stream.write(TOO_MANY);
            Accepted::Nothing
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Accepted::Nobody,
        Err(error) if is_of_one_connection(&error) => Accepted::Nothing,
        Err(_) => {
            connections.stopped_accepting();
            return Accepted::Exhausted;
        }
    };
    connections.accepts();
    accepted
}

/// Hands a connection to the next worker. False when that worker is gone: the process is stopping.
fn deal(config: &AcceptorConfig, turn: &mut usize, arrival: Arrival) -> io::Result<bool> {
    let (sender, notifier) = &config.workers[*turn % config.workers.len()];
    *turn = turn.wrapping_add(1);
    if sender.send(arrival).is_err() {
        return Ok(false);
    }
    notifier.notify()?;
    Ok(true)
}

/// True for errors that concern the connection just accepted and not the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}
