//! What happens to the replicas of a key.

use super::*;

/// Every allowed move, as a change of behaviour would show in review.
#[test]
fn the_table_of_moves() {
    let table: Vec<String> = MOVES
        .iter()
        .map(|(event, from, to)| format!("{event:<14} {from:<11} {to}"))
        .collect();
    let expected = "\
tracked        invalid     cold
evicted        cold        invalid
faded          cold        invalid
promoted       cold        hot_pending
current        hot_pending hot
prepared       hot_pending hot_pending
prepared       cold_pending cold_pending
leases_over    hot_pending hot_pending
leases_over    cold_pending cold_pending
written        hot_pending hot_pending
written        hot         hot_pending
written        cold_pending cold_pending
deleted        hot_pending hot_pending
deleted        hot         hot_pending
deleted        cold_pending cold_pending
flushed        hot_pending hot_pending
flushed        hot         hot_pending
flushed        cold_pending cold_pending
absent         hot_pending hot_pending
absent         hot         hot_pending
absent         cold_pending cold_pending
link_lost      hot_pending hot_pending
link_lost      hot         hot_pending
link_lost      cold_pending cold_pending
widened        hot_pending hot_pending
widened        hot         hot_pending
cooled         hot_pending cold_pending
cooled         hot         cold_pending
write_heavy    hot_pending cold_pending
write_heavy    hot         cold_pending
switched_off   cold        invalid
switched_off   hot_pending cold_pending
switched_off   hot         cold_pending
map_changed    cold        invalid
map_changed    hot_pending cold_pending
map_changed    hot         cold_pending
leaving        hot_pending cold_pending
leaving        hot         cold_pending
left           cold        invalid
left           hot_pending cold
left           hot         cold
left           cold_pending cold
shadow_silent  hot_pending cold_pending
shadow_refused hot_pending cold_pending
shadow_refused hot         cold_pending
removed        hot_pending cold
removed        cold_pending cold
retired        cold_pending cold";
    assert_eq!(table.join("\n"), expected);
}

#[test]
#[should_panic(expected = "promoted may not take a key from invalid to hot")]
fn a_move_that_is_not_in_the_table_is_a_bug() {
    no_transitions().record(Event::Promoted, State::Invalid, State::Hot);
}

#[test]
fn leases_go_to_plain_reads_of_peers_with_the_same_map_that_find_the_item() {
    let mut home = Home::hot();
    let same = Reader::Aware { epoch: EPOCH };
    assert_eq!(home.read_as(KEY, Reader::Unaware, true).gamma, 0);
    assert_eq!(
        home.read_as(KEY, Reader::Aware { epoch: Epoch(6) }, true)
            .gamma,
        0
    );
    assert_eq!(
        home.read_as(KEY, Reader::Aware { epoch: Epoch(8) }, true)
            .gamma,
        0
    );
    assert_eq!(
        home.read_as(KEY, same, false),
        ReadAdvice {
            gamma: 0,
            left: None,
            replicated: true,
        }
    );
    assert_eq!(home.read_as(KEY, same, true).gamma, 3);
    assert_eq!(home.hot.stats().grants, 1);
}

#[test]
fn until_every_replica_has_a_write_leases_end_a_lease_after_it() {
    let mut home = Home::hot();
    let whole = home.read();
    assert_eq!((whole.gamma, whole.left), (3, None));
    home.write(WriteKind::Update);
    let left = |ms| Some(Duration::from_millis(ms));
    let short = home.read();
    assert_eq!((short.gamma, short.left), (3, left(LEASE_MS - 1)));
    let sent = home.sent();
    assert_eq!(sent.len(), 3);
    home.confirm(&sent[1..]);
    home.pass(400);
    assert_eq!(home.read().left, left(LEASE_MS - 401));
    home.confirm(&sent);
    assert_eq!(home.read(), whole);
}

#[test]
fn a_lease_that_would_be_over_at_once_is_not_granted() {
    let mut home = Home::hot();
    home.write(WriteKind::Update);
    home.pass(LEASE_MS * 7 / 8 - 1);
    assert_eq!(home.read().gamma, 3);
    home.pass(1);
    assert_eq!(home.read().gamma, 0);
}

