//! Multi-gets of which a part is enough, before real memcacheds of which one is stopped.

use crate::patience::LINES;
use crate::two_pools::list;
use evenkeel_testkit::{Client, Memcached, Signal, evenkeel};
use std::collections::BTreeMap;

const KEYS: usize = 60;

/// What a pseudo key is answered, and the keys that follow it.
fn limited(client: &mut Client, limit: &str) -> (BTreeMap<String, usize>, Vec<String>) {
    let keys: Vec<String> = (0..KEYS).map(|n| format!("k{n}")).collect();
    client.send(format!("get limit:{limit} {}\r\n", keys.join(" ")).as_bytes());
    let head = client.line();
    assert!(
        head.starts_with(&format!("VALUE limit:{limit} 0 ")),
        "{head}"
    );
    let told = client.line();
    let counts = told.split(' ').map(|count| {
        let (name, count) = count.split_once('=').expect("a count");
        (name.to_owned(), count.parse().expect("a number"))
    });
    let counts = counts.collect();
    let mut found = Vec::new();
    loop {
        let line = client.line();
        if line == "END" {
            return (counts, found);
        }
        let key = line.split(' ').nth(1).expect("VALUE KEY …").to_owned();
        assert_eq!(client.line(), format!("value of {key}"));
        found.push(key);
    }
}

fn gets_of(server: &Memcached) -> usize {
    let stats = server.client().stats("");
    stats["cmd_get"].parse().expect("a number")
}

#[test]
fn a_part_is_answered_with_one_server_stopped_and_by_fewer_servers() {
    let mut servers: Vec<Memcached> = (0..4).map(|_| Memcached::spawn(&["-t", "1"])).collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("proxy.toml");
    let of = list(&servers.iter().collect::<Vec<_>>());
    let text = format!("[proxy]\nlimit_keys = true\n[pools.main]\nservers = {of}\n{LINES}");
    std::fs::write(&path, text).expect("room");
    let proxy = evenkeel::proxy(&["--config", &path.display().to_string()]);
    let mut client = Client::connect(proxy.address());
    for n in 0..KEYS {
        let value = format!("value of k{n}");
        assert_eq!(client.set(&format!("k{n}"), value.as_bytes()), "STORED");
    }
    let before: usize = servers.iter().map(gets_of).sum();
    let (counts, found) = limited(&mut client, "25%");
    assert!(found.len() >= KEYS / 4 && counts["left"] > 0, "{counts:?}");
    let asked = servers.iter().map(gets_of).sum::<usize>() - before;
    assert_eq!(asked, counts["asked"]);

    servers[0].process().signal(Signal::Stop);
    let (counts, found) = limited(&mut client, "20ms");
    assert_eq!(counts["found"], found.len());
    assert!(counts["late"] > 0 && counts["left"] == 0, "{counts:?}");
    servers[0].process().signal(Signal::Continue);
    // The answers that nobody waited for are no others'.
    let (counts, found) = limited(&mut client, "100%");
    assert_eq!((found.len(), counts["late"]), (KEYS, 0), "{counts:?}");
}
