//! A pool keeps copies of its items, on any servers or in racks, which are switched on, off and on again, under three proxies and applications that never stop, while
//! items are evicted, and servers, proxies and the coordinator are killed and stopped.

mod application;
mod promise;

use crate::SHORT_TIMEOUT;
use crate::changes::{Fleet, Leader};
use crate::warm::{DEADLINE, addresses, beside, counts, list, pause_of, rounds, shuffled};
use application::{Application, Shared, add_lost_counts};
use evenkeel_testkit::racks::listed;
use evenkeel_testkit::{Memcached, Process, Signal, poll_until};
use promise::History;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const SERVERS: usize = 8;

const PROXIES: usize = 3;

/// Connections of applications to each proxy.
const APPLICATIONS_PER_PROXY: usize = 3;

/// Every other server has room for ten items, of whatever length, which is less than its part of them and their copies.
const TIGHT: [&str; 8] = ["-t", "1", "-m", "1", "-I", "512k", "-n", "100000"];

/// The others have room for all.
const WIDE: [&str; 2] = ["-t", "1"];

/// Longest life of a copy, in seconds.
const TTL: u64 = 5;

/// Values that applications read between two things that happen to the pool.
const VALUES: u64 = 2000;

/// Violations that are told.
const TOLD: usize = 5;

/// What happens in a round: each once, in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// Copies are switched off, and on again.
    Switched,
    ServerStopped,
    ServerRestarted,
    CoordinatorKilled,
    ProxyStopped,
    ProxyKilled,
}

const FAULTS: [Fault; 6] = [
    Fault::Switched,
    Fault::ServerStopped,
    Fault::ServerRestarted,
    Fault::CoordinatorKilled,
    Fault::ProxyStopped,
    Fault::ProxyKilled,
];

/// The pool and all that it needs.
struct Pool {
    servers: Vec<Memcached>,
    fleet: Fleet,
    /// How long a process is stopped at least.
    pause: Duration,
}

/// Where copies are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copies {
    /// On any servers: multi-gets ask few.
    Anywhere,
    /// In different racks: every get asks the nearest. Items have names of their pool's own.
    InRacks,
}

impl Copies {
    /// What a file says of a pool of these servers, whose copies they are. A rack has two servers, of which one is tight.
    fn file(self, servers: &[Memcached]) -> String {
        let others = format!(
            "request_timeout = \"{SHORT_TIMEOUT}\"\nconnect_timeout = \"{SHORT_TIMEOUT}\"\ncopies_ttl = {TTL}\n"
        );
        match self {
            Copies::Anywhere => format!(
                "[pools.main]\n{}bundle = \"on\"\ncopies = 3\n{others}",
                list(servers)
            ),
            Copies::InRacks => {
                let racks = (0..servers.len() / 2).map(|rack| format!("[topology.racks.{rack}]\n"));
                format!(
                    "{}[pools.main]\n{}architecture = \"sdr\"\nrack_copies = 3\ngeneration = 1\n{others}",
                    racks.collect::<String>(),
                    listed(servers, |at| (at / 2).to_string())
                )
            }
        }
    }
}

fn arguments(server: usize) -> &'static [&'static str] {
    match server % 2 {
        0 => &TIGHT,
        _ => &WIDE,
    }
}

impl Pool {
    fn start(folder: &std::path::Path, copies: Copies, is_long: bool) -> Self {
        let servers = (0..SERVERS).map(|it| Memcached::spawn(arguments(it)));
        let servers: Vec<_> = servers.collect();
        let file = |coordinators: &str| {
            format!(
                "{}pool_coordinator = {coordinators}\n",
                copies.file(&servers)
            )
        };
        let (fleet, pause) = match is_long {
            true => (
                Fleet::on_etcd(folder, PROXIES, file),
                Duration::from_secs(TTL + 1),
            ),
            false => (Fleet::start(folder, PROXIES, file), Duration::from_secs(1)),
        };
        Pool {
            servers,
            fleet,
            pause,
        }
    }

    /// A count of the proxies, together.
    fn count(&self, of: &str) -> u64 {
        sum(&self.fleet.proxies, of)
    }

    fn inject(&mut self, fault: Fault, random: &mut Xoshiro256PlusPlus) {
        let mut number = |below: usize| random.next_u64() as usize % below;
        let (server, proxy) = (number(SERVERS), number(PROXIES));
        match fault {
            Fault::Switched => {
                switch(&self.fleet.leader(), "off");
                switch(&self.fleet.leader(), "on");
            }
            Fault::ServerStopped => self.stop_server(server),
            Fault::ServerRestarted => {
                let port = self.servers[server].address().port().to_string();
                self.servers[server].process().kill();
                let arguments = [arguments(server), &["-p", &port]].concat();
                self.servers[server] = Memcached::spawn(&arguments);
            }
            Fault::CoordinatorKilled => self.fleet.kill_coordinator(),
            Fault::ProxyStopped => pause_of(&mut self.fleet.proxies[proxy], self.pause),
            Fault::ProxyKilled => self.fleet.kill_proxy(proxy),
        }
    }

