//! Names to addresses, on a thread of its own: asking the name service can take seconds, and no
//! application should wait for another's server.
//!
//! A server is looked up each time it is connected to, so that a changed address is noticed: by the
//! machine's own means, or at the name servers that the configuration names. When the name service
//! fails, the last good address is used.

use crate::control::{Control, WorkerHandle};
use crate::discovery::Discoveries;
use evenkeel_roles::proxy::BackendId;
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::Receiver;

/// A question to the resolver.
#[derive(Debug)]
pub struct Lookup {
    /// The worker that asks.
    pub worker: usize,
    /// What it wants to connect.
    pub backend: BackendId,
    /// The name.
    pub host: String,
    /// The port, which is only passed on.
    pub port: u16,
}

/// The address of a host that is one, without asking anybody.
pub fn literal(host: &str, port: u16) -> Option<SocketAddr> {
    host.parse().ok().map(|ip| SocketAddr::new(ip, port))
}

/// Answers lookups until nobody can ask any more.
pub fn run(lookups: &Receiver<Lookup>, workers: &[WorkerHandle], discoveries: &Discoveries) {
    let mut last_good: BTreeMap<(String, u16), SocketAddr> = BTreeMap::new();
    while let Ok(Lookup {
        worker,
        backend,
        host,
        port,
    }) = lookups.recv()
    {
        let found = if discoveries.has_nameservers() {
            let ip = discoveries.address(&host);
            ip.map(|ip| SocketAddr::new(ip, port))
        } else {
            let all = (host.as_str(), port).to_socket_addrs();
            all.ok().and_then(|mut all| all.next())
        };
        let name = (host, port);
        let address = match found {
            Some(address) => {
                last_good.insert(name, address);
                Some(address)
            }
            None => last_good.get(&name).copied(),
        };
        if let Some(worker) = workers.get(worker) {
            worker.say(Control::Resolved(backend, address));
        }
    }
}
