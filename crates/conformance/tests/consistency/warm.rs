//! A pool that is warmed from a former one, under two proxies: first applications use the former pool alone, then the new one, while items
//! are evicted from both, and servers are killed, started again empty, and stopped.

use super::application::{Application, KEYS, Shared};
use super::{APPLICATIONS_PER_PROXY, Consistency, PROXIES, SHORT_TIMEOUT, settings};
use evenkeel_conformance::exchange::seed;
use evenkeel_sim::history::{Action, Found, Operation, check_linearizable};
use evenkeel_testkit::{
    Client, Cluster, ClusterOptions, Memcached, Process, Signal, evenkeel, poll_until,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Servers of the former pool, and of one of memcacheds that is warmed.
pub const SERVERS: usize = 4;

/// How long applications work before the pool changes.
const BEFORE: Duration = Duration::from_millis(500);

/// What a test waits for has come by then, unless something hangs.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Longest time for which a server is stopped: longer than a request may take.
pub const STOPPED_MS_MAX: u64 = 1000;

/// Of a thousand commands, this many write: enough for items to be there although they are evicted all the time.
pub const WRITES_PER_MILLE: u64 = 60;

/// A key that no application asks for.
const KEPT: &str = "kept";

/// Tests of pools that are warmed, which share the time that there is.
pub const TESTS: u32 = 3;

/// Things that happen in a round: each of its six once.
const DEEDS: usize = 6;

/// What is warmed.
enum Target {
    Memcacheds(Vec<Memcached>),
    Cluster(Box<Cluster>),
}

impl Target {
    /// What its pool says of it in a file.
    fn lines(&self) -> String {
        match self {
            Target::Memcacheds(servers) => list(servers),
            Target::Cluster(cluster) => {
                format!("coordinator = \"{}\"\n", cluster.coordinator_url())
            }
        }
    }

    /// A server is killed, and starts again empty.
    fn kill(&mut self, server: usize) {
        match self {
            Target::Memcacheds(servers) => restart(&mut servers[server % SERVERS]),
            Target::Cluster(cluster) => cluster.restart_server(server % cluster.servers.len()),
        }
    }

    fn process(&mut self, server: usize) -> &mut Process {
        match self {
            Target::Memcacheds(servers) => servers[server % SERVERS].process(),
            Target::Cluster(cluster) => {
                let count = cluster.servers.len();
                &mut cluster.servers[server % count]
            }
        }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Target::Memcacheds(servers) => servers.iter().map(Memcached::address).collect(),
            Target::Cluster(cluster) => cluster.servers.iter().map(Process::address).collect(),
        }
    }
}

pub fn memcacheds(count: usize) -> Vec<Memcached> {
    (0..count).map(|_| Memcached::spawn(&["-t", "1"])).collect()
}

pub fn restart(server: &mut Memcached) {
    let port = server.address().port().to_string();
    server.process().kill();
    *server = Memcached::spawn(&["-t", "1", "-p", &port]);
}

pub fn list(servers: &[Memcached]) -> String {
    let names = servers
        .iter()
        .map(|server| format!("\"{}\"", server.address()));
    format!("servers = [{}]\n", names.collect::<Vec<_>>().join(", "))
}

/// Two proxies by such a file.
fn proxies(text: &str) -> (tempfile::TempDir, Vec<Process>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("proxy.toml");
    std::fs::write(&path, text).expect("room");
    let path = path.display().to_string();
    let start = |_| evenkeel::proxy(&["--config", &path, "-t", "2"]);
    (folder, (0..PROXIES).map(start).collect())
}

/// Lets applications work by these proxies while something is done. Gives what they were told.
pub fn work(shared: &Shared, proxies: &[SocketAddr], disturbance: impl FnOnce()) -> Vec<Operation> {
    shared.stop.store(false, Ordering::Relaxed);
    let applications = (0..PROXIES * APPLICATIONS_PER_PROXY).map(|i| {
        let proxy = proxies[i % proxies.len()];
        let application = Application::new(shared, proxy, i as u64);
        || application.run()
    });
    beside(&shared.stop, applications, disturbance).concat()
}

/// Does something while applications are at work, each in a thread of its own, and then stops these. Gives what each was told.
pub fn beside<T: Send>(
    stop: &AtomicBool,
    applications: impl Iterator<Item = impl FnOnce() -> T + Send>,
    disturbance: impl FnOnce(),
) -> Vec<T> {
    std::thread::scope(|scope| {
        let applications: Vec<_> = applications.map(|run| scope.spawn(run)).collect();
        // Also when the disturbance fails: the applications must end for the failure to be told.
        let disturbance = std::panic::catch_unwind(std::panic::AssertUnwindSafe(disturbance));
        stop.store(true, Ordering::Relaxed);
        let told = applications.into_iter().map(|application| {
            let told = application.join();
            told.expect("an application only asks and notes")
        });
        let told = told.collect();
        if let Err(panic) = disturbance {
            std::panic::resume_unwind(panic);
        }
        told
    })
}

/// Waits until applications have read this many values more.
pub fn go_on(shared: &Shared, values: u64, what: &str) {
    let before = shared.values();
    poll_until(DEADLINE, what, || {
        (shared.values() > before + values).then_some(())
    });
}

/// What proxies have counted together.
pub fn counts(proxies: &[Process]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for proxy in proxies {
        for (name, value) in Client::connect(proxy.address()).stats("proxy") {
            *sums.entry(name).or_default() += value.parse::<u64>().unwrap_or(0);
        }
    }
    sums
}

