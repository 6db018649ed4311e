//! Whether a server is there: its workers' ports have to answer as the process that sends, or sent, the heartbeats.
//!
//! A name that stands for nothing would be given cachelets, whose keys nobody would serve. So the first heartbeat of
//! each process waits until the coordinator has said hello to each of its workers, by the host and the ports
//! under which all others will look for them, and was answered by that worker of that process. What a firewall or a
//! wrong `--host` would keep from the proxies is found out at the start, too. Later it is asked again when its
//! heartbeats do not come.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_protocol::{HelloReply, Limits, Reply, ReplyOutcome, compose, parse_reply};
use evenkeel_types::map::ServerEntry;
use evenkeel_types::{BootId, Epoch};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use evenkeel_coordinator_core::{Heartbeat, Refusal};

/// Time for all workers of a server: less than a member waits for the answer to its heartbeat.
const PATIENCE: Duration = Duration::from_millis(700);

/// Workers of one server that are asked at a time: a server far away with many is known within the time.
const WORKERS_AT_ONCE: usize = 8;

/// Servers that are looked for at a time. Others wait, and come again with their next heartbeats.
const SERVERS_AT_ONCE: usize = 16;

/// A worker's answer is shorter.
const ANSWER_LEN_MAX: usize = 512;

/// A process of a server, and where others reach it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process<'a> {
    name: &'a str,
    host: &'a str,
    worker_ports: &'a [u16],
    boot: BootId,
}

impl<'a> From<&'a Heartbeat> for Process<'a> {
    fn from(of: &'a Heartbeat) -> Self {
        Process {
            name: &of.name,
            host: &of.host,
            worker_ports: &of.worker_ports,
            boot: of.boot,
        }
    }
}

impl<'a> From<&'a ServerEntry> for Process<'a> {
    fn from(of: &'a ServerEntry) -> Self {
        Process {
            name: &of.name,
            host: &of.host,
            worker_ports: &of.worker_ports,
            boot: of.boot,
        }
    }
}

/// Looks for servers.
#[derive(Debug)]
pub(crate) struct Reach {
    permits: Semaphore,
}

impl Reach {
    pub(crate) fn new() -> Self {
        Reach {
            permits: Semaphore::new(SERVERS_AT_ONCE),
        }
    }

    /// Asks each worker of the server who it is: those of one process, at these ports of a host.
    ///
    /// # Errors
    ///
    /// [`Refusal::Unreachable`] names the first worker that is no use.
    pub(crate) async fn look_for(&self, server: Process<'_>) -> Result<(), Refusal> {
        let first = server.worker_ports.first().copied().unwrap_or(0);
        let until = Instant::now() + PATIENCE;
        let ms = PATIENCE.as_millis();
        let asked = match timeout_at(until, self.permits.acquire()).await {
            // Never closed.
            Ok(_permit) => (timeout_at(until, ask_all(&server, first)).await)
                .unwrap_or_else(|_| Err((first, format!("no answer within {ms} ms")))),
            Err(_) => Err((
                first,
                format!("too many servers begin at once to ask it within {ms} ms"),
            )),
        };
        asked.map_err(|(port, why)| Refusal::Unreachable {
            name: server.name.to_owned(),
            host: server.host.to_owned(),
            port,
            why,
        })
    }
}

/// Asks all workers; an error tells which port is no use, and why: `first` where it is not one of them in particular.
async fn ask_all(server: &Process<'_>, first: u16) -> Result<(), (u16, String)> {
    let mut workers = (0u16..).zip(server.worker_ports.iter().copied());
    let mut asked = JoinSet::new();
    let found = lookup_host((server.host, first)).await;
    let found = found.map_err(|error| (first, error.to_string()))?;
    // A host may have an address that its server does not listen on.
    let host: Arc<[IpAddr]> = found.map(|address| address.ip()).collect();
    loop {
        while asked.len() < WORKERS_AT_ONCE
            && let Some((worker, port)) = workers.next()
        {
            let (host, boot) = (Arc::clone(&host), server.boot);
            asked.spawn(async move {
                let answer = ask(&host, port, worker, boot).await;
                answer.map_err(|why| (port, why))
            });
        }
        match asked.join_next().await {
            None => return Ok(()),
            // Of a task that was not cancelled and does not panic.
            Some(answer) => answer.unwrap_or_else(|error| Err((first, error.to_string())))?,
        }
    }
}

