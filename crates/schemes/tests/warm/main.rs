//! A search through all that can happen to one key of a pool that is warmed from a former one: a few commands of any kind, step by step
//! in every order, with evictions, restarts, and requests that are given up and may be carried out later. The commands are those of the
//! crate; the two servers, and what is right, are modelled here.
//!
//! Right is a register that may lose its value at any time, and that may be missed: an answer is right if some order of all commands that
//! keeps real time explains it. In *strict* scopes nothing is lost or missed, unless an item was evicted or another command was under way
//! beside.
//!
//! The whole change goes by in phases: all at the former place; there, but nobody writes; warmed; warmed, but nothing is brought any more;
//! all here. The next one begins when no command of the one before the present is under way; commands begin in the present phase or in the
//! one before it, as they would at several proxies.
//!
//! Each rule has a fault that breaks it; the search finds every one of them.

mod register;
mod servers;
mod world;

use register::Kind;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use world::{Fault, Phase, Scope, World};

const ALL: &[Kind] = &[
    Kind::Get,
    Kind::Gets,
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
    evictions: 1,
    restarts: 0,
    given_up: 0,
    strict: false,
    phases: (Phase::Warmed, Phase::Warmed),
    fault: None,
};

/// The change up to where the pool is warmed, and from there on.
const BEGIN: Scope = Scope {
    phases: (Phase::Former, Phase::Warmed),
    ..SCOPE
};

const END: Scope = Scope {
    phases: (Phase::Warmed, Phase::Here),
    ..SCOPE
};

/// Searches a scope, the shortest ways first: how many states it has, or the way to what is wrong.
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
            for (next, is_right, what) in world.successors(scope) {
                if !is_right {
                    let mut steps = vec![what];
                    let mut at = way;
                    while at > 0 {
                        steps.push(ways[at].1.clone());
                        at = ways[at].0;
                    }
                    steps.reverse();
                    return Err(steps);
                }
                if seen.insert(hash(&next)) {
                    ways.push((way, what));
                    following.push((next, ways.len() - 1));
                }
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
        kinds: &[Kind::Get, Kind::Gets, Kind::Set, Kind::Incr],
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
        (Fault::WritesAreNotEnded, &[Get, Set], BEGIN),
        (Fault::TwoPhasesApart, &[Get, Set], BEGIN),
        (Fault::CommandsAreNotAwaited, &[Get, Set], BEGIN),
        (Fault::FillsAreNotEnded, &[Get, Delete], END),
        (
            Fault::LastStoresAreNotAwaited,
            &[Get, Set],
            Scope {
                ops: 4,
                evictions: 0,
                given_up: 1,
                ..BEGIN
            },
        ),
    ] {
        let scope = Scope {
            fault: Some(fault),
            kinds,
            ..scope
        };
        let began = std::time::Instant::now();
        match search(&scope) {
            Ok(states) => panic!("{fault:?} is not found among {states} states"),
            Err(way) => println!(
                "{fault:?}: {} steps, {:.1} s\n  {}",
                way.len(),
                began.elapsed().as_secs_f64(),
                way.join("\n  ")
            ),
        }
    }
}
