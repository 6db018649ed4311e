//! Leases: reads of hot keys go to replicas, and no application sees anything but the truth it was
//! promised.

use super::collapse::ask_in_one_turn;
use super::world::{World, key_of};

/// A world of three servers where the proxy holds a lease of a key whose home is server 1, and the next
/// read goes to the only replica.
struct Leased {
    world: World,
    client: crate::proxy::ClientId,
    key: String,
    cachelet: u16,
    shadow: u16,
}

const SERVERS: u16 = 3;

fn get(key: &str, cachelet: u16) -> String {
    format!("mg {key} v f c A Y1 U{cachelet}\r\n")
}

impl Leased {
    fn new() -> Self {
        Leased::of(World::evenkeel(SERVERS))
    }

    fn of(mut world: World) -> Self {
        let (key, cachelet) = key_of(1, SERVERS);
        let client = world.client();
        world.send(client, format!("get {key}\r\n"));
        world.reply(101, "VA 1 f0 c10 G1\r\na\r\n");
        assert_eq!(world.core.stats().proxy_leases, 1);
        let mut leased = Leased {
            world,
            client,
            key,
            cachelet,
            shadow: 0,
        };
        let expected = leased.value("a");
        assert_eq!(leased.world.received(client), expected);
        leased.world.asked(101);
        // Home and replica take turns, beginning with either.
        while leased.shadow == 0 || leased.world.asked(101).is_empty() {
            let other = leased.world.client();
            leased.world.send(other, format!("get {}\r\n", leased.key));
            let asked = |port: &u16| !leased.world.asked(*port).is_empty();
            match (102..=103).find(asked) {
                Some(shadow) => {
                    leased.shadow = shadow;
                    leased.world.reply(shadow, "VA 1 f0 c10\r\na\r\n");
                }
                None => leased.world.reply(101, "VA 1 f0 c10 G1\r\na\r\n"),
            }
        }
        leased
    }

    fn send_get(&mut self) {
        self.world
            .send(self.client, format!("get {}\r\n", self.key));
    }

    fn replica_question(&self) -> String {
        format!("mg {} v f c A Y1 U{} G\r\n", self.key, self.cachelet)
    }

    fn value(&self, value: &str) -> String {
        format!("VALUE {} 0 1\r\n{value}\r\nEND\r\n", self.key)
    }

    fn asked_home(&mut self) -> bool {
        self.told_home().is_some()
    }

    /// How many reads that went elsewhere the home was told of with a read, if it was asked.
    fn told_home(&mut self) -> Option<u64> {
        let asked = self.world.asked(101);
        if asked.is_empty() {
            return None;
        }
        let plain = get(&self.key, self.cachelet);
        let told = asked.strip_prefix(plain.trim_end()).expect(&asked);
        let count = told.trim_end().strip_prefix(" H");
        Some(count.map_or(0, |count| count.parse().expect("a number")))
    }

    fn asked_shadow(&mut self) -> bool {
        let asked = self.world.asked(self.shadow);
        assert!(
            asked.is_empty() || asked == self.replica_question(),
            "{asked}"
        );
        !asked.is_empty()
    }
}

#[test]
fn reads_of_all_connections_take_turns_until_the_lease_ends() {
    for collapse in [true, false] {
        take_turns(Leased::of(World::evenkeel_with(SERVERS, |config| {
            config.pools[0].settings.collapse = collapse;
        })));
    }
}

fn take_turns(mut story: Leased) {
    for round in 0..3 {
        story.send_get();
        assert!(story.asked_shadow() && !story.asked_home());
        story.world.reply(story.shadow, "VA 1 f0 c10\r\na\r\n");
        let other = story.world.client();
        story.world.send(other, format!("get {}\r\n", story.key));
        assert_eq!(story.told_home(), Some(1), "the home is told of it, once");
        assert!(!story.asked_shadow());
        // The first answer prolongs the lease, which is 950 ms long with its margin.
        let gamma = if round == 0 { " G1" } else { "" };
        story
            .world
            .reply(101, format!("VA 1 f0 c10{gamma}\r\na\r\n"));
        story.world.wait_ms(300);
    }
    assert_eq!(story.world.core.stats().proxy_leases, 1);
    story.world.wait_ms(100);
    story.send_get();
    assert_eq!(story.told_home(), Some(0));
    assert!(!story.asked_shadow());
}

