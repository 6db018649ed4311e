//! Stories of members and their coordinator, told in time.

mod bad_input;
mod changes;
mod drains;
mod fence;
mod heat;
mod history;
mod loads;
mod migrations;
mod names;
mod plans;
mod quarantine;
mod random;
mod scaled;
mod scaling;
mod settings;
mod shares;
mod silence;
mod snapshot;
mod stories;
mod takeover;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_types::map::{ClusterMap, MapDocument, SERVERS_MAX};
use evenkeel_types::{BootId, CacheletId, Epoch, Instant, Now, ServerId, WorkerRef};

use super::CoordinatorCore;
use crate::*;

/// Test clock and coordinator: every call happens at `now`.
struct World {
    core: CoordinatorCore,
    now: Now,
}

const LINEAGE: u64 = 42;

impl World {
    fn new(initial_servers: usize) -> World {
        let config = CoordinatorConfig {
            initial_servers,
            ..CoordinatorConfig::new("test")
        };
        let now = Now {
            monotonic: Instant::from_millis(1_000),
            unix: 1_700_000_000,
        };
        let core = CoordinatorCore::new(config, LINEAGE, now.monotonic).unwrap();
        World { core, now }
    }

    /// An operator changes settings.
    fn set(&mut self, change: &str) -> Result<Settings, SettingsRefusal> {
        let change: serde_json::Value = serde_json::from_str(change).unwrap();
        (self.core).change_settings(self.now, change.as_object().unwrap())
    }

    /// Lets time pass, calling the core when it wants to be called.
    fn pass(&mut self, ms: u64) {
        let until = self.now.monotonic + Duration::from_millis(ms);
        while self.core.poll_deadline() <= until {
            self.now.monotonic = self.core.poll_deadline();
            self.core.handle_timeout(self.now);
        }
        self.now.monotonic = until;
    }

    /// The coordinator's process stands still.
    fn sleep(&mut self, ms: u64) {
        self.now.monotonic = self.now.monotonic + Duration::from_millis(ms);
        self.core.handle_timeout(self.now);
    }

    fn send(&mut self, heartbeat: &Heartbeat) -> Result<HeartbeatAnswer, Refusal> {
        self.core.handle_heartbeat(self.now, heartbeat)
    }

    /// The first heartbeat of a process whose predecessor of the same name has ended, and said so.
    fn send_new_life(&mut self, heartbeat: &Heartbeat) -> Result<HeartbeatAnswer, Refusal> {
        let former = self.core.members.known_as(&heartbeat.name);
        let id = former.expect("it was there before").entry.id;
        self.core.members.edit(id).entry.up = false;
        self.send(heartbeat)
    }

    /// Heartbeats of members that work by the newest map.
    fn send_current(&mut self, heartbeats: &mut [Heartbeat]) {
        for heartbeat in heartbeats {
            heartbeat.epoch = self.core.epoch();
            self.send(heartbeat).unwrap();
        }
    }

    /// Stops the coordinator and starts it again from what it saved.
    fn restart(&mut self) {
        let state = self.core.saved_state();
        let config = self.core.config().clone();
        self.core = CoordinatorCore::restore(config, state, self.now.monotonic).unwrap();
    }

    fn since(&self) -> Vec<Epoch> {
        self.core.map().expect("a map").document().since.clone()
    }

    fn owners(&self) -> Vec<Option<WorkerRef>> {
        let map = self.core.map().expect("a map");
        map.document().cachelets.clone()
    }

    fn shares(&self) -> BTreeMap<WorkerRef, usize> {
        let mut shares = BTreeMap::new();
        for owner in self.owners().into_iter().flatten() {
            *shares.entry(owner).or_default() += 1;
        }
        shares
    }

    fn causes(&self) -> Vec<(u64, Cause)> {
        let events = self.core.events().iter();
        events.map(|event| (event.epoch.0, event.cause)).collect()
    }
}

/// Server number `n` with that many workers, in its first life.
fn server(n: u16, workers: u16) -> Heartbeat {
    Heartbeat {
        cluster: "test".into(),
        kind: MemberKind::Server,
        name: format!("s{n}"),
        boot: BootId(u64::from(n) * 1_000),
        host: "127.0.0.1".into(),
        port: 10_000 + 100 * n,
        worker_ports: (1..=workers).map(|w| 10_000 + 100 * n + w).collect(),
        rack: None,
        epoch: Epoch(0),
        told: Epoch(0),
        lineage: None,
        load: LoadReport::default(),
        hot_keys: None,
        migrates: false,
        asks_for_moves: false,
        migrations: Vec::new(),
        leased: false,
        ending: false,
        config_hash: None,
        control_port: 0,
        gone_after_ms: None,
        pools: Vec::new(),
        leaves: false,
    }
}

/// Servers that serve under leases, and a map by which all of them work.
fn leased_cluster(servers: u16, workers: u16) -> (World, Vec<Heartbeat>) {
    let mut world = World::new(usize::from(servers));
    let leased = |n| Heartbeat {
        leased: true,
        ..server(n, workers)
    };
    let mut members: Vec<_> = (1..=servers).map(leased).collect();
    world.send_current(&mut members);
    world.send_current(&mut members);
    (world, members)
}

fn proxy(name: &str) -> Heartbeat {
    Heartbeat {
        kind: MemberKind::Proxy,
        name: name.into(),
        worker_ports: Vec::new(),
        ..server(1, 1)
    }
}

fn worker(server: u16, worker: u16) -> WorkerRef {
    WorkerRef {
        server: ServerId(server),
        worker,
    }
}
