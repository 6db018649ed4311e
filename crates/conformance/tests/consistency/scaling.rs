//! Servers of a ring, or of a cluster, come and go by its load, which rises and falls, under three proxies and applications that never stop. In each
//! phase of that the coordinator is killed or stopped, or a server is killed: one that was started by hand, which is back at once and empty, or
//! one that the actuator runs. The actuator itself hangs, and is killed.
//!
//! `watch.rs` says what may not be seen meanwhile.

mod actuated;
mod pool;
mod watch;

use super::LONG_TIMEOUTS;
use super::application::Shared;
use super::changes::Fleet;
use super::rings::{COPIED, set};
use super::warm::{
    DEADLINE, STOPPED_MS_MAX, addresses, beside, go_on, judge, pause_of, rounds, shuffled, work,
};
use super::{Consistency, settings};
use actuated::{Actuated, Actuator};
use evenkeel_testkit::poll_until;
use pool::{ByHand, Kind, Pool};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use watch::Watch;

/// Tests of this file, which share the time that there is.
const TESTS: u32 = 3;

/// Servers that are started by hand: as many as there are to be at least.
const MIN: usize = 3;
const MAX: usize = 6;

const PROXIES: usize = 3;

/// Keys that are asked for in a second, by server, above which servers are added, and below which one is removed. Applications that think
/// for [`busy`] ask several times as much of any machine.
const UPPER: u64 = 100;
const LOWER: u64 = 50;

/// What applications do between two bursts of ten keys on average, so that all twelve ask less than [`LOWER`] of each of four servers.
const QUIET: Duration = Duration::from_millis(800);

/// The same at the top of the ramp. Below it they think longer.
const BUSIEST: Duration = Duration::from_millis(20);

/// Rest after a server has come or gone.
const COOLDOWN_MS: u64 = 500;

/// A dead server is lost after this long: long enough that a coordinator which was killed can be asked before that who owns what.
const DEAD_AFTER_MS: u64 = 3000;

/// A change that takes longer hangs. One that comes to nothing is tried again after minutes.
const CHANGE_MAX: Duration = Duration::from_secs(600);

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    CoordinatorKilled,
    CoordinatorStopped,
    /// A server that was started by hand is killed, and starts again empty.
    ByHandRestarted,
    /// The server that comes or goes is killed.
    ActuatedKilled,
    /// The start of a server hangs, and the coordinator is killed meanwhile.
    StartHung,
    /// What starts a server hangs, and is killed.
    StartKilled,
}

/// A phase, and what goes wrong in it.
type PlannedFault = (&'static str, Fault);

/// Faults while a server is added, each once before any comes again.
const ADDING: [PlannedFault; 8] = [
    ("starting", Fault::CoordinatorKilled),
    ("starting", Fault::CoordinatorStopped),
    ("starting", Fault::StartHung),
    ("joining", Fault::CoordinatorKilled),
    ("joining", Fault::CoordinatorStopped),
    ("joining", Fault::ByHandRestarted),
    // After these the next try waits for a minute.
    ("joining", Fault::ActuatedKilled),
    ("starting", Fault::StartKilled),
];

/// While one is removed.
const REMOVING: [PlannedFault; 7] = [
    ("draining", Fault::CoordinatorKilled),
    ("draining", Fault::CoordinatorStopped),
    ("draining", Fault::ByHandRestarted),
    ("draining", Fault::ActuatedKilled),
    ("stopping", Fault::CoordinatorKilled),
    ("stopping", Fault::CoordinatorStopped),
    ("cooling", Fault::CoordinatorKilled),
];

/// What the test has killed.
#[derive(Default)]
struct Killed {
    /// Names of servers of the actuator's.
    names: BTreeSet<String>,
    /// Where servers were that the ring may lose, so that it has fewer.
    lost: BTreeSet<SocketAddr>,
}

/// A pool whose servers come and go, and what has happened to it.
struct Scene<'a> {
    by_hand: ByHand,
    fleet: Fleet,
    pool: Pool,
    actuated: &'a Actuated,
    killed: &'a Mutex<Killed>,
    /// What is still to go wrong before anything does again.
    adding: Vec<PlannedFault>,
    removing: Vec<PlannedFault>,
    /// How often each has hit which phase.
    injected: BTreeMap<(Fault, String), u64>,
}

