//! Coordinators on one etcd, with servers and a proxy that know all of them.

use std::time::{Duration, Instant};

use evenkeel_testkit::{Client, Process, Signal, evenkeel, http, poll_until};
use serde_json::Value;

pub use crate::etcd::DEADLINE;
use crate::etcd::{Etcd, own_host};

const COORDINATORS: usize = 3;

/// Servers of most scenes.
const SERVERS: usize = 2;

/// Running processes, all ended when this is dropped.
pub struct Cluster {
    /// In the order of their numbers.
    pub coordinators: Vec<Process>,
    /// The one that was stopped: who asks it waits in vain.
    stopped: Option<usize>,
    /// Further arguments of each coordinator.
    more: &'static [&'static str],
    /// Named `s0` and so on.
    pub servers: Vec<Process>,
    /// It knows all coordinators.
    pub proxy: Process,
    /// What the coordinators share.
    pub etcd: Etcd,
}

impl Cluster {
    /// Returns when everybody works by the same map.
    ///
    /// # Panics
    /// When a process does not become ready, or the cluster does not serve in time.
    pub fn start() -> Cluster {
        Cluster::with(SERVERS, &[])
    }

    /// The same with this many servers, and further arguments of the coordinators.
    ///
    /// # Panics
    /// As [`start`](Self::start) does.
    pub fn with(servers: usize, more: &'static [&'static str]) -> Cluster {
        let etcd = Etcd::start();
        let coordinators: Vec<_> = (0..COORDINATORS)
            .map(|_| coordinator(&etcd, &format!("{}:0", own_host()), servers, more))
            .collect();
        let addresses: Vec<_> = coordinators
            .iter()
            .map(|one| one.address().to_string())
            .collect();
        let addresses = addresses.join(",");
        let server = |n: usize| {
            let name = format!("s{n}");
            evenkeel::server(&["-t", "2", "--coordinator", &addresses, "--name", &name])
        };
        let cluster = Cluster {
            stopped: None,
            more,
            servers: (0..servers).map(server).collect(),
            // So that what is missing is gone, and what cannot be had is a failure.
            proxy: evenkeel::proxy(
                &[
                    &["--coordinator", &addresses, "--on-down", "error"],
                    &evenkeel::LONG_TIMEOUTS[..],
                ]
                .concat(),
            ),
            coordinators,
            etcd,
        };
        cluster.wait_until_stable();
        let serves = || {
            let mut client = Client::try_connect(cluster.proxy.address()).ok()?;
            let answers = |n| client.try_get(&format!("readiness:{n}")).is_ok();
            (0..16).all(answers).then_some(())
        };
        poll_until(DEADLINE, "a proxy that serves", serves);
        cluster
    }

    /// Starts a coordinator again, at its address: it remembers nothing.
    pub fn restart_coordinator(&mut self, index: usize) {
        self.stopped.take_if(|stopped| *stopped == index);
        let address = self.coordinators[index].address().to_string();
        self.coordinators[index] = coordinator(&self.etcd, &address, self.servers.len(), self.more);
    }

    /// What a coordinator answers at this path.
    ///
    /// # Errors
    /// It does not answer.
    pub fn get(&self, index: usize, path: &str) -> std::io::Result<(u16, String)> {
        http::get(self.coordinators[index].address(), path)
    }

    /// What a coordinator says at this path, if it says it itself.
    pub fn json(&self, index: usize, path: &str) -> Option<Value> {
        match self.get(index, path) {
            Ok((200, body)) => serde_json::from_str(&body).ok(),
            _ => None,
        }
    }

    /// The coordinator that says that it leads, and its token.
    pub fn leader(&self) -> Option<(usize, u64)> {
        let running = |index: &usize| self.stopped != Some(*index);
        (0..self.coordinators.len())
            .filter(running)
            .find_map(|index| {
                let view = self.json(index, "/api/v1/election")?;
                let token = view["token"].as_u64()?;
                (view["leads"] == true).then_some((index, token))
            })
    }

    /// Waits for a leader whose token is greater than this, and who has heard from all servers that they work by
    /// the newest map; returns it and how long that took since `since`.
    ///
    /// # Panics
    /// When there is none in time.
    pub fn wait_for_leader(&self, above: u64, since: Instant) -> (usize, u64, Duration) {
        poll_until(DEADLINE, "another leader that works", || {
            let (index, token) = self.leader()?;
            (token > above && self.is_stable(index)).then(|| (index, token, since.elapsed()))
        })
    }

    /// The same for any leader.
    ///
    /// # Panics
    /// When there is none in time.
    pub fn wait_until_stable(&self) -> (usize, u64) {
        let (index, token, _) = self.wait_for_leader(0, Instant::now());
        (index, token)
    }

    fn is_stable(&self, leader: usize) -> bool {
        let Some(view) = self.json(leader, "/api/v1/servers") else {
            return false;
        };
        let servers = view["servers"]
            .as_array()
            .map_or(&[][..], |servers| servers);
        let placed = |server: &Value| server["up"] == true && server["epoch"] == view["epoch"];
        view["epoch"] != 0 && servers.len() == self.servers.len() && servers.iter().all(placed)
    }

    /// The map as the leader gives it: on a busy machine another may by now than a moment ago.
    ///
    /// # Panics
    /// When nobody does in time.
    pub fn map(&self) -> Value {
        poll_until(DEADLINE, "a leader's map", || {
            let (leader, _) = self.leader()?;
            self.json(leader, "/api/v1/map")
        })
    }

    /// Sends a signal to a coordinator.
    pub fn signal(&mut self, coordinator: usize, signal: Signal) {
        match signal {
            Signal::Stop => self.stopped = Some(coordinator),
            Signal::Continue => self.stopped = None,
            _ => {}
        }
        self.coordinators[coordinator].signal(signal);
    }
}

/// Nobody owns anything else than before, and no older map is in force.
///
/// # Panics
/// When it is otherwise.
pub fn assert_same_owners(before: &Value, after: &Value) {
    assert_eq!(
        before["cachelets"], after["cachelets"],
        "cachelets have moved"
    );
    assert_eq!(before["virtual_nodes"], after["virtual_nodes"]);
    assert!(
        after["epoch"].as_u64() >= before["epoch"].as_u64(),
        "{}",
        after["epoch"]
    );
}

fn coordinator(etcd: &Etcd, address: &str, servers: usize, more: &[&str]) -> Process {
    let servers = servers.to_string();
    evenkeel::command("coordinator")
        .args([
            "--listen",
            address,
            "--etcd",
            &etcd.urls(),
            "--initial-servers",
            &servers,
        ])
        .args(more)
        .ready_prefix("evenkeel coordinator listening on ")
        .spawn()
}
