//! `flush_all` while cachelets move, with what they hold, to servers that the proxy does not know yet.

use super::world::{World, key_of, map};
use evenkeel_policy::placement::map::{ClusterMap, Migration};
use evenkeel_types::{CacheletId, Epoch, ServerId, WorkerRef};
use std::sync::Arc;

/// Servers 1 and 2 by map 1, and a third that later maps have.
fn two_of_three() -> World {
    let mut world = World::evenkeel_with(2, |config| {
        config.pools[0].settings.allow_flush = true;
    });
    world.worker(103, 3);
    world
}

fn three(epoch: u64) -> Arc<ClusterMap> {
    map(epoch, 3, |cachelet| cachelet % 3 + 1)
}

/// The worker at a port is flushed by a client that goes by map `by`, and knows map `knows`.
fn flush(world: &mut World, port: u16, by: u64, knows: u64) {
    let expected = format!("flush_all\r\nevenkeel 1 epoch={by}\r\n");
    assert_eq!(world.asked(port), expected, "at {port}");
    let hello = world.hello_at(port, knows);
    world.reply(port, format!("OK\r\n{hello}"));
}

/// All three are flushed by the map that all know.
fn flush_three(world: &mut World, by: u64) {
    for port in 101..=103 {
        flush(world, port, by, by);
    }
}

#[test]
fn by_the_map_that_all_know_it_takes_one_round() {
    let mut world = two_of_three();
    let client = world.client();
    world.send(client, "flush_all\r\n");
    flush(&mut world, 101, 1, 1);
    assert_eq!(world.received(client), "");
    flush(&mut world, 102, 1, 1);
    assert_eq!(world.received(client), "OK\r\n");
    assert!(world.wanted.is_empty());
    assert_eq!(world.core.stats().proxy_flushes_repeated, 0);
}

#[test]
fn where_a_worker_knows_a_newer_map_all_are_flushed_again_by_that() {
    let mut world = two_of_three();
    let client = world.client();
    world.send(client, "flush_all\r\n");
    flush(&mut world, 101, 1, 2);
    flush(&mut world, 102, 1, 1);
    assert_eq!(world.received(client), "");
    assert_eq!(world.wanted, [Epoch(2)]);
    world.set_map(&three(2));
    assert_eq!(world.received(client), "");
    // Newer still: what the third had may have gone to the first, which was flushed before that.
    flush(&mut world, 101, 2, 2);
    flush(&mut world, 102, 2, 2);
    flush(&mut world, 103, 2, 3);
    assert_eq!(world.received(client), "");
    world.set_map(&three(3));
    flush_three(&mut world, 3);
    assert_eq!(world.received(client), "OK\r\n");
    assert_eq!(world.core.stats().proxy_flushes_repeated, 2);
}

#[test]
fn a_map_that_comes_during_the_round_is_not_what_the_round_went_by() {
    let mut world = two_of_three();
    let client = world.client();
    world.send(client, "flush_all\r\n");
    flush(&mut world, 101, 1, 2);
    world.set_map(&three(2));
    flush(&mut world, 102, 1, 2);
    assert_eq!(world.received(client), "");
    flush_three(&mut world, 2);
    assert_eq!(world.received(client), "OK\r\n");
}

/// What is stored behind a flush must be there after it: no round may come later.
#[test]
fn what_is_asked_behind_it_waits_for_the_last_round() {
    let mut world = two_of_three();
    let client = world.client();
    let (key, _) = key_of(1, 3);
    world.send(client, format!("flush_all\r\nset {key} 0 0 1\r\nx\r\n"));
    flush(&mut world, 101, 1, 2);
    flush(&mut world, 102, 1, 2);
    world.set_map(&three(2));
    flush_three(&mut world, 2);
    assert_eq!(world.received(client), "OK\r\n");
    assert!(world.asked(101).starts_with(&format!("ms {key} 1 ")));
    world.reply(101, "HD\r\n");
    assert_eq!(world.received(client), "STORED\r\n");
}

#[test]
fn without_the_newer_map_it_fails_in_time() {
    let mut world = two_of_three();
    let client = world.client();
    world.send(client, "flush_all\r\nmn\r\n");
    flush(&mut world, 101, 1, 2);
    flush(&mut world, 102, 1, 2);
    world.wait_ms(999);
    assert_eq!(world.received(client), "");
    world.wait_ms(1);
    assert_eq!(
        world.received(client),
        "SERVER_ERROR not all servers flushed: their newer map has not come in time\r\nMN\r\n"
    );
    // It comes too late.
    world.set_map(&three(2));
    assert_eq!(world.asked(101), "");
}

#[test]
fn a_refusal_is_told_at_once_and_ends_it() {
    let mut world = two_of_three();
    let client = world.client();
    world.send(client, "flush_all\r\nmn\r\n");
    world.asked(101);
    let refusal = "CLIENT_ERROR flush_all not allowed\r\n";
    let hello = world.hello_at(101, 2);
    world.reply(101, format!("{refusal}{hello}"));
    flush(&mut world, 102, 1, 2);
    assert_eq!(world.received(client), format!("{refusal}MN\r\n"));
    assert_eq!(world.core.stats().proxy_flushes_repeated, 0);
}

/// Whether the worker had passed anything on is not known.
#[test]
fn a_worker_that_flushes_and_is_lost_before_it_says_by_which_map_has_failed() {
    let mut world = two_of_three();
    let client = world.client();
    world.send(client, "flush_all\r\n");
    flush(&mut world, 101, 1, 1);
    world.reply(102, "OK\r\n");
    assert_eq!(world.received(client), "");
    world.drop_connection(102);
    assert_eq!(
        world.received(client),
        "SERVER_ERROR backend s2 lost, outcome unknown\r\n"
    );
}

#[test]
fn it_goes_on_when_the_application_has_gone() {
    let mut world = two_of_three();
    let client = world.client();
    world.send(client, "flush_all noreply\r\n");
    world.close(client);
    flush(&mut world, 101, 1, 2);
    flush(&mut world, 102, 1, 2);
    world.set_map(&three(2));
    flush_three(&mut world, 2);
    world.wait_ms(5000);
    for port in 101..=103 {
        assert_eq!(world.asked(port), "");
    }
}

/// It may hold a cachelet already that the map has not given to it yet.
#[test]
fn a_server_is_flushed_that_is_down_and_to_which_a_cachelet_is_on_its_way() {
    let mut world = two_of_three();
    let mut document = map(2, 3, |cachelet| cachelet % 2 + 1).document().clone();
    document.servers[2].up = false;
    document.migrations = vec![Migration {
        cachelet: CacheletId(0),
        to: WorkerRef {
            server: ServerId(3),
            worker: 0,
        },
        began: Epoch(2),
        cancelled: false,
        bytes_per_second: 0,
    }];
    world.set_map(&Arc::new(ClusterMap::new(document).unwrap()));
    let client = world.client();
    world.send(client, "flush_all\r\n");
    flush_three(&mut world, 2);
    assert_eq!(world.received(client), "OK\r\n");
}
