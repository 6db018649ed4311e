//! Plans, on clusters whose servers execute what they are told.

use super::*;
use crate::plans::{MoveState, PlanMode, PlanRefusal, PlanSettings, PlanState, Verdict};
use evenkeel_balance::cachelet_load::{CacheletLoad, WorkerLoad};
use evenkeel_control::loads::LoadNews;

/// Bytes of each cachelet.
const BYTES: u64 = 1_000;

/// Rounds that a migration takes.
const ROUNDS: usize = 3;

/// Servers with two workers each, every cachelet with a load of its own, wherever it is.
pub(super) struct Cluster {
    pub(super) world: World,
    pub(super) members: Vec<Heartbeat>,
    pub(super) loads: Vec<f64>,
    /// Load at which a worker is busy all the time.
    capacity: f64,
    /// Migrations seen by their sources, and for how many rounds.
    seen: BTreeMap<(CacheletId, Epoch), usize>,
    /// What every source says in the end.
    pub(super) outcome: MigrationState,
    /// Most migrations at one time, in all and at one server.
    pub(super) most: (usize, usize),
}

impl Cluster {
    /// Of servers that all have about the same load.
    pub(super) fn new(servers: u16) -> Cluster {
        let mut world = World::new(usize::from(servers));
        let able = |n| Heartbeat {
            asks_for_moves: true,
            ..server(n, 2)
        };
        let mut members: Vec<_> = (1..=servers).map(able).collect();
        members.iter().for_each(|member| drop(world.send(member)));
        world.send_current(&mut members);
        let cachelets = world.owners().len();
        let loads: Vec<f64> = (0..cachelets)
            .map(|c| 60.0 + (c / 8 * 37 % 80) as f64)
            .collect();
        let mean = loads.iter().sum::<f64>() / f64::from(2 * servers);
        Cluster {
            world,
            members,
            loads,
            capacity: 2.5 * mean,
            seen: BTreeMap::new(),
            outcome: MigrationState::Moved,
            most: (0, 0),
        }
    }

    /// With some of what a worker has being this many times as hot.
    pub(super) fn heat(&mut self, at: WorkerRef, cachelets: usize, factor: f64) {
        let owners = self.world.owners();
        let of_it = owners
            .iter()
            .enumerate()
            .filter(|(_, owner)| **owner == Some(at));
        for (cachelet, _) in of_it.take(cachelets) {
            self.loads[cachelet] *= factor;
        }
    }

    pub(super) fn set(&mut self, change: impl FnOnce(&mut PlanSettings)) {
        let mut settings = self.world.core.plan_settings();
        change(&mut settings);
        self.world.core.set_plan_settings(settings).unwrap();
    }

    /// Half a second: every server tells of its loads and migrations by the newest map.
    pub(super) fn round(&mut self) {
        let map = self.world.core.map().unwrap().clone();
        let migrations = &map.document().migrations;
        let at = |server| {
            let is_end = |m: &&evenkeel_types::map::Migration| {
                m.to.server == server || map.owner(m.cachelet).is_some_and(|o| o.server == server)
            };
            migrations.iter().filter(is_end).count()
        };
        let most = map.servers().iter().map(|s| at(s.id)).max().unwrap_or(0);
        self.most = (self.most.0.max(migrations.len()), self.most.1.max(most));
        for i in 0..self.members.len() {
            let me = ServerId(i as u16);
            if map.server(me).is_none() {
                // It has not registered yet.
                self.world.send(&self.members[i]).unwrap();
                continue;
            }
            let mut reports = Vec::new();
            for migration in migrations {
                let is_source = map
                    .owner(migration.cachelet)
                    .is_some_and(|o| o.server == me);
                if !is_source {
                    continue;
                }
                let rounds = self
                    .seen
                    .entry((migration.cachelet, migration.began))
                    .or_default();
                *rounds += 1;
                reports.push(MigrationReport {
                    cachelet: migration.cachelet,
                    began: migration.began,
                    state: match *rounds {
                        rounds if rounds < ROUNDS => MigrationState::Copying,
                        _ if migration.cancelled => MigrationState::Aborted,
                        _ => self.outcome,
                    },
                    items: 1,
                    bytes: BYTES,
                });
            }
            let heartbeat = Heartbeat {
                epoch: map.epoch(),
                migrations: reports,
                load: LoadReport {
                    requests_per_second: Vec::new(),
                    measured: Some(self.news(&map, me)),
                    served: None,
                },
                ..self.members[i].clone()
            };
            self.world.send(&heartbeat).unwrap();
        }
        self.world.pass(500);
    }

