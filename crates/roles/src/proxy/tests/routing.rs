//! Several pools and routes: where requests go, what becomes of their keys and exptimes, and what is
//! refused.

use super::world::{SOURCE, UNIX, World, key_of, map, memcached};
use crate::proxy::*;
use evenkeel_types::CacheletId;
use std::sync::Arc;

/// A route for keys that begin so.
pub fn route(prefix: &str, target: RouteTarget) -> RouteConfig {
    RouteConfig {
        prefix: prefix.as_bytes().into(),
        target,
        ..RouteConfig::to_pool(0)
    }
}

pub fn pool(name: &str, kind: PoolKind) -> PoolConfig {
    PoolConfig {
        name: name.into(),
        kind,
        settings: PoolSettings::default(),
    }
}

pub fn routes(config: &mut ProxyConfig, routes: Vec<RouteConfig>) {
    config.routes = Arc::new(RouteTable::new(routes, config.pools.len()).unwrap());
}

/// Keys that begin with `b:` go to the second of two pools, at port 111.
fn two_pools(config: &mut ProxyConfig) {
    config.pools.push(pool("b", memcached([111])));
    let to_b = route("b:", RouteTarget::Pool(1));
    routes(config, vec![RouteConfig::to_pool(0), to_b]);
}

#[test]
fn a_multi_get_is_dealt_out_over_pools_and_answered_in_the_order_asked() {
    let mut world = World::memcached_with(1, two_pools);
    let client = world.client();
    world.send(client, "gets b:1 a1 b:2 a2 b:3\r\nset b:4 0 0 1\r\nx\r\n");
    assert_eq!(world.asked(101), "gets a1 a2\r\n");
    assert_eq!(
        world.asked(111),
        "gets b:1 b:2 b:3\r\nset b:4 0 0 1\r\nx\r\n"
    );
    world.reply(
        111,
        "VALUE b:1 0 1 7\r\n1\r\nVALUE b:3 0 1 8\r\n3\r\nEND\r\nSTORED\r\n",
    );
    world.reply(101, "VALUE a1 5 2 9\r\nab\r\nEND\r\n");
    assert_eq!(
        world.received(client),
        "VALUE b:1 0 1 7\r\n1\r\nVALUE a1 5 2 9\r\nab\r\nVALUE b:3 0 1 8\r\n3\r\nEND\r\nSTORED\r\n"
    );
}

#[test]
fn the_same_address_in_two_pools_is_two_connections() {
    let mut world = World::memcached_with(1, |config| {
        config.pools.push(pool("b", memcached([101])));
        let to_b = route("b:", RouteTarget::Pool(1));
        routes(config, vec![RouteConfig::to_pool(0), to_b]);
    });
    let client = world.client();
    world.send(client, "delete a\r\ndelete b:a\r\n");
    assert_eq!(world.attempts(101), 2);
    let names: Vec<String> = world.core.backends().into_iter().map(|b| b.name).collect();
    assert_eq!(names, ["a:101", "b/a:101"]);
}

#[test]
fn commands_of_one_key_can_go_to_different_pools() {
    let mut world = World::memcached_with(1, |config| {
        config.pools.push(pool("b", memcached([111])));
        let reads = RouteConfig {
            commands: Commands::READS,
            ..RouteConfig::to_pool(0)
        };
        let writes = RouteConfig {
            commands: Commands::WRITES,
            ..RouteConfig::to_pool(1)
        };
        routes(config, vec![reads, writes]);
    });
    let client = world.client();
    world.send(
        client,
        "get k\r\nmg k v\r\nme k\r\nset k 0 0 1\r\nx\r\nms k 1\r\nx\r\ndelete k\r\nmd k\r\n\
         incr k 1\r\nma k\r\ntouch k 1\r\ngat 1 k\r\nmg k T30\r\nmg k N30 v\r\n",
    );
    assert_eq!(world.asked(101), "get k\r\nmg k v\r\nme k\r\n");
    assert_eq!(
        world.asked(111),
        "set k 0 0 1\r\nx\r\nms k 1\r\nx\r\ndelete k\r\nmd k\r\nincr k 1\r\nma k\r\ntouch k 1\r\n\
         gat 1 k\r\nmg k T30\r\nmg k N30 v\r\n"
    );
}

