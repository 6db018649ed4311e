//! Identical gets that become one while they wait to be sent.

use super::world::{World, key_of};
use crate::proxy::{ClientId, Failover};

/// Applications that ask in the same turn: nothing is written to a server in between.
fn ask_in_one_turn(world: &mut World, requests: &[(ClientId, &str)]) {
    for &(client, request) in requests {
        let consumed = world
            .core
            .client_input(world.now, client, request.as_bytes());
        assert_eq!(consumed, request.len());
    }
    pump(world);
}

/// Lets everything happen that has been decided.
fn pump(world: &mut World) {
    let anybody = world.client();
    world.send(anybody, "");
}

/// A server whose connection stands, and so many applications.
fn started<const N: usize>(world: &mut World) -> [ClientId; N] {
    let clients = [(); N].map(|()| world.client());
    world.send(clients[0], "set k 0 0 1\r\n1\r\n");
    assert_eq!(world.asked(101), "set k 0 0 1\r\n1\r\n");
    world.reply(101, "STORED\r\n");
    assert_eq!(world.received(clients[0]), "STORED\r\n");
    clients
}

#[test]
fn gets_of_one_turn_are_asked_once_and_answered_each() {
    for (reply, expected) in [
        ("VALUE k 0 1\r\n1\r\nEND\r\n", "VALUE k 0 1\r\n1\r\nEND\r\n"),
        ("END\r\n", "END\r\n"),
        ("SERVER_ERROR busy\r\n", "SERVER_ERROR busy\r\n"),
    ] {
        for cut in 0..reply.len() {
            let mut world = World::memcached(1);
            let [a, b, c] = started(&mut world);
            ask_in_one_turn(
                &mut world,
                &[
                    (a, "get k\r\n"),
                    (b, "get k\r\n"),
                    (c, "get other\r\nget k\r\n"),
                ],
            );
            assert_eq!(world.asked(101), "get k\r\nget other\r\n");
            world.reply(101, &reply[..cut]);
            world.reply(101, &reply[cut..]);
            assert_eq!(world.received(a), expected);
            assert_eq!(world.received(b), expected);
            assert_eq!(world.received(c), "", "what it asked first comes first");
            world.reply(101, "END\r\n");
            assert_eq!(world.received(c), format!("END\r\n{expected}"));
            let stats = world.core.stats();
            assert_eq!((stats.cmd_get, stats.proxy_gets_collapsed), (4, 2));
        }
    }
}

#[test]
fn nobody_joins_a_get_that_was_sent_or_that_a_write_is_behind() {
    let mut world = World::memcached(1);
    let [a, b] = started(&mut world);
    world.send(a, "get k\r\n");
    world.send(b, "get k\r\n");
    assert_eq!(world.asked(101), "get k\r\nget k\r\n");
    world.reply(101, "END\r\nVALUE k 0 1\r\n1\r\nEND\r\n");
    assert_eq!(world.received(a), "END\r\n");
    assert_eq!(world.received(b), "VALUE k 0 1\r\n1\r\nEND\r\n");
    let writes = [
        "set k 0 0 1\r\n2\r\n",
        "delete k\r\n",
        "gat 10 k\r\n",
        "mg k v T30\r\n",
        "touch k 10\r\n",
    ];
    for write in writes {
        ask_in_one_turn(
            &mut world,
            &[(a, "get k\r\n"), (b, write), (b, "get k\r\n")],
        );
        assert_eq!(world.asked(101).matches("get k\r\n").count(), 2, "{write}");
        let answer = match write {
            write if write.starts_with("mg") => "EN\r\n",
            _ => "ERROR\r\n",
        };
        world.reply(101, format!("END\r\n{answer}END\r\n"));
        assert!(world.received(b).ends_with("END\r\n"));
        world.received(a);
    }
    assert_eq!(world.core.stats().proxy_gets_collapsed, 0);
}

#[test]
fn an_answer_reaches_the_others_when_the_first_is_gone() {
    let mut world = World::memcached(1);
    let [a, b, c] = started(&mut world);
    ask_in_one_turn(
        &mut world,
        &[(a, "get k\r\n"), (b, "get k\r\n"), (c, "get k\r\n")],
    );
    world.close(a);
    world.close(c);
    world.reply(101, "VALUE k 0 1\r\n1\r\nEND\r\n");
    assert_eq!(world.received(b), "VALUE k 0 1\r\n1\r\nEND\r\n");
}