    fn news(&self, map: &ClusterMap, me: ServerId) -> LoadNews {
        let workers = [0, 1].map(|worker| {
            let cachelets = map.cachelets_of(WorkerRef { server: me, worker });
            let cachelets = cachelets.map(|cachelet| CacheletLoad {
                cachelet,
                load: self.loads[usize::from(cachelet.0)],
                memory_bytes: BYTES,
                ..CacheletLoad::default()
            });
            let cachelets: Vec<_> = cachelets.collect();
            let load = cachelets.iter().map(|c| c.load).sum();
            WorkerLoad {
                worker,
                load,
                busy: f64::min(load / self.capacity, 1.0),
                cachelets,
                ..WorkerLoad::default()
            }
        });
        LoadNews::of(workers.to_vec(), 1 << 30)
    }

    pub(super) fn rounds(&mut self, rounds: usize) {
        (0..rounds).for_each(|_| self.round());
    }

    /// Rounds until that is so; at most two minutes.
    pub(super) fn until(&mut self, what: &str, is_so: impl Fn(&CoordinatorCore) -> bool) {
        for _ in 0..240 {
            if is_so(&self.world.core) {
                return;
            }
            self.round();
        }
        panic!("never {what}: {:?}", self.world.core.plans(5));
    }

    fn state(&self, id: u64) -> PlanState {
        self.world.core.plan(id).unwrap().state
    }

    /// Load of the most loaded worker over the mean.
    fn max_over_mean(&self) -> f64 {
        let mut loads = BTreeMap::<_, f64>::new();
        for (cachelet, owner) in self.world.owners().into_iter().enumerate() {
            *loads.entry(owner).or_default() += self.loads[cachelet];
        }
        let mean = loads.values().sum::<f64>() / loads.len() as f64;
        loads.values().copied().fold(0.0, f64::max) / mean
    }
}

/// Four servers, of which one has a worker with more than twice the mean load. One plan may move a tenth of the data.
fn hot() -> Cluster {
    let mut cluster = Cluster::new(4);
    cluster.heat(worker(0, 0), 8, 4.0);
    cluster.set(|settings| settings.bytes_ratio_max = 0.1);
    assert!(cluster.max_over_mean() > 1.9, "{}", cluster.max_over_mean());
    cluster
}

#[test]
fn in_observe_mode_what_lasts_is_planned_and_shown_and_nothing_else() {
    let mut cluster = hot();
    cluster.set(|settings| settings.mode = PlanMode::Observe);
    let owners = cluster.world.owners();
    cluster.rounds(7);
    let view = cluster.world.core.plans(10);
    assert_eq!((view.verdict, view.plans.len()), (Verdict::Waiting, 0));
    assert!((1..4).contains(&view.lasting_intervals), "{view:?}");
    cluster.rounds(4);
    let view = cluster.world.core.plans(10);
    assert_eq!(
        (view.plans.len(), view.plans[0].state),
        (1, PlanState::Proposed)
    );
    let plan = cluster.world.core.plan(1).unwrap();
    assert!(plan.moves.len() > 2 && plan.predicted.load_max < plan.before.load_max);
    assert!(
        plan.moves
            .iter()
            .all(|m| m.from.server == "s1" && m.to.server != "s1")
    );
    assert_eq!(plan.bytes, plan.moves.len() as u64 * BYTES);
    assert_eq!(plan.moves_in(MoveState::Waiting), plan.moves.len());
    cluster.rounds(100);
    assert_eq!(cluster.world.owners(), owners);
    assert_eq!(cluster.world.core.plans(10).plans.len(), 1, "one is open");
}

