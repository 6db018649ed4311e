//! Servers that are added, and what can go wrong with them.

use crate::story::{BY_HAND, Story, address};
use evenkeel_coordinator_core::scale::{
    Act, After, Outcome, Part, Phase, PhaseName, Scale, Side, Why,
};
use evenkeel_types::Instant;

#[test]
fn a_server_joins_when_it_has_answered_ten_times_in_a_row() {
    let mut story = Story::of(2);
    story.starts("p-2");
    for _ in 0..9 {
        assert!(!story.done().is_to_save);
    }
    assert_eq!(
        story.fails("refuses marks").why,
        "p-2 is tried: refuses marks"
    );
    for _ in 0..9 {
        story.done();
    }
    assert_eq!(story.name(), PhaseName::Starting);
    assert_eq!(story.done().why, "p-2 answers, and joins");
    assert_eq!(story.name(), PhaseName::Joining);
    story.has(&address("p-2"), Part::Owns);
    assert_eq!(story.after(1).why, "p-2 has joined");
    assert_eq!(
        story.after(100).why,
        "rests for 81 s more after a server was added"
    );
    // What was said once too often changes nothing.
    let name = "p-2".to_owned();
    let address = address("elsewhere");
    assert_eq!(story.hears(Outcome::Started { name, address }).act, None);
    assert_eq!(story.name(), PhaseName::Cooling);
}

#[test]
fn a_server_that_never_answers_is_stopped_and_the_next_try_waits_longer_each_time() {
    let mut story = Story::of(2);
    let mut number = 2;
    for minutes in [1, 2, 4, 8, 16, 30, 30] {
        story.starts(&format!("p-{number}"));
        story.after(59);
        assert_eq!(story.name(), PhaseName::Starting);
        let stop = Act::Stop {
            name: format!("p-{number}"),
        };
        assert_eq!(story.after(1).act, Some(stop));
        story.done();
        assert_eq!(story.name(), PhaseName::Cooling);
        assert_eq!(
            story.after(minutes * 60 - 1).why,
            "rests for 2 s more after a server was started in vain"
        );
        number += 1;
    }
    story.after(1);
    story.joins(&format!("p-{number}"));
    story.after(180);
    number += 1;
    story.starts(&format!("p-{number}"));
    story.after(60);
    story.done();
    story.after(60);
    assert_eq!(
        story.name(),
        PhaseName::PastUpper,
        "the wait is a minute again"
    );
}

#[test]
fn an_actuator_that_fails_is_asked_to_stop_what_it_may_have_started() {
    let mut story = Story::of(2);
    story.loaded(31_000.0);
    story.after(1);
    story.after(30);
    let stop = Act::Stop { name: "p-2".into() };
    let decision = story.fails("it took longer than 60 s").clone();
    assert_eq!(decision.act, Some(stop.clone()));
    assert_eq!(
        decision.why,
        "the actuator could not start it: it took longer than 60 s; p-2 is stopped, for it was started in vain"
    );
    assert_eq!(story.fails("it took longer than 60 s").act, None);
    assert_eq!(story.after(59).act, None);
    assert_eq!(story.after(1).act, Some(stop));
    story.done();
    let is_cooling = matches!(
        story.scale.phase(),
        Phase::Cooling {
            after: After::Failed,
            ..
        }
    );
    assert!(is_cooling);
}

#[test]
fn an_actuator_that_names_a_server_of_the_ring_as_new_has_nothing_stopped() {
    let mut story = Story::of(2);
    story.loaded(31_000.0);
    story.after(1);
    story.after(30);
    let (name, address) = ("p-2".to_owned(), BY_HAND.to_owned());
    let decision = story.hears(Outcome::Started { name, address });
    assert_eq!(decision.act, None);
    assert_eq!(
        decision.why,
        "the actuator says that p-2 is 10.0.0.1:11211, which the pool has already"
    );
    story.runs("p-2");
    let listed = story.seen.listed.as_mut().unwrap();
    listed.insert("p-2".into(), BY_HAND.into());
    story.loaded(20_000.0);
    for _ in 0..600 {
        assert_eq!(story.after(1).act, None);
    }
}

#[test]
fn a_newcomer_that_the_ring_takes_back_is_stopped() {
    let mut story = Story::of(2);
    story.starts("p-2");
    for _ in 0..10 {
        story.done();
    }
    assert_eq!(
        story.fails("waits for proxy a").why,
        "p-2 waits for the pool: waits for proxy a"
    );
    story.has(&address("p-2"), Part::Comes);
    story.after(3_600);
    story.seen.pool.remove(&address("p-2"));
    assert_eq!(
        story.after(1).why,
        "the pool has taken it back; p-2 is stopped, for it was started in vain"
    );
}

