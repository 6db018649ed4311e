//! Serving leases at one worker: what a renewal covers, and what it does not.

use crate::harness::{Client, Server, at, config, map};
use evenkeel_roles::server::{ConnectionId, ServingLease};
use evenkeel_types::{Epoch, Instant, ServerId};

/// One worker of a cluster's only server.
fn server() -> Server {
    let mut server = Server::new(config(1, true));
    server.workers[0].require_lease();
    assert!(server.workers[0].handle_map(at(0), &map(1, 1), ServerId(1)));
    server
}

/// The worker takes in a lease that ends at `until`, in milliseconds like `now`.
fn take(server: &mut Server, now: u64, until: u64) -> Vec<ConnectionId> {
    let lease = ServingLease {
        epoch: Epoch(1),
        until: Instant::from_millis(until),
        by_votes: false,
    };
    server.workers[0].handle_lease(Instant::from_millis(now), lease)
}

fn lost(server: &mut Server) -> u64 {
    server.workers[0].counters().leases_lost
}

#[test]
fn a_renewal_that_was_taken_in_before_the_end_loses_nothing() {
    let mut server = server();
    assert_eq!(take(&mut server, 0, 1000), []);
    let mut client = Client::open(&mut server, 0);
    client.send(&mut server, at(10), b"set key 0 0 1\r\nv\r\n");
    assert_eq!(take(&mut server, 999, 1999), []);
    let late = server.workers[0].look_at_lease(Instant::from_millis(1000));
    assert_eq!(late, []);
    assert_eq!(lost(&mut server), 0);
}

#[test]
fn a_renewal_does_not_cover_what_is_owed_from_before_the_end_of_the_former_lease() {
    let mut server = server();
    assert_eq!(take(&mut server, 0, 1000), []);
    let mut owing = Client::open(&mut server, 0);
    let mut idle = Client::open(&mut server, 0);
    owing.send(&mut server, at(10), b"set key 0 0 1\r\nv\r\n");
    // The process stood still, and the renewal is the first that it hears of.
    assert_eq!(take(&mut server, 1000, 1900), [owing.id]);
    server.workers[0].close(owing.id);
    assert_eq!(lost(&mut server), 1);
    let late = server.workers[0].look_at_lease(Instant::from_millis(1000));
    assert_eq!(late, [], "it was told of already");
    assert_eq!(
        idle.ask(&mut server, at(1100), "get key\r\n"),
        "VALUE key 0 1\r\nv\r\nEND\r\n"
    );
    // An end that was noticed in time is not counted again with the next lease.
    assert_eq!(
        server.workers[0].look_at_lease(Instant::from_millis(1900)),
        []
    );
    assert_eq!(take(&mut server, 2500, 3000), []);
    assert_eq!(lost(&mut server), 2);
}