/// An application's `mg` shares no answer, and tells of others all the same.
#[test]
fn every_read_at_home_tells_how_many_went_to_replicas_since_the_last() {
    let mut story = Leased::new();
    let mg = format!("mg {} v\r\n", story.key);
    for _ in 0..2 {
        story.world.send(story.client, &mg);
        assert!(story.world.asked(story.shadow).starts_with("mg "));
        story.world.send(story.client, &mg);
        let asked = story.world.asked(101);
        assert!(asked.ends_with(" H1\r\n"), "{asked}");
    }
}

#[test]
fn a_copy_that_is_behind_what_any_connection_was_shown_before_is_not_believed() {
    let mut story = Leased::new();
    let other = story.world.client();
    story.send_get();
    story.world.send(other, format!("get {}\r\n", story.key));
    assert!(story.asked_shadow() && story.asked_home());
    story.world.reply(101, "VA 1 f0 c11\r\nb\r\n");
    let new = story.value("b");
    assert_eq!(story.world.received(other), new);
    // They read at the same time.
    story.world.reply(story.shadow, "VA 1 f0 c10\r\na\r\n");
    let old = story.value("a");
    assert_eq!(story.world.received(story.client), old);
    story.send_get();
    while !story.asked_shadow() {
        assert!(story.asked_home());
        story.world.reply(101, "VA 1 f0 c11\r\nb\r\n");
        assert_eq!(story.world.received(story.client), new);
        story.send_get();
    }
    story.world.reply(story.shadow, "VA 1 f0 c10\r\na\r\n");
    assert_eq!(story.world.received(story.client), new, "it was kept");
    assert!(!story.asked_home());
    // In the words of whoever asks, and behind what its turn comes after.
    let (key, client) = (story.key.clone(), story.client);
    let line = format!("mg {key} v s k O7\r\n");
    story.world.send(client, [&line[..], &line[..]].concat());
    assert!(!story.world.asked(101).is_empty() && !story.world.asked(story.shadow).is_empty());
    story
        .world
        .reply(story.shadow, format!("VA 1 s1 k{key} O7 c10\r\na\r\n"));
    story
        .world
        .reply(101, format!("VA 1 s1 k{key} O7 c11\r\nb\r\n"));
    let expected = format!("VA 1 s1 k{key} O7\r\nb\r\n").repeat(2);
    assert_eq!(story.world.received(client), expected);
    let stats = story.world.core.stats();
    assert_eq!(
        (stats.proxy_reads_kept, stats.proxy_reads_asked_again),
        (2, 0)
    );
}

#[test]
fn a_deleted_value_is_not_shown_because_a_copy_still_has_it() {
    let mut story = Leased::new();
    let other = story.world.client();
    // The home's turn is next, then the copy's.
    story.send_get();
    assert!(story.asked_shadow());
    story.world.reply(story.shadow, "VA 1 f0 c10\r\na\r\n");
    story.world.send(other, format!("get {}\r\n", story.key));
    assert!(story.asked_home());
    story.world.reply(101, "EN V12\r\n");
    assert_eq!(story.world.received(other), "END\r\n");
    _ = story.world.received(story.client);
    story.send_get();
    assert!(story.asked_shadow());
    story.world.reply(story.shadow, "VA 1 f0 c10\r\na\r\n");
    assert_eq!(story.world.received(story.client), "END\r\n");
    assert!(!story.asked_home());
}

