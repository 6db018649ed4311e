//! The proxy as a member of clusters: it reports its load and is told their maps, and the steps of pools that change their servers.
//!
//! Each pool of Evenkeel servers follows one cluster; pools of the same cluster share the membership. So do pools whose change its
//! coordinator leads.

use crate::control::{Control, WorkerHandle};
use crate::control_port::ControlPort;
use crate::fence::Fence;
use crate::load::Load;
use evenkeel_control::bundles::{BundlePlan, BundleStep, BundleWish, FollowedBundle};
use evenkeel_control::rings::{FollowedRing, GrainCounted, RingCounts, RingWish};
use evenkeel_control::times::Histogram;
use evenkeel_control::{FollowedPool, MemberKind, PoolStep};
use evenkeel_member::access::Access;
use evenkeel_member::{MemberConfig, MemberEvent, MemberHandle, Report};
use evenkeel_proxy_core::{BundleUpdate, MapSource, PlannedRing, PoolUpdate, RingCounted};
use evenkeel_runtime::{Clock, UsageError};
use evenkeel_schemes::copies::Switch;
use evenkeel_schemes::stage::Stage;
use evenkeel_schemes::warmth::Found;
use evenkeel_types::{BootId, Epoch};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::{info, warn};

/// What a cluster is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSpec {
    /// Addresses of its coordinators.
    pub coordinators: Vec<String>,
    /// Its name.
    pub name: String,
}

/// What a configuration needs of coordinators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Maps of clusters.
    pub maps: Vec<MapSource>,
    /// Steps of pools whose change is led.
    pub steps: Vec<(MapSource, Arc<str>)>,
}

impl Wanted {
    /// Whether all that is there, at every worker.
    pub fn is_there(&self, clusters: &Clusters, workers: &[WorkerHandle]) -> bool {
        let has_map = |source: &MapSource| workers.iter().all(|w| w.gauges.epoch(*source).0 > 0);
        let mut steps = self.steps.iter();
        self.maps.iter().all(has_map)
            && steps.all(|(source, pool)| clusters.update(*source, pool).is_some())
    }

    fn is_of(&self, source: MapSource) -> bool {
        let mut steps = self.steps.iter();
        self.maps.contains(&source) || steps.any(|(led, _)| *led == source)
    }
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
    /// Open as soon as a pool is followed.
    control_port: ControlPort,
    fence: Fence,
}

#[derive(Debug)]
struct Member {
    source: MapSource,
    spec: ClusterSpec,
    /// `None` until the cluster is joined.
    handle: Option<MemberHandle>,
    followed: Followed,
}

/// The pools whose change or ring a coordinator leads, and what it has said of each.
#[derive(Clone, Debug, Default)]
struct Followed(Arc<Mutex<BTreeMap<Arc<str>, FollowedState>>>);

/// What a file says of a pool that a coordinator leads.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Wish {
    /// It passes from former servers to its own.
    #[default]
    Change,
    /// It has a ring, which begins so.
    Ring(RingWish),
    /// It keeps copies.
    Bundle(BundleWish),
}

#[derive(Clone, Debug, Default)]
struct FollowedState {
    told: Option<PoolUpdate>,
    /// What the file says of it.
    wish: Wish,
    /// The last plan of copies that it could not work by.
    refused: Option<BundlePlan>,
    /// The slot for which its counts are wanted.
    wanted: Option<u64>,
    /// How long servers had taken to answer when that was last told.
    answers: Option<Histogram>,
}

impl FollowedState {
    fn report(
        &self,
        pool: &str,
        acknowledged: u64,
        counts: Option<RingCounts>,
        unreached: Option<BTreeSet<u16>>,
    ) -> FollowedPool {
        let told = self.told.as_ref().map(|told| told.step);
        let number = self.ring().map_or(0, |ring| ring.number());
        let (ring, bundle) = match &self.wish {
            Wish::Change => (None, None),
            Wish::Ring(wish) => (Some(wish.clone()), None),
            Wish::Bundle(wish) => (None, Some(*wish)),
        };
        FollowedPool {
            pool: pool.to_owned(),
            told,
            acknowledged: acknowledged.min(told.map_or(0, |step| step.version)),
            ring: ring.map(|wish| FollowedRing {
                incarnation: self.ring().map_or(0, |ring| ring.incarnation()),
                number,
                wish: (number == 0).then_some(wish),
                counts,
                unreached: unreached.map(|servers| servers.into_iter().collect()),
            }),
            bundle: bundle.map(|wish| FollowedBundle {
                wish,
                plan: self.bundle_update().map(|told| told.plan),
            }),
            found: None,
        }
    }

