use super::*;
use crate::local::{Effort, HostedCachelet, LocalInput, LocalPlan, LocalPlanner, Method};
use evenkeel_testkit::seed;
use evenkeel_types::CacheletId;
use evenkeel_types::random::SplitMix64;

const HOT: [f64; 4] = [200.0, 100.0, 100.0, 100.0];
const EVEN: [f64; 4] = [100.0; 4];
const ALL_HOT: [f64; 4] = [200.0; 4];

/// A server that is told one thing after the other.
struct Story {
    phases: Phases,
    interval: u64,
    replicated_keys: usize,
    write_share: f64,
}

impl Story {
    fn new(config: PhaseConfig) -> Self {
        Story {
            phases: Phases::new(config),
            interval: 0,
            replicated_keys: 1,
            write_share: 0.0,
        }
    }

    fn step(&mut self, loads: &[f64]) -> Duties {
        self.interval += 1;
        self.phases.handle_interval(&Interval {
            at: Instant::from_millis(1000 * self.interval),
            loads,
            // All workers of the cluster can do 200.
            busy: &loads.iter().map(|load| load / 200.0).collect::<Vec<_>>(),
            cluster: Some(ClusterLoad {
                mean: 100.0,
                utilization: Some(Utilization(0.5)),
            }),
            replicated_keys: self.replicated_keys,
            write_share: self.write_share,
        })
    }

    /// States after each of this many intervals with the same loads.
    fn states(&mut self, loads: &[f64], intervals: usize) -> Vec<State> {
        let mut after = |_| {
            self.step(loads);
            self.phases.state()
        };
        (0..intervals).map(&mut after).collect()
    }

    fn events(&self) -> Vec<Event> {
        let event = |entry: &LogEntry| match entry.deed {
            PhaseAction::Changed { event, .. } => Some(event),
            _ => None,
        };
        self.phases.log().entries().filter_map(event).collect()
    }

    fn answer(&mut self, answer: &LocalAnswer) {
        let at = Instant::from_millis(1000 * self.interval + 1);
        self.phases.handle_local_answer(at, answer);
    }
}

#[test]
fn nothing_is_done_before_an_imbalance_has_lasted_four_intervals() {
    let mut story = Story::new(PhaseConfig::default());
    assert_eq!(story.states(&HOT, 3), [State::Watching; 3]);
    assert_eq!(story.states(&EVEN, 1), [State::Even]);
    assert_eq!(story.states(&HOT, 3), [State::Watching; 3]);
    assert_eq!(story.states(&HOT, 1), [State::Replicating]);
    assert_eq!(story.phases.counts().idle, 7);
    use Event::*;
    assert_eq!(story.events(), [Noticed, Passed, Noticed, Persisted]);
}

#[test]
fn replicas_that_help_are_all_that_is_done() {
    let mut story = Story::new(PhaseConfig::default());
    story.states(&HOT, 6);
    assert_eq!(story.states(&EVEN, 3), [State::Replicating; 3]);
    assert_eq!(story.states(&EVEN, 1), [State::Even]);
    assert_eq!(story.phases.counts().shares(), [1.0, 0.0, 0.0]);
}

#[test]
fn what_replicas_cannot_do_is_for_the_workers_and_then_for_the_cluster() {
    let mut story = Story::new(PhaseConfig::default());
    story.states(&HOT, 7);
    assert_eq!(story.phases.state(), State::Replicating);
    let duties = story.step(&HOT);
    assert_eq!(story.phases.state(), State::Local);
    assert_eq!(duties.local, LocalDuty::Balance);
    assert!(duties.replicate && !duties.ask_coordinator);
    assert_eq!(
        (duties.limits.overloaded, duties.limits.permissible),
        (120.0, 104.0)
    );
    story.answer(&LocalAnswer::NoRoom);
    let duties = story.step(&HOT);
    assert_eq!(story.phases.state(), State::Coordinated);
    assert_eq!(duties.local, LocalDuty::GoHome);
    assert!(duties.replicate && duties.ask_coordinator);
    use Event::*;
    assert_eq!(story.events(), [Noticed, Persisted, NotEnough, CannotHelp]);
    story.states(&EVEN, 4);
    assert_eq!(story.phases.state(), State::Even);
}

