//! What a proxy's web page shows: what its servers and applications do now, and did second by second for an hour.
//!
//! Once a second the driver tells what all workers have counted; what is shown are the differences. Kept in memory alone.

mod history;
#[cfg(test)]
mod tests;
mod view;

pub use view::{DashboardView, HeatMeasure, HeatView};

use crate::dashboard::history::{Column, History, Row};
use crate::dashboard::view::{EventView, KeyView, ServerView};
use crate::limits::{DASHBOARD_EVENTS_MAX, DASHBOARD_KEYS_MAX};
use crate::stats::counters::ProxyStats;
use crate::stats::hot_keys::{added_up, sums};
use crate::stats::process::{BackendStats, ProcessStats, servers};
use evenkeel_control::times::Histogram;
use evenkeel_control::{LoadReport, Served};
use evenkeel_types::{Instant, Now, UnixSeconds, escape};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The state of a server that is out of use.
const DOWN: &str = "down";

/// What is shown. Empty before it was told twice.
#[derive(Debug, Default)]
pub struct Dashboard {
    before: Option<Before>,
    history: History,
    shown: DashboardView,
    events: VecDeque<EventView>,
}

/// What all had counted when it was told last.
#[derive(Debug)]
struct Before {
    at: Instant,
    totals: ProxyStats,
    servers: BTreeMap<Arc<str>, BackendStats>,
}

impl Dashboard {
    /// Takes in what the process has counted by now, and what applications got since it was told last. O(servers × log servers).
    pub fn note(&mut self, now: Now, process: &ProcessStats, load: &LoadReport) {
        let before = self.before.take();
        let name = |server: &BackendStats| {
            let known = before
                .as_ref()
                .and_then(|it| it.servers.get_key_value(&*server.name));
            known.map_or_else(|| Arc::from(&*server.name), |(name, _)| Arc::clone(name))
        };
        let servers = servers(&process.backends).into_iter();
        let servers: BTreeMap<Arc<str>, BackendStats> =
            servers.map(|server| (name(&server), server)).collect();
        if let Some(before) = &before {
            let seconds = now.monotonic.since(before.at).as_secs_f64();
            let since = Since(seconds.max(f64::MIN_POSITIVE));
            self.note_states(now.unix, &before.servers, &servers);
            let (mut rows, mut views) = (Vec::new(), Vec::new());
            for (name, server) in &servers {
                let Some(was) = before.servers.get(name) else {
                    continue;
                };
                let view = server_view(since, was, server);
                rows.push(Row {
                    server: Arc::clone(name),
                    rates: [view.load as f32, view.bytes_per_s as f32],
                });
                views.push(view);
            }
            self.shown = DashboardView {
                unix_s: now.unix,
                ..shown(since, (&before.totals, process), load, views)
            };
            self.history.push(Column::of(&self.shown, rows));
        }
        self.before = Some(Before {
            at: now.monotonic,
            totals: process.totals,
            servers,
        });
    }

    /// The state of now. O(servers).
    pub fn view(&self) -> DashboardView {
        let heat = |of| self.history.heat(of, 1);
        DashboardView {
            events: self.events.iter().cloned().collect(),
            heat: HeatMeasure::ALL.map(heat).into(),
            ..self.shown.clone()
        }
    }

    /// The newest columns of the history, at most this many. O(columns × servers × log servers).
    pub fn heat(&self, of: HeatMeasure, columns: usize) -> HeatView {
        self.history.heat(of, columns)
    }

    /// Notes which servers went out of use, and which came back.
    fn note_states(
        &mut self,
        unix_s: UnixSeconds,
        before: &BTreeMap<Arc<str>, BackendStats>,
        servers: &BTreeMap<Arc<str>, BackendStats>,
    ) {
        for (name, server) in servers {
            let was_down = before.get(name).is_some_and(|it| it.state == DOWN);
            let is_down = server.state == DOWN;
            if was_down == is_down {
                continue;
            }
            if self.events.len() == DASHBOARD_EVENTS_MAX {
                self.events.pop_front();
            }
            self.events.push_back(EventView {
                unix_s,
                server: name.to_string(),
                is_up: !is_down,
                cause: (server.cause.clone().filter(|_| is_down)).unwrap_or_default(),
            });
        }
    }
}

