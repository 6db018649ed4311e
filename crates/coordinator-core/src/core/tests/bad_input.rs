//! Heartbeats that must be refused, each with its reason, and without any effect.

use evenkeel_types::map::{NAME_LEN_MAX, WORKERS_MAX};

use super::*;

/// A world with a map that two servers work by.
fn settled() -> World {
    let mut world = World::new(2);
    let mut members = [server(1, 2), server(2, 2)];
    members[0].load.requests_per_second = vec![100.0, 300.0];
    world.send_current(&mut members);
    world.pass(300);
    world
}

fn assert_refused(world: &mut World, heartbeat: &Heartbeat, reason: Reason) {
    let (revision, refused) = (
        world.core.revision(),
        world.core.counters().refusals[&reason],
    );
    let members = world.core.servers(world.now.monotonic).servers.len();
    let refusal = world.send(heartbeat).unwrap_err();
    assert_eq!(refusal.reason(), reason, "{refusal}");
    assert_eq!(world.core.revision(), revision);
    assert_eq!(world.core.counters().refusals[&reason], refused + 1);
    assert_eq!(
        world.core.servers(world.now.monotonic).servers.len(),
        members
    );
}

#[test]
fn names_hosts_and_racks_out_of_bounds() {
    let mut world = settled();
    let long = "n".repeat(NAME_LEN_MAX + 1);
    for bad in ["", "a b", "a\r\nset x", "ä", "\0", "\"", "a\\", &long] {
        let name = bad.to_owned();
        let host = name.clone();
        let rack = Some(name.clone());
        for heartbeat in [
            Heartbeat {
                name,
                ..server(3, 1)
            },
            Heartbeat {
                host,
                ..server(3, 1)
            },
            Heartbeat {
                rack,
                ..server(3, 1)
            },
        ] {
            assert_refused(&mut world, &heartbeat, Reason::BadName);
        }
    }
    let longest = Heartbeat {
        name: "n".repeat(NAME_LEN_MAX),
        ..server(3, 1)
    };
    assert!(world.send(&longest).is_ok());
}

#[test]
fn the_wrong_cluster() {
    let mut world = settled();
    for cluster in ["", "Test", "test2", &"x".repeat(100_000)] {
        for mut heartbeat in [server(3, 1), proxy("p")] {
            heartbeat.cluster = cluster.to_owned();
            assert_refused(&mut world, &heartbeat, Reason::WrongCluster);
            let refusal = world.send(&heartbeat).unwrap_err();
            assert!(refusal.to_string().len() < 200, "a refusal repeats little");
        }
    }
}

#[test]
fn ports_and_worker_counts() {
    let mut world = settled();
    let ports = |worker_ports: Vec<u16>| Heartbeat {
        worker_ports,
        ..server(3, 1)
    };
    assert_refused(&mut world, &ports(vec![]), Reason::BadWorkerCount);
    let too_many = (1..=WORKERS_MAX as u16 + 1).collect();
    assert_refused(&mut world, &ports(too_many), Reason::BadWorkerCount);
    assert_refused(&mut world, &ports(vec![1, 0]), Reason::BadPort);
    assert_refused(&mut world, &ports(vec![7, 8, 7]), Reason::BadPort);
    let portless = Heartbeat {
        port: 0,
        ..server(3, 1)
    };
    assert_refused(&mut world, &portless, Reason::BadPort);
    let unix_only = Heartbeat {
        port: 0,
        ..proxy("p")
    };
    assert!(world.send(&unix_only).is_ok());
}

#[test]
fn loads_that_are_no_loads() {
    let mut world = settled();
    let mean = world.send(&proxy("p")).unwrap().mean_worker_load;
    assert_eq!(mean, 200.0);
    let bad = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -1.0,
        -f64::MIN_POSITIVE,
        1e9,
        1e308,
    ];
    for load in bad {
        for mut heartbeat in [server(1, 2), server(9, 2), proxy("p")] {
            heartbeat.load.requests_per_second = vec![1.0, load];
            assert_refused(&mut world, &heartbeat, Reason::BadLoad);
        }
    }
    for count in [1, 3, 100_000] {
        let mut heartbeat = server(1, 2);
        heartbeat.load.requests_per_second = vec![1.0; count];
        assert_refused(&mut world, &heartbeat, Reason::BadLoad);
    }
    world.pass(300);
    assert_eq!(world.send(&proxy("p")).unwrap().mean_worker_load, mean);
}

#[test]
fn a_thousandfold_load_pulls_nothing() {
    let mut world = settled();
    let owners = world.owners();
    let mut members = [server(1, 2), server(2, 2)];
    members[0].load.requests_per_second = vec![10_000.0, 10_000.0];
    members[1].load.requests_per_second = vec![10_000.0, 10_000_000.0];
    world.send_current(&mut members);
    world.pass(300);
    let mean = world.send(&proxy("p")).unwrap().mean_worker_load;
    assert!(
        mean <= 10_000.0 * (1.0 + limits::LOAD_CLAMP / 4.0),
        "{mean}"
    );
    assert_eq!(world.owners(), owners);
}

#[test]
fn epochs_that_were_never_made() {
    let mut world = settled();
    for epoch in [world.core.epoch().0 + 1, 1 << 40, u64::MAX] {
        for mut heartbeat in [server(1, 2), server(7, 1), proxy("p")] {
            heartbeat.epoch = Epoch(epoch);
            assert_refused(&mut world, &heartbeat, Reason::FutureEpoch);
        }
    }
}

