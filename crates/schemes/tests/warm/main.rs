//! A search through all that can happen to one key of a pool that is warmed from a former one: a few commands of any kind, step by step
//! in every order, with evictions, restarts, and requests that are given up and may be executed later. The commands are those of the
//! crate; the two servers, and what is right, are modelled here.
//!
//! Right is a register that may lose its value at any time, and that may be missed: an answer is right if some order of all commands that
//! keeps real time explains it. In *strict* scopes nothing is lost or missed, unless an item was evicted or another command was under way
//! beside.
//!
//! The whole change goes by in its stages. The next one begins when nothing that counts of the one before the present is under way; commands
//! begin in the present stage or in the one before it, as they would at several proxies.
//!
//! Each rule has a fault that breaks it; the search finds every one of them.

#[path = "../common/commands.rs"]
mod commands;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/register.rs"]
mod register;
#[path = "../common/servers.rs"]
mod servers;
mod stages;
#[path = "../common/world.rs"]
mod world;

use commands::{Fault, Scope};
use evenkeel_schemes::stage::Stage;
use register::Kind;
use stages::World;

const ALL: &[Kind] = &[
    Kind::Get,
    Kind::ReadHere,
    Kind::Set,
    Kind::Delete,
    Kind::Add,
    Kind::Incr,
    Kind::Touch,
];

const SCOPE: Scope = Scope {
    ops: 3,
    kinds: ALL,
    in_order: false,
    evictions: 1,
    restarts: 0,
    given_up: 0,
    strict: false,
    stages: (Stage::Warming, Stage::Warming),
    fault: None,
};

/// The change up to where the pool is warmed, and from there on.
const BEGIN: Scope = Scope {
    stages: (Stage::Former, Stage::Warming),
    ..SCOPE
};

/// The same, with a store that is given up and may arrive at the former place at any time.
const LATE: Scope = Scope {
    ops: 4,
    evictions: 0,
    given_up: 1,
    ..BEGIN
};

/// The same, with commands that meet a late store: the first is given up.
const IN_ORDER: Scope = Scope {
    kinds: &[Kind::Set, Kind::Get, Kind::Get, Kind::Get],
    in_order: true,
    evictions: 1,
    ..LATE
};

const END: Scope = Scope {
    stages: (Stage::Warming, Stage::Done),
    ..SCOPE
};

fn is_right(scope: &Scope) {
    common::is_right(world::search(World::new(scope), scope));
}

#[test]
fn commands_of_any_kind_with_an_eviction_are_right() {
    is_right(&Scope { ops: 2, ..SCOPE });
    is_right(&Scope {
        kinds: &[Kind::Get, Kind::Set],
        ..SCOPE
    });
}

#[test]
fn reads_and_writes_with_requests_that_are_given_up_are_right() {
    is_right(&Scope {
        kinds: &[Kind::Get, Kind::Set, Kind::Incr],
        given_up: 1,
        ops: 2,
        ..SCOPE
    });
}

#[test]
fn a_restart_that_counts_uniques_anew_is_right() {
    is_right(&Scope {
        kinds: &[Kind::Get, Kind::ReadHere, Kind::Set, Kind::Incr],
        restarts: 1,
        evictions: 0,
        ops: 2,
        ..SCOPE
    });
}

#[test]
fn the_whole_change_is_right() {
    is_right(&Scope { ops: 2, ..BEGIN });
    is_right(&Scope { ops: 2, ..END });
    is_right(&Scope {
        ops: 2,
        given_up: 1,
        kinds: &[Kind::Get, Kind::Set, Kind::Delete],
        ..BEGIN
    });
}

/// A store that its proxy has given up arrives at the former place at any time.
#[test]
fn late_stores_at_the_former_place_are_right() {
    is_right(&Scope {
        kinds: &[Kind::Get, Kind::Set],
        ..LATE
    });
    is_right(&IN_ORDER);
}

#[test]
fn nothing_is_lost_that_was_not_evicted() {
    is_right(&Scope {
        evictions: 0,
        strict: true,
        ops: 2,
        ..SCOPE
    });
}

/// Each fault, by the shortest scope that shows it.
#[test]
fn every_broken_rule_is_found() {
    use Kind::{Add, Delete, Get, Incr, Set};
    let strict = Scope {
        strict: true,
        evictions: 0,
        ..SCOPE
    };
    for (fault, kinds, scope) in [
        (Fault::FillIgnoresUnique, &[Get, Set][..], SCOPE),
        (Fault::PlaceholderCovers, &[Get, Set], strict),
        (Fault::RemovalIgnoresUnique, &[Get, Set], strict),
        (Fault::MarkIsShown, &[Get], SCOPE),
        (Fault::FormerIsNotCleared, &[Get, Set], SCOPE),
        (Fault::FormerIsClearedAfterwards, &[Get, Delete], SCOPE),
        (Fault::ChangesDoNotClear, &[Get, Incr], SCOPE),
        (Fault::ChangesAreNotBound, &[Get, Delete, Incr], SCOPE),
        (
            Fault::AddTakesPlaceholdersForItems,
            &[Get, Delete, Add],
            strict,
        ),
        (
            Fault::GoesOnAfterRestart,
            &[Get, Set],
            Scope {
                restarts: 1,
                evictions: 0,
                ..SCOPE
            },
        ),
        (Fault::FetchesBeforePlacing, &[Get, Set], SCOPE),
        (Fault::QuiescedIsLeftOut, &[Get, Set], BEGIN),
        (Fault::TwoStagesApart, &[Get, Set], BEGIN),
        (Fault::CommandsAreNotAwaited, &[Get, Set], BEGIN),
        (Fault::FormerReadsAreNotAwaited, IN_ORDER.kinds, IN_ORDER),
        (Fault::ClosingIsLeftOut, &[Get, Delete], END),
        (Fault::ClosingDoesNotClear, &[Get, Delete], END),
        (Fault::ReadsGoHereWhileQuiesced, &[Get, Set], BEGIN),
        (Fault::ReadsGoOnWhileQuiesced, IN_ORDER.kinds, IN_ORDER),
        (Fault::ShownBeforeStored, IN_ORDER.kinds, IN_ORDER),
        (Fault::PlaceholdersAreReadThrough, IN_ORDER.kinds, IN_ORDER),
    ] {
        let scope = Scope {
            fault: Some(fault),
            kinds,
            ..scope
        };
        common::is_found(&format!("{fault:?}"), || {
            world::search(World::new(&scope), &scope)
        });
    }
}
