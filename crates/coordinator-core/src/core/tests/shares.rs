//! Servers that come and go, where cachelets can pass with their contents.

use super::plans::Cluster;
use super::*;
use crate::plans::PlanMode;

/// Servers that can all migrate.
fn able(servers: u16) -> Cluster {
    let mut cluster = Cluster::new(servers);
    cluster.members.iter_mut().for_each(|m| m.migrates = true);
    // Shares alone: loads differ.
    cluster.set(|settings| settings.mode = PlanMode::Observe);
    cluster.rounds(2);
    cluster
}

fn newcomer(n: u16) -> Heartbeat {
    Heartbeat {
        migrates: true,
        ..server(n, 2)
    }
}

fn drain(cluster: &mut Cluster, server: &str, is_drained: bool, rate: u32) {
    let request = DrainRequest {
        server: server.into(),
        drain: is_drained,
        cachelets_per_second: rate,
    };
    let now = cluster.world.now;
    cluster.world.core.handle_drain(now, &request).unwrap();
}

/// Half seconds until nothing moves any more; every cachelet has an owner all the time.
fn until_quiet(cluster: &mut Cluster) -> usize {
    for round in 0..600 {
        cluster.round();
        assert_eq!(cluster.world.core.cachelets_in_transit(), 0);
        let draining = |server: &ServerView| server.draining && server.cachelets > 0;
        let view = cluster.world.core.servers(cluster.world.now.monotonic);
        let is_drained = !view.servers.iter().any(draining);
        if round > 1 && is_drained && cluster.world.core.migrations_under_way() == 0 {
            return round;
        }
    }
    panic!("never quiet: {:?}", cluster.world.shares());
}

fn of_server(cluster: &Cluster, id: u16) -> usize {
    let owners = cluster.world.owners();
    let is_its = |owner: &&Option<WorkerRef>| owner.is_some_and(|o| o.server == ServerId(id));
    owners.iter().filter(is_its).count()
}

#[test]
fn a_newcomer_gets_its_share_with_contents_a_few_cachelets_at_a_time() {
    let mut cluster = able(3);
    cluster.members.push(newcomer(4));
    until_quiet(&mut cluster);
    let shares = cluster.world.shares();
    assert_eq!(shares.len(), 8);
    assert!(shares.values().all(|&n| n == 12), "{shares:?}");
    assert_eq!(cluster.most.1, 2);
    assert!(cluster.world.since().iter().all(|&since| since == Epoch(1)));
    assert_eq!(cluster.world.core.saved_state().accounts.len(), 0);
}

#[test]
fn a_drained_server_passes_its_contents_on_and_gets_its_share_again() {
    let mut cluster = able(3);
    drain(&mut cluster, "s2", true, 100);
    until_quiet(&mut cluster);
    assert_eq!([0, 1, 2].map(|id| of_server(&cluster, id)), [48, 0, 48]);
    drain(&mut cluster, "s2", false, 100);
    until_quiet(&mut cluster);
    assert_eq!([0, 1, 2].map(|id| of_server(&cluster, id)), [32; 3]);
    assert!(cluster.world.since().iter().all(|&since| since == Epoch(1)));
}

#[test]
fn a_drain_keeps_its_rate() {
    let mut cluster = able(3);
    drain(&mut cluster, "s2", true, 1);
    cluster.rounds(20);
    let left = of_server(&cluster, 1);
    assert!((21..=24).contains(&left), "{left}");
}

#[test]
fn what_cannot_migrate_is_released_instead() {
    // A source that gives every migration up, and one server that cannot take part.
    let mut cluster = able(3);
    cluster.outcome = MigrationState::Aborted;
    drain(&mut cluster, "s1", true, 100);
    cluster.rounds(150);
    assert_eq!([0, 1, 2].map(|id| of_server(&cluster, id)), [0, 48, 48]);
    let tries = u64::from(limits::SHARE_MIGRATIONS_MAX);
    assert_eq!(cluster.world.core.migration_counts().begun, 32 * tries);
    let mut cluster = able(2);
    cluster.members.push(server(3, 2));
    cluster.rounds(10);
    assert_eq!(of_server(&cluster, 2), 20, "in two steps");
    assert_eq!(cluster.world.core.migration_counts().begun, 0);
}

#[test]
fn moves_for_even_shares_go_on_under_another_coordinator() {
    let mut cluster = able(3);
    cluster.members.push(newcomer(4));
    cluster.rounds(6);
    let had = of_server(&cluster, 3);
    assert!((1..24).contains(&had), "{had}");
    cluster.world.restart();
    until_quiet(&mut cluster);
    assert_eq!(of_server(&cluster, 3), 24);
    assert!(cluster.world.since().iter().all(|&since| since == Epoch(1)));
}