#[test]
fn plans_that_are_not_enough_call_the_coordinator_too() {
    let mut story = Story::new(PhaseConfig::default());
    story.states(&HOT, 8);
    assert_eq!(story.states(&HOT, 3), [State::Local; 3]);
    assert_eq!(story.states(&HOT, 1), [State::Coordinated]);
    assert_eq!(story.events().last(), Some(&Event::NotEnough));
}

#[test]
fn plans_that_promise_relief_get_time_to_show_it_but_not_for_ever() {
    let promise = LocalAnswer::Plan(LocalPlan {
        cause: LocalCause::Overload,
        method: Method::Greedy,
        moves: Vec::new(),
        before: HOT.to_vec(),
        after: vec![125.0; 4],
        still_overloaded: 0,
    });
    let mut story = Story::new(PhaseConfig::default());
    story.states(&HOT, 8);
    for _ in 0..PLANS_TRUSTED_MAX {
        assert_eq!(story.states(&HOT, 3), [State::Local; 3]);
        story.answer(&promise);
    }
    assert_eq!(story.states(&HOT, 3), [State::Local; 3]);
    story.answer(&promise);
    assert_eq!(story.states(&HOT, 1), [State::Coordinated]);
}

#[test]
fn replicas_get_more_time_while_there_are_more_of_them_but_not_for_ever() {
    let mut story = Story::new(PhaseConfig::default());
    story.states(&HOT, 4);
    for _ in 0..GAINS_TRUSTED_MAX {
        assert_eq!(story.states(&HOT, 3), [State::Replicating; 3]);
        story.replicated_keys += 1;
    }
    assert_eq!(story.states(&HOT, 4), [State::Replicating; 4]);
    story.replicated_keys += 1;
    assert_eq!(story.states(&HOT, 1), [State::Local]);
    assert_eq!(story.events().last(), Some(&Event::NotEnough));
}

#[test]
fn writes_and_many_keys_skip_the_first_phase() {
    for (keys, write_share, expected) in
        [(240, 0.0, Event::ManyKeys), (239, 0.11, Event::WriteHeavy)]
    {
        let mut story = Story::new(PhaseConfig::default());
        (story.replicated_keys, story.write_share) = (keys, write_share);
        assert_eq!(story.states(&HOT, 4)[3], State::Local);
        assert_eq!(story.events(), [Event::Noticed, expected]);
        let mut story = Story::new(PhaseConfig::default());
        story.states(&HOT, 5);
        (story.replicated_keys, story.write_share) = (keys, write_share);
        assert_eq!(story.states(&HOT, 1), [State::Local]);
        assert_eq!(story.events().last(), Some(&expected));
    }
}

/// A worker replicates 64 keys at most, so that a small server never has as many as a large one.
#[test]
fn many_keys_are_those_of_each_worker() {
    for loads in [&HOT[..1], &HOT[..2], &HOT] {
        let workers = loads.len();
        let mut story = Story::new(PhaseConfig::default());
        story.replicated_keys = 63 * workers;
        story.states(loads, 4);
        let skipped = story.events()[1];
        assert!(
            matches!(skipped, Event::ManyKeys | Event::ServerOverloaded),
            "{skipped:?}"
        );
        let mut story = Story::new(PhaseConfig::default());
        story.replicated_keys = 50 * workers;
        assert_eq!(story.states(loads, 4)[3], State::Replicating);
    }
}

