//! Who reaches a coordinator must not choose what a proxy reads, nor see anything of it.
//!
//! A coordinator once kept the configurations of proxies. Anyone who put one there could send all requests to servers of
//! his own, have proxies log in there with what the first line of any file says, and read the first lines of files in
//! the reasons for which proxies refused them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_testkit::{Client, Process, evenkeel, http, poll_until};
use serde_json::Value;
use tempfile::TempDir;

/// Longest wait for anything; reached only by a failure.
const DEADLINE: Duration = Duration::from_secs(60);

/// Stands in a file that is nobody's business, as a line that could be a password.
const SECRET: &str = "secret:token-AAAA-BBBB";

/// A cluster of one server, and a proxy that works by a file.
struct Scene {
    folder: TempDir,
    coordinator: Process,
    _server: Process,
    proxy: Process,
}

impl Scene {
    fn start() -> Scene {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let coordinator = evenkeel::coordinator(&["--initial-servers", "1"]);
        let url = format!("http://{}", coordinator.address());
        let server = evenkeel::server(&["-t", "1", "--coordinator", &url, "--name", "s1"]);
        let file = folder.path().join("proxy.toml");
        std::fs::write(&file, sound(&url)).expect("room");
        let proxy = evenkeel::proxy(&["--config", text(&file), "--name", "px"]);
        let scene = Scene {
            folder,
            coordinator,
            _server: server,
            proxy,
        };
        std::fs::write(scene.secret(), format!("# x\n{SECRET}\n")).expect("room");
        scene
    }

    fn url(&self) -> String {
        format!("http://{}", self.coordinator.address())
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("proxy.toml")
    }

    fn secret(&self) -> PathBuf {
        self.folder.path().join("secret.txt")
    }

    fn client(&self) -> Client {
        Client::connect(self.proxy.address())
    }

    /// A call of the coordinator's API.
    fn call(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let address = self.coordinator.address();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        http::request(address, &request).expect("an answer")
    }

    /// What the coordinator says of the one proxy, once it says that the proxy works by this file.
    fn await_hash(&self, digest: &str) -> Value {
        poll_until(DEADLINE, "the proxy to tell what it works by", || {
            let (status, body) = self.call("GET", "/api/v1/proxies", "");
            assert_eq!(status, 200, "{body}");
            let view: Value = serde_json::from_str(&body).expect("JSON");
            let proxy = view["proxies"].get(0)?.clone();
            (proxy["config_hash"] == digest).then_some(proxy)
        })
    }

    /// Waits until the proxy has asked the coordinator so often again that it has heard of everything by now.
    fn await_heartbeats(&self) {
        let count = || {
            let (_, text) = self.call("GET", "/metrics", "");
            let name = "evenkeel_coordinator_heartbeats_total{kind=\"proxy\"} ";
            let value = text.lines().find_map(|line| line.strip_prefix(name));
            let value = value.unwrap_or_else(|| panic!("no {name}in {text}"));
            value.parse::<u64>().expect("a number")
        };
        let before = count();
        poll_until(DEADLINE, "three heartbeats of the proxy", || {
            (count() >= before + 3).then_some(())
        });
    }
}

/// A configuration that can be used.
fn sound(url: &str) -> String {
    format!("[pools.a]\ncoordinator = \"{url}\"\nrequest_timeout = \"60s\"\n")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_configuration_that_is_put_at_a_coordinator_reaches_no_proxy() {
    let scene = Scene::start();
    let mut client = scene.client();
    assert_eq!(client.set("k", b"v"), "STORED");
    let digest = client.stats("proxy")["config_digest"].clone();
    scene.await_hash(&digest);
    let attacker = TcpListener::bind("127.0.0.1:0").expect("a free port");
    attacker.set_nonblocking(true).expect("it can be asked");
    let port = attacker.local_addr().expect("bound").port();
    let secret = scene.secret();
    for stolen in [
        format!("servers = [\"127.0.0.1:{port}\"]\nauth_file = {secret:?}"),
        format!("servers_file = {secret:?}"),
    ] {
        let put = format!("[pools.a]\n{stolen}\n");
        for path in [
            "/api/v1/proxy-config",
            "/api/v1/proxy-config?name=px",
            "/api/v1/proxy-configs",
        ] {
            let (status, body) = scene.call("PUT", path, &put);
            assert_eq!(status, 404, "{path}: {body}");
            assert!(!body.contains(&stolen), "{body}");
        }
    }
    for (method, path) in [
        ("GET", "/api/v1/proxy-config"),
        ("DELETE", "/api/v1/proxy-config"),
        ("GET", "/api/v1/proxy-configs"),
        ("POST", "/api/v1/proxy-config/follow"),
    ] {
        assert_eq!(scene.call(method, path, "").0, 404, "{method} {path}");
    }
    scene.await_heartbeats();
    scene.await_hash(&digest);
    let stats = client.stats("proxy");
    let seen = ["config_digest", "config_generation", "config_reloads"];
    assert_eq!(seen.map(|name| stats[name].as_str()), [&digest, "1", "0"]);
    assert_eq!(client.get("k").expect("stored").data, b"v");
    assert!(attacker.accept().is_err(), "nobody is sent to the attacker");
    // Nor is a proxy told to ask a coordinator for one.
    let asking = evenkeel::run(&["proxy", "--config-coordinator", &scene.url()]);
    let said = String::from_utf8_lossy(&asking.stderr);
    assert_eq!(asking.status.code(), Some(2), "{said}");
    assert!(said.contains("--config-coordinator"), "{said}");
}

/// The proxy's own file may name the wrong one, too. What stands in it is no part of what the coordinator or a client
/// of the proxy is told.
#[test]
fn what_a_proxy_has_read_stands_in_no_error_that_leaves_the_machine() {
    let scene = Scene::start();
    let mut client = scene.client();
    let digest = client.stats("proxy")["config_digest"].clone();
    let secret = scene.secret();
    let bad = format!("[pools.a]\nservers_file = {secret:?}\n");
    std::fs::write(scene.file(), bad).expect("room");
    let refusal = poll_until(DEADLINE, "the file to be refused", || {
        let stats = client.stats("proxy");
        let refusal = stats["config_refusal"].clone();
        (refusal != "none").then_some(refusal)
    });
    assert!(refusal.contains("secret.txt:2: "), "{refusal}");
    assert!(!refusal.contains("AAAA"), "{refusal}");
    scene.await_heartbeats();
    let proxy = scene.await_hash(&digest).to_string();
    for path in ["/api/v1/proxies", "/api/v1/events", "/metrics"] {
        let (_, body) = scene.call("GET", path, "");
        for word in ["AAAA", "secret.txt", "servers_file"] {
            assert!(!body.contains(word), "{path}: {body}");
        }
    }
    assert!(!proxy.contains("refus"), "{proxy}");
    assert_eq!(client.stats("proxy")["config_digest"], digest);
}