async fn ask(host: &[IpAddr], port: u16, worker: u16, boot: BootId) -> Result<(), String> {
    let answer = hello(host, port).await;
    match answer.map_err(|error| error.to_string())? {
        Some(hello) if hello.boot == boot && hello.worker.worker == worker => Ok(()),
        Some(hello) => Err(format!(
            "it is worker {} of process {} that answers there, not {worker} of {boot}",
            hello.worker.worker, hello.boot
        )),
        None => Err("it is no Evenkeel server that answers there".to_owned()),
    }
}

/// Says hello; `None` for an answer that is none.
async fn hello(host: &[IpAddr], port: u16) -> std::io::Result<Option<HelloReply>> {
    let addresses: Vec<_> = host.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
    let mut stream = TcpStream::connect(&addresses[..]).await?;
    let mut line = Vec::new();
    compose::request::hello(&mut line, Epoch(0));
    stream.write_all(&line).await?;
    let mut answer = Vec::with_capacity(ANSWER_LEN_MAX);
    loop {
        let is_over = stream.read_buf(&mut answer).await? == 0;
        match parse_reply(&answer, &Limits::default()) {
            ReplyOutcome::Reply {
                reply: Reply::Hello(hello),
                ..
            } => return Ok(Some(hello)),
            ReplyOutcome::Incomplete { .. } if !is_over && answer.len() < ANSWER_LEN_MAX => {}
            _ => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_coordinator_core::{LoadReport, MemberKind};
    use evenkeel_testkit::worker_ports;
    use std::net::{Ipv4Addr, TcpListener};

    fn server(boot: u64, worker_ports: Vec<u16>) -> Heartbeat {
        serde_json::from_value(serde_json::json!({
            "cluster": "c", "kind": MemberKind::Server, "name": "s1", "boot": boot, "host": "localhost",
            "port": 1, "worker_ports": worker_ports, "epoch": 0, "load": LoadReport::default(),
        }))
        .unwrap()
    }

    fn look_for(server: &Heartbeat) -> Result<(), Refusal> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(Reach::new().look_for(server.into()))
    }

    /// Which port is no use, and why.
    fn found(server: &Heartbeat) -> (u16, String) {
        match look_for(server) {
            Err(Refusal::Unreachable { port, why, .. }) => (port, why),
            other => panic!("{other:?}"),
        }
    }

    /// The same, where a busy machine may need several tries, as a server does.
    fn found_in_time(server: &Heartbeat) -> (u16, String) {
        let mut tries = (0..100).map(|_| found(server));
        let in_time = tries.find(|(_, why)| !why.contains("no answer within"));
        in_time.expect("an answer in time")
    }

    #[test]
    fn a_server_all_of_whose_workers_answer_is_there() {
        let workers = 2 * WORKERS_AT_ONCE as u16 + 1;
        let server = server(7, worker_ports(7, workers));
        // A busy machine may need several tries, as a server does.
        let found = (0..100).map(|_| look_for(&server)).find(Result::is_ok);
        assert_eq!(found, Some(Ok(())));
    }

    #[test]
    fn one_of_whom_a_worker_is_missing_or_another_s_is_not() {
        let ports = worker_ports(7, 3);
        let (port, why) = found_in_time(&server(8, ports.clone()));
        assert!(ports.contains(&port) && why.contains("process 7"), "{why}");
        let crossed = vec![ports[0], ports[2], ports[1]];
        let (port, why) = found_in_time(&server(7, crossed.clone()));
        assert!(crossed[1..].contains(&port), "{port}");
        assert!(why.contains("it is worker"), "{why}");
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let closed_port = closed.local_addr().unwrap().port();
        drop(closed);
        let (port, why) = found_in_time(&server(7, vec![ports[0], closed_port]));
        assert_eq!(port, closed_port);
        assert!(why.contains("refused"), "{why}");
    }

    #[test]
    fn who_says_nothing_or_something_else_is_not() {
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = silent.local_addr().unwrap().port();
        let (at, why) = found(&server(7, vec![port]));
        assert_eq!(at, port);
        assert!(why.contains("no answer within"), "{why}");
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = other.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in other.incoming() {
                std::io::Write::write_all(&mut stream.unwrap(), b"ERROR\r\n").unwrap();
            }
        });
        let (_, why) = found_in_time(&server(7, vec![port]));
        assert!(why.contains("no Evenkeel"), "{why}");
    }
}
