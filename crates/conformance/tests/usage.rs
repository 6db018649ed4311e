//! Bad usage: one clear line on standard error, exit code 2, and nothing left running.

use std::net::TcpListener;
use std::process::Output;

use evenkeel_testkit::{EXIT_DEADLINE, Signal, evenkeel};

/// Exit code of bad usage or configuration.
const BAD_USAGE: i32 = 2;

/// Runs `evenkeel` with bad arguments; `named` must stand in its one line.
fn refused(arguments: &[&str], named: &[&str]) {
    let Output {
        status,
        stdout,
        stderr,
    } = evenkeel::run(arguments);
    let text = String::from_utf8_lossy(&stderr);
    assert_eq!(
        status.code(),
        Some(BAD_USAGE),
        "evenkeel {arguments:?}: {text}"
    );
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    assert_eq!(
        lines.len(),
        1,
        "evenkeel {arguments:?} says one line:\n{text}"
    );
    for word in named {
        assert!(
            lines[0].contains(word),
            "evenkeel {arguments:?} names `{word}`: {}",
            lines[0]
        );
    }
    assert!(
        stdout.is_empty(),
        "evenkeel {arguments:?} keeps standard output for results"
    );
}

#[test]
fn unknown_commands_and_flags_are_refused() {
    refused(&["sevrer"], &["sevrer"]);
    refused(&["server", "--nonsense"], &["--nonsense"]);
    refused(&["proxy", "--nonsense"], &["--nonsense"]);
    refused(&["coordinator", "--nonsense"], &["--nonsense"]);
    refused(&["up", "--nonsense"], &["--nonsense"]);
    refused(&["bench", "run", "--nonsense"], &["--nonsense"]);
}

#[test]
fn values_that_make_no_sense_are_refused() {
    refused(&["server", "-p", "70000"], &["70000"]);
    refused(&["server", "-t", "0"], &["0"]);
    refused(&["server", "-I", "10t"], &["10t"]);
    refused(
        &["server", "-p", "0", "-o", "no_such_option"],
        &["no_such_option"],
    );
    refused(
        &["server", "-p", "0", "-l", "no such host"],
        &["no such host"],
    );
    refused(
        &["proxy", "-l", "127.0.0.1:0", "-s", "cache:no-port"],
        &["cache:no-port"],
    );
    refused(&["proxy", "-l", "127.0.0.1:0"], &["-s", "--coordinator"]);
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("a bound socket has an address");
    let port = address.port().to_string();
    refused(
        &["server", "-u", "root", "-l", "127.0.0.1", "-p", &port],
        &[&port],
    );
    refused(
        &["proxy", "-l", &address.to_string(), "-s", "127.0.0.1:1"],
        &[&port],
    );
    refused(&["coordinator", "--listen", &address.to_string()], &[&port]);
}

#[test]
fn a_missing_trace_is_named() {
    let missing = "/nonexistent/trace.gz";
    refused(
        &[
            "bench",
            "run",
            "--target",
            "127.0.0.1:1",
            "--trace",
            missing,
        ],
        &[missing],
    );
}

#[test]
fn a_malformed_trace_is_named() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("broken.txt.gz");
    std::fs::write(&file, b"\x1f\x8b\x08\x00 this is no gzip stream").expect("written");
    let path = file.to_str().expect("a path of ours is text");
    let server = evenkeel::server(&[]);
    let target = server.address().to_string();
    refused(
        &["bench", "run", "--target", &target, "--trace", path],
        &["broken.txt.gz"],
    );
}

#[test]
fn a_command_that_is_asked_for_help_succeeds() {
    for arguments in [
        &["--help"][..],
        &["server", "--help"],
        &["bench", "run", "--help"],
    ] {
        let output = evenkeel::run(arguments);
        assert!(output.status.success(), "{arguments:?}");
        assert!(!output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_signal_stops_each_process_cleanly() {
    for signal in [Signal::Terminate, Signal::Interrupt] {
        let mut server = evenkeel::server(&[]);
        let mut coordinator = evenkeel::coordinator(&["--initial-servers", "1"]);
        let address = server.address().to_string();
        let mut proxy = evenkeel::proxy(&["-s", &address]);
        for process in [&mut proxy, &mut coordinator, &mut server] {
            process.signal(signal);
            let status = process.wait(EXIT_DEADLINE);
            assert_eq!(status.code(), Some(0), "{} on {signal:?}", process.name());
        }
    }
}
