//! memcacheds with a hard capacity, two proxies that share a ring of them, and the coordinator that leads it.
//!
//! ```text
//!  generator ──> 2 proxies ──> relays with a service time ──> memcacheds
//!                    └── coordinator: the ring
//! ```

use crate::fleet::{LoadSpec, PIPELINE, api_of};
use crate::run::Run;
use anyhow::{Context, ensure};
use evenkeel_bench::process::{Server, Stats, allowed_cores};
use evenkeel_bench::{LoadHandle, Target};
use evenkeel_coordinator_core::{
    RingMode, RingServerRequest, RingSettingsRequest, RingView, ServerOrder, Stage,
};
use evenkeel_member::client::ApiClient;
use evenkeel_workload::Popularity;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Name of the pool.
pub(in crate::experiments) const POOL: &str = "main";

/// Proxies.
pub(super) const PROXIES: usize = 2;

/// Keys a second that each server serves.
pub(super) const CAPACITY: u64 = 2_000;

/// The length of a slot: a fifth of the default, the shortest that there is.
pub(super) const SLOT: Duration = Duration::from_secs(1);

/// Connections of the load to each proxy.
const CONNECTIONS: usize = 16;

/// Longest time until proxies and coordinator know each other.
const READY_LIMIT: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A memcached and the relay that adds its service time.
#[derive(Debug)]
struct Behind {
    /// By which its place on the ring is chosen: so that it is the same in every run.
    name: String,
    relay: Server,
    memcached: Server,
}

/// All of it. Dropping it ends all processes.
#[derive(Debug)]
pub(in crate::experiments) struct RingFleet {
    // In the order in which they should go.
    proxies: Vec<Server>,
    servers: Vec<Behind>,
    _coordinator: Server,
    api: ApiClient,
    service_time: Duration,
    _folder: TempDir,
}

impl Behind {
    fn start(number: usize, service_time: Duration) -> anyhow::Result<Behind> {
        let cores = allowed_cores()?;
        let memcached = Server::memcached(Path::new("memcached"), &["-t", "1"], &cores)
            .context("starting memcached (Debian: apt-get install memcached)")?;
        let (to, service_time) = (
            memcached.address.to_string(),
            format!("{}us", service_time.as_micros()),
        );
        let relay = [
            "bench",
            "relay",
            "--to",
            &to,
            "--service-time",
            &service_time,
        ];
        Ok(Behind {
            name: format!("m{number}"),
            relay: Server::evenkeel(&relay, &cores)?,
            memcached,
        })
    }

    /// Where proxies find it.
    fn address(&self) -> String {
        self.relay.address.to_string()
    }
}

impl RingFleet {
    /// Starts this many servers, placed by ketama as yet, and waits until both proxies follow.
    pub fn start(servers: usize) -> anyhow::Result<RingFleet> {
        RingFleet::start_with(servers, CAPACITY, &[])
    }

    /// The same with servers of this many keys a second, and further flags of the coordinator.
    pub fn start_with(
        servers: usize,
        capacity: u64,
        flags: &[String],
    ) -> anyhow::Result<RingFleet> {
        let service_time = Duration::from_nanos(1_000_000_000 / capacity);
        let cores = allowed_cores()?;
        let folder = TempDir::new().context("making a folder")?;
        let state = folder.path().join("state").display().to_string();
        let mut coordinator = vec!["coordinator", "--listen", "127.0.0.1:0", "--state", &state];
        coordinator.extend(flags.iter().map(String::as_str));
        let coordinator = Server::evenkeel(&coordinator, &cores)?;
        let api = api_of(&coordinator.address.to_string())?;
        let servers = (1..=servers).map(|number| Behind::start(number, service_time));
        let servers = servers.collect::<anyhow::Result<Vec<_>>>()?;
        let listed: Vec<String> = servers
            .iter()
            .map(|it| {
                format!(
                    "{{ address = \"{}\", name = \"{}\" }}",
                    it.address(),
                    it.name
                )
            })
            .collect();
        let proxy = |number: usize| {
            let path = folder.path().join(format!("proxy-{number}.toml"));
            let text = format!(
                "[proxy]\nlisten = \"127.0.0.1:0\"\nthreads = 1\nname = \"p{number}\"\n\
                 [pools.{POOL}]\nservers = [{}]\ndistribution = \"adaptive\"\nstart = \"ketama\"\ncollapse = false\n\
                 pool_coordinator = \"http://{}\"\n",
                listed.join(", "),
                coordinator.address
            );
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            let path = path.to_str().context("an odd folder")?;
            Server::evenkeel(&["proxy", "--config", path], &cores)
        };
        let fleet = RingFleet {
            proxies: (1..=PROXIES).map(proxy).collect::<anyhow::Result<_>>()?,
            servers,
            _coordinator: coordinator,
            api,
            service_time,
            _folder: folder,
        };
        fleet.wait("two proxies that follow", |ring| {
            ring.change.proxies.len() == PROXIES
        })?;
        Ok(fleet)
    }

    /// The proxies, to put load on.
    pub fn targets(&self) -> Vec<Target> {
        let proxies = self.proxies.iter();
        proxies.map(|proxy| Target::from(proxy.address)).collect()
    }

    /// Keys a second that this many servers serve together.
    pub fn capacity(servers: usize) -> f64 {
        (servers as u64 * CAPACITY) as f64
    }

