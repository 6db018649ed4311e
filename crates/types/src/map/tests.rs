use super::*;

fn server(id: u16) -> ServerEntry {
    ServerEntry {
        id: ServerId(id),
        name: format!("s{id}"),
        host: "127.0.0.1".into(),
        port: 11211 + id,
        worker_ports: vec![20_000 + 2 * id, 20_001 + 2 * id],
        rack: None,
        boot: BootId(7),
        up: true,
        since: Epoch(2),
        leaving: false,
    }
}

fn worker(server: u16, worker: u16) -> WorkerRef {
    WorkerRef {
        server: ServerId(server),
        worker,
    }
}

/// Servers 1 and 3 with two workers each; 16 virtual nodes in eight cachelets, the last unowned.
fn document() -> MapDocument {
    let workers = [worker(1, 0), worker(1, 1), worker(3, 0), worker(3, 1)];
    MapDocument {
        epoch: Epoch(5),
        promise: None,
        servers: vec![server(1), server(3)],
        virtual_nodes: (0..16).map(|i| CacheletId(i % 8)).collect(),
        cachelets: (0..8).map(|i| (i < 7).then_some(workers[i % 4])).collect(),
        since: vec![Epoch(2); 8],
        stay: vec![Epoch(3); 8],
        migrations: vec![Migration {
            cachelet: CacheletId(1),
            to: worker(3, 0),
            began: Epoch(4),
            cancelled: false,
            bytes_per_second: 0,
        }],
        quarantined: vec![CacheletId(7)],
    }
}

#[test]
fn the_highest_bits_of_the_hash_choose_the_virtual_node() {
    let map = ClusterMap::new(document()).unwrap();
    let place = map.locate(KeyHash(0xa123_4567_89ab_cdef));
    assert_eq!(place.virtual_node, VirtualNode(10));
    assert_eq!(place.cachelet, CacheletId(2));
    assert_eq!(place.worker, Some(worker(3, 0)));
    assert_eq!(map.locate(KeyHash(u64::MAX)).worker, None);
    assert_eq!(map.locate(KeyHash(0)).worker, Some(worker(1, 0)));
}

#[test]
fn a_map_of_one_virtual_node_sends_every_key_to_it() {
    let mut document = document();
    document.virtual_nodes.truncate(1);
    let map = ClusterMap::new(document).unwrap();
    for hash in [0, 1, u64::MAX, 1 << 63] {
        assert_eq!(map.locate(KeyHash(hash)).virtual_node, VirtualNode(0));
    }
}

#[test]
fn a_map_of_65536_virtual_nodes_and_cachelets_reaches_the_last_of_each() {
    let mut document = document();
    document.virtual_nodes = (0..=u16::MAX).map(CacheletId).collect();
    document.cachelets = vec![Some(worker(3, 1)); CACHELETS_MAX];
    document.since.clear();
    document.stay.clear();
    document.migrations.clear();
    document.quarantined.clear();
    let map = ClusterMap::new(document).unwrap();
    let place = map.locate(KeyHash(u64::MAX));
    assert_eq!(
        (place.virtual_node.0, place.cachelet.0),
        (u16::MAX, u16::MAX)
    );
    assert_eq!(map.cachelets_of(worker(3, 1)).count(), CACHELETS_MAX);
}

#[test]
fn a_new_map_has_as_many_cachelets_as_memory_carries() {
    let mib = |mib: u64, workers| cachelets_per_worker(mib << 20, workers);
    assert_eq!([mib(0, 0), mib(64, 4), mib(64, 1), mib(255, 4)], [16; 4]);
    assert_eq!([mib(256, 4), mib(480, 4), mib(1023, 4)], [16, 30, 63]);
    assert_eq!([mib(1024, 4), mib(u64::MAX >> 20, 1)], [64; 2]);
}

#[test]
fn workers_are_found_by_their_own_ports() {
    let map = ClusterMap::new(document()).unwrap();
    assert_eq!(map.address(worker(3, 1)), Some(("127.0.0.1", 20_007)));
    assert_eq!(map.address(worker(3, 2)), None);
    assert_eq!(map.address(worker(2, 0)), None);
    assert_eq!(map.owner(CacheletId(1)), Some(worker(1, 1)));
    assert_eq!(map.owner(CacheletId(7)), None);
    assert_eq!(map.owner(CacheletId(8)), None);
    let quarantined = [6, 7, 8].map(|cachelet| map.is_quarantined(CacheletId(cachelet)));
    assert_eq!(quarantined, [false, true, false]);
    let owned: Vec<u16> = map.cachelets_of(worker(1, 0)).map(|c| c.0).collect();
    assert_eq!(owned, [0, 4]);
}

#[test]
fn servers_that_are_down_stay_in_the_map_but_are_not_counted_as_up() {
    let mut document = document();
    document.servers[0].up = false;
    let map = ClusterMap::new(document).unwrap();
    assert_eq!(map.servers().len(), 2);
    assert_eq!(map.servers_up_count(), 1);
    assert_eq!(
        map.servers_up().map(|s| s.id).collect::<Vec<_>>(),
        [ServerId(3)]
    );
    assert!(!map.is_up(ServerId(1)) && map.is_up(ServerId(3)) && !map.is_up(ServerId(2)));
}