#[test]
fn a_server_with_most_workers_overloaded_goes_to_the_coordinator_at_once() {
    let mut story = Story::new(PhaseConfig::default());
    story.write_share = 0.5;
    assert_eq!(story.states(&ALL_HOT, 4)[3], State::Coordinated);
    assert_eq!(story.events(), [Event::Noticed, Event::ServerOverloaded]);
    // Once the server as a whole has room, its workers can do the rest.
    let uneven = [160.0, 80.0, 80.0, 80.0];
    assert_eq!(story.states(&uneven, 3), [State::Coordinated; 3]);
    assert_eq!(story.states(&uneven, 1), [State::Local]);
    // Few hot keys come first, also where each worker has one.
    let mut story = Story::new(PhaseConfig::default());
    assert_eq!(story.states(&ALL_HOT, 7)[3..], [State::Replicating; 4]);
    assert_eq!(story.states(&ALL_HOT, 1), [State::Coordinated]);
}

#[test]
fn a_worker_that_mostly_sleeps_is_not_overloaded() {
    let mut phases = Phases::new(PhaseConfig::default());
    for _ in 0..10 {
        let duties = phases.handle_interval(&Interval {
            at: Instant(0),
            loads: &HOT,
            busy: &[0.2; 4],
            cluster: None,
            replicated_keys: 0,
            write_share: 0.0,
        });
        // 500 requests a second keep a worker busy for 0.8 of its time; 30 % is what 187.5 do.
        let limits = duties.limits;
        assert!((limits.permissible - 187.5).abs() < 1e-6, "{limits:?}");
        assert!((limits.overloaded - 187.5).abs() < 1e-6, "{limits:?}");
    }
    assert_eq!(phases.state(), State::Even);
}

#[test]
fn sampling_is_lowered_past_the_watermark_with_a_gap() {
    let mut story = Story::new(PhaseConfig::default());
    let mut sampled = |keys| {
        story.replicated_keys = keys;
        story.step(&EVEN).sampling_ratio
    };
    assert_eq!(sampled(239), 1.0);
    assert_eq!(sampled(240), 0.25);
    assert_eq!(sampled(192), 0.25);
    assert_eq!(sampled(191), 1.0);
    assert_eq!(sampled(239), 1.0);
}

#[test]
fn phases_that_are_off_are_passed_over() {
    let only = |replication, local, coordinated| {
        let mut story = Story::new(PhaseConfig {
            replication,
            local,
            coordinated,
            ..PhaseConfig::default()
        });
        let states = story.states(&HOT, 30);
        let duties = story.step(&HOT);
        assert_eq!(duties.replicate, replication);
        assert_eq!(duties.local == LocalDuty::Nothing, !local);
        states[29]
    };
    assert_eq!(only(false, false, false), State::Watching);
    assert_eq!(only(true, false, false), State::Replicating);
    assert_eq!(only(false, true, false), State::Local);
    assert_eq!(only(true, true, false), State::Local);
    assert_eq!(only(false, false, true), State::Coordinated);
    assert_eq!(only(true, false, true), State::Coordinated);
}

#[test]
fn the_log_has_measurements_before_and_after() {
    let mut story = Story::new(PhaseConfig::default());
    story.states(&HOT, 4);
    story.states(&EVEN, 4);
    let entries: Vec<_> = story.phases.log().entries().cloned().collect();
    let persisted = &entries[1];
    assert_eq!(persisted.interval, 4);
    assert_eq!(
        (persisted.before.load_max, persisted.before.overloaded),
        (200.0, 1)
    );
    let after = persisted.after.unwrap();
    assert_eq!((after.load_max, after.overloaded), (100.0, 0));
    assert_eq!(entries[2].after, None, "its time is not over");
}

