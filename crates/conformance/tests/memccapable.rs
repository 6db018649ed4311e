//! libmemcached's own test of servers, by name: all 27 text cases of `memccapable -a`, and of servers
//! the 27 binary cases of `memccapable -b` too. The proxy speaks text.

use std::net::SocketAddr;
use std::process::Command;

use evenkeel_testkit::{Cluster, ClusterOptions, Memcached, evenkeel, require_program};

/// The text cases. Listed, so that a tool that runs fewer of them does not count as passed.
const TEXT: [&str; 27] = [
    "ascii version",
    "ascii quit",
    "ascii verbosity",
    "ascii set",
    "ascii set noreply",
    "ascii get",
    "ascii gets",
    "ascii mget",
    "ascii flush",
    "ascii flush noreply",
    "ascii add",
    "ascii add noreply",
    "ascii replace",
    "ascii replace noreply",
    "ascii cas",
    "ascii cas noreply",
    "ascii delete",
    "ascii delete noreply",
    "ascii incr",
    "ascii incr noreply",
    "ascii decr",
    "ascii decr noreply",
    "ascii append",
    "ascii append noreply",
    "ascii prepend",
    "ascii prepend noreply",
    "ascii stat",
];

/// The binary cases.
const BINARY: [&str; 27] = [
    "binary noop",
    "binary quit",
    "binary quitq",
    "binary set",
    "binary setq",
    "binary flush",
    "binary flushq",
    "binary add",
    "binary addq",
    "binary replace",
    "binary replaceq",
    "binary delete",
    "binary deleteq",
    "binary get",
    "binary getq",
    "binary getk",
    "binary getkq",
    "binary incr",
    "binary incrq",
    "binary decr",
    "binary decrq",
    "binary version",
    "binary append",
    "binary appendq",
    "binary prepend",
    "binary prependq",
    "binary stat",
];

/// Seconds the tool waits for one answer; beyond it the case fails.
const ANSWER_SECONDS: &str = "10";

/// Both protocols.
fn check(address: SocketAddr) {
    check_cases(address, "-a", &TEXT);
    check_cases(address, "-b", &BINARY);
}

/// The cases of one protocol, which the tool is told by `flag`.
fn check_cases(address: SocketAddr, flag: &str, cases: &[&str]) {
    let output = Command::new(require_program("memccapable"))
        .args([flag, "-t", ANSWER_SECONDS])
        .args([
            "-h",
            &address.ip().to_string(),
            "-p",
            &address.port().to_string(),
        ])
        .output()
        .expect("memccapable is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let failed: Vec<_> = cases.iter().filter(|case| !passed(&text, case)).collect();
    assert!(
        failed.is_empty(),
        "memccapable: {failed:?} did not pass:\n{text}"
    );
}

/// True when the report has the line `<case>   [pass]`.
fn passed(report: &str, case: &str) -> bool {
    report.lines().any(|line| {
        line.strip_prefix(case)
            .is_some_and(|rest| rest.trim_start() == "[pass]")
    })
}

#[test]
fn a_case_counts_as_passed_only_by_its_own_line() {
    assert!(passed("ascii set    [pass]\n", "ascii set"));
    assert!(!passed("ascii set noreply    [pass]\n", "ascii set"));
    assert!(!passed("ascii set    [FAIL]\n", "ascii set"));
    assert!(!passed("All tests passed\n", "ascii set"));
}

#[test]
fn memcached_itself_passes() {
    check(Memcached::spawn(&[]).address());
}

#[test]
fn server_passes() {
    check(evenkeel::server(&[]).address());
}

#[test]
fn server_with_one_worker_passes() {
    check(evenkeel::server(&["-t", "1"]).address());
}

#[test]
fn proxy_with_a_coordinator_passes() {
    let cluster = Cluster::start(ClusterOptions {
        proxy_args: vec!["--allow-flush".to_owned()],
        ..ClusterOptions::default()
    });
    check_cases(cluster.proxies[0].address(), "-a", &TEXT);
}

#[test]
fn proxy_in_front_of_memcached_passes() {
    let memcached = [Memcached::spawn(&[]), Memcached::spawn(&[])];
    let servers = format!("{},{}", memcached[0].address(), memcached[1].address());
    let proxy = evenkeel::proxy(&["-s", &servers, "--allow-flush"]);
    check_cases(proxy.address(), "-a", &TEXT);
}
