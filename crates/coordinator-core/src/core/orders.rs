//! What operators order.

use evenkeel_hotkeys::settings::Settings;
use evenkeel_types::map::Migration;
use evenkeel_types::{CacheletId, Instant, Now, WorkerRef};
use serde_json::{Map, Value};

use super::CoordinatorCore;
use crate::changes::{
    BeginRequest, BundleSwitchRequest, BundleView, ChangeRefusal, ChangeView, Changes,
    ControlAnswer, ControlAsk, ForgottenPoolView, RemoveProxyRefusal, RemovedProxyView, RingCopy,
    RingMoveRequest, RingServerRequest, RingSettingsRequest, RingView,
};
use crate::duration::millis;
use crate::event::{Cause, Change};
use crate::members::{Drain, DrainRefusal, DrainRequest, DrainView, RemoveRefusal, RemovedView};
use crate::migrating::{self, MigrationRefusal, MigrationRequest, MigrationView, Order};
use crate::placing::{Moving, Purpose};
use crate::plans::{PlanRefusal, PlanSettings};
use crate::quarantine::{ReleaseRefusal, ReleasedView, check_release};
use crate::settings::{SettingsRefusal, changed, differences};

impl CoordinatorCore {
    /// Takes an operator's choices, by the names of [`SETTINGS`](crate::SETTINGS); members learn them with their next heartbeats. Gives all that hold.
    ///
    /// # Errors
    /// A choice cannot be made; then none of the change was.
    pub fn change_settings(
        &mut self,
        now: Now,
        change: &Map<String, Value>,
    ) -> Result<Settings, SettingsRefusal> {
        self.notice_pause(now.monotonic);
        let settings = changed(&self.settings, change)?;
        if settings != self.settings {
            let promised = self.settings.promise();
            for event in differences(now.unix, &self.settings, &settings) {
                self.settings_events.push(event);
            }
            self.settings = settings;
            self.revision += 1;
            if settings.promise() != promised {
                let change = Change::of_cachelets(Cause::SettingsChanged, Default::default(), 0);
                self.draft.note(change);
                self.finish(now);
            }
        }
        Ok(settings)
    }

    /// Begins or ends the drain of a server. Saying it again changes the rate.
    ///
    /// # Errors
    ///
    /// See [`DrainRefusal`]; then nothing has changed.
    pub fn handle_drain(
        &mut self,
        now: Now,
        request: &DrainRequest,
    ) -> Result<DrainView, DrainRefusal> {
        let id = self.members.check_drain(request)?;
        self.notice_pause(now.monotonic);
        let rate = request.cachelets_per_second;
        let drain = request.drain.then(|| Drain::new(now.monotonic, rate));
        self.members.set_drain(id, drain, &mut self.draft);
        self.finish(now);
        self.members.note_empty(&self.draft);
        Ok(self.members.drain_view(now.monotonic, id, &self.draft))
    }

    /// Forgets a server for an operator, who knows that its process has ended. What it owns goes to others at once.
    ///
    /// # Errors
    ///
    /// See [`RemoveRefusal`]; then nothing has changed.
    pub fn remove_server(&mut self, now: Now, name: &str) -> Result<RemovedView, RemoveRefusal> {
        let known = self.members.named(name);
        let id = known.ok_or_else(|| RemoveRefusal::UnknownServer { name: name.into() })?;
        if self.members.server(id).entry.up {
            return Err(RemoveRefusal::StillUp { name: name.into() });
        }
        let cachelets = self.draft.cachelets_of(id);
        if cachelets > 0 && self.members.takers().next().is_none() {
            let name = name.into();
            return Err(RemoveRefusal::NobodyElse { name, cachelets });
        }
        self.notice_pause(now.monotonic);
        self.members.remove(id, &mut self.draft);
        self.finish(now);
        Ok(RemovedView {
            server: name.to_owned(),
            cachelets,
        })
    }

