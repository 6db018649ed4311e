//! What operators use: `memcached-tool` unmodified, and the words that need a whole process.

use std::process::Command;
use std::time::Duration;

use evenkeel_testkit::{Client, Cluster, ClusterOptions, evenkeel, poll_until};

/// Where Debian's memcached package puts it.
const TOOL: &str = "/usr/share/memcached/scripts/memcached-tool";

/// What is awaited has come by then, unless something hangs.
const END_DEADLINE: Duration = Duration::from_secs(60);

/// Runs `memcached-tool` against a server and gives what it printed.
fn tool(address: &str, mode: &[&str]) -> String {
    let output = Command::new("perl")
        .arg(TOOL)
        .arg(address)
        .args(mode)
        .output()
        .expect("perl runs");
    assert!(
        output.status.success(),
        "memcached-tool (package memcached) failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn memcached_tool_works_unmodified() {
    let server = evenkeel::server(&["-t", "2", "-o", "track_sizes"]);
    let address = server.address().to_string();
    let mut client = Client::connect(server.address());
    for number in 0..50 {
        client.set(&format!("key:{number}"), b"value");
    }
    client.set("large", &[b'v'; 3000]);

    let display = tool(&address, &[]);
    let classes: Vec<Vec<&str>> = display
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect();
    let counts: Vec<&str> = classes.iter().map(|class| class[4]).collect();
    assert_eq!(counts, ["50", "1"], "{display}");
    assert_eq!((classes[0][1], classes[1][1]), ("64B", "4.0K"), "{display}");

    let stats = tool(&address, &["stats"]);
    let shows = |text: &str, name: &str, value: &str| {
        text.lines()
            .any(|line| line.split_whitespace().eq([name, value]))
    };
    assert!(shows(&stats, "curr_items", "51"), "{stats}");
    let settings = tool(&address, &["settings"]);
    assert!(shows(&settings, "track_sizes", "yes"), "{settings}");
    let sizes = tool(&address, &["sizes"]);
    assert!(shows(&sizes, "32", "50"), "{sizes}");

    let keys = tool(&address, &["keys"]);
    assert_eq!(keys.matches("key=key%3A").count(), 50, "{keys}");
    let dump = tool(&address, &["dump"]);
    assert_eq!(dump.matches("add key:").count(), 50, "{dump}");
    assert!(dump.contains("add key:7 0 0 5\r\nvalue\r\n"), "{dump}");
}

#[test]
fn shutdown_ends_the_process_where_it_is_allowed() {
    for command in ["shutdown\r\n", "shutdown graceful\r\n"] {
        let mut server = evenkeel::server(&["-A"]);
        let mut client = Client::connect(server.address());
        client.send(command.as_bytes());
        assert!(server.wait(END_DEADLINE).success(), "{command}");
    }
}

#[test]
fn a_watcher_sees_what_other_connections_do() {
    let server = evenkeel::server(&["-t", "2"]);
    let mut watcher = Client::connect(server.address());
    assert_eq!(watcher.command("watch mutations deletions"), "OK");
    let mut client = Client::connect(server.address());
    for number in 0..20 {
        client.set(&format!("key{number}"), b"value");
    }
    client.delete("key7");
    let mut keys: Vec<String> = (0..21)
        .map(|_| {
            let line = watcher.line();
            let word = |name: &str| {
                line.split(' ')
                    .find_map(|word| word.strip_prefix(name))
                    .unwrap_or_else(|| panic!("no {name} in `{line}`"))
                    .to_owned()
            };
            assert!(word("ts=").contains('.') && !word("gid=").is_empty());
            format!("{} {}", word("type="), word("key="))
        })
        .collect();
    keys.sort();
    let mut expected: Vec<String> = (0..20).map(|n| format!("item_store key{n}")).collect();
    expected.push("deleted key7".to_owned());
    expected.sort();
    assert_eq!(keys, expected);
}

#[test]
fn a_test_moves_the_clock_past_an_expiry() {
    let server = evenkeel::server(&["-t", "2", "--test-commands"]);
    let mut client = Client::connect(server.address());
    for number in 0..20 {
        client.set_with(&format!("key{number}"), 0, 100, b"value");
    }
    assert_eq!(client.command("debugtime 99"), "OK");
    assert!(client.get("key1").is_some());
    assert_eq!(client.command("debugtime 2"), "OK");
    for number in 0..20 {
        assert!(client.get(&format!("key{number}")).is_none());
    }
}

#[test]
fn the_memory_limit_changes_under_load() {
    let server = evenkeel::server(&["-t", "2", "-m", "64"]);
    let mut client = Client::connect(server.address());
    let value = vec![b'v'; 10_000];
    for number in 0..4000 {
        client.set(&format!("key{number}"), &value);
    }
    assert_eq!(client.command("cache_memlimit 16"), "OK");
    poll_until(END_DEADLINE, "memory that is given back", || {
        let stats = client.stats("evenkeel");
        let used: u64 = stats["memory_used_bytes"].parse().expect("a number");
        (used <= 16 << 20).then_some(())
    });
    let stats = client.stats("");
    assert_eq!(stats["limit_maxbytes"], (16 << 20).to_string());
    assert_ne!(stats["evictions"], "0");
    assert_eq!(client.set("still", b"here"), "STORED");
}

/// A cluster with next to nothing to do tells its hottest key and why nothing is done about it; its coordinator says who has
/// come and what was changed by whom.
#[test]
fn a_calm_cluster_shows_its_hottest_key_and_logs_what_changes() {
    // By default a worker looks from the part of its time that it is busy, and a busy machine makes it so: the key would have
    // copies, and is not listed here then.
    let calm = ClusterOptions::nobody_dies().with_settings(r#"{"hot_trigger_rps":1e9}"#);
    let cluster = Cluster::start(calm);
    let coordinator = cluster.coordinator_url();
    let mut client = cluster.proxy_client();
    assert_eq!(client.set("favourite", b"v"), "STORED");
    let hottest = poll_until(END_DEADLINE, "the hottest key to be told", || {
        (0..20).for_each(|_| drop(client.get("favourite")));
        let (_, body) = cluster.http_get("/api/v1/hotkeys").ok()?;
        let view: serde_json::Value = serde_json::from_str(&body).ok()?;
        let first = view["hottest"].get(0)?.clone();
        (first["key"] == "favourite" && first["gets_per_s"].as_f64()? > 1.0).then_some(first)
    });
    let why = hottest["why"].as_str().expect("words");
    assert!(why.starts_with("its worker carries "), "{why}");
    assert!(
        why.ends_with(" requests/s, and looks from 1000000000"),
        "{why}"
    );
    let home = hottest["server"].as_str().expect("a name");
    let top = evenkeel::run(&["top", "--once", "--coordinator", &coordinator]);
    let shown = String::from_utf8_lossy(&top.stdout).into_owned();
    assert!(shown.contains(&format!("favourite at {home}: ")), "{shown}");

    cluster.change_settings(r#"{"hot_keys":"observe"}"#);
    let said = cluster
        .coordinator
        .await_stderr("setting=hot_keys from=on to=observe");
    for line in [
        // In the order in which they came.
        " INFO evenkeel coordinator: map created servers=s",
        " INFO evenkeel coordinator: an operator asks from=127.0.0.1 method=PUT path=/api/v1/settings",
        " INFO evenkeel coordinator: a setting was changed setting=hot_keys from=on to=observe",
    ] {
        assert!(said.contains(line), "{line} in\n{said}");
    }
}
