//! Identical gets that become one while they wait to be sent.

use super::world::World;
use crate::proxy::{ClientId, Failover};

/// Applications that ask in the same turn: nothing is written to a server in between.
pub(super) fn ask_in_one_turn(world: &mut World, requests: &[(ClientId, &str)]) {
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

/// One answer becomes as many copies as there is memory for; whoever gets none is told so. Small ones are not counted.
#[test]
fn copies_of_a_large_answer_are_bounded() {
    let large = format!("VALUE k 0 100000\r\n{}\r\n", "x".repeat(100_000));
    let refused = "SERVER_ERROR out of memory writing get response\r\n";
    for (value, copies) in [(large.as_str(), 1), ("VALUE k 0 1\r\n1\r\n", 2)] {
        let mut world = World::memcached(1);
        let clients: [ClientId; 3] = started(&mut world);
        ask_in_one_turn(&mut world, &clients.map(|client| (client, "get k\r\n")));
        world.core.set_room(300_000);
        world.reply(101, format!("{value}END\r\n"));
        let got = clients.map(|client| world.received(client));
        let whole = format!("{value}END\r\n");
        let expected = |place: usize| if place <= copies { &whole } else { refused };
        for (place, got) in got.iter().enumerate() {
            assert!(got == expected(place), "{place}: {}", got.len());
        }
        let counted = world.core.stats().proxy_copies_refused;
        assert_eq!(counted, 2 - copies as u64);
    }
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
        "gets k\r\n",
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
