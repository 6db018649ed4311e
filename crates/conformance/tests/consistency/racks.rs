//! Pools in several racks, one of which holds each item (Snoop and Directory), under a proxy in each rack and applications that never stop, while items,
//! notes and locks are evicted, and servers, directories and proxies are killed and stopped; and while the pool goes from one architecture to
//! another at the same servers.

use super::SHORT_TIMEOUT;
use super::application::{KEYS, Shared};
use super::changes::{Fleet, GIVEN_UP, THINKING, wait};
use super::warm::{
    STOPPED_MS_MAX, addresses, counts, evict, go_on, judge, memcacheds, pause_of, restart, rounds,
    shuffled, work,
};
use evenkeel_sim::history::{History, Kind, Operation, Promises, Violation, check};
use evenkeel_testkit::racks::{Architecture, Racks, RacksOptions, listed};
use evenkeel_testkit::{Client, Memcached, Signal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use std::collections::BTreeSet;
use std::time::Duration;

/// Tests of this file, which share the time that there is.
const TESTS: u32 = 5;

/// A proxy stands in each.
const RACKS: usize = 4;

const SERVERS_PER_RACK: usize = 2;

/// Of a thousand commands, this many write: keys move between racks all the time.
const WRITES_PER_MILLE: u64 = 150;

/// The same where copies are kept, which may be so old.
const WRITES_BESIDE_COPIES_PER_MILLE: u64 = 30;
const COPIES_TTL: Duration = Duration::from_millis(200);

/// Values that applications read between two things that happen to the pool.
const VALUES: u64 = 400;

/// Items and marks that are evicted at a time.
const EVICTED: usize = 12;

/// What happens in a round: each once, in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Evicted,
    ServerRestarted,
    ServerStopped,
    DirectoryRestarted,
    DirectoryStopped,
    /// Longer than a request may take: what it was about to do, it does late.
    ProxyStopped,
}

/// From one architecture to another.
const SWITCHES: [(Architecture, Architecture); 6] = [
    (Architecture::Sds, Architecture::Snoop),
    (Architecture::Snoop, Architecture::Dir),
    (Architecture::Dir, Architecture::Sds),
    (Architecture::Sds, Architecture::Dir),
    (Architecture::Dir, Architecture::Snoop),
    (Architecture::Snoop, Architecture::Sds),
];

const FAULTS: [Fault; 6] = [
    Fault::Evicted,
    Fault::ServerRestarted,
    Fault::ServerStopped,
    Fault::DirectoryRestarted,
    Fault::DirectoryStopped,
    Fault::ProxyStopped,
];

struct Pool(Racks);

impl Pool {
    fn start(architecture: Architecture, local_copies: Option<&'static str>) -> Self {
        Pool(Racks::start(&RacksOptions {
            local_copies,
            racks: RACKS,
            servers: SERVERS_PER_RACK,
            directories: 2,
            architecture,
            lines: format!(
                "request_timeout = \"{SHORT_TIMEOUT}\"\nconnect_timeout = \"{SHORT_TIMEOUT}\"\n"
            ),
            threads: 2,
            ..RacksOptions::default()
        }))
    }

