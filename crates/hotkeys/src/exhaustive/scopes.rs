//! The scopes: small clusters, each with a budget of everything that can happen.
//!
//! A story of all that can go wrong at once has too many interleavings. So each scope has one theme, with
//! just enough of everything for it; what happens at once where it is not the theme (requests and answers,
//! for most) happens at once.

use super::world::Reached::{self, *};
use crate::client::Mutant as ClientMutant;
use crate::model::Fault;
use crate::server::Mutant as ServerMutant;
use crate::state::Event;

/// Most transitions that a scope may have: five seconds of one core of a small machine, in the profile of
/// tests. A scope that has more is to be cut, or to go among the large ones.
pub(super) const STEPS_MAX: u64 = 1_600_000;

/// The same for the large scopes, which `make model` runs: two minutes each.
pub(super) const LARGE_STEPS_MAX: u64 = 40_000_000;

/// What the clients are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// They send on without waiting, so that they need all their own checks.
    Pipelined,
    /// They stay with one copy for a lease and show whatever it says, as SPORE's do, so that all depends on
    /// the servers. One for each proxy, each with one request at a time.
    Sequential,
}

/// What a client may still do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClientPlan {
    pub(super) proxy: usize,
    pub(super) reads: u8,
    /// Reads that only the home can answer.
    pub(super) home_reads: u8,
    pub(super) sets: u8,
    pub(super) deletes: u8,
    pub(super) swaps: u8,
}

/// What may still happen to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    pub(super) ticks: u8,
    pub(super) link_losses: u8,
    pub(super) wire_losses: u8,
    /// By server.
    pub(super) restarts: [u8; SERVERS_MAX],
    pub(super) item_evictions: u8,
    pub(super) replica_evictions: u8,
    pub(super) refusals: u8,
    /// Times that a home is told to replicate nothing, and then to go on.
    pub(super) cools: u8,
}

/// A home and at most two shadows.
pub(super) const SERVERS_MAX: usize = 3;

/// One scope.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) name: &'static str,
    pub(super) servers: usize,
    pub(super) clients: &'static [ClientPlan],
    /// Requests that a client may have sent and not been answered.
    pub(super) pipeline: usize,
    pub(super) pace: Pace,
    /// Whether anything can happen between a request and its answer.
    pub(super) wires_are_slow: bool,
    /// Whether servers' clocks are too fast and proxies' too slow.
    pub(super) clocks_differ: bool,
    /// Whether the key has its replicas from the beginning. If not, the first read promotes it.
    pub(super) starts_hot: bool,
    /// Owners of the key by the maps that the coordinator makes one after the other.
    pub(super) maps: &'static [Option<usize>],
    /// Whether the first shadow of a key is another one by every second map.
    pub(super) shadows_alternate: bool,
    /// From where each server counts versions, by its lives.
    pub(super) counters: [[u64; SERVERS_MAX]; 3],
    pub(super) budget: Budget,
    /// What must have happened.
    pub(super) reaches: &'static [Reached],
    /// Moves of the key that must have been made.
    pub(super) moves: &'static [Event],
}

const NOTHING: ClientPlan = ClientPlan {
    proxy: 0,
    reads: 0,
    home_reads: 0,
    sets: 0,
    deletes: 0,
    swaps: 0,
};

const fn reader(proxy: usize, reads: u8) -> ClientPlan {
    ClientPlan {
        proxy,
        reads,
        ..NOTHING
    }
}

const QUIET: Budget = Budget {
    ticks: 0,
    link_losses: 0,
    wire_losses: 0,
    restarts: [0; SERVERS_MAX],
    item_evictions: 0,
    replica_evictions: 0,
    refusals: 0,
    cools: 0,
};

/// Later lives and later homes count from lower numbers: the harder case, for versions cannot be compared.
const DOWNWARDS: [[u64; SERVERS_MAX]; 3] = [[300, 200, 100], [30, 20, 10], [3, 2, 1]];

const PLAIN: Scope = Scope {
    name: "",
    servers: 2,
    clients: &[],
    pipeline: 2,
    pace: Pace::Pipelined,
    wires_are_slow: false,
    clocks_differ: false,
    starts_hot: true,
    maps: &[],
    shadows_alternate: false,
    counters: DOWNWARDS,
    budget: QUIET,
    reaches: &[],
    moves: &[],
};

