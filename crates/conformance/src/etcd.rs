//! Three nodes of etcd on free loopback ports, each with a folder of its own.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use evenkeel_testkit::{Process, http, poll_until, require_program};

/// What is awaited has come by then, unless something hangs.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// How many there are.
pub const NODES: usize = 3;

/// Running nodes, all ended when this is dropped.
pub struct Etcd {
    folder: tempfile::TempDir,
    clients: [SocketAddr; NODES],
    peers: [SocketAddr; NODES],
    nodes: [Option<Process>; NODES],
}

impl Etcd {
    /// Three nodes that have a leader.
    ///
    /// # Panics
    /// When etcd is not installed, or does not become healthy.
    pub fn start() -> Etcd {
        let mut ports = free_addresses(2 * NODES).into_iter();
        let mut some =
            || std::array::from_fn(|_| ports.next().expect("twice as many were asked for"));
        let mut etcd = Etcd {
            folder: tempfile::tempdir().expect("a temporary folder can be made"),
            clients: some(),
            peers: some(),
            nodes: [const { None }; NODES],
        };
        for node in 0..NODES {
            etcd.start_node(node);
        }
        etcd.wait_until_healthy();
        etcd
    }

    /// What `--etcd` is given.
    pub fn urls(&self) -> String {
        let urls: Vec<_> = self
            .clients
            .iter()
            .map(|address| format!("http://{address}"))
            .collect();
        urls.join(",")
    }

    /// Starts a node, with what it had when it was killed.
    pub fn start_node(&mut self, node: usize) {
        let url = |address: SocketAddr| format!("http://{address}");
        let name = |node: usize| format!("n{node}");
        let members: Vec<_> = (0..NODES)
            .map(|node| format!("{}={}", name(node), url(self.peers[node])))
            .collect();
        let (client, peer) = (url(self.clients[node]), url(self.peers[node]));
        let process = Process::command(&format!("etcd {node}"), require_program("etcd"))
            .args([
                "--name",
                &name(node),
                "--initial-cluster",
                &members.join(","),
            ])
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .arg("--data-dir")
            .arg(self.folder.path().join(name(node)))
            .spawn();
        self.nodes[node] = Some(process);
    }

    /// Kills a node, whose contents stay.
    pub fn kill_node(&mut self, node: usize) {
        if let Some(mut process) = self.nodes[node].take() {
            process.kill();
        }
    }

    /// The node that leads the others.
    ///
    /// # Panics
    /// When none does in time.
    pub fn leader(&self) -> usize {
        poll_until(DEADLINE, "a leader of etcd", || {
            (0..NODES).find(|node| {
                let metrics = http::get(self.clients[*node], "/metrics");
                metrics.is_ok_and(|(_, text)| text.contains("\netcd_server_is_leader 1\n"))
            })
        })
    }

    /// Waits for all nodes.
    ///
    /// # Panics
    /// When one is not healthy in time.
    pub fn wait_until_healthy(&self) {
        for node in 0..NODES {
            let healthy = || {
                let (_, text) = http::get(self.clients[node], "/health").ok()?;
                text.contains("\"true\"").then_some(())
            };
            poll_until(
                DEADLINE,
                &format!("etcd node {node} to be healthy"),
                healthy,
            );
        }
    }

    /// Forgets all revisions but the present one, as etcd's own auto-compaction does.
    ///
    /// # Panics
    /// When etcd does not answer.
    pub fn compact(&self) {
        let status = self.ask("/v3/maintenance/status", "{}");
        let revision = status["header"]["revision"].as_str().expect("a revision");
        let request = format!("{{\"revision\":\"{revision}\",\"physical\":true}}");
        let (status, body) = self.answer("/v3/kv/compaction", &request);
        // A node that did not answer in time may have done it all the same.
        let is_done = status == 200 || body.contains("has been compacted");
        assert!(is_done, "{request}: {body}");
    }

    /// Deletes every key.
    ///
    /// # Panics
    /// When etcd does not answer.
    pub fn wipe(&self) {
        // From a zero byte to the end.
        let deleted = self.ask(
            "/v3/kv/deleterange",
            "{\"key\":\"AA==\",\"range_end\":\"AA==\"}",
        );
        assert!(deleted["deleted"].is_string(), "{deleted}");
    }

    /// Whether there is a key that was created in this revision.
    ///
    /// # Panics
    /// When etcd does not answer.
    pub fn has_key_created_in(&self, revision: u64) -> bool {
        // From a zero byte to the end.
        let every = r#"{"key":"AA==","range_end":"AA==","keys_only":true}"#;
        let keys = self.ask("/v3/kv/range", every);
        let mut keys = keys["kvs"].as_array().into_iter().flatten();
        keys.any(|key| key["create_revision"] == revision.to_string().as_str())
    }

    /// etcd's JSON gateway, at any node that answers.
    ///
    /// # Panics
    /// When none does, or refuses.
    pub fn ask(&self, path: &str, json: &str) -> serde_json::Value {
        let (status, body) = self.answer(path, json);
        assert_eq!(status, 200, "{path} {json}: {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    fn answer(&self, path: &str, json: &str) -> (u16, String) {
        let mut nodes = self.clients.iter();
        let answer = nodes.find_map(|address| http::post_json(*address, path, json).ok());
        answer.expect("a node that answers")
    }
}

/// This process's own address on the loopback network. Outgoing connections begin at 127.0.0.1, so that none of them takes a
/// port that was found free, or that somebody leaves in order to come back.
pub fn own_host() -> Ipv4Addr {
    // Process ids have 22 bits on Linux.
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 64 | (high & 0x3f), middle, low)
}

/// Addresses at [`own_host`] at which nobody listens. All are held until all are found, so that they differ.
///
/// # Panics
/// When there are not so many.
pub fn free_addresses(count: usize) -> Vec<SocketAddr> {
    let held: Vec<_> = (0..count)
        .map(|_| TcpListener::bind((own_host(), 0)).expect("there are free ports"))
        .collect();
    let address = |listener: &TcpListener| listener.local_addr().expect("it is bound");
    held.iter().map(address).collect()
}
