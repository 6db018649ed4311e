use super::*;
use evenkeel_placement::config::{PlacementConfig, Server};

const T0: Instant = Instant::from_millis(1_000_000);

fn at(ms: u64) -> Instant {
    T0 + Duration::from_millis(ms)
}

fn placement(servers: u16) -> Placement {
    let servers = (0..servers).map(|i| Server::new("h", 1 + i));
    let config = PlacementConfig {
        servers: servers.collect(),
        ..PlacementConfig::default()
    };
    Placement::new(&config).unwrap()
}

fn hot_keys(change: impl FnOnce(&mut PlainConfig)) -> PlainHotKeys {
    let mut config = PlainConfig {
        mode: PlainMode::On,
        sampling: Some(1.0),
        ..PlainConfig::default()
    };
    change(&mut config);
    PlainHotKeys::new(config, 1, T0).unwrap()
}

/// A second of reads, of `hot` as many as said and of others one each, and the slots that end in it.
fn one_second(keys: &mut PlainHotKeys, from: u64, hot: u32, others: u32) {
    let slot_ms = SLOT.as_millis() as u64;
    let slots = 1000 / slot_ms;
    for slot in 1..=slots {
        for _ in 0..u64::from(hot) / slots {
            keys.handle_read(HOT);
        }
        for i in 0..u64::from(others) / slots {
            let key = format!("other{i}");
            keys.handle_read(key.as_bytes());
        }
        keys.handle_timeout(at(from + slot * slot_ms), &placement(4));
    }
}

const HOT: &[u8] = b"hot";

fn hash() -> KeyHash {
    KeyHash::of(HOT)
}

fn found(value: &[u8]) -> Found<'_> {
    Found::Value {
        flags: 0,
        value,
        cas: Some(Version(7)),
        recaching: Recaching::Untold,
    }
}

fn name(value: &[u8]) -> NamePrefix {
    NamePrefix::of(0, value)
}

/// Hot at 1000 ms, with three replicas.
fn hot() -> PlainHotKeys {
    let mut keys = hot_keys(|_| {});
    one_second(&mut keys, 0, 1000, 1000);
    assert!(keys.is_tracked(hash(), HOT));
    keys
}

#[test]
fn keys_become_hot_by_their_share_and_cool_again() {
    let mut keys = hot_keys(|_| {});
    assert_eq!(keys.plan(at(0), hash(), HOT, Wants::VALUE), Plan::Untracked);
    one_second(&mut keys, 0, 20, 10_000);
    assert_eq!(keys.replicated_count(), 0, "too small a share");
    one_second(&mut keys, 1000, 1000, 1000);
    assert_eq!(keys.plan(at(2000), hash(), HOT, Wants::VALUE), Plan::Home);
    assert_eq!(keys.replicated_count(), 1, "the others are not hot");
    let list = keys.list(at(2000));
    assert_eq!((&list[0].key[..], list[0].gamma), (HOT, 3));
    assert!((0.2..0.6).contains(&list[0].share), "{:?}", list[0]);
    for second in 2..8 {
        one_second(&mut keys, 1000 * second, 10, 2000);
    }
    assert_eq!(
        keys.plan(at(8000), hash(), HOT, Wants::VALUE),
        Plan::Untracked
    );
    let stats = keys.take_stats();
    assert_eq!((stats.promoted, stats.cooled), (1, 1));
}

#[test]
fn a_key_that_is_often_written_or_seldom_read_is_not_replicated() {
    let mut keys = hot_keys(|_| {});
    for _ in 0..500 {
        keys.handle_read(HOT);
    }
    for _ in 0..60 {
        keys.handle_write(at(1), HOT);
    }
    keys.handle_timeout(at(500), &placement(4));
    assert_eq!(keys.replicated_count(), 0);
    let mut alone = hot_keys(|_| {});
    for _ in 0..500 {
        alone.handle_read(HOT);
    }
    alone.handle_timeout(at(500), &placement(1));
    assert_eq!(alone.replicated_count(), 0, "there is nowhere to go");
}

