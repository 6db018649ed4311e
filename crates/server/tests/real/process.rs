//! Where it runs, as whom, and how it ends.

use evenkeel_testkit::{Client, EXIT_DEADLINE, Process, Signal, evenkeel, poll_until};
use rustix::process::{Pid, kill_process, test_kill_process};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);

/// A server in the background; ended with the test.
struct Background(Pid);

impl Background {
    fn of(pid_file: &Path) -> Background {
        let text = std::fs::read_to_string(pid_file).expect("the pid file is there by now");
        let pid = text.trim().parse().expect("a process id");
        Background(Pid::from_raw(pid).expect("not zero"))
    }

    fn runs(&self) -> bool {
        test_kill_process(self.0).is_ok()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Gone already, when all went well.
        let _ = kill_process(self.0, rustix::process::Signal::KILL);
    }
}

fn ports(file: &Path) -> Vec<u16> {
    let text = std::fs::read_to_string(file).expect("the port file is there by now");
    text.lines()
        .map(|line| {
            let port = line.strip_prefix("TCP INET: ").expect("memcached's words");
            port.parse().expect("a port")
        })
        .collect()
}

fn here(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[test]
fn in_the_background_it_serves_once_the_foreground_has_ended() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (pid_file, port_file) = (dir.path().join("pid"), dir.path().join("ports"));
    let mut foreground = evenkeel::command("server")
        .args([
            "-d",
            "-u",
            "root",
            "-p",
            "-1",
            "-l",
            "127.0.0.1",
            "-t",
            "1",
            "-P",
        ])
        .arg(&pid_file)
        .env("MEMCACHED_PORT_FILENAME", &port_file)
        .spawn();
    assert_eq!(foreground.wait(EXIT_DEADLINE).code(), Some(0));
    let server = Background::of(&pid_file);
    assert_ne!(
        foreground.pid(),
        server.0.as_raw_nonzero().get().unsigned_abs()
    );
    let mut client = Client::connect(here(ports(&port_file)[0]));
    assert_eq!(client.set("k", b"v"), "STORED");
    kill_process(server.0, rustix::process::Signal::TERM).expect("it runs");
    poll_until(EXIT_DEADLINE, "the end of the server", || {
        (!server.runs()).then_some(())
    });
    assert!(!pid_file.exists(), "the pid file goes with the server");
}

/// More than a worker executes for one connection in a turn, on more connections than it has workers.
#[test]
fn what_has_come_in_before_it_is_told_to_stop_is_answered() {
    const CONNECTIONS: usize = 8;
    const REQUESTS: usize = 500;
    let mut server = evenkeel::server(&["-t", "2"]);
    let mut clients: Vec<Client> = (0..CONNECTIONS)
        .map(|_| Client::connect(server.address()))
        .collect();
    // Each is known to its worker.
    for client in &mut clients {
        assert_eq!(client.set("k", b"v"), "STORED");
    }
    let pipeline = "mn\r\n".repeat(REQUESTS);
    for client in &mut clients {
        client.send(pipeline.as_bytes());
    }
    server.signal(Signal::Terminate);
    for client in clients {
        assert_eq!(client.finish(b"").len(), "MN\r\n".len() * REQUESTS);
    }
    assert_eq!(server.wait(EXIT_DEADLINE).code(), Some(0));
}

#[test]
fn the_foreground_tells_that_the_background_could_not_start() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port().to_string();
    let output = evenkeel::run(&["server", "-d", "-u", "root", "-l", "127.0.0.1", "-p", &port]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains(&port), "{told}");
}

#[test]
fn root_says_whom_to_run_as() {
    if !rustix::process::geteuid().is_root() {
        // Others than root are not asked, and cannot become anybody.
        let server = evenkeel::server(&["-u", "no-such-user"]);
        assert_eq!(Client::connect(server.address()).set("k", b"v"), "STORED");
        return;
    }
    let refused = evenkeel::run(&["server", "-p", "0", "-l", "127.0.0.1"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("-u USER"));
    let refused = evenkeel::run(&["server", "-p", "0", "-u", "no-such-user"]);
    assert_eq!(refused.status.code(), Some(2));
    let server = Process::command("server of nobody", evenkeel_testkit::binary::evenkeel())
        .args([
            "server",
            "-p",
            "0",
            "-l",
            "127.0.0.1",
            "-u",
            "nobody",
            "-t",
            "1",
        ])
        .ready_prefix("evenkeel server listening on ")
        .spawn();
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("runs");
    for name in ["Uid:", "Gid:"] {
        let line = status
            .lines()
            .find(|line| line.starts_with(name))
            .expect("a line");
        let ids: Vec<&str> = line.split_whitespace().skip(1).collect();
        assert_eq!(ids.len(), 4);
        assert!(ids.iter().all(|id| *id != "0"), "root in some way: {line}");
    }
    assert_eq!(Client::connect(server.address()).set("k", b"v"), "STORED");
}

#[test]
fn it_listens_on_every_address_of_the_list() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let port_file = dir.path().join("ports");
    let server = evenkeel::command("server")
        .args([
            "-u",
            "root",
            "-p",
            "0",
            "-t",
            "1",
            "-l",
            "127.0.0.1,127.0.0.2",
            "-l",
            "localhost",
        ])
        .env("MEMCACHED_PORT_FILENAME", &port_file)
        .ready_prefix("evenkeel server listening on ")
        .spawn();
    let text = std::fs::read_to_string(&port_file).expect("written before the ready line");
    let addresses: Vec<u16> = text
        .lines()
        .filter_map(|line| line.strip_prefix("TCP INET: ")?.parse().ok())
        .collect();
    assert_eq!(addresses.len(), 3, "{text}");
    assert_eq!(addresses[0], server.address().port());
    for (ip, port) in [
        ([127, 0, 0, 1], 0),
        ([127, 0, 0, 2], 1),
        ([127, 0, 0, 1], 2),
    ] {
        let mut client = Client::connect(SocketAddr::from((ip, addresses[port])));
        assert!(client.command("version").starts_with("VERSION "));
    }
}

