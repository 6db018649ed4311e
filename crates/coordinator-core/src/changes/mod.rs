//! Changes of pools that pass from former servers to their own: who follows them, and when they go on.
//!
//! [`Change`] is the leader of one pool's change. Here is what it does not know: which process has a proxy's name, when that was
//! heard, since when a step stands, and what an operator wants.
//!
//! ```text
//!                 begin                all have                 all have               begin
//!   former ─────────────────> quiesced ────────> warming ··· (goal) ────────> closing ────────> done
//!      ^                         │     acknowledged                 acknowledged
//!      └── PAUSE_MAX, withdraw ──┘
//! ```
//!
//! Rules that hold at all times:
//!
//! - Each change of a step, a goal or of who follows is to be saved before anybody is told
//!   ([`take_news`](Changes::take_news)).
//! - A proxy's name has one holder, as a server's. A process that was replaced stays replaced, and is told so.
//! - Requests wait in `quiesced`, so everybody reports [often](crate::limits::INTERVAL_CHANGING) before it begins, and it is
//!   withdrawn when it takes [too long](PAUSE_MAX). While a proxy is silent nothing can go on, and nobody reports often.
//! - Placeholders of commands that were given up live for two seconds, so `closing` lasts for [three](CLOSING_MIN): in `done` nobody looks
//!   at them any more before a command.
//! - What was taken over from a proxy may not be the newest step that somebody was told. So a change that was taken over is neither
//!   gone on with nor withdrawn before an operator has said how many proxies there are, and all of these have been heard.
//! - A coordinator that begins without a state tells nobody that a pool is at its beginning before it has been there for [a while](YOUNG_FOR):
//!   proxies that know better call again within that time.
//! - A change that is done stays known when all proxies have ended: they come back and must not begin with the former servers. An operator
//!   [forgets](Changes::forget_pool) it.
//!
//! A pool whose hash space follows the load goes through the same stages with each plan of its ring: see `rings.rs`. So does one that keeps
//! copies, with each plan by which these are switched on and off: see `bundles.rs`.

mod bundle_orders;
mod bundle_view;
mod bundles;
mod control_port;
mod ended;
mod event;
mod led;
mod orders;
mod refusal;
mod ring_copy;
mod ring_copying;
mod ring_orders;
mod ring_reach;
mod ring_servers;
mod ring_slots;
mod ring_steps;
mod ring_view;
mod rings;
mod saved;
mod scaling;
mod view;
mod words;

use crate::limits::CHANGE_EVENTS_MAX;
use crate::recent::Recent;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use evenkeel_control::{FollowedPool, Heartbeat, PoolStep, Refusal};
use evenkeel_schemes::change::{Change, Followed, VERSION_MAX};
use evenkeel_schemes::stage::Step;
use evenkeel_types::{BootId, Instant, Now};

use crate::limits::{
    FOLLOWED_POOLS_MAX, FORMER_LIVES_MAX, NAME_HELD_PER_SILENCE, PAUSE_MAX, PROXIES_MAX, YOUNG_FOR,
};
use control_port::ControlPort;
use event::Journal;
use led::Led;
use rings::Strangers;

pub use bundle_orders::BundleSwitchRequest;
pub use bundle_view::{BundleView, BundleWishView, BundlesView};
pub use bundles::LedBundle;
pub use control_port::{ControlAnswer, ControlAsk};
pub use event::{ChangeCounts, ChangeEvent, ChangeEventsBody, ChangeNews};
pub use refusal::{BadMoves, ChangeRefusal, RemoveProxyRefusal};
pub use ring_copy::{CopiedServer, RingCopy};
pub use ring_copying::CopyWork;
pub use ring_orders::{GrainsMove, RingMoveRequest};
pub use ring_servers::{RingServerRequest, RingUnreachedView, ServerOrder};
pub use ring_slots::{RingMode, RingOutcome, RingSettings, RingSettingsRequest};
pub use ring_view::{
    OverloadedServerView, RingLoadView, RingMoveView, RingServerView, RingSlotView, RingView,
    RingsView,
};
pub use rings::LedRing;
pub use saved::{SavedChange, SavedChanges, SavedFollower};
pub use view::{
    BeginRequest, ChangeView, ChangesView, FollowerView, ForgottenPoolView, PlanServerView,
    PlanView, RemovedProxyView,
};

/// Newest version that is taken over from a proxy: as many again are left for what follows.
const TAKEN_OVER_MAX: u64 = VERSION_MAX / 2;

