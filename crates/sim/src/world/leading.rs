//! A pool that is led to other servers, has a ring or keeps copies, and what is known of those who lead and follow it; [`led`](super::led) is what happens.

use super::led_racks::LedRacks;
use super::led_report::{LedKind, Mischance, Moment, RackStep};
use super::led_ring::LedRing;
use super::proxy::{MAP_SOURCE, POOL, led_settings, server_list};
use super::server::ITEM_SIZE_MAX;
use super::units::MS;
use crate::history::Nanos;
use crate::random::Random;
use evenkeel_control::bundles::BundlePlan;
use evenkeel_control::rings::RingCounts;
use evenkeel_coordinator_core::{Heartbeat, HeartbeatAnswer, SavedState};
use evenkeel_proxy_core::{
    Bundles, Keeping, OnDown, PlannedRing, PoolConfig, PoolKind, PoolSettings, ProxyConfig,
};
use evenkeel_schemes::stage::{Stage, Step};
use std::sync::Arc;

/// What the pool is called that a led one takes the place of.
const FORMER_POOL: &str = "old";

/// Longest value that is copied, in bytes: some are longer.
const COPIED_MAX: usize = 1_500;

/// Mean pauses of applications between two sendings: many more operations than elsewhere, as a change is soon over.
pub(super) const PAUSE_MIN: Nanos = 4 * MS;
pub(super) const PAUSE_MAX: Nanos = 30 * MS;

/// Something of a led pool that happens at a time.
#[derive(Debug)]
pub(super) enum Turn {
    /// The coordinator hears a heartbeat that has waited for it.
    Wait {
        /// Of the coordinator.
        life: u32,
        host: usize,
        host_life: u32,
        sent: Nanos,
        heartbeat: Box<Heartbeat>,
    },
    /// What the coordinator has answered is saved, and leaves.
    Tell {
        /// Of the coordinator.
        life: u32,
        host: usize,
        host_life: u32,
        sent: Nanos,
        answer: Box<HeartbeatAnswer>,
    },
    /// An operator looks how far the change is.
    Operate,
    /// An operator takes the change back.
    Withdraw,
    /// A server stands still until then.
    Stop { server: usize, until: Nanos },
    /// Proxies are a little slower for this long.
    Slow { by: Nanos, until: Nanos },
    /// Connections to former servers break, and what was sent over them arrives later.
    Lag,
    /// Something goes wrong; some stage's own fault, or any.
    Mischance(Option<Mischance>),
    /// Something goes wrong as a server has just executed a step between racks; with that server, if it is one of servers.
    AtStep {
        server: usize,
        step: RackStep,
        mischance: Mischance,
    },
    /// A server evicts a key.
    Evict,
    /// A proxy's process is told that its name is another's.
    NameLost { proxy: usize, life: u32 },
    /// It was told so for long, and gives up.
    GiveUp { proxy: usize, life: u32 },
    /// A proxy that was killed starts again under its name.
    StartProxy { proxy: usize },
}

/// What a proxy's present life has heard and said.
#[derive(Clone, Debug, Default)]
pub(super) struct Followed {
    pub told: Option<Step>,
    pub acknowledged: u64,
    /// The plan that the step is of, in a pool with a ring.
    pub ring: Option<Arc<PlannedRing>>,
    /// The same of copies.
    pub copies: Option<BundlePlan>,
    /// What it has counted of that, until it has said so.
    pub counts: Option<RingCounts>,
    /// Servers that it does not reach, by their places in the list of the plan of this number.
    pub unreached: Option<(u64, Vec<u16>)>,
    /// What it and the coordinator say to each other is lost until then.
    pub deaf_until: Nanos,
    /// The same comes late.
    pub late_until: Nanos,
    /// It was told that its name is another's.
    pub has_lost_name: bool,
}

/// A state that is being written.
#[derive(Debug)]
pub(super) struct Saving {
    pub until: Nanos,
    pub state: SavedState,
}

/// A pool that is led, and who leads it.
#[derive(Debug)]
pub(super) struct Led {
    /// The pool's ring. A pool without one that keeps no copies either passes from its first servers to the others.
    pub ring: Option<LedRing>,
    /// Its racks, of which one holds each item, where it has any. Nothing of it changes then.
    pub racks: Option<LedRacks>,
    /// Servers from here on are the pool's own, where it has no ring.
    pub first_own: usize,
    /// What each proxy is started with.
    pub configs: Vec<Arc<ProxyConfig>>,
    pub followed: Vec<Followed>,
    /// What the coordinator has told, as far as was looked.
    pub step: Step,
    /// What of the coordinator's state is saved, and which revision.
    pub saved: SavedState,
    pub revision: u64,
    pub saving: Option<Saving>,
    /// When the operator wants the pool warming, and how long that is to last; of a ring and of copies, when he gives his next order.
    pub begins: Nanos,
    pub warms_for: Nanos,
    pub warming_since: Option<Nanos>,
    /// How often the operator still takes the change back.
    pub withdrawals: u64,
    /// Mean time between two evictions.
    pub evicts_every: Nanos,
    /// When a server last began to count uniques anew.
    pub restarted: Nanos,
}

