//! Changes of pools in steps, and the proxies that follow them.

mod bundles;
mod bundles_random;
mod ended;
mod followers;
mod random;
mod ring_copying;
mod ring_servers;
mod ring_slots;
mod rings;
mod scaling;
mod warm;

use super::*;
use evenkeel_control::bundles::{BundlePlan, BundleWish, FollowedBundle};
use evenkeel_control::rings::{FollowedRing, RingPlan, RingStep, RingWish};
use evenkeel_control::{FollowedPool, PoolStep};
use evenkeel_schemes::copies::Switch;

const INTERVAL_MS: u64 = limits::INTERVAL_CHANGING.as_millis() as u64;
const PAUSE_MS: u64 = limits::PAUSE_MAX.as_millis() as u64;
const YOUNG_MS: u64 = limits::YOUNG_FOR.as_millis() as u64;
const SILENT_MS: u64 = limits::SERVER_SILENT.as_millis() as u64;

/// A proxy that follows pools and acknowledges each step as soon as it is told.
#[derive(Clone)]
struct Follower(Heartbeat);

impl Follower {
    fn new(name: &str, pools: &[&str]) -> Follower {
        let followed = |pool: &&str| FollowedPool {
            pool: (*pool).into(),
            told: None,
            acknowledged: 0,
            ring: None,
            bundle: None,
            found: None,
        };
        let heartbeat = Heartbeat {
            pools: pools.iter().map(followed).collect(),
            ..proxy(name)
        };
        Follower(heartbeat)
    }

    /// The next life of its name, which knows nothing.
    fn reborn(&self) -> Follower {
        let mut reborn = self.clone();
        reborn.0.boot.0 += 1;
        for followed in &mut reborn.0.pools {
            (followed.told, followed.acknowledged) = (None, 0);
            if let Some(theirs) = &mut followed.bundle {
                theirs.plan = None;
            }
        }
        reborn
    }

    /// Sends a heartbeat and takes the steps in the answer. Gives the interval until the next in milliseconds.
    fn handle(&mut self, world: &mut World) -> u64 {
        let answer = world.send(&self.0).unwrap();
        for PoolStep {
            pool,
            step,
            ring,
            bundle,
        } in answer.pools
        {
            let mut followed = self.0.pools.iter_mut();
            let followed = followed.find(|it| it.pool == pool).expect("it is listed");
            if !takes_copies(followed, step, bundle.map(|told| told.plan)) {
                continue;
            }
            followed.told = Some(step);
            assert_eq!(followed.ring.is_some(), ring.is_some());
            if let (Some(works_by), Some(told)) = (&mut followed.ring, ring) {
                take(works_by, told);
            }
        }
        answer.interval_ms
    }

    /// The same, and has nothing under way by former steps.
    fn follow(&mut self, world: &mut World) -> u64 {
        let interval = self.handle(world);
        for followed in &mut self.0.pools {
            followed.acknowledged = followed.told.map_or(0, |step| step.version);
        }
        interval
    }

    fn told(&self, pool: &str) -> Option<(u64, Stage)> {
        let followed = self.0.pools.iter().find(|it| it.pool == pool);
        let step = followed.expect("it is listed").told?;
        Some((step.version, step.stage))
    }

    fn stage(&self) -> Stage {
        self.told("main").expect("it was told").1
    }

    fn leave(&self, world: &mut World) {
        let last = Heartbeat {
            leaves: true,
            ..self.0.clone()
        };
        world.send(&last).unwrap();
    }
}

/// Works by a plan of copies that is told, unless its file says that they are elsewhere. True if the step is one to work by.
fn takes_copies(followed: &mut FollowedPool, step: Step, plan: Option<BundlePlan>) -> bool {
    let Some(theirs) = &mut followed.bundle else {
        assert_eq!(plan, None);
        return true;
    };
    let is_elsewhere = plan.is_some_and(|plan| plan.of != theirs.wish);
    if is_elsewhere && Switch::at(step.stage) != Switch::Off {
        return false;
    }
    theirs.plan = plan;
    true
}

