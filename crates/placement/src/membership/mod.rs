//! Which servers a pool has when somebody is asked for them from time to time: a file, or the name
//! service.
//!
//! Anyone who is asked may be down, may answer nothing, or may be caught in the middle of a change. A
//! pool that believed all of that would lose its servers, and the database behind it would get their
//! load. So the rule is: *the list in force stays until there is a better one*. An answer without
//! servers is no list, nor is one of which no placement can be made.
//!
//! ```text
//!             usable, first                another list          seen often enough: taken
//!   Unknown ───────────────> Current <───────────────> Unsettled ─────────────┐
//!      ▲ │                    ▲   │                      │    ▲               │
//!      └─┘ nothing            │   └──> Kept <── nothing ─┘    └─ once more    │
//!                             └────────┘ the list in force ◀──────────────────┘
//! ```
//!
//! A list is taken at once, but for two cases that make another answer necessary. A *file* may be
//! read while it is being written, so that a change must be read twice in a row. And an answer that
//! leaves *less than half* of the servers is more often a fault of anyone who answers than a change that
//! somebody wants, so that it must come [`SUSPECT_ANSWERS`] times in a row.
//!
//! Rejected: to forget the list when its TTL has passed without an answer. The servers are not gone
//! because nobody can say their names; whether they are is seen by asking them.

mod sources;
#[cfg(test)]
mod tests;

pub use sources::{BadLine, ServiceRecord, of_addresses, of_services, parse_list};

use crate::config::{PlacementConfig, Server};
use core::time::Duration;
use evenkeel_types::{Instant, counters};

/// Pause after an answer that was not taken, at most: recovery, and the second opinion about a
/// suspect list, should not wait for the ordinary time.
pub const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Shortest pause that a TTL leads to: a name service that says 0 must not be asked in a loop.
pub const TTL_MIN: Duration = Duration::from_secs(1);

/// Part of a pause that chance takes off at most, so that many proxies which were started together do
/// not ask together.
pub const JITTER: f64 = 0.1;

/// Times in a row that a list must be the answer which has less than half of the servers in force.
pub const SUSPECT_ANSWERS: u32 = 3;

/// How often to ask, and how soon to believe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Longest time between two questions.
    pub refresh: Duration,
    /// Times in a row that another list must be the answer before it is taken; at least 1.
    pub answers: u32,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// These servers, and for how long the answer is good, where that was said.
    Servers(Vec<Server>, Option<Duration>),
    /// That there are none.
    Empty,
    /// Nothing that could be understood, or nothing at all; and why.
    Failed(String),
}

/// Where a pool stands with its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListState {
    /// There has been no usable answer yet.
    Unknown,
    /// The list in force was the last answer.
    Current,
    /// The last answers, this many in a row, were another list that is not believed yet.
    Unsettled(u32),
    /// The last answer was of no use; the list in force is an older one.
    Kept,
}

impl ListState {
    /// One word for statistics.
    pub fn name(self) -> &'static str {
        match self {
            ListState::Unknown => "unknown",
            ListState::Current => "current",
            ListState::Unsettled(_) => "unsettled",
            ListState::Kept => "kept",
        }
    }
}

counters! {
    /// What has been counted.
    pub struct Counts {
        /// All of it.
        SHOWN {
            answers => counter, "Answers about the servers, of any kind.";
            taken => counter, "Lists taken, the first one included.";
            empty => counter, "Answers without a server.";
            failed => counter, "Questions without an answer that could be understood.";
            unusable => counter, "Lists of which no placement can be made.";
            suspect => counter, "Lists with less than half of the servers, not taken at once.";
        }
    }
}

/// What an answer changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// There is another list in force: [`Membership::placement`].
    pub is_taken: bool,
    /// Whether the last answer was of use is not what it was before.
    pub has_turned: bool,
}

/// What an answer is beside the list in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// That list.
    Same,
    /// Another, for this many times in a row, of so many that it takes.
    Other { times: u32, needed: u32 },
    /// None that can be used.
    Nothing,
}

/// The list of one pool. See the [module](self).
#[derive(Clone, Debug)]
pub struct Membership {
    pace: Pace,
    /// The list in force and what else makes a placement of it; no servers before the first list.
    placement: PlacementConfig,
    state: ListState,
    /// The list that is not believed yet, and how often it has been the answer in a row.
    candidate: Option<(Vec<Server>, u32)>,
    counts: Counts,
    /// Why the last answer was of no use; empty if it was of use.
    trouble: String,
    ask_at: Instant,
}

