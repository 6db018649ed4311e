//! `evenkeel bench compare`: peers that are installed here beside Evenkeel, under the same load in turns.
//!
//! Servers are compared with a server of Evenkeel, proxies with its proxy; each has one worker, and all of a
//! kind share a core, since only one of them is under load at a time.

use crate::args::LoadArgs;
use crate::peers::{like_twemproxy, redis, twemproxy};
use crate::process::{Refused, Server, allowed_cores};
use crate::run::{Measured, measure_in_turn, report_error, show};
use crate::{BadUsage, LoadPlan, Protocol, Target};
use anyhow::{Context, ensure};
use std::fmt;
use std::path::PathBuf;

/// Servers behind each proxy.
const SERVERS: usize = 2;

/// Connections that those who are compared have room for.
const CONNECTIONS_MAX: usize = 4096;

/// Measures peers that are installed here beside Evenkeel.
///
/// All get the same load, in turns (A B A B …), and are compared with the first peer. A peer that is not
/// installed is left out, and that is said.
#[derive(Clone, Debug, clap::Args)]
pub struct CompareArgs {
    /// Who is measured beside Evenkeel: servers (memcached, redis) or a proxy (nutcracker)
    #[arg(required = true, value_enum, value_name = "PEER")]
    pub peers: Vec<PeerName>,

    /// The program that is memcached
    #[arg(long, value_name = "PROGRAM", default_value = "memcached")]
    pub memcached: PathBuf,

    /// The program that is Redis' server
    #[arg(long, value_name = "PROGRAM", default_value = "redis-server")]
    pub redis: PathBuf,

    /// The program that is twemproxy
    #[arg(long, value_name = "PROGRAM", default_value = "nutcracker")]
    pub nutcracker: PathBuf,

    /// Memory of each server, in megabytes
    #[arg(long, default_value_t = 1024, value_name = "MB")]
    pub memory: u32,

    /// Core of those that are compared [default: the first]; --pin names those of the generator [default: all
    /// others]
    #[arg(long, value_name = "CORE")]
    pub server_core: Option<usize>,

    /// The load.
    #[command(flatten)]
    pub load: LoadArgs,
}

/// A program that does what Evenkeel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PeerName {
    /// The server whose protocol this is.
    Memcached,
    /// Another server, by its own protocol.
    Redis,
    /// twemproxy, in front of two memcacheds.
    Nutcracker,
}

impl PeerName {
    fn is_proxy(self) -> bool {
        matches!(self, PeerName::Nutcracker)
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PeerName::Memcached => "memcached",
            PeerName::Redis => "redis",
            PeerName::Nutcracker => "nutcracker",
        })
    }
}

/// Runs, prints, and returns the exit code: 0 fine, 1 failed, nobody to compare with, or wrong values seen, 2
/// bad usage.
pub fn execute_compare(args: &CompareArgs) -> u8 {
    compare(args).unwrap_or_else(|error| report_error("compare", &error))
}

fn compare(args: &CompareArgs) -> anyhow::Result<u8> {
    let ground = Ground::new(args)?;
    let proxies = args.peers[0].is_proxy();
    if args.peers.iter().any(|peer| peer.is_proxy() != proxies) {
        let what = "servers are compared with a server and proxies with a proxy: name one kind";
        return Err(BadUsage(what.into()).into());
    }
    let behind = match proxies {
        true => ground.servers_behind(args)?,
        false => Vec::new(),
    };
    let mut running: Vec<(String, Protocol, Server)> = Vec::new();
    for peer in &args.peers {
        match ground.start(*peer, args, &behind) {
            Ok(server) => running.push((peer.to_string(), ground.protocol(*peer), server)),
            // One that starts and then refuses its flags is no reason to go on without it.
            Err(error) if error.is::<Refused>() => return Err(error),
            Err(error) => eprintln!("evenkeel bench compare: {peer} is left out: {error:#}"),
        }
    }
    ensure!(
        !running.is_empty(),
        "none of those named is installed here: nothing to compare with"
    );
    let own = ground.start_own(args, &behind, proxies)?;
    running.push(("evenkeel".into(), args.load.traffic.protocol, own));
    let measured = running
        .iter()
        .map(|(name, protocol, server)| ground.measured(args, name, *protocol, server))
        .collect::<Result<Vec<_>, _>>()?;
    show(&args.load, &measure_in_turn(&args.load, &measured)?)
}

/// The cores, and what was asked for.
struct Ground {
    server: [usize; 1],
    generator: Vec<usize>,
    protocol: Protocol,
}

impl Ground {
    fn new(args: &CompareArgs) -> anyhow::Result<Ground> {
        let allowed = allowed_cores()?;
        let server = args.server_core.unwrap_or(allowed[0]);
        if !allowed.contains(&server) {
            let what = format!("core {server} is not one that this process may use");
            return Err(BadUsage(what).into());
        }
        let mut generator = args.load.traffic.pin.clone();
        if generator.is_empty() {
            generator = allowed.into_iter().filter(|&core| core != server).collect();
        }
        if generator.is_empty() {
            let what =
                "two cores are needed: one for those that are compared, one for the generator";
            return Err(BadUsage(what.into()).into());
        }
        Ok(Ground {
            server: [server],
            generator,
            protocol: args.load.traffic.protocol,
        })
    }

    fn protocol(&self, peer: PeerName) -> Protocol {
        match peer {
            PeerName::Redis => Protocol::Resp,
            // Knows no meta commands.
            PeerName::Nutcracker => Protocol::Classic,
            PeerName::Memcached => self.protocol,
        }
    }

    fn servers_behind(&self, args: &CompareArgs) -> anyhow::Result<Vec<Server>> {
        let memory = args.memory.to_string();
        (0..SERVERS)
            .map(|_| {
                let arguments = ["-t", "1", "-m", &memory];
                Server::memcached(&args.memcached, &arguments, &self.generator)
                    .context("a proxy needs memcacheds behind it")
            })
            .collect()
    }

    fn start(
        &self,
        peer: PeerName,
        args: &CompareArgs,
        behind: &[Server],
    ) -> anyhow::Result<Server> {
        let (memory, connections) = (args.memory.to_string(), CONNECTIONS_MAX.to_string());
        match peer {
            PeerName::Memcached => {
                let arguments = ["-t", "1", "-m", &memory, "-c", &connections];
                Server::memcached(&args.memcached, &arguments, &self.server)
            }
            PeerName::Redis => redis(&args.redis, &memory, &self.server),
            PeerName::Nutcracker => twemproxy(&args.nutcracker, behind, &self.server),
        }
    }

    fn start_own(
        &self,
        args: &CompareArgs,
        behind: &[Server],
        proxy: bool,
    ) -> anyhow::Result<Server> {
        if proxy {
            return like_twemproxy(CONNECTIONS_MAX, behind, &self.server);
        }
        let (memory, connections) = (args.memory.to_string(), CONNECTIONS_MAX.to_string());
        let arguments = ["-c", &connections, "-m", &memory];
        Server::evenkeel_server(1, &arguments, &self.server)
    }

    fn measured(
        &self,
        args: &CompareArgs,
        name: &str,
        protocol: Protocol,
        server: &Server,
    ) -> Result<Measured, BadUsage> {
        let target = Target::from(server.address);
        let own = |plan: LoadPlan| LoadPlan {
            protocol,
            pin: self.generator.clone(),
            ..plan
        };
        let plan = own(args.load.plan(&target)?);
        plan.validate()?;
        Ok(Measured {
            name: name.to_owned(),
            plan,
            preload: args.load.preload_plan(&target)?.map(own),
        })
    }
}
