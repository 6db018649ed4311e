//! Autoscaling of the cluster, where it meets its members: what is seen of them, and what comes of the acts that are asked of them.
//!
//! A server that was started registers by itself, under the name that it was started by. A name that autoscaling has given is held back when it
//! registers first: it is drained from the beginning, owns nothing before it has been tried, and joins by being drained no longer. So what was started
//! in vain, or late, by an actuator that hung, never owns anything.
//!
//! A member that is up and not drained counts, however many cachelets it has got yet: placing sees to its share.

use core::time::Duration;
use std::collections::BTreeMap;

use evenkeel_balance::share::{Measured, Utilization, capacities};
use evenkeel_types::{Instant, Now, ServerId};

use crate::changes::ChangeRefusal;
use crate::cluster_loads::ServerLoad;
use crate::history::History;
use crate::limits::{DRAIN_RATE, LOADS_AGE_MAX};
use crate::map_draft::MapDraft;
use crate::members::{Drain, DrainRequest, Members, Server};
use crate::scale::{
    Act, LedScale, Measures, Outcome, Part, Phase, PoolServer, ScaleSettings, ScaleTryView,
    ScaleView, Scaled, Scaling, Seen, place,
};

/// What proxies have told of the last seconds counts: the median of their 99th percentiles, so that one slow second is none.
const P99_WITHIN: Duration = Duration::from_secs(5);

/// The autoscaling of the cluster, where an operator has set it up.
#[derive(Debug, Default)]
pub(crate) struct ClusterScale(Option<Scaling>);

/// What is known of the cluster's servers.
pub(crate) struct Cluster<'a> {
    pub(crate) members: &'a Members,
    pub(crate) draft: &'a MapDraft,
    pub(crate) loads: Vec<ServerLoad>,
    pub(crate) history: &'a History,
}

impl ClusterScale {
    /// What was saved goes on.
    pub(crate) fn restore(now: Instant, saved: Option<LedScale>) -> Self {
        ClusterScale(saved.map(|saved| Scaling::restored(now, saved)))
    }

    /// What is to be saved.
    pub(crate) fn saved(&self) -> Option<LedScale> {
        self.0.as_ref().map(|scaling| scaling.led.clone())
    }

    pub(crate) fn is_set_up(&self) -> bool {
        self.0.is_some()
    }

    /// Changes how the number of servers follows what is measured.
    ///
    /// # Errors
    ///
    /// A setting is out of its range.
    pub(crate) fn set(
        &mut self,
        cluster: &str,
        settings: &ScaleSettings,
    ) -> Result<(), ChangeRefusal> {
        check(settings)?;
        let scaling = self.0.get_or_insert_with(|| Scaling::new(cluster));
        scaling.led.settings = *settings;
        Ok(())
    }

    /// What would be decided at this moment by settings that are not set.
    ///
    /// # Errors
    ///
    /// They could not be set.
    pub(crate) fn try_settings(
        now: Instant,
        cluster: &str,
        settings: &ScaleSettings,
        seen: &Seen,
    ) -> Result<ScaleTryView, ChangeRefusal> {
        check(&settings.tried())?;
        Ok(ScaleTryView::of(now, cluster, settings, seen))
    }

    /// Whether an operator is asked for approval.
    pub(crate) fn waits_for_approval(&self, now: Instant) -> bool {
        let scaling = self.0.as_ref();
        scaling.is_some_and(|scaling| scaling.waits_for_approval(now))
    }

    /// Whether a server that registers under this name for the first time owns nothing before it has been tried.
    pub(crate) fn holds_back(&self, name: &str) -> bool {
        let scaling = self.0.as_ref();
        scaling.is_some_and(|scaling| scaling.led.scale.has_given(name))
    }

    /// This process has not run for a while.
    pub(crate) fn notice_pause(&mut self, now: Instant) {
        if let Some(scaling) = &mut self.0 {
            scaling.notice_pause(now);
        }
    }

    /// What the last decision asks of an actuator.
    pub(crate) fn act(&self) -> Option<&Act> {
        self.0.as_ref()?.act.as_ref()
    }