#[test]
fn a_key_that_is_hot_in_the_sum_of_many_proxies_is_replicated_where_it_is_read_ten_times_a_lease() {
    // Each of the proxies sees the same share of it.
    let mut keys = hot_keys(|config| config.sampling = None);
    one_second(&mut keys, 0, 20, 200);
    assert!(keys.is_tracked(hash(), HOT), "a fifth of a server's share");
    for second in 1..5 {
        one_second(&mut keys, 1000 * second, 4, 40);
    }
    assert_eq!(keys.replicated_count(), 0, "the home is asked as often");
}

#[test]
fn a_worker_looks_at_all_of_few_reads_and_at_few_of_many() {
    let mut keys = hot_keys(|config| config.sampling = None);
    one_second(&mut keys, 0, 100, 100);
    assert_eq!(keys.take_stats().reads_sampled, 200);
    for second in 1..4 {
        one_second(&mut keys, 1000 * second, 100_000, 0);
    }
    keys.take_stats();
    one_second(&mut keys, 4000, 100_000, 0);
    let looks = keys.take_stats().reads_sampled;
    assert!((2000..4500).contains(&looks), "{looks}");
}

#[test]
fn observing_finds_keys_and_changes_nothing() {
    let mut keys = hot_keys(|config| config.mode = PlainMode::Observe);
    one_second(&mut keys, 0, 1000, 1000);
    assert_eq!(keys.list(at(1000))[0].key, HOT);
    assert_eq!(
        keys.plan(at(1000), hash(), HOT, Wants::VALUE),
        Plan::Untracked
    );
}

#[test]
fn off_counts_nothing() {
    let mut keys = hot_keys(|config| config.mode = PlainMode::Off);
    for _ in 0..100 {
        keys.handle_read(HOT);
        keys.handle_write(at(0), HOT);
    }
    assert!(keys.list(at(0)).is_empty());
}

#[test]
fn limits_of_keys_and_values_are_counted() {
    let long = vec![b'k'; HOT_KEY_LEN_MAX + 1];
    let mut keys = hot_keys(|_| {});
    for _ in 0..500 {
        keys.handle_read(&long);
    }
    keys.handle_timeout(at(500), &placement(4));
    assert_eq!(
        (keys.replicated_count(), keys.take_stats().unpromoted_long),
        (0, 1)
    );
    let mut keys = hot();
    let value = vec![0; REPLICA_VALUE_LEN_MAX + 1];
    keys.handle_home(hash(), HOT, at(1001), true, found(&value));
    assert_eq!(keys.take_stats().values_too_long, 1);
    assert_eq!(keys.plan(at(1002), hash(), HOT, Wants::VALUE), Plan::Home);
    for (servers, most) in [(4, 64), (12, 96), (64, 256)] {
        let mut keys = hot_keys(|config| {
            config.hot_share = 0.001;
            config.cold_share = 0.0;
        });
        for i in 0..most + 3 {
            let key = format!("k{i}");
            for _ in 0..100 {
                keys.handle_read(key.as_bytes());
            }
        }
        keys.handle_timeout(at(500), &placement(servers));
        assert_eq!(keys.replicated_count(), most);
        assert_eq!(keys.take_stats().unpromoted_full, 3);
    }
}

