//! Servers that want to know who is there.

use super::world::{Connecting, World};
use crate::proxy::*;
use std::sync::Arc;

fn login(user: &str) -> Option<Arc<Login>> {
    Some(Arc::new(Login {
        user: user.into(),
        password: "secret".into(),
    }))
}

fn world_of(user: &str) -> World {
    World::memcached_with(1, |config| config.pools[0].settings.login = login(user))
}

const HELLO: &str = "set auth 0 -1 10\r\nann secret\r\nversion\r\n";

#[test]
fn who_we_are_is_said_first_and_once() {
    let mut world = world_of("ann");
    let client = world.client();
    world.send(client, "set a 0 0 1\r\nx\r\n");
    assert_eq!(
        world.asked(101),
        HELLO,
        "and nothing else before the answer"
    );
    world.reply(101, "STORED\r\n");
    assert_eq!(world.asked(101), "", "the greeting is not answered yet");
    world.reply(101, "VERSION 1.6.18\r\n");
    assert_eq!(world.asked(101), "set a 0 0 1\r\nx\r\n");
    world.reply(101, "STORED\r\n");
    assert_eq!(world.received(client), "STORED\r\n");
    // A new connection is another stranger.
    world.drop_connection(101);
    world.send(client, "get a\r\n");
    assert_eq!(world.asked(101), HELLO);
    world.reply(101, "STORED\r\nVERSION 1.6.18\r\n");
    assert_eq!(world.asked(101), "get a\r\n");
}

#[test]
fn a_server_that_does_not_accept_it_is_not_asked_anything() {
    let mut world = world_of("ann");
    let client = world.client();
    world.send(client, "set a 0 0 1\r\nx\r\n");
    world.asked(101);
    world.reply(
        101,
        "CLIENT_ERROR authentication failure\r\nCLIENT_ERROR unauthenticated\r\n",
    );
    let unavailable = "SERVER_ERROR backend a:101 unavailable\r\n";
    assert_eq!(world.received(client), unavailable);
    assert!(!world.is_connected(101));
    assert_eq!(world.core.backends()[0].counters.logins_refused, 1);
    assert_eq!(world.asked(101), "");
}

#[test]
fn a_server_on_trial_is_told_once_although_it_is_greeted_several_times() {
    let mut world = world_of("ann");
    world.connecting(101, Connecting::Refuses);
    let client = world.client();
    world.send(client, "get a\r\n");
    assert_eq!(world.received(client), "END\r\n");
    world.connecting(101, Connecting::Greets);
    let asked = (0..1000).any(|_| {
        world.wait_ms(1);
        world.has_asked(101)
    });
    assert!(asked, "it is tried again");
    assert_eq!(world.asked(101), HELLO);
    world.reply(101, "STORED\r\nVERSION 1.6.18\r\n");
    // The world answers greetings by themselves.
    world.wait_ms(200);
    assert_eq!(world.core.backends()[0].state, "up");
    assert_eq!(world.asked(101), "");
}

#[test]
fn another_name_is_another_connection_which_forgets_nothing_that_was_missed() {
    let mut world = world_of("ann");
    let client = world.client();
    world.send(client, "get a\r\n");
    world.reply(101, "STORED\r\nVERSION 1.6.18\r\n");
    world.asked(101);
    world.reply(101, "END\r\n");
    // A write that nobody answers may or may not have been carried out.
    world.send(client, "set a 0 0 1\r\nx\r\n");
    world.connecting(101, Connecting::Silent);
    world.drop_connection(101);
    world.asked(101);
    world.configure(|config| config.pools[0].settings.login = login("bob"));
    assert_eq!(world.asked(101), HELLO.replace("ann", "bob"));
    world.reply(101, "STORED\r\nVERSION 1.6.18\r\n");
    assert_eq!(world.asked(101), "delete a\r\n");
}
