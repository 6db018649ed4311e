//! What servers have told of their hot keys, put together. Nothing here is saved or decides anything:
//! it is for people.

use std::collections::BTreeMap;

use evenkeel_hotkeys::config::Mode;
use evenkeel_hotkeys::gain::{Spread, max_over_mean, spread_loads};
use evenkeel_types::{BootId, ServerId, UnixSeconds, WorkerRef};
use serde::{Deserialize, Serialize};

use crate::limits::{HOT_EVENTS_MAX, HOT_KEY_TEXT_LEN_MAX, HOTTEST_MAX};
use crate::members::Members;
use crate::recent::Recent;
use evenkeel_control::hot_keys::{EventView, HotKeysNews, HottestView, KeyView};

/// The hot keys of all servers that are up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterHotKeysView {
    /// What the operator has chosen.
    pub mode: Mode,
    /// Loads without any replicas.
    pub without_replicas: Balance,
    /// Loads with the replicas that there are.
    pub with_replicas: Balance,
    /// Loads if the observed keys had replicas, too.
    pub with_observed: Balance,
    /// Keys that have replicas or would have them, the most popular first.
    pub keys: Vec<ClusterKeyView>,
    /// Such keys that servers had no room to tell of.
    pub keys_left_out: u64,
    /// Other keys that get most, and why nothing is done about them, the greatest load first.
    #[serde(default)]
    pub hottest: Vec<ClusterHottestView>,
}

/// Estimated loads of the workers of the servers that are up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Balance {
    /// The largest by the mean of all; 1 is perfectly even.
    pub max_over_mean: f64,
    /// The largest, in requests per second.
    pub max_rps: f64,
}

/// A key, and the server that is its home.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterKeyView {
    /// The server's name.
    pub server: String,
    /// When the coordinator first heard that it has the replicas that it has not lost since, in seconds since 1970; absent where it has none.
    #[serde(default)]
    pub replicas_since_unix_s: Option<UnixSeconds>,
    /// The key.
    #[serde(flatten)]
    pub key: KeyView,
}

/// A key that gets much and has no replicas, and the server that is its home.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterHottestView {
    /// The server's name.
    pub server: String,
    /// The key.
    #[serde(flatten)]
    pub key: HottestView,
}

/// What was done about hot keys lately.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterHotKeyEvents {
    /// In the order in which the coordinator heard of them.
    pub events: Vec<ClusterEventView>,
    /// Events that are not shown any more, because there were others since.
    pub overwritten: u64,
    /// Events that the coordinator never heard of: too many at once, or too many heartbeats lost.
    pub missed: u64,
}

/// An event, and the server where it happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterEventView {
    /// The server's name.
    pub server: String,
    /// That life of it.
    pub boot: BootId,
    /// The event. How long ago it was is as of when it was told.
    #[serde(flatten)]
    pub event: EventView,
}

/// What was heard.
#[derive(Debug, Default)]
pub(crate) struct ClusterHotKeys {
    /// The newest of each server.
    news: BTreeMap<ServerId, HotKeysNews>,
    /// Of each server's keys with replicas: since when these were heard of, in this life of the server.
    since: BTreeMap<ServerId, (BootId, BTreeMap<String, UnixSeconds>)>,
    events: Recent<ClusterEventView, HOT_EVENTS_MAX>,
    /// For each worker, the life of its server that was last heard of, and the highest number of
    /// that life's events.
    heard: BTreeMap<WorkerRef, (BootId, u64)>,
    counts: HotKeyEventCounts,
}

/// Counts of events of hot keys since the coordinator started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotKeyEventCounts {
    /// Heard of.
    pub heard: u64,
    /// Heard of and forgotten, because there were too many since.
    pub overwritten: u64,
    /// Never heard of.
    pub missed: u64,
    /// Keys and events left aside because they make no sense.
    pub unusable: u64,
}

