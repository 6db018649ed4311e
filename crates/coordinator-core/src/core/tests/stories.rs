//! One behaviour each.

use super::*;
use evenkeel_control::loads::LoadNews;

#[test]
fn the_first_map_waits_for_the_initial_servers() {
    let mut world = World::new(2);
    let first = world.send(&server(1, 2)).unwrap();
    assert_eq!((first.epoch, first.map), (Epoch(0), None));
    assert_eq!(first.server_id, Some(ServerId(0)));
    assert!(Duration::from_millis(first.interval_ms) <= limits::INTERVAL_EAGER);
    let second = world.send(&server(2, 2)).unwrap();
    assert_eq!(
        (second.epoch, second.server_id),
        (Epoch(1), Some(ServerId(1)))
    );
    let map = second.map.expect("the first map");
    assert_eq!(map.epoch(), Epoch(1));
    assert_eq!(map.document().cachelets.len(), 4 * 16);
    assert!(world.shares().values().all(|&n| n == 16));
    assert_eq!(world.causes(), [(1, Cause::MapCreated)]);
}

#[test]
fn members_of_a_large_cluster_hurry_less() {
    let mut world = World::new(501);
    let intervals = (1..=500).map(|n| world.send(&server(n, 1)).unwrap().interval_ms);
    let intervals: Vec<u64> = intervals.collect();
    let eager = limits::INTERVAL_EAGER.as_millis() as u64;
    assert_eq!(intervals[..200], [eager; 200]);
    assert!(intervals.is_sorted());
    assert_eq!(intervals[499], 250);
}

#[test]
fn a_map_that_a_member_was_told_is_not_told_again() {
    let mut world = World::new(1);
    let mut member = server(1, 1);
    let first = world.send(&member).unwrap();
    let epoch = first.map.expect("the first map").epoch();
    // The answer was lost, or came: the member does not work by it yet.
    assert!(world.send(&member).unwrap().map.is_some());
    (member.told, member.lineage) = (epoch, Some(first.lineage));
    assert_eq!(world.send(&member).unwrap().map, None);
    // What another coordinator told it is another map.
    member.lineage = Some(first.lineage + 1);
    assert!(world.send(&member).unwrap().map.is_some());
}

#[test]
fn the_first_map_has_as_many_cachelets_as_the_memory_of_its_servers_carries() {
    let shares = |mib: [u64; 2], said: Option<usize>| {
        let mut world = World::new(2);
        world.core.config.cachelets_per_worker = said;
        for (n, mib) in (1..).zip(mib) {
            let mut heartbeat = server(n, 2);
            heartbeat.load.measured = Some(LoadNews {
                memory_limit_bytes: mib << 20,
                ..LoadNews::default()
            });
            world.send(&heartbeat).unwrap();
        }
        world.shares().into_values().collect::<Vec<_>>()
    };
    assert_eq!(shares([64, 64], None), [16; 4]);
    assert_eq!(shares([448, 64], None), [32; 4]);
    assert_eq!(shares([2048, 2048], None), [64; 4]);
    assert_eq!(shares([2048, 2048], Some(8)), [8; 4]);
}

#[test]
fn a_server_that_dies_before_the_first_map_does_not_count() {
    let mut world = World::new(2);
    world.send(&server(1, 1)).unwrap();
    world.pass(4_000);
    assert_eq!(world.send(&server(2, 1)).unwrap().epoch, Epoch(0));
    assert_eq!(world.send(&server(1, 1)).unwrap().epoch, Epoch(1));
    assert_eq!(world.shares().len(), 2);
}

#[test]
fn repeating_a_heartbeat_changes_nothing() {
    let mut world = World::new(1);
    let mut heartbeat = server(1, 2);
    let first = world.send(&heartbeat).unwrap();
    let revision = world.core.revision();
    assert_eq!(world.send(&heartbeat).unwrap(), first);
    heartbeat.epoch = Epoch(1);
    let later = world.send(&heartbeat).unwrap();
    assert_eq!((later.map, later.interval_ms), (None, 500));
    assert_eq!(world.core.revision(), revision);
    assert_eq!(world.core.epoch(), Epoch(1));
}

