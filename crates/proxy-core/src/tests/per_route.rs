//! What is counted and measured of each route, and how that is shown.

use super::routing::{pool, route, routes};
use super::world::{World, memcached};
use crate::*;

/// The default route to port 101, keys that begin with `b:` to port 111 and with `no:` nowhere.
fn three_routes(config: &mut ProxyConfig) {
    config.pools.push(pool("b", memcached([111])));
    let to_b = route("b:", RouteTarget::Pool(1));
    let to_nowhere = route("no:", RouteTarget::Deny);
    routes(config, vec![RouteConfig::to_pool(0), to_b, to_nowhere]);
}

fn counted(world: &World) -> Vec<RouteStats> {
    world.core.route_stats()
}

fn process(world: &World) -> ProcessStats {
    let mut process = ProcessStats::default();
    process.add(world.core.counts(world.now()));
    process
}

/// Each command that is read the quick way is followed by one that is not, which is counted alike.
#[test]
fn what_becomes_of_each_request_is_counted_for_its_route() {
    let mut world = World::memcached_with(1, three_routes);
    let client = world.client();
    world.send(client, "get b:1\r\nget  b:1\r\nget a\r\nget  a\r\n");
    world.send(client, "get b:1 a b:2\r\nget  b:1 a b:2\r\n");
    world.send(client, "set b:1 0 0 1 noreply\r\nx\r\ndelete a\r\n");
    world.send(client, "set no:1 0 0 1\r\nx\r\nincr a 1\r\n");
    let (hit, both) = (
        "VALUE b:1 0 1\r\nx\r\nEND\r\n",
        "VALUE b:1 0 1\r\nx\r\nEND\r\n",
    );
    world.reply(111, format!("{hit}{hit}{both}{both}STORED\r\n"));
    world.reply(
        101,
        "END\r\nEND\r\nEND\r\nVALUE a 0 1\r\ny\r\nEND\r\nDELETED\r\n",
    );
    world.reply(101, "SERVER_ERROR out of memory\r\n");
    let [main, b, no] = &counted(&world)[..] else {
        panic!("three routes");
    };
    let counters = RouteCounters {
        requests: 6,
        get_hits: 1,
        get_misses: 3,
        errors: 1,
        request_bytes: (4 * "get a".len() + "delete a".len() + "incr a 1".len() + 6 * 2) as u64,
        answer_bytes: "VALUE a 0 1\r\ny\r\nDELETED\r\nSERVER_ERROR out of memory\r\n".len() as u64,
        ..RouteCounters::default()
    };
    assert_eq!(main.counters, counters);
    let counters = RouteCounters {
        requests: 7,
        get_hits: 4,
        get_misses: 2,
        request_bytes: (2 * "get b:1".len()
            + 2 * "get b:1 b:2".len()
            + "set b:1 0 0 1\r\nx".len()
            + 5 * 2) as u64,
        answer_bytes: 4 * "VALUE b:1 0 1\r\nx\r\n".len() as u64,
        ..RouteCounters::default()
    };
    assert_eq!(b.counters, counters);
    let counters = RouteCounters {
        requests: 1,
        denied: 1,
        ..RouteCounters::default()
    };
    assert_eq!(no.counters, counters);
    let totals = world.core.stats();
    assert_eq!((totals.get_hits, totals.get_misses), (5, 5));
    assert_eq!(totals.request_errors, 0, "the server's own error");
    assert_eq!(main.latency.answer.count(), 6);
    assert_eq!(b.latency.answer.count(), 5, "by lines");
}

#[test]
fn collapsed_and_failed_gets_are_counted_each() {
    let mut world = World::memcached_with(1, three_routes);
    let clients = [world.client(), world.client(), world.client()];
    // The connection stands.
    world.send(clients[0], "get b:1\r\n");
    world.reply(111, "END\r\n");
    for client in clients {
        world.put(client, "get b:1\r\n");
    }
    world.send(clients[0], "");
    assert_eq!(world.core.stats().gets_collapsed, 2);
    world.reply(111, "VALUE b:1 0 1\r\nx\r\nEND\r\n");
    assert_eq!(counted(&world)[1].counters.get_hits, 3);
    world.send(clients[0], "get b:1\r\nset b:1 0 0 1\r\nx\r\n");
    world.wait_ms(1_000);
    let b = counted(&world)[1].counters;
    assert_eq!((b.unavailable, b.errors, b.requests), (1, 1, 6));
}

