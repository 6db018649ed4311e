//! How long requests take, measured by turns of the event loop, and how that is shown.

use super::world::{Connecting, World};
use crate::*;
use core::time::Duration;

#[test]
fn times_in_the_queue_and_until_the_answer_are_told_apart_and_exposed() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.connecting(101, Connecting::Hangs);
    world.send(client, "get a\r\nset b 0 0 1\r\nx\r\n");
    world.wait_ms(20);
    world.finish_connecting(101);
    world.wait_ms(3);
    world.round_trip(101, Duration::from_micros(500));
    world.reply(101, "END\r\n");
    world.wait_ms(1);
    world.reply(101, "STORED\r\n");
    // The quick way is measured, too.
    world.send(client, "get a\r\n");
    world.reply(101, "END\r\n");
    world.send(client, "stats servers\r\n");
    let backends = world.core.backends();
    let latency = &backends[0].latency;
    assert_eq!((latency.queue.count(), latency.answer.count()), (3, 3));
    assert_eq!(latency.queue.sum_us(), 2 * 20_000);
    assert_eq!(latency.answer.sum_us(), 3_000 + 4_000);
    assert_eq!(latency.network.sum_us(), 500 + 500, "the last took no time");
    assert_eq!(latency.server.sum_us(), 2_500 + 3_500);
    let text = render_metrics(&ProcessStats {
        totals: *world.core.stats(),
        backends,
        ..ProcessStats::default()
    });
    let labels = "pool=\"default\",server=\"a:101\"";
    let part = |part: &str| format!("evenkeel_proxy_server_{part}_seconds");
    for line in [
        format!("evenkeel_proxy_server_requests_total{{{labels}}} 3"),
        format!("evenkeel_proxy_server_connections_up{{{labels}}} 1"),
        "evenkeel_proxy_get_misses_total 2".to_owned(),
        "evenkeel_proxy_request_errors_total 0".to_owned(),
        format!("# TYPE {} histogram", part("queue")),
        format!("{}_bucket{{{labels},le=\"0.000016\"}} 1", part("queue")),
        format!("{}_bucket{{{labels},le=\"0.032768\"}} 3", part("queue")),
        format!("{}_bucket{{{labels},le=\"+Inf\"}} 3", part("queue")),
        format!("{}_sum{{{labels}}} 0.040000", part("queue")),
        format!("{}_bucket{{{labels},le=\"0.002048\"}} 1", part("answer")),
        format!("{}_bucket{{{labels},le=\"0.004096\"}} 3", part("answer")),
        format!("{}_count{{{labels}}} 3", part("answer")),
        format!("{}_sum{{{labels}}} 0.001000", part("network")),
        format!("{}_sum{{{labels}}} 0.006000", part("server")),
        format!("{}{{{labels}}} 0.000500", part("round_trip")),
    ] {
        assert!(text.lines().any(|have| have == line), "{line} in\n{text}");
    }
}

#[test]
fn requests_under_way_when_the_timeout_changes_are_not_measured() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.send(client, "get a\r\n");
    world.configure(|config| config.pools[0].settings.request_timeout *= 2);
    world.reply(101, "END\r\n");
    world.send(client, "get a\r\n");
    world.wait_ms(1);
    world.reply(101, "END\r\n");
    let latency = &world.core.backends()[0].latency;
    assert_eq!((latency.queue.count(), latency.answer.sum_us()), (1, 1000));
}