#[test]
fn who_has_written_may_ask_any_copy_and_is_shown_what_he_wrote() {
    let stored = ("HD c11", "VA 1 f7 c11\r\nb", "VALUE K 7 1\r\nb\r\nEND");
    let removed = ("HD V11", "EN V11", "END");
    for (write, (answer, at_home, expected)) in [
        ("set K 7 0 1\r\nb", stored),
        ("set K 7 0 1 noreply\r\nb", stored),
        ("ms K 1 F7\r\nb", stored),
        ("delete K", removed),
    ] {
        let mut story = Leased::new();
        let [write, expected] =
            [write, expected].map(|line| line.replace('K', &story.key) + "\r\n");
        let (key, client) = (story.key.clone(), story.client);
        let get = format!("get {key}\r\n");
        story.world.send(client, format!("{write}{get}"));
        let asked = story.world.asked(101);
        if answer.contains('c') {
            assert!(
                asked.contains(" c Y1 "),
                "the version is asked for: {asked}"
            );
        }
        assert!(story.asked_shadow(), "before the write is answered");
        story.world.reply(story.shadow, "VA 1 f0 c10\r\na\r\n");
        assert_eq!(story.world.received(client), "", "not its turn");
        story.world.reply(101, format!("{answer}\r\n"));
        let received = story.world.received(client);
        assert!(received.ends_with(&expected), "{write}: {received}");
        let mut shadows = 0;
        for _ in 0..2 {
            story.send_get();
            match story.asked_shadow() {
                true => story.world.reply(story.shadow, "VA 1 f0 c10\r\na\r\n"),
                false => story.world.reply(101, format!("{at_home}\r\n")),
            }
            shadows += u8::from(!story.asked_home());
            assert_eq!(story.world.received(client), expected);
        }
        assert!(shadows > 0);
        let stats = story.world.core.stats();
        assert_eq!(stats.proxy_reads_behind_writes, 0);
    }
}

#[test]
fn what_a_copy_answers_behind_a_write_that_fails_is_not_believed() {
    let mut story = Leased::new();
    let (key, client) = (story.key.clone(), story.client);
    story
        .world
        .send(client, format!("set {key} 0 0 1\r\nb\r\nget {key}\r\n"));
    assert!(story.asked_shadow());
    story.world.asked(101);
    story.world.reply(story.shadow, "VA 1 f0 c10\r\na\r\n");
    let full = "SERVER_ERROR out of memory storing object\r\n";
    story.world.reply(101, full);
    assert_eq!(story.world.received(client), full);
    assert!(story.asked_home());
    story.world.reply(101, "EN V12\r\n");
    assert_eq!(story.world.received(client), "END\r\n");
}

#[test]
fn a_write_is_sent_when_the_reads_before_it_have_been_shown() {
    for (write, answer, shown) in [
        ("set K 0 0 1\r\nb", "HD c11", "STORED"),
        ("delete K", "HD V11", "DELETED"),
        ("incr K 1", "VA 1\r\n1", "1"),
        ("mg K N30 v", "VA 1\r\na", "VA 1\r\na"),
    ] {
        let mut story = Leased::new();
        let (key, client) = (story.key.clone(), story.client);
        let get = format!("get {key}\r\n");
        let write = write.replace('K', &key) + "\r\n";
        story
            .world
            .send(client, format!("{get}{get}{write}version\r\n"));
        assert!(story.asked_shadow() && story.asked_home(), "both reads");
        story.world.reply(101, "VA 1 f0 c10\r\na\r\n");
        assert_eq!(story.world.asked(101), "", "{write}");
        story.world.reply(story.shadow, "VA 1 f0 c10\r\na\r\n");
        story.world.wait_ms(0);
        let value = story.value("a");
        assert_eq!(story.world.received(client), value.repeat(2), "{write}");
        let asked = story.world.asked(101);
        assert_eq!(asked.matches(&key).count(), 1, "{asked}");
        story.world.reply(101, format!("{answer}\r\n"));
        let received = story.world.received(client);
        assert!(
            received.starts_with(&format!("{shown}\r\nVERSION ")),
            "{received}"
        );
        let stats = story.world.core.stats();
        let counts = (stats.proxy_writes_behind_reads, stats.proxy_requests_parked);
        assert_eq!(counts, (1, 0));
    }
}

