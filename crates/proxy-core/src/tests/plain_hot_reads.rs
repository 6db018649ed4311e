//! Reads of hot keys that show more than value and flags: `gets`, `mg`, and those of the binary protocol.

use super::plain_servers::{PORTS, Plain};
use crate::ClientId;
use evenkeel_hotkeys::plain::PlainMode;
use evenkeel_protocol::Limits;
use evenkeel_protocol::binary::{Command, ReplyOutcome, Request, parse_reply};

fn binary_get(key: &[u8], with_key: bool, quiet: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut request = Request::new(Command::Get { key, with_key });
    request.quiet = quiet;
    request.write(&mut out);
    out
}

/// `cas key=value` of the packets that a client has received.
fn packets(received: &[u8]) -> Vec<String> {
    let mut rest = received;
    let mut told = Vec::new();
    while let ReplyOutcome::Reply { reply, consumed } = parse_reply(rest, &Limits::default()) {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let (cas, key, value) = (reply.cas, text(reply.key), text(reply.value));
        told.push(format!("{cas} {key}={value}"));
        rest = &rest[consumed..];
    }
    assert!(rest.is_empty());
    told
}

/// Twenty connections that read `hot` until it is and its copies are filled, only by these requests.
fn heat_by(plain: &mut Plain, request: &[u8]) -> Vec<ClientId> {
    let clients: Vec<ClientId> = (0..20).map(|_| plain.world.client()).collect();
    for round in 0..100 {
        for &client in &clients {
            plain.world.send(client, request);
            plain.serve();
            assert!(!plain.world.received_bytes(client).is_empty());
        }
        plain.world.wait_ms(if round % 20 == 19 { 250 } else { 0 });
    }
    clients
}

#[test]
fn reads_of_every_kind_make_a_key_hot_and_are_spread_over_copies() {
    let gets = b"gets hot\r\n".to_vec();
    let kinds = [
        (gets, &b"VALUE hot 42 5 7\r\nvalue\r\nEND\r\n"[..]),
        (b"mg hot v\r\n".to_vec(), b"VA 5\r\nvalue\r\n"),
        (
            b"mg hot k q v Oab c s f\r\n".to_vec(),
            b"VA 5 khot Oab c7 s5 f42\r\nvalue\r\n",
        ),
        (binary_get(b"hot", false, false), b"7 =value"),
        (binary_get(b"hot", true, false), b"7 hot=value"),
        (binary_get(b"hot", true, true), b"7 hot=value"),
    ];
    for (request, expected) in kinds {
        let mut plain = Plain::new(PlainMode::On, |_| {});
        let client = plain.world.client();
        plain.ask(client, "set hot 42 0 5\r\nvalue\r\n");
        let home = plain.home("hot");
        let clients = heat_by(&mut plain, &request);
        assert_eq!(plain.replicas("hot").len(), 3, "{request:?}");
        plain.gets.clear();
        for &client in &clients {
            for _ in 0..20 {
                plain.world.send(client, &request);
                plain.serve();
                let received = plain.world.received_bytes(client);
                if request[0] == 0x80 {
                    let expected = String::from_utf8_lossy(expected).into_owned();
                    assert_eq!(packets(&received), [expected]);
                } else {
                    assert_eq!(received, expected, "{}", String::from_utf8_lossy(&received));
                }
            }
        }
        assert!(plain.gets[&home] < 250, "{request:?}: {:?}", plain.gets);
        for port in PORTS {
            assert!(plain.gets[&port] > 20, "{request:?}: {:?}", plain.gets);
        }
        let stats = plain.world.core.stats();
        assert!(stats.replica_hits > 200);
        assert_eq!(stats.get_hits, stats.cmd_get);
    }
}

#[test]
fn large_values_of_hot_keys_are_shown_whole_and_by_the_names_of_their_keys() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let client = plain.world.client();
    let value = "v".repeat(100_000);
    plain.ask(client, &format!("set hot 0 0 100000\r\n{value}\r\n"));
    let clients = heat_by(&mut plain, b"get hot\r\n");
    assert_eq!(plain.replicas("hot").len(), 3);
    for &client in &clients {
        let answer = plain.ask(client, "get hot\r\n");
        assert!(answer == format!("VALUE hot 0 100000\r\n{value}\r\nEND\r\n"));
    }
    assert_eq!(plain.world.core.stats().clients_closed_cut, 0);
}