    /// What is seen of the cluster. O(cachelets + servers · log servers), and O(cachelets) for each server that leaves or is down.
    pub(crate) fn seen(&self, now: Instant, cluster: &Cluster<'_>) -> Seen {
        let scaling = self.0.as_ref();
        let phase = scaling.map_or(&Phase::Steady, |scaling| scaling.led.scale.phase());
        cluster.seen(now, phase)
    }

    pub(crate) fn view(&self, now: Instant, seen: &Seen) -> Option<ScaleView> {
        self.0.as_ref().map(|scaling| scaling.view(now, seen))
    }

    /// Decides what is next. Gives whether it is to be saved.
    pub(crate) fn decide(&mut self, now: Now, seen: Seen, all: &mut Scaled) -> bool {
        let scaling = self.0.as_mut();
        scaling.is_some_and(|scaling| scaling.decide(now, seen, all))
    }

    /// Executes what the last decision asks of the members.
    pub(crate) fn order(&mut self, now: Instant, members: &mut Members, draft: &mut MapDraft) {
        let Some(scaling) = &mut self.0 else {
            return;
        };
        let act = match (scaling.led.scale.phase(), &scaling.act) {
            // One that was to leave and stays after all need not become empty first.
            (Phase::Joining { address, .. }, _) => Act::Join {
                address: address.clone(),
            },
            (_, Some(act @ (Act::Try { .. } | Act::Drain { .. }))) => act.clone(),
            _ => return,
        };
        let come = match &act {
            Act::Try { address } => {
                let name = scaling.led.scale.phase().server();
                try_newcomer(members, name.unwrap_or_default(), address)
            }
            Act::Join { address } => found_at(members, address).map(|id| {
                members.set_drain(id, None, draft);
            }),
            Act::Drain { address } => begin_drain(now, address, members, draft),
            Act::Start { .. } | Act::Stop { .. } => return,
        };
        scaling.act = None;
        scaling.outcome = Some(match come {
            Ok(()) => Outcome::Done(act),
            Err(why) => Outcome::Failed(act, why),
        });
    }
}

impl Cluster<'_> {
    fn seen(&self, now: Instant, phase: &Phase) -> Seen {
        // It has never owned anything, also where somebody has yet to confirm that.
        let newcomer = match phase {
            Phase::Starting { name, .. } => Some(name.as_str()),
            _ => None,
        };
        let mut pool = BTreeMap::new();
        // Who is up counts where one that is gone was.
        let (up, down): (Vec<_>, Vec<_>) = (self.members.servers().iter())
            .filter(|server| !server.is_forgotten && newcomer != Some(server.entry.name.as_str()))
            .partition(|server| server.entry.up);
        for server in down.into_iter().chain(up) {
            let Some(part) = self.part_of(now, server) else {
                continue;
            };
            let is_unreached = !server.entry.up;
            pool.insert(place_of(server), PoolServer { part, is_unreached });
        }
        Seen {
            measures: self.measures(now),
            pool,
            ..Seen::default()
        }
    }

    fn part_of(&self, now: Instant, server: &Server) -> Option<Part> {
        let id = server.entry.id;
        if server.takes() {
            return Some(Part::Owns);
        }
        let is_used = match server.entry.up {
            true => !self.members.drain_view(now, id, self.draft).may_stop,
            false => self.draft.cachelets_of(id) > 0,
        };
        is_used.then_some(match server.drain {
            Some(_) => Part::Leaves,
            None => Part::Owns,
        })
    }

    /// What is not told by all servers that are up is not known.
    fn measures(&self, now: Instant) -> Measures {
        let servers = self.members.up().count();
        let told = self.members.up().filter(|server| !server.load.is_empty());
        let told: Vec<f64> = told.map(|server| server.load.iter().sum()).collect();
        let takers = self.members.takers().count();
        let requests = told.iter().sum::<f64>() / takers as f64;
        let fresh = self.loads.iter().filter(|load| load.age < LOADS_AGE_MAX);
        let fresh: Vec<&ServerLoad> = fresh.collect();
        let all_told = fresh.len() == servers && servers > 0;
        let (busiest, utilization) = used(&fresh);
        Measures {
            requests_per_server: (told.len() == servers && takers > 0).then_some(requests),
            busiest_share: busiest.filter(|_| all_told),
            p99_us: self.p99_us(now),
            hit_rate: hit_rate(&fresh).filter(|_| all_told),
            utilization: utilization.filter(|_| all_told),
        }
    }

    fn p99_us(&self, now: Instant) -> Option<f64> {
        let columns = self.history.seconds.columns().iter().rev();
        let recent = columns.take_while(|column| now.since(column.at) < P99_WITHIN);
        let mut told: Vec<u64> = recent.filter_map(|column| column.served.p99_us).collect();
        told.sort_unstable();
        told.get(told.len() / 2).map(|us| *us as f64)
    }
}

