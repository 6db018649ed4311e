//! Pools, routes and reloads before real processes.

use crate::in_process::{connect, parsed};
use crate::patience::{LINES, PATIENCE};
use crate::two_pools::{list, load, two_pools};
use evenkeel_proxy::Proxy;
use evenkeel_testkit::{
    Client, Cluster, ClusterOptions, Memcached, Signal, evenkeel, http, poll_until,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use tempfile::TempDir;

/// A file that can be written again.
struct File {
    _dir: TempDir,
    path: PathBuf,
}

impl File {
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("proxy.toml");
        let file = File { _dir: dir, path };
        file.write(text);
        file
    }

    fn write(&self, text: &str) {
        // At once: a look in between would find half of it, and count that.
        let next = self.path.with_extension("next");
        std::fs::write(&next, text).expect("room");
        std::fs::rename(&next, &self.path).expect("the same folder");
    }

    fn start(&self) -> Proxy {
        let path = self.path.to_str().expect("UTF-8");
        let line = ["proxy", "--config", path, "-l", "127.0.0.1:0", "-t", "2"];
        Proxy::start(&parsed(line)).expect("the proxy starts")
    }
}

#[test]
fn two_pools_by_prefix_and_a_multi_get_over_both() {
    let (a, b) = (Memcached::spawn(&[]), Memcached::spawn(&[]));
    let proxy = File::new(&two_pools(&[&a], &[&b])).start();
    let mut client = connect(&proxy);
    for key in ["1", "b:1", "2", "b:2"] {
        assert_eq!(client.set(key, key.as_bytes()), "STORED");
    }
    let values = client.get_many(&["b:2", "1", "none", "2", "b:1"]);
    let keys: Vec<&str> = values.iter().map(|value| value.key.as_str()).collect();
    assert_eq!(keys, ["b:2", "1", "2", "b:1"]);
    assert!(
        values
            .iter()
            .all(|value| value.data == value.key.as_bytes())
    );
    assert!(a.client().get("1").is_some() && a.client().get("b:1").is_none());
    assert!(b.client().get("b:1").is_some() && b.client().get("1").is_none());
    client.send(b"config get cluster\r\n");
    let len = client.line();
    assert!(len.starts_with("CONFIG cluster 0 "), "{len}");
    assert!(client.line().parse::<u64>().expect("a version") > 1_600_000_000);
    // The proxy, as this client reached it, and no server.
    let own: std::net::SocketAddr = proxy.address().parse().expect("an address");
    assert_eq!(
        client.line(),
        format!("{}|{}|{}", own.ip(), own.ip(), own.port())
    );
    assert_eq!(
        (client.line(), client.line()),
        (String::new(), "END".into())
    );
    proxy.stop().expect("it stops");
}

#[test]
fn a_pool_of_evenkeel_servers_beside_one_of_any() {
    let cluster = Cluster::start(ClusterOptions::nobody_dies());
    let memcached = Memcached::spawn(&[]);
    let file = File::new(&format!(
        "[pools.old]\nservers = {}\n{LINES}[pools.new]\ncoordinator = \"{}\"\n{LINES}[[routes]]\npool = \"old\"\n\
         [[routes]]\nprefix = \"new:\"\npool = \"new\"\nstrip_prefix = true\n",
        list(&[&memcached]),
        cluster.coordinator_url()
    ));
    let mut proxy = file.start();
    let mut client = connect(&proxy);
    let keys: Vec<String> = (0..40)
        .map(|i| format!("{}{i}", ["", "new:"][i % 2]))
        .collect();
    for key in &keys {
        assert_eq!(client.set(key, key.as_bytes()), "STORED");
    }
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    let found: Vec<String> = client.get_many(&names).into_iter().map(|v| v.key).collect();
    assert_eq!(found, keys);
    assert!(memcached.client().get("0").is_some() && memcached.client().get("new:1").is_none());
    let seen = cluster
        .proxy_client()
        .get("1")
        .expect("known by its stripped name");
    assert_eq!(seen.data, b"new:1");
    // All to the Evenkeel servers now; what was stored there is still there.
    file.write(&format!(
        "[pools.new]\ncoordinator = \"{}\"\n{LINES}",
        cluster.coordinator_url()
    ));
    proxy.reload().expect("a sound file");
    assert_eq!(client.get("1").expect("it is there").data, b"new:1");
    proxy.stop().expect("it stops");
}