/// Works by the plan that is told, or by the one that is known.
fn take(works_by: &mut FollowedRing, told: RingStep) {
    if let Some(plan) = told.plan {
        assert_ne!(plan.number, works_by.number, "it was told before");
        *works_by = FollowedRing {
            counts: None,
            unreached: None,
            number: plan.number,
            incarnation: plan.incarnation,
            wish: None,
        };
    }
    assert_eq!(works_by.number, told.number);
}

/// A world whose coordinator has been there for a while.
fn old_world() -> World {
    let mut world = World::new(1);
    world.pass(YOUNG_MS);
    world
}

/// A world without servers, and proxies that were told their first step.
fn followers<const N: usize>() -> (World, [Follower; N]) {
    let mut world = old_world();
    let mut all = std::array::from_fn(|n| Follower::new(&format!("p{}", n + 1), &["main"]));
    follow(&mut world, &mut all, 2);
    (world, all)
}

/// All report, this many times, an interval apart.
fn follow(world: &mut World, all: &mut [Follower], rounds: usize) {
    for _ in 0..rounds {
        for follower in &mut *all {
            follower.follow(world);
        }
        world.pass(INTERVAL_MS);
    }
}

/// All report until the change is done, in less than twice the time for which it stands at `closing`.
fn follow_to_done(world: &mut World, all: &mut [Follower]) {
    let begun = world.now.monotonic;
    while view(world).stage != Stage::Done {
        follow(world, all, 1);
        world.pass(PAUSE_MS / 4);
        let most = 2 * limits::CLOSING_MIN + limits::RING_WARMING;
        assert!(world.now.monotonic.since(begun) < most);
    }
}

fn begin(world: &mut World, goal: Stage, proxies: usize) -> Result<ChangeView, ChangeRefusal> {
    (world.core).begin_change(world.now, "main", &BeginRequest::at_once(goal, proxies))
}

fn view(world: &World) -> ChangeView {
    let mut views = world.core.changes(world.now.monotonic).changes;
    assert_eq!(views.len(), 1);
    views.remove(0)
}

fn news(world: &World) -> Vec<ChangeNews> {
    let events = world.core.change_events().iter();
    events.map(|event| event.what).collect()
}

/// No two proxies are more than a step apart, in all that they were told.
fn assert_neighbours(all: &[Follower]) {
    let versions = all.iter().filter_map(|it| it.told("main"));
    let versions: Vec<u64> = versions.map(|(version, _)| version).collect();
    let (least, most) = (versions.iter().min(), versions.iter().max());
    assert!(most.unwrap() - least.unwrap() <= 1, "{versions:?}");
}

#[test]
fn two_proxies_go_through_a_whole_change() {
    let (mut world, mut all) = followers::<2>();
    assert_eq!(all[0].told("main"), Some((1, Stage::Former)));
    assert!(all[0].follow(&mut world) > INTERVAL_MS, "nothing is to do");
    let begun = begin(&mut world, Stage::Warming, 2).unwrap();
    assert_eq!((begun.stage, begun.goal), (Stage::Former, Stage::Warming));
    assert!(begun.hint.contains("p1, p2"), "{}", begun.hint);
    assert_eq!(all[0].follow(&mut world), INTERVAL_MS);
    let mut seen = vec![Stage::Former];
    for _ in 0..20 {
        for at in 0..2 {
            all[at].follow(&mut world);
            assert_neighbours(&all);
            if seen.last() != Some(&all[at].stage()) {
                seen.push(all[at].stage());
            }
        }
        world.pass(INTERVAL_MS);
    }
    assert_eq!(seen, [Stage::Former, Stage::Quiesced, Stage::Warming]);
    assert_eq!(view(&world).waits_for, [""; 0]);
    assert!(view(&world).hint.contains("--to done"));
    assert!(all[0].follow(&mut world) > INTERVAL_MS, "it is at its goal");
    begin(&mut world, Stage::Done, 2).unwrap();
    follow(&mut world, &mut all, 5);
    assert_eq!(view(&world).stage, Stage::Closing, "placeholders live on");
    let closing = world.now.monotonic;
    follow_to_done(&mut world, &mut all);
    assert!(world.now.monotonic.since(closing) > limits::CLOSING_MIN / 2);
    follow(&mut world, &mut all, 2);
    let done = view(&world);
    assert_eq!((done.stage, done.version), (Stage::Done, 5));
    assert_eq!(done.proxies.len(), 2);
    assert!(done.proxies.iter().all(|it| it.acknowledged == 5));
    assert_eq!(world.core.change_counts().steps, 4);
    let expected = [
        ChangeNews::ProxyJoined,
        ChangeNews::ProxyJoined,
        ChangeNews::GoalSet,
        ChangeNews::StepPublished,
        ChangeNews::StepPublished,
        ChangeNews::GoalSet,
        ChangeNews::StepPublished,
        ChangeNews::StepPublished,
    ];
    assert_eq!(news(&world), expected);
    let goals = world
        .core
        .change_events()
        .iter()
        .filter_map(|event| event.goal);
    assert!(goals.eq([Stage::Warming, Stage::Done]));
}

