//! Rings: how they begin, and how parts of them move by plans.

use super::*;
use evenkeel_control::rings::RingMove;
use evenkeel_placement::config::{Distribution, PlacementConfig, Server};
use evenkeel_placement::hash::Hash;
use evenkeel_placement::ring::{Part, Ring};

const GRAIN: u32 = 1 << 20;

pub(super) fn wish(servers: usize) -> RingWish {
    let servers = (1..=servers).map(|n| Server::new(format!("m{n}"), 11_211));
    RingWish {
        even: true,
        placement: PlacementConfig {
            distribution: Distribution::Ketama,
            hash: Some(Hash::Fnv1a32),
            servers: servers.collect(),
            hash_tag: None,
        },
    }
}

/// A proxy whose file says that a pool has a ring.
pub(super) fn ring_follower(name: &str, wish: &RingWish) -> Follower {
    let mut follower = Follower::new(name, &["main"]);
    follower.0.pools[0].ring = Some(FollowedRing {
        counts: None,
        unreached: None,
        number: 0,
        incarnation: 0,
        wish: Some(wish.clone()),
    });
    follower
}

fn ring_followers<const N: usize>() -> (World, [Follower; N]) {
    let mut world = old_world();
    let mut all = std::array::from_fn(|n| ring_follower(&format!("p{}", n + 1), &wish(8)));
    follow(&mut world, &mut all, 2);
    (world, all)
}

fn plan(world: &World) -> Arc<RingPlan> {
    let saved = world.core.saved_state().changes;
    saved.pools["main"].ring.as_ref().unwrap().plan.clone()
}

fn ring(world: &World) -> RingView {
    let mut rings = world.core.rings(world.now.monotonic).rings;
    assert_eq!(rings.len(), 1);
    rings.remove(0)
}

fn grains(from: &str, to: &str, grains: u32) -> GrainsMove {
    let (from, to) = (from.to_owned(), to.to_owned());
    GrainsMove { from, to, grains }
}

fn order(world: &mut World, request: &RingMoveRequest) -> Result<RingView, ChangeRefusal> {
    (world.core).begin_ring_move(world.now, "main", request)
}

/// 40 grains from the first server to the second.
pub(super) fn some_move(proxies: usize) -> RingMoveRequest {
    RingMoveRequest {
        grains: vec![grains("m1", "m2", 40)],
        proxies,
        ..RingMoveRequest::default()
    }
}

fn works_by(follower: &Follower) -> u64 {
    follower.0.pools[0].ring.as_ref().unwrap().number
}

#[test]
fn a_ring_is_made_of_the_first_wish_and_is_everybodys() {
    let mut world = old_world();
    let mut first = ring_follower("p1", &wish(8));
    first.follow(&mut world);
    let made = plan(&world);
    assert_eq!((made.number, made.moves.len()), (1, 0));
    assert_eq!(made.ring, Ring::even(8, Ring::VIRTUAL_NODES).unwrap());
    assert_eq!(made.placement, wish(8).placement);
    assert_eq!(first.told("main"), Some((1, Stage::Former)));
    let mut second = ring_follower("p2", &wish(3));
    second.follow(&mut world);
    assert_eq!((works_by(&first), works_by(&second)), (1, 1));
    assert_eq!(plan(&world), made);
    let expected = [
        ChangeNews::RingMade,
        ChangeNews::ProxyJoined,
        ChangeNews::ProxyJoined,
    ];
    assert_eq!(news(&world), expected);
    first.follow(&mut world);
    second.follow(&mut world);
    let shown = ring(&world);
    assert_eq!((shown.generation, shown.servers.len()), (0, 8));
    assert_eq!(shown.servers[0].name, "m1");
    assert!((shown.servers[0].share - 0.125).abs() < 1e-6);
    assert!(shown.change.hint.contains("evenkeel ring move main"));
    // It stays when all have ended.
    first.leave(&mut world);
    second.leave(&mut world);
    world.restart();
    ring_follower("p3", &wish(2)).follow(&mut world);
    assert_eq!(plan(&world), made);
}

#[test]
fn a_ring_may_begin_as_the_ketama_that_was_there() {
    let mut world = old_world();
    let wish = RingWish {
        even: false,
        ..wish(4)
    };
    ring_follower("p1", &wish).follow(&mut world);
    let made = plan(&world);
    assert_eq!(made.ring, Ring::adopt(&wish.placement).unwrap());
}

