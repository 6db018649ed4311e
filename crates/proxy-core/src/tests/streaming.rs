//! Large values that pass through.

use super::world::World;
use crate::limits::STREAM_MIN;

fn value(key: &str, len: usize) -> String {
    let data: String = ('a'..='z').cycle().take(len).collect();
    format!("VALUE {key} 7 {len}\r\n{data}\r\n")
}

#[test]
fn what_has_come_of_a_large_value_goes_on_at_once() {
    let mut world = World::memcached(1);
    let client = world.client();
    world.send(client, "get a\r\nget b\r\n");
    let answer = value("a", STREAM_MIN) + "END\r\n";
    world.reply(101, &answer[..1000]);
    assert_eq!(world.received(client), answer[..1000]);
    world.reply(101, &answer[1000..30_000]);
    assert_eq!(world.received(client), answer[1000..30_000]);
    world.reply(101, &answer[30_000..]);
    assert_eq!(world.received(client), answer[30_000..]);
    world.reply(101, "END\r\n");
    assert_eq!(world.received(client), "END\r\n");
    let stats = world.core.stats();
    assert_eq!((stats.get_hits, stats.get_misses), (1, 1));
}

#[test]
fn a_smaller_value_or_one_whose_turn_has_not_come_waits_until_it_is_whole() {
    let mut world = World::memcached(1);
    let (client, other) = (world.client(), world.client());
    let answer = value("a", STREAM_MIN - 1) + "END\r\n";
    world.send(client, "get a\r\n");
    world.reply(101, &answer[..60_000]);
    assert_eq!(world.received(client), "");
    world.reply(101, &answer[60_000..]);
    assert_eq!(world.received(client), answer);

    let mut world = World::memcached(2);
    let key_at = |world: &mut World, wanted: u16| {
        let key = (0..).map(|i| format!("k{i}")).find(|key| {
            world.send(other, format!("get {key}\r\n"));
            let port = if world.has_asked(101) { 101 } else { 102 };
            world.asked(port);
            world.reply(port, "END\r\n");
            port == wanted
        });
        key.unwrap()
    };
    let (client, other) = (world.client(), other);
    let _ = world.client();
    let (here, there) = (key_at(&mut world, 101), key_at(&mut world, 102));
    world.received(other);
    world.send(client, format!("get {here}\r\nget {there}\r\n"));
    let large = value(&there, 2 * STREAM_MIN) + "END\r\n";
    world.reply(102, &large[..STREAM_MIN]);
    assert_eq!(world.received(client), "");
    world.reply(101, "END\r\n");
    assert_eq!(world.received(client), "END\r\n");
    world.reply(102, &large[STREAM_MIN..]);
    assert_eq!(world.received(client), large);
}

#[test]
fn values_cut_anywhere_arrive_as_they_were_sent() {
    for keys in [&["a"][..], &["a", "b"], &["miss", "a", "miss", "b"]] {
        let values: Vec<String> = keys
            .iter()
            .filter(|key| **key != "miss")
            .map(|key| value(key, STREAM_MIN))
            .collect();
        let answer = values.concat() + "END\r\n";
        let ends = [0, values[0].len(), answer.len()];
        let near = |end: usize| end.saturating_sub(40)..(end + 40).min(answer.len());
        for first in ends.into_iter().flat_map(near) {
            for second in [first + 1, first + 2, first + 3, answer.len()] {
                let mut world = World::memcached(1);
                let client = world.client();
                world.send(client, format!("get {}\r\n", keys.join(" ")));
                let second = second.min(answer.len());
                world.reply(101, &answer[..first]);
                world.reply(101, &answer[first..second]);
                world.reply(101, &answer[second..]);
                assert_eq!(
                    world.received(client),
                    answer,
                    "{keys:?}, {first}, {second}"
                );
                assert!(world.core.client_is_answered(client));
                world.send(client, "get x\r\n");
                world.reply(101, "END\r\n");
                assert_eq!(world.received(client), "END\r\n");
            }
        }
    }
}

#[test]
fn a_value_that_breaks_off_takes_its_application_with_it_and_nobody_else() {
    let large = value("a", STREAM_MIN);
    let wrong_end = format!("{}xx", &large[..large.len() - 2]);
    for breaks in [
        |world: &mut World, _: &str| world.drop_connection(101),
        |world: &mut World, _: &str| world.wait_ms(2_000),
        |world: &mut World, rest: &str| world.reply(101, rest),
    ] {
        let mut world = World::memcached(1);
        let (client, other) = (world.client(), world.client());
        world.send(client, "get a\r\n");
        world.send(other, "get b\r\n");
        world.reply(101, &large[..5000]);
        breaks(&mut world, &wrong_end[5000..]);
        assert!(world.is_closed(client));
        assert_eq!(world.core.stats().clients_closed_cut, 1);
        assert!(!world.is_closed(other));
    }
}

#[test]
fn the_rest_of_a_value_whose_application_is_gone_is_dropped() {
    let mut world = World::memcached(1);
    let (client, other) = (world.client(), world.client());
    world.send(client, "get a\r\n");
    world.send(other, "get b\r\n");
    let answer = value("a", STREAM_MIN) + "END\r\n";
    world.reply(101, &answer[..5000]);
    world.close(client);
    world.reply(101, &answer[5000..]);
    world.reply(101, "END\r\n");
    assert_eq!(world.received(other), "END\r\n");
    assert!(world.is_connected(101));
}
