//! Items of a ring that nobody asks for: they come along all the same, where an operator has said how many a second.
//!
//! While a plan is `warming`, the process around the core has the servers that give list what they have, and asks a proxy for what moves, which
//! brings each item as it does for any application. So there is no other way to copy an item than the one that applications use.
//! Here is what is to be copied, and how far that is. The plan goes on when all was asked for, and after [`RING_WARMING_MAX`] at the latest; where
//! not all can be asked for, as if nothing was to be copied.
//!
//! Nothing of it is saved: another leader begins anew, and what is at its new place by then is asked for once more.

use core::time::Duration;
use std::sync::Arc;

use evenkeel_control::rings::RingPlan;
use evenkeel_schemes::stage::Stage;
use evenkeel_types::{Instant, Now};

use super::{Changes, Led, LedRing, RingCopy};
use crate::limits::RING_WARMING_MAX;

/// A plan whose items are to be copied.
#[derive(Clone, Debug)]
pub struct CopyWork {
    /// The pool.
    pub pool: String,
    /// The plan.
    pub plan: Arc<RingPlan>,
    /// Where a proxy of the pool listens that is heard, as host and port. `None` where none does that listens on TCP.
    pub proxy: Option<(String, u16)>,
    /// Most keys that are to be asked for in a second.
    pub keys_per_second: u32,
}

impl Led {
    /// For how long the plan stands at `warming` at most. `None`: no longer than it does by now.
    pub(super) fn warming(&self, ring: &LedRing) -> Option<Duration> {
        match (ring.settings.copy_keys_per_second, self.copy_of(ring)) {
            (0, _) => Some(ring.settings.warming()),
            (_, Some(copy)) if copy.is_whole() => None,
            (_, Some(copy)) if copy.is_over => Some(ring.settings.warming()),
            _ => Some(RING_WARMING_MAX),
        }
    }

    /// How far the copying of the newest plan is, if it was begun.
    pub(super) fn copy_of(&self, ring: &LedRing) -> Option<&RingCopy> {
        let copy = self.copy.as_ref();
        copy.filter(|copy| copy.plan == ring.plan.number)
    }

    fn is_warming(&self) -> bool {
        self.change.is_under_way() && self.change.step().stage == Stage::Warming
    }

    /// What is said of the copying that it waits for, if it does.
    pub(super) fn copying(&self, now: Instant) -> Option<String> {
        let ring = self.ring.as_ref().filter(|ring| self.awaits_copy(ring))?;
        let servers = self.copy_of(ring).into_iter().flat_map(|it| &it.servers);
        let asked: u64 = servers.map(|it| it.moving).sum();
        let left = RING_WARMING_MAX.saturating_sub(now.since(self.since));
        Some(format!(
            "asks for all items that move, {asked} by now; it goes on then, and in {} s at the latest",
            left.as_secs()
        ))
    }

    /// Whether items are to be copied at present.
    fn awaits_copy(&self, ring: &LedRing) -> bool {
        let is_wanted = ring.settings.copy_keys_per_second > 0 && !ring.plan.is_loss();
        let is_over = self.copy_of(ring).is_some_and(|copy| copy.is_over);
        is_wanted && self.is_warming() && !self.has_dead && !is_over
    }
}

impl Changes {
    /// What is to be copied at present. O(pools · proxies).
    pub(crate) fn copy_work(&self, now: Instant) -> Vec<CopyWork> {
        let pools = self.pools.iter().filter_map(|(pool, led)| {
            let ring = led.ring.as_ref().filter(|ring| led.awaits_copy(ring))?;
            Some(CopyWork {
                pool: pool.clone(),
                plan: Arc::clone(&ring.plan),
                proxy: self.heard_proxy(now, led),
                keys_per_second: ring.settings.copy_keys_per_second,
            })
        });
        pools.collect()
    }

    /// Where a proxy listens that follows and is heard.
    fn heard_proxy(&self, now: Instant, led: &Led) -> Option<(String, u16)> {
        let mut followers = led.change.followers().keys();
        followers.find_map(|name| {
            let life = self.proxies.get(name)?;
            let is_of_use = life.port > 0 && !self.is_silent(now, name);
            is_of_use.then(|| (life.host.clone(), life.port))
        })
    }

    /// The copying of a plan has come this far. If that plan does not warm any more, it says nothing.
    pub(crate) fn handle_copy(&mut self, now: Now, pool: &str, copy: RingCopy) {
        let Some(led) = self.pools.get_mut(pool) else {
            return;
        };
        let plan = led.ring.as_ref().map(|ring| ring.plan.number);
        if led.is_warming() && plan == Some(copy.plan) {
            let before = led.copy.as_ref().filter(|before| before.plan == copy.plan);
            self.journal.counts.copied.add(before, &copy);
            led.copy = Some(copy);
            self.go_on(now, pool);
        }
    }
}