#[test]
fn what_a_route_denies_is_told_so_and_asked_nowhere() {
    let mut world = World::memcached_with(1, |config| {
        let mut read_only = route("ro:", RouteTarget::Pool(0));
        read_only.read_only = true;
        let denied = route("no:", RouteTarget::Deny);
        routes(config, vec![RouteConfig::to_pool(0), read_only, denied]);
    });
    let client = world.client();
    let denied = "CLIENT_ERROR denied: no route of the proxy takes this command for this key\r\n";
    let read_only = "CLIENT_ERROR read-only: the proxy's route for this key takes no writes\r\n";
    for (command, answer) in [
        ("get no:k", denied),
        ("mg no:k v q", denied),
        ("me no:k", denied),
        ("delete no:k", denied),
        ("set ro:k 0 0 1\r\nx", read_only),
        ("set ro:k 0 0 1 noreply\r\nx", ""),
        ("ms ro:k 1 q\r\nx", read_only),
        ("incr ro:k 1", read_only),
        ("touch ro:k 1", read_only),
        ("gat 1 ro:k", read_only),
        ("mg ro:k T1", read_only),
        ("get no:a no:b", denied),
    ] {
        world.send(client, format!("{command}\r\n"));
        assert_eq!(world.received(client), answer, "{command}");
    }
    assert_eq!(world.attempts(101), 0);
    world.send(client, "get ro:k no:k k\r\nmn\r\n");
    assert_eq!(world.asked(101), "get ro:k k\r\n");
    world.reply(101, "VALUE k 0 1\r\nx\r\nEND\r\n");
    let rest = format!("VALUE k 0 1\r\nx\r\n{denied}MN\r\n");
    assert_eq!(world.received(client), rest, "as any error for one key");
    assert_eq!(world.core.stats().proxy_requests_denied, 14);
    assert_eq!(world.core.stats().proxy_request_errors, 0);
}

/// One command, what the server is asked, what it answers, and what the application gets. The prefix
/// `app:` stands for `v2/` there.
const RENAMED: &[(&str, &str, &str, &str)] = &[
    (
        "get app:1 app:2",
        "get v2/1 v2/2",
        "VALUE v2/2 7 1\r\nx\r\nEND",
        "VALUE app:2 7 1\r\nx\r\nEND\r\n",
    ),
    (
        "gets app:1",
        "gets v2/1",
        "VALUE v2/1 7 1 9\r\nx\r\nEND",
        "VALUE app:1 7 1 9\r\nx\r\nEND\r\n",
    ),
    (
        "set app:1 0 0 1\r\nx",
        "set v2/1 0 0 1\r\nx",
        "STORED",
        "STORED\r\n",
    ),
    ("delete app:1", "delete v2/1", "DELETED", "DELETED\r\n"),
    ("incr app:1 1", "incr v2/1 1", "5", "5\r\n"),
    ("touch app:1 9", "touch v2/1 9", "TOUCHED", "TOUCHED\r\n"),
    (
        "mg app:1 k v",
        "mg v2/1 k v",
        "VA 1 kv2/1\r\nx",
        "VA 1 kapp:1\r\nx\r\n",
    ),
    ("mg app:1 Oq k q", "mg v2/1 Oq k", "EN Oq kv2/1", ""),
    (
        "mg app:1 O1 k v",
        "mg v2/1 O1 k v",
        "EN O1 kv2/1",
        "EN O1 kapp:1\r\n",
    ),
    (
        "ms app:1 1 k\r\nx",
        "ms v2/1 1 k\r\nx",
        "HD kv2/1",
        "HD kapp:1\r\n",
    ),
    (
        "md app:1 k q",
        "md v2/1 k q\r\nmn",
        "NF kv2/1\r\nMN",
        "NF kapp:1\r\n",
    ),
    ("ma app:1 v", "ma v2/1 v", "VA 1\r\n3", "VA 1\r\n3\r\n"),
    (
        "me app:1",
        "me v2/1",
        "ME v2/1 exp=-1",
        "ME app:1 exp=-1\r\n",
    ),
    // The same key in base64.
    (
        "mg YXBwOjE= b k v",
        "mg djIvMQ== b k v",
        "HD kdjIvMQ== b",
        "HD kYXBwOjE= b\r\n",
    ),
    (
        "me YXBwOjE= b",
        "me djIvMQ== b",
        "ME djIvMQ== exp=1",
        "ME YXBwOjE= exp=1\r\n",
    ),
    // Nothing to turn back in what does not name a key.
    (
        "get app:1",
        "get v2/1",
        "SERVER_ERROR v2/1",
        "SERVER_ERROR v2/1\r\n",
    ),
];