#[test]
fn what_is_missing_at_home_is_new_to_its_copies_when_it_is_there_again() {
    let mut home = Home::hot();
    let aware = Reader::Aware { epoch: EPOCH };
    assert_eq!(home.read_as(KEY, aware, false).gamma, 0);
    home.pass(100);
    home.write(WriteKind::Update);
    let sent = home.sent();
    assert_eq!(
        home.read().left,
        Some(Duration::from_millis(LEASE_MS - 101))
    );
    home.confirm(&sent);
    assert_eq!((home.read().gamma, home.read().left), (3, None));
}

#[test]
fn writes_during_propagation_are_covered_by_one_more_message() {
    let mut home = Home::hot();
    home.write(WriteKind::Update);
    home.write(WriteKind::Update);
    let first = home.sent();
    assert_eq!(first.len(), 3, "what leaves carries all writes so far");
    for _ in 0..5 {
        home.write(WriteKind::Update);
        assert!(
            home.sent().is_empty(),
            "one message at a time to each shadow"
        );
    }
    home.confirm(&first);
    assert!(home.read().left.is_some(), "that was not the newest");
    let second = home.sent();
    assert_eq!(second.len(), 3);
    home.confirm(&first);
    assert!(
        home.read().left.is_some(),
        "an old confirmation says nothing"
    );
    home.confirm(&second);
    assert_eq!((home.read().gamma, home.read().left), (3, None));
}

#[test]
fn a_delete_removes_every_replica_and_a_set_after_it_waits_for_a_new_promotion() {
    let mut home = Home::hot();
    home.write(WriteKind::Delete);
    let sent = home.sent();
    assert!(sent.len() == 3 && sent.iter().all(|s| !s.0));
    assert_eq!(home.state(), State::HotPending);
    home.confirm(&sent);
    assert_eq!(home.state(), State::Cold);
    home.write(WriteKind::Update);
    assert!(home.sent().is_empty());
    home.read();
    assert_eq!(home.state(), State::HotPending, "it is still popular");
}

#[test]
fn a_set_right_after_a_delete_overtakes_the_removal() {
    let mut home = Home::hot();
    home.write(WriteKind::Delete);
    let removals = home.sent();
    home.write(WriteKind::Update);
    home.confirm(&removals);
    assert_eq!(home.state(), State::HotPending);
    let stores = home.sent();
    assert!(stores.len() == 3 && stores.iter().all(|s| s.0));
    home.confirm(&stores);
    assert_eq!(home.state(), State::Hot);
}

#[test]
fn a_flush_deletes_the_replicas_of_every_key() {
    let mut home = Home::hot();
    home.hot.handle_flush(home.now());
    let sent = home.sent();
    assert!(sent.len() == 3 && sent.iter().all(|s| !s.0));
    home.confirm(&sent);
    assert_eq!(home.state(), State::Cold);
}

#[test]
fn a_key_that_cools_keeps_its_replicas_until_the_last_lease_is_over() {
    let mut home = Home::hot();
    assert_eq!(home.read().gamma, 3);
    let granted_at = home.ms;
    while home.state() == State::Hot {
        home.pass(10);
    }
    assert_eq!(
        (home.state(), home.count(Event::Cooled)),
        (State::ColdPending, 1)
    );
    // By then the last lease was over.
    assert!(home.ms > granted_at + LEASE_MS);
    let sent = home.sent();
    assert!(sent.len() == 3 && sent.iter().all(|s| !s.0));
    assert_eq!((home.state(), home.count(Event::Retired)), (State::Cold, 1));
    home.pass(3000);
    assert_eq!(
        home.state(),
        State::Invalid,
        "and in the end it is forgotten"
    );
}