#[test]
fn a_silent_server_goes_down_keeps_its_cachelets_and_comes_back() {
    let mut world = World::new(2);
    let mut members = [server(1, 1), server(2, 1)];
    world.send(&members[0]).unwrap();
    world.send(&members[1]).unwrap();
    let owners = world.owners();
    world.send_current(&mut members);
    for _ in 0..6 {
        world.pass(500);
        world.send_current(&mut members[..1]);
    }
    assert_eq!(world.core.epoch(), Epoch(2));
    let map = world.core.map().unwrap().clone();
    assert!(map.is_up(ServerId(0)) && !map.is_up(ServerId(1)));
    assert_eq!(world.owners(), owners);
    // The same life returns: it still holds what it held.
    world.send_current(&mut members);
    assert_eq!(world.core.epoch(), Epoch(3));
    assert_eq!(world.owners(), owners);
    // Another life returns: its boot id tells everyone that its contents are void.
    members[1].boot = BootId(9);
    members[1].epoch = Epoch(0);
    let answer = world.send_new_life(&members[1]).unwrap();
    let map = answer.map.expect("a newer map");
    assert_eq!(answer.server_id, Some(ServerId(1)));
    assert_eq!(map.server(ServerId(1)).unwrap().boot, BootId(9));
    assert_eq!(world.owners(), owners);
    assert_eq!(
        world.causes(),
        [
            (1, Cause::MapCreated),
            (2, Cause::ServerSilent),
            (3, Cause::ServerReturned),
            (4, Cause::ServerRestarted)
        ]
    );
}

#[test]
fn servers_that_fall_silent_together_make_one_map() {
    let mut world = World::new(3);
    let mut members = [server(1, 1), server(2, 1), server(3, 1)];
    world.send_current(&mut members);
    world.pass(3_500);
    assert_eq!(world.core.epoch(), Epoch(2));
    assert_eq!(world.core.servers_up(), 0);
}

#[test]
fn a_newcomer_gets_cachelets_only_after_the_owners_have_let_go() {
    let mut world = World::new(1);
    let mut old = server(1, 1);
    world.send(&old).unwrap();
    let before = world.owners();
    let mut new = server(2, 1);
    assert_eq!(world.send(&new).unwrap().epoch, Epoch(2));
    // Half of the cachelets belong to nobody now; the others have not moved.
    let released = world.owners();
    assert_eq!(world.core.cachelets_in_transit(), 8);
    for (before, now) in before.iter().zip(&released) {
        assert!(now.is_none() || now == before);
    }
    // Whatever the newcomer says and however long it takes: the owner has to confirm.
    new.epoch = Epoch(2);
    old.epoch = Epoch(1);
    for _ in 0..20 {
        world.pass(400);
        world.send(&new).unwrap();
        let answer = world.send(&old).unwrap();
        assert!(answer.map.is_some_and(|map| map.epoch() == Epoch(2)));
        assert_eq!(world.owners(), released);
    }
    old.epoch = Epoch(2);
    assert_eq!(world.send(&old).unwrap().epoch, Epoch(3));
    let after = world.owners();
    for (released, now) in released.iter().zip(&after) {
        let expected = released.unwrap_or(worker(1, 0));
        assert_eq!(*now, Some(expected));
    }
    assert_eq!(
        world.causes(),
        [
            (1, Cause::MapCreated),
            (2, Cause::ServerJoined),
            (2, Cause::CacheletsReleased),
            (3, Cause::CacheletsGranted)
        ]
    );
}

#[test]
fn an_owner_that_dies_before_it_confirmed_is_waited_for() {
    let mut world = World::new(1);
    let mut members = [server(1, 1), server(2, 1)];
    world.send(&members[0]).unwrap();
    world.send(&members[1]).unwrap();
    for _ in 0..20 {
        world.pass(500);
        world.send_current(&mut members[1..]);
    }
    assert!(!world.core.map().unwrap().is_up(ServerId(0)));
    assert_eq!(world.core.cachelets_in_transit(), 8);
    // It returns in a new life, learns of the map, confirms.
    members[0].boot = BootId(77);
    members[0].epoch = Epoch(0);
    world.send(&members[0]).unwrap();
    assert_eq!(world.core.cachelets_in_transit(), 8);
    world.send_current(&mut members);
    assert_eq!(world.core.cachelets_in_transit(), 0);
    assert!(world.shares().values().all(|&n| n == 8));
}

