//! Copies of pools' items: how they are switched on and off, and what is believed of them.

use super::*;

fn wish(copies: u8) -> BundleWish {
    BundleWish {
        copies,
        servers: 4,
        fingerprint: 0xfeed_0000 + u64::from(copies),
    }
}

/// A proxy whose file says that a pool keeps copies.
pub(super) fn copier(name: &str, copies: u8) -> Follower {
    let mut follower = Follower::new(name, &["main"]);
    follower.0.pools[0].bundle = Some(FollowedBundle {
        wish: wish(copies),
        plan: None,
    });
    follower
}

fn copiers<const N: usize>() -> (World, [Follower; N]) {
    let mut world = old_world();
    let mut all = std::array::from_fn(|n| copier(&format!("p{}", n + 1), 2));
    follow(&mut world, &mut all, 2);
    (world, all)
}

pub(super) fn on(world: &mut World, proxies: usize) -> Result<BundleView, ChangeRefusal> {
    let request = BundleSwitchRequest { proxies };
    world.core.switch_bundle_on(world.now, "main", &request)
}

pub(super) fn off(world: &mut World, proxies: usize) -> Result<BundleView, ChangeRefusal> {
    let request = BundleSwitchRequest { proxies };
    world.core.switch_bundle_off(world.now, "main", &request)
}

fn bundle(world: &World) -> BundleView {
    let mut bundles = world.core.bundles(world.now.monotonic).bundles;
    assert_eq!(bundles.len(), 1);
    bundles.remove(0)
}

pub(super) fn plan_of(follower: &Follower) -> Option<BundlePlan> {
    follower.0.pools[0].bundle.unwrap().plan
}

/// All report until everybody has followed to this stage.
fn follow_to(world: &mut World, all: &mut [Follower], stage: Stage) {
    for _ in 0..20 {
        follow(world, all, 1);
        assert_neighbours(all);
    }
    assert!(all.iter().all(|it| it.stage() == stage), "{stage}");
    assert_eq!(view(world).waits_for, [""; 0]);
}

#[test]
fn copies_are_switched_on_and_off_and_on_again_by_another_plan() {
    let (mut world, mut all) = copiers::<2>();
    let before = bundle(&world);
    assert_eq!((before.switch.as_str(), before.plan), ("off", None));
    assert!(before.wishes.iter().all(|it| it.fits), "{before:?}");
    let words = "to switch them on, N being the number of proxies that have the pool: evenkeel bundle on main --proxies N";
    assert!(before.change.hint.contains(words), "{before:?}");
    let ordered = on(&mut world, 2).unwrap();
    let first = ordered.plan.unwrap();
    assert_eq!((first.number, first.of), (1, wish(2)));
    assert!(first.token < 1 << 48);
    let (stage, goal) = (ordered.change.stage, ordered.change.goal);
    assert_eq!((stage, goal), (Stage::Former, Stage::Warming));
    let mut seen = Vec::new();
    for _ in 0..20 {
        for at in 0..2 {
            all[at].follow(&mut world);
            assert_neighbours(&all);
            assert_eq!(plan_of(&all[at]), Some(first));
            let told = all[at].told("main").unwrap();
            if seen.last() != Some(&told) {
                seen.push(told);
            }
        }
    }
    let expected = [
        (2, Stage::Former),
        (3, Stage::Quiesced),
        (4, Stage::Warming),
    ];
    assert_eq!(seen, expected);
    assert_eq!(bundle(&world).switch, "on");
    assert!(bundle(&world).change.hint.contains("evenkeel bundle off"));
    off(&mut world, 2).unwrap();
    let expired = world.now.monotonic;
    follow_to(&mut world, &mut all, Stage::Done);
    let took = world.now.monotonic.since(expired);
    assert!(took < limits::CLOSING_MIN, "nothing rests at closing");
    assert_eq!(bundle(&world).switch, "off");
    let second = on(&mut world, 2).unwrap().plan.unwrap();
    assert_eq!(second.number, 2);
    assert_ne!(second.token, first.token);
    follow_to(&mut world, &mut all, Stage::Warming);
    let happened = world.core.change_events().iter();
    let happened = happened.filter_map(|event| event.plan.map(|plan| (event.what, plan)));
    assert!(happened.eq([
        (ChangeNews::BundleOn, 1),
        (ChangeNews::BundleOff, 1),
        (ChangeNews::BundleOn, 2),
    ]));
    assert_eq!(world.core.change_counts().bundles_on, 2);
}

