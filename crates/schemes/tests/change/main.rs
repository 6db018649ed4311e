//! A search through all that can happen to the leader of a change and to those who follow it: calls that arrive late, answers that are lost,
//! leaders that are started anew with what they had saved or with nothing, followers that are killed and started again.
//!
//! Right is: whoever carries out a command does so by a stage that is at most one away from the stage of any other, and a version means one
//! stage. Each rule has a fault that breaks it, and the search finds every one of them.

mod world;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use world::{Fault, Scope, World};

const SCOPE: Scope = Scope {
    commands: 2,
    leader_crashes: 1,
    state_losses: 0,
    kills: 0,
    withdrawals: 0,
    is_late: true,
    fault: None,
};

/// How many states there are, or the shortest way to what is wrong.
fn search(scope: &Scope) -> Result<usize, Vec<String>> {
    let hash = |world: &World| {
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        hasher.finish()
    };
    let first = World::new(scope);
    let mut seen = HashSet::from([hash(&first)]);
    let mut ways: Vec<(usize, String)> = vec![(0, String::new())];
    let mut layer = vec![(first, 0)];
    while !layer.is_empty() {
        let mut following = Vec::new();
        for (world, way) in layer {
            for (next, what) in world.successors(scope) {
                let wrong = next.wrong();
                if !seen.insert(hash(&next)) && wrong.is_none() {
                    continue;
                }
                ways.push((way, what));
                if let Some(wrong) = wrong {
                    let mut steps = vec![wrong];
                    let mut at = ways.len() - 1;
                    while at > 0 {
                        steps.push(ways[at].1.clone());
                        at = ways[at].0;
                    }
                    steps.reverse();
                    return Err(steps);
                }
                following.push((next, ways.len() - 1));
            }
        }
        layer = following;
    }
    Ok(seen.len())
}

fn is_right(scope: &Scope) {
    match search(scope) {
        Ok(states) => println!("{states} states"),
        Err(way) => panic!("wrong:\n  {}", way.join("\n  ")),
    }
}

#[test]
fn a_leader_that_is_started_anew_is_right() {
    is_right(&SCOPE);
}

#[test]
fn a_leader_that_has_lost_its_state_is_right() {
    is_right(&Scope {
        leader_crashes: 0,
        state_losses: 1,
        is_late: false,
        ..SCOPE
    });
}

#[test]
fn followers_that_are_started_anew_and_withdrawals_are_right() {
    is_right(&Scope {
        leader_crashes: 0,
        kills: 1,
        withdrawals: 1,
        is_late: false,
        ..SCOPE
    });
}

#[test]
fn every_broken_rule_is_found() {
    let lost = Scope {
        leader_crashes: 0,
        state_losses: 1,
        is_late: false,
        ..SCOPE
    };
    for (fault, scope) in [
        (Fault::AcknowledgedWithCommandsUnderWay, SCOPE),
        (Fault::NobodyIsAwaited, SCOPE),
        (
            Fault::ToldBeforeSaved,
            Scope {
                withdrawals: 1,
                ..SCOPE
            },
        ),
        (Fault::FollowersAreNotSaved, SCOPE),
        (Fault::GoesOnAfterLoss, lost),
    ] {
        let scope = Scope {
            fault: Some(fault),
            ..scope
        };
        match search(&scope) {
            Ok(states) => panic!("{fault:?} is not found among {states} states"),
            Err(way) => println!("{fault:?}: {} steps\n  {}", way.len(), way.join("\n  ")),
        }
    }
}
