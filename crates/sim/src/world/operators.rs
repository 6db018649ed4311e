//! What operators do to servers and plans: servers are emptied and filled again, load is evened out or not.

use super::World;
use super::plan::Cluster;
use super::swarm::Habit;
use evenkeel_coordinator_core::DrainRequest;
use evenkeel_coordinator_core::plans::{PlanMode, PlanSettings};
use evenkeel_types::Instant;

/// Cachelets that a drained server gives up in a second, by turns: the coordinator's own choice, and faster ones.
const DRAIN_RATES: [u32; 3] = [4, 20, 200];

/// What migrations that the coordinator begins copy in a second at most, by turns; 0 for no limit. Slow ones are caught in
/// the middle.
const RATES: [u64; 4] = [0, 200, 600, 6_000];

impl World {
    /// What a server is called.
    pub(super) fn name_of(server: usize) -> String {
        format!("s{server}")
    }

    /// A server is to be emptied, or to get its share again.
    pub(super) fn drain_or_fill(&mut self) -> bool {
        let drained = self.drained();
        if !drained.is_empty() && self.random.chance(1, 2) {
            let server = drained[self.random.index(drained.len())];
            return self.drain(server, false);
        }
        let server = self.random.index(self.servers.len());
        self.drain(server, true)
    }

    fn drain(&mut self, server: usize, drain: bool) -> bool {
        let request = DrainRequest {
            server: Self::name_of(server),
            drain,
            cachelets_per_second: DRAIN_RATES[self.random.index(DRAIN_RATES.len())],
        };
        let done = self.order_drain(&request);
        if done {
            let what = match drain {
                true => "servers drained",
                false => "servers filled again",
            };
            self.report.tell(what, 1);
            self.narrate(&[server], || format!("is among {what}"));
        }
        done
    }

    /// False where the coordinator refuses it, because nobody else is left to begin a drain for.
    fn order_drain(&mut self, request: &DrainRequest) -> bool {
        let now = self.coordinator.process.now(self.time);
        let done = self.coordinator.core.handle_drain(now, request).is_ok();
        self.note_new_maps();
        self.arm(self.coordinator_host());
        done
    }

    /// Servers that are to have nothing, those that do not run at the moment too.
    fn drained(&self) -> Vec<usize> {
        let view = self.coordinator.core.servers(self.coordinator_now());
        let is_drained = |&server: &usize| {
            let name = Self::name_of(server);
            let known = view.servers.iter().find(|known| known.name == name);
            known.is_some_and(|known| known.draining)
        };
        (0..self.servers.len()).filter(is_drained).collect()
    }

    fn coordinator_now(&self) -> Instant {
        self.coordinator.process.now(self.time).monotonic
    }

    /// How fast the coordinator's own migrations are to be, to begin with.
    pub(super) fn pace_migrations(&mut self) {
        let settings = PlanSettings {
            bytes_per_second: RATES[self.random.index(RATES.len())],
            ..PlanSettings::default()
        };
        self.set_plans(settings);
    }

    fn set_plans(&mut self, settings: PlanSettings) {
        let core = &mut self.coordinator.core;
        core.set_plan_settings(settings).expect("within all ranges");
    }

    /// Load is evened out between servers from now on, or not any more.
    pub(super) fn switch_plans(&mut self) -> bool {
        let random = &mut self.random;
        let mode = match self.coordinator.core.plan_settings().mode {
            PlanMode::Automatic => PlanMode::Observe,
            PlanMode::Observe | PlanMode::Approve => PlanMode::Automatic,
        };
        let settings = PlanSettings {
            mode,
            intervals: 1,
            pause_ms: random.between(100, 2_000),
            // What little there is may all be copied.
            bytes_ratio_max: 1.0,
            migrations_max: 1 + random.index(16),
            migrations_per_server_max: 1 + random.index(3),
            bytes_per_second: RATES[random.index(RATES.len())],
        };
        self.set_plans(settings);
        self.narrate(&[], || format!("plans are to be {mode} from now on"));
        true
    }

    /// Faults are over: what is drained is to be empty before the end, unless it is to be filled again.
    pub(super) fn hurry_drains(&mut self) {
        if self.plan.cluster == Cluster::Plain {
            return;
        }
        self.set_plans(PlanSettings {
            bytes_per_second: 0,
            migrations_max: 64,
            migrations_per_server_max: 16,
            ..self.coordinator.core.plan_settings()
        });
        for server in self.drained() {
            let goes_on = self.random.chance(1, 2);
            let request = DrainRequest {
                server: Self::name_of(server),
                drain: goes_on,
                cachelets_per_second: 200,
            };
            self.order_drain(&request);
        }
    }

    /// At the end nothing is between two owners, and who is drained has nothing and may be stopped.
    pub(super) fn check_drains(&mut self) {
        // After a `flush_all` migrations wait for longer than the end is quiet.
        if self.plan.cluster == Cluster::Plain || self.plan.swarm.habits.has(Habit::Flush) {
            return;
        }
        let view = self.coordinator.core.servers(self.coordinator_now());
        let has_takers = (view.servers.iter()).any(|server| server.up && !server.draining);
        for server in view.servers.iter().filter(|server| server.up && has_takers) {
            if server.released > 0 {
                self.fail(format!("{server:?} has not let go of what it gave up"));
            }
            if server.draining && server.cachelets > 0 {
                self.fail(format!("{server:?} is drained and owns cachelets still"));
            }
        }
        let drains = self.coordinator.core.drains(self.coordinator_now()).drains;
        for drain in drains.iter().filter(|drain| drain.cachelets == 0) {
            if !drain.may_stop {
                self.fail(format!("{drain:?}: not over"));
            }
        }
    }
}