/// The first of so many servers that is the pool's own.
fn first_own_of(servers: usize) -> usize {
    servers / 2
}

impl Led {
    /// A pool that has not begun its way, among this many servers.
    pub fn new(
        servers: usize,
        configs: Vec<Arc<ProxyConfig>>,
        (ring, racks): (Option<LedRing>, Option<LedRacks>),
        saved: SavedState,
        random: &mut Random,
    ) -> Self {
        let mut led = Led {
            ring,
            racks,
            first_own: first_own_of(servers),
            configs,
            followed: Vec::new(),
            step: Step::FIRST,
            saved,
            revision: 0,
            saving: None,
            begins: random.between(1_500 * MS, 4_000 * MS),
            warms_for: random.between(1_500 * MS, 5_000 * MS),
            warming_since: None,
            withdrawals: random.below(3),
            evicts_every: [15 * MS, 60 * MS, 250 * MS][random.index(3)],
            restarted: 0,
        };
        // In a ring most of them are of items that nobody is about to move, and copies that are gone are never old.
        if led.kind() != LedKind::Pool {
            led.evicts_every *= 6;
        }
        led
    }

    pub fn kind(&self) -> LedKind {
        if let Some(racks) = &self.racks {
            return racks.kind();
        }
        match (&self.ring, self.copies()) {
            (Some(_), _) => LedKind::Ring,
            (_, Some(_)) => LedKind::Copies,
            _ => LedKind::Pool,
        }
    }

    /// Where the copies of its items are, if it keeps any.
    pub fn copies(&self) -> Option<&Bundles> {
        self.configs[0].pools[0].bundles.as_deref()
    }

    /// Whether a server is a former one, or gives parts of a ring by its present plan. Of those that have copies each is home of items, too, and those in
    /// racks are all but the directory.
    pub fn is_former(&self, server: usize) -> bool {
        if let Some(racks) = &self.racks {
            return !racks.is_directory(server);
        }
        match &self.ring {
            Some(ring) => ring.gives(server),
            None => self.copies().is_some() || server < self.first_own,
        }
    }

    /// Whether a server is one of the pool's own, or gets parts of a ring.
    pub fn is_own(&self, server: usize) -> bool {
        if let Some(racks) = &self.racks {
            return racks.is_directory(server);
        }
        match &self.ring {
            Some(ring) => ring.gets(server),
            None => self.copies().is_none() && server >= self.first_own,
        }
    }

    /// Whether another stage has begun since this step. In a ring that may be the same one, of the next plan.
    pub fn has_begun(&self, before: Step) -> bool {
        match self.ring {
            Some(_) => self.step.version != before.version,
            None => self.step.stage != before.stage,
        }
    }

    /// When something goes wrong that goes wrong now.
    pub fn moment(&self) -> Moment {
        match &self.racks {
            Some(racks) => Moment::Step(racks.last_step),
            None => Moment::Stage(self.stage()),
        }
    }

    /// Where the change stands.
    pub fn stage(&self) -> Stage {
        self.step.stage
    }
}

/// What proxies are told of a pool that is led, with this many servers of both kinds.
pub(super) fn config(servers: usize, on_down: OnDown) -> ProxyConfig {
    let first_own = first_own_of(servers);
    let settings = led_settings(on_down);
    let led = PoolSettings {
        warm_from: Some(FORMER_POOL.into()),
        follows: Some(MAP_SOURCE),
        ..settings.clone()
    };
    let kind = PoolKind::Memcached(server_list(first_own..servers));
    let mut config = ProxyConfig::of_pool(kind, led);
    config.pools[0].name = POOL.into();
    config.pools.push(PoolConfig {
        name: FORMER_POOL.into(),
        kind: PoolKind::Memcached(server_list(0..first_own)),
        settings,
        bundles: None,
        holding: None,
    });
    config.limits.item_size_max = ITEM_SIZE_MAX;
    config
}

/// The same of one whose items have copies among this many servers.
pub(super) fn config_of_copies(
    servers: usize,
    on_down: OnDown,
    random: &mut Random,
) -> ProxyConfig {
    let list = server_list(0..servers);
    let copies = 2 + random.below(2) as u8;
    let keeping = Keeping {
        ttl: [3, 10, 60][random.index(3)],
        value_max: COPIED_MAX,
        ..Keeping::default()
    };
    let bundles = Bundles::new(&list, copies, Some(keeping), None);
    let settings = PoolSettings {
        follows: Some(MAP_SOURCE),
        ..led_settings(on_down)
    };
    let mut config = ProxyConfig::of_pool(PoolKind::Memcached(list), settings);
    config.pools[0].name = POOL.into();
    config.pools[0].bundles = Some(Arc::new(bundles));
    config.limits.item_size_max = ITEM_SIZE_MAX;
    config
}
