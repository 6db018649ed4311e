//! Racks on one machine: real memcacheds, a proxy in each rack, and the paths between them.
//!
//! ```text
//!  load ──> proxy of a rack ──> a relay with the distances ──> memcacheds in the racks, or central ones
//! ```
//!
//! All proxies know the same servers by the same names, each by paths of its own. The relay is a thread of this process, which counts what passes
//! it. Where items have copies, a coordinator has switched them on. A pool may take the place of another one at the same servers.

use super::super::copies::switch_on;
use crate::fleet::api_of;
use anyhow::{Context, ensure};
use evenkeel_bench::process::{Server, allowed_cores};
use evenkeel_bench::{Path as Way, Relay, Route, Target};
use evenkeel_coordinator_core::{BeginRequest, ChangeView, Stage};
use evenkeel_member::client::ApiClient;
use evenkeel_schemes::locality::model::{Architecture, Network};
use std::fs;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What each memcached may take for items, in MiB.
const MEMORY: &str = "64";

const POOL: &str = "main";

/// The pool that it takes the place of.
const FORMER: &str = "old";

const DIRECTORY: &str = "notes";

/// What the racks are called: by their numbers, and this one.
const CENTRAL: &str = "core";

/// Longest time until a change is where it is led to.
const LEAD_LIMIT: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What there is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Racks, without the central one.
    pub racks: usize,
    /// Where the servers are: [`Architecture::Sdc`] has as many in the central rack as the others have in all other racks, one in each.
    pub architecture: Architecture,
    /// The one that it takes the place of, if it does.
    pub former: Option<Architecture>,
    /// Round trips, without what servers and proxies take: its base is zero.
    pub network: Network,
    /// How old copies may be in racks that do not hold an item, where they are kept.
    pub local_copies: Option<&'static str>,
}

/// All of it. Dropping it ends all processes.
#[derive(Debug)]
pub(super) struct Ground {
    // In the order in which they should go.
    proxies: Vec<Server>,
    relay: Relay,
    /// For each path, whether it leaves its rack.
    leaves: Vec<bool>,
    architecture: Architecture,
    _memcacheds: Vec<Server>,
    coordinator: Server,
    _folder: TempDir,
}

impl Ground {
    pub fn start(plan: Plan) -> anyhow::Result<Ground> {
        let cores = allowed_cores()?;
        let folder = TempDir::new().context("making a folder")?;
        let state = folder.path().join("state").display().to_string();
        let coordinator = ["coordinator", "--listen", "127.0.0.1:0", "--state", &state];
        let coordinator = Server::evenkeel(&coordinator, &cores)?;
        let memcached = |_| {
            let arguments = ["-t", "1", "-m", MEMORY];
            Server::memcached(Path::new("memcached"), &arguments, &cores)
                .context("starting memcached (Debian: apt-get install memcached)")
        };
        let servers = plan.servers();
        let places = servers.len();
        let memcacheds = (0..places).map(memcached);
        let memcacheds = memcacheds.collect::<anyhow::Result<Vec<_>>>()?;
        // The paths of the first proxy, then those of the next.
        let ends = (0..plan.racks).flat_map(|from| (0..places).map(move |to| (from, to)));
        let route = |(from, to): (usize, usize)| Route {
            listen: ([127, 0, 0, 1], 0).into(),
            to: Target::from(memcacheds[to].address),
            path: Way {
                delay: plan.round_trip(from, servers[to]) / 2,
                ..Way::default()
            },
        };
        let relay = Relay::start(ends.clone().map(route).collect(), 0)?;
        let paths = relay.addresses.chunks(places).enumerate();
        let proxies = paths.map(|(rack, addresses)| {
            let path = folder.path().join(format!("{rack}.toml"));
            let listed = addresses.iter().zip(&servers).enumerate();
            let listed = listed.map(|(number, (address, place))| {
                let rack = name_of(*place);
                format!("{{ address = \"{address}\", name = \"m{number}\", rack = \"{rack}\" }}")
            });
            let listed: Vec<_> = listed.collect();
            let text = plan.proxy_file(rack, &listed, coordinator.address);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            let path = path.to_str().context("an odd folder")?;
            Server::evenkeel(&["proxy", "--config", path], &cores)
        });
        let proxies = proxies.collect::<anyhow::Result<Vec<_>>>()?;
        for (pool, architecture) in plan.pools() {
            if architecture == Architecture::Sdr {
                switch_on(&coordinator.address.to_string(), pool, plan.racks)?;
            }
        }
        Ok(Ground {
            proxies,
            relay,
            architecture: plan.architecture,
            leaves: ends.map(|(from, to)| servers[to] != Some(from)).collect(),
            _memcacheds: memcacheds,
            coordinator,
            _folder: folder,
        })
    }

    /// The proxies, rack by rack, to put load on.
    pub fn targets(&self) -> impl Iterator<Item = Target> {
        self.proxies.iter().map(|proxy| Target::from(proxy.address))
    }

