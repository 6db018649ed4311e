//! Racks on one machine: real memcacheds, a proxy in each rack, and the paths between them.
//!
//! ```text
//!  load ──> proxy of a rack ──> a relay with the distances ──> memcacheds in the racks, or central ones
//! ```
//!
//! All proxies know the same servers by the same names, each by paths of its own. The relay is a thread of this process, which counts what passes
//! it. Where items have copies, a coordinator has switched them on.

use super::super::copies::switch_on;
use anyhow::Context;
use evenkeel_bench::process::{Server, allowed_cores};
use evenkeel_bench::{Path as Way, Relay, Route, Target};
use evenkeel_schemes::locality::model::{Architecture, Network};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// What each memcached may take for items, in MiB.
const MEMORY: &str = "64";

const POOL: &str = "main";

const DIRECTORY: &str = "notes";

/// What the racks are called: by their numbers, and this one.
const CENTRAL: &str = "core";

/// What there is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Racks, without the central one.
    pub racks: usize,
    /// Where the servers are: [`Architecture::Sdc`] has as many in the central rack as the others have in all other racks, one in each.
    pub architecture: Architecture,
    /// Round trips, without what servers and proxies take: its base is zero.
    pub network: Network,
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
    _coordinator: Server,
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
        let memcacheds = (0..plan.places()).map(memcached);
        let memcacheds = memcacheds.collect::<anyhow::Result<Vec<_>>>()?;
        // The paths of the first proxy, then those of the next.
        let places = plan.places();
        let ends = (0..plan.racks).flat_map(|from| (0..places).map(move |to| (from, to)));
        let route = |(from, to): (usize, usize)| Route {
            listen: ([127, 0, 0, 1], 0).into(),
            to: Target::from(memcacheds[to].address),
            path: Way {
                delay: plan.round_trip(from, to) / 2,
                ..Way::default()
            },
        };
        let relay = Relay::start(ends.clone().map(route).collect(), 0)?;
        let paths = relay.addresses.chunks(places).enumerate();
        let proxies = paths.map(|(rack, addresses)| {
            let path = folder.path().join(format!("{rack}.toml"));
            let servers = addresses.iter().enumerate();
            let servers = servers.map(|(number, address)| {
                let rack = plan.rack_of(number);
                format!("{{ address = \"{address}\", name = \"m{number}\", rack = \"{rack}\" }}")
            });
            let servers: Vec<_> = servers.collect();
            let text = plan.proxy_file(rack, &servers, coordinator.address);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            let path = path.to_str().context("an odd folder")?;
            Server::evenkeel(&["proxy", "--config", path], &cores)
        });
        let proxies = proxies.collect::<anyhow::Result<Vec<_>>>()?;
        if plan.architecture == Architecture::Sdr {
            switch_on(&coordinator.address.to_string(), POOL, plan.racks)?;
        }
        Ok(Ground {
            proxies,
            relay,
            architecture: plan.architecture,
            leaves: ends.map(|(from, to)| plan.leaves(from, to)).collect(),
            _memcacheds: memcacheds,
            _coordinator: coordinator,
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

    /// Bytes that the relay has carried out of racks, and back into them.
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
    fn is_central(&self) -> bool {
        self.architecture == Architecture::Sdc
    }

    /// How many memcacheds there are: a directory is the last.
    fn places(&self) -> usize {
        self.racks + usize::from(self.architecture == Architecture::Dir)
    }

    /// Whether a server is central.
    fn is_on_backbone(&self, server: usize) -> bool {
        self.is_central() || server >= self.racks
    }

    /// The rack of a server.
    fn rack_of(&self, server: usize) -> String {
        match self.is_on_backbone(server) {
            true => CENTRAL.to_owned(),
            false => server.to_string(),
        }
    }

    fn leaves(&self, from: usize, to: usize) -> bool {
        self.is_on_backbone(to) || from != to
    }

    fn round_trip(&self, from: usize, to: usize) -> Duration {
        let switches = match (self.is_on_backbone(to), from == to) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 3,
        };
        Duration::from_secs_f64(self.network.across(switches) / 1000.0)
    }

    /// What the proxy of a rack is told.
    fn proxy_file(&self, rack: usize, servers: &[String], coordinator: SocketAddr) -> String {
        let racks: String = (0..self.racks)
            .map(|rack| format!("[topology.racks.{rack}]\n"))
            .collect();
        let (servers, directory) = servers.split_at(self.racks);
        let more = match self.architecture {
            Architecture::Sdr => format!("pool_coordinator = \"http://{coordinator}\"\n"),
            Architecture::Dir => format!(
                "directory = \"{DIRECTORY}\"\n[pools.{DIRECTORY}]\nservers = [{}]\n[[routes]]\npool = \"{POOL}\"\n",
                directory.join(", ")
            ),
            _ => String::new(),
        };
        format!(
            "{racks}[topology.racks.{CENTRAL}]\ncentral = true\n\
             [proxy]\nlisten = \"127.0.0.1:0\"\nthreads = 1\nrack = \"{rack}\"\n\
             [pools.{POOL}]\nservers = [{}]\narchitecture = \"{}\"\n{more}",
            servers.join(", "),
            self.architecture
        )
    }
}
