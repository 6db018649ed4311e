//! libmemcached's own test of servers, by name: all 27 text cases of `memccapable -a` and the 27
//! binary cases of `memccapable -b`, against servers and through proxies.

use std::net::SocketAddr;
use std::process::Command;
use std::thread;

use evenkeel_testkit::racks::{Architecture, Racks, RacksOptions};
use evenkeel_testkit::{Cluster, ClusterOptions, Memcached, Process, evenkeel, require_program};

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
const ANSWER_SECONDS: &str = "60";

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

/// How many servers a proxy is tried with, all at once: the tool waits more than it works.
fn with_each_number_behind(check: impl Fn(usize) + Sync) {
    let check = &check;
    thread::scope(|scope| {
        for servers in [1, 3, 8] {
            scope.spawn(move || check(servers));
        }
    });
}

#[test]
fn proxy_with_a_coordinator_passes() {
    with_each_number_behind(|servers| {
        let cluster = Cluster::start(ClusterOptions {
            servers,
            threads: 1,
            ..ClusterOptions::nobody_dies().with_proxy_args(&["--allow-flush"])
        });
        check(cluster.proxies[0].address());
    });
}

#[test]
fn proxy_in_front_of_memcached_passes() {
    with_each_number_behind(|servers| {
        let servers: Vec<_> = (0..servers).map(|_| Memcached::spawn(&[])).collect();
        check_in_front_of(servers.iter().map(Memcached::address));
    });
}

#[test]
fn proxy_in_front_of_servers_as_if_they_were_memcached_passes() {
    with_each_number_behind(|servers| {
        let servers: Vec<_> = (0..servers)
            .map(|_| evenkeel::server(&["-t", "1"]))
            .collect();
        check_in_front_of(servers.iter().map(Process::address));
    });
}

/// From two racks one after the other: what the first has left is moved. And while one architecture takes the place of another.
#[test]
fn proxies_of_racks_pass() {
    thread::scope(|scope| {
        use Architecture::{Sds, Snoop};
        let switches = [(Some(Sds), Snoop), (Some(Snoop), Sds)];
        let alone = Architecture::ALL.map(|architecture| (None, architecture));
        for (former, architecture) in alone.into_iter().chain(switches) {
            scope.spawn(move || {
                let racks = Racks::start(&RacksOptions {
                    former,
                    architecture,
                    ..RacksOptions::default()
                });
                check(racks.address(0));
                check(racks.address(1));
            });
        }
    });
}

/// A proxy that places keys by itself.
fn check_in_front_of(servers: impl Iterator<Item = SocketAddr>) {
    let servers: Vec<_> = servers.map(|address| address.to_string()).collect();
    let servers = servers.join(",");
    let flags = ["-s", &servers, "--allow-flush"];
    check(evenkeel::proxy(&[&flags, &evenkeel::LONG_TIMEOUTS[..]].concat()).address());
}
