//! What a client's bytes come by: the socket itself, or TLS on it.

use super::epoll::Bytes;
use evenkeel_runtime::{Stream, TlsFailure, TlsStream};
use std::io::{self, Read, Write};

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

impl Bytes for Wire {
    #[inline]
    fn may_have_more(&self, count: usize, wanted: usize) -> bool {
        match self {
            Wire::Plain(_) => count == wanted,
            Wire::Tls(stream) => count == wanted || stream.has_ended(),
        }
    }

    #[inline]
    fn is_opening(&self) -> bool {
        match self {
            Wire::Plain(_) => false,
            Wire::Tls(stream) => stream.is_handshaking(),
        }
    }

    fn finish(&mut self) {
        if let Wire::Tls(stream) = self {
            stream.finish();
        }
    }

    fn failure(&self) -> Option<TlsFailure> {
        match self {
            Wire::Plain(_) => None,
            Wire::Tls(stream) => stream.failure(),
        }
    }
}
