//! Answers that are held back with atomic writes.

use super::*;
use evenkeel_types::promise::Consistency;

/// A lease and the margin with which the home waits for its end.
const WAITED_MS: u64 = LEASE_MS + LEASE_MS / 20;

/// The maps of these stories give the key to this worker in this epoch.
const SINCE: Epoch = Epoch(0);

fn atomic() -> HotKeysConfig {
    HotKeysConfig {
        consistency: Consistency::Atomic,
        ..config()
    }
}

/// A HOT key for which a lease has just been granted.
fn leased() -> Home {
    let mut home = Home::new(atomic());
    home.pass(WAITED_MS);
    home.read_for(1010);
    let sent = home.sent();
    assert_eq!(sent.len(), 3);
    home.confirm(&sent);
    assert_eq!(home.read().gamma, 3);
    assert_eq!(home.released(), [], "nothing was held for keys of this map");
    home
}

impl Home {
    /// What the answer to a command on the key must wait for.
    fn hold_as(&mut self, present: bool, since: Epoch) -> Option<HoldId> {
        let now = self.now();
        self.hot.hold_of(now, KeyHash::of(KEY), KEY, present, since)
    }

    fn hold(&mut self) -> Option<HoldId> {
        self.hold_as(true, SINCE)
    }

    fn released(&mut self) -> Vec<(HoldId, ReleasedBy)> {
        let hot = &mut self.hot;
        let released = core::iter::from_fn(|| hot.poll_released());
        // What the first map brought is of no interest to most stories.
        released
            .filter(|released| released.by != ReleasedBy::FormerHome)
            .map(|released| (released.id, released.by))
            .collect()
    }

    /// Messages by what they ask for: stores, blocks, removals.
    fn kinds(&mut self) -> ([usize; 3], Vec<Sent>) {
        let before = self.hot.stats();
        let sent = self.sent();
        let after = self.hot.stats();
        let kinds = [
            after.stores - before.stores,
            after.blocks - before.blocks,
            after.removes - before.removes,
        ];
        (kinds.map(|count| count as usize), sent)
    }
}

#[test]
fn a_write_is_answered_when_no_replica_can_be_read_and_then_the_value_goes_out() {
    let mut home = leased();
    assert_eq!(home.hold(), None);
    home.write(WriteKind::Update);
    let hold = home.hold().expect("a lease has been granted");
    assert_eq!(home.read().gamma, 0);
    let (kinds, blocks) = home.kinds();
    assert_eq!(kinds, [0, 3, 0]);
    home.confirm(&blocks[..2]);
    assert_eq!((home.released(), home.hold()), (vec![], Some(hold)));
    assert_eq!(
        home.sent(),
        [],
        "no copy has the value before all are blocked"
    );
    // What is written meanwhile waits for the same.
    home.write(WriteKind::Update);
    assert_eq!(home.hold(), Some(hold));
    home.confirm(&blocks[2..]);
    assert_eq!(home.released(), [(hold, ReleasedBy::Confirmation)]);
    assert_eq!(home.hold(), None);
    let (kinds, stores) = home.kinds();
    assert_eq!(kinds, [3, 0, 0]);
    assert_eq!(home.read().gamma, 0);
    home.confirm(&stores);
    assert_eq!(home.read().gamma, 3);
    assert_eq!(home.count(Event::Prepared), 1);
}

#[test]
fn the_wait_for_a_silent_shadow_server_ends_with_the_last_lease() {
    let mut home = leased();
    home.write(WriteKind::Update);
    let hold = home.hold();
    let (_, blocks) = home.kinds();
    home.confirm(&blocks[..2]);
    home.pass(WAITED_MS - 1);
    assert_eq!((home.released(), home.hold()), (vec![], hold));
    home.pass(1);
    assert_eq!(home.released(), [(hold.unwrap(), ReleasedBy::Lease)]);
    // Nobody has a lease: what follows waits for nothing.
    home.write(WriteKind::Update);
    assert_eq!(home.hold(), None);
    assert_eq!(home.count(Event::LeasesOver), 1);
}

