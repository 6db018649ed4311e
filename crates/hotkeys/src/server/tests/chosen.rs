//! What an operator chooses while a key has replicas and clients have leases.

use super::*;
use crate::settings::Settings;
use evenkeel_types::promise::Consistency;

impl Home {
    /// The next map comes, which is the same but for what it promises.
    pub(super) fn promise(&mut self, consistency: Consistency, lease_ms: u64) -> Epoch {
        let epoch = Epoch(self.hot.map.as_ref().unwrap().epoch().0 + 1);
        let map = map(|document| {
            document.epoch = epoch;
            document.promise = Some(Promise {
                consistency,
                lease_ms,
            });
        });
        self.hot.handle_map(self.now(), map, ME);
        epoch
    }

    /// Switched off now, how many milliseconds until the replicas are removed.
    fn removed_after(&mut self) -> u64 {
        let off = Settings {
            hot_keys: Mode::Off,
            ..Settings::default()
        };
        self.hot.take_settings(self.now(), &off);
        let begun = self.ms;
        while self.sent().is_empty() {
            self.pass(1);
        }
        self.ms - begun
    }
}

#[test]
fn leases_of_before_are_waited_for_when_they_get_shorter_and_only_those() {
    let mut home = Home::hot();
    assert_eq!(home.read().gamma, 3);
    let epoch = home.promise(Consistency::Lease, 300);
    assert_eq!(home.read().gamma, 0, "it may not know the length");
    let advice = home.read_as(KEY, Reader::Aware { epoch }, true);
    assert_eq!((advice.gamma, advice.left), (3, None), "a whole one");
    assert_eq!(home.removed_after(), 1050);

    let mut home = Home::hot();
    home.read();
    let epoch = home.promise(Consistency::Lease, 300);
    for _ in 0..110 {
        home.read_as(KEY, Reader::Aware { epoch }, true);
        home.pass(10);
    }
    home.read_as(KEY, Reader::Aware { epoch }, true);
    assert_eq!(home.removed_after(), 315, "the others have ended");
}

/// The driver reads its clock when the grants of its last turn are long over for itself.
#[test]
fn a_stopped_process_takes_leases_of_before_for_granted_when_it_goes_on() {
    let mut home = Home::hot();
    home.read();
    home.promise(Consistency::Lease, 300);
    home.ms += 900;
    home.hot.handle_turn(home.now());
    home.hot.handle_timeout(home.now());
    assert_eq!(home.hot.lease_waited(), Duration::from_millis(1050));
    home.pass(1049);
    assert_eq!(home.hot.lease_waited(), Duration::from_millis(1050));
    home.pass(1);
    assert_eq!(home.hot.lease_waited(), Duration::from_millis(315));
}

#[test]
fn what_nobody_promises_any_more_is_what_was_built_in() {
    let mut home = Home::hot();
    let built_in = home.hot.promise();
    home.promise(Consistency::Atomic, 300);
    assert_eq!(home.hot.promise().lease_ms, 300);
    assert_eq!(home.hot.config.write_weight, 9.0);
    let silent = map(|document| document.epoch = Epoch(99));
    home.hot.handle_map(home.now(), silent, ME);
    assert_eq!(home.hot.promise(), built_in);
    assert_eq!(home.hot.config.write_weight, 3.0);
}

#[test]
fn a_write_outweighs_what_was_chosen_and_otherwise_what_goes_with_the_consistency() {
    let mut home = Home::hot();
    let chosen = |hot_write_weight| Settings {
        hot_write_weight,
        ..Settings::default()
    };
    home.hot.take_settings(home.now(), &chosen(Some(20.0)));
    assert_eq!(home.hot.config.write_weight, 20.0);
    home.promise(Consistency::Atomic, 300);
    assert_eq!(home.hot.config.write_weight, 20.0);
    home.hot.take_settings(home.now(), &chosen(None));
    assert_eq!(home.hot.config.write_weight, 9.0);
}

#[test]
fn a_worker_works_by_what_is_chosen_at_once() {
    let mut home = Home::hot();
    let chosen = Settings {
        gamma_max: 1,
        hot_share: 20.0,
        hot_sampling: Some(50.0),
        hot_trigger_rps: Some(1e9),
        ..Settings::default()
    };
    home.hot.take_settings(home.now(), &chosen);
    let config = &home.hot.config;
    assert_eq!((config.hot_share, config.cold_share), (0.2, 0.1));
    assert_eq!((config.sampling, config.gamma_max), (Some(0.5), 1));
    home.pass(600);
    assert!(!home.hot.is_triggered(), "it is far from so loaded");
}
