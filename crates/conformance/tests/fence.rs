//! Servers that die, stop and are left alone: a dead server's keys are served by others, a stopped one tells nothing
//! old when it wakes, and without a coordinator nothing fails.

use evenkeel_conformance::migrations::{self, count_all, server};
use evenkeel_conformance::users::{assert_unnoticed, while_used};
use evenkeel_testkit::{
    Client, Cluster, ClusterOptions, Process, Signal, evenkeel, http, poll_until,
};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// What is awaited has come by then, unless something hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// Leases by votes that make a while: a new one comes before half of the last is over.
const SEVERAL_LEASES: u64 = 5;

/// Who is silent for this long is taken to be down: longer than a busy machine keeps a server from its heartbeats.
const SILENT: Duration = Duration::from_secs(6);

/// The same as a flag.
const SILENT_MS: &str = "6000";

/// Heartbeats of servers after a coordinator has come back: all have spoken several times.
const HEARTBEATS: u64 = 30;

const KEYS: usize = 200;

fn cluster(servers: usize) -> Cluster {
    Cluster::start(ClusterOptions {
        servers,
        threads: 2,
        ..ClusterOptions::default()
    })
}

/// Stores all keys with this value.
fn store_all(cluster: &Cluster, value: &[u8]) {
    (0..KEYS).for_each(|number| cluster.store(&key(number), value));
}

fn key(number: usize) -> String {
    format!("fence:{number}")
}

/// Epoch of the newest map.
fn epoch(cluster: &Cluster) -> u64 {
    let (_, body) = cluster.http_get("/api/v1/servers").expect("an answer");
    let view: Value = serde_json::from_str(&body).expect("JSON");
    view["epoch"].as_u64().expect("an epoch")
}

fn count(cluster: &Cluster, index: usize, counter: &str) -> u64 {
    migrations::count(cluster.servers[index].address(), counter)
}

#[test]
fn a_dead_servers_keys_are_written_and_read_elsewhere() {
    // Those who are late are waited for: a get that fails is a miss.
    let mut cluster = patient_cluster(3, &["--silent-ms", SILENT_MS]);
    store_all(&cluster, b"before");
    cluster.servers[1].kill();
    store_all(&cluster, b"after");
    let dead = server(&cluster, "s2");
    assert!(dead["up"] == false && dead["cachelets"] == 0, "{dead}");
    let mut client = cluster.proxy_client();
    for number in 0..KEYS {
        let value = client.get(&key(number)).expect("it was stored");
        assert_eq!(value.data, b"after");
    }
}

#[test]
fn a_server_that_stopped_and_was_given_up_tells_nothing_old_when_it_wakes() {
    let mut cluster = cluster(3);
    store_all(&cluster, b"before");
    // Clients that know nothing of the map and are connected to the server already.
    let mut direct: Vec<Client> = (0..4).map(|_| cluster.server_client(1)).collect();
    let held: Vec<String> = (0..KEYS)
        .map(key)
        // Keys of other servers are refused.
        .filter(|key| direct[0].try_get(key).is_ok_and(|found| found.is_some()))
        .collect();
    assert!(held.len() > KEYS / 6, "{}", held.len());
    let members = server(&cluster, "s2");
    let own_port = members["worker_ports"][0].as_u64().expect("a port") as u16;
    let mut aware = Client::connect(([127, 0, 0, 1], own_port).into());
    let epoch = epoch(&cluster);
    let hello = aware.command(&format!("evenkeel 1 epoch={epoch}"));
    // Servers get their ids in the order in which they come.
    let expected = format!("EVENKEEL 1 server={} ", members["id"]);
    assert!(hello.starts_with(&expected), "{hello}");

    cluster.servers[1].signal(Signal::Stop);
    poll_until(DEADLINE, "its cachelets to be given up", || {
        (server(&cluster, "s2")["cachelets"] == 0).then_some(())
    });
    store_all(&cluster, b"after");
    // These wait in its sockets when it wakes.
    for key in &held {
        for client in &mut direct {
            client.send(format!("get {key}\r\n").as_bytes());
        }
        aware.send(format!("mg {key} v Y{epoch}\r\n").as_bytes());
    }
    cluster.servers[1].signal(Signal::Continue);
    let mut told = 0;
    for client in direct.iter_mut().chain([&mut aware]) {
        for _ in &held {
            let Ok(line) = client.try_line() else { break };
            assert!(!line.starts_with("VA"), "{line}");
            told += 1;
        }
    }
    println!("{told} answers after it woke");
    poll_until(DEADLINE, "it to have taken part again", || {
        (server(&cluster, "s2")["cachelets"] != 0).then_some(())
    });
    assert!(
        count(&cluster, 1, "leases_lost") > 0,
        "its leases have ended"
    );
}

/// Waits until each server has served under several leases by votes, one after the other: none was lost meanwhile.
/// A busy machine may keep a server from hearing of others for half a second; then the count begins anew.
fn serve_by_votes(cluster: &Cluster) {
    let counts = |name| (0..cluster.servers.len()).map(move |index| count(cluster, index, name));
    let begin = || {
        (
            count_all(cluster, "leases_lost"),
            counts("leases_by_votes").collect::<Vec<_>>(),
        )
    };
    let (mut lost, mut before) = begin();
    poll_until(DEADLINE, "several leases by votes without a break", || {
        if count_all(cluster, "leases_lost") != lost {
            (lost, before) = begin();
        }
        let mut grown = counts("leases_by_votes").zip(&before);
        grown
            .all(|(now, before)| now >= before + SEVERAL_LEASES)
            .then_some(())
    });
}

