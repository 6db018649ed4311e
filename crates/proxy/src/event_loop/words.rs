//! What the process and other workers say to a worker.

use super::{STOP_DRAIN, Worker};
use crate::control::{Control, Turnover};
use evenkeel_proxy_core::{MapSource, PoolKind, ProxyConfig};
use evenkeel_types::Instant;
use evenkeel_types::map::ClusterMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a worker waits for others to know another configuration. One that is longer in a turn, or is stopped, goes by the former one
/// for a moment more.
const TURNOVER_MAX: Duration = Duration::from_millis(20);

impl Worker {
    pub(super) fn take_words(&mut self, now: Instant) {
        while let Ok(word) = self.parts.control.try_recv() {
            match word {
                Control::Map(source, map) => {
                    self.set_map(now, source, &map);
                    // Kept also where no pool follows it yet: the configuration that makes one may
                    // be on its way.
                    self.maps.insert(source, map);
                }
                Control::Step(source, pool, step) => {
                    self.parts.core.set_step(now, source, &pool, step.clone());
                    // Kept as maps are.
                    match step {
                        Some(step) => self.steps.insert((source, pool), step),
                        None => self.steps.remove(&(source, pool)),
                    };
                    let _ = self.parts.news.try_send(());
                }
                Control::CountRing(source, pool, slot) => {
                    if let Some(counted) = self.parts.core.ring_counted(now, source, &pool) {
                        self.parts
                            .gauges
                            .set_ring_counted(source, pool, slot, counted);
                    }
                }
                Control::CountFound(source, pool) => {
                    if let Some(found) = self.parts.core.found(source, &pool) {
                        self.parts.gauges.set_found(source, pool, found);
                    }
                }
                Control::CountServed => self.parts.gauges.set_served(self.parts.core.served()),
                Control::Configure(config, turnover) => self.prepare(now, config, &turnover),
                Control::TurnOver(generation) => {
                    let prepared = self.prepared.as_ref();
                    if prepared.is_some_and(|(it, _)| it.revision.generation == generation) {
                        self.turn_over(now);
                    }
                }
                Control::Resolved(id, address) => self.resolved(now, id, address),
                Control::CountsWanted { by, question } => {
                    let counts = Box::new(self.parts.core.counts(now));
                    self.parts.workers[by].say(Control::Counts { question, counts });
                }
                Control::Counts { question, counts } => {
                    if let Some(asked) = self.questions.get_mut(&question) {
                        asked.process.add(*counts);
                        asked.missing -= 1;
                    }
                    self.answer_stats(now, question);
                }
                Control::Count(asked) => {
                    // Anyone who asked may have given up.
                    let _ = asked.send(self.parts.core.counts(now));
                }
                Control::ResetStats => self.parts.core.reset_stats(),
                Control::Stop => self.stopping = Some(now + STOP_DRAIN),
            }
        }
    }

    fn set_map(&mut self, now: Instant, source: MapSource, map: &Arc<ClusterMap>) {
        self.parts.core.set_map(now, source, map);
        let epoch = self.parts.core.epoch(source).max(map.epoch());
        self.parts.gauges.set_epoch(source, epoch);
        // Nobody may be waiting for it, or has been told already.
        let _ = self.parts.news.try_send(());
    }

    /// There is another configuration. Until all workers know it, no request is begun.
    fn prepare(&mut self, now: Instant, config: Arc<ProxyConfig>, turnover: &Turnover) {
        let generation = config.revision.generation;
        self.prepared = Some((config, now + TURNOVER_MAX));
        if turnover.arrive() {
            for worker in self.parts.workers.iter() {
                worker.say(Control::TurnOver(generation));
            }
        }
    }

    /// Works by the configuration that was prepared, and serves those who have waited for it.
    pub(super) fn turn_over(&mut self, now: Instant) {
        let Some((config, _)) = self.prepared.take() else {
            return;
        };
        self.configure(now, &config);
        for id in std::mem::take(&mut self.held) {
            let place = self.applications.get_mut(id.0.slot as usize);
            if let Some(application) = place.and_then(Option::as_mut).filter(|a| a.id == id) {
                application.queued = false;
                self.enqueue_application(id);
            }
        }
    }

    fn configure(&mut self, now: Instant, config: &Arc<ProxyConfig>) {
        self.parts.core.configure(now, config);
        if self.parts.core.records() {
            for application in self.applications.iter().flatten() {
                let origin = application.origin();
                let core = &mut self.parts.core;
                core.client_comes_from(application.id, origin.as_bytes());
            }
        }
        let follows = |source: &MapSource| {
            let mut pools = config.pools.iter();
            pools.any(|pool| matches!(pool.kind, PoolKind::Evenkeel(other) if other == *source))
        };
        self.maps.retain(|source, _| follows(source));
        for (source, map) in self.maps.clone() {
            self.set_map(now, source, &map);
        }
        let is_led = |source: MapSource, name: &Arc<str>| {
            let mut pools = config.pools.iter();
            pools.any(|pool| pool.name == *name && pool.settings.follows == Some(source))
        };
        self.steps.retain(|(source, pool), _| is_led(*source, pool));
        self.parts.gauges.keep_led(is_led);
        for ((source, pool), step) in &self.steps {
            let core = &mut self.parts.core;
            core.set_step(now, *source, pool, Some(step.clone()));
        }
        self.parts.gauges.set_generation(config.revision.generation);
        let _ = self.parts.news.try_send(());
    }
}