#[test]
fn in_cold_pending_writes_go_on_to_the_replicas_and_nobody_gets_a_lease() {
    let mut home = Home::hot();
    assert_eq!(home.read().gamma, 3);
    let granted_at = home.ms;
    home.hot.set_mode(home.now(), Mode::Off);
    assert_eq!(home.state(), State::ColdPending);
    assert_eq!(
        home.read(),
        ReadAdvice {
            gamma: 0,
            left: None,
            replicated: true,
        }
    );
    home.write(WriteKind::Update);
    let sent = home.sent();
    assert!(sent.len() == 3 && sent.iter().all(|s| s.0));
    home.confirm(&sent);
    assert_eq!(home.state(), State::ColdPending);
    home.pass(granted_at + LEASE_MS + 49 - home.ms);
    assert!(
        home.sent().is_empty(),
        "a lease and its margin are not over"
    );
    home.pass(2);
    let sent = home.sent();
    assert!(sent.len() == 3 && sent.iter().all(|s| !s.0));
    assert_eq!(home.state(), State::Cold);
    home.read_for(2000);
    assert_eq!(home.count(Event::Promoted), 1, "replication is off");
}

#[test]
fn a_delete_in_cold_pending_ends_it_when_all_replicas_are_gone() {
    let mut home = Home::hot();
    home.read();
    home.hot.set_mode(home.now(), Mode::Off);
    home.write(WriteKind::Delete);
    let sent = home.sent();
    home.confirm(&sent);
    assert_eq!((home.state(), home.count(Event::Removed)), (State::Cold, 1));
}

#[test]
fn a_lost_connection_ends_leases_and_a_new_one_brings_the_present_value() {
    let mut home = Home::hot();
    let target = home.hot.list()[0].shadows[1];
    home.hot.handle_link_lost(home.now(), target);
    assert_eq!(home.read().gamma, 0);
    assert!(home.sent().is_empty());
    home.hot.handle_link_up(target);
    let sent = home.sent();
    assert_eq!(sent.iter().map(|s| s.2).collect::<Vec<_>>(), [target]);
    home.confirm(&sent);
    assert_eq!(home.read().gamma, 3);
}

#[test]
fn a_lost_connection_is_tried_again_by_itself_and_late_confirmations_are_void() {
    let mut home = Home::hot();
    home.write(WriteKind::Update);
    let sent = home.sent();
    let (_, _, target, _) = sent[0];
    home.hot.handle_link_lost(home.now(), target);
    home.confirm(&sent);
    assert_eq!(
        home.state(),
        State::HotPending,
        "that confirmation was of the old connection"
    );
    home.pass(240);
    assert!(home.sent().is_empty());
    home.pass(20);
    let again = home.sent();
    assert_eq!(again.len(), 1);
    home.confirm(&again);
    assert_eq!(home.state(), State::Hot);
}

#[test]
fn a_shadow_that_stays_silent_for_a_lease_ends_the_replication() {
    let mut home = Home::hot();
    home.write(WriteKind::Update);
    let sent = home.sent();
    home.confirm(&sent[1..]);
    home.read_for(1040);
    assert_eq!(home.state(), State::HotPending);
    home.read_for(20);
    assert_eq!(home.count(Event::ShadowSilent), 1);
    // Nobody holds a lease any more, so that the rest follows at once.
    home.pass(1);
    let removals = home.sent();
    assert_eq!(removals.len(), 3);
    assert_eq!(home.state(), State::Cold);
    home.read_for(4900);
    assert_eq!(
        home.count(Event::Promoted),
        1,
        "it is left alone for a while"
    );
    home.read_for(200);
    assert_eq!(home.count(Event::Promoted), 2);
}

#[test]
fn a_shadow_that_refuses_a_new_replica_or_a_renewal_ends_the_replication() {
    let mut home = Home::new(config());
    home.read_for(1010);
    let sent = home.sent();
    home.hot.handle_refused(home.now(), sent[0].2, sent[0].3);
    assert_eq!(
        (home.state(), home.count(Event::ShadowRefused)),
        (State::ColdPending, 1)
    );
    home.pass(1);
    assert!(home.sent().iter().all(|s| !s.0));

    let mut home = Home::hot();
    home.read_for(RENEWAL_INTERVAL.as_millis() as u64 + 1000);
    let renewals = home.sent();
    assert_eq!((renewals.len(), home.state()), (3, State::Hot));
    home.hot
        .handle_refused(home.now(), renewals[2].2, renewals[2].3);
    assert_eq!(home.state(), State::ColdPending);
}