const SEQUENTIAL: Scope = Scope {
    pipeline: 1,
    pace: Pace::Sequential,
    ..PLAIN
};

const fn setter(proxy: usize, reads: u8, sets: u8) -> ClientPlan {
    ClientPlan {
        sets,
        ..reader(proxy, reads)
    }
}

/// Those that every run of the tests checks.
pub(super) const SCOPES: &[Scope] = &[
    // Two clients of one proxy share its leases and its connections, and read past each other.
    Scope {
        name: "sharing",
        wires_are_slow: true,
        clients: &[setter(0, 2, 1), reader(0, 2)],
        reaches: &[Leased, ReplicaShown, KeptShown],
        moves: &[Event::Written, Event::Current],
        ..PLAIN
    },
    // One client sends on and on without waiting for answers.
    Scope {
        name: "pipeline",
        wires_are_slow: true,
        pipeline: 4,
        clients: &[setter(0, 3, 1), setter(1, 0, 1)],
        reaches: &[Leased, ReplicaShown, KeptShown],
        ..PLAIN
    },
    // A delete, and answers that say that nothing is there.
    Scope {
        name: "deletes",
        wires_are_slow: true,
        clients: &[
            ClientPlan {
                deletes: 1,
                ..reader(0, 2)
            },
            reader(0, 2),
        ],
        reaches: &[MissShown, AskedAgainMissed],
        moves: &[Event::Deleted, Event::Removed],
        ..PLAIN
    },
    // What is deleted is set again, while time passes.
    Scope {
        name: "deleted and set",
        clients: &[
            ClientPlan {
                deletes: 1,
                ..setter(0, 2, 1)
            },
            reader(1, 3),
        ],
        budget: Budget { ticks: 2, ..QUIET },
        reaches: &[MissShown, StaleWithinLease],
        moves: &[Event::Deleted, Event::Removed, Event::Promoted],
        ..PLAIN
    },
    // Items that vanish from the home, and replicas that vanish from shadows.
    Scope {
        name: "evictions",
        clients: &[setter(0, 2, 2), reader(1, 1)],
        budget: Budget {
            ticks: 1,
            item_evictions: 1,
            replica_evictions: 1,
            ..QUIET
        },
        reaches: &[MissShown, AskedAgainMissed],
        moves: &[Event::Absent, Event::Removed],
        ..PLAIN
    },
    // Two clients swap what they read, perhaps at a copy.
    Scope {
        name: "swaps",
        wires_are_slow: true,
        pipeline: 1,
        clients: &[
            ClientPlan {
                swaps: 1,
                ..reader(0, 2)
            },
            ClientPlan {
                swaps: 1,
                ..reader(1, 2)
            },
        ],
        reaches: &[Swapped, SwapRefused, ReplicaShown],
        ..PLAIN
    },
    // Clocks that run differently, a lease that ends, and replicas that are taken back.
    Scope {
        name: "clocks",
        clocks_differ: true,
        clients: &[reader(0, 4), setter(1, 0, 1)],
        budget: Budget {
            ticks: 4,
            cools: 1,
            ..QUIET
        },
        reaches: &[StaleWithinLease, OverAtProxyFirst, ReplicaShown],
        moves: &[Event::SwitchedOff, Event::Retired, Event::Promoted],
        ..PLAIN
    },
    // Answers that take as long as a lease.
    Scope {
        name: "late answers",
        wires_are_slow: true,
        clients: &[reader(0, 2), setter(1, 0, 1)],
        budget: Budget { ticks: 3, ..QUIET },
        reaches: &[StaleWithinLease, ReplicaShown],
        ..PLAIN
    },
    // Clients that show whatever they hear depend on the home alone.
    Scope {
        name: "trust",
        clients: &[setter(0, 2, 2), reader(1, 2)],
        budget: Budget { ticks: 2, ..QUIET },
        reaches: &[StaleWithinLease, ReplicaShown],
        moves: &[Event::Written],
        ..SEQUENTIAL
    },
    // Links that break, and what they held may still arrive.
    Scope {
        name: "links",
        clients: &[setter(0, 2, 1), reader(1, 1)],
        budget: Budget {
            ticks: 3,
            link_losses: 1,
            ..QUIET
        },
        reaches: &[LinkLost, LateMessage, UnreadDropped],
        moves: &[Event::LinkLost, Event::ShadowSilent],
        ..SEQUENTIAL
    },
    // What a broken link held arrives when the replica that came after it is gone.
    Scope {
        name: "late bytes",
        clients: &[setter(0, 1, 2)],
        budget: Budget {
            ticks: 3,
            link_losses: 1,
            replica_evictions: 1,
            ..QUIET
        },
        reaches: &[LinkLost, LateMessage, UnreadDropped],
        ..PLAIN
    },
    // A shadow has no room for a store.
    Scope {
        name: "refusals",
        clients: &[reader(0, 4), setter(1, 0, 2)],
        budget: Budget {
            ticks: 3,
            refusals: 1,
            ..QUIET
        },
        reaches: &[AskedAgainMissed, StaleWithinLease],
        moves: &[Event::ShadowRefused],
        ..SEQUENTIAL
    },
    // A shadow starts again, and has nothing.
    Scope {
        name: "shadow restarts",
        clients: &[setter(0, 3, 1)],
        budget: Budget {
            ticks: 2,
            restarts: [0, 1, 0],
            ..QUIET
        },
        reaches: &[ServerRestarted, AskedAgainMissed, LinkLost],
        moves: &[Event::LinkLost],
        ..PLAIN
    },
    // A home starts again, and has nothing; its replicas are still there.
    Scope {
        name: "home restarts",
        clients: &[reader(0, 3), setter(1, 1, 1)],
        // A life may count through the numbers of the one before.
        counters: [[300, 200, 100]; 3],
        budget: Budget {
            ticks: 1,
            restarts: [1, 0, 0],
            ..QUIET
        },
        reaches: &[ServerRestarted, MissShown, OldMapRefused, LateMessage],
        moves: &[Event::Promoted],
        ..PLAIN
    },
    // The shadow becomes the home.
    Scope {
        name: "a move",
        clients: &[setter(0, 1, 1), setter(1, 1, 1)],
        maps: &[None, Some(1)],
        reaches: &[OldMapRefused, MissShown],
        moves: &[Event::MapChanged, Event::Promoted],
        ..PLAIN
    },
    // There and back again.
    Scope {
        name: "two moves",
        clients: &[setter(0, 2, 1)],
        maps: &[None, Some(1), None, Some(0)],
        reaches: &[OldMapRefused, MissShown],
        moves: &[Event::MapChanged],
        ..PLAIN
    },
    // Another home with the same shadow.
    Scope {
        name: "a shadow of two",
        servers: 3,
        clients: &[setter(0, 3, 1)],
        maps: &[None, Some(1)],
        reaches: &[OldMapRefused, OldRefused],
        moves: &[Event::MapChanged, Event::Promoted],
        ..SEQUENTIAL
    },
    // A map that changes the shadow alone, of which a proxy has not heard.
    Scope {
        name: "another shadow",
        servers: 3,
        starts_hot: false,
        clients: &[setter(0, 5, 1)],
        maps: &[Some(0)],
        shadows_alternate: true,
        reaches: &[Leased, ReplicaShown],
        moves: &[Event::MapChanged, Event::Retired, Event::Promoted],
        ..SEQUENTIAL
    },
    // What a former home sent arrives when the replica that came after it is gone.
    Scope {
        name: "a former home",
        servers: 3,
        clients: &[setter(0, 1, 2)],
        maps: &[None, Some(1)],
        budget: Budget {
            replica_evictions: 1,
            ..QUIET
        },
        reaches: &[OldMapRefused, OldRefused],
        moves: &[Event::MapChanged],
        ..PLAIN
    },
    // A proxy's connection breaks; what it sent may still be executed.
    Scope {
        name: "connections",
        wires_are_slow: true,
        clients: &[setter(0, 2, 1), setter(1, 0, 1)],
        budget: Budget {
            wire_losses: 1,
            ..QUIET
        },
        reaches: &[LateRequest, ErrorShown, AskedAgainFailed],
        ..PLAIN
    },
    // Two replicas, of which one is behind.
    Scope {
        name: "two shadows",
        servers: 3,
        clients: &[setter(0, 3, 1), reader(0, 2)],
        budget: Budget { ticks: 1, ..QUIET },
        reaches: &[ReplicaShown, KeptShown],
        ..PLAIN
    },
    // Of two links one breaks.
    Scope {
        name: "two links",
        servers: 3,
        clients: &[setter(0, 2, 1)],
        budget: Budget {
            link_losses: 1,
            ..QUIET
        },
        reaches: &[LinkLost],
        moves: &[Event::LinkLost],
        ..SEQUENTIAL
    },
    // The first read promotes the key.
    Scope {
        name: "a promotion",
        starts_hot: false,
        clients: &[setter(0, 2, 1), reader(1, 1)],
        budget: Budget {
            ticks: 3,
            link_losses: 1,
            ..QUIET
        },
        reaches: &[Leased, LinkLost],
        moves: &[Event::Tracked, Event::Promoted, Event::ShadowSilent],
        ..PLAIN
    },
    // Reads that only the home can answer, among others.
    Scope {
        name: "at home only",
        wires_are_slow: true,
        clients: &[
            ClientPlan {
                home_reads: 1,
                ..reader(0, 2)
            },
            setter(0, 1, 1),
        ],
        reaches: &[Leased, ReplicaShown],
        ..PLAIN
    },
];

