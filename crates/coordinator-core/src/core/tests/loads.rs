//! What the coordinator makes of the loads that servers tell.

use super::*;
use evenkeel_balance::cachelet_load::{CacheletLoad, WorkerLoad};
use evenkeel_control::loads::{LoadNews, RATE_MAX};

fn cachelet(id: u16, load: f64) -> CacheletLoad {
    CacheletLoad {
        cachelet: CacheletId(id),
        load,
        memory_bytes: 10,
        ..CacheletLoad::default()
    }
}

/// News of a server whose workers have these cachelets, each with a load.
fn news(workers: &[&[(u16, f64)]]) -> LoadNews {
    let loads = workers.iter().enumerate().map(|(number, cachelets)| {
        let cachelets: Vec<_> = cachelets.iter().map(|(id, l)| cachelet(*id, *l)).collect();
        WorkerLoad {
            worker: number as u16,
            load: cachelets.iter().map(|load| load.load).sum(),
            busy: 0.5,
            memory_bytes: 100,
            cachelets,
            ..WorkerLoad::default()
        }
    });
    LoadNews::of(loads.collect(), 1000)
}

/// Two servers with two workers each, and the cachelets of each worker by the map.
fn settled() -> (World, [Heartbeat; 2], Vec<Vec<u16>>) {
    let mut world = World::new(2);
    let mut members = [server(1, 2), server(2, 2)];
    for member in &members {
        world.send(member).unwrap();
    }
    world.send_current(&mut members);
    let owned = |server, worker| {
        let owner = Some(self::worker(server, worker));
        let owners = world.owners().into_iter().zip(0..);
        owners
            .filter(|(o, _)| *o == owner)
            .map(|(_, id)| id)
            .collect()
    };
    let cachelets = vec![owned(0, 0), owned(0, 1), owned(1, 0), owned(1, 1)];
    (world, members, cachelets)
}

#[test]
fn the_newest_loads_are_shown_in_the_order_that_is_wanted() {
    let (mut world, mut members, of) = settled();
    members[0].load.measured = Some(news(&[
        &[(of[0][0], 10.0), (of[0][1], 30.0)],
        &[(of[1][0], 5.0)],
    ]));
    // A cachelet that its server's other worker hosts.
    members[1].load.measured = Some(news(&[&[(of[3][0], 20.0)], &[(of[3][1], 40.0)]]));
    world.send_current(&mut members);
    world.pass(200);
    let show = |world: &World, order, most| {
        let view = world.core.cluster_loads(world.now.monotonic, order, most);
        let cachelets = view.cachelets.iter();
        let cachelets = cachelets.map(|c| (c.server.clone(), c.worker, c.home_worker, c.load));
        (view.clone(), cachelets.collect::<Vec<_>>())
    };
    let (view, cachelets) = show(&world, LoadOrder::Place, usize::MAX);
    let (s1, s2) = ("s1".to_owned(), "s2".to_owned());
    let expected = [
        (s1.clone(), 0, 0, 10.0),
        (s1.clone(), 0, 0, 30.0),
        (s1.clone(), 1, 1, 5.0),
        (s2.clone(), 0, 1, 20.0),
        (s2.clone(), 1, 1, 40.0),
    ];
    assert_eq!(cachelets, expected);
    let servers: Vec<_> = view
        .servers
        .iter()
        .map(|s| (s.load, s.age_ms, s.memory_bytes))
        .collect();
    assert_eq!(servers, [(45.0, Some(200), 200), (60.0, Some(200), 200)]);
    let (view, cachelets) = show(&world, LoadOrder::Load, 2);
    assert_eq!(cachelets, [expected[4].clone(), expected[1].clone()]);
    let workers: Vec<_> = view
        .workers
        .iter()
        .map(|w| (w.server.as_str(), w.worker))
        .collect();
    assert_eq!(workers, [("s1", 0), ("s2", 1)]);

    // The next news take the place of those; who tells nothing is known of nothing.
    members[0].load.measured = Some(news(&[&[(of[0][0], 11.0)], &[]]));
    members[1].load.measured = None;
    world.send_current(&mut members);
    let (view, cachelets) = show(&world, LoadOrder::Place, usize::MAX);
    assert_eq!(cachelets, [(s1, 0, 0, 11.0)]);
    assert_eq!(view.servers[1].age_ms, None);
    assert_eq!(world.core.load_news_counts().heard, 3);
    // Nor is anything of one that is down.
    world.pass(10_000);
    assert!(world.core.server_loads(world.now.monotonic).is_empty());
}

#[test]
fn a_cachelet_is_told_of_only_by_the_server_that_has_it() {
    let (mut world, mut members, of) = settled();
    let stolen = of[2][0];
    members[0].load.measured = Some(news(&[&[(stolen, 99.0), (of[0][0], 1.0)], &[]]));
    members[1].load.measured = Some(news(&[&[(stolen, 7.0)], &[]]));
    world.send_current(&mut members);
    let loads = world.core.server_loads(world.now.monotonic);
    let told = |server: usize| -> Vec<_> {
        let cachelets = loads[server].workers.iter().flat_map(|(w, _)| &w.cachelets);
        cachelets.map(|load| (load.cachelet.0, load.load)).collect()
    };
    assert_eq!(told(0), [(of[0][0], 1.0)]);
    assert_eq!(told(1), [(stolen, 7.0)]);
}

#[test]
fn news_that_make_no_sense_do_not_cost_a_server_its_life() {
    let (mut world, mut members, of) = settled();
    let good = news(&[&[(of[0][0], 10.0)], &[]]);
    let count = of.iter().map(Vec::len).sum::<usize>() as u16;
    let spoils: [fn(&mut LoadNews, u16); 5] = [
        |news, count| news.cachelets.id[0] = count,
        |news, _| news.cachelets.load[0] = RATE_MAX + 1,
        |news, _| news.cachelets.items.clear(),
        |news, _| news.workers.worker[1] = 2,
        |news, _| news.cachelets.id = vec![0; 1 << 16],
    ];
    for (spoil, unusable) in spoils.into_iter().zip(1..) {
        members[0].load.measured = Some(good.clone());
        world.send_current(&mut members);
        assert_eq!(world.core.server_loads(world.now.monotonic).len(), 1);
        let mut spoilt = good.clone();
        spoil(&mut spoilt, count);
        members[0].load.measured = Some(spoilt);
        world.send_current(&mut members);
        assert_eq!(world.core.load_news_counts().unusable, unusable);
        // Its loads are unknown, and everybody can see why. It is up.
        assert!(world.core.server_loads(world.now.monotonic).is_empty());
        let view = world
            .core
            .cluster_loads(world.now.monotonic, LoadOrder::Place, 10);
        assert!(view.servers[0].unusable.is_some() && view.servers[0].age_ms.is_none());
        assert_eq!(world.core.servers_up(), 2);
    }
}
