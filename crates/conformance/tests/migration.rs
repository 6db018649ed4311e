//! Cachelets that pass between server processes with their contents: nobody misses anything, and whatever is killed
//! on the way, nobody sees what is older than what was stored last.

use evenkeel_policy::placement::map::ClusterMap;
use evenkeel_roles::coordinator::{MigrationEnd, MigrationsView};
use evenkeel_testkit::{Client, Cluster, ClusterOptions, http, poll_until};
use evenkeel_types::{CacheletId, KeyHash};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(40);

/// Keys of each user, and users.
const KEYS: usize = 400;
const USERS: usize = 4;

/// Bytes of the smallest value; every tenth has 30 times as many.
const VALUE: usize = 200;

/// What users have asked and were answered.
#[derive(Default)]
struct Tally {
    requests: AtomicU64,
    misses: AtomicU64,
    failures: AtomicU64,
}

/// A user of the cache, who alone writes its keys.
struct User<'a> {
    address: SocketAddr,
    client: Client,
    number: usize,
    /// What each key may hold: what was stored last, and what may have been since.
    may_hold: Vec<BTreeSet<u64>>,
    tally: &'a Tally,
}

fn value(key: usize, version: u64) -> Vec<u8> {
    let len = if key.is_multiple_of(10) {
        30 * VALUE
    } else {
        VALUE
    };
    let mut value = format!("{version}.").into_bytes();
    value.resize(len, b'x');
    value
}

impl<'a> User<'a> {
    fn new(address: SocketAddr, number: usize, tally: &'a Tally) -> Self {
        User {
            address,
            client: Client::connect(address),
            number,
            may_hold: vec![BTreeSet::new(); KEYS],
            tally,
        }
    }

    fn key(&self, key: usize) -> String {
        format!("m:{}:{key}", self.number)
    }

    fn failed(&mut self) {
        self.tally.failures.fetch_add(1, Ordering::Relaxed);
        if self.client.closed() {
            self.client = Client::connect(self.address);
        }
    }

