//! An application's connection: its socket, what it has left over, and since when it has not moved.

use evenkeel_proxy_core::{ClientId, ProxyCore};
use evenkeel_runtime::budget::Holding;
use evenkeel_runtime::{InputBuffer, Stream, TlsFailure, Wire};
use evenkeel_types::Instant;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// Most reads of one connection in a turn, so that a fast sender does not starve the others.
const READS_PER_TURN: usize = 4;

/// A request is large of which this many bytes have come in part.
const LARGE_MIN: usize = 32 << 10;

/// A connection of an application.
#[derive(Debug)]
pub struct Application {
    /// Its name in the core.
    pub id: ClientId,
    wire: Wire,
    input: InputBuffer,
    /// The socket may have bytes to read: it said so and no read has come up short since.
    readable: bool,
    /// The socket takes bytes, as far as we know.
    writable: bool,
    /// The socket said that the end of the stream can be read.
    ends: bool,
    /// The application has shut its sending side.
    ended: bool,
    /// It is in the list of connections to serve.
    pub queued: bool,
    /// It was not served before.
    is_new: bool,
    /// Since when it owes progress: half a request has come, or answers are not read.
    stalled_since: Option<Instant>,
    /// Bytes that the process counts for it.
    pub counted: usize,
    /// Since when it is judged by what it moves.
    judged_since: Instant,
    /// Bytes that it has sent and taken since.
    moved: usize,
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

impl Application {
    /// A connection that was just accepted. The socket is registered already.
    pub fn new(id: ClientId, wire: Wire) -> Self {
        Application {
            id,
            wire,
            input: InputBuffer::default(),
            readable: true,
            writable: true,
            ends: false,
            ended: false,
            queued: false,
            is_new: true,
            stalled_since: None,
            counted: 0,
            judged_since: Instant::default(),
            moved: 0,
        }
    }

    /// Bytes of memory that it holds: of requests that have come in part, and of answers that it has not read.
    pub fn held(&self, core: &ProxyCore) -> usize {
        let input = match self.input.is_empty() {
            true => 0,
            false => self.input.capacity(),
        };
        input + core.client_held(self.id)
    }

    /// It holds other memory than before. It is judged anew from when it begins to hold any.
    pub fn count(&mut self, held: usize, now: Instant) {
        if self.counted == 0 {
            self.judged_since = now;
            self.moved = 0;
        }
        self.counted = held;
    }

    /// What it holds, and what came of it.
    pub fn holding(&self) -> Holding {
        Holding {
            bytes: self.counted,
            since: self.judged_since,
            moved: self.moved,
            moves_well: false,
        }
    }

    /// Lets what it has moved long ago count for less: half of its time and of what it moved in it is forgotten.
    pub fn forget_half(&mut self, now: Instant) {
        self.judged_since = self.judged_since + now.since(self.judged_since) / 2;
        self.moved /= 2;
    }

    /// Where it comes from, for the log.
    pub fn peer(&self) -> Option<String> {
        match self.wire.socket() {
            Stream::Unix(_) => Some("unix".to_owned()),
            stream => stream.peer_address().map(|address| address.to_string()),
        }
    }

    /// Where it comes from, without the port, for the profile.
    pub fn origin(&self) -> String {
        let address = self.wire.socket().peer_address();
        address.map_or_else(
            || "unix".to_owned(),
            |address| address.ip().to_canonical().to_string(),
        )
    }

    /// The address of the proxy that it has reached; `None` by a unix socket.
    pub fn reached(&self) -> Option<SocketAddr> {
        self.wire.socket().own_address()
    }

    /// Whether others go first: it was not served before, TLS has something to agree on, or a large request of its has come in part. Each of
    /// these takes the processor for as long as many requests, and any number may come at once.
    #[inline]
    pub fn comes_last(&self) -> bool {
        self.is_new || self.wire.is_opening() || self.input.len() >= LARGE_MIN
    }

    /// The socket said that there is something to read, or that the peer's end of stream is.
    pub fn mark_readable(&mut self, ends: bool) {
        self.readable = true;
        self.ends |= ends;
    }

    /// The socket said that it takes bytes. Whether that is news.
    pub fn mark_writable(&mut self) -> bool {
        // TLS has things to say that nobody here knows of.
        !std::mem::replace(&mut self.writable, true) || self.wire.is_opening()
    }

