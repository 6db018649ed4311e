use super::*;
use evenkeel_types::Version;

const EPOCH: Epoch = Epoch(3);
const LEASE: Duration = Duration::from_millis(1000);
const KEY: KeyHash = KeyHash(42);
const ME: Connection = Connection(1);
const OTHER: Connection = Connection(2);

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// Nobody has anything to do.
fn idle(_: u8) -> Option<usize> {
    Some(0)
}

fn read(client: &mut ClientLeases, now: Instant) -> ReadTicket {
    client.route_read(now, EPOCH, (KEY, ME), idle)
}

fn grant(client: &mut ClientLeases, now: Instant, ticket: &ReadTicket, gamma: u8) -> bool {
    client.grant(
        now,
        EPOCH,
        ticket,
        Answer::Hit(Version(5)),
        Grant::whole(gamma, LEASE),
    )
}

fn show(client: &mut ClientLeases, now: Instant, read: ReadTicket, answer: Answer) -> Verdict {
    client.release(now, EPOCH, read, answer)
}

/// A client that holds a lease from 0 ms to 950 ms, was shown version 5 and has nothing in flight.
fn leased() -> ClientLeases {
    let mut client = ClientLeases::new(1);
    let ticket = read(&mut client, at(0));
    assert_eq!(ticket.route(), Route::Home);
    assert!(grant(&mut client, at(2), &ticket, 3));
    let verdict = show(&mut client, at(2), ticket, Answer::Hit(Version(5)));
    assert_eq!(verdict, Verdict::Show);
    client
}

/// A read that goes to a shadow server, after others that do not.
fn shadow_read(client: &mut ClientLeases, now: Instant) -> ReadTicket {
    for _ in 0..2 {
        let ticket = read(client, now);
        if ticket.route() != Route::Home {
            return ticket;
        }
        client.abandon(now, ticket);
    }
    panic!("there is no lease");
}

/// A read when it is the first shadow server's turn.
fn read_of_shadow(client: &mut ClientLeases, now: Instant, reader: Connection) -> ReadTicket {
    client.set_turn(KEY, 1);
    client.route_read(now, EPOCH, (KEY, reader), |suffix| Some(suffix.into()))
}

/// Whether there is no lease.
fn is_home(client: &mut ClientLeases, now: Instant) -> bool {
    (0..2).all(|_| {
        let ticket = read(client, now);
        let home = ticket.route() == Route::Home;
        client.abandon(now, ticket);
        home
    })
}

fn second(verdict: Verdict) -> ReadTicket {
    match verdict {
        Verdict::AskHome(ticket) => ticket,
        Verdict::Show | Verdict::ShowKept(..) => panic!("an answer was shown"),
    }
}

#[test]
fn tickets_are_small_and_nothing_is_remembered_without_a_lease() {
    assert!(size_of::<ReadTicket>() <= 48);
    let mut client = ClientLeases::new(1);
    let ticket = read(&mut client, at(0));
    client.touch_sent(KEY, ME);
    let verdict = show(&mut client, at(1), ticket, Answer::Hit(Version(5)));
    assert_eq!(verdict, Verdict::Show);
    assert_eq!(client.entries.capacity(), 0);
}

#[test]
fn all_copies_take_turns_until_the_lease_ends() {
    let mut client = leased();
    let mut counts = [0; 4];
    for ms in 3..43 {
        let ticket = read(&mut client, at(ms));
        counts[usize::from(ticket.suffix)] += 1;
        client.abandon(at(ms), ticket);
    }
    assert_eq!(counts, [10; 4]);
    assert!(!is_home(&mut client, at(949)));
    assert!(
        is_home(&mut client, at(950)),
        "the lease is counted from the read's sending"
    );
    assert!(client.is_empty());
}