#[test]
fn what_only_the_home_knows_is_asked_there_and_counts_nothing() {
    for request in [
        "mg hot v t\r\n",
        "mg hot f c\r\n",
        "mg aG90 v b\r\n",
        "gat 0 hot\r\n",
    ] {
        let mut plain = Plain::new(PlainMode::On, |_| {});
        let client = plain.world.client();
        plain.ask(client, "set hot 0 0 1\r\nv\r\n");
        let home = plain.home("hot");
        // Servers of this test know neither.
        let answer = match request {
            "mg aG90 v b\r\n" | "gat 0 hot\r\n" => None,
            _ => Some(plain.ask(client, request)),
        };
        plain.heat("hot");
        let hits = plain.world.core.stats().replica_hits;
        plain.gets.clear();
        if answer.is_none() {
            plain.world.send(client, request);
            assert!(plain.world.asked(home).starts_with(&request[..7]));
            assert!(
                PORTS
                    .iter()
                    .all(|&port| port == home || !plain.world.has_asked(port))
            );
            continue;
        }
        for _ in 0..20 {
            assert_eq!(Some(plain.ask(client, request)), answer);
        }
        assert_eq!(plain.gets[&home], 20);
        assert_eq!(plain.world.core.stats().replica_hits, hits);
    }
}

#[test]
fn an_mg_of_a_key_that_is_not_hot_is_sent_as_it_came() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let client = plain.world.client();
    plain.ask(client, "set cold 0 0 1\r\nv\r\n");
    let home = plain.home("cold");
    plain.world.send(client, "mg cold v k\r\n");
    assert_eq!(plain.world.asked(home), "mg cold v k\r\n");
}

#[test]
fn a_unique_of_a_copy_swaps_at_the_home_and_fails_once_somebody_has_written() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let client = plain.world.client();
    plain.ask(client, "set hot 0 0 1\r\na\r\n");
    let home = plain.home("hot");
    let clients = heat_by(&mut plain, b"gets hot\r\n");
    let expected = "VALUE hot 0 1 7\r\na\r\nEND\r\n";
    for &client in &clients[..10] {
        assert_eq!(plain.ask(client, "gets hot\r\n"), expected);
    }
    // The same value past the proxy: only its unique is another.
    plain.put(home, "hot", 0, "a");
    let unique = plain.items[&home]["hot"].cas;
    let mut seen_old = 0;
    for &client in &clients[..10] {
        let answer = plain.ask(client, "gets hot\r\n");
        seen_old += u32::from(answer == expected);
    }
    assert!(seen_old > 0, "copies go on for a lease");
    let writer = clients[3];
    assert_eq!(plain.ask(writer, "cas hot 0 0 1 7\r\nb\r\n"), "EXISTS\r\n");
    assert_eq!(
        plain.ask(writer, "gets hot\r\n"),
        format!("VALUE hot 0 1 {unique}\r\na\r\nEND\r\n"),
        "who was refused reads at the home"
    );
    let swap = format!("cas hot 0 0 1 {unique}\r\nb\r\n");
    assert_eq!(plain.ask(writer, &swap), "STORED\r\n");
    let unique = plain.items[&home]["hot"].cas;
    for &client in &clients {
        let answer = plain.ask(client, "gets hot\r\n");
        assert_eq!(answer, format!("VALUE hot 0 1 {unique}\r\nb\r\nEND\r\n"));
    }
}

