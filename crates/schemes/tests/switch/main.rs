//! A search through all that can happen to one key of a pool that goes from one architecture to another while it serves: from a plain pool, Snoop or
//! a directory to another of them. A few commands of any kind in any rack go step by step in every order, with evictions, restarts, and
//! commands that are given up and whose requests may arrive later. The commands are those of the crate (`locality::holder`, `warm`); the
//! places, and what is right, are modelled here.
//!
//! Right is a register that may lose its value at any time, and that may be missed. In *strict* scopes nothing is lost or missed, unless an
//! item was evicted or another command was under way beside.
//!
//! The stages follow each other as in `tests/warm/`: the next one begins when nothing that counts of the one before the present is under
//! way; commands begin in the present one or in the one before it.
//!
//! Each rule has a fault that breaks it; the search finds every one of them.

#[path = "../common/mod.rs"]
mod common;
mod frame;
mod key;
#[path = "../common/register.rs"]
mod register;
mod servers;
#[path = "../common/world.rs"]
mod world;

use common::{Wrong, is_found, is_right};
use evenkeel_schemes::locality::holder::Kind as Protocol;
use evenkeel_schemes::stage::Stage;
use key::{Fault, Key, Scope};
use register::Kind;
use servers::Layer;

const PLAIN: Layer = Layer::Plain;
const SNOOP: Layer = Layer::Racks(Protocol::Snoop);
const DIRECTORY: Layer = Layer::Racks(Protocol::Directory);

/// From a plain pool to another one is what `tests/warm/` searches.
const PAIRS: [(Layer, Layer); 8] = [
    (PLAIN, SNOOP),
    (PLAIN, DIRECTORY),
    (SNOOP, PLAIN),
    (DIRECTORY, PLAIN),
    (SNOOP, SNOOP),
    (SNOOP, DIRECTORY),
    (DIRECTORY, SNOOP),
    (DIRECTORY, DIRECTORY),
];

const ALL: &[Kind] = &[Kind::Get, Kind::Set, Kind::Delete, Kind::Add, Kind::Incr];
const GET_SET_DELETE: &[Kind] = &[Kind::Get, Kind::Set, Kind::Delete];

const SCOPE: Scope = Scope {
    layers: [PLAIN, SNOOP],
    ops: 2,
    kinds: ALL,
    in_order: false,
    evictions: 1,
    restarts: 0,
    given_up: 0,
    strict: false,
    dangles: false,
    stages: (Stage::Former, Stage::Done),
    fault: None,
};

fn of((from, to): (Layer, Layer), scope: Scope) -> Scope {
    Scope {
        layers: [from, to],
        ..scope
    }
}

fn search(scope: Scope) -> Result<usize, Wrong<String>> {
    world::search(Key::new(&scope), &scope)
}

#[test]
fn every_pair_is_right_from_the_first_stage_to_the_last() {
    for pair in PAIRS {
        for kinds in [&[Kind::Get, Kind::Set], &[Kind::Get, Kind::Delete]] {
            is_right(search(of(pair, Scope { kinds, ..SCOPE })));
        }
    }
}

#[test]
fn every_pair_is_right_with_commands_that_are_given_up_or_servers_that_start_anew() {
    for pair in PAIRS {
        for (given_up, restarts) in [(1, 0), (0, 1)] {
            let scope = Scope {
                kinds: GET_SET_DELETE,
                evictions: 0,
                given_up,
                restarts,
                ..SCOPE
            };
            is_right(search(of(pair, scope)));
        }
    }
}

#[test]
fn nothing_is_lost_while_it_is_brought_that_was_not_evicted() {
    for pair in PAIRS {
        let scope = Scope {
            evictions: 0,
            strict: true,
            stages: (Stage::Warming, Stage::Warming),
            ..SCOPE
        };
        is_right(search(of(pair, scope)));
    }
}

