//! The coordinator that leads a pool's change: it hears proxies, saves before it tells, and obeys an operator.

use super::super::World;
use super::super::event::Event;
use super::super::fault::Fault;
use super::super::leading::{Led, Saving, Turn};
use super::super::led_report::{LedKind, Mischance, Tally};
use super::super::proxy::POOL;
use super::super::units::MS;
use crate::history::Nanos;
use evenkeel_control::FollowedPool;
use evenkeel_coordinator_core::{
    BeginRequest, ChangeView, CoordinatorCore, Heartbeat, HeartbeatAnswer, Refusal,
};
use evenkeel_schemes::stage::{Stage, Step};

/// How long a member waits for an answer at most: later ones are not heard.
const CALL_TIMEOUT: Nanos = 1_000 * MS;

impl World {
    /// A heartbeat of a proxy reaches the coordinator. While that stands still or saves, heartbeats wait.
    pub(in crate::world) fn answer_follower(
        &mut self,
        (host, life): (usize, u32),
        sent: Nanos,
        heartbeat: Box<Heartbeat>,
    ) {
        let busy = self.coordinator_busy_until();
        if busy > self.time {
            // Who has waited for this long has hung up.
            if self.time - sent > CALL_TIMEOUT {
                return;
            }
            let at = busy + self.random.below(MS);
            let turn = Turn::Wait {
                life: self.coordinator.process.life,
                host,
                host_life: life,
                sent,
                heartbeat,
            };
            return self.at(at, Event::Led(turn));
        }
        if self.has_fault(Fault::StepsRushed) {
            self.forge_acknowledgements(host);
        }
        let now = self.coordinator.process.now(self.time);
        match self.coordinator.core.handle_heartbeat(now, &heartbeat) {
            Ok(answer) => {
                let at = self.save_before_telling();
                let turn = Turn::Tell {
                    life: self.coordinator.process.life,
                    host,
                    host_life: life,
                    sent,
                    answer: Box::new(answer),
                };
                self.at(at, Event::Led(turn));
            }
            // For instance one whose name was another life's a moment ago.
            Err(refused) => {
                let coordinator = self.coordinator_host();
                self.narrate(&[host, coordinator], || format!("is refused: {refused}"));
                self.report.tell("heartbeats refused", 1);
                if matches!(refused, Refusal::DuplicateName { .. }) {
                    let proxy = host - self.servers.len();
                    let delay = self.random.below(5 * MS);
                    self.after(delay, Event::Led(Turn::NameLost { proxy, life }));
                }
            }
        }
        self.look_at_change();
    }

    /// A heartbeat has waited. One that waited for a coordinator that has died is gone with it.
    pub(super) fn handle_waiting(
        &mut self,
        life: u32,
        (host, host_life): (usize, u32),
        sent: Nanos,
        heartbeat: Box<Heartbeat>,
    ) {
        if self.coordinator.process.life == life {
            self.answer_follower((host, host_life), sent, heartbeat);
        }
    }

    /// With a fault: all others are said to have followed.
    fn forge_acknowledgements(&mut self, host: usize) {
        let Some(view) = self.change_view() else {
            return;
        };
        let now = self.coordinator.process.now(self.time);
        let others = (0..self.proxies.len()).filter(|proxy| self.servers.len() + proxy != host);
        for other in others.collect::<Vec<_>>() {
            let mut forged = self.report_of(self.servers.len() + other);
            let (version, stage) = (view.version, view.stage);
            forged.pools = vec![FollowedPool {
                pool: POOL.into(),
                told: Some(Step { version, stage }),
                acknowledged: version,
                ring: self.ring_known(),
                bundle: self.copies_followed(self.copies_planned()),
                found: None,
            }];
            // A name that was another life's a moment ago is refused, as ever.
            let _ = self.coordinator.core.handle_heartbeat(now, &forged);
        }
    }

    /// What was answered is saved and leaves.
    pub(super) fn tell_follower(
        &mut self,
        life: u32,
        (host, host_life): (usize, u32),
        sent: Nanos,
        answer: Box<HeartbeatAnswer>,
    ) {
        let again = |answer| {
            Event::Led(Turn::Tell {
                life,
                host,
                host_life,
                sent,
                answer,
            })
        };
        let Some(answer) = self.admit(self.coordinator_host(), life, answer, again) else {
            return;
        };
        if self.time - sent > CALL_TIMEOUT {
            return;
        }
        for delay in self.deliveries(self.coordinator_host(), host) {
            let event = Event::Answer {
                host,
                life: host_life,
                sent,
                answer: answer.clone(),
            };
            self.after(delay, event);
        }
    }

    /// Until when the coordinator hears nobody, because it stands still or saves.
    pub(super) fn coordinator_busy_until(&self) -> Nanos {
        (self.saves_until()).max(self.coordinator.process.stopped_until)
    }

    /// Until when the coordinator saves.
    pub(in crate::world) fn saves_until(&self) -> Nanos {
        let saving = self.led.as_ref().and_then(|led| led.saving.as_ref());
        saving.map_or(0, |saving| saving.until)
    }

    /// It is time for the coordinator to look who is silent, and what has rested.
    pub(in crate::world) fn tick_leader(&mut self) {
        if self.saves_until() > self.time {
            return;
        }
        let now = self.coordinator.process.now(self.time);
        self.coordinator.core.handle_timeout(now);
        self.save_before_telling();
        self.look_at_change();
    }

