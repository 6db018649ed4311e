//! `evenkeel ring`: a server is drained with all that it has, and one that has died is lost, as an operator does it.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use evenkeel_testkit::{Client, Memcached, evenkeel, http, poll_until};
use serde_json::Value;

const DEADLINE: Duration = Duration::from_secs(60);

const KEYS: usize = 300;

fn command(coordinator: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command
        .arg("ring")
        .args(arguments)
        .args(["--coordinator", coordinator]);
    command
}

/// What the command prints. It has to succeed.
fn ring(coordinator: &str, arguments: &[&str]) -> String {
    let output = command(coordinator, arguments).output();
    let output = output.expect("the program was built for this test");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn shown(coordinator: SocketAddr) -> Option<Value> {
    let (_, body) = http::get(coordinator, "/api/v1/rings").ok()?;
    let shown: Value = serde_json::from_str(&body).ok()?;
    shown["rings"].get(0).cloned()
}

/// Waits until a server has no part of the ring, and nothing moves.
fn wait_until_gone(coordinator: SocketAddr, server: &str) {
    poll_until(DEADLINE, "a server to have no part", || {
        let ring = shown(coordinator)?;
        let mut servers = ring["servers"].as_array()?.iter();
        let part = servers.find(|it| it["name"] == *server)?["share"].as_f64()?;
        (part == 0.0 && ring["change"]["stage"] == "done").then_some(())
    });
}

#[test]
fn a_server_is_drained_with_all_that_it_has_and_a_dead_one_is_lost() {
    let mut servers: Vec<Memcached> = (0..3).map(|_| Memcached::spawn(&["-t", "1"])).collect();
    let names: Vec<String> = servers.iter().map(|it| it.address().to_string()).collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = folder.path().join("state").display().to_string();
    let coordinator = evenkeel::coordinator(&["--state", &state]);
    let url = format!("http://{}", coordinator.address());
    let file = folder.path().join("proxy.toml");
    let text = format!(
        "[proxy]\nname = \"p1\"\n[pools.main]\nservers = [\"{}\"]\ndistribution = \"adaptive\"\n\
         pool_coordinator = \"{url}\"\n",
        names.join("\", \"")
    );
    std::fs::write(&file, text).expect("room");
    let proxy = evenkeel::proxy(&["--config", &file.display().to_string()]);
    let mut client = Client::connect(proxy.address());
    for n in 0..KEYS {
        let value = format!("value {n}");
        assert_eq!(
            client.set(&format!("key {n}").replace(' ', "%"), value.as_bytes()),
            "STORED"
        );
    }
    let copied = ["--copy-keys-per-second", "100000"];
    ring(&url, &[&["settings", "main"], &copied[..]].concat());
    let drain = ["drain", "main", &names[1], "--proxies", "1"];
    let said = ring(&url, &drain);
    assert!(
        said.contains(&format!("server {} is drained", names[1])),
        "{said}"
    );
    // It is taken back where a busy machine keeps requests waiting: then once more.
    poll_until(DEADLINE, "all that moves to be copied", || {
        let copy = shown(coordinator.address())?["copy"].clone();
        if copy["is_over"] == true {
            let of = &copy["servers"][0];
            assert_eq!(of["server"], *names[1]);
            assert!(of["moving"].as_u64() > Some(0), "{copy}");
            assert_eq!(
                (&of["moving"], &of["refused"]),
                (&of["found"], &Value::from(0))
            );
            return Some(());
        }
        let _ = command(&url, &drain).output();
        None
    });
    wait_until_gone(coordinator.address(), &names[1]);
    servers[1].process().kill();
    for n in 0..KEYS {
        let value = client.get(&format!("key%{n}"));
        let value = value.unwrap_or_else(|| panic!("key {n} is lost"));
        assert_eq!(value.data, format!("value {n}").into_bytes());
    }
    servers[2].process().kill();
    let said = ring(&url, &["lose", "main", &names[2], "--proxies", "1"]);
    assert!(
        said.contains(&format!("server {} is lost", names[2])),
        "{said}"
    );
    wait_until_gone(coordinator.address(), &names[2]);
    for n in 0..KEYS {
        assert_eq!(client.set(&format!("key%{n}"), b"new"), "STORED");
    }
    let told = client.stats("proxy");
    let plan: u64 = told["main:plan"].parse().expect("a number");
    assert!(plan >= 3 && told["main:stage"] == "done", "{told:?}");
}