impl ClusterHotKeys {
    /// Takes in what a server with this many workers tells; nothing when it has no hot keys.
    pub(crate) fn handle(
        &mut self,
        now: UnixSeconds,
        (id, name, boot): (ServerId, &str, BootId),
        workers: usize,
        news: Option<&HotKeysNews>,
    ) {
        let Some(news) = news else {
            self.news.remove(&id);
            self.since.remove(&id);
            return;
        };
        let mut news = news.clone();
        let events = core::mem::take(&mut news.events);
        let before = news.keys.len() + events.len();
        let has_worker = |worker: u16| usize::from(worker) < workers;
        (news.keys).retain(|key| is_sensible_key(key) && has_worker(key.worker));
        (news.hottest).retain(|key| is_sensible_hottest(key) && has_worker(key.worker));
        let mut sensible = news.keys.len();
        let is_sensible = |event: &EventView| is_sensible_event(event) && has_worker(event.worker);
        for event in events.into_iter().filter(is_sensible) {
            sensible += 1;
            self.handle_event(id, name, boot, event);
        }
        self.counts.unusable += (before - sensible) as u64;
        let former = self.since.remove(&id).filter(|(life, _)| *life == boot);
        let (_, mut former) = former.unwrap_or_default();
        let replicated = news.keys.iter().filter(|key| key.gamma > 0);
        let since = replicated.map(|key| {
            let known = former.remove_entry(&key.key);
            known.unwrap_or_else(|| (key.key.clone(), now))
        });
        self.since.insert(id, (boot, since.collect()));
        self.news.insert(id, news);
    }

    /// The same event is told several times, at last with its effect.
    fn handle_event(&mut self, id: ServerId, name: &str, boot: BootId, event: EventView) {
        let worker = WorkerRef {
            server: id,
            worker: event.worker,
        };
        let heard = self.heard.entry(worker).or_insert((boot, 0));
        if heard.0 != boot {
            *heard = (boot, 0);
        }
        if event.number <= heard.1 {
            let is_it = |known: &&mut ClusterEventView| {
                (known.boot, &*known.server) == (boot, name)
                    && (known.event.worker, known.event.number) == (event.worker, event.number)
            };
            if let Some(known) = self.events.iter_mut().rev().find(is_it) {
                known.event = event;
            }
            return;
        }
        // A server may say any number.
        let missed = event.number - heard.1 - 1;
        self.counts.missed = self.counts.missed.saturating_add(missed);
        heard.1 = event.number;
        self.events.push(ClusterEventView {
            server: name.to_owned(),
            boot,
            event,
        });
    }

    /// The hot keys of all servers that are up, and what their replicas do to the loads.
    pub(crate) fn view(&self, mode: Mode, members: &Members) -> ClusterHotKeysView {
        let mut loads = BTreeMap::new();
        let (mut spread, mut proposed) = (Vec::new(), Vec::new());
        let (mut keys, mut keys_left_out, mut hottest) = (Vec::new(), 0, Vec::new());
        for server in members.up() {
            let worker = |worker| WorkerRef {
                server: server.entry.id,
                worker,
            };
            loads.extend((0..).map(worker).zip(server.load.iter().copied()));
            let Some(news) = self.news.get(&server.entry.id) else {
                continue;
            };
            hottest.extend(news.hottest.iter().map(|key| ClusterHottestView {
                server: server.entry.name.clone(),
                key: key.clone(),
            }));
            let since = self.since.get(&server.entry.id);
            keys_left_out = news.keys_left_out.saturating_add(keys_left_out);
            for key in &news.keys {
                let (home, rate) = (worker(key.worker), key.load_rps);
                let of = |shadows| Spread {
                    home,
                    rate,
                    shadows,
                };
                spread.push(of(&key.shadows));
                proposed.push(of(&key.proposed));
                keys.push(ClusterKeyView {
                    server: server.entry.name.clone(),
                    replicas_since_unix_s: since
                        .and_then(|(_, since)| since.get(&key.key))
                        .copied(),
                    key: key.clone(),
                });
            }
        }
        keys.sort_by(|a, b| {
            let by_load = b.key.load_rps.total_cmp(&a.key.load_rps);
            by_load.then_with(|| a.key.key.cmp(&b.key.key))
        });
        hottest.sort_by(|a: &ClusterHottestView, b: &ClusterHottestView| {
            let by_load = b.key.load_rps.total_cmp(&a.key.load_rps);
            by_load.then_with(|| a.key.key.cmp(&b.key.key))
        });
        hottest.truncate(HOTTEST_MAX);
        let with_replicas = spread_loads(&loads, spread);
        let with_observed = spread_loads(&with_replicas, proposed);
        ClusterHotKeysView {
            mode,
            without_replicas: Balance::of(&loads),
            with_replicas: Balance::of(&with_replicas),
            with_observed: Balance::of(&with_observed),
            keys,
            keys_left_out,
            hottest,
        }
    }