fn renaming(config: &mut ProxyConfig) {
    let mut renamed = route("app:", RouteTarget::Pool(0));
    renamed.strip_prefix = true;
    renamed.add_prefix = b"v2/".as_slice().into();
    routes(config, vec![RouteConfig::to_pool(0), renamed]);
}

#[test]
fn servers_know_keys_by_another_name_and_applications_never_see_it() {
    for (command, asked, reply, shown) in RENAMED {
        let mut world = World::memcached_with(1, renaming);
        let client = world.client();
        world.send(client, format!("{command}\r\nmn\r\n"));
        assert_eq!(world.asked(101), format!("{asked}\r\n"), "{command}");
        world.reply(101, format!("{reply}\r\n"));
        assert_eq!(
            world.received(client),
            format!("{shown}MN\r\n"),
            "{command}"
        );
        // The same behind another answer, so that it is composed aside.
        let mut world = World::memcached_with(1, |config| {
            config.pools.push(pool("b", memcached([111])));
            renaming(config);
            let mut all = config.routes.routes().to_vec();
            all.push(route("b", RouteTarget::Pool(1)));
            routes(config, all);
        });
        let client = world.client();
        world.send(client, format!("delete b\r\n{command}\r\n"));
        world.reply(101, format!("{reply}\r\n"));
        world.reply(111, "DELETED\r\n");
        assert_eq!(
            world.received(client),
            format!("DELETED\r\n{shown}"),
            "{command}"
        );
    }
}

#[test]
fn an_evenkeel_pool_places_keys_by_the_name_that_servers_know() {
    let (inside, cachelet) = key_of(2, 2);
    let mut world = World::evenkeel_with(2, |config| {
        let mut renamed = route("app:", RouteTarget::Pool(0));
        renamed.strip_prefix = true;
        routes(config, vec![RouteConfig::to_pool(0), renamed]);
    });
    let client = world.client();
    world.send(
        client,
        format!("get app:{inside}\r\nmg app:{inside} k v\r\n"),
    );
    assert_eq!(
        world.asked(102),
        format!("mg {inside} v f c A Y1 U{cachelet}\r\nmg {inside} k v c Y1 U{cachelet}\r\n")
    );
    world.reply(
        102,
        format!("VA 1 f3 c1\r\nx\r\nVA 1 k{inside} c1\r\nx\r\n"),
    );
    assert_eq!(
        world.received(client),
        format!("VALUE app:{inside} 3 1\r\nx\r\nEND\r\nVA 1 kapp:{inside}\r\nx\r\n")
    );
    assert_eq!(world.asked(101), "");
}

#[test]
fn a_miss_that_nobody_answered_names_the_application_s_key() {
    let mut world = World::memcached_with(1, renaming);
    world.connecting(101, super::world::Connecting::Refuses);
    let client = world.client();
    world.send(client, "mg app:7 k O3 v\r\nmg YXBwOjE= b k\r\n");
    assert_eq!(world.received(client), "EN kapp:7 O3\r\nEN kYXBwOjE= b\r\n");
}

#[test]
fn a_key_that_a_route_makes_too_long_or_empty_is_refused_as_any_such_key() {
    let mut world = World::memcached_with(1, |config| {
        let mut longer = route("long:", RouteTarget::Pool(0));
        longer.add_prefix = b"12345".as_slice().into();
        let mut shorter = route("cut:", RouteTarget::Pool(0));
        shorter.strip_prefix = true;
        routes(config, vec![RouteConfig::to_pool(0), longer, shorter]);
    });
    let client = world.client();
    let fits = format!("long:{}", "k".repeat(240));
    let long = format!("long:{}", "k".repeat(241));
    let bad = "CLIENT_ERROR bad command line format\r\n";
    for command in [
        format!("get {long}"),
        format!("set {long} 0 0 1\r\nx"),
        format!("mg {long} v"),
        "get cut:".to_owned(),
        "delete cut:".to_owned(),
    ] {
        world.send(client, format!("{command}\r\n"));
        assert_eq!(world.received(client), bad, "{command}");
    }
    assert_eq!(world.core.stats().proxy_keys_refused, 5);
    world.send(client, format!("delete {fits}\r\n"));
    assert_eq!(world.asked(101), format!("delete 12345{fits}\r\n"));
}

