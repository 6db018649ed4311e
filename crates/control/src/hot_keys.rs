//! Hot keys as people and coordinators are told of them.
//!
//! A worker describes itself ([`WorkerHotKeys`]); a server tells its coordinator what is new of all its
//! workers ([`HotKeysNews`]), bounded in bytes, so that a heartbeat stays one.

use evenkeel_balance::load::TriggerConfig;
use evenkeel_hotkeys::ages::Ages;
use evenkeel_hotkeys::config::Mode;
use evenkeel_hotkeys::hottest::{Hottest, HottestKey};
use evenkeel_hotkeys::log::{EFFECT_AFTER, Loads, LogEntry};
use evenkeel_hotkeys::server::{HotKeyInfo, HotKeys};
use evenkeel_types::printable;
use evenkeel_types::{Instant, Now, WorkerRef};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Bytes that keys take in a server's news, as they are estimated: 30 keys of the greatest length.
pub const NEWS_KEY_BYTES_MAX: usize = 24 << 10;

/// Bytes that log entries take in a server's news, likewise.
pub const NEWS_EVENT_BYTES_MAX: usize = 16 << 10;

/// Bytes that keys without replicas take in a server's news, likewise: ten of usual length.
pub const NEWS_HOTTEST_BYTES_MAX: usize = 5 << 10;

/// Keys with most gets, most sets and most bytes that a worker tells of, each.
const HOTTEST_TOLD: usize = 10;

/// For how long an entry of the log is told again with each heartbeat, of which some may be lost; and
/// again when its effect is known.
pub const EVENT_REPEATED_FOR: Duration = Duration::from_secs(3);

const _: () = assert!(EVENT_REPEATED_FOR.as_nanos() < EFFECT_AFTER.as_nanos());

/// Numbers and names of a key or an entry in JSON, at most.
const VIEW_BYTES: usize = 700;

/// A worker in JSON, at most.
const WORKER_BYTES: usize = 30;

/// What a worker knows of its hot keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerHotKeys {
    /// Which of the server's workers.
    pub worker: u16,
    /// Whether keys are replicated, observed, or left alone.
    pub mode: Mode,
    /// Whether the worker is loaded enough to look for hot keys.
    pub is_triggered: bool,
    /// What it carries.
    pub load: LoadsView,
    /// What it would serve if all observed keys had replicas, in small requests per second; what it serves
    /// where none is observed. Replicas that it would hold for others are not in it.
    pub expected_rps: f64,
    /// Keys that are tracked.
    pub tracked: usize,
    /// Keys, the greatest load first.
    pub keys: Vec<KeyView>,
    /// The keys that get most and have no replicas, the greatest load first.
    #[serde(default)]
    pub hottest: Vec<HottestView>,
    /// The log, oldest entry first.
    pub events: Vec<EventView>,
    /// Entries that the log no longer has.
    pub events_overwritten: u64,
    /// How long writes took until all replicas were known to have them.
    pub copies_behind: AgesView,
}

/// A worker's load; rates are small requests per second, see [`cost_of`](evenkeel_balance::load::cost_of).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadsView {
    /// What it would serve without replicas.
    pub undiverted_rps: f64,
    /// What it serves, reads of other homes' replicas included.
    pub served_rps: f64,
    /// The mean of the cluster's workers, if known.
    pub mean_rps: Option<f64>,
    /// Part of its time that it has something to do.
    #[serde(default)]
    pub busy: f64,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyView {
    /// The worker that is its home.
    pub worker: u16,
    /// The key; what is not printable, and `%`, as `%XX`.
    pub key: String,
    /// `cold`, `hot_pending`, `hot` or `cold_pending`.
    pub state: String,
    /// For how long it has been in that state, in milliseconds.
    pub state_ms: u64,
    /// Reads per second of all its copies, less the weight of its writes.
    pub rps: f64,
    /// What these add to the load, in small requests per second.
    pub load_rps: f64,
    /// Replicas besides the home's copy.
    pub gamma: u8,
    /// Where they are, by suffix from 1.
    pub shadows: Vec<WorkerRef>,
    /// Where they would be, if it is observed and would have some.
    #[serde(default)]
    pub proposed: Vec<WorkerRef>,
}

