//! A pool passes from former memcacheds to others, led by a coordinator, under two proxies and applications that never stop, while servers,
//! proxies and the coordinator are killed and stopped.

use super::application::Shared;
use super::warm::{
    DEADLINE, SERVERS, STOPPED_MS_MAX, TESTS, addresses, counts, evict, go_on, judge, list,
    memcacheds, pause_of, restart, rounds, work,
};
use super::{PROXIES, SHORT_TIMEOUT};
use evenkeel_conformance::etcd::{Etcd, own_host};
use evenkeel_testkit::{Memcached, Process, Signal, evenkeel, http, poll_until};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longer than a request may take that a server does not answer.
pub const GIVEN_UP: Duration = Duration::from_millis(900);

/// What applications do between two bursts of commands. The change takes seconds, whose operations all have to be judged.
pub const THINKING: Duration = Duration::from_millis(5);

/// The proxies, and who leads them.
pub struct Fleet {
    /// One of them leads.
    coordinators: Vec<Process>,
    /// What they are started with: where they keep what they know.
    arguments: Vec<String>,
    /// It ends with them.
    _etcd: Option<Etcd>,
    file: String,
    pub proxies: Vec<Process>,
}

/// Where coordinators answer: the one that leads does.
#[derive(Clone)]
pub struct Leader(Vec<SocketAddr>);

impl Leader {
    fn ask(&self, ask: impl Fn(SocketAddr) -> io::Result<(u16, String)>) -> Option<Value> {
        let said = self.0.iter().filter_map(|at| ask(*at).ok());
        let mut done = said.filter(|(status, _)| *status == 200);
        done.find_map(|(_, body)| serde_json::from_str(&body).ok())
    }

    /// What it says at this path.
    pub fn get(&self, path: &str) -> Option<Value> {
        self.ask(|at| http::get(at, path))
    }

    /// What it answers to an order, if it takes it.
    pub fn post(&self, path: &str, order: &Value) -> Option<Value> {
        self.ask(|at| http::post_json(at, path, &order.to_string()))
    }

    /// What it answers to settings, if it takes them.
    pub fn put(&self, path: &str, settings: &Value) -> Option<Value> {
        self.ask(|at| http::put_json(at, path, &settings.to_string()))
    }
}

impl Fleet {
    /// This many proxies, by the file that is said of a coordinator's address.
    pub fn start(folder: &Path, proxies: usize, file: impl FnOnce(&str) -> String) -> Self {
        Fleet::with((1, state_in(folder), None), proxies, folder, file)
    }

    /// The same with an actuator, of which the file `scaler` says, and for a cluster that begins with this many servers.
    pub fn scaled(
        folder: &Path,
        scaler: &Path,
        (proxies, servers): (usize, usize),
        file: impl FnOnce(&str) -> String,
    ) -> Self {
        let scaler = ["--scaler".to_owned(), scaler.display().to_string()];
        let initial = ["--initial-servers".to_owned(), servers.to_string()];
        let arguments = [state_in(folder), scaler.to_vec(), initial.to_vec()].concat();
        Fleet::with((1, arguments, None), proxies, folder, file)
    }

    /// The same with two coordinators on an etcd.
    pub fn on_etcd(folder: &Path, proxies: usize, file: impl FnOnce(&str) -> String) -> Self {
        let etcd = Etcd::start();
        let arguments = vec!["--etcd".to_owned(), etcd.urls()];
        Fleet::with((2, arguments, Some(etcd)), proxies, folder, file)
    }

    fn with(
        (count, arguments, etcd): (usize, Vec<String>, Option<Etcd>),
        proxies: usize,
        folder: &Path,
        file: impl FnOnce(&str) -> String,
    ) -> Self {
        let any = format!("{}:0", own_host());
        let coordinators = (0..count).map(|_| coordinator(&any, &arguments));
        let coordinators: Vec<Process> = coordinators.collect();
        let urls = coordinators
            .iter()
            .map(|one| format!("\"http://{}\"", one.address()));
        let text = file(&format!("[{}]", urls.collect::<Vec<_>>().join(", ")));
        let path = folder.join("proxy.toml");
        std::fs::write(&path, text).expect("room");
        let file = path.display().to_string();
        let proxies = (0..proxies)
            .map(|at| proxy("127.0.0.1:0", &file, at))
            .collect();
        Fleet {
            coordinators,
            arguments,
            _etcd: etcd,
            file,
            proxies,
        }
    }

    /// Where members find a coordinator.
    pub fn url(&self) -> String {
        format!("http://{}", self.coordinators[0].address())
    }

    pub fn leader(&self) -> Leader {
        Leader(addresses(&self.coordinators))
    }

    /// The coordinator that leads.
    pub fn leading(&mut self) -> &mut Process {
        let leads = |one: &Process| Leader(vec![one.address()]).get("/api/v1/changes").is_some();
        let leading = poll_until(DEADLINE, "a coordinator that leads", || {
            self.coordinators.iter().position(leads)
        });
        &mut self.coordinators[leading]
    }

