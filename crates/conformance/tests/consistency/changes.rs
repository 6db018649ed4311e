//! A pool passes from former memcacheds to others, led by a coordinator, under two proxies and applications that never stop, while servers,
//! proxies and the coordinator are killed and stopped.

use super::application::Shared;
use super::warm::{
    DEADLINE, SERVERS, STOPPED_MS_MAX, addresses, counts, evict, judge, list, memcacheds, pause_of,
    restart, rounds, work,
};
use super::{IMPATIENT, PROXIES};
use evenkeel_testkit::{Memcached, Process, Signal, evenkeel, http, poll_until};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longer than a request may take that a server does not answer.
const GIVEN_UP: Duration = Duration::from_millis(900);

/// What applications do between two bursts of commands. The change takes seconds, whose operations all have to be judged.
pub const THINKING: Duration = Duration::from_millis(5);

/// The proxies, and who leads them.
pub struct Fleet {
    pub coordinator: Process,
    state: String,
    file: String,
    pub proxies: Vec<Process>,
}

impl Fleet {
    /// Proxies by the file that is said of a coordinator.
    pub fn start(folder: &Path, file: impl FnOnce(SocketAddr) -> String) -> Self {
        let state = folder.join("state").display().to_string();
        let coordinator = evenkeel::coordinator(&["--state", &state]);
        let text = file(coordinator.address());
        let path = folder.join("proxy.toml");
        std::fs::write(&path, text).expect("room");
        let file = path.display().to_string();
        let proxies = (0..PROXIES)
            .map(|at| proxy("127.0.0.1:0", &file, at))
            .collect();
        Fleet {
            coordinator,
            state,
            file,
            proxies,
        }
    }

    pub fn kill_coordinator(&mut self) {
        let address = self.coordinator.address().to_string();
        self.coordinator.kill();
        self.coordinator = evenkeel::coordinator_at(&address, &["--state", &self.state]);
    }

    pub fn kill_proxy(&mut self, at: usize) {
        let address = self.proxies[at].address().to_string();
        self.proxies[at].kill();
        self.proxies[at] = proxy(&address, &self.file, at);
    }

    fn change(&self) -> Option<Value> {
        let (_, body) = http::get(self.coordinator.address(), "/api/v1/changes").ok()?;
        let body: Value = serde_json::from_str(&body).ok()?;
        body["changes"].as_array()?.first().cloned()
    }

    /// Brings the change to a stage, however often it is withdrawn on the way.
    fn begin(&self, goal: &str) {
        let at: SocketAddr = self.coordinator.address();
        let begin = json!({"goal": goal, "proxies": PROXIES}).to_string();
        poll_until(DEADLINE, "the change to come to its goal", || {
            let change = self.change()?;
            if change["stage"] == goal {
                return Some(());
            }
            if change["goal"] != goal {
                // Not all may be there yet.
                let _ = http::post_json(at, "/api/v1/changes/new/begin", &begin);
            }
            None
        });
    }
}

fn proxy(address: &str, file: &str, at: usize) -> Process {
    let name = format!("p{at}");
    evenkeel::proxy_at(address, &["--config", file, "-t", "2", "--name", &name])
}

fn one_round(random: &mut Xoshiro256PlusPlus, shared: &Shared) {
    let (mut former, mut own) = (memcacheds(), memcacheds());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut fleet = Fleet::start(folder.path(), |coordinator| {
        let patience =
            format!("request_timeout = \"{IMPATIENT}\"\nconnect_timeout = \"{IMPATIENT}\"\n");
        format!(
            "[pools.old]\n{}{patience}[pools.new]\n{}{patience}warm_from = \"old\"\n\
             pool_coordinator = \"http://{coordinator}\"\n[[routes]]\npool = \"new\"\n",
            list(&former),
            list(&own)
        )
    });
    let mut number = |below: usize| random.next_u64() as usize % below;
    let (server, other, of_proxies) = (number(SERVERS), number(SERVERS), number(PROXIES));
    let pause = Duration::from_millis(number(STOPPED_MS_MAX as usize) as u64);
    let places = addresses(&fleet.proxies);
    let told = work(shared, &places, || {
        let go_on = |what: &str| {
            let before = shared.values();
            poll_until(DEADLINE, what, || {
                (shared.values() > before + 100).then_some(())
            });
        };
        go_on("the former pool to be used");
        // Stores are given up at a server that has them still to carry out.
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

fn wait(time: Duration) {
    let until = Instant::now() + time;
    poll_until(DEADLINE, "a while", || {
        (Instant::now() >= until).then_some(())
    });
}

#[test]
fn chaos_of_pools_that_are_led_to_other_servers() {
    rounds(|random, shared| one_round(random, &shared.thinking(THINKING)));
}
