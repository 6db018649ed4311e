//! Servers that are asked for more than they can do; the other stories of failures are in `scripts/failures.txt`.

use super::world::{Connecting, World, keys_of, memcached};
use crate::{Cause, DEFAULT_POOL, StateChange};

#[test]
fn what_a_server_cannot_keep_up_with_is_refused_in_time_and_the_server_stays_in_use() {
    let mut world = World::evenkeel(1);
    let [writer, reader] = [(); 2].map(|()| world.client());
    let overloaded = "SERVER_ERROR overloaded\r\n";
    // One answer in 30 ms.
    let answer = |world: &mut World| {
        world.wait_ms(30);
        world.reply(101, "HD\r\n");
    };
    // So few are sent at once.
    for n in 0..3 {
        world.send(writer, format!("set a{n} 0 0 1\r\nx\r\n"));
        answer(&mut world);
    }
    assert_eq!(world.received(writer), "STORED\r\n".repeat(3));
    world.asked(101);
    const SETS: usize = 40;
    let writers: Vec<_> = (0..SETS).map(|_| world.client()).collect();
    for (n, &writer) in writers.iter().enumerate() {
        world.send(writer, format!("set b{n} 0 0 1\r\nx\r\n"));
    }
    world.send(reader, "get a0\r\n");
    let sent = world.asked(101).matches("ms ").count();
    assert!((1..5).contains(&sent), "{sent} at once");
    (0..3).for_each(|_| answer(&mut world));
    assert_eq!(world.core.stats().requests_shed, 0, "a burst is waited out");
    (0..2).for_each(|_| answer(&mut world));
    assert_eq!(world.received(reader), overloaded, "it is no miss");
    assert_eq!(world.core.stats().requests_shed, 1);
    // Stores wait for longer, but not until they are late.
    let mut told = String::new();
    while told.matches("\r\n").count() < SETS {
        answer(&mut world);
        for &writer in &writers {
            told += &world.received(writer);
        }
    }
    let stored = told.matches("STORED\r\n").count();
    assert_eq!(told.matches(overloaded).count(), SETS - stored);
    assert!((20..30).contains(&stored), "{stored} at 30 ms each");
    // What is asked now is answered.
    world.send(reader, "get a0\r\n");
    world.reply(101, "EN\r\n");
    assert_eq!(world.received(reader), "END\r\n");
    assert_eq!(world.core.stats().reads_unavailable, 0);
    assert_eq!(world.core.backends()[0].counters.failures, 0);
}

#[test]
fn who_stores_more_than_a_server_can_do_in_time_is_slowed_down_to_that() {
    let mut world = World::evenkeel(2);
    let [writer, other] = [(); 2].map(|()| world.client());
    let key = |server, number: usize| keys_of(server, 2).nth(number).expect("there are many").0;
    let set = |key: String| format!("set {key} 0 0 1\r\nx\r\n");
    const SETS: usize = 200;
    let sets: String = (0..SETS).map(|number| set(key(1, number))).collect();
    world.send(writer, sets + &set(key(2, 0)));
    // 10 ms for each: two seconds, twice the request timeout.
    let mut told = String::new();
    while told.matches("\r\n").count() < SETS {
        world.wait_ms(10);
        world.reply(101, "HD\r\n");
        told += &world.received(writer);
    }
    assert_eq!(told, "STORED\r\n".repeat(SETS));
    assert!(world.core.stats().client_pauses > 0);
    assert_eq!(world.core.stats().requests_shed, 0);
    // What it asked of another server comes in its turn; nobody else has waited.
    world.reply(102, "HD\r\n");
    assert_eq!(world.received(writer), "STORED\r\n");
    world.send(other, set(key(1, 0)));
    world.reply(101, "HD\r\n");
    assert_eq!(world.received(other), "STORED\r\n");
}

#[test]
fn a_server_that_goes_out_of_use_is_told_of_with_its_cause() {
    let mut world = World::memcached(1);
    let client = world.client();
    let told = |world: &mut World| {
        let states = core::mem::take(&mut world.states);
        let told = states.into_iter().map(|state| {
            assert_eq!((&*state.pool, &*state.server), (DEFAULT_POOL, "a:101"));
            state.change
        });
        told.collect::<Vec<_>>()
    };
    let set = |world: &mut World| world.send(client, "set k 0 0 1\r\nx\r\n");
    world.connecting(101, Connecting::Refuses);
    (0..3).for_each(|_| set(&mut world));
    let cause = Cause::Refused;
    assert_eq!(told(&mut world), [StateChange::Down { cause }]);
    // What goes on is said once.
    world.wait_ms(60_000);
    assert_eq!(told(&mut world), []);
    world.come_back(101);
    // The first one found out.
    let not_asked = 2;
    assert_eq!(told(&mut world), [StateChange::Up { not_asked }]);

    let mut world = World::memcached(1);
    let client = world.client();
    world.connecting(101, Connecting::Silent);
    world.send(client, "set k 0 0 1\r\nx\r\n");
    world.wait_ms(5_000);
    let cause = Cause::Silent;
    assert_eq!(told(&mut world), [StateChange::Down { cause }]);
    world.configure(|config| config.pools[0].kind = memcached([102]));
    assert_eq!(told(&mut world), [StateChange::Left]);
}
