//! What `evenkeel top` shows of a moment: plain numbers, without a terminal.

use evenkeel_coordinator_core::HeatView;

use super::cluster::{Cluster, WorkerLine};
use super::units::{count, ratio};
use crate::watch::{Holdings, HotKey, ServerStats, rate};
use serde::Serialize;

/// Looks whose requests a second are remembered of each server.
pub const HISTORY_MAX: usize = 60;

/// What a server said, or why it said nothing.
pub type Told = Result<ServerStats, String>;

/// A server that is watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// By which people know it: the coordinator's name, or its address.
    pub name: String,
    pub rack: Option<String>,
    /// Cachelets that it owns, where a coordinator tells.
    pub cachelets: Option<usize>,
    /// Epoch of the map that it works by, likewise.
    pub epoch: Option<u64>,
    /// Whether the coordinator takes it to be alive; true where none is asked.
    pub is_up: bool,
}

/// A server's line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerLine {
    pub name: String,
    pub rack: Option<String>,
    /// `up`, `draining` or `down` where the coordinator says so, or `silent` where it does not answer.
    pub state: &'static str,
    /// Why it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    pub requests_per_second: f64,
    /// Its load by the mean of all that answer; 1 is perfectly even.
    pub load_over_mean: f64,
    /// The part of its time that its busiest worker does not sleep, where a coordinator tells.
    pub busy: Option<f64>,
    pub workers: Vec<WorkerLine>,
    /// Keys found of those read at their home; nothing where none was read.
    pub hit_ratio: Option<f64>,
    /// Part of its requests that were reads of replicas.
    pub replica_read_share: f64,
    pub evictions_per_second: f64,
    #[serde(flatten)]
    pub holdings: Holdings,
    pub cachelets: Option<usize>,
    pub epoch: Option<u64>,
    /// Requests a second at the last looks, the newest last.
    #[serde(skip)]
    pub history: Vec<f64>,
}

/// Everything of one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Since the last moment.
    pub seconds: f64,
    pub requests_per_second: f64,
    /// The most loaded server's load by the mean of all that answer; 1 without any load.
    pub load_max_over_mean: f64,
    pub hit_ratio: Option<f64>,
    /// Copies of hot keys besides the homes'.
    pub replicas: usize,
    pub servers: Vec<ServerLine>,
    /// Keys with replicas, and those that get most without any: the hottest first.
    pub hot_keys: Vec<HotKey>,
    /// Where there is a coordinator that tells it.
    pub cluster: Option<Cluster>,
    /// What is wrong with the source of the servers, if anything.
    pub warning: Option<String>,
    /// Where it was asked for, and there is a coordinator that tells it.
    #[serde(skip)]
    pub heat: Option<HeatView>,
}

impl Figures {
    /// How many keys have replicas.
    pub fn replicated(&self) -> usize {
        let has_replicas = |key: &&HotKey| key.replicas > 0;
        self.hot_keys.iter().filter(has_replicas).count()
    }

    /// Puts together what `seconds` brought: each member, and what it said if it did.
    pub fn new(seconds: f64, looks: &[(Member, Told)], warning: Option<String>) -> Figures {
        let answers = || looks.iter().filter_map(|(_, told)| told.as_ref().ok());
        let rate = |count| rate(count, seconds);
        let all: u64 = answers().map(|stats| stats.counts.requests).sum();
        let mean = rate(all) / answers().count().max(1) as f64;
        let servers: Vec<_> = looks
            .iter()
            .map(|(member, told)| line(member, told, mean, &rate))
            .collect();
        let mut hot_keys: Vec<_> = looks
            .iter()
            .flat_map(|(member, told)| {
                let keys = told.iter().flat_map(|stats| &stats.hot_keys);
                keys.map(|key| HotKey {
                    home: member.name.clone(),
                    ..key.clone()
                })
            })
            .collect();
        hot_keys.sort_by(|a, b| b.requests_per_second.total_cmp(&a.requests_per_second));
        let sum = |of: fn(&ServerStats) -> u64| answers().map(of).sum();
        let most = servers.iter().map(|s| s.load_over_mean).fold(0.0, f64::max);
        Figures {
            seconds,
            requests_per_second: rate(all),
            load_max_over_mean: if all == 0 { 1.0 } else { most },
            hit_ratio: share(sum(|s| s.counts.hits), sum(|s| s.counts.gets)),
            replicas: hot_keys.iter().map(|key| key.replicas).sum(),
            servers,
            hot_keys,
            cluster: None,
            warning,
            heat: None,
        }
    }

