//! A worker's connections to servers: looking their hosts up, connecting, moving bytes, giving up.

use super::link::{Link, Resolving};
use super::{FIRST_SOCKET, Worker};
use crate::control::Control;
use crate::server_link::{ServerLink, Wire, cause_of};
use evenkeel_proxy_core::{BackendId, Cause, TlsId};
use evenkeel_runtime::names::literal;
use evenkeel_runtime::{Stream, TlsStream};
use evenkeel_types::Instant;
use mio::{Interest, Token};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

impl Worker {
    pub(super) fn connect(
        &mut self,
        now: Instant,
        id: BackendId,
        host: String,
        port: u16,
        tls: Option<TlsId>,
    ) {
        let slot = id.0.slot as usize;
        if self.links.len() <= slot {
            self.links.resize_with(slot + 1, || None);
        }
        let address = literal(&host, port);
        self.links[slot] = Some(Link::Resolving(Resolving {
            id,
            host: host.clone(),
            tls,
        }));
        match address {
            Some(address) => self.resolved(now, id, Some(address)),
            None => {
                let me = self.parts.workers[self.parts.index].clone();
                self.parts.resolver.look_up(&host, move |ip| {
                    let address = ip.map(|ip| SocketAddr::new(ip, port));
                    me.say(Control::Resolved(id, address));
                });
            }
        }
    }

    /// Where a server is. Late answers are ignored.
    pub(super) fn resolved(&mut self, now: Instant, id: BackendId, address: Option<SocketAddr>) {
        let slot = id.0.slot as usize;
        let Some(Some(Link::Resolving(resolving))) = self.links.get(slot) else {
            return;
        };
        if resolving.id != id {
            return;
        }
        match self.begin(resolving, address) {
            Ok(link) => self.links[slot] = Some(Link::Socket(link)),
            Err(error) => self.link_over(now, id, cause_of(&error)),
        }
    }

    /// Begins to connect.
    fn begin(&self, server: &Resolving, address: Option<SocketAddr>) -> io::Result<ServerLink> {
        let address = address.ok_or(ErrorKind::NotFound)?;
        let mut stream = Stream::connect(address)?;
        let token = Token(FIRST_SOCKET + 2 * server.id.0.slot as usize + 1);
        let both = Interest::READABLE | Interest::WRITABLE;
        let registry = self.parts.poll.registry();
        registry.register(&mut stream, token, both)?;
        let wire = match server.tls {
            None => Wire::Plain(stream),
            Some(tls) => {
                let way = self
                    .parts
                    .facts
                    .active_config
                    .tls_way(tls)
                    .ok_or(ErrorKind::NotFound)?;
                let name = way.server_name.as_ref().unwrap_or(&server.host);
                let stream = TlsStream::connect(stream, &way.client, name);
                Wire::Tls(Box::new(stream.map_err(io::Error::other)?))
            }
        };
        Ok(ServerLink::new(server.id, wire))
    }

    pub(super) fn serve_link(&mut self, now: Instant, id: BackendId) {
        self.make_room(now);
        let Some(Some(Link::Socket(link))) = self.links.get_mut(id.0.slot as usize) else {
            return;
        };
        if link.id != id {
            return;
        }
        link.queued = false;
        match link.serve(&mut self.parts.core, now, &mut self.scratch) {
            Ok(true) => {
                self.unswept += 1;
                self.enqueue_link(id);
            }
            Ok(false) => {}
            Err(error) => self.link_over(now, id, cause_of(&error)),
        }
    }

    pub(super) fn flush_link(&mut self, now: Instant, id: BackendId) {
        let Some(Some(Link::Socket(link))) = self.links.get_mut(id.0.slot as usize) else {
            return;
        };
        if link.id != id {
            return;
        }
        self.parts.fence.check();
        if let Err(error) = link.flush(&mut self.parts.core) {
            self.link_over(now, id, cause_of(&error));
        }
    }

    /// The connection to a server has ended by itself.
    pub(super) fn link_over(&mut self, now: Instant, id: BackendId, cause: Cause) {
        self.forget_link(id);
        self.parts.core.backend_lost(now, id, cause);
    }

    pub(super) fn forget_link(&mut self, id: BackendId) {
        if let Some(place) = self.links.get_mut(id.0.slot as usize) {
            let is_it = match place {
                Some(Link::Resolving(resolving)) => resolving.id == id,
                Some(Link::Socket(link)) => link.id == id,
                None => false,
            };
            if is_it {
                *place = None;
            }
        }
    }
}
