//! Which keys get replicas, and how many.

use super::*;

#[test]
fn a_popular_key_of_a_loaded_worker_is_replicated_and_then_leased() {
    let mut home = Home::new(config());
    home.read_for(490);
    assert_eq!(home.state(), State::Cold);
    assert_eq!(home.read(), ReadAdvice::default());
    home.read_for(20);
    assert_eq!(home.state(), State::HotPending);
    assert_eq!(
        home.read(),
        ReadAdvice {
            gamma: 0,
            left: None,
            replicated: true,
        }
    );
    let sent = home.sent();
    let targets: Vec<WorkerRef> = sent.iter().map(|s| s.2).collect();
    assert_eq!(targets, renaming::shadows(&map(|_| {}), KEY, ME.server, 3));
    assert!(sent.iter().all(|s| s.0));
    home.confirm(&sent[..2]);
    assert_eq!(home.read().gamma, 0, "one replica is still missing");
    home.confirm(&sent[2..]);
    assert_eq!(
        home.read(),
        ReadAdvice {
            gamma: 3,
            left: None,
            replicated: true,
        }
    );
    assert!(home.sent().is_empty());
}

#[test]
fn a_key_that_is_hot_enough_is_at_every_worker_of_the_other_servers() {
    let of_two_workers = map(|document| {
        let servers = document.servers.iter_mut();
        servers.for_each(|server| server.worker_ports = vec![1, 2]);
    });
    let mut home = Home::new(config());
    home.hot.handle_map(home.now(), of_two_workers.clone(), ME);
    home.read_for(1010);
    let targets: Vec<WorkerRef> = home.sent().iter().map(|sent| sent.2).collect();
    assert_eq!(
        targets,
        renaming::shadows(&of_two_workers, KEY, ME.server, 6)
    );
    assert_eq!(targets.len(), 6, "two at each of three others");
}

#[test]
fn a_key_that_is_written_too_much_loses_its_replicas() {
    let mut home = Home::hot();
    for _ in 0..300 {
        // At home, for each of the four copies one.
        home.read();
        for _ in 0..2 {
            home.write(WriteKind::Update);
            let sent = home.sent();
            home.confirm(&sent);
        }
        home.pass(10);
    }
    assert_eq!(home.count(Event::WriteHeavy), 1);
    assert_eq!(
        home.count(Event::Promoted),
        1,
        "reads alone would have kept it hot"
    );
    assert_eq!(home.state(), State::Cold);
}

#[test]
fn three_reads_to_a_write_balance_to_nothing() {
    let mut home = Home::new(config());
    for i in 0..3000 {
        if i % 4 == 0 {
            home.write(WriteKind::Update);
        } else {
            home.read();
        }
        home.pass(1);
    }
    assert_eq!(home.count(Event::Promoted), 0);
}

#[test]
fn a_key_is_promoted_only_up_to_the_first_shadow_that_was_lost_a_moment_ago() {
    let mut home = Home::new(config());
    let shadows = renaming::shadows(&map(|_| {}), KEY, ME.server, 3);
    home.read_for(480);
    home.hot.handle_link_lost(home.now(), shadows[2]);
    home.read_for(40);
    assert_eq!(home.hot.list()[0].shadows, shadows[..2]);
}

#[test]
fn a_key_whose_first_shadow_was_lost_waits() {
    let mut home = Home::new(config());
    let shadows = renaming::shadows(&map(|_| {}), KEY, ME.server, 3);
    home.read_for(480);
    home.hot.handle_link_lost(home.now(), shadows[0]);
    home.read_for(1000);
    assert_eq!(home.state(), State::Cold);
    assert!(home.hot.stats().unpromoted_alone > 0);
    home.hot.handle_link_up(shadows[0]);
    home.read_for(20);
    assert_eq!(home.state(), State::HotPending);
}

