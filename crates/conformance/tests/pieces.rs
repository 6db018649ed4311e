//! Cachelets that are split and merged, in the map and then by their servers, while users go on and some halves go to
//! other servers: nobody misses anything.

use evenkeel_conformance::migrations::{self, count_all};
use evenkeel_conformance::users::{Tally, USERS, assert_unnoticed, key_name, while_used};
use evenkeel_testkit::{Cluster, ClusterOptions, http, poll_until};
use evenkeel_types::{CacheletId, KeyHash};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);

/// Rounds at least, and at most, until there were enough of each.
const ROUNDS: usize = 24;
const ROUNDS_MAX: usize = 120;

#[test]
fn cachelets_are_split_and_merged_under_load_and_nobody_misses_anything() {
    let cluster = Cluster::start(ClusterOptions {
        threads: 2,
        ..ClusterOptions::nobody_dies()
    });
    let coordinator = cluster.coordinator.address();
    // Whether it is in the map now.
    let ask = |path: String, body: String| {
        let answer = http::post_json(coordinator, &format!("/api/v1/cachelets/{path}"), &body);
        let (status, told) = answer.expect("the coordinator answers");
        println!("{path} {body}: {status} {}", told.trim_end());
        status == 200
    };
    let tally = Tally::default();
    let (mut splits, mut merges, mut moves) = (0, 0, 0);
    while_used(
        cluster.proxies[0].address(),
        Duration::ZERO,
        &tally,
        |is_broken| {
            for round in 0..ROUNDS_MAX {
                let passed = || count_all(&cluster, "migrations_passed");
                if round >= ROUNDS && splits >= 8 && merges >= 8 && passed() >= 5 {
                    break;
                }
                let key = key_name(round % USERS, round * 5);
                let map = migrations::map(coordinator).expect("a map");
                let place = map.locate(KeyHash::of(key.as_bytes()));
                if round % 2 == 0 {
                    splits += u64::from(ask(format!("{}/split", place.cachelet), "null".into()));
                } else if let Some(owner) = place.worker {
                    let others = map.cachelets_of(owner).filter(|id| *id != place.cachelet);
                    let other: Option<CacheletId> = others.last();
                    let merged = other.is_some_and(|other| {
                        let with = format!("{{\"with\":{other}}}");
                        ask(format!("{}/merge", place.cachelet), with)
                    });
                    merges += u64::from(merged);
                }
                // What was split or merged a moment ago goes to another server, once it is whole there.
                if round % 3 == 0 && migrations::order(coordinator, &key, 0).is_some() {
                    moves += 1;
                }
                poll_until(DEADLINE, "servers to do as the map says", || {
                    let is_over = migrations::view(coordinator)?.migrations.is_empty();
                    let done = (
                        count_all(&cluster, "cachelets_split"),
                        count_all(&cluster, "cachelets_merged"),
                    );
                    (is_broken() || is_over && done == (splits, merges)).then_some(())
                });
            }
        },
    );
    println!("{splits} split, {merges} merged, {moves} sent to other servers");
    // A busy machine lets some moves be given up, because the target takes too long.
    let passed = count_all(&cluster, "migrations_passed");
    let aborted = count_all(&cluster, "migrations_aborted");
    assert!(splits >= 8 && merges >= 8 && passed >= 5);
    assert_eq!(passed + aborted, moves);
    assert_eq!(count_all(&cluster, "cachelets_broken"), 0);
    assert_unnoticed(&tally, &cluster.servers);
}
