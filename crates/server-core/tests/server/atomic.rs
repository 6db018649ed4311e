//! Atomic writes: answers that wait until no other copy can be read.

use crate::harness::{Client, Cluster, Server, at, config};
use evenkeel_types::promise::Consistency;

const HELLO: &str = "evenkeel 1 epoch=1\r\n";

/// Past the time in which the first map makes everybody wait.
const START_MS: u64 = 2000;

/// Three servers of two workers, the first of which is the home of all keys of a server, with a key of the
/// first server that has just become hot.
struct Story {
    cluster: Cluster,
    key: String,
    /// An agreed connection to the home.
    aware: Client,
    ms: u64,
}

impl Story {
    fn new() -> Self {
        let mut config = config(2, true);
        config.hot_keys.consistency = Consistency::Atomic;
        let mut cluster = Cluster::with(3, &config);
        cluster.tick(at(START_MS));
        let key = (0..)
            .map(|i| format!("key{i}"))
            .find(|key| cluster.home(key.as_bytes()) == 0)
            .expect("one");
        let mut aware = Client::open(&mut cluster.servers[0], 0);
        aware.ask(&mut cluster.servers[0], at(START_MS), HELLO);
        let mut story = Story {
            cluster,
            key,
            aware,
            ms: START_MS,
        };
        assert_eq!(story.ask("ms {} 2 Y1\r\nv1\r\n"), "HD\r\n");
        story.heat("VA 2 G2\r\nv1\r\n");
        story
    }

    /// Reads the key until it is hot.
    fn heat(&mut self, expected: &str) {
        let mut answer = String::new();
        for _ in 0..12 {
            for _ in 0..200 {
                answer = self.ask("mg {} v Y1\r\n");
            }
            self.ms += 250;
            self.cluster.tick(at(self.ms));
        }
        assert_eq!(answer, expected);
    }

    fn home(&mut self) -> &mut Server {
        &mut self.cluster.servers[0]
    }

    fn say(&self, text: &str) -> String {
        text.replace("{}", &self.key)
    }

    /// Asks the home, and reads what it answers at once.
    fn ask(&mut self, text: &str) -> String {
        let text = self.say(text);
        let now = at(self.ms);
        self.aware.ask(&mut self.cluster.servers[0], now, text)
    }

    fn ask_as(&mut self, client: &mut Client, text: &str) -> String {
        let text = self.say(text);
        let now = at(self.ms);
        client.ask(self.home(), now, text)
    }

    fn answers(&mut self) -> String {
        self.aware
            .answers(&mut self.cluster.servers[0], at(self.ms))
    }

    fn answers_to(&mut self, client: &mut Client) -> String {
        let now = at(self.ms);
        client.answers(self.home(), now)
    }

    /// What the copy at another server is.
    fn replica(&mut self, server: usize) -> String {
        let (now, text) = (at(self.ms), self.say("mg {} v G\r\n"));
        let server = &mut self.cluster.servers[server];
        let mut client = Client::open(server, 0);
        client.ask(server, now, HELLO);
        client.ask(server, now, text)
    }

    /// Carries what servers say to each other.
    fn pump(&mut self) {
        self.cluster.pump(at(self.ms));
    }

    fn count(&mut self, name: &str) -> String {
        let mut client = Client::open(self.home(), 0);
        let stats = self.ask_as(&mut client, "stats evenkeel\r\n");
        let line = format!("STAT {name} ");
        let found = stats.lines().find_map(|l| l.strip_prefix(&line));
        found.unwrap_or_else(|| panic!("no {name}")).to_owned()
    }
}

#[test]
fn a_write_and_all_that_would_tell_of_it_are_answered_when_no_copy_can_be_read() {
    let mut story = Story::new();
    story.cluster.cut = vec![1, 2];
    assert_eq!(story.ask("ms {} 2 Y1\r\nv2\r\n"), "");
    // In the order asked, also what is about other keys; no matter who asks, and whatever comes of it.
    assert_eq!(story.ask("mg {} v Y1\r\nmn\r\n"), "");
    let mut plain = Client::open(story.home(), 0);
    let asked = "set other 0 0 1\r\nx\r\nget other\r\nget {} other\r\nadd {} 0 0 1\r\nx\r\n";
    let at_once = "STORED\r\nVALUE other 0 1\r\nx\r\nEND\r\n";
    assert_eq!(story.ask_as(&mut plain, asked), at_once);
    // By way of another worker.
    let mut far = Client::open(story.home(), 1);
    let asked = "get {} other\r\nincr {} 1\r\nget other\r\n";
    assert_eq!(story.ask_as(&mut far, asked), "");
    let mut binary = Client::open(story.home(), 0);
    let (key, now) = (story.key.clone(), at(story.ms));
    let mut get = vec![0x80, 0, 0, key.len() as u8];
    get.extend_from_slice(&[0; 7]);
    get.push(key.len() as u8);
    get.extend_from_slice(&[0; 12]);
    get.extend_from_slice(key.as_bytes());
    assert_eq!(binary.ask_bytes(story.home(), now, &get), b"");

    // One has confirmed, and serves nothing; the other does not answer and goes on.
    story.cluster.cut = vec![2];
    story.pump();
    assert_eq!(story.replica(1), "EN\r\n");
    assert_eq!(story.replica(2), "VA 2\r\nv1\r\n");
    assert_eq!(story.answers(), "");

    story.cluster.cut.clear();
    story.pump();
    assert_eq!(story.answers(), "HD\r\nVA 2\r\nv2\r\nMN\r\n");
    let key = story.key.clone();
    let other = "VALUE other 0 1\r\nx\r\n";
    let expected = format!("VALUE {key} 0 2\r\nv2\r\n{other}END\r\nNOT_STORED\r\n");
    assert_eq!(story.answers_to(&mut plain), expected);
    let refused = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    let expected = format!("VALUE {key} 0 2\r\nv2\r\n{other}END\r\n{refused}{other}END\r\n");
    assert_eq!(story.answers_to(&mut far), expected);
    assert!(binary.ask_bytes(story.home(), now, b"").ends_with(b"v2"));
    // And the new value has gone to all.
    assert_eq!(story.replica(1), "VA 2\r\nv2\r\n");
    assert_eq!(story.replica(2), "VA 2\r\nv2\r\n");
    assert_eq!(story.ask("mg {} v Y1\r\n"), "VA 2 G2\r\nv2\r\n");
    assert_eq!(story.count("holds_confirmed"), "1");
    assert_eq!(story.count("answers_held"), "7");
}