/// The changes of all pools.
#[derive(Debug)]
pub(crate) struct Changes {
    /// A proxy silent for this long is down.
    silent: Duration,
    /// When this process began.
    began: Instant,
    /// The coordinator's.
    lineage: u64,
    /// By the pool's name. At most [`FOLLOWED_POOLS_MAX`].
    pools: BTreeMap<String, Led>,
    /// Those that follow, by name. At most [`PROXIES_MAX`].
    proxies: BTreeMap<String, Life>,
    /// None of them is gone before: when to look. `None` where none can be.
    gone_look: Option<Instant>,
    strangers: Strangers,
    journal: Journal,
}

/// The process that has a proxy's name.
#[derive(Debug)]
struct Life {
    boot: BootId,
    host: String,
    /// 0 for none.
    port: u16,
    control: ControlPort,
    /// Those that had the name before, the latest last. At most [`FORMER_LIVES_MAX`].
    former: Vec<BootId>,
    heard: Instant,
    /// How long it must not have been heard to be [gone](evenkeel_control::gone).
    gone_after: Option<Duration>,
}

impl Life {
    fn new(now: Instant, heartbeat: &Heartbeat, former: Vec<BootId>) -> Self {
        Life {
            boot: heartbeat.boot,
            host: heartbeat.host.clone(),
            port: heartbeat.port,
            control: ControlPort::new(heartbeat.control_port),
            former,
            heard: now,
            gone_after: heartbeat.gone_after(),
        }
    }

    /// When it is gone, if it is not heard before.
    fn gone_at(&self) -> Option<Instant> {
        Some(self.heard + self.gone_after?)
    }

    /// It speaks: whatever its control port has refused was not the end.
    fn note_heard(&mut self, now: Instant, heartbeat: &Heartbeat) {
        self.heard = now;
        self.control.note_heard(heartbeat.control_port);
    }

    /// Passes the name on to the process that has sent this.
    fn pass_on(&mut self, now: Instant, heartbeat: &Heartbeat) {
        let mut former = core::mem::take(&mut self.former);
        if former.len() == FORMER_LIVES_MAX {
            former.remove(0);
        }
        former.push(self.boot);
        *self = Life::new(now, heartbeat, former);
    }
}

impl Changes {
    /// Nobody follows anything.
    pub(crate) fn new(silent: Duration, lineage: u64, now: Instant) -> Self {
        Changes {
            silent,
            began: now,
            lineage,
            pools: BTreeMap::new(),
            proxies: BTreeMap::new(),
            gone_look: None,
            strangers: Strangers::default(),
            journal: Journal::default(),
        }
    }

