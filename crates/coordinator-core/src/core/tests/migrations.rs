//! One behaviour of migrations each.

use super::*;

const CACHELET: CacheletId = CacheletId(4);

/// Two servers of two workers that work by the map: cachelets 0, 4, 8, … are of worker 0/0, those after them of
/// 0/1, 1/0 and 1/1.
fn two_servers() -> (World, [Heartbeat; 2]) {
    let mut world = World::new(2);
    let mut members = [server(1, 2), server(2, 2)];
    members.iter().for_each(|member| drop(world.send(member)));
    world.send_current(&mut members);
    (world, members)
}

impl World {
    fn begin(&mut self, to: WorkerRef) -> Migration {
        let begun = self.core.begin_migration(self.now, CACHELET, to, 1_000);
        begun.expect("a migration")
    }

    fn owner(&self) -> Option<WorkerRef> {
        self.owners()[usize::from(CACHELET.0)]
    }

    fn since_of_it(&self) -> Epoch {
        self.since()[usize::from(CACHELET.0)]
    }

    /// A heartbeat of a member that works by the newest map and says this of the migration.
    fn say(&mut self, member: &Heartbeat, began: Epoch, state: MigrationState) -> HeartbeatAnswer {
        let heartbeat = Heartbeat {
            epoch: self.core.epoch(),
            migrations: vec![report(began, state)],
            ..member.clone()
        };
        self.send(&heartbeat).unwrap()
    }
}

fn report(began: Epoch, state: MigrationState) -> MigrationReport {
    MigrationReport {
        cachelet: CACHELET,
        began,
        state,
        items: 10,
        bytes: 1_000,
    }
}

use evenkeel_types::map::Migration;

#[test]
fn a_cachelet_passes_when_its_source_says_so_and_its_contents_go_on() {
    let (mut world, members) = two_servers();
    assert_eq!(
        (world.owner(), world.since_of_it()),
        (Some(worker(0, 0)), Epoch(1))
    );
    let migration = world.begin(worker(1, 1));
    assert_eq!(migration.began, Epoch(2));
    let map = world.core.map().unwrap().clone();
    assert_eq!(map.migration(CACHELET), Some(&migration));
    assert_eq!(map.owner(CACHELET), Some(worker(0, 0)));

    let answer = world.say(&members[0], Epoch(2), MigrationState::Copying);
    assert!(Duration::from_millis(answer.interval_ms) <= limits::INTERVAL_EAGER);
    world.say(&members[1], Epoch(2), MigrationState::Staged);
    assert_eq!(world.core.epoch(), Epoch(2));
    let view = world.core.migrations(world.now.monotonic).migrations;
    assert_eq!((view.len(), view[0].stage), (1, MigrationStage::Copying));
    assert_eq!((view[0].items, view[0].bytes), (10, 1_000));
    assert_eq!(
        (view[0].from.to_string(), view[0].to.to_string()),
        ("s1/0".into(), "s2/1".into())
    );

    let answer = world.say(&members[0], Epoch(2), MigrationState::Moved);
    assert_eq!(answer.interval_ms, 500);
    let map = answer.map.expect("a newer map");
    assert_eq!((map.epoch(), map.migration(CACHELET)), (Epoch(3), None));
    assert_eq!(map.owner(CACHELET), Some(worker(1, 1)));
    assert_eq!(world.since_of_it(), Epoch(1));
    // Told again, and by the other: nothing changes any more.
    world.say(&members[0], Epoch(2), MigrationState::Moved);
    world.say(&members[1], Epoch(2), MigrationState::Live);
    assert_eq!(world.core.epoch(), Epoch(3));
    assert_eq!(world.core.migration_counts().odd_reports, 2);
    assert_eq!(
        world.causes()[1..],
        [(2, Cause::MigrationsBegun), (3, Cause::CacheletsMigrated)]
    );
    let ended = world.core.migrations(world.now.monotonic).ended;
    assert_eq!(
        (ended.len(), ended[0].end, ended[0].bytes),
        (1, MigrationEnd::Moved, 1_000)
    );
}

