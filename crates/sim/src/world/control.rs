//! The coordinator's core and the heartbeats of its members.

use super::coordinator::{BUSY, CLUSTER, FIRST_INTERVAL};
use super::proxy::MAP_SOURCE;
use super::server::{HOT_TRIGGER_RPS, worker_ports};
use super::units::MS;
use super::{Event, World};
use crate::history::Nanos;
use evenkeel_balance::cachelet_load::WorkerLoad;
use evenkeel_control::loads::LoadNews;
use evenkeel_coordinator_core::{
    Cause, CoordinatorCore, Heartbeat, HeartbeatAnswer, LoadReport, MemberKind, Settings,
};
use evenkeel_server_core::WorkerCore;
use evenkeel_types::promise::Consistency;
use evenkeel_types::{Epoch, Now};
use serde_json::Value;

impl World {
    pub(super) fn coordinator_host(&self) -> usize {
        self.servers.len() + self.proxies.len()
    }

    /// A member sends its next heartbeat after a moment.
    pub(super) fn send_heartbeat_soon(&mut self, host: usize) {
        if !self.follows_coordinator(host) {
            return;
        }
        let at = self.time + self.random.below(5 * MS);
        let (life, extra) = (self.life_of(host), true);
        self.at(at, Event::Heartbeat { host, life, extra });
    }

    /// It is time for a member's heartbeat.
    pub(super) fn heartbeat(&mut self, host: usize, extra: bool) {
        let heartbeat = self.report_of(host);
        self.forget_counts(host);
        let (life, sent) = (self.life_of(host), self.time);
        // Lost when the other side cannot be reached; the next one will do.
        for delay in self.deliveries(host, self.coordinator_host()) {
            let heartbeat = Box::new(heartbeat.clone());
            self.after(
                delay,
                Event::Report {
                    host,
                    life,
                    sent,
                    heartbeat,
                },
            );
        }
        if !extra || !self.beating.contains(&(host, life)) {
            self.beating.insert((host, life));
            let interval = *self.intervals.get(&host).unwrap_or(&FIRST_INTERVAL);
            let jitter = self.random.below(interval / 5 + 1);
            let extra = false;
            self.after(
                interval - interval / 10 + jitter,
                Event::Heartbeat { host, life, extra },
            );
        }
    }

    /// After how long a message arrives that is no part of a connection.
    pub(super) fn deliveries(&mut self, from: usize, to: usize) -> Vec<Nanos> {
        let World {
            fault_schedule,
            random,
            report,
            ..
        } = self;
        let delays = fault_schedule.deliveries(random, report, self.time, (from, to));
        match self.led {
            Some(_) => self.follow_deliveries(from.min(to) - self.servers.len(), delays),
            None => delays,
        }
    }

    pub(super) fn report_of(&self, host: usize) -> Heartbeat {
        let lineage = |epoch: Epoch| (epoch > Epoch(0)).then_some(self.coordinator.lineage);
        let about = |kind, name: String, boot, port, epoch| Heartbeat {
            cluster: CLUSTER.into(),
            kind,
            name,
            boot,
            host: "host".into(),
            port,
            worker_ports: Vec::new(),
            rack: None,
            epoch,
            told: epoch,
            lineage: lineage(epoch),
            load: LoadReport::default(),
            hot_keys: None,
            migrates: false,
            // There are no phases here: whatever helps may be done.
            asks_for_moves: true,
            migrations: Vec::new(),
            leased: false,
            ending: false,
            config_hash: None,
            control_port: 0,
            gone_after_ms: None,
            pools: Vec::new(),
            leaves: false,
        };
        if let Some(server) = self.servers.get(host) {
            let (epoch, port) = (self.forged_epoch(host), 1000 + host as u16);
            let loads = server.workers.iter().map(WorkerCore::load).collect();
            let measured = server.workers.iter().map(|worker| WorkerLoad {
                busy: BUSY,
                ..worker.cachelet_loads()
            });
            let limit_bytes = server.pool.as_ref().map_or(0, |pool| pool.limit_bytes());
            let reports = server.workers.iter().map(WorkerCore::migration_reports);
            let mut migrations: Vec<_> = reports.flatten().collect();
            self.forge_reports(&mut migrations);
            return Heartbeat {
                migrates: server.migrates,
                leased: server.leases.keeper.needs_leases(),
                migrations,
                worker_ports: worker_ports(host, self.workers_per_server),
                load: LoadReport {
                    requests_per_second: loads,
                    measured: Some(LoadNews::of(measured.collect(), limit_bytes as u64)),
                    served: None,
                },
                ..about(
                    MemberKind::Server,
                    World::name_of(host),
                    server.boot,
                    port,
                    epoch,
                )
            };
        }
        let proxy = &self.proxies[host - self.servers.len()];
        Heartbeat {
            pools: self.followed_by(host - self.servers.len()),
            ..about(
                MemberKind::Proxy,
                format!("p{host}"),
                proxy.boot,
                0,
                proxy.core.epoch(MAP_SOURCE),
            )
        }
    }

    /// What the operator wants is said to a coordinator that does not know it: he has changed it, or it has begun anew. Every read is
    /// looked at, as by the workers' own settings.
    fn apply_settings(&mut self, now: Now) {
        let wanted = Settings {
            hot_keys: self.coordinator.hot_keys,
            lease_ms: self.lease_chosen(),
            hot_sampling: Some(100.0),
            hot_trigger_rps: Some(HOT_TRIGGER_RPS),
            ..Settings::default()
        };
        let core = &mut self.coordinator.core;
        if core.settings() != wanted
            && let Ok(Value::Object(change)) = serde_json::to_value(wanted)
        {
            core.change_settings(now, &change)
                .expect("all of them may be chosen");
        }
    }

