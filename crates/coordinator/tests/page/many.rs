//! The page of a cluster of 1,000 servers with 16 workers each, of which only the heartbeats are real: what it costs the browser and the coordinator.

use super::look;
use evenkeel_control::loads::{CacheletColumns, LoadNews, WorkerColumns};
use evenkeel_control::{Heartbeat, LoadReport, MemberKind};
use evenkeel_member::client::ApiClient;
use evenkeel_testkit::{evenkeel, poll_until};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{BootId, Epoch, ServerId, WorkerRef};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SERVERS: u16 = 1000;
const WORKERS: u16 = 16;

/// Connections over which heartbeats come.
const SPEAKERS: u16 = 4;

/// How often a server speaks, as real ones do.
const BEAT: Duration = Duration::from_secs(1);

/// For everything to be there, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(300);

/// How long each is measured.
const MEASURED: Duration = Duration::from_secs(10);

/// A server, as far as a coordinator knows one.
struct Server {
    number: u16,
    epoch: Epoch,
    id: Option<ServerId>,
}

impl Server {
    fn heartbeat(&self, map: Option<&ClusterMap>, tick: u64) -> Heartbeat {
        let seed = u64::from(self.number) * 31 + tick;
        let load = |worker: u64| 500 + (seed * 7 + worker * 13) % 500;
        let workers: Vec<u64> = (0..u64::from(WORKERS)).collect();
        let same = |value: u64| vec![value; workers.len()];
        let owned: Vec<(u16, u16)> = (map.zip(self.id).into_iter())
            .flat_map(|(map, server)| {
                (0..WORKERS).flat_map(move |worker| {
                    let owned = map.cachelets_of(WorkerRef { server, worker });
                    owned.map(move |cachelet| (cachelet.0, worker))
                })
            })
            .collect();
        let of_each = |value: u64| vec![value; owned.len()];
        let news = LoadNews {
            memory_limit_bytes: 64 << 30,
            workers: WorkerColumns {
                worker: (0..WORKERS).collect(),
                load: workers.iter().map(|worker| load(*worker)).collect(),
                replica_load: same(0),
                diverted_load: same(0),
                replicated_keys: same(0),
                busy_ppm: workers.iter().map(|worker| load(*worker) * 500).collect(),
                memory_bytes: same(1 << 30),
                left_out: same(0),
                left_out_load: same(0),
                left_out_bytes: same(0),
            },
            cachelets: CacheletColumns {
                id: owned.iter().map(|(cachelet, _)| *cachelet).collect(),
                worker: owned.iter().map(|(_, worker)| *worker).collect(),
                load: (0..owned.len() as u64).map(load).collect(),
                reads: of_each(400),
                hits: of_each(390),
                writes: of_each(10),
                bytes_in: of_each(1000),
                bytes_out: of_each(40_000),
                memory_bytes: of_each(1 << 28),
                items: of_each(1 << 20),
            },
        };
        let port = 10_000 + self.number;
        Heartbeat {
            cluster: "evenkeel".into(),
            kind: MemberKind::Server,
            name: format!("s{}", self.number),
            boot: BootId(u64::from(self.number) + 1),
            host: format!("10.{}.{}.1", self.number / 250, self.number % 250),
            port,
            worker_ports: (0..WORKERS).map(|worker| 30_000 + worker).collect(),
            rack: None,
            epoch: self.epoch,
            told: self.epoch,
            lineage: None,
            load: LoadReport {
                requests_per_second: workers.iter().map(|worker| load(*worker) as f64).collect(),
                measured: Some(news),
            },
            hot_keys: None,
            migrates: false,
            migrations: Vec::new(),
            asks_for_moves: false,
            leased: false,
            config_hash: None,
            pools: Vec::new(),
            ending: false,
            leaves: false,
        }
    }
}

/// Sends a heartbeat over a connection that stays, and gives the answer.
fn send(stream: &mut BufReader<TcpStream>, heartbeat: &Heartbeat) -> Value {
    let body = serde_json::to_vec(heartbeat).expect("JSON");
    let head = format!(
        "POST /api/v1/heartbeat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream
        .get_mut()
        .write_all(head.as_bytes())
        .expect("it hears");
    stream.get_mut().write_all(&body).expect("it hears");
    let mut len = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).expect("an answer");
        if let Some(told) = line.to_lowercase().strip_prefix("content-length:") {
            len = told.trim().parse().expect("a number");
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut answer = vec![0; len];
    stream.read_exact(&mut answer).expect("all of it");
    serde_json::from_slice(&answer).expect("JSON")
}

/// Speaks for a part of the servers, once a second, until it is over.
fn speak(address: SocketAddr, part: u16, is_over: &AtomicBool) {
    let stream = TcpStream::connect(address).expect("it listens");
    let mut stream = BufReader::new(stream);
    let api = ApiClient::new(&address.to_string()).expect("an address");
    let api = api.with_timeout(DEADLINE);
    let mut servers: Vec<Server> = (part..SERVERS)
        .step_by(SPEAKERS.into())
        .map(|number| Server {
            number,
            epoch: Epoch(0),
            id: None,
        })
        .collect();
    let mut map = None;
    for tick in 0.. {
        let begun = Instant::now();
        for server in &mut servers {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            let answer = send(&mut stream, &server.heartbeat(map.as_ref(), tick));
            server.epoch = Epoch(answer["epoch"].as_u64().expect("taken"));
            server.id = answer["server_id"].as_u64().map(|id| ServerId(id as u16));
        }
        if servers.iter().all(|server| server.epoch > Epoch(0)) {
            map = api.map().ok();
        }
        std::thread::sleep(BEAT.saturating_sub(begun.elapsed()));
    }
}

/// Seconds of a processor that a process has used.
fn used(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks = |at: usize| -> f64 {
        let field = fields.split_whitespace().nth(at).expect("fields");
        field.parse().expect("a number")
    };
    (ticks(11) + ticks(12)) / 100.0
}

#[test]
#[ignore = "nightly: a minute of heartbeats of 1,000 servers"]
fn a_thousand_servers_are_looked_at() {
    let count = SERVERS.to_string();
    let coordinator =
        evenkeel::coordinator(&["--initial-servers", &count, "--silent-ms", "120000"]);
    let (address, pid) = (coordinator.address(), coordinator.pid());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for part in 0..SPEAKERS {
            let is_over = &is_over;
            scope.spawn(move || speak(address, part, is_over));
        }
        let _over = super::SetOnDrop(&is_over);
        let api = ApiClient::new(&address.to_string()).expect("an address");
        let api = api.with_timeout(DEADLINE);
        poll_until(DEADLINE, "all servers to tell of their cachelets", || {
            let seen = api.snapshot().ok()?;
            let workers = seen.loads.workers.len() == usize::from(SERVERS * WORKERS);
            (workers && seen.totals.items >= 4000 << 20).then_some(())
        });
        let share = |before: f64, begun: Instant| {
            100.0 * (used(pid) - before) / begun.elapsed().as_secs_f64()
        };
        let (before, begun) = (used(pid), Instant::now());
        std::thread::sleep(MEASURED);
        println!(
            "coordinator, nobody looks: {:.1} % of a core",
            share(before, begun)
        );
        let (before, begun) = (used(pid), Instant::now());
        let seconds = MEASURED.as_secs().to_string();
        look(&["--many", &format!("http://{address}/"), &count, &seconds]);
        println!(
            "coordinator, one looks: {:.1} % of a core",
            share(before, begun)
        );
    });
}