#[test]
fn a_short_imbalance_and_an_even_cluster_lead_to_nothing() {
    let mut cluster = hot();
    let hot = cluster.loads.clone();
    for _ in 0..5 {
        cluster.loads = hot.clone();
        cluster.rounds(5);
        cluster.loads.fill(100.0);
        cluster.rounds(3);
    }
    assert_eq!(cluster.world.core.plans(10).plans, []);
    assert_eq!(cluster.world.core.plans(10).verdict, Verdict::Even);
}

#[test]
fn in_automatic_mode_a_cluster_evens_itself_out_a_few_cachelets_at_a_time() {
    let mut cluster = hot();
    cluster.set(|settings| settings.mode = PlanMode::Automatic);
    cluster.until("done", |core| {
        core.plan(1).is_ok_and(|p| p.state == PlanState::Done)
    });
    cluster.rounds(100);
    assert!(
        cluster.max_over_mean() <= 1.15,
        "{}",
        cluster.max_over_mean()
    );
    let view = cluster.world.core.plans(10);
    let first = view.plans.last().unwrap();
    assert_eq!((first.id, first.state), (1, PlanState::Done));
    assert_eq!(first.moved, first.moves);
    let measured = first.measured.expect("it was measured");
    assert!(measured.load_max < first.before.load_max);
    assert!(
        measured.load_max < 1.05 * first.predicted.load_max,
        "{first:?}"
    );
    assert!(
        cluster.most.0 <= 16 && cluster.most.1 == 2,
        "{:?}",
        cluster.most
    );
    assert_eq!(cluster.world.core.cachelets_in_transit(), 0);
    let since = cluster.world.since();
    assert!(
        since.iter().all(|&since| since == Epoch(1)),
        "nothing was lost"
    );
}

#[test]
fn a_plan_copies_no_more_of_the_data_than_it_may() {
    let mut cluster = Cluster::new(8);
    cluster.heat(worker(0, 0), 12, 4.0);
    cluster.set(|settings| {
        settings.mode = PlanMode::Automatic;
        // A hundredth of the data is more than is copied in a second.
        settings.bytes_per_second = BYTES;
    });
    let all = cluster.loads.len() as u64 * BYTES;
    cluster.until("planned", |core| !core.plans(1).plans.is_empty());
    cluster.rounds(100);
    let plans = cluster.world.core.plans(100).plans;
    assert!(plans.len() > 2, "{plans:?}");
    for plan in &plans {
        assert!(plan.bytes * 100 <= all, "{plan:?}");
    }
    // The pause between them.
    let mut times: Vec<_> = plans.iter().map(|p| p.proposed_unix_s).collect();
    times.reverse();
    assert!(times.is_sorted());
}

#[test]
fn what_is_copied_in_a_second_moves_at_once_however_large_a_part_it_is() {
    // Three servers of two workers have so few cachelets that one is more than a hundredth of the data.
    let mut cluster = Cluster::new(3);
    cluster.heat(worker(0, 0), 12, 4.0);
    cluster.heat(worker(0, 1), 12, 4.0);
    cluster.set(|settings| settings.mode = PlanMode::Automatic);
    cluster.until("planned", |core| core.plan(1).is_ok());
    let plan = cluster.world.core.plan(1).unwrap();
    assert!(plan.moves.len() > 2, "{plan:?}");
    assert!(plan.bytes <= PlanSettings::default().bytes_free());
    let overloaded = plan.predicted.load_max / plan.predicted.load_mean;
    assert!(overloaded <= 1.15, "{plan:?}");
}

#[test]
fn between_two_plans_there_is_a_pause() {
    let mut cluster = Cluster::new(8);
    cluster.heat(worker(0, 0), 12, 4.0);
    cluster.set(|settings| {
        settings.mode = PlanMode::Automatic;
        settings.pause_ms = 20_000;
    });
    cluster.until("done", |core| {
        core.plan(1).is_ok_and(|p| p.state == PlanState::Done)
    });
    cluster.rounds(38);
    assert_eq!(cluster.world.core.plans(10).plans.len(), 1);
    cluster.until("a second plan", |core| core.plan(2).is_ok());
}

