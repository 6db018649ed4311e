//! The cluster as a state machine: what can happen next, and what then is.

mod clients;
mod mishaps;
mod servers;
mod state;

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use evenkeel_types::{Epoch, Instant, KeyHash, ServerId, WorkerRef};
use stateright::{Model, Property};

use super::scopes::{Pace, Scope};
use crate::client::{self, ClientLeases};
use crate::model::Fault;
use crate::state::{Event, MOVES, State as KeyState};
use evenkeel_types::map::{ClusterMap, MapDocument, ServerEntry};
pub(super) use state::State;

/// The only key.
const KEY: &[u8] = b"alpha";

/// Long enough that a broken link is tried again within it.
pub(super) const LEASE_MS: u64 = 400;

/// What passes at once. A proxy's lease is over after two, and at its home after three.
const TICK_MS: u64 = LEASE_MS / 2 + 1;

/// When every story begins, by the true time.
const START_MS: u64 = 2_000;

/// By this many parts per million a server's clock can be too fast and a proxy's too slow: a little less than
/// the margin of a lease makes up for.
const CLOCK_ERROR_PPM: u64 = 40_000;

/// More maps than any scope makes.
const EPOCHS_MAX: usize = 8;

/// Something that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A client reads, from a copy of the key under a lease and else at the home.
    Read {
        client: usize,
        copy: u8,
    },
    /// A client reads what only the home can answer.
    ReadHome {
        client: usize,
    },
    Set {
        client: usize,
    },
    Delete {
        client: usize,
    },
    /// A client sets the key if it is still what the client was last shown.
    Swap {
        client: usize,
    },
    /// A request arrives; `stream` counts connections, the oldest first.
    Ask {
        proxy: usize,
        server: usize,
        stream: usize,
    },
    Answer {
        proxy: usize,
        server: usize,
    },
    /// A message from a home arrives.
    Message {
        home: usize,
        shadow: usize,
        stream: usize,
    },
    /// A store arrives for which there is no room.
    Refuse {
        home: usize,
        shadow: usize,
        stream: usize,
    },
    Confirm {
        home: usize,
        shadow: usize,
    },
    /// A home notices that a link is broken; what is on it may still arrive.
    LoseLink {
        home: usize,
        shadow: usize,
    },
    /// A proxy's connection breaks; what is on it may still arrive.
    LoseWire {
        proxy: usize,
        server: usize,
    },
    Restart {
        server: usize,
    },
    /// The coordinator's next map.
    NextMap,
    ServerLearns {
        server: usize,
    },
    ProxyLearns {
        proxy: usize,
    },
    Tick,
    /// A server keeps a deadline that has passed.
    Wake {
        server: usize,
    },
    EvictItem {
        server: usize,
    },
    EvictReplica {
        server: usize,
    },
    /// A home is to replicate nothing, and then is to again.
    Cool {
        server: usize,
    },
}

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Violation {
    OwnWriteUnseen,
    OwnFuture,
    BackInTime,
    DeleteUndone,
    TooStale,
    SwapOfAnother,
    StaleFill,
    ReplicaAfterLease,
    RetiredUnderLease,
}

impl Violation {
    pub(super) const ALL: [Violation; 9] = [
        Violation::OwnWriteUnseen,
        Violation::OwnFuture,
        Violation::BackInTime,
        Violation::DeleteUndone,
        Violation::TooStale,
        Violation::SwapOfAnother,
        Violation::StaleFill,
        Violation::ReplicaAfterLease,
        Violation::RetiredUnderLease,
    ];

    /// The promise.
    pub(super) fn promise(self) -> &'static str {
        match self {
            Violation::OwnWriteUnseen => "a client sees its own writes",
            Violation::OwnFuture => "no read is shown what its client has written behind it",
            Violation::BackInTime => "a client never sees an older value after a newer one",
            Violation::DeleteUndone => "what a client knows to be gone does not come back",
            Violation::TooStale => "no value is shown that was over for more than a lease",
            Violation::SwapOfAnother => "a swap succeeds only if nothing else came before it",
            Violation::StaleFill => "no replica is replaced by an older one",
            Violation::ReplicaAfterLease => "no replica is read when its lease is over",
            Violation::RetiredUnderLease => "no replica is taken back while a lease lasts",
        }
    }
}

/// Something worth knowing to have happened: without it a check may be one of nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    Leased,
    ReplicaShown,
    StaleWithinLease,
    AskedAgainOld,
    KeptShown,
    AskedAgainMissed,
    AskedAgainFailed,
    MissShown,
    ErrorShown,
    Swapped,
    SwapRefused,
    /// A request was refused because of its map.
    OldMapRefused,
    /// A request arrived over a connection that its proxy had given up.
    LateRequest,
    LinkLost,
    /// A message arrived over a link that its home had given up.
    LateMessage,
    /// A message was dropped because a newer link was heard of.
    UnreadDropped,
    /// A shadow refused what was older than what it had.
    OldRefused,
    ServerRestarted,
    /// A proxy's lease was over, and its home still waited for it.
    OverAtProxyFirst,
}

