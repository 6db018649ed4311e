//! Who follows: names, lives, leaving, and how many there may be.

use super::*;

#[test]
fn a_name_has_one_holder_and_who_was_replaced_is_told_so() {
    let (mut world, all) = followers::<2>();
    let mut second = all[0].reborn();
    let taken = world.send(&second.0).unwrap_err();
    let expected = Refusal::NameTaken {
        name: "p1".into(),
        host: all[0].0.host.clone(),
        port: all[0].0.port,
    };
    assert_eq!(taken, expected);
    // Who follows nothing is in nobody's way.
    let plain = Heartbeat {
        boot: BootId(77),
        ..proxy("p1")
    };
    world.send(&plain).unwrap();
    assert_eq!(view(&world).proxies.len(), 2);
    world.pass(SILENT_MS / 2);
    second.follow(&mut world);
    assert_eq!(view(&world).proxies[0].boot, second.0.boot);
    assert_eq!(news(&world).last(), Some(&ChangeNews::ProxyReplaced));
    let replaced = Refusal::DuplicateName {
        name: "p1".into(),
        boot: all[0].0.boot,
    };
    world.pass(SILENT_MS);
    assert_eq!(world.send(&all[0].0), Err(replaced.clone()));
    world.restart();
    world.pass(SILENT_MS);
    assert_eq!(world.send(&all[0].0), Err(replaced));
    all[0].leave(&mut world);
    assert_eq!(
        view(&world).proxies.len(),
        2,
        "a goodbye of one that is none"
    );
    second.leave(&mut world);
    second.reborn().follow(&mut world);
    assert_eq!(view(&world).proxies.len(), 2, "who said goodbye makes room");
}

/// A restart of the coordinator gives the holder its time to speak.
#[test]
fn a_name_is_held_over_a_restart_of_the_coordinator() {
    let (mut world, mut all) = followers::<1>();
    world.restart();
    let taken = world.send(&all[0].reborn().0).unwrap_err();
    assert_eq!(taken.reason(), Reason::NameTaken);
    all[0].follow(&mut world);
}

#[test]
fn only_so_many_former_lives_are_remembered() {
    let (mut world, [first]) = followers::<1>();
    let mut life = first.clone();
    for _ in 0..limits::FORMER_LIVES_MAX + 3 {
        world.pass(SILENT_MS);
        life = life.reborn();
        life.follow(&mut world);
    }
    let saved = world.core.saved_state().changes;
    assert_eq!(saved.proxies["p1"].former.len(), limits::FORMER_LIVES_MAX);
    world.restart();
}

#[test]
fn who_leaves_or_drops_the_pool_is_waited_for_no_more() {
    let (mut world, mut all) = followers::<3>();
    begin(&mut world, Stage::Warming, 3).unwrap();
    follow(&mut world, &mut all[..1], 5);
    assert_eq!(view(&world).stage, Stage::Former);
    all[1].leave(&mut world);
    all[2].0.pools.clear();
    all[2].follow(&mut world);
    let names: Vec<_> = view(&world).proxies.into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["p1"]);
    follow(&mut world, &mut all[..1], 4);
    assert_eq!(view(&world).stage, Stage::Warming);
    let left = news(&world);
    let left = left.iter().filter(|news| **news == ChangeNews::ProxyLeft);
    assert_eq!(left.count(), 2);
}

#[test]
fn another_life_follows_only_what_it_names() {
    let mut world = old_world();
    let mut both = Follower::new("p1", &["main", "side"]);
    both.follow(&mut world);
    let mut one = Follower::new("p1", &["side"]).reborn();
    world.pass(SILENT_MS);
    one.follow(&mut world);
    let left = view(&world);
    assert_eq!((left.pool.as_str(), left.proxies.len()), ("side", 1));
    world.restart();
}

#[test]
fn a_change_that_is_done_outlives_its_followers_until_it_is_forgotten() {
    let (mut world, mut all) = followers::<1>();
    begin(&mut world, Stage::Done, 1).unwrap();
    follow_to_done(&mut world, &mut all);
    follow(&mut world, &mut all, 2);
    let kept = world.core.forget_change(world.now, "main").unwrap_err();
    let words = "1 proxy follows pool main";
    assert!(kept.to_string().contains(words), "{kept}");
    all[0].leave(&mut world);
    assert!(view(&world).hint.contains("evenkeel changes forget main"));
    // It is started again, and must not ask the former servers.
    let mut again = all[0].reborn();
    again.follow(&mut world);
    assert_eq!(again.stage(), Stage::Done);
    again.0.pools.clear();
    again.follow(&mut world);
    world.core.forget_change(world.now, "main").unwrap();
    assert!(world.core.changes(world.now.monotonic).changes.is_empty());
    let unknown = world.core.forget_change(world.now, "main").unwrap_err();
    assert!(matches!(unknown, ChangeRefusal::UnknownPool { .. }));
    world.restart();
}