#[test]
fn hot_replicas_are_renewed_without_a_break_in_the_leases() {
    let mut home = Home::hot();
    for _ in 0..3 {
        home.read_for(RENEWAL_INTERVAL.as_millis() as u64 + 500);
        let renewals = home.sent();
        assert!(renewals.len() == 3 && renewals.iter().all(|s| s.0));
        assert_eq!(home.read().gamma, 3);
        home.confirm(&renewals);
        assert_eq!(home.read().gamma, 3);
    }
}

#[test]
fn an_item_found_missing_when_it_is_to_be_sent_counts_as_deleted() {
    let mut home = Home::hot();
    home.read_for(RENEWAL_INTERVAL.as_millis() as u64 + 500);
    let renewals = home.sent();
    home.hot
        .handle_absent(home.now(), renewals[0].2, renewals[0].3);
    assert_eq!(home.state(), State::HotPending);
    assert_eq!(
        home.sent().len(),
        1,
        "the others still have a renewal under way"
    );
    home.confirm(&renewals[1..]);
    let rest = home.sent();
    assert!(rest.len() == 2 && rest.iter().all(|s| !s.0));
}

#[test]
fn a_map_that_changes_nothing_for_a_key_lets_it_be() {
    let mut home = Home::hot();
    home.hot
        .handle_map(home.now(), map(|d| d.epoch = Epoch(8)), ME);
    assert_eq!(home.state(), State::Hot);
    assert_eq!(home.read().gamma, 0, "the reader knows the old map");
    assert_eq!(
        home.read_as(KEY, Reader::Aware { epoch: Epoch(8) }, true)
            .gamma,
        3
    );
    home.write(WriteKind::Update);
    let Some(Output::Store(message)) = home.hot.poll_output() else {
        panic!("nothing is sent")
    };
    assert_eq!(message.epoch, Epoch(8));
}

#[test]
fn a_map_with_other_shadows_or_another_home_ends_the_replication() {
    let shadow = renaming::shadows(&map(|_| {}), KEY, ME.server, 1)[0];
    let node = (KeyHash::of(KEY).0 >> 58) as usize;
    let shadow_down = map(|d| {
        d.epoch = Epoch(8);
        d.servers[usize::from(shadow.server.0) - 1].up = false;
    });
    let moved = map(|d| {
        d.epoch = Epoch(8);
        d.cachelets[node] = Some(shadow);
    });
    for other in [shadow_down, moved] {
        let mut home = Home::hot();
        home.read();
        home.hot.handle_map(home.now(), other, ME);
        assert_eq!(home.state(), State::ColdPending);
        assert_eq!(
            home.read_as(KEY, Reader::Aware { epoch: Epoch(8) }, true)
                .gamma,
            0
        );
        home.pass(LEASE_MS + 51);
        assert_eq!(home.sent().len(), 3);
        assert_eq!(home.state(), State::Cold);
    }
}

#[test]
fn a_cold_key_that_moves_away_is_forgotten_at_once() {
    let mut home = Home::new(config());
    home.read_for(400);
    assert_eq!(home.state(), State::Cold);
    let node = (KeyHash::of(KEY).0 >> 58) as usize;
    let other = WorkerRef {
        server: ServerId(2),
        worker: 0,
    };
    home.hot
        .handle_map(home.now(), map(|d| d.cachelets[node] = Some(other)), ME);
    assert_eq!(
        (home.state(), home.count(Event::MapChanged)),
        (State::Invalid, 1)
    );
}

/// The cachelet of [`KEY`] by the map of every story.
fn cachelet() -> CacheletId {
    CacheletId((KeyHash::of(KEY).0 >> 58) as u16)
}