#[test]
fn a_busy_shadow_gives_its_turns_away_and_the_home_does_not() {
    let mut client = leased();
    let mut counts = [0; 4];
    for _ in 0..400 {
        let load = |suffix: u8| Some(if suffix == 2 { 9 } else { 1 });
        let ticket = client.route_read(at(3), EPOCH, (KEY, ME), load);
        counts[usize::from(ticket.suffix)] += 1;
        client.abandon(at(3), ticket);
    }
    assert_eq!((counts[0], counts[2]), (100, 0));
    assert!(
        counts[1] > 120 && counts[3] > 120,
        "its turns go to both others: {counts:?}"
    );
    // Nobody can be asked but the third.
    let only = |suffix: u8| (suffix == 3).then_some(1000);
    for _ in 0..20 {
        let ticket = client.route_read(at(3), EPOCH, (KEY, ME), only);
        assert!(ticket.suffix == 0 || ticket.suffix == 3);
        client.abandon(at(3), ticket);
    }
    for _ in 0..20 {
        let ticket = client.route_read(at(3), EPOCH, (KEY, ME), |_| None);
        assert_eq!(ticket.route(), Route::Home);
        client.abandon(at(3), ticket);
    }
}

#[test]
fn a_home_with_clearly_more_to_do_gives_every_other_turn_away_and_no_more() {
    let turns = |home: Option<usize>| {
        let mut client = leased();
        let mut counts = [0; 4];
        for _ in 0..400 {
            let load = |suffix: u8| if suffix == 0 { home } else { Some(100) };
            let ticket = client.route_read(at(3), EPOCH, (KEY, ME), load);
            counts[usize::from(ticket.suffix)] += 1;
            client.abandon(at(3), ticket);
        }
        counts[0]
    };
    assert_eq!(turns(Some(121)), 50);
    assert_eq!(turns(Some(usize::MAX)), 50, "its answers bring leases");
    assert_eq!(turns(Some(120)), 100, "it is hardly busier than the others");
    assert_eq!(turns(None), 100, "nobody knows");
}

#[test]
fn clients_and_keys_do_not_begin_with_the_same_copy() {
    let mut counts = [0u32; 4];
    for seed in 0..4000 {
        let mut client = ClientLeases::new(seed);
        let ticket = read(&mut client, at(0));
        assert!(grant(&mut client, at(0), &ticket, 3));
        let first = read(&mut client, at(0));
        counts[usize::from(first.suffix)] += 1;
    }
    let even = counts.iter().all(|&n| (900..1100).contains(&n));
    assert!(even, "{counts:?}");
}

#[test]
fn a_grant_prolongs_a_lease_and_never_shortens_it() {
    let mut client = leased();
    let earlier = read(&mut client, at(100)).sent_home();
    let later = read(&mut client, at(500)).sent_home();
    assert!(!grant(&mut client, at(510), &later, 1), "it goes on");
    assert!(!grant(&mut client, at(511), &earlier, 3));
    client.abandon(at(511), earlier);
    client.abandon(at(511), later);
    assert_eq!(
        client.entries[0].gamma, 1,
        "the one that lasts longest counts"
    );
    assert!(!is_home(&mut client, at(1449)));
    assert!(is_home(&mut client, at(1450)));
}

#[test]
fn gamma_zero_no_lease_and_leases_already_over_grant_nothing() {
    let mut client = ClientLeases::new(1);
    let ticket = read(&mut client, at(0));
    let answer = Answer::Hit(Version(5));
    assert!(!grant(&mut client, at(1), &ticket, 0));
    assert!(!client.grant(
        at(1),
        EPOCH,
        &ticket,
        answer,
        Grant::whole(3, Duration::ZERO)
    ));
    assert!(
        !grant(&mut client, at(950), &ticket, 3),
        "the answer took a lease to come"
    );
    assert!(client.is_empty());
    client.abandon(at(950), ticket);
}

#[test]
fn a_flush_or_a_write_by_anybody_voids_the_grants_of_reads_before_it() {
    for flush in [false, true] {
        let mut client = ClientLeases::new(1);
        let (before, other) = (
            read(&mut client, at(0)),
            client.route_read(at(0), EPOCH, (KeyHash(7), ME), idle),
        );
        if flush {
            client.flush_sent();
        } else {
            client.write_sent_by_any(KEY);
        }
        let after = read(&mut client, at(0));
        assert!(!grant(&mut client, at(1), &before, 3));
        assert_eq!(grant(&mut client, at(1), &other, 3), !flush);
        assert!(grant(&mut client, at(1), &after, 3));
    }
}