/// A key that gets much, and why nothing is done about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HottestView {
    /// The worker that is its home.
    pub worker: u16,
    /// The key, as in [`KeyView::key`].
    pub key: String,
    /// Reads per second.
    pub gets_per_s: f64,
    /// Writes per second.
    pub sets_per_s: f64,
    /// Bytes of values read and written per second.
    pub bytes_per_s: f64,
    /// What that adds to the load, in small requests per second.
    pub load_rps: f64,
    /// The part of its worker's requests.
    pub share: f64,
    /// Why it has no replicas, in words.
    pub why: String,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventView {
    /// The worker.
    pub worker: u16,
    /// Counts the worker's entries from 1; what is missing was overwritten.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// How long ago, in milliseconds.
    pub age_ms: u64,
    /// `promoted`, `widened`, `retired`, `would_promote` or `would_retire`.
    pub deed: String,
    /// Why: what moved the key from one state to another.
    pub cause: String,
    /// The key, as in [`KeyView::key`].
    pub key: String,
    /// Its replicas before.
    pub gamma_before: u8,
    /// Its replicas from then on.
    pub gamma: u8,
    /// What reads of all its copies, less the weight of its writes, add to the load.
    pub key_rps: f64,
    /// That by the worker's undiverted load; 0 without any load.
    pub key_share: f64,
    /// What the worker carried then.
    pub before: LoadsView,
    /// What it was expected to serve from then on, all else equal.
    pub expected_rps: f64,
    /// What it carried five seconds later, if that time is over and anything was done.
    pub after: Option<LoadsView>,
}

/// Counts of ages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgesView {
    /// How many.
    pub count: u64,
    /// Their sum, in microseconds.
    pub sum_us: u64,
    /// The greatest, in microseconds.
    pub max_us: u64,
    /// How many were within each bound.
    pub within: Vec<AgeBound>,
}

/// A bound, and how many ages were within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgeBound {
    /// In microseconds.
    pub us: u64,
    /// How many.
    pub count: u64,
}

/// What a server tells of its hot keys with a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HotKeysNews {
    /// Keys that have replicas or would have them, the greatest load first.
    pub keys: Vec<KeyView>,
    /// Such keys that found no room.
    #[serde(default)]
    pub keys_left_out: u64,
    /// Other keys that get most, the greatest load first, as far as there is room.
    #[serde(default)]
    pub hottest: Vec<HottestView>,
    /// Entries of the logs that are new, or whose effect is.
    pub events: Vec<EventView>,
}

/// A replica that a server holds for another's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaView {
    /// The worker that holds it.
    pub worker: u16,
    /// The key, as in [`KeyView::key`].
    pub key: String,
    /// Its home by this server's map.
    pub home: Option<WorkerRef>,
    /// Epoch of the map by which its home replicates it.
    pub epoch: u64,
    /// Version that the home gave it.
    pub version: u64,
    /// Size of the value.
    pub bytes: usize,
    /// Seconds since it came.
    pub age_s: u32,
    /// Seconds since its home last stored or renewed it.
    pub stored_s: u32,
    /// Reads that found it.
    pub reads: u64,
}

impl WorkerHotKeys {
    /// Describes a worker: all tracked keys, or only those that have replicas or would have them.
    pub fn of(
        worker: u16,
        now: Now,
        (hot, hottest): (&HotKeys, &Hottest),
        only_spread: bool,
    ) -> Self {
        let list = match only_spread {
            true => hot.list_spread(),
            false => hot.list(),
        };
        let loads = hot.loads();
        let given = |info: &HotKeyInfo| {
            let replicas = info.proposed.len() as f64;
            info.load.max(0.0) * replicas / (replicas + 1.0)
        };
        let given: f64 = list.iter().map(given).sum();
        WorkerHotKeys {
            worker,
            mode: hot.mode(),
            is_triggered: hot.is_triggered(),
            load: loads.into(),
            expected_rps: (loads.served - given).max(0.0),
            tracked: hot.tracked_count(),
            hottest: hottest_of(worker, now.monotonic, hot, hottest),
            keys: list
                .into_iter()
                .map(|info| KeyView::of(worker, now.monotonic, info))
                .collect(),
            events: hot
                .log()
                .entries()
                .map(|entry| EventView::of(worker, now, entry))
                .collect(),
            events_overwritten: hot.log().counts().1,
            copies_behind: hot.stats().copies_behind.into(),
        }
    }
}

impl From<Loads> for LoadsView {
    fn from(loads: Loads) -> Self {
        LoadsView {
            undiverted_rps: loads.undiverted,
            served_rps: loads.served,
            mean_rps: loads.mean,
            busy: loads.busy,
        }
    }
}

