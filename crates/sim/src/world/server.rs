//! A server process: its workers, and what they are connected with.

use super::connection::ConnectionNumber;
use super::process::Process;
use super::voting::Leases;
use crate::history::Nanos;
use evenkeel_server_core::{ConnectionId, LinkId, WorkerCore};
use evenkeel_storage::SegmentPool;
use evenkeel_types::{BootId, Epoch, ServerId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Memory of a server, in bytes: more than a run can fill, so that nothing is evicted.
pub(super) const MEMORY: usize = 8 << 20;

/// Largest item, in bytes.
pub(super) const ITEM_SIZE_MAX: usize = 64 << 10;

/// Load from which on workers look for hot keys, in requests a second.
pub(super) const HOT_TRIGGER_RPS: f64 = 10.0;

/// Port of a server's first worker; the others follow.
pub(super) const PORT_FIRST: u16 = 2000;
pub(super) const PORTS_PER_SERVER: u16 = 10;

/// A server process.
#[derive(Debug)]
pub(super) struct Server {
    pub process: Process,
    pub workers: Vec<WorkerCore>,
    /// What its workers share; `None` before the first life.
    pub pool: Option<Arc<SegmentPool>>,
    /// The connection of each worker's links to workers of other servers.
    pub links: Vec<BTreeMap<LinkId, ConnectionNumber>>,
    pub sessions: Vec<BTreeMap<(u32, u32), ConnectionNumber>>,
    pub boot: BootId,
    /// Of a version that passes cachelets on with their contents.
    pub migrates: bool,
    /// What the coordinator calls it, once it has.
    pub id: Option<ServerId>,
    /// Newest map handed to the workers.
    pub told: Epoch,
    /// When each worker was last handed a map.
    pub mapped_at: Vec<Nanos>,
    /// With a fault: bytes of each worker's connections that left before they were let go.
    pub early: Vec<BTreeMap<(u32, u32), usize>>,
    pub leases: Leases,
    /// Messages between workers, and words of the coordinator to them, arrive in order.
    pub busy_until: Nanos,
    /// When the last message from one worker to another arrives.
    pub queues: BTreeMap<(u16, u16), Nanos>,
}

impl Server {
    pub fn new(process: Process, migrates: bool) -> Self {
        Server {
            process,
            workers: Vec::new(),
            pool: None,
            links: Vec::new(),
            sessions: Vec::new(),
            boot: BootId(0),
            migrates,
            id: None,
            told: Epoch(0),
            mapped_at: Vec::new(),
            early: Vec::new(),
            leases: Leases::new(BootId(0)),
            busy_until: 0,
            queues: BTreeMap::new(),
        }
    }

    /// The map by which all workers work; what heartbeats report.
    pub fn applied(&self) -> Epoch {
        self.workers
            .iter()
            .map(WorkerCore::epoch)
            .min()
            .unwrap_or(Epoch(0))
    }

    /// Every link of its workers.
    pub fn links(&self) -> impl Iterator<Item = (usize, LinkId)> {
        let of_worker = |(worker, links): (usize, &BTreeMap<LinkId, ConnectionNumber>)| {
            links.keys().map(|&link| (worker, link)).collect::<Vec<_>>()
        };
        self.links.iter().enumerate().flat_map(of_worker)
    }

    /// The connection of a link.
    pub fn link(&self, worker: usize, link: LinkId) -> Option<ConnectionNumber> {
        self.links[worker].get(&link).copied()
    }

    /// A worker's connection, which is about to be closed.
    pub fn take_session(&mut self, worker: u16, id: ConnectionId) -> Option<ConnectionNumber> {
        self.sessions[usize::from(worker)].remove(&(id.slot, id.generation))
    }

    /// Bytes of answers that wait for the slowest of its clients.
    pub fn unread_max(&mut self) -> usize {
        let mut most = 0;
        for (worker, sessions) in self.workers.iter_mut().zip(&self.sessions) {
            for &(slot, generation) in sessions.keys() {
                let session = worker.session(ConnectionId { slot, generation });
                most = most.max(session.map_or(0, |session| session.out.len()));
            }
        }
        most
    }
}

pub(super) fn worker_ports(server: usize, workers: u16) -> Vec<u16> {
    let first = PORT_FIRST + server as u16 * PORTS_PER_SERVER;
    (first..first + workers).collect()
}

/// Whose port that is: server and worker.
pub(super) fn owner_of_port(port: u16) -> (usize, u16) {
    let offset = port - PORT_FIRST;
    (
        usize::from(offset / PORTS_PER_SERVER),
        offset % PORTS_PER_SERVER,
    )
}