#[test]
fn each_ring_has_an_incarnation_of_its_own() {
    let mut seen = BTreeSet::new();
    let mut world = old_world();
    for pool in ["main", "other", "main"] {
        let mut follower = ring_follower("p1", &wish(2));
        follower.0.pools[0].pool = pool.into();
        follower.follow(&mut world);
        let saved = world.core.saved_state().changes;
        let made = saved.pools[pool].ring.as_ref().unwrap().plan.incarnation;
        assert!(made < 1 << 48 && seen.insert(made), "{made}");
        follower.leave(&mut world);
        world.core.forget_change(world.now, pool).unwrap();
        world.pass(1);
    }
}

#[test]
fn no_ring_is_made_while_others_may_be_about_to_say_that_there_was_one() {
    let mut world = World::new(1);
    let mut beginner = ring_follower("p1", &wish(8));
    for _ in 0..YOUNG_MS / 500 {
        beginner.follow(&mut world);
        assert_eq!(beginner.told("main"), None);
        assert_eq!(world.core.rings(world.now.monotonic).rings, []);
        world.pass(500);
    }
    beginner.follow(&mut world);
    assert_eq!(beginner.told("main"), Some((1, Stage::Former)));
}

#[test]
fn a_wish_that_makes_no_ring_is_refused_with_words() {
    let mut world = old_world();
    let mut weighted = wish(2);
    weighted.placement.distribution = Distribution::KetamaWeighted;
    weighted.placement.servers[1].weight = 3;
    let mut twice = wish(2);
    twice.placement.servers[1] = twice.placement.servers[0].clone();
    let mut jump = wish(2);
    (jump.even, jump.placement.distribution) = (false, Distribution::Jump);
    for (wish, words) in [
        (weighted, "m2 has weight 3, but an even ring"),
        (twice, "is listed twice"),
        (jump, "jump has no ring"),
        (wish(0), "1 to 1024 servers, not 0"),
        (wish(1_025), "1 to 1024 servers, not 1025"),
    ] {
        let refused = world.send(&ring_follower("p1", &wish).0).unwrap_err();
        assert_eq!(refused.reason(), Reason::BadRing);
        assert!(refused.to_string().contains(words), "{refused}");
    }
    let mut silent = ring_follower("p1", &wish(2));
    silent.0.pools[0].ring.as_mut().unwrap().wish = None;
    let refused = world.send(&silent.0).unwrap_err();
    assert!(refused.to_string().contains("no plan"), "{refused}");
    assert_eq!(world.core.counters().refusals[&Reason::BadRing], 6);
    assert_eq!(world.core.rings(world.now.monotonic).rings, []);
}

#[test]
fn a_pool_is_a_ring_for_all_or_for_none() {
    let (mut world, _) = ring_followers::<1>();
    let plain = Follower::new("p9", &["main"]);
    let refused = world.send(&plain.0).unwrap_err();
    assert_eq!(refused.reason(), Reason::MixedRing);
    let (mut world, _) = followers::<1>();
    let refused = world.send(&ring_follower("p9", &wish(2)).0).unwrap_err();
    assert_eq!(refused.reason(), Reason::MixedRing);
    assert_eq!(view(&world).proxies.len(), 1);
    // Other pools of the same proxy go as ever.
    let mut both = ring_follower("p3", &wish(2));
    both.0.pools[0].pool = "ring".into();
    both.0.pools.extend(Follower::new("", &["main"]).0.pools);
    both.follow(&mut world);
    assert_eq!(both.told("main"), Some((1, Stage::Former)));
    assert_eq!(both.told("ring"), Some((1, Stage::Former)));
}