#[test]
fn a_shadow_server_that_is_dead_makes_a_writer_wait_for_one_lease() {
    let mut story = Story::new();
    story.cluster.cut = vec![2];
    assert_eq!(story.ask("mg {} v Y1\r\n"), "VA 2 G2\r\nv1\r\n");
    assert_eq!(story.ask("md {} Y1\r\n"), "");
    story.pump();
    let granted = story.ms;
    for _ in 0..20 {
        assert_eq!(
            story.answers(),
            "",
            "{} ms after the lease",
            story.ms - granted
        );
        story.ms += 50;
        story.cluster.tick(at(story.ms));
    }
    story.ms += 50;
    story.cluster.tick(at(story.ms));
    let deleted = story.answers();
    assert!(
        deleted.starts_with("HD V"),
        "how new the miss is: {deleted}"
    );
    assert_eq!(story.count("holds_by_lease"), "1");
    assert_eq!(story.count("holds_longer"), "1");
    assert_eq!(story.ask("ms {} 2 Y1\r\nv2\r\n"), "HD\r\n");
}

#[test]
fn what_expired_is_a_miss_when_no_copy_can_be_read() {
    let mut story = Story::new();
    assert_eq!(story.ask("mg {} T3 Y1\r\n"), "");
    story.pump();
    assert_eq!(story.answers(), "HD\r\n");
    story.heat("VA 2 G2\r\nv1\r\n");
    story.ms += 250;
    story.cluster.cut = vec![1];
    let miss = story.ask("mg {} v Y1\r\n");
    assert_eq!(miss, "", "a lease may last longer than the item");
    story.cluster.cut.clear();
    story.pump();
    let miss = story.answers();
    assert!(miss.starts_with("EN V"), "{miss}");
}

#[test]
fn a_flush_is_answered_when_no_copy_can_be_read() {
    for worker in [0, 1] {
        let mut story = Story::new();
        let mut client = Client::open(story.home(), worker);
        story.cluster.cut = vec![1];
        let asked = "flush_all\r\nset {} 0 0 2\r\nv2\r\nget {}\r\n";
        assert_eq!(story.ask_as(&mut client, asked), "");
        assert_eq!(story.ask("mg {} v Y1\r\n"), "");
        story.cluster.cut.clear();
        story.pump();
        let key = story.key.clone();
        let expected = format!("OK\r\nSTORED\r\nVALUE {key} 0 2\r\nv2\r\nEND\r\n");
        assert_eq!(story.answers_to(&mut client), expected);
        assert_eq!(story.answers(), "VA 2\r\nv2\r\n");
    }
    let mut story = Story::new();
    assert_eq!(story.ask("flush_all\r\n"), "", "of an agreed client, too");
    story.pump();
    assert_eq!(story.answers(), "OK\r\n");
}

#[test]
fn a_client_that_has_gone_is_not_waited_for() {
    let mut story = Story::new();
    let mut gone = Client::open(story.home(), 0);
    assert_eq!(story.ask_as(&mut gone, "set {} 0 0 2\r\nv2\r\n"), "");
    story.home().workers[0].close(gone.id);
    let mut next = Client::open(story.home(), 0);
    assert_eq!(next.id.slot, gone.id.slot);
    story.pump();
    assert_eq!(story.answers_to(&mut next), "");
    assert_eq!(story.ask("mg {} v Y1\r\n"), "VA 2 G2\r\nv2\r\n");
}

#[test]
fn a_server_that_was_just_given_a_key_waits_for_the_leases_of_its_former_home() {
    let mut config = config(1, true);
    config.hot_keys.consistency = Consistency::Atomic;
    let mut cluster = Cluster::with(1, &config);
    let server = &mut cluster.servers[0];
    let mut client = Client::open(server, 0);
    assert_eq!(
        client.ask(server, at(0), "get a\r\nset a 0 0 1\r\nx\r\n"),
        ""
    );
    cluster.tick(at(1049));
    assert_eq!(client.answers(&mut cluster.servers[0], at(1049)), "");
    cluster.tick(at(1050));
    let server = &mut cluster.servers[0];
    assert_eq!(client.answers(server, at(1050)), "END\r\nSTORED\r\n");
    assert_eq!(
        client.ask(server, at(1050), "get a\r\n"),
        "VALUE a 0 1\r\nx\r\nEND\r\n"
    );
}