#[test]
fn a_newcomer_that_dies_before_it_got_its_cachelets_leaves_them_to_the_others() {
    let mut world = World::new(1);
    let mut old = server(1, 1);
    world.send(&old).unwrap();
    world.send(&server(2, 1)).unwrap();
    for _ in 0..8 {
        world.pass(500);
        old.epoch = Epoch(1);
        world.send(&old).unwrap();
    }
    assert_eq!(world.core.cachelets_in_transit(), 8);
    old.epoch = world.core.epoch();
    world.send(&old).unwrap();
    assert_eq!(world.shares(), BTreeMap::from([(worker(0, 0), 16)]));
}

#[test]
fn a_restart_with_another_number_of_workers_spreads_the_cachelets_over_them() {
    let mut world = World::new(2);
    let mut members = [server(1, 2), server(2, 2)];
    world.send_current(&mut members);
    members[0] = Heartbeat {
        boot: BootId(5),
        ..server(1, 4)
    };
    world.send_new_life(&members[0]).unwrap();
    // 64 cachelets and six workers: 32 at once on the four new workers, the rest in two steps.
    assert!(world.core.map().is_some());
    for _ in 0..3 {
        world.send_current(&mut members);
    }
    let shares = world.shares();
    assert_eq!(shares.len(), 6);
    assert!(shares.values().all(|&n| n == 10 || n == 11), "{shares:?}");
    members[0] = Heartbeat {
        boot: BootId(6),
        ..server(1, 1)
    };
    world.send_new_life(&members[0]).unwrap();
    for _ in 0..3 {
        world.send_current(&mut members);
    }
    let shares = world.shares();
    assert_eq!(shares.len(), 3);
    assert!(shares.values().all(|&n| n == 21 || n == 22), "{shares:?}");
}

#[test]
fn a_name_has_one_holder() {
    let mut world = World::new(1);
    let older = server(1, 1);
    let younger = Heartbeat {
        boot: BootId(2),
        port: 20_000,
        worker_ports: vec![20_001],
        ..server(1, 1)
    };
    world.send(&older).unwrap();
    let taken = |world: &mut World, from: &Heartbeat| world.send(from).unwrap_err().reason();
    for _ in 0..10 {
        world.pass(1_400);
        assert_eq!(taken(&mut world, &younger), Reason::NameTaken);
        let at_its_address = Heartbeat {
            boot: BootId(3),
            ..older.clone()
        };
        assert_eq!(taken(&mut world, &at_its_address), Reason::NameTaken);
        world.send(&older).unwrap();
    }
    // Three heartbeats were missed.
    world.pass(1_500);
    assert_eq!(world.send(&younger).unwrap().server_id, Some(ServerId(0)));
    let epoch = world.core.epoch();
    for _ in 0..10 {
        assert_eq!(taken(&mut world, &older), Reason::DuplicateName);
        world.send(&younger).unwrap();
    }
    assert_eq!(world.core.epoch(), epoch, "the map does not flip");
    world.restart();
    let refusal = world.send(&older).unwrap_err();
    assert_eq!(
        refusal.reason(),
        Reason::DuplicateName,
        "not forgotten by a restart"
    );
}

#[test]
fn who_has_said_goodbye_is_replaced_at_once() {
    let mut world = World::new(1);
    let mut older = server(1, 1);
    world.send(&older).unwrap();
    let younger = Heartbeat {
        boot: BootId(2),
        ..server(1, 1)
    };
    older.leaves = true;
    world.send(&older).unwrap();
    world.send(&younger).unwrap();
}

#[test]
fn an_id_is_never_given_to_another_name() {
    let mut world = World::new(1);
    for n in 1..=5 {
        let id = ServerId(n - 1);
        assert_eq!(world.send(&server(n, 1)).unwrap().server_id, Some(id));
    }
    world.pass(60_000);
    world.restart();
    assert_eq!(
        world.send(&server(6, 1)).unwrap().server_id,
        Some(ServerId(5))
    );
    assert_eq!(
        world.send(&server(3, 1)).unwrap().server_id,
        Some(ServerId(2))
    );
}

