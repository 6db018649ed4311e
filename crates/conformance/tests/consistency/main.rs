//! Real processes under concurrent readers and writers of hot keys: what the applications are told
//! is recorded and judged by the checker of the simulator.
//!
//! A coordinator, four servers, two proxies and a dozen application connections that pipeline reads,
//! writes, swaps and deletes of a few keys as fast as they are answered. In one test nothing goes
//! wrong; in the others the home of the hottest key is killed and comes back, one of its shadow
//! servers is stopped and goes on, or the coordinator is killed.
//!
//! Every test prints its seed; `EVENKEEL_TEST_SEED=n` repeats the choices of the applications,
//! though not the timing of the processes.

mod application;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use application::{Application, KEYS, Shared};
use evenkeel_sim::history::{Action, Checked, Effect, Found, History, Operation, Promises, check};
use evenkeel_testkit::{Client, Cluster, ClusterOptions, Process, Signal, evenkeel, poll_until};

/// Servers of a cluster, one worker each.
const SERVERS: usize = 4;

const PROXIES: usize = 2;

/// Connections of applications to each proxy.
const APPLICATIONS_PER_PROXY: usize = 6;

/// How long a lease lasts: shorter than usual, so that more begin and end during a test.
const LEASE: Duration = Duration::from_millis(400);

/// What is added to the bound of staleness for a kill to be noticed by the one who sent it.
const MARGIN: Duration = Duration::from_millis(20);

/// How long applications go on after what a test does has been done: several leases, and longer
/// than the coordinator takes to notice a silent server.
const AFTERMATH: Duration = Duration::from_secs(3);

/// How long a hot key may take to be replicated.
const HOT_DEADLINE: Duration = Duration::from_secs(20);

/// A server that is stopped stays so for longer than a lease and than the time-out of a request.
const STOPPED: Duration = Duration::from_millis(1500);

/// Time-out of requests where servers fail: shorter than [`STOPPED`].
const IMPATIENT: &str = "700ms";

/// Time-out of requests where nothing may fail: longer than any pause of a busy machine.
const PATIENT: &str = "3s";

/// The least number of answers that makes a test worth something.
const VALUES_MIN: u64 = 1000;

fn seed() -> u64 {
    let seed = match std::env::var("EVENKEEL_TEST_SEED") {
        Ok(seed) => seed.parse().expect("EVENKEEL_TEST_SEED is a number"),
        Err(_) => u64::from(std::process::id()),
    };
    println!("seed {seed}");
    seed
}

/// One test at a time, so that each has the machine to itself.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cluster(request_timeout: &str) -> Cluster {
    let lease = LEASE.as_millis().to_string();
    // Hot early, so that most of a test is about replicas.
    let server_args = [
        "--lease-ms",
        &lease,
        "--hot-sampling",
        "100",
        "--hot-trigger-rps",
        "50",
    ];
    let proxy_args = ["--request-timeout", request_timeout];
    Cluster::start(ClusterOptions {
        servers: SERVERS,
        threads: 1,
        proxies: PROXIES,
        server_args: server_args.map(str::to_owned).to_vec(),
        proxy_args: proxy_args.map(str::to_owned).to_vec(),
        ..ClusterOptions::default()
    })
}

/// What a test does to the cluster while applications are at work.
type Deed<'a> = &'a mut dyn FnMut(&mut Cluster, &Shared) -> Vec<Operation>;

/// Runs applications before, while and after something is done to the cluster. Gives all that was
/// recorded, with what the deed adds to it.
fn record(cluster: &mut Cluster, deed: Deed<'_>) -> History {
    let seed = seed();
    let shared = Shared::new();
    let proxies: Vec<_> = cluster.proxies.iter().map(Process::address).collect();
    let operations = std::thread::scope(|scope| {
        let shared = &shared;
        let applications: Vec<_> = (0..PROXIES * APPLICATIONS_PER_PROXY)
            .map(|i| {
                let (proxy, seed) = (proxies[i % PROXIES], seed.wrapping_add(i as u64));
                scope.spawn(move || Application::new(shared, proxy, seed).run())
            })
            .collect();
        // Also when the deed fails: the applications must end for the failure to be told.
        let deed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            home_of_hottest(cluster);
            let more = deed(cluster, shared);
            let end = Instant::now() + AFTERMATH;
            poll_until(2 * AFTERMATH, "the time after the deed to pass", || {
                (Instant::now() >= end).then_some(())
            });
            more
        }));
        shared.stop.store(true, Ordering::Relaxed);
        let mut operations = Vec::new();
        for application in applications {
            operations.extend(
                application
                    .join()
                    .expect("an application only asks and notes"),
            );
        }
        match deed {
            Ok(more) => operations.extend(more),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        operations
    });
    History {
        operations,
        log: None,
        lapses: Vec::new(),
    }
}

