//! Who is asked for a pool's servers, and what is made of the answer.

use evenkeel_placement::config::{PORT_DEFAULT, PlacementConfig, Server};
use evenkeel_placement::membership::{
    Answer, Pace, ServiceRecord, of_addresses, of_services, parse_list,
};
use evenkeel_runtime::names::{Family, Names, Service, Unanswered};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest file with servers, in bytes: as many as a pool may have, with long names.
const SERVERS_FILE_BYTES_MAX: u64 = 4 << 20;

/// How often a name is asked for at least.
const NAME_REFRESH: Duration = Duration::from_secs(30);

/// How often a file is read.
///
/// It is read, not watched: what replaces a file in a container (a link to a folder that is exchanged)
/// or on a network's disk sends no event, or one about something else, and reading some kilobytes in a
/// second costs nothing.
pub const FILE_REFRESH: Duration = Duration::from_secs(1);

/// Times in a row that a file must say the same: it may be read while it is written.
const FILE_ANSWERS: u32 = 2;

/// How long one look for servers may take altogether.
const LOOK_LIMIT: Duration = Duration::from_secs(10);

/// Who is asked for servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file with one server a line.
    File(PathBuf),
    /// The addresses of a name; all have the same port.
    Addresses {
        name: String,
        port: u16,
        family: Family,
    },
    /// The SRV records of a name.
    Services { name: String },
}

/// What is looked for, how often, and what is made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoverySpec {
    pub source: Source,
    /// Longest time between two looks.
    pub refresh: Duration,
    /// How keys are distributed to the servers; names none.
    pub placement: PlacementConfig,
}

impl Source {
    /// Reads `NAME` or `NAME:PORT`.
    ///
    /// # Errors
    /// What to write instead.
    pub fn addresses(text: &str, family: Family) -> Result<Self, String> {
        let (name, port) = match text.split_once(':') {
            None => (text, Some(PORT_DEFAULT)),
            Some((name, port)) => (name, port.parse().ok().filter(|port| *port > 0)),
        };
        match port {
            Some(port) if is_name(name) => Ok(Source::Addresses {
                name: name.to_owned(),
                port,
                family,
            }),
            _ => Err("give the name whose addresses are the servers: NAME or NAME:PORT".into()),
        }
    }

    /// Reads the name of a service.
    ///
    /// # Errors
    /// What to write instead.
    pub fn services(text: &str) -> Result<Self, String> {
        if is_name(text) {
            let name = text.to_owned();
            return Ok(Source::Services { name });
        }
        Err("give the name of SRV records, such as _memcached._tcp.example.com".into())
    }

    /// How often to look if nothing else is said.
    pub fn refresh_default(&self) -> Duration {
        match self {
            Source::File(_) => FILE_REFRESH,
            Source::Addresses { .. } | Source::Services { .. } => NAME_REFRESH,
        }
    }

    /// Looks once.
    pub async fn ask(&self, names: &mut Names) -> Answer {
        match tokio::time::timeout(LOOK_LIMIT, self.look(names)).await {
            Ok(answer) => answer,
            Err(_) => Answer::Failed(format!("no answer within {} s", LOOK_LIMIT.as_secs())),
        }
    }

    async fn look(&self, names: &mut Names) -> Answer {
        let found = match self {
            Source::File(path) => {
                let path = path.clone();
                // A disk of a network may take its time, which is not that of other pools.
                let read = tokio::task::spawn_blocking(move || read_servers_file(&path)).await;
                return match read {
                    Ok(Ok(servers)) => Answer::Servers(servers, None),
                    Ok(Err(error)) => Answer::Failed(error),
                    Err(error) => Answer::Failed(error.to_string()),
                };
            }
            Source::Addresses { name, port, family } => {
                let found = names.addresses(name, *family).await;
                found.map(|(addresses, ttl)| (of_addresses(addresses, *port), ttl))
            }
            Source::Services { name } => {
                let found = names.services(name).await;
                let record = |service: Service| ServiceRecord {
                    priority: service.priority,
                    weight: service.weight,
                    port: service.port,
                    target: service.target,
                };
                found.map(|(services, ttl)| (of_services(services.into_iter().map(record)), ttl))
            }
        };
        match found {
            Ok((servers, ttl)) => Answer::Servers(servers, Some(ttl)),
            Err(Unanswered::Empty) => Answer::Empty,
            Err(Unanswered::Failed(why)) => Answer::Failed(why),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => write!(f, "file {}", path.display()),
            Source::Addresses { name, port, .. } => write!(f, "dns {name}:{port}"),
            Source::Services { name } => write!(f, "srv {name}"),
        }
    }
}

impl DiscoverySpec {
    /// How often to look, and how soon to believe.
    pub fn pace(&self) -> Pace {
        Pace {
            refresh: self.refresh,
            answers: match self.source {
                Source::File(_) => FILE_ANSWERS,
                Source::Addresses { .. } | Source::Services { .. } => 1,
            },
        }
    }

    /// Whether these servers can be the pool's.
    ///
    /// # Errors
    /// Why not, with the name of the source.
    pub fn check(&self, servers: Vec<Server>) -> Result<(), String> {
        let placement = PlacementConfig {
            servers,
            ..self.placement.clone()
        };
        let checked = placement.check();
        checked.map_err(|error| match &self.source {
            Source::File(path) => format!("{}: {error}", path.display()),
            source => format!("{source}: {error}"),
        })
    }
}

/// Reads a file with one server a line.
///
/// # Errors
/// `FILE:LINE: what`, or why it cannot be read.
#[allow(clippy::disallowed_methods, reason = "on a thread for what waits")]
pub fn read_servers_file(path: &Path) -> Result<Vec<Server>, String> {
    let named = |what: String| format!("{}: {what}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(|error| named(error.to_string()))?;
    file.take(SERVERS_FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|error| named(error.to_string()))?;
    if text.len() as u64 > SERVERS_FILE_BYTES_MAX {
        return Err(named("too large for a list of servers".into()));
    }
    parse_list(&text).map_err(|bad| format!("{}:{}: {}", path.display(), bad.line, bad.what))
}

/// Whether this can be a name in the name service.
fn is_name(text: &str) -> bool {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !text.is_empty() && text.len() <= 254 && text.chars().all(is_sign) && !text.starts_with('.')
}
