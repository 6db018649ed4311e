//! Configurations of two pools, and clients that notice when one of them fails a request.

use crate::patience::LINES;
use evenkeel_testkit::{Client, Memcached};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A list of servers as it stands in a file.
pub fn list(servers: &[&Memcached]) -> String {
    let quoted: Vec<_> = servers
        .iter()
        .map(|s| format!("\"{}\"", s.address()))
        .collect();
    format!("[{}]", quoted.join(", "))
}

/// Keys that begin with `b:` live in a pool of their own.
pub fn two_pools(a: &[&Memcached], b: &[&Memcached]) -> String {
    format!(
        "[pools.a]\nservers = {}\n{LINES}[pools.b]\nservers = {}\n{LINES}[[routes]]\npool = \"a\"\n\
         [[routes]]\nprefix = \"b:\"\npool = \"b\"\n",
        list(a),
        list(b)
    )
}

/// One connection that stores and reads back until it is told to stop, with something under way all the
/// time. Returns how much it asked.
pub fn load(address: &str, number: usize, stop: &AtomicBool, asked: &AtomicU64) {
    const BURST: usize = 8;
    let mut client = Client::connect(address.parse().expect("an address"));
    let mut round = 0u64;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        let mut burst = String::new();
        for i in 0..BURST {
            let key = format!("{}load:{number}:{i}", ["", "b:"][i % 2]);
            let value = format!("{round}");
            burst += &format!("set {key} 0 0 {}\r\n{value}\r\nget {key}\r\n", value.len());
        }
        client.send(burst.as_bytes());
        for i in 0..BURST {
            assert_eq!(client.line(), "STORED");
            let line = client.line();
            // A reload may come between a store and its read: then the read goes to a home that does
            // not have it, or still has an older value.
            if line != "END" {
                assert!(line.starts_with("VALUE "), "{line}");
                let value: u64 = client.line().parse().expect("a number");
                assert!(value <= round, "{value} in round {round}, {i}");
                assert_eq!(client.line(), "END");
            }
        }
        asked.fetch_add(2 * BURST as u64, Ordering::Relaxed);
    }
}