    /// Gives the core what is left over and what can be read, within the bounds of a turn. `time` tells the
    /// time, and is asked when the input is there.
    #[inline(always)]
    pub fn serve(
        &mut self,
        core: &mut ProxyCore,
        time: impl Fn(&ProxyCore) -> Instant,
        scratch: &mut [u8],
    ) -> Served {
        self.is_new = false;
        if !self.input.is_empty() || self.ended {
            self.give(core, time(core), &[]);
        }
        let is_large = self.input.len() >= LARGE_MIN;
        for _ in 0..READS_PER_TURN {
            if !self.readable || self.ended || !core.client_wants_input(self.id) {
                return Served::Idle;
            }
            match self.wire.read(scratch) {
                Ok(0) => {
                    self.ended = true;
                    core.client_ended(self.id);
                    self.give(core, time(core), &[]);
                }
                Ok(count) => {
                    // A short read has emptied the socket, and more bytes will be announced anew; an
                    // end of stream that has been announced already will not.
                    self.readable = self.ends || self.wire.may_have_more(count, scratch.len());
                    self.give(core, time(core), &scratch[..count]);
                    self.stalled_since = None;
                    self.moved += count;
                    if !is_large && self.input.len() >= LARGE_MIN {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Whatever went wrong with the socket, there is nobody left to tell.
                Err(_) => return Served::Closed,
            }
        }
        if self.readable {
            Served::More
        } else {
            Served::Idle
        }
    }

    /// Gives the core what is left over and `bytes` behind it, and keeps what it does not consume.
    fn give(&mut self, core: &mut ProxyCore, now: Instant, bytes: &[u8]) {
        if self.input.is_empty() {
            let consumed = core.client_input(now, self.id, bytes);
            if consumed < bytes.len() {
                self.input.begin(&bytes[consumed..], core.rooms());
            }
        } else {
            self.input.push(bytes);
            let consumed = core.client_input(now, self.id, self.input.as_slice());
            core.rooms().keep(self.input.consume(consumed));
        }
    }

    /// Whether it holds memory, or has come to hold some of what it has sent.
    pub fn holds_any(&self) -> bool {
        self.counted > 0 || !self.input.is_empty()
    }

    /// Writes what the socket takes. False when that was not all.
    ///
    /// # Errors
    /// The connection is over.
    #[inline(always)]
    pub fn flush(&mut self, core: &mut ProxyCore) -> io::Result<bool> {
        let mut is_drained = false;
        while self.writable {
            let bytes = core.client_output(self.id);
            if bytes.is_empty() {
                is_drained = true;
                break;
            }
            let len = bytes.len();
            match self.wire.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.stalled_since = None;
                    self.moved += count;
                    core.client_wrote(self.id, count);
                    if count == len {
                        is_drained = true;
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.wire.flush()?;
        Ok(is_drained)
    }

    /// Tells the application that nothing follows, where TLS has words for that, and what had gone
    /// wrong with it.
    pub fn finish(&mut self) -> Option<TlsFailure> {
        self.wire.finish();
        self.wire.failure()
    }

    /// How long the application has owed progress: the rest of a request, or to read its answers.
    /// Zero when it owes none. To be asked from time to time; counts from the first time that it is
    /// found owing.
    pub fn stalled_for(&mut self, core: &ProxyCore, now: Instant) -> Duration {
        let half_request = !self.input.is_empty() && core.client_wants_input(self.id);
        let owes = half_request || self.wire.is_opening();
        if !owes && core.client_output(self.id).is_empty() {
            self.stalled_since = None;
            return Duration::ZERO;
        }
        now.since(*self.stalled_since.get_or_insert(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_placement::config::{PlacementConfig, Server};
    use evenkeel_proxy_core::{PoolKind, PoolSettings, ProxyConfig, ServerList};
    use mio::net::UnixStream;
    use std::sync::Arc;

    /// A core, an application's connection to it, and the application's end.
    fn connected() -> (ProxyCore, Application, UnixStream) {
        let servers = ServerList::new(PlacementConfig {
            servers: vec![Server::new("127.0.0.1", 1)],
            ..PlacementConfig::default()
        });
        let pool = PoolKind::Memcached(Arc::new(servers.expect("a placement")));
        let config = ProxyConfig::of_pool(pool, PoolSettings::default());
        let mut core = ProxyCore::new(&Arc::new(config), 1);
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let application = Application::new(core.client_opened(), Wire::Plain(Stream::from(ours)));
        (core, application, theirs)
    }

    fn at(s: u64) -> Instant {
        Instant::from_millis(1000 * s)
    }

    #[test]
    fn half_a_request_owes_the_other_half() {
        let (mut core, mut application, mut theirs) = connected();
        let mut scratch = [0; 64];
        application.serve(&mut core, |_| at(1), &mut scratch);
        assert_eq!(application.stalled_for(&core, at(1)), Duration::ZERO);
        theirs.write_all(b"version").expect("room");
        application.mark_readable(false);
        application.serve(&mut core, |_| at(2), &mut scratch);
        assert_eq!(application.stalled_for(&core, at(2)), Duration::ZERO);
        assert_eq!(
            application.stalled_for(&core, at(32)),
            Duration::from_secs(30)
        );
        theirs.write_all(b" \r").expect("room");
        application.mark_readable(false);
        application.serve(&mut core, |_| at(32), &mut scratch);
        assert_eq!(
            application.stalled_for(&core, at(33)),
            Duration::ZERO,
            "it moves"
        );
        theirs.write_all(b"\n").expect("room");
        application.mark_readable(false);
        application.serve(&mut core, |_| at(40), &mut scratch);
        application.flush(&mut core).expect("it is read");
        assert_eq!(application.stalled_for(&core, at(99)), Duration::ZERO);
    }

    #[test]
    fn an_end_of_stream_that_was_announced_with_the_last_bytes_is_read() {
        let (mut core, mut application, mut theirs) = connected();
        theirs.write_all(b"version\r\n").expect("room");
        drop(theirs);
        application.mark_readable(true);
        application.serve(&mut core, |_| at(1), &mut [0; 64]);
        assert!(application.ended, "no further event tells of it");
    }
}
