//! Stories in time. The worker is server 1 of four; nobody else takes part but by name.

use evenkeel_types::{BootId, CacheletId, ServerId};

use super::*;
use crate::hot_keys::replication::RENEWAL_INTERVAL;
use crate::hot_keys::state::MOVES;
use crate::load::TriggerConfig;
use crate::placement::map::{MapDocument, ServerEntry};
use crate::placement::renaming;

const KEY: &[u8] = b"page:home";
const EPOCH: Epoch = Epoch(7);
const ME: WorkerRef = WorkerRef {
    server: ServerId(1),
    worker: 0,
};
const LEASE_MS: u64 = 1000;

fn document() -> MapDocument {
    let server = |id: u16| ServerEntry {
        id: ServerId(id),
        name: format!("s{id}"),
        host: "h".into(),
        port: 1,
        worker_ports: vec![2],
        rack: None,
        boot: BootId(1),
        up: true,
    };
    let owner = |i: u16| WorkerRef {
        server: ServerId(1 + i % 4),
        worker: 0,
    };
    MapDocument {
        epoch: EPOCH,
        servers: (1..=4).map(server).collect(),
        virtual_nodes: (0..64).map(CacheletId).collect(),
        cachelets: (0..64).map(|i| Some(owner(i))).collect(),
    }
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
        sampling: 1.0,
        hot_rps_min: 10.0,
        copy_share: 0.03,
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

    fn read_as(&mut self, key: &[u8], reader: Reader, present: bool) -> ReadAdvice {
        self.hot
            .handle_read(self.now(), KeyHash::of(key), key, reader, present)
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
            let (Output::Store(m) | Output::Remove(m)) = output;
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

/// Every allowed move, as a change of behaviour would show in review.
#[test]
fn the_table_of_moves() {
    let table: Vec<String> = MOVES
        .iter()
        .map(|(event, from, to)| format!("{event:<14} {from:<11} {to}"))
        .collect();
    let expected = "\
tracked        invalid     cold
evicted        cold        invalid
faded          cold        invalid
promoted       cold        hot_pending
current        hot_pending hot
written        hot_pending hot_pending
written        hot         hot_pending
written        cold_pending cold_pending
deleted        hot_pending hot_pending
deleted        hot         hot_pending
deleted        cold_pending cold_pending
flushed        hot_pending hot_pending
flushed        hot         hot_pending
flushed        cold_pending cold_pending
absent         hot_pending hot_pending
absent         hot         hot_pending
absent         cold_pending cold_pending
link_lost      hot_pending hot_pending
link_lost      hot         hot_pending
link_lost      cold_pending cold_pending
widened        hot         hot_pending
cooled         hot_pending cold_pending
cooled         hot         cold_pending
write_heavy    hot_pending cold_pending
write_heavy    hot         cold_pending
switched_off   cold        invalid
switched_off   hot_pending cold_pending
switched_off   hot         cold_pending
map_changed    cold        invalid
map_changed    hot_pending cold_pending
map_changed    hot         cold_pending
shadow_silent  hot_pending cold_pending
shadow_refused hot_pending cold_pending
shadow_refused hot         cold_pending
removed        hot_pending cold
removed        cold_pending cold
retired        cold_pending cold";
    assert_eq!(table.join("\n"), expected);
}

#[test]
#[should_panic(expected = "promoted may not take a key from invalid to hot")]
fn a_move_that_is_not_in_the_table_is_a_bug() {
    Transitions::default().record(Event::Promoted, State::Invalid, State::Hot);
}

#[test]
fn a_popular_key_of_a_loaded_worker_is_replicated_and_then_leased() {
    let mut home = Home::new(config());
    home.read_for(990);
    assert_eq!(home.state(), State::Cold);
    assert_eq!(home.read(), ReadAdvice::default());
    home.read_for(20);
    assert_eq!(home.state(), State::HotPending);
    assert_eq!(
        home.read(),
        ReadAdvice {
            gamma: 0,
            replicated: true
        }
    );
    let sent = home.sent();
    let targets: Vec<WorkerRef> = sent.iter().map(|s| s.2).collect();
    assert_eq!(targets, renaming::shadows(&map(|_| {}), KEY, ME.server, 3));
    assert!(sent.iter().all(|s| s.0));
    home.confirm(&sent[..2]);
    assert_eq!(home.read().gamma, 0, "one replica is still missing");
    home.confirm(&sent[2..]);
    assert_eq!(
        home.read(),
        ReadAdvice {
            gamma: 3,
            replicated: true
        }
    );
    assert!(home.sent().is_empty());
}

#[test]
fn leases_go_to_plain_reads_of_peers_with_the_same_map_that_find_the_item() {
    let mut home = Home::hot();
    let same = Reader::Aware { epoch: EPOCH };
    assert_eq!(home.read_as(KEY, Reader::Unaware, true).gamma, 0);
    assert_eq!(
        home.read_as(KEY, Reader::Aware { epoch: Epoch(6) }, true)
            .gamma,
        0
    );
    assert_eq!(
        home.read_as(KEY, Reader::Aware { epoch: Epoch(8) }, true)
            .gamma,
        0
    );
    assert_eq!(
        home.read_as(KEY, same, false),
        ReadAdvice {
            gamma: 0,
            replicated: true
        }
    );
    assert_eq!(home.read_as(KEY, same, true).gamma, 3);
    assert_eq!(home.hot.stats().grants, 1);
}

#[test]
fn a_write_revokes_leases_until_every_replica_has_it() {
    let mut home = Home::hot();
    home.write(WriteKind::Update);
    assert_eq!(home.read().gamma, 0, "before the write is even answered");
    let sent = home.sent();
    assert_eq!(sent.len(), 3);
    home.confirm(&sent);
    assert_eq!(home.read().gamma, 3);
}

#[test]
fn writes_during_propagation_are_covered_by_one_more_message() {
    let mut home = Home::hot();
    home.write(WriteKind::Update);
    home.write(WriteKind::Update);
    let first = home.sent();
    assert_eq!(first.len(), 3, "what leaves carries all writes so far");
    for _ in 0..5 {
        home.write(WriteKind::Update);
        assert!(
            home.sent().is_empty(),
            "one message at a time to each shadow"
        );
    }
    home.confirm(&first);
    assert_eq!(home.read().gamma, 0, "that was not the newest");
    let second = home.sent();
    assert_eq!(second.len(), 3);
    home.confirm(&first);
    assert_eq!(home.read().gamma, 0, "an old confirmation says nothing");
    home.confirm(&second);
    assert_eq!(home.read().gamma, 3);
}

#[test]
fn a_delete_removes_every_replica_and_a_set_after_it_waits_for_a_new_promotion() {
    let mut home = Home::hot();
    home.write(WriteKind::Delete);
    let sent = home.sent();
    assert!(sent.len() == 3 && sent.iter().all(|s| !s.0));
    assert_eq!(home.state(), State::HotPending);
    home.confirm(&sent);
    assert_eq!(home.state(), State::Cold);
    home.write(WriteKind::Update);
    assert!(home.sent().is_empty());
    home.read();
    assert_eq!(home.state(), State::HotPending, "it is still popular");
}

#[test]
fn a_set_right_after_a_delete_overtakes_the_removal() {
    let mut home = Home::hot();
    home.write(WriteKind::Delete);
    let removals = home.sent();
    home.write(WriteKind::Update);
    home.confirm(&removals);
    assert_eq!(home.state(), State::HotPending);
    let stores = home.sent();
    assert!(stores.len() == 3 && stores.iter().all(|s| s.0));
    home.confirm(&stores);
    assert_eq!(home.state(), State::Hot);
}

#[test]
fn a_flush_deletes_the_replicas_of_every_key() {
    let mut home = Home::hot();
    home.hot.handle_flush(home.now());
    let sent = home.sent();
    assert!(sent.len() == 3 && sent.iter().all(|s| !s.0));
    home.confirm(&sent);
    assert_eq!(home.state(), State::Cold);
}

#[test]
fn a_key_that_cools_keeps_its_replicas_until_the_last_lease_is_over() {
    let mut home = Home::hot();
    assert_eq!(home.read().gamma, 3);
    let granted_at = home.ms;
    while home.state() == State::Hot {
        home.pass(10);
    }
    assert_eq!(
        (home.state(), home.count(Event::Cooled)),
        (State::ColdPending, 1)
    );
    // By then the last lease was over.
    assert!(home.ms > granted_at + LEASE_MS);
    let sent = home.sent();
    assert!(sent.len() == 3 && sent.iter().all(|s| !s.0));
    assert_eq!((home.state(), home.count(Event::Retired)), (State::Cold, 1));
    home.pass(3000);
    assert_eq!(
        home.state(),
        State::Invalid,
        "and in the end it is forgotten"
    );
}

#[test]
fn in_cold_pending_writes_go_on_to_the_replicas_and_nobody_gets_a_lease() {
    let mut home = Home::hot();
    assert_eq!(home.read().gamma, 3);
    let granted_at = home.ms;
    home.hot.set_mode(home.now(), Mode::Off);
    assert_eq!(home.state(), State::ColdPending);
    assert_eq!(
        home.read(),
        ReadAdvice {
            gamma: 0,
            replicated: true
        }
    );
    home.write(WriteKind::Update);
    let sent = home.sent();
    assert!(sent.len() == 3 && sent.iter().all(|s| s.0));
    home.confirm(&sent);
    assert_eq!(home.state(), State::ColdPending);
    home.pass(granted_at + LEASE_MS + 49 - home.ms);
    assert!(
        home.sent().is_empty(),
        "a lease and its margin are not over"
    );
    home.pass(2);
    let sent = home.sent();
    assert!(sent.len() == 3 && sent.iter().all(|s| !s.0));
    assert_eq!(home.state(), State::Cold);
    home.read_for(2000);
    assert_eq!(home.count(Event::Promoted), 1, "replication is off");
}

#[test]
fn a_delete_in_cold_pending_ends_it_when_all_replicas_are_gone() {
    let mut home = Home::hot();
    home.read();
    home.hot.set_mode(home.now(), Mode::Off);
    home.write(WriteKind::Delete);
    let sent = home.sent();
    home.confirm(&sent);
    assert_eq!((home.state(), home.count(Event::Removed)), (State::Cold, 1));
}

#[test]
fn a_key_that_is_written_too_much_loses_its_replicas() {
    let mut home = Home::hot();
    for _ in 0..300 {
        home.read();
        home.write(WriteKind::Update);
        let sent = home.sent();
        home.confirm(&sent);
        home.pass(10);
    }
    assert_eq!(home.count(Event::WriteHeavy), 1);
    assert_eq!(
        home.count(Event::Promoted),
        1,
        "reads alone would have kept it hot"
    );
    assert_eq!(home.state(), State::Cold);
}

#[test]
fn nine_reads_to_a_write_balance_to_nothing() {
    let mut home = Home::new(config());
    for i in 0..3000 {
        if i % 10 == 0 {
            home.write(WriteKind::Update);
        } else {
            home.read();
        }
        home.pass(1);
    }
    assert_eq!(home.count(Event::Promoted), 0);
}

#[test]
fn a_lost_connection_ends_leases_and_a_new_one_brings_the_present_value() {
    let mut home = Home::hot();
    let target = home.hot.list()[0].shadows[1];
    home.hot.handle_link_lost(home.now(), target);
    assert_eq!(home.read().gamma, 0);
    assert!(home.sent().is_empty());
    home.hot.handle_link_up(target);
    let sent = home.sent();
    assert_eq!(sent.iter().map(|s| s.2).collect::<Vec<_>>(), [target]);
    home.confirm(&sent);
    assert_eq!(home.read().gamma, 3);
}

#[test]
fn a_lost_connection_is_tried_again_by_itself_and_late_confirmations_are_void() {
    let mut home = Home::hot();
    home.write(WriteKind::Update);
    let sent = home.sent();
    let (_, _, target, _) = sent[0];
    home.hot.handle_link_lost(home.now(), target);
    home.confirm(&sent);
    assert_eq!(
        home.state(),
        State::HotPending,
        "that confirmation was of the old connection"
    );
    home.pass(240);
    assert!(home.sent().is_empty());
    home.pass(20);
    let again = home.sent();
    assert_eq!(again.len(), 1);
    home.confirm(&again);
    assert_eq!(home.state(), State::Hot);
}

#[test]
fn a_shadow_that_stays_silent_for_a_lease_ends_the_replication() {
    let mut home = Home::hot();
    home.write(WriteKind::Update);
    let sent = home.sent();
    home.confirm(&sent[1..]);
    home.read_for(1040);
    assert_eq!(home.state(), State::HotPending);
    home.read_for(20);
    assert_eq!(home.count(Event::ShadowSilent), 1);
    // Nobody holds a lease any more, so that the rest follows at once.
    home.pass(1);
    let removals = home.sent();
    assert_eq!(removals.len(), 3);
    assert_eq!(home.state(), State::Cold);
    home.read_for(4900);
    assert_eq!(
        home.count(Event::Promoted),
        1,
        "it is left alone for a while"
    );
    home.read_for(200);
    assert_eq!(home.count(Event::Promoted), 2);
}

#[test]
fn a_key_is_promoted_only_up_to_the_first_shadow_that_was_lost_a_moment_ago() {
    let mut home = Home::new(config());
    let shadows = renaming::shadows(&map(|_| {}), KEY, ME.server, 3);
    home.read_for(980);
    home.hot.handle_link_lost(home.now(), shadows[2]);
    home.read_for(40);
    assert_eq!(home.hot.list()[0].shadows, shadows[..2]);
}

#[test]
fn a_key_whose_first_shadow_was_lost_waits() {
    let mut home = Home::new(config());
    let shadows = renaming::shadows(&map(|_| {}), KEY, ME.server, 3);
    home.read_for(980);
    home.hot.handle_link_lost(home.now(), shadows[0]);
    home.read_for(1000);
    assert_eq!(home.state(), State::Cold);
    assert!(home.hot.stats().unpromoted_alone > 0);
    home.hot.handle_link_up(shadows[0]);
    home.read_for(20);
    assert_eq!(home.state(), State::HotPending);
}

#[test]
fn a_shadow_that_refuses_a_new_replica_or_a_renewal_ends_the_replication() {
    let mut home = Home::new(config());
    home.read_for(1010);
    let sent = home.sent();
    home.hot.handle_refused(home.now(), sent[0].2, sent[0].3);
    assert_eq!(
        (home.state(), home.count(Event::ShadowRefused)),
        (State::ColdPending, 1)
    );
    home.pass(1);
    assert!(home.sent().iter().all(|s| !s.0));

    let mut home = Home::hot();
    home.read_for(RENEWAL_INTERVAL.as_millis() as u64 + 1000);
    let renewals = home.sent();
    assert_eq!((renewals.len(), home.state()), (3, State::Hot));
    home.hot
        .handle_refused(home.now(), renewals[2].2, renewals[2].3);
    assert_eq!(home.state(), State::ColdPending);
}

#[test]
fn hot_replicas_are_renewed_without_a_break_in_the_leases() {
    let mut home = Home::hot();
    for _ in 0..3 {
        home.read_for(RENEWAL_INTERVAL.as_millis() as u64 + 500);
        let renewals = home.sent();
        assert!(renewals.len() == 3 && renewals.iter().all(|s| s.0));
        assert_eq!(home.read().gamma, 3);
        home.confirm(&renewals);
        assert_eq!(home.read().gamma, 3);
    }
}

#[test]
fn an_item_found_missing_when_it_is_to_be_sent_counts_as_deleted() {
    let mut home = Home::hot();
    home.read_for(RENEWAL_INTERVAL.as_millis() as u64 + 500);
    let renewals = home.sent();
    home.hot
        .handle_absent(home.now(), renewals[0].2, renewals[0].3);
    assert_eq!(home.state(), State::HotPending);
    assert_eq!(
        home.sent().len(),
        1,
        "the others still have a renewal under way"
    );
    home.confirm(&renewals[1..]);
    let rest = home.sent();
    assert!(rest.len() == 2 && rest.iter().all(|s| !s.0));
}

#[test]
fn a_key_that_gets_much_hotter_gets_more_replicas_in_place() {
    let mut home = Home::new(HotKeysConfig {
        gamma_max: 3,
        ..config()
    });
    home.hot.handle_cluster_load(2000.0);
    home.read_for(1010);
    let first = home.sent();
    assert_eq!(first.len(), 1, "100 reads a second are 5 % of a fair load");
    home.confirm(&first);
    for _ in 0..600 {
        home.read();
        home.pass(1);
    }
    assert_eq!(
        (home.state(), home.count(Event::Widened)),
        (State::HotPending, 1)
    );
    let more = home.sent();
    assert_eq!(more.len(), 2);
    assert!(more.iter().all(|s| s.2 != first[0].2));
    home.confirm(&more);
    assert_eq!(home.read().gamma, 3);
}

#[test]
fn a_map_that_changes_nothing_for_a_key_lets_it_be() {
    let mut home = Home::hot();
    home.hot
        .handle_map(home.now(), map(|d| d.epoch = Epoch(8)), ME);
    assert_eq!(home.state(), State::Hot);
    assert_eq!(home.read().gamma, 0, "the reader knows the old map");
    assert_eq!(
        home.read_as(KEY, Reader::Aware { epoch: Epoch(8) }, true)
            .gamma,
        3
    );
    home.write(WriteKind::Update);
    let Some(Output::Store(message)) = home.hot.poll_output() else {
        panic!("nothing is sent")
    };
    assert_eq!(message.epoch, Epoch(8));
}

#[test]
fn a_map_with_other_shadows_or_another_home_ends_the_replication() {
    let shadow = renaming::shadows(&map(|_| {}), KEY, ME.server, 1)[0];
    let node = (KeyHash::of(KEY).0 >> 58) as usize;
    let shadow_down = map(|d| {
        d.epoch = Epoch(8);
        d.servers[usize::from(shadow.server.0) - 1].up = false;
    });
    let moved = map(|d| {
        d.epoch = Epoch(8);
        d.cachelets[node] = Some(shadow);
    });
    for other in [shadow_down, moved] {
        let mut home = Home::hot();
        home.read();
        home.hot.handle_map(home.now(), other, ME);
        assert_eq!(home.state(), State::ColdPending);
        assert_eq!(
            home.read_as(KEY, Reader::Aware { epoch: Epoch(8) }, true)
                .gamma,
            0
        );
        home.pass(LEASE_MS + 51);
        assert_eq!(home.sent().len(), 3);
        assert_eq!(home.state(), State::Cold);
    }
}

#[test]
fn a_cold_key_that_moves_away_is_forgotten_at_once() {
    let mut home = Home::new(config());
    home.read_for(600);
    assert_eq!(home.state(), State::Cold);
    let node = (KeyHash::of(KEY).0 >> 58) as usize;
    let other = WorkerRef {
        server: ServerId(2),
        worker: 0,
    };
    home.hot
        .handle_map(home.now(), map(|d| d.cachelets[node] = Some(other)), ME);
    assert_eq!(
        (home.state(), home.count(Event::MapChanged)),
        (State::Invalid, 1)
    );
}

#[test]
fn an_idle_worker_samples_and_replicates_nothing() {
    let trigger = TriggerConfig {
        absolute_rps: Some(1000.0),
        ..TriggerConfig::default()
    };
    let mut home = Home::new(HotKeysConfig {
        trigger,
        ..config()
    });
    home.read_for(3000);
    assert!(!home.hot.is_triggered());
    assert_eq!(home.hot.stats().reads_sampled, 0);
    assert!(home.hot.list().is_empty());
    assert!((home.hot.load() - 100.0).abs() < 5.0);
}

#[test]
fn diverted_reads_keep_the_trigger_on() {
    let trigger = TriggerConfig {
        absolute_rps: Some(80.0),
        ..TriggerConfig::default()
    };
    let mut home = Home::hot_with(HotKeysConfig {
        trigger,
        ..config()
    });
    // A quarter of the reads still comes here.
    for _ in 0..200 {
        home.read();
        home.pass(40);
    }
    assert!(home.hot.is_triggered() && home.state() == State::Hot);
    let rate = home.hot.list()[0].requests_per_second;
    assert!((rate - 100.0).abs() < 15.0, "{rate}");
    // Unaware readers are not diverted: nothing is made up for them.
    for _ in 0..200 {
        home.read_as(KEY, Reader::Unaware, true);
        home.pass(40);
    }
    assert!(!home.hot.is_triggered());
    assert!((home.hot.load() - 25.0).abs() < 5.0);
}

#[test]
fn a_full_cache_evicts_the_least_recently_used_cold_key_and_no_other() {
    let mut home = Home::hot();
    let aware = Reader::Aware { epoch: EPOCH };
    for key in [b"a", b"b", b"c", b"d"] {
        home.read_as(key, aware, true);
    }
    assert_eq!(home.state_of(b"a"), State::Invalid);
    assert_eq!(home.state(), State::Hot);
    home.read_as(b"b", aware, true);
    home.read_as(b"e", aware, true);
    assert_eq!(home.state_of(b"c"), State::Invalid);
    assert_eq!(home.state_of(b"b"), State::Cold);
    assert_eq!(home.hot.list().len(), 4);
}

#[test]
fn a_cache_full_of_hot_keys_takes_no_more() {
    let mut home = Home::hot_with(HotKeysConfig {
        entries_max: 1,
        replicated_max: 1,
        ..config()
    });
    home.read_as(b"a", Reader::Unaware, true);
    assert_eq!(home.state_of(b"a"), State::Invalid);
    assert_eq!(home.hot.stats().untracked_full, 1);
}

#[test]
fn no_more_than_the_allowed_number_of_keys_is_replicated() {
    let mut home = Home::hot_with(HotKeysConfig {
        replicated_max: 1,
        ..config()
    });
    // A second key of this worker.
    let map = map(|_| {});
    let at_home = |i: &u32| map.locate(KeyHash::of(format!("k{i}").as_bytes())).worker == Some(ME);
    let other = format!("k{}", (0..).find(at_home).unwrap()).into_bytes();
    for _ in 0..100 {
        home.read();
        home.read_as(&other, Reader::Aware { epoch: EPOCH }, true);
        home.pass(10);
    }
    assert_eq!(home.state_of(&other), State::Cold);
    assert!(home.hot.stats().unpromoted_full > 0);
    assert_eq!(home.hot.replicated_count(), 1);
}

#[test]
fn keys_that_are_absent_are_neither_tracked_nor_promoted() {
    let mut home = Home::new(config());
    for _ in 0..200 {
        home.read_as(KEY, Reader::Aware { epoch: EPOCH }, false);
        home.pass(10);
    }
    assert!(home.hot.is_triggered());
    assert_eq!(home.state(), State::Invalid);
}

#[test]
fn a_lone_server_has_nobody_to_replicate_to() {
    let mut home = Home::new(config());
    let alone = map(|d| {
        d.servers[1..]
            .iter_mut()
            .for_each(|server| server.up = false)
    });
    home.hot.handle_map(home.now(), alone, ME);
    home.read_for(1100);
    assert_eq!(home.state(), State::Cold);
    assert!(home.hot.stats().unpromoted_alone > 0);
}

#[test]
fn confirmations_that_nobody_asked_for_are_ignored() {
    let mut home = Home::hot();
    let tag = PropagationTag {
        serial: 999,
        slot: 60_000,
        shadow: 200,
    };
    home.hot.handle_acked(home.now(), ME, tag);
    home.hot.handle_refused(home.now(), ME, tag);
    home.hot.handle_absent(home.now(), ME, tag);
    home.hot.handle_link_lost(home.now(), ME);
    home.hot.handle_link_up(ME);
    home.hot.handle_cluster_load(f64::NAN);
    assert_eq!(home.read().gamma, 3);
}

#[test]
fn a_long_silence_of_the_caller_does_no_harm() {
    let mut home = Home::hot();
    home.read();
    home.ms += 3_600_000;
    home.hot.handle_timeout(home.now());
    assert!(home.hot.poll_deadline() > home.now() || home.state() == State::ColdPending);
    home.pass(1);
    home.sent();
    assert_eq!(home.hot.replicated_count(), 0);
}