    /// The 99th percentile of answer times since this was last asked.
    fn p99_since(&mut self, answers: Histogram) -> Option<u64> {
        let before = self.answers.replace(answers.clone())?;
        let since = answers.since(&before);
        (since.count() > 0).then(|| since.quantile_us(0.99))
    }

    /// Whether it matters what its reads find, here and at the former servers.
    fn is_warming(&self) -> bool {
        let stage = self.told.as_ref().map(|told| told.step.stage);
        self.wish == Wish::Change && stage == Some(Stage::Warming)
    }

    fn ring(&self) -> Option<&Arc<PlannedRing>> {
        self.told.as_ref()?.ring.as_ref()
    }

    fn bundle_update(&self) -> Option<BundleUpdate> {
        self.told.as_ref()?.bundle
    }

    /// Copies that are on or being switched, and those that the file has elsewhere instead: once for each plan.
    fn refuses(&mut self, news: &PoolStep) -> Option<(BundleWish, BundleWish)> {
        let (Wish::Bundle(own), Some(BundleStep { plan, .. })) = (&self.wish, news.bundle) else {
            return None;
        };
        let is_off = Switch::at(news.step.stage) == Switch::Off;
        let is_refused = !is_off && plan.of != *own && self.refused != Some(plan);
        is_refused.then(|| {
            self.refused = Some(plan);
            (plan.of, *own)
        })
    }

    /// What a step says to a proxy of this many workers, if it is news that can be used: one of a ring is of no use without its plan, and one of
    /// copies that are elsewhere holds the plan up. One of copies that is known is told again where others have begun to follow, or have ended.
    fn handle(&self, news: &PoolStep, workers: usize) -> Option<PoolUpdate> {
        let step = news.step;
        let told = |ring, bundle| PoolUpdate { step, ring, bundle };
        match (&self.wish, &news.ring, news.bundle) {
            (Wish::Change, None, None) => Some(told(None, None)),
            (Wish::Ring(_), Some(ring), None) => {
                let planned = match &ring.plan {
                    // The membership has looked at it.
                    Some(plan) => Arc::new(PlannedRing::new(plan).ok()?),
                    None => {
                        let known = self.ring()?;
                        (known.number() == ring.number).then(|| Arc::clone(known))?
                    }
                };
                Some(told(Some(planned), None))
            }
            (Wish::Bundle(wish), None, bundle) => {
                let is_off = Switch::at(step.stage) == Switch::Off;
                let is_here = bundle.is_some_and(|it| it.plan.of == *wish);
                let workers = u32::try_from(workers).unwrap_or(u32::MAX);
                let bundle = bundle.map(|BundleStep { plan, proxies }| BundleUpdate {
                    plan,
                    fillers: proxies.saturating_mul(workers),
                });
                let known = self.told.as_ref().map(|told| told.step);
                let is_newer = known.is_none_or(|known| step.version > known.version);
                let is_usable = is_newer && (is_off || is_here);
                let has_changed = known == Some(step) && self.bundle_update() != bundle;
                (is_usable || has_changed).then(|| told(None, bundle))
            }
            _ => None,
        }
    }
}

impl Followed {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, FollowedState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far all workers are.
    fn report(&self, source: MapSource, workers: &[WorkerHandle]) -> Vec<FollowedPool> {
        let mut followed = self.lock();
        // A heartbeat has room for the counts of one ring.
        let mut has_room = true;
        let report = followed.iter_mut().map(|(pool, state)| {
            let all = workers.iter();
            let acknowledged = all.map(|w| w.gauges.acknowledged(source, pool)).min();
            let counted = |slot: u64| {
                let all = workers.iter();
                let all = all.map(|w| w.gauges.ring_counted(source, pool, slot));
                sum(slot, all.collect::<Option<Vec<_>>>()?)
            };
            // Who has not got them asks again.
            let counted = state.wanted.filter(|_| has_room).and_then(counted);
            let counts = counted.map(|(counts, answers)| RingCounts {
                p99_us: state.p99_since(answers),
                ..counts
            });
            has_room &= counts.is_none();
            state.wanted = state.wanted.filter(|_| counts.is_none());
            let plan = state.ring().map_or(0, |ring| ring.number());
            let unreached = workers
                .iter()
                .map(|w| w.gauges.unreached(source, pool, plan));
            let unreached = unreached.collect::<Option<Vec<_>>>();
            let by_none = |by: Vec<BTreeSet<u16>>| by.into_iter().reduce(|all, more| &all & &more);
            let unreached = unreached.and_then(by_none);
            FollowedPool {
                found: (state.is_warming())
                    .then(|| found(source, workers, pool))
                    .flatten(),
                ..state.report(pool, acknowledged.unwrap_or(0), counts, unreached)
            }
        });
        report.collect()
    }
}

