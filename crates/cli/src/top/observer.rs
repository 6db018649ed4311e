//! Asks everybody, again and again.

use super::args::Args;
use super::cluster::Cluster;
use super::figures::{Figures, HISTORY_MAX, Member};
use super::proxy;
use super::screen::Shown;
use crate::ask::{client, usual_coordinator};
use crate::watch::Watch;
use evenkeel_coordinator_core::{ServersView, Snapshot};
use evenkeel_member::client::ApiClient;
use evenkeel_runtime::{UsageError, resolve, resolve_server};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

/// Servers that are asked at the same time. One that does not answer holds up the others of its thread for as
/// long as a look may take.
const ASKED_AT_ONCE: usize = 32;

/// Longest wait for an answer of the coordinator. The screen stands still meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Asks everybody.
pub struct Observer {
    proxy: Option<proxy::Observer>,
    coordinator: Option<ApiClient>,
    members: Vec<(Member, SocketAddr)>,
    cluster: Option<Cluster>,
    watches: BTreeMap<SocketAddr, Watch>,
    /// Requests a second of each server at the last looks, by name.
    history: BTreeMap<String, VecDeque<f64>>,
    warning: Option<String>,
    looked: Option<Instant>,
}

impl Observer {
    /// The coordinator to ask.
    ///
    /// # Errors
    /// An address is none, or the coordinator does not answer.
    pub fn new(args: &Args) -> anyhow::Result<Observer> {
        let proxy = args.proxy.as_deref().map(resolve_server);
        let proxy = proxy.transpose().map_err(UsageError)?;
        let mut observer = Observer {
            proxy: proxy.map(proxy::Observer::new),
            coordinator: None,
            members: Vec::new(),
            cluster: None,
            watches: BTreeMap::new(),
            history: BTreeMap::new(),
            warning: None,
            looked: None,
        };
        let is_told = args.proxy.is_some() || !args.servers.is_empty();
        let usual = || (!is_told).then(usual_coordinator);
        match args.coordinator.clone().or_else(usual) {
            Some(address) => {
                let api = client(&address, &args.access)?.with_timeout(ANSWER_TIMEOUT);
                observer.take(&api.snapshot()?, &api.servers()?)?;
                observer.coordinator = Some(api);
            }
            None => {
                for server in &args.servers {
                    let member = Member {
                        name: server.clone(),
                        is_up: true,
                        ..Member::default()
                    };
                    let address = resolve_server(server).map_err(UsageError)?;
                    observer.members.push((member, address));
                }
            }
        }
        Ok(observer)
    }

    /// What happened since the last look, and this many columns of the heat map.
    pub fn look(&mut self, columns: usize) -> Shown {
        let now = Instant::now();
        let seconds = self
            .looked
            .replace(now)
            .map_or(0.0, |last| (now - last).as_secs_f64());
        match &mut self.proxy {
            Some(proxy) => Shown::Proxy(proxy.look(seconds)),
            None => Shown::Servers(Box::new(self.look_at_servers(seconds, columns))),
        }
    }

    fn look_at_servers(&mut self, seconds: f64, columns: usize) -> Figures {
        self.ask_coordinator();
        let heat = match &self.coordinator {
            Some(api) if columns > 0 => api.heat(columns).ok(),
            _ => None,
        };
        let mut known = std::mem::take(&mut self.watches);
        let mut asked: Vec<_> = self
            .members
            .iter()
            .map(|(member, address)| {
                let watch = known
                    .remove(address)
                    .unwrap_or_else(|| Watch::new(*address));
                (member.clone(), watch, None)
            })
            .collect();
        let share = asked.len().div_ceil(ASKED_AT_ONCE).max(1);
        thread::scope(|scope| {
            for some in asked.chunks_mut(share) {
                scope.spawn(|| {
                    for (_, watch, told) in some {
                        *told = Some(watch.look());
                    }
                });
            }
        });
        let mut looks = Vec::with_capacity(asked.len());
        for (member, watch, told) in asked {
            self.watches.insert(watch.address(), watch);
            let told = told.map(|told| told.map_err(|error| error.to_string()));
            looks.push((member, told.unwrap_or_else(|| Err("was not asked".into()))));
        }
        let mut figures = Figures::new(seconds, &looks, self.warning.clone());
        if let Some(cluster) = &self.cluster {
            figures.add_cluster(cluster.clone());
        }
        figures.heat = heat;
        self.remember(&mut figures);
        figures
    }

    /// Adds this look to those before.
    fn remember(&mut self, figures: &mut Figures) {
        let mut known = std::mem::take(&mut self.history);
        for server in &mut figures.servers {
            let mut history = known.remove(&server.name).unwrap_or_default();
            history.push_back(server.requests_per_second);
            let surplus = history.len().saturating_sub(HISTORY_MAX);
            history.drain(..surplus);
            server.history = history.iter().copied().collect();
            self.history.insert(server.name.clone(), history);
        }
    }

    /// Servers may have come and gone. While the coordinator is away the last ones are watched on.
    fn ask_coordinator(&mut self) {
        let Some(api) = &self.coordinator else { return };
        let told = api
            .snapshot()
            .and_then(|seen| Ok((seen, api.servers()?)))
            .map_err(anyhow::Error::from);
        self.warning = match told.and_then(|(seen, servers)| self.take(&seen, &servers)) {
            Ok(()) => None,
            Err(error) => Some(format!("{error:#}")),
        };
    }

    /// A snapshot tells of few of a large cluster's servers.
    fn take(&mut self, seen: &Snapshot, all: &ServersView) -> anyhow::Result<()> {
        let members = all.servers.iter().map(|server| {
            let address = resolve(&server.host, server.port).map_err(UsageError)?;
            let member = Member {
                name: server.name.clone(),
                rack: server.rack.clone(),
                cachelets: Some(server.cachelets),
                epoch: Some(server.epoch.0),
                is_up: server.up,
            };
            Ok((member, address))
        });
        self.members = members.collect::<anyhow::Result<_>>()?;
        self.cluster = Some(Cluster::of(seen));
        Ok(())
    }
}
