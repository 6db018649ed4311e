//! What the process is told: by flags, by a file, or by both. Flags and environment variables go
//! before the file.

mod adaptive;
mod architecture;
mod bundles;
mod diagnostic;
mod file;
mod front;
mod generation;
mod held;
mod hot_keys;
mod local_copies;
mod others;
mod pools;
mod profile;
mod reader;
mod request_log;
mod secure;
mod servers;
#[cfg(test)]
mod tests;
mod topology;

pub use diagnostic::Rejection;
pub use file::fingerprint;
pub use pools::{PoolPlan, PoolServers};

use crate::args::{Args, Down, Elsewhere};
use crate::clusters::{ClusterSpec, Clusters};
use crate::discovery::{Discoveries, DiscoverySpec, Source, read_servers_file};
use crate::limits;
use crate::tls::TlsWays;
use evenkeel_member::DEFAULT_CLUSTER;
use evenkeel_member::access::Access as CoordinatorAccess;
use evenkeel_protocol::Limits;
use evenkeel_proxy_core::limits::REQUESTS_PER_TURN;
use evenkeel_proxy_core::{
    Access, Bundles, DEFAULT_POOL, Failover, OnDown, PoolConfig, PoolKind, PoolSettings,
    ProxyConfig, Racks, Revision, RouteTable, ServerList,
};
use evenkeel_runtime::{ListenSpec, TlsOptions, UsageError};
use file::File;
use front::Front;
use profile::ProfilePlan;
use request_log::LogPlan;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;

/// Everything the process is told, with what stands for what it is not told.
#[derive(Clone, Debug)]
pub struct Settings {
    pub listen: Vec<ListenSpec>,
    pub unix_socket: Option<PathBuf>,
    pub unix_mask: u32,
    pub threads: u16,
    pub conn_limit: usize,
    pub listen_backlog: u32,
    pub max_item_size: usize,
    pub max_reqs_per_event: u32,
    pub buffer_memory: usize,
    pub limit_keys: bool,
    /// How long the proxy must not have been heard to count as gone; `None` for never.
    pub gone_after: Option<Duration>,
    pub name: Option<String>,
    pub advertise: Option<String>,
    /// Asked for names instead of the machine's; none for those.
    pub nameservers: Vec<SocketAddr>,
    /// What is shown to coordinators.
    pub coordinator_access: CoordinatorAccess,
    pub pools: Vec<PoolPlan>,
    pub routes: Arc<RouteTable>,
    /// Who is let in.
    pub access: Access,
    /// How TLS is spoken to applications; `None` where it is not.
    pub tls: Option<TlsOptions>,
    /// Address of the HTTP port.
    pub admin: Option<SocketAddr>,
    /// Where the proxy and its servers stand.
    pub racks: Arc<Racks>,
    /// Which requests are logged, and where.
    pub request_log: LogPlan,
    /// Which requests are recorded, and where.
    pub profile: ProfilePlan,
    /// Fingerprint of the file; empty without one.
    pub digest: String,
}

/// Why there are no settings.
#[derive(Debug)]
pub enum ConfigError {
    /// A flag cannot be used.
    Flags(UsageError),
    /// The file cannot be used.
    File(Rejection),
}

impl ConfigError {
    /// In one line.
    pub fn line(&self) -> String {
        match self {
            ConfigError::Flags(error) => error.to_string(),
            ConfigError::File(rejection) => rejection.line(),
        }
    }
}

/// Reads a file only to see whether it can be used.
///
/// # Errors
/// Everything that is wrong in it.
pub fn check_file(path: &Path) -> Result<Checked, Rejection> {
    file::read(path).map(Checked::of)
}

/// Reads what is to stand in a file, only to see whether it can be used.
///
/// # Errors
/// Everything that is wrong in it.
pub fn check_text(path: &Path, text: &str) -> Result<Checked, Rejection> {
    file::read_text(path, text.to_owned()).map(Checked::of)
}

/// What is to be said of a file that can be used.
#[derive(Debug)]
pub struct Checked {
    pub pools: usize,
    pub routes: usize,
    pub digest: String,
}

impl Checked {
    fn of(file: File) -> Self {
        Checked {
            pools: file.pools.len(),
            routes: file.routes.routes().len(),
            digest: file.digest,
        }
    }
}

