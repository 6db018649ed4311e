//! Members as they are known: servers and proxies. Everybody reads them; [`Members`](super::Members) alone changes them.

use evenkeel_control::Heartbeat;
use evenkeel_types::map::ServerEntry;
use evenkeel_types::{BootId, Epoch, Instant, ServerId};

use super::drain::Drain;
use super::fence::Fence;
use super::served::{ServedSince, ServedView};

/// A server that has registered.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) entry: ServerEntry,
    pub(crate) former: Vec<BootId>,
    /// It is to be emptied.
    pub(crate) drain: Option<Drain>,
    /// Newest map that the present life is known to work by.
    pub(crate) applied: Epoch,
    /// See [`Heartbeat::migrates`].
    pub(crate) migrates: bool,
    /// See [`Heartbeat::asks_for_moves`].
    pub(crate) asks_for_moves: bool,
    pub(crate) last_heard: Instant,
    /// When its process last answered where others reach it, while it was not heard of: see `silence`.
    pub(crate) last_reached: Option<Instant>,
    /// Its name is not known any more, and its id is free once nothing means it: see `names`.
    pub(crate) is_forgotten: bool,
    /// What is known of whether it serves when it is down.
    pub(crate) fence: Fence,
    pub(crate) load: Vec<f64>,
}

impl Server {
    /// One that registers, to be up from that map on.
    pub(crate) fn new(now: Instant, id: ServerId, heartbeat: &Heartbeat, since: Epoch) -> Self {
        Server {
            entry: entry_of(id, heartbeat, since),
            fence: Fence::new(since),
            former: Vec::new(),
            drain: None,
            applied: Epoch(0),
            migrates: heartbeat.migrates,
            asks_for_moves: heartbeat.asks_for_moves,
            last_heard: now,
            last_reached: None,
            is_forgotten: false,
            load: Vec::new(),
        }
    }

    /// Whether it is up, and gets cachelets of others.
    pub(crate) fn takes(&self) -> bool {
        self.entry.up && self.drain.is_none()
    }

    /// Whether the server is down, and its cachelets can go to others once it has ceased to serve.
    pub(crate) fn may_be_given_up(&self) -> bool {
        !self.entry.up && self.fence.may_be_given_up()
    }

    /// Whether the server is down and has ceased to serve for certain.
    pub(crate) fn has_ceased(&self, now: Instant) -> bool {
        !self.entry.up && self.fence.has_ceased(now, self.last_heard)
    }
}

/// What a map says of a server that sends this heartbeat.
pub(crate) fn entry_of(id: ServerId, heartbeat: &Heartbeat, since: Epoch) -> ServerEntry {
    ServerEntry {
        id,
        name: heartbeat.name.clone(),
        host: heartbeat.host.clone(),
        port: heartbeat.port,
        worker_ports: heartbeat.worker_ports.clone(),
        rack: heartbeat.rack.clone(),
        boot: heartbeat.boot,
        up: true,
        since,
        leaving: false,
    }
}

/// A proxy that is a member.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) boot: BootId,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) rack: Option<String>,
    pub(crate) applied: Epoch,
    /// See [`Heartbeat::config_hash`].
    pub(crate) config_hash: Option<String>,
    pub(crate) last_heard: Instant,
    pub(crate) load: Vec<f64>,
    /// What was told since the last column of the history.
    pub(crate) served_since: ServedSince,
    /// What had been told at the last column.
    pub(crate) served: ServedView,
}

impl Proxy {
    /// `before` is what was known of this life.
    pub(crate) fn new(now: Instant, heartbeat: &Heartbeat, before: Option<Proxy>) -> Self {
        let (mut served_since, served) =
            before.map_or_else(Default::default, |it| (it.served_since, it.served));
        if let Some(told) = &heartbeat.load.served {
            served_since.add(&told.into());
        }
        Proxy {
            boot: heartbeat.boot,
            host: heartbeat.host.clone(),
            port: heartbeat.port,
            rack: heartbeat.rack.clone(),
            applied: heartbeat.epoch,
            config_hash: heartbeat.config_hash.clone(),
            last_heard: now,
            load: heartbeat.load.requests_per_second.clone(),
            served_since,
            served,
        }
    }
}
