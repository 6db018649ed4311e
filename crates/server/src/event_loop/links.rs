//! A worker's connections to workers of other servers.

use super::{FIRST_LINK, Worker};
use crate::control::Control;
use crate::link::LinkSocket;
use evenkeel_runtime::Stream;
use evenkeel_runtime::names::literal;
use evenkeel_runtime::watchdog::Step;
use evenkeel_server_core::{LinkId, LinkRequest};
use evenkeel_types::Now;
use mio::{Interest, Token};
use std::io;
use std::net::SocketAddr;

impl Worker {
    /// Opens, closes and moves links as the core asks.
    pub(super) fn serve_links(&mut self, now: Now) {
        if self.links.sockets.is_empty() && !self.parts.core.has_link_requests() {
            return;
        }
        self.parts.mark.step(Step::Links);
        while let Some(request) = self.parts.core.poll_link_request() {
            match request {
                LinkRequest::Connect { link, host, port } => {
                    self.links.resolving.insert(link);
                    match literal(&host, port) {
                        Some(address) => self.resolved(now, link, Some(address)),
                        None => self.look_up(link, &host, port),
                    }
                }
                LinkRequest::Close(id) => {
                    self.links.resolving.remove(&id);
                    self.links.sockets.retain(|_, link| link.id != id);
                }
            }
        }
        let waiting: Vec<usize> = self
            .links
            .sockets
            .iter()
            .filter(|(_, link)| {
                self.parts
                    .core
                    .link_out(link.id)
                    .is_some_and(|out| !out.is_empty())
            })
            .map(|(token, _)| *token)
            .collect();
        for token in waiting {
            self.serve_link(now, token);
        }
    }

    /// The answer comes as a word, since a name server may take its time.
    fn look_up(&self, link: LinkId, host: &str, port: u16) {
        let me = self.parts.me.clone();
        self.parts.resolver.look_up(host, move |ip| {
            let address = ip.map(|ip| SocketAddr::new(ip, port));
            me.say(Control::Resolved(link, address));
        });
    }

    /// Where the other end of a link is. One that was closed meanwhile is not made any more.
    pub(super) fn resolved(&mut self, now: Now, link: LinkId, address: Option<SocketAddr>) {
        if !self.links.resolving.remove(&link) {
            return;
        }
        if address.is_none_or(|address| self.connect(link, address).is_err()) {
            self.parts.core.link_lost(now, link);
        }
    }

    fn connect(&mut self, link: LinkId, address: SocketAddr) -> io::Result<()> {
        let mut stream = Stream::connect(address)?;
        let token = FIRST_LINK + self.links.made;
        self.links.made += 1;
        let both = Interest::READABLE | Interest::WRITABLE;
        self.parts
            .poll
            .registry()
            .register(&mut stream, Token(token), both)?;
        let socket = LinkSocket::new(link, stream);
        self.links.sockets.insert(token, socket);
        Ok(())
    }

    pub(super) fn serve_link(&mut self, now: Now, token: usize) {
        let Some(link) = self.links.sockets.get_mut(&token) else {
            return;
        };
        let id = link.id;
        if link
            .serve(&mut self.parts.core, now, &mut self.scratch)
            .is_err()
        {
            self.links.sockets.remove(&token);
            self.parts.core.link_lost(now, id);
        }
    }
}
