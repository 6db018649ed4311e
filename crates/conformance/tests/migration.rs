//! Cachelets that pass between server processes with their contents: nobody misses anything, and whatever is killed
//! on the way, nobody sees what is older than what was stored last.

use evenkeel_conformance::migrations::{self, Ordered, count_all};
use evenkeel_conformance::users::{USERS, assert_unnoticed, is_broken, key_name, while_used};
use evenkeel_coordinator_core::MigrationEnd;
use evenkeel_testkit::{Cluster, ClusterOptions, poll_until};
use evenkeel_types::CacheletId;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);

/// Cachelets that pass in the first test.
const MOVED_MIN: u64 = 15;

/// Migrations that are ordered for that at most: a busy machine lets some be given up, because the target takes too long.
const ROUNDS_MAX: usize = 60;

/// How often a fault is injected that comes too late for its step.
const TRIES: usize = 20;

#[test]
fn cachelets_pass_between_servers_under_load_and_nobody_misses_anything() {
    let cluster = Cluster::start(ClusterOptions::nobody_dies());
    let address = cluster.proxies[0].address();
    let coordinator = cluster.coordinator.address();
    let tally = while_used(address, Duration::ZERO, |users| {
        for round in 0..ROUNDS_MAX {
            if count_all(&cluster, "migrations_passed") >= MOVED_MIN {
                break;
            }
            let key = key_name(round % USERS, round * 7);
            // Some slow, so that much is written meanwhile.
            let rate = [0, 0, 400_000][round % 3];
            let Some(Ordered { cachelet, .. }) = migrations::order(coordinator, &key, rate) else {
                continue;
            };
            poll_until(DEADLINE, "a migration to be over", || {
                let under_way = migrations::view(coordinator)?.migrations;
                let is_over = under_way
                    .iter()
                    .all(|migration| migration.cachelet != cachelet);
                (is_broken(users) || is_over).then_some(())
            });
        }
    });
    let ended = migrations::view(coordinator).expect("the migrations").ended;
    let aborted = ended
        .iter()
        .filter(|ended| ended.end == MigrationEnd::Aborted)
        .count();
    let (passed, us) = (
        count_all(&cluster, "migrations_passed"),
        count_all(&cluster, "migration_pass_us"),
    );
    println!(
        "{passed} cachelets of {} items passed, {} µs each without a server; {} requests",
        count_all(&cluster, "migration_items_sent") / passed.max(1),
        us / passed.max(1),
        tally.requests,
    );
    assert!(passed >= MOVED_MIN, "{ended:?}");
    assert_eq!(passed as usize + aborted, ended.len(), "{ended:?}");
    assert_unnoticed(&tally, &cluster.servers);
}

/// How far a migration has come when it is hit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// It was ordered.
    Ordered,
    /// Items are sent.
    Copying,
    /// The source has decided.
    Passed,
    /// The map names the target.
    Flipped,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Source,
    Target,
    Coordinator,
}

/// Cachelets that have passed from a server to another.
fn passed(cluster: &Cluster, server: usize) -> u64 {
    migrations::count(cluster.servers[server].address(), "migrations_passed")
}

/// Waits until a migration has come to a step, or is over. True if it was seen there.
fn await_step(
    cluster: &Cluster,
    step: Step,
    cachelet: CacheletId,
    source: usize,
    before: u64,
) -> bool {
    poll_until(DEADLINE, "a migration to come to its step", || {
        let view = migrations::view(cluster.coordinator.address())?;
        let under_way = view.migrations.iter().find(|m| m.cachelet == cachelet);
        let is_there = match step {
            Step::Ordered => under_way.is_some(),
            Step::Copying => under_way.is_some_and(|migration| migration.items > 0),
            Step::Passed => passed(cluster, source) > before,
            Step::Flipped => under_way.is_none() && passed(cluster, source) > before,
        };
        (is_there || under_way.is_none()).then_some(is_there)
    })
}

#[test]
fn whatever_is_killed_at_whatever_step_nobody_sees_what_is_old() {
    let state = std::env::temp_dir().join(format!("evenkeel-migration-{}", std::process::id()));
    let state_arg = state.to_str().expect("a plain path").to_owned();
    let mut cluster = Cluster::start(ClusterOptions {
        coordinator_args: vec![
            "--state".into(),
            state_arg,
            "--silent-ms".into(),
            "1000".into(),
        ],
        ..ClusterOptions::default()
    });
    let address = cluster.proxies[0].address();
    let coordinator = cluster.coordinator.address();
    let mut injected = Vec::new();
    let tally = while_used(address, Duration::ZERO, |users| {
        let steps = [Step::Ordered, Step::Copying, Step::Passed, Step::Flipped];
        let victims = [Victim::Source, Victim::Target, Victim::Coordinator];
        for (step, victim) in steps
            .into_iter()
            .flat_map(|step| victims.map(|it| (step, it)))
        {
            for fault in 0..TRIES {
                let key = key_name(0, (injected.len() + fault * 12) * 11);
                // Slow where it is to be met on its way.
                let rate = if step == Step::Copying { 4_000 } else { 0 };
                let before: Vec<u64> = (0..3).map(|server| passed(&cluster, server)).collect();
                let ordered = poll_until(DEADLINE, "a migration to begin", || {
                    migrations::order(coordinator, &key, rate)
                });
                let number = |name: &str| name[1..].parse::<usize>().expect("s1 and so on") - 1;
                let (source, target) = (number(&ordered.from), number(&ordered.to));
                let was_there =
                    await_step(&cluster, step, ordered.cachelet, source, before[source]);
                match victim {
                    Victim::Source => cluster.restart_server(source),
                    Victim::Target => cluster.restart_server(target),
                    Victim::Coordinator => cluster.restart_coordinator(),
                }
                poll_until(DEADLINE, "a migration to be over, and all to be up", || {
                    migrations::release_quarantined(coordinator)?;
                    let is_over = migrations::view(coordinator)?.migrations.is_empty();
                    let map = migrations::map(coordinator)?;
                    let up = map.servers_up_count();
                    let owned = map.document().cachelets.iter().all(Option::is_some);
                    (is_broken(users) || is_over && up == 3 && owned).then_some(())
                });
                if was_there || is_broken(users) {
                    injected.push((step, victim));
                    break;
                }
            }
        }
    });
    let _ = std::fs::remove_file(&state);
    println!(
        "{injected:?}; {} requests, {} misses, {} failures",
        tally.requests, tally.misses, tally.failures
    );
    assert_eq!(injected.len(), 12, "others were over before they were hit");
    cluster.store("afterwards", b"well");
}