impl From<Ages> for AgesView {
    fn from(ages: Ages) -> Self {
        AgesView {
            count: ages.count(),
            sum_us: ages.sum_us(),
            max_us: ages.max_us(),
            within: ages
                .within()
                .map(|(us, count)| AgeBound { us, count })
                .collect(),
        }
    }
}

impl KeyView {
    fn of(worker: u16, now: Instant, info: HotKeyInfo) -> Self {
        KeyView {
            worker,
            key: printable(&info.key),
            state: info.state.to_string(),
            state_ms: millis(now.since(info.since)),
            rps: info.requests_per_second,
            load_rps: info.load,
            // At most `gamma_max`, which is a byte.
            gamma: u8::try_from(info.shadows.len()).unwrap_or(u8::MAX),
            shadows: info.shadows,
            proposed: info.proposed,
        }
    }

    /// Whether it has replicas or would have them.
    pub fn is_spread(&self) -> bool {
        !self.shadows.is_empty() || !self.proposed.is_empty()
    }

    /// Bytes that it takes in JSON, at most.
    fn json_bytes(&self) -> usize {
        let workers = self.shadows.len() + self.proposed.len();
        json_len(&self.key) + WORKER_BYTES * workers + VIEW_BYTES
    }
}

impl HottestView {
    fn json_bytes(&self) -> usize {
        json_len(&self.key) + self.why.len() + VIEW_BYTES / 2
    }
}

impl EventView {
    fn of(worker: u16, now: Now, entry: &LogEntry) -> Self {
        let age_ms = millis(now.monotonic.since(entry.at));
        let load = entry.before.undiverted;
        EventView {
            worker,
            number: entry.number,
            unix_ms: (u64::from(now.unix) * 1000).saturating_sub(age_ms),
            age_ms,
            deed: entry.action.to_string(),
            cause: entry.cause.to_string(),
            key: printable(&entry.key),
            gamma_before: entry.gamma_before,
            gamma: entry.gamma,
            key_rps: entry.rate,
            key_share: if load > 0.0 { entry.rate / load } else { 0.0 },
            before: entry.before.into(),
            expected_rps: entry.expected(),
            after: entry.after.map(LoadsView::from),
        }
    }

    /// Whether it was made, or its effect measured, a moment ago.
    fn is_news(&self) -> bool {
        let repeated = millis(EVENT_REPEATED_FOR);
        let effect = millis(EFFECT_AFTER);
        self.age_ms < repeated || (effect..effect + 2 * repeated).contains(&self.age_ms)
    }

    fn json_bytes(&self) -> usize {
        json_len(&self.key) + VIEW_BYTES
    }
}

impl HotKeysNews {
    /// What is new of all workers of a server, as far as there is room for it.
    pub fn of(workers: Vec<WorkerHotKeys>) -> Self {
        let (mut keys, mut events, mut hottest) = (Vec::new(), Vec::new(), Vec::new());
        for worker in workers {
            hottest.extend(worker.hottest);
            keys.extend(worker.keys.into_iter().filter(KeyView::is_spread));
            events.extend(worker.events.into_iter().filter(EventView::is_news));
        }
        keys.sort_by(|a: &KeyView, b: &KeyView| b.rps.total_cmp(&a.rps));
        // Those that were told most often go first when there is no room. Who was told of none of
        // them sees by their numbers that some are missing.
        events.sort_by_key(|event: &EventView| event.age_ms);
        let found = keys.len();
        keep_within(&mut keys, NEWS_KEY_BYTES_MAX, KeyView::json_bytes);
        keep_within(&mut events, NEWS_EVENT_BYTES_MAX, EventView::json_bytes);
        events.reverse();
        hottest.sort_by(|a: &HottestView, b: &HottestView| b.load_rps.total_cmp(&a.load_rps));
        keep_within(
            &mut hottest,
            NEWS_HOTTEST_BYTES_MAX,
            HottestView::json_bytes,
        );
        HotKeysNews {
            hottest,
            keys_left_out: (found - keys.len()) as u64,
            keys,
            events,
        }
    }
}

/// The keys of a worker that get most and have no replicas.
fn hottest_of(worker: u16, now: Instant, hot: &HotKeys, hottest: &Hottest) -> Vec<HottestView> {
    let loads = hot.loads();
    let list = hottest.list(now, HOTTEST_TOLD).into_iter();
    let alone = list.filter(|it| !hot.has_replicas(it.hash, &it.key));
    alone
        .map(|it| HottestView {
            worker,
            why: why_nothing(hot, &loads, &it),
            key: printable(&it.key),
            gets_per_s: it.gets,
            sets_per_s: it.sets,
            bytes_per_s: it.bytes,
            load_rps: it.load,
            share: it.share,
        })
        .collect()
}