/// What reads of a pool have found through all workers, as these have said it when they were asked last; `None` before all have. They are asked anew
/// for the next time.
fn found(source: MapSource, workers: &[WorkerHandle], pool: &Arc<str>) -> Option<Found> {
    for worker in workers {
        worker.say(Control::CountFound(source, Arc::clone(pool)));
    }
    let told = workers.iter().map(|w| w.gauges.found(source, pool));
    told.reduce(|all, more| Some(all?.plus(more?)))?
}

/// What all workers have counted together; `None` if not all of the same ring.
fn sum(slot: u64, all: Vec<RingCounted>) -> Option<(RingCounts, Histogram)> {
    let RingCounted { plan, moved, .. } = *all.first()?;
    let mut grains: BTreeMap<u32, GrainCounted> = BTreeMap::new();
    let (mut micros, mut down) = (0, BTreeSet::new());
    let mut answers = Histogram::default();
    for counted in all {
        if (counted.plan, counted.moved) != (plan, moved) {
            return None;
        }
        micros = counted.micros.max(micros);
        down.extend(counted.down);
        answers.add(&counted.answers);
        for of in counted.grains {
            let sum = grains.entry(of.0).or_insert(GrainCounted(of.0, 0, 0, 0, 0));
            *sum = GrainCounted(of.0, sum.1 + of.1, sum.2 + of.2, sum.3 + of.3, sum.4 + of.4);
        }
    }
    let counts = RingCounts {
        slot,
        plan,
        moved,
        micros,
        grains: grains.into_values().collect(),
        down: down.into_iter().collect(),
        p99_us: None,
    };
    Some((counts, answers))
}