    /// Adds what the coordinator tells.
    pub fn add_cluster(&mut self, cluster: Cluster) {
        for server in &mut self.servers {
            if let Some(workers) = cluster.workers.get(&server.name) {
                server.busy = workers.iter().map(|it| it.busy).reduce(f64::max);
                server.workers.clone_from(workers);
            }
            if server.state == "up" && cluster.draining.contains(&server.name) {
                server.state = "draining";
            }
        }
        self.cluster = Some(cluster);
    }

    /// In one line.
    pub fn head(&self) -> String {
        let of_workers = self.cluster.as_ref();
        let of_workers = of_workers.and_then(|cluster| cluster.worker_load_max_over_mean);
        let (what, over_mean) = match of_workers {
            Some(over_mean) => ("worker", over_mean),
            None => ("server", self.load_max_over_mean),
        };
        format!(
            "{} requests/s on {} servers, busiest {what} {over_mean:.2} of the mean, hits {}",
            count(self.requests_per_second),
            self.servers.len(),
            ratio(self.hit_ratio),
        )
    }

    /// What was done about it, in one line.
    pub fn actions(&self) -> String {
        let mut parts = Vec::new();
        if let Some(busy) = self.cluster.as_ref().and_then(|cluster| cluster.busy_max) {
            parts.push(format!("busiest worker {:.0} % busy", busy * 100.0));
        }
        parts.push(format!(
            "{} hot keys with {} replicas",
            self.replicated(),
            self.replicas
        ));
        let plans = self.cluster.iter().flat_map(|cluster| &cluster.plans);
        parts.extend(plans.take(1).map(|mode| format!("plans: {mode}")));
        parts.join(" · ")
    }

    /// Why there is nothing to see, if nobody answers.
    pub fn silence(&self) -> Option<String> {
        let answers = |server: &ServerLine| server.cause.is_none();
        if self.servers.is_empty() || self.servers.iter().any(answers) {
            return None;
        }
        let causes = self.servers.iter().map(|server| {
            let cause = server.cause.as_deref().unwrap_or_default();
            format!("{}: {cause}", server.name)
        });
        Some(causes.collect::<Vec<_>>().join("; "))
    }
}

fn line(member: &Member, told: &Told, mean: f64, rate: &impl Fn(u64) -> f64) -> ServerLine {
    let state = match (told, member.is_up) {
        (Ok(_), true) => "up",
        (_, false) => "down",
        (Err(_), true) => "silent",
    };
    let ServerStats {
        counts, holdings, ..
    } = told.clone().unwrap_or_default();
    let requests_per_second = rate(counts.requests);
    ServerLine {
        name: member.name.clone(),
        rack: member.rack.clone(),
        state,
        cause: told.as_ref().err().cloned(),
        requests_per_second,
        busy: None,
        workers: Vec::new(),
        load_over_mean: if mean > 0.0 {
            requests_per_second / mean
        } else {
            0.0
        },
        hit_ratio: share(counts.hits, counts.gets),
        replica_read_share: share(counts.replica_reads, counts.requests).unwrap_or(0.0),
        evictions_per_second: rate(counts.evictions),
        holdings,
        cachelets: member.cachelets,
        epoch: member.epoch,
        history: Vec::new(),
    }
}

impl HotKey {
    /// In one line, with what is done about it or why nothing is.
    pub fn sentence(&self) -> String {
        let (key, home, rate) = (&self.key, &self.home, self.requests_per_second);
        match &self.why {
            None => format!(
                "{key} at {home}: {}, {rate:.0} requests/s, {} replicas",
                self.state, self.replicas
            ),
            Some(why) => format!("{key} at {home}: {rate:.0} requests/s, no replicas: {why}"),
        }
    }
}

fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// By what servers are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The most loaded first.
    #[default]
    Load,
    Name,
    /// The fullest first.
    Memory,
    /// The lowest hit ratio first.
    Hits,
}

