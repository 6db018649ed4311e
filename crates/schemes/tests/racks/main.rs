//! A search through all that can happen to one key of a pool over racks: a few commands of any kind in any rack, step by step in every order, with
//! evictions, restarts, and commands that are given up and whose requests may arrive later. The commands are those of the crate
//! (`locality::holder`); the places, and what is right, are modelled here.
//!
//! Right is a register that may lose its value at any time, and that may be missed: an answer is right if some order of all commands that keeps real time explains
//! it. In *strict* scopes nothing is lost or missed, unless an item was evicted or another command was under way beside.
//!
//! Each rule has a fault that breaks it; the search finds every one of them.

#[path = "../common/mod.rs"]
mod common;
mod key;
mod races;
#[path = "../common/register.rs"]
mod register;
mod servers;
#[path = "../common/world.rs"]
mod world;

use common::{Wrong, is_found, is_right};
use evenkeel_schemes::locality::holder::Kind as Protocol;
use key::{Fault, Key, Scope};
use register::Kind;

const ALL: &[Kind] = &[Kind::Get, Kind::Set, Kind::Delete, Kind::Add, Kind::Incr];
const GET_SET: &[Kind] = &[Kind::Get, Kind::Set];
const GET_SET_DELETE: &[Kind] = &[Kind::Get, Kind::Set, Kind::Delete];
/// Two writers, and two that see what both have done.
const TWO_SETS: &[Kind] = &[Kind::Set, Kind::Set, Kind::Get, Kind::Get];
const THREE_SETS: &[Kind] = &[Kind::Set, Kind::Set, Kind::Set, Kind::Get];
const GET_DELETE: &[Kind] = &[Kind::Get, Kind::Delete];
const GET_SET_INCR: &[Kind] = &[Kind::Get, Kind::Set, Kind::Incr];
const ADD_SET_GET: &[Kind] = &[Kind::Add, Kind::Set, Kind::Get];
const ADD_GET: &[Kind] = &[Kind::Add, Kind::Get];

const SNOOP: Scope = Scope {
    protocol: Protocol::Snoop,
    racks: 2,
    ops: 3,
    kinds: ALL,
    in_order: false,
    evictions: 0,
    restarts: 0,
    given_up: 0,
    is_there: true,
    strict: false,
    one_try: true,
    copies: false,
    fault: None,
};

const DIRECTORY: Scope = Scope {
    protocol: Protocol::Directory,
    ..SNOOP
};

fn search(scope: Scope) -> Result<usize, Wrong<String>> {
    world::search(Key::new(&scope), &scope)
}

/// Scopes of a second or two each.
fn scopes(of: Scope) -> Vec<Scope> {
    vec![
        Scope {
            evictions: 1,
            kinds: GET_SET_DELETE,
            ..of
        },
        Scope { strict: true, ..of },
        Scope {
            copies: true,
            evictions: 1,
            kinds: GET_SET_DELETE,
            ..of
        },
        Scope {
            ops: 2,
            evictions: 1,
            restarts: 1,
            given_up: 1,
            kinds: GET_SET_DELETE,
            ..of
        },
        Scope {
            racks: 3,
            ops: 2,
            evictions: 1,
            given_up: 1,
            ..of
        },
        Scope {
            racks: 3,
            ops: 2,
            kinds: ADD_GET,
            is_there: false,
            strict: true,
            one_try: false,
            ..of
        },
    ]
}

#[test]
fn snoop_is_a_register_that_may_lose_its_value() {
    scopes(SNOOP).into_iter().map(search).for_each(is_right);
}

#[test]
fn a_directory_is_a_register_that_may_lose_its_value() {
    scopes(DIRECTORY).into_iter().map(search).for_each(is_right);
}