impl Clusters {
    /// None yet; the process ends as the fence says once pools are followed.
    pub fn fenced(fence: Fence) -> Self {
        Clusters(Arc::new(Mutex::new(Members {
            fence,
            ..Members::default()
        })))
    }

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
            followed: Followed::default(),
        });
        source
    }

    /// A pool whose change the coordinator of a cluster leads, or its ring, of which the file says so. The number of that cluster.
    pub fn follow(&self, spec: &ClusterSpec, pool: &Arc<str>, wish: Wish) -> MapSource {
        let source = self.source(spec);
        let members = self.lock();
        let mut known = members.known.iter();
        if let Some(member) = known.find(|member| member.source == source) {
            let mut followed = member.followed.lock();
            followed.entry(Arc::clone(pool)).or_default().wish = wish;
        }
        source
    }

    /// What the coordinator has said of a pool last.
    pub fn update(&self, source: MapSource, pool: &Arc<str>) -> Option<PoolUpdate> {
        let members = self.lock();
        let mut known = members.known.iter();
        let member = known.find(|member| member.source == source)?;
        member.followed.lock().get(pool)?.told.clone()
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
        let (config, control_port) = (Arc::clone(&members.config), members.control_port.clone());
        let fence = members.fence.clone();
        let mut known = members.known.iter();
        if known.any(|member| !member.followed.lock().is_empty()) {
            let opened = control_port.open(identity.address.ip(), identity.boot);
            opened.map_err(|error| UsageError(format!("cannot open a control port: {error}")))?;
        }
        for member in members.known.iter_mut().filter(|m| m.handle.is_none()) {
            let of_all = (&config, &control_port, &fence);
            let handle = join(member, identity, clock, workers, of_all)?;
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

    /// Ends the memberships of all other clusters, and follows no other pools any more.
    pub fn keep_only(&self, wanted: &Wanted) {
        let (left, fence): (Vec<Member>, _) = {
            let mut members = self.lock();
            let known = std::mem::take(&mut members.known);
            let (kept, left) = known
                .into_iter()
                .partition(|member| wanted.is_of(member.source));
            members.known = kept;
            for member in &members.known {
                let source = member.source;
                let is_kept = |pool: &Arc<str>| wanted.steps.contains(&(source, Arc::clone(pool)));
                let mut followed = member.followed.lock();
                followed.retain(|pool, _| is_kept(pool));
                if followed.is_empty() {
                    members.fence.lift(source);
                }
            }
            (left, members.fence.clone())
        };
        // Without the lock: a call under way may take seconds.
        for member in left {
            if let Some(handle) = member.handle {
                handle.leave();
            }
            fence.lift(member.source);
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
    (works_by, control_port, fence): (&Arc<Mutex<String>>, &ControlPort, &Fence),
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
        gone_after: fence.gone_after(),
        seed: identity.boot.0 ^ u64::from(source.0),
    };
    let mut load = Load::new(clock, workers);
    let (reporting, works_by) = (Arc::clone(workers), Arc::clone(works_by));
    let control_port = control_port.clone();
    let (followed, following) = (member.followed.clone(), member.followed.clone());
    let of_report = fence.clone();
    let report = move || {
        of_report.check();
        Report {
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
            pools: followed.report(source, &reporting),
            control_port: control_port.number(),
            config_hash: {
                let digest = works_by.lock().unwrap_or_else(PoisonError::into_inner);
                Some(digest.clone()).filter(|digest| !digest.is_empty())
            },
        }
    };
    let (told, fence) = (Arc::clone(workers), fence.clone());
    let name = spec.name.clone();
    MemberHandle::start(config, report, move |event| {
        handle(&told, &following, (source, &name), &fence, event);
    })
    .map_err(|error| UsageError(error.to_string()))
}

fn handle(
    workers: &[WorkerHandle],
    followed: &Followed,
    (source, cluster): (MapSource, &str),
    fence: &Fence,
    event: MemberEvent,
) {
    match event {
        MemberEvent::Step(news) => {
            let mut followed = followed.lock();
            let mut pools = followed.iter_mut();
            let Some((pool, state)) = pools.find(|(pool, _)| ***pool == *news.pool) else {
                return;
            };
            if let Some(told) = state.handle(&news, workers.len()) {
                state.told = Some(told);
                tell_step(workers, source, pool, &state.told);
            }
            if let Some((on, own)) = state.refuses(&news) {
                warn!(
                    "pool {pool} has {on} by its coordinator, and {own} by this proxy's file: \
                     until they are the same, or copies are switched off, it does not follow, and writes wait if it has not before"
                );
            }
            if let Some(slot) = news.ring.and_then(|ring| ring.slot) {
                state.wanted = Some(slot);
                for worker in workers {
                    worker.say(Control::CountRing(source, Arc::clone(pool), slot));
                }
            }
        }
        MemberEvent::Answered { sent, .. } => match followed.lock().is_empty() {
            true => fence.lift(source),
            false => fence.renew(source, sent),
        },
        // Another process has the name, whose steps are waited for instead of ours.
        MemberEvent::NameLost { message } => {
            fence.lift(source);
            let mut followed = followed.lock();
            for (pool, state) in followed.iter_mut() {
                state.told = None;
                tell_step(workers, source, pool, &None);
            }
            if !followed.is_empty() {
                warn!(
                    "requests to pools that the coordinator of {cluster} leads fail from now on: {message}"
                );
            }
        }
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
        | MemberEvent::MayEnd => {}
        MemberEvent::Lost {
            why,
            has_answered: true,
        } => {
            warn!(
                cluster,
                cause = why,
                "no coordinator answers; serving goes on by what it said last"
            );
        }
        MemberEvent::Lost { why, .. } => {
            warn!(
                cluster,
                cause = why,
                "no coordinator has answered yet; what it leads waits"
            );
        }
        MemberEvent::Found => info!(cluster, "the coordinator answers"),
        MemberEvent::Refused { reason, message } => {
            warn!("the coordinator of {cluster} refuses this proxy ({reason}): {message}")
        }
    }
}

fn tell_step(
    workers: &[WorkerHandle],
    source: MapSource,
    pool: &Arc<str>,
    told: &Option<PoolUpdate>,
) {
    for worker in workers {
        worker.say(Control::Step(source, Arc::clone(pool), told.clone()));
    }
}