#[test]
fn the_word_of_a_target_that_serves_is_as_good() {
    let (mut world, members) = two_servers();
    world.begin(worker(1, 0));
    world.say(&members[1], Epoch(2), MigrationState::Live);
    assert_eq!(
        (world.owner(), world.since_of_it()),
        (Some(worker(1, 0)), Epoch(1))
    );
}

#[test]
fn a_migration_that_comes_to_nothing_leaves_everything_as_it_was() {
    let (mut world, members) = two_servers();
    world.begin(worker(1, 0));
    let answer = world.say(&members[0], Epoch(2), MigrationState::Aborted);
    assert_eq!(answer.map.unwrap().migration(CACHELET), None);
    assert_eq!(
        (world.owner(), world.since_of_it()),
        (Some(worker(0, 0)), Epoch(1))
    );
    // It may be tried again, under another name.
    assert_eq!(world.begin(worker(1, 0)).began, Epoch(4));
    world.say(&members[0], Epoch(2), MigrationState::Moved);
    assert_eq!(
        world.owner(),
        Some(worker(0, 0)),
        "a word on the former try"
    );
}

#[test]
fn nobody_speaks_for_the_other_end() {
    let (mut world, members) = two_servers();
    world.begin(worker(1, 0));
    for state in [MigrationState::Moved, MigrationState::Aborted] {
        world.say(&members[1], Epoch(2), state);
    }
    world.say(&members[0], Epoch(2), MigrationState::Live);
    let mut unknown = report(Epoch(2), MigrationState::Moved);
    unknown.cachelet = CacheletId(u16::MAX);
    let heartbeat = Heartbeat {
        migrations: vec![unknown],
        epoch: Epoch(2),
        ..members[0].clone()
    };
    world.send(&heartbeat).unwrap();
    assert_eq!(world.core.epoch(), Epoch(2));
    assert_eq!(world.core.migration_counts().odd_reports, 4);
}

#[test]
fn a_cancel_is_a_wish_that_may_come_too_late() {
    let (mut world, members) = two_servers();
    world.begin(worker(1, 0));
    assert_eq!(world.core.cancel_migration(world.now, CACHELET), Ok(()));
    assert!(
        world
            .core
            .map()
            .unwrap()
            .migration(CACHELET)
            .unwrap()
            .cancelled
    );
    let epoch = world.core.epoch();
    assert_eq!(world.core.cancel_migration(world.now, CACHELET), Ok(()));
    assert_eq!(world.core.epoch(), epoch, "said twice");
    world.say(&members[0], Epoch(2), MigrationState::Moved);
    assert_eq!(world.owner(), Some(worker(1, 0)));
    let none = world.core.cancel_migration(world.now, CACHELET);
    assert_eq!(
        none,
        Err(MigrationRefusal::NotMoving { cachelet: CACHELET })
    );
}

#[test]
fn when_the_source_begins_a_new_life_the_target_has_to_let_go_before_anybody_gets_the_cachelet() {
    let (mut world, mut members) = two_servers();
    world.begin(worker(1, 0));
    world.say(&members[1], Epoch(2), MigrationState::Staged);
    members[0].boot = BootId(77);
    members[0].epoch = Epoch(0);
    world.send_new_life(&members[0]).unwrap();
    assert_eq!(world.owner(), None);
    // What else it owned begins anew.
    assert_eq!(world.since()[0], Epoch(3));
    assert_eq!(world.since()[2], Epoch(1));
    // The target still works by the old map, and speaks of a migration that is no more.
    let old = Heartbeat {
        epoch: Epoch(2),
        migrations: vec![report(Epoch(2), MigrationState::Live)],
        ..members[1].clone()
    };
    for _ in 0..3 {
        world.send_current(&mut members[..1]);
        world.send(&old).unwrap();
        assert_eq!(world.owner(), None);
    }
    world.send_current(&mut members[1..]);
    let owner = world.owner().expect("an owner");
    assert_eq!(world.since_of_it(), world.core.epoch());
    assert_eq!(owner, worker(0, 0), "shares are even");
}

