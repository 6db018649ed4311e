//! What a client knows that goes straight to the worker that owns a key.
//!
//! An aware client has the cluster map, says hello to each worker it connects to and then names, with
//! each request, the epoch and the cachelet by which it chose that worker. Leases are not asked
//! about: what is measured here is the way to the home of a key.

use crate::target::CONNECT_TIMEOUT;
use anyhow::{Context, ensure};
use evenkeel_protocol::compose::request;
use evenkeel_protocol::{Limits, Reply, ReplyOutcome, parse_reply};
use evenkeel_runtime::resolve;
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, Epoch, KeyHash, WorkerRef};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Longest answer of a coordinator that is read: a map at its limits is below this.
const MAP_LEN_MAX: u64 = 16 << 20;

/// Longest wait for a cluster to be ready, and the distance of looks at it.
const JOIN_DEADLINE: Duration = Duration::from_secs(20);
const JOIN_INTERVAL: Duration = Duration::from_millis(50);

/// Longest answer to a hello.
const HELLO_LEN_MAX: usize = 256;

/// The workers of a cluster and who owns which key.
#[derive(Clone, Debug)]
pub struct Cluster {
    map: ClusterMap,
    workers: Vec<(WorkerRef, SocketAddr)>,
}

impl Cluster {
    /// Asks a coordinator (`http://HOST:PORT`) for its map, and waits until every key has an owner
    /// that knows it.
    ///
    /// # Errors
    /// When it does not come to that within 20 s; the last reason.
    pub fn join(coordinator: &str) -> anyhow::Result<Cluster> {
        let end = Instant::now() + JOIN_DEADLINE;
        loop {
            let joined = Cluster::fetch(coordinator).and_then(|cluster| {
                cluster.check_ready()?;
                Ok(cluster)
            });
            if joined.is_ok() || Instant::now() >= end {
                return joined;
            }
            std::thread::sleep(JOIN_INTERVAL);
        }
    }

    fn fetch(coordinator: &str) -> anyhow::Result<Cluster> {
        let url = format!("{}/api/v1/map", coordinator.trim_end_matches('/'));
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(CONNECT_TIMEOUT))
            .build()
            .into();
        let map: ClusterMap = agent
            .get(&url)
            .call()
            .and_then(|mut answer| {
                answer
                    .body_mut()
                    .with_config()
                    .limit(MAP_LEN_MAX)
                    .read_json()
            })
            .with_context(|| format!("asking {url} for the map"))?;
        Cluster::of(map)
    }

    /// The cluster of a map.
    fn of(map: ClusterMap) -> anyhow::Result<Cluster> {
        let mut workers = Vec::new();
        for server in map.servers_up() {
            for (index, &port) in server.worker_ports.iter().enumerate() {
                let worker = WorkerRef {
                    server: server.id,
                    worker: index as u16,
                };
                let address = resolve(&server.host, port).map_err(anyhow::Error::msg)?;
                workers.push((worker, address));
            }
        }
        ensure!(!workers.is_empty(), "the map has no server that is up");
        Ok(Cluster { map, workers })
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Every key has an owner that is up, and every worker has this map.
    fn check_ready(&self) -> anyhow::Result<()> {
        let known = |owner: &WorkerRef| self.workers.iter().any(|(worker, _)| worker == owner);
        let cachelets = &self.map.document().cachelets;
        let complete = cachelets
            .iter()
            .all(|owner| owner.as_ref().is_some_and(known));
        ensure!(complete, "the map gives some keys to nobody who is up");
        (0..self.workers.len()).try_for_each(|position| self.connect(position).map(drop))
    }

    /// Epoch of the map.
    pub(crate) fn epoch(&self) -> Epoch {
        self.map.epoch()
    }

    /// Position of the worker that owns a key, and its cachelet; `None` while nobody owns it.
    #[inline]
    pub(crate) fn owner(&self, key: &[u8]) -> Option<(usize, CacheletId)> {
        let place = self.map.locate(KeyHash::of(key));
        let owner = place.worker?;
        let position = self.workers.iter().position(|(w, _)| *w == owner)?;
        Some((position, place.cachelet))
    }

    /// Connects to a worker and says hello. Waits until it is answered.
    ///
    /// # Errors
    /// When it does not answer, or has another map: what it is asked would then not be its own.
    pub(crate) fn connect(&self, position: usize) -> anyhow::Result<crate::target::Socket> {
        let (worker, address) = self.workers[position];
        let mut socket = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
            .with_context(|| format!("connecting to {address}"))?;
        socket.set_read_timeout(Some(CONNECT_TIMEOUT))?;
        let mut hello = Vec::new();
        request::hello(&mut hello, self.epoch());
        socket.write_all(&hello)?;
        let mut answer = Vec::new();
        loop {
            let mut bytes = [0; HELLO_LEN_MAX];
            let count = socket.read(&mut bytes)?;
            answer.extend_from_slice(&bytes[..count]);
            match parse_reply(&answer, &Limits::default()) {
                ReplyOutcome::Incomplete { .. } if count > 0 && answer.len() < HELLO_LEN_MAX => {}
                ReplyOutcome::Reply {
                    reply: Reply::Hello(hello),
                    consumed,
                } if consumed == answer.len() => {
                    ensure!(
                        hello.epoch == self.epoch(),
                        "worker {worker} has epoch {} of the map, not {}",
                        hello.epoch,
                        self.epoch()
                    );
                    break;
                }
                _ => anyhow::bail!("worker {worker} at {address} does not say hello"),
            }
        }
        crate::target::Socket::from_tcp(socket).context("preparing a connection")
    }
}
