//! The map changes: keys move, servers come and go, some know earlier than others.

use super::world::SOURCE;
use super::world::{Connecting, World, key_of, map};
use crate::proxy::{PoolKind, PoolSettings, ProxyConfig};
use evenkeel_policy::placement::map::ClusterMap;
use evenkeel_types::Epoch;
use std::sync::Arc;

/// Two servers; the map of epoch 2 gives everything to server 2.
fn all_to_2(epoch: u64) -> std::sync::Arc<evenkeel_policy::placement::map::ClusterMap> {
    map(epoch, 2, |_| 2)
}

#[test]
fn a_request_that_is_turned_away_is_put_to_the_owner_that_the_answer_names() {
    let mut world = World::evenkeel(2);
    let (key, cachelet) = key_of(1, 2);
    let client = world.client();
    world.send(
        client,
        format!("set {key} 3 0 5\r\nhello\r\nget {key}\r\nmd {key} q\r\n"),
    );
    world.reply(101, "MOVED 2 2 0\r\nMOVED 2 2 0\r\nMOVED 2 2 0\r\nMN\r\n");
    // Only the first is put to the owner at once: what was asked behind it must not overtake it.
    assert_eq!(
        world.asked(102),
        format!("ms {key} 5 F3 T0 Y1 U{cachelet}\r\nhello\r\n")
    );
    world.reply(102, "HD\r\n");
    assert_eq!(world.received(client), "STORED\r\n");
    world.set_map(&all_to_2(2));
    assert_eq!(
        world.asked(102),
        format!("mg {key} v f c A Y2 U{cachelet}\r\n")
    );
    world.reply(102, "VA 5 f3 c1\r\nhello\r\n");
    world.wait_ms(1);
    assert_eq!(
        world.asked(102),
        format!("md {key} q Y2 U{cachelet}\r\nmn\r\n")
    );
    world.reply(102, "MN\r\n");
    let expected = format!("VALUE {key} 3 5\r\nhello\r\nEND\r\n");
    assert_eq!(world.received(client), expected);
    assert_eq!(world.wanted, [Epoch(2)], "the newer map is asked for once");
    assert_eq!(world.core.stats().proxy_requests_moved, 1);
}

#[test]
fn a_request_between_two_owners_waits_and_goes_where_the_next_map_says() {
    let mut world = World::evenkeel(2);
    let (key, cachelet) = key_of(1, 2);
    let client = world.client();
    world.send(client, format!("set {key} 0 0 1\r\nx\r\n"));
    // The answer names a server that this map does not have.
    world.reply(101, "MOVED 2 9 0\r\n");
    world.send(client, format!("get {key}\r\n"));
    assert_eq!(world.received(client), "");
    world.asked(101);
    world.set_map(&all_to_2(2));
    assert_eq!(
        world.asked(102),
        format!("ms {key} 1 F0 T0 Y2 U{cachelet}\r\nx\r\n")
    );
    world.reply(102, "HD\r\n");
    assert_eq!(
        world.asked(102),
        format!("mg {key} v f c A Y2 U{cachelet}\r\n")
    );
    world.reply(102, "EN\r\n");
    assert_eq!(world.received(client), "STORED\r\nEND\r\n");
}

/// Server 2 in a new life, at this port, with everything.
fn restarted_2(port: u16) -> std::sync::Arc<evenkeel_policy::placement::map::ClusterMap> {
    let mut document = all_to_2(2).document().clone();
    document.servers[1].worker_ports = vec![port];
    document.servers[1].boot = evenkeel_types::BootId(2);
    std::sync::Arc::new(evenkeel_policy::placement::map::ClusterMap::new(document).unwrap())
}