/// Whether a read of a connection, at that time, goes home.
fn goes_home(client: &mut ClientLeases, now: Instant, reader: Connection) -> bool {
    // The home has its turns, too.
    (0..4).all(|_| {
        let ticket = client.route_read(now, EPOCH, (KEY, reader), idle);
        let is_home = ticket.route() == Route::Home;
        client.abandon(now, ticket);
        is_home
    })
}

#[test]
fn who_touched_a_key_reads_at_its_home_until_a_read_behind_that_is_granted_a_whole_lease() {
    let mut client = leased();
    client.touch_sent(KeyHash(7), ME);
    assert!(!goes_home(&mut client, at(10), ME));
    let before = client.home_read(at(10), EPOCH, (KEY, ME));
    client.touch_sent(KEY, ME);
    assert!(goes_home(&mut client, at(10), ME));
    assert!(!goes_home(&mut client, at(10), OTHER));
    // It was sent before the touch.
    grant(&mut client, at(20), &before, 3);
    assert!(goes_home(&mut client, at(20), ME));
    let behind = read(&mut client, at(20));
    grant(&mut client, at(30), &behind, 3);
    assert!(!goes_home(&mut client, at(30), ME));
    client.abandon(at(30), before);
    client.abandon(at(30), behind);
}

#[test]
fn a_write_by_anybody_ends_the_lease_for_all() {
    let mut client = leased();
    let before = client.home_read(at(5), EPOCH, (KEY, ME));
    client.write_sent_by_any(KEY);
    assert!(!grant(&mut client, at(20), &before, 3));
    assert!(goes_home(&mut client, at(20), ME));
    client.abandon(at(20), before);
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
    let under_way = client.route_read(at(10), EPOCH, (KeyHash(7), ME), idle);
    assert!(client.is_of(EPOCH, &under_way));
    let newer = Epoch(4);
    let answer = Answer::Hit(Version(5));
    assert!(!client.grant(at(11), newer, &under_way, answer, Grant::whole(3, LEASE)));
    assert!(!client.is_of(newer, &under_way));
    let again = client.route_read(at(12), newer, (KEY, ME), idle);
    assert_eq!(again.route(), Route::Home);
    client.abandon(at(12), again);
    client.abandon(at(12), under_way);
}

#[test]
fn a_miss_or_failure_at_a_shadow_ends_the_lease_and_asks_the_home() {
    for answer in [
        Answer::Miss(None),
        Answer::Miss(Some(Version(9))),
        Answer::Failed,
    ] {
        let mut client = leased();
        let ticket = shadow_read(&mut client, at(10));
        let again = second(show(&mut client, at(11), ticket, answer));
        assert_eq!(again.route(), Route::Home);
        assert!(is_home(&mut client, at(11)));
        let verdict = show(&mut client, at(12), again, Answer::Hit(Version(5)));
        assert_eq!(verdict, Verdict::Show);
        assert!(client.is_empty());
    }
}

#[test]
fn an_answer_older_than_one_shown_before_is_asked_again_once() {
    let mut client = leased();
    let home = client.home_read(at(10), EPOCH, (KEY, ME));
    assert_eq!(home.route(), Route::Home);
    let shadow = shadow_read(&mut client, at(11));
    let behind = shadow_read(&mut client, at(12));
    let verdict = show(&mut client, at(20), home, Answer::Hit(Version(6)));
    assert_eq!(verdict, Verdict::Show);
    let again = second(show(&mut client, at(20), shadow, Answer::Hit(Version(5))));
    assert!(
        is_home(&mut client, at(20)),
        "a copy is behind, so that the lease ends"
    );
    let verdict = show(&mut client, at(22), again, Answer::Hit(Version(8)));
    assert_eq!(verdict, Verdict::Show);
    // The copy had caught up with 6 when it answered, but 8 has been shown since.
    let again = second(show(&mut client, at(22), behind, Answer::Hit(Version(6))));
    let verdict = show(&mut client, at(24), again, Answer::Hit(Version(8)));
    assert_eq!(verdict, Verdict::Show);
    assert!(client.is_empty());
}

