//! A server is emptied by `evenkeel drain` and taken away under load: no request fails.

use evenkeel_testkit::{Client, Cluster, ClusterOptions, Signal, evenkeel, poll_until};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(20);

/// Requests after the server is gone.
const AFTERWARDS: u64 = 2_000;

/// Stores and reads keys of its own through a proxy until told to stop; a key may be gone, and never be older
/// than what was stored last. Gives the requests and the misses.
fn use_cache(address: SocketAddr, number: usize, stop: &AtomicBool) -> (u64, u64) {
    let mut client = Client::connect(address);
    let mut stored = [0_u64; 64];
    let (mut requests, mut misses) = (0, 0);
    while !stop.load(Ordering::Relaxed) || requests % 64 != 0 {
        let slot = (requests * 29 % 64) as usize;
        let key = format!("drain:{number}:{slot}");
        if requests % 3 == 0 {
            stored[slot] = requests;
            assert_eq!(client.set(&key, requests.to_string().as_bytes()), "STORED");
        } else {
            match client.try_get(&key).expect("an answer") {
                Some(value) => assert_eq!(value.data, stored[slot].to_string().as_bytes(), "{key}"),
                None => misses += 1,
            }
        }
        requests += 1;
    }
    (requests, misses)
}

#[test]
fn a_server_that_is_drained_can_be_taken_away_without_a_failed_request() {
    let mut cluster = Cluster::start(ClusterOptions {
        servers: 3,
        threads: 2,
        ..ClusterOptions::default()
    });
    let url = cluster.coordinator_url();
    let drain = |arguments: &[&str]| {
        let all = [&["drain", "--coordinator", &url], arguments].concat();
        let output = evenkeel::run(&all);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said, complained)
    };
    let (code, _, complained) = drain(&["s9"]);
    assert_eq!(code, Some(1));
    assert!(
        complained.contains("no server is named \"s9\""),
        "{complained}"
    );

    let stop = AtomicBool::new(false);
    let address = cluster.proxies[0].address();
    let asked = || -> u64 {
        let stats = Client::connect(address).stats("");
        stats["cmd_get"].parse().expect("a number")
    };
    thread::scope(|scope| {
        let users: Vec<_> = (0..3)
            .map(|number| {
                let stop = &stop;
                scope.spawn(move || use_cache(address, number, stop))
            })
            .collect();
        let (code, said, complained) = drain(&["s2", "--rate", "16"]);
        assert_eq!(code, Some(0), "{complained}");
        assert_eq!(said, "s2 owns nothing any more and can be stopped\n");
        cluster.servers[1].signal(Signal::Terminate);
        let before = asked();
        poll_until(DEADLINE, "requests after the server is gone", || {
            let failed = users.iter().any(|user| user.is_finished());
            (failed || asked() >= before + AFTERWARDS).then_some(())
        });
        stop.store(true, Ordering::Relaxed);
        for user in users {
            let (requests, misses) = user.join().expect("no request fails");
            println!("{requests} requests, {misses} misses");
        }
    });
    let (code, said, _) = drain(&["s2", "--cancel", "--format", "json"]);
    assert_eq!(code, Some(0));
    assert_eq!(
        said,
        "{\"server\":\"s2\",\"draining\":false,\"cachelets\":0}\n"
    );
}