    /// Forgets a proxy for an operator, who knows that its process has ended. Changes of pools do not wait for it any more.
    ///
    /// # Errors
    ///
    /// See [`RemoveProxyRefusal`]; then nothing has changed.
    pub fn remove_proxy(
        &mut self,
        now: Now,
        name: &str,
    ) -> Result<RemovedProxyView, RemoveProxyRefusal> {
        self.notice_pause(now.monotonic);
        let member = self.members.proxies().get(name);
        let member = member.map(|proxy| proxy.last_heard);
        let heard = member.max(self.changes.last_heard(name));
        let heard = heard.ok_or_else(|| RemoveProxyRefusal::UnknownProxy { name: name.into() })?;
        let silent = now.monotonic.since(heard);
        if silent < self.config.silent {
            return Err(RemoveProxyRefusal::StillHeard {
                name: name.into(),
                silent_ms: millis(silent),
                wanted_ms: millis(self.config.silent),
            });
        }
        self.members.remove_proxy(name);
        let pools = self.changes.remove(now, name);
        self.finish(now);
        Ok(RemovedProxyView {
            proxy: name.to_owned(),
            pools,
        })
    }

    /// The control ports of proxies that are to be asked now whether their processes are there: see [`ControlAsk`]. O(proxies).
    pub fn control_asks(&self, now: Instant) -> Vec<ControlAsk> {
        self.changes.control_asks(now)
    }

    /// What one of them has answered. A proxy that is silent, and whose process has ended, is forgotten as if an operator had
    /// [said so](Self::remove_proxy).
    pub fn handle_control(&mut self, now: Now, ask: &ControlAsk, answer: ControlAnswer) {
        self.notice_pause(now.monotonic);
        if self.changes.handle_control(now, ask, answer) {
            self.members.remove_proxy(&ask.proxy);
            self.finish(now);
        }
    }

    /// Lets the change of a pool go on to this stage, for an operator, who says how many proxies have the pool. Gives it as it is
    /// then.
    ///
    /// # Errors
    ///
    /// See [`ChangeRefusal`]; then nothing has changed.
    pub fn begin_change(
        &mut self,
        now: Now,
        pool: &str,
        request: &BeginRequest,
    ) -> Result<ChangeView, ChangeRefusal> {
        self.notice_pause(now.monotonic);
        self.changes.begin(now, pool, request)?;
        self.finish(now);
        self.change(now, pool)
    }

    /// Takes the change of a pool back, as long as there is a way back. Gives it as it is then.
    ///
    /// # Errors
    ///
    /// See [`ChangeRefusal`]; then nothing has changed.
    pub fn withdraw_change(&mut self, now: Now, pool: &str) -> Result<ChangeView, ChangeRefusal> {
        self.notice_pause(now.monotonic);
        self.changes.withdraw(now, pool)?;
        self.finish(now);
        self.change(now, pool)
    }

    /// Forgets the change of a pool that nobody follows any more, and begins anew when somebody does.
    ///
    /// # Errors
    ///
    /// See [`ChangeRefusal`]; then nothing has changed.
    pub fn forget_change(
        &mut self,
        now: Now,
        pool: &str,
    ) -> Result<ForgottenPoolView, ChangeRefusal> {
        self.notice_pause(now.monotonic);
        self.changes.forget_pool(now, pool)?;
        self.finish(now);
        let pool = pool.to_owned();
        Ok(ForgottenPoolView { pool })
    }

    /// Lets parts of a pool's ring change hands, for an operator. It begins when all proxies work by the last step of the plan before, and goes
    /// through by itself. Gives the ring as it is then.
    ///
    /// # Errors
    ///
    /// See [`ChangeRefusal`]; then nothing has changed.
    pub fn begin_ring_move(
        &mut self,
        now: Now,
        pool: &str,
        request: &RingMoveRequest,
    ) -> Result<RingView, ChangeRefusal> {
        self.order_ring(now, pool, |changes| changes.order_moves(now, pool, request))
    }