/// Reached things and moves that are told apart.
const REACHED_MAX: usize = 19;

/// A scope, and with it the whole model: see [`super`].
pub(super) struct Cluster {
    pub(super) scope: &'static Scope,
    pub(super) fault: Option<Fault>,
    /// By epoch from 1, and owner; the last is nobody.
    maps: Vec<Vec<Arc<ClusterMap>>>,
    client_mutants: Vec<client::Mutant>,
    reached: [AtomicU64; REACHED_MAX],
    /// Bits of [`MOVES`].
    moves: AtomicU64,
    steps: AtomicU64,
}

impl Cluster {
    pub(super) fn new(scope: &'static Scope, fault: Option<Fault>) -> Self {
        let owners = || (0..scope.servers).map(Some).chain([None]);
        let map = |epoch, owner| Arc::new(ClusterMap::new(document(scope, epoch, owner)).unwrap());
        let maps = (1..=EPOCHS_MAX as u64)
            .map(|epoch| owners().map(|owner| map(epoch, owner)).collect())
            .collect();
        let mut client_mutants = Vec::new();
        if let Some(Fault::Client(mutant)) = fault {
            client_mutants.push(mutant);
        }
        if scope.pace == Pace::Sequential {
            client_mutants.push(client::Mutant::ShowAnything);
            client_mutants.push(client::Mutant::OneCopy);
        }
        Cluster {
            scope,
            fault,
            maps,
            client_mutants,
            reached: Default::default(),
            moves: AtomicU64::new(0),
            steps: AtomicU64::new(0),
        }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn map(&self, epoch: Epoch, owner: Option<usize>) -> &Arc<ClusterMap> {
        &self.maps[epoch.0 as usize - 1][owner.unwrap_or(self.scope.servers)]
    }

    /// How often it happened, over all ways to it.
    pub(super) fn count(&self, reached: Reached) -> u64 {
        self.reached[reached as usize].load(Ordering::Relaxed)
    }

    /// Every move between states of a key that was made.
    pub(super) fn moves(&self) -> impl Iterator<Item = (Event, KeyState, KeyState)> {
        let made = self.moves.load(Ordering::Relaxed);
        (MOVES.iter().enumerate()).filter_map(move |(i, &m)| (made >> i & 1 == 1).then_some(m))
    }

    /// Transitions computed.
    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// The state after an action, and what happened in words if it is to be told.
    pub(super) fn step(
        &self,
        state: &State,
        action: Action,
        told: Option<Vec<String>>,
    ) -> Option<(State, Vec<String>)> {
        let mut step = Step {
            cluster: self,
            leases: (0..state.proxies.len()).map(|_| None).collect(),
            state: state.clone(),
            told,
        };
        step.happen(action)?;
        step.end();
        Some((step.state, step.told.unwrap_or_default()))
    }
}

/// One action being executed.
struct Step<'c> {
    cluster: &'c Cluster,
    state: State,
    /// Those of proxies that did something.
    leases: Vec<Option<ClientLeases>>,
    told: Option<Vec<String>>,
}

