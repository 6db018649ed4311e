//! A change that waits for its pool to be warm.

use super::*;
use evenkeel_schemes::warmth::{Found, WINDOW_HITS_MIN, WINDOW_MIN};

const AT_MOST_S: u64 = 3_600;

fn begin_when_warm(world: &mut World, goal: Stage, at_most_s: u64) -> Result<(), ChangeRefusal> {
    let request = BeginRequest {
        when_warm_s: Some(at_most_s),
        ..BeginRequest::at_once(goal, 2)
    };
    let begun = world.core.begin_change(world.now, "main", &request);
    begun.map(|_| ())
}

/// Reads have found this much more, half of it through each proxy.
fn find(all: &mut [Follower; 2], hits: u64, former: u64) {
    for follower in all {
        let before = follower.0.pools[0].found.unwrap_or_default();
        follower.0.pools[0].found = Some(before.plus(Found {
            hits: hits / 2,
            former: former / 2,
        }));
    }
}

/// Time passes with reports now and then, a second apart.
fn pass_s(world: &mut World, all: &mut [Follower; 2], seconds: u64) {
    for _ in 0..seconds {
        for follower in &mut *all {
            follower.follow(world);
        }
        world.pass(1_000);
    }
}

/// Two proxies that have found much at the former servers, and whose pool warms.
fn warming() -> (World, [Follower; 2]) {
    let (mut world, mut all) = followers::<2>();
    find(&mut all, 1_000_000, 0);
    follow(&mut world, &mut all, 2);
    begin_when_warm(&mut world, Stage::Done, AT_MOST_S).unwrap();
    follow(&mut world, &mut all, 10);
    assert_eq!(view(&world).stage, Stage::Warming);
    (world, all)
}

#[test]
fn a_change_goes_on_when_its_pool_is_warm() {
    let (mut world, mut all) = warming();
    // What was found before at the former servers says nothing of how warm the pool is.
    pass_s(&mut world, &mut all, 2 * WINDOW_MIN.as_secs());
    assert_eq!(view(&world).former_hits_ppm, None);
    assert!(view(&world).hint.contains("have yet to find"));
    find(&mut all, 2 * WINDOW_HITS_MIN, WINDOW_HITS_MIN);
    pass_s(&mut world, &mut all, WINDOW_MIN.as_secs());
    let warming = view(&world);
    assert_eq!(
        (warming.stage, warming.former_hits_ppm),
        (Stage::Warming, Some(500_000))
    );
    assert!(warming.hint.contains("50.00 %"), "{}", warming.hint);
    assert!(all[0].follow(&mut world) > INTERVAL_MS, "nobody need hurry");
    find(&mut all, 2 * WINDOW_HITS_MIN, 10);
    pass_s(&mut world, &mut all, WINDOW_MIN.as_secs());
    follow_to_done(&mut world, &mut all);
    assert_eq!(view(&world).former_hits_ppm, None);
}

#[test]
fn a_change_waits_for_a_bounded_time() {
    let (mut world, mut all) = warming();
    let begun = world.now.monotonic;
    while view(&world).stage == Stage::Warming {
        // It never gets warm.
        find(&mut all, WINDOW_HITS_MIN, WINDOW_HITS_MIN / 10);
        pass_s(&mut world, &mut all, 1);
    }
    let waited = world.now.monotonic.since(begun).as_secs();
    assert!(
        (AT_MOST_S - 5..AT_MOST_S + 10).contains(&waited),
        "{waited}"
    );
    follow_to_done(&mut world, &mut all);
}

#[test]
fn another_coordinator_waits_on() {
    let (mut world, mut all) = warming();
    let saved = world.core.saved_state().changes.pools["main"].clone();
    assert_eq!(saved.when_warm_s, Some(AT_MOST_S));
    world.restart();
    pass_s(&mut world, &mut all, 30);
    assert_eq!(view(&world).stage, Stage::Warming);
    // An operator may decide otherwise.
    begin(&mut world, Stage::Done, 2).unwrap();
    follow_to_done(&mut world, &mut all);
}

#[test]
fn waits_that_make_no_sense_are_refused() {
    let (mut world, _all) = followers::<2>();
    for (goal, at_most_s) in [
        (Stage::Warming, 60),
        (Stage::Done, 0),
        (Stage::Done, limits::WHEN_WARM_MAX_S + 1),
    ] {
        let refused = begin_when_warm(&mut world, goal, at_most_s);
        assert_eq!(
            refused,
            Err(ChangeRefusal::BadWarming),
            "{goal} {at_most_s}"
        );
    }
}