#[test]
fn whoever_is_named_by_a_newer_map_and_not_at_its_old_address_is_sought_by_that_map() {
    let mut world = World::evenkeel(2);
    world.connecting(102, Connecting::Refuses);
    let (key, cachelet) = key_of(1, 2);
    let [first, second] = [world.client(), world.client()];
    world.send(first, format!("set {key} 0 0 1\r\nx\r\n"));
    world.asked(101);
    world.reply(101, "MOVED 2 2 0\r\n");
    assert_eq!(world.wanted, [Epoch(2)]);
    assert_eq!(world.attempts(102), 1, "the former life does not listen");
    // The next one finds out at once.
    world.send(second, format!("get {key}\r\n"));
    world.reply(101, "MOVED 2 2 0\r\n");
    world.asked(101);
    let nobody = [world.received(first), world.received(second)];
    assert_eq!(nobody, ["", ""], "they wait");
    world.worker(202, 2);
    world.set_map(&restarted_2(202));
    assert_eq!(
        world.asked(202),
        format!("ms {key} 1 F0 T0 Y2 U{cachelet}\r\nx\r\nmg {key} v f c A Y2 U{cachelet}\r\n")
    );
    world.reply(202, "HD\r\nVA 1 f0 c1\r\nx\r\n");
    assert_eq!(world.received(first), "STORED\r\n");
    assert_eq!(
        world.received(second),
        format!("VALUE {key} 0 1\r\nx\r\nEND\r\n")
    );
}

#[test]
fn a_server_that_is_back_at_its_address_is_asked_as_soon_as_the_map_says_so() {
    let mut world = World::evenkeel(2);
    world.connecting(102, Connecting::Refuses);
    let [(theirs, _), (key, cachelet)] = [key_of(2, 2), key_of(1, 2)];
    let client = world.client();
    // Its former life is sought again and again, with longer and longer pauses.
    world.send(client, format!("get {theirs}\r\n"));
    world.wait_ms(5_000);
    assert_eq!(world.received(client), "END\r\n");
    world.connecting(102, Connecting::Greets);
    world.set_map(&restarted_2(102));
    world.send(client, format!("set {key} 0 0 1\r\nx\r\n"));
    assert_eq!(
        world.asked(102),
        format!("ms {key} 1 F0 T0 Y2 U{cachelet}\r\nx\r\n")
    );
    world.reply(102, "HD\r\n");
    assert_eq!(world.received(client), "STORED\r\n");
}

#[test]
fn a_quarantined_key_is_answered_with_an_error_at_once() {
    let mut world = World::evenkeel(2);
    let (key, cachelet) = key_of(1, 2);
    let (other, _) = key_of(2, 2);
    let mut document = map(2, 2, |_| 2).document().clone();
    document.cachelets[usize::from(cachelet)] = None;
    let changes_hands = ClusterMap::new(document.clone()).unwrap();
    world.set_map(&Arc::new(changes_hands));
    let [first, second] = [world.client(), world.client()];
    world.send(first, format!("set {key} 0 0 1\r\nx\r\n"));
    assert_eq!(world.received(first), "", "it waits for an owner");
    document.epoch = Epoch(3);
    document.quarantined = vec![evenkeel_types::CacheletId(cachelet)];
    world.set_map(&Arc::new(ClusterMap::new(document).unwrap()));
    let error = format!(
        "SERVER_ERROR cachelet {cachelet} is quarantined: its owners died one after the other\r\n"
    );
    assert_eq!(world.received(first), error);
    for request in [
        format!("get {key}\r\n"),
        format!("set {key} 0 0 1\r\nx\r\n"),
        format!("mg {key} v\r\n"),
        format!("delete {key}\r\n"),
        format!("incr {key} 1\r\n"),
        format!("touch {key} 1\r\n"),
    ] {
        world.send(second, request.clone());
        assert_eq!(world.received(second), error, "{request}");
    }
    assert_eq!(world.asked(101) + &world.asked(102), "");
    world.send(second, format!("get {key} {other}\r\n"));
    world.asked(102);
    world.reply(102, "EN\r\n");
    assert_eq!(world.received(second), error, "no miss");
}