#[test]
fn in_approve_mode_a_plan_waits_for_its_operator() {
    let mut cluster = hot();
    cluster.set(|settings| settings.mode = PlanMode::Approve);
    cluster.until("proposed", |core| core.plan(1).is_ok());
    cluster.rounds(20);
    assert_eq!(cluster.state(1), PlanState::Proposed);
    let now = cluster.world.now;
    let core = &mut cluster.world.core;
    assert_eq!(
        core.approve_plan(now, 7),
        Err(PlanRefusal::Unknown { id: 7 })
    );
    assert_eq!(core.approve_plan(now, 1), Ok(()));
    let running = PlanRefusal::WrongState {
        id: 1,
        state: PlanState::Running,
    };
    assert_eq!(core.approve_plan(now, 1), Err(running));
    assert!(core.migrations_under_way() > 0);
    cluster.until("done", |core| {
        core.plan(1).unwrap().state == PlanState::Done
    });
    let done = PlanRefusal::WrongState {
        id: 1,
        state: PlanState::Done,
    };
    assert_eq!(cluster.world.core.cancel_plan(now, 1), Err(done));
}

#[test]
fn a_plan_is_checked_again_before_anything_moves() {
    let mut cluster = hot();
    cluster.set(|settings| settings.mode = PlanMode::Approve);
    cluster.until("proposed", |core| core.plan(1).is_ok());
    // By the time of its approval another server is hot.
    cluster.loads.fill(100.0);
    cluster.heat(worker(3, 1), 8, 4.0);
    cluster.rounds(2);
    let now = cluster.world.now;
    cluster.world.core.approve_plan(now, 1).unwrap();
    let plan = cluster.world.core.plan(1).unwrap();
    assert_eq!(
        (plan.state, plan.moves_in(MoveState::Skipped)),
        (PlanState::Failed, plan.moves.len())
    );
    assert_eq!(cluster.world.core.migration_counts().begun, 0);
}

#[test]
fn a_plan_that_is_cancelled_before_its_approval_moves_nothing() {
    let mut cluster = hot();
    cluster.set(|settings| settings.mode = PlanMode::Approve);
    cluster.until("proposed", |core| core.plan(1).is_ok());
    let now = cluster.world.now;
    cluster.world.core.cancel_plan(now, 1).unwrap();
    let plan = cluster.world.core.plan(1).unwrap();
    assert_eq!(
        (plan.state, plan.moves_in(MoveState::Skipped)),
        (PlanState::Cancelled, plan.moves.len())
    );
    let over = PlanRefusal::WrongState {
        id: 1,
        state: PlanState::Cancelled,
    };
    assert_eq!(cluster.world.core.approve_plan(now, 1), Err(over));
    assert_eq!(cluster.world.core.migration_counts().begun, 0);
}

#[test]
fn a_cancelled_plan_stops_where_it_is() {
    let mut cluster = hot();
    cluster.set(|settings| {
        settings.mode = PlanMode::Automatic;
        settings.migrations_max = 1;
    });
    cluster.until("some moved", |core| {
        core.plan(1)
            .is_ok_and(|plan| plan.moves_in(MoveState::Moved) == 1)
    });
    let now = cluster.world.now;
    cluster.world.core.cancel_plan(now, 1).unwrap();
    assert_eq!(cluster.state(1), PlanState::Cancelling);
    assert_eq!(cluster.world.core.cancel_plan(now, 1), Ok(()));
    cluster.set(|settings| settings.mode = PlanMode::Observe);
    cluster.until("cancelled", |core| {
        core.plan(1).unwrap().state == PlanState::Cancelled
    });
    let plan = cluster.world.core.plan(1).unwrap();
    assert_eq!(
        (
            plan.moves_in(MoveState::Moved),
            plan.moves_in(MoveState::Aborted)
        ),
        (1, 1)
    );
    assert_eq!(plan.moves_in(MoveState::Skipped), plan.moves.len() - 2);
    assert_eq!(cluster.most.0, 1);
    assert_eq!(cluster.world.core.migrations_under_way(), 0);
}

