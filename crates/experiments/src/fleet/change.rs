//! A fleet that changes while it is used: servers that come, are emptied and go, and a coordinator that is away.

use super::{Fleet, LOOK_INTERVAL, READY_DEADLINE, SERVERS_MAX, Small, name_of, start_coordinator};
use anyhow::{Context, ensure};
use evenkeel_bench::process::{Server, allowed_cores};
use evenkeel_coordinator_core::scale::ScaleSettings;
use evenkeel_coordinator_core::{
    Cause, DrainRequest, MigrationRequest, MigrationsView, Mode, ScalesView, ServersView, limits,
};
use evenkeel_member::client::ApiClient;
use evenkeel_types::BootId;
use evenkeel_types::map::ClusterMap;
use serde_json::json;
use std::net::SocketAddr;
use std::time::Instant;

/// Cachelets that a server which is drained gives up in a second: limits on migrations alone slow it down.
const DRAIN_RATE: u32 = limits::DRAIN_RATE_MAX;

/// The name of a cluster that was given none.
const CLUSTER: &str = "evenkeel";

impl Fleet {
    /// Names of the servers that run.
    pub fn server_names(&self) -> Vec<String> {
        let names = self.servers.iter().map(|small| small.name.clone());
        names.collect()
    }

    /// Where the proxies listen.
    pub fn proxy_addresses(&self) -> Vec<SocketAddr> {
        self.proxies.iter().map(|proxy| proxy.address).collect()
    }

    /// Starts a server that was never there, and tells its name. It may take part only a while later.
    ///
    /// # Errors
    /// When there are too many, or it does not start.
    pub fn add_server(&mut self) -> anyhow::Result<String> {
        ensure!(
            self.servers.len() < SERVERS_MAX,
            "{SERVERS_MAX} servers run"
        );
        self.names_given += 1;
        let name = name_of(self.names_given);
        self.start_server(&name)?;
        Ok(name)
    }