    /// The ring, as its coordinator shows it.
    pub fn ring(&self) -> anyhow::Result<RingView> {
        let rings = self.api.rings()?.rings;
        rings.into_iter().next().context("there is no ring yet")
    }

    /// Whether no plan is under way or waits, and the last one is done.
    pub fn rests(&self) -> bool {
        self.ring().is_ok_and(|ring| {
            let plan = &ring.change.ring;
            let waits = plan.as_ref().is_some_and(|plan| plan.server.is_some());
            !waits && ring.waiting.is_empty() && ring.change.stage == ring.change.goal
        })
    }

    /// Changes how the ring follows its load.
    pub fn set(&self, mode: RingMode, warming: Duration) -> anyhow::Result<()> {
        self.api.set_ring(
            POOL,
            &RingSettingsRequest {
                mode: Some(mode),
                proxies: Some(PROXIES),
                slot_ms: Some(SLOT.as_millis() as u64),
                warming_ms: Some(warming.as_millis() as u64),
                ..RingSettingsRequest::default()
            },
        )?;
        Ok(())
    }

    /// Orders moves in the ring.
    pub fn api(&self) -> &ApiClient {
        &self.api
    }

    /// From now on all items that move come along, this many a second at most.
    pub fn copy(&self, keys_per_second: u32) -> anyhow::Result<()> {
        let request = RingSettingsRequest {
            copy_keys_per_second: Some(keys_per_second),
            ..RingSettingsRequest::default()
        };
        self.api.set_ring(POOL, &request)?;
        Ok(())
    }

    /// Starts another server and has it added. Its name.
    pub fn add(&mut self) -> anyhow::Result<String> {
        let newcomer = Behind::start(self.servers.len() + 1, self.service_time)?;
        let (name, address) = (newcomer.name.clone(), newcomer.address());
        self.servers.push(newcomer);
        let request = RingServerRequest {
            what: ServerOrder::Add,
            server: format!("{address} {name}"),
            proxies: PROXIES,
        };
        self.api.begin_ring_server(POOL, &request)?;
        Ok(name)
    }

    /// Kills a server and what stands before it, as a host that dies.
    pub fn kill(&mut self, name: &str) -> anyhow::Result<()> {
        let at = self.servers.iter().position(|server| server.name == name);
        let mut dead = self.servers.remove(at.context("no such server")?);
        dead.relay.kill();
        dead.memcached.kill();
        Ok(())
    }

    /// Whether a server has no part of the ring, and the plan by which it lost it is done.
    pub fn is_without(&self, name: &str) -> bool {
        self.ring().is_ok_and(|ring| {
            let mut servers = ring.servers.iter();
            let share = servers
                .find(|server| server.name == name)
                .map(|it| it.share);
            share.is_none_or(|share| share == 0.0) && ring.change.stage == Stage::Done
        })
    }

    /// Keys that each server has served since its start, by name.
    pub fn keys_served(&self) -> anyhow::Result<Vec<(String, u64)>> {
        let served = |server: &Behind| {
            let stats = Stats::of(server.memcached.address, "")?;
            let keys = stats.number("cmd_get")? + stats.number("cmd_set")?;
            Ok((server.name.clone(), keys))
        };
        self.servers.iter().map(served).collect()
    }

    /// The sum of a count of the proxies.
    pub fn count(&self, name: &str) -> anyhow::Result<u64> {
        let count = |proxy: &Server| proxy.stats("proxy")?.number(name);
        self.proxies.iter().map(count).sum()
    }

    fn wait(&self, what: &str, is_so: impl Fn(&RingView) -> bool) -> anyhow::Result<()> {
        let end = Instant::now() + READY_LIMIT;
        while !self.ring().is_ok_and(|ring| is_so(&ring)) {
            ensure!(
                Instant::now() < end,
                "waited {READY_LIMIT:?} for {what} in vain"
            );
            thread::sleep(LOOK_INTERVAL);
        }
        Ok(())
    }
}

/// The load: items that are read, and put back by anyone who misses them.
pub(in crate::experiments) fn load(run: &Run) -> LoadSpec {
    LoadSpec {
        keys: run.by_scale([2_000, 20_000, 100_000, 1_000_000]),
        prefix: "k:".into(),
        key_len: 16,
        value_len: 500,
        popularity: Popularity::Zipf { exponent: 0.99 },
        get_share: 0.95,
        cache_aside: true,
        read_only: None,
        reshuffle: None,
        connections: CONNECTIONS,
        pipeline: PIPELINE,
        warm_up: Duration::ZERO,
        duration: Duration::ZERO,
        seed: run.seed,
    }
}

/// Fills a fleet and puts a load on it.
pub(super) fn start_load(
    fleet: &RingFleet,
    load: &LoadSpec,
    requests_per_second: f64,
) -> anyhow::Result<Vec<LoadHandle>> {
    let targets = fleet.targets();
    load.fill_by(targets[0].clone())?;
    load.start(&targets, requests_per_second, None)
}

/// What servers served between two looks, by name; those that were not there before from nothing.
pub(super) fn served(before: &[(String, u64)], after: &[(String, u64)]) -> Vec<(String, f64)> {
    let known = |name: &String| before.iter().find(|(other, _)| other == name);
    let served = after.iter().map(|(name, keys)| {
        let was = known(name).map_or(0, |(_, keys)| *keys);
        (name.clone(), keys.saturating_sub(was) as f64)
    });
    served.collect()
}
