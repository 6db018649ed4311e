//! memcacheds behind relays that add a service time, two proxies that share a ring of them, and the coordinator that leads it.

use crate::up::args::Args;
use crate::up::member::{MEMCACHED, Member, Plan};
use crate::up::processes::{Outcome, Processes, START_DEADLINE, words};
use anyhow::Context;
use evenkeel_bench::process::memcached_version;
use evenkeel_coordinator_core::{RingMode, RingSettingsRequest, RingView};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

/// Name of the pool.
pub const POOL: &str = "main";

/// Proxies: two, so that they have to go through each move together.
pub const PROXIES: usize = 2;

/// Keys a second that each memcached serves, one after the other: so few that a small machine has room for all of them and their load.
pub const CAPACITY: u32 = 2000;

/// The length of a slot: the shortest that there is, since somebody looks on.
const SLOT: Duration = Duration::from_secs(1);

/// How long items that are asked for come along. Shorter than the default, so that more plans fit a minute.
const WARMING: Duration = Duration::from_secs(3);

const RELAY: &str = "bench relay";
const PROXY: &str = "proxy";
const FIRST_MEMCACHED: usize = 1;

/// All of it.
#[derive(Debug)]
pub struct Fleet {
    /// The coordinator, the memcacheds, their relays, the proxies.
    pub processes: Processes,
}

impl Fleet {
    /// Prepares everything that needs no process. From here on signals stop it.
    ///
    /// # Errors
    /// When no memcached is installed, and as [`Processes::prepare`].
    pub fn prepare(args: &Args) -> anyhow::Result<Fleet> {
        memcached_version(Path::new(MEMCACHED))
            .context("memcached has to be installed (Debian: apt-get install memcached)")?;
        let processes = Processes::prepare(args.coordinator_listen, &[])?;
        Ok(Fleet { processes })
    }

    /// Starts all processes, and returns when both proxies follow the ring, which follows its load from then on.
    ///
    /// # Errors
    /// As [`Processes::wait_ready`].
    pub fn start(&mut self, args: &Args) -> anyhow::Result<Outcome> {
        let start = self.start_all(args);
        self.processes.started(start)
    }

    fn start_all(&mut self, args: &Args) -> anyhow::Result<()> {
        let end = Instant::now() + START_DEADLINE;
        self.processes.start_coordinator(end)?;
        let servers = usize::from(args.of_adaptive.memcached);
        let memory = args.memory_limit.to_string();
        for number in 1..=servers {
            let arguments = ["-t", "1", "-m", &memory];
            self.add(format!("memcached-{number}"), MEMCACHED, &arguments)?;
        }
        let relays = FIRST_MEMCACHED + servers;
        self.processes.wait_ready(FIRST_MEMCACHED..relays, end)?;
        let behind: Vec<_> = self.addresses(MEMCACHED).collect();
        let service_time = Duration::from_secs(1) / CAPACITY;
        let service_time = format!("{}us", service_time.as_micros());
        for (number, to) in (1..).zip(behind) {
            let arguments = ["--to", &to.to_string(), "--service-time", &service_time];
            self.add(format!("relay-{number}"), RELAY, &arguments)?;
        }
        let proxies = relays + servers;
        self.processes.wait_ready(relays..proxies, end)?;
        for number in 1..=PROXIES {
            let file = self.processes.files().join(format!("proxy-{number}.toml"));
            let text = self.proxy_file(number)?;
            std::fs::write(&file, text)
                .with_context(|| format!("failed to write {}", file.display()))?;
            let arguments = ["--config", &file.display().to_string()];
            self.add(format!("proxy-{number}"), PROXY, &arguments)?;
        }
        self.processes.wait_ready(proxies..proxies + PROXIES, end)?;
        let api = self.processes.api()?;
        self.processes
            .wait_until(end, "two proxies that follow the ring", |_| {
                let rings = api.rings().map(|view| view.rings).unwrap_or_default();
                rings.iter().any(|it| it.change.proxies.len() == PROXIES)
            })?;
        api.set_ring(
            POOL,
            &RingSettingsRequest {
                mode: Some(RingMode::Automatic),
                proxies: Some(PROXIES),
                slot_ms: Some(SLOT.as_millis() as u64),
                warming_ms: Some(WARMING.as_millis() as u64),
                ..RingSettingsRequest::default()
            },
        )?;
        Ok(())
    }

    fn add(&mut self, name: String, role: &'static str, arguments: &[&str]) -> anyhow::Result<()> {
        self.processes.start(Plan {
            name,
            role,
            arguments: words(arguments),
            listen: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0),
        })
    }

    /// The ring begins as a ketama of the servers' names, which are the same in every run.
    fn proxy_file(&self, number: usize) -> anyhow::Result<String> {
        let named = (1..).zip(self.addresses(RELAY));
        let servers: Vec<_> = named
            .map(|(number, address)| format!("{{ address = \"{address}\", name = \"m{number}\" }}"))
            .collect();
        Ok(format!(
            "[proxy]\nthreads = 1\nname = \"p{number}\"\n\
             [pools.{POOL}]\nservers = [{}]\ndistribution = \"adaptive\"\nstart = \"ketama\"\ncollapse = false\n\
             pool_coordinator = \"http://{}\"\n",
            servers.join(", "),
            self.processes.coordinator_address()?
        ))
    }

    fn addresses(&self, role: &str) -> impl Iterator<Item = SocketAddr> {
        self.processes.with_role(role).filter_map(Member::address)
    }

    /// Where the proxies listen.
    pub fn proxies(&self) -> Vec<SocketAddr> {
        self.addresses(PROXY).collect()
    }

    /// The ring, as its coordinator shows it.
    ///
    /// # Errors
    /// When the coordinator does not answer; it may be down just now.
    pub fn ring(&self) -> anyhow::Result<RingView> {
        let rings = self.processes.api()?.rings()?.rings;
        rings.into_iter().next().context("there is no ring")
    }
}