    fn inject(&mut self, fault: Fault, random: &mut Xoshiro256PlusPlus, shared: &Shared) {
        let mut number = |below: usize| random.next_u64() as usize % below;
        let (server, of_directory, proxy) = (
            number(self.0.servers.len()),
            number(self.0.directory.len()),
            number(RACKS),
        );
        let pause = Duration::from_millis(number(STOPPED_MS_MAX as usize) as u64);
        match fault {
            Fault::Evicted => self.evict(random, shared),
            Fault::ServerRestarted => restart(&mut self.0.servers[server]),
            Fault::ServerStopped => pause_of(self.0.servers[server].process(), pause),
            Fault::DirectoryRestarted => restart(&mut self.0.directory[of_directory]),
            Fault::DirectoryStopped => pause_of(self.0.directory[of_directory].process(), pause),
            Fault::ProxyStopped => pause_of(&mut self.0.proxies[proxy], pause),
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

fn one_round(pool: &mut Pool, random: &mut Xoshiro256PlusPlus, shared: &Shared) -> Vec<Operation> {
    let places = addresses(&pool.0.proxies);
    let mut injected = BTreeSet::new();
    let told = work(shared, &places, || {
        for fault in shuffled(FAULTS, random) {
            pool.inject(fault, random, shared);
            injected.insert(fault);
            go_on(shared, VALUES, "applications to go on");
        }
    });
    assert_eq!(injected.len(), FAULTS.len(), "each has happened");
    told
}

fn chaos(architecture: Architecture) {
    let mut pool = Pool::start(architecture, None);
    rounds(TESTS, |random, shared| {
        let shared = shared.writing(WRITES_PER_MILLE);
        judge(one_round(&mut pool, random, &shared));
    });
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

/// Copies may be old, and nothing else than that: no value is read that was replaced longer ago, and what a connection has written it reads. It may
/// read something newer before that.
fn judge_copies(told: Vec<Operation>, shared: &Shared) {
    let history = History {
        operations: told,
        ..History::default()
    };
    let keys: Vec<u16> = (0..).take(KEYS.len()).collect();
    shared.forget_versions(&keys);
    let promises = Promises {
        staleness: COPIES_TTL.as_nanos() as u64,
        misses_are_true: false,
    };
    let found = check(&shared.comparable(history), &promises);
    let is_broken = |it: &&Violation| it.kind != Kind::MonotonicReads;
    let found = found.map_err(|all| {
        all.iter()
            .filter(is_broken)
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    });
    match found {
        Err(broken) if !broken.is_empty() => {
            panic!("{} violations:\n{}", broken.len(), broken.join("\n"))
        }
        told => println!("{told:?}"),
    }
}

fn chaos_with_copies(architecture: Architecture) {
    let mut pool = Pool::start(architecture, Some("200ms"));
    rounds(TESTS, |random, shared| {
        // Read more than they are written, so that there are copies.
        let shared = (shared.writing(WRITES_BESIDE_COPIES_PER_MILLE)).reading_plainly();
        let told = one_round(&mut pool, random, &shared);
        judge_copies(told, &shared);
    });
    let counts = counts(&pool.0.proxies);
    for count in ["local_copies_shown", "local_copies_stored"] {
        println!("{count} {}", counts[count]);
        assert!(counts[count] > 0, "{counts:?}");
    }
}

#[test]
fn chaos_of_racks_with_notes_and_copies() {
    chaos_with_copies(Architecture::Snoop);
}

#[test]
fn chaos_of_racks_with_a_directory_and_copies() {
    chaos_with_copies(Architecture::Dir);
}

/// The file of proxies whose pool `new` follows the pool `old` at the same servers. Racks are called by numbers.
fn switching(
    (from, to): (Architecture, Architecture),
    (servers, directory): (&[Memcached], &[Memcached]),
    coordinator: &str,
) -> String {
    let patience =
        format!("request_timeout = \"{SHORT_TIMEOUT}\"\nconnect_timeout = \"{SHORT_TIMEOUT}\"\n");
    let racks = (0..RACKS).map(|rack| format!("[topology.racks.{rack}]\n"));
    let places = listed(servers, |at| (at / SERVERS_PER_RACK).to_string());
    format!(
        "{}[topology.racks.core]\ncentral = true\n\
         [pools.old]\n{places}{}{patience}\
         [pools.new]\n{places}{}{patience}generation = 1\nwarm_from = \"old\"\npool_coordinator = {coordinator}\n\
         [pools.notes]\n{}{patience}[[routes]]\npool = \"new\"\n",
        racks.collect::<String>(),
        from.lines(),
        to.lines(),
        listed(directory, |_| "core".to_owned()),
    )
}

fn one_switch(
    architectures: (Architecture, Architecture),
    random: &mut Xoshiro256PlusPlus,
    shared: &Shared,
) {
    println!("{architectures:?}");
    let (mut servers, directory) = (memcacheds(RACKS * SERVERS_PER_RACK), memcacheds(2));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut fleet = Fleet::start(folder.path(), RACKS, |coordinator| {
        switching(architectures, (&servers, &directory), coordinator)
    });
    let mut number = |below: usize| random.next_u64() as usize % below;
    let (stopped, lost, emptied) = (
        number(servers.len()),
        number(servers.len()),
        number(servers.len()),
    );
    let (paused, killed) = (number(RACKS), number(RACKS));
    let pause = Duration::from_millis(number(STOPPED_MS_MAX as usize) as u64);
    let places = addresses(&fleet.proxies);
    let told = work(shared, &places, || {
        let go_on = |what: &str| go_on(shared, 100, what);
        go_on("the former architecture to be used");
        // Stores are given up at a server that has them still to execute.
        servers[stopped].process().signal(Signal::Stop);
        wait(GIVEN_UP);
        fleet.begin("warming");
        servers[stopped].process().signal(Signal::Continue);
        go_on("items to be brought");
        let mut client = Client::connect(servers[emptied].address());
        client.command("flush_all");
        restart(&mut servers[lost]);
        go_on("a server to be back");
        fleet.kill_coordinator();
        pause_of(&mut fleet.proxies[paused], pause);
        go_on("a proxy to be back");
        fleet.kill_proxy(killed);
        go_on("a new proxy to be used");
        fleet.begin("done");
        go_on("the former architecture not to be missed");
    });
    judge(told);
    let counts = counts(&fleet.proxies);
    let looked = counts["fills_stored"] + counts["fills_absent"];
    assert!(looked > 0, "{counts:?}");
}

#[test]
fn chaos_of_racks_that_are_switched() {
    let mut next = SWITCHES.iter().cycle();
    rounds(TESTS, |random, shared| {
        let shared = shared.writing(WRITES_PER_MILLE).thinking(THINKING);
        let switch = next.next().expect("there is always one");
        one_switch(*switch, random, &shared);
    });
}
