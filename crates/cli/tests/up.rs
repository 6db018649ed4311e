//! `evenkeel up` with real processes: it serves, survives the death of its parts, and leaves nothing
//! behind.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_testkit::{Client, EXIT_DEADLINE, Process, Signal, poll_until};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_evenkeel");

/// How long a cluster may take to serve again after one of its processes was killed: the back-off,
/// a start, a few heartbeats, and the same again for a busy machine.
const RECOVERY_DEADLINE: Duration = Duration::from_secs(120);

/// How long a line may take that is printed right after the ready line.
const LINE_DEADLINE: Duration = Duration::from_secs(60);

/// A running `evenkeel up` with a folder for temporary files of its own.
struct Up {
    process: Process,
    files: tempfile::TempDir,
    coordinator: Part,
    servers: Vec<Part>,
}

/// One of its processes.
#[derive(Debug)]
struct Part {
    name: String,
    address: SocketAddr,
}

impl Up {
    fn start(arguments: &[&str]) -> Up {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Up::start_with_programs(arguments, path.as_ref())
    }

    /// Where these folders have the programs that it may start.
    fn start_with_programs(arguments: &[&str], path: &Path) -> Up {
        let files = tempfile::tempdir().expect("a temporary folder");
        let process = Process::command("evenkeel up", PROGRAM)
            .arg("up")
            .args(arguments)
            .env("TMPDIR", files.path())
            .env("PATH", path)
            .ready_prefix("evenkeel up listening on ")
            .spawn();
        let mut parts: Vec<Part> = Vec::new();
        loop {
            let line = process.next_line(LINE_DEADLINE).expect("the last line");
            assert!(line.len() <= 80, "{line}");
            if line.starts_with("Ctrl-C") {
                break;
            }
            if line.starts_with("See what") {
                let page = format!(" at http://{}/.", parts[0].address);
                assert!(line.ends_with(&page), "{line}");
            }
            if line.starts_with(|c: char| c.is_ascii_uppercase() || c == ' ') {
                continue;
            }
            let mut words = line.split(' ');
            let name = words.next().expect("a name").to_owned();
            let address = words.next().expect("an address");
            let address = address.trim_start_matches("http://").parse();
            parts.push(Part {
                name,
                address: address.expect("an address"),
            });
        }
        let coordinator = parts.remove(0);
        assert_eq!(coordinator.name, "coordinator");
        Up {
            process,
            files,
            coordinator,
            servers: parts,
        }
    }

    fn client(&self) -> Client {
        Client::connect(self.process.address())
    }

    /// Process ids of all parts.
    fn children(&self) -> Vec<u32> {
        children_of(self.process.pid())
    }

    fn pid_of(&self, server: usize) -> u32 {
        let stats = Client::connect(self.servers[server].address).stats("");
        stats["pid"].parse().expect("a process id")
    }

    /// Waits until a value can be stored and read for each of many keys, so of all servers.
    fn wait_until_serving(&self) {
        poll_until(
            RECOVERY_DEADLINE,
            "keys of all servers to be served",
            || {
                let mut client = Client::try_connect(self.process.address()).ok()?;
                (0..32)
                .all(|number| {
                    let key = format!("recovery:{number}");
                    client.try_set(&key, 0, 0, b"back").is_ok_and(|told| told == "STORED")
                        && matches!(client.try_get(&key), Ok(Some(value)) if value.data == b"back")
                })
                .then_some(())
            },
        );
    }
}

fn children_of(pid: u32) -> Vec<u32> {
    // Every thread of a process has a list of the children that it started.
    let path = format!("/proc/{pid}/task/{pid}/children");
    let list = std::fs::read_to_string(path).expect("the parent runs");
    list.split_whitespace()
        .map(|pid| pid.parse().expect("a process id"))
        .collect()
}