impl Step<'_> {
    fn happen(&mut self, action: Action) -> Option<()> {
        match action {
            Action::Read { client, copy } => return self.read(client, Some(copy)),
            Action::ReadHome { client } => return self.read(client, None),
            Action::Set { .. } | Action::Delete { .. } | Action::Swap { .. } => self.write(action),
            Action::Ask {
                proxy,
                server,
                stream,
            } => self.deliver_ask(proxy, server, stream),
            Action::Answer { proxy, server } => self.deliver_answer(proxy, server),
            Action::Message {
                home,
                shadow,
                stream,
            } => self.deliver_message(home, shadow, stream, false),
            Action::Refuse {
                home,
                shadow,
                stream,
            } => {
                self.state.left.refusals -= 1;
                self.deliver_message(home, shadow, stream, true);
            }
            Action::Confirm { home, shadow } => self.deliver_confirmation(home, shadow),
            Action::LoseLink { home, shadow } => self.lose_link(home, shadow),
            Action::LoseWire { proxy, server } => self.lose_wire(proxy, server),
            Action::Restart { server } => self.restart(server),
            Action::NextMap => self.next_map(),
            Action::ServerLearns { server } => self.server_learns(server),
            Action::ProxyLearns { proxy } => {
                self.state.proxies[proxy].epoch = self.state.epoch();
                self.tell(|_| format!("proxy {proxy} learns of the map"));
            }
            Action::Tick => self.tick(),
            Action::Wake { server } => self.wake(server),
            Action::EvictItem { server } => self.evict_item(server),
            Action::EvictReplica { server } => self.evict_replica(server),
            Action::Cool { server } => self.cool(server),
        }
        Some(())
    }

    /// Puts what was taken out of the state back, in canonical form.
    fn end(&mut self) {
        for proxy in 0..self.leases.len() {
            if let Some(leases) = self.leases[proxy].take() {
                self.state.keep_leases(proxy, leases);
            }
        }
    }

    fn reach(&self, reached: Reached) {
        self.cluster.reached[reached as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn tell(&mut self, text: impl FnOnce(&State) -> String) {
        if let Some(told) = &mut self.told {
            told.push(text(&self.state));
        }
    }

    fn violate(&mut self, violation: Violation, text: impl FnOnce(&State) -> String) {
        self.state.violation.get_or_insert(violation);
        self.tell(|state| format!("BROKEN: {}: {}", violation.promise(), text(state)));
    }
}

/// What a clock of that speed shows.
fn at(time_ms: u64, ppm: u64) -> Instant {
    Instant(time_ms * ppm)
}

impl Model for Cluster {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.first()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.violation.is_none() {
            self.client_actions(state, actions);
            self.deliveries(state, actions);
            self.mishaps(state, actions);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        self.steps.fetch_add(1, Ordering::Relaxed);
        Some(self.step(state, action, None)?.0)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn kept<const I: usize>(_: &Cluster, state: &State) -> bool {
            state.violation != Some(Violation::ALL[I])
        }
        let checks: [fn(&Cluster, &State) -> bool; Violation::ALL.len()] = [
            kept::<0>, kept::<1>, kept::<2>, kept::<3>, kept::<4>, kept::<5>, kept::<6>, kept::<7>,
            kept::<8>,
        ];
        let promises = Violation::ALL.map(Violation::promise);
        let pairs = promises.into_iter().zip(checks);
        pairs
            .map(|(name, check)| Property::always(name, check))
            .collect()
    }
}

fn worker(server: usize) -> WorkerRef {
    WorkerRef {
        server: ServerId(server as u16),
        worker: 0,
    }
}

/// `owner` has the cachelet of the key and one other server all others, so that it is the first shadow of
/// every other home: the last server, or by turns the one before it.
fn document(scope: &Scope, epoch: u64, owner: Option<usize>) -> MapDocument {
    let entry = |server: usize| ServerEntry::new(server as u16, "h", 1, vec![1]);
    const NODES: usize = 16;
    let of_key = (KeyHash::of(KEY).0 >> (u64::BITS - NODES.ilog2())) as usize;
    let is_alternate = scope.shadows_alternate && epoch.is_multiple_of(2);
    let shadow = scope.servers - 1 - usize::from(is_alternate);
    let owner_of = |node: usize| match node == of_key {
        true => owner.map(worker),
        false => Some(worker(shadow)),
    };
    let owners = (0..NODES).map(owner_of).collect();
    MapDocument::new(
        epoch,
        (0..scope.servers).map(entry).collect(),
        NODES,
        owners,
    )
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = |stream: &usize| {
            if *stream == 0 {
                ""
            } else {
                " (a later connection)"
            }
        };
        match self {
            Action::Read { client, copy: 0 } => write!(f, "client {client} reads"),
            Action::Read { client, copy } => write!(f, "client {client} reads copy {copy}"),
            Action::ReadHome { client } => write!(f, "client {client} reads at the home only"),
            Action::Set { client } => write!(f, "client {client} sets"),
            Action::Delete { client } => write!(f, "client {client} deletes"),
            Action::Swap { client } => write!(f, "client {client} swaps what it was shown"),
            Action::Ask {
                proxy,
                server,
                stream: s,
            } => {
                write!(f, "server {server} hears proxy {proxy}{}", stream(s))
            }
            Action::Answer { proxy, server } => write!(f, "proxy {proxy} hears server {server}"),
            Action::Message {
                home,
                shadow,
                stream: s,
            } => {
                write!(f, "shadow {shadow} hears home {home}{}", stream(s))
            }
            Action::Refuse { home, shadow, .. } => {
                write!(f, "shadow {shadow} hears home {home} and has no room")
            }
            Action::Confirm { home, shadow } => write!(f, "home {home} hears shadow {shadow}"),
            Action::LoseLink { home, shadow } => {
                write!(f, "home {home} loses its link to shadow {shadow}")
            }
            Action::LoseWire { proxy, server } => {
                write!(f, "proxy {proxy} loses its connection to server {server}")
            }
            Action::Restart { server } => write!(f, "server {server} starts again, empty"),
            Action::NextMap => f.write_str("the coordinator makes another map"),
            Action::ServerLearns { server } => write!(f, "server {server} learns of the map"),
            Action::ProxyLearns { proxy } => write!(f, "proxy {proxy} learns of the map"),
            Action::Tick => write!(f, "{TICK_MS} ms pass"),
            Action::Wake { server } => write!(f, "server {server} looks at its clock"),
            Action::EvictItem { server } => write!(f, "server {server} evicts the item"),
            Action::EvictReplica { server } => write!(f, "server {server} evicts its replica"),
            Action::Cool { server } => write!(f, "server {server} is told to stop, and to go on"),
        }
    }
}

/// The lease as servers announce it.
const LEASE: Duration = Duration::from_millis(LEASE_MS);