    /// What was done about hot keys lately.
    pub(crate) fn events(&self) -> &Recent<ClusterEventView, HOT_EVENTS_MAX> {
        &self.events
    }

    /// Counts of these.
    pub(crate) fn counts(&self) -> HotKeyEventCounts {
        HotKeyEventCounts {
            heard: self.events.total(),
            overwritten: self.events.forgotten(),
            ..self.counts
        }
    }
}

impl Balance {
    fn of(loads: &BTreeMap<WorkerRef, f64>) -> Self {
        Balance {
            max_over_mean: max_over_mean(loads.values().copied()),
            max_rps: loads.values().copied().fold(0.0, f64::max),
        }
    }
}

fn is_sensible_key(key: &KeyView) -> bool {
    key.rps.is_finite() && key.load_rps.is_finite() && are_short([&key.key, &key.state])
}

fn is_sensible_hottest(key: &HottestView) -> bool {
    let numbers = [
        key.gets_per_s,
        key.sets_per_s,
        key.bytes_per_s,
        key.load_rps,
        key.share,
    ];
    numbers.iter().all(|number| number.is_finite()) && are_short([&key.key, &key.why])
}

fn is_sensible_event(event: &EventView) -> bool {
    event.number > 0 && are_short([&event.key, &event.deed, &event.cause])
}