/// How far autoscaling is.
struct Seen {
    phase: Value,
    servers: usize,
}

impl Seen {
    /// Whether no server is on its way.
    fn rests(&self) -> bool {
        let under_way = ["starting", "joining", "draining", "stopping"];
        !under_way.iter().any(|it| self.phase["is"] == *it)
    }
}

/// What applications do between two bursts so that this many servers are too few.
fn busy(servers: usize) -> Duration {
    BUSIEST * 3 / (servers.saturating_sub(2).clamp(1, 3) as u32)
}

/// The next fault of all in random order.
fn next<const N: usize>(
    all: [PlannedFault; N],
    to_come: &mut Vec<PlannedFault>,
    random: &mut Xoshiro256PlusPlus,
) -> PlannedFault {
    if to_come.is_empty() {
        to_come.extend(shuffled(all, random));
    }
    to_come.pop().expect("there are some")
}

impl<'a> Scene<'a> {
    /// In mode `automatic` a ring moves parts by itself too, for which a server that comes may have to wait.
    fn start(mode: &str, actuated: &'a Actuated, killed: &'a Mutex<Killed>) -> Self {
        let kind = actuated.kind();
        let mut by_hand = ByHand::memcacheds(kind);
        let file = |coordinators: &str| {
            let servers = match kind {
                Kind::Ring => format!(
                    "{}distribution = \"adaptive\"\npool_coordinator = {coordinators}\n",
                    by_hand.list()
                ),
                Kind::Cluster => {
                    // Proxies are ready once there is a map.
                    by_hand.start_members(coordinators.trim_matches(['[', ']', '"']));
                    format!("coordinator = {coordinators}\n")
                }
            };
            format!(
                "[pools.main]\n{servers}request_timeout = \"{LONG_TIMEOUTS}\"\nconnect_timeout = \"{LONG_TIMEOUTS}\"\n"
            )
        };
        let fleet = Fleet::scaled(actuated.folder(), &actuated.file(), (PROXIES, MIN), file);
        let pool = Pool::new(kind, fleet.leader());
        match kind {
            Kind::Ring => set(
                pool.leader(),
                &json!({
                    "mode": mode, "proxies": PROXIES, "slot_ms": 1000, "warming_ms": 200,
                    "copy_keys_per_second": COPIED, "dead_after_ms": DEAD_AFTER_MS
                }),
            ),
            Kind::Cluster => {
                actuated.begin_at(&fleet.url());
                let atomic = settings(Consistency::Atomic).parse().expect("JSON");
                poll_until(DEADLINE, "settings to be taken", || {
                    pool.leader().put("/api/v1/settings", &atomic)
                });
            }
        }
        poll_until(DEADLINE, "servers that own something", || {
            (pool.owners()?.len() == MIN).then_some(())
        });
        let scale = json!({
            "mode": "automatic", "min": MIN, "max": MAX, "sustain_ms": 0,
            "requests_per_server": {"lower": LOWER, "upper": UPPER},
            "cooldown_added_ms": COOLDOWN_MS, "cooldown_removed_ms": COOLDOWN_MS
        });
        poll_until(DEADLINE, "thresholds to be taken", || {
            let path = format!("/api/v1/scale/{}", kind.name());
            pool.leader().put(&path, &scale)
        });
        Scene {
            by_hand,
            fleet,
            pool,
            actuated,
            killed,
            adding: Vec::new(),
            removing: Vec::new(),
            injected: BTreeMap::new(),
        }
    }