#[test]
fn the_homes_answer_is_the_truth_for_a_lease_and_is_renewed_by_one_read() {
    let mut keys = hot();
    let first = keys.handle_home(hash(), HOT, at(1010), true, found(b"v"));
    // 950 ms from when the read was sent.
    let lease = Plan::Lease {
        gamma: 3,
        until: at(1960),
    };
    assert_eq!(keys.plan(at(1020), hash(), HOT, Wants::VALUE), lease);
    assert_eq!(keys.plan(at(1480), hash(), HOT, Wants::VALUE), lease);
    assert_eq!(
        keys.plan(at(1490), hash(), HOT, Wants::VALUE),
        Plan::Home,
        "renews it"
    );
    assert_eq!(
        keys.plan(at(1491), hash(), HOT, Wants::VALUE),
        lease,
        "one does"
    );
    assert_eq!(
        keys.plan(at(1959), hash(), HOT, Wants::VALUE),
        Plan::Home,
        "another try"
    );
    assert_eq!(keys.plan(at(1960), hash(), HOT, Wants::VALUE), Plan::Home);
    assert_eq!(keys.plan(at(1961), hash(), HOT, Wants::VALUE), Plan::Home);
    let second = keys.handle_home(hash(), HOT, at(1490), true, found(b"v"));
    assert_eq!(first, second, "nothing has changed");
    assert!(matches!(
        keys.plan(at(1962), hash(), HOT, Wants::VALUE),
        Plan::Lease { .. }
    ));
    assert!(keys.handle_home(hash(), HOT, at(1970), true, found(b"w")) > second);
}

#[test]
fn a_copy_is_asked_once_filled_and_then_read() {
    let mut keys = hot();
    keys.handle_home(hash(), HOT, at(1010), true, found(b"v"));
    assert_eq!(keys.poll_fill(at(1011), hash()), None, "others may have");
    let (server, content) = keys.copy(at(1012), hash(), 1).unwrap();
    assert_eq!(content, name(b"v"));
    assert_eq!(keys.copy(at(1013), hash(), 1), None, "is being asked");
    assert!(keys.copy(at(1013), hash(), 2).is_some(), "another one");
    assert_eq!(keys.copy(at(1013), hash(), 0), None, "the home itself");
    assert_eq!(keys.copy(at(1013), hash(), 4), None, "there are three");
    keys.handle_copy_missing(hash(), 1, content.as_bytes(), at(1012));
    assert_eq!(keys.copy(at(1014), hash(), 1), None, "it is not there");
    keys.handle_home(hash(), HOT, at(1014), true, found(b"v"));
    let fill = keys.poll_fill(at(1015), hash()).unwrap();
    assert_eq!((fill.server, fill.suffix, fill.name), (server, 1, content));
    assert_eq!(keys.poll_fill(at(1015), hash()), None);
    assert_eq!(keys.copy(at(1015), hash(), 1), Some((server, content)));
    // One that was asked before it was stored.
    keys.handle_copy_missing(hash(), 1, content.as_bytes(), at(1013));
    assert_eq!(keys.copy(at(1016), hash(), 1), Some((server, content)));
    let number = keys.handle_copy_found(hash(), 2, content.as_bytes(), Wants::VALUE);
    assert!(number.is_some());
    assert!(keys.copy(at(1016), hash(), 2).is_some());
    assert!(keys.copy(at(1016), hash(), 2).is_some());
    // Half of its life is over.
    keys.handle_home(hash(), HOT, at(6020), true, found(b"v"));
    let again = keys.poll_fill(at(6021), hash()).unwrap();
    assert_eq!(again, fill, "by who stored it");
    assert_eq!(keys.poll_fill(at(6021), hash()), None);
}

#[test]
fn copies_of_what_this_worker_wrote_are_stored_without_looking_for_them() {
    let mut keys = hot();
    let fills = |keys: &mut PlainHotKeys, ms| {
        core::iter::from_fn(|| keys.poll_fill(at(ms), hash())).count()
    };
    keys.handle_home(hash(), HOT, at(1010), true, found(b"v"));
    assert_eq!(fills(&mut keys, 1011), 0, "others may have stored it");
    keys.handle_write(at(1020), HOT);
    keys.handle_home(hash(), HOT, at(1019), true, found(b"v"));
    assert_eq!(fills(&mut keys, 1021), 0, "read before the write");
    keys.handle_home(hash(), HOT, at(1021), true, found(b"w"));
    assert_eq!(fills(&mut keys, 1022), 3);
    assert!(keys.copy(at(1022), hash(), 1).is_some());
    keys.handle_home(hash(), HOT, at(1030), true, found(b"x"));
    assert_eq!(fills(&mut keys, 1031), 0, "somebody else's");
    keys.handle_write(at(1040), HOT);
    keys.handle_home(hash(), HOT, at(1041), true, found(b"x"));
    assert_eq!(fills(&mut keys, 1042), 0, "the same content");
}