#[test]
fn gets_of_one_key_that_wait_to_be_sent_become_one_and_each_is_judged_by_itself() {
    let mut world = World::evenkeel(2);
    let (key, cachelet) = key_of(1, 2);
    let clients = [(); 3].map(|()| world.client());
    let get = format!("get {key}\r\n");
    // A write of the key in between, and what is asked behind it.
    let set = format!("set {key} 0 0 1\r\nb\r\n{get}");
    let [a, b, c] = clients;
    ask_in_one_turn(&mut world, &[(a, &get), (b, &get), (c, &get), (a, &set)]);
    world.close(c);
    let line = self::get(&key, cachelet);
    // The next read tells how many have joined.
    let counting = format!("{} H2\r\n", line.trim_end());
    let asked = world.asked(101);
    assert_eq!(asked.matches("mg ").count(), 2, "{asked}");
    assert!(
        asked.starts_with(&line) && asked.ends_with(&counting),
        "{asked}"
    );
    world.reply(101, "VA 1 f0 c10\r\na\r\nHD\r\nVA 1 f0 c11\r\nb\r\n");
    let value = |value| format!("VALUE {key} 0 1\r\n{value}\r\nEND\r\n");
    let expected = value("a") + "STORED\r\n" + &value("b");
    assert_eq!(world.received(clients[0]), expected);
    assert_eq!(world.received(clients[1]), value("a"));
    assert_eq!(world.core.stats().proxy_gets_collapsed, 2);
}

#[test]
fn a_server_is_told_once_of_each_read_that_has_joined_another_and_reads_that_tell_are_joined_too() {
    let mut world = World::evenkeel(2);
    let (key, cachelet) = key_of(1, 2);
    let clients = [(); 4].map(|()| world.client());
    let get = format!("get {key}\r\n");
    let mut told = Vec::new();
    for _ in 0..3 {
        ask_in_one_turn(&mut world, &clients.map(|client| (client, &get[..])));
        told.push(world.asked(101));
        world.reply(101, "VA 1 f0 c10\r\na\r\n");
        for client in clients {
            assert!(world.received(client).ends_with("END\r\n"));
        }
    }
    let line = self::get(&key, cachelet);
    let counting = format!("{} H3\r\n", line.trim_end());
    assert_eq!(told, [line, counting.clone(), counting]);
}

#[test]
fn those_who_joined_a_read_that_has_moved_are_each_asked_again() {
    let mut world = World::evenkeel(2);
    let (key, _) = key_of(1, 2);
    let clients = [(); 2].map(|()| world.client());
    let get = format!("get {key}\r\n");
    ask_in_one_turn(&mut world, &clients.map(|client| (client, &get[..])));
    world.reply(101, "MOVED 2 2 0\r\n");
    let asked = world.asked(102);
    let count = asked.matches("mg ").count();
    world.reply(102, "VA 1 f0 c10\r\na\r\n".repeat(count));
    for client in clients {
        let expected = format!("VALUE {key} 0 1\r\na\r\nEND\r\n");
        assert_eq!(world.received(client), expected);
    }
}

#[test]
fn a_connection_that_closes_leaves_nothing_of_its_reads() {
    let mut story = Leased::new();
    story.send_get();
    story.send_get();
    story.world.close(story.client);
    story.world.wait_ms(960);
    let other = story.world.client();
    story.world.send(other, format!("get {}\r\n", story.key));
    let mut pools = story.world.core.pools.iter();
    assert!(pools.all(|(_, pool)| pool.leases.is_empty()));
}

#[test]
fn what_a_replica_cannot_know_is_asked_at_the_home() {
    let mut story = Leased::new();
    let (key, client) = (story.key.clone(), story.client);
    for command in [
        "mg K t",
        "mg K h",
        "mg K l v",
        "mg K T9 v",
        "gat 9 K",
        "me K",
    ] {
        story
            .world
            .send(client, command.replace('K', &key) + "\r\n");
        assert_eq!(story.world.asked(story.shadow), "", "{command}");
        assert_ne!(story.world.asked(101), "", "{command}");
    }
    let mut story = Leased::new();
    story.world.send(
        story.client,
        format!("mg {} v f k s Oab q c\r\n", story.key),
    );
    assert_ne!(story.world.asked(story.shadow), "");
}

#[test]
fn the_own_write_ends_the_lease() {
    for write in [
        "incr K 1",
        "ma K q",
        "md K q",
        "append K 0 0 1\r\nb",
        "touch K 5",
        "gat 9 K",
        "mg K N30 v",
    ] {
        let mut story = Leased::new();
        let write = write.replace('K', &story.key) + "\r\n";
        story
            .world
            .send(story.client, write + &format!("get {}\r\n", story.key));
        assert_eq!(story.world.asked(story.shadow), "");
        assert!(
            story
                .world
                .asked(101)
                .ends_with(&get(&story.key, story.cachelet))
        );
    }
}

