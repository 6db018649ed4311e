//! Lines and streams of extreme lengths, and peers that go in the middle of something.

use std::net::SocketAddr;

use evenkeel_conformance::exchange::{Split, exchange, seed};
use evenkeel_conformance::transcript::escape;
use evenkeel_testkit::{Client, Memcached, evenkeel};

use super::{assert_serves, on_server_and_proxy};

/// Longest part of an answer that a failure shows.
const SHOWN_MAX: usize = 400;

fn shown(answer: &[u8]) -> String {
    let text = escape(&answer[..answer.len().min(SHOWN_MAX)]);
    format!("{} bytes: {text}", answer.len())
}

/// What memcached and a server, in every way of cutting, answer.
fn compare(name: &str, bytes: &[u8]) {
    let memcached = Memcached::spawn(&["-t", "1"]);
    let theirs = answer(memcached.address(), bytes, Split::Whole);
    let random = seed();
    for workers in ["1", "4"] {
        let server = evenkeel::server(&["-t", workers]);
        for split in [Split::Whole, Split::SingleBytes, Split::Random(random)] {
            let ours = answer(server.address(), bytes, split);
            assert!(
                theirs == ours,
                "{name}, {workers} workers, {split:?}:\nmemcached {}\nours      {}",
                shown(&theirs),
                shown(&ours)
            );
        }
    }
}

fn answer(address: SocketAddr, bytes: &[u8], split: Split) -> Vec<u8> {
    exchange(address, bytes, split).unwrap_or_else(|error| panic!("{split:?}: {error}"))
}

#[test]
fn a_pipeline_of_a_hundred_thousand_commands() {
    let bytes = [
        &b"set a 0 0 1\r\nx\r\n"[..],
        &b"get a\r\nget b\r\nincr a 1\r\nmg a k s v\r\n".repeat(25_000),
        b"mn\r\n",
    ];
    compare("a pipeline", &bytes.concat());
}

#[test]
fn a_get_with_a_hundred_thousand_spaces() {
    let bytes = [
        &b"set a 0 0 1\r\nx\r\nget "[..],
        &b" ".repeat(100_000),
        b"a\r\nmn\r\n",
    ];
    compare("spaces between words", &bytes.concat());
    let bytes = [&b" ".repeat(100_000)[..], b"get a\r\nmn\r\n"];
    compare("spaces before a command", &bytes.concat());
}

#[test]
fn a_first_line_that_never_ends() {
    for len in [16 << 10, 64 << 10, 1 << 20] {
        for start in ["x", "set ", "mg ", "HTTP/1.1 "] {
            let bytes = [start.as_bytes(), &b"x".repeat(len)].concat();
            compare(&format!("{len} bytes behind {start:?}"), &bytes);
        }
    }
}

#[test]
fn a_line_of_keys_beyond_our_limit_closes() {
    // memcached takes such a line however long it gets; we take a mebibyte.
    let bytes = [&b"get "[..], &b"k ".repeat(1 << 20), b"\r\nversion\r\n"].concat();
    let server = evenkeel::server(&["-t", "1"]);
    assert_eq!(answer(server.address(), &bytes, Split::Whole), b"");
    let mut server = server;
    assert_serves(&mut server);
}

#[test]
fn a_peer_that_is_gone_in_the_middle_of_anything() {
    const SESSION: &[u8] =
        b"set gone 0 0 5\r\nhello\r\nget gone\r\nms gone 2 c\r\nhi\r\nmg gone v\r\n";
    on_server_and_proxy(|process| {
        for len in 1..SESSION.len() {
            // Half closed: what was whole is answered, and what was not is forgotten.
            let whole = exchange(process.address(), &SESSION[..len], Split::Whole);
            whole.unwrap_or_else(|error| panic!("after {len} bytes: {error}"));
            // Closed with answers unread: a reset.
            Client::connect(process.address()).send(&SESSION[..len]);
        }
        assert_serves(process);
    });
}

#[test]
fn protocols_change_only_where_memcached_changes_them() {
    for (name, bytes) in [
        (
            "the proxy protocol, version 2",
            &b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\r\nversion\r\n"[..],
        ),
        (
            "a TLS ClientHello",
            b"\x16\x03\x01\0\x05\x01\0\0\x01\0\r\nversion\r\n",
        ),
        ("redis", b"*1\r\n$4\r\nPING\r\nversion\r\n"),
        ("http", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ] {
        let memcached = Memcached::spawn(&["-t", "1"]);
        let server = evenkeel::server(&["-t", "1"]);
        let strip = |answer: Vec<u8>| {
            // Versions differ.
            let text = String::from_utf8_lossy(&answer).into_owned();
            let lines = text
                .lines()
                .map(|line| line.split(' ').next().unwrap_or("").to_owned());
            lines.collect::<Vec<_>>()
        };
        let theirs = strip(answer(memcached.address(), bytes, Split::Whole));
        for split in [Split::Whole, Split::SingleBytes] {
            let ours = strip(answer(server.address(), bytes, split));
            assert_eq!(theirs, ours, "{name}, {split:?}");
        }
    }
}
