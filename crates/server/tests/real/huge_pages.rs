//! `-L`: whether there are huge pages is said, and the server serves either way. Without it there are none.

use evenkeel_testkit::{Client, Process, evenkeel};
use rustix::thread::disable_transparent_huge_pages;

/// Bytes of a process that are in huge pages, in kilobytes.
fn huge_kib(process: &Process) -> u64 {
    let path = format!("/proc/{}/smaps_rollup", process.pid());
    let told = std::fs::read_to_string(path).expect("it runs");
    let line = told
        .lines()
        .find_map(|line| line.strip_prefix("AnonHugePages:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.expect("the kernel tells")
        .trim()
        .parse()
        .expect("a number")
}

#[test]
fn without_the_flag_nothing_is_stored_in_huge_pages() {
    let server = evenkeel::server(&["-t", "1", "-m", "64"]);
    // What was asked for before the flags were read.
    let before = huge_kib(&server);
    let mut client = Client::connect(server.address());
    for n in 0..60 {
        assert_eq!(client.set(&format!("k{n}"), &[b'v'; 500_000]), "STORED");
    }
    assert!(huge_kib(&server) <= before, "{before} kB at the start");
}

#[test]
fn it_is_said_whether_there_are_huge_pages() {
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let enabled = enabled.unwrap_or_default();
    let has_some = enabled.contains("[always]") || enabled.contains("[madvise]");
    let none = "-L: no huge pages, because ";
    let serves = |expected: &str| {
        let server = evenkeel::server(&["-t", "1", "-L"]);
        server.await_stderr(expected);
        let mut client = Client::connect(server.address());
        assert_eq!(client.set("k", b"v"), "STORED");
    };
    serves(if has_some {
        "-L: transparent huge pages as far as"
    } else {
        none
    });
    // A machine that has none: children inherit this.
    disable_transparent_huge_pages(true).expect("any process may");
    serves(none);
    disable_transparent_huge_pages(false).expect("any process may");
}