#[test]
fn a_part_moves_through_all_stages_and_has_a_new_generation() {
    let (mut world, mut all) = ring_followers::<2>();
    let before = plan(&world);
    let ordered = order(&mut world, &some_move(2)).unwrap();
    assert_eq!(ordered.change.goal, Stage::Done);
    assert_eq!(
        (ordered.moves[0].from.as_str(), ordered.waiting.len()),
        ("m1", 0)
    );
    let begun = plan(&world);
    assert_eq!((begun.number, &begun.ring), (2, &before.ring));
    let mut seen = Vec::new();
    while view(&world).stage != Stage::Done {
        for at in 0..2 {
            all[at].follow(&mut world);
            assert_neighbours(&all);
            let told = all[at].told("main").unwrap();
            assert!(told.0 == 1 || works_by(&all[at]) == 2);
            if seen.last() != Some(&told) {
                seen.push(told);
            }
        }
        world.pass(PAUSE_MS / 4);
    }
    let expected = [
        Stage::Former,
        Stage::Quiesced,
        Stage::Warming,
        Stage::Closing,
    ];
    assert!(
        seen.iter().map(|(_, stage)| *stage).eq(expected),
        "{seen:?}"
    );
    assert_eq!(seen[0].0, 2, "a former of its own");
    follow(&mut world, &mut all, 2);
    let moved = begun.moved().unwrap();
    assert_eq!(moved.generation(), 1);
    let width: u64 = begun
        .moves
        .iter()
        .map(|of| u64::from(of.last - of.first) + 1)
        .sum();
    assert!((40..41).contains(&(width / u64::from(GRAIN))), "{width}");
    for &RingMove { first, last, to } in &begun.moves {
        assert_eq!(moved.owners_of(Part { first, last }), BTreeSet::from([to]));
    }
    assert_eq!(ring(&world).moves, []);
    assert_eq!(ring(&world).generation, 1);
    // The next one begins with what that has made.
    order(&mut world, &some_move(2)).unwrap();
    let next = plan(&world);
    assert_eq!((next.number, &next.ring), (3, &moved));
    follow_to_done(&mut world, &mut all);
    assert_eq!(plan(&world).moved().unwrap().generation(), 2);
    assert_eq!(world.core.change_counts().plans, 2);
    let plans = world
        .core
        .change_events()
        .iter()
        .filter_map(|event| event.plan);
    assert!(plans.eq([1, 2, 2, 3, 3]));
}

#[test]
fn an_order_waits_until_everybody_works_by_the_last_step() {
    let (mut world, mut all) = ring_followers::<2>();
    order(&mut world, &some_move(2)).unwrap();
    follow_to_done(&mut world, &mut all);
    all[0].follow(&mut world);
    let ordered = order(&mut world, &some_move(2)).unwrap();
    assert_eq!(
        (ordered.change.stage, plan(&world).number),
        (Stage::Done, 2)
    );
    assert!(!ordered.waiting.is_empty());
    assert_eq!(ordered.change.ring.unwrap().waiting, ordered.waiting.len());
    assert!(
        ordered.change.hint.contains("p2"),
        "{}",
        ordered.change.hint
    );
    let refused = order(&mut world, &some_move(2)).unwrap_err();
    assert!(refused.to_string().contains("plan 3"), "{refused}");
    world.restart();
    all[0].follow(&mut world);
    all[0].follow(&mut world);
    assert_eq!(plan(&world).number, 2);
    world.pass(SILENT_MS);
    let hint = view(&world).hint;
    assert!(hint.contains("evenkeel proxies remove p2"), "{hint}");
    // It is taken back before it has begun, and nothing else is.
    let withdrawn = world.core.withdraw_change(world.now, "main").unwrap();
    assert_eq!(
        (withdrawn.stage, withdrawn.ring.unwrap().waiting),
        (Stage::Done, 0)
    );
    order(&mut world, &some_move(2)).unwrap();
    follow(&mut world, &mut all, 2);
    follow_to_done(&mut world, &mut all);
    assert_eq!(plan(&world).number, 3);
}

#[test]
fn a_plan_that_is_withdrawn_burns_its_generation() {
    let (mut world, mut all) = ring_followers::<2>();
    order(&mut world, &some_move(2)).unwrap();
    follow(&mut world, &mut all, 1);
    // Both hurry and have acknowledged, and the second does not come back once the step is published.
    while view(&world).stage != Stage::Quiesced {
        all[0].follow(&mut world);
        all[1].handle(&mut world);
        all[1].0.pools[0].acknowledged = 2;
    }
    world.pass(PAUSE_MS);
    let withdrawn = view(&world);
    assert_eq!(
        (withdrawn.stage, withdrawn.goal),
        (Stage::Former, Stage::Former)
    );
    assert_eq!(world.core.change_counts().unacknowledged, 1);
    assert_eq!(ring(&world).moves, []);
    follow(&mut world, &mut all, 2);
    let former = plan(&world);
    order(&mut world, &some_move(2)).unwrap();
    let next = plan(&world);
    assert_eq!((next.number, next.ring.slices()), (3, former.ring.slices()));
    assert_eq!(next.ring.generation(), 1);
    follow_to_done(&mut world, &mut all);
    assert_eq!(plan(&world).moved().unwrap().generation(), 2);
    // An operator takes one back as well.
    follow(&mut world, &mut all, 2);
    order(&mut world, &some_move(2)).unwrap();
    world.core.withdraw_change(world.now, "main").unwrap();
    follow(&mut world, &mut all, 2);
    order(&mut world, &some_move(2)).unwrap();
    assert_eq!(plan(&world).ring.generation(), 3);
}