#[test]
fn what_passed_to_a_former_life_of_the_target_begins_anew() {
    let (mut world, mut members) = two_servers();
    world.begin(worker(1, 1));
    members[1] = Heartbeat {
        boot: BootId(78),
        ..server(2, 1)
    };
    world.send_new_life(&members[1]).unwrap();
    let migration = *world.core.map().unwrap().migration(CACHELET).unwrap();
    assert!(migration.cancelled);
    assert_eq!(
        migration.to,
        worker(1, 0),
        "of the workers that there are now"
    );
    world.restart();
    // The source may have spoken to the present life, too: that one is asked, with a map made after that.
    let before = world.core.epoch();
    world.say(&members[0], Epoch(2), MigrationState::Moved);
    assert!(world.core.epoch() > before);
    members[1].epoch = before;
    world.send(&members[1]).unwrap();
    assert_eq!(world.owner(), Some(worker(0, 0)), "sent too early to tell");
    world.say(&members[0], Epoch(2), MigrationState::Moved);
    members[1].epoch = world.core.epoch();
    world.send(&members[1]).unwrap();
    assert_eq!(world.owner(), Some(worker(1, 0)));
    assert_eq!(world.since_of_it(), world.core.epoch());
}

#[test]
fn what_passed_to_the_present_life_of_the_target_goes_on() {
    for target_is_first in [true, false] {
        let (mut world, mut members) = two_servers();
        world.begin(worker(1, 1));
        members[1] = Heartbeat {
            boot: BootId(78),
            ..server(2, 2)
        };
        world.send_new_life(&members[1]).unwrap();
        if target_is_first {
            world.say(&members[1], Epoch(2), MigrationState::Staged);
            world.say(&members[0], Epoch(2), MigrationState::Moved);
        } else {
            world.say(&members[0], Epoch(2), MigrationState::Moved);
            world.say(&members[1], Epoch(2), MigrationState::Staged);
        }
        assert_eq!(world.owner(), Some(worker(1, 1)), "{target_is_first}");
        assert_eq!(world.since_of_it(), Epoch(1));
    }
}

#[test]
fn a_silent_end_and_a_target_that_is_drained_make_a_migration_be_given_up() {
    type Trouble = fn(&mut World, &mut [Heartbeat; 2]);
    let troubles: [Trouble; 3] = [
        |world, members| {
            for _ in 0..7 {
                world.pass(500);
                world.send_current(&mut members[..1]);
            }
        },
        |world, members| {
            for _ in 0..7 {
                world.pass(500);
                world.send_current(&mut members[1..]);
            }
        },
        |world, members| {
            let request = DrainRequest {
                server: "s2".into(),
                drain: true,
                cachelets_per_second: 1,
            };
            world.core.handle_drain(world.now, &request).unwrap();
            world.send_current(members);
        },
    ];
    for trouble in troubles {
        let (mut world, mut members) = two_servers();
        world.begin(worker(1, 0));
        trouble(&mut world, &mut members);
        let map = world.core.map().unwrap();
        assert!(map.migration(CACHELET).unwrap().cancelled);
        assert_eq!(map.owner(CACHELET), Some(worker(0, 0)));
    }
}

#[test]
fn migrations_survive_the_coordinator() {
    let (mut world, members) = two_servers();
    let migration = world.begin(worker(1, 0));
    let state = world.core.saved_state();
    let json = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<SavedState>(&json).unwrap(), state);
    world.restart();
    assert_eq!(
        world.core.map().unwrap().migration(CACHELET),
        Some(&migration)
    );
    world.say(&members[0], Epoch(2), MigrationState::Moved);
    assert_eq!(
        (world.owner(), world.since_of_it()),
        (Some(worker(1, 0)), Epoch(1))
    );
}