impl Settings {
    /// Reads what the flags say, and the file that they name.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn read(args: &Args) -> Result<Settings, ConfigError> {
        args.check().map_err(ConfigError::Flags)?;
        let file = match &args.config {
            Some(path) => file::read(path).map_err(ConfigError::File)?,
            None => File {
                pools: vec![pool_of_flags(args).map_err(ConfigError::Flags)?],
                ..File::default()
            },
        };
        let process = file.process;
        let (coordinator_access, access_warning) =
            CoordinatorAccess::load(&args.coordinator_access)
                .map_err(|error| ConfigError::Flags(UsageError(error)))?;
        let (front, mut warnings) =
            Front::merged(args, process.front).map_err(ConfigError::Flags)?;
        let (access, warning) = front.access().map_err(ConfigError::Flags)?;
        warnings.extend(warning.into_iter().chain(access_warning));
        for warning in warnings {
            warn!("{warning}");
        }
        let advertise = args.advertise.clone().or(process.advertise);
        let racks = (file.racks)
            .racks(args.rack.as_deref(), process.rack, advertise.as_deref())
            .map_err(ConfigError::Flags)?;
        let pools = held::place(file.pools, &racks).map_err(ConfigError::Flags)?;
        Ok(Settings {
            listen: (front.listen).unwrap_or_else(|| vec![ListenSpec::at(DEFAULT_LISTEN)]),
            unix_socket: args.unix_socket.clone().or(process.unix_socket),
            unix_mask: args.unix_mask.or(process.unix_mask).unwrap_or(0o700),
            threads: args.threads.or(process.threads).unwrap_or(2),
            conn_limit: args.conn_limit.or(process.conn_limit).unwrap_or(1024),
            listen_backlog: args
                .listen_backlog
                .or(process.listen_backlog)
                .unwrap_or(1024),
            max_item_size: args
                .max_item_size
                .or(process.max_item_size)
                .unwrap_or(Limits::default().item_size_max),
            max_reqs_per_event: args
                .max_reqs_per_event
                .or(process.max_reqs_per_event)
                .unwrap_or(REQUESTS_PER_TURN),
            buffer_memory: args
                .buffer_memory
                .or(process.buffer_memory)
                .unwrap_or(limits::BUFFER_MEMORY),
            limit_keys: process.limit_keys,
            gone_after: process.gone_after,
            name: args.name.clone().or(process.name),
            advertise,
            nameservers: match args.nameservers.as_slice() {
                [] => process.nameservers.unwrap_or_default(),
                given => given.to_vec(),
            },
            coordinator_access,
            pools,
            routes: file.routes,
            access,
            tls: front.enable_ssl.then_some(front.tls),
            admin: front.admin,
            racks,
            request_log: LogPlan::merged(args, process.request_log),
            profile: ProfilePlan::merged(args, process.profile),
            digest: file.digest,
        })
    }

    /// What the workers' cores are told. Gives each cluster a number, also those that are to be joined.
    ///
    /// # Errors
    /// Names a pool whose servers are not known yet.
    pub fn proxy_config(
        &self,
        clusters: &Clusters,
        discoveries: &Discoveries,
        ways: &TlsWays,
        revision: Revision,
    ) -> Result<ProxyConfig, String> {
        let pools = self.pools.iter().map(|plan| {
            let kind = match &plan.servers {
                PoolServers::Evenkeel(spec) => PoolKind::Evenkeel(clusters.source(spec)),
                PoolServers::Memcached(list) => PoolKind::Memcached(Arc::clone(list)),
                PoolServers::Discovered(spec) => {
                    PoolKind::Memcached(discoveries.list(spec).ok_or_else(|| {
                        format!("the servers of pool {} are not known yet", plan.name)
                    })?)
                }
            };
            let is_named = plan.settings.name_prefix.is_some();
            let bundles = match (&kind, plan.copies) {
                (PoolKind::Memcached(list), Some(plan)) => {
                    let racks = plan.racks(&self.racks);
                    let bundles = Bundles::new(list, plan.copies, plan.keeping, racks);
                    Some(Arc::new(bundles.of_named(is_named)))
                }
                _ => None,
            };
            Ok(PoolConfig {
                name: Arc::clone(&plan.name),
                bundles,
                holding: held::holding(plan).map(Arc::new),
                kind,
                settings: PoolSettings {
                    tls: plan.tls.as_ref().map(|way| ways.id(way)),
                    follows: (plan.follows.as_ref())
                        .map(|spec| clusters.follow(spec, &plan.name, plan.wish(&self.racks))),
                    ..plan.settings.clone()
                },
            })
        });
        let mut pools: Vec<PoolConfig> = pools.collect::<Result<_, String>>()?;
        let in_racks = self
            .pools
            .iter()
            .zip(&pools)
            .flat_map(|(plan, pool)| held::other_racks(plan, pool));
        // Routes count pools by their places in the file.
        let in_racks: Vec<_> = in_racks.collect();
        pools.extend(in_racks);
        Ok(ProxyConfig {
            limits: Limits {
                item_size_max: self.max_item_size,
                nul_refused: true,
                ..Limits::default()
            },
            requests_per_turn: self.max_reqs_per_event,
            version: String::from(evenkeel_types::VERSION),
            pools,
            routes: Arc::clone(&self.routes),
            revision,
            access: self.access.clone(),
            limit_keys: self.limit_keys,
            racks: Arc::clone(&self.racks),
            request_log: self.request_log.config(),
            profile: self
                .profile
                .config(self.pools.iter().map(|plan| &*plan.name), &self.racks),
            profile_key: self.profile.page_key(),
        })
    }

    /// The pools whose servers are looked for, and how.
    pub fn discovered(&self) -> impl Iterator<Item = (&Arc<str>, &DiscoverySpec)> {
        self.pools.iter().filter_map(|plan| match &plan.servers {
            PoolServers::Discovered(spec) => Some((&plan.name, spec)),
            PoolServers::Evenkeel(_) | PoolServers::Memcached(_) => None,
        })
    }

    /// The settings that differ from those of the running process and that only a restart changes.
    pub fn need_restart(&self, running: &Settings) -> Vec<&'static str> {
        let differs = [
            ("listen", self.listen != running.listen),
            ("enable_ssl", self.tls.is_some() != running.tls.is_some()),
            ("admin", self.admin != running.admin),
            (
                "request_log",
                self.request_log.target() != running.request_log.target(),
            ),
            ("profile", self.profile.place() != running.profile.place()),
            ("unix_socket", self.unix_socket != running.unix_socket),
            ("unix_mask", self.unix_mask != running.unix_mask),
            ("threads", self.threads != running.threads),
            ("buffer_memory", self.buffer_memory != running.buffer_memory),
            ("conn_limit", self.conn_limit != running.conn_limit),
            (
                "listen_backlog",
                self.listen_backlog != running.listen_backlog,
            ),
            ("gone_after", self.gone_after != running.gone_after),
            ("name", self.name != running.name),
            ("advertise", self.advertise != running.advertise),
            ("nameservers", self.nameservers != running.nameservers),
        ];
        let differing = differs.into_iter().filter(|(_, differs)| *differs);
        differing.map(|(name, _)| name).collect()
    }
}

