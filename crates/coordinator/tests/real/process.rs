//! `evenkeel coordinator` as a process: its ready line, its signals, its exit codes.
//!
//! The process is this test's own binary, started again to run nothing but [`coordinator_process`].

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use clap::Parser;
use evenkeel_coordinator::{Args, ExitCode, run};
use evenkeel_member::client::ApiClient;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{DEADLINE, Member};

const ARGUMENTS: &str = "EVENKEEL_TEST_COORDINATOR_ARGUMENTS";

/// As many files may be open at the start of a coordinator.
const FILES: u64 = 512;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    args: Args,
}

/// Is the coordinator when started by [`command`]; otherwise checks that it was not.
#[test]
fn coordinator_process() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else {
        assert!(Program::try_parse_from(["coordinator"]).is_ok());
        return;
    };
    let words = std::iter::once("coordinator").chain(arguments.lines());
    let code = match run(&Program::parse_from(words).args) {
        Ok(()) => ExitCode::Fine,
        Err(error) => {
            eprintln!("evenkeel coordinator: {error}");
            error.exit_code()
        }
    };
    std::process::exit(i32::from(code as u8));
}

/// With a soft limit of open files that a thousand members would be too many for.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            r#"ulimit -S -n "$0" && exec "$@""#,
            &FILES.to_string(),
        ])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "process::coordinator_process", "--nocapture"])
        .env(ARGUMENTS, arguments.join("\n"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(arguments: &[&str]) -> Process {
        let mut child = command(arguments).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| {
                let (_, rest) = line.split_once("evenkeel coordinator listening on ")?;
                rest.parse().ok()
            })
            .expect("a ready line");
        Process { child, address }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn client(&self) -> ApiClient {
        let client = ApiClient::new(&self.address.to_string()).unwrap();
        client.with_timeout(DEADLINE)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs to the end: exit code and the lines about the coordinator on standard error, without times and levels.
fn outcome(arguments: &[&str]) -> (Option<i32>, Vec<String>) {
    let output = command(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let ours = |line: &str| Some(line[line.find("evenkeel coordinator: ")?..].to_owned());
    let lines = stderr.lines().filter_map(ours).collect();
    (output.status.code(), lines)
}

fn assert_usage(arguments: &[&str], expected: &str) {
    let (code, lines) = outcome(arguments);
    assert_eq!(code, Some(2), "{lines:?}");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains(expected), "{lines:?}");
}

fn state_in(dir: &Path) -> String {
    dir.join("state").to_str().unwrap().to_owned()
}

#[test]
fn either_signal_stops_it_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut process = Process::start(&["--listen=127.0.0.1:0"]);
        assert!(process.client().servers().is_ok());
        process.signal(signal);
        assert_eq!(process.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn it_takes_as_many_files_as_members_need_where_it_may() {
    let process = Process::start(&["--listen=127.0.0.1:0"]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.child.id()));
    let limits = limits.unwrap();
    let files = (limits.lines()).find_map(|line| line.strip_prefix("Max open files"));
    let mut limits = files.unwrap().split_whitespace();
    let (soft, hard) = (limits.next().unwrap(), limits.next().unwrap());
    assert_ne!(soft, FILES.to_string());
    if soft != hard {
        assert!(soft.parse::<u64>().unwrap() > 20_000, "{soft} of {hard}");
    }
}

#[test]
fn what_the_user_can_help_is_one_line_and_exit_code_2() {
    let dir = tempfile::tempdir().unwrap();
    let state = state_in(dir.path());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    assert_usage(&["--listen", &taken], "cannot listen on 127.0.0.1");
    assert_usage(&["--listen=nowhere"], "cannot listen on nowhere");
    let free = "--listen=127.0.0.1:0";
    // Nobody who can connect may change a cluster by an oversight.
    assert_usage(&["--listen=0.0.0.0:0"], "--api-token-file");
    assert_usage(&[free, "--initial-servers=0"], "initial servers");
    assert_usage(&[free, "--cachelets-per-worker=999999"], "cachelets");
    assert_usage(&[free, "--silent-ms=1"], "down after 1ms");
    assert_usage(&[free, "--cluster=a b"], "cluster name");
    std::fs::write(&state, "evenkeel-coordinator-state 99 0\n").unwrap();
    assert_usage(&[free, "--state", &state], "has version 99");
    std::fs::write(&state, "rubbish").unwrap();
    assert_usage(&[free, "--state", &state], "is not a coordinator's state");
    let (code, _) = outcome(&["--no-such-flag"]);
    assert_eq!(code, Some(2));
}

#[test]
fn a_state_belongs_to_one_process_and_one_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let state = state_in(dir.path());
    let arguments = ["--listen=127.0.0.1:0", "--state", &state, "--cluster=test"];
    let process = Process::start(&arguments);
    assert_usage(&arguments, "in use by another coordinator");
    drop(process);
    let other = ["--listen=127.0.0.1:0", "--state", &state, "--cluster=live"];
    assert_usage(&other, "state of cluster \"test\" for cluster \"live\"");
}

#[test]
fn killed_and_started_again_it_knows_what_it_knew() {
    let dir = tempfile::tempdir().unwrap();
    let state = state_in(dir.path());
    let arguments = ["--state", &state, "--cluster=test", "--silent-ms=12000"];
    let process = Process::start(&[&["--listen=127.0.0.1:0"], &arguments[..]].concat());
    let address = process.address;
    let members = [Member::server(address, 1), Member::server(address, 2)];
    let wanted = |map: &evenkeel_types::map::ClusterMap| {
        map.servers().len() == 2 && crate::support::is_even(map)
    };
    let map = members[0].wait_map("a map of two", wanted);
    process.signal(Signal::KILL);
    drop(process);
    let listen = address.to_string();
    let again = Process::start(&[&["--listen", &listen], &arguments[..]].concat());
    assert_eq!(again.client().map().unwrap(), *map);
    let newcomer = Member::server(address, 3);
    let grown = newcomer.wait_map("a map of three", |map| {
        map.servers().len() == 3 && crate::support::is_even(map)
    });
    assert!(grown.epoch() > map.epoch());
}
