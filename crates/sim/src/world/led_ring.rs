//! The ring of a led pool, as it is known from outside: where each key is by its newest plan, who gives and who gets, and what an
//! operator wants. [`led`](super::led) is what happens.

use super::proxy::{MAP_SOURCE, POOL, led_settings, server_list};
use super::server::{ITEM_SIZE_MAX, owner_of_port, worker_ports};
use crate::random::Random;
use evenkeel_control::rings::{RingPlan, RingWish, ServerChange};
use evenkeel_coordinator_core::{RingMode, RingMoveRequest, RingServerRequest, RingSettings};
use evenkeel_placement::config::{Distribution, PlacementConfig, Server};
use evenkeel_placement::pool::Placement;
use evenkeel_placement::ring::{Ring, Slice};
use evenkeel_proxy_core::{OnDown, PoolKind, PoolSettings, ProxyConfig, ServerList};
use evenkeel_schemes::generation::name_prefix;
use evenkeel_schemes::stage::Stage;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What an operator orders.
#[derive(Clone, Debug)]
pub(super) enum RingOrder {
    Moves(RingMoveRequest),
    Server(RingServerRequest),
}

/// A ring, its newest plan, and what is wanted of it.
#[derive(Debug)]
pub(super) struct LedRing {
    /// What the files of proxies say of it.
    pub wish: RingWish,
    /// How it is to follow its load.
    pub settings: RingSettings,
    /// The newest plan, as far as was looked; `None` before there is a ring.
    pub known: Option<KnownPlan>,
    /// What is ordered next, and the servers that give something away by it.
    pub next: Option<(RingOrder, Vec<usize>)>,
    /// Number of the plan that was ordered last, and not made by the coordinator.
    pub ordered: u64,
    /// Number of the newest plan that came to its end.
    pub done: u64,
    /// The servers that have had each key before.
    pub former_owners: Vec<BTreeSet<usize>>,
}

/// A plan, and what follows from it.
#[derive(Debug)]
pub(super) struct KnownPlan {
    pub plan: Arc<RingPlan>,
    list: Placement,
    after: Ring,
    /// By host.
    givers: BTreeSet<usize>,
    getters: BTreeSet<usize>,
}

/// What a server knows the item of a key by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub server: usize,
    pub generation: u64,
    pub name: Vec<u8>,
}

/// A server, as it stands in the lists of rings.
pub(super) fn listed(server: usize) -> Server {
    server_list(server..server + 1).servers()[0].clone()
}

impl LedRing {
    /// A ring that there is not yet, of some of this many servers, for this many proxies.
    pub fn new(servers: usize, proxies: usize, random: &mut Random) -> Self {
        let first = random.between(2, servers as u64) as usize;
        let even = random.chance(1, 2);
        let is_automatic = random.chance(1, 2);
        let placement = PlacementConfig {
            distribution: Distribution::KetamaWeighted,
            servers: (0..first).map(listed).collect(),
            ..PlacementConfig::default()
        };
        LedRing {
            wish: RingWish { even, placement },
            settings: RingSettings {
                mode: match is_automatic {
                    true => RingMode::Automatic,
                    false => RingMode::Observe,
                },
                proxies,
                slot_ms: 1_000,
                warming_ms: random.between(100, 2_000),
                dead_after_ms: 1_000,
                ..RingSettings::default()
            },
            known: None,
            next: None,
            ordered: 0,
            done: 0,
            former_owners: Vec::new(),
        }
    }

    /// What proxies are told of a pool with this ring.
    pub fn config(&self, on_down: OnDown) -> ProxyConfig {
        let list = ServerList::new(self.wish.placement.clone()).expect("sound servers");
        let settings = PoolSettings {
            adaptive: true,
            follows: Some(MAP_SOURCE),
            ..led_settings(on_down)
        };
        let mut config = ProxyConfig::of_pool(PoolKind::Memcached(Arc::new(list)), settings);
        config.pools[0].name = POOL.into();
        config.limits.item_size_max = ITEM_SIZE_MAX;
        config
    }

