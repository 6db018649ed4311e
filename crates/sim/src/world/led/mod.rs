//! A pool of plain servers that is led to other ones while applications work.
//!
//! The first servers are the former ones, the others the pool's own. Two proxies follow the pool's change, the coordinator leads it,
//! and an operator says how far it is to go. All of it is what ships, driven as the processes drive it: a proxy tells what it was told and
//! what it has acknowledged with each heartbeat, and the coordinator tells nobody of a step before that is saved.

mod judge;
mod leader;
mod mishaps;
mod proxies;
mod servers;
mod table;

pub(super) use proxies::config;
pub use table::{LedReport, Mischance, Tally};

use super::plan::Cluster;
use super::swarm::Hazards;
use super::units::MS;
use super::{Event, World};
use crate::history::Nanos;
use crate::random::Random;
use evenkeel_coordinator_core::{HeartbeatAnswer, SavedState};
use evenkeel_proxy_core::ProxyConfig;
use evenkeel_schemes::stage::{Stage, Step};
use std::sync::Arc;

/// What the pool is called, and the one that it takes the place of.
const POOL: &str = "new";
const FORMER_POOL: &str = "old";

/// Mean pauses of applications between two sendings: many more operations than elsewhere, as a change is soon over.
pub(super) const PAUSE_MIN: Nanos = 4 * MS;
pub(super) const PAUSE_MAX: Nanos = 30 * MS;

/// Something of a led pool that happens at a time.
#[derive(Debug)]
pub(super) enum Turn {
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
    /// Proxies are a little slower for so long.
    Slow { by: Nanos, until: Nanos },
    /// Connections to former servers break, and what was sent over them arrives later.
    Lag,
    /// Something goes wrong; some stage's own blow, or any.
    Mischance(Option<Mischance>),
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
#[derive(Clone, Copy, Debug, Default)]
struct Followed {
    told: Option<Step>,
    acknowledged: u64,
    /// What it and the coordinator say to each other is lost until then.
    deaf_until: Nanos,
    /// The same comes late.
    late_until: Nanos,
    /// It was told that its name is another's.
    has_lost_name: bool,
}

/// A state that is being written.
#[derive(Debug)]
struct Saving {
    until: Nanos,
    state: SavedState,
}

/// A pool that is led, and who leads it.
#[derive(Debug)]
pub(super) struct Led {
    /// Servers from here on are the pool's own.
    first_own: usize,
    /// What proxies are started with.
    config: Arc<ProxyConfig>,
    followed: Vec<Followed>,
    /// What the coordinator has told, as far as was looked.
    step: Step,
    /// What of the coordinator's state is saved, and which revision.
    saved: SavedState,
    revision: u64,
    saving: Option<Saving>,
    /// When the operator wants the pool warming, and how long that is to last.
    begins: Nanos,
    warms_for: Nanos,
    warming_since: Option<Nanos>,
    /// How often the operator still takes the change back.
    withdrawals: u64,
    /// Mean time between two evictions.
    evicts_every: Nanos,
    /// When a server last began to count uniques anew.
    restarted: Nanos,
}

/// The first of so many servers that is the pool's own.
fn first_own_of(servers: usize) -> usize {
    servers / 2
}

impl Led {
    /// A pool that has not begun its way, among so many servers.
    pub fn new(
        servers: usize,
        config: &Arc<ProxyConfig>,
        saved: SavedState,
        random: &mut Random,
    ) -> Self {
        Led {
            first_own: first_own_of(servers),
            config: Arc::clone(config),
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
        }
    }

    /// Whether a server is a former one.
    pub fn is_former(&self, server: usize) -> bool {
        server < self.first_own
    }

    /// Where the change stands.
    pub fn stage(&self) -> Stage {
        self.step.stage
    }
}

impl World {
    /// Everything is there: what goes with a led pool begins.
    pub(super) fn begin_led(&mut self) {
        let count = self.proxies.len();
        let Some(led) = &mut self.led else {
            return;
        };
        led.followed = vec![Followed::default(); count];
        self.after(1_000 * MS, Event::Led(Turn::Operate));
        self.after(1_000 * MS, Event::Led(Turn::Evict));
        self.note_stage_begun();
        if self.plan.swarm.hazards != Hazards::default() {
            self.after(1_000 * MS, Event::Led(Turn::Mischance(None)));
        }
    }

    /// Something of it happens.
    pub(super) fn happen_to_led(&mut self, turn: Turn) {
        match turn {
            Turn::Tell {
                life,
                host,
                host_life,
                sent,
                answer,
            } => self.tell_follower(life, (host, host_life), sent, answer),
            Turn::Operate => self.operate(),
            Turn::Withdraw => self.withdraw(),
            Turn::Stop { server, until } => {
                self.stand_still(server, until);
            }
            Turn::Slow { by, until } => self.slow_proxies(by, until),
            Turn::Lag => self.lag_behind(),
            Turn::Mischance(mischance) => self.mischance(mischance),
            Turn::Evict => self.evict_some(),
            Turn::NameLost { proxy, life } => self.lose_name(proxy, life),
            Turn::GiveUp { proxy, life } => self.give_up_name(proxy, life),
            Turn::StartProxy { proxy } => self.start_proxy_again(proxy),
        }
    }

    /// Whether a member sends heartbeats.
    pub(super) fn follows_coordinator(&self, host: usize) -> bool {
        match &self.led {
            Some(_) => host >= self.servers.len(),
            None => self.plan.cluster == Cluster::Evenkeel,
        }
    }
}