    /// Whenever hot keys are switched off, the operator has leases last half as long from then on, or as long as before. Not with
    /// atomic writes, where that is refused.
    fn lease_chosen(&self) -> Option<u64> {
        let may = self.plan.consistency == Consistency::Lease;
        (may && self.coordinator.observe_next).then(|| self.plan.lease() / MS / 2)
    }

    /// A heartbeat reaches the coordinator.
    pub(super) fn answer_heartbeat(
        &mut self,
        host: usize,
        life: u32,
        sent: Nanos,
        heartbeat: &Heartbeat,
    ) {
        if self.coordinator.process.stopped_until > self.time {
            return;
        }
        let now = self.coordinator.process.now(self.time);
        self.apply_settings(now);
        match self.coordinator.core.handle_heartbeat(now, heartbeat) {
            Ok(answer) => {
                for delay in self.deliveries(self.coordinator_host(), host) {
                    let answer = Box::new(answer.clone());
                    let event = Event::Answer {
                        host,
                        life,
                        sent,
                        answer,
                    };
                    self.after(delay, event);
                }
            }
            // For instance one that was sent in a former life and arrives late.
            Err(_) => self.report.tell("heartbeats refused", 1),
        }
        self.note_new_maps();
        self.arm(self.coordinator_host());
    }

    /// A member learns what the coordinator says.
    pub(super) fn heard_answer(&mut self, host: usize, sent: Nanos, answer: &HeartbeatAnswer) {
        self.intervals.insert(host, answer.interval_ms * MS);
        if host >= self.servers.len() {
            if let Some(map) = &answer.map {
                self.tell_proxy(host - self.servers.len(), map);
            }
            self.handle_steps(host - self.servers.len(), &answer.pools);
            return;
        }
        let server = &mut self.servers[host];
        server.id = server.id.or(answer.server_id);
        let now = server.process.now(self.time);
        for worker in &mut server.workers {
            worker.handle_cluster_load(answer.mean_worker_load);
            worker.handle_settings(now, &answer.settings);
        }
        if let Some(map) = &answer.map
            && map.epoch() > server.told
        {
            self.tell_workers(host, map);
        }
        self.handle_answered(host, sent, answer);
        for worker in 0..self.workers_per_server {
            self.pump_worker(host, worker);
        }
    }

    pub(super) fn tick_coordinator(&mut self) {
        if self.led.is_some() {
            return self.tick_leader();
        }
        let now = self.coordinator.process.now(self.time);
        // An operator who knows that it was no key is never far.
        let quarantined = self.coordinator.core.quarantined();
        self.report
            .tell("cachelets quarantined", quarantined.len() as u64);
        for one in quarantined {
            let released = self.coordinator.core.release_cachelet(now, one.cachelet);
            released.expect("it is quarantined");
        }
        self.coordinator.core.handle_timeout(now);
        self.note_new_maps();
    }

    pub(super) fn coordinator_deadline(&self) -> Nanos {
        let process = &self.coordinator.process;
        let due = process.clock.time_of(self.coordinator.core.poll_deadline());
        // It looks at nothing while it saves.
        due.max(self.saves_until())
    }

    /// The coordinator may have made maps. What it has given to somebody anew has ceased to be where it was.
    pub(super) fn note_new_maps(&mut self) {
        let coordinator = &mut self.coordinator;
        let counters = coordinator.core.counters();
        let given_up = counters.map_changes[&Cause::ServerFenced];
        let new = given_up - core::mem::replace(&mut coordinator.given_up, given_up);
        self.report.tell("servers given up", new);
        let Some(map) = coordinator.core.map().cloned() else {
            return;
        };
        let before = coordinator.looked_at.replace(map.clone());
        if let Some(before) = before.filter(|before| before.epoch() < map.epoch()) {
            self.narrate_maps(before.epoch());
            self.lose_begun_anew(before.epoch());
            self.lay_traps(&before);
        }
    }

    fn narrate_maps(&mut self, before: Epoch) {
        if self.listener.is_none() {
            return;
        }
        let events = self.coordinator.core.events().iter();
        let new = events.filter(|event| event.epoch > before);
        let words = new.map(|event| {
            let (epoch, cause) = (event.epoch, event.cause.as_str());
            let servers = event.servers.join(" ");
            format!(
                "makes map {epoch}: {cause}, {} cachelets, {servers}",
                event.cachelets
            )
        });
        let host = self.coordinator_host();
        for words in words.collect::<Vec<_>>() {
            self.narrate(&[host], || words);
        }
    }

    /// The coordinator dies and another takes over what it had saved.
    pub(super) fn restart_coordinator(&mut self) {
        if self.led.is_some() {
            return self.restart_leader();
        }
        let saved = self.coordinator.core.saved_state();
        let config = self.coordinator.core.config().clone();
        self.coordinator.process.restart(&mut self.random);
        let now = self.coordinator.process.clock.read(self.time);
        let core = CoordinatorCore::restore(config, saved, now);
        self.coordinator.core = core.expect("it was saved by a sound one");
        self.coordinator.given_up = 0;
        let host = self.coordinator_host();
        self.narrate(&[host], || "dies, and another goes on".into());
    }
}