#[test]
fn nothing_is_told_that_is_not_to_be_saved_first() {
    let (mut world, mut all) = followers::<2>();
    begin(&mut world, Stage::Done, 2).unwrap();
    let mut told = world.core.saved_state().changes;
    for _ in 0..10 {
        for follower in &mut all {
            let revision = world.core.revision();
            follower.follow(&mut world);
            let saved = world.core.saved_state().changes;
            let steps = |saved: &SavedChanges| saved.pools["main"].change.step();
            let is_news = steps(&saved) != steps(&told);
            assert_eq!(world.core.revision() > revision, is_news);
            told = saved;
        }
    }
    let revision = world.core.revision();
    follow(&mut world, &mut [Follower::new("p3", &["main"])], 1);
    assert!(world.core.revision() > revision, "who follows is saved");
    let revision = world.core.revision();
    all[0].leave(&mut world);
    assert!(world.core.revision() > revision);
}

#[test]
fn who_is_silent_holds_the_change_up_and_is_named() {
    let (mut world, mut all) = followers::<2>();
    begin(&mut world, Stage::Warming, 2).unwrap();
    for _ in 0..10 {
        follow(&mut world, &mut all[..1], 1);
        world.pass(1_200);
    }
    let held = view(&world);
    assert_eq!((held.stage, held.goal), (Stage::Former, Stage::Warming));
    let hint = "waits for proxy p2, which has been silent for 12 s; if its process has ended: evenkeel proxies remove p2";
    assert_eq!(held.hint, hint);
    let removed = world.core.remove_proxy(world.now, "p2").unwrap();
    let expected = RemovedProxyView {
        proxy: "p2".into(),
        pools: vec!["main".into()],
    };
    assert_eq!(removed, expected);
    follow(&mut world, &mut all[..1], 4);
    assert_eq!(view(&world).stage, Stage::Warming);
    assert!(news(&world).contains(&ChangeNews::ProxyRemoved));
    // It was only cut off: it is told at once what holds.
    all[1].handle(&mut world);
    assert_eq!(all[1].stage(), Stage::Warming);
}

/// Its return must not find others that report seldom, so that requests wait for them.
#[test]
fn nobody_reports_often_while_one_is_silent() {
    let (mut world, mut all) = followers::<2>();
    begin(&mut world, Stage::Warming, 2).unwrap();
    assert_eq!(all[0].follow(&mut world), INTERVAL_MS);
    world.pass(SILENT_MS);
    let seldom = all[0].follow(&mut world);
    assert!(seldom > INTERVAL_MS);
    assert_eq!(all[1].follow(&mut world), INTERVAL_MS);
    follow(&mut world, &mut all[1..], 10);
    assert_eq!(all[1].stage(), Stage::Former, "the first is not often here");
    assert_eq!(all[0].follow(&mut world), INTERVAL_MS);
    follow(&mut world, &mut all, 3);
    assert!(all.iter().all(|it| it.stage() == Stage::Warming));
    assert_eq!(world.core.change_counts().unacknowledged, 0);
}

