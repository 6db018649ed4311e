//! All that can happen to small worlds.
//!
//! Right is: only names that are saved are started, and one for a change; who owns a slice is never stopped; changes are a cooldown apart;
//! none leaves of too few; and once nothing goes wrong any more all comes to rest, with nothing running that the ring does not have.
//! Each rule has a fault that breaks it, and the search finds every one of them.

use crate::common;
use crate::world::{Fault, Scope, World};

const SCOPE: Scope = Scope {
    ticks: 8,
    kills: 0,
    seconds: 0,
    failures: 0,
    late: 0,
    repeats: 0,
    deaths: 0,
    fault: None,
};

/// How many states there are, or the shortest way to what is wrong.
fn search(scope: &Scope) -> Result<usize, common::Wrong<String>> {
    common::search(World::new(scope), |world| {
        let next = world.successors(scope).into_iter();
        let judged = next.map(|(next, what)| {
            let wrong = next.wrong(scope);
            (next, what, wrong)
        });
        judged.collect()
    })
}

fn is_right(scope: &Scope) {
    common::is_right(search(scope));
}

#[test]
fn leaders_that_are_killed_anywhere_are_right() {
    is_right(&Scope { kills: 2, ..SCOPE });
}

#[test]
fn two_leaders_at_once_are_right() {
    is_right(&Scope {
        ticks: 6,
        seconds: 1,
        ..SCOPE
    });
}

#[test]
fn actuators_that_fail_are_right() {
    is_right(&Scope {
        failures: 2,
        repeats: 1,
        ..SCOPE
    });
}

#[test]
fn acts_that_are_done_late_under_another_leader_are_right() {
    is_right(&Scope {
        ticks: 4,
        late: 1,
        kills: 1,
        seconds: 1,
        ..SCOPE
    });
}

#[test]
fn servers_that_end_by_themselves_are_right() {
    is_right(&Scope {
        ticks: 5,
        deaths: 2,
        ..SCOPE
    });
}

#[test]
fn every_broken_rule_is_found() {
    for (fault, scope) in [
        (Fault::ActsBeforeItSaves, SCOPE),
        (Fault::NameIsNotSaved, Scope { kills: 1, ..SCOPE }),
        (Fault::StopsBeforeItIsDrained, SCOPE),
        (Fault::CooldownIsForgotten, SCOPE),
        (Fault::CountsWhatTheActuatorKnows, SCOPE),
    ] {
        let scope = Scope {
            fault: Some(fault),
            ..scope
        };
        common::is_found(&format!("{fault:?}"), || search(&scope));
    }
}
