//! Another configuration while the process serves.
//!
//! The file is read when an operator says so by SIGHUP, and when a [look](crate::looks) shows that it has changed.
//! It is checked, the clusters that are new in it are joined and their maps waited
//! for, and so are the servers of pools that look for them; only then are the workers told, each of which changes over between two turns. If anything
//! fails before, everything stays as it was.

use crate::active_config::ActiveConfig;
use crate::args::Args;
use crate::clusters::{Clusters, Identity, Wanted, Wish};
use crate::config::{ConfigError, PoolServers, Settings, fingerprint};
use crate::control::{ReloadCounts, WorkerHandle};
use crate::discovery::{Discoveries, DiscoverySpec};
use crate::looks::{Found, Looks, Verdict};
use crate::news::News;
use evenkeel_runtime::{Certificates, Clock, PreparedCertificates};
use evenkeel_schemes::copies::Switch;
use evenkeel_schemes::stage::Stage;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// How long a reload waits for the first map of a cluster that is new, or for the first list of servers:
/// several heartbeats. Other signals wait as long.
const MAP_PATIENCE: Duration = Duration::from_secs(5);

/// How long a reload waits until all workers have changed over, which takes each a turn.
const WORKER_PATIENCE: Duration = Duration::from_secs(5);

/// What became of a reload that was executed.
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

/// What a reload needs and changes.
#[derive(Debug)]
pub struct Reloader {
    pub args: Args,
    /// What the process was started with; some of it only a restart changes.
    pub started: Settings,
    /// What was taken over last.
    pub taken: Settings,
    pub active_config: ActiveConfig,
    /// What it needs of coordinators.
    pub wanted: Wanted,
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
    /// What was seen of the file.
    pub looks: Looks,
    /// The process is ending.
    pub is_stopped: bool,
}

/// Why files cannot be used.
#[derive(Debug)]
struct Refusal {
    /// For statistics, in a line.
    line: String,
    /// For the log, with the lines that are wrong.
    told: String,
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Refusal {
            line: why.clone(),
            told: why,
        }
    }
}

impl From<ConfigError> for Refusal {
    fn from(error: ConfigError) -> Self {
        Refusal {
            line: error.line(),
            told: match &error {
                ConfigError::Flags(error) => error.to_string(),
                ConfigError::File(rejection) => rejection.log_line(),
            },
        }
    }
}

/// The certificates of the process, and those that are to take their place.
type Renewal = (Arc<Certificates>, PreparedCertificates);

impl Reloader {
    /// Reads the files again, those of the configuration, of the certificates and of those who may come
    /// in, and works by them. Connections that stand keep the certificate they began with.
    ///
    /// # Errors
    /// Why one cannot be used. Then all that was in force stays so.
    pub fn reload(&mut self) -> Result<Reloaded, String> {
        let found = self.args.config.as_deref().map(fingerprint);
        let reloaded = self.try_reload();
        self.note(found, &reloaded, true);
        reloaded.map_err(|refusal| refusal.told)
    }

    /// Takes over what the file says by now, if that is to be tried.
    fn handle_look(&mut self, found: Found) {
        if self.is_stopped {
            return;
        }
        let active_config = &self.taken.digest;
        match self
            .looks
            .handle_look(&found, active_config, Instant::now())
        {
            Verdict::Keep => {}
            Verdict::Back => {
                self.counts.set_refusal("");
                info!("the file says again what is in force, md5 {active_config}");
            }
            Verdict::Try => {
                let reloaded = self.try_reload();
                let is_news = self.note(Some(found), &reloaded, false);
                match reloaded {
                    Ok(reloaded) => info!("{reloaded}"),
                    Err(Refusal { told, .. }) if is_news => {
                        warn!("kept the configuration there was: {told}");
                    }
                    Err(_) => {}
                }
            }
        }
    }

