//! Listening sockets.

use crate::UsageError;
use crate::stream::Stream;
use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use rustix::fs::Mode;
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A connection on which nothing has come for this long is asked whether its client is still there.
/// Long beside any pause of a busy application, short beside the hours for which a firewall that
/// forgot a connection would keep its memory occupied.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(300);

/// Pause between such questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// A client whose machine has confirmed nothing for this long, be it data or such a question, is gone.
const USER_TIMEOUT: Duration = Duration::from_secs(60);

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
    try_bind_tcp(address, backlog)
        .map_err(|error| UsageError(format!("failed to listen on {address}: {error}")))
}

/// [`bind_tcp`], with the system's error.
///
/// The options are those of connections too: Linux hands them down from the listener, which costs no
/// system call for each.
///
/// # Errors
/// When the system refuses.
pub fn try_bind_tcp(address: SocketAddr, backlog: u32) -> io::Result<Listener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // Every address of IPv4 is listened on by itself, as in memcached.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    // Answers are written whole: to wait for more only adds latency.
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(Listener::Tcp(TcpListener::from_std(socket.into())))
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
        // The mask, and not a later change: nobody else may connect in between.
        let before = rustix::process::umask(Mode::from_raw_mode(!mode & 0o777));
        let listener = UnixListener::bind(path);
        rustix::process::umask(before);
        Ok(Listener::Unix(listener?, path.to_owned()))
    };
    bind().map_err(|error| UsageError(format!("failed to listen on {}: {error}", path.display())))
}

impl Listener {
    /// Accepts one connection; `WouldBlock` when none waits.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            // Its options came with it from the listener.
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::SockRef;
    use std::os::unix::fs::PermissionsExt;

    fn accepted(listener: &Listener) -> Stream {
        loop {
            match listener.accept() {
                Ok(stream) => return stream,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
    }

    #[test]
    fn connections_have_the_options_of_their_listener() {
        let listener = bind_tcp("127.0.0.1:0".parse().expect("an address"), 8).expect("bound");
        let address = listener.address().expect("TCP");
        let _client = std::net::TcpStream::connect(address).expect("somebody listens");
        let Stream::Tcp(stream) = accepted(&listener) else {
            panic!("TCP was accepted");
        };
        let socket = SockRef::from(&stream);
        assert!(socket.tcp_nodelay().expect("an option"));
        assert!(socket.keepalive().expect("an option"));
        assert_eq!(
            socket.tcp_keepalive_time().expect("an option"),
            KEEPALIVE_IDLE
        );
        assert_eq!(
            socket.tcp_user_timeout().expect("an option"),
            Some(USER_TIMEOUT)
        );
    }

    #[test]
    fn a_unix_socket_has_its_permissions_from_the_start_and_goes_with_its_listener() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("socket");
        let listener = bind_unix(&path, 0o640).expect("bound");
        let mode = std::fs::metadata(&path)
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o640);
        drop(listener);
        assert!(!path.exists());
        std::fs::write(&path, "a file").expect("written");
        assert!(
            bind_unix(&path, 0o700).is_err(),
            "somebody's file is left alone"
        );
    }
}
