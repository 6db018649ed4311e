//! Peers that misbehave, against real processes: they get their due, everybody else is served, and
//! memory stays bounded. What memcached answers to bad lines stands in the transcripts, which are run
//! at every way of cutting too; here is what takes more than a few lines.

mod admin;
mod binary;
mod framing;

use evenkeel_conformance::exchange::{Split, exchange, next_random, seed};
use evenkeel_testkit::{
    Client, Cluster, ClusterOptions, IO_TIMEOUT, Process, evenkeel, poll_until,
};
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};

/// Memory that a process may take beyond what it had: buffers of a few connections, never the
/// gigabytes that the misbehaving peers of these tests ask for.
const GROWTH_MAX_BYTES: u64 = 160 << 20;

/// Runs a test against a server and against a proxy with its cluster.
fn on_server_and_proxy(test: impl Fn(&mut Process)) {
    test(&mut evenkeel::server(&["-t", "2", "-m", "64"]));
    let mut cluster = Cluster::start(ClusterOptions::nobody_dies());
    test(&mut cluster.proxies[0]);
    assert!(
        cluster.servers.iter_mut().all(Process::is_running),
        "the servers live on"
    );
}

/// The process serves others.
fn assert_serves(process: &mut Process) {
    assert!(process.is_running(), "{} lives on", process.name());
    let mut client = Client::connect(process.address());
    assert_eq!(client.set("witness", b"seen"), "STORED");
    assert_eq!(
        client.get("witness").map(|value| value.data),
        Some(b"seen".to_vec())
    );
}

#[test]
fn a_client_that_reads_gets_answers_of_any_size() {
    on_server_and_proxy(|process| {
        let value = vec![b'v'; 400_000];
        let mut client = Client::connect(process.address());
        let keys: Vec<String> = (0..20).map(|n| format!("large{n}")).collect();
        for key in &keys {
            assert_eq!(client.set(key, &value), "STORED");
        }
        // Far more than may wait for a client, in one command and in many.
        let one = format!("get {}\r\n", keys.join(" "));
        let many: String = keys.iter().map(|key| format!("get {key}\r\n")).collect();
        for request in [one, many] {
            client.send(request.as_bytes());
            client.send(b"mn\r\n");
            let mut values = 0;
            loop {
                let line = client.line();
                values += usize::from(line.starts_with("VALUE "));
                if line == "MN" {
                    break;
                }
            }
            assert_eq!(values, keys.len(), "{}", process.name());
        }
    });
}

#[test]
fn a_client_that_stops_reading_is_paused_and_costs_little() {
    on_server_and_proxy(|process| {
        let value = vec![b'v'; 1_000_000];
        assert_eq!(
            Client::connect(process.address()).set("large", &value),
            "STORED"
        );
        let before = process.resident_bytes();
        let mut greedy = TcpStream::connect(process.address()).expect("it accepts");
        greedy.set_nonblocking(true).expect("a socket can be");
        let request = b"get large\r\n".repeat(100);
        // Ten gigabytes of answers asked for, none read: the server stops reading, or closes.
        let (mut asked, mut refused) = (0, 0);
        while asked < 100 && refused < 1000 {
            match greedy.write(&request) {
                Ok(len) if len == request.len() => asked += 1,
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    refused += 1;
                    assert_serves(process);
                }
                Err(_) => break, // Closed at a limit.
            }
        }
        assert_serves(process);
        let grown = process.resident_bytes().saturating_sub(before);
        assert!(
            grown < GROWTH_MAX_BYTES,
            "{} grew by {grown} bytes",
            process.name()
        );
    });
}

#[test]
fn a_length_is_believed_only_when_the_bytes_come() {
    on_server_and_proxy(|process| {
        let before = process.resident_bytes();
        let connections: Vec<Client> = (0..200)
            .map(|n| {
                let mut client = Client::connect(process.address());
                client.send(format!("set k{n} 0 0 1000000\r\nx").as_bytes());
                client
            })
            .collect();
        assert_serves(process);
        let grown = process.resident_bytes().saturating_sub(before);
        assert!(
            grown < GROWTH_MAX_BYTES,
            "{} grew by {grown} bytes",
            process.name()
        );
        drop(connections);
    });
}

#[test]
fn a_value_far_beyond_the_limit_is_swallowed_not_kept() {
    on_server_and_proxy(|process| {
        let before = process.resident_bytes();
        let mut client = Client::connect(process.address());
        client.send(b"set huge 0 0 500000000\r\n");
        assert_eq!(client.line(), "SERVER_ERROR object too large for cache");
        for _ in 0..500 {
            client.send(&[b'x'; 1_000_000]);
        }
        client.send(b"\r\n");
        assert!(
            client.command("version").starts_with("VERSION "),
            "in step after the value"
        );
        let grown = process.resident_bytes().saturating_sub(before);
        assert!(
            grown < GROWTH_MAX_BYTES,
            "{} grew by {grown} bytes",
            process.name()
        );
    });
}