#[test]
fn exptimes_are_kept_within_the_bounds_of_their_route() {
    let mut world = World::memcached_with(1, |config| {
        let mut bounded = route("b:", RouteTarget::Pool(0));
        bounded.ttl = TtlBounds {
            min: 60,
            max: 600,
            jitter: 0,
        };
        routes(config, vec![RouteConfig::to_pool(0), bounded]);
    });
    let client = world.client();
    let month = UNIX + 30 * 86_400;
    for (command, asked) in [
        ("set b:k 0 0 1\r\nx".to_owned(), "set b:k 0 600 1\r\nx"),
        ("add b:k 0 5 1\r\nx".to_owned(), "add b:k 0 60 1\r\nx"),
        (
            format!("cas b:k 0 {month} 1 7\r\nx"),
            "cas b:k 0 600 1 7\r\nx",
        ),
        ("set b:k 0 -1 1\r\nx".to_owned(), "set b:k 0 -1 1\r\nx"),
        ("append b:k 0 0 1\r\nx".to_owned(), "append b:k 0 0 1\r\nx"),
        ("touch b:k 0".to_owned(), "touch b:k 600"),
        (
            "gat 1 b:k k b:l".to_owned(),
            "gat 60 b:k\r\ngat 1 k\r\ngat 60 b:l",
        ),
        ("mg b:k T0 v".to_owned(), "mg b:k T600 v"),
        ("mg b:k N1 R30 v q".to_owned(), "mg b:k N60 R30 v"),
        ("ms b:k 1 T5 c\r\nx".to_owned(), "ms b:k 1 T60 c\r\nx"),
        ("ms b:k 1\r\nx".to_owned(), "ms b:k 1 T600\r\nx"),
        ("ms b:k 1 MA\r\nx".to_owned(), "ms b:k 1 MA\r\nx"),
        ("ms b:k 1 MA N0\r\nx".to_owned(), "ms b:k 1 MA N600\r\nx"),
        ("ma b:k N0 J1 T7".to_owned(), "ma b:k N600 J1 T60"),
        ("md b:k I T5".to_owned(), "md b:k I T60"),
        ("set k 0 0 1\r\nx".to_owned(), "set k 0 0 1\r\nx"),
    ] {
        world.send(client, format!("{command}\r\n"));
        assert_eq!(world.asked(101), format!("{asked}\r\n"), "{command}");
    }
    // As many flags as there can be leave no room for the one that would bound it.
    let full = "C1 D1 E1 F1 I J1 MS Oab R30 c f h k l s t";
    world.send(
        client,
        format!("ms b:k 1 {full}\r\nx\r\nms k 1 {full}\r\nx\r\n"),
    );
    assert_eq!(world.asked(101), format!("ms k 1 {full}\r\nx\r\n"));
    assert_eq!(world.core.stats().proxy_keys_refused, 1);
    assert_eq!(world.core.stats().proxy_ttls_changed, 15);
}

#[test]
fn jitter_is_the_same_for_the_same_seed() {
    let asked = || {
        let mut world = World::memcached_with(1, |config| {
            let mut all = RouteConfig::to_pool(0);
            all.ttl.jitter = TtlBounds::jitter_of(0.2);
            routes(config, vec![all]);
        });
        let client = world.client();
        world.send(client, "set k 0 1000 1\r\nx\r\n".repeat(20));
        world.asked(101)
    };
    let first = asked();
    assert_eq!(first, asked());
    let lines = first.lines().filter(|line| line.starts_with("set"));
    let ttls: Vec<u32> = lines
        .map(|line| line.split(' ').nth(3).unwrap().parse().unwrap())
        .collect();
    assert!(
        ttls.iter().all(|ttl| (800..=1000).contains(ttl)),
        "{ttls:?}"
    );
    assert!(ttls.iter().any(|ttl| *ttl != ttls[0]), "{ttls:?}");
}