fn judge(history: &History) -> Checked {
    let staleness = (LEASE + MARGIN).as_nanos() as u64;
    let promises = Promises {
        staleness,
        misses_are_true: false,
    };
    match check(history, &promises) {
        Ok(checked) => {
            println!("{checked:?}");
            assert!(checked.values > VALUES_MIN, "{checked:?}");
            assert!(checked.writes > 0, "{checked:?}");
            checked
        }
        Err(violations) => {
            let told: Vec<_> = violations
                .iter()
                .take(20)
                .map(ToString::to_string)
                .collect();
            panic!("{} violations:\n{}", violations.len(), told.join("\n"));
        }
    }
}

/// The servers that answer, with a connection to each.
fn servers(cluster: &Cluster) -> Vec<(usize, Client)> {
    let connect = |i: usize| Some((i, Client::try_connect(cluster.servers[i].address()).ok()?));
    (0..cluster.servers.len()).filter_map(connect).collect()
}

/// The lines of `stats hotkeys` or `stats replicas` of a server, by key.
fn list(client: &mut Client, which: &str) -> BTreeMap<String, String> {
    client.stats(which)
}

/// Waits until the hottest key is replicated. Gives the server that is its home.
fn home_of_hottest(cluster: &Cluster) -> usize {
    poll_until(HOT_DEADLINE, "the hottest key to be replicated", || {
        servers(cluster)
            .into_iter()
            .find_map(|(server, mut client)| {
                let hot = list(&mut client, "hotkeys").remove(KEYS[0])?;
                hot.starts_with("state=HOT").then_some(server)
            })
    })
}

/// Adds up a count of `stats evenkeel` over all servers that answer.
fn sum(cluster: &Cluster, name: &str) -> u64 {
    let count = |(_, mut client): (usize, Client)| {
        let stats = client.stats("evenkeel");
        let value = stats
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {stats:?}"));
        value.parse::<u64>().expect("a count is a number")
    };
    servers(cluster).into_iter().map(count).sum()
}

fn assert_replicas_were_read(cluster: &Cluster) {
    let counts = [
        "leases_granted",
        "propagations",
        "replica_stores",
        "replica_hits",
    ]
    .map(|name| (name, sum(cluster, name)));
    println!("{counts:?}");
    assert!(counts.iter().all(|(_, count)| *count > 0), "{counts:?}");
}

#[test]
fn readers_and_writers_of_hot_keys_in_peace() {
    let _alone = alone();
    let mut cluster = cluster(PATIENT);
    let history = record(&mut cluster, &mut |_, _| Vec::new());
    assert_replicas_were_read(&cluster);
    let checked = judge(&history);
    assert_eq!(checked.unknown, 0, "nothing was in the way");
}

#[test]
fn the_home_of_the_hottest_key_is_killed_and_comes_back() {
    let _alone = alone();
    let mut cluster = cluster(IMPATIENT);
    let mut elsewhere = Vec::new();
    let mut history = record(&mut cluster, &mut |cluster, shared| {
        let home = home_of_hottest(cluster);
        let members = cluster
            .http_get("/api/v1/servers")
            .expect("the coordinator answers")
            .1;
        let lost = keys_at(cluster, |server| server == home);
        elsewhere = keys_at(cluster, |server| server != home);
        let before = shared.now();
        cluster.servers[home].kill();
        let after = shared.now();
        cluster.servers[home] = start_again(cluster, home, &members);
        // It serves again, and its keys become hot again.
        assert_eq!(home_of_hottest(cluster), home);
        // What was in the home's memory is gone: as if someone had deleted it.
        let nobody = shared.new_client();
        let loss = |key| Operation {
            client: nobody,
            key,
            invoked: before,
            completed: after,
            action: Action::Delete(Effect::Done { version: None }),
        };
        lost.into_iter().map(loss).collect()
    });
    // Two lives of a server do not count versions together.
    history
        .operations
        .iter_mut()
        .filter(|operation| !elsewhere.contains(&operation.key))
        .for_each(forget_version);
    assert_replicas_were_read(&cluster);
    judge(&history);
}