/// They share what may be filled.
#[test]
fn proxies_are_told_how_many_follow() {
    let (mut world, mut all) = copiers::<2>();
    let told = |world: &mut World, follower: &Follower| {
        let step = world.send(&follower.0).unwrap().pools.remove(0);
        step.bundle.map(|told| told.proxies)
    };
    assert_eq!(told(&mut world, &all[0]), None, "there is no plan");
    on(&mut world, 2).unwrap();
    follow_to(&mut world, &mut all, Stage::Warming);
    assert_eq!(told(&mut world, &all[0]), Some(2));
    let mut third = copier("p3", 2);
    third.handle(&mut world);
    assert_eq!(told(&mut world, &all[0]), Some(3));
    world.pass(SILENT_MS);
    assert_eq!(told(&mut world, &all[0]), Some(3), "silent ones may fill");
    third.leave(&mut world);
    assert_eq!(told(&mut world, &all[0]), Some(2));
}

#[test]
fn a_switching_on_that_is_taken_back_burns_its_plan() {
    for rounds in 0..3 {
        let (mut world, mut all) = copiers::<2>();
        let first = on(&mut world, 2).unwrap().plan.unwrap();
        for _ in 0..rounds {
            all[0].follow(&mut world);
            all[1].handle(&mut world);
            all[1].0.pools[0].acknowledged = 2;
        }
        let version = view(&world).version;
        let is_clearing = view(&world).stage == Stage::Quiesced;
        let back = off(&mut world, 2).unwrap();
        assert_eq!(
            (back.change.stage, back.change.goal),
            (Stage::Former, Stage::Former)
        );
        assert_eq!(back.change.version, version + u64::from(is_clearing));
        let refused = on(&mut world, 2).unwrap_err().to_string();
        assert!(refused.contains("have yet to follow"), "{refused}");
        follow(&mut world, &mut all, 2);
        let second = on(&mut world, 2).unwrap().plan.unwrap();
        assert_eq!(second.number, 2);
        assert_ne!(second.token, first.token);
        follow_to(&mut world, &mut all, Stage::Warming);
    }
}

#[test]
fn nobody_waits_so_a_silent_proxy_holds_copies_up_for_as_long_as_it_likes() {
    let (mut world, mut all) = copiers::<2>();
    on(&mut world, 2).unwrap();
    follow(&mut world, &mut all, 1);
    all[0].follow(&mut world);
    all[1].handle(&mut world);
    assert_eq!(view(&world).stage, Stage::Quiesced);
    for _ in 0..10 {
        world.pass(SILENT_MS);
        all[0].follow(&mut world);
    }
    let held = bundle(&world);
    assert_eq!(held.switch, "clearing");
    assert!(
        held.change.hint.contains("evenkeel proxies remove p2"),
        "{held:?}"
    );
    assert!(
        all[0].follow(&mut world) > INTERVAL_MS,
        "nobody hurries for it"
    );
    follow_to(&mut world, &mut all, Stage::Warming);
    assert_eq!(world.core.change_counts().unacknowledged, 0);
}

#[test]
fn all_files_have_to_say_the_same() {
    let (mut world, mut all) = copiers::<3>();
    let mut odd = copier("p4", 3);
    follow(&mut world, std::slice::from_mut(&mut odd), 2);
    let refused = on(&mut world, 4).unwrap_err();
    let words = "proxies p1, p2, p3: 2 copies on 4 servers (00000000feed0002); proxy p4: 3 copies on 4 servers";
    assert!(refused.to_string().contains(words), "{refused}");
    assert!(bundle(&world).change.hint.contains(words));
    assert!(bundle(&world).wishes.iter().all(|it| !it.fits));
    odd.leave(&mut world);
    let plan = on(&mut world, 3).unwrap().plan;
    follow_to(&mut world, &mut all, Stage::Warming);
    // It comes back, is told the plan, and does not take it.
    let mut odd = odd.reborn();
    follow(&mut world, std::slice::from_mut(&mut odd), 2);
    assert_eq!(odd.told("main"), None);
    let told = world.send(&odd.0).unwrap().pools.remove(0);
    let told_plan = told.bundle.map(|told| told.plan);
    let all_the_same = (Stage::Warming, plan);
    assert_eq!((told.step.stage, told_plan), all_the_same);
    let shown = bundle(&world);
    assert_eq!(shown.change.waits_for, ["p4"]);
    let fits = shown.wishes.iter().map(|it| it.fits);
    assert!(fits.eq([true, true, true, false]), "{shown:?}");
    let words = "the file says otherwise of proxy p4";
    assert!(shown.change.hint.contains(words), "{shown:?}");
    // It holds them up on their way off, too, until it has ended.
    off(&mut world, 4).unwrap();
    follow(&mut world, &mut all, 5);
    assert_eq!(view(&world).stage, Stage::Warming);
    world.pass(SILENT_MS / 2);
    assert!(
        all[0].follow(&mut world) > INTERVAL_MS,
        "nobody hurries for it"
    );
    odd.leave(&mut world);
    follow_to(&mut world, &mut all, Stage::Done);
    // With copies off it is welcome, and the next plan is of what all say then.
    let mut newer = [copier("p1", 3), copier("p2", 3), copier("p3", 3)];
    for (former, newer) in all.iter().zip(&mut newer) {
        former.leave(&mut world);
        newer.0.boot.0 += 1;
    }
    follow(&mut world, &mut newer, 2);
    assert_eq!(newer[0].stage(), Stage::Done);
    assert_eq!(on(&mut world, 3).unwrap().plan.unwrap().of, wish(3));
    follow_to(&mut world, &mut newer, Stage::Warming);
}

