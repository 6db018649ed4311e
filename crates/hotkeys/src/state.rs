//! The states of a key in the SSM cache and every move between them (SPORE, figure 5).
//!
//! ```text
//!            Tracked               Promoted                 Current
//!  INVALID ───────────▶ COLD ───────────────▶ HOT PENDING ◀───────▶ HOT
//!     ▲     Evicted …    ▲ ▲                       │   │  Written …   │
//!     └──────────────────┘ └───── Removed ─────────┘   │ Cooled …     │ Cooled …
//!                        │        Retired              ▼              │
//!                        └───────────────────── COLD PENDING ◀────────┘
//! ```
//!
//! - HOT PENDING: replicas are being created or brought up to date. Leases are granted once all are there, shorter than
//!   whole ones. With atomic writes none are, and replicas are first told to serve nothing, until every one has (`Prepared`) or no
//!   lease is left (`LeasesOver`); see [`server::atomic`](super::server).
//! - HOT: every replica is current; whole leases are granted.
//! - COLD PENDING: no leases are granted, writes still go to the replicas, and when the last lease
//!   is over they are removed.
//!
//! [`Transitions`] is the only judge of moves: whatever is not in [`MOVES`] is a bug.

use core::fmt;

/// State of a key at its home worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not in the SSM cache.
    Invalid,
    /// Watched, without replicas. The only state from which a key is evicted.
    Cold,
    /// Replicas are being created or updated.
    HotPending,
    /// All replicas are current.
    Hot,
    /// Waiting for the last lease to end.
    ColdPending,
}

impl State {
    /// The state after something happened that the replicas have to hear of.
    pub(crate) fn pending(self) -> State {
        match self {
            State::Hot => State::HotPending,
            other => other,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Invalid => "invalid",
            State::Cold => "cold",
            State::HotPending => "hot_pending",
            State::Hot => "hot",
            State::ColdPending => "cold_pending",
        })
    }
}

/// Why a key moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A sampled read met the key.
    Tracked,
    /// Another key needed the room.
    Evicted,
    /// Nobody asked for the key for four slots.
    Faded,
    /// It became popular on a loaded worker.
    Promoted,
    /// Every replica holds the newest value.
    Current,
    /// With atomic writes: no shadow server serves its replica any more.
    Prepared,
    /// With atomic writes: a shadow server may still serve its replica, but the last lease is over.
    LeasesOver,
    /// It was written.
    Written,
    /// It was deleted.
    Deleted,
    /// Everything was deleted.
    Flushed,
    /// It was found to be expired or evicted when its value was to be sent.
    Absent,
    /// The connection to a shadow server broke.
    LinkLost,
    /// It got so popular that it needs more replicas.
    Widened,
    /// It is not popular any more.
    Cooled,
    /// Its writes outweigh its reads.
    WriteHeavy,
    /// Replication was switched off.
    SwitchedOff,
    /// Another map gives the key another home or other shadow servers.
    MapChanged,
    /// Its cachelet is to go to another worker of the server, as soon as no lease is left.
    Leaving,
    /// Its cachelet is at another worker of the server now.
    Left,
    /// A shadow server has not confirmed anything for a lease.
    ShadowSilent,
    /// A shadow server cannot hold the replica.
    ShadowRefused,
    /// Every shadow server has removed its replica after a delete.
    Removed,
    /// The last lease is over.
    Retired,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Event::Tracked => "tracked",
            Event::Evicted => "evicted",
            Event::Faded => "faded",
            Event::Promoted => "promoted",
            Event::Current => "current",
            Event::Prepared => "prepared",
            Event::LeasesOver => "leases_over",
            Event::Written => "written",
            Event::Deleted => "deleted",
            Event::Flushed => "flushed",
            Event::Absent => "absent",
            Event::LinkLost => "link_lost",
            Event::Widened => "widened",
            Event::Cooled => "cooled",
            Event::WriteHeavy => "write_heavy",
            Event::SwitchedOff => "switched_off",
            Event::MapChanged => "map_changed",
            Event::Leaving => "leaving",
            Event::Left => "left",
            Event::ShadowSilent => "shadow_silent",
            Event::ShadowRefused => "shadow_refused",
            Event::Removed => "removed",
            Event::Retired => "retired",
        })
    }
}

/// Every allowed move: what happened, from where, to where. A move to the same state is one that
/// matters to the replicas.
pub const MOVES: [(Event, State, State); 48] = {
    use Event::*;
    use State::*;
    [
        (Tracked, Invalid, Cold),
        (Evicted, Cold, Invalid),
        (Faded, Cold, Invalid),
        (Promoted, Cold, HotPending),
        (Current, HotPending, Hot),
        (Prepared, HotPending, HotPending),
        (Prepared, ColdPending, ColdPending),
        (LeasesOver, HotPending, HotPending),
        (LeasesOver, ColdPending, ColdPending),
        (Written, HotPending, HotPending),
        (Written, Hot, HotPending),
        (Written, ColdPending, ColdPending),
        (Deleted, HotPending, HotPending),
        (Deleted, Hot, HotPending),
        (Deleted, ColdPending, ColdPending),
        (Flushed, HotPending, HotPending),
        (Flushed, Hot, HotPending),
        (Flushed, ColdPending, ColdPending),
        (Absent, HotPending, HotPending),
        (Absent, Hot, HotPending),
        (Absent, ColdPending, ColdPending),
        (LinkLost, HotPending, HotPending),
        (LinkLost, Hot, HotPending),
        (LinkLost, ColdPending, ColdPending),
        (Widened, HotPending, HotPending),
        (Widened, Hot, HotPending),
        (Cooled, HotPending, ColdPending),
        (Cooled, Hot, ColdPending),
        (WriteHeavy, HotPending, ColdPending),
        (WriteHeavy, Hot, ColdPending),
        (SwitchedOff, Cold, Invalid),
        (SwitchedOff, HotPending, ColdPending),
        (SwitchedOff, Hot, ColdPending),
        (MapChanged, Cold, Invalid),
        (MapChanged, HotPending, ColdPending),
        (MapChanged, Hot, ColdPending),
        (Leaving, HotPending, ColdPending),
        (Leaving, Hot, ColdPending),
        (Left, Cold, Invalid),
        (Left, HotPending, Cold),
        (Left, Hot, Cold),
        (Left, ColdPending, Cold),
        (ShadowSilent, HotPending, ColdPending),
        (ShadowRefused, HotPending, ColdPending),
        (ShadowRefused, Hot, ColdPending),
        (Removed, HotPending, Cold),
        (Removed, ColdPending, Cold),
        (Retired, ColdPending, Cold),
    ]
};

/// The moves of a key, counted by [`MOVES`].
pub type Transitions = evenkeel_types::Transitions<Event, State, { MOVES.len() }>;

/// None was made yet.
pub(crate) fn no_transitions() -> Transitions {
    Transitions::new("a key", &MOVES)
}