/// Where to listen when nothing else is said.
const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 11211);

/// The only pool of a command line.
fn pool_of_flags(args: &Args) -> Result<PoolPlan, UsageError> {
    let servers = if let Some(spec) = args.discovery()? {
        if let Source::File(path) = &spec.source {
            let checked = read_servers_file(path).and_then(|servers| spec.check(servers));
            checked.map_err(|error| UsageError(format!("--servers-file {error}")))?;
        }
        PoolServers::Discovered(spec)
    } else if args.servers.is_empty() {
        PoolServers::Evenkeel(ClusterSpec {
            coordinators: args.coordinator.clone(),
            name: args
                .cluster
                .clone()
                .unwrap_or_else(|| DEFAULT_CLUSTER.to_owned()),
        })
    } else {
        let list = ServerList::new(args.placement()?);
        let list =
            list.map_err(|error| UsageError(format!("-s {}: {error}", args.servers.join(","))))?;
        PoolServers::Memcached(Arc::new(list))
    };
    let default = PoolSettings::default();
    Ok(PoolPlan {
        name: Arc::from(DEFAULT_POOL),
        servers,
        follows: None,
        ring: None,
        copies: None,
        holding: None,
        tls: None,
        settings: PoolSettings {
            connect_timeout: args.connect_timeout.unwrap_or(default.connect_timeout),
            request_timeout: args.request_timeout.unwrap_or(default.request_timeout),
            on_down: match args.on_down {
                Some(Down::Error) => OnDown::Error,
                Some(Down::Miss) | None => OnDown::Miss,
            },
            allow_flush: args.allow_flush,
            collapse: !args.no_collapse,
            failover: match args.failover {
                Some(Elsewhere::Next) => Failover::Next,
                Some(Elsewhere::None) | None => Failover::None,
            },
            ..default
        },
    })
}
