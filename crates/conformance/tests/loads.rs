//! What a cluster of real processes says of the loads of its cachelets.

use std::process::Command;
use std::time::{Duration, Instant};

use evenkeel_testkit::{Client, Cluster, ClusterOptions, binary, poll_until};
use serde_json::Value;

/// How often loads are measured and told; `evenkeel_policy::cachelet_load::INTERVAL`.
const INTERVAL: Duration = Duration::from_millis(500);

/// What a machine that also runs other tests may take besides.
const DELAYS: Duration = Duration::from_secs(1);

/// When anything must be seen at the latest.
const SEEN_DEADLINE: Duration = Duration::from_secs(20);

const VALUE_BYTES: usize = 1000;

fn cachelets(cluster: &Cluster) -> Value {
    let (status, text) = cluster
        .http_get("/api/v1/cachelets?sort=load")
        .expect("it answers");
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

fn number(of: &Value, name: &str) -> f64 {
    of[name]
        .as_f64()
        .unwrap_or_else(|| panic!("no {name} in {of}"))
}

/// What a command of an operator prints.
fn output(arguments: &[&str]) -> String {
    let output = Command::new(binary::evenkeel())
        .args(arguments)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "evenkeel {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A client that reads a key at a steady pace, and what it has read.
struct Reader {
    client: Client,
    begun: Instant,
    reads: u64,
}

impl Reader {
    /// Reads as often as is due by now at this rate.
    fn go_on(&mut self, per_second: f64) {
        let due = self.begun.elapsed().as_secs_f64() * per_second;
        while (self.reads as f64) < due {
            let value = self.client.get("hot").expect("it is there");
            assert_eq!(value.data.len(), VALUE_BYTES);
            self.reads += 1;
        }
    }
}

#[test]
fn a_hot_cachelet_is_seen_at_the_coordinator_within_three_intervals() {
    // Without replicas all reads of the key stay at its home.
    let cluster = Cluster::start(ClusterOptions {
        servers: 2,
        threads: 2,
        server_args: vec!["--hot-keys".into(), "off".into()],
        ..ClusterOptions::default()
    });
    let mut client = cluster.proxy_client();
    client.set("hot", &[b'v'; VALUE_BYTES]);
    // Before they have a map, workers have no cachelets of their own.
    poll_until(SEEN_DEADLINE, "all 16 cachelets of 4 workers", || {
        let view = cachelets(&cluster);
        let count = |name: &str| view[name].as_array().map_or(0, Vec::len);
        ((count("workers"), count("cachelets")) == (4, 64)).then_some(())
    });

    const RATE: f64 = 400.0;
    let mut reader = Reader {
        client,
        begun: Instant::now(),
        reads: 0,
    };
    let hottest = |cluster: &Cluster| cachelets(cluster)["cachelets"][0].clone();
    // One interval to be measured, one heartbeat to be told; the rate itself comes with smoothing.
    let (first, seen_after) = poll_until(SEEN_DEADLINE, "a hot cachelet", || {
        reader.go_on(RATE);
        let hottest = hottest(&cluster);
        let is_hot = number(&hottest, "reads_per_s") >= 0.1 * RATE;
        is_hot.then(|| (hottest, reader.begun.elapsed()))
    });
    assert!(seen_after <= 3 * INTERVAL + DELAYS, "after {seen_after:?}");
    // The rate and its bytes arrive where they belong.
    let steady = poll_until(SEEN_DEADLINE, "the whole rate", || {
        reader.go_on(RATE);
        let hottest = hottest(&cluster);
        (number(&hottest, "reads_per_s") >= 0.9 * RATE).then_some(hottest)
    });
    assert_eq!(steady["cachelet"], first["cachelet"]);
    let reads = number(&steady, "reads_per_s");
    assert!(reads <= 1.3 * RATE, "{steady}");
    assert!(
        (number(&steady, "hits_per_s") - reads).abs() <= 1.0,
        "{steady}"
    );
    let bytes = number(&steady, "bytes_out_per_s");
    let value_bytes = VALUE_BYTES as f64;
    assert!(
        (bytes - reads * value_bytes).abs() <= value_bytes,
        "{steady}"
    );
    let load = number(&steady, "load");
    let expected = reads * (1.0 + value_bytes / 4096.0);
    assert!((load - expected).abs() <= 0.02 * expected, "{steady}");
    assert_eq!(number(&steady, "items"), 1.0);

    // The same at its server, by memcached's protocol, and as an operator sees it.
    let home = steady["server"].as_str().expect("a name");
    let index = if home == "s1" { 0 } else { 1 };
    let mut server = cluster.server_client(index);
    server.send(b"stats cachelets\r\n");
    let wanted = format!("STAT {} ", steady["cachelet"]);
    let mut lines = std::iter::from_fn(|| Some(server.line()).filter(|line| line != "END"));
    let line = lines
        .find(|line| line.starts_with(&wanted))
        .expect("its cachelet");
    assert!(
        line.contains(&format!("worker={} ", steady["worker"])),
        "{line}"
    );
    let url = cluster.coordinator_url();
    let shown = output(&["cachelets", "--coordinator", &url, "--limit", "3"]);
    assert!(
        shown.contains(&format!("{home}/{}", steady["worker"])),
        "{shown}"
    );
    let json = output(&["cachelets", "--coordinator", &url, "--format", "json"]);
    let view: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(view["cachelets"][0]["cachelet"], steady["cachelet"]);
}
