//! What is scaled: a ring of memcacheds, or a cluster; and those of its servers that were started by hand.

use crate::changes::Leader;
use crate::rings::ring;
use crate::warm::{list, memcacheds, restart};
use evenkeel_testkit::{Memcached, Process, evenkeel};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::{DEAD_AFTER_MS, MIN, PROXIES};

/// What is scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ring,
    Cluster,
}

impl Kind {
    /// The name by which it is scaled.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ring => "main",
            Kind::Cluster => "evenkeel",
        }
    }
}

/// What its coordinator says of it.
#[derive(Clone)]
pub struct Pool {
    kind: Kind,
    leader: Leader,
}

impl Pool {
    pub fn new(kind: Kind, leader: Leader) -> Self {
        Pool { kind, leader }
    }

    pub fn leader(&self) -> &Leader {
        &self.leader
    }

    /// Where servers are that own a part of a ring, or take part in a cluster or own something of it.
    pub fn owners(&self) -> Option<BTreeSet<SocketAddr>> {
        let mut owners = BTreeSet::new();
        match self.kind {
            Kind::Ring => {
                for server in ring(&self.leader)?["servers"].as_array()? {
                    if server["share"].as_f64()? > 0.0 {
                        owners.insert(server["name"].as_str()?.parse().ok()?);
                    }
                }
            }
            Kind::Cluster => {
                let view = self.leader.get("/api/v1/servers")?;
                for server in view["servers"].as_array()? {
                    let takes = server["up"] == true && server["draining"] == false;
                    let cachelets = server["cachelets"].as_u64()? + server["released"].as_u64()?;
                    if takes || cachelets > 0 {
                        let host = server["host"].as_str()?;
                        owners.insert(format!("{host}:{}", server["port"]).parse().ok()?);
                    }
                }
            }
        }
        Some(owners)
    }

    /// A ring that has lost enough by itself is told to lose another; a cluster needs no order.
    pub fn lose_if_dead(&self, at: SocketAddr) {
        let dead = || {
            let ring = ring(&self.leader)?;
            let mut unreached = ring["unreached"].as_array()?.iter();
            let name = at.to_string();
            let for_ms = unreached.find(|it| it["server"] == *name)?["for_ms"].as_u64()?;
            (for_ms > 2 * DEAD_AFTER_MS).then_some(name)
        };
        if self.kind == Kind::Ring
            && let Some(name) = dead()
        {
            let order = json!({"what": "lose", "server": name, "proxies": PROXIES});
            // It is refused while a plan is under way.
            let _ = self.leader.post("/api/v1/rings/main/servers", &order);
        }
    }
}

/// Servers that were started by hand.
pub enum ByHand {
    Memcacheds(Vec<Memcached>),
    Members(Vec<Process>),
}

impl ByHand {
    /// Those of a ring, which proxies are told of; a cluster's begin once there is a coordinator.
    pub fn memcacheds(kind: Kind) -> Self {
        match kind {
            Kind::Ring => ByHand::Memcacheds(memcacheds(MIN)),
            Kind::Cluster => ByHand::Members(Vec::new()),
        }
    }

    /// What a proxy's file says of memcacheds.
    pub fn list(&self) -> String {
        match self {
            ByHand::Memcacheds(servers) => list(servers),
            ByHand::Members(_) => String::new(),
        }
    }

    pub fn start_members(&mut self, coordinator: &str) {
        if let ByHand::Members(servers) = self {
            servers.extend((0..MIN).map(|at| member(at, coordinator)));
        }
    }

    pub fn address(&self, at: usize) -> SocketAddr {
        match self {
            ByHand::Memcacheds(servers) => servers[at].address(),
            ByHand::Members(servers) => servers[at].address(),
        }
    }

    /// One is killed, and starts again empty: a member on another port.
    pub fn restart(&mut self, at: usize, coordinator: &str) {
        match self {
            ByHand::Memcacheds(servers) => restart(&mut servers[at]),
            ByHand::Members(servers) => {
                servers[at].kill();
                servers[at] = member(at, coordinator);
            }
        }
    }
}

fn member(at: usize, coordinator: &str) -> Process {
    let name = format!("s{at}");
    evenkeel::server(&[
        "-t",
        "1",
        "-m",
        "64",
        "--name",
        &name,
        "--coordinator",
        coordinator,
    ])
}