/// Why a key has no replicas: the first thing that stands against it.
fn why_nothing(hot: &HotKeys, loads: &Loads, key: &HottestKey) -> String {
    let (config, trigger) = (hot.config(), hot.trigger());
    if hot.mode() == Mode::Off {
        "hot keys are switched off".into()
    } else if !hot.is_triggered() {
        why_untriggered(trigger, loads)
    } else if key.gets < config.write_weight * key.sets {
        "it is written too much".into()
    } else if key.share < config.hot_share {
        let (share, hot_share) = (100.0 * key.share, 100.0 * config.hot_share);
        format!("it has {share:.1} % of its worker's load, hot is {hot_share:.1} %")
    } else {
        "it is looked at".into()
    }
}

/// Why a worker does not look for hot keys.
fn why_untriggered(trigger: &TriggerConfig, loads: &Loads) -> String {
    if let Some(from) = trigger.absolute_rps {
        let load = loads.undiverted.max(loads.served);
        format!("its worker carries {load:.0} requests/s, and looks from {from:.0}")
    } else if loads.mean.is_none() {
        "no coordinator has told what other servers carry".into()
    } else if loads.busy < trigger.busy_min {
        let (busy, busy_min) = (100.0 * loads.busy, 100.0 * trigger.busy_min);
        format!("its worker is {busy:.0} % busy, and looks from {busy_min:.0} %")
    } else {
        "its worker carries no more than others".into()
    }
}

/// Keeps the first elements that fit into this many bytes together.
fn keep_within<T>(list: &mut Vec<T>, bytes_max: usize, bytes: fn(&T) -> usize) {
    let mut sum = 0;
    let fit = list.iter().take_while(|element| {
        sum += bytes(element);
        sum <= bytes_max
    });
    let fit = fit.count();
    list.truncate(fit);
}

