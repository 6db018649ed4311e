//! What the page is told, beside what the calls of the API tell.

use super::plans::Cluster;
use super::*;
use crate::cluster_hot_keys::tests::event;
use crate::limits::{SETTINGS_EVENTS_MAX, SNAPSHOT_EVENTS_MAX, WORKER_FULL};
use evenkeel_control::hot_keys::HotKeysNews;
use evenkeel_types::KeyHash;
use serde_json::json;

#[test]
fn it_says_what_the_calls_say_without_what_is_long() {
    let mut cluster = Cluster::new(3);
    cluster.rounds(20);
    let (core, now) = (&cluster.world.core, cluster.world.now);
    let at = now.monotonic;
    let snapshot = Snapshot::of(core, now);
    assert_eq!(snapshot.unix_s, now.unix);
    let mut servers = core.servers(at);
    for server in &mut servers.servers {
        server.worker_ports.clear();
        server.requests_per_second.clear();
    }
    assert_eq!(snapshot.servers, servers);
    assert_eq!(snapshot.proxies, core.proxies(at));
    assert_eq!(snapshot.hot_keys, core.cluster_hot_keys());
    assert_eq!(snapshot.settings, core.settings());
    assert_eq!(snapshot.drains, core.drains(at).drains);
    assert_eq!(
        snapshot.events,
        core.events().iter().cloned().collect::<Vec<_>>()
    );
    let loads = core.cluster_loads(at, LoadOrder::Place, usize::MAX);
    assert_eq!(snapshot.loads.workers, loads.workers);
    assert!(snapshot.loads.cachelets.is_empty() && !loads.cachelets.is_empty());
    let sum: f64 = loads
        .workers
        .iter()
        .map(|it| it.load + it.replica_load)
        .sum();
    assert_eq!(snapshot.totals.load, sum);
    assert_eq!(snapshot.totals.workers, loads.workers.len());
    let full = loads.workers.iter().filter(|it| it.busy >= WORKER_FULL);
    assert_eq!(snapshot.totals.workers_full, full.count());
    let items: u64 = loads.cachelets.iter().map(|it| it.items).sum();
    assert_eq!(snapshot.totals.items, items);
    for heat in &snapshot.heat {
        let wanted = WantedHeat {
            of: heat.of,
            step: HeatStep::Second,
            columns: 1,
        };
        let mut expected = core.heat(at, wanted);
        if heat.of != Measure::Load {
            expected.workers.clear();
            expected.columns[0].owners.clear();
        }
        assert_eq!(*heat, expected);
        assert_eq!(heat.columns.len(), 1);
    }
    assert_eq!(snapshot.heat.len(), Measure::ALL.len());
}

#[test]
fn changes_of_settings_are_told_and_only_the_last_of_them() {
    let mut world = World::new(1);
    world
        .set(r#"{"hot_keys": "off", "hot_share": 2.5}"#)
        .unwrap();
    world.set(r#"{"hot_keys": "off"}"#).unwrap();
    let told = Snapshot::of(&world.core, world.now).settings_events;
    let told: Vec<_> = (told.into_iter())
        .map(|it| (it.unix_s, it.name, it.from, it.to))
        .collect();
    let share = json!(Settings::default().hot_share);
    let expected = [
        (
            world.now.unix,
            "hot_keys".to_owned(),
            json!("on"),
            json!("off"),
        ),
        (world.now.unix, "hot_share".to_owned(), share, json!(2.5)),
    ];
    assert_eq!(told, expected);
    for n in 1..50 {
        world.set(&format!(r#"{{"gamma_max": {n}}}"#)).unwrap();
    }
    let told = Snapshot::of(&world.core, world.now).settings_events;
    assert_eq!(told.len(), SETTINGS_EVENTS_MAX);
    assert_eq!(told.last().expect("some").to, json!(49));
}

#[test]
fn of_many_events_the_newest_are_told() {
    let mut world = World::new(1);
    let mut members = [server(1, 2)];
    world.send_current(&mut members);
    let events = (1..=2 * SNAPSHOT_EVENTS_MAX as u64).map(|number| event(number, None));
    members[0].hot_keys = Some(HotKeysNews {
        events: events.collect(),
        ..HotKeysNews::default()
    });
    world.send_current(&mut members);
    let told = Snapshot::of(&world.core, world.now).hot_key_events;
    let numbers: Vec<u64> = told.iter().map(|it| it.event.number).collect();
    let newest = SNAPSHOT_EVENTS_MAX as u64 + 1..=2 * SNAPSHOT_EVENTS_MAX as u64;
    assert_eq!(numbers, newest.collect::<Vec<_>>());
}

#[test]
fn a_key_is_explained_by_the_newest_map() {
    let world = World::new(1);
    let at = world.now.monotonic;
    assert_eq!(
        KeyExplained::of(&world.core, at, b"user:17"),
        None,
        "no map yet"
    );
    let mut cluster = Cluster::new(3);
    cluster.rounds(20);
    let (core, at) = (&cluster.world.core, cluster.world.now.monotonic);
    let map = core.map().expect("a map");
    for key in ["user:17", "user:18", "a b"] {
        let place = map.locate(KeyHash::of(key.as_bytes()));
        let owner = place.worker.expect("all have owners");
        let explained = KeyExplained::of(core, at, key.as_bytes()).expect("a map");
        let server = core.servers(at).servers;
        let server = server.iter().find(|it| it.id == owner.server);
        assert_eq!(explained.key, key.replace(' ', "%20"));
        assert_eq!(explained.cachelet, place.cachelet);
        assert_eq!(explained.server, server.map(|it| it.name.clone()));
        assert_eq!(explained.worker, Some(owner.worker));
        assert!(explained.server_up && !explained.moving && !explained.quarantined);
        let load = explained.load.expect("all tell of their loads");
        assert_eq!(load.cachelet, place.cachelet);
        assert_eq!((explained.hot, explained.hottest), (None, None));
    }
}
