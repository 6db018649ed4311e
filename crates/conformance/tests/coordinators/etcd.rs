//! Three nodes of etcd on free loopback ports, each with a folder of its own.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use evenkeel_testkit::{Process, http, poll_until, require_program};

const DEADLINE: Duration = Duration::from_secs(30);

pub const NODES: usize = 3;

pub struct Etcd {
    folder: tempfile::TempDir,
    clients: [SocketAddr; NODES],
    peers: [SocketAddr; NODES],
    nodes: [Option<Process>; NODES],
}

impl Etcd {
    /// Three nodes that have a leader.
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

    pub fn kill_node(&mut self, node: usize) {
        if let Some(mut process) = self.nodes[node].take() {
            process.kill();
        }
    }

    /// The node that leads the others.
    pub fn leader(&self) -> usize {
        poll_until(DEADLINE, "a leader of etcd", || {
            (0..NODES).find(|node| {
                let metrics = http::get(self.clients[*node], "/metrics");
                metrics.is_ok_and(|(_, text)| text.contains("\netcd_server_is_leader 1\n"))
            })
        })
    }

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
    pub fn compact(&self) {
        let status = self.ask("/v3/maintenance/status", "{}");
        let revision = status["header"]["revision"].as_str().expect("a revision");
        let request = format!("{{\"revision\":\"{revision}\",\"physical\":true}}");
        self.ask("/v3/kv/compaction", &request);
    }

    /// Deletes every key.
    pub fn wipe(&self) {
        // From a zero byte to the end.
        let deleted = self.ask(
            "/v3/kv/deleterange",
            "{\"key\":\"AA==\",\"range_end\":\"AA==\"}",
        );
        assert!(deleted["deleted"].is_string(), "{deleted}");
    }

    /// etcd's JSON gateway, at any node that answers.
    pub fn ask(&self, path: &str, json: &str) -> serde_json::Value {
        let asked = self.clients.iter().find_map(|address| {
            let (status, body) = http::post_json(*address, path, json).ok()?;
            assert_eq!(status, 200, "{path} {json}: {body}");
            Some(body)
        });
        serde_json::from_str(&asked.expect("a node that answers")).expect("JSON")
    }
}

/// Addresses at which nobody listens. All are held until all are found, so that they differ.
pub fn free_addresses(count: usize) -> Vec<SocketAddr> {
    let held: Vec<_> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0").expect("there are free ports"))
        .collect();
    let address = |listener: &TcpListener| listener.local_addr().expect("it is bound");
    held.iter().map(address).collect()
}
