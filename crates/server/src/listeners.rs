//! The sockets of the ordinary port: made as the command line says, and what each says of its
//! connections.

use crate::args::{Args, ListenSpec, ListenerTls};
use evenkeel_roles::server::Protocols;
use evenkeel_runtime::{Listener, UsageError, bind_unix, try_bind_tcp, write_whole};
use std::io::{self, ErrorKind};
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

/// What is asked of clients that speak TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsKind {
    /// What `-o ssl_verify_mode` says.
    Default,
    /// No certificate.
    Basic,
    /// A certificate.
    Mutual,
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
        let protocols = Protocols::from(args.default_protocol());
        for spec in args.listeners()? {
            for socket in open_tcp(&spec, args.listen_backlog)? {
                sockets.push(socket);
                kinds.push(ListenerKind {
                    tls: tls_kind(args.enable_ssl, spec.tls),
                    protocols: spec.protocol.map_or(protocols, Protocols::from),
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
            tls: tls_kind(args.enable_ssl, ListenerTls::Default),
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

/// Listens on all addresses of one `-l`. An address that this machine cannot have, such as IPv6 where
/// it is switched off, is left out as long as another one works; one that is taken is an error.
fn open_tcp(spec: &ListenSpec, backlog: u32) -> Result<Vec<Listener>, UsageError> {
    let mut sockets: Vec<Listener> = Vec::new();
    let mut left_out = None;
    for mut address in spec.addresses()? {
        if let Some(first) = sockets.first().and_then(Listener::address) {
            // A free port was taken for the first; the others are to have the same.
            address.set_port(first.port());
        }
        match try_bind_tcp(address, backlog) {
            Ok(socket) => sockets.push(socket),
            Err(error) if is_not_ours(&error) => left_out = Some((address, error)),
            Err(error) => return Err(cannot_listen(address, &error)),
        }
    }
    match left_out {
        Some((address, error)) if sockets.is_empty() => Err(cannot_listen(address, &error)),
        _ => Ok(sockets),
    }
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> UsageError {
    UsageError(format!("failed to listen on {address}: {error}"))
}

/// Whether this machine lacks the address, or its whole family.
fn is_not_ours(error: &io::Error) -> bool {
    error.kind() == ErrorKind::AddrNotAvailable || error.kind() == ErrorKind::Unsupported
}

fn tls_kind(enabled: bool, asked: ListenerTls) -> Option<TlsKind> {
    match asked {
        _ if !enabled => None,
        ListenerTls::Off => None,
        ListenerTls::Default => Some(TlsKind::Default),
        ListenerTls::Basic => Some(TlsKind::Basic),
        ListenerTls::Mutual => Some(TlsKind::Mutual),
    }
}