#[test]
fn a_state_of_a_version_without_migrations_is_taken_over() {
    let (world, _) = two_servers();
    let mut json = serde_json::to_value(world.core.saved_state()).unwrap();
    json.as_object_mut()
        .unwrap()
        .retain(|name, _| !["since", "stay", "accounts"].contains(&name.as_str()));
    let state: SavedState = serde_json::from_value(json).unwrap();
    let config = world.core.config().clone();
    let core = CoordinatorCore::restore(config, state, world.now.monotonic).unwrap();
    let document = core.map().unwrap().document();
    assert_eq!(document.since, vec![Epoch(1); document.cachelets.len()]);
}

#[test]
fn an_order_that_stands_is_answered_again_and_another_one_is_refused() {
    let (mut world, _) = two_servers();
    let order = |server: &str, bytes_per_second| MigrationRequest {
        cachelet: CACHELET,
        to: WorkerName {
            server: server.into(),
            worker: 1,
        },
        bytes_per_second,
    };
    let begun = world.core.handle_migration(world.now, &order("s2", 1_000));
    let begun = begun.unwrap();
    let again = world.core.handle_migration(world.now, &order("s2", 1_000));
    assert_eq!(again.unwrap(), begun);
    assert_eq!(world.core.migration_counts().begun, 1);
    let moving = MigrationRefusal::Moving { cachelet: CACHELET };
    let faster = world.core.handle_migration(world.now, &order("s2", 2_000));
    assert_eq!(faster, Err(moving.clone()));
    // What is to be given up does not stand.
    world.core.cancel_migration(world.now, CACHELET).unwrap();
    let again = world.core.handle_migration(world.now, &order("s2", 1_000));
    assert_eq!(again, Err(moving));
}

#[test]
fn what_cannot_migrate_is_refused_with_the_reason() {
    let (mut world, mut members) = two_servers();
    let refused = |world: &mut World, cachelet, to| {
        let begun = world.core.migration_counts().begun;
        let refusal = world
            .core
            .begin_migration(world.now, CacheletId(cachelet), to, 0)
            .unwrap_err();
        assert_eq!(world.core.migration_counts().begun, begun);
        refusal.to_string()
    };
    let to = worker(1, 0);
    assert_eq!(refused(&mut world, 64, to), "there is no cachelet 64");
    assert_eq!(
        refused(&mut world, 4, worker(1, 2)),
        "there is no worker 1/2"
    );
    assert_eq!(
        refused(&mut world, 4, worker(5, 0)),
        "there is no worker 5/0"
    );
    assert_eq!(
        refused(&mut world, 4, worker(0, 1)),
        "cachelet 4 is of that server already"
    );
    world.begin(to);
    assert_eq!(refused(&mut world, 4, to), "cachelet 4 is moving already");
    let drain = DrainRequest {
        server: "s2".into(),
        drain: true,
        cachelets_per_second: 1,
    };
    world.core.handle_drain(world.now, &drain).unwrap();
    assert_eq!(
        refused(&mut world, 0, to),
        "server \"s2\" is drained: it gets no cachelets"
    );
    world.pass(100);
    let released = world.owners().iter().position(Option::is_none);
    let released = released.expect("the drain has begun") as u16;
    assert!(refused(&mut world, released, worker(0, 0)).contains("nobody owns"));
    for _ in 0..8 {
        world.pass(500);
        world.send_current(&mut members[..1]);
    }
    assert_eq!(refused(&mut world, 0, to), "server \"s2\" is down");
    let nameless = MigrationRequest {
        cachelet: CACHELET,
        to: WorkerName {
            server: "s9".into(),
            worker: 0,
        },
        bytes_per_second: 0,
    };
    let refusal = world
        .core
        .handle_migration(world.now, &nameless)
        .unwrap_err();
    assert_eq!(refusal.to_string(), "there is no worker s9/0");
}