#[test]
fn a_copy_that_was_behind_before_the_lease_was_granted_does_not_end_it() {
    let mut client = leased();
    let shadow = shadow_read(&mut client, at(10));
    let renewing = client.home_read(at(11), EPOCH, (KEY, ME));
    let answer = Answer::Hit(Version(6));
    assert!(!client.grant(at(12), EPOCH, &renewing, answer, Grant::whole(3, LEASE)));
    let verdict = show(&mut client, at(12), renewing, answer);
    assert_eq!(verdict, Verdict::Show);
    let again = second(show(&mut client, at(13), shadow, Answer::Hit(Version(5))));
    assert!(!is_home(&mut client, at(13)));
    client.abandon(at(13), again);
}

#[test]
fn what_others_were_shown_since_a_read_was_sent_does_not_make_its_answer_old() {
    let mut client = leased();
    let held = shadow_read(&mut client, at(10));
    let other = client.home_read(at(11), EPOCH, (KEY, OTHER));
    let verdict = show(&mut client, at(12), other, Answer::Hit(Version(9)));
    assert_eq!(verdict, Verdict::Show);
    // They read at the same time.
    let later = shadow_read(&mut client, at(13));
    let verdict = show(&mut client, at(500), held, Answer::Hit(Version(5)));
    assert_eq!(verdict, Verdict::Show);
    // This one was sent when 9 was known already.
    let again = second(show(&mut client, at(500), later, Answer::Hit(Version(8))));
    client.abandon(at(500), again);
}

#[test]
fn what_a_connection_was_shown_since_a_read_was_sent_makes_its_answer_old() {
    let mut client = leased();
    let (first, second_read) = (
        shadow_read(&mut client, at(10)),
        shadow_read(&mut client, at(10)),
    );
    let verdict = show(&mut client, at(12), first, Answer::Hit(Version(9)));
    assert_eq!(verdict, Verdict::Show);
    let again = second(show(
        &mut client,
        at(12),
        second_read,
        Answer::Hit(Version(8)),
    ));
    client.abandon(at(12), again);
}

#[test]
fn a_second_answer_is_shown_although_another_connection_has_seen_a_newer_one() {
    let mut client = leased();
    let shadow = shadow_read(&mut client, at(10));
    let other = shadow_read(&mut client, at(10));
    let again = second(show(&mut client, at(11), shadow, Answer::Failed));
    let verdict = show(&mut client, at(12), other, Answer::Hit(Version(9)));
    assert_eq!(verdict, Verdict::Show);
    let behind = client.home_read(at(12), EPOCH, (KEY, ME));
    let verdict = show(&mut client, at(13), again, Answer::Hit(Version(8)));
    assert_eq!(verdict, Verdict::Show);
    // 9 is still known.
    let again = second(show(&mut client, at(14), behind, Answer::Hit(Version(8))));
    client.abandon(at(14), again);
}

#[test]
fn a_read_sent_before_the_lease_still_counts_as_seen() {
    let mut client = ClientLeases::new(1);
    let first = read(&mut client, at(0));
    let next = read(&mut client, at(0));
    assert!(grant(&mut client, at(2), &first, 3));
    let shadow = shadow_read(&mut client, at(2));
    let verdict = show(&mut client, at(3), first, Answer::Hit(Version(5)));
    assert_eq!(verdict, Verdict::Show);
    let verdict = show(&mut client, at(3), next, Answer::Hit(Version(6)));
    assert_eq!(verdict, Verdict::Show);
    let again = second(show(&mut client, at(3), shadow, Answer::Hit(Version(5))));
    client.abandon(at(4), again);
}

#[test]
fn a_miss_is_newer_than_the_value_of_its_version() {
    for version in [Version(5), Version(9)] {
        let mut client = leased();
        let home = client.home_read(at(10), EPOCH, (KEY, ME));
        let shadow = shadow_read(&mut client, at(10));
        let verdict = show(&mut client, at(11), home, Answer::Miss(Some(version)));
        assert_eq!(verdict, Verdict::Show);
        let again = second(show(&mut client, at(11), shadow, Answer::Hit(Version(5))));
        let verdict = show(&mut client, at(12), again, Answer::Miss(Some(version)));
        assert_eq!(verdict, Verdict::Show);
    }
}