    /// Where items live.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Has the pool brought to a stage of its change from the former one, and waits until all proxies work by that. How long that took.
    pub fn lead(&self, goal: Stage) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        let request = BeginRequest::at_once(goal, self.proxies.len());
        self.api()?.begin_change(POOL, &request)?;
        self.wait(&format!("all proxies to be {goal}"), |change| {
            let mut proxies = change.proxies.iter();
            let all = proxies.all(|proxy| proxy.acknowledged == change.version);
            change.stage == goal && all
        })?;
        Ok(begun.elapsed())
    }

    /// Waits until all proxies follow the change.
    pub fn wait_for_followers(&self) -> anyhow::Result<()> {
        let all = self.proxies.len();
        self.wait("proxies that follow", |change| change.proxies.len() == all)
    }

    fn wait(&self, what: &str, is_there: impl Fn(&ChangeView) -> bool) -> anyhow::Result<()> {
        let (api, begun) = (self.api()?, Instant::now());
        let is_it = |change: &ChangeView| change.pool == POOL && is_there(change);
        while !api.changes()?.changes.iter().any(is_it) {
            ensure!(
                begun.elapsed() < LEAD_LIMIT,
                "waited {LEAD_LIMIT:?} for {what} in vain"
            );
            thread::sleep(LOOK_INTERVAL);
        }
        Ok(())
    }

    fn api(&self) -> anyhow::Result<ApiClient> {
        api_of(&self.coordinator.address.to_string())
    }

    /// A count of this list of `stats`, of all proxies together.
    pub fn count(&self, list: &str, name: &str) -> anyhow::Result<u64> {
        let counts = self
            .proxies
            .iter()
            .map(|proxy| proxy.stats(list)?.number(name));
        counts.sum()
    }

    /// Bytes that the relay has executed of racks, and back into them.
    pub fn relayed(&self) -> [u64; 2] {
        let carried = self.relay.carried();
        let leaving = carried
            .iter()
            .zip(&self.leaves)
            .filter(|(_, leaves)| **leaves);
        leaving.fold([0, 0], |[to, from], (path, _)| {
            [to + path.bytes[0], from + path.bytes[1]]
        })
    }

    /// The same as the proxies have counted it.
    pub fn counted(&self) -> anyhow::Result<[u64; 2]> {
        let mut sum = [0, 0];
        for (number, proxy) in self.proxies.iter().enumerate() {
            let stats = proxy.stats("locality")?;
            let others = (0..self.proxies.len()).filter(|rack| *rack != number);
            let others = others.map(|rack| rack.to_string());
            for rack in others.chain([CENTRAL.to_owned()]) {
                sum[0] += stats.number(&format!("{rack}:sent_bytes"))?;
                sum[1] += stats.number(&format!("{rack}:received_bytes"))?;
            }
        }
        Ok(sum)
    }
}

impl Plan {
    /// The pools, and where their items live.
    fn pools(&self) -> impl Iterator<Item = (&'static str, Architecture)> {
        let former = self.former.map(|former| (FORMER, former));
        former.into_iter().chain([(POOL, self.architecture)])
    }

    fn has(&self, wanted: impl Fn(Architecture) -> bool) -> bool {
        self.pools().any(|(_, architecture)| wanted(architecture))
    }

    /// The rack of each memcached, `None` for the central one: those in racks, as many central ones, and a directory, as far as there are.
    fn servers(&self) -> Vec<Option<usize>> {
        let spread = self.has(|it| it != Architecture::Sdc);
        let central = self.has(|it| it == Architecture::Sdc);
        let directory = self.has(|it| it == Architecture::Dir);
        let count = |is_there: bool, count: usize| if is_there { count } else { 0 };
        let racks = (0..count(spread, self.racks)).map(Some);
        let centrals = count(central, self.racks) + count(directory, 1);
        racks.chain((0..centrals).map(|_| None)).collect()
    }

    /// Which of them are a pool's.
    fn of(&self, architecture: Architecture) -> Range<usize> {
        let spread = self.has(|it| it != Architecture::Sdc);
        match architecture {
            Architecture::Sdc if spread => self.racks..2 * self.racks,
            _ => 0..self.racks,
        }
    }

    fn round_trip(&self, from: usize, to: Option<usize>) -> Duration {
        let switches = match to {
            None => 2,
            Some(to) if to == from => 1,
            Some(_) => 3,
        };
        Duration::from_secs_f64(self.network.across(switches) / 1000.0)
    }

    /// What the proxy of a rack is told.
    fn proxy_file(&self, rack: usize, servers: &[String], coordinator: SocketAddr) -> String {
        let racks: String = (0..self.racks)
            .map(|rack| format!("[topology.racks.{rack}]\n"))
            .collect();
        let led = format!("pool_coordinator = \"http://{coordinator}\"\n");
        let pools = self.pools().map(|(name, architecture)| {
            let more = match architecture {
                Architecture::Sdr => led.clone(),
                Architecture::Dir => format!("directory = \"{DIRECTORY}\"\n"),
                _ => String::new(),
            };
            let copies = self.local_copies.map_or_else(String::new, |ttl| {
                format!("local_copies = \"on\"\nlocal_copies_ttl = \"{ttl}\"\n")
            });
            let change = match self.former.is_some() && name == POOL {
                true => format!("generation = 1\nwarm_from = \"{FORMER}\"\n{led}"),
                false => String::new(),
            };
            format!(
                "[pools.{name}]\nservers = [{}]\narchitecture = \"{architecture}\"\n{more}{copies}{change}",
                servers[self.of(architecture)].join(", ")
            )
        });
        let directory = match (self.has(|it| it == Architecture::Dir), servers.last()) {
            (true, Some(last)) => format!("[pools.{DIRECTORY}]\nservers = [{last}]\n"),
            _ => String::new(),
        };
        format!(
            "{racks}[topology.racks.{CENTRAL}]\ncentral = true\n\
             [proxy]\nlisten = \"127.0.0.1:0\"\nthreads = 1\nrack = \"{rack}\"\n\
             {}{directory}[[routes]]\npool = \"{POOL}\"\n",
            pools.collect::<String>()
        )
    }
}

/// What the rack of a server is called.
fn name_of(rack: Option<usize>) -> String {
    rack.map_or_else(|| CENTRAL.to_owned(), |rack| rack.to_string())
}
