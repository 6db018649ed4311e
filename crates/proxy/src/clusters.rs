//! The proxy as a member of clusters: it reports its load and is told their maps.
//!
//! Each pool of Evenkeel servers follows one cluster; pools of the same cluster share the membership.

use crate::control::{Control, WorkerHandle};
use evenkeel_control::{LoadReport, MemberKind};
use evenkeel_member::access::Access;
use evenkeel_member::{MemberConfig, MemberEvent, MemberHandle, Report};
use evenkeel_proxy_core::MapSource;
use evenkeel_runtime::{Clock, UsageError};
use evenkeel_types::{BootId, Epoch, Instant};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a cluster is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSpec {
    /// Addresses of its coordinators.
    pub coordinators: Vec<String>,
    /// Its name.
    pub name: String,
}

/// What the proxy says of itself in every cluster.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Host name or address to report.
    pub host: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// This life of the process.
    pub boot: BootId,
    /// What it shows to coordinators.
    pub access: Access,
}

/// The clusters that the proxy is a member of; all workers share them.
#[derive(Clone, Debug, Default)]
pub struct Clusters(Arc<Mutex<Members>>);

#[derive(Debug, Default)]
struct Members {
    known: Vec<Member>,
    /// Numbers given so far: none is given twice.
    sources: u32,
    /// Fingerprint of the file that the proxy works by; empty without one. All memberships tell it.
    config: Arc<Mutex<String>>,
}

#[derive(Debug)]
struct Member {
    source: MapSource,
    spec: ClusterSpec,
    /// `None` until the cluster is joined.
    handle: Option<MemberHandle>,
}

impl Clusters {
    /// The number of a cluster; a new one gets a new number.
    pub fn source(&self, spec: &ClusterSpec) -> MapSource {
        let mut members = self.lock();
        if let Some(member) = members.known.iter().find(|member| member.spec == *spec) {
            return member.source;
        }
        members.sources += 1;
        let source = MapSource(members.sources);
        members.known.push(Member {
            source,
            spec: spec.clone(),
            handle: None,
        });
        source
    }

    /// Joins the clusters that have a number and are not joined yet. Their maps go to the workers from
    /// now on. Serving never waits for their coordinators once there has been a map.
    ///
    /// # Errors
    /// When an option that concerns a cluster cannot be used.
    pub fn join(
        &self,
        identity: &Identity,
        clock: Clock,
        workers: &Arc<[WorkerHandle]>,
    ) -> Result<(), UsageError> {
        let mut members = self.lock();
        let config = Arc::clone(&members.config);
        for member in members.known.iter_mut().filter(|m| m.handle.is_none()) {
            let handle = join(member, identity, clock, workers, &config)?;
            member.handle = Some(handle);
        }
        Ok(())
    }

    /// The proxy works by the file with this fingerprint, which coordinators are told; of what stands in it they are told nothing.
    pub fn tell_config(&self, digest: &str) {
        let config = Arc::clone(&self.lock().config);
        digest.clone_into(&mut config.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// There is a newer map: asks for it now.
    pub fn hurry(&self, source: MapSource) {
        let members = self.lock();
        let mut known = members.known.iter();
        let member = known.find(|member| member.source == source);
        if let Some(handle) = member.and_then(|member| member.handle.as_ref()) {
            handle.hurry();
        }
    }

    /// Ends the memberships of all other clusters.
    pub fn keep_only(&self, sources: &[MapSource]) {
        let left: Vec<Member> = {
            let mut members = self.lock();
            let known = std::mem::take(&mut members.known);
            let (kept, left) = known
                .into_iter()
                .partition(|member| sources.contains(&member.source));
            members.known = kept;
            left
        };
        // Without the lock: a call under way may take seconds.
        for handle in left.into_iter().filter_map(|member| member.handle) {
            handle.leave();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Members> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn join(
    member: &Member,
    identity: &Identity,
    clock: Clock,
    workers: &Arc<[WorkerHandle]>,
    works_by: &Arc<Mutex<String>>,
) -> Result<MemberHandle, UsageError> {
    let (source, spec) = (member.source, &member.spec);
    let config = MemberConfig {
        coordinators: spec.coordinators.clone(),
        access: identity.access.clone(),
        cluster: spec.name.clone(),
        kind: MemberKind::Proxy,
        name: identity.name.clone(),
        boot: identity.boot,
        host: identity.host.clone(),
        port: identity.address.port(),
        worker_ports: Vec::new(),
        rack: None,
        seed: identity.boot.0 ^ u64::from(source.0),
    };
    let mut load = Load::new(clock, workers);
    let (reporting, works_by) = (Arc::clone(workers), Arc::clone(works_by));
    let report = move || Report {
        epoch: reporting
            .iter()
            .map(|w| w.gauges.epoch(source))
            .min()
            .unwrap_or(Epoch(0)),
        load: load.report(),
        hot_keys: None,
        migrates: false,
        asks_for_moves: false,
        migrations: Vec::new(),
        leased: false,
        ending: false,
        pools: Vec::new(),
        config_hash: {
            let digest = works_by.lock().unwrap_or_else(PoisonError::into_inner);
            Some(digest.clone()).filter(|digest| !digest.is_empty())
        },
    };
    let told = Arc::clone(workers);
    let name = spec.name.clone();
    MemberHandle::start(config, report, move |event| {
        hear(&told, source, &name, event);
    })
    .map_err(|error| UsageError(error.to_string()))
}

fn hear(workers: &[WorkerHandle], source: MapSource, cluster: &str, event: MemberEvent) {
    match event {
        MemberEvent::Map(map) => {
            for worker in workers {
                worker.say(Control::Map(source, Arc::clone(&map)));
            }
        }
        // Servers have ids and loads; leases come with answers, so settings concern servers alone.
        MemberEvent::Registered { .. }
        | MemberEvent::ClusterLoad(_)
        | MemberEvent::Balances(_)
        | MemberEvent::Settings(_)
        | MemberEvent::Step(_)
        | MemberEvent::MayEnd
        | MemberEvent::NameLost { .. }
        | MemberEvent::Answered { .. } => {}
        MemberEvent::Lost => eprintln!(
            "evenkeel proxy: no coordinator of {cluster} answers; serving goes on by the last map"
        ),
        MemberEvent::Found => eprintln!("evenkeel proxy: the coordinator of {cluster} answers"),
        MemberEvent::Refused { reason, message } => eprintln!(
            "evenkeel proxy: the coordinator of {cluster} refuses this proxy ({reason}): {message}"
        ),
    }
}

/// Requests per second of each worker, between one report and the next.
struct Load {
    clock: Clock,
    workers: Arc<[WorkerHandle]>,
    at: Instant,
    before: Vec<u64>,
}

impl Load {
    fn new(clock: Clock, workers: &Arc<[WorkerHandle]>) -> Self {
        let before = vec![0; workers.len()];
        Load {
            clock,
            workers: Arc::clone(workers),
            at: clock.now().monotonic,
            before,
        }
    }

    fn report(&mut self) -> LoadReport {
        let now = self.clock.now().monotonic;
        let seconds = now.since(self.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let counts = self.workers.iter().map(|worker| worker.gauges.requests());
        let requests_per_second = counts
            .zip(&mut self.before)
            .map(|(count, before)| {
                // `stats reset` takes counts back.
                let since = count.saturating_sub(std::mem::replace(before, count));
                since as f64 / seconds
            })
            .collect();
        self.at = now;
        LoadReport {
            requests_per_second,
            measured: None,
        }
    }
}