#[test]
fn a_ring_that_refuses_for_ten_minutes_is_not_asked_any_more() {
    let mut story = Story::of(3);
    story.starts("p-3");
    for _ in 0..10 {
        story.done();
    }
    story.after(599);
    let decision = story.after(1);
    assert_eq!(decision.act, Some(Act::Stop { name: "p-3".into() }));
    story.done();
    story.after(60);
    story.loaded(5_000.0);
    story.after(1);
    assert_eq!(
        story.after(30).act,
        Some(Act::Drain {
            address: address("p-2")
        })
    );
    story.fails("waits for proxy a");
    story.after(600);
    assert_eq!(story.after(1).why, "p-2 stays");
}

#[test]
fn a_step_adds_several_one_after_the_other_up_to_the_most() {
    let mut story = Story::of(6);
    (story.settings.step, story.settings.max) = (4, 8);
    story.starts("p-6");
    for number in [6, 7] {
        let name = format!("p-{number}");
        for _ in 0..10 {
            story.done();
        }
        story.runs(&name);
        story.has(&address(&name), Part::Owns);
        if number == 6 {
            assert_eq!(story.after(1).why, "p-6 has joined; p-7 is started");
            story.done();
        }
    }
    assert_eq!(story.after(1).why, "p-7 has joined");
    assert_eq!(story.name(), PhaseName::Cooling);
}

#[test]
fn where_there_are_too_few_servers_some_are_added_whatever_is_measured() {
    let mut story = Story::of(2);
    story.settings.min = 3;
    story.after(1);
    assert_eq!(
        story.after(30).why,
        "there are 2 servers, and at least 3 wanted: p-2 is started"
    );
}

#[test]
fn another_leader_goes_on_in_each_phase() {
    let mut story = Story::of(2);
    story.loaded(31_000.0);
    story.after(1);
    story.passes_on();
    assert_eq!(story.name(), PhaseName::Steady);
    story.starts("p-2");
    story.passes_on();
    assert_eq!(story.after(1).act, Some(Act::Start { name: "p-2".into() }));
    story.done();
    for _ in 0..10 {
        story.done();
    }
    story.passes_on();
    assert_eq!(
        story.after(1).act,
        Some(Act::Join {
            address: address("p-2")
        })
    );
    story.runs("p-2");
    story.has(&address("p-2"), Part::Owns);
    story.after(1);
    story.passes_on();
    // The cooldown begins anew.
    assert_eq!(
        story.after(1).why,
        "rests for 180 s more after a server was added"
    );
    story.after(180);
    story.loaded(5_000.0);
    story.after(1);
    story.after(30);
    story.passes_on();
    assert_eq!(
        story.after(1).act,
        Some(Act::Drain {
            address: address("p-2")
        })
    );
    story.seen.pool.remove(&address("p-2"));
    story.after(1);
    story.passes_on();
    assert_eq!(story.after(1).act, Some(Act::Stop { name: "p-2".into() }));
    assert!(matches!(
        story.scale.phase(),
        Phase::Stopping {
            why: Why::Drained,
            ..
        }
    ));
}

#[test]
fn a_state_that_was_lost_gives_no_name_twice() {
    let mut story = Story::of(5);
    story.loaded(31_000.0);
    story.after(1);
    assert_eq!(story.after(30).act, Some(Act::Start { name: "p-5".into() }));
    let forged = r#"{"pool": "p", "named": 4, "failures": 0, "would": 0,
        "account": {"server_ms": 0, "would_ms": 0, "counted_ms": 0, "most": 0},
        "phase": {"is": "starting", "name": "p-5", "more": 0}}"#;
    let forged: Scale = serde_json::from_str(forged).unwrap();
    assert!(forged.contradiction().is_some());
}

#[test]
fn these_phases_follow_each_other() {
    let mut table = String::new();
    for from in PhaseName::ALL {
        let next = PhaseName::ALL.into_iter().filter(|&to| from.may_become(to));
        let next: Vec<_> = next.map(PhaseName::as_str).collect();
        table += &format!("{from}: {}\n", next.join(" "));
    }
    println!("{table}");
    assert_eq!(
        table,
        "steady: past_upper below_lower stopping\n\
         past_upper: steady below_lower starting stopping cooling\n\
         below_lower: steady past_upper draining stopping cooling\n\
         starting: joining stopping cooling\n\
         joining: starting stopping cooling\n\
         draining: joining stopping\n\
         stopping: steady cooling\n\
         cooling: steady past_upper below_lower stopping\n"
    );
    let past = Phase::Past {
        side: Side::Upper,
        since: Instant(0),
    };
    assert_eq!(past.name().to_string(), "past_upper");
}