    /// Copies that it has are not deleted meanwhile, and the writes are errors.
    fn stop_server(&mut self, server: usize) {
        let before = self.count("deletes_unconfirmed");
        let until = Instant::now() + self.pause;
        self.servers[server].process().signal(Signal::Stop);
        poll_until(DEADLINE, "deletes that are not confirmed", || {
            let is_over = Instant::now() >= until;
            (is_over && self.count("deletes_unconfirmed") > before).then_some(())
        });
        self.servers[server].process().signal(Signal::Continue);
    }

    /// Waits until every proxy has found copies, stored some, and deleted some.
    fn await_use(&self) {
        for proxy in &self.fleet.proxies {
            poll_until(DEADLINE, "a proxy that finds copies", || {
                let proxy = std::slice::from_ref(proxy);
                let counts = ["copies_hit", "fills", "deletes"];
                counts.iter().all(|of| sum(proxy, of) > 0).then_some(())
            });
        }
    }

    /// Waits until the coordinator says that copies were switched on twice.
    fn await_second_plan(&self) {
        poll_until(DEADLINE, "a second plan", || {
            let view = self.fleet.leader().get("/api/v1/bundles")?;
            let number = view["bundles"][0]["plan"]["number"].as_u64()?;
            (number >= 2).then_some(())
        });
    }

    /// Waits until tight servers have evicted something.
    fn await_evictions(&self) {
        poll_until(DEADLINE, "items to be evicted", || {
            let mut tight = self.servers.iter().step_by(2);
            let has_evicted = |server: &Memcached| server.client().stats("")["evictions"] != "0";
            tight.any(has_evicted).then_some(())
        });
    }
}

fn sum(proxies: &[Process], of: &str) -> u64 {
    counts(proxies)[&format!("main:bundle_{of}")]
}

/// Copies are switched `on` or `off`, and all proxies follow.
fn switch(leader: &Leader, to: &str) {
    poll_until(DEADLINE, "copies to be switched", || {
        let view = leader.get("/api/v1/bundles")?;
        let bundle = view["bundles"].as_array()?.first()?;
        if bundle["switch"] == to {
            return Some(());
        }
        // It is refused while they are being switched, and before all proxies are there.
        let order = json!({"proxies": PROXIES});
        let _: Option<Value> = leader.post(&format!("/api/v1/bundles/main/{to}"), &order);
        None
    });
}

fn one_round(copies: Copies, random: &mut Xoshiro256PlusPlus, injected: &mut BTreeMap<Fault, u64>) {
    let is_long = std::env::var_os("CHAOS_SECONDS").is_some();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut pool = Pool::start(folder.path(), copies, is_long);
    let shared = Shared::new(random.next_u64());
    let places = addresses(&pool.fleet.proxies);
    let applications = (0..PROXIES * APPLICATIONS_PER_PROXY).map(|number| {
        let proxy = number % PROXIES;
        let application = Application::new(&shared, (proxy, places[proxy]), number as u64);
        || application.run()
    });
    let go_on = || {
        let before = shared.values();
        poll_until(DEADLINE, "the pool to be used", || {
            (shared.values() > before + VALUES).then_some(())
        });
    };
    let told = beside(&shared.stop, applications, || {
        switch(&pool.fleet.leader(), "on");
        pool.await_use();
        for fault in shuffled(FAULTS, random) {
            pool.inject(fault, random);
            *injected.entry(fault).or_default() += 1;
            go_on();
            pool.await_use();
        }
        pool.await_evictions();
        pool.await_second_plan();
    });
    judge(told);
    let counts = counts(&pool.fleet.proxies);
    let counts = counts
        .iter()
        .filter(|(name, _)| name.starts_with("main:bundle_"));
    println!("{:?}", counts.collect::<Vec<_>>());
}

fn judge(told: Vec<History>) {
    let mut history = History::default();
    for told in told {
        history.writes.extend(told.writes);
        history.reads.extend(told.reads);
    }
    add_lost_counts(&mut history);
    let unknown = history.writes.iter();
    let unknown = unknown.filter(|write| write.acknowledged.is_none()).count();
    let (writes, reads) = (history.writes.len(), history.reads.len());
    println!("{reads} values read, {writes} writes, of which {unknown} of unknown outcome");
    let violations = history.violations();
    let first = violations[..TOLD.min(violations.len())].join("\n");
    assert!(
        violations.is_empty(),
        "{} violations:\n{first}",
        violations.len()
    );
}

fn chaos(copies: Copies) {
    let mut injected = BTreeMap::new();
    rounds(1, |random, _| one_round(copies, random, &mut injected));
    println!("{injected:?}");
    assert_eq!(injected.len(), FAULTS.len(), "each has happened");
}

#[test]
fn chaos_of_copies_that_are_read_filled_and_deleted() {
    chaos(Copies::Anywhere);
}

#[test]
fn chaos_of_copies_in_racks() {
    chaos(Copies::InRacks);
}
