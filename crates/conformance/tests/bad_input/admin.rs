//! Operators' commands from somebody who is none, or who does not read what they asked for.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;

use evenkeel_testkit::{Client, evenkeel};

use super::{GROWTH_MAX_BYTES, assert_serves};

/// Items that a dump has to list: lines of some ten megabytes.
const ITEMS: usize = 100_000;

/// Dumps that are asked for at once, none of them read.
const DUMPS: usize = 40;

#[test]
fn a_dump_that_nobody_reads_costs_little() {
    let mut server = evenkeel::server(&["-t", "2", "-m", "64"]);
    let mut client = Client::connect(server.address());
    for n in 0..ITEMS {
        client.send(format!("set item:{n:090} 0 0 1 noreply\r\nx\r\n").as_bytes());
    }
    assert!(client.command("version").starts_with("VERSION"));
    let before = server.resident_bytes();
    let dumps: Vec<TcpStream> = (0..DUMPS)
        .map(|n| {
            let mut stream = TcpStream::connect(server.address()).expect("it accepts");
            let kind = ["metadump", "mgdump"][n % 2];
            let request = format!("lru_crawler {kind} all\r\n").repeat(20);
            stream.write_all(request.as_bytes()).expect("it is sent");
            stream
        })
        .collect();
    for _ in 0..100 {
        assert_serves(&mut server);
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX_BYTES, "grew by {grown} bytes");
    drop(dumps);
    assert_serves(&mut server);
}

#[test]
fn a_watcher_that_does_not_read_costs_little() {
    let mut server = evenkeel::server(&["-t", "2", "-m", "64"]);
    let before = server.resident_bytes();
    let watchers: Vec<TcpStream> = (0..10)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address()).expect("it accepts");
            stream
                .write_all(b"watch fetchers mutations evictions connevents\r\n")
                .expect("it is sent");
            stream
        })
        .collect();
    // Far more events than sockets hold.
    let mut client = Client::connect(server.address());
    for n in 0..20_000 {
        client.send(format!("set w:{n:0100} 0 0 1 noreply\r\nx\r\n").as_bytes());
        client.send(format!("mg w:{n:0100} q v\r\n").as_bytes());
        if n % 100 == 0 {
            client.send(b"mn\r\n");
            while client.line() != "MN" {}
        }
    }
    assert_serves(&mut server);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX_BYTES, "grew by {grown} bytes");
    drop(watchers);
    assert_serves(&mut server);
}

#[test]
fn nobody_shuts_a_server_down_that_does_not_allow_it() {
    let mut server = evenkeel::server(&["-t", "2"]);
    let mut client = Client::connect(server.address());
    for command in ["shutdown", "shutdown graceful", "shutdown now"] {
        assert!(client.command(command).starts_with("ERROR"), "{command}");
    }
    assert_serves(&mut server);
}

#[test]
fn an_operators_command_of_any_length_is_answered_or_closed() {
    let mut server = evenkeel::server(&["-t", "2"]);
    let many = " x".repeat(900);
    for command in [
        "verbosity",
        "stats",
        "stats detail",
        "stats conns",
        "lru_crawler",
        "lru_crawler metadump",
        "slabs",
        "slabs reassign",
        "slabs automove",
        "lru",
        "lru tune",
        "cache_memlimit",
        "shutdown",
        "debugtime",
        "refresh_certs",
        "config get",
        "extstore",
        "flush_all",
    ] {
        for words in ["", " ", " -1", " 18446744073709551616", " \u{0}", &many] {
            let mut stream = TcpStream::connect(server.address()).expect("it accepts");
            stream
                .write_all(format!("{command}{words}\r\nquit\r\n").as_bytes())
                .expect("it is sent");
            stream
                .set_read_timeout(Some(evenkeel_testkit::IO_TIMEOUT))
                .expect("a socket can be");
            let mut answer = Vec::new();
            match std::io::Read::read_to_end(&mut stream, &mut answer) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
                Err(error) => panic!("`{command}{words}`: {error} after {answer:?}"),
            }
        }
    }
    assert_serves(&mut server);
}
