//! The end of a run: what it came to, and whether that can be.

use super::{Outcome, World};
use crate::history::{History, Promises, check, check_linearizable};
use evenkeel_types::promise::Consistency;

impl World {
    /// Counts and judges what happened.
    pub(super) fn end_run(mut self) -> Outcome {
        self.report.tell("events", self.queue.count());
        for server in 0..self.servers.len() {
            if self.servers[server].process.alive {
                self.count_server(server);
            }
        }
        for proxy in &self.proxies {
            self.report.take_proxy(proxy.core.stats());
        }
        if self.led.is_some() {
            return self.finish_led();
        }
        let changes = self.coordinator.core.epoch().0;
        self.report.tell("maps", changes);
        let (log, lapses) = self.register.finish(self.time);
        let history = History {
            operations: self.operations,
            log: Some(log),
            lapses,
        };
        let promises = Promises {
            staleness: self.plan.lease(),
            misses_are_true: self.misses_are_true,
        };
        match check(&history, &promises) {
            Ok(checked) => {
                self.report.tell("values shown", checked.values);
                self.report.tell("misses shown", checked.misses);
                self.report.tell("writes confirmed", checked.writes);
                self.report.tell("outcomes unknown", checked.unknown);
                self.report
                    .tell("values stale within the bound", checked.staleness.count());
                self.report.staleness.add(&checked.staleness);
            }
            Err(violations) => {
                self.violations
                    .extend(violations.iter().map(ToString::to_string));
            }
        }
        if self.plan.consistency == Consistency::Atomic {
            match check_linearizable(&history.operations) {
                Ok(linear) => self
                    .report
                    .tell("operations put in order", linear.operations),
                Err(violations) => {
                    self.violations
                        .extend(violations.iter().map(ToString::to_string));
                }
            }
        }
        Outcome {
            report: self.report,
            violations: self.violations,
            history,
        }
    }
}