#[test]
fn a_pause_that_lasts_too_long_is_withdrawn() {
    let (mut world, mut all) = followers::<2>();
    begin(&mut world, Stage::Warming, 2).unwrap();
    // Both hurry, and the second does not come back once the step is published.
    follow(&mut world, &mut all, 1);
    all[0].follow(&mut world);
    all[1].handle(&mut world);
    all[0].follow(&mut world);
    assert_eq!(all[0].stage(), Stage::Quiesced);
    assert_eq!(view(&world).waits_for, ["p2"]);
    assert!(view(&world).hint.contains("waits for proxy p2 to end"));
    world.pass(PAUSE_MS - INTERVAL_MS);
    assert_eq!(view(&world).stage, Stage::Quiesced);
    world.pass(INTERVAL_MS);
    let withdrawn = view(&world);
    assert_eq!((withdrawn.stage, withdrawn.version), (Stage::Former, 3));
    assert_eq!(withdrawn.goal, Stage::Former);
    let event = world.core.change_events().iter().last().unwrap();
    assert_eq!(event.what, ChangeNews::WithdrawnUnacknowledged);
    assert_eq!(event.proxies, ["p2"]);
    assert_eq!(world.core.change_counts().unacknowledged, 1);
    follow(&mut world, &mut all, 2);
    assert!(
        all.iter()
            .all(|it| it.told("main") == Some((3, Stage::Former)))
    );
    begin(&mut world, Stage::Warming, 2).unwrap();
    follow(&mut world, &mut all, 4);
    assert_eq!(view(&world).stage, Stage::Warming);
}

#[test]
fn a_heartbeat_finds_the_pause_too_long_as_well() {
    let (mut world, mut all) = followers::<2>();
    begin(&mut world, Stage::Warming, 2).unwrap();
    follow(&mut world, &mut all, 1);
    all[0].follow(&mut world);
    all[1].handle(&mut world);
    assert_eq!(view(&world).stage, Stage::Quiesced);
    world.now.monotonic = world.now.monotonic + limits::PAUSE_MAX;
    all[0].handle(&mut world);
    assert_eq!(all[0].told("main"), Some((3, Stage::Former)));
}

#[test]
fn an_operator_takes_a_change_back_until_the_pool_is_warming() {
    let (mut world, mut all) = followers::<2>();
    begin(&mut world, Stage::Warming, 2).unwrap();
    let withdrawn = world.core.withdraw_change(world.now, "main").unwrap();
    assert_eq!((withdrawn.goal, withdrawn.version), (Stage::Former, 1));
    begin(&mut world, Stage::Warming, 2).unwrap();
    follow(&mut world, &mut all, 1);
    all[0].follow(&mut world);
    all[1].handle(&mut world);
    assert_eq!(view(&world).stage, Stage::Quiesced);
    let withdrawn = world.core.withdraw_change(world.now, "main").unwrap();
    assert_eq!((withdrawn.goal, withdrawn.version), (Stage::Former, 3));
    assert_eq!(world.core.change_counts().withdrawn, 2);
    follow(&mut world, &mut all, 2);
    begin(&mut world, Stage::Warming, 2).unwrap();
    follow(&mut world, &mut all, 4);
    let late = world.core.withdraw_change(world.now, "main").unwrap_err();
    let expected = ChangeRefusal::PastReturn {
        pool: "main".into(),
        stage: Stage::Warming,
    };
    assert_eq!(late, expected);
}

#[test]
fn a_change_goes_on_from_what_was_saved_at_each_step() {
    for restarts_at in 0..12 {
        let (mut world, mut all) = followers::<2>();
        begin(&mut world, Stage::Done, 2).unwrap();
        for round in 0..12 {
            if round == restarts_at {
                let before = view(&world);
                world.restart();
                let after = view(&world);
                assert_eq!((after.stage, after.goal), (before.stage, before.goal));
                assert_eq!(after.version, before.version);
            }
            for at in 0..2 {
                all[at].follow(&mut world);
                assert_neighbours(&all);
            }
            world.pass(INTERVAL_MS);
        }
        follow_to_done(&mut world, &mut all);
        let done = view(&world);
        assert_eq!(
            (done.stage, done.version),
            (Stage::Done, 5),
            "{restarts_at}"
        );
        assert_eq!(world.core.change_counts().taken_over, 0);
    }
}

