//! Members that are servers by name alone: each tells a coordinator of made-up loads, and all of them have the same ports.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use evenkeel_control::loads::{CacheletColumns, LoadNews, WorkerColumns};
use evenkeel_control::{LoadReport, MemberKind};
use evenkeel_member::access::Access;
use evenkeel_member::{MemberConfig, MemberEvent, MemberHandle, Report};
use evenkeel_runtime::raise_descriptor_limit_if_allowed;
use evenkeel_testkit::worker_ports;
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{BootId, Epoch};

/// Workers of a server.
pub const WORKERS: u16 = 16;

/// Servers that begin at once.
const AT_ONCE: usize = 50;

/// The life of all servers.
const BOOT: u64 = 7;

/// What a worker can serve in a second.
const CAPACITY_RPS: u64 = 10_000;

/// Small requests a second of a cachelet, and by how much they differ.
const LOAD_RPS: u64 = 500;
const LOAD_SPREAD_RPS: u64 = 300;

/// A cachelet of which much is asked.
const HOT_CACHELET: u16 = 17;
const HOT_LOAD_RPS: u64 = 9_500;

/// Starts this many servers of a coordinator, some after the others, which end when they are dropped: `wait_for` waits until this many are up.
pub fn start(
    coordinator: SocketAddr,
    servers: u16,
    mut wait_for: impl FnMut(usize),
) -> Vec<MemberHandle> {
    raise_descriptor_limit_if_allowed(4 * usize::from(servers));
    let ports = worker_ports(BOOT, WORKERS);
    let start = |n| {
        let told = Arc::new(Mutex::new(Told::default()));
        let config = MemberConfig {
            coordinators: vec![coordinator.to_string()],
            access: Access::default(),
            cluster: "evenkeel".into(),
            kind: MemberKind::Server,
            name: format!("server-{n:04}"),
            boot: BootId(BOOT),
            host: spelling(n),
            port: 10_000 + n,
            worker_ports: ports.clone(),
            rack: None,
            gone_after: None,
            seed: u64::from(n),
        };
        let name = config.name.clone();
        let report = {
            let told = Arc::clone(&told);
            move || told.lock().expect("no panic").report()
        };
        let on_event = move |event| {
            if let MemberEvent::Map(map) = event {
                *told.lock().expect("no panic") = Told::of(&map, &name);
            }
        };
        MemberHandle::start(config, report, on_event).expect("a thread")
    };
    let mut members = Vec::new();
    for n in 0..servers {
        members.push(start(n));
        if members.len() % AT_ONCE == 0 {
            wait_for(members.len());
        }
    }
    members
}

/// The address of this machine in a spelling for each server, with more or fewer zeros: no two may have one host and one port.
fn spelling(n: u16) -> String {
    let zeros = |count: u16| "0".repeat(usize::from(count) + 1);
    format!("{}177.0.0.{}1", zeros(n / 40), zeros(n % 40))
}

/// The newest map, and what it gives to one of the servers.
#[derive(Default)]
struct Told {
    epoch: Epoch,
    /// With their workers.
    cachelets: Vec<(u16, u16)>,
}

impl Told {
    fn of(map: &ClusterMap, name: &str) -> Told {
        let server = map.servers().iter().find(|server| server.name == name);
        let owners = (0u16..).zip(&map.document().cachelets);
        let own = owners.filter_map(|(cachelet, owner)| {
            let owner = owner.filter(|owner| server.is_some_and(|it| it.id == owner.server))?;
            Some((cachelet, owner.worker))
        });
        Told {
            epoch: map.epoch(),
            cachelets: own.collect(),
        }
    }

    fn report(&self) -> Report {
        let load_of = |cachelet: u16| match cachelet {
            HOT_CACHELET => HOT_LOAD_RPS,
            _ => LOAD_RPS + u64::from(cachelet).wrapping_mul(7_919) % LOAD_SPREAD_RPS,
        };
        let mut loads = [0; WORKERS as usize];
        let mut cachelets = CacheletColumns::default();
        for &(cachelet, worker) in &self.cachelets {
            let load = load_of(cachelet);
            loads[usize::from(worker)] += load;
            cachelets.id.push(cachelet);
            cachelets.worker.push(worker);
            cachelets.load.push(load);
            cachelets.reads.push(load * 9 / 10);
            cachelets.hits.push(load * 8 / 10);
            cachelets.writes.push(load / 10);
            cachelets.bytes_in.push(load * 100);
            cachelets.bytes_out.push(load * 900);
            cachelets.memory_bytes.push(3 << 20);
            cachelets.items.push(10_000);
        }
        let nothing = vec![0; loads.len()];
        let workers = WorkerColumns {
            worker: (0..WORKERS).collect(),
            load: loads.into(),
            replica_load: nothing.clone(),
            diverted_load: nothing.clone(),
            replicated_keys: nothing.clone(),
            busy_ppm: loads
                .map(|load| (load * 1_000_000 / CAPACITY_RPS).min(1_000_000))
                .into(),
            memory_bytes: vec![12 << 20; loads.len()],
            left_out: nothing.clone(),
            left_out_load: nothing.clone(),
            left_out_bytes: nothing,
        };
        Report {
            epoch: self.epoch,
            load: LoadReport {
                requests_per_second: loads.map(|load| load as f64).into(),
                measured: Some(LoadNews {
                    memory_limit_bytes: 1 << 30,
                    workers,
                    cachelets,
                }),
                served: None,
            },
            ..Report::default()
        }
    }
}