#[test]
fn a_plan_goes_on_from_what_was_saved_at_each_step() {
    for restarts_at in 0..12 {
        let (mut world, mut all) = ring_followers::<2>();
        order(&mut world, &some_move(2)).unwrap();
        let known = |world: &World| (view(world).version, plan(world));
        let mut told = known(&world);
        for round in 0..12 {
            if round == restarts_at {
                world.restart();
                assert_eq!(known(&world), told);
            }
            for at in 0..2 {
                let revision = world.core.revision();
                all[at].follow(&mut world);
                assert_neighbours(&all);
                let is_news = known(&world) != told;
                assert_eq!(world.core.revision() > revision, is_news, "saved first");
                told = known(&world);
            }
            world.pass(INTERVAL_MS);
        }
        follow_to_done(&mut world, &mut all);
        assert_eq!(
            plan(&world).moved().unwrap().generation(),
            1,
            "{restarts_at}"
        );
    }
}

#[test]
fn who_works_by_an_unknown_plan_is_refused_and_nobody_begins() {
    let (mut world, mut all) = ring_followers::<2>();
    let lost = |world: &mut World| {
        world.core = World::new(1).core;
        world.pass(YOUNG_MS);
    };
    lost(&mut world);
    let mut beginner = ring_follower("p3", &wish(8));
    let refused = world.send(&all[0].0).unwrap_err();
    assert_eq!(refused.reason(), Reason::ForeignRing);
    let words = "restore the coordinator's state";
    assert!(refused.to_string().contains(words), "{refused}");
    world.pass(10 * SILENT_MS);
    beginner.follow(&mut world);
    assert_eq!(beginner.told("main"), None);
    // It begins anew, or has ended: there is nobody any more who knows better.
    assert!(world.send(&all[1].0).is_err());
    all[0] = ring_follower("p1", &wish(8));
    all[0].0.boot.0 += 1;
    all[0].follow(&mut world);
    assert_eq!(all[0].told("main"), None);
    world.pass(SILENT_MS);
    world.core.remove_proxy(world.now, "p2").unwrap();
    all[0].follow(&mut world);
    beginner.follow(&mut world);
    assert_eq!((works_by(&all[0]), works_by(&beginner)), (1, 1));
    // One that was away has a ring of the same number, and is not taken for one of this.
    let refused = world.send(&all[1].0).unwrap_err();
    assert_eq!(refused.reason(), Reason::ForeignRing);
    follow(&mut world, &mut [beginner.clone()], 1);
    let refused = order(&mut world, &some_move(2)).unwrap_err();
    assert!(matches!(refused, ChangeRefusal::Stranger { .. }));
    assert!(view(&world).hint.contains("p2"), "{}", view(&world).hint);
    let mut late = ring_follower("p4", &wish(8));
    late.follow(&mut world);
    assert_eq!(late.told("main"), None);
    all[1].leave(&mut world);
    late.follow(&mut world);
    assert_eq!(works_by(&late), 1);
}

/// An old state was restored: what it knows of is not what was told.
#[test]
fn a_step_or_a_number_beyond_those_that_are_known_is_refused() {
    let (mut world, mut all) = ring_followers::<1>();
    let old = world.core.saved_state();
    order(&mut world, &some_move(1)).unwrap();
    follow(&mut world, &mut all, 1);
    let config = world.core.config().clone();
    world.core = CoordinatorCore::restore(config, old, world.now.monotonic).unwrap();
    let refused = world.send(&all[0].0).unwrap_err();
    assert_eq!(refused.reason(), Reason::ForeignRing);
    let works_by = all[0].0.pools[0].ring.as_mut().unwrap();
    works_by.number = 1;
    let refused = world.send(&all[0].0).unwrap_err();
    assert_eq!(refused.reason(), Reason::ForeignRing, "the step is newer");
    all[0].0.pools[0].told = None;
    let refused = world.send(&all[0].0).unwrap_err();
    assert_eq!(
        refused.reason(),
        Reason::ForeignStep,
        "a plan comes with a step"
    );
}

