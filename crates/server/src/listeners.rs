//! The sockets of the ordinary port: made as the command line says, and what each says of its
//! connections.

use crate::args::{Args, protocols_of};
use evenkeel_runtime::{Listener, ListenerTls, TlsKind, UsageError, bind_unix, write_whole};
use evenkeel_server_core::Protocols;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// What a listener says of its connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerKind {
    /// TLS, or not; `None` for plain bytes.
    pub tls: Option<TlsKind>,
    /// What it lets its connections speak.
    pub protocols: Protocols,
}

/// The listening sockets of a server.
#[derive(Debug)]
pub struct Listeners {
    /// The sockets.
    pub sockets: Vec<Listener>,
    /// One for each socket, in their order; the last one is for the workers' own ports.
    pub kinds: Arc<[ListenerKind]>,
}

impl Listeners {
    /// Listens on everything that the command line names.
    ///
    /// # Errors
    /// [`UsageError`] with the address that cannot be used.
    pub fn open(args: &Args) -> Result<Listeners, UsageError> {
        let mut sockets = Vec::new();
        let mut kinds = Vec::new();
        let protocols = protocols_of(args.default_protocol());
        for spec in args.listeners()? {
            for socket in spec.open(args.listen_backlog)? {
                sockets.push(socket);
                kinds.push(ListenerKind {
                    tls: TlsKind::of(args.enable_ssl, spec.tls),
                    protocols: spec.protocol.map_or(protocols, protocols_of),
                });
            }
        }
        if let Some(path) = &args.unix_socket {
            sockets.push(bind_unix(path, args.unix_mask)?);
            // As in memcached, TLS is for the network: the file's permissions guard this one.
            kinds.push(ListenerKind {
                tls: None,
                protocols,
            });
        }
        kinds.push(ListenerKind {
            tls: TlsKind::of(args.enable_ssl, ListenerTls::Default),
            // Other servers and aware clients speak text there, whatever -B says for the others. Where
            // authentication is on, that decides.
            protocols: Protocols::Any,
        });
        Ok(Listeners {
            sockets,
            kinds: kinds.into(),
        })
    }

    /// All TCP addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().filter_map(Listener::address).collect()
    }

    /// Whether anybody on another machine may connect without TLS.
    pub fn has_plain_remote(&self) -> bool {
        self.sockets
            .iter()
            .zip(self.kinds.iter())
            .any(|(socket, kind)| {
                let address = socket.address();
                kind.tls.is_none() && address.is_some_and(|address| !address.ip().is_loopback())
            })
    }

    /// Every socket as `stats conns` shows it, in their order.
    pub fn shown(&self) -> Vec<String> {
        let show = |socket: &Listener| match socket.address() {
            Some(SocketAddr::V4(address)) => format!("tcp:{address}"),
            Some(SocketAddr::V6(address)) => format!("tcp6:{address}"),
            None => format!("unix:{socket}"),
        };
        self.sockets.iter().map(show).collect()
    }

    /// What people call the server: its first address or path.
    pub fn name(&self) -> String {
        self.sockets
            .first()
            .map_or_else(String::new, ToString::to_string)
    }
}

/// Writes TCP ports to a file, one line each, as memcached does for those who let it choose.
///
/// # Errors
/// When the file cannot be written.
pub fn write_ports(path: &Path, addresses: &[SocketAddr]) -> io::Result<()> {
    let lines = addresses.iter().map(|address| match address {
        SocketAddr::V4(_) => format!("TCP INET: {}\n", address.port()),
        SocketAddr::V6(_) => format!("TCP INET6: {}\n", address.port()),
    });
    write_whole(path, &lines.collect::<String>())
}