#[test]
fn a_shadow_server_whose_connection_broke_has_confirmed_nothing() {
    let mut home = leased();
    home.write(WriteKind::Update);
    let (_, blocks) = home.kinds();
    home.confirm(&blocks[..2]);
    home.hot.handle_link_lost(home.now(), blocks[2].2);
    assert_eq!(home.released(), []);
    home.hot.handle_link_up(blocks[2].2);
    let (kinds, again) = home.kinds();
    assert_eq!(kinds, [0, 1, 0], "those that are blocked stay so");
    home.confirm(&again);
    assert_eq!(home.released().len(), 1);
}

#[test]
fn nothing_is_held_with_leases_alone() {
    let mut home = Home::hot();
    assert_eq!(home.read().gamma, 3);
    home.write(WriteKind::Update);
    assert!(!home.hot.is_careful());
    assert_eq!(home.hold_as(false, SINCE), None);
    assert_eq!(home.kinds().0, [3, 0, 0]);
}

#[test]
fn what_is_on_its_way_to_the_replicas_is_blocked_behind_it() {
    let mut home = leased();
    home.write(WriteKind::Update);
    let (_, blocks) = home.kinds();
    home.confirm(&blocks);
    assert_eq!(home.released().len(), 1);
    // Before the value leaves, nobody can read it elsewhere.
    home.write(WriteKind::Update);
    assert_eq!(home.hold(), None);
    let (kinds, stores) = home.kinds();
    assert_eq!(kinds, [3, 0, 0]);
    // From then on one whose lease goes on might.
    home.write(WriteKind::Update);
    assert!(home.hold().is_some());
    assert_eq!(home.sent(), [], "one message at a time to each shadow");
    home.confirm(&stores);
    let (kinds, blocks) = home.kinds();
    assert_eq!(kinds, [0, 3, 0]);
    home.confirm(&blocks);
    assert_eq!(home.released().len(), 1);
    assert_eq!(home.kinds().0, [3, 0, 0]);
}

#[test]
fn what_expired_is_told_when_no_replica_can_be_read() {
    let mut home = leased();
    let hold = home.hold_as(false, SINCE);
    assert!(hold.is_some());
    assert_eq!(home.hold_as(false, SINCE), hold);
    let (kinds, blocks) = home.kinds();
    assert_eq!(kinds, [0, 3, 0]);
    home.confirm(&blocks);
    assert_eq!(home.released().len(), 1);
    assert_eq!(home.state(), State::Cold, "there is nothing to be stored");
    assert_eq!(home.sent(), []);
}

#[test]
fn leases_outlive_the_replicas_of_a_deleted_key() {
    let mut home = leased();
    home.write(WriteKind::Delete);
    let (kinds, blocks) = home.kinds();
    assert_eq!(kinds, [0, 3, 0]);
    home.confirm(&blocks);
    assert_eq!((home.released().len(), home.state()), (1, State::Cold));
    // It is written again and as hot as before, while the leases of its former life go on.
    home.write(WriteKind::Update);
    assert_eq!(home.hold(), None);
    // What its replicas took away is counted until the slot ends.
    home.read_for(SLOT.as_millis() as u64);
    assert_eq!(home.state(), State::HotPending);
    let (kinds, stores) = home.kinds();
    assert_eq!(kinds, [3, 0, 0]);
    home.confirm(&stores[..1]);
    home.write(WriteKind::Update);
    assert!(
        home.hold().is_some(),
        "the first shadow server may be asked"
    );
}

#[test]
fn a_flush_waits_for_every_key() {
    let mut home = leased();
    home.hot.handle_flush(home.now());
    let holds: Vec<HoldId> = home.hot.holds().collect();
    assert_eq!(holds, Vec::from_iter(home.hold_as(false, SINCE)));
    let (_, blocks) = home.kinds();
    home.confirm(&blocks);
    assert_eq!(home.hot.holds().count(), 0);
}

#[test]
fn a_new_home_waits_for_the_leases_of_the_former_one() {
    let mut home = Home::new(atomic());
    home.pass(WAITED_MS);
    assert!(!home.hot.is_careful());
    let next = map(|document| document.epoch = Epoch(8));
    home.hot.handle_map(home.now(), next.clone(), ME);
    assert!(home.hot.is_careful());
    assert_eq!(
        home.hold_as(true, EPOCH),
        None,
        "it was at home here before"
    );
    let hold = home.hold_as(true, Epoch(8));
    assert!(hold.is_some());
    home.pass(10);
    // Told again, of nothing new.
    home.hot.handle_map(home.now(), next, ME);
    home.pass(WAITED_MS - 11);
    assert_eq!(home.hold_as(true, Epoch(8)), hold);
    home.pass(1);
    assert_eq!(home.hold_as(true, Epoch(8)), None);
    assert!(!home.hot.is_careful());
    let last = core::iter::from_fn(|| home.hot.poll_released()).last();
    let last = last.expect("it is told");
    assert_eq!((Some(last.id), last.by), (hold, ReleasedBy::FormerHome));
    assert_eq!(last.lasted, Duration::from_millis(WAITED_MS));
}

