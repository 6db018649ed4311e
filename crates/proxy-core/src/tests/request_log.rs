//! Which requests are logged, and what is said of them.

use super::plain_servers::Plain;
use super::routing::{pool, route, routes};
use super::world::{Connecting, World, memcached};
use crate::*;
use core::time::Duration;
use evenkeel_hotkeys::plain::PlainMode;
use serde_json::{Value, json};

fn config(sample: u32, slow_ms: Option<u64>) -> RequestLogConfig {
    RequestLogConfig {
        sample,
        slow: slow_ms.map(Duration::from_millis),
        hash_keys: false,
    }
}

/// Keys that begin with `b:` go to a pool of their own; what is logged is this.
fn logging(log: RequestLogConfig) -> World {
    World::memcached_with(1, |proxy| {
        proxy.pools.push(pool("b", memcached([111])));
        let to_b = route("b:", RouteTarget::Pool(1));
        routes(proxy, vec![RouteConfig::to_pool(0), to_b]);
        proxy.request_log = Some(log);
    })
}

/// The lines that were logged since the last look.
fn lines(world: &mut World) -> Vec<Value> {
    let mut out = Vec::new();
    for logged in world.logged.drain(..) {
        logged.write(1_700_000_000_123, Some("10.0.0.9:4711"), &mut out);
    }
    let text = String::from_utf8(out).expect("UTF-8");
    assert!(text.is_empty() || text.ends_with('\n'));
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn each_kind_of_request_is_told_by_its_command_its_key_and_its_outcome() {
    let value = "VALUE k 0 1\r\nx\r\nEND\r\n";
    for (request, reply, command, outcome) in [
        ("get k", value, "get", "hit"),
        ("get k", "END\r\n", "get", "miss"),
        ("gets k", "VALUE k 0 1 7\r\nx\r\nEND\r\n", "gets", "hit"),
        ("gat 9 k", value, "gat", "hit"),
        ("get k", "SERVER_ERROR x\r\n", "get", "server_error"),
        ("set k 0 0 1\r\nx", "STORED\r\n", "set", "stored"),
        (
            "add k 0 0 1 noreply\r\nx",
            "NOT_STORED\r\n",
            "add",
            "not_stored",
        ),
        ("cas k 0 0 1 7\r\nx", "EXISTS\r\n", "cas", "exists"),
        (
            "append k 0 0 1\r\nx",
            "NOT_STORED\r\n",
            "append",
            "not_stored",
        ),
        ("delete k", "DELETED\r\n", "delete", "deleted"),
        ("delete k", "NOT_FOUND\r\n", "delete", "not_found"),
        ("incr k 1", "2\r\n", "incr", "counted"),
        ("decr k 1", "NOT_FOUND\r\n", "decr", "not_found"),
        ("touch k 9", "TOUCHED\r\n", "touch", "touched"),
        ("mg k v", "VA 1\r\nx\r\n", "mg", "hit"),
        ("mg k v q", "EN\r\n", "mg", "miss"),
        ("ms k 1\r\nx", "HD\r\n", "ms", "stored"),
        ("ms k 1 q\r\nx", "MN\r\n", "ms", "stored"),
        ("ms k 1 q\r\nx", "NS\r\nMN\r\n", "ms", "not_stored"),
        ("md k", "NF\r\n", "md", "not_found"),
        ("ma k", "HD\r\n", "ma", "counted"),
        (
            "set k 0 0 1\r\nx",
            "SERVER_ERROR x\r\n",
            "set",
            "server_error",
        ),
    ] {
        let mut world = logging(config(1, None));
        let client = world.client();
        world.send(client, format!("{request}\r\n"));
        let sent = world.asked(101).len();
        world.wait_ms(2);
        world.reply(101, reply);
        let mut expected = json!({
            "time": 1_700_000_000.123,
            "client": "10.0.0.9:4711",
            "why": "sample",
            "command": command,
            "key": "k",
            "route": "1",
            "pool": "default",
            "server": "a:101",
            "outcome": outcome,
            "request_bytes": sent,
            "answer_bytes": reply.len(),
            "queue_us": 0,
            "answer_us": 2000,
            "took_us": 2000,
        });
        let logged = lines(&mut world);
        // The line for one key of a `get` is no group.
        expected["keys"] = Value::Null;
        let mut found = logged.first().cloned().unwrap_or_default();
        found["keys"] = found.get("keys").cloned().unwrap_or(Value::Null);
        assert_eq!((logged.len(), found), (1, expected), "{request} {reply}");
    }
}

#[test]
fn a_line_of_several_keys_tells_how_many_were_found() {
    for (reply, hits, outcome) in [
        (
            "VALUE b:1 0 1\r\nx\r\nVALUE b:3 0 1\r\nx\r\nEND\r\n",
            2,
            "some",
        ),
        ("VALUE b:3 0 1\r\nx\r\nEND\r\n", 1, "some"),
        ("END\r\n", 0, "miss"),
        (
            "VALUE b:1 0 1\r\nx\r\nVALUE b:2 0 1\r\nx\r\nVALUE b:3 0 1\r\nx\r\nEND\r\n",
            3,
            "hit",
        ),
    ] {
        for get in ["get", "get ", "gets"] {
            let mut world = logging(config(1, None));
            let client = world.client();
            world.send(client, format!("{get} b:1 a b:2 b:3\r\n"));
            let reply = match get {
                "gets" => reply.replace(" 0 1\r\n", " 0 1 7\r\n"),
                _ => reply.to_owned(),
            };
            world.reply(111, &reply);
            let lines = lines(&mut world);
            let line = &lines[0];
            assert_eq!(line["keys"], 3, "{line}");
            assert_eq!((&line["key"], &line["route"]), (&json!("b:1"), &json!("2")));
            assert_eq!(
                (&line["pool"], &line["server"]),
                (&json!("b"), &json!("b/a:111"))
            );
            assert_eq!(
                (&line["hits"], &line["outcome"]),
                (&json!(hits), &json!(outcome))
            );
            assert_eq!(line["answer_bytes"], reply.len(), "{line}");
        }
    }
}

/// By chance the quick way and the other log the same, and both count each request.
#[test]
fn what_is_logged_by_chance_does_not_depend_on_the_way() {
    let logged = |get: &str| {
        let mut world = logging(config(7, None));
        let client = world.client();
        let mut keys = Vec::new();
        for n in 0..700 {
            world.send(client, format!("{get} k{n}\r\n"));
            world.reply(
                101,
                if n % 2 == 0 {
                    "END\r\n".to_owned()
                } else {
                    format!("VALUE k{n} 0 1\r\nx\r\nEND\r\n")
                },
            );
            let lines = lines(&mut world);
            keys.extend(lines.iter().map(|line| line["key"].to_string()));
        }
        assert_eq!(world.core.stats().get_hits, 350);
        keys
    };
    let keys = logged("get");
    assert!((70..140).contains(&keys.len()), "{}", keys.len());
    assert_eq!(keys, logged("get "));
}

#[test]
fn slow_requests_and_such_as_fail_are_logged() {
    let mut world = logging(config(0, Some(5)));
    let client = world.client();
    world.send(client, "get a\r\nget b\r\n");
    world.wait_ms(4);
    world.reply(101, "END\r\n");
    assert_eq!(lines(&mut world), Vec::<Value>::new());
    world.wait_ms(1);
    world.reply(101, "END\r\n");
    let [line] = &lines(&mut world)[..] else {
        panic!("one");
    };
    assert_eq!((&line["why"], &line["key"]), (&json!("slow"), &json!("b")));
    // Not answered in time.
    world.send(client, "get c\r\nset d 0 0 1\r\nx\r\n");
    world.wait_ms(1000);
    let late = lines(&mut world);
    let error = "backend a:101 timed out, outcome unknown";
    for (line, key, outcome) in [(&late[0], "c", "unavailable"), (&late[1], "d", "error")] {
        assert_eq!(
            (&line["key"], &line["outcome"]),
            (&json!(key), &json!(outcome))
        );
        assert_eq!(
            (&line["error"], &line["took_us"]),
            (&json!(error), &json!(1_000_000))
        );
    }
    // Not asked at all: that takes no time, so that only chance logs it.
    world.connecting(101, Connecting::Refuses);
    world.configure(|proxy| proxy.request_log = Some(config(1, None)));
    world.drop_connection(101);
    lines(&mut world);
    world.send(client, "get e\r\n");
    let [line] = &lines(&mut world)[..] else {
        panic!("one");
    };
    assert_eq!(
        (&line["outcome"], &line["server"]),
        (&json!("unavailable"), &json!("a:101"))
    );
    assert_eq!(line.get("took_us"), None, "{line}");
}

#[test]
fn a_burst_of_slow_requests_is_logged_in_part_and_the_rest_counted() {
    let mut world = logging(config(0, Some(5)));
    let burst = SLOW_LOGGED_PER_SECOND_MAX as usize + 20;
    for part in 0..burst / 20 {
        let client = world.client();
        let gets: String = (0..20).map(|n| format!("get k{part}:{n}\r\n")).collect();
        world.send(client, gets);
    }
    loop {
        let asked = world.asked(101).matches("get ").count();
        if asked == 0 {
            break;
        }
        world.wait_ms(5);
        world.reply(101, "END\r\n".repeat(asked));
    }
    assert_eq!(world.logged.len(), SLOW_LOGGED_PER_SECOND_MAX as usize);
    assert_eq!(world.core.stats().request_log_slow_dropped, 20);
}

#[test]
fn collapsed_gets_are_one_line_that_says_how_many() {
    let mut world = logging(config(1, None));
    let clients = [world.client(), world.client(), world.client()];
    world.send(clients[0], "get k\r\n");
    world.reply(101, "END\r\n");
    lines(&mut world);
    for client in clients {
        let now = world.now();
        world.core.client_input(now, client, b"get k\r\n");
    }
    world.send(clients[0], "");
    world.reply(101, "VALUE k 0 1\r\nx\r\nEND\r\n");
    let [line] = &lines(&mut world)[..] else {
        panic!("one");
    };
    assert_eq!(
        (&line["collapsed"], &line["outcome"]),
        (&json!(2), &json!("hit"))
    );
    assert_eq!(line["answer_bytes"], "VALUE k 0 1\r\nx\r\nEND\r\n".len());
}

#[test]
fn keys_may_be_hashed_and_have_any_bytes() {
    let mut world = logging(config(1, None));
    let client = world.client();
    world.send(client, b"get \xff\"\\\r\nget \"\\\xc3\xa4\r\n");
    world.reply(101, "END\r\nEND\r\n");
    let both = lines(&mut world);
    assert_eq!(
        (both[0].get("key"), &both[0]["key_base64"]),
        (None, &json!("/yJc"))
    );
    assert_eq!(both[1]["key"], "\"\\ä");
    world.configure(|proxy| {
        proxy.request_log = Some(RequestLogConfig {
            hash_keys: true,
            ..config(1, None)
        });
    });
    world.send(client, "get b:secret\r\n");
    world.reply(111, "END\r\n");
    let [line] = &lines(&mut world)[..] else {
        panic!("one");
    };
    let hash = evenkeel_types::KeyHash::of(b"b:secret").0;
    assert_eq!(line["key_hash"], format!("{hash:016x}"));
    assert!(!line.to_string().contains("secret"), "{line}");
    world.configure(|proxy| proxy.request_log = None);
    world.send(client, "get b:secret\r\n");
    world.reply(111, "END\r\n");
    assert!(world.logged.is_empty(), "off");
}

#[test]
fn a_request_that_went_elsewhere_says_so() {
    let mut world = World::memcached_with(2, |proxy| {
        proxy.pools[0].settings.failover = Failover::Next;
        proxy.request_log = Some(config(1, None));
    });
    let client = world.client();
    world.connecting(101, Connecting::Refuses);
    world.connecting(102, Connecting::Refuses);
    world.send(client, "get k\r\n");
    world.connecting(101, Connecting::Greets);
    world.connecting(102, Connecting::Greets);
    world.wait_ms(1500);
    lines(&mut world);
    world.send(client, "get k\r\n");
    let home = if world.has_asked(101) { 101 } else { 102 };
    let other = 203 - home;
    world.reply(home, "END\r\n");
    assert_eq!(lines(&mut world)[0].get("failover"), None);
    world.connecting(home, Connecting::Refuses);
    world.drop_connection(home);
    world.send(client, "delete k\r\n");
    // Until nothing is left there of the time before.
    world.wait_ms(12_000);
    lines(&mut world);
    world.received(client);
    world.send(client, "get k\r\n");
    world.reply(other, "END\r\n");
    let [line] = &lines(&mut world)[..] else {
        panic!("one");
    };
    assert_eq!(
        (&line["failover"], &line["server"]),
        (&json!(true), &json!(format!("a:{other}")))
    );
}

#[test]
fn the_copy_of_a_hot_key_goes_by_the_keys_own_name() {
    let mut plain = Plain::new(PlainMode::On, |proxy| {
        proxy.request_log = Some(config(1, None));
    });
    let client = plain.world.client();
    plain.ask(client, "set hot 0 0 1\r\nv\r\n");
    let clients = plain.heat("hot");
    lines(&mut plain.world);
    for client in clients {
        plain.ask(client, "get hot\r\n");
        plain.ask(client, "mg hot v\r\n");
    }
    let lines = lines(&mut plain.world);
    assert!(lines.iter().all(|line| line["key"] == "hot"), "{lines:?}");
    for is_meta in [false, true] {
        let is_copy =
            |line: &&Value| line["replica"] == true && (line["command"] == "mg") == is_meta;
        assert!(
            lines
                .iter()
                .any(|line| is_copy(&line) && line["outcome"] == "hit")
        );
    }
}