#[test]
fn a_restarted_coordinator_goes_on_and_moves_nothing() {
    let mut world = World::new(2);
    let mut members = [server(1, 2), server(2, 2)];
    world.send_current(&mut members);
    let off = world.set(r#"{"hot_keys": "off"}"#).unwrap();
    let (owners, epoch) = (world.owners(), world.core.epoch());
    // Down for ten minutes; the process that comes up has a clock of its own.
    let state = world.core.saved_state();
    let config = world.core.config().clone();
    world.now.monotonic = Instant::from_millis(3);
    world.core = CoordinatorCore::restore(config, state, world.now.monotonic).unwrap();
    world.pass(2_900);
    for member in &mut members {
        member.epoch = epoch;
        let answer = world.send(member).unwrap();
        assert_eq!((answer.epoch, answer.map), (epoch, None));
        assert_eq!(answer.settings, off);
    }
    assert_eq!(world.owners(), owners);
    world.pass(4_000);
    assert_eq!(world.core.servers_up(), 0, "then silence counts again");
    assert_eq!(world.core.epoch(), Epoch(epoch.0 + 1));
}

#[test]
fn moves_go_on_after_a_restart_of_the_coordinator() {
    let mut world = World::new(1);
    let mut members = [server(1, 1), server(2, 1)];
    world.send(&members[0]).unwrap();
    world.send(&members[1]).unwrap();
    world.restart();
    members[1].epoch = Epoch(2);
    world.send(&members[1]).unwrap();
    assert_eq!(
        world.core.cachelets_in_transit(),
        8,
        "the old owner has not confirmed"
    );
    world.send_current(&mut members[..1]);
    assert_eq!(world.core.cachelets_in_transit(), 0);
    assert_eq!(world.core.epoch(), Epoch(3));
}

#[test]
fn nobody_is_declared_dead_because_the_coordinator_slept() {
    let mut world = World::new(2);
    let mut members = [server(1, 1), server(2, 1)];
    world.send_current(&mut members);
    let epoch = world.core.epoch();
    world.now.monotonic = world.now.monotonic + Duration::from_secs(30);
    world.core.handle_timeout(world.now);
    assert_eq!(world.core.epoch(), epoch);
    assert_eq!(world.core.counters().pauses, 1);
    world.pass(2_000);
    assert_eq!(world.core.epoch(), epoch);
    world.pass(2_000);
    assert_eq!(
        world.core.servers_up(),
        0,
        "a whole silence later it counts"
    );
}

#[test]
fn wall_time_decides_nothing() {
    let mut world = World::new(1);
    let mut members = [server(1, 1)];
    world.send_current(&mut members);
    for unix in [0, u32::MAX, 1_700_000_000] {
        world.now.unix = unix;
        world.pass(500);
        world.send_current(&mut members);
    }
    assert_eq!(world.core.epoch(), Epoch(1));
}

#[test]
fn proxies_are_members_with_no_id_and_are_forgotten_when_gone() {
    let mut world = World::new(1);
    world.send(&server(1, 1)).unwrap();
    let answer = world.send(&proxy("p")).unwrap();
    assert_eq!(answer.server_id, None);
    assert_eq!(answer.map.map(|map| map.epoch()), Some(Epoch(1)));
    let view = world.core.proxies(world.now.monotonic);
    assert!(view.proxies.len() == 1 && view.proxies[0].up);
    world.pass(5_000);
    assert!(!world.core.proxies(world.now.monotonic).proxies[0].up);
    world.pass(60_000);
    assert!(world.core.proxies(world.now.monotonic).proxies.is_empty());
}

#[test]
fn a_proxy_tells_by_which_file_it_works() {
    let mut world = World::new(1);
    let hash = |world: &World| {
        let view = world.core.proxies(world.now.monotonic);
        view.proxies[0].config_hash.clone()
    };
    for told in [None, Some("0cc175b9"), Some("92eb5ffe")] {
        let told = told.map(str::to_owned);
        let heartbeat = Heartbeat {
            config_hash: told.clone(),
            ..proxy("p")
        };
        world.send(&heartbeat).unwrap();
        assert_eq!(hash(&world), told);
    }
    // No more than a word of it.
    for bad in ["", "two words", "a\n", &"x".repeat(256)] {
        let heartbeat = Heartbeat {
            config_hash: Some(bad.into()),
            ..proxy("p")
        };
        let refusal = world.send(&heartbeat).unwrap_err();
        assert_eq!(refusal.reason(), Reason::BadName, "{bad:?}");
    }
    assert_eq!(hash(&world).as_deref(), Some("92eb5ffe"));
}

#[test]
fn the_mean_load_is_that_of_the_workers_that_are_up() {
    let mut world = World::new(2);
    let mut members = [server(1, 2), server(2, 2)];
    members[0].load.requests_per_second = vec![40_000.0, 20_000.0];
    members[1].load.requests_per_second = vec![10_000.0, 10_000.0];
    world.send_current(&mut members);
    world.pass(300);
    let answer = world.send(&proxy("p")).unwrap();
    assert_eq!(answer.mean_worker_load, 20_000.0);
    for _ in 0..8 {
        world.pass(500);
        world.send_current(&mut members[..1]);
    }
    let answer = world.send(&proxy("p")).unwrap();
    assert_eq!(answer.mean_worker_load, 30_000.0);
}

#[test]
fn settings_travel_with_every_answer_and_do_not_touch_the_map() {
    let mut world = World::new(1);
    let on = world.send(&server(1, 1)).unwrap();
    assert_eq!(on.settings.hot_keys, Mode::On);
    let (epoch, revision) = (world.core.epoch(), world.core.revision());
    let off = world.set(r#"{"hot_keys": "off"}"#).unwrap();
    assert_eq!(off.hot_keys, Mode::Off);
    assert_eq!(world.set(r#"{"hot_keys": "off"}"#), Ok(off));
    assert_eq!(world.send(&server(1, 1)).unwrap().settings, off);
    assert_eq!(world.send(&proxy("p")).unwrap().settings, off);
    assert_eq!(world.core.epoch(), epoch);
    assert_eq!(world.core.revision(), revision + 1);
}

#[test]
fn only_the_last_events_are_kept() {
    let mut world = World::new(1);
    let mut heartbeat = server(1, 1);
    world.send(&heartbeat).unwrap();
    for boot in 2..1_201 {
        heartbeat.boot = BootId(boot);
        world.send_new_life(&heartbeat).unwrap();
    }
    let events: Vec<_> = world.core.events().iter().collect();
    assert_eq!(events.len(), limits::EVENTS_MAX);
    assert_eq!(events.last().map(|e| e.epoch), Some(Epoch(1_200)));
    assert_eq!(
        world.core.saved_state().servers[0].former.len(),
        limits::FORMER_LIVES_MAX
    );
}

#[test]
fn a_state_that_contradicts_itself_is_refused() {
    let mut world = World::new(1);
    world.send(&server(1, 1)).unwrap();
    world.send(&server(2, 1)).unwrap();
    let good = world.core.saved_state();
    assert_eq!(good.validate("test"), Ok(()));
    type Break = fn(&mut SavedState);
    let breaks: [(Break, &str); 12] = [
        (|s| s.cluster = "other".into(), "cluster"),
        (|s| s.servers[1].entry.id = ServerId(4), "position"),
        (|s| s.servers[1].entry.name = "s1".into(), "two servers"),
        (|s| s.epoch = Epoch(0), "epoch"),
        (|s| s.epoch = Epoch(u64::MAX), "absurdly"),
        (|s| s.virtual_nodes.truncate(3), "no virtual node"),
        (
            |s| {
                let more = s.virtual_nodes[0];
                s.virtual_nodes.push(more);
            },
            "power of two",
        ),
        (|s| s.merged.push(serde::de::IgnoredAny), "merged"),
        (|s| s.cachelets[0] = Slot::Owned(worker(0, 9)), "unknown"),
        (
            |s| {
                s.cachelets[0] = Slot::Released {
                    by: ServerId(0),
                    epoch: Epoch(9),
                };
            },
            "future epoch",
        ),
        (
            |s| s.servers[0].former = vec![BootId(0); 99],
            "former lives",
        ),
        (|s| s.electorates[0].from = Epoch(9), "who was up"),
    ];
    for (break_it, expected) in breaks {
        let mut bad = good.clone();
        break_it(&mut bad);
        let error = bad.validate("test").unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let config = CoordinatorConfig::new("test");
        assert!(CoordinatorCore::restore(config, bad, Instant(0)).is_err());
    }
}

#[test]
fn configurations_out_of_range_are_refused() {
    let good = CoordinatorConfig::new("test");
    type Break = fn(&mut CoordinatorConfig);
    let breaks: [Break; 7] = [
        |c| c.cluster = String::new(),
        |c| c.cluster = "a b".into(),
        |c| c.initial_servers = 0,
        |c| c.initial_servers = SERVERS_MAX + 1,
        |c| c.cachelets_per_worker = Some(0),
        |c| c.silent = Duration::from_millis(1),
        |c| c.silent = Duration::from_secs(86_400),
    ];
    assert_eq!(good.validate(), Ok(()));
    for break_it in breaks {
        let mut bad = good.clone();
        break_it(&mut bad);
        assert!(CoordinatorCore::new(bad, 1, Instant(0)).is_err());
    }
}

fn drain(server: &str, drain: bool, cachelets_per_second: u32) -> DrainRequest {
    DrainRequest {
        server: server.into(),
        drain,
        cachelets_per_second,
    }
}

#[test]
fn a_drained_server_is_emptied_at_its_rate_and_stays_so_until_it_is_told_otherwise() {
    let mut world = World::new(3);
    let mut servers = [server(0, 2), server(1, 2), server(2, 2)];
    servers.iter().for_each(|s| drop(world.send(s)));
    world.send_current(&mut servers);
    let held = |world: &World, id: u16| {
        let shares = world.shares();
        let of = shares
            .iter()
            .filter(|(owner, _)| owner.server == ServerId(id));
        of.map(|(_, count)| count).sum::<usize>()
    };
    assert_eq!(held(&world, 1), 32);
    let view = world.core.handle_drain(world.now, &drain("s1", true, 8));
    assert_eq!(
        view,
        Ok(DrainView {
            server: "s1".into(),
            draining: true,
            cachelets: 32,
            awaited: Vec::new(),
            unheard: Vec::new(),
            may_stop: false,
        })
    );
    let mut left = Vec::new();
    for _ in 0..6 {
        for _ in 0..10 {
            world.pass(100);
            world.send_current(&mut servers);
        }
        left.push(held(&world, 1));
    }
    assert!(left[0] <= 25 && left[0] >= 22, "{left:?}");
    assert!(left[1] <= 17 && left[1] >= 14, "{left:?}");
    assert_eq!(left[4..], [0, 0]);
    assert_eq!((held(&world, 0), held(&world, 2)), (48, 48));
    assert_eq!(world.core.cachelets_in_transit(), 0);
    // Over a restart of the coordinator, and of the server itself.
    world.restart();
    servers[1].boot = BootId(77);
    for server in &mut servers {
        server.epoch = Epoch(0);
    }
    world.send_new_life(&servers[1]).unwrap();
    for _ in 0..20 {
        servers.iter().for_each(|s| drop(world.send(s)));
        world.pass(200);
        world.send_current(&mut servers);
    }
    assert_eq!(held(&world, 1), 0);
    assert!(world.core.servers(world.now.monotonic).servers[1].draining);
    // Nobody to take the last ones.
    world
        .core
        .handle_drain(world.now, &drain("s0", true, 1))
        .unwrap();
    let last = world.core.handle_drain(world.now, &drain("s2", true, 1));
    assert_eq!(last, Err(DrainRefusal::NobodyElse { name: "s2".into() }));
    // What is drained already may be told to hurry even while nobody could take anything.
    for _ in 0..60 {
        servers[..2].iter().for_each(|s| drop(world.send(s)));
        world.pass(100);
    }
    assert!(!world.core.servers(world.now.monotonic).servers[2].up);
    let hurried = world.core.handle_drain(world.now, &drain("s0", true, 100));
    assert!(hurried.is_ok_and(|view| view.draining));
    servers.iter().for_each(|s| drop(world.send(s)));
    world
        .core
        .handle_drain(world.now, &drain("s0", false, 1))
        .unwrap();
    world
        .core
        .handle_drain(world.now, &drain("s1", false, 1))
        .unwrap();
    for _ in 0..20 {
        world.pass(100);
        world.send_current(&mut servers);
    }
    assert_eq!([0, 1, 2].map(|id| held(&world, id)), [32; 3]);
    let nobody = world.core.handle_drain(world.now, &drain("s9", true, 1));
    assert!(matches!(nobody, Err(DrainRefusal::UnknownServer { .. })));
    let bad = world.core.handle_drain(world.now, &drain("s1", true, 0));
    assert_eq!(bad, Err(DrainRefusal::BadRate { rate: 0 }));
}