    /// Whether a server gives something away by the present plan.
    pub fn gives(&self, server: usize) -> bool {
        let known = self.known.as_ref();
        known.is_some_and(|known| known.givers.contains(&server))
    }

    /// Whether a server gets something by the present plan.
    pub fn gets(&self, server: usize) -> bool {
        let known = self.known.as_ref();
        known.is_some_and(|known| known.getters.contains(&server))
    }

    /// Whether a server has a part of the ring before the present plan, or behind it.
    pub fn needs(&self, server: usize) -> bool {
        let rings = self.known.iter().flat_map(|known| {
            let owners = |ring| known.owners(ring);
            [&known.plan.ring, &known.after].map(owners)
        });
        rings.flatten().any(|owner| owner == server)
    }
}

impl KnownPlan {
    pub fn new(plan: Arc<RingPlan>) -> Self {
        let after = plan
            .moved()
            .expect("a coordinator makes plans that are some");
        let mut known = KnownPlan {
            list: Placement::new(&plan.placement).expect("sound servers"),
            after,
            plan,
            givers: BTreeSet::new(),
            getters: BTreeSet::new(),
        };
        let (before, after) = (&known.plan.ring, &known.after);
        let ends = before.slices().iter().chain(after.slices());
        let both =
            ends.map(|slice| [before, after].map(|ring| ring.slices()[ring.slice_of(slice.end)]));
        let moved = both.filter(|[from, to]| from.generation != to.generation);
        let (givers, getters): (Vec<u16>, Vec<u16>) =
            moved.map(|[from, to]| (from.owner, to.owner)).unzip();
        known.givers = givers.into_iter().map(|place| known.host(place)).collect();
        known.getters = getters.into_iter().map(|place| known.host(place)).collect();
        known
    }

    /// The server at a place in the list.
    pub fn host(&self, place: u16) -> usize {
        let server = &self.plan.placement.servers[usize::from(place)];
        owner_of_port(server.port).0
    }

    /// The place of a server in the list, if it has one.
    pub fn place(&self, server: usize) -> Option<u16> {
        let port = worker_ports(server, 1)[0];
        let mut listed = (0..).zip(&self.plan.placement.servers);
        listed
            .find(|(_, it)| it.port == port)
            .map(|(place, _)| place)
    }

    /// The ring by which requests go at a stage.
    pub fn ring(&self, stage: Stage) -> &Ring {
        match stage >= Stage::Warming {
            true => &self.after,
            false => &self.plan.ring,
        }
    }

    /// The servers that have parts of one of its rings.
    pub fn owners(&self, ring: &Ring) -> BTreeSet<usize> {
        let shares = (0..).zip(ring.shares());
        let owning = shares.filter(|(_, share)| *share > 0);
        owning.map(|(place, _)| self.host(place)).collect()
    }

    /// The hash by which a key is distributed.
    pub fn hash(&self, key: &[u8]) -> u32 {
        self.list.hashed(key).1 as u32
    }

    /// Where a key is before the moves of the plan, and behind them.
    pub fn places(&self, key: &[u8]) -> [Place; 2] {
        let hash = self.hash(key);
        [&self.plan.ring, &self.after].map(|ring| {
            let Slice {
                owner, generation, ..
            } = ring.slices()[ring.slice_of(hash)];
            let prefix = name_prefix(self.plan.incarnation, generation);
            let prefix = prefix.as_ref().map_or(&[][..], |prefix| &prefix[..]);
            Place {
                server: self.host(owner),
                generation,
                name: [prefix, key].concat(),
            }
        })
    }

    /// The server that comes or goes by it, and how.
    pub fn server(&self) -> Option<&ServerChange> {
        self.plan.server.as_ref()
    }

    /// In words for people.
    pub fn words(&self) -> String {
        let (givers, getters) = (&self.givers, &self.getters);
        let parts = self.plan.moves.len();
        match self.server() {
            Some(change) => format!("{change:?} by which servers {givers:?} give to {getters:?}"),
            None => format!("servers {givers:?} give {parts} parts to {getters:?}"),
        }
    }
}