#[test]
fn a_key_that_gets_much_hotter_gets_more_replicas_in_place() {
    for written in [false, true] {
        let mut home = Home::new(HotKeysConfig {
            gamma_max: 3,
            ..config()
        });
        home.hot.handle_cluster_load(2000.0);
        home.read_for(1010);
        let first = home.sent();
        assert_eq!(first.len(), 1, "100 reads a second are 5 % of a fair load");
        home.confirm(&first);
        if written {
            home.write(WriteKind::Update);
            assert_eq!(home.state(), State::HotPending, "until it is confirmed");
        }
        for _ in 0..600 {
            home.read();
            home.pass(1);
        }
        assert_eq!(
            (home.state(), home.count(Event::Widened)),
            (State::HotPending, 1)
        );
        let more = home.sent();
        let of_first = more.iter().filter(|s| s.2 == first[0].2).count();
        assert_eq!((of_first, more.len()), (usize::from(written), 2 + of_first));
        home.confirm(&more);
        assert_eq!((home.state(), home.read().gamma), (State::Hot, 3));
    }
}

#[test]
fn a_key_that_needs_another_copy_gets_it() {
    // The home's share of 100 and of 154 reads a second, of which a copy is to serve 60; and of 125, which may be chance.
    for (every_ms, needed) in [(20, 2), (16, 2), (13, 3)] {
        let mut home = Home::new(config());
        home.hot.handle_cluster_load(2000.0);
        home.read_for(1010);
        let copies = |home: &Home| home.hot.list()[0].shadows.len() + 1;
        for _ in 0..4000 / every_ms {
            let stores = home.sent();
            home.confirm(&stores);
            if copies(&home) > 2 {
                break;
            }
            home.read();
            home.pass(every_ms);
        }
        assert_eq!(copies(&home), needed);
    }
}

#[test]
fn an_idle_worker_samples_and_replicates_nothing() {
    let trigger = TriggerConfig {
        absolute_rps: Some(1000.0),
        ..TriggerConfig::default()
    };
    let mut home = Home::new(HotKeysConfig {
        trigger,
        ..config()
    });
    home.read_for(3000);
    assert!(!home.hot.is_triggered());
    assert_eq!(home.hot.stats().reads_sampled, 0);
    assert!(home.hot.list().is_empty());
    assert!((home.hot.load() - 100.0).abs() < 5.0);
}

/// One second of a worker with the settings that nobody chose: this many reads each millisecond, every
/// twentieth of them of [`KEY`], and that part of the time asleep.
fn with_defaults(reads_per_ms: u64, mean_rps: f64, asleep: f64) -> Home {
    let mut home = Home::new(HotKeysConfig::default());
    home.hot.handle_cluster_load(mean_rps);
    for i in 0..1000 * reads_per_ms {
        if i % 20 == 0 {
            home.read();
        } else {
            let key = format!("other{}", i % 10_007);
            home.read_as(key.as_bytes(), Reader::Aware { epoch: EPOCH }, true);
        }
        if i % reads_per_ms == 0 {
            home.hot.handle_slept(Duration::from_secs_f64(asleep / 1e3));
            home.pass(1);
        }
    }
    home
}

#[test]
fn a_worker_that_has_just_begun_tells_no_load() {
    let home = Home::new(config());
    assert_eq!(home.hot.busy(), 0.0, "not measured yet");
}

#[test]
fn a_small_worker_that_is_busy_replicates_its_hot_keys() {
    let home = with_defaults(1, 800.0, 0.2);
    assert!(home.hot.is_triggered());
    assert!((home.hot.busy() - 0.8).abs() < 0.01);
    assert_eq!(home.state(), State::HotPending);
    assert_eq!(home.count(Event::Promoted), 1, "the others are not hot");
    let sampled = home.hot.stats().reads_sampled;
    assert!(sampled > 500, "all while it looks: {sampled}");
}

/// At whatever part of a slot it becomes hot: nobody asked for it before, and from one moment on it is 40 % of what a busy
/// worker is asked for.
#[test]
fn the_first_copies_of_a_key_that_becomes_hot_are_asked_for_within_300_ms() {
    for begun_after in (0..SLOT.as_millis() as u64).step_by(10) {
        let mut home = Home::new(HotKeysConfig::default());
        home.hot.handle_cluster_load(1_000.0);
        let hot_from = 3_000 + begun_after;
        while home.sent().is_empty() {
            let since = home.ms.checked_sub(hot_from);
            assert!(since <= Some(300), "not within {since:?} ms: {begun_after}");
            for i in 0..5 {
                let other = format!("other{}", (home.ms * 5 + i) % 10_007);
                let key = match since.is_some() && i < 2 {
                    true => KEY,
                    false => other.as_bytes(),
                };
                home.read_as(key, Reader::Aware { epoch: EPOCH }, true);
            }
            home.hot.handle_slept(Duration::from_micros(200));
            home.pass(1);
        }
        assert_eq!(home.count(Event::Promoted), 1, "the others are not hot");
    }
}

