//! A connection: TCP or unix socket, non-blocking.

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A non-blocking connection.
#[derive(Debug)]
pub enum Stream {
    /// TCP, with Nagle's algorithm off: answers are written whole, waiting only adds latency.
    Tcp(TcpStream),
    /// Unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Begins to connect. The connection stands once the socket becomes writable and
    /// [`Stream::take_error`] finds nothing.
    pub fn connect(address: SocketAddr) -> io::Result<Stream> {
        TcpStream::connect(address).map(Stream::from)
    }

    /// The other end's TCP address; `None` for a unix socket, and for a connection that is gone.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().ok(),
            Stream::Unix(_) => None,
        }
    }

    /// This end's TCP address; `None` for a unix socket, and for a connection that is gone.
    pub fn own_address(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(stream) => stream.local_addr().ok(),
            Stream::Unix(_) => None,
        }
    }

    /// The error that a failed connect left behind, or `NotConnected` while it is still under way.
    pub fn take_error(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => match stream.take_error()? {
                Some(error) => Err(error),
                None => stream.peer_addr().map(|_| ()),
            },
            Stream::Unix(stream) => match stream.take_error()? {
                Some(error) => Err(error),
                None => Ok(()),
            },
        }
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        // Without it answers are correct all the same, only later.
        let _ = stream.set_nodelay(true);
        Stream::Tcp(stream)
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        Stream::Unix(stream)
    }
}

impl From<Stream> for OwnedFd {
    fn from(stream: Stream) -> Self {
        match stream {
            Stream::Tcp(stream) => stream.into(),
            Stream::Unix(stream) => stream.into(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

// Straight to the kernel: what the C library puts around a call that a thread may be cancelled in
// costs some sixty instructions each time.

impl Read for Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, _) = recv(&*self, buffer, RecvFlags::empty())?;
        Ok(count)
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        Ok(send(&*self, buffer, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Stream {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.register(registry, token, interest),
            Stream::Unix(stream) => stream.register(registry, token, interest),
        }
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.reregister(registry, token, interest),
            Stream::Unix(stream) => stream.reregister(registry, token, interest),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.deregister(registry),
            Stream::Unix(stream) => stream.deregister(registry),
        }
    }
}