    /// The coordinator that leads is killed, and starts again.
    pub fn kill_coordinator(&mut self) {
        let arguments = self.arguments.clone();
        let leading = self.leading();
        let address = leading.address().to_string();
        leading.kill();
        *leading = coordinator(&address, &arguments);
    }

    /// The coordinator that leads is asked to end, and does.
    pub fn end_coordinator(&mut self) {
        let leading = self.leading();
        leading.signal(Signal::Terminate);
        leading.wait(DEADLINE);
    }

    pub fn kill_proxy(&mut self, at: usize) {
        let address = self.proxies[at].address().to_string();
        self.proxies[at].kill();
        self.proxies[at] = proxy(&address, &self.file, at);
    }

    /// Brings the change of the pool `new` to a stage, however often it is withdrawn on the way.
    pub fn begin(&self, goal: &str) {
        let leader = self.leader();
        let begin = json!({"goal": goal, "proxies": self.proxies.len()});
        poll_until(DEADLINE, "the change to come to its goal", || {
            let changes = leader.get("/api/v1/changes")?;
            let change = changes["changes"].as_array()?.first()?;
            if change["stage"] == goal {
                return Some(());
            }
            if change["goal"] != goal {
                // Not all may be there yet.
                let _ = leader.post("/api/v1/changes/new/begin", &begin);
            }
            None
        });
    }
}

/// Where a coordinator keeps what it knows, as arguments.
fn state_in(folder: &Path) -> Vec<String> {
    let state = folder.join("state").display().to_string();
    vec!["--state".to_owned(), state]
}

fn coordinator(address: &str, arguments: &[String]) -> Process {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    evenkeel::coordinator_at(address, &arguments)
}

/// A proxy stands in the rack that has its number, if the file has racks.
fn proxy(address: &str, file: &str, at: usize) -> Process {
    let (name, rack) = (format!("p{at}"), at.to_string());
    let mut arguments = vec!["--config", file, "-t", "2", "--name", &name];
    let text = std::fs::read_to_string(file).expect("it was written");
    if text.contains(&format!("[topology.racks.{rack}]")) {
        arguments.extend(["--rack", &rack]);
    }
    evenkeel::proxy_at(address, &arguments)
}

fn one_round(random: &mut Xoshiro256PlusPlus, shared: &Shared) {
    let (mut former, mut own) = (memcacheds(SERVERS), memcacheds(SERVERS));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut fleet = Fleet::start(folder.path(), PROXIES, |coordinator| {
        let patience = format!(
            "request_timeout = \"{SHORT_TIMEOUT}\"\nconnect_timeout = \"{SHORT_TIMEOUT}\"\n"
        );
        format!(
            "[pools.old]\n{}{patience}[pools.new]\n{}{patience}warm_from = \"old\"\n\
             pool_coordinator = {coordinator}\n[[routes]]\npool = \"new\"\n",
            list(&former),
            list(&own)
        )
    });
    let mut number = |below: usize| random.next_u64() as usize % below;
    let (server, other, of_proxies) = (number(SERVERS), number(SERVERS), number(PROXIES));
    let pause = Duration::from_millis(number(STOPPED_MS_MAX as usize) as u64);
    let places = addresses(&fleet.proxies);
    let told = work(shared, &places, || {
        let go_on = |what: &str| go_on(shared, 100, what);
        go_on("the former pool to be used");
        // Stores are given up at a server that has them still to execute.
        former[server].process().signal(Signal::Stop);
        wait(GIVEN_UP);
        fleet.begin("warming");
        former[server].process().signal(Signal::Continue);
        go_on("the pool to be warmed");
        let servers: Vec<SocketAddr> = own.iter().map(Memcached::address).collect();
        for _ in 0..20 {
            evict(&servers, random, shared);
        }
        restart(&mut own[other]);
        go_on("a server to be back");
        pause_of(former[other].process(), pause);
        fleet.kill_coordinator();
        pause_of(&mut fleet.proxies[of_proxies], pause);
        go_on("a proxy to be back");
        fleet.kill_proxy(1 - of_proxies);
        go_on("a new proxy to be used");
        fleet.begin("done");
        for server in &mut former {
            server.process().kill();
        }
        go_on("the former servers not to be missed");
    });
    judge(told);
    let counts = counts(&fleet.proxies);
    // One of them was never started anew.
    let looked = counts["fills_stored"] + counts["fills_absent"];
    assert!(looked > 0, "{counts:?}");
}

pub fn wait(time: Duration) {
    let until = Instant::now() + time;
    poll_until(DEADLINE, "a while", || {
        (Instant::now() >= until).then_some(())
    });
}

#[test]
fn chaos_of_pools_that_are_led_to_other_servers() {
    rounds(TESTS, |random, shared| {
        one_round(random, &shared.thinking(THINKING))
    });
}