    /// Starts a server under a name that may have been there before.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_server(&mut self, name: &str) -> anyhow::Result<()> {
        let coordinator = self
            .cluster
            .as_ref()
            .map(|cluster| cluster.address.to_string());
        let cores = allowed_cores()?;
        let small = Small::start(&self.plan, name, coordinator.as_deref(), &cores)?;
        self.servers.push(small);
        Ok(())
    }

    /// Asks a server to end, and waits until it has.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn stop_server(&mut self, name: &str) -> anyhow::Result<()> {
        drop(self.servers.remove(self.place_of(name)?));
        Ok(())
    }

    /// Kills a server, and nobody is told. It is not part of the fleet any more.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn kill_server(&mut self, name: &str) -> anyhow::Result<()> {
        self.servers.remove(self.place_of(name)?).server.kill();
        Ok(())
    }

    /// Stops a server, which keeps its connections and answers nothing, or lets it go on.
    ///
    /// # Errors
    /// When there is none of that name, or it has ended.
    pub fn pause_server(&self, name: &str, paused: bool) -> anyhow::Result<()> {
        self.servers[self.place_of(name)?].server.pause(paused)
    }

    /// Holds up what a server and the coordinator say to each other, or lets it go on: connections stay, new ones are made,
    /// and nothing comes through. Everybody else reaches the server.
    ///
    /// # Errors
    /// When there is none of that name, or the plan has no relays.
    pub fn hold_link(&self, name: &str, held: bool) -> anyhow::Result<()> {
        let relay = self.servers[self.place_of(name)?].relay.as_ref();
        relay.context("it has no relay")?.pause(held)
    }

    /// Cachelets that the coordinator has taken from servers which it took for dead, since it was started.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn given_up(&self) -> anyhow::Result<u64> {
        let Some(cluster) = &self.cluster else {
            return Ok(0);
        };
        let events = cluster.api.events()?;
        let fenced = events
            .iter()
            .filter(|event| event.cause == Cause::ServerFenced);
        Ok(fenced.map(|event| event.cachelets as u64).sum())
    }

    fn place_of(&self, name: &str) -> anyhow::Result<usize> {
        let place = self.servers.iter().position(|small| small.name == name);
        place.with_context(|| format!("no server is named {name}"))
    }

    /// The server that is home of the key which is read most of those with copies. Waits for one: a busy machine has fewer reads of it
    /// at first than make it hot.
    ///
    /// # Errors
    /// When a server does not answer, or no key has copies in time.
    pub fn hottest_home(&self) -> anyhow::Result<String> {
        let end = Instant::now() + READY_DEADLINE;
        loop {
            if let Some(name) = self.home_of_hottest()? {
                return Ok(name);
            }
            ensure!(
                Instant::now() < end,
                "no key has copies within {READY_DEADLINE:?}"
            );
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    fn home_of_hottest(&self) -> anyhow::Result<Option<String>> {
        let mut hottest: Option<(u64, &str)> = None;
        for small in &self.servers {
            let keys = small.server.stats("hotkeys")?;
            let copied = keys.iter().filter(|(_, told)| told.contains("state=HOT"));
            let rates = copied.filter_map(|(_, told)| {
                let mut words = told.split(' ');
                words.find_map(|word| word.strip_prefix("rps=")?.parse::<u64>().ok())
            });
            let most = rates.max().map(|most| (most, &*small.name));
            hottest = hottest.max(most);
        }
        Ok(hottest.map(|(_, name)| name.to_owned()))
    }

    /// Begins the drain of a server.
    ///
    /// # Errors
    /// When the coordinator refuses.
    pub fn drain(&self, name: &str) -> anyhow::Result<()> {
        self.api()?.drain(&DrainRequest {
            server: name.to_owned(),
            drain: true,
            cachelets_per_second: DRAIN_RATE,
        })?;
        Ok(())
    }

    /// Whether the drain of a server is over, as `evenkeel drain` waits for it: then it can be stopped.
    pub fn may_stop(&self, name: &str) -> bool {
        let drain = self.api().ok().and_then(|api| api.drain_of(name).ok());
        drain.flatten().is_some_and(|drain| drain.may_stop)
    }

    /// Whether this many servers take part, each has its share, all work by the newest map, and nothing moves.
    pub fn is_even(&self, servers: usize) -> bool {
        let view = self.servers_view();
        let is_even = view.is_some_and(|view| is_even(&view, servers, self.plan.workers));
        is_even
            && self
                .migrations()
                .is_ok_and(|view| view.migrations.is_empty())
    }

    /// Whether others own all that a dead server did, and know it.
    pub fn is_replaced(&self, dead: &str) -> bool {
        self.servers_view().is_some_and(|view| {
            let mut servers = view.servers.iter();
            servers.all(|server| {
                let is_settled = match server.up {
                    true => server.name != dead && server.epoch == view.epoch,
                    false => server.cachelets == 0,
                };
                is_settled && server.released == 0
            })
        })
    }

    /// Whether all servers that run work by the newest map.
    pub fn works_by_one_map(&self) -> bool {
        let api = self.api();
        api.is_ok_and(|api| api.all_work_by_the_map(self.servers.len()))
    }

    /// The present life of a server, as far as the coordinator knows.
    ///
    /// # Errors
    /// When it does not answer, or knows no server of that name.
    pub fn life(&self, name: &str) -> anyhow::Result<BootId> {
        let view = self.api()?.servers()?;
        let server = view.servers.iter().find(|server| server.name == name);
        Ok(server
            .with_context(|| format!("no server is named {name}"))?
            .boot)
    }

    /// Orders that a cachelet move to a worker, with at most this many bytes copied in a second; 0 for no limit.
    ///
    /// # Errors
    /// When the coordinator refuses.
    pub fn order_move(&self, request: &MigrationRequest) -> anyhow::Result<()> {
        self.api()?.begin_migration(request)?;
        Ok(())
    }

    /// Migrations under way, and those that are over.
    ///
    /// # Errors
    /// When the coordinator does not answer.
    pub fn migrations(&self) -> anyhow::Result<MigrationsView> {
        Ok(self.api()?.migrations()?)
    }

    /// The newest map.
    ///
    /// # Errors
    /// When the coordinator does not answer.
    pub fn map(&self) -> anyhow::Result<ClusterMap> {
        Ok(self.api()?.map()?)
    }

    /// The sum of a number of `stats evenkeel` over the servers that run.
    ///
    /// # Errors
    /// When one does not answer or knows no such number.
    pub fn count(&self, name: &str) -> anyhow::Result<u64> {
        self.sum("evenkeel", name)
    }

    /// Bytes of all items.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn bytes(&self) -> anyhow::Result<u64> {
        self.sum("", "bytes")
    }

    /// Bytes that cachelets had which passed to other servers; the coordinator remembers the last thousand.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn bytes_moved(&self) -> anyhow::Result<u64> {
        let ended = self.api()?.migrations()?.ended;
        Ok(ended.iter().map(|it| it.bytes).sum())
    }

    fn sum(&self, page: &str, name: &str) -> anyhow::Result<u64> {
        let of = |small: &Small| small.server.stats(page)?.number(name);
        self.servers.iter().map(of).sum()
    }

    /// Turns replication of hot keys on or off; servers learn it with their next heartbeats.
    ///
    /// # Errors
    /// When the coordinator does not answer.
    pub fn set_hot_keys(&self, hot_keys: Mode) -> anyhow::Result<()> {
        self.api()?
            .change_settings(&json!({"hot_keys": hot_keys}))?;
        Ok(())
    }

    /// Kills the first proxy, and starts it again at its address.
    ///
    /// # Errors
    /// When it does not start.
    pub fn restart_proxy(&mut self) -> anyhow::Result<()> {
        let mut killed = self.proxies.remove(0);
        killed.kill();
        let address = killed.address;
        // Waits until it has ended.
        drop(killed);
        let again = self.proxy_plan.start(Some(address), &allowed_cores()?)?;
        self.proxies.insert(0, again);
        Ok(())
    }

    /// Asks the coordinator to end, and waits until it has.
    ///
    /// # Errors
    /// When there is none.
    pub fn stop_coordinator(&mut self) -> anyhow::Result<()> {
        let cluster = self.cluster.as_mut().context("there is no coordinator")?;
        cluster.coordinator.take().context("it is away already")?;
        Ok(())
    }

    /// Starts it again at its address and with its state, and waits until it answers.
    ///
    /// # Errors
    /// When there was none, or it does not start.
    pub fn start_coordinator(&mut self) -> anyhow::Result<()> {
        let cluster = self.cluster.as_mut().context("there is no coordinator")?;
        let listen = cluster.address.to_string();
        let cores = allowed_cores()?;
        let again: Server = start_coordinator(&listen, &cluster.arguments, &cores)?;
        cluster.coordinator = Some(again);
        let end = Instant::now() + READY_DEADLINE;
        while cluster.api.ready().is_err() {
            ensure!(Instant::now() < end, "the coordinator does not answer");
            std::thread::sleep(LOOK_INTERVAL);
        }
        Ok(())
    }

    /// Where members find the coordinator.
    ///
    /// # Errors
    /// When there is none.
    pub fn coordinator_url(&self) -> anyhow::Result<String> {
        let cluster = self.cluster.as_ref().context("there is no coordinator")?;
        Ok(format!("http://{}", cluster.address))
    }

    /// Lets servers come and go by themselves, by the actuator of the coordinator's flags.
    ///
    /// # Errors
    /// When the coordinator does not take that.
    pub fn set_scale(&self, settings: &ScaleSettings) -> anyhow::Result<()> {
        self.api()?.set_scale(CLUSTER, settings)?;
        Ok(())
    }

    /// How that stands.
    ///
    /// # Errors
    /// When the coordinator does not tell.
    pub fn scales(&self) -> anyhow::Result<ScalesView> {
        Ok(self.api()?.scales()?)
    }

    fn api(&self) -> anyhow::Result<&ApiClient> {
        let cluster = self.cluster.as_ref().context("there is no coordinator")?;
        Ok(&cluster.api)
    }

    /// Nothing where the coordinator does not answer.
    fn servers_view(&self) -> Option<ServersView> {
        self.api().ok()?.servers().ok()
    }
}

