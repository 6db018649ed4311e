//! A search through all that can happen to one key of a ring's slice that moves from server to server: plan after plan, each in its stages,
//! with plans that are withdrawn and servers that are lost.
//!
//! What leads is the crate's own [`Change`](evenkeel_schemes::change::Change), with two proxies that follow it or three; commands go as
//! the crate says, under names of generations, and applications see uniques under their masks. What the servers do and what is right are
//! those of `tests/warm/`, which goes through one change alone and shows what each of its rules is for. Here are the faults that take
//! several changes.
//!
//! A compare-and-swap that is executed must have met the value that it was read with.

#[path = "../common/commands.rs"]
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod plans;
#[path = "../common/register.rs"]
mod register;
#[path = "../common/servers.rs"]
mod servers;
#[path = "../common/world.rs"]
mod world;

use commands::Fault;
use common::Wrong;
use evenkeel_schemes::stage::Stage;
use evenkeel_types::random::SplitMix64;
use plans::{Scope, World, weight};
use register::Kind;
use world::World as _;

/// With every unique that was read.
const CAS: Kind = Kind::Cas(0);

const ALL: &[Kind] = &[
    Kind::Get,
    Kind::Gets,
    Kind::Set,
    Kind::Delete,
    Kind::Add,
    Kind::Incr,
    CAS,
];

const SCOPE: Scope = Scope {
    commands: commands::Scope {
        ops: 2,
        kinds: ALL,
        in_order: false,
        evictions: 0,
        restarts: 0,
        given_up: 0,
        strict: false,
        stages: (Stage::Former, Stage::Done),
        fault: None,
    },
    proxies: 2,
    route: &[0, 1, 0],
    withdrawals: 0,
    losses: 0,
};

/// Gets and sets, three of them.
const READS_AND_WRITES: commands::Scope = commands::Scope {
    ops: 3,
    kinds: &[Kind::Get, Kind::Set],
    ..SCOPE.commands
};

/// A late placeholder may keep an `add` from storing where nothing is: see [`late_placeholders_refuse_adds`].
const BUT_ADD: &[Kind] = &[
    Kind::Get,
    Kind::Gets,
    Kind::Set,
    Kind::Delete,
    Kind::Incr,
    CAS,
];

fn search(scope: &Scope) -> Result<usize, Wrong<String>> {
    world::search(World::new(scope), scope)
}

fn is_right(scope: &Scope) {
    common::is_right(search(scope));
}

/// Walks through whatever happens. How many, or a way to what is wrong.
fn walk(scope: &Scope, seed: u64, walks: usize) -> Result<usize, Wrong<String>> {
    let mut random = SplitMix64::new(seed);
    for _ in 0..walks {
        let mut world = World::new(scope);
        let mut way = Vec::new();
        loop {
            let events = world.events(scope);
            let all = events.iter().map(weight).sum();
            if all == 0 {
                break;
            }
            let mut at = random.below(all);
            let chosen = events.iter().find(|event| {
                let is_it = at < weight(event);
                at = at.saturating_sub(weight(event));
                is_it
            });
            let event = *chosen.expect("one of them");
            way.push(event);
            if !world.happen(event, scope) {
                return Err(world::tell(World::new(scope), &way, scope));
            }
        }
    }
    Ok(walks)
}

#[test]
fn there_and_back_is_right() {
    is_right(&SCOPE);
    is_right(&Scope {
        commands: commands::Scope {
            evictions: 1,
            ..READS_AND_WRITES
        },
        ..SCOPE
    });
}

#[test]
fn another_generation_at_the_same_server_is_right() {
    is_right(&Scope {
        route: &[0, 0],
        ..SCOPE
    });
}

#[test]
fn requests_that_are_given_up_are_right() {
    is_right(&Scope {
        commands: commands::Scope {
            given_up: 1,
            ..READS_AND_WRITES
        },
        ..SCOPE
    });
}

#[test]
fn a_plan_that_is_withdrawn_and_tried_again_is_right() {
    is_right(&Scope {
        commands: READS_AND_WRITES,
        route: &[0, 1],
        withdrawals: 1,
        ..SCOPE
    });
}

#[test]
fn uniques_that_were_read_before_a_move_fit_nothing_else() {
    is_right(&Scope {
        commands: commands::Scope {
            kinds: &[Kind::Gets, Kind::Set, CAS],
            ..READS_AND_WRITES
        },
        route: &[0, 1, 2],
        ..SCOPE
    });
}

/// Without compare-and-swaps: at a server that counts anew a unique may fit another item, no matter who asks.
#[test]
fn a_restart_of_any_server_is_right() {
    is_right(&Scope {
        commands: commands::Scope {
            restarts: 1,
            ops: 2,
            ..READS_AND_WRITES
        },
        ..SCOPE
    });
}

