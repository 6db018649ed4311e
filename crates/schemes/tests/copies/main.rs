//! A search through all that can happen to one key with copies: a few commands, step by step in every order, while copies are switched on
//! and off, with evictions, restarts, and requests that are given up and may be executed later. What is done is the crate's; the
//! servers, and what is right, are modelled here.
//!
//! Right is less than a register: a read that begins after a write was acknowledged never shows what is older. A read may miss, and beside a
//! write that is not acknowledged one reader may see the new value at home and another the former one at a copy.
//!
//! A home that starts anew is as one whose item is evicted: nothing here rests on its uniques. A compare-and-swap is a set if it fits, and a
//! touch if it does not.
//!
//! Each rule has a fault that breaks it; the search finds every one of them.

#[path = "../common/mod.rs"]
mod common;
mod key;
mod servers;
#[path = "../common/world.rs"]
mod world;

use common::Wrong;
use key::{Fault, Key, Scope};
use servers::Kind;

/// With one copy.
const ALL: &[Kind] = &[
    Kind::Home,
    Kind::Copy(0),
    Kind::OldCopy(0),
    Kind::Set,
    Kind::Delete,
    Kind::Add,
    Kind::Incr,
    Kind::Touch,
];

const READS_AND_WRITES: &[Kind] = &[Kind::Copy(0), Kind::Set];

/// With two copies.
const AT_TWO: &[Kind] = &[
    Kind::Copy(0),
    Kind::OldCopy(0),
    Kind::Copy(1),
    Kind::OldCopy(1),
    Kind::Set,
    Kind::Delete,
];

/// Copies are on.
const SCOPE: Scope = Scope {
    ops: 3,
    kinds: ALL,
    copies: 1,
    versions: (2, 2),
    evictions: 0,
    restarts: 0,
    given_up: 0,
    fault: None,
};

/// They are switched on, off, and on again.
const SWITCHED: Scope = Scope {
    versions: (0, 6),
    ..SCOPE
};

fn search(scope: &Scope) -> Result<usize, Wrong<String>> {
    world::search(Key::new(scope), scope)
}

fn is_right(scope: &Scope) {
    common::is_right(search(scope));
}

#[test]
fn commands_of_any_kind_with_an_eviction_are_right() {
    is_right(&Scope {
        evictions: 1,
        ..SCOPE
    });
}

#[test]
fn more_reads_and_writes_are_right() {
    is_right(&Scope {
        ops: 4,
        kinds: READS_AND_WRITES,
        ..SCOPE
    });
}

#[test]
fn requests_that_are_given_up_are_right() {
    is_right(&Scope {
        given_up: 1,
        ..SCOPE
    });
}

#[test]
fn restarts_are_right() {
    is_right(&Scope {
        restarts: 1,
        ..SCOPE
    });
}

#[test]
fn two_copies_are_right() {
    is_right(&Scope {
        kinds: AT_TWO,
        copies: 2,
        ..SCOPE
    });
}

#[test]
fn copies_that_are_switched_on_and_off_and_on_again_are_right() {
    is_right(&SWITCHED);
    is_right(&Scope {
        ops: 4,
        kinds: READS_AND_WRITES,
        ..SWITCHED
    });
    is_right(&Scope {
        kinds: READS_AND_WRITES,
        evictions: 1,
        restarts: 1,
        given_up: 1,
        ..SWITCHED
    });
}

/// More of each.
#[test]
#[ignore = "half a minute"]
fn larger_scopes_are_right() {
    for scope in [
        Scope {
            ops: 4,
            evictions: 1,
            ..SCOPE
        },
        Scope {
            evictions: 1,
            restarts: 1,
            given_up: 1,
            ..SCOPE
        },
        Scope {
            ops: 5,
            kinds: READS_AND_WRITES,
            evictions: 1,
            ..SCOPE
        },
        Scope {
            ops: 4,
            kinds: AT_TWO,
            copies: 2,
            ..SCOPE
        },
        Scope {
            evictions: 1,
            ..SWITCHED
        },
        Scope {
            given_up: 1,
            ..SWITCHED
        },
        Scope {
            ops: 4,
            kinds: READS_AND_WRITES,
            restarts: 1,
            given_up: 1,
            ..SWITCHED
        },
        Scope {
            ops: 5,
            kinds: READS_AND_WRITES,
            ..SWITCHED
        },
    ] {
        is_right(&scope);
    }
}

/// Each fault, by the shortest scope that shows it.
#[test]
fn every_broken_rule_is_found() {
    use Kind::{Copy, Delete, OldCopy, Set};
    let evicted = Scope {
        evictions: 1,
        ..SCOPE
    };
    let restarted = Scope {
        ops: 4,
        restarts: 1,
        ..SCOPE
    };
    let given_up = Scope {
        given_up: 1,
        ..SCOPE
    };
    let two = Scope { copies: 2, ..SCOPE };
    let on = Scope {
        versions: (0, 2),
        ..SCOPE
    };
    let off = Scope {
        versions: (2, 4),
        ..SCOPE
    };
    let anew = Scope {
        versions: (2, 6),
        ..SCOPE
    };
    let four = Scope { ops: 4, ..SCOPE };
    let reads = READS_AND_WRITES;
    let old = &[Copy(0), OldCopy(0), Set][..];
    for (fault, kinds, scope) in [
        (Fault::FillIgnoresUnique, reads, SCOPE),
        (Fault::RefreshIgnoresUnique, old, four),
        (Fault::FetchesBeforePlacing, reads, SCOPE),
        (Fault::MarkIsShown, &[Copy(0)], SCOPE),
        (Fault::GoesOnAfterRestart, reads, restarted),
        (Fault::DeletesBeforeItRuns, reads, SCOPE),
        (Fault::AnswersBeforeItHasDeleted, reads, SCOPE),
        (
            Fault::DeletesNothingWhereNothingWas,
            &[Copy(0), Delete],
            evicted,
        ),
        (Fault::DeletesOneOfTwo, reads, two),
        (Fault::UnconfirmedDeletesAreAcknowledged, reads, given_up),
        (Fault::ReadsCopiesWhileClearing, reads, on),
        (Fault::LeftOut(1), reads, on),
        (Fault::LeftOut(3), reads, off),
        (Fault::TokenIsReused, reads, anew),
        (Fault::TwoVersionsApart, reads, on),
        (Fault::CommandsAreNotAwaited, reads, on),
    ] {
        let scope = Scope {
            fault: Some(fault),
            kinds,
            ..scope
        };
        common::is_found(&format!("{fault:?}"), || search(&scope));
    }
}

/// What is stored behind answers under one token is read by nobody under another. Writes by *off* are what has to be waited for.
#[test]
fn fills_need_not_be_awaited() {
    is_right(&Scope {
        ops: 4,
        kinds: &[Kind::Copy(0), Kind::OldCopy(0), Kind::Set],
        fault: Some(Fault::FillsAreNotAwaited),
        ..SWITCHED
    });
}
