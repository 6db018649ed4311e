//! A search through all that can happen to the leader of a change and to those who follow it: calls that arrive late, answers that are lost,
//! leaders that are started anew with what they had saved or with nothing, followers that are killed and started again.
//!
//! Right is: anyone who executes a command does so by a stage that is at most one away from the stage of any other, and a version means one
//! stage. Each rule has a fault that breaks it, and the search finds every one of them.

#[path = "../common/mod.rs"]
mod common;
mod world;

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
fn search(scope: &Scope) -> Result<usize, common::Wrong<String>> {
    common::search(World::new(scope), |world| {
        let next = world.successors(scope).into_iter();
        let judged = next.map(|(next, what)| {
            let wrong = next.wrong();
            (next, what, wrong)
        });
        judged.collect()
    })
}

fn is_right(scope: &Scope) {
    common::is_right(search(scope));
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
        common::is_found(&format!("{fault:?}"), || search(&scope));
    }
}