impl Order {
    /// What it says of itself.
    pub fn name(self) -> &'static str {
        match self {
            Order::Load => "load",
            Order::Name => "name",
            Order::Memory => "memory",
            Order::Hits => "hits",
        }
    }

    /// The one that a key press brings next.
    pub fn next(self) -> Order {
        match self {
            Order::Load => Order::Name,
            Order::Name => Order::Memory,
            Order::Memory => Order::Hits,
            Order::Hits => Order::Load,
        }
    }

    /// Orders servers; those that are equal stay as they are.
    pub fn sort(self, servers: &mut [ServerLine]) {
        let memory = |s: &ServerLine| {
            s.holdings.memory_bytes as f64 / s.holdings.memory_limit_bytes.max(1) as f64
        };
        let hits = |s: &ServerLine| s.hit_ratio.unwrap_or(f64::INFINITY);
        servers.sort_by(|a, b| match self {
            Order::Load => b.requests_per_second.total_cmp(&a.requests_per_second),
            Order::Name => a.name.cmp(&b.name),
            Order::Memory => memory(b).total_cmp(&memory(a)),
            Order::Hits => hits(a).total_cmp(&hits(b)),
        });
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::watch::Counts;

    /// Three servers: one that serves much and has a hot key, one that serves little, one that is silent.
    pub fn looks() -> Vec<(Member, Told)> {
        let member = |name: &str| Member {
            name: name.into(),
            cachelets: Some(16),
            epoch: Some(3),
            is_up: true,
            ..Member::default()
        };
        let stats = |requests, hits, bytes| ServerStats {
            counts: Counts {
                requests,
                gets: requests / 2,
                hits,
                replica_reads: requests / 4,
                evictions: 10,
            },
            holdings: Holdings {
                items: 5,
                memory_bytes: bytes,
                memory_limit_bytes: 1000,
                connections: 7,
            },
            hot_keys: Vec::new(),
        };
        let mut hot = stats(3_000, 1_500, 100);
        hot.hot_keys = [("warm", 10.0, 1), ("hot", 90.0, 2)]
            .map(|(key, requests_per_second, replicas)| HotKey {
                key: key.into(),
                home: String::new(),
                state: "HOT".into(),
                requests_per_second,
                replicas,
                why: None,
            })
            .into();
        vec![
            (member("s1"), Ok(stats(1_000, 250, 900))),
            (member("s2"), Ok(hot)),
            (member("s3"), Err("connection refused".into())),
        ]
    }

    #[test]
    fn rates_are_of_the_time_between_and_balance_of_those_that_answer() {
        let figures = Figures::new(2.0, &looks(), None);
        assert_eq!(figures.requests_per_second, 2_000.0);
        assert_eq!(figures.load_max_over_mean, 1.5);
        assert_eq!(figures.hit_ratio, Some(0.875));
        assert_eq!(figures.replicas, 3);
        let states: Vec<_> = figures.servers.iter().map(|server| server.state).collect();
        assert_eq!(states, ["up", "up", "silent"]);
        assert_eq!(
            figures.servers[2].cause.as_deref(),
            Some("connection refused")
        );
        assert_eq!(figures.silence(), None, "others answer");
        assert_eq!(figures.servers[0].hit_ratio, Some(0.5));
        assert_eq!(figures.servers[0].evictions_per_second, 5.0);
        assert_eq!(figures.servers[2].hit_ratio, None);
        assert_eq!(
            (&*figures.hot_keys[0].key, &*figures.hot_keys[0].home),
            ("hot", "s2")
        );
    }

    #[test]
    fn nothing_at_all_is_even() {
        let figures = Figures::new(0.0, &[], None);
        assert_eq!(
            (figures.load_max_over_mean, figures.requests_per_second),
            (1.0, 0.0)
        );
    }

    #[test]
    fn servers_are_ordered_by_what_is_wanted() {
        let order = |order: Order| {
            let mut servers = Figures::new(1.0, &looks(), None).servers;
            order.sort(&mut servers);
            servers
                .iter()
                .map(|s| s.name.clone())
                .collect::<Vec<_>>()
                .concat()
        };
        assert_eq!(order(Order::Load), "s2s1s3");
        assert_eq!(order(Order::Name), "s1s2s3");
        assert_eq!(order(Order::Memory), "s1s2s3");
        assert_eq!(order(Order::Hits), "s1s2s3");
        let mut order = Order::default();
        for _ in 0..4 {
            order = order.next();
        }
        assert_eq!(order, Order::default());
    }
}