#[test]
fn who_has_lost_its_state_takes_the_step_over_and_waits_for_a_word() {
    for rounds in 2..5 {
        let (mut world, mut all) = followers::<2>();
        begin(&mut world, Stage::Done, 2).unwrap();
        follow(&mut world, &mut all, rounds);
        let newest = view(&world);
        world.core = World::new(1).core;
        follow(&mut world, &mut all, 2);
        world.pass(10 * PAUSE_MS);
        let taken = view(&world);
        assert_eq!((taken.stage, taken.version), (newest.stage, newest.version));
        assert_eq!(taken.goal, taken.stage);
        assert!(taken.hint.contains("lost its state"), "{}", taken.hint);
        assert!(news(&world).contains(&ChangeNews::TakenOver));
        if taken.stage == Stage::Quiesced {
            let refused = world.core.withdraw_change(world.now, "main").unwrap_err();
            assert!(matches!(refused, ChangeRefusal::Unconfirmed { .. }));
            world.restart();
            world.pass(PAUSE_MS);
            assert_eq!(view(&world).stage, Stage::Quiesced);
        }
        follow(&mut world, &mut all, 1);
        let other = begin(&mut world, Stage::Done, 3).unwrap_err();
        let words = "2 proxies follow pool main, not 3: a proxy that is not known here would be left behind";
        assert!(other.to_string().contains(words), "{other}");
        begin(&mut world, Stage::Done, 2).unwrap();
        follow_to_done(&mut world, &mut all);
    }
}

/// One that was told more than any that came so far must not find the others two steps behind.
#[test]
fn what_was_taken_over_is_not_withdrawn_before_all_are_known() {
    let (mut world, mut all) = followers::<2>();
    begin(&mut world, Stage::Warming, 2).unwrap();
    while view(&world).stage != Stage::Warming {
        all[1].follow(&mut world);
        all[0].follow(&mut world);
    }
    assert_eq!(all[0].stage(), Stage::Warming);
    assert_eq!(all[1].stage(), Stage::Quiesced);
    world.core = World::new(1).core;
    all[1].follow(&mut world);
    world.pass(10 * PAUSE_MS);
    assert_eq!(view(&world).stage, Stage::Quiesced);
    follow(&mut world, &mut all, 1);
    follow(&mut world, &mut all, 1);
    assert_neighbours(&all);
    assert_eq!(all[1].stage(), Stage::Warming);
}

#[test]
fn what_makes_no_sense_is_refused_and_not_used() {
    let (mut world, all) = followers::<1>();
    let step = |version, stage| Some(Step { version, stage });
    let cases = [
        (None, 1),
        (step(1, Stage::Former), 2),
        (step(1, Stage::Warming), 0),
        (step(u64::MAX, Stage::Done), 0),
        (step((1 << 52) + 1, Stage::Done), 0),
    ];
    for (told, acknowledged) in cases {
        let mut odd = all[0].clone();
        odd.0.pools[0].told = told;
        odd.0.pools[0].acknowledged = acknowledged;
        let others = Follower::new("p9", &["another"]).0.pools;
        odd.0.pools.extend(others);
        let revision = world.core.revision();
        let pool = "main".into();
        assert_eq!(world.send(&odd.0), Err(Refusal::ForeignStep { pool }));
        assert_eq!(world.core.revision(), revision);
        assert_eq!(view(&world).pool, "main");
    }
    let twice = Follower::new("p1", &["main", "main"]);
    let refused = world.send(&twice.0).unwrap_err();
    assert_eq!(refused.reason(), Reason::ForeignStep);
    assert_eq!(world.core.counters().refusals[&Reason::ForeignStep], 6);
    // The greatest that is believed leaves room for what follows, also in what is saved.
    let mut great = all[0].clone();
    great.0.pools[0].told = step(1 << 52, Stage::Former);
    great.follow(&mut world);
    begin(&mut world, Stage::Done, 1).unwrap();
    follow_to_done(&mut world, &mut [great]);
    world.restart();
}