#[test]
fn a_map_survives_a_trip_through_json_and_unknown_fields_are_ignored() {
    let map = ClusterMap::new(document()).unwrap();
    let json = serde_json::to_string(&map).unwrap();
    assert_eq!(serde_json::from_str::<ClusterMap>(&json).unwrap(), map);
    let newer = json.replacen('{', "{\"balancer\":\"on\",", 1);
    assert_eq!(serde_json::from_str::<ClusterMap>(&newer).unwrap(), map);
    let without_rack = json.replace("\"rack\":null,", "");
    assert_ne!(without_rack, json);
    assert_eq!(
        serde_json::from_str::<ClusterMap>(&without_rack).unwrap(),
        map
    );
}

#[test]
fn json_that_contradicts_itself_is_refused_with_the_reason() {
    let mut bad = document();
    bad.cachelets[3] = Some(worker(9, 0));
    let json = serde_json::to_string(&bad).unwrap();
    let error = serde_json::from_str::<ClusterMap>(&json)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("cachelet 3 is owned by worker 9/0"),
        "{error}"
    );
}

fn bad_migration(cachelet: u16) -> MapError {
    MapError::BadMigration {
        cachelet: CacheletId(cachelet),
    }
}

fn bad_quarantine(cachelet: u16) -> MapError {
    MapError::BadQuarantine {
        cachelet: CacheletId(cachelet),
    }
}

#[test]
fn every_rule_refuses_the_document_that_breaks_it() {
    type Break = fn(&mut MapDocument);
    let cases: [(Break, MapError); 28] = [
        (|d| d.since.truncate(7), MapError::BadSince),
        (
            |d| d.quarantined = vec![CacheletId(7); 2],
            bad_quarantine(7),
        ),
        (|d| d.quarantined = vec![CacheletId(6)], bad_quarantine(6)),
        (|d| d.quarantined = vec![CacheletId(8)], bad_quarantine(8)),
        (|d| d.since[3] = Epoch(6), MapError::BadSince),
        (|d| d.stay[3] = Epoch(1), MapError::BadSince),
        (|d| d.stay.truncate(7), MapError::BadSince),
        (
            |d| d.migrations = vec![d.migrations[0]; MIGRATIONS_MAX + 1],
            MapError::TooManyMigrations {
                count: MIGRATIONS_MAX + 1,
            },
        ),
        (
            |d| d.migrations = vec![d.migrations[0]; 2],
            bad_migration(1),
        ),
        (|d| d.migrations[0].to = worker(1, 0), bad_migration(1)),
        (|d| d.migrations[0].to = worker(3, 2), bad_migration(1)),
        (|d| d.migrations[0].began = Epoch(6), bad_migration(1)),
        (
            |d| d.migrations[0].cachelet = CacheletId(7),
            bad_migration(7),
        ),
        (|d| d.epoch = Epoch(0), MapError::EpochZero),
        (
            |d| d.servers = vec![server(1); SERVERS_MAX + 1],
            MapError::TooManyServers {
                count: SERVERS_MAX + 1,
            },
        ),
        (
            |d| d.servers.swap(0, 1),
            MapError::ServersNotAscending { id: ServerId(1) },
        ),
        (
            |d| d.servers[1].id = ServerId(1),
            MapError::ServersNotAscending { id: ServerId(1) },
        ),
        (
            |d| d.servers[0].name = "a b".into(),
            MapError::BadName { id: ServerId(1) },
        ),
        (
            |d| d.servers[0].rack = Some(String::new()),
            MapError::BadName { id: ServerId(1) },
        ),
        (
            |d| d.servers[1].host = "x\n".into(),
            MapError::BadHost { id: ServerId(3) },
        ),
        (
            |d| d.servers[1].name = "s1".into(),
            MapError::DuplicateName { name: "s1".into() },
        ),
        (
            |d| d.servers[0].worker_ports[1] = 0,
            MapError::PortZero { id: ServerId(1) },
        ),
        (
            |d| d.servers[0].worker_ports.clear(),
            MapError::BadWorkerCount {
                id: ServerId(1),
                count: 0,
            },
        ),
        (
            |d| d.virtual_nodes.truncate(12),
            MapError::BadVirtualNodeCount { count: 12 },
        ),
        (
            |d| d.virtual_nodes.clear(),
            MapError::BadVirtualNodeCount { count: 0 },
        ),
        (
            |d| d.virtual_nodes[2] = CacheletId(8),
            MapError::UnknownCachelet {
                virtual_node: 2,
                cachelet: CacheletId(8),
            },
        ),
        (
            |d| d.cachelets = vec![None; CACHELETS_MAX + 1],
            MapError::TooManyCachelets {
                count: CACHELETS_MAX + 1,
            },
        ),
        (
            |d| d.cachelets[6] = Some(worker(3, 2)),
            MapError::UnknownOwner {
                cachelet: 6,
                owner: worker(3, 2),
            },
        ),
    ];
    for (break_it, expected) in cases {
        let mut bad = document();
        break_it(&mut bad);
        assert_eq!(ClusterMap::new(bad).unwrap_err(), expected);
    }
}