#[test]
fn what_a_former_owner_never_got_is_asked_of_the_present_one() {
    let mut world = World::evenkeel(2);
    world.connecting(101, Connecting::Hangs);
    let (key, cachelet) = key_of(1, 2);
    let client = world.client();
    world.send(client, format!("set {key} 0 0 1\r\nx\r\n"));
    world.set_map(&all_to_2(2));
    assert_eq!(world.asked(102), "", "it is at the former owner");
    world.connecting(101, Connecting::Refuses);
    world.drop_connection(101);
    world.wait_ms(100);
    assert_eq!(
        world.asked(102),
        format!("ms {key} 1 F0 T0 Y2 U{cachelet}\r\nx\r\n")
    );
    world.reply(102, "HD\r\n");
    assert_eq!(world.received(client), "STORED\r\n");
}

#[test]
fn a_read_that_a_former_owner_did_not_answer_is_asked_of_the_present_one() {
    let mut world = World::evenkeel(2);
    let (key, cachelet) = key_of(1, 2);
    let client = world.client();
    world.send(client, format!("get {key}\r\n"));
    assert!(world.has_asked(101));
    // The former owner is a new process by this map.
    let mut document = all_to_2(2).document().clone();
    document.servers[0].boot = evenkeel_types::BootId(2);
    world.set_map(&std::sync::Arc::new(
        evenkeel_policy::placement::map::ClusterMap::new(document).unwrap(),
    ));
    world.drop_connection(101);
    world.wait_ms(100);
    assert_eq!(
        world.asked(102),
        format!("mg {key} v f c A Y2 U{cachelet}\r\n")
    );
    world.reply(102, "VA 1 f0 c1\r\nx\r\n");
    assert_eq!(
        world.received(client),
        format!("VALUE {key} 0 1\r\nx\r\nEND\r\n")
    );
}

#[test]
fn a_map_that_does_not_come_is_not_waited_for_longer_than_an_answer() {
    let mut world = World::evenkeel(2);
    world.connecting(102, Connecting::Refuses);
    let (key, _) = key_of(1, 2);
    let client = world.client();
    world.send(client, format!("set {key} 0 0 1\r\nx\r\n"));
    world.asked(101);
    world.reply(101, "MOVED 2 2 0\r\n");
    for _ in 0..60 {
        world.wait_ms(20);
        // The former owner repeats it whenever it is asked.
        for _ in world.asked(101).matches("ms ") {
            world.reply(101, "MOVED 2 2 0\r\n");
        }
    }
    let expected = "SERVER_ERROR key is moving to another server\r\n";
    assert_eq!(world.received(client), expected);
}

#[test]
fn a_server_that_is_away_by_the_newest_map_is_not_waited_for() {
    let mut world = World::evenkeel(2);
    world.connecting(101, Connecting::Refuses);
    let (key, _) = key_of(1, 2);
    let client = world.client();
    world.send(client, format!("get {key}\r\nset {key} 0 0 1\r\nx\r\n"));
    assert_eq!(
        world.received(client),
        "END\r\nSERVER_ERROR backend s1 unavailable\r\n"
    );
}

#[test]
fn an_owner_that_has_not_been_told_yet_is_asked_again_until_time_is_up() {
    let mut world = World::evenkeel(2);
    let (key, _) = key_of(1, 2);
    let client = world.client();
    world.send(client, format!("get {key}\r\nset {key} 0 0 1\r\nx\r\n"));
    // Each of the two believes the other to be the owner.
    world.reply(101, "MOVED 2 2 0\r\nMOVED 2 2 0\r\n");
    world.reply(102, "MOVED 1 1 0\r\nMOVED 1 1 0\r\n");
    world.asked(101);
    let mut questions = 0;
    for _ in 0..60 {
        world.wait_ms(20);
        let asked = world.asked(101);
        for line in asked
            .lines()
            .filter(|line| line.starts_with("mg") || line.starts_with("ms"))
        {
            questions += 1;
            assert!(line.contains(&key));
            world.reply(101, "MOVED 2 2 0\r\n");
        }
    }
    // Every 20 ms for a second, and not once more when that is over.
    assert!((45..130).contains(&questions), "{questions}");
    let expected = "END\r\nSERVER_ERROR key is moving to another server\r\n";
    assert_eq!(world.received(client), expected);
    world.wait_ms(1000);
    assert_eq!(
        world.core.poll_deadline(),
        None,
        "nothing is left to wait for"
    );
}