/// This many seconds.
#[derive(Clone, Copy, Debug)]
struct Since(f64);

impl Since {
    /// What was counted more, a second. Of what was taken back meanwhile (`stats reset`) there is none.
    fn rate(self, before: u64, now: u64) -> f64 {
        now.saturating_sub(before) as f64 / self.0
    }
}

/// The part of these times that 50 and 99 of 100 do not exceed; nothing where there are none.
fn quantiles(times: &Histogram) -> (Option<u64>, Option<u64>) {
    let of = |part| (times.count() > 0).then(|| times.quantile_us(part));
    (of(0.5), of(0.99))
}

fn shown(
    since: Since,
    (before, process): (&ProxyStats, &ProcessStats),
    load: &LoadReport,
    servers: Vec<ServerView>,
) -> DashboardView {
    let now = &process.totals;
    let rate = |of: fn(&ProxyStats) -> u64| since.rate(of(before), of(now));
    let served = load.served.as_ref();
    let times = served.map_or_else(Histogram::default, |it| Histogram::of_counted(&it.times));
    let (p50_us, p99_us) = quantiles(&times);
    let shed = |served: &Served| served.shed as f64 / since.0;
    DashboardView {
        requests_per_s: load.requests_per_second.iter().sum(),
        reads_per_s: rate(|it| it.get_hits + it.get_misses),
        hits_per_s: rate(|it| it.get_hits),
        writes_per_s: rate(writes),
        bytes_per_s: servers.iter().map(|server| server.bytes_per_s).sum(),
        p50_us,
        p99_us,
        shed_per_s: served.map_or(0.0, shed),
        clients: process.facts.curr_connections,
        servers,
        hottest: hottest(process),
        ..DashboardView::default()
    }
}

/// Commands that change something, as far as they were answered.
fn writes(of: &ProxyStats) -> u64 {
    let deletes = of.delete_hits + of.delete_misses;
    let arithmetic = of.incr_hits + of.incr_misses + of.decr_hits + of.decr_misses;
    of.cmd_set + deletes + arithmetic + of.touch_hits + of.touch_misses
}

fn server_view(since: Since, before: &BackendStats, now: &BackendStats) -> ServerView {
    let (was, is) = (&before.counters, &now.counters);
    let (p50_us, p99_us) = quantiles(&now.latency.answer.since(&before.latency.answer));
    let sent = since.rate(was.sent_bytes, is.sent_bytes);
    ServerView {
        name: now.name.clone(),
        pool: now.pool.clone(),
        state: now.state,
        cause: now.cause.clone(),
        load: since.rate(was.answers, is.answers),
        bytes_per_s: sent + since.rate(was.received_bytes, is.received_bytes),
        p50_us,
        p99_us,
        queued: is.queued_requests,
        shed_per_s: since.rate(was.shed, is.shed),
    }
}

/// The keys that get most, with what is done about them.
fn hottest(process: &ProcessStats) -> Vec<KeyView> {
    let all = process.hottest.requests_per_second;
    let hot = sums(&process.hot_keys);
    let views = added_up(&process.hottest.keys).into_iter().map(|of| {
        let copies = hot.get(&(&*of.pool, &*of.key)).map_or(0, |it| it.gamma);
        let mut key = Vec::new();
        escape(&of.key, &mut key);
        let requests = of.gets_per_second + of.sets_per_second;
        KeyView {
            key: String::from_utf8_lossy(&key).into_owned(),
            pool: of.pool.to_string(),
            home: of.home,
            gets_per_s: of.gets_per_second,
            sets_per_s: of.sets_per_second,
            bytes_per_s: of.bytes_per_second,
            share: if all > 0.0 { requests / all } else { 0.0 },
            copies,
            why: if copies > 0 { "" } else { of.why },
        }
    });
    views.take(DASHBOARD_KEYS_MAX).collect()
}