impl Membership {
    /// A pool without a list. The servers of `placement` are replaced; the rest says which lists can
    /// be used.
    pub fn new(pace: Pace, placement: &PlacementConfig) -> Self {
        Membership {
            pace,
            placement: PlacementConfig {
                servers: Vec::new(),
                ..placement.clone()
            },
            state: ListState::Unknown,
            candidate: None,
            counts: Counts::default(),
            trouble: String::new(),
            ask_at: Instant::default(),
        }
    }

    /// The list in force, as a placement; without servers before the first list.
    pub fn placement(&self) -> &PlacementConfig {
        &self.placement
    }

    /// Where it stands.
    pub fn state(&self) -> ListState {
        self.state
    }

    /// What has been counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Why the last answer was of no use; empty if it was of use.
    pub fn trouble(&self) -> &str {
        &self.trouble
    }

    /// When to ask next.
    pub fn ask_at(&self) -> Instant {
        self.ask_at
    }

    /// Takes an answer. `jitter`, 0 to 1, shortens the pause to the next question.
    pub fn handle_answer(&mut self, now: Instant, answer: Answer, jitter: f64) -> Heard {
        self.counts.answers += 1;
        let mut ttl = None;
        let servers = match answer {
            Answer::Servers(servers, good_for) if !servers.is_empty() => {
                ttl = good_for;
                self.usable(servers)
            }
            Answer::Servers(..) | Answer::Empty => {
                self.counts.empty += 1;
                self.trouble = "an answer without servers".into();
                None
            }
            Answer::Failed(why) => {
                self.counts.failed += 1;
                self.trouble = why;
                None
            }
        };
        let seen = self.see(servers);
        let before = self.state;
        let (state, is_taken) = next(before, seen);
        self.state = state;
        if is_taken && let Some((servers, _)) = self.candidate.take() {
            self.placement.servers = servers;
            self.counts.taken += 1;
        }
        if seen != Seen::Nothing {
            self.trouble.clear();
        }
        self.ask_at = now
            + self
                .pause(ttl)
                .mul_f64(1.0 - JITTER * jitter.clamp(0.0, 1.0));
        let is_useless = |state| matches!(state, ListState::Unknown | ListState::Kept);
        Heard {
            is_taken,
            has_turned: is_useless(before) != is_useless(state),
        }
    }

    /// The list if a placement can be made of it.
    fn usable(&mut self, servers: Vec<Server>) -> Option<Vec<Server>> {
        let placement = PlacementConfig {
            servers,
            ..self.placement.clone()
        };
        match placement.check() {
            Ok(()) => Some(placement.servers),
            Err(error) => {
                self.counts.unusable += 1;
                self.trouble = error.to_string();
                None
            }
        }
    }

    /// What an answer is beside the list in force; counts how often it has come.
    fn see(&mut self, servers: Option<Vec<Server>>) -> Seen {
        let former = self.candidate.take();
        let Some(servers) = servers else {
            return Seen::Nothing;
        };
        if servers == self.placement.servers {
            return Seen::Same;
        }
        let is_suspect = servers.len() * 2 < self.placement.servers.len();
        let times = match former {
            Some((former, times)) if former == servers => times + 1,
            _ => {
                self.counts.suspect += u64::from(is_suspect);
                1
            }
        };
        self.candidate = Some((servers, times));
        let needed = if self.state == ListState::Unknown {
            1
        } else if is_suspect {
            self.pace.answers.max(SUSPECT_ANSWERS)
        } else {
            self.pace.answers
        };
        Seen::Other { times, needed }
    }

    /// How long to wait before the next question.
    fn pause(&self, ttl: Option<Duration>) -> Duration {
        let refresh = self.pace.refresh;
        match self.state {
            ListState::Current => refresh.min(ttl.map_or(refresh, |ttl| ttl.max(TTL_MIN))),
            ListState::Unknown | ListState::Unsettled(_) | ListState::Kept => {
                refresh.min(RETRY_AFTER)
            }
        }
    }
}

/// All moves, and whether the list that was seen is in force from now on.
fn next(state: ListState, seen: Seen) -> (ListState, bool) {
    match (state, seen) {
        (_, Seen::Same) => (ListState::Current, false),
        (_, Seen::Other { times, needed }) if times >= needed => (ListState::Current, true),
        (_, Seen::Other { times, .. }) => (ListState::Unsettled(times), false),
        (ListState::Unknown, Seen::Nothing) => (ListState::Unknown, false),
        (_, Seen::Nothing) => (ListState::Kept, false),
    }
}