#[test]
fn after_a_miss_without_a_version_what_was_sent_before_is_asked_again() {
    let mut client = leased();
    let home = client.home_read(at(10), EPOCH, (KEY, ME));
    let shadow = shadow_read(&mut client, at(10));
    let verdict = show(&mut client, at(11), home, Answer::Miss(None));
    assert_eq!(verdict, Verdict::Show);
    let later = read(&mut client, at(11));
    assert_eq!(later.route(), Route::Home);
    let again = second(show(&mut client, at(11), shadow, Answer::Hit(Version(5))));
    let verdict = show(&mut client, at(12), again, Answer::Miss(None));
    assert_eq!(verdict, Verdict::Show);
    let again = second(show(&mut client, at(12), later, Answer::Hit(Version(6))));
    let verdict = show(&mut client, at(13), again, Answer::Hit(Version(6)));
    assert_eq!(verdict, Verdict::Show);
    assert!(client.is_empty());
}

#[test]
fn a_miss_without_a_version_is_asked_again_if_a_replica_may_have_overtaken_it() {
    let mut client = leased();
    let shadow = shadow_read(&mut client, at(10));
    client.touch_sent(KEY, ME);
    let home = read(&mut client, at(11));
    assert_eq!(home.route(), Route::Home);
    // The replica was read late and has a value that was written after the home's miss.
    let verdict = show(&mut client, at(300), shadow, Answer::Hit(Version(9)));
    assert_eq!(verdict, Verdict::Show);
    let again = second(show(&mut client, at(300), home, Answer::Miss(None)));
    let verdict = show(&mut client, at(302), again, Answer::Hit(Version(9)));
    assert_eq!(verdict, Verdict::Show);
}

#[test]
fn versions_that_go_back_are_believed_to_a_second_question_and_compared_with_nothing() {
    let mut client = leased();
    let home = client.home_read(at(10), EPOCH, (KEY, ME));
    let shadow = shadow_read(&mut client, at(10));
    // Somebody has chosen version 2.
    let again = second(show(&mut client, at(11), home, Answer::Hit(Version(2))));
    let verdict = show(&mut client, at(12), again, Answer::Hit(Version(2)));
    assert_eq!(verdict, Verdict::Show);
    assert!(is_home(&mut client, at(12)));
    let again = second(show(&mut client, at(12), shadow, Answer::Hit(Version(5))));
    let verdict = show(&mut client, at(13), again, Answer::Hit(Version(2)));
    assert_eq!(verdict, Verdict::Show);
    assert!(client.is_empty());
}

#[test]
fn answers_of_two_homes_are_never_compared() {
    let mut client = leased();
    let newer = Epoch(4);
    let held = client.home_read(at(10), EPOCH, (KEY, ME));
    let old = client.home_read(at(10), EPOCH, (KEY, ME));
    let next = client.route_read(at(10), newer, (KEY, ME), idle);
    // Both were sent by the old map. The new home counts lower, and is ahead of the old one.
    let again = second(client.release(at(11), newer, held, Answer::Hit(Version(5))));
    let verdict = client.release(at(12), newer, again, Answer::Hit(Version(3)));
    assert_eq!(verdict, Verdict::Show);
    let again = second(client.release(at(12), newer, old, Answer::Hit(Version(6))));
    let verdict = client.release(at(13), newer, again, Answer::Hit(Version(3)));
    assert_eq!(verdict, Verdict::Show);
    let verdict = client.release(at(13), newer, next, Answer::Hit(Version(3)));
    assert_eq!(verdict, Verdict::Show);
    assert!(client.is_empty());
}

#[test]
fn no_lease_comes_from_a_read_sent_before_what_was_shown_was_forgotten() {
    let mut client = ClientLeases::new(1);
    let first = read(&mut client, at(0));
    let slow = read(&mut client, at(800));
    assert!(grant(&mut client, at(801), &first, 3));
    client.abandon(at(801), first);
    let shadow = shadow_read(&mut client, at(802));
    let verdict = show(&mut client, at(803), shadow, Answer::Hit(Version(8)));
    assert_eq!(verdict, Verdict::Show);
    assert!(is_home(&mut client, at(960)) && client.is_empty());
    // Granted before 8 was written: another copy may not have it yet.
    assert!(!grant(&mut client, at(961), &slow, 3));
    client.abandon(at(961), slow);
}