#[test]
fn a_request_is_put_to_servers_again_as_often_as_maps_come() {
    let mut world = World::evenkeel(2);
    let (key, _) = key_of(1, 2);
    let client = world.client();
    world.send(client, format!("get {key}\r\nget {key} t\r\n"));
    for epoch in 2..400 {
        // No map names that server.
        for line in world
            .asked(101)
            .lines()
            .filter(|line| line.starts_with("mg"))
        {
            assert!(line.contains(&key), "{line}");
            world.reply(101, format!("MOVED {epoch} 9 0\r\n"));
        }
        world.set_map(&map(epoch, 2, |_| 1));
    }
    assert!(world.core.stats().proxy_requests_parked > 300);
    world.wait_ms(5000);
    assert!(world.received(client).starts_with("END\r\n"));
}

#[test]
fn nothing_is_asked_by_a_new_map_while_answers_by_the_old_one_are_awaited() {
    let mut world = World::evenkeel(2);
    let (key, cachelet) = key_of(1, 2);
    let client = world.client();
    let other = world.client();
    world.send(client, format!("set {key} 0 0 1\r\nx\r\n"));
    world.set_map(&all_to_2(2));
    world.send(client, format!("get {key}\r\n"));
    world.send(other, format!("get {key}\r\n"));
    let get = format!("mg {key} v f c A Y2 U{cachelet}\r\n");
    assert_eq!(world.asked(102), get, "only the other client's");
    world.reply(102, "EN\r\n");
    world.reply(101, "MOVED 2 2 0\r\n");
    assert_eq!(
        world.asked(102),
        format!("ms {key} 1 F0 T0 Y2 U{cachelet}\r\nx\r\n")
    );
    world.reply(102, "HD\r\n");
    assert_eq!(world.asked(102), get);
    world.reply(102, "VA 1 f0 c1\r\nx\r\n");
    assert_eq!(
        world.received(client),
        format!("STORED\r\nVALUE {key} 0 1\r\nx\r\nEND\r\n")
    );
    assert_eq!(world.received(other), "END\r\n");
}

#[test]
fn connections_that_both_maps_have_are_kept_and_the_others_end_with_their_last_answer() {
    let mut world = World::evenkeel(3);
    let keys: Vec<String> = (1..=3).map(|server| key_of(server, 3).0).collect();
    let client = world.client();
    world.send(client, format!("get {}\r\n", keys.join(" ")));
    world.set_map(&map(2, 2, |cachelet| cachelet % 2 + 1));
    assert!(world.is_connected(101) && world.is_connected(102) && world.is_connected(103));
    world.reply(101, "EN\r\n");
    world.reply(102, "EN\r\n");
    world.reply(103, "VA 1 f0 c1\r\nx\r\n");
    assert_eq!(
        world.received(client),
        format!("VALUE {} 0 1\r\nx\r\nEND\r\n", keys[2])
    );
    assert!(world.is_connected(101) && world.is_connected(102) && !world.is_connected(103));
    assert_eq!(world.core.backends().len(), 2);
    assert_eq!((world.attempts(101), world.attempts(102)), (1, 1));
}

#[test]
fn a_server_that_leaves_the_map_without_answering_is_forgotten_when_it_is_late() {
    let mut world = World::evenkeel(2);
    let (key, _) = key_of(2, 2);
    let client = world.client();
    world.send(client, format!("set {key} 0 0 1\r\nx\r\n"));
    world.set_map(&map(2, 1, |_| 1));
    world.wait_ms(1000);
    let late = "SERVER_ERROR backend s2 timed out, outcome unknown\r\n";
    assert_eq!(world.received(client), late);
    assert_eq!(world.core.backends().len(), 1);
    assert_eq!(world.core.poll_deadline(), None);
}

#[test]
fn an_older_map_changes_nothing() {
    let mut world = World::evenkeel(2);
    world.set_map(&all_to_2(5));
    world.set_map(&map(4, 2, |_| 1));
    world.set_map(&map(5, 2, |_| 1));
    assert_eq!(world.core.epoch(SOURCE), Epoch(5));
    let client = world.client();
    world.send(client, "get a\r\n");
    assert_ne!(world.asked(102), "");
}

