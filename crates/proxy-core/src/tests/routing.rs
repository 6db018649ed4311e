//! Routes by chance, and pools that follow clusters; the other stories of routes are in `scripts/routing.txt`.

use super::world::{SOURCE, World, key_of, map};
use crate::*;
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
        bundles: None,
        holding: None,
    }
}

pub fn routes(config: &mut ProxyConfig, routes: Vec<RouteConfig>) {
    config.routes = Arc::new(RouteTable::new(routes, config.pools.len()).unwrap());
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
    let (key, _) = key_of(1, 2);
    world.send(client, format!("get {key}\r\n"));
    world.reply(101, "VA 1 f0 c1 G200\r\nx\r\n");
    let leased = world.core.stats().leases;
    assert_eq!(leased, 1);
    // A map of the other cluster ends no lease here.
    world.core.set_map(world.now, OTHER, &map(9, 2, |_| 1));
    assert_eq!(world.core.epoch(SOURCE), evenkeel_types::Epoch(1));
    assert_eq!(world.core.epoch(OTHER), evenkeel_types::Epoch(9));
    world.asked(101);
    world.send(client, format!("get {key}\r\n"));
    let asked = [world.asked(101), world.asked(102)].concat();
    let reads = format!("mg {key} v f c A Y1");
    assert!(asked.starts_with(&reads), "{asked}");
    assert_eq!(world.core.stats().maps, 2);
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
    // A host with a name has no address beside it, and anyone who has left is told nothing.
    let mut world = World::memcached(1);
    let client = world.client();
    crate::request::whole::cluster_asked(&mut world.core, client, None);
    let Some(Output::OwnAddress(ticket)) = world.core.poll_output() else {
        panic!("the address was asked for");
    };
    world.core.client_closed(client);
    world
        .core
        .answer_own_address(world.now, ticket, "cache.example", 1);
    let client = world.client();
    crate::request::whole::cluster_asked(&mut world.core, client, None);
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
