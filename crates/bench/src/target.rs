//! Where load goes: a TCP address or a unix socket.

use evenkeel_runtime::resolve_server;
use mio::{Interest, Registry, Token, event};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// How long the first connection to a target may take.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server to put load on: `HOST` or `HOST:PORT`, or the path of a unix socket (with a `/` in it).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    text: String,
    address: Address,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for Target {
    type Err = String;

    /// Resolves the host's name, which may ask a name server.
    fn from_str(text: &str) -> Result<Self, String> {
        let address = if text.contains('/') {
            Address::Unix(PathBuf::from(text))
        } else {
            Address::Tcp(resolve_server(text)?)
        };
        Ok(Target {
            text: text.to_owned(),
            address,
        })
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Target {
            text: address.to_string(),
            address: Address::Tcp(address),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Target {
    /// Its address; nothing for a unix socket.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self.address {
            Address::Tcp(address) => Some(address),
            Address::Unix(_) => None,
        }
    }

    /// Connects, and waits until it is done.
    pub(crate) fn connect(&self) -> io::Result<Socket> {
        match &self.address {
            Address::Tcp(address) => Socket::from_tcp(std::net::TcpStream::connect_timeout(
                address,
                CONNECT_TIMEOUT,
            )?),
            Address::Unix(path) => {
                let socket = std::os::unix::net::UnixStream::connect(path)?;
                socket.set_nonblocking(true)?;
                Ok(Socket::Unix(mio::net::UnixStream::from_std(socket)))
            }
        }
    }

    /// Begins to connect; whether it succeeds shows at the first read or write.
    pub(crate) fn begin_connect(&self) -> io::Result<Socket> {
        match &self.address {
            Address::Tcp(address) => {
                let socket = mio::net::TcpStream::connect(*address)?;
                socket.set_nodelay(true)?;
                Ok(Socket::Tcp(socket))
            }
            Address::Unix(path) => Ok(Socket::Unix(mio::net::UnixStream::connect(path)?)),
        }
    }
}

/// A non-blocking connection.
pub(crate) enum Socket {
    Tcp(mio::net::TcpStream),
    Unix(mio::net::UnixStream),
}

impl Socket {
    /// Makes a connection that is open ready for an event loop.
    pub(crate) fn from_tcp(socket: std::net::TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        Ok(Socket::Tcp(mio::net::TcpStream::from_std(socket)))
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(buffer),
            Socket::Unix(socket) => socket.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.write(bytes),
            Socket::Unix(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl event::Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, what: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.register(registry, token, what),
            Socket::Unix(socket) => socket.register(registry, token, what),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, what: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.reregister(registry, token, what),
            Socket::Unix(socket) => socket.reregister(registry, token, what),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.deregister(registry),
            Socket::Unix(socket) => socket.deregister(registry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_addresses_or_paths() {
        let tcp: Target = "127.0.0.1:11211".parse().unwrap();
        assert_eq!(tcp.to_string(), "127.0.0.1:11211");
        assert_eq!(tcp, Target::from(SocketAddr::from(([127, 0, 0, 1], 11211))));
        assert!(matches!(
            "./socket".parse::<Target>().unwrap().address,
            Address::Unix(_)
        ));
        assert_eq!("127.0.0.1".parse::<Target>().unwrap().address, tcp.address);
        assert!("22121".parse::<Target>().is_err());
        assert!("".parse::<Target>().is_err());
    }
}