/// Whether this many servers take part, shares of their workers differ by one cachelet at most, nobody owns too much, and
/// all work by the newest map.
fn is_even(view: &ServersView, servers: usize, workers: u16) -> bool {
    let taking_part = view
        .servers
        .iter()
        .filter(|server| server.up && !server.draining);
    let shares: Vec<usize> = taking_part.clone().map(|server| server.cachelets).collect();
    let (Some(least), Some(most)) = (shares.iter().min(), shares.iter().max()) else {
        return false;
    };
    let all_know = view
        .servers
        .iter()
        .filter(|server| server.up)
        .all(|server| server.epoch == view.epoch);
    let nothing_is_free = view.servers.iter().all(|server| server.released == 0);
    shares.len() == servers && most - least <= usize::from(workers) && all_know && nothing_is_free
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_coordinator_core::ServerView;
    use evenkeel_types::{Epoch, ServerId};

    fn server(id: u16, cachelets: usize) -> ServerView {
        ServerView {
            id: ServerId(id),
            name: name_of(usize::from(id)),
            host: "127.0.0.1".into(),
            port: 1,
            worker_ports: vec![2, 3],
            rack: None,
            boot: BootId(1),
            up: true,
            epoch: Epoch(7),
            cachelets,
            released: 0,
            draining: false,
            asks_for_moves: false,
            requests_per_second: Vec::new(),
            silent_ms: 0,
        }
    }

    fn evenness(servers: Vec<ServerView>) -> bool {
        let view = ServersView {
            epoch: Epoch(7),
            servers,
        };
        is_even(&view, 2, 2)
    }

    #[test]
    fn shares_are_even_where_all_have_theirs_and_know_it() {
        assert!(evenness(vec![server(1, 16), server(2, 14)]));
        assert!(
            !evenness(vec![server(1, 16), server(2, 13)]),
            "still filled"
        );
        assert!(!evenness(vec![server(1, 30)]), "one has yet to come");
        let late = ServerView {
            epoch: Epoch(6),
            ..server(2, 16)
        };
        assert!(!evenness(vec![server(1, 16), late]), "by an older map");
        let letting_go = ServerView {
            released: 1,
            ..server(2, 15)
        };
        assert!(
            !evenness(vec![server(1, 16), letting_go]),
            "one is nobody's"
        );
    }

    #[test]
    fn who_is_drained_or_down_takes_no_part() {
        let drained = ServerView {
            draining: true,
            asks_for_moves: false,
            ..server(3, 0)
        };
        let down = ServerView {
            up: false,
            epoch: Epoch(2),
            ..server(4, 0)
        };
        assert!(evenness(vec![server(1, 16), server(2, 16), drained, down]));
    }
}