/// At any time, in whatever stage a plan is: nobody need have acknowledged it before nobody is asked.
#[test]
fn a_lost_server_is_right() {
    is_right(&Scope {
        commands: READS_AND_WRITES,
        route: &[0, 1],
        losses: 1,
        ..SCOPE
    });
}

/// All kinds of commands and what may befall them, by three proxies, at random.
#[test]
fn long_stories_are_right() {
    let scope = Scope {
        commands: commands::Scope {
            ops: 5,
            kinds: BUT_ADD,
            evictions: 2,
            given_up: 2,
            ..SCOPE.commands
        },
        proxies: 3,
        route: &[0, 1, 0, 2],
        withdrawals: 1,
        losses: 0,
    };
    let seed = evenkeel_testkit::seed(1);
    for losses in [0, 1] {
        let walked = walk(&Scope { losses, ..scope }, seed, 2_000);
        common::is_right(walked);
    }
}

/// More of each.
#[test]
#[ignore = "half a minute"]
fn larger_scopes_are_right() {
    let commands = SCOPE.commands;
    for scope in [
        Scope {
            commands: READS_AND_WRITES,
            route: &[0, 1, 0, 1],
            ..SCOPE
        },
        Scope {
            commands: READS_AND_WRITES,
            losses: 1,
            ..SCOPE
        },
        Scope {
            commands: commands::Scope {
                evictions: 1,
                ..commands
            },
            ..SCOPE
        },
        Scope {
            commands: commands::Scope {
                given_up: 1,
                kinds: BUT_ADD,
                ..commands
            },
            ..SCOPE
        },
        Scope {
            commands: commands::Scope {
                evictions: 1,
                ..commands
            },
            route: &[0, 0],
            ..SCOPE
        },
        Scope {
            commands: commands::Scope {
                restarts: 1,
                kinds: &[Kind::Get, Kind::Set, Kind::Incr],
                ..commands
            },
            ..SCOPE
        },
        Scope {
            commands: commands::Scope {
                given_up: 1,
                ..READS_AND_WRITES
            },
            route: &[0, 1],
            withdrawals: 1,
            ..SCOPE
        },
        Scope {
            commands: commands::Scope {
                given_up: 1,
                kinds: BUT_ADD,
                ..commands
            },
            losses: 1,
            ..SCOPE
        },
    ] {
        is_right(&scope);
    }
}

/// Each fault, by the shortest scope that shows it.
#[test]
fn every_broken_rule_is_found() {
    use Kind::{Get, Gets, Set};
    let reads = &[Get, Set][..];
    for (fault, kinds, route, losses) in [
        (Fault::GenerationIsReused, reads, &[0, 1, 0, 1][..], 0),
        (Fault::NamesHaveNoGeneration, reads, &[0, 1, 0], 0),
        (Fault::MaskIsLeftOut, &[Gets, Set, CAS], &[0, 1], 0),
        (Fault::CommandsAreNotAwaited, reads, &[0, 1, 0], 0),
        (Fault::NobodyIsLeftOut, reads, &[0, 1], 1),
    ] {
        let scope = Scope {
            commands: commands::Scope {
                kinds,
                fault: Some(fault),
                ..READS_AND_WRITES
            },
            route,
            losses,
            ..SCOPE
        };
        common::is_found(&format!("{fault:?}"), || search(&scope));
    }
}

/// `quiesced` alone parts what one plan's commands do from what the next one's do, and nobody has been at a place whose plan was withdrawn.
#[test]
fn some_rules_could_be_left_out() {
    for (fault, route, withdrawals) in [
        (Fault::PlanBeginsUnawaited, &[0, 1, 0][..], 0),
        (Fault::PlanBeginsUnawaited, &[0, 1], 1),
        (Fault::GenerationIsReused, &[0, 1], 1),
    ] {
        is_right(&Scope {
            commands: commands::Scope {
                fault: Some(fault),
                ops: 2,
                ..READS_AND_WRITES
            },
            route,
            withdrawals,
            ..SCOPE
        });
    }
}

/// What is known not to be right: a placeholder that was given up arrives when the pool is `done`, where nobody takes it over. An `add` is
/// refused though nothing is there, until the placeholder ends.
#[test]
fn late_placeholders_refuse_adds() {
    let scope = Scope {
        commands: commands::Scope {
            kinds: &[Kind::Get, Kind::Delete, Kind::Add],
            in_order: true,
            given_up: 1,
            ..READS_AND_WRITES
        },
        route: &[0, 1],
        ..SCOPE
    };
    common::is_found("a late placeholder", || search(&scope));
}