/// A process that is stopped after it has read the clock does things later than it believes.
#[test]
fn a_lease_counts_from_the_next_reading_of_the_clock() {
    let mut home = leased();
    home.ms += 3 * WAITED_MS;
    home.hot.handle_turn(home.now());
    home.write(WriteKind::Update);
    let hold = home.hold();
    assert!(hold.is_some(), "the lease may have been granted just now");
    home.pass(WAITED_MS - 1);
    assert_eq!(home.hold(), hold);
    home.pass(1);
    assert_eq!(home.hold(), None);
}

#[test]
fn replicas_that_are_taken_back_are_blocked_by_writes_until_then() {
    let mut home = leased();
    home.hot.set_mode(home.now(), Mode::Off);
    assert_eq!(home.state(), State::ColdPending);
    home.write(WriteKind::Update);
    let hold = home.hold();
    assert!(hold.is_some());
    let (kinds, blocks) = home.kinds();
    assert_eq!(kinds, [0, 3, 0]);
    home.confirm(&blocks);
    assert_eq!(home.released(), [(hold.unwrap(), ReleasedBy::Confirmation)]);
    home.pass(WAITED_MS);
    assert_eq!(home.kinds().0, [0, 0, 3]);
    assert_eq!(home.state(), State::Cold);
    assert!(!home.hot.is_careful());
}

#[test]
fn a_cachelet_stays_until_no_lease_of_its_keys_is_left() {
    let mut home = leased();
    let cachelet = CacheletId((KeyHash::of(KEY).0 >> 58) as u16);
    let granted = home.now();
    assert!(!home.hot.prepare_to_leave(home.now(), cachelet));
    assert_eq!(home.state(), State::ColdPending);
    while !home.hot.prepare_to_leave(home.now(), cachelet) {
        assert_eq!(home.read().gamma, 0);
        let sent = home.sent();
        home.confirm(&sent);
        home.pass(10);
    }
    let waited = home.now().since(granted);
    assert!(waited >= Duration::from_millis(LEASE_MS), "{waited:?}");
    assert!(waited <= Duration::from_millis(2 * LEASE_MS), "{waited:?}");
    home.hot.handle_left(home.now(), cachelet, true);
    assert_eq!(home.state(), State::Invalid);
}

#[test]
fn writes_that_become_atomic_wait_for_the_longer_leases_of_before() {
    let mut home = Home::hot();
    assert_eq!(home.read().gamma, 3);
    home.write(WriteKind::Update);
    assert_eq!(home.hold(), None, "not yet");
    home.promise(Consistency::Atomic, LEASE_MS / 2);
    home.write(WriteKind::Update);
    let hold = home.hold().expect("copies may be read");
    home.pass(WAITED_MS - 1);
    assert_eq!((home.released(), home.hold()), (vec![], Some(hold)));
    home.pass(1);
    assert_eq!(home.released(), [(hold, ReleasedBy::Lease)]);
}

#[test]
fn what_is_held_stays_so_until_its_end_when_writes_are_no_more_atomic() {
    let mut home = leased();
    home.write(WriteKind::Update);
    let hold = home.hold().expect("a lease has been granted");
    home.promise(Consistency::Lease, LEASE_MS);
    assert_eq!(home.hold(), None, "what follows is not held");
    let (kinds, blocks) = home.kinds();
    assert_eq!(kinds, [0, 3, 0]);
    home.confirm(&blocks);
    assert_eq!(home.released(), [(hold, ReleasedBy::Confirmation)]);
    let (kinds, stores) = home.kinds();
    assert_eq!(kinds, [3, 0, 0]);
    home.confirm(&stores);
    assert_eq!(home.state(), State::Hot);
}