/// Some minutes.
#[test]
#[ignore = "takes minutes: cargo test --release -p evenkeel-schemes --test switch -- --ignored --nocapture"]
fn larger_scopes() {
    let late = Scope {
        kinds: &[Kind::Set, Kind::Get, Kind::Get, Kind::Get],
        in_order: true,
        ops: 4,
        given_up: 1,
        stages: (Stage::Former, Stage::Warming),
        ..SCOPE
    };
    for pair in PAIRS {
        for scope in [
            SCOPE,
            Scope {
                evictions: 0,
                strict: true,
                stages: (Stage::Former, Stage::Warming),
                ..SCOPE
            },
            Scope {
                ops: 3,
                kinds: GET_SET_DELETE,
                evictions: 0,
                stages: (Stage::Warming, Stage::Warming),
                ..SCOPE
            },
            Scope {
                kinds: GET_SET_DELETE,
                given_up: 1,
                restarts: 1,
                ..SCOPE
            },
            late,
        ] {
            is_right(search(of(pair, scope)));
        }
    }
}

/// Each fault, by the pair and the scope that show it.
#[test]
fn every_broken_rule_is_found() {
    let warming = |kinds: &'static [Kind]| Scope {
        stages: (Stage::Warming, Stage::Warming),
        in_order: true,
        ops: kinds.len(),
        kinds,
        ..SCOPE
    };
    let begins = |kinds| Scope {
        stages: (Stage::Former, Stage::Warming),
        ..warming(kinds)
    };
    let ends = |kinds| Scope {
        stages: (Stage::Warming, Stage::Done),
        ..warming(kinds)
    };
    let set_get = &[Kind::Set, Kind::Get][..];
    let get_set_get = &[Kind::Get, Kind::Set, Kind::Get][..];
    let set_get_get = &[Kind::Set, Kind::Get, Kind::Get][..];
    let get_delete_get = &[Kind::Get, Kind::Delete, Kind::Get][..];
    for (pair, fault, scope) in [
        ((PLAIN, SNOOP), Fault::FormerIsNotCleared, warming(set_get)),
        (
            (PLAIN, DIRECTORY),
            Fault::FormerIsNotCleared,
            warming(set_get),
        ),
        ((SNOOP, PLAIN), Fault::OwnPlaceIsCleared, warming(set_get)),
        (
            (DIRECTORY, SNOOP),
            Fault::OwnPlaceIsCleared,
            warming(set_get),
        ),
        ((PLAIN, SNOOP), Fault::FetchesFirst, warming(get_set_get)),
        (
            (PLAIN, DIRECTORY),
            Fault::FetchesFirst,
            warming(get_set_get),
        ),
        (
            (PLAIN, DIRECTORY),
            Fault::FetchesBehindLock,
            Scope {
                dangles: true,
                evictions: 0,
                ..warming(get_delete_get)
            },
        ),
        (
            (PLAIN, SNOOP),
            Fault::FillIgnoresUnique,
            warming(get_set_get),
        ),
        (
            (PLAIN, DIRECTORY),
            Fault::FillIgnoresUnique,
            warming(get_set_get),
        ),
        ((PLAIN, SNOOP), Fault::NamesAreUsedAgain, warming(set_get)),
        (
            (PLAIN, SNOOP),
            Fault::QuiescedIsLeftOut,
            begins(set_get_get),
        ),
        (
            (PLAIN, SNOOP),
            Fault::CommandsAreNotAwaited,
            begins(set_get_get),
        ),
        (
            (SNOOP, DIRECTORY),
            Fault::TwoStagesApart,
            begins(set_get_get),
        ),
        (
            (SNOOP, DIRECTORY),
            Fault::ClosingIsLeftOut,
            ends(get_delete_get),
        ),
        (
            (DIRECTORY, SNOOP),
            Fault::ClosingDoesNotClear,
            ends(get_delete_get),
        ),
    ] {
        let scope = Scope {
            fault: Some(fault),
            ..of(pair, scope)
        };
        is_found(&format!("{fault:?}"), || search(scope));
    }
}