#[test]
fn a_big_worker_that_mostly_sleeps_does_nothing() {
    let home = with_defaults(20, 10_000.0, 0.8);
    assert!(!home.hot.is_triggered());
    assert_eq!(home.hot.stats().reads_sampled, 0);
    let busy = with_defaults(20, 10_000.0, 0.5);
    assert_eq!(busy.state(), State::HotPending);
    // Three slots after the first, at a thousand in each.
    let sampled = busy.hot.stats().reads_sampled;
    assert!((1500..4000).contains(&sampled), "{sampled}");
}

#[test]
fn a_worker_full_of_other_homes_replicas_diverts_its_own_reads() {
    let trigger = TriggerConfig {
        absolute_rps: Some(150.0),
        ..TriggerConfig::default()
    };
    let mut home = Home::new(HotKeysConfig {
        trigger,
        ..config()
    });
    // 100 reads a second of its own do not load it …
    home.read_for(3000);
    assert!(!home.hot.is_triggered());
    // … but with as many of replicas beside them it is loaded, and has something to give away.
    for _ in 0..100 {
        home.read();
        home.hot.handle_replica_read(0);
        home.pass(10);
    }
    assert!(home.hot.is_triggered());
    assert_eq!(home.state(), State::HotPending);
    // Replica reads are no load that replication of its own keys could divert.
    assert!((home.hot.load() - 100.0).abs() < 5.0);
}

#[test]
fn a_large_value_is_hotter_than_a_small_one_that_is_read_twice_as_often() {
    let mut home = Home::new(HotKeysConfig {
        hot_share: 0.5,
        cold_share: 0.25,
        ..config()
    });
    let (hash, reader) = (KeyHash::of(b"small"), Reader::Aware { epoch: EPOCH });
    // Less than a lease from its promotion on, after which the shadows would count as silent.
    for _ in 0..100 {
        for _ in 0..2 {
            let now = home.now();
            home.hot.handle_read(now, hash, b"small", reader, Some(100));
        }
        let (now, hash) = (home.now(), KeyHash::of(KEY));
        home.hot
            .handle_read(now, hash, KEY, reader, Some(100 << 10));
        home.pass(10);
    }
    assert_eq!(home.state(), State::HotPending);
    assert_eq!(home.state_of(b"small"), State::Cold);
    let list = home.hot.list();
    assert_eq!(list[0].key, KEY, "the greatest load comes first");
    // Of one second, a quarter is missing.
    assert!((list[0].requests_per_second - 87.5).abs() < 2.0);
    assert!((list[0].load - 26.0 * list[0].requests_per_second).abs() < 1.0);
    let load = home.hot.load();
    assert!((load - 2805.0).abs() < 50.0, "{load}");
}

#[test]
fn writes_count_by_their_values_too() {
    let mut home = Home::new(config());
    for _ in 0..300 {
        home.write(WriteKind::Update);
        home.hot.handle_stored(40_960);
        home.pass(10);
    }
    let load = home.hot.load();
    assert!((load - 1100.0).abs() < 20.0, "{load}");
}

#[test]
fn diverted_reads_keep_the_trigger_on() {
    let trigger = TriggerConfig {
        absolute_rps: Some(80.0),
        ..TriggerConfig::default()
    };
    let mut home = Home::hot_with(HotKeysConfig {
        trigger,
        ..config()
    });
    // A quarter of the reads still comes here.
    for _ in 0..200 {
        home.read();
        home.pass(40);
    }
    assert!(home.hot.is_triggered() && home.state() == State::Hot);
    let rate = home.hot.list()[0].requests_per_second;
    assert!((rate - 100.0).abs() < 15.0, "{rate}");
    // Unaware readers are not diverted: nothing is made up for them.
    for _ in 0..200 {
        home.read_as(KEY, Reader::Unaware, true);
        home.pass(40);
    }
    assert!(!home.hot.is_triggered());
    assert!((home.hot.load() - 25.0).abs() < 5.0);
}