    /// A server of a pool's ring is to come or go, for an operator. Gives the ring as it is then.
    ///
    /// # Errors
    ///
    /// See [`ChangeRefusal`]; then nothing has changed.
    pub fn begin_ring_server(
        &mut self,
        now: Now,
        pool: &str,
        request: &RingServerRequest,
    ) -> Result<RingView, ChangeRefusal> {
        self.order_ring(now, pool, |changes| {
            changes.order_server(now, pool, request)
        })
    }

    /// Changes how a pool's ring follows its load, for an operator. Gives the ring as it is then.
    ///
    /// # Errors
    ///
    /// See [`ChangeRefusal`]; then nothing has changed.
    pub fn set_ring(
        &mut self,
        now: Now,
        pool: &str,
        request: &RingSettingsRequest,
    ) -> Result<RingView, ChangeRefusal> {
        self.order_ring(now, pool, |changes| changes.set_ring(pool, request))
    }

    /// The items of a ring's plan were copied so far. Once all were, the plan goes on.
    pub fn handle_copy(&mut self, now: Now, pool: &str, copy: RingCopy) {
        self.notice_pause(now.monotonic);
        self.changes.handle_copy(now, pool, copy);
        self.finish(now);
    }

    /// Executes an order about a pool's ring. Gives the ring as it is then.
    fn order_ring(
        &mut self,
        now: Now,
        pool: &str,
        order: impl FnOnce(&mut Changes) -> Result<(), ChangeRefusal>,
    ) -> Result<RingView, ChangeRefusal> {
        self.notice_pause(now.monotonic);
        order(&mut self.changes)?;
        self.finish(now);
        let view = self.changes.ring(now.monotonic, pool);
        view.ok_or_else(|| ChangeRefusal::UnknownPool { pool: pool.into() })
    }

    /// Switches copies of a pool on, for an operator who knows of this many proxies. It is done when all of these have followed, who do so by
    /// themselves. Gives the copies as they are then.
    ///
    /// # Errors
    ///
    /// See [`ChangeRefusal`]; then nothing has changed.
    pub fn switch_bundle_on(
        &mut self,
        now: Now,
        pool: &str,
        request: &BundleSwitchRequest,
    ) -> Result<BundleView, ChangeRefusal> {
        self.order_bundle(now, pool, |changes| {
            changes.switch_on(now, pool, request.proxies)
        })
    }

    /// Likewise off.
    ///
    /// # Errors
    ///
    /// See [`ChangeRefusal`]; then nothing has changed.
    pub fn switch_bundle_off(
        &mut self,
        now: Now,
        pool: &str,
        request: &BundleSwitchRequest,
    ) -> Result<BundleView, ChangeRefusal> {
        self.order_bundle(now, pool, |changes| {
            changes.switch_off(now, pool, request.proxies)
        })
    }

    fn order_bundle(
        &mut self,
        now: Now,
        pool: &str,
        order: impl FnOnce(&mut Changes) -> Result<(), ChangeRefusal>,
    ) -> Result<BundleView, ChangeRefusal> {
        self.notice_pause(now.monotonic);
        order(&mut self.changes)?;
        self.finish(now);
        let view = self.changes.bundle(now.monotonic, pool);
        view.ok_or_else(|| ChangeRefusal::UnknownPool { pool: pool.into() })
    }

    fn change(&self, now: Now, pool: &str) -> Result<ChangeView, ChangeRefusal> {
        let view = self.changes.view(now.monotonic, pool);
        view.ok_or_else(|| ChangeRefusal::UnknownPool { pool: pool.into() })
    }

    /// Lets a cachelet have an owner again, for an operator.
    ///
    /// # Errors
    ///
    /// See [`ReleaseRefusal`].
    pub fn release_cachelet(
        &mut self,
        now: Now,
        cachelet: CacheletId,
    ) -> Result<ReleasedView, ReleaseRefusal> {
        check_release(&self.draft, cachelet)?;
        self.notice_pause(now.monotonic);
        self.draft.end_quarantine(cachelet);
        self.finish(now);
        Ok(ReleasedView {
            cachelet,
            epoch: self.epoch(),
        })
    }

