//! What is saved of changes: all that was told, and who was told it.

use core::time::Duration;
use std::collections::BTreeMap;

use evenkeel_control::check_name;
use evenkeel_control::gone::GONE_AFTER;
use evenkeel_schemes::change::{Change, VERSION_MAX};
use evenkeel_types::{BootId, Instant};
use serde::{Deserialize, Serialize};

use super::control_port::ControlPort;
use super::{Changes, Led, LedBundle, LedRing, Life};
use crate::duration::millis;
use crate::limits::{FOLLOWED_POOLS_MAX, FORMER_LIVES_MAX, PROXIES_MAX, WHEN_WARM_MAX_S};
use crate::scale::{LedScale, Scaling};

/// The changes of pools that a coordinator leads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SavedChanges {
    /// By the pool's name.
    #[serde(default)]
    pub pools: BTreeMap<String, SavedChange>,
    /// The proxies that follow, by name.
    #[serde(default)]
    pub proxies: BTreeMap<String, SavedFollower>,
}

/// The change of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedChange {
    /// Step, goal, and who follows.
    pub change: Change,
    /// It was taken over from a proxy, and no operator has said since how many there are.
    #[serde(default)]
    pub taken_over: bool,
    /// For how many seconds at most it waits for the pool to be warm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_warm_s: Option<u64>,
    /// Its ring, in a pool whose hash space follows the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<LedRing>,
    /// The plan of its copies, in a pool that keeps some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<LedBundle>,
    /// How the number of the ring's servers follows what is measured, where an operator has set it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<LedScale>,
}

/// The process that has a proxy's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFollower {
    /// Its life.
    pub boot: BootId,
    /// Where it is reached.
    pub host: String,
    /// Its port; 0 for none.
    pub port: u16,
    /// Lives that had the name before, the latest last.
    #[serde(default)]
    pub former: Vec<BootId>,
    /// See [`Heartbeat::gone_after_ms`](evenkeel_control::Heartbeat::gone_after_ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_after_ms: Option<u64>,
}

impl SavedChanges {
    /// What about them contradicts itself, if anything.
    pub(crate) fn contradiction(&self) -> Option<&'static str> {
        if self.pools.len() > FOLLOWED_POOLS_MAX || self.proxies.len() > PROXIES_MAX {
            return Some("more pools or proxies are followed or follow than there can be");
        }
        let mut names = self.pools.keys().chain(self.proxies.keys());
        if !names.all(|name| check_name("name", name).is_ok()) {
            return Some("a pool or a proxy that follows has no name");
        }
        let is_gone_late = |proxy: &SavedFollower| {
            let gone_after = proxy.gone_after_ms.map(Duration::from_millis);
            gone_after.is_some_and(|it| !GONE_AFTER.contains(&it))
        };
        if self.proxies.values().any(is_gone_late) {
            return Some("a proxy is gone too early or too late");
        }
        let is_long = |proxy: &SavedFollower| proxy.former.len() > FORMER_LIVES_MAX;
        if self.proxies.values().any(is_long) {
            return Some("a proxy has too many former lives");
        }
        (self.pools.iter()).find_map(|(pool, saved)| self.contradiction_of(pool, saved))
    }

    fn contradiction_of(&self, pool: &str, saved: &SavedChange) -> Option<&'static str> {
        let change = &saved.change;
        let step = change.step();
        if !(1..=VERSION_MAX).contains(&step.version) {
            return Some("a step's version is none");
        }
        if change.goal() < step.stage {
            return Some("a change has passed its goal");
        }
        if saved.when_warm_s.is_some_and(|it| it > WHEN_WARM_MAX_S) {
            return Some("a change waits for too long for its pool to be warm");
        }
        if let Some(ring) = &saved.ring {
            if saved.taken_over {
                return Some("a step of a ring was taken over");
            }
            if let Some(what) = ring.contradiction(step, change.goal()) {
                return Some(what);
            }
        }
        if let Some(bundle) = &saved.bundle {
            if saved.ring.is_some() {
                return Some("a pool has a ring and keeps copies");
            }
            let bundle = bundle.contradiction(step, change.goal(), saved.taken_over);
            if bundle.is_some() {
                return bundle;
            }
        }
        if let Some(scale) = &saved.scale {
            if saved.ring.is_none() {
                return Some("a pool without a ring is scaled");
            }
            if let Some(what) = scale.contradiction(pool) {
                return Some(what);
            }
        }
        let is_known = |(name, boot): (&String, BootId)| {
            let known = self.proxies.get(name);
            known.is_some_and(|known| known.boot == boot)
        };
        let followers = change.followers().iter();
        let mut lives = followers.map(|(name, follower)| (name, follower.boot));
        let is_sound = lives.all(is_known);
        (!is_sound).then_some("a proxy follows that is not known, or another life of it")
    }
}

impl Changes {
    /// Those of a former coordinator go on: each proxy was heard now, and each step was just published.
    pub(crate) fn restore(
        silent: Duration,
        lineage: u64,
        now: Instant,
        saved: SavedChanges,
    ) -> Self {
        let led = |saved: SavedChange| Led {
            change: saved.change,
            ring: saved.ring,
            bundle: saved.bundle,
            when_warm: saved.when_warm_s.map(Duration::from_secs),
            scaling: saved.scale.map(|scale| Scaling::restored(now, scale)),
            is_restored: true,
            is_taken_over: saved.taken_over,
            ..Led::new(now)
        };
        let life = |saved: SavedFollower| Life {
            boot: saved.boot,
            host: saved.host,
            port: saved.port,
            // It says it with its next heartbeat.
            control: ControlPort::new(0),
            former: saved.former,
            heard: now,
            gone_after: saved.gone_after_ms.map(Duration::from_millis),
        };
        let pools = saved.pools.into_iter();
        let proxies = saved.proxies.into_iter();
        let proxies: BTreeMap<_, _> = proxies.map(|(name, saved)| (name, life(saved))).collect();
        Changes {
            pools: pools.map(|(pool, saved)| (pool, led(saved))).collect(),
            gone_look: proxies.values().filter_map(Life::gone_at).min(),
            proxies,
            ..Changes::new(silent, lineage, now)
        }
    }

    /// What is to be saved. O(pools · proxies).
    pub(crate) fn saved(&self) -> SavedChanges {
        let change = |led: &Led| SavedChange {
            change: led.change.clone(),
            taken_over: led.is_taken_over,
            when_warm_s: led.when_warm.map(|at_most| at_most.as_secs()),
            ring: led.ring.clone(),
            bundle: led.bundle.clone(),
            scale: led.scaling.as_ref().map(|scaling| scaling.led.clone()),
        };
        let follower = |life: &Life| SavedFollower {
            boot: life.boot,
            host: life.host.clone(),
            port: life.port,
            former: life.former.clone(),
            gone_after_ms: life.gone_after.map(millis),
        };
        let (pools, proxies) = (self.pools.iter(), self.proxies.iter());
        SavedChanges {
            pools: pools
                .map(|(pool, led)| (pool.clone(), change(led)))
                .collect(),
            proxies: proxies
                .map(|(name, life)| (name.clone(), follower(life)))
                .collect(),
        }
    }
}
