//! Requests about no key that are answered here. Those that go to all servers are in `flush.rs`.

use crate::client::{Show, Slot, State};
use crate::stats::listing::StatsKind;
use crate::{AddressTicket, ClientId, Output, ProxyCore, StatsTicket};
use core::net::IpAddr;
use evenkeel_protocol::binary::Echo;
use evenkeel_protocol::binary::answer;
use evenkeel_protocol::binary::wording;
use evenkeel_protocol::compose;
use evenkeel_protocol::text;
use evenkeel_types::Instant;
use std::io::Write;

impl ProxyCore {
    /// Takes `config get cluster`, by which ElastiCache's clients find out where to send keys; in the binary protocol with
    /// `echo`. The answer is this proxy alone: whoever is given servers asks two of three for keys that these refuse,
    /// or misses what the proxy does for them. Other proxies are not known here.
    pub(crate) fn cluster_asked(&mut self, id: ClientId, echo: Option<Echo>) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        let show = echo.map_or(Show::Nothing, Show::Binary);
        let slot = client.push(Slot::new(show, State::Waiting));
        self.outputs
            .push_back(Output::OwnAddress(AddressTicket { client: id, slot }));
    }

    /// Answers `config get cluster`: where the client reaches this proxy.
    pub fn answer_own_address(
        &mut self,
        now: Instant,
        ticket: AddressTicket,
        host: &str,
        port: u16,
    ) {
        let AddressTicket { client: id, slot } = ticket;
        // A host that is an address stands for both. A proxy that was started again elsewhere has a greater number.
        let ip = host.parse::<IpAddr>().map_or("", |_| host);
        let list = format!("{}\n{host}|{ip}|{port}\n", self.config.revision.made_at);
        let mut bytes = self.spare_buffer();
        let shown = self
            .clients
            .get_mut(id.0)
            .and_then(|client| client.slot(slot));
        match shown.map(|slot| slot.show) {
            Some(Show::Binary(echo)) => answer::hit(&mut bytes, echo, 0, b"", list.as_bytes(), 0),
            _ => {
                // Writing into memory cannot fail.
                let _ = write!(bytes, "CONFIG cluster 0 {}\r\n{list}\r\n", list.len());
                bytes.extend_from_slice(text::END);
            }
        }
        self.fill(now, id, slot, bytes);
    }

    pub(crate) fn version(&mut self, id: ClientId) {
        let mut line = self.spare_buffer();
        compose::answer::version(&mut line, &self.config.version);
        self.say_bytes(id, line);
    }

    /// Answers `stats`, in the binary protocol with `echo`.
    pub(crate) fn stats_asked(&mut self, id: ClientId, arguments: &[u8], echo: Option<Echo>) {
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
