//! Servers that are removed, and what can go wrong with them.

use crate::story::{Story, address, band};
use evenkeel_coordinator_core::scale::{Act, Part, PhaseName, PoolServer, ScaleMode};

#[test]
fn the_last_that_came_leaves_and_is_stopped_when_it_owns_nothing() {
    let mut story = Story::of(4);
    story.drains("p-3");
    for _ in 0..100 {
        assert_eq!(story.after(60).act, None);
    }
    story.seen.pool.remove(&address("p-3"));
    let decision = story.after(1);
    assert_eq!(decision.act, Some(Act::Stop { name: "p-3".into() }));
    assert!(decision.is_to_save);
    // Somebody has given its address a part again.
    story.has(&address("p-3"), Part::Comes);
    assert_eq!(story.after(1).act, None);
    story.seen.pool.remove(&address("p-3"));
    assert!(story.after(1).act.is_some());
    assert_eq!(story.done().why, "p-3 is stopped");
    assert_eq!(
        story.after(599).why,
        "rests for 2 s more after a server was removed"
    );
    // The names of those that are gone are not given again.
    story.seen.listed.as_mut().unwrap().remove("p-3");
    story.after(1);
    story.starts("p-4");
}

#[test]
fn none_leaves_that_the_actuator_does_not_run_or_that_is_needed() {
    let mut story = Story::of(2);
    story.seen.listed = Some([].into());
    story.loaded(5_000.0);
    story.after(1);
    assert_eq!(
        story.after(30).why,
        "requests_per_server is 5000, below 12000, but the actuator runs no server of the pool"
    );
    story.seen.listed = None;
    assert!(
        story
            .after(1)
            .why
            .ends_with("waits until the actuator says what it runs")
    );
    let mut story = Story::of(2);
    story.settings.requests_per_server = band(12_000.0, 14_000.0);
    story.loaded(11_000.0);
    assert_eq!(
        story.after(1).why,
        "with a server fewer, requests_per_server would be about 22000, too near to 14000"
    );
    let mut story = Story::of(1);
    story.loaded(0.0);
    assert_eq!(
        story.after(1).why,
        "requests_per_server is 0, below 12000, but there are 1 servers, the least that there may be"
    );
}

#[test]
fn a_removal_is_given_up_when_another_server_is_gone_that_was_needed() {
    let mut story = Story::of(4);
    story.settings.min = 3;
    story.loaded(5_000.0);
    story.after(1);
    story.after(30);
    assert_eq!(story.name(), PhaseName::Draining);
    story.has(&address("p-3"), Part::Leaves);
    story.after(1);
    assert_eq!(story.name(), PhaseName::Draining);
    story.seen.pool.remove(&address("p-1"));
    assert_eq!(
        story.after(1).why,
        "p-3 stays, for there are 2 others, and at least 3 wanted"
    );
    story.has(&address("p-3"), Part::Owns);
    assert_eq!(story.after(1).why, "p-3 stays");
}

#[test]
fn a_removal_is_given_up_while_another_server_is_not_reached() {
    let unreached = PoolServer {
        part: Part::Owns,
        is_unreached: true,
    };
    let mut story = Story::of(4);
    story.loaded(5_000.0);
    story.after(1);
    story.seen.pool.insert(address("p-1"), unreached);
    let why = &story.after(30).why;
    assert!(
        why.ends_with("removes nothing while p-1.cache:11211 is not reached"),
        "{why}"
    );
    story.has(&address("p-1"), Part::Owns);
    // The ring has not begun.
    story.after(1);
    assert_eq!(story.name(), PhaseName::Draining);
    story.seen.pool.insert(address("p-1"), unreached);
    assert_eq!(
        story.after(1).why,
        "p-3 stays, for p-1.cache:11211 is not reached"
    );
    assert_eq!(story.after(1).why, "p-3 stays");
    story.has(&address("p-1"), Part::Owns);
    // The ring has begun: it joins again when it has left.
    story.after(600);
    story.drains("p-3");
    story.seen.pool.insert(address("p-1"), unreached);
    assert_eq!(story.after(1).act, None);
    story.seen.pool.remove(&address("p-1"));
    story.seen.pool.remove(&address("p-3"));
    assert_eq!(
        story.after(1).act,
        Some(Act::Join {
            address: address("p-3")
        })
    );
    story.has(&address("p-3"), Part::Comes);
    story.after(1);
    story.has(&address("p-3"), Part::Owns);
    assert_eq!(story.after(1).why, "p-3 stays");
}

#[test]
fn a_server_that_nobody_waits_for_is_stopped_and_others_are_left_alone() {
    let mut story = Story::of(2);
    story.joins("p-2");
    story.loaded(20_000.0);
    story.after(180);
    let listed = story.seen.listed.as_mut().unwrap();
    for other in ["p-02", "p-3", "q-1", "p", "p-", "p-x", "p-0"] {
        listed.insert(other.into(), address(other));
    }
    assert_eq!(story.after(1).act, None);
    story.seen.pool.remove(&address("p-2"));
    story.settings.mode = ScaleMode::Observe;
    assert_eq!(story.after(1).act, None);
    story.settings.mode = ScaleMode::Automatic;
    let decision = story.after(1);
    assert_eq!(
        decision.why,
        "p-2 is stopped, for the pool does not have it and nobody waits for it"
    );
    assert_eq!(decision.act, Some(Act::Stop { name: "p-2".into() }));
    story.done();
    assert_eq!(story.name(), PhaseName::Steady);
}

#[test]
fn what_was_begun_is_ended_when_it_is_switched_off() {
    let mut story = Story::of(4);
    story.drains("p-3");
    story.settings.mode = ScaleMode::Off;
    story.seen.pool.remove(&address("p-3"));
    assert_eq!(story.after(1).act, Some(Act::Stop { name: "p-3".into() }));
    story.done();
    story.loaded(90_000.0);
    assert_eq!(story.after(600).why, "autoscaling is off");
}

#[test]
fn what_all_servers_use_together_adds_one_and_holds_a_removal_back() {
    let mut story = Story::of(4);
    story.loaded(5_000.0);
    story.seen.measures.utilization = Some(0.55);
    assert_eq!(
        story.after(1).why,
        "with a server fewer, all would use about 0.733 of what they can do together, too near to 0.85"
    );
    story.seen.measures.utilization = Some(0.5);
    assert_eq!(
        story.after(1).why,
        "requests_per_server is 5000, below 12000, for 0 s"
    );
    story.seen.measures.utilization = Some(0.86);
    assert_eq!(
        story.after(1).why,
        "all servers are hot: they use 0.860 of what they can do together, above 0.85, for 0 s"
    );
    story.seen.measures.utilization = Some(f64::NAN);
    assert_eq!(
        story.after(1).why,
        "requests_per_server is 5000, below 12000, for 0 s"
    );
}