#[test]
fn a_plan_of_which_nothing_succeeds_has_failed() {
    let mut cluster = hot();
    cluster.set(|settings| settings.mode = PlanMode::Automatic);
    cluster.outcome = MigrationState::Aborted;
    cluster.until("failed", |core| {
        core.plan(1).is_ok_and(|p| p.state == PlanState::Failed)
    });
    let counts = cluster.world.core.plan_counts();
    assert!(counts.moves[&MoveState::Aborted] > 0 && counts.moves[&MoveState::Moved] == 0);
}

#[test]
fn a_plan_goes_on_under_another_coordinator() {
    let mut cluster = hot();
    cluster.set(|settings| settings.mode = PlanMode::Automatic);
    cluster.until("some moved", |core| {
        core.plan(1)
            .is_ok_and(|plan| plan.moves_in(MoveState::Moved) > 0)
    });
    let settings = cluster.world.core.plan_settings();
    let plan = cluster.world.core.plan(1).unwrap().clone();
    assert_eq!(plan.state, PlanState::Running);
    let json = serde_json::to_string(&cluster.world.core.saved_state()).unwrap();
    assert_eq!(
        serde_json::from_str::<SavedState>(&json).unwrap(),
        cluster.world.core.saved_state()
    );
    cluster.world.restart();
    assert_eq!(cluster.world.core.plan_settings(), settings);
    assert_eq!(cluster.world.core.plan(1), Ok(&plan));
    cluster.until("done", |core| {
        core.plan(1).unwrap().state == PlanState::Done
    });
    cluster.until("another plan or none", |core| {
        core.plans(1).verdict == Verdict::Even
    });
}

#[test]
fn what_has_just_begun_anew_moves_with_a_later_map() {
    let mut cluster = hot();
    cluster.set(|settings| {
        settings.mode = PlanMode::Automatic;
        settings.migrations_max = 1;
    });
    cluster.until("moving", |core| core.migrations_under_way() == 1);
    // The source restarts, so that its migration is over and there is room for the next one from there.
    cluster.members[0].boot = BootId(99);
    let restarted = Heartbeat {
        epoch: Epoch(0),
        ..cluster.members[0].clone()
    };
    cluster.world.send_new_life(&restarted).unwrap();
    let document = cluster.world.core.map().unwrap().document().clone();
    assert_eq!(document.migrations, []);
    let plan = cluster.world.core.plan(1).unwrap();
    assert_eq!(plan.moves_in(MoveState::SourceLost), 1);
    assert!(plan.moves_in(MoveState::Waiting) > 0);
    cluster.round();
    let document = cluster.world.core.map().unwrap().document().clone();
    let migration = document.migrations[0];
    assert!(document.stay[usize::from(migration.cachelet.0)] < migration.began);
}

#[test]
fn what_is_proposed_grows_old() {
    let mut cluster = hot();
    cluster.set(|settings| settings.mode = PlanMode::Observe);
    cluster.until("proposed", |core| core.plan(1).is_ok());
    cluster.rounds(limits::PROPOSAL_AGE_MAX.as_secs() as usize * 2);
    assert_eq!(cluster.state(1), PlanState::Expired);
    cluster.until("another", |core| core.plan(2).is_ok());
}

#[test]
fn a_server_that_lies_gets_no_more_than_a_plan_may_move() {
    let mut cluster = Cluster::new(8);
    cluster.set(|settings| {
        settings.mode = PlanMode::Automatic;
        settings.bytes_per_second = BYTES;
    });
    // One server claims a thousand times its load.
    cluster.heat(worker(5, 0), 16, 1_000.0);
    let before = cluster.world.owners();
    cluster.rounds(60);
    let after = cluster.world.owners();
    let moved = before.iter().zip(&after).filter(|(a, b)| a != b).count();
    let plans = cluster.world.core.plans(100).plans.len();
    assert!(moved <= plans * before.len() / 100, "{moved} by {plans}");
    // Others give something in exchange at most.
    let from_others = (before.iter().zip(&after))
        .filter(|(a, b)| a != b && a.is_some_and(|a| a.server != ServerId(5)))
        .count();
    assert!(2 * from_others <= moved, "{from_others} of {moved}");
}

