//! What operators ask: lists of items, watching, statistics, the clock, the limit.

use crate::harness::{Client, Server, at, config, map};
use evenkeel_hotkeys::config::Mode;
use evenkeel_hotkeys::settings::Settings;
use evenkeel_server_core::{AdminConfig, ProcessFacts, ProcessRequest};
use evenkeel_types::ServerId;

fn server(workers: u16, admin: AdminConfig) -> Server {
    let mut config = config(workers, false);
    config.admin = admin;
    Server::new(config)
}

/// Asks, and goes on asking until everything was answered: a list may wait for other workers.
fn ask_all(client: &mut Client, server: &mut Server, now: u64, bytes: &str) -> String {
    let mut answer = client.ask(server, at(now), bytes);
    for _ in 0..1000 {
        if ["END\r\n", "EN\r\n", "MN\r\n"]
            .iter()
            .any(|end| answer.ends_with(end))
        {
            break;
        }
        answer += &client.answers(server, at(now));
    }
    answer
}

fn fill(client: &mut Client, server: &mut Server, count: usize) {
    for number in 0..count {
        let line = format!("set key:{number} 7 0 5 noreply\r\nvalue\r\n");
        client.send(server, at(0), line.as_bytes());
    }
}

#[test]
fn a_dump_shows_each_item_of_each_worker_once_and_then_the_next_command_is_heard() {
    let mut server = server(3, AdminConfig::default());
    let mut client = Client::open(&mut server, 1);
    fill(&mut client, &mut server, 3000);
    client.ask(&mut server, at(0), "get key:5\r\n");
    let dump = ask_all(
        &mut client,
        &mut server,
        4000,
        "lru_crawler metadump all\r\n",
    );
    let body = dump
        .strip_prefix("OK\r\n")
        .and_then(|rest| rest.strip_suffix("END\r\n"))
        .expect("a whole dump");
    let mut keys: Vec<&str> = body
        .lines()
        .map(|line| line.split(' ').next().expect("a key"))
        .collect();
    keys.sort_unstable();
    let mut expected: Vec<String> = (0..3000).map(|n| format!("key=key%3A{n}")).collect();
    expected.sort_unstable();
    assert_eq!(keys, expected);
    let read = body
        .lines()
        .find(|line| line.starts_with("key=key%3A5 "))
        .expect("the key that was read");
    assert!(
        read.contains(" exp=-1 ")
            && read.contains(" fetch=yes cls=1 ")
            && read.ends_with(" flags=7 "),
        "{read}"
    );

    let keys = ask_all(
        &mut client,
        &mut server,
        4000,
        "lru_crawler mgdump hash\r\n",
    );
    assert_eq!(keys.matches("mg key:").count(), 3000);
    assert!(keys.ends_with("\r\nEN\r\n"));
    let answer = ask_all(
        &mut client,
        &mut server,
        0,
        "lru_crawler metadump 9\r\nmn\r\n",
    );
    assert_eq!(answer, "OK\r\nEND\r\nMN\r\n");
}

#[test]
fn a_dump_that_nobody_reads_waits_with_a_bounded_amount_of_memory() {
    let mut server = server(2, AdminConfig::default());
    let mut client = Client::open(&mut server, 0);
    fill(&mut client, &mut server, 60_000);
    client.send(&mut server, at(0), b"lru_crawler metadump all\r\nmn\r\n");
    for _ in 0..200 {
        client.turn(&mut server, at(0));
    }
    let waiting = server.workers[0]
        .session(client.id)
        .map_or(0, |session| session.waiting_bytes());
    assert!(
        (1 << 20..2 << 20).contains(&waiting),
        "{waiting} bytes wait"
    );
    let mut dump = client.answers(&mut server, at(0));
    while !dump.ends_with("MN\r\n") {
        dump += &client.answers(&mut server, at(0));
    }
    assert_eq!(dump.matches("key=key%3A").count(), 60_000);
}