fn is_gone(pid: u32) -> bool {
    // A zombie has no command line any more; it waits for its parent alone.
    std::fs::read(format!("/proc/{pid}/cmdline")).map_or(true, |line| line.is_empty())
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    entries
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

/// Kills a process, and waits until it does nothing any more.
fn kill(pid: u32) {
    let raw = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(raw.expect("a process id"), rustix::process::Signal::KILL)
        .expect("the process runs");
    poll_until(RECOVERY_DEADLINE, "the end of what was killed", || {
        is_gone(pid).then_some(())
    });
}

#[test]
fn a_cluster_serves_and_stops_without_a_trace() {
    for signal in [Signal::Terminate, Signal::Interrupt] {
        let mut up = Up::start(&["--servers", "2", "--threads", "1", "-m", "8"]);
        assert_eq!(up.servers.len(), 2);
        let mut client = up.client();
        assert_eq!(client.set("greeting", b"hello"), "STORED");
        assert_eq!(client.get("greeting").expect("stored").data, b"hello");
        let children = up.children();
        assert_eq!(children.len(), 4, "coordinator, proxy, two servers");
        assert!(!files_in(up.files.path()).is_empty());

        up.process.signal(signal);
        assert_eq!(up.process.wait(EXIT_DEADLINE).code(), Some(0), "{signal:?}");
        assert!(children.into_iter().all(is_gone));
        assert_eq!(files_in(up.files.path()), Vec::<PathBuf>::new());
    }
}

#[test]
fn several_proxies_serve_and_a_file_says_where_everything_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("addresses.json").display().to_string();
    let mut arguments = vec!["--servers", "1", "--threads", "1", "-m", "8"];
    arguments.extend(["--proxies", "2", "--proxy-arg=--admin=127.0.0.1:0"]);
    arguments.extend(["--addresses", &file]);
    let up = Up::start(&arguments);
    assert_eq!(up.client().set("greeting", b"hello"), "STORED");
    let text = std::fs::read_to_string(&file).expect("it is written");
    let told: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let coordinator = format!("http://{}", up.coordinator.address);
    assert_eq!(told["coordinator"], coordinator);
    assert_eq!(told["page"], format!("{coordinator}/"));
    assert_eq!(told["servers"][0]["name"], "server-1");
    assert_eq!(
        told["proxies"][0]["address"],
        up.process.address().to_string()
    );
    let second = &told["proxies"][1];
    assert_eq!(second["name"], "proxy-2");
    let address = second["address"].as_str().expect("a text");
    let mut client = Client::connect(address.parse().expect("an address"));
    assert_eq!(client.get("greeting").expect("stored").data, b"hello");
    let pid = second["pid"].as_u64().expect("a process id") as u32;
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
    assert!(String::from_utf8_lossy(&line).contains("--admin=127.0.0.1:0"));
}

#[test]
fn its_page_is_opened_where_something_can_open_it() {
    let small = ["--open", "--servers", "1", "--threads", "1", "-m", "8"];
    let programs = tempfile::tempdir().expect("a temporary folder");
    let up = Up::start_with_programs(&small, programs.path());
    let page = format!("http://{}/", up.coordinator.address);
    let told = up.process.await_stderr("yourself");
    assert!(
        told.contains("no xdg-open") && told.contains(&page),
        "{told}"
    );
    drop(up);

    let (opener, opened) = (
        programs.path().join("xdg-open"),
        programs.path().join("opened"),
    );
    let script = format!("#!/bin/sh\nprintf %s \"$1\" > {}\n", opened.display());
    std::fs::write(&opener, script).expect("the folder is there");
    std::fs::set_permissions(&opener, PermissionsExt::from_mode(0o755)).expect("it is there");
    let up = Up::start_with_programs(&small, programs.path());
    let page = format!("http://{}/", up.coordinator.address);
    poll_until(LINE_DEADLINE, "the page to be opened", || {
        (std::fs::read_to_string(&opened).ok()? == page).then_some(())
    });
}

#[test]
fn a_killed_server_comes_back_empty_under_its_address() {
    let up = Up::start(&["--servers", "2", "--threads", "1", "-m", "8"]);
    let mut client = up.client();
    let keys: Vec<String> = (0..100).map(|number| format!("key:{number}")).collect();
    for key in &keys {
        assert_eq!(client.set(key, b"old"), "STORED");
    }
    let before = up.pid_of(0);
    kill(before);
    up.wait_until_serving();
    assert_ne!(up.pid_of(0), before, "another process at the same address");
    let mut client = up.client();
    let kept = keys.iter().filter(|key| client.get(key).is_some()).count();
    assert!(
        (1..100).contains(&kept),
        "{kept} keys of the other server are left"
    );
}

#[test]
fn a_killed_coordinator_and_proxy_come_back() {
    let up = Up::start(&["--servers", "1", "--threads", "1", "-m", "8"]);
    let mut children = up.children();
    let server = up.pid_of(0);
    children.retain(|&pid| pid != server);
    assert_eq!(children.len(), 2, "coordinator and proxy");
    for pid in children {
        kill(pid);
    }
    up.wait_until_serving();
    poll_until(RECOVERY_DEADLINE, "the coordinator with its map", || {
        let answer = evenkeel_testkit::http::get(up.coordinator.address, "/readyz");
        matches!(answer, Ok((200, _))).then_some(())
    });
}