#[test]
fn orders_that_make_no_sense_are_refused() {
    let (mut world, mut all) = followers::<3>();
    let request = BeginRequest::at_once(Stage::Done, 1);
    let unknown = world.core.begin_change(world.now, "x", &request);
    let words = "no proxy follows a pool of the name \"x\"";
    assert!(unknown.unwrap_err().to_string().starts_with(words));
    for goal in [Stage::Former, Stage::Quiesced, Stage::Closing] {
        let refused = begin(&mut world, goal, 3).unwrap_err();
        assert_eq!(refused, ChangeRefusal::BadGoal { goal });
    }
    let other = begin(&mut world, Stage::Done, 2).unwrap_err();
    let words =
        "3 proxies follow pool main, not 2: a proxy that is not known here would be left behind";
    assert!(other.to_string().starts_with(words), "{other}");
    let nobody = begin(&mut world, Stage::Done, 0).unwrap_err();
    assert_eq!(nobody, ChangeRefusal::NoProxies);
    begin(&mut world, Stage::Warming, 3).unwrap();
    follow(&mut world, &mut all, 4);
    let reached = begin(&mut world, Stage::Warming, 3).unwrap_err();
    assert!(matches!(reached, ChangeRefusal::Reached { .. }));
    let unknown = world.core.withdraw_change(world.now, "x").unwrap_err();
    assert!(matches!(unknown, ChangeRefusal::UnknownPool { .. }));
}

#[test]
fn events_are_bounded() {
    let (mut world, _) = followers::<1>();
    for _ in 0..limits::CHANGE_EVENTS_MAX {
        begin(&mut world, Stage::Warming, 1).unwrap();
        world.core.withdraw_change(world.now, "main").unwrap();
    }
    let events = world.core.change_events().iter();
    assert_eq!(events.len(), limits::CHANGE_EVENTS_MAX);
}

#[test]
fn a_state_that_contradicts_itself_is_not_used() {
    let (mut world, _) = followers::<2>();
    let sound = serde_json::to_value(world.core.saved_state()).unwrap();
    let restore = |world: &mut World, state: serde_json::Value| {
        let state = serde_json::from_value(state).unwrap();
        CoordinatorCore::restore(world.core.config().clone(), state, world.now.monotonic)
    };
    assert!(restore(&mut world, sound.clone()).is_ok());
    type Break = fn(&mut serde_json::Value);
    let cases: [Break; 7] = [
        |it| it["pools"]["main"]["change"]["step"]["version"] = 0.into(),
        |it| it["pools"]["main"]["change"]["step"]["version"] = u64::MAX.into(),
        |it| it["pools"]["main"]["change"]["step"]["stage"] = "done".into(),
        |it| it["pools"]["a b"] = it["pools"]["main"].clone(),
        |it| it["proxies"]["p1"]["boot"] = 5.into(),
        |it| drop(it["proxies"].as_object_mut().unwrap().remove("p1")),
        |it| it["proxies"]["p1"]["former"] = vec![1; 17].into(),
    ];
    for (case, break_it) in cases.into_iter().enumerate() {
        let mut state = sound.clone();
        break_it(&mut state["changes"]);
        assert!(restore(&mut world, state).is_err(), "{case}");
    }
    let mut many = sound.clone();
    for n in 0..limits::FOLLOWED_POOLS_MAX {
        many["changes"]["pools"][n.to_string()] = many["changes"]["pools"]["main"].clone();
    }
    assert!(restore(&mut world, many).is_err());
    let mut former = sound;
    former.as_object_mut().unwrap().remove("changes");
    assert!(restore(&mut world, former).is_ok(), "a former version's");
}

/// A map is taken over by replacing the core; what proxies were told stays.
#[test]
fn changes_outlive_the_take_over_of_a_map() {
    let (mut former, mut members) = leased_cluster(1, 1);
    let answer = former.send(&members[0]).unwrap();
    let (mut world, mut all) = followers::<1>();
    begin(&mut world, Stage::Warming, 1).unwrap();
    follow(&mut world, &mut all, 4);
    members[0].epoch = answer.epoch;
    members[0].told = answer.epoch;
    members[0].lineage = Some(answer.lineage);
    assert_eq!(world.send(&members[0]), Err(Refusal::MapWanted));
    let offer = MapOffer {
        name: members[0].name.clone(),
        boot: members[0].boot,
        lineage: answer.lineage,
        map: former.core.map().unwrap().document().clone(),
    };
    world.core.handle_map_offer(world.now, &offer);
    assert!(world.core.map().is_some());
    assert_eq!(view(&world).stage, Stage::Warming);
    follow(&mut world, &mut all, 1);
    assert_eq!(view(&world).proxies.len(), 1);
}
