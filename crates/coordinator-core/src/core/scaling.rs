//! Autoscaling: once a second, and after each act, it is decided what is next, of the cluster and of each ring.
//!
//! What an actuator is to do is only asked for here ([`scale_work`](CoordinatorCore::scale_work)): anyone who asks is answered when all is
//! saved. What is asked of members and of rings is ordered at once, and saved together with the phase that asks for it.
//!
//! A pool is meant by its name, and the cluster by its own.

use std::collections::BTreeMap;

use evenkeel_types::{Instant, Now};

use super::CoordinatorCore;
use crate::changes::ChangeRefusal;
use crate::cluster_scale::{Cluster, ClusterScale};
use crate::limits;
use crate::recent::Recent;
use crate::scale::{
    Act, Outcome, ScaleCounts, ScaleEvent, ScaleSettings, ScaleTryView, ScaleView, ScaleWork,
    ScalesView, Seen,
};

impl CoordinatorCore {
    /// Changes how the number of servers of a pool's ring, or of the cluster, follows what is measured, for an operator. Gives how it stands then.
    ///
    /// # Errors
    ///
    /// See [`ChangeRefusal`]; then nothing has changed.
    pub fn set_scale(
        &mut self,
        now: Now,
        pool: &str,
        settings: &ScaleSettings,
    ) -> Result<ScaleView, ChangeRefusal> {
        self.notice_pause(now.monotonic);
        if pool == self.config.cluster {
            self.cluster_scale.set(pool, settings)?;
            self.revision += 1;
            self.scale_cluster(now, None, false);
        } else {
            self.changes
                .set_scale(now, pool, settings, &mut self.scaled)?;
        }
        self.ordered(now, pool)
    }

    /// Lets autoscaling do what it asks for, for an operator. Gives how it stands then.
    ///
    /// # Errors
    ///
    /// Nothing waits for it.
    pub fn approve_scale(&mut self, now: Now, pool: &str) -> Result<ScaleView, ChangeRefusal> {
        self.notice_pause(now.monotonic);
        if pool != self.config.cluster {
            self.changes.approve_scale(now, pool, &mut self.scaled)?;
        } else if self.cluster_scale.waits_for_approval(now.monotonic) {
            self.scale_cluster(now, None, true);
        } else {
            return Err(ChangeRefusal::NothingToApprove { pool: pool.into() });
        }
        self.ordered(now, pool)
    }

    fn ordered(&mut self, now: Now, pool: &str) -> Result<ScaleView, ChangeRefusal> {
        self.finish(now);
        let mut views = self.scales(now.monotonic).pools.into_iter();
        let view = views.find(|view| view.pool == pool);
        view.ok_or_else(|| ChangeRefusal::UnknownPool { pool: pool.into() })
    }

    /// What would be decided of a pool at this moment by settings that are not set.
    ///
    /// # Errors
    ///
    /// They could not be set.
    pub fn try_scale(
        &self,
        now: Now,
        pool: &str,
        settings: &ScaleSettings,
    ) -> Result<ScaleTryView, ChangeRefusal> {
        let now = now.monotonic;
        match pool == self.config.cluster {
            true => ClusterScale::try_settings(now, pool, settings, &self.cluster_seen(now)),
            false => self.changes.try_scale(now, pool, settings),
        }
    }

    /// How the numbers of servers of the cluster and of rings follow what is measured, to be shown. O(cachelets + pools · (slices + servers)).
    pub fn scales(&self, now: Instant) -> ScalesView {
        let of_cluster = match self.cluster_scale.is_set_up() {
            true => self.cluster_scale.view(now, &self.cluster_seen(now)),
            false => None,
        };
        let pools = of_cluster.into_iter().chain(self.changes.scale_views(now));
        self.scaled.view(pools.collect())
    }

    /// The last [`limits::CHANGE_EVENTS_MAX`] decisions about numbers of servers, oldest first. Those of a former process are not among them.
    pub fn scale_events(&self) -> &Recent<ScaleEvent, { limits::CHANGE_EVENTS_MAX }> {
        self.scaled.events()
    }

    /// Counts of these since the process started.
    pub fn scale_counts(&self) -> ScaleCounts {
        self.scaled.counts()
    }

    /// What an actuator is to be asked next, if anything: once what was decided is saved. Its answers go to
    /// [`handle_listed`](Self::handle_listed) and [`handle_acted`](Self::handle_acted).
    pub fn scale_work(&self, now: Instant) -> Option<ScaleWork> {
        self.scaled.work(now, self.scale_acts())
    }

    /// The places of new servers of rings that are to be tried now, each with its pool, likewise.
    pub fn scale_trials(&self) -> Vec<(String, String)> {
        let trials = self.scale_acts().filter_map(|(pool, act)| match act {
            Act::Try { address } => Some((pool.to_owned(), address.clone())),
            _ => None,
        });
        trials.collect()
    }

    fn scale_acts(&self) -> impl Iterator<Item = (&str, &Act)> {
        let of_cluster = self.cluster_scale.act();
        let of_cluster = of_cluster.map(|act| (self.config.cluster.as_str(), act));
        of_cluster.into_iter().chain(self.changes.scale_acts())
    }

    /// An actuator has said what it runs: the address of each server by name, or nothing of use. After an act that is to be told before
    /// what came of it.
    pub fn handle_listed(&mut self, now: Instant, listed: Option<BTreeMap<String, String>>) {
        self.scaled.handle_listed(now, listed);
    }

    /// An act of an actuator's for a pool, or a trial of a new server, has come to its end.
    pub fn handle_acted(&mut self, now: Now, pool: &str, outcome: Outcome) {
        self.notice_pause(now.monotonic);
        let outcome = Some(outcome.placed());
        if pool == self.config.cluster {
            self.scale_cluster(now, outcome, false);
        } else {
            self.changes
                .scale(now, (pool, outcome, false), &mut self.scaled);
        }
        self.finish(now);
    }

    /// Decides of all that is scaled, once a second.
    pub(super) fn scale(&mut self, now: Now) {
        if self.scale_due().is_none() || !self.scaled.take_turn(now.monotonic) {
            return;
        }
        let pools: Vec<String> = self.changes.scaled().cloned().collect();
        for pool in pools {
            self.changes
                .scale(now, (&pool, None, false), &mut self.scaled);
        }
        self.scale_cluster(now, None, false);
    }

    /// When that is due, if anything is scaled.
    pub(super) fn scale_due(&self) -> Option<Instant> {
        let is_any = self.cluster_scale.is_set_up() || self.changes.scaled().next().is_some();
        is_any.then_some(self.scaled.due())
    }

    fn scale_cluster(&mut self, now: Now, outcome: Option<Outcome>, is_approved: bool) {
        if !self.cluster_scale.is_set_up() {
            return;
        }
        let seen = Seen {
            outcome,
            is_approved,
            ..self.cluster_seen(now.monotonic)
        };
        let is_to_save = (self.cluster_scale).decide(now, seen, &mut self.scaled);
        self.revision += u64::from(is_to_save);
        (self.cluster_scale).order(now.monotonic, &mut self.members, &mut self.draft);
    }

    fn cluster_seen(&self, now: Instant) -> Seen {
        let cluster = Cluster {
            members: &self.members,
            draft: &self.draft,
            loads: self.server_loads(now),
            history: &self.history,
        };
        self.cluster_scale.seen(now, &cluster)
    }
}
