//! Hot keys on real processes: what an operator is shown of them, and what clients get that know
//! nothing of them.

use evenkeel_testkit::{Client, Cluster, ClusterOptions, http, poll_until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long anything may take that the cluster does by itself, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const KEY: &str = "page:home";

fn cluster(server_args: &[&str]) -> Cluster {
    Cluster::start(ClusterOptions {
        threads: 1,
        server_args: server_args.iter().map(ToString::to_string).collect(),
        proxy_args: vec!["-t".into(), "1".into()],
        ..ClusterOptions::default()
    })
}

/// Reads the key through the proxy while `watch` waits for something.
fn while_read<T>(cluster: &Cluster, watch: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let mut reader = cluster.proxy_client();
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    reader.get(KEY);
                }
            });
        }
        // Also when an assertion fails: the readers would go on for ever.
        let _stops = Stops(&stop);
        watch()
    })
}

struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn json(address: SocketAddr, path: &str) -> Value {
    let (status, body) = http::get(address, path).expect("an answer");
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).expect("JSON")
}

/// The first element of a list for which `is_it`.
fn find(list: &Value, is_it: impl Fn(&Value) -> bool) -> Option<Value> {
    list.as_array()?.iter().find(|one| is_it(one)).cloned()
}

fn admin_addresses(cluster: &Cluster) -> Vec<SocketAddr> {
    let address = |server: &evenkeel_testkit::Process| {
        poll_until(PATIENCE, "the line with the address", || {
            let told = server.stderr_text();
            let line = told.lines().find_map(|line| {
                line.strip_prefix("evenkeel server: probes are answered on ")
                    .map(str::to_owned)
            })?;
            line.parse().ok()
        })
    };
    cluster.servers.iter().map(address).collect()
}

#[test]
fn an_operator_sees_why_a_key_was_replicated_what_came_of_it_and_what_observing_would_do() {
    let cluster = cluster(&["--hot-trigger-rps", "50", "--admin", "127.0.0.1:0"]);
    let admins = admin_addresses(&cluster);
    let coordinator = cluster.coordinator.address();
    assert_eq!(cluster.proxy_client().set(KEY, b"hello"), "STORED");
    while_read(&cluster, || {
        let key = poll_until(PATIENCE, "the coordinator to hear of a hot key", || {
            let hot = json(coordinator, "/api/v1/hotkeys");
            find(&hot["keys"], |key| key["key"] == KEY && key["gamma"] == 2)
        });
        let home = key["server"].as_str().expect("a name").to_owned();
        // The event, and five seconds later its effect.
        let event = poll_until(PATIENCE, "the effect of the promotion", || {
            let log = json(coordinator, "/api/v1/hotkeys/events");
            let is_it = |e: &Value| e["deed"] == "promoted" && e["after"] != Value::Null;
            find(&log["events"], is_it)
        });
        assert_eq!(
            (&event["key"], &event["server"]),
            (&KEY.into(), &home.into())
        );
        let number = |value: &Value| value.as_f64().expect("a number");
        let before = number(&event["before"]["served_rps"]);
        assert!(before > 0.0 && number(&event["key_rps"]) > 0.0, "{event}");
        assert!(number(&event["expected_rps"]) < before, "{event}");

        // What servers say themselves.
        let replicas = poll_until(PATIENCE, "replicas that are read", || {
            let held = admins.iter().filter_map(|&admin| {
                let page = json(admin, "/api/v1/replicas");
                find(&page["replicas"], |replica| replica["key"] == KEY)
            });
            let held: Vec<Value> = held.collect();
            let read = held
                .iter()
                .filter(|replica| number(&replica["reads"]) > 10.0);
            (read.count() == 2).then_some(held)
        });
        assert_eq!(replicas.len(), 2, "the home holds none");
        assert!(replicas.iter().all(|replica| replica["bytes"] == 5));
        let told = admins.iter().filter(|&&admin| {
            let page = json(admin, "/api/v1/hotkeys");
            let (status, metrics) = http::get(admin, "/metrics").expect("an answer");
            assert_eq!(status, 200);
            let replicated = "evenkeel_hot_keys_replicated 1";
            let is_home = metrics.lines().any(|line| line == replicated);
            let keys = &page["workers"][0]["keys"];
            assert_eq!(find(keys, |key| key["gamma"] == 2).is_some(), is_home);
            is_home
        });
        assert_eq!(told.count(), 1);

        // Observing takes the replicas back, and says what they would do.
        let observe = r#"{"hot_keys":"observe"}"#;
        let (status, _) =
            http::put_json(coordinator, "/api/v1/settings", observe).expect("an answer");
        assert_eq!(status, 200);
        poll_until(PATIENCE, "the key to be observed", || {
            let hot = json(coordinator, "/api/v1/hotkeys");
            let key = find(&hot["keys"], |key| key["key"] == KEY)?;
            let proposed = key["proposed"].as_array()?.len();
            let balance = |which: &str| number(&hot[which]["max_over_mean"]);
            let gains = balance("with_observed") < 0.8 * balance("without_replicas");
            (proposed == 2 && key["gamma"] == 0 && gains).then_some(())
        });
        let log = json(coordinator, "/api/v1/hotkeys/events");
        let caused = |e: &Value| e["deed"] == "retired" && e["cause"] == "switched_off";
        assert!(find(&log["events"], caused).is_some(), "{log}");
        assert!(find(&log["events"], |e| e["deed"] == "would_promote").is_some());
    });
}