#[test]
fn a_grant_in_an_answer_to_a_read_before_a_write_counts_for_nothing_for_the_writer() {
    let mut world = World::evenkeel(4);
    let (key, cachelet) = key_of(1, 4);
    for round in 0..4 {
        let [reader, writer] = [(); 2].map(|()| world.client());
        world.send(reader, format!("get {key}\r\n"));
        world.send(writer, format!("delete {key}\r\n"));
        world.reply(101, "VA 1 f0 c10 G3\r\na\r\n");
        world.reply(101, "HD\r\n");
        world.asked(101);
        assert_eq!(world.core.stats().proxy_leases, round + 1);
        let before = world.core.stats().proxy_replica_reads;
        for _ in 0..4 {
            world.send(writer, format!("get {key}\r\n"));
            assert!(world.asked(101).ends_with(&get(&key, cachelet)));
            world.reply(101, "EN\r\n");
        }
        assert_eq!(world.core.stats().proxy_replica_reads, before);
        world.wait_ms(1000);
    }
}

#[test]
fn a_grant_counts_for_nothing_for_whose_write_before_the_read_was_sent_on_to_another_server() {
    let mut world = World::evenkeel(4);
    let (key, _) = key_of(1, 4);
    let [reader, writer] = [(); 2].map(|()| world.client());
    world.send(writer, format!("delete {key}\r\n"));
    world.send(reader, format!("get {key}\r\n"));
    world.reply(101, "MOVED 2 2 0\r\n");
    assert!(world.asked(102).starts_with("md "));
    world.reply(101, "VA 1 f0 c10 G3\r\na\r\n");
    world.reply(102, "HD\r\n");
    assert_eq!(world.core.stats().proxy_leases, 1);
    (0..4).for_each(|_| world.send(writer, format!("get {key}\r\n")));
    assert_eq!(world.core.stats().proxy_replica_reads, 0);
}

#[test]
fn a_replica_that_is_gone_sends_the_reader_home_and_ends_the_lease() {
    let mut story = Leased::new();
    story.send_get();
    assert!(story.asked_shadow());
    story.world.reply(story.shadow, "EN\r\n");
    assert_eq!(story.world.received(story.client), "");
    assert!(story.asked_home());
    story.world.reply(101, "VA 1 f0 c11\r\nb\r\n");
    let expected = story.value("b");
    assert_eq!(story.world.received(story.client), expected);
    story.send_get();
    assert!(story.asked_home() && !story.asked_shadow());
}

#[test]
fn a_shadow_server_that_dies_is_no_miss_and_no_error() {
    let mut story = Leased::new();
    let key = story.key.clone();
    story.world.send(
        story.client,
        format!("get {key}\r\nget {key}\r\nmg {key} v\r\n"),
    );
    assert_eq!(story.world.asked(story.shadow).matches(" G\r\n").count(), 2);
    assert!(story.asked_home());
    story.world.drop_connection(story.shadow);
    // One after the other, each when its turn comes.
    assert!(story.asked_home());
    story.world.reply(101, "VA 1 f0 c10\r\na\r\n");
    story.world.reply(101, "VA 1 f0 c10\r\na\r\n");
    assert_eq!(story.world.asked(101).matches("mg ").count(), 1);
    story.world.reply(101, "VA 1 c10\r\na\r\n");
    let expected = story.value("a").repeat(2) + "VA 1\r\na\r\n";
    assert_eq!(story.world.received(story.client), expected);
}

#[test]
fn a_shadow_server_that_is_late_is_no_miss_and_no_error() {
    let mut story = Leased::new();
    story.send_get();
    story.world.wait_ms(1000);
    assert!(story.asked_home());
    story.world.reply(101, "VA 1 f0 c10\r\na\r\n");
    let expected = story.value("a");
    assert_eq!(story.world.received(story.client), expected);
}

#[test]
fn shadow_and_home_dead_is_a_miss() {
    let mut story = Leased::new();
    story.send_get();
    story.world.drop_connection(101);
    story
        .world
        .connecting(101, super::world::Connecting::Refuses);
    story.world.drop_connection(story.shadow);
    assert_eq!(story.world.received(story.client), "END\r\n");
}

