//! A connection to a server, from when its address is looked up.

use crate::server_link::ServerLink;
use evenkeel_proxy_core::{BackendId, TlsId};

/// A connection to a server.
#[derive(Debug)]
pub(super) enum Link {
    /// Its address is being looked up.
    Resolving(Resolving),
    Socket(ServerLink),
}

/// A server whose address is being looked up.
#[derive(Debug)]
pub(super) struct Resolving {
    pub id: BackendId,
    /// Its host, for which its certificate is unless another name is configured.
    pub host: String,
    pub tls: Option<TlsId>,
}