/// The machine and phase 2 together, with loads that follow the plans.
#[test]
fn a_hot_spot_of_many_keys_is_evened_by_phase_2_and_everything_goes_home() {
    let mut story = Story::new(PhaseConfig::default());
    story.replicated_keys = 250;
    let mut planner = LocalPlanner::default();
    let mut cachelets: Vec<HostedCachelet> = (0..64)
        .map(|i| HostedCachelet {
            cachelet: CacheletId(i),
            home: i % 4,
            host: i % 4,
            load: 5.0,
            memory_bytes: 0,
            moved_at: None,
        })
        .collect();
    let mut lent_most = 0;
    for second in 0..60 {
        for c in &mut cachelets {
            let is_hot = c.home == 0 && (10..30).contains(&second);
            c.load = if is_hot { 8.0 } else { 5.0 };
        }
        let mut loads = vec![0.0; 4];
        for c in &cachelets {
            loads[usize::from(c.host)] += c.load;
        }
        let duties = story.step(&loads);
        let input = LocalInput {
            now: Instant::from_millis(1000 * story.interval),
            loads,
            cachelets: cachelets.clone(),
        };
        let answer = match duties.local {
            LocalDuty::Balance => planner.plan(&input, duties.limits, Effort::Fast),
            LocalDuty::GoHome => planner.go_home(&input, duties.limits),
            LocalDuty::Nothing => unreachable!("it is switched on"),
        };
        let answer = answer.unwrap();
        story.answer(&answer);
        if let LocalAnswer::Plan(plan) = answer {
            for m in &plan.moves {
                let c = &mut cachelets[usize::from(m.cachelet.0)];
                (c.host, c.moved_at) = (m.to, Some(input.now));
            }
        }
        if (16..30).contains(&second) {
            assert!(
                input.loads.iter().all(|&load| load <= 120.0),
                "{:?}",
                input.loads
            );
        }
        lent_most = lent_most.max(cachelets.iter().filter(|c| c.is_lent()).count());
    }
    assert!(lent_most > 0);
    assert!(cachelets.iter().all(|c| !c.is_lent()));
    assert_eq!(story.phases.state(), State::Even);
}

#[test]
fn whatever_is_told_only_listed_moves_are_made() {
    let mut random = SplitMix64::new(seed(0x5eed));
    for _ in 0..50 {
        let mut story = Story::new(PhaseConfig {
            replication: random.below(4) > 0,
            local: random.below(4) > 0,
            coordinated: random.below(4) > 0,
            ..PhaseConfig::default()
        });
        let mut loads = EVEN;
        for _ in 0..500 {
            if random.below(6) == 0 {
                loads = [(); 4].map(|()| 60.0 + random.below(100) as f64);
                story.replicated_keys = random.below(400) as usize;
                story.write_share = random.below(2) as f64 * 0.3;
            }
            let duties = story.step(&loads);
            let state = story.phases.state();
            assert!(!duties.ask_coordinator || state == State::Coordinated);
            if duties.local == LocalDuty::Balance && random.below(3) == 0 {
                story.answer(&LocalAnswer::NoRoom);
            }
        }
        let made: u64 = story.phases.transitions().iter().map(|t| t.3).sum();
        assert_eq!(story.phases.log().counts().0, made);
        let counts = story.phases.counts();
        let all = counts.idle + counts.replicating + counts.local + counts.coordinated;
        assert_eq!(all, 500);
    }
}

/// Every move of the table is made by somebody, so that none is listed in vain.
#[test]
fn every_listed_move_can_be_made() {
    let mut random = SplitMix64::new(seed(0x5eed));
    let mut made = [0; MOVES.len()];
    for _ in 0..400 {
        let mut story = Story::new(PhaseConfig {
            replication: random.below(2) > 0,
            local: random.below(2) > 0,
            coordinated: random.below(4) > 0,
            ..PhaseConfig::default()
        });
        for _ in 0..20 {
            let loads = [EVEN, HOT, ALL_HOT, [160.0, 80.0, 80.0, 80.0]][random.below(4) as usize];
            story.replicated_keys = random.below(400) as usize;
            story.write_share = random.below(3) as f64 * 0.06;
            for _ in 0..1 + random.below(8) {
                if story.step(&loads).local == LocalDuty::Balance && random.below(5) == 0 {
                    story.answer(&LocalAnswer::NoRoom);
                }
            }
        }
        for (count, (.., more)) in made.iter_mut().zip(story.phases.transitions().iter()) {
            *count += more;
        }
    }
    let missing: Vec<_> = MOVES.iter().zip(made).filter(|m| m.1 == 0).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
