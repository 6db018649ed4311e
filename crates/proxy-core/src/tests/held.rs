//! The places of a key in a pool of which one rack holds each item are those that its commands ask, and what they show is what stands there.

use super::routing::pool;
use super::world::{World, memcached};
use crate::*;
use evenkeel_protocol::{Limits, ReplyOutcome, parse_reply};
use evenkeel_schemes::generation::name_prefix;
use evenkeel_schemes::locality::topology::{Rack, Topology};
use evenkeel_schemes::mark;
use std::collections::BTreeMap;
use std::sync::Arc;

fn rack(name: &str) -> Rack {
    Rack {
        name: name.to_owned(),
        networks: Vec::new(),
        is_central: false,
    }
}

/// Two servers in each of the racks `a`, the own one, and `b`, with a directory or not. Items have names of a generation.
fn config(config: &mut ProxyConfig, by: HoldingBy) {
    config.pools[0].settings.name_prefix = name_prefix(9, 1);
    let mut other = pool("b", memcached([103, 104]));
    other.settings = config.pools[0].settings.clone();
    config.pools.push(other);
    config.pools.push(pool("notes", memcached([105, 106])));
    let topology = Topology::new(vec![rack("a"), rack("b")]).unwrap();
    let (own, other) = (topology.named("a").unwrap(), topology.named("b").unwrap());
    config.pools[0].holding = Some(Arc::new(Holding {
        copying: None,
        by,
        own,
        others: vec![(other, "b".into())],
    }));
    config.racks = Arc::new(Racks::new(topology, Some(own), BTreeMap::new()));
}

fn by_directory() -> World {
    World::memcached_with(2, |it| config(it, HoldingBy::Directory("notes".into())))
}

/// The port of a place, and the name of its item or note.
fn port_and_name(place: &HeldPlace) -> (u16, String) {
    let (_, port) = place.address.rsplit_once(':').unwrap();
    let question = String::from_utf8(place.question.clone()).unwrap();
    let name = question.split(' ').nth(1).unwrap();
    assert_eq!(question, format!("mg {name} v f t u\r\n"));
    (port.parse().unwrap(), name.to_owned())
}

/// A place is asked for this key, and answers.
fn answers(world: &mut World, place: &HeldPlace, miss: &str, reply: &str) {
    let (port, name) = port_and_name(place);
    let asked = world.asked(port);
    assert_eq!(
        asked.split(' ').nth(1).map(str::trim_end),
        Some(&*name),
        "{asked}"
    );
    let is_plain = asked.starts_with("get ");
    world.reply(port, if is_plain { miss } else { reply });
}

#[test]
fn the_places_of_a_key_are_those_that_its_commands_ask() {
    let mut world = by_directory();
    let client = world.client();
    let note = mark::note(rack("b").token());
    let note = format!(
        "VA 18 f{} c3\r\n{}\r\n",
        mark::FLAGS,
        String::from_utf8_lossy(&note)
    );
    for number in 0..12 {
        let key = format!("key{number}");
        let held = world.core.held_key("default", key.as_bytes()).unwrap();
        let [own, other, directory] = &held.places[..] else {
            panic!("{held:?}");
        };
        let racks = [own, other, directory].map(|place| place.rack.as_deref());
        assert_eq!(racks, [Some("a"), Some("b"), None]);
        world.send(client, format!("get {key}\r\n"));
        answers(&mut world, own, "END\r\n", "EN\r\n");
        answers(&mut world, directory, "", &note);
        answers(&mut world, other, "", "EN\r\n");
        assert_eq!(world.received(client), "END\r\n");
    }
}

#[test]
fn notes_of_racks_need_no_directory() {
    let world = World::memcached_with(2, |it| config(it, HoldingBy::Snoop));
    let held = world.core.held_key("default", b"k").unwrap();
    let racks = held.places.iter().map(|place| place.rack.as_deref());
    assert_eq!(racks.collect::<Vec<_>>(), [Some("a"), Some("b")]);
}

#[test]
fn what_has_no_places_is_refused() {
    let world = by_directory();
    let said = |pool: &str, key: &[u8]| {
        let held = world.core.held_key(pool, key);
        let words = held
            .err()
            .map(|words| String::from_utf8_lossy(words).into_owned());
        words.unwrap_or_default()
    };
    let no_pool = "CLIENT_ERROR no pool of this name has items that one rack holds\r\n";
    assert_eq!(said("none", b"k"), no_pool);
    assert_eq!(said("b", b"k"), no_pool);
    assert_eq!(
        said("default", b"two words"),
        "CLIENT_ERROR bad command line format\r\n"
    );
    assert_eq!(said("default", &[b'k'; 235]), "");
    assert!(said("default", &[b'k'; 236]).starts_with("CLIENT_ERROR key too long"));
}

#[test]
fn an_answer_shows_what_stands_there() {
    let world = by_directory();
    let held = world.core.held_key("default", b"k").unwrap();
    let stands = |reply: &str| match parse_reply(reply.as_bytes(), &Limits::default()) {
        ReplyOutcome::Reply { reply, .. } => held.stands(&reply),
        other => panic!("{reply:?}: {other:?}"),
    };
    let marked = |value: &[u8]| {
        let value = String::from_utf8_lossy(value);
        stands(&format!(
            "VA {} f{} t-1\r\n{value}\r\n",
            value.len(),
            mark::FLAGS
        ))
    };
    let item = |flags, ttl_s| Stands::Item {
        value_bytes: 3,
        flags,
        ttl_s,
    };
    let note = |rack: Option<&str>| Stands::Note {
        leads_to: rack.map(str::to_owned),
    };
    let unasked = |why: &str| Stands::Unasked {
        why: why.to_owned(),
    };
    assert_eq!(stands("EN\r\n"), Stands::Nothing);
    assert_eq!(stands("VA 3 f7 t60\r\nabc\r\n"), item(7, Some(60)));
    assert_eq!(stands("VA 3 f0 t-1\r\nabc\r\n"), item(0, None));
    assert_eq!(marked(&mark::lock(1)), Stands::Lock);
    assert_eq!(marked(&mark::placeholder(1)), Stands::Placeholder);
    assert_eq!(marked(&mark::note(rack("a").token())), note(Some("a")));
    assert_eq!(marked(&mark::note(rack("c").token())), note(None));
    assert_eq!(marked(b"2n0000000000000007"), Stands::UnknownMark);
    assert_eq!(marked(b""), Stands::UnknownMark);
    assert_eq!(stands("ERROR\r\n"), unasked("it has no meta commands"));
    assert_eq!(stands("HD\r\n"), unasked("the answer has no value"));
    assert_eq!(
        stands("CLIENT_ERROR unauthenticated\r\n"),
        unasked("CLIENT_ERROR unauthenticated")
    );
}
