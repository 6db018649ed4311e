//! The states of a server's balancer and every move between them (MBal, figure 4).
//!
//! ```text
//!           Noticed             Persisted
//!   EVEN ──────────▶ WATCHING ─────────────▶ REPLICATING ───┐  ManyKeys, WriteHeavy,
//!    ▲ ▲    Passed      │ │                                 │  NotEnough
//!    │ └────────────────┘ │ ManyKeys, WriteHeavy            ▼
//!    │                    └───────────────────────────▶   LOCAL ◀────────┐
//!    │ Evened                                               │            │ ServerRelieved
//!    │ (from each phase)     ServerOverloaded, CannotHelp,  ▼            │
//!    └───────────────────────NotEnough──────────────▶  COORDINATED ──────┘
//! ```
//!
//! A phase that is switched off is passed over, so that what would lead to it leads to the next one.

use core::fmt;

use serde::{Deserialize, Serialize};

/// What a server's balancer is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nobody is overloaded.
    Even,
    /// Somebody is, but not for long yet.
    Watching,
    /// Phase 1: replicas of hot keys have to do it.
    Replicating,
    /// Phase 2: cachelets pass between the workers of the server.
    Local,
    /// Phase 3: the coordinator is asked to move cachelets to other servers.
    Coordinated,
}

/// Every state, from the least to the most that is done.
pub const STATES: [State; 5] = [
    State::Even,
    State::Watching,
    State::Replicating,
    State::Local,
    State::Coordinated,
];

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Even => "even",
            State::Watching => "watching",
            State::Replicating => "replicating",
            State::Local => "local",
            State::Coordinated => "coordinated",
        })
    }
}

/// Why the state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A worker is overloaded.
    Noticed,
    /// Nobody is overloaded any more, before anything was done.
    Passed,
    /// The overload has lasted.
    Persisted,
    /// More keys are replicated than phase 1 is good for.
    ManyKeys,
    /// Replicas do not help against writes.
    WriteHeavy,
    /// A phase has had its time, and somebody is still overloaded.
    NotEnough,
    /// Phase 2 has no room within the server.
    CannotHelp,
    /// Most workers of the server are overloaded.
    ServerOverloaded,
    /// The server as a whole has room again.
    ServerRelieved,
    /// Nobody has been overloaded for some time.
    Evened,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Event::Noticed => "noticed",
            Event::Passed => "passed",
            Event::Persisted => "persisted",
            Event::ManyKeys => "many_keys",
            Event::WriteHeavy => "write_heavy",
            Event::NotEnough => "not_enough",
            Event::CannotHelp => "cannot_help",
            Event::ServerOverloaded => "server_overloaded",
            Event::ServerRelieved => "server_relieved",
            Event::Evened => "evened",
        })
    }
}

/// Every allowed move: what happened, from where, to where.
pub const MOVES: [(Event, State, State); 24] = {
    use Event::*;
    use State::*;
    [
        (Noticed, Even, Watching),
        (Passed, Watching, Even),
        (Persisted, Watching, Replicating),
        (Persisted, Watching, Local),
        (Persisted, Watching, Coordinated),
        (ManyKeys, Watching, Local),
        (ManyKeys, Watching, Coordinated),
        (ManyKeys, Replicating, Local),
        (ManyKeys, Replicating, Coordinated),
        (WriteHeavy, Watching, Local),
        (WriteHeavy, Watching, Coordinated),
        (WriteHeavy, Replicating, Local),
        (WriteHeavy, Replicating, Coordinated),
        (NotEnough, Replicating, Local),
        (NotEnough, Replicating, Coordinated),
        (NotEnough, Local, Coordinated),
        (CannotHelp, Local, Coordinated),
        (ServerOverloaded, Watching, Coordinated),
        (ServerOverloaded, Replicating, Coordinated),
        (ServerOverloaded, Local, Coordinated),
        (ServerRelieved, Coordinated, Local),
        (Evened, Replicating, Even),
        (Evened, Local, Even),
        (Evened, Coordinated, Even),
    ]
};

/// The moves of a balancer, counted by [`MOVES`].
pub type Transitions = evenkeel_types::Transitions<Event, State, { MOVES.len() }>;

/// None was made yet.
pub(crate) fn no_transitions() -> Transitions {
    Transitions::new("a balancer", &MOVES)
}