    fn store(&mut self, key: usize, version: u64) {
        self.tally.requests.fetch_add(1, Ordering::Relaxed);
        let name = self.key(key);
        match self.client.try_set(&name, 0, 0, &value(key, version)) {
            Ok(answer) if answer == "STORED" => self.may_hold[key] = BTreeSet::from([version]),
            _ => {
                // It may still be carried out.
                self.may_hold[key].insert(version);
                self.tally.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Reads a key and, if it is not there, stores this version of it.
    fn read(&mut self, key: usize, version: u64) {
        self.tally.requests.fetch_add(1, Ordering::Relaxed);
        let name = self.key(key);
        match self.client.try_get(&name) {
            Ok(Some(found)) => {
                let text = String::from_utf8_lossy(&found.data);
                let found_version: u64 = text
                    .split('.')
                    .next()
                    .and_then(|n| n.parse().ok())
                    .expect("ours");
                let may = &self.may_hold[key];
                assert!(
                    may.contains(&found_version),
                    "{name} is {found_version}, and should be of {may:?}"
                );
                assert_eq!(found.data, value(key, found_version), "{name}");
            }
            Ok(None) => {
                self.tally.misses.fetch_add(1, Ordering::Relaxed);
                self.store(key, version);
            }
            Err(_) => self.failed(),
        }
    }

    /// Fills the cache, says so, and uses it until told to stop.
    fn run(mut self, is_full: &AtomicU64, stop: &AtomicBool) {
        for key in 0..KEYS {
            self.store(key, 1);
        }
        is_full.fetch_add(1, Ordering::Relaxed);
        let mut step = 1;
        while !stop.load(Ordering::Relaxed) {
            step += 1;
            let key = (step as usize * 31 + self.number) % KEYS;
            match step % 4 {
                0 => self.store(key, step),
                _ => self.read(key, step),
            }
        }
        for key in 0..KEYS {
            self.read(key, step);
        }
    }
}

/// Does something while the cache is full and users go on using it. Told is whether one of them has seen what it must
/// not, so that nothing more need be waited for.
fn while_used(address: SocketAddr, tally: &Tally, act: impl FnOnce(&dyn Fn() -> bool)) {
    let (stop, is_full) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let users: Vec<_> = (0..USERS)
            .map(|number| {
                let user = User::new(address, number, tally);
                let (is_full, stop) = (&is_full, &stop);
                scope.spawn(move || user.run(is_full, stop))
            })
            .collect();
        let is_broken = || users.iter().any(|user| user.is_finished());
        poll_until(DEADLINE, "a full cache", || {
            (is_broken() || is_full.load(Ordering::Relaxed) == USERS as u64).then_some(())
        });
        act(&is_broken);
        stop.store(true, Ordering::Relaxed);
        for user in users {
            user.join().expect("a user");
        }
    });
}

/// What the coordinator says of migrations.
fn migrations(cluster: &Cluster) -> Option<MigrationsView> {
    let (_, body) = cluster.http_get("/api/v1/migrations").ok()?;
    serde_json::from_str(&body).ok()
}

fn map(cluster: &Cluster) -> ClusterMap {
    let (_, body) = cluster.http_get("/api/v1/map").expect("the map");
    serde_json::from_str(&body).expect("a sound map")
}

/// Orders a migration of the cachelet of a key to another server, the next in a round. Gives the cachelet and the
/// names of source and target.
fn order(cluster: &Cluster, key: &str, rate: u64) -> Option<(CacheletId, String, String)> {
    let map = map(cluster);
    let place = map.locate(KeyHash::of(key.as_bytes()));
    let source = map.server(place.worker?.server)?;
    let others: Vec<_> = map
        .servers_up()
        .filter(|server| server.id != source.id)
        .collect();
    let after = others.iter().find(|server| server.id > source.id);
    let target = after.or(others.first())?;
    let request = format!(
        "{{\"cachelet\":{},\"to\":{{\"server\":\"{}\",\"worker\":1}},\"bytes_per_second\":{rate}}}",
        place.cachelet, target.name
    );
    let address = cluster.coordinator.address();
    let (status, body) = http::post_json(address, "/api/v1/migrations", &request).ok()?;
    (status == 200).then_some(()).or_else(|| {
        println!("{body}");
        None
    })?;
    Some((place.cachelet, source.name.clone(), target.name.clone()))
}

/// The sum of a count over servers.
fn count(cluster: &Cluster, name: &str) -> u64 {
    let of = |server| cluster.server_client(server).stats("evenkeel")[name].parse::<u64>();
    (0..cluster.servers.len())
        .map(|server| of(server).expect("a number"))
        .sum()
}

#[test]
fn cachelets_pass_between_servers_under_load_and_nobody_misses_anything() {
    let cluster = Cluster::start(ClusterOptions::default());
    let tally = Tally::default();
    let address = cluster.proxies[0].address();
    while_used(address, &tally, |is_broken| {
        for round in 0..18 {
            let key = format!("m:{}:{}", round % USERS, round * 7);
            // Some slow, so that much is written meanwhile.
            let rate = [0, 0, 400_000][round % 3];
            let Some((cachelet, ..)) = order(&cluster, &key, rate) else {
                continue;
            };
            poll_until(DEADLINE, "a migration to be over", || {
                let under_way = migrations(&cluster)?.migrations;
                let is_over = under_way
                    .iter()
                    .all(|migration| migration.cachelet != cachelet);
                (is_broken() || is_over).then_some(())
            });
        }
    });
    let ended = migrations(&cluster).expect("the migrations").ended;
    let moved = ended
        .iter()
        .filter(|ended| ended.end == MigrationEnd::Moved)
        .count();
    let (passed, us) = (
        count(&cluster, "migrations_passed"),
        count(&cluster, "migration_pass_us"),
    );
    println!(
        "{passed} cachelets of {} items passed, {} µs each without a server; {} requests",
        count(&cluster, "migration_items_sent") / passed.max(1),
        us / passed.max(1),
        tally.requests.load(Ordering::Relaxed),
    );
    assert!(moved >= 15, "{ended:?}");
    assert_eq!(passed, moved as u64);
    assert_eq!(tally.failures.load(Ordering::Relaxed), 0, "failures");
    assert_eq!(tally.misses.load(Ordering::Relaxed), 0, "misses");
}

/// How far a migration has come when it is struck.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// It was ordered.
    Ordered,
    /// Items are sent.
    Copying,
    /// The source has decided.
    Passed,
    /// The map names the target.
    Flipped,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Source,
    Target,
    Coordinator,
}

