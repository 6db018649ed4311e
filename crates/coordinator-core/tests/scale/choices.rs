//! What operators choose, and what is measured.

use crate::story::{Story, band};
use evenkeel_coordinator_core::scale::{Act, Part, PhaseName, ScaleMode, ScaleSettings};

#[test]
fn settings_that_make_no_sense_are_refused_in_words() {
    let good = Story::of(1).settings;
    let refused = |change: &dyn Fn(&mut ScaleSettings)| {
        let mut settings = good;
        change(&mut settings);
        settings.validate().unwrap_err().to_string()
    };
    for (said, expected) in [
        (
            refused(&|it| it.requests_per_server = None),
            "set thresholds for at least one of requests_per_server, busiest_share, p99_us, hit_rate",
        ),
        (
            refused(&|it| it.p99_us = band(900.0, 300.0)),
            "p99_us: the lower threshold (900) has to be less than the upper one (300)",
        ),
        (
            refused(&|it| it.busiest_share = band(0.5, 0.5)),
            "busiest_share: the lower threshold (0.5) has to be less than the upper one (0.5)",
        ),
        (
            refused(&|it| it.hit_rate = band(0.5, 95.0)),
            "hit_rate: a threshold cannot be 95; it may be 0 to 1",
        ),
        (
            refused(&|it| it.p99_us = band(f64::NAN, 1.0)),
            "p99_us: a threshold cannot be NaN; it may be 0 or more",
        ),
        (
            refused(&|it| it.p99_us = band(0.0, f64::INFINITY)),
            "p99_us: a threshold cannot be inf; it may be 0 or more",
        ),
        (
            refused(&|it| it.p99_us = band(-1.0, 1.0)),
            "p99_us: a threshold cannot be -1; it may be 0 or more",
        ),
        (refused(&|it| it.min = 0), "min is 1 to 8, not 0"),
        (refused(&|it| it.min = 9), "min is 1 to 8, not 9"),
        (refused(&|it| it.max = 2_000), "max is 1 to 1024, not 2000"),
        (refused(&|it| it.step = 0), "step is 1 to 8, not 0"),
        (
            refused(&|it| it.sustain_ms = 86_400_001),
            "sustain_ms is at most 86400000, not 86400001",
        ),
    ] {
        assert_eq!(said, expected);
    }
    assert_eq!(ScaleSettings::default().validate(), Ok(()));
    let unknown = serde_json::from_str::<ScaleSettings>(r#"{"minimum": 2}"#);
    assert!(unknown.is_err());
}

#[test]
fn what_is_not_known_is_no_reason_for_anything() {
    let mut story = Story::of(2);
    story.settings.hit_rate = band(0.8, 0.95);
    for (requests, hits) in [
        (None, Some(0.1)),
        (Some(90_000.0), None),
        (Some(f64::NAN), Some(0.1)),
        (Some(f64::INFINITY), Some(0.1)),
        (Some(-1.0), Some(0.1)),
        (Some(90_000.0), Some(1.1)),
        (Some(0.0), Some(f64::NAN)),
    ] {
        story.seen.measures.requests_per_server = requests;
        story.seen.measures.hit_rate = hits;
        for _ in 0..100 {
            let decision = story.after(1);
            assert!(
                decision.why.starts_with("no decision: "),
                "{}",
                decision.why
            );
            assert_eq!((decision.act.as_ref(), decision.is_to_save), (None, false));
        }
    }
    story.seen.measures.requests_per_server = Some(90_000.0);
    story.seen.measures.hit_rate = Some(0.9);
    story.seen.pool.clear();
    assert_eq!(story.after(100).why, "no server of the pool is known");
}

#[test]
fn a_threshold_has_to_be_passed_for_a_while_without_a_break() {
    let mut story = Story::of(2);
    story.loaded(30_001.0);
    story.after(1);
    assert_eq!(
        story.after(29).why,
        "requests_per_server is 30001, above 30000, for 29 s"
    );
    assert_eq!(story.name(), PhaseName::PastUpper);
    story.loaded(30_000.0);
    assert_eq!(
        story.after(1).why,
        "requests_per_server is 30000, between its thresholds"
    );
    story.loaded(30_001.0);
    assert_eq!(story.after(29).act, None);
    assert!(!story.after(29).is_to_save);
    let decision = story.after(1);
    assert_eq!(
        decision.why,
        "requests_per_server is 30001, above 30000: p-2 is started"
    );
    assert!(decision.is_to_save);
}

#[test]
fn fewer_hits_mean_more_servers() {
    let mut story = Story::of(3);
    story.settings.requests_per_server = None;
    story.settings.hit_rate = band(0.8, 0.95);
    for (hits, why) in [
        (0.79, "hit_rate is 0.790, below 0.800, for 0 s"),
        (0.96, "hit_rate is 0.960, above 0.950, for 0 s"),
        (0.9, "hit_rate is 0.900, between its thresholds"),
    ] {
        story.seen.measures.hit_rate = Some(hits);
        assert_eq!(story.after(1).why, why);
    }
}

#[test]
fn one_measure_is_enough_to_add_and_all_are_needed_to_remove() {
    let mut story = Story::of(3);
    story.settings.p99_us = band(300.0, 1_000.0);
    story.loaded(5_000.0);
    for (p99, name) in [
        (2_000.0, PhaseName::PastUpper),
        (500.0, PhaseName::Steady),
        (200.0, PhaseName::BelowLower),
    ] {
        story.seen.measures.p99_us = Some(p99);
        story.after(1);
        assert_eq!(story.name(), name, "{p99}");
    }
}

#[test]
fn what_is_observed_is_counted_and_not_done() {
    let mut story = Story::of(4);
    story.settings.mode = ScaleMode::Observe;
    story.seen.listed = None;
    story.loaded(36_000.0);
    story.after(1);
    let decision = story.after(30);
    assert_eq!(
        decision.why,
        "requests_per_server is 36000, above 30000: would add servers, by 1"
    );
    assert_eq!(decision.act, None);
    // With five servers there would be 28,800 for each.
    story.after(3_600);
    assert_eq!(
        story.after(0).why,
        "requests_per_server is 28800, between its thresholds"
    );
    let account = story.scale.account();
    assert_eq!(
        (account.would_ms, account.server_ms),
        (3_600_000, 3_630_000 * 4)
    );
    // With five there would be 8,000 for each, and with four 10,000.
    story.loaded(10_000.0);
    story.after(1);
    assert!(story.after(30).why.ends_with("would remove a server, by 1"));
    assert_eq!(story.scale.would(), 0);
    story.passes_on();
    story.settings.mode = ScaleMode::Off;
    assert_eq!(story.after(1_000).why, "autoscaling is off");
    assert_eq!(story.scale.account().would_ms, 3_631_000);
}

#[test]
fn what_is_to_be_approved_waits_for_it() {
    let mut story = Story::of(2);
    story.settings.mode = ScaleMode::Approve;
    story.loaded(31_000.0);
    story.after(1);
    // Too early.
    story.seen.is_approved = true;
    assert_eq!(story.after(1).act, None);
    assert!(
        story
            .after(30)
            .why
            .ends_with("waits for approval to add servers")
    );
    assert_eq!(story.after(3_600).act, None);
    story.seen.is_approved = true;
    assert_eq!(story.after(1).act, Some(Act::Start { name: "p-2".into() }));
}

#[test]
fn nothing_begins_while_the_ring_changes() {
    let mut story = Story::of(3);
    story.has("10.0.0.9:11211", Part::Comes);
    story.loaded(31_000.0);
    story.after(1);
    assert!(
        story
            .after(30)
            .why
            .ends_with("waits until the pool has ended its change")
    );
    story.has("10.0.0.9:11211", Part::Owns);
    story.after(1);
    assert_eq!(story.name(), PhaseName::Starting);
}
