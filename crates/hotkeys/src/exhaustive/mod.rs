//! Every interleaving of small stories: the same code as in [`model`](super::model), checked to the end.
//!
//! The random model finds what happens often in large worlds. This one leaves out nothing that can happen
//! in a small one: [`stateright`] walks through all states of a cluster of two or three servers, two proxies
//! and one key that a budget of events allows ([`scopes`]). At each state every message may arrive, every
//! client may act, connections break, servers start again, maps change, and time passes in steps in which
//! a lease ends at a proxy before it does at its home.
//!
//! Servers run [`HotKeys`](super::server::HotKeys) and proxies
//! [`ClientLeases`](super::client::ClientLeases) as they are shipped; around them is what the server and
//! the proxy role have to do, as in the random model (`world/`). What those structures are at a moment is
//! told apart by all that decides what they do later (`server/digest.rs`, `client/canonical.rs`), so that
//! states which merely look different are visited once.
//!
//! What is left out: more than one key, popularity (every read is reason enough to promote), expiry
//! (evictions are as good), renewals, `flush_all`, and atomic writes (`sim/src/history/linear.rs`).

mod scopes;
mod world;

use stateright::{Checker, HasDiscoveries, Model};

use super::model::Fault;
use super::state::{Event, MOVES};
use scopes::{LARGE_SCOPES, LARGE_STEPS_MAX, MUTANTS, SCOPES, STEPS_MAX, Scope};
use world::{Action, Cluster};

/// Walks through a scope. The shortest way to a broken promise, if there is one.
fn walk(scope: &'static Scope, fault: Option<Fault>, steps_max: u64) -> (Outcome, Option<String>) {
    let checker = Cluster::new(scope, fault)
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .target_state_count(steps_max as usize)
        .spawn_bfs()
        .join();
    let cluster = checker.model();
    let story = checker.discoveries().into_values().next().map(|path| {
        let actions = path.into_actions();
        tell(cluster, &actions)
    });
    let outcome = Outcome {
        steps: cluster.steps(),
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        is_complete: checker.is_done() && checker.state_count() < steps_max as usize,
        missing: missing(cluster),
        events: cluster.moves().map(|(event, ..)| event).collect(),
    };
    (outcome, story)
}

/// What a walk was.
struct Outcome {
    steps: u64,
    states: usize,
    depth: usize,
    is_complete: bool,
    /// What was to happen and did not.
    missing: Vec<String>,
    /// Everything that happened to the key at some home.
    events: Vec<Event>,
}

fn missing(cluster: &Cluster) -> Vec<String> {
    let scope = cluster.scope;
    let reached = scope
        .reaches
        .iter()
        .filter(|&&reached| cluster.count(reached) == 0);
    let is_made = |event: &Event| cluster.moves().any(|(made, ..)| made == *event);
    let moves = scope.moves.iter().filter(|&event| !is_made(event));
    let reached = reached.map(|reached| format!("{reached:?}"));
    reached.chain(moves.map(Event::to_string)).collect()
}

/// A story in readable lines.
fn tell(cluster: &Cluster, actions: &[Action]) -> String {
    let mut state = cluster.init_states().remove(0);
    let mut lines = Vec::new();
    for (number, &action) in (1..).zip(actions) {
        lines.push(format!("{number:>3}. {action}"));
        let (next, told) = cluster
            .step(&state, action, Some(Vec::new()))
            .expect("what was done once can be done again");
        lines.extend(told.iter().map(|line| format!("       {line}")));
        state = next;
    }
    lines.join("\n")
}

/// The one scope that is asked for, if not all are.
fn only_scope() -> Option<String> {
    let name = std::env::var("EVENKEEL_SCOPE").ok();
    let name = name.filter(|name| !name.is_empty())?;
    let mut scopes = SCOPES.iter().chain(LARGE_SCOPES);
    assert!(scopes.any(|scope| scope.name == name), "no scope {name}");
    Some(name)
}

/// Walks through all of them. Everything that happened to the key.
fn check(scopes: &'static [Scope], steps_max: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let only = only_scope();
    let mut faults = Vec::new();
    for scope in scopes
        .iter()
        .filter(|s| only.as_deref().is_none_or(|only| only == s.name))
    {
        let (outcome, story) = walk(scope, None, steps_max);
        println!(
            "{:<20} {:>8} states {:>8} steps {:>3} deep",
            scope.name, outcome.states, outcome.steps, outcome.depth
        );
        events.extend(outcome.events);
        match story {
            Some(story) => faults.push(format!("{}:\n{story}", scope.name)),
            None if !outcome.is_complete => faults.push(format!(
                "{}: more than {steps_max} steps: the scope is too large",
                scope.name
            )),
            None if !outcome.missing.is_empty() => {
                faults.push(format!("{}: never: {:?}", scope.name, outcome.missing));
            }
            None => {}
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    events
}

/// What never happens to a key here: other keys, popularity, `flush_all` and atomic writes are left out.
const ELSEWHERE: [Event; 10] = [
    // A server has one worker here; the simulator has cachelets that move.
    Event::Leaving,
    Event::Left,
    Event::Evicted,
    Event::Faded,
    Event::Flushed,
    Event::Widened,
    Event::Cooled,
    Event::WriteHeavy,
    Event::Prepared,
    Event::LeasesOver,
];

/// Every fault that a scope of these is to catch.
fn catch(scopes: &'static [Scope], steps_max: u64) {
    let mut missed = Vec::new();
    for &(fault, name) in MUTANTS {
        let Some(scope) = scopes.iter().find(|scope| scope.name == name) else {
            continue;
        };
        let (outcome, story) = walk(scope, Some(fault), steps_max);
        match story {
            Some(story) => println!("{fault:?} ({name}, {} steps):\n{story}\n", outcome.steps),
            None => missed.push(format!("{fault:?} in {name}: {} steps", outcome.steps)),
        }
    }
    assert!(missed.is_empty(), "not caught: {}", missed.join(", "));
}

#[test]
fn a_mutant_is_looked_for_in_a_scope_that_there_is() {
    for (fault, name) in MUTANTS {
        let mut scopes = SCOPES.iter().chain(LARGE_SCOPES);
        assert!(scopes.any(|scope| scope.name == *name), "{fault:?}: {name}");
    }
}

#[test]
fn no_interleaving_of_a_small_story_breaks_a_promise() {
    let events = check(SCOPES, STEPS_MAX);
    if only_scope().is_none() {
        for (event, ..) in MOVES {
            let is_made = events.contains(&event);
            assert_ne!(is_made, ELSEWHERE.contains(&event), "{event}");
        }
    }
}

#[test]
fn every_mutant_breaks_a_promise_in_a_named_scope() {
    catch(SCOPES, STEPS_MAX);
}

#[test]
#[ignore = "takes minutes: make model"]
fn no_interleaving_of_a_larger_story_breaks_a_promise() {
    check(LARGE_SCOPES, LARGE_STEPS_MAX);
    catch(LARGE_SCOPES, LARGE_STEPS_MAX);
}
