//! Servers that are dead, asleep, half there, slow or wrong, in front of real sockets: what each kind
//! of request is answered, after which wait, and that everything is well again by itself.

use crate::in_process::{connect, parsed};
use crate::patience::PATIENCE;
use crate::scripted::{Manner, Scripted};
use evenkeel_proxy::Proxy;
use evenkeel_testkit::{Client, Memcached, Signal, poll_until};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long a server may take for an answer, and for taking a connection: those that are well never take so long, and
/// one that is not is waited for no longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Nobody waits for so long who waits for one answer: more is a time that nobody has set.
const TOO_LONG: Duration = Duration::from_secs(40);

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

/// A request of each kind about a key whose server does wrong; what the application must get if gets
/// are answered as misses.
const COMMANDS: [(&str, Expected); 8] = [
    ("get {there}", Expected::Miss("END")),
    ("get {here} {there}", Expected::HereAlone),
    ("mg {there} v", Expected::Miss("EN")),
    ("set {there} 0 0 1\r\n2", Expected::Unknown),
    ("add {there} 0 0 1\r\n2", Expected::Unknown),
    ("incr {there} 1", Expected::Unknown),
    ("delete {there}", Expected::Unknown),
    ("gat 100 {there}", Expected::Miss("END")),
];

#[derive(Clone, Copy)]
enum Expected {
    /// This line, or an error.
    Miss(&'static str),
    /// The value of the key whose server is well; then the end, or an error.
    HereAlone,
    /// An error that says that the outcome is not known.
    Unknown,
}

/// What a server may do wrong once it was asked.
const MANNERS: [Manner; 5] = [
    Manner::Silent,
    Manner::Nonsense,
    Manner::WrongKey,
    Manner::BreaksOff,
    Manner::HangsUp,
];

#[test]
fn each_kind_of_wrong_server_is_a_miss_or_an_error_in_time_and_harms_no_other_key() {
    for manner in MANNERS {
        // All at a time: some of them only wait.
        std::thread::scope(|scope| {
            for (command, expected) in COMMANDS {
                for on_down in ["miss", "error"] {
                    scope.spawn(move || check_wrong(manner, command, expected, on_down));
                }
            }
        });
    }
}

fn check_wrong(manner: Manner, command: &str, expected: Expected, on_down: &str) {
    let case = format!("{manner:?}, {command:?}, on_down {on_down}");
    let memcached = Memcached::spawn(&["-t", "1"]);
    let well = memcached.address();
    let wrong = Scripted::start(Manner::Well);
    let proxy = start(&[well, wrong.address()], &["--on-down", on_down]);
    let mut client = connect(&proxy);
    let mut other = connect(&proxy);
    let (here, there) = one_key_each(&mut client, well);
    wrong.forget_heard();
    wrong.behave(manner);

    let line = command.replace("{here}", &here).replace("{there}", &there);
    let asked = Instant::now();
    client.send(format!("{line}\r\n").as_bytes());
    // Another connection's key on the server that is well is not held up by it.
    assert_eq!(other.set(&here, b"5"), "STORED", "{case}");
    if matches!(expected, Expected::HereAlone) {
        let header = client.line();
        assert_eq!(header, format!("VALUE {here} 0 1"), "{case}");
        client.line();
    }
    let answer = client.line();
    let took = asked.elapsed();
    assert!(took < TOO_LONG, "{case}: {took:?}");
    if manner == Manner::Silent {
        assert!(took >= REQUEST_TIMEOUT, "{case}: {took:?}");
    }
    let is_error = answer.starts_with(&format!("SERVER_ERROR backend {} ", wrong.address()));
    match (expected, on_down) {
        (Expected::Miss(miss), "miss") => assert_eq!(answer, miss, "{case}"),
        (Expected::HereAlone, "miss") => assert_eq!(answer, "END", "{case}"),
        (Expected::Unknown, _) => {
            let says_so = answer.ends_with("outcome unknown") || answer.ends_with("nonsense");
            assert!(is_error && says_so, "{case}: {answer}");
            let is_waited_for = answer.contains(" timed out, ");
            assert_eq!(is_waited_for, manner == Manner::Silent, "{case}: {answer}");
        }
        _ => assert!(is_error, "{case}: {answer}"),
    }
    let word = command.split(' ').next().unwrap_or_default();
    let times = wrong.heard().iter().filter(|l| l.starts_with(word)).count();
    let times_max = match word {
        // A read may be put to the server again after its connection was lost.
        "get" | "mg" => 3,
        // Each new connection begins with deleting what the server may have missed.
        "delete" => wrong.connections(),
        _ => 1,
    };
    assert!(
        (1..=times_max).contains(&times),
        "{case}: asked {times} times"
    );

    // Whatever the server says from now on, the next answer is not taken for this one.
    assert_eq!(client.command("mn"), "MN", "{case}");
    assert_eq!(client.set(&here, b"7"), "STORED", "{case}");
    wrong.behave(Manner::Well);
    poll_until(PATIENCE, "the server to be used again", || {
        (client.set(&there, b"3") == "STORED").then_some(())
    });
    assert_eq!(
        client.get(&there).map(|value| value.data),
        Some(b"3".to_vec()),
        "{case}"
    );
    proxy.stop().expect("it stops");
}

#[test]
fn an_answer_that_comes_too_late_is_nobodys() {
    let wrong = Scripted::start(Manner::Well);
    let proxy = start(&[wrong.address()], &[]);
    let mut client = connect(&proxy);
    assert_eq!(client.set("a", b"old"), "STORED");
    wrong.behave(Manner::Silent);
    client.send(b"get a\r\nset a 0 0 3\r\nnew\r\n");
    assert_eq!(client.line(), "END");
    let late = format!(
        "SERVER_ERROR backend {} timed out, outcome unknown",
        wrong.address()
    );
    assert_eq!(client.line(), late);
    // Now it answers both.
    wrong.behave(Manner::Well);
    poll_until(PATIENCE, "the server to be used again", || {
        (client.set("b", b"2") == "STORED").then_some(())
    });
    assert_eq!(client.get("b").map(|value| value.data), Some(b"2".to_vec()));
    assert_eq!(client.get("none"), None);
    proxy.stop().expect("it stops");
}

#[test]
fn a_server_that_takes_connections_and_never_says_a_word_is_unavailable() {
    let memcached = Memcached::spawn(&["-t", "1"]);
    let mute = Scripted::start(Manner::Mute);
    let proxy = start(&[memcached.address(), mute.address()], &[]);
    let mut client = connect(&proxy);
    let mut direct = memcached.client();
    let unavailable = format!("SERVER_ERROR backend {} ", mute.address());
    let asked = Instant::now();
    let mut refused = 0;
    for i in 0..40 {
        let key = format!("key:{i}");
        let answer = client.set(&key, b"1");
        if direct.get(&key).is_some() {
            assert_eq!(answer, "STORED");
        } else {
            assert!(answer.starts_with(&unavailable), "{answer}");
            assert_eq!(client.get(&key), None);
            refused += 1;
        }
    }
    assert!(refused > 5, "each server has its share, this one {refused}");
    let took = asked.elapsed();
    let each = refused * REQUEST_TIMEOUT;
    assert!(took < each, "only the first wait: {took:?} for {refused}");
    assert_eq!(
        mute.heard(),
        Vec::<String>::new(),
        "nothing is asked before the greeting"
    );
    proxy.stop().expect("it stops");
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

#[test]
fn a_sleeping_server_gets_no_write_twice() {
    let here = Memcached::spawn(&["-t", "1"]);
    let mut there = Memcached::spawn(&["-t", "1"]);
    let address = there.address();
    let proxy = start(&[here.address(), address], &[]);
    let mut client = connect(&proxy);
    let (on_here, on_there) = one_key_each(&mut client, here.address());
    assert_eq!(client.set(&on_there, b"10"), "STORED");
    there.process().signal(Signal::Stop);
    let asked = Instant::now();
    assert_eq!(
        client.incr(&on_there, 1),
        format!("SERVER_ERROR backend {address} timed out, outcome unknown")
    );
    let took = asked.elapsed();
    assert!((REQUEST_TIMEOUT..TOO_LONG).contains(&took), "{took:?}");
    assert_eq!(client.incr(&on_here, 1), "2", "other keys do not wait");
    there.process().signal(Signal::Continue);
    let value = poll_until(PATIENCE, "the server to be used again", || {
        client.command("mn");
        let answer = there.client().get(&on_there)?;
        String::from_utf8(answer.data).ok()?.parse::<u64>().ok()
    });
    assert!((10..=11).contains(&value), "once at most: {value}");
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

#[test]
fn a_dead_server_costs_one_write_and_then_its_keys_live_elsewhere() {
    let servers: Vec<Memcached> = (0..3).map(|_| Memcached::spawn(&["-t", "1"])).collect();
    let addresses: Vec<SocketAddr> = servers.iter().map(Memcached::address).collect();
    let proxy = start(&addresses, &["--failover", "next"]);
    let mut client = connect(&proxy);
    let keys: Vec<String> = (0..60).map(|i| format!("key:{i}")).collect();
    for key in &keys {
        assert_eq!(client.set(key, b"1"), "STORED");
    }
    let mut servers = servers;
    servers[1].process().kill();
    let mut errors = 0;
    for round in 0..3 {
        for key in &keys {
            let answer = client.set(key, b"2");
            errors += u32::from(answer != "STORED");
            if round > 0 {
                assert_eq!(answer, "STORED", "{key}");
                assert_eq!(
                    client.get(key).map(|v| v.data),
                    Some(b"2".to_vec()),
                    "{key}"
                );
            }
        }
    }
    assert!(errors <= 2, "{errors} writes were refused");
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    assert_eq!(client.get_many(&names).len(), names.len());
    proxy.stop().expect("it stops");
}