/// Cachelets that have passed from a server to another.
fn passed(cluster: &Cluster, server: usize) -> u64 {
    let stats = cluster.server_client(server).stats("evenkeel");
    stats["migrations_passed"].parse().expect("a number")
}

/// Waits until a migration has come to a step, or is over. True if it was seen there.
fn await_step(
    cluster: &Cluster,
    step: Step,
    cachelet: CacheletId,
    source: usize,
    before: u64,
) -> bool {
    poll_until(DEADLINE, "a migration to come to its step", || {
        let view = migrations(cluster)?;
        let under_way = view.migrations.iter().find(|m| m.cachelet == cachelet);
        let is_there = match step {
            Step::Ordered => under_way.is_some(),
            Step::Copying => under_way.is_some_and(|migration| migration.items > 0),
            Step::Passed => passed(cluster, source) > before,
            Step::Flipped => under_way.is_none() && passed(cluster, source) > before,
        };
        (is_there || under_way.is_none()).then_some(is_there)
    })
}

#[test]
fn whatever_is_killed_at_whatever_step_nobody_sees_what_is_old() {
    let state = std::env::temp_dir().join(format!("evenkeel-migration-{}", std::process::id()));
    let state_arg = state.to_str().expect("a plain path").to_owned();
    let mut cluster = Cluster::start(ClusterOptions {
        coordinator_args: vec![
            "--state".into(),
            state_arg,
            "--silent-ms".into(),
            "1000".into(),
        ],
        ..ClusterOptions::default()
    });
    let tally = Tally::default();
    let address = cluster.proxies[0].address();
    let mut struck = Vec::new();
    while_used(address, &tally, |is_broken| {
        for step in [Step::Ordered, Step::Copying, Step::Passed, Step::Flipped] {
            for victim in [Victim::Source, Victim::Target, Victim::Coordinator] {
                let key = format!("m:0:{}", struck.len() * 11);
                // Slow where it is to be met on its way.
                let rate = if step == Step::Copying { 4_000 } else { 0 };
                let before: Vec<u64> = (0..3).map(|server| passed(&cluster, server)).collect();
                let (cachelet, from, to) = poll_until(DEADLINE, "a migration to begin", || {
                    order(&cluster, &key, rate)
                });
                let number = |name: &str| name[1..].parse::<usize>().expect("s1 and so on") - 1;
                let (source, target) = (number(&from), number(&to));
                let was_there = await_step(&cluster, step, cachelet, source, before[source]);
                match victim {
                    Victim::Source => cluster.restart_server(source),
                    Victim::Target => cluster.restart_server(target),
                    Victim::Coordinator => cluster.restart_coordinator(),
                }
                struck.push((step, victim, was_there));
                poll_until(DEADLINE, "a migration to be over, and all to be up", || {
                    let is_over = migrations(&cluster)?.migrations.is_empty();
                    let up = map(&cluster).servers_up_count();
                    let owned = map(&cluster)
                        .document()
                        .cachelets
                        .iter()
                        .all(Option::is_some);
                    (is_broken() || is_over && up == 3 && owned).then_some(())
                });
            }
        }
    });
    let _ = std::fs::remove_file(&state);
    println!(
        "{struck:?}; {} requests, {} misses, {} failures",
        tally.requests.load(Ordering::Relaxed),
        tally.misses.load(Ordering::Relaxed),
        tally.failures.load(Ordering::Relaxed)
    );
    let missed: Vec<_> = struck.iter().filter(|(.., was_there)| !was_there).collect();
    assert!(
        missed.len() <= 1,
        "over before they were struck: {missed:?}"
    );
    let mut client = cluster.proxy_client();
    assert_eq!(client.set("afterwards", b"well"), "STORED");
}
