//! Cachelets that pass between the workers of a server under load: applications notice nothing but that it is
//! even.

use evenkeel_testkit::{Client, Cluster, ClusterOptions, poll_until};
use evenkeel_types::KeyHash;
use evenkeel_types::map::ClusterMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Workers of the server.
const WORKERS: usize = 4;

/// Time that a worker spends on each key, in nanoseconds: it can do 2,500 keys a second.
const SERVICE_TIME: &str = "400000";

/// Keys of each application, all at home at one worker.
const KEYS: usize = 48;

/// Applications that ask the server itself, and those that ask the proxy.
const DIRECT: usize = 6;
const THROUGH_PROXY: usize = 4;

const DEADLINE: Duration = Duration::from_secs(60);

fn cluster() -> Cluster {
    let small = ["--test-service-time", SERVICE_TIME];
    Cluster::start(ClusterOptions {
        servers: 1,
        threads: WORKERS,
        ..ClusterOptions::nobody_dies().with_server_args(&small)
    })
}

/// Keys that are at home at worker 0, in different cachelets.
fn keys_of_one_worker(cluster: &Cluster, application: usize) -> Vec<String> {
    let (_, body) = cluster.http_get("/api/v1/map").expect("the map");
    let map: ClusterMap = serde_json::from_str(&body).expect("a sound map");
    (0..)
        .map(|number| format!("a{application}:{number}"))
        .filter(|key| {
            let home = map.locate(KeyHash::of(key.as_bytes())).worker;
            home.is_some_and(|home| home.worker == 0)
        })
        .take(KEYS)
        .collect()
}

/// Counts its own keys up, in pipelines, and checks each answer, until told to stop. Nobody else writes them.
fn count_up(address: SocketAddr, keys: &[String], stop: &AtomicBool) -> u64 {
    let mut client = Client::connect(address);
    for key in keys {
        assert_eq!(client.set(key, b"0"), "STORED");
    }
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        rounds += 1;
        let number = (rounds as usize * 7) % keys.len();
        let (key, other) = (&keys[number], &keys[(number + 1) % keys.len()]);
        client.send(
            format!("incr {key} 1 noreply\r\nincr {key} 1\r\nget {key} {other}\r\n").as_bytes(),
        );
        let said = client.line();
        let value: u64 = said.parse().unwrap_or_else(|_| panic!("{key}: {said}"));
        assert_eq!(value % 2, 0, "{key}: an increment was lost or came later");
        let mut seen = Vec::new();
        loop {
            let line = client.line();
            if line == "END" {
                break;
            }
            seen.push((line, client.line()));
        }
        assert_eq!(seen.len(), 2, "{key}: {seen:?}");
        assert!(seen[0].0.starts_with(&format!("VALUE {key} ")), "{seen:?}");
        assert_eq!(seen[0].1.trim_end(), value.to_string(), "{key}");
    }
    rounds
}

fn count(cluster: &Cluster, name: &str) -> u64 {
    let stats = cluster.server_client(0).stats("evenkeel");
    stats[name].parse().expect("a number")
}

/// How many cachelets each worker hosts.
fn hosts(cluster: &Cluster) -> Vec<usize> {
    let mut client = cluster.server_client(0);
    let lines = client.stats("cachelets");
    let mut hosts = vec![0; WORKERS];
    for line in lines.values() {
        // Those of the workers themselves do not name one.
        let worker = line
            .split(' ')
            .find_map(|word| word.strip_prefix("worker="));
        if let Some(worker) = worker {
            hosts[worker.parse::<usize>().expect("a number")] += 1;
        }
    }
    hosts
}

#[test]
fn a_hot_worker_lends_cachelets_without_anybody_noticing_and_gets_them_back() {
    let cluster = cluster();
    let stop = AtomicBool::new(false);
    let before = hosts(&cluster);
    let (direct, proxy) = (cluster.servers[0].address(), cluster.proxies[0].address());
    let rounds: u64 = thread::scope(|scope| {
        let applications: Vec<_> = (0..DIRECT + THROUGH_PROXY)
            .map(|number| {
                let keys = keys_of_one_worker(&cluster, number);
                let address = if number < DIRECT { direct } else { proxy };
                let stop = &stop;
                scope.spawn(move || count_up(address, &keys, stop))
            })
            .collect();
        let moved = poll_until(DEADLINE, "cachelets to be lent", || {
            let moved = count(&cluster, "cachelets_given");
            (moved >= 4 || applications.iter().any(|thread| thread.is_finished())).then_some(moved)
        });
        println!(
            "{moved} cachelets lent: {before:?} -> {:?}",
            hosts(&cluster)
        );
        stop.store(true, Ordering::Relaxed);
        applications
            .into_iter()
            .map(|thread| thread.join().expect("an application"))
            .sum()
    });
    let given = count(&cluster, "cachelets_given");
    let (waits, short) = (
        count(&cluster, "cachelet_waits"),
        count(&cluster, "cachelet_waits_short"),
    );
    println!("{rounds} rounds; {given} moves; {short} of {waits} waits were short");
    assert!(rounds > 100 && given >= 4, "{rounds} rounds, {given} moves");
    poll_until(DEADLINE, "cachelets to go home", || {
        (hosts(&cluster) == before).then_some(())
    });
    assert!(count(&cluster, "cachelets_given") > given);
    assert_eq!(count(&cluster, "cachelets_refused"), 0);
}
