//! What goes wrong around a led pool: at any time, and just when a stage has begun.

use super::super::World;
use super::super::connection::{ACCEPTOR, End, INITIATOR};
use super::super::event::Event;
use super::super::leading::Turn;
use super::super::led_report::Mischance;
use super::super::swarm::{Hazard, Hazards};
use super::super::units::{MS, SECOND};
use crate::history::Nanos;
use evenkeel_coordinator_core::limits::CLOSING_MIN;
use evenkeel_schemes::stage::Stage;

/// How soon something goes wrong when a stage has begun: `quiesced` takes some milliseconds.
const SOON: Nanos = 8 * MS;
const SOMETIME: Nanos = 1_500 * MS;

/// How long a change is closing at the least.
const CLOSING: Nanos = CLOSING_MIN.as_nanos() as Nanos;

/// How late what a broken connection carried arrives at most.
const LAG_MAX: Nanos = 1_500 * MS;

impl World {
    /// Something went wrong.
    pub(in crate::world) fn note_mischance(&mut self, mischance: Mischance) {
        if let Some(led) = &self.led {
            self.report.led.inject(led.kind(), mischance, led.moment());
        }
    }

    /// A fault of every run was let happen.
    pub(in crate::world) fn note_hazard(&mut self, hazard: Hazard) {
        let mischance = match hazard {
            Hazard::Reset | Hazard::ManyResets => Mischance::ConnectionsLost,
            Hazard::Partition | Hazard::OneWay => Mischance::Partition,
            Hazard::Loss => Mischance::PacketsLost,
            Hazard::SlowHost | Hazard::NarrowHost => Mischance::Slow,
            Hazard::Duplicates => Mischance::Duplicates,
            // Who is struck is noted where that happens.
            _ => return,
        };
        self.note_mischance(mischance);
    }

    /// A host's process stands still.
    pub(in crate::world) fn note_stopped(&mut self, host: usize) {
        let of_server = [Mischance::FormerStopped, Mischance::OwnStopped];
        match host {
            _ if host == self.coordinator_host() => {
                self.note_mischance(Mischance::CoordinatorStopped);
            }
            _ if host >= self.servers.len() => self.note_mischance(Mischance::ProxyStopped),
            _ => self.note_server(host, of_server),
        }
    }

    /// Something goes wrong with a server: what that is for who gives, and for who gets. In a ring it may be both, or neither.
    fn note_server(&mut self, server: usize, [former, own]: [Mischance; 2]) {
        let Some(led) = &self.led else {
            return;
        };
        let (is_former, is_own) = (led.is_former(server), led.is_own(server));
        if is_former {
            self.note_mischance(former);
        }
        if is_own {
            self.note_mischance(own);
        }
    }

    /// A server's process has died.
    pub(in crate::world) fn note_killed(&mut self, server: usize) {
        self.note_server(server, [Mischance::FormerKilled, Mischance::OwnKilled]);
    }

    /// The change stands at another stage: something is to go wrong soon, in runs in which things do.
    pub(super) fn note_stage_begun(&mut self) {
        let Some(led) = &self.led else {
            return;
        };
        let (stage, begins, withdrawals) = (led.stage(), led.begins, led.withdrawals);
        if stage == Stage::Quiesced && withdrawals > 0 && self.random.chance(1, 2) {
            let delay = self.random.below(SOON);
            self.after(delay, Event::Led(Turn::Withdraw));
        }
        if self.plan.swarm.hazards == Hazards::default() {
            return;
        }
        if stage == Stage::Former && self.time < begins {
            self.trouble_the_beginning(begins);
        }
        if self.has_ring() || self.keeps_copies() {
            self.trouble_a_stage(stage);
        }
        let count = 1 + self.random.index(3);
        for _ in 0..count {
            let within = match stage {
                Stage::Quiesced => SOON,
                _ => SOMETIME,
            };
            let delay = self.random.below(within);
            let any = Mischance::ALL[self.random.index(Mischance::ALL.len())];
            self.after(delay, Event::Led(Turn::Mischance(Some(any))));
        }
    }

    /// Something is to be wrong already when a change begins, in runs in which something is.
    pub(super) fn trouble_the_beginning(&mut self, begins: Nanos) {
        if self.plan.swarm.hazards == Hazards::default() {
            return;
        }
        match self.random.below(6) {
            0..3 => self.stop_over_the_beginning(begins),
            3 | 4 => self.break_at_the_beginning(begins),
            _ => {}
        }
    }

