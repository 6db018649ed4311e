//! Another configuration while the process serves.
//!
//! The file is read and checked, the clusters that are new in it are joined and their maps waited
//! for, and so are the servers of pools that look for them; only then are the workers told, each of which changes over between two turns. If anything
//! fails before, everything stays as it was.

use crate::clusters::Clusters;
use crate::config::{ConfigError, PoolServers, Settings};
use crate::discovery::DiscoverySpec;
use crate::sharing;
use crate::start::Proxy;
use evenkeel_roles::proxy::MapSource;
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a reload waits for the first map of a cluster that is new, or for the first list of servers:
/// several heartbeats. Other signals wait as long.
const MAP_PATIENCE: Duration = Duration::from_secs(5);

/// How long a reload waits until all workers have changed over, which takes each a turn.
const WORKER_PATIENCE: Duration = Duration::from_secs(5);

/// What became of a reload that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// The configuration's number.
    pub generation: u64,
    /// Fingerprint of the file.
    pub digest: String,
    /// Settings that differ from those of the running process and need a restart.
    pub need_restart: Vec<&'static str>,
}

impl fmt::Display for Reloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reloaded {
            generation,
            digest,
            need_restart,
        } = self;
        write!(f, "configuration {generation} is in force")?;
        if !digest.is_empty() {
            write!(f, ", md5 {digest}")?;
        }
        if !need_restart.is_empty() {
            let names = need_restart.join(", ");
            write!(f, "; {names} changed in the file, which needs a restart")?;
        }
        Ok(())
    }
}

impl Proxy {
    /// Reads the files again, those of the configuration, of the certificates and of those who may come
    /// in, and works by them. Connections that stand keep the certificate they began with.
    ///
    /// # Errors
    /// Why one cannot be used. Then all that was in force stays so.
    pub fn reload(&mut self) -> Result<Reloaded, String> {
        let reloaded = self.try_reload();
        let counts = &self.reload_counts;
        let count = match &reloaded {
            Ok(_) => &counts.reloads,
            Err(_) => &counts.failures,
        };
        count.fetch_add(1, Ordering::Relaxed);
        reloaded
    }

    fn try_reload(&mut self) -> Result<Reloaded, String> {
        let settings = Settings::read(&self.args).map_err(|error| match error {
            ConfigError::Flags(error) => error.to_string(),
            ConfigError::File(rejection) => {
                // For whoever looks at the log: all that is wrong, with its lines.
                format!("{}\n{}", rejection.line(), rejection.report().trim_end())
            }
        })?;
        let has_file = self.args.config.is_some();
        if !has_file && settings.access.credentials.is_none() && settings.tls.is_none() {
            return Err("it was started without --config: there is no file to read".into());
        }
        let certificates = match (&self.certificates, &settings.tls) {
            (Some(certificates), Some(options)) => {
                let prepared = certificates.prepare(options);
                Some((certificates, prepared.map_err(|error| error.to_string())?))
            }
            // Whether there is TLS at all needs a restart.
            _ => None,
        };
        let (digest, need_restart) = (
            settings.digest.clone(),
            settings.need_restart(&self.settings),
        );
        let shared = sharing::plans(&settings);
        let sources = sources(&settings, &self.clusters);
        let wanted: Vec<DiscoverySpec> = settings.discovered().map(|(_, s)| s.clone()).collect();
        let config = self
            .join(&sources)
            .and_then(|()| self.look_for(&wanted))
            .and_then(|()| self.in_force.take_over(settings))
            .inspect_err(|_| {
                self.clusters.keep_only(&self.sources);
                self.discoveries.keep_only(self.discovered.iter());
            })?;
        if let Some((certificates, prepared)) = certificates {
            certificates.take_over(prepared);
        }
        let generation = config.revision.generation;
        let workers = &self.workers;
        let changed_over = || workers.iter().all(|w| w.gauges.generation() >= generation);
        // One that is stuck in a turn will change over when it is done with it.
        self.news
            .wait_until(Instant::now() + WORKER_PATIENCE, changed_over);
        self.clusters.keep_only(&sources);
        self.discoveries.keep_only(wanted.iter());
        if let Err(error) = self.sharing.configure(shared) {
            eprintln!("evenkeel proxy: hot keys are not shared: {error}");
        }
        self.sources = sources;
        self.discovered = wanted;
        Ok(Reloaded {
            generation,
            need_restart,
            digest,
        })
    }

    /// Looks for the lists of these pools and waits until all are known.
    fn look_for(&self, wanted: &[DiscoverySpec]) -> Result<(), String> {
        self.discoveries.look_for(wanted.iter());
        if self.discoveries.wait_until(Instant::now() + MAP_PATIENCE) {
            return Ok(());
        }
        let patience = MAP_PATIENCE.as_secs();
        Err(format!(
            "the servers of a new pool were not found within {patience} s"
        ))
    }

    /// Joins the clusters of these numbers and waits for their maps.
    fn join(&self, sources: &[MapSource]) -> Result<(), String> {
        let joined = self
            .clusters
            .join(&self.identity, self.clock, &self.workers);
        joined.map_err(|error| error.to_string())?;
        let workers = &self.workers;
        let has_maps = || {
            let mut each = sources.iter();
            each.all(|source| workers.iter().all(|w| w.gauges.epoch(*source).0 > 0))
        };
        if self
            .news
            .wait_until(Instant::now() + MAP_PATIENCE, has_maps)
        {
            return Ok(());
        }
        let patience = MAP_PATIENCE.as_secs();
        Err(format!(
            "no coordinator of a new pool has given a map within {patience} s"
        ))
    }
}

/// The clusters that a configuration follows; new ones get their numbers.
pub fn sources(settings: &Settings, clusters: &Clusters) -> Vec<MapSource> {
    let sources = settings
        .pools
        .iter()
        .filter_map(|pool| match &pool.servers {
            PoolServers::Evenkeel(spec) => Some(clusters.source(spec)),
            PoolServers::Memcached(_) | PoolServers::Discovered(_) => None,
        });
    sources.collect()
}