#[test]
fn a_full_cache_evicts_the_least_recently_used_cold_key_and_no_other() {
    let mut home = Home::hot();
    let aware = Reader::Aware { epoch: EPOCH };
    for key in [b"a", b"b", b"c", b"d"] {
        home.read_as(key, aware, true);
    }
    assert_eq!(home.state_of(b"a"), State::Invalid);
    assert_eq!(home.state(), State::Hot);
    home.read_as(b"b", aware, true);
    home.read_as(b"e", aware, true);
    assert_eq!(home.state_of(b"c"), State::Invalid);
    assert_eq!(home.state_of(b"b"), State::Cold);
    assert_eq!(home.hot.list().len(), 4);
}

#[test]
fn a_cache_full_of_hot_keys_takes_no_more() {
    let mut home = Home::hot_with(HotKeysConfig {
        entries_max: 1,
        replicated_max: 1,
        ..config()
    });
    home.read_as(b"a", Reader::Unaware, true);
    assert_eq!(home.state_of(b"a"), State::Invalid);
    assert_eq!(home.hot.stats().untracked_full, 1);
}

#[test]
fn no_more_than_the_allowed_number_of_keys_is_replicated() {
    let mut home = Home::hot_with(HotKeysConfig {
        replicated_max: 1,
        ..config()
    });
    // A second key of this worker.
    let map = map(|_| {});
    let at_home = |i: &u32| map.locate(KeyHash::of(format!("k{i}").as_bytes())).worker == Some(ME);
    let other = format!("k{}", (0..).find(at_home).unwrap()).into_bytes();
    for _ in 0..200 {
        home.read();
        home.read_as(&other, Reader::Aware { epoch: EPOCH }, true);
        home.pass(10);
    }
    assert_eq!(home.state_of(&other), State::Cold);
    assert!(home.hot.stats().unpromoted_full > 0);
    assert_eq!(home.hot.replicated_count(), 1);
}

#[test]
fn keys_that_are_absent_are_neither_tracked_nor_promoted() {
    let mut home = Home::new(config());
    for _ in 0..200 {
        home.read_as(KEY, Reader::Aware { epoch: EPOCH }, false);
        home.pass(10);
    }
    assert!(home.hot.is_triggered());
    assert_eq!(home.state(), State::Invalid);
}

#[test]
fn a_key_that_only_unaware_clients_read_gets_no_replicas() {
    let mut home = Home::new(config());
    for _ in 0..200 {
        home.read_as(KEY, Reader::Unaware, true);
        home.pass(10);
    }
    assert_eq!(home.state(), State::Cold);
    home.read();
    assert_eq!(home.state(), State::HotPending);
}

#[test]
fn a_lone_server_has_nobody_to_replicate_to() {
    let mut home = Home::new(config());
    let alone = map(|d| {
        d.servers[1..]
            .iter_mut()
            .for_each(|server| server.up = false)
    });
    home.hot.handle_map(home.now(), alone, ME);
    home.read_for(1100);
    assert_eq!(home.state(), State::Cold);
    assert!(home.hot.stats().unpromoted_alone > 0);
}

#[test]
fn reads_that_were_answered_with_what_others_had_read_count_for_a_key_and_its_load() {
    let heat = |collapsed| {
        let mut home = Home::new(config());
        for _ in 0..101 {
            home.hot.handle_elsewhere(KeyHash::of(KEY), KEY, collapsed);
            home.read();
            // Nine reads to a write, as the home sees them.
            home.write(WriteKind::Update);
            home.pass(10);
        }
        (home.state(), home.hot.loads().undiverted)
    };
    let [(alone, few), (among_others, many)] = [0, 20].map(heat);
    assert_eq!((alone, among_others), (State::Cold, State::HotPending));
    assert!(many > 5.0 * few, "{many} {few}");
}
