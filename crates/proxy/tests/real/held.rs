//! Items that one of three racks holds, over real processes: where they stand, who reads them, and what moves them.

use crate::patience::PATIENCE;
use evenkeel_testkit::racks::{Architecture, Racks, RacksOptions};
use evenkeel_testkit::{Client, Memcached, Signal};

const RACKS: [&str; 3] = ["a", "b", "c"];

/// The client flags of our marks.
const MARK: u32 = 0x4556_4B4C;

struct World {
    racks: Racks,
    /// In each rack.
    clients: Vec<Client>,
}

impl World {
    fn new(architecture: Architecture) -> Self {
        let racks = Racks::start(&RacksOptions {
            architecture,
            ..RacksOptions::default()
        });
        let clients = (0..RACKS.len()).map(|rack| Client::connect(racks.address(rack)));
        World {
            clients: clients.collect(),
            racks,
        }
    }

    /// The rack that holds a key, as its servers show it; there is one at most.
    fn holder(&self, key: &str) -> Option<usize> {
        let holds = |at: &usize| {
            let found = self.racks.servers[*at].client().get(key);
            found.is_some_and(|value| value.flags != MARK)
        };
        let holders: Vec<usize> = (0..RACKS.len()).filter(holds).collect();
        assert!(holders.len() < 2, "{key} is in {holders:?}");
        holders.first().copied()
    }

    fn count(&self, at: usize, name: &str) -> u64 {
        let stats = Client::connect(self.racks.address(at)).stats("proxy");
        stats[name].parse().expect("a number")
    }

    /// All racks read the same.
    fn all_read(&mut self, key: &str, expected: Option<&[u8]>) {
        for (rack, client) in RACKS.iter().zip(&mut self.clients) {
            let value = client.get(key).map(|value| value.data);
            assert_eq!(value.as_deref(), expected, "{key} in {rack}");
        }
    }
}

fn end(server: &mut Memcached) {
    server.process().signal(Signal::Kill);
    server.process().wait(PATIENCE);
}

fn commands_of_all_kinds_from_all_racks(by: Architecture) {
    let mut world = World::new(by);
    let w = &mut world;
    // The rack that writes a key holds it.
    for writer in 0..RACKS.len() {
        assert_eq!(w.clients[writer].set_with("k", 7, 0, b"x"), "STORED");
        assert_eq!(w.holder("k"), Some(writer));
        w.all_read("k", Some(b"x"));
    }
    // What it changes elsewhere stays there.
    assert_eq!(w.clients[0].set("n", b"5"), "STORED");
    assert_eq!(w.clients[1].incr("n", 2), "7");
    assert_eq!(w.clients[2].command("append n 0 0 1\r\n1"), "STORED");
    assert_eq!(w.clients[1].command("touch n 100"), "TOUCHED");
    assert_eq!(w.clients[2].meta("mg n v t").status, "VA");
    assert_eq!(w.holder("n"), Some(0));
    w.all_read("n", Some(b"71"));
    assert_eq!(w.clients[1].command("add n 0 0 1\r\n9"), "NOT_STORED");
    assert_eq!(w.clients[2].command("add m 0 0 1\r\n9"), "STORED");
    assert_eq!(w.holder("m"), Some(2));
    w.all_read("m", Some(b"9"));
    // A unique is that of a rack.
    let seen = w.clients[1].gets("n").expect("it is there");
    let unique = seen.cas.expect("it was asked for");
    let line = format!("cas n 0 0 1 {unique}\r\n8");
    assert_eq!(w.clients[2].command(&line), "STORED");
    assert_eq!(w.clients[1].command(&line), "EXISTS");
    assert_eq!(w.clients[1].set("n", b"8"), "STORED");
    assert_eq!(w.holder("n"), Some(1));
    assert_eq!(w.clients[0].command(&line), "EXISTS", "it has moved");
    // Several keys, from where they are.
    let values = w.clients[0].get_many(&["k", "none", "m", "n"]);
    let values: Vec<_> = values.iter().map(|it| (&*it.key, &*it.data)).collect();
    let expected: [(&str, &[u8]); 3] = [("k", b"x"), ("m", b"9"), ("n", b"8")];
    assert_eq!(values, expected);
    // Deleted anywhere it is gone everywhere.
    for (key, deleter) in [("k", 0), ("m", 1), ("n", 2)] {
        assert_eq!(w.clients[deleter].delete(key), "DELETED");
        w.all_read(key, None);
        assert_eq!(w.clients[deleter].delete(key), "NOT_FOUND");
    }
    assert_eq!(w.clients[0].set("f", b"1"), "STORED");
    assert_eq!(w.clients[1].command("flush_all"), "OK");
    w.all_read("f", None);
    let of_all = |name: &str| (0..RACKS.len()).map(|at| w.count(at, name)).sum::<u64>();
    assert!(of_all("crossing_hits") > 0 && of_all("crossings") > of_all("crossing_hits"));
    assert_eq!(of_all("crossings_busy"), 0);
}

#[test]
fn by_notes_an_item_is_where_it_was_written_last_and_all_racks_see_it() {
    commands_of_all_kinds_from_all_racks(Architecture::Snoop);
}

#[test]
fn by_a_directory_an_item_is_where_it_was_written_last_and_all_racks_see_it() {
    commands_of_all_kinds_from_all_racks(Architecture::Dir);
}

#[test]
fn what_the_own_rack_holds_is_served_and_written_while_the_others_are_away() {
    for by in [Architecture::Snoop, Architecture::Dir] {
        let mut world = World::new(by);
        assert_eq!(world.clients[0].set("k", b"x"), "STORED");
        assert_eq!(world.clients[1].set("l", b"y"), "STORED");
        for server in &mut world.racks.servers[1..] {
            end(server);
        }
        world.racks.directory.iter_mut().for_each(end);
        let client = &mut world.clients[0];
        assert_eq!(client.get("k").expect("it is here").data, b"x");
        assert_eq!(client.set("k", b"z"), "STORED");
        assert_eq!(
            client.incr("k", 1),
            "CLIENT_ERROR cannot increment or decrement non-numeric value"
        );
        assert_eq!(client.get("k").expect("it is here").data, b"z");
        assert!(client.get("l").is_none(), "on_down is a miss");
        let said = client.set("l", b"z");
        assert!(said.starts_with("SERVER_ERROR backend "), "{said}");
        assert_eq!(client.delete("k"), "DELETED");
    }
}
