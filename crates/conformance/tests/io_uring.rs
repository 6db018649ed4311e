//! `--io`: what the workers do by io_uring must not be told from what they do by epoll, and where
//! io_uring is refused, the start says so. The other suites run with `EVENKEEL_IO=uring` as well
//! (`scripts/test.sh`).

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use evenkeel_testkit::{Client, EXIT_DEADLINE, IO_TIMEOUT, Process, evenkeel, poll_until};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

/// `io_uring_setup(2)` on every architecture (Linux's unified numbers, from 424 on).
const IO_URING_SETUP: i64 = 425;

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// Connections at a time in the large tests.
const MANY: usize = 10_000;

/// Whether this machine allows io_uring. Containers often do not; then there is nothing to test but
/// the refusals.
fn allowed() -> bool {
    let mut process = evenkeel::command("server")
        .args(["-p", "0", "-u", "root", "-t", "1", "--io", "uring"])
        .spawn();
    let ready = process.next_line(EXIT_DEADLINE).is_some();
    if !ready {
        process.wait(EXIT_DEADLINE);
        println!("not tested here: {}", process.stderr_text().trim());
    }
    ready
}

fn server(arguments: &[&str]) -> Process {
    let process = evenkeel::server(&[&["--io", "uring"], arguments].concat());
    let fdinfo = format!("/proc/{}/fd", process.pid());
    let rings = std::fs::read_dir(fdinfo)
        .expect("a running process has descriptors")
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.to_string_lossy().contains("io_uring"))
        .count();
    assert!(rings > 0, "the server uses io_uring");
    process
}

fn descriptors(process: &Process) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", process.pid()))
        .expect("a running process has descriptors")
        .count()
}

/// Runs `test` on a thread, and so with child processes, for which `io_uring_setup` fails with `errno`.
fn without_io_uring<T: Send + 'static>(errno: u32, test: impl FnOnce() -> T + Send + 'static) -> T {
    let architecture: TargetArch = std::env::consts::ARCH.try_into().expect("x86-64 or ARM");
    let filter: BpfProgram = SeccompFilter::new(
        [(IO_URING_SETUP, vec![])].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno),
        architecture,
    )
    .and_then(TryInto::try_into)
    .expect("a filter of one call");
    let thread = std::thread::spawn(move || {
        apply_filter(&filter).expect("a thread may restrict itself");
        test()
    });
    thread.join().expect("the test passes")
}

#[test]
fn where_io_uring_is_refused_the_start_says_why() {
    for (errno, why) in [(EPERM, "seccomp"), (ENOSYS, "the kernel has none")] {
        let output = without_io_uring(errno, || {
            evenkeel::run(&["server", "-p", "0", "-u", "root", "--io", "uring"])
        });
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains("--io uring: io_uring is not available"),
            "{stderr}"
        );
        assert!(stderr.contains(why), "{stderr}");
        assert!(output.stdout.is_empty(), "no ready line");
    }
}

#[test]
fn auto_falls_back_with_one_line() {
    without_io_uring(EPERM, || {
        let process = evenkeel::server(&["--io", "auto"]);
        let mut client = Client::connect(process.address());
        assert_eq!(client.set("a", b"1"), "STORED");
        let lines = poll_until(IO_TIMEOUT, "the line about the fall-back", || {
            let stderr = process.stderr_text();
            let lines = stderr.lines().filter(|line| line.contains("io_uring"));
            let lines: Vec<String> = lines.map(str::to_owned).collect();
            (!lines.is_empty()).then_some(lines)
        });
        assert!(lines.len() == 1 && lines[0].contains("epoll"), "{lines:?}");
    });
}

#[test]
fn answers_leave_before_the_end_of_the_connection() {
    if !allowed() {
        return;
    }
    let process = server(&["-t", "2"]);
    let value = vec![b'v'; 300_000];
    let mut client = Client::connect(process.address());
    assert_eq!(client.set("large", &value), "STORED");
    for end in ["quit\r\n", ""] {
        let mut stream = TcpStream::connect(process.address()).expect("the server listens");
        stream
            .set_read_timeout(Some(IO_TIMEOUT))
            .expect("a timeout");
        let request = format!("{}{end}", "get large\r\n".repeat(20));
        stream.write_all(request.as_bytes()).expect("written");
        if end.is_empty() {
            stream.shutdown(Shutdown::Write).expect("ended");
        }
        let mut answers = Vec::new();
        stream
            .read_to_end(&mut answers)
            .expect("answers, then the end");
        assert_eq!(
            answers.len(),
            20 * ("VALUE large 0 300000\r\n\r\nEND\r\n".len() + 300_000)
        );
    }
}

/// The end of a connection does not wait for something else to happen on the worker.
#[test]
fn a_connection_ends_at_once() {
    if !allowed() {
        return;
    }
    let process = server(&["-t", "1"]);
    let start = std::time::Instant::now();
    const TIMES: u32 = 200;
    for _ in 0..TIMES {
        let client = Client::connect(process.address());
        assert_eq!(client.finish(b"get none\r\nquit\r\n"), b"END\r\n");
        let client = Client::connect(process.address());
        assert_eq!(client.finish(b"get none\r\n"), b"END\r\n");
    }
    // An idle worker looks around twice a second. Had each of these ends waited for that, they had taken three minutes.
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_secs(90), "{elapsed:?}");
}