#[test]
fn a_file_that_cannot_be_used_changes_nothing() {
    let (a, b) = (Memcached::spawn(&[]), Memcached::spawn(&[]));
    let good = two_pools(&[&a], &[&b]);
    let file = File::new(&good);
    let mut proxy = file.start();
    let mut client = connect(&proxy);
    assert_eq!(client.set("b:1", b"x"), "STORED");
    let before = client.stats("proxy");
    file.write(&good.replace("pool = \"b\"", "pool = \"c\""));
    let error = proxy.reload().expect_err("there is no such pool");
    assert!(
        error.contains("there is no pool \"c\" (there are a, b)"),
        "{error}"
    );
    assert!(error.contains("pool = \"c\"\n"), "the line itself: {error}");
    assert_eq!(client.get("b:1").expect("it was stored").data, b"x");
    let after = client.stats("proxy");
    for name in ["config_generation", "config_digest"] {
        assert_eq!(before[name], after[name]);
    }
    let refusal = format!("{}:", file.path.display());
    assert!(after["config_refusal"].starts_with(&refusal), "{after:?}");
    assert_ne!(client.stats("")["proxy_config_reload_failures"], "0");
    file.write(&format!("[proxy]\nthreads = 7\nconn_limit = 5\n{good}"));
    let reloaded = proxy.reload().expect("a sound file");
    assert_eq!(
        reloaded.need_restart,
        ["conn_limit"],
        "-t goes before the file"
    );
    assert_eq!(
        client.stats("settings")["proxy_config_digest"],
        reloaded.digest
    );
    let stats = client.stats("proxy");
    assert_ne!(stats["config_reloads"], "0");
    assert_eq!(stats["config_refusal"], "none");
    proxy.stop().expect("it stops");
}

#[test]
fn reloads_under_load_fail_no_request() {
    let servers: Vec<Memcached> = (0..4).map(|_| Memcached::spawn(&[])).collect();
    let [a, b, c, d] = [0, 1, 2, 3].map(|i| &servers[i]);
    let file = File::new(&two_pools(&[a, b], &[c]));
    let mut proxy = file.start();
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..4)
        .map(|number| {
            let (address, stop, asked) = (proxy.address().to_owned(), stop.clone(), asked.clone());
            thread::spawn(move || load(&address, number, &stop, &asked))
        })
        .collect();
    let configurations = [
        two_pools(&[a, b, d], &[c]),
        two_pools(&[a], &[c]),
        two_pools(&[a], &[b, c]),
        // The other pool, other names, no second pool at all.
        two_pools(&[a], &[b, c]).replace("\"b:\"\npool = \"b\"", "\"b:\"\npool = \"a\""),
        two_pools(&[d, c], &[a]).replace(
            "\"b:\"\n",
            "\"b:\"\nstrip_prefix = true\nadd_prefix = \"z\"\n",
        ),
        format!("[pools.a]\nservers = {}\n{LINES}", list(&[a, b])),
        two_pools(&[a, b], &[c]),
    ];
    for round in 0..3 {
        for text in &configurations {
            let before = asked.load(Ordering::Relaxed);
            file.write(text);
            proxy
                .reload()
                .unwrap_or_else(|error| panic!("{round}: {error}"));
            poll_until(PATIENCE, "the clients to go on", || {
                assert!(
                    !clients.iter().any(|client| client.is_finished()),
                    "a client failed"
                );
                (asked.load(Ordering::Relaxed) >= before + 200).then_some(())
            });
        }
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().expect("no request failed");
    }
    let mut client = connect(&proxy);
    let stats = client.stats("proxy");
    assert_eq!(
        (
            stats["request_errors"].as_str(),
            stats["reads_unavailable"].as_str()
        ),
        ("0", "0")
    );
    assert!(stats["config_reloads"].parse::<u64>().expect("a number") >= 21);
    proxy.stop().expect("it stops");
}

#[test]
fn a_process_reads_its_file_again_on_sighup_and_says_what_came_of_it() {
    let (a, b) = (Memcached::spawn(&[]), Memcached::spawn(&[]));
    let file = File::new(&two_pools(&[&a], &[&b]));
    let path = file.path.to_str().expect("UTF-8");
    let mut proxy = evenkeel::proxy(&["--config", path]);
    let mut client = Client::connect(proxy.address());
    assert_eq!(client.set("b:1", b"x"), "STORED");
    let await_count = |client: &mut Client, name: &str| {
        poll_until(PATIENCE, "the proxy to have read its file", || {
            (client.stats("proxy")[name] != "0").then_some(())
        });
    };
    file.write("[pools.a]\nservers = []\n");
    proxy.signal(Signal::Hangup);
    await_count(&mut client, "config_reload_failures");
    assert_eq!(client.get("b:1").expect("it was stored").data, b"x");
    file.write(&two_pools(&[&a], &[&a]));
    proxy.signal(Signal::Hangup);
    await_count(&mut client, "config_reloads");
    assert!(
        client.get("b:1").is_none(),
        "it is looked for at its new home"
    );
    proxy.signal(Signal::Terminate);
    assert!(proxy.wait(PATIENCE).success());
    let said = proxy.stderr_text();
    assert!(
        said.contains(&format!(
            "{path}:2:11: a pool without servers holds no keys"
        )),
        "{said}"
    );
    assert!(said.contains("configuration 2 is in force, md5 "), "{said}");
}