#[test]
fn orders_that_make_no_sense_are_refused() {
    let (mut world, mut all) = copiers::<2>();
    let one = BundleSwitchRequest { proxies: 1 };
    let unknown = (world.core).switch_bundle_on(world.now, "x", &one);
    let unknown = unknown.unwrap_err();
    assert!(matches!(unknown, ChangeRefusal::UnknownPool { .. }));
    assert_eq!(on(&mut world, 0).unwrap_err(), ChangeRefusal::NoProxies);
    let other = on(&mut world, 3).unwrap_err().to_string();
    assert!(other.starts_with("2 proxies follow pool main, not 3: a proxy that is not known"));
    let words = |refused: ChangeRefusal, words: &str| {
        assert!(refused.to_string().contains(words), "{refused}");
    };
    words(off(&mut world, 2).unwrap_err(), "are off already");
    on(&mut world, 2).unwrap();
    words(on(&mut world, 2).unwrap_err(), "are on already");
    words(off(&mut world, 1).unwrap_err(), "2 proxies follow");
    follow_to(&mut world, &mut all, Stage::Warming);
    words(on(&mut world, 2).unwrap_err(), "are on already");
    off(&mut world, 2).unwrap();
    words(on(&mut world, 2).unwrap_err(), "are being switched off");
    words(off(&mut world, 2).unwrap_err(), "are off already");
    follow_to(&mut world, &mut all, Stage::Done);
    words(off(&mut world, 2).unwrap_err(), "are off already");
    words(
        begin(&mut world, Stage::Done, 2).unwrap_err(),
        "evenkeel bundle on main",
    );
    let withdrawn = world.core.withdraw_change(world.now, "main").unwrap_err();
    words(withdrawn, "evenkeel bundle off main");
    let (mut world, _) = followers::<1>();
    assert!(world.core.bundles(world.now.monotonic).bundles.is_empty());
    words(on(&mut world, 1).unwrap_err(), "keeps no copies");
}

#[test]
fn a_pool_keeps_copies_for_all_or_for_none() {
    let (mut world, all) = copiers::<1>();
    let plain = Follower::new("p9", &["main"]);
    let refused = world.send(&plain.0).unwrap_err();
    assert_eq!(refused.reason(), Reason::MixedBundle);
    let ring = super::rings::ring_follower("p9", &super::rings::wish(2));
    let refused = world.send(&ring.0).unwrap_err();
    assert_eq!(refused.reason(), Reason::MixedRing);
    let mut both = ring;
    both.0.pools[0].pool = "other".into();
    both.0.pools[0].bundle = all[0].0.pools[0].bundle;
    let refused = world.send(&both.0).unwrap_err();
    assert_eq!(refused.reason(), Reason::MixedBundle);
    let (mut world, _) = followers::<1>();
    let refused = world.send(&copier("p9", 2).0).unwrap_err();
    assert_eq!(refused.reason(), Reason::MixedBundle);
    let refused = world.send(&copier("p9", 1).0).unwrap_err();
    assert_eq!(refused.reason(), Reason::BadBundle);
}