#[test]
fn without_loads_there_are_no_plans() {
    let mut cluster = hot();
    cluster.rounds(6);
    for _ in 0..40 {
        cluster.world.send_current(&mut cluster.members);
        cluster.world.pass(500);
    }
    let view = cluster.world.core.plans(10);
    assert_eq!(
        (view.verdict, view.lasting_intervals, view.plans),
        (Verdict::Unknown, 0, vec![])
    );
}

#[test]
fn plans_wait_until_a_server_cannot_help_itself() {
    let mut cluster = hot();
    cluster.set(|settings| settings.mode = PlanMode::Automatic);
    cluster
        .members
        .iter_mut()
        .for_each(|m| m.asks_for_moves = false);
    cluster.rounds(60);
    let view = cluster.world.core.plans(10);
    assert_eq!((view.verdict, view.plans.len()), (Verdict::Waiting, 0));
    cluster.members[3].asks_for_moves = true;
    cluster.until("planned", |core| core.plan(1).is_ok());
}

#[test]
fn why_nothing_moves_is_told_at_any_time() {
    let mut cluster = hot();
    let explained = |cluster: &Cluster| {
        let now = cluster.world.now.monotonic;
        cluster.world.core.explain_plans(now)
    };
    let told = explained(&cluster);
    assert_eq!((told.verdict, told.kept.len()), (Verdict::Unknown, 0));
    assert!(told.waits[0].contains("fewer than two servers"), "{told:?}");
    cluster.rounds(4);
    let told = explained(&cluster);
    assert_eq!(told.verdict, Verdict::Waiting);
    assert!(
        told.waits[0].contains("overloaded for 4 looks in a row"),
        "{told:?}"
    );
    cluster.set(|settings| settings.mode = PlanMode::Observe);
    cluster.until("proposed", |core| core.plan(1).is_ok());
    let told = explained(&cluster);
    assert_eq!(
        told.waits,
        ["plan 1 is proposed and stays so in mode observe"]
    );
    cluster.set(|settings| settings.mode = PlanMode::Automatic);
    cluster.until("done", |core| {
        core.plan(1).is_ok_and(|p| p.state == PlanState::Done)
    });
    cluster.rounds(1);
    let told = explained(&cluster);
    let is_told =
        told.verdict == Verdict::Even || told.waits[0].contains("the pause behind the last plan");
    assert!(is_told, "{told:?}");
    // Everything rests, and one worker has too much again.
    cluster.rounds(20);
    cluster.heat(worker(1, 0), 1, 60.0);
    cluster.rounds(8);
    let told = explained(&cluster);
    let kept = &told.kept[0];
    assert_eq!(
        (&*kept.worker.server, kept.worker.worker),
        ("s2", 0),
        "{told:?}"
    );
    assert!(kept.load > kept.permissible && !kept.holds.is_empty());
}

#[test]
fn settings_out_of_range_are_refused() {
    let mut cluster = Cluster::new(2);
    let good = PlanSettings::default();
    assert_eq!(good.validate(), Ok(()));
    type Break = fn(&mut PlanSettings);
    let breaks: [(Break, &str); 7] = [
        (|s| s.intervals = 0, "intervals"),
        (|s| s.pause_ms = u64::MAX, "pause_ms"),
        (|s| s.bytes_ratio_max = f64::NAN, "bytes_ratio_max"),
        (|s| s.bytes_ratio_max = -0.1, "bytes_ratio_max"),
        (|s| s.migrations_max = 0, "migrations_max"),
        (|s| s.migrations_max = 1_025, "migrations_max"),
        (
            |s| s.migrations_per_server_max = 0,
            "migrations_per_server_max",
        ),
    ];
    for (break_it, what) in breaks {
        let mut bad = good;
        break_it(&mut bad);
        let core = &mut cluster.world.core;
        assert_eq!(
            core.set_plan_settings(bad),
            Err(PlanRefusal::BadSettings { what })
        );
        assert_eq!(core.plan_settings(), good);
        let mut state = core.saved_state();
        state.plans.settings = bad;
        assert!(
            state
                .validate("test")
                .unwrap_err()
                .to_string()
                .contains("setting")
        );
    }
}
