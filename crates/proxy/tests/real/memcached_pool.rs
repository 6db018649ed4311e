//! The proxy's threads and sockets in front of real memcached processes.

use crate::in_process::{connect, parsed};
use crate::patience::{FLAGS, PATIENCE};
use evenkeel_proxy::{Args, Proxy};
use evenkeel_runtime::UsageError;
use evenkeel_testkit::{Client, Memcached, Signal, evenkeel, poll_until, undisturbed};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;

/// Arguments of a proxy on a free port in front of these servers.
fn args(servers: &[SocketAddr], more: &[&str]) -> Args {
    let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
    let servers = servers.join(",");
    let line = ["proxy", "-l", "127.0.0.1:0", "-s", &servers];
    parsed(line.iter().chain(more))
}

fn start(servers: &[SocketAddr], more: &[&str]) -> Proxy {
    let flags = [&FLAGS, more].concat();
    Proxy::start(&args(servers, &flags)).expect("the proxy starts")
}

#[test]
fn large_values_and_deep_pipelines_pass_through() {
    let memcached = Memcached::spawn(&["-I", "2m"]);
    let proxy = start(&[memcached.address()], &["-I", "2m"]);
    let mut client = connect(&proxy);
    let value: Vec<u8> = (0..1_500_000u32).map(|i| (i % 251) as u8).collect();
    assert_eq!(client.set("large", &value), "STORED");
    assert_eq!(client.get("large").expect("it was stored").data, value);
    assert_eq!(client.set("n", b"0"), "STORED");
    let mut pipeline = Vec::new();
    for _ in 0..20_000 {
        pipeline.extend_from_slice(b"incr n 1\r\nget none\r\nincr n 1 noreply\r\n");
    }
    let answers = client.finish(&pipeline);
    let expected: String = (0..20_000)
        .map(|i| format!("{}\r\nEND\r\n", 2 * i + 1))
        .collect();
    assert_eq!(answers, expected.as_bytes());
    proxy.stop().expect("it stops");
}

#[test]
fn statistics_are_those_of_all_workers() {
    let memcached = Memcached::spawn(&[]);
    let proxy = start(&[memcached.address()], &["-t", "3"]);
    let mut clients: Vec<Client> = (0..6).map(|_| connect(&proxy)).collect();
    for client in &mut clients {
        assert_eq!(client.get("none"), None);
    }
    let stats = clients[0].stats("");
    assert_eq!(
        (stats["cmd_get"].as_str(), stats["get_misses"].as_str()),
        ("6", "6")
    );
    assert_eq!(
        (
            stats["curr_connections"].as_str(),
            stats["threads"].as_str()
        ),
        ("6", "3")
    );
    let servers = clients[1].stats("servers");
    let name = memcached.address();
    assert_eq!(servers[&format!("{name}:answers")], "6");
    assert_eq!(
        servers[&format!("{name}:connects")],
        "3",
        "one connection for each worker"
    );
    assert_eq!(clients[2].command("stats reset"), "RESET");
    poll_until(PATIENCE, "the counts of all workers to be reset", || {
        (clients[3].stats("")["cmd_get"] == "0").then_some(())
    });
    proxy.stop().expect("it stops");
}

#[test]
fn names_are_looked_up() {
    let memcached = Memcached::spawn(&[]);
    let server = format!("localhost:{}", memcached.address().port());
    let args = parsed(["proxy", "-l", "127.0.0.1:0", "-s", &server]);
    let proxy = Proxy::start(&args).expect("the proxy starts");
    let mut client = connect(&proxy);
    assert_eq!(client.set("k", b"x"), "STORED");
    proxy.stop().expect("it stops");

    let args = parsed(["proxy", "-l", "127.0.0.1:0", "-s", "no.such.host.invalid:1"]);
    let proxy = Proxy::start(&args).expect("the proxy starts");
    let mut client = connect(&proxy);
    let error = client.set("k", b"x");
    assert_eq!(
        error,
        "SERVER_ERROR backend no.such.host.invalid:1 unavailable: no such host"
    );
    proxy.stop().expect("it stops");
}

#[test]
fn a_unix_socket_serves_too() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("proxy.sock");
    let memcached = Memcached::spawn(&[]);
    let proxy = start(
        &[memcached.address()],
        &["--unix-socket", path.to_str().expect("UTF-8")],
    );
    let mut stream = UnixStream::connect(&path).expect("it listens");
    stream
        .write_all(b"set a 0 0 1\r\nx\r\nget a\r\nquit\r\n")
        .expect("it reads");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .expect("it answers and closes");
    assert_eq!(answer, "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    proxy.stop().expect("it stops");
    assert!(!path.exists(), "the socket file goes with the proxy");
}

#[test]
fn connections_over_the_limit_are_told_so() {
    let memcached = Memcached::spawn(&[]);
    let proxy = start(&[memcached.address()], &["-c", "2"]);
    let mut first = connect(&proxy);
    let mut second = connect(&proxy);
    assert_eq!(first.command("mn"), "MN");
    assert_eq!(second.command("mn"), "MN");
    let mut third = connect(&proxy);
    assert_eq!(third.line(), "ERROR Too many open connections");
    assert!(third.closed());
    drop(first);
    poll_until(PATIENCE, "a place to be free", || {
        let mut next = connect(&proxy);
        next.try_command("mn")
            .is_ok_and(|line| line == "MN")
            .then_some(())
    });
    proxy.stop().expect("it stops");
}

#[test]
fn a_stopping_proxy_answers_what_was_asked() {
    let mut memcached = Memcached::spawn(&[]);
    let proxy = start(&[memcached.address()], &[]);
    let mut client = connect(&proxy);
    assert_eq!(client.set("k", b"x"), "STORED");
    memcached.process().signal(Signal::Stop);
    client.send(b"get k\r\n");
    let stopping = std::thread::spawn(move || proxy.stop());
    memcached.process().signal(Signal::Continue);
    assert_eq!(client.line(), "VALUE k 0 1");
    stopping.join().expect("no panic").expect("it stops");
}

#[test]
fn a_port_in_use_is_an_error_of_usage() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut args = args(&["127.0.0.1:1".parse().expect("an address")], &[]);
    args.listen = Some(taken.local_addr().expect("it is bound").to_string());
    let error = Proxy::start(&args).expect_err("somebody else has the port");
    assert!(error.is::<UsageError>(), "{error:?}");
    assert!(
        error
            .to_string()
            .contains(args.listen.as_deref().expect("given")),
        "{error}"
    );
}

/// Twelve seconds of work for a server that answers a thousand requests a second, all at once, where an answer may take ten.
#[test]
fn a_cache_is_filled_at_full_speed_without_a_refusal() {
    const CLIENTS: usize = 40;
    const SETS: usize = 300;
    let server = evenkeel::server(&["-t", "1", "--test-service-time=1000000"]);
    let args = args(
        &[server.address()],
        &["--connect-timeout", "30s", "--request-timeout", "10s"],
    );
    undisturbed(|| {
        let proxy = Proxy::start(&args).expect("the proxy starts");
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| connect(&proxy)).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            let sets: String = (0..SETS)
                .map(|set| format!("set key:{number}:{set} 0 0 5\r\nvalue\r\n"))
                .collect();
            client.send(sets.as_bytes());
        }
        let mut told = clients
            .iter_mut()
            .flat_map(|client| (0..SETS).map(|_| client.line()));
        match told.find(|said| said != "STORED") {
            None => Ok(()),
            Some(said) => Err(said),
        }
    });
}
