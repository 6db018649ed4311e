//! Real processes under concurrent readers and writers of hot keys: what the applications are told
//! is recorded and judged by the checkers of the simulator.
//!
//! A coordinator, four servers, two proxies and a dozen application connections that pipeline reads,
//! writes, swaps and deletes of a few keys as fast as they are answered. Meanwhile processes are killed
//! and started again, or stopped and go on (`faults.rs`): one thing in the tests of `lease.rs` and
//! `atomic.rs`, one after the other for as long as one wants in `chaos.rs`.
//!
//! Every test prints its seed; `EVENKEEL_SEED=n` repeats the choices of the applications and of what
//! happens, though not the timing of the processes.

mod application;
mod atomic;
mod changes;
mod chaos;
mod copies;
mod drains;
mod faults;
mod lease;
mod porcupine;
mod racks;
mod rings;
mod scaling;
mod settings;
mod turns;
mod warm;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use application::{Application, Shared};
use evenkeel_sim::history::{History, Operation};
use evenkeel_testkit::{Client, Cluster, ClusterOptions, Process, poll_until};

/// Servers of a cluster, one worker each.
const SERVERS: usize = 4;

const PROXIES: usize = 2;

/// Connections of applications to each proxy.
const APPLICATIONS_PER_PROXY: usize = 6;

/// How long a lease lasts: shorter than usual, so that more begin and end during a test.
const LEASE: Duration = Duration::from_millis(400);

/// What is awaited has come by then, unless something hangs.
const HOT_DEADLINE: Duration = Duration::from_secs(60);

/// Time-out of requests where servers fail: shorter than a server is stopped.
const SHORT_TIMEOUT: &str = "700ms";

/// Time-out of requests where nothing may fail: longer than any pause of a busy machine.
const LONG_TIMEOUTS: &str = "30s";

/// The least number of answers that makes a test worth something.
const VALUES_MIN: u64 = 1000;

/// Values that applications read before they end: some may not be judged.
const VALUES_ASKED: u64 = 2 * VALUES_MIN;

/// What homes promise for hot keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consistency {
    Lease,
    Atomic,
}

impl Consistency {
    fn name(self) -> &'static str {
        match self {
            Consistency::Lease => "lease",
            Consistency::Atomic => "atomic",
        }
    }
}

/// The settings of the cluster. Hot early, so that most of a test is about replicas.
fn settings(consistency: Consistency) -> String {
    format!(
        r#"{{"hot_keys_consistency": "{}", "lease_ms": {}, "hot_sampling": 100, "hot_trigger_rps": 50}}"#,
        consistency.name(),
        LEASE.as_millis()
    )
}

fn cluster(consistency: Consistency, timeout: &str) -> Cluster {
    Cluster::start(options(consistency, timeout))
}

fn options(consistency: Consistency, timeout: &str) -> ClusterOptions {
    let mut proxy_args = vec!["--request-timeout", timeout, "--connect-timeout", timeout];
    if consistency == Consistency::Atomic {
        // A miss that says nothing cannot be judged.
        proxy_args.extend(["--on-down", "error"]);
    }
    ClusterOptions {
        servers: SERVERS,
        threads: 1,
        proxies: PROXIES,
        settings: Some(settings(consistency)),
        proxy_args: proxy_args.into_iter().map(str::to_owned).collect(),
        ..ClusterOptions::default()
    }
}

/// What a test does to the cluster while applications are at work. It gives what must be added to
/// what they recorded.
type Disturbance<'a> = &'a mut dyn FnMut(&mut Cluster, &Shared) -> Vec<Operation>;

/// Runs applications before, while and for some time after something is done to the cluster, until they have read enough,
/// of replicas too. Gives all that was recorded, with what the disturbance adds to it.
fn record(
    cluster: &mut Cluster,
    shared: &Shared,
    aftermath: Duration,
    disturbance: Disturbance<'_>,
) -> History {
    let proxies: Vec<_> = cluster.proxies.iter().map(Process::address).collect();
    let operations = std::thread::scope(|scope| {
        let applications: Vec<_> = (0..PROXIES * APPLICATIONS_PER_PROXY)
            .map(|i| {
                let application = Application::new(shared, proxies[i % PROXIES], i as u64);
                scope.spawn(|| application.run())
            })
            .collect();
        // Also when the disturbance fails: the applications must end for the failure to be told.
        let disturbance = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            home_of_hottest(cluster, shared);
            let more = disturbance(cluster, shared);
            let_pass(aftermath);
            poll_until(HOT_DEADLINE, "enough that can be judged", || {
                (shared.values() > VALUES_ASKED && replicas_were_read(cluster)).then_some(())
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
        match disturbance {
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

/// Lets the applications work for this long.
fn let_pass(time: Duration) {
    let end = Instant::now() + time;
    poll_until(2 * time + HOT_DEADLINE, "time to pass", || {
        (Instant::now() >= end).then_some(())
    });
}

/// The servers that answer, with a connection to each.
fn servers(cluster: &Cluster) -> Vec<(usize, Client)> {
    let connect = |i: usize| Some((i, Client::try_connect(cluster.servers[i].address()).ok()?));
    (0..cluster.servers.len()).filter_map(connect).collect()
}

/// The lines of `stats hotkeys` or `stats replicas` of a server, by key. None when the server closes the connection:
/// it does where an answer may come after the end of its serving lease, for instance while the coordinator is stopped.
fn list(client: &mut Client, which: &str) -> Option<BTreeMap<String, String>> {
    client.try_stats(which).ok()
}

/// Waits until the hottest key is replicated. Gives the server that is its home.
fn home_of_hottest(cluster: &Cluster, shared: &Shared) -> usize {
    poll_until(HOT_DEADLINE, "the hottest key to be replicated", || {
        servers(cluster)
            .into_iter()
            .find_map(|(server, mut client)| {
                let hot = list(&mut client, "hotkeys")?.remove(shared.hottest())?;
                hot.starts_with("state=HOT").then_some(server)
            })
    })
}

/// Adds up a count of `stats evenkeel` over all servers that answer.
fn sum(cluster: &Cluster, name: &str) -> u64 {
    let count = |(_, mut client): (usize, Client)| {
        let stats = list(&mut client, "evenkeel")?;
        let value = stats
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {stats:?}"));
        Some(value.parse::<u64>().expect("a count is a number"))
    };
    servers(cluster).into_iter().filter_map(count).sum()
}

/// Whether hot keys were written and their replicas read, in the present lives of the servers.
fn replicas_were_read(cluster: &Cluster) -> bool {
    let counts = [
        "leases_granted",
        "propagations",
        "replica_stores",
        "replica_hits",
    ]
    .map(|name| (name, sum(cluster, name)));
    counts.iter().all(|(_, count)| *count > 0)
}
