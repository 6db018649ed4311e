//! Requests about no key that are answered here. Those that go to all servers are in `under_way/flush.rs`.

use crate::client::{Slot, State};
use crate::ids::ClientId;
use crate::output::{AddressTicket, Output, StatsTicket};
use crate::show::kinds::Show;
use crate::stats::listing;
use crate::stats::listing::{CoreFacts, StatsKind};
use crate::stats::process::ProcessStats;
use crate::under_way::release::fill;
use crate::under_way::say::{say, say_bytes};
use crate::worker::ProxyCore;
use core::mem;
use core::net::IpAddr;
use evenkeel_protocol::binary::{Echo, answer, wording};
use evenkeel_protocol::{compose, text};
use evenkeel_types::Instant;
use std::io::Write;

/// Takes `config get cluster`, by which ElastiCache's clients find out where to send keys; in the binary protocol with
/// `echo`. The answer is this proxy alone: anyone who is given servers asks two of three for keys that these refuse,
/// or misses what the proxy does for them. Other proxies are not known here.
pub(crate) fn cluster_asked(core: &mut ProxyCore, id: ClientId, echo: Option<Echo>) {
    let Some(client) = core.clients.get_mut(id) else {
        return;
    };
    let show = echo.map_or(Show::Nothing, Show::Binary);
    let slot = client.push(Slot::new(show, State::Waiting));
    core.outbox
        .push(Output::OwnAddress(AddressTicket { client: id, slot }));
}

/// Answers `config get cluster`: where the client reaches this proxy.
pub(crate) fn answer_own_address(
    core: &mut ProxyCore,
    now: Instant,
    ticket: AddressTicket,
    host: &str,
    port: u16,
) {
    let AddressTicket { client: id, slot } = ticket;
    // A host that is an address stands for both. A proxy that was started again elsewhere has a greater number.
    let ip = host.parse::<IpAddr>().map_or("", |_| host);
    let list = format!("{}\n{host}|{ip}|{port}\n", core.config.revision.made_at);
    let mut bytes = core.spare.take();
    let shown = core
        .clients
        .get_mut(id)
        .and_then(|client| client.slot(slot));
    match shown.map(|slot| slot.show) {
        Some(Show::Binary(echo)) => answer::hit(&mut bytes, echo, 0, b"", list.as_bytes(), 0),
        _ => {
            // Writing into memory cannot fail.
            let _ = write!(bytes, "CONFIG cluster 0 {}\r\n{list}\r\n", list.len());
            bytes.extend_from_slice(text::END);
        }
    }
    fill(core, now, id, slot, bytes);
}

pub(crate) fn say_version(core: &mut ProxyCore, id: ClientId) {
    let mut line = core.spare.take();
    compose::answer::version(&mut line, &core.config.version);
    say_bytes(core, id, line);
}

/// Answers `stats`, in the binary protocol with `echo`.
pub(crate) fn stats_asked(
    core: &mut ProxyCore,
    id: ClientId,
    arguments: &[u8],
    echo: Option<Echo>,
) {
    let kind = match arguments {
        b"" => StatsKind::General,
        b"settings" => StatsKind::Settings,
        b"proxy" => StatsKind::Proxy,
        b"servers" => StatsKind::Servers,
        b"routes" => StatsKind::Routes,
        b"hotkeys" => StatsKind::HotKeys,
        b"locality" => StatsKind::Locality,
        // Nothing is stored here, so there is nothing to list.
        [b'i', b't', b'e', b'm', b's', ..] | b"slabs" | b"sizes" | b"conns" => {
            return say_worded(core, id, text::END, echo);
        }
        b"reset" => {
            core.outbox.push(Output::ResetStats);
            return say_worded(core, id, text::RESET, echo);
        }
        _ => return say_worded(core, id, text::ERROR, echo),
    };
    let Some(client) = core.clients.get_mut(id) else {
        return;
    };
    let show = echo.map_or(Show::Nothing, Show::Binary);
    let slot = client.push(Slot::new(show, State::Waiting));
    core.outbox.push(Output::Stats(StatsTicket {
        client: id,
        slot,
        kind,
    }));
}

/// A fixed answer in its turn, in the binary protocol with `echo`.
fn say_worded(core: &mut ProxyCore, id: ClientId, words: &'static [u8], echo: Option<Echo>) {
    let Some(echo) = echo else {
        return say(core, id, words);
    };
    let mut bytes = core.spare.take();
    wording::in_binary(words, echo, &mut bytes);
    say_bytes(core, id, bytes);
}

/// Answers `stats`.
pub(crate) fn answer_stats(
    core: &mut ProxyCore,
    now: Instant,
    ticket: StatsTicket,
    process: &ProcessStats,
) {
    let mut bytes = core.spare.take();
    let facts = CoreFacts {
        config: &core.config,
        pools: core.pools.iter().map(|(_, pool)| pool.facts()).collect(),
    };
    listing::compose(&mut bytes, ticket.kind, &facts, process);
    let client = core.clients.get_mut(ticket.client);
    let slot = client.and_then(|client| client.slot(ticket.slot));
    if let Some(Show::Binary(echo)) = slot.map(|slot| slot.show) {
        let said = mem::take(&mut bytes);
        wording::in_binary(&said, echo, &mut bytes);
    }
    fill(core, now, ticket.client, ticket.slot, bytes);
}
