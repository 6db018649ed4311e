//! A member's heartbeat: what is checked, what its parts are for, and what is answered.

use core::time::Duration;

use evenkeel_control::{Heartbeat, HeartbeatAnswer, MemberKind, Refusal};
use evenkeel_types::serving::SERVING_LEASE;
use evenkeel_types::{Epoch, Instant, Now, ServerId};

use super::CoordinatorCore;
use crate::duration::millis;
use crate::limits;
use crate::members::Drain;
use crate::plans::PlanMode;

/// Characters of a foreign cluster's name that a refusal repeats.
const SHOWN_CLUSTER_LEN: usize = 64;

impl CoordinatorCore {
    /// Takes a member's report and answers it. The answer must not leave before the state of the
    /// present [`revision`](Self::revision) is saved.
    ///
    /// # Errors
    ///
    /// The report is unusable or contradicts what is known; then nothing of it was used.
    pub fn handle_heartbeat(
        &mut self,
        now: Now,
        heartbeat: &Heartbeat,
    ) -> Result<HeartbeatAnswer, Refusal> {
        self.notice_pause(now.monotonic);
        let checked = self
            .check_sender(heartbeat)
            .and_then(|()| self.handle_witness(now, heartbeat))
            .and_then(|()| self.check_map(heartbeat));
        let member = checked.and_then(|()| match heartbeat.kind {
            MemberKind::Server => self.handle_server(now, heartbeat).map(Some),
            MemberKind::Proxy => self.handle_proxy(now, heartbeat).map(|()| None),
        });
        self.finish(now);
        match member {
            Ok(server_id) => Ok(self.answer(now.monotonic, heartbeat, server_id)),
            Err(refusal) => {
                self.count_refusal(&refusal);
                Err(refusal)
            }
        }
    }

    /// Counts a heartbeat that is refused, also by who looked whether its process is there.
    pub fn count_refusal(&mut self, refusal: &Refusal) {
        *self.counters.refusals.entry(refusal.reason()).or_default() += 1;
    }

    /// Whether this heartbeat would be believed and speaks for a process that is not known: anyone who passes it on should
    /// find out first that it is there.
    pub fn is_doubted(&self, now: Instant, heartbeat: &Heartbeat) -> bool {
        self.check_sender(heartbeat).is_ok() && self.members.is_new_process(now, heartbeat)
    }

    /// Checks whether a heartbeat makes sense and is meant for this cluster.
    fn check_sender(&self, heartbeat: &Heartbeat) -> Result<(), Refusal> {
        if heartbeat.cluster != self.config.cluster {
            return Err(Refusal::WrongCluster {
                ours: self.config.cluster.clone(),
                theirs: heartbeat.cluster.chars().take(SHOWN_CLUSTER_LEN).collect(),
            });
        }
        heartbeat.validate()
    }

    /// Hears a heartbeat as a witness of a predecessor's map, as long as there is no map here.
    fn handle_witness(&mut self, now: Now, heartbeat: &Heartbeat) -> Result<(), Refusal> {
        if self.epoch() > Epoch(0) {
            return Ok(());
        }
        let silent = self.config.silent;
        let Some(refusal) = (self.takeover).handle(now.monotonic, silent, heartbeat)? else {
            return Ok(());
        };
        self.try_to_take_over(now);
        match self.takeover.is_collecting() {
            true => Err(refusal),
            false => Ok(()),
        }
    }

    /// Checks whether the map that a member works by is of this coordinator.
    fn check_map(&self, heartbeat: &Heartbeat) -> Result<(), Refusal> {
        if heartbeat.epoch == Epoch(0) {
            return Ok(());
        }
        if heartbeat
            .lineage
            .is_some_and(|lineage| lineage != self.lineage)
        {
            return Err(Refusal::ForeignMap);
        }
        if heartbeat.epoch > self.epoch() {
            return Err(Refusal::FutureEpoch {
                claimed: heartbeat.epoch,
                newest: self.epoch(),
            });
        }
        Ok(())
    }

    fn handle_server(
        &mut self,
        Now {
            monotonic: now,
            unix,
        }: Now,
        heartbeat: &Heartbeat,
    ) -> Result<ServerId, Refusal> {
        let id = self.identify(now, heartbeat)?;
        let reports = ((id, heartbeat.epoch), &heartbeat.migrations[..]);
        (self.migrations).handle(now, reports, &mut self.members, &mut self.draft);
        self.revision += u64::from(self.members.handle(now, id, heartbeat));
        self.counters.server_heartbeats += 1;
        let entry = &self.members.server(id).entry;
        let workers = entry.worker_ports.len();
        let size = (id, workers, self.draft.slots().len());
        self.loads
            .handle(now, size, heartbeat.load.measured.as_ref());
        let who = (id, entry.name.as_str(), entry.boot);
        self.hot_keys
            .handle(unix, who, workers, heartbeat.hot_keys.as_ref());
        if heartbeat.ending {
            self.members.handle_ending(now, id, &mut self.draft);
        }
        if heartbeat.leaves {
            self.members.handle_goodbye(id, &mut self.draft);
        }
        Ok(id)
    }