    /// Of a ring's servers little is asked that moves, so that little of it would be under way; and the next plan follows soon when one is done, as with
    /// copies.
    fn trouble_a_stage(&mut self, stage: Stage) {
        if self.random.chance(1, 2) {
            let soon = self.time + self.random.between(40, 300) * MS;
            self.break_at_the_beginning(soon);
        }
        if stage == Stage::Closing && self.has_ring() && self.random.chance(1, 2) {
            self.stop_over_the_beginning(self.time + CLOSING);
        }
    }

    /// A former server has stores to execute that were given up, and goes on when the change has begun, or much later.
    fn stop_over_the_beginning(&mut self, begins: Nanos) {
        if begins >= self.plan.quiet_from() {
            return;
        }
        let servers = self.givers_to_be();
        let server = servers[self.random.index(servers.len())];
        let length = match self.random.below(4) {
            0 => self.random.between(700 * MS, 12 * SECOND),
            _ => self.random.between(20 * MS, 100 * MS),
        };
        let until = (begins + length).min(self.plan.quiet_from());
        // As if it had stood still since: its host accepts, and nobody is answered.
        let from = begins.saturating_sub(self.random.between(650 * MS, 1_400 * MS));
        self.at(from, Event::Led(Turn::Stop { server, until }));
    }

    /// Everything takes a little longer when the change begins, so that much is under way between its steps. What was sent to former
    /// servers just before arrives when others are asked already.
    fn break_at_the_beginning(&mut self, begins: Nanos) {
        if begins >= self.plan.quiet_from() {
            return;
        }
        let (by, length) = (self.random.between(2, 16), self.random.between(500, 5_000));
        let until = (begins + length * MS).min(self.plan.quiet_from());
        let from = begins.saturating_sub(300 * MS);
        let slow = Turn::Slow { by: by * MS, until };
        self.at(from, Event::Led(slow));
        let before = self.random.below(40 * MS);
        self.at(begins - before, Event::Led(Turn::Lag));
    }

    pub(super) fn slow_proxies(&mut self, by: Nanos, until: Nanos) {
        for proxy in 0..self.proxies.len() {
            let host = self.servers.len() + proxy;
            self.narrate(&[host], || format!("is slower by {} ms", by / MS));
            self.fault_schedule.slow_down(host, by, until);
            self.note_mischance(Mischance::Slow);
        }
    }

    pub(super) fn lag_behind(&mut self) {
        let (first_proxy, former) = (self.servers.len(), self.givers_to_be());
        let between = |ends: &[End; 2]| {
            ends[INITIATOR].host >= first_proxy && former.contains(&ends[ACCEPTOR].host)
        };
        for connection in self.open_connections(between) {
            let hosts = [0, 1].map(|end| self.connections[connection].ends[end].host);
            self.narrate(&hosts, || format!("lose connection #{connection}"));
            let lag = self.random.between(20 * MS, LAG_MAX);
            self.reset_late(connection, lag);
            self.note_mischance(Mischance::ConnectionsLost);
        }
    }

    /// A server of the former ones, or of the pool's own.
    pub(super) fn some_server_of(&mut self, former: bool) -> usize {
        let servers = self.servers_of(former);
        servers[self.random.index(servers.len())]
    }

    /// The former servers; of a ring those that give by what is ordered next, if anything is.
    fn givers_to_be(&self) -> Vec<usize> {
        let ring = self.led.as_ref().and_then(|led| led.ring.as_ref());
        let next = ring.and_then(|ring| ring.next.as_ref());
        next.map_or_else(|| self.servers_of(true), |(_, givers)| givers.clone())
    }

    /// The former servers, or the pool's own; of a ring those that give by its present plan, or those that get. Any where nothing moves by it.
    pub(super) fn servers_of(&self, former: bool) -> Vec<usize> {
        let all = 0..self.servers.len();
        let Some(led) = &self.led else {
            return all.collect();
        };
        let is_it = |server: &usize| match former {
            true => led.is_former(*server),
            false => led.is_own(*server),
        };
        let found: Vec<usize> = all.clone().filter(is_it).collect();
        match found.is_empty() {
            true => all.collect(),
            false => found,
        }
    }

