//! One connection's TLS, between a non-blocking stream and anyone who reads and writes plain bytes.

use rustls::{Connection, ServerConfig, ServerConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

/// Plain bytes that one `write` takes at most. With the records' own overhead they fit into rustls's
/// buffer of records.
const WRITE_MAX: usize = 48 * 1024;

/// What became of a connection, for the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFailure {
    /// It never came about: another protocol, no common version or suite, a certificate that is
    /// missing or not of a known authority, or the client left.
    Handshake,
    /// The client broke the protocol later.
    Protocol,
}

/// One end of a TLS connection. Reads and writes plain bytes; says `WouldBlock` as the
/// stream below does, and must then be called again once that is ready.
///
/// `write` keeps nothing back: it takes some bytes, and reports them as written only once their
/// records have left. Until then it says `WouldBlock` and wants to be called with the same bytes
/// again, as OpenSSL does. So anyone who writes can tell from its own queue whether everything is gone.
#[derive(Debug)]
pub struct TlsStream<S> {
    stream: S,
    session: Connection,
    /// Plain bytes whose records are made and have not all left.
    taken: usize,
    /// The client sends no more.
    ended: bool,
    failure: Option<TlsFailure>,
}

impl<S: Read + Write> TlsStream<S> {
    /// The server's end of a connection on which nothing was said yet.
    ///
    /// # Errors
    /// When rustls finds the configuration unusable.
    pub fn new(stream: S, config: &Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let session = ServerConnection::new(Arc::clone(config))?;
        Ok(TlsStream::over(stream, session.into()))
    }

    pub(super) fn over(stream: S, session: Connection) -> Self {
        TlsStream {
            stream,
            session,
            taken: 0,
            ended: false,
            failure: None,
        }
    }

    /// Whether records are made that the stream has not taken yet.
    pub fn has_unsent(&self) -> bool {
        self.session.wants_write()
    }

    /// Whether client and server have not agreed yet.
    pub fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// The client sends no more, or has broken the protocol: the next `read` says so whether or not
    /// the stream becomes ready.
    pub fn has_ended(&self) -> bool {
        self.ended || self.failure.is_some()
    }

    /// What went wrong, after an error of `read` or `write`, or after the client left too early.
    pub fn failure(&self) -> Option<TlsFailure> {
        self.failure
    }

    /// What carries the records.
    pub fn socket(&self) -> &S {
        &self.stream
    }

    #[cfg(test)]
    pub(super) fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Tells the client that nothing follows, as far as the stream takes it.
    pub fn finish(&mut self) {
        self.session.send_close_notify();
        // A client that does not read is not waited for: the stream is about to be closed.
        let _ = self.push();
    }

    /// Sends records that are made. `WouldBlock` when some are left.
    fn push(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes records from the stream once, and answers those of the handshake.
    fn pull(&mut self) -> io::Result<()> {
        if self.failure.is_some() {
            return Err(ErrorKind::InvalidData.into());
        }
        while let Err(error) = self.session.read_tls(&mut self.stream) {
            if error.kind() != ErrorKind::Interrupted {
                return Err(error);
            }
        }
        if let Err(error) = self.session.process_new_packets() {
            self.failure = Some(self.failure_now());
            // The alert that says why; the error matters more than whether it leaves.
            let _ = self.push();
            return Err(io::Error::new(ErrorKind::InvalidData, error));
        }
        match self.push() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    fn failure_now(&self) -> TlsFailure {
        if self.session.is_handshaking() {
            TlsFailure::Handshake
        } else {
            TlsFailure::Protocol
        }
    }

    /// Plain bytes that have come; `None` when more records are needed first.
    fn plain(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.session.reader().read(buffer) {
            Ok(0) => {
                self.ended = true;
                Ok(Some(0))
            }
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            // The client closed without saying so first, as many do. A command that was cut short
            // is recognised as such by its own framing.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.ended = true;
                if self.session.is_handshaking() {
                    self.failure = Some(TlsFailure::Handshake);
                }
                Ok(Some(0))
            }
            Err(error) => Err(error),
        }
    }
}

impl<S: Read + Write> Read for TlsStream<S> {
    /// Fills as much of the buffer as records have come for.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.plain(&mut buffer[filled..])? {
                Some(0) => break,
                Some(count) => filled += count,
                None => match self.pull() {
                    Ok(()) => {}
                    // What came before is good; the error comes again.
                    Err(_) if filled > 0 => break,
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(filled)
    }
}

impl<S: Read + Write> Write for TlsStream<S> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.taken == 0 {
            // Nothing else is to leave before: rustls's buffer is empty and has room.
            self.push()?;
            let part = &buffer[..buffer.len().min(WRITE_MAX)];
            self.taken = self.session.writer().write(part)?;
        }
        self.push()?;
        Ok(std::mem::take(&mut self.taken))
    }

    /// Sends what the handshake has to say.
    fn flush(&mut self) -> io::Result<()> {
        match self.push() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }
}
