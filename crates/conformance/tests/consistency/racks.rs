//! Pools in several racks, one of which holds each item (Snoop and Directory), under a proxy in each rack and applications that never stop, while items,
//! notes and locks are evicted, and servers, directories and proxies are killed and stopped.

use super::IMPATIENT;
use super::application::Shared;
use super::warm::{
    DEADLINE, STOPPED_MS_MAX, addresses, counts, judge, pause_of, restart, rounds, work,
};
use evenkeel_testkit::{Client, Memcached, Process, evenkeel, poll_until};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use std::collections::BTreeSet;
use std::time::Duration;

/// A proxy stands in each.
const RACKS: usize = 4;

const SERVERS_PER_RACK: usize = 2;

/// Of a thousand commands, so many write: keys move between racks all the time.
const WRITES_PER_MILLE: u64 = 150;

/// Values that applications read between two things that happen to the pool.
const VALUES: u64 = 400;

/// Items and marks that are evicted at a time.
const EVICTED: usize = 12;

/// What happens in a round: each once, in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Blow {
    Evicted,
    ServerRestarted,
    ServerStopped,
    DirectoryRestarted,
    DirectoryStopped,
    /// Longer than a request may take: what it was about to do, it does late.
    ProxyStopped,
}

const BLOWS: [Blow; 6] = [
    Blow::Evicted,
    Blow::ServerRestarted,
    Blow::ServerStopped,
    Blow::DirectoryRestarted,
    Blow::DirectoryStopped,
    Blow::ProxyStopped,
];

struct Pool {
    servers: Vec<Memcached>,
    /// Their keys' notes, where the pool has a directory.
    directory: Vec<Memcached>,
    _folder: tempfile::TempDir,
    proxies: Vec<Process>,
}

fn memcacheds(count: usize) -> Vec<Memcached> {
    (0..count).map(|_| Memcached::spawn(&["-t", "1"])).collect()
}

fn named(servers: &[Memcached], rack: impl Fn(usize) -> String) -> String {
    let servers = servers.iter().enumerate().map(|(at, server)| {
        let (address, rack) = (server.address(), rack(at));
        format!("{{ address = \"{address}\", rack = \"{rack}\" }}")
    });
    format!("servers = [{}]\n", servers.collect::<Vec<_>>().join(", "))
}

impl Pool {
    fn start(architecture: &str) -> Self {
        let servers = memcacheds(RACKS * SERVERS_PER_RACK);
        let directory = memcacheds(2);
        let racks = (0..RACKS).map(|rack| format!("[topology.racks.r{rack}]\n"));
        let timeouts =
            format!("request_timeout = \"{IMPATIENT}\"\nconnect_timeout = \"{IMPATIENT}\"\n");
        let text = format!(
            "{}[topology.racks.core]\ncentral = true\n[proxy]\nthreads = 2\n[pools.main]\n{}{timeouts}{architecture}\
             [pools.notes]\n{}{timeouts}[[routes]]\npool = \"main\"\n",
            racks.collect::<String>(),
            named(&servers, |at| format!("r{}", at / SERVERS_PER_RACK)),
            named(&directory, |_| "core".to_owned()),
        );
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("proxy.toml");
        std::fs::write(&path, text).expect("room");
        let path = path.display().to_string();
        let proxies = (0..RACKS)
            .map(|rack| evenkeel::proxy(&["--config", &path, "--rack", &format!("r{rack}")]));
        Pool {
            proxies: proxies.collect(),
            servers,
            directory,
            _folder: folder,
        }
    }

    fn strike(&mut self, blow: Blow, random: &mut Xoshiro256PlusPlus, shared: &Shared) {
        let mut number = |below: usize| random.next_u64() as usize % below;
        let (server, of_directory, proxy) = (
            number(self.servers.len()),
            number(self.directory.len()),
            number(RACKS),
        );
        let pause = Duration::from_millis(number(STOPPED_MS_MAX as usize) as u64);
        match blow {
            Blow::Evicted => self.evict(random, shared),
            Blow::ServerRestarted => restart(&mut self.servers[server]),
            Blow::ServerStopped => pause_of(self.servers[server].process(), pause),
            Blow::DirectoryRestarted => restart(&mut self.directory[of_directory]),
            Blow::DirectoryStopped => pause_of(self.directory[of_directory].process(), pause),
            Blow::ProxyStopped => pause_of(&mut self.proxies[proxy], pause),
        }
    }

    /// Something under keys of applications is not there any more.
    fn evict(&self, random: &mut Xoshiro256PlusPlus, shared: &Shared) {
        for _ in 0..EVICTED {
            let mut number = |below: usize| random.next_u64() as usize % below;
            let server = &self.servers[number(self.servers.len())];
            let key = shared.key(number(super::application::KEYS.len()));
            // One that is stopped, or not the key's, is no matter.
            if let Ok(mut client) = Client::try_connect(server.address()) {
                let _ = client.try_command(&format!("delete {key}"));
            }
        }
        // What notes are called is nobody's business: a directory loses all of them.
        let at = random.next_u64() as usize % self.directory.len();
        if let Ok(mut client) = Client::try_connect(self.directory[at].address()) {
            let _ = client.try_command("flush_all");
        }
    }
}

/// All blows, each once.
fn shuffled(random: &mut Xoshiro256PlusPlus) -> [Blow; BLOWS.len()] {
    let mut blows = BLOWS;
    for at in (1..blows.len()).rev() {
        blows.swap(at, random.next_u64() as usize % (at + 1));
    }
    blows
}

fn one_round(pool: &mut Pool, random: &mut Xoshiro256PlusPlus, shared: Shared) {
    let shared = shared.writing(WRITES_PER_MILLE);
    let places = addresses(&pool.proxies);
    let mut struck = BTreeSet::new();
    let told = work(&shared, &places, || {
        for blow in shuffled(random) {
            pool.strike(blow, random, &shared);
            struck.insert(blow);
            let before = shared.values();
            poll_until(DEADLINE, "applications to go on", || {
                (shared.values() > before + VALUES).then_some(())
            });
        }
    });
    judge(told);
    assert_eq!(struck.len(), BLOWS.len(), "each has happened");
}

fn chaos(architecture: &str) {
    let mut pool = Pool::start(architecture);
    rounds(2, |random, shared| one_round(&mut pool, random, shared));
    let counts = counts(&pool.proxies);
    for count in [
        "crossings",
        "crossing_hits",
        "crossing_notes_stored",
        "crossing_notes_dangling",
        "crossing_locks_met",
        "crossings_busy",
    ] {
        println!("{count} {}", counts[count]);
    }
    let some = [
        "crossing_hits",
        "crossing_notes_stored",
        "crossing_locks_met",
    ];
    assert!(some.iter().all(|of| counts[*of] > 0), "{counts:?}");
}

#[test]
fn chaos_of_racks_with_notes() {
    chaos("architecture = \"snoop\"\n");
}

#[test]
fn chaos_of_racks_with_a_directory() {
    chaos("architecture = \"dir\"\ndirectory = \"notes\"\n");
}