    fn killed(&self) -> MutexGuard<'_, Killed> {
        self.killed.lock().expect("nobody panics with it")
    }

    fn seen(&self) -> Seen {
        poll_until(DEADLINE, "the coordinator to say how far it is", || {
            let view = self.pool.leader().get("/api/v1/scale")?["pools"]
                .get(0)?
                .clone();
            Some(Seen {
                servers: view["servers"].as_u64()? as usize,
                phase: view["phase"].clone(),
            })
        })
    }

    /// Something goes wrong in a phase of a change that is to come, or later if the phase was too short to be seen.
    fn change(
        &mut self,
        (phase, fault): PlannedFault,
        random: &mut Xoshiro256PlusPlus,
        is_over: impl Fn(&Seen) -> bool,
    ) {
        let hangs = matches!(fault, Fault::StartHung | Fault::StartKilled);
        let hold = hangs.then(|| self.actuated.hold());
        let seen = poll_until(CHANGE_MAX, phase, || {
            let seen = self.seen();
            (seen.phase["is"] == phase || is_over(&seen)).then_some(seen)
        });
        println!("{fault:?} while {} ({} servers)", seen.phase, seen.servers);
        if self.inject(fault, &seen, random) {
            self.count(fault, &seen);
        }
        drop(hold);
        poll_until(CHANGE_MAX, "a server to come or to go", || {
            is_over(&self.seen()).then_some(())
        });
    }

    fn count(&mut self, fault: Fault, seen: &Seen) {
        let phase = seen.phase["is"].as_str().unwrap_or_default().to_owned();
        *self.injected.entry((fault, phase)).or_default() += 1;
    }

    /// False if there is nothing that could be killed.
    fn inject(&mut self, fault: Fault, seen: &Seen, random: &mut Xoshiro256PlusPlus) -> bool {
        let mut number = |below: usize| random.next_u64() as usize % below;
        let pause = Duration::from_millis(number(STOPPED_MS_MAX as usize) as u64);
        let server = number(MIN);
        let name = seen.phase["name"].as_str();
        match fault {
            Fault::CoordinatorKilled => self.fleet.kill_coordinator(),
            Fault::CoordinatorStopped => pause_of(self.fleet.leading(), pause),
            Fault::ByHandRestarted => {
                let at = self.by_hand.address(server);
                self.killed().lost.insert(at);
                self.by_hand.restart(server, &self.fleet.url());
            }
            Fault::ActuatedKilled => {
                return name.and_then(|name| self.kill(name)).is_some();
            }
            Fault::StartHung | Fault::StartKilled => {
                let Some(name) = name else {
                    return false;
                };
                poll_until(DEADLINE, "the actuator to start it", || {
                    self.actuated.is_starting(name).then_some(())
                });
                match fault {
                    Fault::StartHung => self.fleet.kill_coordinator(),
                    _ => self.actuated.kill_start(name),
                }
            }
        }
        true
    }

    /// A server of the actuator's is killed. Says where it was, if it ran.
    fn kill(&self, name: &str) -> Option<SocketAddr> {
        let at = self.actuated.running().remove(name)??;
        let mut killed = self.killed();
        killed.names.insert(name.to_owned());
        killed.lost.insert(at);
        self.actuated.kill(name);
        Some(at)
    }

    /// A server of the actuator's dies that owns a part of the pool, if there is one. The pool loses it, of which a ring does no more than some in
    /// ten minutes without an order.
    fn lose_one(&mut self) {
        let have = poll_until(DEADLINE, "owners", || self.pool.owners());
        let running = self.actuated.running().into_iter();
        let mut of_ring = running.filter(|(_, at)| at.is_some_and(|at| have.contains(&at)));
        let Some((name, _)) = of_ring.next_back() else {
            return;
        };
        let seen = self.seen();
        println!(
            "{name} dies while {} ({} servers)",
            seen.phase, seen.servers
        );
        let Some(at) = self.kill(&name) else {
            return;
        };
        self.count(Fault::ActuatedKilled, &seen);
        poll_until(CHANGE_MAX, "a dead server to be lost", || {
            if !self.pool.owners()?.contains(&at) {
                return Some(());
            }
            self.pool.lose_if_dead(at);
            None
        });
    }

    /// The load rises until some servers have come, one of them dies in most rounds, and the load falls until they have gone.
    fn ramp(&mut self, random: &mut Xoshiro256PlusPlus, shared: &Shared) {
        let top = MIN + 1 + random.next_u64() as usize % (MAX - MIN);
        println!("up to {top} servers");
        loop {
            let servers = self.seen().servers;
            if servers >= top {
                break;
            }
            shared.think(busy(servers));
            let fault = next(ADDING, &mut self.adding, random);
            self.change(fault, random, |seen| seen.servers > servers && seen.rests());
        }
        go_on(shared, 100, "the pool to be used at the top");
        if top > MIN + 1 {
            self.lose_one();
        }
        println!("down to {MIN} servers");
        shared.think(QUIET);
        loop {
            let servers = self.seen().servers;
            if servers <= MIN {
                break;
            }
            let fault = next(REMOVING, &mut self.removing, random);
            self.change(fault, random, |seen| seen.servers < servers && seen.rests());
        }
        go_on(shared, 10, "the pool to be used after all that");
    }

    /// One server comes, as far as it owns something.
    fn one_comes(&mut self, random: &mut Xoshiro256PlusPlus, shared: &Shared) {
        shared.think(busy(MIN));
        let pool = self.pool.clone();
        let has_come = |_: &Seen| pool.owners().is_some_and(|owners| owners.len() > MIN);
        // Those after which the next try does not wait for a minute.
        let fault = ADDING[random.next_u64() as usize % 5];
        self.change(fault, random, has_come);
        go_on(shared, 100, "the pool to be used by its new server");
    }

    fn one_round(&mut self, random: &mut Xoshiro256PlusPlus, shared: &Shared, is_long: bool) {
        let places = addresses(&self.fleet.proxies);
        let told = work(shared, &places, || match is_long {
            true => self.ramp(random, shared),
            false => self.one_comes(random, shared),
        });
        judge(told);
    }

    /// Nothing runs that the pool does not have, and nothing at all once a coordinator has ended whose servers end with it.
    fn end(mut self) {
        poll_until(CHANGE_MAX, "nothing to run that owns nothing", || {
            let owners = self.pool.owners()?;
            let running = self.actuated.running();
            let mut all = running.values();
            all.all(|at| at.is_some_and(|at| owners.contains(&at)))
                .then_some(())
        });
        self.fleet.end_coordinator();
        let running = self.actuated.running();
        if self.actuated.ends_with_coordinator() {
            assert!(running.is_empty(), "left behind: {running:?}");
        }
    }
}