/// Nobody says so to the process. What cannot be used is told, and the former configuration stays in force.
#[test]
fn a_changed_file_is_taken_over_under_load_and_fails_no_request() {
    let servers: Vec<Memcached> = (0..3).map(|_| Memcached::spawn(&[])).collect();
    let [a, b, c] = [0, 1, 2].map(|i| &servers[i]);
    let file = File::new(&two_pools(&[a, b], &[c]));
    let path = file.path.to_str().expect("UTF-8");
    let proxy = evenkeel::proxy(&["--config", path, "--admin", "127.0.0.1:0"]);
    let said = proxy.await_stderr("probes are answered on ");
    let (_, admin) = said.split_once("probes are answered on ").expect("where");
    let admin = admin.lines().next().expect("an address");
    let metric = |name: &str| {
        let page = http::get(admin.parse().expect("an address"), "/metrics");
        let (_, text) = page.expect("an answer");
        let mut lines = text.lines();
        lines.any(|line| line == name).then_some(())
    };
    let mut client = Client::connect(proxy.address());
    let first = client.stats("proxy")["config_digest"].clone();
    assert!(said.contains(&format!("configuration 1 is in force, md5 {first}")));
    let (stop, asked) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let clients: Vec<_> = (0..4)
        .map(|number| {
            let address = proxy.address().to_string();
            let (stop, asked) = (stop.clone(), asked.clone());
            thread::spawn(move || load(&address, number, &stop, &asked))
        })
        .collect();
    let go_on = || {
        let before = asked.load(Ordering::Relaxed);
        poll_until(PATIENCE, "the clients to go on", || {
            let has_failed = clients.iter().any(|client| client.is_finished());
            assert!(!has_failed, "a client failed");
            (asked.load(Ordering::Relaxed) >= before + 200).then_some(())
        });
    };
    go_on();
    let mut digest = first;
    for text in [two_pools(&[a], &[c]), two_pools(&[c, b], &[a])] {
        file.write(&text);
        let former = digest;
        digest = poll_until(PATIENCE, "the file to be taken over", || {
            let now = client.stats("proxy")["config_digest"].clone();
            (now != former).then_some(now)
        });
        go_on();
    }
    // A file that cannot be used, and none at all.
    let bad = two_pools(&[a], &[b]).replace("pool = \"b\"", "pool = \"c\"");
    let refusal = |client: &mut Client, words: &str| {
        poll_until(PATIENCE, words, || {
            client.stats("proxy")["config_refusal"]
                .contains(words)
                .then_some(())
        });
    };
    file.write(&bad);
    refusal(&mut client, "there is no pool \"c\"");
    std::fs::remove_file(&file.path).expect("it is there");
    refusal(&mut client, "No such file");
    assert_eq!(client.stats("proxy")["config_digest"], digest);
    metric("evenkeel_proxy_config_refused 1").expect("a refusal");
    metric("evenkeel_proxy_config_reload_failures_total 2").expect("both are counted");
    metric(&format!("evenkeel_proxy_config_info{{md5=\"{digest}\"}} 1")).expect("which file");
    go_on();
    // The file in force is back.
    file.write(&two_pools(&[c, b], &[a]));
    refusal(&mut client, "none");
    metric("evenkeel_proxy_config_refused 0").expect("no refusal");
    go_on();
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().expect("no request failed");
    }
    let stats = client.stats("proxy");
    let failed = ["request_errors", "reads_unavailable"].map(|name| stats[name].as_str());
    assert_eq!(failed, ["0", "0"]);
    assert_eq!(stats["config_reloads"], "2");
    proxy.await_stderr(&format!("is in force, md5 {digest}"));
    proxy.await_stderr("kept the configuration there was");
}

#[test]
fn checking_a_file_ends_with_the_code_that_scripts_expect() {
    let file = File::new("[pools.a]\nservers = [\"h\"]\n");
    let path = file.path.to_str().expect("UTF-8");
    let check = |more: &[&str]| {
        let output = evenkeel::run(&[&["proxy", "check", path], more].concat());
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let (code, said) = check(&[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.starts_with(&format!("{path}: fine: 1 pools, 1 routes, md5 ")),
        "{said}"
    );
    file.write("[pools.a]\nservers = []\n");
    let (code, said) = check(&[]);
    let place =
        format!("{path}:2:11: a pool without servers holds no keys\n  |\n2 | servers = []\n");
    assert_eq!((code, said.starts_with(&place)), (Some(2), true), "{said}");
    let (code, said) = check(&["--format", "json"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("\"line\":2") && said.contains("\"column\":11"),
        "{said}"
    );
    let output = evenkeel::run(&["proxy", "--config", path]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), error.lines().count()),
        (Some(2), 1),
        "{error}"
    );
}
