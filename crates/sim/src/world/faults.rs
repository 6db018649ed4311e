//! What goes wrong, and what operators do.

use super::plan::{Cluster, MS, Turmoil};
use super::{Event, World};
use crate::history::Nanos;
use evenkeel_roles::coordinator::Switch;

/// A kind of mishap.
#[derive(Clone, Copy, Debug)]
enum Mishap {
    Reset,
    ManyResets,
    Cut,
    Kill,
    StopServer,
    StopProxy,
    Join,
    SwitchHotKeys,
    CoordinatorAway,
    RestartCoordinator,
    ApplicationGone,
}

impl World {
    /// The next mishap comes after a while, if there is to be one.
    pub(super) fn plan_mishap(&mut self) {
        let (least, most) = self.plan.pause();
        let delay = self.random.between(least, most);
        if self.time + delay < self.plan.quiet_from() {
            self.after(delay, Event::Mishap);
        }
    }

    pub(super) fn mishap(&mut self) {
        use Mishap::*;
        let choices: &[Mishap] = match self.plan.turmoil {
            Turmoil::Everything if self.plan.cluster == Cluster::Plain => &[
                Reset,
                ManyResets,
                Cut,
                Kill,
                StopServer,
                StopProxy,
                ApplicationGone,
            ],
            Turmoil::Calm => &[],
            Turmoil::Resets => &[Reset, Reset, ManyResets, ApplicationGone],
            Turmoil::Partitions => &[Cut],
            Turmoil::Crashes => &[Kill, Kill, Reset],
            Turmoil::Pauses => &[StopServer, StopServer, StopProxy],
            Turmoil::Changes => &[
                Join,
                Join,
                SwitchHotKeys,
                CoordinatorAway,
                RestartCoordinator,
                Kill,
                StopProxy,
            ],
            Turmoil::Everything => &[
                Reset,
                ManyResets,
                Cut,
                Kill,
                StopServer,
                StopProxy,
                Join,
                SwitchHotKeys,
                CoordinatorAway,
                RestartCoordinator,
                ApplicationGone,
            ],
        };
        self.plan_mishap();
        if choices.is_empty() {
            return;
        }
        let mishap = choices[self.random.index(choices.len())];
        if self.plan.aloud {
            self.say(&format!("mishap: {mishap:?}"));
        }
        match mishap {
            Reset => self.reset_some(1),
            ManyResets => self.reset_some(6),
            Cut => self.cut_some(),
            Kill => self.kill_one(),
            StopServer => {
                let server = self.random.index(self.servers.len());
                let length = self.some_time(3);
                self.servers[server].process.stopped_until = self.time + length;
                self.report.tell("servers stopped", 1);
            }
            StopProxy => {
                let proxy = self.random.index(self.proxies.len());
                let length = self.some_time(2);
                self.proxies[proxy].process.stopped_until = self.time + length;
                self.report.tell("proxies stopped", 1);
            }
            Join => {
                let dead = (0..self.servers.len()).find(|&s| self.servers[s].boot.0 == 0);
                if let Some(server) = dead {
                    self.start_server(server);
                    self.report.tell("servers joined", 1);
                }
            }
            SwitchHotKeys => {
                let switch = &mut self.coordinator.hot_keys;
                *switch = match *switch {
                    Switch::On => Switch::Off,
                    Switch::Off => Switch::On,
                };
                let was_switched_off = *switch == Switch::Off;
                self.report.tell("hot keys switched", 1);
                if was_switched_off {
                    let length = self.random.between(50 * MS, 500 * MS);
                    self.after(length, Event::HotKeysOn);
                }
            }
            CoordinatorAway => {
                let length = self.some_time(4);
                self.coordinator.process.stopped_until = self.time + length;
                self.report.tell("coordinator stopped", 1);
            }
            RestartCoordinator => self.restart_coordinator(),
            ApplicationGone => {
                let application = self.random.index(self.applications.len());
                self.hang_up(application);
            }
        }
    }

    /// Mostly short, at times longer than a lease or a timeout.
    fn some_time(&mut self, longest: u64) -> Nanos {
        let most = if self.random.chance(1, 3) {
            longest * 300
        } else {
            120
        };
        self.random.between(5, most) * MS
    }

    fn reset_some(&mut self, most: usize) {
        let servers = self.servers.len();
        let between_processes =
            self.open_connections(|ends| ends.iter().any(|end| end.host < servers));
        for _ in 0..most.min(between_processes.len()) {
            let connection = between_processes[self.random.index(between_processes.len())];
            self.reset(connection);
            self.report.tell("connections reset", 1);
        }
    }

    fn cut_some(&mut self) {
        let hosts = self.coordinator_host() + 1;
        let length = self.some_time(3);
        let one = self.random.index(hosts);
        if self.random.chance(1, 3) {
            // One host from all others.
            for other in (0..hosts).filter(|&other| other != one) {
                self.cut(one, other, length);
            }
        } else {
            let other = (one + 1 + self.random.index(hosts - 1)) % hosts;
            self.cut(one, other, length);
        }
        self.report.tell("partitions", 1);
    }

    fn kill_one(&mut self) {
        let alive: Vec<usize> = (0..self.servers.len())
            .filter(|&s| self.servers[s].process.alive)
            .collect();
        if alive.len() < 2 {
            return;
        }
        // The home of the hottest key is the worst to lose.
        let hottest = self
            .home_of_first_key()
            .filter(|_| self.random.chance(1, 2));
        let server = hottest.unwrap_or_else(|| alive[self.random.index(alive.len())]);
        self.kill_server(server);
        self.report.tell("servers killed", 1);
        let most = if self.random.chance(1, 2) { 40 } else { 900 };
        let delay = self.random.between(1, most) * MS;
        self.after(delay, Event::Restart { server });
    }
}