fn are_short<const N: usize>(texts: [&String; N]) -> bool {
    texts.iter().all(|text| text.len() <= HOT_KEY_TEXT_LEN_MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use evenkeel_control::hot_keys::LoadsView;

    const S1: (ServerId, &str, BootId) = (ServerId(1), "s1", BootId(7));

    pub(crate) fn event(number: u64, served_after: Option<f64>) -> EventView {
        EventView {
            worker: 0,
            number,
            unix_ms: 1,
            age_ms: 0,
            deed: "promoted".into(),
            cause: "promoted".into(),
            key: "k".into(),
            gamma_before: 0,
            gamma: 1,
            key_rps: 10.0,
            key_share: 0.5,
            before: LoadsView::default(),
            expected_rps: 5.0,
            after: served_after.map(|served_rps| LoadsView {
                served_rps,
                ..LoadsView::default()
            }),
        }
    }

    fn news(events: Vec<EventView>) -> HotKeysNews {
        HotKeysNews {
            events,
            ..HotKeysNews::default()
        }
    }

    fn numbers(board: &ClusterHotKeys) -> Vec<(u64, Option<f64>)> {
        let in_short = |e: &ClusterEventView| (e.event.number, e.event.after.map(|a| a.served_rps));
        board.events.iter().map(in_short).collect()
    }

    #[test]
    fn an_event_that_is_told_again_is_one_event_and_takes_its_effect() {
        let mut board = ClusterHotKeys::default();
        board.handle(0, S1, 1, Some(&news(vec![event(1, None)])));
        board.handle(0, S1, 1, Some(&news(vec![event(1, None), event(2, None)])));
        board.handle(0, S1, 1, Some(&news(vec![event(1, Some(4.0))])));
        assert_eq!(numbers(&board), [(1, Some(4.0)), (2, None)]);
        assert_eq!((board.counts().heard, board.counts().missed), (2, 0));
        // Numbers that were skipped were missed; another life counts from one again.
        board.handle(0, S1, 1, Some(&news(vec![event(6, None)])));
        assert_eq!(board.counts().missed, 3);
        let again = (S1.0, S1.1, BootId(8));
        board.handle(0, again, 1, Some(&news(vec![event(1, None)])));
        assert_eq!((board.counts().heard, board.counts().missed), (4, 3));
        for number in 2..2 + HOT_EVENTS_MAX as u64 {
            board.handle(0, again, 1, Some(&news(vec![event(number, None)])));
        }
        assert_eq!(board.events.iter().len(), HOT_EVENTS_MAX);
        assert_eq!(board.counts().overwritten, 4);
    }

    #[test]
    fn numbers_may_be_as_large_as_they_like() {
        let mut board = ClusterHotKeys::default();
        for boot in [7, 8] {
            let life = (S1.0, S1.1, BootId(boot));
            board.handle(0, life, 1, Some(&news(vec![event(u64::MAX, None)])));
        }
        assert_eq!(board.counts().missed, u64::MAX);
    }

    #[test]
    fn it_is_told_since_when_a_key_has_replicas() {
        let key = |name: &str, gamma| KeyView {
            worker: 0,
            key: name.into(),
            state: "hot".into(),
            state_ms: 1,
            rps: 1.0,
            load_rps: 1.0,
            gamma,
            shadows: Vec::new(),
            proposed: Vec::new(),
        };
        let mut board = ClusterHotKeys::default();
        let mut handle = |now, boot, keys: &[(&str, u8)]| {
            let keys = keys.iter().map(|(name, gamma)| key(name, *gamma));
            let news = HotKeysNews {
                keys: keys.collect(),
                ..HotKeysNews::default()
            };
            board.handle(now, (S1.0, S1.1, BootId(boot)), 1, Some(&news));
            let (_, since) = &board.since[&S1.0];
            since.iter().map(|(key, at)| (key.clone(), *at)).collect()
        };
        let pairs = |pairs: &[(&str, u32)]| -> Vec<(String, u32)> {
            let pairs = pairs.iter();
            pairs.map(|(key, at)| ((*key).to_owned(), *at)).collect()
        };
        let first: Vec<_> = handle(10, 1, &[("a", 1), ("b", 0)]);
        assert_eq!(first, pairs(&[("a", 10)]));
        let more: Vec<_> = handle(11, 1, &[("a", 3), ("b", 1)]);
        assert_eq!(more, pairs(&[("a", 10), ("b", 11)]));
        // Who has lost its replicas begins anew, and so does the server's next life.
        let fewer: Vec<_> = handle(12, 1, &[("a", 0), ("b", 1)]);
        assert_eq!(fewer, pairs(&[("b", 11)]));
        let again: Vec<_> = handle(13, 1, &[("a", 1), ("b", 1)]);
        assert_eq!(again, pairs(&[("a", 13), ("b", 11)]));
        let reborn: Vec<_> = handle(14, 2, &[("a", 1)]);
        assert_eq!(reborn, pairs(&[("a", 14)]));
    }

    #[test]
    fn what_makes_no_sense_is_left_aside() {
        let mut board = ClusterHotKeys::default();
        let long = EventView {
            key: "k".repeat(HOT_KEY_TEXT_LEN_MAX + 1),
            ..event(1, None)
        };
        let elsewhere = EventView {
            worker: 1,
            ..event(1, None)
        };
        let told = vec![long, elsewhere, event(0, None), event(1, None)];
        board.handle(0, S1, 1, Some(&news(told)));
        assert_eq!((board.counts().unusable, board.events.iter().len()), (3, 1));
        assert_eq!(board.news.len(), 1);
        board.handle(0, S1, 1, None);
        assert_eq!(board.news.len(), 0);
    }
}
