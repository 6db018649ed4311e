//! What the proxy carries, for coordinators.

use crate::control::{Control, WorkerHandle};
use core::mem;
use evenkeel_control::times::Histogram;
use evenkeel_control::{LoadReport, Served};
use evenkeel_runtime::Clock;
use evenkeel_types::Instant;
use std::sync::Arc;

/// What workers do between one report and the next.
pub struct Load {
    clock: Clock,
    workers: Arc<[WorkerHandle]>,
    at: Instant,
    requests: Vec<u64>,
    served: (Histogram, u64),
}

impl Load {
    /// From now on.
    pub fn new(clock: Clock, workers: &Arc<[WorkerHandle]>) -> Self {
        Load {
            clock,
            workers: Arc::clone(workers),
            at: clock.now().monotonic,
            requests: vec![0; workers.len()],
            served: (Histogram::default(), 0),
        }
    }

    /// What is new since the last report.
    pub fn report(&mut self) -> LoadReport {
        let now = self.clock.now().monotonic;
        let seconds = now.since(self.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let counts = self.workers.iter().map(|worker| worker.gauges.requests());
        let requests_per_second = counts
            .zip(&mut self.requests)
            .map(|(count, before)| {
                // `stats reset` takes counts back.
                let since = count.saturating_sub(mem::replace(before, count));
                since as f64 / seconds
            })
            .collect();
        self.at = now;
        LoadReport {
            requests_per_second,
            measured: None,
            served: Some(self.served()),
        }
    }

    /// As workers have said it when they were asked last. They are asked anew for the next time.
    fn served(&mut self) -> Served {
        let mut now = (Histogram::default(), 0);
        for worker in self.workers.iter() {
            let (times, shed) = worker.gauges.served();
            now.0.add(&times);
            now.1 += shed;
            worker.say(Control::CountServed);
        }
        let before = mem::replace(&mut self.served, now);
        let (times, shed) = &self.served;
        Served {
            times: times.since(&before.0).counted(),
            shed: shed.saturating_sub(before.1),
        }
    }
}
