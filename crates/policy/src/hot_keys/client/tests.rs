use super::*;

const EPOCH: Epoch = Epoch(3);
const LEASE: Duration = Duration::from_millis(1000);
const KEY: KeyHash = KeyHash(42);

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// A client that holds a lease for a shadow from 0 ms to 950 ms, nothing in flight.
fn leased() -> ClientLeases {
    // The seed makes the first draw from 0..=255 a shadow.
    let mut client = ClientLeases::new(1);
    let read = client.route_read(at(0), EPOCH, KEY);
    assert_eq!(read.route(), Route::Home);
    assert!(client.grant(at(2), EPOCH, &read, 255, LEASE));
    assert_eq!(
        show(&mut client, at(2), read, Answer::Hit(Version(5))),
        Verdict::Show
    );
    client
}

fn show(client: &mut ClientLeases, now: Instant, read: ReadTicket, answer: Answer) -> Verdict {
    client.release(now, EPOCH, read, answer)
}

fn is_home(client: &mut ClientLeases, now: Instant) -> bool {
    let read = client.route_read(now, EPOCH, KEY);
    let home = read.route() == Route::Home;
    client.abandon(now, read);
    home
}

fn second(verdict: Verdict) -> ReadTicket {
    match verdict {
        Verdict::AskHome(ticket) => ticket,
        Verdict::Show => panic!("the answer was shown"),
    }
}

#[test]
fn an_idle_client_is_small_and_allocates_nothing() {
    assert!(size_of::<ClientLeases>() < 100);
    assert!(size_of::<ReadTicket>() <= 32);
    let mut client = ClientLeases::new(1);
    let read = client.route_read(at(0), EPOCH, KEY);
    client.write_sent(KEY);
    assert_eq!(
        show(&mut client, at(1), read, Answer::Hit(Version(5))),
        Verdict::Show
    );
    assert_eq!(client.entries.capacity(), 0);
}

#[test]
fn a_lease_sends_all_reads_to_one_shadow_until_it_ends() {
    let mut client = leased();
    let first = client.route_read(at(3), EPOCH, KEY);
    assert_ne!(first.route(), Route::Home);
    for ms in [4, 500, 949] {
        let read = client.route_read(at(ms), EPOCH, KEY);
        assert_eq!(read.route(), first.route());
        client.abandon(at(ms), read);
    }
    client.abandon(at(949), first);
    assert!(
        is_home(&mut client, at(950)),
        "the lease is counted from the read's sending"
    );
    assert!(client.is_empty());
}

#[test]
fn suffixes_are_uniform_over_home_and_shadows() {
    let mut counts = [0u32; 4];
    for seed in 0..8000 {
        let mut client = ClientLeases::new(seed);
        let read = client.route_read(at(0), EPOCH, KEY);
        assert!(client.grant(at(0), EPOCH, &read, 3, LEASE));
        counts[usize::from(client.entries[0].suffix)] += 1;
        client.abandon(at(0), read);
    }
    assert!(
        counts.iter().all(|&n| (1800..2200).contains(&n)),
        "{counts:?}"
    );
}

#[test]
fn a_lease_for_the_home_copy_is_kept_so_that_the_choice_is_made_once() {
    let mut client = ClientLeases::new(1);
    let read = client.route_read(at(0), EPOCH, KEY);
    assert!(client.grant(at(0), EPOCH, &read, 1, LEASE));
    client.entries[0].suffix = 0;
    assert!(!client.grant(at(1), EPOCH, &read, 1, LEASE));
    assert_eq!(client.entries[0].suffix, 0);
    client.abandon(at(1), read);
}

#[test]
fn gamma_zero_no_lease_and_leases_already_over_grant_nothing() {
    let mut client = ClientLeases::new(1);
    let read = client.route_read(at(0), EPOCH, KEY);
    assert!(!client.grant(at(1), EPOCH, &read, 0, LEASE));
    assert!(!client.grant(at(1), EPOCH, &read, 3, Duration::ZERO));
    assert!(
        !client.grant(at(950), EPOCH, &read, 3, LEASE),
        "the answer took a lease to come"
    );
    assert!(client.is_empty());
    client.abandon(at(950), read);
}

