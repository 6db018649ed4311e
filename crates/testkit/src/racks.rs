//! A pool of memcacheds in several racks, with a directory beside it and a proxy in each rack.

use crate::{Memcached, Process, copies, evenkeel};
use std::net::SocketAddr;
use std::path::PathBuf;
use tempfile::TempDir;

/// How a pool in racks finds its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// The key alone says at which of the servers each is, and all of these are central.
    Sdc,
    /// The key alone says where each is.
    Sds,
    /// The key alone says where each is, and where its copy is; a coordinator has switched copies on.
    Sdr,
    /// Notes in all racks say which one holds it.
    Snoop,
    /// A note in the pool `notes` says it.
    Dir,
}

impl Architecture {
    /// Each.
    pub const ALL: [Architecture; 5] = [
        Architecture::Sdc,
        Architecture::Sds,
        Architecture::Sdr,
        Architecture::Snoop,
        Architecture::Dir,
    ];

    /// As lines of a pool; [`Architecture::Sdr`] needs `pool_coordinator` besides.
    pub fn lines(self) -> &'static str {
        match self {
            Architecture::Sdc => "architecture = \"sdc\"\n",
            Architecture::Sds => "architecture = \"sds\"\n",
            Architecture::Sdr => "architecture = \"sdr\"\n",
            Architecture::Snoop => "architecture = \"snoop\"\n",
            Architecture::Dir => "architecture = \"dir\"\ndirectory = \"notes\"\n",
        }
    }

    /// Whether one rack holds each item, the one that wrote it last.
    pub fn moves_items(self) -> bool {
        matches!(self, Architecture::Snoop | Architecture::Dir)
    }
}

/// What is to be started.
#[derive(Clone, Debug)]
pub struct RacksOptions {
    /// How many there are; they are called `a`, `b`, … in the order of the servers.
    pub racks: usize,
    /// Servers in each.
    pub servers: usize,
    /// Servers of the directory, which are central.
    pub directories: usize,
    /// Flags of each memcached.
    pub flags: Vec<String>,
    /// How items are found.
    pub architecture: Architecture,
    /// How old copies may be that racks keep of what others hold; none are kept without it.
    pub local_copies: Option<&'static str>,
    /// How the pool finds its items that this one is warmed from, at the same servers.
    pub former: Option<Architecture>,
    /// Further lines of all pools.
    pub lines: String,
    /// Worker threads of a proxy.
    pub threads: usize,
}

impl Default for RacksOptions {
    /// Three racks with a server each, under proxies that wait as long as a busy machine may take.
    fn default() -> Self {
        RacksOptions {
            racks: 3,
            servers: 1,
            directories: 1,
            flags: Vec::new(),
            architecture: Architecture::Snoop,
            local_copies: None,
            former: None,
            lines: String::from("connect_timeout = \"30s\"\nrequest_timeout = \"50s\"\n"),
            threads: 1,
        }
    }
}

/// See the [module](self).
pub struct Racks {
    /// Those of the first rack first.
    pub servers: Vec<Memcached>,
    /// Of the pool `notes`.
    pub directory: Vec<Memcached>,
    /// One in each rack.
    pub proxies: Vec<Process>,
    /// Of [`Architecture::Sdr`].
    _coordinator: Option<Process>,
    /// Their file, which leaves to flags in which rack each is.
    pub config: PathBuf,
    _folder: TempDir,
}

/// The rack of servers that are central.
const CENTRAL: &str = "core";

/// The name of a rack.
fn name(rack: usize) -> char {
    char::from(b'a' + u8::try_from(rack).expect("few racks"))
}

impl Racks {
    /// Starts everything.
    ///
    /// # Panics
    /// If something does not start.
    pub fn start(options: &RacksOptions) -> Racks {
        let flags: Vec<&str> = ["-t", "1"]
            .into_iter()
            .chain(options.flags.iter().map(String::as_str))
            .collect();
        let memcacheds =
            |count: usize| -> Vec<_> { (0..count).map(|_| Memcached::spawn(&flags)).collect() };
        let servers = memcacheds(options.racks * options.servers);
        let directory = memcacheds(options.directories);
        let rack_of = |at: usize| match options.architecture {
            Architecture::Sdc => CENTRAL.to_owned(),
            _ => name(at / options.servers).to_string(),
        };
        let coordinator =
            (options.architecture == Architecture::Sdr).then(|| evenkeel::coordinator(&[]));
        let led = coordinator.as_ref().map_or_else(String::new, |it| {
            format!("pool_coordinator = \"http://{}\"\n", it.address())
        });
        let names = (0..options.racks).map(|rack| format!("[topology.racks.{}]\n", name(rack)));
        let lines = &options.lines;
        let places = listed(&servers, rack_of);
        let (former, change) = match options.former {
            None => (String::new(), ""),
            Some(former) => (
                format!("[pools.old]\n{places}{lines}{}", former.lines()),
                "generation = 1\nwarm_from = \"old\"\n",
            ),
        };
        let copies = options.local_copies.map_or_else(String::new, |ttl| {
            format!("local_copies = \"on\"\nlocal_copies_ttl = \"{ttl}\"\n")
        });
        let text = format!(
            "{}[topology.racks.{CENTRAL}]\ncentral = true\n[proxy]\nthreads = {}\n\
             {former}[pools.main]\n{places}allow_flush = true\n{lines}{change}{copies}{led}{}[pools.notes]\n{}{lines}[[routes]]\npool = \"main\"\n",
            names.collect::<String>(),
            options.threads,
            options.architecture.lines(),
            listed(&directory, |_| CENTRAL.to_owned()),
        );
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = folder.path().join("proxy.toml");
        std::fs::write(&config, text).expect("room");
        let path = config.display().to_string();
        let proxies = (0..options.racks).map(|rack| {
            let rack = name(rack).to_string();
            evenkeel::proxy(&["--config", &path, "--name", &rack, "--rack", &rack])
        });
        let proxies: Vec<_> = proxies.collect();
        if let Some(coordinator) = &coordinator {
            copies::switch(coordinator.address(), "on", proxies.len());
        }
        Racks {
            proxies,
            servers,
            directory,
            _coordinator: coordinator,
            config,
            _folder: folder,
        }
    }

    /// Where applications of a rack ask.
    pub fn address(&self, rack: usize) -> SocketAddr {
        self.proxies[rack].address()
    }
}

/// Servers in racks, as a line of a pool.
pub fn listed(servers: &[Memcached], rack: impl Fn(usize) -> String) -> String {
    let servers = servers.iter().enumerate().map(|(at, server)| {
        let (address, rack) = (server.address(), rack(at));
        format!("{{ address = \"{address}\", rack = \"{rack}\" }}")
    });
    format!("servers = [{}]\n", servers.collect::<Vec<_>>().join(", "))
}