#[test]
fn a_copy_whose_server_fails_is_left_alone_for_a_while() {
    let mut keys = hot();
    keys.handle_home(hash(), HOT, at(1010), true, found(b"v"));
    keys.copy(at(1011), hash(), 1).unwrap();
    keys.handle_copy_failed(at(1011), hash(), 1);
    assert_eq!(keys.copy(at(1012), hash(), 1), None);
    keys.handle_home(hash(), HOT, at(2000), true, found(b"v"));
    assert_eq!(keys.copy(at(2010), hash(), 1), None);
    assert!(keys.copy(at(2012), hash(), 1).is_some());
}

#[test]
fn a_write_voids_the_truth_until_a_later_read_tells_it() {
    let mut keys = hot();
    keys.handle_home(hash(), HOT, at(1010), true, found(b"old"));
    let (_, old) = keys.copy(at(1011), hash(), 1).unwrap();
    keys.handle_write(at(1020), HOT);
    assert_eq!(keys.plan(at(1020), hash(), HOT, Wants::VALUE), Plan::Home);
    assert_eq!(keys.copy(at(1020), hash(), 1), None);
    assert_eq!(
        keys.handle_copy_found(hash(), 1, old.as_bytes(), Wants::VALUE),
        None,
        "what was under way does not count"
    );
    for sent in [1015, 1020] {
        keys.handle_home(hash(), HOT, at(sent), true, found(b"old"));
        assert_eq!(keys.plan(at(1025), hash(), HOT, Wants::VALUE), Plan::Home);
    }
    keys.handle_home(hash(), HOT, at(1021), true, found(b"new"));
    assert!(matches!(
        keys.plan(at(1025), hash(), HOT, Wants::VALUE),
        Plan::Lease { .. }
    ));
    let fill = keys.poll_fill(at(1025), hash()).unwrap();
    assert_eq!((fill.suffix, fill.name), (1, name(b"new")));
    assert_eq!(keys.copy(at(1025), hash(), 1).unwrap().1, name(b"new"));
    assert_eq!(
        keys.handle_copy_found(hash(), 1, old.as_bytes(), Wants::VALUE),
        None
    );
    keys.handle_flush(at(1030));
    assert_eq!(keys.plan(at(1030), hash(), HOT, Wants::VALUE), Plan::Home);
}

#[test]
fn what_the_home_does_not_have_or_does_not_say_is_no_truth() {
    let unique = |cas| Found::Unique {
        cas: Version(cas),
        recaching: Recaching::No,
    };
    for answer in [Found::Absent, Found::Unknown, unique(8)] {
        let mut keys = hot();
        let first = keys.handle_home(hash(), HOT, at(1010), true, found(b"v"));
        assert!(keys.handle_home(hash(), HOT, at(1011), true, answer) > first);
        assert_eq!(keys.plan(at(1012), hash(), HOT, Wants::VALUE), Plan::Home);
    }
    let mut keys = hot();
    let first = keys.handle_home(hash(), HOT, at(1010), true, found(b"v"));
    let again = keys.handle_home(hash(), HOT, at(1020), true, unique(7));
    assert_eq!(first, again, "its unique says that it is the same");
    let plan = keys.plan(at(1021), hash(), HOT, Wants::META);
    assert!(matches!(plan, Plan::Lease { until, .. } if until == at(1970)));
}

