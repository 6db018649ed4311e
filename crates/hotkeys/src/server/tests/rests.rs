//! Replicas of a key that is written often are told of several writes at once.

use super::*;

/// A key read 100 times a second with four copies: each has served eight reads after more than the longest rest.
fn resting() -> Home {
    Home::hot_with(HotKeysConfig {
        reads_per_store: 8.0,
        ..config()
    })
}

/// A twentieth of a lease.
const REST_MS: u64 = LEASE_MS / 20;

#[test]
fn writes_during_a_rest_are_told_of_together_at_its_end() {
    let mut home = resting();
    home.write(WriteKind::Update);
    let first = home.sent();
    assert_eq!(first.len(), 3, "the first of them leaves at once");
    home.confirm(&first);
    assert_eq!(home.state(), State::Hot);
    for _ in 0..REST_MS - 1 {
        home.pass(1);
        home.write(WriteKind::Update);
        assert_eq!(home.sent(), []);
        assert_eq!(home.state(), State::HotPending, "no lease is granted");
    }
    home.pass(1);
    let second = home.sent();
    assert_eq!(second.len(), 3);
    home.confirm(&second);
    assert_eq!(home.state(), State::Hot);
    home.pass(REST_MS);
    assert_eq!(home.sent(), [], "nothing is owed");
}

#[test]
fn who_confirms_late_is_told_of_what_was_written_meanwhile_and_no_deadline_stays_in_the_past() {
    let mut home = resting();
    home.write(WriteKind::Update);
    let first = home.sent();
    home.write(WriteKind::Update);
    home.pass(2 * REST_MS);
    assert_eq!(home.sent(), [], "a message is on its way");
    assert!(home.hot.poll_deadline() > home.now(), "nobody spins");
    home.confirm(&first);
    let second = home.sent();
    assert_eq!(second.len(), 3);
    home.confirm(&second);
    assert_eq!(home.state(), State::Hot);
}

#[test]
fn a_deletion_does_not_wait() {
    let mut home = resting();
    home.write(WriteKind::Update);
    let first = home.sent();
    home.confirm(&first);
    home.pass(1);
    home.write(WriteKind::Delete);
    let removals = home.sent();
    assert_eq!(removals.len(), 3);
    assert!(removals.iter().all(|&(store, ..)| !store));
}

#[test]
fn stores_of_replicas_are_load_and_no_reason_to_replicate() {
    let mut home = Home::new(config());
    let trigger = home.hot.is_triggered();
    for _ in 0..300 {
        home.hot.handle_replica_order(0);
        home.pass(10);
    }
    assert!((home.hot.replica_load() - 100.0).abs() < 5.0);
    assert_eq!(home.hot.is_triggered(), trigger);
    assert_eq!(home.hot.loads().served, 0.0);
}
