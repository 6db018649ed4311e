//! Pools in several racks, one of which holds each item (Snoop and Directory), under a proxy in each rack and applications that never stop, while items,
//! notes and locks are evicted, and servers, directories and proxies are killed and stopped.

use super::IMPATIENT;
use super::application::Shared;
use super::warm::{
    DEADLINE, STOPPED_MS_MAX, addresses, counts, evict, judge, pause_of, restart, rounds, shuffled,
    work,
};
use evenkeel_testkit::racks::{Architecture, Racks, RacksOptions};
use evenkeel_testkit::{Client, Memcached, poll_until};
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

struct Pool(Racks);

impl Pool {
    fn start(architecture: Architecture) -> Self {
        Pool(Racks::start(&RacksOptions {
            racks: RACKS,
            servers: SERVERS_PER_RACK,
            directories: 2,
            architecture,
            lines: format!(
                "request_timeout = \"{IMPATIENT}\"\nconnect_timeout = \"{IMPATIENT}\"\n"
            ),
            threads: 2,
            ..RacksOptions::default()
        }))
    }

    fn strike(&mut self, blow: Blow, random: &mut Xoshiro256PlusPlus, shared: &Shared) {
        let mut number = |below: usize| random.next_u64() as usize % below;
        let (server, of_directory, proxy) = (
            number(self.0.servers.len()),
            number(self.0.directory.len()),
            number(RACKS),
        );
        let pause = Duration::from_millis(number(STOPPED_MS_MAX as usize) as u64);
        match blow {
            Blow::Evicted => self.evict(random, shared),
            Blow::ServerRestarted => restart(&mut self.0.servers[server]),
            Blow::ServerStopped => pause_of(self.0.servers[server].process(), pause),
            Blow::DirectoryRestarted => restart(&mut self.0.directory[of_directory]),
            Blow::DirectoryStopped => pause_of(self.0.directory[of_directory].process(), pause),
            Blow::ProxyStopped => pause_of(&mut self.0.proxies[proxy], pause),
        }
    }

    /// Something under keys of applications is not there any more.
    fn evict(&self, random: &mut Xoshiro256PlusPlus, shared: &Shared) {
        let servers: Vec<_> = self.0.servers.iter().map(Memcached::address).collect();
        for _ in 0..EVICTED {
            evict(&servers, random, shared);
        }
        // What notes are called is nobody's business: a directory loses all of them.
        let at = random.next_u64() as usize % self.0.directory.len();
        if let Ok(mut client) = Client::try_connect(self.0.directory[at].address()) {
            let _ = client.try_command("flush_all");
        }
    }
}

fn one_round(pool: &mut Pool, random: &mut Xoshiro256PlusPlus, shared: Shared) {
    let shared = shared.writing(WRITES_PER_MILLE);
    let places = addresses(&pool.0.proxies);
    let mut struck = BTreeSet::new();
    let told = work(&shared, &places, || {
        for blow in shuffled(BLOWS, random) {
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

fn chaos(architecture: Architecture) {
    let mut pool = Pool::start(architecture);
    rounds(2, |random, shared| one_round(&mut pool, random, shared));
    let counts = counts(&pool.0.proxies);
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
    chaos(Architecture::Snoop);
}

#[test]
fn chaos_of_racks_with_a_directory() {
    chaos(Architecture::Dir);
}
