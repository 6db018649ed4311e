//! Stories in time. The worker is server 1 of four; nobody else takes part but by name.

use evenkeel_types::{CacheletId, ServerId};

use super::*;
use crate::replication::RENEWAL_INTERVAL;
use crate::state::MOVES;
use evenkeel_balance::load::TriggerConfig;
use evenkeel_placement::renaming;
use evenkeel_types::map::{MapDocument, ServerEntry};

mod atomic;
mod chosen;
mod moves;
mod observe;
mod promotion;
mod rests;
mod worth;

const KEY: &[u8] = b"page:home";
const EPOCH: Epoch = Epoch(7);
const ME: WorkerRef = WorkerRef {
    server: ServerId(1),
    worker: 0,
};
const LEASE_MS: u64 = 1000;

fn document() -> MapDocument {
    let server = |id: u16| ServerEntry::new(id, "h", 1, vec![2]);
    let owner = |i: u16| WorkerRef {
        server: ServerId(1 + i % 4),
        worker: 0,
    };
    let owners = (0..64).map(|i| Some(owner(i))).collect();
    MapDocument::new(EPOCH.0, (1..=4).map(server).collect(), 64, owners)
}

/// The map of every story, edited; this worker is always the home of [`KEY`] unless the edit says
/// otherwise.
fn map(edit: impl FnOnce(&mut MapDocument)) -> Arc<ClusterMap> {
    let mut document = document();
    let node = (KeyHash::of(KEY).0 >> 58) as usize;
    document.cachelets[node] = Some(ME);
    edit(&mut document);
    Arc::new(ClusterMap::new(document).unwrap())
}

fn config() -> HotKeysConfig {
    HotKeysConfig {
        sampling: Some(1.0),
        copy_share: 0.03,
        reads_per_store: 0.0,
        entries_max: 4,
        replicated_max: 2,
        trigger: TriggerConfig {
            absolute_rps: Some(10.0),
            ..TriggerConfig::default()
        },
        ..HotKeysConfig::default()
    }
}

/// A `HotKeys` with its clock and the messages that it wants to be sent.
struct Home {
    hot: HotKeys,
    ms: u64,
}

/// A message in short: whether it stores, to which server, and how to confirm it.
type Sent = (bool, u16, WorkerRef, PropagationTag);

impl Home {
    fn new(config: HotKeysConfig) -> Self {
        let mut hot = HotKeys::new(config, 1, Instant::from_millis(0)).unwrap();
        hot.handle_map(Instant::from_millis(0), map(|_| {}), ME);
        Home { hot, ms: 0 }
    }

    fn now(&self) -> Instant {
        Instant::from_millis(self.ms)
    }

    /// Lets time pass, with every deadline met on the way.
    fn pass(&mut self, ms: u64) {
        let end = self.ms + ms;
        while self.hot.poll_deadline() <= Instant::from_millis(end) {
            let due = self.hot.poll_deadline().0.div_ceil(1_000_000);
            self.ms = self.ms.max(due);
            self.hot.handle_timeout(self.now());
        }
        self.ms = end;
    }

    /// A read here, and one at each replica that it is told of.
    fn read_as(&mut self, key: &[u8], reader: Reader, present: bool) -> ReadAdvice {
        let (hash, found) = (KeyHash::of(key), present.then_some(0));
        let advice = self.hot.handle_read(self.now(), hash, key, reader, found);
        if advice.gamma > 0 {
            let elsewhere = u64::from(advice.gamma);
            self.hot.handle_elsewhere(hash, key, elsewhere);
        }
        advice
    }

    fn read(&mut self) -> ReadAdvice {
        self.read_as(KEY, Reader::Aware { epoch: EPOCH }, true)
    }

    /// 100 reads a second for that long.
    fn read_for(&mut self, ms: u64) {
        for _ in 0..ms / 10 {
            self.read();
            self.pass(10);
        }
    }

    fn write(&mut self, kind: WriteKind) {
        self.hot
            .handle_write(self.now(), KeyHash::of(KEY), KEY, kind);
    }

    fn sent(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        while let Some(output) = self.hot.poll_output() {
            let (Output::Store(m) | Output::Block(m) | Output::Remove(m)) = output;
            assert_eq!((m.key, m.hash), (KEY, KeyHash::of(KEY)));
            let store = matches!(output, Output::Store(_));
            sent.push((store, m.target.server.0, m.target, m.tag));
        }
        sent
    }

    fn confirm(&mut self, sent: &[Sent]) {
        for &(_, _, target, tag) in sent {
            self.hot.handle_acked(self.now(), target, tag);
        }
    }

    fn state_of(&self, key: &[u8]) -> State {
        let list = self.hot.list();
        list.iter()
            .find(|info| info.key == key)
            .map_or(State::Invalid, |info| info.state)
    }

    fn state(&self) -> State {
        self.state_of(KEY)
    }

    fn count(&self, event: Event) -> u64 {
        self.hot
            .transitions()
            .iter()
            .filter(|t| t.0 == event)
            .map(|t| t.3)
            .sum()
    }

    /// A key read 100 times a second, which has just become HOT on three shadows.
    fn hot() -> Home {
        Home::hot_with(config())
    }

    fn hot_with(config: HotKeysConfig) -> Home {
        let mut home = Home::new(config);
        home.read_for(1010);
        assert_eq!(home.state(), State::HotPending);
        let sent = home.sent();
        assert_eq!(sent.len(), 3);
        home.confirm(&sent);
        assert_eq!(home.state(), State::Hot);
        home
    }
}