#[test]
fn a_plan_goes_on_from_what_was_saved_at_each_step() {
    for restarts_at in 0..12 {
        let (mut world, mut all) = copiers::<2>();
        let plan = on(&mut world, 2).unwrap().plan;
        for round in 0..12 {
            let known = |world: &World| (view(world).version, view(world).goal, bundle(world).plan);
            if round == 6 {
                off(&mut world, 2).unwrap();
            }
            if round == restarts_at {
                let before = known(&world);
                world.restart();
                assert_eq!(known(&world), before);
            }
            for at in 0..2 {
                let (revision, before) = (world.core.revision(), known(&world));
                all[at].follow(&mut world);
                assert_neighbours(&all);
                let is_news = known(&world) != before;
                assert_eq!(world.core.revision() > revision, is_news, "saved first");
            }
        }
        follow_to(&mut world, &mut all, Stage::Done);
        assert_eq!(bundle(&world).plan, plan, "{restarts_at}");
        assert_eq!(world.core.change_counts().taken_over, 0);
        // A plan is not forgotten with those that followed it.
        all.iter().for_each(|it| it.leave(&mut world));
        world.restart();
        let mut next = all[0].reborn();
        follow(&mut world, std::slice::from_mut(&mut next), 2);
        assert_eq!(on(&mut world, 1).unwrap().plan.unwrap().number, 2);
    }
}

#[test]
fn who_has_lost_its_state_takes_step_and_plan_over_and_waits_for_a_word() {
    // Which of two followers, that may be a step apart, is heard first.
    for (rounds, first) in (0..10).flat_map(|rounds| [(rounds, 0), (rounds, 1)]) {
        let (mut world, mut all) = copiers::<2>();
        let plan = on(&mut world, 2).unwrap().plan;
        for round in 0..rounds {
            if round == 5 {
                follow(&mut world, &mut all, 1);
                off(&mut world, 2).unwrap();
            }
            all[round % 2].follow(&mut world);
        }
        let newest = view(&world);
        let is_told = |it: &Follower| it.told("main").unwrap().0 == newest.version;
        world.core = World::new(1).core;
        all[first].follow(&mut world);
        all[1 - first].follow(&mut world);
        follow(&mut world, &mut all, 2);
        world.pass(10 * SILENT_MS);
        let taken = bundle(&world);
        if !all.iter().any(is_told) {
            // Nobody had heard of it yet.
            continue;
        }
        assert_eq!(
            (taken.change.stage, taken.change.version),
            (newest.stage, newest.version)
        );
        assert_eq!((taken.plan, taken.change.goal), (plan, newest.stage));
        assert!(
            taken.change.hint.contains("lost its state"),
            "{}",
            taken.change.hint
        );
        follow(&mut world, &mut all, 1);
        let order = if taken.change.hint.contains("bundle on") {
            on
        } else {
            off
        };
        let other = order(&mut world, 3).unwrap_err();
        assert!(matches!(other, ChangeRefusal::OtherCount { .. }));
        world.restart();
        follow(&mut world, &mut all, 1);
        let ordered = order(&mut world, 2).unwrap();
        let goal = ordered.change.goal;
        let is_next = newest.stage == Stage::Former;
        assert_eq!(ordered.plan.unwrap().number, 1 + u64::from(is_next));
        follow_to(&mut world, &mut all, goal);
    }
}

/// What it writes deletes no copies, so nobody may be told of those that others still have.
#[test]
fn nothing_is_taken_over_once_a_proxy_has_begun_without_copies() {
    let (mut world, mut all) = copiers::<2>();
    on(&mut world, 2).unwrap();
    follow_to(&mut world, &mut all, Stage::Warming);
    world.core = World::new(1).core;
    world.pass(YOUNG_MS);
    let mut beginner = copier("p3", 2);
    beginner.follow(&mut world);
    assert_eq!(beginner.stage(), Stage::Former);
    let refused = world.send(&all[0].0).unwrap_err();
    assert_eq!(refused.reason(), Reason::ForeignBundle);
    beginner.follow(&mut world);
    let refused = on(&mut world, 1).unwrap_err();
    assert!(matches!(refused, ChangeRefusal::Stranger { .. }));
    assert!(view(&world).hint.contains("p1"), "{}", view(&world).hint);
    let mut late = copier("p4", 2);
    late.follow(&mut world);
    assert_eq!(late.told("main"), None, "nobody begins beside a stranger");
    all[0].leave(&mut world);
    late.follow(&mut world);
    assert_eq!(late.stage(), Stage::Former);
    let mut there = [beginner, late];
    follow(&mut world, &mut there, 2);
    on(&mut world, 2).unwrap();
    follow_to(&mut world, &mut there, Stage::Warming);
    // The other was away all the time.
    let refused = world.send(&all[1].0).unwrap_err();
    assert_eq!(refused.reason(), Reason::ForeignBundle);
}

