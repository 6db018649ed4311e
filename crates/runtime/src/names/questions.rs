//! Questions to the name service.
//!
//! The machine's own name servers (`/etc/resolv.conf`) are asked, or those that the configuration
//! names. Nothing is kept between two questions: when to ask again is decided by who asks.

use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
    ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::ProtoError;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::{ResolverBuilder, TokioResolver};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How long a name server that the configuration names has for its answer; it is asked once more
/// after that.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Times that such a name server is asked.
const ATTEMPTS: usize = 2;

/// Which addresses of a name are servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// All of them. A server with one of each is two servers.
    All,
    /// The old kind alone.
    Ipv4,
    /// The new kind alone.
    Ipv6,
}

/// Why there are no records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// There are none.
    Empty,
    /// Nobody could say.
    Failed(String),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::Empty => f.write_str("no such records"),
            Unanswered::Failed(why) => f.write_str(why),
        }
    }
}

/// An SRV record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Lower ones are to be used first.
    pub priority: u16,
    /// Share among those of one priority.
    pub weight: u16,
    /// Where the service is reached.
    pub port: u16,
    /// On which host.
    pub target: String,
}

/// Records, and for how long they are good.
pub type Records<T> = Result<(Vec<T>, Duration), Unanswered>;

/// Who is asked.
#[derive(Debug)]
pub struct Names {
    /// Empty for the machine's own.
    servers: Vec<SocketAddr>,
    /// Made at the first question, and anew after a failure: the machine may have other name servers
    /// by then.
    resolver: Option<TokioResolver>,
}

impl Names {
    /// Asks these name servers, or the machine's own if there are none. Questions must be asked within
    /// a runtime.
    pub fn new(servers: &[SocketAddr]) -> Self {
        Names {
            servers: servers.to_vec(),
            resolver: None,
        }
    }

    /// The addresses of a name. All of the families asked for must be answered, be it by "none": half
    /// an answer would be half a pool.
    pub async fn addresses(&mut self, name: &str, family: Family) -> Records<IpAddr> {
        let types: &[RecordType] = match family {
            Family::All => &[RecordType::A, RecordType::AAAA],
            Family::Ipv4 => &[RecordType::A],
            Family::Ipv6 => &[RecordType::AAAA],
        };
        let mut addresses = Vec::new();
        let mut good_for = Duration::MAX;
        for kind in types {
            let address = |record: &Record| match &record.data {
                RData::A(address) => Some(IpAddr::V4(address.0)),
                RData::AAAA(address) => Some(IpAddr::V6(address.0)),
                _ => None,
            };
            match self.records(name, *kind, address).await {
                Ok((found, ttl)) => {
                    addresses.extend(found);
                    good_for = good_for.min(ttl);
                }
                Err(Unanswered::Empty) => {}
                Err(failed) => return Err(failed),
            }
        }
        match addresses.is_empty() {
            true => Err(Unanswered::Empty),
            false => Ok((addresses, good_for)),
        }
    }

    /// The SRV records of a name.
    pub async fn services(&mut self, name: &str) -> Records<Service> {
        let service = |record: &Record| match &record.data {
            RData::SRV(srv) => Some(Service {
                priority: srv.priority,
                weight: srv.weight,
                port: srv.port,
                target: srv.target.to_utf8(),
            }),
            _ => None,
        };
        self.records(name, RecordType::SRV, service).await
    }

    /// What asks for the address of one host: the machine's table of hosts first, then a name server. Without a name
    /// server there is still the table.
    pub(super) fn for_hosts(&mut self) -> Result<TokioResolver, NetError> {
        if let Some(resolver) = &self.resolver {
            return Ok(resolver.clone());
        }
        let made = self.make().or_else(|_| {
            let nobody = ResolverConfig::from_parts(None, Vec::new(), Vec::new());
            finish(TokioResolver::builder_with_config(
                nobody,
                TokioRuntimeProvider::default(),
            ))
        })?;
        Ok(self.resolver.insert(made).clone())
    }

    /// The next question is asked by what the machine's files say then.
    pub(super) fn look_anew(&mut self) {
        self.resolver = None;
    }

    async fn records<T>(
        &mut self,
        name: &str,
        kind: RecordType,
        read: impl Fn(&Record) -> Option<T>,
    ) -> Records<T> {
        let resolver = match &self.resolver {
            Some(resolver) => resolver,
            None => {
                let made = self.make().map_err(|e| Unanswered::Failed(e.to_string()));
                self.resolver.insert(made?)
            }
        };
        let name = name_of(name).map_err(|error| Unanswered::Failed(error.to_string()))?;
        match resolver.lookup(name, kind).await {
            Ok(lookup) => {
                let records = lookup.answers();
                let found: Vec<T> = records.iter().filter_map(read).collect();
                let ttl = records.iter().map(|record| record.ttl).min();
                match found.is_empty() {
                    true => Err(Unanswered::Empty),
                    false => Ok((found, Duration::from_secs(ttl.unwrap_or(0).into()))),
                }
            }
            Err(NetError::Dns(DnsError::NoRecordsFound(_))) => Err(Unanswered::Empty),
            Err(error) => {
                self.resolver = None;
                Err(Unanswered::Failed(error.to_string()))
            }
        }
    }

    fn make(&self) -> Result<TokioResolver, NetError> {
        if self.servers.is_empty() {
            return finish(TokioResolver::builder_tokio()?);
        }
        let servers = self.servers.iter().map(|&server| name_server(server));
        let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
        let mut builder =
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let options: &mut ResolverOpts = builder.options_mut();
        options.timeout = ANSWER_LIMIT;
        options.attempts = ATTEMPTS;
        options.use_hosts_file = ResolveHosts::Never;
        finish(builder)
    }
}

/// A name as the name service knows it. Names of hosts should have no underscores, and in containers they often do.
pub(super) fn name_of(text: &str) -> Result<Name, ProtoError> {
    Name::from_str_relaxed(text)
}

fn finish(mut builder: ResolverBuilder<TokioRuntimeProvider>) -> Result<TokioResolver, NetError> {
    let options: &mut ResolverOpts = builder.options_mut();
    // Nothing is kept here.
    options.cache_size = 0;
    // One address is enough for a connection, and the second question costs as much as the first.
    options.ip_strategy = LookupIpStrategy::Ipv4thenIpv6;
    builder.build()
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let at = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(at);
    NameServerConfig::new(address.ip(), true, connections.into())
}