#[test]
fn a_write_sent_after_the_read_voids_its_grant() {
    for flush in [false, true] {
        let mut client = ClientLeases::new(1);
        let read = client.route_read(at(0), EPOCH, KEY);
        if flush {
            client.flush_sent()
        } else {
            client.write_sent(KeyHash(7))
        }
        assert!(!client.grant(at(1), EPOCH, &read, 3, LEASE));
        client.abandon(at(1), read);
    }
}

#[test]
fn an_own_write_ends_the_lease_of_its_key_only() {
    let mut client = leased();
    client.write_sent(KeyHash(7));
    assert!(!is_home(&mut client, at(10)));
    client.write_sent(KEY);
    assert!(is_home(&mut client, at(10)));
    assert!(client.is_empty());
}

#[test]
fn a_flush_ends_every_lease() {
    let mut client = leased();
    client.flush_sent();
    assert!(is_home(&mut client, at(10)));
}

#[test]
fn another_epoch_ends_every_lease_and_voids_grants_under_way() {
    let mut client = leased();
    let other = KeyHash(7);
    let read = client.route_read(at(10), EPOCH, other);
    let newer = Epoch(4);
    assert!(!client.grant(at(11), newer, &read, 3, LEASE));
    let again = client.route_read(at(12), newer, KEY);
    assert_eq!(again.route(), Route::Home);
    client.abandon(at(12), again);
    client.abandon(at(12), read);
}

#[test]
fn a_miss_or_failure_at_a_shadow_ends_the_lease_and_asks_the_home() {
    for answer in [Answer::Miss(None), Answer::Failed] {
        let mut client = leased();
        let read = client.route_read(at(10), EPOCH, KEY);
        let again = second(show(&mut client, at(11), read, answer));
        assert_eq!(again.route(), Route::Home);
        assert!(is_home(&mut client, at(11)));
        assert_eq!(
            show(&mut client, at(12), again, Answer::Hit(Version(5))),
            Verdict::Show
        );
        assert!(client.is_empty());
    }
}

#[test]
fn an_answer_older_than_one_shown_before_is_asked_again_once() {
    let mut client = leased();
    let home = client.home_read(at(10), EPOCH, KEY);
    assert_eq!(home.route(), Route::Home);
    let shadow = client.route_read(at(11), EPOCH, KEY);
    let behind = client.route_read(at(12), EPOCH, KEY);
    assert_eq!(
        show(&mut client, at(20), home, Answer::Hit(Version(6))),
        Verdict::Show
    );
    let again = second(show(&mut client, at(20), shadow, Answer::Hit(Version(5))));
    assert_eq!(
        show(&mut client, at(22), again, Answer::Hit(Version(8))),
        Verdict::Show
    );
    // The copy had caught up with 6 when it answered, but 8 has been shown since.
    let again = second(show(&mut client, at(22), behind, Answer::Hit(Version(6))));
    assert_eq!(
        show(&mut client, at(24), again, Answer::Hit(Version(8))),
        Verdict::Show
    );
    assert!(client.is_empty());
}

#[test]
fn a_read_sent_before_the_lease_still_counts_as_seen() {
    let mut client = ClientLeases::new(1);
    let first = client.route_read(at(0), EPOCH, KEY);
    let second_home = client.route_read(at(0), EPOCH, KEY);
    assert!(client.grant(at(2), EPOCH, &first, 255, LEASE));
    let shadow = client.route_read(at(2), EPOCH, KEY);
    assert_ne!(shadow.route(), Route::Home);
    assert_eq!(
        show(&mut client, at(3), first, Answer::Hit(Version(5))),
        Verdict::Show
    );
    assert_eq!(
        show(&mut client, at(3), second_home, Answer::Hit(Version(6))),
        Verdict::Show
    );
    let again = second(show(&mut client, at(3), shadow, Answer::Hit(Version(5))));
    client.abandon(at(4), again);
}

#[test]
fn a_miss_with_a_newer_version_outdates_the_replica() {
    let mut client = leased();
    let home = client.home_read(at(10), EPOCH, KEY);
    let shadow = client.route_read(at(10), EPOCH, KEY);
    assert_eq!(
        show(&mut client, at(11), home, Answer::Miss(Some(Version(9)))),
        Verdict::Show
    );
    let again = second(show(&mut client, at(11), shadow, Answer::Hit(Version(5))));
    assert_eq!(
        show(&mut client, at(12), again, Answer::Miss(Some(Version(9)))),
        Verdict::Show
    );
}