#[test]
fn what_meta_commands_tell_of_recaching_is_no_older_than_a_lease() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let client = plain.world.client();
    plain.ask(client, "set hot 0 0 1\r\nv\r\n");
    let home = plain.home("hot");
    let clients = heat_by(&mut plain, b"mg hot v\r\n");
    let items = plain.items.get_mut(&home).unwrap();
    items.get_mut("hot").unwrap().recached = true;
    // Reads that do not tell keep value and unique known.
    for _ in 0..10 {
        plain.world.wait_ms(95);
        for &client in &clients[..10] {
            assert!(plain.ask(client, "gets hot\r\n").ends_with("END\r\n"));
        }
    }
    for &client in &clients {
        assert_eq!(plain.ask(client, "mg hot v\r\n"), "VA 1 Z\r\nv\r\n");
    }
    let items = plain.items.get_mut(&home).unwrap();
    items.get_mut("hot").unwrap().recached = false;
    for &client in &clients {
        assert_eq!(plain.ask(client, "mg hot v\r\n"), "VA 1\r\nv\r\n");
    }
}

#[test]
fn uniques_end_with_the_connection_to_their_server() {
    let mut plain = Plain::new(PlainMode::On, |_| {});
    let client = plain.world.client();
    plain.ask(client, "set hot 0 0 1\r\na\r\n");
    let home = plain.home("hot");
    let clients = heat_by(&mut plain, b"gets hot\r\n");
    plain.restart(home);
    plain.put(home, "hot", 0, "b");
    assert_eq!(plain.items[&home]["hot"].cas, 7, "as before");
    for &client in &clients {
        let answer = plain.ask(client, "gets hot\r\nmg hot c\r\n");
        assert_eq!(answer, "VALUE hot 0 1 7\r\nb\r\nEND\r\nHD c7\r\n");
    }
}

#[test]
fn where_a_server_is_out_of_use_nobody_sees_a_unique_that_was_not_asked_for() {
    let mut plain = Plain::new(PlainMode::On, |config| {
        config.pools[0].settings.failover = crate::Failover::Next;
    });
    let client = plain.world.client();
    plain.ask(client, "set hot 0 0 1\r\nv\r\n");
    let home = plain.home("hot");
    for port in PORTS {
        if port != home {
            plain.put(port, "hot", 0, "w");
        }
    }
    let clients = plain.heat("hot");
    // Some of them ask the home, which is lost with their questions.
    for &client in &clients {
        plain.world.send(client, "get hot\r\n");
    }
    plain
        .world
        .connecting(home, super::world::Connecting::Refuses);
    plain.world.drop_connection(home);
    plain.serve();
    for &client in &clients {
        let answer = plain.world.received(client);
        let line = answer.split("\r\n").next();
        assert!(matches!(line, Some("VALUE hot 0 1" | "END")), "{answer}");
    }
}

#[test]
fn the_home_is_asked_once_a_copy_has_nothing_to_say_whatever_the_connection_waits_for() {
    for request in ["get hot\r\n", "mg hot v\r\n"] {
        let mut plain = Plain::new(PlainMode::On, |_| {});
        let client = plain.world.client();
        plain.ask(client, "set hot 0 0 1\r\nv\r\n");
        let home = plain.home("hot");
        let slow = PORTS.into_iter().find(|port| *port != home).expect("four");
        let mut names = (0..).map(|n| format!("cold{n}"));
        let cold = names.find(|name| {
            plain.ask(client, &format!("set {name} 0 0 1\r\nc\r\n"));
            plain.home(name) == slow
        });
        let cold = cold.expect("there are enough");
        let clients = heat_by(&mut plain, request.as_bytes());
        for items in plain.items.values_mut() {
            items.retain(|name, _| !name.starts_with('\u{1}'));
        }
        plain.gets.clear();
        let before = plain.world.core.stats().reads_asked_again;
        for &client in &clients {
            let line = format!("get {cold}\r\n{request}");
            plain.world.send(client, line);
        }
        let others = PORTS.into_iter().filter(|port| *port != slow);
        let others: Vec<u16> = others.collect();
        while others.iter().any(|&port| plain.serve_one(port)) {}
        let copies = others.iter().filter(|port| **port != home);
        let asked: u32 = copies.map(|port| plain.gets.get(port).unwrap_or(&0)).sum();
        let again = plain.world.core.stats().reads_asked_again - before;
        assert!(asked > 0, "{request}: {:?}", plain.gets);
        assert_eq!(again, u64::from(asked), "{request}");
        plain.serve();
        for &client in &clients {
            let answer = plain.world.received(client);
            assert!(answer.contains("\r\nv\r\n"), "{request}: {answer}");
        }
    }
}