#[test]
fn a_pool_that_never_changed_is_forgotten_with_its_last_follower() {
    let (mut world, all) = followers::<2>();
    all[0].leave(&mut world);
    all[1].leave(&mut world);
    assert!(world.core.changes(world.now.monotonic).changes.is_empty());
    let saved = world.core.saved_state().changes;
    assert_eq!(saved, SavedChanges::default());
}

#[test]
fn only_who_is_silent_is_removed() {
    let (mut world, mut all) = followers::<2>();
    let unknown = world.core.remove_proxy(world.now, "p9").unwrap_err();
    assert!(matches!(unknown, RemoveProxyRefusal::UnknownProxy { .. }));
    let alive = world.core.remove_proxy(world.now, "p1").unwrap_err();
    assert!(matches!(alive, RemoveProxyRefusal::StillHeard { .. }));
    world.restart();
    let again = world.core.remove_proxy(world.now, "p1").unwrap_err();
    let silent_ms = 0;
    assert!(
        matches!(again, RemoveProxyRefusal::StillHeard { silent_ms: it, .. } if it == silent_ms)
    );
    world.pass(SILENT_MS);
    all[1].follow(&mut world);
    world.core.remove_proxy(world.now, "p1").unwrap();
    assert_eq!(view(&world).proxies.len(), 1);
    // One that follows nothing is a member all the same.
    world.send(&proxy("plain")).unwrap();
    world.pass(SILENT_MS);
    let removed = world.core.remove_proxy(world.now, "plain").unwrap();
    assert_eq!(removed.pools, [""; 0]);
    let proxies = world.core.proxies(world.now.monotonic).proxies;
    assert!(proxies.iter().all(|proxy| proxy.name != "plain"));
}

#[test]
fn there_are_so_many_pools_and_no_more() {
    let mut world = old_world();
    let pools: Vec<String> = (0..limits::FOLLOWED_POOLS_MAX)
        .map(|n| format!("pool{n}"))
        .collect();
    let pools: Vec<&str> = pools.iter().map(String::as_str).collect();
    let mut first = Follower::new("p1", &pools);
    first.follow(&mut world);
    let second = Follower::new("p2", &["one-more"]);
    let count = limits::FOLLOWED_POOLS_MAX + 1;
    assert_eq!(world.send(&second.0), Err(Refusal::TooManyPools { count }));
    let known = Follower::new("p3", &pools[..1]);
    world.send(&known.0).unwrap();
    assert_eq!(world.core.saved_state().changes.proxies.len(), 2);
}

#[test]
fn there_are_so_many_followers_and_no_more() {
    let mut world = old_world();
    // They fall silent and are members no more, but are waited for.
    for n in 0..limits::PROXIES_MAX {
        let follower = Follower::new(&format!("p{n}"), &["main"]);
        world.send(&follower.0).unwrap();
        if n == limits::PROXIES_MAX / 2 {
            world.pass(SILENT_MS * 21);
        }
    }
    let one_more = Follower::new("x", &["main"]);
    assert_eq!(world.send(&one_more.0), Err(Refusal::TooManyProxies));
    world.send(&proxy("x")).unwrap();
    assert_eq!(view(&world).proxies.len(), limits::PROXIES_MAX);
    let hint = view(&world).hint;
    assert!(hint.contains("waits for proxy p0,"), "{hint}");
}

/// It has lost its state, and the first that it hears is a proxy that was just started.
#[test]
fn who_begins_is_told_nothing_while_others_may_know_better() {
    let (mut world, mut all) = followers::<2>();
    begin(&mut world, Stage::Done, 2).unwrap();
    follow_to_done(&mut world, &mut all);
    follow(&mut world, &mut all, 2);
    let config = world.core.config().clone();
    world.core = CoordinatorCore::new(config, LINEAGE, world.now.monotonic).unwrap();
    let mut newcomer = Follower::new("p9", &["main"]);
    newcomer.follow(&mut world);
    assert_eq!(newcomer.told("main"), None);
    all[0].follow(&mut world);
    newcomer.follow(&mut world);
    assert_eq!(newcomer.stage(), Stage::Done);
    // Where nobody comes that knows better, the pool is at its beginning.
    let config = world.core.config().clone();
    world.core = CoordinatorCore::new(config, LINEAGE, world.now.monotonic).unwrap();
    let mut first = Follower::new("p1", &["main"]);
    world.pass(YOUNG_MS - 1);
    first.follow(&mut world);
    assert_eq!(first.told("main"), None);
    world.pass(1);
    first.follow(&mut world);
    assert_eq!(first.stage(), Stage::Former);
}