#[test]
fn a_full_cache_drops_the_idle_lease_that_ends_first_and_never_one_in_use() {
    let mut client = ClientLeases::new(1);
    let lease = |client: &mut ClientLeases, hash: u64, ms: u64| {
        let ticket = client.route_read(at(ms), EPOCH, (KeyHash(hash), ME), idle);
        let granted = grant(client, at(ms), &ticket, 3);
        client.abandon(at(ms), ticket);
        granted
    };
    let count = CSM_ENTRIES_MAX as u64;
    for i in 0..count {
        assert!(lease(&mut client, 2000 - i, 1500 - i));
    }
    assert_eq!(client.take_dropped(), 0);
    assert!(lease(&mut client, 5000, 1400));
    assert_eq!(client.len(), CSM_ENTRIES_MAX);
    let last = KeyHash(2000 - (count - 1));
    assert!(client.position(last).is_err(), "it ended first");
    assert!(client.entries.is_sorted_by_key(|entry| entry.hash));
    let hashes: Vec<KeyHash> = client.entries.iter().map(|entry| entry.hash).collect();
    let now = at(1401);
    let held: Vec<ReadTicket> = hashes
        .iter()
        .map(|&hash| client.route_read(now, EPOCH, (hash, ME), idle))
        .collect();
    assert!(held.iter().all(|ticket| ticket.counted));
    assert!(!lease(&mut client, 6000, 1401), "all are in use");
    assert_eq!(client.take_dropped(), 2);
    held.into_iter()
        .for_each(|ticket| client.abandon(now, ticket));
}

fn keep(client: &mut ClientLeases, ticket: &ReadTicket, answer: Answer, value: &[u8]) {
    client.keep(EPOCH, ticket, answer, value.len(), || Some(value.into()));
}

/// What is shown in the place of an answer.
fn kept(verdict: Verdict) -> (Answer, Option<Vec<u8>>) {
    match verdict {
        Verdict::ShowKept(answer, value) => (answer, value.map(|value| value.to_vec())),
        other => panic!("{other:?}"),
    }
}

/// A client that holds a lease and was shown version 6, which it keeps if it is no longer than it may be.
fn leased_and_kept(len: usize) -> ClientLeases {
    let mut client = leased();
    let ticket = shadow_read(&mut client, at(10));
    keep(
        &mut client,
        &ticket,
        Answer::Hit(Version(6)),
        &vec![b'6'; len],
    );
    let verdict = show(&mut client, at(11), ticket, Answer::Hit(Version(6)));
    assert_eq!(verdict, Verdict::Show);
    client
}

#[test]
fn the_newest_value_is_shown_in_the_place_of_an_older_one_and_the_lease_goes_on() {
    let mut client = leased_and_kept(1);
    let ticket = shadow_read(&mut client, at(20));
    keep(&mut client, &ticket, Answer::Hit(Version(5)), b"5");
    let verdict = show(&mut client, at(21), ticket, Answer::Hit(Version(5)));
    let newest = (Answer::Hit(Version(6)), Some(b"6".to_vec()));
    assert_eq!(kept(verdict), newest);
    assert!(!is_home(&mut client, at(22)));
    // A newer one takes its place.
    let ticket = shadow_read(&mut client, at(23));
    keep(&mut client, &ticket, Answer::Hit(Version(7)), b"7");
    let older = shadow_read(&mut client, at(24));
    let verdict = show(&mut client, at(25), ticket, Answer::Hit(Version(7)));
    assert_eq!(verdict, Verdict::Show);
    let verdict = show(&mut client, at(25), older, Answer::Hit(Version(6)));
    assert_eq!(kept(verdict).0, Answer::Hit(Version(7)));
}

#[test]
fn a_kept_miss_is_shown_in_the_place_of_what_was_deleted() {
    let mut client = leased_and_kept(1);
    let ticket = client.home_read(at(20), EPOCH, (KEY, ME));
    client.keep(EPOCH, &ticket, Answer::Miss(Some(Version(9))), 0, || None);
    let verdict = show(&mut client, at(21), ticket, Answer::Miss(Some(Version(9))));
    assert_eq!(verdict, Verdict::Show);
    let ticket = shadow_read(&mut client, at(22));
    let verdict = show(&mut client, at(23), ticket, Answer::Hit(Version(6)));
    assert_eq!(kept(verdict), (Answer::Miss(Some(Version(9))), None));
}

