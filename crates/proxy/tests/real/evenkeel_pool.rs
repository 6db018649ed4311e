//! The proxy in front of a cluster of real Evenkeel processes.

use crate::patience::{FLAGS, PATIENCE};
use evenkeel_testkit::{Client, Cluster, ClusterOptions, Signal, evenkeel, http, poll_until};
use std::time::Duration;

#[test]
fn keys_live_on_all_workers_and_an_application_notices_nothing() {
    let flags = [&["--allow-flush"], &FLAGS[..]].concat();
    let cluster = Cluster::start(ClusterOptions {
        servers: 3,
        threads: 2,
        proxy_args: flags.iter().map(ToString::to_string).collect(),
        ..ClusterOptions::default()
    });
    let mut client = cluster.proxy_client();
    let keys: Vec<String> = (0..500).map(|i| format!("key:{i}")).collect();
    for key in &keys {
        assert_eq!(client.set_with(key, 7, 0, key.as_bytes()), "STORED");
    }
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    let values = client.get_many(&names);
    assert_eq!(values.len(), names.len());
    for (value, name) in values.iter().zip(&names) {
        assert_eq!((value.key.as_str(), value.flags), (*name, 7));
        assert_eq!(value.data, name.as_bytes());
    }
    let servers = client.stats("servers");
    let asked = (1..=3).flat_map(|server| (0..2).map(move |worker| (server, worker)));
    for (server, worker) in asked {
        let answers: u64 = servers[&format!("s{server}/{worker}:answers")]
            .parse()
            .expect("a number");
        assert!(answers > 50, "s{server}/{worker} answered {answers}");
    }
    assert_eq!(client.command("flush_all"), "OK");
    assert!(client.get_many(&names).is_empty());
    assert_eq!(client.stats("proxy")["request_errors"], "0");
}

#[test]
fn a_proxy_says_that_it_listens_only_once_it_has_a_map() {
    let coordinator = evenkeel::coordinator(&["--initial-servers", "1"]);
    let url = format!("http://{}", coordinator.address());
    let mut proxy = evenkeel::command("proxy")
        .args(["-l", "127.0.0.1:0", "--coordinator", &url, "--name", "p1"])
        .spawn();
    poll_until(PATIENCE, "the proxy to have asked for a map", || {
        let (_, proxies) = http::get(coordinator.address(), "/api/v1/proxies").ok()?;
        proxies.contains("\"p1\"").then_some(())
    });
    assert_eq!(proxy.next_line(Duration::ZERO), None);
    let _server = evenkeel::server(&["--coordinator", &url, "--name", "s1"]);
    let line = proxy.next_line(PATIENCE).expect("a ready line");
    let address = line
        .strip_prefix("evenkeel proxy listening on ")
        .expect("its own words");
    let mut client = Client::connect(address.parse().expect("an address"));
    assert_eq!(client.set("a", b"x"), "STORED");
    proxy.signal(Signal::Terminate);
    assert!(proxy.wait(PATIENCE).success());
}

#[test]
fn bad_usage_is_one_line_and_exit_code_2() {
    for (arguments, named) in [
        (&["proxy"][..], "one of -s"),
        (&["proxy", "-s", "a:b"], "-s: server \"a:b\""),
        (&["proxy", "-s", "a", "-t", "0"], "-t 0"),
        (&["proxy", "-s", "a", "--coordinator", "b"], "--coordinator"),
        (
            &["proxy", "--coordinator", "not a url", "-l", "127.0.0.1:0"],
            "not a url",
        ),
    ] {
        let output = evenkeel::run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(named), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
    }
}
