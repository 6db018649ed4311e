//! What goes wrong, and what operators do.
//!
//! Nothing of it lasts beyond the time from which everything has to come to rest; only a server that
//! died for good stays away.

use super::swarm::Hazard;
use super::units::{MS, SECOND};
use super::{Event, World};
use crate::history::Nanos;
use evenkeel_hotkeys::config::Mode;

/// How far wall clocks jump, in seconds: a leap second, an hour, a month.
const WALL_JUMPS_S: [i64; 3] = [1, 3_600, 30 * 86_400];

impl World {
    /// The next fault comes after a while, if there is to be one.
    pub(super) fn plan_mishap(&mut self) {
        let (least, most) = self.plan.swarm.pause;
        let delay = self.random.between(least, most);
        if self.time + delay < self.plan.quiet_from() {
            self.after(delay, Event::Mishap);
        }
    }

    pub(super) fn mishap(&mut self) {
        self.plan_mishap();
        let choices: Vec<Hazard> = self.plan.swarm.hazards.iter().collect();
        if choices.is_empty() {
            return;
        }
        let hazard = choices[self.random.index(choices.len())];
        if self.inject(hazard) {
            self.note_hazard(hazard);
            self.report.tell(hazard.name(), 1);
        }
    }

    /// Lets a fault happen. False when there is nothing left for it to happen to.
    fn inject(&mut self, hazard: Hazard) -> bool {
        match hazard {
            Hazard::Reset => self.reset_some(1),
            Hazard::ManyResets => self.reset_some(6),
            Hazard::Partition => self.cut_some(true),
            Hazard::OneWay => self.cut_some(false),
            Hazard::CutFromHome => self.cut_from_home(),
            Hazard::Loss => {
                let (host, until) = (self.some_host(), self.some_end(10));
                let loss = self.random.between(10, 301);
                self.narrate(&[host], || format!("loses {loss} of 1,000 packets"));
                self.fault_schedule.lose(host, loss, until);
                true
            }
            Hazard::SlowHost => {
                let (host, until) = (self.some_host(), self.some_end(10));
                let by = self.random.between(10, 201) * MS;
                self.narrate(&[host], || format!("is slower by {} ms", by / MS));
                self.fault_schedule.slow_down(host, by, until);
                true
            }
            Hazard::NarrowHost => {
                let (host, until) = (self.some_host(), self.some_end(10));
                self.narrate(&[host], || "has 1 Mbit/s".into());
                self.fault_schedule.narrow(host, until);
                true
            }
            Hazard::Duplicates => {
                let (host, until) = (self.some_host(), self.some_end(10));
                self.narrate(&[host], || "sends everything twice".into());
                self.fault_schedule.duplicate(host, until);
                true
            }
            Hazard::Crash => {
                let most = if self.random.chance(1, 2) { 40 } else { 900 };
                let delay = self.random.between(1, most) * MS;
                let back = self.time + delay;
                self.kill_one(Some(back))
            }
            Hazard::CrashForLong => {
                let back = self.plan.quiet_from() + self.random.below(SECOND);
                let back = (!self.random.chance(1, 3)).then_some(back);
                self.kill_one(back)
            }
            Hazard::StopServer => {
                let host = self.random.index(self.servers.len());
                self.stop(host, 15)
            }
            Hazard::StopInTurn => {
                let host = self.random.index(self.servers.len());
                let length = self.random.between(100, 4_000) * MS;
                let server = &mut self.servers[host];
                server.leases.stop_in_turn = Some(length);
                server.process.alive
            }
            Hazard::CutFromCluster => self.cut_from_cluster(),
            Hazard::StopProxy => {
                let host = self.servers.len() + self.random.index(self.proxies.len());
                self.stop(host, 5)
            }
            Hazard::Join => {
                let new = (0..self.servers.len()).find(|&s| self.servers[s].boot.0 == 0);
                if let Some(server) = new {
                    self.start_server(server);
                }
                new.is_some()
            }
            Hazard::MoveCachelet => self.move_cachelets(),
            Hazard::Migrate => self.migrate_some(),
            Hazard::Drain => self.drain_or_fill(),
            Hazard::SwitchPlans => self.switch_plans(),
            Hazard::SwitchHotKeys => self.switch_hot_keys(),
            Hazard::CoordinatorAway => {
                let host = self.coordinator_host();
                self.stop(host, 20)
            }
            Hazard::CoordinatorCrash => {
                self.restart_coordinator();
                true
            }
            Hazard::WallJump => {
                let host = self.random.index(self.coordinator_host() + 1);
                let far = WALL_JUMPS_S[self.random.index(WALL_JUMPS_S.len())];
                let by = if self.random.chance(1, 2) { far } else { -far };
                self.narrate(&[host], || format!("has its wall clock jump by {by} s"));
                self.process_mut(host).wall_s += by;
                true
            }
            Hazard::ApplicationGone => {
                let application = self.random.index(self.applications.len());
                self.hang_up(application)
            }
        }
    }

    /// When something ends that begins now: mostly soon, at times after more than a lease or a
    /// time-out, rarely after up to `longest` seconds.
    pub(super) fn some_end(&mut self, longest: u64) -> Nanos {
        let most = match self.random.below(6) {
            0 => longest * 1000,
            1 | 2 => 900,
            _ => 120,
        };
        let end = self.time + self.random.between(5, most) * MS;
        end.min(self.plan.quiet_from())
    }

