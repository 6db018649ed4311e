//! memcacheds whose transactions cost something, proxies before them that keep copies, and the coordinator that switches these on.
//!
//! ```text
//!  load ──> proxies ──> a relay with service times ──> memcacheds
//!  filling ──> another proxy ─────────────────────^
//!                  └── coordinator: copies are on
//! ```
//!
//! The proxy that fills knows the same servers by the same names, so that it keeps the same copies; but it passes the relays by, so that what
//! would take minutes under the service times takes seconds. The relay is a thread of this process, which counts what passes it.

use super::super::copies::switch_on;
use anyhow::Context;
use evenkeel_bench::process::{Server, allowed_cores};
use evenkeel_bench::{Asked, Path as Way, Relay, Route, Target};
use std::fs;
use std::net::SocketAddr;
use std::ops::Sub;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// What a server takes for a request line, and for each key in it: as [`COST`](super::COST) has it. Sixteen servers serve 8,000 lines a second
/// then, which two cores drive without being half busy.
pub(super) const LINE_TIME: Duration = Duration::from_micros(1_800);
pub(super) const KEY_TIME: Duration = Duration::from_micros(100);

/// What each memcached may take for items, in MiB.
const MEMORY: &str = "64";

/// How long copies live: longer than a run takes. Servers are a hundred times as slow as they would be, the time that copies live is not; so those
/// that end would be brought anew far too often for what else happens.
const COPIES_TTL: &str = "86400s";

/// What may be filled of a server's memory in that time, which is all the time: that which writes delete is filled again.
const COPIES_FILL_SHARE: &str = "1.0";

/// How long an answer may take: longer than what a trial that is far too much for the servers leaves in their queues.
const REQUEST_TIMEOUT: &str = "30s";

/// The only pool.
pub(super) const POOL: &str = "main";

/// How many of what there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub servers: usize,
    pub proxies: usize,
    /// Of each item, its own place included: with one there are no others, and it is counted what two would save.
    pub copies: usize,
}

/// All of it. Dropping it ends all processes.
#[derive(Debug)]
pub(super) struct SlowedFleet {
    // In the order in which they should go.
    proxies: Vec<Server>,
    filler: Server,
    relay: Relay,
    _memcacheds: Vec<Server>,
    _coordinator: Server,
    _folder: TempDir,
    copies: usize,
}

/// What has been counted up to a moment, or between two.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// What each server was asked, by its relay.
    pub asked: Vec<Asked>,
    /// By the proxies: multi-gets, the servers that they asked, the copies that these asked, and those that were there.
    pub multi_gets: u64,
    pub transactions: u64,
    pub copies_asked: u64,
    pub copies_hit: u64,
}

impl Sub for Seen {
    type Output = Seen;

    /// What was counted since an earlier look.
    fn sub(self, earlier: Seen) -> Seen {
        let asked = self.asked.iter().zip(&earlier.asked);
        Seen {
            asked: asked.map(|(&asked, &earlier)| asked - earlier).collect(),
            multi_gets: self.multi_gets - earlier.multi_gets,
            transactions: self.transactions - earlier.transactions,
            copies_asked: self.copies_asked - earlier.copies_asked,
            copies_hit: self.copies_hit - earlier.copies_hit,
        }
    }
}

impl SlowedFleet {
    /// Starts it, and waits until copies are on if there are to be any.
    pub fn start(size: Size) -> anyhow::Result<SlowedFleet> {
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
        let memcacheds = (0..size.servers).map(memcached);
        let memcacheds = memcacheds.collect::<anyhow::Result<Vec<_>>>()?;
        let direct: Vec<SocketAddr> = memcacheds.iter().map(|server| server.address).collect();
        let route = |&to: &SocketAddr| Route {
            listen: ([127, 0, 0, 1], 0).into(),
            to: Target::from(to),
            path: Way {
                service_time: KEY_TIME,
                service_time_line: LINE_TIME,
                ..Way::default()
            },
        };
        let relay = Relay::start(direct.iter().map(route).collect(), 0)?;
        let proxy = |name: &str, servers: &[SocketAddr]| -> anyhow::Result<Server> {
            let path = folder.path().join(format!("{name}.toml"));
            let text = proxy_file(name, servers, size.copies, coordinator.address);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            let path = path.to_str().context("an odd folder")?;
            Server::evenkeel(&["proxy", "--config", path], &cores)
        };
        let proxies =
            (0..size.proxies).map(|number| proxy(&format!("p{number}"), &relay.addresses));
        let proxies = proxies.collect::<anyhow::Result<Vec<_>>>()?;
        let filler = proxy("filler", &direct)?;
        if size.copies > 1 {
            switch_on(&coordinator.address.to_string(), POOL, size.proxies + 1)?;
        }
        Ok(SlowedFleet {
            proxies,
            filler,
            relay,
            _memcacheds: memcacheds,
            _coordinator: coordinator,
            _folder: folder,
            copies: size.copies,
        })
    }

    /// The proxies, to put load on.
    pub fn targets(&self) -> Vec<Target> {
        let proxies = self.proxies.iter();
        proxies.map(|proxy| Target::from(proxy.address)).collect()
    }

    /// The proxy that passes the service times by.
    pub fn filler(&self) -> Target {
        Target::from(self.filler.address)
    }

    /// What the relays and proxies have counted so far.
    pub fn seen(&self) -> anyhow::Result<Seen> {
        let count = |name| -> anyhow::Result<u64> {
            let proxies = self.proxies.iter();
            proxies.map(|proxy| count(proxy, name)).sum()
        };
        Ok(Seen {
            asked: self.relay.carried().iter().map(|path| path.asked).collect(),
            multi_gets: count("requests")?,
            transactions: match self.copies {
                1 => count("transactions")?,
                _ => count("transactions_covered")? + count("second_round_transactions")?,
            },
            copies_asked: count("copies_asked")?,
            copies_hit: count("copies_hit")?,
        })
    }

    /// Copies that the proxy that fills has asked and not found.
    pub fn copies_absent(&self) -> anyhow::Result<u64> {
        count(&self.filler, "copies_absent")
    }
}

/// What a proxy has counted of the pool's copies.
pub(super) fn count(proxy: &Server, name: &str) -> anyhow::Result<u64> {
    let name = format!("{POOL}:bundle_{name}");
    proxy.stats("proxy")?.number(&name)
}

/// What a proxy is told. All know the servers by the same names, wherever they find them.
pub(super) fn proxy_file(
    name: &str,
    servers: &[SocketAddr],
    copies: usize,
    coordinator: SocketAddr,
) -> String {
    let server = |(number, address): (usize, &SocketAddr)| {
        format!("{{ address = \"{address}\", name = \"m{number}\" }}")
    };
    let servers: Vec<String> = servers.iter().enumerate().map(server).collect();
    let bundle = match copies {
        1 => "bundle = \"observe\"\ncopies = 2\n".to_owned(),
        _ => format!(
            "bundle = \"on\"\ncopies = {copies}\ncopies_ttl = \"{COPIES_TTL}\"\n\
             copies_fill_share = {COPIES_FILL_SHARE}\npool_coordinator = \"http://{coordinator}\"\n"
        ),
    };
    format!(
        "[proxy]\nlisten = \"127.0.0.1:0\"\nthreads = 1\nname = \"{name}\"\n\
         [pools.{POOL}]\nservers = [{}]\nrequest_timeout = \"{REQUEST_TIMEOUT}\"\n{bundle}",
        servers.join(", ")
    )
}
