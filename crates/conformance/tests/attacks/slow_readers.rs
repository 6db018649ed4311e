//! Clients that ask for much and do not read, and clients that announce much and send little: everybody else is answered as if
//! they were not there, and what the process holds for them is bounded.

use evenkeel_testkit::{Client, Process, Signal, evenkeel, poll_until};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);

/// How many of them there are, one time after the other.
const CROWDS: [usize; 2] = [60, 500];

/// Large values that they ask for.
const LARGE_KEYS: usize = 10;

const LARGE: usize = 1_000_000;

/// Requests of those who behave, each on the answer to the one before.
const HONEST: usize = 200;

/// Of large values.
const HONEST_LARGE: usize = 20;

/// Readers of which most are not closed yet hold, or wait for, this many more megabytes than the process may.
const LEFT: usize = 20;

#[test]
fn readers_who_stop_are_in_nobodys_way() {
    let server = evenkeel::server(&["-t", "2", "-m", "64", "-c", "2048"]);
    let mut witness = Client::connect(server.address());
    store_values(&mut witness);
    for crowd in CROWDS {
        let seen = poll_until(DEADLINE, "small gets between those who wait", || {
            // It has read a large value before they come.
            let mut honest_large =
                TcpStream::connect(server.address()).expect("the server accepts");
            get_large(&mut honest_large)?;
            let before = number(&mut witness, "", "response_obj_oom");
            let waits = number(&mut witness, "evenkeel", "response_obj_waits");
            let readers: Vec<TcpStream> = (0..crowd).map(|n| reader(server.address(), n)).collect();
            poll_until(DEADLINE, "the pool is full and somebody waits", || {
                (number(&mut witness, "evenkeel", "response_obj_waits") > waits).then_some(())
            });
            let mut honest = Client::connect(server.address());
            for n in 0..HONEST {
                let value = honest.get(&format!("small{}", n % 10));
                assert_eq!(value.expect("it was stored").data, b"s");
            }
            // Who has read nothing yet waits in line with them, for the same value.
            let mut newcomer = TcpStream::connect(server.address()).expect("the server accepts");
            newcomer
                .write_all(b"get large0\r\n")
                .expect("a socket takes so few");
            (0..HONEST_LARGE).try_for_each(|_| get_large(&mut honest_large))?;
            newcomer.set_nonblocking(true).expect("an option");
            let waits_still = newcomer.peek(&mut [0]).is_err();
            // Who waits for others to be closed is not answered while most of them stand.
            let closed = number(&mut witness, "", "response_obj_oom") - before;
            drop(readers);
            (closed + LEFT <= crowd && waits_still).then_some(closed)
        });
        println!("{crowd} readers, {seen} of them closed meanwhile");
    }
    // A limit of 64 MiB, 5 % and 64 MiB for everything that is no item.
    let most = resident_at_most(&server);
    println!("{} MiB resident at most", most >> 20);
    assert!(most <= (64 << 20) / 100 * 105 + (64 << 20), "{most} B");
}

/// Sixty megabytes are asked for before a client that is known to ask for little asks again.
#[test]
fn a_small_answer_does_not_wait_until_sixty_large_ones_were_written() {
    let mut server = evenkeel::server(&["-t", "1", "-m", "64"]);
    let mut honest = Client::connect(server.address());
    store_values(&mut honest);
    let mut readers: Vec<TcpStream> = (0..60)
        .map(|_| TcpStream::connect(server.address()).expect("the server accepts"))
        .collect();
    poll_until(DEADLINE, "all of them are connections", || {
        (number(&mut honest, "", "curr_connections") == 61).then_some(())
    });
    let before = number(&mut honest, "", "bytes_written");
    server.signal(Signal::Stop);
    for reader in &mut readers {
        let sent = reader.write_all(b"get large0\r\n");
        sent.expect("a socket takes so few");
    }
    honest.send(b"get small0\r\nstats\r\n");
    server.signal(Signal::Continue);
    assert_eq!(honest.line(), "VALUE small0 0 1");
    let written = std::iter::repeat_with(|| honest.line())
        .find_map(|line| line.strip_prefix("STAT bytes_written ").map(str::to_owned))
        .and_then(|bytes| bytes.parse::<usize>().ok());
    let written = written.expect("a number") - before;
    // Those of a turn, if it was asked in the middle of one.
    assert!(written < 4 * LARGE, "{written} B were written before");
}

#[test]
fn half_sent_stores_are_in_nobodys_way() {
    let server = evenkeel::server(&["-t", "2", "-m", "64", "-c", "2048"]);
    let mut witness = Client::connect(server.address());
    let begin = [
        format!("set half 0 0 {LARGE}\r\n").as_bytes(),
        &[b'h'; 5000],
    ]
    .concat();
    let mut half = Vec::new();
    for crowd in CROWDS {
        half.resize_with(crowd, || {
            let mut stream = TcpStream::connect(server.address()).expect("the server accepts");
            stream.write_all(&begin).expect("sockets take so few");
            stream
        });
        poll_until(DEADLINE, "all of them are in the middle of it", || {
            (number(&mut witness, "", "read_buf_count") >= crowd).then_some(())
        });
        let mut honest = Client::connect(server.address());
        for n in 0..HONEST {
            let said = honest.set(&format!("honest{}", n % 10), &[b'v'; 20_000]);
            assert_eq!(said, "STORED");
        }
        // Nobody had to wait, and nobody had to go: they hold little.
        assert_eq!(number(&mut witness, "evenkeel", "read_buf_waits"), 0);
        assert_eq!(number(&mut witness, "", "read_buf_oom"), 0);
    }
}

