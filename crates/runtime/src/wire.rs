//! What a client's bytes come by: the socket itself, or TLS on it.

use crate::{Stream, TlsContext, TlsFailure, TlsStream};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// The carrier of a connection's bytes.
#[derive(Debug)]
pub enum Wire {
    /// The socket.
    Plain(Stream),
    /// TLS on it. Boxed: its state is a hundred times that of a socket.
    Tls(Box<TlsStream<Stream>>),
}

impl Read for Wire {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.read(buffer),
            Wire::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
    #[inline]
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.write(buffer),
            Wire::Tls(stream) => stream.write(buffer),
        }
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Plain(_) => Ok(()),
            Wire::Tls(stream) => stream.flush(),
        }
    }
}

impl Wire {
    /// A stream that was just accepted, with TLS on it where there is a context for that.
    ///
    /// # Errors
    /// When TLS cannot begin.
    pub fn new(stream: Stream, tls: Option<&Arc<TlsContext>>) -> io::Result<Self> {
        Ok(match tls {
            None => Wire::Plain(stream),
            Some(context) => {
                let stream = TlsStream::new(stream, context).map_err(io::Error::other)?;
                Wire::Tls(Box::new(stream))
            }
        })
    }

    /// The socket.
    pub fn socket(&self) -> &Stream {
        match self {
            Wire::Plain(stream) => stream,
            Wire::Tls(stream) => stream.socket(),
        }
    }

    /// After a read that gave `count` of `wanted` bytes: whether the next one may give more although
    /// the socket says nothing. A short read of a socket has emptied it.
    #[inline]
    pub fn may_have_more(&self, count: usize, wanted: usize) -> bool {
        match self {
            Wire::Plain(_) => count == wanted,
            Wire::Tls(stream) => count == wanted || stream.has_ended(),
        }
    }

    /// Whether something has to be agreed on before the first byte.
    #[inline]
    pub fn is_opening(&self) -> bool {
        match self {
            Wire::Plain(_) => false,
            Wire::Tls(stream) => stream.is_handshaking(),
        }
    }

    /// Nothing follows; says so to the client where the carrier has words for it.
    pub fn finish(&mut self) {
        if let Wire::Tls(stream) = self {
            stream.finish();
        }
    }

    /// What went wrong with the carrier.
    pub fn failure(&self) -> Option<TlsFailure> {
        match self {
            Wire::Plain(_) => None,
            Wire::Tls(stream) => stream.failure(),
        }
    }
}