    /// Remembers what became of the files. Whether that is news: somebody has asked for it, or it is not the refusal
    /// that is known already.
    fn note(
        &mut self,
        found: Option<Found>,
        reloaded: &Result<Reloaded, Refusal>,
        is_asked: bool,
    ) -> bool {
        if let Some(found) = found {
            let is_taken = reloaded.is_ok();
            self.looks.handle_end(found, is_taken, Instant::now());
        }
        let refusal = reloaded.as_ref().err();
        let line = refusal.map_or("", |refusal| &refusal.line);
        let is_new_reason = self.counts.set_refusal(line);
        let count = match refusal {
            None => &self.counts.reloads,
            Some(_) if is_asked || is_new_reason => &self.counts.failures,
            Some(_) => return false,
        };
        count.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn try_reload(&mut self) -> Result<Reloaded, Refusal> {
        let settings = Settings::read(&self.args)?;
        let has_file = self.args.config.is_some();
        if !has_file && settings.access.credentials.is_none() && settings.tls.is_none() {
            let why = "it was started without --config: there is no file to read";
            return Err(why.to_owned().into());
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
        Ok(self.apply(settings, certificates)?)
    }

    /// Works by these settings, once all is there that they need.
    ///
    /// # Errors
    /// What is not there. The former configuration stays in force.
    fn apply(
        &mut self,
        settings: Settings,
        certificates: Option<Renewal>,
    ) -> Result<Reloaded, String> {
        let (digest, need_restart) = (
            settings.digest.clone(),
            settings.need_restart(&self.started),
        );
        self.check_changes(&settings)?;
        let wanted = wanted(&settings, &self.clusters);
        let lists: Vec<DiscoverySpec> = settings.discovered().map(|(_, s)| s.clone()).collect();
        let config = self
            .join(&wanted)
            .and_then(|()| self.look_for(&lists))
            .and_then(|()| self.active_config.take_over(settings.clone()))
            .inspect_err(|_| {
                self.clusters.keep_only(&self.wanted);
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
        self.clusters.keep_only(&wanted);
        self.discoveries.keep_only(lists.iter());
        self.wanted = wanted;
        self.discovered = lists;
        self.taken = settings;
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

    /// Joins the clusters that are wanted and waits for their maps and steps.
    fn join(&self, wanted: &Wanted) -> Result<(), String> {
        let joined = self
            .clusters
            .join(&self.identity, self.clock, &self.workers);
        joined.map_err(|error| error.to_string())?;
        let is_there = || wanted.is_there(&self.clusters, &self.workers);
        if self
            .news
            .wait_until(Instant::now() + MAP_PATIENCE, is_there)
        {
            return Ok(());
        }
        let patience = MAP_PATIENCE.as_secs();
        Err(format!(
            "no coordinator of a new pool has given a map or a step within {patience} s"
        ))
    }

    /// Checks that no pool is left in the middle of its change, when others would still be a stage behind, and that none whose change is done
    /// begins another one before that is over.
    fn check_changes(&self, settings: &Settings) -> Result<(), String> {
        for plan in &self.taken.pools {
            let Some(spec) = &plan.follows else { continue };
            let source = self.clusters.source(spec);
            let told = self.clusters.update(source, &plan.name);
            // Who has lost its name does not know any more.
            let stage = told
                .as_ref()
                .map_or(Stage::Quiesced, |told| told.step.stage);
            let mut pools = settings.pools.iter();
            let then = pools.find(|other| other.name == plan.name);
            if let Some(wish) = &plan.ring {
                let ring = told.and_then(|told| told.ring);
                let is_same =
                    then.is_none_or(|then| then.follows == plan.follows && then.ring.is_some());
                if !is_same && !ring.is_some_and(|ring| ring.is_as_adopted() && !wish.even) {
                    let name = &plan.name;
                    return Err(format!(
                        "keys of pool \"{name}\" are where its ring has brought them: a pool that places them otherwise needs another name"
                    ));
                }
                continue;
            }
            if let wish @ Wish::Bundle(_) = plan.wish(&self.taken.racks) {
                let is_same = then.is_some_and(|then| {
                    then.follows == plan.follows && then.wish(&settings.racks) == wish
                });
                let switch = Switch::at(stage);
                if !is_same && switch != Switch::Off {
                    let name = &plan.name;
                    return Err(format!(
                        "copies of pool \"{name}\" are {switch}: switch them off (evenkeel bundle off {name} --proxies N) before its file says other \
                         servers, copies, racks or distribution, or another coordinator"
                    ));
                }
                continue;
            }
            let is_same = then.is_some_and(|then| {
                then.follows == plan.follows && then.settings.warm_from == plan.settings.warm_from
            });
            let is_ended = then.is_none_or(|then| then.settings.warm_from.is_none());
            if !may_leave(stage, is_same, is_ended) {
                let name = &plan.name;
                return Err(format!(
                    "pool \"{name}\" is at stage {stage} of its change: bring it to its end (evenkeel changes begin {name} --to done), \
                     and take warm_from out of the file, before anything else is said of it"
                ));
            }
        }
        Ok(())
    }
}

/// Whether a pool may be said to be something else at this stage of its change: the same, or one that takes nobody's place any more.
fn may_leave(stage: Stage, is_same: bool, is_ended: bool) -> bool {
    is_same || stage == Stage::Former || stage == Stage::Done && is_ended
}

/// Has the file looked at from now on. What is no ordinary file, such as a pipe, is read at the start alone.
pub fn look_regularly(reloader: &Arc<Mutex<Reloader>>, args: &Args, discoveries: &Discoveries) {
    let path = args.config.clone();
    let Some(path) = path.filter(|path| fingerprint(path).is_ok()) else {
        return;
    };
    let reloader = Arc::clone(reloader);
    discoveries.look_regularly(move || {
        // Without the lock: a disk of a network may take its time.
        let found = fingerprint(&path);
        let mut reloader = reloader.lock().unwrap_or_else(PoisonError::into_inner);
        reloader.handle_look(found);
    });
}

/// What a configuration needs of coordinators; new clusters get their numbers.
pub fn wanted(settings: &Settings, clusters: &Clusters) -> Wanted {
    let mut wanted = Wanted::default();
    for pool in &settings.pools {
        if let PoolServers::Evenkeel(spec) = &pool.servers {
            wanted.maps.push(clusters.source(spec));
        }
        if let Some(spec) = &pool.follows {
            let source = clusters.follow(spec, &pool.name, pool.wish(&settings.racks));
            wanted.steps.push((source, Arc::clone(&pool.name)));
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_left_at_the_beginning_of_its_change_or_at_its_end() {
        for stage in Stage::ALL {
            assert!(may_leave(stage, true, false), "{stage}: nothing is new");
            let is_begun = stage > Stage::Former;
            let is_done = stage == Stage::Done;
            assert_eq!(
                may_leave(stage, false, true),
                !is_begun || is_done,
                "{stage}"
            );
            assert_eq!(
                may_leave(stage, false, false),
                !is_begun,
                "{stage}: another change"
            );
        }
    }
}
