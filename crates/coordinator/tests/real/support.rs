//! A coordinator in a thread, members with ears, and HTTP by hand.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use evenkeel_coordinator::{Args, Coordinator};
use evenkeel_coordinator_core::{LoadReport, MemberKind};
use evenkeel_member::access::Access;
use evenkeel_member::client::ApiClient;
use evenkeel_member::{MemberConfig, MemberEvent, MemberHandle, Report};
use evenkeel_testkit::worker_ports;
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{BootId, Epoch};

/// Longest wait for anything; reached only by a failure.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A coordinator that runs until dropped.
pub struct Running {
    pub address: SocketAddr,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start(args: &Args) -> Running {
        let coordinator = Coordinator::bind(args).unwrap();
        let address = coordinator.address();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            let shutdown = async {
                let _ = stopped.await;
            };
            coordinator.serve(shutdown).unwrap();
        });
        Running {
            address,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub fn client(&self) -> ApiClient {
        let client = ApiClient::new(&self.address.to_string()).unwrap();
        client.with_timeout(DEADLINE)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

/// Flags for a test: a free port, and members that may be silent while the test writes their heartbeats by hand.
pub fn args() -> Args {
    Args {
        listen: "127.0.0.1:0".into(),
        cluster: "test".into(),
        silent_ms: 600_000,
        ..Args::default()
    }
}

/// The same for members that live. They speak every two seconds, and a busy machine may hold one up for ten.
pub fn lively() -> Args {
    Args {
        silent_ms: 12_000,
        ..args()
    }
}

/// A member that works by each map at once, and what it was told.
pub struct Member {
    pub handle: MemberHandle,
    events: Receiver<MemberEvent>,
}

pub fn config(coordinators: &[SocketAddr], kind: MemberKind, n: u16) -> MemberConfig {
    life(coordinators, kind, n, 1_000 + u64::from(n))
}

/// The same in a certain life.
pub fn life(coordinators: &[SocketAddr], kind: MemberKind, n: u16, boot: u64) -> MemberConfig {
    let worker_ports = match kind {
        MemberKind::Server => worker_ports(boot, 2),
        MemberKind::Proxy => Vec::new(),
    };
    MemberConfig {
        coordinators: coordinators.iter().map(SocketAddr::to_string).collect(),
        access: Access::default(),
        cluster: "test".into(),
        kind,
        name: format!("m{n}"),
        boot: BootId(boot),
        host: "127.0.0.1".into(),
        port: 10_000 + n,
        worker_ports,
        rack: None,
        gone_after: None,
        seed: u64::from(n),
    }
}

impl Member {
    pub fn start(config: MemberConfig) -> Member {
        let applied = Arc::new(AtomicU64::new(0));
        let (sender, events) = channel();
        let load = vec![1_000.0; config.worker_ports.len()];
        let report = {
            let applied = applied.clone();
            move || Report {
                epoch: Epoch(applied.load(Ordering::SeqCst)),
                load: LoadReport {
                    requests_per_second: load.clone(),
                    measured: None,
                    served: None,
                },
                ..Report::default()
            }
        };
        let on_event = move |event| {
            if let MemberEvent::Map(map) = &event {
                applied.store(map.epoch().0, Ordering::SeqCst);
            }
            let _ = sender.send(event);
        };
        let handle = MemberHandle::start(config, report, on_event).unwrap();
        Member { handle, events }
    }

    pub fn server(coordinator: SocketAddr, n: u16) -> Member {
        Member::start(config(&[coordinator], MemberKind::Server, n))
    }

    pub fn proxy(coordinator: SocketAddr, n: u16) -> Member {
        Member::start(config(&[coordinator], MemberKind::Proxy, n))
    }

    /// Waits for an event that `wanted` makes something of.
    pub fn wait_for<T>(&self, what: &str, mut wanted: impl FnMut(&MemberEvent) -> Option<T>) -> T {
        let until = Instant::now() + DEADLINE;
        let mut seen = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) => {
                    if let Some(found) = wanted(&event) {
                        return found;
                    }
                    seen.push(event);
                }
                Err(RecvTimeoutError::Timeout) => panic!("no {what}, but {seen:?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("ended before {what}: {seen:?}"),
            }
        }
    }

    pub fn wait_event(&self, event: &MemberEvent) {
        self.wait_for(&format!("{event:?}"), |e| (e == event).then_some(()));
    }

    pub fn wait_lost(&self) {
        self.wait_for("that no coordinator answers", |event| {
            matches!(event, MemberEvent::Lost { .. }).then_some(())
        });
    }

    pub fn wait_map(&self, what: &str, wanted: impl Fn(&ClusterMap) -> bool) -> Arc<ClusterMap> {
        self.wait_for(what, |event| match event {
            MemberEvent::Map(map) if wanted(map) => Some(map.clone()),
            _ => None,
        })
    }

    /// What has happened and was not waited for.
    pub fn events_so_far(&self) -> Vec<MemberEvent> {
        self.events.try_iter().collect()
    }
}

/// Whether every cachelet has an owner, and each worker's share is even.
pub fn is_even(map: &ClusterMap) -> bool {
    let owners = &map.document().cachelets;
    if owners.contains(&None) {
        return false;
    }
    let workers: usize = map.servers().iter().map(|s| s.worker_ports.len()).sum();
    let mut shares = std::collections::BTreeMap::new();
    for owner in owners.iter().flatten() {
        *shares.entry(owner).or_insert(0) += 1;
    }
    let most = shares.values().max().copied().unwrap_or(0);
    let least = shares.values().min().copied().unwrap_or(0);
    shares.len() == workers && most - least <= 1
}

/// Sends bytes and reads until the other side closes.
pub fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    // The other side may close before it has read everything; its answer counts.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// A whole request; the connection closes after the answer.
pub fn request(method: &str, path: &str, content_type: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: {content_type}\r\ncontent-length: {len}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Sends a heartbeat; again where the machine was too busy for the server's ports to be found in time.
pub fn beat(address: SocketAddr, body: &str) -> (u16, String) {
    loop {
        let answer = call(address, "POST", "/api/v1/heartbeat", body);
        if !answer.1.contains("no answer within") {
            return answer;
        }
    }
}

pub fn call(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let answer = exchange(address, &request(method, path, "application/json", body));
    let status = answer.split(' ').nth(1).and_then(|s| s.parse().ok());
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = status.unwrap_or_else(|| panic!("no status in {answer:?}"));
    (status, body.to_owned())
}
