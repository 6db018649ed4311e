//! Serving leases: what a server gets them for, and what a renewal covers at a worker.

use crate::harness::{Client, Server, at, config, frame, map, statuses};
use evenkeel_protocol::StoreMode;
use evenkeel_protocol::binary::{Command, Status};
use evenkeel_server_core::{ConnectionId, LeaseKeeper, ServingLease, Step};
use evenkeel_types::serving::SERVING_LEASE;
use evenkeel_types::{BootId, Epoch, Instant, ServerId};

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

#[test]
fn a_value_that_is_refused_without_a_lease_removes_nothing_and_its_client_is_told() {
    let mut server = server();
    assert_eq!(take(&mut server, 0, 1000), []);
    let mut text = Client::open(&mut server, 0);
    let mut binary = Client::open(&mut server, 0);
    assert_eq!(
        text.ask(&mut server, at(10), "set key 0 0 1\r\nv\r\n"),
        "STORED\r\n"
    );
    let _ = server.workers[0].look_at_lease(Instant::from_millis(1000));
    let large = vec![b'x'; 2 << 20];
    let said = text.ask(&mut server, at(1010), "set key 0 0 2097152\r\n");
    assert!(said.starts_with("SERVER_ERROR no serving lease"), "{said}");
    let set = frame(Command::Store {
        mode: StoreMode::Set,
        key: b"key",
        value: &large,
        flags: 0,
        exptime: 0,
    });
    let said = binary.ask_bytes(&mut server, at(1020), &set);
    assert_eq!(statuses(&said), [Status::Busy.code()]);
    assert_eq!(take(&mut server, 1100, 2000), []);
    let mut reader = Client::open(&mut server, 0);
    assert_eq!(
        reader.ask(&mut server, at(1110), "get key\r\n"),
        "VALUE key 0 1\r\nv\r\nEND\r\n"
    );
}

#[test]
fn without_a_lease_each_protocol_says_so_in_its_words_and_a_classic_get_misses() {
    let mut server = server();
    assert_eq!(take(&mut server, 0, 1000), []);
    let mut text = Client::open(&mut server, 0);
    let _ = server.workers[0].look_at_lease(Instant::from_millis(1000));
    let no_lease = "SERVER_ERROR no serving lease for this key: neither a coordinator nor enough servers answer\r\n";
    for (request, answer) in [
        ("get key\r\n", "END\r\n"),
        ("gats 10 key\r\n", "END\r\n"),
        ("set key 0 0 1 noreply\r\nv\r\n", ""),
        ("delete key\r\n", no_lease),
        ("mg key v\r\n", no_lease),
        ("ms key 1\r\nv\r\n", no_lease),
    ] {
        let said = text.ask(&mut server, at(1010), request);
        assert_eq!(said, answer, "{request}");
    }
    let mut binary = Client::open(&mut server, 0);
    let get = frame(Command::Get {
        key: b"key",
        with_key: false,
    });
    let said = binary.ask_bytes(&mut server, at(1020), &get);
    assert_eq!(statuses(&said), [Status::Busy.code()]);
    assert_eq!(server.workers[0].counters().requests_without_lease, 7);
}

/// What a keeper asks for when its time has come.
fn voters_of(step: &Step) -> (u64, Vec<u16>) {
    let Step::Ask { round, voters, .. } = step else {
        panic!("{step:?}");
    };
    (*round, voters.iter().map(|voter| voter.server.0).collect())
}

#[test]
fn a_lease_counts_from_when_it_was_asked_for_and_takes_the_votes_of_enough_others() {
    let ms = Instant::from_millis;
    let mut keeper = LeaseKeeper::new(BootId(1));
    keeper.handle_map(map(1, 5), ServerId(1));
    let longer = Some(2 * SERVING_LEASE);
    let of_coordinator = keeper.handle_answer(ms(100), Epoch(1), longer);
    assert_eq!(of_coordinator.until, ms(100) + SERVING_LEASE);
    assert_eq!(keeper.handle_timeout(ms(600), Epoch(1)), Step::Wait);
    assert_eq!(keeper.handle_timeout(ms(700), Epoch(0)), Step::Wait);
    let (round, voters) = voters_of(&keeper.handle_timeout(ms(710), Epoch(1)));
    assert_eq!(voters, [2, 3, 4, 5]);
    // One of four will not do, however often it votes.
    for _ in 0..2 {
        assert_eq!(keeper.handle_vote(round, ServerId(3)), None);
    }
    let by_votes = keeper.handle_vote(round, ServerId(5)).expect("a lease");
    assert_eq!(by_votes.until, ms(710) + SERVING_LEASE);
    assert!(by_votes.by_votes);
    // Votes of a round before, or by a map before, say nothing.
    let (late, _) = voters_of(&keeper.handle_timeout(ms(1300), Epoch(1)));
    let (next, _) = voters_of(&keeper.handle_timeout(ms(1500), Epoch(1)));
    assert_eq!(keeper.handle_vote(next, ServerId(2)), None);
    assert_eq!(keeper.handle_vote(late, ServerId(3)), None);
    keeper.handle_map(map(2, 5), ServerId(1));
    assert_eq!(keeper.handle_vote(next, ServerId(3)), None);
}
