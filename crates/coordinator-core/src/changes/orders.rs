//! What operators order of changes.

use core::time::Duration;

use evenkeel_schemes::stage::Stage;
use evenkeel_types::{Instant, Now};

use super::{BeginRequest, ChangeNews, ChangeRefusal, Changes, Led};
use crate::limits::WHEN_WARM_MAX_S;

impl Changes {
    pub(super) fn led(&mut self, pool: &str) -> Result<&mut Led, ChangeRefusal> {
        let led = self.pools.get_mut(pool);
        led.ok_or_else(|| ChangeRefusal::UnknownPool { pool: pool.into() })
    }

    /// A change with plans of which an operator may order something who knows of this many proxies.
    pub(super) fn led_for(&mut self, pool: &str, said: usize) -> Result<&mut Led, ChangeRefusal> {
        if let Some(proxy) = self.strangers.of(pool) {
            let (pool, proxy) = (pool.to_owned(), proxy.to_owned());
            return Err(ChangeRefusal::Stranger { pool, proxy });
        }
        if said == 0 {
            return Err(ChangeRefusal::NoProxies);
        }
        let led = self.led(pool)?;
        let known = led.change.followers().len();
        if known != said {
            let pool = pool.to_owned();
            return Err(ChangeRefusal::OtherCount { pool, known, said });
        }
        Ok(led)
    }

    /// A pool's change is to go on.
    pub(crate) fn begin(
        &mut self,
        now: Now,
        pool: &str,
        &BeginRequest {
            goal,
            proxies,
            when_warm_s,
        }: &BeginRequest,
    ) -> Result<(), ChangeRefusal> {
        if !matches!(goal, Stage::Warming | Stage::Done) {
            return Err(ChangeRefusal::BadGoal { goal });
        }
        if let Some(seconds) = when_warm_s
            && (goal != Stage::Done || !(1..=WHEN_WARM_MAX_S).contains(&seconds))
        {
            return Err(ChangeRefusal::BadWarming);
        }
        if proxies == 0 {
            return Err(ChangeRefusal::NoProxies);
        }
        let led = self.led(pool)?;
        if led.ring.is_some() {
            return Err(ChangeRefusal::HasRing { pool: pool.into() });
        }
        if led.bundle.is_some() {
            return Err(ChangeRefusal::HasBundle { pool: pool.into() });
        }
        let set = led.change.set_goal(goal, proxies);
        set.map_err(|refused| ChangeRefusal::of(pool, proxies, &refused))?;
        led.when_warm = when_warm_s.map(Duration::from_secs);
        if core::mem::take(&mut led.is_taken_over) {
            // From now on it may be overdue: the proxies get their time to follow.
            led.since = now.monotonic;
        }
        let step = led.change.step();
        self.journal.note_goal(now, pool, goal, step);
        self.go_on(now, pool);
        Ok(())
    }

    /// Takes a pool's change back.
    pub(crate) fn withdraw(&mut self, now: Now, pool: &str) -> Result<(), ChangeRefusal> {
        let led = self.led(pool)?;
        if led.bundle.is_some() {
            return Err(ChangeRefusal::HasBundle { pool: pool.into() });
        }
        let before = led.change.step();
        let stage = before.stage;
        if led.is_taken_over && stage == Stage::Quiesced {
            let pool = pool.to_owned();
            return Err(ChangeRefusal::Unconfirmed { pool, stage });
        }
        let followers = led.change.followers().len();
        // What waits to begin has not gone anywhere yet.
        let waited = led.ring.as_mut().and_then(|ring| ring.waiting.take());
        if waited.is_none() {
            let withdrawn = led.change.withdraw();
            withdrawn.map_err(|refused| ChangeRefusal::of(pool, followers, &refused))?;
        }
        let step = led.change.step();
        if step != before {
            led.since = now.monotonic;
        }
        let whom = Vec::new();
        (self.journal).note(now, pool, ChangeNews::Withdrawn, whom, step);
        self.go_on(now, pool);
        Ok(())
    }

    /// Forgets a pool's change that nobody follows any more.
    pub(crate) fn forget_pool(&mut self, now: Now, pool: &str) -> Result<(), ChangeRefusal> {
        let led = self.led(pool)?;
        let known = led.change.followers().len();
        if known > 0 {
            let pool = pool.to_owned();
            return Err(ChangeRefusal::StillFollowed { pool, known });
        }
        let step = led.change.step();
        self.pools.remove(pool);
        let whom = Vec::new();
        (self.journal).note(now, pool, ChangeNews::PoolForgotten, whom, step);
        Ok(())
    }

    /// When a proxy was last heard that follows a pool, or was refused because of its plan.
    pub(crate) fn last_heard(&self, proxy: &str) -> Option<Instant> {
        let known = self.proxies.get(proxy).map(|life| life.heard);
        known.max(self.strangers.last_heard(proxy))
    }

    /// The process of a proxy has ended, as an operator says. Gives the pools that it followed.
    pub(crate) fn remove(&mut self, now: Now, proxy: &str) -> Vec<String> {
        self.strangers.forget(proxy, |_| true);
        self.forget_proxy(now, proxy, ChangeNews::ProxyRemoved)
    }
}