/// The scopes of the search that the rules come from, and more: some minutes.
#[test]
#[ignore = "takes minutes: cargo test --release -p evenkeel-schemes --test racks -- --ignored --nocapture"]
fn larger_scopes() {
    for of in [SNOOP, DIRECTORY] {
        for scope in [
            Scope { evictions: 1, ..of },
            Scope {
                ops: 2,
                evictions: 1,
                restarts: 1,
                given_up: 1,
                one_try: false,
                ..of
            },
            Scope {
                evictions: 1,
                given_up: 1,
                ..of
            },
            Scope {
                evictions: 1,
                restarts: 1,
                kinds: GET_SET_DELETE,
                ..of
            },
            Scope {
                racks: 3,
                kinds: GET_SET_DELETE,
                evictions: 1,
                ..of
            },
            Scope {
                racks: 3,
                ops: 2,
                evictions: 1,
                restarts: 1,
                given_up: 1,
                ..of
            },
            Scope {
                racks: 3,
                kinds: GET_SET,
                evictions: 1,
                given_up: 1,
                ..of
            },
            Scope { strict: true, ..of },
            Scope {
                racks: 3,
                kinds: GET_SET_DELETE,
                strict: true,
                ..of
            },
            Scope {
                kinds: &[Kind::Add, Kind::Get, Kind::Delete],
                is_there: false,
                strict: true,
                ..of
            },
            Scope {
                racks: 3,
                kinds: ADD_GET,
                is_there: false,
                strict: true,
                ..of
            },
            Scope {
                ops: 4,
                kinds: GET_SET_DELETE,
                evictions: 1,
                ..of
            },
        ] {
            is_right(search(scope));
        }
    }
}

#[test]
fn snoop_is_wrong_without_each_of_its_rules() {
    let of = |fault| Scope {
        fault: Some(fault),
        kinds: GET_SET,
        ..SNOOP
    };
    let of_four = |fault| Scope {
        ops: 4,
        kinds: TWO_SETS,
        in_order: true,
        ..of(fault)
    };
    let empty = |fault| Scope {
        is_there: false,
        ..of_four(fault)
    };
    for scope in [
        empty(Fault::LooksAtOwnPlaceLast),
        of(Fault::StoresFirst),
        empty(Fault::StoresIgnoreUnique),
        empty(Fault::NoLock),
        of_four(Fault::ReplacesIgnoreUnique),
        Scope {
            kinds: GET_DELETE,
            evictions: 1,
            ..of(Fault::DeletesHereAlone)
        },
        of(Fault::AwaitsNoNote),
        Scope {
            copies: true,
            strict: true,
            ..of(Fault::CopiesIgnoreUnique)
        },
        Scope {
            kinds: GET_DELETE,
            evictions: 1,
            ..of(Fault::DeletesNothing)
        },
        Scope {
            kinds: GET_SET_INCR,
            ..of(Fault::ChangesIgnoreUnique)
        },
        Scope {
            restarts: 1,
            ..of_four(Fault::GoesOnAfterRestart)
        },
        Scope {
            racks: 3,
            strict: true,
            ..of(Fault::FollowsOneNote)
        },
        Scope {
            kinds: ADD_GET,
            is_there: false,
            strict: true,
            ..of(Fault::AddsAsSets)
        },
        Scope {
            kinds: ADD_SET_GET,
            is_there: false,
            strict: true,
            ..of(Fault::AddsLockAnything)
        },
    ] {
        is_found(&format!("{:?}", scope.fault), || search(scope));
    }
}

#[test]
fn a_directory_is_wrong_without_each_of_its_rules() {
    let of = |fault| Scope {
        fault: Some(fault),
        kinds: GET_SET,
        ..DIRECTORY
    };
    let of_four = |fault| Scope {
        ops: 4,
        kinds: TWO_SETS,
        in_order: true,
        ..of(fault)
    };
    let empty = |fault| Scope {
        is_there: false,
        ..of_four(fault)
    };
    for scope in [
        of(Fault::ClearsNothingNamed),
        Scope {
            evictions: 1,
            ..of(Fault::ClearsNothingWithoutNote)
        },
        Scope {
            kinds: GET_SET_DELETE,
            ..of(Fault::ClearsBehindNote)
        },
        of_four(Fault::ClaimsIgnoreUnique),
        Scope {
            kinds: THREE_SETS,
            ..empty(Fault::NoStub)
        },
        empty(Fault::StoresIgnoreUnique),
        of_four(Fault::StoresFirst),
        empty(Fault::LooksAtOwnPlaceLast),
        of_four(Fault::OwnNoteIsKept),
        of_four(Fault::ReplacesIgnoreUnique),
        Scope {
            kinds: GET_DELETE,
            evictions: 1,
            ..of(Fault::DeletesNothing)
        },
        Scope {
            kinds: ADD_GET,
            is_there: false,
            strict: true,
            ..of(Fault::AddsAsSets)
        },
    ] {
        is_found(&format!("{:?}", scope.fault), || search(scope));
    }
}