#[test]
fn sizes_and_cachedump() {
    let admin = AdminConfig {
        track_sizes: true,
        ..AdminConfig::default()
    };
    let mut server = server(2, admin);
    let mut client = Client::open(&mut server, 0);
    fill(&mut client, &mut server, 100);
    let sizes = ask_all(&mut client, &mut server, 0, "stats sizes\r\n");
    let total: u64 = sizes
        .lines()
        .filter_map(|line| {
            line.strip_prefix("STAT ")?
                .split(' ')
                .nth(1)?
                .parse::<u64>()
                .ok()
        })
        .sum::<u64>();
    assert_eq!(total, 100, "{sizes}");
    let all = ask_all(&mut client, &mut server, 0, "stats cachedump 1 0\r\n");
    assert_eq!(all.matches("ITEM key:").count(), 100);
    assert!(all.contains(" [5 b; 0 s]\r\n"), "{all}");
    let some = ask_all(&mut client, &mut server, 0, "stats cachedump 1 7\r\n");
    assert_eq!(some.matches("ITEM key:").count(), 7);
    for (command, answer) in [
        ("stats cachedump 0 1", "END\r\n"),
        ("stats cachedump 64 1", "CLIENT_ERROR Illegal slab id\r\n"),
        (
            "stats cachedump x 1",
            "CLIENT_ERROR bad command line format\r\n",
        ),
        ("stats cachedump 1", "CLIENT_ERROR bad command line\r\n"),
    ] {
        assert_eq!(
            client.ask(&mut server, at(0), format!("{command}\r\n")),
            answer
        );
    }
}

#[test]
fn items_and_slabs_agree_with_each_other() {
    let mut server = server(2, AdminConfig::default());
    let mut client = Client::open(&mut server, 0);
    fill(&mut client, &mut server, 500);
    let value = "v".repeat(3000);
    let large = format!("set large 0 0 3000\r\n{value}\r\n");
    client.ask(&mut server, at(0), large);
    let items = client.ask(&mut server, at(60_000), "stats items\r\n");
    let slabs = client.ask(&mut server, at(60_000), "stats slabs\r\n");
    for (class, number) in [(1, 500), (7, 1)] {
        for line in [
            format!("STAT items:{class}:number {number}\r\n"),
            format!("STAT items:{class}:age 60\r\n"),
        ] {
            assert!(items.contains(&line), "{line}{items}");
        }
        let line = format!("STAT {class}:used_chunks {number}\r\n");
        assert!(slabs.contains(&line), "{slabs}");
    }
    assert!(slabs.contains("STAT 7:chunk_size 4096\r\nSTAT 7:chunks_per_page 256\r\n"));
    assert!(slabs.contains("STAT active_slabs 2\r\n"), "{slabs}");
}

#[test]
fn what_is_switched_off_is_refused_in_memcacheds_words() {
    let admin = AdminConfig {
        dump: false,
        watch: false,
        cluster_config: false,
        ..AdminConfig::default()
    };
    let mut server = server(1, admin);
    let mut client = Client::open(&mut server, 0);
    for (command, answer) in [
        ("lru_crawler metadump all", "ERROR metadump not allowed\r\n"),
        (
            "lru_crawler metadump bogus",
            "ERROR metadump not allowed\r\n",
        ),
        ("lru_crawler mgdump all", "ERROR key dump not allowed\r\n"),
        (
            "stats cachedump 1 1",
            "CLIENT_ERROR stats cachedump not allowed\r\n",
        ),
        ("stats sizes", "STAT sizes_status disabled\r\nEND\r\n"),
        ("watch bogus", "CLIENT_ERROR watch commands not allowed\r\n"),
        ("shutdown", "ERROR: shutdown not enabled\r\n"),
        ("refresh_certs", "Error TLS not enabled\r\n"),
        ("debugtime p", "ERROR\r\n"),
        ("config get cluster", "ERROR\r\n"),
    ] {
        assert_eq!(
            client.ask(&mut server, at(0), format!("{command}\r\n")),
            answer
        );
    }
    assert_eq!(server.workers[0].poll_process_request(), None);
}

#[test]
fn a_client_may_end_the_process_where_that_is_allowed() {
    let admin = AdminConfig {
        shutdown: true,
        ..AdminConfig::default()
    };
    let mut server = server(1, admin);
    let mut client = Client::open(&mut server, 0);
    let answer = client.ask(&mut server, at(0), "shutdown now\r\n");
    assert_eq!(answer, "CLIENT_ERROR invalid shutdown mode\r\n");
    for (command, request) in [
        ("shutdown\r\n", ProcessRequest::Stop),
        ("shutdown graceful\r\n", ProcessRequest::Drain),
    ] {
        assert_eq!(client.ask(&mut server, at(0), command), "");
        assert_eq!(server.workers[0].poll_process_request(), Some(request));
    }
}