fn chaos(kind: Kind, by: Actuator) {
    let is_long = std::env::var("CHAOS_SECONDS").is_ok();
    let (actuated, killed) = (Actuated::new(kind, by), Mutex::default());
    let mode = if is_long { "automatic" } else { "observe" };
    let mut scene = Scene::start(mode, &actuated, &killed);
    let watch = Watch::new(scene.pool.clone(), &actuated, &killed);
    let stop = AtomicBool::new(false);
    let watching = std::iter::once(|| watch.run(&stop));
    let watched = beside(&stop, watching, || {
        rounds(TESTS, |random, shared| {
            scene.one_round(random, &shared.thinking(QUIET), is_long);
        });
    });
    println!("{:?}", scene.injected);
    scene.end();
    for seen in watched {
        println!("{seen:?}");
        assert!(seen.wrong.is_empty(), "{:#?}", seen.wrong);
        assert!(
            seen.looks > 0 && seen.owners.iter().any(|it| *it > MIN),
            "{seen:?}"
        );
        if is_long {
            let ended = |how| seen.ended.get(how).is_some_and(|it| *it > 0);
            assert!(ended("added") && ended("removed"), "{:?}", seen.ended);
        }
    }
}

#[test]
fn chaos_of_scaling() {
    chaos(Kind::Ring, Actuator::Process);
}

#[test]
#[ignore = "nightly: the same in a cluster, half a minute or more"]
fn chaos_of_scaling_a_cluster() {
    chaos(Kind::Cluster, Actuator::Process);
}

#[test]
#[ignore = "nightly: the same by a program of an operator's, ten seconds or more"]
fn chaos_of_scaling_by_a_program() {
    chaos(Kind::Ring, Actuator::Command);
}