/// Most that the proxy may hold for applications, in bytes, and what it needs besides: code and stacks (30 MiB), answers on their
/// way from servers, a quarter more of the former, and the old place of an output of up to 64 MiB while it moves to a larger one.
const BUFFERS: usize = 32 << 20;
const BESIDES: usize = 128 << 20;

#[test]
fn applications_who_stop_are_in_nobodys_way_at_a_proxy() {
    let server = evenkeel::server(&["-t", "2", "-m", "64"]);
    store_values(&mut Client::connect(server.address()));
    let servers = server.address().to_string();
    let buffers = BUFFERS.to_string();
    let arguments = ["-s", &servers, "-t", "2", "-c", "2048"];
    let arguments = [&arguments[..], &["--buffer-memory", &buffers]].concat();
    // However long a busy machine takes.
    let long_timeouts = ["--request-timeout", "60s"];
    let proxy = evenkeel::proxy(&[&arguments[..], &long_timeouts].concat());
    let mut witness = Client::connect(proxy.address());
    assert_eq!(number(&mut witness, "proxy", "buffer_bytes_max"), BUFFERS);
    let mut closed = 0;
    for crowd in CROWDS {
        let readers: Vec<TcpStream> = (0..crowd).map(|n| reader(proxy.address(), n)).collect();
        let begin = [
            format!("set half 0 0 {LARGE}\r\n").as_bytes(),
            &[b'h'; 5000],
        ]
        .concat();
        let half: Vec<TcpStream> = (0..crowd)
            .map(|_| {
                let mut stream = TcpStream::connect(proxy.address()).expect("the proxy accepts");
                stream.write_all(&begin).expect("sockets take so few");
                stream
            })
            .collect();
        poll_until(DEADLINE, "some hold too much and are closed", || {
            let now = number(&mut witness, "proxy", "clients_closed_memory");
            (now > closed).then_some(())
        });
        let mut honest = Client::connect(proxy.address());
        for n in 0..HONEST {
            let key = format!("honest{}", n % 10);
            assert_eq!(honest.set(&key, &[b'v'; 20_000]), "STORED");
            let value = honest.get(&format!("small{}", n % 10));
            assert_eq!(value.expect("it was stored").data, b"s");
        }
        closed = number(&mut witness, "proxy", "clients_closed_memory");
        println!("{crowd} readers, {closed} were closed so far");
        drop((readers, half));
    }
    let most = resident_at_most(&proxy);
    println!("{} MiB resident at most", most >> 20);
    assert!(most <= BUFFERS + BESIDES, "{most} B");
}

/// Ten large values, and ten small ones, of all workers.
fn store_values(client: &mut Client) {
    for n in 0..LARGE_KEYS {
        let said = client.set(&format!("large{n}"), &vec![b'l'; LARGE]);
        assert_eq!(said, "STORED");
        assert_eq!(client.set(&format!("small{n}"), b"s"), "STORED");
    }
}

/// Gets a large value. None when the connection was closed: a busy machine may not let a client read for a second.
///
/// # Panics
/// When there is no answer.
fn get_large(stream: &mut TcpStream) -> Option<()> {
    const AROUND: usize = "VALUE large0 0 1000000\r\n\r\nEND\r\n".len();
    stream.write_all(b"get large0\r\n").ok()?;
    (stream.set_read_timeout(Some(DEADLINE))).expect("an option");
    let mut answer = vec![0; AROUND + LARGE];
    let read = stream.read_exact(&mut answer);
    let is_late = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
    assert!(
        !read.as_ref().is_err_and(is_late),
        "no answer for {DEADLINE:?}"
    );
    read.ok()?;
    assert!(answer.ends_with(b"l\r\nEND\r\n"));
    Some(())
}

/// A connection that asks for more large values than anybody's socket takes, and reads nothing.
fn reader(address: SocketAddr, n: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the process accepts");
    stream.set_nonblocking(true).expect("an option");
    let question = format!("get large{}\r\n", n % LARGE_KEYS).repeat(50);
    match stream.write(question.as_bytes()) {
        Ok(count) => assert_eq!(count, question.len(), "a socket takes so few bytes"),
        // It may have been closed already.
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    stream
}

fn number(client: &mut Client, statistics: &str, name: &str) -> usize {
    client.stats(statistics)[name].parse().expect("a number")
}

/// The most that a process ever had resident, in bytes.
fn resident_at_most(process: &Process) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid()))
        .expect("a running process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<usize>().ok())
        .expect("with its memory in kB")
        * 1024
}
