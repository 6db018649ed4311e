//! A pool of memcacheds in several racks, with a directory beside it and a proxy in each rack.

use crate::{Memcached, Process, evenkeel};
use std::net::SocketAddr;
use std::path::PathBuf;
use tempfile::TempDir;

/// How a pool in racks finds its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// The key alone says where each is.
    Sds,
    /// Notes in all racks say which one holds it.
    Snoop,
    /// A note in the pool `notes` says it.
    Dir,
}

impl Architecture {
    /// As lines of a pool.
    pub fn lines(self) -> &'static str {
        match self {
            Architecture::Sds => "architecture = \"sds\"\n",
            Architecture::Snoop => "architecture = \"snoop\"\n",
            Architecture::Dir => "architecture = \"dir\"\ndirectory = \"notes\"\n",
        }
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
    /// Their file, which leaves to flags in which rack each is.
    pub config: PathBuf,
    _folder: TempDir,
}

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
        let rack_of = |at: usize| name(at / options.servers).to_string();
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
            "{}[topology.racks.core]\ncentral = true\n[proxy]\nthreads = {}\n\
             {former}[pools.main]\n{places}allow_flush = true\n{lines}{change}{copies}{}[pools.notes]\n{}{lines}[[routes]]\npool = \"main\"\n",
            names.collect::<String>(),
            options.threads,
            options.architecture.lines(),
            listed(&directory, |_| "core".to_owned()),
        );
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = folder.path().join("proxy.toml");
        std::fs::write(&config, text).expect("room");
        let path = config.display().to_string();
        let proxies = (0..options.racks).map(|rack| {
            let rack = name(rack).to_string();
            evenkeel::proxy(&["--config", &path, "--name", &rack, "--rack", &rack])
        });
        Racks {
            proxies: proxies.collect(),
            servers,
            directory,
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