#[test]
fn a_unix_socket_takes_the_place_of_the_network() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("socket");
    let mut server = evenkeel::command("server")
        .args(["-u", "root", "-a", "600", "-t", "2", "-s"])
        .arg(&path)
        .ready_prefix("evenkeel server listening on ")
        .spawn();
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(&path).expect("it listens");
    stream.write_all(b"version\r\nquit\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("VERSION "), "{answer}");
    let sockets = std::fs::read_to_string(format!("/proc/{}/net/tcp", server.pid())).expect("runs");
    let listening: Vec<&str> = sockets
        .lines()
        .filter(|line| line.contains(" 0A "))
        .collect();
    let owned: Vec<String> = std::fs::read_dir(format!("/proc/{}/fd", server.pid()))
        .expect("runs")
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .map(|link| link.display().to_string())
        .collect();
    for line in listening {
        let inode = line.split_whitespace().nth(9).expect("an inode");
        let socket = format!("socket:[{inode}]");
        assert!(
            !owned.contains(&socket),
            "a TCP port besides the socket: {line}"
        );
    }
    server.signal(Signal::Terminate);
    assert_eq!(server.wait(EXIT_DEADLINE).code(), Some(0));
    assert!(!path.exists());
}

#[test]
fn draining_lets_clients_finish_what_they_have_begun() {
    let mut server = evenkeel::server(&["-t", "1"]);
    let (mut busy, mut idle) = (
        Client::connect(server.address()),
        Client::connect(server.address()),
    );
    assert!(idle.command("version").starts_with("VERSION "));
    busy.send(b"set half 0 0 10\r\n01234");
    // The beginning has been read once its bytes are counted.
    poll_until(DEADLINE, "the half command", || {
        let read: u64 = idle.stats("")["bytes_read"].parse().expect("a number");
        (read >= 22 + "version\r\n".len() as u64).then_some(())
    });
    server.signal(Signal::Drain);
    assert!(idle.closed(), "an idle connection is let go");
    busy.send(b"56789\r\n");
    assert_eq!(busy.line(), "STORED");
    assert!(busy.closed());
    assert_eq!(server.wait(EXIT_DEADLINE).code(), Some(0));
}

#[test]
fn probes_are_answered_where_asked_for() {
    let mut server = evenkeel::server(&["-t", "1", "--admin", "127.0.0.1:0"]);
    let address: SocketAddr = poll_until(DEADLINE, "the line with the address", || {
        let told = server.stderr_text();
        let line = told.lines().find_map(|line| {
            let (_, address) = line.split_once("evenkeel server: probes are answered on ")?;
            Some(address.to_owned())
        })?;
        line.parse().ok()
    });
    for path in ["/healthz", "/readyz"] {
        let answer = evenkeel_testkit::http::get(address, path).expect("an answer");
        assert_eq!(answer, (200, "ok\n".to_owned()), "{path}");
    }
    let mut client = Client::connect(server.address());
    client.send(b"set a 0 0 1\r\n1\r\nget a\r\nget b\r\n");
    assert_eq!(client.line(), "STORED");
    while client.line() != "END" {}
    assert_eq!(client.line(), "END");
    let (status, metrics) = evenkeel_testkit::http::get(address, "/metrics").expect("an answer");
    assert_eq!(status, 200);
    for sample in [
        "memcached_up 1",
        concat!(
            "evenkeel_build_info{role=\"server\",version=\"",
            env!("CARGO_PKG_VERSION"),
            "\"} 1"
        ),
        "memcached_current_items 1",
        "memcached_commands_total{command=\"get\",status=\"hit\"} 1",
        "memcached_commands_total{command=\"get\",status=\"miss\"} 1",
        "memcached_commands_total{command=\"set\",status=\"hit\"} 1",
    ] {
        assert!(
            metrics.lines().any(|line| line == sample),
            "{sample} in {metrics}"
        );
    }
    let (status, _) = evenkeel_testkit::http::get(address, "/nowhere").expect("an answer");
    assert_eq!(status, 404);
    server.signal(Signal::Terminate);
    assert_eq!(server.wait(EXIT_DEADLINE).code(), Some(0));
}