/// What a watcher got so far.
fn seen(watcher: &mut Client, server: &mut Server) -> Vec<String> {
    // Lines take two passes between workers: what has gathered, and what was taken.
    for _ in 0..2 {
        for worker in 0..server.workers.len() {
            while server.workers[worker].poll_touched().is_some() {}
        }
        server.pump(at(0));
    }
    let said = watcher.answers(server, at(0));
    said.lines()
        .map(|line| {
            line.split_once("type=")
                .map_or(line, |(_, rest)| rest)
                .to_owned()
        })
        .collect()
}

#[test]
fn a_watcher_sees_what_happens_at_every_worker() {
    let mut server = server(2, AdminConfig::default());
    let mut watcher = Client::open(&mut server, 0);
    let answer = watcher.ask(&mut server, at(0), "watch fetchers mutations deletions\r\n");
    assert_eq!(answer, "OK\r\n");
    let mut client = Client::open(&mut server, 1);
    for key in ["a", "b", "c", "d:1"] {
        let script = format!(
            "get {key}\r\nset {key} 0 100 5\r\nvalue\r\nadd {key} 0 0 1\r\nx\r\nget {key}\r\ndelete {key}\r\n"
        );
        client.ask(&mut server, at(0), script);
        let shown = key.replace(':', "%3A");
        let miss = format!("item_get key={shown} status=not_found clsid=0 cfd=2 size=0");
        let hit = format!("item_get key={shown} status=found clsid=1 cfd=2 size=5");
        assert_eq!(
            seen(&mut watcher, &mut server),
            [
                miss.clone(),
                miss,
                format!(
                    "item_store key={shown} status=stored cmd=set ttl=100 clsid=1 cfd=2 size=5"
                ),
                hit.clone(),
                format!(
                    "item_store key={shown} status=not_stored cmd=add ttl=0 clsid=0 cfd=2 size=1"
                ),
                hit.clone(),
                hit,
                format!("deleted key={shown} cmd=delete clsid=1 size=5"),
            ]
        );
    }
    let stats = client.ask(&mut server, at(0), "stats\r\n");
    for line in [
        "STAT log_worker_written 32\r\n",
        "STAT log_watcher_sent 32\r\n",
        "STAT log_watchers 1\r\n",
    ] {
        assert!(stats.contains(line), "{line}{stats}");
    }
    // Once it has left, nobody pays for it.
    server.workers[0].close(watcher.id);
    server.pump(at(0));
    client.ask(&mut server, at(0), "get a\r\n");
    let stats = client.ask(&mut server, at(0), "stats\r\n");
    assert!(stats.contains("STAT log_worker_written 32\r\n"));
    assert!(stats.contains("STAT log_watchers 0\r\n"));
}

#[test]
fn a_watcher_that_does_not_read_misses_lines_and_is_told_so() {
    let admin = AdminConfig {
        watcher_log_bytes: 1000,
        ..AdminConfig::default()
    };
    let mut server = server(1, admin);
    let mut watcher = Client::open(&mut server, 0);
    watcher.ask(&mut server, at(0), "watch fetchers\r\n");
    let mut client = Client::open(&mut server, 0);
    for _ in 0..100 {
        client.ask(&mut server, at(0), "get key\r\n");
        while server.workers[0].poll_touched().is_some() {}
    }
    let got = seen(&mut watcher, &mut server).len();
    assert!((5..20).contains(&got), "{got} lines");
    client.ask(&mut server, at(0), "get key\r\n");
    let after = seen(&mut watcher, &mut server);
    assert_eq!(after[0], format!("skipped={}", 100 - got));
    assert_eq!(after.len(), 2);
    let stats = client.ask(&mut server, at(0), "stats\r\n");
    assert!(stats.contains(&format!("STAT log_watcher_skipped {}\r\n", 100 - got)));
}

#[test]
fn watchers_are_counted_over_all_workers() {
    let mut server = server(2, AdminConfig::default());
    let watchers: Vec<Client> = (0..20)
        .map(|number| {
            let mut watcher = Client::open(&mut server, number % 2);
            let answer = watcher.ask(&mut server, at(0), "watch evictions\r\n");
            assert_eq!(answer, "OK\r\n");
            watcher
        })
        .collect();
    let mut one_more = Client::open(&mut server, 1);
    assert_eq!(
        one_more.ask(&mut server, at(0), "watch\r\n"),
        "WATCHER_TOO_MANY log watcher limit reached\r\n"
    );
    server.workers[0].close(watchers[0].id);
    server.pump(at(0));
    assert_eq!(one_more.ask(&mut server, at(0), "watch\r\n"), "OK\r\n");
}