#[test]
fn evening_out_shares_does_not_take_back_what_moved_because_of_its_load() {
    let (mut world, mut members) = two_servers();
    for cachelet in [0, 4, 8, 12] {
        let cachelet = CacheletId(cachelet);
        let migration = world
            .core
            .begin_migration(world.now, cachelet, worker(1, 0), 0)
            .unwrap();
        let moved = MigrationReport {
            cachelet,
            ..report(migration.began, MigrationState::Moved)
        };
        members[0].migrations = vec![moved];
        world.send(&members[0]).unwrap();
    }
    members[0].migrations.clear();
    let uneven = world.shares();
    assert_eq!((uneven[&worker(0, 0)], uneven[&worker(1, 0)]), (12, 20));
    // Restarts make the coordinator look at shares.
    members[0].boot = BootId(5);
    members[0].epoch = Epoch(0);
    world.send_new_life(&members[0]).unwrap();
    for _ in 0..4 {
        members.iter().for_each(|member| drop(world.send(member)));
        world.send_current(&mut members);
    }
    assert_eq!(world.shares(), uneven);
    world.restart();
    // A newcomer takes from everybody what is over an even share, and the difference stays.
    let mut all = [members[0].clone(), members[1].clone(), server(3, 2)];
    for _ in 0..6 {
        all.iter().for_each(|member| drop(world.send(member)));
        world.send_current(&mut all);
    }
    let shares = world.shares();
    let of = |server, index| shares[&worker(server, index)];
    assert!(
        (10..=11).contains(&of(2, 0)) && (10..=11).contains(&of(2, 1)),
        "{shares:?}"
    );
    assert_eq!(of(1, 0) - of(0, 0), 8, "{shares:?}");
    // Back home, it counts as before.
    let moved_back = world
        .owners()
        .iter()
        .position(|owner| *owner == Some(worker(1, 0)));
    assert!(moved_back.is_some());
    let accounts = world.core.saved_state().accounts;
    assert_eq!(accounts.len(), 4);
    let (&cachelet, &account) = accounts.first_key_value().unwrap();
    let migration = world
        .core
        .begin_migration(world.now, cachelet, account, 0)
        .unwrap();
    let moved = MigrationReport {
        cachelet,
        ..report(migration.began, MigrationState::Moved)
    };
    world
        .send(&Heartbeat {
            migrations: vec![moved],
            ..all[1].clone()
        })
        .unwrap();
    assert_eq!(world.core.saved_state().accounts.len(), 3);
}

/// What servers tell of items and bytes has no bound.
#[test]
fn counts_of_servers_may_be_as_large_as_they_like() {
    let (mut world, members) = two_servers();
    for _ in 0..2 {
        let began = world.begin(worker(1, 0)).began;
        let aborted = MigrationReport {
            items: u64::MAX,
            bytes: u64::MAX,
            ..report(began, MigrationState::Aborted)
        };
        let heartbeat = Heartbeat {
            epoch: world.core.epoch(),
            migrations: vec![aborted],
            ..members[0].clone()
        };
        world.send(&heartbeat).unwrap();
        assert_eq!(world.core.migrations_under_way(), 0);
    }
    let counts = world.core.migration_counts();
    assert_eq!((counts.items, counts.bytes), (u64::MAX, u64::MAX));
}

/// A target in a new life is asked whether a cachelet has passed to it, and dies for good before it answers.
#[test]
fn nobody_waits_for_the_answer_of_a_target_that_is_dead() {
    let mut world = World::new(3);
    let leased = |n| Heartbeat {
        leased: true,
        ..server(n, 2)
    };
    let mut members: Vec<_> = (1..=3).map(leased).collect();
    world.send_current(&mut members);
    world.send_current(&mut members);
    assert_eq!(world.owner(), Some(worker(2, 0)));
    let began = world.begin(worker(0, 0)).began;
    world.send_current(&mut members);
    let again = Heartbeat {
        boot: BootId(79),
        epoch: Epoch(0),
        ..members[0].clone()
    };
    world.send_new_life(&again).unwrap();
    for _ in 0..60 {
        world.pass(100);
        world.send_current(&mut members[1..2]);
        world.say(&members[2], began, MigrationState::Moved);
    }
    assert_eq!(world.core.migrations_under_way(), 0);
    let owner = world.owner().expect("somebody who is there");
    assert_ne!(owner.server, ServerId(0));
    assert!(world.since_of_it() > began, "its contents are lost");
}