#[test]
fn after_a_miss_without_a_version_everything_in_flight_is_asked_again() {
    let mut client = leased();
    let home = client.home_read(at(10), EPOCH, KEY);
    let shadow = client.route_read(at(10), EPOCH, KEY);
    assert_eq!(
        show(&mut client, at(11), home, Answer::Miss(None)),
        Verdict::Show
    );
    assert!(!client.grant(
        at(11),
        EPOCH,
        &ReadTicket {
            suffix: 0,
            ..ticket()
        },
        3,
        LEASE
    ));
    let again = second(show(&mut client, at(11), shadow, Answer::Hit(Version(5))));
    assert_eq!(
        show(&mut client, at(12), again, Answer::Miss(None)),
        Verdict::Show
    );
    assert!(client.is_empty());
}

fn ticket() -> ReadTicket {
    ReadTicket {
        hash: KEY,
        sent_at: at(10),
        epoch: EPOCH,
        barriers: 1,
        suffix: 0,
        counted: false,
        asked_again: false,
    }
}

#[test]
fn answers_of_two_homes_are_never_compared() {
    let mut client = leased();
    let newer = Epoch(4);
    let held = client.route_read(at(10), EPOCH, KEY);
    let old = client.route_read(at(10), EPOCH, KEY);
    let next = client.route_read(at(10), newer, KEY);
    // Both were sent by the old map. The new home counts lower, and is ahead of the old one.
    let again = second(client.release(at(11), newer, held, Answer::Hit(Version(5))));
    assert_eq!(
        client.release(at(12), newer, again, Answer::Hit(Version(3))),
        Verdict::Show
    );
    let again = second(client.release(at(12), newer, old, Answer::Hit(Version(6))));
    assert_eq!(
        client.release(at(13), newer, again, Answer::Hit(Version(3))),
        Verdict::Show
    );
    assert_eq!(
        client.release(at(13), newer, next, Answer::Hit(Version(3))),
        Verdict::Show
    );
    assert!(client.is_empty());
}

#[test]
fn a_miss_without_a_version_is_asked_again_if_a_replica_may_have_overtaken_it() {
    let mut client = leased();
    let shadow = client.route_read(at(10), EPOCH, KEY);
    client.write_sent(KEY);
    let home = client.route_read(at(11), EPOCH, KEY);
    assert_eq!(home.route(), Route::Home);
    // The replica was read late and has a value that was written after the home's miss.
    assert_eq!(
        show(&mut client, at(300), shadow, Answer::Hit(Version(9))),
        Verdict::Show
    );
    let again = second(show(&mut client, at(300), home, Answer::Miss(None)));
    assert_eq!(
        show(&mut client, at(302), again, Answer::Hit(Version(9))),
        Verdict::Show
    );
}

#[test]
fn a_full_cache_drops_the_idle_lease_that_ends_first_and_never_one_in_use() {
    let mut client = ClientLeases::new(1);
    let lease = |client: &mut ClientLeases, hash: u64, ms: u64| {
        let read = client.route_read(at(ms), EPOCH, KeyHash(hash));
        let granted = client.grant(at(ms), EPOCH, &read, 3, LEASE);
        client.abandon(at(ms), read);
        granted
    };
    for i in 0..CSM_ENTRIES_MAX as u64 {
        assert!(lease(&mut client, 1000 - i, 500 - i));
    }
    assert!(lease(&mut client, 5000, 600));
    assert_eq!(client.len(), CSM_ENTRIES_MAX);
    let last = KeyHash(1000 - (CSM_ENTRIES_MAX as u64 - 1));
    assert!(client.position(last).is_err(), "it ended first");
    assert!(client.entries.is_sorted_by_key(|entry| entry.hash));
    let hashes: Vec<KeyHash> = client.entries.iter().map(|entry| entry.hash).collect();
    let held: Vec<ReadTicket> = hashes
        .iter()
        .map(|&hash| client.route_read(at(600), EPOCH, hash))
        .collect();
    assert!(held.iter().all(|read| read.counted));
    assert!(!lease(&mut client, 6000, 601), "all are in use");
    held.into_iter()
        .for_each(|read| client.abandon(at(601), read));
}