#[test]
fn connections_come_and_go_in_the_log() {
    let mut server = server(1, AdminConfig::default());
    let mut watcher = Client::open(&mut server, 0);
    watcher.ask(&mut server, at(0), "watch connevents\r\n");
    let client = Client::open(&mut server, 0);
    server.workers[0].close(client.id);
    assert_eq!(
        seen(&mut watcher, &mut server),
        [
            "conn_new rip=unix rport=0 transport=local cfd=2",
            "conn_close rip=unix rport=0 transport=local reason=normal cfd=2"
        ]
    );
}

#[test]
fn evictions_are_watched() {
    let mut server = server(1, AdminConfig::default());
    let mut watcher = Client::open(&mut server, 0);
    watcher.ask(&mut server, at(0), "watch evictions\r\n");
    let mut client = Client::open(&mut server, 0);
    let value = "v".repeat(100_000);
    for number in 0..600 {
        let set = format!("set key{number} 0 0 100000 noreply\r\n{value}\r\n");
        client.send(&mut server, at(0), set.as_bytes());
    }
    let lines = seen(&mut watcher, &mut server);
    assert!(lines.len() > 100, "{} lines", lines.len());
    assert!(
        lines[0].starts_with("eviction key=key")
            && lines[0].contains(" fetch=no ttl=-1 la=0 clsid=12 size=100"),
        "{}",
        lines[0]
    );
}

#[test]
fn commands_are_counted_by_prefix_at_every_worker() {
    let mut server = server(2, AdminConfig::default());
    let mut client = Client::open(&mut server, 0);
    assert_eq!(
        client.ask(&mut server, at(0), "stats detail\r\n"),
        "CLIENT_ERROR usage: stats detail on|off|dump\r\n"
    );
    client.ask(&mut server, at(0), "get p:0\r\n");
    assert_eq!(
        client.ask(&mut server, at(0), "stats detail on\r\n"),
        "OK\r\n"
    );
    for number in 0..10 {
        let script = format!(
            "set p:{number} 0 0 1\r\nx\r\nget p:{number} q:{number}\r\ndelete p:{number}\r\nget plain\r\n"
        );
        client.ask(&mut server, at(0), script);
    }
    let dump =
        "PREFIX p get 10 hit 10 set 10 del 10\r\nPREFIX q get 10 hit 0 set 0 del 0\r\nEND\r\n";
    assert_eq!(
        client.ask(&mut server, at(0), "stats detail dump\r\n"),
        dump
    );
    client.ask(&mut server, at(0), "stats detail off\r\nget p:1\r\n");
    assert_eq!(
        client.ask(&mut server, at(0), "stats detail dump\r\n"),
        dump
    );
    client.ask(&mut server, at(0), "stats reset\r\n");
    assert_eq!(
        client.ask(&mut server, at(0), "stats detail dump\r\n"),
        "END\r\n"
    );
}

#[test]
fn connections_are_listed_with_what_they_do() {
    let mut server = server(2, AdminConfig::default());
    for worker in &mut server.workers {
        worker.set_process_facts(ProcessFacts {
            listeners: vec!["tcp:127.0.0.1:11211".into()],
            ..ProcessFacts::default()
        });
    }
    let mut watcher = Client::open(&mut server, 1);
    watcher.ask(&mut server, at(0), "watch\r\n");
    let mut client = Client::open(&mut server, 0);
    let conns = client.ask(&mut server, at(9000), "stats conns\r\n");
    for line in [
        "STAT 1:addr tcp:127.0.0.1:11211\r\nSTAT 1:state conn_listening\r\n",
        "STAT 3:addr unix\r\nSTAT 3:listen_addr tcp:127.0.0.1:11211\r\nSTAT 3:state conn_watch\r\nSTAT 3:secs_since_last_cmd 9\r\n",
        "STAT 2:addr unix\r\nSTAT 2:listen_addr tcp:127.0.0.1:11211\r\nSTAT 2:state conn_parse_cmd\r\nSTAT 2:secs_since_last_cmd 0\r\n",
    ] {
        assert!(conns.contains(line), "{line}{conns}");
    }
    assert!(conns.ends_with("END\r\n"));
}

