//! Servers that are killed and stopped, behind real sockets: what is answered meanwhile, and that everything is well again by itself.
//! What each kind of wrong server does to each kind of request is in the tests of the core.

use crate::in_process::{connect, parsed};
use crate::patience::PATIENCE;
use evenkeel_proxy::Proxy;
use evenkeel_testkit::{Client, Memcached, Signal, poll_until};
use std::net::SocketAddr;
use std::time::Duration;

/// How long a server may take for an answer, and for taking a connection: those that are well never take this long, and
/// one that is not is waited for no longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// A proxy of one thread in front of these servers.
fn start(servers: &[SocketAddr], more: &[&str]) -> Proxy {
    let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
    let servers = servers.join(",");
    let timeout = format!("{}ms", REQUEST_TIMEOUT.as_millis());
    let line = [
        "proxy",
        "-l",
        "127.0.0.1:0",
        "-t",
        "1",
        "-s",
        &servers,
        "--request-timeout",
        &timeout,
        "--connect-timeout",
        &timeout,
    ];
    let args = parsed(line.iter().chain(more));
    Proxy::start(&args).expect("the proxy starts")
}

/// Stores keys through the proxy until there is one that the first server has and one that it has
/// not. Both connections have answered something afterwards.
fn one_key_each(client: &mut Client, first: SocketAddr) -> (String, String) {
    let mut direct = Client::connect(first);
    let (mut here, mut there) = (None, None);
    for i in 0.. {
        let key = format!("key:{i}");
        direct.delete(&key);
        assert_eq!(client.set(&key, b"1"), "STORED");
        match direct.get(&key) {
            Some(_) => here = Some(key),
            None => there = Some(key),
        }
        if let (Some(here), Some(there)) = (&here, &there) {
            return (here.clone(), there.clone());
        }
    }
    unreachable!("the loop has no end")
}

#[test]
fn a_killed_server_is_used_again_once_it_is_back() {
    let here = Memcached::spawn(&["-t", "1"]);
    let mut there = Memcached::spawn(&["-t", "1"]);
    let address = there.address();
    let proxy = start(&[here.address(), address], &[]);
    let mut client = connect(&proxy);
    let (on_here, on_there) = one_key_each(&mut client, here.address());
    there.process().kill();
    let both = format!("get {on_there} {on_here}\r\nincr {on_there} 1\r\nincr {on_here} 1\r\n");
    client.send(both.as_bytes());
    assert_eq!(client.line(), format!("VALUE {on_here} 0 1"));
    assert_eq!((client.line(), client.line()), ("1".into(), "END".into()));
    let error = client.line();
    assert!(
        error.starts_with(&format!("SERVER_ERROR backend {address} ")),
        "{error}"
    );
    assert!(!error.contains("timed out"), "nobody waits for it: {error}");
    assert_eq!(client.line(), "2");
    drop(there);
    let port = address.port().to_string();
    let again = Memcached::spawn(&["-t", "1", "-p", &port]);
    assert_eq!(again.address(), address);
    poll_until(PATIENCE, "the server to be used again", || {
        (client.set(&on_there, b"3") == "STORED").then_some(())
    });
    assert_eq!(
        again.client().get(&on_there).map(|v| v.data),
        Some(b"3".to_vec())
    );
    proxy.stop().expect("it stops");
}

/// Names of servers and what `stats servers` counts of them, added up.
fn count(client: &mut Client, server: SocketAddr, name: &str) -> u64 {
    client.stats("servers")[&format!("{server}:{name}")]
        .parse()
        .expect("a count")
}

#[test]
fn keys_of_a_sleeping_server_go_to_the_next_and_nothing_old_is_read_when_it_wakes() {
    let here = Memcached::spawn(&["-t", "1"]);
    let mut there = Memcached::spawn(&["-t", "1"]);
    let address = there.address();
    let proxy = start(&[here.address(), address], &["--failover", "next"]);
    let mut client = connect(&proxy);
    let (on_here, written) = one_key_each(&mut client, here.address());
    let mut direct = there.client();
    let mut more = (0..).map(|i| format!("more:{i}"));
    let mut next_key = |client: &mut Client, direct: &mut Client| loop {
        let key = more.next().expect("it has no end");
        assert_eq!(client.set(&key, b"old"), "STORED");
        if direct.get(&key).is_some() {
            return key;
        }
    };
    let deleted = next_key(&mut client, &mut direct);
    let untouched = next_key(&mut client, &mut direct);
    assert_eq!(client.set(&written, b"old"), "STORED");
    there.process().signal(Signal::Stop);
    poll_until(PATIENCE, "the key to be taken elsewhere", || {
        (client.set(&written, b"new") == "STORED" && here.client().get(&written).is_some())
            .then_some(())
    });
    assert_eq!(client.get(&written).map(|v| v.data), Some(b"new".to_vec()));
    assert_eq!(client.delete(&deleted), "NOT_FOUND");
    assert_eq!(client.get(&untouched), None);
    let refused = client.command(&format!("cas {written} 0 0 1 1\r\nx"));
    assert!(
        refused.starts_with("SERVER_ERROR the key's server"),
        "{refused}"
    );
    assert_eq!(client.incr(&on_here, 1), "2");
    there.process().signal(Signal::Continue);
    // The key that nobody wrote is found where it was; until then it is looked for elsewhere.
    let kept = poll_until(PATIENCE, "the server to be used again", || {
        client.get(&untouched)
    });
    assert_eq!(kept.data, b"old");
    assert_eq!(client.get(&written), None, "its old value is out of date");
    assert_eq!(client.get(&deleted), None);
    assert_eq!(direct.get(&written), None);
    assert_eq!(count(&mut client, address, "outages"), 1);
    assert!(count(&mut client, address, "caught_up") >= 2);
    assert_eq!(count(&mut client, address, "unfenced"), 0);
    proxy.stop().expect("it stops");
}