#[test]
fn orders_of_moves_that_make_no_sense_are_refused() {
    let (mut world, mut all) = ring_followers::<2>();
    let of_grains = |grains: Vec<GrainsMove>| RingMoveRequest {
        grains,
        ..some_move(2)
    };
    let of_parts = |parts: Vec<RingMove>| RingMoveRequest {
        parts,
        ..of_grains(Vec::new())
    };
    let made = plan(&world).ring.clone();
    let part = |hash, to| RingMove {
        first: hash,
        last: hash,
        to,
    };
    let owner = made.owner(7);
    let other = (owner + 1) % 8;
    let whole = RingMove {
        first: 0,
        last: u32::MAX,
        to: other,
    };
    let cases = [
        (of_parts(Vec::new()), "name at least one part"),
        (of_parts(vec![part(7, 8)]), "there is no server 8 among 8"),
        (
            of_parts(vec![part(7, owner)]),
            "has hashes from 0x00000007 to 0x00000007 already",
        ),
        (of_parts(vec![whole]), "already"),
        (of_parts(vec![part(7, other); 2]), "told to move twice"),
        (
            of_parts(vec![part(7, other); 65]),
            "at most 64 parts, not 65",
        ),
        (
            of_grains(vec![grains("m1", "m9", 1)]),
            "no server of it is known as \"m9\"",
        ),
        (of_grains(vec![grains("m1", "m2", 0)]), "nothing to give"),
        (of_grains(vec![grains("m1", "m1", 1)]), "already"),
        (
            RingMoveRequest {
                proxies: 0,
                ..some_move(2)
            },
            "1 at least",
        ),
        (some_move(3), "2 proxies follow pool main, not 3"),
    ];
    for (request, words) in cases {
        let refused = order(&mut world, &request).unwrap_err();
        assert!(refused.to_string().contains(words), "{refused}");
        assert_eq!(plan(&world).number, 1);
    }
    let unknown = (world.core).begin_ring_move(world.now, "x", &some_move(2));
    assert!(matches!(unknown, Err(ChangeRefusal::UnknownPool { .. })));
    let begin = begin(&mut world, Stage::Done, 2).unwrap_err();
    assert!(
        begin.to_string().contains("evenkeel ring move main"),
        "{begin}"
    );
    order(&mut world, &some_move(2)).unwrap();
    let busy = order(&mut world, &some_move(2)).unwrap_err();
    assert!(matches!(
        busy,
        ChangeRefusal::PlanUnderWay { number: 2, .. }
    ));
    follow_to_done(&mut world, &mut all);
    let (mut world, _) = followers::<1>();
    let none = order(&mut world, &some_move(1)).unwrap_err();
    assert!(matches!(none, ChangeRefusal::NoRing { .. }));
}

/// An answer has room for one plan.
#[test]
fn many_plans_are_told_one_after_the_other() {
    let mut world = old_world();
    let mut follower = ring_follower("p1", &wish(2));
    let another = FollowedPool {
        pool: "other".into(),
        ..follower.0.pools[0].clone()
    };
    follower.0.pools.push(another);
    assert_eq!(follower.follow(&mut world), INTERVAL_MS);
    assert_eq!(follower.told("other"), None);
    assert!(follower.follow(&mut world) > INTERVAL_MS);
    assert_eq!(follower.told("other"), Some((1, Stage::Former)));
}

#[test]
fn a_saved_ring_that_contradicts_itself_is_not_used() {
    let (mut world, mut all) = ring_followers::<2>();
    order(&mut world, &some_move(2)).unwrap();
    follow_to_done(&mut world, &mut all);
    all[0].follow(&mut world);
    order(&mut world, &some_move(2)).unwrap();
    let sound = serde_json::to_value(world.core.saved_state()).unwrap();
    let restore = |state: serde_json::Value| {
        let state = serde_json::from_value(state).map_err(|error| error.to_string())?;
        let config = world.core.config().clone();
        let restored = CoordinatorCore::restore(config, state, world.now.monotonic);
        restored.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(restore(sound.clone()), Ok(()));
    type Break = fn(&mut serde_json::Value);
    let cases: [Break; 10] = [
        |it| it["ring"]["plan"]["number"] = 0.into(),
        |it| it["ring"]["plan"]["number"] = 99.into(),
        |it| it["ring"]["plan"]["incarnation"] = u64::MAX.into(),
        |it| it["ring"]["plan"]["moves"] = serde_json::json!([]),
        |it| it["ring"]["plan"]["ring"]["slices"][0]["owner"] = 99.into(),
        |it| it["ring"]["waiting"]["moves"][0]["to"] = 99.into(),
        |it| it["ring"]["waiting"]["number"] = 99.into(),
        |it| it["change"]["step"]["stage"] = "closing".into(),
        |it| it["change"]["goal"] = "closing".into(),
        |it| it["taken_over"] = true.into(),
    ];
    for (case, break_it) in cases.into_iter().enumerate() {
        let mut state = sound.clone();
        break_it(&mut state["changes"]["pools"]["main"]);
        assert!(restore(state).is_err(), "{case}");
    }
}