/// A client that sends far more than may be kept for it, and reads nothing meanwhile, is held back and
/// loses nothing.
#[test]
fn a_client_that_reads_late_gets_every_answer() {
    if !allowed() {
        return;
    }
    let mut process = server(&["-t", "1"]);
    let mut other = Client::connect(process.address());
    assert_eq!(other.set("k", &[b'v'; 10_000]), "STORED");
    const GETS: usize = 20_000;
    let mut stream = TcpStream::connect(process.address()).expect("the server listens");
    stream
        .set_read_timeout(Some(IO_TIMEOUT))
        .expect("a timeout");
    let mut writer = stream.try_clone().expect("a second handle");
    let sender = std::thread::spawn(move || {
        for _ in 0..GETS / 100 {
            writer
                .write_all("get k\r\n".repeat(100).as_bytes())
                .expect("sent in the end");
        }
        writer.shutdown(Shutdown::Write).expect("ended");
    });
    // Others are served while the first one is held back.
    for _ in 0..100 {
        assert!(other.get("k").is_some());
    }
    let mut bytes = 0;
    let mut scratch = vec![0; 1 << 20];
    loop {
        match stream.read(&mut scratch).expect("answers, then the end") {
            0 => break,
            count => bytes += count,
        }
    }
    sender.join().expect("everything was sent");
    assert_eq!(
        bytes,
        GETS * ("VALUE k 0 10000\r\n\r\nEND\r\n".len() + 10_000)
    );
    assert!(process.is_running());
}

/// More connections begin to send at once than there are receive buffers.
#[test]
fn many_large_values_at_once_arrive_whole() {
    if !allowed() {
        return;
    }
    // All of it is received at once, however slowly; what happens beyond that bound is tested elsewhere.
    let room = ["-o", "read_buf_mem_limit=64"];
    let process = server(&[&["-t", "1", "-m", "256"], &room[..]].concat());
    const CLIENTS: usize = 400;
    const BYTES: usize = 100_000;
    let mut streams = Vec::new();
    for n in 0..CLIENTS {
        let mut stream = TcpStream::connect(process.address()).expect("the server listens");
        stream
            .set_read_timeout(Some(IO_TIMEOUT))
            .expect("a timeout");
        stream
            .write_all(format!("set k{n} 0 0 {BYTES}\r\n").as_bytes())
            .expect("written");
        streams.push(stream);
    }
    for part in 0..10 {
        for (n, stream) in streams.iter_mut().enumerate() {
            let part = vec![b'0' + ((n + part) % 10) as u8; BYTES / 10];
            stream.write_all(&part).expect("written");
        }
    }
    for stream in &mut streams {
        stream.write_all(b"\r\n").expect("written");
    }
    for stream in &mut streams {
        let mut answer = [0; 8];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"STORED\r\n");
    }
    let mut client = Client::connect(process.address());
    for n in 0..CLIENTS {
        let value = client.get(&format!("k{n}")).expect("stored").data;
        let expected: Vec<u8> = (0..10)
            .flat_map(|part| vec![b'0' + ((n + part) % 10) as u8; BYTES / 10])
            .collect();
        assert!(value == expected, "k{n}");
    }
}

#[test]
fn connections_come_and_go_without_leaving_anything_behind() {
    if !allowed() {
        return;
    }
    let mut process = server(&["-t", "2", "-c", "2000"]);
    let mut witness = Client::connect(process.address());
    assert_eq!(witness.set("v", &[b'v'; 200_000]), "STORED");
    let before = descriptors(&process);
    for round in 0..20 {
        let mut streams = Vec::new();
        for n in 0..100 {
            let mut stream = TcpStream::connect(process.address()).expect("the server listens");
            let bytes: &[u8] = match (round + n) % 5 {
                0 => b"",
                1 => b"get v\r\nget v\r\nget v\r\n",
                2 => b"set half 0 0 100\r\nonly a part",
                3 => b"get v\r\nquit\r\n",
                _ => b"get ",
            };
            stream.write_all(bytes).expect("written");
            streams.push(stream);
        }
        // Dropped with answers unread, the kernel resets them; some are ended politely first.
        for stream in streams.iter().step_by(3) {
            match stream.shutdown(Shutdown::Write) {
                Err(error) if error.kind() != ErrorKind::NotConnected => panic!("{error}"),
                _ => {}
            }
        }
        drop(streams);
    }
    poll_until(IO_TIMEOUT, "all descriptors to be closed", || {
        let closed = witness.stats("")["curr_connections"] == "1";
        (closed && descriptors(&process) <= before).then_some(())
    });
    assert!(process.is_running());
    assert!(witness.get("v").is_some() && witness.get("half").is_none());
}

#[test]
fn ten_thousand_connections_are_served() {
    if !allowed() {
        return;
    }
    let room = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    if room.is_some_and(|room| room < MANY as u64 + 500) {
        println!("not tested here: no more than {room:?} files may be open (ulimit -n)");
        return;
    }
    rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit {
            current: room.or(Some(MANY as u64 + 500)),
            maximum: room,
        },
    )
    .expect("the soft limit may be raised to the hard one");
    let process = server(&["-t", "1", "-c", "10100", "-b", "4096"]);
    let mut streams: Vec<TcpStream> = (0..MANY)
        .map(|_| {
            let stream = TcpStream::connect(process.address()).expect("the server listens");
            stream
                .set_read_timeout(Some(IO_TIMEOUT))
                .expect("a timeout");
            stream
        })
        .collect();
    for _ in 0..2 {
        for stream in &mut streams {
            stream.write_all(b"mn\r\n").expect("written");
        }
        for stream in &mut streams {
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).expect("an answer");
            assert_eq!(&answer, b"MN\r\n");
        }
    }
    drop(streams);
    let mut client = Client::connect(process.address());
    poll_until(IO_TIMEOUT, "all connections to be closed", || {
        (client.stats("")["curr_connections"] == "1").then_some(())
    });
}
