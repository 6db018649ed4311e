//! Requests about no key that are answered here. Those that go to all servers are in `flush.rs`.

use super::client::{Show, Slot, State};
use super::pool::Servers;
use super::routes::CommandClass;
use super::stats::StatsKind;
use super::{ClientId, Output, ProxyCore, StatsTicket};
use crate::wording;
use core::fmt::Display;
use core::net::IpAddr;
use evenkeel_protocol::binary::Echo;
use evenkeel_protocol::compose::answer;
use evenkeel_protocol::text;
use std::io::Write;

impl ProxyCore {
    /// The servers of the default route's pool, as ElastiCache's clients ask for them.
    pub(super) fn cluster_servers(&self) -> Option<Vec<u8>> {
        let default = self.routes.find(b"", CommandClass::Get);
        let pool = self.ways[default].reads_from();
        match &self.pools.get(pool?.0)?.servers {
            Servers::Evenkeel(pool) => {
                let document = pool.map()?.document();
                let up = document.servers.iter().filter(|server| server.up);
                let servers = up.map(|server| (server.host.as_str(), server.port));
                Some(server_list(document.epoch, servers))
            }
            Servers::Memcached(pool) => {
                let servers = pool.list().servers().iter();
                let servers = servers.map(|server| (server.host.as_str(), server.port));
                // Newer lists have greater numbers, also after a restart.
                Some(server_list(self.config.revision.made_at, servers))
            }
        }
    }

    /// Answers `config get cluster`. Without servers, what memcached says to words that it does not
    /// know.
    pub(super) fn cluster_config(&mut self, id: ClientId) {
        let Some(list) = self.cluster_servers() else {
            return self.say(id, text::ERROR);
        };
        let mut bytes = self.spare_buffer();
        // Writing into memory cannot fail.
        let _ = write!(bytes, "CONFIG cluster 0 {}\r\n", list.len());
        bytes.extend_from_slice(&list);
        bytes.extend_from_slice(text::CRLF);
        bytes.extend_from_slice(text::END);
        self.say_bytes(id, bytes);
    }

    pub(super) fn version(&mut self, id: ClientId) {
        let mut line = self.spare_buffer();
        answer::version(&mut line, &self.config.version);
        self.say_bytes(id, line);
    }

    /// Answers `stats`, in the binary protocol with `echo`.
    pub(super) fn stats_asked(&mut self, id: ClientId, arguments: &[u8], echo: Option<Echo>) {
        let kind = match arguments {
            b"" => StatsKind::General,
            b"settings" => StatsKind::Settings,
            b"proxy" => StatsKind::Proxy,
            b"servers" => StatsKind::Servers,
            b"routes" => StatsKind::Routes,
            b"hotkeys" => StatsKind::HotKeys,
            // Nothing is stored here, so there is nothing to list.
            [b'i', b't', b'e', b'm', b's', ..] | b"slabs" | b"sizes" | b"conns" => {
                return self.say_worded(id, text::END, echo);
            }
            b"reset" => {
                self.outputs.push_back(Output::ResetStats);
                return self.say_worded(id, text::RESET, echo);
            }
            _ => return self.say_worded(id, text::ERROR, echo),
        };
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        let show = echo.map_or(Show::Nothing, Show::Binary);
        let slot = client.push(Slot::new(show, State::Waiting));
        self.outputs.push_back(Output::Stats(StatsTicket {
            client: id,
            slot,
            kind,
        }));
    }

    /// A fixed answer in its turn, in the binary protocol with `echo`.
    fn say_worded(&mut self, id: ClientId, words: &'static [u8], echo: Option<Echo>) {
        let Some(echo) = echo else {
            return self.say(id, words);
        };
        let mut bytes = self.spare_buffer();
        wording::in_binary(words, echo, &mut bytes);
        self.say_bytes(id, bytes);
    }
}

/// The number of a list of servers, and for each `host|ip|port`; a host that is an address stands for
/// both.
fn server_list<'a>(
    version: impl Display,
    servers: impl Iterator<Item = (&'a str, u16)>,
) -> Vec<u8> {
    let entries = servers.map(|(host, port)| {
        let ip = if host.parse::<IpAddr>().is_ok() {
            host
        } else {
            ""
        };
        format!("{host}|{ip}|{port}")
    });
    let entries: Vec<String> = entries.collect();
    format!("{version}\n{}\n", entries.join(" ")).into_bytes()
}
