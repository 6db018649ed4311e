//! What happens to the processes of a cluster while applications are at work.

use super::application::{KEYS, Shared};
use super::turns::Turns;
use super::{Cluster, Consistency, HOT_DEADLINE, home_of_hottest, let_pass, list, servers};
use evenkeel_conformance::migrations;
use evenkeel_sim::history::{Action, Effect, Operation};
use evenkeel_testkit::{Process, Signal, evenkeel, poll_until};
use std::time::Duration;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The home of the hottest key is killed, and started again empty on its ports.
    HomeKilled,
    HomeStopped,
    /// As for its home, with a server that holds a replica of it.
    ShadowKilled,
    ShadowStopped,
    /// A proxy is killed, with all its connections, and started again on its port.
    ProxyKilled,
    ProxyStopped,
    CoordinatorStopped,
}

impl Fault {
    pub const ALL: [Fault; 7] = [
        Fault::HomeKilled,
        Fault::HomeStopped,
        Fault::ShadowKilled,
        Fault::ShadowStopped,
        Fault::ProxyKilled,
        Fault::ProxyStopped,
        Fault::CoordinatorStopped,
    ];
}

/// Lets something happen; what is stopped goes on after `pause`, and what is killed is asked for its turns and started at once.
/// Returns when the hottest key is replicated again. Gives what was lost, to be added to the history.
pub fn inject(
    cluster: &mut Cluster,
    shared: &Shared,
    consistency: Consistency,
    fault: Fault,
    pause: Duration,
    turns: &mut Turns,
) -> Vec<Operation> {
    let mut lost = Vec::new();
    match fault {
        Fault::HomeKilled => {
            let home = home_of_hottest(cluster, shared);
            turns.ask_server(&cluster.servers[home]);
            lost = kill_server(cluster, shared, consistency, home);
        }
        Fault::ShadowKilled => {
            let shadow = shadow_of_hottest(cluster, shared);
            turns.ask_server(&cluster.servers[shadow]);
            lost = kill_server(cluster, shared, consistency, shadow);
        }
        Fault::HomeStopped => {
            let home = home_of_hottest(cluster, shared);
            stop(&mut cluster.servers[home], pause, turns);
        }
        Fault::ShadowStopped => {
            let shadow = shadow_of_hottest(cluster, shared);
            stop(&mut cluster.servers[shadow], pause, turns);
        }
        Fault::ProxyKilled => {
            turns.ask_proxy(&cluster.proxies[0]);
            cluster.restart_proxy(0);
        }
        Fault::ProxyStopped => stop(&mut cluster.proxies[0], pause, turns),
        Fault::CoordinatorStopped => stop(&mut cluster.coordinator, pause, turns),
    }
    // Homes keep away from a shadow server for a while after it was silent.
    home_of_hottest(cluster, shared);
    lost
}

pub fn shadow_of_hottest(cluster: &Cluster, shared: &Shared) -> usize {
    poll_until(HOT_DEADLINE, "a shadow server that holds the key", || {
        let home = home_of_hottest(cluster, shared);
        servers(cluster)
            .into_iter()
            .find_map(|(server, mut client)| {
                let holds = list(&mut client, "replicas")?.contains_key(shared.hottest());
                (server != home && holds).then_some(server)
            })
    })
}

fn stop(process: &mut Process, pause: Duration, turns: &mut Turns) {
    turns.stops(process);
    process.signal(Signal::Stop);
    let_pass(pause);
    process.signal(Signal::Continue);
}

/// Kills a server and starts it again. What was in its memory is gone: under leases that is as if someone had deleted
/// it; for atomic writes see [`atomic::judge`](super::atomic::judge).
fn kill_server(
    cluster: &mut Cluster,
    shared: &Shared,
    consistency: Consistency,
    server: usize,
) -> Vec<Operation> {
    let members = cluster
        .http_get("/api/v1/servers")
        .expect("the coordinator answers")
        .1;
    let keys = keys_at(cluster, shared, server);
    // Two lives of a server do not count versions together.
    shared.forget_versions(&keys);
    let before = shared.now();
    cluster.servers[server].kill();
    let after = shared.now();
    cluster.servers[server] = start_again(cluster, server, &members);
    release_quarantined(cluster, server, &members);
    if consistency == Consistency::Atomic {
        return Vec::new();
    }
    let nobody = shared.new_client();
    let loss = |key| Operation {
        client: nobody,
        key,
        invoked: before,
        completed: after,
        action: Action::Delete(Effect::Done { version: None }),
    };
    keys.into_iter().map(loss).collect()
}

/// An operator knows that servers die here of no key.
fn release_quarantined(cluster: &Cluster, server: usize, before: &str) {
    let boot_in = |members: &str| {
        let members: serde_json::Value = serde_json::from_str(members).ok()?;
        let name = format!("s{}", server + 1);
        let mut all = members["servers"].as_array()?.iter();
        all.find(|it| it["name"] == name.as_str())?["boot"].as_u64()
    };
    poll_until(HOT_DEADLINE, "the new life to be believed", || {
        let (_, members) = cluster.http_get("/api/v1/servers").ok()?;
        let is_new = boot_in(&members) != boot_in(before);
        is_new.then(|| migrations::release_quarantined(cluster.coordinator.address()))?
    });
}

/// The keys whose home is this server: the home of a key that is read tracks it.
fn keys_at(cluster: &Cluster, shared: &Shared, server: usize) -> Vec<u16> {
    let tracked = poll_until(HOT_DEADLINE, "the server to list its hot keys", || {
        list(&mut cluster.server_client(server), "hotkeys")
    });
    (0..KEYS.len())
        .filter(|&key| tracked.contains_key(shared.key(key)))
        .map(|key| key as u16)
        .collect()
}

/// Starts a server again, empty, under its name and on its ports.
pub fn start_again(cluster: &Cluster, server: usize, members: &str) -> Process {
    let name = format!("s{}", server + 1);
    let members: serde_json::Value = serde_json::from_str(members).expect("an answer in JSON");
    let all = members["servers"].as_array().expect("a list of servers");
    let me = all
        .iter()
        .find(|entry| entry["name"] == name.as_str())
        .expect("a known server");
    let (port, worker) = (me["port"].to_string(), me["worker_ports"][0].to_string());
    let url = cluster.coordinator_url();
    evenkeel::command("server")
        .args(["-l", "127.0.0.1", "-u", "root", "-t", "1"])
        .args(["-p", &port, "--worker-port", &worker])
        .args(["--coordinator", &url, "--name", &name])
        .ready_prefix("evenkeel server listening on ")
        .spawn()
}