/// A world whose map gives no cachelet to anybody, as while all are between two owners.
fn unowned() -> World {
    let mut document = map(1, 1, |_| 1).document().clone();
    document.cachelets.fill(None);
    let unowned = evenkeel_policy::placement::map::ClusterMap::new(document).unwrap();
    let pool = PoolKind::Evenkeel(SOURCE);
    let mut world = World::new(ProxyConfig::of_pool(pool, PoolSettings::default()));
    world.workers(1);
    world.set_map(&std::sync::Arc::new(unowned));
    world
}

#[test]
fn a_key_that_nobody_owns_is_a_miss_and_a_write_of_it_waits_for_an_owner() {
    let mut world = unowned();
    let client = world.client();
    world.send(client, "get a\r\nset a 0 0 1\r\nx\r\nget a\r\n");
    assert_eq!(world.received(client), "END\r\n");
    world.wait_ms(100);
    world.set_map(&map(2, 1, |_| 1));
    let asked = world.asked(101);
    assert!(
        asked.ends_with("x\r\n") && asked.contains("ms a 1 "),
        "{asked}"
    );
    world.reply(101, "HD\r\n");
    let asked = world.asked(101);
    assert!(asked.starts_with("mg a "), "not before the write: {asked}");
    world.reply(101, "VA 1 f0 c1\r\nx\r\n");
    assert_eq!(
        world.received(client),
        "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"
    );
}

#[test]
fn a_write_does_not_wait_for_an_owner_for_ever() {
    let mut world = unowned();
    let client = world.client();
    world.send(client, "delete a\r\n");
    assert_eq!(world.received(client), "");
    world.wait_ms(1000);
    assert_eq!(
        world.received(client),
        "SERVER_ERROR key is moving to another server\r\n"
    );
}

#[test]
fn writes_that_were_sent_together_wait_for_an_owner_together() {
    let mut world = unowned();
    let client = world.client();
    let set = |n| format!("set k{n} 0 0 1\r\nx\r\n");
    world.send(client, (0..4).map(set).collect::<String>());
    world.wait_ms(999);
    assert_eq!(world.received(client), "");
    world.wait_ms(2);
    let refused = "SERVER_ERROR key is moving to another server\r\n";
    assert_eq!(world.received(client), refused.repeat(4));
    // What comes later waits as long as the first did.
    world.send(client, "get k0\r\nset k5 0 0 1\r\nx\r\n");
    world.wait_ms(999);
    assert_eq!(world.received(client), "END\r\n");
    world.wait_ms(2);
    assert_eq!(world.received(client), refused);
}

#[test]
fn a_greeting_with_a_newer_epoch_asks_for_the_map() {
    let mut world = World::evenkeel(1);
    world.epoch(101, 7);
    let client = world.client();
    world.send(client, "get a\r\n");
    assert_eq!(world.wanted, [Epoch(7)]);
}

#[test]
fn a_server_that_has_no_map_yet_is_waited_for() {
    let mut world = World::evenkeel(1);
    world.epoch(101, 0);
    let client = world.client();
    world.send(client, "set a 0 0 1\r\nx\r\n");
    world.wait_ms(300);
    assert_eq!(
        (world.asked(101), world.received(client)),
        (String::new(), String::new())
    );
    world.epoch(101, 1);
    world.wait_ms(20);
    world.reply(101, "HD\r\n");
    assert_eq!(world.received(client), "STORED\r\n");
    assert_eq!(world.attempts(101), 1);
}

#[test]
fn a_server_that_gets_no_map_is_not_waited_for_for_ever() {
    let mut world = World::evenkeel(1);
    world.epoch(101, 0);
    let client = world.client();
    world.send(client, "set a 0 0 1\r\nx\r\n");
    world.wait_ms(1000);
    let unavailable = "SERVER_ERROR backend s1 unavailable\r\n";
    assert_eq!(world.received(client), unavailable);
    world.wait_ms(500);
    world.send(client, "set a 0 0 1\r\nx\r\n");
    assert_eq!(world.received(client), unavailable, "at once");
}
