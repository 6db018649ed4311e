//! A connection to a server: its socket, or TLS on it.

use evenkeel_control::http::shortened;
use evenkeel_proxy_core::{BackendId, Cause, ProxyCore};
use evenkeel_runtime::{InputBuffer, Stream, TlsStream, shortest_round_trip};
use evenkeel_types::Instant;
use std::io::{self, ErrorKind, Read, Write};

/// Most reads of one connection in a turn.
const READS_PER_TURN: usize = 8;

/// What carries a connection's bytes.
#[derive(Debug)]
pub enum Wire {
    /// The socket.
    Plain(Stream),
    /// TLS on it. Boxed: its state is a hundred times that of a socket.
    Tls(Box<TlsStream<Stream>>),
}

impl Wire {
    /// Whether another read may bring something although the socket has nothing.
    fn has_ended(&self) -> bool {
        match self {
            Wire::Plain(_) => false,
            Wire::Tls(stream) => stream.has_ended(),
        }
    }

    /// Whether there is something to send that nobody wrote: a part of a handshake.
    fn has_unsent(&self) -> bool {
        match self {
            Wire::Plain(_) => false,
            Wire::Tls(stream) => stream.has_unsent(),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.read(buffer),
            Wire::Tls(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.write(bytes),
            Wire::Tls(stream) => stream.write(bytes),
        }
    }
}

/// A connection to a server, made or in the making.
#[derive(Debug)]
pub struct ServerLink {
    /// Its name in the core.
    pub id: BackendId,
    wire: Wire,
    input: InputBuffer,
    /// The connection stands.
    connected: bool,
    readable: bool,
    /// The socket said that the end of the stream can be read.
    ends: bool,
    writable: bool,
    /// It is in the list of connections to serve.
    pub queued: bool,
}

impl ServerLink {
    /// A connection that was just begun. The socket is registered already.
    pub fn new(id: BackendId, wire: Wire) -> Self {
        ServerLink {
            id,
            wire,
            input: InputBuffer::default(),
            connected: false,
            readable: false,
            ends: false,
            writable: false,
            queued: false,
        }
    }

    /// The socket said that there is something to read, or that the peer's end of stream is.
    pub fn mark_readable(&mut self, ends: bool) {
        self.readable = true;
        self.ends |= ends;
    }

    /// The socket said that it takes bytes, or that connecting has come to an end. Whether it takes bytes
    /// and did not before.
    ///
    /// # Errors
    /// It could not connect.
    pub fn mark_writable(&mut self, core: &mut ProxyCore) -> io::Result<bool> {
        if !self.connected {
            match self.socket_error() {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(false),
                Err(error) => return Err(error),
            }
            self.connected = true;
            let address = self.socket().peer_address();
            core.backend_connected(self.id, address.map(|address| address.ip()));
            self.tell_round_trip(core);
        }
        Ok(!std::mem::replace(&mut self.writable, true))
    }

    /// Tells how long the way to the server takes, once the connection stands.
    pub fn tell_round_trip(&self, core: &mut ProxyCore) {
        if self.connected
            && let Some(shortest) = shortest_round_trip(self.socket())
        {
            core.backend_round_trip(self.id, shortest);
        }
    }

    fn socket(&self) -> &Stream {
        match &self.wire {
            Wire::Plain(stream) => stream,
            Wire::Tls(stream) => stream.socket(),
        }
    }

    /// The error of connecting. TLS is spoken once the socket is connected.
    fn socket_error(&mut self) -> io::Result<()> {
        match &mut self.wire {
            Wire::Plain(stream) => stream.take_error(),
            Wire::Tls(stream) => {
                stream.socket().take_error()?;
                stream.flush()
            }
        }
    }

    /// Gives the core what can be read, within the bounds of a turn. True when there may be more.
    ///
    /// # Errors
    /// The connection is over; what came before has been given.
    pub fn serve(
        &mut self,
        core: &mut ProxyCore,
        now: Instant,
        scratch: &mut [u8],
    ) -> io::Result<bool> {
        for _ in 0..READS_PER_TURN {
            if !self.readable {
                return Ok(false);
            }
            match self.wire.read(scratch) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    // A short read has emptied the socket, and more bytes will be announced anew; an
                    // end of stream that has been announced already will not.
                    self.readable = count == scratch.len() || self.ends || self.wire.has_ended();
                    self.give(core, now, &scratch[..count]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.readable = false;
                    // What a read had to answer may not have left: the socket will say when it can.
                    self.writable &= !self.wire.has_unsent();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.readable)
    }

    /// Sends what the handshake has to say; the greeting waits behind it.
    fn flush_handshake(&mut self) -> io::Result<()> {
        if let Wire::Tls(stream) = &mut self.wire
            && self.writable
            && stream.has_unsent()
        {
            stream.flush()?;
            self.writable = !stream.has_unsent();
        }
        Ok(())
    }

    fn give(&mut self, core: &mut ProxyCore, now: Instant, bytes: &[u8]) {
        if self.input.is_empty() {
            let consumed = core.backend_input(now, self.id, bytes);
            if consumed < bytes.len() {
                self.input.begin(&bytes[consumed..], core.rooms());
            }
        } else {
            self.input.push(bytes);
            let consumed = core.backend_input(now, self.id, self.input.as_slice());
            core.rooms().keep(self.input.consume(consumed));
        }
    }

    /// Writes what the socket takes.
    ///
    /// # Errors
    /// The connection is over.
    pub fn flush(&mut self, core: &mut ProxyCore) -> io::Result<()> {
        self.flush_handshake()?;
        while self.writable {
            let bytes = core.backend_output(self.id);
            if bytes.is_empty() {
                break;
            }
            let len = bytes.len();
            match self.wire.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    core.backend_wrote(self.id, count);
                    if count == len {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What an error of a connection says of the server, in one line of bounded length: a certificate's names are the server's words.
/// An error of the kind "not found" is that its name has no address.
pub fn cause_of(error: &io::Error) -> Cause {
    match error.kind() {
        ErrorKind::NotFound => Cause::NoSuchHost,
        ErrorKind::ConnectionRefused => Cause::Refused,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Cause::Unreachable,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Cause::Reset,
        ErrorKind::UnexpectedEof => Cause::Closed,
        ErrorKind::TimedOut => Cause::ConnectTimeout,
        ErrorKind::InvalidData => Cause::Tls(shortened(&error.to_string()).into()),
        _ => Cause::Other(shortened(&error.to_string()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients are told the cause: it must not become a second answer.
    #[test]
    fn what_a_server_says_of_itself_stays_in_its_line() {
        let names = format!("only valid for a\r\nVALUE k 0 1\r\n{}", "x".repeat(10_000));
        for kind in [ErrorKind::InvalidData, ErrorKind::Other] {
            let told = cause_of(&io::Error::new(kind, names.clone())).to_string();
            assert!(told.contains("only valid for a"), "{told}");
            assert!(
                !told.contains(char::is_control) && told.len() < 400,
                "{told}"
            );
        }
    }
}