/// Quotes and backslashes take two bytes in JSON.
fn json_len(text: &str) -> usize {
    let escaped = text.bytes().filter(|byte| matches!(byte, b'"' | b'\\'));
    text.len() + escaped.count()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_types::ServerId;

    fn key(rps: f64, len: usize, shadows: usize) -> KeyView {
        let worker = WorkerRef {
            server: ServerId(u16::MAX),
            worker: u16::MAX,
        };
        KeyView {
            worker: u16::MAX,
            key: "\"".repeat(len),
            state: "cold_pending".into(),
            state_ms: u64::MAX,
            rps,
            load_rps: rps,
            gamma: shadows as u8,
            shadows: vec![worker; shadows],
            proposed: Vec::new(),
        }
    }

    fn event(number: u64, age_ms: u64) -> EventView {
        let loads = LoadsView {
            undiverted_rps: 1.0 / 3.0e10,
            served_rps: 2.0e19 / 3.0,
            mean_rps: Some(-1.0e-7 / 3.0),
            busy: 1.0 / 3.0,
        };
        EventView {
            worker: u16::MAX,
            number,
            unix_ms: u64::MAX,
            age_ms,
            deed: "would_promote".into(),
            cause: "shadow_refused".into(),
            key: "\\".repeat(250),
            gamma_before: 255,
            gamma: 255,
            key_rps: 1.0e300 / 3.0,
            key_share: 1.0 / 3.0,
            before: loads,
            expected_rps: 1.0 / 3.0,
            after: Some(loads),
        }
    }

    fn worker(keys: Vec<KeyView>, events: Vec<EventView>) -> WorkerHotKeys {
        WorkerHotKeys {
            worker: 0,
            mode: Mode::On,
            is_triggered: true,
            load: LoadsView::default(),
            expected_rps: 0.0,
            tracked: 0,
            keys,
            hottest: Vec::new(),
            events,
            events_overwritten: 0,
            copies_behind: AgesView::default(),
        }
    }

    #[test]
    fn what_a_view_is_estimated_to_take_it_does_not_exceed() {
        let json = |view: &dyn erased::Json| view.json().len();
        for (len, shadows) in [(1, 0), (250, 3), (250, 255)] {
            let key = key(1.0e300 / 3.0, len, shadows);
            assert!(json(&key) <= key.json_bytes(), "{}", json(&key));
        }
        let event = event(u64::MAX, u64::MAX);
        assert!(json(&event) <= event.json_bytes(), "{}", json(&event));
    }

    mod erased {
        /// Anything that can be written as JSON.
        pub trait Json {
            fn json(&self) -> String;
        }

        impl<T: serde::Serialize> Json for T {
            fn json(&self) -> String {
                serde_json::to_string(self).expect("it is JSON")
            }
        }
    }

    #[test]
    fn news_are_what_is_spread_and_recent_as_far_as_there_is_room() {
        let workers = vec![
            worker(vec![key(5.0, 1, 1), key(9.0, 1, 0)], vec![event(1, 4_000)]),
            worker(vec![key(7.0, 1, 1)], vec![event(1, 6_000), event(2, 10)]),
        ];
        let news = HotKeysNews::of(workers);
        let rates: Vec<f64> = news.keys.iter().map(|key| key.rps).collect();
        assert_eq!((rates, news.keys_left_out), (vec![7.0, 5.0], 0));
        let ages: Vec<u64> = news.events.iter().map(|event| event.age_ms).collect();
        assert_eq!(ages, [6_000, 10]);

        let many = worker(
            (0..100).map(|i| key(f64::from(i), 250, 15)).collect(),
            (0..100).map(|i| event(i, 100 - i)).collect(),
        );
        let news = HotKeysNews::of(vec![many]);
        assert_eq!(news.keys.len() as u64 + news.keys_left_out, 100);
        assert_eq!(news.keys[0].rps, 99.0, "the most popular are kept");
        assert_eq!(news.events.last().map(|e| e.number), Some(99));
        let bytes = serde_json::to_string(&news).expect("JSON").len();
        assert!(bytes <= NEWS_KEY_BYTES_MAX + NEWS_EVENT_BYTES_MAX + 100);
    }

    #[test]
    fn the_hottest_of_all_workers_are_told_as_far_as_there_is_room() {
        let hottest = |load_rps: f64, len: usize| HottestView {
            worker: u16::MAX,
            key: "\"".repeat(len),
            gets_per_s: load_rps / 3.0e10,
            sets_per_s: load_rps / 3.0,
            bytes_per_s: load_rps / 3.0e-10,
            load_rps,
            share: 1.0 / 3.0,
            why: "it has 0.1 % of its worker's load, hot is 1.0 %".into(),
        };
        let json = |it: &HottestView| serde_json::to_string(it).expect("JSON").len();
        let long = hottest(1.0e300 / 3.0, 250);
        assert!(json(&long) <= long.json_bytes(), "{}", json(&long));
        let of = |loads: &[f64], len| WorkerHotKeys {
            hottest: loads.iter().map(|&load| hottest(load, len)).collect(),
            ..worker(Vec::new(), Vec::new())
        };
        let news = HotKeysNews::of(vec![of(&[1.0, 5.0], 1), of(&[3.0], 1)]);
        let loads: Vec<f64> = news.hottest.iter().map(|it| it.load_rps).collect();
        assert_eq!(loads, [5.0, 3.0, 1.0]);
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        let news = HotKeysNews::of(vec![of(&many, 250)]);
        assert_eq!(news.hottest[0].load_rps, 99.0);
        let bytes = serde_json::to_string(&news.hottest).expect("JSON").len();
        assert!(bytes <= NEWS_HOTTEST_BYTES_MAX + 100);
    }

    #[test]
    fn why_a_worker_does_not_look_is_what_it_goes_by() {
        let of = |absolute_rps, mean, busy| {
            let trigger = TriggerConfig {
                absolute_rps,
                ..TriggerConfig::default()
            };
            let loads = Loads {
                undiverted: 100.0,
                served: 120.0,
                mean,
                busy,
            };
            why_untriggered(&trigger, &loads)
        };
        let by_requests = "its worker carries 120 requests/s, and looks from 500";
        assert_eq!(of(Some(500.0), Some(100.0), 0.1), by_requests);
        assert_eq!(of(Some(500.0), None, 0.1), by_requests);
        let alone = "no coordinator has told what other servers carry";
        assert_eq!(of(None, None, 0.9), alone);
        let calm = "its worker is 14 % busy, and looks from 30 %";
        assert_eq!(of(None, Some(100.0), 0.14), calm);
        let even = "its worker carries no more than others";
        assert_eq!(of(None, Some(100.0), 0.9), even);
    }
}