#[test]
fn a_get_of_ten_thousand_keys_is_answered() {
    on_server_and_proxy(|process| {
        let keys: Vec<String> = (0..10_000).map(|n| format!("many:{n}")).collect();
        let mut client = Client::connect(process.address());
        for key in keys.iter().step_by(7) {
            client.send(format!("set {key} 0 0 {} noreply\r\n{key}\r\n", key.len()).as_bytes());
        }
        let asked: Vec<&str> = keys.iter().map(String::as_str).collect();
        let values = client.get_many(&asked);
        let found: Vec<&str> = values.iter().map(|value| value.key.as_str()).collect();
        let expected: Vec<&str> = asked.iter().copied().step_by(7).collect();
        assert_eq!(found, expected, "in the order asked");
        assert!(
            values
                .iter()
                .all(|value| value.data == value.key.as_bytes())
        );
    });
}

#[test]
fn a_client_that_sends_byte_by_byte_stops_nobody() {
    on_server_and_proxy(|process| {
        let mut slow = Client::connect(process.address());
        for piece in b"set slow 0 0 3\r\nabc\r\nget slow\r\n".chunks(1) {
            slow.send(piece);
            assert_serves(process);
        }
        assert_eq!(slow.line(), "STORED");
        assert_eq!(slow.line(), "VALUE slow 0 3");
        assert_eq!(slow.bytes(5), b"abc\r\n");
        assert_eq!(slow.line(), "END");
    });
}

#[test]
fn a_connection_cut_in_the_middle_of_a_value_stores_nothing() {
    on_server_and_proxy(|process| {
        let mut client = Client::connect(process.address());
        assert_eq!(client.set("cut", b"old"), "STORED");
        let mut other = Client::connect(process.address());
        other.send(b"set cut 0 0 100\r\nhalf of it");
        drop(other);
        assert_eq!(
            client.get("cut").map(|value| value.data),
            Some(b"old".to_vec())
        );
    });
}

#[test]
fn foreign_protocols_are_turned_away() {
    let foreign: [&[u8]; 5] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS ClientHello\r\n",
        b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a\x21\x11\x00\x0c proxy protocol 2\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
    ];
    on_server_and_proxy(|process| {
        for bytes in foreign {
            // Whatever it answers, it closes after the end of the stream and stays well.
            exchange(process.address(), bytes, Split::Whole).expect("it closes");
        }
        assert_serves(process);
    });
}

#[test]
fn noise_harms_nobody() {
    let seed = seed();
    on_server_and_proxy(|process| noise(process, seed));
}

/// Streams made of true words in wrong order and of random bytes.
fn noise(process: &mut Process, seed: u64) {
    const WORDS: [&[u8]; 24] = [
        b"get",
        b"set",
        b"gat",
        b"cas",
        b"incr",
        b"mg",
        b"ms",
        b"md",
        b"ma",
        b"mn",
        b"noreply",
        b" ",
        b" ",
        b" ",
        b"\r\n",
        b"\r\n",
        b"\n",
        b"0",
        b"1",
        b"-1",
        b"18446744073709551615",
        b"k",
        b"\0",
        b"evenkeel 1 epoch=0",
    ];
    const STREAMS: usize = 300;
    let mut state = seed;
    for stream in 0..STREAMS {
        let mut bytes = Vec::new();
        for _ in 0..next_random(&mut state) % 200 {
            let random = next_random(&mut state);
            if stream % 2 == 0 {
                bytes.extend_from_slice(WORDS[(random % 24) as usize]);
            } else {
                bytes.extend_from_slice(&random.to_le_bytes()[..(random % 9) as usize]);
            }
        }
        if let Err(problem) = exchange(process.address(), &bytes, Split::Whole) {
            panic!("seed {seed}, stream {stream}: {problem}\n{bytes:?}");
        }
    }
    assert_serves(process);
}

#[test]
fn connections_beyond_the_limit_are_refused_and_the_rest_goes_on() {
    let mut server = evenkeel::server(&["-c", "20", "-t", "2"]);
    let mut first = Client::connect(server.address());
    assert_eq!(first.set("k", b"v"), "STORED");
    let crowd: Vec<TcpStream> = (0..60).filter_map(|_| connect(server.address())).collect();
    assert_eq!(first.get("k").map(|value| value.data), Some(b"v".to_vec()));
    drop(crowd);
    // Places come free again when others leave.
    poll_until(IO_TIMEOUT, "a free place after the crowd left", || {
        let mut client = Client::try_connect(server.address()).ok()?;
        client.try_get("k").ok().flatten()
    });
    assert_serves(&mut server);
}

fn connect(address: SocketAddr) -> Option<TcpStream> {
    TcpStream::connect_timeout(&address, IO_TIMEOUT).ok()
}