#[test]
fn no_process_outlives_a_killed_parent() {
    let mut up = Up::start(&["--servers", "1", "--threads", "1", "-m", "8"]);
    let children = up.children();
    assert_eq!(children.len(), 3);
    up.process.kill();
    poll_until(RECOVERY_DEADLINE, "the end of the children", || {
        children.iter().all(|&pid| is_gone(pid)).then_some(())
    });
}

#[test]
fn a_port_in_use_ends_it_with_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    for flag in ["--listen", "--coordinator-listen"] {
        let mut up = Process::command("evenkeel up", PROGRAM)
            .args(["up", "--servers", "1", "-m", "8", flag, &address])
            .spawn();
        assert_eq!(up.wait(EXIT_DEADLINE).code(), Some(2));
        let told = up.stderr_text();
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(
            told.contains("did not start") && told.contains(&address),
            "{told}"
        );
        assert_eq!(up.stdout_text(), "");
    }
}

#[test]
fn a_bad_flag_of_a_server_ends_it_with_one_line() {
    let mut up = Process::command("evenkeel up", PROGRAM)
        .args(["up", "--servers", "1", "--server-arg=--progress-timeout=x"])
        .spawn();
    assert_eq!(up.wait(EXIT_DEADLINE).code(), Some(2));
    let told = up.stderr_text();
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(
        told.contains("server-1") && told.contains("--progress-timeout"),
        "{told}"
    );
}

/// How long a ring may take to follow its load: some ten slots of a second each, and a busy machine.
const RING_DEADLINE: Duration = Duration::from_secs(300);

/// Process ids of the memcacheds among these.
fn memcacheds(children: Vec<u32>) -> Vec<u32> {
    let is_memcached = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "memcached")
    };
    children.into_iter().filter(is_memcached).collect()
}

#[test]
fn a_ring_of_memcacheds_follows_the_load_and_a_killed_one_comes_back() {
    let files = tempfile::tempdir().expect("a temporary folder");
    let mut up = Process::command("evenkeel up --adaptive", PROGRAM)
        .args(["up", "--adaptive", "--memcached", "3", "--format", "json"])
        .env("TMPDIR", files.path())
        .spawn();
    let coordinator = poll_until(RECOVERY_DEADLINE, "where the coordinator is", || {
        let told = up.stderr_text();
        assert!(up.is_running(), "{told}");
        let (_, rest) = told.split_once("\ncoordinator http://")?;
        let (address, _) = rest.split_once('\n')?;
        Some(address.parse::<SocketAddr>().expect("an address"))
    });
    poll_until(RING_DEADLINE, "a plan that made the load more even", || {
        let (_, text) = evenkeel_testkit::http::get(coordinator, "/api/v1/rings").ok()?;
        let rings: Value = serde_json::from_str(&text).expect("JSON");
        let outcomes = rings["rings"][0]["outcomes"].as_array()?;
        let is_better = |it: &Value| it["after"].as_f64() < it["before"].as_f64();
        let is_over = |it: &&Value| it["after"].is_number();
        outcomes.iter().filter(is_over).any(is_better).then_some(())
    });

    let before = memcacheds(children_of(up.pid()));
    assert_eq!(before.len(), 3);
    kill(before[0]);
    poll_until(RECOVERY_DEADLINE, "another memcached in its place", || {
        let now = memcacheds(children_of(up.pid()));
        (now.len() == 3 && !now.contains(&before[0])).then_some(())
    });

    let children = children_of(up.pid());
    assert_eq!(children.len(), 9, "coordinator, three pairs, two proxies");
    up.signal(Signal::Interrupt);
    assert_eq!(up.wait(EXIT_DEADLINE).code(), Some(0));
    assert!(children.into_iter().all(is_gone));
    assert_eq!(files_in(files.path()), Vec::<PathBuf>::new());
    let report: Value = serde_json::from_str(&up.stdout_text()).expect("nothing but JSON");
    assert_eq!(report["restarts"], 1, "{report}");
    assert_eq!(report["wrong_values"], 0, "{report}");
    assert_eq!(report["settings"]["memcacheds"], 3);
    assert!(report["first"]["max_by_mean"].is_number(), "{report}");
    assert!(report["last"]["plan"].as_u64() >= Some(2), "{report}");
}

#[test]
fn a_missing_memcached_is_told_in_one_line_with_its_package() {
    let mut up = Process::command("evenkeel up --adaptive", PROGRAM)
        .args(["up", "--adaptive"])
        .env("PATH", "")
        .spawn();
    assert_eq!(up.wait(EXIT_DEADLINE).code(), Some(1));
    let told = up.stderr_text();
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains("apt-get install memcached"), "{told}");
    assert_eq!(up.stdout_text(), "");
}