    /// Something goes wrong, as long as anything is to.
    pub(super) fn mischance(&mut self, chosen: Option<Mischance>) {
        if self.time >= self.plan.quiet_from() {
            return;
        }
        if chosen.is_none() {
            let (least, most) = self.plan.swarm.pause;
            let pause = self.random.between(least, most);
            self.after(pause, Event::Led(Turn::Mischance(None)));
        }
        let any = Mischance::ALL[self.random.index(Mischance::ALL.len())];
        self.let_happen(chosen.unwrap_or(any), None);
    }

    /// Something goes wrong, with this server if it is one of its kind of servers.
    pub(super) fn let_happen(&mut self, mischance: Mischance, with: Option<usize>) {
        let proxy = self.random.index(self.proxies.len());
        let (mut former, mut own) = (self.some_server_of(true), self.some_server_of(false));
        if let (Some(server), Some(led)) = (with, &self.led) {
            match led.is_former(server) {
                true => former = server,
                false => own = server,
            }
        }
        let host = self.random.index(self.coordinator_host() + 1);
        let end = self.some_end(3);
        let back = self.time + self.random.between(1, 900) * MS;
        let back = back.min(self.plan.quiet_from());
        match mischance {
            Mischance::ConnectionsLost => {
                if self.reset_some(3) {
                    self.note_mischance(mischance);
                }
            }
            // What it has to execute is given up meanwhile.
            Mischance::WriteLate => {
                let length = self.random.between(620, 1_300) * MS;
                let until = (self.time + length).min(self.plan.quiet_from());
                self.stand_still(former, until);
            }
            Mischance::Partition => {
                let (one, others) = (self.servers.len() + proxy, self.servers.len() + 1);
                let other = match self.random.index(others) {
                    server if server < self.servers.len() => server,
                    _ => self.coordinator_host(),
                };
                self.narrate(&[one, other], || "are cut off (and)".into());
                self.fault_schedule.cut(one, other, end);
                self.fault_schedule.cut(other, one, end);
                self.note_mischance(mischance);
            }
            Mischance::PacketsLost => {
                let loss = self.random.between(10, 301);
                self.narrate(&[host], || format!("loses {loss} of 1,000 packets"));
                self.fault_schedule.lose(host, loss, end);
                self.note_mischance(mischance);
            }
            Mischance::Slow => {
                let by = self.random.between(10, 201) * MS;
                self.narrate(&[host], || format!("is slower by {} ms", by / MS));
                self.fault_schedule.slow_down(host, by, end);
                self.note_mischance(mischance);
            }
            Mischance::Duplicates => {
                self.narrate(&[host], || "sends everything twice".into());
                self.fault_schedule.duplicate(host, end);
                self.note_mischance(mischance);
            }
            Mischance::HeartbeatLost | Mischance::HeartbeatLate => {
                let one = self.servers.len() + proxy;
                let is_late = mischance == Mischance::HeartbeatLate;
                let what = if is_late { "late" } else { "lost" };
                self.narrate(&[one], || format!("has its heartbeats {what}"));
                if let Some(led) = &mut self.led {
                    let followed = &mut led.followed[proxy];
                    match is_late {
                        true => followed.late_until = end,
                        false => followed.deaf_until = end,
                    }
                }
            }
            Mischance::FormerKilled => self.kill_and_restart(former, back),
            Mischance::OwnKilled => self.kill_and_restart(own, back),
            Mischance::FormerStopped => {
                self.stand_still(former, end);
            }
            Mischance::OwnStopped => {
                self.stand_still(own, end);
            }
            Mischance::FormerEvicted => self.evict_all(former),
            Mischance::OwnEvicted => self.evict_all(own),
            Mischance::ProxyKilled => {
                self.kill_proxy(proxy, back);
            }
            Mischance::ProxyStopped => {
                self.stand_still(self.servers.len() + proxy, end);
            }
            Mischance::CoordinatorStopped => {
                self.stand_still(self.coordinator_host(), end);
            }
            Mischance::CoordinatorKilled => self.restart_coordinator(),
        }
    }

    /// In a ring a server may have died for good. It is lost then, and may be added again.
    fn kill_and_restart(&mut self, server: usize, back: Nanos) {
        let alive = self.servers.iter().filter(|s| s.process.alive).count();
        if !self.servers[server].process.alive {
            return;
        }
        let is_for_good = self.has_ring() && alive > 2 && self.random.chance(1, 4);
        self.kill_server(server);
        if is_for_good {
            self.report.tell("servers killed for good", 1);
        } else {
            self.at(back, Event::Restart { server });
        }
    }
}