/// What the busiest server carries as a part of what it can do, and what all do together.
fn used(servers: &[&ServerLoad]) -> (Option<f64>, Option<f64>) {
    let workers = servers.iter().flat_map(|server| &server.workers);
    let measured: Vec<Measured> = workers
        .map(|(worker, _)| Measured {
            load: worker.served_load(),
            busy: worker.busy,
        })
        .collect();
    if measured.is_empty() {
        return (None, None);
    }
    let capacities = capacities(&measured);
    let loads: Vec<f64> = measured.iter().map(|worker| worker.load).collect();
    let Utilization(all) = Utilization::of(&loads, &capacities);
    let mut from = 0;
    let busiest = servers.iter().map(|server| {
        let its = from..from + server.workers.len();
        from = its.end;
        let Utilization(its) = Utilization::of(&loads[its.clone()], &capacities[its]);
        its
    });
    (busiest.max_by(f64::total_cmp), Some(all))
}

/// Part of the reads that have found an item; none while nobody reads.
fn hit_rate(servers: &[&ServerLoad]) -> Option<f64> {
    let workers = servers.iter().flat_map(|server| &server.workers);
    let cachelets = workers.flat_map(|(worker, _)| &worker.cachelets);
    let (reads, hits) = cachelets.fold((0.0, 0.0), |(reads, hits), load| {
        (reads + load.reads_per_s, hits + load.hits_per_s)
    });
    (reads > 0.0).then(|| (hits / reads).min(1.0))
}

fn check(settings: &ScaleSettings) -> Result<(), ChangeRefusal> {
    let bad = |why: crate::scale::ScaleRefusal| ChangeRefusal::BadSettings {
        why: why.to_string(),
    };
    settings.validate().map_err(bad)
}

fn place_of(server: &Server) -> String {
    place(&server.entry.host, server.entry.port)
}

/// The server that is up at an address.
fn found_at(members: &Members, address: &str) -> Result<ServerId, String> {
    let mut up = members.up();
    let found = up.find(|server| place_of(server) == address);
    found
        .map(|server| server.entry.id)
        .ok_or_else(|| format!("no server that is up has registered as {address}"))
}

/// A newcomer has registered where the actuator says that it is, and is heard.
fn try_newcomer(members: &Members, name: &str, address: &str) -> Result<(), String> {
    let known = members.named(name).map(|id| members.server(id));
    let known = known.filter(|server| server.entry.up);
    match known.map(place_of) {
        Some(at) if at == address => Ok(()),
        Some(at) => Err(format!("{name} has registered as {at}, not as {address}")),
        None => Err(format!(
            "no server has registered here as {name}: it has to be started with --name {name} and this coordinator"
        )),
    }
}

fn begin_drain(
    now: Instant,
    address: &str,
    members: &mut Members,
    draft: &mut MapDraft,
) -> Result<(), String> {
    let id = found_at(members, address)?;
    let request = DrainRequest {
        server: members.server(id).entry.name.clone(),
        drain: true,
        cachelets_per_second: DRAIN_RATE,
    };
    let checked = members.check_drain(&request);
    checked.map_err(|refused| refused.to_string())?;
    members.set_drain(id, Some(Drain::new(now, DRAIN_RATE)), draft);
    Ok(())
}
