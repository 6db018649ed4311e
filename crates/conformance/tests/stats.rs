//! `stats`: exporters and dashboards read it by name, so the names are an interface.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use evenkeel_testkit::{Client, Memcached, evenkeel};

/// Counters of what clients did: the same commands must give the same numbers. `cmd_meta` is not
/// among them: memcached counts `me` alone there, we count every meta command, as the name says.
const COUNTERS: &[&str] = &[
    "cmd_get",
    "cmd_set",
    "cmd_flush",
    "cmd_touch",
    "get_hits",
    "get_misses",
    "delete_hits",
    "delete_misses",
    "incr_hits",
    "incr_misses",
    "decr_hits",
    "decr_misses",
    "cas_hits",
    "cas_misses",
    "cas_badval",
    "touch_hits",
    "touch_misses",
    "curr_items",
    "total_items",
    "store_too_large",
];

/// Names of Debian's memcached 1.6.18 that later versions, whose names we have, gave up.
const GIVEN_UP: &[&str] = &["slab_reassign_evictions_nomem"];

/// Names of plain `stats` of memcached 1.6.45 without TLS, in their order: tools expect these and no
/// others, ours are under `stats evenkeel`.
const NAMES_OF_1_6_45: &str = "pid uptime time version libevent pointer_size rusage_user \
    rusage_system max_connections curr_connections total_connections rejected_connections \
    connection_structures response_obj_oom response_obj_count response_obj_bytes read_buf_count \
    read_buf_bytes read_buf_bytes_free read_buf_oom reserved_fds cmd_get cmd_set cmd_flush cmd_touch \
    cmd_meta get_hits get_misses get_expired get_flushed delete_misses delete_hits incr_misses \
    incr_hits decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses \
    store_too_large store_no_memory auth_cmds auth_errors bytes_read bytes_written limit_maxbytes \
    accepting_conns listen_disabled_num time_in_listen_disabled_us threads conn_yields \
    hash_power_level hash_bytes hash_is_expanding slab_reassign_rescues \
    slab_reassign_chunk_rescues slab_reassign_inline_reclaim slab_reassign_busy_items \
    slab_reassign_busy_deletes slab_reassign_busy_nomem slab_reassign_last_busy_status \
    slab_reassign_running slabs_moved lru_crawler_running lru_crawler_starts \
    lru_maintainer_juggles malloc_fails log_worker_dropped log_worker_written log_watcher_skipped \
    log_watcher_sent log_watchers unexpected_napi_ids round_robin_fallback bytes curr_items \
    total_items slab_global_page_pool expired_unfetched evicted_unfetched evicted_active evictions \
    reclaimed crawler_reclaimed crawler_items_checked lrutail_reflocked moves_to_cold moves_to_warm \
    moves_within_lru direct_reclaims lru_bumps_dropped";

/// Commands of every kind, hits and misses of each.
const WORKLOAD: &str = "set a 0 0 1\r\n1\r\nset b 0 0 1\r\nx\r\nset c 0 0 2\r\n10\r\n\
    add a 0 0 1\r\n2\r\nadd d 0 0 1\r\n2\r\nreplace a 0 0 1\r\n3\r\nreplace none 0 0 1\r\n3\r\n\
    append b 0 0 1\r\ny\r\nprepend none 0 0 1\r\ny\r\n\
    get a b none\r\ngets a none\r\nget none\r\n\
    gat 0 a\r\ngat 0 none\r\ngats 100 a none\r\ntouch a 0\r\ntouch none 0\r\n\
    incr c 1\r\nincr none 1\r\ndecr c 1\r\ndecr none 1\r\nincr b 1\r\n\
    cas a 0 0 1 18446744073709551615\r\nz\r\ncas none 0 0 1 1\r\nz\r\n\
    delete d\r\ndelete none\r\n\
    mg a v\r\nmg none v\r\nmg a T30 t\r\nms m 1\r\nx\r\nmd m\r\nmd m\r\nma c v\r\nma none\r\nmn\r\n\
    set big 0 0 1048577\r\n";

/// Names in the order they came.
fn names(client: &mut Client, argument: &str) -> Vec<String> {
    client.send(format!("stats {argument}").trim_end().as_bytes());
    client.send(b"\r\n");
    let mut names = Vec::new();
    loop {
        let line = client.line();
        match line.strip_prefix("STAT ") {
            Some(rest) => names.push(rest.split(' ').next().unwrap_or(rest).to_owned()),
            None if line == "END" => return names,
            None => panic!("`{line}` in answer to stats {argument}"),
        }
    }
}