#[test]
fn a_pipeline_never_shows_an_older_value_after_a_newer_one() {
    // The lease ends between two reads. The second goes home and its answer, the new value, comes
    // first; the first comes from the replica that has not been told yet. That order is fine.
    let mut story = Leased::new();
    story.send_get();
    story.world.wait_ms(960);
    story.send_get();
    assert!(story.asked_shadow() && story.asked_home());
    story.world.reply(101, "VA 1 f0 c11\r\nb\r\n");
    assert_eq!(story.world.received(story.client), "");
    story.world.reply(story.shadow, "VA 1 f0 c10\r\na\r\n");
    let expected = story.value("a") + &story.value("b");
    assert_eq!(story.world.received(story.client), expected);

    // The other way round: the replica is ahead of an answer that the home gave before the write.
    let mut story = Leased::new();
    story.send_get();
    story.world.wait_ms(960);
    story.send_get();
    assert!(story.asked_shadow() && story.asked_home());
    story.world.reply(101, "VA 1 f0 c10\r\na\r\n");
    story.world.reply(story.shadow, "VA 1 f0 c11\r\nb\r\n");
    let expected = story.value("b").repeat(2);
    assert_eq!(story.world.received(story.client), expected);
    assert!(!story.asked_home(), "what was shown is kept");
    let stats = story.world.core.stats();
    assert_eq!(
        (stats.proxy_reads_kept, stats.proxy_reads_asked_again),
        (1, 0)
    );
}

#[test]
fn an_answer_that_arrives_early_is_judged_when_its_turn_comes() {
    let mut story = Leased::new();
    // Held up by a key of a server that has nothing to do with it.
    let blocking = 102 + 103 - story.shadow;
    let (other, _) = key_of(blocking - 100, SERVERS);
    story.world.send(story.client, format!("get {other}\r\n"));
    story.send_get();
    assert!(story.asked_shadow());
    story.world.reply(story.shadow, "EN V12\r\n");
    assert!(!story.asked_home(), "not its turn");
    story.world.reply(blocking, "EN\r\n");
    assert_eq!(story.world.received(story.client), "END\r\n");
    assert!(story.asked_home());
    story.world.reply(101, "EN V12\r\n");
    assert_eq!(story.world.received(story.client), "END\r\n");
}

#[test]
fn a_new_map_ends_the_lease() {
    let mut story = Leased::new();
    story
        .world
        .set_map(&super::world::map(2, SERVERS, |cachelet| {
            cachelet % SERVERS + 1
        }));
    story.send_get();
    assert_eq!(story.world.asked(story.shadow), "");
    assert_ne!(story.world.asked(101), "");
}

#[test]
fn a_lease_is_at_most_as_long_as_the_paper_s() {
    let mut world = World::evenkeel(1);
    world.lease_ms(101, u64::MAX);
    let client = world.client();
    world.send(client, "get a\r\n");
    world.reply(101, "VA 1 f0 c1 G1\r\na\r\n");
    assert_eq!(world.core.stats().proxy_leases, 1);
    // The only server cannot be its own shadow, so a chosen suffix of 1 leads nowhere but home.
    world.send(client, "get a\r\n");
    world.reply(101, "VA 1 f0 c1\r\na\r\n");
    assert_eq!(
        world.received(client),
        "VALUE a 0 1\r\na\r\nEND\r\n".repeat(2)
    );
}

#[test]
fn gamma_is_not_shown_to_applications_that_ask_in_meta_commands() {
    let mut world = World::evenkeel(4);
    let (key, _) = key_of(1, 4);
    let client = world.client();
    world.send(client, format!("mg {key} v c\r\n"));
    world.reply(101, "VA 1 c10 G3 V10\r\na\r\n");
    assert_eq!(world.received(client), "VA 1 c10\r\na\r\n");
    assert_eq!(world.core.stats().proxy_leases, 1);
}

#[test]
fn a_get_does_not_join_one_before_what_its_client_will_have_seen() {
    let mut world = World::evenkeel(2);
    let (key, cachelet) = key_of(1, 2);
    let [first, second] = [(); 2].map(|()| world.client());
    let get = format!("get {key}\r\n");
    let both = format!("mg {key} v\r\n{get}");
    ask_in_one_turn(&mut world, &[(first, &get), (second, &both)]);
    let line = self::get(&key, cachelet);
    assert_eq!(world.asked(101).matches(&line).count(), 2);
}