/// The keys whose home is one of some servers: the home of a key that is read tracks it.
fn keys_at(cluster: &Cluster, is_chosen: impl Fn(usize) -> bool) -> Vec<u16> {
    let mut found = Vec::new();
    for (_, mut client) in servers(cluster)
        .into_iter()
        .filter(|(server, _)| is_chosen(*server))
    {
        let tracked = list(&mut client, "hotkeys");
        let here = KEYS
            .iter()
            .enumerate()
            .filter(|(_, key)| tracked.contains_key(**key));
        found.extend(here.map(|(key, _)| key as u16));
    }
    found
}

/// Starts a server again, empty, under its name and on its ports.
fn start_again(cluster: &Cluster, server: usize, members: &str) -> Process {
    let name = format!("s{}", server + 1);
    let members: serde_json::Value = serde_json::from_str(members).expect("an answer in JSON");
    let all = members["servers"].as_array().expect("a list of servers");
    let me = all
        .iter()
        .find(|entry| entry["name"] == name.as_str())
        .expect("a known server");
    let (port, worker) = (me["port"].to_string(), me["worker_ports"][0].to_string());
    let (lease, url) = (LEASE.as_millis().to_string(), cluster.coordinator_url());
    evenkeel::command("server")
        .args([
            "-l",
            "127.0.0.1",
            "-u",
            "root",
            "-t",
            "1",
            "-p",
            &port,
            "--worker-port",
            &worker,
        ])
        .args(["--coordinator", &url, "--name", &name, "--lease-ms", &lease])
        .args(["--hot-sampling", "100", "--hot-trigger-rps", "50"])
        .ready_prefix("evenkeel server listening on ")
        .spawn()
}

fn forget_version(operation: &mut Operation) {
    match &mut operation.action {
        Action::Read(Found::Value { version, .. })
        | Action::Write {
            effect: Effect::Done { version },
            ..
        }
        | Action::Delete(Effect::Done { version }) => *version = None,
        _ => {}
    }
}

#[test]
fn a_shadow_server_of_the_hottest_key_stops_and_goes_on() {
    let _alone = alone();
    let mut cluster = cluster(IMPATIENT);
    let history = record(&mut cluster, &mut |cluster, _| {
        let home = home_of_hottest(cluster);
        let shadow = poll_until(HOT_DEADLINE, "a shadow server that holds the key", || {
            servers(cluster)
                .into_iter()
                .find_map(|(server, mut client)| {
                    let holds = list(&mut client, "replicas").contains_key(KEYS[0]);
                    (server != home && holds).then_some(server)
                })
        });
        cluster.servers[shadow].signal(Signal::Stop);
        let end = Instant::now() + STOPPED;
        poll_until(2 * STOPPED, "the time of the stop to pass", || {
            (Instant::now() >= end).then_some(())
        });
        cluster.servers[shadow].signal(Signal::Continue);
        // Homes keep away from a shadow server for a while after it was silent.
        home_of_hottest(cluster);
        Vec::new()
    });
    assert_replicas_were_read(&cluster);
    let checked = judge(&history);
    // It is home of other keys, to which nobody could write.
    assert!(checked.unknown > 0, "{checked:?}");
}

#[test]
fn without_a_coordinator_serving_goes_on() {
    let _alone = alone();
    let mut cluster = cluster(PATIENT);
    let history = record(&mut cluster, &mut |cluster, _| {
        cluster.coordinator.kill();
        Vec::new()
    });
    assert_replicas_were_read(&cluster);
    let checked = judge(&history);
    assert_eq!(
        checked.unknown, 0,
        "nobody needs the coordinator to be served"
    );
}
