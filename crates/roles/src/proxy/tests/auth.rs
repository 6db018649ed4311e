//! Applications that have to say who they are.

use super::world::World;
use crate::auth::{AuthMode, Credentials};
use crate::proxy::{Access, ProxyConfig};
use evenkeel_protocol::binary::{Command, Request};
use std::sync::Arc;

fn asking(mode: AuthMode, users: &'static str) -> impl Fn(&mut ProxyConfig) {
    move |config| {
        let credentials = Credentials::parse(users.as_bytes()).expect("sound");
        config.access = Access {
            mode,
            credentials: Some(Arc::new(credentials)),
        };
    }
}

const RIGHT: &str = "set auth 0 0 9\r\nme secret\r\n";
const WRONG: &str = "set auth 0 0 8\r\nme wrong\r\n";

#[test]
fn text_is_heard_from_who_is_known() {
    let mut world = World::memcached_with(1, asking(AuthMode::Text, "me:secret"));
    let client = world.client();
    world.send(client, format!("get a\r\n{WRONG}set auth 0 0 9\r\nme "));
    let refused = "CLIENT_ERROR unauthenticated\r\nCLIENT_ERROR authentication failure\r\n";
    assert_eq!(world.received(client), refused);
    world.send(client, "secret\r\nget a\r\n");
    assert_eq!(world.received(client), "STORED\r\n");
    assert_eq!(world.asked(101), "get a\r\n");
    // Once known, it sets a key of that name like any other.
    world.send(client, RIGHT);
    assert_eq!(world.asked(101), RIGHT);
    let stats = world.core.stats();
    assert_eq!((stats.auth_cmds, stats.auth_errors), (2, 1));
    let other = world.client();
    world.send(
        other,
        [binary(Command::Noop), b"\r\nget a\r\n".to_vec()].concat(),
    );
    let received = world.received_bytes(other);
    assert_ne!(received.first(), Some(&0x81), "there is no binary protocol");
    assert_eq!(world.asked(101), "");
    // What the file says now holds for whoever comes now.
    world.configure(asking(AuthMode::Text, "you:secret"));
    let late = world.client();
    world.send(late, RIGHT);
    assert_eq!(
        world.received(late),
        "CLIENT_ERROR authentication failure\r\n"
    );
}

fn binary(command: Command<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    Request::new(command).write(&mut out);
    out
}

fn sasl(is_step: bool, token: &'static [u8]) -> Vec<u8> {
    let mechanism = b"PLAIN";
    binary(Command::Sasl {
        is_step,
        mechanism,
        token,
    })
}

/// The statuses of the packets received.
fn statuses(bytes: &[u8]) -> Vec<u16> {
    use evenkeel_protocol::binary::{ReplyOutcome, parse_reply};
    let mut rest = bytes;
    let mut statuses = Vec::new();
    let limits = evenkeel_protocol::Limits::default();
    while let ReplyOutcome::Reply { reply, consumed } = parse_reply(rest, &limits) {
        statuses.push(reply.status);
        rest = &rest[consumed..];
    }
    statuses
}

#[test]
fn binary_is_heard_from_who_is_known() {
    let mut world = World::memcached_with(1, asking(AuthMode::Sasl, "me:secret"));
    let client = world.client();
    let get = || {
        let (key, with_key) = (b"a".as_slice(), false);
        binary(Command::Get { key, with_key })
    };
    let requests = [
        binary(Command::Version),
        binary(Command::SaslMechanisms),
        sasl(false, b"\0me\0wrong"),
        sasl(true, b"\0me\0secret"),
        sasl(false, b""),
        sasl(true, b"\0me\0secret"),
        get(),
    ];
    world.send(client, requests.concat());
    let expected = [0, 0, 0x20, 0x20, 0x21, 0];
    assert_eq!(statuses(&world.received_bytes(client)), expected);
    assert_eq!(world.asked(101), "gets a\r\n");
    let stats = world.core.stats();
    assert_eq!((stats.auth_cmds, stats.auth_errors), (3, 2));
    // Failing afterwards ends it.
    world.send(client, [sasl(false, b"\0me\0wrong"), get()].concat());
    world.reply(101, "END\r\n");
    let expected = [1, 0x20, 0x20];
    assert_eq!(statuses(&world.received_bytes(client)), expected);
    assert!(world.is_closed(client));
    assert_eq!(world.asked(101), "");
    let text = world.client();
    world.send(text, "get a\r\n");
    assert!(world.is_closed(text), "there is no text protocol");
    assert_eq!(world.received_bytes(text), b"");
}

/// A value is not waited for of somebody who is not known.
#[test]
fn the_header_of_what_is_not_to_be_heard_is_enough() {
    let mut world = World::memcached_with(1, asking(AuthMode::Sasl, "me:secret"));
    let client = world.client();
    let set = binary(Command::Store {
        mode: evenkeel_protocol::StoreMode::Set,
        key: b"a",
        flags: 0,
        exptime: 0,
        value: &[b'x'; 1000],
    });
    world.send(client, &set[..24]);
    assert_eq!(statuses(&world.received_bytes(client)), [0x20]);
    assert!(world.is_closed(client));
}