/// An item is not there any more, as if it had been evicted.
pub fn evict(servers: &[SocketAddr], random: &mut Xoshiro256PlusPlus, shared: &Shared) {
    let at = servers[random.next_u64() as usize % servers.len()];
    let key = shared.key(random.next_u64() as usize % KEYS.len());
    // A server that is stopped, or not the key's, is no matter.
    if let Ok(mut client) = Client::try_connect(at) {
        let _ = client.try_command(&format!("delete {key}"));
    }
}

/// All of them, each once, in any order.
pub fn shuffled<T, const N: usize>(mut all: [T; N], random: &mut Xoshiro256PlusPlus) -> [T; N] {
    for at in (1..N).rev() {
        all.swap(at, random.next_u64() as usize % (at + 1));
    }
    all
}

/// Rounds of chaos, each with keys of its own: one, or as many as there is time for where this many tests share it.
pub fn rounds(tests: u32, mut one_round: impl FnMut(&mut Xoshiro256PlusPlus, Shared)) {
    let seed = seed();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let said = std::env::var("CHAOS_SECONDS").ok();
    let seconds = said.map(|text| text.parse().expect("CHAOS_SECONDS is a number of seconds"));
    let end = seconds.map(|seconds: u64| Instant::now() + Duration::from_secs(seconds) / tests);
    let mut round = 0;
    loop {
        let shared = Shared::new(seed.wrapping_add(round)).in_round(round);
        one_round(&mut random, shared.writing(WRITES_PER_MILLE));
        round += 1;
        if end.is_none_or(|end| Instant::now() >= end) {
            return println!("{round} rounds, no violation");
        }
    }
}

fn one_round(target: &mut Target, random: &mut Xoshiro256PlusPlus, shared: Shared) {
    let mut former = memcacheds(SERVERS);
    let patience =
        format!("request_timeout = \"{SHORT_TIMEOUT}\"\nconnect_timeout = \"{SHORT_TIMEOUT}\"\n");
    let old = format!("[pools.old]\n{}{patience}", list(&former));
    let (_folder, first) = proxies(&old);
    let mut told = work(&shared, &addresses(&first), || {
        let begun = Instant::now();
        poll_until(DEADLINE, "the former pool to be used", || {
            (begun.elapsed() >= BEFORE && shared.values() > 100).then_some(())
        });
    });
    // Applications may overwrite all of theirs before anything is brought.
    let mut client = Client::connect(first[0].address());
    assert_eq!(client.set(KEPT, b"kept"), "STORED");
    drop(first);
    let text = format!(
        "{old}[pools.new]\n{}{patience}warm_from = \"old\"\n[[routes]]\npool = \"new\"\n",
        target.lines()
    );
    let (_folder, second) = proxies(&text);
    told.extend(work(&shared, &addresses(&second), || {
        for disturbance in 0..DEEDS {
            let before = shared.values();
            for _ in 0..10 {
                evict(&target.addresses(), random, &shared);
                let addresses: Vec<_> = former.iter().map(Memcached::address).collect();
                if disturbance % 4 == 0 {
                    evict(&addresses, random, &shared);
                }
            }
            let server = random.next_u64() as usize % SERVERS;
            let pause = Duration::from_millis(random.next_u64() % STOPPED_MS_MAX);
            match disturbance {
                1 => target.kill(server),
                3 => pause_of(target.process(server), pause),
                5 => pause_of(former[server].process(), pause),
                _ => {}
            }
            poll_until(DEADLINE, "applications to go on", || {
                (shared.values() > before + 200).then_some(())
            });
        }
    }));
    judge(told);
    let mut client = Client::connect(second[0].address());
    poll_until(DEADLINE, "an item that only the former pool had", || {
        client
            .get(KEPT)
            .map(|value| assert_eq!(value.data, b"kept"))
    });
    let counts = counts(&second);
    for count in [
        "former_hits",
        "fills_stored",
        "fills_absent",
        "former_deletes",
        "placeholders_met",
    ] {
        println!("{count} {}", counts[count]);
        assert!(counts[count] > 0, "{count}: {counts:?}");
    }
}

/// A cache may miss whenever it likes; what it may not is to show what is not the case.
pub fn judge(mut told: Vec<Operation>) {
    for operation in &mut told {
        if operation.action == Action::Read(Found::Miss) {
            operation.action = Action::Read(Found::Unknown);
        }
    }
    match check_linearizable(&told) {
        Ok(linear) => println!("{linear:?}"),
        Err(violations) => {
            let told: Vec<_> = violations.iter().map(ToString::to_string).collect();
            panic!("{}", told.join("\n"));
        }
    }
}

pub fn addresses(processes: &[Process]) -> Vec<SocketAddr> {
    processes.iter().map(Process::address).collect()
}

pub fn pause_of(process: &mut Process, pause: Duration) {
    process.signal(Signal::Stop);
    let until = Instant::now() + pause;
    poll_until(DEADLINE, "the end of a pause", || {
        (Instant::now() >= until).then_some(())
    });
    process.signal(Signal::Continue);
}

#[test]
fn chaos_of_pools_of_memcacheds_that_are_warmed() {
    let mut target = Target::Memcacheds(memcacheds(SERVERS));
    rounds(TESTS, |random, shared| {
        one_round(&mut target, random, shared)
    });
}

#[test]
fn chaos_of_pools_of_a_cluster_that_is_warmed() {
    let cluster = Cluster::start(ClusterOptions {
        servers: 3,
        threads: 1,
        proxies: 0,
        // A read of a replica is as new as one of its home.
        settings: Some(settings(Consistency::Atomic)),
        ..ClusterOptions::default()
    });
    let mut target = Target::Cluster(Box::new(cluster));
    rounds(TESTS, |random, shared| {
        one_round(&mut target, random, shared)
    });
}
