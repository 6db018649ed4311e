//! Copies of a pool of real memcacheds: what they save, and what a write at another proxy does to them.

use crate::patience::{LINES, PATIENCE};
use crate::two_pools::list;
use evenkeel_testkit::copies::switch;
use evenkeel_testkit::{Client, Memcached, Process, evenkeel, poll_until};
use evenkeel_types::random::SplitMix64;
use std::collections::BTreeSet;
use std::thread;

const PROXIES: usize = 2;

const KEYS: usize = 12;

/// What a proxy has counted of the pool's copies.
fn count(proxy: &Process, of: &str) -> u64 {
    let stats = Client::connect(proxy.address()).stats("proxy");
    let told = &stats[&format!("main:bundle_{of}")];
    told.parse().expect("a number")
}

/// Names that a server was asked for, of items and of copies.
fn asked(server: &Memcached) -> u64 {
    let stats = server.client().stats("");
    stats["cmd_get"].parse().expect("a number")
}

#[test]
fn multi_gets_ask_fewer_servers_and_see_what_is_written_elsewhere_at_once() {
    let servers: Vec<Memcached> = (0..4).map(|_| Memcached::spawn(&["-t", "1"])).collect();
    let coordinator = evenkeel::coordinator(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("proxy.toml");
    // By names of their own, so that keys have the same places whatever the ports are.
    let named = servers.iter().enumerate().map(|(number, server)| {
        let address = server.address();
        format!("{{ address = \"{address}\", name = \"server-{number}\" }}")
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let text = format!(
        "[proxy]\nthreads = 1\n[pools.main]\nservers = [{named}]\n{LINES}bundle = \"on\"\ncopies = 3\ncopies_ttl = 3600\n\
         pool_coordinator = \"http://{}\"\n",
        coordinator.address()
    );
    std::fs::write(&path, text).expect("room");
    let path = path.display().to_string();
    let proxy = |name: &str| evenkeel::proxy(&["--config", &path, "--name", name]);
    let proxies: [Process; PROXIES] = [proxy("p1"), proxy("p2")];
    let [mut one, mut other] = proxies.each_ref().map(|it| Client::connect(it.address()));
    let names: Vec<String> = (0..KEYS).map(|n| format!("key-{n}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    switch(coordinator.address(), "on", PROXIES);
    for key in &keys {
        assert_eq!(one.set(key, b"old"), "STORED");
    }
    let values = |client: &mut Client| -> Vec<String> {
        let values = client.get_many(&keys).into_iter();
        values
            .map(|value| String::from_utf8(value.data).expect("words"))
            .collect()
    };
    poll_until(PATIENCE, "all copies that are asked for", || {
        let before = count(&proxies[0], "second_round_transactions");
        assert_eq!(values(&mut one), vec!["old"; KEYS]);
        (count(&proxies[0], "second_round_transactions") == before).then_some(())
    });
    let before: Vec<u64> = servers.iter().map(asked).collect();
    let counted = ["transactions", "transactions_covered", "copies_hit"];
    let counts = counted.map(|of| count(&proxies[0], of));
    assert_eq!(values(&mut one), vec!["old"; KEYS]);
    let [plain, covered, hit] = [0, 1, 2].map(|at| count(&proxies[0], counted[at]) - counts[at]);
    let asked: Vec<u64> = servers
        .iter()
        .zip(&before)
        .map(|(it, before)| asked(it) - before)
        .collect();
    assert_eq!(
        asked.iter().sum::<u64>(),
        KEYS as u64,
        "each once: {asked:?}"
    );
    assert_eq!(
        asked.iter().filter(|keys| **keys > 0).count() as u64,
        covered
    );
    assert!(
        covered < plain && hit > 0,
        "{covered} of {plain} servers, {hit} copies"
    );

    for (at, key) in keys.iter().enumerate() {
        let value = format!("new-{at}");
        assert_eq!(other.set(key, value.as_bytes()), "STORED");
        assert_eq!(values(&mut one)[at], value);
        assert_eq!(values(&mut other)[at], value);
    }
    assert_eq!(count(&proxies[1], "deletes"), 2 * KEYS as u64);

    switch(coordinator.address(), "off", PROXIES);
    let hit = count(&proxies[0], "copies_hit");
    assert_eq!(one.set(keys[0], b"last"), "STORED");
    assert_eq!(values(&mut other)[0], "last");
    assert_eq!(values(&mut one)[0], "last");
    assert_eq!(count(&proxies[0], "copies_hit"), hit);
}

/// Servers that evict: of this many, each with a mebibyte, which has one page for items of one size.
const EVICTING: usize = 8;
const MEMORY: usize = 1 << 20;
const MEMORY_FLAGS: [&str; 6] = ["-t", "1", "-m", "1", "-I", "512k"];

/// Bytes of each value. With a copy's name and header it is of the same size to memcached, which evicts one for the other.
const VALUE: usize = 4_000;

/// One and a half times what there is memory for.
const ITEMS: usize = EVICTING * (MEMORY / VALUE) * 3 / 2;

/// Keys of a multi-get.
const WIDE: usize = 20;

/// Each item is asked for so often, on average, before hits are counted, and then again.
const READS_OF_EACH: usize = 2;

/// What a memcached with a single page says now and then, where it finds nothing at once that it may evict.
const NO_MEMORY: &str = "SERVER_ERROR out of memory storing object";

/// What a proxy and its application have counted before servers that evict.
#[derive(Debug)]
struct Evicted {
    hits: usize,
    asked: usize,
    /// Items that a server would not store.
    refused: usize,
    fills: usize,
    left_out: usize,
}

/// An application asks for items, and stores those that are not there, while the pool keeps copies as these lines say.
fn among_evicting_servers(copies: &str, seed: u64) -> Evicted {
    let servers: Vec<Memcached> = (0..EVICTING)
        .map(|_| Memcached::spawn(&MEMORY_FLAGS))
        .collect();
    let coordinator = evenkeel::coordinator(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("proxy.toml");
    let text = format!(
        "[proxy]\nthreads = 1\n[pools.main]\nservers = {}\n{LINES}copies = 3\n{copies}",
        list(&servers.iter().collect::<Vec<_>>())
    );
    let text = text.replace("COORDINATOR", &coordinator.address().to_string());
    std::fs::write(&path, text).expect("room");
    let proxy = evenkeel::proxy(&["--config", &path.display().to_string()]);
    if copies.contains("pool_coordinator") {
        switch(coordinator.address(), "on", 1);
    }
    let mut client = Client::connect(proxy.address());
    let mut random = SplitMix64::new(seed);
    let value = "x".repeat(VALUE);
    let requests = READS_OF_EACH * ITEMS / WIDE;
    let (mut hits, mut asked, mut refused) = (0, 0, 0);
    for request in 0..2 * requests {
        let mut names = BTreeSet::new();
        while names.len() < WIDE {
            names.insert(format!("item-{:04}", random.below(ITEMS as u64)));
        }
        let keys: Vec<&str> = names.iter().map(String::as_str).collect();
        for found in client.get_many(&keys) {
            names.remove(&found.key);
        }
        if request >= requests {
            hits += WIDE - names.len();
            asked += WIDE;
        }
        let sets = names
            .iter()
            .map(|name| format!("set {name} 0 0 {VALUE}\r\n{value}\r\n"));
        client.send(sets.collect::<String>().as_bytes());
        for _ in &names {
            match &*client.line() {
                "STORED" => {}
                NO_MEMORY => refused += 1,
                other => panic!("{other}"),
            }
        }
    }
    let count = |of| count(&proxy, of) as usize;
    Evicted {
        hits,
        asked,
        refused,
        fills: count("fills") + count("refreshes"),
        left_out: count("fills_left_out"),
    }
}

/// A memcached has one LRU, so copies evict items. Hits by the memory that there is for items rise less and less, or evenly as here where all are
/// asked for alike: so who takes a quarter of the memory leaves three quarters of the hits, at least.
#[test]
fn copies_take_no_more_of_the_memory_of_servers_that_evict_than_they_may() {
    const KEPT: &str =
        "bundle = \"on\"\ncopies_ttl = 3600\npool_coordinator = \"http://COORDINATOR\"\n";
    let seed = 7;
    let ways = [
        "bundle = \"observe\"\n".to_owned(),
        KEPT.to_owned(),
        format!("{KEPT}copies_fill_share = 1.0\n"),
    ];
    // Side by side, since most of the time copies are being switched on.
    let [plain, bounded, unbounded] = thread::scope(|scope| {
        let begun = ways
            .each_ref()
            .map(|way| scope.spawn(move || among_evicting_servers(way, seed)));
        begun.map(|it| it.join().expect("its servers answer"))
    });
    println!("seed {seed}\nplain {plain:?}\nbounded {bounded:?}\nunbounded {unbounded:?}");
    assert_eq!((plain.fills, plain.left_out), (0, 0));
    for way in [&plain, &bounded, &unbounded] {
        assert!(way.refused < way.asked / 100, "it hardly ever happens");
    }
    assert!(plain.hits < plain.asked * 9 / 10, "they evict");
    assert!(bounded.left_out > 0);
    assert!(bounded.fills * VALUE <= EVICTING * MEMORY / 4);
    assert!(bounded.hits >= plain.hits * 3 / 4);
    assert!(unbounded.fills > bounded.fills);
}

/// Servers of ours keep copies apart: as many as their items leave room for, and no item goes for one.
#[test]
fn our_servers_evict_no_item_for_a_copy() {
    const SERVERS: usize = 4;
    const ITEMS: usize = 5_000;
    let server = || evenkeel::server(&["-t", "1", "-m", "8"]);
    let servers: [Process; SERVERS] = std::array::from_fn(|_| server());
    let coordinator = evenkeel::coordinator(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("proxy.toml");
    let listed = servers.each_ref().map(|it| format!("\"{}\"", it.address()));
    let text = format!(
        "[proxy]\nthreads = 1\n[pools.main]\nservers = [{}]\n{LINES}bundle = \"on\"\ncopies = 4\n\
         copies_fill_share = 0.01\npool_coordinator = \"http://{}\"\n",
        listed.join(", "),
        coordinator.address()
    );
    std::fs::write(&path, text).expect("room");
    let proxy = evenkeel::proxy(&["--config", &path.display().to_string()]);
    switch(coordinator.address(), "on", 1);
    let mut client = Client::connect(proxy.address());
    let value = "x".repeat(VALUE);
    for item in 0..ITEMS {
        client.send(format!("set item-{item} 0 0 {VALUE}\r\n{value}\r\n").as_bytes());
        assert_eq!(client.line(), "STORED");
    }
    let seed = 11;
    let mut random = SplitMix64::new(seed);
    for request in 0..2 * ITEMS / WIDE {
        let names: BTreeSet<String> = (0..WIDE)
            .map(|_| format!("item-{}", random.below(ITEMS as u64)))
            .collect();
        let keys: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = client.get_many(&keys).len();
        assert_eq!(found, keys.len(), "seed {seed}, request {request}");
    }
    let told = |group: &str, name: &str| -> Vec<u64> {
        let of = |server: &Process| Client::connect(server.address()).stats(group)[name].clone();
        let told = servers.iter().map(of);
        told.map(|number| number.parse().expect("a number"))
            .collect()
    };
    let sum = |name: &str| told("evenkeel", name).iter().sum::<u64>();
    let copies = sum("bundle_copies");
    let gone = sum("bundle_copies_evicted") + sum("bundle_copies_refused");
    println!("seed {seed}: {copies} copies, {gone} gone");
    assert_eq!(told("", "evictions"), [0; SERVERS]);
    assert!(copies > 100 && gone > 0, "{copies} {gone}");
    assert_eq!(count(&proxy, "fills_left_out"), 0);
}