#[test]
fn what_is_not_kept_is_asked_again() {
    // Too long.
    let mut client = leased_and_kept(KEPT_VALUE_LEN_MAX + 1);
    let ticket = shadow_read(&mut client, at(20));
    _ = second(show(&mut client, at(21), ticket, Answer::Hit(Version(5))));
    // A replica that is not there.
    let mut client = leased_and_kept(1);
    let ticket = shadow_read(&mut client, at(20));
    _ = second(show(&mut client, at(21), ticket, Answer::Miss(None)));
    // What only the home can say.
    let mut client = leased_and_kept(1);
    let early = client.home_read(at(10), EPOCH, (KEY, ME));
    let ticket = shadow_read(&mut client, at(11));
    keep(&mut client, &ticket, Answer::Hit(Version(7)), b"7");
    _ = show(&mut client, at(12), ticket, Answer::Hit(Version(7)));
    _ = second(show(&mut client, at(13), early, Answer::Hit(Version(6))));
}

#[test]
fn a_home_that_is_asked_later_and_says_something_older_is_asked_again_and_believed() {
    let mut client = leased_and_kept(1);
    client.set_turn(KEY, 0);
    let ticket = read(&mut client, at(20));
    assert_eq!(ticket.route(), Route::Home);
    let again = second(show(&mut client, at(21), ticket, Answer::Hit(Version(2))));
    let verdict = show(&mut client, at(22), again, Answer::Hit(Version(2)));
    assert_eq!(verdict, Verdict::Show);
    assert_eq!(client.kept_bytes, 0);
}

#[test]
fn what_is_kept_of_all_keys_is_bounded_and_given_back_with_them() {
    let mut client = ClientLeases::new(1);
    let count = KEPT_BYTES_MAX / KEPT_VALUE_LEN_MAX;
    for hash in 0..count as u64 + 1 {
        let hash = KeyHash(hash);
        let ticket = client.route_read(at(0), EPOCH, (hash, ME), idle);
        assert!(grant(&mut client, at(1), &ticket, 1));
        keep(
            &mut client,
            &ticket,
            Answer::Hit(Version(5)),
            &vec![0; KEPT_VALUE_LEN_MAX],
        );
        _ = show(&mut client, at(1), ticket, Answer::Hit(Version(5)));
    }
    assert_eq!(client.kept_bytes, KEPT_BYTES_MAX);
    assert!(
        client.entries[count].kept.is_none(),
        "there was no room left"
    );
    // One key's lease is over.
    let ticket = client.route_read(at(1000), EPOCH, (KeyHash(0), ME), idle);
    assert_eq!(client.kept_bytes, KEPT_BYTES_MAX - KEPT_VALUE_LEN_MAX);
    client.abandon(at(1000), ticket);
    client.flush_sent();
    assert_eq!(client.kept_bytes, 0);
}

#[test]
fn who_has_written_reads_any_copy_and_is_shown_what_he_wrote_or_something_newer() {
    let mut client = leased_and_kept(1);
    let write = client.write_begun(KEY, ME, true).expect("no mutant");
    assert!(write.tells());
    let mine = shadow_read(&mut client, at(20));
    let other = read_of_shadow(&mut client, at(20), OTHER);
    let told = Answer::Hit(Version(8));
    client.write_answered(EPOCH, (KEY, write), told, 1, || Some((*b"8").into()));
    let behind = Answer::Hit(Version(7));
    let verdict = show(&mut client, at(21), mine, behind);
    assert_eq!(kept(verdict), (told, Some(b"8".to_vec())), "asked before");
    let verdict = show(&mut client, at(21), other, behind);
    assert_eq!(verdict, Verdict::Show, "nobody's own");
    let ticket = shadow_read(&mut client, at(30));
    let verdict = show(&mut client, at(31), ticket, behind);
    assert_eq!(kept(verdict), (told, Some(b"8".to_vec())), "asked behind");
}