#[test]
fn flush_all_empties_the_pools_that_allow_it_and_take_writes() {
    let mut world = World::memcached_with(1, |config| {
        for (name, port, allow) in [("b", 111, true), ("c", 112, true), ("d", 113, false)] {
            let mut new = pool(name, memcached([port]));
            new.settings.allow_flush = allow;
            config.pools.push(new);
        }
        let mut all = vec![RouteConfig::to_pool(0)];
        for at in 1..=3 {
            all.push(route(&format!("{at}"), RouteTarget::Pool(at)));
        }
        all[2].read_only = true;
        routes(config, all);
    });
    let client = world.client();
    world.send(client, "flush_all\r\n");
    assert_eq!(world.asked(111), "flush_all\r\n");
    world.reply(111, "OK\r\n");
    assert_eq!(world.received(client), "OK\r\n");
    assert_eq!([101, 112, 113].map(|port| world.attempts(port)), [0, 0, 0]);
}

#[test]
fn leases_of_two_pools_know_nothing_of_each_other() {
    const OTHER: MapSource = MapSource(2);
    let mut world = World::evenkeel_with(2, |config| {
        config.pools.push(pool("b", PoolKind::Evenkeel(OTHER)));
        let to_b = route("b:", RouteTarget::Pool(1));
        routes(config, vec![RouteConfig::to_pool(0), to_b]);
    });
    let client = world.client();
    world.send(client, "get b:1\r\n");
    assert_eq!(
        world.received(client),
        "END\r\n",
        "no map of that cluster yet"
    );
    assert_eq!(world.core.epoch(OTHER), evenkeel_types::Epoch(0));
    let (key, CacheletId(cachelet)) = {
        let (key, cachelet) = key_of(1, 2);
        (key, CacheletId(cachelet))
    };
    world.send(client, format!("get {key}\r\n"));
    world.reply(101, "VA 1 f0 c1 G200\r\nx\r\n");
    let leased = world.core.stats().proxy_leases;
    assert_eq!(leased, 1);
    // A map of the other cluster ends no lease here.
    world.core.set_map(world.now, OTHER, &map(9, 2, |_| 1));
    assert_eq!(world.core.epoch(SOURCE), evenkeel_types::Epoch(1));
    assert_eq!(world.core.epoch(OTHER), evenkeel_types::Epoch(9));
    world.asked(101);
    world.send(client, format!("get {key}\r\n"));
    let asked = [world.asked(101), world.asked(102)].concat();
    let reads = format!("mg {key} v f c A Y1 U{cachelet}");
    assert!(asked.starts_with(&reads), "{asked}");
    assert_eq!(world.core.stats().proxy_maps, 2);
}

#[test]
fn clients_that_look_for_servers_are_told_this_proxy_and_no_server() {
    let ask = |world: &mut World| {
        world.configure(|config| config.revision.made_at = 77);
        let client = world.client();
        world.send(client, "config get cluster\r\nconfig get other\r\n");
        world.received(client)
    };
    let list = "77\n10.0.0.9|10.0.0.9|11311\n";
    let len = list.len();
    let told = format!("CONFIG cluster 0 {len}\r\n{list}\r\nEND\r\nERROR\r\n");
    assert_eq!(ask(&mut World::memcached(2)), told);
    assert_eq!(ask(&mut World::evenkeel(2)), told);
    // A host with a name has no address beside it, and whoever has left is told nothing.
    let mut world = World::memcached(1);
    let client = world.client();
    world.core.cluster_asked(client, None);
    let Some(Output::OwnAddress(ticket)) = world.core.poll_output() else {
        panic!("the address was asked for");
    };
    world.core.client_closed(client);
    world
        .core
        .answer_own_address(world.now, ticket, "cache.example", 1);
    let client = world.client();
    world.core.cluster_asked(client, None);
    let Some(Output::OwnAddress(ticket)) = world.core.poll_output() else {
        panic!("the address was asked for");
    };
    world
        .core
        .answer_own_address(world.now, ticket, "cache.example", 1);
    world.pump();
    let told = world.received(client);
    assert!(told.contains("\ncache.example||1\n"), "{told}");
}