    /// Whether what a proxy says can be used. O(pools), and O(points) for each ring that there is not yet.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self, now: Instant, heartbeat: &Heartbeat) -> Result<(), Refusal> {
        if heartbeat.leaves {
            return Ok(());
        }
        self.check_name(now, heartbeat)?;
        let mut listed = BTreeSet::new();
        for followed in &heartbeat.pools {
            if !listed.insert(&followed.pool) || self.is_foreign(heartbeat.boot, followed) {
                let pool = followed.pool.clone();
                return Err(Refusal::ForeignStep { pool });
            }
            self.check_ring(followed)?;
            self.check_bundle(followed)?;
        }
        let is_new = |pool: &&&String| !self.pools.contains_key(**pool);
        let count = self.pools.len() + listed.iter().filter(is_new).count();
        match count <= FOLLOWED_POOLS_MAX {
            true => Ok(()),
            false => Err(Refusal::TooManyPools { count }),
        }
    }

    fn check_name(&self, now: Instant, heartbeat: &Heartbeat) -> Result<(), Refusal> {
        let name = &heartbeat.name;
        let follows = !heartbeat.pools.is_empty();
        let Some(holder) = self.proxies.get(name) else {
            return match follows && self.proxies.len() >= PROXIES_MAX {
                true => Err(Refusal::TooManyProxies),
                false => Ok(()),
            };
        };
        if holder.former.contains(&heartbeat.boot) {
            return Err(Refusal::DuplicateName {
                name: name.clone(),
                boot: heartbeat.boot,
            });
        }
        let is_alive = now.since(holder.heard) < self.silent / NAME_HELD_PER_SILENCE;
        if follows && holder.boot != heartbeat.boot && is_alive {
            return Err(Refusal::NameTaken {
                name: name.clone(),
                host: holder.host.clone(),
                port: holder.port,
            });
        }
        Ok(())
    }

    /// Whether a proxy says of a pool what nobody can have told it, or a version so great that few are left.
    fn is_foreign(&self, boot: BootId, followed: &FollowedPool) -> bool {
        let known = self.pools.get(&followed.pool).map(|led| &led.change);
        let fresh = Change::default();
        let change = known.unwrap_or(&fresh);
        let told = followed.told.map_or(0, |step| step.version);
        let is_too_great = told > TAKEN_OVER_MAX.max(change.step().version);
        is_too_great || change.check(&said(boot, followed)).is_err()
    }

    /// Takes in what a proxy says, which was [checked](Self::check), and goes on with what waited for it. O(pools · log proxies), and
    /// O(proxies) for each change that is under way.
    pub(crate) fn handle(&mut self, now: Now, heartbeat: &Heartbeat) {
        let name = &heartbeat.name;
        let known = self.proxies.get(name).map(|life| life.boot);
        let is_holder = known == Some(heartbeat.boot);
        let is_life = |boot| !heartbeat.leaves || boot == heartbeat.boot;
        self.strangers.forget(name, is_life);
        if heartbeat.leaves {
            if is_holder {
                self.forget_proxy(now, name, ChangeNews::ProxyLeft);
            }
            return;
        }
        // Who follows nothing takes no name from who does.
        if !is_holder && heartbeat.pools.is_empty() {
            return;
        }
        let was_silent = self.is_silent(now.monotonic, name);
        self.meet(now.monotonic, heartbeat);
        if was_silent {
            self.look(now.monotonic);
        }
        self.drop_unlisted(now, heartbeat);
        for followed in &heartbeat.pools {
            self.handle_followed(now, heartbeat, followed);
            self.go_on(now, &followed.pool);
        }
    }

    /// The name is of the process that has sent this.
    fn meet(&mut self, now: Instant, heartbeat: &Heartbeat) {
        match self.proxies.get_mut(&heartbeat.name) {
            Some(life) if life.boot == heartbeat.boot => life.note_heard(now, heartbeat),
            Some(life) => {
                life.pass_on(now, heartbeat);
                self.journal.has_news = true;
            }
            None => {
                let life = Life::new(now, heartbeat, Vec::new());
                self.proxies.insert(heartbeat.name.clone(), life);
                self.journal.has_news = true;
            }
        }
        let gone_at = heartbeat.gone_after().map(|after| now + after);
        self.gone_look = self.gone_look.into_iter().chain(gone_at).min();
    }

    /// A proxy follows only what it names.
    fn drop_unlisted(&mut self, now: Now, heartbeat: &Heartbeat) {
        let name = heartbeat.name.as_str();
        let is_listed = |pool: &str| heartbeat.pools.iter().any(|listed| listed.pool == pool);
        let followed = self.followed_by(name);
        for pool in followed.iter().filter(|pool| !is_listed(pool)) {
            self.drop_follower(now, pool, name, ChangeNews::ProxyLeft);
        }
        if heartbeat.pools.is_empty() {
            self.proxies.remove(name);
        }
    }

    fn followed_by(&self, proxy: &str) -> Vec<String> {
        let followed = self.pools.iter();
        let followed = followed.filter(|(_, led)| led.change.followers().contains_key(proxy));
        followed.map(|(pool, _)| pool.clone()).collect()
    }

    fn handle_followed(&mut self, now: Now, heartbeat: &Heartbeat, followed: &FollowedPool) {
        let (pool, name) = (&followed.pool, &heartbeat.name);
        if let Some(theirs) = &followed.ring
            && !self.make_ring(now, pool, theirs)
        {
            return;
        }
        let led = self.pools.entry(pool.clone());
        let led = led.or_insert_with(|| Led {
            bundle: followed.bundle.map(|_| LedBundle::default()),
            ..Led::new(now.monotonic)
        });
        let (before, known) = (led.change.step(), led.boot_of(name));
        if known != Some(heartbeat.boot) {
            led.forget_proxy(name);
        }
        if let (Some(bundle), Some(theirs)) = (&mut led.bundle, &followed.bundle) {
            let told = followed.told.map_or(0, |step| step.version);
            bundle.handle(name, theirs, told > before.version);
        }
        led.handle_reach(now.monotonic, name, followed);
        if !led.handle_counts(name, heartbeat.boot, followed) {
            self.journal.counts.ring_reports_void += 1;
        }
        let has_news = led.change.handle(name, said(heartbeat.boot, followed));
        led.handle_found(now.monotonic, name, followed);
        // What makes no sense was refused before.
        if has_news != Ok(true) {
            return;
        }
        self.journal.has_news = true;
        let step = led.change.step();
        if step != before {
            led.since = now.monotonic;
            led.is_taken_over = true;
            let from = vec![name.clone()];
            (self.journal).note(now, pool, ChangeNews::TakenOver, from, step);
        }
        let news = match known {
            None => ChangeNews::ProxyJoined,
            Some(boot) if boot != heartbeat.boot => ChangeNews::ProxyReplaced,
            Some(_) => return,
        };
        (self.journal).note(now, pool, news, vec![name.clone()], step);
    }

    /// A proxy follows nothing any more. Gives what it followed.
    fn forget_proxy(&mut self, now: Now, name: &str, why: ChangeNews) -> Vec<String> {
        let followed = self.followed_by(name);
        for pool in &followed {
            self.drop_follower(now, pool, name, why);
        }
        self.journal.has_news |= self.proxies.remove(name).is_some();
        followed
    }

    /// A proxy does not follow a pool any more, and what waited for it goes on.
    fn drop_follower(&mut self, now: Now, pool: &str, name: &str, why: ChangeNews) {
        let Some(led) = self.pools.get_mut(pool) else {
            return;
        };
        led.forget_proxy(name);
        if led.change.forget(name) {
            let step = led.change.step();
            (self.journal).note(now, pool, why, vec![name.to_owned()], step);
        }
        self.look(now.monotonic);
        self.go_on(now, pool);
    }

    /// Looks who is silent, or does not take a plan over. O(pools · proxies).
    pub(crate) fn look(&mut self, now: Instant) {
        let is_held_up = |led: &Led| {
            let waits = led.change.is_under_way() && !led.lets_wait();
            let mut names = led.change.followers().keys();
            waits && (led.awaits_odd() || names.any(|name| self.is_silent(now, name)))
        };
        let held_up: Vec<bool> = self.pools.values().map(is_held_up).collect();
        for (led, is_held_up) in self.pools.values_mut().zip(held_up) {
            led.hold_up(is_held_up);
        }
    }

    fn is_silent(&self, now: Instant, proxy: &str) -> bool {
        let life = self.proxies.get(proxy);
        life.is_some_and(|life| now.since(life.heard) >= self.silent)
    }

    /// Publishes what nobody holds up, and forgets a change of which nothing is left.
    fn go_on(&mut self, now: Now, pool: &str) {
        let Some(led) = self.pools.get_mut(pool) else {
            return;
        };
        if led.begin_plan() {
            led.since = now.monotonic;
            let number = led.ring.as_ref().map_or(0, |ring| ring.plan.number);
            (self.journal).note_plan(now, pool, ChangeNews::PlanBegun, number, led.change.step());
        }
        while led.may_go_on(now.monotonic) && led.change.advance() {
            led.since = now.monotonic;
            let step = led.change.step();
            (self.journal).note(now, pool, ChangeNews::StepPublished, Vec::new(), step);
        }
        if led.is_over() {
            self.pools.remove(pool);
            self.journal.has_news = true;
        }
    }

    /// Goes on with what has rested, and withdraws what lets requests wait for too long. Gives the proxies that are gone. O(pools).
    pub(crate) fn tend(&mut self, now: Now) -> Vec<String> {
        let gone = self.forget_gone(now);
        self.look_at_servers(now);
        let has_rested = |(_, led): &(&String, &Led)| {
            let until = led.rests_until();
            led.change.is_under_way() && until.is_some_and(|until| until <= now.monotonic)
        };
        let rested = self.pools.iter().filter(has_rested);
        let rested: Vec<String> = rested.map(|(pool, _)| pool.clone()).collect();
        for pool in rested {
            self.go_on(now, &pool);
        }
        let is_overdue = |(_, led): &(&String, &Led)| led.is_overdue(now.monotonic);
        let overdue = self.pools.iter().filter(is_overdue);
        let overdue: Vec<String> = overdue.map(|(pool, _)| pool.clone()).collect();
        for pool in overdue {
            self.withdraw_overdue(now, &pool);
        }
        self.end_slots(now);
        gone
    }

    fn withdraw_overdue(&mut self, now: Now, pool: &str) {
        let Some(led) = self.pools.get_mut(pool) else {
            return;
        };
        let change = &mut led.change;
        let version = change.step().version;
        let is_late =
            |f: &evenkeel_schemes::change::Follower| f.acknowledged < version || !f.hurries;
        let late = change.followers().iter().filter(|(_, f)| is_late(f));
        let late = late.map(|(name, _)| name.clone()).collect();
        if change.withdraw().is_ok() {
            led.since = now.monotonic;
            let step = change.step();
            (self.journal).note(now, pool, ChangeNews::WithdrawnUnacknowledged, late, step);
        }
        self.go_on(now, pool);
    }

    /// When [`tend`](Self::tend) has something to do at the latest.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let overdue = self.pools.values().filter(|led| led.may_be_overdue());
        let overdue = overdue.map(|led| led.since + PAUSE_MAX);
        let resting = self.pools.values().filter(|led| led.change.is_under_way());
        let resting = resting.filter_map(Led::rests_until);
        let resting = resting.filter(|until| *until > now);
        let slots = self.pools.values().filter_map(Led::slot_ends);
        let dead = self
            .pools
            .values()
            .filter_map(|led| led.may_be_dead_at(now));
        let others = slots.chain(dead).chain(self.gone_look);
        overdue.chain(resting).chain(others).min()
    }

    /// What a proxy is told, whose heartbeat was taken in, and whether it is to report
    /// [often](crate::limits::INTERVAL_CHANGING).
    pub(crate) fn answer(&mut self, now: Instant, heartbeat: &Heartbeat) -> (Vec<PoolStep>, bool) {
        let name = &heartbeat.name;
        let mut steps = Vec::new();
        let mut hurries = false;
        let mut has_room = true;
        for followed in &heartbeat.pools {
            let is_strange = self.strangers.of(&followed.pool).is_some();
            let Some(led) = self.pools.get_mut(&followed.pool) else {
                continue;
            };
            // Who has just left is told nothing.
            if led.boot_of(name) != Some(heartbeat.boot) {
                continue;
            }
            // Nor is who begins, as long as others may be about to say that the pool is further.
            let is_young = now.since(self.began) < YOUNG_FOR && !led.is_restored;
            if is_young && followed.told.is_none() && led.change.step() == Step::FIRST {
                continue;
            }
            if followed.told.is_none() && led.has_plans() && is_strange {
                continue;
            }
            hurries |= led.is_changing(now);
            // An answer has room for one plan. Who is told of others asks again soon.
            match led.told(heartbeat, followed, has_room) {
                Some(told) => {
                    has_room &= told.ring.as_ref().is_none_or(|ring| ring.plan.is_none());
                    steps.push(told);
                }
                None => hurries = true,
            }
        }
        if hurries {
            self.note_hurried(now, heartbeat);
        }
        (steps, hurries)
    }

    fn note_hurried(&mut self, now: Instant, heartbeat: &Heartbeat) {
        for followed in &heartbeat.pools {
            let led = self.pools.get_mut(&followed.pool);
            if let Some(led) = led.filter(|led| led.is_changing(now)) {
                led.change.note_hurried(&heartbeat.name);
            }
        }
    }

    /// The coordinator itself has not run for a while: nobody was silent because of that.
    pub(crate) fn notice_pause(&mut self, now: Instant) {
        for life in self.proxies.values_mut() {
            life.heard = now;
        }
        for led in self.pools.values_mut() {
            led.reach.notice_pause(now);
            if let Some(scaling) = &mut led.scaling {
                scaling.notice_pause(now);
            }
        }
        self.strangers.notice_pause(now);
    }

    /// Whether something is to be saved since this was last asked.
    pub(crate) fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.journal.has_news)
    }

    /// The last [`CHANGE_EVENTS_MAX`](crate::limits::CHANGE_EVENTS_MAX) events, oldest first.
    pub(crate) fn events(&self) -> &Recent<ChangeEvent, CHANGE_EVENTS_MAX> {
        &self.journal.events
    }

    /// Counts since the process started.
    pub(crate) fn counts(&self) -> ChangeCounts {
        self.journal.counts
    }
}

/// What a proxy says of a pool.
fn said(boot: BootId, followed: &FollowedPool) -> Followed {
    Followed {
        boot,
        told: followed.told,
        acknowledged: followed.acknowledged,
    }
}
