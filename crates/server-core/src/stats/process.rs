//! What statistics tell that a worker does not count: of its process, and settings that change while it runs.

use super::ProcessFacts;
use crate::session::{ConnectionId, Session};
use core::mem::take;
use evenkeel_hotkeys::settings::{SETTINGS, Settings};
use evenkeel_protocol::compose::answer::stat;
use evenkeel_protocol::text;
use evenkeel_storage::SegmentPool;
use evenkeel_types::promise::Promise;
use serde_json::Value;
use std::sync::Arc;

/// Largest level that `verbosity` sets, as in memcached.
const VERBOSITY_MAX: u32 = 2;

/// What a worker was told of its process, and of what operators chose.
#[derive(Debug)]
pub(crate) struct ProcessState {
    pub(crate) facts: ProcessFacts,
    /// The worker itself, and how many the process has.
    pub(super) me: u16,
    workers: u16,
    /// The memory that all workers share.
    pool: Arc<SegmentPool>,
    /// Connections admitted and refused before the last `stats reset`.
    connections_before_reset: (u64, u64),
    /// What the operator of the cluster has chosen last.
    pub(crate) chosen: Settings,
    /// What `verbosity` was set to.
    pub(crate) verbosity: Option<u32>,
    /// What `stats conns` says of the connection that asks for it.
    pub(super) asking_lines: Vec<u8>,
}

impl ProcessState {
    /// Nothing was told yet.
    pub fn new(me: u16, workers: u16, pool: Arc<SegmentPool>) -> Self {
        ProcessState {
            facts: ProcessFacts::default(),
            me,
            workers,
            pool,
            connections_before_reset: (0, 0),
            chosen: Settings::default(),
            verbosity: None,
            asking_lines: Vec::new(),
        }
    }

    /// The number of a worker's connection in statistics and logs: like a descriptor's, it is unique in the process while
    /// the connection stands. The first numbers are those of the process's listeners.
    pub(crate) fn connection_number(&self, worker: u16, id: ConnectionId) -> u32 {
        let listeners = self.facts.listeners.len() as u32;
        listeners + id.slot * u32::from(self.workers) + u32::from(worker) + 1
    }

    /// As [`connection_number`](Self::connection_number), of a connection of this worker.
    pub(crate) fn number_of(&self, session: &Session) -> u32 {
        self.connection_number(self.me, session.id)
    }

    /// How many connections the process has: open now, admitted and refused so far.
    pub(crate) fn set_connections(&mut self, open: u64, total: u64, refused: u64) {
        self.facts.connections_open = open;
        let (total_before, refused_before) = self.connections_before_reset;
        self.facts.connections_total = total.saturating_sub(total_before);
        self.facts.connections_refused = refused.saturating_sub(refused_before);
    }

    /// Counts from here on.
    pub(crate) fn reset(&mut self) {
        let (total, refused) = &mut self.connections_before_reset;
        *total += take(&mut self.facts.connections_total);
        *refused += take(&mut self.facts.connections_refused);
    }

    /// Looks at the memory, which is fresher than what the process last said of it.
    pub(crate) fn look_at_memory(&mut self) {
        self.facts.limit_bytes = self.pool.limit_bytes() as u64;
        self.facts.counts.memory_used_bytes = self.pool.used_bytes() as u64;
    }

    /// The memory that a limit of `cache_memlimit` leaves is given back step by step.
    pub(crate) fn set_memory_limit(&mut self, mebibytes: u32) {
        let bytes = u64::from(mebibytes) << 20;
        (self.pool).set_limit_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    /// Composes the answer to `stats settings`, with what has another value by now than the process knows. `promise` is that
    /// of a cluster.
    pub(crate) fn settings(&self, counts_prefixes: bool, promise: Option<Promise>) -> Vec<u8> {
        let changed = self.changed_settings(counts_prefixes);
        let chosen = promise.map(|promise| self.chosen_settings(promise));
        let mut out = Vec::with_capacity(2048);
        for (name, value) in &self.facts.settings {
            let now = changed.iter().find(|(other, _)| other == name);
            let value = now.map_or(value, |(_, value)| value);
            stat(&mut out, name.as_bytes(), value.as_bytes());
        }
        for (name, value) in chosen.into_iter().flatten() {
            stat(&mut out, name.as_bytes(), value.as_bytes());
        }
        out.extend_from_slice(text::END);
        out
    }

    /// Settings that commands change while the server runs.
    fn changed_settings(&self, counts_prefixes: bool) -> Vec<(&'static str, String)> {
        let yes = |value: bool| if value { "yes" } else { "no" }.to_owned();
        let mut changed = vec![
            ("maxbytes", self.facts.limit_bytes.to_string()),
            ("detail_enabled", yes(counts_prefixes)),
        ];
        if let Some(level) = self.verbosity {
            changed.push(("verbosity", level.min(VERBOSITY_MAX).to_string()));
        }
        changed
    }

    /// The cluster's settings that this worker works by.
    fn chosen_settings(&self, promise: Promise) -> Vec<(&'static str, String)> {
        let chosen = serde_json::to_value(Settings {
            hot_keys_consistency: promise.consistency,
            lease_ms: Some(promise.lease_ms),
            ..self.chosen
        });
        let chosen = chosen.unwrap_or_default();
        let said = |value: &Value| match value {
            Value::Null => "default".to_owned(),
            Value::String(word) => word.clone(),
            number => number.to_string(),
        };
        let line = |(name, _): (&'static str, _)| (name, said(&chosen[name]));
        SETTINGS.map(line).to_vec()
    }
}