#[test]
fn a_hot_key_whose_cachelet_goes_to_another_worker_is_that_ones_from_then_on() {
    let mut home = Home::hot();
    assert_eq!(home.read().gamma, 3);
    assert!(home.hot.prepare_to_leave(home.now(), cachelet()));
    home.hot.handle_left(home.now(), cachelet(), true);
    assert_eq!(
        (home.state(), home.count(Event::Left)),
        (State::Invalid, 2),
        "without a word to the shadows, who may hear of the new host by now"
    );
    assert_eq!(home.sent(), []);
    // The next map leaves it there, and another one after it has come back here.
    home.hot
        .handle_map(home.now(), map(|d| d.epoch = Epoch(8)), ME);
    home.hot.handle_came(cachelet(), true);
    home.read_for(1200);
    assert_eq!(home.state(), State::HotPending);
    home.hot
        .handle_map(home.now(), map(|d| d.epoch = Epoch(9)), ME);
    assert_eq!(home.state(), State::HotPending);
}

#[test]
fn a_borrowed_cachelet_keeps_its_hot_keys_over_maps_until_they_take_it_away() {
    let other = WorkerRef {
        server: ServerId(1),
        worker: 1,
    };
    let at_other = |epoch: u64| {
        map(move |d| {
            d.epoch = Epoch(epoch);
            d.servers[0].worker_ports.push(3);
            d.cachelets[usize::from(cachelet().0)] = Some(other);
        })
    };
    let mut home = Home::new(config());
    home.hot.handle_map(home.now(), at_other(8), ME);
    home.hot.handle_came(cachelet(), false);
    home.read_for(1200);
    assert_eq!(home.state(), State::HotPending);
    home.hot.handle_map(home.now(), at_other(9), ME);
    assert_eq!(home.state(), State::HotPending);
    home.hot.handle_host_by_map(cachelet());
    home.hot.handle_map(home.now(), at_other(10), ME);
    assert_eq!(home.state(), State::ColdPending);
}

#[test]
fn keys_that_have_come_from_another_server_get_replicas_when_a_map_says_that_they_have() {
    let other = WorkerRef {
        server: ServerId(2),
        worker: 0,
    };
    let migrating = map(|d| {
        d.epoch = Epoch(8);
        d.cachelets[usize::from(cachelet().0)] = Some(other);
    });
    let mut home = Home::new(config());
    home.hot.handle_map(home.now(), migrating, ME);
    home.hot.handle_came(cachelet(), false);
    home.read_for(1200);
    assert_eq!(
        home.state(),
        State::Cold,
        "clients with this map look for copies at the shadows of server 2"
    );
    assert_eq!(home.sent(), []);
    home.hot.handle_host_by_map(cachelet());
    home.hot
        .handle_map(home.now(), map(|d| d.epoch = Epoch(9)), ME);
    home.read();
    assert_eq!(home.state(), State::HotPending);
}

#[test]
fn confirmations_that_nobody_asked_for_are_ignored() {
    let mut home = Home::hot();
    let tag = PropagationTag {
        serial: 999,
        slot: 60_000,
        shadow: 200,
    };
    home.hot.handle_acked(home.now(), ME, tag);
    home.hot.handle_refused(home.now(), ME, tag);
    home.hot.handle_absent(home.now(), ME, tag);
    home.hot.handle_link_lost(home.now(), ME);
    home.hot.handle_link_up(ME);
    home.hot.handle_cluster_load(f64::NAN);
    assert_eq!(home.read().gamma, 3);
}

#[test]
fn a_long_silence_of_the_caller_does_no_harm() {
    let mut home = Home::hot();
    home.read();
    home.ms += 3_600_000;
    home.hot.handle_timeout(home.now());
    assert!(home.hot.poll_deadline() > home.now() || home.state() == State::ColdPending);
    // The one read could be chance, but not that there is no other in four slots.
    home.pass(4 * SLOT.as_millis() as u64);
    home.sent();
    assert_eq!(home.hot.replicated_count(), 0);
}