#[test]
fn a_wrong_answer_is_nobodys() {
    for wrong in [
        "VALUE kk 0 1\r\n1\r\n",
        "VALUE  0 1\r\n",
        "STORED\r\n",
        "EN\r\n",
    ] {
        let mut world = World::memcached(1);
        let [a, b] = started(&mut world);
        ask_in_one_turn(&mut world, &[(a, "get k\r\n"), (b, "get k\r\n")]);
        world.reply(101, wrong);
        assert_eq!(world.received(a), "END\r\n", "{wrong}");
        assert_eq!(world.received(b), "END\r\n", "{wrong}");
        assert!(!world.is_connected(101), "{wrong}");
    }
}

#[test]
fn each_is_asked_again_for_itself_when_the_connection_is_lost() {
    let mut world = World::memcached(1);
    let [a, b] = started(&mut world);
    ask_in_one_turn(&mut world, &[(a, "get k\r\n"), (b, "get k\r\n")]);
    assert_eq!(world.asked(101), "get k\r\n");
    world.drop_connection(101);
    assert_eq!(world.asked(101), "get k\r\nget k\r\n");
    world.reply(101, "END\r\nVALUE k 0 1\r\n1\r\nEND\r\n");
    assert_eq!(world.received(a), "END\r\n");
    assert_eq!(world.received(b), "VALUE k 0 1\r\n1\r\nEND\r\n");
}

#[test]
fn each_goes_elsewhere_or_is_a_miss_when_the_server_is_out_of_use() {
    let mut world = World::memcached_with(2, |config| {
        config.pools[0].settings.failover = Failover::Next;
    });
    let [a, b] = [world.client(), world.client()];
    let key = (0..)
        .map(|i| format!("k{i}"))
        .find(|key| {
            world.send(a, format!("get {key}\r\n"));
            let is_here = world.has_asked(101);
            let port = if is_here { 101 } else { 102 };
            world.asked(port);
            world.reply(port, "END\r\n");
            is_here
        })
        .unwrap();
    world.received(a);
    let get = format!("get {key}\r\n");
    ask_in_one_turn(&mut world, &[(a, &get), (b, &get)]);
    assert_eq!(world.asked(101), get);
    world.connecting(101, super::world::Connecting::Refuses);
    world.drop_connection(101);
    assert_eq!(world.asked(102), get.repeat(2));
    let value = format!("VALUE {key} 0 1\r\n1\r\nEND\r\n");
    world.reply(102, value.repeat(2));
    assert_eq!(world.received(a), value);
    assert_eq!(world.received(b), value);
}

#[test]
fn it_can_be_switched_off() {
    let mut world = World::memcached_with(1, |config| {
        config.pools[0].settings.collapse = false;
    });
    let [a, b] = started(&mut world);
    ask_in_one_turn(&mut world, &[(a, "get k\r\n"), (b, "get k\r\n")]);
    assert_eq!(world.asked(101), "get k\r\nget k\r\n");
    world.configure(|config| config.pools[0].settings.collapse = true);
    world.reply(101, "END\r\nEND\r\n");
    ask_in_one_turn(&mut world, &[(a, "get k\r\n"), (b, "get k\r\n")]);
    assert_eq!(world.asked(101), "get k\r\n");
}

/// Servers 1 to `servers`, a key of the first, what is asked for it, and so many applications.
fn started_evenkeel<const N: usize>(servers: u16) -> (World, String, String, [ClientId; N]) {
    let mut world = World::evenkeel(servers);
    let (key, cachelet) = key_of(1, servers);
    let clients = [(); N].map(|()| world.client());
    for port in 101..=100 + servers {
        let (key, _) = key_of(port - 100, servers);
        world.send(clients[0], format!("get {key}\r\n"));
        assert!(world.asked(port).starts_with("mg "));
        world.reply(port, "EN\r\n");
    }
    world.received(clients[0]);
    let question = format!("mg {key} v f c A Y1 U{cachelet}\r\n");
    (world, key, question, clients)
}

#[test]
fn reads_of_an_evenkeel_worker_are_asked_once_and_count_for_each() {
    let (mut world, key, question, [a, b, c]) = started_evenkeel(2);
    let get = format!("get {key}\r\n");
    let two = format!("gets {key} {key}\r\n");
    ask_in_one_turn(&mut world, &[(a, &get), (b, &two), (c, &get)]);
    assert_eq!(world.asked(101), question);
    world.reply(101, "VA 1 f7 c9 G1\r\nv\r\n");
    let value = format!("VALUE {key} 7 1\r\nv\r\nEND\r\n");
    assert_eq!(world.received(a), value);
    assert_eq!(world.received(c), value);
    let value = format!("VALUE {key} 7 1 9\r\nv\r\n");
    assert_eq!(world.received(b), value.repeat(2) + "END\r\n");
    let stats = world.core.stats();
    assert_eq!((stats.proxy_gets_collapsed, stats.proxy_leases), (3, 3));
    assert_eq!(stats.get_hits, 4);
}