    /// Orders that a cachelet pass to a worker of another server, with its contents, of which at most
    /// this many bytes are copied in a second (0: no limit).
    ///
    /// # Errors
    ///
    /// See [`MigrationRefusal`]; then nothing has changed.
    pub fn begin_migration(
        &mut self,
        now: Now,
        cachelet: CacheletId,
        to: WorkerRef,
        bytes_per_second: u64,
    ) -> Result<Migration, MigrationRefusal> {
        self.notice_pause(now.monotonic);
        let order = Order {
            cachelet,
            to,
            bytes_per_second,
            purpose: Purpose::Load,
        };
        let migrations = &mut self.migrations;
        let begun = migrations.begin(now.monotonic, &order, &self.members, &mut self.draft);
        self.finish(now);
        begun
    }

    /// The same, of a worker that is named. An order that stands already is answered with its migration: who ordered may not have heard
    /// what became of it, and asks again.
    ///
    /// # Errors
    ///
    /// See [`MigrationRefusal`]; then nothing has changed.
    pub fn handle_migration(
        &mut self,
        now: Now,
        request: &MigrationRequest,
    ) -> Result<MigrationView, MigrationRefusal> {
        let to = self.members.worker_named(&request.to);
        let to = to.ok_or_else(|| MigrationRefusal::UnknownWorker {
            worker: request.to.to_string(),
        })?;
        let cachelet = request.cachelet;
        let ordered = |moving: &Moving| {
            moving.to == to
                && moving.bytes_per_second == request.bytes_per_second
                && !moving.cancelled
        };
        if !self.draft.moving(cachelet).is_some_and(|it| ordered(&it)) {
            self.begin_migration(now, cachelet, to, request.bytes_per_second)?;
        }
        let (members, draft) = (&self.members, &self.draft);
        let view = (self.migrations).view(now.monotonic, cachelet, members, draft);
        view.ok_or(MigrationRefusal::NotMoving { cachelet })
    }

    /// Wishes that a migration be given up. Its source says whether that came in time.
    ///
    /// # Errors
    ///
    /// The cachelet is not moving.
    pub fn cancel_migration(
        &mut self,
        now: Now,
        cachelet: CacheletId,
    ) -> Result<(), MigrationRefusal> {
        self.notice_pause(now.monotonic);
        let is_moving = self.draft.moving(cachelet).is_some();
        migrating::cancel(cachelet, &mut self.draft);
        self.finish(now);
        match is_moving {
            true => Ok(()),
            false => Err(MigrationRefusal::NotMoving { cachelet }),
        }
    }

    /// Takes an operator's choice of what becomes of plans.
    ///
    /// # Errors
    ///
    /// A value is out of range; then nothing has changed.
    pub fn set_plan_settings(&mut self, settings: PlanSettings) -> Result<(), PlanRefusal> {
        self.revision += u64::from(self.plans.set_settings(settings)?);
        Ok(())
    }

    /// Approves a plan; it is checked and executed at once.
    ///
    /// # Errors
    ///
    /// It is unknown, or not proposed.
    pub fn approve_plan(&mut self, now: Now, id: u64) -> Result<(), PlanRefusal> {
        self.notice_pause(now.monotonic);
        let approved = self.plans.approve(now, id);
        self.revision += u64::from(approved.is_ok());
        self.finish(now);
        approved
    }

    /// Gives a plan up. Moves that are under way are cancelled, which their sources may find too late; what has
    /// moved stays where it is.
    ///
    /// # Errors
    ///
    /// It is unknown, or over.
    pub fn cancel_plan(&mut self, now: Now, id: u64) -> Result<(), PlanRefusal> {
        self.notice_pause(now.monotonic);
        let cancelled = self.plans.cancel(now, id, &mut self.draft);
        self.revision += u64::from(cancelled.is_ok());
        self.finish(now);
        cancelled
    }
}