#[test]
fn a_plan_that_contradicts_what_is_known_is_refused() {
    let (mut world, mut all) = copiers::<1>();
    on(&mut world, 1).unwrap();
    follow_to(&mut world, &mut all, Stage::Warming);
    let plan = plan_of(&all[0]).unwrap();
    let step = |version, stage| Some(Step { version, stage });
    let other = BundlePlan {
        token: plan.token ^ 1,
        ..plan
    };
    let later = BundlePlan { number: 2, ..other };
    let elsewhere = BundlePlan {
        of: wish(3),
        ..plan
    };
    let wide = BundlePlan {
        token: 1 << 48,
        ..plan
    };
    let same = all[0].told("main").unwrap().0;
    let cases = [
        (step(same, Stage::Warming), Some(other)),
        (step(same + 1, Stage::Closing), Some(other)),
        (step(same, Stage::Warming), Some(later)),
        (step(same + 2, Stage::Done), Some(later)),
        (step(same, Stage::Warming), Some(elsewhere)),
        (step(same, Stage::Closing), Some(plan)),
        (step(same, Stage::Warming), None),
        (step(1, Stage::Former), Some(plan)),
        (None, Some(plan)),
        (step(same, Stage::Warming), Some(wide)),
    ];
    for (case, (told, plan)) in cases.into_iter().enumerate() {
        let mut odd = copier("p2", 2);
        odd.0.pools[0].told = told;
        odd.0.pools[0].bundle.as_mut().unwrap().plan = plan;
        let revision = world.core.revision();
        let refused = world.send(&odd.0).unwrap_err();
        let expected = match case {
            0..5 => Reason::ForeignBundle,
            9 => Reason::BadBundle,
            _ => Reason::ForeignStep,
        };
        assert_eq!(refused.reason(), expected, "{case}");
        assert_eq!(world.core.revision(), revision);
        copier("p2", 2).leave(&mut world);
    }
    // It was cut off and removed, and comes back with a step and a plan that are over.
    let mut away = copier("p2", 2);
    away.follow(&mut world);
    world.pass(SILENT_MS);
    world.core.remove_proxy(world.now, "p2").unwrap();
    off(&mut world, 1).unwrap();
    follow_to(&mut world, &mut all, Stage::Done);
    on(&mut world, 1).unwrap();
    follow_to(&mut world, &mut all, Stage::Warming);
    away.follow(&mut world);
    assert_eq!(plan_of(&away).unwrap().number, 2);
}

#[test]
fn a_state_whose_copies_contradict_themselves_is_not_used() {
    let (mut world, mut all) = copiers::<2>();
    on(&mut world, 2).unwrap();
    follow(&mut world, &mut all, 1);
    let sound = serde_json::to_value(world.core.saved_state()).unwrap();
    let restore = |state: serde_json::Value| {
        let state = serde_json::from_value(state).unwrap();
        let restored =
            CoordinatorCore::restore(world.core.config().clone(), state, world.now.monotonic);
        restored.map(|_| ())
    };
    assert_eq!(restore(sound.clone()), Ok(()));
    type Break = fn(&mut serde_json::Value);
    let cases: [Break; 6] = [
        |it| drop(it["bundle"].as_object_mut().unwrap().remove("plan")),
        |it| it["bundle"]["plan"]["number"] = 0.into(),
        |it| it["bundle"]["plan"]["number"] = 99.into(),
        |it| it["bundle"]["plan"]["token"] = u64::MAX.into(),
        |it| it["bundle"]["plan"]["of"]["copies"] = 1.into(),
        |it| it["change"]["goal"] = "closing".into(),
    ];
    for (case, break_it) in cases.into_iter().enumerate() {
        let mut state = sound.clone();
        break_it(&mut state["changes"]["pools"]["main"]);
        assert!(restore(state).is_err(), "{case}");
    }
}

#[test]
fn each_plan_has_a_token_of_its_own_also_at_the_same_moment() {
    let mut seen = BTreeSet::new();
    let mut world = old_world();
    let mut follower = copier("p1", 2);
    let others = ["a", "b"].map(|pool| FollowedPool {
        pool: pool.into(),
        ..follower.0.pools[0].clone()
    });
    follower.0.pools.extend(others);
    for _ in 0..3 {
        follower.follow(&mut world);
        follower.follow(&mut world);
        for pool in ["main", "a", "b"] {
            let one = BundleSwitchRequest { proxies: 1 };
            let on = (world.core).switch_bundle_on(world.now, pool, &one);
            let on = on.unwrap();
            assert!(seen.insert(on.plan.unwrap().token));
            let off = (world.core).switch_bundle_off(world.now, pool, &one);
            off.unwrap();
        }
    }
}
