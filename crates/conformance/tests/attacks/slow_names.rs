//! A name server that says nothing stops nobody: neither a worker that wants to reach a member whose name only that name
//! server could know, nor those who use other servers by the same proxy.
//!
//! The test runs in a namespace of its own, where it may say who the machine's name server is. That one leaves each question
//! unanswered for longer than anybody here waits: a thread that waited for its answer would fail the test.

use evenkeel_testkit::{Client, Process, evenkeel, http, poll_until, worker_ports};
use serde_json::{Value, json};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Longest wait for anything; reached only by a failure.
const DEADLINE: Duration = Duration::from_secs(60);

/// Set in the namespace.
const INSIDE: &str = "TEST_IS_INSIDE_NAMESPACE";

/// Two and a half minutes for a name, with the C library's resolver.
const RESOLV_CONF: &str = "nameserver 127.0.0.99\noptions timeout:30 attempts:5\n";

const NAME_SERVER: &str = "127.0.0.99:53";

/// Runs a test of this file again where the machine's name server is the test's. True if that is here.
fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("resolv.conf");
    std::fs::write(&file, RESOLV_CONF).expect("room");
    let itself = std::env::current_exe().expect("a test is a program");
    let script =
        "ip link set lo up && mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";
    // Root needs no users of its own, and others keep who they are: a server goes on as whom it is started.
    let users: &[&str] = match rustix::process::geteuid().is_root() {
        true => &[],
        false => &["--map-current-user", "--keep-caps"],
    };
    let mut inside = Process::command(test, "unshare")
        .args(users)
        .args(["--net", "--mount", "sh", "-c", script, "sh"])
        .arg(&file)
        .arg(itself)
        .args([test, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .env("EVENKEEL_BIN", evenkeel_testkit::binary::evenkeel())
        .spawn();
    let status = inside.wait(10 * DEADLINE);
    let (said, told) = (inside.stdout_text(), inside.stderr_text());
    assert!(status.success(), "unshare, ip or the test:\n{said}\n{told}");
    assert!(said.contains("1 passed"), "{said}");
    false
}

/// A name server that knows that `known.test` is this machine, and `silent.test` for as long as it is told, and says nothing of
/// others. Gives what it is asked for.
fn name_server(knows_silent: &Arc<AtomicBool>) -> Receiver<String> {
    let socket = UdpSocket::bind(NAME_SERVER).expect("nobody else is in this namespace");
    let (asked, questions) = channel();
    let knows_silent = Arc::clone(knows_silent);
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((len, peer)) = socket.recv_from(&mut buffer) {
            let name = name_of(&buffer[12..len]);
            let is_known = match name.as_str() {
                "known.test." => true,
                "silent.test." => knows_silent.load(Ordering::Acquire),
                _ => false,
            };
            if is_known {
                answer(&socket, peer, &buffer[..len]);
            }
            // The test may have seen enough.
            let _ = asked.send(name);
        }
    });
    questions
}

/// The name that a question begins with, in the words of RFC 1035: labels, each behind its length.
fn name_of(mut question: &[u8]) -> String {
    let mut name = String::new();
    while let Some((&len, rest)) = question.split_first().filter(|(len, _)| **len > 0) {
        let (label, rest) = rest.split_at(len.into());
        name += &String::from_utf8_lossy(label).to_lowercase();
        name.push('.');
        question = rest;
    }
    name
}

/// Answers 127.0.0.1 to a question for that kind of address, and nothing to others.
fn answer(socket: &UdpSocket, peer: SocketAddr, question: &[u8]) {
    let end = 12
        + question[12..]
            .iter()
            .position(|&byte| byte == 0)
            .expect("a name ends")
        + 5;
    let is_of_old_kind = question[end - 4..end - 2] == [0, 1];
    let mut answer = question[..end].to_vec();
    // An answer, with one question, this many records, and nothing besides.
    answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_of_old_kind), 0, 0, 0, 0]);
    if is_of_old_kind {
        answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    socket.send_to(&answer, peer).expect("loopback");
}

/// Takes part in a cluster as a server whose name nobody knows, until it is dropped.
struct Nameless {
    ends: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Nameless {
    /// Returns once the coordinator has found it, as long as its name is known.
    fn join(coordinator: SocketAddr) -> Nameless {
        let ends = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ends);
        let ports = worker_ports(77, 1);
        let (joined, has_joined) = channel();
        let thread = thread::spawn(move || {
            let (mut epoch, mut lineage) = (json!(0), Value::Null);
            while !over.load(Ordering::Acquire) {
                let mut heartbeat = json!({
                    "cluster": "evenkeel", "kind": "server", "name": "nameless", "boot": 77,
                    "host": "silent.test", "port": 9, "worker_ports": ports, "epoch": epoch,
                });
                if !lineage.is_null() {
                    heartbeat["lineage"] = lineage.clone();
                }
                let text = heartbeat.to_string();
                let (status, body) =
                    http::post_json(coordinator, "/api/v1/heartbeat", &text).expect("an answer");
                if body.contains("no answer within") {
                    // The machine was too busy to find it in time.
                    continue;
                }
                assert_eq!(status, 200, "{body}");
                let answer: Value = serde_json::from_str(&body).expect("JSON");
                (epoch, lineage) = (answer["epoch"].clone(), answer["lineage"].clone());
                // The first one is waited for.
                let _ = joined.send(());
                // A member's pace, and not a wait for anything.
                thread::park_timeout(Duration::from_millis(200));
            }
        });
        has_joined.recv_timeout(DEADLINE).expect("it has joined");
        let thread = Some(thread);
        Nameless { ends, thread }
    }
}

