//! Servers that die, stop and are left alone: a dead server's keys are served by others, a stopped one tells nothing
//! old when it wakes, and without a coordinator nothing fails.

use evenkeel_testkit::{Client, Cluster, ClusterOptions, Signal, poll_until};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(30);

/// A dead server's keys are served again so soon after the coordinator took it to be down.
const SERVED_AGAIN: Duration = Duration::from_secs(3);

/// Several serving leases.
const SEVERAL_LEASES: Duration = Duration::from_secs(6);

const KEYS: usize = 200;

fn cluster(servers: usize) -> Cluster {
    Cluster::start(ClusterOptions {
        servers,
        threads: 2,
        ..ClusterOptions::default()
    })
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

/// What the coordinator says of a server.
fn server(cluster: &Cluster, name: &str) -> Value {
    let (_, body) = cluster.http_get("/api/v1/servers").expect("an answer");
    let view: Value = serde_json::from_str(&body).expect("JSON");
    let servers = view["servers"].as_array().expect("a list");
    let found = servers.iter().find(|server| server["name"] == name);
    found.expect("a known server").clone()
}

/// Waits until the coordinator takes a server to be down, and says when that was seen.
fn seen_down(cluster: &Cluster, name: &str) -> Instant {
    let up = |server: &Value| server["up"] == true;
    poll_until(DEADLINE, "the server to be down", || {
        (!up(&server(cluster, name))).then(Instant::now)
    })
}

fn sum(cluster: &Cluster, counter: &str) -> u64 {
    let of = |index| {
        let stats = cluster.server_client(index).stats("evenkeel");
        stats[counter].parse::<u64>().expect("a number")
    };
    (0..cluster.servers.len()).map(of).sum()
}

#[test]
fn a_dead_servers_keys_are_written_and_read_elsewhere() {
    let mut cluster = cluster(3);
    let mut client = cluster.proxy_client();
    for number in 0..KEYS {
        assert_eq!(client.set(&key(number), b"before"), "STORED");
    }
    cluster.servers[1].kill();
    let down = seen_down(&cluster, "s2");
    for number in 0..KEYS {
        poll_until(DEADLINE, "a key that can be written", || {
            // The proxy may have given up on this connection.
            let mut client = Client::try_connect(cluster.proxies[0].address()).ok()?;
            let said = client.try_set(&key(number), 0, 0, b"after").ok()?;
            (said == "STORED").then_some(())
        });
    }
    let lasted = down.elapsed();
    println!("served again after {lasted:?}");
    assert!(lasted < SERVED_AGAIN, "{lasted:?}");
    assert_eq!(server(&cluster, "s2")["cachelets"], 0);
    let mut client = cluster.proxy_client();
    for number in 0..KEYS {
        let value = client.get(&key(number)).expect("it was stored");
        assert_eq!(value.data, b"after");
    }
}

#[test]
fn a_server_that_stopped_and_was_given_up_tells_nothing_old_when_it_wakes() {
    let mut cluster = cluster(3);
    let mut client = cluster.proxy_client();
    for number in 0..KEYS {
        assert_eq!(client.set(&key(number), b"before"), "STORED");
    }
    // Clients that know nothing of the map and are connected to the server already.
    let mut direct: Vec<Client> = (0..4).map(|_| cluster.server_client(1)).collect();
    let held: Vec<String> = (0..KEYS)
        .map(key)
        .filter(|key| direct[0].get(key).is_some())
        .collect();
    assert!(held.len() > KEYS / 6, "{}", held.len());
    let members = server(&cluster, "s2");
    let own_port = members["worker_ports"][0].as_u64().expect("a port") as u16;
    let mut aware = Client::connect(([127, 0, 0, 1], own_port).into());
    let epoch = epoch(&cluster);
    let hello = aware.command(&format!("evenkeel 1 epoch={epoch}"));
    assert!(hello.starts_with("EVENKEEL 1 server=1 "), "{hello}");

    cluster.servers[1].signal(Signal::Stop);
    poll_until(DEADLINE, "its cachelets to be given up", || {
        (server(&cluster, "s2")["cachelets"] == 0).then_some(())
    });
    for number in 0..KEYS {
        poll_until(DEADLINE, "a key that can be written", || {
            let mut client = Client::try_connect(cluster.proxies[0].address()).ok()?;
            let said = client.try_set(&key(number), 0, 0, b"after").ok()?;
            (said == "STORED").then_some(())
        });
    }
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
    let lost: u64 = cluster.server_client(1).stats("evenkeel")["leases_lost"]
        .parse()
        .expect("a number");
    assert!(lost > 0, "its leases have ended");
}

/// Uses a cluster through its proxy while something happens, and gives the requests. None may fail, nor may anything be
/// gone.
fn use_meanwhile(cluster: &mut Cluster, happen: impl FnOnce(&mut Cluster)) -> u64 {
    let address = cluster.proxies[0].address();
    let (stop, requests) = (AtomicBool::new(false), AtomicU64::new(0));
    let use_it = |user: usize| {
        let mut client = Client::connect(address);
        let mut stored = vec![None; 50];
        while !stop.load(Ordering::Relaxed) {
            let number = requests.fetch_add(1, Ordering::Relaxed);
            let slot = number as usize * 7 % stored.len();
            let key = format!("fence:{user}:{slot}");
            match number % 3 {
                0 => {
                    assert_eq!(client.set(&key, number.to_string().as_bytes()), "STORED");
                    stored[slot] = Some(number.to_string().into_bytes());
                }
                _ => assert_eq!(client.get(&key).map(|value| value.data), stored[slot]),
            }
        }
    };
    thread::scope(|scope| {
        let users: Vec<_> = (0..3)
            .map(|user| scope.spawn(move || use_it(user)))
            .collect();
        happen(cluster);
        stop.store(true, Ordering::Relaxed);
        users
            .into_iter()
            .for_each(|user| user.join().expect("no request fails"));
    });
    requests.into_inner()
}

#[test]
fn while_the_coordinator_is_dead_servers_vote_for_each_other_and_nothing_fails() {
    let mut cluster = cluster(4);
    let requests = use_meanwhile(&mut cluster, |cluster| {
        cluster.coordinator.kill();
        let end = Instant::now() + SEVERAL_LEASES;
        poll_until(2 * SEVERAL_LEASES, "several leases", || {
            (Instant::now() >= end).then_some(())
        });
    });
    println!("{requests} requests");
    let (by_votes, lost) = (
        sum(&cluster, "leases_by_votes"),
        sum(&cluster, "leases_lost"),
    );
    println!("{by_votes} leases by votes");
    assert!(by_votes >= 4 * 5, "{by_votes}");
    assert_eq!(lost, 0);
    assert_eq!(sum(&cluster, "votes_refused"), 0);
}

#[test]
fn a_coordinator_that_comes_back_moves_nothing() {
    let mut cluster = cluster(3);
    let before = epoch(&cluster);
    use_meanwhile(&mut cluster, |cluster| {
        cluster.coordinator.signal(Signal::Stop);
        let end = Instant::now() + SEVERAL_LEASES;
        poll_until(2 * SEVERAL_LEASES, "several leases", || {
            (Instant::now() >= end).then_some(())
        });
        cluster.coordinator.signal(Signal::Continue);
        let end = Instant::now() + SEVERAL_LEASES;
        poll_until(2 * SEVERAL_LEASES, "several silences", || {
            (Instant::now() >= end).then_some(())
        });
    });
    assert_eq!(sum(&cluster, "leases_lost"), 0);
    assert_eq!(epoch(&cluster), before);
}
