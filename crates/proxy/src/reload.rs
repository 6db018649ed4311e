//! Another configuration while the process serves.
//!
//! The file is read and checked, the clusters that are new in it are joined and their maps waited
//! for, and so are the servers of pools that look for them; only then are the workers told, each of which changes over between two turns. If anything
//! fails before, everything stays as it was.

use crate::args::Args;
use crate::clusters::{Clusters, Identity};
use crate::config::{ConfigError, PoolServers, Settings};
use crate::control::{ReloadCounts, WorkerHandle};
use crate::discovery::{Discoveries, DiscoverySpec};
use crate::follow::Shared;
use crate::in_force::InForce;
use crate::sharing::{self, Sharing};
use crate::start::News;
use evenkeel_roles::proxy::MapSource;
use evenkeel_runtime::{Certificates, Clock, PreparedCertificates};
use std::fmt;
use std::sync::Arc;
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
    /// Revision of the pools and routes, where a coordinator keeps them.
    pub revision: Option<u64>,
    /// Fingerprint of the file.
    pub digest: String,
    /// Settings that differ from those of the running process and need a restart.
    pub need_restart: Vec<&'static str>,
}

impl fmt::Display for Reloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reloaded {
            generation,
            revision,
            digest,
            need_restart,
        } = self;
        write!(f, "configuration {generation} is in force")?;
        if let Some(revision) = revision {
            write!(f, ", revision {revision} of the coordinator's")?;
        }
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

/// What a reload needs and changes.
#[derive(Debug)]
pub struct Reloader {
    pub args: Args,
    /// What the process was started with; some of it only a restart changes.
    pub started: Settings,
    /// What was taken over last.
    pub taken: Settings,
    /// The configuration that is followed, where a coordinator keeps pools and routes.
    pub shared: Option<Shared>,
    pub in_force: InForce,
    /// The clusters that it follows.
    pub sources: Vec<MapSource>,
    /// The lists of servers that it looks for.
    pub discovered: Vec<DiscoverySpec>,
    pub identity: Identity,
    pub clock: Clock,
    pub news: News,
    pub counts: Arc<ReloadCounts>,
    pub workers: Arc<[WorkerHandle]>,
    pub clusters: Clusters,
    pub discoveries: Discoveries,
    /// Where any listener speaks TLS.
    pub certificates: Option<Arc<Certificates>>,
    pub sharing: Sharing,
    /// The process is ending.
    pub is_stopped: bool,
}

/// The certificates of the process, and those that are to take their place.
pub type Renewal = (Arc<Certificates>, PreparedCertificates);

impl Reloader {
    /// Reads the files again, those of the configuration, of the certificates and of those who may come
    /// in, and works by them. Connections that stand keep the certificate they began with.
    ///
    /// # Errors
    /// Why one cannot be used. Then all that was in force stays so.
    pub fn reload(&mut self) -> Result<Reloaded, String> {
        let reloaded = self.try_reload();
        self.count(reloaded.is_ok());
        reloaded
    }

    /// Counts a configuration that was taken over, or refused.
    pub fn count(&self, is_taken: bool) {
        let count = match is_taken {
            true => &self.counts.reloads,
            false => &self.counts.failures,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn try_reload(&mut self) -> Result<Reloaded, String> {
        let settings = Settings::read(&self.args).map_err(|error| match error {
            ConfigError::Flags(error) => error.to_string(),
            ConfigError::File(rejection) => rejection.told(),
        })?;
        let has_source = self.args.config.is_some() || settings.follows.is_some();
        if !has_source && settings.access.credentials.is_none() && settings.tls.is_none() {
            return Err("it was started without --config: there is no file to read".into());
        }
        let certificates = match (&self.certificates, &settings.tls) {
            (Some(certificates), Some(options)) => {
                let prepared = certificates.prepare(options);
                let prepared = prepared.map_err(|error| error.to_string())?;
                Some((Arc::clone(certificates), prepared))
            }
            // Whether there is TLS at all needs a restart.
            _ => None,
        };
        let shared = match (&mut self.shared, &settings.follows) {
            (None, None) => return self.apply(settings, certificates),
            (Some(shared), Some(_)) => shared,
            _ => {
                let what = "whether a coordinator keeps pools and routes needs a restart";
                return Err(what.into());
            }
        };
        let document = shared.ask_now();
        let applied = settings
            .with_shared(&document)
            .map_err(|rejection| rejection.told())
            .and_then(|settings| self.apply(settings, certificates));
        if let Some(shared) = &mut self.shared {
            match &applied {
                Ok(_) => shared.took_over(document),
                Err(why) => _ = shared.refuse(document, why),
            }
        }
        applied
    }

    /// Works by these settings, once all is there that they need.
    ///
    /// # Errors
    /// What is not there. The former configuration stays in force.
    pub fn apply(
        &mut self,
        settings: Settings,
        certificates: Option<Renewal>,
    ) -> Result<Reloaded, String> {
        let (digest, need_restart) = (
            settings.digest.clone(),
            settings.need_restart(&self.started),
        );
        let revision = settings.shared.map(|id| id.revision);
        let shared = sharing::plans(&settings);
        let sources = sources(&settings, &self.clusters);
        let wanted: Vec<DiscoverySpec> = settings.discovered().map(|(_, s)| s.clone()).collect();
        let config = self
            .join(&sources)
            .and_then(|()| self.look_for(&wanted))
            .and_then(|()| self.in_force.take_over(settings.clone()))
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
        self.taken = settings;
        Ok(Reloaded {
            generation,
            revision,
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