/// Those that are too large for that.
pub(super) const LARGE_SCOPES: &[Scope] = &[
    // As "a former home", when the key was deleted at its new home and others still have leases.
    Scope {
        name: "deleted after a move",
        servers: 3,
        pipeline: 1,
        clients: &[
            ClientPlan {
                deletes: 1,
                ..setter(0, 0, 2)
            },
            reader(0, 3),
        ],
        maps: &[None, Some(1)],
        reaches: &[OldMapRefused, OldRefused],
        moves: &[Event::MapChanged, Event::Removed],
        ..PLAIN
    },
    // Requests that come to a home that was another's in between.
    Scope {
        name: "old requests",
        wires_are_slow: true,
        clients: &[
            ClientPlan {
                home_reads: 2,
                ..reader(0, 0)
            },
            setter(1, 0, 1),
        ],
        maps: &[None, Some(1), None, Some(0)],
        reaches: &[OldMapRefused],
        ..PLAIN
    },
];

/// Faults built in on purpose, and the scope in which each breaks a promise.
pub(super) const MUTANTS: &[(Fault, &str)] = &[
    (Fault::Server(ServerMutant::WholeWhileBehind), "trust"),
    (
        Fault::Server(ServerMutant::GrantUnconfirmed),
        "home restarts",
    ),
    (Fault::Server(ServerMutant::GrantAnyEpoch), "another shadow"),
    (Fault::Server(ServerMutant::AckCoversAll), "trust"),
    (Fault::Server(ServerMutant::LostCountsAsAcked), "two links"),
    (Fault::Server(ServerMutant::RetireAtOnce), "clocks"),
    (Fault::Client(ClientMutant::WriteUnmarked), "pipeline"),
    (
        Fault::Client(ClientMutant::LeaseFromArrival),
        "late answers",
    ),
    (Fault::Client(ClientMutant::WholeLease), "clocks"),
    (Fault::Client(ClientMutant::ShowAnything), "sharing"),
    (Fault::Client(ClientMutant::NewestForgotten), "sharing"),
    (Fault::Client(ClientMutant::WriteKeepsLease), "sharing"),
    (Fault::Client(ClientMutant::WriteForgotten), "sharing"),
    (Fault::Client(ClientMutant::WriteNotShown), "sharing"),
    (Fault::WritesOvertakeReads, "sharing"),
    (Fault::WritesUntold, "trust"),
    (Fault::EpochIgnored, "a shadow of two"),
    (Fault::RefusalsIgnored, "refusals"),
    (Fault::OldEpochsServed, "old requests"),
    (Fault::FormerHomesHeard, "a former home"),
    (Fault::FormerHomesHeard, "deleted after a move"),
    (Fault::ReleasedOnArrival, "pipeline"),
    (Fault::OldLinksHeard, "late bytes"),
    (Fault::LivesAlike, "home restarts"),
    (Fault::GivenUnasked, "a move"),
    (Fault::ItemsKept, "two moves"),
];