#[test]
fn the_list_of_servers_is_told_in_both_ways() {
    let mut server = server(2, AdminConfig::default());
    let mut client = Client::open(&mut server, 0);
    assert_eq!(
        client.ask(&mut server, at(0), "config get cluster\r\n"),
        "ERROR\r\n"
    );
    for worker in &mut server.workers {
        worker.set_process_facts(ProcessFacts {
            address: Some(("10.0.0.7".into(), 11211)),
            ..ProcessFacts::default()
        });
    }
    assert_eq!(
        client.ask(&mut server, at(0), "config get cluster\r\n"),
        "CONFIG cluster 0 26\r\n1\n10.0.0.7|10.0.0.7|11211\n\r\nEND\r\n"
    );
    assert_eq!(
        client.ask(&mut server, at(0), "get AmazonElastiCache:cluster\r\n"),
        "VALUE AmazonElastiCache:cluster 0 26\r\n1\n10.0.0.7|10.0.0.7|11211\n\r\nEND\r\n"
    );
    assert_eq!(
        client.ask(&mut server, at(0), "config get other\r\n"),
        "ERROR\r\n"
    );
    // Anyone who stores something under the name finds it again.
    client.ask(
        &mut server,
        at(0),
        "set AmazonElastiCache:cluster 0 0 1\r\nx\r\n",
    );
    assert_eq!(
        client.ask(&mut server, at(0), "get AmazonElastiCache:cluster\r\n"),
        "VALUE AmazonElastiCache:cluster 0 1\r\nx\r\nEND\r\n"
    );
}

#[test]
fn a_server_of_a_cluster_gives_no_list_of_servers() {
    let mut config = config(1, true);
    config.admin = AdminConfig::default();
    let mut server = Server::new(config);
    server.workers[0].set_process_facts(ProcessFacts {
        address: Some(("10.0.0.7".into(), 11211)),
        ..ProcessFacts::default()
    });
    assert!(server.workers[0].handle_map(at(0), &map(1, 1), ServerId(1)));
    let mut client = Client::open(&mut server, 0);
    let told =
        |server: &mut Server, client: &mut Client, words: &str| client.ask(server, at(0), words);
    assert_eq!(
        told(&mut server, &mut client, "config get cluster\r\n"),
        "ERROR\r\n"
    );
    let key = "get AmazonElastiCache:cluster\r\n";
    let said = told(&mut server, &mut client, key);
    assert!(!said.contains("10.0.0.7"), "{said}");
}

#[test]
fn the_clusters_settings_are_shown_as_they_are_active() {
    let mut server = Server::new(config(1, true));
    assert!(server.workers[0].handle_map(at(0), &map(1, 1), ServerId(1)));
    let mut client = Client::open(&mut server, 0);
    let mut shows = |server: &mut Server, line: &str| {
        let shown = client.ask(server, at(10), "stats settings\r\n");
        assert!(shown.contains(&format!("STAT {line}\r\n")), "{shown}");
    };
    shows(&mut server, "hot_sampling default");
    shows(&mut server, "hot_keys_consistency lease");
    server.workers[0].handle_settings(
        at(10),
        &Settings {
            hot_keys: Mode::Observe,
            hot_sampling: Some(2.5),
            ..Settings::default()
        },
    );
    shows(&mut server, "hot_keys observe");
    shows(&mut server, "hot_sampling 2.5");
}

#[test]
fn the_memory_limit_changes_at_run_time() {
    let mut server = server(2, AdminConfig::default());
    let mut client = Client::open(&mut server, 0);
    assert_eq!(
        client.ask(&mut server, at(0), "cache_memlimit 8\r\n"),
        "OK\r\n"
    );
    assert_eq!(
        client.ask(&mut server, at(0), "cache_memlimit 16 noreply\r\n"),
        ""
    );
    let stats = client.ask(&mut server, at(0), "stats\r\n");
    assert!(
        stats.contains("STAT limit_maxbytes 16777216\r\n"),
        "{stats}"
    );
}

#[test]
fn a_reset_starts_evictions_and_classes_anew() {
    let mut server = server(1, AdminConfig::default());
    let mut client = Client::open(&mut server, 0);
    let value = "v".repeat(100_000);
    for number in 0..600 {
        let set = format!("set key{number} 0 0 100000 noreply\r\n{value}\r\n");
        client.send(&mut server, at(0), set.as_bytes());
    }
    let evicted = |client: &mut Client, server: &mut Server| {
        let stats = client.ask(server, at(0), "stats\r\n");
        let items = client.ask(server, at(0), "stats items\r\n");
        (
            stats.contains("STAT evictions 0\r\n"),
            items.contains("STAT items:12:evicted 0\r\n"),
        )
    };
    assert_eq!(evicted(&mut client, &mut server), (false, false));
    client.ask(&mut server, at(0), "stats reset\r\n");
    assert_eq!(evicted(&mut client, &mut server), (true, true));
}