#[test]
fn a_copy_is_shown_with_the_unique_that_the_home_gave_to_its_content() {
    let mut keys = hot();
    let told = |cas, recaching| Found::Value {
        flags: 0,
        value: b"v",
        cas,
        recaching,
    };
    let first = keys.handle_home(hash(), HOT, at(1010), true, found(b"v"));
    let ask = |keys: &mut PlainHotKeys, wants| {
        let name = name(b"v");
        keys.handle_copy_found(hash(), 1, name.as_bytes(), wants)
    };
    assert_eq!(ask(&mut keys, Wants::CAS), Some((first, Some(Version(7)))));
    assert_eq!(ask(&mut keys, Wants::META), None, "nobody has told");
    assert_eq!(keys.plan(at(1011), hash(), HOT, Wants::META), Plan::Home);
    // The same value was stored again.
    let cas = Some(Version(8));
    let second = keys.handle_home(hash(), HOT, at(1012), true, told(cas, Recaching::No));
    assert!(second > first);
    assert_eq!(ask(&mut keys, Wants::META), Some((second, cas)));
    keys.handle_home(hash(), HOT, at(1500), true, told(cas, Recaching::Untold));
    let mut until = |wants| match keys.plan(at(1501), hash(), HOT, wants) {
        Plan::Lease { until, .. } => Some(until),
        _ => None,
    };
    assert_eq!(until(Wants::CAS), Some(at(2450)));
    assert_eq!(until(Wants::META), None, "half is over: one renews it");
    assert_eq!(until(Wants::META), Some(at(1962)));
    // Somebody won the right to recache it.
    let third = keys.handle_home(hash(), HOT, at(1503), true, told(cas, Recaching::Yes));
    assert!(third > second);
    assert_eq!(ask(&mut keys, Wants::META), None);
    assert_eq!(ask(&mut keys, Wants::CAS), Some((third, cas)));
    // The answer to a command that does not tell uniques.
    keys.handle_home(hash(), HOT, at(1504), true, told(None, Recaching::No));
    assert_eq!(ask(&mut keys, Wants::CAS), None);
    assert_eq!(keys.plan(at(1505), hash(), HOT, Wants::CAS), Plan::Home);
    assert!(ask(&mut keys, Wants::VALUE).is_some());
}

#[test]
fn servers_that_come_or_go_end_all_truths() {
    let mut keys = hot();
    keys.handle_home(hash(), HOT, at(1010), true, found(b"v"));
    keys.forget_truths();
    assert_eq!(keys.plan(at(1011), hash(), HOT, Wants::VALUE), Plan::Home);
    keys.handle_home(hash(), HOT, at(1010), false, found(b"v"));
    assert_eq!(
        keys.plan(at(1012), hash(), HOT, Wants::VALUE),
        Plan::Home,
        "another home's"
    );
    keys.handle_home(hash(), HOT, at(1012), true, found(b"v"));
    assert!(matches!(
        keys.plan(at(1013), hash(), HOT, Wants::VALUE),
        Plan::Lease { .. }
    ));
    keys.handle_servers(&placement(2));
    assert_eq!(keys.plan(at(1013), hash(), HOT, Wants::VALUE), Plan::Home);
    keys.handle_home(hash(), HOT, at(1014), true, found(b"v"));
    assert!(matches!(
        keys.plan(at(1015), hash(), HOT, Wants::VALUE),
        Plan::Lease { gamma: 1, .. }
    ));
    keys.handle_servers(&placement(1));
    assert_eq!(
        keys.plan(at(1016), hash(), HOT, Wants::VALUE),
        Plan::Untracked
    );
}

/// The reads that arrive before a key became hot, or after it cooled, have numbers in order, too.
#[test]
fn answers_about_keys_that_are_not_hot_are_numbered_in_order() {
    let mut keys = hot();
    let mut last = Version(0);
    for key in [HOT, b"other", HOT, b"other"] {
        let number = keys.handle_home(KeyHash::of(key), key, at(100), true, found(b"v"));
        assert!(number > last);
        last = number;
    }
    assert_eq!(
        keys.plan(at(1001), hash(), HOT, Wants::VALUE),
        Plan::Home,
        "a read from before it was hot tells no truth"
    );
}