/// Votes refused so far. There may be some in a cluster that has just started: a worker refuses until it has its first
/// map, and servers that wait long for the coordinator's next answer ask before that.
fn votes_refused(cluster: &Cluster) -> u64 {
    count_all(cluster, "votes_refused")
}

/// A cluster in which nothing may fail: requests have time that no busy machine needs.
fn patient_cluster(servers: usize, coordinator_args: &[&str]) -> Cluster {
    Cluster::start(ClusterOptions {
        servers,
        proxy_args: [&["--on-down", "error"], &evenkeel::LONG_TIMEOUTS[..]]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect(),
        coordinator_args: coordinator_args.iter().map(|&it| it.to_owned()).collect(),
        ..ClusterOptions::default()
    })
}

#[test]
fn while_the_coordinator_is_dead_servers_vote_for_each_other_and_nothing_fails() {
    let mut cluster = patient_cluster(4, &[]);
    let refused = votes_refused(&cluster);
    let proxy = cluster.proxies[0].address();
    let tally = while_used(proxy, Duration::ZERO, |_| {
        cluster.coordinator.kill();
        serve_by_votes(&cluster);
    });
    assert_unnoticed(&tally, &cluster.servers);
    assert_eq!(votes_refused(&cluster), refused);
}

#[test]
fn a_coordinator_that_comes_back_moves_nothing() {
    let mut cluster = patient_cluster(3, &["--silent-ms", SILENT_MS]);
    let (before, refused) = (epoch(&cluster), votes_refused(&cluster));
    let proxy = cluster.proxies[0].address();
    let tally = while_used(proxy, Duration::ZERO, |_| {
        cluster.coordinator.signal(Signal::Stop);
        let stopped = Instant::now();
        serve_by_votes(&cluster);
        poll_until(DEADLINE, "twice the silence of one who is down", || {
            (stopped.elapsed() > 2 * SILENT).then_some(())
        });
        cluster.coordinator.signal(Signal::Continue);
        let heard = || {
            let (_, text) = cluster.http_get("/metrics").ok()?;
            let name = "evenkeel_coordinator_heartbeats_total{kind=\"server\"} ";
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.parse::<u64>().ok()
        };
        let at_first = poll_until(DEADLINE, "a coordinator that goes on", heard);
        poll_until(DEADLINE, "heartbeats again", || {
            (heard()? >= at_first + HEARTBEATS).then_some(())
        });
    });
    assert_unnoticed(&tally, &cluster.servers);
    assert_eq!(votes_refused(&cluster), refused);
    assert_eq!(epoch(&cluster), before);
}

/// Its way to the coordinator is broken, and nobody else's to it.
#[test]
fn a_server_that_only_the_coordinator_does_not_hear_keeps_what_it_has() {
    const SHORT: Duration = Duration::from_secs(2);
    let silent_ms = SHORT.as_millis().to_string();
    let coordinator = evenkeel::coordinator(&["--initial-servers", "3", "--silent-ms", &silent_ms]);
    let to = coordinator.address().to_string();
    let mut relay = evenkeel::command("bench")
        .args(["relay", "--to", &to])
        .ready_prefix("evenkeel bench relay listening on ")
        .spawn();
    let url = |address: SocketAddr| format!("http://{address}");
    let direct = url(coordinator.address());
    let ways = [direct.clone(), direct.clone(), url(relay.address())];
    let start = |way: &String| evenkeel::server(&["-t", "2", "-m", "64", "--coordinator", way]);
    let servers: Vec<Process> = ways.iter().map(start).collect();
    let proxy =
        evenkeel::proxy(&[&["--coordinator", &direct], &evenkeel::LONG_TIMEOUTS[..]].concat());
    let port = u64::from(servers[2].address().port());
    let unheard = || {
        let (_, body) = http::get(coordinator.address(), "/api/v1/servers").ok()?;
        let view: Value = serde_json::from_str(&body).ok()?;
        let servers = view["servers"].as_array()?;
        let it = servers.iter().find(|server| server["port"] == port)?;
        Some((it["up"] == true, it["silent_ms"].as_u64()?))
    };
    let mut client = Client::connect(proxy.address());
    poll_until(DEADLINE, "it stays up for two silences", || {
        // A busy machine can be too slow for it; then once more.
        poll_until(DEADLINE, "all are there", || {
            let stored = (0..KEYS).all(|number| client.set(&key(number), b"v") == "STORED");
            (stored && unheard()?.0).then_some(())
        });
        relay.signal(Signal::Stop);
        let is_up = poll_until(DEADLINE, "two silences, or its end", || {
            let (is_up, silent_ms) = unheard()?;
            let is_over = silent_ms >= 2 * SHORT.as_millis() as u64;
            (is_over || !is_up).then_some(is_up)
        });
        let kept = (0..KEYS).filter(|number| client.get(&key(*number)).is_some());
        let all_kept = is_up && kept.count() == KEYS;
        relay.signal(Signal::Continue);
        all_kept.then_some(())
    });
}