#[test]
fn a_reload_keeps_the_counts_of_routes_that_stay() {
    let mut world = World::memcached_with(1, three_routes);
    let client = world.client();
    world.send(client, "get b:1\r\n");
    world.reply(111, "END\r\n");
    // Under way on a route that the next configuration does not have.
    world.send(client, "get b:1\r\n");
    world.configure(|config| {
        let to_b = route("b:", RouteTarget::Pool(0));
        routes(config, vec![to_b, RouteConfig::to_pool(0)]);
    });
    world.wait_ms(3);
    world.reply(111, "END\r\n");
    let names = |world: &World| -> Vec<(String, String, u64)> {
        let routes = counted(world).into_iter();
        routes
            .map(|route| (route.name.prefix, route.name.pool, route.counters.requests))
            .collect()
    };
    let name = |prefix: &str, pool: &str, count| (prefix.to_owned(), pool.to_owned(), count);
    assert_eq!(
        names(&world),
        [name("b:", "default", 0), name("", "default", 0)]
    );
    world.configure(|_| {});
    world.configure(|config| {
        let to_b = route("b:", RouteTarget::Pool(1));
        routes(config, vec![to_b, RouteConfig::to_pool(0)]);
    });
    assert_eq!(
        names(&world),
        [name("b:", "b", 0), name("", "default", 0)],
        "what nothing is asked of any more was forgotten"
    );
    world.send(client, "get b:1\r\n");
    world.reply(111, "END\r\n");
    world.configure(|config| {
        let to_b = route("b:", RouteTarget::Pool(1));
        routes(config, vec![RouteConfig::to_pool(0), to_b]);
    });
    assert_eq!(
        names(&world),
        [name("", "default", 0), name("b:", "b", 1)],
        "at another position"
    );
    assert_eq!(counted(&world)[1].latency.answer.count(), 1);
    world.core.reset_stats();
    assert_eq!(counted(&world)[1].counters, RouteCounters::default());
    assert_eq!(counted(&world)[1].latency, Latency::default());
}

#[test]
fn routes_behind_the_first_are_counted_together() {
    let mut world = World::memcached_with(1, |config| {
        let prefixes = (0..ROUTES_COUNTED_MAX + 10).map(|n| format!("{n}:"));
        let more = prefixes.map(|prefix| route(&prefix, RouteTarget::Pool(0)));
        let all = [RouteConfig::to_pool(0)].into_iter().chain(more);
        routes(config, all.collect());
    });
    let client = world.client();
    let last = ROUTES_COUNTED_MAX + 9;
    world.send(client, format!("get {last}:a\r\nget 0:a\r\n"));
    world.reply(101, "END\r\nEND\r\n");
    let routes = counted(&world);
    assert_eq!(routes.len(), ROUTES_COUNTED_MAX + 1);
    assert_eq!(routes[1].counters.get_misses, 1);
    let others = routes.last().expect("there are some");
    assert_eq!(
        (others.name.route.as_str(), others.counters.get_misses),
        ("others", 1)
    );
}

#[test]
fn stats_and_metrics_show_what_all_workers_have_counted() {
    let mut world = World::memcached_with(1, three_routes);
    let client = world.client();
    world.send(client, "get b:1\r\n");
    world.wait_ms(3);
    world.reply(111, "END\r\n");
    world.send(client, "delete no:1\r\nstats routes\r\n");
    let mut process = process(&world);
    process.add(world.core.counts(world.now()));
    let ticket = world.stats_asked.pop().expect("it was asked");
    world.received(client);
    let now = world.now();
    world.core.answer_stats(now, ticket, &process);
    world.send(client, "");
    let stats = world.received(client);
    for line in [
        "STAT 1:keys *",
        "STAT 1:requests 0",
        "STAT 2:keys b:*",
        "STAT 2:commands all",
        "STAT 2:pool b",
        "STAT 2:requests 2",
        "STAT 2:get_misses 2",
        "STAT 2:answer_us_p50 3071",
        "STAT 3:pool none",
        "STAT 3:denied 2",
    ] {
        assert!(stats.lines().any(|have| have == line), "{line} in\n{stats}");
    }
    let text = render_metrics(&process);
    let labels = "route=\"2\",prefix=\"b:\",pool=\"b\"";
    for line in [
        format!("evenkeel_proxy_route_get_misses_total{{{labels}}} 2"),
        "evenkeel_proxy_route_denied_total{route=\"3\",prefix=\"no:\",pool=\"none\"} 2".to_owned(),
        "# TYPE evenkeel_proxy_route_answer_seconds histogram".to_owned(),
        format!("evenkeel_proxy_route_answer_seconds_bucket{{{labels},le=\"0.002048\"}} 0"),
        format!("evenkeel_proxy_route_answer_seconds_bucket{{{labels},le=\"0.004096\"}} 2"),
        format!("evenkeel_proxy_route_answer_seconds_sum{{{labels}}} 0.006000"),
    ] {
        assert!(text.lines().any(|have| have == line), "{line} in\n{text}");
    }
}
