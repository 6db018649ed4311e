//! Pools and routes that a coordinator keeps, before real memcached processes.

use crate::in_process::{connect, parsed, parsed_coordinator};
use crate::patience::{LINES, PATIENCE};
use crate::two_pools::{list, load, two_pools};
use evenkeel_coordinator::Coordinator;
use evenkeel_coordinator::api::ProxyConfigView;
use evenkeel_coordinator::api::proxy_config::Expected;
use evenkeel_coordinator::client::{ApiClient, ClientError};
use evenkeel_proxy::{Proxy, check_shared_config};
use evenkeel_testkit::{Client, Memcached, poll_until};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

/// A coordinator that runs until dropped.
struct Kept {
    address: String,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Kept {
    fn start(listen: &str, state: &Path) -> Kept {
        let state = state.to_str().expect("UTF-8");
        let line = ["coordinator", "--listen", listen, "--state", state];
        let args = parsed_coordinator(&line);
        let bound = poll_until(PATIENCE, "the port to be free", || {
            Coordinator::bind(&args, check_shared_config).ok()
        });
        let address = bound.address().to_string();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = thread::spawn(move || {
            let shutdown = async {
                let _ = stopped.await;
            };
            bound.serve(shutdown).expect("it serves");
        });
        Kept {
            address,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn api(&self) -> ApiClient {
        let client = ApiClient::new(&self.address).expect("an address");
        client.with_timeout(PATIENCE)
    }

    /// Puts a text in the place of whatever is there.
    fn put(&self, text: &str) -> u64 {
        let put = self
            .api()
            .put_proxy_config("default", text, Expected::Anything, false);
        put.unwrap_or_else(|error| panic!("{error}"))
    }

    /// What the one proxy says of itself.
    fn followed(&self) -> Option<ProxyConfigView> {
        let proxies = self.api().proxies().expect("it answers").proxies;
        proxies.first()?.config.clone()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn start(more: &[&str]) -> Proxy {
    let line = ["proxy", "-l", "127.0.0.1:0", "-t", "2"];
    let args = parsed(line.iter().chain(more));
    Proxy::start(&args).expect("the proxy starts")
}

fn await_stat(client: &mut Client, name: &str, value: &str) {
    poll_until(PATIENCE, &format!("{name} to be {value}"), || {
        (client.stats("proxy")[name] == value).then_some(())
    });
}

#[test]
fn pools_change_under_load_and_no_request_fails() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let state = dir.path().join("state");
    let mut kept = Kept::start("127.0.0.1:0", &state);
    let servers: Vec<Memcached> = (0..3).map(|_| Memcached::spawn(&[])).collect();
    let [a, b, c] = [0, 1, 2].map(|i| &servers[i]);
    kept.put(&two_pools(&[a, b], &[c]));
    let proxy = start(&["--config-coordinator", &kept.address, "--name", "p1"]);
    let mut client = connect(&proxy);
    assert_eq!(client.stats("proxy")["config_revision"], "1");
    let (stop, asked) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let clients: Vec<_> = (0..4)
        .map(|number| {
            let (address, stop, asked) = (proxy.address().to_owned(), stop.clone(), asked.clone());
            thread::spawn(move || load(&address, number, &stop, &asked))
        })
        .collect();
    let go_on = || {
        let before = asked.load(Ordering::Relaxed);
        poll_until(PATIENCE, "the clients to go on", || {
            assert!(
                !clients.iter().any(JoinHandle::is_finished),
                "a client failed"
            );
            (asked.load(Ordering::Relaxed) >= before + 200).then_some(())
        });
    };
    for text in [
        two_pools(&[a], &[c]),
        two_pools(&[a], &[b, c]),
        format!("[pools.a]\nservers = {}\n{LINES}", list(&[a, b])),
        two_pools(&[c, b], &[a]),
    ] {
        let revision = kept.put(&text);
        await_stat(&mut client, "config_revision", &revision.to_string());
        go_on();
    }
    // Nobody is told of what the coordinator cannot use.
    let bad = two_pools(&[a], &[b]).replace("pool = \"b\"", "pool = \"c\"");
    let refused = kept
        .api()
        .put_proxy_config("default", &bad, Expected::Anything, false);
    match refused.expect_err("there is no such pool") {
        ClientError::Refused {
            problems,
            status: 422,
            ..
        } => {
            assert!(
                problems[0].message.starts_with("there is no pool \"c\""),
                "{problems:?}"
            );
            assert_eq!((problems[0].line, problems[0].column), (13, 8));
        }
        error => panic!("{error}"),
    }
    // What cannot be used here alone stays without effect, and is told.
    let elsewhere = kept.put("[pools.a]\nservers_file = \"/no/such/file\"\n");
    await_stat(&mut client, "config_reload_failures", "1");
    let followed = poll_until(PATIENCE, "the operator to see it", || {
        kept.followed()
            .filter(|followed| followed.refused.is_some())
    });
    let refused = followed.refused.expect("looked for");
    assert_eq!(
        (followed.revision, followed.newest, refused.revision),
        (5, 6, elsewhere)
    );
    assert!(
        refused.reason.contains("/no/such/file"),
        "{}",
        refused.reason
    );
    assert_eq!(client.stats("proxy")["config_revision"], "5");
    go_on();
    // One that is gone, and a coordinator that is, change nothing.
    kept.api()
        .remove_proxy_config("default", Expected::Revision(elsewhere))
        .expect("there");
    let address = kept.address.clone();
    drop(kept);
    go_on();
    kept = Kept::start(&address, &state);
    go_on();
    let revision = kept.put(&two_pools(&[b], &[a]));
    await_stat(&mut client, "config_revision", &revision.to_string());
    go_on();
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().expect("no request failed");
    }
    let stats = client.stats("proxy");
    let failed = ["request_errors", "reads_unavailable"].map(|name| stats[name].as_str());
    assert_eq!(failed, ["0", "0"]);
    assert_eq!(stats["config_reloads"], "5");
    proxy.stop().expect("it stops");
}

#[test]
fn a_proxy_starts_by_its_last_configuration_and_does_not_go_back() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (state, cache) = (dir.path().join("state"), dir.path().join("cache"));
    let cache = cache.to_str().expect("UTF-8");
    let mut kept = Kept::start("127.0.0.1:0", &state);
    let (a, b) = (Memcached::spawn(&[]), Memcached::spawn(&[]));
    let one = |server: &Memcached| format!("[pools.a]\nservers = {}\n{LINES}", list(&[server]));
    kept.put("[pools.x]\nservers = [\"127.0.0.1:1\"]\n");
    let older = std::fs::read(&state).expect("a state");
    kept.put(&one(&a));
    let address = kept.address.clone();
    let flags = ["--config-coordinator", &address, "--config-cache", cache];
    start(&flags).stop().expect("it stops");
    drop(kept);
    let proxy = start(&flags);
    let mut client = connect(&proxy);
    assert_eq!(client.set("k", b"v"), "STORED");
    assert!(a.client().get("k").is_some());
    assert_eq!(client.stats("proxy")["config_revision"], "2");
    // A coordinator with an old state is not believed.
    std::fs::write(&state, older).expect("written");
    kept = Kept::start(&address, &state);
    await_stat(&mut client, "config_reload_failures", "1");
    assert_eq!(client.get("k").expect("stored").data, b"v");
    drop(kept);
    // Nor one that knows nothing of the former, unless an operator says so.
    std::fs::remove_file(&state).expect("it is there");
    kept = Kept::start(&address, &state);
    kept.put(&one(&b));
    await_stat(&mut client, "config_reload_failures", "2");
    assert_eq!(client.stats("proxy")["config_revision"], "2");
    let mut proxy = proxy;
    let reloaded = proxy.reload().expect("a configuration");
    assert_eq!(
        (reloaded.revision, reloaded.need_restart.len()),
        (Some(1), 0)
    );
    assert!(
        client.get("k").is_none(),
        "it is looked for at its new home"
    );
    // From now on changes are followed again.
    let revision = kept.put(&one(&a));
    await_stat(&mut client, "config_revision", &revision.to_string());
    assert_eq!(client.get("k").expect("stored").data, b"v");
    proxy.stop().expect("it stops");
}

#[test]
fn a_small_file_names_the_coordinator_and_a_start_waits_for_what_it_keeps() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let kept = Kept::start("127.0.0.1:0", &dir.path().join("state"));
    let memcached = Memcached::spawn(&[]);
    let path = dir.path().join("proxy.toml");
    let write = |more: &str| {
        let text = format!(
            "[proxy]\nconfig_coordinator = \"http://{}\"\nconfig_name = \"site-b\"\n{more}",
            kept.address
        );
        std::fs::write(&path, text).expect("room");
    };
    write("");
    let file = path.to_str().expect("UTF-8").to_owned();
    let starting = thread::spawn(move || start(&["--config", &file]));
    let text = format!("[pools.a]\nservers = {}\n{LINES}", list(&[&memcached]));
    kept.put("[pools.other]\nservers = [\"127.0.0.1:1\"]\n");
    let api = kept.api();
    let put = |text: &str| api.put_proxy_config("site-b", text, Expected::Anything, false);
    assert_eq!(put(&text), Ok(2));
    let mut proxy = starting.join().expect("it starts");
    let mut client = connect(&proxy);
    assert_eq!(client.set("k", b"v"), "STORED");
    assert!(memcached.client().get("k").is_some());
    // The file is read anew, and who keeps the pools is asked.
    write("max_reqs_per_event = 7\nthreads = 9\n");
    assert_eq!(
        proxy.reload().expect("a sound file").need_restart,
        [""; 0],
        "-t goes first"
    );
    assert_eq!(client.stats("settings")["reqs_per_event"], "7");
    write("[pools.a]\nservers = [\"h\"]\n");
    let error = proxy.reload().expect_err("pools stand elsewhere");
    assert!(
        error.contains("pools and routes come from the coordinator"),
        "{error}"
    );
    std::fs::write(&path, "[pools.a]\nservers = [\"h\"]\n").expect("room");
    let error = proxy.reload().expect_err("not while it runs");
    assert!(error.contains("needs a restart"), "{error}");
    // Gone: reloading reads the rest.
    write("max_reqs_per_event = 8\n");
    drop(kept);
    proxy.reload().expect("what is in force stays");
    assert_eq!(client.stats("settings")["reqs_per_event"], "8");
    assert_eq!(client.get("k").expect("stored").data, b"v");
    proxy.stop().expect("it stops");
}

#[test]
fn operators_have_a_command_for_it() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let kept = Kept::start("127.0.0.1:0", &dir.path().join("state"));
    let path = dir.path().join("pools.toml");
    let file = path.to_str().expect("UTF-8");
    let config = |words: &[&str]| {
        let line = [
            &["proxy", "config"],
            words,
            &["--coordinator", &kept.address],
        ]
        .concat();
        let args = parsed(line);
        evenkeel_proxy::run(args).map_err(|error| error.to_string())
    };
    let current = || kept.api().proxy_config("default").expect("it is there");
    assert!(config(&["get"]).unwrap_err().contains("no_proxy_config"));
    std::fs::write(&path, "[pools.a]\nservers = [\"h\"]\n").expect("room");
    config(&["check", file]).expect("sound");
    config(&["put", file, "--if-revision", "0"]).expect("nothing was there");
    assert_eq!(current().id.revision, 1);
    let refused = config(&["put", file, "--if-revision", "0"]).unwrap_err();
    assert!(refused.contains("at revision 1"), "{refused}");
    for bad in [
        "[pools.a]\nservers = []\n",
        "[proxy]\nthreads = 3\n[pools.a]\nservers = [\"h\"]\n",
        "[pools.a]\nservers_file = \"relative\"\n",
    ] {
        std::fs::write(&path, bad).expect("room");
        for words in [&["put", file][..], &["check", file]] {
            let refused = config(words).unwrap_err();
            assert!(
                refused.contains("cannot be used: 1 found wrong"),
                "{refused}"
            );
        }
    }
    // A file of other machines is not looked for here.
    std::fs::write(&path, "[pools.a]\nservers_file = \"/etc/servers\"\n").expect("room");
    config(&["put", file, "--if-revision", "1"]).expect("sound");
    assert_eq!(current().id.revision, 2);
    config(&["status"]).expect("an answer");
    config(&["remove", "--if-revision", "1"]).expect_err("it is at 2");
    config(&["remove", "--if-revision", "2"]).expect("it was at 2");
    assert!(config(&["get"]).is_err());
}