/// Sends the workload and waits until all of it was answered.
fn work(address: SocketAddr) -> Client {
    let mut client = Client::connect(address);
    client.send(WORKLOAD.as_bytes());
    client.send(&[b'x'; 1_048_577]);
    client.send(b"\r\nversion\r\n");
    while !client.line().starts_with("VERSION ") {}
    client
}

/// `stats`, `stats settings`, …: every name of memcached is there, and those we share are in its
/// order, as tools that read the text top to bottom expect.
fn compare_names(argument: &str) {
    let memcached = Memcached::spawn(&[]);
    let server = evenkeel::server(&[]);
    let theirs = names(&mut work(memcached.address()), argument);
    let ours = names(&mut work(server.address()), argument);
    let known: BTreeSet<&String> = ours.iter().collect();
    let missing: Vec<&String> = theirs
        .iter()
        .filter(|name| !known.contains(name) && !GIVEN_UP.contains(&name.as_str()))
        .collect();
    assert!(missing.is_empty(), "stats {argument} lacks {missing:?}");
    let theirs: Vec<&String> = theirs.iter().filter(|name| known.contains(name)).collect();
    let shared: BTreeSet<&String> = theirs.iter().copied().collect();
    let ours: Vec<&String> = ours.iter().filter(|name| shared.contains(name)).collect();
    assert_eq!(ours, theirs, "stats {argument}: the names in order");
}

#[test]
fn stats_has_the_names_of_memcached_in_order() {
    compare_names("");
}

#[test]
fn plain_stats_has_the_names_of_1_6_45_and_no_others() {
    let server = evenkeel::server(&[]);
    let ours = names(&mut Client::connect(server.address()), "");
    let expected: Vec<&str> = NAMES_OF_1_6_45.split_whitespace().collect();
    assert_eq!(ours, expected);
}

#[test]
fn stats_settings_has_the_names_of_memcached_in_order() {
    compare_names("settings");
}

#[test]
fn stats_counts_as_memcached_does() {
    let memcached = Memcached::spawn(&[]);
    let server = evenkeel::server(&["-t", "2"]);
    let theirs = work(memcached.address()).stats("");
    let ours = work(server.address()).stats("");
    let different: Vec<String> = COUNTERS
        .iter()
        .filter(|name| theirs.get(**name) != ours.get(**name))
        .map(|name| {
            format!(
                "{name}: memcached {:?}, ours {:?}",
                theirs.get(*name),
                ours.get(*name)
            )
        })
        .collect();
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn stats_reset_starts_the_counters_anew() {
    let memcached = Memcached::spawn(&[]);
    let server = evenkeel::server(&["-t", "2"]);
    for (name, address) in [
        ("memcached", memcached.address()),
        ("ours", server.address()),
    ] {
        let mut client = work(address);
        assert_eq!(client.command("stats reset"), "RESET", "{name}");
        let stats = client.stats("");
        for counter in [
            "cmd_get",
            "cmd_set",
            "get_hits",
            "get_misses",
            "total_connections",
        ] {
            assert_eq!(
                stats.get(counter).map(String::as_str),
                Some("0"),
                "{name}: {counter}"
            );
        }
        assert_ne!(
            stats.get("curr_items").map(String::as_str),
            Some("0"),
            "{name}"
        );
    }
}

#[test]
fn stats_items_and_slabs_name_their_classes() {
    let memcached = Memcached::spawn(&[]);
    let server = evenkeel::server(&[]);
    for argument in ["items", "slabs"] {
        // `items:5:number` and `5:chunk_size`: the class differs, the last word is the name.
        let last_words = |address: SocketAddr| -> BTreeSet<String> {
            names(&mut work(address), argument)
                .iter()
                .map(|name| name.rsplit(':').next().unwrap_or(name).to_owned())
                .collect()
        };
        let (theirs, ours) = (
            last_words(memcached.address()),
            last_words(server.address()),
        );
        let missing: Vec<&String> = theirs.difference(&ours).collect();
        assert!(missing.is_empty(), "stats {argument} lacks {missing:?}");
    }
}