    /// A server, a proxy or the coordinator.
    fn some_host(&mut self) -> usize {
        self.random.index(self.coordinator_host() + 1)
    }

    /// A process stands still.
    fn stop(&mut self, host: usize, longest: u64) -> bool {
        let until = self.some_end(longest);
        self.stand_still(host, until)
    }

    /// The same until then. False when there is no process.
    pub(super) fn stand_still(&mut self, host: usize, until: Nanos) -> bool {
        let length = until.saturating_sub(self.time) / MS;
        self.narrate(&[host], || format!("stands still for {length} ms"));
        let process = self.process_mut(host);
        process.stopped_until = until.max(process.stopped_until);
        let is_alive = process.alive;
        if is_alive {
            self.note_stopped(host);
        }
        is_alive
    }

    fn switch_hot_keys(&mut self) -> bool {
        let coordinator = &mut self.coordinator;
        let switch = match coordinator.hot_keys {
            Mode::Observe | Mode::Off => Mode::On,
            // Off and observing in turns.
            Mode::On if coordinator.observe_next => Mode::Observe,
            Mode::On => Mode::Off,
        };
        coordinator.hot_keys = switch;
        coordinator.observe_next ^= switch != Mode::On;
        let host = self.coordinator_host();
        self.narrate(&[host], || format!("switches hot keys: {switch:?}"));
        if switch != Mode::On {
            let length = self.random.between(50 * MS, 500 * MS);
            self.after(length, Event::HotKeysOn);
        }
        true
    }

    pub(super) fn reset_some(&mut self, most: usize) -> bool {
        let servers = self.servers.len();
        let between_processes =
            self.open_connections(|ends| ends.iter().any(|end| end.host < servers));
        for _ in 0..most.min(between_processes.len()) {
            let connection = between_processes[self.random.index(between_processes.len())];
            let hosts = [0, 1].map(|end| self.connections[connection].ends[end].host);
            self.narrate(&hosts, || format!("lose connection #{connection}"));
            self.reset(connection);
        }
        !between_processes.is_empty()
    }

    fn cut_some(&mut self, both_ways: bool) -> bool {
        let hosts = self.coordinator_host() + 2;
        let until = self.some_end(10);
        let one = self.random.index(hosts);
        let others: Vec<usize> = if self.random.chance(1, 3) {
            // One host from all others.
            (0..hosts).filter(|&other| other != one).collect()
        } else {
            vec![(one + 1 + self.random.index(hosts - 1)) % hosts]
        };
        for other in others {
            let way = if both_ways {
                "and"
            } else {
                "no longer reaches"
            };
            self.narrate(&[one, other], || format!("are cut off ({way})"));
            self.fault_schedule.cut(one, other, until);
            if both_ways {
                self.fault_schedule.cut(other, one, until);
            }
        }
        true
    }

    /// One proxy and the home of the hottest key do not reach each other, in one direction or both;
    /// its copies are within reach.
    fn cut_from_home(&mut self) -> bool {
        let Some(home) = self.home_of_first_key() else {
            return false;
        };
        let proxy = self.servers.len() + self.random.index(self.proxies.len());
        let until = self.some_end(10);
        let directions = self.random.index(3);
        self.narrate(&[proxy, home], || {
            "are cut off, home of the hottest key".into()
        });
        if directions != 0 {
            self.fault_schedule.cut(proxy, home, until);
        }
        if directions != 1 {
            self.fault_schedule.cut(home, proxy, until);
        }
        true
    }

    /// A server, often the home of the hottest key, reaches and is reached by nobody but proxies: mostly for longer
    /// than its lease and all that others wait for.
    fn cut_from_cluster(&mut self) -> bool {
        let hottest = self
            .home_of_first_key()
            .filter(|_| self.random.chance(1, 2));
        let one = hottest.unwrap_or_else(|| self.random.index(self.servers.len()));
        let until = self.time + self.random.between(300, 5_000) * MS;
        let until = until.min(self.plan.quiet_from());
        self.narrate(&[one], || "is cut off from its cluster".into());
        let others = (0..self.servers.len()).chain([self.coordinator_host()]);
        for other in others.filter(|&other| other != one) {
            self.fault_schedule.cut(one, other, until);
            self.fault_schedule.cut(other, one, until);
        }
        self.servers[one].process.alive
    }

    fn kill_one(&mut self, back: Option<Nanos>) -> bool {
        let alive: Vec<usize> = (0..self.servers.len())
            .filter(|&s| self.servers[s].process.alive)
            .collect();
        if alive.len() < 2 {
            return false;
        }
        // The home of the hottest key is the worst to lose.
        let hottest = self
            .home_of_first_key()
            .filter(|_| self.random.chance(1, 2));
        let server = hottest.unwrap_or_else(|| alive[self.random.index(alive.len())]);
        self.kill_server(server);
        match back {
            Some(at) => self.at(at, Event::Restart { server }),
            None => self.report.tell("servers killed for good", 1),
        }
        true
    }

    /// Faults are over: what still stands between the hosts is gone.
    pub(super) fn calm_down(&mut self) {
        self.fault_schedule.end(self.time);
        self.traps.clear();
        self.hurry_drains();
        self.give_up_migrations();
        self.coordinator.hot_keys = Mode::On;
        self.narrate(&[], || "faults are over".into());
    }
}
