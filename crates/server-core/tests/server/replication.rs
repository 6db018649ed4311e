//! The extension at the server: hello, other homes' keys, replicas, and a hot key's whole life.

use crate::harness::{Client, Cluster, Server, at, config, map};
use evenkeel_hotkeys::config::Mode;
use evenkeel_hotkeys::settings::Settings;
use evenkeel_server_core::ProcessRequest;
use evenkeel_types::ServerId;

const HELLO: &str = "evenkeel 1 epoch=1\r\n";

/// A key whose home is the server of this index.
fn key_of(cluster: &Cluster, home: usize) -> String {
    (0..)
        .map(|i| format!("key{i}"))
        .find(|key| cluster.home(key.as_bytes()) == home)
        .expect("one")
}

/// An agreed connection to a server of the cluster.
fn agreed(cluster: &mut Cluster, server: usize) -> Client {
    let mut client = Client::open(&mut cluster.servers[server], 0);
    let answer = client.ask(&mut cluster.servers[server], at(0), HELLO);
    let expected = format!(
        "EVENKEEL 1 server={} worker=0 boot=1 epoch=1 lease_ms=1000\r\n",
        server + 1
    );
    assert_eq!(answer, expected);
    client
}

const OF_ANOTHER: &str = "SERVER_ERROR key belongs to another server: use a proxy\r\n";