    /// The server that a heartbeat is of, which may register with it, return or begin a new life.
    fn identify(&mut self, now: Instant, heartbeat: &Heartbeat) -> Result<ServerId, Refusal> {
        let Some(known) = self.members.known_as(&heartbeat.name) else {
            let place = (self.free_id(), self.config.initial_servers);
            let id = (self.members).join(now, heartbeat, place, &mut self.draft)?;
            if self.cluster_scale.holds_back(&heartbeat.name) {
                let drain = Drain::new(now, limits::DRAIN_RATE);
                self.members.set_drain(id, Some(drain), &mut self.draft);
            }
            return Ok(id);
        };
        let (id, boot) = (known.entry.id, known.entry.boot);
        if boot != heartbeat.boot {
            self.restart(now, id, heartbeat)?;
        } else if self.members.handle_again(id, heartbeat, &mut self.draft)? {
            // Whatever was concluded from its death is taken back.
            self.deaths.note_alive(boot);
            self.draft.end_quarantines_for(boot);
        }
        Ok(id)
    }

    /// An id of a forgotten name that nothing means any more: its holder may come back and have it until then. O(servers), and O(cachelets + electorates) for each of those.
    pub(super) fn free_id(&self) -> Option<ServerId> {
        let is_meant = |id: ServerId| {
            self.members.is_in_an_electorate(id)
                || self.deaths.name(id)
                || self.draft.quarantines_for(id)
                || self.draft.cachelets_of(id) > 0
        };
        self.members.forgotten().find(|&id| !is_meant(id))
    }

    /// Another process has the name of a server from now on.
    fn restart(
        &mut self,
        now: Instant,
        id: ServerId,
        heartbeat: &Heartbeat,
    ) -> Result<(), Refusal> {
        self.members.check_restart(now, id, heartbeat)?;
        let suspects = self.note_death(now, id);
        let workers = self.members.restart(id, heartbeat, &mut self.draft);
        (self.migrations).meet_new_life(now, (id, workers), &mut self.members, &mut self.draft);
        self.draft.withhold(&suspects);
        Ok(())
    }

    fn handle_proxy(&mut self, now: Now, heartbeat: &Heartbeat) -> Result<(), Refusal> {
        if let Err(refusal) = self.changes.check(now.monotonic, heartbeat) {
            self.changes
                .note_refused(now.monotonic, heartbeat, &refusal);
            return Err(refusal);
        }
        self.members.handle_proxy(now.monotonic, heartbeat)?;
        self.changes.handle(now, heartbeat);
        self.counters.proxy_heartbeats += 1;
        Ok(())
    }

    fn answer(
        &mut self,
        now: Instant,
        heartbeat: &Heartbeat,
        server_id: Option<ServerId>,
    ) -> HeartbeatAnswer {
        self.mean_load.refresh(now, &self.members);
        let hurry = self.draft.is_empty()
            || self.cachelets_in_transit() > 0
            || self.members.is_fencing(now)
            || self.members.awaits_followers()
            || server_id.is_some_and(|server| self.migrations.concern(server, &self.draft));
        let members = self.members.servers().len() + self.members.proxies().len();
        // Both have limits.
        let apart = Duration::from_secs(1) * members as u32 / limits::HURRIED_HEARTBEATS_PER_S;
        let interval = match hurry {
            true => (self.config.interval()).min(limits::INTERVAL_EAGER.max(apart)),
            false => self.config.interval(),
        };
        // A server's lease must not end between two heartbeats.
        let interval = match server_id {
            Some(_) => interval.min(SERVING_LEASE / 2),
            None => interval,
        };
        let (pools, is_changing) = match heartbeat.kind {
            MemberKind::Proxy => self.changes.answer(now, heartbeat),
            MemberKind::Server => (Vec::new(), false),
        };
        let interval = match is_changing {
            true => interval.min(limits::INTERVAL_CHANGING.max(apart)),
            false => interval,
        };
        let may_end = |id| self.members.may_end(now, id, &self.draft);
        // A map that it was told is not told again while it is on the way to all of its parts.
        let told = match heartbeat.lineage {
            Some(lineage) if lineage == self.lineage => heartbeat.told.max(heartbeat.epoch),
            _ => heartbeat.epoch,
        };
        HeartbeatAnswer {
            server_id,
            epoch: self.epoch(),
            lineage: self.lineage,
            leader: self.leader,
            map: self.map.clone().filter(|_| told < self.epoch()),
            mean_worker_load: self.mean_load.value(),
            utilization: self.plans.utilization(),
            pools,
            may_end: heartbeat.ending && server_id.is_none_or(may_end),
            settings: self.settings,
            balances: self.plan_settings().mode == PlanMode::Automatic,
            interval_ms: millis(interval),
            lease_ms: server_id.map(|_| millis(SERVING_LEASE)),
        }
    }
}