impl Drop for Nameless {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // What went wrong there has been printed.
            let _ = thread.join();
        }
    }
}

#[test]
fn a_worker_does_not_wait_for_a_name() {
    if !is_inside("slow_names::a_worker_does_not_wait_for_a_name") {
        return;
    }
    let knows_silent = Arc::new(AtomicBool::new(true));
    let questions = name_server(&knows_silent);
    let coordinator = evenkeel::coordinator(&["--initial-servers", "2", "--silent-ms", "10000"]);
    let early = r#"{"hot_trigger_rps": 10}"#;
    let put = http::put_json(coordinator.address(), "/api/v1/settings", early);
    assert_eq!(put.expect("an answer").0, 200);
    let url = format!("http://{}", coordinator.address());
    let _nameless = Nameless::join(coordinator.address());
    knows_silent.store(false, Ordering::Release);
    let server = evenkeel::server(&[
        "-t",
        "1",
        "--coordinator",
        &url,
        "--name",
        "s1",
        "--test-endless-lease",
    ]);
    let proxy = evenkeel::proxy(
        &[
            &["--coordinator", url.as_str()],
            &evenkeel::LONG_TIMEOUTS[..],
        ]
        .concat(),
    );
    let mut at_server = Client::connect(server.address());
    // Keys of the other are refused.
    let hot = poll_until(DEADLINE, "a key of the server", || {
        let mut keys = (0..100).map(|number| format!("hot{number}"));
        keys.find(|key| at_server.set(key, b"v") == "STORED")
    });
    let mut client = Client::connect(proxy.address());
    poll_until(DEADLINE, "the proxy to know the map", || {
        (client.set(&hot, b"v") == "STORED").then_some(())
    });
    let _ = questions.try_iter().count();
    poll_until(DEADLINE, "the server to try to send replicas", || {
        for _ in 0..100 {
            assert_eq!(client.get(&hot).expect("it is stored").data, b"v");
        }
        let stats = at_server.stats("evenkeel");
        (stats["propagations"] != "0" && stats["links_lost"] != "0").then_some(())
    });
    let asked: Vec<String> = questions.try_iter().collect();
    assert!(asked.iter().any(|name| name == "silent.test."), "{asked:?}");
    // It still has its serving lease, and the connection that it had.
    for _ in 0..100 {
        assert_eq!(client.get(&hot).expect("it is stored").data, b"v");
        assert!(at_server.command("version").starts_with("VERSION "));
    }
    assert_eq!(at_server.stats("evenkeel")["answers_too_late"], "0");
}

#[test]
fn a_proxy_looks_each_name_up_by_itself() {
    if !is_inside("slow_names::a_proxy_looks_each_name_up_by_itself") {
        return;
    }
    let questions = name_server(&Arc::default());
    let server = evenkeel::server(&["-t", "1"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("proxy.toml");
    let port = server.address().port();
    let text = format!(
        "[pools.silent]\nservers = [\"silent.test:{port}\"]\nconnect_timeout = \"50s\"\n\
         request_timeout = \"50s\"\n\
         [pools.known]\nservers = [\"known.test:{port}\"]\nconnect_timeout = \"30s\"\n\
         request_timeout = \"50s\"\n\
         [[routes]]\nprefix = \"s:\"\npool = \"silent\"\n[[routes]]\npool = \"known\"\n"
    );
    std::fs::write(&file, text).expect("room");
    let proxy = evenkeel::proxy(&["-t", "1", "--config", file.to_str().expect("UTF-8")]);
    let mut waiting = Client::connect(proxy.address());
    waiting.send(b"get s:k\r\n");
    let asked = questions.recv_timeout(DEADLINE).expect("it is looked up");
    assert_eq!(asked, "silent.test.");
    let mut client = Client::connect(proxy.address());
    assert_eq!(client.set("k", b"v"), "STORED");
    assert_eq!(client.get("k").expect("it is stored").data, b"v");
    let stats = client.stats("proxy");
    assert_ne!(stats["names_asked"], "0");
    assert!(stats.contains_key("turns_slow") && stats.contains_key("turns_starved"));
}