#[test]
fn flags_of_the_extension_need_a_hello() {
    let mut server = Server::standalone(1);
    let mut client = Client::open(&mut server, 0);
    for (request, answer) in [
        ("mg a v Y1\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("mg a v G\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("md a U1\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"),
        ("ms a 1 G\r\nx\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("mn\r\n", "MN\r\n"),
    ] {
        assert_eq!(client.ask(&mut server, at(0), request), answer);
    }
}

#[test]
fn an_aware_client_is_pointed_to_the_home_and_an_unaware_one_is_refused() {
    let mut cluster = Cluster::new(3);
    let (key, own) = (key_of(&cluster, 1), key_of(&cluster, 0));
    let mut aware = agreed(&mut cluster, 0);
    let server = &mut cluster.servers[0];
    assert_eq!(
        aware.ask(server, at(0), format!("mg {key} v Y1\r\n")),
        "MOVED 1 2 0 1\r\n"
    );
    assert_eq!(
        aware.ask(server, at(0), format!("ms {key} 1 Y1\r\nx\r\n")),
        "MOVED 1 2 0 1\r\n"
    );
    let mut plain = Client::open(server, 0);
    for command in [
        "set KEY 0 0 1\r\nx",
        "get KEY",
        "mg KEY v",
        "delete KEY",
        "incr KEY 1",
        "touch KEY 0",
    ] {
        let command = command.replace("KEY", &key) + "\r\n";
        assert_eq!(
            plain.ask(server, at(0), command.as_str()),
            OF_ANOTHER,
            "{command}"
        );
    }
    // What is known is answered, and the end says that it is not all.
    assert_eq!(
        plain.ask(server, at(0), format!("set {own} 0 0 1\r\nx\r\n")),
        "STORED\r\n"
    );
    for keys in [format!("{own} {key}"), format!("{key} {own}")] {
        let answer = plain.ask(server, at(0), format!("get {keys}\r\n"));
        assert_eq!(answer, format!("VALUE {own} 0 1\r\nx\r\n{OF_ANOTHER}"));
    }
    let answer = plain.ask(server, at(0), format!("get {own}\r\n"));
    assert_eq!(answer, format!("VALUE {own} 0 1\r\nx\r\nEND\r\n"));
    assert_eq!(server.workers[0].counts().keys_of_others, 8);
}

#[test]
fn a_client_that_knows_no_map_is_told_of_a_quarantine() {
    let mut server = Server::new(config(1, true));
    let mut document = (*map(1, 2)).document().clone();
    let cachelet = (0..document.cachelets.len()).find(|at| document.cachelets[*at].is_some());
    let cachelet = cachelet.expect("an owner");
    document.cachelets[cachelet] = None;
    document.quarantined = vec![evenkeel_types::CacheletId(cachelet as u16)];
    let map = evenkeel_types::map::ClusterMap::new(document).expect("a sound map");
    let place = |key: &String| map.locate(evenkeel_types::KeyHash::of(key.as_bytes()));
    let mut keys = (0..).map(|i| format!("k{i}"));
    let key = keys.find(|key| usize::from(place(key).cachelet.0) == cachelet);
    let key = key.expect("a key of it");
    server.workers[0].handle_map(at(0), &map.into(), ServerId(1));
    let mut plain = Client::open(&mut server, 0);
    for command in ["set KEY 0 0 1\r\nx", "get KEY", "mg KEY v", "delete KEY"] {
        let command = command.replace("KEY", &key) + "\r\n";
        let expected = format!(
            "SERVER_ERROR cachelet {cachelet} is quarantined: its owners died one after the other\r\n"
        );
        assert_eq!(plain.ask(&mut server, at(0), command), expected);
    }
}

#[test]
fn what_a_server_no_longer_owns_is_forgotten() {
    let mut server = Server::new(config(1, true));
    let (two, three) = (map(1, 2), map(2, 3));
    server.workers[0].handle_map(at(0), &two, ServerId(1));
    let mut client = Client::open(&mut server, 0);
    let owner = |map: &evenkeel_types::map::ClusterMap, key: &str| {
        map.locate(evenkeel_types::KeyHash::of(key.as_bytes()))
            .worker
            .map(|w| w.server.0)
    };
    let key = (0..)
        .map(|i| format!("k{i}"))
        .find(|key| owner(&two, key) == Some(1) && owner(&three, key) != Some(1))
        .expect("a key that moves");
    client.ask(&mut server, at(0), format!("set {key} 0 0 1\r\nx\r\n"));
    server.workers[0].handle_map(at(0), &three, ServerId(1));
    let mut back = (*two).clone().document().clone();
    back.epoch.0 = 3;
    let back =
        std::sync::Arc::new(evenkeel_types::map::ClusterMap::new(back).expect("a sound map"));
    server.workers[0].handle_map(at(0), &back, ServerId(1));
    assert_eq!(
        client.ask(&mut server, at(0), format!("get {key}\r\n")),
        "END\r\n"
    );
    // Who routes by a map from before it came back may know of writes that it does not.
    client.ask(&mut server, at(0), HELLO);
    let mut read = |epoch: &str| client.ask(&mut server, at(0), format!("mg {key} v Y{epoch}\r\n"));
    assert_eq!(read("2"), "MOVED 3 1 0 1\r\n");
    assert_eq!(read("1 W1"), "MOVED 3 1 0 2\r\n");
    assert_eq!(read("3 W2"), "EN\r\n");
}

#[test]
fn what_was_sent_behind_a_request_that_is_not_carried_out_is_not_either() {
    let mut cluster = Cluster::new(2);
    let key = key_of(&cluster, 1);
    let mut aware = agreed(&mut cluster, 0);
    let server = &mut cluster.servers[0];
    let mut say = |server: &mut Server, words: &str| {
        let words = words.replace("KEY", &key);
        aware.ask(server, at(0), words)
    };
    assert_eq!(say(server, "mg KEY v Y1\r\n"), "MOVED 1 2 0 1\r\n");
    let mut map = (*map(2, 2)).clone().document().clone();
    let owner = map.cachelets.iter_mut();
    owner.for_each(|owner| owner.as_mut().expect("owned").server = ServerId(1));
    let map = evenkeel_types::map::ClusterMap::new(map).expect("a sound map");
    server.workers[0].handle_map(at(0), &map.into(), ServerId(1));
    // Sent before the answer was read.
    let mut both = |server: &mut Server| say(server, "ms KEY 1 Y2\r\nb\r\nms KEY 1 Y2 W0\r\nc\r\n");
    assert_eq!(both(server), "MOVED 2 1 0 1\r\nMOVED 2 1 0 1\r\n");
    // And after it. Others that carry no mark wait on.
    let asked = say(
        server,
        "ms KEY 1 Y2 W1\r\na\r\nmg KEY v Y2\r\nmg KEY v Y2 W1\r\n",
    );
    assert_eq!(asked, "HD\r\nMOVED 2 1 0 1\r\nVA 1\r\na\r\n");
    // With a hello the connection is as good as new, as it is for other cachelets.
    let asked = say(server, &format!("{HELLO}mg KEY v Y2\r\n"));
    assert!(asked.ends_with("VA 1\r\na\r\n"), "{asked}");
}

#[test]
fn replicas_are_apart_from_the_keys_of_the_shadow_itself() {
    let mut cluster = Cluster::new(2);
    let key = key_of(&cluster, 0);
    let mut link = agreed(&mut cluster, 1);
    let server = &mut cluster.servers[1];
    let store = |value: &str, version: u64| {
        format!("ms {key} {} G E{version} Y1 F5\r\n{value}\r\n", value.len())
    };
    assert_eq!(link.ask(server, at(0), store("v7", 7)), "HD\r\n");
    assert_eq!(link.ask(server, at(0), store("v6", 6)), "NS\r\n");
    assert_eq!(
        link.ask(server, at(0), format!("mg {key} v f c G\r\n")),
        "VA 2 f5 c7\r\nv7\r\n"
    );
    assert_eq!(
        link.ask(server, at(0), format!("mg {key} v Y1\r\n")),
        "MOVED 1 1 0 1\r\n"
    );
    let mut plain = Client::open(server, 0);
    let answer = plain.ask(server, at(0), format!("get {key}\r\n"));
    assert_eq!(answer, OF_ANOTHER, "no replica is shown");
    let replicas = plain.ask(server, at(0), "stats replicas\r\n");
    let facts = "version=7 bytes=2 home=1/0 epoch=1 age_s=0 stored_s=0 reads=1";
    assert_eq!(replicas, format!("STAT {key} {facts}\r\nEND\r\n"));
    assert_eq!(
        link.ask(server, at(0), format!("md {key} G E6 Y1\r\n")),
        "NS\r\n"
    );
    assert_eq!(
        link.ask(server, at(0), format!("md {key} G E8 Y1\r\n")),
        "HD\r\n"
    );
    assert_eq!(
        link.ask(server, at(0), format!("mg {key} v G k Oq\r\n")),
        format!("EN k{key} Oq\r\n")
    );
    // Unrenewed replicas vanish.
    link.ask(server, at(0), store("v9", 9));
    assert_eq!(
        link.ask(server, at(59_000), format!("mg {key} v G\r\n")),
        "VA 2\r\nv9\r\n"
    );
    assert_eq!(
        link.ask(server, at(60_000), format!("mg {key} v G\r\n")),
        "EN\r\n"
    );
}

#[test]
fn an_epoch_that_somebody_names_is_believed_when_the_coordinator_has_told_it() {
    let mut cluster = Cluster::new(2);
    let server = &mut cluster.servers[1];
    let mut early = Client::open(server, 0);
    early.ask(server, at(0), HELLO);
    let asked = |server: &mut Server| {
        let requests = core::iter::from_fn(|| server.workers[0].poll_process_request());
        requests
            .filter(|request| *request == ProcessRequest::AskForMap)
            .count()
    };
    // It waits, with what stands behind it, and so do others of its kind; the coordinator is asked once for them.
    let words = "ms early 1 G Y2 E4611686018427387904\r\nx\r\nmn\r\n";
    assert_eq!(early.ask(server, at(0), words), "");
    for word in ["md early G Y9000000000000000000 E1", "md early G I Y3 E1"] {
        let mut stranger = Client::open(server, 0);
        stranger.ask(server, at(0), HELLO);
        assert_eq!(stranger.ask(server, at(99), format!("{word}\r\n")), "");
    }
    assert_eq!(asked(server), 1);
    early.send(server, at(100), b"mn\r\n");
    assert_eq!(asked(server), 1, "ten times a second");
    assert_eq!(server.workers[0].counters().replica_orders_early, 3);
    // Meanwhile homes that work by the map that there is are heard.
    let mut link = Client::open(server, 0);
    link.ask(server, at(0), HELLO);
    let store = |epoch: u64, version: u64| format!("ms k 1 G Y{epoch} E{version}\r\nv\r\n");
    assert_eq!(link.ask(server, at(101), store(1, 5)), "HD\r\n");
    assert_eq!(link.ask(server, at(101), "mg early v G\r\n"), "EN\r\n");
    // The map comes, and what was sent by it is executed; from then on nothing older is.
    assert!(server.workers[0].handle_map(at(200), &map(2, 2), ServerId(2)));
    assert_eq!(early.answers(server, at(200)), "HD\r\nMN\r\nMN\r\n");
    assert_eq!(link.ask(server, at(201), store(1, 6)), "NS\r\n");
    assert_eq!(link.ask(server, at(201), store(2, 1)), "HD\r\n");
    assert_eq!(server.workers[0].counters().replica_stores, 3);
}

#[test]
fn a_homes_newest_link_ends_its_older_one() {
    let mut cluster = Cluster::new(2);
    let server = &mut cluster.servers[1];
    let hello = "evenkeel 1 epoch=1 from=1/0\r\n";
    let mut older = Client::open(server, 0);
    older.ask(server, at(0), hello);
    let mut newer = Client::open(server, 0);
    newer.ask(server, at(0), hello);
    assert!(older.is_closing(server));
    assert!(!newer.is_closing(server));
    // What the older one still brings is not executed.
    older.send(server, at(0), b"ms late 1 G E9 Y1\r\nx\r\n");
    assert_eq!(newer.ask(server, at(0), "mg late v G\r\n"), "EN\r\n");
}

/// Otherwise one connection could have the server remember any number of homes.
#[test]
fn a_connection_is_the_link_of_the_home_that_it_named_last() {
    let mut cluster = Cluster::new(2);
    let server = &mut cluster.servers[1];
    let hello = |home: u16| format!("evenkeel 1 epoch=1 from={home}/0\r\n");
    let mut fickle = Client::open(server, 0);
    for home in 1..=9 {
        fickle.ask(server, at(0), hello(home));
        assert!(!fickle.is_closing(server));
    }
    let mut other = Client::open(server, 0);
    for home in 1..=8 {
        other.ask(server, at(0), hello(home));
        assert!(!fickle.is_closing(server), "it is of {home} no more");
    }
    other.ask(server, at(0), hello(9));
    assert!(fickle.is_closing(server));
}

/// Reads a key often enough, over several slots, that its home finds it hot; gives the last answer.
fn heat(cluster: &mut Cluster, client: &mut Client, key: &str, from_ms: u64) -> (String, u64) {
    let home = client_server(cluster, key);
    let mut answer = String::new();
    let mut ms = from_ms;
    for _ in 0..12 {
        for _ in 0..200 {
            answer = client.ask(
                &mut cluster.servers[home],
                at(ms),
                format!("mg {key} v Y1\r\n"),
            );
        }
        ms += 250;
        cluster.tick(at(ms));
    }
    (answer, ms)
}

fn client_server(cluster: &Cluster, key: &str) -> usize {
    cluster.home(key.as_bytes())
}

#[test]
fn the_life_of_a_hot_key() {
    let mut cluster = Cluster::new(3);
    let key = key_of(&cluster, 0);
    let mut client = agreed(&mut cluster, 0);
    client.ask(
        &mut cluster.servers[0],
        at(0),
        format!("ms {key} 2 Y1\r\nv1\r\n"),
    );
    let (answer, ms) = heat(&mut cluster, &mut client, &key, 0);
    // Every server but the home holds a replica, and reads are granted leases.
    assert_eq!(answer, "VA 2 G2\r\nv1\r\n");
    let mut shadows = [1, 2].map(|server| agreed(&mut cluster, server));
    let mut copies = |cluster: &mut Cluster, ms| {
        [0, 1].map(|i| {
            let server = &mut cluster.servers[i + 1];
            shadows[i].ask(server, at(ms), format!("mg {key} v G\r\n"))
        })
    };
    assert_eq!(copies(&mut cluster, ms), ["VA 2\r\nv1\r\n"; 2]);
    let hot = client.ask(&mut cluster.servers[0], at(ms), "stats hotkeys\r\n");
    assert!(
        hot.contains(&format!("STAT {key} state=HOT ")) && hot.contains("gamma=2"),
        "{hot}"
    );
    let log = client.ask(&mut cluster.servers[0], at(ms), "stats hotlog\r\n");
    let logged = format!(" promoted cause=promoted key={key} gamma=0->2 ");
    assert!(log.starts_with("STAT 0:1 at=18000000"), "{log}");
    assert!(
        log.contains(&logged) && log.contains(" served_rps_after=-\r\n"),
        "{log}"
    );
    let mut link = agreed(&mut cluster, 1);
    let held = link.ask(&mut cluster.servers[1], at(ms), "stats replicas\r\n");
    let replica = format!("STAT {key} version=");
    assert!(held.starts_with(&replica), "{held}");
    assert!(held.contains(" bytes=2 home=1/0 epoch=1 age_s="), "{held}");
    assert!(held.contains(" reads=1\r\n"), "{held}");

    // An unaware client is told nothing of leases.
    let mut plain = Client::open(&mut cluster.servers[0], 0);
    assert_eq!(
        plain.ask(&mut cluster.servers[0], at(ms), format!("mg {key} v\r\n")),
        "VA 2\r\nv1\r\n"
    );

    // From a write until every shadow has confirmed it leases end a lease after it, and then they are whole again.
    client.ask(
        &mut cluster.servers[0],
        at(ms),
        format!("ms {key} 2 Y1\r\nv2\r\n"),
    );
    let read = format!("mg {key} v Y1\r\n");
    assert_eq!(
        client.ask(&mut cluster.servers[0], at(ms), &read),
        "VA 2 G2 L999\r\nv2\r\n"
    );
    cluster.pump(at(ms));
    assert_eq!(
        client.ask(&mut cluster.servers[0], at(ms), &read),
        "VA 2 G2\r\nv2\r\n"
    );
    assert_eq!(copies(&mut cluster, ms), ["VA 2\r\nv2\r\n"; 2]);

    // A delete removes every copy, and the miss says how new it is.
    let deleted = client.ask(&mut cluster.servers[0], at(ms), format!("md {key} Y1\r\n"));
    assert!(deleted.starts_with("HD V"), "{deleted}");
    let miss = client.ask(&mut cluster.servers[0], at(ms), &read);
    assert!(miss.starts_with("EN V"), "{miss}");
    cluster.pump(at(ms));
    assert_eq!(copies(&mut cluster, ms), ["EN\r\n"; 2]);

    // Nobody reads it any more: the replicas of its next life are taken back.
    let store = format!("ms {key} 2 Y1\r\nv4\r\n");
    client.ask(&mut cluster.servers[0], at(ms), store);
    let (_, mut ms) = heat(&mut cluster, &mut client, &key, ms);
    assert_eq!(copies(&mut cluster, ms), ["VA 2\r\nv4\r\n"; 2]);
    for _ in 0..40 {
        ms += 250;
        cluster.tick(at(ms));
    }
    assert_eq!(copies(&mut cluster, ms), ["EN\r\n"; 2]);
}

#[test]
fn a_delete_of_what_was_evicted_takes_the_replicas_back() {
    let mut cluster = Cluster::new(2);
    let key = key_of(&cluster, 0);
    let mut client = agreed(&mut cluster, 0);
    // What is small would stay for long.
    let value = "x".repeat(256 << 10);
    let set = format!("ms {key} {} Y1\r\n{value}\r\n", value.len());
    client.ask(&mut cluster.servers[0], at(0), set);
    let (answer, ms) = heat(&mut cluster, &mut client, &key, 0);
    assert!(answer.contains(" G1\r\n"));
    let evicted = (0..1000).any(|n| {
        let set = format!("set filler{n} 0 0 {}\r\n{value}\r\n", value.len());
        client.ask(&mut cluster.servers[0], at(ms), set);
        // What is read again and again is worth as much as the hot key.
        let read = format!("get filler{n}\r\n").repeat(3);
        client.ask(&mut cluster.servers[0], at(ms), read);
        client.ask(&mut cluster.servers[0], at(ms), format!("me {key}\r\n")) == "EN\r\n"
    });
    assert!(evicted);
    let mut shadow = agreed(&mut cluster, 1);
    let read = format!("mg {key} s G\r\n");
    let there = shadow.ask(&mut cluster.servers[1], at(ms), &read);
    assert_eq!(there, "HD s262144\r\n");
    let delete = format!("md {key} Y1\r\n");
    let deleted = client.ask(&mut cluster.servers[0], at(ms), delete);
    assert!(
        deleted.starts_with("NF V"),
        "how new the miss is: {deleted}"
    );
    cluster.pump(at(ms));
    assert_eq!(shadow.ask(&mut cluster.servers[1], at(ms), read), "EN\r\n");
}

#[test]
fn a_shadow_that_stays_silent_loses_its_link_and_the_key_its_replicas() {
    let mut cluster = Cluster::new(3);
    let key = key_of(&cluster, 0);
    let mut client = agreed(&mut cluster, 0);
    client.ask(
        &mut cluster.servers[0],
        at(0),
        format!("ms {key} 2 Y1\r\nv1\r\n"),
    );
    let (_, mut ms) = heat(&mut cluster, &mut client, &key, 0);
    cluster.cut = vec![2];
    client.ask(
        &mut cluster.servers[0],
        at(ms),
        format!("ms {key} 2 Y1\r\nv2\r\n"),
    );
    let read = format!("mg {key} v Y1\r\n");
    for left in [" G2 L749", " G2 L499", " G2 L249"].iter().chain([&""; 9]) {
        ms += 250;
        cluster.tick(at(ms));
        assert_eq!(
            client.ask(&mut cluster.servers[0], at(ms), &read),
            format!("VA 2{left}\r\nv2\r\n")
        );
    }
    let lost = client.ask(&mut cluster.servers[0], at(ms), "stats evenkeel\r\n");
    assert!(!lost.contains("STAT links_lost 0\r\n"), "{lost}");
}

#[test]
fn copies_know_that_somebody_replaces_the_value_and_what_is_stale_has_none() {
    let mut cluster = Cluster::new(2);
    let key = key_of(&cluster, 0);
    let (mut client, mut shadow) = (agreed(&mut cluster, 0), agreed(&mut cluster, 1));
    let store = format!("ms {key} 2 Y1 T100\r\nv1\r\n");
    client.ask(&mut cluster.servers[0], at(0), &store);
    let (answer, ms) = heat(&mut cluster, &mut client, &key, 0);
    assert_eq!(answer, "VA 2 G1\r\nv1\r\n");
    let replica = format!("mg {key} v G\r\n");

    // Who reads it with less than 200 seconds to live is to replace it: one alone.
    let mut plain = Client::open(&mut cluster.servers[0], 0);
    let recache = format!("mg {key} v R200\r\n");
    assert_eq!(
        plain.ask(&mut cluster.servers[0], at(ms), &recache),
        "VA 2 W\r\nv1\r\n"
    );
    cluster.pump(at(ms));
    assert_eq!(
        shadow.ask(&mut cluster.servers[1], at(ms), &replica),
        "VA 2 Z\r\nv1\r\n"
    );

    // The next who reads it must be told that it is stale, and that it is theirs to replace.
    let stale = format!("md {key} I T100 Y1\r\n");
    client.ask(&mut cluster.servers[0], at(ms), stale);
    cluster.pump(at(ms));
    assert_eq!(
        shadow.ask(&mut cluster.servers[1], at(ms), &replica),
        "EN\r\n"
    );
    let (answer, ms) = heat(&mut cluster, &mut client, &key, ms);
    assert_eq!(
        answer, "VA 2 Z X\r\nv1\r\n",
        "no lease, as often as it is read"
    );
    assert_eq!(
        shadow.ask(&mut cluster.servers[1], at(ms), &replica),
        "EN\r\n"
    );
    client.ask(&mut cluster.servers[0], at(ms), &store);
    let (answer, ms) = heat(&mut cluster, &mut client, &key, ms);
    assert_eq!(answer, "VA 2 G1\r\nv1\r\n");
    assert_eq!(
        shadow.ask(&mut cluster.servers[1], at(ms), &replica),
        "VA 2\r\nv1\r\n"
    );
}

#[test]
fn a_flush_reaches_the_replicas() {
    let mut cluster = Cluster::new(2);
    let key = key_of(&cluster, 0);
    let mut client = agreed(&mut cluster, 0);
    client.ask(
        &mut cluster.servers[0],
        at(0),
        format!("ms {key} 2 Y1\r\nv1\r\n"),
    );
    let (answer, ms) = heat(&mut cluster, &mut client, &key, 0);
    assert_eq!(answer, "VA 2 G1\r\nv1\r\n");
    client.ask(&mut cluster.servers[0], at(ms), "flush_all\r\n");
    cluster.pump(at(ms));
    let mut shadow = agreed(&mut cluster, 1);
    let read = shadow.ask(&mut cluster.servers[1], at(ms), format!("mg {key} v G\r\n"));
    assert_eq!(read, "EN\r\n");
}

#[test]
fn what_is_only_observed_is_told_and_grants_no_lease() {
    let mut cluster = Cluster::new(3);
    for server in &mut cluster.servers {
        let observing = Settings {
            hot_keys: Mode::Observe,
            hot_sampling: Some(100.0),
            hot_trigger_rps: Some(1.0),
            ..Settings::default()
        };
        server.workers[0].handle_settings(at(0), &observing);
    }
    let key = key_of(&cluster, 0);
    let mut client = agreed(&mut cluster, 0);
    let home = &mut cluster.servers[0];
    client.ask(home, at(0), format!("ms {key} 2 Y1\r\nv1\r\n"));
    let (answer, ms) = heat(&mut cluster, &mut client, &key, 0);
    assert_eq!(answer, "VA 2\r\nv1\r\n");
    let home = &mut cluster.servers[0];
    let hot = client.ask(home, at(ms), "stats hotkeys\r\n");
    assert!(hot.contains(&format!("STAT {key} state=COLD ")), "{hot}");
    assert!(
        hot.contains(" proposed=2/0,3/0\r\n") || hot.contains(" proposed=3/0,2/0\r\n"),
        "{hot}"
    );
    let log = client.ask(home, at(ms), "stats hotlog\r\n");
    assert!(
        log.contains(&format!(
            " would_promote cause=promoted key={key} gamma=0->2 "
        )),
        "{log}"
    );
    let counts = client.ask(home, at(ms), "stats evenkeel\r\n");
    for line in [
        "STAT hot_keys_observed 1\r\n",
        "STAT hot_keys_would_promote 1\r\n",
        "STAT hot_keys_promoted 0\r\n",
        "STAT leases_granted 0\r\n",
        "STAT propagations 0\r\n",
    ] {
        assert!(counts.contains(line), "{line} in {counts}");
    }
    // What a third of the reads would be, as each of three copies would get them.
    let view = home.workers[0].hot_keys_view(at(ms), true);
    let spread = view.load.served_rps - view.keys[0].load_rps * 2.0 / 3.0;
    assert!((view.expected_rps - spread).abs() < 1e-6, "{view:?}");
    assert!(view.expected_rps < 0.5 * view.load.served_rps, "{view:?}");
}