#[test]
fn a_copy_that_was_asked_behind_a_write_that_is_not_known_is_not_believed() {
    let mut client = leased_and_kept(1);
    let write = client.write_begun(KEY, ME, true).expect("no mutant");
    let newer = Answer::Hit(Version(9));
    let mine = shadow_read(&mut client, at(20));
    let other = read_of_shadow(&mut client, at(20), OTHER);
    client.write_ended(KEY, write);
    let verdict = show(&mut client, at(21), other, newer);
    assert_eq!(verdict, Verdict::Show, "nobody's own");
    let Verdict::AskHome(again) = show(&mut client, at(21), mine, newer) else {
        panic!("the copy may lack it, whatever it has");
    };
    let verdict = show(&mut client, at(22), again, newer);
    assert_eq!(verdict, Verdict::Show);
    assert!(is_home(&mut client, at(23)), "the next one, too");
    let other = read_of_shadow(&mut client, at(23), OTHER);
    assert_eq!(other.route(), Route::Shadow { suffix: 1 });
    client.abandon(at(23), other);
}

#[test]
fn writes_that_are_not_known_send_reads_home_until_a_read_behind_them_is_granted_a_lease() {
    type End = fn(&mut ClientLeases, WriteTicket);
    let ends: [End; 3] = [
        |client, write| client.write_ended(KEY, write),
        // What it stored is not kept.
        |client, write| {
            let (key, told) = ((KEY, write), Answer::Hit(Version(8)));
            client.write_answered(EPOCH, key, told, 1, || None);
        },
        // Somebody has chosen a version before.
        |client, write| {
            let (key, told) = ((KEY, write), Answer::Hit(Version(3)));
            client.write_answered(EPOCH, key, told, 1, || Some((*b"3").into()));
        },
    ];
    for end in ends {
        let mut client = leased_and_kept(1);
        let [first, second] = [0, 1].map(|_| client.write_begun(KEY, ME, true).expect("no mutant"));
        end(&mut client, first);
        let told = Answer::Hit(Version(9));
        client.write_answered(EPOCH, (KEY, second), told, 1, || Some((*b"9").into()));
        assert!(is_home(&mut client, at(20)), "the first is not known");
        let ticket = read(&mut client, at(21));
        grant(&mut client, at(22), &ticket, 3);
        client.abandon(at(22), ticket);
        assert!(!is_home(&mut client, at(23)));
    }
}

#[test]
fn a_lease_that_is_not_whole_ends_by_what_is_left_and_says_nothing_of_earlier_touches() {
    let mut client = leased_and_kept(1);
    client.touch_sent(KEY, ME);
    let short = Grant {
        left: Duration::from_millis(700),
        ..Grant::whole(3, LEASE)
    };
    let ticket = read(&mut client, at(900));
    assert_eq!(ticket.route(), Route::Home);
    assert!(!client.grant(at(902), EPOCH, &ticket, Answer::Hit(Version(7)), short));
    client.abandon(at(902), ticket);
    assert!(is_home(&mut client, at(903)), "copies may lack the touch");
    let mut copies = |ms| {
        let ticket = client.route_read(at(ms), EPOCH, (KEY, OTHER), idle);
        let counted = ticket.counted;
        client.abandon(at(ms), ticket);
        counted
    };
    // 900 ms, and 700, less a twentieth of a lease.
    assert!(copies(1549), "it is leased");
    assert!(!copies(1550), "nothing is remembered");
}

#[test]
fn a_delete_is_known_once_it_is_answered() {
    let mut client = leased_and_kept(1);
    let write = client.write_begun(KEY, ME, true).expect("no mutant");
    let told = Answer::Miss(Some(Version(8)));
    client.write_answered(EPOCH, (KEY, write), told, 0, || None);
    let ticket = shadow_read(&mut client, at(30));
    let verdict = show(&mut client, at(31), ticket, Answer::Hit(Version(6)));
    assert_eq!(kept(verdict), (told, None));
}

#[test]
fn a_lease_for_a_read_before_a_write_of_an_unknown_key_was_answered_is_void() {
    let mut client = ClientLeases::new(1);
    let write = client.write_begun(KEY, ME, true).expect("no mutant");
    assert!(!write.tells(), "nothing is remembered of the key");
    let before = read(&mut client, at(10));
    client.write_ended(KEY, write);
    assert!(!grant(&mut client, at(12), &before, 3));
    client.abandon(at(12), before);
    let behind = read(&mut client, at(13));
    assert!(grant(&mut client, at(14), &behind, 3));
    client.abandon(at(14), behind);
    assert!(!is_home(&mut client, at(15)));
}