/// What a memcached client may ask of a key, again and again, with answers that depend on what was
/// asked before.
const SCRIPT: [&str; 22] = [
    "set K 5 0 2\r\nv1\r\n",
    "get K\r\n",
    "gets K\r\n",
    "append K 0 0 2\r\n+a\r\n",
    "prepend K 0 0 2\r\nb+\r\n",
    "get K L K\r\n",
    "add K 0 0 1\r\nx\r\n",
    "replace K 7 0 1\r\n8\r\n",
    "incr K 4\r\n",
    "decr K 20\r\n",
    "touch K 0\r\n",
    "gat 0 K\r\n",
    "mg K v f t s\r\n",
    "ms K 1 T0\r\n7\r\n",
    "ma K v D5\r\n",
    "cas K 0 0 1 1\r\ny\r\n",
    "get K\r\n",
    "delete K\r\n",
    "get K\r\n",
    "mg K v\r\n",
    "delete K\r\n",
    "set K 0 0 5\r\nhello\r\n",
];

/// Carries the script out and gives all answers, without CAS uniques.
fn carry_out(client: &mut Client, key: &str) -> Vec<String> {
    let mut answers = Vec::new();
    for step in SCRIPT {
        client.send(step.replace('K', key).replace('L', "absent").as_bytes());
        client.send(b"mn\r\n");
        loop {
            let line = client.line();
            if line == "MN" {
                break;
            }
            let words: Vec<&str> = line.split(' ').collect();
            answers.push(match words.as_slice() {
                ["VALUE", key, flags, len, _unique] => format!("VALUE {key} {flags} {len} unique"),
                _ => line,
            });
        }
    }
    answers
}

/// Keys that each server has looked up, for clients or as replicas.
fn reads_by_server(cluster: &Cluster) -> Vec<f64> {
    let reads = |index| {
        let mut client = cluster.server_client(index);
        let mut stats: BTreeMap<String, String> = client.stats("");
        stats.extend(client.stats("evenkeel"));
        let count = |name: &str| stats[name].parse::<f64>().expect("a number");
        count("cmd_get") + count("replica_hits")
    };
    (0..cluster.servers.len()).map(reads).collect()
}

/// The largest part of the reads that one server got while `read` went on.
fn largest_part(cluster: &Cluster, read: impl FnOnce()) -> f64 {
    let before = reads_by_server(cluster);
    read();
    let after = reads_by_server(cluster);
    let reads: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
    reads.iter().copied().fold(0.0, f64::max) / reads.iter().sum::<f64>()
}

fn is_hot(cluster: &Cluster) -> bool {
    (0..cluster.servers.len()).any(|index| {
        let keys = cluster.server_client(index).stats("hotkeys");
        keys.get(KEY)
            .is_some_and(|facts| facts.contains("state=HOT "))
    })
}

#[test]
fn unaware_clients_lose_nothing_and_gain_everything_through_the_proxy() {
    let off = cluster(&["--hot-keys", "off"]);
    let on = cluster(&["--hot-trigger-rps", "50"]);
    for cluster in [&off, &on] {
        assert_eq!(cluster.proxy_client().set(KEY, b"hello"), "STORED");
    }
    while_read(&on, || {
        poll_until(PATIENCE, "the key to get hot", || is_hot(&on).then_some(()));
        // Straight to a server: its home, where it is hot, or one of the others, two of which hold a
        // replica that such a client must not see. All is as if there were no hot keys.
        for index in 0..3 {
            let expected = carry_out(&mut off.server_client(index), KEY);
            for _ in 0..20 {
                assert_eq!(carry_out(&mut on.server_client(index), KEY), expected);
            }
        }
        poll_until(PATIENCE, "the key to be hot again", || {
            is_hot(&on).then_some(())
        });
        let value = on.proxy_client().get(KEY).expect("it was stored last");
        assert_eq!(value.data, b"hello");
    });

    // Through the proxy its reads are spread over all three; without hot keys, one has them all.
    let read = |cluster: &Cluster| {
        let mut client = cluster.proxy_client();
        for _ in 0..6_000 {
            client.get(KEY).expect("it is there");
        }
    };
    let part = largest_part(&off, || read(&off));
    assert!(part > 0.95, "{part}");
    let part = poll_until(PATIENCE, "reads to be spread", || {
        let part = largest_part(&on, || read(&on));
        (part < 0.45).then_some(part)
    });
    assert!(part > 1.0 / 3.0 - 0.01, "nobody can have less: {part}");
}