#[test]
fn an_old_epoch_is_answered_with_the_map_and_confirms_nothing() {
    let mut world = settled();
    world.send(&server(3, 2)).unwrap();
    let in_transit = world.core.cachelets_in_transit();
    assert!(in_transit > 0);
    let mut old = server(1, 2);
    old.epoch = Epoch(1);
    let answer = world.send(&old).unwrap();
    assert_eq!(answer.map.map(|map| map.epoch()), Some(world.core.epoch()));
    assert_eq!(world.core.cachelets_in_transit(), in_transit);
}

#[test]
fn maps_of_a_coordinator_that_lost_its_state() {
    let mut world = settled();
    let mut foreign = server(1, 2);
    foreign.epoch = Epoch(1);
    foreign.lineage = Some(LINEAGE + 1);
    assert_refused(&mut world, &foreign, Reason::ForeignMap);
    foreign.lineage = Some(LINEAGE);
    assert!(world.send(&foreign).is_ok());
    // Without a map, a lineage says nothing.
    let newcomer = Heartbeat {
        lineage: Some(LINEAGE + 1),
        ..server(3, 1)
    };
    assert!(world.send(&newcomer).is_ok());
}

#[test]
fn one_life_has_one_address() {
    let mut world = settled();
    let moved = [
        Heartbeat {
            port: 1,
            ..server(1, 2)
        },
        Heartbeat {
            host: "::1".into(),
            ..server(1, 2)
        },
        Heartbeat {
            rack: Some("r".into()),
            ..server(1, 2)
        },
        server(1, 3),
    ];
    for heartbeat in moved {
        assert_refused(&mut world, &heartbeat, Reason::ChangedInOneLife);
    }
}

#[test]
fn two_servers_that_are_up_cannot_share_an_address() {
    let mut world = settled();
    let mut thief = server(1, 2);
    thief.name = "thief".into();
    assert_refused(&mut world, &thief, Reason::AddressTaken);
    // A worker's port counts as much as the ordinary one.
    thief.port = 30_000;
    thief.worker_ports = vec![30_001, server(2, 2).worker_ports[1]];
    assert_refused(&mut world, &thief, Reason::AddressTaken);
    world.pass(5_000);
    assert!(
        world.send(&thief).is_ok(),
        "the address of a server that is down is free"
    );
    // Now the former owner has lost it, in the same life or in another.
    assert_refused(&mut world, &server(2, 2), Reason::AddressTaken);
    let mut restarted = server(2, 2);
    restarted.boot = BootId(8);
    assert_refused(&mut world, &restarted, Reason::AddressTaken);
}

#[test]
fn members_beyond_the_limits() {
    let mut world = World::new(limits::WORKERS_TOTAL_MAX / WORKERS_MAX);
    for n in 0..limits::PROXIES_MAX {
        world.send(&proxy(&format!("p{n}"))).unwrap();
    }
    assert_refused(&mut world, &proxy("one-more"), Reason::TooManyMembers);
    assert!(world.send(&proxy("p7")).is_ok(), "members are still served");

    let widest = |n: usize| Heartbeat {
        name: format!("wide{n}"),
        host: format!("host{n}"),
        ..server(1, WORKERS_MAX as u16)
    };
    for n in 0..limits::WORKERS_TOTAL_MAX / WORKERS_MAX {
        world.send(&widest(n)).unwrap();
    }
    assert_refused(&mut world, &widest(999), Reason::TooManyMembers);
    assert!(world.send(&widest(3)).is_ok());
}

#[test]
fn the_largest_answer_fits_what_members_read() {
    let mut world = World::new(SERVERS_MAX);
    let long = |n: usize| format!("{n:0>width$}", width = NAME_LEN_MAX);
    let mut last = None;
    for n in 0..SERVERS_MAX {
        let heartbeat = Heartbeat {
            name: long(n),
            host: long(n),
            rack: Some(long(0)),
            boot: BootId(u64::MAX),
            ..server(1, (limits::WORKERS_TOTAL_MAX / SERVERS_MAX) as u16)
        };
        assert!(serde_json::to_vec(&heartbeat).unwrap().len() <= limits::HEARTBEAT_LEN_MAX);
        last = Some(world.send(&heartbeat).unwrap());
    }
    let answer = last.unwrap();
    assert!(answer.map.is_some());
    let len = serde_json::to_vec(&answer).unwrap().len();
    assert!(len <= limits::ANSWER_LEN_MAX, "{len}");
    let one_more = Heartbeat {
        name: "one-more".into(),
        host: "elsewhere".into(),
        ..server(1, 1)
    };
    assert_refused(&mut world, &one_more, Reason::TooManyMembers);
}

#[test]
fn json_that_is_no_heartbeat() {
    let good = serde_json::to_string(&server(1, 1)).unwrap();
    assert!(serde_json::from_str::<Heartbeat>(&good).is_ok());
    let newer = good.replacen('{', "{\"invented_later\":[1,{}],", 1);
    assert_eq!(
        serde_json::from_str::<Heartbeat>(&newer).unwrap(),
        server(1, 1)
    );
    for len in 0..good.len() {
        assert!(
            serde_json::from_str::<Heartbeat>(&good[..len]).is_err(),
            "cut at {len}"
        );
    }
    let replacements = [
        ("\"server\"", "\"emperor\""),
        ("10100", "-1"),
        ("10100", "65536"),
        ("10101", "1e3"),
        ("\"epoch\":0", "\"epoch\":-1"),
        ("\"epoch\":0", "\"epoch\":18446744073709551616"),
        (
            "\"requests_per_second\":[]",
            "\"requests_per_second\":[NaN]",
        ),
        (
            "\"requests_per_second\":[]",
            "\"requests_per_second\":[1e999]",
        ),
        (
            "\"requests_per_second\":[]",
            "\"requests_per_second\":[null]",
        ),
    ];
    for (from, to) in replacements {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good);
        assert!(serde_json::from_str::<Heartbeat>(&bad).is_err(), "{bad}");
    }
}
