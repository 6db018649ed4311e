//! Listening sockets.

use crate::UsageError;
use crate::stream::Stream;
use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A socket that accepts connections, non-blocking.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A unix socket; its file is removed when the listener goes.
    Unix(UnixListener, PathBuf),
}

/// Listens on a TCP address. Port 0 takes a free port; ask [`Listener::address`] which.
pub fn bind_tcp(address: SocketAddr, backlog: u32) -> Result<Listener, UsageError> {
    let bind = || -> io::Result<Listener> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SockAddr::from(address))?;
        socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        Ok(Listener::Tcp(TcpListener::from_std(socket.into())))
    };
    bind().map_err(|error| UsageError(format!("failed to listen on {address}: {error}")))
}

/// Listens on a unix socket. A stale socket file of an earlier run is replaced; any other file is
/// left alone and refused.
///
/// `mode` is the permission bits of the socket file (memcached's `-a`).
pub fn bind_unix(path: &Path, mode: u32) -> Result<Listener, UsageError> {
    let bind = || -> io::Result<Listener> {
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path)?,
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "not a socket")),
            Err(_) => {}
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        Ok(Listener::Unix(listener, path.to_owned()))
    };
    bind().map_err(|error| UsageError(format!("failed to listen on {}: {error}", path.display())))
}

impl Listener {
    /// Accepts one connection; `WouldBlock` when none waits.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::from(stream)),
            Listener::Unix(listener, _) => {
                listener.accept().map(|(stream, _)| Stream::from(stream))
            }
        }
    }

    /// The TCP address it really listens on; `None` for a unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(..) => None,
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.address()) {
            (Listener::Unix(_, path), _) => write!(f, "{}", path.display()),
            (_, Some(address)) => write!(f, "{address}"),
            (_, None) => f.write_str("closed"),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // The file may be gone already; then there is nothing to tidy up.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Source for Listener {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.register(registry, token, interest),
            Listener::Unix(listener, _) => listener.register(registry, token, interest),
        }
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.reregister(registry, token, interest),
            Listener::Unix(listener, _) => listener.reregister(registry, token, interest),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.deregister(registry),
            Listener::Unix(listener, _) => listener.deregister(registry),
        }
    }
}