#[test]
fn each_asks_the_home_for_itself_what_a_replica_does_not_have() {
    let (mut world, key, question, [_]) = started_evenkeel(2);
    let get = format!("get {key}\r\n");
    let clients: Vec<ClientId> = (0..16).map(|_| world.client()).collect();
    let gets: Vec<(ClientId, &str)> = clients.iter().map(|&id| (id, &get[..])).collect();
    let value = format!("VALUE {key} 0 1\r\nv\r\nEND\r\n");
    ask_in_one_turn(&mut world, &gets);
    assert_eq!(world.asked(101), question);
    world.reply(101, "VA 1 f0 c9 G1\r\nv\r\n");
    for &client in &clients {
        assert_eq!(world.received(client), value);
    }
    ask_in_one_turn(&mut world, &gets);
    assert_eq!(world.asked(101), question, "those who drew the home");
    assert_eq!(
        world.asked(102),
        question.replace("\r\n", " G\r\n"),
        "the others"
    );
    world.reply(102, "EN\r\n");
    let again = world.asked(101).matches("mg ").count();
    assert!((2..15).contains(&again), "{again}");
    world.reply(101, "VA 1 f0 c9\r\nv\r\n".repeat(1 + again));
    for &client in &clients {
        assert_eq!(world.received(client), value);
    }
    assert_eq!(world.core.stats().proxy_reads_asked_again, again as u64);
}

#[test]
fn nobody_joins_a_read_of_an_evenkeel_worker_that_a_write_is_behind_or_that_asks_for_more() {
    let (mut world, key, _, [a, b, c]) = started_evenkeel(1);
    let get = format!("get {key}\r\n");
    let set = format!("set {key} 0 0 1\r\n1\r\n");
    ask_in_one_turn(&mut world, &[(a, &get), (c, &set), (b, &get)]);
    assert_eq!(world.asked(101).matches("mg ").count(), 2);
    world.reply(101, "EN\r\nHD\r\nVA 1 f0 c9\r\n1\r\n");
    assert_eq!(world.received(a), "END\r\n");
    assert_eq!(
        world.received(b),
        format!("VALUE {key} 0 1\r\n1\r\nEND\r\n")
    );
    let others = [
        format!("mg {key} v t\r\n"),
        format!("mg {key} v Oa\r\n"),
        format!("gat 10 {key}\r\n"),
        format!("me {key}\r\n"),
    ];
    for other in &others {
        ask_in_one_turn(&mut world, &[(a, &get), (b, other)]);
        assert_eq!(world.asked(101).matches(&key).count(), 2, "{other}");
        world.reply(101, "EN\r\nEN\r\n");
    }
    assert_eq!(world.core.stats().proxy_gets_collapsed, 0);
}

#[test]
fn a_shared_read_that_moved_is_sent_on_for_each() {
    let (mut world, key, _, [a, b]) = started_evenkeel(2);
    let get = format!("get {key}\r\n");
    ask_in_one_turn(&mut world, &[(a, &get), (b, &get)]);
    world.asked(101);
    world.reply(101, "MOVED 2 2 0\r\n");
    assert_eq!(world.asked(102).matches("mg ").count(), 2);
    world.reply(102, "EN\r\nVA 1 f0 c9\r\n1\r\n");
    assert_eq!(world.received(a), "END\r\n");
    assert_eq!(
        world.received(b),
        format!("VALUE {key} 0 1\r\n1\r\nEND\r\n")
    );
}

#[test]
fn a_shared_read_that_gets_nonsense_or_nothing_is_answered_to_each() {
    let (mut world, key, question, [a, b]) = started_evenkeel(1);
    let get = format!("get {key}\r\n");
    ask_in_one_turn(&mut world, &[(a, &get), (b, &get)]);
    assert_eq!(world.asked(101), question);
    world.drop_connection(101);
    assert_eq!(world.asked(101), question.repeat(2));
    world.reply(101, "EN\r\nEN\r\n");
    assert_eq!(world.received(a) + &world.received(b), "END\r\nEND\r\n");
    for wrong in ["STORED\r\n", "VA 1 c9\r\n1\r\n"] {
        let (mut world, key, _, [a, b]) = started_evenkeel(1);
        let get = format!("get {key}\r\n");
        ask_in_one_turn(&mut world, &[(a, &get), (b, &get)]);
        world.reply(101, wrong);
        assert_eq!(world.received(a), "END\r\n", "{wrong}");
        assert_eq!(world.received(b), "END\r\n", "{wrong}");
        assert!(!world.is_connected(101), "{wrong}");
    }
}
