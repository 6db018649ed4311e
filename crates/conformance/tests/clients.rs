//! Real clients against a server, against proxies, and against memcached itself. The last shows that
//! a check asks for nothing that memcached does not do.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use evenkeel_testkit::{Cluster, ClusterOptions, Memcached, evenkeel, require_program};

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

/// Runs a check, which ends with a line `ok`.
fn check(mut command: Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && stdout.lines().last() == Some("ok"),
        "{command:?}: {}\n{stdout}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

fn check_python(script: &str, arguments: &[String]) {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python");
    assert!(
        python.exists(),
        "the Python clients are missing: run `make deps`"
    );
    let mut command = Command::new(python);
    command
        .arg("-B")
        .arg(clients().join("python").join(script))
        .args(arguments);
    check(command);
}

/// The Go check, built once.
fn go_check() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gomemcache-check");
        let output = Command::new(require_program("go"))
            .current_dir(clients().join("go"))
            .args(["build", "-mod=readonly", "-o"])
            .arg(&binary)
            .output()
            .expect("go is installed");
        assert!(
            output.status.success(),
            "go could not build the check (make deps fetches its module):\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        binary
    })
}

fn check_all(address: SocketAddr) {
    let host_and_port = [address.ip().to_string(), address.port().to_string()];
    check_python("check_pymemcache.py", &host_and_port);
    check_python("check_meta_memcache.py", &host_and_port);
    check_python("check_pylibmc.py", &host_and_port);
    let mut command = Command::new(go_check());
    command.arg(address.to_string());
    check(command);
}

#[test]
fn clients_work_with_memcached() {
    check_all(Memcached::spawn(&[]).address());
}

#[test]
fn clients_work_with_a_server() {
    check_all(evenkeel::server(&["-t", "2"]).address());
}

#[test]
fn clients_work_through_a_proxy_with_a_coordinator() {
    let cluster = Cluster::start(ClusterOptions::default());
    check_all(cluster.proxies[0].address());
}

#[test]
fn clients_work_through_a_proxy_in_front_of_memcached() {
    let memcached = [Memcached::spawn(&[]), Memcached::spawn(&[])];
    let servers = format!("{},{}", memcached[0].address(), memcached[1].address());
    check_all(evenkeel::proxy(&["-s", &servers]).address());
}

#[test]
fn a_proxy_places_keys_as_libmemcached_does() {
    let memcached: Vec<Memcached> = (0..5).map(|_| Memcached::spawn(&[])).collect();
    let servers: Vec<String> = memcached
        .iter()
        .map(|server| server.address().to_string())
        .collect();
    let proxy = evenkeel::proxy(&["-s", &servers.join(",")]);
    let arguments = std::iter::once(proxy.address().to_string()).chain(servers);
    check_python("check_ketama.py", &arguments.collect::<Vec<_>>());
}
