//! Ports that answer as the workers of a server, for tests whose servers are heartbeats written by hand.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

/// Opens a port for each of this many workers of the process `boot`, which answers hellos and nothing else, until the test's
/// process ends.
pub fn worker_ports(boot: u64, workers: u16) -> Vec<u16> {
    let open = |worker| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || answer(&stream, worker, boot));
            }
        });
        port
    };
    (0..workers).map(open).collect()
}

fn answer(mut stream: &TcpStream, worker: u16, boot: u64) {
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let answer = match line.starts_with("evenkeel ") {
            true => {
                format!("EVENKEEL 1 server=0 worker={worker} boot={boot} epoch=0 lease_ms=0\r\n")
            }
            false => "ERROR\r\n".to_owned(),
        };
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
