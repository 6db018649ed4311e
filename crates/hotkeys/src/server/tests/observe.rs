//! What the log tells of a key's life, and what is observed without anything being done.

use super::*;
use crate::log::{EFFECT_AFTER, HotKeyAction, LogEntry};

fn log(home: &Home) -> Vec<LogEntry> {
    home.hot.log().entries().cloned().collect()
}

/// Action, cause, and γ before and from then on.
fn actions(home: &Home) -> Vec<(HotKeyAction, Event, u8, u8)> {
    let in_short = |e: &LogEntry| (e.action, e.cause, e.gamma_before, e.gamma);
    home.hot.log().entries().map(in_short).collect()
}

fn observing() -> HotKeysConfig {
    HotKeysConfig {
        mode: Mode::Observe,
        ..config()
    }
}

#[test]
fn the_log_tells_of_a_promotion_what_was_seen_what_was_expected_and_what_came_of_it() {
    let mut home = Home::hot();
    assert_eq!(
        actions(&home),
        [(HotKeyAction::Promoted, Event::Promoted, 0, 3)],
        "reaching HOT is no action of its own"
    );
    let entry = log(&home).remove(0);
    assert_eq!((&*entry.key, entry.after), (KEY, None));
    assert_eq!(entry.before.undiverted, home.hot.loads().undiverted);
    // An average over slots of which the oldest were empty.
    assert!((45.0..=100.0).contains(&entry.rate), "{}", entry.rate);
    let expected = entry.before.served - 0.75 * entry.rate;
    assert!((entry.expected() - expected).abs() < 1e-9);
    // Aware clients take turns among four copies: a quarter comes home.
    let steps = EFFECT_AFTER.as_millis() as u64 / 40 + 25;
    for _ in 0..steps {
        home.read();
        home.pass(40);
    }
    let after = log(&home)[0].after.expect("long enough");
    assert!(after.served < 35.0, "{after:?}");
    assert!(after.undiverted > 90.0, "{after:?}");
    home.pass(20_000);
    let retired = (HotKeyAction::Retired, Event::Cooled, 3, 0);
    assert_eq!(actions(&home)[1], retired);
    let stats = home.hot.stats();
    assert_eq!((stats.promoted, stats.retired, stats.widened), (1, 1, 0));
}

#[test]
fn what_is_observed_is_logged_once_and_nothing_is_done() {
    let mut home = Home::new(observing());
    home.read_for(3000);
    assert_eq!(home.state(), State::Cold);
    assert_eq!(
        actions(&home),
        [(HotKeyAction::WouldPromote, Event::Promoted, 0, 3)]
    );
    assert!(home.sent().is_empty());
    assert_eq!(home.read(), ReadAdvice::default());
    let info = home.hot.list_spread().remove(0);
    assert_eq!(
        info.proposed,
        renaming::shadows(&map(|_| {}), KEY, ME.server, 3)
    );
    assert_eq!((info.shadows.len(), home.hot.proposed_count()), (0, 1));
    // It cools, and would be retired. There never is an effect of what was not done.
    home.pass(20_000);
    assert_eq!(actions(&home)[1].0, HotKeyAction::WouldRetire);
    assert!(log(&home).iter().all(|entry| entry.after.is_none()));
    assert_eq!(home.hot.proposed_count(), 0);
}

#[test]
fn observed_keys_are_promoted_once_they_may_be_and_retired_when_they_may_not() {
    let mut home = Home::new(observing());
    home.read_for(2000);
    home.hot.set_mode(home.now(), Mode::On);
    home.read_for(100);
    let sent = home.sent();
    home.confirm(&sent);
    assert_eq!(home.state(), State::Hot);
    home.hot.set_mode(home.now(), Mode::Observe);
    assert_eq!(home.state(), State::ColdPending);
    assert_eq!(home.read().gamma, 0);
    for _ in 0..30 {
        home.read_for(100);
        let sent = home.sent();
        home.confirm(&sent);
    }
    assert_eq!(home.state(), State::Cold);
    let actions: Vec<_> = actions(&home).into_iter().map(|d| (d.0, d.1)).collect();
    let expected = [
        (HotKeyAction::WouldPromote, Event::Promoted),
        (HotKeyAction::WouldRetire, Event::SwitchedOff),
        (HotKeyAction::Promoted, Event::Promoted),
        (HotKeyAction::Retired, Event::SwitchedOff),
        (HotKeyAction::WouldPromote, Event::Promoted),
    ];
    assert_eq!(actions, expected);
}

#[test]
fn another_map_outdates_what_was_observed_unless_it_changes_nothing() {
    let mut home = Home::new(observing());
    home.read_for(2000);
    let now = home.now();
    home.hot.handle_map(now, map(|m| m.epoch = Epoch(8)), ME);
    assert_eq!(home.hot.proposed_count(), 1);
    let without_one = map(|m| {
        m.epoch = Epoch(9);
        m.servers[2].up = false;
    });
    home.hot.handle_map(now, without_one, ME);
    assert_eq!(actions(&home)[1].0, HotKeyAction::WouldRetire);
    home.read_for(50);
    let info = home.hot.list_spread().remove(0);
    assert_eq!(info.proposed.len(), 2, "two other servers are left");
}

#[test]
fn the_time_that_copies_are_behind_is_that_of_the_oldest_write_they_lack() {
    let mut home = Home::hot();
    let behind = |home: &Home| {
        let stats = home.hot.stats();
        (stats.copies_behind, stats.copies_unconfirmed)
    };
    assert_eq!(behind(&home).0.count(), 0, "a new replica is no write");
    home.write(WriteKind::Update);
    let first = home.sent();
    home.pass(20);
    home.write(WriteKind::Update);
    home.pass(10);
    home.confirm(&first);
    assert_eq!(behind(&home).0.count(), 0);
    let second = home.sent();
    home.pass(5);
    home.confirm(&second);
    let (ages, unconfirmed) = behind(&home);
    assert_eq!((ages.count(), ages.max_us(), unconfirmed), (1, 35_000, 0));
    // One is never confirmed: its replicas are given up.
    home.write(WriteKind::Update);
    home.pass(3 * LEASE_MS);
    home.sent();
    assert_eq!(home.state(), State::Cold);
    assert_eq!((behind(&home).0.count(), behind(&home).1), (1, 1));
}