    /// What has changed is saved, if anything has: nobody is told before this time.
    pub(super) fn save_before_telling(&mut self) -> Nanos {
        let World {
            led: Some(led),
            coordinator,
            random,
            time,
            ..
        } = self
        else {
            return self.time;
        };
        if let Some(done) = led.saving.take_if(|saving| saving.until <= *time) {
            led.saved = done.state;
        }
        let revision = coordinator.core.revision();
        if core::mem::replace(&mut led.revision, revision) == revision {
            return *time;
        }
        let takes = match random.below(20) {
            // A slow disk.
            0 => random.between(20 * MS, 120 * MS),
            _ => random.between(MS / 5, 4 * MS),
        };
        let until = *time + takes;
        let state = coordinator.core.saved_state();
        led.saving = Some(Saving { until, state });
        until
    }

    /// The coordinator has died, and another goes on. What was being written may be there, or not.
    pub(in crate::world) fn restart_leader(&mut self) {
        self.count_changes();
        let kept = self.random.chance(1, 2);
        let away = self.random.below(200 * MS);
        let World {
            led: Some(led),
            coordinator,
            random,
            time,
            ..
        } = self
        else {
            return;
        };
        let is_there = |saving: &Saving| saving.until <= *time || kept;
        if let Some(written) = led.saving.take().filter(is_there) {
            led.saved = written.state;
        }
        let config = coordinator.core.config().clone();
        coordinator.process.restart(random);
        let now = coordinator.process.clock.read(*time);
        let core = CoordinatorCore::restore(config, led.saved.clone(), now);
        coordinator.core = core.expect("it was saved by a sound one");
        led.revision = coordinator.core.revision();
        let quiet = self.plan.quiet_from();
        self.coordinator.process.stopped_until = (self.time + away).min(quiet);
        let host = self.coordinator_host();
        self.narrate(&[host], || "dies, and another goes on".into());
        self.note_mischance(Mischance::CoordinatorKilled);
        self.look_at_change();
    }

    pub(super) fn change_view(&self) -> Option<ChangeView> {
        let now = self.coordinator.process.now(self.time).monotonic;
        let views = self.coordinator.core.changes(now).changes;
        views.into_iter().find(|view| view.pool == POOL)
    }

    /// The coordinator may have published a step, or taken one back.
    pub(super) fn look_at_change(&mut self) {
        self.look_at_plan();
        let view = self.change_view();
        let host = self.coordinator_host();
        let now = self.time;
        if let (Some(view), Some(led)) = (view, &mut self.led) {
            let (version, stage) = (view.version, view.stage);
            let before = core::mem::replace(&mut led.step, Step { version, stage });
            if stage == Stage::Warming {
                led.warming_since.get_or_insert(now);
            }
            let (kind, begun) = (led.kind(), led.has_begun(before));
            if version < before.version {
                self.report.led.tell(kind, Tally::StepsUnsaved, 1);
            }
            if version != before.version {
                self.narrate(&[host], || format!("publishes step {version}, {stage}"));
            }
            if begun {
                self.note_stage_begun();
                self.note_switched(stage);
            }
            if stage == Stage::Done {
                self.note_plan_done();
            }
        }
        self.arm(host);
    }

    /// What this life of the coordinator has counted of changes.
    pub(super) fn count_changes(&mut self) {
        let Some(kind) = self.led.as_ref().map(Led::kind) else {
            return;
        };
        let counts = self.coordinator.core.change_counts();
        let led = &mut self.report.led;
        led.tell(kind, Tally::StepsPublished, counts.steps);
        led.tell(kind, Tally::StepsWithdrawn, counts.withdrawn);
        led.tell(kind, Tally::StepsOverdue, counts.unacknowledged);
        if kind == LedKind::Ring {
            self.count_ring();
        }
    }

    /// An operator looks how far the change is, and says how far it is to go.
    pub(super) fn operate(&mut self) {
        let is_quiet = self.time >= self.plan.quiet_from();
        let least = if is_quiet { 50 } else { 100 };
        let pause = self.random.between(least * MS, 5 * least * MS);
        let Some(led) = &self.led else {
            return;
        };
        // The first time is known beforehand.
        let next = match self.time < led.begins {
            true => led.begins,
            false => self.time + pause,
        };
        let warmed = led.warming_since.map(|since| since + led.warms_for);
        let goal = match led.stage() {
            Stage::Former | Stage::Quiesced if is_quiet || led.begins <= self.time => {
                Stage::Warming
            }
            Stage::Warming if is_quiet || warmed <= Some(self.time) => Stage::Done,
            Stage::Closing => Stage::Done,
            _ => Stage::Former,
        };
        self.at(next, Event::Led(Turn::Operate));
        // His call has found nobody; he tries again.
        if self.coordinator_busy_until() > self.time {
            return;
        }
        let is_wanted = self.change_view().is_some_and(|view| view.goal < goal);
        if !is_wanted {
            return;
        }
        let now = self.coordinator.process.now(self.time);
        let proxies = self.proxies.len();
        let request = BeginRequest::at_once(goal, proxies);
        let begun = (self.coordinator.core).begin_change(now, POOL, &request);
        self.narrate(&[], || match begun {
            Ok(_) => format!("an operator wants the pool at stage {goal}"),
            Err(refused) => format!("an operator is refused: {refused}"),
        });
        self.save_before_telling();
        self.look_at_change();
    }

    /// An operator takes the change back, as long as there is a way back.
    pub(super) fn withdraw(&mut self) {
        if self.coordinator_busy_until() > self.time {
            return;
        }
        let now = self.coordinator.process.now(self.time);
        let withdrawn = match self.keeps_copies() {
            true => self.switch_copies(false),
            false => self.coordinator.core.withdraw_change(now, POOL).is_ok(),
        };
        if withdrawn {
            self.narrate(&[], || "an operator takes the change back".into());
            if let Some(led) = &mut self.led {
                led.withdrawals = led.withdrawals.saturating_sub(1);
            }
        }
        self.save_before_telling();
        self.look_at_change();
    }
}
