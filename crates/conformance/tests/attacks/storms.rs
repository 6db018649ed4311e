//! Thousands who come at once do not take the place of those who are in.

use evenkeel_testkit::{Client, Process, Signal, evenkeel, http, poll_until};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest wait for anything; reached only by a failure.
const DEADLINE: Duration = Duration::from_secs(60);

/// Clients that shake hands at once. Each takes milliseconds, with the largest keys.
const HANDSHAKES: usize = 300;

/// Answers to somebody who is in, one after the other, while this many hands are shaken: at least one for fifteen. A process that shakes
/// all hands that are held out before it looks at the others comes to five.
const ANSWERS_MIN: usize = HANDSHAKES / 15;

/// Clients that connect at once, without TLS.
const CONNECTIONS: usize = 3000;

/// A process that speaks TLS at its first address, and none at another.
struct Encrypting {
    process: Process,
    plain: SocketAddr,
    _folder: TempDir,
}

/// `start` gets the plain address as `-l` takes it, and flags.
fn encrypting(start: impl FnOnce(&str, &[&str]) -> Process) -> Encrypting {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (key, certificate) = (file("key.pem"), file("certificate.pem"));
    let made = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:4096", "-nodes", "-days", "9",
        ])
        .args([
            "-subj",
            "/CN=localhost",
            "-keyout",
            &key,
            "-out",
            &certificate,
        ])
        .output()
        .expect("openssl is installed");
    assert!(made.status.success(), "{made:?}");
    // Connections to other tests come from another address, so that nobody takes the port meanwhile.
    let free = TcpListener::bind("127.0.0.2:0").expect("a free port");
    let plain = free.local_addr().expect("it is bound");
    drop(free);
    let listen = format!("notls:{plain}");
    let options = format!("ssl_chain_cert={certificate},ssl_key={key}");
    let process = start(&listen, &["-t", "1", "-b", "4096", "-Z", "-o", &options]);
    Encrypting {
        process,
        plain,
        _folder: folder,
    }
}

/// The first bytes that a client sends.
fn client_hello() -> Vec<u8> {
    let config = ClientConfig::builder()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut hello = Vec::new();
    client.write_tls(&mut hello).expect("memory");
    hello
}

/// Whether the peer has answered, and stays.
fn is_answered(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(count) => {
            assert!(count > 0, "it was closed");
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
            false
        }
    }
}

fn others_are_served_between_handshakes(mut it: Encrypting) {
    let mut client = Client::connect(it.plain);
    assert!(client.command("version").starts_with("VERSION "));
    // All hands are held out before the first is shaken.
    it.process.signal(Signal::Stop);
    let hello = client_hello();
    let mut waiting: Vec<TcpStream> = (0..HANDSHAKES)
        .map(|_| {
            let mut stream = TcpStream::connect(it.process.address()).expect("the backlog");
            stream.write_all(&hello).expect("room");
            stream.set_nonblocking(true).expect("a socket");
            stream
        })
        .collect();
    it.process.signal(Signal::Continue);
    let (mut answers, begun) = (0, Instant::now());
    while !waiting.is_empty() {
        assert!(client.command("version").starts_with("VERSION "));
        waiting.retain_mut(|stream| !is_answered(stream));
        answers += usize::from(waiting.len() < HANDSHAKES);
        assert!(begun.elapsed() < DEADLINE, "{} wait", waiting.len());
    }
    assert!(answers >= ANSWERS_MIN, "{answers}");
}

#[test]
fn a_server_serves_those_who_are_in_between_handshakes() {
    let server = encrypting(|plain, flags| evenkeel::server(&[&["-l", plain], flags].concat()));
    others_are_served_between_handshakes(server);
}

#[test]
fn a_proxy_serves_those_who_are_in_between_handshakes() {
    let behind = evenkeel::server(&["-t", "1"]);
    let address = behind.address().to_string();
    let proxy = encrypting(|plain, flags| {
        let flags = [flags, &["-s", &address]].concat();
        evenkeel::proxy_at(&format!("127.0.0.1:0,{plain}"), &flags)
    });
    others_are_served_between_handshakes(proxy);
}

/// A crowd needs more than the thousand that a process usually has.
fn allow_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, limit).expect("up to the maximum");
}

/// All come at once, and all get their answers; who was there before does, too, and so does a probe.
fn all_are_let_in(mut process: Process) {
    let admin = process.await_stderr("probes are answered on ");
    let admin = admin.rsplit_once("answered on ").expect("it says where").1;
    let admin = admin.lines().next().and_then(|at| at.trim().parse().ok());
    let mut client = Client::connect(process.address());
    assert_eq!(client.set("k", b"v"), "STORED");
    allow_descriptors();
    process.signal(Signal::Stop);
    let mut crowd: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = TcpStream::connect(process.address()).expect("the backlog");
            stream.write_all(b"get k\r\n").expect("room");
            stream
        })
        .collect();
    process.signal(Signal::Continue);
    assert_eq!(client.get("k").expect("it is stored").data, b"v");
    let health = http::get(admin.expect("an address"), "/healthz").expect("an answer");
    assert_eq!(health.0, 200);
    for stream in &mut crowd {
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
        let mut answer = [0; b"VALUE k 0 1\r\nv\r\nEND\r\n".len()];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"VALUE k 0 1\r\nv\r\nEND\r\n");
    }
    let stats = client.stats("");
    let count = (CONNECTIONS + 1).to_string();
    assert_eq!(stats["curr_connections"], count);
    assert_eq!(stats["rejected_connections"], "0");
    drop(crowd);
    poll_until(DEADLINE, "the crowd to be gone", || {
        (client.stats("")["curr_connections"] == "1").then_some(())
    });
}

const CROWD: [&str; 8] = [
    "-t",
    "1",
    "-c",
    "4000",
    "-b",
    "4096",
    "--admin",
    "127.0.0.1:0",
];

#[test]
fn a_server_lets_a_crowd_in() {
    all_are_let_in(evenkeel::server(&CROWD));
}

#[test]
fn a_proxy_lets_a_crowd_in() {
    let behind = evenkeel::server(&["-t", "1"]);
    let address = behind.address().to_string();
    all_are_let_in(evenkeel::proxy(&[&CROWD[..], &["-s", &address]].concat()));
}
